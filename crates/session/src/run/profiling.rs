//! The profile of a run: sampled from a moment before the measured phase to the end of the load,
//! then cut to exactly that phase by its time stamps.

use std::fs;
use std::path::{Path, PathBuf};

use archive::profile::{ErlangProcess, Profile, ProfileHeader, StacksWriter};
use archive::{RunWriter, Warning, file};
use measure::{Clock, Nanos, Time};
use profile::{Options, Sampler};

use crate::judge::{profile_findings, profile_gaps, profile_incomplete};

/// Sampling begins this long before the measured phase: intervals arrive once a second, so the
/// last chance to begin may come a second early.
pub(crate) const LEAD: Nanos = Nanos::from_millis(1_500);
/// A profile that is being taken, or the reason why there is none.
#[derive(Debug, Default)]
pub(crate) struct Profiling {
    /// The event's name, which the files carry.
    event: &'static str,
    stacks: PathBuf,
    sampler: Option<Sampler>,
    started: Option<Time>,
    warnings: Vec<Warning>,
}

/// What became of a profile.
#[derive(Debug, Default)]
pub(crate) struct Profiled {
    /// What was sampled in the window.
    pub(crate) profile: Option<Profile>,
    pub(crate) warnings: Vec<Warning>,
    /// What the profiler itself used, in cores, while it sampled.
    pub(crate) own_cores: f64,
}

impl Profiling {
    /// No profile is wanted.
    pub(crate) fn off() -> Self {
        Self::default()
    }

    /// A profile is wanted and cannot be had.
    pub(crate) fn unavailable(cause: &str) -> Self {
        let why = format!("there is no profile: {cause}");
        Self {
            warnings: vec![profile_incomplete(&why)],
            ..Self::default()
        }
    }

    /// Opens the events, switched off, and the file. The header's origin must be set.
    pub(crate) fn attach(
        options: &Options,
        pid: u32,
        header: ProfileHeader,
        dir: &Path,
    ) -> Result<Self, profile::Error> {
        let event = options.event.name;
        let stacks = dir.join(event).with_extension(file::STACKS);
        let sink = match StacksWriter::create(&stacks, header) {
            Ok(sink) => sink,
            Err(e) => {
                let cause = format!("cannot create {}: {e}", stacks.display());
                return Ok(Self::unavailable(&cause));
            }
        };
        match Sampler::attach(pid, options, sink) {
            Ok(sampler) => Ok(Self {
                event,
                stacks,
                sampler: Some(sampler),
                ..Self::default()
            }),
            Err(e) => {
                // An empty file would look like a profile without samples.
                let _ = fs::remove_file(&stacks);
                Err(e)
            }
        }
    }

    /// Throws away what was sampled; `false` where nothing was to be.
    pub(crate) fn abandon(&mut self) -> bool {
        let Some(sampler) = self.sampler.take() else {
            return false;
        };
        drop(sampler);
        self.started = None;
        // An empty file would look like a profile without samples.
        let _ = fs::remove_file(&self.stacks);
        true
    }

    /// Whether there is a profile to come.
    pub(crate) const fn is_on(&self) -> bool {
        self.sampler.is_some()
    }

    /// Whether sampling is still to be switched on.
    pub(crate) const fn is_waiting(&self) -> bool {
        self.sampler.is_some() && self.started.is_none()
    }

    /// Switches sampling on, unless it is.
    pub(crate) fn start(&mut self) {
        if self.started.is_some() {
            return;
        }
        let Some(sampler) = &mut self.sampler else {
            return;
        };
        match sampler.start() {
            Ok(()) => self.started = Some(Clock.now()),
            Err(e) => *self = Self::unavailable(&e.problem().sentence()),
        }
    }

    /// Ends sampling, cuts the profile to `window` (nanoseconds since the origin), gives its Erlang processes
    /// the names that the node has said, the others the roles that their stacks tell, and writes the forms that other tools read.
    pub(crate) fn finish(
        mut self,
        window: Option<(u64, u64)>,
        processes: &[ErlangProcess],
        writer: &mut RunWriter,
    ) -> Profiled {
        let mut profiled = Profiled {
            warnings: self.warnings,
            ..Profiled::default()
        };
        let Some(sampler) = self.sampler.take() else {
            return profiled;
        };
        let name = |extension: &str| format!("{}.{extension}", self.event);
        let sampled = self.started.map(|started| Clock.now().since(started));
        match sampler.stop() {
            Ok(outcome) => {
                profiled.warnings.extend(profile_findings(&outcome));
                profiled.own_cores = sampled.map_or(0.0, |length| {
                    outcome.own_cpu.as_secs_f64() / length.as_secs_f64().max(1e-9)
                });
            }
            Err(e) => writer.complain(&name(file::STACKS), &e.to_string()),
        }
        let mut profile = match Profile::open(&self.stacks) {
            Ok(profile) => profile,
            Err(e) => {
                writer.complain(&name(file::STACKS), &e.to_string());
                return profiled;
            }
        };
        if let Some((from, to)) = window {
            profile.cut(from, to);
        }
        profile.name_processes(processes);
        profile.take_roles_from_stacks();
        profiled.warnings.extend(profile_gaps(&profile.summary(0)));
        if let Err(e) = profile.write_stacks(&self.stacks) {
            writer.complain(&name(file::STACKS), &e.to_string());
        }
        writer.write_file(&name(file::FOLDED), profile.folded().as_bytes());
        match profile.to_pprof() {
            Ok(bytes) => writer.write_file(file::PPROF, &bytes),
            Err(e) => writer.complain(file::PPROF, &e.to_string()),
        }
        profiled.profile = Some(profile);
        profiled
    }
}
