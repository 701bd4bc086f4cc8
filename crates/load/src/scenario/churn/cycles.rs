//! Cycles, as the loop of operations begins and ends them.

use measure::{Clock, Nanos, Time};
use mio::Events;

use super::counts::CycleCounts;
use super::slot::{CycleSlot, Moments, State};
use super::{ChurnKind, ChurnPlan};
use crate::control::Interruption;
use crate::protocol::amqp091::AmqpConnection;
use crate::protocol::{Admin, Connection, connect_options};
use crate::scenario::operations::{
    LoopContext, LoopReport, Operation, OperationLoop, OperationServer,
};
use crate::{ArrivalSchedule, Control, Error, RunEvent, Silence, System};

/// How many of the connections that stay are made at a time.
const AT_ONCE: usize = 32;
/// Setting up is told of this often.
const TELL: Nanos = Nanos(500_000_000);

/// Cycles of churn.
pub(super) struct Cycles;

impl Operation for Cycles {
    type Plan = ChurnPlan;
    type Slot = CycleSlot;
    type Figures = super::counts::CycleFigures;
    type Failure = Error;

    const SUBJECT: &'static str = super::NAME;
    const THREAD: &'static str = "bellows-churn";
    const POLL_INTERVAL: Nanos = Nanos(50_000_000);
    const FAILS_BESIDE_OTHERS: bool = true;

    fn schedule(plan: &ChurnPlan) -> Option<&ArrivalSchedule> {
        plan.schedule.as_ref()
    }

    fn counts(plan: &ChurnPlan, now: Time) -> CycleCounts {
        CycleCounts::new(now, plan.messages)
    }

    /// Logs in once.
    fn connect(plan: &ChurnPlan, control: &Control) -> Result<OperationServer<Self>, Interruption> {
        let options = connect_options(&plan.endpoint, &plan.source_addresses)?;
        let tls = options.tls.clone();
        let admin = <<AmqpConnection as Connection>::Admin<'_, System>>::connect(
            &System,
            &plan.endpoint,
            options,
            plan.timeout,
            control,
        )?;
        let server = admin.server().clone();
        admin.close()?;
        Ok(OperationServer {
            operation: Self,
            addresses: server.addresses,
            tls,
            event: Some(RunEvent::Connected {
                endpoint: plan.endpoint.to_string(),
                product: server.product,
                version: server.version,
                round_trip: server.round_trip,
                answer: server.answer,
            }),
        })
    }

    fn open(event_loop: &mut OperationLoop<'_, Self>) -> Result<(), Interruption> {
        if event_loop.context.plan.kind == ChurnKind::Connections {
            return Ok(());
        }
        let wanted = event_loop.context.slots.len();
        let mut events = Events::with_capacity(1_024);
        let mut next = 0;
        let mut told = Clock.now();
        loop {
            let context = &mut event_loop.context;
            let ready = context.counts.own.ready;
            if ready >= wanted {
                return Ok(());
            }
            let now = Clock.now();
            while next < wanted.min(ready + AT_ONCE) {
                dial(context, next, now)?;
                next += 1;
            }
            if now.since(told) >= TELL {
                told = now;
                context.say(RunEvent::Connecting {
                    ready: ready as u64,
                    wanted: wanted as u64,
                });
            }
            event_loop.check_stop()?;
            event_loop.poll(&mut events, now + Nanos::from_millis(20))?;
        }
    }

    fn begin(
        &mut self,
        context: &mut LoopContext<'_, Self>,
        at: usize,
        due: Time,
        now: Time,
    ) -> Result<bool, Error> {
        let plan = context.plan;
        let Some(slot) = context.slots.get_mut(at) else {
            return Ok(false);
        };
        slot.due = due;
        if plan.kind == ChurnKind::Connections {
            dial(context, at, now)?;
            return Ok(false);
        }
        slot.begin(plan, due, now)?;
        Ok(true)
    }

    fn turn(&mut self, context: &mut LoopContext<'_, Self>, at: usize) -> Result<(), Error> {
        let LoopContext {
            plan,
            control,
            tell,
            poll,
            slots,
            free,
            buffers,
            counts,
            ..
        } = context;
        let Some(slot) = slots.get_mut(at) else {
            return Ok(());
        };
        let mut told = |what, moments: Moments| {
            if counts.note(what, moments) {
                free.push_back(at);
                if control.is_first_confirm(|| moments.due) {
                    let _ = tell.send(LoopReport::Event(RunEvent::FirstConfirm {
                        at: moments.now,
                    }));
                }
            }
        };
        slot.turn(plan, Clock.now(), buffers, poll.registry(), &mut told)
    }

    fn keep_time(plan: &ChurnPlan, slot: &mut CycleSlot, heard: Time) -> Result<bool, Error> {
        if !slot.is_free() && slot.deadline <= heard {
            let (timeout, state) = (plan.timeout, slot.state.name());
            return Err(Error::TimedOut {
                endpoint: plan.endpoint.to_string(),
                detail: format!("a cycle did not get on within {timeout} (it was {state})"),
            });
        }
        slot.keep_time(heard)?;
        Ok(slot.is_late(heard))
    }

    /// A connection that was to stay ends the run.
    fn failed(
        &mut self,
        context: &mut LoopContext<'_, Self>,
        at: usize,
        error: Error,
    ) -> Result<(), Error> {
        let Some(slot) = context.slots.get_mut(at) else {
            return Ok(());
        };
        let stays = context.plan.kind != ChurnKind::Connections;
        let of_a_cycle = !stays || matches!(slot.state, State::Opening | State::Closing);
        let now = Clock.now();
        let moments = Moments {
            due: slot.due,
            step_began: slot.step_began,
            asked: slot.asked,
            now,
        };
        slot.drop_connection();
        context.addresses.refresh(now);
        if of_a_cycle && let Some(event) = context.counts.fail_cycle(error.clone(), moments) {
            context.say(event);
        }
        if stays {
            return Err(error);
        }
        context.free_after_failure(at);
        Ok(())
    }

    fn take_silences(
        counts: &mut CycleCounts,
        due_until: impl Fn(Time) -> f64,
        is_end: bool,
    ) -> Vec<Silence> {
        counts.take_silences(due_until, is_end)
    }
}

fn dial(context: &mut LoopContext<'_, Cycles>, at: usize, now: Time) -> Result<(), Error> {
    let plan = context.plan;
    let attempt = context.attempt(&plan.source_addresses, now + plan.timeout, now);
    match context.slots.get_mut(at) {
        Some(slot) => slot.dial(plan, attempt, context.poll.registry(), now),
        None => Ok(()),
    }
}
