//! Chance that can be repeated: every number follows from a seed and its place alone, without state.

use measure::{SCATTER_STEP, scatter};

/// A sequence of random numbers.
#[derive(Clone, Copy, Debug)]
pub struct Random {
    origin: u64,
}

impl Random {
    /// Another sequence for each pair.
    #[inline]
    pub const fn new(seed: u64, sequence: u64) -> Self {
        Self { origin: scatter(scatter(seed) ^ sequence) }
    }

    /// The `n`-th number.
    #[inline]
    pub const fn word(self, n: u64) -> u64 {
        scatter(self.origin.wrapping_add(n.wrapping_mul(SCATTER_STEP)))
    }

    /// The `n`-th number, above 0 and up to 1, of 2^53 equally likely ones.
    #[inline]
    pub const fn unit(self, n: u64) -> f64 {
        ((self.word(n) >> 11) + 1) as f64 / (1u64 << 53) as f64
    }
}
