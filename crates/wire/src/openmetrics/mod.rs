//! Pages of metrics in Prometheus' text format 0.0.4 and in OpenMetrics 1.0, parsed as they arrive.
//!
//! [`Parser`] takes a page in pieces of any size and calls back with an [`PageEvent`] for each line. Names and labels
//! are slices of the piece, or of one carried line where a line spans two pieces; escapes in label values are decoded
//! only when [`Label::value`] is asked. A line that is wrong is skipped, counted, and told with its number and its
//! cause; a line above [`MAX_LINE`] is skipped without being kept. Neighbours on a page share the beginnings of their
//! lines (name, label names, most of the labels): what a line has in common with the one before it is compared and not
//! parsed again.

pub mod fuzzing;
mod line;
mod parser;
mod sample;

pub use line::{LineCause, LineError};
pub use parser::{MAX_LINE, PageEvent, PageFormat, PageTotals, Parser};
pub use sample::{Exemplar, FamilyKind, Label, Labels, Sample, SeriesRole, unescape};
