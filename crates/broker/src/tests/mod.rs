//! A broker behind a socket.

mod descriptors;
mod loopback;
mod peer;
