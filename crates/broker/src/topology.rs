//! Declaring, binding and deleting.

use wire::amqp091::{ExchangeDeclare, QueueDeclare, Table, Value};

use crate::arguments::{self, Arguments, QueueType};
use crate::exchange::{Binding, Destination, Exchange, Kind};
use crate::queue::{Flags, Queue};
use crate::refusal::Refusal;
use crate::slots::Key;
use crate::vhost::VirtualHost;

const RESERVED_PREFIX: &str = "amq.";

impl VirtualHost {
    /// Declares an exchange, or checks that an equal one exists.
    pub(crate) fn declare_exchange(&mut self, wanted: &ExchangeDeclare<'_>) -> Result<(), Refusal> {
        let name = wanted.exchange;
        if name.is_empty() {
            return Err(Refusal::default_exchange());
        }
        if wanted.passive {
            return self.exchange_key(name).map(|_| ());
        }
        let kind = Kind::from_name(wanted.kind)
            .ok_or_else(|| Refusal::command_invalid(format_args!("invalid exchange type '{}'", wanted.kind)))?;
        if let Ok(key) = self.exchange_key(name)
            && let Some(current) = self.exchanges.get(key)
        {
            return check_exchange(current, kind, wanted);
        }
        if name.starts_with(RESERVED_PREFIX) {
            return Err(Refusal::reserved("exchange", name));
        }
        let mut exchange = Exchange::new(name, kind);
        exchange.durable = wanted.durable;
        exchange.auto_delete = wanted.auto_delete;
        exchange.internal = wanted.internal;
        exchange.alternate = alternate(wanted.arguments).map(Into::into);
        self.add_exchange(exchange);
        Ok(())
    }

    /// Deletes an exchange with its bindings. One that does not exist is deleted already.
    pub(crate) fn delete_exchange(&mut self, name: &str, if_unused: bool) -> Result<(), Refusal> {
        if name.is_empty() {
            return Err(Refusal::default_exchange());
        }
        if name.starts_with(RESERVED_PREFIX) {
            return Err(Refusal::access(format_args!("deletion of system exchange '{name}' in vhost '/' not allowed")));
        }
        let Ok(key) = self.exchange_key(name) else { return Ok(()) };
        if if_unused && self.exchanges.get(key).is_some_and(|x| !x.is_unused()) {
            return Err(Refusal::precondition(format_args!("exchange '{name}' in vhost '/' in use")));
        }
        self.remove_exchange(key);
        Ok(())
    }

    fn remove_exchange(&mut self, key: Key) {
        let Some(exchange) = self.exchanges.remove(key) else { return };
        self.exchange_names.remove(&exchange.name);
        self.version += 1;
        for binding in exchange.bindings() {
            if let Some(inbound) = self.inbound_of(binding.destination) {
                inbound.retain(|(source, _)| *source != key);
            }
        }
        self.drop_inbound(&exchange.inbound);
    }

    /// Removes bindings at their sources, and with them exchanges that live for bindings only.
    fn drop_inbound(&mut self, inbound: &[(Key, Binding)]) {
        for (source, binding) in inbound {
            let Some(exchange) = self.exchanges.get_mut(*source) else { continue };
            exchange.unbind(binding);
            self.version += 1;
            if exchange.auto_delete && exchange.is_unused() {
                self.remove_exchange(*source);
            }
        }
    }

    /// Binds a queue or an exchange to an exchange; a second time changes nothing.
    pub(crate) fn bind(
        &mut self,
        source: &str,
        destination: Destination,
        routing_key: &str,
        arguments: Table<'_>,
    ) -> Result<(), Refusal> {
        if source.is_empty() {
            return Err(Refusal::default_exchange());
        }
        let from = self.exchange_key(source)?;
        if self.exchanges.get(from).is_some_and(|x| x.kind == Kind::Headers) {
            check_match(arguments)?;
        }
        let binding = Binding { key: routing_key.into(), destination, arguments: arguments.to_owned() };
        if self.exchanges.get_mut(from).is_some_and(|x| x.bind(&binding)) {
            if let Some(inbound) = self.inbound_of(destination) {
                inbound.push((from, binding));
            }
            self.version += 1;
        }
        Ok(())
    }

    /// Removes a binding; one that does not exist is removed already.
    pub(crate) fn unbind(
        &mut self,
        source: &str,
        destination: Destination,
        routing_key: &str,
        arguments: Table<'_>,
    ) -> Result<(), Refusal> {
        if source.is_empty() {
            return Err(Refusal::default_exchange());
        }
        let Ok(from) = self.exchange_key(source) else { return Ok(()) };
        let binding = Binding { key: routing_key.into(), destination, arguments: arguments.to_owned() };
        if let Some(inbound) = self.inbound_of(destination)
            && let Some(at) = inbound.iter().position(|(s, b)| *s == from && *b == binding)
        {
            inbound.swap_remove(at);
            self.drop_inbound(&[(from, binding)]);
        }
        Ok(())
    }

    fn inbound_of(&mut self, destination: Destination) -> Option<&mut Vec<(Key, Binding)>> {
        match destination {
            Destination::Queue(queue) => self.queues.get_mut(queue).map(|q| &mut q.inbound),
            Destination::Exchange(exchange) => self.exchanges.get_mut(exchange).map(|x| &mut x.inbound),
        }
    }

    /// Declares a queue for a connection, or checks that an equal one exists.
    pub(crate) fn declare_queue(&mut self, connection: Key, wanted: &QueueDeclare<'_>) -> Result<Key, Refusal> {
        let name = wanted.queue;
        if !wanted.passive && !self.queue_names.contains_key(name) {
            return self.create_queue(connection, wanted);
        }
        let key = self.queue_key(connection, name)?;
        if !wanted.passive
            && let Some(current) = self.queues.get(key)
        {
            check_queue(current, connection, wanted)?;
        }
        Ok(key)
    }

    fn create_queue(&mut self, connection: Key, wanted: &QueueDeclare<'_>) -> Result<Key, Refusal> {
        let name = if wanted.queue.is_empty() {
            self.generated_name("amq.gen")
        } else if wanted.queue.starts_with(RESERVED_PREFIX) {
            return Err(Refusal::reserved("queue", wanted.queue));
        } else {
            wanted.queue.to_owned()
        };
        let arguments = Arguments::read(&name, wanted.arguments)?;
        let flags = Flags { durable: wanted.durable, exclusive: wanted.exclusive, auto_delete: wanted.auto_delete };
        check_type(&name, arguments.queue_type, flags)?;
        let owner = wanted.exclusive.then_some(connection);
        let queue = Queue::new(&name, flags, owner, wanted.arguments.to_owned(), arguments);
        let key = self.queues.insert(queue);
        self.queue_names.insert(name.into(), key);
        self.version += 1;
        Ok(key)
    }

    /// Deletes a queue that a connection may use; one that does not exist is deleted already.
    /// Returns how many messages were ready.
    pub(crate) fn delete_queue(
        &mut self,
        connection: Key,
        name: &str,
        if_unused: bool,
        if_empty: bool,
    ) -> Result<u64, Refusal> {
        if !self.queue_names.contains_key(name) {
            return Ok(0);
        }
        let key = self.queue_key(connection, name)?;
        if let Some(queue) = self.queues.get(key) {
            if if_unused && !queue.consumers.is_empty() {
                return Err(Refusal::precondition(format_args!("queue '{name}' in vhost '/' in use")));
            }
            if if_empty && queue.ready() > 0 {
                return Err(Refusal::precondition(format_args!("queue '{name}' in vhost '/' not empty")));
            }
        }
        Ok(self.remove_queue(key))
    }

    /// Deletes a queue whatever its state; its consumers become orphans, whose channels have to
    /// hear of it. Returns how many messages were ready.
    pub(crate) fn remove_queue(&mut self, key: Key) -> u64 {
        // What it gave up before goes on.
        self.forward_dead_letters();
        let Some(mut queue) = self.queues.remove(key) else { return 0 };
        self.queue_names.remove(&queue.name);
        if let Some(at) = queue.awaited {
            self.expiring.remove(&(at, key));
        }
        self.version += 1;
        self.drop_inbound(&queue.inbound);
        for consumer in queue.consumers.drain(..) {
            self.orphans.extend(self.consumers.remove(consumer).map(|c| (consumer, c)));
        }
        queue.clear(&mut self.memory)
    }
}

/// A headers binding names one of four ways to match, or none.
fn check_match(arguments: Table<'_>) -> Result<(), Refusal> {
    match arguments.get("x-match").map(|v| (v, v.as_str())) {
        None | Some((_, Some("all" | "any" | "all-with-x" | "any-with-x"))) => Ok(()),
        Some((other, _)) => Err(Refusal::precondition(format_args!(
            "Invalid x-match field value <<\"{}\">>; expected all, any, all-with-x, or any-with-x",
            arguments::show(other)
        ))),
    }
}

/// Replicated types exist for messages that outlive things, in RabbitMQ and so here.
fn check_type(name: &str, queue_type: QueueType, flags: Flags) -> Result<(), Refusal> {
    if queue_type == QueueType::Classic {
        return Ok(());
    }
    for (wrong, property) in
        [(!flags.durable, "non-durable"), (flags.auto_delete, "auto-delete"), (flags.exclusive, "exclusive-owner")]
    {
        if wrong {
            return Err(Refusal::precondition(format_args!(
                "invalid property '{property}' for queue '{name}' in vhost '/'"
            )));
        }
    }
    Ok(())
}

fn check_queue(current: &Queue, connection: Key, wanted: &QueueDeclare<'_>) -> Result<(), Refusal> {
    let name = wanted.queue;
    if (current.owner == Some(connection)) != wanted.exclusive {
        return Err(Refusal::locked(name));
    }
    check_equal("durable", "queue", name, wanted.durable, current.flags.durable)?;
    check_equal("auto_delete", "queue", name, wanted.auto_delete, current.flags.auto_delete)?;
    arguments::check_equivalent(name, wanted.arguments, current.table.view())
}

fn check_exchange(current: &Exchange, kind: Kind, wanted: &ExchangeDeclare<'_>) -> Result<(), Refusal> {
    let name = wanted.exchange;
    check_equal("type", "exchange", name, kind.name(), current.kind.name())?;
    check_equal("durable", "exchange", name, wanted.durable, current.durable)?;
    check_equal("auto_delete", "exchange", name, wanted.auto_delete, current.auto_delete)?;
    check_equal("internal", "exchange", name, wanted.internal, current.internal)?;
    let (received, now) = (alternate(wanted.arguments), current.alternate.as_deref());
    if received != now {
        let text = |x: Option<&str>| x.map_or("none".to_owned(), |x| format!("the value '{x}' of type 'longstr'"));
        let (received, now) = (text(received), text(now));
        return Err(Refusal::inequivalent("alternate-exchange", "exchange", name, &received, &now));
    }
    Ok(())
}

fn check_equal<T: PartialEq + std::fmt::Display>(
    argument: &str,
    kind: &str,
    name: &str,
    received: T,
    current: T,
) -> Result<(), Refusal> {
    if received == current {
        return Ok(());
    }
    let (received, current) = (format!("'{received}'"), format!("'{current}'"));
    Err(Refusal::inequivalent(argument, kind, name, &received, &current))
}

fn alternate<'a>(arguments: Table<'a>) -> Option<&'a str> {
    arguments.get("alternate-exchange").and_then(Value::as_str)
}

#[cfg(test)]
#[path = "topology_tests.rs"]
mod tests;
