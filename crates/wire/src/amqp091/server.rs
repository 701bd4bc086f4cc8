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

use measure::Time;

use super::config::ServerConfig;
use super::error::{EncodeError, Error};
use super::event::{Closing, ServerEvent};
use super::frame;
use super::link::Link;
use super::properties::Properties;
use super::receive::{ChannelState, Incoming, Settlement};
use super::sniff::{self};
use super::spec::*;
use super::template::DeliverTemplate;
use super::{Violation, decode_as, decode_method};

mod handshake;

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
                Incoming::Settlement(settled) => return Ok(Some(settlement_event(&settled))),
                Incoming::Heartbeat => {}
                Incoming::Content {
                    channel,
                    id,
                    fields,
                    properties,
                    body,
                } => {
                    return content_event(channel, id, fields, properties, body)
                        .map(Some)
                        .map_err(|what| self.fail_with(what, fields));
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

    fn joined_event<'a>(
        &'a mut self,
        channel: u16,
        id: MethodId,
        body: Option<&'a [u8]>,
    ) -> Result<ServerEvent<'a>, Error> {
        // Read twice, because telling the peer of an error needs the connection that the event
        // borrows. Only messages that came in pieces pay for it.
        if let Err(what) = self.joined_parts(channel, id, body) {
            return Err(self.fail_with(what, &[]));
        }
        self.joined_parts(channel, id, body)
            .map_err(|(code, what)| self.link.rx.fault_consumed(code, what, &[]))
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
            Err(what) => return Err(self.fail_with(what, fields)),
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
            return Err(self.fail_with((reply::NOT_ALLOWED, what), &[]));
        }
        if self.link.rx.channel_state(channel) != ChannelState::Closed {
            let what = format!("channel {channel} is open already");
            return Err(self.fail_with((reply::CHANNEL_ERROR, what), &[]));
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
    fn fail_with(&mut self, (code, what): Violation, bytes: &[u8]) -> Error {
        let error = self.link.rx.fault_consumed(code, what, bytes);
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

#[inline(always)]
fn settlement_event(settled: &Settlement) -> ServerEvent<'static> {
    let &Settlement {
        channel,
        method,
        delivery_tag,
        bits,
    } = settled;
    let (first, second) = (bits & 1 == 1, bits & 2 == 2);
    match u16::from(method) {
        ack if ack == BasicAck::INFO.id.method => ServerEvent::Ack {
            channel,
            delivery_tag,
            multiple: first,
        },
        nack if nack == BasicNack::INFO.id.method => ServerEvent::Nack {
            channel,
            delivery_tag,
            multiple: first,
            requeue: second,
        },
        _ => ServerEvent::Nack {
            channel,
            delivery_tag,
            multiple: false,
            requeue: first,
        },
    }
}

#[inline(always)]
fn content_event<'a>(
    channel: u16,
    id: MethodId,
    fields: &'a [u8],
    properties: Properties<'a>,
    body: &'a [u8],
) -> Result<ServerEvent<'a>, Violation> {
    if id != BasicPublish::INFO.id {
        let what = format!("a client does not send {}", id.name());
        return Err((reply::COMMAND_INVALID, what));
    }
    let publish: BasicPublish<'a> = decode_as(fields)?;
    Ok(ServerEvent::Publish {
        channel,
        exchange: publish.exchange,
        routing_key: publish.routing_key,
        mandatory: publish.mandatory,
        immediate: publish.immediate,
        properties,
        body,
    })
}
