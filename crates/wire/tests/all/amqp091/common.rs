//! Shared by the tests of this crate: random data from a seed, and a client and a server in memory.

use measure::Time;
use wire::amqp091::{
    ChannelOpen, Client, ClientConfig, Error, Event, FieldArray, FieldTable, Server, ServerConfig, ServerEvent, Value,
};

/// Side, name and bytes of what was recorded.
pub(crate) type Recorded = (&'static str, &'static str, Vec<u8>);

/// The lines of a recording.
pub(crate) fn recorded_in(text: &'static str) -> Vec<Recorded> {
    let read = text.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let mut words = line.split(' ');
        let mut word = || words.next().expect("three words");
        let (side, name, hex) = (word(), word(), word());
        let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal");
        (side, name, (0..hex.len()).step_by(2).map(byte).collect())
    });
    read.collect()
}

/// Marsaglia's xorshift64.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 11) as usize % limit
    }

    pub(crate) fn coin(&mut self) -> bool {
        self.below(2) == 1
    }

    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    pub(crate) fn bytes(&mut self, below: usize) -> Vec<u8> {
        (0..self.below(below)).map(|_| self.next() as u8).collect()
    }

    /// Text of up to `max` bytes, not only ASCII.
    pub(crate) fn text(&mut self, max: usize) -> String {
        let mut text = String::new();
        for _ in 0..self.below(40) {
            text.push(['a', 'Z', '.', '#', '\0', 'é', '語', '🐇'][self.below(8)]);
        }
        while text.len() > max {
            text.pop();
        }
        text
    }

    pub(crate) fn table(&mut self, depth: usize) -> FieldTable {
        let mut table = FieldTable::new();
        for _ in 0..self.below(5) {
            let name = self.text(60);
            self.with_value(depth, |value| table.insert(&name, value).expect("inserts"));
        }
        table
    }

    fn array(&mut self, depth: usize) -> FieldArray {
        let mut array = FieldArray::new();
        for _ in 0..self.below(4) {
            self.with_value(depth, |value| array.push(value).expect("pushes"));
        }
        array
    }

    /// Makes a random value of any type; containers only down to `depth`.
    pub(crate) fn with_value(&mut self, depth: usize, mut put: impl FnMut(Value<'_>)) {
        let bits = self.next();
        match self.below(if depth == 0 { 15 } else { 17 }) {
            0 => put(Value::Bool(bits & 1 == 1)),
            1 => put(Value::I8(bits as i8)),
            2 => put(Value::U8(bits as u8)),
            3 => put(Value::I16(bits as i16)),
            4 => put(Value::U16(bits as u16)),
            5 => put(Value::I32(bits as i32)),
            6 => put(Value::U32(bits as u32)),
            7 => put(Value::I64(bits as i64)),
            8 => put(Value::F32(bits as u16 as f32 / 3.0)),
            9 => put(Value::F64(bits as f64 / 3.0)),
            10 => put(Value::Decimal { scale: bits as u8, value: (bits >> 8) as u32 }),
            11 => put(Value::Str(&self.bytes(50))),
            12 => put(Value::Timestamp(bits)),
            13 => put(Value::Void),
            14 => put(Value::Bytes(&self.bytes(50))),
            15 => put(Value::Array(self.array(depth - 1).view())),
            _ => put(Value::Table(self.table(depth - 1).view())),
        }
    }
}

/// A client and a server with two pipes between them, in virtual time. Events are kept as text
/// where they arrive; logins and virtual hosts are accepted.
pub(crate) struct Pair {
    pub(crate) now: Time,
    pub(crate) client: Client,
    pub(crate) server: Server,
    pub(crate) to_client: Vec<u8>,
    pub(crate) to_server: Vec<u8>,
    pub(crate) client_log: Vec<String>,
    pub(crate) server_log: Vec<String>,
}

impl Pair {
    pub(crate) fn new(client: ClientConfig, server: ServerConfig) -> Self {
        let now = Time(1_000_000_000);
        Self {
            now,
            client: Client::new(client, now),
            server: Server::new(server, now),
            to_client: Vec::new(),
            to_server: Vec::new(),
            client_log: Vec::new(),
            server_log: Vec::new(),
        }
    }

    /// A pair that has shaken hands, with empty logs.
    pub(crate) fn open(client: ClientConfig, server: ServerConfig) -> Self {
        let mut pair = Self::new(client, server);
        pair.settle();
        assert!(pair.client.is_open() && pair.server.is_open(), "{:?}", pair.client_log);
        pair.client_log.clear();
        pair.server_log.clear();
        pair
    }

    /// A pair with channel 1 open, and with empty logs.
    pub(crate) fn with_channel(client: ClientConfig, server: ServerConfig) -> Self {
        let mut pair = Self::open(client, server);
        pair.client.send(1, &ChannelOpen::default()).expect("sends");
        pair.settle();
        pair.client_log.clear();
        pair.server_log.clear();
        pair
    }

    /// Takes what the client has to send.
    pub(crate) fn output(&mut self) -> Vec<u8> {
        let output = self.client.pending_output().to_vec();
        self.client.consume_output(output.len());
        output
    }

    /// Carries bytes both ways until nothing moves any more.
    pub(crate) fn settle(&mut self) {
        while self.carry_to_server(usize::MAX) | self.carry_to_client(usize::MAX) {}
    }

    /// Carries up to `n` bytes; whether there were any.
    pub(crate) fn carry_to_server(&mut self, n: usize) -> bool {
        let output = self.client.pending_output();
        let n = n.min(output.len());
        self.to_server.extend_from_slice(&output[..n]);
        self.client.consume_output(n);
        drain_server(self.now, &mut self.server, &mut self.to_server, &mut self.server_log);
        n > 0
    }

    pub(crate) fn carry_to_client(&mut self, n: usize) -> bool {
        let output = self.server.pending_output();
        let n = n.min(output.len());
        self.to_client.extend_from_slice(&output[..n]);
        self.server.consume_output(n);
        drain_client(self.now, &mut self.client, &mut self.to_client, &mut self.client_log);
        n > 0
    }
}

/// Gives `step` the bytes until it wants more of them; keeps what it says, and the error at which it ends.
fn drain(
    bytes: &mut Vec<u8>,
    log: &mut Vec<String>,
    mut step: impl FnMut(&mut &[u8]) -> Result<Option<String>, Error>,
) {
    let mut input = bytes.as_slice();
    loop {
        match step(&mut input) {
            Ok(Some(text)) => log.push(text),
            Ok(None) => break,
            Err(error) => {
                log.push(format!("error: {error}"));
                input = &[];
                break;
            }
        }
    }
    let consumed = bytes.len() - input.len();
    bytes.drain(..consumed);
}

pub(crate) fn drain_client(now: Time, client: &mut Client, bytes: &mut Vec<u8>, log: &mut Vec<String>) {
    drain(bytes, log, |input| {
        let event = client.poll(now, input)?;
        Ok(event.map(|event| match event {
            // The client's own version changes, so the server's properties are left away.
            Event::Open { frame_max, channel_max, heartbeat_s, .. } => {
                format!("Open frame_max {frame_max} channel_max {channel_max} heartbeat {heartbeat_s}")
            }
            other => format!("{other:?}"),
        }))
    });
}

pub(crate) fn drain_server(now: Time, server: &mut Server, bytes: &mut Vec<u8>, log: &mut Vec<String>) {
    drain(bytes, log, |input| {
        let Some(event) = server.poll(now, input)? else { return Ok(None) };
        let (text, accept): (String, fn(&mut Server)) = match event {
            ServerEvent::Login { mechanism, user, password, .. } => {
                (format!("Login {mechanism} {user} {}", password.expose()), Server::accept_login)
            }
            ServerEvent::Open { virtual_host } => (format!("Open {virtual_host}"), Server::accept_open),
            event => (format!("{event:?}"), |_| ()),
        };
        accept(server);
        Ok(Some(text))
    });
}
