//! Queues, exchanges and bindings as RabbitMQ tells them in JSON: its Erlang node (`topology.erl`) and its management
//! API use the same words, so that both make the same [`Topology`].

use std::cmp::Ordering;
use std::collections::HashSet;

use archive::{BindingRecord, ExchangeRecord, QueueRecord, Topology};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Objects of a kind that a record keeps; `topology.erl` has the same number.
pub const KEPT: usize = 1_000;
/// Characters of a name, and of an argument: AMQP's names have 255 bytes at most.
const LONGEST: usize = 300;
/// Arguments of an object that a record keeps.
const MOST_ARGUMENTS: usize = 50;
/// Nodes of a queue that a record keeps.
const MOST_MEMBERS: usize = 20;

/// The objects of a broker, at most [`KEPT`] of each kind.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct BrokerObjects {
    /// All virtual hosts' queues.
    pub queues: Vec<Queue>,
    /// All virtual hosts' exchanges.
    pub exchanges: Vec<ExchangeRecord>,
    /// All virtual hosts' bindings.
    pub bindings: Vec<Binding>,
    /// Objects that are left out.
    pub omitted: u64,
}

/// A queue.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Queue {
    /// As its broker calls it.
    pub name: String,
    /// Its virtual host.
    pub vhost: String,
    #[serde(rename = "type")]
    kind: String,
    durable: bool,
    #[serde(deserialize_with = "count")]
    /// Ready, and delivered but not acknowledged.
    pub messages: u64,
    #[serde(deserialize_with = "count")]
    consumers: u64,
    /// The node of its process, or of its leader.
    #[serde(deserialize_with = "text")]
    leader: String,
    /// As the management API names the leader.
    #[serde(deserialize_with = "text")]
    node: String,
    /// Nodes that have it, of a quorum queue or a stream.
    #[serde(deserialize_with = "texts")]
    members: Vec<String>,
    /// Those of a mirrored classic queue.
    #[serde(rename = "slave_nodes", deserialize_with = "texts")]
    mirrors: Vec<String>,
    arguments: Value,
}

/// A binding from an exchange to a queue, or to another exchange.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Binding {
    source: String,
    vhost: String,
    destination: String,
    destination_type: String,
    routing_key: String,
    arguments: Value,
}

impl BrokerObjects {
    /// As a record keeps them, in the order of their virtual hosts and names.
    pub fn into_topology(mut self) -> Topology {
        self.queues.sort_by(|a, b| (&a.vhost, &a.name).cmp(&(&b.vhost, &b.name)));
        self.exchanges.sort_by(|a, b| (&a.vhost, &a.name).cmp(&(&b.vhost, &b.name)));
        self.forget_only_node();
        let mut bindings: Vec<_> = self.bindings.into_iter().map(Binding::into_record).collect();
        bindings.sort_by(compare);
        let exchange =
            |it: ExchangeRecord| ExchangeRecord { name: cut(it.name), vhost: cut(it.vhost), kind: cut(it.kind) };
        Topology {
            queues: self.queues.into_iter().map(Queue::into_record).collect(),
            exchanges: self.exchanges.into_iter().map(exchange).collect(),
            bindings,
            omitted: self.omitted,
            lagging: false,
            consumers_left: false,
        }
    }

    /// Where all queues are on one node, its name says nothing.
    fn forget_only_node(&mut self) {
        let nodes = self.queues.iter().flat_map(Queue::nodes);
        let nodes: HashSet<&str> = nodes.filter(|node| !node.is_empty()).collect();
        if nodes.len() > 1 {
            return;
        }
        for queue in &mut self.queues {
            queue.leader.clear();
            queue.node.clear();
            queue.members.clear();
            queue.mirrors.clear();
        }
    }
}

impl Queue {
    /// The nodes that have it, some of them twice.
    fn nodes(&self) -> impl Iterator<Item = &str> {
        self.members.iter().chain(&self.mirrors).chain([self.led_by()]).map(String::as_str)
    }

    const fn led_by(&self) -> &String {
        if self.leader.is_empty() { &self.node } else { &self.leader }
    }

    fn into_record(self) -> QueueRecord {
        let leader = self.led_by().clone();
        let mut members: Vec<String> = self.members.into_iter().chain(self.mirrors).collect();
        // A mirrored queue's first node is no mirror.
        if !members.is_empty() && !leader.is_empty() && !members.contains(&leader) {
            members.push(leader.clone());
        }
        members.sort();
        members.truncate(MOST_MEMBERS);
        QueueRecord {
            leader: cut(leader),
            members: members.into_iter().map(cut).collect(),
            name: cut(self.name),
            vhost: cut(self.vhost),
            kind: cut(self.kind),
            durable: self.durable,
            messages: self.messages,
            consumers: self.consumers,
            arguments: arguments(self.arguments),
        }
    }
}

impl Binding {
    /// For the run folder; long texts are cut.
    pub fn into_record(self) -> BindingRecord {
        BindingRecord {
            source: cut(self.source),
            vhost: cut(self.vhost),
            destination: cut(self.destination),
            destination_type: cut(self.destination_type),
            routing_key: cut(self.routing_key),
            arguments: arguments(self.arguments),
        }
    }
}

/// The order in which bindings are kept and shown: that of RabbitMQ's own records.
pub fn compare(a: &BindingRecord, b: &BindingRecord) -> Ordering {
    fn texts(it: &BindingRecord) -> [&String; 5] {
        [&it.vhost, &it.source, &it.routing_key, &it.destination_type, &it.destination]
    }
    texts(a).cmp(&texts(b)).then_with(|| a.arguments.cmp(&b.arguments))
}

/// A count; 0 where none is told.
fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    Ok(Value::deserialize(deserializer)?.as_u64().unwrap_or(0))
}

/// A text; nothing where none is told.
fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::String(text) => text,
        _ => String::new(),
    })
}

/// A list of texts; empty where none is told.
fn texts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let Value::Array(all) = Value::deserialize(deserializer)? else { return Ok(Vec::new()) };
    let texts = all.into_iter().filter_map(|it| match it {
        Value::String(text) => Some(text),
        _ => None,
    });
    Ok(texts.collect())
}

/// A text, or its beginning.
fn cut(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(LONGEST) {
        text.truncate(end);
        text.push('…');
    }
    text
}

/// A table of arguments as `key=value`, in the order of its keys; lists and tables as JSON, secrets hidden.
fn arguments(table: Value) -> Vec<String> {
    let Value::Object(table) = table else { return Vec::new() };
    let mut all: Vec<(String, Value)> = table.into_iter().collect();
    all.sort_by(|(a, _), (b, _)| a.cmp(b));
    let text = |(key, value): (String, Value)| {
        let value = match value {
            Value::String(value) => value,
            value => value.to_string(),
        };
        cut(format!("{key}={}", crate::redact::argument(&key, &value)))
    };
    all.into_iter().take(MOST_ARGUMENTS).map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_becomes_a_record_in_one_order() {
        let text = include_str!("../tests/data/objects.json");
        let objects: BrokerObjects = serde_json::from_str(text).unwrap();
        let topology = objects.into_topology();
        let queues: Vec<_> = topology.queues.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(queues, ["z", "a", "b"]);
        let last = topology.queues.last().unwrap();
        assert_eq!((last.messages, last.consumers), (3, 0));
        assert_eq!(last.arguments, ["x-a=text", "x-b=1.5", "x-c={\"a\":[1,\"2\"],\"z\":true}", "x-token=***"]);
        let bindings: Vec<_> =
            topology.bindings.iter().map(|it| (it.source.as_str(), it.destination_type.as_str())).collect();
        assert_eq!(bindings, [("", "queue"), ("x", "exchange"), ("x", "queue")]);
        assert_eq!(topology.omitted, 7);
    }

    #[test]
    fn the_nodes_of_queues_are_told_where_there_are_several() {
        let made = |queues: Value| {
            let text = serde_json::json!({ "queues": queues });
            let objects: BrokerObjects = serde_json::from_value(text).unwrap();
            objects.into_topology().queues.into_iter().map(|it| (it.leader, it.members.join(" "))).collect::<Vec<_>>()
        };
        let alone = serde_json::json!([
            {"name": "a", "leader": "n0@h", "members": ["n0@h"]},
            {"name": "b", "node": "n0@h", "members": null, "slave_nodes": ""}
        ]);
        assert_eq!(made(alone), vec![(String::new(), String::new()); 2]);
        let several = serde_json::json!([
            {"name": "a", "leader": "n1@h", "node": "n1@h", "members": ["n2@h", "n1@h", 7, "n0@h"]},
            {"name": "b", "node": "n0@h"},
            {"name": "c", "node": "n1@h", "slave_nodes": ["n0@h"]},
            {"name": "d", "leader": null}
        ]);
        let told = [("n1@h", "n0@h n1@h n2@h"), ("n0@h", ""), ("n1@h", "n0@h n1@h"), ("", "")];
        assert_eq!(made(several), told.map(|(leader, members)| (leader.to_owned(), members.to_owned())));
        let many: Vec<String> = (0..1_000).map(|i| format!("n{i}@h")).collect();
        let told = made(serde_json::json!([{"name": "a", "leader": "n0@h", "members": many}]));
        assert_eq!(told[0].1.split(' ').count(), MOST_MEMBERS);
    }

    #[test]
    fn long_texts_and_many_arguments_are_cut() {
        let long = "ä".repeat(10_000);
        let arguments: serde_json::Map<String, Value> =
            (0..1_000).map(|i| (format!("x{i:03}"), Value::from(long.clone()))).collect();
        let text = serde_json::json!({ "queues": [{"name": long, "arguments": arguments}] });
        let objects: BrokerObjects = serde_json::from_value(text).unwrap();
        let topology = objects.into_topology();
        let queue = topology.queues.first().unwrap();
        assert_eq!(queue.name.chars().count(), LONGEST + 1);
        assert_eq!(queue.arguments.len(), MOST_ARGUMENTS);
        assert!(queue.arguments.iter().all(|it| it.chars().count() == LONGEST + 1));
    }
}
