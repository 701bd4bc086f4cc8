//! Looks into a broker that another bellows has started and is loading: each leaves a record in a folder beside the
//! broker's state, which the run reads, because a look costs the broker CPU.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use archive::{Finding, LookSpan, Tier, Warning};
use linux::ProcessId;
use measure::{Clock, Time};
use serde::{Deserialize, Serialize};

use brokers::guardian::{guarded_directory, marker_of, private_file, private_folder};
use brokers::rabbitmq::node_directory;

/// The folder in a broker's directory where those who look leave word.
const FOLDER: &str = "looks";
/// Most records that are read of a folder, and kept of a run.
const MOST: usize = 1_000;
const LARGEST: u64 = 4_096;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct LookWord {
    command: String,
    process: ProcessId,
    begun: Time,
    ended: Option<Time>,
}

/// A look into a broker, until this is dropped. Not recorded where no bellows of this user runs that broker here.
#[derive(Debug)]
#[must_use]
pub struct Inspection {
    /// The record's file and content.
    left: Option<(PathBuf, LookWord)>,
}

impl Inspection {
    /// A look into an Erlang node, by its name.
    pub fn at_node(node: &str, command: &str) -> Self {
        Self::begin(node_directory(node), command)
    }

    /// A look at a process, which may be a broker's.
    pub fn at_process(pid: u32, command: &str) -> Self {
        let directory = marker_of(pid).and_then(|name| guarded_directory(&name));
        Self::begin(directory, command)
    }

    fn begin(directory: Option<PathBuf>, command: &str) -> Self {
        let own = ProcessId::of(std::process::id());
        let left = directory.zip(own).map(|(directory, process)| {
            let word = LookWord { command: command.to_owned(), process, begun: Clock.now(), ended: None };
            (directory.join(FOLDER), word)
        });
        if let Some((folder, word)) = &left {
            // A look that no run is told of is a look all the same.
            let _ = write(folder, word);
        }
        Self { left }
    }
}

impl Drop for Inspection {
    fn drop(&mut self) {
        if let Some((folder, word)) = &mut self.left {
            word.ended = Some(Clock.now());
            // The broker may be gone, and with it whoever wanted to know.
            if folder.is_dir() {
                let _ = write(folder, word);
            }
        }
    }
}

/// Writes a word as a whole: a reader sees the old or the new one.
fn write(folder: &Path, word: &LookWord) -> io::Result<()> {
    private_folder(folder)?;
    let name = format!("{}-{}-{}", word.process.pid, word.process.start(), word.begun.0);
    let draft = folder.join(format!("{name}.tmp"));
    let text = serde_json::to_vec(word)?;
    private_file(&draft, &text).map_err(io::Error::other)?;
    fs::rename(&draft, folder.join(format!("{name}.json")))
}

#[derive(Debug, Default)]
pub(crate) struct Inspections {
    directories: Vec<PathBuf>,
    known: BTreeMap<PathBuf, KnownLook>,
}

#[derive(Debug)]
struct KnownLook {
    node: usize,
    word: LookWord,
    /// When it was noticed that the process had gone without a word.
    gone: Option<Time>,
}

impl KnownLook {
    const fn is_open(&self) -> bool {
        self.word.ended.is_none() && self.gone.is_none()
    }
}

impl Inspections {
    /// Into nodes with these directories, from now on: of an earlier load, looks that were killed have left no end.
    pub(crate) fn of(directories: Vec<PathBuf>) -> Self {
        let mut looks = Self { directories, known: BTreeMap::new() };
        looks.read();
        looks.known.extract_if(.., |_, known| !known.is_open()).for_each(|(path, _)| forget(&path));
        looks
    }

    /// Reads new records, and notices which processes have gone. A record with an end is read once.
    pub(crate) fn read(&mut self) {
        let now = Clock.now();
        for (node, directory) in self.directories.iter().enumerate() {
            let entries = fs::read_dir(directory.join(FOLDER)).into_iter().flatten();
            for entry in entries.flatten().take(2 * MOST) {
                let path = entry.path();
                let is_word = path.extension().is_some_and(|it| it == "json");
                let is_open = (self.known.get(&path)).is_none_or(|it| it.word.ended.is_none());
                let has_room = self.known.len() < MOST || self.known.contains_key(&path);
                if !(is_word && is_open && has_room) {
                    continue;
                }
                if let Some(word) = read_word(&path) {
                    if word.ended.is_some() {
                        forget(&path);
                    }
                    let known = self.known.entry(path).or_insert(KnownLook { node, word: word.clone(), gone: None });
                    known.word = word;
                }
            }
        }
        for known in self.known.values_mut() {
            if known.is_open() && !known.word.process.is_alive() {
                known.gone = Some(now);
            }
        }
    }

    pub(crate) fn spans(&self, origin: Time, end: Time) -> Vec<LookSpan> {
        let seconds = |at: Time| (i128::from(at.0) - i128::from(origin.0)) as f64 / 1e9;
        let several = self.directories.len() > 1;
        let known = self.known.values().filter_map(|known| {
            let ended = known.word.ended.or(known.gone).unwrap_or(end).min(end);
            // The same broker may have been loaded before.
            (ended > origin && known.word.begun < end).then(|| LookSpan {
                command: known.word.command.clone(),
                pid: known.word.process.pid,
                node: several.then_some(known.node as u32),
                start: seconds(known.word.begun),
                end: seconds(ended),
                killed: known.word.ended.is_none() && known.gone.is_some(),
            })
        });
        let mut spans: Vec<LookSpan> = known.collect();
        spans.sort_by(|a, b| a.start.total_cmp(&b.start));
        spans
    }
}

/// Warns of inspections during the load, which lasted until its end in seconds since the origin.
pub(crate) fn warning(spans: &[LookSpan], load: (f64, f64)) -> Option<Warning> {
    let (begin, end) = load;
    let during: Vec<&LookSpan> = (spans.iter()).filter(|span| span.end > begin && span.start < end).collect();
    if during.is_empty() {
        return None;
    }
    let mut commands: Vec<&str> = during.iter().map(|span| span.command.as_str()).collect();
    commands.sort_unstable();
    commands.dedup();
    // Where several overlap, the time counts once.
    let (mut seconds, mut until) = (0.0, begin);
    for span in &during {
        let to = span.end.min(end);
        seconds += (to - span.start.max(until)).max(0.0);
        until = until.max(to);
    }
    let looked = Finding::LookedInto { looks: during.len() as u64, commands: commands.join(", "), seconds };
    Some(Warning::new(Tier::Note, looked))
}

/// Removes a record that is no longer needed: the folder is read each second.
fn forget(path: &Path) {
    // One that stays is read once more, which does no harm.
    let _ = fs::remove_file(path);
}

fn read_word(path: &Path) -> Option<LookWord> {
    fs::symlink_metadata(path).ok().filter(fs::Metadata::is_file)?;
    let mut text = Vec::new();
    File::open(path).ok()?.take(LARGEST).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use measure::Nanos;

    use super::*;

    #[test]
    fn a_look_is_read_while_it_lasts_and_when_it_has_ended() {
        let dir = tempfile::tempdir().unwrap();
        let mut looks = Inspections::of(vec![dir.path().to_owned()]);
        looks.read();
        let origin = Clock.now();
        assert!(looks.spans(origin, origin + Nanos(1)).is_empty());
        let look = Inspection::begin(Some(dir.path().to_owned()), "bellows erlang top");
        looks.read();
        let later = Clock.now() + Nanos::SECOND;
        let span = looks.spans(origin, later).remove(0);
        assert_eq!((span.command.as_str(), span.node), ("bellows erlang top", None));
        assert!(span.start >= 0.0 && span.end > 1.0 && !span.killed, "{span:?}");
        drop(look);
        looks.read();
        let ended = looks.spans(origin, later).remove(0);
        assert!(ended.end < span.end && !ended.killed, "{ended:?}");
        // A later run on the same broker had none.
        assert!(looks.spans(later, later + Nanos::SECOND).is_empty());
        let warning = warning(&[span], (0.0, 0.5)).unwrap();
        let Finding::LookedInto { seconds, .. } = warning.finding else { panic!("{warning:?}") };
        assert!(seconds <= 0.5, "{seconds}");
    }

    #[test]
    fn looks_into_an_earlier_load_of_the_same_broker_are_none_of_this_one() {
        let dir = tempfile::tempdir().unwrap();
        let mut child = Command::new("true").spawn().unwrap();
        let process = ProcessId::of(child.id()).unwrap();
        child.wait().unwrap();
        let folder = dir.path().join(FOLDER);
        // One was killed then, and one had ended.
        for (begun, ended) in [(Time(5), None), (Time(6), Some(Time(7)))] {
            let word = LookWord { command: "bellows erlang top".into(), process, begun, ended };
            write(&folder, &word).unwrap();
        }
        let still = Inspection::begin(Some(dir.path().to_owned()), "bellows erlang calls");
        let origin = Clock.now();
        let mut looks = Inspections::of(vec![dir.path().to_owned()]);
        looks.read();
        let spans = looks.spans(origin, origin + Nanos::SECOND);
        assert_eq!(spans.iter().map(|it| it.command.as_str()).collect::<Vec<&str>>(), ["bellows erlang calls"]);
        // Words that are read to their end do not pile up.
        drop(still);
        looks.read();
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        assert_eq!(looks.spans(origin, origin + Nanos::SECOND).len(), 1);
    }

    #[test]
    fn a_look_whose_process_was_killed_has_ended() {
        let dir = tempfile::tempdir().unwrap();
        let child = testkit::ChildGuard::idle();
        let word = LookWord {
            command: "bellows erlang calls".into(),
            process: ProcessId::of(child.id()).unwrap(),
            begun: Clock.now(),
            ended: None,
        };
        write(&dir.path().join(FOLDER), &word).unwrap();
        fs::write(dir.path().join(FOLDER).join("x.json"), "nonsense").unwrap();
        let mut looks = Inspections::of(vec!["/nowhere".into(), dir.path().to_owned()]);
        looks.read();
        let far = Clock.now() + Nanos::SECOND;
        assert!(!looks.spans(word.begun, far)[0].killed);
        drop(child);
        looks.read();
        let span = looks.spans(word.begun, far).remove(0);
        assert!(span.killed && span.end < 1.0, "{span:?}");
        assert_eq!(span.node, Some(1));
    }
}
