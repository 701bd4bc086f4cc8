//! Queues that the broker no longer has when clients reconnect, where these cannot declare them themselves.

use measure::{Nanos, Time};

use crate::control::Interruption;
use crate::engine::recipients;
use crate::protocol::{Admin, Connection};
use crate::{Control, Declare, Environment, Error, Plan, RunEvent, Task};

/// Between the beginnings of two preparations.
const PREPARE_AGAIN: Nanos = Nanos::from_millis(100);
/// Between two notes that a client was refused.
const TELL_AGAIN: Nanos = Nanos(10_000_000_000);

/// Prepares the broker again, beside the coordinator, when clients that reconnect are refused.
pub(super) struct Restorer<E: Environment> {
    control: Control,
    task: Option<E::Task>,
    prepare_at: Time,
    tell_at: Time,
}

impl<E: Environment> Restorer<E> {
    pub(super) fn new() -> Self {
        Self { control: Control::new(), task: None, prepare_at: Time(0), tell_at: Time(0) }
    }

    /// Takes why a client was refused, has the queues declared again, and returns what is to be told.
    pub(super) fn take<C: Connection>(&mut self, error: &Error, environment: &E, plan: &Plan) -> Option<RunEvent> {
        let now = environment.now();
        let restores = !C::DECLARES_AGAIN && plan.groups.iter().any(|it| it.queues.declare != Declare::Never);
        let is_busy = self.task.as_ref().is_some_and(|it| !it.is_finished());
        if restores && !is_busy && now >= self.prepare_at {
            self.prepare_at = now + PREPARE_AGAIN;
            let (beside, stop, mut plan) = (environment.clone(), self.control.clone(), plan.clone());
            for group in &mut plan.groups {
                (group.queues.purge, group.queues.delete) = (false, false);
            }
            let work = move || {
                // What fails now is tried again with the next client that is refused.
                let _ = prepare::<C, E>(&beside, &plan, &stop);
            };
            self.task = environment.run_beside("declare queues", work).ok();
        }
        if now < self.tell_at {
            return None;
        }
        self.tell_at = now + TELL_AGAIN;
        let then = if restores { "; the load declares its queues again" } else { "" };
        Some(RunEvent::Note(format!("a client that reconnected was refused: {error}{then}")))
    }
}

fn prepare<C: Connection, E: Environment>(environment: &E, plan: &Plan, control: &Control) -> Result<(), Interruption> {
    for group in plan.groups.iter().filter(|it| it.queues.declare != Declare::Never) {
        let mut admin = recipients::connect::<C, E>(environment, plan, group, control)?;
        admin.prepare(group, &mut Vec::new())?;
        admin.close()?;
    }
    Ok(())
}

impl<E: Environment> Drop for Restorer<E> {
    fn drop(&mut self) {
        self.control.abort();
        if let Some(task) = self.task.take() {
            task.join();
        }
    }
}
