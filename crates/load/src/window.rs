//! The messages of one producer that the broker has not answered yet.
//!
//! A ring indexed by delivery tag: AMQP 0.9.1 numbers a channel's publishes 1, 2, 3, … once
//! confirms are selected, and the broker answers single tags in any order or all tags up to one.

use measure::Time;

/// A ring never holds more messages than this (256 MiB), whatever is in flight; a producer at it waits.
const LARGEST_RING: u64 = 1 << 24;
/// A limited ring may grow to this many times its limit while later messages are answered, the oldest not.
const STRETCH: u64 = 16;
/// Due and send time of a message. As numbers, so that a ring of zeros costs no memory before it is used.
type Entry = [u64; 2];
/// Answered, but an older message is not: nothing is sent at 0.
const SETTLED: Entry = [0, 0];

/// Messages one after the other with the same times, answered together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// Tag of the first.
    pub(crate) first: u64,
    pub(crate) intended: Time,
    pub(crate) sent: Time,
    pub(crate) count: u64,
}

/// The broker answered a message that was never sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NeverSent;

#[derive(Debug)]
pub(crate) struct Window {
    ring: Vec<Entry>,
    /// Tag of the oldest message in the ring; tags below are answered.
    first: u64,
    next: u64,
    /// The highest tag that is answered.
    answered: u64,
    /// When the oldest message was sent that was answered since this was asked for.
    oldest_answered: u64,
    /// Messages unanswered.
    open: u64,
    limit: u64,
    /// Messages that the ring may span.
    span_limit: u64,
}

impl Window {
    /// A window for `limit` messages in flight; 0 for no limit.
    pub(crate) fn new(limit: u32) -> Self {
        let limit = if limit == 0 { LARGEST_RING } else { u64::from(limit) };
        let limit = limit.min(LARGEST_RING);
        // Half as much again, so that answers a little out of order need no growth.
        let ring = (limit + limit / 2).clamp(64, 1 << 16).next_power_of_two();
        Self {
            ring: vec![SETTLED; ring as usize],
            first: 1,
            next: 1,
            answered: 0,
            oldest_answered: u64::MAX,
            open: 0,
            limit,
            span_limit: (limit * STRETCH).clamp(1 << 16, LARGEST_RING),
        }
    }

    /// Forgets all messages, for a channel that counts from 1 again; tells how many were open.
    pub(crate) fn restart(&mut self) -> u64 {
        self.ring.fill(SETTLED);
        (self.first, self.next, self.answered) = (1, 1, 0);
        std::mem::take(&mut self.open)
    }

    pub(crate) const fn open(&self) -> u64 {
        self.open
    }

    /// When the oldest message without an answer was sent.
    pub(crate) fn oldest(&self) -> Option<Time> {
        (self.first < self.next).then(|| Time(self.ring[self.slot(self.first)][1]))
    }

    /// Messages that are not answered and do not hang, and when the first of them was sent. One hangs that was sent
    /// before that time, while a later one is answered.
    pub(crate) fn waiting(&self, before: Time) -> (u64, Option<Time>) {
        let mut hanging = 0;
        for tag in self.first..self.next {
            let entry = self.ring[self.slot(tag)];
            if entry == SETTLED {
                continue;
            }
            if tag > self.answered || entry[1] >= before.0 {
                return (self.open - hanging, Some(Time(entry[1])));
            }
            hanging += 1;
        }
        (0, None)
    }

    /// When the oldest message was sent that was answered since the last call; the largest time where none was.
    pub(crate) const fn take_oldest_answered(&mut self) -> Time {
        Time(std::mem::replace(&mut self.oldest_answered, u64::MAX))
    }

    /// When each message without an answer was to be sent.
    pub(crate) fn unanswered(&self) -> impl Iterator<Item = Time> {
        let entries = (self.first..self.next).map(|tag| self.ring[self.slot(tag)]);
        entries.filter(|entry| *entry != SETTLED).map(|[intended, _]| Time(intended))
    }

    /// How many more messages may be sent now.
    pub(crate) fn room(&self) -> u64 {
        let span = self.next - self.first;
        (self.limit - self.open).min(self.span_limit - span)
    }

    /// Notes that the next message was sent. The caller has asked [`Self::room`].
    #[inline]
    pub(crate) fn push(&mut self, intended: Time, sent: Time) {
        if self.next - self.first == self.ring.len() as u64 {
            self.grow();
        }
        let at = self.slot(self.next);
        self.ring[at] = [intended.0, sent.0];
        self.next += 1;
        self.open += 1;
    }

    /// Takes an answer for one tag, or with `multiple` for all up to it (0 for all), and shows what
    /// it answers in runs of equal times. Tags already answered are skipped.
    #[inline]
    pub(crate) fn settle(&mut self, tag: u64, multiple: bool, mut settled: impl FnMut(Run)) -> Result<(), NeverSent> {
        if tag >= self.next || (tag == 0 && !multiple) {
            return Err(NeverSent);
        }
        let last = if tag == 0 { self.next - 1 } else { tag };
        self.answered = self.answered.max(last);
        if multiple {
            self.settle_through(last, settled);
        } else if tag >= self.first {
            let at = self.slot(tag);
            let entry = std::mem::replace(&mut self.ring[at], SETTLED);
            if entry != SETTLED {
                self.open -= 1;
                self.oldest_answered = self.oldest_answered.min(entry[1]);
                settled(Run { first: tag, intended: Time(entry[0]), sent: Time(entry[1]), count: 1 });
            }
            self.skip_settled();
        }
        Ok(())
    }

    fn settle_through(&mut self, last: u64, mut settled: impl FnMut(Run)) {
        let mut run: Option<Run> = None;
        if self.first <= last {
            let oldest = self.ring[self.slot(self.first)][1];
            self.oldest_answered = self.oldest_answered.min(oldest);
        }
        while self.first <= last {
            let at = self.slot(self.first);
            let entry = self.ring[at];
            self.first += 1;
            if entry == SETTLED {
                if let Some(done) = run.take() {
                    settled(done);
                }
                continue;
            }
            self.open -= 1;
            match &mut run {
                Some(run) if [run.intended.0, run.sent.0] == entry => {
                    run.count += 1;
                }
                _ => {
                    let next = Run { first: self.first - 1, intended: Time(entry[0]), sent: Time(entry[1]), count: 1 };
                    if let Some(done) = run.replace(next) {
                        settled(done);
                    }
                }
            }
        }
        if let Some(done) = run {
            settled(done);
        }
        self.skip_settled();
    }

    fn skip_settled(&mut self) {
        while self.first < self.next && self.ring[self.slot(self.first)] == SETTLED {
            self.first += 1;
        }
    }

    const fn slot(&self, tag: u64) -> usize {
        // The length is a power of two.
        (tag & (self.ring.len() as u64 - 1)) as usize
    }

    #[cold]
    fn grow(&mut self) {
        let mut ring = vec![SETTLED; self.ring.len() * 2];
        let mask = ring.len() as u64 - 1;
        for tag in self.first..self.next {
            ring[(tag & mask) as usize] = self.ring[self.slot(tag)];
        }
        self.ring = ring;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use testkit::Random;

    use super::*;

    fn settle(window: &mut Window, tag: u64, multiple: bool) -> Vec<Run> {
        let mut runs = Vec::new();
        window.settle(tag, multiple, |run| runs.push(run)).unwrap();
        runs
    }

    #[test]
    fn a_new_channel_counts_from_one_again() {
        let mut window = Window::new(10);
        for _ in 0..5 {
            window.push(Time(1), Time(1));
        }
        settle(&mut window, 2, false);
        assert_eq!(window.restart(), 4);
        assert_eq!((window.open(), window.room()), (0, 10));
        assert_eq!(window.settle(1, false, |_| ()), Err(NeverSent));
        window.push(Time(7), Time(8));
        let run = settle(&mut window, 1, false);
        assert_eq!((run.len(), run[0].intended), (1, Time(7)));
    }

    #[test]
    fn a_tag_that_was_never_sent_is_an_error() {
        let mut window = Window::new(10);
        window.push(Time(1), Time(1));
        assert_eq!(window.settle(2, false, |_| ()), Err(NeverSent));
        assert_eq!(window.settle(2, true, |_| ()), Err(NeverSent));
        assert_eq!(window.settle(0, false, |_| ()), Err(NeverSent));
        assert_eq!(window.settle(u64::MAX, true, |_| ()), Err(NeverSent));
        assert_eq!(window.open(), 1);
    }

    #[test]
    fn it_does_what_a_map_would_do() {
        for (seed, limit) in [(1, 1), (2, 7), (3, 64), (4, 100), (5, 0)] {
            let mut random = Random::new(seed);
            let mut window = Window::new(limit);
            let mut model: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
            let mut next = 1;
            for step in 0..20_000u64 {
                for _ in 0..random.below(40).min(window.room()) {
                    let times = (1 + step / 3, 1 + step / 2);
                    window.push(Time(times.0), Time(times.1));
                    model.insert(next, times);
                    next += 1;
                }
                if next == 1 {
                    continue;
                }
                let multiple = random.below(3) == 0;
                let is_for_all = multiple && random.one_in(50);
                let tag = if is_for_all { 0 } else { next - 1 - random.below(60.min(next - 1)) };
                let expected: Vec<(u64, (u64, u64))> = if multiple {
                    let later = if is_for_all { BTreeMap::new() } else { model.split_off(&(tag + 1)) };
                    std::mem::replace(&mut model, later).into_iter().collect()
                } else {
                    model.remove_entry(&tag).into_iter().collect()
                };
                let settled = settle(&mut window, tag, multiple);
                assert!(settled.windows(2).all(|w| {
                    (w[0].intended, w[0].sent) != (w[1].intended, w[1].sent) || w[0].first + w[0].count < w[1].first
                }));
                let settled: Vec<(u64, (u64, u64))> = settled
                    .into_iter()
                    .flat_map(|run| {
                        (run.first..run.first + run.count).map(move |tag| (tag, (run.intended.0, run.sent.0)))
                    })
                    .collect();
                assert_eq!(settled, expected);
                assert_eq!(window.open(), model.len() as u64);
                assert!(limit == 0 || window.open() <= u64::from(limit));
            }
        }
    }

    #[test]
    fn an_answer_that_never_comes_stops_the_producer_in_bounded_memory() {
        let mut window = Window::new(2);
        window.push(Time(1), Time(1));
        let mut sent = 1;
        while window.room() > 0 {
            window.push(Time(1), Time(1));
            sent += 1;
            settle(&mut window, sent, false);
        }
        assert_eq!((sent, window.open()), (1 << 16, 1));
        settle(&mut window, 1, false);
        assert_eq!(window.room(), 2);
    }
}
