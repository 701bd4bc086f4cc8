//! What one event loop notes down, without an allocation, a lock or a look at anybody else.

use super::{BLOCK, Bits, WORDS, place};

/// Blocks that a parcel has room for.
const PARCEL_BLOCKS: usize = 128;
/// Redelivered messages that a parcel has room for.
const PARCEL_FLAGGED: usize = 1_024;

/// Whether a message was noted before, as far as its block is still open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noted {
    /// For the first time.
    New,
    /// Already.
    Again,
}

/// A piece of a track.
#[derive(Clone, Debug)]
pub(super) struct Block {
    pub(super) track: u32,
    /// A newer block was closed before this one was opened.
    pub(super) late: bool,
    /// The sequence of its first bit is this times [`BLOCK`].
    pub(super) index: u64,
    /// Notes taken, repetitions included.
    pub(super) count: u64,
    pub(super) bits: Bits,
}

/// Blocks on their way to the ledger.
#[derive(Debug)]
pub struct Parcel {
    pub(super) blocks: Vec<Block>,
    /// Track and sequence of deliveries with the redelivered flag.
    pub(super) flagged: Vec<(u32, u64)>,
}

impl Default for Parcel {
    fn default() -> Self {
        Self {
            blocks: Vec::with_capacity(PARCEL_BLOCKS),
            flagged: Vec::with_capacity(PARCEL_FLAGGED),
        }
    }
}

impl Parcel {
    /// Empties it for reuse.
    pub fn clear(&mut self) {
        self.blocks.clear();
        self.flagged.clear();
    }
}

#[derive(Clone, Debug)]
struct Track {
    /// Two, so that a little disorder at the edge of a block closes nothing.
    open: [Block; 2],
    /// Which one was written last.
    latest: usize,
    /// The highest block that was opened so far.
    newest: u64,
}

const NEVER: u64 = u64::MAX;

impl Track {
    const fn new(name: u32) -> Self {
        let block = Block {
            track: name,
            late: false,
            index: NEVER,
            count: 0,
            bits: [0; WORDS],
        };
        Self {
            open: [
                Block {
                    bits: block.bits,
                    ..block
                },
                block,
            ],
            latest: 0,
            newest: 0,
        }
    }

    /// The block of this index, opened if need be.
    #[inline]
    fn block(&mut self, index: u64, parcel: &mut Parcel) -> &mut Block {
        if self.open[self.latest].index != index {
            self.latest ^= 1;
            if self.open[self.latest].index != index {
                self.turn(index, parcel);
            }
        }
        &mut self.open[self.latest]
    }

    /// Closes the older of the open blocks for this one.
    #[cold]
    fn turn(&mut self, index: u64, parcel: &mut Parcel) {
        let older = |block: &Block| block.index.wrapping_add(1);
        let at = usize::from(older(&self.open[1]) < older(&self.open[0]));
        let block = &mut self.open[at];
        close(block, parcel);
        block.index = index;
        block.late = index < self.newest;
        self.newest = self.newest.max(index);
        self.latest = at;
    }
}

fn close(block: &mut Block, parcel: &mut Parcel) {
    if block.count > 0 {
        // Beyond its room it grows: only where messages come in no order at all.
        parcel.blocks.push(block.clone());
    }
    block.index = NEVER;
    block.count = 0;
    block.bits = [0; WORDS];
}

/// The notes of one event loop.
#[derive(Debug)]
pub struct Notes {
    tracks: Vec<Track>,
    parcel: Parcel,
}

impl Notes {
    /// Notes on these tracks, by the names that the [`super::Ledger`] knows them by; they are
    /// numbered in this order.
    #[must_use]
    pub fn new(tracks: &[u32]) -> Self {
        Self {
            tracks: tracks.iter().copied().map(Track::new).collect(),
            parcel: Parcel::default(),
        }
    }

    /// Notes a message of a track. Tracks that do not exist are left alone.
    #[inline]
    pub fn note(&mut self, track: usize, sequence: u64) -> Noted {
        let Some(track) = self.tracks.get_mut(track) else {
            return Noted::New;
        };
        let (index, word, bit) = place(sequence);
        let block = track.block(index, &mut self.parcel);
        block.count += 1;
        let again = block.bits[word] & bit != 0;
        block.bits[word] |= bit;
        if again { Noted::Again } else { Noted::New }
    }

    /// Notes `count` messages of a track from `first` on.
    #[inline]
    pub fn note_range(&mut self, track: usize, first: u64, count: u64) {
        let Some(track) = self.tracks.get_mut(track) else {
            return;
        };
        let (mut at, end) = (first, first.saturating_add(count));
        while at < end {
            let block = track.block(at / BLOCK, &mut self.parcel);
            let block_end = (at / BLOCK + 1).saturating_mul(BLOCK).min(end);
            block.count += block_end - at;
            while at < block_end {
                let (_, word, _) = place(at);
                let (from, room) = (at % 64, 64 - at % 64);
                let n = room.min(block_end - at);
                let mask = if n == 64 { u64::MAX } else { (1 << n) - 1 };
                block.bits[word] |= mask << from;
                at += n;
            }
        }
    }

    /// Notes a delivery whose redelivered flag was set.
    #[inline]
    pub fn note_redelivered(&mut self, track: usize, sequence: u64) {
        if let Some(track) = self.tracks.get(track) {
            self.parcel.flagged.push((track.open[0].track, sequence));
        }
    }

    /// Whether the parcel should go soon.
    #[must_use]
    pub const fn is_due(&self) -> bool {
        self.parcel.blocks.len() >= PARCEL_BLOCKS / 2
            || self.parcel.flagged.len() >= PARCEL_FLAGGED / 2
    }

    /// Takes the parcel for an empty one.
    pub const fn exchange(&mut self, empty: Parcel) -> Parcel {
        std::mem::replace(&mut self.parcel, empty)
    }

    /// Closes all blocks, for the last parcel.
    pub fn close(&mut self) {
        for track in &mut self.tracks {
            for block in &mut track.open {
                close(block, &mut self.parcel);
            }
        }
    }
}
