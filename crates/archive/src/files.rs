//! How files of run folders are read, written and locked, and the default folder of runs.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use stacks::bounded::read;
use stacks::replace_file;

use crate::Error;

/// Whether a text names one entry of a folder, and no hidden one.
pub(crate) fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() < 256 && !name.contains('/') && !name.starts_with('.')
}

/// The value of a JSON file that has at most this many bytes.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path, most: u64) -> Result<T, Error> {
    let text = read(path, most).map_err(|source| Error::Io { action: "read", path: path.to_owned(), source })?;
    serde_json::from_slice(&text).map_err(|error| Error::Damaged { path: path.to_owned(), cause: error.to_string() })
}

/// The value of such a file where it is there.
pub(crate) fn read_json_if_present<T: DeserializeOwned>(path: &Path, most: u64) -> Result<Option<T>, Error> {
    match read_json(path, most) {
        Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    }
}

/// Writes a value as JSON, at once or not at all.
pub(crate) fn replace_json(path: PathBuf, value: &impl Serialize) -> Result<(), Error> {
    let text = serde_json::to_vec_pretty(value).map_err(io::Error::from);
    text.and_then(|text| replace_file(&path, &text)).map_err(|source| Error::Io { action: "write", path, source })
}

/// A file that grows by whole lines, opened when the first arrives.
#[derive(Debug)]
pub(crate) struct LineFile {
    path: PathBuf,
    file: Option<File>,
    /// The last write broke off, perhaps in the middle of a line.
    torn: bool,
}

impl LineFile {
    pub(crate) const fn new(path: PathBuf) -> Self {
        Self { path, file: None, torn: false }
    }

    pub(crate) fn append(&mut self, line: &[u8]) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(OpenOptions::new().create(true).append(true).open(&self.path)?),
        };
        let mut bytes = Vec::with_capacity(line.len() + 2);
        if self.torn {
            bytes.push(b'\n');
        }
        bytes.extend_from_slice(line);
        bytes.push(b'\n');
        let written = file.write_all(&bytes);
        self.torn = written.is_err();
        written
    }
}

/// Tells other processes that a run has not ended, while any copy lives. A killed process gives it back.
#[derive(Clone, Debug, Default)]
pub struct RunLock {
    _folder: Option<Arc<File>>,
}

impl RunLock {
    /// Takes the lock; silently goes without where the folder cannot be locked.
    pub(crate) fn take(dir: &Path) -> Self {
        let lock = || {
            let folder = File::open(dir).ok()?;
            folder.lock_shared().ok()?;
            Some(Arc::new(folder))
        };
        Self { _folder: lock() }
    }
}

/// Reserves a folder of several runs for the one command that adds runs to it; a killed process gives it back.
#[derive(Debug)]
pub struct FolderLock {
    _folder: Option<File>,
}

impl FolderLock {
    /// Takes it; `None` where another process has it. Where the folder cannot be locked, nobody is kept away.
    pub fn take(dir: &Path) -> Option<Self> {
        let folder = File::open(dir).ok();
        match folder.as_ref().map(File::try_lock) {
            Some(Err(TryLockError::WouldBlock)) => None,
            _ => Some(Self { _folder: folder }),
        }
    }
}

/// Whether a process is writing to a run folder.
pub(crate) fn is_active(dir: &Path) -> bool {
    File::open(dir).is_ok_and(|folder| matches!(folder.try_lock(), Err(TryLockError::WouldBlock)))
}

/// `$XDG_DATA_HOME/bellows`, else `~/.local/share/bellows`; `None` where the environment names no home.
pub fn data_folder() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).map(PathBuf::from);
    let data = set("XDG_DATA_HOME").filter(|path| path.is_absolute());
    let home = || set("HOME").filter(|path| path.is_absolute());
    let data = data.or_else(|| Some(home()?.join(".local/share")))?;
    Some(data.join("bellows"))
}

/// Default folder of runs: `BELLOWS_RUNS`, else `runs` in the [`data_folder`], else `./runs`.
pub fn default_runs_dir() -> PathBuf {
    if let Some(dir) = std::env::var_os("BELLOWS_RUNS").filter(|dir| !dir.is_empty()) {
        return dir.into();
    }
    data_folder().map_or_else(|| Path::new("runs").into(), |folder| folder.join("runs"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_kept_for_one_command_and_given_back() {
        let dir = tempfile::tempdir().unwrap();
        let first = FolderLock::take(dir.path());
        assert!(first.is_some() && FolderLock::take(dir.path()).is_none());
        drop(first);
        assert!(FolderLock::take(dir.path()).is_some());
        assert!(FolderLock::take(&dir.path().join("gone")).is_some());
    }
}
