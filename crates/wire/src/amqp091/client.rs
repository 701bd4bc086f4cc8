//! The client's side of a connection (specification 2.2.4): header, start-ok (PLAIN: `"\0" user "\0" password`),
//! tune-ok (the smaller of both limits, 0 being none), open.

use measure::Time;

use super::codec::SecretStr;
use super::common::{CommonState, capabilities};
use super::config::{ClientConfig, Mechanism};
use super::connection::{Connection, Side, State, Step, check_greeting};
use super::error::{EncodeError, Error};
use super::event::{Closing, Event};
use super::properties::Properties;
use super::receive::{ChannelState, Settlement};
use super::spec::*;
use super::table::{FieldTable, Table};
use super::template::{HeadTemplate, PublishTemplate};
use super::{DEFAULT_CHANNEL_MAX, DEFAULT_FRAME_MAX, MAX_BODY, Violation, decode_as, decode_method};

/// A connection, seen from the client.
pub type Client = Connection<ClientSide>;

/// Client's side of a connection.
#[derive(Debug)]
pub struct ClientSide {
    config: ClientConfig,
    server_properties: FieldTable,
}

impl Side for ClientSide {
    type Event<'a> = Event<'a>;

    fn greet(connection: &mut Client, input: &mut &[u8]) -> Result<bool, Error> {
        if connection.common.rx.offset() > 0 {
            return Ok(true);
        }
        check_greeting(input, &[FRAME_METHOD, 0, 0]).inspect_err(|_| connection.end())
    }

    fn handle_handshake<'a>(connection: &mut Client, now: Time, method: Method<'a>) -> Result<Step<Event<'a>>, Error> {
        match (connection.state, method) {
            (State::Greeting, Method::ConnectionStart(start)) => connection.log_in(&start)?,
            (State::LoggingIn, Method::ConnectionTune(tune)) => connection.tune(now, tune)?,
            (State::Opening, Method::ConnectionOpenOk(_)) => {
                connection.state = State::Open;
                connection.common.waiting_since = None;
                return Ok(Step::Opened);
            }
            (_, method) => return Err(connection.out_of_turn(&method)),
        }
        Ok(Step::Nothing)
    }

    #[inline]
    fn handle_open<'a>(connection: &mut Client, channel: u16, method: Method<'a>) -> Result<Step<Event<'a>>, Error> {
        Ok(Step::Event(match method {
            Method::BasicGetEmpty(_) => Event::GetEmpty { channel },
            Method::BasicCancel(BasicCancel { consumer_tag, no_wait }) => {
                if !no_wait {
                    connection.common.send_small(channel, &BasicCancelOk { consumer_tag });
                }
                Event::ConsumerCancelled { channel, consumer_tag }
            }
            Method::ChannelFlow(ChannelFlow { active }) => {
                connection.common.send_small(channel, &ChannelFlowOk { active });
                Event::Method { channel, method }
            }
            Method::ChannelCloseOk(_) => {
                connection.common.rx.set_channel_state(channel, ChannelState::Closed);
                Event::Method { channel, method }
            }
            Method::ConnectionBlocked(ConnectionBlocked { reason }) => Event::Blocked { reason },
            Method::ConnectionUnblocked(_) => Event::Unblocked,
            _ => Event::Method { channel, method },
        }))
    }

    fn opened(connection: &Client) -> Option<Event<'_>> {
        Some(Event::Open {
            server_properties: connection.side.server_properties.view(),
            frame_max: connection.common.frame_max,
            channel_max: connection.channel_max,
            heartbeat_s: connection.common.heartbeat_s,
        })
    }

    #[inline(always)]
    fn settlement<'a>(settlement: &Settlement) -> Option<Event<'a>> {
        let &Settlement { channel, method, delivery_tag, bits } = settlement;
        let nack = u16::from(method) == BasicNack::INFO.id.method;
        (nack || u16::from(method) == BasicAck::INFO.id.method).then_some(Event::Confirm {
            channel,
            delivery_tag,
            multiple: bits & 1 == 1,
            nack,
        })
    }

    #[inline(always)]
    fn content<'a>(
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
            Method::BasicGetOk(got) => Ok(Event::GetOk { channel, got, properties, body }),
            Method::BasicReturn(returned) => Ok(Event::Returned { channel, returned, properties, body }),
            method => Err((reply::COMMAND_INVALID, format!("a server does not send {}", method.info().name))),
        }
    }

    fn too_large<'a>(connection: &mut Client, _: u16, _: MethodId, size: u64) -> Result<Event<'a>, Error> {
        let limit = connection.side.config.max_body.min(MAX_BODY);
        let what = format!("a body of {size} bytes, the limit is {limit}");
        Err(connection.fail_with((reply::CONTENT_TOO_LARGE, what), &[]))
    }

    fn channel_closed(channel: u16, closing: Closing<'_>) -> Event<'_> {
        Event::ChannelClosed { channel, closing }
    }

    fn closed(closing: Closing<'_>) -> Event<'_> {
        Event::Closed { closing }
    }

    fn close_ok<'a>() -> Event<'a> {
        Event::CloseOk
    }

    fn awaited(state: State) -> &'static str {
        match state {
            State::Greeting => "connection.start from the server",
            State::LoggingIn => "answer to the login",
            State::Opening => "answer to opening the virtual host",
            _ => "answer to closing the connection",
        }
    }

    fn during(state: State) -> &'static str {
        match state {
            State::Greeting => "before it said anything in AMQP",
            State::LoggingIn => "during the login, as brokers do to refuse it",
            State::Opening => "while the virtual host was being opened",
            State::Open => "while it was in use",
            _ => "before it agreed to close it",
        }
    }
}

impl Connection<ClientSide> {
    /// Queues the protocol header as the first output.
    pub fn new(config: ClientConfig, now: Time) -> Self {
        let mut common = CommonState::new(config.max_body, config.timeout, now);
        common.out().extend_from_slice(&PROTOCOL_HEADER);
        common.rx.share(config.body_allowance.clone());
        Self {
            common,
            state: State::Greeting,
            channel_max: config.channel_max,
            side: ClientSide { config, server_properties: FieldTable::new() },
        }
    }

    /// Makes room now for `output` bytes to write, and for the parts of a message that comes cut
    /// on `channel`. Without it both grow when they are first needed.
    pub fn reserve(&mut self, channel: u16, output: usize) {
        self.common.rx.reserve(channel);
        self.common.out().reserve(output);
    }

    /// Hot path: queues a message. `fill` writes into the first body frame's payload, which is
    /// the template's body until then. Does nothing on a connection that is not open.
    #[inline]
    pub fn publish(&mut self, template: &PublishTemplate, fill: impl FnOnce(&mut [u8])) {
        if self.state == State::Open {
            template.put(self.common.out(), fill);
        }
    }

    /// Hot path: queues a message whose body is its own. `fill` writes into the first body frame's payload, which is
    /// the front of `body` until then. Does nothing on a connection that is not open.
    #[inline]
    pub fn publish_body(&mut self, template: &HeadTemplate, body: &[u8], fill: impl FnOnce(&mut [u8])) {
        if self.state == State::Open {
            template.put(self.common.out(), body, fill);
        }
    }

    /// Hot path: acknowledges a delivery, or all up to it. Does nothing on a connection that is not open.
    #[inline]
    pub fn ack(&mut self, channel: u16, delivery_tag: u64, multiple: bool) {
        self.settle(channel, BasicAck::INFO.id, delivery_tag, u8::from(multiple));
    }

    /// Hot path: refuses a delivery, or all up to it (RabbitMQ's extension). Does nothing unless open.
    #[inline]
    pub fn nack(&mut self, channel: u16, delivery_tag: u64, multiple: bool, requeue: bool) {
        let bits = u8::from(multiple) | u8::from(requeue) << 1;
        self.settle(channel, BasicNack::INFO.id, delivery_tag, bits);
    }

    /// Starts the orderly close; [`Event::CloseOk`] ends it. Before the handshake is complete, or
    /// after an error, there is nothing to close and nothing is sent.
    pub fn close(&mut self, now: Time, code: u16, text: &str) {
        if self.state == State::Open {
            self.begin_close(now, code, text, MethodId::default());
        }
    }

    /// Server properties; empty before it did.
    pub fn server_properties(&self) -> Table<'_> {
        self.side.server_properties.view()
    }
}

impl Client {
    fn log_in(&mut self, start: &ConnectionStart<'_>) -> Result<(), Error> {
        let version = (start.version_major, start.version_minor);
        if version != (0, 9) {
            let what = format!("the server speaks AMQP {}-{}, not 0-9-1", version.0, version.1);
            return Err(self.fail_with((reply::NOT_ALLOWED, what), &[]));
        }
        let wanted = self.side.config.mechanism.name();
        if !start.mechanisms.split(|b| *b == b' ').any(|name| name == wanted.as_bytes()) {
            self.state = State::Closed;
            let offered = String::from_utf8_lossy(start.mechanisms).into_owned();
            return Err(Error::NoMechanism { offered, wanted });
        }
        self.side.server_properties = start.server_properties.to_owned();
        let response = match self.side.config.mechanism {
            Mechanism::Plain => {
                format!("\0{}\0{}", self.side.config.user, self.side.config.password.expose())
            }
            Mechanism::External => String::new(),
            Mechanism::Anonymous => "bellows".to_owned(),
        };
        let properties = client_properties(&self.side.config)?;
        self.common.send(
            0,
            &ConnectionStartOk {
                client_properties: properties.view(),
                mechanism: wanted,
                response: SecretStr(response.as_bytes()),
                locale: "en_US",
            },
        )?;
        self.state = State::LoggingIn;
        Ok(())
    }

    fn tune(&mut self, now: Time, tune: ConnectionTune) -> Result<(), Error> {
        if tune.frame_max != 0 && tune.frame_max < FRAME_MIN_SIZE {
            let what = format!("frame-max {}, the minimum is {FRAME_MIN_SIZE}", tune.frame_max);
            return Err(self.fail_with((reply::SYNTAX_ERROR, what), &[]));
        }
        let smaller = |ours: u32, theirs: u32| match (ours, theirs) {
            (0, limit) | (limit, 0) => limit,
            (a, b) => a.min(b),
        };
        let wanted = match self.side.config.frame_max {
            0 => 0,
            limit => limit.max(FRAME_MIN_SIZE),
        };
        let frame_max = match smaller(wanted, tune.frame_max) {
            0 => DEFAULT_FRAME_MAX,
            limit => limit,
        };
        let smaller = |a: u16, b: u16| smaller(a.into(), b.into()) as u16;
        self.channel_max = smaller(self.side.config.channel_max, tune.channel_max);
        if self.channel_max == 0 {
            self.channel_max = DEFAULT_CHANNEL_MAX;
        }
        let heartbeat = smaller(self.side.config.heartbeat_s, tune.heartbeat);
        self.common.tune(frame_max, heartbeat, now);
        let channel_max = self.channel_max;
        self.common.send(0, &ConnectionTuneOk { channel_max, frame_max, heartbeat })?;
        let virtual_host = self.side.config.virtual_host.as_str();
        self.common.send(0, &ConnectionOpen { virtual_host, ..ConnectionOpen::default() })?;
        self.state = State::Opening;
        Ok(())
    }
}

/// Client properties; RabbitMQ keys its behaviour on the capabilities.
fn client_properties(config: &ClientConfig) -> Result<FieldTable, EncodeError> {
    let mut properties = FieldTable::new();
    properties.insert("product", "bellows")?;
    properties.insert("version", env!("CARGO_PKG_VERSION"))?;
    properties.insert("platform", "Rust")?;
    properties.insert("capabilities", &capabilities()?)?;
    if !config.connection_name.is_empty() {
        properties.insert("connection_name", config.connection_name.as_str())?;
    }
    Ok(properties)
}
