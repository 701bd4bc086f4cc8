//! The coordinator's part of a run.

use measure::{Nanos, Time};
use serde_json::Value;

use crate::{
    ClockEstimator, Envelope, LoadOutcome, Share, SliceData, ToCoordinator, ToWorker, WorkerFacts, WorkerState,
};

/// What a run permits.
#[derive(Clone, Debug)]
pub struct RunRules {
    /// Name of the run, for people.
    pub run: String,
    /// Lease of workers: 5 s.
    pub lease: Nanos,
    /// Workers that may be lost without making the run invalid.
    pub tolerate: usize,
    /// The latest start after T0, beyond the wait for a core: 1 ms.
    pub late: Nanos,
    /// Probes of each worker before it counts as ready: 200.
    pub probes: u32,
}

/// What happens to a coordinator.
#[derive(Clone, Debug)]
pub enum CoordinatorInput {
    /// A message arrived.
    Message(Envelope<ToCoordinator>),
    /// The workers that have joined are those of the run: they are numbered by their names, and others are refused.
    Close,
    /// Hand a share over, to the worker that it names.
    Share(Share),
    /// The load starts at this instant, once all workers are ready.
    Start(Time),
    /// The load ends at this instant.
    End(Time),
    /// Stop the load; `true`: at once.
    Stop(bool),
    /// Time has passed: see [`Coordinator::next_wake`].
    Tick,
}

/// What a coordinator has to do, or hears; workers by their numbers, which [`CoordinatorInput::Close`] gives.
#[derive(Clone, Debug, PartialEq)]
pub enum CoordinatorOutput {
    /// Send this to the worker of its session.
    Send(Envelope<ToWorker>),
    /// A worker has prepared its share, and its clock is known.
    Ready(usize),
    /// A worker's load has started.
    Started {
        /// The worker.
        worker: usize,
        /// When, by the coordinator's clock.
        at: Time,
        /// After T0, beyond the wait for a core.
        late: Nanos,
    },
    /// The next slice of a worker, each once and in order; instants are those of its clock.
    Slice(usize, SliceData),
    /// What a worker had no answers to.
    Censored(usize, SliceData),
    /// An event of a worker; instants are those of its clock.
    Event(usize, Value),
    /// A worker's load has ended by itself at this instant of the coordinator's clock.
    LoadEnded(usize, Time),
    /// A worker's drain has ended; instants are those of its clock.
    Ended(usize, Box<LoadOutcome>),
    /// A worker has no part in the run any more, and sends no load: reason, for people. What came of it before counts.
    Lost(usize, String),
    /// All have left or are lost: nothing more comes.
    Finished,
}

/// Why a run is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// More workers were lost than is tolerated: all of them, with the reasons.
    Lost(Vec<(String, String)>),
    /// A worker started late.
    Late {
        /// Its name.
        worker: String,
        /// By how much, beyond the wait for a core.
        late: Nanos,
    },
    /// A worker's clock moved against the coordinator's.
    ClockMoved(String),
}

/// A worker, as the coordinator knows it.
#[derive(Debug)]
pub struct Member {
    /// The worker's own facts.
    pub facts: WorkerFacts,
    /// How far it is; [`WorkerState::Fenced`] where it is lost.
    pub state: WorkerState,
    /// Its clock.
    pub clock: ClockEstimator,
    /// Why it was lost.
    pub lost: Option<String>,
    /// How late it started, beyond the wait for a core.
    pub late: Option<Nanos>,
}

/// The coordinator of one run.
#[derive(Debug)]
pub struct Coordinator {}

impl Coordinator {
    /// A coordinator that waits for workers. `epoch` must be larger than that of all before, and not 0: nanoseconds
    /// since 1970.
    pub fn new(epoch: u64, rules: RunRules) -> Self;
    /// Takes what happened at `now`, which never goes back; tells what to do, in this order.
    pub fn handle(&mut self, now: Time, input: CoordinatorInput) -> Vec<CoordinatorOutput>;
    /// When to give [`CoordinatorInput::Tick`] at the latest.
    pub fn next_wake(&self) -> Time;
    /// The workers of the run, in the order of their numbers.
    pub fn members(&self) -> &[Member];
    /// Why the run is invalid; valid where empty.
    pub fn flaws(&self) -> Vec<Flaw>;
}
