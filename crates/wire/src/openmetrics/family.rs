//! Metric families, and what a series is within one.

/// The type of a metric family, as a `TYPE` line tells it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum FamilyKind {
    /// A value that only grows, until its process restarts.
    Counter,
    /// A value that goes up and down.
    Gauge,
    /// Cumulative buckets with a sum and a count.
    Histogram,
    /// A histogram whose buckets go up and down.
    GaugeHistogram,
    /// Quantiles with a sum and a count.
    Summary,
    /// Labels that describe something; the value is 1.
    Info,
    /// One series per state, 1 where it holds.
    StateSet,
    /// A family of which the page does not say what it is.
    #[default]
    Unknown,
}

impl FamilyKind {
    /// The type of this name in a `TYPE` line; `None` where there is none of it.
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "counter" => Self::Counter,
            "gauge" => Self::Gauge,
            "histogram" => Self::Histogram,
            "gaugehistogram" => Self::GaugeHistogram,
            "summary" => Self::Summary,
            "info" => Self::Info,
            "stateset" => Self::StateSet,
            "unknown" | "untyped" => Self::Unknown,
            _ => return None,
        })
    }
}

/// Role of a series within its family, by the suffix of its name.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum SeriesRole {
    /// A counter's total.
    Total,
    /// A cumulative bucket of a histogram.
    Bucket,
    /// The sum of a histogram's or summary's observations.
    Sum,
    /// The number of a histogram's or summary's observations.
    Count,
    /// When a counter began, in seconds since 1970.
    Created,
    /// A value that goes up and down, or of which nothing is known.
    #[default]
    Value,
}

impl SeriesRole {
    /// Whether the series only grows until its process restarts, so that its rate says more than its value.
    #[must_use]
    pub fn is_cumulative(self) -> bool {
        matches!(self, Self::Total | Self::Bucket | Self::Sum | Self::Count)
    }

    /// Role of the series `name` in the family that the last `TYPE` line named. A series of no family counts as a
    /// counter where its name ends in `_total`, which nothing but counters may.
    pub(super) fn of(name: &str, family: &str, kind: FamilyKind) -> Self {
        let by_name = if name.ends_with("_total") {
            Self::Total
        } else {
            Self::Value
        };
        let Some(suffix) = name.strip_prefix(family).filter(|_| !family.is_empty()) else {
            return by_name;
        };
        match (kind, suffix) {
            (FamilyKind::Counter, "" | "_total") => Self::Total,
            (FamilyKind::Histogram, "_bucket") => Self::Bucket,
            (FamilyKind::Histogram | FamilyKind::Summary, "_sum") => Self::Sum,
            (FamilyKind::Histogram | FamilyKind::Summary, "_count") => Self::Count,
            (FamilyKind::Counter | FamilyKind::Histogram | FamilyKind::Summary, "_created") => {
                Self::Created
            }
            (FamilyKind::Unknown, _) => by_name,
            (_, "") => Self::Value,
            _ => by_name,
        }
    }
}
