//! Sentences for people on verdicts and warnings, which are data. Whoever runs an experiment hands these functions on,
//! so that the archive keeps the sentences beside the data.

mod classes;
pub(crate) mod comparison;
pub(crate) mod functions;
mod known;
pub(crate) mod limit;
mod loaded;
#[cfg(test)]
mod loaded_tests;
mod looks;
pub(crate) mod matrix;
mod names;
mod observer_effect;
mod options;
mod reasons;
mod requirements;
pub(crate) mod scale;
mod stacks;
mod stalls;
mod verdict;
mod warnings;
mod work;

pub use crate::numbers::{bytes, rate};
pub use classes::{class_meaning, classes};
pub use known::known_pattern;
pub(crate) use loaded::of_server;
pub use looks::{look, trace};
pub(crate) use names::{scenario_name, shortened};
pub use observer_effect::observer_effect;
pub(crate) use observer_effect::{change_and_interval, percent as effect_percent};
pub use options::{options, remedy};
pub use requirements::range;
pub(crate) use requirements::{outcome, requirements_tally};
pub use stacks::{amount, clock, covered, stacks};
pub use stalls::stall;
pub use verdict::verdict;
pub use warnings::warning;
pub(crate) use warnings::{SaidWithin, said_within};
pub use work::work;
