//! A worker's part of a run.

use measure::{Nanos, Time};
use serde_json::Value;

use crate::{Envelope, LoadOutcome, Share, SliceData, ToCoordinator, ToWorker, WorkerFacts, WorkerState};

/// What happens to a worker.
#[derive(Clone, Debug)]
pub enum WorkerInput {
    /// A message arrived.
    Message(Envelope<ToWorker>),
    /// The share is prepared.
    Ready,
    /// The share cannot be run: reason, for people.
    Refused(String),
    /// The load has started.
    Started {
        /// When.
        at: Time,
        /// Of the time since T0, what it waited for a core.
        core_wait: Nanos,
    },
    /// The load reports a slice.
    Slice(SliceData),
    /// The load reports an event.
    Event(Value),
    /// The load has ended by itself: nothing more is due.
    LoadEnded {
        /// When.
        at: Time,
    },
    /// The drain has ended, too; what was never answered, and all the rest.
    Ended(Option<SliceData>, Box<LoadOutcome>),
    /// Destinations are cleaned up.
    Cleaned,
    /// Time has passed: see [`Worker::next_wake`].
    Tick,
}

/// What a worker has to do.
#[derive(Clone, Debug, PartialEq)]
pub enum WorkerOutput {
    /// Send this to the coordinator of its epoch; to all where that is 0.
    Send(Envelope<ToCoordinator>),
    /// Prepare this share; answer with [`WorkerInput::Ready`] or [`WorkerInput::Refused`].
    Prepare(Share),
    /// Start the load at this instant of the own clock, or at once where it has passed.
    Start(Time),
    /// Nothing more is due from this instant of the own clock.
    End(Time),
    /// Stop the load as by Ctrl-C; `true`: at once.
    Stop(bool),
    /// Clean up; answer with [`WorkerInput::Cleaned`].
    Release,
    /// Send no load from now on, clean up what is the worker's own, and forget this [`Worker`]: reason, for people.
    Fenced(String),
    /// The coordinator knows that the worker has left: forget this [`Worker`].
    Left,
}

/// A worker's part of one run. Make a new one, with a new session, for the next.
#[derive(Debug)]
pub struct Worker {}

impl Worker {
    /// A worker that looks for a coordinator. `session` must be another random number for each.
    pub fn new(session: u64, facts: WorkerFacts) -> Self;
    /// Takes what happened at `now` of the worker's clock, which never goes back; tells what to do, in this order.
    pub fn handle(&mut self, now: Time, input: WorkerInput) -> Vec<WorkerOutput>;
    /// When to give [`WorkerInput::Tick`] at the latest.
    pub fn next_wake(&self) -> Time;
    /// How far it is.
    pub const fn state(&self) -> WorkerState;
    /// No load may be sent from then on, unless a message comes before; the farthest time without a coordinator.
    pub const fn lease_until(&self) -> Time;
}
