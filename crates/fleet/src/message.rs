//! Messages between a coordinator and its workers, and their form on the wire.
//!
//! ```text
//! control   JSON: {"version":1,"envelope":{"epoch":…,"session":…,"number":…,"received":…,"stamp":…,"body":{…}}}
//! others    0xb5 | version, kind, epoch, session, number, received, stamp as LEB128 | SliceData
//!           kind: 1 slice, 2 censored, 3 ledger
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use measure::leb128::{put_number, take_numbers};
use measure::ledger::LedgerSummary;
use measure::{Counters, Nanos, Phase, ThreadUsage, Time};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::slice::{Malformed, SliceData, fields_of};

/// Version of the form; another one is refused.
pub(crate) const VERSION: u64 = 1;
/// First byte of slices; no JSON begins with it.
const BINARY: u8 = 0xb5;
const SLICE: u64 = 1;
const CENSORED: u64 = 2;
const LEDGER: u64 = 3;
/// Bytes of a ledger that one message carries.
pub const LEDGER_PIECE: usize = MOST_BYTES / 2;
/// Bytes of a worker's names, labels and limits at most.
const MOST_FACTS: usize = 16 << 10;
/// Counts of a load are no larger; sums of thousands of workers' do not overflow.
const MOST_COUNTED: u64 = 1 << 50;
/// Event loops of a worker at most.
const MOST_THREADS: usize = 4_096;
/// Bytes of a message at most: what a NATS server takes unless configured otherwise.
pub const MOST_BYTES: usize = 1 << 20;

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

/// Messages of a coordinator.
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
    /// Something that others have reported, as JSON of whoever runs the load.
    News(Value),
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
    /// Bytes of the files that the plan names, which the worker asks the coordinator for; 0 where it names none.
    pub files: u64,
}

impl fmt::Debug for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "share {} of {} ({} bytes)", self.worker, self.workers, self.plan.len())
    }
}

/// Messages of a worker.
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
        /// The time that stood in [`ToWorker::Probe`].
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
    /// Messages and operations without an answer, as a slice of the drain; before [`ToCoordinator::Ended`].
    #[serde(skip)]
    Censored(SliceData),
    /// The next piece of its part of the ledger; before [`ToCoordinator::Ended`].
    #[serde(skip)]
    Ledger(Arc<[u8]>),
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
    /// Its name: the machine's unless told otherwise. Workers are numbered in the order of their names, those that
    /// record after the others.
    pub name: String,
    /// Name of the machine.
    pub host: String,
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
    /// The broker's process that it records, instead of carrying a part of the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub records: Option<Box<RecordedProcess>>,
}

/// A broker's process on a worker's machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedProcess {
    /// Its Erlang node, else its command; the name or number that was given where there is no such process.
    pub name: String,
    /// Why it cannot be recorded, or not be profiled, with the remedy; `None` where it can.
    pub problem: Option<String>,
}

impl WorkerFacts {
    fn check(&self) -> Result<(), Malformed> {
        let pairs = self.labels.iter().chain(&self.limits).flat_map(|(key, value)| [key, value]);
        let bytes: usize = pairs.chain([&self.name, &self.version, &self.machine]).map(String::len).sum();
        if bytes <= MOST_FACTS {
            return Ok(());
        }
        Err(Malformed(format!("its worker has {bytes} bytes of names, {MOST_FACTS} are the most")))
    }
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
    /// Time of each of its event loops.
    pub threads: Vec<ThreadUsage>,
    /// Its loops spun before messages were due.
    pub spun: bool,
    /// Operations of its scenarios, by name.
    pub tallies: BTreeMap<String, Tally>,
}

impl LoadOutcome {
    /// Whether a load can have gone so: sums of what none can have counted would overflow.
    pub(crate) fn is_possible(&self) -> bool {
        let of = self.ledger.unwrap_or_default();
        let missing = [of.lost, of.outstanding, of.returned, of.unconfirmed_missing, of.unconfirmed_delivered];
        let again = [of.duplicated, of.duplicated_redelivered, of.duplicated_resent, of.reordered];
        let others = [of.sent, of.delivered, of.corrupt, of.foreign];
        let ledger = missing.iter().chain(&again).chain(&others);
        let own = [self.unconfirmed, self.unanswered, self.unsent];
        let counters = [self.totals, self.measured].map(fields_of);
        let counts = counters.iter().flatten().chain(ledger).chain(&own);
        let early = self.threads.iter().map(|it| &it.early.count);
        self.threads.len() <= MOST_THREADS && counts.chain(early).all(|count| *count <= MOST_COUNTED)
    }
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

#[derive(Serialize, Deserialize)]
struct Versioned<E> {
    version: u64,
    envelope: E,
}

#[derive(Deserialize)]
struct VersionOnly {
    version: u64,
}

pub(crate) fn check_version(version: u64) -> Result<(), Malformed> {
    if version == VERSION {
        return Ok(());
    }
    Err(Malformed(format!("it has version {version}, this bellows speaks {VERSION}: use the same bellows everywhere")))
}

pub(crate) fn check_size(bytes: &[u8]) -> Result<(), Malformed> {
    if bytes.len() <= MOST_BYTES {
        return Ok(());
    }
    Err(Malformed(format!("it has {} bytes, {MOST_BYTES} are the most", bytes.len())))
}

fn to_json<T: Serialize>(envelope: &Envelope<T>) -> Result<Vec<u8>, Malformed> {
    let versioned = Versioned { version: VERSION, envelope };
    let bytes = serde_json::to_vec(&versioned).map_err(|error| Malformed(error.to_string()))?;
    check_size(&bytes)?;
    Ok(bytes)
}

fn from_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<Envelope<T>, Malformed> {
    check_size(bytes)?;
    let versioned = serde_json::from_slice::<Versioned<Envelope<T>>>(bytes);
    match versioned {
        Ok(Versioned { version, envelope }) => check_version(version).map(|()| envelope),
        // Another version may say other things.
        Err(error) => {
            let version = serde_json::from_slice(bytes).map_or(VERSION, |VersionOnly { version }| version);
            check_version(version)?;
            Err(Malformed(error.to_string()))
        }
    }
}

impl Envelope<ToWorker> {
    /// Encodes it. Errors: it is larger than [`MOST_BYTES`], as with a plan that holds large payloads.
    pub fn encode(&self) -> Result<Vec<u8>, Malformed> {
        to_json(self)
    }

    /// Decodes it.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        from_json(bytes)
    }
}

impl Envelope<ToCoordinator> {
    /// Encodes it. Errors: it is larger than [`MOST_BYTES`].
    pub fn encode(&self) -> Result<Vec<u8>, Malformed> {
        let (kind, content) = match &self.body {
            ToCoordinator::Slice(SliceData(slice)) => (SLICE, slice),
            ToCoordinator::Censored(SliceData(slice)) => (CENSORED, slice),
            ToCoordinator::Ledger(piece) => (LEDGER, piece),
            _ => return to_json(self),
        };
        let mut bytes = vec![BINARY];
        let head = [VERSION, kind, self.epoch, self.session, self.number, self.received, self.stamp.0];
        head.into_iter().for_each(|number| put_number(&mut bytes, number));
        bytes.extend_from_slice(content);
        check_size(&bytes)?;
        Ok(bytes)
    }

    /// Decodes it.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let Some(mut rest) = bytes.strip_prefix(&[BINARY]) else {
            let envelope: Self = from_json(bytes)?;
            return match &envelope.body {
                ToCoordinator::Join(facts) | ToCoordinator::Status { facts, .. } => facts.check().map(|()| envelope),
                _ => Ok(envelope),
            };
        };
        check_size(bytes)?;
        let cut_off = || Malformed("its head is cut off".into());
        let [version] = take_numbers(&mut rest).ok_or_else(cut_off)?;
        check_version(version)?;
        let [kind, epoch, session, number, received, stamp] = take_numbers(&mut rest).ok_or_else(cut_off)?;
        let body = match kind {
            SLICE => ToCoordinator::Slice(SliceData(rest.into())),
            CENSORED => ToCoordinator::Censored(SliceData(rest.into())),
            LEDGER => ToCoordinator::Ledger(rest.into()),
            _ => return Err(Malformed(format!("there is no kind {kind}"))),
        };
        Ok(Self { epoch, session, number, received, stamp: Time(stamp), body })
    }
}
