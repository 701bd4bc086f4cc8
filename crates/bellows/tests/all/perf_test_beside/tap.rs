//! A proxy before a broker that notes its clients' methods, and counts the broker's.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use wire::amqp091::{
    EncodeMethod, FRAME_BODY, FRAME_HEADER, FRAME_METHOD, Method, MethodId, Properties, Reader, Table, Value,
};

/// A method: its name and relevant arguments.
#[derive(Clone, Debug)]
pub(super) struct Told {
    /// Since the tap was made.
    pub(super) at: Duration,
    pub(super) connection: usize,
    pub(super) channel: u16,
    pub(super) name: &'static str,
    pub(super) text: String,
    /// Properties and headers of a message, except those that a tool needs for itself.
    pub(super) properties: String,
    pub(super) body: Vec<u8>,
}

#[derive(Debug, Default)]
pub(super) struct Seen {
    /// By clients, in order.
    pub(super) told: Vec<Told>,
    /// How often the broker sent each method.
    pub(super) answers: BTreeMap<&'static str, usize>,
    pub(super) connected: Vec<Duration>,
}

impl Seen {
    pub(super) fn of<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Told> {
        self.told.iter().filter(move |told| told.name == name)
    }

    /// Distinct texts of methods of these names, without questions.
    pub(super) fn texts(&self, names: &[&str]) -> Vec<String> {
        let all = names.iter().flat_map(|name| self.of(name));
        let asked = |told: &&Told| !told.text.contains(" passive");
        let texts: BTreeSet<_> = all.filter(asked).map(|told| told.text.clone()).collect();
        texts.into_iter().collect()
    }
}

/// Listens until the process ends.
pub(super) struct Tap {
    pub(super) address: SocketAddr,
    since: Instant,
    seen: Arc<Mutex<Seen>>,
    ends: Arc<Mutex<Vec<TcpStream>>>,
}

impl Tap {
    /// Before a broker, on an address of its own.
    pub(super) fn new(to: &str) -> Self {
        Self::at("127.0.0.1:0", to)
    }

    /// Listens on an address that clients know already.
    pub(super) fn at(address: &str, to: &str) -> Self {
        let listener = TcpListener::bind(address).expect("listen");
        let tap = Self {
            address: listener.local_addr().expect("an address"),
            since: Instant::now(),
            seen: Arc::default(),
            ends: Arc::default(),
        };
        let (since, seen, ends) = (tap.since, Arc::clone(&tap.seen), Arc::clone(&tap.ends));
        let to = to.to_owned();
        thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let Ok(far) = TcpStream::connect(&to) else { continue };
                let number = {
                    let mut seen = seen.lock().expect("seen");
                    seen.connected.push(since.elapsed());
                    seen.connected.len()
                };
                let both = [&near, &far].map(|end| {
                    end.set_nodelay(true).expect("no delay");
                    end.try_clone().expect("clone")
                });
                let [near_again, far_again] = both;
                let ends_again = [&near, &far].map(|end| end.try_clone().expect("clone"));
                ends.lock().expect("ends").extend(ends_again);
                let client = Direction::new(since, number, Arc::clone(&seen), true);
                let broker = Direction::new(since, number, Arc::clone(&seen), false);
                thread::spawn(move || pass(near_again, far, client));
                thread::spawn(move || pass(far_again, near, broker));
            }
        });
        tap
    }

    pub(super) fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().expect("seen")
    }

    pub(super) fn cut(&self) {
        for end in self.ends.lock().expect("ends").drain(..) {
            let _ = end.shutdown(Shutdown::Both);
        }
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, mut reading: Direction) {
    let mut piece = vec![0; 64 << 10];
    while let Ok(length @ 1..) = from.read(&mut piece) {
        let bytes = piece.get(..length).expect("a piece");
        if to.write_all(bytes).is_err() {
            break;
        }
        reading.take(bytes);
    }
    let _ = to.shutdown(Shutdown::Write);
}

struct Direction {
    since: Instant,
    connection: usize,
    seen: Arc<Mutex<Seen>>,
    is_client: bool,
    rest: Vec<u8>,
    greeted: bool,
    /// Messages whose bodies are not whole, by their channels: where they stand.
    open: BTreeMap<u16, usize>,
}

impl Direction {
    fn new(since: Instant, connection: usize, seen: Arc<Mutex<Seen>>, is_client: bool) -> Self {
        Self { since, connection, seen, is_client, rest: Vec::new(), greeted: !is_client, open: BTreeMap::new() }
    }

    fn take(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
        let all = std::mem::take(&mut self.rest);
        let mut rest = all.as_slice();
        if !self.greeted && rest.len() >= 8 {
            rest = &rest[8..];
            self.greeted = true;
        }
        while self.greeted && rest.len() >= 8 {
            let size = u32::from_be_bytes([rest[3], rest[4], rest[5], rest[6]]) as usize;
            if rest.len() < size + 8 {
                break;
            }
            let channel = u16::from_be_bytes([rest[1], rest[2]]);
            self.frame(rest[0], channel, &rest[7..7 + size]);
            rest = &rest[size + 8..];
        }
        self.rest = rest.to_vec();
    }

    fn frame(&mut self, kind: u8, channel: u16, payload: &[u8]) {
        let mut seen = self.seen.lock().expect("seen");
        match kind {
            FRAME_METHOD => {
                let id = MethodId {
                    class: u16::from_be_bytes([payload[0], payload[1]]),
                    method: u16::from_be_bytes([payload[2], payload[3]]),
                };
                let method = Method::decode_fields(id, &mut Reader::new(&payload[4..]));
                let method = method.expect("a method").expect("a known method");
                let name = method.info().name;
                if !self.is_client {
                    *seen.answers.entry(name).or_default() += 1;
                    return;
                }
                self.open.insert(channel, seen.told.len());
                seen.told.push(Told {
                    at: self.since.elapsed(),
                    connection: self.connection,
                    channel,
                    name,
                    text: text(&method),
                    properties: String::new(),
                    body: Vec::new(),
                });
            }
            FRAME_HEADER | FRAME_BODY if self.is_client => {
                let Some(told) = self.open.get(&channel).and_then(|at| seen.told.get_mut(*at)) else { return };
                match kind {
                    FRAME_HEADER => told.properties = properties(&payload[12..]),
                    _ => told.body.extend_from_slice(payload),
                }
            }
            _ => {}
        }
    }
}

fn text(method: &Method<'_>) -> String {
    let yes = |name: &'static str, is: bool| if is { name } else { "" };
    let declared = |passive: bool, durable: bool, auto_delete: bool| {
        [yes("passive", passive), yes("durable", durable), yes("auto-delete", auto_delete)].join(" ")
    };
    let text = match method {
        Method::ConnectionTuneOk(m) => format!("frame-max {} heartbeat {}", m.frame_max, m.heartbeat),
        Method::ExchangeDeclare(m) => {
            let declared = declared(m.passive, m.durable, m.auto_delete);
            format!("{:?} {} {declared} {}", m.exchange, m.kind, table(m.arguments))
        }
        Method::QueueDeclare(m) => {
            let declared = declared(m.passive, m.durable, m.auto_delete);
            format!("{:?} {declared} {} {}", m.queue, yes("exclusive", m.exclusive), table(m.arguments))
        }
        Method::QueueBind(m) => format!("{:?} {:?} {:?}", m.queue, m.exchange, m.routing_key),
        Method::BasicQos(m) => format!("{} {}", m.prefetch_count, yes("global", m.global)),
        Method::BasicConsume(m) => {
            let (no_ack, exclusive) = (yes("no-ack", m.no_ack), yes("exclusive", m.exclusive));
            format!("{:?} {no_ack} {exclusive} {}", m.queue, table(m.arguments))
        }
        Method::BasicGet(m) => format!("{:?} {}", m.queue, yes("no-ack", m.no_ack)),
        Method::BasicPublish(m) => format!("{:?} {:?} {}", m.exchange, m.routing_key, yes("mandatory", m.mandatory)),
        Method::BasicAck(m) => yes("multiple", m.multiple).to_owned(),
        Method::BasicNack(m) => yes("requeue", m.requeue).to_owned(),
        Method::BasicReject(m) => yes("requeue", m.requeue).to_owned(),
        _ => String::new(),
    };
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// In the order of the names.
fn table(table: Table<'_>) -> String {
    let fields = table.iter().map(|(name, value)| (name, shown(value)));
    let fields: BTreeMap<_, _> = fields.collect();
    let fields = fields.iter().map(|(name, value)| format!("{name}={value}"));
    fields.collect::<Vec<_>>().join(",")
}

/// Numbers of all widths alike.
fn shown(value: Value<'_>) -> String {
    let number = value.as_i64().map(|number| number.to_string());
    let flag = || value.as_bool().map(|flag| flag.to_string());
    let text = || value.as_str().map(str::to_owned);
    let known = number.or_else(flag).or_else(text);
    known.unwrap_or_else(|| format!("{value:?}"))
}

fn properties(bytes: &[u8]) -> String {
    let mut read = Properties::from_bytes(bytes).decode().expect("properties");
    // 1, not persistent, is what none means.
    read.delivery_mode = read.delivery_mode.filter(|mode| *mode != 1);
    let headers = read.headers.take().map(|headers| {
        let fields: BTreeMap<_, _> = headers
            .iter()
            .filter(|(name, _)| !matches!(*name, "x-bellows" | "timestamp"))
            .map(|(name, value)| (name, shown(value)))
            .collect();
        format!("{fields:?}")
    });
    let headers = headers.filter(|headers| headers != "{}");
    format!("{read:?} {}", headers.unwrap_or_default())
}
