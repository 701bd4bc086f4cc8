//! The archive as a table.

use std::collections::BTreeSet;

use archive::{RunEntry, RunRecord};

use super::table::{Table, or_dash};
use super::text::{Style, fit, sanitise, width};
use crate::numbers::{bytes, counted, percentile, seconds, three_digits};
use crate::text;

/// A run's cell keeps at least this width.
const LEAST_RUN: usize = 20;
/// The column of latencies.
const P99: usize = 4;

/// The runs, as given, ending in a newline. Under a run stand its tags and its note.
pub fn runs(entries: &[RunEntry], style: Style) -> String {
    let names: BTreeSet<&str> = entries.iter().filter_map(RunEntry::latency).map(|(metric, _)| metric.name()).collect();
    // Latencies of several kinds have their names beside them.
    let are_named = names.len() > 1;
    let name = names.first().filter(|_| !are_named).map_or_else(String::new, |name| format!("{} ", sanitise(name)));
    let of = if are_named { "|of<" } else { "" };
    let heads = format!("run<|when (UTC)<|state<|rate|p99{of}|took|size|broker<|warn");
    let mut table = Table::of(&heads).titled(P99, &format!("{name}p99"));
    // The least important columns go first; a run's warnings belong to its figures.
    table.drop = if are_named { &[8, 1, 7, 6, 9, P99, 5, 3, 2] } else { &[7, 1, 6, 5, 8, P99, 3, 2] };
    let mut unreadable = Vec::new();
    for entry in entries {
        match &entry.record {
            Ok(record) => {
                table.row(row(entry, record, are_named));
                table.note(labels(entry));
            }
            Err(why) => unreadable.push(format!("{}: {}", sanitise(&entry.id), sanitise(why))),
        }
    }
    table.shorten_first(style.columns, LEAST_RUN, shortened);
    let mut lines = table.strong_lines(style);
    lines.extend(unreadable.iter().map(|why| style.caution(&format!("unreadable: {why}"))));
    lines.join("\n") + "\n"
}

/// The part that it is of a run of a fleet, tags and note in one line; empty where there is nothing of them.
pub fn labels(entry: &RunEntry) -> String {
    let labels = match &entry.labels {
        Ok(labels) => labels,
        Err(why) => return format!("labels unreadable: {}", sanitise(why)),
    };
    let tags: Vec<String> = labels.tags.iter().map(|tag| format!("#{tag}")).collect();
    let note = labels.note.iter().map(|note| format!("note: {}", sanitise(note)));
    let tags = Some(tags.join(" ")).filter(|it| !it.is_empty());
    let part = entry.fleet().and_then(|of| match of.is_part() {
        true => Some(format!("worker {}'s part of {}", sanitise(&of.name), sanitise(&of.run))),
        // Its workers' folders may be had by this name.
        false if entry.state() == Some("unfinished") => Some(format!("of a fleet, {}", sanitise(&of.run))),
        false => None,
    });
    part.into_iter().chain(tags).chain(note).collect::<Vec<_>>().join("; ")
}

/// The cells of a run; `is_named`: with the name of its latency.
fn row(entry: &RunEntry, record: &RunRecord, is_named: bool) -> Vec<String> {
    let summary = record.summary.as_ref();
    let rate = entry.rate().map(|(rate, unit)| format!("{} {}/s", three_digits(rate), sanitise(unit.unwrap_or("msg"))));
    let latency = entry.latency();
    let p99 = latency.map(|(_, of)| percentile(of, "p99"));
    let name = is_named.then(|| latency.map_or_else(String::new, |(of, _)| sanitise(of.name()).into_owned()));
    let broker = summary.map(|it| text::broker(record, &it.broker)).filter(|it| !it.is_empty());
    let warnings = summary.map_or(record.warnings.len(), |s| s.warnings.len());
    let mut cells = vec![
        sanitise(short_id(&record.id)).into_owned(),
        sanitise(record.created.get(..16).unwrap_or(&record.created)).replace('T', " "),
        state(entry),
        or_dash(rate),
        or_dash(p99),
    ];
    cells.extend(name);
    cells.extend([
        or_dash(entry.seconds().map(seconds)),
        bytes(entry.bytes),
        sanitise(&or_dash(broker)).into_owned(),
        warnings.to_string(),
    ]);
    cells
}

/// The state of a run, and whether it missed a requirement.
fn state(entry: &RunEntry) -> String {
    let state = entry.state().unwrap_or("-");
    match entry.requirements() {
        Some("missed") if state == "complete" => "missed".to_owned(),
        Some("missed") => format!("{state}, missed"),
        _ => state.to_owned(),
    }
}

/// The id without its time, which has a column of its own. Commands take it as it stands.
fn short_id(id: &str) -> &str {
    id.split_once("Z-").filter(|(time, _)| time.len() == 19).map_or(id, |(_, rest)| rest)
}

/// A shorter name, with the end of the id behind it, which names the run as the whole id does.
fn shortened(id: &str, columns: usize) -> String {
    let (name, end) = id.rsplit_once('-').unwrap_or(("", id));
    let room = columns.saturating_sub(width(end) + 1);
    format!("{} {end}", fit(name, room))
}

/// How many runs were removed, or would be, and how much room that makes.
pub fn removed(number: u64, size: u64, dry_run: bool) -> String {
    let what = counted(number, "run");
    let done = if dry_run { "would be removed" } else { "removed" };
    format!("{what} {done}, {}\n", bytes(size))
}
