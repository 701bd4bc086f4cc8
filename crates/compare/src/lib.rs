//! Statistics of runs of one experiment, of two sides of an experiment, and of two sets of samples. Pure functions:
//! numbers in, numbers out. The run is the unit of evidence; seconds of one run depend on each other and are never
//! pooled.

mod blocks;
mod changes;
mod difference;
mod knee;
#[cfg(test)]
mod level_tests;
mod levels;
mod limit;
mod moderation;
#[cfg(test)]
mod moderation_tests;
mod order;
#[cfg(test)]
mod reference_tests;
mod scalability;
mod shares;
mod spread;
mod tree;
#[cfg(test)]
mod tree_tests;
mod verdict;
mod within;

pub use blocks::{BlockOrder, BlockPair, EffectFigure, block_effect};
pub use changes::{ChangePoint, ChangeSearch, MOST_VALUES, change_points};
pub use difference::{
    Difference, counted, fisher, least_fisher, paired, pairs_needed, permuted, runs_to_separate, separated, sign_flip,
    unpaired,
};
pub use knee::{LEAST_RATES, knee, leap, rises};
pub use levels::{benjamini_hochberg, holm, holm_levels, level_of_each};
pub use limit::{FoundLimit, LimitPlan, LimitStep, limit_step, most_trials_left, round_rate};
pub use moderation::{Moderation, SampledDifference};
pub use order::{ComparedSideName, order, turns};
pub use scalability::{LEAST_CLIENT_COUNTS, ScaleDoubt, ScaleEstimate, ScaleLaw, ScalePoint, scalability};
pub use shares::{Amount, PartOf, ShareDifference, share_difference, smallest_change};
pub use spread::{Spread, apart, median, spread};
pub use tree::{TreeAnswer, TreeQuestion, decide_tree};
pub use verdict::{Decision, LEAST_PAIRS, Rules, can_differ, guard, guarded, is_guarded, verdict};
pub use within::{LEAST_BLOCKS, NoInterval, ValueCounts, within_one_run};
