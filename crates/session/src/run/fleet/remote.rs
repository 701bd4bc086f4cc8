//! A worker's share of the load, on the coordinator: hands it over, starts and ends it, and passes on what is reported.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fleet::{CoordinatorInput, CoordinatorOutput, LoadOutcome, PhaseSpan, SliceData, SliceReader};
use linux::ProcessUse;
use load::scenario::Scenario;
use load::{Censored, Control, Error, Outcome, PhaseTimes, Phases, RunEvent, ShareProgress, SliceSink, StartBarrier};
use measure::ledger::LedgerPart;
use measure::{Clock, Counters, Nanos, Phase, Problem, Slice, Time};
use serde_json::Value;

use super::told::{self, WorkerNews, WorkerReport};
use super::{FleetRun, lock};

/// How often the others are looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Between the last worker's being ready and the start, so that all know it in time.
const NOTICE: Nanos = Nanos::from_millis(500);
/// Between a decision to end the load early and its end, so that all know it in time.
const LEAD_TIME: Nanos = Nanos::from_millis(200);
/// Between two reports of the clock of those who send to a worker: drift is told with it.
pub(super) const SENDERS_INTERVAL: Nanos = Nanos::from_millis(250);
/// Bytes of a worker's part of the ledger at most.
const MOST_LEDGER: usize = 64 << 20;
/// The longest that a worker which prepares its share may take to stop.
const STOPPING: Nanos = Nanos::from_millis(10_000);
/// Two clocks agree to this on an end that all were told.
const SAME_END: u64 = 5_000_000;

/// The share of one worker.
#[derive(Debug)]
pub(super) struct Remote {
    fleet: Arc<FleetRun>,
    worker: usize,
    name: String,
    share: fleet::Share,
    phases: Phases,
    /// The worker whose producers send to its consumers, where that has another clock.
    senders: Option<usize>,
    /// Reports of that worker; taken once.
    inbox: Mutex<Option<Receiver<CoordinatorOutput>>>,
}

impl Remote {
    pub(super) fn new(fleet: Arc<FleetRun>, worker: usize, name: String, share: fleet::Share, phases: Phases) -> Self {
        let inbox = Mutex::new(fleet.inboxes.receiver(worker));
        Self { fleet, worker, name, share, phases, senders: None, inbox }
    }

    /// With consumers that get what this worker's producers send, by another clock.
    pub(super) fn with_senders(self, senders: Option<usize>) -> Self {
        Self { senders, ..self }
    }

    fn failed(&self, what: &str, why: &str) -> Error {
        let cause = format!("worker {} {what}", self.name);
        Error::Program(Problem::new(cause, why, "see what that worker printed, and whether its machine still runs"))
    }
}

impl Scenario for Remote {
    fn name(&self) -> &'static str {
        archive::MESSAGES
    }

    fn subject(&self) -> &str {
        archive::MESSAGES
    }

    fn phases(&self) -> Phases {
        self.phases
    }

    fn notice(&self) -> Nanos {
        NOTICE
    }

    fn run(&self, together: &StartBarrier, control: &Control, sink: &mut dyn SliceSink) -> Result<Outcome, Error> {
        let Some(inbox) = lock(&self.inbox).take() else { return Err(self.failed("has run", "it runs once")) };
        self.fleet.inputs().send(CoordinatorInput::Share(self.share.clone()));
        let mut course = Course::new(self, together, control, sink);
        loop {
            match inbox.recv_timeout(POLL_INTERVAL) {
                Ok(output) => {
                    if let Some(end) = course.take(output) {
                        return end;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return course.lost("the coordinator has ended"),
            }
            if let Some(end) = course.look() {
                return end;
            }
        }
    }
}

/// How far the share of a worker is.
struct Course<'a> {
    of: &'a Remote,
    together: &'a StartBarrier,
    control: &'a Control,
    sink: &'a mut dyn SliceSink,
    /// T0, by the own clock and by the worker's.
    start: Option<Time>,
    their_start: Option<Time>,
    reader: SliceReader,
    slice: Slice,
    phases: Vec<PhaseTimes>,
    totals: Counters,
    /// Counts and waits of the measured phase; no latencies.
    measured: Slice,
    /// Latencies of what was never answered.
    rest: Option<Slice>,
    /// The pieces of its part of the ledger that have come; nothing where there is none.
    ledger: Vec<u8>,
    /// News of the others' drains, as it was told.
    others: Option<ShareProgress>,
    /// End of the last slice.
    last_end: Option<Time>,
    is_done: bool,
    /// The user stopped the load before it had ended.
    is_interrupted: bool,
    announced: Announced,
}

/// News of this side's that was told so far.
#[derive(Debug, Default)]
struct Announced {
    /// When the load was stopped.
    stop: Option<Time>,
    end: bool,
    /// When the worker was told of the clock of those who send to it.
    senders: Time,
    /// Whole seconds for which the worker is silent.
    silent_s: u64,
}

impl<'a> Course<'a> {
    fn new(of: &'a Remote, together: &'a StartBarrier, control: &'a Control, sink: &'a mut dyn SliceSink) -> Self {
        Self {
            of,
            together,
            control,
            sink,
            start: None,
            their_start: None,
            reader: SliceReader::default(),
            slice: Slice::default(),
            phases: Vec::new(),
            totals: Counters::default(),
            measured: Slice::default(),
            rest: None,
            ledger: Vec::new(),
            others: None,
            last_end: None,
            is_done: false,
            is_interrupted: false,
            announced: Announced::default(),
        }
    }

    /// Takes what the worker says; how its load ended, where it has.
    fn take(&mut self, output: CoordinatorOutput) -> Option<Result<Outcome, Error>> {
        match output {
            CoordinatorOutput::Ready(_) => self.together.ready(),
            CoordinatorOutput::Slice(_, data) => {
                if !self.pass_on(&data) {
                    return Some(self.lost("a slice of it cannot be read"));
                }
            }
            CoordinatorOutput::Censored(_, data) => {
                let mut rest = Slice::default();
                let is_read = self.reader.read(&data, &mut rest).is_ok();
                self.rest = is_read.then_some(rest);
            }
            CoordinatorOutput::Event(_, event) => self.hear(event),
            CoordinatorOutput::Ledger(_, piece) => {
                // One that is too large is torn, and there is none.
                let room = MOST_LEDGER.saturating_sub(self.ledger.len());
                self.ledger.extend(piece.iter().take(room));
            }
            CoordinatorOutput::Ended(_, outcome) => return Some(Ok(self.ended(*outcome))),
            CoordinatorOutput::Lost(_, why) => return Some(self.lost(&why)),
            CoordinatorOutput::Started { .. }
            | CoordinatorOutput::LoadEnded(..)
            | CoordinatorOutput::Ignored(..)
            | CoordinatorOutput::Finished
            | CoordinatorOutput::Send(_) => {}
        }
        None
    }

    /// Follows what the others and the user do; the end of a share that has not begun, and does not stop either.
    fn look(&mut self) -> Option<Result<Outcome, Error>> {
        if let (None, Some(start)) = (self.start, self.together.start()) {
            self.start = Some(start);
            self.of.fleet.start_at(start, self.of.phases);
        }
        let soon = || Clock.now() + LEAD_TIME;
        if self.control.is_stopping() && self.announced.stop.is_none() {
            self.announced.stop = Some(Clock.now());
            let is_on = self.start.is_some() && self.phases.last().is_none_or(|it| it.phase != Phase::Drain);
            self.is_interrupted = is_on;
            if is_on { self.together.end(soon()) } else { self.of.fleet.stop() }
        }
        if self.start.is_some() && self.together.is_done() && self.together.ended().is_none() {
            self.together.end(soon());
        }
        if let Some(end) = self.together.ended().filter(|_| !self.announced.end) {
            self.announced.end = true;
            match self.start {
                Some(_) => self.of.fleet.inputs().send(CoordinatorInput::End(end)),
                None => self.of.fleet.stop(),
            }
        }
        let others = self.together.others_progress(self.of.share.worker);
        if others != std::mem::replace(&mut self.others, others) {
            self.tell(&WorkerNews::Progress(others));
        }
        let now = Clock.now();
        self.tell_silence(now);
        if let Some(senders) = self.of.senders.filter(|_| now >= self.announced.senders + SENDERS_INTERVAL)
            && let Some(line) = self.of.fleet.clock_line(self.of.worker, senders, now)
        {
            self.announced.senders = now;
            self.tell(&WorkerNews::Senders(line));
        }
        let is_stuck = self.start.is_none() && self.announced.stop.is_some_and(|at| now >= at + STOPPING);
        is_stuck.then(|| self.lost("it did not stop"))
    }

    /// Tells each second that nothing comes: until the worker is lost the others' figures wait for its own.
    fn tell_silence(&mut self, now: Time) {
        let silent = self.of.fleet.silence_of(self.of.worker, now).unwrap_or_default();
        let seconds = silent.0 / Nanos::SECOND.0;
        if seconds > std::mem::replace(&mut self.announced.silent_s, seconds) {
            let who = format!("worker {}", self.of.name);
            self.sink.event(RunEvent::NotHeard { who, lasted: Nanos(seconds * Nanos::SECOND.0) });
        }
    }

    fn tell(&self, news: &WorkerNews) {
        if let Ok(news) = serde_json::to_value(news) {
            self.of.fleet.inputs().send(CoordinatorInput::News(self.of.worker, news));
        }
    }

    /// An instant of the worker's clock by the own one. Both count from T0, so that slices of all end together.
    fn moved(&self, at: Time) -> Time {
        match (self.start, self.their_start) {
            (Some(start), Some(theirs)) => start + at.since(Time(0)) - theirs.since(Time(0)),
            _ => self.of.fleet.moved(self.of.worker, at),
        }
    }

    fn hear(&mut self, event: Value) {
        match serde_json::from_value(event) {
            Ok(WorkerReport::Event(RunEvent::Started { at })) => {
                self.their_start = Some(at);
                let at = self.moved(at);
                self.sink.event(RunEvent::Started { at });
            }
            // A program is none that runs here.
            Ok(WorkerReport::Event(event)) if told::is_told(&event) => {
                let event = told::moved(event, |at| self.moved(at));
                if let RunEvent::PhaseStarted { phase, at } = event {
                    self.begin_phase(phase, at);
                }
                self.sink.event(event);
            }
            Ok(WorkerReport::Done(is_done)) if is_done != self.is_done => {
                self.is_done = is_done;
                self.together.tell_done(is_done);
            }
            Ok(WorkerReport::Progress(progress)) => {
                self.together.tell_progress(self.of.share.worker, Some(progress));
            }
            Ok(WorkerReport::SendersBound(bound)) if self.of.senders.is_some() => {
                self.of.fleet.keep_senders_bound(bound);
            }
            Ok(WorkerReport::Usage { cpu, rss_bytes, threads }) => {
                self.of.fleet.keep_use(self.of.worker, ProcessUse { cpu, rss_bytes, threads });
            }
            // Of the same version nothing else comes.
            Ok(WorkerReport::Event(_) | WorkerReport::Done(_) | WorkerReport::SendersBound(_)) | Err(_) => {}
        }
    }

    fn begin_phase(&mut self, phase: Phase, at: Time) {
        if let Some(last) = self.phases.last_mut() {
            last.end = at;
        }
        self.phases.push(PhaseTimes { phase, start: at, end: at });
    }

    /// Passes a slice on; whether it can be read.
    fn pass_on(&mut self, data: &SliceData) -> bool {
        let mut slice = std::mem::take(&mut self.slice);
        let is_read = self.reader.read(data, &mut slice).is_ok();
        if is_read {
            let start = self.moved(slice.start);
            self.agree_on_end(&slice);
            (slice.start, slice.end) = (start, self.moved(slice.end));
            self.totals.add(&slice.counters);
            if slice.phase == Phase::Measure {
                self.measured.merge_counts(&slice);
            }
            self.last_end = Some(slice.end);
            self.sink.slice(&slice);
        }
        self.slice = slice;
        is_read
    }

    /// An end that all were told is the same instant of all, whatever their clocks say of it.
    fn agree_on_end(&mut self, slice: &Slice) {
        let (Some(end), Some(theirs)) = (self.together.ended(), self.their_start) else { return };
        let ended = self.moved(slice.end);
        if slice.ends_phase && slice.phase != Phase::Drain && ended.0.abs_diff(end.0) < SAME_END {
            self.their_start = Some(theirs + ended.since(Time(0)) - end.since(Time(0)));
        }
    }

    fn ended(&mut self, of: LoadOutcome) -> Outcome {
        let censored = self.rest.take().map(|mut rest| {
            (rest.start, rest.end) = (self.moved(rest.start), self.moved(rest.end));
            Censored::of(&rest, of.unanswered, of.unsent)
        });
        let outcome = told::received(&of, &self.of.name, censored, |at| self.moved(at));
        self.of.fleet.keep(self.of.worker, of, &self.measured);
        let ledger = std::mem::take(&mut self.ledger);
        let ledger_part = Some(ledger).filter(|it| !it.is_empty()).map(LedgerPart::new);
        Outcome { interrupted: outcome.interrupted || self.is_interrupted, ledger_part, ..outcome }
    }

    /// The end of a share whose worker is lost. What came of it before counts; the run goes on where it tolerates that.
    fn lost(&mut self, why: &str) -> Result<Outcome, Error> {
        let now = Clock.now();
        self.together.tell_progress(self.of.share.worker, None);
        let error = self.of.fleet.parted(why).unwrap_or_else(|| self.of.failed("was lost", why));
        let Some(start) = self.start else {
            self.together.end(now);
            return Err(error);
        };
        let heard = self.last_end.unwrap_or(start);
        let is_gap = self.of.fleet.goes_on_without(self.of.worker, heard.since(start));
        match is_gap {
            // The others do not wait for it.
            true if !self.is_done => self.together.tell_done(true),
            true => {}
            false => self.together.end(now),
        }
        let (totals, measured) = (self.totals, self.measured.counters);
        let span = |it: &PhaseTimes| {
            let end = if it.end > it.start { it.end } else { heard.max(it.start) };
            PhaseSpan { phase: it.phase, start: it.start, end }
        };
        let phases = self.phases.iter().map(span).collect();
        let outcome = LoadOutcome { start, phases, totals, measured, ..LoadOutcome::default() };
        self.of.fleet.keep(self.of.worker, outcome, &self.measured);
        // Of what came later nothing was measured.
        if let Some(last) = self.phases.last_mut() {
            last.end = heard.max(last.start);
        }
        let phases = std::mem::take(&mut self.phases);
        Ok(Outcome { phases, totals, measured, error: (!is_gap).then_some(error), is_gap, ..Outcome::started(start) })
    }
}
