//! Both sides against a recorded conversation with a real RabbitMQ, byte by byte.

use std::collections::BTreeMap;

use measure::Time;
use wire::amqp091::*;

use crate::amqp091::common::{drain_client, drain_server, recorded_in};

const NOW: Time = Time(5_000_000_000);
const CHANNEL: u16 = 3;

/// Bytes by side and name.
fn session() -> BTreeMap<(&'static str, &'static str), Vec<u8>> {
    let all = recorded_in(include_str!("../../data/rabbitmq-session.txt")).into_iter();
    all.map(|(side, name, bytes)| ((side, name), bytes)).collect()
}

fn publish_properties(headers: &FieldTable) -> BasicProperties<'_> {
    BasicProperties {
        content_type: Some("text/plain"),
        headers: Some(headers.view()),
        delivery_mode: Some(2),
        priority: Some(4),
        timestamp: Some(1_700_000_000),
        ..Default::default()
    }
}

fn headers() -> FieldTable {
    let mut headers = FieldTable::new();
    headers.insert("n", -5i64).expect("inserts");
    headers.insert("f", false).expect("inserts");
    headers
}

/// A client that hears the recorded server, and whose output is compared with the recorded client.
struct Replay {
    client: Client,
    log: Vec<String>,
}

impl Replay {
    fn hears(&mut self, name: &'static str) {
        let mut bytes = session().remove(&("S", name)).expect(name);
        drain_client(NOW, &mut self.client, &mut bytes, &mut self.log);
        assert!(bytes.is_empty(), "{name} is not consumed");
    }

    fn says(&mut self, names: &[&'static str]) {
        let expected: Vec<u8> =
            names.iter().flat_map(|name| session().remove(&("C", name)).expect("recorded")).collect();
        assert_eq!(self.client.pending_output(), expected, "{names:?}");
        self.client.consume_output(expected.len());
    }

    fn calls(&mut self, method: &impl EncodeMethod, name: &'static str, answer: &'static str) {
        self.client.send(CHANNEL, method).expect("sends");
        self.says(&[name]);
        self.hears(answer);
    }
}

fn shake_hands() -> Replay {
    let config = ClientConfig { frame_max: 8192, channel_max: 100, heartbeat_s: 30, ..ClientConfig::default() };
    let mut replay = Replay { client: Client::new(config, NOW), log: Vec::new() };
    replay.says(&["header"]);
    replay.hears("connection.start");
    // Our properties are not the recorded client's; the mechanism and the response are.
    let ours = replay.client.pending_output().to_vec();
    let tail = b"\x05PLAIN\x00\x00\x00\x0c\x00guest\x00guest\x05en_US\xce";
    assert!(ours.ends_with(tail));
    replay.client.consume_output(ours.len());
    replay.hears("connection.tune");
    replay.says(&["connection.tune-ok", "connection.open"]);
    replay.hears("connection.open-ok");
    replay
}

fn declare(replay: &mut Replay) {
    let mut arguments = FieldTable::new();
    arguments.insert("alternate-exchange", "amq.fanout").expect("inserts");
    let exchange = ExchangeDeclare {
        exchange: "wire.x",
        kind: "topic",
        auto_delete: true,
        arguments: arguments.view(),
        ..Default::default()
    };
    replay.calls(&ChannelOpen::default(), "channel.open", "channel.open-ok");
    replay.calls(&exchange, "exchange.declare", "exchange.declare-ok");
    let mut arguments = FieldTable::new();
    arguments.insert("x-max-length", 10i32).expect("inserts");
    let queue = QueueDeclare { queue: "wire.q", exclusive: true, arguments: arguments.view(), ..Default::default() };
    replay.calls(&queue, "queue.declare", "queue.declare-ok");
    let bind = QueueBind { queue: "wire.q", exchange: "wire.x", routing_key: "a.*", ..Default::default() };
    replay.calls(&bind, "queue.bind", "queue.bind-ok");
    replay.calls(&ConfirmSelect::default(), "confirm.select", "confirm.select-ok");
}

fn publish(replay: &mut Replay) {
    let headers = headers();
    let properties = publish_properties(&headers).to_bytes().expect("encodes");
    let properties = Properties::from_bytes(&properties);
    let publish = BasicPublish { exchange: "wire.x", routing_key: "a.b", mandatory: true, ..Default::default() };
    let template = PublishTemplate::new(CHANNEL, &publish, properties, &[0; 11], 8192).expect("encodes");
    replay.client.publish(&template, |body| body.copy_from_slice(b"hello world"));
    replay.says(&["basic.publish"]);
    replay.hears("basic.ack");
    replay.client.send_content(CHANNEL, &publish, properties, b"hello world").expect("publishes");
    replay.says(&["basic.publish"]);
    let nowhere = BasicPublish { routing_key: "nowhere", mandatory: true, ..Default::default() };
    let template = PublishTemplate::new(CHANNEL, &nowhere, Properties::NONE, &[], 8192).expect("encodes");
    replay.client.publish(&template, |body| assert!(body.is_empty()));
    replay.says(&["basic.publish-nowhere"]);
    replay.hears("basic.return");
    replay.hears("basic.ack-2");
}

fn consume(replay: &mut Replay) {
    let get = BasicGet { queue: "wire.q", ..Default::default() };
    replay.calls(&get, "basic.get", "basic.get-ok");
    replay.client.nack(CHANNEL, 1, false, true);
    replay.says(&["basic.nack"]);
    let qos = BasicQos { prefetch_count: 50, ..Default::default() };
    replay.calls(&qos, "basic.qos", "basic.qos-ok");
    let consume = BasicConsume { queue: "wire.q", consumer_tag: "ct", exclusive: true, ..Default::default() };
    replay.calls(&consume, "basic.consume", "basic.consume-ok");
    replay.hears("basic.deliver");
    replay.client.ack(CHANNEL, 2, true);
    replay.says(&["basic.ack"]);
    let purge = QueuePurge { queue: "wire.q", ..Default::default() };
    replay.calls(&purge, "queue.purge", "queue.purge-ok");
    let delete = QueueDelete { queue: "wire.q", ..Default::default() };
    replay.calls(&delete, "queue.delete", "queue.delete-ok-and-cancel");
}

fn close(replay: &mut Replay) {
    let declare = QueueDeclare { queue: "nope", passive: true, ..Default::default() };
    replay.calls(&declare, "queue.declare-passive", "channel.close");
    replay.says(&["channel.close-ok"]);
    replay.client.close(NOW, 200, "bye");
    replay.says(&["connection.close"]);
    replay.hears("connection.close-ok");
}

#[test]
fn the_client_says_and_hears_what_was_recorded() {
    let mut replay = shake_hands();
    let product = replay.client.server_properties().get("product").and_then(Value::as_str);
    assert_eq!(product, Some("RabbitMQ"));
    declare(&mut replay);
    publish(&mut replay);
    consume(&mut replay);
    close(&mut replay);
    let log = replay.log.join("\n");
    let body = b"hello world";
    for expected in [
        "Open frame_max 8192 channel_max 100 heartbeat 30".to_owned(),
        "QueueDeclareOk { queue: \"wire.q\", message_count: 0, consumer_count: 0 }".to_owned(),
        "Confirm { channel: 3, delivery_tag: 1, multiple: false, nack: false }".to_owned(),
        "Returned { channel: 3, returned: BasicReturn { reply_code: 312, reply_text: \"NO_ROUTE\", exchange: \"\", \
         routing_key: \"nowhere\" }, properties: Properties { bytes: [0, 0] }, body: [] }"
            .to_owned(),
        format!("message_count: 0 }}, properties: {:?}, body: {body:?} }}", recorded_properties()),
        "Delivery { channel: 3, consumer_tag: \"ct\", delivery_tag: 2, redelivered: true, \
         exchange: \"wire.x\", routing_key: \"a.b\""
            .to_owned(),
        "QueueDeleteOk { message_count: 0 }".to_owned(),
        "ConsumerCancelled { channel: 3, consumer_tag: \"ct\" }".to_owned(),
        "ChannelClosed { channel: 3, closing: Closing { code: 404, text: \"NOT_FOUND - no queue 'nope' in vhost '/'\""
            .to_owned(),
    ] {
        assert!(log.contains(&expected), "no {expected} in\n{log}");
    }
    assert!(log.ends_with("CloseOk"), "{log}");
}

fn recorded_properties() -> Properties<'static> {
    let headers = headers();
    let bytes = publish_properties(&headers).to_bytes().expect("encodes");
    Properties::from_bytes(bytes.leak())
}

/// A server that hears the recorded client; what it logs.
fn recorded_server(upto: &str) -> (Server, Vec<String>) {
    let config = ServerConfig { frame_max: 131_072, ..ServerConfig::default() };
    let mut server = Server::new(config, NOW);
    let mut log = Vec::new();
    for line in include_str!("../../data/rabbitmq-session.txt").lines() {
        let Some(name) = line.strip_prefix("C ").and_then(|rest| rest.split(' ').next()) else { continue };
        let mut bytes = session().remove(&("C", name)).expect("recorded");
        drain_server(NOW, &mut server, &mut bytes, &mut log);
        assert!(bytes.is_empty(), "{name} is not consumed");
        if name == upto {
            break;
        }
    }
    server.consume_output(server.pending_output().len());
    (server, log)
}

#[test]
fn the_server_understands_the_recorded_client() {
    let (_, log) = recorded_server("connection.close");
    let log = log.join("\n");
    for expected in [
        "Login PLAIN guest guest",
        "Open /",
        "ChannelOpened { channel: 3 }",
        "kind: \"topic\", passive: false, durable: false, auto_delete: true, internal: false",
        "arguments: {\"x-max-length\": I32(10)}",
        "Publish { channel: 3, exchange: \"wire.x\", routing_key: \"a.b\", mandatory: true",
        "Nack { channel: 3, delivery_tag: 1, multiple: false, requeue: true }",
        "Ack { channel: 3, delivery_tag: 2, multiple: true }",
        "Closed { closing: Closing { code: 200, text: \"bye\"",
    ] {
        assert!(log.contains(expected), "no {expected} in\n{log}");
    }
}

#[test]
fn the_server_says_what_rabbitmq_said() {
    let (mut server, _) = recorded_server("basic.consume");
    let properties = recorded_properties();
    let template = DeliverTemplate::new(CHANNEL, "ct", "wire.x", "a.b").expect("encodes");
    assert!(template.matches("wire.x", "a.b"));
    assert!(!template.matches("wire.x", "a.c") && !template.matches("wire", ".xa.b"));
    let says = |server: &mut Server, name: &'static str| {
        let expected = session().remove(&("S", name)).expect(name);
        assert_eq!(server.pending_output(), expected, "{name}");
        server.consume_output(expected.len());
    };
    server.deliver(&template, 2, true, properties, b"hello world").expect("delivers");
    says(&mut server, "basic.deliver");
    server.confirm(CHANNEL, 1, false);
    says(&mut server, "basic.ack");
    let method = BasicReturn { reply_code: 312, reply_text: "NO_ROUTE", routing_key: "nowhere", ..Default::default() };
    server.send_content(CHANNEL, &method, Properties::NONE, b"").expect("returns");
    says(&mut server, "basic.return");
    let method = BasicGetOk { delivery_tag: 1, exchange: "wire.x", routing_key: "a.b", ..Default::default() };
    server.send_content(CHANNEL, &method, properties, b"hello world").expect("answers");
    says(&mut server, "basic.get-ok");
    server.send(CHANNEL, &QueueDeclareOk { queue: "wire.q", ..Default::default() }).expect("answers");
    says(&mut server, "queue.declare-ok");
    server.close_channel(CHANNEL, 404, "NOT_FOUND - no queue 'nope' in vhost '/'", QueueDeclare::INFO.id);
    says(&mut server, "channel.close");
}
