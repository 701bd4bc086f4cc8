//! Our client against our server, in memory and in virtual time: whole conversations, cut at every byte.

use wire::amqp091::*;

use crate::amqp091::common::{Pair, Random, drain_client, drain_server};

fn small_frames() -> ClientConfig {
    ClientConfig { frame_max: FRAME_MIN_SIZE, ..ClientConfig::default() }
}

fn with_channel() -> Pair {
    Pair::with_channel(small_frames(), ServerConfig::default())
}

#[test]
fn the_handshake_negotiates_the_smaller_limits() {
    let none = (0, 0, 0);
    for ((frame_max, channel_max, heartbeat_s), of_server, expected) in [
        ((8192, 10, 5), (131_072, 2047, 60), (8192, 10, 5)),
        ((131_072, 2047, 60), (8192, 10, 5), (8192, 10, 5)),
        (none, (8192, 10, 5), (8192, 10, 5)),
        ((8192, 10, 5), (131_072, 0, 0), (8192, 10, 5)),
        ((100, 10, 5), (131_072, 10, 5), (4096, 10, 5)),
    ] {
        let client = ClientConfig { frame_max, channel_max, heartbeat_s, ..ClientConfig::default() };
        let (frame_max, channel_max, heartbeat_s) = of_server;
        let server = ServerConfig { frame_max, channel_max, heartbeat_s, ..ServerConfig::default() };
        let mut pair = Pair::new(client, server);
        pair.settle();
        let (frame_max, channel_max, heartbeat) = expected;
        let open = format!("Open frame_max {frame_max} channel_max {channel_max} heartbeat {heartbeat}");
        assert_eq!(pair.client_log, [open]);
        assert_eq!(pair.client.frame_max(), pair.server.frame_max());
    }
}

#[test]
fn external_and_anonymous_logins_send_no_password() {
    for mechanism in [Mechanism::External, Mechanism::Anonymous] {
        let client = ClientConfig { mechanism, ..ClientConfig::default() };
        let server = ServerConfig { mechanisms: "PLAIN EXTERNAL ANONYMOUS".into(), ..ServerConfig::default() };
        let mut pair = Pair::new(client, server);
        pair.settle();
        let login = format!("Login {}  ", mechanism.name());
        assert_eq!(pair.server_log, [&*login, "Open /"]);
        assert!(pair.client.is_open());
    }
}

/// Everything that travels in both directions in one conversation, and what it must be read as.
fn conversation(lengths: &[u64]) -> (Vec<u8>, Vec<u8>) {
    let mut pair = with_channel();
    let mut headers = FieldTable::new();
    headers.insert("k", "v").expect("inserts");
    let properties = BasicProperties { headers: Some(headers.view()), ..Default::default() };
    let properties = properties.to_bytes().expect("encodes");
    let properties = Properties::from_bytes(&properties);
    let publish = BasicPublish { exchange: "x", routing_key: "key", ..Default::default() };
    for &len in lengths {
        let body: Vec<u8> = (0..len).map(|i| i as u8).collect();
        pair.client.send_content(1, &publish, properties, &body).expect("publishes");
        let template = DeliverTemplate::new(1, "tag", "x", "key").expect("encodes");
        pair.server.deliver(&template, len, len == 12, properties, &body).expect("delivers");
    }
    pair.client.ack(1, 7, true);
    pair.client.nack(1, 8, false, true);
    pair.client.send(1, &BasicReject { delivery_tag: 9, requeue: false }).expect("sends");
    pair.client.send(1, &TxSelect {}).expect("sends");
    pair.server.confirm(1, 3, true);
    pair.server.confirm_nack(1, 4, false);
    pair.server.send(0, &ConnectionBlocked { reason: "low on memory" }).expect("sends");
    pair.server.send(0, &ConnectionUnblocked {}).expect("sends");
    pair.server.send(1, &BasicGetEmpty::default()).expect("sends");
    pair.server.close_channel(1, 404, "NOT_FOUND - no queue 'q'", QueueDeclare::INFO.id);
    (pair.client.pending_output().to_vec(), pair.server.pending_output().to_vec())
}

fn read_by(pieces: &[&[u8]], drain: fn(&mut Pair, &mut Vec<u8>)) -> Pair {
    let mut pair = with_channel();
    let mut unread = Vec::new();
    for piece in pieces {
        unread.extend_from_slice(piece);
        drain(&mut pair, &mut unread);
    }
    assert!(unread.is_empty());
    pair
}

fn read_by_server(pieces: &[&[u8]]) -> Vec<String> {
    read_by(pieces, |pair, bytes| drain_server(pair.now, &mut pair.server, bytes, &mut pair.server_log)).server_log
}

fn read_by_client(pieces: &[&[u8]]) -> Vec<String> {
    read_by(pieces, |pair, bytes| drain_client(pair.now, &mut pair.client, bytes, &mut pair.client_log)).client_log
}

#[test]
fn events_do_not_depend_on_where_the_input_is_cut() {
    // No frame of body, one, two.
    let (to_server, to_client) = conversation(&[0, 12, 4089]);
    let server_log = read_by_server(&[&to_server]);
    assert_eq!(server_log.len(), 3 + 4, "{server_log:#?}");
    let client_log = read_by_client(&[&to_client]);
    assert_eq!(client_log.len(), 3 + 6, "{client_log:#?}");
    for at in 0..to_server.len() {
        let (a, b) = to_server.split_at(at);
        assert!(read_by_server(&[a, b]) == server_log, "to the server, cut at {at}");
    }
    for at in 0..to_client.len() {
        let (a, b) = to_client.split_at(at);
        assert!(read_by_client(&[a, b]) == client_log, "to the client, cut at {at}");
    }
}

#[test]
fn events_do_not_depend_on_the_size_of_the_pieces() {
    let (to_server, to_client) = conversation(&[0, 1, 4088, 8176, 8177, 50_000]);
    let server_log = read_by_server(&[&to_server]);
    let client_log = read_by_client(&[&to_client]);
    for size in [1, 2, 3, 7, 100, 4096] {
        let pieces: Vec<&[u8]> = to_server.chunks(size).collect();
        assert!(read_by_server(&pieces) == server_log, "to the server, pieces of {size}");
        let pieces: Vec<&[u8]> = to_client.chunks(size).collect();
        assert!(read_by_client(&pieces) == client_log, "to the client, pieces of {size}");
    }
}

/// Whoever asks what is needed looks at no frame more often than at its head, and once as a whole.
#[test]
fn nothing_is_missed_by_waiting_for_what_is_needed() {
    let (_, to_client) = conversation(&[0, 12, 4089, 50_000]);
    let mut pair = with_channel();
    let (mut unread, mut needed, mut polls) = (Vec::new(), 0, 0);
    for byte in &to_client {
        unread.push(*byte);
        if unread.len() >= needed {
            let log = &mut pair.client_log;
            drain_client(pair.now, &mut pair.client, &mut unread, log);
            (needed, polls) = (pair.client.needs(&unread), polls + 1);
        }
    }
    assert!(unread.is_empty());
    assert_eq!(pair.client_log, read_by_client(&[&to_client]));
    assert!(polls <= 8 * frames(&to_client).len(), "{polls}");
}

#[test]
fn the_handshake_may_come_byte_by_byte() {
    let mut pair = Pair::new(ClientConfig::default(), ServerConfig::default());
    while pair.carry_to_server(1) | pair.carry_to_client(1) {}
    assert_eq!(pair.server_log, ["Login PLAIN guest guest", "Open /"]);
    assert!(pair.client.is_open() && pair.server.is_open());
}

#[test]
fn bodies_are_what_was_published() {
    let mut pair = with_channel();
    let publish = BasicPublish { routing_key: "q", ..Default::default() };
    for len in [1usize, 4088, 4089, 100_000] {
        let body: Vec<u8> = (0..len).map(|i| (i * 7) as u8).collect();
        let template = PublishTemplate::new(1, &publish, Properties::NONE, &body, FRAME_MIN_SIZE).expect("encodes");
        pair.client.publish(&template, |part| {
            assert_eq!(part.len(), len.min(4088));
            part[0] = 0xAB;
        });
        let output = pair.output();
        assert_eq!(output.len(), template.wire_len());
        let head = HeadTemplate::new(1, &publish, Properties::NONE, FRAME_MIN_SIZE);
        let head = head.expect("encodes");
        pair.client.publish_body(&head, &body, |part| {
            assert_eq!(part.len(), len.min(4088));
            part[0] = 0xAB;
        });
        assert!(pair.client.pending_output() == output, "{len}: the same bytes");
        assert_eq!(output.len(), head.wire_len(len));
        pair.client.consume_output(output.len());
        let mut input = output.as_slice();
        let event = pair.server.poll(pair.now, &mut input).expect("reads").expect("an event");
        let ServerEvent::Publish { body: got, routing_key: "q", .. } = event else { panic!("{event:?}") };
        assert_eq!(got.len(), len);
        assert_eq!(got[0], 0xAB);
        assert_eq!(got[1..], body[1..]);
        assert!(input.is_empty());
    }
}

/// Takes the frames of a message apart: method, header, bodies.
pub(crate) fn frames(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    while !bytes.is_empty() {
        let size = u32::from_be_bytes(bytes[3..7].try_into().expect("four bytes")) as usize;
        let (frame, rest) = bytes.split_at(size + 8);
        frames.push(frame.to_vec());
        bytes = rest;
    }
    frames
}

#[test]
fn contents_of_several_channels_may_interleave() {
    let mut pair = with_channel();
    pair.client.send(2, &ChannelOpen::default()).expect("sends");
    pair.settle();
    pair.server_log.clear();
    let publish = BasicPublish { routing_key: "q", ..Default::default() };
    let bodies = [vec![1u8; 9000], vec![2u8; 5000]];
    let mut queues: Vec<Vec<Vec<u8>>> = Vec::new();
    for (channel, body) in (1..).zip(&bodies) {
        pair.client.send_content(channel, &publish, Properties::NONE, body).expect("publishes");
        queues.push(frames(&pair.output()));
    }
    let mut random = Random::new(5);
    let heartbeat = [8u8, 0, 0, 0, 0, 0, 0, 0xCE];
    let mut stream = Vec::new();
    while queues.iter().any(|queue| !queue.is_empty()) {
        let queue = &mut queues[random.below(2)];
        if !queue.is_empty() {
            stream.extend(queue.remove(0));
            stream.extend(heartbeat);
        }
    }
    drain_server(pair.now, &mut pair.server, &mut stream, &mut pair.server_log);
    let mut log = pair.server_log;
    log.sort();
    assert_eq!(log.len(), 2);
    for (line, body) in log.iter().zip(&bodies) {
        assert!(line.ends_with(&format!("body: {body:?} }}")));
    }
}

#[test]
fn a_refused_virtual_host_says_why() {
    let client = ClientConfig { virtual_host: "nope".into(), ..ClientConfig::default() };
    let mut pair = Pair::new(client, ServerConfig::default());
    for _ in 0..2 {
        pair.carry_to_server(usize::MAX);
        pair.carry_to_client(usize::MAX);
    }
    let output = pair.output();
    let event = pair.server.poll(pair.now, &mut output.as_slice()).expect("reads");
    assert_eq!(event, Some(ServerEvent::Open { virtual_host: "nope" }));
    pair.server.refuse(pair.now, 530, "NOT_ALLOWED - vhost nope not found");
    pair.settle();
    assert!(pair.client_log[0].contains("code: 530"), "{:?}", pair.client_log);
    assert!(pair.client_log[0].contains("class: 10, method: 40"), "{:?}", pair.client_log);
    assert_eq!(pair.server_log, ["Login PLAIN guest guest", "CloseOk"]);
    assert_eq!(pair.client.next_timeout(), None, "nothing is awaited any more");
}

#[test]
fn a_channel_closed_by_the_broker_can_be_opened_again() {
    let mut pair = with_channel();
    pair.server.close_channel(1, 406, "PRECONDITION_FAILED - inequivalent arg", MethodId::default());
    // The client, not knowing yet, goes on; that is dropped.
    pair.client.send_content(1, &BasicPublish::default(), Properties::NONE, &[0; 9000]).expect("publishes");
    pair.client.ack(1, 1, false);
    pair.settle();
    assert_eq!(pair.server_log, Vec::<String>::new());
    assert!(pair.client_log[0].starts_with("ChannelClosed { channel: 1, closing: Closing { code: 406"));
    pair.client.send(1, &ChannelOpen::default()).expect("sends");
    pair.settle();
    assert_eq!(pair.server_log, ["ChannelOpened { channel: 1 }"]);
}

#[test]
fn both_sides_may_close_a_channel_at_once() {
    let mut pair = with_channel();
    pair.client.send(1, &ChannelClose { reply_code: 200, ..Default::default() }).expect("sends");
    pair.server.close_channel(1, 404, "", MethodId::default());
    pair.settle();
    assert_eq!(pair.client_log, ["Method { channel: 1, method: ChannelCloseOk(ChannelCloseOk) }"]);
    assert_eq!(pair.server_log, Vec::<String>::new());
    pair.client.send(1, &ChannelOpen::default()).expect("sends");
    pair.settle();
    assert_eq!(pair.server_log, ["ChannelOpened { channel: 1 }"]);
}

#[test]
fn the_client_closes_and_drops_what_still_comes() {
    let mut pair = with_channel();
    let template = DeliverTemplate::new(1, "t", "", "q").expect("encodes");
    for len in [10, 9000] {
        pair.server.deliver(&template, 1, false, Properties::NONE, &vec![0; len]).expect("delivers");
    }
    pair.client.close(pair.now, 200, "bye");
    assert!(pair.client.send(1, &TxSelect {}).is_err());
    pair.settle();
    assert_eq!(pair.client_log, ["CloseOk"]);
    assert!(pair.server_log[0].starts_with("Closed { closing: Closing { code: 200, text: \"bye\""));
}

#[test]
fn the_server_closes_and_drops_what_still_comes() {
    let mut pair = with_channel();
    // Neither of these is answered; the second channel is never opened.
    pair.client.send(2, &ChannelOpen::default()).expect("sends");
    pair.client.send(2, &TxSelect {}).expect("sends");
    pair.client.send_content(2, &BasicPublish::default(), Properties::NONE, &[0; 9000]).expect("publishes");
    pair.server.close(pair.now, 320, "CONNECTION_FORCED - shutdown", MethodId::default());
    pair.settle();
    assert_eq!(pair.server_log, ["CloseOk"]);
    assert!(pair.client_log[0].contains("code: 320, text: \"CONNECTION_FORCED - shutdown\""));
    assert!(!pair.client.is_open() && !pair.server.is_open());
}

#[test]
fn a_consumer_cancelled_by_the_broker_is_an_event() {
    let mut pair = with_channel();
    pair.server.send(1, &BasicCancel { consumer_tag: "ct", no_wait: false }).expect("sends");
    pair.settle();
    assert_eq!(pair.client_log, ["ConsumerCancelled { channel: 1, consumer_tag: \"ct\" }"]);
    assert!(pair.server_log[0].contains("BasicCancelOk { consumer_tag: \"ct\" }"));
}

#[test]
fn a_body_above_the_limit_closes_the_channel_on_the_server() {
    let server = ServerConfig { max_body: 10_000, ..ServerConfig::default() };
    let mut pair = Pair::open(small_frames(), server);
    pair.client.send(1, &ChannelOpen::default()).expect("sends");
    let publish = BasicPublish::default();
    for len in [10_000, 10_001] {
        pair.client.send_content(1, &publish, Properties::NONE, &vec![0; len]).expect("publishes");
    }
    pair.settle();
    assert!(pair.server_log[1].starts_with("Publish"));
    assert!(pair.server_log[2].starts_with("ChannelClosed { channel: 1"));
    assert_eq!(pair.server_log.len(), 3);
    assert!(pair.client_log.last().expect("an event").contains("code: 406"));
}

#[test]
fn output_is_kept_in_order_however_it_is_written() {
    let mut pair = with_channel();
    let mut expected = 0..500u64;
    let mut random = Random::new(21);
    for tag in 0..500 {
        pair.server.confirm(1, tag, false);
        pair.carry_to_client(random.below(pair.server.pending_output().len() + 1));
    }
    pair.settle();
    for line in &pair.client_log {
        let tag = expected.next().expect("no more than were sent");
        assert!(line.contains(&format!("delivery_tag: {tag},")), "{line}");
    }
    assert_eq!(expected.next(), None);
}

#[test]
fn bodies_under_way_on_many_channels_are_bounded() {
    let server = ServerConfig { max_body: 10_000, ..ServerConfig::default() };
    let mut pair = Pair::open(small_frames(), server);
    let publish = BasicPublish::default();
    let mut halves = Vec::new();
    for channel in 1..=6 {
        pair.client.send(channel, &ChannelOpen::default()).expect("sends");
        pair.settle();
        pair.client.send_content(channel, &publish, Properties::NONE, &[0; 10_000]).expect("publishes");
        // Two of three body frames: 8176 bytes.
        halves.push(frames(&pair.output())[..4].concat());
    }
    pair.server_log.clear();
    let closed = |pair: &mut Pair, mut bytes: Vec<u8>| {
        drain_server(pair.now, &mut pair.server, &mut bytes, &mut pair.server_log);
        pair.server_log.last().cloned()
    };
    assert_eq!(closed(&mut pair, halves.remove(0)), None);
    assert_eq!(closed(&mut pair, halves.remove(0)), None);
    // A channel that goes away frees its part.
    pair.server.close_channel(1, 406, "enough", MethodId::default());
    assert_eq!(closed(&mut pair, halves.remove(0)), None);
    let error = closed(&mut pair, halves.remove(0)).expect("an error");
    assert!(error.contains("RESOURCE_ERROR 506"), "{error}");
}
