//! A connection, seen from either side; what each does its own way is in its [`Side`]. Call order: bytes that came in
//! go to [`Connection::poll`] until it returns `None`; then [`Connection::pending_output`] is written. When
//! [`Connection::next_timeout`] has passed, [`Connection::handle_timeout`]; when the transport ended,
//! [`Connection::end_of_input`].

use measure::Time;

use super::common::CommonState;
use super::error::{EncodeError, Error, Snippet};
use super::event::Closing;
use super::properties::Properties;
use super::receive::{ChannelState, Incoming, Settlement};
use super::spec::*;
use super::{Violation, decode_method, frame};

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Greeting,
    LoggingIn,
    /// A server's embedder is to accept or refuse the login; nothing is read meanwhile.
    LoginPending,
    /// A server waits for `connection.tune-ok`.
    Tuning,
    Opening,
    /// A server's embedder is to accept or refuse the virtual host; nothing is read meanwhile.
    OpenPending,
    Open,
    Closing,
    Closed,
}

/// Next step after a look at a method.
pub enum Step<E> {
    Nothing,
    /// The handshake is complete: [`Side::opened`] says with what.
    Opened,
    Event(E),
}

/// A side of a connection: the methods that it answers, and what it reports.
pub trait Side: Sized {
    /// Event that this side reports.
    type Event<'a>;

    /// Judges the first bytes; whether frames may follow by now.
    fn greet(connection: &mut Connection<Self>, input: &mut &[u8]) -> Result<bool, Error>;

    /// Takes a method of the handshake.
    fn handle_handshake<'a>(
        connection: &mut Connection<Self>,
        now: Time,
        method: Method<'a>,
    ) -> Result<Step<Self::Event<'a>>, Error>;

    /// Takes a method on an open connection.
    fn handle_open<'a>(
        connection: &mut Connection<Self>,
        channel: u16,
        method: Method<'a>,
    ) -> Result<Step<Self::Event<'a>>, Error>;

    /// The event that follows [`Step::Opened`].
    fn opened(connection: &Connection<Self>) -> Option<Self::Event<'_>>;

    /// `None` where the peer must not send it.
    fn settlement<'a>(settlement: &Settlement) -> Option<Self::Event<'a>>;

    /// A method with its content.
    fn content<'a>(
        channel: u16,
        id: MethodId,
        fields: &'a [u8],
        properties: Properties<'a>,
        body: &'a [u8],
    ) -> Result<Self::Event<'a>, Violation>;

    /// A body above the limit is announced.
    fn too_large<'a>(
        connection: &mut Connection<Self>,
        channel: u16,
        id: MethodId,
        size: u64,
    ) -> Result<Self::Event<'a>, Error>;

    /// The peer closed a channel.
    fn channel_closed(channel: u16, closing: Closing<'_>) -> Self::Event<'_>;

    /// The peer closed the connection.
    fn closed(closing: Closing<'_>) -> Self::Event<'_>;

    /// The peer agreed to our closing the connection.
    fn close_ok<'a>() -> Self::Event<'a>;

    /// Answer that a time-out was waiting for.
    fn awaited(state: State) -> &'static str;

    /// Operation that the transport's end interrupted.
    fn during(state: State) -> &'static str;
}

/// One connection's protocol: [`super::Client`] or [`super::Server`].
#[derive(Debug)]
pub struct Connection<S> {
    pub(super) side: S,
    pub(super) common: CommonState,
    pub(super) state: State,
    pub(super) channel_max: u16,
}

impl<S: Side> Connection<S> {
    /// Takes bytes off `input` and returns the next event, `None` when more bytes are needed or when a server's
    /// embedder has not answered [`super::ServerEvent::Login`] or [`super::ServerEvent::Open`] yet.
    ///
    /// Bytes that are not consumed stay in `input`; hand them in again, followed by the next. A buffer of one frame
    /// ([`Self::frame_max`] bytes) is always enough. Errors: a peer that breaks the protocol. Nothing can be read
    /// afterwards; send the pending output, which tells the peer why, then close.
    pub fn poll<'a, 'i: 'a>(&'a mut self, now: Time, input: &mut &'i [u8]) -> Result<Option<S::Event<'a>>, Error> {
        self.common.hear(now, input);
        if self.state == State::Greeting && !S::greet(self, input)? {
            self.common.keep_unread(input);
            return Ok(None);
        }
        loop {
            match self.state {
                State::LoginPending | State::OpenPending => return Ok(None),
                State::Closed => {
                    let rest = input.len();
                    self.common.rx.skip(input, rest);
                    return Ok(None);
                }
                _ => {}
            }
            let incoming = match self.common.rx.next(input) {
                Ok(Some(incoming)) => incoming,
                Ok(None) => {
                    self.common.keep_unread(input);
                    return Ok(None);
                }
                Err(error) => return Err(self.fail(error)),
            };
            match incoming {
                Incoming::Settlement(settlement) => {
                    if let Some(event) = S::settlement(&settlement) {
                        return Ok(Some(event));
                    }
                    let what = "a server does not send basic.reject".to_owned();
                    return Err(self.fail_with((reply::COMMAND_INVALID, what), &[]));
                }
                Incoming::Heartbeat => {}
                Incoming::Content { channel, id, fields, properties, body } => {
                    return match S::content(channel, id, fields, properties, body) {
                        Ok(event) => Ok(Some(event)),
                        Err(what) => Err(self.fail_with(what, fields)),
                    };
                }
                Incoming::Joined { channel, id, body } => return self.joined_event(channel, id, body).map(Some),
                Incoming::TooLarge { channel, id, size } => return S::too_large(self, channel, id, size).map(Some),
                Incoming::Method { channel, id, fields } => match self.handle_method(now, channel, id, fields)? {
                    Step::Nothing => {}
                    Step::Opened => return Ok(S::opened(self)),
                    Step::Event(event) => return Ok(Some(event)),
                },
            }
        }
    }

    fn joined_event<'a>(
        &'a mut self,
        channel: u16,
        id: MethodId,
        body: Option<&'a [u8]>,
    ) -> Result<S::Event<'a>, Error> {
        // Read twice, because telling the peer of an error needs the connection. Only messages in pieces pay for it.
        let wrong = self.joined_parts(channel, id, body).err();
        if let Some(what) = wrong {
            return Err(self.fail_with(what, &[]));
        }
        self.joined_parts(channel, id, body).map_err(|(code, what)| self.common.rx.fault_consumed(code, what, &[]))
    }

    fn joined_parts<'a>(
        &'a self,
        channel: u16,
        id: MethodId,
        body: Option<&'a [u8]>,
    ) -> Result<S::Event<'a>, Violation> {
        let parts = self.common.rx.joined(channel, body);
        let (fields, properties, body) =
            parts.ok_or_else(|| (reply::INTERNAL_ERROR, "content without its parts".to_owned()))?;
        S::content(channel, id, fields, properties, body)
    }

    #[inline]
    fn handle_method<'a>(
        &mut self,
        now: Time,
        channel: u16,
        id: MethodId,
        fields: &'a [u8],
    ) -> Result<Step<S::Event<'a>>, Error> {
        let method = match decode_method(id, fields) {
            Ok(method) => method,
            Err(what) => return Err(self.fail_with(what, fields)),
        };
        match (self.state, method) {
            (_, Method::ConnectionClose(ConnectionClose { reply_code, reply_text, class_id, method_id })) => {
                self.common.send_small(0, &ConnectionCloseOk {});
                self.end();
                Ok(Step::Event(S::closed(Closing::new(reply_code, reply_text, class_id, method_id))))
            }
            (State::Open, Method::ChannelClose(ChannelClose { reply_code, reply_text, class_id, method_id })) => {
                let ours = self.common.rx.channel_state(channel) == ChannelState::Closing;
                self.common.channel_close_ok(channel);
                if ours {
                    // Both closed at once: ours is still to be answered.
                    return Ok(Step::Nothing);
                }
                let closing = Closing::new(reply_code, reply_text, class_id, method_id);
                Ok(Step::Event(S::channel_closed(channel, closing)))
            }
            (State::Open, method) => S::handle_open(self, channel, method),
            (State::Closing, Method::ConnectionCloseOk(_)) => {
                self.end();
                Ok(Step::Event(S::close_ok()))
            }
            (State::Closing, _) => Ok(Step::Nothing),
            (_, method) => S::handle_handshake(self, now, method),
        }
    }

    /// A method that does not belong into the handshake's present state.
    #[cold]
    pub(super) fn out_of_turn(&mut self, method: &Method<'_>) -> Error {
        let (name, awaited) = (method.info().name, S::awaited(self.state));
        self.fail_with((reply::COMMAND_INVALID, format!("{name} came instead of the {awaited}")), &[])
    }

    pub(super) fn end(&mut self) {
        self.state = State::Closed;
        self.common.waiting_since = None;
    }

    /// Tells the peer why the connection cannot go on.
    #[cold]
    fn fail(&mut self, error: Error) -> Error {
        if self.state != State::Closed {
            self.common.send_close(error.reply_code(), &error.to_string(), MethodId::default());
            self.end();
        }
        error
    }

    #[cold]
    pub(super) fn fail_with(&mut self, (code, what): Violation, bytes: &[u8]) -> Error {
        let error = self.common.rx.fault_consumed(code, what, bytes);
        self.fail(error)
    }

    /// Sends heartbeats that are due, notices missing ones, and a handshake or close that hangs.
    /// Errors: [`Error::HeartbeatMissed`] and [`Error::TimedOut`]; the connection is of no more use.
    pub fn handle_timeout(&mut self, now: Time) -> Result<(), Error> {
        if self.state == State::Closed {
            return Ok(());
        }
        self.common.handle_timeout(now, S::awaited(self.state)).inspect_err(|_| self.state = State::Closed)
    }

    /// When to call [`Self::handle_timeout`] at the latest.
    pub fn next_timeout(&self) -> Option<Time> {
        (self.state != State::Closed).then(|| self.common.next_timeout())?
    }

    /// Forgives the peer's silence until `now`: for embedders that did not read, as brokers do with blocked publishers.
    pub const fn excuse_silence(&mut self, now: Time) {
        self.common.heard_at = now;
    }

    /// Bytes that must be there before [`Self::poll`] can take anything off `input`, which it has
    /// left: the length of its first frame, 0 where that is not known.
    #[inline]
    pub fn needs(&self, input: &[u8]) -> usize {
        match self.state {
            State::Greeting => 0,
            _ => self.common.rx.needs(input),
        }
    }

    /// The transport reached its end; `rest` is the unconsumed input. Says what that means.
    pub fn end_of_input(&self, rest: &[u8]) -> Error {
        if self.state == State::Greeting && self.common.rx.offset() == 0 && !rest.is_empty() {
            return wrong_protocol(rest);
        }
        self.common.disconnected(S::during(self.state), rest)
    }

    /// Bytes to write to the transport.
    pub fn pending_output(&self) -> &[u8] {
        self.common.pending()
    }

    /// The first `n` bytes of the output are written.
    pub fn consume_output(&mut self, n: usize) {
        self.common.consume(n);
    }

    /// Queues any method: `send(1, &QueueDeclare { queue: "q", ..Default::default() })`. Errors: names above 255 bytes,
    /// tables above the frame size, a connection that is not open; nothing is queued then.
    pub fn send(&mut self, channel: u16, method: &impl EncodeMethod) -> Result<(), Error> {
        self.check_open()?;
        Ok(self.common.send(channel, method)?)
    }

    /// Queues a method with content, without a template.
    pub fn send_content(
        &mut self,
        channel: u16,
        method: &impl EncodeMethod,
        properties: Properties<'_>,
        body: &[u8],
    ) -> Result<(), Error> {
        self.check_open()?;
        Ok(self.common.send_content(channel, method, properties, body)?)
    }

    pub(super) fn check_open(&self) -> Result<(), EncodeError> {
        if self.is_open() { Ok(()) } else { Err(EncodeError::NotOpen) }
    }

    /// Queues `basic.ack`, `basic.nack` or `basic.reject`.
    #[inline]
    pub(super) fn settle(&mut self, channel: u16, id: MethodId, delivery_tag: u64, bits: u8) {
        if self.state == State::Open {
            frame::put_settlement(self.common.out(), channel, id.method, delivery_tag, bits);
        }
    }

    pub(super) fn begin_close(&mut self, now: Time, code: u16, text: &str, cause: MethodId) {
        self.common.send_close(code, text, cause);
        self.common.waiting_since = Some(now);
        self.common.rx.drain();
        self.state = State::Closing;
    }

    /// Negotiated frame size limit in bytes.
    pub const fn frame_max(&self) -> u32 {
        self.common.frame_max
    }

    /// Negotiated highest channel.
    pub const fn channel_max(&self) -> u16 {
        self.channel_max
    }

    /// Whether the handshake is complete and nobody closed yet.
    pub fn is_open(&self) -> bool {
        self.state == State::Open
    }
}

/// Bytes that make a guess possible; fewer are waited for.
const ENOUGH: usize = 8;

/// Judges the first bytes of the peer: whether they are as `expected`, as far as they go; otherwise they are too few to
/// tell what they are. A server that does not know the version answers with a header of its own and closes
/// (specification 4.2.2). Errors: another protocol, or none.
pub(super) fn check_greeting(input: &[u8], expected: &[u8]) -> Result<bool, Error> {
    let is_right = input.iter().zip(expected).all(|(a, b)| a == b);
    if is_right || input.len() < ENOUGH { Ok(is_right) } else { Err(wrong_protocol(input)) }
}

/// The error, whatever the bytes are.
pub(super) fn wrong_protocol(input: &[u8]) -> Error {
    Error::WrongProtocol { guess: guess(input), offset: 0, bytes: Snippet::of(input) }
}

/// Says what a peer's first bytes look like.
pub(crate) fn guess(bytes: &[u8]) -> String {
    if let Some(version) = bytes.strip_prefix(b"AMQP") {
        return amqp(bytes, version);
    }
    if bytes.starts_with(b"HTTP/") {
        let line: Vec<u8> = bytes.iter().copied().take(64).take_while(|b| !matches!(b, b'\r' | b'\n')).collect();
        return format!("it is an HTTP server ({}); AMQP is usually on port 5672", line.escape_ascii());
    }
    KNOWN
        .iter()
        .find(|(start, _)| bytes.starts_with(start))
        .map_or("the protocol is unknown", |(_, name)| name)
        .to_owned()
}

/// How other protocols begin, from either side.
const KNOWN: &[(&[u8], &str)] = &[
    (b"\x15\x03", "it speaks TLS; AMQP over TLS (amqps) is usually on port 5671"),
    (b"\x16\x03", "it speaks TLS; AMQP over TLS (amqps) is usually on port 5671"),
    (b"SSH-", "it is an SSH server"),
    (b"GET ", "it is an HTTP client"),
    (b"POST ", "it is an HTTP client"),
    (b"HEAD ", "it is an HTTP client"),
    (b"CONNECT\n", "it speaks STOMP"),
    (b"CONNECTED\n", "it speaks STOMP"),
    (b"STOMP\n", "it speaks STOMP"),
    (b"ERROR\n", "it speaks STOMP"),
    (b"INFO {", "it is a NATS server"),
    (b"-ERR", "it looks like Redis"),
    (b"220 ", "it looks like SMTP or FTP"),
    (b"220-", "it looks like SMTP or FTP"),
    (b"\x10", "it looks like MQTT"),
    (b"\x20\x02", "it looks like MQTT"),
];

/// `AMQP`, then protocol id, major, minor and revision; 0-8 and 0-9 had other orders.
fn amqp(bytes: &[u8], version: &[u8]) -> String {
    match version {
        _ if bytes.starts_with(&PROTOCOL_HEADER) => {
            "it sent the AMQP 0-9-1 header where a connection.start or nothing was due".to_owned()
        }
        [0, 1, 0, 0, ..] => "it speaks AMQP 1.0".to_owned(),
        [2, 1, 0, 0, ..] => "it speaks AMQP 1.0 over TLS".to_owned(),
        [3, 1, 0, 0, ..] => "it speaks AMQP 1.0 with SASL".to_owned(),
        [1, 1, 0, 10, ..] => "it speaks AMQP 0-10".to_owned(),
        [0, 0, 9, 0, ..] | [1, 1, 0, 9, ..] => "it speaks AMQP 0-9".to_owned(),
        [1, 1, major, minor, ..] => format!("it speaks AMQP {major}-{minor}"),
        [a, b, c, d, ..] => format!("it speaks AMQP of the unknown version {a}.{b}.{c}.{d}"),
        _ => "it began an AMQP header".to_owned(),
    }
}
