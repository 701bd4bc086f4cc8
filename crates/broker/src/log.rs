//! Messages in order of arrival, back to back in segments: the storage below every queue and stream. A record's
//! *address* is its distance in bytes from the first byte ever appended, so addresses grow with age, name a message for
//! as long as it lives, and put a returned message back at its original place by comparison alone.
//!
//! ```text
//! record:  body length u32 | properties length u32 | exchange length u8 | key length u8 |
//!          exchange | routing key | property flags and list as on the wire | body
//!
//! The highest bit of the properties' length tells that the body is sections of AMQP 1.0.
//! ```

use std::borrow::Cow;
use std::collections::VecDeque;

use wire::amqp10::MessageParts;

use crate::memory::Memory;

/// Bytes before a record's variable parts.
const HEADER_BYTES: usize = 10;
/// The bit that tells of sections: properties have to go into one frame, and so are never as long.
const SECTIONS: u32 = 1 << 31;

/// One message, borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    /// The exchange it was published to; at most 255 bytes.
    pub(crate) exchange: &'a str,
    /// Its routing key; at most 255 bytes.
    pub(crate) routing_key: &'a str,
    /// The content header from the property flags on, as it came, or as AMQP 0.9.1 would have it.
    pub(crate) properties: &'a [u8],
    /// The whole body; or with `has_sections`, the body and the sections before it.
    pub(crate) body: &'a [u8],
    /// It came over AMQP 1.0, with these sections.
    pub(crate) has_sections: bool,
}

impl<'a> Record<'a> {
    /// The body as AMQP 0.9.1 has it.
    #[inline]
    pub(crate) fn basic_body(&self) -> Cow<'a, [u8]> {
        match self.has_sections {
            false => Cow::Borrowed(self.body),
            true => MessageParts::read(self.body).map_or(Cow::Borrowed(self.body), |parts| parts.basic_body()),
        }
    }

    fn stored_bytes(&self) -> usize {
        HEADER_BYTES + self.exchange.len() + self.routing_key.len() + self.properties.len() + self.body.len()
    }

    fn write(&self, to: &mut Vec<u8>) {
        let mut header = [0; HEADER_BYTES];
        header[..4].copy_from_slice(&(self.body.len() as u32).to_le_bytes());
        let flag = if self.has_sections { SECTIONS } else { 0 };
        header[4..8].copy_from_slice(&(self.properties.len() as u32 | flag).to_le_bytes());
        header[8] = self.exchange.len() as u8;
        header[9] = self.routing_key.len() as u8;
        to.extend_from_slice(&header);
        to.extend_from_slice(self.exchange.as_bytes());
        to.extend_from_slice(self.routing_key.as_bytes());
        to.extend_from_slice(self.properties);
        to.extend_from_slice(self.body);
    }

    /// The record at the start of `bytes`, which [`Record::write`] wrote.
    fn read(bytes: &'a [u8]) -> Option<Self> {
        let (header, rest) = bytes.split_first_chunk::<HEADER_BYTES>()?;
        let [b0, b1, b2, b3, p0, p1, p2, p3, exchange, key] = *header;
        let body = u32::from_le_bytes([b0, b1, b2, b3]) as usize;
        let properties = u32::from_le_bytes([p0, p1, p2, p3]);
        let has_sections = properties & SECTIONS != 0;
        let (exchange, rest) = rest.split_at_checked(usize::from(exchange))?;
        let (routing_key, rest) = rest.split_at_checked(usize::from(key))?;
        let (properties, rest) = rest.split_at_checked((properties & !SECTIONS) as usize)?;
        Some(Self {
            exchange: std::str::from_utf8(exchange).ok()?,
            routing_key: std::str::from_utf8(routing_key).ok()?,
            properties,
            body: rest.get(..body)?,
            has_sections,
        })
    }
}

#[derive(Debug)]
struct Segment {
    /// Address of its first byte.
    base: u64,
    data: Vec<u8>,
    /// Records not released yet.
    live: u64,
    /// How many records were appended to the log before this segment.
    first_index: u64,
    /// Records in it.
    count: u64,
}

impl Segment {
    fn end(&self) -> u64 {
        self.base + self.data.len() as u64
    }

    fn record(&self, address: u64) -> Option<Record<'_>> {
        let offset = usize::try_from(address.checked_sub(self.base)?).ok()?;
        Record::read(self.data.get(offset..)?)
    }
}

/// An append-only log whose records are released one by one, in any order. Its segments come from
/// and go back to the [`Memory`] given; one log always sees the same one.
#[derive(Debug, Default)]
pub(crate) struct Log {
    segments: VecDeque<Segment>,
    /// Address of the next record appended.
    end: u64,
    /// Records appended ever.
    appended: u64,
    /// Bytes of all segments.
    bytes: u64,
}

/// A reader's place in a [`Log`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cursor {
    /// Address of the next record to read.
    pub(crate) address: u64,
    /// Its number, counted from 0 over all records ever appended.
    pub(crate) index: u64,
    /// Where its segment was last time.
    hint: usize,
}

impl Log {
    /// Stores a message and returns its address.
    pub(crate) fn append(&mut self, record: &Record<'_>, memory: &mut Memory) -> u64 {
        let needed = record.stored_bytes();
        let tail = self.segments.back();
        // What is left of an older segment, once those behind it are gone, has addresses that have been given away.
        let has_room = |it: &Segment| it.end() == self.end && it.data.capacity() - it.data.len() >= needed;
        if !tail.is_some_and(has_room) {
            let data = memory.take(needed, tail.map_or(0, |it| it.data.capacity()));
            self.bytes += data.capacity() as u64;
            self.segments.push_back(Segment { base: self.end, data, live: 0, first_index: self.appended, count: 0 });
        }
        let address = self.end;
        if let Some(tail) = self.segments.back_mut() {
            record.write(&mut tail.data);
            tail.live += 1;
            tail.count += 1;
        }
        self.end += needed as u64;
        self.appended += 1;
        address
    }

    /// The message at `address`, if it is still there.
    pub(crate) fn get(&self, address: u64) -> Option<Record<'_>> {
        self.segments.get(self.find(address)?)?.record(address)
    }

    /// The message at the cursor, which moves behind it; with its address and number. A cursor
    /// before the oldest record moves there first.
    #[inline]
    pub(crate) fn next(&self, cursor: &mut Cursor) -> Option<(u64, u64, Record<'_>)> {
        let segment = match self.segments.get(cursor.hint) {
            Some(s) if cursor.address >= s.base && cursor.address < s.end() => s,
            _ => self.seek(cursor)?,
        };
        let record = segment.record(cursor.address)?;
        let read = (cursor.address, cursor.index, record);
        cursor.address += record.stored_bytes() as u64;
        cursor.index += 1;
        Some(read)
    }

    /// Finds the cursor's segment again, skipping what was released.
    fn seek(&self, cursor: &mut Cursor) -> Option<&Segment> {
        if cursor.address >= self.end {
            return None;
        }
        cursor.hint = self.segments.partition_point(|s| s.end() <= cursor.address);
        let segment = self.segments.get(cursor.hint)?;
        if cursor.address < segment.base {
            cursor.address = segment.base;
            cursor.index = segment.first_index;
        }
        Some(segment)
    }

    /// Forgets the message at `address`; its memory is free when its neighbours are, too. Returns whether it was there.
    pub(crate) fn release(&mut self, address: u64, memory: &mut Memory) -> bool {
        let Some(at) = self.find(address) else { return false };
        let Some(segment) = self.segments.get_mut(at) else { return false };
        segment.live -= 1;
        if segment.live == 0
            && let Some(segment) = self.segments.remove(at)
        {
            self.give(segment, memory);
        }
        true
    }

    /// Forgets the oldest segment with all its messages, unless it is the only one. Returns
    /// whether it did. For logs whose records are not released one by one.
    pub(crate) fn drop_oldest(&mut self, memory: &mut Memory) -> bool {
        if self.segments.len() < 2 {
            return false;
        }
        if let Some(segment) = self.segments.pop_front() {
            self.give(segment, memory);
        }
        true
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self, memory: &mut Memory) {
        while let Some(segment) = self.segments.pop_front() {
            self.give(segment, memory);
        }
    }

    /// The place of the oldest message.
    pub(crate) fn first(&self) -> Cursor {
        self.segments.front().map_or_else(|| self.last(), |s| Cursor { address: s.base, index: s.first_index, hint: 0 })
    }

    /// The place behind the newest message.
    pub(crate) fn last(&self) -> Cursor {
        Cursor { address: self.end, index: self.appended, hint: self.segments.len() }
    }

    /// The place of the newest segment's first message.
    pub(crate) fn last_segment(&self) -> Cursor {
        self.segments.back().map_or_else(
            || self.last(),
            |s| Cursor { address: s.base, index: s.first_index, hint: self.segments.len() - 1 },
        )
    }

    /// The place of message number `index`, or of the nearest one that is there.
    pub(crate) fn at_index(&self, index: u64) -> Cursor {
        if index >= self.appended {
            return self.last();
        }
        let hint = self.segments.partition_point(|s| s.first_index + s.count <= index);
        let Some(segment) = self.segments.get(hint) else { return self.last() };
        let mut cursor = Cursor { address: segment.base, index: segment.first_index, hint };
        while cursor.index < index && self.next(&mut cursor).is_some() {}
        cursor
    }

    /// Whether the memory of the message at `address` is still there.
    pub(crate) fn holds(&self, address: u64) -> bool {
        self.find(address).is_some()
    }

    /// Messages held.
    pub(crate) fn len(&self) -> u64 {
        self.segments.iter().map(|s| s.live).sum()
    }

    /// Bytes of all segments.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    fn give(&mut self, segment: Segment, memory: &mut Memory) {
        self.bytes -= segment.data.capacity() as u64;
        memory.give(segment.data);
    }

    /// The index of the segment that holds `address`.
    #[inline]
    fn find(&self, address: u64) -> Option<usize> {
        // Acknowledgements come for the oldest messages first.
        if let Some(front) = self.segments.front()
            && address < front.end()
        {
            return (address >= front.base).then_some(0);
        }
        let at = self.segments.partition_point(|s| s.end() <= address);
        self.segments.get(at).filter(|s| address >= s.base).map(|_| at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> Memory {
        Memory::new(u64::MAX, u64::MAX)
    }

    fn record<'a>(key: &'a str, body: &'a [u8]) -> Record<'a> {
        Record { exchange: "ex", routing_key: key, properties: &[0x10, 0, 2], body, has_sections: body.len() % 2 == 1 }
    }

    #[test]
    fn what_goes_in_comes_out_in_order_and_memory_returns_to_zero() {
        let (mut log, mut memory) = (Log::default(), memory());
        // One is larger than a segment.
        let size = |i: usize| if i == 1_500 { 1 << 20 } else { i % 700 };
        let bodies: Vec<Vec<u8>> = (0..3000usize).map(|i| vec![i as u8; size(i)]).collect();
        let keys: Vec<String> = (0..3000).map(|i| format!("key.{i}")).collect();
        for (key, body) in keys.iter().zip(&bodies) {
            log.append(&record(key, body), &mut memory);
        }
        assert_eq!(log.len(), 3000);
        let mut cursor = log.first();
        let mut addresses = Vec::new();
        for (i, (key, body)) in keys.iter().zip(&bodies).enumerate() {
            let (address, index, read) = log.next(&mut cursor).expect("a record");
            assert_eq!((index, read), (i as u64, record(key, body)));
            addresses.push(address);
        }
        assert!(log.next(&mut cursor).is_none());
        assert!(addresses.is_sorted());
        // Every other one first: segments in the middle are freed when their last record goes.
        for odd in [0, 1] {
            for (i, &address) in addresses.iter().enumerate().filter(|(i, _)| i % 2 == odd) {
                assert_eq!(log.get(address), Some(record(&keys[i], &bodies[i])));
                assert!(log.release(address, &mut memory));
            }
        }
        assert_eq!((log.len(), log.bytes(), memory.used()), (0, 0, 0));
        assert!(!log.release(addresses[0], &mut memory), "released once only");
    }

    #[test]
    fn a_cursor_survives_the_release_of_everything_before_it() {
        let (mut log, mut memory) = (Log::default(), memory());
        let mut cursor = log.first();
        for round in 0..5000u32 {
            log.append(&record("k", &round.to_le_bytes()), &mut memory);
            let (address, index, read) = log.next(&mut cursor).expect("the one appended");
            assert_eq!((index, read.body), (u64::from(round), &round.to_le_bytes()[..]));
            assert!(log.release(address, &mut memory));
            assert_eq!(memory.used(), 0);
        }
    }

    #[test]
    fn messages_that_would_fit_behind_an_old_one_are_found_though_a_later_segment_is_gone() {
        let (mut log, mut memory) = (Log::default(), memory());
        let mut cursor = log.first();
        let mut put = |log: &mut Log, memory: &mut Memory, bytes: usize| {
            let address = log.append(&record("k", &vec![7; bytes]), memory);
            assert_eq!(log.next(&mut cursor).map(|it| (it.0, it.2.body.len())), Some((address, bytes)), "{bytes}");
            address
        };
        for round in 0..2_000 {
            // One stays for long, and others of any size come and go behind it.
            let kept = put(&mut log, &mut memory, 10);
            for i in 0..round % 40 {
                let address = put(&mut log, &mut memory, (round + i) * 7_919 % 2_000);
                assert!(log.release(address, &mut memory));
            }
            assert_eq!(log.get(kept).map(|it| it.body.len()), Some(10));
            assert!(log.release(kept, &mut memory));
        }
        assert_eq!((log.len(), memory.used()), (0, 0));
    }

    #[test]
    fn a_cursor_left_behind_jumps_to_the_oldest_message() {
        let (mut log, mut memory) = (Log::default(), memory());
        let mut cursor = log.first();
        for i in 0..1000u32 {
            log.append(&record("k", &i.to_le_bytes()), &mut memory);
        }
        log.next(&mut cursor);
        assert!(log.drop_oldest(&mut memory));
        let (_, index, read) = log.next(&mut cursor).expect("the oldest");
        assert!(index > 1);
        assert_eq!(read.body, &(index as u32).to_le_bytes()[..]);
        assert_eq!(log.first().index, index);
        assert_eq!(log.at_index(0).index, index);
        assert_eq!(log.at_index(999).index, 999);
        assert_eq!(log.at_index(5000), log.last());
        let mut at = log.at_index(700);
        assert_eq!(log.next(&mut at).map(|r| r.2.body), Some(&700u32.to_le_bytes()[..]));
        log.clear(&mut memory);
        assert_eq!((memory.used(), log.first()), (0, log.last()));
    }
}
