//! All tests of `session` that use it from outside, as one program.

mod checkout;
mod keys;
mod managed;
mod problems;
mod root;
mod workers;
