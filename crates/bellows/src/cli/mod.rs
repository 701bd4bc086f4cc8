//! The command line as typed, and one module per command that resolves it.

/// Executes a command: that of an enum's values which was typed.
macro_rules! execute {
    ($command:expr, $of:ident: $($(#[$attribute:meta])? $name:ident)+) => {
        match $command {
            $($(#[$attribute])? $of::$name(args) => args.execute(),)+
        }
    };
}

mod ab;
mod args;
mod artemis;
mod broker;
mod carriers;
mod churn;
mod clients;
#[cfg(feature = "fleet")]
mod collect;
mod command_line;
mod compare;
mod complete;
mod connect;
mod diff;
mod doctor;
mod erlang;
mod find;
mod flame;
#[cfg(feature = "fleet")]
mod fleet;
mod fold;
mod help;
mod limit;
mod load;
mod metrics;
mod old_names;
mod open;
mod paired;
pub(crate) mod perform;
mod probe;
mod profile_part;
mod record;
mod record_every;
mod run;
mod runs;
mod scrape;
mod top;
mod topology;
#[cfg(feature = "fleet")]
mod worker;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use report::console;

use crate::{Done, Failure, exit, output, perf_test};

const EXAMPLES: &str = "\
Examples:
  bellows demo                       load the embedded broker, profile it, write a report
  bellows run stream-publish         the same with a disposable RabbitMQ
  bellows client queue://TEST --url amqp://localhost --max-pending 100 --duration 20
  bellows top                        which functions used the broker's CPU in the last run
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

/// The commands, in the order of their groups.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Load the embedded broker, profile it, write a report; no set-up
    Demo(run::DemoArgs),
    /// Run an experiment: broker, load, profile, report
    Run(run::RunArgs),
    /// Send to and receive from a running broker
    Client(Box<load::ClientArgs>),
    /// Open and close connections, channels or queues at a rate
    Churn(churn::ChurnArgs),
    /// Send HTTP requests on a schedule; measure their latency
    Probe(probe::ProbeArgs),
    /// Scrape Prometheus metrics; measure what scraping costs
    Scrape(scrape::ScrapeArgs),
    /// Find the highest rate at which all requirements hold
    Limit(limit::LimitArgs),
    /// Profile a running process
    Record(record::RecordArgs),
    /// List the functions that used the most CPU
    Top(top::TopArgs),
    /// Draw a profile as a flame graph, or convert it
    Flame(flame::FlameArgs),
    /// Compare two profiles, or a part of one with the rest
    Diff(diff::DiffArgs),
    /// Compare two configurations: alternating runs, or existing ones
    Ab(ab::AbArgs),
    /// Inspect a running Erlang node; leaves nothing behind
    Erlang(erlang::ErlangArgs),
    /// Create, import, export and delete queues, exchanges and bindings
    Topology(topology::TopologyArgs),
    /// Check this machine for measuring; --calibrate the generator
    Doctor(doctor::DoctorArgs),
    /// List, show, tag and remove runs; write their reports
    Runs(runs::RunsArgs),
    /// Open the report of a run in a browser
    Open(open::OpenArgs),
    /// Start a fleet on this machine, or list its workers
    #[cfg(feature = "fleet")]
    Fleet(fleet::FleetCommandArgs),
    /// Carry part of a fleet's loads, one run after another
    #[cfg(feature = "fleet")]
    Worker(worker::WorkerArgs),
    /// RabbitMQ PerfTest: its options, its output
    #[command(disable_help_flag = true)]
    PerfTest(PerfTestArgs),
    /// Artemis perf: its options, its output
    Artemis(artemis::ArtemisArgs),
    /// Run the embedded broker in the foreground
    Broker(broker::BrokerArgs),
    /// Explain a command or a topic
    Help(help::HelpArgs),
    /// Print completions for a shell
    Completions(complete::CompletionsArgs),
    /// Print the manual page, or write one per command
    Man(complete::ManArgs),
}

// PerfTest's own command line, which is not clap's.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  bellows perf-test --help
  bellows perf-test -x 1 -y 2 -u throughput-test -a --id test-1 -z 30")]
pub(crate) struct PerfTestArgs {
    /// PerfTest's options; `bellows perf-test --help` lists them
    #[arg(value_name = "OPTION", trailing_var_arg = true, allow_hyphen_values = true,
          add = complete::perf_test_options())]
    args: Vec<OsString>,
}

impl PerfTestArgs {
    pub(crate) fn execute(self) -> Result<Done, Failure> {
        perf_test::execute(self.args)
    }
}

/// Groups of commands as `bellows --help` shows them.
const GROUPS: &[(&str, &[&str])] = &[
    ("Measure", &["demo", "run", "client", "churn", "probe", "scrape", "limit"]),
    ("Profile", &["record", "top", "flame", "diff"]),
    ("Compare", &["ab"]),
    ("Inspect", &["erlang", "topology", "doctor"]),
    ("Runs", &["runs", "open"]),
    #[cfg(feature = "fleet")]
    ("Load from several machines", &["fleet", "worker"]),
    ("Other tools' command lines", &["perf-test", "artemis"]),
    ("More", &["broker", "help", "completions", "man"]),
];

/// Columns before the description of a command in `bellows --help`.
const INDENT: usize = 15;

/// The grammar whose help shows commands in groups, which clap has for options only.
fn grammar() -> clap::Command {
    let command = Cli::command();
    let styles = command.get_styles();
    let (header, literal) = (*styles.get_header(), *styles.get_literal());
    let columns = output::style().prose_columns().saturating_sub(INDENT);
    let mut template = "{before-help}{about-with-newline}\n{usage-heading} {usage}\n\n".to_owned();
    for (title, names) in GROUPS {
        template.push_str(&format!("{header}{title}:{header:#}\n"));
        for name in *names {
            let found = command.find_subcommand(name);
            let about = found.and_then(clap::Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            for (number, line) in console::wrap(&about, columns).iter().enumerate() {
                let name = if number == 0 { *name } else { "" };
                template.push_str(&format!("  {literal}{name:11}{literal:#}  {line}\n"));
            }
        }
        template.push('\n');
    }
    template.push_str(&format!("{header}Options:{header:#}\n{{options}}{{after-help}}"));
    command.help_template(template)
}

impl Command {
    pub(crate) fn execute(self) -> Result<Done, Failure> {
        execute!(self, Self: Demo Run Client Churn Probe Scrape Limit Record Top Flame Diff Ab Erlang Topology Open
            Doctor Runs #[cfg(feature = "fleet")] Fleet #[cfg(feature = "fleet")] Worker PerfTest Artemis Broker Help
            Completions Man)
    }
}

#[derive(Debug)]
pub(crate) struct Invocation {
    pub(crate) command: Command,
    /// Standard output is to hold one JSON value, so that an error must be one, too.
    pub(crate) json: bool,
}

/// Runs requests of programs, not of people: guarding a disposable broker, completing a command line for a shell.
pub(crate) fn answer_machines() -> Option<ExitCode> {
    let mut args = std::env::args_os().skip(1);
    if args.next().is_some_and(|first| first == brokers::guardian::SUBCOMMAND) {
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

pub(crate) fn parse() -> Result<Invocation, clap::Error> {
    let mut grammar = with_negative_numbers(grammar());
    let typed = old_names::current(std::env::args_os());
    let unread = grammar.clone();
    let matches = grammar
        .try_get_matches_from_mut(&typed)
        .map_err(|error| command_line::readable(command_line::without_environment(error, unread, &typed)))?;
    // Another option of this name, such as that of `artemis`, takes a file.
    let is_json = |of: &ArgMatches| matches!(of.try_get_one::<bool>("json"), Ok(Some(true)));
    let all = std::iter::successors(Some(&matches), |of| of.subcommand().map(|(_, below)| below));
    let json = all.skip(1).any(is_json);
    let cli = Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut grammar))?;
    Ok(Invocation { command: cli.command, json })
}

/// The grammar in which `--rate -1` has a value, which is refused as a rate, and not as an unknown option `-1`.
fn with_negative_numbers(command: clap::Command) -> clap::Command {
    command
        .mut_args(|arg| if arg.get_action().takes_values() { arg.allow_negative_numbers(true) } else { arg })
        .mut_subcommands(with_negative_numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_in_one_group_on_a_line_of_its_own() {
        let command = Cli::command();
        let visible = command.get_subcommands().filter(|it| !it.is_hide_set());
        let mut commands: Vec<&str> = visible.map(clap::Command::get_name).collect();
        commands.sort_unstable();
        let mut grouped: Vec<&str> = (GROUPS.iter()).flat_map(|(_, names)| names.iter().copied()).collect();
        grouped.sort_unstable();
        assert_eq!(grouped, commands);
        let help = grammar().render_help().to_string();
        for name in commands {
            let begin = format!("  {name} ");
            let line = help.lines().find(|line| line.starts_with(&begin));
            let width = line.map(|line| line.chars().count());
            assert!(width.is_some_and(|it| (20..=80).contains(&it)), "{help}");
        }
    }
}
