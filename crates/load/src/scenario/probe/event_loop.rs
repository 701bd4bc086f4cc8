//! The event loop of a probe, on a thread of its own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

use measure::{Clock, Nanos, Phase, Slice, Time};
use mio::{Events, Poll, Token};
use transport::tls::Connector;
use transport::{ConnectAttempt, ConnectOptions, Timer};

use super::super::awaited::Awaited;
use super::ProbePlan;
use super::counts::RequestCounts;
use super::metrics::RequestStep;
use super::request::{Failure, Place, Rooms, Turn};
use crate::control::{FINISHING, Interruption, StopRequest};
use crate::resolve::Addresses;
use crate::schedule::{DueTimes, Pacer};
use crate::seconds::SLICE;
use crate::thread_time::spent;
use crate::{Control, Error, Outcome, PhaseTimes, RunEvent, System, ThreadUsage, Together};

const TIMER: Token = Token(usize::MAX);
/// How often requests that hang are looked for.
const POLL_INTERVAL: Nanos = Nanos(20_000_000);
/// A loop that is late for the end may still send what was due before it, for this long.
const OVERTIME: Nanos = Nanos(20_000_000);
/// A connection that begins this long after the last look-up of the host's name looks it up again.
const ASK_AFTER: Nanos = Nanos(5_000_000_000);

/// What the event loop tells its caller.
pub(super) enum ProbeReport {
    Interval(Box<Slice>),
    Event(RunEvent),
}

/// The event loop.
pub(super) struct Probe<'a> {
    plan: &'a ProbePlan,
    /// The request's bytes.
    head: Vec<u8>,
    together: &'a Together,
    control: &'a Control,
    tell: Sender<ProbeReport>,
    /// Intervals that were told.
    spare: Receiver<Box<Slice>>,
    poll: Poll,
    timer: Timer,
    addresses: Arc<Addresses>,
    tls: Option<Arc<Connector>>,
    places: Vec<Place>,
    /// Places with a connection and no request; the last one was used last.
    kept: Vec<usize>,
    /// Places without a connection.
    empty: Vec<usize>,
    /// Places whose last turn left something to read.
    unread: Vec<usize>,
    rooms: Rooms,
    counts: RequestCounts,
    /// The next whole tenth of a second of the phase.
    tick: Time,
    dialled: usize,
    /// Since when there has been room for a request; `None`: there is none.
    room_since: Option<Time>,
    /// Time with nothing to do.
    idle: Nanos,
    pacer: Arc<Pacer>,
    start: Time,
    /// First instant at which no more requests are due.
    last: Time,
    /// When the loop first looked after that.
    over_since: Option<Time>,
    stopped: bool,
    phases: Vec<PhaseTimes>,
    usage: ThreadUsage,
    /// A redirect was told of.
    told_redirect: bool,
}

impl<'a> Probe<'a> {
    /// Looks the host up.
    pub(super) fn start(
        plan: &'a ProbePlan,
        together: &'a Together,
        control: &'a Control,
        tell: Sender<ProbeReport>,
        spare: Receiver<Box<Slice>>,
    ) -> Result<Self, Interruption> {
        let endpoint = plan.endpoint();
        let tls = endpoint.connector()?;
        let addresses = Addresses::of(&System, &endpoint, plan.timeout, control)
            .map_err(|reason| reason.at(&plan.place()))?;
        let head = plan.head();
        let head = head.map_err(|error| Error::invalid(error.to_string(), "change it"))?;
        let now = Clock.now();
        let poll = Poll::new().map_err(|error| Error::machine("set up an event loop", error))?;
        Ok(Self {
            plan,
            head,
            together,
            control,
            tell,
            spare,
            timer: Timer::register(poll.registry(), TIMER)
                .map_err(|error| Error::machine("create a timer", error))?,
            poll,
            addresses,
            tls,
            places: (0..plan.most_open).map(|at| Place::new(at, now)).collect(),
            kept: Vec::new(),
            empty: (0..plan.most_open).rev().collect(),
            unread: Vec::new(),
            rooms: Rooms {
                plain: vec![0; 256 << 10],
                cipher: Vec::new(),
            },
            counts: RequestCounts::new(&plan.scenario(), now),
            tick: now,
            dialled: 0,
            room_since: Some(now),
            idle: Nanos::ZERO,
            pacer: plan.schedule.pacer(1)?,
            start: now,
            last: now,
            over_since: None,
            stopped: false,
            phases: Vec::new(),
            usage: ThreadUsage::default(),
            told_redirect: false,
        })
    }

    fn say(&self, event: RunEvent) {
        // Whoever listens does so until this end is dropped.
        let _ = self.tell.send(ProbeReport::Event(event));
    }

    pub(super) fn run(mut self) -> Result<Outcome, Interruption> {
        let mut due_times = self.begin_run()?;
        let error = self.turn_until_done(&mut due_times).err();
        Ok(self.end_run(due_times, error))
    }

    /// Waits for the other scenarios. The schedule counts from the common start.
    fn begin_run(&mut self) -> Result<DueTimes, Interruption> {
        let mut events = Events::with_capacity(1_024);
        self.together.ready();
        self.start = loop {
            if let Some(start) = self.together.start() {
                break start;
            }
            if self.control.is_stopping() || self.together.ended().is_some() {
                return Err(Interruption::Stopped);
            }
            self.wait(&mut events, Clock.now() + Nanos::from_millis(10))?;
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
        self.counts.interval.reset(self.start, first);
        self.counts.wait_for(self.start, Awaited::Due(self.start));
        self.enter(first, self.start);
        Ok(DueTimes::new(&self.pacer, self.start, 0, 0))
    }

    fn turn_until_done(&mut self, due_times: &mut DueTimes) -> Result<(), Error> {
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
            let next_due = self.begin_due(due_times, now);
            if now >= self.last && self.in_flight() == 0 {
                return Ok(());
            }
            let wake = next_due.map_or(next_look, |due| due.min(next_look));
            let asked = self.wait(&mut events, wake.min(next_report))?;
            self.hear(&events);
            if asked >= next_look {
                next_look = asked + POLL_INTERVAL;
                self.keep_time(asked);
                self.tell_silences(false);
            }
        }
    }

    fn tell_silences(&mut self, is_end: bool) {
        let end = is_end.then(|| {
            let until = self.last.min(Clock.now());
            let due = self.pacer.until(until.since(self.start));
            (due.round() as u64).saturating_sub(self.counts.begun)
        });
        for silence in self.counts.take_silences(end) {
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
        let _ = self.tell.send(ProbeReport::Interval(done));
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
        self.places.len() - self.kept.len() - self.empty.len()
    }

    /// Sends the requests whose time has come, as far as there is room; tells when the next is due.
    fn begin_due(&mut self, due_times: &mut DueTimes, now: Time) -> Option<Time> {
        // What was due before the end may still begin for a moment, from when the loop is back.
        let is_over = now >= self.last && now.since(*self.over_since.get_or_insert(now)) > OVERTIME;
        loop {
            let due = due_times.due();
            if due >= self.last || is_over {
                self.counts.wait_for(now, Awaited::Due(Time(u64::MAX)));
                return None;
            }
            if due > now {
                self.counts.wait_for(now, Awaited::Due(due));
                return Some(due);
            }
            // A place that becomes free wakes the loop.
            let Some(at) = self.kept.pop().or_else(|| self.empty.pop()) else {
                self.room_since = None;
                self.counts.wait_for(now, Awaited::Room);
                return None;
            };
            due_times.advance();
            let sent = Clock.now();
            let possible = (*self.room_since.get_or_insert(sent)).max(due);
            self.counts.begin(due, possible, sent);
            if let Some(place) = self.places.get_mut(at) {
                place.begin(self.plan, &self.head, due, sent);
                if place.is_busy() {
                    self.give_turn(at);
                } else {
                    self.dial(at, sent);
                }
            }
            self.counts.in_flight(self.in_flight());
        }
    }

    fn dial(&mut self, at: usize, now: Time) {
        self.addresses.refresh_after(ASK_AFTER, now);
        let addresses = self.addresses.in_turn(self.dialled, None);
        self.dialled += 1;
        let Some(place) = self.places.get_mut(at) else {
            return;
        };
        let options = ConnectOptions {
            source: None,
            tls: self.tls.clone(),
        };
        let attempt = ConnectAttempt::new(addresses, options, place.deadline);
        let registry = self.poll.registry();
        if let Err(failure) = place.dial(self.plan, &self.head, attempt, registry, now) {
            self.failed(at, failure);
        }
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
        let slept = Clock.now().since(now);
        self.idle += slept;
        self.counts.interval.waits.loop_idle += slept;
        Ok(now)
    }

    fn hear(&mut self, events: &Events) {
        for at in std::mem::take(&mut self.unread) {
            if let Some(place) = self.places.get_mut(at) {
                place.is_unread = false;
            }
            self.give_turn(at);
        }
        for event in events {
            let at = event.token().0;
            if let Some(place) = self.places.get_mut(at) {
                place.notice(event);
                self.give_turn(at);
            }
        }
    }

    fn give_turn(&mut self, at: usize) {
        let Some(place) = self.places.get_mut(at) else {
            return;
        };
        let registry = self.poll.registry();
        let turn = place.turn(self.plan, &mut self.rooms, registry, &mut self.counts);
        if place.wants_turn() && !std::mem::replace(&mut place.is_unread, true) {
            self.unread.push(at);
        }
        match turn {
            Ok(Turn::Open) => {}
            Ok(Turn::Closed) => {
                place.drop_connection();
                self.kept.retain(|kept| *kept != at);
                self.empty.push(at);
            }
            Ok(Turn::Ended(status)) => self.ended(at, status),
            Err(failure) => self.failed(at, failure),
        }
    }

    /// A response has come whole.
    fn ended(&mut self, at: usize, status: u16) {
        let Some(place) = self.places.get_mut(at) else {
            return;
        };
        let due = place.due;
        if place.stage == super::request::RequestStage::Kept {
            self.kept.push(at);
        } else {
            self.empty.push(at);
        }
        let metrics = self.counts.metrics;
        if status < 400 {
            if let Some(event) = self.counts.complete(due) {
                self.say(event);
            }
            if status >= 300 && !std::mem::replace(&mut self.told_redirect, true) {
                let label = &self.plan.label;
                let note = format!("{label} answers with status {status}, which is not followed");
                self.say(RunEvent::Note(note));
            }
            return;
        }
        let group = if status < 500 {
            metrics.status_4xx
        } else {
            metrics.status_5xx
        };
        self.counts.add(group, due, 1);
        let help = match status {
            401 | 403 => {
                "check user and password or token (--user and BELLOWS_PROBE_PASSWORD, --bearer-file)"
            }
            404 => "check the path",
            _ => "look into the server's log",
        };
        let error = Error::Refused {
            endpoint: self.plan.place(),
            action: format!("complete {}", self.plan.request()),
            detail: format!("status {status}"),
            help: help.to_owned(),
        };
        if let Some(event) = self.counts.fail(due, error) {
            self.say(event);
        }
    }

    /// A request has failed. On a kept connection that the server closed meanwhile it is sent again.
    fn failed(&mut self, at: usize, failure: Failure) {
        let Some(place) = self.places.get_mut(at) else {
            return;
        };
        let now = Clock.now();
        let retries = failure.is_loss && place.may_retry(self.plan);
        place.drop_connection();
        if retries {
            self.counts.resent += 1;
            self.dial(at, now);
            return;
        }
        let (due, sent) = (place.due, place.sent);
        self.empty.push(at);
        let is_given_up = matches!(*failure.error, Error::TimedOut { .. });
        self.counts.lost(sent, now, is_given_up);
        self.addresses.refresh(now);
        if is_given_up {
            let timed_out = self.counts.metrics.timed_out;
            self.counts.add(timed_out, due, 1);
            self.counts
                .record(RequestStep::Response, due, now.since(due));
            self.counts
                .record(RequestStep::FromSend, due, now.since(sent));
        }
        if let Some(event) = self.counts.fail(due, *failure.error) {
            self.say(event);
        }
    }

    /// Gives up requests that hang. `heard` is when the sockets were asked last.
    fn keep_time(&mut self, heard: Time) {
        for at in 0..self.places.len() {
            let Some(place) = self.places.get(at).filter(|it| it.is_busy()) else {
                continue;
            };
            if place.deadline <= heard {
                let (timeout, stage) = (self.plan.timeout, place.stage.name());
                let error = Error::TimedOut {
                    endpoint: self.plan.place(),
                    detail: format!("no whole response within {timeout} (it was {stage})"),
                };
                let is_loss = false;
                self.failed(
                    at,
                    Failure {
                        error: Box::new(error),
                        is_loss,
                    },
                );
            } else if place.is_late(heard) {
                self.give_turn(at);
            }
        }
    }

    /// The server has closed connections just when a request was on its way, and may have seen that twice.
    fn tell_resent(&mut self) {
        let resent = measure::counted(self.counts.resent, "request");
        if self.counts.resent > 0 {
            let place = self.plan.place();
            self.say(RunEvent::Note(format!(
                "{resent} to {place} sent twice: the server closed the kept connection without an answer"
            )));
        }
    }

    /// Tells of the last interval, and sums up.
    fn end_run(mut self, due_times: DueTimes, error: Option<Error>) -> Outcome {
        let now = Clock.now();
        if error.is_some() || self.control.request() == StopRequest::Abort {
            self.last = self.last.min(now);
        }
        self.together.end(self.last);
        self.report(now);
        self.tell_silences(true);
        self.tell_resent();
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
        let in_flight = self.places.iter().filter(|place| place.is_busy());
        let in_flight = in_flight.map(|place| place.due);
        let (tally, censored) = self.counts.finish(due_times, in_flight, self.last, now);
        // All that is known of a server that refuses everything is why.
        let completed = tally.counts.get(self.counts.metrics.completed);
        let failure = tally.first_failure.clone();
        let failure = failure.filter(|_| completed == 0 && self.together.is_alone());
        Outcome {
            phases: std::mem::take(&mut self.phases),
            interrupted: self.stopped,
            error: error.or(failure),
            censored,
            threads: vec![self.usage],
            tallies: BTreeMap::from([(self.counts.metrics.scenario, tally)]),
            ..Outcome::started(self.start)
        }
    }
}
