//! What an experiment means to the load engine.

use std::collections::BTreeMap;

use load::{
    Ack, Allocation, Argument, Arrivals, Consumers, Declare, Destination, DestinationKind,
    Endpoint, Exchange, Group, MessageProperties, Pace, Plan, Producers, QueueHandling, RandomKeys,
    ReconnectPolicy, Refusal, Schedule, ServiceTime, Shape, StartDelay, StreamOffset as LoadOffset,
    Subscription,
};
use measure::Nanos;

use super::{
    Acks, AllocationSpec, ArgumentValue, Declaring, Experiment, Length, LoadSpec, Phases,
    QueueType, Refusing, StreamOffset, Until,
};

impl Experiment {
    /// The load against `endpoint`. `run_id` marks this run's messages.
    ///
    /// # Errors
    /// A destination that cannot be read.
    pub(crate) fn plan(&self, endpoint: &Endpoint, run_id: u32) -> Result<Plan, load::Error> {
        let mut further = self.further_endpoints()?;
        for node in &mut further {
            node.token.clone_from(&endpoint.token);
        }
        let allocation = match self.broker.allocation {
            AllocationSpec::RoundRobin => Allocation::RoundRobin,
            AllocationSpec::Random => Allocation::Random,
        };
        let groups = self
            .load
            .iter()
            .map(|spec| {
                let own = self.own_endpoint(spec)?;
                let further = match own {
                    None => further.clone(),
                    Some(_) => Vec::new(),
                };
                let own = own.map(|mut own| {
                    own.token.clone_from(&endpoint.token);
                    own
                });
                Ok(Group {
                    further,
                    allocation,
                    ..group(spec, own.as_ref().unwrap_or(endpoint), run_id)?
                })
            })
            .collect::<Result<_, load::Error>>()?;
        Ok(Plan {
            groups,
            threads: self.threads,
            ledger: self.ledger,
            phases: phases(&self.phases),
            run_id,
            stop: self.until.map(|until| match until {
                Until::Idle => load::StopCondition::Idle,
                Until::Empty => load::StopCondition::Empty,
            }),
            ..Plan::default()
        })
    }
}

fn phases(spec: &Phases) -> load::Phases {
    load::Phases {
        warmup: spec.warmup.0,
        measure: Some(spec.measure.0).filter(|length| *length > Nanos::ZERO),
        drain: spec.drain.0,
    }
}

fn group(spec: &LoadSpec, endpoint: &Endpoint, run_id: u32) -> Result<Group, load::Error> {
    Ok(Group {
        endpoint: endpoint.clone(),
        further: Vec::new(),
        allocation: Allocation::default(),
        destinations: destinations(spec)?,
        producers: producers(spec)?,
        consumers: consumers(spec, run_id),
        queues: QueueHandling {
            declare: match spec.declare {
                Declaring::Always => Declare::Always,
                Declaring::IfMissing => Declare::IfMissing,
                Declaring::Never => Declare::Never,
            },
            purge: spec.purge,
            delete: spec.delete,
        },
        source_addresses: spec.source_addresses.clone(),
        reconnect: spec.recover.map(|wait| ReconnectPolicy {
            min: wait.min.0,
            max: wait.max.0,
        }),
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
        pace: pace(spec)?,
        start_delay: start_delay(spec),
        max_pending: spec.max_pending,
        sizes: spec.message_size.sizes()?,
        persistent: spec.persistent,
        properties: properties(spec),
        message_ids: spec.message_ids,
        timestamps: spec.timestamps,
        random_keys: spec
            .random_routing_keys
            .map(|different| RandomKeys { different }),
        confirm: spec.confirm,
        commit_every: spec.commit_every,
        replies: spec.request_reply,
        confirm_timeout: spec.confirm_timeout.map(|length| length.0),
        mandatory: spec.mandatory,
        message_count: message_count(spec),
    })
}

fn start_delay(spec: &LoadSpec) -> Option<StartDelay> {
    let length = |length: Option<Length>| length.map_or(Nanos::ZERO, |length| length.0);
    let delay = StartDelay {
        least: length(spec.start_after),
        spread: length(spec.start_delay),
        seed: 0,
    };
    (spec.start_after.is_some() || spec.start_delay.is_some()).then_some(delay)
}

fn properties(spec: &LoadSpec) -> MessageProperties {
    let given = spec.properties.clone();
    // AMQP 0.9.1 has whole milliseconds, as text.
    let expiration = spec.ttl.map(|ttl| (ttl.0.0 / 1_000_000).to_string());
    let content_type = spec.message_size.content_type().map(str::to_owned);
    MessageProperties {
        content_type: given.content_type.or(content_type),
        content_encoding: given.content_encoding,
        headers: arguments(&spec.headers),
        priority: given.priority,
        correlation_id: given.correlation_id,
        reply_to: given.reply_to,
        expiration,
        message_id: given.message_id,
        timestamp: given.timestamp,
        message_type: given.message_type,
        user_id: given.user_id,
        app_id: given.app_id,
        cluster_id: given.cluster_id,
    }
}

fn consumers(spec: &LoadSpec, run_id: u32) -> Consumers {
    let consume_count = Some(spec.consume_count).filter(|count| *count > 0);
    Consumers {
        per_destination: spec.consumers,
        total: spec.total_consumers,
        connections: spec.consumer_connections,
        prefetch: spec.prefetch,
        channel_prefetch: spec.channel_prefetch,
        ack: match spec.ack {
            Acks::Auto => Ack::Auto,
            Acks::Every(n) => Ack::Every(n),
        },
        refuse: spec.refuse.map(|refusing| Refusal {
            requeue: refusing == Refusing::Requeue,
        }),
        commit_every: spec.consumer_commit_every,
        poll: spec.poll.map(|interval| interval.0),
        service: ServiceTime {
            rate: spec.consumer_rate,
            latency: spec
                .consumer_latency
                .iter()
                .map(|step| (step.latency.0, step.length.0))
                .collect(),
        },
        start_after: spec.consumer_start_delay.map_or(Nanos::ZERO, |d| d.0),
        apart: spec.consumers_apart.map_or(Nanos::ZERO, |d| d.0),
        stream_offset: match spec.stream_offset {
            StreamOffset::First => LoadOffset::First,
            StreamOffset::Last => LoadOffset::Last,
            StreamOffset::Next => LoadOffset::Next,
            StreamOffset::At(offset) => LoadOffset::Offset(offset),
            StreamOffset::Time(unix_s) => LoadOffset::Time(unix_s),
        },
        arguments: arguments(&spec.consumer_arguments),
        // Without producers the count is the consumers' to reach.
        message_count: consume_count.or(message_count(spec).filter(|_| !spec.has_producers())),
        subscription: spec.subscription.as_ref().map(|it| Subscription {
            name: match &it.name {
                Some(name) => name.clone(),
                None => format!("bellows-{run_id:08x}"),
            },
            durable: it.durable,
            shared: it.shared,
        }),
    }
}

fn arguments(given: &BTreeMap<String, ArgumentValue>) -> Vec<(String, Argument)> {
    let named = |(name, value): (&String, &ArgumentValue)| (name.clone(), argument(value));
    given.iter().map(named).collect()
}

fn pace(spec: &LoadSpec) -> Result<Pace, load::Error> {
    if let Some(pause) = spec.think_time {
        return Ok(Pace::Think(pause.0));
    }
    if let Some(schedule) = &spec.schedule {
        return schedule
            .schedule(spec.rate_per_producer)
            .map(Pace::Scheduled);
    }
    Ok(spec.rate.map_or(Pace::AllOut, |rate| {
        Pace::Scheduled(Schedule {
            shape: Shape::Constant(rate),
            arrivals: Arrivals::Even,
            per_producer: spec.rate_per_producer,
        })
    }))
}

fn destinations(spec: &LoadSpec) -> Result<Vec<Destination>, load::Error> {
    let queue_type = match spec.queue_type {
        QueueType::Classic => load::QueueType::Classic,
        QueueType::Quorum => load::QueueType::Quorum,
        QueueType::Stream => load::QueueType::Stream,
    };
    let exchange = spec.exchange.as_ref().map(|exchange| Exchange {
        durable: exchange.durable,
        auto_delete: exchange.auto_delete,
        ..Exchange::new(&exchange.name, &exchange.kind)
    });
    let furnished = |parsed: Destination| Destination {
        queue_type,
        durable: spec.durable && parsed.kind == DestinationKind::Queue,
        auto_delete: spec.auto_delete,
        exclusive: spec.exclusive && parsed.kind == DestinationKind::Queue,
        arguments: arguments(&spec.arguments),
        exchange: exchange.clone(),
        routing_key: spec.routing_key.clone(),
        bind: spec.bind,
        ..parsed
    };
    let alone = std::slice::from_ref(&spec.destination);
    let texts = if spec.destinations.is_empty() {
        alone
    } else {
        &spec.destinations
    };
    let mut all = Vec::with_capacity(texts.len() * spec.num_destinations);
    for text in texts {
        let first = furnished(Destination::parse(text)?);
        let numbered = |i: usize| Destination {
            name: format!("{}{i}", first.name),
            ..first.clone()
        };
        if spec.num_destinations == 1 {
            all.push(first);
        } else {
            all.extend((0..spec.num_destinations).map(numbered));
        }
    }
    Ok(all)
}

fn argument(value: &ArgumentValue) -> Argument {
    match value {
        ArgumentValue::Bool(flag) => Argument::Flag(*flag),
        ArgumentValue::Integer(number) => Argument::Integer(*number),
        ArgumentValue::Text(text) => Argument::Text(text.clone()),
    }
}
