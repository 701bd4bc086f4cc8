//! Bad peers: garbage, other protocols, silence, and violations of the protocol.

use measure::{Nanos, Time};
use wire::amqp091::*;

use crate::amqp091::common::{Pair, drain_client, drain_server, recorded_in};

const NOW: Time = Time(1_000_000_000);

fn second(n: u64) -> Time {
    NOW + Nanos(n * 1_000_000_000)
}

fn client_error(bytes: &[u8]) -> Error {
    Client::new(ClientConfig::default(), NOW).poll(NOW, &mut &*bytes).expect_err("this is no AMQP server")
}

#[test]
fn another_protocol_on_the_port_is_named() {
    for (_, guess, bytes) in recorded_in(include_str!("../../data/amqp091-other-protocols.txt")) {
        let guess = guess.replace('_', " ");
        let error = client_error(&bytes);
        let Error::WrongProtocol { guess: got, offset: 0, bytes: seen } = &error else { panic!("{error:?}") };
        assert!(got.contains(&guess), "{got} for {guess}");
        assert_eq!(seen.as_bytes(), &bytes[..bytes.len().min(16)]);
    }
    let text = client_error(b"HTTP/1.1 400 Bad Request\r\n").to_string();
    assert_eq!(
        text,
        "the peer does not speak AMQP 0-9-1: it is an HTTP server (HTTP/1.1 400 Bad Request); \
         AMQP is usually on port 5672; offset 0, bytes 48 54 54 50 2f 31 2e 31 20 34 30 30 20 42 \
         61 64 \"HTTP/1.1 400 Bad\""
    );
}

#[test]
fn a_short_greeting_is_judged_at_the_end_of_the_input() {
    let mut client = Client::new(ClientConfig::default(), NOW);
    let mut input: &[u8] = b"HTTP/1";
    assert_eq!(client.poll(NOW, &mut input), Ok(None));
    let error = client.end_of_input(input);
    assert!(matches!(error, Error::WrongProtocol { .. }), "{error}");
    let error = Client::new(ClientConfig::default(), NOW).end_of_input(b"");
    assert!(error.to_string().contains("before it said anything in AMQP"), "{error}");
}

#[test]
fn a_wrong_header_gets_ours_and_the_end() {
    for (bytes, guess) in [
        (&b"GET / HTTP/1.1\r\n\r\n"[..], "HTTP client"),
        (b"AMQP\x00\x01\x00\x00", "AMQP 1.0"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01", "TLS"),
        (b"\x10\x10\x00\x04MQTT\x04\x02", "MQTT"),
    ] {
        let mut server = Server::new(ServerConfig::default(), NOW);
        let error = server.poll(NOW, &mut &*bytes).expect_err("no AMQP client");
        assert!(error.to_string().contains(guess), "{error} for {guess}");
        assert_eq!(server.pending_output(), PROTOCOL_HEADER);
    }
}

#[test]
fn half_a_frame_and_then_nothing_times_out() {
    let mut client = Client::new(ClientConfig::default(), NOW);
    let mut input: &[u8] = b"\x01\x00\x00\x00\x00\x01\xefhalf";
    assert_eq!(client.poll(NOW, &mut input), Ok(None));
    assert_eq!(client.next_timeout(), Some(second(10)));
    assert_eq!(client.handle_timeout(second(9)), Ok(()));
    let error = client.handle_timeout(second(10)).expect_err("times out");
    let Error::TimedOut { awaited, waited, received, bytes } = &error else { panic!("{error}") };
    assert_eq!((*awaited, *waited), ("connection.start from the server", Nanos(10_000_000_000)));
    assert_eq!((*received, bytes.as_bytes().len()), (11, 11));
    assert_eq!(client.next_timeout(), None);
}

#[test]
fn a_close_that_is_not_answered_times_out() {
    let mut pair = Pair::open(ClientConfig::default(), ServerConfig::default());
    pair.client.close(NOW, 200, "bye");
    let error = pair.client.handle_timeout(second(10)).expect_err("times out");
    assert!(error.to_string().starts_with("no answer to closing the connection within 10.0 s"), "{error}");
}

fn beating() -> Pair {
    Pair::open(ClientConfig { heartbeat_s: 10, ..ClientConfig::default() }, ServerConfig::default())
}

#[test]
fn idle_sides_keep_each_other_alive() {
    let mut pair = beating();
    let mut longest_silence = 0;
    let mut last = NOW;
    while pair.now < second(1_000) {
        let due = pair.client.next_timeout().min(pair.server.next_timeout()).expect("beats");
        assert!(due > pair.now, "time stands still");
        pair.now = due;
        pair.client.handle_timeout(due).expect("alive");
        pair.server.handle_timeout(due).expect("alive");
        if !pair.client.pending_output().is_empty() {
            assert_eq!(pair.client.pending_output(), [8, 0, 0, 0, 0, 0, 0, 0xCE]);
            longest_silence = longest_silence.max(due.since(last).0);
            last = due;
        }
        pair.settle();
    }
    // Sent at all, not more often than needed, never later than the interval.
    assert_eq!(longest_silence, 10_000_000_000);
    assert_eq!(pair.client_log, Vec::<String>::new());
}

#[test]
fn a_silent_peer_is_given_up_after_two_intervals() {
    let mut pair = beating();
    while pair.now < second(20) {
        pair.now = pair.client.next_timeout().expect("beats");
        let result = pair.client.handle_timeout(pair.now);
        if pair.now < second(20) {
            result.expect("not yet");
            continue;
        }
        let error = result.expect_err("given up");
        let silent = Nanos(20_000_000_000);
        assert_eq!(error, Error::HeartbeatMissed { silent, heartbeat_s: 10 });
    }
    assert_eq!(pair.now, second(20));
    // A peer that does not read gets one heartbeat, not one per interval.
    assert_eq!(pair.client.pending_output().len(), 8);
}

#[test]
fn any_byte_is_a_sign_of_life() {
    let mut pair = beating();
    // Half a frame at 15 s: not consumed, but heard.
    let mut input: &[u8] = b"\x01\x00\x00\x00";
    assert_eq!(pair.client.poll(second(15), &mut input), Ok(None));
    pair.client.handle_timeout(second(21)).expect("heard 6 s ago");
    // The same half again is nothing new.
    assert_eq!(pair.client.poll(second(34), &mut input), Ok(None));
    assert!(pair.client.handle_timeout(second(35)).is_err());
}

#[test]
fn without_heartbeats_nobody_is_given_up() {
    let client = ClientConfig { heartbeat_s: 0, ..ClientConfig::default() };
    let server = ServerConfig { heartbeat_s: 0, ..ServerConfig::default() };
    let mut pair = Pair::open(client, server);
    assert_eq!(pair.client.next_timeout(), None);
    assert_eq!(pair.client.handle_timeout(second(1_000_000)), Ok(()));
    assert_eq!(pair.server.next_timeout(), None);
}

/// An open server with channel 1 gets these bytes; its error, and that the client is told.
fn violation(bytes: &[u8]) -> (u16, String, u64) {
    let mut pair = Pair::with_channel(ClientConfig::default(), ServerConfig::default());
    let error = pair.server.poll(pair.now, &mut &*bytes).expect_err("a violation");
    pair.settle();
    let Error::Protocol { code, what, offset, .. } = error else { panic!("{error}") };
    let told = pair.client_log.last().expect("the client is told");
    assert!(told.contains(&format!("code: {code}")), "{told}");
    (code, what, offset)
}

#[test]
fn violations_have_their_reply_codes() {
    for (code, what, bytes) in recorded_in(include_str!("../../data/amqp091-violations.txt")) {
        let what = what.replace('_', " ");
        let (got, text, offset) = violation(&bytes);
        assert_eq!(got.to_string(), code, "{text}");
        assert!(text.contains(&what), "{text} for {what}");
        assert!(offset > 0);
    }
}

#[test]
fn a_client_does_not_take_what_only_clients_send() {
    for len in [3, 200_000] {
        let mut pair = Pair::with_channel(ClientConfig::default(), ServerConfig::default());
        pair.server.send_content(1, &BasicPublish::default(), Properties::NONE, &vec![0; len]).expect("sends");
        pair.settle();
        let last = pair.client_log.last().expect("an error");
        assert!(last.contains("a server does not send basic.publish"), "{last}");
    }
}

#[test]
fn a_body_above_the_limit_ends_the_client() {
    let client = ClientConfig { max_body: 1_000, ..ClientConfig::default() };
    let mut pair = Pair::with_channel(client, ServerConfig::default());
    let template = DeliverTemplate::new(1, "t", "", "q").expect("encodes");
    for len in [1_000, 1_001] {
        pair.server.deliver(&template, 1, false, Properties::NONE, &vec![0; len]).expect("delivers");
    }
    pair.settle();
    let last = pair.client_log.last().expect("an error");
    assert!(last.contains("a body of 1001 bytes, the limit is 1000"), "{last}");
    assert!(pair.server_log.last().expect("told").contains("code: 311"));
}

#[test]
fn a_handshake_out_of_order_is_an_error() {
    const FRAME: &[u8] = b"\x01\x00\x00\x00\x00\x00";
    let start = |version: u8| {
        let parts = [&b"\x16\x00\x0a\x00\x0a\x00"[..], &[version], b"\0\0\0\0\0\0\0\x04ABCD\0\0\0\0\xce"];
        parts.concat()
    };
    for (has_started, payload, what) in [
        (false, &b"\x05\x00\x0a\x00\x29\x00\xce"[..], "connection.open-ok came instead of the connection.start"),
        (true, b"\x0c\x00\x0a\x00\x1e\x00\x00\x00\x00\x00\x10\x00\x00\xce", "frame-max 16, the minimum is 4096"),
        (false, &start(8), "AMQP 0-8, not 0-9-1"),
        (false, &start(9), "mechanisms \"ABCD\", not PLAIN"),
    ] {
        let mut pair = Pair::new(ClientConfig::default(), ServerConfig::default());
        if has_started {
            pair.carry_to_server(usize::MAX);
            pair.carry_to_client(usize::MAX);
        }
        let mut bytes = [FRAME, payload].concat();
        drain_client(pair.now, &mut pair.client, &mut bytes, &mut pair.client_log);
        let text = pair.client_log.last().cloned().unwrap_or_default();
        assert!(text.contains(what), "{what}: {text}");
    }
}

#[test]
fn a_server_refuses_limits_above_its_own() {
    for (channel_max, frame_max, what) in [
        (2047, 200_000, "frame-max 200000 is not in 4096 to 131072"),
        (2047, 0, "frame-max 0 is not in"),
        (3000, 131_072, "channel-max 3000 is not in 1 to 2047"),
        (0, 131_072, "channel-max 0 is not in"),
    ] {
        let mut pair = Pair::new(ClientConfig::default(), ServerConfig::default());
        pair.carry_to_server(usize::MAX);
        pair.carry_to_client(usize::MAX);
        pair.carry_to_server(usize::MAX);
        let mut bytes = b"\x01\x00\x00\x00\x00\x00\x0c\x00\x0a\x00\x1f".to_vec();
        bytes.extend(u16::to_be_bytes(channel_max));
        bytes.extend(u32::to_be_bytes(frame_max));
        bytes.extend(b"\x00\x00\xce");
        drain_server(pair.now, &mut pair.server, &mut bytes, &mut pair.server_log);
        let last = pair.server_log.last().expect("an error");
        assert!(last.contains(what), "{last}");
    }
}

#[test]
fn closings_read_well() {
    let closing = |code, text, method| Closing { code, text, method }.to_string();
    let none = MethodId::default();
    assert_eq!(closing(403, "ACCESS_REFUSED - Login was refused", none), "ACCESS_REFUSED (403), Login was refused");
    assert_eq!(closing(312, "NO_ROUTE", none), "NO_ROUTE (312)");
    assert_eq!(closing(404, "no queue", QueueDeclare::INFO.id), "NOT_FOUND (404), no queue [queue.declare]");
    assert_eq!(closing(999, "x", none), "UNKNOWN (999), x");
}

#[test]
fn passwords_are_not_printed() {
    let config = ClientConfig { password: "hunter2".into(), ..ClientConfig::default() };
    let method = ConnectionStartOk { response: SecretStr(b"\0u\0hunter2"), ..Default::default() };
    let mut pair = Pair::new(config.clone(), ServerConfig::default());
    pair.carry_to_server(usize::MAX);
    pair.carry_to_client(usize::MAX);
    let output = pair.client.pending_output();
    assert!(output.windows(7).any(|bytes| bytes == b"hunter2"), "the login is pending");
    for text in [format!("{config:?}"), format!("{method:?}")] {
        assert!(text.contains("***") && !text.contains("hunter2"), "{text}");
    }
    let text = format!("{:?}", pair.client);
    assert!(!text.contains("hunter2") && !text.contains("104, 117, 110, 116"), "{text}");
}
