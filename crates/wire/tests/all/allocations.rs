//! The hot paths allocate nothing once their buffers have grown.

use measure::Time;
use wire::amqp10::{
    Amqp10Config, Amqp10Event, Attach, DeliveryState, HeaderSection, MessageHead, MessageMapping, Sections,
    TransferTemplate, TypedValue,
};
use wire::amqp091::*;

use crate::amqp10::server::{Pair as LinkPair, RECEIVER, SENDER};
use crate::amqp091::common::Pair;

const NOW: Time = Time(1_000_000_000);
const BATCH: u64 = 100;

/// One batch in each direction: publish, decode, confirm, deliver, decode, acknowledge. `cut`
/// makes every message come in two pieces.
fn batch(pair: &mut Pair, publish: &PublishTemplate, deliver: &DeliverTemplate, buffer: &mut Vec<u8>, cut: bool) {
    let Pair { client, server, .. } = pair;
    for i in 0..BATCH {
        client.publish(publish, |body| body.fill(i as u8));
    }
    buffer.clear();
    buffer.extend_from_slice(client.pending_output());
    client.consume_output(buffer.len());
    let mut seen = 0;
    for piece in pieces(buffer, publish.wire_len(), cut) {
        let mut input = piece;
        while let Some(event) = server.poll(NOW, &mut input).expect("a client") {
            seen += u64::from(matches!(event, ServerEvent::Publish { .. }));
        }
        assert!(input.is_empty());
    }
    assert_eq!(seen, BATCH);
    for tag in 1..=BATCH {
        server.confirm(1, tag, false);
        server.deliver(deliver, tag, false, Properties::NONE, &[7; 12]).expect("delivers");
    }
    buffer.clear();
    buffer.extend_from_slice(server.pending_output());
    server.consume_output(buffer.len());
    let (mut confirmed, mut delivered, mut input) = (0, 0, buffer.as_slice());
    while let Some(event) = client.poll(NOW, &mut input).expect("a server") {
        confirmed += u64::from(matches!(event, Event::Confirm { .. }));
        delivered += u64::from(matches!(event, Event::Delivery { .. }));
    }
    assert_eq!((confirmed, delivered), (BATCH, BATCH));
    client.ack(1, BATCH, true);
    client.nack(1, BATCH, false, true);
    buffer.clear();
    buffer.extend_from_slice(client.pending_output());
    client.consume_output(buffer.len());
    let mut input = buffer.as_slice();
    while server.poll(NOW, &mut input).expect("a client").is_some() {}
}

/// The stream as it is, or cut between the frames of every message.
fn pieces(bytes: &[u8], message: usize, cut: bool) -> impl Iterator<Item = &[u8]> {
    // The last frame of each message: its body.
    let split = if cut { message - 20 } else { message };
    bytes.chunks(message).flat_map(move |m| {
        let (a, b) = m.split_at(split);
        [a, b]
    })
}

#[test]
fn messages_allocate_nothing_whether_they_come_whole_or_in_pieces() {
    for cut in [false, true] {
        let mut pair = Pair::with_channel(ClientConfig::default(), ServerConfig::default());
        let to_queue = BasicPublish { routing_key: "q", ..Default::default() };
        let frame_max = pair.client.frame_max();
        let publish = PublishTemplate::new(1, &to_queue, Properties::NONE, &[0; 12], frame_max).expect("encodes");
        let deliver = DeliverTemplate::new(1, "c", "", "q").expect("encodes");
        let mut buffer = Vec::new();
        let mut run = || batch(&mut pair, &publish, &deliver, &mut buffer, cut);
        run();
        let allocated = allocation_counter::measure(|| (0..10).for_each(|_| run())).count_total;
        assert_eq!(allocated, 0, "cut: {cut}");
    }
}

/// One batch over AMQP 1.0, in the form that it has in AMQP 0.9.1 in between: publish, answer, deliver, settle.
fn link_batch(pair: &mut LinkPair, publish: &TransferTemplate, mapping: &mut MessageMapping, buffer: &mut Vec<u8>) {
    let LinkPair { client, server, .. } = pair;
    client.flow(0, RECEIVER, BATCH as u32, false);
    for i in 0..BATCH {
        client.publish(publish, &[0; 1_000], |body| body.fill(i as u8));
    }
    buffer.clear();
    buffer.extend_from_slice(client.pending_output());
    client.consume_output(buffer.len());
    let (mut input, mut last) = (buffer.as_slice(), None);
    while let Some(event) = server.poll(NOW, &mut input).expect("a client") {
        if let Amqp10Event::Delivery { id, message, .. } = event {
            let properties = mapping.to_basic(&message).expect("small properties");
            assert!(properties.header_bytes("h").is_some() && message.basic_body().len() == 1_000);
            last = Some(id);
        }
    }
    let last = last.expect("a delivery");
    server.settle(0, last + 1 - BATCH as u32, last, DeliveryState::Accepted);
    // Its parts are in several frames, too.
    let bytes: &[u8] = &[7; 700];
    for at in 0..BATCH {
        let (head, body) = match at % 2 {
            0 => (mapping.to_sections(Properties::NONE, None, None, bytes), bytes),
            _ => mapping.to_head(Properties::NONE, None, Some(at), Sections(b"\0\x53\x77\x40")),
        };
        server.deliver(0, RECEIVER, false, head, body);
    }
    buffer.clear();
    buffer.extend_from_slice(server.pending_output());
    server.consume_output(buffer.len());
    let (mut input, mut delivered) = (buffer.as_slice(), 0);
    while let Some(event) = client.poll(NOW, &mut input).expect("a server") {
        delivered += u64::from(matches!(event, Amqp10Event::Delivery { .. }));
    }
    assert_eq!(delivered, BATCH);
    client.settle(0, last + 1 - BATCH as u32, last, DeliveryState::Accepted);
    buffer.clear();
    buffer.extend_from_slice(client.pending_output());
    client.consume_output(buffer.len());
    let mut input = buffer.as_slice();
    while server.poll(NOW, &mut input).expect("a client").is_some() {}
}

#[test]
fn messages_of_either_form_allocate_nothing_in_one_frame_or_several() {
    for frame_max in [131_072, 512] {
        let mut pair = LinkPair::with_links(Amqp10Config { frame_max, ..Amqp10Config::default() });
        let message = MessageHead {
            header: HeaderSection { ttl: Some(5_000), ..HeaderSection::default() },
            application_properties: &[("h", TypedValue::Binary(&[0; 32]))],
            ..MessageHead::default()
        };
        let publish = TransferTemplate::new(0, SENDER, false, &message, frame_max).expect("encodes");
        let (mut mapping, mut buffer) = (MessageMapping::default(), Vec::new());
        let mut run = || link_batch(&mut pair, &publish, &mut mapping, &mut buffer);
        run();
        run();
        let allocated = allocation_counter::measure(|| (0..10).for_each(|_| run())).count_total;
        assert_eq!(allocated, 0, "frames of {frame_max} bytes");
    }
}

#[test]
fn large_messages_leave_little_memory_behind() {
    // Forty links whose messages come in parts.
    let body = vec![0; 800_000];
    let mut pair = LinkPair::with_links(Amqp10Config::default());
    let mut kept = 0;
    for session in 1..=40 {
        pair.client.begin(session).expect("begins");
        pair.client.attach(session, &Attach { name: "s", handle: SENDER, ..Attach::default() }).expect("attaches");
        pair.talk(0);
        let frame_max = pair.client.frame_max();
        let template = TransferTemplate::new(session, SENDER, true, &MessageHead::default(), frame_max);
        pair.client.publish(&template.expect("encodes"), &body, |_| {});
        let bytes = pair.client.pending_output().to_vec();
        pair.client.consume_output(bytes.len());
        let server = &mut pair.server;
        let taken = allocation_counter::measure(|| {
            let mut input = bytes.as_slice();
            while server.poll(NOW, &mut input).expect("a client").is_some() {}
        });
        kept += taken.bytes_current;
    }
    assert!(kept < 8 << 20, "{kept} bytes");
}

#[test]
fn what_does_allocate_is_noticed() {
    let info = allocation_counter::measure(|| drop(std::hint::black_box(vec![1u8; 100])));
    assert_eq!(info.count_total, 1);
}
