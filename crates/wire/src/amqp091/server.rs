//! The server's side of a connection.
use measure::{Nanos, Time};

use super::*;

/// What a server offers.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// What the server says about itself: `product`, `version`, `capabilities` come by default.
    pub properties: FieldTable,
    /// Login mechanisms, separated by blanks: `PLAIN EXTERNAL`.
    pub mechanisms: String,
    /// Heartbeat interval that is proposed, in seconds; 0 for none.
    pub heartbeat_s: u16,
    /// Largest frame in bytes.
    pub frame_max: u32,
    /// Highest channel.
    pub channel_max: u16,
    /// Largest body in bytes; above, the channel is closed with 406. At most [`MAX_BODY`].
    pub max_body: u64,
    /// How long the handshake may take, and the orderly close.
    pub timeout: Nanos,
}

/// A connection, seen from the server.
pub struct Server {}

impl Server {
    /// Waits for the client's protocol header.
    pub fn new(config: ServerConfig, now: Time) -> Self {
        todo!()
    }
    /// As [`Client::poll`]. After an error, send the pending output (it tells the client why),
    /// then close.
    pub fn poll<'a>(
        &'a mut self,
        now: Time,
        input: &mut &'a [u8],
    ) -> Result<Option<ServerEvent<'a>>, Error> {
        todo!()
    }
    /// As [`Client::handle_timeout`].
    pub fn handle_timeout(&mut self, now: Time) -> Result<(), Error> {
        todo!()
    }
    /// As [`Client::next_timeout`].
    pub fn next_timeout(&self) -> Option<Time> {
        todo!()
    }
    /// As [`Client::end_of_input`].
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
    /// Answers [`ServerEvent::Login`]: goes on with tuning.
    pub fn accept_login(&mut self) {
        todo!()
    }
    /// Answers [`ServerEvent::Open`]: the connection is open.
    pub fn accept_open(&mut self) {
        todo!()
    }
    /// Answers [`ServerEvent::Login`] or [`ServerEvent::Open`]: closes with code and text (403
    /// for a login, 530 for a virtual host).
    pub fn refuse(&mut self, now: Time, code: u16, text: &str) {
        todo!()
    }
    /// Queues any method.
    pub fn send(&mut self, channel: u16, method: &impl EncodeMethod) -> Result<(), Error> {
        todo!()
    }
    /// Hot path: queues a delivery. The body is split at the connection's frame-max.
    pub fn deliver(
        &mut self,
        template: &DeliverTemplate,
        delivery_tag: u64,
        redelivered: bool,
        properties: Properties<'_>,
        body: &[u8],
    ) {
        todo!()
    }
    /// Queues a method with content: `basic.deliver`, `basic.return`, `basic.get-ok`.
    pub fn send_content(
        &mut self,
        channel: u16,
        method: &impl EncodeMethod,
        properties: Properties<'_>,
        body: &[u8],
    ) -> Result<(), Error> {
        todo!()
    }
    /// Hot path: confirms published messages (`basic.ack`).
    pub fn confirm(&mut self, channel: u16, delivery_tag: u64, multiple: bool) {
        todo!()
    }
    /// Refuses published messages (`basic.nack`).
    pub fn confirm_nack(&mut self, channel: u16, delivery_tag: u64, multiple: bool) {
        todo!()
    }
    /// Closes a channel (404, 406, ...); what the client still sends on it is dropped until it
    /// agrees.
    pub fn close_channel(&mut self, channel: u16, code: u16, text: &str, cause: MethodId) {
        todo!()
    }
    /// Starts the orderly close of the connection; [`ServerEvent::CloseOk`] ends it.
    pub fn close(&mut self, now: Time, code: u16, text: &str, cause: MethodId) {
        todo!()
    }
    /// Negotiated frame size limit in bytes.
    pub fn frame_max(&self) -> u32 {
        todo!()
    }
    /// Whether the handshake is complete and nobody closed yet.
    pub fn is_open(&self) -> bool {
        todo!()
    }
}
