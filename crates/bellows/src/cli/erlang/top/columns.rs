//! Which columns of the live view a terminal has room for.

use super::ProcessOrder;

/// The narrowest name of a process that is of use: `connection 127.0.0.1:45678 -> 127…`.
pub(super) const LEAST_NAME: usize = 40;
/// The widest function that is worth the room: the rest is the name's.
const MOST_FUNCTION: u16 = 40;

/// A column of the live view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TopColumn {
    /// Role and name.
    Name,
    /// A number that processes can be put in order by.
    Number(ProcessOrder),
    /// The process' identifier.
    Pid,
    /// The function that the process is in.
    Function,
}

impl TopColumn {
    /// All of them, as they stand from left to right.
    const ALL: [Self; 7] = [
        Self::Name,
        Self::Number(ProcessOrder::Reductions),
        Self::Number(ProcessOrder::Memory),
        Self::Number(ProcessOrder::Messages),
        Self::Number(ProcessOrder::Binaries),
        Self::Pid,
        Self::Function,
    ];
    /// Those that a narrow terminal goes without, the least useful first.
    const LEFT_OUT: [Self; 6] = [
        Self::Function,
        Self::Pid,
        Self::Number(ProcessOrder::Binaries),
        Self::Number(ProcessOrder::Messages),
        Self::Number(ProcessOrder::Memory),
        Self::Number(ProcessOrder::Reductions),
    ];

    /// What stands above it.
    pub(super) const fn head(self) -> &'static str {
        match self {
            Self::Name => "process",
            Self::Number(ProcessOrder::Reductions) => "reductions/s",
            Self::Number(ProcessOrder::Memory) => "memory",
            Self::Number(ProcessOrder::Messages) => "messages",
            Self::Number(ProcessOrder::Binaries) => "binaries",
            Self::Pid => "pid",
            Self::Function => "in",
        }
    }

    /// The width that it needs at least.
    const fn width(self) -> u16 {
        match self {
            Self::Name => LEAST_NAME as u16,
            Self::Number(ProcessOrder::Reductions) | Self::Pid => 14,
            Self::Number(_) => 10,
            Self::Function => 24,
        }
    }
}

/// The columns that fit, each with its width. The name has what the others leave.
pub(super) fn columns(width: u16, sort: ProcessOrder) -> Vec<(TopColumn, u16)> {
    let mut shown = TopColumn::ALL.to_vec();
    let needed = |shown: &[TopColumn]| {
        let widths = shown.iter().map(|it| it.width()).sum::<u16>();
        // A blank stands between two.
        widths + (shown.len() as u16).saturating_sub(1)
    };
    for column in TopColumn::LEFT_OUT {
        if needed(&shown) > width && column != TopColumn::Number(sort) {
            shown.retain(|it| *it != column);
        }
    }
    let spare = width.saturating_sub(needed(&shown));
    let for_function = match shown.contains(&TopColumn::Function) {
        true => (spare / 2).min(MOST_FUNCTION - TopColumn::Function.width()),
        false => 0,
    };
    let missing = needed(&shown).saturating_sub(width);
    let widths = shown.into_iter().map(|column| {
        let width = match column {
            TopColumn::Name => (column.width() + spare - for_function).saturating_sub(missing),
            TopColumn::Function => column.width() + for_function,
            _ => column.width(),
        };
        (column, width)
    });
    widths.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_keeps_its_width_and_the_order_its_column() {
        for sort in [
            ProcessOrder::Reductions,
            ProcessOrder::Memory,
            ProcessOrder::Messages,
            ProcessOrder::Binaries,
        ] {
            for width in 1..400 {
                let shown = columns(width, sort);
                let (first, name) = shown[0];
                assert_eq!(first, TopColumn::Name);
                let narrowest = 40 + 1 + 14;
                assert!(width < narrowest || name >= 40, "{width}: {shown:?}");
                let ordered = TopColumn::Number(sort);
                assert!(shown.iter().any(|(it, _)| *it == ordered), "{shown:?}");
                let whole: u16 = shown.iter().map(|(_, it)| it + 1).sum();
                assert!(width < 16 || whole - 1 <= width, "{width}: {shown:?}");
            }
        }
    }

    #[test]
    fn more_room_shows_more_columns() {
        let number = |width| columns(width, ProcessOrder::Reductions).len();
        assert_eq!([60, 80, 90, 120, 140].map(number), [2, 4, 5, 6, 7]);
    }
}
