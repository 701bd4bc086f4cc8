//! Conversion of an experiment into a plan for the load engine.

use load::{
    Allocation, AmqpDestination, AmqpProducers, ArrivalProcess, ArrivalSchedule, Consumers, Destination,
    DestinationKind, Endpoint, Group, Guarantee, MessageProperties, OwnDestinations, Plan, Producers, Protocol,
    RandomKeys, RateProfile, ReconnectPolicy, Spacing, StartDelay, Subscription,
};
use measure::{Length, Nanos};

use super::cluster_spec::begins_on;
use super::{BrokerKind, Experiment, LoadSpec};

impl Experiment {
    /// The load against `endpoint`. `run_id` marks this run's messages.
    pub fn plan(&self, endpoint: &Endpoint, run_id: u32) -> Result<Plan, load::Error> {
        let mut further = self.further_nodes(endpoint)?;
        for node in &mut further {
            node.token.clone_from(&endpoint.token);
        }
        let lengths = &self.phases;
        let groups = self
            .load
            .iter()
            .enumerate()
            .map(|(i, spec)| {
                let own = self.own_endpoint(spec).map_err(|e| e.about("url").in_group(i))?;
                let mut further = if own.is_some() { Vec::new() } else { further.clone() };
                let protocol = self.protocol_of(spec);
                for node in &mut further {
                    (node.protocol, node.connection.mqtt_version) = (protocol, spec.mqtt_version);
                }
                let mut first = own.unwrap_or_else(|| endpoint.clone());
                first.token.clone_from(&endpoint.token);
                (first.protocol, first.connection.mqtt_version) = (protocol, spec.mqtt_version);
                let group = group(spec, first, run_id).map_err(|e| e.in_group(i))?;
                Ok(Group { further, allocation: self.broker.allocation, ..group })
            })
            .collect::<Result<_, load::Error>>()?;
        Ok(Plan {
            groups,
            threads: self.threads,
            ledger: self.ledger,
            measures_age: !self.is_prepared,
            phases: load::Phases::new(lengths.warmup.0, lengths.measure.0, lengths.drain.0),
            run_id,
            prefilled: self.prefilled(),
            stop: self.until,
            ..Plan::default()
        })
    }

    /// The protocol of a load's messages: as it asks, or its URL, else the broker's.
    pub fn protocol_of(&self, spec: &LoadSpec) -> Protocol {
        spec.protocol.unwrap_or(match self.broker.kind {
            BrokerKind::Artemis => Protocol::Amqp10,
            BrokerKind::Mosquitto => Protocol::Mqtt,
            BrokerKind::Attach => self.protocol_by_url(spec).unwrap_or_default(),
            BrokerKind::Embedded | BrokerKind::Rabbitmq => Protocol::Amqp091,
        })
    }

    /// The protocol that a URL says which a load connects to, as `amqp10://` does.
    pub(super) fn protocol_by_url(&self, spec: &LoadSpec) -> Option<Protocol> {
        let shared = self.broker.url.iter().chain(&self.broker.further_urls).filter(|_| spec.url.is_none());
        spec.url.iter().chain(shared).find_map(|url| Endpoint::protocol_of(url))
    }
}

fn group(spec: &LoadSpec, endpoint: Endpoint, run_id: u32) -> Result<Group, load::Error> {
    Ok(Group {
        protocol: endpoint.protocol,
        endpoint,
        mqtt: spec.mqtt,
        further: Vec::new(),
        allocation: Allocation::default(),
        begins_on: begins_on(spec),
        destinations: destinations(spec)?,
        producers: producers(spec)?,
        consumers: consumers(spec, run_id),
        queues: spec.handling,
        source_addresses: spec.source_addresses.clone(),
        placement: spec.place,
        reconnect: spec.recover.map(|wait| ReconnectPolicy { min: wait.min.0, max: wait.max.0 }),
        own: OwnDestinations::default(),
    })
}

fn message_count(spec: &LoadSpec) -> Option<u64> {
    Some(spec.message_count).filter(|count| *count > 0)
}

fn producers(spec: &LoadSpec) -> Result<Producers, load::Error> {
    Ok(Producers {
        per_destination: spec.producers,
        total: spec.total_producers,
        connections: spec.producer_connections,
        arrivals: arrivals(spec)?,
        start_delay: start_delay(spec),
        max_pending: spec.in_flight_window(),
        sizes: spec.message_size.resolve().map_err(|e| e.about("message-size"))?,
        persistent: spec.persistent,
        properties: properties(spec),
        message_ids: spec.message_ids,
        timestamps: spec.timestamps,
        random_keys: spec.random_routing_keys.map(|different| RandomKeys { different }),
        guarantee: guarantee(spec),
        confirm_timeout: spec.confirm_timeout.map(|length| length.0),
        resend: spec.resend,
        message_count: message_count(spec),
        amqp091: AmqpProducers { mandatory: spec.mandatory },
    })
}

fn guarantee(spec: &LoadSpec) -> Guarantee {
    match spec.commit_every {
        _ if spec.request_reply => Guarantee::Replies,
        0 if spec.confirm && spec.mqtt.qos != Some(0) => Guarantee::Confirms,
        0 => Guarantee::Unconfirmed,
        messages => Guarantee::Commits(messages),
    }
}

fn start_delay(spec: &LoadSpec) -> Option<StartDelay> {
    let length = |length: Option<Length>| length.map_or(Nanos::ZERO, |length| length.0);
    let delay = StartDelay { least: length(spec.start_after), spread: length(spec.start_delay), seed: 0 };
    (spec.start_after.is_some() || spec.start_delay.is_some()).then_some(delay)
}

fn properties(spec: &LoadSpec) -> MessageProperties {
    let given = spec.properties.clone();
    let content_type = spec.message_size.content_type().map(str::to_owned);
    MessageProperties {
        content_type: given.content_type.or(content_type),
        headers: spec.headers.clone(),
        // AMQP 0.9.1 has whole milliseconds, as text.
        expiration: spec.ttl.map(|ttl| (ttl.0.0 / 1_000_000).to_string()),
        ..given
    }
}

fn consumers(spec: &LoadSpec, run_id: u32) -> Consumers {
    let given = spec.consumers.clone();
    let consume_count = given.message_count.filter(|count| *count > 0);
    Consumers {
        // Without producers the count is the consumers' to reach.
        message_count: consume_count.or(message_count(spec).filter(|_| !spec.has_producers())),
        subscription: given.subscription.map(|given| Subscription {
            name: match given.name {
                name if name.is_empty() => format!("bellows-{run_id:08x}"),
                name => name,
            },
            ..given
        }),
        ..given
    }
}

fn arrivals(spec: &LoadSpec) -> Result<ArrivalProcess, load::Error> {
    let each = spec.rate_per_producer;
    if let Some(pause) = spec.think_time {
        return Ok(ArrivalProcess::ThinkTime(pause.0));
    }
    if let Some(schedule) = &spec.schedule {
        let schedule = schedule.resolve(each).map_err(|e| e.about("schedule"));
        return schedule.map(ArrivalProcess::Scheduled);
    }
    Ok(spec.rate.map_or(ArrivalProcess::Unthrottled, |rate| {
        ArrivalProcess::Scheduled(ArrivalSchedule::new(RateProfile::Constant(rate), Spacing::Even, each))
    }))
}

fn destinations(spec: &LoadSpec) -> Result<Vec<Destination>, load::Error> {
    let furnished = |parsed: Destination| Destination {
        exclusive: spec.exclusive && parsed.kind == DestinationKind::Queue,
        amqp091: AmqpDestination {
            durable: spec.queue.durable && parsed.kind == DestinationKind::Queue,
            ..spec.queue.clone()
        },
        ..parsed
    };
    let texts = spec.destination_names();
    let mut all = Vec::with_capacity(texts.len() * spec.num_destinations);
    for text in &texts {
        let first = Destination::parse(text).map_err(|e| e.about("destination"));
        let first = furnished(first?);
        let numbered = |i: usize| Destination { name: format!("{}{i}", first.name), ..first.clone() };
        if spec.num_destinations == 1 {
            all.push(first);
        } else {
            all.extend((0..spec.num_destinations).map(numbered));
        }
    }
    Ok(all)
}
