//! The records of `perf.data` in the order of time.
//!
//! Each processor's records stand in the order of their time, but one processor's follow another's. A mark stands where
//! `perf` had been round once: nothing behind it is older than what stood before the mark that came before it.

use std::io::{self, BufRead, Read as _};

use perf_event_open_sys::bindings as b;

use super::header::{Attribute, Header};
use crate::record::RawRecord;

/// Kinds of records that `perf` itself writes.
const TRACING_DATA: u32 = 66;
const FINISHED_ROUND: u32 = 68;
const AUXTRACE: u32 = 71;
const COMPRESSED: [u32; 2] = [81, 83];
/// The first of them.
const OF_PERF: u32 = 64;

/// Bytes of records that wait for others that may be older. A file without marks is taken half by half.
const MOST_WAITING: usize = 256 << 20;
/// Bytes that a waiting record takes beside its own.
const OWN: usize = 64;

struct Waiting {
    time: u64,
    event: usize,
    kind: u32,
    misc: u16,
    body: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Whole,
    /// In the middle of a record.
    CutOff,
}

/// Hands each record to `take`, with event and time. The inner error is that of `take`, or why no more can be read.
pub(super) fn for_each(
    input: &mut dyn BufRead,
    header: &Header,
    mut take: impl FnMut(&RawRecord<'_>, usize, u64) -> Result<(), String>,
) -> io::Result<Result<Ending, String>> {
    let mut input = input.take(header.length.unwrap_or(u64::MAX));
    let mut waiting: Vec<Waiting> = Vec::new();
    let mut bytes = 0;
    // The newest record up to the mark before the last one.
    let (mut settled, mut newest) = (0, 0);
    let ending = loop {
        let head = next(&mut input, 8)?;
        let &[k0, k1, k2, k3, m0, m1, s0, s1] = head.as_slice() else {
            break if head.is_empty() { Ending::Whole } else { Ending::CutOff };
        };
        let kind = u32::from_le_bytes([k0, k1, k2, k3]);
        let size = usize::from(u16::from_le_bytes([s0, s1]));
        let Some(length) = size.checked_sub(8) else {
            return Ok(Err(format!("a record of kind {kind} says that it has {size} bytes")));
        };
        let body = next(&mut input, length)?;
        if body.len() < length {
            break Ending::CutOff;
        }
        if COMPRESSED.contains(&kind) {
            return Ok(Err("its records are packed (`perf record -z`): record it without -z".into()));
        }
        if kind == FINISHED_ROUND {
            if let Err(why) = flush(&mut waiting, &mut bytes, settled, &mut take) {
                return Ok(Err(why));
            }
            settled = newest;
            continue;
        }
        if kind >= OF_PERF {
            io::copy(&mut (&mut input).take(length_behind(kind, &body)), &mut io::sink())?;
            continue;
        }
        let (event, time) = event_and_time(header, kind, &body);
        newest = newest.max(time);
        bytes += body.len() + OWN;
        waiting.push(Waiting { time, event, kind, misc: u16::from_le_bytes([m0, m1]), body });
        if bytes > MOST_WAITING {
            waiting.sort_by_key(|it| it.time);
            let middle = waiting.get(waiting.len() / 2).map_or(0, |it| it.time);
            if let Err(why) = flush(&mut waiting, &mut bytes, middle, &mut take) {
                return Ok(Err(why));
            }
        }
    };
    Ok(flush(&mut waiting, &mut bytes, u64::MAX, &mut take).map(|()| ending))
}

/// The event of a record, by its place in the header, and when it was written.
fn event_and_time(header: &Header, kind: u32, body: &[u8]) -> (usize, u64) {
    let is_sample = kind == b::PERF_RECORD_SAMPLE;
    let event = if is_sample { header.event_of_sample(body) } else { header.event_of_other(body) };
    let time_of = |it: &Attribute| if is_sample { it.time_of_sample(body) } else { it.time_of_other(body) };
    (event, header.events.get(event).map_or(0, time_of))
}

/// Hands on what is not newer than `until`, in the order of time.
fn flush(
    waiting: &mut Vec<Waiting>,
    bytes: &mut usize,
    until: u64,
    take: &mut impl FnMut(&RawRecord<'_>, usize, u64) -> Result<(), String>,
) -> Result<(), String> {
    waiting.sort_by_key(|it| it.time);
    let count = waiting.partition_point(|it| it.time <= until);
    for it in waiting.drain(..count) {
        *bytes = bytes.saturating_sub(it.body.len() + OWN);
        let record = RawRecord { kind: it.kind, misc: it.misc, body: &it.body };
        take(&record, it.event, it.time)?;
    }
    Ok(())
}

/// Bytes that follow a record of `perf`'s own and are not counted in its size.
fn length_behind(kind: u32, body: &[u8]) -> u64 {
    let number = |length: usize| {
        body.get(..length).unwrap_or_default().iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte))
    };
    match kind {
        AUXTRACE => number(8),
        TRACING_DATA => number(4).next_multiple_of(8),
        _ => 0,
    }
}

/// So many bytes; fewer where the input ends before.
fn next(input: &mut dyn io::Read, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(length);
    input.take(length as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}
