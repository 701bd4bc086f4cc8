//! Units, the clock, recorders and interval series: the vocabulary in which every other crate
//! talks about time and counts. The definitions are those of `docs/measurement.md`.
//!
//! Nothing here allocates after construction on a recording path.

mod interval;
pub mod leb128;
pub mod ledger;
mod metric;
mod problem;
mod quantity;
mod recorder;
mod secret;
mod slice_recorder;
mod text;
mod thread_usage;
mod units;

pub use interval::{Counters, Counts, Interval, Slice, Wait, Waits};
pub use metric::{Metric, MetricInfo, MetricKind, ScenarioRole, described};
pub use problem::{Problem, Refused};
pub use quantity::{
    Bytes, Length, LengthRange, Rate, SCATTER_STEP, from_number_or_text, per_second, scatter, whole_number,
};
pub use recorder::{
    DueHistogram, HIGHEST_NS, Latencies, LatencySummary, Phase, Recorder, SIGNIFICANT_DIGITS, Summaries,
    lowest_equivalent, new_histogram,
};
pub use secret::Secret;
pub use slice_recorder::{SliceHistogram, SliceRecorder};
pub use text::{count, counted, hex, percent_decoded, percent_encoded, shell_word};
pub use thread_usage::{EarlyDeliveries, ThreadUsage};
pub use units::{Clock, Nanos, Time, wall_clock_unix_ns};

/// Keeps a type in files as its text; with what is expected, it also reads a number ([`from_number_or_text`]).
#[macro_export]
macro_rules! kept_as_text {
    ($kind:ty $(, $expected:literal)?) => {
        impl serde::Serialize for $kind {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        $crate::read_from_text!($kind $(, $expected)?);
    };
}

/// Reads a type from its text in files, as [`kept_as_text`].
#[macro_export]
macro_rules! read_from_text {
    ($kind:ty) => {
        impl<'de> serde::Deserialize<'de> for $kind {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <String as serde::Deserialize>::deserialize(deserializer)?;
                text.parse().map_err($crate::Refused::into_error)
            }
        }
    };
    ($kind:ty, $expected:literal) => {
        impl<'de> serde::Deserialize<'de> for $kind {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::from_number_or_text(deserializer, $expected)
            }
        }
    };
}

/// Shows an error as its problem's cause and observed value, in one line.
#[macro_export]
macro_rules! shown_as_problem {
    ($error:ty) => {
        impl std::fmt::Display for $error {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(&self.problem(), f)
            }
        }

        impl std::error::Error for $error {}
    };
}

/// A type whose values have names and meanings, as [`named`] makes it.
pub trait Named: Sized + 'static {
    /// All values in their order, each with its name and its meaning.
    const VALUES: &'static [(Self, &'static str, &'static str)];

    /// The meaning of this value, without a full stop.
    fn meaning(&self) -> &'static str
    where
        Self: PartialEq,
    {
        let found = Self::VALUES.iter().find(|(value, ..)| value == self);
        found.map_or("", |(.., meaning)| meaning.trim().trim_end_matches('.'))
    }
}

/// Declares an enum with the name of each of its values behind it: `ALL` of them in their order, and `name()`; what
/// each means is its doc comment ([`Named`]).
#[macro_export]
macro_rules! named {
    (@meaning doc = $text:literal) => { $text };
    (@meaning $($other:tt)*) => { "" };
    ($(#[$of:meta])* $visible:vis enum $kind:ident { $($(#[$($about:tt)*])* $value:ident = $name:literal,)+ }) => {
        $(#[$of])*
        $visible enum $kind { $($(#[$($about)*])* $value,)+ }

        impl $crate::Named for $kind {
            const VALUES: &'static [(Self, &'static str, &'static str)] =
                &[$((Self::$value, $name, concat!($($crate::named!(@meaning $($about)*)),*)),)+];
        }

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
