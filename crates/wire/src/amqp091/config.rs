//! Configuration of each side of a connection.

use measure::Nanos;

use super::allowance::BodyAllowance;
use super::table::FieldTable;
use super::{DEFAULT_CHANNEL_MAX, DEFAULT_FRAME_MAX, DEFAULT_MAX_BODY, DEFAULT_TIMEOUT};
use crate::Secret;

/// How to log in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mechanism {
    /// User and password.
    #[default]
    Plain,
    /// Whatever the transport proves, as with client certificates.
    External,
}

impl Mechanism {
    /// Its name on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::External => "EXTERNAL",
        }
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
