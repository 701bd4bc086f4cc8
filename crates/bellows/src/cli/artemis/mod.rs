//! `artemis perf`: command lines and output of Artemis' own tools.
//!
//! The options as typed ([`options`]) become an experiment ([`resolved`]); [`screen`] shows it. `docs/artemis-perf.md`
//! lists every option; a test holds the two together.

mod options;
mod resolved;
mod screen;

use archive::{Finding, RunState, WarningCode};
use clap::{Args, Subcommand};
use report::artemis::Sides;
use report::console;

use self::options::{ArtemisClientArgs, ArtemisConsumerArgs, ArtemisProducerArgs};
use self::resolved::Resolved;
use self::screen::Screen;
use super::command_line;
use crate::failure::{Done, Failure};
use crate::run_options::run_options;
use crate::{output, pictures, signals};

const EXAMPLES: &str = "\
Examples:
  bellows artemis perf client --url amqp://localhost --warmup 20 --max-pending 100 \\
    --show-latency queue://TEST_QUEUE
  bellows artemis perf producer --url amqp://localhost --message-count 100000 queue://TEST
  bellows artemis perf client --url amqp://localhost --producers 3 --consumers 2 \\
    --num-destinations 10 --durable --persistent --clientID test_id topic://DURABLE_TOPIC

`bellows help artemis-perf` lists every option: the same, better, or refused and why.";

/// Options of `bellows artemis`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ArtemisArgs {
    #[command(subcommand)]
    tool: Tool,
}

#[derive(Debug, Subcommand)]
enum Tool {
    /// Artemis' performance tools
    Perf(PerfArgs),
}

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
struct PerfArgs {
    #[command(subcommand)]
    command: Perf,
}

#[derive(Debug, Subcommand)]
enum Perf {
    /// Produce messages to and consume messages from a broker
    Client(ArtemisClientArgs),
    /// Send messages to a broker
    Producer(ArtemisProducerArgs),
    /// Consume messages from a broker
    Consumer(ArtemisConsumerArgs),
}

impl ArtemisArgs {
    /// Runs one of the tools.
    pub(crate) fn execute(self) -> Result<Done, Failure> {
        let Tool::Perf(PerfArgs { command }) = self.tool;
        let resolved = match command {
            Perf::Client(args) => args.resolve(),
            Perf::Producer(args) => args.resolve(),
            Perf::Consumer(args) => args.resolve(),
        }?;
        perform(resolved)
    }
}

fn perform(resolved: Resolved) -> Result<Done, Failure> {
    let experiment = &resolved.experiment;
    experiment.validate().map_err(session::Error::from)?;
    for line in &resolved.notes {
        output::line_aside(line);
    }
    output::print(&format!("Connection brokerURL = {}\n", resolved.shown_url))?;
    let control = load::Control::new();
    let at_once = signals::stop_load(&control)?;
    let command = command_line::archived(std::env::args_os());
    let options = run_options(resolved.runs.clone(), resolved.labels.clone(), command)?;
    let mut screen = Screen::new(resolved.showing.clone(), control.clone());
    let outcome = session::run(experiment, &options, &control, &mut screen)?;
    let missing = missing(&outcome, resolved.may_expire);
    let failed = outcome.record.state == RunState::Failed || missing.is_some();
    screen.end(!failed, &outcome.measured)?;
    if let Some(summary) = outcome
        .record
        .summary
        .as_ref()
        .filter(|_| !resolved.showing.silent)
    {
        output::aside(&console::remarks(summary, output::style_aside()));
    }
    if let Some(dir) = &outcome.run_dir {
        pictures::draw(dir, &outcome.profiles)?;
    }
    at_once.check()?;
    if outcome.record.state == RunState::Failed {
        return Err(Failure::of_run(outcome.record));
    }
    missing.map_or(Ok(Done::Fine), Err)
}

/// `1 message was`, `2 messages were`.
fn messages_were(number: u64) -> String {
    match number {
        1 => "1 message was".to_owned(),
        more => format!("{} messages were", measure::count(more)),
    }
}

/// Messages that did not arrive, or were not acknowledged, by the end of the drain. Artemis' tool
/// would wait for them for ever. What may expire may be missing.
fn missing(outcome: &session::RunOutcome, may_expire: bool) -> Option<Failure> {
    let summary = outcome.record.summary.as_ref()?;
    let lost = summary.flow().ledger.map_or(0, |ledger| ledger.lost);
    if lost > 0 && !may_expire {
        return Some(
            Failure::failed(
                format!(
                    "{} sent and acknowledged, and did not arrive",
                    messages_were(lost)
                ),
                "see whether somebody else consumes from these destinations, and the broker's log",
            )
            .observed(lost),
        );
    }
    let outstanding = summary.flow().ledger.map_or(0, |ledger| ledger.outstanding);
    if outstanding > 0 && !may_expire {
        return Some(
            Failure::failed(
                format!(
                    "{} sent and acknowledged, and did not arrive: the broker, \
                 or another consumer, may still hold them",
                    messages_were(outstanding)
                ),
                "see whether somebody else consumes from these destinations, and whether consumers \
             keep up",
            )
            .observed(outstanding),
        );
    }
    let missing = [
        WarningCode::BrokerGone,
        WarningCode::MessagesUnanswered,
        WarningCode::MessagesNotAccepted,
    ];
    // What was due and never sent is a rate that was not met, and nothing that is missing.
    let is_rate = |w: &&archive::Warning| {
        matches!(w.finding, Finding::MessagesUnanswered { unanswered: 0, .. })
    };
    let mut warnings = summary.warnings.iter().filter(|w| !is_rate(w));
    let warning = warnings.find(|w| missing.contains(&w.code()))?;
    Some(Failure::failed(
        warning.text.as_str(),
        "see the broker's log, and whether it is low on memory or disk",
    ))
}

/// The requested output of a run.
#[derive(Clone, Debug)]
struct Showing {
    sides: Sides,
    latencies: bool,
    silent: bool,
    verbose: bool,
    json: Option<std::path::PathBuf>,
    hdr: Option<std::path::PathBuf>,
}
