//! `bellows record`: a profile without load.

use std::thread;
use std::time::Duration;

use archive::{
    BrokerSummary, PerMessage, PhaseSpan, Rss, RunState, RunSummary, RunWriter, SeriesPoint,
    Throughput, Warning, WarningCode, file,
};
use measure::{Clock, Counters, Interval, LatencySummary, Nanos, PerMetric, Phase, Problem, Time};

use crate::run::{Profiled, Profiling, Start};
use crate::usage::{ProcUsage, Reading, UsageSource, between};
use crate::{Error, Observer, RunOptions, RunOutcome, processes, warnings};

/// How often it is looked whether to stop.
const LOOK: Duration = Duration::from_millis(20);

/// Which process to profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// By number.
    Pid(u32),
    /// By the name of its executable (`beam.smp`) or a word of its command line such as a node
    /// name (`rabbit@host`); must be only one.
    Name(String),
}

/// What to record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordOptions {
    /// Which process.
    pub target: Target,
    /// Samples per second and thread on CPU.
    pub frequency: u32,
    /// How long; `None` until stopped.
    pub duration: Option<Nanos>,
    /// Names the run.
    pub name: String,
}

/// Profiles a process that is already running and leaves a run folder that holds the profile and
/// the CPU and memory of every second.
///
/// # Errors
/// Where no archive is kept, the process is not there, or profiling it is not permitted.
pub fn record(
    what: &RecordOptions,
    options: &RunOptions,
    control: &load::Control,
    observer: &mut dyn Observer,
) -> Result<RunOutcome, Error> {
    let pid = find(&what.target)?;
    let start = Start::now();
    let mut record = start.record(&what.name, options);
    record.experiment = serde_json::json!({
        "profile": {"pid": pid, "events": [file::CPU], "frequency": what.frequency},
    });
    let Some(writer) = start.writer(options, &mut record)? else {
        return Err(Problem::new(
            "a recording is its archive",
            "no folder for runs is given",
            "name one with --runs",
        )
        .into());
    };
    observer.step("preparing the profiler");
    let profiling = match start.profiling(what.frequency, pid, &writer) {
        Ok(profiling) => profiling,
        Err(e) => {
            writer.discard();
            return Err(e.into());
        }
    };
    let recorder = Recorder {
        pid,
        start,
        writer,
        profiling,
        usage: ProcUsage::new(Some(pid)),
        peak_rss: (0, 0),
        observer,
    };
    Ok(recorder.run(what.duration, control, record))
}

/// Takes the readings of each second while the profiler works.
struct Recorder<'a> {
    pid: u32,
    start: Start,
    writer: RunWriter,
    profiling: Profiling,
    usage: ProcUsage,
    /// Of the process and of bellows, bytes.
    peak_rss: (u64, u64),
    observer: &'a mut dyn Observer,
}

impl Recorder<'_> {
    fn run(
        mut self,
        duration: Option<Nanos>,
        control: &load::Control,
        mut record: archive::RunRecord,
    ) -> RunOutcome {
        self.observer.phase(Phase::Measure, duration);
        let first = self.usage.read();
        self.profiling.start();
        let from = Clock.now();
        let end = duration.map(|duration| from + duration);
        let mut before = first;
        let mut ended = false;
        let mut measured = Interval::new();
        measured.reset(from, Phase::Measure);
        while !ended && !control.is_stopping() && end.is_none_or(|end| Clock.now() < end) {
            let next = [Some(before.at + Nanos::SECOND), end]
                .into_iter()
                .flatten()
                .min();
            ended = self.wait(next.unwrap_or(before.at), control);
            let after = self.usage.read();
            measured.end = after.at;
            self.second(&before, &after, &measured);
            before = after;
        }
        let to = measured.end.max(from);
        let since_origin = |at: Time| at.since(self.start.origin);
        record.phases = vec![PhaseSpan {
            phase: Phase::Measure,
            start: since_origin(from).as_secs_f64(),
            end: since_origin(to).as_secs_f64(),
        }];
        let window = (since_origin(from).0, since_origin(to).0);
        let early = control.is_stopping() && duration.is_some();
        record.state = if early {
            RunState::Interrupted
        } else {
            RunState::Complete
        };
        self.observer.step("writing the profile");
        let profiled = self.profiling.finish(Some(window), &mut self.writer);
        let mut summary = summary(&self.writer, self.pid, self.peak_rss, &profiled);
        summary.warnings = profiled.warnings;
        if ended {
            summary
                .warnings
                .push(target_ended(self.pid, to.since(from)));
        }
        let length = to.since(from);
        let facts = warnings::Facts {
            interrupted: early,
            length,
            ..warnings::Facts::default()
        };
        summary
            .warnings
            .extend(warnings::warnings(&facts).into_iter().filter(|warning| {
                // Without load, the build of bellows slows nothing that is measured.
                warning.code != WarningCode::DebugBuild
            }));
        let record = crate::run::close(Some(&mut self.writer), record, summary, self.observer);
        RunOutcome {
            run_dir: Some(self.writer.dir().to_path_buf()),
            record,
            measured,
        }
    }

    /// Sleeps until `until`, a stop, or the end of the process, which it returns.
    fn wait(&self, until: Time, control: &load::Control) -> bool {
        while Clock.now() < until && !control.is_stopping() {
            let left = Duration::from(until.since(Clock.now()));
            thread::sleep(left.min(LOOK));
            if self.profiling.target_ended() || processes::stat(self.pid).is_none() {
                return true;
            }
        }
        false
    }

    fn second(&mut self, before: &Reading, after: &Reading, measured: &Interval) {
        let usage = between(before, after);
        let rss = |usage: Option<archive::ProcessUsage>| usage.map_or(0, |usage| usage.rss_bytes);
        self.peak_rss.0 = self.peak_rss.0.max(rss(usage.broker));
        self.peak_rss.1 = self.peak_rss.1.max(rss(usage.client));
        let point = SeriesPoint {
            t: before.at.since(self.start.origin).as_secs_f64(),
            dt: after.at.since(before.at).as_secs_f64(),
            phase: Phase::Measure,
            requested_rate: None,
            counters: Counters::default(),
            latency: PerMetric::from_fn(|_| LatencySummary::default()),
            loop_lag_max_ns: 0,
            broker: usage.broker,
            client: usage.client,
            steal: usage.steal,
            idle: usage.idle,
            waits: measure::Waits::default(),
            cycles: None,
        };
        self.writer.append_point(&point);
        self.observer.point(&point, measured);
    }
}

fn target_ended(pid: u32, after: Nanos) -> Warning {
    Warning::new(
        WarningCode::ProfileIncomplete,
        format!(
            "process {pid} ended after {after}: the profile covers no more; record a shorter time"
        ),
    )
}

fn summary(writer: &RunWriter, pid: u32, peak_rss: (u64, u64), profiled: &Profiled) -> RunSummary {
    let mb = |bytes: u64| (bytes > 0).then(|| bytes as f64 / 1e6);
    RunSummary {
        schema: RunSummary::SCHEMA.to_owned(),
        run_dir: writer.dir().display().to_string(),
        broker: BrokerSummary {
            kind: processes::stat(pid).map_or_else(|| "process".to_owned(), |stat| stat.command),
            version: None,
            pid: Some(pid),
        },
        sent: Throughput::default(),
        completed: Throughput::default(),
        received: Throughput::default(),
        blocked: Throughput::default(),
        requested: None,
        closed_loop: false,
        churn: None,
        faults: Vec::new(),
        ledger: None,
        latency: PerMetric::default(),
        cpu_us_per_message: PerMessage::default(),
        rss_mb: Rss {
            broker: mb(peak_rss.0),
            client: mb(peak_rss.1),
        },
        profiles: profiled.summary.iter().cloned().collect(),
        verdict: None,
        error: None,
        warnings: Vec::new(),
    }
}

/// The process that is meant.
fn find(target: &Target) -> Result<u32, Error> {
    match target {
        Target::Pid(pid) if processes::stat(*pid).is_some() => Ok(*pid),
        Target::Pid(pid) => Err(profile::Error::NoSuchProcess { pid: *pid }.into()),
        Target::Name(name) => one_named(name, &processes::named(name)),
    }
}

fn one_named(name: &str, found: &[u32]) -> Result<u32, Error> {
    match found {
        [pid] => Ok(*pid),
        [] => Err(Problem::new(
            format!("no process is called {name:?}"),
            "none has it in its command line",
            "`bellows doctor` lists the brokers that run here",
        )
        .into()),
        several => {
            let numbers: Vec<String> = several.iter().take(10).map(u32::to_string).collect();
            Err(Problem::new(
                format!("{} processes are called {name:?}", several.len()),
                numbers.join(", "),
                "choose one with --pid",
            )
            .into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_must_mean_one_process() {
        assert_eq!(one_named("beam.smp", &[7]).unwrap(), 7);
        let none = one_named("beam.smp", &[]).unwrap_err().problem().sentence();
        assert!(none.contains("no process is called \"beam.smp\""), "{none}");
        let many = one_named("beam.smp", &[7, 8])
            .unwrap_err()
            .problem()
            .sentence();
        assert!(many.contains("7, 8") && many.contains("--pid"), "{many}");
    }

    #[test]
    fn a_process_that_is_not_there_leaves_no_folder() {
        let runs = tempfile::tempdir().unwrap();
        let what = RecordOptions {
            target: Target::Pid(u32::MAX),
            frequency: 99,
            duration: Some(Nanos::SECOND),
            name: "x".into(),
        };
        let options = RunOptions {
            runs_dir: Some(runs.path().join("runs")),
            command: Vec::new(),
            bellows_exe: "bellows".into(),
        };
        let e = record(
            &what,
            &options,
            &load::Control::new(),
            &mut crate::NoObserver,
        )
        .unwrap_err();
        assert!(e.to_string().contains("no process 4294967295"), "{e}");
        assert!(!runs.path().join("runs").exists());
    }
}
