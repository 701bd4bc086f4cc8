//! `churn`: connections, channels, queues, sessions or links that come and go at a rate.

use clap::{Args, Subcommand};
use experiment::{ChurnSpec, Experiment, ScheduleSpec};
use load::scenario::churn::ChurnKind;
use measure::{Bytes, Length, Rate};

use super::args::from_one;
use super::command_line::described;
use super::perform::{self, RunningBrokerArgs};
use crate::{Done, Failure};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  bellows churn connections --url amqp://localhost --rate 200 --duration 30 --profile
  bellows churn channels --rate 5000 --messages 1 --duration 30
  bellows churn queues --max-open 20 --duration 30         # as many as the broker takes
  bellows churn connections --schedule steps:50@10s,200@10s,50@10s --duration 30")]
pub(crate) struct ChurnArgs {
    #[command(subcommand)]
    kind: Kind,
}

#[derive(Debug, Subcommand)]
enum Kind {
    /// Connect, log in, send, close
    Connections(Options),
    /// Open a channel, send, close it, on connections that stay
    Channels(Options),
    /// Declare a queue, send to it, delete it, on connections that stay
    Queues(Options),
    /// AMQP 1.0: begin a session, end it, on connections that stay
    Sessions(Options),
    /// AMQP 1.0: attach a link, detach it, in sessions that stay
    Links(Options),
}

#[derive(Debug, Args)]
#[command(mut_args(described([ChurnSpec::MEANINGS])))]
struct Options {
    #[arg(long, value_name = "PER SECOND")]
    rate: Option<Rate>,
    /// Rate that changes: steps:100@30s,200@30s, ramp:from=10,to=500,over=60s, poisson:200 and more
    /// (`bellows help schedules`)
    #[arg(long, value_name = "SHAPE", conflicts_with = "rate")]
    schedule: Option<ScheduleSpec>,
    /// Measured phase, in seconds (or 500ms, 2m)
    #[arg(long, value_name = "DURATION", default_value = "10")]
    duration: Length,
    #[arg(long, value_name = "N", default_value_t = 0)]
    messages: u32,
    #[arg(long, value_name = "BYTES", default_value_t = ChurnSpec::default().message_size)]
    message_size: Bytes,
    #[arg(long, value_name = "N", value_parser = from_one)]
    max_open: Option<usize>,
    #[command(flatten)]
    run: RunningBrokerArgs,
}

impl ChurnArgs {
    pub(crate) fn execute(self) -> Result<Done, Failure> {
        match self.kind {
            Kind::Connections(options) => options.execute(ChurnKind::Connections),
            Kind::Channels(options) => options.execute(ChurnKind::Channels),
            Kind::Queues(options) => options.execute(ChurnKind::Queues),
            Kind::Sessions(options) => options.execute(ChurnKind::Sessions),
            Kind::Links(options) => options.execute(ChurnKind::Links),
        }
    }
}

impl Options {
    fn execute(self, kind: ChurnKind) -> Result<Done, Failure> {
        let name = format!("churn-{}", kind.name());
        let experiment = Experiment {
            churn: Some(ChurnSpec {
                kind,
                protocol: None,
                rate: self.rate,
                schedule: self.schedule,
                messages: self.messages,
                message_size: self.message_size,
                max_open: self.max_open,
                source_addresses: self.run.connect.source_addresses.clone(),
            }),
            ..self.run.experiment(name, self.duration)?
        };
        let mut shape = perform::shape(&experiment);
        shape.title = format!("churn of {}", kind.name());
        self.run.perform(&experiment, shape).map(|run| run.done)
    }
}
