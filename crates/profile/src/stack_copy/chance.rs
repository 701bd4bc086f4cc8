//! Which calls become samples: chosen by chance among calls or bytes, so that no rhythm of the program's decides.
//!
//! Each processor has a number of calls or bytes that pass before the next sample, drawn from an exponential
//! distribution: then each has the same chance, whatever came before. A call during which that number runs out stands
//! for the mean, and for what it asked beyond.

use std::io;

use super::sys::{Map, MapKind};

/// Numbers that are drawn from, a power of two.
pub(super) const DRAWS: u32 = 1 << 10;

/// Where a processor's state has its fields.
pub(super) mod state {
    /// Calls or bytes until the next sample, with sign.
    pub(in crate::stack_copy) const LEFT: i16 = 0;
    /// 1 while the processor's record is being put together: threads take turns in the middle of it.
    pub(in crate::stack_copy) const BUSY: i16 = 8;
    pub(super) const SIZE: usize = 16;
}

/// What the programs choose by.
#[derive(Debug)]
pub(super) struct Chance {
    /// By processor: its state.
    pub(super) states: Map,
    /// Numbers to draw from.
    pub(super) draws: Map,
    /// The mean of the numbers.
    pub(super) one_in: u32,
}

impl Chance {
    pub(super) fn new(one_in: u32, cpus: u32) -> io::Result<Self> {
        let states = Map::new(MapKind::Array, state::SIZE, cpus)?;
        let draws = Map::new(MapKind::Array, size_of::<u64>(), DRAWS)?;
        for number in 0..DRAWS {
            draws.set(number, &draw(number, one_in).to_ne_bytes())?;
        }
        for cpu in 0..cpus {
            // They begin apart.
            let first = draw(
                cpu.wrapping_mul(389).wrapping_add(DRAWS / 2) % DRAWS,
                one_in,
            );
            let words = [first, 0].map(u64::to_ne_bytes);
            states.set(cpu, words.as_flattened())?;
        }
        Ok(Self {
            states,
            draws,
            one_in,
        })
    }
}

/// One of [`DRAWS`] numbers that are exponentially distributed with this mean; 0 where each call is a sample.
fn draw(number: u32, mean: u32) -> u64 {
    let chance = (f64::from(number) + 0.5) / f64::from(DRAWS);
    let drawn = -chance.ln() * f64::from(mean);
    if mean <= 1 { 0 } else { drawn.round() as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_have_the_mean_and_the_spread_of_an_exponential_distribution() {
        for mean in [256, 128 << 10] {
            let all = (0..DRAWS).map(|it| draw(it, mean) as f64);
            let count = f64::from(DRAWS);
            let (sum, squares) = all.fold((0.0, 0.0), |(s, q), it| (s + it, q + it * it));
            let (average, variance) = (sum / count, squares / count - (sum / count).powi(2));
            let mean = f64::from(mean);
            assert!((average / mean - 1.0).abs() < 0.01, "{average} of {mean}");
            assert!((variance.sqrt() / mean - 1.0).abs() < 0.01, "{variance}");
        }
        assert!((0..DRAWS).all(|it| draw(it, 1) == 0));
    }
}
