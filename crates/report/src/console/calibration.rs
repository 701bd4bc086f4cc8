//! Results of a calibration.

use measure::Nanos;

use super::table::Table;
use super::text::{Style, sanitise, sentence};
use crate::numbers::three_digits;

/// Meaning of the sign before a rate.
const LOWER_BOUND: &str =
    ">= the generator could do more: broker, shared cores or other processes were the limit";

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
#[must_use]
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
            format!(
                "{}{}",
                if row.at_least { ">= " } else { "" },
                three_digits(row.rate)
            ),
            three_digits(row.client_ns),
            three_digits(row.broker_ns),
            row.lag.to_string(),
        ]);
    }
    for line in table.lines(style.columns) {
        out.push_str(&(line + "\n"));
    }
    if loads.iter().any(|row| row.at_least) {
        out.push_str(&sentence(LOWER_BOUND, style));
    }
    out.push('\n');
    for row in wakes {
        let [p50, p99, max] = row.late;
        let text = format!(
            "at {} msg/s its messages left {p50} late (p50), {p99} (p99), {max} at worst",
            three_digits(row.rate)
        );
        out.push_str(&sentence(&text, style));
    }
    out
}
