//! `churn`: connections, channels or queues that come and go at a rate.

use std::io::{self, Write};
use std::net::IpAddr;

use clap::{Args, Subcommand};
use load::churn::{ChurnKind, ChurnOutcome, ChurnPlan, ChurnProgress};
use measure::{Nanos, Rate};
use report::console::{self, ChurnFigures};
use session::experiment::{BrokerKind, BrokerSpec, Length};

use super::load::{from_one, rate};
use super::security::SecurityArgs;
use crate::failure::{Done, Failure};
use crate::{output, signals};

const EXAMPLES: &str = "\
Examples:
  bellows churn connections --url amqp://localhost --rate 200 --duration 30
  bellows churn channels --rate 5000 --messages 1 --duration 30
  bellows churn queues --max-open 20 --duration 30         # as many as the broker takes";

/// What `bellows churn` was given.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
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
}

#[derive(Debug, Args)]
struct Options {
    /// The broker: amqp://USER@HOST:PORT/VHOST, or amqps:// for TLS
    #[arg(
        long,
        env = "BELLOWS_URL",
        hide_env_values = true,
        default_value = "amqp://localhost:5672"
    )]
    url: String,
    /// User, in place of the URL's
    #[arg(long, env = "BELLOWS_USER")]
    user: Option<String>,
    /// Password, in place of the URL's; better given as BELLOWS_PASSWORD than on a command line
    #[arg(long, env = "BELLOWS_PASSWORD", hide_env_values = true)]
    password: Option<String>,
    /// Cycles a second; as many as the broker takes where absent
    #[arg(long, value_name = "PER SECOND", value_parser = rate)]
    rate: Option<Rate>,
    /// Cycles that do not count yet, in seconds (or 500ms, 2m)
    #[arg(long, value_name = "LENGTH", default_value = "0")]
    warmup: Length,
    /// Measured phase, in seconds (or 500ms, 2m)
    #[arg(long, value_name = "LENGTH", default_value = "10")]
    duration: Length,
    /// Messages that each cycle sends
    #[arg(long, value_name = "N", default_value_t = 0)]
    messages: u32,
    /// Size of each message in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 100)]
    message_size: usize,
    /// Cycles under way at the same time at most; channels and queues use as many connections.
    /// 1000 connections, 10 channels or queues where absent
    #[arg(long, value_name = "N", value_parser = from_one)]
    max_open: Option<usize>,
    /// Addresses of this machine to connect from, in turn: each has some 28,000 ports
    #[arg(long, value_name = "ADDRESS,…", value_delimiter = ',')]
    source_addresses: Vec<IpAddr>,
    /// Print one JSON object on standard output when it ends
    #[arg(long)]
    json: bool,
    /// Print the summary only
    #[arg(long, env = "BELLOWS_QUIET")]
    quiet: bool,
    /// End with code 5 where a warning puts a number in doubt
    #[arg(long, env = "BELLOWS_STRICT")]
    strict: bool,
    #[command(flatten)]
    security: SecurityArgs,
}

impl ChurnArgs {
    /// Churns.
    pub(crate) fn execute(self) -> Result<Done, Failure> {
        match self.kind {
            Kind::Connections(options) => {
                options.execute(ChurnKind::Connections, "connections", 1_000)
            }
            Kind::Channels(options) => options.execute(ChurnKind::Channels, "channels", 10),
            Kind::Queues(options) => options.execute(ChurnKind::Queues, "queues", 10),
        }
    }
}

impl Options {
    fn execute(self, kind: ChurnKind, name: &'static str, most: usize) -> Result<Done, Failure> {
        let spec = self.security.fill(BrokerSpec {
            kind: BrokerKind::Attach,
            url: Some(self.url),
            user: self.user,
            password: self.password,
            ..BrokerSpec::default()
        })?;
        let attached = session::attach(&spec)?;
        let plan = ChurnPlan {
            endpoint: attached.endpoint,
            kind,
            rate: self.rate,
            warmup: self.warmup.0,
            measure: self.duration.0,
            messages: self.messages,
            message_size: self.message_size,
            most_open: self.max_open.unwrap_or(most),
            source_addresses: self.source_addresses,
            patience: Nanos::from_millis(10_000),
        };
        let control = load::Control::new();
        let at_once = signals::stop_load(&control)?;
        let quiet = self.quiet;
        let mut tell = |progress: ChurnProgress| {
            if !quiet {
                // Progress is a courtesy.
                let _ = io::stderr().write_all(line(name, progress).as_bytes());
            }
        };
        let outcome = load::churn::run(&plan, &control, &mut tell).map_err(session::Error::from)?;
        at_once.check()?;
        let figures = figures(name, &plan, outcome);
        if self.json {
            output::print_json(&figures)?;
        } else {
            output::print(&console::churn(&figures, output::style()))?;
        }
        if figures.completed == 0 {
            let why = figures
                .first_failure
                .unwrap_or_else(|| "none was begun".into());
            return Err(Failure::failed(
                format!("no cycle of {name} ended in order: {why}"),
                "see the broker's log, or lower --rate",
            ));
        }
        Ok(if self.strict && !figures.warnings.is_empty() {
            Done::Invalid
        } else {
            Done::Fine
        })
    }
}

fn line(name: &str, progress: ChurnProgress) -> String {
    format!(
        "{:>4.0} s  {:>8} {name}  {:>6} failed  {:>5} open  p99 {}\n",
        progress.elapsed.as_secs_f64(),
        progress.completed,
        progress.failed,
        progress.open,
        progress.p99,
    )
}

fn figures(kind: &'static str, plan: &ChurnPlan, outcome: ChurnOutcome) -> ChurnFigures {
    let measured_s = outcome.length.as_secs_f64();
    let mut figures = ChurnFigures {
        schema: ChurnFigures::SCHEMA,
        kind,
        measured_s,
        requested_rate: plan.rate.map(Rate::get),
        rate: outcome.completed as f64 / measured_s.max(1e-9),
        begun: outcome.begun,
        not_begun: outcome.not_begun,
        completed: outcome.completed,
        failed: outcome.failed,
        late: outcome.late,
        first_failure: outcome
            .first_failure
            .map(|error| format!("{error}; {}", error.help())),
        open: outcome.open,
        cycle: outcome.cycle,
        warnings: Vec::new(),
    };
    figures.warnings = warnings(plan, &figures, outcome.interrupted);
    figures
}

fn warnings(plan: &ChurnPlan, figures: &ChurnFigures, interrupted: bool) -> Vec<String> {
    let mut warnings = Vec::new();
    if cfg!(debug_assertions) {
        warnings.push(
            "this is a debug build of bellows, several times slower than a release build".into(),
        );
    }
    if plan.endpoint.tls.as_ref().is_some_and(|tls| tls.insecure) {
        warnings.push(
            "--insecure: the broker's certificate was not checked, so nobody knows whose numbers \
             these are"
                .into(),
        );
    }
    if figures.not_begun > 0 {
        warnings.push(format!(
            "{} cycles were due and found no room before the end: the latencies are those of the \
             others; raise --max-open, or ask for less",
            figures.not_begun
        ));
    } else if figures.late * 100 > figures.begun && plan.rate.is_some() {
        warnings.push(format!(
            "{:.1} % of the cycles began over 1 ms late, which their latencies count",
            figures.late as f64 / figures.begun.max(1) as f64 * 100.0
        ));
    }
    if figures.failed > 0 {
        warnings.push(format!(
            "{} cycles failed and have no latency",
            figures.failed
        ));
    }
    if interrupted {
        warnings.push("it was stopped before its time".into());
    }
    warnings
}
