//! Churn: objects that come and go at a rate. Each cycle opens one (a connection, a channel, a
//! queue), sends a few messages through it, and closes it.
//!
//! The schedule is open, as for messages: cycle *i* is due at `start + i / rate`, and what it took
//! counts from then on, however late it began. A broker that stalls therefore shows in the latencies
//! of all cycles that were due meanwhile, and not only of those that were under way.

mod slot;
mod turn;

use measure::{LatencySummary, Nanos, Rate};
use std::net::IpAddr;

use crate::{Control, Endpoint, Error};

/// What comes and goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChurnKind {
    /// TCP, TLS where it is asked for, login, virtual host; closed in order.
    Connections,
    /// `channel.open`, `channel.close` on connections that stay.
    Channels,
    /// `queue.declare`, `queue.delete` on channels that stay; transient classic queues.
    Queues,
}

/// A load of churn.
#[derive(Clone, Debug)]
pub struct ChurnPlan {
    /// Where.
    pub endpoint: Endpoint,
    /// What.
    pub kind: ChurnKind,
    /// Cycles a second; `None`: the next begins as soon as one of [`ChurnPlan::most_open`] ends.
    pub rate: Option<Rate>,
    /// Cycles that were due in this time are not counted.
    pub warmup: Nanos,
    /// How long new cycles begin after that.
    pub measure: Nanos,
    /// Messages that each cycle sends, transient and unconfirmed. Without a queue of their own they
    /// reach none.
    pub messages: u32,
    /// Bytes of each message.
    pub message_size: usize,
    /// Cycles under way at the same time at most. For channels and queues so many connections are
    /// kept.
    pub most_open: usize,
    /// Addresses of this machine to connect from, in turn.
    pub source_addresses: Vec<IpAddr>,
    /// The longest that anything may take.
    pub patience: Nanos,
}

/// How it went; the measured phase.
#[derive(Clone, Debug)]
pub struct ChurnOutcome {
    /// From the first instant of the measured phase to its last.
    pub length: Nanos,
    /// Cycles that were due and begun.
    pub begun: u64,
    /// Cycles that were due and not begun before the end, for want of room
    /// ([`ChurnPlan::most_open`]); their latencies are missing, and would be the worst.
    pub not_begun: u64,
    /// Cycles that ended in order.
    pub completed: u64,
    /// Cycles that did not.
    pub failed: u64,
    /// Cycles that began over 1 ms late.
    pub late: u64,
    /// Why the first one failed.
    pub first_failure: Option<Error>,
    /// From the time that a cycle was due until what it opens was open.
    pub open: LatencySummary,
    /// From the time that a cycle was due until it had ended.
    pub cycle: LatencySummary,
    /// Stopped before its time.
    pub interrupted: bool,
}

/// What happened lately.
#[derive(Clone, Copy, Debug, Default)]
pub struct ChurnProgress {
    /// Since the first cycle was due.
    pub elapsed: Nanos,
    /// Cycles that ended in order since the last time.
    pub completed: u64,
    /// Cycles that failed since the last time.
    pub failed: u64,
    /// Cycles that are under way.
    pub open: usize,
    /// 99th percentile of the open latency since the last time.
    pub p99: Nanos,
}

impl ChurnPlan {
    fn validate(&self) -> Result<(), Error> {
        if self.most_open == 0 || self.most_open > 60_000 {
            return Err(Error::invalid(
                format!("{} cycles at the same time cannot be had", self.most_open),
                "ask for 1 to 60000 (--max-open)",
            ));
        }
        if self.measure == Nanos::ZERO {
            return Err(Error::invalid(
                "churn without a length would not end",
                "give one (--duration)",
            ));
        }
        if self.message_size > 100_000 {
            return Err(Error::invalid(
                format!(
                    "messages of {} bytes are too large for churn",
                    self.message_size
                ),
                "ask for 100000 bytes at most",
            ));
        }
        Ok(())
    }
}

/// Churns until the plan is done; `tell` is called about once a second.
///
/// # Errors
/// Where it could not start, or where a connection that was to stay was lost.
pub fn run(
    plan: &ChurnPlan,
    control: &Control,
    tell: &mut dyn FnMut(ChurnProgress),
) -> Result<ChurnOutcome, Error> {
    plan.validate()?;
    crate::limits::enough_for(plan.most_open as u64)?;
    turn::Churn::start(plan, control)?.run(tell)
}
