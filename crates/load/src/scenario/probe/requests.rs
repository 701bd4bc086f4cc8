//! Requests, as the loop of operations begins and ends them.

use measure::{Clock, Nanos, Time};

use super::ProbePlan;
use super::counts::{RequestCounts, RequestFigures};
use super::metrics::RequestStep;
use super::request::{Failure, RequestSlot, RequestStage, Turn};
use crate::control::Interruption;
use crate::resolve::Addresses;
use crate::scenario::operations::{LoopContext, Operation, OperationServer};
use crate::{ArrivalSchedule, Control, Error, RunEvent, Silence, System};

/// Requests of a probe.
pub(super) struct Requests {
    /// The bytes of each request.
    head: Vec<u8>,
    /// A redirect was told of.
    told_redirect: bool,
}

impl Operation for Requests {
    type Plan = ProbePlan;
    type Slot = RequestSlot;
    type Figures = RequestFigures;
    type Failure = Failure;

    const SUBJECT: &'static str = "a probe";
    const THREAD: &'static str = "bellows-probe";
    const POLL_INTERVAL: Nanos = Nanos(20_000_000);
    const FAILS_BESIDE_OTHERS: bool = false;

    fn schedule(plan: &ProbePlan) -> Option<&ArrivalSchedule> {
        Some(&plan.schedule)
    }

    fn counts(plan: &ProbePlan, now: Time) -> RequestCounts {
        RequestCounts::new(&plan.scenario(), now)
    }

    /// Looks the host up.
    fn connect(plan: &ProbePlan, control: &Control) -> Result<OperationServer<Self>, Interruption> {
        let endpoint = plan.endpoint();
        let tls = endpoint.connector()?;
        let addresses = Addresses::of(&System, &endpoint, plan.timeout, control)
            .map_err(|reason| reason.at(&plan.place()))?;
        let head = plan.head();
        let head = head.map_err(|error| Error::invalid(error.to_string(), "change it"))?;
        Ok(OperationServer {
            operation: Self {
                head,
                told_redirect: false,
            },
            addresses,
            tls,
            event: None,
        })
    }

    fn begin(
        &mut self,
        context: &mut LoopContext<'_, Self>,
        at: usize,
        due: Time,
        now: Time,
    ) -> Result<bool, Failure> {
        let Some(slot) = context.slots.get_mut(at) else {
            return Ok(false);
        };
        slot.begin(context.plan, &self.head, due, now);
        if slot.is_busy() {
            return Ok(true);
        }
        self.dial(context, at, now)?;
        Ok(false)
    }

    fn turn(&mut self, context: &mut LoopContext<'_, Self>, at: usize) -> Result<(), Failure> {
        let Some(slot) = context.slots.get_mut(at) else {
            return Ok(());
        };
        let (buffers, counts) = (&mut context.buffers, &mut context.counts);
        match slot.turn(context.plan, buffers, context.poll.registry(), counts)? {
            Turn::Open => {}
            Turn::Closed => {
                slot.drop_connection();
                context.free.retain(|free| *free != at);
                context.free.push_front(at);
            }
            Turn::Ended(status) => self.ended(context, at, status),
        }
        Ok(())
    }

    fn keep_time(plan: &ProbePlan, slot: &mut RequestSlot, heard: Time) -> Result<bool, Failure> {
        if slot.is_busy() && slot.deadline <= heard {
            let (timeout, stage) = (plan.timeout, slot.stage.name());
            let error = Error::TimedOut {
                endpoint: plan.place(),
                detail: format!("no whole response within {timeout} (it was {stage})"),
            };
            return Err(Failure {
                error: Box::new(error),
                is_loss: false,
            });
        }
        Ok(slot.is_late(heard))
    }

    /// On a kept connection that the server closed meanwhile a request is sent again.
    fn failed(
        &mut self,
        context: &mut LoopContext<'_, Self>,
        at: usize,
        failure: Failure,
    ) -> Result<(), Error> {
        let Some(slot) = context.slots.get_mut(at) else {
            return Ok(());
        };
        let now = Clock.now();
        let retries = failure.is_loss && slot.may_retry(context.plan);
        let (due, sent) = (slot.due, slot.sent);
        slot.drop_connection();
        if retries {
            context.counts.own.resent += 1;
            return match self.dial(context, at, now) {
                Ok(()) => Ok(()),
                Err(failure) => self.failed(context, at, failure),
            };
        }
        context.free_after_failure(at);
        context.addresses.refresh(now);
        let counts = &mut context.counts;
        let is_given_up = matches!(*failure.error, Error::TimedOut { .. });
        counts.lost(sent, now, is_given_up);
        if is_given_up {
            counts.add(counts.own.metrics.timed_out, due, 1);
            counts.record_step(RequestStep::Response, due, now.since(due));
            counts.record_step(RequestStep::FromSend, due, now.since(sent));
        }
        if let Some(event) = counts.fail_request(due, *failure.error) {
            context.say(event);
        }
        Ok(())
    }

    fn take_silences(
        counts: &mut RequestCounts,
        due_until: impl Fn(Time) -> f64,
        is_end: bool,
    ) -> Vec<Silence> {
        counts.take_silences(due_until, is_end)
    }

    /// The server has closed connections just when a request was on its way, and may have seen that twice.
    fn last_note(context: &LoopContext<'_, Self>) -> Option<String> {
        let resent = Some(context.counts.own.resent).filter(|resent| *resent > 0)?;
        let (resent, place) = (measure::counted(resent, "request"), context.plan.place());
        Some(format!(
            "{resent} to {place} sent twice: the server closed the kept connection without an answer"
        ))
    }
}

impl Requests {
    fn dial(
        &self,
        context: &mut LoopContext<'_, Self>,
        at: usize,
        now: Time,
    ) -> Result<(), Failure> {
        let Some(deadline) = context.slots.get(at).map(|slot| slot.deadline) else {
            return Ok(());
        };
        let attempt = context.attempt(&[], deadline, now);
        let registry = context.poll.registry();
        match context.slots.get_mut(at) {
            Some(slot) => slot.dial(context.plan, &self.head, attempt, registry, now),
            None => Ok(()),
        }
    }

    /// A response has come whole.
    fn ended(&mut self, context: &mut LoopContext<'_, Self>, at: usize, status: u16) {
        let Some(slot) = context.slots.get_mut(at) else {
            return;
        };
        let due = slot.due;
        if slot.stage == RequestStage::Kept {
            context.free.push_back(at);
        } else {
            context.free.push_front(at);
        }
        let (plan, counts) = (context.plan, &mut context.counts);
        if status < 400 {
            if let Some(event) = counts.complete(due) {
                context.say(event);
            }
            if status >= 300 && !std::mem::replace(&mut self.told_redirect, true) {
                let label = &plan.label;
                let note = format!("{label} answers with status {status}, which is not followed");
                context.say(RunEvent::Note(note));
            }
            return;
        }
        let metrics = counts.own.metrics;
        let group = if status < 500 {
            metrics.status_4xx
        } else {
            metrics.status_5xx
        };
        counts.add(group, due, 1);
        let help = match status {
            401 | 403 => {
                "check user and password or token (--user and BELLOWS_PROBE_PASSWORD, --bearer-file)"
            }
            404 => "check the path",
            _ => "look into the server's log",
        };
        let error = Error::Refused {
            endpoint: plan.place(),
            action: format!("complete {}", plan.request()),
            detail: format!("status {status}"),
            help: help.to_owned(),
        };
        if let Some(event) = counts.fail_request(due, error) {
            context.say(event);
        }
    }
}
