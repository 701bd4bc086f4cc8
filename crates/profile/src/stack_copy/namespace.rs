//! Numbers of threads in pid namespaces. The kernel's events number threads as this process sees them; a program
//! inside the kernel can ask for the machine's own numbers, or for those of the namespace that the sampled thread
//! itself is in. Only the last are known to both where this process or the broker is in a container.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use linux::Status;
use rustix::fs::{major, minor};

/// The pid namespace of a process, as `bpf_get_ns_current_pid_tgid` is told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PidNamespace {
    /// Device of the file that stands for it, as the kernel has it: 12 bits of class, 20 of number.
    pub(super) device: u64,
    /// Inode of that file.
    pub(super) inode: u64,
}

/// The inode of the namespace that the machine begins with (`PROC_PID_INIT_INO`).
const FIRST: u64 = 0xefff_fffc;

impl PidNamespace {
    /// That of a process; `None` where it is not ours to see.
    pub(super) fn of(pid: u32) -> Option<Self> {
        let file = fs::metadata(format!("/proc/{pid}/ns/pid")).ok()?;
        let device = file.dev();
        Some(Self {
            device: u64::from(major(device)) << 20 | u64::from(minor(device)),
            inode: file.ino(),
        })
    }
}

impl PidNamespace {
    /// Whether the machine begins with it, so that all threads have a number in it.
    pub(super) const fn is_first(self) -> bool {
        self.inode == FIRST
    }
}

/// The number that a thread has in its own namespace; `None` where it has ended.
pub(super) fn number_inside(tid: u32) -> Option<u32> {
    Some(Status::of(tid).ok()?.inner_pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_that_share_a_namespace_see_the_same_numbers() {
        let own = std::process::id();
        let namespace = PidNamespace::of(own).unwrap();
        let parent = rustix::process::getppid().unwrap().as_raw_pid();
        assert_eq!(PidNamespace::of(parent.cast_unsigned()), Some(namespace));
        assert_eq!(number_inside(own), Some(own));
        assert_eq!(PidNamespace::of(u32::MAX), None);
        assert_eq!(number_inside(u32::MAX), None);
    }
}
