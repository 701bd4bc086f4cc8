//! A node and clients in one thread and in virtual time, for tests.

use std::collections::VecDeque;
use std::ops::Range;

use measure::{Nanos, Time};
use wire::Secret;
use wire::amqp091::{
    BasicAck, BasicConsume, BasicPublish, BasicQos, ChannelOpen, Client, ClientConfig, EncodeMethod, Event, FieldTable,
    Method, Properties, QueueDeclare, Value,
};

use crate::config::Config;
use crate::faults::FaultLog;
use crate::node::{Node, Verdict};
use crate::slots::Key;

/// A [`wire`] event that owns what it says: a method by its name, with its fields as they print. The last is the end of
/// the transport.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Open,
    Method(String),
    Confirm { tag: u64, multiple: bool, nack: bool },
    Delivery { consumer: String, tag: u64, redelivered: bool, body: String },
    GetOk { redelivered: bool, left: u32, body: String },
    GetEmpty,
    Returned { code: u16, body: String },
    Cancelled(String),
    Blocked,
    Unblocked,
    ChannelClosed(u16, String),
    Closed(u16, String),
    CloseOk,
    End,
}

struct End {
    client: Client,
    key: Key,
    to_node: Vec<u8>,
    /// All that it ever sent.
    sent: Vec<u8>,
    to_client: Vec<u8>,
    seen: VecDeque<Seen>,
    /// Whether it takes what is sent to it.
    reads: bool,
    is_over: bool,
}

pub(crate) struct World {
    pub(crate) node: Node,
    pub(crate) now: Time,
    ends: Vec<End>,
}

impl World {
    pub(crate) fn new(config: Config) -> Self {
        Self::with_log(config, FaultLog::default())
    }

    pub(crate) fn with_log(config: Config, log: FaultLog) -> Self {
        Self { node: Node::new(config, log), now: Time(1_000_000_000), ends: Vec::new() }
    }

    /// A client that is connected but has said nothing, for tests of the handshake.
    pub(crate) fn arrive(&mut self, config: ClientConfig) -> usize {
        let key = self.node.connect(self.now, false);
        let client = Client::new(config, self.now);
        self.ends.push(End {
            client,
            key,
            to_node: Vec::new(),
            sent: Vec::new(),
            to_client: Vec::new(),
            seen: VecDeque::new(),
            reads: true,
            is_over: false,
        });
        self.pump();
        self.ends.len() - 1
    }

    /// A client with channel 1 open.
    pub(crate) fn client(&mut self) -> usize {
        let client = self.arrive(guest());
        assert_eq!(self.seen(client), [Seen::Open]);
        self.send(client, 1, &ChannelOpen::default());
        assert!(matches!(&self.seen(client)[..], [Seen::Method(m)] if m.starts_with("ChannelOpenOk")));
        client
    }

    /// Moves bytes until nothing moves any more.
    pub(crate) fn pump(&mut self) {
        loop {
            let mut moved = false;
            self.node.advance(self.now);
            for end in self.ends.iter_mut().filter(|e| !e.is_over) {
                let output = end.client.pending_output();
                end.to_node.extend_from_slice(output);
                end.sent.extend_from_slice(output);
                let n = output.len();
                end.client.consume_output(n);
                let mut input = &end.to_node[..];
                if self.node.verdict(end.key) == Verdict::Read {
                    self.node.input(end.key, self.now, &mut input);
                }
                let used = end.to_node.len() - input.len();
                end.to_node.drain(..used);
                moved |= used > 0;
            }
            self.node.turn();
            while self.node.next_touched().is_some() || self.node.next_resumed().is_some() {}
            for end in self.ends.iter_mut().filter(|e| !e.is_over && e.reads) {
                let output = self.node.output(end.key);
                end.to_client.extend_from_slice(output);
                let n = output.len();
                self.node.written(end.key, n);
                moved |= n > 0;
                receive(&mut end.client, self.now, &mut end.to_client, &mut end.seen);
                if self.node.verdict(end.key) == Verdict::Finish {
                    end.seen.push_back(Seen::End);
                    end.is_over = true;
                    self.node.disconnect(end.key);
                }
            }
            if !moved && !self.node.has_work() {
                return;
            }
        }
    }

    /// Events of a client since the last call.
    pub(crate) fn seen(&mut self, client: usize) -> Vec<Seen> {
        self.pump();
        self.ends[client].seen.drain(..).collect()
    }

    /// The deliveries among it: tag, whether redelivered, body.
    pub(crate) fn deliveries(&mut self, client: usize) -> Vec<(u64, bool, String)> {
        let of = |seen| match seen {
            Seen::Delivery { tag, redelivered, body, .. } => Some((tag, redelivered, body)),
            _ => None,
        };
        self.seen(client).into_iter().filter_map(of).collect()
    }

    /// The bodies among it.
    pub(crate) fn bodies(&mut self, client: usize) -> Vec<String> {
        self.deliveries(client).into_iter().map(|d| d.2).collect()
    }

    pub(crate) fn send(&mut self, client: usize, channel: u16, method: &impl EncodeMethod) {
        self.ends[client].client.send(channel, method).expect("a method that can be sent");
    }

    pub(crate) fn send_raw(&mut self, client: usize, bytes: &[u8]) {
        self.ends[client].to_node.extend_from_slice(bytes);
    }

    pub(crate) fn ask(&mut self, client: usize, channel: u16, method: &impl EncodeMethod) -> Seen {
        self.send(client, channel, method);
        let mut seen = self.seen(client);
        assert_eq!(seen.len(), 1, "one answer, not {seen:?}");
        seen.remove(0)
    }

    pub(crate) fn publish(&mut self, client: usize, exchange: &str, key: &str, body: &str) {
        self.publish_with(client, exchange, key, false, body);
    }

    pub(crate) fn publish_with(&mut self, client: usize, exchange: &str, key: &str, mandatory: bool, body: &str) {
        let publish = BasicPublish { exchange, routing_key: key, mandatory, ..BasicPublish::default() };
        self.publish_as(client, &publish, Properties::NONE, body);
    }

    pub(crate) fn publish_as(&mut self, from: usize, publish: &BasicPublish<'_>, with: Properties<'_>, body: &str) {
        let client = &mut self.ends[from].client;
        client.send_content(1, publish, with, body.as_bytes()).expect("a message that can be sent");
    }

    pub(crate) fn publish_numbers(&mut self, client: usize, queue: &str, range: Range<u32>) {
        for i in range {
            self.publish(client, "", queue, &i.to_string());
        }
        self.pump();
    }

    /// Publishes messages of this size; they are not sent yet.
    pub(crate) fn fill(&mut self, client: usize, queue: &str, count: usize, size: usize) {
        let body = "x".repeat(size);
        (0..count).for_each(|_| self.publish(client, "", queue, &body));
    }

    /// Declares a queue with defaults, on channel 1.
    pub(crate) fn queue(&mut self, client: usize, name: &str) {
        let answer = self.ask(client, 1, &QueueDeclare { queue: name, ..QueueDeclare::default() });
        assert!(matches!(&answer, Seen::Method(m) if m.starts_with("QueueDeclareOk")), "{answer:?}");
    }

    pub(crate) fn qos(&mut self, client: usize, prefetch_count: u16, global: bool) {
        self.ask(client, 1, &BasicQos { prefetch_count, global, ..BasicQos::default() });
    }

    /// Starts a consumer with acknowledgements on channel 1; deliveries are left to be seen.
    pub(crate) fn consume(&mut self, client: usize, queue: &str, tag: &str) {
        self.send(client, 1, &consume(queue, tag));
        self.pump();
        let seen = &mut self.ends[client].seen;
        let at = seen
            .iter()
            .position(|s| matches!(s, Seen::Method(m) if m.starts_with("BasicConsumeOk")))
            .expect("consume-ok");
        seen.remove(at);
    }

    pub(crate) fn ack(&mut self, client: usize, delivery_tag: u64, multiple: bool) {
        self.send(client, 1, &BasicAck { delivery_tag, multiple });
    }

    /// The client stops or resumes taking what is sent to it.
    pub(crate) fn set_reading(&mut self, client: usize, reads: bool) {
        self.ends[client].reads = reads;
    }

    /// All bytes that a client sent so far.
    pub(crate) fn sent(&self, client: usize) -> &[u8] {
        &self.ends[client].sent
    }

    /// The client's transport breaks.
    pub(crate) fn cut(&mut self, client: usize) {
        self.pump();
        self.ends[client].is_over = true;
        self.node.disconnect(self.ends[client].key);
        self.pump();
    }

    /// Lets time pass in steps of a second.
    pub(crate) fn pass(&mut self, seconds: u64) {
        self.pass_by(Nanos::SECOND, seconds);
    }

    pub(crate) fn pass_by(&mut self, step: Nanos, steps: u64) {
        for _ in 0..steps {
            self.now = self.now + step;
            for end in self.ends.iter_mut().filter(|e| !e.is_over && e.reads) {
                end.client.handle_timeout(self.now).expect("the broker does not fall silent");
            }
            let mut gone = Vec::new();
            self.node.tick(self.now, |key| gone.push(key));
            for key in gone {
                self.node.disconnect(key);
                let end = self.ends.iter_mut().find(|e| e.key == key).expect("a client");
                end.seen.push_back(Seen::End);
                end.is_over = true;
            }
            self.pump();
        }
    }

    /// Bytes waiting to be written to a client.
    pub(crate) fn waiting(&self, client: usize) -> usize {
        self.node.output(self.ends[client].key).len()
    }
}

/// Gives a client its input, as far as it takes it; events go to those that it has seen.
pub(crate) fn receive(client: &mut Client, now: Time, bytes: &mut Vec<u8>, seen: &mut VecDeque<Seen>) {
    let mut input = &bytes[..];
    while let Some(event) = client.poll(now, &mut input).expect("a broker that speaks AMQP") {
        seen.push_back(owned(&event));
    }
    let used = bytes.len() - input.len();
    bytes.drain(..used);
}

fn owned(event: &Event<'_>) -> Seen {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match *event {
        Event::Open { .. } => Seen::Open,
        Event::Method { method, .. } => Seen::Method(printed(&method)),
        Event::Confirm { delivery_tag: tag, multiple, nack, .. } => Seen::Confirm { tag, multiple, nack },
        Event::Delivery { consumer_tag, delivery_tag, redelivered, body, .. } => {
            Seen::Delivery { consumer: consumer_tag.to_owned(), tag: delivery_tag, redelivered, body: text(body) }
        }
        Event::GetOk { got, body, .. } => {
            Seen::GetOk { redelivered: got.redelivered, left: got.message_count, body: text(body) }
        }
        Event::GetEmpty { .. } => Seen::GetEmpty,
        Event::Returned { returned, body, .. } => Seen::Returned { code: returned.reply_code, body: text(body) },
        Event::ConsumerCancelled { consumer_tag, .. } => Seen::Cancelled(consumer_tag.to_owned()),
        Event::Blocked { .. } => Seen::Blocked,
        Event::Unblocked => Seen::Unblocked,
        Event::ChannelClosed { closing, .. } => Seen::ChannelClosed(closing.code, closing.text.to_owned()),
        Event::Closed { closing } => Seen::Closed(closing.code, closing.text.to_owned()),
        Event::CloseOk => Seen::CloseOk,
    }
}

/// `QueueDeclareOk { queue: "q", message_count: 0, consumer_count: 0 }`
fn printed(method: &Method<'_>) -> String {
    let text = format!("{method:?}");
    let inner = text.split_once('(').map_or(&*text, |(_, inner)| inner);
    inner.strip_suffix(')').unwrap_or(inner).to_owned()
}

pub(crate) fn guest() -> ClientConfig {
    ClientConfig { user: "guest".to_owned(), password: Secret::new("guest"), ..ClientConfig::default() }
}

pub(crate) fn consume<'a>(queue: &'a str, tag: &'a str) -> BasicConsume<'a> {
    BasicConsume { queue, consumer_tag: tag, ..BasicConsume::default() }
}

pub(crate) fn table(fields: &[(&str, Value<'_>)]) -> FieldTable {
    let mut table = FieldTable::new();
    for (name, value) in fields {
        table.insert(name, *value).unwrap();
    }
    table
}

pub(crate) fn world() -> World {
    World::new(Config::default())
}

/// A world with clients, the first of which has declared the queue `q`.
pub(crate) fn with_queue<const N: usize>(config: Config) -> (World, [usize; N]) {
    let mut w = World::new(config);
    let clients = std::array::from_fn(|_| w.client());
    w.queue(clients[0], "q");
    (w, clients)
}

/// The answer `{name}-ok` without fields.
pub(crate) fn method(name: &str) -> Seen {
    Seen::Method(format!("{name}Ok"))
}

pub(crate) fn bodies(range: Range<u32>) -> Vec<String> {
    range.map(|i| i.to_string()).collect()
}
