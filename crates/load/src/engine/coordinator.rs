//! The coordinator: starts the event loops, decides when phases end, and puts together what the loops report.

mod drain;
mod restorer;

use std::collections::{HashMap, VecDeque};
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use measure::ledger::{Ledger, LedgerBatch, LedgerPart};
use measure::{Nanos, Phase, Slice, ThreadUsage, Time};
use transport::{Poller, Wake};

use self::drain::StopWatcher;
use self::restorer::Restorer;
use super::assignment::Assignment;
use super::idle;
use super::ledger::{BATCHES, SentCounts, ThreadLedger, UNKNOWN};
use super::ledger_layout::LedgerLayout;
use super::recipients::{Found, Recipient};
use super::series::{Merger, POOL};
use super::shared::{LastBatch, Report, Shared, Undelivered};
use super::worker::{Worker, WorkerConfig};
use crate::control::{CLOSING, Watch};
use crate::protocol::Connection;
use crate::report::Censored;
use crate::{Control, Environment, Error, Outcome, PhaseTimes, Plan, RunEvent, SliceSink, StartBarrier, Task};

/// How often the coordinator looks at its [`Control`], and at progress while draining.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Interval of looks while it only waits for the end of the load: each is a wake-up beside the load.
const CALM_INTERVAL: Duration = Duration::from_millis(100);
/// Between announcing a boundary and its instant, so that every loop knows it in time.
const LEAD_TIME: Nanos = Nanos(5_000_000);
/// The instant that asks whether producers are behind, consumers left out.
const PRODUCERS_ONLY: Time = Time(0);
/// Closing connections that takes longer is told.
const TELL_AFTER: Nanos = Nanos::from_millis(200);
/// How often is told how many clients are connected.
const PROGRESS_INTERVAL: Nanos = Nanos(500_000_000);
/// Reports that are not intervals have this much room.
const EVENT_ROOM: usize = 64;

/// Watches over the event loops of one load.
pub(super) struct Coordinator<'a, C: Connection, E: Environment> {
    protocol: PhantomData<C>,
    environment: &'a E,
    plan: &'a Plan,
    together: &'a StartBarrier,
    control: &'a Control,
    sink: &'a mut dyn SliceSink,
    shared: Arc<Shared>,
    reports: Receiver<Report>,
    merger: Merger,
    collector: Option<LedgerCollector>,
    recipients: Vec<Recipient>,
    /// Whether it is known how many deliveries each message leads to.
    knows_expected: bool,
    /// Answers of the drain's last questions.
    found: Found,
    wakers: Vec<<E::Poll as Poller>::Waker>,
    threads: Vec<Option<E::Task>>,
    usage: Vec<ThreadUsage>,
    anybody_counts: bool,
    spin: bool,
    restorer: Restorer<E>,
    state: LoadState,
}

/// State of a load, as its loops have reported it.
#[derive(Default)]
struct LoadState {
    /// Loops whose clients are connected.
    ready: usize,
    /// Loops that have ended.
    finished: usize,
    /// The others know that nothing is left here of what ends the load.
    is_done: bool,
    /// Somebody has stopped the load before it ended.
    is_stopped: bool,
    /// Somebody has stopped the drain of one that had ended by itself, while something was awaited.
    drain_cut: bool,
    error: Option<Error>,
    /// Messages due and not answered, with the time they had waited at the end.
    censored: Option<Censored>,
    /// While a broker's return is watched: since when all producers are on schedule.
    caught_up: Option<Time>,
    /// Messages of other workers, too, that were delivered when that was last looked into.
    delivered: u64,
}

impl<'a, C: Connection, E: Environment> Coordinator<'a, C, E> {
    pub(super) fn start(
        environment: &'a E,
        plan: &'a Plan,
        together: &'a StartBarrier,
        control: &'a Control,
        sink: &'a mut dyn SliceSink,
        assignment: Assignment<C::ClientSpec>,
    ) -> Result<Self, Error> {
        let count = assignment.threads.len();
        let (sender, reports) = sync_channel(count * (POOL + BATCHES + 1) + EVENT_ROOM);
        let (collector, mut ledger) = LedgerCollector::open(&assignment.ledger_layout, count);
        if let Err(Some(reason)) = assignment.ledger_layout {
            sink.event(RunEvent::Note(reason));
        }
        let shared = Arc::new(Shared::new(control.clone(), count, assignment.counting_producers, assignment.budgets));
        let spin = idle::may_spin(plan, count);
        let mut give_back = Vec::with_capacity(count);
        let mut workers = Vec::with_capacity(count);
        for (thread, clients) in assignment.threads.into_iter().enumerate() {
            let (returns, returned) = sync_channel(POOL + 1);
            give_back.push(returns);
            let config = WorkerConfig {
                thread,
                clients,
                shared: Arc::clone(&shared),
                reports: sender.clone(),
                returned,
                ledger: ledger.pop_front(),
                may_back_off: plan.is_unthrottled(),
                spin,
                warms_up: plan.phases.warmup > Nanos::ZERO,
                timeout: plan.timeout,
            };
            workers.push(Worker::<C, E>::new(environment, config)?);
        }
        let mut coordinator = Self {
            protocol: PhantomData,
            environment,
            plan,
            together,
            control,
            sink,
            shared,
            reports,
            merger: Merger::new(give_back),
            collector,
            recipients: assignment.recipients,
            knows_expected: assignment.knows_expected,
            found: Found::default(),
            wakers: Vec::with_capacity(count),
            threads: Vec::with_capacity(count),
            usage: vec![ThreadUsage::default(); count],
            anybody_counts: assignment.anybody_counts,
            spin,
            restorer: Restorer::new(),
            state: LoadState::default(),
        };
        for (thread, (worker, waker)) in workers.into_iter().enumerate() {
            let handle = environment
                .run_loop(format!("load {thread}"), worker)
                .map_err(|error| Error::machine("start a thread", error))?;
            coordinator.wakers.push(waker);
            coordinator.threads.push(Some(handle));
        }
        Ok(coordinator)
    }

    pub(super) fn supervise(&mut self) -> Result<Outcome, Error> {
        let mut told = self.environment.now();
        while self.state.ready < self.threads.len() {
            self.receive(POLL_INTERVAL)?;
            if self.environment.now() > told + PROGRESS_INTERVAL {
                told = self.environment.now();
                let (ready, wanted) = (self.shared.clients_ready(), self.plan.connection_count() as u64);
                self.sink.event(RunEvent::Connecting { ready, wanted });
            }
            if self.is_called_off()? {
                return Ok(Outcome::never_started_at(self.environment.now()));
            }
        }
        let Some(start) = self.announce_start()? else { return Ok(Outcome::never_started_at(self.environment.now())) };
        let drain_at = self.load(start)?;
        self.together.end(drain_at);
        let end_at = self.drain(drain_at)?;
        self.close()?;
        self.join()?;
        let Self { merger, sink, .. } = self;
        merger.finish(|slice| sink.slice(slice));
        Ok(self.outcome(start, drain_at, end_at))
    }

    /// Whether somebody stops the load before it starts; fails where one of its loops has.
    fn is_called_off(&mut self) -> Result<bool, Error> {
        let is_stopped = self.control.is_stopping() || self.together.ended().is_some();
        self.state.error.take().map_or(Ok(is_stopped), Err)
    }

    /// Waits until the event loops have closed their connections, for long only where nobody stops the load.
    fn close(&mut self) -> Result<(), Error> {
        let began = self.environment.now();
        let mut is_told = false;
        while self.state.finished < self.threads.len() {
            self.receive(POLL_INTERVAL)?;
            if self.control.is_overdue(began, CLOSING, self.environment.now()) {
                self.shared.abort();
                self.wake();
            } else if !is_told && self.environment.now().since(began) >= TELL_AFTER {
                is_told = true;
                let at_most = if self.control.is_stopping() { CLOSING } else { self.plan.timeout };
                let for_what = "the broker to close the connections".to_owned();
                self.sink.event(RunEvent::Waiting { for_what, at_most });
            }
        }
        Ok(())
    }

    /// Waits for the other scenarios of the run; `None` where one of them could not start.
    fn announce_start(&mut self) -> Result<Option<Time>, Error> {
        self.together.ready_at(self.environment.now());
        let start = loop {
            if let Some(start) = self.together.start() {
                break start.max(self.environment.now() + LEAD_TIME);
            }
            self.receive(POLL_INTERVAL)?;
            if self.is_called_off()? {
                return Ok(None);
            }
        };
        self.shared.set_start(start, self.plan.phases.warmup, self.plan.phases.measure);
        self.wake();
        self.sink.event(RunEvent::Started { at: start });
        let first = if self.plan.phases.warmup > Nanos::ZERO { Phase::Warmup } else { Phase::Measure };
        self.sink.event(RunEvent::PhaseStarted { phase: first, at: start });
        Ok(Some(start))
    }

    /// Waits for the end of sending, and returns its instant.
    fn load(&mut self, start: Time) -> Result<Time, Error> {
        let mut warming_up = self.plan.phases.warmup > Nanos::ZERO;
        let mut stop_watcher = StopWatcher::new(self.environment, self.plan, start);
        loop {
            let boundaries = self.shared.boundaries();
            let now = self.environment.now();
            if warming_up && now >= boundaries.measure_at && boundaries.measure_at < boundaries.drain_at {
                warming_up = false;
                let at = boundaries.measure_at;
                self.sink.event(RunEvent::PhaseStarted { phase: Phase::Measure, at });
            }
            if now >= boundaries.drain_at {
                return Ok(boundaries.drain_at);
            }
            let next = if warming_up { boundaries.measure_at } else { boundaries.drain_at };
            let is_calm = self.together.is_alone() && stop_watcher.is_none() && self.control.watch() == Watch::Off;
            let interval = if is_calm { CALM_INTERVAL } else { POLL_INTERVAL };
            self.receive(interval.min(next.min(boundaries.drain_at).since(now).into()))?;
            let activity = self.shared.activity();
            // What else ends the load waits for those who have something to send.
            let has_come = stop_watcher.as_mut().is_some_and(|it| it.has_come::<C>(activity, now));
            let ended = has_come && self.shared.all_is_sent();
            let counted = self.shared.counts_reached(self.anybody_counts)
                && (stop_watcher.is_none() || !self.shared.budgets.is_empty());
            let is_done = self.is_done(ended || counted);
            let is_stopping = self.control.is_stopping();
            let ends = is_stopping || is_done || self.state.error.is_some();
            let end = if ends { Some(start) } else { self.together.ended() };
            let end = end.map(|end| end.max(start).max(self.environment.now() + LEAD_TIME));
            if let Some(end) = end.filter(|end| boundaries.drain_at > *end) {
                self.state.is_stopped |= is_stopping && !ended && !counted;
                self.shared.drain_at(end);
                self.wake();
            }
        }
    }

    /// Tells the other shares of the load whether this one has nothing left of what ends it; whether nobody has.
    fn is_done(&mut self, is_done: bool) -> bool {
        if is_done != std::mem::replace(&mut self.state.is_done, is_done) {
            self.together.tell_done(is_done);
        }
        self.together.ends_when_done()
    }

    /// Follows the return of a broker from the first confirm to the end of the backlog.
    fn watch_return(&mut self) {
        if self.control.watch() != Watch::Backlog {
            self.state.caught_up = None;
            return;
        }
        let now = self.environment.now();
        let Some(since) = self.state.caught_up else {
            // Producers come first: whatever a consumer has had is later than this.
            self.state.caught_up = Some(PRODUCERS_ONLY);
            self.shared.set_caught_up_from(PRODUCERS_ONLY);
            return;
        };
        if !self.shared.nobody_is_behind(since) {
            return;
        }
        if since == PRODUCERS_ONLY {
            // They are on schedule. What is due from here on tells when consumers are, too.
            self.state.caught_up = Some(now);
            self.shared.set_caught_up_from(now);
        } else if self.control.watch_on(Watch::Backlog, Watch::Off) {
            self.state.caught_up = None;
            self.sink.event(RunEvent::BacklogGone { at: now });
        }
    }

    /// Takes one report, if one comes in time.
    fn receive(&mut self, timeout: Duration) -> Result<(), Error> {
        self.watch_return();
        match self.environment.receive(&self.reports, timeout) {
            Ok(report) => self.take(report),
            Err(RecvTimeoutError::Timeout) => return self.look_for_panics(),
            Err(RecvTimeoutError::Disconnected) => return self.join(),
        }
        Ok(())
    }

    fn take(&mut self, report: Report) {
        match report {
            Report::Ready => self.state.ready += 1,
            Report::Interval(thread, interval) => {
                let Self { merger, sink, .. } = self;
                merger.add(thread, interval, |slice: &Slice| {
                    if slice.end > slice.start {
                        sink.slice(slice);
                    }
                });
            }
            Report::LedgerBatch(thread, batch, last) => {
                if let Some(collector) = &mut self.collector {
                    collector.add(thread, batch, last);
                }
            }
            Report::Event(event) => self.sink.event(event),
            Report::Blocked { at, reason } => {
                let reason = reason.to_string();
                self.sink.event(RunEvent::Blocked { at, reason });
            }
            Report::Censored(censored) => match &mut self.state.censored {
                Some(all) => all.merge(&censored),
                None => self.state.censored = Some(*censored),
            },
            Report::CountReached => {}
            Report::Refused(error) => {
                if let Some(event) = self.restorer.take::<C>(&error, self.environment, self.plan) {
                    self.sink.event(event);
                }
            }
            Report::Failed(error) => {
                self.state.error.get_or_insert(error);
            }
            Report::Finished(thread, usage) => {
                self.state.finished += 1;
                self.usage[thread] = usage;
            }
        }
    }

    /// A loop that has ended without saying so has panicked.
    fn look_for_panics(&mut self) -> Result<(), Error> {
        let ended = self.threads.iter().flatten().filter(|thread| Task::is_finished(*thread)).count();
        if ended > self.state.finished { self.join() } else { Ok(()) }
    }

    fn join(&mut self) -> Result<(), Error> {
        if self.state.finished < self.threads.len() {
            self.shared.abort();
            self.wake();
        }
        let mut result = Ok(());
        for thread in self.threads.iter_mut().filter_map(Option::take) {
            if !thread.join() {
                result = Err(Error::machine("finish the load", "an event loop panicked (a bug)"));
            }
        }
        result
    }

    fn wake(&self) {
        for waker in &self.wakers {
            // A loop that cannot be woken wakes by itself within its housekeeping period.
            let _ = waker.wake();
        }
    }

    fn outcome(&mut self, start: Time, drain_at: Time, end_at: Time) -> Outcome {
        let measure_at = (start + self.plan.phases.warmup).min(drain_at);
        let of = |phase, start, end| PhaseTimes { phase, start, end };
        let mut phases = vec![
            of(Phase::Warmup, start, measure_at),
            of(Phase::Measure, measure_at, drain_at),
            of(Phase::Drain, drain_at, end_at),
        ];
        phases.retain(|it| it.start < it.end);
        if let Some(collector) = &mut self.collector {
            collector.ledger.set_copies(self.merger.totals().resent);
        }
        let collector = self.collector.as_ref();
        let (whole, part) = (collector.filter(|it| !it.is_part), collector.filter(|it| it.is_part));
        Outcome {
            phases,
            totals: self.merger.totals(),
            measured: self.merger.measured(),
            unconfirmed: self.shared.totals().open,
            censored: self.state.censored.take().map(Box::new),
            interrupted: self.state.is_stopped,
            drain_cut: self.state.drain_cut,
            error: self.state.error.take(),
            is_gap: false,
            ledger: whole.map(|it| it.ledger.summary(&it.held(&self.recipients, &self.found))),
            ledger_part: part.map(|it| it.part(&it.held(&self.recipients, &self.found))),
            threads: std::mem::take(&mut self.usage),
            spun: self.spin,
            ..Outcome::started(start)
        }
    }
}

impl<C: Connection, E: Environment> Drop for Coordinator<'_, C, E> {
    fn drop(&mut self) {
        // However a run ends, no loop outlives it.
        self.shared.abort();
        self.wake();
        for thread in self.threads.iter_mut().filter_map(Option::take) {
            let _ = thread.join();
        }
    }
}

/// Bitmaps of deliveries, and messages that the broker may hold for them.
type HeldMessages = (Range<usize>, u64);

/// The coordinator's side: the ledger, and the way back of emptied batches.
#[derive(Debug)]
struct LedgerCollector {
    ledger: Ledger,
    /// Other workers have the rest.
    is_part: bool,
    give_back: Vec<SyncSender<LedgerBatch>>,
    sent: SentCounts,
    undelivered: HashMap<u32, Undelivered>,
}

impl LedgerCollector {
    /// Makes the collector and each thread's ledger; neither where no ledger is kept.
    fn open(
        ledger_layout: &Result<LedgerLayout, Option<String>>,
        threads: usize,
    ) -> (Option<Self>, VecDeque<ThreadLedger>) {
        let Ok(ledger_layout) = ledger_layout else { return (None, VecDeque::new()) };
        let mut give_back = Vec::with_capacity(threads);
        let mut shards = VecDeque::with_capacity(threads);
        let unknown = if ledger_layout.is_part { UNKNOWN } else { 0 };
        let sent = std::iter::repeat_with(|| AtomicU64::new(unknown)).take(ledger_layout.producers);
        let sent: SentCounts = sent.collect();
        for producer in ledger_layout.own_producers() {
            if let Some(sent) = sent.get(producer) {
                sent.store(0, Ordering::Release);
            }
        }
        for (thread, bitmaps) in ledger_layout.threads.iter().enumerate() {
            let (sender, returned) = sync_channel(BATCHES + 1);
            give_back.push(sender);
            shards.push_back(ThreadLedger::new(thread, bitmaps, Arc::clone(&sent), returned));
        }
        let ledger = Ledger::new(ledger_layout.producers, &ledger_layout.deliveries);
        let is_part = ledger_layout.is_part;
        let ledger = if is_part { ledger.of_worker() } else { ledger };
        let collector = Self { ledger, is_part, give_back, sent, undelivered: HashMap::new() };
        (Some(collector), shards)
    }

    fn add(&mut self, thread: usize, mut batch: LedgerBatch, last: Option<Box<LastBatch>>) {
        self.ledger.add(&batch);
        batch.clear();
        if let Some(sender) = self.give_back.get(thread) {
            // An event loop that has ended wants nothing back.
            let _ = sender.try_send(batch);
        }
        let Some(last) = last else { return };
        let anomalies = last.anomalies;
        self.ledger.add_counts(anomalies.corrupt, anomalies.foreign);
        for (producer, count) in last.sent {
            self.ledger.set_sent(producer as usize, count);
        }
        for (bitmap, from) in last.owed {
            self.ledger.owe_from(bitmap as usize, from);
        }
        for one in last.undelivered {
            // Consumers of one queue have asked for the same messages.
            let all = self.undelivered.entry(one.recipient).or_default();
            all.in_queue = all.in_queue.max(one.in_queue);
            all.in_flight = all.in_flight.saturating_add(one.in_flight);
        }
    }

    /// Whether every message is accounted for, of which this many deliveries are expected.
    fn is_complete(&mut self, expected: u64) -> bool {
        for (producer, sent) in self.sent.iter().enumerate() {
            let sent = sent.load(Ordering::Acquire);
            self.ledger.set_sent(producer, sent);
        }
        let summary = self.ledger.summary(&[]);
        summary.lost == 0 && summary.delivered >= expected
    }

    /// This worker's part of the ledger.
    fn part(&self, held: &[HeldMessages]) -> LedgerPart {
        let is_own = |producer: usize| {
            let sent = self.sent.get(producer).map(|sent| sent.load(Ordering::Acquire));
            sent.is_some_and(|sent| sent != UNKNOWN)
        };
        self.ledger.part(is_own, held)
    }

    /// The most that each recipient's queue may hold.
    fn held(&self, recipients: &[Recipient], found: &Found) -> Vec<HeldMessages> {
        let held = recipients.iter().enumerate().map(|(at, recipient)| {
            let its = self.undelivered.get(&(at as u32)).copied().unwrap_or_default();
            let held = found.held(at, recipient).unwrap_or(u64::MAX);
            let most = held.max(its.in_queue).saturating_add(its.in_flight);
            (recipient.bitmaps.clone(), most)
        });
        held.collect()
    }
}
