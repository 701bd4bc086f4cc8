//! The seconds of a run in which a condition held.

use std::iter::Peekable;

use archive::{HistogramLog, RunReader, SeriesPoint};
use measure::{Phase, Recorder};

use experiment::Requirement;

/// Seconds: a histogram begins this close to its interval: one file has six decimals, the other all.
const SAME_START: f64 = 1e-4;

/// The seconds of a run in which a condition held.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seconds {
    /// Where it held, nanoseconds since the run's origin: start and end, which is outside.
    pub windows: Vec<(u64, u64)>,
    /// Seconds in which it can be told.
    pub told: usize,
    /// Seconds in which it cannot.
    pub untold: usize,
    /// Why, in the last of these.
    pub why: Option<&'static str>,
    /// The lowest and the highest value that was seen.
    pub range: Option<(f64, f64)>,
}

impl Seconds {
    /// The seconds of `run` in which `condition` held. Those of the drain are none: nothing is sent in it.
    pub fn of(run: &RunReader, condition: &Requirement) -> Result<Self, archive::Error> {
        let mut log = run.histograms()?.peekable();
        let (has_messages, has_consumers) = (run.has_messages(), run.has_consumers());
        let (mut found, mut recorded) = (Self::default(), Recorder::new());
        let loaded = run.points.iter().filter(|it| it.phase != Phase::Drain);
        for point in loaded {
            recorded.reset();
            record(&mut recorded, point, &mut log);
            match condition.observed_in(point, &recorded, has_messages, has_consumers) {
                Ok((value, holds)) => found.add(point, value, holds),
                Err(why) => {
                    found.untold += 1;
                    found.why = Some(why);
                }
            }
        }
        Ok(found)
    }

    fn add(&mut self, point: &SeriesPoint, value: f64, holds: bool) {
        self.told += 1;
        let (low, high) = self.range.unwrap_or((value, value));
        self.range = Some((low.min(value), high.max(value)));
        if holds {
            let ns = |seconds: f64| (seconds.max(0.0) * 1e9).round() as u64;
            self.windows.push((ns(point.t), ns(point.t + point.dt)));
        }
    }
}

/// Records the log's histograms of an interval, and skips earlier ones.
fn record(recorded: &mut Recorder, point: &SeriesPoint, log: &mut Peekable<HistogramLog>) {
    while let Some(of) = log.next_if(|it| it.t <= point.t + SAME_START) {
        if of.t >= point.t - SAME_START {
            // Another program's histogram may not fit: its percentiles are not known, then.
            let _ = recorded.add_due(point.phase, [of.as_due()]);
        }
    }
}
