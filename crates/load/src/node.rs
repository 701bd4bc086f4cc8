//! The nodes of a broker, as connections find them.

use std::sync::Arc;

use transport::tls::Connector;

use crate::Endpoint;
use crate::resolve::Addresses;

/// A broker's node, its addresses, and how connections to it are secured.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) endpoint: Endpoint,
    pub(crate) addresses: Arc<Addresses>,
    /// The TLS configuration, where it is secured.
    pub(crate) tls: Option<Arc<Connector>>,
    /// The most clients that may share a connection to it.
    pub(crate) most_clients: usize,
}

/// The nodes of a group's broker; at least one.
pub(crate) type Nodes = Arc<[Node]>;
