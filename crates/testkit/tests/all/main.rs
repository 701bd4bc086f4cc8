//! All tests of `testkit` that use it from outside, as one program.

mod again;
#[cfg(feature = "kubernetes")]
mod kubernetes;
mod setup;
mod tidy;
mod tools;
