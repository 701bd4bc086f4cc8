//! One channel of a connection: what it confirms, has delivered, and collects for a transaction.

use std::collections::{HashMap, VecDeque};

use measure::Time;

use crate::log::Log;
use crate::outgoing::{Answer, TransferOutcome};
use crate::slots::Key;
use crate::unacked::Deliveries;
use crate::vhost::RouteCache;

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

/// A transfer to be answered.
#[derive(Clone, Copy, Debug)]
struct Unanswered {
    id: u32,
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
    /// In the order in which they came.
    unanswered: VecDeque<Unanswered>,
    /// Whether the channel is in its connection's list of channels to answer.
    pub(crate) is_due: bool,
}

impl LinkSession {
    /// A transfer is to be answered, where a fault says so not before `due`, and never before those that came before.
    #[inline]
    pub(crate) fn push(&mut self, id: u32, outcome: TransferOutcome, due: Option<Time>) {
        let due = due.max(self.unanswered.back().map(|it| it.due)).unwrap_or_default();
        self.unanswered.push_back(Unanswered { id, outcome, due });
    }

    /// Answers transfers that need not wait, with as few answers as possible: each is for all from one to another.
    pub(crate) fn answer(&mut self, now: Time, mut send: impl FnMut(u32, u32, TransferOutcome)) {
        self.is_due = false;
        let mut range: Option<(u32, Unanswered)> = None;
        while let Some(next) = self.unanswered.front().copied().filter(|it| it.due <= now) {
            self.unanswered.pop_front();
            let first = match range {
                Some((first, last)) if last.outcome == next.outcome && last.id.wrapping_add(1) == next.id => first,
                Some((first, last)) => {
                    send(first, last.id, last.outcome);
                    next.id
                }
                None => next.id,
            };
            range = Some((first, next));
        }
        if let Some((first, last)) = range {
            send(first, last.id, last.outcome);
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
