//! Terminal output: the live view, the summary, the tables, the errors.
//!
//! Everything here is made from the archive's types and returned as text or written to a given
//! stream; nothing here decides what a number means. Names that come from a network are made
//! harmless by [`sanitise`] before they are printed.

mod calibration;
mod classes;
mod comparison;
mod comparison_functions;
mod difference;
mod doctor;
mod error;
mod functions;
mod grid;
mod history;
mod interval;
mod known;
mod limit;
mod live;
mod live_beside;
mod live_scenarios;
mod live_table;
mod matrix;
mod messages;
mod observer_effect;
pub mod out;
mod page;
mod repeats;
mod runs;
mod scenario;
mod scrapes;
mod shape;
mod steps;
mod summary;
mod table;
#[cfg(test)]
mod tests;
mod text;
mod work;

pub use calibration::{LoadRow, WakeRow, calibration};
pub use classes::classes;
pub use comparison::comparison;
pub use difference::{DifferenceSort, DifferenceTable, difference, difference_as_json};
pub use doctor::{CheckRow, CheckStatus, doctor};
pub use error::{error, error_as_json};
pub use functions::{
    FunctionRow, FunctionRowOf, FunctionRows, FunctionSort, FunctionTable, RestShare, few_samples,
    functions,
};
pub use grid::{grid, named_grid};
pub use history::history;
pub use limit::limit;
pub use live::Live;
pub use live_beside::PageRequests;
pub use matrix::matrix;
pub use observer_effect::observer_table;
pub use page::{TopicOf, page, page_title};
pub use repeats::{repeated, repeats};
pub use runs::{labels, removed, runs};
pub use scrapes::{ScrapeRow, SelectedRow, scrapes};
pub use shape::Shape;
pub use steps::Steps;
pub use summary::{remarks, summary, warnings};
pub use text::{Style, fit, fit_apart, listed, prose, sanitise, sentence, width, wrap};
pub use work::{work, work_rows};

/// A phase as people call it.
const fn phase_name(phase: measure::Phase) -> &'static str {
    match phase {
        measure::Phase::Warmup => "warm-up",
        measure::Phase::Measure => "measure",
        measure::Phase::Drain => "drain",
    }
}
