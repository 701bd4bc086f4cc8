//! Units, the clock, recorders and interval series: the vocabulary in which every other crate
//! talks about time and counts. The definitions are those of `docs/measurement.md`.
//!
//! Nothing here allocates after construction on a recording path.

mod clock;
mod counted;
mod counts;
mod interval;
mod latencies;
pub mod ledger;
mod length;
mod metric;
mod named;
mod percent;
mod phase;
mod problem;
mod quantity;
mod recorder;
mod refused;
mod secret;
mod slice_recorder;
mod summaries;
mod units;
mod waits;

pub use clock::{Clock, wall_clock_unix_ns};
pub use counted::{count, counted, shell_word};
pub use counts::Counts;
pub use interval::{Counters, Interval, Slice};
pub use latencies::Latencies;
pub use length::{Length, LengthRange};
pub use metric::{Metric, MetricInfo, MetricKind, described};
pub use percent::{percent_decoded, percent_encoded};
pub use phase::Phase;
pub use problem::Problem;
pub use quantity::{Bytes, Rate, from_number_or_text, per_second, whole_number};
pub use recorder::{
    DueHistogram, HIGHEST_NS, Recorder, SIGNIFICANT_DIGITS, lowest_equivalent, new_histogram,
};
pub use refused::Refused;
pub use secret::Secret;
pub use slice_recorder::{SliceHistogram, SliceRecorder};
pub use summaries::{LatencySummary, Summaries};
pub use units::{Nanos, Time};
pub use waits::{Wait, Waits};
