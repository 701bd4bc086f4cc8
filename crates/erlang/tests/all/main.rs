//! All tests of `erlang` that use it from outside, as one program.

mod alloc;
mod anew;
mod beams;
mod clean;
mod common;
mod hostile;
mod hostile_node;
mod memory;
mod node;
mod numbers;
mod path;
mod secrets;
mod silent;
mod tls;
mod top;
mod tree;
