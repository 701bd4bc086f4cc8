//! All tests of `profile` that use it from outside, as one program.

mod corpus;
mod kernel_programs;
mod sampling;
