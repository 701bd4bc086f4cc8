//! The periods of a recording that are kept, and which go: the oldest first.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use archive::{Removable, RunEntry, list_runs};
use measure::{Nanos, Problem, wall_clock_unix_ns};

/// Bytes that stay free on the disk: for the period that is being written, and for others.
pub(super) const RESERVE: u64 = 64 << 20;

/// The periods of one recording that have ended.
#[derive(Debug, Default)]
pub(super) struct Keep {
    runs_dir: PathBuf,
    age: Option<Nanos>,
    most_bytes: u64,
    /// By the end, nanoseconds since 1970, and the folder: its bytes.
    periods: BTreeMap<(u64, PathBuf), u64>,
    bytes: u64,
    /// Why some cannot be removed, each told once.
    troubles: Vec<Problem>,
}

impl Keep {
    /// The periods of the recording of this name that are there already.
    pub(super) fn load(
        runs_dir: &Path,
        recording: &str,
        age: Option<Nanos>,
        most_bytes: u64,
    ) -> Result<Self, archive::Error> {
        let mut keep = Self { runs_dir: runs_dir.to_owned(), age, most_bytes, ..Self::default() };
        for entry in list_runs(runs_dir)? {
            if let Some(end) = ended(&entry, recording) {
                keep.add(entry.dir, end, entry.bytes);
            }
        }
        Ok(keep)
    }

    pub(super) fn add(&mut self, dir: PathBuf, end_unix_ns: u64, bytes: u64) {
        self.bytes += bytes;
        self.periods.insert((end_unix_ns, dir), bytes);
    }

    pub(super) fn sum(&self) -> (usize, u64) {
        (self.periods.len(), self.bytes)
    }

    /// Removes periods that are too old or too many bytes. Ages count from the end of the newest period, so that a
    /// machine that writes one slowly does not shorten the history.
    pub(super) fn prune(&mut self) {
        let newest = self.periods.last_key_value().map_or(0, |((end, _), _)| *end);
        let oldest = self.age.map_or(0, |age| newest.saturating_sub(age.0));
        while let Some(((end, _), _)) = self.periods.first_key_value() {
            let too_much = self.bytes > self.most_bytes && self.periods.len() > 1;
            if *end >= oldest && !too_much {
                break;
            }
            self.remove_oldest();
        }
    }

    /// Removes periods until the disk has room for another; whether it has. Where removing all would not make room,
    /// something else has filled the disk: they stay, as a record of the time before.
    pub(super) fn make_room(&mut self, free: impl Fn(&Path) -> Option<u64>) -> bool {
        let is_free = |wanted: u64| free(&self.runs_dir).is_none_or(|free| free >= wanted);
        // Two of the largest: others take room too.
        let wanted = |largest: Option<u64>| RESERVE.max(largest.unwrap_or(0).saturating_mul(2));
        if is_free(wanted(self.periods.values().max().copied())) {
            return true;
        }
        // What somebody holds makes no room, and may have other things in it.
        let removable = self.periods.iter().filter(|((_, dir), _)| Removable::find(dir, false).is_ok());
        let removable: Vec<u64> = removable.map(|(_, bytes)| *bytes).collect();
        let wanted = wanted(removable.iter().max().copied());
        let together: u64 = removable.iter().sum();
        while let Some(free) = free(&self.runs_dir).filter(|free| *free < wanted) {
            if self.periods.is_empty() || free.saturating_add(together) < wanted {
                return false;
            }
            self.remove_oldest();
        }
        true
    }

    /// Files that could not be removed, and why; each only once.
    pub(super) fn take_troubles(&mut self) -> Vec<Problem> {
        std::mem::take(&mut self.troubles)
    }

    /// Removes the oldest period. One that a user has tagged, reads or has put files into stays, and counts no more.
    fn remove_oldest(&mut self) {
        let Some(((_, dir), bytes)) = self.periods.pop_first() else { return };
        self.bytes = self.bytes.saturating_sub(bytes);
        if let Err(error) = Removable::find(&dir, false).and_then(Removable::remove)
            && dir.exists()
        {
            self.troubles.push(error.problem());
        }
    }
}

/// End of a recording's period, nanoseconds since 1970; `None` for other runs, and while it is being written.
fn ended(entry: &RunEntry, recording: &str) -> Option<u64> {
    let record = entry.record.as_ref().ok()?;
    let period = record.period.as_ref()?;
    if period.recording != recording || entry.active {
        return None;
    }
    let length = entry.seconds().unwrap_or(period.every_s);
    let end = record.origin_unix_ns.saturating_add(Nanos::from_secs_f64(length).0);
    // One that was killed has no length of its own, and did not reach the end that it was to have.
    Some(end.min(wall_clock_unix_ns()))
}

/// Names that some processes have, in one word.
pub(super) fn joined(names: &[String]) -> String {
    let names: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    names.into_iter().collect::<Vec<_>>().join("+")
}

#[cfg(test)]
mod tests {
    use archive::{Labels, Period, RunRecord, RunWriter};

    use super::*;

    fn period(runs: &Path, recording: &str, ago: u64) -> (PathBuf, RunWriter) {
        let began = wall_clock_unix_ns() - ago * 1_000_000_000;
        let mut writer = RunWriter::create(runs, "x", began).unwrap();
        writer.write_record(&RunRecord {
            schema: RunRecord::SCHEMA.into(),
            origin_unix_ns: began,
            period: Some(Period { recording: recording.into(), every_s: 1.0, ..Period::default() }),
            ..RunRecord::default()
        });
        (writer.dir().to_owned(), writer)
    }

    #[test]
    fn only_old_periods_of_this_recording_go() {
        let runs = tempfile::tempdir().unwrap();
        let make = |recording: &str, ago| period(runs.path(), recording, ago).0;
        let (old, young) = (make("a", 100), make("a", 5));
        let other = make("b", 100);
        let (active, _lock) = period(runs.path(), "a", 100);
        let tagged = make("a", 100);
        let labels = Labels { tags: ["keep".parse().unwrap()].into(), ..Labels::default() };
        labels.write(&tagged).unwrap();
        let foreign = runs.path().join("notes");
        std::fs::create_dir(&foreign).unwrap();

        let mut keep = Keep::load(runs.path(), "a", Some(Nanos::from_secs_f64(50.0)), u64::MAX).unwrap();
        assert_eq!(keep.sum().0, 3);
        keep.prune();
        assert!(!old.exists());
        for stays in [&young, &other, &active, &tagged, &foreign] {
            assert!(stays.exists(), "{stays:?}");
        }
        let troubles = keep.take_troubles();
        assert!(troubles.iter().any(|it| it.to_string().contains("tag")), "{troubles:?}");
        assert_eq!(keep.sum().0, 1);
    }

    #[test]
    fn a_period_that_was_killed_ended_before_now_and_the_oldest_go_where_there_are_too_many_bytes() {
        let runs = tempfile::tempdir().unwrap();
        let killed = period(runs.path(), "a", 0).0;
        let mut keep = Keep::load(runs.path(), "a", Some(Nanos::from_millis(1)), u64::MAX).unwrap();
        let next = period(runs.path(), "a", 0).0;
        keep.add(next.clone(), wall_clock_unix_ns() + 500_000_000, 1);
        keep.prune();
        assert_eq!((killed.exists(), next.exists()), (false, true));
        let runs = tempfile::tempdir().unwrap();
        let all: Vec<PathBuf> = [40, 30, 20, 10].map(|ago| period(runs.path(), "a", ago).0).into();
        let mut keep = Keep::load(runs.path(), "a", None, 1).unwrap();
        keep.prune();
        let left: Vec<bool> = all.iter().map(|dir| dir.exists()).collect();
        assert_eq!(left, [false, false, false, true], "the youngest always stays");
    }

    #[test]
    fn the_oldest_go_for_room_only_where_that_makes_any() {
        let runs = tempfile::tempdir().unwrap();
        let dirs: Vec<PathBuf> = [30, 20, 10].map(|ago| period(runs.path(), "a", ago).0).into();
        let left = || dirs.iter().filter(|dir| dir.exists()).count() as u64;
        let mut keep = Keep::load(runs.path(), "a", None, u64::MAX).unwrap();
        let each = 10 << 20;
        keep.periods.values_mut().for_each(|bytes| *bytes = each);
        keep.bytes = 3 * each;
        // A disk on which nothing but this recording makes room.
        let disk = |others: u64| move |left: u64| Some((200 << 20u64) - others - left * each);
        assert!(keep.make_room(|_| disk(0)(left())));
        assert_eq!(left(), 3);
        // Without all three 50 MB would be free.
        assert!(!keep.make_room(|_| disk(150 << 20)(left())));
        assert_eq!(left(), 3);
        assert!(keep.make_room(|_| disk(115 << 20)(left())));
        assert_eq!(left(), 2);
        assert!(keep.make_room(|_| None));
        // One that is tagged makes no room: the other alone gives 10 MB of the 20 that are missing.
        let labels = Labels { tags: ["keep".parse().unwrap()].into(), ..Labels::default() };
        labels.write(&dirs[2]).unwrap();
        assert!(!keep.make_room(|_| disk(136 << 20)(left())));
        assert_eq!(left(), 2);
        // Nor does what somebody has put into it ask for room.
        let newest = keep.periods.last_entry().unwrap();
        *newest.into_mut() = 1 << 30;
        assert!(keep.make_room(|_| disk(0)(left())));
        assert_eq!(left(), 2);
    }
}
