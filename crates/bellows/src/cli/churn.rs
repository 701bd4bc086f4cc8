//! `churn`: connections, channels, queues, sessions or links that come and go at a rate.

use clap::Args;
use experiment::{ChurnSpec, Experiment, ScheduleSpec};
use load::scenario::churn::ChurnKind;
use measure::{Bytes, Length, Rate};

use super::args::{from_one, named};
use super::command_line::described;
use super::perform::{self, RunningBrokerArgs};
use crate::{Done, Failure};

#[derive(Debug, Args)]
#[command(mut_args(described([ChurnSpec::MEANINGS])), after_help = "\
Examples:
  bellows churn connections --url amqp://localhost --rate 200 --duration 30 --profile
  bellows churn channels --rate 5000 --messages 1 --duration 30
  bellows churn queues --max-open 20 --duration 30         # as many as the broker takes
  bellows churn connections --schedule steps:50@10s,200@10s,50@10s --duration 30")]
pub(crate) struct ChurnArgs {
    /// Kind of the objects that are created and removed
    #[arg(value_name = "KIND", value_parser = named::<ChurnKind>())]
    kind: ChurnKind,
    #[arg(long, value_name = "PER SECOND")]
    rate: Option<Rate>,
    /// Rate that changes: steps:100@30s,200@30s, ramp:from=10,to=500,over=60s, poisson:200 and more
    /// (`bellows help schedules`)
    #[arg(long, value_name = "SHAPE", conflicts_with = "rate")]
    schedule: Option<ScheduleSpec>,
    /// Measured phase, in seconds (or 500ms, 2m); 0 = until Ctrl-C
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
        let kind = self.kind;
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
