//! The client's side of a connection (specification 2.4, 5.3). Call order: bytes that came in go to
//! [`Amqp10Client::poll`] until it returns `None`; then [`Amqp10Client::pending_output`] is written. When
//! [`Amqp10Client::next_timeout`] has passed, [`Amqp10Client::handle_timeout`]; when the transport ended,
//! [`Amqp10Client::end_of_input`].

mod handshake;
mod session;

use measure::{Nanos, Time};

use self::handshake::Liveness;
use self::session::{HANDLE_MAX, Link, Partial, Session, ahead};
use super::SASL_HEADER;
use super::composite::*;
use super::event::{Amqp10Error, Amqp10Event};
use super::frame::{self, FRAME_AMQP, FRAME_SASL, WholeFrame};
use super::message::{MessageParts, put_value};
use super::template::TransferTemplate;
use super::types::{Symbol, TypedValue};
use crate::Secret;
use crate::amqp091::{
    DEFAULT_CHANNEL_MAX, DEFAULT_FRAME_MAX, DEFAULT_MAX_BODY, DEFAULT_TIMEOUT, EncodeError, Reader, Snippet,
};

measure::named! {
    /// How to log in, by its name on the wire.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum SaslMechanism {
        /// User and password.
        #[default]
        Plain = "PLAIN",
        /// Whatever the transport proves, as with client certificates.
        External = "EXTERNAL",
        /// As nobody.
        Anonymous = "ANONYMOUS",
    }
}

/// Configuration of a client. `Default` is guest, with the limits of [`crate::amqp091::ClientConfig`].
#[derive(Clone, Debug)]
pub struct Amqp10Config {
    /// User name.
    pub user: String,
    /// Password of the user.
    pub password: Secret,
    /// Login mechanism.
    pub mechanism: SaslMechanism,
    /// The host that is meant; RabbitMQ takes `vhost:NAME` for a virtual host.
    pub hostname: String,
    /// Client's name in the broker's list of connections.
    pub container_id: String,
    /// The peer is to say something each time so many seconds have passed; 0 for never.
    pub heartbeat_s: u16,
    /// Largest frame in bytes, at least [`super::MIN_FRAME_MAX`].
    pub frame_max: u32,
    /// Highest session.
    pub channel_max: u16,
    /// The most that is joined of messages in several frames, in bytes, of all links together.
    pub max_body: u64,
    /// How long the handshake may take, and the orderly close.
    pub timeout: Nanos,
}

impl Default for Amqp10Config {
    fn default() -> Self {
        Self {
            user: "guest".to_owned(),
            password: Secret::from("guest"),
            mechanism: SaslMechanism::Plain,
            hostname: String::new(),
            container_id: "bellows".to_owned(),
            heartbeat_s: 60,
            frame_max: DEFAULT_FRAME_MAX,
            channel_max: DEFAULT_CHANNEL_MAX,
            max_body: DEFAULT_MAX_BODY,
            timeout: DEFAULT_TIMEOUT,
        }
    }
}

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The peer's header for the login.
    SaslHeader,
    Mechanisms,
    Outcome,
    /// The peer's header for all that follows.
    Header,
    Opening,
    Open,
    Closing,
    Closed,
}

/// A condition (section 2.8.14 and following) and an explanation of what a peer did wrong.
type Violation = (&'static str, String);

/// How nearly all transfers begin. Taking them apart from all else saves a copy of the largest performative.
const TRANSFER: [u8; 3] = [0, 0x53, 0x14];

const DECODE_ERROR: &str = "amqp:decode-error";
const NOT_ALLOWED: &str = "amqp:not-allowed";
const FRAMING_ERROR: &str = "amqp:connection:framing-error";
const WINDOW_VIOLATION: &str = "amqp:session:window-violation";
/// A link keeps a buffer of so many bytes for messages in parts.
const KEPT: usize = 1 << 20;

const TOO_LARGE: &str = "amqp:link:message-size-exceeded";

/// Why a frame ends the connection.
enum Failure {
    /// The peer is told.
    Violation(Violation),
    /// The login came to nothing.
    LogIn(Amqp10Error),
}

impl From<Violation> for Failure {
    fn from(violation: Violation) -> Self {
        Self::Violation(violation)
    }
}

/// Next step after a look at a frame.
enum Step<'i> {
    Nothing,
    Event(Amqp10Event<'i>),
    /// The last part of a delivery has come on this link, whose others it keeps.
    Joined {
        session: u16,
        handle: u32,
        id: u32,
        settled: bool,
    },
}

/// One connection, seen from the client.
pub struct Amqp10Client {
    config: Amqp10Config,
    phase: Phase,
    /// Bytes taken off the input.
    offset: u64,
    /// The frame that is being looked at: its place in the stream, and its first bytes.
    frame: (u64, Snippet),
    out: Vec<u8>,
    /// How much of `out` is written.
    written: usize,
    liveness: Liveness,
    /// The peer's limits.
    frame_max: u32,
    channel_max: u16,
    /// By our channels.
    sessions: Vec<Option<Session>>,
    /// By the peer's channels: ours.
    channels: Vec<Option<u16>>,
    /// Bytes of messages that all links hold together.
    joined: u64,
    /// The link whose message, which has come in parts, was told last.
    told: Option<(u16, u32)>,
}

/// Without the output, which may hold a password.
impl std::fmt::Debug for Amqp10Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Amqp10Client").field("phase", &self.phase).field("offset", &self.offset).finish_non_exhaustive()
    }
}

impl Amqp10Client {
    /// Queues the header of the login as the first output.
    pub fn new(config: Amqp10Config, now: Time) -> Self {
        Self {
            phase: Phase::SaslHeader,
            offset: 0,
            frame: (0, Snippet::default()),
            out: SASL_HEADER.to_vec(),
            written: 0,
            liveness: Liveness::new(config.timeout, config.heartbeat_s, now),
            frame_max: super::MIN_FRAME_MAX,
            channel_max: 0,
            sessions: Vec::new(),
            channels: Vec::new(),
            joined: 0,
            told: None,
            config,
        }
    }

    /// Takes bytes off `input` and returns the next event, `None` when more bytes are needed.
    ///
    /// What is not consumed stays in `input`; hand it in again, followed by what comes next. A buffer that holds one
    /// frame is always enough. Errors: a peer that breaks the protocol, or does not let the client in. Nothing can be
    /// read afterwards; send the pending output, which tells the peer why, then close.
    #[inline]
    pub fn poll<'a, 'i: 'a>(
        &'a mut self,
        now: Time,
        input: &mut &'i [u8],
    ) -> Result<Option<Amqp10Event<'a>>, Amqp10Error> {
        self.liveness.hear(now, self.offset + input.len() as u64);
        if let Some((session, handle)) = self.told.take() {
            self.drop_joined(session, handle);
        }
        loop {
            match self.phase {
                Phase::Closed => {
                    self.offset += input.len() as u64;
                    *input = &[];
                    return Ok(None);
                }
                Phase::SaslHeader | Phase::Header => {
                    if !self.take_header(input)? {
                        return Ok(None);
                    }
                    continue;
                }
                _ => {}
            }
            self.frame.0 = self.offset;
            let frame = match frame::take(input, self.config.frame_max as usize) {
                Ok(Some(frame)) => frame,
                Ok(None) => return Ok(None),
                Err(error) => {
                    self.frame.1 = Snippet::of(input);
                    return Err(self.fail((FRAMING_ERROR, error.what.to_owned()).into()));
                }
            };
            self.offset += frame.size as u64;
            let step = self.handle(now, &frame).map_err(|error| {
                self.frame.1 = Snippet::of(frame.body);
                self.fail(error)
            });
            match step? {
                Step::Nothing => {}
                Step::Event(event) => return Ok(Some(event)),
                Step::Joined { session, handle, id, settled } => {
                    return self.joined(session, handle, id, settled).map(Some);
                }
            }
        }
    }

    fn joined(&mut self, session: u16, handle: u32, id: u32, settled: bool) -> Result<Amqp10Event<'_>, Amqp10Error> {
        // Looked at twice, because telling the peer of an error needs the connection that the event borrows.
        // Only messages that came in parts pay for it.
        if let Err(error) = MessageParts::read(self.joined_bytes(session, handle)) {
            return Err(self.fail((DECODE_ERROR, error.to_string()).into()));
        }
        self.told = Some((session, handle));
        let message = MessageParts::read(self.joined_bytes(session, handle))
            .map_err(|error| self.error((DECODE_ERROR, error.to_string())))?;
        Ok(Amqp10Event::Delivery { session, handle, id, settled, message })
    }

    fn joined_bytes(&self, session: u16, handle: u32) -> &[u8] {
        self.link(session, handle).map_or(&[], |link| &link.joined)
    }

    fn link(&self, session: u16, handle: u32) -> Option<&Link> {
        self.sessions.get(usize::from(session))?.as_ref()?.links.get(handle as usize)?.as_ref()
    }

    /// Frees a link's memory of a message that is not needed any more.
    fn drop_joined(&mut self, session: u16, handle: u32) {
        let its = self.sessions.get_mut(usize::from(session));
        if let Some(link) = its.and_then(|it| it.as_mut()?.link(handle)) {
            self.joined -= link.drop_joined();
        }
    }

    #[inline]
    fn handle<'i>(&mut self, now: Time, frame: &WholeFrame<'i>) -> Result<Step<'i>, Failure> {
        let is_login = matches!(self.phase, Phase::Mechanisms | Phase::Outcome);
        match (frame.kind, is_login) {
            (FRAME_SASL, true) | (FRAME_AMQP, false) => {}
            (kind, _) => return Err((FRAMING_ERROR, format!("unexpected frame of type {kind}")).into()),
        }
        if frame.body.is_empty() {
            return Ok(Step::Nothing);
        }
        let mut reader = Reader::new(frame.body);
        if self.phase == Phase::Open && frame.body.starts_with(&TRANSFER) {
            let transfer = Transfer::read(&mut reader).map_err(|e| (DECODE_ERROR, e.to_string()))?;
            return Ok(self.take_transfer(frame.channel, &transfer, reader.rest())?);
        }
        let performative = Performative::read(&mut reader).map_err(|e| (DECODE_ERROR, e.to_string()))?;
        match (self.phase, performative) {
            (Phase::Open, Performative::Transfer(transfer)) => {
                Ok(self.take_transfer(frame.channel, &transfer, reader.rest())?)
            }
            (_, Performative::Close(close)) => {
                let ours = self.phase == Phase::Closing;
                if !ours {
                    frame::put(self.out(), FRAME_AMQP, 0, &Close::default());
                }
                self.end();
                Ok(Step::Event(match ours {
                    true if close.error.is_none() => Amqp10Event::CloseOk,
                    _ => Amqp10Event::Closed { error: close.error },
                }))
            }
            (Phase::Open, performative) => Ok(self.handle_open(frame.channel, &performative)?),
            (Phase::Closing, _) => Ok(Step::Nothing),
            (_, performative) => self.handle_handshake(now, &performative),
        }
    }

    fn handle_open<'i>(&mut self, channel: u16, what: &Performative<'i>) -> Result<Step<'i>, Violation> {
        if let Performative::Begin(begin) = what {
            return self.take_begin(channel, begin);
        }
        let number = self.session_of(channel)?;
        match what {
            Performative::Disposition(it) if !it.is_receiver => Ok(Step::Nothing),
            Performative::Disposition(it) => Ok(self.take_disposition(number, it)),
            Performative::Flow(flow) => self.take_flow(number, flow),
            Performative::Attach(attach) => self.take_attach(number, attach),
            Performative::Detach(detach) => self.take_detach(number, detach),
            Performative::End(end) => {
                frame::put(self.out(), FRAME_AMQP, number, &End::default());
                for handle in 0..self.session(number)?.links.len() {
                    self.drop_joined(number, handle as u32);
                }
                self.sessions[usize::from(number)] = None;
                for known in &mut self.channels {
                    known.take_if(|it| *it == number);
                }
                let error = end.error;
                Ok(Step::Event(Amqp10Event::Ended { session: number, error }))
            }
            other => Err((NOT_ALLOWED, format!("unexpected {}", other.name()))),
        }
    }

    /// Our number of the session that a frame of the peer belongs to.
    #[inline]
    fn session_of(&self, channel: u16) -> Result<u16, Violation> {
        let known = self.channels.get(usize::from(channel)).copied().flatten();
        known.ok_or_else(|| (NOT_ALLOWED, format!("a frame came on channel {channel}, where no session is")))
    }

    #[inline]
    fn session(&mut self, number: u16) -> Result<&mut Session, Violation> {
        let session = self.sessions.get_mut(usize::from(number)).and_then(Option::as_mut);
        session.ok_or_else(|| (NOT_ALLOWED, format!("there is no session {number}")))
    }

    fn take_begin<'i>(&mut self, channel: u16, begin: &Begin<'_>) -> Result<Step<'i>, Violation> {
        let unasked = || (NOT_ALLOWED, format!("an unrequested session began on channel {channel}"));
        let at = usize::from(channel);
        let number = begin.remote_channel.ok_or_else(unasked)?;
        let is_free = self.channels.get(at).is_none_or(Option::is_none);
        let channel_max = self.config.channel_max;
        let session = self.session(number).map_err(|_| unasked())?;
        if session.is_open || !is_free || channel > channel_max {
            return Err(unasked());
        }
        session.begun(begin);
        if self.channels.len() <= at {
            self.channels.resize(at + 1, None);
        }
        self.channels[at] = Some(number);
        Ok(Step::Event(Amqp10Event::Begun { session: number, incoming_window: begin.incoming_window }))
    }

    fn take_attach<'i>(&mut self, number: u16, attach: &Attach<'i>) -> Result<Step<'i>, Violation> {
        let session = self.session(number)?;
        let Some(handle) = session.learn(attach.handle, attach.name, !attach.is_receiver) else {
            return Err((NOT_ALLOWED, format!("an unrequested link {:?} was attached", attach.name)));
        };
        let Some(link) = session.link(handle) else { return Ok(Step::Nothing) };
        link.is_attached = true;
        if link.is_receiver {
            link.delivery_count = attach.initial_delivery_count.unwrap_or(0);
        }
        let exists = if link.is_receiver { attach.source.is_some() } else { attach.target != TypedValue::Null };
        Ok(Step::Event(Amqp10Event::Attached {
            session: number,
            handle,
            exists,
            address: match attach.source.map(|it| it.address) {
                Some(TypedValue::Str(address)) => Some(address),
                _ => None,
            },
            max_message_size: attach.max_message_size.unwrap_or(0),
        }))
    }

    fn take_detach<'i>(&mut self, number: u16, detach: &Detach<'i>) -> Result<Step<'i>, Violation> {
        let session = self.session(number)?;
        let handle = session.handle_of(detach.handle);
        let handle = handle.ok_or_else(|| (NOT_ALLOWED, format!("there is no link {}", detach.handle)))?;
        let ours = session.link(handle).is_some_and(|link| link.is_detaching);
        self.drop_joined(number, handle);
        self.session(number)?.forget(handle);
        if !ours {
            let answer = Detach { handle, closed: detach.closed, error: None };
            frame::put(self.out(), FRAME_AMQP, number, &answer);
        }
        let error = detach.error;
        Ok(Step::Event(Amqp10Event::Detached { session: number, handle, error }))
    }

    /// Takes an answer to deliveries of this side. A peer may settle second: what has an outcome is settled here first.
    #[inline]
    fn take_disposition<'i>(&mut self, session: u16, it: &Disposition<'i>) -> Step<'i> {
        use DeliveryState::{Accepted, Modified, Rejected, Released};
        let (first, last, is_settled) = (it.first, it.last, it.settled == Some(true));
        match it.state {
            None if !is_settled => return Step::Nothing,
            Some(Accepted | Rejected(_) | Released | Modified(_)) if !is_settled => {
                let settled = Disposition { first, last, settled: Some(true), ..Disposition::default() };
                frame::put(self.out(), FRAME_AMQP, session, &settled);
            }
            _ => {}
        }
        Step::Event(Amqp10Event::Settled { session, first, last: last.unwrap_or(first), state: it.state })
    }

    fn take_flow<'i>(&mut self, number: u16, flow: &Flow<'i>) -> Result<Step<'i>, Violation> {
        let session = self.session(number)?;
        session.take_flow(flow);
        let handle = flow.handle.and_then(|remote| session.handle_of(remote));
        let mut answers = flow.echo == Some(true);
        let mut uncounted = 0;
        if let Some(link) = handle.and_then(|handle| session.link(handle))
            && !link.is_receiver
        {
            uncounted = ahead(link.delivery_count, flow.delivery_count.unwrap_or(0));
            link.credit = flow.link_credit.unwrap_or(0).saturating_sub(uncounted);
            if flow.drain == Some(true) {
                // Nothing is held back that could use it up.
                link.delivery_count = link.delivery_count.wrapping_add(link.credit);
                link.credit = 0;
                answers = true;
            }
        }
        if answers {
            let answer = session.flow(handle);
            frame::put(self.out(), FRAME_AMQP, number, &answer);
        }
        let flow = *flow;
        Ok(Step::Event(Amqp10Event::Flow { session: number, handle, uncounted, flow }))
    }

    #[inline]
    fn take_transfer<'i>(
        &mut self,
        channel: u16,
        transfer: &Transfer<'i>,
        payload: &'i [u8],
    ) -> Result<Step<'i>, Violation> {
        let number = self.session_of(channel)?;
        let room = self.config.max_body.saturating_sub(self.joined);
        let session = self.session(number)?;
        let Some(wants_window) = session.received() else {
            return Err((WINDOW_VIOLATION, "a transfer came on a session whose window is closed".to_owned()));
        };
        let unknown = || (NOT_ALLOWED, format!("unexpected transfer on link {}", transfer.handle));
        let handle = session.handle_of(transfer.handle).ok_or_else(unknown)?;
        let link = session.link(handle).filter(|link| link.is_receiver).ok_or_else(unknown)?;
        let before = link.joined.len() as u64;
        let step = link.take(number, handle, transfer, payload, room)?;
        let after = link.joined.len() as u64;
        self.joined = self.joined - before + after;
        if wants_window {
            let flow = self.session(number)?.flow(None);
            frame::put(self.out(), FRAME_AMQP, number, &flow);
        }
        Ok(step)
    }

    /// Tells the peer why the connection cannot go on.
    #[cold]
    fn fail(&mut self, failure: Failure) -> Amqp10Error {
        let was_open = matches!(self.phase, Phase::Opening | Phase::Open);
        self.end();
        match failure {
            Failure::LogIn(error) => error,
            Failure::Violation((condition, what)) => {
                if was_open {
                    let error =
                        Condition { condition: Symbol(condition), description: Some(&what), info: TypedValue::Null };
                    frame::put(self.out(), FRAME_AMQP, 0, &Close { error: Some(error) });
                }
                self.error((condition, what))
            }
        }
    }

    fn error(&self, violation: Violation) -> Amqp10Error {
        let (condition, what) = violation;
        let (offset, bytes) = self.frame;
        Amqp10Error::Protocol { condition, what, offset, bytes }
    }

    fn end(&mut self) {
        self.phase = Phase::Closed;
        self.liveness.waiting_since = None;
    }

    /// The buffer to append output to.
    #[inline]
    fn out(&mut self) -> &mut Vec<u8> {
        // Written bytes are dropped once they are the larger part, so that moving the rest costs less than writing
        // it did.
        if self.written > self.out.len() / 2 {
            self.out.drain(..self.written);
            self.written = 0;
        }
        &mut self.out
    }

    /// Begins a session on a channel that is not in use.
    /// Errors: a connection that is not open, a channel that the peer does not allow.
    pub fn begin(&mut self, session: u16) -> Result<(), Amqp10Error> {
        let at = usize::from(session);
        if session > self.channel_max || self.sessions.get(at).is_some_and(Option::is_some) {
            return Err(EncodeError::NotOpen.into());
        }
        self.send(session, &Session::begin())?;
        if self.sessions.len() <= at {
            self.sessions.resize_with(at + 1, || None);
        }
        self.sessions[at] = Some(Session::new());
        Ok(())
    }

    /// Attaches a link under the handle that it names, which is not in use and at most 255. Its name is unique.
    /// Errors: a connection that is not open, no such session, a handle that cannot be had.
    pub fn attach(&mut self, session: u16, attach: &Attach<'_>) -> Result<(), Amqp10Error> {
        let at = attach.handle as usize;
        let its = self.session(session).map_err(|_| EncodeError::NotOpen)?;
        if attach.handle > HANDLE_MAX || its.links.get(at).is_some_and(Option::is_some) {
            return Err(EncodeError::NotOpen.into());
        }
        if its.links.len() <= at {
            its.links.resize_with(at + 1, || None);
        }
        its.links[at] = Some(Link::new(attach.name, attach.is_receiver));
        self.send(session, attach)
    }

    /// Detaches a link for good; [`Amqp10Event::Detached`] answers. Errors: a connection that is not open.
    pub fn detach(&mut self, session: u16, handle: u32) -> Result<(), Amqp10Error> {
        if let Ok(its) = self.session(session)
            && let Some(link) = its.link(handle)
        {
            link.is_detaching = true;
        }
        self.send(session, &Detach { handle, closed: Some(true), error: None })
    }

    /// How many messages of `frames` frames each the peer takes on a link.
    #[inline]
    pub fn credit(&self, session: u16, handle: u32, frames: u32) -> u32 {
        let session = self.sessions.get(usize::from(session)).and_then(Option::as_ref);
        let link = session.and_then(|it| Some((it, it.links.get(handle as usize)?.as_ref()?)));
        link.map_or(0, |(session, link)| link.credit.min(session.remote_window / frames.max(1)))
    }

    /// Hot path: queues a message; `fill` writes into the part of its body that the first frame holds, which is the
    /// front of `body` until then. Does nothing on a connection that is not open. [`Self::credit`] tells whether
    /// the peer takes it.
    #[inline]
    pub fn publish(&mut self, template: &TransferTemplate, body: &[u8], fill: impl FnOnce(&mut [u8])) {
        self.out();
        let session = self.sessions.get_mut(usize::from(template.session()));
        if self.phase == Phase::Open
            && let Some(session) = session.and_then(Option::as_mut)
        {
            let frames = template.put(&mut self.out, session.next_delivery_id, body, fill);
            session.sent_message(template.handle(), frames);
        }
    }

    /// Sends a message whose body is one value, such as a request to a coordinator of transactions; its number, by
    /// which it is settled. `None` on a connection that is not open, and where the peer takes no message now.
    pub fn send_value<'a>(&mut self, session: u16, handle: u32, value: &impl Composite<'a>) -> Option<u32> {
        if self.phase != Phase::Open || self.credit(session, handle, 1) == 0 {
            return None;
        }
        self.out();
        let its = self.sessions.get_mut(usize::from(session))?.as_mut()?;
        let id = its.next_delivery_id;
        let tag = id.to_be_bytes();
        let transfer = Transfer {
            handle,
            delivery_id: Some(id),
            delivery_tag: Some(&tag),
            message_format: Some(0),
            settled: Some(false),
            ..Transfer::default()
        };
        let start = self.out.len();
        frame::put(&mut self.out, FRAME_AMQP, session, &transfer);
        put_value(&mut self.out, value);
        frame::close(&mut self.out, start);
        its.sent_message(handle, 1);
        Some(id)
    }

    /// Hot path: settles deliveries of a session from `first` to `last`. Does nothing on a connection that is not open.
    #[inline]
    pub fn settle(&mut self, session: u16, first: u32, last: u32, state: DeliveryState<'_>) {
        if self.phase == Phase::Open {
            let disposition = Disposition {
                is_receiver: true,
                first,
                last: Some(last).filter(|last| *last != first),
                settled: Some(true),
                state: Some(state),
                batchable: None,
            };
            frame::put(self.out(), FRAME_AMQP, session, &disposition);
        }
    }

    /// Lets a receiver have so many messages more. With `echo` the peer answers by [`Amqp10Event::Flow`], after
    /// what it has sent before. Does nothing on a connection that is not open.
    #[inline]
    pub fn flow(&mut self, session: u16, handle: u32, more: u32, echo: bool) {
        let is_open = self.phase == Phase::Open;
        let Ok(its) = self.session(session) else { return };
        if let Some(link) = its.link(handle).filter(|link| link.is_receiver) {
            link.credit = link.credit.saturating_add(more);
        }
        let mut flow = its.flow(Some(handle));
        flow.echo = Some(true).filter(|_| echo);
        if its.link(handle).is_some_and(|link| !link.is_receiver) {
            flow.available = Some(0);
        }
        if is_open {
            frame::put(self.out(), FRAME_AMQP, session, &flow);
        }
    }

    /// Messages that a link has sent or received, by its own counter.
    pub fn delivery_count(&self, session: u16, handle: u32) -> u32 {
        self.link(session, handle).map_or(0, |link| link.delivery_count)
    }

    /// Starts the orderly close; [`Amqp10Event::CloseOk`] ends it. Before the handshake is complete, or after an
    /// error, there is nothing to close and nothing is sent.
    pub fn close(&mut self, now: Time) {
        if self.phase == Phase::Open {
            frame::put(self.out(), FRAME_AMQP, 0, &Close::default());
            self.phase = Phase::Closing;
            self.liveness.waiting_since = Some(now);
        }
    }

    fn send<'a>(&mut self, channel: u16, performative: &impl Composite<'a>) -> Result<(), Amqp10Error> {
        if self.phase != Phase::Open {
            return Err(EncodeError::NotOpen.into());
        }
        frame::put(self.out(), FRAME_AMQP, channel, performative);
        Ok(())
    }

    /// Makes room now for `output` bytes to write. Without it the buffer grows when that is first needed.
    pub fn reserve(&mut self, output: usize) {
        self.out().reserve(output);
    }

    /// Bytes to write to the transport.
    #[inline]
    pub fn pending_output(&self) -> &[u8] {
        self.out.get(self.written..).unwrap_or_default()
    }

    /// The first `n` bytes of the output are written.
    #[inline]
    pub fn consume_output(&mut self, n: usize) {
        self.written = (self.written + n).min(self.out.len());
        self.liveness.written |= n > 0;
        if self.written == self.out.len() {
            self.out.clear();
            self.written = 0;
        }
    }

    /// When to call [`Self::handle_timeout`] at the latest.
    pub fn next_timeout(&self) -> Option<Time> {
        (self.phase != Phase::Closed).then(|| self.liveness.next_timeout()).flatten()
    }

    /// Sends a heartbeat that is due, notices missing ones, and a handshake or close that hangs.
    /// Errors: [`Amqp10Error::Silent`] and [`Amqp10Error::TimedOut`]; the connection is of no more use.
    pub fn handle_timeout(&mut self, now: Time) -> Result<(), Amqp10Error> {
        if self.phase == Phase::Closed {
            return Ok(());
        }
        let due = self.liveness.check(now, self.awaited()).inspect_err(|_| self.phase = Phase::Closed)?;
        // Pending output says as much as a heartbeat, and must not grow behind a stuck peer.
        if due && self.pending_output().is_empty() && self.phase == Phase::Open {
            frame::put_heartbeat(self.out());
        }
        Ok(())
    }

    /// Forgives the peer's silence until `now`: for an embedder that did not read.
    pub const fn excuse_silence(&mut self, now: Time) {
        self.liveness.heard_at = now;
    }

    /// Bytes that must be there before [`Self::poll`] can take anything off `input`, which it has left: the length
    /// of its first frame, 0 where that is not known.
    #[inline]
    pub fn needs(&self, input: &[u8]) -> usize {
        match self.phase {
            Phase::SaslHeader | Phase::Header => 0,
            _ => frame::size(input),
        }
    }

    /// The largest frame that the peer takes, in bytes, once the connection is open.
    pub const fn frame_max(&self) -> u32 {
        self.frame_max
    }

    /// The highest session, once the connection is open.
    pub const fn channel_max(&self) -> u16 {
        self.channel_max
    }

    /// The transport reached its end; `rest` is the unconsumed input. Says what that means.
    pub fn end_of_input(&self, rest: &[u8]) -> Amqp10Error {
        if self.phase == Phase::SaslHeader && !rest.is_empty() {
            return handshake::wrong_protocol(0, rest);
        }
        let during = match self.phase {
            Phase::SaslHeader | Phase::Mechanisms => "before the login",
            Phase::Outcome => "during the login, as brokers do to refuse it",
            Phase::Header | Phase::Opening => "while the connection was being opened",
            Phase::Open => "while it was in use",
            Phase::Closing | Phase::Closed => "before it agreed to close it",
        };
        Amqp10Error::Disconnected { during, received: self.offset + rest.len() as u64, bytes: Snippet::of(rest) }
    }
}

impl Link {
    /// Forgets what it holds of a message, but for a buffer of usual size; tells how many bytes that was.
    fn drop_joined(&mut self) -> u64 {
        let len = self.joined.len() as u64;
        self.joined.clear();
        self.joined.shrink_to(KEPT);
        len
    }

    /// Takes a part of a delivery; `room` is what may be kept of parts.
    #[inline]
    fn take<'i>(
        &mut self,
        session: u16,
        handle: u32,
        transfer: &Transfer<'_>,
        payload: &'i [u8],
        room: u64,
    ) -> Result<Step<'i>, Violation> {
        let Partial { id, mut settled } = match (self.partial, transfer.delivery_id) {
            (Some(partial), None) => partial,
            (Some(partial), Some(id)) if id == partial.id => partial,
            (None, Some(id)) => Partial { id, settled: false },
            (_, id) => return Err((NOT_ALLOWED, format!("a transfer has the delivery id {id:?}, out of order"))),
        };
        settled |= transfer.settled == Some(true);
        let is_first = self.partial.is_none();
        let more = transfer.more == Some(true) && transfer.aborted != Some(true);
        self.partial = more.then_some(Partial { id, settled });
        if !more {
            self.delivery_count = self.delivery_count.wrapping_add(1);
            self.credit = self.credit.saturating_sub(1);
        }
        if transfer.aborted == Some(true) {
            self.drop_joined();
            return Ok(Step::Event(Amqp10Event::Aborted { session, handle, id }));
        }
        if is_first && !more {
            let message = MessageParts::read(payload).map_err(|e| (DECODE_ERROR, e.to_string()))?;
            return Ok(Step::Event(Amqp10Event::Delivery { session, handle, id, settled, message }));
        }
        let len = payload.len() as u64;
        if len > room {
            let held = self.joined.len();
            let what =
                format!("{len} bytes of a message after {held} others exceed the {room} left for messages in parts");
            return Err((TOO_LARGE, what));
        }
        self.joined.extend_from_slice(payload);
        Ok(if more { Step::Nothing } else { Step::Joined { session, handle, id, settled } })
    }
}
