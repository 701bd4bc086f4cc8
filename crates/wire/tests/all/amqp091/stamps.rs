//! Properties that differ from message to message, in frames that are encoded once.

use wire::amqp091::*;

use crate::amqp091::common::Pair;

/// Publishes a message by each kind of template, after `change` has set its variable fields; `check` gets the
/// properties that the server reads.
fn publish(properties: &BasicProperties<'_>, change: impl Fn(&mut Encoded), check: impl Fn(Properties<'_>)) {
    let mut pair = Pair::with_channel(ClientConfig::default(), ServerConfig::default());
    let publish = BasicPublish::default();
    let bytes = properties.to_bytes().expect("encodes");
    let properties = Properties::from_bytes(&bytes);
    let mut whole = PublishTemplate::new(1, &publish, properties, b"body", 4096).expect("encodes");
    let mut head = HeadTemplate::new(1, &publish, properties, 4096).expect("encodes");
    change(whole.encoded());
    change(head.encoded());
    pair.client.publish(&whole, |_| {});
    pair.client.publish_body(&head, b"another", |_| {});
    let output = pair.output();
    let mut input = output.as_slice();
    for _ in 0..2 {
        let event = pair.server.poll(pair.now, &mut input).expect("reads");
        let Some(ServerEvent::Publish { properties, .. }) = event else { panic!("{event:?}") };
        check(properties);
    }
}

#[test]
fn ids_and_timestamps_are_put_where_they_belong() {
    let mut headers = FieldTable::new();
    headers.insert("JMSXGroupID", "blue").expect("fits");
    for (id, timestamp) in [(Some("id-0"), Some(0)), (Some("id-0"), None), (None, Some(0)), (None, None)] {
        let properties = BasicProperties {
            headers: Some(headers.view()),
            delivery_mode: Some(2),
            expiration: Some("1500"),
            message_id: id,
            timestamp,
            app_id: Some("app"),
            ..BasicProperties::default()
        };
        let change = |encoded: &mut Encoded| {
            encoded.set_message_id(b"id-9");
            encoded.set_message_id(b"too long for it");
            encoded.set_timestamp(1_795_246_159);
        };
        let (message_id, timestamp) = (id.map(|_| "id-9"), timestamp.map(|_| 1_795_246_159));
        let expected = BasicProperties { message_id, timestamp, ..properties };
        publish(&properties, change, |read| assert_eq!(read.decode(), Ok(expected)));
    }
}

#[test]
fn the_last_header_is_another_one_in_every_message() {
    for content_type in [None, Some("application/json")] {
        for last in [Value::Bytes(&[0; 4]), Value::I32(7)] {
            let mut headers = FieldTable::new();
            headers.insert("first", "text").expect("fits");
            headers.insert("last", last).expect("fits");
            let properties = BasicProperties {
                content_type,
                headers: Some(headers.view()),
                delivery_mode: Some(2),
                timestamp: Some(5),
                ..BasicProperties::default()
            };
            let change = |encoded: &mut Encoded| {
                encoded.set_last_header(b"five!");
                encoded.set_last_header(b"four");
            };
            let expected = matches!(last, Value::Bytes(_)).then_some(&b"four"[..]);
            publish(&properties, change, |read| {
                let found = ["last", "first", "none"].map(|name| read.header_bytes(name));
                assert_eq!(found, [expected, Some(&b"text"[..]), None]);
                let all = read.decode().expect("properties");
                assert_eq!((all.content_type, all.timestamp), (content_type, Some(5)));
            });
        }
    }
}

#[test]
fn properties_that_are_cut_or_have_no_headers_have_no_header() {
    let mut headers = FieldTable::new();
    headers.insert("name", Value::Bytes(&[7; 9])).expect("fits");
    let headers = Some(headers.view());
    let properties = BasicProperties { content_type: Some("text/plain"), headers, ..BasicProperties::default() };
    let bytes = properties.to_bytes().expect("encodes");
    for cut in 0..bytes.len() {
        let properties = Properties::from_bytes(&bytes[..cut]);
        assert_eq!(properties.header_bytes("name"), None, "{cut} bytes");
    }
    assert_eq!(Properties::NONE.header_bytes("name"), None);
}
