//! A channel's requests; the broker answers each with one method.

use wire::amqp091::{
    BasicConsume, BasicQos, ChannelClose, ChannelOpen, Client, Closing, ConfirmSelect, Error, ExchangeDeclare,
    ExchangeDelete, FieldTable, Method, QueueBind, QueueDeclare, QueueDelete, QueuePurge, TxSelect, reply,
};

use crate::protocol::BodyLengths;
use crate::{Exchange, Guarantee};

/// A tag is unique within its channel only; every delivery carries it, so it is short.
pub(super) const CONSUMER_TAG: &str = "c";

/// A question with what it is for.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// As in "cannot ...".
    pub(super) action: String,
    pub(super) question: Question,
}

/// A request's method. An empty queue is the last one that the broker named.
#[derive(Clone, Debug)]
pub(super) enum Question {
    OpenChannel,
    CloseChannel,
    DeclareExchange { exchange: Exchange, passive: bool },
    DeclareQueue { queue: Queue, passive: bool },
    Bind { queue: String, exchange: String, key: String },
    Purge { queue: String },
    Delete { queue: String },
    DeleteExchange { exchange: String },
    SelectConfirms,
    SelectTransactions,
    Prefetch { count: u16, whole: bool },
    Consume { queue: String, no_ack: bool, arguments: FieldTable },
}

/// The broker's answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// To the login.
    Open,
    /// The queue's name, the messages in it, and its consumers.
    Declared {
        queue: String,
        messages: u32,
        consumers: u32,
    },
    /// To any other request: it is done.
    Done,
    /// A passive declaration found nothing; the channel is closed.
    Missing,
    Committed,
    /// To the end of a subscription.
    Cancelled,
    /// To the orderly close.
    Closed,
}

impl Request {
    pub(super) fn new(action: impl Into<String>, question: Question) -> Self {
        Self { action: action.into(), question }
    }

    pub(crate) fn open_channel() -> Self {
        Self::new("open a channel", Question::OpenChannel)
    }

    pub(crate) fn close_channel() -> Self {
        Self::new("close a channel", Question::CloseChannel)
    }

    pub(crate) fn declare_queue(action: impl Into<String>, queue: Queue) -> Self {
        Self::new(action, Question::DeclareQueue { queue, passive: false })
    }

    pub(super) fn look_into(queue: &str) -> Self {
        let action = format!("look into queue {queue:?}");
        let queue = Queue { name: queue.to_owned(), ..Queue::default() };
        Self::new(action, Question::DeclareQueue { queue, passive: true })
    }

    pub(crate) fn bind(action: impl Into<String>, queue: &str, exchange: &str, key: &str) -> Self {
        let question = Question::Bind { queue: queue.to_owned(), exchange: exchange.to_owned(), key: key.to_owned() };
        Self::new(action, question)
    }

    pub(crate) fn delete_queue(queue: &str) -> Self {
        Self::new(format!("delete queue {queue:?}"), Question::Delete { queue: queue.to_owned() })
    }

    /// Whether what it asks for need not exist.
    pub(super) fn may_miss(&self, closing: &Closing<'_>) -> bool {
        let passive = matches!(
            self.question,
            Question::DeclareExchange { passive: true, .. } | Question::DeclareQueue { passive: true, .. }
        );
        passive && closing.code == reply::NOT_FOUND
    }

    /// The answer in the broker's method; `None` where it is none.
    pub(super) fn answer_of(&self, method: &Method<'_>) -> Option<Answer> {
        if let (Question::DeclareQueue { .. }, Method::QueueDeclareOk(ok)) = (&self.question, method) {
            return Some(Answer::Declared {
                queue: ok.queue.to_owned(),
                messages: ok.message_count,
                consumers: ok.consumer_count,
            });
        }
        matches!(
            (&self.question, method),
            (Question::OpenChannel, Method::ChannelOpenOk(_))
                | (Question::CloseChannel, Method::ChannelCloseOk(_))
                | (Question::DeclareExchange { .. }, Method::ExchangeDeclareOk(_))
                | (Question::Bind { .. }, Method::QueueBindOk(_))
                | (Question::Purge { .. }, Method::QueuePurgeOk(_))
                | (Question::Delete { .. }, Method::QueueDeleteOk(_))
                | (Question::DeleteExchange { .. }, Method::ExchangeDeleteOk(_))
                | (Question::SelectConfirms, Method::ConfirmSelectOk(_))
                | (Question::SelectTransactions, Method::TxSelectOk(_))
                | (Question::Prefetch { .. }, Method::BasicQosOk(_))
                | (Question::Consume { .. }, Method::BasicConsumeOk(_))
        )
        .then_some(Answer::Done)
    }

    /// Queues its method; `named` is the queue that the broker named last.
    pub(super) fn send(&self, client: &mut Client, channel: u16, named: &str) -> Result<(), Error> {
        let method: Method<'_> = match &self.question {
            Question::OpenChannel => ChannelOpen::default().into(),
            Question::CloseChannel => ChannelClose { reply_code: 200, ..ChannelClose::default() }.into(),
            Question::DeclareExchange { exchange, passive } => Method::ExchangeDeclare(ExchangeDeclare {
                exchange: &exchange.name,
                kind: &exchange.kind,
                passive: *passive,
                durable: exchange.durable,
                auto_delete: exchange.auto_delete,
                ..ExchangeDeclare::default()
            }),
            Question::DeclareQueue { queue, passive } => Method::QueueDeclare(QueueDeclare {
                queue: &queue.name,
                passive: *passive,
                durable: queue.durable,
                auto_delete: queue.auto_delete,
                exclusive: queue.exclusive,
                arguments: queue.arguments.view(),
                ..QueueDeclare::default()
            }),
            Question::Bind { queue, exchange, key } => Method::QueueBind(QueueBind {
                queue: if queue.is_empty() { named } else { queue },
                exchange,
                routing_key: key,
                ..QueueBind::default()
            }),
            Question::Purge { queue } => QueuePurge { queue, ..QueuePurge::default() }.into(),
            Question::Delete { queue } => QueueDelete { queue, ..QueueDelete::default() }.into(),
            Question::DeleteExchange { exchange } => {
                ExchangeDelete { exchange, if_unused: true, ..ExchangeDelete::default() }.into()
            }
            Question::SelectConfirms => ConfirmSelect::default().into(),
            Question::SelectTransactions => TxSelect::default().into(),
            Question::Prefetch { count, whole } => {
                BasicQos { prefetch_count: *count, global: *whole, ..BasicQos::default() }.into()
            }
            Question::Consume { queue, no_ack, arguments } => Method::BasicConsume(BasicConsume {
                queue,
                consumer_tag: CONSUMER_TAG,
                no_ack: *no_ack,
                arguments: arguments.view(),
                ..BasicConsume::default()
            }),
        };
        client.send(channel, &method)
    }
}

/// A channel's role, and its declaration.
#[derive(Clone, Debug)]
pub(crate) struct ChannelSpec {
    pub(crate) role: Role,
    /// Declared again when the connection is re-established: a broker that has restarted may have forgotten it. The
    /// first time it was done before, unless it is this connection's alone.
    pub(crate) declaration: Option<Declaration>,
}

/// A queue, the exchange in front of it, and the binding between them.
#[derive(Clone, Debug)]
pub(crate) struct Declaration {
    pub(crate) queue: Option<Queue>,
    pub(crate) exchange: Option<Exchange>,
    /// The exchange that the queue is bound to, and the routing key.
    pub(crate) binding: Option<(String, String)>,
}

/// A queue with its properties; without a name the broker gives it one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queue {
    pub(crate) name: String,
    pub(crate) durable: bool,
    pub(crate) auto_delete: bool,
    pub(crate) exclusive: bool,
    pub(crate) arguments: FieldTable,
}

#[derive(Clone, Debug)]
pub(crate) enum Role {
    Producer(Publishing),
    Consumer(Consuming),
    /// For [`super::AmqpConnection::ask`] alone; it is not open in the beginning.
    Requests,
}

/// How messages are published.
#[derive(Clone, Debug)]
pub(crate) struct Publishing {
    pub(crate) exchange: String,
    pub(crate) routing_key: String,
    pub(crate) guarantee: Guarantee,
    pub(crate) mandatory: bool,
    /// The content header's property list, encoded.
    pub(crate) properties: Vec<u8>,
    pub(crate) bodies: BodyLengths,
}

/// How messages are received.
#[derive(Clone, Debug)]
pub(crate) struct Consuming {
    pub(crate) source: Source,
    /// Of the consumer, at most the channel's where that has one; 0 is unlimited.
    pub(crate) prefetch: u16,
    pub(crate) channel_prefetch: u16,
    pub(crate) no_ack: bool,
    /// Acknowledgements are part of transactions.
    pub(crate) transacted: bool,
    pub(crate) begin: Begin,
    pub(crate) arguments: FieldTable,
}

/// When a consumer's `basic.consume` is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begin {
    AtSetUp,
    /// When the load says so.
    Later,
    /// Never: it asks for each message with `basic.get`.
    Polling,
}

#[derive(Clone, Debug)]
pub(crate) enum Source {
    Queue(String),
    /// A queue of its own, bound to an exchange by a key.
    Own {
        exchange: String,
        key: String,
        arguments: FieldTable,
    },
}
