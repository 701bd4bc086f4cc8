//! `artemis perf`: command lines and output of Artemis' own tools.
//!
//! The options as typed ([`options`]) become an experiment ([`resolved`]); [`Screen`] shows it. `docs/artemis-perf.md`
//! lists every option; a test holds the two together.

mod options;
mod resolved;

use archive::{Event, Finding, RunState, WarningCode};
use brokers::managed::Progress;
use clap::{Args, Subcommand};
use measure::{Clock, Counters, Interval, Nanos, Phase, wall_clock_unix_ns};
use report::artemis::{self, End};
use report::console;

use self::options::{ArtemisClientArgs, ArtemisConsumerArgs, ArtemisProducerArgs};
use self::resolved::Resolved;
use super::command_line;
use crate::output::{self, Sheet};
use crate::run_options::{self, run_options, tell_alone};
use crate::{Done, Failure, signals};

const EXAMPLES: &str = "\
Examples:
  bellows artemis perf client --url amqp://localhost --warmup 20 --max-pending 100 \\
    --show-latency queue://TEST_QUEUE
  bellows artemis perf producer --url amqp://localhost --message-count 100000 queue://TEST
  bellows artemis perf client --url amqp://localhost --producers 3 --consumers 2 \\
    --num-destinations 10 --durable --persistent --clientID test_id topic://DURABLE_TOPIC

`bellows help artemis` lists every option: the same, better, or refused and why.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ArtemisArgs {
    #[command(subcommand)]
    tool: Tool,
}

#[derive(Debug, Subcommand)]
enum Tool {
    /// Artemis' performance tools
    #[command(subcommand, after_help = EXAMPLES)]
    Perf(Perf),
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
    pub(crate) fn execute(self) -> Result<Done, Failure> {
        let Tool::Perf(command) = self.tool;
        let resolved = match command {
            Perf::Client(args) => args.resolve(),
            Perf::Producer(args) => args.resolve(),
            Perf::Consumer(args) => args.resolve(),
        }?;
        perform(resolved)
    }
}

fn perform(resolved: Resolved) -> Result<Done, Failure> {
    let (experiment, common) = (&resolved.experiment, &resolved.common);
    let labels = common.labels.resolve()?;
    experiment.validate().map_err(|error| in_own_words(session::Error::from(error)))?;
    for line in &resolved.notes {
        output::line_aside(line);
    }
    output::print(&format!("Connection brokerURL = {}\n", common.shown_url))?;
    let (control, at_once) = signals::stop_load()?;
    let command = command_line::archived(std::env::args_os());
    let options = run_options(common.runs.clone(), labels, command)?;
    let mut screen = Screen {
        of: &resolved,
        control: control.clone(),
        totals: Counters::default(),
        json: None,
        hdr: None,
        trouble: None,
    };
    tell_alone();
    let outcome = session::run(experiment, &options, &control, &mut screen)?;
    let missing = missing(&outcome, resolved.may_expire);
    let failed = outcome.record.state == RunState::Failed || missing.is_some();
    screen.end(!failed, &outcome.measured)?;
    if let Some(summary) = outcome.record.summary.as_ref().filter(|_| !common.silent) {
        output::aside(&console::remarks(summary, output::style_aside()));
    }
    if let Some(dir) = &outcome.run_dir {
        let report = run_options::draw(dir, &outcome.profiles)?;
        if !common.silent {
            output::line_aside(&format!("report: {}", report.display()));
        }
    }
    at_once.check()?;
    if outcome.record.state == RunState::Failed {
        return Err(Failure::of_run(outcome.record));
    }
    missing.map_or(Ok(Done::Fine), Err)
}

/// A failure whose remedy names AMQP 0.9.1 as this command asks for it: its `--protocol` has no value for that.
fn in_own_words(error: session::Error) -> Failure {
    let mut failure = Failure::from(error);
    if let Failure::Usage(problem) | Failure::Failed(problem) = &mut failure {
        let own = "write amqp:// as URL, without --protocol, for AMQP 0.9.1";
        problem.help = problem.help.replace("load with --protocol amqp091", own);
    }
    failure
}

/// Options that a tool has by another name: the tool that lacks it, the option, and the words to write.
const OWN_NAMES: [(&str, &str, &str); 5] = [
    ("client", "num-connections", "a client has it for its consumers alone: '--consumer-connections'"),
    ("consumer", "consumer-url", "the only URL is a consumer's here: '--url'"),
    ("consumer", "consumer-protocol", "the only protocol is a consumer's here: '--protocol'"),
    ("producer", "num-connections", "producers have one connection each, or share one: '--shared-connections'"),
    ("producer", "consumer-connections", "a producer consumes nothing; producers share: '--shared-connections'"),
];

/// The words for an option that this tool lacks, and has by another name.
pub(super) fn own_name(tool: &str, option: &str) -> Option<&'static str> {
    OWN_NAMES.iter().find(|(of, name, _)| (*of, *name) == (tool, option)).map(|(.., words)| *words)
}

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
    let ledger = summary.flow().ledger.filter(|_| !may_expire).unwrap_or_default();
    for (number, where_they_are, look) in [
        (ledger.lost, "", "the broker's log"),
        (ledger.outstanding, ": the broker, or another consumer, may still hold them", "whether consumers keep up"),
    ] {
        if number > 0 {
            let cause = format!("{} sent and acknowledged, and did not arrive{where_they_are}", messages_were(number));
            let help = format!("see whether somebody else consumes from these destinations, and {look}");
            return Some(Failure::failed(cause, help));
        }
    }
    let missing = [WarningCode::BrokerGone, WarningCode::MessagesUnanswered, WarningCode::MessagesNotAccepted];
    // What was due and never sent is a rate that was not met, and nothing that is missing.
    let is_rate = |w: &&archive::Warning| matches!(w.finding, Finding::MessagesUnanswered { unanswered: 0, .. });
    let mut warnings = summary.warnings.iter().filter(|w| !is_rate(w));
    let warning = warnings.find(|w| missing.contains(&w.code()))?;
    Some(Failure::failed(warning.text.as_str(), "see the broker's log, and whether it is low on memory or disk"))
}

/// Shorter intervals are the edge of a phase: they have no block. The sums and the HDR log have them all the same.
const WHOLE_SECOND: Nanos = Nanos::from_millis(500);

struct Screen<'a> {
    of: &'a Resolved,
    control: load::Control,
    totals: Counters,
    json: Option<Samples>,
    hdr: Option<Sheet>,
    /// The failure of the output, for which the run was stopped.
    trouble: Option<Failure>,
}

impl Screen<'_> {
    fn end(mut self, success: bool, measured: &Interval) -> Result<(), Failure> {
        if let Some(trouble) = self.trouble {
            return Err(trouble);
        }
        let end = End { success, totals: &self.totals, measured };
        let sides = self.of.sides;
        if let Some(json) = &mut self.json {
            json.add(&artemis::summary_sample(sides, end, wall_clock_unix_ns() / 1_000_000))?;
            json.sheet.write("\n]")?;
        }
        if self.of.common.silent { Ok(()) } else { output::print(&artemis::summary(sides, end)) }
    }

    fn open_files(&mut self) -> Result<(), Failure> {
        if self.json.is_none()
            && let Some(path) = &self.of.common.json
        {
            let mut sheet = Sheet::create(path)?;
            sheet.write("[\n")?;
            self.json = Some(Samples { sheet, count: 0 });
        }
        if self.hdr.is_none()
            && let Some(path) = &self.of.common.hdr
        {
            let mut sheet = Sheet::create(path)?;
            sheet.write(artemis::HDR_HEADER)?;
            self.hdr = Some(sheet);
        }
        Ok(())
    }

    fn show(&mut self, interval: &Interval) -> Result<(), Failure> {
        let sides = self.of.sides;
        let end_ns = wall_clock_unix_ns().saturating_sub(Clock.now().since(interval.end).0);
        if let Some(hdr) = &mut self.hdr {
            let start_s = end_ns.saturating_sub(interval.length().0) as f64 / 1e9;
            let lines = artemis::histogram_lines(sides, interval, start_s);
            hdr.write(&lines.map_err(|e| hdr.failed(&e))?)?;
        }
        if interval.length() < WHOLE_SECOND {
            return Ok(());
        }
        if let Some(json) = &mut self.json {
            json.add(&artemis::interval_sample(sides, interval, end_ns / 1_000_000))?;
        }
        if self.of.common.silent {
            return Ok(());
        }
        output::print(&artemis::block(sides, interval, self.of.common.on.show_latency))
    }

    /// Ends the run in order at the first trouble with the output.
    fn keep_going(&mut self, step: impl FnOnce(&mut Self) -> Result<(), Failure>) {
        if self.trouble.is_none()
            && let Err(failure) = step(self)
        {
            self.trouble = Some(failure);
            self.control.stop();
        }
    }

    fn say(&self, text: &str) {
        if self.of.common.verbose {
            // A courtesy: standard output and the files are the result.
            output::line_aside(text);
        }
    }
}

impl session::Observer for Screen<'_> {
    fn progress(&mut self, progress: Progress<'_>) {
        if let Progress::Step(text) = progress {
            self.say(text);
        }
    }

    fn phase(&mut self, phase: Phase, length: Option<Nanos>) {
        let name = phase.name();
        match length {
            Some(length) => self.say(&format!("{name}: {length}")),
            None => self.say(&format!("{name}: until Ctrl-C or the last message")),
        }
        self.keep_going(Self::open_files);
    }

    fn interval(&mut self, interval: &Interval) {
        self.totals.add(&interval.counters);
        self.keep_going(|screen| screen.show(interval));
    }

    fn event(&mut self, event: &Event) {
        self.say(&event.label);
    }
}

/// An array of samples, one on each line.
struct Samples {
    sheet: Sheet,
    count: u64,
}

impl Samples {
    fn add(&mut self, sample: &str) -> Result<(), Failure> {
        let between = if self.count > 0 { ",\n" } else { "" };
        self.count += 1;
        self.sheet.write(&format!("{between}{sample}"))
    }
}
