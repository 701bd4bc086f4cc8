//! `bellows record`: a run without a load.

use std::thread;
use std::time::Duration;

use archive::BrokerSummary;
use linux::{ProcessId, cpu_time, processes};
use load::{Control, Outcome, PhaseTimes, Phases, RunEvent, Sink};
use measure::{Clock, Interval, Nanos, Phase, Problem, Time};

use super::finish::Ending;
use super::named_process::{self, Target};
use super::recording::{Recording, RunContext};
use super::{RunOptions, RunOutcome, Start, Texts};
use crate::judge::profile_incomplete;
use crate::usage::ProcUsage;
use crate::{Error, Inspection, Observer};
use experiment::ProfileSpec;

const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Options of a recording.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordOptions {
    /// Which process.
    pub target: Target,
    /// Profiling of the process.
    pub profile: ProfileSpec,
    /// Length; `None` until stopped.
    pub duration: Option<Nanos>,
    /// Names the run.
    pub name: String,
}

/// Profiles a process that is already running and leaves a run folder that holds the profile and the CPU and memory of
/// every second. Fails where no archive is kept, the process is not there, or profiling it is not permitted.
pub fn record(
    what: &RecordOptions,
    options: &RunOptions,
    control: &Control,
    observer: &mut dyn Observer,
) -> Result<RunOutcome, Error> {
    what.profile.check().map_err(Error::Usage)?;
    let process = named_process::find(&what.target)?;
    let _look = Inspection::at_process(process.pid, "bellows record");
    let start = Start::now();
    let mut record = start.record(&what.name, options);
    let sampling = what.profile.options();
    record.experiment = experiment(&what.profile, process.pid);
    let Some(writer) = start.writer(options, &mut record)? else {
        return Err(
            Problem::new("a recording is its archive", "no folder for runs is given", "name one with --runs").into()
        );
    };
    observer.step("preparing the profiler");
    let profiling = match start.profiling(&sampling, process.pid, None, &writer) {
        Ok(profiling) => profiling,
        Err(e) => {
            writer.discard();
            return Err(e.into());
        }
    };
    let context = context(process, start.origin, what.duration, sampling, options.texts);
    let usage = Box::new(ProcUsage::new(Some(process.pid)));
    let mut recording = Recording::new(context, record, Some(writer), profiling, usage, observer);
    let from = Clock.now();
    let mut watch = Watch::begin(process, from, POLL_INTERVAL, &mut recording);
    watch.until(what.duration.map(|duration| from + duration), control, &mut recording);
    let outcome = watch.outcome(control.is_stopping() && what.duration.is_some());
    let ended = (!process.is_alive()).then(|| {
        let after = recording.measured_length;
        profile_incomplete(&format!(
            "process {} ended after {after}, and so does the profile; record for a shorter time",
            process.pid
        ))
    });
    let (topology, processes) = Default::default();
    Ok(recording.finish(Ending { outcome, topology, processes, warnings: Vec::from_iter(ended) }))
}

/// The process that descends from this one and has used the most CPU so far, by number and command; `None` without any.
pub fn busiest_descendant(pid: u32) -> Option<(u32, String)> {
    let all = processes::descendants(pid).into_iter();
    let (_, busiest) = all.filter_map(|pid| Some((cpu_time(pid)?, pid))).max()?;
    Some((busiest, processes::stat(busiest)?.command))
}

/// Stands in place of a load.
pub(super) struct Watch {
    process: ProcessId,
    from: Time,
    at: Time,
    poll: Duration,
    interval: Interval,
    pub(super) ended: bool,
}

impl Watch {
    /// Begins the one phase of a recording; its end is checked for every `poll`.
    pub(super) fn begin(process: ProcessId, from: Time, poll: Duration, sink: &mut dyn Sink) -> Self {
        let phase = Phase::Measure;
        sink.event(RunEvent::Started { at: from });
        sink.event(RunEvent::PhaseStarted { phase, at: from });
        Self { process, from, at: from, poll, interval: Interval::new(), ended: false }
    }

    /// An interval each second, until the instant, the end of the process, or a stop.
    pub(super) fn until(&mut self, end: Option<Time>, control: &Control, sink: &mut dyn Sink) {
        while !self.ended && !control.is_stopping() && end.is_none_or(|end| self.at < end) {
            let next = self.at + Nanos::SECOND;
            let next = end.map_or(next, |end| end.min(next));
            while !self.ended && !control.is_stopping() && Clock.now() < next {
                let left = Duration::from(next.since(Clock.now()));
                thread::sleep(left.min(self.poll));
                self.ended = !self.process.is_alive();
            }
            self.interval.reset(self.at, Phase::Measure);
            self.at = Clock.now();
            self.interval.end = self.at;
            sink.interval(&self.interval);
        }
    }

    pub(super) fn outcome(&self, interrupted: bool) -> Outcome {
        Outcome {
            phases: vec![PhaseTimes { phase: Phase::Measure, start: self.from, end: self.at }],
            interrupted,
            ..Outcome::started(self.from)
        }
    }
}

/// Facts known before a process is recorded.
pub(super) fn context(
    process: ProcessId,
    origin: Time,
    length: Option<Nanos>,
    profile: Vec<profile::Options>,
    texts: Texts,
) -> RunContext {
    let stat = process.stat();
    RunContext {
        origin,
        phases: Phases { warmup: Nanos::ZERO, measure: length, drain: Nanos::ZERO },
        broker: BrokerSummary {
            kind: stat.map_or_else(|| "process".to_owned(), |stat| stat.command),
            version: None,
            pid: Some(process.pid),
        },
        shared_machine: true,
        sees_all_brokers: true,
        profile,
        texts,
        ..RunContext::default()
    }
}

/// The experiment in `run.json` where there is none.
pub(super) fn experiment(spec: &ProfileSpec, pid: u32) -> serde_json::Value {
    serde_json::json!({"profile": {"pid": pid, "events": spec.events, "frequency": spec.frequency}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_is_not_there_leaves_no_folder() {
        let runs = tempfile::tempdir().unwrap();
        let what = RecordOptions {
            target: Target::Pid(u32::MAX),
            profile: ProfileSpec::default(),
            duration: Some(Nanos::SECOND),
            name: "x".into(),
        };
        let options = crate::run::tests::options(runs.path().join("runs"));
        let e = record(&what, &options, &Control::new(), &mut crate::NoObserver).unwrap_err();
        assert!(e.to_string().contains("no process 4294967295"), "{e}");
        assert!(!runs.path().join("runs").exists());
    }
}
