//! Lock that tells other processes who writes to a run folder.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::sync::Arc;

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
    #[must_use]
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
