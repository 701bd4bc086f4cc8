//! All tests of `broker` that use it from outside, as one program.

mod common;
mod descriptors;
mod loopback;
