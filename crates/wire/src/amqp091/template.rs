//! Frames that are encoded once and copied per message.
//!
//! ```text
//! publish:  [ basic.publish frame | content header frame | body frame(s)           ]
//!                                                          ^ filled per message
//! deliver:  [ basic.deliver frame                        ] + header and body of the message
//!                 ^ delivery tag and redelivered flag patched
//! ```

use super::MAX_BODY;
use super::codec::Field;
use super::error::EncodeError;
use super::frame::{self, HEAD, OVERHEAD};
use super::properties::Properties;
use super::spec::{BasicDeliver, BasicPublish};
use super::table::Value;

/// A message's frames, encoded once. For [`super::Client::publish`].
#[derive(Clone, Debug)]
pub struct PublishTemplate {
    encoded: Encoded,
    /// Where the first body frame's payload starts.
    body_at: usize,
    /// How long that payload is.
    first_part: usize,
}

/// Bytes encoded once, and the places of values that differ from message to message.
#[derive(Clone, Debug)]
pub struct Encoded {
    bytes: Vec<u8>,
    key: Slot,
    slots: PropertySlots,
}

/// Start and length of what differs from message to message, where there is such a thing.
pub(crate) type Slot = Option<(usize, usize)>;

/// Puts a value of the same length into its slot.
#[inline]
pub(crate) fn fill(bytes: &mut [u8], slot: Slot, value: &[u8]) {
    if let Some((at, len)) = slot
        && len == value.len()
        && let Some(place) = bytes.get_mut(at..at + len)
    {
        place.copy_from_slice(value);
    }
}

impl Encoded {
    /// Puts another routing key into the messages to come. Does nothing unless it is as long in bytes as before.
    #[inline]
    pub fn set_routing_key(&mut self, key: &[u8]) {
        fill(&mut self.bytes, self.key, key);
    }

    /// Puts another message id into the messages to come. Does nothing unless there is one as long in bytes.
    #[inline]
    pub fn set_message_id(&mut self, id: &[u8]) {
        fill(&mut self.bytes, self.slots.id, id);
    }

    /// Puts another timestamp (seconds since 1970) into the messages to come, where they have one.
    #[inline]
    pub fn set_timestamp(&mut self, unix_s: u64) {
        fill(&mut self.bytes, self.slots.timestamp, &unix_s.to_be_bytes());
    }

    /// Puts other bytes into the last header of the messages to come, if that is a byte array of as many.
    #[inline]
    pub fn set_last_header(&mut self, bytes: &[u8]) {
        fill(&mut self.bytes, self.slots.header, bytes);
    }
}

/// Offset of a `basic.publish` frame's routing key: head, class, method, a reserved short, exchange, two lengths.
const fn key_slot(publish: &BasicPublish<'_>) -> Slot {
    Some((HEAD + 4 + 2 + 1 + publish.exchange.len() + 1, publish.routing_key.len()))
}

/// Where a content header's properties stand that differ from message to message.
#[derive(Clone, Copy, Debug, Default)]
struct PropertySlots {
    id: Slot,
    timestamp: Slot,
    /// The last header's bytes.
    header: Slot,
}

impl PropertySlots {
    /// Finds them in properties that begin at `at`. What cannot be read has none.
    fn of(properties: Properties<'_>, at: usize) -> Self {
        let Ok(all) = properties.decode() else { return Self::default() };
        // The properties that stand before the place in question.
        let mut before = all;
        before.message_type = None;
        before.user_id = None;
        before.app_id = None;
        before.cluster_id = None;
        let end = |properties: &super::BasicProperties<'_>| properties.to_bytes().ok().map(|bytes| at + bytes.len());
        let timestamp = end(&before).zip(all.timestamp.map(|_| 8));
        before.timestamp = None;
        let len = all.message_id.map(str::len);
        let id = end(&before).zip(len);
        let headers = super::BasicProperties {
            content_type: all.content_type,
            content_encoding: all.content_encoding,
            headers: all.headers,
            ..Default::default()
        };
        let last = all.headers.and_then(|headers| headers.iter().last());
        let header = match last {
            Some((_, Value::Bytes(bytes))) => end(&headers).zip(Some(bytes.len())),
            _ => None,
        };
        let before = |(end, len): (usize, usize)| Some((end.checked_sub(len)?, len));
        Self { id: id.and_then(before), timestamp: timestamp.and_then(before), header: header.and_then(before) }
    }
}

impl PublishTemplate {
    /// Encodes `basic.publish`, the content header and the body (usually zeros to be filled),
    /// split at the connection's `frame_max` in bytes.
    /// Errors: names above 255 bytes, properties that do not fit into a frame, a body above [`MAX_BODY`].
    pub fn new(
        channel: u16,
        publish: &BasicPublish<'_>,
        properties: Properties<'_>,
        body: &[u8],
        frame_max: u32,
    ) -> Result<Self, EncodeError> {
        if body.len() as u64 > MAX_BODY {
            return Err(EncodeError::Body { len: body.len() as u64, limit: MAX_BODY });
        }
        let mut bytes = Vec::new();
        frame::put_method(&mut bytes, channel, publish, frame_max)?;
        let header_at = bytes.len();
        frame::put_content(&mut bytes, channel, properties, body, frame_max)?;
        let header = OVERHEAD + frame::CONTENT_HEAD + properties.as_bytes().len();
        let body_at = if body.is_empty() { bytes.len() } else { header_at + header + HEAD };
        let first_part = body.len().min(frame::body_part_max(frame_max));
        let encoded = Encoded {
            bytes,
            key: key_slot(publish),
            slots: PropertySlots::of(properties, header_at + HEAD + frame::CONTENT_HEAD),
        };
        Ok(Self { encoded, body_at, first_part })
    }

    /// Bytes encoded once, with their variable fields.
    #[inline]
    pub const fn encoded(&mut self) -> &mut Encoded {
        &mut self.encoded
    }

    /// Bytes on the wire per message.
    pub const fn wire_len(&self) -> usize {
        self.encoded.bytes.len()
    }

    #[inline]
    pub(super) fn put(&self, out: &mut Vec<u8>, fill: impl FnOnce(&mut [u8])) {
        let start = out.len() + self.body_at;
        out.extend_from_slice(&self.encoded.bytes);
        if let Some(part) = out.get_mut(start..start + self.first_part) {
            fill(part);
        }
    }
}

/// A message's frames before its body, for bodies that differ. For [`super::Client::publish_body`].
#[derive(Clone, Debug)]
pub struct HeadTemplate {
    encoded: Encoded,
    /// Where the body's length stands in the content header.
    size_at: usize,
    channel: u16,
    /// The most body bytes in one frame.
    part_max: usize,
}

impl HeadTemplate {
    /// Encodes `basic.publish` and the content header; bodies will be split at the connection's `frame_max` in bytes.
    /// Errors: names above 255 bytes, properties that do not fit into a frame.
    pub fn new(
        channel: u16,
        publish: &BasicPublish<'_>,
        properties: Properties<'_>,
        frame_max: u32,
    ) -> Result<Self, EncodeError> {
        let mut bytes = Vec::new();
        frame::put_method(&mut bytes, channel, publish, frame_max)?;
        let slots = PropertySlots::of(properties, bytes.len() + HEAD + frame::CONTENT_HEAD);
        // Class and weight, two octets each, stand before the length.
        let size_at = bytes.len() + HEAD + 4;
        frame::put_content(&mut bytes, channel, properties, &[], frame_max)?;
        let encoded = Encoded { bytes, key: key_slot(publish), slots };
        Ok(Self { encoded, size_at, channel, part_max: frame::body_part_max(frame_max) })
    }

    /// Bytes encoded once, with their variable fields.
    #[inline]
    pub const fn encoded(&mut self) -> &mut Encoded {
        &mut self.encoded
    }

    /// Bytes on the wire of a message with a body of this many bytes.
    pub const fn wire_len(&self, body: usize) -> usize {
        self.encoded.bytes.len() + body + body.div_ceil(self.part_max) * OVERHEAD
    }

    #[inline]
    pub(super) fn put(&self, out: &mut Vec<u8>, body: &[u8], fill: impl FnOnce(&mut [u8])) {
        let start = out.len();
        out.extend_from_slice(&self.encoded.bytes);
        let size_at = start + self.size_at;
        if let Some(size) = out.get_mut(size_at..size_at + 8) {
            size.copy_from_slice(&(body.len() as u64).to_be_bytes());
        }
        let first = out.len() + HEAD;
        frame::put_body(out, self.channel, body, self.part_max);
        if let Some(part) = out.get_mut(first..first + body.len().min(self.part_max)) {
            fill(part);
        }
    }
}

/// A consumer's `basic.deliver` frame for one exchange and routing key, encoded once ([`super::Server::deliver`]).
#[derive(Clone, Debug)]
pub struct DeliverTemplate {
    bytes: Vec<u8>,
    channel: u16,
    /// Where the delivery tag stands in `bytes`; the flag follows it, then the two names.
    tag_at: usize,
}

impl DeliverTemplate {
    /// Encodes the frame. Errors: names above 255 bytes.
    pub fn new(channel: u16, consumer_tag: &str, exchange: &str, routing_key: &str) -> Result<Self, EncodeError> {
        let mut bytes = Vec::new();
        let deliver = BasicDeliver { consumer_tag, exchange, routing_key, ..Default::default() };
        // Three names always fit into the smallest frame.
        frame::put_method(&mut bytes, channel, &deliver, super::FRAME_MIN_SIZE)?;
        Ok(Self { bytes, channel, tag_at: HEAD + 4 + 1 + consumer_tag.len() })
    }

    /// Whether it was made for this exchange and key.
    pub fn matches(&self, exchange: &str, routing_key: &str) -> bool {
        let names = self.bytes.get(self.tag_at + 9..).unwrap_or_default();
        let mut reader = super::Reader::new(names);
        <&str>::read(&mut reader) == Ok(exchange) && <&str>::read(&mut reader) == Ok(routing_key)
    }

    /// The channel it was made for.
    pub const fn channel(&self) -> u16 {
        self.channel
    }

    #[inline]
    pub(super) fn put(
        &self,
        out: &mut Vec<u8>,
        delivery_tag: u64,
        redelivered: bool,
        properties: Properties<'_>,
        body: &[u8],
        frame_max: u32,
    ) -> Result<(), EncodeError> {
        let start = out.len();
        let tag_at = start + self.tag_at;
        out.extend_from_slice(&self.bytes);
        if let Some((tag, flag)) = out.get_mut(tag_at..tag_at + 9).and_then(|s| s.split_last_chunk_mut::<1>()) {
            tag.copy_from_slice(&delivery_tag.to_be_bytes());
            *flag = [u8::from(redelivered)];
        }
        frame::put_content(out, self.channel, properties, body, frame_max).inspect_err(|_| out.truncate(start))
    }
}
