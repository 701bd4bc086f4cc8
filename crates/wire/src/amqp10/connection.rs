//! A connection, seen from either side (specification 2.4, 5.3); what each does its own way is in its [`Amqp10Side`].
//! Call order: bytes that came in go to [`Amqp10Connection::poll`] until it returns `None`; then
//! [`Amqp10Connection::pending_output`] is written. When [`Amqp10Connection::next_timeout`] has passed,
//! [`Amqp10Connection::handle_timeout`]; when a client's transport ended, `end_of_input`.

mod liveness;
pub(super) mod session;

use measure::{Nanos, Time};

use self::liveness::Liveness;
use self::session::{LINK_CREDIT, Link, Partial, Session, ahead};
use super::MIN_FRAME_MAX;
use super::composite::*;
use super::event::{Amqp10Error, Amqp10Event, UsualEvent};
use super::frame::{self, FRAME_AMQP, FRAME_SASL, WholeFrame};
use super::message::MessageParts;
use super::types::{Symbol, TypedValue, put_map};
use super::usual::{self, TransferHead};
use crate::Secret;
use crate::amqp091::{
    self, DEFAULT_CHANNEL_MAX, DEFAULT_FRAME_MAX, DEFAULT_MAX_BODY, DEFAULT_TIMEOUT, EncodeError, Reader, Snippet,
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
        /// User, and a proof that the client knows the password.
        ScramSha256 = "SCRAM-SHA-256",
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
    /// For SCRAM: random for each connection, as [`super::scram_nonce`] makes it.
    pub nonce: String,
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
            nonce: String::new(),
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
pub enum Phase {
    /// The peer's header for the login.
    SaslHeader,
    /// A client waits for the mechanisms, a server for the choice of one.
    Mechanisms,
    Outcome,
    /// A server's embedder is to accept or refuse the login; nothing is read meanwhile.
    LoginPending,
    /// A server waits for the proof that a client knows its password.
    Proof,
    /// The peer's header for all that follows.
    Header,
    Opening,
    /// A server's embedder is to accept or refuse the virtual host; nothing is read meanwhile.
    OpenPending,
    Open,
    Closing,
    Closed,
}

/// A condition (section 2.8.14 and following) and an explanation of what a peer did wrong.
pub(super) type Violation = (&'static str, String);

const DECODE_ERROR: &str = "amqp:decode-error";
pub(super) const NOT_ALLOWED: &str = "amqp:not-allowed";
const FRAMING_ERROR: &str = "amqp:connection:framing-error";
const WINDOW_VIOLATION: &str = "amqp:session:window-violation";
/// Links keep buffers of about so many bytes together for messages in parts.
const KEPT: usize = 1 << 20;
/// Bytes of the longest id of a transaction (section 4.5.3); what is longer is cut.
const TRANSACTION_ID_MAX: usize = 32;
/// The id of a transaction that a transfer names in no readable form: no server gives it to any.
const NO_TRANSACTION: &[u8] = &[0];

const TOO_LARGE: &str = "amqp:link:message-size-exceeded";

/// Why a frame ends the connection.
pub enum Failure {
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
pub enum FrameStep<'i> {
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

/// A side of a connection: how it begins, and what the peer may begin on it.
pub trait Amqp10Side: Sized {
    /// Whether it is the server's, on which the peer begins sessions and links.
    const IS_SERVER: bool;

    /// Goes on after the header that is due; `false` where another has come.
    fn take_header(connection: &mut Amqp10Connection<Self>, header: &[u8; 8]) -> bool;

    /// Takes a performative of the handshake.
    fn handle_handshake<'i>(
        connection: &mut Amqp10Connection<Self>,
        now: Time,
        performative: &Performative<'i>,
    ) -> Result<FrameStep<'i>, Failure>;

    /// Takes the beginning of a session.
    fn take_begin<'i>(
        connection: &mut Amqp10Connection<Self>,
        channel: u16,
        begin: &Begin<'_>,
    ) -> Result<FrameStep<'i>, Violation>;

    /// Takes the beginning of a link on a session of ours.
    fn take_attach<'i>(
        connection: &mut Amqp10Connection<Self>,
        session: u16,
        attach: &Attach<'i>,
    ) -> Result<FrameStep<'i>, Violation>;

    /// Answer that a time-out was waiting for.
    fn awaited(phase: Phase) -> &'static str;
}

/// One connection's protocol: [`super::Amqp10Client`] or [`super::Amqp10Server`].
pub struct Amqp10Connection<S> {
    pub(super) side: S,
    pub(super) config: Amqp10Config,
    pub(super) phase: Phase,
    /// Bytes taken off the input.
    pub(super) offset: u64,
    /// The frame that is being looked at: its place in the stream, and its first bytes.
    frame: (u64, Snippet),
    pub(super) out: Vec<u8>,
    /// How much of `out` is written.
    written: usize,
    pub(super) liveness: Liveness,
    /// The peer's limits.
    pub(super) frame_max: u32,
    pub(super) channel_max: u16,
    /// By our channels.
    pub(super) sessions: Vec<Option<Session>>,
    /// By the peer's channels: ours.
    pub(super) channels: Vec<Option<u16>>,
    /// Bytes of messages that all links hold together.
    joined: u64,
    /// Bytes that wait for the windows of all sessions.
    pub(super) waiting: usize,
    /// The link whose message, which has come in parts, was told last.
    told: Option<(u16, u32)>,
}

/// Without the output, which may hold a password.
impl<S> std::fmt::Debug for Amqp10Connection<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Amqp10Connection")
            .field("phase", &self.phase)
            .field("offset", &self.offset)
            .finish_non_exhaustive()
    }
}

impl<S: Amqp10Side> Amqp10Connection<S> {
    /// A connection that waits for the peer's header; `out` is to be written first.
    pub(super) fn begun(side: S, config: Amqp10Config, out: &[u8], now: Time) -> Self {
        Self {
            side,
            phase: Phase::SaslHeader,
            offset: 0,
            frame: (0, Snippet::default()),
            out: out.to_vec(),
            written: 0,
            liveness: Liveness::new(config.timeout, config.heartbeat_s, now),
            frame_max: MIN_FRAME_MAX,
            channel_max: 0,
            sessions: Vec::new(),
            channels: Vec::new(),
            joined: 0,
            waiting: 0,
            told: None,
            config,
        }
    }

    /// Takes bytes off `input` and returns the next event, `None` when more bytes are needed or when a server's
    /// embedder has not answered a login or an opening yet.
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
                Phase::LoginPending | Phase::OpenPending => return Ok(None),
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
            if let Some(event) = self.usual(&frame) {
                return Ok(Some(event.into()));
            }
            let step = self.handle(now, &frame).map_err(|error| {
                self.frame.1 = Snippet::of(frame.body);
                self.fail(error)
            });
            match step? {
                FrameStep::Nothing => {}
                FrameStep::Event(event) => return Ok(Some(event)),
                FrameStep::Joined { session, handle, id, settled } => {
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
        let transaction = self.link(session, handle).map(|link| &*link.transaction).filter(|id| !id.is_empty());
        Ok(Amqp10Event::Delivery { session, handle, id, settled, transaction, message })
    }

    fn joined_bytes(&self, session: u16, handle: u32) -> &[u8] {
        self.link(session, handle).map_or(&[], |link| &link.joined)
    }

    pub(super) fn link(&self, session: u16, handle: u32) -> Option<&Link> {
        self.sessions.get(usize::from(session))?.as_ref()?.links.get(handle as usize)?.as_ref()
    }

    /// Frees a link's memory of a message that is not needed any more.
    fn drop_joined(&mut self, session: u16, handle: u32) {
        let sessions = self.sessions.len();
        let Some(Some(its)) = self.sessions.get_mut(usize::from(session)) else { return };
        let kept = KEPT / (sessions * its.links.len()).max(1);
        if let Some(link) = its.link(handle) {
            self.joined -= link.drop_joined(kept);
        }
    }

    /// Takes what nearly all input is off, with less work than [`Self::poll`]: a whole delivery, or an acceptance of
    /// some. `None`, and nothing is done, where something else comes next, which `poll` takes.
    #[inline(always)]
    pub fn poll_usual<'i>(&mut self, now: Time, input: &mut &'i [u8]) -> Option<UsualEvent<'i>> {
        if self.phase != Phase::Open || self.told.is_some() {
            return None;
        }
        self.liveness.hear(now, self.offset + input.len() as u64);
        let mut rest = *input;
        let frame = frame::take(&mut rest, self.config.frame_max as usize).ok()??;
        let event = self.usual(&frame)?;
        self.offset += frame.size as u64;
        *input = rest;
        Some(event)
    }

    /// `None`, and nothing is done, where anything about a frame is unusual. The event is made where it goes: handing
    /// it on costs more than reading it.
    #[inline(always)]
    fn usual<'i>(&mut self, frame: &WholeFrame<'i>) -> Option<UsualEvent<'i>> {
        if self.phase != Phase::Open || frame.kind != FRAME_AMQP {
            return None;
        }
        let number = self.channels.get(usize::from(frame.channel)).copied().flatten()?;
        let session = self.sessions.get_mut(usize::from(number))?.as_mut().filter(|it| !it.is_ending)?;
        if let Some((TransferHead { handle, id, settled }, message)) = TransferHead::read(frame.body) {
            let (before, body) = usual::data(message)?;
            let handle = session.handle_of(handle)?;
            session.take_whole(handle, id, S::IS_SERVER)?;
            return Some(UsualEvent::Delivery { session: number, handle, id, settled, message, before, body });
        }
        let (first, last) = usual::accepted(frame.body)?;
        if S::IS_SERVER && ahead(last.wrapping_add(1), session.next_delivery_id) > 0 {
            return None;
        }
        Some(UsualEvent::Accepted { session: number, first, last })
    }

    #[inline]
    fn handle<'i>(&mut self, now: Time, frame: &WholeFrame<'i>) -> Result<FrameStep<'i>, Failure> {
        let is_login = matches!(self.phase, Phase::Mechanisms | Phase::Outcome | Phase::Proof);
        match (frame.kind, is_login) {
            (FRAME_SASL, true) | (FRAME_AMQP, false) => {}
            (kind, _) => return Err((FRAMING_ERROR, format!("unexpected frame of type {kind}")).into()),
        }
        if frame.body.is_empty() {
            return Ok(FrameStep::Nothing);
        }
        let mut reader = Reader::new(frame.body);
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
                Ok(FrameStep::Event(match ours {
                    true if close.error.is_none() => Amqp10Event::CloseOk,
                    _ => Amqp10Event::Closed { error: close.error },
                }))
            }
            (Phase::Open, performative) => Ok(self.handle_open(frame.channel, &performative)?),
            (Phase::Closing, _) => Ok(FrameStep::Nothing),
            (_, performative) => S::handle_handshake(self, now, &performative),
        }
    }

    fn handle_open<'i>(&mut self, channel: u16, what: &Performative<'i>) -> Result<FrameStep<'i>, Violation> {
        if let Performative::Begin(begin) = what {
            return S::take_begin(self, channel, begin);
        }
        let number = self.session_of(channel)?;
        let is_ending = self.session(number)?.is_ending;
        match what {
            Performative::End(end) => {
                if !is_ending {
                    frame::put(self.out(), FRAME_AMQP, number, &End::default());
                }
                for handle in 0..self.session(number)?.links.len() {
                    self.drop_joined(number, handle as u32);
                }
                self.waiting -= self.session(number)?.waits();
                self.sessions[usize::from(number)] = None;
                for known in &mut self.channels {
                    known.take_if(|it| *it == number);
                }
                let error = end.error;
                Ok(FrameStep::Event(Amqp10Event::Ended { session: number, error }))
            }
            _ if is_ending => Ok(FrameStep::Nothing),
            Performative::Disposition(it) => self.take_disposition(number, it),
            Performative::Flow(flow) => self.take_flow(number, flow),
            Performative::Attach(attach) => S::take_attach(self, number, attach),
            Performative::Detach(detach) => self.take_detach(number, detach),
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
    pub(super) fn session(&mut self, number: u16) -> Result<&mut Session, Violation> {
        let session = self.sessions.get_mut(usize::from(number)).and_then(Option::as_mut);
        session.ok_or_else(|| (NOT_ALLOWED, format!("there is no session {number}")))
    }

    /// The peer says what has become of deliveries. It may settle second: what has an outcome is settled here first.
    #[inline]
    fn take_disposition<'i>(&mut self, number: u16, it: &Disposition<'i>) -> Result<FrameStep<'i>, Violation> {
        use DeliveryState::{Accepted, Modified, Received, Rejected, Released};
        let (first, last) = (it.first, it.last.unwrap_or(it.first));
        if !it.is_receiver {
            return Ok(FrameStep::Nothing);
        }
        if S::IS_SERVER && ahead(last.wrapping_add(1), self.session(number)?.next_delivery_id) > 0 {
            return Err((NOT_ALLOWED, format!("a disposition of delivery {last}, which was not sent")));
        }
        match it.state {
            None if it.settled != Some(true) => return Ok(FrameStep::Nothing),
            Some(Received(_)) if S::IS_SERVER && it.settled != Some(true) => return Ok(FrameStep::Nothing),
            Some(Accepted | Rejected(_) | Released | Modified(_)) if it.settled != Some(true) => {
                let settled = Disposition { first, last: it.last, settled: Some(true), ..Disposition::default() };
                frame::put(self.out(), FRAME_AMQP, number, &settled);
            }
            _ => {}
        }
        Ok(FrameStep::Event(Amqp10Event::Settled { session: number, first, last, state: it.state }))
    }

    fn take_detach<'i>(&mut self, number: u16, detach: &Detach<'i>) -> Result<FrameStep<'i>, Violation> {
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
        Ok(FrameStep::Event(Amqp10Event::Detached { session: number, handle, error }))
    }

    fn take_flow<'i>(&mut self, number: u16, flow: &Flow<'i>) -> Result<FrameStep<'i>, Violation> {
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
            link.is_draining = S::IS_SERVER && flow.drain == Some(true);
            if flow.drain == Some(true) && !S::IS_SERVER {
                // Nothing is held back that could use it up.
                link.delivery_count = link.delivery_count.wrapping_add(link.credit);
                link.credit = 0;
                answers = true;
            }
        }
        if S::IS_SERVER {
            self.release(number);
        }
        if answers {
            let answer = self.session(number)?.flow(handle);
            frame::put(self.out(), FRAME_AMQP, number, &answer);
        }
        let flow = *flow;
        Ok(FrameStep::Event(Amqp10Event::Flow { session: number, handle, uncounted, flow }))
    }

    /// Sends what waits for the window of a session.
    fn release(&mut self, number: u16) {
        self.out();
        if let Some(session) = self.sessions.get_mut(usize::from(number)).and_then(Option::as_mut) {
            self.waiting -= session.release(&mut self.out);
        }
    }

    #[inline]
    fn take_transfer<'i>(
        &mut self,
        channel: u16,
        transfer: &Transfer<'i>,
        payload: &'i [u8],
    ) -> Result<FrameStep<'i>, Violation> {
        let number = self.session_of(channel)?;
        let room = self.config.max_body.saturating_sub(self.joined);
        let session = self.session(number)?;
        if session.is_ending {
            return Ok(FrameStep::Nothing);
        }
        let Some(wants_window) = session.received() else {
            return Err((WINDOW_VIOLATION, "a transfer came on a session whose window is closed".to_owned()));
        };
        let unknown = || (NOT_ALLOWED, format!("unexpected transfer on link {}", transfer.handle));
        let handle = session.handle_of(transfer.handle).ok_or_else(unknown)?;
        if S::IS_SERVER && !session.admits(handle, transfer.delivery_id) {
            let what = format!("delivery {:?} came out of order, or without credit", transfer.delivery_id);
            return Err((NOT_ALLOWED, what));
        }
        let link = session.link(handle).filter(|link| link.is_receiver).ok_or_else(unknown)?;
        let before = link.joined.len() as u64;
        let step = link.take(number, handle, transfer, payload, room)?;
        let after = link.joined.len() as u64;
        let grants = S::IS_SERVER && link.credit <= LINK_CREDIT / 2 && !link.is_detaching;
        if grants {
            link.credit = LINK_CREDIT;
        }
        self.joined = self.joined - before + after;
        if wants_window || grants {
            let flow = self.session(number)?.flow(Some(handle).filter(|_| grants));
            frame::put(self.out(), FRAME_AMQP, number, &flow);
        }
        Ok(step)
    }

    /// Takes the header off that is due; `false` where it has not come whole.
    fn take_header(&mut self, input: &mut &[u8]) -> Result<bool, Amqp10Error> {
        let Some(came) = input.first_chunk::<8>() else { return Ok(false) };
        if !S::take_header(self, came) {
            let offset = self.offset;
            self.end();
            return Err(wrong_protocol(offset, input));
        }
        *input = &input[came.len()..];
        self.offset += came.len() as u64;
        Ok(true)
    }

    /// The peer's limits, which come with its opening.
    pub(super) fn take_open(&mut self, now: Time, open: &Open<'_>) {
        let frame_max = open.max_frame_size.unwrap_or(u32::MAX).max(MIN_FRAME_MAX);
        self.frame_max = frame_max.min(self.config.frame_max.max(MIN_FRAME_MAX));
        self.channel_max = open.channel_max.unwrap_or(u16::MAX).min(self.config.channel_max);
        self.liveness.beat(open.idle_time_out.unwrap_or(0), now);
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

    pub(super) fn end(&mut self) {
        self.phase = Phase::Closed;
        self.liveness.waiting_since = None;
    }

    /// The buffer to append output to.
    #[inline]
    pub(super) fn out(&mut self) -> &mut Vec<u8> {
        // Written bytes are dropped once they are the larger part, so that moving the rest costs less than writing
        // it did.
        if self.written > self.out.len() / 2 {
            self.out.drain(..self.written);
            self.written = 0;
        }
        &mut self.out
    }

    /// How many messages of `frames` frames each the peer takes on a link.
    #[inline]
    pub fn credit(&self, session: u16, handle: u32, frames: u32) -> u32 {
        let session = self.sessions.get(usize::from(session)).and_then(Option::as_ref);
        let link = session.and_then(|it| Some((it, it.links.get(handle as usize)?.as_ref()?)));
        link.map_or(0, |(session, link)| link.credit.min(session.remote_window / frames.max(1)))
    }

    /// Hot path: settles deliveries of a session from `first` to `last`. Does nothing on a connection that is not open.
    #[inline]
    pub fn settle(&mut self, session: u16, first: u32, last: u32, state: DeliveryState<'_>) {
        if self.phase != Phase::Open {
            return;
        }
        if matches!(state, DeliveryState::Accepted) {
            usual::put_accepted(self.out(), session, first, last);
            return;
        }
        self.put_disposition(session, first, last, true, state);
    }

    pub(super) fn put_disposition(
        &mut self,
        session: u16,
        first: u32,
        last: u32,
        settled: bool,
        state: DeliveryState<'_>,
    ) {
        let disposition = Disposition {
            is_receiver: true,
            first,
            last: Some(last).filter(|last| *last != first),
            settled: Some(settled),
            state: Some(state),
            batchable: None,
        };
        frame::put(self.out(), FRAME_AMQP, session, &disposition);
    }

    /// Starts the orderly close, for a reason or none; the peer's answer ends it. Does nothing on a connection that is
    /// not open.
    pub(super) fn begin_close(&mut self, now: Time, error: Option<Condition<'_>>) {
        if self.phase == Phase::Open {
            frame::put(self.out(), FRAME_AMQP, 0, &Close { error });
            self.phase = Phase::Closing;
            self.liveness.waiting_since = Some(now);
        }
    }

    pub(super) fn send<'a>(&mut self, channel: u16, performative: &impl Composite<'a>) -> Result<(), Amqp10Error> {
        if self.phase != Phase::Open {
            return Err(EncodeError::NotOpen.into());
        }
        frame::put(self.out(), FRAME_AMQP, channel, performative);
        Ok(())
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
        let due = self.liveness.check(now, S::awaited(self.phase)).inspect_err(|_| self.phase = Phase::Closed)?;
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
}

/// Error for first bytes of another protocol.
#[cold]
pub(super) fn wrong_protocol(offset: u64, input: &[u8]) -> Amqp10Error {
    let guess = match input {
        [b'A', b'M', b'Q', b'P', 0, 0, 9, 1, ..] => {
            "it speaks AMQP 0-9-1 only; RabbitMQ speaks AMQP 1.0 from 4.0 on, and before that with a plugin".to_owned()
        }
        _ => amqp091::guess(input),
    };
    let bytes = Snippet::of(input);
    Amqp10Error::WrongProtocol { guess, offset, bytes }
}

/// Appends `open` with the limits of a configuration, and with what this side can do besides.
pub(super) fn put_open(
    config: &Amqp10Config,
    product: &str,
    version: &str,
    offered_capabilities: TypedValue<'_>,
    out: &mut Vec<u8>,
) {
    let mut properties = Vec::new();
    put_map(&mut properties, |out| {
        let all = [("product", product), ("version", version), ("platform", "Rust")];
        for (name, value) in all {
            TypedValue::Symbol(Symbol(name)).write(out);
            TypedValue::Str(value).write(out);
        }
        2 * all.len() as u32
    });
    let open = Open {
        container_id: &config.container_id,
        hostname: Some(config.hostname.as_str()).filter(|it| !it.is_empty()),
        max_frame_size: Some(config.frame_max.max(MIN_FRAME_MAX)),
        channel_max: Some(config.channel_max),
        idle_time_out: Some(u32::from(config.heartbeat_s) * 1_000).filter(|it| *it > 0),
        offered_capabilities,
        properties: TypedValue::read(&mut Reader::new(&properties)).unwrap_or_default(),
        ..Open::default()
    };
    frame::put(out, FRAME_AMQP, 0, &open);
}

/// The id of the transaction that a transfer belongs to, which is not empty.
#[inline]
fn transaction_of<'i>(transfer: &Transfer<'i>) -> Option<&'i [u8]> {
    let Some(DeliveryState::Other(state)) = transfer.state else { return None };
    let id = TransactionalState::of(state).map(|it| it.txn_id).unwrap_or_default();
    Some(if id.is_empty() { NO_TRANSACTION } else { id })
}

impl Link {
    /// Forgets what it holds of a message, but for a buffer of `kept` bytes; tells how many bytes that was.
    fn drop_joined(&mut self, kept: usize) -> u64 {
        let len = self.joined.len() as u64;
        self.joined.clear();
        self.joined.shrink_to(kept);
        len
    }

    /// Takes a part of a delivery; `room` is what may be kept of parts.
    #[inline]
    fn take<'i>(
        &mut self,
        session: u16,
        handle: u32,
        transfer: &Transfer<'i>,
        payload: &'i [u8],
        room: u64,
    ) -> Result<FrameStep<'i>, Violation> {
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
            self.drop_joined(0);
            return Ok(FrameStep::Event(Amqp10Event::Aborted { session, handle, id }));
        }
        if is_first && !more {
            let message = MessageParts::read(payload).map_err(|e| (DECODE_ERROR, e.to_string()))?;
            let transaction = transaction_of(transfer);
            return Ok(FrameStep::Event(Amqp10Event::Delivery { session, handle, id, settled, transaction, message }));
        }
        if is_first {
            self.transaction.clear();
        }
        if let Some(id) = transaction_of(transfer).filter(|_| self.transaction.is_empty()) {
            self.transaction.extend_from_slice(id.get(..TRANSACTION_ID_MAX).unwrap_or(id));
        }
        let len = payload.len() as u64;
        if len > room {
            let held = self.joined.len();
            let what =
                format!("{len} bytes of a message after {held} others exceed the {room} left for messages in parts");
            return Err((TOO_LARGE, what));
        }
        self.joined.extend_from_slice(payload);
        Ok(if more { FrameStep::Nothing } else { FrameStep::Joined { session, handle, id, settled } })
    }
}
