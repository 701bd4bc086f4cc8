//! Any program as the load: it is started when the load begins, runs until the measured phase ends, and loads the
//! broker in its own way. bellows counts what it uses and keeps what it prints; it sees no messages of it.

mod process;

use std::path::PathBuf;
use std::time::Duration;
use std::{env, thread};

use load::scenario::Scenario;
use load::{Control, Endpoint, Error, Outcome, PhaseClock, Phases, RunEvent, SliceSink, StartBarrier};
use measure::{Clock, Nanos, Phase, Problem, Slice, Time};

use self::process::Process;
use experiment::Experiment;
use web::redact;

const NAME: &str = "command";
const POLL_INTERVAL: Duration = Duration::from_millis(5);
const LEAST_DRAIN: Nanos = Nanos::from_millis(5_000);
/// The last part of that time, in which readers need not wait for their writers any more.
const LAST_PART: Nanos = Nanos::SECOND;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Program {
    /// Number of the experiment's load, from 0.
    load: usize,
    /// The program and its arguments, one word each; no shell reads them.
    words: Vec<String>,
    /// The command without secrets, for people.
    shown: String,
    /// The file of the run folder that keeps its output.
    log: String,
    /// Secrets, and the texts shown in their place.
    secrets: Vec<(String, String)>,
}

impl Program {
    /// The program of `command`, with the broker's address filled in; `variables` are secrets of its environment.
    fn new(command: &[String], endpoint: &Endpoint, load: usize, variables: &[String]) -> Self {
        let url = endpoint.secret_url();
        let port = endpoint.port.to_string();
        let fill = |word: &String, url: &str| {
            word.replace("{url}", url).replace("{port}", &port).replace("{host}", &endpoint.host)
        };
        let (shown, hidden) = redact::words_and_secrets(command);
        let shown: Vec<String> = shown.iter().map(|it| fill(it, &redact::url(&url))).collect();
        let hidden = hidden.iter().map(|it| fill(it, &url)).chain([endpoint.password()]);
        // A password that is the user's name is in every URL that is shown.
        let hidden = hidden.chain(variables.iter().cloned()).filter(|it| !it.is_empty() && *it != endpoint.user);
        let mut secrets: Vec<_> = hidden.map(|secret| (secret, redact::BLOT.to_owned())).collect();
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

    /// Whether its words, or those of a script among them, name this other program.
    fn names(&self, program: &str) -> bool {
        let words = self.words.iter().flat_map(|it| it.split_whitespace());
        let mut names = words.filter_map(|it| it.rsplit('/').next());
        names.any(|it| it == program)
    }

    fn without_secrets(&self, text: String) -> String {
        self.secrets.iter().fold(text, |text, (secret, shown)| redact::without(&text, secret, shown))
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
        let variables = redact::secret_variables(env::vars_os());
        let loads = experiment.load.iter().enumerate();
        let programs = loads.map(|(index, load)| Program::new(&load.command, endpoint, index, &variables));
        let lengths = &experiment.phases;
        Some(Self {
            programs: programs.collect(),
            folder: brokers::programs(&experiment.broker),
            phases: Phases::new(lengths.warmup.0, lengths.measure.0, lengths.drain.0.max(LEAST_DRAIN)),
        })
    }

    fn start(&self, sink: &mut dyn SliceSink) -> Result<Vec<Process>, Error> {
        let mut processes = Vec::with_capacity(self.programs.len());
        for program in &self.programs {
            let process = Process::start(program, self.folder.as_deref())?;
            let pid = process.pid();
            sink.event(RunEvent::ProgramStarted { pid });
            let (shown, log) = (&program.shown, &program.log);
            let note = format!("process {pid} loads the broker ({shown}); {log} keeps what it prints");
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

    fn phases(&self) -> Phases {
        self.phases
    }

    fn run(&self, together: &StartBarrier, control: &Control, sink: &mut dyn SliceSink) -> Result<Outcome, Error> {
        // A machine that is busy starts them late: where they need not wait for others, the load begins when they run.
        let started = together.is_alone().then(|| self.start(sink));
        let started = started.transpose()?;
        together.ready();
        let mut phases = PhaseClock::new(self.phases, together, control);
        while phases.begin().is_none() || Clock.now() < phases.start {
            if phases.is_called_off() {
                return Ok(Outcome::never_started());
            }
            thread::sleep(POLL_INTERVAL);
        }
        let programs = started.map_or_else(|| self.start(sink), Ok)?;
        sink.event(RunEvent::Started { at: phases.start });
        let running = Running {
            sink,
            slice: Slice::default(),
            phases,
            programs,
            ended_early: false,
            has_left: false,
            cut_at: None,
            error: None,
        };
        Ok(running.run(self.phases.drain))
    }
}

struct Running<'a> {
    sink: &'a mut dyn SliceSink,
    slice: Slice,
    phases: PhaseClock<'a>,
    programs: Vec<Process>,
    /// No program was running when the measured phase began.
    ended_early: bool,
    /// A program's descendant outlived it.
    has_left: bool,
    /// When the run was stopped while programs were told to end.
    cut_at: Option<Time>,
    error: Option<Error>,
}

impl Running<'_> {
    /// Runs programs to the end of the measured phase, then waits up to `drain` for those that are told to end.
    fn run(mut self, drain: Nanos) -> Outcome {
        if let Some(first) = self.phases.phase() {
            self.begin_slice(first, self.phases.start, true);
        }
        loop {
            self.take_ended();
            let now = Clock.now();
            self.phases.follow_stop(now);
            if self.programs.iter().all(Process::is_over) || self.has_failed() {
                self.phases.end_load(now);
            }
            let until = self.drain_end(now, drain);
            // The last slice ends with the drain.
            let within = now.min(until - Nanos(1));
            while let Some(end) = self.phases.slice_end(within) {
                self.end_slice(end.at, end.ends_phase);
                self.begin_slice(end.next, end.at, end.ends_phase);
            }
            let is_draining = self.slice.phase == Phase::Drain;
            if is_draining && (self.programs.is_empty() || now >= until) {
                return self.finish(until);
            }
            if is_draining && now + LAST_PART >= until {
                self.programs.iter_mut().for_each(|it| it.is_last = true);
            }
            let wait = self.phases.next_slice_end().since(now);
            thread::sleep(Duration::from(wait).min(POLL_INTERVAL));
        }
    }

    /// The latest end of the drain: a run that is stopped in it waits for the last part of one alone.
    fn drain_end(&mut self, now: Time, drain: Nanos) -> Time {
        let is_draining = self.slice.phase == Phase::Drain && !self.programs.is_empty();
        if is_draining && self.phases.is_drain_stopped() {
            self.cut_at.get_or_insert(now);
        }
        let planned = self.phases.last + drain;
        let cut = self.cut_at.map(|at| at + LAST_PART);
        cut.map_or(planned, |cut| cut.min(planned))
    }

    fn begin_slice(&mut self, phase: Phase, at: Time, begins_phase: bool) {
        if begins_phase && at > self.phases.start && self.slice.phase == Phase::Warmup {
            // Their guardians may tell later how they ended.
            self.ended_early = !self.programs.iter().any(Process::runs);
        }
        if begins_phase && phase == Phase::Drain {
            if self.ended_early && !self.has_failed() {
                let has_left = self.has_left || self.programs.iter().any(Process::has_left);
                self.error = Some(nothing_measured(has_left));
            }
            self.programs.iter_mut().for_each(Process::terminate);
        }
        self.slice.reset(at, phase);
        if begins_phase {
            self.sink.event(RunEvent::PhaseStarted { phase, at });
        }
    }

    fn end_slice(&mut self, at: Time, ends_phase: bool) {
        self.slice.end = at;
        self.slice.ends_phase = ends_phase;
        self.sink.slice(&self.slice);
    }

    /// Ends the drain, which lasts until then at the longest.
    fn finish(mut self, until: Time) -> Outcome {
        let end = Clock.now().min(until);
        self.end_slice(end, true);
        for process in std::mem::take(&mut self.programs) {
            self.ended(process);
        }
        Outcome {
            phases: self.phases.finish(end),
            interrupted: self.phases.is_stopped(),
            drain_cut: self.cut_at.is_some(),
            error: self.error,
            ..Outcome::started(self.phases.start)
        }
    }

    /// Whether a program has ended the load by a failure, which gives its reason once its descendants have ended, too.
    fn has_failed(&self) -> bool {
        self.error.is_some() || self.programs.iter().any(Process::has_failed)
    }

    fn take_ended(&mut self) {
        for mut process in std::mem::take(&mut self.programs) {
            let before = process.pid();
            let has_ended = process.has_ended();
            let pid = process.pid();
            if pid != before {
                self.sink.event(RunEvent::ProgramStarted { pid });
            }
            if has_ended {
                self.ended(process);
            } else {
                self.programs.push(process);
            }
        }
    }

    /// Passes on how a program ended; one that is still running is killed.
    fn ended(&mut self, process: Process) {
        self.has_left |= process.has_left();
        let at = Clock.now();
        let ended_at = (self.slice.phase != Phase::Drain).then_some(at);
        let (end, failure) = process.end(ended_at);
        if let Some(problem) = failure {
            self.error.get_or_insert(Error::Program(problem));
        }
        self.sink.event(RunEvent::ProgramEnded(end));
    }
}

fn nothing_measured(has_left: bool) -> Error {
    let (why, help) = match has_left {
        true => ("their child processes still ran", "end the script with `wait`, or remove the `&`"),
        false => ("in the warm-up", "run them longer, or shorten phases.warmup"),
    };
    Error::Program(Problem::new("the load's programs ended before anything was measured", why, help))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_named_by_a_word_or_in_a_script() {
        let endpoint: Endpoint = "amqp://h:1".parse().unwrap();
        let names = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|&it| it.to_owned()).collect();
            Program::new(&words, &endpoint, 0, &[]).names("timeout")
        };
        assert!(names(&["/usr/bin/timeout", "3", "load"]));
        assert!(names(&["sh", "-c", "timeout 3 load"]));
        assert!(!names(&["load", "--timeout", "3"]));
        // What a script left running is why nothing was measured.
        let said = |has_left| nothing_measured(has_left).problem().sentence();
        assert!(said(true).contains("still ran; end the script with `wait`"));
        assert!(said(false).contains("in the warm-up"));
    }

    #[test]
    fn the_brokers_address_is_filled_in_and_no_password_is_kept() {
        let endpoint: Endpoint = "amqp://me:s%3Ccret@h:1/v".parse().unwrap();
        let url = "amqp://me:s%3Ccret@h:1/v";
        let command = ["x", "{url}", "tcp://{host}:{port}", "--token", "t0ken"].map(str::to_owned);
        let variables = ["of-env1r0nment".to_owned()];
        let program = Program::new(&command, &endpoint, 0, &variables);
        assert_eq!(program.words, ["x", url, "tcp://h:1", "--token", "t0ken"]);
        assert_eq!(program.shown, "x amqp://me@h:1/v tcp://h:1 --token ***");
        let said = "at amqp://me:s%3Ccret@h:1/v as me with s<cret, t0ken and of-env1r0nment".to_owned();
        let kept = program.without_secrets(said);
        for secret in ["cret", "t0ken", "env1r0nment"] {
            assert!(!kept.contains(secret), "{kept}");
            assert!(!program.shown.contains(secret), "{}", program.shown);
        }
        assert!(kept.contains("h:1") && kept.contains("as me"), "{kept}");
        // A program repeats the secret, and not the word that it was given it in.
        for word in ["--password=s3cret", "me:s3cret", "a-b"] {
            let command = ["x", "-u", word, "--password", word].map(str::to_owned);
            let program = Program::new(&command, &endpoint, 0, &[]);
            let kept = program.without_secrets("no login by s3cret (a-b), xa-by".to_owned());
            let secret = if word == "a-b" { "a-b)" } else { "s3cret" };
            assert!(!kept.contains(secret), "{kept}");
            assert!(kept.ends_with("xa-by"), "{kept}");
        }
    }
}
