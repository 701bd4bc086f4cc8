//! Capabilities of this machine for measuring, and results of a calibration.

use measure::Nanos;

use super::table::Table;
use super::text::{Style, sanitise, sentence, wrap};
use crate::numbers::three_digits;

/// Meaning of the sign before a rate.
const LOWER_BOUND: &str = ">= the generator could do more: broker, shared cores or other processes were the limit";

/// How a check turned out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckStatus {
    /// Nothing to improve.
    Ok,
    /// Something cannot be measured as well as it could.
    Warn,
    /// Something cannot be measured at all.
    Bad,
}

/// One line of `bellows doctor`.
#[derive(Clone, Debug)]
pub struct CheckRow {
    /// Name of the check.
    pub name: String,
    /// How it turned out.
    pub status: CheckStatus,
    /// The value found.
    pub observed: String,
    /// Consequence for measurements.
    pub meaning: String,
    /// How to improve it.
    pub fix: Option<String>,
}

/// The checks, each with its value; meaning and fix below those that are not in order.
pub fn doctor(checks: &[CheckRow], style: Style) -> String {
    let name_width = checks.iter().map(|c| c.name.chars().count()).max().unwrap_or(0);
    let indent = 4 + 2 + name_width + 2;
    let room = style.columns.min(100).saturating_sub(indent).max(20);
    let mut out = String::new();
    for check in checks {
        let status = match check.status {
            CheckStatus::Ok => style.accent("ok  "),
            CheckStatus::Warn => style.caution("warn"),
            CheckStatus::Bad => style.alarm("bad "),
        };
        let name = super::text::left(&sanitise(&check.name), name_width);
        let mut lines = wrap(&sanitise(&check.observed), room);
        if check.status != CheckStatus::Ok {
            lines.extend(wrap(&sanitise(&check.meaning), room));
            lines.extend(check.fix.iter().flat_map(|fix| wrap(&format!("fix: {}", sanitise(fix)), room)));
        }
        let mut lines = lines.into_iter();
        out.push_str(&format!("{status}  {name}  {}\n", lines.next().unwrap_or_default()));
        lines.for_each(|line| out.push_str(&format!("{:indent$}{line}\n", "")));
    }
    let bad = |status| checks.iter().filter(|c| c.status == status).count();
    out.push_str(&format!(
        "\n{} checks: {} warn, {} bad\n",
        checks.len(),
        bad(CheckStatus::Warn),
        bad(CheckStatus::Bad)
    ));
    out
}

/// One load of a calibration.
#[derive(Clone, Debug)]
pub struct LoadRow {
    /// Name of the load.
    pub load: String,
    /// Bytes of a message.
    pub size: usize,
    /// Number of producers.
    pub connections: usize,
    /// Event loops.
    pub loops: usize,
    /// The rate is a lower bound.
    pub at_least: bool,
    /// Messages per second.
    pub rate: f64,
    /// CPU of bellows per message, nanoseconds.
    pub client_ns: f64,
    /// CPU of the embedded broker per message, nanoseconds.
    pub broker_ns: f64,
    /// The worst loop lag.
    pub lag: Nanos,
}

/// How late the event loop woke at a rate.
#[derive(Clone, Debug)]
pub struct WakeRow {
    /// Messages per second.
    pub rate: f64,
    /// Median, 99th percentile and maximum.
    pub late: [Nanos; 3],
}

/// The table of a calibration, below a line that names its machine.
pub fn calibration(machine: &str, wakes: &[WakeRow], loads: &[LoadRow], style: Style) -> String {
    let mut out = style.strong(&sanitise(machine)) + "\n\n";
    let heads = "unthrottled<|bytes|producers|loops|msg/s|CPU ns/msg|broker ns/msg|max lag";
    let mut table = Table::of(heads);
    for row in loads {
        table.row(vec![
            sanitise(&row.load).into_owned(),
            row.size.to_string(),
            row.connections.to_string(),
            row.loops.to_string(),
            format!("{}{}", if row.at_least { ">= " } else { "" }, three_digits(row.rate)),
            three_digits(row.client_ns),
            three_digits(row.broker_ns),
            row.lag.to_string(),
        ]);
    }
    table.lines(style.columns).into_iter().for_each(|line| out.push_str(&(line + "\n")));
    if loads.iter().any(|row| row.at_least) {
        out.push_str(&sentence(LOWER_BOUND, style));
    }
    out.push('\n');
    for row in wakes {
        let [p50, p99, max] = row.late;
        let text =
            format!("at {} msg/s its messages left {p50} late (p50), {p99} (p99), {max} (max)", three_digits(row.rate));
        out.push_str(&sentence(&text, style));
    }
    out
}
