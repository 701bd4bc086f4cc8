//! One channel of a connection: what it confirms, has delivered, and collects for a transaction.

use std::collections::{BTreeMap, HashMap, VecDeque};

use measure::Time;
use wire::amqp10::{Composite, DeclareTransaction, Discharge, MessageBody, MessageParts, TypedValue};
use wire::amqp091::reply;

use crate::log::{Log, Record};
use crate::memory::Memory;
use crate::outgoing::{Answer, TransferOutcome};
use crate::refusal::{ROLLED_BACK, UNKNOWN_TRANSACTION};
use crate::slots::Key;
use crate::unacked::{Deliveries, Unacked};
use crate::vhost::{RouteCache, VirtualHost};

/// Transactions that a session of AMQP 1.0 may have open.
const OPEN_MAX: usize = 64;

/// Why a request to the coordinator of transactions is rejected, or a message in a transaction.
pub(crate) const NOT_OPEN: &str = "no transaction of this id is open in this session";
const UNKNOWN: TransferOutcome = TransferOutcome::Refused(UNKNOWN_TRANSACTION, NOT_OPEN);
const TOO_MANY: TransferOutcome =
    TransferOutcome::Refused(reply::RESOURCE_ERROR, "too many transactions are open in this session");
const TOO_LARGE: TransferOutcome =
    TransferOutcome::Refused(reply::RESOURCE_ERROR, "open transactions hold as much as they may");
const UNROUTABLE: TransferOutcome =
    TransferOutcome::Refused(ROLLED_BACK, "a queue or exchange of its messages has gone, or is full");
const NO_REQUEST: TransferOutcome =
    TransferOutcome::Refused(reply::NOT_IMPLEMENTED, "it neither declares nor discharges a local transaction");

/// A channel.
#[derive(Debug, Default)]
pub(crate) struct Channel {
    pub(crate) mode: Mode,
    pub(crate) route: RouteCache,
    pub(crate) deliveries: Deliveries,
    /// By consumer tag.
    pub(crate) consumers: HashMap<Box<str>, Key>,
    /// The prefetch that the next consumer gets; 0 for any number.
    pub(crate) prefetch: u32,
    /// Deliveries that all consumers together may have unacknowledged; 0 for any number.
    pub(crate) shared_prefetch: u32,
    /// The queue declared last, which an empty name stands for.
    pub(crate) last_queue: Box<str>,
}

impl Channel {
    /// Whether the prefetch of the whole channel allows another delivery.
    #[inline]
    pub(crate) fn has_credit(&self) -> bool {
        self.shared_prefetch == 0 || self.deliveries.len() < self.shared_prefetch as usize
    }
}

/// How publishes and acknowledgements are answered.
#[derive(Debug, Default)]
pub(crate) enum Mode {
    #[default]
    Plain,
    Confirm(Confirms),
    Transaction(Box<Transaction>),
    /// A session of AMQP 1.0.
    Session(Box<LinkSession>),
}

/// Transfers to be answered, from one to another.
#[derive(Clone, Copy, Debug)]
struct Unanswered {
    first: u32,
    last: u32,
    outcome: TransferOutcome,
    /// When the answer may go.
    due: Time,
}

/// Exchange and routing key of what a client sends.
#[derive(Debug, Default)]
pub(crate) struct Target {
    pub(crate) exchange: Box<str>,
    pub(crate) routing_key: Box<str>,
}

/// Where the messages go that a client sends on a link.
#[derive(Debug, Default)]
pub(crate) struct LinkTarget {
    pub(crate) target: Target,
    /// Of a link without an address: that of its last message, which the target stands for.
    pub(crate) named: Option<String>,
}

/// Transfers of a session to be answered, and where its links lead.
#[derive(Debug, Default)]
pub(crate) struct LinkSession {
    /// By handle.
    pub(crate) targets: HashMap<u32, LinkTarget>,
    /// Queues that were made for links and go with them, by handle.
    pub(crate) temporary: HashMap<u32, Key>,
    /// Links on which the client asks for queues and exchanges, and hears the answers.
    pub(crate) management: [Option<u32>; 2],
    pub(crate) coordinator: Coordinator,
    /// In the order in which they came.
    unanswered: VecDeque<Unanswered>,
    /// Whether the channel is in its connection's list of channels to answer.
    pub(crate) is_due: bool,
}

impl LinkSession {
    /// A transfer is to be answered, where a fault says so not before `due`, and never before those that came before.
    #[inline]
    pub(crate) fn push(&mut self, id: u32, outcome: TransferOutcome, due: Option<Time>) {
        self.push_range(id, id, outcome, due);
    }

    #[inline]
    fn push_range(&mut self, first: u32, last: u32, outcome: TransferOutcome, due: Option<Time>) {
        let due = due.max(self.unanswered.back().map(|it| it.due)).unwrap_or_default();
        match self.unanswered.back_mut() {
            Some(back) if back.outcome == outcome && back.due == due && is_next(back.last, first) => back.last = last,
            _ => self.unanswered.push_back(Unanswered { first, last, outcome, due }),
        }
    }

    /// Answers transfers that need not wait, with as few answers as possible: each is for all from one to another.
    pub(crate) fn answer(&mut self, now: Time, mut send: impl FnMut(u32, u32, TransferOutcome)) {
        self.is_due = false;
        let mut range: Option<(u32, Unanswered)> = None;
        while let Some(next) = self.unanswered.front().copied().filter(|it| it.due <= now) {
            self.unanswered.pop_front();
            let first = match range {
                Some((first, before)) if before.outcome == next.outcome && is_next(before.last, next.first) => first,
                Some((first, before)) => {
                    send(first, before.last, before.outcome);
                    next.first
                }
                None => next.first,
            };
            range = Some((first, next));
        }
        if let Some((first, last)) = range {
            send(first, last.last, last.outcome);
        }
    }
}

/// Whether a transfer has the number behind another's.
const fn is_next(before: u32, id: u32) -> bool {
    before.wrapping_add(1) == id
}

/// Transactions of a session of AMQP 1.0 (part 4 of the specification). They end with the session, or with the link on
/// which they were declared.
#[derive(Debug, Default)]
pub(crate) struct Coordinator {
    /// The handles of links that lead to it.
    links: Vec<u32>,
    /// Open transactions, by number. Their ids are these in eight bytes.
    open: BTreeMap<u64, LocalTransaction>,
}

/// Messages, and outcomes of deliveries, until the commit.
#[derive(Debug, Default)]
pub(crate) struct LocalTransaction {
    /// The link on which it was declared.
    handle: u32,
    messages: Log,
    /// Transfers that are settled when it ends, from one to another.
    unsettled: Vec<(u32, u32)>,
    settlements: Vec<(Unacked, SettlementKind)>,
}

impl Coordinator {
    /// A link leads here.
    pub(crate) fn attach(&mut self, handle: u32) {
        self.links.push(handle);
    }

    pub(crate) fn has_link(&self, handle: u32) -> bool {
        self.links.contains(&handle)
    }

    /// The open transaction of this id.
    pub(crate) fn find(&mut self, id: &[u8]) -> Option<&mut LocalTransaction> {
        self.open.get_mut(&number(id)?)
    }

    /// Keeps a message until its transaction is committed, unless it has an outcome already.
    pub(crate) fn enlist(
        &mut self,
        id: &[u8],
        unsettled: Option<u32>,
        record: &Record<'_>,
        outcome: Option<TransferOutcome>,
        memory: &mut Memory,
    ) -> TransferOutcome {
        let found = number(id).and_then(|number| Some((number, self.open.get_mut(&number)?)));
        let Some((number, transaction)) = found else { return UNKNOWN };
        if let Some(outcome) = outcome {
            return outcome;
        }
        if !memory.takes_in_transaction(record.body.len() as u64) {
            return TOO_LARGE;
        }
        let before = transaction.messages.bytes();
        transaction.messages.append(record, memory);
        memory.note_transaction(before, transaction.messages.bytes());
        if let Some(id) = unsettled {
            match transaction.unsettled.last_mut() {
                Some((_, last)) if is_next(*last, id) => *last = id,
                _ => transaction.unsettled.push((id, id)),
            }
        }
        TransferOutcome::Enlisted(number)
    }
}

/// The number of a transaction that may have this id.
fn number(id: &[u8]) -> Option<u64> {
    id.try_into().ok().map(u64::from_be_bytes)
}

impl LocalTransaction {
    /// A delivery gets its outcome at the commit.
    pub(crate) fn settle(&mut self, delivery: Unacked, kind: SettlementKind) {
        self.settlements.push((delivery, kind));
    }

    /// Whether there is a queue for each message, and none refuses one.
    fn can_commit(&self, route: &mut RouteCache, vhost: &mut VirtualHost) -> bool {
        let mut added: HashMap<Key, (u64, u64)> = HashMap::new();
        let mut cursor = self.messages.first();
        while let Some((_, _, record)) = self.messages.next(&mut cursor) {
            let routed = vhost.route(record.exchange, record.routing_key, record.properties, route);
            if routed.is_err() || route.queues().is_empty() {
                return false;
            }
            for key in route.queues() {
                let Some(queue) = vhost.queues.get(*key).filter(|queue| queue.may_refuse()) else { continue };
                let (messages, bytes) = added.entry(*key).or_default();
                (*messages, *bytes) = (*messages + 1, *bytes + record.body.len() as u64);
                if queue.refuses(*messages, *bytes) {
                    return false;
                }
            }
        }
        true
    }
}

impl LinkSession {
    /// Does what a client asks of the coordinator, over this link.
    pub(crate) fn coordinate(
        &mut self,
        handle: u32,
        request: &MessageParts<'_>,
        route: &mut RouteCache,
        vhost: &mut VirtualHost,
    ) -> TransferOutcome {
        let MessageBody::Value(request) = request.body else { return NO_REQUEST };
        let open = &mut self.coordinator.open;
        if let Ok(DeclareTransaction { global_id: TypedValue::Null }) = DeclareTransaction::of(request) {
            if open.len() >= OPEN_MAX {
                return TOO_MANY;
            }
            let number = vhost.next_number();
            open.insert(number, LocalTransaction { handle, ..LocalTransaction::default() });
            return TransferOutcome::Declared(number);
        }
        let Ok(Discharge { txn_id, fail }) = Discharge::of(request) else { return NO_REQUEST };
        let Some(transaction) = number(txn_id).and_then(|number| open.remove(&number)) else { return UNKNOWN };
        let is_commit = fail != Some(true);
        if is_commit && transaction.can_commit(route, vhost) {
            self.commit(transaction, route, vhost);
        } else {
            self.roll_back(transaction, vhost);
            if is_commit {
                return UNROUTABLE;
            }
        }
        TransferOutcome::Accepted
    }

    fn commit(&mut self, mut transaction: LocalTransaction, route: &mut RouteCache, vhost: &mut VirtualHost) {
        vhost.memory.note_transaction(transaction.messages.bytes(), 0);
        // That all can be routed was seen before.
        let _ = vhost.publish_all(&mut transaction.messages, route, |_, _, _| {});
        for (delivery, kind) in transaction.settlements {
            kind.finish()(vhost, &delivery);
        }
        for (first, last) in transaction.unsettled {
            self.push_range(first, last, TransferOutcome::Accepted, None);
        }
    }

    /// Forgets what was sent in a transaction, and puts its deliveries back into their queues.
    fn roll_back(&mut self, mut transaction: LocalTransaction, vhost: &mut VirtualHost) {
        vhost.memory.note_transaction(transaction.messages.bytes(), 0);
        transaction.messages.clear(&mut vhost.memory);
        for (delivery, _) in transaction.settlements {
            vhost.return_delivery(&delivery);
        }
        for (first, last) in transaction.unsettled {
            self.push_range(first, last, TransferOutcome::Released, None);
        }
    }

    /// A link is gone: what was declared on it is rolled back. Tells whether it led to the coordinator.
    pub(crate) fn end_coordination(&mut self, handle: u32, vhost: &mut VirtualHost) -> bool {
        let links = self.coordinator.links.len();
        self.coordinator.links.retain(|it| *it != handle);
        let open = std::mem::take(&mut self.coordinator.open);
        for (number, transaction) in open {
            if transaction.handle == handle {
                self.roll_back(transaction, vhost);
            } else {
                self.coordinator.open.insert(number, transaction);
            }
        }
        self.coordinator.links.len() < links
    }

    /// The session is over: what is open is rolled back.
    pub(crate) fn end_transactions(&mut self, vhost: &mut VirtualHost) {
        while let Some((_, transaction)) = self.coordinator.open.pop_first() {
            self.roll_back(transaction, vhost);
        }
    }
}

/// Publishes to be confirmed, by their number on the channel.
#[derive(Debug, Default)]
pub(crate) struct Confirms {
    /// The last one received.
    pub(crate) published: u64,
    /// The last one answered.
    pub(crate) answered: u64,
    /// Those after `answered` that a queue refused; ascending.
    pub(crate) refused: Vec<u64>,
    /// Whether the channel is in its connection's list of channels to answer.
    pub(crate) is_due: bool,
    /// Where a fault makes answers wait: from when on those up to a number may go; ascending.
    pub(crate) late: VecDeque<(Time, u64)>,
}

impl Confirms {
    /// Lets the answer to the last message wait until `due`, or longer where one before it does.
    /// Returns when it goes, where nothing else will go then.
    pub(crate) fn delay(&mut self, due: Time) -> Option<Time> {
        let published = self.published;
        if let Some((last, number)) = self.late.back_mut()
            && *last >= due
        {
            *number = published;
            return None;
        }
        if self.late.is_empty() && published > self.answered + 1 {
            // Those before it need not wait.
            self.late.push_back((Time(0), published - 1));
        }
        self.late.push_back((due, published));
        Some(due)
    }

    /// The last message whose answer may go now.
    fn ready(&mut self, now: Time) -> u64 {
        let mut up_to = self.answered;
        while let Some(&(due, number)) = self.late.front() {
            if due > now {
                return up_to;
            }
            up_to = number;
            self.late.pop_front();
        }
        self.published
    }

    /// Answers all that was published and need not wait, with as few answers as possible.
    pub(crate) fn answer(&mut self, now: Time, mut send: impl FnMut(Answer)) {
        self.is_due = false;
        let up_to = if self.late.is_empty() { self.published } else { self.ready(now) };
        let refused = self.refused.partition_point(|tag| *tag <= up_to);
        for tag in self.refused.drain(..refused) {
            if tag - 1 > self.answered {
                let multiple = tag - 1 > self.answered + 1;
                send(Answer { tag: tag - 1, multiple, refused: false });
            }
            send(Answer { tag, multiple: false, refused: true });
            self.answered = tag;
        }
        if up_to > self.answered {
            let multiple = up_to > self.answered + 1;
            send(Answer { tag: up_to, multiple, refused: false });
            self.answered = up_to;
        }
    }
}

/// Publishes and acknowledgements until the commit.
#[derive(Debug, Default)]
pub(crate) struct Transaction {
    pub(crate) messages: Log,
    /// For each message, whether it is mandatory.
    pub(crate) mandatory: Vec<bool>,
    pub(crate) settlements: Vec<Settlement>,
}

/// An acknowledgement or a refusal of deliveries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settlement {
    /// The delivery; 0 with `multiple` for all.
    pub(crate) tag: u64,
    pub(crate) multiple: bool,
    pub(crate) kind: SettlementKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SettlementKind {
    /// They were dealt with.
    Accepted,
    /// They were refused for good.
    Rejected,
    /// They go back to their queue.
    Requeued,
    /// They go back to their queue, and count as failed (`delivery-failed` of AMQP 1.0).
    Failed,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers that are due at a time: tag, whether it stands for those before it, whether it refuses.
    fn answers(confirms: &mut Confirms, now: u64) -> Vec<(u64, bool, bool)> {
        let mut all = Vec::new();
        confirms.answer(Time(now), |a| all.push((a.tag, a.multiple, a.refused)));
        all
    }

    #[test]
    fn late_answers_wait_and_are_never_overtaken() {
        let mut confirms = Confirms { published: 3, ..Confirms::default() };
        assert_eq!(confirms.delay(Time(100)), Some(Time(100)));
        assert_eq!(answers(&mut confirms, 10), [(2, true, false)], "those before it go");
        confirms.published = 4;
        assert_eq!(confirms.delay(Time(50)), None, "as late as the one before");
        confirms.published = 5;
        confirms.refused.push(5);
        assert_eq!(confirms.delay(Time(120)), Some(Time(120)));
        assert_eq!(answers(&mut confirms, 99), []);
        assert_eq!(answers(&mut confirms, 100), [(4, true, false)]);
        confirms.published = 6;
        assert_eq!(answers(&mut confirms, 110), [], "not before the ones that wait");
        assert_eq!(answers(&mut confirms, 120), [(5, false, true), (6, false, false)]);
    }

    #[test]
    fn transfers_are_answered_in_order_and_those_alike_together() {
        let mut session = LinkSession::default();
        let wrap = u32::MAX;
        for (id, outcome, due) in [
            (wrap, TransferOutcome::Accepted, None),
            (0, TransferOutcome::Accepted, None),
            (1, TransferOutcome::Released, None),
            (2, TransferOutcome::Rejected, Some(Time(50))),
            (4, TransferOutcome::Rejected, None),
        ] {
            session.push(id, outcome, due);
        }
        let mut answers = |now| {
            let mut all = Vec::new();
            session.answer(Time(now), |first, last, outcome| all.push((first, last, outcome)));
            all
        };
        assert_eq!(answers(49), [(wrap, 0, TransferOutcome::Accepted), (1, 1, TransferOutcome::Released)]);
        assert_eq!(answers(50), [(2, 2, TransferOutcome::Rejected), (4, 4, TransferOutcome::Rejected)]);
        assert_eq!(answers(99), []);
    }

    #[test]
    fn refused_messages_split_the_answer_to_a_batch() {
        let mut confirms = Confirms { published: 10, refused: vec![1, 3, 7, 8], ..Confirms::default() };
        let refused = |tag: u64| (tag, false, true);
        let split =
            [refused(1), (2, false, false), refused(3), (6, true, false), refused(7), refused(8), (10, true, false)];
        assert_eq!(answers(&mut confirms, 0), split);
        confirms.published = 11;
        confirms.refused = vec![11];
        assert_eq!(answers(&mut confirms, 0), [(11, false, true)]);
    }
}
