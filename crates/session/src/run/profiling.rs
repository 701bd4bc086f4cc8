//! The profile of a run: sampled from a moment before the measured phase to the end of the load,
//! then cut to exactly that phase by its time stamps.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use archive::profile::{Footer, Profile, ProfileHeader, StacksWriter};
use archive::{ProfileSummary, RunWriter, Warning, WarningCode, file};
use measure::{Clock, Nanos, Time};
use profile::{Options, Sampler};

use crate::warnings::profile_warnings;

/// Sampling begins this long before the measured phase: intervals arrive once a second, so the
/// last chance to begin may come a second early.
pub(crate) const LEAD: Nanos = Nanos::from_millis(1_500);
/// Functions in the summary.
const TOP: usize = 20;

/// A profile that is being taken, or the reason why there is none.
#[derive(Debug, Default)]
pub(crate) struct Profiling {
    stacks: PathBuf,
    sampler: Option<Sampler>,
    started: Option<Time>,
    warnings: Vec<Warning>,
}

/// What became of a profile.
#[derive(Debug, Default)]
pub(crate) struct Profiled {
    pub(crate) summary: Option<ProfileSummary>,
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
        let text = format!("there is no CPU profile: {cause}");
        Self {
            warnings: vec![Warning::new(WarningCode::ProfileIncomplete, text)],
            ..Self::default()
        }
    }

    /// Opens the events, switched off, and the file.
    pub(crate) fn attach(
        frequency: u32,
        pid: u32,
        origin: Time,
        origin_unix_ns: u64,
        dir: &Path,
    ) -> Result<Self, profile::Error> {
        let stacks = dir.join(format!("{}.stacks", file::CPU));
        let header = ProfileHeader::new(origin, origin_unix_ns);
        let sink = match StacksWriter::create(&stacks, header) {
            Ok(sink) => sink,
            Err(e) => {
                let cause = format!("cannot create {}: {e}", stacks.display());
                return Ok(Self::unavailable(&cause));
            }
        };
        let options = Options {
            frequency,
            ..Options::default()
        };
        match Sampler::attach(pid, &options, sink) {
            Ok(sampler) => Ok(Self {
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

    /// Whether the profiled process has ended.
    pub(crate) fn target_ended(&self) -> bool {
        self.sampler.as_ref().is_some_and(Sampler::target_ended)
    }

    /// Ends sampling, cuts the profile to `window` (nanoseconds since the origin), and writes the
    /// forms that other tools read.
    pub(crate) fn finish(mut self, window: Option<(u64, u64)>, writer: &mut RunWriter) -> Profiled {
        let mut profiled = Profiled {
            warnings: self.warnings,
            ..Profiled::default()
        };
        let Some(sampler) = self.sampler.take() else {
            return profiled;
        };
        let sampled = self.started.map(|started| Clock.now().since(started));
        match sampler.stop() {
            Ok(outcome) => {
                profiled.warnings.extend(profile_warnings(&outcome));
                profiled.own_cores = sampled.map_or(0.0, |length| {
                    outcome.own_cpu.as_secs_f64() / length.as_secs_f64().max(1e-9)
                });
            }
            Err(e) => writer.complain(&format!("{}.stacks", file::CPU), &e.to_string()),
        }
        let whole = match Profile::open(&self.stacks) {
            Ok(profile) => profile,
            Err(e) => {
                writer.complain(&format!("{}.stacks", file::CPU), &e.to_string());
                return profiled;
            }
        };
        let profile = match window {
            Some((from, to)) => whole.window(from, to),
            None => whole,
        };
        if let Err(e) = rewrite(&profile, &self.stacks) {
            writer.complain(&format!("{}.stacks", file::CPU), &e.to_string());
        }
        write_derived(&profile, writer);
        profiled.summary = Some(profile.summary(TOP));
        profiled
    }
}

fn write_derived(profile: &Profile, writer: &mut RunWriter) {
    writer.write_file(
        &format!("{}.folded", file::CPU),
        profile.folded().as_bytes(),
    );
    match profile.to_pprof() {
        Ok(bytes) => writer.write_file(file::PPROF, &bytes),
        Err(e) => writer.complain(file::PPROF, &e.to_string()),
    }
}

/// Replaces a stacks file by one that holds `profile` only.
fn rewrite(profile: &Profile, path: &Path) -> io::Result<()> {
    let mut replacement = archive::Replacement::begin(path)?;
    write_stacks(profile, replacement.file().try_clone()?)?;
    replacement.finish()
}

fn write_stacks(profile: &Profile, file: fs::File) -> io::Result<()> {
    let mut writer = StacksWriter::new(file, profile.header.clone());
    let mut nodes: Vec<Option<u32>> = vec![None; profile.stacks.len()];
    for sample in &profile.samples {
        let Some(stack) = copy_node(profile, &mut writer, &mut nodes, sample.stack) else {
            continue;
        };
        let name = profile
            .threads
            .get(sample.thread as usize)
            .map_or("", String::as_str);
        let thread = writer.thread(name);
        writer.sample(&archive::profile::Sample {
            stack,
            thread,
            ..*sample
        });
    }
    for note in &profile.notes {
        writer.note(note);
    }
    if profile.lost > 0 {
        writer.lost(profile.lost);
    }
    if profile.throttled > 0 {
        writer.throttled(profile.throttled);
    }
    let (from, to) = profile.span.unwrap_or_default();
    writer.finish(Footer {
        from,
        to,
        own_cpu_ns: profile.own_cpu_ns,
    })
}

/// Writes a stack from its root down to `leaf`, as far as it is new; its new index.
fn copy_node(
    profile: &Profile,
    writer: &mut StacksWriter,
    nodes: &mut [Option<u32>],
    leaf: u32,
) -> Option<u32> {
    let mut path = Vec::new();
    let mut parent = None;
    let mut at = Some(leaf);
    while let Some(index) = at {
        if let Some(known) = nodes.get(index as usize).copied().flatten() {
            parent = Some(known);
            break;
        }
        path.push(index);
        at = profile.stacks.get(index as usize)?.parent;
    }
    for index in path.into_iter().rev() {
        let frame = profile
            .frames
            .get(profile.stacks.get(index as usize)?.frame as usize)?;
        let frame = writer.frame(frame);
        let node = writer.node(parent, frame);
        *nodes.get_mut(index as usize)? = Some(node);
        parent = Some(node);
    }
    parent
}

#[cfg(test)]
mod tests {
    use archive::profile::{Frame, FrameKind, Sample};

    use super::*;

    fn sampled(path: &Path) {
        let header = ProfileHeader::new(Time(7), 9);
        let mut writer = StacksWriter::create(path, header).unwrap();
        let frame = |name: &str| Frame::new(name, "beam.smp", FrameKind::Runtime);
        for second in 0..10u64 {
            let root = writer.frame(&frame("main"));
            let root = writer.node(None, root);
            let leaf = writer.frame(&frame(&format!("f{second}")));
            let stack = writer.node(Some(root), leaf);
            let thread = writer.thread("1_scheduler");
            let t = second * 1_000_000_000;
            writer.sample(&Sample {
                t,
                weight: 1,
                stack,
                thread,
                cpu: 0,
                complete: true,
            });
        }
        writer.lost(3);
        writer
            .finish(Footer {
                from: 0,
                to: 10_000_000_000,
                own_cpu_ns: 5,
            })
            .unwrap();
    }

    #[test]
    fn a_profile_is_cut_to_the_measured_phase() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cpu.stacks");
        sampled(&path);
        let cut = Profile::open(&path)
            .unwrap()
            .window(2_000_000_000, 5_000_000_000);
        rewrite(&cut, &path).unwrap();
        let read = Profile::open(&path).unwrap();
        assert_eq!(read.samples.len(), 3);
        assert_eq!(read.folded(), cut.folded());
        assert_eq!(read.header, cut.header);
        assert_eq!((read.lost, read.own_cpu_ns, read.span), (3, 5, cut.span));
        // Names of what was sampled outside the phase are gone too.
        assert_eq!(read.frames.len(), 4);
        assert!(read.is_consistent());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
