//! Looks of others into the broker, on their way into a run's record.

use measure::{Clock, Phase, Time};

use super::companion::{Collected, Companion, LoadEnd, Second};
use crate::look::{self, Looks};

impl Companion for Looks {
    fn second(&mut self, _: &Second) -> Collected {
        self.read();
        Collected::default()
    }

    /// Keeps the looks into the broker, and warns of those during the load.
    fn finish(&mut self, run: &mut LoadEnd<'_>) -> Collected {
        self.read();
        let origin = run.record.origin;
        run.record.looks = self.spans(origin, Clock.now());
        let seconds = |at: Time| at.since(origin).as_secs_f64();
        let phases = run.outcome.phases.iter();
        let load = phases
            .filter(|it| it.phase != Phase::Drain)
            .map(|it| (seconds(it.start), seconds(it.end)))
            .reduce(|(begin, end), (from, to)| (begin.min(from), end.max(to)));
        let warning = load.and_then(|load| look::warning(&run.record.looks, load));
        Collected {
            warnings: warning.into_iter().collect(),
            ..Collected::default()
        }
    }
}
