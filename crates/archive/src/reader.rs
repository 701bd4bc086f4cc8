//! Reading a run folder, whole or cut off.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufReader, Read as _};
use std::path::{Path, PathBuf};

use measure::{Metric, Phase, Recorder};

use crate::error::where_present;
use crate::{
    Error, HistogramLog, LatencySlices, MESSAGES, RunRecord, RunState, RunSummary, SeriesPoint, SliceLog, file,
};
use stacks::{FORMATS, Profile, ProfileError, bounded, bounded::Line};

/// Bytes that a `run.json` may have: one with ten thousand queues has two million.
const LARGEST_RECORD: u64 = 16 << 20;
/// Bytes of a `series.jsonl` that are read: those of a week.
const LARGEST_SERIES: u64 = 1 << 30;
/// Bytes that one of its lines may have; some two thousand are usual.
const LONGEST_POINT: u64 = 1 << 20;

/// A run that was read.
#[derive(Clone, Debug)]
pub struct RunReader {
    /// Its folder.
    pub dir: PathBuf,
    /// The record; made up from the folder's name if `run.json` is missing or cut off ([`RunReader::notes`]).
    pub record: RunRecord,
    /// The seconds, in the order of time.
    pub points: Vec<SeriesPoint>,
    /// Missing or cut-off parts, one sentence each.
    pub notes: Vec<String>,
}

impl RunReader {
    /// Reads a run folder. An error where it is no run, or was written by another version.
    pub fn open(dir: &Path) -> Result<Self, Error> {
        // Tells a folder that is not there from one that is no run.
        fs::read_dir(dir).map_err(|source| io_error("read", dir, source))?;
        let marks = [file::RECORD, file::SERIES, file::HISTOGRAMS];
        if !marks.iter().any(|name| dir.join(name).exists()) {
            return Err(Error::NotARun { path: dir.to_path_buf() });
        }
        let mut notes = Vec::new();
        let record = match read_record(dir)? {
            Ok(record) => record,
            Err(cause) => {
                notes.push(format!("{cause}; its experiment is unknown"));
                unknown_record(dir)
            }
        };
        let mut points = read_points(&dir.join(file::SERIES), &mut notes)?;
        let refused = refused(&record);
        for point in points.iter_mut().filter(|_| !refused.is_empty()) {
            let shown = point.latency.iter().filter(|(metric, _)| !refused.contains(metric));
            point.latency = shown.map(|(metric, of)| (metric, of.clone())).collect();
        }
        if record.state == RunState::Running {
            notes.push(format!(
                "the run goes on or was cut off: no end is recorded after {:.0} s",
                points.last().map_or(0.0, |point| point.t + point.dt)
            ));
        }
        Ok(Self { dir: dir.to_path_buf(), record, points, notes })
    }

    /// The whole histograms of every second, read one by one, without those of latencies that are left out.
    pub fn histograms(&self) -> Result<HistogramLog, Error> {
        HistogramLog::open(&self.dir, refused(&self.record))
    }

    /// The tenths of a second, read one by one, where there are some, without latencies that are left out.
    pub fn slices(&self) -> Result<SliceLog, Error> {
        SliceLog::open(&self.dir, refused(&self.record))
    }

    /// Whether bellows itself was to send or receive messages. A run that is cut off may know only whether it did.
    pub fn has_messages(&self) -> bool {
        if let Some(summary) = &self.record.summary {
            return summary.messages().flow.is_some();
        }
        let has_some = |p: &SeriesPoint| p.counters.sent + p.counters.received > 0;
        self.record.scenarios.contains_key(MESSAGES) || self.points.iter().any(has_some)
    }

    /// Whether somebody was to receive messages of bellows, as far as its end tells.
    pub fn has_consumers(&self) -> bool {
        let flow = self.record.summary.as_ref().and_then(|it| it.messages().flow);
        flow.is_none_or(|it| !it.without_consumers)
    }

    /// The histograms of all that was due in a phase, added up.
    pub fn merged(&self, phase: Phase) -> Result<Recorder, Error> {
        let mut sum = Recorder::new();
        for record in self.histograms()? {
            sum.add_due(phase, [record.as_due()]).map_err(|e| Error::Damaged {
                path: self.dir.join(file::HISTOGRAMS),
                cause: format!("at {:.0} s: {e}", record.t),
            })?;
        }
        Ok(sum)
    }

    /// Latencies of the measured phase in slices of a second or more.
    pub fn latency_slices(&self) -> Result<BTreeMap<Metric, LatencySlices>, Error> {
        let mut all: BTreeMap<Metric, LatencySlices> = BTreeMap::new();
        for record in self.histograms()? {
            if record.due == Phase::Measure {
                all.entry(record.metric).or_default().add(record.t, record.dt, &record.histogram);
            }
        }
        Ok(all)
    }

    /// The run's profile, by line where lines are known, as far as it was written; `None` where there is none.
    pub fn profile(&self) -> Result<Option<Profile>, ProfileError> {
        match Profile::open_with_lines(&FORMATS, &self.dir, None) {
            Ok(mut profile) => {
                // One that was cut off may count from before the load began.
                profile.count_from(self.record.origin, self.record.origin_unix_ns);
                Ok(Some(profile))
            }
            Err(ProfileError::NotARun(_)) => Ok(None),
            Err(e) => Err(e),
        }
    }
}

/// Latencies between machines that are left out: their files keep them as evidence, and nobody takes them for figures.
fn refused(record: &RunRecord) -> Vec<Metric> {
    let is_refused = |metric: &Metric| {
        let bound = record.summary.as_ref().and_then(|it| it.clock_bound(*metric));
        bound.is_some_and(|it| it.is_refused)
    };
    Metric::MESSAGES.into_iter().filter(is_refused).collect()
}

fn io_error(action: &'static str, path: &Path, source: io::Error) -> Error {
    Error::Io { action, path: path.to_path_buf(), source }
}

/// Reads `run.json`. The inner error is a sentence on why nothing is known, where the file is missing or cut off.
pub(crate) fn read_record(dir: &Path) -> Result<Result<RunRecord, String>, Error> {
    let path = dir.join(file::RECORD);
    let Some(text) = where_present(bounded::read(&path, LARGEST_RECORD), &path)? else {
        return Ok(Err(format!("{} is missing", file::RECORD)));
    };
    let value: serde_json::Value = match serde_json::from_slice(&text) {
        Ok(value) => value,
        Err(e) => return Ok(Err(format!("{} is cut off or damaged ({e})", file::RECORD))),
    };
    expect_schema(&path, &value, RunRecord::SCHEMA)?;
    if let Some(summary) = value.get("summary").filter(|summary| !summary.is_null()) {
        expect_schema(&path, summary, RunSummary::SCHEMA)?;
    }
    serde_json::from_value(value).map(Ok).map_err(|e| Error::Damaged { path, cause: e.to_string() })
}

fn expect_schema(path: &Path, value: &serde_json::Value, expected: &'static str) -> Result<(), Error> {
    let found = value.get("schema").and_then(serde_json::Value::as_str).unwrap_or("none");
    if found == expected {
        return Ok(());
    }
    Err(Error::UnknownSchema { path: path.to_path_buf(), found: found.to_owned(), expected })
}

/// Reads the series; lines that make no sense are passed over and noted.
fn read_points(path: &Path, notes: &mut Vec<String>) -> Result<Vec<SeriesPoint>, Error> {
    let Some(series) = where_present(bounded::open(path), path)? else {
        notes.push(format!("{} is missing: no second was completed", file::SERIES));
        return Ok(Vec::new());
    };
    let mut input = BufReader::new(series.take(LARGEST_SERIES));
    let mut points: Vec<SeriesPoint> = Vec::new();
    let (mut line, mut number, mut damaged) = (Vec::new(), 0u64, 0u64);
    let mut first = None;
    loop {
        number += 1;
        match bounded::next_line(&mut input, LONGEST_POINT, &mut line) {
            Ok(Line::Whole | Line::CutOff) => {}
            Ok(Line::None) => break,
            Ok(Line::TooLong) => {
                notes.push(format!("line {number} of {} has no end: it and what follows are left out", file::SERIES));
                break;
            }
            Err(source) => return Err(io_error("read", path, source)),
        }
        if line.is_empty() {
            continue;
        }
        match serde_json::from_slice(&line) {
            Ok(point) => points.push(point),
            Err(e) => {
                damaged += 1;
                first.get_or_insert((number, e));
            }
        }
    }
    if let Some((number, e)) = first {
        notes.push(format!(
            "{} of {} cut off or damaged and passed over, the first at line {number}: {e}",
            if damaged == 1 { "1 line is".to_owned() } else { format!("{damaged} lines are") },
            file::SERIES
        ));
    }
    // A clock that is not steady is warned of elsewhere; here order only makes charts drawable.
    points.sort_by(|a, b| a.t.total_cmp(&b.t));
    Ok(points)
}

fn unknown_record(dir: &Path) -> RunRecord {
    let id = dir.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    RunRecord { schema: RunRecord::SCHEMA.to_owned(), name: id.clone(), id, ..RunRecord::default() }
}
