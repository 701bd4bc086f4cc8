//! The table of whose work a node does.

use archive::profile::{Profile, Work, WorkBy};

use super::table::{Align, Table};
use super::text::{Style, sanitise, wrap};
use crate::numbers::{count, percent_digits};

/// What the work of a profile's processes is split by, the largest shares first, ending in a newline. At most
/// `limit` rows; the others are added up in one more.
#[must_use]
pub fn work(profile: &Profile, by: WorkBy, limit: usize, style: Style) -> String {
    let rows = profile.work(by);
    let all = profile.total_weight();
    if rows.is_empty() {
        let text = "no Erlang process is known in this profile: it is of another program, or was taken \
                    without copies of stacks";
        return wrap(text, style.prose_columns()).join("\n") + "\n";
    }
    let mut table = Table::new(&[
        ("share %", Align::Right),
        ("samples", Align::Right),
        ("processes", Align::Right),
        (head(by), Align::Left),
    ]);
    table.give_way(3);
    let (shown, others) = rows.split_at(limit.min(rows.len()));
    for row in shown.iter().cloned().chain(together(others)) {
        table.row(vec![
            percent_digits(row.weight as f64 / all.max(1) as f64),
            count(row.weight),
            count(row.processes as u64),
            sanitise(&row.of).into_owned(),
        ]);
    }
    let mut lines = table.lines(style.columns);
    if let Some(heads) = lines.first_mut() {
        *heads = style.strong(heads);
    }
    let unit = sanitise(&profile.header.unit).into_owned();
    let footer = format!(
        "{} {unit}, {} processes",
        count(all),
        count(processes(&rows))
    );
    lines.extend([String::new(), style.faint(&footer)]);
    lines.join("\n") + "\n"
}

/// What the rows are.
const fn head(by: WorkBy) -> &'static str {
    match by {
        WorkBy::Process => "process",
        WorkBy::Role => "role",
        WorkBy::Connection => "connection",
        WorkBy::VirtualHost => "virtual host",
    }
}

fn processes(rows: &[Work]) -> u64 {
    rows.iter().map(|row| row.processes as u64).sum()
}

/// What there was no row for, as one.
fn together(others: &[Work]) -> Option<Work> {
    (!others.is_empty()).then(|| Work {
        of: format!("{} others", count(others.len() as u64)),
        processes: processes(others) as usize,
        process: None,
        weight: others
            .iter()
            .fold(0, |sum, it| sum.saturating_add(it.weight)),
    })
}
