//! The runs in a folder.

use std::cmp::Ordering;
use std::fs;
use std::path::{Path, PathBuf};

use measure::{LatencySummary, Metric, ScenarioRole};

use crate::error::where_present;
use crate::files::is_active;
use crate::reader::read_record;
use crate::remove::{began, folder_bytes};
use crate::{
    Error, FleetPart, Labels, LimitTrials, PairedMatrix, PairedRuns, RequirementOutcome, RunRecord, RunState,
    RunSummary, file, plain_name,
};

/// Run folders that are read to find one.
const MOST_SEARCHED: usize = 1_000;

/// One folder among the runs.
#[derive(Clone, Debug)]
pub struct RunEntry {
    /// The folder.
    pub dir: PathBuf,
    /// Its name.
    pub id: String,
    /// The run's record, or why it cannot be read, in a sentence.
    pub record: Result<RunRecord, String>,
    /// The run's labels, or why they cannot be read, in a sentence.
    pub labels: Result<Labels, String>,
    /// Bytes of its files.
    pub bytes: u64,
    /// Whether a process is still writing to it.
    pub active: bool,
}

impl RunEntry {
    /// The entry of a folder. What cannot be read is said in it.
    pub fn read(dir: PathBuf) -> Self {
        let id = dir.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
        Self {
            id,
            record: read_record(&dir).unwrap_or_else(|e| Err(e.to_string())),
            labels: Labels::read(&dir).map_err(|e| e.to_string()),
            bytes: folder_bytes(&dir),
            active: is_active(&dir),
            dir,
        }
    }

    /// Whether it holds the stacks of a profile.
    pub fn has_profile(&self) -> bool {
        let mut files = fs::read_dir(&self.dir).into_iter().flatten().flatten();
        files.any(|entry| entry.path().extension().is_some_and(|extension| extension == file::STACKS))
    }

    /// Its place in a run of a fleet; `None` where one process carried it.
    pub fn fleet(&self) -> Option<&FleetPart> {
        self.record.as_ref().ok()?.fleet.as_ref()
    }

    /// Whether it is a worker's part of a run, and no whole one.
    pub fn is_part(&self) -> bool {
        self.fleet().is_some_and(FleetPart::is_part)
    }

    /// The run's state for people; `None` where it is not known.
    pub fn state(&self) -> Option<&'static str> {
        let record = self.record.as_ref().ok()?;
        match record.state {
            RunState::Running if self.active => Some("running"),
            RunState::Complete if record.summary.as_ref().is_some_and(is_empty_recording) => Some("no samples"),
            state => Some(state.name()),
        }
    }

    /// Outcome of the requirements, if any: `missed` where one was, `unknown` where one cannot be told, else `met`.
    pub fn requirements(&self) -> Option<&'static str> {
        let all = &self.record.as_ref().ok()?.summary.as_ref()?.requirements;
        let outcomes = [(Some(false), "missed"), (None, "unknown"), (Some(true), "met")];
        outcomes.into_iter().find(|(met, _)| all.iter().any(|it| it.met == *met)).map(|(_, word)| word)
    }

    /// Seconds from the origin to the end of the last phase; `None` where none has ended.
    pub fn seconds(&self) -> Option<f64> {
        let phases = &self.record.as_ref().ok()?.phases;
        phases.iter().map(|phase| phase.end).reduce(f64::max)
    }

    /// The rate that stands for the run, and its unit where that is not messages: the larger one of
    /// sent and received, or that of the operations of its main load. A recording has none.
    pub fn rate(&self) -> Option<(f64, Option<&str>)> {
        let (_, of) = self.record.as_ref().ok()?.summary.as_ref()?.main_load()?;
        Some(match &of.flow {
            Some(flow) => (flow.sent.rate.max(flow.received.rate), None),
            None => (of.rate, Some(of.unit.as_str())),
        })
    }

    /// The run's main latency: one that a requirement is about, those that missed it first, else that of operations
    /// other than messages, of several the slowest; of messages alone end-to-end, or that of acknowledgements.
    pub fn latency(&self) -> Option<(Metric, &LatencySummary)> {
        let summary = self.record.as_ref().ok()?.summary.as_ref()?;
        let mut required: Vec<&RequirementOutcome> = summary.requirements.iter().collect();
        required.sort_by_key(|it| it.met != Some(false));
        let judged = required.into_iter().filter_map(RequirementOutcome::latency).find_map(|name| {
            let mut all = summary.scenarios().flat_map(|(_, of)| of.latency.filled());
            all.find(|(metric, _)| plain_name(metric.name()) == name)
        });
        if judged.is_some() {
            return judged;
        }
        let others = summary.others().filter(|(_, of)| of.role != ScenarioRole::Watcher);
        let slowest = others.filter_map(|(_, of)| of.headline()).max_by_key(|(_, latency)| latency.p99_ns);
        let of_messages = [Metric::END_TO_END, Metric::ACK_RESPONSE];
        let mut of_messages = of_messages.map(|it| (it, summary.messages().latency.get(it))).into_iter();
        slowest.or_else(|| of_messages.find(|(_, latency)| latency.count > 0))
    }
}

/// Whether nothing loaded the process, and its profile has no samples.
fn is_empty_recording(of: &RunSummary) -> bool {
    let has_load = of.scenarios().next().is_some() || !of.programs.is_empty() || !of.scrapes.is_empty();
    !has_load && of.profiles.iter().all(|it| it.samples == 0)
}

/// Kind of a folder of several runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FolderKind {
    /// [Runs in pairs](crate::PairedRuns), or a [matrix](crate::PairedMatrix) of them.
    Pairs,
    /// [Trials of rates](crate::LimitTrials).
    Limit,
}

impl FolderKind {
    /// Kind of this folder; `None` where it is none of several runs.
    pub fn of(dir: &Path) -> Option<Self> {
        match dir {
            _ if PairedMatrix::is_in(dir) || PairedRuns::is_in(dir) => Some(Self::Pairs),
            _ if LimitTrials::is_in(dir) => Some(Self::Limit),
            _ => None,
        }
    }
}

/// The runs in a folder, newest first; folders that cannot be read are among them, and so are the runs of folders that
/// hold [several](FolderKind). A missing folder holds no runs. Only `run.json` and `labels.json` of each are read.
pub fn list_runs(runs_dir: &Path) -> Result<Vec<RunEntry>, Error> {
    let mut entries = Vec::new();
    for dir in folders(runs_dir)? {
        let cells = if PairedMatrix::is_in(&dir) { folders(&dir)? } else { vec![dir] };
        for dir in cells {
            match FolderKind::of(&dir) {
                Some(_) => entries.extend(folders(&dir)?.into_iter().map(RunEntry::read)),
                None => entries.push(RunEntry::read(dir)),
            }
        }
    }
    entries.sort_by(newest_first);
    Ok(entries)
}

/// The folder of a worker's part of a run, among the newest ones in a folder of runs.
pub fn find_part(runs_dir: &Path, run: &str, worker: &str) -> Result<Option<PathBuf>, Error> {
    // Both begin with the experiment's name.
    let name = run.rsplit_once('-').map_or(run, |(name, _)| name);
    let mut all = folders(runs_dir)?;
    all.retain(|dir| dir.file_name().is_some_and(|it| it.to_string_lossy().contains(name)));
    all.sort();
    let is_it = |dir: &PathBuf| {
        let record = read_record(dir).ok().and_then(Result::ok);
        record.and_then(|it| it.fleet).is_some_and(|it| it.run == run && it.name == worker)
    };
    Ok(all.into_iter().rev().take(MOST_SEARCHED).find(is_it))
}

/// The folders of several runs in a folder of runs, with their kinds.
pub fn folders_of_runs(runs_dir: &Path) -> Result<Vec<(PathBuf, FolderKind)>, Error> {
    Ok(folders(runs_dir)?.into_iter().filter_map(|dir| FolderKind::of(&dir).map(|kind| (dir, kind))).collect())
}

/// The folders in one, but for those that are hidden; none where it is missing.
fn folders(of: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut folders = Vec::new();
    for entry in where_present(fs::read_dir(of), of)?.into_iter().flatten() {
        let Some(entry) = where_present(entry, of)? else { continue };
        let dir = entry.path();
        let hidden = dir.file_name().is_none_or(|name| name.to_string_lossy().starts_with('.'));
        if dir.is_dir() && !hidden {
            folders.push(dir);
        }
    }
    Ok(folders)
}

/// Compares by the second in the folder's name, then by the start in the record.
pub(crate) fn newest_first(a: &RunEntry, b: &RunEntry) -> Ordering {
    let key = |entry: &RunEntry| {
        let second = began(&entry.id).map(str::to_owned);
        let began = entry.record.as_ref().map_or(0, |record| record.origin_unix_ns);
        (second.unwrap_or_default(), began, entry.id.clone())
    };
    key(b).cmp(&key(a))
}
