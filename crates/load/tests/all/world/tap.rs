//! Bytes of a world's connections, read once more: which messages were published, answered and delivered. The ledger
//! that follows from them is neither the load's nor the broker's count.

use std::collections::{BTreeMap, HashMap};

use load::payload::{FULL_LEN, TRACE_HEADER};
use measure::ledger::LedgerSummary;
use wire::amqp10::{DeliveryState, MessageBody, MessageParts, Performative, TypedValue};
use wire::amqp091::{Properties, Reader};

const AMQP091_HEADER: &[u8] = b"AMQP\x00\x00\x09\x01";

/// A client of the load, by the number of its poll and by its token there. Its connections follow each other.
type Client = (usize, usize);

/// Bytes of one connection, as its client wrote and read them.
#[derive(Debug, Default)]
pub(super) struct Tap {
    pub(super) client: Client,
    pub(super) written: Vec<u8>,
    pub(super) read: Vec<u8>,
}

/// A message that one side sent.
#[derive(Default)]
struct Message {
    channel: u16,
    /// Its number on its channel or session; 0 is none, of what came back.
    number: u64,
    redelivered: bool,
    trace_header: Option<Vec<u8>>,
    body: Vec<u8>,
}

impl Message {
    /// Bytes that no other message has.
    fn head(&self) -> Vec<u8> {
        let len = if self.body.len() < FULL_LEN { FULL_LEN / 2 } else { FULL_LEN };
        let head = self.trace_header.as_ref().unwrap_or(&self.body);
        head[..len.min(head.len())].to_vec()
    }

    /// Bytes that all copies of a message have, and whether this is one that was sent again.
    fn identity(&self) -> (Vec<u8>, bool) {
        let mut head = self.head();
        if self.trace_header.is_none() && self.body.len() < FULL_LEN {
            return (head, false);
        }
        // Run, producer, and the sequence number with the mark of a copy.
        head.truncate(14);
        let is_copy = head[13] & 0x80 != 0;
        head[13] &= 0x7F;
        (head, is_copy)
    }
}

/// A broker's answer to a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Taken,
    Refused,
    /// It has no queue for it.
    Returned,
}

/// An answer to messages of a channel.
struct Answer {
    channel: u16,
    first: u64,
    last: u64,
    outcome: Outcome,
}

#[derive(Default)]
struct Conversation {
    messages: Vec<Message>,
    answers: Vec<Answer>,
}

impl Conversation {
    /// All that stands in whole frames of AMQP 0.9.1, of one direction.
    fn of_amqp091(bytes: &[u8]) -> Self {
        let mut all = Self::default();
        // By channel: a message that is not whole yet and the bytes that it lacks; how many were published.
        let mut open: BTreeMap<u16, (Message, usize)> = BTreeMap::new();
        let mut published: BTreeMap<u16, u64> = BTreeMap::new();
        let mut rest = bytes.strip_prefix(AMQP091_HEADER).unwrap_or(bytes);
        while let Some((head, behind)) = rest.split_first_chunk::<7>() {
            let channel = u16::from_be_bytes([head[1], head[2]]);
            let size = u32::from_be_bytes([head[3], head[4], head[5], head[6]]) as usize;
            // One more byte ends the frame.
            if behind.len() <= size {
                break;
            }
            let payload = &behind[..size];
            rest = &behind[size + 1..];
            let number = |at: usize| u64::from_be_bytes(payload[at..at + 8].try_into().expect("eight bytes"));
            match (head[0], payload) {
                (1, [0, 60, 0, 40, ..]) => {
                    let count = published.entry(channel).or_default();
                    *count += 1;
                    open.insert(channel, (Message { channel, number: *count, ..Message::default() }, usize::MAX));
                }
                (1, [0, 60, 0, method @ (60 | 71), tag_len, ..]) => {
                    // The consumer's tag comes first, where there is one.
                    let at = if *method == 60 { 5 + usize::from(*tag_len) } else { 4 };
                    let redelivered = payload[at + 8] & 1 == 1;
                    let message = Message { channel, number: number(at), redelivered, ..Message::default() };
                    open.insert(channel, (message, usize::MAX));
                }
                (1, [0, 60, 0, 50, ..]) => {
                    open.insert(channel, (Message::default(), usize::MAX));
                }
                (1, [0, 60, 0, method @ (80 | 120), ..]) => {
                    let (last, is_multiple) = (number(4), payload[12] & 1 == 1);
                    let first = if is_multiple { 1 } else { last };
                    let outcome = if *method == 80 { Outcome::Taken } else { Outcome::Refused };
                    all.answers.push(Answer { channel, first, last, outcome });
                }
                (2, _) => {
                    let (message, lacks) = open.get_mut(&channel).expect("a header behind its method");
                    *lacks = number(4) as usize;
                    let trace_header = Properties::from_bytes(&payload[12..]).header_bytes(TRACE_HEADER);
                    message.trace_header = trace_header.map(<[u8]>::to_vec);
                }
                (3, _) => {
                    let (message, lacks) = open.get_mut(&channel).expect("a body behind its header");
                    message.body.extend_from_slice(payload);
                    *lacks -= payload.len();
                }
                _ => {}
            }
            if open.get(&channel).is_some_and(|(_, lacks)| *lacks == 0)
                && let Some((message, _)) = open.remove(&channel)
                && message.number > 0
            {
                all.messages.push(message);
            }
        }
        all
    }

    /// All that stands in whole frames of AMQP 1.0, of one direction.
    fn of_amqp10(bytes: &[u8]) -> Self {
        let mut all = Self::default();
        // By session: a delivery that is not whole yet. A session that answers another has a number of its own.
        let mut open: BTreeMap<u16, (u32, Vec<u8>)> = BTreeMap::new();
        let mut sessions: BTreeMap<u16, u16> = BTreeMap::new();
        let mut rest = bytes;
        while let Some((head, behind)) = rest.split_first_chunk::<8>() {
            if head.starts_with(b"AMQP") {
                rest = behind;
                continue;
            }
            let size = u32::from_be_bytes([head[0], head[1], head[2], head[3]]) as usize;
            let Some(frame) = rest.get(..size) else { break };
            rest = &rest[size..];
            let body = &frame[4 * usize::from(head[4])..];
            // Frames of the login are of another type; an empty one says that somebody is there.
            if head[5] != 0 || body.is_empty() {
                continue;
            }
            let channel = u16::from_be_bytes([head[6], head[7]]);
            let session = sessions.get(&channel).copied().unwrap_or(channel);
            let mut reader = Reader::new(body);
            match Performative::read(&mut reader).expect("a performative") {
                Performative::Begin(begin) => {
                    sessions.extend(begin.remote_channel.map(|own| (channel, own)));
                }
                Performative::Transfer(transfer) => {
                    let id = transfer.delivery_id.unwrap_or_default();
                    let (_, message) = open.entry(session).or_insert_with(|| (id, Vec::new()));
                    message.extend_from_slice(reader.rest());
                    if transfer.more != Some(true)
                        && let Some((id, message)) = open.remove(&session)
                        && transfer.aborted != Some(true)
                    {
                        all.messages.extend(message_of(session, id, &message));
                    }
                }
                Performative::Disposition(it) if it.is_receiver => {
                    let [first, last] = [it.first, it.last.unwrap_or(it.first)].map(|id| u64::from(id) + 1);
                    let outcome = match it.state {
                        // A transaction leaves it open until it is committed.
                        Some(DeliveryState::Other(_)) => continue,
                        None | Some(DeliveryState::Accepted) => Outcome::Taken,
                        Some(DeliveryState::Released | DeliveryState::Modified(_)) => Outcome::Returned,
                        Some(_) => Outcome::Refused,
                    };
                    all.answers.push(Answer { channel: session, first, last, outcome });
                }
                _ => {}
            }
        }
        all
    }
}

/// `None` for a request to the coordinator of transactions.
fn message_of(channel: u16, id: u32, bytes: &[u8]) -> Option<Message> {
    let parts = MessageParts::read(bytes).expect("a message");
    if matches!(parts.body, MessageBody::Value(_)) {
        return None;
    }
    let header = parts.before.header().unwrap_or_default();
    let trace_header = match parts.before.application_property(TRACE_HEADER) {
        Some(TypedValue::Binary(bytes)) => Some(bytes.to_vec()),
        _ => None,
    };
    Some(Message {
        channel,
        number: u64::from(id) + 1,
        redelivered: header.first_acquirer == Some(false) || header.delivery_count > Some(0),
        trace_header,
        body: parts.body.bytes().to_vec(),
    })
}

/// A message that reached the broker's connection, and its fate.
struct Published {
    producer: (Client, u16),
    outcome: Option<Outcome>,
    /// Deliveries without the redelivered flag, with it, and of copies without it.
    plain: u64,
    flagged: u64,
    resent: u64,
    /// Of those without the flag, whether one came before any newer one, and whether one came after.
    in_order: bool,
    late: bool,
}

/// The ledger of a load that sent so many messages to queues. Whatever was confirmed and did not come counts as lost,
/// and what cannot be told as corrupt.
pub(super) fn ledger<'a>(taps: impl Iterator<Item = &'a Tap>, sent: u64) -> LedgerSummary {
    let mut all: Vec<Published> = Vec::new();
    // A message, and the body of that copy.
    let mut by_head: HashMap<Vec<u8>, (usize, Vec<u8>)> = HashMap::new();
    let mut by_identity: HashMap<Vec<u8>, usize> = HashMap::new();
    let mut deliveries: Vec<(Client, Message)> = Vec::new();
    for tap in taps {
        let conversation =
            if tap.written.starts_with(AMQP091_HEADER) { Conversation::of_amqp091 } else { Conversation::of_amqp10 };
        let (written, read) = (conversation(&tap.written), conversation(&tap.read));
        let mut numbered: BTreeMap<(u16, u64), usize> = BTreeMap::new();
        for message in written.messages {
            let at = *by_identity.entry(message.identity().0).or_insert(all.len());
            numbered.insert((message.channel, message.number), at);
            if at == all.len() {
                all.push(Published {
                    producer: (tap.client, message.channel),
                    outcome: None,
                    plain: 0,
                    flagged: 0,
                    resent: 0,
                    in_order: false,
                    late: false,
                });
            }
            by_head.insert(message.head(), (at, message.body));
        }
        for answer in read.answers {
            let meant = (answer.channel, answer.first)..=(answer.channel, answer.last);
            for (_, at) in numbered.range(meant) {
                all[*at].outcome.get_or_insert(answer.outcome);
            }
        }
        deliveries.extend(read.messages.into_iter().map(|message| (tap.client, message)));
    }
    let mut corrupt = 0;
    // By consumer and producer: the newest message without the flag.
    let mut newest: HashMap<(Client, u16, (Client, u16)), usize> = HashMap::new();
    for (client, delivery) in deliveries {
        let Some((at, body)) = by_head.get(&delivery.head()) else {
            corrupt += 1;
            continue;
        };
        let at = *at;
        let message = &mut all[at];
        corrupt += u64::from(delivery.body != *body);
        if delivery.redelivered {
            message.flagged += 1;
            continue;
        }
        if delivery.identity().1 {
            message.resent += 1;
            continue;
        }
        message.plain += 1;
        let newest = newest.entry((client, delivery.channel, message.producer)).or_insert(at);
        if at < *newest {
            message.late = true;
        } else {
            (*newest, message.in_order) = (at, true);
        }
    }
    summary(&all, sent, corrupt)
}

fn summary(all: &[Published], sent: u64, corrupt: u64) -> LedgerSummary {
    let count = |is: &dyn Fn(&Published) -> bool| all.iter().filter(|it| is(it)).count() as u64;
    let sum = |of: fn(&Published) -> u64| all.iter().map(of).sum::<u64>();
    let is_delivered = |it: &Published| it.plain + it.flagged + it.resent > 0;
    let missing = |outcome: Option<Outcome>| count(&|it| it.outcome == outcome && !is_delivered(it));
    // What a lost connection had not written yet is missing, too.
    let unwritten = sent - all.len() as u64;
    let is_unconfirmed = |it: &Published| matches!(it.outcome, None | Some(Outcome::Refused));
    LedgerSummary {
        sent,
        delivered: count(&is_delivered),
        lost: missing(Some(Outcome::Taken)),
        returned: missing(Some(Outcome::Returned)),
        unconfirmed_missing: missing(None) + missing(Some(Outcome::Refused)) + unwritten,
        unconfirmed_delivered: count(&|it| is_unconfirmed(it) && is_delivered(it)),
        duplicated: sum(|it| it.plain.saturating_sub(1)),
        duplicated_redelivered: sum(|it| it.flagged - u64::from(it.flagged > 0 && it.plain + it.resent == 0)),
        duplicated_resent: sum(|it| it.resent - u64::from(it.resent > 0 && it.plain == 0)),
        reordered: count(&|it| it.late && !it.in_order && it.flagged + it.resent == 0),
        corrupt,
        exact: true,
        ..LedgerSummary::default()
    }
}
