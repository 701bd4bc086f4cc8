//! Reading frames and joining content (specification 4.2.3, 4.2.6).
//!
//! ```text
//! input   [method][header][body]                    all there: borrowed from the input
//!         [method] .. [header] .. [body] .. [body]  cut, split or interleaved: joined per channel
//! ```

use super::error::{Error, Snippet};
use super::frame::{CONTENT_HEAD, HEAD, OVERHEAD};
use super::properties::Properties;
use super::spec::{
    CLASS_BASIC, CLASS_CONNECTION, ChannelClose, ChannelCloseOk, ChannelOpen, DecodeMethod,
    FRAME_BODY, FRAME_END, FRAME_HEADER, FRAME_HEARTBEAT, FRAME_METHOD, Kind, MethodId, reply,
};

const CHANNEL_OPEN: MethodId = ChannelOpen::INFO.id;
const CHANNEL_CLOSE: MethodId = ChannelClose::INFO.id;
const CHANNEL_CLOSE_OK: MethodId = ChannelCloseOk::INFO.id;

/// Buffers above this many bytes are given back after use.
const KEEP: usize = 1 << 20;

/// What came in, borrowed from the input.
#[derive(Debug)]
pub(super) enum Incoming<'i> {
    /// A method without content.
    Method {
        channel: u16,
        id: MethodId,
        fields: &'i [u8],
    },
    /// A method with content, all in the input.
    Content {
        channel: u16,
        id: MethodId,
        fields: &'i [u8],
        properties: Properties<'i>,
        body: &'i [u8],
    },
    /// A method with content that was joined: see [`Receiver::joined`]. `body` is there when it
    /// came as a whole.
    Joined {
        channel: u16,
        id: MethodId,
        body: Option<&'i [u8]>,
    },
    /// A body above the limit is announced; the rest of it will be read and dropped.
    TooLarge {
        channel: u16,
        id: MethodId,
        size: u64,
    },
    /// Nothing but a sign of life.
    Heartbeat,
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
    /// The body is above the limit and dropped as it comes.
    drop: bool,
}

#[derive(Debug, Default)]
struct Channel {
    state: ChannelState,
    join: Option<Box<Join>>,
}

struct Frame<'i> {
    kind: u8,
    channel: u16,
    payload: &'i [u8],
}

/// A method that was joined.
pub(super) struct JoinedParts<'a> {
    pub(super) fields: &'a [u8],
    pub(super) properties: Properties<'a>,
    pub(super) body: &'a [u8],
}

/// Takes frames off the input and keeps what must be kept between them.
#[derive(Debug)]
pub(super) struct Receiver {
    /// Stream offset of the first byte that is not consumed.
    offset: u64,
    frame_max: u32,
    max_body: u64,
    channels: Vec<Channel>,
    /// Body bytes in all joins, so that many channels cannot hold many large bodies.
    held: u64,
    /// The channel whose joined body was large; its buffer is given back on the next call.
    large: Option<u16>,
    /// Our `connection.close` is out: only channel 0 matters.
    draining: bool,
}

impl Receiver {
    pub(super) const fn new(frame_max: u32, max_body: u64) -> Self {
        Self {
            offset: 0,
            frame_max,
            max_body,
            channels: Vec::new(),
            held: 0,
            large: None,
            draining: false,
        }
    }

    pub(super) const fn set_frame_max(&mut self, frame_max: u32) {
        self.frame_max = frame_max;
    }

    /// From now on all frames of channels are dropped (2.2.4: whoever sent `connection.close`
    /// ignores everything but its answer).
    pub(super) const fn drain(&mut self) {
        self.draining = true;
    }

    pub(super) const fn offset(&self) -> u64 {
        self.offset
    }

    /// Consumes `n` bytes that are no frame.
    pub(super) fn skip(&mut self, input: &mut &[u8], n: usize) {
        let n = n.min(input.len());
        *input = input.get(n..).unwrap_or_default();
        self.offset += n as u64;
    }

    pub(super) fn channel_state(&self, channel: u16) -> ChannelState {
        self.channels
            .get(usize::from(channel))
            .map_or(ChannelState::Closed, |c| c.state)
    }

    /// Changes a channel's state; content that was under way is dropped.
    pub(super) fn set_channel_state(&mut self, channel: u16, state: ChannelState) {
        let index = usize::from(channel);
        if self.channels.len() <= index {
            self.channels.resize_with(index + 1, Channel::default);
        }
        if let Some(slot) = self.channels.get_mut(index) {
            slot.state = state;
            if let Some(join) = slot.join.take() {
                self.held = self.held.saturating_sub(join.body.len() as u64);
            }
        }
    }

    /// The next thing that came in, `None` when more bytes are needed.
    #[inline]
    pub(super) fn next<'i>(&mut self, input: &mut &'i [u8]) -> Result<Option<Incoming<'i>>, Error> {
        self.release_large();
        loop {
            let Some(frame) = self.frame(input, 0)? else {
                return Ok(None);
            };
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

    /// What [`Incoming::Joined`] announced; `body` is what it carried.
    pub(super) fn joined<'a>(
        &'a self,
        channel: u16,
        body: Option<&'a [u8]>,
    ) -> Option<JoinedParts<'a>> {
        let join = self.channels.get(usize::from(channel))?.join.as_deref()?;
        Some(JoinedParts {
            fields: &join.fields,
            properties: Properties::from_bytes(&join.properties),
            body: body.unwrap_or(&join.body),
        })
    }

    /// An error about the bytes that start `at` bytes into the input.
    #[cold]
    pub(super) fn fault(&self, code: u16, what: String, input: &[u8], at: usize) -> Error {
        Error::Protocol {
            code,
            what,
            offset: self.offset + at as u64,
            bytes: Snippet::of(input.get(at..).unwrap_or_default()),
        }
    }

    /// Reads the frame that starts `at` bytes into the input, without consuming it.
    #[inline]
    fn frame<'i>(&self, input: &&'i [u8], at: usize) -> Result<Option<Frame<'i>>, Error> {
        let bytes: &'i [u8] = input.get(at..).unwrap_or_default();
        let Some(&kind) = bytes.first() else {
            return Ok(None);
        };
        if !matches!(
            kind,
            FRAME_METHOD | FRAME_HEADER | FRAME_BODY | FRAME_HEARTBEAT
        ) {
            let what = format!("no frame starts with {kind:02x}");
            return Err(self.fault(reply::FRAME_ERROR, what, input, at));
        }
        let Some((&[_, c0, c1, s0, s1, s2, s3], rest)) = bytes.split_first_chunk::<HEAD>() else {
            return Ok(None);
        };
        let size = u32::from_be_bytes([s0, s1, s2, s3]);
        if u64::from(size) + OVERHEAD as u64 > u64::from(self.frame_max) {
            let max = self.frame_max;
            let what = format!("a frame with {size} bytes of payload, frame-max is {max}");
            return Err(self.fault(reply::FRAME_ERROR, what, input, at));
        }
        let Some((payload, [end, ..])) = rest.split_at_checked(size as usize) else {
            return Ok(None);
        };
        if *end != FRAME_END {
            let what = format!("a frame of {size} bytes of payload ends with {end:02x}, not ce");
            return Err(self.fault(reply::FRAME_ERROR, what, input, at + HEAD + payload.len()));
        }
        Ok(Some(Frame {
            kind,
            channel: u16::from_be_bytes([c0, c1]),
            payload,
        }))
    }

    #[inline]
    fn consume(&mut self, input: &mut &[u8], frame: &Frame<'_>) {
        self.skip(input, OVERHEAD + frame.payload.len());
    }

    #[inline]
    fn method<'i>(
        &mut self,
        frame: &Frame<'i>,
        input: &mut &'i [u8],
    ) -> Result<Option<Incoming<'i>>, Error> {
        let channel = frame.channel;
        let Some((&[c0, c1, m0, m1], fields)) = frame.payload.split_first_chunk() else {
            let what = "a method frame without a method".to_owned();
            return Err(self.fault(reply::SYNTAX_ERROR, what, input, 0));
        };
        let id = MethodId {
            class: u16::from_be_bytes([c0, c1]),
            method: u16::from_be_bytes([m0, m1]),
        };
        if !self.admits(channel, id, input)? {
            self.consume(input, frame);
            return Ok(None);
        }
        if id.class != CLASS_BASIC || id.kind() != Some(Kind::Content) {
            self.consume(input, frame);
            return Ok(Some(Incoming::Method {
                channel,
                id,
                fields,
            }));
        }
        let header_at = OVERHEAD + frame.payload.len();
        if let Some((properties, body, len)) = self.whole_content(channel, input, header_at)? {
            self.skip(input, len);
            return Ok(Some(Incoming::Content {
                channel,
                id,
                fields,
                properties,
                body,
            }));
        }
        self.consume(input, frame);
        if let Some(slot) = self.channels.get_mut(usize::from(channel)) {
            let join = slot.join.get_or_insert_default();
            join.stage = Stage::Header;
            join.id = id;
            join.drop = false;
            join.body.clear();
            join.fields.clear();
            join.fields.extend_from_slice(fields);
        }
        Ok(None)
    }

    /// Whether a method may come on this channel now; `false` when it is to be dropped.
    #[inline]
    fn admits(&self, channel: u16, id: MethodId, input: &[u8]) -> Result<bool, Error> {
        if (id.class == CLASS_CONNECTION) != (channel == 0) {
            let what = format!("{} on channel {channel}", id.name());
            return Err(self.fault(reply::COMMAND_INVALID, what, input, 0));
        }
        if channel == 0 {
            return Ok(true);
        }
        let slot = self.channels.get(usize::from(channel));
        match slot.map_or(ChannelState::Closed, |slot| slot.state) {
            ChannelState::Open => {}
            ChannelState::Closing => return Ok(id == CHANNEL_CLOSE || id == CHANNEL_CLOSE_OK),
            ChannelState::Closed if id == CHANNEL_OPEN => return Ok(true),
            ChannelState::Closed => {
                let what = format!("{} on channel {channel}, which is not open", id.name());
                return Err(self.fault(reply::CHANNEL_ERROR, what, input, 0));
            }
        }
        if slot
            .and_then(|s| s.join.as_ref())
            .is_some_and(|join| join.stage != Stage::Method)
        {
            let what = format!(
                "{} on channel {channel} inside a message's content",
                id.name()
            );
            return Err(self.fault(reply::UNEXPECTED_FRAME, what, input, 0));
        }
        Ok(true)
    }

    /// Header and body of a method, where they follow it in the input as a whole, and the length
    /// of all three.
    #[inline]
    fn whole_content<'i>(
        &self,
        channel: u16,
        input: &&'i [u8],
        header_at: usize,
    ) -> Result<Option<(Properties<'i>, &'i [u8], usize)>, Error> {
        let Some(header) = self.frame(input, header_at)? else {
            return Ok(None);
        };
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
        let Some(body) = self.frame(input, body_at)? else {
            return Ok(None);
        };
        if body.kind != FRAME_BODY || body.channel != channel || body.payload.len() as u64 != size {
            return Ok(None);
        }
        Ok(Some((
            properties,
            body.payload,
            body_at + OVERHEAD + body.payload.len(),
        )))
    }

    #[inline]
    fn content_header<'i>(
        &self,
        frame: &Frame<'i>,
        input: &[u8],
        at: usize,
    ) -> Result<(u64, Properties<'i>), Error> {
        let Some((&[c0, c1, _, _, size @ ..], properties)) =
            frame.payload.split_first_chunk::<CONTENT_HEAD>()
        else {
            let what = format!("a content header of {} bytes", frame.payload.len());
            return Err(self.fault(reply::SYNTAX_ERROR, what, input, at));
        };
        let class = u16::from_be_bytes([c0, c1]);
        if class != CLASS_BASIC {
            let what = format!("a content header of class {class} after a method of class 60");
            return Err(self.fault(reply::FRAME_ERROR, what, input, at));
        }
        if properties.len() < 2 {
            let what = "a content header without property flags".to_owned();
            return Err(self.fault(reply::SYNTAX_ERROR, what, input, at));
        }
        Ok((u64::from_be_bytes(size), Properties::from_bytes(properties)))
    }

    fn header<'i>(
        &mut self,
        frame: &Frame<'i>,
        input: &mut &'i [u8],
    ) -> Result<Option<Incoming<'i>>, Error> {
        let channel = frame.channel;
        if self.channel_state(channel) == ChannelState::Closing {
            self.consume(input, frame);
            return Ok(None);
        }
        let (size, properties) = self.content_header(frame, input, 0)?;
        let max_body = self.max_body;
        let Some(join) = self.join_at(channel, Stage::Header) else {
            let what = format!("a content header on channel {channel} without its method");
            return Err(self.fault(reply::UNEXPECTED_FRAME, what, input, 0));
        };
        let id = join.id;
        join.properties.clear();
        join.properties.extend_from_slice(properties.as_bytes());
        join.size = size;
        join.drop = size > max_body;
        join.stage = if size == 0 {
            Stage::Method
        } else {
            Stage::Body
        };
        let incoming = if join.drop {
            Some(Incoming::TooLarge { channel, id, size })
        } else if size == 0 {
            Some(Incoming::Joined {
                channel,
                id,
                body: None,
            })
        } else {
            None
        };
        self.consume(input, frame);
        Ok(incoming)
    }

    fn body<'i>(
        &mut self,
        frame: &Frame<'i>,
        input: &mut &'i [u8],
    ) -> Result<Option<Incoming<'i>>, Error> {
        let channel = frame.channel;
        let part = frame.payload;
        if self.channel_state(channel) == ChannelState::Closing {
            self.consume(input, frame);
            return Ok(None);
        }
        let room = (2 * self.max_body).saturating_sub(self.held);
        let Some(join) = self.join_at(channel, Stage::Body) else {
            let what = format!("a content body on channel {channel} without its header");
            return Err(self.fault(reply::UNEXPECTED_FRAME, what, input, 0));
        };
        let id = join.id;
        // What is dropped is counted down in `size`, what is kept counts up in `body`.
        let missing = join.size - join.body.len() as u64;
        if part.len() as u64 > missing {
            let what = format!(
                "{} bytes of content body, {missing} are missing",
                part.len()
            );
            return Err(self.fault(reply::FRAME_ERROR, what, input, 0));
        }
        let complete = part.len() as u64 == missing;
        if complete {
            join.stage = Stage::Method;
        }
        let whole = complete && join.body.is_empty();
        if join.drop {
            join.size = missing - part.len() as u64;
        } else if !whole {
            if part.len() as u64 > room {
                let what = "too many bodies are under way at once".to_owned();
                return Err(self.fault(reply::RESOURCE_ERROR, what, input, 0));
            }
            join.body.extend_from_slice(part);
        }
        let (dropped, held) = (join.drop, join.body.len() as u64);
        self.consume(input, frame);
        if dropped {
            return Ok(None);
        }
        if whole {
            return Ok(Some(Incoming::Joined {
                channel,
                id,
                body: Some(part),
            }));
        }
        self.held += part.len() as u64;
        if !complete {
            return Ok(None);
        }
        self.held = self.held.saturating_sub(held);
        self.large = (held > KEEP as u64).then_some(channel);
        Ok(Some(Incoming::Joined {
            channel,
            id,
            body: None,
        }))
    }

    /// The join of an open channel, if it is at this stage.
    fn join_at(&mut self, channel: u16, stage: Stage) -> Option<&mut Join> {
        let join = self
            .channels
            .get_mut(usize::from(channel))?
            .join
            .as_deref_mut()?;
        (join.stage == stage).then_some(join)
    }

    /// Gives back the buffer of a large body that was handed out by the last call.
    #[inline]
    fn release_large(&mut self) {
        if let Some(channel) = self.large.take()
            && let Some(slot) = self.channels.get_mut(usize::from(channel))
            && let Some(join) = slot.join.as_deref_mut()
        {
            join.body = Vec::new();
        }
    }

    fn heartbeat<'i>(
        &mut self,
        frame: &Frame<'i>,
        input: &mut &'i [u8],
    ) -> Result<Incoming<'i>, Error> {
        if frame.channel != 0 {
            let what = format!("a heartbeat on channel {}", frame.channel);
            return Err(self.fault(reply::FRAME_ERROR, what, input, 0));
        }
        self.consume(input, frame);
        Ok(Incoming::Heartbeat)
    }
}
