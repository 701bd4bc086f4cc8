//! One client on its socket: reads in batches, decides, writes in batches.

use std::net::IpAddr;

use measure::{Nanos, Phase, Time, Wait};
use mio::event::Event;
use mio::{Registry, Token};

use super::consumer::Consumer;
use super::context::Context;
use super::deal::{ClientSpec, LaneSpec, WorkSpec};
use super::early::EarlyDelivery;
use super::producer::{BATCH_BYTES, Producer, Standing};
use super::repair::Repair;
use super::socket::{Failure, Places, Received, Socket};
use crate::dial::Attempt;
use crate::link::{FRAME_MAX, Link};
use crate::{Endpoint, Error, failure, tls};

/// Room for one whole frame beside what one read brings.
pub(crate) const BUFFER_BYTES: usize = 2 * FRAME_MAX as usize;
/// A client reads nothing more while the answers to what it has read take this much, beside what its
/// producers may write at once: acknowledgements would pile up.
const UNREAD_ABOVE: usize = 1 << 20;
/// So many channels may take as long to set up as a connection with one.
const CHANNELS_AT_ONCE: usize = 128;

/// Room for the piece of a confirm that a read cuts off.
const ANSWER_ROOM: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
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

pub(super) enum Work {
    Producer(Producer),
    Consumer(Consumer),
}

/// What a client wants next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Another turn, for there is more to do.
    Again,
    /// A turn at this time at the latest.
    At(Time),
    /// A turn when its socket stirs.
    Wait,
}

pub(crate) struct Client {
    socket: Socket,
    pub(super) link: Link,
    /// One for each of the link's channels.
    pub(super) works: Vec<Work>,
    /// Consumers have more to do than to take what comes.
    pub(super) busy: bool,
    /// A consumer wants nothing more for now.
    pub(super) full: bool,
    /// Whose turn it is to send.
    pub(super) next_work: usize,
    pub(crate) state: State,
    pub(super) token: Token,
    /// The nodes that it may connect to, and the one that it does.
    places: Places,
    place: usize,
    /// Counts its connections, so that each begins with another address.
    dials: usize,
    /// The address that it connects from, where that matters.
    source: Option<IpAddr>,
    /// The node's addresses that it has not tried yet.
    attempt: Attempt,
    pub(super) recovery: Option<Repair>,
    pub(super) patience: Nanos,
    /// When it must be set up; nothing that comes moves it.
    set_up_deadline: Time,
    pub(super) endpoint: Endpoint,
    /// What its buffers may take before they are needed.
    room: usize,
    /// See [`UNREAD_ABOVE`].
    unread_above: usize,
    /// What came before the load began.
    pub(super) early: Option<EarlyDelivery>,
    /// Bytes read and not decoded yet.
    rest: Vec<u8>,
    /// Bytes that the rest needs before anything can be decoded.
    needed: usize,
    /// The rest may hold whole frames.
    pub(super) undecoded: bool,
    /// The broker asked for no more messages.
    pub(super) withheld: bool,
    /// The last fence that was put up on all its channels; 0 for none on this connection.
    pub(super) fenced: u64,
    /// In the worker's queue already.
    pub(crate) queued: bool,
    /// When the worker's timer will call it.
    pub(crate) timed: Option<Time>,
    /// What its producers wait for, and how far their time is accounted for.
    pub(super) waiting: Option<(Wait, Time)>,
    /// When the next message is due, where that is what it waits for.
    pub(super) due: Option<Time>,
}

impl Client {
    /// Starts to connect.
    pub(crate) fn connect(
        spec: ClientSpec,
        registry: &Registry,
        token: Token,
        now: Time,
    ) -> Result<Self, Error> {
        let endpoint = spec.link.endpoint.clone();
        let patience = spec.link.patience;
        let lanes = spec.lanes.len();
        let set_up_deadline = now + set_up_time(patience, lanes);
        let place = &spec.places[spec.place];
        let way = (spec.turn, spec.source);
        let tls = place.tls.clone();
        let mut attempt = Attempt::new(&place.addresses, way, tls, set_up_deadline);
        let socket = attempt
            .dial(registry, token, now)
            .map_err(|error| not_connected(&endpoint, error))?;
        let works = spec
            .lanes
            .into_iter()
            .map(|lane: LaneSpec| match lane.work {
                WorkSpec::Producer(spec) => Work::Producer(Producer::new(spec)),
                WorkSpec::Consumer(spec) => Work::Consumer(Consumer::new(spec)),
            });
        Ok(Self {
            socket,
            link: Link::new(spec.link, now),
            works: works.collect(),
            busy: false,
            full: false,
            next_work: 0,
            state: State::Connecting,
            token,
            places: spec.places,
            place: spec.place,
            dials: spec.turn,
            source: spec.source,
            attempt,
            recovery: spec.recovery.map(Repair::new),
            patience,
            set_up_deadline,
            endpoint,
            room: spec.room,
            unread_above: UNREAD_ABOVE,
            early: None,
            rest: Vec::new(),
            needed: 0,
            undecoded: false,
            withheld: false,
            fenced: 0,
            queued: false,
            timed: None,
            waiting: None,
            due: None,
        })
    }

    /// Takes what the poll says of the socket.
    pub(crate) fn notice(&mut self, event: &Event) {
        self.socket.notice(event);
    }

    /// The common start has come.
    pub(crate) fn start(&mut self, start: Time) {
        if self.state == State::Ready {
            self.state = State::Running;
            self.may_be_repaired_from_now_on();
            for work in &mut self.works {
                match work {
                    Work::Producer(producer) => {
                        producer.start(start);
                        self.waiting = Some((Wait::Schedule, start));
                    }
                    Work::Consumer(consumer) => {
                        consumer.start(start);
                        self.busy |= consumer.is_busy();
                    }
                }
            }
        }
    }

    /// Begins the way out.
    pub(crate) fn leave(&mut self, now: Time) -> Result<(), Error> {
        match self.state {
            State::Running | State::Ready => {
                for (at, work) in self.works.iter_mut().enumerate() {
                    if let Work::Consumer(consumer) = work {
                        consumer.flush(&mut self.link.lane(at))?;
                    }
                }
                self.state = State::Leaving;
                (self.early, self.full) = (None, false);
                self.link.leave(now)
            }
            State::Leaving => Ok(()),
            _ => {
                self.state = State::Gone;
                Ok(())
            }
        }
    }

    /// Does one bounded batch of whatever can be done.
    #[inline]
    pub(crate) fn turn(&mut self, context: &mut Context<'_>) -> Result<Next, Error> {
        if self.state == State::Broken
            && let Some(due) = self.connect_again(context)?
        {
            self.account(Standing::Idle, context);
            return Ok(Next::At(due));
        }
        if self.state == State::Connecting && !self.finish_connecting(context)? {
            return Ok(Next::Wait);
        }
        if self.may_read() {
            self.read(context)?;
        }
        let due = self.tend(context)?;
        self.flush()?;
        let standing = self.send(context)?;
        self.account(standing, context);
        Ok(match standing.or_at(due) {
            Standing::More if self.may_write() => Next::Again,
            _ if self.may_read() => Next::Again,
            Standing::Until(due) => Next::At(due),
            _ => Next::Wait,
        })
    }

    fn finish_connecting(&mut self, context: &mut Context<'_>) -> Result<bool, Error> {
        match self.socket.finish_connecting(self.endpoint.connection) {
            Ok(true) => {
                self.state = State::SettingUp;
                return Ok(true);
            }
            Ok(false) if !self.attempt.is_late(context.tally.last_now) => return Ok(false),
            Err(error) if !self.attempt.has_more() => {
                return Err(failure::of_connect(&self.endpoint, &error));
            }
            Ok(false) | Err(_) => {}
        }
        // The name has other addresses: one of another family, or another machine's.
        self.dial(context.now(), context.registry)?;
        Ok(false)
    }

    fn dial(&mut self, now: Time, registry: &Registry) -> Result<(), Error> {
        let dialled = self.attempt.dial(registry, self.token, now);
        self.socket = dialled.map_err(|error| not_connected(&self.endpoint, error))?;
        self.link.restart(&self.endpoint, now);
        Ok(())
    }

    pub(super) fn may_read(&self) -> bool {
        (self.socket.is_readable() || self.undecoded) && self.is_listening()
    }

    /// Whether it takes what comes. While it does not, the peer's silence means nothing.
    fn is_listening(&self) -> bool {
        match self.state {
            State::Broken | State::Gone => false,
            // Deliveries are neither kept nor answered any more.
            State::Leaving => true,
            State::Connecting | State::SettingUp | State::Ready | State::Running => {
                let waits_for_start = self.early.is_some() && self.state != State::Running;
                !waits_for_start && !self.full && self.unwritten() < self.unread_above
            }
        }
    }

    fn unwritten(&self) -> usize {
        self.link.pending_output().len() + self.socket.unsent()
    }

    pub(super) fn may_write(&self) -> bool {
        self.socket.is_clear() && self.link.pending_output().is_empty()
    }

    fn read(&mut self, context: &mut Context<'_>) -> Result<(), Error> {
        let kept = self.rest.len();
        let (_, tail) = context.buffer.split_at_mut(kept.min(BUFFER_BYTES));
        let mut filled = kept;
        let reads = !std::mem::take(&mut self.undecoded);
        if reads {
            match self.socket.read(context.cipher, tail) {
                Ok(Received::Bytes(n)) => filled += n,
                Ok(Received::Nothing) => return Ok(()),
                Ok(Received::End) if self.state == State::Leaving => {
                    self.state = State::Gone;
                    return Ok(());
                }
                Ok(Received::End) => return Err(self.ended()),
                Err(failure) => return Err(self.broken_by(failure)),
            }
        }
        // After the read: whatever is in the buffer was sent before this instant.
        let now = context.now();
        if reads && filled < self.needed {
            // A part of one frame: copied once, however small the pieces are that it comes in.
            self.rest.extend_from_slice(&context.buffer[kept..filled]);
            self.link.excuse_silence(now);
            return Ok(());
        }
        context.buffer[..kept].copy_from_slice(&self.rest);
        let buffer = std::mem::take(&mut context.buffer);
        let decoded = self.decode(now, &buffer[..filled], context);
        context.buffer = buffer;
        let decoded = decoded?;
        if let Some(pages) = context.pages {
            pages.send_when_due(context.reports);
        }
        self.rest.clear();
        self.rest
            .extend_from_slice(&context.buffer[decoded..filled]);
        self.needed = self.link.needs(&self.rest);
        Ok(())
    }

    /// Makes room for all that may wait in memory, so that nothing is allocated later.
    pub(super) fn make_room(&mut self) {
        let (mut output, mut input) = (0, 0);
        let mut batch = 0;
        for (at, work) in self.works.iter().enumerate() {
            let (writes, reads) = match work {
                Work::Producer(producer) => {
                    let lane = self.link.lane(at);
                    batch = batch.max(BATCH_BYTES + lane.message_wire_len().1);
                    (producer.output_room(&lane), ANSWER_ROOM)
                }
                Work::Consumer(consumer) => (consumer.output_room(), consumer.input_room()),
            };
            output += writes;
            input = reads.max(input);
        }
        self.unread_above = UNREAD_ABOVE + batch;
        self.link.reserve(output.min(self.room));
        self.rest.reserve(input.min(self.room));
    }

    /// Writes as much as the socket takes.
    pub(super) fn flush(&mut self) -> Result<(), Error> {
        match self.socket.flush(&mut self.link) {
            Ok(()) => Ok(()),
            // Whoever closed the connection may have said why; reading will tell.
            Err(Failure::Transport(_)) if self.may_read() => Ok(()),
            Err(failure) => Err(self.broken_by(failure)),
        }
    }

    /// What it means that the transport ended here.
    fn ended(&self) -> Error {
        let error = self.link.end_of_input(&self.rest);
        self.unless_secured(error)
    }

    /// What it means that the socket failed here.
    fn broken_by(&self, failure: Failure) -> Error {
        match failure {
            Failure::Transport(error) => self.unless_secured(self.link.transport_failed(&error)),
            Failure::Tls(fault) => tls::explain(&fault, &self.endpoint),
        }
    }

    /// The same, or that TLS did not come about.
    fn unless_secured(&self, error: Error) -> Error {
        if self.state == State::SettingUp && self.socket.is_being_secured() {
            tls::unfinished(&self.endpoint, &error.to_string())
        } else {
            error
        }
    }

    /// What is due now and then: heartbeats, left-over acknowledgements, steps that take too long.
    /// Tells whether the client needs a turn. `stalled` if its thread did nothing for a while.
    pub(crate) fn housekeep(
        &mut self,
        now: Time,
        phase: Phase,
        stalled: bool,
    ) -> Result<bool, Error> {
        if matches!(self.state, State::Broken | State::Gone) {
            return Ok(false);
        }
        // Only a socket that was looked into and had nothing is silent.
        if stalled || self.socket.is_readable() || self.undecoded || !self.is_listening() {
            self.link.excuse_silence(now);
        }
        if self.link.next_timeout().is_some_and(|due| due <= now) {
            let handled = self.link.handle_timeout(now);
            handled.map_err(|error| self.unless_secured(error))?;
        }
        let setting_up = matches!(self.state, State::Connecting | State::SettingUp);
        if setting_up && now > self.set_up_deadline {
            let allowed = set_up_time(self.patience, self.works.len());
            return Err(self.unless_secured(self.link.took_too_long(allowed)));
        }
        if self.state == State::Connecting && self.attempt.is_late(now) {
            return Ok(true);
        }
        self.link.keep_token()?;
        if self.state == State::Running {
            for (at, work) in self.works.iter_mut().enumerate() {
                match work {
                    Work::Consumer(consumer) if consumer.gathers_acks() => {
                        consumer.flush_if_idle(now, &mut self.link.lane(at))?;
                    }
                    Work::Consumer(_) => {}
                    Work::Producer(producer) => {
                        if let Some(waited) = producer.overdue(now) {
                            return Err(failure::of_confirm(&self.endpoint, waited));
                        }
                        if phase == Phase::Drain {
                            producer.commit(&mut self.link.lane(at))?;
                        }
                    }
                }
            }
        }
        Ok(self.unwritten() > 0 && self.socket.writable)
    }

    /// Asks for an answer on each channel on which something may be on its way unseen: to a
    /// consumer, or from a producer whose messages nobody answers.
    pub(crate) fn fence(&mut self, number: u64) -> Result<(), Error> {
        if self.state != State::Running {
            return Ok(());
        }
        for (at, work) in self.works.iter_mut().enumerate() {
            match work {
                Work::Consumer(consumer) => consumer.fence(),
                Work::Producer(producer) if producer.has_answers() => continue,
                Work::Producer(_) => {}
            }
            self.link.lane(at).fence()?;
        }
        self.fenced = number;
        Ok(())
    }

    /// Whether the answers of that fence have come.
    fn has_passed(&self, fence: u64) -> bool {
        self.state == State::Running && self.fenced == fence && self.link.is_answered()
    }

    /// Whether nothing more comes of it than what its queues hold.
    pub(crate) fn is_settled(&self, fence: u64) -> bool {
        let answers_all = |work: &Work| matches!(work, Work::Producer(p) if p.has_answers());
        self.works.iter().all(answers_all)
            || (self.has_passed(fence) && self.consumers().all(Consumer::has_everything))
    }

    /// The recipients of its consumers to which something may still be on its way.
    pub(crate) fn unsettled(&self, fence: u64) -> impl Iterator<Item = u32> {
        let passed = self.has_passed(fence);
        self.consumers()
            .filter(move |consumer| !passed || !consumer.has_everything())
            .map(Consumer::recipient)
    }

    fn consumers(&self) -> impl Iterator<Item = &Consumer> {
        self.works.iter().filter_map(|work| match work {
            Work::Consumer(consumer) => Some(consumer),
            Work::Producer(_) => None,
        })
    }

    fn producers(&self) -> impl Iterator<Item = &Producer> {
        self.works.iter().filter_map(|work| match work {
            Work::Producer(producer) => Some(producer),
            Work::Consumer(_) => None,
        })
    }

    /// Messages without an answer.
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
        self.state != State::Running
            || self.works.iter().any(|work| match work {
                Work::Producer(producer) => producer.is_late(now),
                Work::Consumer(consumer) => consumer.latest() < since,
            })
    }

    /// Drops the connection.
    pub(super) fn hang_up(&mut self) {
        self.state = State::Broken;
        self.early = None;
        self.rest.clear();
        self.needed = 0;
        self.undecoded = false;
        self.withheld = false;
        self.socket.hang_up();
    }

    /// Starts to connect on a new socket.
    pub(super) fn dial_again(&mut self, now: Time, registry: &Registry) -> Result<(), Error> {
        self.state = State::Connecting;
        self.set_up_deadline = now + set_up_time(self.patience, self.works.len());
        let place = &self.places[self.place];
        let way = (self.dials, self.source);
        let tls = place.tls.clone();
        self.attempt = Attempt::new(&place.addresses, way, tls, self.set_up_deadline);
        self.dial(now, registry)
    }

    /// Goes on to the next node and its next address, and asks what addresses the node has by now.
    pub(super) fn turn_to_next(&mut self, now: Time) {
        self.place = (self.place + 1) % self.places.len();
        self.dials = self.dials.wrapping_add(1);
        let place = &self.places[self.place];
        self.endpoint.clone_from(&place.endpoint);
        place.addresses.refresh(now);
    }

    /// When to look again for the node's addresses, where they are being looked up.
    pub(super) fn waits_for_addresses(&self, now: Time) -> Option<Time> {
        self.places[self.place].addresses.wait(now)
    }
}

/// How long a connection's set-up may take in all.
fn set_up_time(patience: Nanos, channels: usize) -> Nanos {
    let parts = 1 + (channels / CHANNELS_AT_ONCE) as u64;
    Nanos(patience.0.saturating_mul(parts))
}

fn not_connected(endpoint: &Endpoint, failure: Failure) -> Error {
    match failure {
        Failure::Transport(error) => failure::of_connect(endpoint, &error),
        Failure::Tls(fault) => tls::explain(&fault, endpoint),
    }
}
