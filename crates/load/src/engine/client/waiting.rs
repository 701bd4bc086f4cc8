//! Reasons why producers wait, and idle time of event loops: the evidence for who limits a run. All of it comes from
//! the clock readings that the loop takes anyway. Then a client's silence: nothing is heard of messages in flight.

use std::sync::mpsc::SyncSender;

use measure::{Nanos, Time, Wait};

use super::{Client, ConnectionState};
use crate::engine::context::{Context, Tally};
use crate::engine::producer::{Producer, SendState};
use crate::engine::shared::{Reason, Report, Shared};
use crate::engine::silence::SHORTEST;
use crate::protocol::Connection;
use crate::report::{Censored, Silence};
use crate::{Environment, RunEvent};

/// Who has no credit for so long is blocked. Many brokers, as RabbitMQ at a memory alarm, say nothing else.
const BLOCKED: Nanos = Nanos::from_millis(1_000);
/// Messages that leave later than this count as late; waking up takes a part of that always.
const LATE: Nanos = Nanos::from_millis(1);

impl<C: Connection, E: Environment> Client<C, E> {
    /// Notes what the time since the last call went into, and what the next will go into.
    #[inline]
    pub(super) fn account(&mut self, send_state: SendState, context: &mut Context<'_, E>) {
        let Some((wait, since)) = self.waits.waiting else { return };
        let now = context.tally.last_now;
        self.note(wait, since, context);
        self.waits.waiting = Some((self.waits_for(send_state), now.max(since)));
        self.follow_credit(context);
        self.waits.due = match send_state {
            SendState::Until(due) => Some(due),
            _ => None,
        };
    }

    /// Brings the account up to date, so that a long wait shows in every second of it.
    pub(crate) fn account_so_far(&mut self, context: &mut Context<'_, E>) {
        if let Some((wait, since)) = self.waits.waiting {
            let now = context.tally.last_now;
            self.note(wait, since, context);
            let wait = if self.state == ConnectionState::Broken { Wait::Away } else { wait };
            self.waits.waiting = Some((wait, now.max(since)));
            self.follow_credit(context);
        }
    }

    /// Tells that the broker has given no credit for [`BLOCKED`], as brokers do that block their publishers.
    #[inline]
    fn follow_credit(&mut self, context: &mut Context<'_, E>) {
        if !matches!(self.waits.waiting, Some((Wait::Credit, _))) {
            self.waits.without_credit = None;
            return;
        }
        let now = context.tally.last_now;
        let (since, is_told) = self.waits.without_credit.get_or_insert((now, false));
        if !*is_told && now.since(*since) >= BLOCKED {
            *is_told = true;
            let reason = Reason::from("it gave no credit for 1 s and longer").unwrap_or_default();
            context.tell(Report::Blocked { at: *since, reason });
        }
    }

    /// Messages were sent: there was credit.
    #[inline]
    pub(super) fn had_credit(&mut self, context: &mut Context<'_, E>) {
        if let Some((_, true)) = self.waits.without_credit.take() {
            let at = context.tally.last_now;
            context.tell(Report::Event(RunEvent::Unblocked { at }));
        }
    }

    /// A message that the event loop is late for waited for the schedule until due, from then on for the loop.
    #[inline]
    fn note(&self, wait: Wait, since: Time, context: &mut Context<'_, E>) {
        let now = context.tally.last_now;
        let waits = &mut context.series.current().waits;
        match self.waits.due {
            Some(due) if wait == Wait::Schedule && now > due + LATE => {
                waits.note(Wait::Schedule, due.since(since));
                waits.note(Wait::Ready, now.since(due.max(since)));
            }
            _ => waits.note(wait, now.since(since)),
        }
    }

    fn waits_for(&self, send_state: SendState) -> Wait {
        match (self.state, send_state) {
            (ConnectionState::Running, _) if self.withheld => Wait::Blocked,
            (ConnectionState::Running, SendState::Full) => Wait::Budget,
            (ConnectionState::Running, SendState::NoCredit) => Wait::Credit,
            (ConnectionState::Running, _) if !self.driver.is_clear() => Wait::Socket,
            (ConnectionState::Running, SendState::More) => Wait::Ready,
            (ConnectionState::Running, SendState::Until(_) | SendState::Idle) => Wait::Schedule,
            _ => Wait::Away,
        }
    }
}

/// At the end of the run, tells of the silences that last, and of what has no answer and never will.
pub(crate) fn end_silences<C: Connection, E: Environment>(
    clients: &mut [Client<C, E>],
    shared: &Shared,
    reports: &SyncSender<Report>,
    tally: &mut Tally,
) {
    let boundaries = shared.boundaries();
    let mut censored = Censored::new(boundaries.measure_at, boundaries.end_at);
    let all = clients.len();
    tally.silences.note_away(false, tally.last_now, all);
    for client in clients {
        client.end_silence(boundaries.drain_at, tally);
        let end = boundaries.end_at;
        // Who could send, and did not any more, had waited for the broker until then.
        let free = match client.state {
            ConnectionState::Running if !client.withheld => client.waits.resumed.unwrap_or_default(),
            _ => end,
        };
        client.producers_mut().for_each(|producer| {
            producer.censor(boundaries.drain_at, free, end, &mut censored);
        });
    }
    tally.tell_silences(true, reports);
    if !censored.is_empty() {
        let _ = reports.send(Report::Censored(Box::new(censored)));
    }
}

impl<C: Connection, E: Environment> Client<C, E> {
    /// The time until now in which this client has heard nothing with messages in flight, where worth telling.
    #[inline]
    pub(super) fn silence(&self, now: Time) -> Option<Silence> {
        if now.since(self.waits.heard) < SHORTEST { None } else { self.long_silence(now) }
    }

    #[cold]
    fn long_silence(&self, now: Time) -> Option<Silence> {
        if self.state != ConnectionState::Running {
            return None;
        }
        let before = Time(self.waits.heard.0.saturating_sub(SHORTEST.0));
        let waiting = || self.producers().map(|it| it.waiting(before));
        let oldest = waiting().filter_map(|(_, oldest)| oldest).min()?;
        let from = self.waits.heard.max(oldest);
        (now.since(from) >= SHORTEST).then(|| Silence {
            from,
            until: now,
            connections: 1,
            in_flight: waiting().map(|(count, _)| count).sum(),
            ..Silence::default()
        })
    }

    /// When the oldest message was sent that was answered since the last call.
    pub(super) fn take_oldest_answered(&mut self) -> Option<Time> {
        self.producers_mut().filter_map(Producer::take_oldest_answered).min()
    }

    /// Its silence ends: since the first of those was sent that are answered. The others may hang.
    #[cold]
    pub(super) fn answered_after(&mut self, silence: Silence, context: &mut Context<'_, E>) {
        let until = self.waits.heard;
        let oldest = self.take_oldest_answered().filter(|it| *it <= until);
        let from = oldest.map_or(silence.from, |oldest| silence.from.max(oldest));
        if until.since(from) >= SHORTEST {
            let drain_at = context.shared.boundaries().drain_at;
            let silence = Silence { from, until, ..silence };
            self.tell_silence(silence, drain_at, context.tally);
        }
    }

    /// Its silence ends because its connection does, or the run.
    pub(crate) fn end_silence(&self, drain_at: Time, tally: &mut Tally) {
        let in_flight: u64 = self.producers().map(Producer::in_flight).sum();
        // One alone that has no answer hangs where others do.
        let is_shown = |it: &Silence| it.in_flight > 1 || in_flight == it.in_flight;
        if let Some(silence) = self.silence(tally.last_now).filter(is_shown) {
            self.tell_silence(silence, drain_at, tally);
        }
    }

    #[cold]
    fn tell_silence(&self, silence: Silence, drain_at: Time, tally: &mut Tally) {
        let unsent = self.unsent(silence.from, silence.until.min(drain_at));
        let others = tally.others_answered(&silence);
        let silence = Silence { unsent, ..silence };
        tally.silences.end_beside(silence, others);
    }

    /// Messages that became due between two instants and were not sent.
    pub(crate) fn unsent(&self, from: Time, until: Time) -> u64 {
        self.producers().map(|producer| producer.unsent(from, until)).sum()
    }
}
