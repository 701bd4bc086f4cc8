//! The profiles of a run, one of each event: sampled from just before the measured phase, then cut to exactly it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use archive::{RunWriter, Warning, file};
use measure::{Clock, Nanos, Problem, Time};
use profile::{Options, Outcome, PROCESS_ENDED, Sampler, SamplingSwitch};
use stacks::{ErlangProcess, FORMATS, Merge, Profile, ProfileError, ProfileHeader, StacksWriter, USUAL_EVENT};

use super::Start;
use crate::judge::{probed, profile_findings, profile_gaps, profile_incomplete};

/// Sampling begins this long before the measured phase: the last chance to begin may come a second early.
pub(crate) const LEAD: Nanos = Nanos::from_millis(1_500);

/// Longest delay of the end of a part of a profile after the instant set for it: samples may wait for names.
const LATEST_TURN: Duration = Duration::from_secs(10);

/// Profiles that are being taken, and the reasons why others are not.
#[derive(Debug, Default)]
pub(crate) struct Profiling {
    profiles: Vec<EventProfile>,
    /// The origin of its times, also by the wall clock, where it differs from that of its files.
    origin: Option<(Time, u64)>,
    started: Option<Time>,
    /// When sampling of it ended, while others continue.
    until: Option<Time>,
    /// Only files that cannot be made again from the stacks are written, and pprof.
    pub(crate) is_brief: bool,
    /// CPU time that each node of the broker used in the window, all processes that it was together.
    used: Vec<Option<Nanos>>,
    warnings: Vec<Warning>,
}

/// The profile of an event, of one process, and of those that were in its place before.
#[derive(Debug)]
struct EventProfile {
    /// The profile's name, which the files carry: the event's, and in a cluster the number of the node.
    name: String,
    node: Option<u32>,
    pid: u32,
    /// File of the whole profile in the end.
    file: PathBuf,
    part: SampledPart,
    earlier: Vec<SampledPart>,
    /// Only memory held at the end counts: none of a process that has ended.
    is_held: bool,
}

#[derive(Debug)]
struct SampledPart {
    stacks: PathBuf,
    source: Source,
}

#[derive(Debug)]
enum Source {
    /// The sampler, until it is stopped.
    Sampler(Box<Sampler>),
    /// A sampler that is changing to another file.
    Turning(Receiver<Outcome>),
    /// A sampler that is being stopped: its process has ended.
    Stopping(JoinHandle<Result<Outcome, String>>),
    Ended(Outcome),
}

#[derive(Debug, Default)]
pub(crate) struct Profiled {
    pub(crate) profiles: Vec<Profile>,
    pub(crate) warnings: Vec<Warning>,
    /// The profiler's own usage while it sampled, in cores.
    pub(crate) own_cores: f64,
}

impl Profiling {
    pub(crate) fn off() -> Self {
        Self::default()
    }

    /// Profiles are wanted and cannot be had.
    pub(crate) fn unavailable(cause: &str) -> Self {
        let why = format!("no profile: {cause}");
        Self { warnings: vec![profile_incomplete(&why)], ..Self::default() }
    }

    /// Opens the events, switched off, and their files; those that cannot be opened have a warning, unless none can.
    /// So many (`part`) of the broker's processes, each replaced by the next, were sampled before this one.
    pub(crate) fn attach(
        options: &[Options],
        pid: u32,
        header: &ProfileHeader,
        dir: &Path,
        part: usize,
    ) -> Result<Self, Problem> {
        let (mut profiling, mut first_error) = (Self::default(), None);
        for options in options {
            match EventProfile::attach(options, pid, header.clone(), dir, part) {
                Ok(profile) => profiling.profiles.push(profile),
                Err(e) => {
                    profiling.lacks(&options.event.name, &e);
                    first_error.get_or_insert(e);
                }
            }
        }
        match first_error {
            Some(e) if profiling.profiles.is_empty() => Err(e),
            _ => Ok(profiling),
        }
    }

    pub(crate) fn and(mut self, others: Self) -> Self {
        self.profiles.extend(others.profiles);
        self.warnings.extend(others.warnings);
        self
    }

    /// Continues with profiles of a process that replaced an earlier one.
    pub(crate) fn go_on(&mut self, others: Self, why: Warning) {
        for profile in others.profiles {
            match self.profiles.iter_mut().find(|it| it.name == profile.name) {
                Some(before) => before.go_on(profile),
                None => self.profiles.push(profile),
            }
        }
        self.warnings.extend(others.warnings);
        self.warnings.push(why);
    }

    /// Whether the process of a node is sampled, 0 where the broker is one process.
    pub(crate) fn is_of(&self, node: usize, pid: Option<u32>) -> bool {
        self.profiles.iter().any(|it| it.node.unwrap_or_default() as usize == node && Some(it.pid) == pid)
    }

    /// Keeps how much CPU time each node of the broker used in the window, as far as that is known.
    pub(crate) fn keep_used(&mut self, used: Vec<Option<Nanos>>) {
        self.used = used;
    }

    fn lacks(&mut self, event: &str, error: &Problem) {
        let why = format!("no profile of {event}: {}", error.sentence());
        self.warnings.push(profile_incomplete(&why));
    }

    /// From the header's origin on, samples go to files in another folder, or nowhere without one. Returns the part
    /// before that, which can be finished when its time has come.
    pub(crate) fn turn(&mut self, header: &ProfileHeader, dir: Option<&Path>) -> Self {
        Self {
            profiles: self.profiles.iter_mut().filter_map(|it| it.turn(header, dir)).collect(),
            started: self.started.replace(header.origin),
            until: Some(header.origin),
            is_brief: self.is_brief,
            warnings: self.warnings.clone(),
            ..Self::default()
        }
    }

    /// Where sampling has ended, or is to end, about the moment of a turn: gives those profiles back to the part that
    /// ended which the turn did not come about for. Whether any has turned.
    pub(crate) fn settle(&mut self, ended: &mut Self) -> bool {
        let pairs = std::mem::take(&mut self.profiles).into_iter().zip(&mut ended.profiles);
        self.profiles = pairs.filter_map(|(profile, before)| profile.settle(before)).collect();
        ended.until = ended.until.filter(|_| self.is_on());
        self.is_on()
    }

    /// Discards the samples; `false` where none were to be taken.
    pub(crate) fn abandon(&mut self) -> bool {
        self.started = None;
        let any = self.is_on();
        self.profiles.drain(..).for_each(EventProfile::abandon);
        any
    }

    pub(crate) const fn is_on(&self) -> bool {
        !self.profiles.is_empty()
    }

    /// Whether sampling is still to be switched on.
    pub(crate) const fn is_waiting(&self) -> bool {
        self.is_on() && self.started.is_none()
    }

    pub(crate) fn start(&mut self) {
        if !self.is_waiting() {
            return;
        }
        self.started = Some(Clock.now());
        for mut profile in std::mem::take(&mut self.profiles) {
            match profile.start() {
                Ok(()) => self.profiles.push(profile),
                Err(e) => {
                    self.lacks(&profile.name, &e);
                    profile.abandon();
                }
            }
        }
    }

    pub(crate) fn switches(&self) -> Vec<SamplingSwitch> {
        self.samplers().map(Sampler::switch).collect()
    }

    /// Whether profiling costs the broker something even while sampling is switched off.
    pub(crate) fn stays_in_the_way(&self) -> bool {
        self.samplers().any(Sampler::stays_in_the_way)
    }

    fn samplers(&self) -> impl Iterator<Item = &Sampler> {
        self.profiles.iter().filter_map(|it| match &it.part.source {
            Source::Sampler(sampler) => Some(&**sampler),
            _ => None,
        })
    }

    /// Counts times from another instant than its files do, or will: sampling may have begun.
    pub(crate) fn count_from(&mut self, origin: Time, unix_ns: u64) {
        self.origin = Some((origin, unix_ns));
        for profile in &mut self.profiles {
            if let Source::Sampler(sampler) = &mut profile.part.source {
                sampler.count_from(origin, unix_ns);
            }
        }
    }

    /// Ignores memory that the process allocates or frees from an instant on.
    pub(crate) fn hold_until(&self, at: Time) {
        self.samplers().for_each(|it| it.hold_until(at));
    }

    /// Ends sampling, cuts the profiles to `window` (nanoseconds since the origin), gives their Erlang processes the
    /// names that nodes have said (`processes`), the others roles by their stacks, and writes other tools' forms.
    pub(crate) fn finish(
        self,
        window: Option<(u64, u64)>,
        processes: &[Vec<ErlangProcess>],
        writer: &mut RunWriter,
    ) -> Profiled {
        let mut profiled = Profiled { warnings: self.warnings, ..Profiled::default() };
        let until = self.until.unwrap_or_else(|| Clock.now());
        let sampled = self.started.map(|started| until.since(started));
        for (index, mut event) in self.profiles.into_iter().enumerate() {
            event.finish_sampling(sampled, writer, &mut profiled);
            let node = event.node.unwrap_or_default() as usize;
            let named = processes.get(node).map_or(&[][..], Vec::as_slice);
            let used = self.used.get(node).copied().flatten();
            let read = event.read(self.origin, window, writer);
            let Some(profile) = event.finish(read, named, used, writer, &mut profiled) else { continue };
            profiled.profiles.push(in_other_forms(profile, &event.name, index, self.is_brief, writer));
        }
        profiled
    }
}

impl Profiled {
    /// Adds profiles that others took, and writes them as the run's own.
    pub(super) fn add(&mut self, others: Vec<Profile>, writer: &mut RunWriter) {
        for profile in others {
            let (name, index) = (profile.header.name(), self.profiles.len());
            let stacks = file::of_event(&name, file::STACKS);
            if let Err(e) = profile.write_stacks(&writer.dir().join(&stacks)) {
                writer.complain(&stacks, &e.to_string());
            }
            self.profiles.push(in_other_forms(profile, &name, index, false, writer));
        }
    }
}

/// Writes other tools' forms of a profile, the run's first or a further one, and returns it without lines.
fn in_other_forms(profile: Profile, name: &str, index: usize, is_brief: bool, writer: &mut RunWriter) -> Profile {
    let pprof = match index {
        0 => file::PPROF.to_owned(),
        _ => file::of_event(name, file::FURTHER_PPROF),
    };
    match profile.to_pprof() {
        Ok(bytes) => writer.write_file(&pprof, &bytes),
        Err(e) => writer.complain(&pprof, &e.to_string()),
    }
    let profile = profile.without_lines();
    if !is_brief {
        writer.write_file(&file::of_event(name, file::FOLDED), profile.folded().as_bytes());
    }
    profile
}

impl EventProfile {
    fn attach(options: &Options, pid: u32, header: ProfileHeader, dir: &Path, part: usize) -> Result<Self, Problem> {
        let node = header.node;
        let name = ProfileHeader { event: options.event.name.clone().into_owned(), ..header.clone() };
        let name = name.name();
        let file = file::of_event(&name, file::STACKS);
        let stacks = dir.join(match part {
            0 => file.clone(),
            // Nobody takes it for the profile of an event.
            part => format!("{file}.{part}"),
        });
        let sink = StacksWriter::create(&stacks, header).map_err(|e| Problem::io("create", &stacks, &e))?;
        match Sampler::attach(pid, options, sink) {
            Ok(sampler) => Ok(Self {
                name,
                node,
                pid,
                file: dir.join(file),
                part: SampledPart { stacks, source: Source::Sampler(Box::new(sampler)) },
                earlier: Vec::new(),
                is_held: options.event.is_held(),
            }),
            Err(e) => {
                // An empty file would look like a profile without samples.
                let _ = fs::remove_file(&stacks);
                Err(e)
            }
        }
    }

    fn start(&mut self) -> Result<(), Problem> {
        if let Source::Sampler(sampler) = &mut self.part.source { sampler.start() } else { Ok(()) }
    }

    /// Has the sampler continue with a file in another folder; returns the part before that.
    fn turn(&mut self, header: &ProfileHeader, dir: Option<&Path>) -> Option<Self> {
        let Source::Sampler(sampler) = &self.part.source else { return None };
        let stacks = dir.map(|dir| dir.join(file::of_event(&self.name, file::STACKS)));
        let sink = stacks.as_deref().and_then(|stacks| StacksWriter::create(stacks, header.clone()).ok());
        // That a file is missing is told where it is read.
        let sink = sink.unwrap_or_else(|| StacksWriter::new(io::sink(), header.clone()));
        let stacks = stacks.unwrap_or_default();
        Some(Self {
            name: self.name.clone(),
            node: self.node,
            pid: self.pid,
            file: std::mem::replace(&mut self.file, stacks.clone()),
            part: SampledPart {
                stacks: std::mem::replace(&mut self.part.stacks, stacks),
                source: Source::Turning(sampler.turn(header.origin, sink)),
            },
            earlier: std::mem::take(&mut self.earlier),
            is_held: self.is_held,
        })
    }

    /// The new part, where the change has happened; else the previous part continues to the end.
    fn settle(self, before: &mut Self) -> Option<Self> {
        if let (Source::Turning(outcome), Source::Sampler(sampler)) = (&before.part.source, &self.part.source) {
            sampler.stay();
            if let Ok(outcome) = outcome.recv_timeout(LATEST_TURN) {
                before.part.source = Source::Ended(outcome);
                return Some(self);
            }
        }
        let _ = fs::remove_file(&self.part.stacks);
        before.part.source = self.part.source;
        None
    }

    /// Goes on with another process: the sampler of the one before has nothing more to sample.
    fn go_on(&mut self, next: Self) {
        self.pid = next.pid;
        let mut before = std::mem::replace(&mut self.part, next.part);
        before.stop();
        if self.is_held { before.abandon() } else { self.earlier.push(before) }
    }

    fn abandon(self) {
        self.earlier.into_iter().chain([self.part]).for_each(SampledPart::abandon);
    }

    fn parts(&self) -> impl Iterator<Item = &SampledPart> {
        self.earlier.iter().chain([&self.part])
    }

    /// Names the event in the warning, where it is not the usual one.
    fn of_event(&self, warning: Warning) -> Warning {
        let event = Some(&self.name).filter(|it| *it != USUAL_EVENT);
        Warning { event: event.cloned(), ..warning }
    }

    /// Whether each event is a sample, so that no frequency makes them fewer.
    fn takes_each(&self) -> bool {
        self.name.split('@').next().and_then(profile::Event::named).is_some_and(|it| !it.has_frequency())
    }

    /// Ends sampling, or waits for the end of the part.
    fn finish_sampling(&mut self, sampled: Option<Nanos>, writer: &mut RunWriter, profiled: &mut Profiled) {
        let mut outcomes = Vec::new();
        for part in self.earlier.iter_mut().chain([&mut self.part]) {
            match part.finish_sampling() {
                Ok(outcome) => outcomes.push(outcome),
                Err(e) => writer.complain(&file::of_event(&self.name, file::STACKS), &e),
            }
        }
        for outcome in outcomes {
            let found = profile_findings(&outcome, self.takes_each()).into_iter();
            profiled.warnings.extend(found.map(|it| self.of_event(it)));
            profiled.own_cores +=
                sampled.map_or(0.0, |length| outcome.own_cpu.as_secs_f64() / length.as_secs_f64().max(1e-9));
        }
    }

    /// Its parts in the window, with times from this instant.
    fn read(&self, origin: Option<(Time, u64)>, window: Option<(u64, u64)>, writer: &mut RunWriter) -> Vec<Profile> {
        let name = file::of_event(&self.name, file::STACKS);
        let read = |part: &SampledPart| part.read(origin, window).map_err(|e| writer.complain(&name, &e.to_string()));
        self.parts().map(read).filter_map(Result::ok).collect()
    }

    /// Names processes in its parts, of a node that `used` so much, and writes the stacks of all of them again.
    fn finish(
        &self,
        mut parts: Vec<Profile>,
        processes: &[ErlangProcess],
        used: Option<Nanos>,
        writer: &mut RunWriter,
        profiled: &mut Profiled,
    ) -> Option<Profile> {
        // The node has told the names of its last process.
        if let Some(last) = parts.last_mut().filter(|it| it.header.pid == self.pid) {
            last.name_processes(processes);
        }
        for part in parts.iter_mut().filter(|it| it.header.pid != self.pid) {
            part.notes.retain(|note| !note.contains(PROCESS_ENDED));
        }
        let mut profile = join(parts)?;
        profile.take_roles_from_stacks();
        let mut summary = profile.summary(0);
        if !self.earlier.is_empty() {
            profile.cpu_share = share_of(&profile, used);
            // What is missing while the next process started has a warning of its own.
            summary.cpu_share = None;
        }
        let found = profile_gaps(&summary).into_iter().chain(probed(&profile));
        profiled.warnings.extend(found.map(|it| self.of_event(it)));
        if let Err(e) = profile.write_stacks(&self.file) {
            writer.complain(&file::of_event(&self.name, file::STACKS), &e.to_string());
            return Some(profile);
        }
        // The parts are in the whole profile.
        for part in self.parts().filter(|part| part.stacks != self.file) {
            let _ = fs::remove_file(&part.stacks);
        }
        Some(profile)
    }
}

/// The share of CPU time that a profile of several processes stands for: no sampler knows what they used unsampled.
fn share_of(profile: &Profile, used: Option<Nanos>) -> Option<f64> {
    let sampled = profile.total_weight() as f64 * profile.header.period_ns as f64;
    let used = used.filter(|it| it.0 > 0)?.0 as f64;
    (sampled > 0.0).then(|| (sampled / used).min(1.0))
}

/// The profile of a node, of all processes that it was.
fn join(mut parts: Vec<Profile>) -> Option<Profile> {
    if parts.len() < 2 {
        return parts.pop();
    }
    let mut merge = Merge::default();
    parts.into_iter().for_each(|part| merge.add(part));
    Some(merge.finish())
}

impl SampledPart {
    fn stop(&mut self) {
        let source = std::mem::replace(&mut self.source, Source::Ended(Outcome::default()));
        self.source = match source {
            Source::Sampler(sampler) => Source::Stopping(thread::spawn(move || {
                let outcome = sampler.stop().map_err(|e| e.to_string())?;
                // That its process has ended is told with the time at which the next one is sampled.
                let notes = outcome.notes.into_iter().filter(|note| !note.contains(PROCESS_ENDED)).collect();
                Ok(Outcome { notes, ..outcome })
            })),
            other => other,
        };
    }

    fn finish_sampling(&mut self) -> Result<Outcome, String> {
        let source = std::mem::replace(&mut self.source, Source::Ended(Outcome::default()));
        match source {
            Source::Sampler(sampler) => sampler.stop().map_err(|e| e.to_string()),
            Source::Turning(outcome) => {
                outcome.recv_timeout(LATEST_TURN).map_err(|_| "its sampler did not stop in time".to_owned())
            }
            // A panic there is a bug, and shows on standard error.
            Source::Stopping(outcome) => outcome.join().unwrap_or_else(|_| Err("its sampler failed".to_owned())),
            Source::Ended(outcome) => Ok(outcome),
        }
    }

    /// Its samples in the window, with times from this instant.
    fn read(&self, origin: Option<(Time, u64)>, window: Option<(u64, u64)>) -> Result<Profile, ProfileError> {
        let mut profile = Profile::open_with_lines(&FORMATS, &self.stacks, None)?;
        if let Some((origin, unix_ns)) = origin {
            profile.count_from(origin, unix_ns);
        }
        if let Some((from, to)) = window {
            profile.cut(from, to);
        }
        Ok(profile)
    }

    fn abandon(self) {
        drop(self.source);
        // An empty file would look like a profile without samples.
        let _ = fs::remove_file(&self.stacks);
    }
}

/// Profiling of a node that is back as another process.
#[derive(Debug)]
pub(crate) struct Reattach {
    start: Start,
    options: Vec<Options>,
    dir: PathBuf,
    /// Processes that were sampled before the next one: those of the run's beginning count as one.
    parts: usize,
}

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
    pub(crate) fn new(start: Start, options: Vec<Options>, dir: &Path) -> Self {
        Self { start, options, dir: dir.to_owned(), parts: 1 }
    }

    /// Samples a process from now on, a cluster's node with this number; it takes as long as preparing the profiler.
    pub(crate) fn attach(&mut self, node: Option<u32>, pid: u32) -> Profiling {
        let header = ProfileHeader { node, ..ProfileHeader::new(self.start.origin, self.start.unix_ns) };
        let mut profiling = Profiling::attach(&self.options, pid, &header, &self.dir, self.parts)
            .unwrap_or_else(|e| Profiling::unavailable(&e.sentence()));
        self.parts += 1;
        profiling.start();
        profiling
    }
}

impl Returned {
    /// Continues the previous profile, and reports its gap in seconds since the run's origin.
    /// Samples from `end` on, where that is planned, are in no profile.
    pub(super) fn go_on(self, before: &mut Profiling, origin: Time, end: Option<Time>) {
        let new = self.profile.filter(|_| !before.is_of(self.node, Some(self.pid)));
        let Some((node, profiling)) = new else { return };
        let whom = node.map_or_else(|| "the broker".to_owned(), |node| format!("node {node}"));
        let again = profiling.started.filter(|at| profiling.is_on() && end.is_none_or(|end| *at < end));
        let lacks = lacking(&whom, self.gone, again.map(|at| at.since(origin).as_secs_f64()));
        before.go_on(profiling, profile_incomplete(&lacks));
    }
}

/// The gap of a profile, from a kill until the restarted process is sampled, in seconds of the run.
fn lacking(whom: &str, gone: f64, again: Option<f64>) -> String {
    let restarted = again.map_or_else(|| "are missing".to_owned(), |at| format!("begin at {at:.1} s"));
    format!("the profile of {whom} ends with the kill at {gone:.1} s; samples of the restarted process {restarted}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::tests::begun;
    use crate::usage::tests::Busy;

    #[test]
    fn it_is_said_whether_a_restarted_process_is_sampled() {
        let expected = "the profile of the broker ends with the kill at 8.0 s; samples of the restarted process begin \
                        at 13.2 s";
        assert_eq!(lacking("the broker", 8.0, Some(13.24)), expected);
        testkit::assert_ends(lacking("node 1", 8.0, None), "are missing");
    }

    #[test]
    fn a_process_and_the_one_in_its_place_are_one_profile() {
        let dir = tempfile::tempdir().expect("folder");
        let (context, record, writer) = begun(dir.path());
        let mut writer = writer.expect("an archive");
        let start = Start { origin: context.origin, unix_ns: record.origin_unix_ns, seed: 7 };
        let options = vec![Options::default()];
        let killed = Busy::new();
        let mut profiling = match start.profiling(&options, killed.pid(), Some(1), &writer) {
            Ok(profiling) => profiling,
            Err(error) => testkit::skip!("no process can be profiled here: {error}"),
        };
        profiling.start();
        thread::sleep(Duration::from_millis(400));
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
        thread::sleep(Duration::from_millis(400));
        let profiled = profiling.finish(None, &[], &mut writer);
        drop(back);
        let [profile] = profiled.profiles.as_slice() else { panic!("{:?}", profiled.warnings) };
        assert_eq!(profile.header.name(), "cpu@1");
        let before = profile.samples.iter().filter(|it| it.t < between).count();
        let after = profile.samples.len() - before;
        assert!(before > 10 && after > 10, "{before} and {after} samples");
        let sampled = profile.total_weight() as f64 * profile.header.period_ns as f64;
        let share = profile.cpu_share.expect("a share of what both used");
        assert!((share - (sampled / 1e9).min(1.0)).abs() < 1e-9, "{share}");
        let mut notes = profile.notes.iter();
        assert!(!notes.any(|it| it.contains(PROCESS_ENDED)));
        let away = profile_incomplete("it was away").finding;
        let mut found = profiled.warnings.iter();
        assert!(found.any(|it| it.finding == away), "{:?}", profiled.warnings);
        let read = Profile::open(writer.dir().join("cpu@1.stacks")).expect("a profile");
        assert_eq!(read.samples.len(), profile.samples.len());
        let files = fs::read_dir(writer.dir()).expect("a folder").flatten();
        let left = files.filter(|it| it.file_name().to_string_lossy().contains(".stacks."));
        assert_eq!(left.count(), 0, "each part is in the whole");
    }
}
