//! Who writes to a run folder says so to other processes.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::sync::Arc;

/// Says to other processes that a run has not ended, as long as any copy of it lasts. A process that is
/// killed gives it back.
#[derive(Clone, Debug, Default)]
pub struct RunLock {
    _folder: Option<Arc<File>>,
}

impl RunLock {
    /// Takes it; where the folder cannot be locked, nobody is told.
    pub(crate) fn take(dir: &Path) -> Self {
        let lock = || {
            let folder = File::open(dir).ok()?;
            folder.lock_shared().ok()?;
            Some(Arc::new(folder))
        };
        Self { _folder: lock() }
    }
}

/// Whether a process is writing to a run folder.
pub(crate) fn is_active(dir: &Path) -> bool {
    File::open(dir).is_ok_and(|folder| matches!(folder.try_lock(), Err(TryLockError::WouldBlock)))
}
