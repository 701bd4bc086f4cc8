//! The entry functions of the fuzz targets in `fuzz/`, shared with the test that replays their corpus.
//! Each panics when something that must hold does not.

use std::fmt::Write as _;
use std::sync::LazyLock;

use measure::Time;

use super::connection::Amqp10Side;
use super::usual::{self, TransferHead};
use super::{
    Amqp10Client, Amqp10Config, Amqp10Connection, Amqp10Event, Amqp10Request, Amqp10Server, Attach, DeliveryState,
    MessageBody, MessageMapping, MessageParts, Performative, SaslMechanism, ScramKeys, Sections, Source, TypedValue,
};
use crate::amqp091::fuzzing::fed;
use crate::amqp091::{Reader, ServerConfig};

/// Largest message in these runs, so that inputs reach the limit.
const MAX_BODY: u64 = 300;
const NOW: Time = Time(1_000_000_000);
/// How deep values are walked that hold others.
const DEPTH: usize = 16;

/// Mechanisms PLAIN, outcome 0, header, `open` with channels up to 3: what a server says to be open.
pub const HANDSHAKE: &[u8] = b"AMQP\x03\x01\0\0\
    \0\0\0\x15\x02\x01\0\0\0\x53\x40\xC0\x08\x01\xA3\x05PLAIN\
    \0\0\0\x10\x02\x01\0\0\0\x53\x44\xC0\x03\x01\x50\0\
    AMQP\0\x01\0\0\
    \0\0\0\x16\x02\0\0\0\0\x53\x10\xC0\x09\x04\xA1\x01s\x40\x40\x60\0\x03";

/// `begin` of session 0 on channel 0, then `attach` of its receiver `r` and its sender `s` under their handles.
const LINKS: &[u8] = b"\
    \0\0\0\x15\x02\0\0\0\0\x53\x11\xC0\x08\x04\x60\0\0\x43\x52\x09\x43\
    \0\0\0\x1D\x02\0\0\0\0\x53\x12\xC0\x10\x0A\xA1\x01r\x43\x42\x40\x40\0\x53\x28\x45\x40\x40\x40\x43\
    \0\0\0\x1B\x02\0\0\0\0\x53\x12\xC0\x0E\x07\xA1\x01s\x52\x01\x41\x40\x40\x40\0\x53\x29\x45";

/// A client with one session, which has a receiver and a sender.
fn open_client() -> Amqp10Client {
    let config = Amqp10Config { max_body: MAX_BODY, channel_max: 3, ..Amqp10Config::default() };
    let mut client = Amqp10Client::new(config, NOW);
    run(&mut client, HANDSHAKE, HANDSHAKE.len(), |_, _| {});
    begin(&mut client);
    let log = run(&mut client, LINKS, LINKS.len(), |_, _| {});
    assert_eq!(log.matches("Attached").count(), 2, "{log}");
    client
}

/// Begins session 0, and attaches its receiver `r` and its sender `s`.
fn begin(client: &mut Amqp10Client) {
    let asked = client.begin(0);
    assert!(asked.is_ok(), "the handshake did not open the connection: {asked:?}");
    for (name, handle, is_receiver) in [("r", 0, true), ("s", 1, false)] {
        let address = TypedValue::Str("q");
        let source = Some(Source { address, ..Source::default() });
        let attach = Attach { name, handle, is_receiver, source, ..Attach::default() };
        let asked = client.attach(0, &attach);
        assert!(asked.is_ok(), "{asked:?}");
    }
}

/// The password of everybody, which takes a millisecond to derive.
static KEYS: LazyLock<ScramKeys> = LazyLock::new(|| ScramKeys::derive("guest", [7; 16]));

/// A task of a server's embedder after an event.
enum Asked {
    Nothing,
    Challenge,
    Login,
    Open,
    Link(u16, u32),
    Flow(u16, u32),
}

impl Asked {
    const fn by(event: &Amqp10Event<'_>) -> Self {
        match *event {
            Amqp10Event::Asked(Amqp10Request::Scram { .. }) => Self::Challenge,
            Amqp10Event::Asked(Amqp10Request::Login { .. } | Amqp10Request::Proved) => Self::Login,
            Amqp10Event::Asked(Amqp10Request::Open { .. }) => Self::Open,
            Amqp10Event::Asked(Amqp10Request::Link { session, handle, .. }) => Self::Link(session, handle),
            Amqp10Event::Flow { session, handle: Some(handle), .. } => Self::Flow(session, handle),
            _ => Self::Nothing,
        }
    }
}

/// Lets a client do what it asks for, but for links of every third handle; each flow gets it a message in parts.
fn allow(server: &mut Amqp10Server, asked: &Asked) {
    match *asked {
        Asked::Nothing => {}
        Asked::Challenge => server.challenge(&KEYS, "nonce"),
        Asked::Login => server.accept_login(),
        Asked::Open => server.accept_open(),
        Asked::Link(session, handle) if handle % 3 == 2 => {
            server.refuse_link(session, handle, "amqp:not-found", "nothing is there");
        }
        Asked::Link(session, handle) if handle % 3 == 1 => server.accept_dynamic_link(session, handle, "made"),
        Asked::Link(session, handle) => server.accept_link(session, handle, true),
        Asked::Flow(session, handle) => {
            if server.credit(session, handle, 1) > 0 {
                server.deliver(session, handle, handle == 1, b"\0\x53\x75\xB0\0\0\x02\x58", &[7; 600]);
            }
            server.end_drain(session, handle);
        }
    }
}

fn new_server() -> Amqp10Server {
    let mechanisms = "PLAIN ANONYMOUS".to_owned();
    let config = ServerConfig { mechanisms, max_body: MAX_BODY, channel_max: 3, ..ServerConfig::default() };
    Amqp10Server::new(&config, NOW)
}

/// A server whose client has opened the connection, and begun a session with two links.
fn open_server() -> Amqp10Server {
    let mut server = new_server();
    let mut client = Amqp10Client::new(Amqp10Config { frame_max: 512, ..Amqp10Config::default() }, NOW);
    let mut talk = |client: &mut Amqp10Client| {
        for _ in 0..5 {
            let said = client.pending_output().to_vec();
            client.consume_output(said.len());
            run(&mut server, &said, said.len(), allow);
            let answer = server.pending_output().to_vec();
            server.consume_output(answer.len());
            run(client, &answer, answer.len(), |_, _| {});
        }
    };
    talk(&mut client);
    begin(&mut client);
    talk(&mut client);
    assert!(client.credit(0, 1, 1) > 0, "the server granted no credit");
    server
}

/// Error without details that depend on how the input was cut.
fn kind_of(error: &super::Amqp10Error) -> String {
    match error {
        super::Amqp10Error::Protocol { condition, what, .. } => format!("{condition} {what}"),
        other => format!("{:?}", std::mem::discriminant(other)),
    }
}

/// Feeds `data` in pieces of `cut` bytes, as a transport would; events, error and output as text.
fn run<S: Amqp10Side>(
    connection: &mut Amqp10Connection<S>,
    data: &[u8],
    cut: usize,
    allow: fn(&mut Amqp10Connection<S>, &Asked),
) -> String {
    let mut log = fed(data, cut, |input| {
        let event = connection.poll(NOW, input).map_err(|error| kind_of(&error))?;
        let Some(event) = event else { return Ok(None) };
        walk_event(&event);
        let (text, asked) = (format!("{event:?}"), Asked::by(&event));
        allow(connection, &asked);
        Ok(Some(text))
    });
    let _ = writeln!(log, "{:?}", connection.pending_output());
    log
}

fn walk_event(event: &Amqp10Event<'_>) {
    if let Amqp10Event::Delivery { message, .. } = event {
        let _ = (message.body.bytes(), message.before.properties(), message.before.header());
        let _ = message.before.application_property("k");
        let (mut there, mut back) = (MessageMapping::default(), MessageMapping::default());
        let Some(properties) = there.to_basic(message) else { return };
        assert!(properties.decode().is_ok(), "properties that cannot be read: {message:?}");
        let _ = back.to_sections(properties, Some(1), None, &message.basic_body());
        let (head, rest) = back.to_head(properties, Some(0), Some(7), message.lasting());
        let kept = [head, rest].concat();
        let kept = MessageParts::read(&kept).map(|it| it.basic_body().into_owned());
        assert_eq!(kept.as_deref(), Ok(&*message.basic_body()), "{message:?}");
    }
}

/// Feeds what a server might send. The first byte chooses where the connection stands (lowest bit: open, with
/// two links; 0: at the beginning of a login by SCRAM) and how the input is cut; events and answers must not depend on
/// the cuts.
pub fn client_input(data: &[u8]) {
    let Some((&mode, data)) = data.split_first() else { return };
    let client = || match mode {
        0 => {
            let nonce = "nonce".to_owned();
            let config = Amqp10Config { mechanism: SaslMechanism::ScramSha256, nonce, ..Amqp10Config::default() };
            Amqp10Client::new(config, NOW)
        }
        _ if mode & 1 == 1 => open_client(),
        _ => Amqp10Client::new(Amqp10Config::default(), NOW),
    };
    let whole = run(&mut client(), data, data.len(), |_, _| {});
    let cut = run(&mut client(), data, usize::from(mode >> 1) + 1, |_, _| {});
    assert_eq!(whole, cut, "events depend on how the input is cut");
}

/// As [`client_input`], of what a client might send to a server.
pub fn server_input(data: &[u8]) {
    let Some((&mode, data)) = data.split_first() else { return };
    let server = || if mode & 1 == 1 { open_server() } else { new_server() };
    let whole = run(&mut server(), data, data.len(), allow);
    let cut = run(&mut server(), data, usize::from(mode >> 1) + 1, allow);
    assert_eq!(whole, cut, "events depend on how the input is cut");
}

/// Reads a value, walks it, and writes it again; a performative and a message likewise.
pub fn value(data: &[u8]) {
    let mut reader = Reader::new(data);
    if let Ok(first) = TypedValue::read(&mut reader) {
        let mut walked = 0;
        walk(first, DEPTH, &mut walked);
        assert!(walked <= DEPTH * (data.len() + 1) * 256, "{walked} values in {} bytes", data.len());
        let once = written(first);
        assert!(once.len() <= data.len() + 3, "{} bytes became {}", data.len(), once.len());
        let again = TypedValue::read(&mut Reader::new(&once)).map(written);
        assert_eq!(again.as_ref(), Ok(&once), "what was written reads otherwise");
    }
    if let Ok(first) = Performative::read(&mut Reader::new(data)) {
        let mut once = Vec::new();
        first.write(&mut once);
        let again = Performative::read(&mut Reader::new(&once));
        let twice = again.map(|again| {
            let mut twice = Vec::new();
            again.write(&mut twice);
            twice
        });
        assert_eq!(twice, Ok(once), "{first:?}");
    }
    if let Ok(parts) = MessageParts::read(data) {
        assert!(data.starts_with(parts.before.0));
    }
    usual_forms(data);
}

/// All that is read by its usual form means what the table says.
fn usual_forms(data: &[u8]) {
    let mut reader = Reader::new(data);
    let by_table = Performative::read(&mut reader);
    if let Some((head, payload)) = TransferHead::read(data) {
        let Ok(Performative::Transfer(it)) = by_table else { panic!("{head:?} for {by_table:?}") };
        assert_eq!((head.handle, Some(head.id)), (it.handle, it.delivery_id));
        assert_eq!((head.settled, payload), (it.settled == Some(true), reader.rest()));
        assert!(it.more != Some(true) && it.aborted != Some(true) && it.state.is_none(), "{it:?}");
    }
    if let Some((first, last)) = usual::accepted(data) {
        let Ok(Performative::Disposition(it)) = by_table else { panic!("{first} for {by_table:?}") };
        assert_eq!((first, last), (it.first, it.last.unwrap_or(it.first)));
        assert_eq!((it.settled, it.state, it.is_receiver), (Some(true), Some(DeliveryState::Accepted), true));
    }
    if let Some((before, body)) = usual::data(data) {
        let parts = MessageParts { all: Sections(data), before: Sections(before), body: MessageBody::Data(body) };
        assert_eq!(MessageParts::read(data), Ok(parts));
    }
    if let (Some(repeated), Some([0, 0x53, 0x70])) = (usual::may_be_repeated(data), data.first_chunk()) {
        let header = Sections(data).header();
        let by_table = header.map(|it| it.first_acquirer == Some(false) || it.delivery_count > Some(0));
        assert_eq!(by_table, Some(repeated));
    }
}

fn written(value: TypedValue<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    value.write(&mut out);
    out
}

fn walk(value: TypedValue<'_>, depth: usize, walked: &mut usize) {
    *walked += 1;
    let Some(depth) = depth.checked_sub(1) else { return };
    match value {
        TypedValue::List(items) | TypedValue::Map(items) => {
            items.flatten().for_each(|value| walk(value, depth, walked));
        }
        TypedValue::Array(elements) => {
            elements.flatten().for_each(|value| walk(value, depth, walked));
        }
        TypedValue::Described(described) => {
            if let Ok(value) = described.value() {
                walk(value, depth, walked);
            }
        }
        _ => {}
    }
}
