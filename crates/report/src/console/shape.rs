//! Parts of a run, by which its output is chosen.

use measure::{Metric, Nanos, Phase};

/// Parts of a run, so that only those that apply are shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// Heading of the live view: the experiment or the destination.
    pub title: String,
    /// Addition to a title that is not unique: the address of a probe.
    pub about: String,
    /// Something is sent.
    pub producers: bool,
    /// Something is received.
    pub consumers: bool,
    /// There is a target rate, so that intended and actual send time differ.
    pub paced: bool,
    /// Latencies are shown during the run.
    pub latency: bool,
    /// Length of the warm-up.
    pub warmup: Nanos,
    /// Length of the measured phase; `None` where it ends by a count or by hand.
    pub measure: Option<Nanos>,
    /// One of several runs in a row, of which the broker's address is of no use later.
    pub several: bool,
    /// Advice on the next step, printed above the report's path.
    pub next: Option<&'static str>,
}

impl Shape {
    /// Whether the latency exists in such a run.
    #[must_use]
    pub const fn shows(&self, metric: Metric) -> bool {
        match metric {
            Metric::END_TO_END | Metric::TRANSFER => self.consumers,
            Metric::SEND_DELAY => self.producers && self.paced,
            _ => self.producers,
        }
    }

    /// Planned length of a phase. The drain has none: it ends when all has arrived.
    #[must_use]
    pub const fn planned(&self, phase: Phase) -> Option<Nanos> {
        match phase {
            Phase::Warmup => Some(self.warmup),
            Phase::Measure => self.measure,
            Phase::Drain => None,
        }
    }
}
