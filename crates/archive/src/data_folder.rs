//! Location of bellows' own files.

use std::path::{Path, PathBuf};

/// `$XDG_DATA_HOME/bellows`, else `~/.local/share/bellows`; `None` where the environment names no home.
#[must_use]
pub fn data_folder() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).map(PathBuf::from);
    let data = set("XDG_DATA_HOME").filter(|path| path.is_absolute());
    let home = || set("HOME").filter(|path| path.is_absolute());
    let data = data.or_else(|| Some(home()?.join(".local/share")))?;
    Some(data.join("bellows"))
}

/// Default folder of runs: `BELLOWS_RUNS`, else `runs` in the [`data_folder`], else `./runs`.
#[must_use]
pub fn default_runs_dir() -> PathBuf {
    if let Some(dir) = std::env::var_os("BELLOWS_RUNS").filter(|dir| !dir.is_empty()) {
        return dir.into();
    }
    data_folder().map_or_else(|| Path::new("runs").into(), |folder| folder.join("runs"))
}
