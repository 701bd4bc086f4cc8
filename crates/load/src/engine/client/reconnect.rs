//! A client that lost its connection, and the way back: broken, connecting, set up. Any failure breaks it again.

use measure::Time;

use super::{Client, ConnectionState, Participant};
use crate::engine::context::Context;
use crate::engine::service::Service;
use crate::engine::shared::Report;
use crate::engine::silence::CutOff;
use crate::protocol::Connection;
use crate::{Ack, Environment, Error, ReconnectPolicy, RunEvent};

/// How a client comes back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reconnect {
    reconnect: ReconnectPolicy,
    due: Time,
    /// Tries so far, over the whole run.
    attempts: u64,
    /// The broker has granted all requests once: an earlier refusal is final, too. May come after the load's start.
    is_accepted: bool,
    /// Between the loss of the connection and the return.
    under_way: bool,
    /// Messages in flight on the connection that was lost last.
    cut_off: CutOff,
}

impl Reconnect {
    pub(super) fn new(reconnect: ReconnectPolicy) -> Self {
        Self { reconnect, due: Time(0), attempts: 0, is_accepted: false, under_way: false, cut_off: CutOff::default() }
    }
}

impl<C: Connection, E: Environment> Client<C, E> {
    pub(super) fn is_accepted(&mut self) {
        if let Some(reconnect) = &mut self.dialing.reconnect {
            reconnect.is_accepted = true;
        }
    }

    /// Takes a failure for the loss of the connection, where a new one may be made; tells whether
    /// it did. Before the start is announced a failure is final. `client` tells it from others.
    pub(crate) fn break_off(&mut self, client: u64, error: &Error, context: &mut Context<'_, E>) -> bool {
        let tally = &mut *context.tally;
        let is_announced = context.shared.start().is_some();
        let is_refusal = matches!(error, Error::Refused { .. });
        let may_return = |reconnect: &&mut Reconnect| is_announced && (reconnect.is_accepted || !is_refusal);
        let Some(reconnect) = self.dialing.reconnect.as_mut().filter(may_return) else { return false };
        let now = tally.last_now;
        reconnect.attempts += 1;
        reconnect.due = now + reconnect.reconnect.wait(client, reconnect.attempts);
        let was_up = !std::mem::replace(&mut reconnect.under_way, true);
        if was_up {
            tally.broken += 1;
            tally.lost_connections += 1;
            if tally.broken == 1 {
                let detail = error.to_string();
                // Only informs; what does not fit is dropped.
                let _ = context.reports.try_send(Report::Event(RunEvent::Lost { at: now, detail }));
            }
        }
        if is_refusal && !was_up {
            let _ = context.reports.try_send(Report::Refused(error.clone()));
        }
        let (mut open, mut given_up, mut thrown_away) = (0, 0, 0);
        for (at, work) in self.participants.iter_mut().enumerate() {
            match work {
                Participant::Producer(producer) if was_up => {
                    let unanswered = producer.restart(now);
                    open += unanswered;
                    given_up += if producer.spec.resend { 0 } else { unanswered };
                }
                Participant::Producer(_) => {}
                Participant::Consumer(consumer) => {
                    if let Some(properties) = consumer.first_untaken() {
                        self.driver.connection.untaken(at, properties);
                    }
                    if consumer.spec.ack == Ack::Auto {
                        thrown_away += consumer.service.as_ref().map_or(0, Service::untaken);
                    }
                    tally.activity.undone -= consumer.restart(now);
                }
            }
        }
        if thrown_away > 0 {
            let note = RunEvent::Note(format!(
                "{thrown_away} deliveries that waited for consumers were lost with their connection: with automatic \
                 acknowledgement the broker does not keep them"
            ));
            let _ = context.reports.try_send(Report::Event(note));
        }
        if was_up {
            tally.progress.open = tally.progress.open.saturating_sub(given_up);
            reconnect.cut_off = tally.silences.cut_off(open);
        }
        self.fenced = 0;
        self.hang_up();
        self.turn_to_next(now);
        true
    }

    /// Connects again when it is time; tells when it will be.
    pub(super) fn connect_again(&mut self, context: &mut Context<'_, E>) -> Result<Option<Time>, Error> {
        let now = context.now();
        let due = self.dialing.reconnect.map_or(now, |it| it.due);
        if due > now {
            return Ok(Some(due));
        }
        // Where the node's addresses are being looked up.
        if let Some(look) = self.dialing.nodes[self.dialing.node].addresses.wait(now) {
            return Ok(Some(look));
        }
        self.dial_again(now, context.poll)?;
        Ok(None)
    }

    /// Set up: back to work, where the load has begun.
    pub(super) fn resume(&mut self, context: &mut Context<'_, E>) {
        let is_under_way = |reconnect: &&mut Reconnect| reconnect.under_way;
        let Some(reconnect) = self.dialing.reconnect.as_mut().filter(is_under_way) else { return };
        reconnect.under_way = false;
        context.tally.silences.is_back(reconnect.cut_off);
        if self.has_begun {
            self.state = ConnectionState::Running;
        }
        let now = context.tally.last_now;
        self.waits.resumed = Some(now);
        for work in &mut self.participants {
            match work {
                Participant::Producer(producer) => producer.give_up(now, context.series.current()),
                Participant::Consumer(consumer) => consumer.subscribed(now),
            }
        }
        context.tally.broken = context.tally.broken.saturating_sub(1);
        if context.tally.broken == 0 {
            let _ = context.reports.try_send(Report::Event(RunEvent::Recovered { at: now }));
        }
    }
}
