//! AMQP 0.9.1: all that the load knows of it.
//! A connection carries one channel for each of its clients. The set-up of a channel is a list of
//! requests, each answered by the broker. Subscriptions come last, when all channels have gone through
//! all other steps, and all at once. So deliveries may come while some are not answered, and only then:
//! the first one also ends the set-up.

mod admin;
mod assignment;
mod channel;
mod failure;
mod properties;
mod request;

use std::sync::LazyLock;

use measure::Time;
use wire::Secret;
use wire::amqp091::{
    BodyAllowance, Client, ClientConfig, ConnectionUpdateSecret, EncodeMethod, Event as WireEvent, Mechanism, Method,
    Properties, SecretStr,
};

use self::admin::AmqpAdmin;
use self::channel::Channel;
pub(crate) use self::channel::ChannelHandle;
pub(crate) use self::failure::permitted;
use self::failure::unasked;
use self::properties::encode;
pub(crate) use self::request::{Answer, ChannelSpec, Queue, Request, Role};
use super::{Confirm, ConnectionSpec, DeliveryOutcome, Event, Outgoing, Progress, WireSizes, too_many_clients};
use crate::failure::Stage;
use crate::{Auth, Destination, Endpoint, Environment, Error, Group, Token};
use plan::payload::TRACE_HEADER;
use plan::{FRAME_MAX, STREAM_OFFSET};

/// RabbitMQ's pseudo-queue: answers to a message's `reply-to` come back over the channel that published it.
const REPLY_TO: &str = "amq.rabbitmq.reply-to";
/// Purpose of a channel that receives replies, for its failure.
const ASK_FOR_REPLIES: &str = "ask for direct replies";
/// Bodies that are half there may always take so much together.
const LEAST_FOR_BODIES: u64 = 256 << 20;
/// Where the machine has more memory, they may take this part of it.
const PART_FOR_BODIES: u64 = 4;

/// Memory for message bodies in several frames, shared by all connections of this process.
static BODIES: LazyLock<BodyAllowance> = LazyLock::new(|| {
    let machine = rustix::system::sysinfo();
    let memory = u64::from(machine.mem_unit).saturating_mul(machine.totalram as u64);
    BodyAllowance::new((memory / PART_FOR_BODIES).max(LEAST_FOR_BODIES))
});

/// How far a connection's channels have got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SetUpState {
    /// They go through the steps before their subscriptions.
    Preparing,
    /// They have asked for their subscriptions, and not all are answered.
    Subscribing,
    Running,
    /// They end their subscriptions, or the connection is being closed.
    Leaving,
}

/// A connection with a channel for each of its clients, which are counted from 0.
pub(crate) struct AmqpConnection {
    spec: ConnectionSpec<ChannelSpec>,
    client: Client,
    stage: Stage,
    state: SetUpState,
    /// Its clients', and behind these as many to ask over, as far as somebody has asked.
    channels: Vec<Channel>,
    clients: usize,
    /// Channels that this state waits for.
    busy: usize,
    /// The broker's last answer, and its channel.
    answer: Option<(usize, Answer)>,
    /// Renewed tokens that the broker has not acknowledged.
    secrets_sent: u32,
    /// Which renewal of the token the broker knows, where there is one.
    token_version: u64,
    /// The properties of replies with a trace header, once there was one.
    reply_properties: Vec<u8>,
}

/// Read before the token itself: one that is renewed in between is only told once more.
fn version_of(endpoint: &Endpoint) -> u64 {
    endpoint.token.as_ref().map_or(0, Token::version)
}

fn client_of(spec: &ConnectionSpec<ChannelSpec>, now: Time) -> Client {
    let endpoint = &spec.endpoint;
    let config = ClientConfig {
        user: endpoint.user.clone(),
        password: Secret::new(endpoint.password()),
        mechanism: match endpoint.auth {
            // By SCRAM only loads over AMQP 1.0 log in, whose set-up comes here once the broker has proved itself.
            Auth::Plain | Auth::ScramSha256 => Mechanism::Plain,
            Auth::External => Mechanism::External,
            Auth::Anonymous => Mechanism::Anonymous,
        },
        virtual_host: endpoint.virtual_host.clone(),
        heartbeat_s: endpoint.connection.heartbeat_s,
        frame_max: endpoint.connection.frame_max.min(FRAME_MAX),
        connection_name: spec.name.clone(),
        timeout: spec.timeout,
        body_allowance: Some(BODIES.clone()),
        ..ClientConfig::default()
    };
    Client::new(config, now)
}

impl super::Connection for AmqpConnection {
    type ClientSpec = ChannelSpec;
    type Admin<'a, E: Environment> = AmqpAdmin<'a, E>;
    type Handle<'a> = ChannelHandle<'a>;

    const DECLARES_AGAIN: bool = true;
    const HELP: &'static str = failure::HELP;
    const SIZES: WireSizes = WireSizes {
        frame_max: FRAME_MAX as usize,
        // Frames with `basic.ack` and `tx.commit`.
        acknowledgement: 21,
        commit: 12,
        smallest_delivery: 60,
        delivery_head: 2_048,
    };

    fn validate(group: &Group) -> Result<(), Error> {
        assignment::validate(group)
    }

    fn consumer(group: &Group, n: usize, later: bool) -> Result<ChannelSpec, Error> {
        assignment::consumer(group, n, later)
    }

    fn producer(group: &Group, destination: &Destination, outgoing: Outgoing) -> Result<ChannelSpec, Error> {
        assignment::producer(group, destination, outgoing)
    }

    #[inline]
    fn trace_header(properties: &[u8]) -> Option<&[u8]> {
        Properties::from_bytes(properties).header_bytes(TRACE_HEADER)
    }

    #[inline]
    fn is_dead_letter(properties: &[u8]) -> bool {
        Properties::from_bytes(properties).header_bytes("x-first-death-reason").is_some()
    }

    fn reply_to(properties: &[u8]) -> Option<&str> {
        Properties::from_bytes(properties).decode().ok().and_then(|properties| properties.reply_to)
    }

    fn new(mut spec: ConnectionSpec<ChannelSpec>, now: Time) -> Self {
        let token_version = version_of(&spec.endpoint);
        let client = client_of(&spec, now);
        let channels: Vec<_> = std::mem::take(&mut spec.clients)
            .into_iter()
            .zip(1..=u16::MAX)
            .map(|(channel, number)| Channel::new(channel, number, spec.resumes))
            .collect();
        Self {
            token_version,
            reply_properties: Vec::new(),
            spec,
            client,
            stage: Stage::LogIn,
            state: SetUpState::Preparing,
            busy: channels.len(),
            clients: channels.len(),
            answer: None,
            secrets_sent: 0,
            channels,
        }
    }

    fn restart(&mut self, endpoint: Option<&Endpoint>, now: Time) {
        if let Some(endpoint) = endpoint {
            self.spec.endpoint.clone_from(endpoint);
        }
        self.token_version = version_of(&self.spec.endpoint);
        self.client = client_of(&self.spec, now);
        self.stage = Stage::LogIn;
        self.state = SetUpState::Preparing;
        self.channels.truncate(self.clients);
        self.busy = self.channels.len();
        self.answer = None;
        self.secrets_sent = 0;
        self.channels.iter_mut().for_each(Channel::restart);
    }

    fn endpoint(&self) -> &Endpoint {
        &self.spec.endpoint
    }

    // A call of its own costs 10 ns a message, and so does a copy of the event: it is taken apart where it is.
    #[inline(always)]
    fn poll<'a, 'i: 'a>(&'a mut self, now: Time, input: &mut &'i [u8]) -> Result<Option<(usize, Event<'a>)>, Error> {
        let Self { spec, client, stage, state, channels, answer, secrets_sent, clients, .. } = self;
        let endpoint = &spec.endpoint;
        let at = |channel: u16| usize::from(channel).saturating_sub(1);
        let unasked = |channel: u16, what: &str| unasked(endpoint, channel, what);
        let mut answered = |at: usize, what: Answer| {
            *answer = Some((at, what));
            Ok(Some((at, Event::Answer)))
        };
        Ok(Some(match client.poll(now, input) {
            Ok(None) => return Ok(None),
            Err(error) => return Err(failure::of_wire(endpoint, stage, &error)),
            Ok(Some(WireEvent::Delivery { channel, delivery_tag: tag, redelivered, body, properties, .. })) => {
                let Some(its) = channels
                    .get_mut(at(channel))
                    .filter(|its| its.asked.subscription && *state != SetUpState::Preparing)
                else {
                    return Err(unasked(channel, "basic.deliver"));
                };
                its.resume_at(properties, 1);
                let properties = properties.as_bytes();
                (at(channel), Event::Delivery { tag, redelivered, body, properties })
            }
            Ok(Some(WireEvent::Confirm { channel, delivery_tag, multiple, nack })) => {
                if !channels.get(at(channel)).is_some_and(Channel::confirms) {
                    return Err(unasked(channel, if nack { "basic.nack" } else { "basic.ack" }));
                }
                let outcome = if nack { DeliveryOutcome::Refused } else { DeliveryOutcome::Accepted };
                let first = (!multiple).then_some(delivery_tag);
                (at(channel), Event::Confirm(Confirm { first, last: delivery_tag, outcome }))
            }
            Ok(Some(WireEvent::GetOk { channel, got, body, properties })) => {
                if !channels.get_mut(at(channel)).is_some_and(Channel::got) {
                    return Err(unasked(channel, "basic.get-ok"));
                }
                let (tag, redelivered, properties) = (got.delivery_tag, got.redelivered, properties.as_bytes());
                (at(channel), Event::Delivery { tag, redelivered, body, properties })
            }
            Ok(Some(WireEvent::GetEmpty { channel })) => {
                if !channels.get_mut(at(channel)).is_some_and(Channel::got) {
                    return Err(unasked(channel, "basic.get-empty"));
                }
                (at(channel), Event::Empty)
            }
            Ok(Some(WireEvent::Returned { channel, body, properties, .. })) => {
                if !channels.get(at(channel)).is_some_and(Channel::is_mandatory) {
                    return Err(unasked(channel, "basic.return"));
                }
                let properties = properties.as_bytes();
                (at(channel), Event::Returned { body, properties })
            }
            Ok(Some(WireEvent::Blocked { reason })) => (0, Event::Blocked { reason }),
            Ok(Some(WireEvent::Unblocked)) => (0, Event::Unblocked),
            Ok(Some(WireEvent::CloseOk)) => return answered(0, Answer::Closed),
            Ok(Some(WireEvent::Open { .. })) => return answered(0, Answer::Open),
            Ok(Some(WireEvent::Method { channel, method })) => match method {
                // RabbitMQ slows channels down by credit, and brokers that do it so ask for
                // nothing but its answer, which is given.
                Method::ChannelFlow(_) => (at(channel), Event::Other),
                Method::ConnectionUpdateSecretOk(_) if take_one(secrets_sent) => (at(channel), Event::Other),
                method => match channels.get_mut(at(channel)).and_then(|its| its.answer_of(&method)) {
                    Some(Answer::Committed) => (at(channel), Event::Committed),
                    Some(answer) => return answered(at(channel), answer),
                    None => return Err(unasked(channel, method.info().name)),
                },
            },
            Ok(Some(WireEvent::ChannelClosed { channel, closing })) => {
                let its = channels.get(at(channel));
                let is_missing = its.is_some_and(|its| its.may_miss(&closing));
                let asker_of = at(channel).checked_sub(*clients);
                if is_missing || asker_of.is_some() {
                    if let Some(client) = asker_of.and_then(|client| channels.get_mut(client)) {
                        client.holds = is_missing.then_some(0);
                    }
                    return answered(at(channel), Answer::Missing);
                }
                let stage = its.map_or(&*stage, |its| &its.stage);
                return Err(failure::of_closing(endpoint, stage, &closing));
            }
            Ok(Some(WireEvent::Closed { closing })) => return Err(failure::of_closing(endpoint, stage, &closing)),
            Ok(Some(WireEvent::ConsumerCancelled { channel, .. })) => {
                let queue = channels.get(at(channel)).map_or("", |c| c.queue.as_str());
                return Err(failure::of_cancel(endpoint, queue));
            }
        }))
    }

    fn proceed(&mut self, now: Time) -> Result<Progress, Error> {
        let Self { spec, client, channels, .. } = self;
        match self.answer {
            Some((_, Answer::Open)) => {
                let most = usize::from(client.channel_max());
                if channels.len() > most {
                    return Err(too_many_clients(&spec.endpoint, channels.len(), most));
                }
                for channel in channels.iter_mut() {
                    channel.is_awaited = true;
                    if channel.next(client, &spec.endpoint)? == Progress::Ready {
                        channel.is_awaited = false;
                        self.busy -= 1;
                    }
                }
                if let Some(channel) = channels.first() {
                    self.stage = channel.stage.clone();
                }
                match self.go_on()? {
                    Progress::Ready => Ok(Progress::Ready),
                    _ => Ok(Progress::LoggedIn),
                }
            }
            Some((_, Answer::Cancelled)) => {
                self.busy = self.busy.saturating_sub(1);
                if self.busy == 0 {
                    self.close(now);
                }
                Ok(Progress::Waiting)
            }
            Some((_, Answer::Closed)) => Ok(Progress::Closed),
            Some((at, _)) if at >= self.clients => self.found_out(at),
            Some((at, ref answer)) => {
                let Some(channel) = channels.get_mut(at) else { return Ok(Progress::Waiting) };
                let progress = channel.proceed(answer, client, &spec.endpoint)?;
                self.stage = channel.stage.clone();
                if progress != Progress::Ready {
                    return Ok(progress);
                }
                if std::mem::take(&mut channel.is_awaited) {
                    self.busy -= 1;
                    return self.go_on();
                }
                Ok(Progress::Answered)
            }
            None => Ok(Progress::Waiting),
        }
    }

    #[inline]
    fn handle(&mut self, client: usize) -> ChannelHandle<'_> {
        self.channel(client)
    }

    fn untaken(&mut self, client: usize, properties: &[u8]) {
        if let Some(its) = self.channels.get_mut(client) {
            its.resume_at(Properties::from_bytes(properties), 0);
        }
    }

    fn fence(&mut self, client: usize) -> Result<(), Error> {
        if self.looks_into_queue(client)? { Ok(()) } else { self.channel(client).fence() }
    }

    fn holds(&self, client: usize) -> Option<u64> {
        self.channels.get(client)?.holds
    }

    fn is_answered(&self) -> bool {
        self.channels.iter().all(Channel::is_answered)
    }

    fn renew_token(&mut self) -> Result<(), Error> {
        let Some(token) = &self.spec.endpoint.token else { return Ok(()) };
        let version = token.version();
        let is_open = matches!(self.state, SetUpState::Subscribing | SetUpState::Running);
        if version == self.token_version || !is_open {
            return Ok(());
        }
        self.token_version = version;
        self.secrets_sent += 1;
        let text = token.text();
        let method =
            ConnectionUpdateSecret { new_secret: SecretStr(text.as_bytes()), reason: "renewed before it expires" };
        self.client.send(0, &method).map_err(|error| failure::of_wire(&self.spec.endpoint, &self.stage, &error))
    }

    fn reserve(&mut self, output: usize) {
        for at in 0..self.channels.len() {
            self.channel(at).reserve(output);
        }
    }

    fn leave(&mut self, now: Time) -> Result<(), Error> {
        self.busy = 0;
        self.state = SetUpState::Leaving;
        for channel in &mut self.channels {
            channel.is_awaited = false;
            let asked = channel.cancel(&mut self.client, &self.spec.endpoint)?;
            self.busy += usize::from(asked);
        }
        if self.busy == 0 {
            self.close(now);
        }
        Ok(())
    }

    #[inline]
    fn pending_output(&self) -> &[u8] {
        self.client.pending_output()
    }

    #[inline]
    fn consume_output(&mut self, bytes: usize) {
        self.client.consume_output(bytes);
    }

    fn next_timeout(&self) -> Option<Time> {
        self.client.next_timeout()
    }

    fn handle_timeout(&mut self, now: Time) -> Result<(), Error> {
        self.client.handle_timeout(now).map_err(|error| failure::of_wire(&self.spec.endpoint, &self.stage, &error))
    }

    fn excuse_silence(&mut self, now: Time) {
        self.client.excuse_silence(now);
    }

    #[inline]
    fn needs(&self, input: &[u8]) -> usize {
        self.client.needs(input)
    }

    fn end_of_input(&self, rest: &[u8]) -> Error {
        let error = self.client.end_of_input(rest);
        failure::of_wire(&self.spec.endpoint, &self.stage, &error)
    }

    fn stage(&self) -> &Stage {
        &self.stage
    }
}

impl AmqpConnection {
    /// The way to send over a client's channel, which must exist.
    #[inline]
    fn channel(&mut self, at: usize) -> ChannelHandle<'_> {
        ChannelHandle {
            client: &mut self.client,
            channel: &mut self.channels[at],
            endpoint: &self.spec.endpoint,
            reply_properties: &mut self.reply_properties,
        }
    }

    /// Asks a client's own queue how much it holds, on a channel beside the client's: the broker closes it where the
    /// queue is gone. `false` where there is nothing to ask, or no channel for it.
    fn looks_into_queue(&mut self, client: usize) -> Result<bool, Error> {
        let at = self.clients + client;
        let queue = self.channels[client].own_queue();
        let Some(queue) = queue.filter(|_| at < usize::from(self.client.channel_max())) else { return Ok(false) };
        let question = Request::look_into(queue);
        self.channels[client].holds = None;
        for next in self.channels.len()..=at {
            self.channels.push(Channel::asking(next as u16 + 1));
        }
        if self.channels[at].stage == Stage::LogIn {
            self.channel(at).ask(Request::open_channel())?;
        }
        self.channel(at).ask(question)?;
        Ok(true)
    }

    /// Takes an answer on a channel beside a client's. Behind the last one the client's puts up its fence.
    fn found_out(&mut self, at: usize) -> Result<Progress, Error> {
        let client = at - self.clients;
        match self.answer {
            Some((_, Answer::Missing)) => self.channels[at] = Channel::asking(at as u16 + 1),
            Some((_, Answer::Declared { messages, .. })) => {
                self.channels[client].holds = Some(u64::from(messages));
            }
            _ => {}
        }
        if self.channels[at].stage != Stage::LogIn {
            let asker = self.channel(at);
            let progress = asker.channel.next(asker.client, asker.endpoint)?;
            if progress != Progress::Ready {
                return Ok(progress);
            }
        }
        self.channel(client).fence()?;
        Ok(Progress::Answered)
    }

    /// Sends a request on a client's channel once the previous is answered; [`Progress::Answered`] tells its answer.
    pub(crate) fn ask(&mut self, at: usize, request: Request) -> Result<(), Error> {
        self.channel(at).ask(request)?;
        self.stage = self.channels[at].stage.clone();
        Ok(())
    }

    /// The broker's last answer.
    pub(crate) fn answer(&mut self) -> Option<Answer> {
        self.answer.take().map(|(_, answer)| answer)
    }

    /// Sends transient messages of zeros over a client's channel.
    pub(crate) fn publish_zeros(&mut self, at: usize, queue: &str, messages: u32, size: usize) -> Result<(), Error> {
        self.channel(at).publish_zeros(queue, messages, size)
    }

    /// A property of the server; empty where it has none.
    pub(crate) fn server_property(&self, name: &str) -> String {
        let properties = self.client.server_properties();
        properties.get(name).and_then(|value| value.as_str()).unwrap_or_default().to_owned()
    }

    /// The most channels that the broker allows.
    pub(crate) fn most_clients(&self) -> usize {
        usize::from(self.client.channel_max())
    }

    /// Takes the whole set-up further when nothing of the present state is left to wait for.
    fn go_on(&mut self) -> Result<Progress, Error> {
        if self.busy == 0 && self.state == SetUpState::Preparing {
            self.state = SetUpState::Subscribing;
            for channel in &mut self.channels {
                if channel.begins_at_set_up() {
                    channel.is_awaited = true;
                    self.busy += 1;
                    channel.subscribe(&mut self.client, &self.spec.endpoint)?;
                    self.stage = channel.stage.clone();
                }
            }
        }
        if self.busy > 0 {
            return Ok(Progress::Waiting);
        }
        self.state = SetUpState::Running;
        self.stage = Stage::Running;
        Ok(Progress::Ready)
    }

    fn close(&mut self, now: Time) {
        self.stage = Stage::Closing;
        self.client.close(now, 200, "bellows is done");
    }
}

/// Takes one off a count; tells whether there was one.
const fn take_one(count: &mut u32) -> bool {
    let some = *count > 0;
    *count = count.saturating_sub(1);
    some
}
