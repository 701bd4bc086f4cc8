//! The command line as typed, and one module per command that resolves it.

mod ab;
mod args;
mod artemis;
mod broker;
mod calibrate;
mod churn;
mod clients;
mod command_line;
mod compare;
mod complete;
mod connect;
mod diff;
mod doctor;
mod erlang;
mod find;
mod flame;
mod fold;
mod help;
mod history;
mod limit;
mod load;
mod metrics;
mod open;
mod paired;
mod perf_test;
pub(crate) mod perform;
mod probe;
mod profile_part;
mod record;
mod record_every;
mod report;
mod run;
mod runs;
mod scrape;
mod security;
mod top;
mod topology;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::exit;
use crate::failure::{Done, Failure};

const EXAMPLES: &str = "\
Examples:
  bellows demo                       load the embedded broker, profile it, write a report
  bellows run stream-publish         the same with a disposable RabbitMQ
  bellows client queue://TEST --url amqp://localhost --max-pending 100 --duration 20
  bellows top last                   which functions used the broker's CPU in the last run
  bellows ab stream-publish --b-set broker.schedulers=1 --pairs 8     what changed, and why
  bellows help getting-started       a topic; `bellows help` lists all of them

Exit codes: 0 fine, 1 failed, 2 wrong usage, 3 a requirement was missed or B is worse than A, \
4 neither can be told, 5 run invalid under --strict. Ctrl-C ends a run in order (0), before \
anything was measured with 130, and a second one ends it at once (130); ab and limit end with \
130 and go on with --resume.";

/// Put a message broker under load, measure end-user latency, profile the broker's CPU
#[derive(Debug, Parser)]
#[command(name = "bellows", version, after_help = EXAMPLES, max_term_width = 100, disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Load the embedded broker, profile it, write a report: no set-up
    Demo(run::DemoArgs),
    /// Run an experiment: broker, load, profile, run folder, report
    Run(run::RunArgs),
    /// Send to and receive from a broker that runs already
    Client(load::ClientArgs),
    /// Send to a broker that runs already
    Producer(load::ProducerArgs),
    /// Receive from a broker that runs already
    Consumer(load::ConsumerArgs),
    /// Open and close connections, channels or queues at a rate
    Churn(churn::ChurnArgs),
    /// Request pages of Prometheus metrics on a schedule: their cost, and series of them
    Scrape(scrape::ScrapeArgs),
    /// Send HTTP requests at fixed times, and measure their latency
    Probe(probe::ProbeArgs),
    /// Look inside an Erlang node, where nothing is installed and nothing is left
    Erlang(erlang::ErlangArgs),
    /// Artemis' performance tools, by their own command lines
    Artemis(artemis::ArtemisArgs),
    /// Send and receive as PerfTest does: its command line, its output
    #[command(disable_help_flag = true)]
    PerfTest(perf_test::PerfTestArgs),
    /// Profile a process, without load
    Record(record::RecordArgs),
    /// Show the functions that used the most CPU in a profile
    Top(top::TopArgs),
    /// Run two brokers or configurations in turns, and decide what changed, and whether it is real
    Ab(ab::AbArgs),
    /// Decide what changed between two sides from runs, or logs, that were made before
    Compare(compare::CompareArgs),
    /// Show where the figures of an experiment's runs changed over time
    History(history::HistoryArgs),
    /// Find the highest rate that holds: the one at which all that is asked for is still met
    Limit(limit::LimitArgs),
    /// Show how two profiles differ, or a part of one from the rest
    Diff(diff::DiffArgs),
    /// Draw a profile, or a window of it, as a flame graph, or write it for another tool
    Flame(flame::FlameArgs),
    /// Fold the text of `perf script`: a line per stack
    Fold(fold::FoldArgs),
    /// Make, import, export and delete queues, exchanges and bindings by files of definitions
    Topology(topology::TopologyArgs),
    /// Run the embedded broker in the foreground
    Broker(broker::BrokerArgs),
    /// List the runs that were kept
    Runs(runs::RunsArgs),
    /// Open the report of a run in a browser
    Open(open::OpenArgs),
    /// Write the report of a run, or of runs in turns, as one HTML file
    Report(report::ReportArgs),
    /// Show what this machine lets bellows measure, and how to fix what it does not
    Doctor(doctor::DoctorArgs),
    /// Measure the generator's capacity on this machine, for the verdict of later runs
    Calibrate(calibrate::CalibrateArgs),
    /// Explain a command or a topic: the documents are in the binary
    Help(help::HelpArgs),
    /// Print the completions for a shell
    Completions(complete::CompletionsArgs),
    /// Print the manual, or write a page for every command
    Man(complete::ManArgs),
}

impl Command {
    /// Executes the command.
    pub(crate) fn execute(self) -> Result<Done, Failure> {
        match self {
            Self::Demo(args) => args.execute(),
            Self::Run(args) => args.execute(),
            Self::Client(args) => args.execute(),
            Self::Producer(args) => args.execute(),
            Self::Consumer(args) => args.execute(),
            Self::Churn(args) => args.execute(),
            Self::Scrape(args) => args.execute(),
            Self::Probe(args) => args.execute(),
            Self::Erlang(args) => args.execute(),
            Self::Artemis(args) => args.execute(),
            Self::PerfTest(args) => args.execute(),
            Self::Record(args) => args.execute(),
            Self::Top(args) => args.execute(),
            Self::Ab(args) => args.execute(),
            Self::Compare(args) => args.execute(),
            Self::History(args) => args.execute(),
            Self::Limit(args) => args.execute(),
            Self::Diff(args) => args.execute(),
            Self::Flame(args) => args.execute(),
            Self::Fold(args) => args.execute(),
            Self::Topology(args) => args.execute(),
            Self::Broker(args) => args.execute(),
            Self::Runs(args) => args.execute(),
            Self::Open(args) => args.execute(),
            Self::Report(args) => args.execute(),
            Self::Doctor(args) => args.execute(),
            Self::Calibrate(args) => args.execute(),
            Self::Help(args) => args.execute(),
            Self::Completions(args) => args.execute(),
            Self::Man(args) => args.execute(),
        }
    }
}

/// The parsed command line.
#[derive(Debug)]
pub(crate) struct Invocation {
    pub(crate) command: Command,
    /// Standard output is to hold one JSON value, so that an error must be one, too.
    pub(crate) json: bool,
}

/// Runs requests of programs, which no person types: guarding a disposable broker, and completing a command line for a
/// shell.
pub(crate) fn answer_machines() -> Option<ExitCode> {
    let mut args = std::env::args_os().skip(1);
    if args
        .next()
        .is_some_and(|first| first == brokers::guardian::SUBCOMMAND)
    {
        let args: Vec<OsString> = args.collect();
        return Some(ExitCode::from(brokers::guardian::main(&args)));
    }
    match complete::answer() {
        Ok(false) => None,
        Ok(true) => Some(ExitCode::SUCCESS),
        Err(error) => Some(exit::usage(&error, false)),
    }
}

/// Whether a command line that could not be read asked for JSON. Another option of this name, such as that of
/// `artemis`, takes a file; arguments after `perf-test` are not ours.
pub(crate) fn wants_json(args: impl Iterator<Item = OsString>) -> bool {
    let mut args = args.skip(1).peekable();
    let has_its_own = |first: &OsString| first == "artemis" || first == "perf-test";
    !args.peek().is_some_and(has_its_own) && args.any(|arg| arg == "--json")
}

/// Reads the command line and the environment.
pub(crate) fn parse() -> Result<Invocation, clap::Error> {
    let mut grammar = with_negative_numbers(Cli::command());
    let read = grammar.try_get_matches_from_mut(std::env::args_os());
    let matches = read.map_err(command_line::readable)?;
    // Another option of this name, such as that of `artemis`, takes a file.
    let is_json = |of: &ArgMatches| matches!(of.try_get_one::<bool>("json"), Ok(Some(true)));
    let mut of = &matches;
    let mut json = false;
    while let Some((_, deeper)) = of.subcommand() {
        of = deeper;
        json |= is_json(of);
    }
    let cli = Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut grammar))?;
    Ok(Invocation {
        command: cli.command,
        json,
    })
}

/// The grammar in which `--rate -1` has a value, which is refused as a rate, and not as an unknown option `-1`.
fn with_negative_numbers(command: clap::Command) -> clap::Command {
    command
        .mut_args(|arg| match arg.get_action().takes_values() {
            true => arg.allow_negative_numbers(true),
            false => arg,
        })
        .mut_subcommands(with_negative_numbers)
}
