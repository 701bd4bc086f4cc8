//! The end of a load: waits for what is in flight, and finds out what the broker may still hold. Where everything seems
//! to have come, all loops hand in their part of the ledger, which may be complete. Where nothing comes any more, or at
//! the deadline, queues are asked for their counts, and then every consumer's channel for an answer: can anything come?

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::TryRecvError;
use std::time::Duration;

use measure::{Nanos, Phase, Time};

use super::{Coordinator, LEAD_TIME, POLL_INTERVAL};
use crate::control::{CLOSING, Interruption, StopRequest};
use crate::engine::recipients::{self, Found, Inquiry};
use crate::engine::shared::{Activity, CATCH_UP};
use crate::protocol::{Admin, Connection};
use crate::{Control, DestinationKind, Environment, Error, Group, Plan, RunEvent, ShareProgress, StopCondition, Task};

/// When nothing has come for this long, the queues are asked whether anything can, …
const QUIET: Nanos = Nanos(2_000_000_000);
/// … and again this long after they have said yes.
const ASK_AGAIN: Nanos = Nanos(1_000_000_000);
/// The longest that questions may take, at the end beyond the drain's deadline.
const ASKING: Nanos = Nanos(1_000_000_000);
/// The longest that clients stay connected for [`crate::Control::hold`].
const HOLDING: Nanos = Nanos(2_000_000_000);
/// The longest that event loops may take to hand in their parts of the ledger.
const HANDING_IN: Nanos = Nanos(500_000_000);

/// How far a drain has got.
#[derive(Clone, Copy, Debug)]
struct Drain {
    deadline: Time,
    /// Every loop has caught up, and a turn of it has passed.
    all_is_sent_at: Time,
    last_change: Time,
    last: ShareProgress,
    /// Where things stood when the ledger was last looked into.
    looked_at: Option<ShareProgress>,
    ask_at: Time,
    /// Somebody has stopped the load, before the drain or in it.
    is_stopped: bool,
    /// Nothing is missing, or nothing more can come.
    is_complete: bool,
    /// In the drain: it does not ask what did not come by the deadline.
    is_cut_short: bool,
}

impl<C: Connection, E: Environment> Coordinator<'_, C, E> {
    /// Waits until every message is accounted for, or until the deadline; the instant after which nothing counts.
    pub(super) fn drain(&mut self, drain_at: Time) -> Result<Time, Error> {
        self.sink.event(RunEvent::PhaseStarted { phase: Phase::Drain, at: drain_at });
        let planned = drain_at + self.plan.phases.drain;
        if ends_at_pause(self.plan) {
            let for_what = format!("the selector's last deliveries, until none has come for {QUIET}");
            self.sink.event(RunEvent::Waiting { for_what, at_most: self.plan.phases.drain });
        }
        let mut drain = Drain {
            deadline: planned,
            all_is_sent_at: drain_at + CATCH_UP + LEAD_TIME,
            is_complete: false,
            // Nothing changes before the last loop has caught up.
            last_change: drain_at + CATCH_UP,
            last: ShareProgress::default(),
            looked_at: None,
            ask_at: Time(0),
            is_stopped: self.control.is_stopping(),
            is_cut_short: false,
        };
        while !self.is_drained(&mut drain)? {
            self.receive(POLL_INTERVAL / 4)?;
        }
        self.state.drain_cut = self.is_cut(&drain, planned);
        let hold_until = drain.deadline.min(drain_at + HOLDING);
        while self.control.is_held() && self.environment.now() < hold_until && !self.ends_at_once() {
            self.receive(POLL_INTERVAL / 4)?;
        }
        let end_at = self.environment.now() + LEAD_TIME;
        self.shared.end_at(end_at);
        self.wake();
        Ok(end_at)
    }

    fn is_drained(&mut self, drain: &mut Drain) -> Result<bool, Error> {
        let (now, own) = (self.environment.now(), self.progress());
        if self.ends_at_once() {
            return Ok(true);
        }
        // What is told before may be less than is sent in the end.
        let all = if now > drain.all_is_sent_at { self.of_all(own) } else { None };
        let totals = all.unwrap_or(own);
        self.cut_short(drain, totals, now);
        if totals != drain.last {
            // Not before the time until which loops may catch up: they may be about to send.
            (drain.last, drain.last_change) = (totals, now.max(drain.last_change));
        }
        let is_confirmed = totals.open == 0;
        // One turn of every loop after the end of sending, so that what it sent is known.
        let is_still = now > drain.last_change + LEAD_TIME;
        // Whoever has stopped the load does not wait for a broker that hangs.
        let is_quiet = now.since(drain.last_change) >= QUIET;
        let is_late = now >= drain.deadline || (drain.is_stopped && is_quiet && !is_confirmed);
        let may_be_complete = is_confirmed && is_still && drain.looked_at != Some(totals);
        if (may_be_complete || is_late) && self.is_complete(totals)? {
            drain.is_complete = is_confirmed;
            return Ok(is_confirmed || is_late);
        }
        drain.looked_at = Some(totals).filter(|_| may_be_complete).or(drain.looked_at);
        if is_late && (drain.is_cut_short || !is_confirmed) {
            // Whatever the queues hold now, there may be more of it.
            self.found = Found::default();
            return Ok(true);
        }
        let asks = is_late || (is_confirmed && is_quiet && now >= drain.ask_at);
        if !asks {
            return Ok(false);
        }
        let found = self.ask()?;
        let is_over = self.shared.nothing_is_left(found.fence);
        let is_unchanged = ShareProgress { delivered: own.delivered, ..self.progress() } == own;
        let nothing_comes = is_over && is_unchanged && found.nothing_is_held(&self.recipients);
        // ActiveMQ Artemis answers no fence.
        let has_paused = is_unchanged && ends_at_pause(self.plan) && self.shared.activity().undone == 0;
        self.found = found;
        drain.ask_at = self.environment.now() + ASK_AGAIN;
        drain.is_complete = nothing_comes || has_paused;
        Ok(is_late || drain.is_complete)
    }

    /// Whether somebody has ended it before its `planned` end, and what it awaited may have been about to come. That of
    /// a load which was stopped before is as long as it may be.
    fn is_cut(&self, drain: &Drain, planned: Time) -> bool {
        let is_early = self.environment.now() < planned && self.state.error.is_none();
        self.control.is_stopping() && !self.state.is_stopped && is_early && !drain.is_complete
    }

    /// Leaves a drain that somebody stops little time.
    fn cut_short(&mut self, drain: &mut Drain, totals: ShareProgress, now: Time) {
        if drain.is_stopped || !self.control.is_stopping() {
            return;
        }
        (drain.is_stopped, drain.is_cut_short) = (true, true);
        drain.deadline = drain.deadline.min(now + CLOSING);
        let missing = totals.expected.saturating_sub(totals.received);
        let for_what = match totals.open {
            0 if !self.knows_expected => "deliveries".to_owned(),
            0 => format!("deliveries ({missing} missing)"),
            open => format!("answers to messages ({open} missing)"),
        };
        self.sink.event(RunEvent::Waiting { for_what, at_most: drain.deadline.since(now) });
    }

    fn ends_at_once(&self) -> bool {
        self.state.error.is_some() || self.control.request() == StopRequest::Abort
    }

    /// How far this load is, or this worker's share of it.
    fn progress(&self) -> ShareProgress {
        let totals = self.shared.totals();
        // Without a ledger nobody knows which ones came twice, or where they were not expected.
        let delivered = if self.collector.is_some() { self.state.delivered } else { totals.certain() };
        ShareProgress { open: totals.open, expected: totals.expected, received: totals.received, delivered }
    }

    /// How far all are whose messages come here, or go from here; `None` while another worker has not told.
    fn of_all(&self, own: ShareProgress) -> Option<ShareProgress> {
        let Some(share) = self.plan.share.filter(|_| self.plan.is_spread()) else { return Some(own) };
        self.together.tell_progress(share.worker, Some(own));
        Some(self.together.others_progress(share.worker)?.plus(own))
    }

    /// Whether every message that consumers should get has come, or will not because the broker has said so.
    fn is_complete(&mut self, totals: ShareProgress) -> Result<bool, Error> {
        if self.recipients.iter().all(|it| it.wants_no_more()) {
            return Ok(true);
        }
        if !self.knows_expected || totals.received < totals.expected {
            return Ok(false);
        }
        if self.collector.is_none() {
            let all = self.of_all(self.progress());
            return Ok(all.is_some_and(|all| all.delivered >= all.expected));
        }
        let request = self.shared.request_ledger();
        self.wake();
        let limit = self.environment.now() + HANDING_IN;
        while !self.shared.all_handed_in(request) {
            if self.environment.now() >= limit || self.ends_at_once() {
                return Ok(false);
            }
            self.receive(Duration::from_millis(1))?;
        }
        self.receive_all()?;
        if let Some(part) = self.collector.as_ref().filter(|it| it.is_part) {
            self.state.delivered = part.ledger.delivered();
            let all = self.of_all(self.progress());
            return Ok(all.is_some_and(|all| all.delivered >= all.expected));
        }
        let collector = self.collector.as_mut();
        Ok(collector.is_none_or(|collector| collector.is_complete(totals.expected)))
    }

    fn receive_all(&mut self) -> Result<(), Error> {
        loop {
            match self.reports.try_recv() {
                Ok(report) => self.take(report),
                Err(TryRecvError::Empty) => return Ok(()),
                Err(TryRecvError::Disconnected) => return self.join(),
            }
        }
    }

    /// Asks the queues how much they hold, and then every consumer's channel for an answer.
    fn ask(&mut self) -> Result<Found, Error> {
        let mut found = Found::new(self.recipients.len());
        let limit = self.environment.now() + ASKING;
        let inquiry = Inquiry::begin::<C, E>(self.environment, self.plan, &self.recipients, ASKING)?;
        while !inquiry.take(&mut found) && self.environment.now() < limit && !self.ends_at_once() {
            self.receive(POLL_INTERVAL / 4)?;
        }
        found.fence = self.shared.put_up_fence();
        self.wake();
        while !self.shared.all_settled(found.fence) && self.environment.now() < limit && !self.ends_at_once() {
            self.receive(POLL_INTERVAL / 10)?;
        }
        Ok(found)
    }
}

/// Whether a drain ends where deliveries pause, as no queue counts those that a selector leaves out. Consumers that
/// begin late, or ask at intervals, get none for longer.
fn ends_at_pause(plan: &Plan) -> bool {
    let is_steady = |group: &Group| group.consumers.poll.is_none() && group.consumers.start_after.0 == Nanos::ZERO;
    plan.has_selectors() && plan.groups.iter().all(is_steady)
}

/// Without a delivery for this long, consumers are idle.
const IDLE: Nanos = Nanos(1_000_000_000);
/// How long after an answer queues are asked again what is in them.
const PROBE_AGAIN: Nanos = Nanos(500_000_000);

/// Watches for the end.
pub(super) struct StopWatcher<E: Environment> {
    taken: u64,
    since: Time,
    /// Beside the consumers' being idle.
    empty: Option<QueueProbe<E>>,
}

/// Asks the queues beside the coordinator, because a broker under load takes its time to answer.
struct QueueProbe<E: Environment> {
    environment: E,
    all_empty: Arc<AtomicBool>,
    control: Control,
    plan: Arc<Plan>,
    task: Option<E::Task>,
    ask_at: Time,
}

impl<E: Environment> StopWatcher<E> {
    pub(super) fn new(environment: &E, plan: &Plan, start: Time) -> Option<Self> {
        let condition = plan.stop?;
        // Only their consumers can look into exclusive queues: those who get nothing more.
        let asks = condition == StopCondition::Empty && !plan.groups.iter().any(Group::has_exclusive);
        Some(Self {
            taken: 0,
            since: start,
            empty: asks.then(|| QueueProbe {
                environment: environment.clone(),
                all_empty: Arc::new(AtomicBool::new(false)),
                control: Control::new(),
                plan: Arc::new(plan.clone()),
                task: None,
                ask_at: start + PROBE_AGAIN,
            }),
        })
    }

    /// Whether it has come. Who works on a delivery, or has one to work on, is not idle.
    pub(super) fn has_come<C: Connection>(&mut self, activity: Activity, now: Time) -> bool {
        if self.taken != activity.taken || activity.undone > 0 {
            (self.taken, self.since) = (activity.taken, now);
        }
        let is_empty = self.empty.as_mut().is_none_or(|probe| probe.finds_nothing::<C>(now));
        is_empty && now.since(self.since) >= IDLE
    }
}

impl<E: Environment> QueueProbe<E> {
    /// Whether the last answers said that all queues are empty; asks again when it is time.
    fn finds_nothing<C: Connection>(&mut self, now: Time) -> bool {
        if self.task.as_ref().is_some_and(Task::is_finished) {
            (self.task, self.ask_at) = (None, now + PROBE_AGAIN);
        }
        if self.task.is_none() && now >= self.ask_at {
            let (environment, plan) = (self.environment.clone(), Arc::clone(&self.plan));
            let (answer, stop) = (Arc::clone(&self.all_empty), self.control.clone());
            let ask = move || {
                // A broker that does not answer now may do so the next time.
                let empty = are_all_empty::<C, E>(&environment, &plan, &stop).unwrap_or(false);
                answer.store(empty, Ordering::Relaxed);
            };
            // Where the machine has no thread to give now, they are asked later.
            self.task = self.environment.run_beside("ask queues", ask).ok();
            self.ask_at = now + PROBE_AGAIN;
        }
        self.all_empty.load(Ordering::Relaxed)
    }
}

impl<E: Environment> Drop for QueueProbe<E> {
    fn drop(&mut self) {
        self.control.abort();
        if let Some(task) = self.task.take() {
            task.join();
        }
    }
}

fn are_all_empty<C: Connection, E: Environment>(
    environment: &E,
    plan: &Plan,
    control: &Control,
) -> Result<bool, Interruption> {
    for group in &plan.groups {
        let subscription = group.consumers.subscription.as_ref();
        // A subscription that does not last goes with its consumers, and with what it held.
        let lasts = subscription.is_none_or(|it| it.durable);
        let queues = group.consumed_destinations().filter(|(_, d)| d.kind == DestinationKind::Queue);
        let queues = queues.map(|(_, queue)| (queue.name.clone(), true));
        let subscriptions = group.subscription_queues().map(|(queue, _)| (queue, lasts));
        let mut admin = recipients::connect::<C, E>(environment, plan, group, control)?;
        for (queue, lasts) in queues.chain(subscriptions) {
            // One that is not there may come back with messages.
            if match admin.depth(&queue)? {
                Some((messages, _)) => messages > 0,
                None => lasts,
            } {
                admin.close()?;
                return Ok(false);
            }
        }
        admin.close()?;
    }
    Ok(true)
}
