//! Ends a load when there is nothing more to do.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use measure::{Nanos, Time};

use crate::control::Interruption;
use crate::engine::recipients;
use crate::engine::shared::Activity;
use crate::protocol::{Admin, Connection};
use crate::{Control, DestinationKind, Environment, Error, Group, Plan, StopCondition, Task};

/// Without a delivery for this long, consumers are idle.
const IDLE: Nanos = Nanos(1_000_000_000);
/// How long after an answer queues are asked again what is in them.
const ASK_AGAIN: Nanos = Nanos(500_000_000);

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
    /// Who asks at present, or did.
    task: Option<E::Task>,
    ask_at: Time,
}

impl<E: Environment> StopWatcher<E> {
    pub(super) fn new(environment: &E, plan: &Plan, start: Time) -> Option<Self> {
        let condition = plan.stop?;
        // Only their consumers can look into exclusive queues: those who get nothing more.
        let asks =
            condition == StopCondition::Empty && !plan.groups.iter().any(Group::has_exclusive);
        Some(Self {
            taken: 0,
            since: start,
            empty: asks.then(|| QueueProbe {
                environment: environment.clone(),
                all_empty: Arc::new(AtomicBool::new(false)),
                control: Control::new(),
                plan: Arc::new(plan.clone()),
                task: None,
                ask_at: start + ASK_AGAIN,
            }),
        })
    }

    /// Whether it has come. Who works on a delivery, or has one to work on, is not idle.
    pub(super) fn has_come<C: Connection>(
        &mut self,
        activity: Activity,
        now: Time,
    ) -> Result<bool, Error> {
        if self.taken != activity.taken || activity.undone > 0 {
            (self.taken, self.since) = (activity.taken, now);
        }
        let is_empty = match &mut self.empty {
            Some(probe) => probe.finds_nothing::<C>(now)?,
            None => true,
        };
        Ok(is_empty && now.since(self.since) >= IDLE)
    }
}

impl<E: Environment> QueueProbe<E> {
    /// Whether the last answers said that all queues are empty; asks again when it is time.
    fn finds_nothing<C: Connection>(&mut self, now: Time) -> Result<bool, Error> {
        if self.task.as_ref().is_some_and(Task::is_finished) {
            (self.task, self.ask_at) = (None, now + ASK_AGAIN);
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
            self.ask_at = now + ASK_AGAIN;
        }
        Ok(self.all_empty.load(Ordering::Relaxed))
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
        let queues = group.destinations.iter();
        let queues = queues.filter(|d| d.kind == DestinationKind::Queue);
        let queues = queues.map(|queue| (queue.name.clone(), true));
        let subscriptions = group.subscription_queues();
        let subscriptions = subscriptions.map(|(queue, _)| (queue, lasts));
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
