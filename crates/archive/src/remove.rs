//! Removing runs, but never one that is still being written.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use crate::reader::read_record;
use crate::{Error, Labels, file};

/// Folders in a folder that are counted: a run has none.
const DEEPEST: usize = 4;

/// Bytes of the files in a folder, and of those in its folders. What cannot be read counts as none.
pub(crate) fn folder_bytes(dir: &Path) -> u64 {
    bytes_below(dir, DEEPEST)
}

fn bytes_below(dir: &Path, depth: usize) -> u64 {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let sizes = entries.map(|entry| match entry.metadata() {
        Ok(found) if found.is_file() => found.len(),
        Ok(found) if found.is_dir() && depth > 0 => bytes_below(&entry.path(), depth - 1),
        _ => 0,
    });
    sizes.sum()
}

/// A run folder that may be removed. Nobody begins to write to it while this lasts.
#[derive(Debug)]
pub struct Removable {
    dir: PathBuf,
    files: Vec<PathBuf>,
    _lock: File,
}

impl Removable {
    /// Checks that a folder may be removed: no link, only files of a run, and no writer; with tags only if `tagged`.
    pub fn find(dir: &Path, tagged: bool) -> Result<Self, Error> {
        let failed = |source| Error::Io { action: "remove", path: dir.to_path_buf(), source };
        let refused = |why: &str| failed(io::Error::other(why.to_owned()));
        // Without what may stand behind the name: a slash there would follow a link.
        let name = dir.file_name().ok_or_else(|| refused("name the run by its id"))?;
        let dir = dir.with_file_name(name);
        if !fs::symlink_metadata(&dir).map_err(failed)?.is_dir() {
            return Err(refused("it is a link or a file, not a run's folder"));
        }
        let lock = File::open(&dir).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(refused("the run has not ended: a process is still writing to it"));
            }
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        let files = files(&dir).map_err(failed)?.map_err(|other| {
            let other = Path::new(&other).display().to_string();
            refused(&format!("it contains {other:?}, which is not part of a run; move that away first"))
        })?;
        if !is_run(&dir, &files) {
            return Err(Error::NotARun { path: dir });
        }
        if !tagged && !Labels::read(&dir)?.tags.is_empty() {
            return Err(refused("it has a tag"));
        }
        Ok(Self { dir, files, _lock: lock })
    }

    /// Removes it.
    pub fn remove(self) -> Result<(), Error> {
        let failed = |path: &Path, source| Error::Io { action: "remove", path: path.to_path_buf(), source };
        for path in &self.files {
            fs::remove_file(path).map_err(|source| failed(path, source))?;
        }
        fs::remove_dir(&self.dir).map_err(|source| failed(&self.dir, source))
    }
}

/// The files of a folder, all of which are a run's; else the name of one that is not.
fn files(dir: &Path) -> io::Result<Result<Vec<PathBuf>, OsString>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if !entry.file_type()?.is_file() || !is_of_a_run(&entry.file_name()) {
            return Ok(Err(entry.file_name()));
        }
        files.push(entry.path());
    }
    Ok(Ok(files))
}

/// Whether runs leave files of this name, or a process that was killed may have left a draft of one.
fn is_of_a_run(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    let draft = name.strip_prefix('.').and_then(|name| name.strip_suffix(".tmp"));
    let name = draft.and_then(|draft| Some(draft.rsplit_once('.')?.0)).unwrap_or(name);
    let names = [
        file::RECORD,
        file::LABELS,
        file::REPEATS,
        file::SERIES,
        file::SLICES,
        file::METRICS,
        file::HISTOGRAMS,
        file::PPROF,
        file::REPORT,
    ];
    let extensions = [file::STACKS, file::FOLDED, file::FLAME, file::FURTHER_PPROF];
    let mut events = extensions.iter().filter_map(|extension| name.strip_suffix(extension)?.strip_suffix('.'));
    names.contains(&name) || events.any(|event| !event.is_empty())
}

/// Whether a folder is a run's: by its record or, without one, by the time in its name and a run's first files.
fn is_run(dir: &Path, files: &[PathBuf]) -> bool {
    let named = dir.file_name().is_some_and(|name| began(&name.to_string_lossy()).is_some());
    let marks = [file::RECORD, file::SERIES, file::HISTOGRAMS];
    let marked = files.iter().filter_map(|path| path.file_name()?.to_str());
    matches!(read_record(dir), Ok(Ok(_))) || named && marked.into_iter().any(|name| marks.contains(&name))
}

/// The second in which a run began, as its id writes it.
pub(crate) fn began(id: &str) -> Option<&str> {
    let (second, _) = id.split_once("Z-")?;
    let is_digit = |(at, c): (usize, u8)| match at {
        4 | 7 | 13 | 16 => c == b'-',
        10 => c == b'T',
        _ => c.is_ascii_digit(),
    };
    (second.len() == 19 && second.bytes().enumerate().all(is_digit)).then_some(second)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::files::{RunLock, is_active};

    const NAME: &str = "2026-11-22T00-00-00Z-demo-abcd";

    fn run(runs: &Path, series: &str) -> PathBuf {
        let run = runs.join(NAME);
        fs::create_dir(&run).unwrap();
        fs::write(run.join(file::SERIES), series).unwrap();
        run
    }

    fn remove(dir: &Path) -> Result<(), Error> {
        Removable::find(dir, false)?.remove()
    }

    #[test]
    fn only_runs_that_have_ended_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let run = run(dir.path(), "12345");
        let empty = dir.path().join("2026-11-22T00-00-00Z-empty-abcd");
        fs::create_dir(&empty).unwrap();
        assert!(matches!(remove(&empty), Err(Error::NotARun { .. })));
        fs::write(run.join(".run.json.0123456789abcdef.tmp"), "{").unwrap();
        assert_eq!(folder_bytes(&run), 6);
        // Files of several events.
        for extension in ["stacks", "folded", "svg", "pb.gz"] {
            fs::write(run.join(format!("off-cpu.{extension}")), "").unwrap();
        }

        let held = RunLock::take(&run);
        assert!(is_active(&run));
        testkit::assert_has(remove(&run).unwrap_err().to_string(), ["has not ended"]);
        drop(held);
        remove(&run).unwrap();
        assert!(!run.exists());
    }

    /// A slash behind a link follows it.
    #[test]
    fn links_are_never_followed() {
        let dir = tempfile::tempdir().unwrap();
        let run = run(dir.path(), "1");
        let link = dir.path().join("link");
        symlink(&run, &link).unwrap();
        for path in [link.clone(), link.join(""), link.join("."), run.join("..")] {
            assert!(remove(&path).is_err(), "{path:?}");
        }
        symlink(dir.path().join("elsewhere"), run.join(file::REPORT)).unwrap();
        assert!(remove(&run).is_err());
        assert!(run.join(file::SERIES).is_file());
    }

    #[test]
    fn what_no_run_leaves_is_not_removed() {
        let dir = tempfile::tempdir().unwrap();
        for (name, file, other) in [
            ("keep", file::RECORD, None),
            (NAME, file::SERIES, Some("main.c")),
            (NAME, file::SERIES, Some("notes")),
            (NAME, file::SERIES, Some(".svg")),
            (NAME, file::SERIES, Some("archive.gz")),
        ] {
            let run = dir.path().join(name);
            fs::create_dir_all(&run).unwrap();
            fs::write(run.join(file), r#"{"not": "a run"}"#).unwrap();
            if let Some(other) = other {
                fs::write(run.join(other), "x").unwrap();
            }
            assert!(remove(&run).is_err(), "{name} {other:?}");
            assert!(run.join(file).exists());
        }
    }

    #[test]
    fn what_has_a_tag_by_now_is_not_removed() {
        let dir = tempfile::tempdir().unwrap();
        let run = run(dir.path(), "1");
        let labels = Labels { tags: ["base".parse().unwrap()].into(), ..Labels::default() };
        labels.write(&run).unwrap();
        assert!(remove(&run).unwrap_err().to_string().contains("has a tag"));
        Removable::find(&run, true).unwrap().remove().unwrap();
        assert!(!run.exists());
    }

    #[test]
    fn ids_begin_with_a_time() {
        assert_eq!(began(NAME), Some("2026-11-22T00-00-00"));
        for other in ["notesZ-2026", "2026-11-22T00-00-0xZ-demo", "", "demo"] {
            assert_eq!(began(other), None, "{other}");
        }
    }
}
