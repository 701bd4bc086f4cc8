//! Processes as `/proc` tells them: identity that survives pid reuse, and whole trees.

use std::{
    fs,
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, wait};
use serde::{Deserialize, Serialize};

/// Environment variable that every process of a managed node carries; its value is the node's
/// unique name. It finds also those that left their parent, group or session.
pub(super) const MARKER: &str = "BELLOWS_NODE";

/// Time that killed processes get to be gone. Only one stuck in the kernel takes longer.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);

/// A process that cannot be mistaken for a later one with the same pid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ProcessId {
    pub(super) pid: u32,
    /// Clock ticks since boot at which it started.
    start: u64,
}

impl ProcessId {
    /// The process that has this pid now.
    pub(super) fn of(pid: u32) -> Option<Self> {
        Stat::of(pid).map(|stat| Self {
            pid,
            start: stat.start,
        })
    }

    pub(super) fn is_alive(self) -> bool {
        Stat::of(self.pid).is_some_and(|stat| stat.start == self.start && !stat.ended())
    }
}

/// What is used of `/proc/PID/stat`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Stat {
    /// Executable's name, at most 15 bytes.
    pub(super) name: String,
    state: char,
    parent: u32,
    start: u64,
}

impl Stat {
    pub(super) fn of(pid: u32) -> Option<Self> {
        Self::parse(&fs::read(format!("/proc/{pid}/stat")).ok()?)
    }

    /// `pid (name) state parent … start …`; the name may contain blanks and parentheses.
    fn parse(stat: &[u8]) -> Option<Self> {
        let stat = String::from_utf8_lossy(stat);
        let (head, tail) = stat.rsplit_once(") ")?;
        let (_, name) = head.split_once('(')?;
        let fields: Vec<&str> = tail.split_ascii_whitespace().collect();
        Some(Self {
            name: name.to_owned(),
            state: fields.first()?.chars().next()?,
            parent: fields.get(1)?.parse().ok()?,
            start: fields.get(19)?.parse().ok()?,
        })
    }

    /// A zombie: only its exit status is left.
    fn ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }
}

/// All live processes of the node `name`: those that carry its marker, and the descendants of
/// `ancestor`. Never this process itself.
pub(super) fn of_node(name: &str, ancestor: Option<u32>) -> Vec<u32> {
    let marker = format!("{MARKER}={name}");
    let processes: Vec<(u32, Stat)> = all()
        .filter_map(|pid| Some((pid, Stat::of(pid)?)))
        .filter(|(_, stat)| !stat.ended())
        .collect();
    let mut members: Vec<u32> = Vec::new();
    for &(pid, _) in &processes {
        if is_marked(pid, &marker) {
            members.push(pid);
        }
    }
    loop {
        let before = members.len();
        for &(pid, ref stat) in &processes {
            let is_child = Some(stat.parent) == ancestor || members.contains(&stat.parent);
            if is_child && !members.contains(&pid) {
                members.push(pid);
            }
        }
        if members.len() == before {
            break;
        }
    }
    members.retain(|&pid| pid != std::process::id());
    members
}

fn all() -> impl Iterator<Item = u32> {
    fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn is_marked(pid: u32, marker: &str) -> bool {
    fs::read(format!("/proc/{pid}/environ")).is_ok_and(|environment| {
        environment
            .split(|&byte| byte == 0)
            .any(|v| v == marker.as_bytes())
    })
}

/// Kills all of [`of_node`] until none is left, and returns all that were seen.
///
/// # Errors
/// Those that would not go within [`KILL_TIMEOUT`].
pub(super) fn kill_node(name: &str, ancestor: Option<u32>) -> Result<Vec<u32>, Vec<u32>> {
    let deadline = Instant::now() + KILL_TIMEOUT;
    let mut seen = Vec::new();
    loop {
        let members = of_node(name, ancestor);
        for &pid in &members {
            signal(pid, Signal::KILL);
            if !seen.contains(&pid) {
                seen.push(pid);
            }
        }
        if ancestor == Some(std::process::id()) {
            reap_all();
        }
        if members.is_empty() {
            return Ok(seen);
        }
        if Instant::now() > deadline {
            return Err(members);
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Collects the exit status of every child that has ended; for processes with no other children.
fn reap_all() {
    while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
}

/// Sends a signal; `false` where there is no such process.
pub(super) fn signal(pid: u32, signal: Signal) -> bool {
    i32::try_from(pid)
        .ok()
        .and_then(Pid::from_raw)
        .is_some_and(|pid| kill_process(pid, signal).is_ok())
}

/// Files that the emulator's JIT leaves in `/tmp` for `perf`, whatever `TMPDIR` says.
pub(super) fn jit_files(pid: u32) -> [PathBuf; 2] {
    [
        PathBuf::from(format!("/tmp/perf-{pid}.map")),
        PathBuf::from(format!("/tmp/jit-{pid}.dump")),
    ]
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_name_with_blanks_and_parentheses_is_read_whole() {
        let line = b"42 (a) (b c) S 7 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 1 2\n";
        let expected = Stat {
            name: "a) (b c".into(),
            state: 'S',
            parent: 7,
            start: 987_654,
        };
        assert_eq!(Stat::parse(line), Some(expected));
        assert_eq!(Stat::parse(b"42 (cut"), None);
        assert_eq!(Stat::parse(b"42 (short) S 7"), None);
    }

    #[test]
    fn another_process_with_the_same_pid_is_not_alive() {
        let me = ProcessId::of(std::process::id()).unwrap();
        assert!(me.is_alive());
        assert!(
            !ProcessId {
                start: me.start + 1,
                ..me
            }
            .is_alive()
        );
    }

    #[test]
    fn an_orphan_is_found_by_its_marker_and_killed() {
        let name = format!("test-{}", std::process::id());
        // The inner sleep outlives its shell and belongs to nobody any more.
        let status = Command::new("sh")
            .args(["-c", "setsid sleep 300 >/dev/null 2>&1 &"])
            .env(MARKER, &name)
            .status()
            .unwrap();
        assert!(status.success());
        assert_eq!(of_node(&name, None).len(), 1);
        assert_eq!(kill_node(&name, None).unwrap().len(), 1);
        assert!(of_node(&name, None).is_empty());
    }
}
