//! The options, by Artemis' names, with its defaults and meanings.

use std::path::PathBuf;

use clap::Args;
use session::experiment::Hidden;

use super::EXAMPLES;
use crate::cli::command_line::Url;

/// What `bellows artemis perf client` was given.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ClientArgs {
    #[command(flatten)]
    pub(super) common: Common,
    #[command(flatten)]
    pub(super) producing: Producing,
    #[command(flatten)]
    pub(super) consuming: Consuming,
    /// Connections of all consumers together; 0 is one for each
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) consumer_connections: usize,
    /// Where consumers connect; the same as --url where absent
    #[arg(long, value_name = "URL")]
    pub(super) consumer_url: Option<Url>,
    /// Protocol of the consumers; the same as --protocol where absent
    #[arg(long, value_name = "PROTOCOL")]
    pub(super) consumer_protocol: Option<String>,
}

/// What `bellows artemis perf producer` was given.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ProducerArgs {
    #[command(flatten)]
    pub(super) common: Common,
    #[command(flatten)]
    pub(super) producing: Producing,
}

/// What `bellows artemis perf consumer` was given.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ConsumerArgs {
    #[command(flatten)]
    pub(super) common: Common,
    #[command(flatten)]
    pub(super) consuming: Consuming,
    /// Connections of all consumers together; 0 is one for each
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) num_connections: usize,
}

#[derive(Debug, Args)]
pub(super) struct Common {
    /// queue://NAME or topic://NAME, any number of them
    #[arg(value_name = "DESTINATION", default_value = "queue://TEST")]
    pub(super) destinations: Vec<String>,
    /// The broker: amqp://USER@HOST:PORT/VHOST
    #[arg(
        long,
        env = "BELLOWS_URL",
        hide_env_values = true,
        default_value = "amqp://localhost:5672"
    )]
    pub(super) url: Url,
    /// Refused: names an acceptor in the configuration of an Artemis broker
    #[arg(long, value_name = "NAME")]
    pub(super) acceptor: Option<String>,
    /// User, in place of the URL's
    #[arg(long, env = "BELLOWS_USER")]
    pub(super) user: Option<String>,
    /// Password, in place of the URL's; better given as BELLOWS_PASSWORD than on a command line
    #[arg(
        long,
        env = "BELLOWS_PASSWORD",
        hide_env_values = true,
        allow_hyphen_values = true
    )]
    pub(super) password: Option<Hidden>,
    /// What the names of durable and shared subscriptions begin with
    #[arg(long = "clientID", value_name = "ID")]
    pub(super) client_id: Option<String>,
    /// AMQP, which is AMQP 0.9.1 here; CORE is refused
    #[arg(long, value_name = "PROTOCOL")]
    pub(super) protocol: Option<String>,
    /// Say on standard error what is being done
    #[arg(long)]
    pub(super) verbose: bool,
    /// Print neither blocks nor summary
    #[arg(long)]
    pub(super) silent: bool,
    /// Show latencies every second, not only in the summary
    #[arg(long)]
    pub(super) show_latency: bool,
    /// Write a sample of every second and one of the whole to this file
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    /// Write an HDR histogram log to this file
    #[arg(long, value_name = "FILE")]
    pub(super) hdr: Option<PathBuf>,
    /// Measured phase in seconds, warm-up not included; 0 lasts until the count is reached or
    /// Ctrl-C
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub(super) duration: u32,
    /// Load before the measured phase, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub(super) warmup: u32,
    /// Messages after which it ends, warm-up included; 0 is no limit
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) message_count: u64,
    /// Destinations for each name; above 1 they are NAME0, NAME1, …
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = crate::cli::load::from_one)]
    pub(super) num_destinations: usize,
    /// Messages of a transaction; 0 is none
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) commit_interval: u32,
    /// Old name of --commit-interval
    #[arg(long, value_name = "N", default_value_t = 0, hide = true)]
    pub(super) tx_size: u32,
    /// Keep a run folder with a report in this folder
    #[arg(long, value_name = "DIR", env = "BELLOWS_RUNS")]
    pub(super) runs: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct Producing {
    /// Messages survive a restart of the broker
    #[arg(long)]
    pub(super) persistent: bool,
    /// Body size in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 1024)]
    pub(super) message_size: usize,
    /// Messages a second in all; as many as the broker acknowledges where absent
    #[arg(long, value_name = "MSG/S", value_parser = crate::cli::load::rate)]
    pub(super) rate: Option<measure::Rate>,
    /// Milliseconds after which the broker may drop a message; 0 is never
    #[arg(long, value_name = "MS", default_value_t = 0)]
    pub(super) ttl: u64,
    /// Message group, as the header JMSXGroupID
    #[arg(long, value_name = "ID")]
    pub(super) group: Option<String>,
    /// Producers share as many connections as there are --threads
    #[arg(long)]
    pub(super) shared_connections: bool,
    /// Producers for each destination
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = crate::cli::load::from_one)]
    pub(super) producers: usize,
    /// Event loops, one thread each
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = crate::cli::load::from_one)]
    pub(super) threads: usize,
    /// Unacknowledged messages allowed for each producer; 0 is no limit
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) max_pending: u32,
    /// Every message has an id of its own
    #[arg(long)]
    pub(super) enable_msg_id: bool,
    /// Every message says when it was sent
    #[arg(long)]
    pub(super) enable_timestamp: bool,
}

#[derive(Debug, Args)]
pub(super) struct Consuming {
    /// Acknowledge in transactions
    #[arg(long)]
    pub(super) tx: bool,
    /// Shared subscriptions of each topic, each with all --consumers; 0 is none
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) shared: usize,
    /// Durable subscriptions, which need --clientID
    #[arg(long)]
    pub(super) durable: bool,
    /// Consumers for each destination, or for each shared subscription
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = crate::cli::load::from_one)]
    pub(super) consumers: usize,
}
