//! Messages that a queue gives up: where they go, and what headers say of it. [`crate::vhost::VirtualHost`] sends them.

use measure::Nanos;
use wire::amqp091::{BasicProperties, FieldArray, FieldTable, Properties, Table, Value};

use crate::log::Record;
use crate::memory::Memory;

/// Headers that tell of all deaths, the last first, and of the first.
const DEATHS: &str = "x-death";
pub(crate) const FIRST_DEATH: &str = "x-first-death-reason";
/// A death's field with the expiration that the message had.
pub(crate) const ORIGINAL_EXPIRATION: &str = "original-expiration";

/// Why a queue gives a message up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// A consumer refused it for good.
    Rejected,
    /// It was older than the queue lets messages become.
    Expired,
    /// The queue was full.
    MaxLength,
}

impl Reason {
    /// As RabbitMQ calls it.
    const fn name(self) -> &'static str {
        match self {
            Self::Rejected => "rejected",
            Self::Expired => "expired",
            Self::MaxLength => "maxlen",
        }
    }
}

/// Where a queue's dead letters go, and those that have not gone yet.
#[derive(Debug)]
pub(crate) struct DeadLetters {
    pub(crate) exchange: Box<str>,
    /// Instead of the message's own.
    pub(crate) routing_key: Option<Box<str>>,
    waiting: Vec<DeadLetter>,
    /// Whether the queue is among those with some.
    is_noted: bool,
}

/// A message that a queue has given up.
#[derive(Debug)]
pub(crate) struct DeadLetter {
    pub(crate) exchange: Box<str>,
    pub(crate) routing_key: Box<str>,
    pub(crate) properties: Vec<u8>,
    pub(crate) body: Vec<u8>,
    pub(crate) has_sections: bool,
    pub(crate) reason: Reason,
}

impl DeadLetters {
    /// Those of a queue that was declared with these arguments, which were checked.
    pub(crate) fn of(arguments: Table<'_>) -> Option<Box<Self>> {
        let text = |name| arguments.get(name).and_then(Value::as_str);
        let exchange = text("x-dead-letter-exchange")?;
        Some(Box::new(Self {
            exchange: exchange.into(),
            routing_key: text("x-dead-letter-routing-key").map(Into::into),
            waiting: Vec::new(),
            is_noted: false,
        }))
    }

    /// Keeps a message until it can go.
    pub(crate) fn add(&mut self, record: &Record<'_>, reason: Reason, memory: &mut Memory) {
        let letter = DeadLetter {
            exchange: record.exchange.into(),
            routing_key: record.routing_key.into(),
            properties: record.properties.to_vec(),
            body: record.body.to_vec(),
            has_sections: record.has_sections,
            reason,
        };
        memory.keep(letter.bytes());
        self.waiting.push(letter);
    }

    /// Whether there are some of which nobody was told; once.
    pub(crate) fn are_new(&mut self) -> bool {
        !self.waiting.is_empty() && !std::mem::replace(&mut self.is_noted, true)
    }

    /// Takes out all.
    pub(crate) fn take(&mut self, memory: &mut Memory) -> Vec<DeadLetter> {
        self.is_noted = false;
        memory.forget(self.waiting.iter().map(DeadLetter::bytes).sum());
        std::mem::take(&mut self.waiting)
    }
}

impl DeadLetter {
    /// The memory that it takes.
    fn bytes(&self) -> u64 {
        let names = self.exchange.len() + self.routing_key.len();
        (size_of::<Self>() + names + self.properties.len() + self.body.len()) as u64
    }
}

/// The deaths that a message's headers tell of.
pub(crate) fn deaths(headers: Table<'_>) -> impl Iterator<Item = Table<'_>> {
    let all = match headers.get(DEATHS) {
        Some(Value::Array(all)) => Some(all),
        _ => None,
    };
    all.into_iter().flat_map(IntoIterator::into_iter).filter_map(|death| match death {
        Value::Table(death) => Some(death),
        _ => None,
    })
}

pub(crate) fn text<'a>(table: Table<'a>, name: &str) -> &'a str {
    table.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Whether a message was in this queue before and nobody has refused it since: it would go round for ever.
pub(crate) fn is_circle(properties: &[u8], queue: &str) -> bool {
    let Ok(decoded) = Properties::from_bytes(properties).decode() else { return false };
    let mut since = Vec::new();
    for death in deaths(decoded.headers.unwrap_or(Table::EMPTY)) {
        since.push(text(death, "reason"));
        if text(death, "queue") == queue {
            return !since.contains(&Reason::Rejected.name());
        }
    }
    false
}

/// A message's properties with one death more, and without its expiration, which would end it again; `None` where they
/// cannot be read, or hold no more: it could go round for ever.
pub(crate) fn with_death(letter: &DeadLetter, queue: &str) -> Option<Vec<u8>> {
    let decoded = Properties::from_bytes(&letter.properties).decode().ok()?;
    let headers = with_death_header(letter, queue, &decoded)?;
    let with = BasicProperties { headers: Some(headers.view()), expiration: None, ..decoded };
    with.to_bytes().ok()
}

fn with_death_header(letter: &DeadLetter, queue: &str, decoded: &BasicProperties<'_>) -> Option<FieldTable> {
    let headers = decoded.headers.unwrap_or(Table::EMPTY);
    let reason = letter.reason.name();
    let is_same = |it: &Table<'_>| text(*it, "queue") == queue && text(*it, "reason") == reason;
    let before = deaths(headers).find(is_same);
    let count = before.and_then(|it| it.get("count")?.as_i64()).unwrap_or(0);
    let mut keys = FieldArray::new();
    keys.push(&*letter.routing_key).ok()?;
    let mut death = FieldTable::new();
    death.insert("count", Value::I64(count.saturating_add(1))).ok()?;
    death.insert("reason", reason).ok()?;
    death.insert("queue", queue).ok()?;
    let seconds = measure::wall_clock_unix_ns() / Nanos::SECOND.0;
    death.insert("time", Value::Timestamp(seconds)).ok()?;
    death.insert("exchange", &*letter.exchange).ok()?;
    death.insert("routing-keys", &keys).ok()?;
    let expiration = match before {
        Some(before) => before.get(ORIGINAL_EXPIRATION),
        None => decoded.expiration.map(Value::from),
    };
    if let Some(expiration) = expiration {
        death.insert(ORIGINAL_EXPIRATION, expiration).ok()?;
    }
    let mut all = FieldArray::new();
    all.push(&death).ok()?;
    for other in deaths(headers).filter(|it| !is_same(it)) {
        all.push(Value::Table(other)).ok()?;
    }
    // Clients may say anything of a message that never died.
    let is_first = deaths(headers).next().is_none() || headers.get(FIRST_DEATH).is_none();
    let mut headers = headers.to_owned();
    headers.insert(DEATHS, &all).ok()?;
    if is_first {
        headers.insert(FIRST_DEATH, reason).ok()?;
        headers.insert("x-first-death-queue", queue).ok()?;
        let exchange = &*letter.exchange;
        headers.insert("x-first-death-exchange", exchange).ok()?;
    }
    Some(headers)
}
