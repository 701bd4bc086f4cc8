//! Where runs are kept, and whether there is room for more.

use std::path::Path;

use super::{Check, Status};

/// Bytes of room below which a long run with a profile may fill the disk.
const LITTLE_ROOM: u64 = 1 << 30;

pub(super) fn runs() -> Check {
    const NAME: &str = "archive";
    const SETTING: &str = "set BELLOWS_RUNS, or give --runs, to keep runs elsewhere";
    let dir = archive::default_runs_dir();
    let shown = dir.display();
    let kept = match archive::list_runs(&dir) {
        Ok(kept) => kept,
        Err(e) => {
            return Check::new(NAME, Status::Bad, e.to_string(), "no run can be kept").fix(SETTING);
        }
    };
    let size = kept.iter().map(|run| run.bytes).sum::<u64>() as f64 / 1e6;
    let observed = format!(
        "{}, {size:.0} MB in {shown}",
        measure::counted(kept.len() as u64, "run")
    );
    match free(&dir) {
        None => Check::new(NAME, Status::Ok, observed, "runs are kept in this folder"),
        Some(free) if free >= LITTLE_ROOM => {
            Check::new(NAME, Status::Ok, observed, "runs are kept in this folder")
        }
        Some(free) => {
            let meaning = format!(
                "{:.0} MB are free: a long run may fill the disk",
                free as f64 / 1e6
            );
            Check::new(NAME, Status::Warn, observed, &meaning)
                .fix("bellows runs prune --keep 20 --dry-run")
        }
    }
}

/// Bytes that are free where the folder is, or will be.
fn free(dir: &Path) -> Option<u64> {
    let there = dir.ancestors().find(|folder| folder.is_dir())?;
    let found = rustix::fs::statvfs(there).ok()?;
    found.f_bavail.checked_mul(found.f_frsize)
}
