//! Blocks of a run with profiling and without: when they begin, their counts, and their results.

use archive::ObserverEffect;
use measure::{Slice, Time};

use super::observer_effect::SwitchedProfiles;
use super::recording::Recording;

impl Recording<'_> {
    /// Begins the blocks of a load that begins at `started`, where requested.
    pub(super) fn begin_blocks(&mut self, started: Time) {
        let phases = &self.context.phases;
        let sampled = SwitchedProfiles {
            switches: self.profiling.switches(),
            stays_in_the_way: self.profiling.stays_in_the_way(),
        };
        self.blocks
            .begin(started + phases.warmup, phases.measure, sampled);
    }

    /// Adds a slice's counts to its block.
    pub(super) fn count_in_block(&mut self, slice: &Slice) {
        let operations = self.first().and_then(|first| first.operations);
        self.blocks.add(slice, operations);
    }

    /// The cost of profiling; `None` where it was not requested, or nothing was sampled.
    pub(super) fn observer_effect(&mut self) -> Option<ObserverEffect> {
        let first = self.first();
        let operations = first.and_then(|first| first.operations);
        let paced = first.is_some_and(|first| first.requested.is_some());
        let origin = self.context.origin;
        self.blocks.finish(operations, paced, origin)
    }
}
