//! The event loop of operations, on a thread of its own: whoever takes its reports may take their time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

use measure::{Clock, Nanos, Phase, Slice, Time};
use mio::{Events, Poll, Token};
use transport::tls::Connector;
use transport::{ConnectAttempt, ConnectOptions, Timer};

use super::awaited::Awaited;
use super::{Buffers, Operation, OperationCounts, Slot};
use crate::control::{FINISHING, Interruption, StopRequest, Watch};
use crate::engine::silence::SHORTEST;
use crate::resolve::Addresses;
use crate::scenario::Scenario;
use crate::schedule::{DueTimes, Pacer};
use crate::seconds::SLICE;
use crate::thread_time::spent;
use crate::{Control, Error, Outcome, PhaseTimes, RunEvent, Silence, ThreadUsage, Together};

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
    pub(crate) tell: Sender<LoopReport>,
    pub(crate) poll: Poll,
    pub(crate) addresses: Arc<Addresses>,
    tls: Option<Arc<Connector>>,
    dialled: usize,
    pub(crate) slots: Vec<O::Slot>,
    /// Slots without an operation; the last one is the next to be used.
    pub(crate) free: VecDeque<usize>,
    /// Slots that failed, and when they may have another try.
    resting: VecDeque<(Time, usize)>,
    pub(crate) buffers: Buffers,
    pub(crate) counts: OperationCounts<O::Figures>,
    /// When operations are due, where that does not depend on others.
    pacer: Option<Arc<Pacer>>,
}

impl<O: Operation> LoopContext<'_, O> {
    pub(crate) fn say(&self, event: RunEvent) {
        // Whoever listens does so until this end is dropped.
        let _ = self.tell.send(LoopReport::Event(event));
    }

    /// A connection to the server, from one of these addresses of this machine in turn, that is to be there by the
    /// `deadline`.
    pub(crate) fn attempt(
        &mut self,
        sources: &[IpAddr],
        deadline: Time,
        now: Time,
    ) -> ConnectAttempt {
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

    fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len() - self.resting.len()
    }
}

/// The event loop of one kind of operation.
pub(crate) struct OperationLoop<'a, O: Operation> {
    operation: O,
    pub(crate) context: LoopContext<'a, O>,
    together: &'a Together,
    /// Intervals that were told.
    spare: Receiver<Box<Slice>>,
    timer: Timer,
    /// Slots whose last turn left something to read.
    unread: BTreeSet<usize>,
    /// When heartbeats and hanging operations are looked for again.
    next_look: Time,
    /// The next whole tenth of a second of the phase.
    tick: Time,
    /// Since when there has been room for an operation; `None`: there is none.
    room_since: Option<Time>,
    /// Time with nothing to do.
    idle: Nanos,
    start: Time,
    /// First instant at which no more operations are due.
    last: Time,
    /// When the loop first looked after that.
    over_since: Option<Time>,
    stopped: bool,
    phases: Vec<PhaseTimes>,
    usage: ThreadUsage,
}

impl<'a, O: Operation> OperationLoop<'a, O> {
    /// Finds the server, and opens what stays.
    pub(crate) fn start(
        plan: &'a O::Plan,
        together: &'a Together,
        control: &'a Control,
        tell: Sender<LoopReport>,
        spare: Receiver<Box<Slice>>,
    ) -> Result<Self, Interruption> {
        let server = O::connect(plan, control)?;
        let schedule = O::schedule(plan);
        let now = Clock.now();
        let count = plan.in_flight_limit().unwrap_or(1) as usize;
        let poll = Poll::new().map_err(|error| Error::machine("set up an event loop", error))?;
        let timer = Timer::register(poll.registry(), TIMER)
            .map_err(|error| Error::machine("create a timer", error))?;
        let context = LoopContext {
            plan,
            control,
            tell,
            poll,
            addresses: server.addresses,
            tls: server.tls,
            dialled: 0,
            slots: (0..count).map(|at| O::Slot::new(at, now)).collect(),
            free: (0..count).rev().collect(),
            resting: VecDeque::new(),
            buffers: Buffers {
                plain: vec![0; 256 << 10],
                cipher: Vec::new(),
            },
            counts: O::counts(plan, now),
            pacer: schedule.map(|it| it.pacer(1)).transpose()?,
        };
        if let Some(event) = server.event {
            context.say(event);
        }
        let mut event_loop = Self {
            operation: server.operation,
            context,
            together,
            spare,
            timer,
            unread: BTreeSet::new(),
            next_look: now,
            tick: now,
            room_since: Some(now),
            idle: Nanos::ZERO,
            start: now,
            last: now,
            over_since: None,
            stopped: false,
            phases: Vec::new(),
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
        self.start = loop {
            if let Some(start) = self.together.start() {
                break start;
            }
            self.check_stop()?;
            self.poll(&mut events, Clock.now() + Nanos::from_millis(10))?;
        };
        let start = self.start;
        let phases = self.context.plan.phases();
        let counts = &mut self.context.counts;
        counts.measure_from(start, start + phases.warmup);
        self.last = match phases.measure {
            // The others tell when.
            None => Time(u64::MAX),
            Some(length) => counts.measure_at + length,
        };
        let first = if phases.warmup > Nanos::ZERO {
            Phase::Warmup
        } else {
            Phase::Measure
        };
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
        if self.context.control.is_stopping() || self.together.ended().is_some() {
            return Err(Interruption::Stopped);
        }
        Ok(())
    }

    fn poll_until_done(&mut self, due_times: &mut Option<DueTimes>) -> Result<(), Error> {
        let mut events = Events::with_capacity(1_024);
        loop {
            let now = Clock.now();
            let control = self.context.control;
            if control.is_stopping() && !self.stopped {
                self.stopped = now < self.last;
                self.last = self.last.min(now);
            }
            if let Some(end) = self.together.ended() {
                self.last = self.last.min(end);
            }
            let next_report = self.report(now);
            if control.is_overdue(self.start, FINISHING, Clock.now()) {
                return Ok(());
            }
            let next_due = self.begin_due(due_times, now)?;
            if now >= self.last && self.context.in_flight() == 0 {
                return Ok(());
            }
            let wake = next_due.map_or(self.next_look, |due| due.min(self.next_look));
            self.poll(&mut events, wake.min(next_report))?;
        }
    }

    /// Sleeps until `wake` or until a socket has something, gives the slots their turns, and looks now and then for
    /// those that hang.
    pub(crate) fn poll(&mut self, events: &mut Events, wake: Time) -> Result<(), Error> {
        let asked = self.wait(events, wake)?;
        for at in std::mem::take(&mut self.unread) {
            self.give_turn(at)?;
        }
        for event in events.iter() {
            let at = event.token().0;
            if let Some(slot) = self.context.slots.get_mut(at) {
                slot.notice(event);
                self.give_turn(at)?;
            }
        }
        if asked < self.next_look {
            return Ok(());
        }
        self.next_look = asked + O::POLL_INTERVAL;
        for at in 0..self.context.slots.len() {
            let Some(slot) = self.context.slots.get_mut(at) else {
                break;
            };
            match O::keep_time(self.context.plan, slot, asked) {
                Ok(true) => self.give_turn(at)?,
                Ok(false) => {}
                Err(failure) => self.operation.failed(&mut self.context, at, failure)?,
            }
        }
        self.tell_silences(false);
        Ok(())
    }

    fn tell_silences(&mut self, is_end: bool) {
        let (start, last) = (self.start, self.last);
        let pacer = self.context.pacer.as_deref();
        let due_until = |at: Time| pacer.map_or(0.0, |it| it.until(at.min(last).since(start)));
        for silence in O::take_silences(&mut self.context.counts, due_until, is_end) {
            self.context.say(RunEvent::Silence(silence));
        }
    }

    /// Tells of the slices and phases that have ended; when the next does.
    fn report(&mut self, now: Time) -> Time {
        loop {
            let counts = &self.context.counts;
            let phase = counts.interval.phase;
            let (end, next) = match phase {
                Phase::Warmup if self.last <= counts.measure_at => (self.last, Phase::Drain),
                Phase::Warmup => (counts.measure_at, Phase::Measure),
                Phase::Measure => (self.last, Phase::Drain),
                Phase::Drain => (Time(u64::MAX), Phase::Drain),
            };
            if now >= end {
                self.flush(end, next);
                self.enter(next, end);
                continue;
            }
            if now >= self.tick {
                // Intervals of all scenarios end at the same instants.
                let slices = now.since(self.tick).0 / SLICE.0;
                let last = self.tick + Nanos(slices * SLICE.0);
                self.flush(last, phase);
                self.tick = last + SLICE;
                continue;
            }
            return self.tick.min(end);
        }
    }

    /// Hands the interval over, and begins the next.
    fn flush(&mut self, end: Time, next: Phase) {
        let in_flight = self.context.in_flight();
        let counts = &mut self.context.counts;
        let spare = self.spare.try_recv();
        let spare = spare.unwrap_or_else(|_| counts.new_interval());
        let done = counts.exchange(spare, end, next);
        counts.in_flight(in_flight);
        let _ = self.context.tell.send(LoopReport::Interval(done));
    }

    fn enter(&mut self, phase: Phase, at: Time) {
        if let Some(before) = self.phases.last_mut() {
            before.end = at;
            if before.phase == Phase::Measure {
                self.usage = spent(self.idle, self.usage);
            }
        }
        self.tick = at + SLICE;
        if phase == Phase::Measure {
            self.usage = spent(self.idle, ThreadUsage::default());
        }
        self.phases.push(PhaseTimes {
            phase,
            start: at,
            end: at,
        });
        self.context.say(RunEvent::PhaseStarted { phase, at });
    }

    /// Begins the operations whose time has come, as far as there are slots; tells when the next is due.
    fn begin_due(
        &mut self,
        due_times: &mut Option<DueTimes>,
        now: Time,
    ) -> Result<Option<Time>, Error> {
        let context = &mut self.context;
        while let Some((_, at)) = context.resting.pop_front_if(|(until, _)| *until <= now) {
            context.free.push_back(at);
        }
        let mut late = false;
        // What was due before the end may still begin for a moment, from when the loop is back.
        let is_over = now >= self.last && now.since(*self.over_since.get_or_insert(now)) > OVERTIME;
        let unthrottled = now.max(self.start);
        let next = loop {
            let context = &mut self.context;
            let due = due_times.as_ref().map_or(unthrottled, DueTimes::due);
            if due >= self.last || is_over {
                context.counts.wait_for(now, Awaited::Due(Time(u64::MAX)));
                break None;
            }
            if due > now {
                context.counts.wait_for(now, Awaited::Due(due));
                break Some(due);
            }
            // A slot that becomes free wakes the loop.
            let Some(at) = context.free.pop_back() else {
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
            match self.operation.begin(context, at, due, begun) {
                Ok(true) => self.give_turn(at)?,
                Ok(false) => {}
                Err(failure) => self.operation.failed(context, at, failure)?,
            }
            let in_flight = self.context.in_flight();
            self.context.counts.in_flight(in_flight);
        };
        if !late && self.context.control.watch_on(Watch::Backlog, Watch::Off) {
            self.context.say(RunEvent::BacklogGone { at: now });
        }
        Ok(next)
    }

    /// Sleeps until `wake` or until a socket has something. Tells when it asked: all that had come by
    /// then is among the events.
    fn wait(&mut self, events: &mut Events, wake: Time) -> Result<Time, Error> {
        let now = Clock.now();
        let timeout = if wake <= now || !self.unread.is_empty() {
            Some(Duration::ZERO)
        } else {
            // The poll's own time-out counts whole milliseconds.
            let armed = self.timer.arm(wake);
            armed.map_err(|error| Error::machine("set a timer", error))?;
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
        if timeout.is_none() && back.since(wake) >= SHORTEST && !self.phases.is_empty() {
            let in_flight = self.context.in_flight() as u64;
            let own = Silence {
                from: wake,
                until: back,
                connections: in_flight,
                in_flight,
                ..Silence::default()
            };
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
        let context = &mut self.context;
        match self.operation.turn(context, at) {
            Ok(()) => {
                if context.slots.get(at).is_some_and(Slot::wants_turn) {
                    self.unread.insert(at);
                }
                Ok(())
            }
            Err(failure) => self.operation.failed(context, at, failure),
        }
    }

    /// Tells of the last interval, and sums up.
    fn end_run(mut self, due_times: Option<DueTimes>, error: Option<Error>) -> Outcome {
        let now = Clock.now();
        if error.is_some() || self.context.control.request() == StopRequest::Abort {
            self.last = self.last.min(now);
        }
        self.together.end(self.last);
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
        if let Some(phase) = self.phases.last_mut() {
            phase.end = now;
        }
        self.phases.retain(|span| span.start < span.end);
        let in_flight = self.context.slots.iter().filter_map(Slot::due);
        let counts = &mut self.context.counts;
        let (tally, censored) = counts.finish(due_times, in_flight, self.last, now);
        // All that is known of a server that refuses everything is why.
        let says_why = O::FAILS_BESIDE_OTHERS || self.together.is_alone();
        let has_failed = says_why && tally.counts.get(metrics.completed) == 0;
        let failure = tally.first_failure.clone().filter(|_| has_failed);
        Outcome {
            phases: std::mem::take(&mut self.phases),
            interrupted: self.stopped,
            error: error.or(failure),
            censored,
            threads: vec![self.usage],
            tallies: BTreeMap::from([(metrics.scenario, tally)]),
            ..Outcome::started(self.start)
        }
    }
}
