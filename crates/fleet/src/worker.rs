//! A worker's part of a run.

use std::sync::Arc;

use measure::{Nanos, Time};
use serde_json::Value;

use crate::message::{Envelope, LoadOutcome, Share, ToCoordinator, ToWorker, WorkerFacts, WorkerState};
use crate::slice::SliceData;
use crate::stream::{Inbox, Outbox};

/// Between two signs of life, and between two calls for a coordinator.
const HEARTBEAT: Nanos = Nanos::from_millis(250);
/// No load goes on for longer without a coordinator, whatever that one says.
const LONGEST_LEASE: Nanos = Nanos::from_millis(60_000);

/// Something that happens to a worker.
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
        /// When it did, by its clock.
        at: Time,
        /// Of the time since T0, what it waited for a core.
        core_wait: Nanos,
    },
    /// The load reports a slice.
    Slice(SliceData),
    /// The load reports an event.
    Event(Value),
    /// The next piece of the load's part of the ledger.
    Ledger(Arc<[u8]>),
    /// The load has ended by itself: nothing more is due.
    LoadEnded {
        /// When it did, by its clock.
        at: Time,
    },
    /// The drain has ended, too; what was never answered, and all the rest.
    Ended(Option<SliceData>, Box<LoadOutcome>),
    /// Destinations are cleaned up, or what was recorded is written.
    Cleaned,
    /// The worker is described anew.
    Facts(WorkerFacts),
    /// Time has passed: see [`Worker::next_wake`].
    Tick,
}

/// Orders of a worker to its host.
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
    /// Something that other workers have reported.
    News(Value),
    /// Stop the load as by Ctrl-C; `true`: at once.
    Stop(bool),
    /// Clean up; answer with [`WorkerInput::Cleaned`].
    Release,
    /// Send no load from now on, clean up what is the worker's own, and forget this [`Worker`]: reason, for people.
    Fenced(String),
    /// The coordinator knows that the worker has left: forget this [`Worker`].
    Left,
}

/// A worker's part of one run. For the next one make another, with a new session.
#[derive(Debug)]
pub struct Worker {
    session: u64,
    facts: WorkerFacts,
    state: WorkerState,
    /// The coordinator's; 0 before one has answered.
    epoch: u64,
    /// The coordinator's name for the run.
    run: String,
    lease: Nanos,
    lease_until: Time,
    /// T0 by the own clock.
    start: Time,
    inbox: Inbox<ToWorker>,
    outbox: Outbox<ToCoordinator>,
    heartbeat_at: Time,
    /// The host was told to forget it.
    is_over: bool,
}

impl Worker {
    /// A worker that looks for a coordinator. `session` must be another random number for each.
    pub const fn new(session: u64, facts: WorkerFacts) -> Self {
        Self {
            session,
            facts,
            state: WorkerState::Joined,
            epoch: 0,
            run: String::new(),
            lease: Nanos::ZERO,
            lease_until: Time(u64::MAX),
            start: Time(0),
            inbox: Inbox::new(),
            outbox: Outbox::new(),
            heartbeat_at: Time(0),
            is_over: false,
        }
    }

    /// Takes what happened at `now` of the worker's clock, which never goes back; tells what to do, in this order.
    pub fn handle(&mut self, now: Time, input: WorkerInput) -> Vec<WorkerOutput> {
        let mut out = Vec::new();
        if now >= self.lease_until && !self.is_over {
            match self.state {
                WorkerState::Done => self.leave(&mut out),
                _ => self.fence(now, &format!("no coordinator was heard for {}", self.lease), &mut out),
            }
        }
        match input {
            WorkerInput::Message(envelope) => self.message(now, envelope, &mut out),
            WorkerInput::Tick => {}
            WorkerInput::Facts(facts) => self.facts = facts,
            // What the load says after its end matters to nobody.
            _ if self.is_over || self.epoch == 0 => {}
            input => self.load(now, input, &mut out),
        }
        if !self.is_over {
            self.send_due(now, &mut out);
        }
        out
    }

    /// When to give [`WorkerInput::Tick`] at the latest.
    pub fn next_wake(&self) -> Time {
        if self.is_over {
            return Time(u64::MAX);
        }
        let resend = self.outbox.next_resend().unwrap_or(Time(u64::MAX));
        self.heartbeat_at.min(self.lease_until).min(resend)
    }

    /// How far it is.
    pub const fn state(&self) -> WorkerState {
        self.state
    }

    /// Its run, as the coordinator calls it, and that one's number; empty and 0 before one has answered.
    pub fn run(&self) -> (&str, u64) {
        (&self.run, self.epoch)
    }

    /// No load may be sent from then on, unless a message of the coordinator comes before.
    pub const fn lease_until(&self) -> Time {
        self.lease_until
    }

    /// Takes what the load says.
    fn load(&mut self, now: Time, input: WorkerInput, out: &mut Vec<WorkerOutput>) {
        let mut tell = |worker: &mut Self, body| worker.tell(now, body, out);
        match input {
            WorkerInput::Ready => {
                self.reach(WorkerState::Ready);
                tell(self, ToCoordinator::Ready);
            }
            WorkerInput::Refused(why) => tell(self, ToCoordinator::Refused { why }),
            WorkerInput::Started { at, core_wait } => {
                self.reach(WorkerState::Running);
                let late = at.since(self.start).saturating_sub(core_wait);
                tell(self, ToCoordinator::Started { at, late });
            }
            WorkerInput::Slice(slice) => tell(self, ToCoordinator::Slice(slice)),
            WorkerInput::Event(event) => tell(self, ToCoordinator::Event(event)),
            WorkerInput::Ledger(piece) => tell(self, ToCoordinator::Ledger(piece)),
            WorkerInput::LoadEnded { at } => {
                self.reach(WorkerState::Draining);
                tell(self, ToCoordinator::LoadEnded { at });
            }
            WorkerInput::Ended(censored, outcome) => {
                self.reach(WorkerState::Draining);
                if let Some(slice) = censored {
                    tell(self, ToCoordinator::Censored(slice));
                }
                tell(self, ToCoordinator::Ended(outcome));
            }
            WorkerInput::Cleaned => {
                self.reach(WorkerState::Done);
                tell(self, ToCoordinator::Left);
            }
            WorkerInput::Message(_) | WorkerInput::Tick | WorkerInput::Facts(_) => {}
        }
        if self.outbox.is_full() {
            self.fence(now, "too much waits to be sent", out);
        }
    }

    /// States only follow one another.
    fn reach(&mut self, state: WorkerState) {
        self.state = self.state.max(state);
    }

    fn message(&mut self, now: Time, envelope: Envelope<ToWorker>, out: &mut Vec<WorkerOutput>) {
        let Envelope { epoch, session, number, received, stamp, body } = envelope;
        if session != self.session || self.is_over {
            return;
        }
        let answer = match body {
            ToWorker::Probe { sent } => Some(ToCoordinator::Echo { sent, received: now, replied: now }),
            ToWorker::Ask => {
                let (facts, run) = (self.facts.clone(), self.run.clone());
                Some(ToCoordinator::Status { facts, state: self.state, run })
            }
            // One that is counted is an order.
            _ if number > 0 && self.epoch != epoch && self.epoch != 0 => {
                Some(ToCoordinator::Refused { why: format!("it belongs to run {}", self.run) })
            }
            ToWorker::Hello { ref run, lease } if self.epoch == 0 => {
                (self.epoch, self.lease) = (epoch, lease.min(LONGEST_LEASE));
                self.lease_until = stamp.min(now) + self.lease;
                self.run.clone_from(run);
                None
            }
            // Another coordinator, which this worker has refused, says so, too.
            ToWorker::Fence { ref why } if epoch == self.epoch || self.epoch == 0 => {
                self.fence(now, why, out);
                return;
            }
            _ => None,
        };
        if epoch == self.epoch {
            // A stamp of the future is none of this worker's.
            self.lease_until = self.lease_until.max(stamp.min(now) + self.lease);
            self.outbox.acknowledge(received);
        }
        if let Some(body) = answer {
            out.push(self.envelope(now, epoch, 0, body));
        } else if epoch == self.epoch && number > 0 {
            for order in self.inbox.take(number, body) {
                self.order(now, order, out);
            }
        }
        if self.state == WorkerState::Done && self.outbox.is_empty() {
            self.leave(out);
        }
    }

    /// Does what the coordinator orders.
    fn order(&mut self, now: Time, order: ToWorker, out: &mut Vec<WorkerOutput>) {
        match order {
            ToWorker::Share(share) => {
                self.reach(WorkerState::Preparing);
                out.push(WorkerOutput::Prepare(share));
            }
            ToWorker::Start { at } => {
                self.reach(WorkerState::Armed);
                self.start = at;
                out.push(WorkerOutput::Start(at));
            }
            // Nothing has begun that could be lost: it is free for another run at once.
            ToWorker::Stop { .. } if self.state == WorkerState::Joined => {
                self.reach(WorkerState::Done);
                self.tell(now, ToCoordinator::Left, out);
                self.leave(out);
            }
            ToWorker::Stop { abort } => out.push(WorkerOutput::Stop(abort)),
            ToWorker::End { at } => {
                self.reach(WorkerState::Draining);
                out.push(WorkerOutput::End(at));
            }
            ToWorker::News(news) => out.push(WorkerOutput::News(news)),
            ToWorker::Release => out.push(WorkerOutput::Release),
            ToWorker::Hello { .. } | ToWorker::Probe { .. } | ToWorker::Ask | ToWorker::Fence { .. } => {}
        }
    }

    fn tell(&mut self, now: Time, body: ToCoordinator, out: &mut Vec<WorkerOutput>) {
        let number = self.outbox.push(now, body.clone());
        out.push(self.envelope(now, self.epoch, number, body));
    }

    fn envelope(&self, now: Time, epoch: u64, number: u64, body: ToCoordinator) -> WorkerOutput {
        // What it has is its own coordinator's.
        let received = if epoch == self.epoch { self.inbox.received() } else { 0 };
        WorkerOutput::Send(Envelope { epoch, session: self.session, number, received, stamp: now, body })
    }

    fn send_due(&mut self, now: Time, out: &mut Vec<WorkerOutput>) {
        for (number, body) in self.outbox.resend(now) {
            out.push(self.envelope(now, self.epoch, number, body));
        }
        if now >= self.heartbeat_at {
            self.heartbeat_at = now + HEARTBEAT;
            let body = match self.epoch {
                0 => ToCoordinator::Join(self.facts.clone()),
                _ => ToCoordinator::Heartbeat { state: self.state },
            };
            out.push(self.envelope(now, self.epoch, 0, body));
        }
    }

    fn fence(&mut self, now: Time, why: &str, out: &mut Vec<WorkerOutput>) {
        if self.is_over {
            return;
        }
        self.state = WorkerState::Fenced;
        self.is_over = true;
        if self.epoch != 0 {
            out.push(self.envelope(now, self.epoch, 0, ToCoordinator::Heartbeat { state: self.state }));
        }
        out.push(WorkerOutput::Fenced(why.to_owned()));
    }

    fn leave(&mut self, out: &mut Vec<WorkerOutput>) {
        self.is_over = true;
        out.push(WorkerOutput::Left);
    }
}
