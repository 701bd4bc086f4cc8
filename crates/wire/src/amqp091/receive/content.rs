//! Content headers and bodies: taken as they lie in the input where that is possible, joined per
//! channel where it is not.

use super::super::error::Error;
use super::super::frame::{CONTENT_HEAD, OVERHEAD};
use super::super::properties::Properties;
use super::super::spec::{CLASS_BASIC, FRAME_BODY, FRAME_HEADER, reply};
use super::{
    BodyAllowance, ChannelState, Frame, Incoming, Join, JoinedParts, KEEP, Receiver, Stage,
    give_back,
};

/// `basic.deliver`, the longest of them, has three names of at most 255 bytes.
const METHOD_ROOM: usize = 1_024;
/// Bytes of usual messages' properties; only a table makes them longer.
const PROPERTIES_ROOM: usize = 512;

/// Header and body that follow their method in the input.
pub(super) struct Whole<'i> {
    pub(super) properties: Properties<'i>,
    pub(super) body: &'i [u8],
    /// Bytes of all three.
    pub(super) len: usize,
}

impl Receiver {
    /// Event announced by [`Incoming::Joined`], with its `body`.
    pub(in super::super) fn joined<'a>(
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

    /// Header and body of a method, where they follow it in the input as a whole, and the length
    /// of all three.
    #[inline(always)]
    pub(super) fn whole_content<'i>(
        &self,
        channel: u16,
        input: &&'i [u8],
        header_at: usize,
    ) -> Result<Option<Whole<'i>>, Error> {
        let Some(header) = self.frame(input, header_at)? else {
            return Ok(None);
        };
        if header.kind != FRAME_HEADER || header.channel != channel {
            return Ok(None);
        }
        let (size, properties) = self.content_header(&header, input, header_at)?;
        let body_at = header_at + OVERHEAD + header.payload.len();
        if size == 0 {
            return Ok(Some(Whole {
                properties,
                body: &[],
                len: body_at,
            }));
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
        let len = body_at + OVERHEAD + body.payload.len();
        Ok(Some(Whole {
            properties,
            body: body.payload,
            len,
        }))
    }

    #[inline(always)]
    fn content_header<'i>(
        &self,
        frame: &Frame<'i>,
        input: &[u8],
        at: usize,
    ) -> Result<(u64, Properties<'i>), Error> {
        let Some((&[c0, c1, _, _, size @ ..], properties)) =
            frame.payload.split_first_chunk::<CONTENT_HEAD>()
        else {
            return Err(self.fault(
                reply::SYNTAX_ERROR,
                format_args!("a content header of {} bytes", frame.payload.len()),
                input,
                at,
            ));
        };
        let class = u16::from_be_bytes([c0, c1]);
        if class != CLASS_BASIC {
            return Err(self.fault(
                reply::FRAME_ERROR,
                format_args!("a content header of class {class} after a method of class 60"),
                input,
                at,
            ));
        }
        if properties.len() < 2 {
            return Err(self.fault(
                reply::SYNTAX_ERROR,
                format_args!("a content header without property flags"),
                input,
                at,
            ));
        }
        Ok((u64::from_be_bytes(size), Properties::from_bytes(properties)))
    }

    pub(super) fn header<'i>(
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
            return Err(self.fault(
                reply::UNEXPECTED_FRAME,
                format_args!("a content header on channel {channel} without its method"),
                input,
                0,
            ));
        };
        let id = join.id;
        join.properties.clear();
        join.properties.extend_from_slice(properties.as_bytes());
        join.size = size;
        let (stage, incoming) = if size > max_body {
            (
                Stage::Method,
                Some(Incoming::TooLarge { channel, id, size }),
            )
        } else if size == 0 {
            (
                Stage::Method,
                Some(Incoming::Joined {
                    channel,
                    id,
                    body: None,
                }),
            )
        } else {
            (Stage::Body, None)
        };
        join.stage = stage;
        self.consume(input, frame);
        Ok(incoming)
    }

    pub(super) fn body<'i>(
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
            return Err(self.fault(
                reply::UNEXPECTED_FRAME,
                format_args!("a content body on channel {channel} without its header"),
                input,
                0,
            ));
        };
        let id = join.id;
        let missing = join.size - join.body.len() as u64;
        if part.len() as u64 > missing {
            return Err(self.fault(
                reply::FRAME_ERROR,
                format_args!(
                    "{} bytes of content body, {missing} are missing",
                    part.len()
                ),
                input,
                0,
            ));
        }
        let complete = part.len() as u64 == missing;
        if complete {
            join.stage = Stage::Method;
        }
        if complete && join.body.is_empty() {
            self.consume(input, frame);
            return Ok(Some(Incoming::Joined {
                channel,
                id,
                body: Some(part),
            }));
        }
        if part.len() as u64 > room {
            return Err(self.fault(
                reply::RESOURCE_ERROR,
                format_args!("too many bodies are in progress at once"),
                input,
                0,
            ));
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
        Ok(Some(Incoming::Joined {
            channel,
            id,
            body: None,
        }))
    }

    /// Appends a part to a channel's body, where there is memory for it, and returns the length so far.
    fn append(&mut self, channel: u16, part: &[u8], input: &[u8]) -> Result<u64, Error> {
        let slot = self.channels.get_mut(usize::from(channel));
        let Some(join) = slot.and_then(|slot| slot.join.as_deref_mut()) else {
            return Ok(0);
        };
        let joined = (join.body.len() + part.len()) as u64;
        let more = joined.saturating_sub(join.counted);
        if let Some(allowance) = self.allowance.as_ref().filter(|_| more > 0) {
            if !allowance.take(more) {
                let (taken, limit) = (allowance.taken(), allowance.limit());
                return Err(self.fault(
                    reply::RESOURCE_ERROR,
                    format_args!(
                        "messages that are half there take {taken} bytes on all connections, and \
                         may take {limit}"
                    ),
                    input,
                    0,
                ));
            }
            join.counted = joined;
        }
        join.body.extend_from_slice(part);
        Ok(joined)
    }

    /// Makes room for a method with content and its properties on an open channel.
    pub(in super::super) fn reserve(&mut self, channel: u16) {
        if let Some(slot) = self.channels.get_mut(usize::from(channel)) {
            let join = slot.join.get_or_insert_default();
            join.fields.reserve(METHOD_ROOM);
            join.properties.reserve(PROPERTIES_ROOM);
        }
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

    /// Gives back the buffer of a large body, or of any where memory is tight, that was handed out by
    /// the last call.
    #[inline]
    pub(super) fn release_large(&mut self) {
        if let Some(channel) = self.large.take()
            && let Some(slot) = self.channels.get_mut(usize::from(channel))
            && let Some(join) = slot.join.as_deref_mut()
        {
            join.body = Vec::new();
            give_back(self.allowance.as_ref(), std::mem::take(&mut join.counted));
        }
    }
}
