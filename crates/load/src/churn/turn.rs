//! The event loop of churn.

use std::sync::Arc;
use std::time::Duration;

use hdrhistogram::Histogram;
use measure::{Clock, LatencySummary, Nanos, Time, new_histogram};
use mio::{Events, Poll, Token};

use super::slot::{Slot, State, Told};
use super::{ChurnKind, ChurnOutcome, ChurnPlan, ChurnProgress};
use crate::admin::{Admin, Interruption, Way};
use crate::engine::pace::Timer;
use crate::engine::socket::Route;
use crate::schedule::Ticker;
use crate::tls::Connector;
use crate::{Arrivals, Control, Error, Schedule, Shape};

/// A cycle that begins later than this after its time counts as late.
const LATE: Nanos = Nanos(1_000_000);
const TIMER: Token = Token(usize::MAX);
/// How often hanging cycles are looked for.
const LOOK: Nanos = Nanos(50_000_000);
/// Connections that stay are made so many at a time.
const AT_ONCE: usize = 32;

pub(super) struct Churn<'a> {
    plan: &'a ChurnPlan,
    control: &'a Control,
    poll: Poll,
    timer: Timer,
    route: Route,
    slots: Vec<Slot>,
    /// Slots without a cycle.
    free: Vec<usize>,
    plain: Vec<u8>,
    cipher: Vec<u8>,
    counts: Counts,
    dialled: usize,
}

/// What was counted.
struct Counts {
    /// Cycles that were due before are warm-up.
    measure_at: Time,
    begun: u64,
    completed: u64,
    failed: u64,
    late: u64,
    first_failure: Option<Error>,
    open: Histogram<u64>,
    cycle: Histogram<u64>,
    /// Since the last progress, warm-up included.
    recent: Histogram<u64>,
    lately: ChurnProgress,
    ready: usize,
}

impl<'a> Churn<'a> {
    /// Logs in once, and opens what stays.
    pub(super) fn start(plan: &'a ChurnPlan, control: &'a Control) -> Result<Self, Error> {
        let tls = Connector::for_endpoint(&plan.endpoint)?;
        let way = Way {
            tls: tls.as_deref(),
            source: plan.source_addresses.first().copied(),
        };
        let stopped = || Error::machine("begin", "it was stopped before");
        let failed = |interruption| match interruption {
            Interruption::Failed(error) => error,
            Interruption::Stopped => stopped(),
        };
        let admin = Admin::connect(&plan.endpoint, way, plan.patience, control).map_err(failed)?;
        let address = admin.address;
        admin.close().map_err(failed)?;
        let now = Clock.now();
        let slots = (0..plan.most_open).map(|number| Slot::new(number, plan, now));
        let poll = Poll::new().map_err(|error| Error::machine("set up an event loop", error))?;
        let mut churn = Self {
            plan,
            control,
            timer: Timer::new(poll.registry(), TIMER)?,
            poll,
            route: Route {
                address,
                source: None,
                tls,
            },
            slots: slots.collect(),
            free: (0..plan.most_open).rev().collect(),
            plain: vec![0; 256 << 10],
            cipher: Vec::new(),
            counts: Counts::new(),
            dialled: 0,
        };
        if plan.kind != ChurnKind::Connections {
            churn.connect_all()?;
        }
        Ok(churn)
    }

    fn connect_all(&mut self) -> Result<(), Error> {
        let mut events = Events::with_capacity(1_024);
        let mut next = 0;
        while self.counts.ready < self.slots.len() {
            let now = Clock.now();
            while next < self.slots.len() && next < self.counts.ready + AT_ONCE {
                self.dial(next, now)?;
                next += 1;
            }
            if self.control.is_stopping() {
                return Err(Error::machine("begin", "it was stopped before"));
            }
            self.wait(&mut events, Nanos::from_millis(20))?;
            self.hear(&events)?;
            self.find_hanging(Clock.now())?;
        }
        Ok(())
    }

    fn dial(&mut self, at: usize, now: Time) -> Result<(), Error> {
        let sources = &self.plan.source_addresses;
        self.route.source = sources.get(self.dialled % sources.len().max(1)).copied();
        self.dialled += 1;
        let registry = self.poll.registry();
        match self.slots.get_mut(at) {
            Some(slot) => slot.dial(self.plan, &self.route, registry, now),
            None => Ok(()),
        }
    }

    pub(super) fn run(
        mut self,
        tell: &mut dyn FnMut(ChurnProgress),
    ) -> Result<ChurnOutcome, Error> {
        let start = Clock.now();
        self.counts.measure_at = start + self.plan.warmup;
        let end = self.counts.measure_at + self.plan.measure;
        let mut ticker = self.ticker(start)?;
        let mut events = Events::with_capacity(1_024);
        let (mut next_look, mut next_told) = (start + LOOK, start + Nanos::SECOND);
        let mut stopped_at = None;
        loop {
            let now = Clock.now();
            if self.control.is_stopping() {
                stopped_at.get_or_insert(now.min(end));
            }
            let last = stopped_at.unwrap_or(end);
            let next_due = self.begin_due(&mut ticker, now, last)?;
            if now >= next_look {
                next_look = now + LOOK;
                self.find_hanging(now)?;
            }
            if now >= next_told {
                next_told = next_told + Nanos::SECOND;
                tell(self.progress(now.since(start)));
            }
            let over = now >= last;
            if over && self.free.len() == self.slots.len() {
                return Ok(self.outcome(last, stopped_at.is_some()));
            }
            let wake = next_due.unwrap_or(next_look).min(next_look);
            self.wait(&mut events, wake.since(Clock.now()))?;
            self.hear(&events)?;
        }
    }

    /// When cycles are due; `None`: whenever there is room.
    fn ticker(&self, start: Time) -> Result<Option<Ticker>, Error> {
        let Some(rate) = self.plan.rate else {
            return Ok(None);
        };
        let schedule = Schedule {
            shape: Shape::Constant(rate),
            arrivals: Arrivals::Even,
            per_producer: false,
        };
        let table = Arc::new(schedule.timetable(1)?);
        Ok(Some(Ticker::new(&table, start, 0, 0)))
    }

    /// Begins the cycles whose time has come, as far as there are slots; tells when the next is due.
    fn begin_due(
        &mut self,
        ticker: &mut Option<Ticker>,
        now: Time,
        last: Time,
    ) -> Result<Option<Time>, Error> {
        loop {
            let due = ticker.as_ref().map_or(now, Ticker::due);
            if due >= last || now >= last {
                return Ok(None);
            }
            if due > now {
                return Ok(Some(due));
            }
            // A slot that becomes free wakes the loop.
            let Some(at) = self.free.pop() else {
                return Ok(None);
            };
            if let Some(ticker) = ticker {
                ticker.advance();
            }
            self.counts.begin(due, now);
            if let Some(slot) = self.slots.get_mut(at) {
                slot.due = due;
            }
            let begun = match self.plan.kind {
                ChurnKind::Connections => self.dial(at, now),
                _ => self.begin(at, due, now),
            };
            if let Err(error) = begun {
                self.failed(at, error)?;
                if ticker.is_none() {
                    // Nothing else slows down a loop that only fails.
                    return Ok(Some(now + Nanos::from_millis(1)));
                }
            }
        }
    }

    fn begin(&mut self, at: usize, due: Time, now: Time) -> Result<(), Error> {
        match self.slots.get_mut(at) {
            Some(slot) => slot.begin(self.plan, due, now)?,
            None => return Ok(()),
        }
        self.give_turn(at)
    }

    fn wait(&mut self, events: &mut Events, length: Nanos) -> Result<(), Error> {
        let timeout = if length == Nanos::ZERO {
            Some(Duration::ZERO)
        } else {
            // The poll's own time-out counts whole milliseconds.
            self.timer.arm(Clock.now() + length)?;
            None
        };
        match self.poll.poll(events, timeout) {
            Err(error) if error.kind() != std::io::ErrorKind::Interrupted => {
                Err(Error::machine("wait for the sockets", error))
            }
            _ => Ok(()),
        }
    }

    fn hear(&mut self, events: &Events) -> Result<(), Error> {
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
            ..
        } = self;
        let Some(slot) = slots.get_mut(at) else {
            return Ok(());
        };
        let mut told = |what, due| {
            if counts.note(what, due) {
                free.push(at);
            }
        };
        match slot.turn(plan, Clock.now(), (plain, cipher), &mut told) {
            Ok(()) => Ok(()),
            Err(error) => self.failed(at, error),
        }
    }

    /// A cycle has failed. A connection that was to stay ends the run.
    fn failed(&mut self, at: usize, error: Error) -> Result<(), Error> {
        if self.plan.kind != ChurnKind::Connections {
            return Err(error);
        }
        if let Some(slot) = self.slots.get_mut(at) {
            self.counts.fail(slot.due, error);
            slot.drop_connection();
            self.free.push(at);
        }
        Ok(())
    }

    fn find_hanging(&mut self, now: Time) -> Result<(), Error> {
        for at in 0..self.slots.len() {
            let Some(slot) = self.slots.get(at) else {
                break;
            };
            if !slot.is_free() && slot.deadline < now {
                let error = Error::TimedOut {
                    endpoint: self.plan.endpoint.to_string(),
                    detail: format!(
                        "a cycle did not get on within {} (it was {})",
                        self.plan.patience,
                        name_of(slot.state)
                    ),
                };
                self.failed(at, error)?;
            }
        }
        Ok(())
    }

    fn progress(&mut self, elapsed: Nanos) -> ChurnProgress {
        let counts = &mut self.counts;
        let progress = ChurnProgress {
            elapsed,
            open: self.slots.len() - self.free.len(),
            p99: Nanos(counts.recent.value_at_quantile(0.99)),
            ..counts.lately
        };
        counts.recent.reset();
        counts.lately = ChurnProgress::default();
        progress
    }

    fn outcome(self, last: Time, interrupted: bool) -> ChurnOutcome {
        let counts = self.counts;
        let length = last.since(counts.measure_at);
        let due = self
            .plan
            .rate
            .map_or(0.0, |rate| rate.get() * length.as_secs_f64());
        ChurnOutcome {
            // Where the phase was cut, one more or less may be due.
            not_begun: (due as u64).saturating_sub(counts.begun + 1),
            length,
            begun: counts.begun,
            completed: counts.completed,
            failed: counts.failed,
            late: counts.late,
            first_failure: counts.first_failure,
            open: LatencySummary::of(&counts.open),
            cycle: LatencySummary::of(&counts.cycle),
            interrupted,
        }
    }
}

const fn name_of(state: State) -> &'static str {
    match state {
        State::Empty | State::Free => "idle",
        State::Connecting => "connecting",
        State::SettingUp => "logging in",
        State::Opening => "opening",
        State::Closing => "closing",
    }
}

impl Counts {
    fn new() -> Self {
        Self {
            measure_at: Time(0),
            begun: 0,
            completed: 0,
            failed: 0,
            late: 0,
            first_failure: None,
            open: new_histogram(),
            cycle: new_histogram(),
            recent: new_histogram(),
            lately: ChurnProgress::default(),
            ready: 0,
        }
    }

    fn begin(&mut self, due: Time, now: Time) {
        if due >= self.measure_at {
            self.begun += 1;
            self.late += u64::from(now.since(due) > LATE);
        }
    }

    /// Tells whether the slot is free again.
    fn note(&mut self, what: Told, due: Time) -> bool {
        // Read here and not once per turn: one turn may take a slot through several steps.
        let took = Clock.now().since(due);
        let measured = due >= self.measure_at;
        match what {
            Told::Nothing => false,
            Told::Ready => {
                self.ready += 1;
                false
            }
            Told::Opened => {
                self.recent.saturating_record(took.0);
                if measured {
                    self.open.saturating_record(took.0);
                }
                false
            }
            Told::Done => {
                self.lately.completed += 1;
                if measured {
                    self.completed += 1;
                    self.cycle.saturating_record(took.0);
                }
                true
            }
        }
    }

    fn fail(&mut self, due: Time, error: Error) {
        self.lately.failed += 1;
        self.failed += u64::from(due >= self.measure_at);
        self.first_failure.get_or_insert(error);
    }
}
