//! Verdict of a run. `session` concludes it from [`Facts`]; `report` makes the sentences, kept for all readers.

use serde::{Deserialize, Serialize};

use crate::facts::Facts;

measure::named! {
    /// Who or what kept the run from more messages.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
    #[serde(rename_all = "snake_case")]
    pub enum LimitedBy {
        /// The broker: its CPU, its answers, its alarm.
        Broker = "broker",
        /// bellows itself, or the cores that it had.
        Generator = "generator",
        /// The network between them.
        Network = "network",
        /// The requested rate was met: both could have done more.
        Schedule = "schedule",
        /// The evidence is inconclusive; the sentence says why.
        #[default]
        Undecided = "undecided",
    }
}

/// The conclusion.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Verdict {
    /// Limiting side, or the schedule.
    pub limited_by: LimitedBy,
    /// Why; `None` where nothing was concluded.
    pub cause: Option<Cause>,
    /// One sentence, without a full stop.
    pub sentence: String,
    /// Facts that it rests on, and consequences, the weightiest first.
    pub reasons: Vec<Reason>,
    /// The figures.
    #[serde(rename = "evidence")]
    pub facts: Facts,
}

/// One fact, in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Reason {
    /// Code for machines: `in_flight_full`, `loop_busy`, `broker_cpu`, …
    pub code: String,
    /// Sentence for people.
    pub text: String,
    /// The verdict rests on it; others are circumstances.
    pub decided: bool,
}

/// Cause of the verdict; the figures are in [`Facts`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[serde(tag = "code", rename_all = "snake_case")]
pub enum Cause {
    /// The load broke off with an error.
    BrokeOff,
    /// Every cycle or request failed.
    AllFailed,
    /// As many operations were begun as requested, and some failed: the requested rate was not met.
    SomeFailed,
    /// Too little was measured.
    TooShort,
    /// No message was sent or received, no cycle began.
    NoLoad,
    /// The requested rate was met.
    RateMet {
        /// Lateness that matters more: the broker stood still for a while, or some of it was late for this reason.
        late: Option<Lateness>,
    },
    /// The requested rate was met, and consumers took their time, as they were asked to.
    ConsumersSlow,
    /// The requested rate was met, but consumers fell behind, for this reason.
    ConsumersBehind {
        /// Why they did.
        why: Box<Cause>,
    },
    /// Producers waited for their think time, as they were asked to.
    ThinkTime,
    /// Consumers took their time, as they were asked to.
    ServiceTime,
    /// A fault that the run itself made.
    OwnFault {
        /// Deliveries were lacking, not messages to send.
        deliveries: bool,
    },
    /// Other processes took the cores of broker and generator.
    OthersFillMachine,
    /// The broker stopped answering, and its threads waited for the cores that other processes took.
    StalledForCores,
    /// The generator waited in the run queue.
    GeneratorLacksCores {
        /// Cores that other processes took, where that is much.
        others: Option<f64>,
    },
    /// Broker and generator fill the machine that they share.
    BothFillMachine,
    /// The machine is full, perhaps by the broker's work.
    MachineFull,
    /// Both generator and broker are at their limits.
    BothBusy,
    /// An event loop was at work all the time.
    GeneratorBusy,
    /// Messages could go and waited for the event loop.
    GeneratorLate,
    /// Producers had nothing to send: all that was requested of them was sent, or was not due yet.
    NothingDue,
    /// No cause stands out.
    Unclear,
    /// The broker has no CPU left.
    BrokerBusy {
        /// Reason for the wait.
        wait: Awaited,
        /// Evidence that no CPU is left.
        busy: Busy,
    },
    /// The broker's threads waited in the run queue.
    BrokerLacksCores {
        /// Reason for the wait.
        wait: Awaited,
    },
    /// The broker stopped answering or was away, and went on later.
    BrokerStalled {
        /// How long in all, seconds.
        for_s: f64,
        /// How often.
        times: u64,
    },
    /// The broker was slow, but neither for its CPU nor for the network.
    BrokerSlow {
        /// Reason for the wait.
        wait: Awaited,
    },
    /// The in-flight limit was reached, and the broker took its usual time.
    InFlightLimit,
    /// Answers were waited for, and the broker's process is not known.
    BrokerUnknown,
    /// A round trip takes most of the time that an answer takes.
    RoundTrip,
    /// The way through the proxy takes most of it.
    ProxyWay,
    /// The link is full.
    LinkFull {
        /// Reason for the wait.
        wait: Awaited,
    },
    /// Sockets were full, and not because the broker did not read.
    NetworkFull,
    /// A proxy passes on no more, though the broker reads all that comes.
    ProxyFull {
        /// Reason for the wait.
        wait: Awaited,
    },
    /// A proxy hides who is slow.
    ProxyHides {
        /// Reason for the wait.
        wait: Awaited,
    },
    /// Even the simplest answer takes long: by the network, or the broker.
    SlowEvenIdle,
    /// The broker did not read.
    BrokerDoesNotRead,
    /// Sockets were full: the broker does not read, or the network is full.
    SocketsFull,
    /// The broker gave its publishers no credit.
    NoCredit,
    /// The broker blocked its publishers.
    Alarm,
    /// There was no connection.
    NoConnection,
    /// Consumers had time to spare, and so had the broker.
    ConsumersIdle,
}

/// Reasons for producers or consumers to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum Awaited {
    /// Answers: the in-flight limit was reached.
    Answers,
    /// Credit: the broker says how many messages it takes.
    Credit,
    /// Room in the sockets.
    Sockets,
    /// Deliveries from the queue.
    Deliveries,
}

/// Evidence that the broker has no CPU left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum Busy {
    /// The broker fills the machine.
    Machine,
    /// One of its threads has no CPU left.
    Thread,
    /// The broker uses all cores.
    Cores,
}

/// Why messages left late.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum Lateness {
    /// The broker did not answer, or all connections were down, for a while.
    BrokerStalled,
    /// A fault that the run itself made.
    OwnFault,
    /// The broker was away, blocked its publishers, or took its time.
    Broker,
    /// The generator did not run for a while.
    GeneratorStalled,
    /// The whole machine stood still for a while.
    MachineStalled,
    /// The generator lacked CPU time.
    Cores,
    /// The generator was late.
    Generator,
}
