//! How long consumers work on deliveries, as people write it.

use measure::{Length, Nanos, Refused};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// How long a delivery takes, for a part of the time: `"2ms"` for ever, or `"2ms@10s"`, the next
/// one after that, and all again from the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencyStep {
    /// Work on one delivery.
    pub latency: Length,
    /// How long the step lasts; zero is for ever.
    pub length: Length,
}

impl LatencyStep {
    /// Constant service time.
    #[must_use]
    pub const fn constant(latency: Nanos) -> Self {
        Self {
            latency: Length(latency),
            length: Length(Nanos::ZERO),
        }
    }
}

impl std::str::FromStr for LatencyStep {
    type Err = Refused;

    fn from_str(text: &str) -> Result<Self, Refused> {
        let (latency, length) = text.split_once('@').unwrap_or((text, "0s"));
        Ok(Self {
            latency: latency.parse()?,
            length: length.parse()?,
        })
    }
}

impl std::fmt::Display for LatencyStep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.length.is_zero() {
            self.latency.fmt(f)
        } else {
            write!(f, "{}@{}", self.latency, self.length)
        }
    }
}

impl Serialize for LatencyStep {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for LatencyStep {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(Refused::into_error)
    }
}
