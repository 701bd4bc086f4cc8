//! One client's conversation with a broker, without the socket: set-up, messages and
//! acknowledgements, and the way out. AMQP 0.9.1 for now; everything that is peculiar to a
//! protocol stays in here and in `admin`.
//!
//! A connection carries one channel for each producer or consumer that shares it. Order of calls:
//! feed [`Connection::poll`] until it returns `None`, answer [`Signal::Step`] with [`Connection::proceed`],
//! write its output. [`Progress::Ready`] ends the set-up; from then on a [`ChannelHandle`]
//! sends.
//!
//! Subscriptions come last, when all channels have gone through all other steps, and all at once.
//! So deliveries may come while some are not answered, and only then: the first one also ends the
//! set-up. An answer to a question that was not asked is the peer's error.

pub(crate) mod admin;
mod channel;
mod reply;
mod spec;
mod task;

use measure::{Nanos, Time};
use transport::Output;
use wire::Secret;
use wire::amqp091::{
    Client, ClientConfig, ConnectionUpdateSecret, EncodeMethod, Event, Mechanism, Method,
    Properties, SecretStr,
};

use self::channel::Channel;
pub(crate) use self::channel::ChannelHandle;
pub(crate) use self::reply::{REPLY_TO, Reply};
pub(crate) use self::spec::{
    Answers, Begin, BodyLengths, ChannelSpec, ConnectionSpec, Declaration, Exchange, Publishing,
    Role, Source, Subscription,
};
use crate::failure::{self, Stage};
use crate::payload::TRACE_HEADER;
use crate::{Auth, Endpoint, Error, Token, limits};

/// Where a stream's consumer begins, and where a message of it is.
pub(crate) const STREAM_OFFSET: &str = "x-stream-offset";
/// The exchange behind `topic://`.
pub(crate) const TOPIC_EXCHANGE: &str = "amq.topic";
/// The largest frame asked for: RabbitMQ's own limit. A reader needs room for one.
pub(crate) const FRAME_MAX: u32 = 131_072;

/// What has come in.
#[derive(Debug)]
pub(crate) enum Signal<'a> {
    /// Hand it to [`Connection::proceed`].
    Step(Step),
    Confirm {
        tag: u64,
        multiple: bool,
        nack: bool,
    },
    /// The last transaction is committed.
    Committed,
    Delivery {
        tag: u64,
        redelivered: bool,
        body: &'a [u8],
        extras: Extras<'a>,
    },
    /// There was no message to get.
    Empty,
    /// A message of its own, given back.
    Returned {
        body: &'a [u8],
        extras: Extras<'a>,
    },
    Blocked {
        reason: &'a str,
    },
    Unblocked,
    /// The orderly close is complete.
    Closed,
    /// Nothing of interest.
    Other,
}

/// What comes with a message beside its body; not read yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extras<'a>(Properties<'a>);

impl<'a> Extras<'a> {
    /// Of a message that has nothing but its body.
    #[cfg(test)]
    pub(crate) const NONE: Self = Self(Properties::NONE);

    /// The same of a copy of its bytes.
    pub(crate) const fn from_bytes(bytes: &'a [u8]) -> Self {
        Self(Properties::from_bytes(bytes))
    }

    pub(crate) fn as_bytes(self) -> &'a [u8] {
        self.0.as_bytes()
    }

    /// The header of a message whose body has none.
    #[inline]
    pub(crate) fn trace_header(self) -> Option<&'a [u8]> {
        self.0.header_bytes(TRACE_HEADER)
    }

    /// Where an answer goes.
    pub(crate) fn reply_to(self) -> Option<&'a str> {
        self.0
            .decode()
            .ok()
            .and_then(|properties| properties.reply_to)
    }
}

/// An answer that moves the set-up or the way out on.
#[derive(Debug)]
pub(crate) enum Step {
    Open,
    ChannelOpen,
    ExchangeDeclared,
    ConfirmSelected,
    TransactionsSelected,
    Declared { queue: String },
    Bound,
    Qos,
    Consuming,
    Cancelled,
}

/// What a [`Step`] led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    Waiting,
    /// Set up: messages may flow.
    Ready,
}

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

pub(crate) struct Connection {
    spec: ConnectionSpec,
    client: Client,
    stage: Stage,
    state: SetUpState,
    channels: Vec<Channel>,
    /// Channels that this state waits for.
    busy: usize,
    /// Renewed tokens that the broker has not acknowledged.
    secrets_sent: u32,
    /// Which renewal of the token the broker knows, where there is one.
    token_version: u64,
}

/// The configuration of every connection to an endpoint.
pub(crate) fn client_config(endpoint: &Endpoint, name: &str, timeout: Nanos) -> ClientConfig {
    ClientConfig {
        user: endpoint.user.clone(),
        password: Secret::new(endpoint.password()),
        mechanism: match endpoint.auth {
            Auth::Plain => Mechanism::Plain,
            Auth::External => Mechanism::External,
        },
        virtual_host: endpoint.virtual_host.clone(),
        heartbeat_s: endpoint.connection.heartbeat_s,
        frame_max: endpoint.connection.frame_max.min(FRAME_MAX),
        connection_name: name.to_owned(),
        timeout,
        body_allowance: Some(limits::body_allowance()),
        ..ClientConfig::default()
    }
}

/// Read before the token itself: one that is renewed in between is only told once more.
pub(crate) fn version_of(endpoint: &Endpoint) -> u64 {
    endpoint.token.as_ref().map_or(0, Token::version)
}

impl Output for Connection {
    #[inline]
    fn pending(&self) -> &[u8] {
        self.client.pending_output()
    }

    #[inline]
    fn consume(&mut self, bytes: usize) {
        self.client.consume_output(bytes);
    }
}

impl Connection {
    pub(crate) fn new(mut spec: ConnectionSpec, now: Time) -> Self {
        let token_version = version_of(&spec.endpoint);
        let config = client_config(&spec.endpoint, &spec.connection_name, spec.timeout);
        let channels: Vec<_> = std::mem::take(&mut spec.channels)
            .into_iter()
            .zip(1..=u16::MAX)
            .map(|(channel, number)| Channel::new(channel, number, spec.resumes))
            .collect();
        Self {
            token_version,
            spec,
            client: Client::new(config, now),
            stage: Stage::LogIn,
            state: SetUpState::Preparing,
            busy: channels.len(),
            secrets_sent: 0,
            channels,
        }
    }

    /// Begins again on a new transport, which may lead to another node.
    pub(crate) fn restart(&mut self, endpoint: &Endpoint, now: Time) {
        self.spec.endpoint.clone_from(endpoint);
        self.token_version = version_of(&self.spec.endpoint);
        let config = client_config(
            &self.spec.endpoint,
            &self.spec.connection_name,
            self.spec.timeout,
        );
        self.client = Client::new(config, now);
        self.stage = Stage::LogIn;
        self.state = SetUpState::Preparing;
        self.busy = self.channels.len();
        self.secrets_sent = 0;
        self.channels.iter_mut().for_each(Channel::restart);
    }

    /// The way to send over a channel, counted from 0.
    ///
    /// # Panics
    /// Where there are fewer channels.
    #[inline]
    pub(crate) fn channel(&mut self, at: usize) -> ChannelHandle<'_> {
        ChannelHandle {
            client: &mut self.client,
            channel: &mut self.channels[at],
            endpoint: &self.spec.endpoint,
        }
    }

    /// Takes bytes off `input` and tells what they say, and on which channel (counted from 0);
    /// `None` when more are needed.
    #[inline]
    pub(crate) fn poll<'a>(
        &'a mut self,
        now: Time,
        input: &mut &'a [u8],
    ) -> Result<Option<(usize, Signal<'a>)>, Error> {
        let Self {
            spec,
            client,
            stage,
            state,
            channels,
            secrets_sent,
            ..
        } = self;
        let endpoint = &spec.endpoint;
        let event = match client.poll(now, input) {
            Ok(None) => return Ok(None),
            Ok(Some(event)) => event,
            Err(error) => return Err(failure::of_wire(endpoint, stage, &error)),
        };
        let at = |channel: u16| usize::from(channel).saturating_sub(1);
        let unasked = |channel: u16, what: &str| unasked(endpoint, channel, what);
        Ok(Some(match event {
            Event::Delivery {
                channel,
                delivery_tag,
                redelivered,
                body,
                properties,
                ..
            } => {
                let Some(its) = channels
                    .get_mut(at(channel))
                    .filter(|its| its.asked.subscription && *state != SetUpState::Preparing)
                else {
                    return Err(unasked(channel, "basic.deliver"));
                };
                if its.follows_stream
                    && let Some(offset) = offset_of(properties)
                {
                    its.next_offset = Some(offset.saturating_add(1));
                }
                let signal = Signal::Delivery {
                    tag: delivery_tag,
                    redelivered,
                    body,
                    extras: Extras(properties),
                };
                (at(channel), signal)
            }
            Event::Confirm {
                channel,
                delivery_tag,
                multiple,
                nack,
            } => {
                if !channels.get(at(channel)).is_some_and(Channel::confirms) {
                    return Err(unasked(
                        channel,
                        if nack { "basic.nack" } else { "basic.ack" },
                    ));
                }
                let signal = Signal::Confirm {
                    tag: delivery_tag,
                    multiple,
                    nack,
                };
                (at(channel), signal)
            }
            Event::GetOk {
                channel,
                delivery_tag,
                redelivered,
                body,
                properties,
                ..
            } => {
                if !channels.get_mut(at(channel)).is_some_and(Channel::got) {
                    return Err(unasked(channel, "basic.get-ok"));
                }
                let signal = Signal::Delivery {
                    tag: delivery_tag,
                    redelivered,
                    body,
                    extras: Extras(properties),
                };
                (at(channel), signal)
            }
            Event::GetEmpty { channel } => {
                if !channels.get_mut(at(channel)).is_some_and(Channel::got) {
                    return Err(unasked(channel, "basic.get-empty"));
                }
                (at(channel), Signal::Empty)
            }
            Event::Returned {
                channel,
                body,
                properties,
                ..
            } => {
                if !channels.get(at(channel)).is_some_and(Channel::is_mandatory) {
                    return Err(unasked(channel, "basic.return"));
                }
                let extras = Extras(properties);
                (at(channel), Signal::Returned { body, extras })
            }
            Event::Blocked { reason } => (0, Signal::Blocked { reason }),
            Event::Unblocked => (0, Signal::Unblocked),
            Event::CloseOk => (0, Signal::Closed),
            Event::Open { .. } => (0, Signal::Step(Step::Open)),
            Event::Method { channel, method } => {
                let was_asked = match &method {
                    // RabbitMQ slows channels down by credit, and brokers that do it so ask for
                    // nothing but its answer, which is given.
                    Method::ChannelFlow(_) => true,
                    Method::ConnectionUpdateSecretOk(_) => take_one(secrets_sent),
                    method => channels
                        .get_mut(at(channel))
                        .is_some_and(|its| its.awaits(method)),
                };
                if !was_asked {
                    return Err(unasked(channel, method.info().name));
                }
                (at(channel), signal_of(&method))
            }
            Event::ChannelClosed { channel, closing } => {
                let stage = channels.get(at(channel)).map_or(&*stage, |c| &c.stage);
                return Err(failure::of_closing(endpoint, stage, &closing));
            }
            Event::Closed { closing } => {
                return Err(failure::of_closing(endpoint, stage, &closing));
            }
            Event::ConsumerCancelled { channel, .. } => {
                let queue = channels.get(at(channel)).map_or("", |c| c.queue.as_str());
                return Err(failure::of_cancel(endpoint, queue));
            }
        }))
    }

    /// Takes the next step of the set-up or the way out.
    pub(crate) fn proceed(&mut self, at: usize, step: Step, now: Time) -> Result<Progress, Error> {
        let Self {
            spec,
            client,
            channels,
            ..
        } = self;
        match step {
            Step::Open => {
                let most = usize::from(client.channel_max());
                if channels.len() > most {
                    return Err(Error::invalid(
                        format!(
                            "{} producers and consumers cannot share a connection of {}: the broker \
                             allows {most} channels",
                            channels.len(),
                            spec.endpoint
                        ),
                        "ask for more connections",
                    ));
                }
                for channel in channels.iter_mut() {
                    channel.is_awaited = true;
                    channel.next(client, &spec.endpoint)?;
                }
                if let Some(channel) = channels.first() {
                    self.stage = channel.stage.clone();
                }
            }
            Step::Cancelled => {
                self.busy = self.busy.saturating_sub(1);
                if self.busy == 0 {
                    self.close(now);
                }
            }
            step => {
                let Some(channel) = channels.get_mut(at) else {
                    return Ok(Progress::Waiting);
                };
                let progress = channel.proceed(step, client, &spec.endpoint)?;
                self.stage = channel.stage.clone();
                if progress == Progress::Ready && std::mem::take(&mut channel.is_awaited) {
                    self.busy -= 1;
                    return self.go_on();
                }
            }
        }
        Ok(Progress::Waiting)
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

    /// Whether everything that was asked for on its channels is answered.
    pub(crate) fn is_answered(&self) -> bool {
        self.channels.iter().all(Channel::is_answered)
    }

    /// Tells the broker of a renewed token, where there is one.
    pub(crate) fn keep_token(&mut self) -> Result<(), Error> {
        let Some(token) = &self.spec.endpoint.token else {
            return Ok(());
        };
        let version = token.version();
        let is_open = matches!(self.state, SetUpState::Subscribing | SetUpState::Running);
        if version == self.token_version || !is_open {
            return Ok(());
        }
        self.token_version = version;
        self.secrets_sent += 1;
        let text = token.text();
        let method = ConnectionUpdateSecret {
            new_secret: SecretStr(text.as_bytes()),
            reason: "renewed before it expires",
        };
        self.client
            .send(0, &method)
            .map_err(|error| failure::of_wire(&self.spec.endpoint, &self.stage, &error))
    }

    /// Makes room for `output` bytes to write, and for messages that come cut.
    pub(crate) fn reserve(&mut self, output: usize) {
        for at in 0..self.channels.len() {
            self.channel(at).reserve(output);
        }
    }

    /// Starts the way out; [`Signal::Closed`] ends it.
    pub(crate) fn leave(&mut self, now: Time) -> Result<(), Error> {
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

    fn close(&mut self, now: Time) {
        self.stage = Stage::Closing;
        self.client.close(now, 200, "the load has ended");
    }

    /// The earliest instant at which [`Self::handle_timeout`] has something to do.
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.client.next_timeout()
    }

    pub(crate) fn handle_timeout(&mut self, now: Time) -> Result<(), Error> {
        self.client
            .handle_timeout(now)
            .map_err(|error| failure::of_wire(&self.spec.endpoint, &self.stage, &error))
    }

    /// Takes the silence so far for this side's own doing: it did not read.
    pub(crate) const fn excuse_silence(&mut self, now: Time) {
        self.client.excuse_silence(now);
    }

    /// See [`Client::needs`].
    #[inline]
    pub(crate) fn needs(&self, input: &[u8]) -> usize {
        self.client.needs(input)
    }

    /// What it means that the transport ended here.
    pub(crate) fn end_of_input(&self, rest: &[u8]) -> Error {
        failure::of_wire(
            &self.spec.endpoint,
            &self.stage,
            &self.client.end_of_input(rest),
        )
    }

    /// What it means that the transport failed here.
    pub(crate) fn transport_failed(&self, error: &std::io::Error) -> Error {
        failure::of_transport(&self.spec.endpoint, &self.stage, error)
    }

    /// What it means that the set-up took longer than anybody waits.
    pub(crate) fn took_too_long(&self, allowed: Nanos) -> Error {
        failure::of_timeout(&self.spec.endpoint, &self.stage, allowed)
    }
}

/// Something came that nobody asked for.
#[cold]
fn unasked(endpoint: &Endpoint, channel: u16, what: &str) -> Error {
    Error::Protocol {
        endpoint: endpoint.to_string(),
        detail: format!("{what} came on channel {channel}, where nothing had asked for it"),
    }
}

/// Takes one off a count; tells whether there was one.
const fn take_one(count: &mut u32) -> bool {
    let some = *count > 0;
    *count = count.saturating_sub(1);
    some
}

/// The place of a message in its stream.
fn offset_of(properties: Properties<'_>) -> Option<i64> {
    let headers = properties.decode().ok()?.headers?;
    headers.get(STREAM_OFFSET)?.as_i64()
}

fn signal_of(method: &Method<'_>) -> Signal<'static> {
    Signal::Step(match method {
        Method::ChannelOpenOk(_) => Step::ChannelOpen,
        Method::ExchangeDeclareOk(_) => Step::ExchangeDeclared,
        Method::ConfirmSelectOk(_) => Step::ConfirmSelected,
        Method::TxSelectOk(_) => Step::TransactionsSelected,
        Method::TxCommitOk(_) => return Signal::Committed,
        Method::QueueDeclareOk(ok) => Step::Declared {
            queue: ok.queue.to_owned(),
        },
        Method::QueueBindOk(_) => Step::Bound,
        Method::BasicQosOk(_) => Step::Qos,
        Method::BasicConsumeOk(_) => Step::Consuming,
        Method::BasicCancelOk(_) => Step::Cancelled,
        _ => return Signal::Other,
    })
}
