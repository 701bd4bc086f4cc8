//! Reports of a load in a world.

use load::{Control, Error, Outcome, Plan, RunEvent, Silence, Sink};
use measure::{Counters, Interval, Phase, Time};

use super::World;

#[derive(Default)]
pub(crate) struct Told {
    /// All that does not belong to the warm-up.
    pub(crate) measured: Interval,
    /// Counters of all phases.
    pub(crate) counted: Counters,
    /// Phase, begin, end and sent messages of each interval.
    pub(crate) intervals: Vec<(Phase, Time, Time, u64)>,
    pub(crate) events: Vec<RunEvent>,
}

impl Told {
    pub(crate) fn silences(&self) -> Vec<Silence> {
        let silences = self.events.iter().filter_map(|event| match event {
            RunEvent::Silence(silence) => Some(*silence),
            _ => None,
        });
        silences.collect()
    }

    pub(crate) fn start(&self) -> Time {
        let starts = self.events.iter().find_map(|event| match event {
            RunEvent::Started { at } => Some(*at),
            _ => None,
        });
        starts.expect("a start")
    }
}

struct Hearing<'a, F> {
    world: &'a World,
    told: Told,
    begun: Option<F>,
}

impl<F: FnOnce(&World, Time)> Sink for Hearing<'_, F> {
    fn interval(&mut self, interval: &Interval) {
        if interval.phase != Phase::Warmup {
            self.told.measured.merge(interval);
        }
        self.told.counted.add(&interval.counters);
        self.told.intervals.push((interval.phase, interval.start, interval.end, interval.counters.sent));
    }

    fn event(&mut self, event: RunEvent) {
        if let RunEvent::Started { at } = &event
            && let Some(begun) = self.begun.take()
        {
            begun(self.world, *at);
        }
        self.told.events.push(event);
    }
}

impl World {
    /// Runs a load; `begun` is called when the start is announced, with its instant.
    pub(crate) fn run(&self, plan: &Plan, begun: impl FnOnce(&Self, Time)) -> (Result<Outcome, Error>, Told) {
        self.run_until(plan, &Control::new(), begun)
    }

    /// Runs a load that starts, and that no error ends.
    pub(crate) fn run_to_end(&self, plan: &Plan, begun: impl FnOnce(&Self, Time)) -> (Outcome, Told) {
        let (outcome, told) = self.run(plan, begun);
        let outcome = outcome.expect("the load starts");
        assert!(outcome.error.is_none(), "{outcome:?}");
        (outcome, told)
    }

    /// Runs a load until somebody stops it.
    pub(crate) fn run_until(
        &self,
        plan: &Plan,
        control: &Control,
        begun: impl FnOnce(&Self, Time),
    ) -> (Result<Outcome, Error>, Told) {
        let mut hearing = Hearing { world: self, told: Told::default(), begun: Some(begun) };
        let outcome = load::run_in(self, plan, control, &mut hearing);
        (outcome, hearing.told)
    }
}
