//! The ledger: which messages were confirmed, which were delivered, and how often.
//!
//! ```text
//! event loop                            coordinator
//! LedgerShard: per bitmap a few open    Ledger: per producer the confirmed and the returned
//! chunks of 256 bits; a chunk that      messages, per bitmap those in order, late, and redelivered;
//! another one displaces goes into a     full blocks and blocks of few runs take next to no room
//! LedgerBatch
//! ```
//!
//! A *bitmap* covers what must be complete by itself: a producer's confirms, or its deliveries to a queue or to one
//! subscriber. Counts are exact as long as [`LedgerSummary::exact`] says so: sets that fragment beyond [`MOST_BYTES`]
//! are settled from their oldest messages on, and what comes for those later is taken for a repetition.

mod bitmap;
mod part;
mod shard;
mod totals;

pub use part::LedgerPart;
pub use shard::{Anomaly, LedgerBatch, LedgerShard};
pub use totals::{Ledger, LedgerSummary};

/// Messages per chunk, as event loops note them.
const CHUNK: u64 = 256;
const CHUNK_WORDS: usize = (CHUNK / 64) as usize;
/// Messages per block of a set.
const BLOCK: u64 = 4_096;
const WORDS: usize = (BLOCK / 64) as usize;
/// Sets may take this many bytes in all.
pub const MOST_BYTES: usize = 48 << 20;
/// Sets of a worker's part may take this many: they travel.
const MOST_PART_BYTES: usize = 16 << 20;
/// Messages of a producer that are counted at most.
const MOST_MESSAGES: u64 = 1 << 36;

type Bits = [u64; WORDS];

/// Sets the bits from one position up to another.
fn fill(words: &mut [u64], from: usize, to: usize) {
    let mut at = from;
    while at < to {
        let room = (64 - at % 64).min(to - at);
        let ones = if room == 64 { u64::MAX } else { (1 << room) - 1 };
        if let Some(word) = words.get_mut(at / 64) {
            *word |= ones << (at % 64);
        }
        at += room;
    }
}

/// The bits of a word, whose first stands for `first`, that stand for less than `end`.
const fn below(end: u64, first: u64) -> u64 {
    match end.saturating_sub(first) {
        0 => 0,
        n if n >= 64 => u64::MAX,
        n => (1 << n) - 1,
    }
}

#[cfg(test)]
mod tests;
