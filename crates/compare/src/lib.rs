//! What runs of one experiment say together. Pure functions: numbers in, numbers out. The run is the unit of
//! evidence; seconds of one run depend on each other and are never pooled.

mod spread;

pub use spread::{Spread, apart, spread};
