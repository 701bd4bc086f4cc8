//! The server's side of a connection (specification 2.2.4), for an embedded broker and for
//! scripted peers in tests.
//!
//! ```text
//! client                    server
//!   "AMQP" 0 0 9 1   --->                        anything else: our header back, then the end
//!                    <---   connection.start
//!   start-ok         --->                        ServerEvent::Login  -> accept_login / refuse
//!                    <---   connection.tune
//!   tune-ok, open    --->                        ServerEvent::Open   -> accept_open / refuse
//!                    <---   connection.open-ok
//! ```
//!
//! Answered in here: the handshake, heartbeats, `channel.open`, `channel.close` and
//! `connection.close`. All else is the embedder's.

use measure::{Nanos, Time};

use super::client::Violation;
use super::codec::SecretStr;
use super::decode_method;
use super::error::{EncodeError, Error};
use super::event::{Closing, ServerEvent};
use super::frame;
use super::link::Link;
use super::properties::Properties;
use super::receive::{ChannelState, Incoming};
use super::sniff::{self, Greeting};
use super::spec::*;
use super::table::FieldTable;
use super::template::DeliverTemplate;
use crate::Secret;

/// What a server offers.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// What the server says about itself, as `product` and `version`. `capabilities` is added
    /// where it is missing.
    pub properties: FieldTable,
    /// Login mechanisms, separated by blanks: `PLAIN EXTERNAL`.
    pub mechanisms: String,
    /// Heartbeat interval that is proposed, in seconds; 0 for none.
    pub heartbeat_s: u16,
    /// Largest frame in bytes, at least 4096.
    pub frame_max: u32,
    /// Highest channel; 0 counts as 65535.
    pub channel_max: u16,
    /// Largest body in bytes; above, the channel is closed with 406. At most [`MAX_BODY`].
    pub max_body: u64,
    /// How long the handshake may take, and the orderly close.
    pub timeout: Nanos,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            properties: FieldTable::new(),
            mechanisms: "PLAIN".to_owned(),
            heartbeat_s: 60,
            frame_max: super::DEFAULT_FRAME_MAX,
            channel_max: super::DEFAULT_CHANNEL_MAX,
            max_body: super::DEFAULT_MAX_BODY,
            timeout: super::DEFAULT_TIMEOUT,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Greeting,
    LoggingIn,
    /// The embedder is to accept or refuse the login; nothing is read meanwhile.
    LoginPending,
    Tuning,
    Opening,
    /// The embedder is to accept or refuse the virtual host; nothing is read meanwhile.
    OpenPending,
    Open,
    Closing,
    Closed,
}

impl State {
    const fn awaited(self) -> &'static str {
        match self {
            Self::Greeting => "protocol header from the client",
            Self::LoggingIn | Self::LoginPending => "login of the client",
            Self::Tuning => "connection.tune-ok from the client",
            Self::Opening | Self::OpenPending => "connection.open from the client",
            Self::Open | Self::Closing | Self::Closed => "answer to closing the connection",
        }
    }

    const fn during(self) -> &'static str {
        match self {
            Self::Greeting => "before it said anything",
            Self::Open => "while it was in use",
            Self::Closing | Self::Closed => "before it agreed to close it",
            _ => "during the handshake",
        }
    }
}

/// A connection, seen from the server.
#[derive(Debug)]
pub struct Server {
    config: ServerConfig,
    link: Link,
    state: State,
    channel_max: u16,
}

impl Server {
    /// Waits for the client's protocol header.
    #[must_use]
    pub fn new(mut config: ServerConfig, now: Time) -> Self {
        config.frame_max = config.frame_max.max(FRAME_MIN_SIZE);
        if config.channel_max == 0 {
            config.channel_max = u16::MAX;
        }
        let link = Link::new(config.max_body, config.timeout, now);
        Self {
            link,
            state: State::Greeting,
            channel_max: config.channel_max,
            config,
        }
    }

    /// Takes bytes off `input` and returns the next event, `None` when more bytes are needed or
    /// when [`ServerEvent::Login`] or [`ServerEvent::Open`] is not answered yet.
    ///
    /// What is not consumed stays in `input`; hand it in again, followed by what comes next. A
    /// buffer that holds one frame ([`Self::frame_max`] bytes) is always enough.
    ///
    /// # Errors
    /// A peer that breaks the protocol. Nothing can be read afterwards; send the pending output,
    /// which tells the peer why, then close.
    pub fn poll<'a, 'i: 'a>(
        &'a mut self,
        now: Time,
        input: &mut &'i [u8],
    ) -> Result<Option<ServerEvent<'a>>, Error> {
        self.link.hear(now, input);
        if self.state == State::Greeting && !self.greet(input)? {
            self.link.keep_unread(input);
            return Ok(None);
        }
        loop {
            match self.state {
                State::LoginPending | State::OpenPending => return Ok(None),
                State::Closed => {
                    let rest = input.len();
                    self.link.rx.skip(input, rest);
                    return Ok(None);
                }
                _ => {}
            }
            let incoming = match self.link.rx.next(input) {
                Ok(Some(incoming)) => incoming,
                Ok(None) => {
                    self.link.keep_unread(input);
                    return Ok(None);
                }
                Err(error) => return Err(self.fail(error)),
            };
            match incoming {
                Incoming::Heartbeat => {}
                Incoming::Content {
                    channel,
                    id,
                    fields,
                    properties,
                    body,
                } => {
                    return match content_event(channel, id, fields, properties, body) {
                        Ok(event) => Ok(Some(event)),
                        Err(what) => Err(self.fail_with(what)),
                    };
                }
                Incoming::Joined { channel, id, body } => {
                    return self.joined_event(channel, id, body).map(Some);
                }
                Incoming::TooLarge { channel, id, .. } => {
                    return Ok(Some(self.refuse_body(channel, id)));
                }
                Incoming::Method {
                    channel,
                    id,
                    fields,
                } => {
                    if let Some(event) = self.on_method(now, channel, id, fields)? {
                        return Ok(Some(event));
                    }
                }
            }
        }
    }

    /// Whether the protocol header is complete; then `connection.start` is queued.
    fn greet(&mut self, input: &mut &[u8]) -> Result<bool, Error> {
        if let Greeting::Wrong(error) = sniff::greeting(input, &PROTOCOL_HEADER) {
            self.link.out().extend_from_slice(&PROTOCOL_HEADER);
            self.end();
            return Err(error);
        }
        if input.len() < PROTOCOL_HEADER.len() {
            return Ok(false);
        }
        self.link.rx.skip(input, PROTOCOL_HEADER.len());
        let properties = server_properties(&self.config.properties)?;
        let start = ConnectionStart {
            version_major: 0,
            version_minor: 9,
            server_properties: properties.view(),
            mechanisms: self.config.mechanisms.as_bytes(),
            locales: b"en_US",
        };
        self.link.send(0, &start)?;
        self.state = State::LoggingIn;
        Ok(true)
    }

    fn joined_event<'a>(
        &'a mut self,
        channel: u16,
        id: MethodId,
        body: Option<&'a [u8]>,
    ) -> Result<ServerEvent<'a>, Error> {
        // Looked at twice, because an error needs the connection that the event borrows.
        if let Err(what) = self.joined_parts(channel, id, body) {
            return Err(self.fail_with(what));
        }
        self.joined_parts(channel, id, body)
            .map_err(|(_, what)| self.link.rx.fault(reply::INTERNAL_ERROR, what, &[], 0))
    }

    fn joined_parts<'a>(
        &'a self,
        channel: u16,
        id: MethodId,
        body: Option<&'a [u8]>,
    ) -> Result<ServerEvent<'a>, Violation> {
        let parts = self.link.rx.joined(channel, body).ok_or_else(|| {
            (
                reply::INTERNAL_ERROR,
                "content without its parts".to_owned(),
            )
        })?;
        content_event(channel, id, parts.fields, parts.properties, parts.body)
    }

    fn refuse_body(&mut self, channel: u16, id: MethodId) -> ServerEvent<'static> {
        let text = "PRECONDITION_FAILED - message size is larger than the maximum of this server";
        self.close_channel(channel, reply::PRECONDITION_FAILED, text, id);
        let closing = Closing {
            code: reply::PRECONDITION_FAILED,
            text,
            method: id,
        };
        ServerEvent::ChannelClosed { channel, closing }
    }

    #[inline]
    fn on_method<'a>(
        &mut self,
        now: Time,
        channel: u16,
        id: MethodId,
        fields: &'a [u8],
    ) -> Result<Option<ServerEvent<'a>>, Error> {
        let method = match decode_method(id, fields) {
            Ok(method) => method,
            Err(what) => return Err(self.fail_with(what)),
        };
        match self.state {
            State::Open => self.on_open_method(channel, method),
            State::Closing => Ok(self.on_closing_method(method)),
            _ => self.on_handshake_method(now, method),
        }
    }

    #[inline]
    fn on_open_method<'a>(
        &mut self,
        channel: u16,
        method: Method<'a>,
    ) -> Result<Option<ServerEvent<'a>>, Error> {
        Ok(Some(match method {
            Method::BasicAck(BasicAck {
                delivery_tag,
                multiple,
            }) => ServerEvent::Ack {
                channel,
                delivery_tag,
                multiple,
            },
            Method::BasicNack(BasicNack {
                delivery_tag,
                multiple,
                requeue,
            }) => ServerEvent::Nack {
                channel,
                delivery_tag,
                multiple,
                requeue,
            },
            Method::BasicReject(BasicReject {
                delivery_tag,
                requeue,
            }) => ServerEvent::Nack {
                channel,
                delivery_tag,
                multiple: false,
                requeue,
            },
            Method::ChannelOpen(_) => self.open_channel(channel)?,
            Method::ChannelClose(close) => {
                let ours = self.link.rx.channel_state(channel) == ChannelState::Closing;
                self.link.channel_close_ok(channel);
                if ours {
                    // Both closed at once: ours is still to be answered.
                    return Ok(None);
                }
                ServerEvent::ChannelClosed {
                    channel,
                    closing: Closing::of_channel(&close),
                }
            }
            Method::ChannelCloseOk(_) => {
                self.link
                    .rx
                    .set_channel_state(channel, ChannelState::Closed);
                return Ok(None);
            }
            Method::ConnectionClose(close) => self.on_close(&close),
            _ => ServerEvent::Method { channel, method },
        }))
    }

    fn open_channel(&mut self, channel: u16) -> Result<ServerEvent<'static>, Error> {
        if channel > self.channel_max {
            let what = format!("channel {channel}, the highest is {}", self.channel_max);
            return Err(self.fail_with((reply::NOT_ALLOWED, what)));
        }
        if self.link.rx.channel_state(channel) != ChannelState::Closed {
            let what = format!("channel {channel} is open already");
            return Err(self.fail_with((reply::CHANNEL_ERROR, what)));
        }
        self.link.rx.set_channel_state(channel, ChannelState::Open);
        self.link.send_small(channel, &ChannelOpenOk::default());
        Ok(ServerEvent::ChannelOpened { channel })
    }

    fn on_closing_method<'a>(&mut self, method: Method<'a>) -> Option<ServerEvent<'a>> {
        match method {
            Method::ConnectionCloseOk(_) => {
                self.end();
                Some(ServerEvent::CloseOk)
            }
            Method::ConnectionClose(close) => Some(self.on_close(&close)),
            _ => None,
        }
    }

    fn on_close<'a>(&mut self, close: &ConnectionClose<'a>) -> ServerEvent<'a> {
        self.link.send_close_ok();
        self.end();
        ServerEvent::Closed {
            closing: Closing::of_connection(close),
        }
    }

    fn end(&mut self) {
        self.state = State::Closed;
        self.link.arrived();
    }

    fn on_handshake_method<'a>(
        &mut self,
        now: Time,
        method: Method<'a>,
    ) -> Result<Option<ServerEvent<'a>>, Error> {
        match (self.state, method) {
            (_, Method::ConnectionClose(close)) => Ok(Some(self.on_close(&close))),
            (State::LoggingIn, Method::ConnectionStartOk(start)) => self.log_in(&start).map(Some),
            (State::Tuning, Method::ConnectionTuneOk(tune)) => {
                self.tune(now, tune)?;
                Ok(None)
            }
            (State::Opening, Method::ConnectionOpen(open)) => {
                self.state = State::OpenPending;
                Ok(Some(ServerEvent::Open {
                    virtual_host: open.virtual_host,
                }))
            }
            (state, method) => {
                let (name, awaited) = (method.info().name, state.awaited());
                let what = format!("{name} came instead of the {awaited}");
                Err(self.fail_with((reply::COMMAND_INVALID, what)))
            }
        }
    }

    fn log_in<'a>(&mut self, start: &ConnectionStartOk<'a>) -> Result<ServerEvent<'a>, Error> {
        let offered = self
            .config
            .mechanisms
            .split(' ')
            .any(|name| name == start.mechanism);
        let credentials = match start.mechanism {
            "PLAIN" if offered => plain_credentials(start.response),
            "EXTERNAL" if offered => std::str::from_utf8(start.response.0).ok().map(|u| (u, "")),
            other => {
                let what = format!("the login mechanism {other:?} is not offered");
                return Err(self.fail_with((reply::ACCESS_REFUSED, what)));
            }
        };
        let Some((user, password)) = credentials else {
            let what = format!("the login response is not as {} has it", start.mechanism);
            return Err(self.fail_with((reply::SYNTAX_ERROR, what)));
        };
        self.state = State::LoginPending;
        Ok(ServerEvent::Login {
            mechanism: start.mechanism,
            user,
            password: Secret::from(password),
            client_properties: start.client_properties,
        })
    }

    /// What was negotiated must not be above what was offered; RabbitMQ takes "no limit" for
    /// above, too.
    fn tune(&mut self, now: Time, tune: ConnectionTuneOk) -> Result<(), Error> {
        let ConnectionTuneOk {
            channel_max,
            frame_max,
            heartbeat,
        } = tune;
        if frame_max > self.config.frame_max || frame_max < FRAME_MIN_SIZE {
            let ours = self.config.frame_max;
            let what = format!("frame-max {frame_max} is not in {FRAME_MIN_SIZE} to {ours}");
            return Err(self.fail_with((reply::NOT_ALLOWED, what)));
        }
        if channel_max > self.config.channel_max || channel_max == 0 {
            let ours = self.config.channel_max;
            let what = format!("channel-max {channel_max} is not in 1 to {ours}");
            return Err(self.fail_with((reply::NOT_ALLOWED, what)));
        }
        self.channel_max = channel_max;
        self.link.tune(frame_max, heartbeat, now);
        self.state = State::Opening;
        Ok(())
    }

    /// Tells the peer why the connection cannot go on.
    #[cold]
    fn fail(&mut self, error: Error) -> Error {
        if self.state != State::Closed {
            self.link
                .send_close(error.reply_code(), &error.to_string(), MethodId::default());
            self.end();
        }
        error
    }

    #[cold]
    fn fail_with(&mut self, (code, what): Violation) -> Error {
        let error = self.link.rx.fault(code, what, &[], 0);
        self.fail(error)
    }

    /// Sends heartbeats that are due, notices missing ones, and a handshake or close that hangs.
    ///
    /// # Errors
    /// [`Error::HeartbeatMissed`] and [`Error::TimedOut`]; the connection is of no more use.
    pub fn handle_timeout(&mut self, now: Time) -> Result<(), Error> {
        match self.state {
            State::Closed => Ok(()),
            _ => self
                .link
                .handle_timeout(now, self.state.awaited())
                .inspect_err(|_| {
                    self.state = State::Closed;
                }),
        }
    }

    /// When to call [`Self::handle_timeout`] at the latest.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Time> {
        if self.state == State::Closed {
            None
        } else {
            self.link.next_timeout()
        }
    }

    /// The transport reached its end; `rest` is the unconsumed input. Says what that means.
    #[must_use]
    pub fn end_of_input(&self, rest: &[u8]) -> Error {
        if self.state == State::Greeting && !rest.is_empty() {
            return sniff::wrong_protocol(rest);
        }
        self.link.disconnected(self.state.during(), rest)
    }

    /// Forgives the peer's silence until `now`: for an embedder that did not read, as a broker does
    /// with publishers it has blocked.
    pub const fn excuse_silence(&mut self, now: Time) {
        self.link.excuse(now);
    }

    /// Bytes to write to the transport.
    #[must_use]
    pub fn pending_output(&self) -> &[u8] {
        self.link.pending()
    }

    /// The first `n` bytes of the output are written.
    pub fn consume_output(&mut self, n: usize) {
        self.link.consume(n);
    }

    /// Answers [`ServerEvent::Login`]: goes on with tuning. Does nothing at another time.
    pub fn accept_login(&mut self) {
        if self.state == State::LoginPending {
            let ServerConfig {
                channel_max,
                frame_max,
                heartbeat_s,
                ..
            } = self.config;
            self.link.send_small(
                0,
                &ConnectionTune {
                    channel_max,
                    frame_max,
                    heartbeat: heartbeat_s,
                },
            );
            self.state = State::Tuning;
        }
    }

    /// Answers [`ServerEvent::Open`]: the connection is open. Does nothing at another time.
    pub fn accept_open(&mut self) {
        if self.state == State::OpenPending {
            self.link.send_small(0, &ConnectionOpenOk::default());
            self.link.arrived();
            self.state = State::Open;
        }
    }

    /// Answers [`ServerEvent::Login`] or [`ServerEvent::Open`]: closes with code and text (403
    /// for a login, 530 for a virtual host). Does nothing at another time.
    pub fn refuse(&mut self, now: Time, code: u16, text: &str) {
        let cause = match self.state {
            State::LoginPending => MethodId::default(),
            State::OpenPending => ConnectionOpen::INFO.id,
            _ => return,
        };
        self.begin_close(now, code, text, cause);
    }

    /// Queues any method.
    ///
    /// # Errors
    /// Names above 255 bytes, tables above the frame size, a connection that is not open; nothing
    /// is queued then.
    pub fn send(&mut self, channel: u16, method: &impl EncodeMethod) -> Result<(), Error> {
        self.check_open()?;
        Ok(self.link.send(channel, method)?)
    }

    fn check_open(&self) -> Result<(), EncodeError> {
        if self.state == State::Open {
            Ok(())
        } else {
            Err(EncodeError::NotOpen)
        }
    }

    /// Hot path: queues a delivery. The body is split at the connection's frame-max.
    ///
    /// # Errors
    /// A connection that is not open, or properties above the frame size; nothing is queued then.
    #[inline]
    pub fn deliver(
        &mut self,
        template: &DeliverTemplate,
        delivery_tag: u64,
        redelivered: bool,
        properties: Properties<'_>,
        body: &[u8],
    ) -> Result<(), Error> {
        self.check_open()?;
        let frame_max = self.link.frame_max;
        let out = self.link.out();
        Ok(template.put(out, delivery_tag, redelivered, properties, body, frame_max)?)
    }

    /// Queues a method with content: `basic.deliver`, `basic.return`, `basic.get-ok`.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub fn send_content(
        &mut self,
        channel: u16,
        method: &impl EncodeMethod,
        properties: Properties<'_>,
        body: &[u8],
    ) -> Result<(), Error> {
        self.check_open()?;
        Ok(self.link.send_content(channel, method, properties, body)?)
    }

    /// Hot path: confirms a published message, or all up to it. Does nothing on a connection that
    /// is not open.
    #[inline]
    pub fn confirm(&mut self, channel: u16, delivery_tag: u64, multiple: bool) {
        self.settle(channel, BasicAck::INFO.id, delivery_tag, multiple);
    }

    /// Refuses a published message, or all up to it (`basic.nack`). Does nothing on a connection
    /// that is not open.
    pub fn confirm_nack(&mut self, channel: u16, delivery_tag: u64, multiple: bool) {
        self.settle(channel, BasicNack::INFO.id, delivery_tag, multiple);
    }

    #[inline]
    fn settle(&mut self, channel: u16, id: MethodId, delivery_tag: u64, multiple: bool) {
        if self.state == State::Open {
            let bits = u8::from(multiple);
            frame::put_settlement(self.link.out(), channel, id.method, delivery_tag, bits);
        }
    }

    /// Closes a channel (404, 406, ...). What the client still sends on it is dropped until it
    /// agrees, and nothing may be sent on it. Does nothing on a channel that is not open.
    pub fn close_channel(&mut self, channel: u16, code: u16, text: &str, cause: MethodId) {
        let open = self.link.rx.channel_state(channel) == ChannelState::Open;
        if self.state == State::Open && open {
            let close = ChannelClose {
                reply_code: code,
                reply_text: frame::short(text),
                class_id: cause.class,
                method_id: cause.method,
            };
            self.link.send_small(channel, &close);
        }
    }

    /// Starts the orderly close of the connection; [`ServerEvent::CloseOk`] ends it. Does nothing
    /// on a connection that is not open.
    pub fn close(&mut self, now: Time, code: u16, text: &str, cause: MethodId) {
        if self.state == State::Open {
            self.begin_close(now, code, text, cause);
        }
    }

    fn begin_close(&mut self, now: Time, code: u16, text: &str, cause: MethodId) {
        self.link.send_close(code, text, cause);
        self.link.wait(now);
        self.link.rx.drain();
        self.state = State::Closing;
    }

    /// Negotiated frame size limit in bytes.
    #[must_use]
    pub const fn frame_max(&self) -> u32 {
        self.link.frame_max
    }

    /// Whether the handshake is complete and nobody closed yet.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.state == State::Open
    }
}

#[inline]
fn content_event<'a>(
    channel: u16,
    id: MethodId,
    fields: &'a [u8],
    properties: Properties<'a>,
    body: &'a [u8],
) -> Result<ServerEvent<'a>, Violation> {
    match decode_method(id, fields)? {
        Method::BasicPublish(publish) => Ok(ServerEvent::Publish {
            channel,
            exchange: publish.exchange,
            routing_key: publish.routing_key,
            mandatory: publish.mandatory,
            immediate: publish.immediate,
            properties,
            body,
        }),
        method => {
            let what = format!("a client does not send {}", method.info().name);
            Err((reply::COMMAND_INVALID, what))
        }
    }
}

/// User and password of a PLAIN response (RFC 4616): an identity that nobody uses, user, password.
fn plain_credentials(response: SecretStr<'_>) -> Option<(&str, &str)> {
    let mut parts = std::str::from_utf8(response.0).ok()?.split('\0');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(_), Some(user), Some(password), None) => Some((user, password)),
        _ => None,
    }
}

/// The embedder's properties and what this side can do.
fn server_properties(given: &FieldTable) -> Result<FieldTable, EncodeError> {
    let mut capabilities = FieldTable::new();
    for name in [
        "publisher_confirms",
        "exchange_exchange_bindings",
        "basic.nack",
        "consumer_cancel_notify",
        "connection.blocked",
        "authentication_failure_close",
    ] {
        capabilities.insert(name, true)?;
    }
    let mut properties = given.clone();
    if given.get("capabilities").is_none() {
        properties.insert("capabilities", &capabilities)?;
    }
    Ok(properties)
}
