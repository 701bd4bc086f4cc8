//! Messages of one direction that must arrive: numbered from 1, sent again until the other side has them, handed on
//! once and in order.

use std::collections::{BTreeMap, VecDeque};

use measure::{Nanos, Time};

/// Without an answer for as long, a message is sent again: acknowledgements come with echoes, ten a second.
const RESEND: Nanos = Nanos::from_millis(500);
/// Messages that are sent again at the same time at most.
const BURST: usize = 32;
/// Messages that may wait for an acknowledgement: in a lease, ten slices a second and events.
const MOST_WAITING: usize = 4_096;
/// Messages that are kept while an earlier one is missing.
const MOST_AHEAD: u64 = 256;

/// Messages that were sent, until the other side has them.
#[derive(Debug)]
pub(crate) struct Outbox<T> {
    waiting: VecDeque<Waiting<T>>,
    last: u64,
}

#[derive(Debug)]
struct Waiting<T> {
    number: u64,
    sent: Time,
    body: T,
}

impl<T: Clone> Outbox<T> {
    pub(crate) const fn new() -> Self {
        Self { waiting: VecDeque::new(), last: 0 }
    }

    /// Keeps a message that is sent now; its number.
    pub(crate) fn push(&mut self, now: Time, body: T) -> u64 {
        self.last += 1;
        self.waiting.push_back(Waiting { number: self.last, sent: now, body });
        self.last
    }

    /// The other side has all up to this number.
    pub(crate) fn acknowledge(&mut self, number: u64) {
        while self.waiting.front().is_some_and(|it| it.number <= number) {
            self.waiting.pop_front();
        }
    }

    /// Messages that have to be sent again now.
    pub(crate) fn resend(&mut self, now: Time) -> Vec<(u64, T)> {
        let due = self.waiting.iter_mut().take(BURST).filter(|it| now.since(it.sent) >= RESEND);
        due.map(|it| {
            it.sent = now;
            (it.number, it.body.clone())
        })
        .collect()
    }

    /// When the first has to be sent again.
    pub(crate) fn next_resend(&self) -> Option<Time> {
        self.waiting.iter().take(BURST).map(|it| it.sent + RESEND).min()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.waiting.len() >= MOST_WAITING
    }
}

/// Messages that arrive.
#[derive(Debug)]
pub(crate) struct Inbox<T> {
    /// All up to this number were handed on.
    received: u64,
    ahead: BTreeMap<u64, T>,
}

impl<T> Inbox<T> {
    pub(crate) const fn new() -> Self {
        Self { received: 0, ahead: BTreeMap::new() }
    }

    pub(crate) const fn received(&self) -> u64 {
        self.received
    }

    /// Takes a message; those whose turn it is then.
    pub(crate) fn take(&mut self, number: u64, body: T) -> Vec<T> {
        if number > self.received && number - self.received <= MOST_AHEAD {
            self.ahead.insert(number, body);
        }
        let mut turn = Vec::new();
        while let Some(next) = self.ahead.remove(&(self.received + 1)) {
            self.received += 1;
            turn.push(next);
        }
        turn
    }
}
