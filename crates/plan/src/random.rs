//! Chance that can be repeated: every number follows from a seed and its place alone, without state.

/// Spreads neighbouring numbers evenly: SplitMix64 (Steele, Lea, Flood: "Fast splittable …", 2014).
#[inline]
pub(crate) const fn scatter(number: u64) -> u64 {
    let x = number.wrapping_add(STEP);
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// SplitMix64's increment, the golden ratio.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

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
        scatter(self.origin.wrapping_add(n.wrapping_mul(STEP)))
    }

    /// The `n`-th number, above 0 and up to 1, of 2^53 equally likely ones.
    #[inline]
    pub const fn unit(self, n: u64) -> f64 {
        ((self.word(n) >> 11) + 1) as f64 / (1u64 << 53) as f64
    }
}
