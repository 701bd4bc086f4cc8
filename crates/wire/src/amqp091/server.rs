//! The server's side of a connection (specification 2.2.4), for an embedded broker and for scripted peers in tests.
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

use super::codec::SecretStr;
use super::common::{CommonState, capabilities};
use super::config::ServerConfig;
use super::connection::{Connection, Side, State, Step, check_greeting};
use super::error::{EncodeError, Error};
use super::event::{Closing, ServerEvent};
use super::properties::Properties;
use super::receive::{ChannelState, Settlement};
use super::spec::*;
use super::table::FieldTable;
use super::template::DeliverTemplate;
use super::{Violation, decode_as, frame};
use crate::Secret;

/// A connection, seen from the server.
pub type Server = Connection<ServerSide>;

/// Server's side of a connection.
#[derive(Debug)]
pub struct ServerSide {
    config: ServerConfig,
}

impl Side for ServerSide {
    type Event<'a> = ServerEvent<'a>;

    /// Takes the protocol header; then `connection.start` is queued.
    fn greet(connection: &mut Server, input: &mut &[u8]) -> Result<bool, Error> {
        check_greeting(input, &PROTOCOL_HEADER).inspect_err(|_| {
            connection.common.out().extend_from_slice(&PROTOCOL_HEADER);
            connection.end();
        })?;
        if input.len() < PROTOCOL_HEADER.len() {
            return Ok(false);
        }
        connection.common.rx.skip(input, PROTOCOL_HEADER.len());
        let config = &connection.side.config;
        let properties = server_properties(&config.properties)?;
        let start = ConnectionStart {
            version_major: 0,
            version_minor: 9,
            server_properties: properties.view(),
            mechanisms: config.mechanisms.as_bytes(),
            locales: b"en_US",
        };
        connection.common.send(0, &start)?;
        connection.state = State::LoggingIn;
        Ok(true)
    }

    fn handle_handshake<'a>(
        connection: &mut Server,
        now: Time,
        method: Method<'a>,
    ) -> Result<Step<ServerEvent<'a>>, Error> {
        match (connection.state, method) {
            (State::LoggingIn, Method::ConnectionStartOk(start)) => connection.log_in(&start).map(Step::Event),
            (State::Tuning, Method::ConnectionTuneOk(tune)) => connection.tune(now, tune).map(|()| Step::Nothing),
            (State::Opening, Method::ConnectionOpen(open)) => {
                connection.state = State::OpenPending;
                Ok(Step::Event(ServerEvent::Open { virtual_host: open.virtual_host }))
            }
            (_, method) => Err(connection.out_of_turn(&method)),
        }
    }

    #[inline]
    fn handle_open<'a>(
        connection: &mut Server,
        channel: u16,
        method: Method<'a>,
    ) -> Result<Step<ServerEvent<'a>>, Error> {
        Ok(match method {
            Method::ChannelOpen(_) => Step::Event(connection.open_channel(channel)?),
            Method::ChannelCloseOk(_) => {
                let receiver = &mut connection.common.rx;
                receiver.set_channel_state(channel, ChannelState::Closed);
                Step::Nothing
            }
            _ => Step::Event(ServerEvent::Method { channel, method }),
        })
    }

    fn opened(_: &Server) -> Option<ServerEvent<'_>> {
        None
    }

    #[inline(always)]
    fn settlement<'a>(settlement: &Settlement) -> Option<ServerEvent<'a>> {
        let &Settlement { channel, method, delivery_tag, bits } = settlement;
        let (first, second) = (bits & 1 == 1, bits & 2 == 2);
        Some(match u16::from(method) {
            ack if ack == BasicAck::INFO.id.method => ServerEvent::Ack { channel, delivery_tag, multiple: first },
            nack if nack == BasicNack::INFO.id.method => {
                ServerEvent::Nack { channel, delivery_tag, multiple: first, requeue: second }
            }
            _ => ServerEvent::Nack { channel, delivery_tag, multiple: false, requeue: first },
        })
    }

    #[inline(always)]
    fn content<'a>(
        channel: u16,
        id: MethodId,
        fields: &'a [u8],
        properties: Properties<'a>,
        body: &'a [u8],
    ) -> Result<ServerEvent<'a>, Violation> {
        if id != BasicPublish::INFO.id {
            return Err((reply::COMMAND_INVALID, format!("a client does not send {}", id.name())));
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

    fn too_large<'a>(connection: &mut Server, channel: u16, id: MethodId, _: u64) -> Result<ServerEvent<'a>, Error> {
        let text = "PRECONDITION_FAILED - message size is larger than the maximum of this server";
        connection.close_channel(channel, reply::PRECONDITION_FAILED, text, id);
        let closing = Closing { code: reply::PRECONDITION_FAILED, text, method: id };
        Ok(ServerEvent::ChannelClosed { channel, closing })
    }

    fn channel_closed(channel: u16, closing: Closing<'_>) -> ServerEvent<'_> {
        ServerEvent::ChannelClosed { channel, closing }
    }

    fn closed(closing: Closing<'_>) -> ServerEvent<'_> {
        ServerEvent::Closed { closing }
    }

    fn close_ok<'a>() -> ServerEvent<'a> {
        ServerEvent::CloseOk
    }

    fn awaited(state: State) -> &'static str {
        match state {
            State::Greeting => "protocol header from the client",
            State::LoggingIn | State::LoginPending => "login of the client",
            State::Tuning => "connection.tune-ok from the client",
            State::Opening | State::OpenPending => "connection.open from the client",
            State::Open | State::Closing | State::Closed => "answer to closing the connection",
        }
    }

    fn during(state: State) -> &'static str {
        match state {
            State::Greeting => "before it said anything",
            State::Open => "while it was in use",
            State::Closing | State::Closed => "before it agreed to close it",
            _ => "during the handshake",
        }
    }
}

impl Connection<ServerSide> {
    /// Waits for the client's protocol header.
    pub fn new(mut config: ServerConfig, now: Time) -> Self {
        config.frame_max = config.frame_max.max(FRAME_MIN_SIZE);
        if config.channel_max == 0 {
            config.channel_max = u16::MAX;
        }
        let common = CommonState::new(config.max_body, config.timeout, now);
        Self { common, state: State::Greeting, channel_max: config.channel_max, side: ServerSide { config } }
    }

    /// The settings, while the client has said nothing: it may want another protocol.
    pub fn unused_config(&self) -> Option<&ServerConfig> {
        (self.state == State::Greeting).then_some(&self.side.config)
    }

    fn open_channel(&mut self, channel: u16) -> Result<ServerEvent<'static>, Error> {
        if channel > self.channel_max {
            let what = format!("channel {channel}, the highest is {}", self.channel_max);
            return Err(self.fail_with((reply::NOT_ALLOWED, what), &[]));
        }
        if self.common.rx.channel_state(channel) != ChannelState::Closed {
            return Err(self.fail_with((reply::CHANNEL_ERROR, format!("channel {channel} is open already")), &[]));
        }
        self.common.rx.set_channel_state(channel, ChannelState::Open);
        self.common.send_small(channel, &ChannelOpenOk::default());
        Ok(ServerEvent::ChannelOpened { channel })
    }

    /// Hot path: queues a delivery. The body is split at the connection's frame-max.
    /// Errors: a connection that is not open, or properties above the frame size; nothing is queued then.
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
        let frame_max = self.common.frame_max;
        let out = self.common.out();
        Ok(template.put(out, delivery_tag, redelivered, properties, body, frame_max)?)
    }

    /// Hot path: confirms a published message, or all up to it. Does nothing on a connection that is not open.
    #[inline]
    pub fn confirm(&mut self, channel: u16, delivery_tag: u64, multiple: bool) {
        self.settle(channel, BasicAck::INFO.id, delivery_tag, u8::from(multiple));
    }

    /// Refuses a published message, or all up to it (`basic.nack`). Does nothing on a connection that is not open.
    pub fn confirm_nack(&mut self, channel: u16, delivery_tag: u64, multiple: bool) {
        self.settle(channel, BasicNack::INFO.id, delivery_tag, u8::from(multiple));
    }

    /// Closes a channel (404, 406, ...). What the client still sends on it is dropped until it
    /// agrees, and nothing may be sent on it. Does nothing on a channel that is not open.
    pub fn close_channel(&mut self, channel: u16, code: u16, text: &str, cause: MethodId) {
        let open = self.common.rx.channel_state(channel) == ChannelState::Open;
        if self.state == State::Open && open {
            let close = ChannelClose {
                reply_code: code,
                reply_text: frame::short(text),
                class_id: cause.class,
                method_id: cause.method,
            };
            self.common.send_small(channel, &close);
        }
    }

    /// Starts the orderly close of the connection; [`ServerEvent::CloseOk`] ends it. Does nothing unless open.
    pub fn close(&mut self, now: Time, code: u16, text: &str, cause: MethodId) {
        if self.state == State::Open {
            self.begin_close(now, code, text, cause);
        }
    }
}

impl Server {
    fn log_in<'a>(&mut self, start: &ConnectionStartOk<'a>) -> Result<ServerEvent<'a>, Error> {
        let offered = self.side.config.mechanisms.split(' ').any(|name| name == start.mechanism);
        let credentials = match start.mechanism {
            "PLAIN" if offered => plain_credentials(start.response),
            "EXTERNAL" if offered => std::str::from_utf8(start.response.0).ok().map(|u| (u, "")),
            // The response is what a client says of itself, if anything.
            "ANONYMOUS" if offered => Some(("", "")),
            other => {
                let what = format!("the login mechanism {other:?} is not offered");
                return Err(self.fail_with((reply::ACCESS_REFUSED, what), &[]));
            }
        };
        let Some((user, password)) = credentials else {
            let what = format!("the login response is not as {} has it", start.mechanism);
            return Err(self.fail_with((reply::SYNTAX_ERROR, what), &[]));
        };
        self.state = State::LoginPending;
        Ok(ServerEvent::Login {
            mechanism: start.mechanism,
            user,
            password: Secret::from(password),
            client_properties: start.client_properties,
        })
    }

    /// Negotiated limits must not exceed the offer; RabbitMQ takes "no limit" as exceeding it, too.
    fn tune(&mut self, now: Time, tune: ConnectionTuneOk) -> Result<(), Error> {
        let ConnectionTuneOk { channel_max, frame_max, heartbeat } = tune;
        if frame_max > self.side.config.frame_max || frame_max < FRAME_MIN_SIZE {
            let ours = self.side.config.frame_max;
            let what = format!("frame-max {frame_max} is not in {FRAME_MIN_SIZE} to {ours}");
            return Err(self.fail_with((reply::NOT_ALLOWED, what), &[]));
        }
        if channel_max > self.side.config.channel_max || channel_max == 0 {
            let ours = self.side.config.channel_max;
            let what = format!("channel-max {channel_max} is not in 1 to {ours}");
            return Err(self.fail_with((reply::NOT_ALLOWED, what), &[]));
        }
        self.channel_max = channel_max;
        self.common.tune(frame_max, heartbeat, now);
        self.state = State::Opening;
        Ok(())
    }

    /// Answers [`ServerEvent::Login`]: goes on with tuning. Does nothing at another time.
    pub fn accept_login(&mut self) {
        if self.state == State::LoginPending {
            let ServerConfig { channel_max, frame_max, heartbeat_s, .. } = self.side.config;
            self.common.send_small(0, &ConnectionTune { channel_max, frame_max, heartbeat: heartbeat_s });
            self.state = State::Tuning;
        }
    }

    /// Answers [`ServerEvent::Open`]: the connection is open. Does nothing at another time.
    pub fn accept_open(&mut self) {
        if self.state == State::OpenPending {
            self.common.send_small(0, &ConnectionOpenOk::default());
            self.common.waiting_since = None;
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
}

/// User and password of a PLAIN response (RFC 4616): an identity that nobody uses, user, password.
pub(crate) fn plain_credentials(response: SecretStr<'_>) -> Option<(&str, &str)> {
    let mut parts = std::str::from_utf8(response.0).ok()?.split('\0');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(_), Some(user), Some(password), None) => Some((user, password)),
        _ => None,
    }
}

/// The embedder's properties and what this side can do.
fn server_properties(given: &FieldTable) -> Result<FieldTable, EncodeError> {
    let mut properties = given.clone();
    if given.get("capabilities").is_none() {
        properties.insert("capabilities", &capabilities()?)?;
    }
    Ok(properties)
}
