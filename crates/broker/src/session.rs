//! One client's connection: its channels, and what each of its events leads to.

use std::collections::HashMap;

use measure::Time;
use wire::amqp10::{SCRAM_SHA_256, ScramKeys, scram_name};
use wire::amqp091::{
    ConnectionUpdateSecret, ConnectionUpdateSecretOk, EncodeMethod, Error, Method, MethodId, Server, ServerEvent,
    Table, Value,
};

use crate::channel::{Channel, Mode, Settlement, SettlementKind};
use crate::config::User;
use crate::log::{Log, Record};
use crate::outgoing::{self, Protocol};
use crate::queue::Parked;
use crate::refusal::Refusal;
use crate::slots::Key;
use crate::vhost::{self, VirtualHost};

/// How long a connection that ended may take to read our last words, in quarters of a second.
const LINGER_TICKS: u8 = 20;
/// Of these, those in which a client that has closed its connection is to end it by itself.
const CLIENT_TICKS: u8 = 4;

/// A connection: the protocol's side and the broker's.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) server: Protocol,
    pub(crate) peer: Peer,
}

/// State of a client.
#[derive(Debug, Default)]
pub(crate) struct Peer {
    pub(crate) key: Key,
    /// By number; channel 0 is the connection itself and stays empty, but for AMQP 1.0, which has sessions.
    channels: Vec<Option<Box<Channel>>>,
    /// Whether it understands `basic.cancel` from us.
    pub(crate) hears_cancel: bool,
    /// Whether it understands `connection.blocked`.
    pub(crate) hears_blocked: bool,
    /// Whether it understands a refused login; others only see the connection end, as the specification wants it.
    pub(crate) hears_refusal: bool,
    /// Whether it ever published.
    pub(crate) is_publisher: bool,
    /// Whether it is not read because memory is full.
    pub(crate) is_paused: bool,
    /// Whether it is not read because it does not read what it is sent.
    pub(crate) is_clogged: bool,
    /// Whether the transport ends when the output is written.
    pub(crate) is_finished: bool,
    /// The client has closed the connection, in words.
    pub(crate) is_closed: bool,
    /// How long it may take to write the rest and see the client's end, in seconds.
    pub(crate) ticks_left: u8,
    /// Where a fault cuts the connection: bytes that still go out, and the fault's position.
    pub(crate) cut: Option<(usize, usize)>,
    /// Whether it is in the list of sessions with output.
    pub(crate) is_touched: bool,
    /// Consumers parked until output drains.
    pub(crate) parked_for_output: Vec<Key>,
    /// Channels with publishes to answer.
    unconfirmed: Vec<u16>,
    /// Mandatory messages that no queue took and that are not sent back yet.
    pub(crate) returns: HashMap<u16, Log>,
    /// Its exclusive queues.
    pub(crate) owned: Vec<Key>,
    /// Who it logged in as.
    user: Box<str>,
    /// Whom its certificate names.
    pub(crate) certified: Option<Box<str>>,
}

/// Answers to an event, sent once it no longer borrows the connection.
#[derive(Debug)]
pub(crate) enum Reply {
    /// Nothing is left to do.
    None,
    /// Send this.
    Method(Method<'static>),
    /// `queue.declare-ok` for this queue.
    Declared(Key),
    /// `basic.consume-ok` for this consumer, which may start now.
    Consuming(Key, NoWait),
    /// Send `basic.cancel-ok` for this consumer.
    Cancelled(Box<str>),
    /// A message of this queue, or `basic.get-empty`.
    Get { queue: Key, no_ack: bool },
    /// Send back what is in [`Peer::returns`], then this.
    Return(Option<Method<'static>>),
    /// Close the channel or the connection; caused by this method.
    Refuse(Refusal, MethodId),
    /// The login is fine.
    Login,
    /// The virtual host is fine.
    Open,
    /// Refuse the login or the virtual host.
    Reject(Refusal),
    /// A link of AMQP 1.0 may be used; of a stream, from the place that was asked for.
    Attached { handle: u32, is_stream: bool },
    /// A link of AMQP 1.0 leads to this address, which was made for it.
    AttachedTo(u32, String),
    /// A login by SCRAM goes on for a user with these keys.
    Challenge(ScramKeys),
    /// A message of AMQP 1.0 goes over a link, settled.
    Managed(u32, Vec<u8>),
    /// A link of AMQP 1.0 leads nowhere, since it was asked for or from now on.
    Unattached(u32, Refusal),
}

/// Whether the client wants no answer.
pub(crate) type NoWait = bool;

impl Peer {
    /// Whether the client has closed the connection and is to end it: where we did so first, what it reads of that may
    /// come before it has looked at the answer.
    pub(crate) const fn is_to_end(&self) -> bool {
        self.is_closed && self.ticks_left > LINGER_TICKS - CLIENT_TICKS
    }

    pub(crate) fn new(key: Key) -> Self {
        Self { key, ticks_left: LINGER_TICKS, ..Self::default() }
    }

    #[inline]
    pub(crate) fn channel_mut(&mut self, number: u16) -> Option<&mut Channel> {
        self.channels.get_mut(usize::from(number))?.as_deref_mut()
    }

    /// Deals with one event.
    #[inline]
    pub(crate) fn handle(&mut self, event: ServerEvent<'_>, vhost: &mut VirtualHost, users: &[User]) -> (u16, Reply) {
        match event {
            ServerEvent::Publish { channel, exchange, routing_key, mandatory, immediate, properties, body } => {
                let properties = properties.as_bytes();
                let record = Record { exchange, routing_key, properties, body, has_sections: false };
                (channel, self.publish(channel, &record, mandatory, immediate, vhost))
            }
            ServerEvent::Ack { channel, delivery_tag: tag, multiple } => {
                let settlement = Settlement { tag, multiple, kind: SettlementKind::Accepted };
                (channel, self.settle(channel, settlement, vhost))
            }
            ServerEvent::Nack { channel, delivery_tag: tag, multiple, requeue } => {
                let settlement = Settlement {
                    tag,
                    multiple,
                    kind: if requeue { SettlementKind::Requeued } else { SettlementKind::Rejected },
                };
                (channel, self.settle(channel, settlement, vhost))
            }
            ServerEvent::Method { method: Method::ConnectionUpdateSecret(update), .. } => {
                (0, self.renew_secret(update.new_secret.0, users))
            }
            ServerEvent::Method { channel, method } => (channel, self.request(channel, &method, vhost)),
            other => self.handle_life(&other, vhost, users),
        }
    }

    /// A password that is not the user's any more would not be one for the next connection.
    fn renew_secret(&self, secret: &[u8], users: &[User]) -> Reply {
        let text = str::from_utf8(secret).unwrap_or_default();
        if users.iter().any(|user| user.matches(&self.user, text)) {
            Reply::Method(ConnectionUpdateSecretOk {}.into())
        } else {
            let refusal = Refusal::not_allowed("the new secret is not this user's");
            Reply::Refuse(refusal, ConnectionUpdateSecret::default().info().id)
        }
    }

    /// Deals with the beginning and the end of connections and channels.
    fn handle_life(&mut self, event: &ServerEvent<'_>, vhost: &mut VirtualHost, users: &[User]) -> (u16, Reply) {
        match event {
            ServerEvent::Login { mechanism, user, password, client_properties } => {
                self.read_capabilities(*client_properties);
                (0, self.log_in(mechanism, user, password.expose(), vhost, users))
            }
            ServerEvent::Open { virtual_host } if *virtual_host == vhost::NAME => (0, Reply::Open),
            ServerEvent::Open { virtual_host } => (0, Reply::Reject(Refusal::no_virtual_host(virtual_host))),
            ServerEvent::ChannelOpened { channel } => {
                self.open_channel(*channel, Channel::default());
                (*channel, Reply::None)
            }
            ServerEvent::ChannelClosed { channel, .. } => {
                self.close_channel(*channel, vhost);
                (*channel, Reply::None)
            }
            ServerEvent::Closed { .. } => {
                self.is_finished = true;
                self.is_closed = true;
                (0, Reply::None)
            }
            ServerEvent::CloseOk => {
                self.is_finished = true;
                (0, Reply::None)
            }
            _ => (0, Reply::None),
        }
    }

    /// Lets a client in whom one of the users is.
    pub(crate) fn log_in(
        &mut self,
        mechanism: &str,
        user: &str,
        password: &str,
        vhost: &mut VirtualHost,
        users: &[User],
    ) -> Reply {
        let known = match (mechanism, self.certified.as_deref()) {
            ("PLAIN", _) => users.iter().find(|known| known.matches(user, password)),
            ("EXTERNAL", Some(name)) => users.iter().find(|known| known.name() == name),
            ("ANONYMOUS", _) => users.iter().find(|known| known.is_guest()),
            _ => None,
        };
        self.user = known.map_or(user, User::name).into();
        if known.is_some() { Self::let_in(mechanism, vhost) } else { Reply::Reject(login_refused(mechanism)) }
    }

    /// Goes on with a login by SCRAM, of the user of this name, as SCRAM writes it. Names of nobody are challenged, too:
    /// clients are not to learn whom there is.
    pub(crate) fn begin_scram(user: &str, users: &[User]) -> Reply {
        let known = users.iter().find(|known| scram_name(known.name()) == user);
        let keys = known.map_or_else(|| ScramKeys::of_nobody(user), User::scram_keys);
        keys.map_or_else(|| Reply::Reject(login_refused(SCRAM_SHA_256)), Reply::Challenge)
    }

    /// Lets a client in that has proved who it is, unless a fault refuses it.
    pub(crate) fn let_in(mechanism: &str, vhost: &mut VirtualHost) -> Reply {
        let is_refused = vhost.faults.as_mut().is_some_and(|faults| faults.refuses_login());
        if is_refused { Reply::Reject(login_refused(mechanism)) } else { Reply::Login }
    }

    /// Begins a channel, or a session of AMQP 1.0.
    pub(crate) fn open_channel(&mut self, number: u16, channel: Channel) {
        let at = usize::from(number);
        if self.channels.len() <= at {
            self.channels.resize_with(at + 1, || None);
        }
        if let Some(slot) = self.channels.get_mut(at) {
            *slot = Some(Box::new(channel));
        }
    }

    fn read_capabilities(&mut self, client_properties: Table<'_>) {
        let Some(Value::Table(capabilities)) = client_properties.get("capabilities") else { return };
        let has = |name| capabilities.get(name).and_then(Value::as_bool) == Some(true);
        self.hears_cancel = has("consumer_cancel_notify");
        self.hears_blocked = has("connection.blocked");
        self.hears_refusal = has("authentication_failure_close");
    }

    /// Notes that a channel has publishes to answer.
    #[inline]
    pub(crate) fn due_confirm(&mut self, channel: u16) {
        self.unconfirmed.push(channel);
    }

    /// Answers everything published since the last time that need not wait.
    pub(crate) fn flush_confirms(&mut self, server: &mut Protocol, now: Time) {
        while let Some(number) = self.unconfirmed.pop() {
            let Some(channel) = self.channel_mut(number) else { continue };
            match (&mut channel.mode, &mut *server) {
                (Mode::Confirm(confirms), Protocol::Amqp091(server)) => {
                    confirms.answer(now, |answer| outgoing::confirm(server, number, answer));
                }
                (Mode::Session(session), Protocol::Amqp10(link)) => {
                    session.answer(now, |first, last, outcome| link.answer(number, first, last, outcome));
                }
                _ => {}
            }
        }
    }

    /// Answers everything published, also what should wait: the last chance to.
    pub(crate) fn answer_all(&mut self, server: &mut Protocol) {
        self.unconfirmed = (0..self.channels.len()).map(|n| n as u16).collect();
        self.flush_confirms(server, Time(u64::MAX));
    }

    /// The channels that are open.
    pub(crate) fn open_channels(&self) -> Vec<u16> {
        let open = |(number, channel): (usize, &Option<Box<Channel>>)| channel.as_ref().map(|_| number as u16);
        self.channels.iter().enumerate().filter_map(open).collect()
    }

    /// Whether it consumes from any queue.
    pub(crate) fn is_consumer(&self) -> bool {
        let consumes = |channel: &Channel| !channel.consumers.is_empty();
        self.channels.iter().flatten().any(|channel| consumes(channel))
    }

    /// Sends back the mandatory messages that no queue took.
    pub(crate) fn flush_returns(
        &mut self,
        server: &mut Server,
        number: u16,
        vhost: &mut VirtualHost,
    ) -> Result<(), Error> {
        let Some(mut log) = self.returns.remove(&number) else { return Ok(()) };
        let mut cursor = log.first();
        let mut sent = Ok(());
        while let Some((_, _, record)) = log.next(&mut cursor)
            && sent.is_ok()
        {
            sent = outgoing::give_back(server, number, &record);
        }
        log.clear(&mut vhost.memory);
        sent
    }

    /// Ends a channel: its consumers go, and what they had not settled goes back.
    pub(crate) fn close_channel(&mut self, number: u16, vhost: &mut VirtualHost) {
        let slot = self.channels.get_mut(usize::from(number)).and_then(Option::take);
        let Some(mut channel) = slot else { return };
        if let Some(mut returns) = self.returns.remove(&number) {
            returns.clear(&mut vhost.memory);
        }
        if let Mode::Transaction(transaction) = &mut channel.mode {
            transaction.messages.clear(&mut vhost.memory);
        }
        let mut idle = Vec::new();
        if let Mode::Session(links) = &mut channel.mode {
            links.end_transactions(vhost);
            idle.extend(links.temporary.drain().map(|(_, queue)| queue));
        }
        for (_, consumer) in channel.consumers.drain() {
            idle.extend(vhost.remove_consumer(consumer));
        }
        while let Some(delivery) = channel.deliveries.take_up_to(u64::MAX) {
            vhost.return_failed(&delivery);
        }
        for queue in idle {
            vhost.remove_queue(queue);
        }
    }

    /// Ends everything this client had.
    pub(crate) fn close_all(&mut self, vhost: &mut VirtualHost) {
        for number in 0..self.channels.len() {
            self.close_channel(number as u16, vhost);
        }
        for queue in self.owned.drain(..) {
            vhost.remove_queue(queue);
        }
    }

    /// Puts the consumers back in turn that waited for output to drain.
    pub(crate) fn wake_parked_for_output(&mut self, vhost: &mut VirtualHost) {
        for consumer in self.parked_for_output.drain(..) {
            vhost.wake(consumer, Parked::ForOutput);
        }
    }
}

fn login_refused(mechanism: &str) -> Refusal {
    Refusal::access(format_args!(
        "Login was refused using authentication mechanism {mechanism}. For details see the broker logfile."
    ))
}
