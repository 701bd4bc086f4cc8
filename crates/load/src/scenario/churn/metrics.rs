//! The metrics of churn.
//!
//! ```text
//! due        begun     connected    secured     logged in    channel       closed
//!  |-- wait ---|- connect -|-- secure --|-- log in --|- open ch. -|-- close --|
//!  |------------------- open ------------------------|                        |
//!  |------------------------------- cycle ------------------------------------|
//! ```
//!
//! `open` and `cycle` count from the time that the cycle was due, and so are free of coordinated
//! omission; the steps follow upon each other and add up to the cycle.

use measure::{Metric, ScenarioRole};

use super::NAME;
use crate::scenario::operations::OperationMetrics;

measure::metrics! {
    /// The metrics of churn: the whole first, then the parts in the order of time.
    pub(super) struct ChurnMetrics of "churn" {
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
pub(super) enum CycleStep {
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
    pub(super) fn is_answer(self) -> bool {
        self != Self::Connect
    }

    /// Whether the cycle asks nothing more after it.
    pub(super) const fn is_last(self) -> bool {
        matches!(self, Self::Delete | Self::CloseChannel | Self::Close)
    }
}

impl ChurnMetrics {
    #[inline]
    pub(super) const fn step(&self, step: CycleStep) -> Metric {
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

    pub(super) const fn operations(&self) -> OperationMetrics {
        OperationMetrics {
            scenario: NAME,
            words: ["cycle", "cycles"],
            role: ScenarioRole::Broker,
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
