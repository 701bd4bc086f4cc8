//! The kernel's list of tracepoints: tracefs, where it is mounted, or else a private mount of our own.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

/// Where tracefs is, on its own or below debugfs.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// The folder of tracepoints, and how it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracepoints {
    /// Has a folder for each category.
    pub folder: PathBuf,
    /// Whether it is in the file system, where everybody who may can look.
    pub is_mounted: bool,
}

/// Finds the tracepoints. Where tracefs is not mounted, this process takes it without a place in the file system; it is
/// gone with the process.
/// Errors: it is not mounted, and not allowed to be (which needs `CAP_SYS_ADMIN`), or not readable for this user.
pub fn tracepoints() -> io::Result<Tracepoints> {
    let mounted = PLACES.map(|place| Path::new(place).join("events"));
    if let Some(folder) = mounted.into_iter().find(|folder| folder.is_dir()) {
        return Ok(Tracepoints { folder, is_mounted: true });
    }
    static OWN: OnceLock<OwnedFd> = OnceLock::new();
    let own = match OWN.get() {
        Some(own) => own,
        None => {
            let taken = take()?;
            OWN.get_or_init(|| taken)
        }
    };
    let folder = format!("/proc/self/fd/{}/events", own.as_raw_fd());
    Ok(Tracepoints { folder: folder.into(), is_mounted: false })
}

/// A mount of tracefs that is not in the file system, and cannot be written to.
fn take() -> io::Result<OwnedFd> {
    let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    Ok(fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::MOUNT_ATTR_RDONLY)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tracepoints_are_found_whether_or_not_tracefs_is_mounted() {
        if !rustix::process::geteuid().is_root() {
            testkit::skip!("tracefs is for root");
        }
        let own = match take() {
            Ok(own) => own,
            Err(error) => testkit::skip!("this process may not mount: {error}"),
        };
        let number = |events: &Path| std::fs::read_to_string(events.join("sched/sched_switch/id"));
        let folder = PathBuf::from(format!("/proc/self/fd/{}/events", own.as_raw_fd()));
        let expected = number(&folder).unwrap();
        assert!(expected.trim().parse::<u64>().is_ok(), "{expected}");
        assert!(std::fs::write(folder.join("enable"), "0").is_err(), "read only");
        let found = tracepoints().unwrap();
        assert_eq!(number(&found.folder).unwrap(), expected, "{found:?}");
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
        assert!(found.is_mounted || !mounts.contains("tracefs"), "{mounts}");
    }
}
