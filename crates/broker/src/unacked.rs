//! A channel's unsettled deliveries, by delivery tag.

use std::collections::VecDeque;

use crate::slots::Key;

/// The address of a delivery that stands for no message: settling or returning it changes nothing.
pub(crate) const NOTHING: u64 = u64::MAX;

/// Settled deliveries that are not looked for in a list.
const FEW: usize = 64;

/// A delivery that waits for its acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unacked {
    pub(crate) queue: Key,
    /// Its place in the queue's log.
    pub(crate) address: u64,
    /// Who got it; nobody for `basic.get`.
    pub(crate) consumer: Option<Key>,
    /// A fault had held it back until others had gone first.
    pub(crate) was_overtaken: bool,
    /// Deliveries of the message before that failed.
    pub(crate) failures: u16,
    /// It came from a stream, and is counted with what streams take.
    pub(crate) is_of_stream: bool,
}

/// A place in the list of deliveries.
#[derive(Clone, Copy, Debug)]
enum Entry {
    Waiting(Unacked),
    /// It is settled, as are those behind it up to so many places on.
    Settled(u32),
}

/// The deliveries of one channel, by ascending tag. Acknowledging the oldest ones, singly or many
/// at once, costs nothing that grows with their number.
#[derive(Debug, Default)]
pub(crate) struct Deliveries {
    last_tag: u64,
    waiting: VecDeque<(u64, Entry)>,
    /// Entries of `waiting` that are settled already.
    settled: usize,
}

impl Deliveries {
    /// The tag of a delivery that needs no acknowledgement.
    #[inline]
    pub(crate) const fn next_tag(&mut self) -> u64 {
        self.last_tag += 1;
        self.last_tag
    }

    /// The tag of a delivery that has to be settled.
    #[inline]
    pub(crate) fn push(&mut self, delivery: Unacked) -> u64 {
        let tag = self.next_tag();
        self.waiting.push_back((tag, Entry::Waiting(delivery)));
        tag
    }

    /// How many wait.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.waiting.len() - self.settled
    }

    /// Whether this tag waits.
    pub(crate) fn contains(&self, tag: u64) -> bool {
        self.position(tag).is_some_and(|at| matches!(self.waiting.get(at), Some((_, Entry::Waiting(_)))))
    }

    fn position(&self, tag: u64) -> Option<usize> {
        // Tags follow each other unless some deliveries needed no acknowledgement.
        let first = self.waiting.front()?.0;
        let guess = usize::try_from(tag.checked_sub(first)?).ok()?;
        if self.waiting.get(guess).is_some_and(|w| w.0 == tag) {
            return Some(guess);
        }
        self.waiting.binary_search_by_key(&tag, |w| w.0).ok()
    }

    /// Takes out the delivery of this tag.
    pub(crate) fn take(&mut self, tag: u64) -> Option<Unacked> {
        let at = self.position(tag)?;
        let (_, entry) = self.waiting.get_mut(at)?;
        let Entry::Waiting(delivery) = *entry else { return None };
        *entry = Entry::Settled(1);
        self.settled += 1;
        while let Some((_, Entry::Settled(_))) = self.waiting.front() {
            self.waiting.pop_front();
            self.settled -= 1;
        }
        // A consumer that never settles its first delivery must not make this list grow.
        if self.settled > FEW && self.settled > self.waiting.len() / 2 {
            self.waiting.retain(|(_, entry)| matches!(entry, Entry::Waiting(_)));
            self.settled = 0;
        }
        Some(delivery)
    }

    /// The tag whose lower four bytes, less one, are this number, as AMQP 1.0 counts the deliveries of a session.
    pub(crate) const fn tag_of(&self, id: u32) -> u64 {
        let behind = (self.last_tag as u32).wrapping_sub(1).wrapping_sub(id);
        self.last_tag.saturating_sub(behind as u64)
    }

    /// Takes out the oldest delivery with a tag from `first` to `last`, and tells its tag.
    pub(crate) fn take_between(&mut self, first: u64, last: u64) -> Option<(u64, Unacked)> {
        let at = self.next_waiting(self.waiting.partition_point(|it| it.0 < first));
        let tag = self.waiting.get(at).filter(|it| it.0 <= last)?.0;
        Some((tag, self.take(tag)?))
    }

    /// Where the first delivery that waits stands, from a place on; the end of the list where none does. Those that
    /// were passed on the way lead there at once, so that a client may settle a range again and again.
    fn next_waiting(&mut self, from: usize) -> usize {
        let mut end = from;
        while let Some((_, Entry::Settled(ahead))) = self.waiting.get(end) {
            end += *ahead as usize;
        }
        let mut at = from;
        while at < end
            && let Some((_, Entry::Settled(ahead))) = self.waiting.get_mut(at)
        {
            let passed = at;
            at += *ahead as usize;
            // Tags of 32 bits name the deliveries of a session, so no more of them wait.
            *ahead = u32::try_from(end - passed).unwrap_or(1);
        }
        end
    }

    /// Notes the newest delivery among a link's own, of which so many wait. Those that are settled are forgotten before
    /// they are most of them.
    #[inline]
    pub(crate) fn note(&self, own: &mut Vec<u64>, waiting: u32) {
        if own.len() > FEW + 2 * waiting as usize {
            own.retain(|tag| self.contains(*tag));
        }
        own.push(self.last_tag);
    }

    /// Takes out the oldest delivery with a tag up to `tag`.
    #[inline]
    pub(crate) fn take_up_to(&mut self, tag: u64) -> Option<Unacked> {
        while let Some((first, entry)) = self.waiting.front().copied()
            && first <= tag
        {
            self.waiting.pop_front();
            match entry {
                Entry::Waiting(delivery) => return Some(delivery),
                Entry::Settled(_) => self.settled -= 1,
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slots::Slots;

    fn delivery(address: u64) -> Unacked {
        let mut slots = Slots::default();
        let queue = slots.insert(());
        Unacked { queue, address, consumer: None, was_overtaken: false, failures: 0, is_of_stream: false }
    }

    #[test]
    fn single_and_multiple_acknowledgements() {
        let mut deliveries = Deliveries::default();
        for i in 1..=10 {
            assert_eq!(deliveries.push(delivery(i)), i);
        }
        assert_eq!(deliveries.take(3).map(|d| d.address), Some(3));
        assert_eq!(deliveries.take(3), None, "settled once only");
        assert!(deliveries.contains(4) && !deliveries.contains(3) && !deliveries.contains(11));
        let up_to: Vec<u64> = std::iter::from_fn(|| deliveries.take_up_to(5)).map(|d| d.address).collect();
        assert_eq!(up_to, [1, 2, 4, 5]);
        assert_eq!(deliveries.len(), 5);
        let rest: Vec<u64> = std::iter::from_fn(|| deliveries.take_up_to(u64::MAX)).map(|d| d.address).collect();
        assert_eq!(rest, [6, 7, 8, 9, 10]);
    }

    #[test]
    fn tags_of_deliveries_without_acknowledgement_leave_gaps() {
        let mut deliveries = Deliveries::default();
        let first = deliveries.push(delivery(1));
        for _ in 0..1000 {
            deliveries.next_tag();
        }
        let second = deliveries.push(delivery(2));
        assert_eq!((first, second), (1, 1002));
        assert_eq!(deliveries.take(500), None);
        assert_eq!(deliveries.take(second).map(|d| d.address), Some(2));
        assert_eq!(deliveries.len(), 1);
    }

    #[test]
    fn ranges_are_taken_out_once() {
        let mut deliveries = Deliveries::default();
        for i in 1..=10 {
            deliveries.push(delivery(i));
        }
        assert_eq!([0, 9].map(|id| deliveries.tag_of(id)), [1, 10]);
        let mut first = 3;
        let mut range = Vec::new();
        while let Some((tag, _)) = deliveries.take_between(first, 6) {
            range.push(tag);
            first = tag + 1;
        }
        assert_eq!(range, [3, 4, 5, 6]);
        assert_eq!(deliveries.take_between(3, 6), None);
        assert_eq!(deliveries.len(), 6);
    }

    /// One of them at the end of a long list cost all of it.
    #[test]
    fn a_link_knows_its_own_deliveries_and_forgets_those_that_are_settled() {
        let (mut deliveries, mut own) = (Deliveries::default(), Vec::new());
        for i in 1..=20_000 {
            let tag = deliveries.push(delivery(i));
            if i % 100 == 0 {
                deliveries.note(&mut own, 3);
                assert!(i < 1_000 || deliveries.take(tag - 900).is_some());
            }
        }
        assert!(own.len() <= FEW + 2 * 3 + 1, "{own:?}");
        let left: Vec<u64> = own.iter().filter_map(|tag| deliveries.take(*tag)).map(|it| it.address).collect();
        assert_eq!(left, (192..=200).map(|it| it * 100).collect::<Vec<u64>>());
    }

    #[test]
    fn a_range_that_is_settled_already_is_walked_through_once() {
        /// Steps from the delivery of a tag to the next that waits.
        fn steps(deliveries: &Deliveries, tag: u64) -> usize {
            let (mut at, mut steps) = (deliveries.position(tag).expect("a delivery"), 0);
            while let Some((_, Entry::Settled(ahead))) = deliveries.waiting.get(at) {
                at += *ahead as usize;
                steps += 1;
            }
            steps
        }
        let mut deliveries = Deliveries::default();
        for i in 0..20_000 {
            deliveries.push(delivery(i));
        }
        let mut first = 2;
        while let Some((tag, _)) = deliveries.take_between(first, 6_000) {
            first = tag + 1;
        }
        assert_eq!((deliveries.len(), deliveries.waiting.len()), (14_001, 20_000));
        assert_eq!(steps(&deliveries, 2), 5_999);
        assert_eq!(deliveries.take_between(2, 6_000), None);
        assert_eq!([2, 3, 4_000, 6_000].map(|tag| steps(&deliveries, tag)), [1; 4], "whichever part is asked for");
        // What is settled behind it joins.
        assert_eq!(deliveries.take_between(2, 6_001).map(|it| it.0), Some(6_001));
        assert_eq!(deliveries.take_between(3, 6_001), None);
        assert_eq!([3, 6_001].map(|tag| steps(&deliveries, tag)), [1; 2]);
        assert_eq!(steps(&deliveries, 2), 2);
        assert_eq!(deliveries.take_between(0, 6_001).map(|it| it.0), Some(1));
        assert_eq!((deliveries.len(), deliveries.waiting.len()), (13_999, 13_999));
        assert_eq!(deliveries.take_between(0, 6_001), None);
        assert_eq!(deliveries.take_between(6_000, 6_002).map(|it| it.0), Some(6_002));
    }

    #[test]
    fn one_forgotten_delivery_does_not_make_the_list_grow() {
        let mut deliveries = Deliveries::default();
        deliveries.push(delivery(0));
        for i in 0..100_000 {
            let tag = deliveries.push(delivery(i));
            assert_eq!(deliveries.take(tag).map(|d| d.address), Some(i));
            assert_eq!(deliveries.len(), 1);
        }
        assert!(deliveries.waiting.len() < 200);
        assert_eq!(deliveries.take(1).map(|d| d.address), Some(0));
        assert_eq!((deliveries.len(), deliveries.waiting.len()), (0, 0));
    }
}
