//! The hot paths allocate nothing once their buffers have grown.

use measure::Time;
use wire::amqp091::*;

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

#[test]
fn what_does_allocate_is_noticed() {
    let info = allocation_counter::measure(|| drop(std::hint::black_box(vec![1u8; 100])));
    assert_eq!(info.count_total, 1);
}
