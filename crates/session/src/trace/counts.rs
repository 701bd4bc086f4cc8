//! Counters of a trace: the current slice, and the tally of the measured phase.

use load::OperationTally;
use measure::{Counts, Phase, Slice, Time};

use super::metrics::TraceMetrics;
use super::node::SeenCall;

/// The slice of the moment, and the tally of calls that were made in the measured phase.
#[derive(Debug)]
pub(super) struct CallCounts {
    metrics: TraceMetrics,
    /// The common start; calls before it are set-up.
    pub(super) start: Time,
    /// Calls before it are warm-up.
    pub(super) measure_at: Time,
    /// Calls from then on are the drain's.
    pub(super) last: Time,
    /// Being filled.
    pub(super) slice: Slice,
    tally: Counts,
}

impl CallCounts {
    pub(super) fn new(metrics: TraceMetrics) -> Self {
        Self {
            metrics,
            start: Time(u64::MAX),
            measure_at: Time(u64::MAX),
            last: Time(u64::MAX),
            slice: Slice::with(&metrics.recorded()),
            tally: Counts::with(&metrics.all()),
        }
    }

    /// Begins the next slice.
    pub(super) fn begin(&mut self, at: Time, phase: Phase) {
        self.slice.reset(at, phase);
        if phase != Phase::Warmup {
            self.slice.set_due(self.measure_at, Time(u64::MAX));
        }
    }

    fn is_measured(&self, at: Time) -> bool {
        (self.measure_at..self.last).contains(&at)
    }

    /// A call belongs to the phase in which it was made, whenever its return comes.
    pub(super) fn add(&mut self, seen: SeenCall) {
        let of = self.metrics;
        let (called, metric) = match seen {
            SeenCall::Called { at } => (at, of.calls),
            SeenCall::Returned { called, raised, .. } => {
                (called, if raised { of.raised } else { of.returned })
            }
        };
        if called < self.start {
            return;
        }
        self.slice.counts.add(metric, 1);
        if self.is_measured(called) {
            self.tally.add(metric, 1);
        }
        if let SeenCall::Returned { called, took, .. } = seen
            && called < self.last
        {
            self.slice.due(called).record(of.duration, took);
        }
    }

    /// The tally, with the calls whose return was not seen.
    pub(super) fn finish(mut self) -> OperationTally {
        let of = self.metrics;
        let ended = self.tally.get(of.returned) + self.tally.get(of.raised);
        let open = self.tally.get(of.calls).saturating_sub(ended);
        self.tally.add(of.open, open);
        OperationTally {
            counts: self.tally,
            ..OperationTally::default()
        }
    }

    /// The slice ends then.
    pub(super) fn end(&mut self, at: Time, ends_phase: bool) {
        self.slice.end = at.max(self.slice.start);
        self.slice.ends_phase = ends_phase;
    }
}

#[cfg(test)]
mod tests {
    use measure::Nanos;

    use super::*;

    fn returned(called: u64, took: u64) -> SeenCall {
        SeenCall::Returned {
            called: Time(called),
            took: Nanos(took),
            raised: false,
        }
    }

    /// The measured phase lasts from 200 to 300.
    #[test]
    fn a_call_counts_in_the_phase_in_which_it_was_made() {
        let metrics = TraceMetrics::resolve("trace_counted");
        let mut counts = CallCounts::new(metrics);
        (counts.start, counts.measure_at, counts.last) = (Time(100), Time(200), Time(300));
        counts.begin(Time(100), Phase::Warmup);
        for at in [50, 150, 199, 200, 299, 300] {
            counts.add(SeenCall::Called { at: Time(at) });
        }
        counts.begin(Time(200), Phase::Measure);
        counts.add(returned(50, 1_000));
        counts.add(returned(199, 2_000));
        counts.add(returned(200, 3_000));
        let recorded: Vec<(Phase, u64)> = (counts.slice.histograms())
            .map(|it| (it.due, it.histogram.count()))
            .collect();
        assert_eq!(recorded, [(Phase::Measure, 1), (Phase::Warmup, 1)]);
        counts.begin(Time(300), Phase::Drain);
        counts.add(returned(300, 4_000));
        assert_eq!(counts.slice.histograms().count(), 0, "the drain's own call");
        let tally = counts.finish().counts;
        assert_eq!(tally.get(metrics.calls), 2);
        assert_eq!(tally.get(metrics.returned), 1);
        assert_eq!(tally.get(metrics.open), 1);
    }
}
