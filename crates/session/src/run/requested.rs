//! Requested work, and how much of it was achieved.

use archive::{RequestedSummary, RequestedWindow};
use measure::{Interval, Phase, Time};

/// Windows that a summary has at most.
const MOST_WINDOWS: usize = 600;

/// Sums over a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Achieved {
    /// Warm-up and measured phase.
    total: f64,
    /// Messages of the measured phase, and the variance of their number.
    measured: f64,
    variance: f64,
    seconds: f64,
    windows: Vec<Window>,
    /// Intervals per window is 2 to this power.
    doubled: u32,
    /// Intervals in the last window.
    filled: u64,
}

/// Counts, where the archive has rates.
#[derive(Clone, Copy, Debug)]
struct Window {
    start: f64,
    seconds: f64,
    requested: f64,
    sent: u64,
}

impl Window {
    fn take(&mut self, next: &Self) {
        self.seconds += next.seconds;
        self.requested += next.requested;
        self.sent += next.sent;
    }
}

impl Achieved {
    /// Adds an interval of the run with this origin, in which this many messages or operations began;
    /// requested was the amount, with its standard deviation.
    pub(super) fn add(
        &mut self,
        interval: &Interval,
        origin: Time,
        begun: u64,
        amount: f64,
        deviation: f64,
    ) {
        self.total += amount;
        if interval.phase != Phase::Measure {
            return;
        }
        self.measured += amount;
        self.variance += deviation * deviation;
        let seconds = interval.length().as_secs_f64();
        self.seconds += seconds;
        self.keep(Window {
            start: interval.start.since(origin).as_secs_f64(),
            seconds,
            requested: amount,
            sent: begun,
        });
    }

    fn keep(&mut self, window: Window) {
        if self.filled > 0
            && self.filled < 1 << self.doubled
            && let Some(last) = self.windows.last_mut()
        {
            last.take(&window);
            self.filled += 1;
            return;
        }
        if self.windows.len() == MOST_WINDOWS {
            self.halve();
        }
        self.windows.push(window);
        self.filled = 1;
    }

    /// Makes one window of every two.
    fn halve(&mut self) {
        let pairs = self.windows.chunks(2).filter_map(|pair| {
            let (first, rest) = pair.split_first()?;
            let mut sum = *first;
            rest.iter().for_each(|next| sum.take(next));
            Some(sum)
        });
        self.windows = pairs.collect();
        self.doubled += 1;
    }

    /// Messages requested in the measured phase, and their standard deviation.
    pub(crate) fn measured(&self) -> (f64, f64) {
        (self.measured, self.variance.sqrt())
    }

    /// Compares it with the messages sent in the measured phase, and those of them over 1 ms late.
    pub(super) fn summary(&self, sent: u64, late: u64) -> RequestedSummary {
        let per = |count: f64, seconds: f64| if seconds > 0.0 { count / seconds } else { 0.0 };
        RequestedSummary {
            total: self.total,
            rate: per(self.measured, self.seconds),
            achieved: (self.measured > 0.0).then(|| achieved(sent, self.measured)),
            late_share: late as f64 / sent.max(1) as f64,
            over_time: self
                .windows
                .iter()
                .map(|window| RequestedWindow {
                    t: window.start,
                    dt: window.seconds,
                    requested: per(window.requested, window.seconds),
                    sent: per(window.sent as f64, window.seconds),
                })
                .collect(),
        }
    }
}

/// Share of the requested messages that were sent. Messages are whole: less than one too many is no more than all.
fn achieved(sent: u64, requested: f64) -> f64 {
    let excess = sent as f64 - requested;
    if (0.0..1.0).contains(&excess) {
        return 1.0;
    }
    sent as f64 / requested
}

#[cfg(test)]
mod tests {
    use measure::Counters;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn after(seconds: u64) -> (Achieved, Counters) {
        let (mut achieved, mut counters) = (Achieved::default(), Counters::default());
        for second in 0..seconds {
            let mut interval = Interval::new();
            let phase = if second < 2 {
                Phase::Warmup
            } else {
                Phase::Measure
            };
            interval.reset(Time((5 + second) * SECOND), phase);
            interval.end = Time((6 + second) * SECOND);
            interval.counters.sent = 90;
            if phase == Phase::Measure {
                counters.sent += 90;
                counters.late += 9;
            }
            achieved.add(&interval, Time(5 * SECOND), 90, 100.0, 3.0);
        }
        (achieved, counters)
    }

    #[test]
    fn the_measured_phase_stands_against_what_was_asked_for() {
        let (achieved, counters) = after(12);
        let summary = achieved.summary(counters.sent, counters.late);
        assert_eq!((summary.total, summary.rate), (1_200.0, 100.0));
        assert_eq!(summary.achieved, Some(0.9));
        assert_eq!(summary.late_share, 0.1);
        assert_eq!(summary.over_time.len(), 10);
        let first = RequestedWindow {
            t: 2.0,
            dt: 1.0,
            requested: 100.0,
            sent: 90.0,
        };
        assert_eq!(summary.over_time[0], first);
        assert_eq!(achieved.measured(), (1_000.0, 90f64.sqrt()));
    }

    #[test]
    fn a_long_run_has_longer_windows_and_not_more() {
        for seconds in [602, 603, 5_002, 40_000] {
            let (achieved, counters) = after(seconds);
            let windows = achieved.summary(counters.sent, counters.late).over_time;
            assert!((300..=MOST_WINDOWS).contains(&windows.len()), "{seconds}");
            let length: f64 = windows.iter().map(|w| w.dt).sum();
            assert_eq!(length, (seconds - 2) as f64);
            for pair in windows.windows(2) {
                assert_eq!(pair[0].t + pair[0].dt, pair[1].t, "no gap");
                assert_eq!((pair[0].requested, pair[0].sent), (100.0, 90.0));
            }
        }
    }

    #[test]
    fn a_whole_message_of_a_part_that_was_requested_is_all_of_it() {
        assert_eq!(achieved(1, 0.17), 1.0);
        assert_eq!(achieved(0, 0.17), 0.0);
        assert_eq!(achieved(2, 1.5), 1.0);
        assert_eq!(achieved(3, 1.5), 2.0);
        assert_eq!(achieved(90, 100.0), 0.9);
    }

    #[test]
    fn nothing_asked_for_is_no_achievement() {
        let summary = Achieved::default().summary(0, 0);
        assert_eq!((summary.rate, summary.achieved), (0.0, None));
    }
}
