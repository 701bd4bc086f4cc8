//! The profile that a name means: of a file, of a run, or of many periods of a recording.

use std::path::{Path, PathBuf};

use archive::PeriodRange;
use measure::{Problem, counted, wall_clock_unix_ns};
use report::console::sanitise;
use stacks::{Merge, Profile, ReadOptions, USUAL_EVENT, sampled_events};

use super::find;
use crate::failure::Failure;
use crate::{output, profile_formats};

/// The profile of an event, by line where lines are known, its name and its place.
pub(super) fn open(
    name: &str,
    options: ReadOptions<'_>,
    runs: &Path,
) -> Result<(Profile, String, PathBuf), Failure> {
    let event = options.event;
    if !Path::new(name).exists()
        && let Some(range) = PeriodRange::parse(name, wall_clock_unix_ns())
    {
        let range = range.map_err(|refused| {
            Failure::usage(
                format!("{name:?} means no periods: {}", refused.what),
                refused.help,
            )
            .observed(name)
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
fn none(name: &str, range: &PeriodRange, runs: &Path, entries: &[archive::RunEntry]) -> Failure {
    let all = entries.iter().filter(|entry| {
        let period = entry.record.as_ref().ok().and_then(|it| it.period.as_ref());
        let names =
            |it: &archive::Period| it.recording == range.name() || it.process == range.name();
        period.is_some_and(|it| range.name().is_empty() || names(it))
    });
    let ids: Vec<&str> = all.map(|entry| entry.id.as_str()).collect();
    let (cause, value) = match ids.as_slice() {
        [] => (
            format!(
                "{} holds no period of a recording called {:?}",
                runs.display(),
                range.name()
            ),
            name.to_owned(),
        ),
        [first, .., last] => (
            format!("no period lies in {name}"),
            format!(
                "there are {}, from {first} to {last}",
                counted(ids.len() as u64, "period")
            ),
        ),
        [one] => (
            format!("no period lies in {name}"),
            format!("there is {one}"),
        ),
    };
    Failure::Failed(Problem::new(
        cause,
        value,
        "`bellows runs` lists them; `bellows record --name NAME --every 60s` makes them; times are UTC",
    ))
}
