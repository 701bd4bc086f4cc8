//! `[churn]`: objects that come and go, in place of messages.

use std::net::IpAddr;

use load::scenario::churn::{ChurnKind, ChurnPlan};
use load::{ArrivalSchedule, Endpoint, Protocol};
use measure::{Bytes, Nanos, Problem, Rate};

use super::error::ensure;
use super::flat_table::{FlatTable, flat_table};
use super::{BrokerKind, Experiment, ScheduleSpec};

/// The longest that anything may take where the drain has no length.
const TIMEOUT: Nanos = Nanos::from_millis(10_000);

flat_table! {
    /// Objects that come and go.
    #[derive(Clone, Debug, PartialEq)]
    pub struct ChurnSpec {
        /// The kind of object that is created and removed.
        "kind" kind: ChurnKind = ChurnKind::default(),
        /// The wire protocol; absent: AMQP 0.9.1, but 1.0 for sessions and links, with an `amqp10://` URL and with
        /// `broker.kind = "artemis"`, and MQTT with `mqtt://` and with `broker.kind = "mosquitto"`.
        "protocol" protocol: Option<Protocol> = None,
        /// Cycles per second, such as 200, 2k or 30/min; unthrottled if absent.
        "rate" rate: Option<Rate> = None,
        /// A rate that changes.
        "schedule" schedule: Option<ScheduleSpec> = None,
        /// Messages per cycle; over AMQP 0.9.1 alone.
        "messages" messages: u32 = 0,
        /// Bytes of each message, such as 100 or 4KiB.
        "message-size" message_size: Bytes = Bytes(100),
        /// Maximum cycles in flight; all but connections use as many connections. 1000 connections, or 10 of the
        /// others, if absent.
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
        let schedule = spec.schedule.as_ref().map(|schedule| schedule.resolve(false)).transpose()?;
        let drain = self.phases.drain.0;
        let protocol = self.churn_protocol(spec);
        let mut endpoint = endpoint.clone();
        endpoint.protocol = protocol;
        Ok(Some(ChurnPlan {
            endpoint,
            protocol,
            kind: spec.kind,
            schedule: schedule.or_else(|| spec.rate.map(ArrivalSchedule::constant)),
            warmup: self.phases.warmup.0,
            measure: self.phases.measure.0,
            messages: spec.messages,
            message_size: spec.message_size.as_usize(),
            most_open: spec.max_open.unwrap_or(match spec.kind {
                ChurnKind::Connections => 1_000,
                ChurnKind::Channels | ChurnKind::Queues | ChurnKind::Sessions | ChurnKind::Links => 10,
            }),
            source_addresses: spec.source_addresses.clone(),
            timeout: if drain > Nanos::ZERO { drain } else { TIMEOUT },
        }))
    }

    /// The protocol of churn: as it asks, or its URL, or its kind, else the broker's.
    fn churn_protocol(&self, spec: &ChurnSpec) -> Protocol {
        let by_url = self.broker.url.as_deref().and_then(Endpoint::protocol_of);
        let is_of_1_0 = matches!(spec.kind, ChurnKind::Sessions | ChurnKind::Links);
        let by_kind = match self.broker.kind {
            BrokerKind::Artemis => Protocol::Amqp10,
            BrokerKind::Mosquitto => Protocol::Mqtt,
            _ if is_of_1_0 => Protocol::Amqp10,
            _ => Protocol::Amqp091,
        };
        spec.protocol.or(by_url).unwrap_or(by_kind)
    }

    /// Checks for keys that do nothing beside churn, or exclude each other.
    pub(super) fn check_churn(&self) -> Result<(), Problem> {
        let Some(spec) = &self.churn else { return Ok(()) };
        if let Some(protocol) = spec.protocol {
            self.broker.kind.check_speaks("churn.protocol", protocol)?;
        }
        let unused = [
            ("until", self.until.is_some()),
            ("threads", self.threads > 1),
            ("broker.further-urls", !self.broker.further_urls.is_empty()),
        ];
        let alone = self.load.is_empty();
        for (key, given) in unused {
            let help = "leave it or [churn] out, or add [[load]]";
            ensure(!(given && alone), key, " has no effect on churn, which has one event loop and one node", help)?;
        }
        let help = "give it a length, or add a [[load]] with a message-count that ends both";
        ensure(!alone || !self.phases.measure.is_zero(), "phases.measure", ": churn alone would not end", help)?;
        let why = ": there is a rate too, and churn takes one of the two";
        ensure(spec.rate.is_none() || spec.schedule.is_none(), "churn.schedule", why, "leave one out")
    }
}
