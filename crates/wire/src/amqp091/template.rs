//! Precomputed frames.
use super::*;

/// A message's frames, encoded once.
#[derive(Clone, Debug)]
pub struct PublishTemplate {}

impl PublishTemplate {
    /// Encodes `basic.publish`, the content header, and a body of `body` (usually zeros to be
    /// filled) split at `frame_max`.
    pub fn new(
        channel: u16,
        publish: &BasicPublish<'_>,
        properties: Properties<'_>,
        body: &[u8],
        frame_max: u32,
    ) -> Result<Self, EncodeError> {
        todo!()
    }
    /// Bytes on the wire per message.
    pub fn wire_len(&self) -> usize {
        todo!()
    }
}

/// The `basic.deliver` frame of a consumer, encoded once for messages of one exchange and key.
#[derive(Clone, Debug)]
pub struct DeliverTemplate {}

impl DeliverTemplate {
    /// Encodes the frame.
    pub fn new(
        channel: u16,
        consumer_tag: &str,
        exchange: &str,
        routing_key: &str,
    ) -> Result<Self, EncodeError> {
        todo!()
    }
    /// Whether it was made for this exchange and key.
    pub fn matches(&self, exchange: &str, routing_key: &str) -> bool {
        todo!()
    }
}
