//! Transfers that are encoded once and copied per message.
//!
//! ```text
//! [ frame head | transfer | sections before the body | head of the data section ] body
//!   ^ size       ^ delivery id, tag, more                                 ^ length
//! [ frame head | transfer of the same delivery ] further parts of the body
//!
//! transfer in a transaction: [ ..., more | no mode | transactional state, whose end is the transaction's id ]
//! ```

use super::composite::{Composite, DeliveryState, TransactionalState, Transfer, TypedField};
use super::frame::{self, FRAME_AMQP};
use super::message::{MessageHead, put_data_head};
use super::types::TypedValue;
use crate::amqp091::{EncodeError, Reader, Slot, fill};

/// Stands in the place of what differs from message to message.
const LATER: u32 = u32::MAX;

/// Fields shared by a sender's messages. For [`super::Amqp10Client::publish`].
#[derive(Clone, Debug)]
pub struct TransferTemplate {
    session: u16,
    handle: u32,
    /// All up to the body.
    head: Vec<u8>,
    /// Where the four bytes of the delivery's id stand; its tag has the same four.
    id_at: usize,
    tag_at: usize,
    more_at: usize,
    /// Where the message itself begins.
    sections_at: usize,
    /// The beginning of further frames, up to whether more follow.
    further: Vec<u8>,
    /// The end of each transfer after that: the state of a transaction.
    tail: Vec<u8>,
    frame_max: usize,
    slots: MessageSlots,
}

/// Where in the head stands what may differ.
#[derive(Clone, Copy, Debug, Default)]
struct MessageSlots {
    transaction: Slot,
    message_id: Slot,
    creation_time: Slot,
    last_property: Slot,
}

impl TransferTemplate {
    /// Encodes all but the body. `settled` transfers are not answered. `frame_max` is the connection's, in bytes.
    /// Errors: sections that do not fit into a frame.
    pub fn new(
        session: u16,
        handle: u32,
        settled: bool,
        message: &MessageHead<'_>,
        frame_max: u32,
    ) -> Result<Self, EncodeError> {
        Self::encode(session, Transfer { handle, settled: Some(settled), ..Transfer::default() }, message, frame_max, 0)
    }

    /// The template of messages that belong to this transaction and are answered. Its id has at most 128 bytes.
    /// Errors: as [`Self::new`].
    pub fn transactional(
        session: u16,
        handle: u32,
        txn_id: &[u8],
        message: &MessageHead<'_>,
        frame_max: u32,
    ) -> Result<Self, EncodeError> {
        let mut state = Vec::new();
        TransactionalState { txn_id, ..TransactionalState::default() }.write(&mut state);
        let state = TypedValue::read(&mut Reader::new(&state)).unwrap_or_default();
        let transfer =
            Transfer { handle, settled: Some(false), state: Some(DeliveryState::Other(state)), ..Transfer::default() };
        Self::encode(session, transfer, message, frame_max, txn_id.len())
    }

    fn encode(
        session: u16,
        transfer: Transfer<'_>,
        message: &MessageHead<'_>,
        frame_max: u32,
        txn_id_len: usize,
    ) -> Result<Self, EncodeError> {
        let tag = LATER.to_be_bytes();
        let mut transfer = Transfer {
            delivery_id: Some(LATER),
            delivery_tag: Some(&tag),
            message_format: Some(0),
            more: Some(false),
            ..transfer
        };
        let mut tail = Vec::new();
        if let Some(state) = &transfer.state {
            // No mode of settling stands between.
            TypedValue::Null.write(&mut tail);
            state.put(&mut tail);
        }
        let mut head = frame::head(FRAME_AMQP, session, 0).to_vec();
        transfer.write(&mut head);
        // From the end of the transfer: its tail, more, settled, message format (0 takes one byte), tag.
        let more_at = head.len() - tail.len() - 1;
        let tag_at = more_at - 2 - tag.len();
        let id_at = tag_at - 2 - tag.len();
        let sections_at = head.len();
        message.write(&mut head);
        let mut slots = MessageSlots::of(message, sections_at, head.len());
        slots.transaction = (txn_id_len > 0).then(|| (sections_at - txn_id_len, txn_id_len));
        put_data_head(&mut head, 0);
        // Room for at least one byte of the body.
        if head.len() >= frame_max as usize {
            return Err(EncodeError::Frame { what: "the message's properties", len: head.len() + 1, frame_max });
        }
        (transfer.delivery_id, transfer.delivery_tag) = (None, None);
        transfer.message_format = None;
        let mut further = frame::head(FRAME_AMQP, session, 0).to_vec();
        transfer.write(&mut further);
        further.truncate(further.len() - tail.len() - 1);
        Ok(Self {
            session,
            handle: transfer.handle,
            head,
            id_at,
            tag_at,
            more_at,
            sections_at,
            further,
            tail,
            frame_max: frame_max as usize,
            slots,
        })
    }

    pub(super) const fn session(&self) -> u16 {
        self.session
    }

    pub(super) const fn handle(&self) -> u32 {
        self.handle
    }

    /// How many frames a message with a body of `len` bytes takes, and how many bytes in all.
    pub fn wire_len(&self, len: usize) -> (u32, usize) {
        let rest = (self.head.len() + len).saturating_sub(self.frame_max);
        let more = rest.div_ceil(self.part_max());
        let bytes = self.head.len() + len + more * self.further_len();
        (1 + more as u32, bytes)
    }

    /// Bytes of a message with a body of `len` bytes, as the largest size that a peer takes counts them.
    pub const fn message_len(&self, len: usize) -> u64 {
        (self.head.len() - self.sections_at + len) as u64
    }

    /// Bytes of a further frame before its part of the body.
    const fn further_len(&self) -> usize {
        self.further.len() + 1 + self.tail.len()
    }

    fn part_max(&self) -> usize {
        self.frame_max.saturating_sub(self.further_len()).max(1)
    }

    /// Puts the messages to come into another transaction, whose id is as long as that of the one before; `false`,
    /// and nothing done, where it is not.
    pub fn set_transaction(&mut self, txn_id: &[u8]) -> bool {
        let fits = self.slots.transaction.is_some_and(|(_, len)| len == txn_id.len());
        if fits {
            fill(&mut self.head, self.slots.transaction, txn_id);
            let at = self.tail.len() - txn_id.len();
            fill(&mut self.tail, Some((at, txn_id.len())), txn_id);
        }
        fits
    }

    /// Puts another message id into the messages to come, as long as the one before.
    #[inline]
    pub fn set_message_id(&mut self, id: &[u8]) {
        fill(&mut self.head, self.slots.message_id, id);
    }

    /// Puts another creation time into the messages to come, in milliseconds since 1970, where they have one.
    #[inline]
    pub fn set_creation_time(&mut self, unix_ms: i64) {
        fill(&mut self.head, self.slots.creation_time, &unix_ms.to_be_bytes());
    }

    /// Puts other bytes into the last application property of the messages to come, as many as before.
    #[inline]
    pub fn set_last_property(&mut self, bytes: &[u8]) {
        fill(&mut self.head, self.slots.last_property, bytes);
    }

    /// Appends a message's frames, and returns how many. `fill` writes into the part of the body that the first
    /// frame holds, which is the front of `body` until then.
    #[inline]
    pub(super) fn put(&self, out: &mut Vec<u8>, delivery_id: u32, body: &[u8], fill: impl FnOnce(&mut [u8])) -> u32 {
        let start = out.len();
        let id = delivery_id.to_be_bytes();
        out.extend_from_slice(&self.head);
        let first = body.len().min(self.frame_max - self.head.len());
        let (front, rest) = body.split_at(first);
        let more = if rest.is_empty() { 0x42 } else { 0x41 };
        let len = (body.len() as u32).to_be_bytes();
        let patches = [
            (self.id_at, &id[..]),
            (self.tag_at, &id[..]),
            (self.more_at, &[more][..]),
            (self.head.len() - 4, &len[..]),
        ];
        for (at, bytes) in patches {
            if let Some(slot) = out.get_mut(start + at..start + at + bytes.len()) {
                slot.copy_from_slice(bytes);
            }
        }
        let body_at = out.len();
        out.extend_from_slice(front);
        fill(out.get_mut(body_at..).unwrap_or_default());
        frame::close(out, start);
        1 + self.put_rest(out, rest)
    }

    fn put_rest(&self, out: &mut Vec<u8>, rest: &[u8]) -> u32 {
        let parts = rest.chunks(self.part_max());
        let count = parts.len();
        for (n, part) in parts.enumerate() {
            let start = out.len();
            out.extend_from_slice(&self.further);
            out.push(if n + 1 < count { 0x41 } else { 0x42 });
            out.extend_from_slice(&self.tail);
            out.extend_from_slice(part);
            frame::close(out, start);
        }
        count as u32
    }
}

impl MessageSlots {
    /// Finds them in sections that begin at `at` and end at `end`.
    fn of(message: &MessageHead<'_>, at: usize, end: usize) -> Self {
        // A section's properties up to and with the one in question end where it does.
        let end_of = |properties: super::PropertiesSection<'_>, len: usize| {
            let mut bytes = Vec::new();
            let whole = MessageHead { properties: message.properties, application_properties: &[], ..*message };
            whole.write(&mut bytes);
            let (mut all, mut some) = (Vec::new(), Vec::new());
            message.properties.write_fields(&mut all);
            properties.write_fields(&mut some);
            let behind = all.len() - some.len();
            Some(((at + bytes.len()).checked_sub(behind + len)?, len))
        };
        let properties = message.properties;
        let id = super::PropertiesSection { message_id: properties.message_id, ..Default::default() };
        let message_id = match properties.message_id {
            TypedValue::Str(text) => end_of(id, text.len()),
            _ => None,
        };
        let mut until = properties;
        (until.group_id, until.group_sequence, until.reply_to_group_id) = (None, None, None);
        let creation_time = properties.creation_time.and_then(|_| end_of(until, 8));
        let last = message.application_properties.last();
        let last_property = match last {
            Some((_, TypedValue::Binary(bytes))) => Some((end - bytes.len(), bytes.len())),
            _ => None,
        };
        Self { transaction: None, message_id, creation_time, last_property }
    }
}
