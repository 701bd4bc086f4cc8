//! Columns of the live view that a terminal has room for.

use super::ProcessOrder;

/// The narrowest name of a process that is of use: `connection 127.0.0.1:45678…0.0.1:5672`.
pub(super) const LEAST_NAME: usize = 40;
/// The narrowest function that is of use.
const LEAST_FUNCTION: u16 = 24;
/// Marks the head of the column that gives the order.
pub(super) const MARK: &str = " v";

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
    /// All columns, from left to right.
    const ALL: [Self; 7] = [
        Self::Name,
        Self::Number(ProcessOrder::Reductions),
        Self::Number(ProcessOrder::Memory),
        Self::Number(ProcessOrder::Messages),
        Self::Number(ProcessOrder::Binaries),
        Self::Pid,
        Self::Function,
    ];
    /// Columns that a narrow terminal omits, the least useful first.
    const LEFT_OUT: [Self; 6] = [
        Self::Function,
        Self::Pid,
        Self::Number(ProcessOrder::Binaries),
        Self::Number(ProcessOrder::Messages),
        Self::Number(ProcessOrder::Memory),
        Self::Number(ProcessOrder::Reductions),
    ];

    /// The column's head.
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

    /// The width below which it is of no use, where its longest text has this one.
    fn least(self, longest: u16) -> u16 {
        let head = self.head().len() as u16;
        match self {
            Self::Name => longest.clamp(head, LEAST_NAME as u16),
            // The mark of the order stands behind the head.
            Self::Number(_) => longest.max(head + MARK.len() as u16),
            Self::Pid => longest.max(head),
            Self::Function => longest.clamp(head, LEAST_FUNCTION),
        }
    }
}

/// The columns that fit, each with its width: as wide as its `longest` text, where there is room. Numbers and
/// identifiers are never cut; names have the room before functions.
pub(super) fn columns(
    width: u16,
    sort: ProcessOrder,
    longest: impl Fn(TopColumn) -> u16,
) -> Vec<(TopColumn, u16)> {
    let mut shown = TopColumn::ALL.to_vec();
    let least = |column: TopColumn| column.least(longest(column));
    let needed = |shown: &[TopColumn]| {
        let widths = shown.iter().map(|it| least(*it)).sum::<u16>();
        // A blank stands between two.
        widths + (shown.len() as u16).saturating_sub(1)
    };
    for column in TopColumn::LEFT_OUT {
        if needed(&shown) > width && column != TopColumn::Number(sort) {
            shown.retain(|it| *it != column);
        }
    }
    let mut spare = width.saturating_sub(needed(&shown));
    let missing = needed(&shown).saturating_sub(width);
    let widths = shown.into_iter().map(|column| {
        let least = least(column);
        let width = match column {
            TopColumn::Name | TopColumn::Function => {
                let more = longest(column).saturating_sub(least).min(spare);
                spare -= more;
                least + more
            }
            _ => least,
        };
        match column {
            TopColumn::Name => (column, width.saturating_sub(missing)),
            _ => (column, width),
        }
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
                let shown = columns(width, sort, |_| 14);
                let wide = columns(width, sort, |_| 60);
                let whole: u16 = wide.iter().map(|(_, it)| it + 1).sum();
                assert!(width < 80 || whole - 1 <= width, "{width}: {wide:?}");
                let (first, name) = shown[0];
                assert_eq!(first, TopColumn::Name);
                let narrowest = 14 + 1 + 14;
                assert!(width < narrowest || name == 14, "{width}: {shown:?}");
                let ordered = TopColumn::Number(sort);
                assert!(shown.iter().any(|(it, _)| *it == ordered), "{shown:?}");
                let whole: u16 = shown.iter().map(|(_, it)| it + 1).sum();
                assert!(width < 16 || whole - 1 <= width, "{width}: {shown:?}");
            }
        }
    }

    #[test]
    fn more_room_shows_more_columns() {
        let longest = |column| match column {
            TopColumn::Name => 60,
            TopColumn::Function => 40,
            _ => 10,
        };
        let number = |width| columns(width, ProcessOrder::Reductions, longest).len();
        assert_eq!([60, 80, 90, 120, 140].map(number), [2, 4, 5, 6, 7]);
        // A name is not cut while there is room for it.
        let name = |width| columns(width, ProcessOrder::Reductions, longest)[0].1;
        assert_eq!([160, 200, 250].map(name), [60, 60, 60]);
    }
}
