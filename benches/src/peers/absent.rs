//! Stand-ins for the peers where they are not compiled.

use anyhow::{Result, bail};

use super::Args;

const ABSENT: &str = "this bench was built without its peers: make bench builds it with them";

/// See `lapin`.
pub fn publish(_: Args) -> Result<()> {
    bail!(ABSENT)
}

/// See `prometheus`.
pub fn count_samples(_: &str) -> Result<usize> {
    bail!(ABSENT)
}
