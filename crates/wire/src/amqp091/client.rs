//! The client's side of a connection.
use measure::{Nanos, Time};

use super::*;
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

/// What a client wants. `Default` is what RabbitMQ's own clients use.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// User name.
    pub user: String,
    /// Password.
    pub password: Secret,
    /// Login mechanism.
    pub mechanism: Mechanism,
    /// Virtual host, `/` by default.
    pub virtual_host: String,
    /// Heartbeat interval in seconds; 0 takes the server's.
    pub heartbeat_s: u16,
    /// Largest frame in bytes; 0 takes the server's.
    pub frame_max: u32,
    /// Highest channel; 0 takes the server's.
    pub channel_max: u16,
    /// Shown in the broker's list of connections.
    pub connection_name: String,
    /// Largest body that is joined, in bytes; at most [`MAX_BODY`].
    pub max_body: u64,
    /// How long the handshake may take, and the orderly close.
    pub timeout: Nanos,
}

/// A connection, seen from the client.
pub struct Client {}

impl Client {
    /// Queues the protocol header as the first output.
    pub fn new(config: ClientConfig, now: Time) -> Self {
        todo!()
    }
    /// Takes bytes off `input` and returns the next event, `None` when more bytes are needed.
    /// What is not consumed stays in `input`; hand it in again, followed by what comes next.
    /// A buffer that holds one frame ([`Self::frame_max`] bytes) is always enough.
    pub fn poll<'a>(
        &'a mut self,
        now: Time,
        input: &mut &'a [u8],
    ) -> Result<Option<Event<'a>>, Error> {
        todo!()
    }
    /// Sends heartbeats that are due, notices missing ones, and a handshake or close that hangs.
    pub fn handle_timeout(&mut self, now: Time) -> Result<(), Error> {
        todo!()
    }
    /// When to call [`Self::handle_timeout`] at the latest.
    pub fn next_timeout(&self) -> Option<Time> {
        todo!()
    }
    /// The transport reached its end; `rest` is the unconsumed input. Says what that means.
    pub fn end_of_input(&self, rest: &[u8]) -> Error {
        todo!()
    }
    /// Bytes to write to the transport.
    pub fn pending_output(&self) -> &[u8] {
        todo!()
    }
    /// The first `n` bytes of the output are written.
    pub fn consume_output(&mut self, n: usize) {
        todo!()
    }
    /// Queues any method: `send(1, &QueueDeclare { queue: "q", ..Default::default() })`.
    pub fn send(&mut self, channel: u16, method: &impl EncodeMethod) -> Result<(), Error> {
        todo!()
    }
    /// Hot path: queues a message; `fill` writes into the first body frame's payload (the
    /// template's body until then).
    pub fn publish(&mut self, template: &PublishTemplate, fill: impl FnOnce(&mut [u8])) {
        todo!()
    }
    /// Queues a message without a template.
    pub fn publish_message(
        &mut self,
        channel: u16,
        publish: &BasicPublish<'_>,
        properties: Properties<'_>,
        body: &[u8],
    ) -> Result<(), Error> {
        todo!()
    }
    /// Hot path.
    pub fn ack(&mut self, channel: u16, delivery_tag: u64, multiple: bool) {
        todo!()
    }
    /// Hot path.
    pub fn nack(&mut self, channel: u16, delivery_tag: u64, multiple: bool, requeue: bool) {
        todo!()
    }
    /// Hot path.
    pub fn reject(&mut self, channel: u16, delivery_tag: u64, requeue: bool) {
        todo!()
    }
    /// Starts the orderly close; [`Event::CloseOk`] ends it.
    pub fn close(&mut self, now: Time, code: u16, text: &str) {
        todo!()
    }
    /// Negotiated frame size limit in bytes.
    pub fn frame_max(&self) -> u32 {
        todo!()
    }
    /// Negotiated highest channel.
    pub fn channel_max(&self) -> u16 {
        todo!()
    }
    /// Whether the handshake is complete and nobody closed yet.
    pub fn is_open(&self) -> bool {
        todo!()
    }
    /// What the server said about itself.
    pub fn server_properties(&self) -> Table<'_> {
        todo!()
    }
}
