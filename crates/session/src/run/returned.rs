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
        if self
            .profiling
            .is_of(node.unwrap_or_default() as usize, Some(pid))
        {
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use archive::profile::Profile;

    use super::*;
    use crate::run::tests::begun;
    use crate::usage::tests::Busy;

    #[test]
    fn a_process_and_the_one_in_its_place_are_one_profile() {
        let dir = tempfile::tempdir().expect("folder");
        let (context, record, writer) = begun(dir.path());
        let mut writer = writer.expect("an archive");
        let start = Start {
            origin: context.origin,
            unix_ns: record.origin_unix_ns,
            seed: 7,
        };
        let options = vec![profile::Options::default()];
        let killed = Busy::new();
        let mut profiling = match start.profiling(&options, killed.pid(), Some(1), &writer) {
            Ok(profiling) => profiling,
            Err(error) => testkit::skip!("no process can be profiled here: {error}"),
        };
        profiling.start();
        std::thread::sleep(Duration::from_millis(200));
        let first = killed.pid();
        drop(killed);
        let back = Busy::new();
        let mut again = Reattach::new(start, options, writer.dir());
        let returned = again.attach(Some(1), back.pid());
        assert!(returned.profiling.is_on());
        profiling.go_on(returned.profiling, profile_incomplete("it was away"));
        assert!(profiling.is_of(1, Some(back.pid())));
        assert!(!profiling.is_of(1, Some(first)) && !profiling.is_of(0, Some(back.pid())));
        let between = Clock.now().since(start.origin).0;
        std::thread::sleep(Duration::from_millis(200));
        drop(back);
        let profiled = profiling.finish(None, &[], &mut writer);
        let [profile] = profiled.profiles.as_slice() else {
            panic!("{:?}", profiled.warnings)
        };
        assert_eq!(profile.header.name(), "cpu@1");
        let before = profile.samples.iter().filter(|it| it.t < between).count();
        let after = profile.samples.len() - before;
        assert!(before > 20 && after > 20, "{before} and {after} samples");
        let words = profiled.warnings.iter().map(|it| it.word("why"));
        assert!(
            words.clone().any(|it| it == "it was away"),
            "{:?}",
            profiled.warnings
        );
        let read = Profile::open(writer.dir().join("cpu@1.stacks")).expect("a profile");
        assert_eq!(read.samples.len(), profile.samples.len());
        let files = fs::read_dir(writer.dir()).expect("a folder").flatten();
        let left = files.filter(|it| it.file_name().to_string_lossy().contains(".stacks."));
        assert_eq!(left.count(), 0, "each part is in the whole");
    }
}
