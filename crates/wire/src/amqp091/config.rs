//! Configuration of each side of a connection, and memory that many may take together for message bodies.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use measure::Nanos;

use super::table::FieldTable;
use super::{DEFAULT_CHANNEL_MAX, DEFAULT_FRAME_MAX, DEFAULT_MAX_BODY, DEFAULT_TIMEOUT};
use crate::Secret;

measure::named! {
    /// How to log in, by its name on the wire.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Mechanism {
        /// User and password.
        #[default]
        Plain = "PLAIN",
        /// Whatever the transport proves, as with client certificates.
        External = "EXTERNAL",
        /// As nobody, as RabbitMQ takes it from 4.0 on.
        Anonymous = "ANONYMOUS",
    }
}

/// Configuration of a client. `Default` is guest on `/`, with the limits of RabbitMQ's own clients.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// User name.
    pub user: String,
    /// Password of the user.
    pub password: Secret,
    /// Login mechanism.
    pub mechanism: Mechanism,
    /// Virtual host, `/` by default.
    pub virtual_host: String,
    /// Heartbeat interval in seconds; 0 takes the server's.
    pub heartbeat_s: u16,
    /// Largest frame in bytes; 0 takes the server's. Below 4096 it counts as 4096.
    pub frame_max: u32,
    /// Highest channel; 0 takes the server's.
    pub channel_max: u16,
    /// Shown in the broker's list of connections.
    pub connection_name: String,
    /// Largest body that is joined, in bytes; at most [`super::MAX_BODY`].
    pub max_body: u64,
    /// Shared limit of all connections on bodies that are joined; `None` for no limit.
    pub body_allowance: Option<BodyAllowance>,
    /// How long the handshake may take, and the orderly close.
    pub timeout: Nanos,
}

impl Default for ClientConfig {
    fn default() -> Self {
        Self {
            user: "guest".to_owned(),
            password: Secret::from("guest"),
            mechanism: Mechanism::Plain,
            virtual_host: "/".to_owned(),
            heartbeat_s: 60,
            frame_max: DEFAULT_FRAME_MAX,
            channel_max: DEFAULT_CHANNEL_MAX,
            connection_name: String::new(),
            max_body: DEFAULT_MAX_BODY,
            body_allowance: None,
            timeout: DEFAULT_TIMEOUT,
        }
    }
}

/// Configuration of a server.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Server properties, such as `product` and `version`. `capabilities` is added where it is missing.
    pub properties: FieldTable,
    /// Login mechanisms, separated by blanks: `PLAIN EXTERNAL`.
    pub mechanisms: String,
    /// Heartbeat interval that is proposed, in seconds; 0 for none.
    pub heartbeat_s: u16,
    /// Largest frame in bytes, at least 4096.
    pub frame_max: u32,
    /// Highest channel; 0 counts as 65535.
    pub channel_max: u16,
    /// Largest body in bytes; above, the channel is closed with 406. At most [`super::MAX_BODY`].
    pub max_body: u64,
    /// How long the handshake may take, and the orderly close.
    pub timeout: Nanos,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            properties: FieldTable::new(),
            mechanisms: "PLAIN".to_owned(),
            heartbeat_s: 60,
            frame_max: DEFAULT_FRAME_MAX,
            channel_max: DEFAULT_CHANNEL_MAX,
            max_body: DEFAULT_MAX_BODY,
            timeout: DEFAULT_TIMEOUT,
        }
    }
}

/// Bytes of bodies in several frames that connections hold together. Clones share it. One-frame bodies are free.
#[derive(Clone, Debug)]
pub struct BodyAllowance(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    limit: u64,
    taken: AtomicU64,
}

impl BodyAllowance {
    /// This many bytes for all who share it.
    pub fn new(limit: u64) -> Self {
        let taken = AtomicU64::new(0);
        Self(Arc::new(Shared { limit, taken }))
    }

    /// All that may be taken together, in bytes.
    pub fn limit(&self) -> u64 {
        self.0.limit
    }

    /// Bytes taken at present.
    pub fn taken(&self) -> u64 {
        self.0.taken.load(Ordering::Relaxed)
    }

    /// Takes this many bytes, unless there are fewer left.
    pub(super) fn take(&self, bytes: u64) -> bool {
        let more = |taken: u64| {
            let sum = taken.checked_add(bytes)?;
            (sum <= self.0.limit).then_some(sum)
        };
        let taken = &self.0.taken;
        taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    pub(super) fn give_back(&self, bytes: u64) {
        self.0.taken.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Whether so little is left that nobody should keep a buffer for later.
    pub(super) fn is_tight(&self) -> bool {
        self.taken() > self.0.limit / 2
    }
}
