//! A worker of a fleet: waits for a share of a load, runs it under the coordinator's orders, and reports it.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};
use std::{fmt, io};

use archive::FleetPart;
use brokers::Broker;
use brokers::managed::Workspace;
use experiment::{BrokerSpec, Experiment};
use fleet::{
    ClockLine, Envelope, Host, Inputs, LEDGER_PIECE, RecordedProcess, SliceWriter, ToCoordinator, Worker, WorkerFacts,
    WorkerInput, WorkerOutput,
};
use linux::{ProcessId, processes};
use load::scenario::Scenario;
use load::{
    Control, Error as LoadError, Outcome, PhaseClock, Phases, Plan, Requested, RunEvent, SenderClock, SliceSink,
    StartBarrier,
};
use measure::{Clock, Metric, Nanos, Phase, Problem, Slice, Time};
use profile::Sampler;
use stacks::{ProfileHeader, StacksWriter};

use super::told::{self, WorkerNews, WorkerReport};
use super::{Carrier, lock, part};
use crate::run::named_process::{self, Target};
use crate::run::{RunOptions, RunOutcome, run_on};
use crate::usage::own_use;
use crate::{Error, NoObserver};

/// How often orders, the load and the user are looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// How often they are on a broker's machine, which is to be left alone.
const WATCH_INTERVAL: Duration = Duration::from_millis(20);
/// How often its coordinator hears what a worker uses.
const USE_INTERVAL: Nanos = Nanos::from_millis(100);
/// The longest that others may take to end their parts, before this worker takes another run.
const LEAVING: Duration = Duration::from_secs(600);
/// Why a worker is lost that found at the last moment that it may not send any more.
const EXPIRED: &str = "it stopped by itself: it had not heard the coordinator";
/// The longest that a start is known before.
const LONGEST_NOTICE: Duration = Duration::from_secs(2);
/// Why a worker that its user stops is lost to the run, which goes on without it where that is tolerated.
pub(super) const STOPPED: &str = archive::WORKER_STOPPED;
/// The longest wait for others where the user stops the worker.
const STOPPING: Duration = Duration::from_secs(2);

/// This process as a worker, for its coordinator and for people; it may record a process.
pub fn facts(name: String, labels: BTreeMap<String, String>, records: Option<&Target>) -> WorkerFacts {
    let (system, ports) = (linux::machine::sysctl, "/proc/sys/net/ipv4/ip_local_port_range");
    let open_files = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum;
    let ports = std::fs::read_to_string(ports).ok();
    let ports = ports.map(|it| it.split_whitespace().collect::<Vec<_>>().join("-"));
    let limits = [
        ("nofile", Some(open_files.map_or_else(|| "unlimited".to_owned(), |it| it.to_string()))),
        ("ports", ports),
        ("somaxconn", system("net.core.somaxconn").map(|it| it.to_string())),
        ("threads-max", system("kernel.threads-max").map(|it| it.to_string())),
    ];
    let known = limits.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    WorkerFacts {
        name,
        host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        labels,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        cores: linux::cpus::usable(),
        limits: known.collect(),
        machine: machine(),
        records: records.map(recorded),
    }
}

/// The machine's clock: processes with an equal one share it.
pub(super) fn machine() -> String {
    let namespace = std::fs::read_link("/proc/self/ns/time").unwrap_or_default();
    format!("{} {}", linux::machine::boot_id(), namespace.display())
}

/// The process that a worker is told to record. Errors: there is none, or several.
fn find(target: &Target) -> Result<ProcessId, Problem> {
    let help =
        "name a broker's process that runs here with --records NAME or --records PID; `bellows doctor` lists them";
    named_process::find(target).map_err(|problem| Problem { help: help.to_owned(), ..problem })
}

/// The process that a worker is told to record, for its coordinator and for people.
fn recorded(target: &Target) -> Box<RecordedProcess> {
    let typed = || match target {
        Target::Pid(pid) => pid.to_string(),
        Target::Name(name) => name.clone(),
    };
    let found = find(target).map(|it| it.pid);
    let name = found.as_ref().ok().and_then(|pid| named_process::name_of(*pid));
    let problem = found.and_then(try_profile).err();
    Box::new(RecordedProcess { name: name.unwrap_or_else(typed), problem: problem.map(|it| it.sentence()) })
}

/// Opens a profile of a process, and closes it. Errors: this user may not, with the remedy.
fn try_profile(pid: u32) -> Result<(), Problem> {
    let sink = StacksWriter::new(io::sink(), ProfileHeader::new(Clock.now(), 0));
    Sampler::attach(pid, &profile::Options::default(), sink).map(drop)
}

/// The name of the Erlang node that a process is.
fn erlang_node(pid: u32) -> Option<String> {
    let is_emulator = processes::stat(pid).is_some_and(|it| it.command.starts_with("beam"));
    let name = named_process::name_of(pid).filter(|_| is_emulator)?;
    named_process::nodes_called(&name).into_iter().next()
}

/// This process as a worker, for one run: it waits, takes a share, and leaves.
pub struct Membership {
    host: Host<Worker>,
    name: String,
    /// The broker's process that it records.
    node: Option<String>,
    /// The most by which the clock of those who sent to its consumers could be off, when its load has ended.
    senders_bound: Mutex<Option<Nanos>>,
    orders: Mutex<Receiver<WorkerOutput>>,
    share: OnceLock<fleet::Share>,
    /// Why it has no part in a run any more.
    fenced: OnceLock<String>,
    /// The user stopped it while it carried load.
    quits: OnceLock<()>,
    /// The coordinator was told that.
    has_quit: OnceLock<()>,
    /// All others have ended their parts.
    released: OnceLock<()>,
    /// Why the Erlang node that it records is not asked for what an experiment asks of it.
    unasked: OnceLock<String>,
    /// Its share's files, which go when it does.
    files: OnceLock<Workspace>,
    /// The user's.
    process: Control,
}

impl fmt::Debug for Membership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.share)
    }
}

impl Membership {
    /// Looks for a coordinator, which `send` reaches. `session` is another random number each time, and `process` stops
    /// the worker. Errors: no thread can be started.
    pub fn start(
        session: u64,
        facts: WorkerFacts,
        mut send: impl FnMut(&Envelope<ToCoordinator>) + Send + 'static,
        process: &Control,
    ) -> Result<Arc<Self>, Error> {
        let (tell, orders) = channel();
        let hear = move |output| match output {
            WorkerOutput::Send(envelope) => send(&envelope),
            // Who needs no order more has dropped the other end.
            order => drop(tell.send(order)),
        };
        let failed = |error| Problem::new("cannot start a thread", error, "see ulimit -u");
        let (name, node) = (facts.name.clone(), facts.records.as_ref().map(|it| it.name.clone()));
        Ok(Arc::new(Self {
            name,
            node,
            senders_bound: Mutex::default(),
            host: Host::start(Worker::new(session, facts), hear).map_err(failed)?,
            orders: Mutex::new(orders),
            share: OnceLock::new(),
            fenced: OnceLock::new(),
            quits: OnceLock::new(),
            has_quit: OnceLock::new(),
            released: OnceLock::new(),
            unasked: OnceLock::new(),
            files: OnceLock::new(),
            process: process.clone(),
        }))
    }

    /// Where the messages of coordinators go.
    pub fn inputs(&self) -> Inputs<WorkerInput> {
        self.host.inputs()
    }

    /// Waits for a share; `None` where the user stops the worker, or a coordinator went away: then join again.
    pub fn wait(&self, mut meanwhile: impl FnMut()) -> Option<&fleet::Share> {
        while !self.process.is_stopping() {
            meanwhile();
            match lock(&self.orders).recv_timeout(20 * POLL_INTERVAL) {
                Ok(WorkerOutput::Prepare(share)) => return Some(self.share.get_or_init(|| share)),
                Ok(WorkerOutput::Fenced(_) | WorkerOutput::Left) | Err(RecvTimeoutError::Disconnected) => return None,
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
            }
        }
        // One that is a member of a run already would be waited for.
        self.leave();
        None
    }

    /// The run, as its coordinator calls it, and that one's number.
    pub fn run(&self) -> (String, u64) {
        self.host.with(|it| {
            let (run, epoch) = it.run();
            (run.to_owned(), epoch)
        })
    }

    /// Bytes of the files of the share. Errors: too many.
    pub fn files(&self) -> Result<u64, Error> {
        let bytes = self.share.get().map_or(0, |it| it.files);
        let most = format!("{} are the most", part::MOST_PACKED);
        let refused = Problem::new(format!("the share has files of {bytes} bytes"), most, "name smaller ones");
        Ok(refused.unless(bytes <= part::MOST_PACKED).map(|()| bytes)?)
    }

    /// Keeps these files for the share, in a folder that nobody else can read. Errors: they cannot be written.
    pub fn keep_files(&self, packed: &[u8]) -> Result<(), Error> {
        let workspace = Workspace::new("the share", None, part::MOST_PACKED)?;
        part::unpack(packed, workspace.directory())?;
        let _ = self.files.set(workspace);
        Ok(())
    }

    /// The experiment of the share. Errors: it is not understood.
    pub fn experiment(&self) -> Result<Experiment, Error> {
        Ok(part::read(self.plan(), self.files.get().map(Workspace::directory))?)
    }

    /// Records a process as a run of its own, which lasts as long as the load of the others. Errors: those of
    /// [`crate::run`]; there is no such process.
    pub fn record(self: &Arc<Self>, target: &Target, options: &RunOptions) -> Result<RunOutcome, Error> {
        let asked = part::read_recording(self.plan())?;
        let (pid, control) = (find(target)?.pid, Control::new());
        let (mut broker, experiment) = self.attach(&asked, pid, options, &control)?;
        let options = RunOptions { carrier: Carrier::Recorder(Arc::clone(self)), ..options.clone() };
        run_on(&mut *broker, &experiment, &options, &control, &mut NoObserver)
    }

    /// The process as a broker that runs, with its Erlang node where the experiment asks for it and it lets us in.
    fn attach(
        &self,
        asked: &Experiment,
        pid: u32,
        options: &RunOptions,
        control: &Control,
    ) -> Result<(Box<dyn Broker>, Experiment), Error> {
        let of_node = |node: Option<String>| {
            let memory_every = asked.broker.memory_every.filter(|_| node.is_some());
            let broker = BrokerSpec { pid: Some(pid), node, memory_every, ..asked.broker.clone() };
            Experiment { broker, ..asked.clone() }
        };
        let start = |it: &Experiment| -> Result<Box<dyn Broker>, Error> {
            it.validate()?;
            Ok(brokers::start(it, None, &options.bellows_exe, control, &mut |_| {})?)
        };
        let is_asked = asked.broker.node.is_some() || asked.broker.memory_every.is_some();
        if let Some(node) = erlang_node(pid).filter(|_| is_asked) {
            let experiment = of_node(Some(node));
            match start(&experiment) {
                Ok(broker) => return Ok((broker, experiment)),
                Err(error) => {
                    let _ = self.unasked.set(format!("the node is not asked: {}", error.problem().sentence()));
                }
            }
        }
        let experiment = of_node(None);
        Ok((start(&experiment)?, experiment))
    }

    /// The load of the others, as a worker follows it that records.
    pub(super) fn follower(self: &Arc<Self>, experiment: &Experiment) -> LoadFollower {
        let of = &experiment.phases;
        let phases = Phases::new(of.warmup.0, of.measure.0, of.drain.0);
        LoadFollower { member: Arc::clone(self), phases }
    }

    fn plan(&self) -> &str {
        self.share.get().map_or("", |it| it.plan.as_str())
    }

    pub(super) fn part(&self) -> FleetPart {
        let (worker, workers) = self.share.get().map_or((0, 0), |it| (it.worker, it.workers));
        FleetPart {
            run: self.run().0,
            worker,
            workers,
            name: self.name.clone(),
            node: self.node.clone(),
            senders_bound: *lock(&self.senders_bound),
        }
    }

    /// The outcome of its load, with the reason where that ended early.
    fn explained(&self, outcome: Outcome) -> Outcome {
        let early = self.fenced.get().map(|why| {
            let help = format!("`bellows fleet collect {}` makes one run of the folders of all workers", self.run().0);
            LoadError::Program(Problem::new("this worker's part of the run ended early", why, help))
        });
        Outcome { error: outcome.error.or(early), ..outcome }
    }

    /// The share cannot be run: reason, for people.
    pub fn refuse(&self, why: &str) {
        self.inputs().send(WorkerInput::Refused(why.to_owned()));
    }

    /// Tells the coordinator, once, that the user stops this worker.
    fn quit(&self) {
        if self.has_quit.set(()).is_ok() {
            self.refuse(STOPPED);
        }
    }

    /// Waits until all workers have ended their parts; why this one was fenced before, where it was.
    pub fn leave(&self) -> Option<&str> {
        let mut until = Instant::now() + if self.run().1 == 0 { Duration::ZERO } else { LEAVING };
        if self.is_released() {
            self.inputs().send(WorkerInput::Cleaned);
        }
        while Instant::now() < until && self.fenced.get().is_none() {
            if self.process.is_stopping() {
                until = until.min(Instant::now() + STOPPING);
                self.quit();
            }
            match lock(&self.orders).recv_timeout(POLL_INTERVAL) {
                Ok(WorkerOutput::Release) => self.inputs().send(WorkerInput::Cleaned),
                Ok(WorkerOutput::Left) | Err(RecvTimeoutError::Disconnected) => break,
                Ok(order) => self.keep(order),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
        self.fenced.get().map(String::as_str)
    }

    fn keep(&self, order: WorkerOutput) {
        if let WorkerOutput::Fenced(why) = order {
            let _ = self.fenced.set(why);
        }
    }

    fn is_released(&self) -> bool {
        self.released.get().is_some()
    }

    /// Does what the coordinator and the user order of a worker that carries nothing; waits a moment for it.
    fn watch(&self, together: &StartBarrier, control: &Control) {
        match lock(&self.orders).recv_timeout(WATCH_INTERVAL) {
            Ok(WorkerOutput::Start(at)) => together.start_at(at),
            Ok(WorkerOutput::End(at)) => together.end(at),
            Ok(WorkerOutput::Release) => {
                let _ = self.released.set(());
            }
            Ok(WorkerOutput::Stop(false)) => control.stop(),
            Ok(WorkerOutput::Stop(true)) => control.abort(),
            Ok(order @ WorkerOutput::Fenced(_)) => {
                self.keep(order);
                control.stop();
            }
            Ok(_) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => control.stop(),
        }
        if self.process.is_stopping() {
            control.stop();
        }
    }

    pub(super) fn run_id(&self) -> u32 {
        self.share.get().map_or(0, |it| it.run_id)
    }

    /// This worker's share of the load.
    pub(super) fn load(self: &Arc<Self>, plan: Plan) -> MemberLoad {
        let (worker, workers) = self.share.get().map_or((0, 1), |it| (it.worker, it.workers));
        let clock = Arc::<SenderClock>::default();
        // Until it is told of another one, theirs is this machine's.
        clock.set(0, Nanos::from_micros(1));
        let plan = plan.divided(load::Share { worker, workers });
        let sender_clock = plan.is_spread().then(|| Arc::clone(&clock));
        MemberLoad { member: Arc::clone(self), clock, plan: Plan { sender_clock, ..plan } }
    }

    fn tell(&self, told: &WorkerReport) {
        if let Ok(value) = serde_json::to_value(told) {
            self.inputs().send(WorkerInput::Event(value));
        }
    }

    /// Does what the coordinator and the user order, until the load is over.
    fn follow(&self, together: &StartBarrier, control: &Control, load: &LoadProgress, clock: &SenderClock) {
        let (mut has_told_ready, mut is_done) = (false, false);
        let worker = self.share.get().map_or(0, |it| it.worker);
        let (mut progress, mut senders, mut most) = (None, None, Nanos::ZERO);
        let mut tell_progress = || {
            let now = together.progress_of(worker);
            if let Some(now) = now.filter(|_| now != std::mem::replace(&mut progress, now)) {
                self.tell(&WorkerReport::Progress(now));
            }
        };
        let mut used = OwnUse::start();
        while !load.is_over() {
            used.report().iter().for_each(|it| self.tell(it));
            match lock(&self.orders).recv_timeout(POLL_INTERVAL) {
                Ok(WorkerOutput::Start(at)) => {
                    together.start_at(at);
                    self.wait_for_start(at);
                }
                Ok(WorkerOutput::End(at)) => together.end(at),
                Ok(WorkerOutput::News(of)) => match serde_json::from_value(of) {
                    Ok(WorkerNews::Progress(progress)) => together.tell_others_progress(progress),
                    Ok(WorkerNews::Senders(line)) => senders = Some(line),
                    // Of the same version nothing else comes.
                    Err(_) => {}
                },
                Ok(WorkerOutput::Stop(false)) => control.stop(),
                Ok(WorkerOutput::Stop(true)) => control.abort(),
                Ok(order @ WorkerOutput::Fenced(_)) => {
                    self.keep(order);
                    control.stop();
                }
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
                // The host has ended, and with it the lease.
                Err(RecvTimeoutError::Disconnected) => control.stop(),
            }
            if let Some((ahead, bound)) = senders.map(|line: ClockLine| line.at(Clock.now())) {
                clock.set(ahead, bound);
                let has_begun = together.start().is_some_and(|start| start <= Clock.now());
                most = if has_begun { most.max(bound) } else { most };
            }
            control.send_until(self.host.with(Worker::lease_until));
            if self.process.is_stopping() {
                // What somebody has stopped before ends for that.
                if !control.is_stopping() {
                    let _ = self.quits.set(());
                }
                control.stop();
            }
            if together.is_ready() && !has_told_ready {
                has_told_ready = true;
                self.inputs().send(WorkerInput::Ready);
            }
            if together.is_done() != is_done {
                is_done = !is_done;
                self.tell(&WorkerReport::Done(is_done));
            }
            tell_progress();
        }
        tell_progress();
        *lock(&self.senders_bound) = Some(most);
        if most > Nanos::ZERO {
            self.tell(&WorkerReport::SendersBound(most));
        }
    }

    /// Waits as the event loops do, and tells how late it was.
    fn wait_for_start(&self, at: Time) {
        let waited = linux::threads::own_run_queue_wait;
        let sleep_until = |at: Time| thread::sleep(Duration::from_nanos(at.since(Clock.now()).0).min(LONGEST_NOTICE));
        sleep_until(at - Nanos::from_millis(1));
        let before = waited();
        sleep_until(at);
        let now = Clock.now();
        let core_wait = waited().zip(before).map_or(Nanos::ZERO, |(now, before)| now.saturating_sub(before));
        self.inputs().send(WorkerInput::Started { at: now, core_wait });
    }
}

/// Reports of what this process uses for its part.
struct OwnUse {
    /// CPU time until it began; `None` where that cannot be read.
    began: Option<Nanos>,
    reported: Time,
}

impl OwnUse {
    fn start() -> Self {
        Self { began: own_use().map(|it| it.cpu), reported: Time(0) }
    }

    /// The next report, where one is due.
    fn report(&mut self) -> Option<WorkerReport> {
        let now = Clock.now();
        if now < self.reported + USE_INTERVAL {
            return None;
        }
        self.reported = now;
        let used = own_use()?;
        let (cpu, rss_bytes, threads) = (used.cpu.saturating_sub(self.began?), used.rss_bytes, used.threads);
        Some(WorkerReport::Usage { cpu, rss_bytes, threads })
    }
}

/// Whether the load runs; dropping the guard says that it is over, also in a panic.
#[derive(Debug, Default)]
struct LoadProgress(OnceLock<()>);

impl LoadProgress {
    fn is_over(&self) -> bool {
        self.0.get().is_some()
    }
}

struct Guard<'a>(&'a LoadProgress);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        let _ = self.0.0.set(());
    }
}

/// The share of this worker.
#[derive(Debug)]
pub(super) struct MemberLoad {
    member: Arc<Membership>,
    /// The clock of those who send to its consumers.
    clock: Arc<SenderClock>,
    plan: Plan,
}

impl Scenario for MemberLoad {
    fn name(&self) -> &'static str {
        Scenario::name(&self.plan)
    }

    fn subject(&self) -> &str {
        self.plan.subject()
    }

    fn metrics(&self) -> Vec<Metric> {
        self.plan.metrics()
    }

    fn requested(&self) -> Result<Option<Requested>, LoadError> {
        Scenario::requested(&self.plan)
    }

    fn in_flight_limit(&self) -> Option<u64> {
        self.plan.in_flight_limit()
    }

    fn connections(&self) -> u64 {
        self.plan.connections()
    }

    fn plan(&self) -> Option<&Plan> {
        Some(&self.plan)
    }

    fn is_closed_loop(&self) -> bool {
        Scenario::is_closed_loop(&self.plan)
    }

    fn phases(&self) -> Phases {
        self.plan.phases
    }

    fn run(&self, _: &StartBarrier, control: &Control, sink: &mut dyn SliceSink) -> Result<Outcome, LoadError> {
        let (member, together, progress) = (&*self.member, StartBarrier::led(), LoadProgress::default());
        let outcome = thread::scope(|scope| {
            let guard = Guard(&progress);
            scope.spawn(|| member.follow(&together, control, &progress, &self.clock));
            let mut both = Both { sink, member, writer: SliceWriter::default(), quits: false };
            let outcome = self.plan.run(&together, control, &mut both);
            drop(guard);
            outcome.map(|it| member.explained(it))
        });
        if !self.plan.is_spread() {
            *lock(&member.senders_bound) = None;
        }
        match &outcome {
            Ok(outcome) if member.quits.get().is_some() && outcome.was_stopped() => member.quit(),
            Ok(_) if control.is_expired() => member.refuse(EXPIRED),
            Ok(outcome) => {
                let latencies = outcome.censored.as_ref().map(|it| it.interval.to_slice());
                let latencies = latencies.map(|it| SliceWriter::default().write(&it));
                let ledger = outcome.ledger_part.iter().flat_map(|it| it.bytes().chunks(LEDGER_PIECE));
                ledger.for_each(|piece| member.inputs().send(WorkerInput::Ledger(piece.into())));
                member.inputs().send(WorkerInput::Ended(latencies, Box::new(told::sent(outcome))));
            }
            Err(error) => member.refuse(&error.problem().sentence()),
        }
        outcome
    }
}

/// The phases of the others' load, until all have ended theirs: nothing is sent.
#[derive(Debug)]
pub(super) struct LoadFollower {
    member: Arc<Membership>,
    phases: Phases,
}

impl Scenario for LoadFollower {
    fn name(&self) -> &'static str {
        archive::MESSAGES
    }

    fn subject(&self) -> &str {
        archive::MESSAGES
    }

    fn phases(&self) -> Phases {
        self.phases
    }

    fn run(&self, _: &StartBarrier, control: &Control, sink: &mut dyn SliceSink) -> Result<Outcome, LoadError> {
        let (member, together) = (&*self.member, StartBarrier::led());
        let mut phases = PhaseClock::new(self.phases, &together, control);
        member.unasked.get().into_iter().for_each(|why| sink.event(RunEvent::Note(why.clone())));
        member.inputs().send(WorkerInput::Ready);
        let first = loop {
            member.watch(&together, control);
            if phases.is_called_off() || member.is_released() {
                // Nothing was measured: nothing is kept.
                control.stop();
                return Ok(Outcome::never_started());
            }
            if let Some(first) = phases.begin().filter(|_| Clock.now() >= phases.start) {
                break first;
            }
        };
        let start = phases.start;
        member.inputs().send(WorkerInput::Started { at: start, core_wait: Nanos::ZERO });
        sink.event(RunEvent::Started { at: start });
        sink.event(RunEvent::PhaseStarted { phase: first, at: start });
        let mut slice = Slice::default();
        slice.reset(start, first);
        loop {
            let now = Clock.now();
            phases.follow_stop(now);
            while let Some(end) = phases.slice_end(now) {
                (slice.end, slice.ends_phase) = (end.at, end.ends_phase);
                sink.slice(&slice);
                slice.reset(end.at, end.next);
                if end.ends_phase {
                    sink.event(RunEvent::PhaseStarted { phase: end.next, at: end.at });
                }
            }
            if slice.phase == Phase::Drain && (member.is_released() || control.is_stopping()) {
                break;
            }
            member.watch(&together, control);
        }
        let end = Clock.now();
        (slice.end, slice.ends_phase) = (end, true);
        sink.slice(&slice);
        let (phases, interrupted) = (phases.finish(end), phases.is_stopped());
        Ok(member.explained(Outcome { phases, interrupted, ..Outcome::started(start) }))
    }
}

/// Reports a load to the worker's own run, and to the coordinator.
struct Both<'a> {
    sink: &'a mut dyn SliceSink,
    member: &'a Membership,
    writer: SliceWriter,
    /// Its load has ended because the user stopped it: that of the others goes on, and has no drain yet.
    quits: bool,
}

impl SliceSink for Both<'_> {
    fn slice(&mut self, slice: &Slice) {
        match self.quits && slice.phase == Phase::Drain {
            true => self.member.quit(),
            false => self.member.inputs().send(WorkerInput::Slice(self.writer.write(slice))),
        }
        self.sink.slice(slice);
    }

    fn event(&mut self, event: RunEvent) {
        let drain = if let RunEvent::PhaseStarted { phase: Phase::Drain, at } = event { Some(at) } else { None };
        self.quits |= drain.is_some() && self.member.quits.get().is_some();
        if let Some(at) = drain.filter(|_| !self.quits) {
            self.member.inputs().send(WorkerInput::LoadEnded { at });
        }
        if told::is_told(&event) && !self.quits {
            self.member.tell(&WorkerReport::Event(event.clone()));
        }
        self.sink.event(event);
    }
}
