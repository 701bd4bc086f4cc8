//! A thread that traces all traced functions of one node, and reports each trace's calls to its scenario.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use archive::TracedCall;
use erlang::term::{as_int, atom};
use erlang::trace::{Call, Return, Trace, TraceEvent, TraceOptions};
use erlang::{ConnectOptions, Ended, Error, FunctionPattern, Helper, Node, ProcessFilter, lacks_role};
use measure::{Clock, Nanos, Problem, Time};

use super::log::TraceLog;
use experiment::OneTrace;

/// The longest wait for an answer while the trace runs.
const WAIT: Duration = Duration::from_millis(50);
/// A refusal of the node comes within this time.
const REFUSED_WITHIN: Duration = Duration::from_millis(1_500);
/// How long after the end of sending earlier calls may still be reported.
const HEARD_OF: Nanos = Nanos::from_millis(300);
/// Times that a node's clock is asked; the quickest answer counts.
const CLOCK_READINGS: usize = 5;

fn is_of(one: &OneTrace, call: &Call) -> bool {
    let FunctionPattern { module, function, arity } = &one.function;
    *module == call.module
        && function.as_ref().is_none_or(|it| *it == call.function)
        && arity.is_none_or(|it| it == call.arity)
}

#[derive(Debug)]
pub(super) enum NodeNews {
    Ready,
    Refused(Box<Problem>),
    Seen(SeenCall),
    /// Nothing is left on the node, or why that is unknown was reported.
    Closed,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum SeenCall {
    Called { at: Time },
    Returned { called: Time, took: Nanos, raised: bool },
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Order {
    Begin,
    /// The load has ended `at`: wait for calls made before to return, no longer than `until`.
    End {
        at: Time,
        until: Time,
    },
}

#[derive(Debug)]
pub(crate) struct NodeTraces {
    /// How to reach the node; `None` before there is one.
    node: Option<ConnectOptions>,
    /// Functions of all traces, and limits of their common cost.
    options: TraceOptions,
    traces: Vec<OneTrace>,
    /// Where each scenario hears, until it has taken that.
    seats: Mutex<Vec<Option<Receiver<NodeNews>>>>,
    /// Channels to each scenario, until the thread runs.
    tell: Mutex<Option<Vec<Sender<NodeNews>>>>,
    pub(super) log: TraceLog,
}

impl NodeTraces {
    pub(crate) fn new(
        node: Option<ConnectOptions>,
        options: TraceOptions,
        traces: Vec<OneTrace>,
        log: TraceLog,
    ) -> Self {
        let (tell, seats): (Vec<_>, Vec<_>) = traces.iter().map(|_| channel()).unzip();
        let seats = seats.into_iter().map(Some).collect();
        Self { node, options, traces, seats: Mutex::new(seats), tell: Mutex::new(Some(tell)), log }
    }

    pub(super) fn trace(&self, number: usize) -> Option<&OneTrace> {
        self.traces.get(number)
    }

    /// Whether only processes with a role are traced, which have to be there when it begins.
    pub(super) const fn has_role(&self) -> bool {
        matches!(self.options.processes, ProcessFilter::Role(_))
    }

    /// Where a trace's scenario hears; once.
    pub(super) fn seat(&self, number: usize) -> Option<Receiver<NodeNews>> {
        let mut seats = self.seats.lock().unwrap_or_else(PoisonError::into_inner);
        seats.get_mut(number)?.take()
    }

    /// The thread's work: starts traces as ordered, and removes all at the end.
    pub(super) fn work(&self, orders: &Receiver<Order>) {
        let tell = self.tell.lock();
        let Some(tell) = tell.unwrap_or_else(PoisonError::into_inner).take() else { return };
        // One that has ended hears nothing.
        let all = |told: &dyn Fn() -> NodeNews| tell.iter().for_each(|one| drop(one.send(told())));
        match self.prepare() {
            Ok((helper, clock)) => {
                all(&|| NodeNews::Ready);
                self.follow(&helper, clock, &tell, orders);
                if let Err(error) = helper.close() {
                    let why = error.problem().sentence();
                    self.log.note(format!("the trace may have left something on the node: {why}"));
                }
                all(&|| NodeNews::Closed);
            }
            Err(problem) => all(&|| NodeNews::Refused(Box::new(problem.clone()))),
        }
    }

    /// Connects, and traces for a moment, so that refusals of the node are known before the load begins.
    fn prepare(&self) -> Result<(Helper, NodeClock), Problem> {
        let Some(node) = &self.node else {
            let help = "name it with broker.node";
            return Err(Problem::new("a trace needs the broker's Erlang node", "", help));
        };
        let problem = |error: Error| error.problem();
        let node = Node::connect(node).map_err(problem)?;
        let clock = NodeClock::read(&node).map_err(problem)?;
        let helper = Helper::load(&node).map_err(problem)?;
        let mut trace = Trace::start(&helper, &self.options).map_err(problem)?;
        match trace.next(REFUSED_WITHIN) {
            Ok(_) => {}
            // A broker without load has no channels and queues: they come with it.
            Err(error) if lacks_role(&error) => {}
            Err(error) => return Err(problem(error)),
        }
        trace.close().map_err(problem)?;
        Ok((helper, clock))
    }

    fn follow(&self, helper: &Helper, clock: NodeClock, tell: &[Sender<NodeNews>], orders: &Receiver<Order>) {
        let Ok(Order::Begin) = orders.recv() else { return };
        let first = Clock.now();
        let numbers = self.register();
        self.log.began(&numbers, first);
        let mut follower = CallSorter {
            of: self,
            clock,
            tell,
            left: self.traces.iter().map(|it| it.limit).collect(),
            early: 0,
            open: HashMap::new(),
            numbers,
        };
        let result = loop {
            let result = Trace::start(helper, &self.options).and_then(|mut trace| {
                let ended = follower.run(&mut trace, orders);
                let closed = trace.close();
                ended.and_then(|ended| closed.map(|()| ended))
            });
            if !follower.goes_on(&result, orders) {
                break result;
            }
        };
        follower.finish(result);
    }

    /// The numbers of the traces in the log.
    fn register(&self) -> Vec<usize> {
        let node = self.node.as_ref().map_or_else(String::new, |it| it.node.to_string());
        let add = |it: &OneTrace| self.log.add(&it.scenario, it.function.to_string(), node.clone());
        self.traces.iter().map(add).collect()
    }
}

/// A call whose return has not come.
#[derive(Debug)]
struct OpenCall {
    at: Time,
    call: TracedCall,
    traces: Vec<usize>,
}

/// Sorts the node's messages by trace.
struct CallSorter<'a> {
    of: &'a NodeTraces,
    clock: NodeClock,
    tell: &'a [Sender<NodeNews>],
    /// Calls of the measured phase that each trace may still see.
    left: Vec<u32>,
    /// Calls before it that the node has counted.
    early: u64,
    open: HashMap<u64, OpenCall>,
    numbers: Vec<usize>,
}

impl CallSorter<'_> {
    /// Follows the trace until its end; returns what ended it on the node.
    fn run(&mut self, trace: &mut Trace<'_>, orders: &Receiver<Order>) -> Result<Ended, Error> {
        let mut end: Option<(Time, Time)> = None;
        loop {
            match orders.try_recv() {
                Ok(Order::End { at, until }) => end = Some((at, until)),
                Ok(Order::Begin) | Err(TryRecvError::Empty) => {}
                // Whoever ordered is gone.
                Err(TryRecvError::Disconnected) => {
                    end.get_or_insert((Time(0), Time(0)));
                }
            }
            let now = Clock.now();
            let is_over = end.is_some_and(|(at, until)| {
                let is_awaited = self.open.values().any(|open| open.at < at);
                now >= until || (now >= at + HEARD_OF && !is_awaited)
            });
            let events = if is_over { trace.stop()? } else { trace.next(WAIT)? };
            events.into_iter().for_each(|event| self.heard(event));
            if let Some(ended) = trace.ended() {
                return Ok(ended.clone());
            }
        }
    }

    /// Whether calls before the measured phase used up the node's limit: then it is traced again, in that phase.
    fn goes_on(&mut self, result: &Result<Ended, Error>, orders: &Receiver<Order>) -> bool {
        let has_more = self.left.iter().any(|left| *left > 0);
        let is_limit = matches!(result, Ok(Ended::Limit(_)));
        if !is_limit || !has_more || std::mem::take(&mut self.early) == 0 {
            return false;
        }
        // Calls are numbered anew.
        self.keep_open();
        self.of.log.note(
            "calls before the measured phase used up the limit: the trace restarted in the measured phase, and some of \
             its first calls may be missing"
                .to_owned(),
        );
        loop {
            let from = self.of.log.measured_from();
            if from.is_some_and(|from| Clock.now() >= from) {
                return true;
            }
            match orders.recv_timeout(WAIT) {
                Ok(Order::Begin) | Err(RecvTimeoutError::Timeout) => {}
                Ok(Order::End { .. }) | Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
    }

    fn heard(&mut self, event: TraceEvent) {
        match event {
            TraceEvent::Call(call) => self.called(call),
            TraceEvent::Return(of) => self.returned(&of),
            TraceEvent::LoadedAnew(module) => self.of.log.note(format!(
                "{module} was reloaded, which ended its trace: it is traced again, and calls of up to a second are \
                 missing"
            )),
        }
    }

    fn called(&mut self, call: Call) {
        let at = self.clock.time(call.time);
        let all = self.of.traces.iter().enumerate();
        let its: Vec<usize> = all.filter(|(_, it)| is_of(it, &call)).map(|(trace, _)| trace).collect();
        let mut traces = Vec::with_capacity(its.len());
        let is_early = self.of.log.measured_from().is_none_or(|from| at < from);
        self.early += u64::from(is_early);
        for trace in its {
            match self.left.get_mut(trace) {
                Some(left) if *left > 0 => {
                    *left -= u32::from(!is_early);
                    traces.push(trace);
                    self.say(trace, SeenCall::Called { at });
                }
                // The node counts what all traces see together.
                _ => {
                    let limit = self.of.trace(trace).map_or(0, |it| it.limit);
                    if let Some(number) = self.numbers.get(trace) {
                        self.of.log.ended(*number, Clock.now(), reason(&Ended::Limit(limit.into())));
                    }
                }
            }
        }
        if traces.is_empty() {
            return;
        }
        let kept = TracedCall {
            function: format!("{}:{}/{}", call.module, call.function, call.arity),
            pid: call.pid,
            role: call.role,
            name: call.name,
            arguments: call.arguments,
            ..TracedCall::default()
        };
        self.open.insert(call.number, OpenCall { at, call: kept, traces });
    }

    fn returned(&mut self, of: &Return) {
        let Some(mut open) = self.open.remove(&of.number) else { return };
        let took = Nanos::from(of.duration);
        open.call.duration_ns = Some(took.0);
        open.call.returned.clone_from(&of.kind);
        for trace in &open.traces {
            let seen = SeenCall::Returned { called: open.at, took, raised: of.kind != "ok" };
            self.say(*trace, seen);
        }
        self.keep(open);
    }

    fn keep(&self, open: OpenCall) {
        for trace in open.traces {
            if let Some(number) = self.numbers.get(trace) {
                self.of.log.keep(*number, open.at, open.call.clone());
            }
        }
    }

    fn say(&self, trace: usize, seen: SeenCall) {
        if let Some(tell) = self.tell.get(trace) {
            // A scenario that has ended counts nothing more.
            let _ = tell.send(NodeNews::Seen(seen));
        }
    }

    fn keep_open(&mut self) {
        let mut open: Vec<OpenCall> = self.open.drain().map(|(_, open)| open).collect();
        open.sort_by_key(|it| it.at);
        open.into_iter().for_each(|open| self.keep(open));
    }

    fn finish(mut self, result: Result<Ended, Error>) {
        self.keep_open();
        let why = match &result {
            Ok(ended) => reason(ended),
            Err(error) => Some((error.problem().sentence(), String::new())),
        };
        let now = Clock.now();
        for number in &self.numbers {
            self.of.log.ended(*number, now, why.clone());
        }
    }
}

/// Why a trace ended by itself, and by which limit; `None` where it was told to end.
fn reason(ended: &Ended) -> Option<(String, String)> {
    let is_told = *ended == Ended::Asked;
    (!is_told).then(|| (ended.cause(), ended.limit().to_owned()))
}

/// Another machine's clock by this one's.
#[derive(Clone, Copy, Debug)]
struct NodeClock {
    /// Nanoseconds since 1970 on the node where this machine's monotonic clock shows 0.
    zero: i128,
}

impl NodeClock {
    /// Asks the node for its time, and keeps the quickest answer: its error is at most half of the round trip.
    fn read(node: &Node) -> Result<Self, Error> {
        let mut best: Option<(Nanos, i128)> = None;
        for _ in 0..CLOCK_READINGS {
            let asked = Clock.now();
            let told = node.call("erlang", "system_time", vec![atom("nanosecond")])?;
            let took = Clock.now().since(asked);
            let middle = i128::from(asked.0) + i128::from(took.0 / 2);
            // A node may tell any number.
            let zero = as_int(&told).unwrap_or_default().saturating_sub(middle);
            if best.is_none_or(|(shortest, _)| took < shortest) {
                best = Some((took, zero));
            }
        }
        let zero = best.map_or(0, |(_, zero)| zero);
        Ok(Self { zero })
    }

    fn time(self, at: SystemTime) -> Time {
        let since = at.duration_since(SystemTime::UNIX_EPOCH);
        let ns = since.map_or(0, |it| i128::try_from(it.as_nanos()).unwrap_or(i128::MAX));
        Time(u64::try_from(ns.saturating_sub(self.zero)).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use erlang::Budget;

    use super::*;

    fn traces(log: &TraceLog) -> NodeTraces {
        let function: FunctionPattern = "lists:sort/1".parse().unwrap();
        let options = TraceOptions {
            functions: vec![function.clone()],
            arguments: None,
            processes: ProcessFilter::All,
            limit: 3,
            rate: 500,
            returns: true,
            argument_bytes: 0,
            budget: Budget::lasting(Duration::from_secs(1)),
        };
        let one = OneTrace { scenario: "trace".to_owned(), function, limit: 3 };
        NodeTraces::new(None, options, vec![one], log.clone())
    }

    #[test]
    fn calls_before_the_measured_phase_use_up_no_limit() {
        let log = TraceLog::default();
        let of = traces(&log);
        let (tell, told) = channel();
        let tell = [tell];
        let mut sorter = CallSorter {
            of: &of,
            clock: NodeClock { zero: 0 },
            tell: &tell,
            left: vec![3],
            early: 0,
            open: HashMap::new(),
            numbers: of.register(),
        };
        let mut number = 0;
        let mut call = |sorter: &mut CallSorter<'_>, at: u64| {
            number += 1;
            sorter.called(Call {
                number,
                time: SystemTime::UNIX_EPOCH + Duration::from_nanos(at),
                pid: "<0.1.0>".to_owned(),
                role: String::new(),
                name: String::new(),
                module: "lists".to_owned(),
                function: "sort".to_owned(),
                arity: 1,
                arguments: Vec::new(),
            });
            told.try_iter().count()
        };
        // The measured phase is not known yet, and then not there.
        assert_eq!(call(&mut sorter, 10), 1);
        log.measured(Time(1_000), Time(2_000));
        assert_eq!(call(&mut sorter, 999), 1);
        assert_eq!((sorter.left[0], sorter.early), (3, 2));
        assert_eq!(call(&mut sorter, 1_000), 1);
        // The node has counted three, and is asked for more.
        let (_order, orders) = channel();
        assert!(sorter.goes_on(&Ok(Ended::Limit(3)), &orders));
        let seen: usize = (0..3).map(|_| call(&mut sorter, 1_500)).sum();
        assert_eq!((seen, sorter.left[0]), (2, 0));
        assert!(!sorter.goes_on(&Ok(Ended::Limit(3)), &orders));
        // What ended it otherwise ended it.
        (sorter.left[0], sorter.early) = (1, 1);
        assert!(!sorter.goes_on(&Ok(Ended::Time), &orders));
    }
}
