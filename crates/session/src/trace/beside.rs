//! A trace as a scenario beside a load: its phases are those of the load, and what it counts are the calls of its function.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;

use load::scenario::{Operations, Scenario};
use load::{Control, Error, Outcome, PhaseTimes, Phases, Requested, RunEvent, SliceSink, Together};
use measure::{Clock, Metric, Nanos, Phase, Problem, Time};

use super::TracedBroker;
use super::counts::{CallCounts, SLICE};
use super::metrics::TraceMetrics;
use super::node::{NodeNews, NodeTraces, Order};
use experiment::NodeTrace;

/// Setting a trace up takes this long at most on a busy node, so it begins so long before the measured phase.
const LEAD: Nanos = Nanos::from_millis(2_000);
/// Returns of the last calls are awaited so long.
const RETURNS: Nanos = Nanos::from_millis(2_000);
/// A busy node may take long to take a trace away; then it does so by itself.
const CLOSING: Nanos = Nanos::from_millis(70_000);
/// The same where somebody has stopped the run.
const CLOSING_STOPPED: Nanos = Nanos::from_millis(5_000);
/// The longest wait before the clock and the others are looked at.
const STEP: Nanos = Nanos::from_millis(20);

/// A trace of a function, resolved.
#[derive(Clone, Debug)]
pub(crate) struct TracePlan {
    /// All traces of its node.
    node: Arc<NodeTraces>,
    /// Which of them it is. The first one sees to the thread that talks with the node.
    number: usize,
    metrics: TraceMetrics,
    function: String,
    phases: Phases,
}

impl TracePlan {
    /// One for each trace of a node.
    pub(crate) fn all_of(
        its: NodeTrace,
        traced: &TracedBroker,
        warmup: Nanos,
        measure: Nanos,
    ) -> Vec<Self> {
        let way = traced.nodes.get(&its.node).cloned();
        let log = traced.log.clone();
        let node = Arc::new(NodeTraces::new(way, its.options, its.traces, log));
        let mut all = Vec::new();
        while let Some(one) = node.trace(all.len()) {
            let plan = Self {
                number: all.len(),
                metrics: TraceMetrics::resolve(&one.scenario),
                function: one.function.to_string(),
                phases: Phases {
                    warmup,
                    measure: Some(measure).filter(|length| *length > Nanos::ZERO),
                    drain: RETURNS,
                },
                node: Arc::clone(&node),
            };
            all.push(plan);
        }
        all
    }

    /// Has the node's thread run; where it takes orders.
    fn start_thread(&self) -> Result<Option<Sender<Order>>, Error> {
        if self.number > 0 {
            return Ok(None);
        }
        let (order, orders) = channel();
        let node = Arc::clone(&self.node);
        let thread = thread::Builder::new().name("bellows-trace".to_owned());
        // It outlives a run that is stopped while the node does not answer.
        match thread.spawn(move || node.work(&orders)) {
            Ok(_) => Ok(Some(order)),
            Err(error) => Err(Error::Machine {
                action: "start a thread".to_owned(),
                detail: error.to_string(),
            }),
        }
    }
}

impl Scenario for TracePlan {
    fn name(&self) -> &'static str {
        self.metrics.scenario
    }

    fn subject(&self) -> &str {
        &self.function
    }

    fn metrics(&self) -> Vec<Metric> {
        self.metrics.all()
    }

    fn operations(&self) -> Option<Operations> {
        Some(self.metrics.operations())
    }

    /// Others make the calls.
    fn requested(&self) -> Result<Option<Requested>, Error> {
        Ok(None)
    }

    fn in_flight_limit(&self) -> Option<u64> {
        None
    }

    /// The one to the node.
    fn connections(&self) -> u64 {
        u64::from(self.number == 0)
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
        let Some(told) = self.node.seat(self.number) else {
            let help = "resolve it anew for each run";
            return Err(Error::Invalid(Problem::new("a trace runs once", "", help)));
        };
        let order = self.start_thread()?;
        let mut running = RunningTrace {
            plan: self,
            together,
            control,
            sink,
            told,
            order,
            counts: CallCounts::new(self.metrics),
            tick: Time(0),
            phases: Vec::new(),
            is_begun: false,
            is_ended: false,
            is_closed: false,
            is_stopped: false,
        };
        match running.begin()? {
            true => Ok(running.run()),
            false => Ok(Outcome::never_started()),
        }
    }
}

/// A trace while the load runs.
struct RunningTrace<'a> {
    plan: &'a TracePlan,
    together: &'a Together,
    control: &'a Control,
    sink: &'a mut dyn SliceSink,
    told: Receiver<NodeNews>,
    /// Where the node's thread takes orders; the first trace alone gives them.
    order: Option<Sender<Order>>,
    counts: CallCounts,
    /// The next whole tenth of a second of the phase.
    tick: Time,
    phases: Vec<PhaseTimes>,
    is_begun: bool,
    is_ended: bool,
    is_closed: bool,
    is_stopped: bool,
}

impl RunningTrace<'_> {
    fn gives_up(&self) -> bool {
        self.control.is_stopping() || self.together.ended().is_some()
    }

    /// Waits until the node can be traced, and for the other scenarios; whether they have started.
    fn begin(&mut self) -> Result<bool, Error> {
        loop {
            match self.told.recv_timeout(STEP.into()) {
                Ok(NodeNews::Ready) => break,
                Ok(NodeNews::Refused(problem)) => return Err(Error::Program(*problem)),
                Err(RecvTimeoutError::Disconnected) => return Ok(false),
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
            }
            if self.gives_up() {
                return Ok(false);
            }
        }
        let warmup = self.plan.phases.warmup;
        // Processes with a role are those of the load: where a trace is of such, it begins with it.
        let has_role = self.plan.node.has_role();
        if warmup < LEAD && has_role {
            self.tell_late();
        } else if warmup < LEAD {
            // There is no later moment that is early enough.
            self.order_begin();
            let ready = Clock.now() + Nanos(LEAD.0 - warmup.0);
            while Clock.now() < ready {
                if self.gives_up() {
                    return Ok(false);
                }
                thread::sleep(STEP.into());
            }
        }
        self.together.ready();
        let start = loop {
            if let Some(start) = self.together.start() {
                break start;
            }
            if self.gives_up() {
                return Ok(false);
            }
            thread::sleep(STEP.into());
        };
        let measure_at = start + warmup;
        self.counts.start = start;
        self.counts.measure_at = measure_at;
        if let Some(length) = self.plan.phases.measure {
            self.counts.last = measure_at + length;
        }
        self.tell_measured();
        self.sink.event(RunEvent::Started { at: start });
        let first = match warmup {
            Nanos::ZERO => Phase::Measure,
            _ => Phase::Warmup,
        };
        self.counts.begin(start, first);
        self.enter(first, start);
        Ok(true)
    }

    /// Says that the trace begins when calls are made already.
    fn tell_late(&self) {
        if self.plan.number == 0 {
            self.plan.node.log.note(format!(
                "the trace of processes with a role begins with the load, as the warm-up is shorter than {LEAD}: \
                 it does not see the first calls"
            ));
        }
    }

    fn order_begin(&mut self) {
        self.is_begun = true;
        self.order(Order::Begin);
    }

    fn order(&self, order: Order) {
        if let Some(thread) = &self.order {
            // One that has ended has nothing left to do.
            let _ = thread.send(order);
        }
    }

    /// Says which calls are those of the measured phase.
    fn tell_measured(&self) {
        if self.plan.number == 0 {
            let CallCounts {
                measure_at, last, ..
            } = self.counts;
            self.plan.node.log.measured(measure_at, last);
        }
    }

    fn run(mut self) -> Outcome {
        loop {
            let now = Clock.now();
            self.look_for_the_end(now);
            if !self.is_begun && now + LEAD >= self.counts.measure_at {
                self.order_begin();
            }
            let next = self.report(now);
            if self.counts.slice.phase == Phase::Drain && self.is_over(now) {
                break;
            }
            let wait = next.min(now + STEP).since(now);
            match self.told.recv_timeout(wait.into()) {
                Ok(told) => {
                    self.hear(told);
                    // All that has come belongs to the same slice.
                    while let Ok(told) = self.told.try_recv() {
                        self.hear(told);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    self.is_closed = true;
                    thread::sleep(wait.into());
                }
            }
        }
        self.finish()
    }

    fn hear(&mut self, told: NodeNews) {
        match told {
            NodeNews::Seen(seen) => self.counts.add(seen),
            NodeNews::Closed | NodeNews::Refused(_) => self.is_closed = true,
            NodeNews::Ready => {}
        }
    }

    /// Somebody stops the run, or another scenario has ended.
    fn look_for_the_end(&mut self, now: Time) {
        let mut last = self.counts.last;
        if self.control.is_stopping() && !self.is_stopped {
            self.is_stopped = now < last;
            last = last.min(now);
        }
        if let Some(end) = self.together.ended() {
            last = last.min(end);
        }
        if last < self.counts.last {
            self.counts.last = last;
            self.tell_measured();
        }
    }

    /// Whether nothing is left on the node, or it takes too long to say so.
    fn is_over(&mut self, now: Time) -> bool {
        let last = self.counts.last;
        if !self.is_ended {
            self.is_ended = true;
            let wait = if self.is_stopped {
                Nanos::ZERO
            } else {
                RETURNS
            };
            self.order(Order::End {
                at: last,
                until: last + wait,
            });
        }
        let longest = match self.control.is_stopping() {
            true => CLOSING_STOPPED,
            false => CLOSING,
        };
        self.is_closed || now.since(last) > longest
    }

    /// Tells of the slices and phases that have ended; when the next does.
    fn report(&mut self, now: Time) -> Time {
        loop {
            let (measure_at, last) = (self.counts.measure_at, self.counts.last);
            let phase = self.counts.slice.phase;
            let (end, next) = match phase {
                Phase::Warmup if last <= measure_at => (last, Phase::Drain),
                Phase::Warmup => (measure_at, Phase::Measure),
                Phase::Measure => (last, Phase::Drain),
                Phase::Drain => (Time(u64::MAX), Phase::Drain),
            };
            if now >= end {
                self.flush(end, next);
                self.enter(next, end);
                continue;
            }
            if now >= self.tick {
                // Slices of all scenarios end at the same instants.
                let at = self.tick;
                self.flush(at, phase);
                self.tick = at + SLICE;
                continue;
            }
            return self.tick.min(end);
        }
    }

    /// Hands the slice over, and begins the next.
    fn flush(&mut self, end: Time, next: Phase) {
        let ends_phase = next != self.counts.slice.phase;
        self.counts.end(end, ends_phase);
        self.sink.slice(&self.counts.slice);
        self.counts.begin(end, next);
    }

    fn enter(&mut self, phase: Phase, at: Time) {
        if let Some(before) = self.phases.last_mut() {
            before.end = at;
        }
        self.tick = at + SLICE;
        self.phases.push(PhaseTimes {
            phase,
            start: at,
            end: at,
        });
        self.sink.event(RunEvent::PhaseStarted { phase, at });
    }

    fn finish(mut self) -> Outcome {
        let end = Clock.now();
        self.counts.end(end, true);
        self.sink.slice(&self.counts.slice);
        if let Some(last) = self.phases.last_mut() {
            last.end = end;
        }
        if !self.is_closed {
            self.plan.node.log.note(
                "the node has not said that nothing of a trace is left there: it takes it away by itself"
                    .to_owned(),
            );
        }
        let start = self.counts.start;
        let tally = self.counts.finish();
        let mut outcome = Outcome {
            phases: self.phases,
            interrupted: self.is_stopped,
            ..Outcome::started(start)
        };
        outcome.tallies.insert(self.plan.metrics.scenario, tally);
        outcome
    }
}
