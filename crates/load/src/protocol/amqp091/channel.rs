//! One channel: the requests of its set-up, and what flows over it then.

use std::collections::VecDeque;

use wire::amqp091::{
    BasicCancel, BasicGet, BasicPublish, Client, Closing, EncodeError, EncodeMethod, Encoded, Error as WireError,
    FieldTable, HeadTemplate, Method, Properties, PublishTemplate, TxCommit,
};

use super::failure;
use super::request::{
    Answer, Begin, CONSUMER_TAG, ChannelSpec, Consuming, Declaration, Publishing, Question, Queue, Request, Role,
    Source,
};
use super::{ASK_FOR_REPLIES, REPLY_TO, STREAM_OFFSET, properties, take_one};
use crate::failure::Stage;
use crate::protocol::{BodyLengths, Progress, Receiver, Reply, Sender};
use crate::{Endpoint, Error, Guarantee};
use plan::payload::{FILLER, FULL_LEN};

/// A message's frames, as far as they are the same for all.
enum Template {
    Whole(PublishTemplate),
    /// The head, and the bytes on the wire of the smallest and the largest message.
    Head(HeadTemplate, usize, usize),
}

/// Requests without an answer yet, beside the steps of the set-up.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Asked {
    pub(super) subscription: bool,
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
    /// The request that is not answered, and what follows.
    request: Option<Request>,
    requests: VecDeque<Request>,
    pub(super) asked: Asked,
    /// The connection's set-up waits for it.
    pub(super) is_awaited: bool,
    /// Reads a stream and may have to go on from where it was.
    follows_stream: bool,
    /// The offset after the last message that came.
    next_offset: Option<i64>,
    /// Not the first connection.
    again: bool,
    /// Messages in its own queue when it was asked last.
    pub(super) holds: Option<u64>,
}

impl Channel {
    pub(super) fn new(spec: ChannelSpec, number: u16, resumes: bool) -> Self {
        let (queue, follows_stream) = match &spec.role {
            Role::Consumer(consuming) => {
                let queue = match &consuming.source {
                    Source::Queue(name) => name.clone(),
                    Source::Own { .. } => String::new(),
                };
                let offset = consuming.arguments.get(STREAM_OFFSET);
                (queue, resumes && offset.is_some())
            }
            Role::Producer(_) | Role::Requests => (String::new(), false),
        };
        let own = spec.declaration.as_ref().filter(|it| it.queue.as_ref().is_some_and(|queue: &Queue| queue.exclusive));
        let requests = set_up(&spec.role, own, "");
        Self {
            spec,
            number,
            template: None,
            queue,
            stage: Stage::LogIn,
            request: None,
            requests,
            asked: Asked::default(),
            is_awaited: false,
            follows_stream,
            next_offset: None,
            again: false,
            holds: None,
        }
    }

    /// One to ask over, not open yet.
    pub(super) fn asking(number: u16) -> Self {
        let (role, declaration) = (Role::Requests, None);
        Self::new(ChannelSpec { role, declaration }, number, false)
    }

    /// The queue that it consumes from, where only its connection can ask how much there is.
    pub(super) fn own_queue(&self) -> Option<&str> {
        let declared = self.spec.declaration.as_ref().and_then(|it| it.queue.as_ref());
        let is_own = match &self.spec.role {
            Role::Consumer(it) => matches!(it.source, Source::Own { .. }) || declared.is_some_and(|it| it.exclusive),
            Role::Producer(_) | Role::Requests => false,
        };
        is_own.then_some(&self.queue)
    }

    pub(super) fn restart(&mut self) {
        self.requests = set_up(&self.spec.role, self.spec.declaration.as_ref(), " again");
        if let Role::Consumer(Consuming { source: Source::Own { .. }, .. }) = &self.spec.role {
            self.queue.clear();
        }
        self.request = None;
        self.template = None;
        self.asked = Asked::default();
        self.is_awaited = false;
        self.stage = Stage::LogIn;
        self.again = true;
    }

    /// On a new connection a stream is read from so far behind the message with these properties on.
    #[inline(always)]
    pub(super) fn resume_at(&mut self, properties: Properties<'_>, behind: i64) {
        if self.follows_stream
            && let Some(offset) = offset_of(properties)
        {
            self.next_offset = Some(offset.saturating_add(behind));
        }
    }

    #[inline]
    pub(super) const fn confirms(&self) -> bool {
        matches!(&self.spec.role, Role::Producer(Publishing { guarantee: Guarantee::Confirms, .. }))
    }

    pub(super) const fn is_mandatory(&self) -> bool {
        matches!(&self.spec.role, Role::Producer(it) if it.mandatory)
    }

    /// The answer to a question for a single message has come; tells whether there was one.
    #[inline]
    pub(super) const fn got(&mut self) -> bool {
        take_one(&mut self.asked.gets)
    }

    /// The answer in a method that was requested and had not come.
    #[inline]
    pub(super) fn answer_of(&mut self, method: &Method<'_>) -> Option<Answer> {
        match method {
            Method::TxCommitOk(_) => take_one(&mut self.asked.commits).then_some(Answer::Committed),
            Method::BasicCancelOk(_) => std::mem::take(&mut self.asked.cancel).then_some(Answer::Cancelled),
            method => self.request.as_ref()?.answer_of(method),
        }
    }

    /// Whether the broker closed the channel because what was requested does not exist, which is an answer.
    pub(super) fn may_miss(&self, closing: &Closing<'_>) -> bool {
        let request = self.request.as_ref();
        request.is_some_and(|request| request.may_miss(closing))
    }

    /// Whether it subscribes as the last step of the set-up.
    pub(super) fn begins_at_set_up(&self) -> bool {
        matches!(&self.spec.role, Role::Consumer(it) if it.begin == Begin::AtSetUp)
    }

    pub(super) fn subscribe(&mut self, client: &mut Client, endpoint: &Endpoint) -> Result<(), Error> {
        let Role::Consumer(consuming) = &self.spec.role else { return Ok(()) };
        let action = format!("consume from {:?}", self.queue);
        let arguments = self.arguments(consuming).map_err(|error| failure::of_wire(endpoint, &self.stage, &error))?;
        let question = Question::Consume { queue: self.queue.clone(), no_ack: consuming.no_ack, arguments };
        self.ask(Request::new(action, question), client, endpoint)
    }

    /// Sends a request as soon as what was requested before is answered.
    fn ask(&mut self, request: Request, client: &mut Client, endpoint: &Endpoint) -> Result<(), Error> {
        self.requests.push_back(request);
        if self.request.is_none() {
            self.next(client, endpoint)?;
        }
        Ok(())
    }

    pub(super) const fn is_answered(&self) -> bool {
        self.request.is_none()
    }

    /// Takes the broker's answer to the last request, and sends the next.
    pub(super) fn proceed(
        &mut self,
        answer: &Answer,
        client: &mut Client,
        endpoint: &Endpoint,
    ) -> Result<Progress, Error> {
        if let Answer::Declared { queue, .. } = answer
            && self.queue.is_empty()
        {
            self.queue.clone_from(queue);
        }
        self.next(client, endpoint)
    }

    /// Sends the next request. [`Progress::Ready`]: there is none.
    pub(super) fn next(&mut self, client: &mut Client, endpoint: &Endpoint) -> Result<Progress, Error> {
        self.request = self.requests.pop_front();
        let Some(request) = &self.request else {
            if let Role::Producer(publishing) = &self.spec.role
                && self.template.is_none()
            {
                let template = template(publishing, self.number, client.frame_max());
                let template = template.map_err(|error| failure::of_wire(endpoint, &self.stage, &error.into()))?;
                self.template = Some(template);
            }
            self.stage = Stage::Running;
            return Ok(Progress::Ready);
        };
        self.stage = Stage::SetUp(request.action.clone());
        self.asked.subscription |= matches!(request.question, Question::Consume { .. });
        request
            .send(client, self.number, &self.queue)
            .map_err(|error| failure::of_wire(endpoint, &self.stage, &error))?;
        Ok(Progress::Waiting)
    }

    /// The subscription's arguments, and where in its stream it goes on.
    fn arguments(&self, consuming: &Consuming) -> Result<FieldTable, WireError> {
        let mut arguments = consuming.arguments.clone();
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
    pub(super) fn cancel(&mut self, client: &mut Client, endpoint: &Endpoint) -> Result<bool, Error> {
        if !self.asked.subscription || !matches!(self.spec.role, Role::Consumer(_)) {
            return Ok(false);
        }
        self.asked.cancel = true;
        let cancel = BasicCancel { consumer_tag: CONSUMER_TAG, no_wait: false };
        client.send(self.number, &cancel).map_err(|error| failure::of_wire(endpoint, &self.stage, &error))?;
        Ok(true)
    }
}

/// The place of a message in its stream.
fn offset_of(properties: Properties<'_>) -> Option<i64> {
    properties.decode().ok()?.headers?.get(STREAM_OFFSET)?.as_i64()
}

/// The requests of a channel's set-up before its subscription, with what it declares itself.
fn set_up(role: &Role, declaration: Option<&Declaration>, again: &str) -> VecDeque<Request> {
    let mut requests = VecDeque::new();
    if matches!(role, Role::Requests) {
        return requests;
    }
    requests.push_back(Request::open_channel());
    if let Some(declaration) = declaration {
        declare(declaration, again, &mut requests);
    }
    let select = |transactions| match transactions {
        true => Request::new("begin transactions", Question::SelectTransactions),
        false => Request::new("ask for publisher confirms", Question::SelectConfirms),
    };
    match role {
        Role::Requests => {}
        Role::Producer(publishing) => match publishing.guarantee {
            Guarantee::Unconfirmed => {}
            Guarantee::Confirms => requests.push_back(select(false)),
            Guarantee::Commits(_) => requests.push_back(select(true)),
            // Before the first request is published.
            Guarantee::Replies => {
                let question =
                    Question::Consume { queue: REPLY_TO.to_owned(), no_ack: true, arguments: FieldTable::new() };
                requests.push_back(Request::new(ASK_FOR_REPLIES, question));
            }
        },
        Role::Consumer(consuming) => {
            if let Source::Own { exchange, key, arguments } = &consuming.source {
                let own =
                    Queue { exclusive: true, auto_delete: true, arguments: arguments.clone(), ..Queue::default() };
                let action = format!("subscribe to {key:?} of exchange {exchange:?}");
                requests.extend([
                    Request::declare_queue("declare a subscriber's queue", own),
                    Request::bind(action, "", exchange, key),
                ]);
            }
            if consuming.transacted {
                requests.push_back(select(true));
            }
            // A broker that no longer permits a limit for the channel takes it for the consumer's: the last one counts.
            if consuming.channel_prefetch > 0 {
                requests.push_back(prefetch(consuming.channel_prefetch, true));
            }
            requests.push_back(prefetch(consuming.prefetch, false));
        }
    }
    requests
}

fn declare(declaration: &Declaration, again: &str, requests: &mut VecDeque<Request>) {
    let queue = declaration.queue.as_ref();
    if let Some(exchange) = &declaration.exchange {
        let question = Question::DeclareExchange { exchange: exchange.clone(), passive: false };
        let action = format!("declare exchange {:?}{again}", exchange.name);
        requests.push_back(Request::new(action, question));
    }
    if let Some(queue) = queue {
        let action = format!("declare queue {:?}{again}", queue.name);
        requests.push_back(Request::declare_queue(action, queue.clone()));
    }
    if let (Some((exchange, key)), Some(queue)) = (&declaration.binding, queue) {
        let queue = queue.name.as_str();
        let action = format!("bind queue {queue:?} to exchange {exchange:?}{again}");
        requests.push_back(Request::bind(action, queue, exchange, key));
    }
}

fn prefetch(count: u16, whole: bool) -> Request {
    let question = Question::Prefetch { count, whole };
    Request::new(format!("limit the prefetch to {count}"), question)
}

fn template(publishing: &Publishing, number: u16, frame_max: u32) -> Result<Template, EncodeError> {
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

/// A channel that is in use, with its connection.
pub(crate) struct ChannelHandle<'a> {
    pub(super) client: &'a mut Client,
    pub(super) channel: &'a mut Channel,
    pub(super) endpoint: &'a Endpoint,
    pub(super) reply_properties: &'a mut Vec<u8>,
}

impl Sender for ChannelHandle<'_> {
    #[inline]
    fn publish(&mut self, fill: impl FnOnce(&mut [u8])) {
        if let Some(Template::Whole(template)) = &self.channel.template {
            self.client.publish(template, fill);
        }
    }

    #[inline]
    fn publish_body(&mut self, body: &[u8], fill: impl FnOnce(&mut [u8])) {
        if let Some(Template::Head(head, ..)) = &self.channel.template {
            self.client.publish_body(head, body, fill);
        }
    }

    #[inline]
    fn set_routing_key(&mut self, key: &[u8]) {
        if let Some(message) = self.encoded() {
            message.set_routing_key(key);
        }
    }

    #[inline]
    fn set_message_id(&mut self, id: &[u8]) {
        if let Some(message) = self.encoded() {
            message.set_message_id(id);
        }
    }

    #[inline]
    fn set_timestamp(&mut self, unix_s: u64) {
        if let Some(message) = self.encoded() {
            message.set_timestamp(unix_s);
        }
    }

    #[inline]
    fn set_trace_header(&mut self, header: &[u8; FULL_LEN]) {
        if let Some(message) = self.encoded() {
            message.set_last_header(header);
        }
    }

    fn commit(&mut self) -> Result<(), Error> {
        self.commit_all()
    }

    fn message_wire_len(&self) -> (usize, usize) {
        match &self.channel.template {
            Some(Template::Whole(template)) => (template.wire_len(), template.wire_len()),
            Some(Template::Head(_, least, most)) => (*least, *most),
            None => (1, 1),
        }
    }

    #[inline]
    fn pending(&self) -> usize {
        self.client.pending_output().len()
    }
}

impl Receiver for ChannelHandle<'_> {
    #[inline]
    fn acknowledge(&mut self, tag: u64, multiple: bool) {
        self.client.ack(self.channel.number, tag, multiple);
    }

    #[inline]
    fn refuse(&mut self, tag: u64, multiple: bool, requeue: bool) {
        self.client.nack(self.channel.number, tag, multiple, requeue);
    }

    fn commit(&mut self) -> Result<(), Error> {
        self.commit_all()
    }

    fn subscribe(&mut self) -> Result<(), Error> {
        self.channel.subscribe(self.client, self.endpoint)
    }

    fn fetch(&mut self) -> Result<(), Error> {
        let Role::Consumer(consuming) = &self.channel.spec.role else { return Ok(()) };
        self.channel.asked.gets += 1;
        let get = BasicGet { queue: &self.channel.queue, no_ack: consuming.no_ack, ..BasicGet::default() };
        let sent = self.client.send(self.channel.number, &get);
        sent.map_err(|error| failure::of_wire(self.endpoint, &self.channel.stage, &error))
    }

    fn respond(&mut self, reply: &Reply) -> Result<(), Error> {
        let publish = BasicPublish { routing_key: &reply.to, ..BasicPublish::default() };
        let properties = match &reply.trace_header {
            Some(header) => properties::of_reply(self.reply_properties, header)?,
            None => Properties::NONE,
        };
        let number = self.channel.number;
        let sent = self.client.send_content(number, &publish, properties, &reply.body);
        sent.map_err(|error| failure::of_wire(self.endpoint, &self.channel.stage, &error))
    }
}

impl ChannelHandle<'_> {
    /// Encoded form of the following messages, with an id, a key or a header to replace; `None` during the set-up.
    #[inline]
    fn encoded(&mut self) -> Option<&mut Encoded> {
        match self.channel.template.as_mut()? {
            Template::Whole(template) => Some(template.encoded()),
            Template::Head(template, ..) => Some(template.encoded()),
        }
    }

    fn commit_all(&mut self) -> Result<(), Error> {
        self.channel.asked.commits += 1;
        self.send(&TxCommit::default())
    }

    pub(super) fn ask(&mut self, request: Request) -> Result<(), Error> {
        self.channel.ask(request, self.client, self.endpoint)
    }

    /// Asks for an answer that comes after everything that was sent before.
    pub(super) fn fence(&mut self) -> Result<(), Error> {
        // It changes nothing: it is for consumers to come, of which there are none.
        let count = match &self.channel.spec.role {
            Role::Consumer(consuming) => consuming.prefetch,
            Role::Producer(_) | Role::Requests => 0,
        };
        self.ask(prefetch(count, false))
    }

    pub(super) fn publish_zeros(&mut self, queue: &str, messages: u32, size: usize) -> Result<(), Error> {
        let publish = BasicPublish { routing_key: queue, ..BasicPublish::default() };
        let body = vec![0; if messages == 0 { 0 } else { size }];
        for _ in 0..messages {
            let number = self.channel.number;
            let sent = self.client.send_content(number, &publish, Properties::NONE, &body);
            sent.map_err(|error| failure::of_wire(self.endpoint, &self.channel.stage, &error))?;
        }
        Ok(())
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
