//! What a coordinator and its workers say to each other, and its form on the wire.
//!
//! ```text
//! control   a JSON object: {"version":1,"epoch":…,"session":…,"number":…,"received":…,"stamp":…,"body":{…}}
//! slices    0xb5 | kind: 1 slice, 2 censored | version, epoch, session, number, received, stamp as LEB128 | SliceData
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use measure::ledger::LedgerSummary;
use measure::{Counters, Nanos, Phase, Time};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::slice::{SliceData, put_number, take_number};

/// Version of the form; another one is refused.
const VERSION: u64 = 1;
/// First byte of slices; no JSON begins with it.
const BINARY: u8 = 0xb5;
const SLICE: u8 = 1;
const CENSORED: u8 = 2;

/// A message, and where it belongs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Envelope<T> {
    /// The coordinator that sent it, or that it is for: answers carry the epoch of what they answer. 0 in a
    /// [`ToCoordinator::Join`], which is for all.
    pub epoch: u64,
    /// The worker that sent it, or that it is for: a random number of that process.
    pub session: u64,
    /// Place among the messages of this direction that must arrive, from 1; 0 for those that need not.
    pub number: u64,
    /// The sender has all messages up to this number.
    pub received: u64,
    /// In a worker's message the instant of its clock at which it was sent; in a coordinator's the newest that it has
    /// from this worker.
    pub stamp: Time,
    /// The message.
    pub body: T,
}

/// What a coordinator says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ToWorker {
    /// Answer to [`ToCoordinator::Join`]: from now on the worker is a member.
    Hello {
        /// Name of the run, for people.
        run: String,
        /// The load stops when nothing came for as long.
        lease: Nanos,
    },
    /// The worker's part of the load; it prepares it.
    Share(Share),
    /// A question for the time, answered by [`ToCoordinator::Echo`] in any state.
    Probe {
        /// When it was sent, by the coordinator's clock.
        sent: Time,
    },
    /// The load starts then.
    Start {
        /// T0 of all schedules, by the worker's clock.
        at: Time,
    },
    /// The load ends as by Ctrl-C.
    Stop {
        /// At once, without a drain.
        abort: bool,
    },
    /// Nothing more is due from then on.
    End {
        /// By the worker's clock.
        at: Time,
    },
    /// All workers' loads have ended: the worker may clean up.
    Release,
    /// The worker has no part in the run, or no longer.
    Fence {
        /// Reason, for people.
        why: String,
    },
    /// Who are you, and what do you do? Answered by [`ToCoordinator::Status`] in any state.
    Ask,
}

/// A worker's part of a load.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// Which of the workers this one is, from 0.
    pub worker: u32,
    /// How many there are.
    pub workers: u32,
    /// The resolved experiment as JSON, which may hold passwords.
    pub plan: String,
    /// Number of the run in the headers of messages.
    pub run_id: u32,
    /// Addresses of the broker, with their passwords; empty where the plan has them.
    pub urls: Vec<String>,
}

impl fmt::Debug for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "share {} of {} ({} bytes)", self.worker, self.workers, self.plan.len())
    }
}

/// What a worker says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ToCoordinator {
    /// The worker is free; said to all coordinators until one of them answers with [`ToWorker::Hello`].
    Join(WorkerFacts),
    /// Answer to [`ToWorker::Ask`].
    Status {
        /// The worker.
        facts: WorkerFacts,
        /// How far it is.
        state: WorkerState,
        /// The run that it is a member of; empty where there is none.
        run: String,
    },
    /// Its share is prepared: it could start.
    Ready,
    /// It cannot run its share, or is another coordinator's.
    Refused {
        /// Reason, for people.
        why: String,
    },
    /// Answer to [`ToWorker::Probe`].
    Echo {
        /// [`ToWorker::Probe`]'s.
        sent: Time,
        /// When the probe had come, by the worker's clock.
        received: Time,
        /// When this was sent, by the worker's clock.
        replied: Time,
    },
    /// Its load has started.
    Started {
        /// When, by the worker's clock.
        at: Time,
        /// After T0, less what it waited for a core.
        late: Nanos,
    },
    /// A tenth of a second of its load; instants are those of the worker's clock.
    #[serde(skip)]
    Slice(SliceData),
    /// What was never answered, as a slice of the drain; before [`ToCoordinator::Ended`].
    #[serde(skip)]
    Censored(SliceData),
    /// Something that happened, as JSON of whoever runs the load; instants are those of the worker's clock.
    Event(Value),
    /// Its load has ended by itself: nothing more is due.
    LoadEnded {
        /// When, by the worker's clock.
        at: Time,
    },
    /// Its drain has ended, too.
    Ended(Box<LoadOutcome>),
    /// It has cleaned up, and knows nothing more of the run.
    Left,
    /// Sign of life.
    Heartbeat {
        /// How far it is.
        state: WorkerState,
    },
}

/// A worker, for people and for the plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerFacts {
    /// Its name: the machine's unless told otherwise. Workers are numbered in the order of their names.
    pub name: String,
    /// Labels such as `zone=a`.
    pub labels: BTreeMap<String, String>,
    /// Version of bellows.
    pub version: String,
    /// Cores that it may use.
    pub cores: u32,
    /// Limits of the kernel that bound a load, such as `nofile`, and what they are.
    pub limits: BTreeMap<String, String>,
    /// Identity of the machine's clock, such as its boot id: workers with the same one share a clock.
    pub machine: String,
}

measure::named! {
    /// How far a worker is.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    pub enum WorkerState {
        /// It waits for a share.
        #[default]
        Joined = "joined",
        /// It connects, and declares destinations.
        Preparing = "preparing",
        /// It could start.
        Ready = "ready",
        /// It knows T0.
        Armed = "armed",
        /// Its load runs.
        Running = "running",
        /// Nothing more is sent.
        Draining = "draining",
        /// It has left the run in order.
        Done = "done",
        /// It has no part in a run any more, and sends no load.
        Fenced = "fenced",
    }
}

/// How a worker's load went; all instants are those of the worker's clock.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadOutcome {
    /// T0 of its schedules.
    pub start: Time,
    /// The phases that took place.
    pub phases: Vec<PhaseSpan>,
    /// Counts of the whole run.
    pub totals: Counters,
    /// Counts of the measured phase.
    pub measured: Counters,
    /// Messages sent with confirms that had no answer when the drain ended.
    pub unconfirmed: u64,
    /// Of [`ToCoordinator::Censored`]: messages that were sent and not answered.
    pub unanswered: u64,
    /// Of [`ToCoordinator::Censored`]: messages that were due and never sent.
    pub unsent: u64,
    /// Somebody stopped it before the load had ended.
    pub interrupted: bool,
    /// Somebody stopped it in the drain.
    pub drain_cut: bool,
    /// Error that ended it before its time, for people.
    pub error: Option<String>,
    /// Fate of its messages.
    pub ledger: Option<LedgerSummary>,
    /// CPU time of each of its event loops.
    pub threads: Vec<LoopUsage>,
    /// Its loops spun before messages were due.
    pub spun: bool,
    /// Operations of its scenarios, by name.
    pub tallies: BTreeMap<String, Tally>,
}

/// A phase that took place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseSpan {
    /// The phase.
    pub phase: Phase,
    /// First instant.
    pub start: Time,
    /// First instant after it.
    pub end: Time,
}

/// Time of one event loop, as `load` measures it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoopUsage {
    /// CPU from its start to its end.
    pub total: Nanos,
    /// CPU in the measured phase.
    pub measured: Nanos,
    /// Of the measured phase, the time in which it had nothing to do.
    pub measured_idle: Nanos,
    /// Of the measured phase, the time in which it was ready and had no core; `None` where nobody knows.
    pub measured_run_queue_wait: Option<Nanos>,
    /// Length of the measured phase.
    pub measured_time: Nanos,
    /// Its connections.
    pub connections: u64,
    /// Connections that were lost.
    pub lost_connections: u64,
    /// Connections that were down at the end.
    pub down_connections: u64,
}

/// Operations of a scenario that were due in the measured phase.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Counts by the keys of counters.
    pub counts: BTreeMap<String, u64>,
    /// Why operations failed, and how many.
    pub failures: BTreeMap<String, u64>,
    /// Failures that were time-outs.
    pub timed_out: u64,
}

/// A message that cannot be one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed(pub(crate) String);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no message of a fleet: {}", self.0)
    }
}

impl std::error::Error for Malformed {}
