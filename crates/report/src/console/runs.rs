//! The archive as a table.

use archive::{RunEntry, RunRecord, RunState};
use measure::{Metric, Nanos};

use super::table::{Align, Table};
use super::text::{Style, sanitise};
use crate::numbers::three_digits;

/// The runs, as given (newest first), ending in a newline.
#[must_use]
pub fn runs(entries: &[RunEntry], style: Style) -> String {
    let mut table = Table::new(
        &[
            ("when (UTC)", Align::Left),
            ("run", Align::Left),
            ("broker", Align::Left),
            ("msg/s", Align::Right),
            ("ack p99", Align::Right),
            ("warnings", Align::Right),
            ("state", Align::Left),
        ],
        1,
    );
    let mut unreadable = Vec::new();
    for entry in entries {
        match &entry.record {
            Ok(record) => table.row(row(record)),
            Err(why) => unreadable.push(format!("{}: {}", sanitise(&entry.id), sanitise(why))),
        }
    }
    let mut lines = table.lines(style.columns);
    if let Some(heads) = lines.first_mut() {
        *heads = style.strong(heads);
    }
    for why in unreadable {
        lines.push(style.caution(&format!("unreadable: {why}")));
    }
    lines.join("\n") + "\n"
}

fn row(record: &RunRecord) -> Vec<String> {
    let summary = record.summary.as_ref();
    let scenario = summary.and_then(|s| s.scenarios().next());
    let scenario = scenario.filter(|_| !summary.is_some_and(archive::RunSummary::has_messages));
    let rate = summary.map_or(0.0, |s| s.sent.rate.max(s.received.rate));
    let rate = match scenario {
        None => three_digits(rate),
        Some((_, of)) => format!("{} {}", three_digits(of.rate), sanitise(&of.unit)),
    };
    let headline = scenario.and_then(|(_, of)| Some(of.headline()?.1));
    let p99 = summary
        .map(|s| s.latency.get(Metric::ACK_RESPONSE))
        .filter(|latency| latency.count > 0)
        .or(headline)
        .map_or_else(|| "-".into(), |latency| Nanos(latency.p99_ns).to_string());
    let broker = summary.map(|s| match &s.broker.version {
        Some(version) => format!("{} {version}", s.broker.kind),
        None => s.broker.kind.clone(),
    });
    let warnings = summary.map_or(record.warnings.len(), |s| s.warnings.len());
    vec![
        sanitise(record.created.get(..16).unwrap_or(&record.created)).replace('T', " "),
        sanitise(short_id(&record.id)).into_owned(),
        sanitise(&broker.unwrap_or_else(|| "-".into())).into_owned(),
        if summary.is_some() { rate } else { "-".into() },
        p99,
        warnings.to_string(),
        state_name(record.state).to_owned(),
    ]
}

/// The id without its time, which has a column of its own. Commands take it as it stands.
fn short_id(id: &str) -> &str {
    id.split_once("Z-")
        .filter(|(time, _)| time.len() == 19)
        .map_or(id, |(_, rest)| rest)
}

/// What people read for a state.
pub(super) const fn state_name(state: RunState) -> &'static str {
    match state {
        RunState::Running => "unfinished",
        RunState::Complete => "complete",
        RunState::Interrupted => "interrupted",
        RunState::Failed => "failed",
    }
}
