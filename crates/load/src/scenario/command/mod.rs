//! Any program as the load: it is started when the load begins, runs until the measured phase ends, and loads the
//! broker in its own way. bellows counts what it uses and keeps what it prints.

mod process;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use measure::{Clock, Metric, MetricInfo, MetricKind, Nanos, Phase, Slice, Time};

use self::process::Process;
use super::{Operations, Scenario};
use crate::{
    Control, Error, OperationTally, Outcome, PhaseTimes, Phases, Requested, RunEvent, SliceSink,
    Together,
};

/// The key of experiment files and of JSON.
const NAME: &str = "command";
/// How long slices are.
const SLICE: Nanos = Nanos::from_millis(100);
/// Programs are looked at this often.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// A program that is told to end has this long where the drain has no length.
const LEAST_DRAIN: Nanos = Nanos::from_millis(5_000);

const fn metric(
    key: &'static str,
    name: &'static str,
    kind: MetricKind,
    meaning: &'static str,
) -> MetricInfo {
    MetricInfo {
        key,
        name,
        unit: match kind {
            MetricKind::Histogram => "ns",
            MetricKind::Counter | MetricKind::Peak => "programs",
        },
        kind,
        scenario: NAME,
        part: false,
        meaning,
    }
}

static METRICS: [MetricInfo; 7] = [
    metric(
        "ran",
        "run time",
        MetricKind::Histogram,
        "start of a program to its end",
    ),
    metric(
        "started_after",
        "start",
        MetricKind::Histogram,
        "beginning of the load to the start of a program",
    ),
    metric(
        "programs_started",
        "started",
        MetricKind::Counter,
        "programs that were started",
    ),
    metric(
        "programs_ended",
        "ended",
        MetricKind::Counter,
        "programs that ended in order, or were told to",
    ),
    metric(
        "programs_failed",
        "failed",
        MetricKind::Counter,
        "programs that ended by themselves with another exit code than 0",
    ),
    metric(
        "programs_late",
        "late",
        MetricKind::Counter,
        "programs that were started late: none",
    ),
    metric(
        "programs_not_started",
        "not started",
        MetricKind::Counter,
        "programs that were not started: none",
    ),
];

/// A program, with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The program and its arguments, one word each; no shell reads them.
    pub words: Vec<String>,
    /// The file of the run folder that keeps what it prints.
    pub log: String,
    /// A text that must not be kept, such as a URL with a password, and what stands in its place.
    pub secret: Option<(String, String)>,
}

/// A load of programs that run beside each other.
#[derive(Clone, Debug)]
pub struct CommandPlan {
    /// The programs.
    pub programs: Vec<Program>,
    /// The folder whose programs are found before those of `PATH`.
    pub folder: Option<PathBuf>,
    /// What they do in this time does not count.
    pub warmup: Nanos,
    /// How long they run after that; `None`: until they end.
    pub measure: Option<Nanos>,
    /// How long they may take to end once they were told to.
    pub drain: Nanos,
}

impl CommandPlan {
    fn metrics() -> [Metric; 7] {
        METRICS.each_ref().map(Metric::register)
    }

    fn drain(&self) -> Nanos {
        self.drain.max(LEAST_DRAIN)
    }
}

impl Scenario for CommandPlan {
    fn name(&self) -> &'static str {
        NAME
    }

    fn subject(&self) -> &str {
        "programs"
    }

    fn metrics(&self) -> Vec<Metric> {
        Self::metrics().to_vec()
    }

    fn operations(&self) -> Option<Operations> {
        let [latency, wait, begun, completed, failed, late, not_begun] = Self::metrics();
        Some(Operations {
            one: "program",
            many: "programs",
            begun,
            completed,
            failed,
            late,
            not_begun,
            latency,
            wait,
        })
    }

    fn requested(&self) -> Result<Option<Requested>, Error> {
        Ok(None)
    }

    fn in_flight_limit(&self) -> Option<u64> {
        None
    }

    fn phases(&self) -> Phases {
        Phases {
            warmup: self.warmup,
            measure: self.measure,
            drain: self.drain(),
        }
    }

    fn run(
        &self,
        together: &Together,
        control: &Control,
        sink: &mut dyn SliceSink,
    ) -> Result<Outcome, Error> {
        together.ready();
        let start = loop {
            if together.ended().is_some() || control.is_stopping() {
                return Ok(Outcome::never_started());
            }
            if let Some(start) = together.start().filter(|start| *start <= Clock.now()) {
                break start;
            }
            thread::sleep(POLL_INTERVAL);
        };
        let mut programs = Vec::with_capacity(self.programs.len());
        for program in &self.programs {
            let process = Process::start(program, self.folder.as_deref())?;
            sink.event(RunEvent::LoadProcess { pid: process.pid() });
            programs.push(process);
        }
        sink.event(RunEvent::Started { at: start });
        let running = Running {
            plan: self,
            together,
            control,
            sink,
            slice: Slice::with(&Self::metrics()),
            phases: Vec::new(),
            tally: OperationTally::default(),
            programs,
            error: None,
        };
        Ok(running.run(start))
    }
}

/// Programs that run.
struct Running<'a> {
    plan: &'a CommandPlan,
    together: &'a Together,
    control: &'a Control,
    sink: &'a mut dyn SliceSink,
    slice: Slice,
    phases: Vec<PhaseTimes>,
    tally: OperationTally,
    programs: Vec<Process>,
    error: Option<Error>,
}

impl Running<'_> {
    fn run(mut self, start: Time) -> Outcome {
        let [_, _, begun, ..] = CommandPlan::metrics();
        let count = self.programs.len() as u64;
        self.slice.counts.add(begun, count);
        self.tally.counts.add(begun, count);
        let measured_from = start + self.plan.warmup;
        let mut at = start;
        if self.plan.warmup > Nanos::ZERO {
            at = self.phase(Phase::Warmup, at, Some(measured_from));
        }
        if self.goes_on() {
            let until = self.plan.measure.map(|length| measured_from + length);
            at = self.phase(Phase::Measure, at, until);
        }
        let interrupted = self.control.is_stopping();
        let end = at + self.plan.drain();
        self.programs.iter_mut().for_each(Process::terminate);
        self.phase(Phase::Drain, at, Some(end));
        for process in std::mem::take(&mut self.programs) {
            self.ended(process);
        }
        Outcome {
            phases: self.phases,
            interrupted,
            error: self.error,
            tallies: BTreeMap::from([(NAME, self.tally)]),
            ..Outcome::started(start)
        }
    }

    /// Whether programs are to run on.
    fn goes_on(&self) -> bool {
        !self.programs.is_empty()
            && self.error.is_none()
            && self.together.ended().is_none()
            && !self.control.is_stopping()
    }

    /// Reports slices of a phase until its end, or until no program runs; when that was.
    fn phase(&mut self, phase: Phase, from: Time, until: Option<Time>) -> Time {
        self.sink.event(RunEvent::PhaseStarted { phase, at: from });
        let mut at = from;
        let mut first = true;
        loop {
            let begun = std::mem::replace(&mut first, false);
            if !begun {
                self.slice.reset(at, phase);
            } else {
                self.slice.start = at;
                self.slice.phase = phase;
            }
            let next = until.map_or(at + SLICE, |until| until.min(at + SLICE));
            let over = self.wait_until(next, phase);
            at = if over { Clock.now().min(next) } else { next };
            self.slice.end = at;
            let ends = over || until.is_some_and(|until| at >= until);
            self.slice.ends_phase = ends;
            self.sink.slice(&self.slice);
            if ends {
                break;
            }
        }
        self.phases.push(PhaseTimes {
            phase,
            start: from,
            end: at,
        });
        self.slice.reset(at, phase);
        at
    }

    /// Looks after the programs until then; whether there is nothing more to wait for in the phase.
    fn wait_until(&mut self, next: Time, phase: Phase) -> bool {
        loop {
            let (ended, running): (Vec<Process>, Vec<Process>) = std::mem::take(&mut self.programs)
                .into_iter()
                .partition(|process| process.has_ended());
            self.programs = running;
            for process in ended {
                self.ended(process);
            }
            let over = match phase {
                Phase::Drain => self.programs.is_empty(),
                Phase::Warmup | Phase::Measure => !self.goes_on(),
            };
            if over || Clock.now() >= next {
                return over;
            }
            let left = Duration::from(next.since(Clock.now()));
            thread::sleep(left.min(POLL_INTERVAL));
        }
    }

    /// Counts a program that has ended, and hands its output on; one that has not is killed.
    fn ended(&mut self, mut process: Process) {
        process.kill();
        let [ran, after, _, completed, failed, ..] = CommandPlan::metrics();
        self.slice.latencies.record(ran, process.ran());
        self.slice.latencies.record(after, Nanos::ZERO);
        let counted = match process.failure() {
            None => completed,
            Some(error) => {
                self.tally.fail(error.clone());
                self.error.get_or_insert(error);
                failed
            }
        };
        self.slice.counts.add(counted, 1);
        self.tally.counts.add(counted, 1);
        self.sink.event(RunEvent::Output {
            file: process.log().to_owned(),
            text: process.output(),
        });
    }
}
