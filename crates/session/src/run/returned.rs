//! The profile of a node that a fault killed, from its return on: its process is another one, which is sampled into a file
//! of its own. When the run ends, both are one profile.

use std::path::{Path, PathBuf};

use archive::profile::ProfileHeader;
use measure::Clock;

use super::Start;
use super::profiling::{Profiling, Sampling};
use super::recording::Recording;
use crate::judge::profile_incomplete;

/// How a node is profiled that is back as another process.
#[derive(Debug)]
pub(crate) struct Reattach {
    start: Start,
    options: Vec<profile::Options>,
    dir: PathBuf,
    /// Processes that were sampled before the next one: those of the run's beginning count as one.
    parts: usize,
}

/// A profile that begins with a node's return.
#[derive(Debug)]
pub(crate) struct Returned {
    /// Which node of a cluster it is.
    node: Option<u32>,
    pid: u32,
    profiling: Profiling,
}

impl Reattach {
    pub(crate) fn new(start: Start, options: Vec<profile::Options>, dir: &Path) -> Self {
        Self {
            start,
            options,
            dir: dir.to_owned(),
            parts: 1,
        }
    }

    /// Samples a process from now on: the node with this number in a cluster. It takes as long as preparing the profiler does.
    pub(crate) fn attach(&mut self, node: Option<u32>, pid: u32) -> Returned {
        let header = ProfileHeader {
            node,
            ..ProfileHeader::new(self.start.origin, self.start.unix_ns)
        };
        let sampling = Sampling {
            options: &self.options,
            dir: &self.dir,
            part: self.parts,
        };
        self.parts += 1;
        let mut profiling = Profiling::attach(&sampling, pid, &header)
            .unwrap_or_else(|e| Profiling::unavailable(&e.problem().sentence()));
        profiling.start();
        Returned {
            node,
            pid,
            profiling,
        }
    }
}

impl Recording<'_> {
    /// Goes on with the profile of a node that is back, and says from when to when there is none of it.
    pub(super) fn profile_returned(&mut self, returned: Returned) {
        let Returned {
            node,
            pid,
            profiling,
        } = returned;
        if self.profiling.is_of(node.unwrap_or_default() as usize, Some(pid)) {
            return;
        }
        let whom = node.map_or_else(|| "the broker".to_owned(), |node| format!("node {node}"));
        let gone = self.faults.last().map_or(0.0, |fault| fault.t);
        let now = self.seconds_since_origin(Clock.now());
        let lacks = match profiling.is_on() {
            true => format!(
                "the profile of {whom} lacks the time from {gone:.1} s to {now:.1} s: it was killed, and is sampled again since it \
                 was back"
            ),
            false => format!(
                "the profile of {whom} ends at {gone:.1} s: it was killed, and is not sampled since it was back"
            ),
        };
        self.profiling.go_on(profiling, profile_incomplete(&lacks));
    }
}
