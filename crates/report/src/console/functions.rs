//! The table of functions.

use archive::profile::{FunctionCount, Profile};

use super::table::{Align, Table};
use super::text::{Style, sanitise, wrap};
use crate::numbers::{count, percent_digits};
use crate::text;

/// What the rows are ordered by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FunctionSort {
    /// Samples with the function at the leaf.
    #[default]
    SelfShare,
    /// Samples with the function anywhere.
    Total,
}

/// Which functions are shown.
pub struct FunctionTable<'a> {
    /// At most this many rows.
    pub limit: usize,
    /// Their order, largest first.
    pub sort: FunctionSort,
    /// Only functions of which this says yes, by their name.
    pub only: &'a dyn Fn(&str) -> bool,
}

impl FunctionTable<'_> {
    /// The functions of the table, and how many match and how many there are in all.
    #[must_use]
    pub fn rows(&self, profile: &Profile) -> (Vec<FunctionCount>, usize, usize) {
        let mut rows = profile.functions();
        if self.sort == FunctionSort::Total {
            // Stable: functions of equal total stay in the order of their self share.
            rows.sort_by_key(|row| std::cmp::Reverse(row.total_weight));
        }
        let all = rows.len();
        rows.retain(|row| (self.only)(&row.share.function));
        let matching = rows.len();
        rows.truncate(self.limit);
        (rows, matching, all)
    }
}

/// The functions of a profile, and below them what is to be known of the whole, ending in a
/// newline. Shares are of all samples, also where only some functions are shown.
#[must_use]
pub fn functions(profile: &Profile, options: &FunctionTable<'_>, style: Style) -> String {
    let (rows, matching, all) = options.rows(profile);
    let mut table = Table::new(&[
        ("self %", Align::Right),
        ("total %", Align::Right),
        ("samples", Align::Right),
        ("module", Align::Left),
        ("function", Align::Left),
    ]);
    table.give_way(4);
    for row in &rows {
        table.row(vec![
            percent_digits(row.share.self_share),
            percent_digits(row.share.total),
            count(row.self_weight),
            sanitise(&row.share.module).into_owned(),
            sanitise(&row.share.function).into_owned(),
        ]);
    }
    let mut lines = table.lines(style.columns);
    if let Some(heads) = lines.first_mut() {
        *heads = style.strong(heads);
    }
    lines.push(String::new());
    lines.extend(footer(profile, rows.len(), matching, all, style));
    lines.join("\n") + "\n"
}

fn footer(
    profile: &Profile,
    shown: usize,
    matching: usize,
    all: usize,
    style: Style,
) -> Vec<String> {
    let columns = style.prose_columns();
    let summary = profile.summary(0);
    let rows = if matching == all {
        format!("{} of {} functions", count(shown as u64), count(all as u64))
    } else {
        format!(
            "{} of {} matching functions ({} in all)",
            count(shown as u64),
            count(matching as u64),
            count(all as u64)
        )
    };
    let lines = vec![
        format!(
            "{rows}; {} {}, {} lost{}",
            count(summary.samples),
            sanitise(&profile.header.unit),
            count(summary.lost),
            text::clock(&summary).map_or_else(String::new, |clock| {
                format!(", taken {}", sanitise(&clock))
            })
        ),
        format!(
            "unknown share {} % (a frame without a name), complete share {} % (reaches its root)",
            percent_digits(summary.unknown_share),
            percent_digits(summary.complete_share)
        ),
    ];
    let stacks = text::stacks(&summary);
    lines
        .into_iter()
        .chain(stacks)
        .chain(notes(profile))
        .flat_map(|line| wrap(&line, columns))
        .map(|line| style.faint(&line))
        .collect()
}

/// What the reader of a profile should know, a line each.
pub(super) fn notes(profile: &Profile) -> impl Iterator<Item = String> {
    let notes = profile.notes.iter();
    notes.map(|note| format!("note: {}", sanitise(note)))
}
