//! One client's conversation with a broker, without the socket: set-up, messages and
//! acknowledgements, and the way out. AMQP 0.9.1 for now; everything that is peculiar to a
//! protocol stays in here and in `admin`.
//!
//! Order of calls: feed [`Link::poll`] until it returns `None`, answer [`Signal::Step`] with
//! [`Link::proceed`], write [`Link::pending_output`]. [`Signal::Ready`] ends the set-up.

use measure::{Nanos, Time};
use wire::Secret;
use wire::amqp091::{
    BasicCancel, BasicConsume, BasicProperties, BasicPublish, BasicQos, ChannelOpen, Client,
    ClientConfig, ConfirmSelect, EncodeMethod, Event, FieldTable, HeadTemplate, Mechanism, Method,
    Properties, PublishTemplate, QueueBind, QueueDeclare,
};

use crate::failure::{self, Stage};
use crate::payload::FILLER;
use crate::{Endpoint, Error};

/// The only channel of a client.
const CHANNEL: u16 = 1;
/// A tag is unique within its channel only; every delivery carries it, so it is short.
const CONSUMER_TAG: &str = "c";
/// Where a stream's consumer begins, and where a message of it is.
pub(crate) const STREAM_OFFSET: &str = "x-stream-offset";
/// The exchange behind `topic://`.
pub(crate) const TOPIC_EXCHANGE: &str = "amq.topic";
/// The largest frame asked for: RabbitMQ's own limit. A reader needs room for one.
pub(crate) const FRAME_MAX: u32 = 131_072;
/// Heartbeat interval asked for, in seconds.
const HEARTBEAT_S: u16 = 60;

/// Everything that a client's conversation is about.
#[derive(Clone, Debug)]
pub(crate) struct LinkSpec {
    pub(crate) endpoint: Endpoint,
    pub(crate) connection_name: String,
    pub(crate) patience: Nanos,
    pub(crate) role: Role,
    /// The queue to declare when the connection is made anew: a broker that has restarted may have
    /// forgotten it. The first time it was done before.
    pub(crate) declaration: Option<Declaration>,
    /// The connection may be made anew, and a stream's consumer then goes on where it was.
    pub(crate) resumes: bool,
}

/// A queue with its properties.
#[derive(Clone, Debug)]
pub(crate) struct Declaration {
    pub(crate) queue: String,
    pub(crate) durable: bool,
    pub(crate) arguments: FieldTable,
}

#[derive(Clone, Debug)]
pub(crate) enum Role {
    Producer {
        exchange: String,
        routing_key: String,
        confirm: bool,
        persistent: bool,
        mandatory: bool,
        bodies: BodyLengths,
    },
    Consumer {
        source: Source,
        prefetch: u16,
        no_ack: bool,
        arguments: FieldTable,
    },
}

/// How long message bodies are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyLengths {
    /// All of them: their frames are encoded once.
    Same(usize),
    /// From the first to the second.
    Between(usize, usize),
}

/// A message's frames, as far as they are the same for all.
enum Template {
    Whole(PublishTemplate),
    /// The head, and the bytes on the wire of the smallest and the largest message.
    Head(HeadTemplate, usize, usize),
}

/// What a consumer reads from.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    Queue(String),
    /// A queue of its own, bound to this key of [`TOPIC_EXCHANGE`].
    Topic(String),
}

/// What has come in.
#[derive(Debug)]
pub(crate) enum Signal<'a> {
    /// Hand it to [`Link::proceed`].
    Step(Step),
    Confirm {
        tag: u64,
        multiple: bool,
        nack: bool,
    },
    Delivery {
        tag: u64,
        redelivered: bool,
        body: &'a [u8],
    },
    Returned,
    Blocked {
        reason: &'a str,
    },
    Unblocked,
    /// The orderly close is complete.
    Closed,
    /// Nothing of interest.
    Other,
}

/// An answer that moves the set-up or the way out on.
#[derive(Debug)]
pub(crate) enum Step {
    Open,
    ChannelOpen,
    ConfirmSelected,
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

pub(crate) struct Link {
    spec: LinkSpec,
    client: Client,
    template: Option<Template>,
    /// The queue consumed from, once it is known.
    queue: String,
    stage: Stage,
    /// The declaration is still to come.
    declare: bool,
    /// Reads a stream and may have to go on from where it was.
    follows_stream: bool,
    /// The offset after the last message that came.
    next_offset: Option<i64>,
    /// Not the first connection.
    again: bool,
}

/// The configuration of every connection to an endpoint.
pub(crate) fn client_config(endpoint: &Endpoint, name: &str, patience: Nanos) -> ClientConfig {
    ClientConfig {
        user: endpoint.user.clone(),
        password: Secret::new(endpoint.password()),
        mechanism: Mechanism::Plain,
        virtual_host: endpoint.virtual_host.clone(),
        heartbeat_s: HEARTBEAT_S,
        frame_max: FRAME_MAX,
        connection_name: name.to_owned(),
        timeout: patience,
        ..ClientConfig::default()
    }
}

impl Link {
    pub(crate) fn new(spec: LinkSpec, now: Time) -> Self {
        let config = client_config(&spec.endpoint, &spec.connection_name, spec.patience);
        let queue = match &spec.role {
            Role::Consumer {
                source: Source::Queue(name),
                ..
            } => name.clone(),
            _ => String::new(),
        };
        let follows_stream = match &spec.role {
            Role::Consumer { arguments, .. } => {
                spec.resumes && arguments.get(STREAM_OFFSET).is_some()
            }
            Role::Producer { .. } => false,
        };
        Self {
            spec,
            client: Client::new(config, now),
            template: None,
            queue,
            stage: Stage::LogIn,
            declare: false,
            follows_stream,
            next_offset: None,
            again: false,
        }
    }

    /// Begins again on a new transport.
    pub(crate) fn restart(&mut self, now: Time) {
        let spec = self.spec.clone();
        *self = Self {
            declare: spec.declaration.is_some(),
            next_offset: self.next_offset,
            again: true,
            ..Self::new(spec, now)
        };
    }

    /// Takes bytes off `input` and tells what they say; `None` when more are needed.
    #[inline]
    pub(crate) fn poll<'a>(
        &'a mut self,
        now: Time,
        input: &mut &'a [u8],
    ) -> Result<Option<Signal<'a>>, Error> {
        let event = match self.client.poll(now, input) {
            Ok(None) => return Ok(None),
            Ok(Some(event)) => event,
            Err(error) => return Err(failure::of_wire(&self.spec.endpoint, &self.stage, &error)),
        };
        Ok(Some(match event {
            Event::Delivery {
                delivery_tag,
                redelivered,
                body,
                properties,
                ..
            } => {
                if self.follows_stream {
                    self.next_offset = offset_of(properties).map(|offset| offset + 1);
                }
                Signal::Delivery {
                    tag: delivery_tag,
                    redelivered,
                    body,
                }
            }
            Event::Confirm {
                delivery_tag,
                multiple,
                nack,
                ..
            } => Signal::Confirm {
                tag: delivery_tag,
                multiple,
                nack,
            },
            Event::Returned { .. } => Signal::Returned,
            Event::Blocked { reason } => Signal::Blocked { reason },
            Event::Unblocked => Signal::Unblocked,
            Event::CloseOk => Signal::Closed,
            Event::Open { .. } => Signal::Step(Step::Open),
            Event::Method { method, .. } => match step_of(&method) {
                Some(step) => Signal::Step(step),
                None => Signal::Other,
            },
            Event::ChannelClosed { closing, .. } | Event::Closed { closing } => {
                return Err(failure::of_closing(
                    &self.spec.endpoint,
                    &self.stage,
                    &closing,
                ));
            }
            Event::ConsumerCancelled { .. } => {
                return Err(failure::of_cancel(&self.spec.endpoint, &self.queue));
            }
            Event::GetOk { .. } | Event::GetEmpty { .. } => Signal::Other,
        }))
    }

    /// Takes the next step of the set-up or the way out.
    pub(crate) fn proceed(&mut self, step: Step, now: Time) -> Result<Progress, Error> {
        match (step, &self.spec.role) {
            (Step::Open, _) => {
                self.stage = Stage::SetUp("open a channel".into());
                self.send(&ChannelOpen::default())?;
            }
            (Step::ChannelOpen, _) if self.declare => self.declare()?,
            (Step::ChannelOpen, Role::Producer { confirm: true, .. }) => {
                self.stage = Stage::SetUp("ask for publisher confirms".into());
                self.send(&ConfirmSelect::default())?;
            }
            (Step::ChannelOpen | Step::ConfirmSelected, Role::Producer { .. }) => {
                self.template = Some(self.template()?);
                return Ok(self.ready());
            }
            (
                Step::ChannelOpen,
                Role::Consumer {
                    source: Source::Topic(_),
                    ..
                },
            ) => {
                self.stage = Stage::SetUp("declare a subscriber's queue".into());
                self.send(&QueueDeclare {
                    exclusive: true,
                    auto_delete: true,
                    ..QueueDeclare::default()
                })?;
            }
            (
                Step::Declared { queue },
                Role::Consumer {
                    source: Source::Topic(key),
                    ..
                },
            ) => {
                self.stage = Stage::SetUp(format!("subscribe to topic {key:?}"));
                self.queue = queue;
                let key = key.clone();
                let queue = self.queue.clone();
                self.send(&QueueBind {
                    queue: &queue,
                    exchange: TOPIC_EXCHANGE,
                    routing_key: &key,
                    ..QueueBind::default()
                })?;
            }
            // The declaration above, after which it goes on as usual.
            (Step::Declared { .. }, _) => return self.proceed(Step::ChannelOpen, now),
            (Step::ChannelOpen | Step::Bound, Role::Consumer { prefetch, .. }) => {
                let prefetch_count = *prefetch;
                self.stage = Stage::SetUp(format!("limit the prefetch to {prefetch_count}"));
                self.send(&BasicQos {
                    prefetch_count,
                    ..BasicQos::default()
                })?;
            }
            (Step::Qos, Role::Consumer { .. }) => self.consume()?,
            (Step::Consuming, _) => return Ok(self.ready()),
            (Step::Cancelled, _) => self.close(now),
            _ => {}
        }
        Ok(Progress::Waiting)
    }

    fn ready(&mut self) -> Progress {
        self.stage = Stage::Running;
        Progress::Ready
    }

    fn declare(&mut self) -> Result<(), Error> {
        self.declare = false;
        let Some(declaration) = &self.spec.declaration else {
            return Ok(());
        };
        self.stage = Stage::SetUp(format!("declare queue {:?} again", declaration.queue));
        let method = QueueDeclare {
            queue: &declaration.queue,
            durable: declaration.durable,
            arguments: declaration.arguments.view(),
            ..QueueDeclare::default()
        };
        self.client
            .send(CHANNEL, &method)
            .map_err(|error| failure::of_wire(&self.spec.endpoint, &self.stage, &error))
    }

    fn consume(&mut self) -> Result<(), Error> {
        let Role::Consumer {
            no_ack, arguments, ..
        } = &self.spec.role
        else {
            return Ok(());
        };
        self.stage = Stage::SetUp(format!("consume from {:?}", self.queue));
        let mut arguments = arguments.clone();
        if self.follows_stream && self.again {
            // Where nothing has come yet, all of it: other runs' messages are told apart.
            let inserted = match self.next_offset {
                Some(offset) => arguments.insert(STREAM_OFFSET, offset),
                None => arguments.insert(STREAM_OFFSET, "first"),
            };
            inserted.map_err(|error| {
                failure::of_wire(&self.spec.endpoint, &self.stage, &error.into())
            })?;
        }
        let method = BasicConsume {
            queue: &self.queue,
            consumer_tag: CONSUMER_TAG,
            no_ack: *no_ack,
            arguments: arguments.view(),
            ..BasicConsume::default()
        };
        self.client
            .send(CHANNEL, &method)
            .map_err(|error| failure::of_wire(&self.spec.endpoint, &self.stage, &error))
    }

    fn send(&mut self, method: &impl EncodeMethod) -> Result<(), Error> {
        self.client
            .send(CHANNEL, method)
            .map_err(|error| failure::of_wire(&self.spec.endpoint, &self.stage, &error))
    }

    fn template(&self) -> Result<Template, Error> {
        let Role::Producer {
            exchange,
            routing_key,
            persistent,
            mandatory,
            bodies,
            ..
        } = &self.spec.role
        else {
            return Err(Error::machine("publish", "this client is a consumer"));
        };
        let encode = |error: wire::amqp091::EncodeError| {
            failure::of_wire(&self.spec.endpoint, &self.stage, &error.into())
        };
        // 1 is transient, 2 persistent.
        let properties = BasicProperties {
            delivery_mode: Some(if *persistent { 2 } else { 1 }),
            ..BasicProperties::default()
        }
        .to_bytes()
        .map_err(encode)?;
        let publish = BasicPublish {
            exchange,
            routing_key,
            mandatory: *mandatory,
            ..BasicPublish::default()
        };
        let properties = Properties::from_bytes(&properties);
        let frame_max = self.client.frame_max();
        match bodies {
            BodyLengths::Same(size) => {
                let body = vec![FILLER; *size];
                PublishTemplate::new(CHANNEL, &publish, properties, &body, frame_max)
                    .map(Template::Whole)
            }
            BodyLengths::Between(least, most) => {
                HeadTemplate::new(CHANNEL, &publish, properties, frame_max).map(|head| {
                    let (least, most) = (head.wire_len(*least), head.wire_len(*most));
                    Template::Head(head, least, most)
                })
            }
        }
        .map_err(encode)
    }

    /// Queues one message of the length that all have; `fill` writes the front of its body.
    #[inline]
    pub(crate) fn publish(&mut self, fill: impl FnOnce(&mut [u8])) {
        if let Some(Template::Whole(template)) = &self.template {
            self.client.publish(template, fill);
        }
    }

    /// Queues one message with a body of its own; `fill` writes the front of it.
    #[inline]
    pub(crate) fn publish_body(&mut self, body: &[u8], fill: impl FnOnce(&mut [u8])) {
        if let Some(Template::Head(head, ..)) = &self.template {
            self.client.publish_body(head, body, fill);
        }
    }

    /// Makes room for `output` bytes to write, and for messages that come cut.
    pub(crate) fn reserve(&mut self, output: usize) {
        self.client.reserve(CHANNEL, output);
    }

    /// Bytes on the wire of the smallest and the largest message, at least 1.
    pub(crate) fn message_wire_len(&self) -> (usize, usize) {
        match &self.template {
            Some(Template::Whole(template)) => (template.wire_len(), template.wire_len()),
            Some(Template::Head(_, least, most)) => (*least, *most),
            None => (1, 1),
        }
    }

    /// Acknowledges deliveries up to `tag`.
    #[inline]
    pub(crate) fn ack(&mut self, tag: u64, multiple: bool) {
        self.client.ack(CHANNEL, tag, multiple);
    }

    /// Starts the way out; [`Signal::Closed`] ends it.
    pub(crate) fn leave(&mut self, now: Time) -> Result<(), Error> {
        match self.spec.role {
            Role::Consumer { .. } => self.send(&BasicCancel {
                consumer_tag: CONSUMER_TAG,
                no_wait: false,
            }),
            Role::Producer { .. } => {
                self.close(now);
                Ok(())
            }
        }
    }

    fn close(&mut self, now: Time) {
        self.stage = Stage::Closing;
        self.client.close(now, 200, "the load has ended");
    }

    pub(crate) fn pending_output(&self) -> &[u8] {
        self.client.pending_output()
    }

    pub(crate) fn consume_output(&mut self, n: usize) {
        self.client.consume_output(n);
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

    /// What it means that the present step took longer than anybody waits.
    pub(crate) fn took_too_long(&self) -> Error {
        failure::of_patience(&self.spec.endpoint, &self.stage, self.spec.patience)
    }
}

/// The place of a message in its stream.
fn offset_of(properties: Properties<'_>) -> Option<i64> {
    let headers = properties.decode().ok()?.headers?;
    headers.get(STREAM_OFFSET)?.as_i64()
}

fn step_of(method: &Method<'_>) -> Option<Step> {
    Some(match method {
        Method::ChannelOpenOk(_) => Step::ChannelOpen,
        Method::ConfirmSelectOk(_) => Step::ConfirmSelected,
        Method::QueueDeclareOk(ok) => Step::Declared {
            queue: ok.queue.to_owned(),
        },
        Method::QueueBindOk(_) => Step::Bound,
        Method::BasicQosOk(_) => Step::Qos,
        Method::BasicConsumeOk(_) => Step::Consuming,
        Method::BasicCancelOk(_) => Step::Cancelled,
        _ => return None,
    })
}
