//! A load of messages that a fleet carries. The coordinator's scenario of a worker is a [`remote`] one, which hands a
//! share of the plan over and passes on what the worker reports; the worker's own is the [`member`], which runs that
//! share as [`crate::run`] runs any plan, and reports it twice: to its own run, and to the coordinator. Workers that
//! record a broker's process instead have a run of their own, of which the coordinator's takes the [`nodes`].

mod member;
mod nodes;
mod part;
mod remote;
mod told;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use archive::{
    Facts, Finding, FleetPart, LoopUse, ProducerTime, ScenarioSummary, Tier, Warning, WorkerAbsence, WorkerShare,
    WorkerSummary,
};
use experiment::Experiment;
use fleet::{
    ClockLine, Coordinator, CoordinatorInput, CoordinatorOutput, Envelope, Flaw, Host, Inputs, LoadOutcome, Member,
    Outage, PIECE, Piece, PieceRequest, RunRules, ToWorker,
};
use linux::ProcessUse;
use load::scenario::{Scenario, Shares};
use load::{Endpoint, Phases, Placement, Plan, Requested};
use measure::{Clock, EarlyDeliveries, Nanos, Phase, Problem, Slice, Time, Waits, counted, wall_clock_unix_ns};

use super::companion::{Collected, Companion, LoadEnd, Second};
use crate::usage::sum;
use crate::{Error, Observer};
pub use member::{Membership, facts};
pub use nodes::WorkerLink;
use nodes::{RecordedNode, sentence};
use remote::Remote;

/// A worker that has not heard of its coordinator for so long stops.
const LEASE: Nanos = Nanos::from_millis(5_000);
/// A worker that starts later than this does not start with the others.
const LATE: Nanos = Nanos::from_millis(1);
/// Probes of each clock before the start.
const PROBES: u32 = 200;
/// Free workers call four times a second: after so long all have.
const CALLS: Duration = Duration::from_millis(1_200);
/// The longest wait for workers, where their number was asked for, and where any do.
const PATIENT: Duration = Duration::from_secs(60);
const IMPATIENT: Duration = Duration::from_secs(5);
/// Workers of a run whose coordinator was killed are free again after their lease.
const OTHERS: Duration = Duration::from_secs(7);
/// Other runs that are named.
const MOST_OTHERS: usize = 3;
/// A worker of which nothing came for so long is named.
const SILENT: Nanos = Nanos::from_millis(2_000);
/// The longest that workers may take to leave when all is over.
const LEAVING: Duration = Duration::from_secs(2);
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Characters of a name or label of a worker that are kept.
const LONGEST_NAME: usize = 64;
/// Labels of a worker that are kept.
const MOST_LABELS: usize = 32;

/// Who carries the load of messages.
#[derive(Clone, Debug, Default)]
pub enum Carrier {
    /// This process.
    #[default]
    Alone,
    /// Workers, which this process coordinates.
    Fleet(Arc<FleetRun>),
    /// This process, as one of several workers.
    Member(Arc<Membership>),
    /// Others, while this process records a broker's process.
    Recorder(Arc<Membership>),
}

impl Carrier {
    /// The load of an experiment's messages, which are marked with this number of the run.
    pub(crate) fn scenario(
        &self,
        experiment: &Experiment,
        endpoint: &Endpoint,
        run_id: u32,
    ) -> Result<Box<dyn Scenario>, load::Error> {
        let plan = |run_id| experiment.plan(endpoint, run_id);
        Ok(match self {
            Self::Alone => Box::new(plan(run_id)?),
            Self::Fleet(fleet) => Box::new(fleet.shares(experiment, endpoint, plan(run_id)?)?),
            Self::Member(member) => Box::new(member.load(plan(member.run_id())?)),
            Self::Recorder(member) => Box::new(member.follower(experiment)),
        })
    }

    /// Refuses what only a fleet can do, where there is none: a worker has but a share of the connections.
    pub(crate) fn check(&self, experiment: &Experiment) -> Result<(), Error> {
        if !matches!(self, Self::Alone) {
            return Ok(());
        }
        let mut load = experiment.load.iter();
        let Some(at) = load.position(|it| it.place == Placement::Spread) else { return Ok(experiment.check_room()?) };
        let help = "run it with --fleet, or leave it out";
        let refused = Problem::new("one process has no workers to spread producers and consumers over", "spread", help);
        Err(Error::Usage(experiment.explain(refused.about(format!("load.{at}.place")))))
    }

    /// Keeps what became of workers, or of this one.
    pub(crate) fn companion(&self) -> Option<Box<dyn Companion>> {
        match self {
            Self::Alone => None,
            Self::Fleet(fleet) => Some(Box::new(Workers(Arc::clone(fleet)))),
            Self::Member(member) | Self::Recorder(member) => Some(Box::new(OwnPlace(Arc::clone(member)))),
        }
    }

    /// The place of this process in a run of a fleet.
    pub(crate) fn part(&self) -> Option<FleetPart> {
        match self {
            Self::Member(member) | Self::Recorder(member) => Some(member.part()),
            Self::Fleet(fleet) => {
                Some(FleetPart { run: fleet.name.clone(), workers: fleet.workers() as u32, ..FleetPart::default() })
            }
            Self::Alone => None,
        }
    }

    pub(crate) fn fleet(&self) -> Option<Arc<FleetRun>> {
        match self {
            Self::Fleet(fleet) => Some(Arc::clone(fleet)),
            Self::Alone | Self::Member(_) | Self::Recorder(_) => None,
        }
    }

    /// How many nodes of the broker are recorded by others.
    pub(crate) fn recorders(&self) -> usize {
        self.fleet().map_or(0, |it| it.host.with(|it| it.members().iter().filter(|it| it.records()).count()))
    }
}

/// One run of a fleet, on its coordinator.
pub struct FleetRun {
    epoch: u64,
    host: Host<Coordinator>,
    inboxes: Arc<Inboxes>,
    link: Box<dyn WorkerLink>,
    is_started: AtomicBool,
    is_stopped: AtomicBool,
    /// Workers that may be lost.
    tolerate: usize,
    /// How the loads of workers went.
    ends: Mutex<BTreeMap<usize, ShareEnd>>,
    /// Its name: the experiment's, and the epoch.
    name: String,
    files: Arc<SharedFiles>,
    /// The load of each worker.
    parts: OnceLock<Vec<OwnPart>>,
    /// Lost workers that the run goes on without: since when after the start of the load.
    gaps: Mutex<BTreeMap<usize, Nanos>>,
    /// The most by which clocks of producers and their consumers may be apart; zero where they are the same.
    senders_bound: Mutex<Nanos>,
    /// The broker's nodes that workers have recorded, once the load is over.
    nodes: Mutex<Vec<RecordedNode>>,
    /// Usage of the workers' processes since their parts began.
    used: Mutex<BTreeMap<usize, ProcessUse>>,
}

/// Files that the load of a run names, for which its workers ask.
#[derive(Debug, Default)]
pub struct SharedFiles(OnceLock<Vec<u8>>);

impl SharedFiles {
    /// The name of all of them together.
    pub const NAME: &'static str = "files";

    /// The piece that is asked for; without bytes beyond the end.
    pub fn piece(&self, request: &PieceRequest) -> Piece {
        let packed = self.0.get().map(Vec::as_slice).unwrap_or_default();
        let from = usize::try_from(request.from).unwrap_or(usize::MAX).min(packed.len());
        let end = from.saturating_add(PIECE).min(packed.len());
        let mut piece = Piece::answer(request, 0, String::new());
        piece.bytes = packed.get(from..end).unwrap_or_default().to_vec();
        piece
    }
}

/// The part of the plan that a worker has.
#[derive(Debug)]
struct OwnPart {
    share: WorkerShare,
    /// Its shares of all producers and consumers.
    producers: f64,
    consumers: f64,
    requested: Option<Requested>,
    /// Its consumers get what its own producers send, and nothing else.
    keeps_own: bool,
}

impl OwnPart {
    fn of(plan: &Plan, share: load::Share) -> Self {
        let own = plan.clone().divided(share);
        let (mut producers, mut consumers, mut destinations) = ((0, 0), (0, 0), 0);
        for group in &own.groups {
            producers = (producers.0 + group.own_producers().count(), producers.1 + group.producer_count());
            consumers = (consumers.0 + group.own_consumers().count(), consumers.1 + group.consumer_count());
            destinations += group.known_among(group.destinations.len()).count();
        }
        let share = |(own, all): (usize, usize)| own as f64 / all.max(1) as f64;
        Self {
            share: WorkerShare {
                producers: producers.0 as u64,
                consumers: consumers.0 as u64,
                destinations: destinations as u64,
            },
            producers: share(producers),
            consumers: share(consumers),
            requested: own.requested().ok().flatten(),
            keeps_own: consumers.0 > 0 && own.groups.len() == 1 && !own.is_spread(),
        }
    }
}

/// How the load of a worker went, with sums of its measured slices.
#[derive(Debug, Default)]
struct ShareEnd {
    outcome: LoadOutcome,
    waits: Waits,
    loop_lag_max: Nanos,
}

impl fmt::Debug for FleetRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fleet of run {:x}", self.epoch)
    }
}

/// Reports of workers that nobody has taken yet: ten slices a second of each.
#[derive(Debug, Default)]
struct Inboxes {
    workers: Mutex<BTreeMap<usize, Inbox>>,
    ignored: Mutex<Vec<String>>,
    is_finished: AtomicBool,
}

#[derive(Debug)]
struct Inbox {
    send: Sender<CoordinatorOutput>,
    receive: Option<Receiver<CoordinatorOutput>>,
}

impl Default for Inbox {
    fn default() -> Self {
        let (send, receive) = channel();
        Self { send, receive: Some(receive) }
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Inboxes {
    fn take(&self, output: CoordinatorOutput) {
        let worker = match &output {
            CoordinatorOutput::Ready(worker)
            | CoordinatorOutput::Started { worker, .. }
            | CoordinatorOutput::Slice(worker, _)
            | CoordinatorOutput::Censored(worker, _)
            | CoordinatorOutput::Event(worker, _)
            | CoordinatorOutput::Ledger(worker, _)
            | CoordinatorOutput::LoadEnded(worker, _)
            | CoordinatorOutput::Ended(worker, _)
            | CoordinatorOutput::Lost(worker, _) => *worker,
            CoordinatorOutput::Ignored(name, why) => {
                let mut ignored = lock(&self.ignored);
                if ignored.len() < MOST_LABELS {
                    ignored.push(format!("worker {} has no part in this run: {why}", clean(name)));
                }
                return;
            }
            CoordinatorOutput::Finished => {
                self.is_finished.store(true, Ordering::Release);
                return;
            }
            CoordinatorOutput::Send(_) => return,
        };
        // Who needs nothing more has dropped the other end.
        let _ = lock(&self.workers).entry(worker).or_default().send.send(output);
    }

    fn receiver(&self, worker: usize) -> Option<Receiver<CoordinatorOutput>> {
        lock(&self.workers).entry(worker).or_default().receive.take()
    }
}

/// A name or label as a worker says it, without what harms a terminal or fills a page.
fn clean(text: &str) -> String {
    text.chars().filter(|it| !it.is_control()).take(LONGEST_NAME).collect()
}

impl FleetRun {
    /// Refuses what no fleet carries yet, before anything is started.
    pub fn check(experiment: &Experiment) -> Result<(), Error> {
        part::check(experiment).map_err(|problem| Error::Usage(experiment.explain(problem)))
    }

    /// A run of this name, whose workers `send` reaches, and which goes on where so many of them are lost. Errors: no
    /// thread can be started.
    pub fn start(
        name: &str,
        tolerate: usize,
        mut send: impl FnMut(&Envelope<ToWorker>) + Send + 'static,
        link: Box<dyn WorkerLink>,
    ) -> Result<Arc<Self>, Error> {
        let epoch = wall_clock_unix_ns();
        let name = format!("{}-{epoch:x}", archive::sanitised(name));
        let rules = RunRules { run: name.clone(), lease: LEASE, tolerate, late: LATE, probes: PROBES };
        let inboxes = Arc::new(Inboxes::default());
        let taken = Arc::clone(&inboxes);
        let hear = move |output| match output {
            CoordinatorOutput::Send(envelope) => send(&envelope),
            output => taken.take(output),
        };
        let failed = |error| Problem::new("cannot start a thread", error, "see ulimit -u");
        let host = Host::start(Coordinator::new(epoch, rules), hear).map_err(failed)?;
        Ok(Arc::new(Self {
            epoch,
            host,
            inboxes,
            link,
            is_started: AtomicBool::new(false),
            is_stopped: AtomicBool::new(false),
            tolerate,
            ends: Mutex::default(),
            name,
            files: Arc::default(),
            parts: OnceLock::new(),
            gaps: Mutex::default(),
            senders_bound: Mutex::default(),
            nodes: Mutex::default(),
            used: Mutex::default(),
        }))
    }

    /// The number of the run, which all its messages carry.
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The files that workers ask for.
    pub fn files(&self) -> Arc<SharedFiles> {
        Arc::clone(&self.files)
    }

    /// Where the messages of workers go.
    pub fn inputs(&self) -> Inputs<CoordinatorInput> {
        self.host.inputs()
    }

    /// Waits for workers: until so many are free, or else for those that are, and for a moment for those of other runs,
    /// which `others` counts by the names of these. All that are free by then are the run's. Errors: there are none, or
    /// too few within a minute, or they are of another version.
    pub fn gather(
        &self,
        wanted: Option<usize>,
        others: &mut dyn FnMut() -> BTreeMap<String, usize>,
        control: &load::Control,
        observer: &mut dyn Observer,
    ) -> Result<(), Error> {
        wanted.map_or(Ok(()), |wanted| self.check_tolerance(wanted))?;
        observer.step("waiting for workers");
        let began = Instant::now();
        let mut gathering = Gathering { wanted, quiet_since: Duration::ZERO };
        let mut told = 0;
        loop {
            let (free, busy) = (self.host.with(Coordinator::joined), others());
            let waited = began.elapsed();
            match gathering.look(waited, free, !busy.is_empty()) {
                Some(true) => {
                    let all = free + busy.values().sum::<usize>();
                    if let Some(busy) = busy_with(&busy).filter(|_| wanted.is_none()) {
                        observer.step(&format!("{busy}, and not part of this run: --workers {all} waits for all"));
                    }
                    break;
                }
                Some(false) => return Err(gathering.too_few(free, &busy, waited).into()),
                None => {}
            }
            if control.is_stopping() {
                return Err(Error::Stopped { during: "start" });
            }
            if waited.as_secs() > told {
                told = waited.as_secs();
                let busy = busy_with(&busy).map_or_else(String::new, |it| format!("; {it}"));
                observer.missing(&format!("waiting for workers: {}{busy}", are_free(free)), waited);
            }
            thread::sleep(POLL_INTERVAL);
        }
        self.inputs().send(CoordinatorInput::Close);
        while !self.host.with(Coordinator::is_closed) {
            thread::sleep(POLL_INTERVAL);
        }
        self.host.with(|it| it.members().iter().try_for_each(check_version))?;
        self.check_tolerance(self.workers())?;
        let workers = counted(self.workers() as u64, "worker");
        observer.step(&format!("{workers} of the fleet, run {}", self.name));
        self.recorders().iter().for_each(|it| observer.step(&it.sentence()));
        Ok(())
    }

    /// Refuses to go on without any worker.
    fn check_tolerance(&self, workers: usize) -> Result<(), Problem> {
        let cause = format!("the run has {}, and all of them may be lost", counted(workers as u64, "worker"));
        let help = "give a smaller --tolerate, or start more workers";
        Problem::new(cause, format!("--tolerate {}", self.tolerate), help).unless(self.tolerate < workers)
    }

    /// How many workers carry the load: the first of all.
    fn workers(&self) -> usize {
        self.host.with(|it| it.members().iter().filter(|it| !it.records()).count())
    }

    /// The load as the shares of all workers.
    fn shares(
        self: &Arc<Self>,
        experiment: &Experiment,
        endpoint: &Endpoint,
        plan: Plan,
    ) -> Result<Shares, load::Error> {
        let named = |it: &Member| (clean(&it.facts.name), it.facts.machine == member::machine());
        let loading = |it: &&Member| !it.records();
        let all: Vec<(String, bool)> = self.host.with(|it| it.members().iter().filter(loading).map(named).collect());
        part::check_reach(experiment, &all)?;
        let text = part::text(experiment, endpoint, &plan)?;
        let packed = part::pack(experiment)?;
        let files = packed.len() as u64;
        let _ = self.files.0.set(packed);
        let workers = all.len();
        let share = |worker: usize| fleet::Share {
            worker: worker as u32,
            workers: workers as u32,
            plan: text.clone(),
            run_id: plan.run_id,
            files,
        };
        let is_spread = plan.groups.iter().any(|it| it.placement == Placement::Spread);
        let remote = |(worker, (name, _)): (usize, (String, bool))| -> Box<dyn Scenario> {
            let senders = self.senders_to(worker).filter(|_| is_spread);
            Box::new(Remote::new(Arc::clone(self), worker, name, share(worker), plan.phases).with_senders(senders))
        };
        let all_shares = (0..workers as u32).map(|worker| load::Share { worker, workers: workers as u32 });
        let _ = self.parts.set(all_shares.map(|it| OwnPart::of(&plan, it)).collect());
        self.share_recordings(experiment)?;
        let remotes = all.into_iter().enumerate().map(remote).collect();
        Ok(Shares::new(plan, remotes))
    }

    /// The worker whose producers send to the consumers of this one in a load that is spread, if its clock is another.
    fn senders_to(&self, worker: usize) -> Option<usize> {
        self.host.with(|it| {
            let members = it.members();
            let workers = members.iter().filter(|it| !it.records()).count();
            let senders = (worker + workers).checked_sub(1)?.checked_rem(workers)?;
            let machine = |of: usize| members.get(of).map(|it| &it.facts.machine);
            (machine(worker) != machine(senders)).then_some(senders)
        })
    }

    /// How far the clock of a worker's senders is ahead of its own.
    fn clock_line(&self, worker: usize, senders: usize, now: Time) -> Option<ClockLine> {
        let line = self.host.with(|it| {
            let clock = |of: usize| it.members().get(of).map(|it| &it.clock);
            clock(worker)?.line_to(clock(senders)?, now)
        })?;
        if self.is_started.load(Ordering::Acquire) {
            self.keep_senders_bound(line.bound_for(remote::SENDERS_INTERVAL));
        }
        Some(line)
    }

    fn keep_senders_bound(&self, bound: Nanos) {
        let mut most = lock(&self.senders_bound);
        *most = bound.max(*most);
    }

    /// Has all start then; once.
    fn start_at(&self, at: Time, phases: Phases) {
        if !self.is_started.swap(true, Ordering::AcqRel) {
            let length = phases.measure.map(|measure| phases.warmup + measure);
            self.inputs().send(CoordinatorInput::Start { at, length, drain: phases.drain });
        }
    }

    /// Has all stop in order; once.
    fn stop(&self) {
        if !self.is_stopped.swap(true, Ordering::AcqRel) {
            self.inputs().send(CoordinatorInput::Stop(false));
        }
    }

    /// Looks at a worker.
    fn worker<T>(&self, worker: usize, look: impl FnOnce(&Member) -> T) -> Option<T> {
        self.host.with(|it| it.members().get(worker).map(look))
    }

    /// For how long a worker has not been heard, where that is long.
    fn silence_of(&self, worker: usize, now: Time) -> Option<Nanos> {
        self.worker(worker, |it| now.since(it.heard_at())).filter(|silent| *silent >= SILENT)
    }

    /// The end of a run whose worker was lost for this reason, where that is no worker's own.
    fn parted(&self, why: &str) -> Option<load::Error> {
        let outage = self.host.with(Coordinator::outage).filter(|it| it.to_string() == why)?;
        let by_itself = match outage {
            Outage::Coordinator(_) => "give this machine free cores, and do not suspend it",
            Outage::Server(_) => "see what ended the NATS server",
            Outage::All => "check the network and the NATS server",
        };
        let help = format!("{by_itself}; `bellows fleet collect {}` makes one run of what the workers kept", self.name);
        Some(load::Error::Program(Problem::new("the run lost its workers", why, help)))
    }

    /// An instant of a worker's clock by the own one.
    fn moved(&self, worker: usize, at: Time) -> Time {
        let moved = self.worker(worker, |it| it.clock.to_coordinator(at)).flatten();
        moved.map_or_else(|| Clock.now(), |it| it.0)
    }

    fn keep(&self, worker: usize, outcome: LoadOutcome, measured: &Slice) {
        let end = ShareEnd { outcome, waits: measured.waits, loop_lag_max: measured.loop_lag_max };
        lock(&self.ends).insert(worker, end);
    }

    fn keep_use(&self, worker: usize, used: ProcessUse) {
        lock(&self.used).insert(worker, used);
    }

    /// Usage of all workers together since their parts began.
    pub(crate) fn used(&self) -> ProcessUse {
        lock(&self.used).values().copied().fold(ProcessUse::default(), sum)
    }

    fn part(&self, worker: usize) -> Option<&OwnPart> {
        self.parts.get()?.get(worker)
    }

    /// Whether the run goes on without this worker, of which nothing came from then on.
    fn goes_on_without(&self, worker: usize, from: Nanos) -> bool {
        let goes_on = self.host.with(|it| it.goes_on() && it.gaps().any(|(gap, _)| gap == worker));
        if goes_on {
            lock(&self.gaps).insert(worker, from);
        }
        goes_on
    }

    /// Messages of lost workers that were requested between two instants after the start.
    pub(crate) fn missing(&self, from: Nanos, to: Nanos) -> f64 {
        let gaps = lock(&self.gaps);
        let of = |(worker, gap): (&usize, &Nanos)| {
            let requested = self.part(*worker)?.requested.as_ref()?;
            Some(requested.messages(from.max(*gap), to.max(*gap)))
        };
        gaps.iter().filter_map(of).sum()
    }

    /// The workers, each with its part of the load, of a run with this origin.
    fn summaries(&self, origin: Time) -> Vec<WorkerSummary> {
        let (ends, gaps, none) = (lock(&self.ends), lock(&self.gaps), ShareEnd::default());
        self.host.with(|it| {
            let goes_on = it.goes_on();
            let of = |(worker, member): (usize, &Member)| {
                let mut of = summary(member, ends.get(&worker).unwrap_or(&none), self.part(worker), origin);
                of.absence.tolerated = goes_on && gaps.contains_key(&worker);
                of
            };
            it.members().iter().enumerate().filter(|(_, it)| !it.records()).map(of).collect()
        })
    }

    /// The facts of a run as they are of a worker's share alone. One without producers is judged by what all send, and
    /// so are consumers that get messages of others.
    pub(crate) fn share(&self, run: &Facts, worker: usize) -> Facts {
        let ends = lock(&self.ends);
        let (Some(end), Some(part)) = (ends.get(&worker), self.part(worker)) else { return Facts::default() };
        let outcome = &end.outcome;
        let mut own = Facts {
            loops: outcome.threads.iter().map(LoopUse::from).collect(),
            spun: outcome.spun,
            loop_lag_max_ns: end.loop_lag_max.0,
            ..run.clone()
        };
        if part.share.producers == 0 {
            return own;
        }
        own.ended.unsent = outcome.unsent;
        let rate = |messages: f64| messages / run.seconds.max(1e-9);
        let sent = rate(outcome.measured.sent as f64);
        let (from, to) = measured_span(outcome);
        let requested = part.requested.as_ref().map(|it| rate(it.messages(from, to)));
        let of_all = requested.zip(run.requested_rate).map_or(1.0, |(own, all)| own / all.max(1e-9));
        let (received, expected) = match part.keeps_own {
            true => (rate(outcome.measured.received as f64), run.expected_rate.map(|it| it * sent / run.sent_rate)),
            false => (run.received_rate, run.expected_rate),
        };
        Facts {
            requested_rate: requested,
            requested_deviation: run.requested_deviation * of_all.clamp(0.0, 1.0).sqrt(),
            sent_rate: sent,
            received_rate: received,
            expected_rate: expected.filter(|it| it.is_finite()),
            late_share: late_share(outcome),
            producers: Some(ProducerTime::from(&end.waits)),
            ..own
        }
    }

    /// Lost workers.
    fn losses(&self, workers: &[WorkerSummary]) -> Vec<Warning> {
        let (ends, gaps) = (lock(&self.ends), lock(&self.gaps));
        let finding = |(worker, why): (usize, String)| {
            let is_gap = gaps.contains_key(&worker);
            let (of, part) = (workers.get(worker)?, self.part(worker).filter(|_| is_gap));
            let lost = Finding::WorkerLost {
                worker: of.name.clone(),
                at_s: of.lost_s.unwrap_or_default(),
                why,
                producers: part.map(|it| it.producers),
                consumers: part.map(|it| it.consumers),
            };
            Some((is_gap, lost))
        };
        let tier = |is_tolerated| if is_tolerated { Tier::Caution } else { Tier::Invalid };
        self.host.with(|it| {
            let goes_on = it.goes_on();
            let told = |(worker, why): (usize, String)| {
                let heard_at = it.members().get(worker).map(Member::heard_at);
                let end = ends.get(&worker).zip(heard_at).filter(|_| why != member::STOPPED);
                let uncounted = end.and_then(|(end, heard_at)| uncounted(&end.outcome, self.part(worker)?, heard_at));
                (worker, why + &uncounted.unwrap_or_default())
            };
            let lost = it.gaps().map(told).filter_map(finding);
            lost.map(|(is_gap, lost)| Warning::new(tier(goes_on && is_gap), lost)).collect()
        })
    }

    /// Reasons for which the run is invalid, and workers without which it went on.
    fn warnings(&self, workers: &[WorkerSummary]) -> Vec<Warning> {
        let findings = |flaw: Flaw| match flaw {
            // Told below.
            Flaw::Lost(_) => Vec::new(),
            Flaw::Late { worker, late } => {
                vec![Finding::WorkerLate { worker: clean(&worker), late_s: late.as_secs_f64() }]
            }
            Flaw::ClockMoved(worker) => vec![Finding::WorkerClock { worker: clean(&worker) }],
        };
        let flaws = self.host.with(Coordinator::flaws);
        let invalid = flaws.into_iter().flat_map(findings).map(|it| Warning::new(Tier::Invalid, it));
        self.losses(workers).into_iter().chain(invalid).chain(self.early(workers)).chain(idle(workers)).collect()
    }

    /// Deliveries by which the bound of two clocks is proven wrong.
    fn early(&self, workers: &[WorkerSummary]) -> Vec<Warning> {
        let ends = lock(&self.ends);
        let finding = |(worker, of): (usize, &WorkerSummary)| {
            let mut early = EarlyDeliveries::default();
            ends.get(&worker)?.outcome.threads.iter().for_each(|it| early.add(it.early));
            let (worker, by_s) = (of.name.clone(), early.most.as_secs_f64());
            let broken = Finding::ClockBoundBroken { worker, deliveries: early.count, by_s };
            (early.count > 0).then(|| Warning::new(Tier::Invalid, broken))
        };
        workers.iter().enumerate().filter_map(finding).collect()
    }

    /// The most by which latencies between two clocks can be off; zero where there are none.
    pub(crate) fn clocks_bound(&self) -> Nanos {
        *lock(&self.senders_bound)
    }

    /// Latencies between two clocks, each with their bound; those that it leaves nothing of are taken out.
    pub(crate) fn judge_latencies(&self, messages: &mut ScenarioSummary) -> Vec<Warning> {
        let bound = self.clocks_bound();
        if bound == Nanos::ZERO {
            return Vec::new();
        }
        archive::judge_clocks(bound, messages)
    }

    /// Whether all workers run on this machine, whose use is then theirs, too.
    fn is_here(&self) -> bool {
        let here = member::machine();
        self.host.with(|it| it.members().iter().all(|it| it.records() || it.facts.machine == here))
    }

    /// Facts of the generator are those of its workers, which they name.
    pub(crate) fn amend(&self, facts: &mut Facts) {
        facts.capacity = None;
        self.amend_broker(facts);
        if self.is_here() {
            return;
        }
        facts.cores = facts.workers.iter().map(|it| it.cores).sum();
        (facts.machine_cores, facts.same_machine) = (0, false);
        (facts.idle, facts.steal) = (None, None);
    }
}

impl Drop for FleetRun {
    fn drop(&mut self) {
        let is_finished = || self.inboxes.is_finished.load(Ordering::Acquire);
        if is_finished() {
            return;
        }
        // Also of a run that failed before its load began, or before it had its workers: they are free for the next.
        if self.host.with(|it| !it.is_closed()) {
            self.inputs().send(CoordinatorInput::Close);
        }
        self.stop();
        let until = Instant::now() + LEAVING;
        while !is_finished() && Instant::now() < until {
            thread::sleep(POLL_INTERVAL);
        }
    }
}

/// The wait for workers.
struct Gathering {
    /// How many were asked for.
    wanted: Option<usize>,
    /// Until then workers of other runs were waited for.
    quiet_since: Duration,
}

impl Gathering {
    /// Looks at the workers that are free after so long, and whether others are busy: whether there are enough, or will
    /// not be; `None` while nobody knows.
    fn look(&mut self, waited: Duration, free: usize, are_others: bool) -> Option<bool> {
        if self.wanted.is_none() && are_others && waited < OTHERS {
            self.quiet_since = waited;
        }
        let quiet = waited.saturating_sub(self.quiet_since);
        // Those that record have called by then, too.
        if quiet >= CALLS && free >= self.wanted.unwrap_or(1) {
            return Some(true);
        }
        let longest = if self.wanted.is_some() { PATIENT } else { IMPATIENT };
        (quiet >= longest).then_some(false)
    }

    fn too_few(&self, free: usize, busy: &BTreeMap<String, usize>, waited: Duration) -> Problem {
        let mut cause = match self.wanted {
            None => "no worker of the fleet is free".to_owned(),
            Some(wanted) => format!("{} of the fleet, and not {wanted}", are_free(free)),
        };
        cause.extend(busy_with(busy).map(|it| format!(": {it}")));
        let help = "start more (`bellows worker`), or wait a minute for those of other runs: --workers N; `bellows \
                    fleet status` lists them";
        Problem::new(cause, format!("waited {} s", waited.as_secs()), help)
    }
}

/// How many workers other runs have; `None` where they have none.
fn busy_with(others: &BTreeMap<String, usize>) -> Option<String> {
    let told = |(run, workers): (&String, &usize)| match workers {
        1 => format!("1 worker is busy with run {}", sentence(run)),
        several => format!("{several} workers are busy with run {}", sentence(run)),
    };
    let named: Vec<String> = others.iter().take(MOST_OTHERS).map(told).collect();
    let more = others.len().saturating_sub(MOST_OTHERS) as u64;
    let more = (more > 0).then(|| format!("others with {}", counted(more, "more run")));
    (!named.is_empty()).then(|| named.into_iter().chain(more).collect::<Vec<_>>().join(", "))
}

/// Workers that had no part of the load.
fn idle(workers: &[WorkerSummary]) -> Option<Warning> {
    let has_none = |it: &&WorkerSummary| it.share.is_some_and(|of| of.producers + of.consumers == 0);
    let idle = workers.iter().filter(has_none).count() as u64;
    (idle > 0).then(|| Warning::new(Tier::Note, Finding::WorkersIdle { idle, workers: workers.len() as u64 }))
}

fn are_free(workers: usize) -> String {
    match workers {
        1 => "1 worker is free".to_owned(),
        several => format!("{several} workers are free"),
    }
}

fn check_version(member: &Member) -> Result<(), Problem> {
    let (own, theirs) = (env!("CARGO_PKG_VERSION"), &member.facts.version);
    let cause = format!("worker {} is bellows {}, and this is {own}", clean(&member.facts.name), clean(theirs));
    Problem::new(cause, clean(theirs), "use the same bellows everywhere").unless(own == theirs)
}

/// The measured phase of a worker's load, since the start of that.
fn measured_span(of: &LoadOutcome) -> (Nanos, Nanos) {
    let span = of.phases.iter().find(|it| it.phase == Phase::Measure);
    span.map_or((Nanos::ZERO, Nanos::ZERO), |it| (it.start.since(of.start), it.end.since(of.start)))
}

/// Messages that a lost worker may have sent after the last that it told, in the lease from when it was heard last;
/// `None` where it sends nothing.
fn uncounted(told: &LoadOutcome, part: &OwnPart, heard_at: Time) -> Option<String> {
    let end = told.phases.last().filter(|_| part.share.producers > 0)?.end;
    let until = heard_at.max(end) + LEASE;
    let requested = part.requested.as_ref().map(|it| it.messages(end.since(told.start), until.since(told.start)));
    let most = requested
        .map_or_else(|| "messages".to_owned(), |most| format!("up to {}", counted(most.ceil() as u64, "more message")));
    Some(format!("; it may have sent {most} that nobody counted"))
}

/// Share of the messages of its measured phase that a worker sent over 1 ms late.
fn late_share(of: &LoadOutcome) -> f64 {
    of.measured.late as f64 / of.measured.sent.max(1) as f64
}

fn summary(member: &Member, end: &ShareEnd, part: Option<&OwnPart>, origin: Time) -> WorkerSummary {
    let outcome = &end.outcome;
    let now = Clock.now();
    let theirs = member.clock.to_worker(now);
    let loops: Vec<LoopUse> = outcome.threads.iter().map(LoopUse::from).collect();
    let most = |share: &dyn Fn(&LoopUse) -> f64| loops.iter().map(share).fold(0.0, f64::max);
    let (from, to) = measured_span(outcome);
    let rate = |messages: u64| messages as f64 / to.saturating_sub(from).as_secs_f64().max(1e-9);
    let has_schedule = part.is_some_and(|it| it.requested.is_some());
    let labels = member.facts.labels.iter().take(MOST_LABELS);
    WorkerSummary {
        name: clean(&member.facts.name),
        host: clean(&member.facts.host),
        labels: labels.map(|(key, value)| (clean(key), clean(value))).collect(),
        version: clean(&member.facts.version),
        cores: member.facts.cores,
        share: part.map(|it| it.share),
        late_s: member.late.map(Nanos::as_secs_f64),
        clock_offset_s: theirs.map(|(at, _)| (at.0 as f64 - now.0 as f64) / 1e9),
        clock_bound_s: theirs.map(|(_, bound)| bound.as_secs_f64()),
        sent: outcome.totals.sent,
        received: outcome.totals.received,
        sent_rate: rate(outcome.measured.sent),
        received_rate: rate(outcome.measured.received),
        cpu_cores: loops.iter().map(|it| it.cpu).sum(),
        at_work: most(&|it| it.at_work(outcome.spun)),
        run_queue_wait: most(&LoopUse::run_queue_wait),
        late_share: has_schedule.then(|| late_share(outcome)),
        absence: WorkerAbsence { loop_lag_max_s: end.loop_lag_max.as_secs_f64(), tolerated: false },
        lost_s: member.lost.as_ref().map(|_| member.heard_at().since(origin).as_secs_f64()),
        ..WorkerSummary::default()
    }
}

/// Keeps what became of the workers.
struct Workers(Arc<FleetRun>);

impl Companion for Workers {
    fn second(&mut self, _: &Second) -> Collected {
        Collected {
            events: self.0.link.notes(),
            notes: std::mem::take(&mut *lock(&self.0.inboxes.ignored)),
            ..Collected::default()
        }
    }

    fn finish(&mut self, run: &mut LoadEnd<'_>) -> Collected {
        run.summary.workers = self.0.summaries(run.record.origin);
        let warnings = self.0.warnings(&run.summary.workers);
        let mut collected = Collected { warnings, events: self.0.link.notes(), ..Collected::default() };
        self.0.collect_nodes(run, &mut collected);
        collected
    }
}

/// Keeps what this worker knows of its place in the run when its load has ended.
struct OwnPlace(Arc<Membership>);

impl Companion for OwnPlace {
    fn finish(&mut self, run: &mut LoadEnd<'_>) -> Collected {
        run.record.fleet = Some(self.0.part());
        Collected::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run that was started after another one's coordinator was killed was smaller without a word.
    #[test]
    fn workers_of_other_runs_are_waited_for_and_named() {
        let millis = Duration::from_millis;
        // Free ones, and others that leave their run after six seconds, or do not.
        for (wanted, leaves_at, free, ended) in [
            (None, 0, 1, (1_200, true)),
            (None, 6_000, 1, (7_200, true)),
            (None, 60_000, 1, (8_200, true)),
            (None, 60_000, 0, (12_000, false)),
            (Some(1), 60_000, 1, (1_200, true)),
            (Some(2), 6_000, 1, (60_000, false)),
        ] {
            let mut gathering = Gathering { wanted, quiet_since: Duration::ZERO };
            let mut looks = (0..=60_000).step_by(100);
            let end = looks.find_map(|at| Some((at, gathering.look(millis(at), free, at < leaves_at)?)));
            let (at, is_enough) = end.expect("an end");
            assert!(at.abs_diff(ended.0) <= 100 && is_enough == ended.1, "{wanted:?} {leaves_at} {free}: {end:?}");
        }
        let others = [("a-1", 2), ("b-2", 1)].map(|(run, workers)| (run.to_owned(), workers)).into();
        let told = Gathering { wanted: None, quiet_since: Duration::ZERO }.too_few(0, &others, millis(12_000));
        testkit::assert_has(told.cause, ["2 workers are busy with run a-1, 1 worker is busy with run b-2"]);
    }
}
