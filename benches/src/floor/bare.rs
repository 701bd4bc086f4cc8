//! The bare program: an event loop that makes the system calls of bellows' own on bytes that were
//! built before. It knows how many messages are out, and nothing else about them.
//!
//! ```text
//! wait (epoll; a back-off when unthrottled, a timer when paced) -> read once per socket -> count -> write a batch
//! ```

use std::io::{ErrorKind, Read, Write};

use anyhow::{Context, Result, bail};
use measure::{Clock, Nanos, Time};
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use transport::{Timer, sleep_until};
use wire::amqp091::{BasicProperties, BasicPublish, Properties, PublishTemplate};

use super::amqp10::{LinkSession, Outcomes, Transfers};
use super::setup::{CHANNEL, Session};
use super::{Args, Reading};

/// As in bellows: bytes written at once, bytes read at once, and what may wait unwritten before a
/// consumer reads no more.
const BATCH_BYTES: usize = 64 << 10;
const READ_BYTES: usize = 256 << 10;
const UNREAD_ABOVE: usize = 1 << 20;
/// As in bellows: how often a loop wakes that nothing else wakes, and the bounds of a rest.
const HOUSEKEEPING: Nanos = Nanos(50_000_000);
const SHORTEST_REST: u64 = 20_000;
const LONGEST_REST: u64 = 1_000_000;
const RATE_WINDOW: Nanos = Nanos(20_000_000);

const PRODUCER: Token = Token(0);
const CONSUMER: Token = Token(1);
const TIMER: Token = Token(2);

/// Runs a load, and tells what its measured part cost.
pub fn run(args: &Args) -> Result<Reading> {
    // Artemis makes a queue for the first link to it.
    let declares = args.amqp10.as_deref().is_none_or(|link| link.starts_with('/'));
    if declares {
        Session::open(&args.address)?.declare(args)?;
    }
    let mut floor = Floor::new(args)?;
    let measured = floor.load(args)?;
    drop(floor);
    if declares {
        Session::open(&args.address)?.delete(&args.queue)?;
    }
    Ok(measured)
}

/// A socket, and what the poll said of it.
struct Socket {
    stream: TcpStream,
    readable: bool,
    writable: bool,
    room: Vec<u8>,
    /// Bytes at the front of `room` that are half a frame.
    kept: usize,
}

impl Socket {
    /// `input` is what the set-up has read and not used.
    fn new(mut stream: TcpStream, input: &[u8], poll: &Poll, token: Token) -> Result<Self> {
        let both = Interest::READABLE | Interest::WRITABLE;
        poll.registry().register(&mut stream, token, both)?;
        let mut room = vec![0; READ_BYTES];
        room[..input.len()].copy_from_slice(input);
        Ok(Self { stream, readable: false, writable: false, room, kept: input.len() })
    }

    /// Reads once, and hands whole frames to `take`, which tells how many bytes they were.
    fn read(&mut self, take: impl FnOnce(&[u8]) -> Result<usize>) -> Result<()> {
        match self.stream.read(&mut self.room[self.kept..]) {
            Ok(0) => bail!("the broker closed the connection"),
            Ok(n) => {
                // Less than there was room for: the socket is empty, and will say when it is not.
                self.readable = n == self.room.len() - self.kept;
                let filled = self.kept + n;
                let taken = take(&self.room[..filled])?;
                self.room.copy_within(taken..filled, 0);
                self.kept = filled - taken;
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.readable = false;
                Ok(())
            }
            Err(error) => Err(error).context("read"),
        }
    }

    /// Writes once; 0 when the socket takes nothing at present.
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        match self.stream.write(bytes) {
            Ok(n) => Ok(n),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.writable = false;
                Ok(0)
            }
            Err(error) => Err(error).context("write"),
        }
    }
}

/// Messages as they stand on the wire: the largest batch of them.
#[derive(Default)]
struct Frames {
    bytes: Vec<u8>,
    message: usize,
    /// Where a message's delivery id and its tag stand, which differ from message to message over AMQP 1.0.
    ids_at: Option<[usize; 2]>,
    /// Bytes of the last batch, and how many of them are not written yet.
    queued: usize,
    unwritten: usize,
}

impl Frames {
    fn new(args: &Args, session: &mut Session) -> Result<Self> {
        let publish = BasicPublish { routing_key: &args.queue, ..BasicPublish::default() };
        let properties =
            BasicProperties { delivery_mode: Some(if args.persistent { 2 } else { 1 }), ..BasicProperties::default() };
        let properties = properties.to_bytes()?;
        let properties = Properties::from_bytes(&properties);
        let body = vec![0; args.size];
        let client = &mut session.client;
        let template = PublishTemplate::new(CHANNEL, &publish, properties, &body, 131_072)?;
        let message = template.wire_len();
        for _ in 0..BATCH_BYTES / message {
            client.publish(&template, |_| {});
        }
        let bytes = client.pending_output().to_vec();
        client.consume_output(bytes.len());
        Ok(Self { bytes, message, ..Self::default() })
    }

    fn batch(&self) -> u64 {
        (BATCH_BYTES / self.message) as u64
    }

    /// Queues `count` messages after the `sent` ones.
    fn queue(&mut self, sent: u64, count: u64) {
        if let Some(ids_at) = self.ids_at {
            for (message, id) in self.bytes.chunks_exact_mut(self.message).zip(sent..sent + count) {
                for at in ids_at {
                    message[at..at + 4].copy_from_slice(&(id as u32).to_be_bytes());
                }
            }
        }
        self.queued = count as usize * self.message;
        self.unwritten = self.queued;
    }

    fn flush(&mut self, socket: &mut Socket) -> Result<()> {
        while socket.writable && self.unwritten > 0 {
            self.unwritten -= socket.write(&self.bytes[self.queued - self.unwritten..self.queued])?;
        }
        Ok(())
    }
}

struct Producer {
    socket: Socket,
    frames: Frames,
    sent: u64,
    confirms: Option<Confirms>,
    /// Messages without a confirm that are allowed.
    window: u64,
    /// The time between two messages, where it is paced.
    period: Option<u64>,
}

impl Producer {
    fn new(args: &Args, socket: Socket, frames: Frames, confirms: Option<Confirms>) -> Self {
        let period = args.rate.map(|rate| 1_000_000_000 / rate);
        Self { socket, frames, sent: 0, confirms, window: args.window, period }
    }

    /// Reads, and sends what may go. Tells whether there is more to do at once.
    fn turn(&mut self, start: Time) -> Result<bool> {
        if self.socket.readable {
            let confirms = &mut self.confirms;
            self.socket.read(|bytes| match confirms {
                Some(confirms) => confirms.take(bytes),
                None => nothing(bytes),
            })?;
        }
        self.frames.flush(&mut self.socket)?;
        let mut more = false;
        if self.socket.writable && self.frames.unwritten == 0 {
            let may = self.allowed(start);
            let count = may.min(self.frames.batch());
            self.frames.queue(self.sent, count);
            self.sent += count;
            self.frames.flush(&mut self.socket)?;
            more = may > count && self.socket.writable;
        }
        Ok(more || self.socket.readable)
    }

    /// How many messages are due and have room.
    fn allowed(&self, start: Time) -> u64 {
        let room = self.room();
        match self.period {
            None => room,
            Some(period) => {
                let due = Clock.now().since(start).0 / period + 1;
                room.min(due.saturating_sub(self.sent))
            }
        }
    }

    /// Messages that the window, and the broker's credit where it gives one, still allow.
    fn room(&self) -> u64 {
        let limit = self.confirms.as_ref().map_or(u64::MAX, |confirms| {
            let credit = confirms.link.as_ref().map_or(u64::MAX, Outcomes::limit);
            credit.min(confirms.count + self.window)
        });
        limit.saturating_sub(self.sent)
    }

    /// When the next message is due, where it is paced and has room.
    fn due(&self, start: Time) -> Option<Time> {
        let period = self.period.filter(|_| self.room() > 0)?;
        Some(start + Nanos(self.sent * period))
    }
}

struct Consumer {
    socket: Socket,
    deliveries: Deliveries,
}

impl Consumer {
    fn turn(&mut self) -> Result<bool> {
        if self.may_read() {
            let deliveries = &mut self.deliveries;
            self.socket.read(|bytes| deliveries.take(bytes))?;
        }
        while self.socket.writable && !self.deliveries.acks.is_empty() {
            let written = self.socket.write(&self.deliveries.acks)?;
            self.deliveries.acks.drain(..written);
        }
        Ok(self.may_read())
    }

    fn may_read(&self) -> bool {
        self.socket.readable && self.deliveries.acks.len() < UNREAD_ABOVE
    }
}

struct Floor {
    poll: Poll,
    events: Events,
    timer: Timer,
    producer: Producer,
    consumer: Option<Consumer>,
    rest: Rest,
}

/// The clients of AMQP 0.9.1.
fn amqp091_clients(args: &Args, poll: &Poll) -> Result<(Producer, Option<Consumer>)> {
    let mut session = Session::open(&args.address)?;
    if args.window > 0 {
        session.confirm()?;
    }
    let frames = Frames::new(args, &mut session)?;
    let mut consumer = None;
    if args.consume {
        let mut session = Session::open(&args.address)?;
        session.consume(&args.queue)?;
        let socket = Socket::new(session.into_stream()?, &[], poll, CONSUMER)?;
        consumer = Some(Consumer { socket, deliveries: Deliveries::default() });
    }
    let socket = Socket::new(session.into_stream()?, &[], poll, PRODUCER)?;
    let confirms = (args.window > 0).then(|| Confirms::new(args.window));
    Ok((Producer::new(args, socket, frames, confirms), consumer))
}

/// The clients of AMQP 1.0, whose links lead to `link`.
fn amqp10_clients(args: &Args, link: &str, poll: &Poll) -> Result<(Producer, Option<Consumer>)> {
    let mut sender = LinkSession::open(&args.address, link, false)?;
    let confirms = Confirms { link: Some(sender.outcomes()?), ..Confirms::new(args.window) };
    let (bytes, message, ids_at) = sender.messages(args.size, args.persistent, BATCH_BYTES)?;
    let frames = Frames { bytes, message, ids_at: Some(ids_at), ..Frames::default() };
    let mut consumer = None;
    if args.consume {
        let mut receiver = LinkSession::open(&args.address, link, true)?;
        let link = Some(receiver.transfers(args.window as u32)?);
        let (stream, input) = receiver.into_parts()?;
        let socket = Socket::new(stream, &input, poll, CONSUMER)?;
        consumer = Some(Consumer { socket, deliveries: Deliveries { link, ..Deliveries::default() } });
    }
    let (stream, input) = sender.into_parts()?;
    let socket = Socket::new(stream, &input, poll, PRODUCER)?;
    Ok((Producer::new(args, socket, frames, Some(confirms)), consumer))
}

impl Floor {
    fn new(args: &Args) -> Result<Self> {
        let poll = Poll::new()?;
        let timer = Timer::register(poll.registry(), TIMER)?;
        let (producer, consumer) = match &args.amqp10 {
            None => amqp091_clients(args, &poll)?,
            Some(link) if link.starts_with('/') => amqp10_clients(args, link, &poll)?,
            // Artemis hands a queue's messages on in batches for long after it was once behind, which halves what
            // they cost. Nobody has been behind on a new queue, as on the one that bellows makes for each of its runs.
            Some(link) => amqp10_clients(args, &format!("{link}-{}", std::process::id()), &poll)?,
        };
        Ok(Self { poll, events: Events::with_capacity(18), timer, producer, consumer, rest: Rest::new(args) })
    }

    fn load(&mut self, args: &Args) -> Result<Reading> {
        let start = Clock.now();
        let measure_at = start + Nanos(args.warmup * 1_000_000_000);
        let end_at = measure_at + Nanos(args.seconds * 1_000_000_000);
        let mut now = start;
        let mut housekeeping = start;
        let mut begun: Option<Reading> = None;
        // The first turn is everybody's.
        let (mut producer, mut consumer) = (true, true);
        loop {
            if begun.is_none() && now >= measure_at {
                begun = Some(Reading::now(self.messages()));
            }
            if let Some(begun) = begun.as_ref().filter(|_| now >= end_at) {
                return Ok(Reading::now(self.messages()).since(begun));
            }
            if producer {
                producer = self.producer.turn(start)?;
            }
            if let Some(one) = self.consumer.as_mut().filter(|_| consumer) {
                consumer = one.turn()?;
            }
            if now >= housekeeping {
                housekeeping = now + HOUSEKEEPING;
            }
            let again = producer || (consumer && self.consumer.is_some());
            let due = self.producer.due(start);
            self.wait(again, due.map_or(housekeeping, |due| due.min(housekeeping)))?;
            for event in &self.events {
                let socket = match event.token() {
                    PRODUCER => (&mut self.producer.socket, &mut producer),
                    CONSUMER => match &mut self.consumer {
                        Some(one) => (&mut one.socket, &mut consumer),
                        None => continue,
                    },
                    _ => continue,
                };
                socket.0.readable |= event.is_readable() || event.is_read_closed();
                socket.0.writable |= event.is_writable();
                *socket.1 = true;
            }
            now = Clock.now();
            producer |= due.is_some_and(|due| due <= now);
        }
    }

    fn wait(&mut self, again: bool, deadline: Time) -> Result<()> {
        let now = Clock.now();
        let answered = self.answered();
        self.rest.watch(now, self.producer.sent, answered);
        if !again && let Some(rest) = self.rest.length(now, answered) {
            sleep_until(now + rest);
        }
        let timeout = if again || deadline <= now {
            Some(std::time::Duration::ZERO)
        } else {
            self.timer.arm(deadline)?;
            None
        };
        match self.poll.poll(&mut self.events, timeout) {
            Err(error) if error.kind() != ErrorKind::Interrupted => Err(error).context("wait"),
            _ => Ok(()),
        }
    }

    /// Confirms or deliveries.
    fn answered(&self) -> u64 {
        match (&self.producer.confirms, &self.consumer) {
            (Some(confirms), _) => confirms.count,
            (None, Some(consumer)) => consumer.deliveries.count,
            (None, None) => 0,
        }
    }

    /// Counted as bellows counts: the larger of sent and received.
    fn messages(&self) -> u64 {
        let received = self.consumer.as_ref().map_or(0, |one| one.deliveries.count);
        self.producer.sent.max(received)
    }
}

/// How long bellows would rest here: a 64th of the latency, and no longer than uses up a 32nd of the
/// window. One message at a time is watched for its latency.
struct Rest {
    allowed: bool,
    window: u64,
    window_start: Time,
    answered: u64,
    per_second: u64,
    /// A message's number, counted from 1, and when it was sent.
    watched: Option<(u64, Time)>,
    latency: Nanos,
}

impl Rest {
    fn new(args: &Args) -> Self {
        Self {
            allowed: args.rate.is_none(),
            window: args.window,
            window_start: Time(0),
            answered: 0,
            per_second: 0,
            watched: None,
            latency: Nanos(0),
        }
    }

    /// After each turn, which took place at `now`.
    fn watch(&mut self, now: Time, sent: u64, answered: u64) {
        if let Some((_, at)) = self.watched.filter(|(number, _)| answered >= *number) {
            self.latency = now.since(at);
            self.watched = None;
        }
        if self.watched.is_none() && sent > answered {
            self.watched = Some((sent, now));
        }
    }

    fn length(&mut self, now: Time, answered: u64) -> Option<Nanos> {
        if !self.allowed {
            return None;
        }
        let elapsed = now.since(self.window_start);
        if elapsed >= RATE_WINDOW {
            let count = answered - self.answered;
            self.per_second = (count as f64 / elapsed.as_secs_f64()) as u64;
            (self.window_start, self.answered) = (now, answered);
        }
        let each = 1_000_000_000_u64.checked_div(self.per_second)?;
        let mut length = (self.latency.0 / 64).min(LONGEST_REST);
        if self.window > 0 {
            length = length.min(self.window * each / 32);
        }
        (length >= SHORTEST_REST).then_some(Nanos(length))
    }
}

const METHOD: u8 = 1;
const BODY: u8 = 3;
/// Type, channel and size before a frame's payload; one byte comes after it.
const HEAD: usize = 7;
const OVERHEAD: usize = HEAD + 1;

/// Class and method as one number.
const ACK: u32 = 60 << 16 | 80;
const DELIVER: u32 = 60 << 16 | 60;

/// Walks over whole frames, and tells how many bytes they were.
#[inline]
fn walk(bytes: &[u8], mut frame: impl FnMut(u8, &[u8]) -> Result<()>) -> Result<usize> {
    let mut at = 0;
    while let Some(head) = bytes.get(at..at + HEAD) {
        let size = u32::from_be_bytes([head[3], head[4], head[5], head[6]]) as usize;
        let Some(payload) = bytes.get(at + HEAD..at + HEAD + size) else {
            break;
        };
        if at + OVERHEAD + size > bytes.len() {
            break;
        }
        frame(head[0], payload)?;
        at += OVERHEAD + size;
    }
    Ok(at)
}

#[inline]
fn method(payload: &[u8]) -> u32 {
    payload.first_chunk().map_or(0, |id: &[u8; 4]| u32::from_be_bytes(*id))
}

#[cold]
fn unexpected(payload: &[u8]) -> Result<()> {
    let id = method(payload);
    bail!("the broker sent method {}.{}", id >> 16, id & 0xffff)
}

/// Walks over heartbeats.
fn nothing(bytes: &[u8]) -> Result<usize> {
    walk(bytes, |kind, payload| {
        if kind == METHOD {
            unexpected(payload)?;
        }
        Ok(())
    })
}

/// Messages that are confirmed.
struct Confirms {
    count: u64,
    /// All up to this one are.
    upto: u64,
    /// Later ones that are, at their tag modulo the length; how many there are.
    early: Vec<bool>,
    ahead: u64,
    /// Where they come over AMQP 1.0.
    link: Option<Outcomes>,
}

impl Confirms {
    fn new(window: u64) -> Self {
        Self { count: 0, upto: 0, early: vec![false; window.next_power_of_two() as usize], ahead: 0, link: None }
    }

    #[inline]
    fn take(&mut self, bytes: &[u8]) -> Result<usize> {
        if let Some(link) = &mut self.link {
            return link.take(bytes, &mut self.count);
        }
        walk(bytes, |kind, payload| {
            if kind != METHOD {
                return Ok(());
            }
            let (ACK, Some(tag), Some(multiple)) =
                (method(payload), payload.get(4..).and_then(<[u8]>::first_chunk), payload.get(12))
            else {
                return unexpected(payload);
            };
            self.confirm(u64::from_be_bytes(*tag), multiple & 1 != 0);
            Ok(())
        })
    }

    #[inline]
    fn confirm(&mut self, tag: u64, multiple: bool) {
        if multiple && self.ahead == 0 {
            self.count += tag.saturating_sub(self.upto);
            self.upto = self.upto.max(tag);
        } else if multiple {
            for tag in self.upto + 1..=tag {
                self.settle(tag);
            }
        } else if tag == self.upto + 1 && self.ahead == 0 {
            self.count += 1;
            self.upto = tag;
        } else if let Some(early) = self.slot(tag) {
            *early = true;
            self.count += 1;
            self.ahead += 1;
        }
    }

    /// The next one is confirmed, or was before.
    fn settle(&mut self, tag: u64) {
        self.upto = tag;
        if let Some(early) = self.slot(tag) {
            if std::mem::take(early) {
                self.ahead -= 1;
            } else {
                self.count += 1;
            }
        }
    }

    fn slot(&mut self, tag: u64) -> Option<&mut bool> {
        let at = tag as usize & (self.early.len() - 1);
        self.early.get_mut(at)
    }
}

/// Messages that have come, and the acknowledgement of each.
#[derive(Default)]
struct Deliveries {
    count: u64,
    acks: Vec<u8>,
    /// Where they come over AMQP 1.0.
    link: Option<Transfers>,
}

/// A frame with `basic.ack` of tag 0 on channel 1.
const ACK_FRAME: [u8; 21] = [1, 0, 1, 0, 0, 0, 13, 0, 60, 0, 80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 206];

impl Deliveries {
    #[inline]
    fn take(&mut self, bytes: &[u8]) -> Result<usize> {
        if let Some(link) = &mut self.link {
            return link.take(bytes, &mut self.count, &mut self.acks);
        }
        walk(bytes, |kind, payload| {
            match kind {
                // Bodies are smaller than a frame.
                BODY => {
                    self.count += 1;
                    let at = self.acks.len() + 11;
                    self.acks.extend_from_slice(&ACK_FRAME);
                    self.acks[at..at + 8].copy_from_slice(&self.count.to_be_bytes());
                }
                METHOD if method(payload) != DELIVER => unexpected(payload)?,
                _ => {}
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ack(tag: u64, multiple: bool) -> Vec<u8> {
        let mut frame = ACK_FRAME.to_vec();
        frame[11..19].copy_from_slice(&tag.to_be_bytes());
        frame[19] = u8::from(multiple);
        frame
    }

    #[test]
    fn confirms_are_counted_once_in_any_order() {
        let mut confirms = Confirms::new(8);
        let frames =
            [ack(1, false), ack(3, false), ack(4, true), ack(6, false), ack(5, false), ack(7, true), ack(8, true)];
        let counts = [1, 2, 4, 5, 6, 7, 8];
        for (frame, count) in frames.iter().zip(counts) {
            assert_eq!(confirms.take(frame).unwrap(), frame.len());
            assert_eq!(confirms.count, count);
        }
        assert_eq!(confirms.ahead, 0);
    }

    #[test]
    fn half_a_frame_is_left() {
        let bytes = [ack(1, false), ack(2, false)].concat();
        let mut confirms = Confirms::new(8);
        for cut in 21..42 {
            assert_eq!(confirms.take(&bytes[..cut]).unwrap(), 21);
        }
        assert!(nothing(&bytes).is_err(), "where none are expected");
    }

    #[test]
    fn each_body_is_counted_and_acknowledged() {
        let deliver = [1, 0, 1, 0, 0, 0, 4, 0, 60, 0, 60, 206];
        let body = [3, 0, 1, 0, 0, 0, 2, 7, 7, 206];
        let mut deliveries = Deliveries::default();
        let bytes = [&deliver[..], &body, &deliver, &body].concat();
        assert_eq!(deliveries.take(&bytes).unwrap(), bytes.len());
        assert_eq!(deliveries.count, 2);
        assert_eq!(deliveries.acks, [ack(1, false), ack(2, false)].concat());
    }
}
