//! Whether the costs of runs differ between two sides.

use archive::CostChange;
use compare::{
    Difference, Moderation, SampledDifference, benjamini_hochberg, can_differ, guard, is_guarded,
    paired, unpaired,
};

/// Samples of a function on both sides together, below which nothing is said of it: one more or less would change the
/// answer.
const LEAST_SAMPLES: f64 = 10.0;

/// How costs are compared.
#[derive(Clone, Copy, Debug)]
pub(super) struct Test {
    pub(super) paired: bool,
    pub(super) level: f64,
    pub(super) sampling: [SampledSide; 2],
    /// How far runs differ beyond sampling, as all functions tell it; `None` where they are too few.
    pub(super) moderation: Option<Moderation>,
}

/// How the runs of a side were sampled, on average: costs are counts of samples.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SampledSide {
    /// Cost of the whole broker, nanoseconds per message.
    pub(super) broker: f64,
    /// Samples of a run; 0 where that is not known.
    pub(super) samples: f64,
}

impl SampledSide {
    /// Nanoseconds per message of a sample; `None` where that is not known.
    fn each(self) -> Option<f64> {
        let each = self.broker / self.samples;
        each.is_finite().then_some(each)
    }

    /// The variance of a run's cost of something that costs so much on average, by the chance of sampling alone.
    fn variance(self, cost: f64) -> f64 {
        // What is on all stacks is sampled as often as there are samples.
        let others = (1.0 - cost / self.broker).clamp(0.0, 1.0);
        self.each().map_or(0.0, |each| cost * each * others)
    }
}

/// A cost whose change is not decided yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tested {
    pub(super) cost: CostChange,
    difference: Difference,
    is_guarded: bool,
}

impl Tested {
    /// Its probability where it is asked alone; what the guard does not let through is none of chance never.
    pub(super) fn p(&self) -> f64 {
        match self.is_guarded {
            true => self.difference.p,
            false => 1.0,
        }
    }

    /// The interval of the change that agrees with what was decided at a level.
    pub(super) fn interval(&self, level: f64, proven: bool) -> (f64, f64) {
        self.difference.decided_interval(level, proven)
    }

    /// The smallest change that so many runs show in four of five experiments, at a level; `None` where they show none.
    pub(super) fn visible(&self, level: f64) -> Option<f64> {
        can_differ(self.difference.count).then(|| self.difference.visible(level))
    }
}

impl Test {
    /// The difference that two sides' runs show by themselves, beside the error of sampling alone. Where nothing
    /// changed, both sides' runs vary as those of their common mean do, whatever few samples show.
    pub(super) fn sampled(self, a: &[f64], b: &[f64]) -> Option<SampledDifference> {
        let cost = (mean(a) + mean(b)) / 2.0;
        let [of_a, of_b] = self.sampling.map(|it| it.variance(cost));
        let difference = match self.paired {
            true => paired(&differences(a, b))?,
            false => unpaired(a, b)?,
        };
        Some(SampledDifference {
            difference,
            sampling: (of_a / a.len() as f64 + of_b / b.len() as f64).sqrt(),
            cost,
        })
    }

    /// The change of a cost, by the runs of two sides and by how far all functions say that runs differ.
    pub(super) fn change(self, a: &[f64], b: &[f64]) -> Option<Tested> {
        let sampled = self.sampled(a, b)?;
        let difference = match self.moderation {
            Some(moderation) => moderation.moderated(&sampled),
            None => sampled.floored(),
        };
        let pairs = self.paired.then(|| differences(a, b));
        let guard = guard(&difference, pairs.as_deref());
        let samples = self.samples(a, b);
        Some(Tested {
            cost: CostChange {
                a: mean(a),
                b: mean(b),
                p: difference.p,
                ..CostChange::default()
            },
            difference,
            is_guarded: is_guarded(guard, self.level)
                && samples.is_none_or(|it| it >= LEAST_SAMPLES),
        })
    }

    /// How many samples costs were counted from; `None` where that is not known.
    fn samples(self, a: &[f64], b: &[f64]) -> Option<f64> {
        let [of_a, of_b] = self.sampling;
        let count = |costs: &[f64], of: SampledSide| Some(costs.iter().sum::<f64>() / of.each()?);
        Some(count(a, of_a)? + count(b, of_b)?)
    }

    /// Decides questions that are asked together. What could have been seen is what one more change would have had to
    /// be.
    pub(super) fn decide(self, all: &mut [&mut Tested]) {
        let p: Vec<f64> = all.iter().map(|it| it.p()).collect();
        for (tested, p) in all.iter_mut().zip(benjamini_hochberg(&p)) {
            tested.cost.p = p;
            tested.cost.proven = p <= self.level;
        }
        let proven = all.iter().filter(|it| it.cost.proven).count();
        let questions = all.len().max(1);
        let level_of =
            |changes: usize| self.level * changes.min(questions) as f64 / questions as f64;
        for tested in all.iter_mut() {
            let level = level_of(proven + usize::from(!tested.cost.proven));
            tested.cost.interval = tested.interval(level, tested.cost.proven);
            tested.cost.visible = tested.visible(level_of(proven + 1));
        }
    }
}

fn mean(of: &[f64]) -> f64 {
    of.iter().sum::<f64>() / of.len() as f64
}

/// B less A of each pair.
fn differences(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| b - a).collect()
}
