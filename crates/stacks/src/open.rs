//! Opening a profile, whatever its form.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use measure::Problem;

use super::folded::FirstField;
use super::format::{Beginning, FORMATS, Format, Input, looks_like};
use super::model::{Profile, ProfileHeader, USUAL_EVENT};
use crate::packed::{read_problem, unpacked};
use crate::{bounded, file};

/// Limit on a profile's sum, as far as pprof counts.
const LARGEST_SUM: u64 = i64::MAX as u64;

/// Why a profile cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// A folder without a profile in it.
    #[error("{0}")]
    NotARun(Problem),
    /// The system says no, the event was not sampled, or the file is no profile or a damaged one.
    #[error("{0}")]
    Other(Problem),
}

impl ProfileError {
    /// Cause, observed value and remedy.
    pub fn problem(&self) -> Problem {
        let (Self::NotARun(problem) | Self::Other(problem)) = self;
        problem.clone()
    }

    fn no_such_event(path: &Path, event: &str, known: &[String]) -> Self {
        let cause = format!("{} has no profile of {event}", path.display());
        let help = "name one of these; `bellows record --event` samples others";
        Self::Other(Problem::new(cause, format_args!("it has {}", known.join(", ")), help))
    }
}

/// Choices for reading a file.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadOptions<'o> {
    /// The event that is asked for, where there may be several.
    pub event: Option<&'o str>,
    /// First field of folded text.
    pub first_field: FirstField,
}

impl<'o> From<Option<&'o str>> for ReadOptions<'o> {
    fn from(event: Option<&'o str>) -> Self {
        Self { event, ..Self::default() }
    }
}

impl Profile {
    /// Reads a profile: that of the usual event in a run folder, or a file in one of [`FORMATS`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ProfileError> {
        Self::open_as(&FORMATS, path.as_ref(), None)
    }

    /// Opens as [`Profile::open_with_lines`], by function alone.
    pub fn open_as(formats: &[Format], path: &Path, event: Option<&str>) -> Result<Self, ProfileError> {
        Self::open_with_lines(formats, path, event).map(Self::without_lines)
    }

    /// Reads a profile, of the event that is named or else of the usual one: of a run folder, or a file in one of these
    /// formats, told apart by content; gzip is unpacked. Files that were cut off are read as far as they go, with a
    /// note. Each line of a function is a frame of its own, where lines are known.
    pub fn open_with_lines<'o>(
        formats: &[Format],
        path: &Path,
        options: impl Into<ReadOptions<'o>>,
    ) -> Result<Self, ProfileError> {
        let options = options.into();
        if path.is_dir() {
            return open_folder(formats, path, options.event);
        }
        let profile = read_file(formats, path, options)?;
        match options.event {
            // Folded text does not say what it is of.
            Some(event) if !is_of(&profile, event) => {
                Err(ProfileError::no_such_event(path, event, &[profile.header.name()]))
            }
            _ => Ok(profile),
        }
    }
}

/// A shell's open file may be a pipe, as `<(...)` is; its other end is open, too.
fn open_file(path: &Path) -> io::Result<File> {
    let is_open = ["/dev/stdin", "/dev/fd", "/proc/self/fd"];
    if is_open.iter().any(|open| path.starts_with(open)) { File::open(path) } else { bounded::open(path) }
}

fn read_file<'o>(
    formats: &[Format],
    path: &Path,
    options: impl Into<ReadOptions<'o>>,
) -> Result<Profile, ProfileError> {
    let ReadOptions { event, first_field } = options.into();
    let io = |source| ProfileError::Other(read_problem(path, &source));
    let format = |reason: String| {
        let cause = format!("{} is not a profile that bellows can read", path.display());
        let help = "give a run folder, or a file in one of the formats of `bellows help profile-formats`";
        ProfileError::Other(Problem::new(cause, reason, help))
    };
    let file = open_file(path).map_err(io)?;
    let there = file.metadata().map_err(io)?;
    // Nobody knows how much a pipe will bring.
    let length = if there.is_file() { there.len() } else { u64::MAX };
    let (mut input, packed) = unpacked(&file).map_err(io)?;
    let bytes = input.fill_buf().map_err(io)?;
    if bytes.is_empty() {
        return Err(format("the file is empty".into()));
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let beginning = Beginning { bytes, name: &name, packed };
    let looks = looks_like(bytes);
    let readers = formats.iter().filter_map(|format| format.read.as_ref());
    let known = readers.into_iter().find(|reader| (reader.recognises)(&beginning));
    let Some(reader) = known else {
        return Err(format(format!("it looks like {looks}")));
    };
    let read = (reader.read)(&mut Input {
        bytes: input.as_mut(),
        packed: packed.then_some(length),
        file: (there.is_file() && !packed).then_some(&file),
        event,
        first_field,
    });
    let read = read.map_err(io)?.and_then(|mut profile| {
        let sum = profile.samples.iter().map(|it| it.weight).try_fold(0_u64, u64::checked_add);
        match sum.is_some_and(|sum| sum <= LARGEST_SUM) {
            true => {
                profile.note_missing_stacks();
                Ok(profile)
            }
            false => Err("its samples add up to more than can be counted".to_owned()),
        }
    });
    read.map_err(|why| format(format!("it looks like {looks}; {why}")))
}

/// The events that a run folder's files name: the usual one first, others by name. `profile.pb.gz` has it inside.
pub fn sampled_events(folder: &Path) -> Vec<String> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut events: Vec<String> = files
        .filter_map(|entry| {
            let name = entry.file_name();
            let name = name.to_str().filter(|name| *name != file::PPROF)?;
            let of_event = [file::STACKS, file::FOLDED, file::FURTHER_PPROF];
            let mut events = of_event.iter().map(|end| name.strip_suffix(end)?.strip_suffix('.'));
            events.find_map(|event| event.filter(|it| !it.is_empty())).map(str::to_owned)
        })
        .collect();
    in_order(&mut events);
    events
}

/// Puts the usual event first and the others in the order of names, each once.
fn in_order(events: &mut Vec<String>) {
    events.sort_by_key(|event| (event != USUAL_EVENT, event.clone()));
    events.dedup();
}

/// Reads the profile of a run folder: of the event that is named, else of the usual one, else of the first by name.
fn open_folder(formats: &[Format], folder: &Path, event: Option<&str>) -> Result<Profile, ProfileError> {
    let mut events = sampled_events(folder);
    let first = events.first().map_or(USUAL_EVENT, String::as_str);
    let is_known = event.is_none_or(|event| events.iter().any(|it| it == event));
    let wanted = event.unwrap_or(first);
    let is_usual_missing = event.is_none() && first != USUAL_EVENT;
    if is_usual_missing && let Some(profile) = open_pprof(formats, folder, USUAL_EVENT)? {
        return Ok(profile);
    }
    if is_known && let Some(profile) = open_event(formats, folder, wanted)? {
        return Ok(profile);
    }
    // Nothing but this file may be left of an event.
    let pprof = folder.join(file::PPROF);
    if !pprof.exists() {
        return Err(match event {
            Some(event) if !events.is_empty() => ProfileError::no_such_event(folder, event, &events),
            _ => ProfileError::NotARun(Problem::new(
                format!("{} holds no profile", folder.display()),
                "none of *.stacks, *.pb.gz, *.folded is there",
                "give a run folder or a profile; profiles are made by `bellows run`, `bellows client --profile` and \
                 `bellows record`",
            )),
        });
    }
    let profile = read_file(formats, &pprof, None)?;
    match event {
        Some(event) if !is_of(&profile, event) => {
            events.push(profile.header.name());
            in_order(&mut events);
            Err(ProfileError::no_such_event(folder, event, &events))
        }
        _ => Ok(profile),
    }
}

/// Reads what a run folder has most of about an event; `None` where it has nothing of it. `profile.pb.gz` is of the
/// event that stood first on the command line, so that only its content says which.
fn open_event(formats: &[Format], folder: &Path, event: &str) -> Result<Option<Profile>, ProfileError> {
    let file = |extension| Some(folder.join(file::of_event(event, extension))).filter(|it| it.exists());
    if let Some(file) = file(file::STACKS) {
        return read_file(formats, &file, None).map(Some);
    }
    if let Some(file) = file(file::FURTHER_PPROF) {
        let mut profile = read_file(formats, &file, None)?;
        // pprof has no place for the node.
        if profile.header.node.is_none() {
            profile.header.take_name(event);
        }
        return Ok(Some(profile));
    }
    if let Some(profile) = open_pprof(formats, folder, event)? {
        return Ok(Some(profile));
    }
    let Some(file) = file(file::FOLDED) else { return Ok(None) };
    let own = ReadOptions { first_field: FirstField::Thread, ..ReadOptions::default() };
    let mut profile = read_file(formats, &file, own)?;
    // Folded text does not say what it is of; the name of the file does.
    profile.header.take_name(event);
    if profile.header.unit == ProfileHeader::WEIGHT {
        profile.header.unit = match profile.header.event.as_str() {
            USUAL_EVENT => "samples".into(),
            event => event.to_owned(),
        };
    }
    Ok(Some(profile))
}

/// Reads `profile.pb.gz` of a run folder, where it is of an event.
fn open_pprof(formats: &[Format], folder: &Path, event: &str) -> Result<Option<Profile>, ProfileError> {
    let pprof = folder.join(file::PPROF);
    if !pprof.exists() {
        return Ok(None);
    }
    let profile = read_file(formats, &pprof, None)?;
    Ok(is_of(&profile, event).then_some(profile))
}

fn is_of(profile: &Profile, event: &str) -> bool {
    let header = &profile.header;
    let names = [&header.event, &header.kernel_event];
    header.event.is_empty() || header.name() == event || names.iter().any(|it| *it == event)
}
