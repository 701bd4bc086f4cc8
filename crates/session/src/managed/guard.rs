//! The guardian.

use std::ffi::OsString;

/// The hidden subcommand that leads to [`main`].
pub const SUBCOMMAND: &str = "__guard";

/// Runs the guardian; `args` is what follows [`SUBCOMMAND`]. Returns the exit code.
#[must_use]
pub fn main(args: &[OsString]) -> u8 {
    u8::from(args.is_empty())
}
