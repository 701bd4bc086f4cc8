//! The virtual host: exchanges, queues, bindings and consumers by name and key, and the way of a
//! message from an exchange to its queues.

use std::collections::{BTreeSet, HashMap};

use measure::Time;
use wire::amqp091::{Properties, Table};

use crate::dead_letters::{DeadLetter, is_circle, with_death};
use crate::exchange::{Destination, Exchange, Kind};
use crate::faults::Faults;
use crate::log::Record;
use crate::memory::Memory;
use crate::queue::{Consumer, Parked, Queue};
use crate::refusal::Refusal;
use crate::slots::{Key, Slots};

/// The only virtual host there is.
pub(crate) const NAME: &str = "/";

/// The exchanges that exist from the start, as in RabbitMQ.
const PREDECLARED: [(&str, Kind); 7] = [
    ("amq.direct", Kind::Direct),
    ("amq.fanout", Kind::Fanout),
    ("amq.topic", Kind::Topic),
    ("amq.headers", Kind::Headers),
    ("amq.match", Kind::Headers),
    ("amq.rabbitmq.trace", Kind::Topic),
    ("amq.rabbitmq.event", Kind::Topic),
];

/// Everything that clients share.
#[derive(Debug)]
pub(crate) struct VirtualHost {
    pub(crate) exchanges: Slots<Exchange>,
    pub(crate) exchange_names: HashMap<Box<str>, Key>,
    pub(crate) queues: Slots<Queue>,
    pub(crate) queue_names: HashMap<Box<str>, Key>,
    pub(crate) consumers: Slots<Consumer>,
    pub(crate) memory: Memory,
    /// Queues with something to deliver and somebody to deliver it to.
    pub(crate) dirty: Vec<Key>,
    /// Consumers whose queue was deleted and whose channels have not heard of it.
    pub(crate) orphans: Vec<(Key, Consumer)>,
    /// Links of AMQP 1.0 whose clients want to hear when nothing is left to send: connection, session, handle.
    pub(crate) drains: Vec<(Key, u16, u32)>,
    /// Queues with messages that they have given up, each once.
    pub(crate) burials: Vec<Key>,
    /// Queues with messages that expire, each once, by when the oldest does, or sooner.
    pub(crate) expiring: BTreeSet<(Time, Key)>,
    /// When the last input came, or time was looked at.
    pub(crate) now: Time,
    /// Changes with every change that may route a message differently.
    pub(crate) version: u64,
    /// Faults to inject, where there are any.
    pub(crate) faults: Option<Box<Faults>>,
    /// Numbers given by the broker so far, in names and as ids of transactions.
    numbered: u64,
    /// Exchanges seen on the way of one message; kept to reuse its memory.
    visited: Vec<Key>,
}

/// The queues of the last route taken on a channel. Most publishers use one exchange and key all
/// the time, and then pay for routing once.
#[derive(Debug, Default)]
pub(crate) struct RouteCache {
    /// [`VirtualHost::version`] when it was filled; 0 never is.
    version: u64,
    exchange: String,
    routing_key: String,
    queues: Vec<Key>,
}

impl RouteCache {
    /// The queues found last.
    pub(crate) fn queues(&self) -> &[Key] {
        &self.queues
    }
}

impl VirtualHost {
    pub(crate) fn new(memory: Memory) -> Self {
        let mut vhost = Self {
            exchanges: Slots::default(),
            exchange_names: HashMap::new(),
            queues: Slots::default(),
            queue_names: HashMap::new(),
            consumers: Slots::default(),
            memory,
            dirty: Vec::new(),
            orphans: Vec::new(),
            drains: Vec::new(),
            burials: Vec::new(),
            expiring: BTreeSet::new(),
            now: Time::default(),
            version: 1,
            faults: None,
            numbered: 0,
            visited: Vec::new(),
        };
        for (name, kind) in PREDECLARED {
            let mut exchange = Exchange::new(name, kind);
            exchange.internal = name == "amq.rabbitmq.trace" || name == "amq.rabbitmq.event";
            vhost.add_exchange(exchange);
        }
        vhost
    }

    /// A name that was not given before.
    pub(crate) fn generated_name(&mut self, prefix: &str) -> String {
        format!("{prefix}-{:016x}", self.next_number())
    }

    /// A number that was not given before.
    pub(crate) const fn next_number(&mut self) -> u64 {
        self.numbered += 1;
        self.numbered
    }

    pub(crate) fn add_exchange(&mut self, exchange: Exchange) -> Key {
        let name = exchange.name.clone();
        let key = self.exchanges.insert(exchange);
        self.exchange_names.insert(name, key);
        self.version += 1;
        key
    }

    /// The exchange of this name.
    pub(crate) fn exchange_key(&self, name: &str) -> Result<Key, Refusal> {
        self.exchange_names.get(name).copied().ok_or_else(|| Refusal::not_found("exchange", name))
    }

    /// The queue of this name, for a connection that wants to use it.
    pub(crate) fn queue_key(&self, connection: Key, name: &str) -> Result<Key, Refusal> {
        let missing = || Refusal::not_found("queue", name);
        let key = *self.queue_names.get(name).ok_or_else(missing)?;
        let queue = self.queues.get(key).ok_or_else(missing)?;
        match queue.owner {
            Some(owner) if owner != connection => Err(Refusal::locked(name)),
            _ => Ok(key),
        }
    }

    /// Finds the queues of a message, by `cache` if they are the last ones. Never inlined, so that profiles name it.
    #[inline(never)]
    pub(crate) fn route(
        &mut self,
        exchange: &str,
        routing_key: &str,
        properties: &[u8],
        cache: &mut RouteCache,
    ) -> Result<(), Refusal> {
        if let Some(faults) = &mut self.faults {
            faults.slow_route();
        }
        if cache.version == self.version && same(&cache.routing_key, routing_key) && same(&cache.exchange, exchange) {
            return Ok(());
        }
        cache.version = 0;
        cache.queues.clear();
        if self.find_route(exchange, routing_key, properties, &mut cache.queues)? {
            cache.version = self.version;
            cache.exchange.clear();
            cache.exchange.push_str(exchange);
            cache.routing_key.clear();
            cache.routing_key.push_str(routing_key);
        }
        Ok(())
    }

    /// Finds the queues of a message; returns whether another message with the same exchange and key goes the same way.
    fn find_route(
        &mut self,
        exchange: &str,
        routing_key: &str,
        properties: &[u8],
        queues: &mut Vec<Key>,
    ) -> Result<bool, Refusal> {
        if exchange.is_empty() {
            queues.extend(self.queue_names.get(routing_key));
            return Ok(true);
        }
        let first = self.exchange_key(exchange)?;
        if self.exchanges.get(first).is_some_and(|x| x.internal) {
            return Err(Refusal::access(format_args!("cannot publish to internal exchange '{exchange}' in vhost '/'")));
        }
        let mut visited = std::mem::take(&mut self.visited);
        visited.clear();
        visited.push(first);
        let mut repeatable = true;
        let mut at = 0;
        while let Some(exchange) = visited.get(at).and_then(|key| self.exchanges.get(*key)) {
            at += 1;
            let headers = if exchange.kind == Kind::Headers {
                repeatable = false;
                headers_of(properties)
            } else {
                Table::EMPTY
            };
            let mut routed = false;
            exchange.route(routing_key, headers, |destination| {
                routed = true;
                match destination {
                    Destination::Queue(queue) => queues.push(queue),
                    Destination::Exchange(next) if !visited.contains(&next) => visited.push(next),
                    Destination::Exchange(_) => {}
                }
            });
            let alternate = exchange.alternate.as_ref().filter(|_| !routed);
            if let Some(next) = alternate.and_then(|name| self.exchange_names.get(name))
                && !visited.contains(next)
            {
                visited.push(*next);
            }
        }
        self.visited = visited;
        // Several bindings may lead to one queue, which gets one copy.
        queues.sort_unstable();
        queues.dedup();
        Ok(repeatable)
    }

    /// Puts a message into queues; returns whether all of them took it.
    #[inline]
    pub(crate) fn enqueue(&mut self, queues: &[Key], record: &Record<'_>) -> bool {
        let mut all = true;
        for &key in queues {
            let Some(queue) = self.queues.get_mut(key) else { continue };
            all &= queue.push(record, self.now, &mut self.memory);
            queue.await_expiry(key, &mut self.expiring);
            if queue.has_new_dead_letters() {
                self.burials.push(key);
            }
            if !queue.is_dirty && !queue.ring.is_empty() {
                queue.is_dirty = true;
                self.dirty.push(key);
            }
        }
        all
    }

    /// Notes that a queue may have something to deliver.
    pub(crate) fn mark_dirty(&mut self, key: Key) {
        if let Some(queue) = self.queues.get_mut(key)
            && !queue.is_dirty
            && !queue.ring.is_empty()
        {
            queue.is_dirty = true;
            self.dirty.push(key);
        }
    }

    /// Puts a consumer that waited for `reason` back in turn.
    pub(crate) fn wake(&mut self, consumer: Key, reason: Parked) {
        let Some(c) = self.consumers.get_mut(consumer) else { return };
        if c.parked != reason {
            return;
        }
        c.parked = Parked::No;
        let (key, priority) = (c.queue, c.priority);
        if let Some(queue) = self.queues.get_mut(key) {
            queue.ring.push(consumer, priority);
        }
        self.mark_dirty(key);
    }
}

/// Whether two names are equal. An empty `String` points at no memory, and comparing nothing there
/// costs a suppressed page fault in libc's vector code: a third of all time once.
#[inline]
fn same(a: &str, b: &str) -> bool {
    a.len() == b.len() && (a.is_empty() || a == b)
}

/// The headers of a message; none where they cannot be read.
fn headers_of(properties: &[u8]) -> Table<'_> {
    Properties::from_bytes(properties).decode().ok().and_then(|p| p.headers).unwrap_or(Table::EMPTY)
}

impl VirtualHost {
    /// Publishes dead letters to where their queues send them, also those that come of that.
    pub(crate) fn forward_dead_letters(&mut self) {
        while let Some(key) = self.burials.pop() {
            let Some(queue) = self.queues.get_mut(key) else { continue };
            let Some(letters) = &mut queue.dead_letters else { continue };
            let waiting = letters.take(&mut self.memory);
            let target = (letters.exchange.clone(), letters.routing_key.clone());
            let from = queue.name.clone();
            for letter in waiting {
                self.forward(&letter, &from, &target.0, target.1.as_deref());
            }
        }
    }

    fn forward(&mut self, letter: &DeadLetter, from: &str, exchange: &str, key: Option<&str>) {
        let routing_key = key.unwrap_or(&letter.routing_key);
        let Some(properties) = with_death(letter, from) else { return };
        let mut route = RouteCache::default();
        // An exchange that is not there takes nothing, as RabbitMQ has it.
        if self.route(exchange, routing_key, &properties, &mut route).is_err() {
            return;
        }
        let DeadLetter { body, has_sections, .. } = letter;
        let record = Record { exchange, routing_key, properties: &properties, body, has_sections: *has_sections };
        let mut queues = route.queues().to_vec();
        queues.retain(|it| {
            let queue = self.queues.get(*it);
            queue.is_some_and(|queue| !is_circle(&properties, &queue.name))
        });
        self.enqueue(&queues, &record);
    }

    /// Gives up what is too old.
    pub(crate) fn expire(&mut self, now: Time) {
        self.now = now;
        while self.next_expiry().is_some_and(|at| at < now) {
            let Some((_, key)) = self.expiring.pop_first() else { break };
            if let Some(queue) = self.queues.get_mut(key) {
                queue.awaited = None;
            }
            self.expire_queue(key);
        }
    }

    /// When a message may expire next; not later than one does.
    pub(crate) fn next_expiry(&self) -> Option<Time> {
        self.expiring.first().map(|(at, _)| *at)
    }

    /// Gives up what is too old in one queue, and waits for what is next.
    #[inline]
    pub(crate) fn expire_queue(&mut self, key: Key) {
        if let Some(queue) = self.queues.get_mut(key) {
            queue.expire(self.now, &mut self.memory);
            queue.await_expiry(key, &mut self.expiring);
            if queue.has_new_dead_letters() {
                self.burials.push(key);
            }
        }
    }
}
