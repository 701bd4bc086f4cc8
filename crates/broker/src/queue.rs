//! A queue: a log of messages, which of them are ready, and who waits for them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use measure::{Nanos, Time};
use wire::amqp091::{DeliverTemplate, FieldTable, Properties};

use crate::arguments::{Arguments, LONGEST_TTL_MS, Overflow, QueueType};
use crate::dead_letters::{DeadLetters, Reason};
use crate::exchange::Binding;
use crate::log::{Cursor, Log, Record};
use crate::memory::Memory;
use crate::refusal::Refusal;
use crate::slots::Key;

/// Flags of a declaration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flags {
    pub(crate) durable: bool,
    pub(crate) exclusive: bool,
    pub(crate) auto_delete: bool,
}

/// One queue of any type.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    pub(crate) name: Box<str>,
    pub(crate) flags: Flags,
    /// The connection an exclusive queue belongs to.
    pub(crate) owner: Option<Key>,
    /// As declared, for comparing later declarations.
    pub(crate) table: FieldTable,
    pub(crate) arguments: Arguments,
    /// Consumers that can take a message now.
    pub(crate) ring: Ring,
    /// All consumers, parked ones included.
    pub(crate) consumers: Vec<Key>,
    /// Whether the one consumer asked to be the only one.
    pub(crate) exclusively_consumed: bool,
    /// Whether it is in the list of queues to look at.
    pub(crate) is_dirty: bool,
    /// Where it stands among the queues whose next message expires.
    pub(crate) awaited: Option<Time>,
    /// Bindings that lead here, by source, for cleaning up.
    pub(crate) inbound: Vec<(Key, Binding)>,
    /// Where messages go that it gives up.
    pub(crate) dead_letters: Option<Box<DeadLetters>>,
    log: Log,
    expiries: Expiries,
    /// The first message never taken.
    unread: Cursor,
    /// Messages given back, by address; older than all unread ones.
    returned: BTreeMap<u64, Returned>,
    ready: u64,
    ready_bytes: u64,
    unacked: u64,
}

/// A message given back: whether others had overtaken it, and how often its delivery failed.
#[derive(Clone, Copy, Debug)]
struct Returned {
    was_overtaken: bool,
    failures: u16,
}

/// A message taken out for delivery; it is held until settled or returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken<'a> {
    pub(crate) address: u64,
    /// Where it was delivered before: how many of these deliveries failed.
    pub(crate) redelivered: Option<u16>,
    /// Its delivery before this one was held back by a fault until others had gone first.
    pub(crate) was_overtaken: bool,
    pub(crate) record: Record<'a>,
}

impl Queue {
    pub(crate) fn new(name: &str, flags: Flags, owner: Option<Key>, table: FieldTable, arguments: Arguments) -> Self {
        Self {
            name: name.into(),
            flags,
            owner,
            dead_letters: DeadLetters::of(table.view()),
            table,
            arguments,
            ..Self::default()
        }
    }

    pub(crate) fn is_stream(&self) -> bool {
        self.arguments.queue_type == QueueType::Stream
    }

    /// Messages that could be delivered; of a stream, all it holds.
    pub(crate) fn ready(&self) -> u64 {
        if self.is_stream() { self.log.len() } else { self.ready }
    }

    /// Messages delivered and neither settled nor returned.
    pub(crate) const fn unacked(&self) -> u64 {
        self.unacked
    }

    /// Adds a message at the end; `false` when the queue is full and refuses more. A queue that
    /// drops its oldest messages instead does that here.
    pub(crate) fn push(&mut self, record: &Record<'_>, now: Time, memory: &mut Memory) -> bool {
        if self.is_stream() {
            self.append_to_stream(record, memory);
            return true;
        }
        let bytes = record.body.len() as u64;
        if self.may_refuse() && self.refuses(1, bytes) {
            return false;
        }
        let address = self.log.append(record, memory);
        // One that cannot be read was refused before.
        let own = time_to_live(record.properties).ok().flatten();
        if let Some(ttl) = own.into_iter().chain(self.arguments.message_ttl).min() {
            self.expiries.add(address, now + ttl, &self.log);
        }
        memory.hold(1);
        self.ready += 1;
        self.ready_bytes += bytes;
        self.drop_excess(memory);
        true
    }

    /// Whether it refuses messages where it is full.
    #[inline]
    pub(crate) fn may_refuse(&self) -> bool {
        self.arguments.overflow == Overflow::RejectPublish
    }

    /// Whether messages are more than it takes.
    pub(crate) fn refuses(&self, more: u64, more_bytes: u64) -> bool {
        !self.is_stream() && self.may_refuse() && self.exceeds(more, more_bytes)
    }

    fn exceeds(&self, more: u64, more_bytes: u64) -> bool {
        self.arguments.max_length.is_some_and(|max| self.ready + more > max)
            || self.arguments.max_length_bytes.is_some_and(|max| self.ready_bytes + more_bytes > max)
    }

    /// Adds a message to a stream, and drops its oldest segments while it is above its own limit or
    /// all streams together are above theirs.
    fn append_to_stream(&mut self, record: &Record<'_>, memory: &mut Memory) {
        let before = self.log.bytes();
        self.log.append(record, memory);
        memory.note_stream(before, self.log.bytes());
        loop {
            let before = self.log.bytes();
            let own = self.arguments.max_length_bytes.is_some_and(|max| before > max);
            if !(own || memory.streams_are_over()) || !self.log.drop_oldest(memory) {
                return;
            }
            memory.note_stream(before, self.log.bytes());
        }
    }

    /// Takes the oldest ready message.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<Taken<'_>> {
        let (address, redelivered, was_overtaken, record) = match self.returned.pop_first() {
            Some((address, it)) => (address, Some(it.failures), it.was_overtaken, self.log.get(address)?),
            None => {
                let (address, _, record) = self.log.next(&mut self.unread)?;
                (address, None, false, record)
            }
        };
        self.ready -= 1;
        self.ready_bytes -= record.body.len() as u64;
        self.unacked += 1;
        Some(Taken { address, redelivered, was_overtaken, record })
    }

    /// Whether there is something to take, once what is too old has gone.
    #[inline]
    pub(crate) fn has_fresh(&mut self, now: Time, memory: &mut Memory) -> bool {
        self.expire(now, memory);
        self.ready > 0
    }

    /// Drops the oldest messages beyond the queue's limits.
    fn drop_excess(&mut self, memory: &mut Memory) {
        while self.exceeds(0, 0) {
            let Some(address) = self.take().map(|taken| taken.address) else { break };
            self.give_up(address, Reason::MaxLength, memory);
        }
    }

    /// Has the queue among those in `waiting` by the time when its next message expires, or before.
    #[inline]
    pub(crate) fn await_expiry(&mut self, key: Key, waiting: &mut BTreeSet<(Time, Key)>) {
        let awaited = self.awaited.unwrap_or(Time(u64::MAX));
        if awaited <= self.expiries.soonest {
            return;
        }
        if let Some(next) = self.next_expiry().filter(|at| *at < awaited) {
            waiting.remove(&(awaited, key));
            waiting.insert((next, key));
            self.awaited = Some(next);
        }
    }

    /// When the oldest ready message expires; those behind it wait until it is gone, as in RabbitMQ.
    fn next_expiry(&self) -> Option<Time> {
        self.expiries.of(self.oldest_ready()?)
    }

    /// Gives up ready messages that are too old, up to the first that is not. Those that were taken go
    /// when they come back.
    #[inline]
    pub(crate) fn expire(&mut self, now: Time, memory: &mut Memory) {
        while self.expiries.soonest < now
            && self.next_expiry().is_some_and(|at| at < now)
            && let Some(address) = self.take().map(|taken| taken.address)
        {
            self.give_up(address, Reason::Expired, memory);
        }
    }

    /// The address of the oldest ready message.
    fn oldest_ready(&self) -> Option<u64> {
        let returned = self.returned.first_key_value().map(|(address, _)| *address);
        let mut unread = self.unread;
        returned.or_else(|| self.log.next(&mut unread).map(|(address, ..)| address))
    }

    /// Whether it has dead letters of which nobody was told; once.
    #[inline]
    pub(crate) fn has_new_dead_letters(&mut self) -> bool {
        self.dead_letters.as_mut().is_some_and(|it| it.are_new())
    }

    /// Forgets a message that was taken, and keeps it for those who get this queue's dead letters.
    pub(crate) fn give_up(&mut self, address: u64, reason: Reason, memory: &mut Memory) {
        if let Some(letters) = &mut self.dead_letters
            && let Some(record) = self.log.get(address)
        {
            letters.add(&record, reason, memory);
        }
        self.settle(address, memory);
    }

    /// Forgets a message that was taken.
    pub(crate) fn settle(&mut self, address: u64, memory: &mut Memory) {
        if !self.is_stream() && self.log.release(address, memory) {
            memory.release(1);
            self.unacked -= 1;
        }
    }

    /// Puts a message that was taken back to its place.
    pub(crate) fn give_back(&mut self, address: u64, was_overtaken: bool, failures: u16, memory: &mut Memory) {
        if self.is_stream() {
            return;
        }
        let Some(record) = self.log.get(address) else { return };
        let bytes = record.body.len() as u64;
        if self.returned.insert(address, Returned { was_overtaken, failures }).is_none() {
            self.unacked -= 1;
            self.ready += 1;
            self.ready_bytes += bytes;
        }
        self.drop_excess(memory);
    }

    /// Forgets all ready messages; returns how many they were.
    pub(crate) fn purge(&mut self, memory: &mut Memory) -> u64 {
        let count = self.ready;
        while let Some(address) = self.take().map(|taken| taken.address) {
            self.settle(address, memory);
        }
        count
    }

    /// Frees everything, before the queue goes away; returns how many messages were ready.
    pub(crate) fn clear(&mut self, memory: &mut Memory) -> u64 {
        let count = self.ready();
        if self.is_stream() {
            memory.note_stream(self.log.bytes(), 0);
        } else {
            memory.release(self.ready + self.unacked);
        }
        if let Some(letters) = &mut self.dead_letters {
            letters.take(memory);
        }
        self.log.clear(memory);
        count
    }

    /// How many times of expiry it knows, also of messages that are gone.
    #[cfg(test)]
    pub(crate) const fn expiries(&self) -> usize {
        self.expiries.len()
    }

    /// A stream's messages.
    pub(crate) const fn log(&self) -> &Log {
        &self.log
    }
}

/// Consumers that can take a message now. Within a priority each gets one message in turn; lower
/// priorities get something only while no higher one is ready.
#[derive(Debug, Default)]
pub(crate) struct Ring {
    /// By descending priority; no entry is empty.
    levels: Vec<(i32, VecDeque<Key>)>,
}

impl Ring {
    /// Adds a consumer at the end of its priority's line.
    pub(crate) fn push(&mut self, consumer: Key, priority: i32) {
        let at = self.levels.partition_point(|(level, _)| *level > priority);
        match self.levels.get_mut(at) {
            Some((level, line)) if *level == priority => line.push_back(consumer),
            _ => self.levels.insert(at, (priority, VecDeque::from([consumer]))),
        }
    }

    /// The consumer whose turn it is.
    #[inline]
    pub(crate) fn front(&self) -> Option<Key> {
        self.levels.first()?.1.front().copied()
    }

    /// Sends the consumer whose turn it was to the end of its line.
    #[inline]
    pub(crate) fn rotate(&mut self) {
        if let Some((_, line)) = self.levels.first_mut() {
            line.rotate_left(1);
        }
    }

    /// Takes the consumer whose turn it is out.
    pub(crate) fn pop(&mut self) {
        if let Some((_, line)) = self.levels.first_mut() {
            line.pop_front();
            if line.is_empty() {
                self.levels.remove(0);
            }
        }
    }

    /// Takes a consumer out, wherever it is.
    pub(crate) fn remove(&mut self, consumer: Key) {
        for (_, line) in &mut self.levels {
            line.retain(|c| *c != consumer);
        }
        self.levels.retain(|(_, line)| !line.is_empty());
    }

    /// How many are ready.
    pub(crate) fn len(&self) -> usize {
        self.levels.iter().map(|(_, line)| line.len()).sum()
    }

    /// Whether nobody is ready.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.levels.is_empty()
    }
}

/// Fewer times than these are not looked through for messages that are gone.
const KEPT: usize = 64;

/// When the messages of one queue expire, those that do.
#[derive(Debug)]
pub(crate) struct Expiries {
    /// Addresses in order, with times in any; also of some messages that are gone.
    times: Vec<(u64, Time)>,
    /// None expires before.
    soonest: Time,
    /// How many there are when those of messages that are gone are forgotten.
    forget_at: usize,
}

impl Default for Expiries {
    fn default() -> Self {
        Self { times: Vec::new(), soonest: Time(u64::MAX), forget_at: KEPT }
    }
}

impl Expiries {
    /// Notes when the newest message of `log` expires.
    pub(crate) fn add(&mut self, address: u64, at: Time, log: &Log) {
        if self.times.len() >= self.forget_at {
            self.times.retain(|(address, _)| log.holds(*address));
            self.forget_at = 2 * self.times.len() + KEPT;
            let soonest = self.times.iter().map(|(_, at)| *at).min();
            self.soonest = soonest.unwrap_or(Time(u64::MAX));
        }
        self.soonest = self.soonest.min(at);
        self.times.push((address, at));
    }

    /// When a message expires.
    pub(crate) fn of(&self, address: u64) -> Option<Time> {
        let at = self.times.binary_search_by_key(&address, |it| it.0).ok()?;
        self.times.get(at).map(|(_, at)| *at)
    }

    #[cfg(test)]
    pub(crate) const fn len(&self) -> usize {
        self.times.len()
    }
}

/// A message's own time to live, its expiration in milliseconds.
/// Errors: one that is no such number, in RabbitMQ's words.
#[inline]
pub(crate) fn time_to_live(properties: &[u8]) -> Result<Option<Nanos>, Refusal> {
    let Some(text) = Properties::from_bytes(properties).expiration() else { return Ok(None) };
    parse(text).map(Some).map_err(|why| Refusal::precondition(format_args!("invalid expiration '{text}': {why}")))
}

/// Reads a number as Erlang's `string:to_integer` does.
fn parse(text: &str) -> Result<Nanos, String> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let rest = unsigned.trim_start_matches(|c: char| c.is_ascii_digit());
    let digits = &unsigned[..unsigned.len() - rest.len()];
    let number = digits.trim_start_matches('0');
    if digits.is_empty() {
        Err("no_integer".to_owned())
    } else if !rest.is_empty() {
        Err(format!("{{leftover_string,{rest:?}}}"))
    } else if text.starts_with('-') && !number.is_empty() {
        Err(format!("{{value_negative,-{number}}}"))
    } else {
        let ms = number.parse::<u64>().unwrap_or(match number {
            "" => 0,
            _ => u64::MAX,
        });
        if ms <= LONGEST_TTL_MS { Ok(Nanos::from_millis(ms)) } else { Err(format!("{{value_too_large,{number}}}")) }
    }
}

/// Why a consumer is not in its queue's ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Parked {
    /// It is.
    #[default]
    No,
    /// It, or its channel, has as many unacknowledged deliveries as it may.
    ForCredit,
    /// Its connection has too much output waiting.
    ForOutput,
}

/// Somebody who wants a queue's messages.
#[derive(Debug)]
pub(crate) struct Consumer {
    pub(crate) connection: Key,
    pub(crate) channel: u16,
    /// Its link in a session of AMQP 1.0.
    pub(crate) handle: u32,
    pub(crate) tag: Box<str>,
    pub(crate) queue: Key,
    /// Whether a delivery counts as acknowledged.
    pub(crate) no_ack: bool,
    /// Deliveries it may have unacknowledged; 0 for any number.
    pub(crate) prefetch: u32,
    pub(crate) unacked: u32,
    /// Tags of its deliveries over a link, ascending, also of some that are settled: they come back when it ends.
    pub(crate) own: Vec<u64>,
    /// Higher ones are served first.
    pub(crate) priority: i32,
    pub(crate) parked: Parked,
    /// Its place, when the queue is a stream.
    pub(crate) cursor: Cursor,
    pub(crate) prepared: PreparedFrame,
    /// A delivery that a fault holds back.
    pub(crate) held: Option<Held>,
}

/// The frame in front of a delivery, encoded before it is needed.
#[derive(Debug, Default)]
pub(crate) struct PreparedFrame {
    pub(crate) template: Option<DeliverTemplate>,
    /// Deliveries that it did not fit since it was made.
    pub(crate) misses: u32,
}

/// A message that others overtake.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    /// Its place in the queue's log.
    pub(crate) address: u64,
    /// How many go first.
    pub(crate) left: u32,
    /// Whether one has.
    pub(crate) is_overtaken: bool,
    /// When it goes at the latest.
    pub(crate) until: Time,
    /// The fault's position in the script.
    pub(crate) rule: usize,
}

impl Consumer {
    /// Whether its own prefetch allows another delivery.
    #[inline]
    pub(crate) const fn has_credit(&self) -> bool {
        self.no_ack || self.prefetch == 0 || self.unacked < self.prefetch
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slots::Slots;

    fn queue(arguments: Arguments) -> Queue {
        Queue::new("q", Flags::default(), None, FieldTable::new(), arguments)
    }

    fn memory() -> Memory {
        Memory::new(u64::MAX, u64::MAX)
    }

    fn push(queue: &mut Queue, body: u32, memory: &mut Memory) -> bool {
        let body = body.to_le_bytes();
        let record = Record { exchange: "", routing_key: "q", properties: &[0, 0], body: &body, has_sections: false };
        queue.push(&record, Time::default(), memory)
    }

    /// Takes one: its number, whether it was delivered before, its address.
    fn take(queue: &mut Queue) -> Option<(u32, bool, u64)> {
        queue.take().map(|t| {
            (u32::from_le_bytes(t.record.body.try_into().expect("four bytes")), t.redelivered.is_some(), t.address)
        })
    }

    #[test]
    fn returned_messages_go_back_to_their_place() {
        let (mut q, mut memory) = (queue(Arguments::default()), memory());
        for i in 0..10 {
            push(&mut q, i, &mut memory);
        }
        let taken: Vec<_> = (0..6).filter_map(|_| take(&mut q)).collect();
        assert_eq!((q.ready(), q.unacked()), (4, 6));
        for i in [4, 1, 3] {
            q.give_back(taken[i].2, false, 0, &mut memory);
        }
        q.give_back(taken[3].2, false, 0, &mut memory); // once more changes nothing
        for i in [0, 2, 5] {
            q.settle(taken[i].2, &mut memory);
        }
        assert_eq!((q.ready(), q.unacked()), (7, 0));
        let order: Vec<_> = std::iter::from_fn(|| take(&mut q)).collect();
        let seen: Vec<_> = order.iter().map(|t| (t.0, t.1)).collect();
        assert_eq!(seen, [(1, true), (3, true), (4, true), (6, false), (7, false), (8, false), (9, false)]);
        order.iter().for_each(|t| q.settle(t.2, &mut memory));
        assert_eq!((q.ready(), q.unacked(), memory.used()), (0, 0, 0));
    }

    #[test]
    fn purge_leaves_what_is_being_worked_on() {
        let (mut q, mut memory) = (queue(Arguments::default()), memory());
        for i in 0..5 {
            push(&mut q, i, &mut memory);
        }
        let first = take(&mut q).expect("a message");
        assert_eq!(q.purge(&mut memory), 4);
        assert_eq!((q.ready(), q.unacked()), (0, 1));
        q.give_back(first.2, false, 0, &mut memory);
        assert_eq!(take(&mut q).map(|t| (t.0, t.1)), Some((0, true)));
        q.settle(first.2, &mut memory);
        assert_eq!(memory.used(), 0);
    }

    #[test]
    fn a_stream_drops_its_oldest_segments_and_never_grows() {
        let mut memory = Memory::new(4 << 20, 3 << 20);
        let mut q = queue(Arguments { queue_type: QueueType::Stream, ..Arguments::default() });
        for i in 0..1_000_000 {
            assert!(push(&mut q, i, &mut memory));
        }
        assert!(memory.used() <= (2 << 20) + (256 << 10), "{} bytes", memory.used());
        assert!(q.ready() > 50_000 && q.ready() < 1_000_000);
        let mut cursor = q.log().first();
        let oldest = q.log().next(&mut cursor).expect("messages");
        assert_eq!(u64::from(u32::from_le_bytes(oldest.2.body.try_into().unwrap())), oldest.1);
    }

    #[test]
    fn turns_go_round_within_the_highest_priority() {
        let mut slots = Slots::default();
        let [a, b, low, high] = std::array::from_fn(|_| slots.insert(()));
        let mut ring = Ring::default();
        for (consumer, priority) in [(a, 0), (low, -5), (b, 0), (high, 9)] {
            ring.push(consumer, priority);
        }
        let turns = |ring: &mut Ring, n: usize| {
            (0..n)
                .map(|_| {
                    let c = ring.front();
                    ring.rotate();
                    c
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(turns(&mut ring, 2), [Some(high), Some(high)]);
        ring.pop();
        assert_eq!(turns(&mut ring, 3), [Some(a), Some(b), Some(a)]);
        ring.remove(a);
        ring.remove(b);
        assert_eq!(ring.front(), Some(low));
        ring.pop();
        assert!(ring.is_empty());
    }

    #[test]
    fn a_number_is_read_and_refused_as_rabbitmq_does() {
        for (text, ms) in [("0", 0), ("-0", 0), ("+5", 5), ("007", 7), ("315360000000", 315_360_000_000)] {
            assert_eq!(parse(text), Ok(Nanos::from_millis(ms)), "{text}");
        }
        for (text, why) in [
            ("", "no_integer"),
            ("soon", "no_integer"),
            (" 5", "no_integer"),
            ("--5", "no_integer"),
            ("10ms", "{leftover_string,\"ms\"}"),
            ("1.5", "{leftover_string,\".5\"}"),
            ("-5", "{value_negative,-5}"),
            ("315360000001", "{value_too_large,315360000001}"),
            ("99999999999999999999999", "{value_too_large,99999999999999999999999}"),
        ] {
            assert_eq!(parse(text), Err(why.to_owned()), "{text}");
        }
    }
}
