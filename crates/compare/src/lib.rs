//! What runs of one experiment say together, and what two sets of samples say of each other. Pure functions: numbers in,
//! numbers out. The run is the unit of evidence; seconds of one run depend on each other and are never pooled.

mod shares;
mod spread;

pub use shares::{Amount, PartOf, ShareDifference, share_difference, smallest_change};
pub use spread::{Spread, apart, spread};
