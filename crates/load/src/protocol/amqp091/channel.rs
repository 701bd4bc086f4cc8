//! One channel: the steps of its set-up, and what flows over it then.

use std::collections::VecDeque;

use wire::amqp091::{
    BasicCancel, BasicConsume, BasicGet, BasicPublish, BasicQos, ChannelOpen, Client,
    ConfirmSelect, EncodeMethod, Encoded, ExchangeDeclare, FieldTable, HeadTemplate, Method,
    Properties, PublishTemplate, QueueBind, QueueDeclare, TxCommit, TxSelect,
};

use super::reply::{REPLY_TO, Reply};
use super::spec::{
    Answers, Begin, BodyLengths, ChannelSpec, Declaration, Publishing, Role, Source, Subscription,
};
use super::task::Task;
use super::{Progress, STREAM_OFFSET, Step, take_one};
use crate::failure::{self, Stage};
use crate::payload::FILLER;
use crate::{Endpoint, Error};

/// A tag is unique within its channel only; every delivery carries it, so it is short.
const CONSUMER_TAG: &str = "c";

/// A message's frames, as far as they are the same for all.
enum Template {
    Whole(PublishTemplate),
    /// The head, and the bytes on the wire of the smallest and the largest message.
    Head(HeadTemplate, usize, usize),
}

/// What a channel has asked the broker for, beside the steps of its set-up.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Asked {
    /// Deliveries.
    pub(super) subscription: bool,
    /// The subscription's end.
    cancel: bool,
    /// Single messages, and commits, that are not answered.
    gets: u32,
    commits: u32,
}

pub(super) struct Channel {
    spec: ChannelSpec,
    number: u16,
    template: Option<Template>,
    /// The queue consumed from, once it is known.
    pub(super) queue: String,
    pub(super) stage: Stage,
    /// What is under way, and what follows.
    task: Option<Task>,
    tasks: VecDeque<Task>,
    pub(super) asked: Asked,
    /// The connection's set-up waits for it.
    pub(super) is_awaited: bool,
    /// Reads a stream and may have to go on from where it was.
    pub(super) follows_stream: bool,
    /// The offset after the last message that came.
    pub(super) next_offset: Option<i64>,
    /// Not the first connection.
    again: bool,
}

impl Channel {
    pub(super) fn new(spec: ChannelSpec, number: u16, resumes: bool) -> Self {
        let (queue, follows_stream) = match &spec.role {
            Role::Consumer(subscription) => {
                let queue = match &subscription.source {
                    Source::Queue(name) => name.clone(),
                    Source::Own { .. } => String::new(),
                };
                let offset = subscription.arguments.get(STREAM_OFFSET);
                (queue, resumes && offset.is_some())
            }
            Role::Producer(_) => (String::new(), false),
        };
        let own = spec.declaration.as_ref().filter(|d| d.exclusive);
        let tasks = tasks(&spec.role, own).collect();
        Self {
            spec,
            number,
            template: None,
            queue,
            stage: Stage::LogIn,
            task: None,
            tasks,
            asked: Asked::default(),
            is_awaited: false,
            follows_stream,
            next_offset: None,
            again: false,
        }
    }

    /// Begins again on a new connection.
    pub(super) fn restart(&mut self) {
        self.tasks = tasks(&self.spec.role, self.spec.declaration.as_ref()).collect();
        self.task = None;
        self.template = None;
        self.asked = Asked::default();
        self.is_awaited = false;
        self.stage = Stage::LogIn;
        self.again = true;
    }

    /// Whether confirms may come.
    #[inline]
    pub(super) const fn confirms(&self) -> bool {
        matches!(
            &self.spec.role,
            Role::Producer(Publishing {
                answers: Answers::Confirms,
                ..
            })
        )
    }

    /// Whether messages may come back.
    pub(super) const fn is_mandatory(&self) -> bool {
        matches!(&self.spec.role, Role::Producer(it) if it.mandatory)
    }

    /// The answer to a question for a single message has come; tells whether there was one.
    #[inline]
    pub(super) const fn got(&mut self) -> bool {
        take_one(&mut self.asked.gets)
    }

    /// Whether this answer was asked for and had not come.
    #[inline]
    pub(super) fn awaits(&mut self, method: &Method<'_>) -> bool {
        match method {
            Method::TxCommitOk(_) => take_one(&mut self.asked.commits),
            Method::BasicCancelOk(_) => std::mem::take(&mut self.asked.cancel),
            method => self.task.is_some_and(|task| task.is_answered_by(method)),
        }
    }

    /// Whether it subscribes as the last step of the set-up.
    pub(super) fn begins_at_set_up(&self) -> bool {
        matches!(&self.spec.role, Role::Consumer(it) if it.begin == Begin::AtSetUp)
    }

    /// Asks for deliveries.
    pub(super) fn subscribe(
        &mut self,
        client: &mut Client,
        endpoint: &Endpoint,
    ) -> Result<(), Error> {
        self.ask(Task::Consume, client, endpoint)
    }

    /// Asks for something as soon as what was asked for before is answered.
    fn ask(&mut self, task: Task, client: &mut Client, endpoint: &Endpoint) -> Result<(), Error> {
        self.tasks.push_back(task);
        if self.task.is_none() {
            self.next(client, endpoint)?;
        }
        Ok(())
    }

    /// Whether everything that was asked for is answered.
    pub(super) const fn is_answered(&self) -> bool {
        self.task.is_none()
    }

    /// Takes the broker's answer to the last step, and the next step.
    pub(super) fn proceed(
        &mut self,
        step: Step,
        client: &mut Client,
        endpoint: &Endpoint,
    ) -> Result<Progress, Error> {
        if let (Some(Task::DeclareOwn), Step::Declared { queue }) = (self.task, step) {
            self.queue = queue;
        }
        self.next(client, endpoint)
    }

    /// Sends the next step of the set-up.
    pub(super) fn next(
        &mut self,
        client: &mut Client,
        endpoint: &Endpoint,
    ) -> Result<Progress, Error> {
        self.task = self.tasks.pop_front();
        let Some(task) = self.task else {
            if let Role::Producer(publishing) = &self.spec.role {
                let template = template(publishing, self.number, client.frame_max());
                let template = template
                    .map_err(|error| failure::of_wire(endpoint, &self.stage, &error.into()))?;
                self.template = Some(template);
            }
            self.stage = Stage::Running;
            return Ok(Progress::Ready);
        };
        self.stage = Stage::SetUp(self.describe(task));
        self.carry_out(task, client)
            .map_err(|error| failure::of_wire(endpoint, &self.stage, &error))?;
        Ok(Progress::Waiting)
    }

    /// As in "cannot ...".
    fn describe(&self, task: Task) -> String {
        let declared = self.spec.declaration.as_ref();
        let queue = declared.map_or(&self.queue, |d| &d.queue);
        let exchange = declared
            .and_then(|d| d.exchange.as_ref())
            .map_or("", |e| e.name.as_str());
        let again = if self.again { " again" } else { "" };
        match task {
            Task::Open => "open a channel".into(),
            Task::DeclareExchange => format!("declare exchange {exchange:?}{again}"),
            Task::DeclareQueue => format!("declare queue {queue:?}{again}"),
            Task::BindQueue => format!("bind queue {queue:?} to exchange {exchange:?}{again}"),
            Task::SelectConfirms => "ask for publisher confirms".into(),
            Task::SelectTransactions => "begin transactions".into(),
            Task::DeclareOwn => "declare a subscriber's queue".into(),
            Task::BindOwn => match &self.spec.role {
                Role::Consumer(Subscription {
                    source: Source::Own { exchange, key, .. },
                    ..
                }) => format!("subscribe to {key:?} of exchange {exchange:?}"),
                _ => "bind a subscriber's queue".into(),
            },
            Task::Prefetch { count, .. } => format!("limit the prefetch to {count}"),
            Task::Consume => format!("consume from {:?}", self.queue),
            Task::ConsumeReplies => "ask for direct replies".into(),
        }
    }

    fn carry_out(&mut self, task: Task, client: &mut Client) -> Result<(), wire::amqp091::Error> {
        let number = self.number;
        let mut send = |method: &dyn Sendable| method.send(client, number);
        match (task, &self.spec.role, &self.spec.declaration) {
            (Task::Open, ..) => send(&ChannelOpen::default()),
            (Task::DeclareExchange, _, Some(declaration)) => match &declaration.exchange {
                Some(exchange) => send(&ExchangeDeclare {
                    exchange: &exchange.name,
                    kind: &exchange.kind,
                    durable: exchange.durable,
                    auto_delete: exchange.auto_delete,
                    ..ExchangeDeclare::default()
                }),
                None => Ok(()),
            },
            (Task::DeclareQueue, _, Some(declaration)) => send(&QueueDeclare {
                queue: &declaration.queue,
                durable: declaration.durable,
                auto_delete: declaration.auto_delete,
                exclusive: declaration.exclusive,
                arguments: declaration.arguments.view(),
                ..QueueDeclare::default()
            }),
            (Task::BindQueue, _, Some(declaration)) => send(&QueueBind {
                queue: &declaration.queue,
                exchange: declaration.binding.as_ref().map_or("", |(name, _)| name),
                routing_key: declaration.binding.as_ref().map_or("", |(_, key)| key),
                ..QueueBind::default()
            }),
            (Task::SelectConfirms, ..) => send(&ConfirmSelect::default()),
            (Task::SelectTransactions, ..) => send(&TxSelect::default()),
            (
                Task::Prefetch {
                    count,
                    whole_channel,
                },
                ..,
            ) => send(&BasicQos {
                prefetch_count: count,
                global: whole_channel,
                ..BasicQos::default()
            }),
            (Task::DeclareOwn | Task::BindOwn, Role::Consumer(subscription), _) => {
                match &subscription.source {
                    Source::Own { arguments, .. } if task == Task::DeclareOwn => {
                        send(&QueueDeclare {
                            exclusive: true,
                            auto_delete: true,
                            arguments: arguments.view(),
                            ..QueueDeclare::default()
                        })
                    }
                    Source::Own { exchange, key, .. } => send(&QueueBind {
                        queue: &self.queue,
                        exchange,
                        routing_key: key,
                        ..QueueBind::default()
                    }),
                    Source::Queue(_) => Ok(()),
                }
            }
            (Task::ConsumeReplies, ..) => {
                self.asked.subscription = true;
                send(&BasicConsume {
                    queue: REPLY_TO,
                    consumer_tag: CONSUMER_TAG,
                    no_ack: true,
                    ..BasicConsume::default()
                })
            }
            (Task::Consume, Role::Consumer(subscription), _) => {
                let arguments = self.arguments(subscription)?;
                self.asked.subscription = true;
                send(&BasicConsume {
                    queue: &self.queue,
                    consumer_tag: CONSUMER_TAG,
                    no_ack: subscription.no_ack,
                    arguments: arguments.view(),
                    ..BasicConsume::default()
                })
            }
            _ => Ok(()),
        }
    }

    /// The subscription's arguments, and where in its stream it goes on.
    fn arguments(&self, subscription: &Subscription) -> Result<FieldTable, wire::amqp091::Error> {
        let mut arguments = subscription.arguments.clone();
        if self.follows_stream && self.again {
            // Where nothing has come yet, all of it: other runs' messages are told apart.
            match self.next_offset {
                Some(offset) => arguments.insert(STREAM_OFFSET, offset),
                None => arguments.insert(STREAM_OFFSET, "first"),
            }?;
        }
        Ok(arguments)
    }

    /// Asks to end the subscription; tells whether an answer will come.
    pub(super) fn cancel(
        &mut self,
        client: &mut Client,
        endpoint: &Endpoint,
    ) -> Result<bool, Error> {
        if !self.asked.subscription || matches!(self.spec.role, Role::Producer(_)) {
            return Ok(false);
        }
        self.asked.cancel = true;
        let cancel = BasicCancel {
            consumer_tag: CONSUMER_TAG,
            no_wait: false,
        };
        client
            .send(self.number, &cancel)
            .map_err(|error| failure::of_wire(endpoint, &self.stage, &error))?;
        Ok(true)
    }
}

/// The steps of a channel's set-up before its subscription, with what it declares itself.
fn tasks(role: &Role, declaration: Option<&Declaration>) -> impl Iterator<Item = Task> + use<> {
    let mut tasks = vec![Task::Open];
    if let Some(declaration) = declaration {
        if declaration.exchange.is_some() {
            tasks.push(Task::DeclareExchange);
        }
        if !declaration.queue.is_empty() {
            tasks.push(Task::DeclareQueue);
        }
        if declaration.binding.is_some() {
            tasks.push(Task::BindQueue);
        }
    }
    match role {
        Role::Producer(publishing) => match publishing.answers {
            Answers::Nothing => {}
            Answers::Confirms => tasks.push(Task::SelectConfirms),
            Answers::Commits => tasks.push(Task::SelectTransactions),
            // Before the first request is published.
            Answers::Replies => tasks.push(Task::ConsumeReplies),
        },
        Role::Consumer(subscription) => {
            if matches!(subscription.source, Source::Own { .. }) {
                tasks.extend([Task::DeclareOwn, Task::BindOwn]);
            }
            if subscription.transacted {
                tasks.push(Task::SelectTransactions);
            }
            tasks.push(Task::Prefetch {
                count: subscription.prefetch,
                whole_channel: false,
            });
            if subscription.channel_prefetch > 0 {
                tasks.push(Task::Prefetch {
                    count: subscription.channel_prefetch,
                    whole_channel: true,
                });
            }
        }
    }
    tasks.into_iter()
}

fn template(
    publishing: &Publishing,
    number: u16,
    frame_max: u32,
) -> Result<Template, wire::amqp091::EncodeError> {
    let publish = BasicPublish {
        exchange: &publishing.exchange,
        routing_key: &publishing.routing_key,
        mandatory: publishing.mandatory,
        ..BasicPublish::default()
    };
    let properties = Properties::from_bytes(&publishing.properties);
    Ok(match publishing.bodies {
        BodyLengths::Same(size) => {
            let body = vec![FILLER; size];
            let whole = PublishTemplate::new(number, &publish, properties, &body, frame_max)?;
            Template::Whole(whole)
        }
        BodyLengths::Between(least, most) => {
            let head = HeadTemplate::new(number, &publish, properties, frame_max)?;
            let (least, most) = (head.wire_len(least), head.wire_len(most));
            Template::Head(head, least, most)
        }
    })
}

/// Methods of any kind, one after the other.
trait Sendable {
    fn send(&self, client: &mut Client, channel: u16) -> Result<(), wire::amqp091::Error>;
}

impl<M: EncodeMethod> Sendable for M {
    fn send(&self, client: &mut Client, channel: u16) -> Result<(), wire::amqp091::Error> {
        client.send(channel, self)
    }
}

/// A channel that is in use, with its connection.
pub(crate) struct ChannelHandle<'a> {
    pub(super) client: &'a mut Client,
    pub(super) channel: &'a mut Channel,
    pub(super) endpoint: &'a Endpoint,
}

impl ChannelHandle<'_> {
    /// Queues one message of the length that all have; `fill` writes the front of its body.
    #[inline]
    pub(crate) fn publish(&mut self, fill: impl FnOnce(&mut [u8])) {
        if let Some(Template::Whole(template)) = &self.channel.template {
            self.client.publish(template, fill);
        }
    }

    /// Queues one message with a body of its own; `fill` writes the front of it.
    #[inline]
    pub(crate) fn publish_body(&mut self, body: &[u8], fill: impl FnOnce(&mut [u8])) {
        if let Some(Template::Head(head, ..)) = &self.channel.template {
            self.client.publish_body(head, body, fill);
        }
    }

    /// What of the following messages may be changed: an id, a key or a trace_header for others that are as
    /// long. There is nothing before the set-up's end.
    #[inline]
    pub(crate) fn encoded(&mut self) -> Option<&mut Encoded> {
        match self.channel.template.as_mut()? {
            Template::Whole(template) => Some(template.encoded()),
            Template::Head(template, ..) => Some(template.encoded()),
        }
    }

    /// Bytes on the wire of the smallest and the largest message, at least 1.
    pub(crate) fn message_wire_len(&self) -> (usize, usize) {
        match &self.channel.template {
            Some(Template::Whole(template)) => (template.wire_len(), template.wire_len()),
            Some(Template::Head(_, least, most)) => (*least, *most),
            None => (1, 1),
        }
    }

    /// Bytes that wait to be written, the whole connection's.
    #[inline]
    pub(crate) fn pending(&self) -> usize {
        self.client.pending_output().len()
    }

    /// The broker broke the protocol.
    #[cold]
    pub(crate) fn violated(&self, detail: String) -> Error {
        Error::Protocol {
            endpoint: self.endpoint.to_string(),
            detail,
        }
    }

    /// Answers a request.
    pub(crate) fn respond(&mut self, reply: &Reply) -> Result<(), Error> {
        let publish = BasicPublish {
            routing_key: &reply.to,
            ..BasicPublish::default()
        };
        let body = &reply.body;
        let number = self.channel.number;
        let sent = self
            .client
            .send_content(number, &publish, reply.properties(), body);
        sent.map_err(|error| failure::of_wire(self.endpoint, &self.channel.stage, &error))
    }

    /// Acknowledges deliveries up to `tag`.
    #[inline]
    pub(crate) fn ack(&mut self, tag: u64, multiple: bool) {
        self.client.ack(self.channel.number, tag, multiple);
    }

    /// Refuses deliveries up to `tag`.
    #[inline]
    pub(crate) fn nack(&mut self, tag: u64, multiple: bool, requeue: bool) {
        self.client
            .nack(self.channel.number, tag, multiple, requeue);
    }

    /// Commits what was published and acknowledged since the last time.
    pub(crate) fn commit(&mut self) -> Result<(), Error> {
        self.channel.asked.commits += 1;
        self.send(&TxCommit::default())
    }

    /// Asks for one message.
    pub(crate) fn get(&mut self) -> Result<(), Error> {
        let Role::Consumer(subscription) = &self.channel.spec.role else {
            return Ok(());
        };
        self.channel.asked.gets += 1;
        let get = BasicGet {
            queue: &self.channel.queue,
            no_ack: subscription.no_ack,
            ..BasicGet::default()
        };
        let sent = self.client.send(self.channel.number, &get);
        sent.map_err(|error| failure::of_wire(self.endpoint, &self.channel.stage, &error))
    }

    /// Begins to consume, for a subscription that begins later.
    pub(crate) fn consume(&mut self) -> Result<(), Error> {
        self.channel.subscribe(self.client, self.endpoint)
    }

    /// Asks for an answer that comes after everything that was sent before.
    pub(crate) fn fence(&mut self) -> Result<(), Error> {
        // It changes nothing: it is for consumers to come, of which there are none.
        let count = match &self.channel.spec.role {
            Role::Consumer(subscription) => subscription.prefetch,
            Role::Producer(_) => 0,
        };
        let whole_channel = false;
        let task = Task::Prefetch {
            count,
            whole_channel,
        };
        self.channel.ask(task, self.client, self.endpoint)
    }

    fn send(&mut self, method: &impl EncodeMethod) -> Result<(), Error> {
        let sent = self.client.send(self.channel.number, method);
        sent.map_err(|error| failure::of_wire(self.endpoint, &self.channel.stage, &error))
    }

    /// Makes room for messages that come cut.
    pub(super) fn reserve(&mut self, output: usize) {
        self.client.reserve(self.channel.number, output);
    }
}
