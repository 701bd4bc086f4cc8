//! `[churn]`: objects that come and go, in place of messages.

use std::net::IpAddr;

use load::scenario::churn::{ChurnKind, ChurnPlan};
use load::{ArrivalSchedule, Endpoint};
use measure::{Bytes, Nanos, Problem, Rate};
use serde::{Deserialize, Serialize};

use super::validate::wrong;
use super::{Experiment, ScheduleSpec};

/// The longest that anything may take where the drain has no length.
const TIMEOUT: Nanos = Nanos::from_millis(10_000);

/// Objects that come and go.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ChurnSpec {
    /// The kind of object that is created and removed.
    pub kind: ChurnKind,
    /// Cycles per second; unthrottled if absent.
    pub rate: Option<Rate>,
    /// A rate that changes.
    pub schedule: Option<ScheduleSpec>,
    /// Messages per cycle.
    #[serde(default)]
    pub messages: u32,
    /// Bytes of each message.
    #[serde(default = "ChurnSpec::message_size")]
    pub message_size: Bytes,
    /// Maximum cycles in flight; channels and queues use as many connections. 1000 connections, or 10
    /// channels or queues, if absent.
    pub max_open: Option<usize>,
    /// Local addresses to connect from, in turn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub source_addresses: Vec<IpAddr>,
}

impl ChurnSpec {
    /// Default size of a message.
    #[must_use]
    pub const fn message_size() -> Bytes {
        Bytes(100)
    }
}

impl Experiment {
    /// The churn against `endpoint`; `None` where messages are the load.
    ///
    /// # Errors
    /// A schedule that cannot be read.
    pub fn churn_plan(&self, endpoint: &Endpoint) -> Result<Option<ChurnPlan>, load::Error> {
        let Some(spec) = &self.churn else {
            return Ok(None);
        };
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
        let Some(spec) = &self.churn else {
            return Ok(());
        };
        let unused = [
            ("until", self.until.is_some()),
            ("threads", self.threads > 1),
            ("broker.further-urls", !self.broker.further_urls.is_empty()),
        ];
        let alone = self.load.is_empty();
        if let Some((key, _)) = unused.into_iter().find(|(_, given)| *given && alone) {
            return Err(wrong(
                key,
                " has no effect on churn, which has one event loop and one node",
                "leave it or [churn] out, or add [[load]]",
            ));
        }
        if alone && self.phases.measure.is_zero() {
            return Err(wrong(
                "phases.measure",
                ": churn alone would not end",
                "give it a length, or add a [[load]] with a message-count that ends both",
            ));
        }
        if spec.rate.is_some() && spec.schedule.is_some() {
            return Err(wrong(
                "churn.schedule",
                ": there is a rate too, and churn takes one of the two",
                "leave one out",
            ));
        }
        Ok(())
    }
}
