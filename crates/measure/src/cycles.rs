//! Cycles of churn: what opens and closes again, step by step.
//!
//! ```text
//! due        begun     connected    secured     logged in    channel       closed
//!  |-- wait ---|- connect -|-- secure --|-- log in --|- open ch. -|-- close --|
//!  |------------------- open ------------------------|                        |
//!  |------------------------------- cycle ------------------------------------|
//! ```
//!
//! `open` and `cycle` count from the time that the cycle was due, and so are free of coordinated
//! omission; the steps follow upon each other and add up to the cycle.

use serde::{Deserialize, Serialize};

use crate::Metric;

/// A part of a cycle, or the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// From the time that it was due until it had ended.
    Cycle,
    /// From the time that it was due until what it opens was open.
    Open,
    /// From the time that it was due until it began.
    Wait,
    /// The TCP connection.
    Connect,
    /// The TLS handshake.
    Secure,
    /// The protocol's handshake: from the connection until `connection.open-ok`.
    LogIn,
    /// `channel.open` until `channel.open-ok`.
    OpenChannel,
    /// `queue.declare` until `queue.declare-ok`.
    Declare,
    /// `queue.delete` until `queue.delete-ok`, and the messages before it.
    Delete,
    /// `channel.close` until `channel.close-ok`, and the messages before it.
    CloseChannel,
    /// `connection.close` until `connection.close-ok`, and the messages before it.
    Close,
}

impl Step {
    /// All of them: the whole first, then the parts in the order of time.
    pub const ALL: [Self; 11] = [
        Self::Cycle,
        Self::Open,
        Self::Wait,
        Self::Connect,
        Self::Secure,
        Self::LogIn,
        Self::OpenChannel,
        Self::Declare,
        Self::Delete,
        Self::CloseChannel,
        Self::Close,
    ];

    /// The name that people read; with `_` for the blank the tag in the HDR log and the key in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cycle => "cycle",
            Self::Open => "open",
            Self::Wait => "wait",
            Self::Connect => "connect",
            Self::Secure => "secure",
            Self::LogIn => "log in",
            Self::OpenChannel => "open channel",
            Self::Declare => "declare",
            Self::Delete => "delete",
            Self::CloseChannel => "close channel",
            Self::Close => "close",
        }
    }

    /// Counts from the time that the cycle was due; the others are parts of it.
    #[must_use]
    pub const fn is_whole(self) -> bool {
        matches!(self, Self::Cycle | Self::Open)
    }
}

/// What a histogram of a run is of; in JSON the key of either.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[serde(untagged)]
pub enum Measured {
    /// A latency of messages.
    Message(Metric),
    /// A step of cycles.
    Cycle(Step),
}

impl From<Metric> for Measured {
    #[inline]
    fn from(metric: Metric) -> Self {
        Self::Message(metric)
    }
}

impl From<Step> for Measured {
    #[inline]
    fn from(step: Step) -> Self {
        Self::Cycle(step)
    }
}

impl Measured {
    /// How many there are.
    pub const COUNT: usize = Metric::ALL.len() + Step::ALL.len();

    /// Its position in [`Measured::all`].
    #[inline]
    #[must_use]
    pub const fn index(self) -> usize {
        match self {
            Self::Message(metric) => metric as usize,
            Self::Cycle(step) => Metric::ALL.len() + step as usize,
        }
    }

    /// The name that people read.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Message(metric) => metric.name(),
            Self::Cycle(step) => step.name(),
        }
    }

    /// All that there is, messages first.
    pub fn all() -> impl Iterator<Item = Self> {
        let messages = Metric::ALL.into_iter().map(Self::Message);
        messages.chain(Step::ALL.into_iter().map(Self::Cycle))
    }
}

/// Counts of cycles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct CycleCounts {
    /// Cycles that began.
    pub begun: u64,
    /// Cycles that ended in order.
    pub completed: u64,
    /// Cycles that did not.
    pub failed: u64,
    /// Cycles that began over 1 ms after they were due.
    pub late: u64,
    /// Most cycles that were in progress at the same time.
    pub under_way: u64,
}

impl CycleCounts {
    /// Adds another interval's.
    pub fn add(&mut self, other: &Self) {
        self.begun += other.begun;
        self.completed += other.completed;
        self.failed += other.failed;
        self.late += other.late;
        self.under_way = self.under_way.max(other.under_way);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_in_json_is_the_name() {
        for step in Step::ALL {
            let key = step.name().replace(' ', "_");
            assert_eq!(serde_json::to_value(step).unwrap(), key);
        }
    }
}
