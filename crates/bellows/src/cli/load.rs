//! `client`: ad-hoc load on a running broker, by Artemis `perf`'s names and defaults where they mean the same.

use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use experiment::{Experiment, LoadSpec, ScheduleSpec, SizeSpec};
use load::{
    Ack, AmqpDestination, Argument, Consumers, Declare, Endpoint, Exchange, MqttOptions, MqttVersion, Protocol,
    QueueHandling, QueueType,
};
use measure::{Length, LengthRange};

use super::args::{from_one, given, named};
use super::carriers::FleetArgs;
use super::clients::{ConsumerSide, Consuming, DestinationArgs, Producing};
use super::command_line::described;
use super::perform::{self, RunningBrokerArgs};
use crate::{Done, Failure};

const EXAMPLES: &str = "\
Examples:
  bellows client queue://TEST --url amqp://localhost --max-pending 100 --warmup 5 --duration 20
  bellows client queue://TEST --rate 30k --show-latency --duration 60
  bellows client --schedule steps:1k@30s,5k@30s --duration 60
  bellows client --schedule poisson:2000 --message-size 100-4KiB --duration 60
  bellows client --message-size json:1000 --rate 1000 --duration 60
  bellows client --think-time 10ms --producers 50 --duration 60
  bellows client queue://rpc --request-reply --rate 500 --duration 30
  bellows client queue://a queue://b --exchange both --exchange-type fanout --delete --duration 30
  bellows client topic://events --producers 3 --consumers 2 --num-destinations 10 --duration 30
  bellows client queue://log --consumers 0 --queue-type stream --max-pending 2000 --duration 60
  bellows client queue://TEST --producers 0 --consumers 4 --ack-every 100 --duration 60";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, mut_arg("producers", or_none), mut_arg("consumers", or_none),
          mut_args(described([LoadSpec::MEANINGS, Experiment::MEANINGS])))]
pub(crate) struct ClientArgs {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    sending: Sending,
    #[command(flatten)]
    receiving: Receiving,
    #[command(flatten)]
    consumer_side: ConsumerSide,
    #[command(flatten)]
    mqtt: MqttArgs,
    #[arg(long, conflicts_with_all = ["no_confirm", "commit_interval"])]
    request_reply: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "MQTT", mut_args(described([LoadSpec::MEANINGS])))]
struct MqttArgs {
    /// Topic filter of the consumers, such as 'sensors/#' or '$share/GROUP/sensors/+', instead of the destinations; may
    /// be repeated
    #[arg(long, value_name = "FILTER")]
    subscribe: Vec<String>,
    /// Quality of service of messages and subscriptions: 0 (at most once), 1 (at least once) or 2 (exactly once)
    /// [default: 1, or 0 with --no-confirm]
    #[arg(long, value_name = "QOS", value_parser = clap::value_parser!(u8).range(..=2))]
    qos: Option<u8>,
    #[arg(long, value_name = "VERSION", default_value = MqttVersion::default().name(),
          value_parser = named::<MqttVersion>())]
    mqtt_version: MqttVersion,
    /// The broker keeps each topic's last message for subscribers to come
    #[arg(long)]
    retain: bool,
}

#[derive(Debug, Args)]
struct Common {
    #[command(flatten)]
    on: DestinationArgs,
    /// Measured phase, in seconds (or 500ms, 2m); 0 = until --message-count is reached or Ctrl-C
    #[arg(long, value_name = "DURATION", default_value = "0")]
    duration: Length,
    #[arg(long, value_name = "N", default_value_t = Experiment::default().threads, value_parser = from_one)]
    threads: usize,
    /// Do not account for every message; allows bodies below 12 bytes
    #[arg(long)]
    no_ledger: bool,
    /// Type of the queues that are declared
    #[arg(long, value_name = "TYPE", default_value = QueueType::default().name(), value_parser = named::<QueueType>())]
    queue_type: QueueType,
    /// Protocol of the messages [default: amqp091, or that of an amqp10:// or mqtt:// URL]
    #[arg(long, value_name = "PROTOCOL", value_parser = named::<Protocol>())]
    protocol: Option<Protocol>,
    /// Queue argument, such as x-max-length=1000; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = argument)]
    queue_args: Vec<(String, Argument)>,
    /// Declare no queues: they must exist
    #[arg(long)]
    no_declare: bool,
    /// Empty the queues before the load (streams cannot be emptied)
    #[arg(long)]
    purge: bool,
    /// Delete the queues after the load, and with them the --exchange that was declared for it
    #[arg(long)]
    delete: bool,
    #[command(flatten)]
    exchange: ExchangeArgs,
    /// Copy the HDR histogram log to this file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["no_archive", "repeat"])]
    hdr: Option<PathBuf>,
    #[arg(long, value_name = "DELAY")]
    recover: Option<LengthRange>,
    #[command(flatten)]
    run: RunningBrokerArgs,
    #[command(flatten)]
    fleet: FleetArgs,
}

#[derive(Debug, Args)]
struct ExchangeArgs {
    /// Exchange to publish to, which the queues are bound to; declared where it is missing, but for the broker's own
    /// (amq.direct, amq.fanout and more). The default exchange, or amq.topic for topics, if absent
    #[arg(long, value_name = "NAME")]
    exchange: Option<String>,
    /// Type of the exchange that is declared: direct, fanout, topic, headers, or what a plugin adds
    #[arg(long, value_name = "TYPE", default_value = "direct", requires = "exchange")]
    exchange_type: String,
    /// Routing key of messages and bindings; the queue's name if absent
    #[arg(long, value_name = "KEY", requires = "exchange")]
    routing_key: Option<String>,
}

/// Options of producers that Artemis lacks.
#[derive(Debug, Args)]
#[command(next_help_heading = "Producing")]
struct Sending {
    #[command(flatten)]
    producing: Producing,
    #[arg(long, value_name = "N", conflicts_with = "commit_interval")]
    max_pending: Option<u32>,
    /// Body size in bytes (1024, 4KiB), or sizes: 100-2000 (uniform), 100,2000 (in turn), normal:mean=1000,sd=200,
    /// steps:1000@30s,2000@30s and more; or bodies: json:1000, files:DIR (`bellows help schedules`)
    #[arg(long, value_name = "SIZES", default_value_t = LoadSpec::default().message_size)]
    message_size: SizeSpec,
    /// Rate that changes: steps:100@30s,200@30s, ramp:from=100,to=20000,over=60s, poisson:5000,
    /// trace:FILE and more (`bellows help schedules`)
    #[arg(long, value_name = "SHAPE", conflicts_with = "rate")]
    schedule: Option<ScheduleSpec>,
    #[arg(long)]
    rate_per_producer: bool,
    #[arg(long, value_name = "DURATION", conflicts_with_all = ["rate", "schedule", "rate_per_producer", "no_confirm"])]
    think_time: Option<Length>,
    #[arg(long, value_name = "DURATION")]
    start_delay: Option<Length>,
    /// Ask the broker for no acknowledgements
    #[arg(long, conflicts_with_all = ["max_pending", "commit_interval"])]
    no_confirm: bool,
    #[arg(long, requires = "recover", conflicts_with = "no_confirm")]
    resend: bool,
}

/// Options of consumers that Artemis lacks.
#[derive(Debug, Args)]
#[command(next_help_heading = "Consuming")]
struct Receiving {
    #[command(flatten)]
    consuming: Consuming,
    /// Maximum unacknowledged deliveries per consumer; 0 = no limit
    #[arg(long, value_name = "N", default_value_t = Consumers::default().prefetch)]
    prefetch: u16,
    /// Send one acknowledgement per N deliveries
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    ack_every: u32,
    /// The broker takes a delivery as acknowledged once it is sent
    #[arg(long, conflicts_with_all = ["ack_every", "tx"])]
    auto_ack: bool,
    /// Receive only messages that this expression is true of, such as "region = 'EU'" (AMQP 1.0: Artemis, and
    /// RabbitMQ's streams from 4.2 on)
    #[arg(long, value_name = "EXPRESSION")]
    selector: Option<String>,
    /// Name prefix of durable and shared subscriptions; unique to this run if absent
    #[arg(long = "clientID", value_name = "ID")]
    client_id: Option<String>,
}

impl ClientArgs {
    pub(crate) fn execute(mut self) -> Result<Done, Failure> {
        self.common.on.take_address(&mut self.common.run.connect.login.url)?;
        self.check()?;
        let clients = (self.sending.producing.producers, self.receiving.consuming.consumers);
        let name = match clients {
            (_, 0) => "producer",
            (0, _) => "consumer",
            _ => "client",
        };
        let spec = self.sending.fill(self.common.spec(), &self.common);
        let connections = self.consumer_side.consumer_connections;
        let spec = LoadSpec {
            request_reply: self.request_reply,
            mqtt_version: self.mqtt.mqtt_version,
            mqtt: MqttOptions { qos: self.mqtt.qos, retain: self.mqtt.retain },
            consumers: self.receiving.consumers(&self.common, connections),
            ..spec
        };
        let load = self.consumer_side.split(spec, self.mqtt.subscribe);
        self.common.execute(name, load)
    }

    /// Refuses options of producers, or of consumers, where there are none.
    fn check(&self) -> Result<(), Failure> {
        let (sending, consuming) = (&self.sending, &self.receiving.consuming);
        let (without, unused) = match (sending.producing.producers, consuming.consumers) {
            (0, _) => (
                "--producers 0",
                [
                    ("--rate", sending.producing.rate.is_some()),
                    ("--schedule", sending.schedule.is_some()),
                    ("--think-time", sending.think_time.is_some()),
                    ("--start-delay", sending.start_delay.is_some()),
                    ("--retain", self.mqtt.retain),
                    ("--commit-interval without --tx", self.common.on.commit_interval > 0 && !consuming.tx),
                ],
            ),
            (_, 0) => (
                "--consumers 0",
                [
                    ("--consumer-url", self.consumer_side.consumer_url.is_some()),
                    ("--tx", consuming.tx),
                    ("--durable", consuming.durable),
                    ("--shared", consuming.shared > 0),
                    ("--selector", self.receiving.selector.is_some()),
                    ("--subscribe", !self.mqtt.subscribe.is_empty()),
                ],
            ),
            _ => return Ok(()),
        };
        given(unused).next().map_or(Ok(()), |option| {
            let help = format!("leave out one of the two, {option} or {without}");
            Err(Failure::usage(format!("{option} has no effect with {without}"), help))
        })
    }
}

impl Common {
    fn spec(&self) -> LoadSpec {
        let spec = self.on.spec();
        let asks = Endpoint::protocol_of(&self.run.connect.login.url.0).is_some();
        LoadSpec {
            // The default is archived as if it were not given: such runs are of one experiment.
            protocol: self.protocol.filter(|it| asks || *it != Protocol::default()),
            queue: AmqpDestination {
                queue_type: self.queue_type,
                arguments: self.queue_args.iter().cloned().collect(),
                exchange: self.exchange.exchange.as_ref().map(|name| Exchange {
                    durable: !self.delete,
                    // It goes with its last queue.
                    auto_delete: self.delete,
                    ..Exchange::new(name, &self.exchange.exchange_type)
                }),
                routing_key: self.exchange.routing_key.clone(),
                ..spec.queue
            },
            handling: QueueHandling {
                declare: if self.no_declare { Declare::Never } else { Declare::Always },
                purge: self.purge,
                delete: self.delete,
            },
            recover: self.recover,
            source_addresses: self.run.connect.source_addresses.clone(),
            ..spec
        }
    }

    fn execute(self, command: &str, load: Vec<LoadSpec>) -> Result<Done, Failure> {
        check_copy(self.hdr.as_deref())?;
        let experiment = Experiment {
            threads: self.threads,
            ledger: !self.no_ledger,
            load,
            ..self.run.experiment(command.to_owned(), self.duration)?
        };
        let mut shape = perform::shape(&experiment);
        shape.title = format!("{command} {}", self.on.destinations.join(" "));
        shape.latency = self.on.show_latency;
        let run = self.run.perform_by(&self.fleet, &experiment, shape)?;
        if let (Some(file), Some(dir)) = (&self.hdr, &run.run_dir) {
            let copied = std::fs::copy(dir.join(archive::file::HISTOGRAMS), file);
            copied.map_err(|e| Failure::io("write", file, &e))?;
        }
        Ok(run.done)
    }
}

impl Sending {
    fn fill(self, spec: LoadSpec, common: &Common) -> LoadSpec {
        LoadSpec {
            max_pending: self.max_pending,
            message_size: self.message_size,
            schedule: self.schedule,
            rate_per_producer: self.rate_per_producer,
            think_time: self.think_time,
            start_delay: self.start_delay,
            confirm: !self.no_confirm,
            resend: self.resend,
            ..self.producing.fill(spec, common.threads, common.on.commit_interval)
        }
    }
}

impl Receiving {
    fn consumers(&self, common: &Common, connections: usize) -> Consumers {
        let given = Consumers {
            prefetch: self.prefetch,
            ack: if self.auto_ack { Ack::Auto } else { Ack::Every(self.ack_every) },
            selector: self.selector.clone(),
            ..Consumers::default()
        };
        self.consuming.fill(given, self.client_id.as_ref(), connections, common.on.commit_interval)
    }
}

/// Refuses a copy that cannot be written, before the run rather than after it.
fn check_copy(file: Option<&Path>) -> Result<(), Failure> {
    let Some(file) = file else { return Ok(()) };
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let problem = match std::fs::metadata(folder.unwrap_or(Path::new("."))) {
        Err(error) => error,
        Ok(folder) if !folder.is_dir() => io::ErrorKind::NotADirectory.into(),
        Ok(_) if file.is_dir() => io::ErrorKind::IsADirectory.into(),
        Ok(_) => return Ok(()),
    };
    Err(Failure::io("write", file, &problem))
}

/// An option of `client` that takes 0, too: no client of that kind.
fn or_none(arg: clap::Arg) -> clap::Arg {
    arg.value_parser(clap::value_parser!(usize))
}

fn argument(text: &str) -> Result<(String, Argument), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE")?;
    let Ok(value) = value.parse::<Argument>();
    Ok((key.to_owned(), value))
}
