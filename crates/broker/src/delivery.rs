//! The way of a message from a queue to its consumers.

use wire::amqp091::{BasicGetEmpty, BasicProperties, Error, Properties, Table, Value};

use crate::channel::{Channel, Mode};
use crate::faults::{DeliveryFault, Faults};
use crate::log::Record;
use crate::memory::Memory;
use crate::outgoing::{self, Protocol};
use crate::queue::{Consumer, Held, Parked, Queue};
use crate::session::{Peer, Session};
use crate::slots::{Key, Slots};
use crate::unacked::{self, Unacked};
use crate::vhost::VirtualHost;

/// The connections and what they may have waiting.
pub(crate) struct Exits<'a> {
    pub(crate) sessions: &'a mut Slots<Session>,
    /// Sessions with output, each once.
    pub(crate) touched: &'a mut Vec<Key>,
    /// Bytes waiting above which a connection gets no more deliveries.
    pub(crate) unsent_limit_bytes: usize,
}

impl VirtualHost {
    /// Delivers what can be delivered of one queue.
    pub(crate) fn dispatch(&mut self, key: Key, exits: &mut Exits<'_>) {
        let Self { queues, consumers, memory, faults, now, .. } = self;
        let Some(queue) = queues.get_mut(key) else { return };
        queue.is_dirty = false;
        if queue.is_stream() {
            self.dispatch_stream(key, exits);
            return;
        }
        while queue.has_fresh(*now, memory)
            && let Some(consumer_key) = queue.ring.front()
        {
            let Some((consumer, session)) = exit(consumers, exits.sessions, consumer_key) else {
                queue.ring.pop();
                continue;
            };
            if let Some(reason) = obstacle(consumer, session, exits.unsent_limit_bytes) {
                park(consumer, consumer_key, session, reason);
                queue.ring.pop();
                continue;
            }
            if let Some(faults) = faults {
                let mut handover = Handover { consumer_key, consumer, session };
                handover.deliver_next(queue, faults, memory);
                touch(&mut session.peer, exits.touched);
                queue.ring.rotate();
                continue;
            }
            let Session { server, peer } = session;
            let Some(channel) = peer.channel_mut(consumer.channel) else {
                queue.ring.pop();
                continue;
            };
            let Some(taken) = queue.take() else { break };
            let address = taken.address;
            let tag = hand_over(consumer, consumer_key, channel, Delivery::of(address, taken.redelivered));
            let sent = outgoing::deliver(server, consumer, tag, taken.redelivered, &taken.record);
            if consumer.no_ack {
                queue.settle(address, memory);
            }
            // Nothing can be sent to a connection that failed; its transport's end cleans up.
            peer.is_finished |= sent.is_err();
            touch(peer, exits.touched);
            queue.ring.rotate();
        }
    }

    /// Delivers to each consumer of a stream from its own place on.
    fn dispatch_stream(&mut self, key: Key, exits: &mut Exits<'_>) {
        let Self { queues, consumers, memory, .. } = self;
        let Some(queue) = queues.get_mut(key) else { return };
        let mut with_offset = Vec::new();
        for _ in 0..queue.ring.len() {
            let Some(consumer_key) = queue.ring.front() else { break };
            let Some((consumer, session)) = exit(consumers, exits.sessions, consumer_key) else {
                queue.ring.pop();
                continue;
            };
            let reason = loop {
                let reason = obstacle(consumer, session, exits.unsent_limit_bytes);
                if reason.is_some() {
                    break reason;
                }
                // It goes on when it settles one.
                if consumer.unacked > 0 && !memory.takes_stream_delivery() {
                    break Some(Parked::ForCredit);
                }
                let Some((address, index, record)) = queue.log().next(&mut consumer.cursor) else { break None };
                let Session { server, peer } = session;
                let Some(channel) = peer.channel_mut(consumer.channel) else { break None };
                if !consumer.no_ack {
                    memory.hold_stream_delivery();
                }
                let delivery = Delivery { is_of_stream: true, ..Delivery::of(address, None) };
                let tag = hand_over(consumer, consumer_key, channel, delivery);
                let sent = if let Protocol::Amqp10(link) = server {
                    link.deliver(consumer, None, &record, Some(index));
                    Ok(())
                } else {
                    put_stream_offset(record.properties, index, &mut with_offset);
                    let record = Record { properties: &with_offset, ..record };
                    outgoing::deliver(server, consumer, tag, None, &record)
                };
                peer.is_finished |= sent.is_err();
                touch(peer, exits.touched);
            };
            match reason {
                Some(reason) => {
                    park(consumer, consumer_key, session, reason);
                    queue.ring.pop();
                }
                None => queue.ring.rotate(),
            }
        }
    }

    /// Delivers what faults have held back for too long.
    pub(crate) fn release_held(&mut self, exits: &mut Exits<'_>) {
        let Self { queues, consumers, memory, faults: Some(faults), .. } = self else { return };
        while let Some(consumer_key) = faults.next_held() {
            let Some((consumer, session)) = exit(consumers, exits.sessions, consumer_key) else { continue };
            let Some(queue) = queues.get_mut(consumer.queue) else { continue };
            let mut handover = Handover { consumer_key, consumer, session };
            let is_due = |held: &Held| faults.has_come(held.until);
            if handover.consumer.held.as_ref().is_some_and(is_due) {
                handover.release(queue, faults, memory);
                touch(&mut handover.session.peer, exits.touched);
            }
        }
    }

    /// Answers `basic.get`.
    pub(crate) fn get(&mut self, key: Key, no_ack: bool, number: u16, session: &mut Session) -> Result<(), Error> {
        self.expire_queue(key);
        let Session { server: Protocol::Amqp091(server), peer } = session else { return Ok(()) };
        let queue = self.queues.get_mut(key);
        let (Some(queue), Some(channel)) = (queue, peer.channel_mut(number)) else { return Ok(()) };
        let remaining = queue.ready().saturating_sub(1);
        let Some(taken) = queue.take() else { return server.send(number, &BasicGetEmpty::default()) };
        let address = taken.address;
        let tag = if no_ack {
            channel.deliveries.next_tag()
        } else {
            let (consumer, was_overtaken, is_of_stream) = (None, false, false);
            let failures = taken.redelivered.unwrap_or(0);
            channel.deliveries.push(Unacked { queue: key, address, consumer, was_overtaken, failures, is_of_stream })
        };
        let redelivered = taken.redelivered.is_some();
        outgoing::get_ok(server, number, tag, redelivered, remaining, &taken.record)?;
        if no_ack {
            queue.settle(address, &mut self.memory);
        }
        self.expire_queue(key);
        Ok(())
    }
}

/// A consumer and its connection, while both are there.
#[inline]
pub(crate) fn exit<'a>(
    consumers: &'a mut Slots<Consumer>,
    sessions: &'a mut Slots<Session>,
    key: Key,
) -> Option<(&'a mut Consumer, &'a mut Session)> {
    let consumer = consumers.get_mut(key)?;
    let session = sessions.get_mut(consumer.connection)?;
    if session.peer.is_finished { None } else { Some((consumer, session)) }
}

/// Why a consumer cannot take a message now.
#[inline]
fn obstacle(consumer: &Consumer, session: &mut Session, unsent_limit: usize) -> Option<Parked> {
    if session.server.unsent() >= unsent_limit {
        return Some(Parked::ForOutput);
    }
    let has_credit = session.server.has_credit(consumer);
    let channel = session.peer.channel_mut(consumer.channel)?;
    let may = has_credit && consumer.has_credit() && (consumer.no_ack || channel.has_credit());
    if may { None } else { Some(Parked::ForCredit) }
}

fn park(consumer: &mut Consumer, key: Key, session: &mut Session, reason: Parked) {
    consumer.parked = reason;
    if reason == Parked::ForOutput {
        session.peer.parked_for_output.push(key);
    }
}

/// Notes that a session has output.
#[inline]
pub(crate) fn touch(peer: &mut Peer, touched: &mut Vec<Key>) {
    if !std::mem::replace(&mut peer.is_touched, true) {
        touched.push(peer.key);
    }
}

/// The tag of a delivery to a consumer, which has to be settled unless it settles none.
#[inline]
fn hand_over(consumer: &mut Consumer, key: Key, channel: &mut Channel, delivery: Delivery) -> u64 {
    if consumer.no_ack {
        return channel.deliveries.next_tag();
    }
    let Delivery { address, was_overtaken, is_of_stream, redelivered } = delivery;
    let holder = (address != unacked::NOTHING).then_some(key);
    let failures = redelivered.unwrap_or(0);
    let delivery = Unacked { queue: consumer.queue, address, consumer: holder, was_overtaken, failures, is_of_stream };
    let tag = channel.deliveries.push(delivery);
    if holder.is_some() {
        consumer.unacked += 1;
        if matches!(channel.mode, Mode::Session(_)) {
            channel.deliveries.note(&mut consumer.own, consumer.unacked);
        }
    }
    tag
}

/// A message on its way to a consumer, where a script of faults is played.
struct Handover<'a> {
    consumer_key: Key,
    consumer: &'a mut Consumer,
    session: &'a mut Session,
}

/// A delivery of a message to a consumer.
#[derive(Clone, Copy)]
struct Delivery {
    address: u64,
    redelivered: Option<u16>,
    /// It was held back until others had gone first.
    was_overtaken: bool,
    is_of_stream: bool,
}

impl Delivery {
    const fn of(address: u64, redelivered: Option<u16>) -> Self {
        Self { address, redelivered, was_overtaken: false, is_of_stream: false }
    }
}

impl Handover<'_> {
    /// Sends a message; tells whether it could.
    fn send(&mut self, delivery: Delivery, record: &Record<'_>) -> bool {
        let Session { server, peer } = &mut *self.session;
        let consumer = &mut *self.consumer;
        let Some(channel) = peer.channel_mut(consumer.channel) else { return false };
        let tag = hand_over(consumer, self.consumer_key, channel, delivery);
        let sent = outgoing::deliver(server, consumer, tag, delivery.redelivered, record);
        // Nothing can be sent to a connection that failed; its transport's end cleans up.
        peer.is_finished |= sent.is_err();
        true
    }

    /// Takes the next message and does to it what a script says.
    fn deliver_next(&mut self, queue: &mut Queue, faults: &mut Faults, memory: &mut Memory) {
        let holds = self.consumer.held.is_some();
        let Some(taken) = queue.take() else { return };
        let (address, redelivered, record) = (taken.address, taken.redelivered, taken.record);
        let fault = if redelivered.is_some() {
            faults.note_redelivered(taken.was_overtaken);
            DeliveryFault::Pass
        } else {
            faults.delivery(record.basic_body().len(), holds)
        };
        match fault {
            DeliveryFault::Lose => {
                queue.settle(address, memory);
                return;
            }
            DeliveryFault::Hold { by, rule } => {
                self.consumer.held =
                    Some(Held { address, left: by, is_overtaken: false, until: faults.hold(self.consumer_key), rule });
                return;
            }
            DeliveryFault::Corrupt { byte, mask } => {
                let mut body = std::mem::take(&mut faults.body);
                body.clear();
                body.extend_from_slice(&record.basic_body());
                if let Some(byte) = body.get_mut(byte) {
                    *byte ^= mask;
                }
                let damaged = Record { body: &body, has_sections: false, ..record };
                self.send(Delivery::of(address, redelivered), &damaged);
                faults.body = body;
            }
            DeliveryFault::Pass => {
                self.send(Delivery::of(address, redelivered), &record);
            }
            DeliveryFault::Duplicate { redelivered: flag } => {
                self.send(Delivery::of(address, redelivered), &record);
                // Settling the copy changes nothing.
                self.send(Delivery::of(unacked::NOTHING, flag.then_some(0)), &record);
            }
        }
        if self.consumer.no_ack {
            queue.settle(address, memory);
        }
        // One that says nothing of its sender overtakes nobody, nor does one that comes again.
        let overtakes = redelivered.is_none() && !matches!(fault, DeliveryFault::Corrupt { .. });
        if overtakes && let Some(held) = &mut self.consumer.held {
            held.is_overtaken = true;
            held.left -= 1;
            if held.left == 0 {
                self.release(queue, faults, memory);
            }
        }
    }

    /// Sends what was held back.
    fn release(&mut self, queue: &mut Queue, faults: &mut Faults, memory: &mut Memory) {
        let Some(held) = self.consumer.held.take() else { return };
        let Some(record) = queue.log().get(held.address) else { return };
        faults.count(held.rule, u64::from(held.is_overtaken));
        let delivery = Delivery { was_overtaken: held.is_overtaken, ..Delivery::of(held.address, None) };
        let sent = self.send(delivery, &record);
        if sent && self.consumer.no_ack {
            queue.settle(held.address, memory);
        }
    }
}

/// Property flags: content-type, content-encoding, headers; in the order of their values.
const CONTENT_TYPE: u16 = 1 << 15;
const CONTENT_ENCODING: u16 = 1 << 14;
const HEADERS: u16 = 1 << 13;

/// The name of the header that tells a stream's consumer where it is, and the tag of its value.
const STREAM_OFFSET: &[u8] = b"\x0fx-stream-offsetl";

/// Writes `properties` (flags and values) to `out` with the offset as one header more, without decoding them. What
/// cannot be understood is copied as it is.
fn put_stream_offset(properties: &[u8], offset: u64, out: &mut Vec<u8>) {
    out.clear();
    if insert_stream_offset(properties, offset, out).is_none() {
        out.clear();
        out.extend_from_slice(properties);
    }
}

fn insert_stream_offset(properties: &[u8], offset: u64, out: &mut Vec<u8>) -> Option<()> {
    let (_, name) = STREAM_OFFSET.split_last()?;
    if properties.windows(name.len()).any(|it| it == name) {
        return replace_stream_offset(properties, offset, out);
    }
    let (flags, values) = properties.split_first_chunk::<2>()?;
    let flags = u16::from_be_bytes(*flags);
    let mut before = 0;
    for flag in [CONTENT_TYPE, CONTENT_ENCODING] {
        if flags & flag != 0 {
            before += 1 + usize::from(*values.get(before)?);
        }
    }
    let (before, rest) = values.split_at_checked(before)?;
    let (headers, rest) = if flags & HEADERS == 0 {
        (&[][..], rest)
    } else {
        let (length, rest) = rest.split_first_chunk::<4>()?;
        rest.split_at_checked(u32::from_be_bytes(*length) as usize)?
    };
    out.extend_from_slice(&(flags | HEADERS).to_be_bytes());
    out.extend_from_slice(before);
    let length = u32::try_from(headers.len() + STREAM_OFFSET.len() + 8).ok()?;
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(headers);
    out.extend_from_slice(STREAM_OFFSET);
    out.extend_from_slice(&offset.to_be_bytes());
    out.extend_from_slice(rest);
    Some(())
}

/// Writes properties that have such a header already, perhaps.
#[cold]
fn replace_stream_offset(properties: &[u8], offset: u64, out: &mut Vec<u8>) -> Option<()> {
    let known = Properties::from_bytes(properties).decode().ok()?;
    let mut headers = known.headers.unwrap_or(Table::EMPTY).to_owned();
    headers.insert("x-stream-offset", Value::I64(offset.cast_signed())).ok()?;
    BasicProperties { headers: Some(headers.view()), ..known }.encode(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::amqp091::FieldTable;

    #[test]
    fn the_offset_joins_whatever_is_there() {
        let mut headers = FieldTable::new();
        headers.insert("colour", "red").unwrap();
        // One of another stream's.
        headers.insert("x-stream-offset", Value::I64(5)).unwrap();
        let with_headers = BasicProperties {
            content_type: Some("text/plain"),
            content_encoding: Some("gzip"),
            headers: Some(headers.view()),
            delivery_mode: Some(2),
            ..BasicProperties::default()
        };
        let without = BasicProperties { headers: None, ..with_headers };
        for properties in [with_headers, without, BasicProperties::default()] {
            let bytes = properties.to_bytes().unwrap();
            let mut out = vec![9; 3];
            put_stream_offset(&bytes, 7_000_000_000, &mut out);
            let decoded = Properties::from_bytes(&out).decode().unwrap();
            let found = decoded.headers.expect("headers");
            let offsets = found.iter().filter(|it| it.0 == "x-stream-offset");
            assert_eq!(offsets.map(|it| it.1).collect::<Vec<_>>(), [Value::I64(7_000_000_000)]);
            let colour = found.get("colour").and_then(Value::as_str);
            assert_eq!(colour.is_some(), properties.headers.is_some());
            assert_eq!(BasicProperties { headers: properties.headers, ..decoded }, properties);
        }
    }

    #[test]
    fn what_cannot_be_understood_stays_as_it_is() {
        for broken in [&[][..], &[0x80], &[0x80, 0], &[0x80, 0, 9, 1], &[0x20, 0, 0, 0, 1, 0]] {
            let mut out = Vec::new();
            put_stream_offset(broken, 1, &mut out);
            assert_eq!(out, broken);
        }
    }
}
