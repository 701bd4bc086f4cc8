//! The event loop of churn, on a thread of its own: whoever takes its reports may take their time.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

use measure::{Clock, Nanos, Phase, Slice, Time};
use mio::{Events, Poll, Token};
use transport::tls::Connector;
use transport::{ConnectAttempt, ConnectOptions, Timer};

use super::super::awaited::Awaited;
use super::counts::CycleCounts;
use super::slot::{Buffers, Slot, State};
use super::{ChurnKind, ChurnPlan};
use crate::control::{FINISHING, Interruption, StopRequest, Watch};
use crate::engine::silence::SHORTEST;
use crate::protocol::amqp091::AmqpConnection;
use crate::protocol::{Admin, Connection, connect_options};
use crate::resolve::Addresses;
use crate::schedule::{DueTimes, Pacer};
use crate::seconds::SLICE;
use crate::thread_time::spent;
use crate::{
    Control, Error, Outcome, PhaseTimes, RunEvent, Silence, System, ThreadUsage, Together,
};

const TIMER: Token = Token(usize::MAX);
/// How often heartbeats and hanging cycles are looked for.
const POLL_INTERVAL: Nanos = Nanos(50_000_000);
/// How many of the connections that stay are made at a time.
const AT_ONCE: usize = 32;
/// Setting up is told of this often.
const TELL: Nanos = Nanos(500_000_000);
/// A connection that begins this long after the last look-up of the broker's name looks it up again.
const ASK_AFTER: Nanos = Nanos(5_000_000_000);
/// Without a schedule, nothing else slows down a slot that only fails.
const REST: Nanos = Nanos(100_000_000);

/// A loop that is late for the end may still begin what was due before it, for this long.
const OVERTIME: Nanos = Nanos(20_000_000);

/// What the event loop tells its caller.
pub(super) enum LoopReport {
    Interval(Box<Slice>),
    Event(RunEvent),
}

/// The event loop.
pub(super) struct Churn<'a> {
    plan: &'a ChurnPlan,
    together: &'a Together,
    control: &'a Control,
    tell: Sender<LoopReport>,
    /// Intervals that were told.
    spare: Receiver<Box<Slice>>,
    poll: Poll,
    timer: Timer,
    addresses: Arc<Addresses>,
    tls: Option<Arc<Connector>>,
    slots: Vec<Slot>,
    /// Slots without a cycle.
    free: Vec<usize>,
    /// Slots that failed, and when they may have another try.
    resting: VecDeque<(Time, usize)>,
    /// Slots whose last turn left something to read.
    unread: Vec<usize>,
    plain: Vec<u8>,
    cipher: Vec<u8>,
    counts: CycleCounts,
    /// The next whole second of the phase.
    tick: Time,
    dialled: usize,
    /// Since when there has been room for a cycle; `None`: there is none.
    room_since: Option<Time>,
    /// Time with nothing to do.
    idle: Nanos,
    /// When cycles are due, where that does not depend on others.
    pacer: Option<Arc<Pacer>>,
    start: Time,
    /// First instant at which no more cycles are due.
    last: Time,
    /// When the loop first looked after that.
    over_since: Option<Time>,
    stopped: bool,
    phases: Vec<PhaseTimes>,
    usage: ThreadUsage,
}

impl<'a> Churn<'a> {
    /// Logs in once, and opens what stays.
    pub(super) fn start(
        plan: &'a ChurnPlan,
        together: &'a Together,
        control: &'a Control,
        tell: Sender<LoopReport>,
        spare: Receiver<Box<Slice>>,
    ) -> Result<Self, Interruption> {
        let options = connect_options(&plan.endpoint, &plan.source_addresses)?;
        let tls = options.tls.clone();
        let admin = <<AmqpConnection as Connection>::Admin<'_, System>>::connect(
            &System,
            &plan.endpoint,
            options,
            plan.timeout,
            control,
        )?;
        let server = admin.server().clone();
        let connected = RunEvent::Connected {
            endpoint: plan.endpoint.to_string(),
            product: server.product,
            version: server.version,
            round_trip: server.round_trip,
            answer: server.answer,
        };
        admin.close()?;
        let now = Clock.now();
        let slots = (0..plan.most_open).map(|number| Slot::new(number, now));
        let poll = Poll::new().map_err(|error| Error::machine("set up an event loop", error))?;
        let mut churn = Self {
            plan,
            together,
            control,
            tell,
            spare,
            timer: Timer::register(poll.registry(), TIMER)
                .map_err(|error| Error::machine("create a timer", error))?,
            poll,
            addresses: server.addresses,
            tls,
            slots: slots.collect(),
            free: (0..plan.most_open).rev().collect(),
            resting: VecDeque::new(),
            unread: Vec::new(),
            plain: vec![0; 256 << 10],
            cipher: Vec::new(),
            counts: CycleCounts::new(now, plan.messages),
            tick: now,
            dialled: 0,
            room_since: Some(now),
            idle: Nanos::ZERO,
            pacer: None,
            start: now,
            last: now,
            over_since: None,
            stopped: false,
            phases: Vec::new(),
            usage: ThreadUsage::default(),
        };
        churn.say(connected);
        if plan.kind != ChurnKind::Connections {
            churn.connect_all()?;
        }
        Ok(churn)
    }

    fn connect_all(&mut self) -> Result<(), Interruption> {
        let mut events = Events::with_capacity(1_024);
        let mut next = 0;
        let mut told = Clock.now();
        let mut next_look = told;
        while self.counts.ready < self.slots.len() {
            let now = Clock.now();
            while next < self.slots.len() && next < self.counts.ready + AT_ONCE {
                self.dial(next, now)?;
                next += 1;
            }
            if self.control.is_stopping() || self.together.ended().is_some() {
                return Err(Interruption::Stopped);
            }
            if now.since(told) >= TELL {
                told = now;
                self.say(RunEvent::Connecting {
                    ready: self.counts.ready as u64,
                    wanted: self.slots.len() as u64,
                });
            }
            let asked = self.wait(&mut events, now + Nanos::from_millis(20))?;
            self.hear(&events)?;
            if asked >= next_look {
                next_look = asked + POLL_INTERVAL;
                self.keep_time(asked)?;
            }
        }
        Ok(())
    }

    fn say(&self, event: RunEvent) {
        // Whoever listens does so until this end is dropped.
        let _ = self.tell.send(LoopReport::Event(event));
    }

    fn dial(&mut self, at: usize, now: Time) -> Result<(), Error> {
        let sources = &self.plan.source_addresses;
        let source = sources.get(self.dialled % sources.len().max(1)).copied();
        let turn = self.dialled / sources.len().max(1);
        self.dialled += 1;
        // Each of these connections is a client of its own, which would have asked itself.
        self.addresses.refresh_after(ASK_AFTER, now);
        let deadline = now + self.plan.timeout;
        let tls = self.tls.clone();
        let addresses = self.addresses.in_turn(turn, source);
        let attempt = ConnectAttempt::new(addresses, ConnectOptions { source, tls }, deadline);
        match self.slots.get_mut(at) {
            Some(slot) => slot.dial(self.plan, attempt, self.poll.registry(), now),
            None => Ok(()),
        }
    }

    pub(super) fn run(mut self) -> Result<Outcome, Interruption> {
        let mut due_times = self.begin_run()?;
        let error = self.turn_until_done(&mut due_times).err();
        Ok(self.end_run(due_times, error))
    }

    /// Waits for the other scenarios. The schedule counts from the common start.
    fn begin_run(&mut self) -> Result<Option<DueTimes>, Interruption> {
        let schedule = self.plan.schedule.as_ref();
        self.pacer = schedule.map(|it| it.pacer(1)).transpose()?;
        let mut events = Events::with_capacity(1_024);
        self.together.ready();
        self.start = loop {
            if let Some(start) = self.together.start() {
                break start;
            }
            if self.control.is_stopping() || self.together.ended().is_some() {
                return Err(Interruption::Stopped);
            }
            let asked = self.wait(&mut events, Clock.now() + Nanos::from_millis(10))?;
            self.hear(&events)?;
            self.keep_time(asked)?;
        };
        self.counts
            .measure_from(self.start, self.start + self.plan.warmup);
        self.last = match self.plan.measure {
            // The others tell when.
            Nanos::ZERO => Time(u64::MAX),
            length => self.counts.measure_at + length,
        };
        self.say(RunEvent::Started { at: self.start });
        let first = if self.plan.warmup > Nanos::ZERO {
            Phase::Warmup
        } else {
            Phase::Measure
        };
        self.counts.wait_for(self.start, Awaited::Due(self.start));
        self.counts.interval.reset(self.start, first);
        self.enter(first, self.start);
        let pacer = self.pacer.as_ref();
        Ok(pacer.map(|pacer| DueTimes::new(pacer, self.start, 0, 0)))
    }

    fn turn_until_done(&mut self, due_times: &mut Option<DueTimes>) -> Result<(), Error> {
        let mut events = Events::with_capacity(1_024);
        let mut next_look = self.start + POLL_INTERVAL;
        loop {
            let now = Clock.now();
            if self.control.is_stopping() && !self.stopped {
                self.stopped = now < self.last;
                self.last = self.last.min(now);
            }
            if let Some(end) = self.together.ended() {
                self.last = self.last.min(end);
            }
            let next_report = self.report(now);
            if self.control.is_overdue(self.start, FINISHING, Clock.now()) {
                return Ok(());
            }
            let next_due = self.begin_due(due_times, now)?;
            if now >= self.last && self.in_flight() == 0 {
                return Ok(());
            }
            let wake = next_due.map_or(next_look, |due| due.min(next_look));
            let asked = self.wait(&mut events, wake.min(next_report))?;
            self.hear(&events)?;
            if asked >= next_look {
                next_look = asked + POLL_INTERVAL;
                self.keep_time(asked)?;
                self.tell_silences(false);
            }
        }
    }

    fn tell_silences(&mut self, end: bool) {
        let (pacer, start, last) = (self.pacer.as_deref(), self.start, self.last);
        let due_until = |at: Time| pacer.map_or(0.0, |it| it.until(at.min(last).since(start)));
        for silence in self.counts.take_silences(due_until, end) {
            self.say(RunEvent::Silence(silence));
        }
    }

    /// Tells of the slices and phases that have ended; when the next does.
    fn report(&mut self, now: Time) -> Time {
        loop {
            let phase = self.counts.interval.phase;
            let (end, next) = match phase {
                Phase::Warmup if self.last <= self.counts.measure_at => (self.last, Phase::Drain),
                Phase::Warmup => (self.counts.measure_at, Phase::Measure),
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
        let spare = self
            .spare
            .try_recv()
            .unwrap_or_else(|_| Box::new(Slice::with(&self.counts.metrics.recorded())));
        let done = self.counts.exchange(spare, end, next);
        let _ = self.tell.send(LoopReport::Interval(done));
        self.counts.in_flight(self.in_flight());
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
        self.say(RunEvent::PhaseStarted { phase, at });
    }

    fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len() - self.resting.len()
    }

    /// Begins the cycles whose time has come, as far as there are slots; tells when the next is due.
    fn begin_due(
        &mut self,
        due_times: &mut Option<DueTimes>,
        now: Time,
    ) -> Result<Option<Time>, Error> {
        while let Some((_, at)) = self.resting.pop_front_if(|(until, _)| *until <= now) {
            self.free.push(at);
        }
        let mut late = false;
        // What was due before the end may still begin for a moment, from when the loop is back.
        let is_over = now >= self.last && now.since(*self.over_since.get_or_insert(now)) > OVERTIME;
        let unthrottled = now.max(self.start);
        let next = loop {
            let due = due_times.as_ref().map_or(unthrottled, DueTimes::due);
            if due >= self.last || is_over {
                self.counts.wait_for(now, Awaited::Due(Time(u64::MAX)));
                break None;
            }
            if due > now {
                self.counts.wait_for(now, Awaited::Due(due));
                break Some(due);
            }
            // A slot that becomes free wakes the loop.
            let Some(at) = self.free.pop() else {
                self.room_since = None;
                self.counts.wait_for(now, Awaited::Room);
                return Ok(self.resting.front().map(|(until, _)| *until));
            };
            if let Some(due_times) = due_times {
                due_times.advance();
            }
            let possible = (*self.room_since.get_or_insert(now)).max(due);
            late |= now.since(due) > Nanos::from_millis(1);
            self.counts.begin(due, possible, now);
            if let Err(error) = self.begin(at, due, now) {
                self.failed(at, error)?;
            }
            self.counts.in_flight(self.in_flight());
        };
        if !late && self.control.watch_on(Watch::Backlog, Watch::Off) {
            self.say(RunEvent::BacklogGone { at: now });
        }
        Ok(next)
    }

    fn begin(&mut self, at: usize, due: Time, now: Time) -> Result<(), Error> {
        let Some(slot) = self.slots.get_mut(at) else {
            return Ok(());
        };
        slot.due = due;
        if self.plan.kind == ChurnKind::Connections {
            return self.dial(at, now);
        }
        slot.begin(self.plan, due, now)?;
        self.give_turn(at)
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
        match self.poll.poll(events, timeout) {
            // Stopped and continued by a signal: what is in the sockets now came meanwhile.
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {
                let _ = self.poll.poll(events, Some(Duration::ZERO));
            }
            Err(error) => return Err(Error::machine("wait for the sockets", error)),
            Ok(()) => {}
        }
        let back = Clock.now();
        if timeout.is_none() && back.since(wake) >= SHORTEST && !self.phases.is_empty() {
            let in_flight = self.in_flight();
            let own = Silence {
                from: wake,
                until: back,
                connections: in_flight as u64,
                in_flight: in_flight as u64,
                ..Silence::default()
            };
            let handled = self.counts.handled;
            self.counts.unanswered.silences.come_back(own, handled);
        }
        let slept = back.since(now);
        self.idle += slept;
        self.counts.interval.waits.loop_idle += slept;
        Ok(now)
    }

    fn hear(&mut self, events: &Events) -> Result<(), Error> {
        for at in std::mem::take(&mut self.unread) {
            if let Some(slot) = self.slots.get_mut(at) {
                slot.is_unread = false;
            }
            self.give_turn(at)?;
        }
        for event in events {
            let at = event.token().0;
            if let Some(slot) = self.slots.get_mut(at) {
                slot.notice(event);
                self.give_turn(at)?;
            }
        }
        Ok(())
    }

    fn give_turn(&mut self, at: usize) -> Result<(), Error> {
        let Self {
            slots,
            plan,
            plain,
            cipher,
            counts,
            free,
            unread,
            control,
            tell,
            poll,
            ..
        } = self;
        let Some(slot) = slots.get_mut(at) else {
            return Ok(());
        };
        let mut told = |what, moments: super::slot::Moments| {
            if counts.note(what, moments) {
                free.push(at);
                if control.watch_on(Watch::Confirm, Watch::Backlog) {
                    let _ = tell.send(LoopReport::Event(RunEvent::FirstConfirm {
                        at: moments.now,
                    }));
                }
            }
        };
        let buffers = Buffers {
            plain: plain.as_mut_slice(),
            cipher,
        };
        match slot.turn(plan, Clock.now(), buffers, poll.registry(), &mut told) {
            Ok(()) => {
                if slot.wants_turn() && !std::mem::replace(&mut slot.is_unread, true) {
                    unread.push(at);
                }
                Ok(())
            }
            Err(error) => self.failed(at, error),
        }
    }

    /// A cycle has failed. A connection that was to stay ends the run.
    fn failed(&mut self, at: usize, error: Error) -> Result<(), Error> {
        let Some(slot) = self.slots.get_mut(at) else {
            return Ok(());
        };
        let of_a_cycle = self.plan.kind == ChurnKind::Connections
            || matches!(slot.state, State::Opening | State::Closing);
        let now = Clock.now();
        let moments = super::slot::Moments {
            due: slot.due,
            step_began: slot.step_began,
            now,
        };
        slot.drop_connection();
        self.addresses.refresh(now);
        if of_a_cycle && let Some(event) = self.counts.fail(error.clone(), moments) {
            self.say(event);
        }
        if self.plan.kind != ChurnKind::Connections {
            return Err(error);
        }
        if self.plan.schedule.is_some() {
            self.free.push(at);
        } else {
            self.resting.push_back((Clock.now() + REST, at));
        }
        Ok(())
    }

    /// Sends heartbeats, and finds brokers that are silent and cycles that hang. `heard` is when the
    /// sockets were asked last: what bellows itself did not read yet is nobody's silence.
    fn keep_time(&mut self, heard: Time) -> Result<(), Error> {
        for at in 0..self.slots.len() {
            let Some(slot) = self.slots.get_mut(at) else {
                break;
            };
            let kept = if !slot.is_free() && slot.deadline <= heard {
                Err(Error::TimedOut {
                    endpoint: self.plan.endpoint.to_string(),
                    detail: format!(
                        "a cycle did not get on within {} (it was {})",
                        self.plan.timeout,
                        slot.state.name()
                    ),
                })
            } else {
                slot.keep_time(heard)
            };
            let is_late = slot.is_late(heard);
            if let Err(error) = kept {
                self.failed(at, error)?;
            } else if is_late {
                self.give_turn(at)?;
            }
        }
        Ok(())
    }

    /// Tells of the last interval, and sums up.
    fn end_run(mut self, due_times: Option<DueTimes>, error: Option<Error>) -> Outcome {
        let now = Clock.now();
        if error.is_some() || self.control.request() == StopRequest::Abort {
            self.last = self.last.min(now);
        }
        self.together.end(self.last);
        self.report(now);
        self.tell_silences(true);
        // A drain of nothing is no interval: its rates would be those of a few microseconds.
        let interval = &self.counts.interval;
        let ended = !interval.is_empty() || interval.counts.get(self.counts.metrics.failed) > 0;
        if interval.phase != Phase::Drain || ended {
            self.flush(now, Phase::Drain);
        }
        if let Some(phase) = self.phases.last_mut() {
            phase.end = now;
        }
        self.phases.retain(|span| span.start < span.end);
        let in_flight = self.slots.iter().filter_map(Slot::cycle_due);
        let (tally, censored) = self.counts.finish(due_times, in_flight, self.last, now);
        // All that is known of a broker that refuses everything is why.
        let completed = tally.counts.get(self.counts.metrics.completed);
        let failure = tally.first_failure.clone().filter(|_| completed == 0);
        let error = error.or(failure);
        Outcome {
            phases: std::mem::take(&mut self.phases),
            interrupted: self.stopped,
            error,
            censored,
            threads: vec![self.usage],
            tallies: BTreeMap::from([(super::NAME, tally)]),
            ..Outcome::started(self.start)
        }
    }
}
