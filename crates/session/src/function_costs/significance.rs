//! Whether the costs of runs differ between two sides.

use archive::CostChange;
use compare::{Difference, benjamini_hochberg, paired, sign_flip, unpaired};

/// The level of the exact test that guards what pairs prove.
const GUARD: f64 = 0.10;

/// How costs are compared.
#[derive(Clone, Copy, Debug)]
pub(super) struct Test {
    pub(super) paired: bool,
    pub(super) level: f64,
}

/// A cost whose change is not decided yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tested {
    pub(super) cost: CostChange,
    difference: Difference,
    guard: Option<f64>,
}

impl Tested {
    /// Its probability where it is asked alone; what the guard does not let through is none of chance never.
    pub(super) fn p(&self) -> f64 {
        match self.guard.is_none_or(|it| it <= GUARD) {
            true => self.difference.p,
            false => 1.0,
        }
    }

    /// The smallest change that so many runs show in four of five experiments, at a level.
    pub(super) fn visible(&self, level: f64) -> f64 {
        self.difference.visible(level)
    }
}

impl Test {
    /// What the runs of two sides say of a cost.
    pub(super) fn change(self, a: &[f64], b: &[f64]) -> Option<Tested> {
        let (difference, guard) = match self.paired {
            true => {
                let differences: Vec<f64> = a.iter().zip(b).map(|(a, b)| b - a).collect();
                (paired(&differences)?, sign_flip(&differences))
            }
            false => (unpaired(a, b)?, None),
        };
        let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
        Some(Tested {
            cost: CostChange {
                a: mean(a),
                b: mean(b),
                interval: difference.interval(0.95),
                p: difference.p,
                proven: false,
                visible: 0.0,
            },
            difference,
            guard,
        })
    }

    /// Decides questions that are asked together. What could have been seen is what one more change would have had to be.
    pub(super) fn decide(self, all: &mut [&mut Tested]) {
        let p: Vec<f64> = all.iter().map(|it| it.difference.p).collect();
        for (tested, p) in all.iter_mut().zip(benjamini_hochberg(&p)) {
            tested.cost.p = p;
            tested.cost.proven = p <= self.level && tested.p() <= self.level;
        }
        let proven = all.iter().filter(|it| it.cost.proven).count();
        let one_more = (proven + 1).min(all.len()) as f64 / all.len().max(1) as f64;
        for tested in all.iter_mut() {
            tested.cost.visible = tested.visible(self.level * one_more);
        }
    }
}
