//! Any program as the load: it is started when the load begins, runs until the measured phase ends, and loads the
//! broker in its own way. bellows counts what it uses and keeps what it prints; it sees no messages of it.

mod output;
mod process;

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use load::scenario::{Operations, Scenario};
use load::{
    Control, Endpoint, Error, Outcome, PhaseTimes, Phases, Requested, RunEvent, SliceSink, Together,
};
use measure::{Clock, Metric, Nanos, Phase, Problem, Slice, Time};

use self::process::Process;
use crate::brokers;
use experiment::Experiment;
use web::redact;

/// The name of the scenario in messages.
const NAME: &str = "command";
/// How long slices are.
const SLICE: Nanos = Nanos::from_millis(100);
/// Programs are looked at this often.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// A program that is told to end has at least this long.
const LEAST_DRAIN: Nanos = Nanos::from_millis(5_000);

/// A program, with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Program {
    /// Which of the experiment's loads it is, from 0.
    load: usize,
    /// The program and its arguments, one word each; no shell reads them.
    words: Vec<String>,
    /// The same without secrets, for people.
    shown: String,
    /// The file of the run folder that keeps what it prints.
    log: String,
    /// Texts that must not be kept, and what stands in their place.
    secrets: Vec<(String, String)>,
}

impl Program {
    /// The program of `command`, with the broker's address filled in.
    fn new(command: &[String], endpoint: &Endpoint, load: usize) -> Self {
        let url = endpoint.secret_url();
        let port = endpoint.port.to_string();
        let fill = |word: &String, url: &str| {
            let word = word.replace("{url}", url).replace("{port}", &port);
            word.replace("{host}", &endpoint.host)
        };
        let (shown, hidden) = redact::words_and_secrets(command);
        let shown: Vec<String> = shown
            .iter()
            .map(|it| fill(it, &redact::url(&url)))
            .collect();
        let hidden = hidden.iter().map(|it| fill(it, &url));
        let blot = |secret| (secret, redact::BLOT.to_owned());
        let hidden = hidden.chain([endpoint.password()]);
        // A password that is the user's name is in every URL that is shown.
        let hidden = hidden.filter(|it| !it.is_empty() && *it != endpoint.user);
        let mut secrets: Vec<_> = hidden.map(blot).collect();
        secrets.push((url.clone(), redact::url(&url)));
        // One may be a part of another.
        secrets.sort_by_key(|(secret, _)| std::cmp::Reverse(secret.len()));
        Self {
            load,
            words: command.iter().map(|it| fill(it, &url)).collect(),
            shown: shown.join(" "),
            log: format!("load-{load}.log"),
            secrets,
        }
    }

    /// The same text without its secrets.
    fn without_secrets(&self, text: String) -> String {
        let secrets = self.secrets.iter();
        secrets.fold(text, |text, (secret, shown)| {
            redact::without(&text, secret, shown)
        })
    }
}

/// A load of programs that run beside each other.
#[derive(Clone, Debug)]
pub(crate) struct CommandPlan {
    programs: Vec<Program>,
    /// The folder whose programs are found before those of `PATH`.
    folder: Option<PathBuf>,
    phases: Phases,
}

impl CommandPlan {
    /// The programs of an experiment against `endpoint`; `None` where they are not its load.
    pub(crate) fn of(experiment: &Experiment, endpoint: &Endpoint) -> Option<Self> {
        if !experiment.has_commands() {
            return None;
        }
        let loads = experiment.load.iter().enumerate();
        let programs = loads.map(|(index, load)| Program::new(&load.command, endpoint, index));
        let lengths = &experiment.phases;
        Some(Self {
            programs: programs.collect(),
            folder: brokers::programs(&experiment.broker),
            phases: Phases {
                warmup: lengths.warmup.0,
                measure: Some(lengths.measure.0).filter(|length| *length > Nanos::ZERO),
                drain: lengths.drain.0.max(LEAST_DRAIN),
            },
        })
    }

    fn start(&self, sink: &mut dyn SliceSink) -> Result<Vec<Process>, Error> {
        let mut processes = Vec::with_capacity(self.programs.len());
        for program in &self.programs {
            let process = Process::start(program, self.folder.as_deref())?;
            let pid = process.pid();
            sink.event(RunEvent::ProgramStarted { pid });
            let (shown, log) = (&program.shown, &program.log);
            let note =
                format!("process {pid} loads the broker ({shown}); {log} keeps what it prints");
            sink.event(RunEvent::Note(note));
            processes.push(process);
        }
        Ok(processes)
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
        Vec::new()
    }

    fn operations(&self) -> Option<Operations> {
        None
    }

    fn requested(&self) -> Result<Option<Requested>, Error> {
        Ok(None)
    }

    fn in_flight_limit(&self) -> Option<u64> {
        None
    }

    fn phases(&self) -> Phases {
        self.phases
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
        let programs = self.start(sink)?;
        sink.event(RunEvent::Started { at: start });
        let running = Running {
            plan: self,
            together,
            control,
            sink,
            slice: Slice::default(),
            phases: Vec::new(),
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
    programs: Vec<Process>,
    error: Option<Error>,
}

impl Running<'_> {
    fn run(mut self, start: Time) -> Outcome {
        let planned = self.plan.phases;
        let measured_from = start + planned.warmup;
        let mut at = start;
        if planned.warmup > Nanos::ZERO {
            at = self.phase(Phase::Warmup, at, Some(measured_from));
        }
        if self.goes_on() {
            let until = planned.measure.map(|length| measured_from + length);
            at = self.phase(Phase::Measure, at, until);
        } else if self.programs.is_empty() {
            self.error.get_or_insert_with(nothing_measured);
        }
        let interrupted = self.control.is_stopping();
        self.programs.iter_mut().for_each(Process::terminate);
        self.phase(Phase::Drain, at, Some(at + planned.drain));
        for process in std::mem::take(&mut self.programs) {
            self.ended(process);
        }
        Outcome {
            phases: self.phases,
            interrupted,
            error: self.error,
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

    /// Reports slices of a phase until its end, or until no program is to run on; when that was.
    fn phase(&mut self, phase: Phase, from: Time, until: Option<Time>) -> Time {
        self.sink.event(RunEvent::PhaseStarted { phase, at: from });
        let mut at = from;
        loop {
            self.slice.reset(at, phase);
            let next = until.map_or(at + SLICE, |until| until.min(at + SLICE));
            let over = self.wait_until(next, phase);
            at = if over {
                Clock.now().min(next).max(at)
            } else {
                next
            };
            self.slice.end = at;
            self.slice.ends_phase = over || until.is_some_and(|until| at >= until);
            self.sink.slice(&self.slice);
            if self.slice.ends_phase {
                break;
            }
        }
        self.phases.push(PhaseTimes {
            phase,
            start: from,
            end: at,
        });
        at
    }

    /// Looks after the programs until then; whether there is nothing more to wait for in the phase.
    fn wait_until(&mut self, next: Time, phase: Phase) -> bool {
        loop {
            let programs = std::mem::take(&mut self.programs);
            for mut process in programs {
                if process.has_ended() {
                    self.ended(process);
                } else {
                    self.programs.push(process);
                }
            }
            let over = match phase {
                Phase::Drain => self.programs.is_empty(),
                Phase::Warmup | Phase::Measure => !self.goes_on(),
            };
            let now = Clock.now();
            if over || now >= next {
                return over;
            }
            thread::sleep(Duration::from(next.since(now)).min(POLL_INTERVAL));
        }
    }

    /// Hands on what became of a program; one that still runs is killed.
    fn ended(&mut self, process: Process) {
        let (end, failure) = process.end();
        if let Some(problem) = failure {
            self.error.get_or_insert(Error::Program(problem));
        }
        self.sink.event(RunEvent::ProgramEnded(end));
    }
}

fn nothing_measured() -> Error {
    Error::Program(Problem::new(
        "the load's programs ended before anything was measured",
        "in the warm-up",
        "have them run for longer, or shorten phases.warmup",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_brokers_address_is_filled_in_and_no_password_is_kept() {
        let endpoint: Endpoint = "amqp://me:s%3Ccret@h:1/v".parse().unwrap();
        let url = "amqp://me:s%3Ccret@h:1/v";
        let command = ["x", "{url}", "tcp://{host}:{port}", "--token", "t0ken"].map(str::to_owned);
        let program = Program::new(&command, &endpoint, 0);
        assert_eq!(program.words, ["x", url, "tcp://h:1", "--token", "t0ken"]);
        assert_eq!(program.shown, "x amqp://me@h:1/v tcp://h:1 --token ***");
        let said = "at amqp://me:s%3Ccret@h:1/v as me with s<cret and t0ken".to_owned();
        let kept = program.without_secrets(said);
        for secret in ["cret", "t0ken"] {
            assert!(!kept.contains(secret), "{kept}");
            assert!(!program.shown.contains(secret), "{}", program.shown);
        }
        assert!(kept.contains("h:1") && kept.contains("as me"), "{kept}");
        // A program repeats the secret, and not the word that it was given it in.
        for word in ["--password=s3cret", "me:s3cret", "a-b"] {
            let command = ["x", "-u", word, "--password", word].map(str::to_owned);
            let program = Program::new(&command, &endpoint, 0);
            let said = "no login by s3cret (a-b), xa-by".to_owned();
            let kept = program.without_secrets(said);
            let secret = if word == "a-b" { "a-b)" } else { "s3cret" };
            assert!(!kept.contains(secret), "{kept}");
            assert!(kept.ends_with("xa-by"), "{kept}");
        }
    }
}
