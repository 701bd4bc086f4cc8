//! The broker without sockets: connections go in and out as keys, bytes as slices, time as a number; the event loop in
//! [`crate::reactor`] moves the bytes. The order of calls: [`Node::input`] for every connection that has bytes, then
//! one [`Node::turn`], then for each of [`Node::next_touched`] write [`Node::output`] and report it with
//! [`Node::written`]. [`Node::tick`] about four times a second.

use measure::Time;
use wire::amqp091::{
    BasicCancel, BasicCancelOk, BasicConsumeOk, ConnectionBlocked, ConnectionUnblocked, Error, FieldTable, MethodId,
    QueueDeclareOk, Server, ServerConfig, reply,
};

use crate::config::{Config, User};
use crate::delivery::{Exits, touch};
use crate::faults::{FaultLog, Faults};
use crate::links;
use crate::memory::Memory;
use crate::outgoing::Protocol;
use crate::refusal::Refusal;
use crate::session::{Peer, Reply, Session};
use crate::slots::{Key, Slots};
use crate::vhost::VirtualHost;

/// Bytes that may wait to be written to all connections together, shared evenly once they are many.
const UNSENT_TOTAL_BYTES: usize = 64 << 20;
/// Least share of a connection.
const UNSENT_LEAST_BYTES: usize = 64 << 10;

/// Why a link of AMQP 1.0 ends.
const QUEUE_DELETED: &str = "the queue was deleted";
/// RabbitMQ's words for publishers when memory is full.
const LOW_ON_MEMORY: &str = "low on memory";

/// All of a broker but its sockets.
#[derive(Debug)]
pub(crate) struct Node {
    config: Config,
    server: ServerConfig,
    pub(crate) sessions: Slots<Session>,
    pub(crate) vhost: VirtualHost,
    /// Sessions with output to write, each once.
    pub(crate) touched: Vec<Key>,
    /// Sessions that are read again after a pause.
    resumed: Vec<Key>,
    /// Sessions whose transport a fault resets.
    pub(crate) resets: Vec<Key>,
    is_blocked: bool,
    /// Whether a session is paused; it may be before [`Node::turn`] finds memory full, and memory
    /// may be free again by then.
    has_paused: bool,
}

/// How the event loop goes on with a connection after its input was handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Reads on.
    Read,
    /// Keeps what is left of the input, and reads on when the connection is among [`Node::take_resumed`].
    Pause,
    /// Writes what is left of the output, then closes.
    Finish,
}

impl Node {
    pub(crate) fn new(config: Config, log: FaultLog) -> Self {
        let server = ServerConfig {
            properties: properties(),
            heartbeat_s: config.heartbeat_s,
            channel_max: config.channel_max,
            max_body: config.max_message_bytes,
            timeout: config.handshake_timeout,
            ..ServerConfig::default()
        };
        let memory = Memory::new(config.memory_limit_bytes, config.resume_bytes());
        let mut vhost = VirtualHost::new(memory);
        vhost.faults = Faults::new(&config.faults, config.fault_origin, log);
        Self {
            config,
            server,
            sessions: Slots::default(),
            vhost,
            touched: Vec::new(),
            resumed: Vec::new(),
            resets: Vec::new(),
            is_blocked: false,
            has_paused: false,
        }
    }

    /// A new connection; `by_certificate` where its client may log in by one.
    pub(crate) fn connect(&mut self, now: Time, by_certificate: bool) -> Key {
        if let Some(faults) = &mut self.vhost.faults {
            faults.note_connection(now);
        }
        let mut config = self.server.clone();
        if by_certificate {
            config.mechanisms.push_str(" EXTERNAL");
        }
        // As RabbitMQ 4 does.
        if self.config.users.iter().any(User::is_guest) {
            config.mechanisms.push_str(" ANONYMOUS");
        }
        let server = Protocol::Amqp091(Server::new(config, now));
        self.sessions.insert_with(|key| Session { server, peer: Peer::new(key) })
    }

    /// A connection's transport proves who the client is.
    pub(crate) fn identify(&mut self, key: Key, name: &str) {
        if let Some(session) = self.sessions.get_mut(key) {
            session.peer.certified = Some(name.into());
        }
    }

    /// Nothing that a connection sends is of use any more: it ends when its output is written.
    pub(crate) fn abandon(&mut self, key: Key) {
        if let Some(session) = self.sessions.get_mut(key) {
            session.peer.is_finished = true;
            session.peer.close_all(&mut self.vhost);
        }
    }

    /// Whether a connection that ends has been closed as the protocol has it.
    pub(crate) fn ends_orderly(&self, key: Key) -> bool {
        self.sessions.get(key).is_some_and(|s| !s.server.is_open() && s.peer.cut.is_none())
    }

    /// Whether the client is to end the connection, as it has closed it.
    pub(crate) fn is_to_end(&self, key: Key) -> bool {
        self.sessions.get(key).is_some_and(|s| s.peer.is_to_end())
    }

    /// A connection's transport is gone.
    pub(crate) fn disconnect(&mut self, key: Key) {
        if let Some(mut session) = self.sessions.remove(key) {
            session.peer.close_all(&mut self.vhost);
        }
    }

    /// Deals with bytes from a connection; what is left in `input` comes again with the next.
    pub(crate) fn input(&mut self, key: Key, now: Time, input: &mut &[u8]) -> Verdict {
        let unsent_limit = self.unsent_limit();
        self.vhost.now = now;
        let Self { sessions, vhost, config, is_blocked, has_paused, touched, .. } = self;
        let Some(session) = sessions.get_mut(key) else { return Verdict::Finish };
        let is_chosen = session.server.choose(input, now);
        while is_chosen && !session.peer.is_finished {
            if session.peer.is_publisher && (*is_blocked || vhost.memory.is_over()) {
                session.pause(vhost.faults.as_deref_mut());
                *has_paused = true;
                break;
            }
            // Answers are not bounded by prefetch: who does not read them may not ask for more.
            // Twice the limit of deliveries, so that a slow consumer can still acknowledge.
            if session.server.pending_output().len() > 2 * unsent_limit {
                session.peer.is_clogged = true;
                break;
            }
            let Session { server, peer } = session;
            let all = *input;
            let mut rest = all;
            let users = &config.users;
            let handled = match server {
                Protocol::Amqp091(server) => match server.poll(now, &mut rest) {
                    Ok(event) => Ok(event.map(|event| peer.handle(event, vhost, users))),
                    Err(_) => Err(()),
                },
                Protocol::Amqp10(link) => links::poll(link, peer, vhost, users, now, &mut rest),
            };
            // After an error the output says why; nothing can be read any more.
            peer.is_finished |= handled.is_err();
            let handled = handled.unwrap_or_default();
            *input = all.get(all.len() - rest.len()..).unwrap_or_default();
            let Some((channel, reply)) = handled else { break };
            if !matches!(reply, Reply::None) && session.answer(channel, reply, now, vhost).is_err() {
                session.peer.is_finished = true;
            }
        }
        session.peer.flush_confirms(&mut session.server, now);
        if session.peer.is_finished {
            session.peer.close_all(vhost);
        }
        if !session.server.pending_output().is_empty() {
            touch(&mut session.peer, touched);
        }
        session.verdict()
    }

    /// Bytes that may wait for one connection before it gets no more deliveries.
    pub(crate) fn unsent_limit(&self) -> usize {
        let share = UNSENT_TOTAL_BYTES / self.sessions.len().max(1);
        self.config.unsent_limit_bytes.min(share.max(UNSENT_LEAST_BYTES))
    }

    /// Delivers what the input since the last turn made deliverable, tells consumers of deleted
    /// queues, and blocks or unblocks publishers.
    pub(crate) fn turn(&mut self) {
        let unsent_limit_bytes = self.unsent_limit();
        loop {
            self.vhost.forward_dead_letters();
            let Some(queue) = self.vhost.dirty.pop() else { break };
            let mut exits = Exits { sessions: &mut self.sessions, touched: &mut self.touched, unsent_limit_bytes };
            self.vhost.dispatch(queue, &mut exits);
            self.vhost.expire_queue(queue);
        }
        self.end_drains();
        if self.vhost.faults.is_some() {
            self.release_held();
        }
        self.notify_orphans();
        let mut blocked = self.vhost.memory.is_blocked();
        if let Some(faults) = &mut self.vhost.faults {
            blocked |= faults.is_blocking();
            faults.tell();
        }
        if blocked != self.is_blocked || !blocked && self.has_paused {
            self.is_blocked = blocked;
            self.has_paused = blocked;
            self.tell_publishers();
        }
    }

    /// Tells clients that wait for it that nothing is left to send.
    fn end_drains(&mut self) {
        while let Some((key, session, handle)) = self.vhost.drains.pop() {
            if let Some(Session { server: Protocol::Amqp10(link), peer }) = self.sessions.get_mut(key) {
                link.server.end_drain(session, handle);
                touch(peer, &mut self.touched);
            }
        }
    }

    fn notify_orphans(&mut self) {
        while let Some((key, consumer)) = self.vhost.orphans.pop() {
            let Some(Session { server, peer }) = self.sessions.get_mut(consumer.connection) else { continue };
            let Some(channel) = peer.channel_mut(consumer.channel) else { continue };
            if channel.consumers.get(&consumer.tag) != Some(&key) {
                continue;
            }
            channel.consumers.remove(&consumer.tag);
            match server {
                Protocol::Amqp091(server) if peer.hears_cancel => {
                    let cancel = BasicCancel { consumer_tag: &consumer.tag, no_wait: true };
                    peer.is_finished |= server.send(consumer.channel, &cancel).is_err();
                }
                Protocol::Amqp091(_) => continue,
                Protocol::Amqp10(link) => {
                    link.server.detach(consumer.channel, consumer.handle, "amqp:resource-deleted", QUEUE_DELETED);
                }
            }
            touch(peer, &mut self.touched);
        }
    }

    /// Pauses publishers, or reads them again.
    fn tell_publishers(&mut self) {
        for (key, session) in self.sessions.iter_mut() {
            if self.is_blocked && session.peer.is_publisher {
                session.pause(self.vhost.faults.as_deref_mut());
            } else if !self.is_blocked && session.peer.is_paused {
                session.resume();
                self.resumed.push(key);
            } else {
                continue;
            }
            touch(&mut session.peer, &mut self.touched);
        }
    }

    /// The next connection with output to write.
    pub(crate) fn next_touched(&mut self) -> Option<Key> {
        let key = self.touched.pop()?;
        if let Some(session) = self.sessions.get_mut(key) {
            session.peer.is_touched = false;
        }
        Some(key)
    }

    /// The next connection that is read again after a pause.
    pub(crate) fn next_resumed(&mut self) -> Option<Key> {
        self.resumed.pop()
    }

    /// Bytes to be written to a connection.
    pub(crate) fn output(&self, key: Key) -> &[u8] {
        self.sessions.get(key).map_or(&[], Session::output)
    }

    /// This many bytes of the output are written.
    pub(crate) fn written(&mut self, key: Key, bytes: usize) {
        let low = self.unsent_limit() / 2;
        let Some(Session { server, peer }) = self.sessions.get_mut(key) else { return };
        server.consume_output(bytes);
        if let Some((left, rule)) = &mut peer.cut {
            *left = left.saturating_sub(bytes);
            if *left == 0 && !std::mem::replace(&mut peer.is_finished, true) {
                let rule = *rule;
                peer.close_all(&mut self.vhost);
                if let Some(faults) = &mut self.vhost.faults {
                    faults.count(rule, 1);
                }
                return;
            }
        }
        if server.pending_output().len() > low {
            return;
        }
        peer.wake_parked_for_output(&mut self.vhost);
        if std::mem::take(&mut peer.is_clogged) {
            self.resumed.push(key);
        }
    }

    /// How to go on with a connection now.
    pub(crate) fn verdict(&self, key: Key) -> Verdict {
        self.sessions.get(key).map_or(Verdict::Finish, Session::verdict)
    }

    /// Whether a turn would do something even without new input.
    pub(crate) fn has_work(&self) -> bool {
        let VirtualHost { dirty, orphans, burials, .. } = &self.vhost;
        !(dirty.is_empty() && orphans.is_empty() && burials.is_empty() && self.resumed.is_empty())
    }

    /// When a message may expire next.
    pub(crate) fn next_expiry(&self) -> Option<Time> {
        self.vhost.next_expiry()
    }

    /// Gives up messages that are too old; the next turn sends them on.
    pub(crate) fn expire(&mut self, now: Time) {
        self.vhost.expire(now);
    }

    /// Heartbeats and time-outs. Calls `gone` with each connection to drop at once.
    pub(crate) fn tick(&mut self, now: Time, mut gone: impl FnMut(Key)) {
        self.expire(now);
        for (key, Session { server, peer }) in self.sessions.iter_mut() {
            if peer.is_paused || peer.is_clogged {
                // Nothing is read from it, so nothing can be heard: it is not the client's fault.
                server.excuse_silence(now);
            }
            if peer.is_finished {
                let was_to_end = peer.is_to_end();
                peer.ticks_left = peer.ticks_left.saturating_sub(1);
                if was_to_end && !peer.is_to_end() {
                    touch(peer, &mut self.touched);
                }
            }
            if server.has_timed_out(now) || peer.ticks_left == 0 {
                gone(key);
            } else if !server.pending_output().is_empty() {
                touch(peer, &mut self.touched);
            }
        }
    }

    /// Deletes all queues; returns the bytes that messages take afterwards.
    #[cfg(test)]
    pub(crate) fn clear(&mut self) -> u64 {
        let all: Vec<Key> = self.vhost.queue_names.values().copied().collect();
        for queue in all {
            self.vhost.remove_queue(queue);
        }
        self.vhost.memory.used()
    }

    /// Says goodbye to everybody.
    pub(crate) fn shut_down(&mut self, now: Time) {
        for (_, Session { server, peer }) in self.sessions.iter_mut() {
            if server.is_open() {
                let text = "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'";
                server.close(now, reply::CONNECTION_FORCED, text, MethodId::default());
                touch(peer, &mut self.touched);
            }
        }
    }
}

impl Session {
    /// Bytes to be written; where the connection is cut, no more than up to there.
    fn output(&self) -> &[u8] {
        let pending = self.server.pending_output();
        self.peer.cut.map_or(pending, |(left, _)| pending.get(..left).unwrap_or(pending))
    }

    fn verdict(&self) -> Verdict {
        if self.peer.is_finished {
            Verdict::Finish
        } else if self.peer.is_paused || self.peer.is_clogged {
            Verdict::Pause
        } else {
            Verdict::Read
        }
    }

    /// Stops reading a publisher, and tells it once; faults that block count it.
    fn pause(&mut self, faults: Option<&mut Faults>) {
        let first = !std::mem::replace(&mut self.peer.is_paused, true);
        if let Some(faults) = faults.filter(|_| first) {
            faults.note_blocked();
        }
        if first
            && self.peer.hears_blocked
            && let Protocol::Amqp091(server) = &mut self.server
            && server.is_open()
        {
            let blocked = ConnectionBlocked { reason: LOW_ON_MEMORY };
            self.peer.is_finished |= server.send(0, &blocked).is_err();
        }
    }

    fn resume(&mut self) {
        self.peer.is_paused = false;
        if self.peer.hears_blocked
            && let Protocol::Amqp091(server) = &mut self.server
            && server.is_open()
        {
            self.peer.is_finished |= server.send(0, &ConnectionUnblocked {}).is_err();
        }
    }

    /// Sends what an event led to.
    fn answer(&mut self, channel: u16, reply: Reply, now: Time, vhost: &mut VirtualHost) -> Result<(), Error> {
        if let Reply::Refuse(refusal, cause) = &reply {
            self.refuse(channel, refusal, *cause, now, vhost);
            return Ok(());
        }
        let server = match &mut self.server {
            Protocol::Amqp091(server) => server,
            Protocol::Amqp10(link) => {
                links::answer(link, &mut self.peer, channel, &reply, now);
                return Ok(());
            }
        };
        match reply {
            Reply::None
            | Reply::Refuse(..)
            | Reply::Attached { .. }
            | Reply::AttachedTo(..)
            | Reply::Challenge(_)
            | Reply::Managed(..)
            | Reply::Unattached(..) => {}
            Reply::Method(method) => server.send(channel, &method)?,
            Reply::Declared(key) => {
                if let Some(queue) = vhost.queues.get(key) {
                    let message_count = u32::try_from(queue.ready()).unwrap_or(u32::MAX);
                    let consumer_count = u32::try_from(queue.consumers.len()).unwrap_or(u32::MAX);
                    server.send(channel, &QueueDeclareOk { queue: &queue.name, message_count, consumer_count })?;
                }
            }
            Reply::Consuming(key, no_wait) => {
                if let Some(consumer) = vhost.consumers.get(key) {
                    let queue = consumer.queue;
                    if !no_wait {
                        server.send(channel, &BasicConsumeOk { consumer_tag: &consumer.tag })?;
                    }
                    vhost.mark_dirty(queue);
                }
            }
            Reply::Cancelled(tag) => server.send(channel, &BasicCancelOk { consumer_tag: &tag })?,
            Reply::Get { queue, no_ack } => vhost.get(queue, no_ack, channel, self)?,
            Reply::Return(then) => {
                self.peer.flush_returns(server, channel, vhost)?;
                if let Some(method) = then {
                    server.send(channel, &method)?;
                }
            }
            Reply::Login => server.accept_login(),
            Reply::Open => server.accept_open(),
            // A login or a virtual host.
            Reply::Reject(refusal) if refusal.closes_connection || self.peer.hears_refusal => {
                server.refuse(now, refusal.code, &refusal.text);
            }
            Reply::Reject(_) => self.peer.is_finished = true,
        }
        Ok(())
    }

    fn refuse(&mut self, channel: u16, refusal: &Refusal, cause: MethodId, now: Time, vhost: &mut VirtualHost) {
        let Refusal { code, text, closes_connection } = refusal;
        // What was published before is answered before.
        self.peer.answer_all(&mut self.server);
        if *closes_connection {
            self.server.close(now, *code, text, cause);
            self.peer.close_all(vhost);
        } else {
            self.server.close_channel(channel, *code, text, cause);
            self.peer.close_channel(channel, vhost);
        }
    }
}

/// Capabilities by RabbitMQ's names.
const CAPABILITIES: [&str; 8] = [
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "consumer_priorities",
    "authentication_failure_close",
    "per_consumer_qos",
];

/// Server properties of `connection.start`.
fn properties() -> FieldTable {
    // Short ASCII names and values cannot be refused.
    let mut capabilities = FieldTable::new();
    for name in CAPABILITIES {
        let _ = capabilities.insert(name, true);
    }
    let mut properties = FieldTable::new();
    let _ = properties.insert("capabilities", &capabilities);
    for (name, value) in [("product", "bellows broker"), ("version", env!("CARGO_PKG_VERSION")), ("platform", "Rust")] {
        let _ = properties.insert(name, value);
    }
    properties
}
