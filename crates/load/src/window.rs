//! The messages of one producer that the broker has not answered yet.
//!
//! A ring indexed by delivery tag: AMQP 0.9.1 numbers a channel's publishes 1, 2, 3, … once
//! confirms are selected, and the broker answers single tags in any order or all tags up to one.

use measure::Time;

/// A ring never holds more messages than this (256 MiB), whatever is in flight; a producer at it waits.
const LARGEST_RING: u64 = 1 << 24;
/// A limited ring may grow to this many times its limit while later messages are answered, the oldest not.
const STRETCH: u64 = 16;
/// Due and send time of a message. As numbers, so that a ring of zeros costs no memory before it is used. Of an
/// answered one the first number tells how many from it on are, as far as it was looked for; 0 for one.
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

const fn is_settled(entry: Entry) -> bool {
    entry[1] == 0
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
            if is_settled(entry) {
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

    /// The tag of each message without an answer, and when it was to be sent.
    pub(crate) fn unanswered(&self) -> impl Iterator<Item = (u64, Time)> {
        let entries = (self.first..self.next).map(|tag| (tag, self.ring[self.slot(tag)]));
        entries.filter(|(_, entry)| !is_settled(*entry)).map(|(tag, [intended, _])| (tag, Time(intended)))
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

    /// Takes an answer for the tags from `first` to `last`; without `first` for all up to `last` (0 for all). Shows
    /// what it answers in runs of equal times. Tags already answered are skipped, and not walked through once more.
    #[inline]
    pub(crate) fn settle(
        &mut self,
        first: Option<u64>,
        last: u64,
        mut settled: impl FnMut(Run),
    ) -> Result<(), NeverSent> {
        if last >= self.next || first.is_some_and(|first| first == 0 || last == 0) {
            return Err(NeverSent);
        }
        let last = if last == 0 { self.next - 1 } else { last };
        self.answered = self.answered.max(last);
        match first {
            Some(first) if first == last => self.settle_one(last, settled),
            Some(first) if first > self.first => {
                let mut tag = self.next_open(first);
                while tag <= last {
                    self.settle_one(tag, &mut settled);
                    tag = self.next_open(tag + 1);
                }
            }
            _ => self.settle_through(last, settled),
        }
        Ok(())
    }

    #[inline]
    fn settle_one(&mut self, tag: u64, mut settled: impl FnMut(Run)) {
        if tag < self.first {
            return;
        }
        let at = self.slot(tag);
        let entry = self.ring[at];
        if !is_settled(entry) {
            self.ring[at] = SETTLED;
            self.open -= 1;
            self.oldest_answered = self.oldest_answered.min(entry[1]);
            settled(Run { first: tag, intended: Time(entry[0]), sent: Time(entry[1]), count: 1 });
        }
        self.skip_settled();
    }

    /// The first tag from one on that is not answered; the next to be sent where all are. Those that were passed on the
    /// way lead there at once.
    fn next_open(&mut self, from: u64) -> u64 {
        let mut end = from;
        while end < self.next && is_settled(self.ring[self.slot(end)]) {
            end += self.ring[self.slot(end)][0].max(1);
        }
        let mut tag = from;
        while tag < end {
            let at = self.slot(tag);
            let ahead = self.ring[at][0].max(1);
            self.ring[at][0] = end - tag;
            tag += ahead;
        }
        end
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
            if is_settled(entry) {
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
        while self.first < self.next && is_settled(self.ring[self.slot(self.first)]) {
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

/// Messages without an answer on an earlier connection. On the present one they have the first delivery tags.
#[derive(Debug, Default)]
pub(crate) struct Resends {
    /// Sequence numbers, ascending, and due times.
    messages: Vec<(u64, Time)>,
    /// How many were sent on the present connection.
    sent: usize,
}

impl Resends {
    /// Takes over what has no answer, in front of what was not sent again yet. `first_tag` is as on the connection that
    /// is lost.
    #[cold]
    pub(crate) fn restart(&mut self, window: &mut Window, first_tag: u64) {
        let open = window.unanswered().map(|(tag, intended)| (self.sequence(tag, first_tag), intended));
        self.messages = open.chain(self.pending()).collect();
        self.sent = 0;
        window.restart();
    }

    pub(crate) const fn count(&self) -> u64 {
        self.messages.len() as u64
    }

    /// Whether some are to be sent on the present connection.
    #[inline]
    pub(crate) const fn is_pending(&self) -> bool {
        self.sent < self.messages.len()
    }

    /// Those that are to be sent.
    pub(crate) fn pending(&self) -> impl ExactSizeIterator<Item = (u64, Time)> {
        self.messages.get(self.sent..).unwrap_or_default().iter().copied()
    }

    /// The next of them is sent.
    pub(crate) const fn advance(&mut self) {
        self.sent += 1;
    }

    /// The sequence number behind a delivery tag; `first_tag` is the one of tag 1, if it had been a new message.
    pub(crate) fn sequence(&self, tag: u64, first_tag: u64) -> u64 {
        let new = first_tag + tag - 1;
        self.messages.get(tag as usize - 1).map_or(new, |(sequence, _)| *sequence)
    }

    /// The delivery tag of a message that was sent again on the present connection.
    pub(crate) fn tag(&self, sequence: u64) -> Option<u64> {
        let sent = self.messages.get(..self.sent)?;
        let at = sent.binary_search_by_key(&sequence, |(sequence, _)| *sequence);
        at.ok().map(|at| at as u64 + 1)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use testkit::Random;

    use super::*;

    fn settle(window: &mut Window, first: Option<u64>, last: u64) -> Vec<Run> {
        let mut runs = Vec::new();
        window.settle(first, last, |run| runs.push(run)).unwrap();
        runs
    }

    #[test]
    fn a_new_channel_counts_from_one_again() {
        let mut window = Window::new(10);
        for _ in 0..5 {
            window.push(Time(1), Time(1));
        }
        settle(&mut window, Some(2), 2);
        assert_eq!(window.restart(), 4);
        assert_eq!((window.open(), window.room()), (0, 10));
        assert_eq!(window.settle(Some(1), 1, |_| ()), Err(NeverSent));
        window.push(Time(7), Time(8));
        let run = settle(&mut window, Some(1), 1);
        assert_eq!((run.len(), run[0].intended), (1, Time(7)));
    }

    #[test]
    fn what_is_sent_again_keeps_its_number_however_often_its_connection_is_lost() {
        let (mut window, mut resends) = (Window::new(10), Resends::default());
        (1..=5).for_each(|n| window.push(Time(n), Time(n)));
        settle(&mut window, Some(2), 2);
        resends.restart(&mut window, 0);
        let pending = |resends: &Resends| resends.pending().map(|(n, due)| (n, due.0)).collect::<Vec<_>>();
        assert_eq!(pending(&resends), [(0, 1), (2, 3), (3, 4), (4, 5)]);
        for (n, due) in [(0, 1), (2, 3)] {
            assert_eq!(resends.pending().next(), Some((n, Time(due))));
            window.push(Time(due), Time(7));
            resends.advance();
        }
        assert_eq!([0, 1, 2, 3].map(|n| resends.tag(n)), [Some(1), None, Some(2), None]);
        settle(&mut window, Some(1), 1);
        // Number 5 would be the next, behind the four that are sent again.
        resends.restart(&mut window, 5 - 4);
        assert_eq!((pending(&resends), window.open()), (vec![(2, 3), (3, 4), (4, 5)], 0));
        assert_eq!([1, 2, 3, 4].map(|tag| resends.sequence(tag, 5 - 3)), [2, 3, 4, 5]);
    }

    #[test]
    fn a_tag_that_was_never_sent_is_an_error() {
        let mut window = Window::new(10);
        window.push(Time(1), Time(1));
        for (first, last) in [(Some(2), 2), (None, 2), (Some(0), 0), (Some(1), 2), (Some(1), 0), (None, u64::MAX)] {
            assert_eq!(window.settle(first, last, |_| ()), Err(NeverSent), "{first:?} {last}");
        }
        assert_eq!(window.open(), 1);
    }

    #[test]
    fn a_range_that_is_answered_already_is_walked_through_once() {
        /// Steps from a tag to the next that is open.
        fn steps(window: &Window, mut tag: u64) -> u64 {
            let mut steps = 0;
            while tag < window.next && is_settled(window.ring[window.slot(tag)]) {
                tag += window.ring[window.slot(tag)][0].max(1);
                steps += 1;
            }
            steps
        }
        let mut window = Window::new(1_000);
        for _ in 0..1_000 {
            window.push(Time(1), Time(1));
        }
        let answered = |runs: Vec<Run>| runs.iter().map(|run| run.count).sum::<u64>();
        assert_eq!(answered(settle(&mut window, Some(2), 900)), 899);
        assert_eq!(steps(&window, 2), 899);
        assert_eq!(answered(settle(&mut window, Some(2), 900)), 0);
        assert_eq!([2, 3, 500, 900].map(|tag| steps(&window, tag)), [1; 4], "whichever part is answered again");
        assert_eq!(answered(settle(&mut window, Some(800), 950)), 50);
        assert_eq!(answered(settle(&mut window, Some(2), 950)), 0);
        assert_eq!([2, 901].map(|tag| steps(&window, tag)), [1; 2]);
        // A ring that grows keeps where they lead.
        for _ in 0..2_000 {
            window.push(Time(1), Time(1));
        }
        assert_eq!((steps(&window, 2), answered(settle(&mut window, Some(3), 951))), (1, 1));
        assert_eq!((answered(settle(&mut window, Some(1), 951)), window.open(), window.first), (1, 2_049, 952));
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
                let multiple = random.below(4) == 0;
                let is_for_all = multiple && random.one_in(50);
                let tag = if is_for_all { 0 } else { next - 1 - random.below(60.min(next - 1)) };
                let range = if random.below(3) == 0 { random.below(tag.clamp(1, 40)) } else { 0 };
                let first = (!multiple).then(|| tag - range);
                let last = if is_for_all { u64::MAX } else { tag };
                let tags: Vec<u64> = model.range(first.unwrap_or(0)..=last).map(|(tag, _)| *tag).collect();
                let expected: Vec<(u64, (u64, u64))> = tags.iter().filter_map(|tag| model.remove_entry(tag)).collect();
                let settled = settle(&mut window, first, tag);
                assert!(settled.windows(2).all(|w| {
                    first.is_some()
                        || (w[0].intended, w[0].sent) != (w[1].intended, w[1].sent)
                        || w[0].first + w[0].count < w[1].first
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
            settle(&mut window, Some(sent), sent);
        }
        assert_eq!((sent, window.open()), (1 << 16, 1));
        settle(&mut window, Some(1), 1);
        assert_eq!(window.room(), 2);
    }
}
