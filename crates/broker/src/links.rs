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
//! goes with it. One to the coordinator asks for transactions.

use measure::{Time, percent_decoded};
use wire::amqp10::{
    Amqp10Event, Amqp10Request, Composite, DeliveryState, MessageMapping, MessageParts, SCRAM_SHA_256, Terminus,
    TransactionalState, TypedField, TypedValue, simple_field,
};
use wire::amqp091::{BasicConsume, FieldTable, MethodId, QueueDeclare, reply};

use crate::channel::{Channel, LinkSession, LinkTarget, Mode, NOT_OPEN, SettlementKind, Target};
use crate::config::{self, User};
use crate::log::Record;
use crate::management;
use crate::outgoing::{LinkServer, TransferOutcome};
use crate::queue::Parked;
use crate::refusal::{Refusal, UNKNOWN_TRANSACTION};
use crate::requests::Outcome;
use crate::session::{Peer, Reply};
use crate::slots::Key;
use crate::vhost::{self, VirtualHost};

/// Why a filter of a stream is refused whose value is no simple one.
const NO_OFFSET: &str = "a stream is read from first, last, next or a number";
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
            Amqp10Event::Delivery { session, handle, id, settled, transaction, message } => {
                (session, self.publish(session, handle, (!settled).then_some(id), transaction, &message))
            }
            Amqp10Event::Settled { session, first, last, state } => (session, self.settle(session, first, last, state)),
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
                    Terminus::Coordinator => Ok(self.attach_coordinator(session, handle)),
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

    /// A client wants to declare transactions, and to discharge them.
    fn attach_coordinator(&mut self, session: u16, handle: u32) -> Reply {
        if let Some(Mode::Session(links)) = self.peer.channel_mut(session).map(|channel| &mut channel.mode) {
            links.coordinator.attach(handle);
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
        if let Some(offset) = offset.filter(|_| is_stream) {
            let known = simple_field(offset).ok_or_else(|| Refusal::precondition(NO_OFFSET))?;
            // Its name is short, and a simple value does not nest.
            let _ = arguments.insert("x-stream-offset", known);
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

    /// Routes a message, whose number is told where it is to be answered, or keeps it until its transaction commits.
    #[inline]
    fn publish(
        &mut self,
        session: u16,
        handle: u32,
        unsettled: Option<u32>,
        transaction: Option<&[u8]>,
        message: &MessageParts<'_>,
    ) -> Reply {
        let Self { peer, vhost, mapping, .. } = self;
        let was_publisher = std::mem::replace(&mut peer.is_publisher, true);
        let connection = peer.key;
        let Some(channel) = peer.channel_mut(session) else { return Reply::None };
        let Mode::Session(links) = &mut channel.mode else { return Reply::None };
        let Some(link) = links.targets.get_mut(&handle) else {
            // A consumer that commits is read also while memory is full.
            self.peer.is_publisher = was_publisher;
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
            Err(_) => TransferOutcome::Refused(reply::NOT_FOUND, ""),
            Ok(()) => {
                let (body, queues) = (message.lasting().0, channel.route.queues());
                let record = Record { exchange, routing_key, properties, body, has_sections: true };
                if let Some(id) = transaction {
                    let unroutable = queues.is_empty().then_some(TransferOutcome::Released);
                    let outcome = if is_mapped { unroutable } else { Some(TransferOutcome::Rejected) };
                    links.coordinator.enlist(id, unsettled, &record, outcome, &mut vhost.memory)
                } else if vhost.refuses_message(unsettled.is_some()) || !is_mapped {
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
        let Some(id) = unsettled else {
            let TransferOutcome::Refused(code, text) = outcome else { return Reply::None };
            links.targets.remove(&handle);
            return Reply::Unattached(handle, Refusal::of_transaction(code, text));
        };
        let faults = vhost.faults.as_mut().filter(|_| transaction.is_none());
        let due = faults.and_then(|faults| faults.confirm_due());
        links.push(id, outcome, due);
        if let (Some(faults), Some(due)) = (&mut vhost.faults, due) {
            faults.confirm_later(due, connection, session);
        }
        if !std::mem::replace(&mut links.is_due, true) {
            peer.due_confirm(session);
        }
        Reply::None
    }

    /// Does what a client asks of the management or the coordinator; nothing where the link is another one, gone on
    /// this side only.
    #[cold]
    fn ask(&mut self, session: u16, handle: u32, unsettled: Option<u32>, request: &MessageParts<'_>) -> Reply {
        let Some(channel) = self.peer.channel_mut(session) else { return Reply::None };
        let Mode::Session(links) = &mut channel.mode else { return Reply::None };
        if links.coordinator.has_link(handle) {
            let Some(id) = unsettled else {
                self.detach(session, handle);
                return Reply::Unattached(handle, Refusal::not_allowed("a coordinator answers all that it is asked"));
            };
            let outcome = links.coordinate(handle, request, &mut channel.route, self.vhost);
            links.push(id, outcome, None);
            links.is_due = true;
            self.peer.due_confirm(session);
            return Reply::None;
        }
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

    /// Settles deliveries by their numbers, or has them settled by the commit of their transaction. Those that are
    /// settled already are left alone.
    fn settle(&mut self, session: u16, first: u32, last: u32, state: Option<DeliveryState<'_>>) -> Reply {
        let (state, transaction) = match state {
            Some(DeliveryState::Other(value)) => match TransactionalState::of(value) {
                Ok(it) => (DeliveryState::of_value(Some(it.outcome)).ok(), Some(it.txn_id)),
                Err(_) => return Reply::None,
            },
            state => (state.or(Some(DeliveryState::Accepted)), None),
        };
        let kind = match state {
            Some(DeliveryState::Accepted) => SettlementKind::Accepted,
            Some(DeliveryState::Rejected(_)) => SettlementKind::Rejected,
            Some(DeliveryState::Modified(it)) if it.undeliverable_here == Some(true) => SettlementKind::Rejected,
            Some(DeliveryState::Modified(it)) if it.delivery_failed == Some(true) => SettlementKind::Failed,
            Some(DeliveryState::Released | DeliveryState::Modified(_)) => SettlementKind::Requeued,
            Some(DeliveryState::Received(_) | DeliveryState::Other(_)) | None => return Reply::None,
        };
        let Some(Channel { mode, deliveries, .. }) = self.peer.channel_mut(session) else { return Reply::None };
        let (mut first, last) = (deliveries.tag_of(first), deliveries.tag_of(last));
        let mut transaction = match (mode, transaction) {
            (Mode::Session(links), Some(id)) => {
                let Some(transaction) = links.coordinator.find(id) else {
                    let refusal = Refusal::of_transaction(UNKNOWN_TRANSACTION, NOT_OPEN);
                    return Reply::Refuse(refusal, MethodId::default());
                };
                Some(transaction)
            }
            _ => None,
        };
        let finish = kind.finish();
        while let Some((tag, delivery)) = deliveries.take_between(first, last) {
            match &mut transaction {
                Some(transaction) => transaction.settle(delivery, kind),
                None => finish(self.vhost, &delivery),
            }
            first = tag + 1;
        }
        Reply::None
    }

    /// A link is gone: what its consumer has not settled goes back, and a queue of its own goes.
    fn detach(&mut self, session: u16, handle: u32) {
        let Some(channel) = self.peer.channel_mut(session) else { return };
        let (mut temporary, mut has_ended) = (None, false);
        if let Mode::Session(links) = &mut channel.mode {
            has_ended = links.end_coordination(handle, self.vhost);
            links.is_due |= has_ended;
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
        if has_ended {
            self.peer.due_confirm(session);
        }
    }

    fn return_all(&mut self, session: u16, consumer: Key) {
        // Others may have many.
        let own = self.vhost.consumers.get_mut(consumer).map(|it| std::mem::take(&mut it.own)).unwrap_or_default();
        let Some(channel) = self.peer.channel_mut(session) else { return };
        for delivery in own.into_iter().filter_map(|tag| channel.deliveries.take(tag)) {
            self.vhost.return_delivery(&delivery);
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
