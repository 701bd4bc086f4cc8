//! Terminal output: the live view, the summary, the tables, the errors.
//!
//! Everything here is made from the archive's types and returned as text or written to a given
//! stream; nothing here decides what a number means. Names that come from a network are made
//! harmless by [`sanitise`] before they are printed.

mod brief;
mod comparison;
mod difference;
mod functions;
mod history;
mod interval;
mod limit;
mod live;
mod live_beside;
mod live_charts;
mod live_table;
mod matrix;
mod messages;
mod observer_effect;
pub mod out;
mod page;
mod repeats;
mod rows;
mod runs;
mod scenario;
mod scrapes;
mod summary;
mod table;
mod text;

use measure::{Metric, Nanos, Phase, Problem};
use serde_json::json;

pub use brief::brief;
pub use comparison::{comparison, comparison_brief};
pub use difference::{DifferenceSort, DifferenceTable, difference, difference_as_json};
pub use functions::{
    FunctionRow, FunctionRowOf, FunctionRows, FunctionSort, FunctionTable, RestShare, classes, few_samples, functions,
    language_functions, work, work_rows,
};
pub use history::history;
pub use limit::{limit, limit_brief};
pub use live::{Live, RunsProgress, Steps};
pub use live_beside::PageRequests;
pub use matrix::{matrix, matrix_brief};
pub use observer_effect::observer_table;
pub use page::{TopicOf, page, page_sections, page_title};
pub use repeats::{repeated, repeats};
pub use runs::{labels, removed, runs};
pub use scrapes::{ScrapeRow, SelectedRow, scrapes};
pub use summary::{remarks, summary, warnings};
pub use table::{grid, named_grid};
pub use text::{Style, fit, fit_apart, fit_middle, listed, prose, sanitise, sentence, width, wrap};

/// A phase as people call it.
const fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Warmup => "warm-up",
        Phase::Measure => "measure",
        Phase::Drain => "drain",
    }
}

/// `error: …`, `help: …` below it, and below that the lines of a log that explains it; ends in a
/// newline. The text may come from a network and is made harmless.
pub fn error(problem: &Problem, style: Style) -> String {
    labelled(&style.alarm("error:"), &problem.to_string(), style) + &help(problem, style)
}

/// One paragraph behind a label.
fn labelled(label: &str, text: &str, style: Style) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    prose(&format!("{label} {}", sanitise(&text)), style)
}

/// The part of [`error()`] below the cause, where the same screen has that above.
pub fn help(problem: &Problem, style: Style) -> String {
    let mut out = String::new();
    if !problem.help.is_empty() {
        out.push_str(&labelled(&style.strong("help:"), &problem.help, style));
    }
    for entry in problem.log.lines() {
        let line = format!("  {}", sanitise(entry.trim_end()));
        // Lines of logs and tables are searched: only a screen breaks them.
        out.push_str(&if style.terminal { prose(&line, style) } else { line + "\n" });
    }
    out
}

/// JSON of an error: `{"error": {"cause", "value", "help"}}`.
pub fn error_as_json(problem: &Problem) -> serde_json::Value {
    json!({ "error": problem })
}

/// Parts of a run, so that only those that apply are shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// Heading of the live view: the experiment or the destination.
    pub title: String,
    /// Addition to a title that is not unique: the address of a probe.
    pub about: String,
    /// Something is sent.
    pub producers: bool,
    /// Something is received.
    pub consumers: bool,
    /// There is a target rate, so that intended and actual send time differ.
    pub paced: bool,
    /// Latencies are shown during the run.
    pub latency: bool,
    /// Length of the warm-up.
    pub warmup: Nanos,
    /// Length of the measured phase; `None` where it ends by a count or by hand.
    pub measure: Option<Nanos>,
    /// Progress where it is one of several runs, of which the address of the broker is of no use later.
    pub progress: Option<RunsProgress>,
}

impl Shape {
    /// Whether the latency exists in such a run.
    pub const fn shows(&self, metric: Metric) -> bool {
        match metric {
            Metric::END_TO_END | Metric::TRANSFER => self.consumers,
            Metric::SEND_DELAY => self.producers && self.paced,
            _ => self.producers,
        }
    }

    /// Planned length of a phase. The drain has none: it ends when all has arrived.
    pub const fn planned(&self, phase: Phase) -> Option<Nanos> {
        match phase {
            Phase::Warmup => Some(self.warmup),
            Phase::Measure => self.measure,
            Phase::Drain => None,
        }
    }
}

#[cfg(test)]
mod tests;
