//! `client`, `producer` and `consumer`: ad-hoc load on a broker that runs already, by Artemis
//! `perf`'s names and defaults where they mean the same.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use measure::{Nanos, Rate};
use session::Experiment;
use session::experiment::{
    Acks, ArgumentValue, Declaring, Length, LengthRange, LoadSpec, Phases, ProfileSpec, QueueType,
    ScheduleSpec, SizeSpec, SubscriptionSpec,
};

use super::args::OutputArgs;
use super::command_line::Url;
use super::connect::ConnectArgs;
use super::perform;
use crate::failure::{Done, Failure};

const CLIENT_EXAMPLES: &str = "\
Examples:
  bellows client queue://TEST --url amqp://localhost --max-pending 100 --warmup 5 --duration 20
  bellows client queue://TEST --rate 30000 --max-pending 1000 --show-latency --duration 60
  bellows client --schedule steps:1000@30s,5000@30s --max-pending 500 --duration 60
  bellows client --schedule poisson:2000 --message-size 100-2000 --max-pending 500 --duration 60
  bellows client --message-size json:1000 --rate 1000 --max-pending 100 --duration 60
  bellows client --think-time 10ms --producers 50 --duration 60
  bellows client queue://rpc --request-reply --rate 500 --max-pending 100 --duration 30
  bellows client topic://events --producers 3 --consumers 2 --num-destinations 10 --duration 30";

const PRODUCER_EXAMPLES: &str = "\
Examples:
  bellows producer queue://TEST --max-pending 100 --message-count 1000000
  bellows producer queue://log --queue-type stream --max-pending 2000 --message-size 12 --duration 60";

const CONSUMER_EXAMPLES: &str = "\
Examples:
  bellows consumer queue://TEST --message-count 1000000
  bellows consumer queue://TEST --consumers 4 --prefetch 500 --ack-every 100 --duration 60";

/// What `bellows client` was given.
#[derive(Debug, Args)]
#[command(after_help = CLIENT_EXAMPLES)]
pub(crate) struct ClientArgs {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    producing: Producing,
    #[command(flatten)]
    consuming: Consuming,
    /// Messages are requests: consumers answer each with its own body over RabbitMQ's direct
    /// reply-to, and the reply is what acknowledges it
    #[arg(long, conflicts_with_all = ["no_confirm", "commit_interval"])]
    request_reply: bool,
    /// Where consumers connect; the same as --url where absent
    #[arg(long, value_name = "URL", help_heading = "Consuming")]
    consumer_url: Option<Url>,
    /// Connections of all consumers together, a channel each; 0 is one for each
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        help_heading = "Consuming"
    )]
    consumer_connections: usize,
}

/// What `bellows producer` was given.
#[derive(Debug, Args)]
#[command(after_help = PRODUCER_EXAMPLES)]
pub(crate) struct ProducerArgs {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    producing: Producing,
}

/// What `bellows consumer` was given.
#[derive(Debug, Args)]
#[command(after_help = CONSUMER_EXAMPLES)]
pub(crate) struct ConsumerArgs {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    consuming: Consuming,
    /// Connections of all consumers together, a channel each; 0 is one for each
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        help_heading = "Consuming"
    )]
    num_connections: usize,
}

#[derive(Debug, Args)]
struct Common {
    /// queue://NAME or topic://NAME, any number of them
    #[arg(value_name = "DESTINATION", default_value = "queue://TEST")]
    destinations: Vec<String>,
    /// Load before the measured phase, in seconds (or 500ms, 2m)
    #[arg(long, value_name = "LENGTH", default_value = "0")]
    warmup: Length,
    /// Measured phase, in seconds (or 500ms, 2m); 0 lasts until the count is reached or Ctrl-C
    #[arg(long, value_name = "LENGTH", default_value = "0")]
    duration: Length,
    /// Messages after which it ends, warm-up included; 0 is no limit
    #[arg(long, value_name = "N", default_value_t = 0)]
    message_count: u64,
    /// Destinations for each name; above 1 they are NAME0, NAME1, …
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = from_one)]
    num_destinations: usize,
    /// Event loops, one thread each
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = from_one)]
    threads: usize,
    /// Messages of a transaction, in place of confirms, and of a --tx consumer's; 0 is none
    #[arg(long, value_name = "N", default_value_t = 0)]
    commit_interval: u32,
    /// Do not account for every message; bodies below 12 bytes are then allowed
    #[arg(long)]
    no_ledger: bool,
    /// Show latencies every second, not only in the summary
    #[arg(long)]
    show_latency: bool,
    /// Type of the queues that are declared
    #[arg(long, value_name = "TYPE", default_value = "classic")]
    queue_type: QueueTypeArg,
    /// Further queue argument, such as x-max-length=1000; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = argument)]
    queue_args: Vec<(String, ArgumentValue)>,
    /// Declare no queue: it must exist
    #[arg(long)]
    no_declare: bool,
    /// Profile the broker, which must run on this machine
    #[arg(long)]
    profile: bool,
    /// Copy the HDR histogram log to this file
    #[arg(long, value_name = "FILE", conflicts_with = "no_archive")]
    hdr: Option<PathBuf>,
    /// Make lost connections anew after so long (1s, or by chance between two: 1s-5s), in place of
    /// ending with the first
    #[arg(long, value_name = "WAIT")]
    recover: Option<LengthRange>,
    /// Keep no run folder and write no report
    #[arg(long, conflicts_with = "profile")]
    no_archive: bool,
    #[command(flatten)]
    connect: ConnectArgs,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Producing")]
struct Producing {
    /// Messages survive a restart of the broker
    #[arg(long)]
    persistent: bool,
    /// Body size in bytes, or sizes: 100-2000 (even), 100,2000 (in turn), normal:mean=1000,sd=200,
    /// steps:1000@30s,2000@30s and more; or bodies: json:1000, files:DIR (docs/schedules.md)
    #[arg(long, value_name = "SIZES", default_value = "1024")]
    message_size: SizeSpec,
    /// Messages a second in all, such as 20000 or 0.5; as many as the broker acknowledges where
    /// absent
    #[arg(long, value_name = "MSG/S", value_parser = rate)]
    rate: Option<Rate>,
    /// A rate that changes: steps:100@30s,200@30s, ramp:from=100,to=20000,over=60s, poisson:5000,
    /// trace:FILE and more (docs/schedules.md)
    #[arg(long, value_name = "SHAPE", conflicts_with = "rate")]
    schedule: Option<ScheduleSpec>,
    /// The rate or schedule is each producer's, not that of all together
    #[arg(long)]
    rate_per_producer: bool,
    /// Closed loop: each producer waits for the answer to its message, then so long, then sends the
    /// next; latencies have coordinated omission then
    #[arg(long, value_name = "LENGTH", conflicts_with_all = ["rate", "schedule", "rate_per_producer", "no_confirm"])]
    think_time: Option<Length>,
    /// Each producer begins at a moment of its own within so long
    #[arg(long, value_name = "LENGTH")]
    start_delay: Option<Length>,
    /// Producers for each destination
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = from_one)]
    producers: usize,
    /// Unacknowledged messages allowed for each producer; 0 is no limit
    #[arg(long, value_name = "N", default_value_t = 1)]
    max_pending: u32,
    /// Ask the broker for no acknowledgements
    #[arg(long, conflicts_with_all = ["max_pending", "commit_interval"])]
    no_confirm: bool,
    /// Milliseconds after which the broker may drop a message; 0 is never
    #[arg(long, value_name = "MS", default_value_t = 0)]
    ttl: u64,
    /// Message group, as the header JMSXGroupID
    #[arg(long, value_name = "ID")]
    group: Option<String>,
    /// Producers share as many connections as there are --threads, a channel each
    #[arg(long)]
    shared_connections: bool,
    /// Every message has an id of its own
    #[arg(long)]
    enable_msg_id: bool,
    /// Every message says when it was sent
    #[arg(long)]
    enable_timestamp: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Consuming")]
struct Consuming {
    /// Consumers for each destination
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = from_one)]
    consumers: usize,
    /// Unacknowledged deliveries allowed for each consumer; 0 is no limit
    #[arg(long, value_name = "N", default_value_t = LoadSpec::default().prefetch)]
    prefetch: u16,
    /// One acknowledgement for every N deliveries
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    ack_every: u32,
    /// The broker takes a delivery as acknowledged when it has sent it
    #[arg(long, conflicts_with = "ack_every")]
    auto_ack: bool,
    /// Acknowledge in transactions of --commit-interval deliveries, or of one
    #[arg(long, conflicts_with = "auto_ack")]
    tx: bool,
    /// Subscribe to topics by durable queues, which are deleted at the end
    #[arg(long)]
    durable: bool,
    /// Subscriptions of each topic that all --consumers share; 0 gives each consumer its own
    #[arg(long, value_name = "N", default_value_t = 0)]
    shared: usize,
    /// What the names of durable and shared subscriptions begin with; a name that only this run has
    /// where absent
    #[arg(long = "clientID", value_name = "ID")]
    client_id: Option<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum QueueTypeArg {
    /// One node, any kind of message
    Classic,
    /// Replicated by Raft
    Quorum,
    /// A replicated log
    Stream,
}

impl ClientArgs {
    /// Sends and receives.
    pub(crate) fn execute(self) -> Result<Done, Failure> {
        let spec = self.producing.fill(self.common.spec(), &self.common);
        let spec = LoadSpec {
            consumer_connections: some(self.consumer_connections),
            request_reply: self.request_reply,
            ..self.consuming.fill(spec, &self.common)
        };
        let load = match self.consumer_url {
            None => vec![spec],
            Some(url) => apart(spec, url.0),
        };
        self.common.execute("client", load)
    }
}

impl ProducerArgs {
    /// Sends.
    pub(crate) fn execute(self) -> Result<Done, Failure> {
        let spec = LoadSpec {
            consumers: 0,
            ..self.producing.fill(self.common.spec(), &self.common)
        };
        self.common.execute("producer", vec![spec])
    }
}

impl ConsumerArgs {
    /// Receives.
    pub(crate) fn execute(self) -> Result<Done, Failure> {
        if self.common.commit_interval > 0 && !self.consuming.tx {
            return Err(Failure::usage(
                "--commit-interval is for transactions, and this consumer has none",
                "add --tx, or leave it out",
            ));
        }
        let spec = LoadSpec {
            producers: 0,
            consumer_connections: some(self.num_connections),
            ..self.consuming.fill(self.common.spec(), &self.common)
        };
        self.common.execute("consumer", vec![spec])
    }
}

impl Common {
    fn spec(&self) -> LoadSpec {
        LoadSpec {
            num_destinations: self.num_destinations,
            queue_type: match self.queue_type {
                QueueTypeArg::Classic => QueueType::Classic,
                QueueTypeArg::Quorum => QueueType::Quorum,
                QueueTypeArg::Stream => QueueType::Stream,
            },
            arguments: self.queue_args.iter().cloned().collect(),
            message_count: self.message_count,
            declare: if self.no_declare {
                Declaring::Never
            } else {
                Declaring::Always
            },
            recover: self.recover,
            source_addresses: self.connect.source_addresses.clone(),
            ..to(&self.destinations)
        }
    }

    fn execute(self, command: &str, load: Vec<LoadSpec>) -> Result<Done, Failure> {
        let events = if self.profile {
            ProfileSpec::default().events
        } else {
            Vec::new()
        };
        let experiment = Experiment {
            name: command.to_owned(),
            threads: self.threads,
            ledger: !self.no_ledger,
            broker: self.connect.spec()?,
            phases: Phases {
                warmup: self.warmup,
                measure: self.duration,
                ..Phases::default()
            },
            profile: ProfileSpec {
                events,
                ..ProfileSpec::default()
            },
            load,
            ..Experiment::default()
        };
        let mut shape = perform::shape(&experiment);
        shape.title = format!("{command} {}", self.destinations.join(" "));
        shape.latency = self.show_latency;
        let run = perform::experiment(&experiment, &self.output, !self.no_archive, shape)?;
        if let (Some(file), Some(dir)) = (&self.hdr, &run.run_dir) {
            copy(&dir.join(archive::file::HISTOGRAMS), file)?;
        }
        Ok(run.done)
    }
}

impl Producing {
    fn fill(self, spec: LoadSpec, common: &Common) -> LoadSpec {
        LoadSpec {
            producers: self.producers,
            producer_connections: self.shared_connections.then_some(common.threads),
            ttl: (self.ttl > 0).then(|| Length(Nanos::from_millis(self.ttl))),
            headers: grouped(self.group.as_deref()),
            message_ids: self.enable_msg_id,
            timestamps: self.enable_timestamp,
            commit_every: common.commit_interval,
            persistent: self.persistent,
            message_size: self.message_size,
            rate: self.rate,
            schedule: self.schedule,
            rate_per_producer: self.rate_per_producer,
            think_time: self.think_time,
            start_delay: self.start_delay,
            max_pending: self.max_pending,
            confirm: !self.no_confirm,
            ..spec
        }
    }
}

impl Consuming {
    fn fill(&self, spec: LoadSpec, common: &Common) -> LoadSpec {
        let ack = if self.auto_ack {
            Acks::Auto
        } else {
            Acks::Every(self.ack_every)
        };
        LoadSpec {
            consumers: self.consumers,
            prefetch: self.prefetch,
            ack,
            consumer_commit_every: if self.tx {
                common.commit_interval.max(1)
            } else {
                0
            },
            subscription: (self.durable || self.shared > 0).then(|| SubscriptionSpec {
                name: self.client_id.clone(),
                durable: self.durable,
                shared: self.shared,
            }),
            ..spec
        }
    }
}

/// The header of a message group.
pub(super) fn grouped(group: Option<&str>) -> BTreeMap<String, ArgumentValue> {
    let header = |id: &str| ("JMSXGroupID".into(), ArgumentValue::Text(id.into()));
    group.map(header).into_iter().collect()
}

/// 0 stands for nothing in particular.
pub(super) fn some(count: usize) -> Option<usize> {
    (count > 0).then_some(count)
}

/// A load of so many destinations, and of nobody yet.
pub(super) fn to(destinations: &[String]) -> LoadSpec {
    match destinations {
        [destination] => LoadSpec {
            destination: destination.clone(),
            ..LoadSpec::default()
        },
        destinations => LoadSpec {
            destinations: destinations.to_vec(),
            ..LoadSpec::default()
        },
    }
}

/// Producers and consumers with an endpoint each.
pub(super) fn apart(spec: LoadSpec, consumer_url: String) -> Vec<LoadSpec> {
    let consumers = LoadSpec {
        producers: 0,
        rate: None,
        message_count: 0,
        url: Some(consumer_url),
        ..spec.clone()
    };
    let producers = LoadSpec {
        consumers: 0,
        subscription: None,
        ..spec
    };
    vec![consumers, producers]
}

fn copy(from: &Path, to: &Path) -> Result<(), Failure> {
    std::fs::copy(from, to)
        .map(|_| ())
        .map_err(|e| Failure::io("write", to, &e))
}

pub(super) fn from_one(text: &str) -> Result<usize, String> {
    let number = text
        .parse::<u32>()
        .ok()
        .filter(|n| *n > 0)
        .and_then(|n| usize::try_from(n).ok());
    number.ok_or_else(|| "expected a whole number, 1 or more".into())
}

pub(super) fn rate(text: &str) -> Result<Rate, String> {
    text.parse()
        .ok()
        .and_then(Rate::per_second)
        .ok_or_else(|| "expected a number of messages per second above 0".into())
}

fn argument(text: &str) -> Result<(String, ArgumentValue), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE")?;
    let value = match (value.parse::<bool>(), value.parse::<i64>()) {
        (Ok(flag), _) => ArgumentValue::Bool(flag),
        (_, Ok(number)) => ArgumentValue::Integer(number),
        _ => ArgumentValue::Text(value.to_owned()),
    };
    Ok((key.to_owned(), value))
}
