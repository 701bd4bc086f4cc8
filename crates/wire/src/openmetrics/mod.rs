//! Pages of metrics in Prometheus' text format 0.0.4 and in OpenMetrics 1.0, parsed as they arrive. [`Parser`] takes a
//! page in pieces of any size and calls back with an [`PageEvent`] for each line; names and labels are slices, and
//! escapes are decoded only when [`Label::value`] is asked. A line that is wrong is skipped, counted and told with its
//! number and cause; one above [`MAX_LINE`] is never kept. What a line has in common with the one before is compared,
//! not parsed.

pub mod fuzzing;
mod line;
mod parser;
mod sample;

pub use line::{LineCause, LineError};
pub use parser::{MAX_LINE, PageEvent, PageFormat, PageTotals, Parser};
pub use sample::{Exemplar, FamilyKind, Label, Labels, Sample, SeriesRole, unescape};
