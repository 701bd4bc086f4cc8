//! The profile that a name means (of a file, of a run, or of many periods of a recording), or a part of it: a window,
//! or the seconds in which a condition held.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use archive::{PeriodRange, RunEntry, RunReader};
use clap::Args;
use experiment::Requirement;
use measure::{Phase, Problem, Refused, counted, wall_clock_unix_ns};
use report::console::{FunctionRowOf, sanitise};
use session::Seconds;
use stacks::{FirstField, Merge, Profile, ReadOptions, USUAL_EVENT, sampled_events};

use super::args::{RunsDir, choice, no_samples, profile_name, seconds};
use super::{complete, find};
use crate::{Failure, output, profile_formats};

const STALL: &str = "stall";

#[derive(Debug, Args)]
pub(super) struct ProfileArgs {
    /// Run (path, id, unique start or end of its id, an experiment that ran once, a filter that one run matches, such
    /// as tag=before, or `last`, which is also meant where none is named: the last that has a profile); periods of a
    /// recording, as NAME@FROM..TO (beam.smp@10:00..11:00, beam.smp@-1h.., in UTC); or a file with a profile: pprof,
    /// perf.data, JFR, text of `perf script`, folded stacks, also packed with gzip
    #[arg(value_name = "RUN|PROFILE", add = complete::profiles())]
    profile: Option<String>,
    #[command(flatten)]
    part: PartArgs,
}

#[derive(Debug, Args)]
pub(super) struct PartArgs {
    /// Event of a run with several: cpu unless another is named; of a cluster's second node cpu@1; of a file as it is
    /// called there (cycles, cpu_atom/cycles/P)
    #[arg(long, value_name = "EVENT")]
    event: Option<String>,
    /// Start of the window, in seconds on the run's time axis
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    from: Option<f64>,
    /// End of the window, in seconds on the run's time axis
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    to: Option<f64>,
    /// Only the seconds in which this held: 'end-to-end p99 > 50ms', 'sent rate < 20k'; or `stall`, the times in which
    /// the broker, the generator or the machine stood still
    #[arg(long = "where", value_name = "CONDITION")]
    that: Option<Condition>,
    /// First field of folded text [default: a thread where the lines say so, else a function]
    #[arg(long, value_name = "WHAT", value_parser = choice([
        ("thread", FirstField::Thread, "The name of a thread, or of its program"),
        ("function", FirstField::Function, "A function"),
    ]))]
    first_field: Option<FirstField>,
    #[command(flatten)]
    runs: RunsDir,
}

#[derive(Clone, Debug)]
enum Condition {
    Stall,
    Figure(Box<Requirement>),
}

impl FromStr for Condition {
    type Err = Refused;

    fn from_str(text: &str) -> Result<Self, Refused> {
        if matches!(text.trim(), STALL | "stalls") {
            return Ok(Self::Stall);
        }
        if !text.contains(['<', '=', '>']) {
            const EXAMPLE: &str = "write it as 'end-to-end p99 > 50ms' or 'sent rate < 20k', or write `stall`";
            return Err(Refused::new("it compares nothing", EXAMPLE));
        }
        text.parse().map(Box::new).map(Self::Figure)
    }
}

#[derive(Debug)]
pub(super) struct ProfilePart {
    /// The run's id, or the file.
    pub(super) name: String,
    /// The run's folder, or the file.
    pub(super) source: PathBuf,
    pub(super) profile: Profile,
    /// The other samples, where the part was chosen by a condition.
    pub(super) rest: Option<Profile>,
    /// Name of the part; `None` for the whole.
    pub(super) which: Option<String>,
}

impl ProfileArgs {
    /// The profile, or its part, by line where lines are known.
    pub(super) fn open(&self) -> Result<ProfilePart, Failure> {
        self.part.open(self.profile.as_deref().unwrap_or(find::LAST))
    }

    /// A line with the run that was taken where none was named, and its broker; empty for a named one.
    pub(super) fn taken(&self, part: &ProfilePart) -> String {
        if self.profile.as_deref().is_some_and(|it| it != find::LAST) {
            return String::new();
        }
        let entry = RunEntry::read(part.source.clone());
        let broker = entry.record.ok().and_then(|it| it.versions.broker_name());
        let broker = broker.map_or_else(String::new, |it| format!(", {it}"));
        format!("{}\n", sanitise(&format!("{}{broker}", entry.id)))
    }

    /// The text of `perf script` that was named, and the event whose samples are wanted, where nothing else was asked.
    pub(super) fn text(&self) -> Result<(Option<&str>, Option<&str>), Failure> {
        let part = &self.part;
        if part.has_window() || part.that.is_some() || part.first_field.is_some() {
            let cause = "--format stackcollapse folds whole texts of `perf script`";
            let help = "leave out --from, --to, --where and --first-field, or take --format folded";
            return Err(Failure::usage(cause, help));
        }
        Ok((self.profile.as_deref(), part.event.as_deref()))
    }
}

impl ProfilePart {
    /// The part with rows of this kind: lines, or functions alone.
    pub(super) fn for_rows(self, of: FunctionRowOf) -> Result<Self, Failure> {
        if of != FunctionRowOf::Line {
            return Ok(Self {
                profile: self.profile.without_lines(),
                rest: self.rest.map(Profile::without_lines),
                ..self
            });
        }
        if self.profile.knows_lines() {
            return Ok(self);
        }
        let help = "they are known of Erlang functions on OTP 25 or later, of Go programs, and in recordings of \
                    Java's flight recorder and pprof files that have them; `--by module` needs none";
        Err(Failure::failed(format!("{} tells no lines of source code", self.name), help).observed(&self.name))
    }

    pub(super) fn heading(&self) -> String {
        match &self.which {
            Some(which) => format!("{}, {which}", self.name),
            None => self.name.clone(),
        }
    }
}

/// The name of an event: of a run one that bellows samples, of a file whatever it has.
fn named(event: &str, profile: &str) -> Result<String, Failure> {
    let path = Path::new(profile);
    let is_file = path.exists() && !path.is_dir();
    profile_name(event).or_else(|known| match is_file {
        true => Ok(event.to_owned()),
        false => Err(Failure::usage(format!("no event of runs is called {event}"), known).observed(event)),
    })
}

impl PartArgs {
    /// This part of the profile that is called so, by line where lines are known.
    pub(super) fn open(&self, profile: &str) -> Result<ProfilePart, Failure> {
        let (mut profile, name, path) = self.whole(profile)?;
        if self.has_window() {
            self.cut(&mut profile, &name)?;
        }
        let window = self.window();
        let Some(condition) = &self.that else {
            return Ok(ProfilePart { name, source: path, profile, rest: None, which: window });
        };
        let (windows, held) = condition.windows(&path)?;
        let (profile, rest) = profile.split(&windows);
        if profile.samples.is_empty() {
            let cause = format!("no sample of {name} lies in {held}");
            return Err(Failure::failed(cause, "the event did not happen then, or was not sampled").observed(held));
        }
        let which = window.map_or_else(|| held.clone(), |window| format!("{window}, {held}"));
        Ok(ProfilePart { name, profile, rest: Some(measured(rest, &path)?), source: path, which: Some(which) })
    }

    /// This part of the profile that is called so, and the rest of its measured phase.
    pub(super) fn beside_the_rest(&self, profile: &str) -> Result<(ProfilePart, Profile), Failure> {
        let (part, rest) = self.split(profile)?;
        match rest.filter(|rest| !rest.samples.is_empty()) {
            Some(rest) => Ok((part, rest)),
            None => Err(Failure::failed(
                format!("nothing of {} is left to compare with", part.name),
                "choose a smaller part, or name a second profile",
            )
            .observed(part.heading())),
        }
    }

    fn split(&self, profile: &str) -> Result<(ProfilePart, Option<Profile>), Failure> {
        if self.that.is_some() {
            let mut part = self.open(profile)?;
            let rest = part.rest.take();
            return Ok((part, rest));
        }
        if !self.has_window() {
            let cause = "one profile alone differs from nothing";
            let help = "name a second one, or a part to compare with the rest: --from and --to, or --where stall";
            return Err(Failure::usage(cause, help).observed(profile));
        }
        let (whole, name, source) = self.whole(profile)?;
        let mut profile = whole.clone();
        self.cut(&mut profile, &name)?;
        let (_, rest) = whole.split(&[profile.span.unwrap_or_default()]);
        let rest = measured(rest, &source)?;
        Ok((ProfilePart { name, source, profile, rest: None, which: self.window() }, Some(rest)))
    }

    /// The whole profile, its name and its place.
    fn whole(&self, profile: &str) -> Result<(Profile, String, PathBuf), Failure> {
        let event = self.event.as_deref().map(|it| named(it, profile)).transpose()?;
        let options = ReadOptions { event: event.as_deref(), first_field: self.first_field.unwrap_or_default() };
        let (found, name, path) = selected_profile(profile, options, &self.runs.runs)?;
        if found.samples.is_empty() {
            // One with a span was read to its end.
            let note = found.notes.last().filter(|_| found.span.is_none());
            return Err(note.map_or_else(|| no_samples(&name, found.header.kind), |note| nothing_read(&name, note)));
        }
        Ok((found, name, path))
    }

    fn has_window(&self) -> bool {
        self.from.is_some() || self.to.is_some()
    }

    /// Keeps samples between `--from` and `--to`.
    fn cut(&self, profile: &mut Profile, name: &str) -> Result<(), Failure> {
        let (from, to) = (self.from.unwrap_or(0.0), self.to.unwrap_or(f64::INFINITY));
        if from >= to {
            let cause = format!("the window from {from} s to {to} s is empty");
            let help = "give --from a smaller number than --to";
            return Err(Failure::usage(cause, help).observed(format_args!("from {from} s to {to} s")));
        }
        let span = profile.span;
        profile.cut((from * 1e9) as u64, (to * 1e9) as u64);
        if !profile.samples.is_empty() {
            return Ok(());
        }
        let asked = match self.to {
            Some(to) => format!("between {from} s and {to} s"),
            None => format!("after {from} s"),
        };
        let remedy = span.map_or_else(
            || "choose a window inside the profile".to_owned(),
            |(start, end)| {
                let (start, end) = (start as f64 / 1e9, end as f64 / 1e9);
                let span = format!("the profile, which spans {start:.1} s to {end:.1} s");
                match from < end && to > start {
                    true => format!(
                        "choose a longer window, or another one of {span}: nothing was sampled in this \
                                     one"
                    ),
                    false => format!("choose a window inside {span}"),
                }
            },
        );
        Err(Failure::failed(format!("no sample of {name} lies {asked}"), remedy).observed(asked))
    }

    fn window(&self) -> Option<String> {
        let from = self.from.unwrap_or(0.0);
        let to = self.to.map(|to| format!("{from} s to {to} s"));
        to.or_else(|| self.from.map(|from| format!("from {from} s")))
    }
}

impl Condition {
    /// The windows of a run in which it held, nanoseconds since its origin, and their text.
    fn windows(&self, path: &Path) -> Result<(Vec<(u64, u64)>, String), Failure> {
        let run = of_run(path)?;
        match self {
            Self::Stall => stalls(&run),
            Self::Figure(condition) => seconds_of(&run, condition),
        }
    }
}

/// The part of a profile in its run's measured phase; all of it where there is no such phase.
fn measured(mut profile: Profile, path: &Path) -> Result<Profile, Failure> {
    if !path.is_dir() || !path.join(archive::file::RECORD).exists() {
        return Ok(profile);
    }
    let run = RunReader::open(path)?;
    if let Some(phase) = run.record.phases.iter().find(|it| it.phase == Phase::Measure) {
        profile.cut(ns(phase.start), ns(phase.end));
    }
    Ok(profile)
}

fn ns(seconds: f64) -> u64 {
    (seconds.max(0.0) * 1e9) as u64
}

fn of_run(path: &Path) -> Result<RunReader, Failure> {
    if path.is_dir() {
        return Ok(RunReader::open(path)?);
    }
    let cause = "--where needs a run: what was measured is not in a profile file";
    let help = "name the run (its folder, its id, or `last`), or give the window with --from and --to";
    Err(Failure::usage(cause, help).observed(path.display()))
}

fn stalls(run: &RunReader) -> Result<(Vec<(u64, u64)>, String), Failure> {
    let stalls = run.record.summary.as_ref().map(|it| it.stalls.as_slice()).unwrap_or_default();
    if stalls.is_empty() {
        let cause = "nobody stood still in this run";
        let help = "`--where 'end-to-end p99 > 50ms'` chooses by what was measured";
        return Err(Failure::failed(cause, help).observed(&run.record.id));
    }
    let windows = stalls.iter().map(|stall| (ns(stall.at_s), ns(stall.at_s + stall.for_s)));
    let held = match stalls {
        [_] => "the stall".to_owned(),
        all => format!("the {} stalls", all.len()),
    };
    Ok((windows.collect(), held))
}

fn seconds_of(run: &RunReader, condition: &Requirement) -> Result<(Vec<(u64, u64)>, String), Failure> {
    let found = Seconds::of(run, condition)?;
    let untold = match (found.untold, found.why) {
        (0, _) | (_, None) => String::new(),
        (untold, Some(why)) => format!("; {untold} more are unknown: {why}"),
    };
    let told = counted(found.told as u64, "second");
    if let Some((low, high)) = found.range.filter(|_| found.windows.is_empty()) {
        let range = report::text::range(condition.unit(), low, high);
        let cause = format!("in none of {told} {condition} held{untold}");
        let help = "choose a bound that lies between these";
        return Err(Failure::Failed(Problem::new(cause, format!("from {range}"), help)));
    }
    if found.windows.is_empty() {
        return Err(Failure::failed(
            format!("no second is known in which {condition} held"),
            format!("`bellows runs report {}` shows what was measured in each second", find::folder_word(&run.dir)),
        )
        .observed(found.why.unwrap_or("no second was completed")));
    }
    let held = format!("{} of {told} in which {condition}{untold}", found.windows.len());
    Ok((found.windows, held))
}

fn nothing_read(profile: &str, note: &str) -> Failure {
    let cause = format!("{profile} has no samples that can be read: {note}");
    Failure::failed(cause, "give another file of the run, such as profile.pb.gz, or record it again").observed(profile)
}

/// The profile of an event, by line where lines are known, its name and its place.
fn selected_profile(name: &str, options: ReadOptions<'_>, runs: &Path) -> Result<(Profile, String, PathBuf), Failure> {
    let event = options.event;
    if !Path::new(name).exists()
        && let Some(range) = PeriodRange::parse(name, wall_clock_unix_ns())
    {
        let range = range.map_err(|refused| {
            Failure::usage(format!("{name:?} means no periods: {}", refused.what), refused.help).observed(name)
        })?;
        return periods(name, &range, event, runs);
    }
    let path = find::profile(name, event, runs)?;
    let profile = Profile::open_with_lines(&profile_formats::all(), &path, options)?;
    if event.is_none() && path.is_dir() && !path.join(archive::file::RECORD).exists() {
        tell_choice(&path, &profile);
    }
    let id = path.file_name().filter(|_| path.is_dir());
    let name = id.map_or_else(|| name.to_owned(), |id| id.to_string_lossy().into_owned());
    Ok((profile, name, path))
}

/// Reports which profile was taken from a folder with several that is no run's.
fn tell_choice(folder: &Path, taken: &Profile) {
    let mut events = sampled_events(folder);
    let is_named = |event: &String| event == USUAL_EVENT;
    if folder.join(archive::file::PPROF).exists() {
        // It is taken where it is of the usual event, and nothing else is.
        let is_taken = taken.header.event == USUAL_EVENT && !events.iter().any(is_named);
        let place = if is_taken { 0 } else { events.len() };
        events.insert(place, archive::file::PPROF.to_owned());
    }
    if let [first, others @ ..] = events.as_slice()
        && !others.is_empty()
    {
        output::line_aside(&format!(
            "of the profiles in {} it is {}; there, too: {} (name a file, or an event with --event)",
            folder.display(),
            sanitise(first),
            sanitise(&others.join(", "))
        ));
    }
}

/// The periods of a recording as one profile, cut to the range.
fn periods(
    name: &str,
    range: &PeriodRange,
    event: Option<&str>,
    runs: &Path,
) -> Result<(Profile, String, PathBuf), Failure> {
    let mut entries = find::list(runs)?;
    // The first is the origin of all.
    entries.reverse();
    let mut merge = Merge::default();
    let mut unread = None;
    for entry in entries.iter().filter(|entry| range.has(entry)) {
        match Profile::open_with_lines(&profile_formats::all(), &entry.dir, event) {
            Ok(profile) => merge.add(profile),
            Err(error) => unread = Some(error),
        }
    }
    let parts = merge.parts();
    match unread {
        _ if parts > 0 => {}
        Some(error) => return Err(error.into()),
        None => return Err(none(name, range, runs, &entries)),
    }
    let mut profile = merge.finish();
    let (from, to) = range.on_axis(profile.header.origin_unix_ns);
    profile.cut(from, to);
    let called = format!("{name} ({})", counted(parts as u64, "period"));
    Ok((profile, called, runs.to_owned()))
}

/// The failure where no period lies in the range, with the existing ones.
fn none(name: &str, range: &PeriodRange, runs: &Path, entries: &[RunEntry]) -> Failure {
    let all = entries.iter().filter(|entry| {
        let period = entry.record.as_ref().ok().and_then(|it| it.period.as_ref());
        let names = |it: &archive::Period| it.recording == range.name() || it.process == range.name();
        period.is_some_and(|it| range.name().is_empty() || names(it))
    });
    let ids: Vec<&str> = all.map(|entry| entry.id.as_str()).collect();
    let (cause, value) = match ids.as_slice() {
        [] => (format!("{} holds no period of a recording called {:?}", runs.display(), range.name()), name.to_owned()),
        [first, .., last] => (
            format!("no period lies in {name}"),
            format!("there are {}, from {first} to {last}", counted(ids.len() as u64, "period")),
        ),
        [one] => (format!("no period lies in {name}"), format!("there is {one}")),
    };
    let help = "`bellows runs` lists them; `bellows record --name NAME --every 60s` makes them; times are UTC";
    Failure::Failed(Problem::new(cause, value, help))
}
