//! Options that several commands have in common.

use std::ffi::OsString;
use std::path::PathBuf;

use archive::{Labels, Repeats, RunRecord};
use clap::builder::{FalseyValueParser, OsStringValueParser, PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, value_parser};
use measure::{Bytes, Length, Named};
use stacks::EventKind;

use experiment::{ProfileSpec, RequireSpec, Requirement};

use super::command_line::help_of;
use super::metrics::MetricsArgs;
use crate::Failure;
use crate::run_options::labels;

#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub(super) struct OutputArgs {
    /// Print one JSON object on standard output at the end: `bellows help run-schema`, for several runs
    /// `bellows help repeats-schema`
    #[arg(long)]
    pub(super) json: bool,
    /// Print the summary only
    #[arg(long, env = "BELLOWS_QUIET", value_parser = FalseyValueParser::new())]
    pub(super) quiet: bool,
    /// Show what a broker that bellows starts writes to its log; `limit` and `ab` end with all figures
    #[arg(long, conflicts_with = "quiet")]
    pub(super) verbose: bool,
    /// Exit with code 5 if a warning says that a number must not be used
    #[arg(long, env = "BELLOWS_STRICT", value_parser = FalseyValueParser::new())]
    pub(super) strict: bool,
    #[command(flatten)]
    pub(super) runs: RunsDir,
    #[command(flatten)]
    pub(super) labels: LabelArgs,
    #[command(flatten)]
    pub(super) metrics: MetricsArgs,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Requirements and repeats")]
pub(super) struct RequireArgs {
    /// Condition that has to hold, else exit code 3: 'end-to-end p99 < 20ms', 'lost = 0', 'sent rate >= 20k', or of a
    /// probe 'response p99 < 20ms'. May be repeated; the experiment's requirements count, too
    #[arg(long, value_name = "CONDITION")]
    require: Vec<Requirement>,
    /// The opposite of --require, by its old name.
    #[arg(long, hide = true, value_name = "CONDITION", value_parser = Requirement::unless)]
    fail_if: Vec<Requirement>,
    /// Write what was required, and whether it was reached, as JUnit XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Do it this many times, with a broker of its own each where bellows starts it, and show how far every
    /// headline figure spreads
    #[arg(long, value_name = "N", default_value_t = 1, hide_default_value = true,
          value_parser = value_parser!(u32).range(1..=i64::from(Repeats::MOST_RUNS)))]
    pub(super) repeat: u32,
}

impl RequireArgs {
    /// Refuses these options beside commands that make runs of their own.
    pub(super) fn none_with(&self, what: &str) -> Result<(), Failure> {
        if self.repeat == 1 && self.junit.is_none() && self.resolve().next().is_none() {
            return Ok(());
        }
        let cause = format!("{what} are runs of their own, which are neither repeated nor judged");
        Err(Failure::usage(cause, "leave out --repeat, --require and --junit"))
    }

    /// The requirements of the command line, beside the experiment's own.
    pub(super) fn resolve(&self) -> impl Iterator<Item = RequireSpec> {
        let required = self.require.iter().chain(&self.fail_if).cloned();
        required.map(|that| RequireSpec { that })
    }

    /// Writes the file for the CI server, where one was requested: before the run, so that one which never
    /// ends leaves no older result, and after it, with the failure that ended it, if any.
    pub(super) fn write(
        &self,
        name: &str,
        records: &[RunRecord],
        strict: bool,
        failure: Option<&Failure>,
    ) -> Result<(), Failure> {
        let Some(path) = &self.junit else { return Ok(()) };
        let failure = failure.and_then(Failure::sentence).map(|it| web::redact::urls(&it));
        let runs = report::JunitRuns { requested: self.repeat, strict, failure: failure.as_deref() };
        let write = |text: String| stacks::replace_file(path, text.as_bytes());
        let written = report::junit(name, records, runs).and_then(write);
        written.map_err(|e| Failure::io("write", path, &e))
    }

    /// Hands on what was made; a failure is written first, so that none of before the run leaves an older result.
    pub(super) fn noted<T>(&self, name: &str, strict: bool, made: Result<T, Failure>) -> Result<T, Failure> {
        made.inspect_err(|failure| {
            // It counts more than a file that cannot be written.
            let _ = self.write(name, &[], strict, Some(failure));
        })
    }
}

#[derive(Clone, Debug, Args)]
pub(super) struct RunsDir {
    /// Folder for run folders
    #[arg(long, value_name = "DIR", env = "BELLOWS_RUNS",
          default_value_os_t = archive::default_runs_dir(), hide_default_value = true,
          value_parser = OsStringValueParser::new().map(runs_dir),
          long_help = "Folder for run folders; by default `bellows/runs` in your data folder (`bellows doctor` names \
                       it)")]
    pub(super) runs: PathBuf,
}

/// The folder that is meant: a variable that is set to nothing is not set.
fn runs_dir(named: OsString) -> PathBuf {
    if named.is_empty() { archive::default_runs_dir() } else { named.into() }
}

#[derive(Clone, Debug, Default, Args)]
pub(super) struct LabelArgs {
    /// Note to keep with the run
    #[arg(long, value_name = "TEXT", env = "BELLOWS_NOTE", value_parser = Labels::note_of)]
    note: Option<String>,
    /// Tag to find the run by; a run with a tag is never pruned. May be repeated
    #[arg(long = "tag", value_name = "TAG", env = "BELLOWS_TAGS", value_delimiter = ',')]
    tags: Vec<String>,
}

impl LabelArgs {
    /// The options that were given, unless a variable of the environment gave them.
    pub(super) fn given(&self) -> impl Iterator<Item = &'static str> {
        let tag = is_typed(!self.tags.is_empty(), "BELLOWS_TAGS");
        given([("--tag", tag), ("--note", is_typed(self.note.is_some(), "BELLOWS_NOTE"))])
    }

    pub(super) fn resolve(&self) -> Result<Labels, Failure> {
        let tags = self.tags.iter().filter(|tag| !tag.is_empty());
        labels(self.note.clone().unwrap_or_default(), tags)
    }
}

/// Whether an option was given on the command line, and not by this variable, which is meant for all commands.
pub(super) fn is_typed(is_given: bool, variable: &str) -> bool {
    is_given && std::env::var_os(variable).is_none()
}

/// Those of these options that were given.
pub(super) fn given<const N: usize>(options: [(&'static str, bool); N]) -> impl Iterator<Item = &'static str> {
    options.into_iter().filter_map(|(option, is_given)| is_given.then_some(option))
}

pub(super) fn from_one(text: &str) -> Result<usize, String> {
    let number = text.parse::<u32>().ok().filter(|n| *n > 0).and_then(|n| usize::try_from(n).ok());
    number.ok_or_else(|| "expected a whole number, 1 or more".into())
}

pub(super) fn size(text: &str) -> Result<usize, String> {
    text.parse().map(Bytes::as_usize)
}

/// Reads one of several words, each with its value and its meaning, which `--help` shows.
pub(super) fn choice<T, const N: usize>(words: [(&'static str, T, &'static str); N]) -> impl TypedValueParser<Value = T>
where
    T: Copy + Send + Sync + 'static,
{
    let shown = words.map(|(word, _, help)| PossibleValue::new(word).help(help));
    PossibleValuesParser::new(shown).try_map(move |typed| {
        let found = words.iter().find(|(word, ..)| *word == typed);
        found.map(|(_, value, _)| *value).ok_or("it is none of these words")
    })
}

/// Reads a value by its name; `--help` shows what each means.
pub(super) fn named<T: Named + Copy + Send + Sync>() -> impl TypedValueParser<Value = T> {
    let shown = T::VALUES.iter().map(|(_, word, meaning)| PossibleValue::new(*word).help(help_of(meaning, &[])));
    PossibleValuesParser::new(shown).try_map(|typed| {
        let found = T::VALUES.iter().find(|(_, word, _)| *word == typed);
        found.map(|(value, ..)| *value).ok_or("it is none of these words")
    })
}

pub(super) fn no_samples(profile: &str, event: EventKind) -> Failure {
    let why = match event {
        EventKind::OnCpu => "the process itself used no CPU",
        EventKind::Memory => "the event did not happen, or nothing of what it took is held",
        EventKind::OffCpu | EventKind::Other => "the event did not happen",
    };
    let cause = format!("{profile} has no samples: {why} while it was sampled");
    let help = "record the process while it works, or longer (`bellows record --duration`)";
    Failure::failed(cause, help).observed(profile)
}

#[derive(Clone, Debug, Default, Args)]
pub(super) struct EventArgs {
    /// Events to sample, each a profile of its own: cpu, off-cpu, page-faults, mmap, mmap-held, brk, malloc,
    /// malloc-held, …, or a tracepoint such as sched:sched_process_fork. May be repeated
    #[arg(long = "event", value_name = "EVENT,…", value_parser = event, value_delimiter = ',')]
    pub(super) events: Vec<String>,
    /// Blocked times that are shorter (100us, 5ms) are left out of off-cpu
    #[arg(long, value_name = "LENGTH")]
    min_block: Option<Length>,
}

impl EventArgs {
    pub(super) fn given(&self) -> impl Iterator<Item = &'static str> {
        given([("--event", !self.events.is_empty()), ("--min-block", self.min_block.is_some())])
    }

    /// Refuses `--min-block` where no event has blocked times.
    pub(super) fn check(&self, profile: &ProfileSpec) -> Result<(), Failure> {
        let Some(length) = self.min_block.filter(|_| !profile.events.iter().any(|event| event == "off-cpu")) else {
            return Ok(());
        };
        let cause = format!("--min-block {length} is for the event off-cpu, which is not sampled");
        Err(Failure::usage(cause, "add --event off-cpu, or leave it out").observed(length))
    }

    /// How a run on a broker that runs already is profiled: not at all unless `is_profiled` or events are given.
    pub(super) fn profile(&self, is_profiled: bool) -> ProfileSpec {
        let mut profile = ProfileSpec::default();
        if !is_profiled {
            profile.events.clear();
        }
        self.apply(&mut profile);
        profile
    }

    /// Replaces the experiment's events by the given ones.
    pub(super) fn apply(&self, profile: &mut ProfileSpec) {
        if !self.events.is_empty() {
            profile.events.clone_from(&self.events);
        }
        if let Some(length) = self.min_block {
            profile.min_block = length;
        }
    }
}

pub(super) fn event(text: &str) -> Result<String, String> {
    let known = || format!("known are {}", session::Event::known());
    let event = session::Event::named(text).ok_or_else(known)?;
    Ok(event.name.into_owned())
}

/// Reads the name of a profile: that of an event, and in a cluster the number of a node behind it (`cpu@1`).
pub(super) fn profile_name(text: &str) -> Result<String, String> {
    let of_node = |(event, node): (&str, &str)| Some((event.to_owned(), node.parse::<u32>().ok()?));
    match text.rsplit_once('@').and_then(of_node) {
        // The first node's profile has the event's name alone.
        Some((name, 0)) => event(&name),
        Some((name, node)) => Ok(format!("{}@{node}", event(&name)?)),
        None => event(text),
    }
}

pub(super) fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() && value >= 0.0 => Ok(value),
        _ => Err("expected a number of seconds, 0 or more".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_profile_of_a_node_is_named_by_event_and_number() {
        let read = |text: &str| profile_name(text).ok();
        for same in ["off-cpu", "cpu@2", "sched:sched_process_fork@1"] {
            assert_eq!(read(same).as_deref(), Some(same));
        }
        assert_eq!(read("cpu@0").as_deref(), Some("cpu"));
        for wrong in ["cpu@", "cpu@x", "@1", "nonsense@1", "cpu@1@2"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
