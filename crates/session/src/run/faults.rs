//! Faults at given times: they are injected here, on a thread of their own. Those that a broker plays by
//! itself are only watched.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

use archive::{FaultOutcome, Tier, Warning, WarningCode};
use broker::FaultKind;
use load::scenario::Scenario;
use measure::{Clock, Interval, Nanos, Phase, Slice, Time};

use super::recording::Recording;
use super::returned::{Reattach, Returned};
use super::topology::BrokerState;
use crate::brokers::{self, Broker, Fault, PlayedFaults};
use crate::experiment::{FaultSpec, RunFault};

/// What happened to the broker.
#[derive(Debug)]
pub(crate) enum FaultEvent {
    /// A fault began.
    Began {
        at: Time,
        kind: RunFault,
        node: Option<u32>,
        /// How long after its time that was.
        late: Nanos,
        /// How long it is to last.
        asked: Option<Nanos>,
    },
    /// The broker goes on, or is ready again; its process from now on.
    Back {
        at: Time,
        node: usize,
        pid: Option<u32>,
        /// Its profile from now on, where the one so far ended with its process.
        returned: Option<Returned>,
    },
    /// The return of the broker from the fault that began last is watched from now on.
    Watched,
    /// A fault could not be done, or the broker did not come back from it.
    Failed {
        at: Time,
        kind: RunFault,
        node: Option<u32>,
        /// Whether it had begun.
        began: bool,
        reason: String,
    },
}

/// A fault that begins so long after its time is told: the one before it took longer.
const LATE: Nanos = Nanos::from_millis(1_000);

/// The faults that take the broker or its connections away, in the order of time, with their
/// positions in the experiment.
fn outages(faults: &[FaultSpec]) -> Vec<(usize, &FaultSpec)> {
    let mut outages: Vec<_> = faults.iter().enumerate().collect();
    outages.retain(|(_, fault)| fault.kind.is_outage());
    outages.sort_by_key(|(_, fault)| fault.at);
    outages
}

/// What the load tells those who play faults.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// The measured phase begins then.
    Begin(Time),
    /// Sending has ended, and clients are still connected.
    SendingEnded,
}

/// What those who play faults do beside them.
#[derive(Debug, Default)]
pub(crate) struct Beside {
    /// Whether a profile is taken, whose processes get names.
    pub(crate) profiled: bool,
    /// How a node is profiled that was killed and is back.
    pub(crate) reattach: Option<Reattach>,
}

/// The faults of a run, from the outside.
pub(crate) struct Timeline<'scope> {
    tell: Option<Sender<Moment>>,
    events: Receiver<FaultEvent>,
    thread: Option<ScopedJoinHandle<'scope, Option<BrokerState>>>,
}

impl<'scope> Timeline<'scope> {
    /// Waits for [`Self::begin`] on a thread; nothing where there are no faults.
    pub(crate) fn start<'env>(
        scope: &'scope Scope<'scope, 'env>,
        faults: &'env [FaultSpec],
        broker: &'env mut dyn Broker,
        control: &'env load::Control,
        beside: Beside,
    ) -> Option<Self> {
        if faults.is_empty() {
            return None;
        }
        let (begin, moments) = channel();
        let (tell, events) = channel();
        let mut player = Player {
            broker,
            control,
            beside,
            moments,
            tell,
            state: None,
        };
        control.hold();
        let thread = scope.spawn(move || {
            player.play(faults);
            player.control.release();
            player.state
        });
        Some(Self {
            tell: Some(begin),
            events,
            thread: Some(thread),
        })
    }

    /// The measured phase begins then.
    pub(crate) fn begin(&self, at: Time) {
        self.say(Moment::Begin(at));
    }

    /// Sending has ended: the broker is asked for its topology, unless a fault has it away.
    pub(crate) fn sending_ended(&self) {
        self.say(Moment::SendingEnded);
    }

    fn say(&self, moment: Moment) {
        if let Some(tell) = &self.tell {
            // A thread that has ended has no more faults.
            let _ = tell.send(moment);
        }
    }

    /// What has happened since the last call.
    pub(crate) fn events(&self) -> impl Iterator<Item = FaultEvent> {
        self.events.try_iter()
    }

    /// Ends it; a broker that is away is brought back first. What the broker said of itself when sending had ended, where
    /// it was there to be asked.
    pub(crate) fn end(&mut self) -> Option<BrokerState> {
        drop(self.tell.take());
        // A panic there is a bug, and shows on standard error.
        self.thread.take()?.join().ok().flatten()
    }
}

struct Player<'env> {
    broker: &'env mut dyn Broker,
    control: &'env load::Control,
    beside: Beside,
    moments: Receiver<Moment>,
    tell: Sender<FaultEvent>,
    /// What the broker said of itself when sending had ended.
    state: Option<BrokerState>,
}

impl Player<'_> {
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
    }

    /// Asks the broker for its objects while the load's clients are connected; they wait for it.
    fn ask(&mut self) {
        let read = BrokerState::read(self.broker, self.beside.profiled, self.control);
        self.state = Some(read);
        self.control.release();
    }

    fn play_from(&mut self, begin: Time, faults: &[FaultSpec]) {
        if let Err(error) = self.broker.inject(Fault::Begin(begin)) {
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
                Ok(from) => {
                    if let Err(error) = self.end_one(from, fault) {
                        self.say_failed(fault, true, &error);
                    }
                }
                Err(error) => self.say_failed(fault, false, &error),
            }
            if self.state.is_none() {
                self.control.hold();
            }
        }
    }

    /// From when the fault lasts.
    fn begin_one(&mut self, due: Time, fault: &FaultSpec) -> Result<Time, brokers::BrokerError> {
        let injected = injected(fault.kind);
        let node = fault.node.unwrap_or(0) as usize;
        if let Some((first, _)) = injected {
            self.broker.inject_at(node, first)?;
        }
        let at = Clock.now();
        // What the broker plays by itself it plays in time, and lasts from then; what begins late here lasts as long as any.
        let from = if injected.is_some() { at } else { due };
        self.say(FaultEvent::Began {
            at,
            kind: fault.kind,
            node: fault.node,
            late: from.since(due),
            asked: fault.length.map(|length| length.0),
        });
        Ok(from)
    }

    fn end_one(&mut self, from: Time, fault: &FaultSpec) -> Result<(), brokers::BrokerError> {
        let injected = injected(fault.kind);
        let node = fault.node.unwrap_or(0) as usize;
        let length = fault.length.unwrap_or_default();
        // Also where the run ends meanwhile: the broker is needed for its end.
        self.wait_until(from + length.0, injected.is_some());
        // Where other nodes go on, nothing returns with this one that could be watched for.
        if self.broker.processes().further.is_empty() {
            self.say(FaultEvent::Watched);
            self.control.watch_return();
        }
        if let Some((_, last)) = injected {
            self.broker.inject_at(node, last)?;
        }
        if !length.is_zero() {
            let at = Clock.now();
            let pid = injected.and(self.broker.processes().of_node(node));
            let returned = match fault.kind {
                RunFault::Kill => self.profile_again(node, pid),
                _ => None,
            };
            self.say(FaultEvent::Back {
                at,
                node,
                pid,
                returned,
            });
        }
        Ok(())
    }

    /// A profile of the process that a node is now: the one so far ended with its process.
    fn profile_again(&mut self, node: usize, pid: Option<u32>) -> Option<Returned> {
        let node = u32::try_from(node).ok();
        let node = node.filter(|_| self.broker.nodes().len() > 1);
        Some(self.beside.reattach.as_mut()?.attach(node, pid?))
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

    /// `false`: the run ends. A broker that is not away is asked for its objects meanwhile, when sending has ended.
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

/// What is injected at the beginning and at the end of a fault; `None` where the broker plays it by itself.
const fn injected(kind: RunFault) -> Option<(Fault, Fault)> {
    match kind {
        RunFault::Stop => Some((Fault::Pause, Fault::Resume)),
        RunFault::Kill => Some((Fault::Kill, Fault::Restart)),
        RunFault::Partition => Some((Fault::CutOff, Fault::Join)),
        RunFault::Played(_) => None,
    }
}

/// A recording together with the faults of its broker.
struct Played<'r, 'a, 'scope> {
    recording: &'r mut Recording<'a>,
    timeline: Timeline<'scope>,
    /// Since when the broker is away, and why.
    away: Option<(Time, String)>,
}

impl Played<'_, '_, '_> {
    fn take_events(&mut self) {
        for event in self.timeline.events() {
            match event {
                FaultEvent::Began { at, kind, node, .. } => {
                    self.away = injected(kind).map(|_| (at, label(kind, node)));
                }
                FaultEvent::Watched => {}
                FaultEvent::Back { .. } | FaultEvent::Failed { .. } => self.away = None,
            }
            self.recording.fault_event(event);
        }
    }

    /// Says for how long the broker is away by now.
    fn say_waiting(&mut self) {
        if let Some((since, label)) = &self.away {
            let waited = Duration::from(Clock.now().since(*since));
            let text = format!("{label}, waiting for its return");
            self.recording.observer.waiting(&text, waited);
        }
    }
}

impl load::Sink for Played<'_, '_, '_> {
    fn interval(&mut self, interval: &Interval) {
        self.take_events();
        self.recording.interval(interval);
        self.say_waiting();
    }

    fn slice(&mut self, slice: &Slice) {
        self.recording.slice(slice);
    }

    fn event(&mut self, event: load::RunEvent) {
        let mut is_drain = false;
        match &event {
            load::RunEvent::Started { at } => {
                let begin = *at + self.recording.context.phases.warmup;
                self.timeline.begin(begin);
            }
            load::RunEvent::PhaseStarted { phase, .. } => is_drain = *phase == Phase::Drain,
            _ => {}
        }
        self.take_events();
        self.recording.event(event);
        if is_drain {
            // What is read at the end of the measured phase has been read.
            self.timeline.sending_ended();
        }
    }
}

impl Recording<'_> {
    /// Runs the load, and meanwhile the faults; with what the broker said of itself when sending had ended.
    pub(crate) fn run(
        &mut self,
        scenarios: &[Box<dyn Scenario>],
        control: &load::Control,
        timeline: Option<Timeline<'_>>,
    ) -> (Result<load::Outcome, load::Error>, Option<BrokerState>) {
        let Some(timeline) = timeline else {
            let outcome = load::scenario::run(scenarios, control, self);
            self.finish_memory();
            return (outcome, None);
        };
        let mut played = Played {
            recording: self,
            timeline,
            away: None,
        };
        let outcome = load::scenario::run(scenarios, control, &mut played);
        // A broker may be awaited for long after the load.
        played.recording.finish_memory();
        let state = played.timeline.end();
        played.take_events();
        (outcome, state)
    }

    fn fault_event(&mut self, event: FaultEvent) {
        match event {
            FaultEvent::Began {
                at,
                kind,
                node,
                late,
                asked,
            } => {
                let t = self.seconds_since_origin(at);
                self.faults.push(FaultOutcome {
                    kind: kind.name().to_owned(),
                    node,
                    t,
                    late_s: (late >= LATE).then(|| late.as_secs_f64()),
                    asked_s: asked.filter(|it| it.0 > 0).map(Nanos::as_secs_f64),
                    ..FaultOutcome::default()
                });
                self.keep_event(at, label(kind, node));
            }
            FaultEvent::Back {
                at,
                node,
                pid,
                returned,
            } => {
                if let Some(pid) = pid {
                    self.usage.follow_node(node, pid);
                }
                if let Some(returned) = returned {
                    self.profile_returned(returned);
                }
                let of_node = self.faults.last().and_then(|fault| fault.node);
                let what = format!("{} is back", subject(of_node));
                let last = self.faults.len().checked_sub(1);
                self.since_fault(last, at, &what, |fault| &mut fault.back_s);
            }
            FaultEvent::Watched => self.watched_fault = self.faults.len().checked_sub(1),
            FaultEvent::Failed {
                at,
                kind,
                node,
                began,
                reason,
            } => {
                let outcome = FaultOutcome {
                    kind: kind.name().to_owned(),
                    node,
                    t: self.seconds_since_origin(at),
                    ..FaultOutcome::default()
                };
                let what = if began { "did not end" } else { "failed" };
                let named = named(&outcome);
                self.keep_event(at, format!("the {named} {what}: {reason}"));
                if !began {
                    self.faults.push(outcome);
                }
                if let Some(last) = self.faults.last_mut() {
                    last.failed = Some(reason);
                }
            }
        }
    }

    /// What did not take place as the experiment has it: faults that failed, that had not begun when the run ended, or that
    /// began late. Faults that a broker plays by itself it counts itself.
    pub(super) fn of_faults(&self, specs: &[FaultSpec], interrupted: bool) -> Option<Warning> {
        let is_injected = |fault: &&FaultSpec| injected(fault.kind).is_some();
        let planned = specs.iter().filter(is_injected).count();
        let not_begun = match interrupted {
            true => 0,
            false => planned.saturating_sub(self.faults.len()),
        };
        let failed = self.faults.iter().filter(|fault| fault.failed.is_some());
        let late = || self.faults.iter().filter_map(|fault| fault.late_s);
        let tier = match (failed.clone().count() + not_begun, late().count()) {
            (0, 0) => return None,
            (0, _) => Tier::Caution,
            _ => Tier::Invalid,
        };
        let reason =
            |fault: &FaultOutcome| Some(format!("{}: {}", named(fault), fault.failed.as_ref()?));
        let first = failed.clone().next().and_then(reason);
        Some(
            Warning::new(WarningCode::FaultsMissed, tier)
                .with("planned", specs.len())
                .with("failed", failed.count())
                .with("first_failure", first.unwrap_or_default())
                .with("not_begun", not_begun)
                .with("late", late().count())
                .with("latest_s", late().fold(0.0, f64::max)),
        )
    }

    /// Nodes of a cluster that are not there any more when the run ends.
    pub(super) fn of_nodes(broker: &dyn Broker) -> Option<Warning> {
        let gone = broker.gone_nodes();
        let nodes: Vec<String> = gone.iter().map(ToString::to_string).collect();
        (!gone.is_empty()).then(|| {
            Warning::new(WarningCode::NodeGone, Tier::Invalid)
                .with("nodes", nodes.join(", "))
                .with("count", gone.len())
        })
    }

    /// Takes the embedded broker's own word for what it did.
    pub(super) fn played(&mut self, specs: &[FaultSpec], played: &PlayedFaults) {
        let order: Vec<usize> = outages(specs).iter().map(|(at, _)| *at).collect();
        for (at, (spec, done)) in specs.iter().zip(&played.faults).enumerate() {
            let seconds = |ns: u64| self.seconds_since_origin(Time(ns));
            let t = done.start_ns.map(seconds);
            let end = done.end_ns.map(seconds);
            let Some(t) = t else { continue };
            let seen = order.iter().position(|it| *it == at);
            if let Some(outcome) = seen.and_then(|seen| self.faults.get_mut(seen)) {
                outcome.t = t;
                outcome.count = Some(done.count);
                if spec.length.is_some() {
                    outcome.back_s = end.map(|end| end - t);
                }
            } else {
                self.faults.push(FaultOutcome {
                    kind: spec.kind.name().to_owned(),
                    t,
                    count: Some(done.count),
                    ..FaultOutcome::default()
                });
            }
        }
    }

    /// Notes how long after the beginning of a fault something came.
    fn since_fault(
        &mut self,
        number: Option<usize>,
        at: Time,
        what: &str,
        place: fn(&mut FaultOutcome) -> &mut Option<f64>,
    ) {
        let t = self.seconds_since_origin(at);
        let fault = number.and_then(|number| self.faults.get_mut(number));
        let Some(fault) = fault else { return };
        let after = t - fault.t;
        *place(fault) = Some(after);
        self.keep_event(at, format!("{what}, {after:.2} s after the fault began"));
    }

    /// Notes how long after its beginning the return from a fault came so far: with a late one the next has begun by then.
    pub(super) fn returned(
        &mut self,
        at: Time,
        what: &str,
        place: fn(&mut FaultOutcome) -> &mut Option<f64>,
    ) {
        self.since_fault(self.watched_fault, at, what, place);
    }
}

/// A fault in words: `kill of node 1`.
pub(super) fn named(fault: &FaultOutcome) -> String {
    match fault.node {
        Some(node) => format!("{} of node {node}", fault.kind),
        None => fault.kind.clone(),
    }
}

/// Who is hit.
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
mod tests;
