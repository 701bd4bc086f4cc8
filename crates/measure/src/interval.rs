//! What one thread, or all of them merged, saw between two instants.

use serde::{Deserialize, Serialize};

use crate::{Cycles, Metric, Nanos, Recorder, Time, Waits};

/// The part of a run that an interval belongs to. No interval spans two.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Load runs, nothing counts towards the aggregates.
    #[default]
    Warmup,
    /// What the summary is about.
    Measure,
    /// Nothing more is sent; acknowledgements and deliveries are awaited.
    Drain,
}

impl Phase {
    /// The name that people and the archive read.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Warmup => "warmup",
            Self::Measure => "measure",
            Self::Drain => "drain",
        }
    }
}

/// Message counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Messages whose actual send time lies in the interval.
    pub sent: u64,
    /// Messages that the broker acknowledged positively.
    pub completed: u64,
    /// Deliveries decoded.
    pub received: u64,
    /// Messages that found the in-flight budget used up; at most one count per message.
    pub blocked: u64,
    /// Messages that the broker refused (negative acknowledgement).
    pub nacked: u64,
    /// Messages that the broker returned as unroutable.
    pub returned: u64,
    /// Deliveries whose redelivered flag was set.
    pub redelivered: u64,
    /// Messages sent later than 1 ms after their intended time.
    pub late: u64,
}

impl Counters {
    /// Adds another interval's counts.
    pub const fn add(&mut self, other: &Self) {
        self.sent += other.sent;
        self.completed += other.completed;
        self.received += other.received;
        self.blocked += other.blocked;
        self.nacked += other.nacked;
        self.returned += other.returned;
        self.redelivered += other.redelivered;
        self.late += other.late;
    }
}

/// One interval of measurement.
#[derive(Clone, Debug)]
pub struct Interval {
    /// First instant covered.
    pub start: Time,
    /// First instant no longer covered.
    pub end: Time,
    /// The phase that all of it belongs to.
    pub phase: Phase,
    /// Counts inside the interval.
    pub counters: Counters,
    /// Latencies of the messages counted as completed or received here.
    pub latencies: Recorder,
    /// The longest time between two turns of the event loop in which work was due: how late the
    /// generator itself was.
    pub loop_lag_max: Nanos,
    /// What the clients and the event loops waited for.
    pub waits: Waits,
    /// Cycles of churn; `None` where there are none.
    pub cycles: Option<Box<Cycles>>,
}

impl Interval {
    /// An empty interval; its histograms come with what is recorded.
    #[must_use]
    pub fn new() -> Self {
        Self::with(&[])
    }

    /// An empty interval that has all that recording these metrics will ever need.
    #[must_use]
    pub fn with(metrics: &[Metric]) -> Self {
        Self {
            start: Time(0),
            end: Time(0),
            phase: Phase::Warmup,
            counters: Counters::default(),
            latencies: Recorder::with(metrics),
            loop_lag_max: Nanos::ZERO,
            waits: Waits::default(),
            cycles: None,
        }
    }

    /// An empty interval of churn; allocates its histograms.
    #[must_use]
    pub fn of_cycles() -> Self {
        Self {
            cycles: Some(Box::default()),
            ..Self::new()
        }
    }

    /// Measured length; rates divide by this, never by the nominal one.
    #[must_use]
    pub const fn length(&self) -> Nanos {
        self.end.since(self.start)
    }

    /// Empties the interval for reuse, keeping its memory.
    pub fn reset(&mut self, start: Time, phase: Phase) {
        self.start = start;
        self.end = start;
        self.phase = phase;
        self.counters = Counters::default();
        self.latencies.reset();
        self.loop_lag_max = Nanos::ZERO;
        self.waits = Waits::default();
        if let Some(cycles) = &mut self.cycles {
            cycles.reset();
        }
    }

    /// Adds another thread's interval of the same time, or the following interval of the same
    /// thread: bounds become the hull of both.
    pub fn merge(&mut self, other: &Self) {
        self.start = self.start.min(other.start);
        self.end = self.end.max(other.end);
        self.counters.add(&other.counters);
        self.latencies.merge(&other.latencies);
        self.loop_lag_max = self.loop_lag_max.max(other.loop_lag_max);
        self.waits.add(&other.waits);
        if let Some(theirs) = &other.cycles {
            self.cycles.get_or_insert_default().merge(theirs);
        }
    }
}

impl Default for Interval {
    fn default() -> Self {
        Self::new()
    }
}
