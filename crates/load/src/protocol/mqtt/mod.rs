//! MQTT 3.1.1 and 5: all that the load knows of it.
//!
//! A connection is one client, a publisher or a subscriber. Messages are answered by their packet identifiers, which
//! follow from their numbers. A fence is a ping that is sent once all that came is settled: brokers stop at a limit of
//! unsettled deliveries, which 3.1.1 does not tell.

mod admin;
mod client;
mod failure;
mod packet;
mod validate;

use measure::{Nanos, Time};
use plan::MqttVersion;
use wire::amqp10::scram_nonce;

use self::admin::MqttAdmin;
pub(crate) use self::client::MqttSpec;
use self::client::{Publisher, Subscriber};
use self::packet::{AnswerKind, Connect, LARGEST, Packet, ServerLimits, put_disconnect, put_ping, put_subscribe};
use super::{Connection, ConnectionSpec, Event, Outgoing, Progress, Receiver, Sender, WireSizes};
use crate::failure::Stage;
use crate::{Auth, Destination, Endpoint, Environment, Error, Group, Protocol};
use plan::payload::FULL_LEN;

/// Seconds for which a broker keeps the session of a lost connection, where it is to outlast that.
const SESSION_S: u32 = 86_400;
/// The topic whose retained message names mosquitto's version, and that of others which took it over.
const VERSION_TOPIC: &str = "$SYS/broker/version";
/// The identifier of the only subscription.
const SUBSCRIPTION: u16 = 1;
/// Characters of a random client identifier that brokers must take: 23, `bellows` among them.
const RANDOM_LEN: usize = 16;

/// An answer that a step waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Connected { session_present: bool },
    Subscribed,
    Fence,
    Closed,
}

/// A fence on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fence {
    None,
    /// Its ping waits until all that came is settled.
    Waiting,
    /// The answer to the ping with this number passes it.
    Sent(u64),
}

/// Who a connection is.
enum Role {
    Publisher(Box<Publisher>),
    Subscriber(Box<Subscriber>),
    /// It comes and goes, or asks; the text is the broker's answer.
    Other(String),
}

/// When the connection was last heard, and written to.
#[derive(Debug, Default)]
struct Liveness {
    /// Half the keep-alive; zero for none.
    interval: Nanos,
    /// When to look next; `None` until the login is accepted.
    due: Option<Time>,
    has_written: bool,
    has_heard: bool,
    is_asked: bool,
}

/// A connection with one client, or none.
pub(crate) struct MqttConnection {
    spec: ConnectionSpec<MqttSpec>,
    version: MqttVersion,
    client_id: String,
    role: Role,
    stage: Stage,
    out: Vec<u8>,
    written: usize,
    answer: Option<Answer>,
    is_running: bool,
    /// The login is accepted, and the subscription answered that was asked for.
    is_accepted: bool,
    fence: Fence,
    pings: u64,
    pongs: u64,
    /// The answer to the ping with this number ends the way out.
    last_ping: Option<u64>,
    liveness: Liveness,
}

impl MqttConnection {
    fn connect(&mut self) {
        let endpoint = &self.spec.endpoint;
        let password = endpoint.password();
        let login = match endpoint.auth {
            Auth::Plain | Auth::ScramSha256 => Some((endpoint.user.as_str(), password.as_str())),
            Auth::External | Auth::Anonymous => None,
        };
        let (has_session, receive_max) = match &self.role {
            Role::Subscriber(it) => (it.spec.session.is_some(), it.spec.receive_max),
            Role::Publisher(_) | Role::Other(_) => (false, 0),
        };
        let connect = Connect {
            version: self.version,
            client_id: &self.client_id,
            login,
            keep_alive_s: endpoint.connection.heartbeat_s,
            session_s: has_session.then_some(SESSION_S),
            receive_max,
        };
        connect.write(&mut self.out);
    }

    fn ping(&mut self) -> u64 {
        put_ping(&mut self.out);
        self.pings += 1;
        self.pings
    }

    /// Sends the ping that a fence waits for, once nothing unsettled can hold anything back.
    #[inline]
    fn fence_if_settled(&mut self) {
        if self.fence == Fence::Waiting && self.is_settled() {
            let number = self.ping();
            self.fence = Fence::Sent(number);
        }
    }

    fn is_settled(&self) -> bool {
        match &self.role {
            Role::Subscriber(it) => it.is_settled(),
            Role::Publisher(_) | Role::Other(_) => true,
        }
    }

    /// The broker has accepted the connection.
    fn accepted(&mut self, session_present: bool) -> Progress {
        match &mut self.role {
            Role::Subscriber(it) => {
                if !session_present {
                    it.forget();
                    if !it.spec.later {
                        self.subscribe();
                        return Progress::LoggedIn;
                    }
                }
            }
            Role::Other(_) if matches!(self.spec.clients.first(), Some(MqttSpec::Asking)) => {
                put_subscribe(&mut self.out, self.version, SUBSCRIPTION, VERSION_TOPIC, 0);
                return Progress::LoggedIn;
            }
            Role::Publisher(_) | Role::Other(_) => {}
        }
        self.begin()
    }

    fn begin(&mut self) -> Progress {
        (self.stage, self.is_running) = (Stage::Running, true);
        Progress::Ready
    }

    fn subscribe(&mut self) {
        if let Role::Subscriber(it) = &self.role {
            put_subscribe(&mut self.out, self.version, SUBSCRIPTION, &it.spec.filter, it.spec.qos);
        }
    }

    /// Takes the acceptance of the connection, with the broker's limits, or its refusal.
    fn connected(&mut self, now: Time, code: u8, properties: &[u8]) -> Result<(), Error> {
        let endpoint = &self.spec.endpoint;
        if self.is_accepted {
            return Err(failure::of_packet(endpoint, packet::Malformed("a second answer to the login")));
        }
        if code != 0 {
            return Err(failure::of_refusal(endpoint, code, properties));
        }
        let limits = ServerLimits::read(properties).map_err(|it| failure::of_packet(endpoint, it))?;
        self.stage = Stage::SetUp(self.spec.clients.first().map_or_else(|| "connect".to_owned(), MqttSpec::action));
        if let Role::Publisher(publisher) = &mut self.role {
            publisher.receive_max = limits.receive_max;
            if let Some((detail, help)) = publisher.exceeds(&limits) {
                return Err(failure::of_action(endpoint, self.stage.action().to_owned(), detail, help));
            }
        }
        let keep_alive_s = limits.keep_alive_s.unwrap_or(endpoint.connection.heartbeat_s);
        let interval = Nanos::SECOND.0 * u64::from(keep_alive_s) / 2;
        self.liveness.interval = Nanos(interval);
        self.liveness.due = (interval > 0).then(|| now + Nanos(interval));
        self.is_accepted = true;
        Ok(())
    }

    fn subscribed(&self, codes: &[u8]) -> Result<(), Error> {
        let refused = match &self.role {
            Role::Subscriber(it) => it.refused(codes),
            Role::Publisher(_) => Some(("it asked for none".to_owned(), failure::HELP)),
            // Who may not know the version goes without.
            Role::Other(_) => None,
        };
        let action = || self.spec.clients.first().map_or_else(String::new, MqttSpec::action);
        refused.map_or(Ok(()), |(detail, help)| Err(failure::of_action(&self.spec.endpoint, action(), detail, help)))
    }

    /// Takes the answer to a ping: what it ends, where it ends something.
    fn ponged(&mut self) -> Option<Answer> {
        self.pongs = (self.pongs + 1).min(self.pings);
        self.liveness.is_asked = false;
        if self.last_ping == Some(self.pongs) {
            return Some(Answer::Closed);
        }
        if self.fence == Fence::Sent(self.pongs) {
            self.fence = Fence::None;
            return Some(Answer::Fence);
        }
        None
    }

    /// Takes an answer to a message, or the broker's word that it forgets one.
    #[inline]
    fn answered(&mut self, kind: AnswerKind, id: u16, code: u8) -> Result<Event<'static>, Error> {
        match &mut self.role {
            Role::Publisher(publisher) if kind != AnswerKind::Release => {
                if let Ok(confirm) = publisher.answered(kind, id, code, &mut self.out) {
                    return Ok(confirm.map_or(Event::Other, Event::Confirm));
                }
            }
            Role::Subscriber(subscriber) if kind == AnswerKind::Release => {
                subscriber.released(id, &mut self.out);
                self.fence_if_settled();
                return Ok(Event::Other);
            }
            Role::Publisher(_) | Role::Subscriber(_) | Role::Other(_) => {}
        }
        let malformed = packet::Malformed("an answer to a packet that was never sent");
        Err(failure::of_packet(&self.spec.endpoint, malformed))
    }

    #[inline]
    fn received<'i>(&mut self, qos: u8, is_repeated: bool, id: u16, payload: &'i [u8]) -> Event<'i> {
        match &mut self.role {
            Role::Subscriber(subscriber) => match subscriber.received(qos, id, &mut self.out) {
                Some(tag) => Event::Delivery { tag, redelivered: is_repeated, body: payload, properties: &[] },
                None => Event::Other,
            },
            Role::Other(answer) => {
                *answer = String::from_utf8_lossy(payload).into_owned();
                Event::Other
            }
            Role::Publisher(_) => Event::Other,
        }
    }

    /// The broker's answer to what an asking connection asked for; empty where it had none.
    fn told(&self) -> &str {
        match &self.role {
            Role::Other(answer) => answer,
            Role::Publisher(_) | Role::Subscriber(_) => "",
        }
    }
}

impl Connection for MqttConnection {
    type ClientSpec = MqttSpec;
    type Admin<'a, E: Environment> = MqttAdmin<'a, E>;
    type Handle<'a> = MqttHandle<'a>;

    const DECLARES_AGAIN: bool = true;
    const HELP: &'static str = failure::HELP;
    const SIZES: WireSizes = WireSizes {
        frame_max: LARGEST,
        // That of quality of service 2 is answered twice.
        acknowledgement: 8,
        commit: 0,
        smallest_delivery: 6,
        delivery_head: 2_048,
    };

    fn validate(group: &Group) -> Result<(), Error> {
        validate::validate(group)
    }

    fn consumer(group: &Group, n: usize, later: bool) -> Result<MqttSpec, Error> {
        Ok(MqttSpec::subscriber(group, n, later))
    }

    fn producer(group: &Group, destination: &Destination, outgoing: Outgoing) -> Result<MqttSpec, Error> {
        Ok(MqttSpec::publisher(group, destination, outgoing))
    }

    fn new(mut spec: ConnectionSpec<MqttSpec>, _now: Time) -> Self {
        spec.endpoint.protocol = Protocol::Mqtt;
        let random = || format!("bellows{}", scram_nonce().get(..RANDOM_LEN).unwrap_or_default());
        let (role, session) = match spec.clients.first() {
            Some(MqttSpec::Publisher(it)) => (Role::Publisher(Box::new(Publisher::new((**it).clone()))), None),
            Some(MqttSpec::Subscriber(it)) => {
                (Role::Subscriber(Box::new(Subscriber::new((**it).clone()))), it.session.clone())
            }
            Some(MqttSpec::Forgetting(session)) => (Role::Other(String::new()), Some(session.clone())),
            Some(MqttSpec::Asking) | None => (Role::Other(String::new()), None),
        };
        let mut connection = Self {
            version: spec.endpoint.connection.mqtt_version,
            client_id: session.unwrap_or_else(random),
            role,
            stage: Stage::LogIn,
            out: Vec::new(),
            written: 0,
            answer: None,
            is_running: false,
            is_accepted: false,
            fence: Fence::None,
            pings: 0,
            pongs: 0,
            last_ping: None,
            liveness: Liveness::default(),
            spec,
        };
        connection.connect();
        connection
    }

    fn trace_header(_properties: &[u8]) -> Option<&[u8]> {
        None
    }

    fn restart(&mut self, endpoint: Option<&Endpoint>, _now: Time) {
        if let Some(endpoint) = endpoint {
            self.spec.endpoint.clone_from(endpoint);
            self.spec.endpoint.protocol = Protocol::Mqtt;
        }
        self.out.clear();
        (self.written, self.pings, self.pongs, self.last_ping) = (0, 0, 0, None);
        (self.stage, self.answer, self.fence) = (Stage::LogIn, None, Fence::None);
        (self.is_running, self.is_accepted) = (false, false);
        self.liveness = Liveness::default();
        match &mut self.role {
            Role::Publisher(it) => it.restart(),
            Role::Subscriber(it) => it.restart(),
            Role::Other(_) => {}
        }
        self.connect();
    }

    fn endpoint(&self) -> &Endpoint {
        &self.spec.endpoint
    }

    #[inline]
    fn poll<'a, 'i: 'a>(&'a mut self, now: Time, input: &mut &'i [u8]) -> Result<Option<(usize, Event<'a>)>, Error> {
        let read = packet::read(self.version, input).map_err(|it| failure::of_packet(&self.spec.endpoint, it))?;
        let Some(packet) = read else { return Ok(None) };
        self.liveness.has_heard = true;
        let answer = match packet {
            Packet::Message { qos, is_repeated, id, payload } if self.is_accepted => {
                return Ok(Some((0, self.received(qos, is_repeated, id, payload))));
            }
            Packet::Answer { kind, id, code } if self.is_accepted => {
                return Ok(Some((0, self.answered(kind, id, code)?)));
            }
            Packet::Connected { session_present, code, properties } => {
                self.connected(now, code, properties)?;
                Some(Answer::Connected { session_present })
            }
            Packet::Subscribed { id: SUBSCRIPTION, codes } if self.is_accepted => {
                self.subscribed(codes)?;
                Some(Answer::Subscribed)
            }
            Packet::Pong => self.ponged(),
            Packet::Disconnected { code, properties } => {
                return Err(failure::of_disconnect(&self.spec.endpoint, &self.stage, code, properties));
            }
            Packet::Message { .. } | Packet::Answer { .. } | Packet::Subscribed { .. } => {
                let malformed = packet::Malformed("a packet that answers nothing");
                return Err(failure::of_packet(&self.spec.endpoint, malformed));
            }
        };
        self.answer = answer.or(self.answer.take());
        Ok(Some((0, if answer.is_some() { Event::Answer } else { Event::Other })))
    }

    fn proceed(&mut self, now: Time) -> Result<Progress, Error> {
        Ok(match self.answer.take() {
            Some(Answer::Connected { session_present }) => self.accepted(session_present),
            Some(Answer::Subscribed) if self.is_running => Progress::Answered,
            Some(Answer::Subscribed) if matches!(self.role, Role::Other(_)) => {
                // What is retained comes before the answer to this.
                self.fence = Fence::Waiting;
                self.fence_if_settled();
                Progress::Waiting
            }
            Some(Answer::Fence) if !self.is_running => self.begin(),
            Some(Answer::Subscribed) => self.begin(),
            Some(Answer::Fence) => Progress::Answered,
            Some(Answer::Closed) => Progress::Closed,
            None => {
                self.excuse_silence(now);
                Progress::Waiting
            }
        })
    }

    fn handle(&mut self, _client: usize) -> MqttHandle<'_> {
        MqttHandle(self)
    }

    fn fence(&mut self, _client: usize) -> Result<(), Error> {
        self.fence = Fence::Waiting;
        self.fence_if_settled();
        Ok(())
    }

    fn is_answered(&self) -> bool {
        self.is_running && self.fence == Fence::None && self.is_settled()
    }

    fn reserve(&mut self, output: usize) {
        self.out.reserve(output);
    }

    /// The broker closes what has disconnected; that it has read all of it is the answer to the ping.
    fn leave(&mut self, _now: Time) -> Result<(), Error> {
        self.stage = Stage::Closing;
        let number = self.ping();
        self.last_ping = Some(number);
        put_disconnect(&mut self.out);
        Ok(())
    }

    #[inline]
    fn pending_output(&self) -> &[u8] {
        self.out.get(self.written..).unwrap_or_default()
    }

    #[inline]
    fn consume_output(&mut self, bytes: usize) {
        self.written = (self.written + bytes).min(self.out.len());
        self.liveness.has_written |= bytes > 0;
        if self.written == self.out.len() {
            self.out.clear();
            self.written = 0;
        }
    }

    fn next_timeout(&self) -> Option<Time> {
        self.liveness.due
    }

    fn handle_timeout(&mut self, now: Time) -> Result<(), Error> {
        if self.liveness.due.is_none_or(|due| due > now) {
            return Ok(());
        }
        let Liveness { interval, has_written, has_heard, is_asked, .. } = self.liveness;
        if is_asked && !has_heard {
            let detail = format!("the broker has been silent for {}", Nanos(2 * interval.0));
            return Err(self.stage.lost(self.spec.endpoint.to_string(), detail, failure::HELP));
        }
        let asks = self.last_ping.is_none() && !(has_written && has_heard);
        if asks {
            self.ping();
        }
        self.liveness =
            Liveness { interval, due: Some(now + interval), is_asked: asks, has_written: false, has_heard: false };
        Ok(())
    }

    fn excuse_silence(&mut self, _now: Time) {
        self.liveness.has_heard = true;
    }

    #[inline]
    fn needs(&self, input: &[u8]) -> usize {
        packet::length(input).ok().flatten().map_or(0, |(total, _)| total)
    }

    fn end_of_input(&self, _rest: &[u8]) -> Error {
        let detail = "the broker closed the connection".to_owned();
        self.stage.lost(self.spec.endpoint.to_string(), detail, failure::HELP)
    }

    fn stage(&self) -> &Stage {
        &self.stage
    }
}

/// The way to publish and settle over a connection.
pub(crate) struct MqttHandle<'a>(&'a mut MqttConnection);

impl MqttHandle<'_> {
    #[inline]
    fn send(&mut self, body: Option<&[u8]>, fill: impl FnOnce(&mut [u8])) {
        if let Role::Publisher(publisher) = &mut self.0.role {
            publisher.publish(&mut self.0.out, body, fill);
        }
    }

    fn publisher(&self) -> Option<&Publisher> {
        match &self.0.role {
            Role::Publisher(publisher) => Some(publisher),
            Role::Subscriber(_) | Role::Other(_) => None,
        }
    }
}

impl Sender for MqttHandle<'_> {
    #[inline]
    fn publish(&mut self, fill: impl FnOnce(&mut [u8])) {
        self.send(None, fill);
    }

    #[inline]
    fn publish_body(&mut self, body: &[u8], fill: impl FnOnce(&mut [u8])) {
        self.send(Some(body), fill);
    }

    fn set_message_id(&mut self, _id: &[u8]) {}

    fn set_timestamp(&mut self, _unix_s: u64) {}

    fn set_trace_header(&mut self, _header: &[u8; FULL_LEN]) {}

    fn message_wire_len(&self) -> (usize, usize) {
        self.publisher().map_or((1, 1), Publisher::wire_len)
    }

    fn pending(&self) -> usize {
        self.0.pending_output().len()
    }

    #[inline]
    fn credit(&self) -> u64 {
        self.publisher().map_or(0, Publisher::credit)
    }
}

impl Receiver for MqttHandle<'_> {
    #[inline]
    fn acknowledge(&mut self, tag: u64, multiple: bool) {
        if let Role::Subscriber(subscriber) = &mut self.0.role {
            subscriber.settle(tag, multiple, &mut self.0.out);
        }
        self.0.fence_if_settled();
    }

    /// The plan refuses this: MQTT has no way to give a delivery back.
    fn refuse(&mut self, tag: u64, multiple: bool, _requeue: bool) {
        self.acknowledge(tag, multiple);
    }

    fn subscribe(&mut self) -> Result<(), Error> {
        self.0.subscribe();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::client::Subscribing;
    use super::*;

    fn connection(client: Option<MqttSpec>) -> MqttConnection {
        let spec = ConnectionSpec {
            endpoint: Endpoint::new("h", 1),
            name: String::new(),
            timeout: Nanos::SECOND,
            resumes: false,
            clients: client.into_iter().collect(),
        };
        MqttConnection::new(spec, Time(0))
    }

    fn subscriber(session: Option<&str>) -> MqttConnection {
        let (filter, session) = ("a/#".to_owned(), session.map(str::to_owned));
        let subscribing = Subscribing { filter, qos: 1, receive_max: 10, later: false, session };
        connection(Some(MqttSpec::Subscriber(Box::new(subscribing))))
    }

    /// Takes what the broker sends, and tells how far that leads.
    fn hear(connection: &mut MqttConnection, mut bytes: &[u8]) -> Result<Vec<Progress>, Error> {
        let mut all = Vec::new();
        while let Some((_, event)) = connection.poll(Time(0), &mut bytes)? {
            if matches!(event, Event::Answer) {
                all.push(connection.proceed(Time(0))?);
            }
        }
        Ok(all)
    }

    fn sent(connection: &mut MqttConnection) -> Vec<u8> {
        let sent = connection.pending_output().to_vec();
        connection.consume_output(sent.len());
        sent
    }

    #[test]
    fn a_fence_waits_until_all_that_came_is_settled() {
        let mut it = subscriber(None);
        assert_eq!(sent(&mut it).first(), Some(&0x10));
        assert_eq!(hear(&mut it, b"\x20\x03\0\0\0"), Ok(vec![Progress::LoggedIn]));
        assert_eq!(sent(&mut it), b"\x82\x09\0\x01\0\0\x03a/#\x11");
        assert_eq!(hear(&mut it, b"\x90\x04\0\x01\0\x01"), Ok(vec![Progress::Ready]));
        assert_eq!(hear(&mut it, b"\x32\x06\0\x01a\0\x07\0"), Ok(Vec::new()));
        it.fence(0).unwrap();
        assert!(sent(&mut it).is_empty() && !it.is_answered());
        it.handle(0).acknowledge(1, false);
        assert_eq!(sent(&mut it), b"\x40\x02\0\x07\xC0\0");
        assert!(!it.is_answered());
        assert_eq!(hear(&mut it, b"\xD0\0"), Ok(vec![Progress::Answered]));
        assert!(it.is_answered());
        it.leave(Time(0)).unwrap();
        assert_eq!(sent(&mut it), b"\xC0\0\xE0\0");
        assert_eq!(hear(&mut it, b"\xD0\0"), Ok(vec![Progress::Closed]));
    }

    #[test]
    fn a_session_that_is_there_needs_no_subscription() {
        let mut it = subscriber(Some("mine"));
        assert!(sent(&mut it).windows(4).any(|part| part == b"mine"));
        assert_eq!(hear(&mut it, b"\x20\x03\x01\0\0"), Ok(vec![Progress::Ready]));
        assert!(sent(&mut it).is_empty());
        it.restart(None, Time(0));
        sent(&mut it);
        assert_eq!(hear(&mut it, b"\x20\x03\0\0\0"), Ok(vec![Progress::LoggedIn]), "the broker has lost it");
    }

    #[test]
    fn a_peer_that_answers_no_ping_is_gone() {
        let mut it = connection(None);
        sent(&mut it);
        assert_eq!(hear(&mut it, b"\x20\x03\0\0\0"), Ok(vec![Progress::Ready]));
        let at = |seconds: u64| Time(seconds * Nanos::SECOND.0);
        assert_eq!(it.next_timeout(), Some(at(30)), "half the keep-alive");
        for (seconds, asks) in [(30, false), (60, true)] {
            it.handle_timeout(at(seconds)).unwrap();
            assert_eq!(!sent(&mut it).is_empty(), asks, "{seconds}");
        }
        hear(&mut it, b"\xD0\0").unwrap();
        it.handle_timeout(at(90)).unwrap();
        it.handle_timeout(at(120)).unwrap();
        assert_eq!(sent(&mut it), b"\xC0\0");
        assert!(it.handle_timeout(at(150)).unwrap_err().to_string().contains("silent for"));
    }

    #[test]
    fn refusals_name_their_remedy() {
        for (answer, remedy) in [(b"\x20\x03\0\x86\0", "--password"), (b"\x20\x03\0\x84\0", "--mqtt-version")] {
            let problem = hear(&mut connection(None), answer).unwrap_err().problem();
            assert!(problem.help.contains(remedy), "{problem:?}");
        }
        let mut it = subscriber(None);
        hear(&mut it, b"\x20\x03\0\0\0").unwrap();
        let problem = hear(&mut it, b"\x90\x04\0\x01\0\0").unwrap_err().problem();
        assert!(problem.help.contains("--qos"), "it grants less: {problem:?}");
    }
}
