//! The profile of a node that a fault killed, from its return on: its process is another one, which is sampled into a
//! file of its own. When the run ends, both are one profile.

use std::path::{Path, PathBuf};

use measure::Time;
use stacks::ProfileHeader;

use super::Start;
use super::profiling::{Profiling, Sampling};
use crate::judge::profile_incomplete;

/// Profiling of a node that is back as another process.
#[derive(Debug)]
pub(crate) struct Reattach {
    start: Start,
    options: Vec<profile::Options>,
    dir: PathBuf,
    /// Processes that were sampled before the next one: those of the run's beginning count as one.
    parts: usize,
}

/// A node that is back as another process.
#[derive(Debug)]
pub(crate) struct Returned {
    pub(crate) node: usize,
    pub(crate) pid: u32,
    /// When it was gone, seconds since the run's origin.
    pub(crate) gone: f64,
    /// The node's number in a cluster, and its profile from now on, where the previous one ended with its process.
    pub(crate) profile: Option<(Option<u32>, Profiling)>,
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

    /// Samples a process from now on: the node with this number in a cluster. It takes as long as preparing the
    /// profiler does.
    pub(crate) fn attach(&mut self, node: Option<u32>, pid: u32) -> Profiling {
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
        profiling
    }
}

impl Returned {
    /// Continues the previous profile, and reports its gap in seconds since the run's origin.
    /// Samples from `end` on, where that is planned, are in no profile.
    pub(super) fn go_on(self, before: &mut Profiling, origin: Time, end: Option<Time>) {
        let (gone, pid) = (self.gone, Some(self.pid));
        let new = (self.profile).filter(|_| !before.is_of(self.node, pid));
        let Some((node, profiling)) = new else { return };
        let whom = node.map_or_else(|| "the broker".to_owned(), |node| format!("node {node}"));
        let started = profiling.started().filter(|_| profiling.is_on());
        let again = started.filter(|at| end.is_none_or(|end| *at < end));
        let lacks = lacking(&whom, gone, again.map(|at| at.since(origin).as_secs_f64()));
        before.go_on(profiling, profile_incomplete(&lacks));
    }
}

/// The gap of a profile, from a kill until the restarted process is sampled, in seconds of the run.
fn lacking(whom: &str, gone: f64, again: Option<f64>) -> String {
    let restarted = again.map_or_else(
        || "are not in it".to_owned(),
        |at| format!("are in it from {at:.1} s on, what it used before is not"),
    );
    format!(
        "the profile of {whom} was taken until the kill at {gone:.1} s; samples of the restarted process {restarted}"
    )
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use measure::{Clock, Nanos};
    use stacks::Profile;

    use super::*;
    use crate::run::tests::begun;
    use crate::usage::tests::Busy;

    #[test]
    fn it_is_said_whether_a_restarted_process_is_sampled() {
        assert_eq!(
            lacking("the broker", 8.0, Some(13.24)),
            "the profile of the broker was taken until the kill at 8.0 s; samples of the restarted process are in it \
             from 13.2 s on, what it used before is not"
        );
        let text = lacking("node 1", 8.0, None);
        assert!(text.ends_with("are not in it"), "{text}");
    }

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
        assert!(returned.is_on());
        profiling.go_on(returned, profile_incomplete("it was away"));
        profiling.keep_used(vec![None, Some(Nanos::SECOND)]);
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
        let sampled = profile.total_weight() as f64 * profile.header.period_ns as f64;
        let share = profile.cpu_share.expect("a share of what both used");
        assert!((share - (sampled / 1e9).min(1.0)).abs() < 1e-9, "{share}");
        let mut notes = profile.notes.iter();
        assert!(!notes.any(|it| it.contains(profile::PROCESS_ENDED)));
        let away = profile_incomplete("it was away").finding;
        let mut found = profiled.warnings.iter();
        assert!(
            found.any(|it| it.finding == away),
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
