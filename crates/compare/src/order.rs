//! In which order the runs of two sides are made.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A side of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[serde(rename_all = "lowercase")]
pub enum ComparedSideName {
    /// Baseline of the comparison.
    A,
    /// Candidate of the comparison.
    B,
}

impl ComparedSideName {
    /// Tag of a run: `a` or `b`.
    pub const fn tag(self) -> &'static str {
        match self {
            Self::A => "a",
            Self::B => "b",
        }
    }

    /// The other one.
    pub const fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }
}

impl fmt::Display for ComparedSideName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The order of the runs of some pairs: blocks of ABBA or BAAB as a seed draws them, so that what drifts with time hits
/// both sides alike and nothing that comes and goes keeps step with them. Each two runs in a row are a pair. The order
/// of fewer pairs is the beginning of that of more.
pub fn order(seed: u64, pairs: usize) -> Vec<ComparedSideName> {
    let mut draw = Draw::new(seed);
    let mut order = Vec::with_capacity(pairs * 2);
    let mut first = ComparedSideName::A;
    for pair in 0..pairs {
        first = match pair % 2 {
            0 if draw.next() >> 63 == 1 => ComparedSideName::B,
            0 => ComparedSideName::A,
            _ => first.other(),
        };
        order.extend([first, first.other()]);
    }
    order
}

/// In which order the cells of a matrix have their turn in a round: another one in each, so that nothing keeps step.
pub fn turns(seed: u64, round: u32, cells: usize) -> Vec<usize> {
    // Not the numbers that `order` draws from the same seed.
    let mut draw = Draw::new(seed ^ (u64::from(round) + 1).wrapping_mul(0xD6E8_FEB8_6659_FD93));
    let mut turns: Vec<usize> = (0..cells).collect();
    for last in (1..cells).rev() {
        turns.swap(last, (draw.next() % (last as u64 + 1)) as usize);
    }
    turns
}

/// Numbers that a seed determines, for ever the same (SplitMix64).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draw(u64);

impl Draw {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Between 0 and 1, neither of which it is.
    pub(crate) fn uniform(&mut self) -> f64 {
        ((self.next() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    pub(crate) fn shuffle<T>(&mut self, values: &mut [T]) {
        for last in (1..values.len()).rev() {
            let other = (self.uniform() * (last + 1) as f64) as usize;
            values.swap(last, other.min(last));
        }
    }

    pub(crate) fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_stand_as_often_and_as_early() {
        for seed in 0..200 {
            for pairs in [1, 2, 3, 8, 9] {
                let runs = order(seed, pairs);
                assert_eq!(runs.len(), pairs * 2);
                for (pair, of) in runs.chunks(2).enumerate() {
                    assert_ne!(of[0], of[1]);
                    if pair % 2 == 1 {
                        assert_eq!(of[0], runs[pair * 2 - 1], "ABBA or BAAB");
                    }
                }
                assert!(order(seed, pairs + 3).starts_with(&runs));
            }
        }
        let begin_with_a = (0..1_000).filter(|seed| order(*seed, 1)[0] == ComparedSideName::A);
        assert!((430..570).contains(&begin_with_a.count()));
    }

    #[test]
    fn cells_stand_as_often_at_each_place_of_a_round() {
        let mut first = [0_u32; 5];
        for round in 0..1_000 {
            let mut turns = turns(7, round, 5);
            first[turns[0]] += 1;
            turns.sort_unstable();
            assert_eq!(turns, [0, 1, 2, 3, 4]);
        }
        assert!(first.iter().all(|it| (140..260).contains(it)), "{first:?}");
        assert_eq!((turns(1, 0, 0), turns(1, 0, 1)), (vec![], vec![0]));
    }
}
