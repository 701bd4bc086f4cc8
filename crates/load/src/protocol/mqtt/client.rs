//! One client of a connection: what a publisher has in flight, and what a subscriber has not settled.

use std::collections::{HashSet, VecDeque};

use plan::{MqttVersion, client_destination, share_name};

use super::failure::{HELP, meaning};
use super::packet::{AnswerKind, NO_SUBSCRIBERS, REFUSED, ServerLimits, length_len, put_answer, put_length, put_text};
use crate::protocol::{BodyLengths, Confirm, DeliveryOutcome, Outgoing};
use crate::window::NeverSent;
use crate::{Argument, Destination, Group, MessageProperties};

/// Packet identifiers go from 1 to this.
const MOST_IDS: u64 = 65_535;

/// A client of a connection.
#[derive(Clone, Debug)]
pub(crate) enum MqttSpec {
    Publisher(Box<Publishing>),
    Subscriber(Box<Subscribing>),
    /// Asks for a topic's retained message.
    Asking,
    /// Connects as the owner of this session, which goes.
    Forgetting(String),
}

/// How messages are published.
#[derive(Clone, Debug)]
pub(crate) struct Publishing {
    topic: String,
    qos: u8,
    retain: bool,
    properties: MessageProperties,
    bodies: BodyLengths,
    version: MqttVersion,
}

/// How messages are received.
#[derive(Clone, Debug)]
pub(crate) struct Subscribing {
    pub(super) filter: String,
    pub(super) qos: u8,
    /// Messages that it may leave unanswered; 0 for no limit.
    pub(super) receive_max: u16,
    /// It begins when the load says so.
    pub(super) later: bool,
    /// The client identifier of a session that outlasts its connection.
    pub(super) session: Option<String>,
}

impl MqttSpec {
    /// A group's `n`-th consumer.
    pub(super) fn subscriber(group: &Group, n: usize, later: bool) -> Self {
        let topic = client_destination(group, n).name;
        let subscription = group.consumers.subscription.as_ref().filter(|it| it.shared > 0);
        let index = n / group.destinations.len();
        let filter = match subscription {
            Some(it) => {
                let name = it.name.replace(['/', '+', '#'], "-");
                format!("$share/{name}.{}/{topic}", it.of(index))
            }
            None => topic,
        };
        Self::Subscriber(Box::new(Subscribing {
            filter,
            qos: group.mqtt.subscribed_qos(group.consumers.ack),
            receive_max: group.consumers.prefetch,
            later,
            session: session_of(group, n),
        }))
    }

    pub(super) fn publisher(group: &Group, destination: &Destination, outgoing: Outgoing) -> Self {
        Self::Publisher(Box::new(Publishing {
            topic: destination.name.clone(),
            qos: group.mqtt.published_qos(group.producers.guarantee),
            retain: group.mqtt.retain,
            properties: outgoing.properties,
            bodies: outgoing.bodies,
            version: group.endpoint.connection.mqtt_version,
        }))
    }

    /// Purpose of it, as in "cannot ...".
    pub(super) fn action(&self) -> String {
        match self {
            Self::Publisher(it) => format!("publish to {:?} with quality of service {}", it.topic, it.qos),
            Self::Subscriber(it) => format!("subscribe to {:?} with quality of service {}", it.filter, it.qos),
            Self::Asking => "ask for the broker's version".to_owned(),
            Self::Forgetting(session) => format!("delete session {session:?}"),
        }
    }
}

/// The session of a group's `n`-th consumer, where it is to outlast its connection.
pub(super) fn session_of(group: &Group, n: usize) -> Option<String> {
    let subscription = group.consumers.subscription.as_ref().filter(|it| it.durable)?;
    let topic = client_destination(group, n).name;
    Some(subscription.queue(share_name(&topic).unwrap_or(&topic), n))
}

/// How far a message is that was published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InFlight {
    Sent,
    /// The broker has it, and is to forget that it had.
    Released(DeliveryOutcome),
    Answered,
}

/// Messages from their first byte to their last answer.
#[derive(Debug)]
pub(super) struct Publisher {
    spec: Publishing,
    first_byte: u8,
    /// Topic with its length, room for the identifier, and properties with their length.
    head: Vec<u8>,
    id_at: usize,
    /// A message's body, where all are of one length.
    body: Vec<u8>,
    sent: u64,
    /// From the oldest without an answer on.
    in_flight: VecDeque<InFlight>,
    unanswered: usize,
    pub(super) receive_max: u16,
}

impl Publisher {
    pub(super) fn new(spec: Publishing) -> Self {
        let mut head = Vec::new();
        put_text(&mut head, spec.topic.as_bytes());
        let id_at = head.len();
        if spec.qos > 0 {
            head.extend_from_slice(&[0, 0]);
        }
        if spec.version == MqttVersion::V5 {
            let properties = encoded(&spec.properties);
            put_length(&mut head, properties.len());
            head.extend_from_slice(&properties);
        }
        let body = match spec.bodies {
            BodyLengths::Same(len) => vec![0; len],
            BodyLengths::Between(..) => Vec::new(),
        };
        Self {
            first_byte: 0x30 | spec.qos << 1 | u8::from(spec.retain),
            spec,
            head,
            id_at,
            body,
            sent: 0,
            in_flight: VecDeque::new(),
            unanswered: 0,
            receive_max: u16::MAX,
        }
    }

    pub(super) fn restart(&mut self) {
        (self.sent, self.unanswered) = (0, 0);
        self.in_flight.clear();
    }

    /// Why a broker with these limits would not take its messages.
    pub(super) fn exceeds(&self, limits: &ServerLimits) -> Option<(String, &'static str)> {
        let (_, largest) = self.wire_len();
        if limits.most_qos < self.spec.qos {
            let detail = format!("the broker has no quality of service above {}", limits.most_qos);
            return Some((detail, "ask for that (--qos, or qos of a [[load]])"));
        }
        if self.spec.retain && !limits.retains {
            let help = "leave retain out (--retain, or retain of a [[load]])";
            return Some(("the broker retains no messages".to_owned(), help));
        }
        (largest > limits.packet_max).then(|| {
            let detail = format!("a message takes {largest} bytes, the broker takes {} at most", limits.packet_max);
            (detail, "send smaller messages (message-size), or raise the broker's limit")
        })
    }

    /// Messages that the broker takes now. An identifier is used again only when its message is answered.
    #[inline]
    pub(super) fn credit(&self) -> u64 {
        if self.spec.qos == 0 {
            return u64::MAX;
        }
        let allowed = usize::from(self.receive_max).saturating_sub(self.unanswered) as u64;
        allowed.min(MOST_IDS - self.in_flight.len() as u64)
    }

    #[inline]
    pub(super) fn publish(&mut self, out: &mut Vec<u8>, body: Option<&[u8]>, fill: impl FnOnce(&mut [u8])) {
        let body = body.unwrap_or(&self.body);
        out.push(self.first_byte);
        put_length(out, self.head.len() + body.len());
        let head_at = out.len();
        out.extend_from_slice(&self.head);
        let body_at = out.len();
        out.extend_from_slice(body);
        fill(&mut out[body_at..]);
        self.sent += 1;
        if self.spec.qos > 0 {
            let id_at = head_at + self.id_at;
            out[id_at..id_at + 2].copy_from_slice(&id_of(self.sent).to_be_bytes());
            self.in_flight.push_back(InFlight::Sent);
            self.unanswered += 1;
        }
    }

    /// Bytes on the wire of the smallest and the largest message.
    pub(super) fn wire_len(&self) -> (usize, usize) {
        let len = |body: usize| {
            let length = self.head.len() + body;
            1 + length_len(length) + length
        };
        match self.spec.bodies {
            BodyLengths::Same(all) => (len(all), len(all)),
            BodyLengths::Between(least, most) => (len(least), len(most)),
        }
    }

    /// Takes an answer; tells which message it is the last for. Errors: that was never sent.
    #[inline]
    pub(super) fn answered(
        &mut self,
        kind: AnswerKind,
        id: u16,
        code: u8,
        out: &mut Vec<u8>,
    ) -> Result<Option<Confirm>, NeverSent> {
        let tag = self.tag_of(id).ok_or(NeverSent)?;
        let before = self.sent - self.in_flight.len() as u64;
        let at = tag.checked_sub(before + 1).map(|at| at as usize);
        let Some(state) = at.and_then(|at| self.in_flight.get_mut(at)) else {
            return Ok(self.repeated(kind, tag));
        };
        let outcome = match code {
            NO_SUBSCRIBERS => DeliveryOutcome::Unroutable,
            REFUSED.. => DeliveryOutcome::Refused,
            _ => DeliveryOutcome::Accepted,
        };
        let outcome = match (kind, *state, self.spec.qos) {
            (AnswerKind::Ack, InFlight::Sent, 1) => outcome,
            (AnswerKind::Received, InFlight::Sent, 2) if outcome == DeliveryOutcome::Refused => outcome,
            (AnswerKind::Received, InFlight::Sent, 2) => {
                *state = InFlight::Released(outcome);
                put_answer(out, AnswerKind::Release, id);
                return Ok(None);
            }
            (AnswerKind::Complete, InFlight::Released(outcome), 2) => outcome,
            (_, InFlight::Answered, _) => return Ok(self.repeated(kind, tag)),
            _ => return Err(NeverSent),
        };
        *state = InFlight::Answered;
        self.unanswered -= 1;
        while self.in_flight.front() == Some(&InFlight::Answered) {
            self.in_flight.pop_front();
        }
        Ok(Some(Confirm { first: Some(tag), last: tag, outcome }))
    }

    /// An answer that came before; of two that follow upon each other the first is none yet.
    #[cold]
    fn repeated(&self, kind: AnswerKind, tag: u64) -> Option<Confirm> {
        (kind != AnswerKind::Received).then_some(Confirm::of(tag))
    }

    /// The last message that had this identifier; `None` where none did.
    fn tag_of(&self, id: u16) -> Option<u64> {
        let last = u64::from(id_of(self.sent.max(1)));
        let behind = (last + MOST_IDS - u64::from(id)) % MOST_IDS;
        self.sent.checked_sub(behind).filter(|tag| *tag > 0)
    }
}

/// The identifier of a message, by its number from 1 on.
const fn id_of(tag: u64) -> u16 {
    ((tag - 1) % MOST_IDS + 1) as u16
}

/// Properties of every message, as MQTT 5 writes them.
fn encoded(given: &MessageProperties) -> Vec<u8> {
    let mut out = Vec::new();
    let expiration_ms = given.expiration.as_deref().and_then(|text| text.parse::<u64>().ok());
    if let Some(ms) = expiration_ms {
        out.push(0x02);
        out.extend_from_slice(&u32::try_from(ms.div_ceil(1_000)).unwrap_or(u32::MAX).to_be_bytes());
    }
    for (id, text) in [(0x03, &given.content_type), (0x08, &given.reply_to), (0x09, &given.correlation_id)] {
        if let Some(text) = text {
            out.push(id);
            put_text(&mut out, text.as_bytes());
        }
    }
    for (name, value) in &given.headers {
        let value = match value {
            Argument::Text(text) => text.clone(),
            other => other.to_string(),
        };
        out.push(0x26);
        put_text(&mut out, name.as_bytes());
        put_text(&mut out, value.as_bytes());
    }
    out
}

/// A delivery that is not settled, by what settles it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unsettled {
    /// Nothing: it has quality of service 0, or is settled already.
    Done,
    Ack(u16),
    Received(u16),
}

/// Deliveries from their first byte until the broker forgets them.
#[derive(Debug)]
pub(super) struct Subscriber {
    pub(super) spec: Subscribing,
    /// All up to this one are settled.
    settled: u64,
    /// Those behind it.
    unsettled: VecDeque<Unsettled>,
    /// Identifiers of settled deliveries of quality of service 2 that the broker may send again.
    unreleased: HashSet<u16>,
}

impl Subscriber {
    pub(super) fn new(spec: Subscribing) -> Self {
        Self { spec, settled: 0, unsettled: VecDeque::new(), unreleased: HashSet::new() }
    }

    /// Deliveries that were not settled come again.
    pub(super) fn restart(&mut self) {
        self.settled = 0;
        self.unsettled.clear();
    }

    /// The broker has no session: nothing of an earlier one comes.
    pub(super) fn forget(&mut self) {
        self.unreleased.clear();
    }

    /// Takes a delivery and tells its number; `None` where it is one that was settled, and is no news.
    #[inline]
    pub(super) fn received(&mut self, qos: u8, id: u16, out: &mut Vec<u8>) -> Option<u64> {
        let what = match qos {
            0 if self.unsettled.is_empty() => {
                self.settled += 1;
                return Some(self.settled);
            }
            0 => Unsettled::Done,
            1 => Unsettled::Ack(id),
            _ if self.unreleased.contains(&id) => {
                put_answer(out, AnswerKind::Received, id);
                return None;
            }
            _ => Unsettled::Received(id),
        };
        self.unsettled.push_back(what);
        Some(self.settled + self.unsettled.len() as u64)
    }

    /// Settles a delivery, or all up to it.
    #[inline]
    pub(super) fn settle(&mut self, tag: u64, multiple: bool, out: &mut Vec<u8>) {
        let Some(last) = tag.checked_sub(self.settled + 1).map(|last| last as usize) else { return };
        let first = if multiple { 0 } else { last };
        for at in first..=last.min(self.unsettled.len().saturating_sub(1)) {
            let Some(one) = self.unsettled.get_mut(at) else { return };
            match std::mem::replace(one, Unsettled::Done) {
                Unsettled::Done => {}
                Unsettled::Ack(id) => put_answer(out, AnswerKind::Ack, id),
                Unsettled::Received(id) => {
                    self.unreleased.insert(id);
                    put_answer(out, AnswerKind::Received, id);
                }
            }
        }
        while self.unsettled.front() == Some(&Unsettled::Done) {
            self.unsettled.pop_front();
            self.settled += 1;
        }
    }

    /// The broker forgets a delivery of quality of service 2, and so may this side.
    pub(super) fn released(&mut self, id: u16, out: &mut Vec<u8>) {
        self.unreleased.remove(&id);
        put_answer(out, AnswerKind::Complete, id);
    }

    /// Whether all that came is settled on both sides, so that no limit holds more back.
    pub(super) fn is_settled(&self) -> bool {
        self.unsettled.is_empty() && self.unreleased.is_empty()
    }

    /// Why the broker's answer to its subscription is a refusal.
    pub(super) fn refused(&self, codes: &[u8]) -> Option<(String, &'static str)> {
        let [code] = codes else { return Some(("the broker's answer is about another".to_owned(), HELP)) };
        if *code >= REFUSED {
            return Some((meaning(*code), "give the user the permission, or use another filter"));
        }
        (*code < self.spec.qos).then(|| {
            let detail = format!("the broker grants quality of service {code}");
            (detail, "ask for that (--qos, or qos of a [[load]])")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Endpoint;

    fn publisher(qos: u8, version: MqttVersion) -> Publisher {
        let mut group = Group::new(Endpoint::new("h", 1), vec![Destination::topic("t")]);
        group.protocol = crate::Protocol::Mqtt;
        group.mqtt.qos = Some(qos);
        group.endpoint.connection.mqtt_version = version;
        let mut properties = MessageProperties::default();
        properties.headers.insert("k".to_owned(), Argument::Integer(1));
        let outgoing = Outgoing { routing_key: None, properties, bodies: BodyLengths::Same(3) };
        let destination = group.destinations[0].clone();
        match MqttSpec::publisher(&group, &destination, outgoing) {
            MqttSpec::Publisher(spec) => Publisher::new(*spec),
            other => panic!("{other:?}"),
        }
    }

    fn subscriber(qos: u8) -> Subscriber {
        let filter = "a/#".to_owned();
        Subscriber::new(Subscribing { filter, qos, receive_max: 10, later: false, session: None })
    }

    #[test]
    fn a_message_is_encoded_with_its_identifier_and_properties() {
        let mut out = Vec::new();
        let mut old = publisher(1, MqttVersion::V311);
        old.publish(&mut out, None, |front| front[0] = b'x');
        assert_eq!(out, b"\x32\x08\0\x01t\0\x01x\0\0");
        assert_eq!(old.wire_len(), (out.len(), out.len()));
        out.clear();
        publisher(2, MqttVersion::V5).publish(&mut out, Some(b"ab"), |_| {});
        assert_eq!(out, b"\x34\x0F\0\x01t\0\x01\x07\x26\0\x01k\0\x011ab");
    }

    #[test]
    fn answers_find_their_messages_after_identifiers_begin_again() {
        let mut it = publisher(1, MqttVersion::V5);
        let mut out = Vec::new();
        for tag in 1..200_000u64 {
            out.clear();
            it.publish(&mut out, None, |_| {});
            let confirm = it.answered(AnswerKind::Ack, id_of(tag), 0, &mut out).unwrap().unwrap();
            assert_eq!((confirm.first, confirm.outcome), (Some(tag), DeliveryOutcome::Accepted));
        }
        it.restart();
        assert!(it.answered(AnswerKind::Ack, 1, 0, &mut out).is_err());
        it.receive_max = 3;
        (0..3).for_each(|_| it.publish(&mut out, None, |_| {}));
        assert_eq!(it.credit(), 0);
        let outcome = |found: Result<Option<Confirm>, NeverSent>| found.unwrap().map(|it| (it.last, it.outcome));
        assert_eq!(outcome(it.answered(AnswerKind::Ack, 3, 0x10, &mut out)), Some((3, DeliveryOutcome::Unroutable)));
        assert_eq!(outcome(it.answered(AnswerKind::Ack, 1, 0x97, &mut out)), Some((1, DeliveryOutcome::Refused)));
        assert_eq!(it.credit(), 2);
        assert_eq!(
            outcome(it.answered(AnswerKind::Ack, 1, 0, &mut out)).unwrap().0,
            1,
            "again, which counts for nothing"
        );
        assert!(it.answered(AnswerKind::Ack, 4, 0, &mut out).is_err());
        assert!(it.answered(AnswerKind::Complete, 2, 0, &mut out).is_err());
    }

    #[test]
    fn exactly_once_takes_two_answers() {
        let mut it = publisher(2, MqttVersion::V5);
        let mut out = Vec::new();
        it.publish(&mut out, None, |_| {});
        out.clear();
        assert_eq!(it.answered(AnswerKind::Received, 1, 0, &mut out).map(|it| it.is_none()), Ok(true));
        assert_eq!((out.as_slice(), it.credit()), (&b"\x62\x02\0\x01"[..], 65_534));
        assert!(it.answered(AnswerKind::Complete, 1, 0, &mut out).unwrap().is_some());
        assert_eq!(it.credit(), 65_535);
    }

    #[test]
    fn what_was_settled_with_quality_2_comes_once() {
        let mut it = subscriber(2);
        let mut out = Vec::new();
        assert_eq!((it.received(2, 7, &mut out), it.received(2, 8, &mut out)), (Some(1), Some(2)));
        it.settle(1, false, &mut out);
        assert_eq!(out, b"\x50\x02\0\x07");
        // Its connection is lost: the second was not settled, and comes again.
        it.restart();
        out.clear();
        assert_eq!((it.received(2, 7, &mut out), it.received(2, 8, &mut out)), (None, Some(1)));
        assert_eq!(out, b"\x50\x02\0\x07");
        it.settle(1, false, &mut out);
        it.released(7, &mut out);
        assert!(!it.is_settled());
        it.released(8, &mut out);
        assert!(it.is_settled());
        it.forget();
    }

    #[test]
    fn deliveries_are_settled_alone_or_together() {
        let mut it = subscriber(1);
        let mut out = Vec::new();
        assert_eq!(it.received(0, 0, &mut out), Some(1));
        let tags: Vec<_> = [(1, 5), (0, 0), (1, 6), (1, 7)].map(|(qos, id)| it.received(qos, id, &mut out)).into();
        assert_eq!(tags, [Some(2), Some(3), Some(4), Some(5)]);
        it.settle(4, false, &mut out);
        it.settle(1, true, &mut out);
        it.settle(9, false, &mut out);
        assert_eq!(out, b"\x40\x02\0\x06");
        it.settle(5, true, &mut out);
        assert_eq!(out, b"\x40\x02\0\x06\x40\x02\0\x05\x40\x02\0\x07");
        assert!(it.is_settled());
        assert!(it.refused(&[1]).is_none() && it.refused(&[0]).is_some() && it.refused(&[0x87]).is_some());
    }
}
