//! Queues, exchanges and bindings over AMQP 1.0 alone, as RabbitMQ's clients ask for them ("HTTP over AMQP"): a request
//! is a message to `/management`, whose subject is the method, whose `to` is the path, and whose body is a map. The
//! answer, whose subject is the status, goes over the session's link from `/management`.
//!
//! ```text
//! PUT, GET, DELETE /queues/QUEUE         DELETE /queues/QUEUE/messages
//! PUT, DELETE      /exchanges/EXCHANGE
//! POST             /bindings             DELETE /bindings/src=EXCHANGE;dstq=QUEUE;key=KEY;args=
//! ```

use measure::percent_decoded;
use wire::amqp10::{
    Items, MessageBody, MessageHead, MessageParts, PropertiesSection, TypedValue, put_map, simple_field, simple_value,
};
use wire::amqp091::{
    ExchangeBind, ExchangeDeclare, ExchangeDelete, ExchangeUnbind, FieldTable, Method, QueueBind, QueueDeclare,
    QueueDelete, QueuePurge, QueueUnbind, Value, reply,
};

use crate::queue::Queue;
use crate::session::{Peer, Reply};
use crate::vhost::{self, VirtualHost};

/// Address of the links for requests and answers.
pub(crate) const ADDRESS: &str = "/management";
/// Arguments of a queue, exchange or binding at most.
const ARGUMENTS_MAX: usize = 64;
/// Bytes of an argument at most: queues keep them.
const ARGUMENT_MAX: usize = 1_024;
/// Bytes before a request's body at most: its answer repeats some of them.
const HEAD_MAX: usize = 16_384;
/// The constructor of a body of one value.
const VALUE: [u8; 3] = [0, 0x53, 0x77];
/// An array of one text: the nodes that have a queue.
const REPLICAS: &[u8] = b"\xE0\x0A\x01\xA1\x07bellows";

/// The answer to a request, as a whole message.
pub(crate) fn answer(peer: &mut Peer, session: u16, request: &MessageParts<'_>, vhost: &mut VirtualHost) -> Vec<u8> {
    let is_short = request.before.0.len() <= HEAD_MAX;
    let properties = request.before.properties().filter(|_| is_short).unwrap_or_default();
    let fields = match request.body {
        MessageBody::Value(TypedValue::Map(fields)) => Fields(fields),
        _ => Fields(Items::default()),
    };
    let (method, path) = (properties.subject.unwrap_or_default(), properties.to.as_str().unwrap_or_default());
    let known = vhost.queues.len();
    let reply = ask(method, path, fields, |method| peer.request(session, method, vhost));
    let mut body = VALUE.to_vec();
    let status = match reply {
        Some(Reply::Declared(key)) => {
            if let Some(queue) = vhost.queues.get(key) {
                put_queue(queue, &mut body);
            }
            if vhost.queues.len() > known { "201" } else { "200" }
        }
        Some(Reply::Method(Method::QueueDeleteOk(it))) => put_count(it.message_count, &mut body),
        Some(Reply::Method(Method::QueuePurgeOk(it))) => put_count(it.message_count, &mut body),
        Some(Reply::Refuse(refusal, _)) => {
            TypedValue::Str(&refusal.text).write(&mut body);
            match refusal.code {
                reply::NOT_FOUND => "404",
                reply::ACCESS_REFUSED => "403",
                reply::PRECONDITION_FAILED => "409",
                _ => "400",
            }
        }
        Some(_) => "204",
        None => "404",
    };
    if body == VALUE {
        TypedValue::Null.write(&mut body);
    }
    let mut message = Vec::new();
    let head = MessageHead {
        properties: PropertiesSection {
            to: properties.reply_to,
            subject: Some(status),
            correlation_id: properties.message_id,
            ..PropertiesSection::default()
        },
        application_properties: &[("http:response", TypedValue::Str("1.1"))],
        ..MessageHead::default()
    };
    head.write(&mut message);
    message.extend_from_slice(&body);
    message
}

/// Asks as a client of AMQP 0.9.1 does; `None` for what cannot be asked.
fn ask(method: &str, path: &str, fields: Fields<'_>, request: impl FnOnce(&Method<'_>) -> Reply) -> Option<Reply> {
    let parts: Vec<&str> = path.strip_prefix('/')?.split('/').collect();
    let arguments = fields.table("arguments");
    let arguments = arguments.view();
    let name = match parts.as_slice() {
        ["queues" | "exchanges", name, ..] => decoded(name)?,
        _ => String::new(),
    };
    let name = name.as_str();
    let asked: &Method<'_> = &match (method, parts.as_slice()) {
        ("PUT" | "GET", ["queues", _]) => QueueDeclare {
            queue: name,
            passive: method == "GET",
            durable: fields.flag("durable"),
            exclusive: fields.flag("exclusive"),
            auto_delete: fields.flag("auto_delete"),
            arguments,
            ..QueueDeclare::default()
        }
        .into(),
        ("DELETE", ["queues", _]) => QueueDelete { queue: name, ..QueueDelete::default() }.into(),
        ("DELETE", ["queues", _, "messages"]) => QueuePurge { queue: name, ..QueuePurge::default() }.into(),
        ("PUT", ["exchanges", _]) => ExchangeDeclare {
            exchange: name,
            kind: fields.text("type").unwrap_or("direct"),
            durable: fields.flag("durable"),
            auto_delete: fields.flag("auto_delete"),
            internal: fields.flag("internal"),
            arguments,
            ..ExchangeDeclare::default()
        }
        .into(),
        ("DELETE", ["exchanges", _]) => ExchangeDelete { exchange: name, ..ExchangeDelete::default() }.into(),
        ("POST", ["bindings"]) => {
            let (source, routing_key) = (fields.text("source")?, fields.text("binding_key")?);
            match (fields.text("destination_queue"), fields.text("destination_exchange")) {
                (Some(queue), _) => {
                    QueueBind { queue, exchange: source, routing_key, arguments, ..QueueBind::default() }.into()
                }
                (None, destination) => {
                    let destination = destination?;
                    ExchangeBind { destination, source, routing_key, arguments, ..ExchangeBind::default() }.into()
                }
            }
        }
        ("DELETE", ["bindings", binding]) => return unbind(binding, request),
        _ => return None,
    };
    Some(request(asked))
}

fn unbind(binding: &str, request: impl FnOnce(&Method<'_>) -> Reply) -> Option<Reply> {
    let field = |name: &str| {
        let mut all = binding.split(';').filter_map(|it| it.split_once('='));
        decoded(all.find(|it| it.0 == name)?.1)
    };
    let (source, key) = (field("src")?, field("key")?);
    let reply = match (field("dstq"), field("dste")) {
        (Some(queue), _) => {
            let unbind = QueueUnbind { queue: &queue, exchange: &source, routing_key: &key, ..QueueUnbind::default() };
            request(&unbind.into())
        }
        (None, destination) => {
            let (destination, source) = (&*destination?, &*source);
            let unbind = ExchangeUnbind { destination, source, routing_key: &key, ..ExchangeUnbind::default() };
            request(&unbind.into())
        }
    };
    Some(reply)
}

fn decoded(text: &str) -> Option<String> {
    String::from_utf8(percent_decoded(text)?).ok().filter(|it| it.len() <= usize::from(u8::MAX))
}

/// A request's body.
#[derive(Clone, Copy)]
struct Fields<'a>(Items<'a>);

impl<'a> Fields<'a> {
    fn flag(self, name: &str) -> bool {
        self.0.get(name) == Some(TypedValue::Bool(true))
    }

    fn text(self, name: &str) -> Option<&'a str> {
        self.0.get(name)?.as_str().filter(|it| it.len() <= usize::from(u8::MAX))
    }

    /// A map of simple values; what cannot be an argument is left out, and what are too many.
    fn table(self, name: &str) -> FieldTable {
        let mut table = FieldTable::new();
        if let Some(TypedValue::Map(items)) = self.0.get(name) {
            let is_short =
                |value: &Value<'_>| !matches!(value, Value::Str(it) | Value::Bytes(it) if it.len() > ARGUMENT_MAX);
            let mut items = items.flatten().take(2 * ARGUMENTS_MAX);
            while let (Some(key), Some(value)) = (items.next(), items.next()) {
                if let (Some(key), Some(value)) = (key.as_str(), simple_field(value).filter(is_short)) {
                    let _ = table.insert(key, value);
                }
            }
        }
        table
    }
}

fn put_count(messages: u32, out: &mut Vec<u8>) -> &'static str {
    put_map(out, |out| {
        TypedValue::Str("message_count").write(out);
        TypedValue::Ulong(messages.into()).write(out);
        2
    });
    "200"
}

fn put_queue(queue: &Queue, out: &mut Vec<u8>) {
    let fields = [
        ("name", TypedValue::Str(&queue.name)),
        ("vhost", TypedValue::Str(vhost::NAME)),
        ("durable", TypedValue::Bool(queue.flags.durable)),
        ("exclusive", TypedValue::Bool(queue.flags.exclusive)),
        ("auto_delete", TypedValue::Bool(queue.flags.auto_delete)),
        ("type", TypedValue::Str(queue.arguments.queue_type.name())),
        ("leader", TypedValue::Str("bellows")),
        ("message_count", TypedValue::Ulong(queue.ready())),
        ("consumer_count", TypedValue::Uint(queue.consumers.len() as u32)),
    ];
    put_map(out, |out| {
        for (name, value) in fields {
            TypedValue::Str(name).write(out);
            value.write(out);
        }
        TypedValue::Str("replicas").write(out);
        out.extend_from_slice(REPLICAS);
        TypedValue::Str("arguments").write(out);
        put_map(out, |out| {
            let simple = queue.table.iter().filter_map(|(name, value)| Some((name, simple_value(value)?)));
            let mut count = 0;
            for (name, value) in simple {
                TypedValue::Str(name).write(out);
                value.write(out);
                count += 2;
            }
            count
        });
        2 * (fields.len() as u32 + 2)
    });
}
