//! Ends a load when there is nothing more to do.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use measure::{Nanos, Time};

use crate::control::Interruption;
use crate::engine::recipients;
use crate::protocol::{Admin, Connection};
use crate::{Control, DestinationKind, Error, Group, Plan, StopCondition};

/// Without a delivery for this long, consumers are idle.
const IDLE: Nanos = Nanos(1_000_000_000);
/// How often queues are asked what is in them.
const ASK: Duration = Duration::from_millis(500);

/// Watches for the end.
#[derive(Debug)]
pub(super) struct StopWatcher {
    received: u64,
    since: Time,
    /// Beside the consumers' being idle.
    empty: Option<QueueProbe>,
}

/// Asks the queues on a thread of its own, because a broker under load takes its time to answer.
#[derive(Debug)]
pub(super) struct QueueProbe {
    all_empty: Arc<AtomicBool>,
    control: Control,
    thread: Option<JoinHandle<()>>,
}

impl StopWatcher {
    pub(super) fn new<C: Connection>(plan: &Plan, start: Time) -> Result<Option<Self>, Error> {
        let Some(condition) = plan.stop else {
            return Ok(None);
        };
        // Only their consumers can look into exclusive queues: those who get nothing more.
        let asks =
            condition == StopCondition::Empty && !plan.groups.iter().any(Group::has_exclusive);
        Ok(Some(Self {
            received: 0,
            since: start,
            empty: match asks {
                true => Some(QueueProbe::ask::<C>(plan.clone())?),
                false => None,
            },
        }))
    }

    /// Whether it has come; `received` counts all deliveries so far.
    pub(super) fn has_come(&mut self, received: u64, now: Time) -> bool {
        if self.received != received {
            (self.received, self.since) = (received, now);
        }
        let empty = self.empty.as_ref();
        now.since(self.since) >= IDLE
            && empty.is_none_or(|probe| probe.all_empty.load(Ordering::Relaxed))
    }
}

impl QueueProbe {
    fn ask<C: Connection>(plan: Plan) -> Result<Self, Error> {
        let (all_empty, control) = (Arc::new(AtomicBool::new(false)), Control::new());
        let (answer, stop) = (Arc::clone(&all_empty), control.clone());
        let thread = std::thread::Builder::new()
            .name("ask queues".into())
            .spawn(move || {
                while !stop.is_stopping() {
                    std::thread::sleep(ASK);
                    // A broker that does not answer now may do so the next time.
                    let empty = are_all_empty::<C>(&plan, &stop).unwrap_or(false);
                    answer.store(empty, Ordering::Relaxed);
                }
            })
            .map_err(|error| Error::machine("start a thread", error))?;
        Ok(Self {
            all_empty,
            control,
            thread: Some(thread),
        })
    }
}

impl Drop for QueueProbe {
    fn drop(&mut self) {
        self.control.abort();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn are_all_empty<C: Connection>(plan: &Plan, control: &Control) -> Result<bool, Interruption> {
    for group in &plan.groups {
        let subscription = group.consumers.subscription.as_ref();
        // A subscription that does not last goes with its consumers, and with what it held.
        let lasts = subscription.is_none_or(|it| it.durable);
        let queues = group.destinations.iter();
        let queues = queues.filter(|d| d.kind == DestinationKind::Queue);
        let queues = queues.map(|queue| (queue.name.clone(), true));
        let subscriptions = group.subscription_queues();
        let subscriptions = subscriptions.map(|(queue, _)| (queue, lasts));
        let mut admin = recipients::connect::<C>(plan, group, control)?;
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
