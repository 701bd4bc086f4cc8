//! The ledger: which messages were confirmed, which were delivered, and how often.
//!
//! ```text
//! event loop                           coordinator
//! Notes: per track two open blocks     Ledger: per producer the confirmed set, per track the
//! of 4,096 bits; a block that fills -> delivered sets; full blocks and blocks with few holes
//! or falls behind goes into a Parcel   take next to no room
//! ```
//!
//! A *track* is what must be whole by itself: a producer's confirms; its deliveries to a queue,
//! whoever of the competing consumers takes them; its deliveries to one subscriber, where every
//! subscriber gets every message.
//!
//! Counts other than `reordered` (see [`LedgerSummary::reordered`]) are exact as long as [`LedgerSummary::exact`] says so: sets that fragment beyond
//! [`MOST_BYTES`] are settled from their oldest messages on, and what comes for those later is
//! taken for a repetition.

mod book;
mod notes;
mod set;

pub use book::{Ledger, LedgerSummary};
pub use notes::{Noted, Notes, Parcel};

/// Messages per block.
const BLOCK: u64 = 4_096;
/// Words of 64 bits per block.
const WORDS: usize = (BLOCK / 64) as usize;
/// Sets may take this many bytes in all.
pub const MOST_BYTES: usize = 48 << 20;

type Bits = [u64; WORDS];

/// Block, word and bit of a sequence number.
const fn place(sequence: u64) -> (u64, usize, u64) {
    let within = sequence % BLOCK;
    (sequence / BLOCK, (within / 64) as usize, 1 << (within % 64))
}

fn ones(bits: &Bits) -> u64 {
    bits.iter().map(|word| u64::from(word.count_ones())).sum()
}

#[cfg(test)]
mod tests;
