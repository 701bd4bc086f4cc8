//! Churn: objects that come and go at a rate. Each cycle opens one (a connection, a channel, a
//! queue), sends a few messages through it, and closes it.
//!
//! Cycle *i* is due at `start + i / rate`.

mod counts;
mod cycles;
mod slot;

use std::net::IpAddr;

use measure::{Metric, Nanos};
use serde::{Deserialize, Serialize};

use super::operations::{self, LoopContext, OperationMetrics};
use super::{Operations, Scenario};
use crate::{
    ArrivalSchedule, Control, Endpoint, Error, Outcome, Phases, Requested, SliceSink, Together,
};

/// The key of experiment files and of JSON.
const NAME: &str = "churn";

/// Kinds of objects that come and go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChurnKind {
    #[default]
    /// TCP, TLS where it is asked for, login, virtual host; closed in order.
    Connections,
    /// `channel.open`, `channel.close` on connections that stay.
    Channels,
    /// `queue.declare`, `queue.delete` on channels that stay; transient classic queues.
    Queues,
}

impl ChurnKind {
    /// Its name where it is asked for, and in results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::Channels => "channels",
            Self::Queues => "queues",
        }
    }
}

/// Cycles of churn, an operation of the event loop.
struct Cycles;

/// The part of the event loop that cycles work with.
type CycleContext<'a> = LoopContext<'a, Cycles>;

/// A load of churn.
#[derive(Clone, Debug)]
pub struct ChurnPlan {
    /// The broker's address.
    pub endpoint: Endpoint,
    /// Kind of objects that are opened and closed.
    pub kind: ChurnKind,
    /// When cycles are due; `None`: the next begins as soon as one of [`ChurnPlan::most_open`] ends.
    pub schedule: Option<ArrivalSchedule>,
    /// Cycles that were due in this time are not counted.
    pub warmup: Nanos,
    /// How long new cycles begin after that; zero: until a scenario beside it ends.
    pub measure: Nanos,
    /// Messages that each cycle sends, transient and unconfirmed. Without a queue of their own they reach none.
    pub messages: u32,
    /// Bytes of each message.
    pub message_size: usize,
    /// Maximum cycles in flight. For channels and queues as many connections are kept.
    pub most_open: usize,
    /// Addresses of this machine to connect from, in turn.
    pub source_addresses: Vec<IpAddr>,
    /// The longest that anything may take.
    pub timeout: Nanos,
}

impl ChurnPlan {
    /// Checks what can be checked before anything is begun.
    ///
    /// # Errors
    /// [`Error::Invalid`], with the remedy.
    pub fn validate(&self) -> Result<(), Error> {
        if self.most_open == 0 || self.most_open > 60_000 {
            return Err(Error::invalid(
                format!("{} cycles at the same time cannot be had", self.most_open),
                "ask for 1 to 60000",
            )
            .observed(self.most_open)
            .about("churn.max-open"));
        }
        if self.message_size > 100_000 {
            return Err(Error::invalid(
                format!(
                    "messages of {} bytes are too large for churn",
                    self.message_size
                ),
                "ask for 100000 bytes at most",
            )
            .observed(self.message_size)
            .about("churn.message-size"));
        }
        let requested = Scenario::requested(self);
        requested
            .map(drop)
            .map_err(|error| error.about("churn.rate"))
    }
}

/// Counts of [`Outcome::tallies`] go by the time at which a cycle was due: each cycle that was due in
/// the measured phase is in exactly one of `completed`, `failed` and `not_begun`, but where the run
/// broke off. Counts of intervals go by the time at which something happened.
impl Scenario for ChurnPlan {
    fn name(&self) -> &'static str {
        NAME
    }

    fn subject(&self) -> &str {
        self.kind.name()
    }

    fn metrics(&self) -> Vec<Metric> {
        ChurnMetrics::resolve(NAME).all()
    }

    fn operations(&self) -> Option<Operations> {
        Some(ChurnMetrics::resolve(NAME).operations().operations())
    }

    /// In cycles.
    fn requested(&self) -> Result<Option<Requested>, Error> {
        self.schedule.as_ref().map(Requested::of).transpose()
    }

    fn in_flight_limit(&self) -> Option<u64> {
        Some(self.most_open as u64)
    }

    fn connections(&self) -> u64 {
        self.most_open as u64
    }

    /// The drain is as long as anything may take.
    fn phases(&self) -> Phases {
        Phases::new(self.warmup, self.measure, self.timeout)
    }

    /// Churns on a thread of its own, and hands what it tells to `sink` on this one.
    fn run(
        &self,
        together: &Together,
        control: &Control,
        sink: &mut dyn SliceSink,
    ) -> Result<Outcome, Error> {
        self.validate()?;
        operations::run::<Cycles>(self, together, control, sink)
    }
}

measure::metrics! {
    /// The metrics of churn: the whole first, then the parts in the order of time.
    ///
    /// ```text
    /// due        begun     connected    secured     logged in    channel       closed
    ///  |-- wait ---|- connect -|-- secure --|-- log in --|- open ch. -|-- close --|
    ///  |------------------- open ------------------------|                        |
    ///  |------------------------------- cycle ------------------------------------|
    /// ```
    ///
    /// `open` and `cycle` count from the time that the cycle was due, and so are free of coordinated
    /// omission; the steps follow upon each other and add up to the cycle.
    struct ChurnMetrics of "churn" {
        cycle: latency() "cycle", "cycle", "due time to the end of the cycle; what has none counts with the time \
            that it waited: until its time-out, or the run's end";
        open: latency() "open", "open", "due time until what the cycle opens is open";
        wait: part() "wait", "wait", "due time to the beginning of the cycle";
        connect: part() "connect", "connect", "the TCP connection";
        secure: part() "secure", "secure", "the TLS handshake";
        log_in: part() "log_in", "log in", "connected or secured until connection.open-ok";
        open_channel: part() "open_channel", "open channel", "channel.open until channel.open-ok";
        declare: part() "declare", "declare", "queue.declare until queue.declare-ok";
        delete: part() "delete", "delete", "queue.delete until queue.delete-ok, and the messages before it";
        close_channel: part() "close_channel", "close channel",
            "channel.close until channel.close-ok, and the messages before it";
        close: part() "close", "close", "connection.close until connection.close-ok, and the messages before it";
        begun: counter("cycles") "begun", "begun", "cycles that began";
        completed: counter("cycles") "completed", "completed", "cycles that ended in order";
        failed: counter("cycles") "failed", "failed", "cycles that did not end in order";
        late: counter("cycles") "late", "late", "cycles that began over 1 ms after they were due";
        in_flight: peak("cycles") "under_way", "in flight", "most cycles in flight at the same time";
        not_begun: counter("cycles") "not_begun", "not begun", "cycles that were due and found no room before the \
            end: they count with the time that they had waited by then";
        messages: peak("cycles") "messages", "messages each", "messages that each cycle sends";
    }
    at the end: not_begun, messages
}

/// A step of a cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CycleStep {
    Connect,
    Secure,
    LogIn,
    OpenChannel,
    Declare,
    Delete,
    CloseChannel,
    Close,
}

impl CycleStep {
    /// Whether the broker ends it: to connect is answered by the kernel, also where nobody accepts.
    fn is_answer(self) -> bool {
        self != Self::Connect
    }

    /// Whether the cycle asks nothing more after it.
    const fn is_last(self) -> bool {
        matches!(self, Self::Delete | Self::CloseChannel | Self::Close)
    }
}

impl ChurnMetrics {
    #[inline]
    const fn step(&self, step: CycleStep) -> Metric {
        match step {
            CycleStep::Connect => self.connect,
            CycleStep::Secure => self.secure,
            CycleStep::LogIn => self.log_in,
            CycleStep::OpenChannel => self.open_channel,
            CycleStep::Declare => self.declare,
            CycleStep::Delete => self.delete,
            CycleStep::CloseChannel => self.close_channel,
            CycleStep::Close => self.close,
        }
    }

    const fn operations(&self) -> OperationMetrics {
        OperationMetrics {
            scenario: NAME,
            words: ["cycle", "cycles"],
            begun: self.begun,
            completed: self.completed,
            failed: self.failed,
            late: self.late,
            in_flight: self.in_flight,
            not_begun: self.not_begun,
            in_flight_at_end: None,
            wait: self.wait,
            latency: self.cycle,
            opened: Some(self.open),
        }
    }
}
