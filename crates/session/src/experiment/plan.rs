//! What an experiment means to the load engine.

use load::{
    Ack, Argument, Arrivals, Consumers, Destination, DestinationKind, Endpoint, Group, Pace, Plan,
    Producers, QueueHandling, Recovery, Schedule, Shape, StartDelay, StreamOffset as LoadOffset,
};
use measure::Nanos;

use super::{Acks, ArgumentValue, Experiment, LoadSpec, Phases, QueueType, StreamOffset};

impl Experiment {
    /// The load against `endpoint`. `run_id` marks this run's messages.
    ///
    /// # Errors
    /// A destination that cannot be read.
    pub(crate) fn plan(&self, endpoint: &Endpoint, run_id: u32) -> Result<Plan, load::Error> {
        let groups = self
            .load
            .iter()
            .map(|spec| group(spec, endpoint))
            .collect::<Result<_, _>>()?;
        Ok(Plan {
            groups,
            threads: self.threads,
            ledger: self.ledger,
            phases: phases(&self.phases),
            run_id,
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

fn group(spec: &LoadSpec, endpoint: &Endpoint) -> Result<Group, load::Error> {
    let message_count = Some(spec.message_count).filter(|count| *count > 0);
    Ok(Group {
        endpoint: endpoint.clone(),
        destinations: destinations(spec)?,
        producers: Producers {
            per_destination: spec.producers,
            pace: pace(spec)?,
            start_delay: spec.start_delay.map(|most| StartDelay {
                most: most.0,
                seed: 0,
            }),
            max_pending: spec.max_pending,
            sizes: spec.message_size.sizes()?,
            persistent: spec.persistent,
            confirm: spec.confirm,
            mandatory: spec.mandatory,
            message_count,
        },
        consumers: Consumers {
            per_destination: spec.consumers,
            prefetch: spec.prefetch,
            ack: match spec.ack {
                Acks::Auto => Ack::Auto,
                Acks::Every(n) => Ack::Every(n),
            },
            stream_offset: match spec.stream_offset {
                StreamOffset::First => LoadOffset::First,
                StreamOffset::Last => LoadOffset::Last,
                StreamOffset::Next => LoadOffset::Next,
                StreamOffset::At(offset) => LoadOffset::Offset(offset),
            },
            arguments: Vec::new(),
            // Without producers the count is the consumers' to reach.
            message_count: message_count.filter(|_| spec.producers == 0),
        },
        queues: QueueHandling {
            declare: spec.declare,
            purge: spec.purge,
            delete: spec.delete,
        },
        recovery: spec.recover.map(|wait| Recovery {
            min: wait.min.0,
            max: wait.max.0,
        }),
    })
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
    let first = Destination::parse(&spec.destination)?;
    let arguments: Vec<_> = spec
        .arguments
        .iter()
        .map(|(name, value)| (name.clone(), argument(value)))
        .collect();
    let named = |name: String| Destination {
        name,
        queue_type: match spec.queue_type {
            QueueType::Classic => load::QueueType::Classic,
            QueueType::Quorum => load::QueueType::Quorum,
            QueueType::Stream => load::QueueType::Stream,
        },
        durable: spec.durable && first.kind == DestinationKind::Queue,
        arguments: arguments.clone(),
        ..first.clone()
    };
    if spec.num_destinations == 1 {
        return Ok(vec![named(first.name.clone())]);
    }
    Ok((0..spec.num_destinations)
        .map(|i| named(format!("{}{i}", first.name)))
        .collect())
}

fn argument(value: &ArgumentValue) -> Argument {
    match value {
        ArgumentValue::Bool(flag) => Argument::Flag(*flag),
        ArgumentValue::Integer(number) => Argument::Integer(*number),
        ArgumentValue::Text(text) => Argument::Text(text.clone()),
    }
}
