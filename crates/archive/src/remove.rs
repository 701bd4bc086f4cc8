//! Removing runs, but never one that is still being written.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::Path;

use crate::{Error, file};

/// Folders in a folder that are counted: a run has none.
const DEEPEST: usize = 4;

/// Takes the lock of a run folder that says that somebody writes to it. It lasts as long as the file is
/// open, so a writer that is killed gives it back.
pub(crate) fn lock(dir: &Path) -> Option<File> {
    let folder = File::open(dir).ok()?;
    folder.lock_shared().ok()?;
    Some(folder)
}

/// Whether a process is writing to a run folder.
pub(crate) fn is_active(dir: &Path) -> bool {
    File::open(dir).is_ok_and(|folder| matches!(folder.try_lock(), Err(TryLockError::WouldBlock)))
}

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

/// Removes a run with all its files. A link to a run is not followed.
///
/// # Errors
/// Where the folder is no run, is still being written, or cannot be removed.
pub fn remove_run(dir: &Path) -> Result<(), Error> {
    let failed = |source| Error::Io {
        action: "remove",
        path: dir.to_path_buf(),
        source,
    };
    if !fs::symlink_metadata(dir).map_err(failed)?.is_dir() {
        let why = "it is no folder";
        return Err(failed(io::Error::new(io::ErrorKind::NotADirectory, why)));
    }
    let marks = [file::RECORD, file::SERIES, file::HISTOGRAMS];
    if !marks.iter().any(|name| dir.join(name).exists()) {
        return Err(Error::NotARun {
            path: dir.to_path_buf(),
        });
    }
    if is_active(dir) {
        let why = "the run has not ended: a process is still writing to it";
        return Err(failed(io::Error::new(io::ErrorKind::ResourceBusy, why)));
    }
    fs::remove_dir_all(dir).map_err(failed)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_runs_that_have_ended_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path().join("run");
        fs::create_dir(&run).unwrap();
        assert!(matches!(remove_run(&run), Err(Error::NotARun { .. })));
        fs::write(run.join(file::SERIES), "12345").unwrap();
        assert_eq!(folder_bytes(&run), 5);

        let held = lock(&run).unwrap();
        assert!(is_active(&run));
        let refused = remove_run(&run).unwrap_err();
        assert!(refused.to_string().contains("has not ended"), "{refused}");
        drop(held);

        let link = dir.path().join("link");
        symlink(&run, &link).unwrap();
        assert!(remove_run(&link).is_err());
        remove_run(&run).unwrap();
        assert!(!run.exists());
    }
}
