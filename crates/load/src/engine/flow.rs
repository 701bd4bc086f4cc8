//! What flows over a client's connection: deliveries and answers in, messages out.

use std::sync::atomic::Ordering;

use measure::{Phase, Time};

use super::client::{Client, ConnectionState, Participant};
use super::consumer::Wanted;
use super::context::Context;
use super::early::EarlyDelivery;
use super::producer::{BATCH_BYTES, SendState};
use super::shared::{CATCH_UP, Reason, Report};
use crate::control::Watch;
use crate::protocol::amqp091::{Extras, Progress as SetUp, Signal, Step};
use crate::{Error, RunEvent};

/// The broker gives a message back.
#[cold]
fn returned(
    work: &Participant,
    body: &[u8],
    extras: Extras<'_>,
    now: Time,
    context: &mut Context<'_>,
) {
    context.series.current().counters.returned += 1;
    let Participant::Producer(producer) = work else {
        return;
    };
    // Nobody will get it.
    let progress = &mut context.tally.progress;
    progress.expected = progress
        .expected
        .saturating_sub(producer.spec.expected_deliveries);
    if let Some(ledger) = context.ledger {
        producer.returned(body, extras, now, ledger);
    }
}

/// What a delivery was.
enum Taken {
    /// Nobody's.
    Nothing,
    /// The answer to the message with this number on its channel.
    Reply(u64),
    /// A consumer's, which is to be acknowledged, and to be answered where it is a request.
    Message { is_request: bool },
}

/// Counts a delivery. What it asks for comes when its bytes, which may be the connection's own, are
/// not needed any more.
#[inline(always)]
fn receive(
    work: &mut Participant,
    (body, extras, redelivered): (&[u8], Extras<'_>, bool),
    now: Time,
    context: &mut Context<'_>,
) -> Taken {
    let consumer = match work {
        Participant::Consumer(consumer) => consumer,
        Participant::Producer(producer) => {
            let of = producer.replied(body, extras, now);
            return of.map_or(Taken::Nothing, Taken::Reply);
        }
    };
    consumer.answered(now);
    let wanted = consumer.wants();
    if wanted == Wanted::No {
        return Taken::Nothing;
    }
    let ours = consumer.take(
        (body, extras, redelivered),
        now,
        context.series.current(),
        &mut context.tally.latency,
        context.ledger.as_mut(),
    );
    let to = consumer.responds().then(|| extras.reply_to()).flatten();
    if let Some(to) = to {
        context.reply.prepare(to, body, extras);
    }
    context.tally.handled += 1;
    context.tally.progress.received += u64::from(ours);
    context.tally.progress.redelivered += u64::from(ours && redelivered);
    if wanted == Wanted::Last {
        context.tell(Report::CountReached);
    }
    Taken::Message {
        is_request: to.is_some(),
    }
}

impl Client {
    /// Decodes whole frames and returns how many bytes they took.
    pub(super) fn decode(
        &mut self,
        now: Time,
        bytes: &[u8],
        context: &mut Context<'_>,
    ) -> Result<usize, Error> {
        let decoded = self.decode_frames(now, bytes, context);
        // Also where it failed: what came before was received now, not when the next batch comes.
        for work in &mut self.participants {
            if let Participant::Consumer(consumer) = work {
                consumer.end_of_batch(now, context.series.current(), &mut context.tally.latency);
            }
        }
        decoded
    }

    fn decode_frames(
        &mut self,
        now: Time,
        bytes: &[u8],
        context: &mut Context<'_>,
    ) -> Result<usize, Error> {
        let mut at = 0;
        // The batch came at one instant: all of it before the end of the drain, or none.
        let is_over = context.series.is_finished();
        self.take_early(now, context)?;
        while !self.full && self.early.is_none() {
            let mut input = &bytes[at..];
            let signal = self.connection.poll(now, &mut input)?;
            at = bytes.len() - input.len();
            match signal {
                Some((
                    lane,
                    Signal::Delivery {
                        tag,
                        redelivered,
                        body,
                        extras,
                    },
                )) => match (self.state, self.participants.get_mut(lane)) {
                    (ConnectionState::Running, Some(work)) if !is_over => {
                        let taken = receive(work, (body, extras, redelivered), now, context);
                        self.follow_up(lane, (tag, taken), now, context)?;
                    }
                    (ConnectionState::SettingUp | ConnectionState::Ready, _) => {
                        self.early = Some(EarlyDelivery::new(lane, tag, redelivered, body, extras));
                        if self.state == ConnectionState::SettingUp {
                            self.is_set_up(context);
                        }
                        self.take_early(now, context)?;
                    }
                    // After the end of the drain nothing is counted, nor acknowledged.
                    _ => {}
                },
                Some((
                    lane,
                    Signal::Confirm {
                        tag,
                        multiple,
                        nack,
                    },
                )) => {
                    self.confirmed(lane, (tag, multiple, nack), now, context)?;
                }
                Some((lane, Signal::Committed)) => self.committed(lane, now, context)?,
                Some((lane, Signal::Step(step))) => self.step(lane, step, now, context)?,
                Some((_, Signal::Closed)) => {
                    self.state = ConnectionState::Gone;
                    break;
                }
                Some((lane, Signal::Empty)) => self.found_nothing(lane, now),
                Some((lane, Signal::Returned { body, extras })) => {
                    if let Some(work) = self.participants.get(lane) {
                        returned(work, body, extras, now, context);
                    }
                }
                Some((_, Signal::Blocked { reason })) => {
                    self.withheld = true;
                    // AMQP's short strings are never too long for it.
                    let reason = Reason::from(reason).unwrap_or_default();
                    context.tell(Report::Blocked { at: now, reason });
                }
                Some((_, Signal::Unblocked)) => {
                    self.withheld = false;
                    context.tell(Report::Event(RunEvent::Unblocked { at: now }));
                }
                Some((_, Signal::Other)) => {}
                None => break,
            }
        }
        // Where a consumer is full, or the load has not begun, the rest waits.
        self.undecoded |= self.early.is_some() || (self.full && at < bytes.len());
        Ok(at)
    }

    /// Takes the delivery that came before the load began, once it has.
    fn take_early(&mut self, now: Time, context: &mut Context<'_>) -> Result<(), Error> {
        if self.state != ConnectionState::Running {
            return Ok(());
        }
        let Some(early) = self.early.take() else {
            return Ok(());
        };
        let Some(work) = self.participants.get_mut(early.lane) else {
            return Ok(());
        };
        let taken = receive(work, early.parts(), now, context);
        self.follow_up(early.lane, (early.tag, taken), now, context)
    }

    /// Does what a delivery asks for.
    #[inline(always)]
    fn follow_up(
        &mut self,
        lane: usize,
        (tag, taken): (u64, Taken),
        now: Time,
        context: &mut Context<'_>,
    ) -> Result<(), Error> {
        match (taken, self.participants.get_mut(lane)) {
            (Taken::Reply(of), _) => self.confirmed(lane, (of, false, false), now, context)?,
            (Taken::Message { is_request }, Some(Participant::Consumer(consumer))) => {
                let mut channel = self.connection.channel(lane);
                if is_request {
                    channel.respond(context.reply)?;
                }
                consumer.acknowledge(tag, now, &mut channel)?;
                self.full = consumer.is_full();
            }
            _ => {}
        }
        Ok(())
    }

    /// Goes on with the set-up or the way out.
    fn step(
        &mut self,
        lane: usize,
        step: Step,
        now: Time,
        context: &mut Context<'_>,
    ) -> Result<(), Error> {
        if self.connection.proceed(lane, step, now)? == SetUp::Ready {
            self.is_accepted();
            if self.state == ConnectionState::SettingUp {
                self.is_set_up(context);
            }
        }
        Ok(())
    }

    /// All that can be asked for before the load is asked for. What is not answered are
    /// subscriptions, and the first delivery has come.
    fn is_set_up(&mut self, context: &mut Context<'_>) {
        self.state = ConnectionState::Ready;
        self.make_room();
        self.resume(context);
    }

    /// A queue that was asked for a message had none.
    fn found_nothing(&mut self, lane: usize, now: Time) {
        if let Some(Participant::Consumer(consumer)) = self.participants.get_mut(lane) {
            consumer.answered(now);
        }
    }

    /// All messages of the transaction are accepted.
    fn committed(
        &mut self,
        lane: usize,
        now: Time,
        context: &mut Context<'_>,
    ) -> Result<(), Error> {
        if let Some(Participant::Producer(producer)) = self.participants.get_mut(lane) {
            producer.committed();
            self.confirmed(lane, (0, true, false), now, context)?;
        }
        Ok(())
    }

    #[inline]
    fn confirmed(
        &mut self,
        lane: usize,
        answer: (u64, bool, bool),
        now: Time,
        context: &mut Context<'_>,
    ) -> Result<(), Error> {
        let Some(Participant::Producer(producer)) = self.participants.get_mut(lane) else {
            return Ok(());
        };
        // What is answered after the end of the drain came too late for the ledger, too.
        let counts = self.state == ConnectionState::Running && !context.series.is_finished();
        let (interval, latency) = (context.series.current(), &mut context.tally.latency);
        let ledger = context.ledger.as_mut().filter(|_| counts);
        let count = producer
            .answer(answer, now, interval, latency, ledger)
            .map_err(|_| Error::Protocol {
                endpoint: self.endpoint.to_string(),
                detail: format!(
                    "the broker confirmed message {}, which was never sent",
                    answer.0
                ),
            })?;
        if context.shared.control.watch() == Watch::Confirm
            && !answer.2
            && context
                .shared
                .control
                .watch_on(Watch::Confirm, Watch::Backlog)
        {
            context.tell(Report::Event(RunEvent::FirstConfirm { at: now }));
        }
        let progress = &mut context.tally.progress;
        progress.open = progress.open.saturating_sub(count);
        if answer.2 {
            let lost = count * producer.spec.expected_deliveries;
            progress.expected = progress.expected.saturating_sub(lost);
        }
        context.tally.handled += count;
        Ok(())
    }

    /// Sees to the consumers that have more to do than to take what comes; tells when next.
    pub(super) fn tend(&mut self, context: &mut Context<'_>) -> Result<Option<Time>, Error> {
        if !self.busy || self.state != ConnectionState::Running {
            return Ok(None);
        }
        let now = context.now();
        if context.series.phase() == Phase::Drain && context.series.is_finished() {
            return Ok(None);
        }
        let mut next: Option<Time> = None;
        self.full = false;
        for (at, work) in self.participants.iter_mut().enumerate() {
            if let Participant::Consumer(consumer) = work {
                let due = consumer.tend(now, &mut self.connection.channel(at))?;
                next = match (next, due) {
                    (Some(a), Some(b)) => Some(a.min(b)),
                    (a, b) => a.or(b),
                };
                self.full |= consumer.is_full();
            }
        }
        Ok(next)
    }

    /// Gives every producer a turn, as long as the socket takes what they send.
    pub(super) fn send(&mut self, context: &mut Context<'_>) -> Result<SendState, Error> {
        if self.state != ConnectionState::Running || self.withheld || !self.may_write() {
            return Ok(SendState::Idle);
        }
        let now = context.now();
        let drain_at = context.shared.boundaries().drain_at;
        let draining = context.series.phase() == Phase::Drain;
        if draining && now > drain_at + CATCH_UP {
            return Ok(SendState::Idle);
        }
        let mut send_state = SendState::Idle;
        for _ in 0..self.participants.len() {
            let at = self.next_work;
            self.next_work = (at + 1) % self.participants.len();
            let Some(Participant::Producer(producer)) = self.participants.get_mut(at) else {
                continue;
            };
            let mut lane = self.connection.channel(at);
            let interval = context.series.current();
            let sent = if draining {
                producer.catch_up(drain_at, now, &mut lane, interval)?
            } else {
                producer.send(now, &mut lane, interval)?
            };
            if let Some(ledger) = context.ledger.as_ref().filter(|_| sent.count > 0) {
                ledger.publish_sent(producer.spec.id, producer.sent());
            }
            let written = lane.pending() < BATCH_BYTES;
            let progress = &mut context.tally.progress;
            progress.expected += sent.count * producer.spec.expected_deliveries;
            if producer.has_answers() {
                progress.open += sent.count;
            }
            if sent.reached_limit
                && context
                    .shared
                    .producers_left
                    .fetch_sub(1, Ordering::Relaxed)
                    == 1
            {
                context.tell(Report::CountReached);
            }
            send_state = send_state.sooner(sent.send_state);
            if !written {
                // The others are next, when this is written.
                if self.participants.len() > 1 {
                    send_state = SendState::More;
                }
                break;
            }
        }
        self.flush()?;
        Ok(send_state)
    }
}
