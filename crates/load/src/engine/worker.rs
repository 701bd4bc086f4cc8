//! The event loop of one thread.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender};

use measure::{Nanos, Slice, ThreadUsage, Time};
use transport::{Poller, Sleep};

use super::client::{Client, ConnectionState, Next, end_silences};
use super::context::{Context, Tally};
use super::idle::{IdleBackoff, SPIN_BEFORE, in_flight};
use super::ledger::ThreadLedger;
use super::series::Series;
use super::shared::{Report, Shared, Undelivered};
use super::silence;
use super::spec::{ClientSpec, recorded_metrics};
use crate::control::Watch;
use crate::protocol::{Connection, Reply};
use crate::{Environment, Error, EventLoop, Silence};

/// How often a loop looks at heartbeats, time-outs and left-over acknowledgements.
const HOUSEKEEPING: Nanos = Nanos(50_000_000);
/// A loop that comes so much later to its housekeeping did not run, or did not get around to reading.
const STALL: Nanos = Nanos(500_000_000);
/// How often a loop looks who is behind, while somebody wants to know.
const POLL_INTERVAL: Nanos = Nanos(5_000_000);
/// Clients of one thread that log in at the same time, so that a broker's backlog (128) does not overflow.
const AT_ONCE: usize = 32;

/// How far a worker has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WorkerState {
    SettingUp,
    Waiting,
    /// It knows the start of the load; with its run-queue wait when it heard of it.
    Armed(Option<Nanos>),
    Running,
    Leaving(Time),
}

pub(crate) struct WorkerConfig<S> {
    pub(crate) thread: usize,
    pub(crate) clients: Vec<ClientSpec<S>>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) reports: SyncSender<Report>,
    pub(crate) returned: Receiver<Box<Slice>>,
    pub(crate) ledger: Option<ThreadLedger>,
    /// Sleep between looks at the sockets where that cannot be seen; see [`IdleBackoff`].
    pub(crate) may_back_off: bool,
    pub(crate) spin: bool,
    pub(crate) warms_up: bool,
    pub(crate) timeout: Nanos,
}

/// A loop's wait.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    /// When the turn before the wait began.
    turn_began: Time,
    /// Since when there was nothing to do.
    idle_from: Option<Time>,
    /// The moment from which on it is late.
    until: Time,
}

pub(crate) struct Worker<C: Connection, E: Environment> {
    environment: E,
    thread: usize,
    poll: E::Poll,
    waiting: Option<Waiting>,
    poll_error: Option<Error>,
    clients: Vec<Client<C, E>>,
    to_connect: VecDeque<ClientSpec<C::ClientSpec>>,
    setting_up: usize,
    /// Clients that have something to do, in turn.
    queue: VecDeque<usize>,
    /// When clients want to be called.
    due: BinaryHeap<Reverse<(Time, usize)>>,
    series: Series,
    shared: Arc<Shared>,
    reports: SyncSender<Report>,
    buffer: Vec<u8>,
    /// Empty until TLS needs it.
    cipher: Vec<u8>,
    tally: Tally,
    state: WorkerState,
    idle_backoff: IdleBackoff,
    ledger: Option<ThreadLedger>,
    reply: Reply,
    spin: bool,
    timeout: Nanos,
    next_housekeeping: Time,
    next_look: Time,
    /// The last time that the ledger was requested and handed in.
    handed_in: u64,
    /// The last fence, and how many clients are not settled behind it.
    fenced: (u64, usize),
    /// Deliveries that its consumers could still get at the end, once that has come.
    undelivered: Option<Vec<Undelivered>>,
    /// Somebody had a turn since the loop last slept.
    worked: bool,
    failed: bool,
}

impl<C: Connection, E: Environment> Worker<C, E> {
    /// Makes the poll, so that somebody can wake it before it runs.
    pub(crate) fn new(
        environment: &E,
        config: WorkerConfig<C::ClientSpec>,
    ) -> Result<(Self, <E::Poll as Poller>::Waker), Error> {
        let failed = |error| Error::machine("set up an event loop", error);
        let clients = config.clients.len();
        let events = clients.clamp(16, 1_024) + 2;
        let poll = environment.poll(events).map_err(failed)?;
        let waker = poll.waker().map_err(failed)?;
        let recorded = recorded_metrics(&config.clients);
        let idle_backoff = IdleBackoff::new(config.may_back_off, in_flight(&config.clients));
        let worker = Self {
            environment: environment.clone(),
            thread: config.thread,
            poll,
            waiting: None,
            poll_error: None,
            clients: Vec::with_capacity(clients),
            to_connect: config.clients.into(),
            setting_up: 0,
            queue: VecDeque::with_capacity(clients),
            due: BinaryHeap::with_capacity(2 * clients),
            series: Series::new(config.thread, config.reports.clone(), config.returned, &recorded, config.warms_up),
            shared: config.shared,
            reports: config.reports,
            buffer: vec![0; C::BUFFER_BYTES],
            cipher: Vec::new(),
            tally: Tally::default(),
            state: WorkerState::SettingUp,
            idle_backoff,
            ledger: config.ledger,
            reply: Reply::default(),
            spin: config.spin,
            timeout: config.timeout,
            next_housekeeping: Time(0),
            next_look: Time(0),
            handed_in: 0,
            fenced: (0, 0),
            undelivered: None,
            worked: false,
            failed: false,
        };
        Ok((worker, waker))
    }

    /// One turn, after the wait for it; `None` when told to end.
    fn turn(&mut self) -> Result<Option<Sleep>, Error> {
        if let Some(error) = self.poll_error.take() {
            return Err(error);
        }
        let began = match self.waiting.take() {
            Some(waiting) => self.come_back(waiting),
            None => self.environment.now(),
        };
        if self.shared.is_aborted() || !self.advance(began) {
            return Ok(None);
        }
        self.queue_due(began);
        self.poll_clients();
        self.note_away();
        self.housekeep();
        self.shared.progress[self.thread].publish(self.tally.progress, self.tally.activity);
        self.count_behind();
        self.answer_coordinator();
        Ok(Some(self.begin_wait(began)))
    }

    /// Tells what the thread has used and counted.
    fn finish(&mut self) {
        let usage = ThreadUsage {
            total: self.environment.thread_time().cpu,
            start_lateness: self.tally.start_lateness,
            early: Client::early_of_all(&self.clients),
            connections: self.clients.len() as u64,
            lost_connections: self.tally.lost_connections,
            down_connections: self.tally.broken,
            ..self.tally.measured
        };
        if let Some(ledger) = self.ledger.take() {
            let sent = self.clients.iter().flat_map(Client::sent).collect();
            let undelivered = self.undelivered.take().unwrap_or_else(|| self.find_undelivered());
            let owed: Vec<_> = self.clients.iter().flat_map(Client::owed).collect();
            ledger.finish(sent, undelivered, &owed, &self.reports);
        }
        let _ = self.reports.send(Report::Finished(self.thread, usage));
    }

    fn context(&mut self) -> (Context<'_, E>, &mut Vec<Client<C, E>>) {
        let context = Context {
            environment: &self.environment,
            poll: &self.poll,
            series: &mut self.series,
            shared: &self.shared,
            reports: &self.reports,
            buffer: &mut self.buffer,
            cipher: &mut self.cipher,
            tally: &mut self.tally,
            ledger: &mut self.ledger,
            reply: &mut self.reply,
        };
        (context, &mut self.clients)
    }

    /// Goes from set-up to running to leaving; `false` at the end.
    fn advance(&mut self, now: Time) -> bool {
        match self.state {
            WorkerState::SettingUp => {
                self.connect_more(now);
                let ready = self.clients.len() - self.setting_up;
                self.shared.progress[self.thread].publish_ready(ready);
                if self.to_connect.is_empty() && self.setting_up == 0 && !self.failed {
                    self.state = WorkerState::Waiting;
                    let _ = self.reports.send(Report::Ready);
                }
            }
            WorkerState::Waiting | WorkerState::Armed(_) => self.await_start(now),
            WorkerState::Running => {
                let (mut context, _) = self.context();
                context.now();
                if self.series.is_finished() {
                    self.leave(now);
                }
            }
            WorkerState::Leaving(deadline) => {
                let gone = self.clients.iter().all(|client| client.state == ConnectionState::Gone);
                return !gone && now < deadline;
            }
        }
        true
    }

    fn connect_more(&mut self, now: Time) {
        while self.setting_up < AT_ONCE && !self.failed {
            let Some(spec) = self.to_connect.pop_front() else { break };
            let token = self.clients.len();
            match Client::connect(spec, &self.poll, token, now) {
                Ok(client) => {
                    self.clients.push(client);
                    self.setting_up += 1;
                }
                Err(error) => self.fail(error),
            }
        }
    }

    /// Begins at the start of the load, of which it has heard before.
    fn await_start(&mut self, now: Time) {
        let Some(start) = self.shared.start() else { return };
        let waited = || self.environment.thread_time().run_queue_wait;
        let before = if let WorkerState::Armed(before) = self.state { before } else { waited() };
        self.state = WorkerState::Armed(before);
        if start <= now {
            let core_wait = waited().zip(before).map_or(Nanos::ZERO, |(now, before)| now.saturating_sub(before));
            self.tally.start_lateness = now.since(start).saturating_sub(core_wait);
            self.begin(start);
        }
    }

    fn begin(&mut self, start: Time) {
        self.state = WorkerState::Running;
        let boundaries = self.shared.boundaries();
        self.series.begin(start, boundaries);
        let (mut context, clients) = self.context();
        context.begin();
        clients.iter_mut().for_each(|client| client.start(start));
        (0..self.clients.len()).for_each(|at| self.enqueue(at));
    }

    fn leave(&mut self, now: Time) {
        self.undelivered = Some(self.find_undelivered());
        end_silences(&mut self.clients, &self.shared, &self.reports, &mut self.tally);
        self.state = WorkerState::Leaving(now + self.timeout);
        for at in 0..self.clients.len() {
            // A broker that is gone already needs no goodbye.
            if self.clients[at].leave(now).is_err() {
                self.clients[at].state = ConnectionState::Gone;
            }
            self.enqueue(at);
        }
    }

    fn enqueue(&mut self, at: usize) {
        if let Some(client) = self.clients.get_mut(at)
            && !client.queued
            && client.state != ConnectionState::Gone
        {
            client.queued = true;
            self.queue.push_back(at);
        }
    }

    fn queue_due(&mut self, now: Time) {
        while let Some(Reverse((due, at))) = self.due.peek().copied()
            && due <= now
        {
            self.due.pop();
            let client = &mut self.clients[at];
            if client.timed == Some(due) {
                client.timed = None;
            }
            self.enqueue(at);
        }
    }

    /// One batch for everybody who is in the queue now.
    fn poll_clients(&mut self) {
        self.worked = !self.queue.is_empty();
        for _ in 0..self.queue.len() {
            let Some(at) = self.queue.pop_front() else { break };
            let before = self.clients[at].state;
            let (mut context, clients) = self.context();
            let client = &mut clients[at];
            client.queued = false;
            match client.poll(&mut context) {
                Ok(Next::Again) => self.enqueue(at),
                Ok(Next::At(due)) if client.timed.is_none_or(|timed| due < timed) => {
                    client.timed = Some(due);
                    self.due.push(Reverse((due, at)));
                }
                Ok(_) => {}
                Err(error) => self.client_failed(at, error),
            }
            let was_setting_up = matches!(before, ConnectionState::Connecting | ConnectionState::SettingUp);
            let is_first = self.state == WorkerState::SettingUp;
            if is_first && was_setting_up && self.clients[at].state == ConnectionState::Ready {
                self.setting_up -= 1;
            }
        }
    }

    fn note_away(&mut self) {
        let clients = self.clients.len();
        let tally = &mut self.tally;
        let is_away = tally.broken > 0 && tally.broken as usize == clients;
        tally.silences.note_away(is_away, tally.last_now, clients);
    }

    fn client_failed(&mut self, at: usize, error: Error) {
        let drain_at = self.shared.boundaries().drain_at;
        self.clients[at].end_silence(drain_at, &mut self.tally);
        let number = ((self.thread as u64) << 32) | at as u64;
        let (mut context, clients) = self.context();
        let client = &mut clients[at];
        let leaving = client.state == ConnectionState::Leaving;
        if !leaving && client.break_off(number, &error, &mut context) {
            self.enqueue(at);
            return;
        }
        client.state = ConnectionState::Gone;
        if !leaving {
            self.fail(error);
        }
    }

    /// Tells the coordinator, once.
    fn fail(&mut self, error: Error) {
        if !self.failed {
            self.failed = true;
            let _ = self.reports.send(Report::Failed(error));
        }
    }

    fn housekeep(&mut self) {
        let now = self.tally.last_now;
        if now < self.next_housekeeping {
            return;
        }
        self.tally.tell_silences(false, &self.reports);
        let stalled = now.since(self.next_housekeeping) >= STALL;
        self.next_housekeeping = now + HOUSEKEEPING;
        let phase = self.series.phase();
        for at in 0..self.clients.len() {
            let (mut context, clients) = self.context();
            clients[at].account_so_far(&mut context);
            match self.clients[at].housekeep(now, phase, stalled) {
                Ok(true) => self.enqueue(at),
                Ok(false) => {}
                Err(error) => self.client_failed(at, error),
            }
        }
    }

    /// While the return of a broker is watched, tells how many clients are not over it yet.
    fn count_behind(&mut self) {
        let now = self.tally.last_now;
        if self.shared.control.watch() != Watch::Backlog || now < self.next_look {
            return;
        }
        self.next_look = now + POLL_INTERVAL;
        let since = self.shared.caught_up_from();
        let behind = self.clients.iter().filter(|client| client.is_behind(now, since));
        self.shared.progress[self.thread].publish_behind(behind.count() as u64, since);
    }

    /// In the drain, hands in its part of the ledger and puts up fences, when it is asked to.
    fn answer_coordinator(&mut self) {
        let request = self.shared.ledger_request();
        if request != self.handed_in {
            let ledger = self.ledger.as_mut();
            if ledger.is_none_or(|ledger| ledger.send_all(&self.reports)) {
                self.handed_in = request;
                self.shared.progress[self.thread].publish_handed_in(request);
            }
        }
        let fence = self.shared.fence();
        if fence != self.fenced.0 && self.state == WorkerState::Running {
            self.put_up(fence);
        }
        if self.fenced.1 > 0 {
            let (mut unsettled, mut undelivered) = (0, 0u64);
            for client in &self.clients {
                match client.most_undelivered(fence) {
                    Some(most) => undelivered = undelivered.saturating_add(most),
                    None => unsettled += 1,
                }
            }
            self.fenced = (fence, unsettled);
            let progress = &self.shared.progress[self.thread];
            progress.publish_fenced(fence, unsettled, undelivered);
        }
    }

    fn put_up(&mut self, fence: u64) {
        // All are looked at once, whether they are settled already or not.
        self.fenced = (fence, self.clients.len());
        let now = self.tally.last_now;
        for at in 0..self.clients.len() {
            if let Err(error) = self.clients[at].fence(fence, now) {
                self.client_failed(at, error);
            }
            self.enqueue(at);
        }
    }

    /// Deliveries that its consumers may still get.
    fn find_undelivered(&self) -> Vec<Undelivered> {
        let fence = self.shared.fence();
        self.clients.iter().flat_map(|client| client.undelivered(fence)).collect()
    }

    /// Tells how long there is nothing to do, and notes what for.
    fn begin_wait(&mut self, turn_began: Time) -> Sleep {
        let turn_ended = self.tally.last_now;
        let idle_from = match (self.worked, self.queue.is_empty()) {
            (_, false) => None,
            // Encoding and writing came after the last reading of the clock.
            (true, true) => Some(self.environment.now()),
            // A loop that spins has turns in which it only looks.
            (false, true) => Some(turn_began),
        };
        let backs_off = self.queue.is_empty() && self.state == WorkerState::Running;
        let backoff = &mut self.idle_backoff;
        let (handled, latency) = (self.tally.handled, self.tally.latency);
        let length = backs_off.then(|| backoff.length(turn_ended, handled, latency));
        let pause = length.flatten().map(|length| turn_began + length);
        let deadline = self.deadline();
        let early = if self.spin { SPIN_BEFORE } else { Nanos::ZERO };
        let wake_at = deadline - early;
        // Where there is no time to sleep it only looks.
        let until = (self.queue.is_empty() && wake_at > turn_ended).then_some(wake_at);
        // How late it comes back: after its sleep, or else since the poll began that kept this one waiting.
        let late_from = match until {
            Some(_) => deadline,
            None => pause.unwrap_or(turn_began),
        };
        self.waiting = Some(Waiting { turn_began, idle_from, until: late_from });
        Sleep { pause, until }
    }

    /// Takes what the wait brought, and returns when the loop came back to it.
    fn come_back(&mut self, waiting: Waiting) -> Time {
        self.dispatch();
        let (mut context, _) = self.context();
        let now = context.now();
        let interval = self.series.current();
        let lag = now.since(waiting.until);
        interval.loop_lag_max = interval.loop_lag_max.max(lag);
        let idle = waiting.idle_from.map_or(Nanos::ZERO, |from| now.since(from));
        interval.waits.loop_idle += idle;
        interval.waits.loop_time += now.since(waiting.turn_began);
        self.tally.idle += idle;
        if lag >= silence::SHORTEST && self.state == WorkerState::Running {
            self.note_own_silence(waiting.until, now);
        }
        now
    }

    /// The loop did not run for a while.
    #[cold]
    fn note_own_silence(&mut self, from: Time, now: Time) {
        let due_until = now.min(self.shared.boundaries().drain_at);
        let clients = self.clients.iter();
        let own = Silence {
            from,
            until: now,
            connections: self.clients.len() as u64,
            in_flight: self.tally.progress.open,
            unsent: clients.map(|it| it.unsent(from, due_until)).sum(),
            ..Silence::default()
        };
        self.tally.silences.come_back(own, self.tally.handled);
    }

    fn dispatch(&mut self) {
        let Self { poll, clients, queue, .. } = self;
        for (at, readiness) in poll.events() {
            if let Some(client) = clients.get_mut(at) {
                client.notice(readiness);
                if !client.queued && client.state != ConnectionState::Gone {
                    client.queued = true;
                    queue.push_back(at);
                }
            }
        }
    }

    /// The next moment at which something is due of itself.
    fn deadline(&self) -> Time {
        let mut deadline = self.next_housekeeping;
        if let Some(Reverse((due, _))) = self.due.peek() {
            deadline = deadline.min(*due);
        }
        match self.state {
            WorkerState::Running => deadline.min(self.series.end(self.shared.boundaries())),
            WorkerState::Waiting | WorkerState::Armed(_) => {
                self.shared.start().map_or(deadline, |start| deadline.min(start))
            }
            WorkerState::SettingUp | WorkerState::Leaving(_) => deadline,
        }
    }
}

impl<C: Connection, E: Environment> EventLoop for Worker<C, E> {
    fn step(&mut self) -> Option<Sleep> {
        match self.turn() {
            Ok(Some(sleep)) => return Some(sleep),
            Ok(None) => {}
            Err(error) => self.fail(error),
        }
        self.finish();
        None
    }

    fn wait(&mut self, sleep: Sleep) {
        if let Err(error) = self.poll.wait(sleep) {
            self.poll_error = Some(Error::machine("wait for the sockets", error));
        }
    }
}

impl<C: Connection, E: Environment> Drop for Worker<C, E> {
    fn drop(&mut self) {
        // Reports what stayed open, for the outcome.
        let mut progress = self.tally.progress;
        progress.open = self.clients.iter().map(Client::unanswered).sum();
        self.shared.progress[self.thread].publish(progress, self.tally.activity);
    }
}
