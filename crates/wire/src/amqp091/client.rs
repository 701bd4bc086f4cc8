//! The client's side of a connection (specification 2.2.4).
//!
//! ```text
//! client                    server
//!   "AMQP" 0 0 9 1   --->
//!                    <---   connection.start
//!   start-ok         --->                        PLAIN: "\0" user "\0" password
//!                    <---   connection.tune
//!   tune-ok, open    --->                        the smaller of both limits, 0 being none
//!                    <---   connection.open-ok   Event::Open
//! ```
//!
//! Call order: bytes that came in go to [`Client::poll`] until it returns `None`; then
//! [`Client::pending_output`] is written. When [`Client::next_timeout`] has passed,
//! [`Client::handle_timeout`]; when the transport ended, [`Client::end_of_input`].

use measure::Time;

use super::config::ClientConfig;
use super::error::{EncodeError, Error};
use super::event::{Closing, Event};
use super::frame;
use super::link::Link;
use super::properties::Properties;
use super::receive::{ChannelState, Incoming, Settlement};
use super::sniff::{self, Greeting};
use super::spec::*;
use super::table::{FieldTable, Table};
use super::template::{HeadTemplate, PublishTemplate};
use super::{MAX_BODY, Violation, decode_as, decode_method};

mod handshake;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Greeting,
    LoggingIn,
    Opening,
    Open,
    Closing,
    Closed,
}

impl State {
    const fn awaited(self) -> &'static str {
        match self {
            Self::Greeting => "connection.start from the server",
            Self::LoggingIn => "answer to the login",
            Self::Opening => "answer to opening the virtual host",
            Self::Open | Self::Closing | Self::Closed => "answer to closing the connection",
        }
    }

    const fn during(self) -> &'static str {
        match self {
            Self::Greeting => "before it said anything in AMQP",
            Self::LoggingIn => "during the login, as brokers do that refuse it",
            Self::Opening => "while the virtual host was being opened",
            Self::Open => "while it was in use",
            Self::Closing | Self::Closed => "before it agreed to close it",
        }
    }
}

/// What to do with a method after it was looked at.
enum Step<'a> {
    Nothing,
    Opened,
    Event(Event<'a>),
}

/// A connection, seen from the client.
#[derive(Debug)]
pub struct Client {
    config: ClientConfig,
    link: Link,
    state: State,
    channel_max: u16,
    server_properties: FieldTable,
}

impl Client {
    /// Queues the protocol header as the first output.
    #[must_use]
    pub fn new(config: ClientConfig, now: Time) -> Self {
        let mut link = Link::new(config.max_body, config.timeout, now);
        link.out().extend_from_slice(&PROTOCOL_HEADER);
        link.rx.share(config.body_allowance.clone());
        Self {
            link,
            state: State::Greeting,
            channel_max: config.channel_max,
            config,
            server_properties: FieldTable::new(),
        }
    }

    /// Takes bytes off `input` and returns the next event, `None` when more bytes are needed.
    ///
    /// What is not consumed stays in `input`; hand it in again, followed by what comes next. A
    /// buffer that holds one frame ([`Self::frame_max`] bytes) is always enough.
    ///
    /// # Errors
    /// A peer that breaks the protocol. Nothing can be read afterwards; the pending output tells
    /// the peer why.
    pub fn poll<'a, 'i: 'a>(
        &'a mut self,
        now: Time,
        input: &mut &'i [u8],
    ) -> Result<Option<Event<'a>>, Error> {
        self.link.hear(now, input);
        if self.state == State::Greeting && self.link.rx.offset() == 0 {
            match sniff::greeting(input, &[FRAME_METHOD, 0, 0]) {
                Greeting::Right => {}
                Greeting::Doubtful => {
                    self.link.keep_unread(input);
                    return Ok(None);
                }
                Greeting::Wrong(error) => {
                    self.end();
                    return Err(error);
                }
            }
        }
        loop {
            if self.state == State::Closed {
                let rest = input.len();
                self.link.rx.skip(input, rest);
                return Ok(None);
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
                Incoming::Settlement(settled) => {
                    return match settlement_event(&settled) {
                        Some(event) => Ok(Some(event)),
                        None => {
                            let what = "a server does not send basic.reject".to_owned();
                            Err(self.fail_with((reply::COMMAND_INVALID, what), &[]))
                        }
                    };
                }
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
                Incoming::TooLarge { size, .. } => {
                    let limit = self.config.max_body.min(MAX_BODY);
                    let what = format!("a body of {size} bytes, the limit is {limit}");
                    return Err(self.fail_with((reply::CONTENT_TOO_LARGE, what), &[]));
                }
                Incoming::Method {
                    channel,
                    id,
                    fields,
                } => match self.on_method(now, channel, id, fields)? {
                    Step::Nothing => {}
                    Step::Opened => return Ok(Some(self.open_event())),
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
    ) -> Result<Event<'a>, Error> {
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
    ) -> Result<Event<'a>, Violation> {
        let parts = self.link.rx.joined(channel, body).ok_or_else(|| {
            (
                reply::INTERNAL_ERROR,
                "content without its parts".to_owned(),
            )
        })?;
        content_event(channel, id, parts.fields, parts.properties, parts.body)
    }

    fn open_event(&self) -> Event<'_> {
        Event::Open {
            server_properties: self.server_properties.view(),
            frame_max: self.link.frame_max,
            channel_max: self.channel_max,
            heartbeat_s: self.link.heartbeat_s(),
        }
    }

    #[inline]
    fn on_method<'a>(
        &mut self,
        now: Time,
        channel: u16,
        id: MethodId,
        fields: &'a [u8],
    ) -> Result<Step<'a>, Error> {
        let method = match decode_method(id, fields) {
            Ok(method) => method,
            Err(what) => return Err(self.fail_with(what, fields)),
        };
        match self.state {
            State::Open => Ok(self.on_open_method(channel, method)),
            State::Closing => Ok(self.on_closing_method(method)),
            _ => self.on_handshake_method(now, method),
        }
    }

    #[inline]
    fn on_open_method<'a>(&mut self, channel: u16, method: Method<'a>) -> Step<'a> {
        Step::Event(match method {
            Method::BasicGetEmpty(_) => Event::GetEmpty { channel },
            Method::BasicCancel(BasicCancel {
                consumer_tag,
                no_wait,
            }) => {
                if !no_wait {
                    self.link
                        .send_small(channel, &BasicCancelOk { consumer_tag });
                }
                Event::ConsumerCancelled {
                    channel,
                    consumer_tag,
                }
            }
            Method::ChannelFlow(ChannelFlow { active }) => {
                self.link.send_small(channel, &ChannelFlowOk { active });
                Event::Method { channel, method }
            }
            Method::ChannelClose(close) => {
                let ours = self.link.rx.channel_state(channel) == ChannelState::Closing;
                self.link.channel_close_ok(channel);
                if ours {
                    // Both closed at once: ours is still to be answered.
                    return Step::Nothing;
                }
                Event::ChannelClosed {
                    channel,
                    closing: Closing::of_channel(&close),
                }
            }
            Method::ChannelCloseOk(_) => {
                self.link
                    .rx
                    .set_channel_state(channel, ChannelState::Closed);
                Event::Method { channel, method }
            }
            Method::ConnectionBlocked(ConnectionBlocked { reason }) => Event::Blocked { reason },
            Method::ConnectionUnblocked(_) => Event::Unblocked,
            Method::ConnectionClose(close) => self.on_close(&close),
            _ => Event::Method { channel, method },
        })
    }

    fn on_closing_method<'a>(&mut self, method: Method<'a>) -> Step<'a> {
        match method {
            Method::ConnectionCloseOk(_) => {
                self.end();
                Step::Event(Event::CloseOk)
            }
            Method::ConnectionClose(close) => Step::Event(self.on_close(&close)),
            _ => Step::Nothing,
        }
    }

    fn on_close<'a>(&mut self, close: &ConnectionClose<'a>) -> Event<'a> {
        self.link.send_close_ok();
        self.end();
        Event::Closed {
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

    /// Forgives the peer's silence until `now`, for an embedder that did not read.
    pub const fn excuse_silence(&mut self, now: Time) {
        self.link.excuse(now);
    }

    /// Bytes that must be there before [`Self::poll`] can take anything off `input`, which it has
    /// left: the length of its first frame, 0 where that is not known.
    #[must_use]
    #[inline]
    pub fn needs(&self, input: &[u8]) -> usize {
        match self.state {
            State::Greeting => 0,
            _ => self.link.rx.needs(input),
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
        if self.state == State::Greeting && self.link.rx.offset() == 0 && !rest.is_empty() {
            return sniff::wrong_protocol(rest);
        }
        self.link.disconnected(self.state.during(), rest)
    }

    /// Makes room now for `output` bytes to write, and for the parts of a message that comes cut
    /// on `channel`. Without it both grow when they are first needed.
    pub fn reserve(&mut self, channel: u16, output: usize) {
        self.link.rx.reserve(channel);
        self.link.out().reserve(output);
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

    /// Queues any method: `send(1, &QueueDeclare { queue: "q", ..Default::default() })`.
    ///
    /// # Errors
    /// Names above 255 bytes, tables above the frame size, a connection that is not open; nothing
    /// is queued then.
    pub fn send(&mut self, channel: u16, method: &impl EncodeMethod) -> Result<(), Error> {
        if self.state != State::Open {
            return Err(EncodeError::NotOpen.into());
        }
        Ok(self.link.send(channel, method)?)
    }

    /// Hot path: queues a message. `fill` writes into the first body frame's payload, which is
    /// the template's body until then. Does nothing on a connection that is not open.
    #[inline]
    pub fn publish(&mut self, template: &PublishTemplate, fill: impl FnOnce(&mut [u8])) {
        if self.state == State::Open {
            template.put(self.link.out(), fill);
        }
    }

    /// Hot path: queues a message whose body is its own. `fill` writes into the first body frame's
    /// payload, which is the front of `body` until then. Does nothing on a connection that is not
    /// open.
    #[inline]
    pub fn publish_body(
        &mut self,
        template: &HeadTemplate,
        body: &[u8],
        fill: impl FnOnce(&mut [u8]),
    ) {
        if self.state == State::Open {
            template.put(self.link.out(), body, fill);
        }
    }

    /// Queues a message without a template.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub fn publish_message(
        &mut self,
        channel: u16,
        publish: &BasicPublish<'_>,
        properties: Properties<'_>,
        body: &[u8],
    ) -> Result<(), Error> {
        if self.state != State::Open {
            return Err(EncodeError::NotOpen.into());
        }
        Ok(self.link.send_content(channel, publish, properties, body)?)
    }

    /// Hot path: acknowledges a delivery, or all up to it. Does nothing on a connection that is
    /// not open.
    #[inline]
    pub fn ack(&mut self, channel: u16, delivery_tag: u64, multiple: bool) {
        self.settle(channel, BasicAck::INFO.id, delivery_tag, u8::from(multiple));
    }

    /// Hot path: refuses a delivery, or all up to it (RabbitMQ's extension). Does nothing on a
    /// connection that is not open.
    #[inline]
    pub fn nack(&mut self, channel: u16, delivery_tag: u64, multiple: bool, requeue: bool) {
        let bits = u8::from(multiple) | u8::from(requeue) << 1;
        self.settle(channel, BasicNack::INFO.id, delivery_tag, bits);
    }

    /// Hot path: refuses one delivery. Does nothing on a connection that is not open.
    #[inline]
    pub fn reject(&mut self, channel: u16, delivery_tag: u64, requeue: bool) {
        self.settle(
            channel,
            BasicReject::INFO.id,
            delivery_tag,
            u8::from(requeue),
        );
    }

    #[inline]
    fn settle(&mut self, channel: u16, id: MethodId, delivery_tag: u64, bits: u8) {
        if self.state == State::Open {
            frame::put_settlement(self.link.out(), channel, id.method, delivery_tag, bits);
        }
    }

    /// Starts the orderly close; [`Event::CloseOk`] ends it. Before the handshake is complete, or
    /// after an error, there is nothing to close and nothing is sent.
    pub fn close(&mut self, now: Time, code: u16, text: &str) {
        if self.state == State::Open {
            self.link.send_close(code, text, MethodId::default());
            self.link.wait(now);
            self.link.rx.drain();
            self.state = State::Closing;
        }
    }

    /// Negotiated frame size limit in bytes.
    #[must_use]
    pub const fn frame_max(&self) -> u32 {
        self.link.frame_max
    }

    /// Negotiated highest channel.
    #[must_use]
    pub const fn channel_max(&self) -> u16 {
        self.channel_max
    }

    /// Whether the handshake is complete and nobody closed yet.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.state == State::Open
    }

    /// What the server said about itself; empty before it did.
    #[must_use]
    pub fn server_properties(&self) -> Table<'_> {
        self.server_properties.view()
    }
}

#[inline(always)]
fn settlement_event(settled: &Settlement) -> Option<Event<'static>> {
    let &Settlement {
        channel,
        method,
        delivery_tag,
        bits,
    } = settled;
    let nack = u16::from(method) == BasicNack::INFO.id.method;
    (nack || u16::from(method) == BasicAck::INFO.id.method).then_some(Event::Confirm {
        channel,
        delivery_tag,
        multiple: bits & 1 == 1,
        nack,
    })
}

#[inline(always)]
fn content_event<'a>(
    channel: u16,
    id: MethodId,
    fields: &'a [u8],
    properties: Properties<'a>,
    body: &'a [u8],
) -> Result<Event<'a>, Violation> {
    if id == BasicDeliver::INFO.id {
        let deliver: BasicDeliver<'a> = decode_as(fields)?;
        return Ok(Event::Delivery {
            channel,
            consumer_tag: deliver.consumer_tag,
            delivery_tag: deliver.delivery_tag,
            redelivered: deliver.redelivered,
            exchange: deliver.exchange,
            routing_key: deliver.routing_key,
            properties,
            body,
        });
    }
    match decode_method(id, fields)? {
        Method::BasicGetOk(got) => Ok(Event::GetOk {
            channel,
            delivery_tag: got.delivery_tag,
            redelivered: got.redelivered,
            exchange: got.exchange,
            routing_key: got.routing_key,
            message_count: got.message_count,
            properties,
            body,
        }),
        Method::BasicReturn(returned) => Ok(Event::Returned {
            channel,
            code: returned.reply_code,
            text: returned.reply_text,
            exchange: returned.exchange,
            routing_key: returned.routing_key,
            properties,
            body,
        }),
        method => {
            let what = format!("a server does not send {}", method.info().name);
            Err((reply::COMMAND_INVALID, what))
        }
    }
}
