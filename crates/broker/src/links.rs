//! A connection over AMQP 1.0: its sessions are channels, its links consumers, or exchanges and keys to publish to.
//! Addresses are RabbitMQ's ("v2"), in which names are percent-encoded, or names as they are:
//!
//! ```text
//! /queues/QUEUE     /exchanges/EXCHANGE/KEY     /exchanges/EXCHANGE
//! QUEUE             queue://QUEUE               topic://KEY, or KEY with the capability topic: exchange amq.topic
//! /management       see `management`
//! ```
//!
//! A link without an address takes messages that name one each, in `to`. A dynamic one gets a queue of its own, which
//! goes with it.

use measure::{Time, percent_decoded};
use wire::amqp10::{
    Amqp10Event, Amqp10Request, DeliveryState, MessageMapping, MessageParts, SCRAM_SHA_256, Terminus, TypedValue,
    simple_field,
};
use wire::amqp091::{BasicConsume, FieldTable, QueueDeclare};

use crate::channel::{Channel, LinkSession, LinkTarget, Mode, SettlementKind, Target};
use crate::config::{self, User};
use crate::log::Record;
use crate::management;
use crate::outgoing::{LinkServer, TransferOutcome};
use crate::queue::Parked;
use crate::refusal::Refusal;
use crate::requests::Outcome;
use crate::session::{Peer, Reply};
use crate::slots::Key;
use crate::vhost::{self, VirtualHost};

/// How the name of a virtual host stands in `open`.
const VIRTUAL_HOST: &str = "vhost:";
/// Bytes of the longest name.
const NAME_MAX: usize = 255;

/// Takes bytes off `input` and deals with the next event. Errors: input that breaks the protocol.
pub(crate) fn poll(
    link: &mut LinkServer,
    peer: &mut Peer,
    vhost: &mut VirtualHost,
    users: &[User],
    now: Time,
    input: &mut &[u8],
) -> Result<Option<(u16, Reply)>, ()> {
    let event = link.server.poll(now, input).map_err(drop)?;
    Ok(event.map(|event| Links { peer, vhost, users, mapping: &mut link.mapping }.handle(event)))
}

/// Sends what an event led to.
pub(crate) fn answer(link: &mut LinkServer, peer: &mut Peer, session: u16, reply: &Reply, now: Time) {
    let server = &mut link.server;
    match reply {
        Reply::Login => server.accept_login(),
        Reply::Open => server.accept_open(),
        Reply::Reject(refusal) => {
            server.refuse_login();
            server.refuse_open(now, Refusal::condition(refusal.code), &refusal.text);
            peer.is_finished |= !server.is_closing();
        }
        Reply::Challenge(keys) => match config::random() {
            Some(nonce) => server.challenge(keys, &format!("{:032x}", u128::from_be_bytes(nonce))),
            None => {
                server.refuse_login();
                peer.is_finished = true;
            }
        },
        Reply::Attached { handle, is_stream } => server.accept_link(session, *handle, *is_stream),
        Reply::AttachedTo(handle, address) => server.accept_dynamic_link(session, *handle, address),
        Reply::Unattached(handle, refusal) => {
            server.refuse_link(session, *handle, Refusal::condition(refusal.code), &refusal.text);
        }
        Reply::Managed(handle, message) => {
            // Who grants no credit wants no answer.
            if server.credit(session, *handle, 1) > 0
                && let Some(channel) = peer.channel_mut(session)
            {
                channel.deliveries.next_tag();
                server.deliver(session, *handle, true, message, &[]);
            }
        }
        _ => {}
    }
}

/// A client's connection, and what its events lead to.
struct Links<'a> {
    peer: &'a mut Peer,
    vhost: &'a mut VirtualHost,
    users: &'a [User],
    mapping: &'a mut MessageMapping,
}

impl Links<'_> {
    #[inline]
    fn handle(&mut self, event: Amqp10Event<'_>) -> (u16, Reply) {
        match event {
            Amqp10Event::Delivery { session, handle, id, settled, message } => {
                (session, self.publish(session, handle, (!settled).then_some(id), &message))
            }
            Amqp10Event::Settled { session, first, last, state } => {
                self.settle(session, first, last, state);
                (session, Reply::None)
            }
            Amqp10Event::Flow { session, handle, flow, .. } => {
                if let Some(handle) = handle.filter(|_| flow.drain == Some(true)) {
                    self.vhost.drains.push((self.peer.key, session, handle));
                }
                let consumers = self.peer.channel_mut(session).map(|channel| channel.consumers.values());
                for consumer in consumers.into_iter().flatten() {
                    self.vhost.wake(*consumer, Parked::ForCredit);
                }
                (session, Reply::None)
            }
            Amqp10Event::Asked(request) => self.allow(request),
            other => (0, self.handle_life(&other)),
        }
    }

    /// Deals with the beginning and the end of connections, sessions and links.
    fn handle_life(&mut self, event: &Amqp10Event<'_>) -> Reply {
        match *event {
            Amqp10Event::Begun { session, .. } => {
                let mode = Mode::Session(Box::<LinkSession>::default());
                self.peer.open_channel(session, Channel { mode, ..Channel::default() });
            }
            Amqp10Event::Ended { session, .. } => self.peer.close_channel(session, self.vhost),
            Amqp10Event::Detached { session, handle, .. } => self.detach(session, handle),
            Amqp10Event::Closed { .. } => (self.peer.is_finished, self.peer.is_closed) = (true, true),
            Amqp10Event::CloseOk => self.peer.is_finished = true,
            _ => {}
        }
        Reply::None
    }

    fn allow(&mut self, request: Amqp10Request<'_>) -> (u16, Reply) {
        match request {
            Amqp10Request::Login { mechanism, user, password } => {
                let password = str::from_utf8(password.0).unwrap_or_default();
                (0, self.peer.log_in(mechanism, user, password, self.vhost, self.users))
            }
            Amqp10Request::Scram { user } => (0, Peer::begin_scram(user, self.users)),
            Amqp10Request::Proved => (0, Peer::let_in(SCRAM_SHA_256, self.vhost)),
            Amqp10Request::Open { hostname } => match hostname.strip_prefix(VIRTUAL_HOST) {
                Some(name) if name != vhost::NAME => (0, Reply::Reject(Refusal::no_virtual_host(name))),
                _ => (0, Reply::Open),
            },
            Amqp10Request::Link { session, handle, is_sender, terminus, is_topic, settled, offset } => {
                let attached = match terminus {
                    Terminus::Address(management::ADDRESS) => Ok(self.manage(session, handle, is_sender, settled)),
                    Terminus::Address(address) => target_of(address, is_topic).and_then(|target| match is_sender {
                        true => self.consume(session, handle, &target, settled, offset),
                        false => self.produce(session, handle, LinkTarget { target, named: None }),
                    }),
                    Terminus::Anonymous => {
                        let named = Some(String::new());
                        self.produce(session, handle, LinkTarget { named, ..LinkTarget::default() })
                    }
                    Terminus::Dynamic => self.make(session, handle, is_sender, settled),
                    Terminus::Other => Err(Refusal::not_implemented("it leads to no queue or exchange")),
                };
                (session, attached.unwrap_or_else(|refusal| Reply::Unattached(handle, refusal)))
            }
        }
    }

    /// Makes a queue for a link, for as long as that is there. Nobody else consumes what is meant for the client.
    fn make(&mut self, session: u16, handle: u32, is_sender: bool, settled: bool) -> Outcome {
        let wanted = QueueDeclare { exclusive: is_sender, ..QueueDeclare::default() };
        let Reply::Declared(queue) = self.peer.declare_queue(session, &wanted, self.vhost)? else {
            return Ok(Reply::None);
        };
        if let Some(Mode::Session(links)) = self.peer.channel_mut(session).map(|channel| &mut channel.mode) {
            links.temporary.insert(handle, queue);
        }
        let name = self.vhost.queues.get(queue).map(|queue| queue.name.clone()).unwrap_or_default();
        let address = format!("/queues/{name}");
        let target = Target { routing_key: name, ..Target::default() };
        match is_sender {
            true => self.consume(session, handle, &target, settled, None)?,
            false => self.produce(session, handle, LinkTarget { target, named: None })?,
        };
        Ok(Reply::AttachedTo(handle, address))
    }

    /// A client wants to ask for queues and exchanges, or to hear the answers, which are settled when they are sent.
    fn manage(&mut self, session: u16, handle: u32, is_sender: bool, settled: bool) -> Reply {
        if is_sender && !settled {
            let refusal = Refusal::precondition("answers of /management are settled when they are sent");
            return Reply::Unattached(handle, refusal);
        }
        if let Some(Mode::Session(links)) = self.peer.channel_mut(session).map(|channel| &mut channel.mode)
            && let Some(link) = links.management.get_mut(usize::from(is_sender))
        {
            *link = Some(handle);
        }
        Reply::Attached { handle, is_stream: false }
    }

    /// A client wants a queue's messages. It has none before it grants credit.
    fn consume(
        &mut self,
        session: u16,
        handle: u32,
        target: &Target,
        settled: bool,
        offset: Option<TypedValue<'_>>,
    ) -> Outcome {
        if !target.exchange.is_empty() {
            return Err(Refusal::not_implemented("messages come from queues, not from exchanges"));
        }
        let key = self.vhost.queue_key(self.peer.key, &target.routing_key)?;
        let is_stream = self.vhost.queues.get(key).is_some_and(|queue| queue.is_stream());
        let mut arguments = FieldTable::new();
        if let Some(offset) = offset.and_then(simple_field).filter(|_| is_stream) {
            // Its name is short, and a simple value does not nest.
            let _ = arguments.insert("x-stream-offset", offset);
        }
        let (queue, tag, arguments) = (&*target.routing_key, handle.to_string(), arguments.view());
        let wanted = BasicConsume { queue, consumer_tag: &tag, no_ack: settled, arguments, ..BasicConsume::default() };
        if let Reply::Consuming(consumer, _) = self.peer.consume(session, &wanted, self.vhost)?
            && let Some(consumer) = self.vhost.consumers.get_mut(consumer)
        {
            consumer.handle = handle;
        }
        self.vhost.mark_dirty(key);
        Ok(Reply::Attached { handle, is_stream })
    }

    /// A client wants to send.
    fn produce(&mut self, session: u16, handle: u32, link: LinkTarget) -> Outcome {
        if !link.target.exchange.is_empty() {
            self.vhost.exchange_key(&link.target.exchange)?;
        }
        if let Some(Mode::Session(links)) = self.peer.channel_mut(session).map(|channel| &mut channel.mode) {
            links.targets.insert(handle, link);
        }
        Ok(Reply::Attached { handle, is_stream: false })
    }

    /// Routes a message, whose number is told where it is to be answered.
    #[inline]
    fn publish(&mut self, session: u16, handle: u32, unsettled: Option<u32>, message: &MessageParts<'_>) -> Reply {
        let Self { peer, vhost, mapping, .. } = self;
        peer.is_publisher = true;
        let connection = peer.key;
        let Some(channel) = peer.channel_mut(session) else { return Reply::None };
        let Mode::Session(links) = &mut channel.mode else { return Reply::None };
        let Some(link) = links.targets.get_mut(&handle) else {
            return self.ask(session, handle, unsettled, message);
        };
        let is_anonymous = link.named.is_some();
        let found = link.take_address(message);
        let mapped = mapping.to_basic(message);
        let is_mapped = mapped.is_some();
        let properties = mapped.unwrap_or_default().as_bytes();
        let Target { exchange, routing_key } = &link.target;
        let routed = found.and_then(|()| vhost.route(exchange, routing_key, properties, &mut channel.route));
        let outcome = match routed {
            // Of one that is settled already nobody hears otherwise.
            Err(refusal) if !is_anonymous || unsettled.is_none() => {
                links.targets.remove(&handle);
                return Reply::Unattached(handle, refusal);
            }
            Err(_) => TransferOutcome::NotFound,
            Ok(()) => {
                let (body, queues) = (message.lasting().0, channel.route.queues());
                let record = Record { exchange, routing_key, properties, body, has_sections: true };
                if vhost.refuses_message(unsettled.is_some()) || !is_mapped {
                    TransferOutcome::Rejected
                } else if queues.is_empty() {
                    TransferOutcome::Released
                } else if vhost.enqueue(queues, &record) {
                    TransferOutcome::Accepted
                } else {
                    TransferOutcome::Rejected
                }
            }
        };
        let Some(id) = unsettled else { return Reply::None };
        let due = vhost.faults.as_mut().and_then(|faults| faults.confirm_due());
        links.push(id, outcome, due);
        if let (Some(faults), Some(due)) = (&mut vhost.faults, due) {
            faults.confirm_later(due, connection, session);
        }
        if !std::mem::replace(&mut links.is_due, true) {
            peer.due_confirm(session);
        }
        Reply::None
    }

    /// Does what a client asks of the management; nothing where the link is another one, gone on this side only.
    #[cold]
    fn ask(&mut self, session: u16, handle: u32, unsettled: Option<u32>, request: &MessageParts<'_>) -> Reply {
        let Some(channel) = self.peer.channel_mut(session) else { return Reply::None };
        let Mode::Session(links) = &mut channel.mode else { return Reply::None };
        let [Some(questions), answers] = links.management else { return Reply::None };
        if questions != handle {
            return Reply::None;
        }
        if let Some(id) = unsettled {
            links.push(id, TransferOutcome::Accepted, None);
            links.is_due = true;
            self.peer.due_confirm(session);
        }
        let answer = management::answer(self.peer, session, request, self.vhost);
        answers.map_or(Reply::None, |answers| Reply::Managed(answers, answer))
    }

    /// Settles deliveries by their numbers. Those that are settled already are left alone.
    fn settle(&mut self, session: u16, first: u32, last: u32, state: Option<DeliveryState<'_>>) {
        let kind = match state {
            Some(DeliveryState::Accepted) | None => SettlementKind::Accepted,
            Some(DeliveryState::Rejected(_)) => SettlementKind::Rejected,
            Some(DeliveryState::Modified(it)) if it.undeliverable_here == Some(true) => SettlementKind::Rejected,
            Some(DeliveryState::Released | DeliveryState::Modified(_)) => SettlementKind::Requeued,
            Some(DeliveryState::Received(_) | DeliveryState::Other(_)) => return,
        };
        let Some(channel) = self.peer.channel_mut(session) else { return };
        let finish = kind.finish();
        let (mut first, last) = (channel.deliveries.tag_of(first), channel.deliveries.tag_of(last));
        while let Some((tag, delivery)) = channel.deliveries.take_between(first, last) {
            finish(self.vhost, &delivery);
            first = tag + 1;
        }
    }

    /// A link is gone: what its consumer has not settled goes back, and a queue of its own goes.
    fn detach(&mut self, session: u16, handle: u32) {
        let Some(channel) = self.peer.channel_mut(session) else { return };
        let mut temporary = None;
        if let Mode::Session(links) = &mut channel.mode {
            links.targets.remove(&handle);
            for link in &mut links.management {
                link.take_if(|it| *it == handle);
            }
            temporary = links.temporary.remove(&handle);
        }
        if let Some(consumer) = channel.consumers.remove(handle.to_string().as_str()) {
            self.return_all(session, consumer);
            if let Some(queue) = self.vhost.remove_consumer(consumer) {
                self.vhost.remove_queue(queue);
            }
        }
        if let Some(queue) = temporary {
            self.vhost.remove_queue(queue);
        }
    }

    fn return_all(&mut self, session: u16, consumer: Key) {
        // No further than it has any: others may have many.
        let mut left = self.vhost.consumers.get(consumer).map_or(0, |it| it.unacked);
        let Some(channel) = self.peer.channel_mut(session) else { return };
        let mut first = 0;
        while left > 0
            && let Some((tag, delivery)) = channel.deliveries.take_of(consumer, first)
        {
            self.vhost.return_delivery(&delivery);
            (first, left) = (tag + 1, left - 1);
        }
    }
}

impl LinkTarget {
    /// Takes the address that a message names, where the link has none. Errors: one that leads nowhere.
    fn take_address(&mut self, message: &MessageParts<'_>) -> Result<(), Refusal> {
        let Some(named) = &mut self.named else { return Ok(()) };
        let to = message.before.properties().and_then(|it| it.to.as_str()).unwrap_or_default();
        if to.is_empty() || named.as_str() != to {
            self.target = target_of(to, false).map_err(|_| Refusal::not_found("address", to))?;
            to.clone_into(named);
        }
        Ok(())
    }
}

/// Where an address leads: an exchange and a routing key; the default exchange for a queue.
fn target_of(address: &str, is_topic: bool) -> Result<Target, Refusal> {
    let wrong = || Refusal::not_implemented(format_args!("no address of a queue or exchange: {address:?}"));
    if address.is_empty() {
        return Err(wrong());
    }
    let decoded = |name: &str| percent_decoded(name).and_then(|it| String::from_utf8(it).ok()).ok_or_else(wrong);
    let (exchange, key) = if let Some(queue) = address.strip_prefix("/queues/") {
        (String::new(), decoded(queue)?)
    } else if let Some(rest) = address.strip_prefix("/exchanges/") {
        let (exchange, key) = rest.split_once('/').unwrap_or((rest, ""));
        (decoded(exchange)?, decoded(key)?)
    } else if address.starts_with('/') {
        return Err(wrong());
    } else if let Some(key) = address.strip_prefix("topic://").or_else(|| is_topic.then_some(address)) {
        ("amq.topic".to_owned(), key.to_owned())
    } else {
        (String::new(), address.strip_prefix("queue://").unwrap_or(address).to_owned())
    };
    if exchange.len() > NAME_MAX || key.len() > NAME_MAX {
        return Err(wrong());
    }
    Ok(Target { exchange: exchange.into(), routing_key: key.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_name_queues_and_exchanges() {
        let target = |address, is_topic| target_of(address, is_topic).ok();
        for (address, is_topic, exchange, key) in [
            ("/queues/my%20queue%2F1", false, "", "my queue/1"),
            ("/exchanges/x%20%C3%A9/a%2Fb", false, "x é", "a/b"),
            ("/exchanges/amq.fanout", false, "amq.fanout", ""),
            ("q", false, "", "q"),
            ("queue://q", false, "", "q"),
            ("topic://a.b", false, "amq.topic", "a.b"),
            ("a.b", true, "amq.topic", "a.b"),
        ] {
            let found = target(address, is_topic).expect("an address");
            assert_eq!((&*found.exchange, &*found.routing_key), (exchange, key), "{address}");
        }
        for wrong in ["", "/queue/q", "/managements", "/queues/%zz", &"q".repeat(256)] {
            assert!(target(wrong, false).is_none(), "{wrong}");
        }
    }
}
