//! The processes of a guarded broker, and what they leave in `/tmp`.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant, SystemTime},
};

use linux::processes::{self, ProcessId};
use rustix::process::{Signal, WaitOptions, getuid, wait};
use serde::{Deserialize, Serialize};

/// Environment variable that every process of a guarded broker carries; its value is the broker's
/// unique name. It finds also those that left their parent, group or session.
pub(crate) const MARKER: &str = "BELLOWS_NODE";

/// Time that killed processes get to be gone. Only one stuck in the kernel takes longer.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);

/// All live processes of the broker `name`, by its marker or as descendants of `ancestor`, but not this one.
pub(crate) fn members(name: &str, ancestor: Option<u32>) -> Vec<ProcessId> {
    let marker = format!("{MARKER}={name}");
    let mut live: BTreeMap<u32, (ProcessId, u32)> = BTreeMap::new();
    for pid in processes::all() {
        if let Some(stat) = processes::stat(pid).filter(|stat| !stat.ended()) {
            live.insert(pid, (stat.id(pid), stat.parent));
        }
    }
    // Whoever has the number now: only what is still the process that was listed counts.
    let marked = |id: &ProcessId| is_marked(id.pid, &marker) && id.is_alive();
    let mut members: Vec<ProcessId> = live.values().map(|(id, _)| *id).filter(marked).collect();
    let mut next = 0;
    let children_of = |parent: u32| {
        let children = live.values().filter(move |(_, of)| *of == parent);
        children.map(|(id, _)| *id)
    };
    members.extend(ancestor.into_iter().flat_map(children_of));
    while let Some(&parent) = members.get(next) {
        next += 1;
        let children: Vec<ProcessId> = children_of(parent.pid).filter(|child| !members.contains(child)).collect();
        // Where the parent has ended meanwhile, its number may have a new owner with children of
        // its own. The next look finds those of the old one with whoever adopted them.
        if !children.is_empty() && parent.is_alive() {
            members.extend(children);
        }
    }
    members.sort_unstable();
    members.dedup();
    members.retain(|id| id.pid != std::process::id());
    members
}

fn is_marked(pid: u32, marker: &str) -> bool {
    fs::read(format!("/proc/{pid}/environ"))
        .is_ok_and(|environment| environment.split(|&byte| byte == 0).any(|v| v == marker.as_bytes()))
}

/// The unique name of the broker that a process is one of; `None` where it is none's, or another user's.
pub fn marker_of(pid: u32) -> Option<String> {
    processes::environment_variable(pid, MARKER)
}

/// Kills all [`members`] until two looks in a row find none, and returns all that were seen: a process that begins
/// another program has no marker for a moment. Errors: those still there after [`KILL_TIMEOUT`].
pub(super) fn kill_members(name: &str, ancestor: Option<u32>) -> Result<Vec<ProcessId>, Vec<ProcessId>> {
    let deadline = Instant::now() + KILL_TIMEOUT;
    let mut seen = Vec::new();
    let mut looks_without = 0;
    while looks_without < 2 {
        let members = members(name, ancestor);
        for &id in &members {
            id.signal(Signal::KILL);
            if !seen.contains(&id) {
                seen.push(id);
            }
        }
        if ancestor == Some(std::process::id()) {
            // Collects the exit status of every child that has ended.
            while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
        }
        // One whose parent is gone already is no member any more, and may still be dying.
        let dying: Vec<ProcessId> = seen.iter().copied().filter(|id| id.is_alive()).collect();
        looks_without = match members.is_empty() && dying.is_empty() {
            true => looks_without + 1,
            false if Instant::now() > deadline => return Err(dying),
            false => 0,
        };
        thread::sleep(Duration::from_millis(5));
    }
    Ok(seen)
}

/// A process that was started as a broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Started {
    pub(super) id: ProcessId,
    /// By the wall clock, which a restart of the machine does not turn back.
    started: SystemTime,
    pub(super) ended: Option<SystemTime>,
}

impl Started {
    pub(super) fn new(id: ProcessId) -> Self {
        Self { id, started: id.started(), ended: None }
    }

    /// Removes what its JIT left for `perf`, where it is this process's: other processes have had its
    /// number before it, and may have it since. `visible`: its number means something here.
    pub(super) fn remove_jit_files(&self, visible: bool) {
        let taken = visible && ProcessId::of(self.id.pid).is_some_and(|now| now != self.id);
        // One that nobody saw end did so by now, or with the machine.
        let (booted, begin) = (processes::booted(), earlier(self.started));
        let end = match self.ended {
            Some(end) => end,
            None if taken => return,
            None if self.started < earlier(booted) => booted,
            None => SystemTime::now(),
        };
        let written = begin..=end;
        for file in jit_files(self.id.pid) {
            remove_own_file(&file, |changed| written.contains(&changed));
        }
    }
}

/// The start of a process is known to a clock tick, and the wall clock is set now and then.
const CLOCK_SLACK: Duration = Duration::from_secs(2);

fn earlier(time: SystemTime) -> SystemTime {
    time.checked_sub(CLOCK_SLACK).unwrap_or(time)
}

/// Files that a JIT leaves in `/tmp` for `perf`, whatever `TMPDIR` says.
fn jit_files(pid: u32) -> [PathBuf; 2] {
    [PathBuf::from(format!("/tmp/perf-{pid}.map")), PathBuf::from(format!("/tmp/jit-{pid}.dump"))]
}

/// Removes a file of this user, if `is_ours` says so of its last change.
fn remove_own_file(path: &Path, is_ours: impl Fn(SystemTime) -> bool) {
    let own = |metadata: fs::Metadata| {
        metadata.is_file() && metadata.uid() == getuid().as_raw() && metadata.modified().is_ok_and(&is_ours)
    };
    if fs::symlink_metadata(path).is_ok_and(own) {
        let _ = fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn an_orphan_is_found_by_its_marker_and_killed() {
        let name = format!("test-{}", std::process::id());
        // The inner sleep outlives its shell and belongs to nobody any more.
        let status =
            Command::new("sh").args(["-c", "setsid sleep 300 >/dev/null 2>&1 &"]).env(MARKER, &name).status().unwrap();
        assert!(status.success());
        assert_eq!(kill_members(&name, None).unwrap().len(), 1);
        assert!(members(&name, None).is_empty());
    }

    /// Several generations, each of which has several children, and orphans among them.
    #[test]
    fn a_whole_tree_goes_and_nobody_else() {
        let name = format!("test-tree-{}", std::process::id());
        let mut stranger = testkit::ChildGuard::idle();
        // Only the root is marked: the others are found by descent.
        let tree = "sleep 301 & (unset BELLOWS_NODE; sh -c 'sleep 302 & sleep 303 & wait') & wait";
        let mut root = Command::new("sh").args(["-c", tree]).env(MARKER, &name).spawn().unwrap();
        let deadline = Instant::now() + Duration::from_secs(10);
        while members(&name, None).len() < 5 && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(5));
        }
        let killed = kill_members(&name, None).unwrap();
        assert!(killed.len() >= 5, "{killed:?}");
        assert!(killed.iter().all(|id| !id.is_alive()), "{killed:?}");
        assert_eq!(stranger.try_wait().unwrap(), None, "it is not of the node");
        root.wait().unwrap();
    }

    /// The map of a process that had the number before, of one that has had it since, and the
    /// broker's own, by all that may be known of its end.
    #[test]
    fn only_the_brokers_own_map_is_removed() {
        let now = SystemTime::now();
        let ago = |seconds| now - Duration::from_secs(seconds);
        let me = ProcessId::of(std::process::id()).unwrap();
        // No process has this number.
        let pid = 4_194_305 + me.pid;
        let map = &jit_files(pid)[0];
        let started = |ended| Started { id: ProcessId::new(pid, me.start()), started: ago(100), ended };
        let kept = [(150, None), (150, Some(50)), (25, Some(50))].map(|it| (it, false));
        let gone = [(75, None), (75, Some(50)), (50, Some(50)), (25, None)].map(|it| (it, true));
        for ((changed, ended), removed) in kept.into_iter().chain(gone) {
            let (changed, ended) = (ago(changed), ended.map(ago));
            fs::File::create(map).unwrap().set_modified(changed).unwrap();
            started(ended).remove_jit_files(true);
            assert_eq!(!map.exists(), removed, "{changed:?} {ended:?}");
        }
        let _ = fs::remove_file(map);
        // Its number is somebody else's by now: this test's.
        let own = &jit_files(me.pid)[0];
        fs::write(own, "1000 10 mine\n").unwrap();
        let before = Started { id: ProcessId::new(me.pid, me.start() - 1), ..started(None) };
        before.remove_jit_files(true);
        assert!(own.exists());
        fs::remove_file(own).unwrap();
    }
}
