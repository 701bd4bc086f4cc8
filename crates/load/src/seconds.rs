//! Seconds out of slices: event loops report ten times a second, and most readers want seconds.

use measure::{Interval, Nanos, Slice, Time};

use crate::{RunEvent, Sink, SliceSink};

/// Length of scenarios' slices, so that a stall of a fifth of a second shows.
pub(crate) const SLICE: Nanos = Nanos::from_millis(100);

/// Hands slices on to a sink, and adds them up to its intervals: one a second, and one up to each end of a phase.
pub(crate) struct Seconds<'a> {
    sink: &'a mut dyn Sink,
    /// Sum of the slices since the last second; empty where its ends are equal.
    second: Interval,
    /// The next whole second of the phase.
    tick: Time,
}

impl<'a> Seconds<'a> {
    pub(crate) fn of(sink: &'a mut dyn Sink) -> Self {
        Self { sink, second: Interval::new(), tick: Time(0) }
    }

    /// Hands on what is left when no more slices come.
    pub(crate) fn finish(&mut self) {
        if self.second.end > self.second.start {
            self.sink.interval(&self.second);
            self.second.reset(self.second.end, self.second.phase);
        }
    }
}

impl SliceSink for Seconds<'_> {
    fn slice(&mut self, slice: &Slice) {
        self.sink.slice(slice);
        if self.second.phase != slice.phase || self.tick == Time(0) {
            self.finish();
            self.tick = slice.start + Nanos::SECOND;
        }
        let second = &mut self.second;
        if second.end == second.start {
            second.reset(slice.start, slice.phase);
        }
        second.add_slice(slice);
        let ends = slice.ends_phase || slice.end >= self.tick;
        while self.tick <= slice.end {
            self.tick = self.tick + Nanos::SECOND;
        }
        if ends {
            self.finish();
        }
    }

    fn event(&mut self, event: RunEvent) {
        self.sink.event(event);
    }
}

#[cfg(test)]
mod tests {
    use measure::{Metric, Phase};

    use super::*;

    /// Lengths in milliseconds, phases and latencies of what was told.
    #[derive(Default)]
    struct Told {
        slices: Vec<(u64, Phase, u64)>,
        seconds: Vec<(u64, Phase, u64)>,
    }

    fn seen(interval: &Interval) -> (u64, Phase, u64) {
        let recorded = interval.latencies.histogram(Metric::SEND_ACK).len();
        assert_eq!(recorded, interval.counters.completed);
        (interval.length().0 / 1_000_000, interval.phase, recorded)
    }

    impl Sink for Told {
        fn slice(&mut self, slice: &Slice) {
            let mut interval = Interval::new();
            interval.reset(slice.start, slice.phase);
            interval.add_slice(slice);
            self.slices.push(seen(&interval));
        }

        fn interval(&mut self, merged: &Interval) {
            self.seconds.push(seen(merged));
        }

        fn event(&mut self, _: RunEvent) {}
    }

    fn tell(phases: &[(Phase, &[u64])]) -> Told {
        let mut told = Told::default();
        let mut seconds = Seconds::of(&mut told);
        let mut at = Time(7_000_000_000);
        for (phase, lengths) in phases {
            for (i, length) in lengths.iter().enumerate() {
                let mut slice = Slice::default();
                slice.reset(at, *phase);
                at = at + Nanos::from_millis(*length);
                slice.end = at;
                slice.ends_phase = i + 1 == lengths.len();
                slice.counters.completed = 3;
                slice.latencies.record_n(Metric::SEND_ACK, Nanos(1_000 * length), 3);
                seconds.slice(&slice);
            }
        }
        seconds.finish();
        told
    }

    #[test]
    fn seconds_hold_what_their_slices_do_and_end_with_their_phase() {
        let told = tell(&[(Phase::Warmup, &[100; 5]), (Phase::Measure, &[100; 23]), (Phase::Drain, &[40])]);
        assert_eq!(told.slices.len(), 29);
        let expected = [
            (500, Phase::Warmup, 15),
            (1_000, Phase::Measure, 30),
            (1_000, Phase::Measure, 30),
            (300, Phase::Measure, 9),
            (40, Phase::Drain, 3),
        ];
        assert_eq!(told.seconds, expected);
    }

    /// A thread whose slices were not taken back in time.
    #[test]
    fn a_slice_that_grew_over_a_second_ends_it() {
        let told = tell(&[(Phase::Measure, &[800, 400, 700, 100, 2_500])]);
        assert_eq!(told.seconds.iter().map(|(length, ..)| *length).collect::<Vec<_>>(), [1_200, 800, 2_500]);
    }
}
