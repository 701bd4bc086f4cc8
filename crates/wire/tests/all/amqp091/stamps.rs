//! Properties that differ from message to message, in frames that are encoded once.

use wire::amqp091::*;

use crate::amqp091::common::Pair;

/// Stamps that the server reads from a message.
fn received(pair: &mut Pair) -> (Option<String>, Option<u64>, Option<String>) {
    let output = pair.output();
    let event = pair.server.poll(pair.now, &mut output.as_slice()).expect("reads");
    let Some(ServerEvent::Publish { properties, .. }) = event else { panic!("{event:?}") };
    let read = properties.decode().expect("properties");
    (read.message_id.map(str::to_owned), read.timestamp, read.app_id.map(str::to_owned))
}

#[test]
fn ids_and_timestamps_are_put_where_they_belong() {
    let mut pair = Pair::with_channel(ClientConfig::default(), ServerConfig::default());
    let publish = BasicPublish::default();
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
        let bytes = properties.to_bytes().expect("encodes");
        let read = Properties::from_bytes(&bytes);
        let mut whole = PublishTemplate::new(1, &publish, read, b"body", 4096).expect("encodes");
        let mut head = HeadTemplate::new(1, &publish, read, 4096).expect("encodes");
        whole.encoded().set_message_id(b"id-9");
        whole.encoded().set_message_id(b"too long for it");
        whole.encoded().set_timestamp(1_795_246_159);
        head.encoded().set_message_id(b"id-9");
        head.encoded().set_timestamp(1_795_246_159);
        let expected = (id.map(|_| "id-9".to_owned()), timestamp.map(|_| 1_795_246_159), Some("app".to_owned()));
        pair.client.publish(&whole, |_| {});
        assert_eq!(received(&mut pair), expected);
        pair.client.publish_body(&head, b"another", |_| {});
        assert_eq!(received(&mut pair), expected);
    }
}

#[test]
fn the_last_header_is_another_one_in_every_message() {
    let mut pair = Pair::with_channel(ClientConfig::default(), ServerConfig::default());
    let publish = BasicPublish::default();
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
            let bytes = properties.to_bytes().expect("encodes");
            let read = Properties::from_bytes(&bytes);
            let mut whole = PublishTemplate::new(1, &publish, read, b"", 4096).expect("encodes");
            let mut head = HeadTemplate::new(1, &publish, read, 4096).expect("encodes");
            whole.encoded().set_last_header(b"five!");
            whole.encoded().set_last_header(b"four");
            head.encoded().set_last_header(b"four");
            let expected = match last {
                Value::Bytes(_) => Some(&b"four"[..]),
                _ => None,
            };
            for publishes in [true, false] {
                if publishes {
                    pair.client.publish(&whole, |_| {});
                } else {
                    pair.client.publish_body(&head, b"body", |_| {});
                }
                let output = pair.output();
                let event = pair.server.poll(pair.now, &mut output.as_slice());
                let Ok(Some(ServerEvent::Publish { properties, .. })) = event else { panic!("{event:?}") };
                assert_eq!(properties.header_bytes("last"), expected);
                assert_eq!(properties.header_bytes("first"), Some(&b"text"[..]));
                assert_eq!(properties.header_bytes("none"), None);
                let all = properties.decode().expect("properties");
                assert_eq!((all.content_type, all.timestamp), (content_type, Some(5)));
            }
        }
    }
}

#[test]
fn properties_that_are_cut_or_have_no_headers_have_no_header() {
    let mut headers = FieldTable::new();
    headers.insert("name", Value::Bytes(&[7; 9])).expect("fits");
    let properties = BasicProperties {
        content_type: Some("text/plain"),
        headers: Some(headers.view()),
        ..BasicProperties::default()
    };
    let bytes = properties.to_bytes().expect("encodes");
    for cut in 0..bytes.len() {
        let properties = Properties::from_bytes(&bytes[..cut]);
        assert_eq!(properties.header_bytes("name"), None, "{cut} bytes");
    }
    assert_eq!(Properties::NONE.header_bytes("name"), None);
}
