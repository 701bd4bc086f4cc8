//! Which calls become samples: chosen by chance among calls or bytes, so that no rhythm of the program's decides.
//!
//! Each processor has a number of calls or bytes that pass before the next sample, drawn from an exponential
//! distribution: then each has the same chance, whatever came before. A call during which that number runs out stands
//! for the mean, and for what it asked beyond.

use std::array;

/// Numbers that are drawn from, a power of two.
const DRAWS: u32 = 1 << 10;

/// The numbers, as `kernel/memory.h` has them.
pub(super) type Draws = [u64; DRAWS as usize];

/// The numbers, with this mean.
pub(super) fn draws(mean: u32) -> Box<Draws> {
    Box::new(array::from_fn(|it| draw(it as u32, mean)))
}

/// The number that a processor begins with. They begin apart.
pub(super) fn first(cpu: u32, mean: u32) -> u64 {
    draw(cpu.wrapping_mul(389).wrapping_add(DRAWS / 2) % DRAWS, mean)
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
