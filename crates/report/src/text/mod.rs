//! Sentences: what a verdict and warnings, which are data, say to people. Whoever runs an experiment hands these
//! functions on, so that the archive keeps the sentences beside the data.

mod reasons;
mod stacks;
mod verdict;
mod warnings;
mod work;

pub use stacks::stacks;
pub use verdict::verdict;
pub use warnings::{stall, warning};
pub use work::work;
