//! Options that several commands have in common.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use archive::profile::Profile;
use archive::{Labels, Repeats, RunRecord};
use clap::builder::{OsStringValueParser, PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, value_parser};
use measure::Bytes;

use session::experiment::{RequireSpec, Requirement};

use super::{complete, find};
use crate::failure::Failure;
use crate::labels::labels;

/// How a run is shown and where it is kept.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub(super) struct OutputArgs {
    /// Print one JSON object on standard output at the end: `bellows help run-schema`, for several runs
    /// `bellows help repeats-schema`
    #[arg(long)]
    pub(super) json: bool,
    /// Print the summary only
    #[arg(long, env = "BELLOWS_QUIET")]
    pub(super) quiet: bool,
    /// Show what a broker that bellows starts writes to its log
    #[arg(long, conflicts_with = "quiet")]
    pub(super) verbose: bool,
    /// Exit with code 5 if a warning says that a number must not be used
    #[arg(long, env = "BELLOWS_STRICT")]
    pub(super) strict: bool,
    #[command(flatten)]
    pub(super) runs: RunsDir,
    #[command(flatten)]
    pub(super) labels: LabelArgs,
}

/// What a run has to reach.
#[derive(Debug, Args)]
#[command(next_help_heading = "Requirements and repeats")]
pub(super) struct RequireArgs {
    /// Exit with code 3 if this holds: 'end-to-end p99 > 20ms', 'lost > 0', 'sent rate < 20k'. May be
    /// repeated
    #[arg(long, value_name = "CONDITION", value_parser = Requirement::unless)]
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
    /// What is required, beside what the experiment itself requires.
    pub(super) fn resolve(&self) -> impl Iterator<Item = RequireSpec> {
        let required = self.fail_if.iter().cloned();
        required.map(|that| RequireSpec { that })
    }

    /// Writes the file for the CI server, where one was requested: before the run, so that one which never
    /// ends leaves no older result, and after it.
    pub(super) fn write(&self, name: &str, records: &[RunRecord]) -> Result<(), Failure> {
        let Some(path) = &self.junit else {
            return Ok(());
        };
        let write = |text: String| archive::replace_file(path, text.as_bytes());
        let written = report::junit(name, records, self.repeat).and_then(write);
        written.map_err(|e| Failure::io("write", path, &e))
    }
}

/// Where the runs are.
#[derive(Clone, Debug, Args)]
pub(super) struct RunsDir {
    /// Folder for run folders
    #[arg(long, value_name = "DIR", env = "BELLOWS_RUNS",
          default_value_os_t = archive::default_runs_dir(), hide_default_value = true,
          value_parser = OsStringValueParser::new().map(runs_dir),
          long_help = "Folder for run folders; by default `bellows/runs` in your data folder (`bellows doctor` names it)")]
    pub(super) runs: PathBuf,
}

/// The folder that is meant: a variable that is set to nothing is not set.
fn runs_dir(named: OsString) -> PathBuf {
    if named.is_empty() {
        return archive::default_runs_dir();
    }
    named.into()
}

/// What is said of a run beforehand.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct LabelArgs {
    /// Note to keep with the run
    #[arg(long, value_name = "TEXT", env = "BELLOWS_NOTE", value_parser = Labels::note_of)]
    note: Option<String>,
    /// Tag to find the run by; a run with a tag is never pruned. May be repeated
    #[arg(
        long = "tag",
        value_name = "TAG",
        env = "BELLOWS_TAGS",
        value_delimiter = ','
    )]
    tags: Vec<String>,
}

impl LabelArgs {
    /// The labels of the run to come.
    pub(super) fn resolve(&self) -> Result<Labels, Failure> {
        let tags = self.tags.iter().filter(|tag| !tag.is_empty());
        labels(self.note.clone().unwrap_or_default(), tags)
    }
}

/// A profile and a part of it.
#[derive(Debug, Args)]
pub(super) struct ProfileArgs {
    /// Run (path, id, part of its id that only it has, or `last`: the last that has a profile), or a
    /// profile file
    #[arg(value_name = "RUN|PROFILE", add = complete::profiles())]
    profile: String,
    /// Start of the window, in seconds on the run's time axis
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    from: Option<f64>,
    /// End of the window, in seconds on the run's time axis
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    to: Option<f64>,
    #[command(flatten)]
    runs: RunsDir,
}

impl ProfileArgs {
    /// The profile, cut to the window where one was requested, and its name: the run's id, or the file.
    pub(super) fn open(&self) -> Result<(Profile, String), Failure> {
        let path = find::profile(&self.profile, &self.runs.runs)?;
        let profile = Profile::open(&path)?;
        let id = path.file_name().filter(|_| path.is_dir());
        let name = id.map_or_else(
            || self.profile.clone(),
            |id| id.to_string_lossy().into_owned(),
        );
        if profile.samples.is_empty() {
            let read_to_its_end = profile.span.is_some();
            let note = profile.notes.last().filter(|_| !read_to_its_end);
            return Err(note.map_or_else(|| no_samples(&name), |note| nothing_read(&name, note)));
        }
        if self.from.is_none() && self.to.is_none() {
            return Ok((profile, name));
        }
        let (from, to) = (self.from.unwrap_or(0.0), self.to.unwrap_or(f64::INFINITY));
        if from >= to {
            return Err(Failure::usage(
                format!("the window from {from} s to {to} s is empty"),
                "give --from a smaller number than --to",
            )
            .observed(format_args!("from {from} s to {to} s")));
        }
        let window = profile.window((from * 1e9) as u64, (to * 1e9) as u64);
        if window.samples.is_empty() {
            let asked = match self.to {
                Some(to) => format!("between {from} s and {to} s"),
                None => format!("after {from} s"),
            };
            let spans = profile.span.map_or_else(String::new, |(start, end)| {
                format!(
                    ", which spans {:.1} s to {:.1} s",
                    start as f64 / 1e9,
                    end as f64 / 1e9
                )
            });
            return Err(Failure::failed(
                format!("no sample of {name} lies {asked}"),
                format!("choose a window inside the profile{spans}"),
            )
            .observed(asked));
        }
        Ok((window, name))
    }

    /// The window for a heading.
    pub(super) fn window(&self) -> Option<String> {
        match (self.from, self.to) {
            (None, None) => None,
            (from, None) => Some(format!("from {} s", from.unwrap_or(0.0))),
            (from, Some(to)) => Some(format!("{} s to {to} s", from.unwrap_or(0.0))),
        }
    }
}

/// Reads a whole number of at least 1.
pub(super) fn from_one(text: &str) -> Result<usize, String> {
    let number = text
        .parse::<u32>()
        .ok()
        .filter(|n| *n > 0)
        .and_then(|n| usize::try_from(n).ok());
    number.ok_or_else(|| "expected a whole number, 1 or more".into())
}

/// Reads a size for this machine's memory.
pub(super) fn size(text: &str) -> Result<usize, String> {
    text.parse().map(Bytes::as_usize)
}

/// Reads one of several words; each stands in `--help` with what it means.
pub(super) fn choice<T, const N: usize>(
    words: [(&'static str, &'static str); N],
) -> impl TypedValueParser<Value = T>
where
    T: FromStr<Err = String> + Clone + Send + Sync + 'static,
{
    let words = words.map(|(word, help)| PossibleValue::new(word).help(help));
    PossibleValuesParser::new(words).try_map(|word| word.parse::<T>())
}

/// The failure of a profile without samples.
pub(super) fn no_samples(profile: &str) -> Failure {
    Failure::failed(
        format!("{profile} has no samples: the process used no CPU while it was sampled"),
        "record it while it works, or longer (`bellows record --duration`)",
    )
    .observed(profile)
}

/// The failure of a profile of which no sample could be read.
fn nothing_read(profile: &str, note: &str) -> Failure {
    Failure::failed(
        format!("{profile} has no samples that can be read: {note}"),
        "give another file of the run, such as profile.pb.gz, or record it again",
    )
    .observed(profile)
}

/// A number of seconds, zero or more.
pub(super) fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() && value >= 0.0 => Ok(value),
        _ => Err("expected a number of seconds, 0 or more".into()),
    }
}
