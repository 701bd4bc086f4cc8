//! The event loop of operations, on a thread of its own: whoever takes its reports may take their time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

use measure::{Clock, Nanos, Phase, Slice, ThreadUsage, Time};
use mio::{Events, Poll, Token};
use transport::tls::Connector;
use transport::{ConnectAttempt, ConnectOptions, Timer};

use super::counts::Awaited;
use super::{Buffers, Operation, OperationCounts, Slot};
use crate::control::{FINISHING, Interruption, StopRequest, Watch};
use crate::engine::silence::SHORTEST;
use crate::resolve::Addresses;
use crate::scenario::Scenario;
use crate::{Control, Environment, Error, Outcome, PhaseClock, RunEvent, Silence, StartBarrier, System};
use plan::{DueTimes, Pacer};

const TIMER: Token = Token(usize::MAX);
/// A connection that begins this long after the last look-up of the server's name looks it up again.
const ASK_AFTER: Nanos = Nanos(5_000_000_000);
/// Without a schedule, nothing else slows down a slot that only fails.
const REST: Nanos = Nanos(100_000_000);
/// A loop that is late for the end may still begin what was due before it, for this long.
const OVERTIME: Nanos = Nanos(20_000_000);

/// Reports of the event loop to its caller.
pub(crate) enum LoopReport {
    Interval(Box<Slice>),
    Event(RunEvent),
}

/// The part of an event loop that its operation works with.
pub(crate) struct LoopContext<'a, O: Operation> {
    pub(crate) plan: &'a O::Plan,
    pub(crate) control: &'a Control,
    tell: Sender<LoopReport>,
    pub(crate) poll: Poll,
    pub(crate) addresses: Arc<Addresses>,
    tls: Option<Arc<Connector>>,
    dialled: usize,
    /// Slots without an operation; the last one is the next to be used.
    pub(crate) free: VecDeque<usize>,
    /// Slots that failed, and when they may have another try.
    resting: VecDeque<(Time, usize)>,
    pub(crate) counts: OperationCounts<O::Figures>,
    /// When operations are due, where that does not depend on others.
    pacer: Option<Arc<Pacer>>,
}

impl<O: Operation> LoopContext<'_, O> {
    pub(crate) fn say(&self, event: RunEvent) {
        // Whoever listens does so until this end is dropped.
        let _ = self.tell.send(LoopReport::Event(event));
    }

    /// A connection to the server, from one of these source addresses in turn, by the `deadline`.
    pub(crate) fn attempt(&mut self, sources: &[IpAddr], deadline: Time, now: Time) -> ConnectAttempt {
        let source = sources.get(self.dialled % sources.len().max(1)).copied();
        let turn = self.dialled / sources.len().max(1);
        self.dialled += 1;
        // Each of these connections is a client of its own, which would have asked itself.
        self.addresses.refresh_after(ASK_AFTER, now);
        let tls = self.tls.clone();
        let addresses = self.addresses.in_turn(turn, source);
        ConnectAttempt::new(addresses, ConnectOptions { source, tls }, deadline)
    }

    /// Frees a slot that has lost its connection.
    pub(crate) fn free_after_failure(&mut self, at: usize) {
        if self.pacer.is_some() {
            self.free.push_front(at);
        } else {
            self.resting.push_back((Clock.now() + REST, at));
        }
    }
}

/// The event loop of one kind of operation.
pub(crate) struct OperationLoop<'a, O: Operation> {
    operation: O,
    pub(crate) slots: Vec<O::Slot>,
    buffers: Buffers,
    pub(crate) context: LoopContext<'a, O>,
    together: &'a StartBarrier,
    phases: PhaseClock<'a>,
    /// Intervals that were told.
    spare: Receiver<Box<Slice>>,
    timer: Timer,
    /// Slots whose last turn left something to read.
    unread: BTreeSet<usize>,
    /// When heartbeats and hanging operations are looked for again.
    next_look: Time,
    /// Since when there has been room for an operation; `None`: there is none.
    room_since: Option<Time>,
    idle: Nanos,
    /// When the loop first looked after the end of the load.
    over_since: Option<Time>,
    usage: ThreadUsage,
}

impl<'a, O: Operation> OperationLoop<'a, O> {
    /// Finds the server, and opens what stays.
    pub(crate) fn start(
        plan: &'a O::Plan,
        together: &'a StartBarrier,
        control: &'a Control,
        tell: Sender<LoopReport>,
        spare: Receiver<Box<Slice>>,
    ) -> Result<Self, Interruption> {
        let server = O::connect(plan, control)?;
        let schedule = O::schedule(plan);
        let now = Clock.now();
        let count = plan.in_flight_limit().unwrap_or(1) as usize;
        let poll = Poll::new().map_err(|error| Error::machine("set up an event loop", error))?;
        let timer = Timer::register(poll.registry(), TIMER).map_err(|error| Error::machine("create a timer", error))?;
        let context = LoopContext {
            plan,
            control,
            tell,
            poll,
            addresses: server.addresses,
            tls: server.tls,
            dialled: 0,
            free: (0..count).rev().collect(),
            resting: VecDeque::new(),
            counts: O::counts(plan, now),
            pacer: schedule.map(|it| it.pacer(1)).transpose()?,
        };
        if let Some(event) = server.event {
            context.say(event);
        }
        let mut event_loop = Self {
            operation: server.operation,
            slots: (0..count).map(|at| O::Slot::new(at, now)).collect(),
            buffers: Buffers { plain: vec![0; 256 << 10], cipher: Vec::new() },
            context,
            together,
            phases: PhaseClock::new(plan.phases(), together, control),
            spare,
            timer,
            unread: BTreeSet::new(),
            next_look: now,
            room_since: Some(now),
            idle: Nanos::ZERO,
            over_since: None,
            usage: ThreadUsage::default(),
        };
        O::open(&mut event_loop)?;
        Ok(event_loop)
    }

    pub(crate) fn run(mut self) -> Result<Outcome, Interruption> {
        let mut due_times = self.begin_run()?;
        let error = self.poll_until_done(&mut due_times).err();
        Ok(self.end_run(due_times, error))
    }

    /// Waits for the other scenarios. The schedule counts from the common start.
    fn begin_run(&mut self) -> Result<Option<DueTimes>, Interruption> {
        let mut events = Events::with_capacity(1_024);
        self.together.ready();
        let first = loop {
            if let Some(first) = self.phases.begin() {
                break first;
            }
            self.check_stop()?;
            self.poll(&mut events, Clock.now() + Nanos::from_millis(10))?;
        };
        let start = self.phases.start;
        let counts = &mut self.context.counts;
        counts.measure_from(start, self.phases.measure_at);
        counts.wait_for(start, Awaited::Due(start));
        counts.interval.reset(start, first);
        self.context.say(RunEvent::Started { at: start });
        self.next_look = start + O::POLL_INTERVAL;
        self.enter(first, start);
        let pacer = self.context.pacer.as_ref();
        Ok(pacer.map(|pacer| DueTimes::new(pacer, start, 0, 0)))
    }

    /// Ends a start that is called off.
    pub(crate) fn check_stop(&self) -> Result<(), Interruption> {
        if self.phases.is_called_off() { Err(Interruption::Stopped) } else { Ok(()) }
    }

    fn poll_until_done(&mut self, due_times: &mut Option<DueTimes>) -> Result<(), Error> {
        let mut events = Events::with_capacity(1_024);
        loop {
            let now = Clock.now();
            self.phases.follow_stop(now);
            let next_report = self.report(now);
            let (control, start) = (self.context.control, self.phases.start);
            if control.is_overdue(start, FINISHING, Clock.now()) {
                return Ok(());
            }
            let next_due = self.begin_due(due_times, now)?;
            if now >= self.phases.last && self.in_flight() == 0 {
                return Ok(());
            }
            let wake = next_due.map_or(self.next_look, |due| due.min(self.next_look));
            self.poll(&mut events, wake.min(next_report))?;
        }
    }

    /// Sleeps until `wake` or until a socket is ready, polls the slots, and sometimes looks for hanging ones.
    pub(crate) fn poll(&mut self, events: &mut Events, wake: Time) -> Result<(), Error> {
        let asked = self.wait(events, wake)?;
        for at in std::mem::take(&mut self.unread) {
            self.give_turn(at)?;
        }
        for event in events.iter() {
            let at = event.token().0;
            if let Some(slot) = self.slots.get_mut(at) {
                slot.notice(event);
                self.give_turn(at)?;
            }
        }
        if asked < self.next_look {
            return Ok(());
        }
        self.next_look = asked + O::POLL_INTERVAL;
        for at in 0..self.slots.len() {
            let Some(slot) = self.slots.get_mut(at) else { break };
            match O::keep_time(slot, self.context.plan, asked) {
                Ok(true) => self.give_turn(at)?,
                Ok(false) => {}
                Err(failure) => self.operation.failed(slot, &mut self.context, failure)?,
            }
        }
        self.tell_silences(false);
        Ok(())
    }

    fn tell_silences(&mut self, is_end: bool) {
        let (start, last) = (self.phases.start, self.phases.last);
        let pacer = self.context.pacer.as_deref();
        let due_until = |at: Time| pacer.map_or(0.0, |it| it.until(at.min(last).since(start)));
        for silence in O::take_silences(&mut self.context.counts, due_until, is_end) {
            self.context.say(RunEvent::Silence(silence));
        }
    }

    /// Tells of the slices and phases that have ended; when the next does.
    fn report(&mut self, now: Time) -> Time {
        while let Some(end) = self.phases.slice_end(now) {
            self.flush(end.at, end.next);
            if end.ends_phase {
                self.enter(end.next, end.at);
            }
        }
        self.phases.next_slice_end()
    }

    fn in_flight(&self) -> usize {
        self.slots.len() - self.context.free.len() - self.context.resting.len()
    }

    fn flush(&mut self, end: Time, next: Phase) {
        let in_flight = self.in_flight();
        let counts = &mut self.context.counts;
        let spare = self.spare.try_recv().unwrap_or_else(|_| counts.new_interval());
        let done = counts.exchange(spare, end, next);
        counts.in_flight(in_flight);
        let _ = self.context.tell.send(LoopReport::Interval(done));
    }

    fn enter(&mut self, phase: Phase, at: Time) {
        let so_far = System.thread_time().usage(self.idle, Clock.now());
        if phase == Phase::Measure {
            self.usage = so_far;
        } else if phase == Phase::Drain && self.usage.measured_time > Nanos::ZERO {
            self.usage = so_far.since(&self.usage);
        }
        self.context.say(RunEvent::PhaseStarted { phase, at });
    }

    /// Begins the operations whose time has come, as far as there are slots; tells when the next is due.
    fn begin_due(&mut self, due_times: &mut Option<DueTimes>, now: Time) -> Result<Option<Time>, Error> {
        let context = &mut self.context;
        while let Some((_, at)) = context.resting.pop_front_if(|(until, _)| *until <= now) {
            context.free.push_back(at);
        }
        let mut late = false;
        // What was due before the end may still begin for a moment, from when the loop is back.
        let last = self.phases.last;
        let is_over = now >= last && now.since(*self.over_since.get_or_insert(now)) > OVERTIME;
        let unthrottled = now.max(self.phases.start);
        let next = loop {
            let context = &mut self.context;
            let due = due_times.as_ref().map_or(unthrottled, DueTimes::due);
            if due >= last || is_over {
                context.counts.wait_for(now, Awaited::Due(Time(u64::MAX)));
                break None;
            }
            if due > now {
                context.counts.wait_for(now, Awaited::Due(due));
                break Some(due);
            }
            // A slot that becomes free wakes the loop.
            let Some((at, slot)) = context.free.pop_back().and_then(|at| Some((at, self.slots.get_mut(at)?))) else {
                self.room_since = None;
                context.counts.wait_for(now, Awaited::Room);
                return Ok(context.resting.front().map(|(until, _)| *until));
            };
            let begun = Clock.now();
            let due = due_times.as_mut().map_or(begun, |due_times| {
                due_times.advance();
                due
            });
            let possible = (*self.room_since.get_or_insert(begun)).max(due);
            late |= begun.since(due) > Nanos::from_millis(1);
            context.counts.begin(due, possible, begun);
            match self.operation.begin(slot, context, due, begun) {
                Ok(true) => self.give_turn(at)?,
                Ok(false) => {}
                Err(failure) => self.operation.failed(slot, context, failure)?,
            }
            let in_flight = self.in_flight();
            self.context.counts.in_flight(in_flight);
        };
        if !late && self.context.control.watch_on(Watch::Backlog, Watch::Off) {
            self.context.say(RunEvent::BacklogGone { at: now });
        }
        Ok(next)
    }

    /// Sleeps until `wake` or until a socket is ready. Tells when it asked: all that had come is among the events.
    fn wait(&mut self, events: &mut Events, wake: Time) -> Result<Time, Error> {
        let now = Clock.now();
        let timeout = if wake <= now || !self.unread.is_empty() {
            Some(Duration::ZERO)
        } else {
            // The poll's own time-out counts whole milliseconds.
            self.timer.arm(wake).map_err(|error| Error::machine("set a timer", error))?;
            None
        };
        let poll = &mut self.context.poll;
        match poll.poll(events, timeout) {
            // Stopped and continued by a signal: what is in the sockets now came meanwhile.
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {
                let _ = poll.poll(events, Some(Duration::ZERO));
            }
            Err(error) => return Err(Error::machine("wait for the sockets", error)),
            Ok(()) => {}
        }
        let back = Clock.now();
        if timeout.is_none() && back.since(wake) >= SHORTEST && self.phases.phase().is_some() {
            let in_flight = self.in_flight() as u64;
            let own = Silence { from: wake, until: back, connections: in_flight, in_flight, ..Silence::default() };
            let counts = &mut self.context.counts;
            let handled = counts.handled;
            counts.unanswered.silences.come_back(own, handled);
        }
        let slept = back.since(now);
        self.idle += slept;
        self.context.counts.interval.waits.loop_idle += slept;
        Ok(now)
    }

    fn give_turn(&mut self, at: usize) -> Result<(), Error> {
        let Some(slot) = self.slots.get_mut(at) else { return Ok(()) };
        let context = &mut self.context;
        if let Err(failure) = self.operation.turn(slot, context, &mut self.buffers) {
            return self.operation.failed(slot, context, failure);
        }
        if slot.wants_turn() {
            self.unread.insert(at);
        }
        Ok(())
    }

    /// Tells of the last interval, and sums up.
    fn end_run(mut self, due_times: Option<DueTimes>, error: Option<Error>) -> Outcome {
        let now = Clock.now();
        if error.is_some() || self.context.control.request() == StopRequest::Abort {
            self.phases.end_load(now);
        }
        let last = self.phases.last;
        self.together.end(last);
        self.report(now);
        self.tell_silences(true);
        if let Some(note) = O::last_note(&self.context) {
            self.context.say(RunEvent::Note(note));
        }
        // A drain of nothing is no interval: its rates would be those of a few microseconds.
        let metrics = self.context.counts.metrics;
        let interval = &self.context.counts.interval;
        let ended = !interval.is_empty() || interval.counts.get(metrics.failed) > 0;
        if interval.phase != Phase::Drain || ended {
            self.flush(now, Phase::Drain);
        }
        let is_stopped = self.phases.is_stopped();
        let drain_cut = self.context.control.is_stopping() && !is_stopped && self.in_flight() > 0;
        let in_flight = self.slots.iter().filter_map(Slot::due);
        let counts = &mut self.context.counts;
        let (tally, censored) = counts.finish(due_times, in_flight, last, now);
        // All that is known of a server that refuses everything is why.
        let says_why = O::FAILS_BESIDE_OTHERS || self.together.is_alone();
        let has_failed = says_why && tally.counts.get(metrics.completed) == 0;
        let failure = tally.first_failure.clone().filter(|_| has_failed);
        Outcome {
            phases: self.phases.finish(now),
            interrupted: is_stopped,
            drain_cut,
            error: error.or(failure),
            censored,
            threads: vec![self.usage],
            tallies: BTreeMap::from([(metrics.scenario, tally)]),
            ..Outcome::started(self.phases.start)
        }
    }
}
