//! Reasons why producers wait, and idle time of event loops: the evidence for who limits a run. All of it comes from
//! the clock readings that the loop takes anyway.

use measure::{Nanos, Time, Wait};

use super::{Client, ConnectionState};
use crate::engine::context::Context;
use crate::engine::producer::SendState;
use crate::engine::report::{Reason, Report};
use crate::protocol::Connection;
use crate::{Environment, RunEvent};

/// Who has no credit for so long is blocked. Many brokers, as RabbitMQ at a memory alarm, say nothing else.
const BLOCKED: Nanos = Nanos::from_millis(1_000);
/// Messages that leave later than this count as late; waking up takes a part of that always.
const LATE: Nanos = Nanos::from_millis(1);

impl<C: Connection, E: Environment> Client<C, E> {
    /// Notes what the time since the last call went into, and what the next will go into.
    #[inline]
    pub(super) fn account(&mut self, send_state: SendState, context: &mut Context<'_, E>) {
        let Some((wait, since)) = self.waiting else {
            return;
        };
        let now = context.tally.last_now;
        self.note(wait, since, context);
        self.waiting = Some((self.waits_for(send_state), now.max(since)));
        self.follow_credit(context);
        self.due = match send_state {
            SendState::Until(due) => Some(due),
            _ => None,
        };
    }

    /// Brings the account up to date, so that a long wait shows in every second of it.
    pub(crate) fn account_so_far(&mut self, context: &mut Context<'_, E>) {
        if let Some((wait, since)) = self.waiting {
            let now = context.tally.last_now;
            self.note(wait, since, context);
            let wait = if self.state == ConnectionState::Broken {
                Wait::Away
            } else {
                wait
            };
            self.waiting = Some((wait, now.max(since)));
            self.follow_credit(context);
        }
    }

    /// Tells that the broker has given no credit for [`BLOCKED`], as brokers do that block their publishers.
    #[inline]
    fn follow_credit(&mut self, context: &mut Context<'_, E>) {
        if matches!(self.waiting, Some((Wait::Credit, _))) {
            self.waits_for_credit(context);
        } else {
            self.without_credit = None;
        }
    }

    fn waits_for_credit(&mut self, context: &mut Context<'_, E>) {
        let now = context.tally.last_now;
        let (since, is_told) = self.without_credit.get_or_insert((now, false));
        if !*is_told && now.since(*since) >= BLOCKED {
            *is_told = true;
            let reason = Reason::from("it gave no credit for 1 s and longer").unwrap_or_default();
            context.tell(Report::Blocked { at: *since, reason });
        }
    }

    /// Messages were sent: there was credit.
    #[inline]
    pub(super) fn had_credit(&mut self, context: &mut Context<'_, E>) {
        if let Some((_, true)) = self.without_credit.take() {
            let at = context.tally.last_now;
            context.tell(Report::Event(RunEvent::Unblocked { at }));
        }
    }

    /// A message that the event loop comes to late waited for the schedule until it was due, and for
    /// the event loop from then on.
    #[inline]
    fn note(&self, wait: Wait, since: Time, context: &mut Context<'_, E>) {
        let now = context.tally.last_now;
        let waits = &mut context.series.current().waits;
        match self.due {
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
            (ConnectionState::Running, _) if !self.may_write() => Wait::Socket,
            (ConnectionState::Running, SendState::More) => Wait::Ready,
            (ConnectionState::Running, SendState::Until(_) | SendState::Idle) => Wait::Schedule,
            _ => Wait::Away,
        }
    }
}
