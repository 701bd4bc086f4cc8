//! Traffic of a client's connection: deliveries and answers in, messages out.

use std::sync::atomic::Ordering;

use measure::{Phase, Time};

use super::{Client, ConnectionState, EarlyDelivery, Participant};
use crate::engine::consumer::{Consumer, Wanted};
use crate::engine::context::Context;
use crate::engine::producer::{BATCH_BYTES, Producer, SendState};
use crate::engine::service::{Service, ServiceStep};
use crate::engine::shared::{CATCH_UP, Reason, Report};
use crate::protocol::{Confirm, Connection, DeliveryOutcome, Event, Progress, Received, Receiver, Sender};
use crate::{Environment, Error, RunEvent};

/// Counts a message that nobody will get.
#[cold]
fn returned<C: Connection, E: Environment>(
    work: &Participant,
    body: &[u8],
    properties: &[u8],
    now: Time,
    context: &mut Context<'_, E>,
) {
    context.series.current().counters.returned += 1;
    let Participant::Producer(producer) = work else { return };
    let progress = &mut context.tally.progress;
    progress.expected = progress.expected.saturating_sub(producer.spec.expected_deliveries);
    if let Some(ledger) = context.ledger {
        producer.returned::<C>(body, properties, now, ledger);
    }
}

/// Outcome of a delivery.
enum Taken {
    /// Nobody is to be answered.
    Nothing,
    /// A consumer takes it later.
    Waits { is_full: bool },
    /// The answer to the message with this number on its channel.
    Reply(u64),
    /// A consumer's, which is to be acknowledged, and to be answered where it is a request.
    Message { is_request: bool },
}

/// Takes a delivery. Its requests come when its bytes, perhaps the connection's own, are not needed any more.
#[inline(always)]
fn arrive<C: Connection, E: Environment>(
    work: &mut Participant,
    tag: u64,
    delivery: Received<'_>,
    now: Time,
    context: &mut Context<'_, E>,
) -> Taken {
    let consumer = match work {
        Participant::Consumer(consumer) => consumer,
        Participant::Producer(producer) => {
            let of = producer.replied::<C>(delivery.body, delivery.properties, now);
            return of.map_or(Taken::Nothing, Taken::Reply);
        }
    };
    consumer.answered(now, false);
    context.tally.handled += 1;
    if consumer.keeps(tag, delivery, now) {
        context.tally.activity.undone += 1;
        return Taken::Waits { is_full: consumer.is_full() };
    }
    if !receive::<C, E>(consumer, delivery, now, context) {
        return Taken::Nothing;
    }
    Taken::Message { is_request: prepare_reply::<C, E>(consumer, delivery, context) }
}

/// Counts a delivery that its consumer takes; tells whether it still wants it.
#[inline(always)]
fn receive<C: Connection, E: Environment>(
    consumer: &mut Consumer,
    delivery: Received<'_>,
    now: Time,
    context: &mut Context<'_, E>,
) -> bool {
    let wanted = consumer.wants();
    if wanted == Wanted::No {
        return false;
    }
    let ours = consumer.take::<C>(
        delivery,
        now,
        context.series.current(),
        &mut context.tally.latency,
        context.ledger.as_mut(),
    );
    context.tally.activity.taken += 1;
    let may_be_unexpected = delivery.redelivered
        || (context.ledger.is_none() && (!consumer.spec.is_sent_to || C::is_dead_letter(delivery.properties)));
    context.tally.progress.received += u64::from(ours);
    context.tally.progress.uncertain += u64::from(ours && may_be_unexpected);
    if wanted == Wanted::Last {
        context.tell(Report::CountReached);
    }
    true
}

/// Prepares the answer to a delivery where it is a request; tells whether it is.
#[inline(always)]
fn prepare_reply<C: Connection, E: Environment>(
    consumer: &Consumer,
    delivery: Received<'_>,
    context: &mut Context<'_, E>,
) -> bool {
    let Received { body, properties, .. } = delivery;
    let to = consumer.spec.responds.then(|| C::reply_to(properties)).flatten();
    if let Some(to) = to {
        context.reply.prepare(to, body, C::trace_header(properties));
    }
    to.is_some()
}

/// Takes and settles all that a consumer has come to by now.
fn work_through<C: Connection, E: Environment>(
    consumer: &mut Consumer,
    service: &mut Service,
    receiver: &mut C::Handle<'_>,
    now: Time,
    context: &mut Context<'_, E>,
) -> Result<(), Error> {
    while let Some(step) = service.step(now)
        && let Some((tag, delivery)) = service.oldest()
    {
        if step == ServiceStep::Take && receive::<C, E>(consumer, delivery, now, context) {
            service.begin();
            continue;
        }
        let is_request = step == ServiceStep::Settle && prepare_reply::<C, E>(consumer, delivery, context);
        service.discard();
        context.tally.activity.undone -= 1;
        if is_request {
            receiver.respond(context.reply)?;
        }
        if step == ServiceStep::Settle {
            consumer.settle(tag, now, receiver)?;
        }
    }
    Ok(())
}

impl<C: Connection, E: Environment> Client<C, E> {
    /// Decodes whole frames and returns how many bytes they took.
    pub(super) fn decode(&mut self, now: Time, bytes: &[u8], context: &mut Context<'_, E>) -> Result<usize, Error> {
        let decoded = self.decode_frames(now, bytes, context);
        // Also where it failed: what came before was received now, not when the next batch comes.
        for work in &mut self.participants {
            if let Participant::Consumer(consumer) = work {
                consumer.end_of_batch(now, context.series.current(), &mut context.tally.latency);
            }
        }
        decoded
    }

    fn decode_frames(&mut self, now: Time, bytes: &[u8], context: &mut Context<'_, E>) -> Result<usize, Error> {
        let mut at = 0;
        // The batch came at one instant: all of it before the end of the drain, or none.
        let is_over = context.series.is_finished();
        if self.early.is_some() {
            self.take_early(now, context)?;
        }
        while !self.full && self.early.is_none() {
            let mut input = &bytes[at..];
            let event = self.driver.connection.poll(now, &mut input)?;
            at = bytes.len() - input.len();
            match event {
                Some((client, Event::Delivery { tag, redelivered, body, properties })) => {
                    let delivery = Received { body, properties, redelivered };
                    match (self.state, self.participants.get_mut(client)) {
                        (ConnectionState::Running, Some(work)) if !is_over => {
                            let taken = arrive::<C, E>(work, tag, delivery, now, context);
                            self.follow_up(client, tag, taken, now, context)?;
                        }
                        (ConnectionState::SettingUp | ConnectionState::Ready, _) => {
                            self.early = Some(EarlyDelivery::new(client, tag, delivery));
                            self.take_early(now, context)?;
                        }
                        // After the end of the drain nothing is counted, nor acknowledged.
                        _ => {}
                    }
                }
                Some((client, Event::Confirm(confirm))) => {
                    if self.confirmed(client, confirm, now, context)? < confirm.named() {
                        self.note_repeated(confirm, context);
                    }
                }
                Some((client, Event::Committed)) => self.committed(client, now, context)?,
                Some((_, Event::Answer)) => {
                    self.proceed(now, context)?;
                    if self.state == ConnectionState::Gone {
                        break;
                    }
                }
                Some((client, Event::Empty)) => {
                    if let Some(Participant::Consumer(consumer)) = self.participants.get_mut(client) {
                        consumer.answered(now, true);
                    }
                }
                Some((client, Event::Returned { body, properties })) => {
                    if let Some(work) = self.participants.get(client) {
                        returned::<C, E>(work, body, properties, now, context);
                    }
                }
                Some((_, Event::Blocked { reason })) => {
                    self.withheld = true;
                    // AMQP's short strings are never too long for it.
                    let reason = Reason::from(reason).unwrap_or_default();
                    context.tell(Report::Blocked { at: now, reason });
                }
                Some((_, Event::Unblocked)) => {
                    self.withheld = false;
                    context.tell(Report::Event(RunEvent::Unblocked { at: now }));
                }
                Some((_, Event::Other)) => {}
                None => break,
            }
        }
        // Where a consumer is full, or the load has not begun, the rest waits.
        self.driver.undecoded |= self.early.is_some() || (self.full && at < bytes.len());
        Ok(at)
    }

    /// Takes the delivery that came before the load began, once it has.
    #[cold]
    fn take_early(&mut self, now: Time, context: &mut Context<'_, E>) -> Result<(), Error> {
        if self.state == ConnectionState::SettingUp {
            self.is_set_up(context);
        }
        if self.state != ConnectionState::Running {
            return Ok(());
        }
        let Some(early) = self.early.take() else { return Ok(()) };
        let Some(work) = self.participants.get_mut(early.client) else { return Ok(()) };
        let taken = arrive::<C, E>(work, early.tag, early.delivery(), now, context);
        self.follow_up(early.client, early.tag, taken, now, context)
    }

    /// Does what a delivery asks for.
    #[inline(always)]
    fn follow_up(
        &mut self,
        client: usize,
        tag: u64,
        taken: Taken,
        now: Time,
        context: &mut Context<'_, E>,
    ) -> Result<(), Error> {
        match (taken, self.participants.get_mut(client)) {
            (Taken::Reply(of), _) => {
                self.confirmed(client, Confirm::of(of), now, context)?;
            }
            (Taken::Message { is_request }, Some(Participant::Consumer(consumer))) => {
                let mut receiver = self.driver.connection.handle(client);
                if is_request {
                    receiver.respond(context.reply)?;
                }
                consumer.settle(tag, now, &mut receiver)?;
            }
            (Taken::Waits { is_full }, _) => self.full = is_full,
            _ => {}
        }
        Ok(())
    }

    /// Goes on with the set-up or the way out.
    fn proceed(&mut self, now: Time, context: &mut Context<'_, E>) -> Result<(), Error> {
        self.dialing.set_up_deadline = now + self.dialing.timeout;
        match self.driver.connection.proceed(now)? {
            Progress::Ready => {
                self.is_accepted();
                if self.state == ConnectionState::SettingUp {
                    self.is_set_up(context);
                }
            }
            Progress::Closed => self.state = ConnectionState::Gone,
            Progress::Waiting | Progress::LoggedIn | Progress::Answered => {}
        }
        if self.has_begun
            && self.driver.connection.is_answered()
            && let Some(ledger) = context.ledger
        {
            for work in &mut self.participants {
                if let Participant::Consumer(consumer) = work {
                    consumer.is_answered(ledger);
                }
            }
        }
        Ok(())
    }

    /// All that can be requested before the load is done: subscriptions alone are unanswered, and a delivery has come.
    fn is_set_up(&mut self, context: &mut Context<'_, E>) {
        self.state = ConnectionState::Ready;
        self.make_room();
        self.resume(context);
    }

    fn committed(&mut self, client: usize, now: Time, context: &mut Context<'_, E>) -> Result<(), Error> {
        if let Some(Participant::Producer(producer)) = self.participants.get_mut(client) {
            producer.committed();
            self.confirmed(client, Confirm::ALL, now, context)?;
        }
        Ok(())
    }

    /// The broker has answered messages again, which counts for nothing: told once for each client.
    #[cold]
    fn note_repeated(&mut self, confirm: Confirm, context: &mut Context<'_, E>) {
        if !std::mem::replace(&mut self.repeats, true) {
            let which = match confirm.first.filter(|first| *first < confirm.last) {
                Some(first) => format!("some of the messages {first} to {}", confirm.last),
                None => format!("message {}", confirm.last),
            };
            context.tell(Report::Event(RunEvent::Note(format!(
                "{} answered {which} of a connection a second time; only the first answer counts",
                self.driver.connection.endpoint()
            ))));
        }
    }

    /// Takes an answer; tells how many messages it was the first for.
    #[inline]
    fn confirmed(
        &mut self,
        client: usize,
        confirm: Confirm,
        now: Time,
        context: &mut Context<'_, E>,
    ) -> Result<u64, Error> {
        let Some(Participant::Producer(producer)) = self.participants.get_mut(client) else { return Ok(0) };
        // What is answered after the end of the drain came too late for the ledger, too.
        let counts = self.state == ConnectionState::Running && !context.series.is_finished();
        let (interval, latency) = (context.series.current(), &mut context.tally.latency);
        let ledger = context.ledger.as_mut().filter(|_| counts);
        let count = producer.answer(confirm, now, interval, latency, ledger).map_err(|_| Error::Protocol {
            endpoint: self.driver.connection.endpoint().to_string(),
            detail: format!("the broker confirmed message {}, which was never sent", confirm.last),
        })?;
        let is_first = |sent| context.shared.control.is_first_confirm(sent);
        if count > 0
            && confirm.outcome != DeliveryOutcome::Refused
            && is_first(|| Time(now.0.saturating_sub(latency.0)))
        {
            context.tell(Report::Event(RunEvent::FirstConfirm { at: now }));
        }
        let progress = &mut context.tally.progress;
        progress.open = progress.open.saturating_sub(count);
        if confirm.outcome != DeliveryOutcome::Accepted {
            let lost = count * producer.spec.expected_deliveries;
            progress.expected = progress.expected.saturating_sub(lost);
        }
        context.tally.handled += count;
        Ok(count)
    }

    /// Sees to the consumers that have more to do than to take what comes; tells when next.
    pub(super) fn tend(&mut self, context: &mut Context<'_, E>) -> Result<Option<Time>, Error> {
        if !self.busy || self.state != ConnectionState::Running {
            return Ok(None);
        }
        let now = context.now();
        if context.series.phase() == Phase::Drain && context.series.is_finished() {
            return Ok(None);
        }
        let mut next: Option<Time> = None;
        if std::mem::take(&mut self.full) {
            // It did not listen.
            self.waits.heard = now;
        }
        for at in 0..self.participants.len() {
            self.work(at, now, context)?;
            if let Some(Participant::Consumer(consumer)) = self.participants.get_mut(at) {
                let due = consumer.tend(now, &mut self.driver.connection.handle(at))?;
                next = [next, due].into_iter().flatten().min();
                self.full |= consumer.is_full();
            }
        }
        Ok(next)
    }

    /// Has a consumer that takes its time take what waits for it and settle what it is done with.
    fn work(&mut self, at: usize, now: Time, context: &mut Context<'_, E>) -> Result<(), Error> {
        let Some(Participant::Consumer(consumer)) = self.participants.get_mut(at) else { return Ok(()) };
        let Some(mut service) = consumer.service.take() else { return Ok(()) };
        let mut receiver = self.driver.connection.handle(at);
        let worked = work_through::<C, E>(consumer, &mut service, &mut receiver, now, context);
        // Also where it failed: what waits goes back to its queue.
        consumer.service = Some(service);
        consumer.end_of_batch(now, context.series.current(), &mut context.tally.latency);
        if let Some(ledger) = context.ledger {
            ledger.send_when_due(context.reports);
        }
        worked
    }

    /// Gives every producer a turn, as long as the socket takes what they send.
    pub(super) fn send(&mut self, context: &mut Context<'_, E>) -> Result<SendState, Error> {
        if self.state != ConnectionState::Running || self.withheld || !self.driver.is_clear() {
            return Ok(SendState::Idle);
        }
        let now = context.now();
        let drain_at = context.shared.boundaries().drain_at;
        let draining = context.series.phase() == Phase::Drain;
        // Later only what is sent again may go.
        let is_over = now > drain_at + CATCH_UP;
        if draining && is_over && !self.producers().any(Producer::resends) {
            return Ok(SendState::Idle);
        }
        let due_until = if is_over { Time(0) } else { drain_at };
        let (mut send_state, mut has_sent) = (SendState::Idle, false);
        for _ in 0..self.participants.len() {
            let at = self.next_work;
            self.next_work = (at + 1) % self.participants.len();
            let Some(Participant::Producer(producer)) = self.participants.get_mut(at) else { continue };
            let mut sender = self.driver.connection.handle(at);
            let interval = context.series.current();
            let sent = if draining {
                producer.catch_up(due_until, now, &mut sender, interval)?
            } else {
                producer.send(now, &mut sender, interval)?
            };
            if let Some(ledger) = context.ledger.as_ref().filter(|_| sent.count > 0) {
                ledger.publish_sent(producer.spec.id, producer.sent());
            }
            has_sent |= sent.count + sent.resent > 0;
            let written = sender.pending() < BATCH_BYTES;
            let progress = &mut context.tally.progress;
            // Only a ledger knows which of two copies was expected.
            let copies = if context.ledger.is_none() { sent.resent } else { 0 };
            progress.expected += (sent.count + copies) * producer.spec.expected_deliveries;
            if producer.has_answers() {
                progress.open += sent.count;
            }
            if sent.reached_limit && context.shared.producers_left.fetch_sub(1, Ordering::Relaxed) == 1 {
                context.tell(Report::CountReached);
            }
            send_state = send_state.min(sent.send_state);
            if !written {
                // The others are next, when this is written.
                if self.participants.len() > 1 {
                    send_state = SendState::More;
                }
                break;
            }
        }
        if has_sent {
            self.had_credit(context);
        }
        self.flush()?;
        Ok(send_state)
    }
}
