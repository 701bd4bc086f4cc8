//! The runs in a folder.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::reader::read_record;
use crate::{Error, RunRecord};

/// One folder among the runs.
#[derive(Clone, Debug)]
pub struct RunEntry {
    /// The folder.
    pub dir: PathBuf,
    /// Its name.
    pub id: String,
    /// What ran, or one sentence on why it cannot be read.
    pub record: Result<RunRecord, String>,
}

/// The runs in a folder, newest first; folders that cannot be read are among them. A missing
/// folder holds no runs. Only `run.json` of each is read.
///
/// # Errors
/// Where the folder exists and cannot be read.
pub fn list_runs(runs_dir: &Path) -> Result<Vec<RunEntry>, Error> {
    let at = |source| Error::Io {
        action: "read",
        path: runs_dir.to_path_buf(),
        source,
    };
    let folder = match fs::read_dir(runs_dir) {
        Ok(folder) => folder,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(at(e)),
    };
    let mut entries = Vec::new();
    for entry in folder {
        let dir = entry.map_err(at)?.path();
        let id = dir
            .file_name()
            .map_or_else(String::new, |n| n.to_string_lossy().into_owned());
        if !dir.is_dir() || id.starts_with('.') {
            continue;
        }
        let record = match read_record(&dir) {
            Ok(record) => record,
            Err(e) => Err(e.to_string()),
        };
        entries.push(RunEntry { dir, id, record });
    }
    // Folder names begin with the time.
    entries.sort_by(|a, b| b.id.cmp(&a.id));
    Ok(entries)
}
