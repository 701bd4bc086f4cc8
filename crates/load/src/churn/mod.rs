//! Churn: objects that come and go at a rate. Each cycle opens one (a connection, a channel, a
//! queue), sends a few messages through it, and closes it.
//!
//! The schedule is open, as for messages: cycle *i* is due at `start + i / rate`, and what it took
//! counts from then on, however late it began. A broker that stalls therefore shows in the latencies
//! of all cycles that were due meanwhile, and not only of those that were under way.

mod counts;
mod slot;
mod turn;

use std::collections::BTreeMap;
use std::net::IpAddr;

use measure::{CycleCounts, Nanos};
use serde::{Deserialize, Serialize};

use crate::{ArrivalSchedule, Control, Endpoint, Error, Outcome, Phases, Requested, Sink};

/// What comes and goes.
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
    /// What it is called where it is asked for, and in results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::Channels => "channels",
            Self::Queues => "queues",
        }
    }
}

/// A load of churn.
#[derive(Clone, Debug)]
pub struct ChurnPlan {
    /// Where.
    pub endpoint: Endpoint,
    /// What.
    pub kind: ChurnKind,
    /// When cycles are due; `None`: the next begins as soon as one of [`ChurnPlan::most_open`] ends.
    pub schedule: Option<ArrivalSchedule>,
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
    pub timeout: Nanos,
}

/// What became of the cycles that were due in the measured phase. Each of them is in exactly one of
/// `completed`, `failed` and `not_begun`, but where the run broke off.
#[derive(Clone, Debug, Default)]
pub struct ChurnTally {
    /// Counts by the time at which a cycle was due.
    pub counts: CycleCounts,
    /// Cycles that were due and not begun before the end, for want of room
    /// ([`ChurnPlan::most_open`]); their latencies are missing, and would be the worst.
    pub not_begun: u64,
    /// Why cycles failed, and how many for that reason; where there are more reasons than
    /// [`ChurnTally::MOST_REASONS`], the last ones are counted together.
    pub failures: BTreeMap<String, u64>,
    /// Why the first one failed.
    pub first_failure: Option<Error>,
}

impl ChurnTally {
    /// Reasons that are told apart.
    pub const MOST_REASONS: usize = 16;
    /// What the others are counted as.
    pub const OTHERS: &'static str = "other reasons";
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
        self.requested().map(drop)
    }

    /// What the schedule asks for over time, in cycles; `None` without one.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a schedule that cannot be kept.
    pub fn requested(&self) -> Result<Option<Requested>, Error> {
        let Some(schedule) = &self.schedule else {
            return Ok(None);
        };
        let mut requested = Requested::default();
        requested.add(schedule.pacer(1)?, None, Vec::new());
        Ok(Some(requested))
    }

    /// The lengths of the phases; the drain is as long as anything may take.
    #[must_use]
    pub const fn phases(&self) -> Phases {
        Phases {
            warmup: self.warmup,
            measure: Some(self.measure),
            drain: self.timeout,
        }
    }
}

/// Churns until the plan is done, and reports to `sink` about once a second: intervals with
/// [`measure::Interval::cycles`], counts by the time at which something happened, histograms without
/// cycles that were due in the warm-up. [`Outcome::churn`] has the counts by the time at which cycles
/// were due.
///
/// # Errors
/// Where it could not start. What goes wrong later (a connection that was to stay is lost, or every
/// cycle fails) stands in [`Outcome::error`].
pub fn run(plan: &ChurnPlan, control: &Control, sink: &mut dyn Sink) -> Result<Outcome, Error> {
    plan.validate()?;
    crate::limits::enough_for(plan.most_open as u64)?;
    turn::run(plan, control, sink)
}
