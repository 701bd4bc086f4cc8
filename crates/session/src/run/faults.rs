//! Faults at given times: they are injected here, on a thread of their own. Those that a broker plays by itself are
//! only watched. Also where there are none, that thread asks the broker for its objects when sending has ended.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use archive::{FaultOutcome, Finding, MissedFaults, Tier, Warning};
use broker::FaultKind;
use load::RunEvent;
use load::scenario::Operations;
use measure::{Clock, Nanos, Phase, Time};

use super::companion::{Collected, Companion, LoadEnd, Second, named};
use super::profiling::{Profiling, Reattach, Returned};
use super::recording::RunContext;
use super::topology::BrokerState;
use crate::usage::{Killed, Starter};
use brokers::{Broker, Fault, PlayedFaults};
use experiment::{FaultSpec, RunFault, is_for_good};

#[derive(Debug)]
pub(crate) enum FaultEvent {
    Began {
        at: Time,
        kind: RunFault,
        node: Option<u32>,
        /// Delay after the due time.
        late: Nanos,
        asked: Option<Nanos>,
        /// Whether the killed node is to stay away to the end.
        for_good: bool,
    },
    /// A node is about to be killed: who reads its usage must not find it gone before that is known.
    Kills(Killed),
    /// A node that could not be killed is the process that it was.
    Survives { node: usize, pid: u32 },
    /// The broker continues, or is ready again; its process from now on.
    Back { at: Time, returned: Option<Returned> },
    /// A killed node starts again below this process, whose usage until it is back is the node's own.
    Starts(Starter),
    /// The first confirm after the latest fault is awaited from now on.
    Watched,
    /// A fault could not be done, or the broker did not come back from it.
    Failed { at: Time, kind: RunFault, node: Option<u32>, began: bool, reason: String },
    /// The broker's report of the faults that it plays by itself.
    Played(Result<Option<PlayedFaults>, brokers::BrokerError>),
}

/// A fault that begins later than this after its time is reported: the one before it took longer.
const LATE: Nanos = Nanos::from_millis(1_000);

/// Faults that take the broker or its connections away, in order of time, with their positions in the experiment.
fn outages(faults: &[FaultSpec]) -> Vec<(usize, &FaultSpec)> {
    let mut outages: Vec<_> = faults.iter().enumerate().collect();
    outages.retain(|(_, fault)| fault.kind.is_outage());
    outages.sort_by_key(|(_, fault)| fault.at);
    outages
}

#[derive(Clone, Copy, Debug)]
enum Moment {
    Begin(Time),
    /// Sending has ended, and clients are still connected.
    SendingEnded,
}

pub(super) struct Faults {
    specs: Vec<FaultSpec>,
    origin: Time,
    warmup: Nanos,
    /// The operations that are confirmed; `None` for messages.
    operations: Option<Operations>,
    tell: Option<Sender<Moment>>,
    events: Receiver<FaultEvent>,
    /// Faults that have begun, or failed to.
    outcomes: Vec<FaultOutcome>,
    /// Index of the outcome whose fault's first confirm is watched for.
    watched: Option<usize>,
    /// Since when the broker is away, and why.
    away: Option<(Time, String)>,
    played: Option<PlayedFaults>,
}

pub(super) struct Player<'env> {
    faults: &'env [FaultSpec],
    broker: &'env mut dyn Broker,
    control: &'env load::Control,
    /// Whether a profile is taken, whose processes get names.
    profiled: bool,
    /// Profiling of a node that was killed and is back.
    reattach: Option<Reattach>,
    moments: Receiver<Moment>,
    tell: Sender<FaultEvent>,
    state: Option<BrokerState>,
    /// Whether the broker was killed for good, so that it is asked nothing more.
    is_gone: bool,
}

impl Player<'_> {
    /// Plays faults until the load has ended, and brings the broker back; its state when sending had ended.
    pub(super) fn run(mut self) -> Option<BrokerState> {
        self.play(self.faults);
        self.control.release();
        self.state
    }

    fn play(&mut self, faults: &[FaultSpec]) {
        let begin = loop {
            match self.moments.recv() {
                Ok(Moment::Begin(at)) => break at,
                Ok(Moment::SendingEnded) => self.ask(),
                Err(_) => return,
            }
        };
        self.play_from(begin, faults);
        while let Ok(moment) = self.moments.recv() {
            if let Moment::SendingEnded = moment {
                self.ask();
            }
        }
        if !faults.is_empty() {
            let played = self.broker.played_faults();
            self.say(FaultEvent::Played(played));
        }
    }

    /// Asks the broker for its objects while the load's clients are connected; they wait for it.
    fn ask(&mut self) {
        if !self.is_gone {
            self.state = Some(BrokerState::read(self.broker, self.profiled, self.control));
        }
        self.control.release();
    }

    fn play_from(&mut self, begin: Time, faults: &[FaultSpec]) {
        if faults.is_empty() {
            return;
        }
        if let Err(error) = self.broker.inject(0, Fault::Begin(begin)) {
            let failed = |fault| self.say_failed(fault, false, &error);
            return faults.iter().for_each(failed);
        }
        for (_, fault) in outages(faults) {
            let due = begin + fault.at.unwrap_or_default().0;
            if !self.wait_until(due, false) {
                return;
            }
            // Nobody waits for an answer of a broker that is away.
            self.control.release();
            // What could not be done to one node may be done to another.
            match self.begin_one(due, fault) {
                Ok(_) if is_for_good(fault) => self.is_gone = !self.is_cluster(),
                Ok(from) => {
                    if let Err(error) = self.end_one(from, fault) {
                        self.say_failed(fault, true, &error);
                    }
                }
                Err(error) => self.say_failed(fault, false, &error),
            }
            if self.state.is_none() && !self.is_gone {
                self.control.hold();
            }
        }
    }

    fn begin_one(&mut self, due: Time, fault: &FaultSpec) -> Result<Time, brokers::BrokerError> {
        let injected = injected(fault.kind);
        let node = fault.node.unwrap_or(0) as usize;
        // What the broker plays by itself it plays in time, and lasts from then; what begins late here lasts as long.
        let (at, from) = match injected {
            Some((first, _)) => {
                // Its effect may be noticed before the injection has returned.
                let process = self.broker.processes().of_node(node);
                let cpu = process.and_then(linux::cpu_time);
                let at = Clock.now();
                if fault.kind == RunFault::Kill {
                    self.say(FaultEvent::Kills(Killed { node, at, cpu }));
                }
                let done = self.broker.inject(node, first);
                if let (Err(_), RunFault::Kill, Some(pid)) = (&done, fault.kind, process) {
                    self.say(FaultEvent::Survives { node, pid });
                }
                done?;
                (at, Clock.now())
            }
            None => (due, due),
        };
        self.say(FaultEvent::Began {
            at,
            kind: fault.kind,
            node: fault.node,
            late: at.since(due),
            asked: fault.length.map(|length| length.0),
            for_good: is_for_good(fault),
        });
        // Other nodes go on, or do not where they are too few: nothing returns with this one that tells it.
        if self.is_cluster() {
            self.say(FaultEvent::Watched);
            self.control.watch_confirm_since(at);
        }
        Ok(from)
    }

    fn end_one(&mut self, from: Time, fault: &FaultSpec) -> Result<(), brokers::BrokerError> {
        let injected = injected(fault.kind);
        let node = fault.node.unwrap_or(0) as usize;
        let length = fault.length.unwrap_or_default();
        // Also where the run ends meanwhile: the broker is needed for its end.
        self.wait_until(from + length.0, injected.is_some());
        if !self.is_cluster() {
            self.say(FaultEvent::Watched);
            self.control.watch_return();
        }
        if let Some((_, last)) = injected {
            let starter = self.broker.starter(node);
            if let Some(pid) = starter.filter(|_| fault.kind == RunFault::Kill) {
                let at = Clock.now();
                self.say(FaultEvent::Starts(Starter { node, pid, at }));
            }
            self.broker.inject(node, last)?;
        }
        if !length.is_zero() {
            let now = Clock.now();
            let at = if injected.is_some() { now } else { now.min(from + length.0) };
            let pid = injected.and(self.broker.processes().of_node(node));
            let returned = pid.map(|pid| {
                let profile = if fault.kind == RunFault::Kill { self.profile_again(node, pid) } else { None };
                Returned { node, pid, gone: 0.0, profile }
            });
            self.say(FaultEvent::Back { at, returned });
        }
        Ok(())
    }

    /// Whether there are other nodes beside the one that a fault hits.
    fn is_cluster(&self) -> bool {
        !self.broker.processes().further.is_empty()
    }

    /// A profile of the process that a node is now, with its number in a cluster.
    fn profile_again(&mut self, node: usize, pid: u32) -> Option<(Option<u32>, Profiling)> {
        let node = u32::try_from(node).ok().filter(|_| self.broker.nodes().len() > 1);
        Some((node, self.reattach.as_mut()?.attach(node, pid)))
    }

    fn say_failed(&self, fault: &FaultSpec, began: bool, error: &brokers::BrokerError) {
        self.say(FaultEvent::Failed {
            at: Clock.now(),
            kind: fault.kind,
            node: fault.node,
            began,
            reason: match error {
                brokers::BrokerError::Fault(reason) => reason.clone(),
                other => other.to_string(),
            },
        });
    }

    /// Waits; `false`: the run ends. Meanwhile a broker that is there is asked for its objects once sending has ended.
    fn wait_until(&mut self, at: Time, is_away: bool) -> bool {
        loop {
            let left = Duration::from(at.since(Clock.now()));
            match self.moments.recv_timeout(left) {
                Ok(Moment::SendingEnded) if !is_away => self.ask(),
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => return true,
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
    }

    fn say(&self, event: FaultEvent) {
        // Nobody listens where the run has failed.
        let _ = self.tell.send(event);
    }
}

/// The injections at the beginning and end of a fault; `None` where the broker plays it by itself.
const fn injected(kind: RunFault) -> Option<(Fault, Fault)> {
    match kind {
        RunFault::Stop => Some((Fault::Pause, Fault::Resume)),
        RunFault::Kill => Some((Fault::Kill, Fault::Restart)),
        RunFault::Partition => Some((Fault::CutOff, Fault::Join)),
        RunFault::Played(_) => None,
    }
}

impl Faults {
    pub(super) fn of<'env>(
        specs: &'env [FaultSpec],
        run: &RunContext,
        broker: &'env mut dyn Broker,
        control: &'env load::Control,
        profiled: bool,
        reattach: Option<Reattach>,
    ) -> (Self, Player<'env>) {
        let (begin, moments) = channel();
        let (tell, events) = channel();
        let faults = Self {
            specs: specs.to_vec(),
            origin: run.origin,
            warmup: run.phases.warmup,
            operations: run.scenarios.first().and_then(|first| first.operations),
            tell: Some(begin),
            events,
            outcomes: Vec::new(),
            watched: None,
            away: None,
            played: None,
        };
        let (state, is_gone) = (None, false);
        let player = Player { faults: specs, broker, control, profiled, reattach, moments, tell, state, is_gone };
        (faults, player)
    }

    fn say(&self, moment: Moment) {
        if let Some(tell) = &self.tell {
            // A thread that has ended has no more faults.
            let _ = tell.send(moment);
        }
    }

    fn take(&mut self) -> Collected {
        let mut collected = Collected::default();
        while let Ok(event) = self.events.try_recv() {
            self.hear(event, &mut collected);
            collected.faults = Some(self.outcomes.clone());
        }
        collected
    }

    fn hear(&mut self, event: FaultEvent, collected: &mut Collected) {
        let t = |at: Time| at.since(self.origin).as_secs_f64();
        match event {
            FaultEvent::Began { at, kind, node, late, asked, for_good } => {
                self.outcomes.push(FaultOutcome {
                    kind: kind.name().to_owned(),
                    node,
                    t: t(at),
                    late_s: (late >= LATE).then(|| late.as_secs_f64()),
                    asked_s: asked.filter(|it| it.0 > 0).map(Nanos::as_secs_f64),
                    for_good,
                    ..FaultOutcome::default()
                });
                let returns = injected(kind).filter(|_| !for_good);
                self.away = returns.map(|_| (at, label(kind, node)));
                let end = if for_good { " for good" } else { "" };
                collected.events.push((at, label(kind, node) + end));
            }
            FaultEvent::Back { at, returned } => {
                self.away = None;
                let last = self.outcomes.last();
                let gone = last.map_or(0.0, |fault| fault.t);
                let what = format!("{} is back", subject(last.and_then(|fault| fault.node)));
                collected.returned.extend(returned.map(|node| Returned { gone, ..node }));
                let last = self.outcomes.len().checked_sub(1);
                collected.events.extend(self.since_fault(last, at, &what, |fault| &mut fault.back_s));
            }
            FaultEvent::Kills(killed) => collected.killed.push(killed),
            FaultEvent::Starts(starter) => collected.starters.push(starter),
            FaultEvent::Survives { node, pid } => {
                collected.returned.push(Returned { node, pid, gone: 0.0, profile: None });
            }
            FaultEvent::Watched => {
                self.watched = self.outcomes.len().checked_sub(1);
                self.outcomes.last_mut().into_iter().for_each(|it| it.watched = true);
            }
            FaultEvent::Failed { at, kind, node, began, reason } => {
                self.away = None;
                let outcome = FaultOutcome { kind: kind.name().to_owned(), node, t: t(at), ..FaultOutcome::default() };
                let what = if began { "did not end" } else { "failed" };
                collected.events.push((at, format!("the {} {what}: {reason}", named(&outcome))));
                if !began {
                    self.outcomes.push(outcome);
                }
                if let Some(last) = self.outcomes.last_mut() {
                    last.failed = Some(reason);
                }
            }
            FaultEvent::Played(Ok(played)) => self.played = played,
            FaultEvent::Played(Err(error)) => collected.notes.push(error.to_string()),
        }
    }

    /// Faults that failed, had not begun when the run ended, or began late; a broker counts those that it plays.
    fn missed(&self, interrupted: bool) -> Option<Warning> {
        let is_injected = |fault: &&FaultSpec| injected(fault.kind).is_some();
        let planned = self.specs.iter().filter(is_injected).count();
        let not_begun = if interrupted { 0 } else { planned.saturating_sub(self.outcomes.len()) };
        let failed = self.outcomes.iter().filter(|fault| fault.failed.is_some());
        let late = || self.outcomes.iter().filter_map(|fault| fault.late_s);
        let tier = match (failed.clone().count() + not_begun, late().count()) {
            (0, 0) => return None,
            (0, _) => Tier::Caution,
            _ => Tier::Invalid,
        };
        let reason = |fault: &FaultOutcome| Some(format!("{}: {}", named(fault), fault.failed.as_ref()?));
        let first = failed.clone().next().and_then(reason);
        let faults = MissedFaults {
            planned: self.specs.len() as u64,
            failed: failed.count() as u64,
            first_failure: first.unwrap_or_default(),
            not_begun: not_begun as u64,
            late: late().count() as u64,
            latest_s: late().fold(0.0, f64::max),
        };
        Some(Warning::new(tier, Finding::FaultsMissed { faults }))
    }

    /// Adds the embedded broker's own report of its faults.
    fn add_played(&mut self, played: &PlayedFaults) {
        let order: Vec<usize> = (outages(&self.specs).iter()).map(|(at, _)| *at).collect();
        for (at, (spec, done)) in self.specs.iter().zip(&played.faults).enumerate() {
            let seconds = |ns: u64| Time(ns).since(self.origin).as_secs_f64();
            let (Some(t), end) = (done.start_ns.map(seconds), done.end_ns.map(seconds)) else { continue };
            let seen = order.iter().position(|it| *it == at);
            if let Some(outcome) = seen.and_then(|seen| self.outcomes.get_mut(seen)) {
                outcome.t = t;
                outcome.count = Some(done.count);
                if spec.length.is_some() {
                    outcome.back_s = end.map(|end| end - t);
                }
            } else {
                self.outcomes.push(FaultOutcome {
                    kind: spec.kind.name().to_owned(),
                    t,
                    count: Some(done.count),
                    ..FaultOutcome::default()
                });
            }
        }
    }

    /// Notes how long after the beginning of a fault something came, and returns it as text.
    fn since_fault(
        &mut self,
        number: Option<usize>,
        at: Time,
        what: &str,
        place: fn(&mut FaultOutcome) -> &mut Option<f64>,
    ) -> Option<(Time, String)> {
        let t = at.since(self.origin).as_secs_f64();
        let fault = self.outcomes.get_mut(number?)?;
        let after = t - fault.t;
        *place(fault) = Some(after);
        Some((at, format!("{what}, {after:.2} s after the fault began")))
    }
}

impl Companion for Faults {
    fn before(&mut self, event: Option<&RunEvent>) -> Collected {
        if let Some(RunEvent::Started { at }) = event {
            self.origin = *at;
            self.say(Moment::Begin(*at + self.warmup));
        }
        let mut collected = self.take();
        // With a late return the next fault has begun by then.
        let of = self.watched;
        let since = match event {
            Some(RunEvent::FirstConfirm { at }) => {
                let what = self.operations.map(|of| format!("first successful {}", of.one));
                self.since_fault(of, *at, what.as_deref().unwrap_or("first confirm"), |it| &mut it.first_confirm_s)
            }
            Some(RunEvent::BacklogGone { at }) => {
                self.since_fault(of, *at, "backlog gone", |it| &mut it.backlog_gone_s)
            }
            _ => None,
        };
        collected.events.extend(since);
        collected
    }

    fn phase(&mut self, phase: Phase, _: Time) {
        if phase == Phase::Drain {
            self.say(Moment::SendingEnded);
        }
    }

    fn second(&mut self, _: &Second) -> Collected {
        let waiting = self.away.as_ref().map(|(since, label)| {
            (format!("{label}, waiting for its return"), Duration::from(Clock.now().since(*since)))
        });
        Collected { waiting, ..Collected::default() }
    }

    fn load_ended(&mut self) -> Collected {
        drop(self.tell.take());
        let mut collected = Collected::default();
        while let Ok(event) = self.events.recv() {
            self.hear(event, &mut collected);
        }
        collected.faults = Some(self.outcomes.clone());
        collected
    }

    fn finish(&mut self, run: &mut LoadEnd<'_>) -> Collected {
        let missed = self.missed(run.outcome.interrupted || run.outcome.error.is_some());
        if let Some(played) = self.played.take() {
            self.add_played(&played);
        }
        run.summary.faults = std::mem::take(&mut self.outcomes);
        Collected { warnings: missed.into_iter().collect(), ..Collected::default() }
    }
}

/// Nodes of a cluster that are not there any more when the run ends, although no fault was to keep them away.
pub(super) fn node_gone(broker: &dyn Broker, faults: &[FaultOutcome]) -> Option<Warning> {
    let mut nodes = broker.gone_nodes();
    nodes.retain(|node| {
        let mut killed = faults.iter().filter(|it| it.for_good);
        !killed.any(|it| it.node.unwrap_or(0) as usize == *node)
    });
    (!nodes.is_empty()).then(|| Warning::new(Tier::Invalid, Finding::NodeGone { nodes }))
}

fn subject(node: Option<u32>) -> String {
    node.map_or_else(|| "the broker".to_owned(), |node| format!("node {node}"))
}

fn label(kind: RunFault, node: Option<u32>) -> String {
    let what = match kind {
        RunFault::Stop => "was stopped",
        RunFault::Kill => "was killed",
        RunFault::Partition => "was cut off from the others",
        RunFault::Played(FaultKind::Stall) => "stood still",
        RunFault::Played(FaultKind::Block) => "blocked publishers",
        RunFault::Played(FaultKind::Drop { .. }) => "closed connections",
        RunFault::Played(FaultKind::Reset) => "reset connections",
        RunFault::Played(FaultKind::CloseChannel) => "closed channels",
        RunFault::Played(FaultKind::Cut { .. }) => "cut connections",
        // These are on for as long as they are, and counted.
        RunFault::Played(_) => return "a fault began".to_owned(),
    };
    format!("{} {what}", subject(node))
}

#[cfg(test)]
#[path = "faults_tests.rs"]
pub(super) mod tests;
