//! Units, the clock, recorders and interval series: the vocabulary in which every other crate
//! talks about time and counts. The definitions are those of `docs/measurement.md`.
//!
//! Nothing here allocates after construction on a recording path.

mod interval;
pub mod ledger;
mod metric;
mod problem;
mod quantity;
mod recorder;
mod secret;
mod slice_recorder;
mod text;
mod units;

pub use interval::{Counters, Counts, Interval, Slice, Wait, Waits};
pub use metric::{Metric, MetricInfo, MetricKind, ScenarioRole, described};
pub use problem::{Problem, Refused};
pub use quantity::{Bytes, Length, LengthRange, Rate, from_number_or_text, per_second, whole_number};
pub use recorder::{
    DueHistogram, HIGHEST_NS, Latencies, LatencySummary, Phase, Recorder, SIGNIFICANT_DIGITS, Summaries,
    lowest_equivalent, new_histogram,
};
pub use secret::Secret;
pub use slice_recorder::{SliceHistogram, SliceRecorder};
pub use text::{count, counted, hex, percent_decoded, percent_encoded, shell_word};
pub use units::{Clock, Nanos, Time, wall_clock_unix_ns};

/// Declares an enum with the name of each of its values behind it: `ALL` of them in their order, and `name()`.
#[macro_export]
macro_rules! named {
    ($(#[$of:meta])* $visible:vis enum $kind:ident { $($(#[$doc:meta])* $value:ident = $name:literal,)+ }) => {
        $(#[$of])*
        $visible enum $kind { $($(#[$doc])* $value,)+ }

        impl $kind {
            /// All of them, in their order.
            $visible const ALL: [Self; [$($name),+].len()] = [$(Self::$value),+];

            /// Name for people.
            #[must_use]
            $visible const fn name(self) -> &'static str {
                match self { $(Self::$value => $name,)+ }
            }
        }
    };
}
