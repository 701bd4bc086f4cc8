//! A trace as a scenario beside a load: its phases are those of the load, and its counts are calls of its function.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;

use experiment::NodeTrace;
use load::scenario::{Operations, Scenario};
use load::{Control, Error, OperationTally, Outcome, PhaseClock, Phases, RunEvent, SliceSink, StartBarrier};
use measure::{Clock, Counts, Metric, Nanos, Phase, Problem, ScenarioRole, Slice, Time};

use super::TracedBroker;
use super::node::{NodeNews, NodeTraces, Order, SeenCall};

/// Longest set-up of a trace on a busy node, which begins this long before the measured phase.
const LEAD: Nanos = Nanos::from_millis(2_000);
/// How long returns of the last calls are awaited.
const RETURNS: Nanos = Nanos::from_millis(2_000);
/// A busy node may take long to take a trace away; then it does so by itself.
const CLOSING: Nanos = Nanos::from_millis(70_000);
/// The limit where somebody has stopped the run.
const CLOSING_STOPPED: Nanos = Nanos::from_millis(5_000);
/// The longest wait before the clock and the others are looked at.
const STEP: Nanos = Nanos::from_millis(20);

#[derive(Clone, Debug)]
pub(crate) struct TracePlan {
    node: Arc<NodeTraces>,
    /// Number of the trace. The first one runs the thread that talks with the node.
    number: usize,
    metrics: TraceMetrics,
    function: String,
    phases: Phases,
}

impl TracePlan {
    pub(crate) fn all_of(its: NodeTrace, traced: &TracedBroker, warmup: Nanos, measure: Nanos) -> Vec<Self> {
        let way = traced.nodes.get(&its.node).cloned();
        let log = traced.log.clone();
        let node = Arc::new(NodeTraces::new(way, its.options, its.traces, log));
        let mut all = Vec::new();
        while let Some(one) = node.trace(all.len()) {
            all.push(Self {
                number: all.len(),
                metrics: TraceMetrics::resolve(&one.scenario),
                function: one.function.to_string(),
                phases: Phases::new(warmup, measure, RETURNS),
                node: Arc::clone(&node),
            });
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
            Err(error) => Err(Error::Machine { action: "start a thread".to_owned(), detail: error.to_string() }),
        }
    }
}

impl Scenario for TracePlan {
    fn name(&self) -> &'static str {
        self.metrics.scenario()
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

    /// The one to the node.
    fn connections(&self) -> u64 {
        u64::from(self.number == 0)
    }

    fn phases(&self) -> Phases {
        self.phases
    }

    fn run(&self, together: &StartBarrier, control: &Control, sink: &mut dyn SliceSink) -> Result<Outcome, Error> {
        let Some(told) = self.node.seat(self.number) else {
            let help = "resolve it again for each run";
            return Err(Error::Invalid(Problem::new("a trace runs once", "", help)));
        };
        let order = self.start_thread()?;
        let mut running = RunningTrace {
            plan: self,
            control,
            sink,
            told,
            order,
            counts: CallCounts::new(self.metrics),
            phases: PhaseClock::new(self.phases, together, control),
            is_begun: false,
            is_ended: false,
            is_closed: false,
        };
        if running.begin(together)? { Ok(running.run()) } else { Ok(Outcome::never_started()) }
    }
}

struct RunningTrace<'a> {
    plan: &'a TracePlan,
    control: &'a Control,
    sink: &'a mut dyn SliceSink,
    told: Receiver<NodeNews>,
    /// Where the node's thread takes orders; the first trace alone gives them.
    order: Option<Sender<Order>>,
    counts: CallCounts,
    phases: PhaseClock<'a>,
    is_begun: bool,
    is_ended: bool,
    is_closed: bool,
}

impl RunningTrace<'_> {
    /// Waits until the node can be traced, and for the other scenarios; whether they have started.
    fn begin(&mut self, together: &StartBarrier) -> Result<bool, Error> {
        loop {
            match self.told.recv_timeout(STEP.into()) {
                Ok(NodeNews::Ready) => break,
                Ok(NodeNews::Refused(problem)) => return Err(Error::Program(*problem)),
                Err(RecvTimeoutError::Disconnected) => return Ok(false),
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
            }
            if self.phases.is_called_off() {
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
                if self.phases.is_called_off() {
                    return Ok(false);
                }
                thread::sleep(STEP.into());
            }
        }
        together.ready();
        let first = loop {
            if let Some(first) = self.phases.begin() {
                break first;
            }
            if self.phases.is_called_off() {
                return Ok(false);
            }
            thread::sleep(STEP.into());
        };
        let at = self.phases.start;
        self.counts.start = at;
        self.counts.measure_at = self.phases.measure_at;
        self.tell_measured();
        self.sink.event(RunEvent::Started { at });
        self.counts.begin(at, first);
        self.sink.event(RunEvent::PhaseStarted { phase: first, at });
        Ok(true)
    }

    /// Reports that the trace begins after calls were made already.
    fn tell_late(&self) {
        if self.plan.number == 0 {
            self.plan.node.log.note(format!(
                "the trace of processes with a role begins with the load, since the warm-up is shorter than {LEAD}: \
                 it misses the first calls"
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

    fn tell_measured(&mut self) {
        let (measure_at, last) = (self.phases.measure_at, self.phases.last);
        self.counts.last = last;
        if self.plan.number == 0 {
            self.plan.node.log.measured(measure_at, last);
        }
    }

    fn run(mut self) -> Outcome {
        loop {
            let now = Clock.now();
            if self.phases.follow_stop(now) {
                self.tell_measured();
            }
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

    /// Whether nothing is left on the node, or it takes too long to confirm that.
    fn is_over(&mut self, now: Time) -> bool {
        let last = self.phases.last;
        if !self.is_ended {
            self.is_ended = true;
            let wait = if self.phases.is_stopped() { Nanos::ZERO } else { RETURNS };
            self.order(Order::End { at: last, until: last + wait });
        }
        let longest = if self.control.is_stopping() { CLOSING_STOPPED } else { CLOSING };
        self.is_closed || now.since(last) > longest
    }

    /// Tells of the slices and phases that have ended; when the next does.
    fn report(&mut self, now: Time) -> Time {
        while let Some(end) = self.phases.slice_end(now) {
            self.counts.end(end.at, end.ends_phase);
            self.sink.slice(&self.counts.slice);
            self.counts.begin(end.at, end.next);
            if end.ends_phase {
                self.sink.event(RunEvent::PhaseStarted { phase: end.next, at: end.at });
            }
        }
        self.phases.next_slice_end()
    }

    fn finish(mut self) -> Outcome {
        let end = Clock.now();
        self.counts.end(end, true);
        self.sink.slice(&self.counts.slice);
        if !self.is_closed {
            let text = "the node has not confirmed that the trace is removed: it removes it by itself";
            self.plan.node.log.note(text.to_owned());
        }
        let mut outcome = Outcome {
            phases: self.phases.finish(end),
            interrupted: self.phases.is_stopped(),
            ..Outcome::started(self.phases.start)
        };
        outcome.tallies.insert(self.plan.metrics.scenario(), self.counts.finish());
        outcome
    }
}

/// The slice of the moment, and the tally of calls that were made in the measured phase.
#[derive(Debug)]
struct CallCounts {
    metrics: TraceMetrics,
    /// The common start; calls before it are set-up.
    start: Time,
    /// Calls before it are warm-up.
    measure_at: Time,
    /// Calls from then on are the drain's.
    last: Time,
    slice: Slice,
    tally: Counts,
}

impl CallCounts {
    fn new(metrics: TraceMetrics) -> Self {
        Self {
            metrics,
            start: Time(u64::MAX),
            measure_at: Time(u64::MAX),
            last: Time(u64::MAX),
            slice: Slice::with(&metrics.recorded()),
            tally: Counts::with(&metrics.all()),
        }
    }

    fn begin(&mut self, at: Time, phase: Phase) {
        self.slice.reset(at, phase);
        if phase != Phase::Warmup {
            self.slice.set_due(self.measure_at, Time(u64::MAX));
        }
    }

    fn is_measured(&self, at: Time) -> bool {
        (self.measure_at..self.last).contains(&at)
    }

    /// A call belongs to the phase in which it was made, whenever its return comes.
    fn add(&mut self, seen: SeenCall) {
        let of = self.metrics;
        let (called, metric) = match seen {
            SeenCall::Called { at } => (at, of.calls),
            SeenCall::Returned { called, raised, .. } => (called, if raised { of.raised } else { of.returned }),
        };
        if called < self.start {
            return;
        }
        self.slice.counts.add(metric, 1);
        if self.is_measured(called) {
            self.tally.add(metric, 1);
        }
        if let SeenCall::Returned { called, took, .. } = seen
            && called < self.last
        {
            self.slice.due(called).record(of.duration, took);
        }
    }

    /// The tally, with the calls whose return was not seen.
    fn finish(mut self) -> OperationTally {
        let of = self.metrics;
        let ended = self.tally.get(of.returned) + self.tally.get(of.raised);
        let open = self.tally.get(of.calls).saturating_sub(ended);
        self.tally.add(of.open, open);
        OperationTally { counts: self.tally, ..OperationTally::default() }
    }

    fn end(&mut self, at: Time, ends_phase: bool) {
        self.slice.end = at.max(self.slice.start);
        self.slice.ends_phase = ends_phase;
    }
}

measure::metrics! {
    /// The metrics of a trace.
    struct TraceMetrics of "trace" {
        duration: latency() "trace_duration", "call duration",
            "from a call of the traced function to its return, including waits";
        calls: counter("calls") "trace_begun", "calls", "calls of the function";
        returned: counter("calls") "trace_completed", "returned", "calls that returned normally";
        raised: counter("calls") "trace_raised", "raised", "calls that an exception ended";
        open: counter("calls") "trace_open", "open at the end",
            "calls whose return was not seen: they have no latency, perhaps the worst";
    }
    at the end: open
}

impl TraceMetrics {
    fn scenario(&self) -> &'static str {
        self.duration.info().scenario
    }

    /// Others make the calls: their results are not judged, and none is due at a time.
    const fn operations(&self) -> Operations {
        Operations {
            one: "call",
            many: "calls",
            role: ScenarioRole::Watcher,
            begun: self.calls,
            completed: self.returned,
            failed: None,
            scheduled: None,
            latency: self.duration,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn returned(called: u64, took: u64) -> SeenCall {
        SeenCall::Returned { called: Time(called), took: Nanos(took), raised: false }
    }

    /// The measured phase lasts from 200 to 300.
    #[test]
    fn a_call_counts_in_the_phase_in_which_it_was_made() {
        let metrics = TraceMetrics::resolve("trace_counted");
        let mut counts = CallCounts::new(metrics);
        (counts.start, counts.measure_at, counts.last) = (Time(100), Time(200), Time(300));
        counts.begin(Time(100), Phase::Warmup);
        for at in [50, 150, 199, 200, 299, 300] {
            counts.add(SeenCall::Called { at: Time(at) });
        }
        counts.begin(Time(200), Phase::Measure);
        counts.add(returned(50, 1_000));
        counts.add(returned(199, 2_000));
        counts.add(returned(200, 3_000));
        let recorded: Vec<(Phase, u64)> =
            (counts.slice.histograms()).map(|it| (it.due, it.histogram.count())).collect();
        assert_eq!(recorded, [(Phase::Measure, 1), (Phase::Warmup, 1)]);
        counts.begin(Time(300), Phase::Drain);
        counts.add(returned(300, 4_000));
        assert_eq!(counts.slice.histograms().count(), 0, "the drain's own call");
        let tally = counts.finish().counts;
        assert_eq!([metrics.calls, metrics.returned, metrics.open].map(|it| tally.get(it)), [2, 1, 1]);
    }
}
