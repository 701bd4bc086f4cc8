//! The broker behind a socket, and a harness for its tests without one.

mod descriptors;
pub(crate) mod harness;
mod links;
mod loopback;
mod peer;
