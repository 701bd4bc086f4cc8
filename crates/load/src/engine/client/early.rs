//! A delivery that came before the load began.

use crate::protocol::Received;

/// A copy of the first delivery of a connection that is set up and waits for the common start.
/// Nothing is read behind it until the load begins: what waits is with the broker, and in the
/// socket's buffers.
#[derive(Debug)]
pub(super) struct EarlyDelivery {
    pub(super) client: usize,
    pub(super) tag: u64,
    redelivered: bool,
    body: Vec<u8>,
    properties: Vec<u8>,
}

impl EarlyDelivery {
    #[cold]
    pub(super) fn new(
        client: usize,
        tag: u64,
        redelivered: bool,
        body: &[u8],
        properties: &[u8],
    ) -> Self {
        Self {
            client,
            tag,
            redelivered,
            body: body.to_vec(),
            properties: properties.to_vec(),
        }
    }

    /// The delivery without its tag.
    pub(super) fn delivery(&self) -> Received<'_> {
        Received {
            body: &self.body,
            properties: &self.properties,
            redelivered: self.redelivered,
        }
    }
}
