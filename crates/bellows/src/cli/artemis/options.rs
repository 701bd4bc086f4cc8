//! The options, by Artemis' names, with its defaults and meanings.

use std::path::PathBuf;

use clap::Args;

use super::EXAMPLES;
use crate::cli::args::{LabelArgs, from_one, size};
use crate::cli::clients::{ConsumerSide, Consuming, DestinationArgs, Producing};
use crate::cli::connect::LoginArgs;

/// Options of `bellows artemis perf client`. Artemis knows `--num-connections` of consumers alone.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, mut_arg("consumer_connections", |arg| arg.alias(None::<&'static str>)))]
pub(super) struct ArtemisClientArgs {
    #[command(flatten)]
    pub(super) common: Common,
    #[command(flatten)]
    pub(super) sending: Sending,
    #[command(flatten)]
    pub(super) consuming: Consuming,
    #[command(flatten)]
    pub(super) consumer_side: ConsumerSide,
    /// Protocol of the consumers; --protocol if absent
    #[arg(long, value_name = "PROTOCOL")]
    pub(super) consumer_protocol: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ArtemisProducerArgs {
    #[command(flatten)]
    pub(super) common: Common,
    #[command(flatten)]
    pub(super) sending: Sending,
}

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ArtemisConsumerArgs {
    #[command(flatten)]
    pub(super) common: Common,
    #[command(flatten)]
    pub(super) consuming: Consuming,
    /// Connections that all consumers share; 0 = one connection each
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) num_connections: usize,
}

#[derive(Debug, Args)]
pub(super) struct Common {
    #[command(flatten)]
    pub(super) on: DestinationArgs,
    #[command(flatten)]
    pub(super) login: LoginArgs,
    /// The URL as it was typed, without its password.
    #[arg(skip)]
    pub(super) shown_url: String,
    /// Refused: names an acceptor in the configuration of an Artemis broker
    #[arg(long, value_name = "NAME")]
    pub(super) acceptor: Option<String>,
    /// Name prefix of durable and shared subscriptions
    #[arg(long = "clientID", value_name = "ID")]
    pub(super) client_id: Option<String>,
    /// AMQP, which is AMQP 1.0; CORE is refused. If absent, AMQP 1.0 with tcp:// and amqp10://, and AMQP 0.9.1 with
    /// amqp://
    #[arg(long, value_name = "PROTOCOL")]
    pub(super) protocol: Option<String>,
    /// Say on standard error what is being done
    #[arg(long)]
    pub(super) verbose: bool,
    /// Print neither blocks nor summary
    #[arg(long)]
    pub(super) silent: bool,
    /// Write one sample per second and one of the whole run to this file
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    /// Write an HDR histogram log to this file
    #[arg(long, value_name = "FILE")]
    pub(super) hdr: Option<PathBuf>,
    /// Measured phase in seconds, without the warm-up; 0 = until --message-count is reached or Ctrl-C
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub(super) duration: u32,
    /// Warm-up before the measured phase, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub(super) warmup: u32,
    /// Deprecated name of --commit-interval
    #[arg(long, value_name = "N", default_value_t = 0, hide = true)]
    pub(super) tx_size: u32,
    /// Keep a run folder with a report in this folder
    #[arg(long, value_name = "DIR", env = "BELLOWS_RUNS")]
    pub(super) runs: Option<PathBuf>,
    #[command(flatten)]
    pub(super) labels: LabelArgs,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Producing")]
pub(super) struct Sending {
    #[command(flatten)]
    pub(super) producing: Producing,
    /// Maximum unacknowledged messages per producer (in-flight window); 0 = no limit
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) max_pending: u32,
    /// Body size in bytes, such as 1024 or 4KiB
    #[arg(long, value_name = "BYTES", default_value = "1024", value_parser = size)]
    pub(super) message_size: usize,
    /// Event loops, one thread each
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = from_one)]
    pub(super) threads: usize,
}
