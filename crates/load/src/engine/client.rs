//! One client on its socket: reads in batches, decides, writes in batches.

mod flow;
mod reconnect;
mod waiting;

use std::net::IpAddr;

use measure::{EarlyDeliveries, Nanos, Phase, Time, Wait};
use transport::{ConnectAttempt, ConnectOptions, Dial, Readiness};

use self::reconnect::Reconnect;
pub(crate) use self::waiting::end_silences;
use super::consumer::Consumer;
use super::context::Context;
use super::producer::{BATCH_BYTES, Producer, SendState};
use super::shared::Undelivered;
use super::spec::{ClientSpec, ParticipantKind, ParticipantSpec};
use crate::protocol::{Connection, Driver, Input, Received, Sender};
use crate::resolve::{Node, Nodes};
use crate::{Environment, Error, failure};

/// A client reads nothing more while answers to what it has read take this much: acknowledgements would pile up.
const UNREAD_ABOVE: usize = 1 << 20;
/// Room for the piece of a confirm that a read cuts off.
const ANSWER_ROOM: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionState {
    Connecting,
    SettingUp,
    /// Set up, waiting for the common start.
    Ready,
    Running,
    /// Lost its connection, and waits to make a new one.
    Broken,
    Leaving,
    Gone,
}

pub(crate) enum Participant {
    Producer(Producer),
    Consumer(Consumer),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Another turn, for there is more to do.
    Again,
    /// A turn at this time at the latest.
    At(Time),
    /// A turn when its socket stirs.
    Wait,
}

pub(crate) struct Client<C, E: Environment> {
    driver: Driver<C, <E::Poll as Dial>::Stream>,
    /// One for each of the link's channels.
    participants: Vec<Participant>,
    /// Consumers have more to do than to take what comes.
    busy: bool,
    /// A consumer wants nothing more for now.
    full: bool,
    /// Whose turn it is to send.
    next_work: usize,
    pub(crate) state: ConnectionState,
    dialing: Dialing,
    /// Bytes that its buffers may take before they are needed.
    room: usize,
    unread_above: usize,
    /// Delivery that came before the load began.
    early: Option<EarlyDelivery>,
    /// The broker asked for no more messages.
    withheld: bool,
    /// The broker has answered a message twice, which is told.
    repeats: bool,
    /// The last fence that was put up on all its channels; 0 for none on this connection.
    fenced: u64,
    /// In the worker's queue already.
    pub(crate) queued: bool,
    /// When the worker's timer will call it.
    pub(crate) timed: Option<Time>,
    /// The common start has come, whatever state its connection was in.
    has_begun: bool,
    waits: Waits,
}

/// Where a client connects to, and how long it tries.
struct Dialing {
    /// The nodes that it may connect to, and the one that it does.
    nodes: Nodes,
    node: usize,
    /// Counts its connections, so that each begins with another address.
    dials: usize,
    source: Option<IpAddr>,
    reconnect: Option<Reconnect>,
    timeout: Nanos,
    /// When the step of its set-up that is in progress must be answered. Only an answer that was asked for
    /// renews it, and there are so many of those as the set-up has steps.
    set_up_deadline: Time,
}

/// Instants and reasons of a client's waits.
#[derive(Default)]
struct Waits {
    /// Since when the broker has given no credit, and whether that is told.
    without_credit: Option<(Time, bool)>,
    /// Why its producers wait, and how far their time is accounted for.
    waiting: Option<(Wait, Time)>,
    /// When the next message is due, where that is what it waits for.
    due: Option<Time>,
    /// When the broker last answered or delivered a message.
    heard: Time,
    resumed: Option<Time>,
}

impl<C: Connection, E: Environment> Client<C, E> {
    pub(crate) fn connect(
        spec: ClientSpec<C::ClientSpec>,
        poll: &E::Poll,
        token: usize,
        now: Time,
    ) -> Result<Self, Error> {
        let timeout = spec.connection.timeout;
        let set_up_deadline = now + timeout;
        let node = &spec.nodes[spec.node];
        let attempt = attempt(node, spec.index, spec.source, set_up_deadline);
        let connection = C::new(spec.connection, now);
        let driver = Driver::connect(connection, attempt, poll, token, now)?;
        let participants = spec.participants.into_iter().map(|participant: ParticipantSpec| match participant.kind {
            ParticipantKind::Producer(spec) => Participant::Producer(Producer::new(spec)),
            ParticipantKind::Consumer(spec) => Participant::Consumer(Consumer::new(spec)),
        });
        Ok(Self {
            driver,
            participants: participants.collect(),
            busy: false,
            full: false,
            next_work: 0,
            state: ConnectionState::Connecting,
            dialing: Dialing {
                nodes: spec.nodes,
                node: spec.node,
                dials: spec.index,
                source: spec.source,
                reconnect: spec.reconnect.map(Reconnect::new),
                timeout,
                set_up_deadline,
            },
            room: spec.room,
            unread_above: UNREAD_ABOVE,
            early: None,
            withheld: false,
            repeats: false,
            fenced: 0,
            queued: false,
            timed: None,
            has_begun: false,
            waits: Waits { heard: now, ..Waits::default() },
        })
    }

    #[inline]
    pub(crate) fn notice(&mut self, readiness: Readiness) {
        self.driver.notice(readiness);
    }

    pub(crate) fn start(&mut self, start: Time) {
        self.has_begun = true;
        if self.state == ConnectionState::Ready {
            self.state = ConnectionState::Running;
            self.waits.heard = start;
        }
        // Also for a client that has lost its connection since the start was announced.
        for work in &mut self.participants {
            match work {
                Participant::Producer(producer) => {
                    producer.start(start);
                    self.waits.waiting = Some((Wait::Schedule, start));
                }
                Participant::Consumer(consumer) => {
                    consumer.start(start);
                    self.busy |= consumer.is_busy();
                }
            }
        }
    }

    pub(crate) fn leave(&mut self, now: Time) -> Result<(), Error> {
        match self.state {
            ConnectionState::Running | ConnectionState::Ready => {
                for (at, work) in self.participants.iter_mut().enumerate() {
                    if let Participant::Consumer(consumer) = work {
                        consumer.flush(&mut self.driver.connection.handle(at))?;
                    }
                }
                self.state = ConnectionState::Leaving;
                (self.early, self.full) = (None, false);
                self.driver.connection.leave(now)
            }
            ConnectionState::Leaving => Ok(()),
            _ => {
                self.state = ConnectionState::Gone;
                Ok(())
            }
        }
    }

    /// Does one bounded batch of whatever can be done.
    #[inline]
    pub(crate) fn poll(&mut self, context: &mut Context<'_, E>) -> Result<Next, Error> {
        if self.state == ConnectionState::Broken
            && let Some(due) = self.connect_again(context)?
        {
            self.account(SendState::Idle, context);
            return Ok(Next::At(due));
        }
        if self.state == ConnectionState::Connecting && !self.finish_connecting(context)? {
            return Ok(Next::Wait);
        }
        if self.may_read() {
            self.listen(context)?;
        }
        let due = self.tend(context)?;
        self.flush()?;
        let send_state = self.send(context)?;
        self.account(send_state, context);
        Ok(match send_state.min(due.map_or(SendState::Idle, SendState::Until)) {
            SendState::More if self.driver.is_clear() => Next::Again,
            _ if self.may_read() => Next::Again,
            SendState::Until(due) => Next::At(due),
            _ => Next::Wait,
        })
    }

    fn finish_connecting(&mut self, context: &mut Context<'_, E>) -> Result<bool, Error> {
        let now = context.now();
        let is_connected = self.driver.finish_connecting(context.poll, now)?;
        if is_connected {
            self.state = ConnectionState::SettingUp;
            self.dialing.set_up_deadline = now + self.dialing.timeout;
        }
        Ok(is_connected)
    }

    fn may_read(&self) -> bool {
        self.driver.is_readable() && self.is_listening()
    }

    /// Whether it takes what comes. While it does not, the peer's silence means nothing.
    fn is_listening(&self) -> bool {
        match self.state {
            ConnectionState::Broken | ConnectionState::Gone => false,
            // Deliveries are neither kept nor answered any more.
            ConnectionState::Leaving => true,
            ConnectionState::Connecting
            | ConnectionState::SettingUp
            | ConnectionState::Ready
            | ConnectionState::Running => {
                let waits_for_start = self.early.is_some() && self.state != ConnectionState::Running;
                !waits_for_start && !self.full && self.driver.unwritten() < self.unread_above
            }
        }
    }

    /// Reads, and notes when a message was answered or delivered.
    fn listen(&mut self, context: &mut Context<'_, E>) -> Result<(), Error> {
        let before = context.tally.handled;
        let silence = self.silence(context.tally.last_now);
        if silence.is_some() {
            self.take_oldest_answered();
        }
        self.read(context)?;
        if context.tally.handled != before {
            self.waits.heard = context.tally.last_now;
            if let Some(silence) = silence {
                self.answered_after(silence, context);
            }
            context.tally.hears(self.waits.heard);
        }
        Ok(())
    }

    fn read(&mut self, context: &mut Context<'_, E>) -> Result<(), Error> {
        let filled = match self.driver.read(context.buffer, context.cipher, context.tally.last_now)? {
            Input::Bytes(filled) => filled,
            Input::Nothing => return Ok(()),
            Input::End if self.state == ConnectionState::Leaving => {
                self.state = ConnectionState::Gone;
                return Ok(());
            }
            Input::End => return Err(self.driver.ended()),
        };
        // After the read: whatever is in the buffer was sent before this instant.
        let now = context.now();
        let buffer = std::mem::take(&mut context.buffer);
        let decoded = self.decode(now, &buffer[..filled], context);
        context.buffer = buffer;
        let decoded = decoded.map_err(|error| self.driver.part(error, now))?;
        if let Some(ledger) = context.ledger {
            ledger.send_when_due(context.reports);
        }
        self.driver.keep(&context.buffer[decoded..filled]);
        Ok(())
    }

    /// Makes room for all that may wait in memory, so that nothing is allocated later.
    fn make_room(&mut self) {
        let (mut output, mut input) = (0, 0);
        let mut batch = 0;
        for (at, work) in self.participants.iter().enumerate() {
            let (writes, reads) = match work {
                Participant::Producer(producer) => {
                    let sender = self.driver.connection.handle(at);
                    batch = batch.max(BATCH_BYTES + sender.message_wire_len().1);
                    (producer.output_room(&sender), ANSWER_ROOM)
                }
                Participant::Consumer(consumer) => (consumer.output_room::<C>(), consumer.input_room::<C>()),
            };
            output += writes;
            input = reads.max(input);
        }
        self.unread_above = UNREAD_ABOVE + batch;
        self.driver.connection.reserve(output.min(self.room));
        self.driver.reserve(input.min(self.room));
    }

    fn flush(&mut self) -> Result<(), Error> {
        let reads = self.is_listening();
        self.driver.flush(reads)
    }

    /// Handles heartbeats, left-over acknowledgements, and time-outs. Tells whether the client needs a turn. `stalled`
    /// if its thread did nothing for a while.
    pub(crate) fn housekeep(&mut self, now: Time, phase: Phase, stalled: bool) -> Result<bool, Error> {
        if matches!(self.state, ConnectionState::Broken | ConnectionState::Gone) {
            return Ok(false);
        }
        // Only a socket that was looked into and had nothing is silent.
        if stalled || self.driver.is_readable() || !self.is_listening() {
            self.driver.connection.excuse_silence(now);
        }
        self.driver.handle_timeout(now)?;
        let setting_up = matches!(self.state, ConnectionState::Connecting | ConnectionState::SettingUp);
        // A loop that did not run has not read the answers yet.
        if setting_up && !stalled && now > self.dialing.set_up_deadline {
            return Err(self.driver.timed_out(self.dialing.timeout));
        }
        if self.driver.is_late(now) {
            return Ok(true);
        }
        self.driver.connection.renew_token()?;
        if self.state == ConnectionState::Running {
            for (at, work) in self.participants.iter_mut().enumerate() {
                match work {
                    Participant::Consumer(consumer) if consumer.gathers_acks() => {
                        consumer.flush_if_idle(now, &mut self.driver.connection.handle(at))?;
                    }
                    Participant::Consumer(_) => {}
                    Participant::Producer(producer) => {
                        if let Some(waited) = producer.overdue(now) {
                            return Err(failure::of_confirm(self.driver.connection.endpoint(), waited));
                        }
                        if phase == Phase::Drain {
                            producer.commit(&mut self.driver.connection.handle(at))?;
                        }
                    }
                }
            }
        }
        Ok(self.driver.unwritten() > 0 && self.driver.is_writable())
    }

    /// Asks for an answer on each channel where something may be unseen: consumers', and unanswered producers'.
    pub(crate) fn fence(&mut self, number: u64, now: Time) -> Result<(), Error> {
        if self.state != ConnectionState::Running {
            return Ok(());
        }
        for (at, work) in self.participants.iter_mut().enumerate() {
            match work {
                Participant::Consumer(consumer) => consumer.fence(now),
                Participant::Producer(producer) if producer.has_answers() => continue,
                Participant::Producer(_) => {}
            }
            self.driver.connection.fence(at)?;
        }
        self.fenced = number;
        Ok(())
    }

    /// Whether the answers of that fence have come.
    fn has_passed(&self, fence: u64) -> bool {
        self.state == ConnectionState::Running && self.fenced == fence && self.driver.connection.is_answered()
    }

    /// The most that may still come to it beside what queues hold that others can ask; `None` where nobody knows.
    pub(crate) fn most_undelivered(&self, fence: u64) -> Option<u64> {
        let answers_all = |work: &Participant| matches!(work, Participant::Producer(p) if p.has_answers());
        let is_known = self.participants.iter().all(answers_all) || self.has_passed(fence);
        let each = self.undelivered(fence);
        let sum = each.fold(0u64, |sum, it| sum.saturating_add(it.in_queue).saturating_add(it.in_flight));
        (is_known && sum < u64::MAX).then_some(sum)
    }

    /// Deliveries that its consumers may still get, where there are any.
    pub(crate) fn undelivered(&self, fence: u64) -> impl Iterator<Item = Undelivered> {
        let passed = self.has_passed(fence);
        let each = self.participants.iter().enumerate().filter_map(move |(at, work)| {
            let Participant::Consumer(consumer) = work else { return None };
            let held = self.driver.connection.holds(at).filter(|_| passed);
            Some(Undelivered {
                recipient: consumer.spec.recipient,
                in_queue: held.unwrap_or(0),
                in_flight: if passed { consumer.in_flight(held.is_some()) } else { u64::MAX },
            })
        });
        each.filter(|it| it.in_queue > 0 || it.in_flight > 0)
    }

    fn consumers(&self) -> impl Iterator<Item = &Consumer> {
        self.participants.iter().filter_map(|work| match work {
            Participant::Consumer(consumer) => Some(consumer),
            Participant::Producer(_) => None,
        })
    }

    fn producers(&self) -> impl Iterator<Item = &Producer> {
        self.participants.iter().filter_map(|work| match work {
            Participant::Producer(producer) => Some(producer),
            Participant::Consumer(_) => None,
        })
    }

    fn producers_mut(&mut self) -> impl Iterator<Item = &mut Producer> {
        self.participants.iter_mut().filter_map(|work| match work {
            Participant::Producer(producer) => Some(producer),
            Participant::Consumer(_) => None,
        })
    }

    /// Bitmaps of its consumers of which not all is owed.
    pub(crate) fn owed(&self) -> impl Iterator<Item = (usize, u64)> {
        self.consumers().flat_map(Consumer::owed)
    }

    /// Deliveries of several clients that came before they were sent.
    pub(crate) fn early_of_all(clients: &[Self]) -> EarlyDeliveries {
        let mut early = EarlyDeliveries::default();
        clients.iter().flat_map(Self::consumers).for_each(|it| early.add(it.early()));
        early
    }

    pub(crate) fn unanswered(&self) -> u64 {
        self.producers().map(Producer::unanswered).sum()
    }

    /// The numbers of its producers, and how much each sent.
    pub(crate) fn sent(&self) -> impl Iterator<Item = (u32, u64)> {
        self.producers().map(|p| (p.spec.id, p.sent()))
    }

    /// Whether it still has to catch up with the return of a broker: a producer with its schedule,
    /// a consumer with what was due from `since` on.
    pub(crate) fn is_behind(&self, now: Time, since: Time) -> bool {
        self.state != ConnectionState::Running
            || self.participants.iter().any(|work| match work {
                Participant::Producer(producer) => producer.is_late(now),
                Participant::Consumer(consumer) => consumer.latest() < since,
            })
    }

    fn hang_up(&mut self) {
        self.state = ConnectionState::Broken;
        if let Some(early) = self.early.take() {
            let connection = &mut self.driver.connection;
            connection.untaken(early.client, early.delivery().properties);
        }
        (self.withheld, self.full) = (false, false);
        self.driver.hang_up();
    }

    fn dial_again(&mut self, now: Time, poll: &E::Poll) -> Result<(), Error> {
        self.state = ConnectionState::Connecting;
        let its = &mut self.dialing;
        its.set_up_deadline = now + its.timeout;
        let node = &its.nodes[its.node];
        let attempt = attempt(node, its.dials, its.source, its.set_up_deadline);
        self.driver.reconnect(&node.endpoint, attempt, poll, now)
    }

    /// Goes on to the next node and its next address, and asks what addresses the node has by now.
    fn turn_to_next(&mut self, now: Time) {
        let its = &mut self.dialing;
        its.node = (its.node + 1) % its.nodes.len();
        its.dials = its.dials.wrapping_add(1);
        its.nodes[its.node].addresses.refresh(now);
    }
}

/// The `index`-th connection to a node, with all its addresses to try.
fn attempt(node: &Node, index: usize, source: Option<IpAddr>, deadline: Time) -> ConnectAttempt {
    let tls = node.tls.clone();
    let addresses = node.addresses.in_turn(index, source);
    ConnectAttempt::new(addresses, ConnectOptions { source, tls }, deadline)
}

/// A copy of the first delivery of a connection that is set up and waits for the common start.
/// Nothing is read behind it until the load begins: what waits is with the broker, and in the
/// socket's buffers.
#[derive(Debug)]
struct EarlyDelivery {
    client: usize,
    tag: u64,
    redelivered: bool,
    body: Vec<u8>,
    properties: Vec<u8>,
}

impl EarlyDelivery {
    #[cold]
    fn new(client: usize, tag: u64, delivery: Received<'_>) -> Self {
        Self {
            client,
            tag,
            redelivered: delivery.redelivered,
            body: delivery.body.to_vec(),
            properties: delivery.properties.to_vec(),
        }
    }

    fn delivery(&self) -> Received<'_> {
        Received { body: &self.body, properties: &self.properties, redelivered: self.redelivered }
    }
}
