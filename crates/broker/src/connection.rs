//! A client's connection as the reactor keeps it: its socket, and what was read and not decoded.

use transport::{Output, ServerSocket};

use crate::common_name::common_name;
use crate::node::Node;
use crate::slots::Key;

/// A connection's socket, and what the reactor notes of it.
pub(crate) struct Connection {
    pub(crate) socket: ServerSocket,
    pub(crate) key: Key,
    /// The start of a frame whose rest has not come, or what waits while the connection is paused.
    pub(crate) held: Vec<u8>,
    /// Whether we send no more.
    pub(crate) is_shut: bool,
    /// Whether it is in the list of connections to read.
    pub(crate) is_queued: bool,
    /// Whether the client's certificate was looked at.
    pub(crate) is_identified: bool,
}

impl Connection {
    pub(crate) const fn new(socket: ServerSocket, key: Key) -> Self {
        Self {
            socket,
            key,
            held: Vec::new(),
            is_shut: false,
            is_queued: false,
            is_identified: false,
        }
    }

    /// The name in the client's certificate, once, as soon as it is known.
    pub(crate) fn take_name(&mut self) -> Option<&str> {
        let session = self.socket.session()?;
        if std::mem::replace(&mut self.is_identified, true) {
            return None;
        }
        common_name(session.certificate()?)
    }
}

/// A connection's output, which the node keeps.
pub(crate) struct NodeOutput<'a> {
    pub(crate) node: &'a mut Node,
    pub(crate) key: Key,
}

impl Output for NodeOutput<'_> {
    fn pending(&self) -> &[u8] {
        self.node.output(self.key)
    }

    fn consume(&mut self, bytes: usize) {
        self.node.written(self.key, bytes);
    }
}
