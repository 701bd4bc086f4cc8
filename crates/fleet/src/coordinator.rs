//! The coordinator's part of a run.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use measure::{Nanos, Time};
use serde_json::Value;

use crate::clock::{ClockEstimator, ProbeTimes};
use crate::message::{Envelope, LoadOutcome, Share, ToCoordinator, ToWorker, WorkerFacts, WorkerState};
use crate::slice::SliceData;
use crate::stream::{Inbox, Outbox};

/// Between two looks at all workers.
const TICK: Nanos = Nanos::from_millis(10);
/// Between two probes of a worker, …
const PROBE: Nanos = Nanos::from_millis(100);
/// … and until it has had [`RunRules::probes`].
const FIRST_PROBES: Nanos = Nanos::from_millis(10);
/// The longest that a load waits for workers that record.
const RECORDERS_TIMEOUT: Nanos = Nanos::from_millis(20_000);

/// The longest that workers may take to report the end of their loads, beyond the drain.
const REPORT_TIMEOUT: Nanos = Nanos::from_millis(30_000);

/// Why who is no member any more is fenced again.
const GOES_ON: &str = "the run goes on without it";

/// Limits within which a run is valid, and its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRules {
    /// Name of the run, for people.
    pub run: String,
    /// Lease of workers: 5 s.
    pub lease: Nanos,
    /// Workers that may be lost without making the run invalid.
    pub tolerate: usize,
    /// The latest start after T0, beyond the wait for a core: 1 ms.
    pub late: Nanos,
    /// Probes of each worker before it counts as ready: 200.
    pub probes: u32,
}

/// Something that happens to a coordinator.
#[derive(Clone, Debug)]
pub enum CoordinatorInput {
    /// A message arrived.
    Message(Envelope<ToCoordinator>),
    /// The workers that have joined are those of the run: they are numbered by their names, those that record after
    /// the others, and further ones are refused.
    Close,
    /// Hand a share over, to the worker that it names.
    Share(Share),
    /// The load starts, once all workers are ready.
    Start {
        /// T0.
        at: Time,
        /// Its length without its drain; `None`: until [`CoordinatorInput::End`].
        length: Option<Nanos>,
        /// The longest drain.
        drain: Nanos,
    },
    /// The load ends at this instant.
    End(Time),
    /// Tell a worker what others have reported.
    News(usize, Value),
    /// Stop the load; `true`: at once.
    Stop(bool),
    /// The server between the coordinator and its workers is away, or is back.
    ServerAway(bool),
    /// Time has passed: see [`Coordinator::next_wake`].
    Tick,
}

/// Orders of a coordinator to its host, and news; workers by their numbers, which [`CoordinatorInput::Close`] gives.
#[derive(Clone, Debug, PartialEq)]
pub enum CoordinatorOutput {
    /// Send this to the worker of its session.
    Send(Envelope<ToWorker>),
    /// A worker has prepared its share, and its clock is known.
    Ready(usize),
    /// A worker's load has started.
    Started {
        /// The worker.
        worker: usize,
        /// When, by the coordinator's clock.
        at: Time,
        /// After T0, beyond the wait for a core.
        late: Nanos,
    },
    /// The next slice of a worker, each once and in order; instants are those of its clock.
    Slice(usize, SliceData),
    /// Messages and operations of a worker that had no answer, as a slice of its drain.
    Censored(usize, SliceData),
    /// An event of a worker; instants are those of its clock.
    Event(usize, Value),
    /// The next piece of a worker's part of the ledger.
    Ledger(usize, Arc<[u8]>),
    /// A worker's load has ended by itself at this instant of the coordinator's clock.
    LoadEnded(usize, Time),
    /// A worker's drain has ended; instants are those of its clock.
    Ended(usize, Box<LoadOutcome>),
    /// A worker has no part in the run any more, and sends no load: reason, for people. What came of it before counts.
    Lost(usize, String),
    /// A worker that joined and is none of the run's: its name, and the reason, for people. Once for each session.
    Ignored(String, String),
    /// All have left or are lost: nothing more comes.
    Finished,
}

/// Something that parted the coordinator from its workers, for which none of these is to blame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outage {
    /// The coordinator's own process did not run for as long.
    Coordinator(Nanos),
    /// The server between them was away, for as long when a worker was lost.
    Server(Nanos),
    /// All fell silent at the same time.
    All,
}

impl fmt::Display for Outage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Coordinator(length) => write!(f, "this bellows, which coordinates the run, stood still for {length}"),
            Self::Server(length) => write!(f, "the NATS server was away for {length}"),
            Self::All => f.write_str("all workers fell silent at the same time, as when the network is cut"),
        }
    }
}

/// Why a run is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// More workers were lost than is tolerated: all of them, with the reasons.
    Lost(Vec<(usize, String)>),
    /// A worker started late.
    Late {
        /// Its name.
        worker: String,
        /// By how much, beyond the wait for a core.
        late: Nanos,
    },
    /// A worker's clock moved against the coordinator's.
    ClockMoved(String),
}

/// A worker, as the coordinator knows it.
#[derive(Debug)]
pub struct Member {
    /// The worker's own facts.
    pub facts: WorkerFacts,
    /// How far it is; [`WorkerState::Fenced`] where it is lost.
    pub state: WorkerState,
    /// Its clock.
    pub clock: ClockEstimator,
    /// Why it was lost.
    pub lost: Option<String>,
    /// How late it started, beyond the wait for a core.
    pub late: Option<Nanos>,
    session: u64,
    inbox: Inbox<ToCoordinator>,
    outbox: Outbox<ToWorker>,
    /// The newest stamp, and when it came.
    stamp: Time,
    heard_at: Time,
    probe_at: Time,
    /// Probes that were answered.
    probes: u32,
    /// It is this coordinator's: it has taken [`ToWorker::Hello`].
    has_accepted: bool,
    has_prepared: bool,
    has_ended: bool,
}

impl Member {
    fn new(now: Time, session: u64, stamp: Time, facts: WorkerFacts) -> Self {
        Self {
            facts,
            state: WorkerState::Joined,
            clock: ClockEstimator::default(),
            lost: None,
            late: None,
            session,
            inbox: Inbox::new(),
            outbox: Outbox::new(),
            stamp,
            heard_at: now,
            probe_at: now,
            probes: 0,
            has_accepted: false,
            has_prepared: false,
            has_ended: false,
        }
    }

    /// When it was heard last, by the coordinator's clock.
    pub const fn heard_at(&self) -> Time {
        self.heard_at
    }

    const fn is_lost(&self) -> bool {
        self.lost.is_some()
    }

    /// Whether it records a broker's process, and has no part in the load.
    pub const fn records(&self) -> bool {
        self.facts.records.is_some()
    }

    /// Whether a part of its load is missing.
    const fn is_gap(&self) -> bool {
        self.is_lost() && !self.has_ended && !self.records()
    }

    fn reach(&mut self, state: WorkerState) {
        self.state = self.state.max(state);
    }

    fn envelope(&self, epoch: u64, number: u64, body: ToWorker) -> CoordinatorOutput {
        let (session, received, stamp) = (self.session, self.inbox.received(), self.stamp);
        CoordinatorOutput::Send(Envelope { epoch, session, number, received, stamp, body })
    }

    fn tell(&mut self, now: Time, epoch: u64, body: ToWorker, out: &mut Vec<CoordinatorOutput>) {
        let number = self.outbox.push(now, body.clone());
        out.push(self.envelope(epoch, number, body));
    }

    /// An instant of the coordinator's clock by the worker's.
    fn theirs(&self, at: Time) -> Time {
        self.clock.to_worker(at).map_or(Time(0), |it| it.0)
    }

    /// An instant of the worker's clock by the coordinator's.
    fn ours(&self, at: Time, now: Time) -> Time {
        self.clock.to_coordinator(at).map_or(now, |it| it.0)
    }
}

/// The coordinator of one run. Order: [`CoordinatorInput::Close`] when enough have joined; a
/// [`CoordinatorInput::Share`] for each; [`CoordinatorInput::Start`] when each is [`CoordinatorOutput::Ready`] or lost.
/// All else follows by itself.
#[derive(Debug)]
pub struct Coordinator {
    epoch: u64,
    rules: RunRules,
    members: Vec<Member>,
    sessions: HashMap<u64, Session>,
    tick_at: Time,
    /// When something was handled last, and the end and length of the last long time in which nothing was.
    handled_at: Time,
    stood_still: Option<(Time, Nanos)>,
    /// Since when the server was away, and until when; `None`: it still is.
    server_away: Option<(Time, Option<Time>)>,
    /// When a worker was lost by an outage last, and by which.
    outage: Option<(Time, Outage)>,
    /// Until when a load that is prepared waits for workers that record; `None` before a part of it is.
    recorders_until: Option<Time>,
    /// The longest drain of the load.
    drain: Nanos,
    /// When workers have to have reported the end of their loads; `None` while nobody knows when these end.
    reports_by: Option<Time>,
    is_closed: bool,
    is_started: bool,
    is_ending: bool,
    is_released: bool,
    is_finished: bool,
}

/// A session, as the coordinator remembers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Session {
    /// That of the member with this number.
    Member(usize),
    /// It joined, and was no member.
    Ignored,
    /// It was a member.
    Gone,
}

/// Sessions that are remembered at most.
const MOST_SESSIONS: usize = 1 << 16;

impl Coordinator {
    /// A coordinator that waits for workers. `epoch` must be larger than those of all before, such as nanoseconds since
    /// 1970.
    pub fn new(epoch: u64, rules: RunRules) -> Self {
        Self {
            epoch,
            rules,
            members: Vec::new(),
            sessions: HashMap::new(),
            tick_at: Time(0),
            handled_at: Time(u64::MAX),
            stood_still: None,
            server_away: None,
            outage: None,
            recorders_until: None,
            drain: Nanos::ZERO,
            reports_by: None,
            is_closed: false,
            is_started: false,
            is_ending: false,
            is_released: false,
            is_finished: false,
        }
    }

    /// Takes what happened at `now`, which never goes back; tells what to do, in this order.
    pub fn handle(&mut self, now: Time, input: CoordinatorInput) -> Vec<CoordinatorOutput> {
        let mut out = Vec::new();
        let still = now.since(self.handled_at);
        if still >= self.long_silence() {
            self.stood_still = Some((now, still));
        }
        self.handled_at = now;
        match input {
            CoordinatorInput::Message(envelope) => self.message(now, envelope, &mut out),
            CoordinatorInput::Close => self.close(now, &mut out),
            CoordinatorInput::Share(share) => {
                let worker = share.worker as usize;
                self.tell_one(now, worker, WorkerState::Preparing, ToWorker::Share(share), &mut out);
            }
            CoordinatorInput::Start { at, length, drain } => {
                self.is_started = true;
                self.drain = drain;
                self.reports_by = length.map(|it| at + it + self.longest_report());
                self.leave_behind(now, &mut out);
                self.tell_all(now, WorkerState::Armed, |it| ToWorker::Start { at: it.theirs(at) }, &mut out);
            }
            CoordinatorInput::End(at) => self.end(now, at, &mut out),
            CoordinatorInput::News(worker, news) => {
                self.tell_one(now, worker, WorkerState::Joined, ToWorker::News(news), &mut out);
            }
            CoordinatorInput::Stop(abort) => self.stop(now, abort, &mut out),
            CoordinatorInput::ServerAway(true) => self.server_away = Some((now, None)),
            CoordinatorInput::ServerAway(false) => {
                self.server_away = self.server_away.map(|(from, until)| (from, until.or(Some(now))));
            }
            CoordinatorInput::Tick => self.tick(now, &mut out),
        }
        self.follow(now, &mut out);
        out
    }

    /// When to give [`CoordinatorInput::Tick`] at the latest.
    pub fn next_wake(&self) -> Time {
        self.tick_at
    }

    /// The workers of the run, in the order of their numbers; before [`CoordinatorInput::Close`] in that of joining.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Workers for a load that have called and are this run's: one that has not answered yet may be another one's.
    pub fn joined(&self) -> usize {
        self.members.iter().filter(|it| it.has_accepted && !it.records()).count()
    }

    /// Whether its members are those of the run, with numbers by their names.
    pub const fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Workers of whose load a part is missing: the number of each, and why.
    pub fn gaps(&self) -> impl Iterator<Item = (usize, String)> {
        let gaps = self.members.iter().enumerate().filter(|(_, it)| it.is_gap());
        gaps.filter_map(|(worker, it)| Some((worker, it.lost.clone()?)))
    }

    /// Whether no more workers are lost than the run tolerates.
    pub fn goes_on(&self) -> bool {
        self.gaps().count() <= self.rules.tolerate
    }

    /// The last thing that parted the coordinator from workers, which are lost for that reason.
    pub fn outage(&self) -> Option<Outage> {
        self.outage.map(|(_, outage)| outage)
    }

    /// The longest from the end of a load until its worker has reported that.
    fn longest_report(&self) -> Nanos {
        self.drain + REPORT_TIMEOUT
    }

    /// A silence that explains that a worker or the coordinator was not heard for the lease.
    const fn long_silence(&self) -> Nanos {
        Nanos(self.rules.lease.0 / 2)
    }

    /// The outage by which a worker is not heard, if it is one: that of those who were lost just before, too.
    fn outage_at(&self, now: Time) -> Option<Outage> {
        let is_recent = |at: Time| now.since(at) < self.rules.lease;
        if let Some((_, outage)) = self.outage.filter(|(at, _)| is_recent(*at)) {
            return Some(outage);
        }
        if let Some((_, length)) = self.stood_still.filter(|(at, _)| is_recent(*at)) {
            return Some(Outage::Coordinator(length));
        }
        let away = self.server_away.filter(|(_, until)| until.is_none_or(is_recent));
        let away = away.map(|(from, until)| until.unwrap_or(now).since(from));
        if let Some(length) = away.filter(|it| *it >= self.long_silence()) {
            return Some(Outage::Server(length));
        }
        let present = self.members.iter().filter(|it| !it.is_lost() && it.state != WorkerState::Done);
        let silent = present.clone().filter(|it| now.since(it.heard_at) >= self.long_silence()).count();
        (silent > 1 && silent == present.count()).then_some(Outage::All)
    }

    /// Goes on without a worker that is not heard, or did not hear.
    fn lose_unheard(&mut self, now: Time, index: usize, why: String, out: &mut Vec<CoordinatorOutput>) {
        let outage = self.outage_at(now);
        self.outage = outage.map(|it| (now, it)).or(self.outage);
        self.lose(now, index, outage.map_or(why, |it| it.to_string()), out);
    }

    /// Why the run is invalid; valid where empty.
    pub fn flaws(&self) -> Vec<Flaw> {
        let mut flaws = Vec::new();
        if !self.goes_on() {
            flaws.push(Flaw::Lost(self.gaps().collect()));
        }
        for member in self.members.iter().filter(|it| !it.records()) {
            let worker = member.facts.name.clone();
            if let Some(late) = member.late.filter(|it| *it > self.rules.late) {
                flaws.push(Flaw::Late { worker: worker.clone(), late });
            }
            if member.clock.has_moved() {
                flaws.push(Flaw::ClockMoved(worker));
            }
        }
        flaws
    }

    fn tell_one(
        &mut self,
        now: Time,
        worker: usize,
        state: WorkerState,
        order: ToWorker,
        out: &mut Vec<CoordinatorOutput>,
    ) {
        if let Some(member) = self.members.get_mut(worker).filter(|it| !it.is_lost()) {
            member.reach(state);
            member.tell(now, self.epoch, order, out);
        }
    }

    /// Gives an order to all that are not lost.
    fn tell_all(
        &mut self,
        now: Time,
        state: WorkerState,
        order: impl Fn(&Member) -> ToWorker,
        out: &mut Vec<CoordinatorOutput>,
    ) {
        for member in self.members.iter_mut().filter(|it| !it.is_lost()) {
            member.reach(state);
            let order = order(member);
            member.tell(now, self.epoch, order, out);
        }
    }

    fn end(&mut self, now: Time, at: Time, out: &mut Vec<CoordinatorOutput>) {
        if !self.is_ending {
            self.is_ending = true;
            self.reports_by = Some(at + self.longest_report());
            self.tell_all(now, WorkerState::Draining, |it| ToWorker::End { at: it.theirs(at) }, out);
        }
    }

    fn stop(&mut self, now: Time, abort: bool, out: &mut Vec<CoordinatorOutput>) {
        let by = now + self.longest_report();
        self.reports_by = Some(self.reports_by.map_or(by, |it| it.min(by)));
        self.tell_all(now, WorkerState::Joined, |_| ToWorker::Stop { abort }, out);
    }

    /// Numbers the members by their names, and goes on without those that have not answered.
    fn close(&mut self, now: Time, out: &mut Vec<CoordinatorOutput>) {
        for index in (0..self.members.len()).rev() {
            if self.members.get(index).is_some_and(|it| !it.has_accepted) {
                self.lose(now, index, "it had not answered when the run began".to_owned(), out);
            }
        }
        self.is_closed = true;
        self.members.sort_by(|a, b| (a.records(), &a.facts.name).cmp(&(b.records(), &b.facts.name)));
        self.index();
    }

    fn index(&mut self) {
        for (index, member) in self.members.iter().enumerate() {
            self.sessions.insert(member.session, Session::Member(index));
        }
    }

    fn message(&mut self, now: Time, envelope: Envelope<ToCoordinator>, out: &mut Vec<CoordinatorOutput>) {
        let Envelope { epoch, session, number, received, stamp, body } = envelope;
        let known = self.sessions.get(&session).copied();
        match (body, known) {
            (ToCoordinator::Join(facts), None | Some(Session::Ignored)) if epoch == 0 => {
                self.join(now, session, stamp, facts, out);
            }
            (body, Some(Session::Member(index))) if epoch == self.epoch => {
                let Some(member) = self.members.get_mut(index) else { return };
                if member.is_lost() {
                    out.push(member.envelope(self.epoch, 0, ToWorker::Fence { why: GOES_ON.to_owned() }));
                    return;
                }
                if stamp > member.stamp {
                    (member.stamp, member.heard_at) = (stamp, now);
                }
                member.has_accepted |= received > 0;
                member.outbox.acknowledge(received);
                let bodies = if number == 0 { vec![body] } else { member.inbox.take(number, body) };
                for body in bodies {
                    if self.sessions.get(&session) == Some(&Session::Member(index)) {
                        self.hear(now, index, body, out);
                    }
                }
                self.acknowledge_leaving(now, index, out);
            }
            (_, Some(Session::Gone)) if epoch == self.epoch || epoch == 0 => {
                let (epoch, body) = (self.epoch, ToWorker::Fence { why: GOES_ON.to_owned() });
                let envelope = Envelope { epoch, session, number: 0, received: 0, stamp: Time(0), body };
                out.push(CoordinatorOutput::Send(envelope));
            }
            _ => {}
        }
    }

    /// Takes a worker that calls.
    fn join(&mut self, now: Time, session: u64, stamp: Time, facts: WorkerFacts, out: &mut Vec<CoordinatorOutput>) {
        if self.sessions.len() >= MOST_SESSIONS {
            return;
        }
        let is_lost = |it: &Member| it.is_lost() && it.facts.name == facts.name;
        let why = if self.is_closed && self.members.iter().any(is_lost) {
            GOES_ON
        } else if self.is_closed {
            "the run has its workers"
        } else if self.members.iter().any(|it| it.facts.name == facts.name) {
            "another worker has this name: give it another one with --name"
        } else {
            let mut member = Member::new(now, session, stamp, facts);
            let hello = ToWorker::Hello { run: self.rules.run.clone(), lease: self.rules.lease };
            member.tell(now, self.epoch, hello, out);
            self.sessions.insert(session, Session::Member(self.members.len()));
            self.members.push(member);
            return;
        };
        if self.sessions.insert(session, Session::Ignored).is_none() {
            out.push(CoordinatorOutput::Ignored(facts.name, why.to_owned()));
        }
    }

    /// Takes what a member says.
    fn hear(&mut self, now: Time, index: usize, body: ToCoordinator, out: &mut Vec<CoordinatorOutput>) {
        let Some(member) = self.members.get_mut(index) else { return };
        match body {
            ToCoordinator::Echo { sent, received, replied } => {
                let times = ProbeTimes { sent, received, replied, returned: now };
                if member.clock.probe(times) {
                    member.probes = member.probes.saturating_add(1);
                    self.report_ready(now, index, out);
                }
            }
            ToCoordinator::Ready => {
                member.has_prepared = true;
                self.report_ready(now, index, out);
            }
            ToCoordinator::Started { at, late } => {
                member.reach(WorkerState::Running);
                member.late = Some(late);
                out.push(CoordinatorOutput::Started { worker: index, at: member.ours(at, now), late });
            }
            // Who has joined has no share of the load yet, and no number.
            ToCoordinator::Slice(_)
            | ToCoordinator::Censored(_)
            | ToCoordinator::Event(_)
            | ToCoordinator::Ledger(_)
            | ToCoordinator::LoadEnded { .. }
            | ToCoordinator::Ended(_)
                if !self.is_closed => {}
            ToCoordinator::Ended(outcome) if !outcome.is_possible() => {
                self.lose(now, index, "its counts cannot be those of a load".to_owned(), out);
            }
            ToCoordinator::Slice(slice) => out.push(CoordinatorOutput::Slice(index, slice)),
            ToCoordinator::Censored(slice) => out.push(CoordinatorOutput::Censored(index, slice)),
            ToCoordinator::Event(event) => out.push(CoordinatorOutput::Event(index, event)),
            ToCoordinator::Ledger(piece) => out.push(CoordinatorOutput::Ledger(index, piece)),
            ToCoordinator::LoadEnded { at } => {
                member.reach(WorkerState::Draining);
                out.push(CoordinatorOutput::LoadEnded(index, member.ours(at, now)));
            }
            ToCoordinator::Ended(outcome) => {
                member.reach(WorkerState::Draining);
                member.has_ended = true;
                // Its event loops know best.
                let late = outcome.threads.iter().map(|it| it.start_lateness).max();
                member.late = late.or(member.late);
                out.push(CoordinatorOutput::Ended(index, outcome));
            }
            ToCoordinator::Left => member.state = WorkerState::Done,
            ToCoordinator::Refused { why } => self.lose(now, index, why, out),
            ToCoordinator::Heartbeat { state: WorkerState::Fenced } => {
                self.lose_unheard(now, index, "it stopped by itself: it had not heard the coordinator".to_owned(), out);
            }
            ToCoordinator::Join(_) | ToCoordinator::Status { .. } | ToCoordinator::Heartbeat { .. } => {}
        }
    }

    /// Who has left is probed no more, and still has to know that this was heard.
    fn acknowledge_leaving(&self, now: Time, index: usize, out: &mut Vec<CoordinatorOutput>) {
        let member = self.members.get(index).filter(|it| it.state == WorkerState::Done);
        out.extend(member.map(|it| it.envelope(self.epoch, 0, ToWorker::Probe { sent: now })));
    }

    /// A part of the load is ready when those who record are, too, or have had their time.
    fn report_ready(&mut self, now: Time, index: usize, out: &mut Vec<CoordinatorOutput>) {
        let Some(member) = self.members.get(index).filter(|it| !it.is_lost()) else { return };
        if !member.has_prepared || member.probes < self.rules.probes || member.state >= WorkerState::Ready {
            return;
        }
        if !member.records() {
            let until = *self.recorders_until.get_or_insert(now + RECORDERS_TIMEOUT);
            let is_awaited = |it: &Member| it.records() && !it.is_lost() && it.state < WorkerState::Ready;
            if now < until && self.members.iter().any(is_awaited) {
                return;
            }
        }
        if let Some(member) = self.members.get_mut(index) {
            member.state = WorkerState::Ready;
            out.push(CoordinatorOutput::Ready(index));
        }
    }

    /// Starts without workers that record and are not ready.
    fn leave_behind(&mut self, now: Time, out: &mut Vec<CoordinatorOutput>) {
        let members = self.members.iter().enumerate();
        let is_late = |it: &Member| it.records() && it.state < WorkerState::Ready;
        let late: Vec<usize> = members.filter(|(_, it)| is_late(it)).map(|(index, _)| index).collect();
        for index in late {
            self.lose(now, index, "it was not ready when the load began".to_owned(), out);
        }
    }

    /// Goes on without a worker.
    fn lose(&mut self, now: Time, index: usize, why: String, out: &mut Vec<CoordinatorOutput>) {
        let Some(member) = self.members.get_mut(index).filter(|it| !it.is_lost()) else { return };
        out.push(member.envelope(self.epoch, 0, ToWorker::Fence { why: why.clone() }));
        if !self.is_closed {
            // Nothing has begun: another one with its name may join.
            self.sessions.insert(member.session, Session::Gone);
            self.members.remove(index);
            self.index();
            return;
        }
        member.state = WorkerState::Fenced;
        member.lost = Some(why.clone());
        out.push(CoordinatorOutput::Lost(index, why));
        if !self.goes_on() {
            match self.is_started {
                true => self.end(now, now, out),
                false => self.stop(now, true, out),
            }
        }
    }

    /// Sends what is due to all, and finds who is silent.
    fn tick(&mut self, now: Time, out: &mut Vec<CoordinatorOutput>) {
        self.tick_at = now + TICK;
        let mut silent = Vec::new();
        for (index, member) in self.members.iter_mut().enumerate() {
            if member.is_lost() || member.state == WorkerState::Done {
                continue;
            }
            if now.since(member.heard_at) >= self.rules.lease {
                silent.push(index);
                continue;
            }
            for (number, order) in member.outbox.resend(now) {
                out.push(member.envelope(self.epoch, number, order));
            }
            if now >= member.probe_at {
                member.probe_at = now + if member.probes < self.rules.probes { FIRST_PROBES } else { PROBE };
                out.push(member.envelope(self.epoch, 0, ToWorker::Probe { sent: now }));
            }
        }
        for index in silent.into_iter().rev() {
            self.lose_unheard(now, index, format!("it was silent for {}", self.rules.lease), out);
        }
        self.lose_unreported(now, out);
        if self.recorders_until.is_some() && !self.is_started {
            (0..self.members.len()).for_each(|index| self.report_ready(now, index, out));
        }
    }

    /// Goes on without workers that live, and do not come to an end: all others would wait for them.
    fn lose_unreported(&mut self, now: Time, out: &mut Vec<CoordinatorOutput>) {
        // What came while this process stood still is heard first.
        let has_run = self.stood_still.is_none_or(|(at, _)| now.since(at) >= self.rules.lease);
        if !has_run || self.reports_by.is_none_or(|by| now < by) {
            return;
        }
        for index in 0..self.members.len() {
            let is_awaited = |it: &Member| !it.has_ended && !it.records() && it.state != WorkerState::Done;
            if self.members.get(index).is_some_and(is_awaited) {
                let why = format!("it did not report its end within {} of that of the load", self.longest_report());
                self.lose(now, index, why, out);
            }
        }
    }

    /// Does what is due when all are as far.
    fn follow(&mut self, now: Time, out: &mut Vec<CoordinatorOutput>) {
        let all = |is: fn(&Member) -> bool| self.members.iter().all(|it| it.is_lost() || is(it));
        if !self.is_closed || self.is_finished {
            return;
        }
        if all(|it| it.state == WorkerState::Done) {
            self.is_finished = true;
            out.push(CoordinatorOutput::Finished);
        } else if !self.is_released && all(|it| it.has_ended || it.records()) {
            self.is_released = true;
            self.tell_all(now, WorkerState::Joined, |_| ToWorker::Release, out);
        }
    }
}
