//! The shard of one event loop: notes messages without an allocation, a lock or a look at anybody else.

use super::{CHUNK, CHUNK_WORDS, fill};

/// Chunks that a batch has room for: what is due, and what one batch can bring in the worst case.
const BATCH_CHUNKS: usize = DUE_CHUNKS + 4_096;
/// Chunks that are worth sending.
const DUE_CHUNKS: usize = 512;
/// This many chunks are sent however little room they take: the ledger hears equally old things of all loops.
const DUE_CLOSED: usize = 1_024;
/// Where nobody takes the batches for long, one grows to this many chunks (8 MiB) and no further.
const MOST_CHUNKS: usize = 1 << 17;

/// Open chunks in all, where there are few bitmaps: 64 KiB.
const OPEN: usize = 1_024;
/// Open chunks of a bitmap: two, so that a little disorder at their edge closes nothing.
const OPEN_PER_BITMAP: (usize, usize) = (2, 64);
/// Whole chunks in a range that are not worth to be opened.
const LONG_RANGE: u64 = 64;
/// Open chunks of anomalies, all bitmaps together. A power of two.
const OPEN_ANOMALIES: usize = 256;

/// An exceptional delivery, or a message that came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anomaly {
    /// A delivery without the redelivered flag, to a consumer that had had a newer one without it.
    Late,
    /// A delivery with the redelivered flag.
    Redelivered,
    /// A delivery, without the flag, of a copy that its producer sent after a reconnect.
    Resent,
    /// The broker gave it back, as it had no queue for it.
    Returned,
}

/// Some messages of a bitmap.
#[derive(Clone, Debug)]
pub(super) struct Chunk {
    /// The sequence of its first bit is this times [`CHUNK`].
    pub(super) index: u64,
    /// Messages noted, repetitions included.
    pub(super) count: u64,
    pub(super) bitmap: u32,
    /// This many chunks with the same bits one after the other; more than one only if all are set.
    pub(super) run: u32,
    /// `None`: confirmed, or delivered in order.
    pub(super) anomaly: Option<Anomaly>,
    pub(super) bits: [u64; CHUNK_WORDS],
}

const NEVER: u64 = u64::MAX;
const FULL: [u64; CHUNK_WORDS] = [u64::MAX; CHUNK_WORDS];

impl Chunk {
    const fn empty(bitmap: u32, anomaly: Option<Anomaly>, index: u64) -> Self {
        Self { index, count: 0, bitmap, run: 1, anomaly, bits: [0; CHUNK_WORDS] }
    }

    #[inline]
    fn set(&mut self, sequence: u64) {
        let within = sequence % CHUNK;
        self.count += 1;
        self.bits[(within / 64) as usize] |= 1 << (within % 64);
    }
}

/// Chunks on their way to the ledger.
#[derive(Debug)]
pub struct LedgerBatch {
    pub(super) chunks: Vec<Chunk>,
    /// Chunks that were closed for it; more than it holds, where they were full.
    closed: usize,
    /// Messages for which there was no room.
    pub(super) dropped: u64,
}

impl Default for LedgerBatch {
    fn default() -> Self {
        Self { chunks: Vec::with_capacity(BATCH_CHUNKS), closed: 0, dropped: 0 }
    }
}

impl LedgerBatch {
    /// Empties it for reuse.
    pub fn clear(&mut self) {
        self.chunks.clear();
        self.chunks.shrink_to(BATCH_CHUNKS);
        self.closed = 0;
        self.dropped = 0;
    }

    /// Adds a chunk. `run` is where the bitmap's last full chunk stands, which the next one extends.
    fn push(&mut self, chunk: &Chunk, run: Option<&mut u32>, most: usize) {
        self.closed += 1;
        if let Some(at) = run.filter(|_| chunk.bits == FULL) {
            if let Some(last) = self.chunks.get_mut(*at as usize)
                && (last.bitmap, last.anomaly, last.bits) == (chunk.bitmap, None, FULL)
                && last.index + u64::from(last.run) == chunk.index
                && last.run < u32::MAX
            {
                last.run += 1;
                last.count += chunk.count;
                return;
            }
            *at = u32::try_from(self.chunks.len()).unwrap_or(u32::MAX);
        }
        if self.chunks.len() < most {
            self.chunks.push(chunk.clone());
        } else {
            self.dropped += chunk.count;
        }
    }
}

/// The part of the ledger that one event loop keeps.
#[derive(Debug)]
pub struct LedgerShard {
    names: Vec<u32>,
    /// By bitmap: where the batch has its last full chunk.
    runs: Vec<u32>,
    /// By bitmap `1 << open_bits` chunks; a chunk's index says which of them is its.
    open: Vec<Chunk>,
    open_bits: u32,
    /// Chunks of anomalies; a hash of bitmap, kind and index is the position.
    anomalies: Vec<Chunk>,
    batch: LedgerBatch,
}

impl LedgerShard {
    /// A shard of these bitmaps, numbered in this order, by the names that the [`super::Ledger`] knows them by.
    pub fn new(bitmaps: &[u32]) -> Self {
        let (least, most) = OPEN_PER_BITMAP;
        let per_bitmap = (OPEN / bitmaps.len().max(1)).clamp(least, most);
        let open_bits = per_bitmap.ilog2();
        let empty = |name: &u32| {
            let chunk = Chunk::empty(*name, None, NEVER);
            std::iter::repeat_n(chunk, 1 << open_bits)
        };
        Self {
            names: bitmaps.to_vec(),
            runs: vec![0; bitmaps.len()],
            open: bitmaps.iter().flat_map(empty).collect(),
            open_bits,
            anomalies: vec![Chunk::empty(0, None, NEVER); OPEN_ANOMALIES],
            batch: LedgerBatch::default(),
        }
    }

    /// The name of a bitmap.
    pub fn name(&self, bitmap: usize) -> Option<u32> {
        self.names.get(bitmap).copied()
    }

    /// Notes that a bitmap's message was confirmed, or delivered in order without the redelivered flag.
    #[inline(always)]
    pub fn note(&mut self, bitmap: usize, sequence: u64) {
        if let Some(chunk) = self.chunk(bitmap, sequence / CHUNK) {
            chunk.set(sequence);
        }
    }

    /// The chunk of this index, opened if need be.
    #[inline]
    fn chunk(&mut self, bitmap: usize, index: u64) -> Option<&mut Chunk> {
        let within = index as usize & ((1 << self.open_bits) - 1);
        let at = (bitmap << self.open_bits) + within;
        if self.open.get(at)?.index != index {
            self.turn(bitmap, at, index);
        }
        self.open.get_mut(at)
    }

    /// Closes the chunk that stands where another one belongs.
    #[cold]
    fn turn(&mut self, bitmap: usize, at: usize, index: u64) {
        if let Some(chunk) = self.open.get_mut(at) {
            if chunk.count > 0 {
                self.batch.push(chunk, self.runs.get_mut(bitmap), MOST_CHUNKS);
            }
            *chunk = Chunk::empty(chunk.bitmap, None, index);
        }
    }

    /// Notes the same as [`Self::note`] of `count` messages from `first` on.
    #[inline]
    pub fn note_range(&mut self, bitmap: usize, first: u64, count: u64) {
        let (mut at, end) = (first, first.saturating_add(count));
        while at < end {
            let whole = (end - at) / CHUNK;
            if whole >= LONG_RANGE && at % CHUNK == 0 {
                at += self.note_whole(bitmap, at / CHUNK, whole);
                continue;
            }
            let Some(chunk) = self.chunk(bitmap, at / CHUNK) else { return };
            let from = at % CHUNK;
            let n = (CHUNK - from).min(end - at);
            chunk.count += n;
            fill(&mut chunk.bits, from as usize, (from + n) as usize);
            at += n;
        }
    }

    /// Takes some of this many whole chunks, and tells how many messages those have.
    fn note_whole(&mut self, bitmap: usize, index: u64, chunks: u64) -> u64 {
        let run = u32::try_from(chunks).unwrap_or(u32::MAX);
        let messages = u64::from(run) * CHUNK;
        if let Some(name) = self.names.get(bitmap) {
            let chunk = Chunk { count: messages, run, bits: FULL, ..Chunk::empty(*name, None, index) };
            self.batch.push(&chunk, None, MOST_CHUNKS);
        }
        messages
    }

    /// Notes an exception of a message of a bitmap: late, redelivered or resent of deliveries, returned of what was
    /// sent.
    pub fn note_anomaly(&mut self, bitmap: usize, anomaly: Anomaly, sequence: u64) {
        let Some(name) = self.names.get(bitmap).copied() else { return };
        let index = sequence / CHUNK;
        let key = index ^ u64::from(name) << 32 ^ (anomaly as u64) << 62;
        // Fibonacci hashing: the high bits of the product depend on all of the key.
        let at = (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize % OPEN_ANOMALIES;
        let Some(chunk) = self.anomalies.get_mut(at) else { return };
        if (chunk.index, chunk.bitmap, chunk.anomaly) != (index, name, Some(anomaly)) {
            if chunk.count > 0 {
                self.batch.push(chunk, None, MOST_CHUNKS);
            }
            *chunk = Chunk::empty(name, Some(anomaly), index);
        }
        chunk.set(sequence);
    }

    /// Whether the batch should go soon.
    pub const fn is_due(&self) -> bool {
        self.batch.chunks.len() >= DUE_CHUNKS || self.batch.closed >= DUE_CLOSED
    }

    /// Takes the batch for an empty one.
    pub const fn exchange(&mut self, empty: LedgerBatch) -> LedgerBatch {
        std::mem::replace(&mut self.batch, empty)
    }

    /// Closes all chunks, for the last batch, which has room for them all.
    pub fn close(&mut self) {
        let most = usize::MAX;
        for (at, chunk) in self.open.iter_mut().enumerate() {
            if chunk.count > 0 {
                let run = self.runs.get_mut(at >> self.open_bits);
                self.batch.push(chunk, run, most);
            }
            *chunk = Chunk::empty(chunk.bitmap, None, NEVER);
        }
        for chunk in &mut self.anomalies {
            if chunk.count > 0 {
                self.batch.push(chunk, None, most);
            }
            *chunk = Chunk::empty(0, None, NEVER);
        }
    }
}
