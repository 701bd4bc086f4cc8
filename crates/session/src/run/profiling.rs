//! The profiles of a run, one of each event: sampled from a moment before the measured phase to the end of the load,
//! then cut to exactly that phase by their time stamps.

use std::fs;
use std::path::{Path, PathBuf};

use archive::profile::{ErlangProcess, Profile, ProfileHeader, StacksWriter, USUAL_EVENT};
use archive::{RunWriter, Warning, file};
use measure::{Clock, Nanos, Problem, Time};
use profile::{Options, Sampler};

use crate::judge::{profile_findings, profile_gaps, profile_incomplete};

/// Sampling begins this long before the measured phase: intervals arrive once a second, so the
/// last chance to begin may come a second early.
pub(crate) const LEAD: Nanos = Nanos::from_millis(1_500);

/// Profiles that are being taken, and the reasons why others are not.
#[derive(Debug, Default)]
pub(crate) struct Profiling {
    profiles: Vec<EventProfile>,
    started: Option<Time>,
    warnings: Vec<Warning>,
}

/// The profile of an event.
#[derive(Debug)]
struct EventProfile {
    /// The event's name, which the files carry.
    event: String,
    stacks: PathBuf,
    sampler: Sampler,
}

/// What became of the profiles.
#[derive(Debug, Default)]
pub(crate) struct Profiled {
    /// What was sampled in the window.
    pub(crate) profiles: Vec<Profile>,
    pub(crate) warnings: Vec<Warning>,
    /// What the profiler itself used, in cores, while it sampled.
    pub(crate) own_cores: f64,
}

impl Profiling {
    /// No profile is wanted.
    pub(crate) fn off() -> Self {
        Self::default()
    }

    /// Profiles are wanted and cannot be had.
    pub(crate) fn unavailable(cause: &str) -> Self {
        let why = format!("there is no profile: {cause}");
        Self {
            warnings: vec![profile_incomplete(&why)],
            ..Self::default()
        }
    }

    /// Opens the events, switched off, and their files. The header's origin must be set.
    ///
    /// # Errors
    /// Not one of them can be opened. Where only some cannot, the others are taken, with a warning.
    pub(crate) fn attach(
        options: &[Options],
        pid: u32,
        header: &ProfileHeader,
        dir: &Path,
    ) -> Result<Self, profile::Error> {
        let mut profiling = Self::default();
        let mut first_error = None;
        for options in options {
            match EventProfile::attach(options, pid, header.clone(), dir) {
                Ok(profile) => profiling.profiles.push(profile),
                Err(e) => {
                    profiling.lacks(&options.event.name, &e);
                    first_error = first_error.or(Some(e));
                }
            }
        }
        match first_error {
            Some(e) if profiling.profiles.is_empty() => Err(e),
            _ => Ok(profiling),
        }
    }

    /// Keeps why there is no profile of an event.
    fn lacks(&mut self, event: &str, error: &profile::Error) {
        let why = format!(
            "there is no profile of {event}: {}",
            error.problem().sentence()
        );
        self.warnings.push(profile_incomplete(&why));
    }

    /// Throws away what was sampled; `false` where nothing was to be.
    pub(crate) fn abandon(&mut self) -> bool {
        let profiles = std::mem::take(&mut self.profiles);
        self.started = None;
        let any = !profiles.is_empty();
        profiles.into_iter().for_each(EventProfile::abandon);
        any
    }

    /// Whether there is a profile to come.
    pub(crate) const fn is_on(&self) -> bool {
        !self.profiles.is_empty()
    }

    /// Whether sampling is still to be switched on.
    pub(crate) const fn is_waiting(&self) -> bool {
        self.is_on() && self.started.is_none()
    }

    /// Switches sampling on, unless it is.
    pub(crate) fn start(&mut self) {
        if !self.is_waiting() {
            return;
        }
        self.started = Some(Clock.now());
        for mut profile in std::mem::take(&mut self.profiles) {
            match profile.sampler.start() {
                Ok(()) => self.profiles.push(profile),
                Err(e) => {
                    self.lacks(&profile.event, &e);
                    profile.abandon();
                }
            }
        }
    }

    /// Ends sampling, cuts the profiles to `window` (nanoseconds since the origin), gives their Erlang processes
    /// the names that the node has said, the others the roles that their stacks tell, and writes the forms that other
    /// tools read.
    pub(crate) fn finish(
        self,
        window: Option<(u64, u64)>,
        processes: &[ErlangProcess],
        writer: &mut RunWriter,
    ) -> Profiled {
        let mut profiled = Profiled {
            warnings: self.warnings,
            ..Profiled::default()
        };
        let sampled = self.started.map(|started| Clock.now().since(started));
        for (index, event) in self.profiles.into_iter().enumerate() {
            let pprof = match index {
                0 => file::PPROF.to_owned(),
                _ => file::of_event(&event.event, file::FURTHER_PPROF),
            };
            event.finish(window, processes, writer, &pprof, sampled, &mut profiled);
        }
        profiled
    }
}

impl EventProfile {
    fn attach(
        options: &Options,
        pid: u32,
        header: ProfileHeader,
        dir: &Path,
    ) -> Result<Self, profile::Error> {
        let event = options.event.name.clone().into_owned();
        let stacks = dir.join(file::of_event(&event, file::STACKS));
        let sink = StacksWriter::create(&stacks, header)
            .map_err(|e| profile::Error::Options(Problem::io("create", &stacks, &e)))?;
        match Sampler::attach(pid, options, sink) {
            Ok(sampler) => Ok(Self {
                event,
                stacks,
                sampler,
            }),
            Err(e) => {
                // An empty file would look like a profile without samples.
                let _ = fs::remove_file(&stacks);
                Err(e)
            }
        }
    }

    fn abandon(self) {
        drop(self.sampler);
        // An empty file would look like a profile without samples.
        let _ = fs::remove_file(&self.stacks);
    }

    fn finish(
        self,
        window: Option<(u64, u64)>,
        processes: &[ErlangProcess],
        writer: &mut RunWriter,
        pprof: &str,
        sampled: Option<Nanos>,
        profiled: &mut Profiled,
    ) {
        let of_event = |warning: Warning| match self.event.as_str() {
            USUAL_EVENT => warning,
            event => warning.with("event", event),
        };
        let name = |extension| file::of_event(&self.event, extension);
        match self.sampler.stop() {
            Ok(outcome) => {
                let found = profile_findings(&outcome).into_iter();
                profiled.warnings.extend(found.map(of_event));
                profiled.own_cores += sampled.map_or(0.0, |length| {
                    outcome.own_cpu.as_secs_f64() / length.as_secs_f64().max(1e-9)
                });
            }
            Err(e) => writer.complain(&name(file::STACKS), &e.to_string()),
        }
        let mut profile = match Profile::open(&self.stacks) {
            Ok(profile) => profile,
            Err(e) => return writer.complain(&name(file::STACKS), &e.to_string()),
        };
        if let Some((from, to)) = window {
            profile.cut(from, to);
        }
        profile.name_processes(processes);
        profile.take_roles_from_stacks();
        let gaps = profile_gaps(&profile.summary(0)).into_iter();
        profiled.warnings.extend(gaps.map(of_event));
        if let Err(e) = profile.write_stacks(&self.stacks) {
            writer.complain(&name(file::STACKS), &e.to_string());
        }
        writer.write_file(&name(file::FOLDED), profile.folded().as_bytes());
        match profile.to_pprof() {
            Ok(bytes) => writer.write_file(pprof, &bytes),
            Err(e) => writer.complain(pprof, &e.to_string()),
        }
        profiled.profiles.push(profile);
    }
}
