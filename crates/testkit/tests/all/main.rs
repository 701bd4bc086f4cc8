//! All tests of `testkit` that use it from outside, as one program.

mod again;
mod setup;
mod tidy;
mod tools;
