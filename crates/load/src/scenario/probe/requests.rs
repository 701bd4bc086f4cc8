//! Requests, as the loop of operations begins and ends them.

use measure::{Clock, Nanos, Time};

use super::counts::{RequestCounts, RequestFigures};
use super::request::{Failure, RequestSlot, RequestStage, Turn};
use super::{ProbePlan, RequestContext, Requests};
use crate::control::Interruption;
use crate::resolve::Addresses;
use crate::scenario::operations::{Buffers, Operation, OperationServer};
use crate::{ArrivalSchedule, Control, Error, RunEvent, Silence, System};

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
        slot: &mut RequestSlot,
        context: &mut RequestContext<'_>,
        due: Time,
        now: Time,
    ) -> Result<bool, Failure> {
        slot.begin(context.plan, &self.head, due, now);
        if slot.is_busy() {
            return Ok(true);
        }
        slot.dial(&self.head, context, now)?;
        Ok(false)
    }

    fn turn(
        &mut self,
        slot: &mut RequestSlot,
        context: &mut RequestContext<'_>,
        buffers: &mut Buffers,
    ) -> Result<(), Failure> {
        match slot.turn(context, buffers)? {
            Turn::Open => {}
            Turn::Closed => {
                slot.drop_connection();
                context.free.retain(|free| *free != slot.number);
                context.free.push_front(slot.number);
            }
            Turn::Ended(status) => self.ended(slot, context, status),
        }
        Ok(())
    }

    fn keep_time(slot: &mut RequestSlot, plan: &ProbePlan, heard: Time) -> Result<bool, Failure> {
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
        slot: &mut RequestSlot,
        context: &mut RequestContext<'_>,
        failure: Failure,
    ) -> Result<(), Error> {
        let now = Clock.now();
        let retries = failure.is_loss && slot.may_retry(context.plan);
        let (due, sent) = (slot.due, slot.sent);
        slot.drop_connection();
        if retries {
            context.counts.own.resent += 1;
            return match slot.dial(&self.head, context, now) {
                Ok(()) => Ok(()),
                Err(failure) => self.failed(slot, context, failure),
            };
        }
        context.free_after_failure(slot.number);
        context.addresses.refresh(now);
        let counts = &mut context.counts;
        let is_given_up = matches!(*failure.error, Error::TimedOut { .. });
        counts.lost(sent, now, is_given_up);
        if is_given_up {
            let metrics = counts.own.metrics;
            counts.add(metrics.timed_out, due, 1);
            counts.record(metrics.response, due, now.since(due));
            counts.record(metrics.from_send, due, now.since(sent));
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
    fn last_note(context: &RequestContext<'_>) -> Option<String> {
        let resent = Some(context.counts.own.resent).filter(|resent| *resent > 0)?;
        let (resent, place) = (measure::counted(resent, "request"), context.plan.place());
        Some(format!(
            "{resent} to {place} sent twice: the server closed the kept connection without an answer"
        ))
    }
}

impl Requests {
    /// A response has come whole.
    fn ended(&mut self, slot: &RequestSlot, context: &mut RequestContext<'_>, status: u16) {
        let due = slot.due;
        if slot.stage == RequestStage::Kept {
            context.free.push_back(slot.number);
        } else {
            context.free.push_front(slot.number);
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
