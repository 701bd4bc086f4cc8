//! Churn: objects that come and go at a rate. Each cycle opens one (a connection, a channel, a
//! queue), sends a few messages through it, and closes it.
//!
//! Cycle *i* is due at `start + i / rate`.

mod counts;
mod cycles;
mod metrics;
mod slot;

use std::net::IpAddr;

use measure::{Metric, Nanos};
use serde::{Deserialize, Serialize};

use self::metrics::ChurnMetrics;
use super::operations::{self, LoopContext};
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
