//! How a node is reached.

use std::time::Duration;

use transport::tls::ClientTls;

use crate::cookie::Cookie;
use crate::name::NodeName;

/// How a node is reached.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// Its name.
    pub node: NodeName,
    /// The secret that it shares.
    pub cookie: Cookie,
    /// Others that may be it: each is tried where the node refuses those before it.
    pub other_cookies: Vec<Cookie>,
    /// Host and port of its distribution; EPMD of the node's host knows the port otherwise.
    pub address: Option<(String, u16)>,
    /// The port of EPMD.
    pub epmd_port: u16,
    /// How the connection is secured; `None` for plain TCP.
    pub tls: Option<ClientTls>,
    /// How long connecting may take, and each call.
    pub timeout: Duration,
}

impl ConnectOptions {
    /// EPMD's usual port.
    pub const EPMD_PORT: u16 = 4369;

    /// A node that EPMD knows, on plain TCP, with 10 seconds for each step.
    #[must_use]
    pub const fn new(node: NodeName, cookie: Cookie) -> Self {
        Self {
            node,
            cookie,
            other_cookies: Vec::new(),
            address: None,
            epmd_port: Self::EPMD_PORT,
            tls: None,
            timeout: Duration::from_secs(10),
        }
    }
}
