//! The table of whose work a node does.

use stacks::{Profile, Work, WorkBy, WorkKind};

use super::known::notes;
use super::table::{Align, Table};
use super::text::{Style, sanitise, wrap};
use crate::numbers::{count, counted, percent_digits, weight, weight_digits, weight_head};

/// The rows of the table: the largest shares first, at most `limit`; the others are added up in one more.
#[must_use]
pub fn work_rows(profile: &Profile, by: WorkBy, limit: usize) -> Vec<Work> {
    let mut rows = profile.work(by);
    let others = rows.split_off(limit.min(rows.len()));
    rows.extend(together(&others));
    rows
}

/// Table of the work of a profile's processes, and notes on the whole, ending in a newline.
#[must_use]
pub fn work(profile: &Profile, by: WorkBy, limit: usize, style: Style) -> String {
    let rows = work_rows(profile, by, limit);
    let mut lines = if rows.is_empty() {
        let text = "no Erlang process is known in this profile: it is of another program, or was taken \
                    without copies of stacks; profile a RabbitMQ node as root (`bellows help stacks`)";
        wrap(text, style.prose_columns())
    } else {
        table(profile, by, &rows, style)
    };
    lines.extend(notes(profile).flat_map(|note| style.faint_prose(&note)));
    lines.join("\n") + "\n"
}

fn table(profile: &Profile, by: WorkBy, rows: &[Work], style: Style) -> Vec<String> {
    let unit = sanitise(&profile.header.unit);
    let mut table = Table::new(&[
        ("share %", Align::Right),
        (weight_head(&unit), Align::Right),
        ("processes", Align::Right),
        (by.name(), Align::Left),
    ]);
    table.give_way(3);
    for row in rows {
        table.row(vec![
            percent_digits(row.share),
            weight_digits(row.weight, &unit),
            count(row.processes as u64),
            sanitise(&row.of).into_owned(),
        ]);
    }
    let mut lines = table.strong_lines(style);
    let footer = format!(
        "{}, {}",
        weight(profile.total_weight(), &unit),
        counted(processes(rows) as u64, "process")
    );
    lines.extend([String::new(), style.faint(&footer)]);
    let guessed = from_stacks(rows);
    if guessed > 0 {
        let text = format!(
            "known by their stacks alone, because the node was not asked or they had ended: {}",
            count(guessed as u64)
        );
        lines.extend(style.faint_prose(&text));
    }
    lines
}

fn processes(rows: &[Work]) -> usize {
    rows.iter().map(|row| row.processes).sum()
}

fn from_stacks(rows: &[Work]) -> usize {
    rows.iter().map(|row| row.from_stacks).sum()
}

/// The remaining rows as one.
fn together(others: &[Work]) -> Option<Work> {
    (!others.is_empty()).then(|| Work {
        of: format!("others ({})", counted(others.len() as u64, "row")),
        kind: WorkKind::Others,
        role: String::new(),
        share: others.iter().map(|it| it.share).sum(),
        weight: others
            .iter()
            .fold(0, |sum, it| sum.saturating_add(it.weight)),
        processes: processes(others),
        from_stacks: from_stacks(others),
    })
}

#[cfg(test)]
mod tests {
    use stacks::{ErlangProcess, Sample, Unwinding};

    use super::*;

    #[test]
    fn notes_stand_below_and_the_rows_hold_all_samples() {
        let sample = |process, weight| Sample {
            t: 0,
            weight,
            stack: 0,
            thread: 0,
            cpu: 0,
            complete: true,
            unwinding: Unwinding::Unknown,
            process,
            wait: None,
        };
        let ids = ["<0.1.0>", "<0.2.0>", "<0.3.0>"];
        let profile = Profile {
            processes: ids.map(ErlangProcess::unnamed).to_vec(),
            samples: vec![
                sample(Some(0), 5),
                sample(None, 3),
                sample(Some(1), 1),
                sample(Some(2), 1),
            ],
            notes: vec!["line 7 is damaged".into()],
            ..Profile::default()
        };
        let rows = work_rows(&profile, WorkBy::Process, 2);
        let found: Vec<_> = rows
            .iter()
            .map(|row| (row.kind, row.share, row.weight, row.processes))
            .collect();
        assert_eq!(
            found,
            [
                (WorkKind::Processes, 0.5, 5, 1),
                (WorkKind::NoProcess, 0.3, 3, 0),
                (WorkKind::Others, 0.2, 2, 2)
            ]
        );
        for profile in [
            &profile,
            &Profile {
                processes: Vec::new(),
                ..profile.clone()
            },
        ] {
            let text = work(profile, WorkBy::Process, 2, Style::PLAIN);
            assert!(text.ends_with("\nnote: line 7 is damaged\n"), "{text}");
        }
    }
}
