//! `[churn]`: objects that come and go, in place of messages.

use std::net::IpAddr;

use load::scenario::churn::{ChurnKind, ChurnPlan};
use load::{ArrivalSchedule, Endpoint};
use measure::{Bytes, Nanos, Problem, Rate};

use super::flat_table::{FlatTable, flat_table};
use super::validate::wrong;
use super::{Experiment, ScheduleSpec};

/// The longest that anything may take where the drain has no length.
const TIMEOUT: Nanos = Nanos::from_millis(10_000);

flat_table! {
    /// Objects that come and go.
    #[derive(Clone, Debug, PartialEq)]
    pub struct ChurnSpec {
        /// The kind of object that is created and removed.
        "kind" kind: ChurnKind = ChurnKind::default(),
        /// Cycles per second; unthrottled if absent.
        "rate" rate: Option<Rate> = None,
        /// A rate that changes.
        "schedule" schedule: Option<ScheduleSpec> = None,
        /// Messages per cycle.
        "messages" messages: u32 = 0,
        /// Bytes of each message.
        "message-size" message_size: Bytes = Bytes(100),
        /// Maximum cycles in flight; channels and queues use as many connections. 1000 connections, or 10
        /// channels or queues, if absent.
        "max-open" max_open: Option<usize> = None,
        /// Local addresses to connect from, in turn.
        "source-addresses" source_addresses: Vec<IpAddr> = Vec::new(),
    }
}

impl FlatTable for ChurnSpec {
    const REQUIRED: Option<&'static str> = Some("kind");
}

impl Experiment {
    /// The churn against `endpoint`; `None` where messages are the load.
    pub fn churn_plan(&self, endpoint: &Endpoint) -> Result<Option<ChurnPlan>, load::Error> {
        let Some(spec) = &self.churn else { return Ok(None) };
        let constant = spec.rate.map(ArrivalSchedule::constant);
        let schedule = match &spec.schedule {
            None => constant,
            Some(schedule) => Some(schedule.resolve(false)?),
        };
        let drain = self.phases.drain.0;
        Ok(Some(ChurnPlan {
            endpoint: endpoint.clone(),
            kind: spec.kind,
            schedule,
            warmup: self.phases.warmup.0,
            measure: self.phases.measure.0,
            messages: spec.messages,
            message_size: spec.message_size.as_usize(),
            most_open: spec.max_open.unwrap_or(match spec.kind {
                ChurnKind::Connections => 1_000,
                ChurnKind::Channels | ChurnKind::Queues => 10,
            }),
            source_addresses: spec.source_addresses.clone(),
            timeout: if drain > Nanos::ZERO { drain } else { TIMEOUT },
        }))
    }

    /// Checks for keys that do nothing beside churn, or exclude each other.
    pub(super) fn check_churn(&self) -> Result<(), Problem> {
        let Some(spec) = &self.churn else { return Ok(()) };
        if self.broker.url.as_deref().and_then(Endpoint::protocol_of).is_some() {
            let why = " says amqp10://, and churn speaks AMQP 0.9.1";
            return Err(wrong("broker.url", why, "write amqp:// in its place"));
        }
        let unused = [
            ("until", self.until.is_some()),
            ("threads", self.threads > 1),
            ("broker.further-urls", !self.broker.further_urls.is_empty()),
        ];
        let alone = self.load.is_empty();
        if let Some((key, _)) = unused.into_iter().find(|(_, given)| *given && alone) {
            let help = "leave it or [churn] out, or add [[load]]";
            return Err(wrong(key, " has no effect on churn, which has one event loop and one node", help));
        }
        if alone && self.phases.measure.is_zero() {
            let help = "give it a length, or add a [[load]] with a message-count that ends both";
            return Err(wrong("phases.measure", ": churn alone would not end", help));
        }
        if spec.rate.is_some() && spec.schedule.is_some() {
            let help = "leave one out";
            return Err(wrong("churn.schedule", ": there is a rate too, and churn takes one of the two", help));
        }
        Ok(())
    }
}
