//! The effect of something that is switched on and off in blocks of one run.
//!
//! Seconds of a run depend on each other, so they are no evidence by themselves. But a coin decides which block of each
//! two has it on: by that the differences of pairs have independent signs, whatever the run does by itself, and a test
//! of paired differences holds.

use serde::{Deserialize, Serialize};

use super::difference::{paired, sign_flip};
use super::order::Draw;

/// Which blocks have it on, for ever: of each two in a row one, the first or the second as a seed's coin falls.
#[derive(Clone, Debug)]
pub struct BlockOrder {
    draw: Draw,
    second: Option<bool>,
}

impl BlockOrder {
    /// The order that a seed draws.
    pub const fn new(seed: u64) -> Self {
        Self {
            // Not the numbers that other orders of this seed draw.
            draw: Draw::new(seed ^ 0x5EED_B10C_0B5E_77ED),
            second: None,
        }
    }
}

impl Iterator for BlockOrder {
    type Item = bool;

    fn next(&mut self) -> Option<bool> {
        let second = self.second.take();
        Some(second.unwrap_or_else(|| {
            let first = self.draw.next() >> 63 == 1;
            self.second = Some(!first);
            first
        }))
    }
}

/// Measurements of two blocks in a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockPair {
    /// In the block with it.
    pub on: f64,
    /// In the block without it.
    pub off: f64,
}

/// How profiling changed a figure. Changes are shares of it: 0.02 is 2 % more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct EffectFigure {
    /// Without profiling, the geometric mean of blocks.
    pub off: f64,
    /// The change by profiling.
    pub change: f64,
    /// Lower end of the 95 % interval.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
    /// Smallest change that as many pairs with as much noise show in four of five runs.
    pub visible: f64,
    /// Share of all ways to exchange on and off in pairs that show as large a change; absent for more than 20 pairs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "typescript", ts(optional))]
    pub sign_flip_p: Option<f64>,
}

impl EffectFigure {
    /// Whether the interval excludes 0.
    pub const fn is_told(&self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }
}

/// The effect that pairs show. `None` for fewer than two, or where one has nothing to take a logarithm of.
pub fn block_effect(pairs: &[BlockPair]) -> Option<EffectFigure> {
    let differences: Vec<f64> = pairs.iter().map(|it| it.on.ln() - it.off.ln()).collect();
    let difference = paired(&differences)?;
    let off = pairs.iter().map(|it| it.off.ln()).sum::<f64>() / pairs.len() as f64;
    let (low, high) = difference.interval(0.95);
    let shares = [difference.mean, low, high, difference.visible(0.05)].map(f64::exp_m1);
    let [change, low, high, visible] = shares;
    let sign_flip_p = sign_flip(&differences);
    let figure = EffectFigure { off: off.exp(), change, low, high, visible, sign_flip_p };
    shares.iter().all(|it| it.is_finite()).then_some(figure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_balanced_and_drawn_by_the_seed() {
        let of = |seed: u64, count: usize| BlockOrder::new(seed).take(count).collect::<Vec<_>>();
        assert_eq!(of(7, 64)[..20], of(7, 20)[..], "fewer are the beginning of more");
        let mut firsts = 0;
        for seed in 0..500 {
            let order = of(seed, 20);
            assert!(order.chunks(2).all(|pair| pair[0] != pair[1]), "{order:?}");
            firsts += order.iter().step_by(2).filter(|on| **on).count();
        }
        // 5,000 throws of a coin have a deviation of 35.
        assert!((2_350..2_650).contains(&firsts), "{firsts}");
        let orders: std::collections::HashSet<_> = (0..500).map(|seed| of(seed, 20)).collect();
        assert!(orders.len() > 250, "{} of 1,024 orders", orders.len());
    }

    #[test]
    fn what_says_nothing_has_no_effect_and_levels_are_those_without_it() {
        let pair = |on, off| BlockPair { on, off };
        for pairs in
            [&[][..], &[pair(1.0, 2.0)], &[pair(1.0, 2.0), pair(0.0, 2.0)], &[pair(1.0, 2.0), pair(1.0, f64::NAN)]]
        {
            assert_eq!(block_effect(pairs), None, "{pairs:?}");
        }
        let effect = block_effect(&[pair(2.0, 4.0), pair(8.0, 16.0)]).unwrap();
        assert!((effect.off - 8.0).abs() < 1e-12);
        assert!((effect.change + 0.5).abs() < 1e-12);
        assert_eq!(effect.sign_flip_p, Some(0.5));
    }

    /// A run at 50,000 with AR(1) noise of 2 %, 3 % less at its end, and `effect` where profiling is on.
    fn run(seed: u64, blocks: usize, effect: f64) -> Vec<BlockPair> {
        let mut draw = Draw::new(seed.wrapping_mul(0x9E37_79B9));
        let mut noise = 0.02 * draw.normal();
        let order = BlockOrder::new(seed).take(blocks);
        let values: Vec<(bool, f64)> = order
            .enumerate()
            .map(|(at, on)| {
                noise = 0.7 * noise + (1.0_f64 - 0.49).sqrt() * 0.02 * draw.normal();
                let drift = -0.03 * at as f64 / blocks as f64;
                let cost = if on { effect } else { 0.0 };
                (on, 50_000.0 * (noise + drift + cost).exp())
            })
            .collect();
        let pairs = values.chunks_exact(2).map(|pair| {
            let of = |on: bool| pair.iter().find(|it| it.0 == on).unwrap().1;
            BlockPair { on: of(true), off: of(false) }
        });
        pairs.collect()
    }

    #[test]
    fn an_effect_is_found_again_and_its_interval_holds_it_as_often_as_it_says() {
        let (runs, effect) = (2_000, -0.015_f64);
        let mut sum = 0.0;
        let (mut held, mut false_alarms, mut seen) = (0, 0, 0);
        for seed in 0..runs {
            let found = block_effect(&run(seed, 30, effect)).unwrap();
            sum += found.change.ln_1p();
            held += usize::from((found.low..=found.high).contains(&effect.exp_m1()));
            // Without an effect the same run says so.
            let nothing = block_effect(&run(seed, 30, 0.0)).unwrap();
            false_alarms += usize::from(nothing.is_told());
            // What is called visible is seen in four of five runs.
            let with = block_effect(&run(seed, 30, -nothing.visible.ln_1p())).unwrap();
            seen += usize::from(with.is_told());
        }
        let share = |count: usize| count as f64 / runs as f64;
        assert!((sum / runs as f64 - effect).abs() < 0.000_5, "bias");
        assert!((0.935..0.965).contains(&share(held)), "{}", share(held));
        assert!((0.035..0.065).contains(&share(false_alarms)), "{}", share(false_alarms));
        // The same noise that makes an effect visible hides it: seen more often than in fresh runs.
        assert!(share(seen) > 0.7, "{}", share(seen));
    }
}
