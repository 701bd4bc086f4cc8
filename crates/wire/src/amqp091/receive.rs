//! Reading frames and joining content (specification 4.2.3, 4.2.6). Content whose frames are all there is borrowed from
//! the input; what is cut, split or interleaved is joined per channel. What runs per message is `inline(always)`:
//! otherwise what came in is handed up as an enum in memory, copied at every level, and reading a message takes twice
//! as long.

use std::fmt;

use super::config::BodyAllowance;
use super::error::{Error, Snippet};
use super::frame::{CONTENT_HEAD, HEAD, OVERHEAD};
use super::properties::Properties;
use super::spec::{
    BasicDeliver, CLASS_BASIC, CLASS_CONNECTION, ChannelClose, ChannelCloseOk, ChannelOpen, DecodeMethod, FRAME_BODY,
    FRAME_END, FRAME_HEADER, FRAME_HEARTBEAT, FRAME_METHOD, Kind, MethodId, reply,
};

const DELIVER: MethodId = BasicDeliver::INFO.id;
const CHANNEL_OPEN: MethodId = ChannelOpen::INFO.id;
const CHANNEL_CLOSE: MethodId = ChannelClose::INFO.id;
const CHANNEL_CLOSE_OK: MethodId = ChannelCloseOk::INFO.id;

/// Buffers above this many bytes are given back after use.
const KEEP: usize = 1 << 20;

/// Received messages, borrowed from the input.
#[derive(Debug)]
pub(super) enum Incoming<'i> {
    /// A message was dealt with, or several.
    Settlement(Settlement),
    /// A method without content.
    Method { channel: u16, id: MethodId, fields: &'i [u8] },
    /// A method with content, all in the input.
    Content { channel: u16, id: MethodId, fields: &'i [u8], properties: Properties<'i>, body: &'i [u8] },
    /// A method with content that was joined: see [`Receiver::joined`]. `body` is there when it came as a whole.
    Joined { channel: u16, id: MethodId, body: Option<&'i [u8]> },
    /// A body above the limit is announced: the channel or the connection must be closed.
    TooLarge { channel: u16, id: MethodId, size: u64 },
    /// Nothing but a sign of life.
    Heartbeat,
}

/// `basic.ack`, `basic.nack` or `basic.reject`.
#[derive(Debug)]
pub struct Settlement {
    pub(super) channel: u16,
    /// 80, 120 or 90.
    pub(super) method: u8,
    pub(super) delivery_tag: u64,
    /// `multiple`, then `requeue`; for `basic.reject` only `requeue`.
    pub(super) bits: u8,
}

/// Where a channel stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ChannelState {
    #[default]
    Closed,
    Open,
    /// Our `channel.close` is out: everything but its answer is dropped.
    Closing,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Method,
    Header,
    Body,
}

#[derive(Debug, Default)]
struct Join {
    stage: Stage,
    id: MethodId,
    fields: Vec<u8>,
    properties: Vec<u8>,
    body: Vec<u8>,
    size: u64,
    /// Bytes of the shared allowance that the body's buffer takes.
    counted: u64,
}

#[derive(Debug, Default)]
struct Channel {
    state: ChannelState,
    join: Option<Box<Join>>,
}

fn give_back(allowance: Option<&BodyAllowance>, bytes: u64) {
    if let Some(allowance) = allowance.filter(|_| bytes > 0) {
        allowance.give_back(bytes);
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let joins = self.channels.iter().filter_map(|slot| slot.join.as_ref());
        let counted = joins.map(|join| join.counted).sum();
        give_back(self.allowance.as_ref(), counted);
    }
}

struct Frame<'i> {
    kind: u8,
    channel: u16,
    payload: &'i [u8],
}

/// A method's fields, its properties and its body.
pub(super) type Parts<'a> = (&'a [u8], Properties<'a>, &'a [u8]);

/// Takes frames off the input and keeps what must be kept between them.
#[derive(Debug)]
pub(super) struct Receiver {
    /// Stream offset of the first byte that is not consumed.
    offset: u64,
    /// Stream offset of the frame that was consumed last.
    frame_offset: u64,
    frame_max: u32,
    max_body: u64,
    channels: Vec<Channel>,
    /// Body bytes in all joins, so that many channels cannot hold many large bodies.
    held: u64,
    /// Limit on joined bodies, shared with other connections.
    allowance: Option<BodyAllowance>,
    /// The channel whose body's buffer is given back on the next call.
    large: Option<u16>,
    /// Our `connection.close` is out: only channel 0 matters.
    draining: bool,
}

impl Receiver {
    pub(super) const fn new(frame_max: u32, max_body: u64) -> Self {
        Self {
            offset: 0,
            frame_offset: 0,
            frame_max,
            max_body,
            channels: Vec::new(),
            held: 0,
            allowance: None,
            large: None,
            draining: false,
        }
    }

    pub(super) fn share(&mut self, allowance: Option<BodyAllowance>) {
        self.allowance = allowance;
    }

    pub(super) const fn set_frame_max(&mut self, frame_max: u32) {
        self.frame_max = frame_max;
    }

    /// From now on all frames of channels are dropped (2.2.4: after `connection.close` only its answer counts).
    pub(super) const fn drain(&mut self) {
        self.draining = true;
    }

    pub(super) const fn offset(&self) -> u64 {
        self.offset
    }

    /// Consumes `n` bytes that are no frame.
    #[inline(always)]
    pub(super) fn skip(&mut self, input: &mut &[u8], n: usize) {
        let n = n.min(input.len());
        *input = input.get(n..).unwrap_or_default();
        self.offset += n as u64;
    }

    pub(super) fn channel_state(&self, channel: u16) -> ChannelState {
        self.channels.get(usize::from(channel)).map_or(ChannelState::Closed, |c| c.state)
    }

    /// Changes a channel's state; content that was in progress is dropped.
    pub(super) fn set_channel_state(&mut self, channel: u16, state: ChannelState) {
        let index = usize::from(channel);
        if self.channels.len() <= index {
            self.channels.resize_with(index + 1, Channel::default);
        }
        if let Some(slot) = self.channels.get_mut(index) {
            slot.state = state;
            if let Some(join) = slot.join.take() {
                if join.stage == Stage::Body {
                    self.held = self.held.saturating_sub(join.body.len() as u64);
                }
                give_back(self.allowance.as_ref(), join.counted);
            }
        }
    }

    /// The next thing that came in, `None` when more bytes are needed.
    #[inline(always)]
    pub(super) fn next<'i>(&mut self, input: &mut &'i [u8]) -> Result<Option<Incoming<'i>>, Error> {
        self.release_large();
        loop {
            if let Some(settlement) = self.settlement(input) {
                return Ok(Some(Incoming::Settlement(settlement)));
            }
            let Some(frame) = self.frame(input, 0)? else { return Ok(None) };
            if self.draining && frame.channel != 0 {
                self.consume(input, &frame);
                continue;
            }
            let incoming = match frame.kind {
                FRAME_METHOD => self.method(&frame, input)?,
                FRAME_HEADER => self.header(&frame, input)?,
                FRAME_BODY => self.body(&frame, input)?,
                _ => Some(self.heartbeat(&frame, input)?),
            };
            if incoming.is_some() {
                return Ok(incoming);
            }
        }
    }

    /// Takes a whole `basic.ack`, `basic.nack` or `basic.reject` at the start of the input, the most frequent methods.
    #[inline(always)]
    fn settlement(&mut self, input: &mut &[u8]) -> Option<Settlement> {
        const LEN: usize = OVERHEAD + 13;
        let (&[FRAME_METHOD, a, b, 0, 0, 0, 13, 0, 60, 0, method @ (80 | 90 | 120), tag @ .., bits, FRAME_END], rest) =
            input.split_first_chunk::<LEN>()?
        else {
            return None;
        };
        let channel = u16::from_be_bytes([a, b]);
        if self.draining || !self.is_idle(channel) {
            return None;
        }
        *input = rest;
        self.frame_offset = self.offset;
        self.offset += LEN as u64;
        Some(Settlement { channel, method, delivery_tag: u64::from_be_bytes(tag), bits })
    }

    /// Whether a channel is open and not inside a message's content.
    #[inline(always)]
    fn is_idle(&self, channel: u16) -> bool {
        self.channels.get(usize::from(channel)).is_some_and(|slot| {
            slot.state == ChannelState::Open && slot.join.as_ref().is_none_or(|join| join.stage == Stage::Method)
        })
    }

    /// An error about the frame that was consumed last, of which `bytes` are a part.
    #[cold]
    pub(super) fn fault_consumed(&self, code: u16, what: String, bytes: &[u8]) -> Error {
        Error::Protocol { code, what, offset: self.frame_offset, bytes: Snippet::of(bytes) }
    }

    /// An error about the bytes that start `at` bytes into the input.
    #[cold]
    fn fault(&self, code: u16, what: fmt::Arguments<'_>, input: &[u8], at: usize) -> Error {
        Error::Protocol {
            code,
            what: what.to_string(),
            offset: self.offset + at as u64,
            bytes: Snippet::of(input.get(at..).unwrap_or_default()),
        }
    }

    /// Reads the frame that starts `at` bytes into the input, without consuming it.
    #[inline(always)]
    fn frame<'i>(&self, input: &&'i [u8], at: usize) -> Result<Option<Frame<'i>>, Error> {
        let bytes: &'i [u8] = input.get(at..).unwrap_or_default();
        let Some(&kind) = bytes.first() else { return Ok(None) };
        if !matches!(kind, FRAME_METHOD | FRAME_HEADER | FRAME_BODY | FRAME_HEARTBEAT) {
            return Err(self.fault(reply::FRAME_ERROR, format_args!("no frame starts with {kind:02x}"), input, at));
        }
        let Some((&[_, c0, c1, s0, s1, s2, s3], rest)) = bytes.split_first_chunk::<HEAD>() else { return Ok(None) };
        let size = u32::from_be_bytes([s0, s1, s2, s3]);
        if u64::from(size) + OVERHEAD as u64 > u64::from(self.frame_max) {
            let what = format_args!("a frame with {size} bytes of payload, frame-max is {}", self.frame_max);
            return Err(self.fault(reply::FRAME_ERROR, what, input, at));
        }
        let Some((payload, [end, ..])) = rest.split_at_checked(size as usize) else { return Ok(None) };
        if *end != FRAME_END {
            let what = format_args!("a frame of {size} bytes of payload ends with {end:02x}, not ce");
            return Err(self.fault(reply::FRAME_ERROR, what, input, at + HEAD + payload.len()));
        }
        Ok(Some(Frame { kind, channel: u16::from_be_bytes([c0, c1]), payload }))
    }

    /// Length of the frame that the input begins with; 0 where it is not known or not allowed.
    #[inline]
    pub(super) fn needs(&self, input: &[u8]) -> usize {
        let Some(&[_, _, _, s0, s1, s2, s3]) = input.first_chunk::<HEAD>() else { return 0 };
        let len = u64::from(u32::from_be_bytes([s0, s1, s2, s3])) + OVERHEAD as u64;
        if len > u64::from(self.frame_max) { 0 } else { len as usize }
    }

    #[inline(always)]
    fn consume(&mut self, input: &mut &[u8], frame: &Frame<'_>) {
        self.frame_offset = self.offset;
        self.skip(input, OVERHEAD + frame.payload.len());
    }

    #[inline(always)]
    fn method<'i>(&mut self, frame: &Frame<'i>, input: &mut &'i [u8]) -> Result<Option<Incoming<'i>>, Error> {
        let channel = frame.channel;
        let Some((&[c0, c1, m0, m1], fields)) = frame.payload.split_first_chunk() else {
            return Err(self.fault(reply::SYNTAX_ERROR, format_args!("a method frame without a method"), input, 0));
        };
        let id = MethodId { class: u16::from_be_bytes([c0, c1]), method: u16::from_be_bytes([m0, m1]) };
        if !self.admits(channel, id, input)? {
            self.consume(input, frame);
            return Ok(None);
        }
        if id != DELIVER && (id.class != CLASS_BASIC || id.kind() != Some(Kind::Content)) {
            self.consume(input, frame);
            return Ok(Some(Incoming::Method { channel, id, fields }));
        }
        let header_at = OVERHEAD + frame.payload.len();
        if let Some((properties, body, len)) = self.whole_content(channel, input, header_at)? {
            self.frame_offset = self.offset;
            self.skip(input, len);
            return Ok(Some(Incoming::Content { channel, id, fields, properties, body }));
        }
        self.consume(input, frame);
        if let Some(slot) = self.channels.get_mut(usize::from(channel)) {
            let join = slot.join.get_or_insert_default();
            join.stage = Stage::Header;
            join.id = id;
            join.body.clear();
            join.fields.clear();
            join.fields.extend_from_slice(fields);
        }
        Ok(None)
    }

    /// Whether a method may come on this channel now; `false` when it is to be dropped.
    #[inline(always)]
    fn admits(&self, channel: u16, id: MethodId, input: &[u8]) -> Result<bool, Error> {
        if id.class != CLASS_CONNECTION && self.is_idle(channel) {
            return Ok(true);
        }
        if (id.class == CLASS_CONNECTION) != (channel == 0) {
            let what = format_args!("{} on channel {channel}", id.name());
            return Err(self.fault(reply::COMMAND_INVALID, what, input, 0));
        }
        if channel == 0 {
            return Ok(true);
        }
        match self.channel_state(channel) {
            // Not idle: inside a message's content.
            ChannelState::Open => {
                let what = format_args!("{} on channel {channel} inside a message's content", id.name());
                Err(self.fault(reply::UNEXPECTED_FRAME, what, input, 0))
            }
            ChannelState::Closing => Ok(id == CHANNEL_CLOSE || id == CHANNEL_CLOSE_OK),
            ChannelState::Closed if id == CHANNEL_OPEN => Ok(true),
            ChannelState::Closed => {
                let what = format_args!("{} on channel {channel}, which is not open", id.name());
                Err(self.fault(reply::CHANNEL_ERROR, what, input, 0))
            }
        }
    }

    fn heartbeat<'i>(&mut self, frame: &Frame<'i>, input: &mut &'i [u8]) -> Result<Incoming<'i>, Error> {
        if frame.channel != 0 {
            let what = format_args!("a heartbeat on channel {}", frame.channel);
            return Err(self.fault(reply::FRAME_ERROR, what, input, 0));
        }
        self.consume(input, frame);
        Ok(Incoming::Heartbeat)
    }
}

/// `basic.deliver`, the longest of them, has three names of at most 255 bytes.
const METHOD_ROOM: usize = 1_024;
/// Bytes of usual messages' properties; only a table makes them longer.
const PROPERTIES_ROOM: usize = 512;

/// Header and body that follow their method in the input, and the bytes of all three.
type Whole<'i> = (Properties<'i>, &'i [u8], usize);

impl Receiver {
    /// Event announced by [`Incoming::Joined`], with its `body`.
    pub(super) fn joined<'a>(&'a self, channel: u16, body: Option<&'a [u8]>) -> Option<Parts<'a>> {
        let join = self.channels.get(usize::from(channel))?.join.as_deref()?;
        Some((&join.fields, Properties::from_bytes(&join.properties), body.unwrap_or(&join.body)))
    }

    /// Header and body of a method, where they follow it in the input as a whole, and the length of all three.
    #[inline(always)]
    fn whole_content<'i>(&self, channel: u16, input: &&'i [u8], header_at: usize) -> Result<Option<Whole<'i>>, Error> {
        let Some(header) = self.frame(input, header_at)? else { return Ok(None) };
        if header.kind != FRAME_HEADER || header.channel != channel {
            return Ok(None);
        }
        let (size, properties) = self.content_header(&header, input, header_at)?;
        let body_at = header_at + OVERHEAD + header.payload.len();
        if size == 0 {
            return Ok(Some((properties, &[], body_at)));
        }
        if size > self.max_body {
            return Ok(None);
        }
        let Some(body) = self.frame(input, body_at)? else { return Ok(None) };
        if body.kind != FRAME_BODY || body.channel != channel || body.payload.len() as u64 != size {
            return Ok(None);
        }
        Ok(Some((properties, body.payload, body_at + OVERHEAD + body.payload.len())))
    }

    #[inline(always)]
    fn content_header<'i>(&self, frame: &Frame<'i>, input: &[u8], at: usize) -> Result<(u64, Properties<'i>), Error> {
        let Some((&[c0, c1, _, _, size @ ..], properties)) = frame.payload.split_first_chunk::<CONTENT_HEAD>() else {
            let what = format_args!("a content header of {} bytes", frame.payload.len());
            return Err(self.fault(reply::SYNTAX_ERROR, what, input, at));
        };
        let class = u16::from_be_bytes([c0, c1]);
        if class != CLASS_BASIC {
            let what = format_args!("a content header of class {class} after a method of class 60");
            return Err(self.fault(reply::FRAME_ERROR, what, input, at));
        }
        if properties.len() < 2 {
            let what = format_args!("a content header without property flags");
            return Err(self.fault(reply::SYNTAX_ERROR, what, input, at));
        }
        Ok((u64::from_be_bytes(size), Properties::from_bytes(properties)))
    }

    fn header<'i>(&mut self, frame: &Frame<'i>, input: &mut &'i [u8]) -> Result<Option<Incoming<'i>>, Error> {
        let channel = frame.channel;
        if self.channel_state(channel) == ChannelState::Closing {
            self.consume(input, frame);
            return Ok(None);
        }
        let (size, properties) = self.content_header(frame, input, 0)?;
        let max_body = self.max_body;
        let Some(join) = self.join_at(channel, Stage::Header) else {
            let what = format_args!("a content header on channel {channel} without its method");
            return Err(self.fault(reply::UNEXPECTED_FRAME, what, input, 0));
        };
        let id = join.id;
        join.properties.clear();
        join.properties.extend_from_slice(properties.as_bytes());
        join.size = size;
        let (stage, incoming) = if size > max_body {
            (Stage::Method, Some(Incoming::TooLarge { channel, id, size }))
        } else if size == 0 {
            (Stage::Method, Some(Incoming::Joined { channel, id, body: None }))
        } else {
            (Stage::Body, None)
        };
        join.stage = stage;
        self.consume(input, frame);
        Ok(incoming)
    }

    fn body<'i>(&mut self, frame: &Frame<'i>, input: &mut &'i [u8]) -> Result<Option<Incoming<'i>>, Error> {
        let channel = frame.channel;
        let part = frame.payload;
        if self.channel_state(channel) == ChannelState::Closing {
            self.consume(input, frame);
            return Ok(None);
        }
        let room = (2 * self.max_body).saturating_sub(self.held);
        let Some(join) = self.join_at(channel, Stage::Body) else {
            let what = format_args!("a content body on channel {channel} without its header");
            return Err(self.fault(reply::UNEXPECTED_FRAME, what, input, 0));
        };
        let id = join.id;
        let missing = join.size - join.body.len() as u64;
        if part.len() as u64 > missing {
            let what = format_args!("{} bytes of content body, {missing} are missing", part.len());
            return Err(self.fault(reply::FRAME_ERROR, what, input, 0));
        }
        let complete = part.len() as u64 == missing;
        if complete {
            join.stage = Stage::Method;
        }
        if complete && join.body.is_empty() {
            self.consume(input, frame);
            return Ok(Some(Incoming::Joined { channel, id, body: Some(part) }));
        }
        if part.len() as u64 > room {
            let what = format_args!("too many bodies are in progress at once");
            return Err(self.fault(reply::RESOURCE_ERROR, what, input, 0));
        }
        let joined = self.append(channel, part, input)?;
        self.consume(input, frame);
        self.held += part.len() as u64;
        if !complete {
            return Ok(None);
        }
        self.held = self.held.saturating_sub(joined);
        let is_tight = self.allowance.as_ref().is_some_and(BodyAllowance::is_tight);
        self.large = (is_tight || joined > KEEP as u64).then_some(channel);
        Ok(Some(Incoming::Joined { channel, id, body: None }))
    }

    /// Appends a part to a channel's body, where there is memory for it, and returns the length so far.
    fn append(&mut self, channel: u16, part: &[u8], input: &[u8]) -> Result<u64, Error> {
        let slot = self.channels.get_mut(usize::from(channel));
        let Some(join) = slot.and_then(|slot| slot.join.as_deref_mut()) else { return Ok(0) };
        let joined = (join.body.len() + part.len()) as u64;
        let more = joined.saturating_sub(join.counted);
        if let Some(allowance) = self.allowance.as_ref().filter(|_| more > 0) {
            if !allowance.take(more) {
                let (taken, limit) = (allowance.taken(), allowance.limit());
                let what =
                    format_args!("incomplete messages take {taken} bytes on all connections, and may take {limit}");
                return Err(self.fault(reply::RESOURCE_ERROR, what, input, 0));
            }
            join.counted = joined;
        }
        join.body.extend_from_slice(part);
        Ok(joined)
    }

    /// Makes room for a method with content and its properties on an open channel.
    pub(super) fn reserve(&mut self, channel: u16) {
        if let Some(slot) = self.channels.get_mut(usize::from(channel)) {
            let join = slot.join.get_or_insert_default();
            join.fields.reserve(METHOD_ROOM);
            join.properties.reserve(PROPERTIES_ROOM);
        }
    }

    /// The join of an open channel, if it is at this stage.
    fn join_at(&mut self, channel: u16, stage: Stage) -> Option<&mut Join> {
        let join = self.channels.get_mut(usize::from(channel))?.join.as_deref_mut()?;
        (join.stage == stage).then_some(join)
    }

    /// Gives back the buffer of a large body, or of any where memory is tight, that was handed out by the last call.
    #[inline]
    fn release_large(&mut self) {
        if let Some(channel) = self.large.take()
            && let Some(slot) = self.channels.get_mut(usize::from(channel))
            && let Some(join) = slot.join.as_deref_mut()
        {
            join.body = Vec::new();
            give_back(self.allowance.as_ref(), std::mem::take(&mut join.counted));
        }
    }
}
