//! The broker's objects by its management API: two pages of each kind at most, which bounds the broker's cost.

use std::cell::Cell;
use std::collections::HashMap;
use std::fmt;
use std::io::{self, BufReader, Read};
use std::marker::PhantomData;
use std::time::Instant;

use archive::{BindingRecord, ExchangeRecord, Topology};
use serde::de::{DeserializeOwned, DeserializeSeed, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use ureq::http::Method;

use super::{Management, RequestError};
use crate::broker_objects::{self, Binding, BrokerObjects, KEPT, Queue};

/// Objects of a page: RabbitMQ gives no more.
const PAGE: usize = 500;
/// Bytes of a page: 500 queues have 50 KB, and more with long arguments.
const MOST_PAGE: u64 = 8 << 20;
/// Bytes of all bindings, which come in one piece: 1,000,000 have 140 MB.
const MOST_BINDINGS: u64 = 512 << 20;
/// Bytes of one binding.
const MOST_BINDING: u64 = 1 << 20;

/// Counts are of the broker's statistics.
const QUEUES: &str = "/api/queues?columns=name,vhost,type,durable,arguments,messages,consumers,node,members,slave_nodes\
    &enable_queue_totals=true";
/// Counts are of the queues themselves: as many as are asked for in any other way, and no consumers.
const TOTALS: &str = "/api/queues?columns=name,vhost,messages&disable_stats=true&enable_queue_totals=true";
/// Those that somebody declared: `^(?!amq\.)(?s:.)`.
const EXCHANGES: &str = "/api/exchanges?columns=name,vhost,type&use_regex=true\
    &name=%5E%28%3F%21amq%5C.%29%28%3Fs%3A.%29";
/// There are no pages of bindings. RabbitMQ sorts by what these columns hold.
const BINDINGS: &str = "/api/bindings?columns=vhost,source,destination,destination_type,routing_key,arguments";

/// A page of objects, and how many there are in all.
#[derive(Deserialize)]
#[serde(bound = "T: DeserializeOwned")]
struct Page<T> {
    #[serde(deserialize_with = "items")]
    items: Vec<T>,
    filtered_count: u64,
}

/// The API's answer about whoever logs in.
#[derive(Deserialize)]
struct Whoami {
    #[serde(rename = "name")]
    _name: String,
}

impl Management {
    /// Whether this is the API, and takes the login.
    pub fn check(&self, deadline: Instant) -> Result<(), RequestError> {
        self.page::<Whoami>("/api/whoami", "log in to the management API", deadline).map(drop)
    }

    /// Queues, exchanges and bindings, with messages where there are few queues. Errors: refusal, or no answer in time.
    pub fn topology(&self, deadline: Instant) -> Result<Topology, RequestError> {
        let (queues, more_queues) = self.pages::<Queue>(QUEUES, "read queues", deadline)?;
        let (exchanges, more_exchanges) = self.pages::<ExchangeRecord>(EXCHANGES, "read exchanges", deadline)?;
        let (bindings, more_bindings) = self.bindings(deadline)?;
        let omitted = more_queues + more_exchanges + more_bindings;
        let objects = BrokerObjects { queues, exchanges, bindings: Vec::new(), omitted };
        let mut topology = Topology { bindings, lagging: true, ..objects.into_topology() };
        if more_queues == 0 && !topology.queues.is_empty() {
            let (totals, _) = self.pages::<Queue>(TOTALS, "count messages", deadline)?;
            count_again(&mut topology, &totals);
        }
        Ok(topology)
    }

    /// Objects of the first pages, and how many there are beyond them.
    fn pages<T: DeserializeOwned>(
        &self,
        path: &str,
        what: &str,
        deadline: Instant,
    ) -> Result<(Vec<T>, u64), RequestError> {
        let mut all: Vec<T> = Vec::new();
        for number in 1..=KEPT.div_ceil(PAGE) {
            let page: Page<T> = self.page(&format!("{path}&page={number}&page_size={PAGE}"), what, deadline)?;
            let is_full = page.items.len() >= PAGE;
            all.extend(page.items);
            let left = page.filtered_count.saturating_sub(all.len() as u64);
            if left == 0 || !is_full || number * PAGE >= KEPT {
                return Ok((all, left));
            }
        }
        Ok((all, 0))
    }

    /// An answer that is one object of JSON.
    fn page<T: DeserializeOwned>(&self, path: &str, what: &str, deadline: Instant) -> Result<T, RequestError> {
        let mut body = self.send(&Method::GET, path, None, what, deadline)?;
        let mut read = Vec::new();
        let result = body.as_reader().take(MOST_PAGE + 1).read_to_end(&mut read);
        result.map_err(|error| self.broken(what, &error, deadline))?;
        if read.len() as u64 > MOST_PAGE {
            return Err(self.no_answer(what, &format!("its answer has over {} bytes", measure::count(MOST_PAGE))));
        }
        serde_json::from_slice(&read).map_err(|error| self.no_answer(what, &error.to_string()))
    }

    /// The first bindings in the order of records, and the number of others. They are read one by one.
    fn bindings(&self, deadline: Instant) -> Result<(Vec<BindingRecord>, u64), RequestError> {
        let what = "read bindings";
        let mut body = self.send(&Method::GET, BINDINGS, None, what, deadline)?;
        let room = Room::default();
        let mut json =
            serde_json::Deserializer::from_reader(BufReader::new(Bounded { inner: body.as_reader(), room: &room }));
        let mut first = FirstBindings::default();
        let listed = Listed { first: &mut first, room: &room };
        let read = listed.deserialize(&mut json).and_then(|()| json.end());
        match read {
            Ok(()) => {
                first.sort();
                Ok((first.kept, first.omitted))
            }
            Err(error) if !error.is_io() => Err(self.no_answer(what, &error.to_string())),
            Err(_) if room.is_full() => {
                let help = "name the broker's Erlang node (broker.node), which gives the first ones";
                Err(self.problem(what, "its list of bindings is too long", help))
            }
            Err(error) => Err(self.broken(what, &error.into(), deadline)),
        }
    }

    /// The error where an answer is not what RabbitMQ says.
    fn no_answer(&self, what: &str, why: &str) -> RequestError {
        let why = format!("it does not answer like RabbitMQ: {}", crate::redact::text(why));
        self.problem(what, &why, "check that this is the port of RabbitMQ's management API (15672 is usual)")
    }
}

/// Takes the messages of the queues' own counts.
fn count_again(topology: &mut Topology, totals: &[Queue]) {
    let totals: HashMap<_, _> = totals.iter().map(|it| ((&it.vhost, &it.name), it.messages)).collect();
    for queue in &mut topology.queues {
        if let Some(messages) = totals.get(&(&queue.vhost, &queue.name)) {
            queue.messages = *messages;
        }
    }
}

/// The items of a page, of which there are no more than were requested.
fn items<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    struct Items<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for Items<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a list of up to {PAGE} objects")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
            let mut items = Vec::new();
            while let Some(item) = list.next_element()? {
                items.push(item);
                if items.len() > PAGE {
                    return Err(serde::de::Error::invalid_length(items.len(), &self));
                }
            }
            Ok(items)
        }
    }

    deserializer.deserialize_seq(Items(PhantomData))
}

/// Bytes that may still be read: of the present binding, and of all.
struct Room {
    one: Cell<u64>,
    all: Cell<u64>,
}

impl Default for Room {
    fn default() -> Self {
        Self { one: Cell::new(MOST_BINDING), all: Cell::new(MOST_BINDINGS) }
    }
}

impl Room {
    fn is_full(&self) -> bool {
        self.one.get().min(self.all.get()) == 0
    }
}

/// A reader that ends with an error where there is no room left.
struct Bounded<'a, R> {
    inner: R,
    room: &'a Room,
}

impl<R: Read> Read for Bounded<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.room.is_full() {
            return Err(io::Error::other("too much"));
        }
        let most = self.room.one.get().min(self.room.all.get());
        let most = buffer.len().min(usize::try_from(most).unwrap_or(usize::MAX));
        let read = self.inner.read(buffer.get_mut(..most).unwrap_or_default())?;
        for left in [&self.room.one, &self.room.all] {
            left.set(left.get().saturating_sub(read as u64));
        }
        Ok(read)
    }
}

/// The first bindings so far, and up to as many more that are not compared with them yet.
#[derive(Default)]
struct FirstBindings {
    kept: Vec<BindingRecord>,
    omitted: u64,
}

impl FirstBindings {
    fn take(&mut self, binding: Binding) {
        self.kept.push(binding.into_record());
        if self.kept.len() >= 2 * KEPT {
            self.sort();
        }
    }

    fn sort(&mut self) {
        self.kept.sort_by(broker_objects::compare);
        self.omitted += self.kept.len().saturating_sub(KEPT) as u64;
        self.kept.truncate(KEPT);
    }
}

/// A list of bindings, of which the first are kept.
struct Listed<'a> {
    first: &'a mut FirstBindings,
    room: &'a Room,
}

impl<'de> DeserializeSeed<'de> for Listed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Listed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of bindings")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(binding) = list.next_element::<Binding>()? {
            self.room.one.set(MOST_BINDING);
            self.first.take(binding);
        }
        Ok(())
    }
}
