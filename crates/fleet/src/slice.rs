//! A slice as bytes: numbers as LEB128, texts with their length before them, all of it deflated (zlib).
//!
//! ```text
//! start | length | phase, + 4 where it ends it | loop lag | 9 counters | 9 waits
//! counts      how many, each: kind | key | value
//! histograms  how many, each: 1 where carried from the warm-up | key | buckets, each: distance from the last | count
//! ```
//! HDR's V2 form would hold the same buckets; reading it takes a histogram of 270 KB for each metric of each slice.

use std::fmt;
use std::sync::Arc;

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use measure::leb128::{put_number, take_number, take_numbers};
use measure::{Counters, Metric, MetricKind, Nanos, Phase, Slice, SliceRecorder, Time, Waits};

/// A message that cannot be one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed(pub(crate) String);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "this is no message of a fleet: {}", self.0)
    }
}

impl std::error::Error for Malformed {}

/// Bytes of a slice at most, inflated: each of 20 histograms with something in each bucket has less.
const MOST_PLAIN: usize = 4 << 20;
/// Counts, or histograms, of a slice at most.
const MOST_METRICS: u64 = 256;
const LONGEST_KEY: u64 = 64;
/// A tenth of a second has no counts as large; sums of smaller ones do not overflow.
const MOST_COUNTED: u64 = 1 << 48;
/// A slice that a pause has made long is no longer, and begins before, nanoseconds.
const LONGEST: u64 = 1 << 48;
const LATEST: u64 = 1 << 60;
/// Added to the number of the phase in its last slice.
const ENDS_PHASE: u64 = 4;

/// A slice as it travels, deflated. [`SliceReader::read`] checks it.
#[derive(Clone, PartialEq, Eq)]
pub struct SliceData(pub(crate) Arc<[u8]>);

impl fmt::Debug for SliceData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "slice of {} bytes", self.0.len())
    }
}

/// Encodes slices, in memory that it keeps.
#[derive(Debug)]
pub struct SliceWriter {
    deflate: Compress,
    plain: Vec<u8>,
    deflated: Vec<u8>,
}

impl Default for SliceWriter {
    fn default() -> Self {
        let deflate = Compress::new(Compression::fast(), true);
        Self { deflate, plain: Vec::new(), deflated: Vec::new() }
    }
}

impl SliceWriter {
    /// Encodes a slice.
    pub fn write(&mut self, slice: &Slice) -> SliceData {
        self.plain.clear();
        self.put(slice);
        self.deflate.reset();
        self.deflated.clear();
        // Stored blocks, the worst case, have 5 bytes for each 16 kB.
        self.deflated.reserve(self.plain.len() + self.plain.len() / 1_000 + 128);
        let status = self.deflate.compress_vec(&self.plain, &mut self.deflated, FlushCompress::Finish);
        debug_assert!(matches!(status, Ok(Status::StreamEnd)));
        SliceData(self.deflated.as_slice().into())
    }

    fn put(&mut self, slice: &Slice) {
        let out = &mut self.plain;
        let phase = Phase::ALL.iter().position(|it| *it == slice.phase).unwrap_or_default() as u64;
        let head = [slice.start.0, slice.length().0, phase + ENDS_PHASE * u64::from(slice.ends_phase)];
        let (counters, waits) = (fields_of(slice.counters), waits_of(slice.waits));
        for number in head.into_iter().chain([slice.loop_lag_max.0]).chain(counters).chain(waits) {
            put_number(out, number);
        }
        put_number(out, slice.counts.iter().count() as u64);
        for (metric, value) in slice.counts.iter() {
            put_number(out, u64::from(metric.info().kind == MetricKind::Peak));
            put_key(out, metric);
            put_number(out, value);
        }
        let recorders = || [Some(&slice.latencies), slice.carried.as_ref()].into_iter().zip(0u64..);
        let filled = || recorders().filter_map(|(recorder, carried)| Some((recorder?, carried)));
        put_number(out, filled().map(|(recorder, _)| recorder.filled().count() as u64).sum());
        for (recorder, carried) in filled() {
            for (metric, histogram) in recorder.filled() {
                put_number(out, carried);
                put_key(out, metric);
                put_number(out, histogram.buckets().count() as u64);
                let mut last = 0;
                for (bucket, count) in histogram.buckets() {
                    put_number(out, (bucket - last) as u64);
                    put_number(out, count);
                    last = bucket;
                }
            }
        }
    }
}

pub(crate) const fn fields_of(of: Counters) -> [u64; 9] {
    let Counters { sent, completed, received, blocked, nacked, returned, redelivered, late, resent } = of;
    [sent, completed, received, blocked, nacked, returned, redelivered, late, resent]
}

fn waits_of(of: Waits) -> [u64; 9] {
    let Waits { ready, schedule, budget, credit, socket, blocked, away, loop_idle, loop_time } = of;
    [ready, schedule, budget, credit, socket, blocked, away, loop_idle, loop_time].map(|it| it.0)
}

/// Decodes slices, in memory that it keeps.
#[derive(Debug)]
pub struct SliceReader {
    inflate: Decompress,
    plain: Vec<u8>,
}

impl Default for SliceReader {
    fn default() -> Self {
        Self { inflate: Decompress::new(true), plain: Vec::new() }
    }
}

impl SliceReader {
    /// Replaces what is in `slice`, whose memory is reused: sums are those of what was encoded, bit by bit. Errors:
    /// bytes that are no slice, or larger than one can be; `slice` holds a part then.
    pub fn read(&mut self, data: &SliceData, slice: &mut Slice) -> Result<(), Malformed> {
        self.take(data, slice, true)
    }

    /// Adds to `slice`, whose phase must be that of `data`, as [`Slice::merge`] does with what [`Self::read`] reads, in
    /// half the time: empty buckets are not looked at. Errors: those of [`Self::read`].
    pub fn add(&mut self, data: &SliceData, slice: &mut Slice) -> Result<(), Malformed> {
        self.take(data, slice, false)
    }

    fn take(&mut self, data: &SliceData, slice: &mut Slice, is_new: bool) -> Result<(), Malformed> {
        let inflated = self.inflate(&data.0);
        let taken = inflated.and_then(|()| take(&mut self.plain.as_slice(), slice, is_new));
        taken.ok_or_else(|| Malformed("its slice cannot be read".into()))
    }

    fn inflate(&mut self, deflated: &[u8]) -> Option<()> {
        self.inflate.reset(true);
        self.plain.clear();
        loop {
            self.plain.reserve((self.plain.len() * 2).clamp(16 << 10, MOST_PLAIN));
            let done = usize::try_from(self.inflate.total_in()).ok()?;
            let before = self.plain.len();
            let rest = deflated.get(done..)?;
            match self.inflate.decompress_vec(rest, &mut self.plain, FlushDecompress::None).ok()? {
                Status::StreamEnd => return (self.plain.len() <= MOST_PLAIN).then_some(()),
                _ if self.plain.len() == before || self.plain.len() > MOST_PLAIN => return None,
                Status::Ok | Status::BufError => {}
            }
        }
    }
}

fn take(bytes: &mut &[u8], slice: &mut Slice, is_new: bool) -> Option<()> {
    let [start, length, phase, loop_lag] = take_numbers(bytes)?;
    if length > LONGEST || start > LATEST {
        return None;
    }
    let (start, end) = (Time(start), Time(start + length));
    let ends_phase = phase >= ENDS_PHASE;
    let phase = *Phase::ALL.get((phase % ENDS_PHASE) as usize)?;
    if is_new {
        slice.reset(start, phase);
    } else if slice.phase != phase {
        return None;
    }
    (slice.start, slice.end) = (slice.start.min(start), slice.end.max(end));
    slice.ends_phase |= ends_phase;
    slice.loop_lag_max = slice.loop_lag_max.max(Nanos(loop_lag));
    let counters: [u64; 9] = take_numbers(bytes)?;
    if counters.iter().any(|it| *it > MOST_COUNTED) {
        return None;
    }
    let [sent, completed, received, blocked, nacked, returned, redelivered, late, resent] = counters;
    slice.counters.add(&Counters { sent, completed, received, blocked, nacked, returned, redelivered, late, resent });
    let waits = take_numbers(bytes)?.map(Nanos);
    let [ready, schedule, budget, credit, socket, blocked, away, loop_idle, loop_time] = waits;
    slice.waits.add(&Waits { ready, schedule, budget, credit, socket, blocked, away, loop_idle, loop_time });
    for _ in 0..take_count(bytes)? {
        let kind = if take_number(bytes)? == 0 { MetricKind::Counter } else { MetricKind::Peak };
        let metric = take_key(bytes, kind)?;
        let value = take_number(bytes).filter(|it| *it <= MOST_COUNTED)?;
        match kind {
            MetricKind::Peak => slice.counts.peak(metric, value),
            _ => slice.counts.add(metric, value),
        }
    }
    for _ in 0..take_count(bytes)? {
        let recorder = match take_number(bytes)? {
            0 => &mut slice.latencies,
            _ => slice.carried.get_or_insert_default(),
        };
        take_histogram(bytes, recorder)?;
    }
    bytes.is_empty().then_some(())
}

fn take_histogram(bytes: &mut &[u8], recorder: &mut SliceRecorder) -> Option<()> {
    let histogram = recorder.histogram_mut(take_key(bytes, MetricKind::Histogram)?);
    let mut bucket = 0usize;
    for _ in 0..take_number(bytes)? {
        let distance = usize::try_from(take_number(bytes)?).ok()?;
        bucket = bucket.checked_add(distance)?;
        if !histogram.add(bucket, take_number(bytes)?) {
            return None;
        }
    }
    Some(())
}

fn take_count(bytes: &mut &[u8]) -> Option<u64> {
    take_number(bytes).filter(|it| *it <= MOST_METRICS)
}

fn put_key(out: &mut Vec<u8>, metric: Metric) {
    let key = metric.key();
    put_number(out, key.len() as u64);
    out.extend_from_slice(key.as_bytes());
}

/// The metric with a key, of this kind: sums of another one would mean something else.
fn take_key(bytes: &mut &[u8], kind: MetricKind) -> Option<Metric> {
    let length = take_number(bytes).filter(|it| *it <= LONGEST_KEY)?;
    let (key, rest) = bytes.split_at_checked(length as usize)?;
    *bytes = rest;
    let metric = Metric::named(std::str::from_utf8(key).ok()?, kind)?;
    (metric.info().kind == kind).then_some(metric)
}
