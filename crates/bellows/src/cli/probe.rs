//! `probe`: HTTP requests at fixed times, whether or not the last one came back.

use std::path::PathBuf;

use clap::Args;
use experiment::{BrokerKind, BrokerSpec, Experiment, Origin, PhasesSpec, ProbeSpec, ScheduleSpec};
use load::scenario::probe::HttpUrl;
use measure::{Length, Rate};

use super::args::{EventArgs, OutputArgs, RequireArgs, from_one, given};
use super::carriers::FleetArgs;
use super::command_line::{Header, OPTION_NAMES, Url, described};
use super::perform;
use crate::{Done, Failure};

#[derive(Debug, Args)]
#[command(mut_args(described([ProbeSpec::MEANINGS])), after_help = "\
Examples:
  bellows probe 'http://localhost:15672/api/queues?columns=name,messages_ready' --user guest
  bellows probe http://localhost:8161/ --rate 50 --duration 30 --timeout 1s
  bellows probe https://localhost:15671/api/overview --ca ca.pem --bearer-file token --profile
  bellows probe http://localhost:15692/metrics --schedule ramp:from=1,to=100,over=60s --duration 60

`bellows help probe` tells more.")]
pub(crate) struct ProbeArgs {
    /// Where requests go: http://HOST:PORT/PATH, or https:// for TLS
    url: Url,
    #[arg(long, value_name = "DURATION", conflicts_with_all = ["rate", "schedule"])]
    every: Option<Length>,
    #[arg(long, value_name = "PER SECOND", conflicts_with = "schedule")]
    rate: Option<Rate>,
    /// Rate that changes: steps:100@30s,200@30s, ramp:from=10,to=500,over=60s, poisson:200 and more
    /// (`bellows help schedules`)
    #[arg(long, value_name = "SHAPE")]
    schedule: Option<ScheduleSpec>,
    /// Measured phase, in seconds (or 500ms, 2m); 0 = until Ctrl-C
    #[arg(long, value_name = "DURATION", default_value = "30")]
    duration: Length,
    /// Warm-up before the measured phase, in seconds (or 500ms, 2m)
    #[arg(long, value_name = "DURATION", default_value = "0")]
    warmup: Length,
    #[arg(long, value_name = "DURATION", default_value_t = ProbeSpec::default().timeout)]
    timeout: Length,
    #[arg(long, value_name = "METHOD", default_value_t = ProbeSpec::default().method)]
    method: String,
    /// Further header, as 'NAME: VALUE'; may be repeated. Values are not archived
    #[arg(long = "header", value_name = "HEADER")]
    headers: Vec<Header>,
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    #[arg(long, value_name = "FILE", conflicts_with = "user")]
    bearer_file: Option<PathBuf>,
    #[arg(long, value_name = "N", value_parser = from_one, default_value_t = ProbeSpec::default().max_open)]
    max_open: usize,
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    #[arg(long)]
    insecure: bool,
    /// Profile the server, which must run on this machine
    #[arg(long)]
    profile: bool,
    #[command(flatten)]
    event: EventArgs,
    /// The server's process, if its port does not lead to it
    #[arg(long)]
    pid: Option<u32>,
    /// Keep no run folder and write no report
    #[arg(long, conflicts_with_all = ["profile", "events"])]
    no_archive: bool,
    #[command(flatten)]
    require: RequireArgs,
    #[command(flatten)]
    output: OutputArgs,
}

impl ProbeArgs {
    pub(crate) fn execute(self) -> Result<Done, Failure> {
        let url = HttpUrl::parse(&self.url.0)
            .map_err(|error| Failure::usage(error.to_string(), "such as http://localhost:15672/api/overview"))?;
        let mut secured = given([("--ca", self.ca.is_some()), ("--insecure", self.insecure)]);
        if let Some(option) = secured.next().filter(|_| !url.is_secured) {
            let cause = format!("{option} is about TLS, and the URL is http://");
            return Err(Failure::usage(cause, "write https://, or leave it out").observed(option));
        }
        let experiment = self.experiment(&url);
        self.event.check(&experiment.profile)?;
        let mut shape = perform::shape(&experiment);
        shape.title = "probe".to_owned();
        shape.about = web::redact::text(&url.to_string());
        let keep = !self.no_archive;
        perform::experiment(&experiment, &FleetArgs::default(), &self.output, &self.require, keep, shape)
            .map(|run| run.done)
    }

    fn experiment(&self, url: &HttpUrl) -> Experiment {
        let headers = self.headers.iter().map(|it| (it.name.clone(), it.value.expose().to_owned()));
        let host = if url.host.contains(':') { format!("[{}]", url.host) } else { url.host.clone() };
        Experiment {
            name: "probe".to_owned(),
            // The process behind this port is the one that is watched.
            broker: BrokerSpec {
                kind: BrokerKind::Attach,
                url: Some(format!("amqp://{host}:{}", url.port)),
                pid: self.pid,
                ..BrokerSpec::default()
            },
            phases: PhasesSpec { warmup: self.warmup, measure: self.duration, ..PhasesSpec::default() },
            profile: self.event.profile(self.profile),
            probe: vec![ProbeSpec {
                url: self.url.0.clone(),
                every: self.every,
                rate: self.rate,
                schedule: self.schedule.clone(),
                method: self.method.clone(),
                headers: headers.collect(),
                user: self.user.clone(),
                bearer_file: self.bearer_file.clone(),
                timeout: self.timeout,
                max_open: self.max_open,
                ca: self.ca.clone(),
                insecure: self.insecure,
                ..ProbeSpec::default()
            }],
            origin: Origin::options(OPTION_NAMES),
            ..Experiment::default()
        }
    }
}
