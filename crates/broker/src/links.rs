//! A connection over AMQP 1.0: its sessions are channels, its links consumers, or exchanges and keys to publish to.
//! Addresses are RabbitMQ's ("v2"), in which names are percent-encoded, or names as they are:
//!
//! ```text
//! /queues/QUEUE     /exchanges/EXCHANGE/KEY     /exchanges/EXCHANGE
//! QUEUE             queue://QUEUE               topic://KEY, or KEY with the capability topic: exchange amq.topic
//! /management       see `management`
//! ```

use measure::{Time, percent_decoded};
use wire::amqp10::{Amqp10Event, Amqp10Request, DeliveryState, MessageMapping, MessageParts};
use wire::amqp091::{BasicConsume, Properties};

use crate::channel::{Channel, LinkSession, Mode, SettlementKind, Target};
use crate::config::User;
use crate::log::Record;
use crate::management;
use crate::outgoing::{LinkServer, TransferOutcome};
use crate::queue::Parked;
use crate::refusal::Refusal;
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
    let reply = event.map(|event| Links { peer, vhost, users, mapping: &mut link.mapping }.handle(event));
    link.mapping.shrink();
    Ok(reply)
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
        Reply::Attached(handle) => server.accept_link(session, *handle),
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
            Amqp10Request::Open { hostname } => match hostname.strip_prefix(VIRTUAL_HOST) {
                Some(name) if name != vhost::NAME => (0, Reply::Reject(Refusal::no_virtual_host(name))),
                _ => (0, Reply::Open),
            },
            Amqp10Request::Link { session, handle, is_sender, address, is_topic, settled } => {
                if address == Some(management::ADDRESS) {
                    return (session, self.manage(session, handle, is_sender, settled));
                }
                let attached = target_of(address, is_topic).and_then(|target| match is_sender {
                    true => self.consume(session, handle, &target, settled),
                    false => self.produce(session, handle, target),
                });
                (
                    session,
                    attached.map_or_else(|refusal| Reply::Unattached(handle, refusal), |()| Reply::Attached(handle)),
                )
            }
        }
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
        Reply::Attached(handle)
    }

    /// A client wants a queue's messages. It has none before it grants credit.
    fn consume(&mut self, session: u16, handle: u32, target: &Target, settled: bool) -> Result<(), Refusal> {
        if !target.exchange.is_empty() {
            return Err(Refusal::not_implemented("messages come from queues, not from exchanges"));
        }
        let key = self.vhost.queue_key(self.peer.key, &target.routing_key)?;
        if self.vhost.queues.get(key).is_some_and(|queue| queue.is_stream()) {
            return Err(Refusal::not_implemented("the embedded broker has no consumers of streams over AMQP 1.0"));
        }
        let (queue, tag) = (&*target.routing_key, handle.to_string());
        let wanted = BasicConsume { queue, consumer_tag: &tag, no_ack: settled, ..BasicConsume::default() };
        if let Reply::Consuming(consumer, _) = self.peer.consume(session, &wanted, self.vhost)?
            && let Some(consumer) = self.vhost.consumers.get_mut(consumer)
        {
            consumer.handle = handle;
        }
        self.vhost.mark_dirty(key);
        Ok(())
    }

    /// A client wants to send.
    fn produce(&mut self, session: u16, handle: u32, target: Target) -> Result<(), Refusal> {
        if !target.exchange.is_empty() {
            self.vhost.exchange_key(&target.exchange)?;
        }
        if let Some(Mode::Session(links)) = self.peer.channel_mut(session).map(|channel| &mut channel.mode) {
            links.targets.insert(handle, target);
        }
        Ok(())
    }

    /// Routes a message, whose number is told where it is to be answered.
    #[inline]
    fn publish(&mut self, session: u16, handle: u32, unsettled: Option<u32>, message: &MessageParts<'_>) -> Reply {
        let Self { peer, vhost, mapping, .. } = self;
        peer.is_publisher = true;
        let connection = peer.key;
        let Some(channel) = peer.channel_mut(session) else { return Reply::None };
        let Mode::Session(links) = &mut channel.mode else { return Reply::None };
        let Some(target) = links.targets.get(&handle) else {
            return self.ask(session, handle, unsettled, message);
        };
        let mapped = mapping.to_basic(message);
        let is_mapped = mapped.is_some();
        let (properties, body) = mapped.unwrap_or((Properties::NONE, &[][..]));
        let (exchange, routing_key, properties) = (&*target.exchange, &*target.routing_key, properties.as_bytes());
        let record = Record { exchange, routing_key, properties, body };
        if let Err(refusal) = vhost.route(exchange, routing_key, properties, &mut channel.route) {
            links.targets.remove(&handle);
            return Reply::Unattached(handle, refusal);
        }
        let queues = channel.route.queues();
        let outcome = if vhost.refuses_message(unsettled.is_some()) || !is_mapped {
            TransferOutcome::Rejected
        } else if queues.is_empty() {
            TransferOutcome::Released
        } else if vhost.enqueue(queues, &record) {
            TransferOutcome::Accepted
        } else {
            TransferOutcome::Rejected
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

    /// A link is gone: what its consumer has not settled goes back.
    fn detach(&mut self, session: u16, handle: u32) {
        let Some(channel) = self.peer.channel_mut(session) else { return };
        if let Mode::Session(links) = &mut channel.mode {
            links.targets.remove(&handle);
            for link in &mut links.management {
                link.take_if(|it| *it == handle);
            }
        }
        let Some(consumer) = channel.consumers.remove(handle.to_string().as_str()) else { return };
        self.return_all(session, consumer);
        if let Some(queue) = self.vhost.remove_consumer(consumer) {
            self.vhost.remove_queue(queue);
        }
    }

    fn return_all(&mut self, session: u16, consumer: Key) {
        let Some(channel) = self.peer.channel_mut(session) else { return };
        let mut first = 0;
        while let Some((tag, delivery)) = channel.deliveries.take_of(consumer, first) {
            self.vhost.return_delivery(&delivery);
            first = tag + 1;
        }
    }
}

/// Where an address leads: an exchange and a routing key; the default exchange for a queue.
fn target_of(address: Option<&str>, is_topic: bool) -> Result<Target, Refusal> {
    let wrong = || Refusal::not_implemented(format_args!("no address of a queue or exchange: {address:?}"));
    let address = address.filter(|it| !it.is_empty()).ok_or_else(wrong)?;
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
        let target = |address, is_topic| target_of(Some(address), is_topic).ok();
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
        assert!(target_of(None, false).is_err());
    }
}
