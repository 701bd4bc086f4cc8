//! The entry functions of the fuzz targets in `fuzz/` and the corpus test. Each panics when an invariant breaks.

use std::fmt::Write as _;

use measure::Time;

use super::{
    BasicProperties, ChannelOpen, Client, ClientConfig, EncodeMethod, FRAME_MIN_SIZE, Field, FieldTable, Method,
    MethodId, PROTOCOL_HEADER, Properties, Reader, Server, ServerConfig, ServerEvent, Table, Value, Writer,
};

/// Largest body in these runs, so that inputs reach the limit.
const MAX_BODY: u64 = 300;
const NOW: Time = Time(1_000_000_000);

/// Something that takes input and reports events; both sides of a connection.
trait Side {
    /// One call of `poll`; the event as text, so that runs can be compared.
    fn step(&mut self, input: &mut &[u8]) -> Result<Option<String>, String>;
}

impl Side for Client {
    fn step(&mut self, input: &mut &[u8]) -> Result<Option<String>, String> {
        let event = self.poll(NOW, input);
        event.map(|e| e.map(|e| format!("{e:?}"))).map_err(|e| kind_of(&e))
    }
}

impl Side for Server {
    fn step(&mut self, input: &mut &[u8]) -> Result<Option<String>, String> {
        let event = self.poll(NOW, input);
        let (login, open) = match &event {
            Ok(Some(ServerEvent::Login { .. })) => (true, false),
            Ok(Some(ServerEvent::Open { .. })) => (false, true),
            _ => (false, false),
        };
        let text = event.map(|e| e.map(|e| format!("{e:?}"))).map_err(|e| kind_of(&e));
        if login {
            self.accept_login();
        } else if open {
            self.accept_open();
        }
        text
    }
}

/// Error without details that depend on how the input was cut.
fn kind_of(error: &super::Error) -> String {
    match error {
        super::Error::Protocol { code, what, .. } => format!("{code} {what}"),
        other => format!("{:?}", std::mem::discriminant(other)),
    }
}

fn run(side: &mut impl Side, data: &[u8], cut: usize) -> String {
    fed(data, cut, |input| side.step(input))
}

/// Feeds `data` in pieces of `cut` bytes, as a transport would; all that `step` says, the error included.
pub(crate) fn fed(
    data: &[u8],
    cut: usize,
    mut step: impl FnMut(&mut &[u8]) -> Result<Option<String>, String>,
) -> String {
    let mut log = String::new();
    let mut unread: Vec<u8> = Vec::new();
    for piece in data.chunks(cut.max(1)) {
        unread.extend_from_slice(piece);
        let mut input = unread.as_slice();
        loop {
            let before = input.len();
            match step(&mut input) {
                Ok(Some(event)) => {
                    assert!(input.len() <= before, "input grew");
                    let _ = writeln!(log, "{event}");
                }
                Ok(None) => break,
                Err(error) => {
                    let _ = writeln!(log, "error {error}");
                    return log;
                }
            }
        }
        let consumed = unread.len() - input.len();
        unread.drain(..consumed);
    }
    log
}

/// A client with two open channels, as a broker's answers make it.
fn open_client() -> Client {
    let config = ClientConfig { max_body: MAX_BODY, frame_max: FRAME_MIN_SIZE, ..ClientConfig::default() };
    let mut client = Client::new(config, NOW);
    run(&mut client, HANDSHAKE_OF_SERVER, HANDSHAKE_OF_SERVER.len());
    for channel in [1, 2] {
        let sent = client.send(channel, &ChannelOpen::default());
        assert!(sent.is_ok(), "the handshake did not open the connection");
    }
    client
}

/// `connection.start` (no properties, PLAIN), `tune` (no limits), `open-ok`.
const HANDSHAKE_OF_SERVER: &[u8] = b"\
    \x01\x00\x00\x00\x00\x00\x1c\x00\x0a\x00\x0a\x00\x09\x00\x00\x00\x00\x00\x00\x00\x05PLAIN\
    \x00\x00\x00\x05en_US\xce\
    \x01\x00\x00\x00\x00\x00\x0c\x00\x0a\x00\x1e\x00\x00\x00\x00\x00\x00\x00\x00\xce\
    \x01\x00\x00\x00\x00\x00\x05\x00\x0a\x00\x29\x00\xce";

/// `start-ok` (guest), `tune-ok` (2047, 4096, no heartbeat), `open` of `/`, `channel.open` of 1 and 2.
const HANDSHAKE_OF_CLIENT: &[u8] = b"\
    \x01\x00\x00\x00\x00\x00\x24\x00\x0a\x00\x0b\x00\x00\x00\x00\x05PLAIN\
    \x00\x00\x00\x0c\x00guest\x00guest\x05en_US\xce\
    \x01\x00\x00\x00\x00\x00\x0c\x00\x0a\x00\x1f\x07\xff\x00\x00\x10\x00\x00\x00\xce\
    \x01\x00\x00\x00\x00\x00\x08\x00\x0a\x00\x28\x01/\x00\x00\xce\
    \x01\x00\x01\x00\x00\x00\x05\x00\x14\x00\x0a\x00\xce\
    \x01\x00\x02\x00\x00\x00\x05\x00\x14\x00\x0a\x00\xce";

/// A server whose client has logged in and opened two channels.
fn open_server() -> Server {
    let config = ServerConfig { max_body: MAX_BODY, ..ServerConfig::default() };
    let mut server = Server::new(config, NOW);
    run(&mut server, &PROTOCOL_HEADER, PROTOCOL_HEADER.len());
    run(&mut server, HANDSHAKE_OF_CLIENT, HANDSHAKE_OF_CLIENT.len());
    assert!(server.is_open(), "the handshake did not open the connection");
    server
}

/// Feeds what a server might send. The first byte chooses where the connection stands (lowest
/// bit: open) and how the input is cut; events must not depend on the cuts.
pub fn client_input(data: &[u8]) {
    run_twice(data, |is_open| if is_open { open_client() } else { Client::new(ClientConfig::default(), NOW) });
}

/// Feeds what a client might send, as [`client_input`].
pub fn server_input(data: &[u8]) {
    run_twice(data, |is_open| if is_open { open_server() } else { Server::new(ServerConfig::default(), NOW) });
}

fn run_twice<S: Side>(data: &[u8], side: impl Fn(bool) -> S) {
    let Some((&mode, data)) = data.split_first() else { return };
    let whole = run(&mut side(mode & 1 == 1), data, data.len());
    let cut = run(&mut side(mode & 1 == 1), data, usize::from(mode >> 1) + 1);
    assert_eq!(whole, cut, "events depend on how the input is cut");
}

/// Reads a table (length and fields), walks it, and rebuilds it.
pub fn table(data: &[u8]) {
    let Ok(table) = Table::read(&mut Reader::new(data)) else { return };
    let mut walked = 0;
    walk(Value::Table(table), &mut walked);
    assert!(walked <= 2 * data.len() + 2, "{walked} values in {} bytes", data.len());
    let mut copy = FieldTable::new();
    for (name, value) in table {
        assert!(copy.insert(name, value).is_ok(), "what was read cannot be written");
    }
    for (name, value) in copy.iter() {
        // The last of several equal names is the one that `insert` keeps.
        let last = table.iter().filter(|(n, _)| *n == name).last();
        assert_eq!(last.map(|(_, v)| format!("{v:?}")), Some(format!("{value:?}")));
    }
}

fn walk(value: Value<'_>, walked: &mut usize) {
    *walked += 1;
    match value {
        Value::Table(table) => table.iter().for_each(|(_, value)| walk(value, walked)),
        Value::Array(array) => array.iter().for_each(|value| walk(value, walked)),
        _ => {}
    }
}

/// Decodes message properties, encodes them, and decodes them again; a header is found without.
pub fn properties(data: &[u8]) {
    let bytes = Properties::from_bytes(data).header_bytes("k");
    let Ok(first) = Properties::from_bytes(data).decode() else { return };
    let header = first.headers.and_then(|headers| headers.get("k"));
    let expected = match header {
        Some(Value::Bytes(bytes) | Value::Str(bytes)) => Some(bytes),
        _ => None,
    };
    assert_eq!(bytes, expected);
    let encoded = first.to_bytes().unwrap_or_default();
    assert_eq!(encoded, data, "properties have one encoding only");
    let second: Option<BasicProperties<'_>> = Properties::from_bytes(&encoded).decode().ok();
    assert_eq!(second, Some(first));
}

/// Decodes a method (class, method, fields), encodes it, and decodes it again.
pub fn method(data: &[u8]) {
    let Some((&[c0, c1, m0, m1], fields)) = data.split_first_chunk() else { return };
    let id = MethodId { class: u16::from_be_bytes([c0, c1]), method: u16::from_be_bytes([m0, m1]) };
    let Ok(Some(first)) = Method::decode_fields(id, &mut Reader::new(fields)) else { return };
    assert_eq!(first.info().id, id);
    let mut encoded = Vec::new();
    let written = first.encode_fields(&mut Writer::new(&mut encoded));
    assert!(written.is_ok(), "what was read cannot be written: {written:?}");
    let second = Method::decode_fields(id, &mut Reader::new(&encoded));
    assert_eq!(second, Ok(Some(first)));
}
