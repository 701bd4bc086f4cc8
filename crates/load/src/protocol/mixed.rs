//! Loads of one run over several protocols: a connection is of its group's. Ledger and latencies go across, as messages
//! do at a broker that speaks all of them. Queues are prepared and asked for in their group's, too.

use measure::{Nanos, Time};
use transport::ConnectOptions;

use super::amqp10::{LinkConnection, LinkHandle, LinkSpec};
use super::amqp091::{AmqpConnection, ChannelHandle, ChannelSpec};
use super::mqtt::{MqttConnection, MqttHandle, MqttSpec};
use super::{
    Admin, Connection, ConnectionSpec, Event, Made, Outgoing, Progress, Receiver, Reply, Sender, Server, WireSizes,
};
use crate::control::Interruption;
use crate::failure::Stage;
use crate::{Control, Destination, Endpoint, Environment, Error, Group, Protocol};
use plan::payload::FULL_LEN;

/// Purpose of a client, in its group's protocol.
#[derive(Clone, Debug)]
pub(crate) enum MixedSpec {
    Amqp091(Box<ChannelSpec>),
    Amqp10(Box<LinkSpec>),
    Mqtt(MqttSpec),
}

/// A connection whose clients, all of one group, speak that group's protocol.
pub(crate) enum MixedConnection {
    Amqp091(Box<AmqpConnection>),
    Amqp10(Box<LinkConnection>),
    Mqtt(Box<MqttConnection>),
}

/// The way of one client to send or to settle.
pub(crate) enum MixedHandle<'a> {
    Amqp091(ChannelHandle<'a>),
    Amqp10(LinkHandle<'a>),
    Mqtt(MqttHandle<'a>),
}

/// The conversation beside a load, in its endpoint's protocol.
pub(crate) enum MixedAdmin<'a, E: Environment> {
    /// That of AMQP 1.0 knows the other.
    Amqp(<LinkConnection as Connection>::Admin<'a, E>),
    Mqtt(Box<<MqttConnection as Connection>::Admin<'a, E>>),
}

/// Does the same with whichever it is.
macro_rules! either {
    ($of:expr, $it:ident => $does:expr) => {
        match $of {
            Self::Amqp091($it) => $does,
            Self::Amqp10($it) => $does,
            Self::Mqtt($it) => $does,
        }
    };
}

macro_rules! admin {
    ($of:expr, $it:ident => $does:expr) => {
        match $of {
            Self::Amqp($it) => $does,
            Self::Mqtt($it) => $does,
        }
    };
}

impl<'a, E: Environment> Admin<'a, E> for MixedAdmin<'a, E> {
    fn connect(
        environment: &E,
        endpoint: &Endpoint,
        options: ConnectOptions,
        timeout: Nanos,
        control: &'a Control,
    ) -> Result<Self, Interruption> {
        Ok(match endpoint.protocol {
            Protocol::Mqtt => Self::Mqtt(Box::new(Admin::connect(environment, endpoint, options, timeout, control)?)),
            Protocol::Amqp091 | Protocol::Amqp10 => {
                Self::Amqp(Admin::connect(environment, endpoint, options, timeout, control)?)
            }
        })
    }

    fn server(&self) -> &Server {
        admin!(self, it => it.server())
    }

    fn prepare(&mut self, group: &Group, made: &mut Vec<Made>) -> Result<(), Interruption> {
        admin!(self, it => it.prepare(group, made))
    }

    fn doubt(&self) -> Option<&'static str> {
        admin!(self, it => it.doubt())
    }

    fn purge(&mut self, group: &Group) -> Result<(), Interruption> {
        admin!(self, it => it.purge(group))
    }

    fn delete(&mut self, made: &Made) -> Result<(), Interruption> {
        admin!(self, it => it.delete(made))
    }

    fn depth(&mut self, queue: &str) -> Result<Option<(u32, u32)>, Interruption> {
        admin!(self, it => it.depth(queue))
    }

    fn close(self) -> Result<(), Interruption> {
        admin!(self, it => it.close())
    }
}

/// Whether a message's properties are sections of AMQP 1.0, which begin with a zero. Those of AMQP 0.9.1 begin with the
/// flags of headers and `reply-to`, among others.
fn are_sections(properties: &[u8]) -> bool {
    properties.first() == Some(&0)
}

impl Connection for MixedConnection {
    type ClientSpec = MixedSpec;
    type Admin<'a, E: Environment> = MixedAdmin<'a, E>;
    type Handle<'a> = MixedHandle<'a>;

    const DECLARES_AGAIN: bool = LinkConnection::DECLARES_AGAIN;
    const HELP: &'static str = LinkConnection::HELP;
    /// Enough for AMQP 0.9.1, too.
    const SIZES: WireSizes = WireSizes { frame_max: MqttConnection::SIZES.frame_max, ..LinkConnection::SIZES };

    fn validate(group: &Group) -> Result<(), Error> {
        match group.protocol {
            Protocol::Amqp091 => AmqpConnection::validate(group),
            Protocol::Amqp10 => LinkConnection::validate(group),
            Protocol::Mqtt => MqttConnection::validate(group),
        }
    }

    fn consumer(group: &Group, n: usize, later: bool) -> Result<MixedSpec, Error> {
        Ok(match group.protocol {
            Protocol::Amqp091 => MixedSpec::Amqp091(Box::new(AmqpConnection::consumer(group, n, later)?)),
            Protocol::Amqp10 => MixedSpec::Amqp10(Box::new(LinkConnection::consumer(group, n, later)?)),
            Protocol::Mqtt => MixedSpec::Mqtt(MqttConnection::consumer(group, n, later)?),
        })
    }

    fn producer(group: &Group, destination: &Destination, outgoing: Outgoing) -> Result<MixedSpec, Error> {
        Ok(match group.protocol {
            Protocol::Amqp091 => MixedSpec::Amqp091(Box::new(AmqpConnection::producer(group, destination, outgoing)?)),
            Protocol::Amqp10 => MixedSpec::Amqp10(Box::new(LinkConnection::producer(group, destination, outgoing)?)),
            Protocol::Mqtt => MixedSpec::Mqtt(MqttConnection::producer(group, destination, outgoing)?),
        })
    }

    fn new(spec: ConnectionSpec<MixedSpec>, now: Time) -> Self {
        let ConnectionSpec { endpoint, name, timeout, resumes, clients } = spec;
        let (mut channels, mut links, mut mqtt) = (Vec::new(), Vec::new(), Vec::new());
        for client in clients {
            match client {
                MixedSpec::Amqp091(channel) => channels.push(*channel),
                MixedSpec::Amqp10(link) => links.push(*link),
                MixedSpec::Mqtt(client) => mqtt.push(client),
            }
        }
        if !mqtt.is_empty() {
            let spec = ConnectionSpec { endpoint, name, timeout, resumes, clients: mqtt };
            Self::Mqtt(Box::new(MqttConnection::new(spec, now)))
        } else if links.is_empty() {
            let spec = ConnectionSpec { endpoint, name, timeout, resumes, clients: channels };
            Self::Amqp091(Box::new(AmqpConnection::new(spec, now)))
        } else {
            let spec = ConnectionSpec { endpoint, name, timeout, resumes, clients: links };
            Self::Amqp10(Box::new(LinkConnection::new(spec, now)))
        }
    }

    fn trace_header(properties: &[u8]) -> Option<&[u8]> {
        match are_sections(properties) {
            true => LinkConnection::trace_header(properties),
            false => AmqpConnection::trace_header(properties),
        }
    }

    fn is_dead_letter(properties: &[u8]) -> bool {
        !are_sections(properties) && AmqpConnection::is_dead_letter(properties)
    }

    fn reply_to(properties: &[u8]) -> Option<&str> {
        if are_sections(properties) { None } else { AmqpConnection::reply_to(properties) }
    }

    fn restart(&mut self, endpoint: Option<&Endpoint>, now: Time) {
        either!(self, it => it.restart(endpoint, now));
    }

    fn endpoint(&self) -> &Endpoint {
        either!(self, it => it.endpoint())
    }

    #[inline]
    fn poll<'a, 'i: 'a>(&'a mut self, now: Time, input: &mut &'i [u8]) -> Result<Option<(usize, Event<'a>)>, Error> {
        either!(self, it => it.poll(now, input))
    }

    fn proceed(&mut self, now: Time) -> Result<Progress, Error> {
        either!(self, it => it.proceed(now))
    }

    #[inline]
    fn handle(&mut self, client: usize) -> MixedHandle<'_> {
        match self {
            Self::Amqp091(it) => MixedHandle::Amqp091(it.handle(client)),
            Self::Amqp10(it) => MixedHandle::Amqp10(it.handle(client)),
            Self::Mqtt(it) => MixedHandle::Mqtt(it.handle(client)),
        }
    }

    fn untaken(&mut self, client: usize, properties: &[u8]) {
        either!(self, it => it.untaken(client, properties));
    }

    fn fence(&mut self, client: usize) -> Result<(), Error> {
        either!(self, it => it.fence(client))
    }

    fn holds(&self, client: usize) -> Option<u64> {
        either!(self, it => it.holds(client))
    }

    fn is_answered(&self) -> bool {
        either!(self, it => it.is_answered())
    }

    fn renew_token(&mut self) -> Result<(), Error> {
        either!(self, it => it.renew_token())
    }

    fn reserve(&mut self, output: usize) {
        either!(self, it => it.reserve(output));
    }

    fn leave(&mut self, now: Time) -> Result<(), Error> {
        either!(self, it => it.leave(now))
    }

    fn give_up(&mut self, now: Time) {
        either!(self, it => it.give_up(now));
    }

    #[inline]
    fn pending_output(&self) -> &[u8] {
        either!(self, it => it.pending_output())
    }

    #[inline]
    fn consume_output(&mut self, bytes: usize) {
        either!(self, it => it.consume_output(bytes));
    }

    fn next_timeout(&self) -> Option<Time> {
        either!(self, it => it.next_timeout())
    }

    fn handle_timeout(&mut self, now: Time) -> Result<(), Error> {
        either!(self, it => it.handle_timeout(now))
    }

    fn excuse_silence(&mut self, now: Time) {
        either!(self, it => it.excuse_silence(now));
    }

    #[inline]
    fn needs(&self, input: &[u8]) -> usize {
        either!(self, it => it.needs(input))
    }

    fn end_of_input(&self, rest: &[u8]) -> Error {
        either!(self, it => it.end_of_input(rest))
    }

    fn stage(&self) -> &Stage {
        either!(self, it => it.stage())
    }
}

impl Sender for MixedHandle<'_> {
    #[inline]
    fn publish(&mut self, fill: impl FnOnce(&mut [u8])) {
        either!(self, it => it.publish(fill));
    }

    #[inline]
    fn publish_body(&mut self, body: &[u8], fill: impl FnOnce(&mut [u8])) {
        either!(self, it => it.publish_body(body, fill));
    }

    fn set_routing_key(&mut self, key: &[u8]) {
        either!(self, it => it.set_routing_key(key));
    }

    fn set_message_id(&mut self, id: &[u8]) {
        either!(self, it => it.set_message_id(id));
    }

    fn set_timestamp(&mut self, unix_s: u64) {
        either!(self, it => it.set_timestamp(unix_s));
    }

    fn set_trace_header(&mut self, header: &[u8; FULL_LEN]) {
        either!(self, it => it.set_trace_header(header));
    }

    fn commit(&mut self) -> Result<(), Error> {
        either!(self, it => Sender::commit(it))
    }

    #[inline]
    fn message_wire_len(&self) -> (usize, usize) {
        either!(self, it => it.message_wire_len())
    }

    #[inline]
    fn pending(&self) -> usize {
        either!(self, it => it.pending())
    }

    #[inline]
    fn credit(&self) -> u64 {
        either!(self, it => it.credit())
    }
}

impl Receiver for MixedHandle<'_> {
    #[inline]
    fn acknowledge(&mut self, tag: u64, multiple: bool) {
        either!(self, it => it.acknowledge(tag, multiple));
    }

    fn refuse(&mut self, tag: u64, multiple: bool, requeue: bool) {
        either!(self, it => it.refuse(tag, multiple, requeue));
    }

    fn commit(&mut self) -> Result<(), Error> {
        either!(self, it => Receiver::commit(it))
    }

    fn subscribe(&mut self) -> Result<(), Error> {
        either!(self, it => it.subscribe())
    }

    fn fetch(&mut self) -> Result<(), Error> {
        either!(self, it => it.fetch())
    }

    fn respond(&mut self, reply: &Reply) -> Result<(), Error> {
        either!(self, it => it.respond(reply))
    }
}
