//! Writing a run folder during the run.

use std::fmt::Display;
use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};

use measure::{Interval, Time};
use serde::Serialize;

use crate::files::{LineFile, RunLock};
use crate::histogram_log::HistogramLogWriter;
use crate::{
    Error, Finding, Labels, RunRecord, SeriesName, SeriesNames, SeriesPoint, SlicePoint, Tier, TracedCall, Warning,
    file,
};
use stacks::replace_file;

/// Writes one run folder. Nothing here fails once the folder exists: the first error (a full
/// disk, a folder that somebody removed) becomes a warning, and the run goes on. Later writes are
/// tried all the same: a disk may have room again.
#[derive(Debug)]
pub struct RunWriter {
    dir: PathBuf,
    id: String,
    series: LineFile,
    slices: LineFile,
    metrics: LineFile,
    traces: LineFile,
    series_names: SeriesNames,
    histograms: HistogramLogWriter,
    origin: (Time, u64),
    warnings: Vec<Warning>,
    lock: RunLock,
}

impl RunWriter {
    /// Makes the folder `2026-11-21T00-12-33Z-NAME-7k2q` below `runs_dir`, which is made too
    /// where it is missing. `unix_ns` is the wall-clock start in nanoseconds since 1970.
    pub fn create(runs_dir: &Path, name: &str, unix_ns: u64) -> Result<Self, Error> {
        let dir = new_folder(runs_dir, name, unix_ns)?;
        Ok(Self {
            series: LineFile::new(dir.join(file::SERIES)),
            slices: LineFile::new(dir.join(file::SLICES)),
            metrics: LineFile::new(dir.join(file::METRICS)),
            traces: LineFile::new(dir.join(file::TRACES)),
            series_names: SeriesNames::default(),
            histograms: HistogramLogWriter::default(),
            origin: (Time::default(), 0),
            warnings: Vec::new(),
            lock: RunLock::take(&dir),
            id: dir.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned()),
            dir,
        })
    }

    /// The folder, as an absolute path.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The lock that marks the run as not ended. Whoever goes on writing to the folder keeps it.
    pub fn lock(&self) -> RunLock {
        self.lock.clone()
    }

    /// The folder's name.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Sets the instant of the histogram log's `t = 0`, by both clocks, before [`RunWriter::append_histograms`].
    pub const fn set_origin(&mut self, origin: Time, origin_unix_ns: u64) {
        self.origin = (origin, origin_unix_ns);
    }

    /// Replaces `run.json` as a whole: a reader sees the old or the new one.
    pub fn write_record(&mut self, record: &RunRecord) {
        match serde_json::to_vec_pretty(record) {
            Ok(mut json) => {
                json.push(b'\n');
                self.write_file(file::RECORD, &json);
            }
            Err(e) => self.complain(file::RECORD, &e.to_string()),
        }
    }

    /// Writes labels that were given beforehand, if any.
    pub fn write_labels(&mut self, labels: &Labels) {
        if !labels.is_empty() {
            self.keep_failure(file::LABELS, labels.write(&self.dir));
        }
    }

    /// Appends one line to `series.jsonl`, in one write that needs no flush to survive a crash of this process.
    pub fn append_point(&mut self, point: &SeriesPoint) {
        let written = append(&mut self.series, point);
        self.keep_failure(file::SERIES, written);
    }

    /// Appends one line to `slices.jsonl`.
    pub fn append_slice(&mut self, slice: &SlicePoint) {
        let written = append(&mut self.slices, slice);
        self.keep_failure(file::SLICES, written);
    }

    /// Appends values at `t` seconds after the origin, of rates over the next `dt` seconds, to `metrics.jsonl`.
    pub fn append_values(&mut self, t: f64, dt: f64, values: impl IntoIterator<Item = (SeriesName, f64)>) {
        for line in self.series_names.lines(t, dt, values) {
            let written = self.metrics.append(&line);
            self.keep_failure(file::METRICS, written);
        }
    }

    /// Appends a call that a trace saw to `traces.jsonl`.
    pub fn append_call(&mut self, call: &TracedCall) {
        let written = append(&mut self.traces, call);
        self.keep_failure(file::TRACES, written);
    }

    /// Appends the interval's histograms to `latency.hlog`, one line for each metric that has values.
    pub fn append_histograms(&mut self, interval: &Interval) {
        let written = self.histograms.append(&self.dir.join(file::HISTOGRAMS), self.origin, interval);
        self.keep_failure(file::HISTOGRAMS, written);
    }

    /// Writes a file of the folder as a whole, or leaves the one that is there.
    pub fn write_file(&mut self, name: &str, content: &[u8]) {
        self.keep_failure(name, replace_file(&self.dir.join(name), content));
    }

    fn keep_failure<E: Display>(&mut self, name: &str, written: Result<(), E>) {
        if let Err(e) = written {
            self.complain(name, &e.to_string());
        }
    }

    /// Notes that another writer's file could not be written; only the first complaint counts, others follow from it.
    pub fn complain(&mut self, name: &str, cause: &str) {
        if self.warnings.is_empty() {
            let (file, folder) = (name.to_owned(), self.dir.display().to_string());
            let incomplete = Finding::ArchiveIncomplete { file, folder, why: cause.to_owned() };
            self.warnings.push(Warning::new(Tier::Caution, incomplete));
        }
    }

    /// Removes the folder of a run that never began; if it cannot, a record that says `running` stays.
    pub fn discard(self) {
        let _ = fs::remove_dir_all(&self.dir);
    }

    /// Warnings of failed writes so far: none or one.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }
}

fn append(lines: &mut LineFile, value: &impl Serialize) -> io::Result<()> {
    lines.append(&serde_json::to_vec(value)?)
}

/// Makes a folder `2026-11-21T00-12-33Z-NAME-7k2q` that was not there, and tells its absolute path.
pub(crate) fn new_folder(runs_dir: &Path, name: &str, unix_ns: u64) -> Result<PathBuf, Error> {
    let at = |path: &Path| {
        let path = path.to_path_buf();
        move |source| Error::NoRunsFolder { path, source }
    };
    fs::create_dir_all(runs_dir).map_err(at(runs_dir))?;
    // Relative paths would break when the caller changes its directory later.
    let runs_dir = fs::canonicalize(runs_dir).map_err(at(runs_dir))?;
    let stem = format!("{}-{}", folder_time(unix_ns), sanitised(name));
    let mut tries = 0;
    loop {
        let dir = runs_dir.join(format!("{stem}-{}", random_suffix()));
        match fs::create_dir(&dir) {
            Ok(()) => return Ok(dir),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && tries < 100 => tries += 1,
            Err(e) => return Err(at(&dir)(e)),
        }
    }
}

fn folder_time(unix_ns: u64) -> String {
    jiff::Timestamp::from_nanosecond(i128::from(unix_ns)).unwrap_or_default().strftime("%Y-%m-%dT%H-%M-%SZ").to_string()
}

/// A name for folders and runs: ASCII letters, digits, `.` and `_` are kept, all else becomes a single `-`.
pub fn sanitised(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        if c.is_ascii_alphanumeric() || matches!(c, '.' | '_') {
            out.push(c);
        } else if !out.ends_with('-') {
            out.push('-');
        }
        if out.len() >= 60 {
            break;
        }
    }
    let out = out.trim_matches(['-', '.']);
    if out.is_empty() { "run".to_owned() } else { out.to_owned() }
}

/// Four letters or digits that distinguish runs of the same second; none that people confuse.
fn random_suffix() -> String {
    const LETTERS: &[u8; 32] = b"23456789abcdefghijkmnpqrstuvwxyz";
    let random = RandomState::new().build_hasher().finish();
    (0..4).map(|i| char::from(LETTERS[(random >> (5 * i) & 31) as usize])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_file_names() {
        for (name, file) in [
            ("stream-publish", "stream-publish"),
            ("../../etc/passwd", "etc-passwd"),
            ("a  b\n<script>", "a-b-script"),
            ("", "run"),
            ("…", "run"),
            (".hidden.", "hidden"),
        ] {
            assert_eq!(sanitised(name), file);
        }
        assert!(sanitised(&"long".repeat(100)).len() <= 60);
        assert!(folder_time(u64::MAX).len() >= 20);
    }
}
