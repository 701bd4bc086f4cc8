//! The receiving side of one client: what a delivery says, and when it is acknowledged.

use std::num::NonZeroU32;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use measure::{Interval, Metric, Nanos, Time};

use super::client::BUFFER_BYTES;
use super::pages::{Pages, Tracks};
use crate::link::{FRAME_MAX, Link};
use crate::payload::{self, FULL_LEN, Header, Unreadable};
use crate::{Ack, Bodies};

/// Deliveries that stay unacknowledged for this long are acknowledged although there are fewer
/// than a full batch.
const IDLE: Nanos = Nanos(20_000_000);

/// A frame with `basic.ack`.
const ACK_BYTES: usize = 21;
/// Frames around a body: the least, and the most that usual names and properties make of them.
const SMALLEST_DELIVERY: usize = 60;
const DELIVERY_HEAD: usize = 2_048;

/// What a consumer needs to know to judge a delivery.
#[derive(Clone, Debug)]
pub(crate) struct ConsumerSpec {
    pub(crate) ack: Ack,
    pub(crate) prefetch: u16,
    /// Bytes of body to expect.
    pub(crate) message_size: usize,
    /// Deliveries that its group still waits for.
    pub(crate) budget: Option<Arc<AtomicU64>>,
    /// This run's producers, where there are any.
    pub(crate) ours: Option<Ours>,
    /// Where the ledger keeps this consumer's deliveries.
    pub(crate) tracks: Option<TrackSpec>,
}

/// See [`Tracks`].
#[derive(Clone, Debug)]
pub(crate) struct TrackSpec {
    pub(crate) producers: Arc<[u32]>,
    pub(crate) first: usize,
}

/// How this run's messages are told from others.
#[derive(Clone, Debug)]
pub(crate) struct Ours {
    pub(crate) run_id: u32,
    /// All producers send all-out, so that a message without `s_i` has `s_i = t_i`.
    pub(crate) all_out: bool,
    /// There are messages without a header, and nothing can be told of any.
    pub(crate) bare: bool,
    /// What follows the headers, where it is more than filler.
    pub(crate) tails: Option<Arc<Tails>>,
}

/// The bodies from files that producers send.
#[derive(Debug)]
pub(crate) struct Tails {
    /// By the numbers of their producers.
    pub(crate) groups: Vec<(Range<u32>, Arc<Bodies>)>,
}

impl Tails {
    /// Whether what follows the header is what was sent.
    fn is_whole(&self, header: &Header, body: &[u8]) -> bool {
        // They always have the full header, which alone has a run.
        let ours = header.run.and_then(|_| {
            let groups = self.groups.iter();
            groups
                .clone()
                .find(|(ids, _)| ids.contains(&header.producer))
        });
        match ours {
            Some((_, bodies)) => body.get(FULL_LEN..) == Some(bodies.content(header.sequence)),
            None => payload::is_whole(body),
        }
    }
}

/// Neighbouring deliveries with the same times.
#[derive(Clone, Copy, Debug, Default)]
struct Gathered {
    intended: Time,
    sent: Option<Time>,
    count: u64,
}

pub(crate) struct Consumer {
    spec: ConsumerSpec,
    /// Acknowledge after so many; 0 for never.
    every: u32,
    /// Earlier messages are an earlier run's.
    start: Time,
    unacked: u32,
    last_tag: u64,
    last_delivery: Time,
    gathered: Gathered,
    /// Intended time of the last of this run's messages.
    latest: Time,
    tracks: Option<Tracks>,
}

impl Consumer {
    pub(crate) fn new(mut spec: ConsumerSpec) -> Self {
        let tracks = spec
            .tracks
            .take()
            .map(|tracks| Tracks::new(tracks.producers, tracks.first));
        let every = match spec.ack {
            Ack::Auto => 0,
            // The broker stops at the prefetch limit, so waiting for more would be for ever.
            Ack::Every(n) if spec.prefetch > 0 => n.clamp(1, u32::from(spec.prefetch)),
            Ack::Every(n) => n.max(1),
        };
        Self {
            spec,
            every,
            start: Time(0),
            unacked: 0,
            last_tag: 0,
            last_delivery: Time(0),
            gathered: Gathered::default(),
            latest: Time(0),
            tracks,
        }
    }

    /// The most acknowledgements that one read can lead to.
    pub(crate) fn output_room(&self) -> usize {
        let Some(every) = NonZeroU32::new(self.every) else {
            return 0;
        };
        let deliveries = match self.spec.prefetch {
            0 => BUFFER_BYTES / (self.spec.message_size + SMALLEST_DELIVERY),
            prefetch => usize::from(prefetch),
        };
        (deliveries / every.get() as usize + 1) * ACK_BYTES
    }

    /// The largest piece of a delivery that a read may cut off.
    pub(crate) fn input_room(&self) -> usize {
        (self.spec.message_size + DELIVERY_HEAD).min(FRAME_MAX as usize)
    }

    pub(crate) const fn start(&mut self, start: Time) {
        self.start = start;
    }

    /// Intended time of the last of this run's messages.
    pub(crate) const fn latest(&self) -> Time {
        self.latest
    }

    /// Its connection is gone, and what was not acknowledged goes back to its queue.
    pub(crate) const fn restart(&mut self) {
        self.unacked = 0;
    }

    /// Whether it may have deliveries to acknowledge when nothing comes for a while.
    pub(crate) const fn gathers_acks(&self) -> bool {
        self.every > 1
    }

    /// Takes one delivery; tells whether it is one of this run's messages. Call
    /// [`Self::end_of_batch`] after the last one with the same `now`.
    #[inline]
    pub(crate) fn take(
        &mut self,
        (body, redelivered): (&[u8], bool),
        now: Time,
        interval: &mut Interval,
        latency: &mut Nanos,
        pages: Option<&mut Pages>,
    ) -> bool {
        interval.counters.received += 1;
        interval.counters.redelivered += u64::from(redelivered);
        if self.spec.ours.as_ref().is_some_and(|ours| ours.bare) {
            return true;
        }
        let (header, mut pages) = match (payload::read(body, now), pages) {
            (Ok(header), pages) => (header, pages),
            (Err(cause), pages) => {
                if let Some(pages) = pages {
                    pages.odd.corrupt += u64::from(cause == Unreadable::Corrupt);
                    pages.odd.foreign += u64::from(cause == Unreadable::Foreign);
                }
                return false;
            }
        };
        let mut sent = header.sent;
        if let Some(ours) = &self.spec.ours {
            let foreign = header.run.is_some_and(|run| run != ours.run_id);
            if foreign || header.intended < self.start {
                if let Some(pages) = pages {
                    pages.odd.foreign += 1;
                }
                return false;
            }
            if ours.all_out {
                sent = Some(sent.unwrap_or(header.intended));
            }
        }
        if let (Some(tracks), Some(pages)) = (&mut self.tracks, &mut pages) {
            tracks.take(&header, redelivered, pages);
            let tails = self.spec.ours.as_ref().and_then(|ours| ours.tails.as_ref());
            let whole = match tails {
                None => payload::is_whole(body),
                Some(tails) => tails.is_whole(&header, body),
            };
            pages.odd.corrupt += u64::from(!whole);
        }
        self.latest = header.intended;
        let gathered = &mut self.gathered;
        if gathered.count > 0 && (gathered.intended, gathered.sent) == (header.intended, sent) {
            gathered.count += 1;
        } else {
            self.record(now, interval, latency);
            self.gathered = Gathered {
                intended: header.intended,
                sent,
                count: 1,
            };
        }
        true
    }

    #[inline]
    fn record(&mut self, now: Time, interval: &mut Interval, latency: &mut Nanos) {
        let Gathered {
            intended,
            sent,
            count,
        } = std::mem::take(&mut self.gathered);
        if count == 0 {
            return;
        }
        *latency = now.since(intended);
        interval
            .latencies
            .record_n(Metric::EndToEnd, *latency, count);
        if let Some(sent) = sent {
            interval
                .latencies
                .record_n(Metric::Transfer, now.since(sent), count);
        }
    }

    /// Records what is gathered.
    #[inline]
    pub(crate) fn end_of_batch(&mut self, now: Time, interval: &mut Interval, latency: &mut Nanos) {
        self.record(now, interval, latency);
    }

    /// Whether the group still wants a delivery; takes it off the budget. One too many is neither
    /// counted nor acknowledged, so that it goes back to its queue.
    #[inline]
    pub(crate) fn wants(&self) -> Wanted {
        let Some(budget) = &self.spec.budget else {
            return Wanted::Yes;
        };
        let take = |left: u64| left.checked_sub(1);
        match budget.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
            Ok(1) => Wanted::Last,
            Ok(_) => Wanted::Yes,
            Err(_) => Wanted::No,
        }
    }

    /// Notes that a delivery awaits its acknowledgement, and sends that when it is time.
    #[inline]
    pub(crate) fn acknowledge(&mut self, tag: u64, now: Time, link: &mut Link) {
        if self.every == 0 {
            return;
        }
        self.unacked += 1;
        self.last_tag = tag;
        self.last_delivery = now;
        if self.unacked >= self.every {
            self.flush(link);
        }
    }

    /// Acknowledges all that is left.
    pub(crate) fn flush(&mut self, link: &mut Link) {
        if self.unacked > 0 {
            link.ack(self.last_tag, self.unacked > 1);
            self.unacked = 0;
        }
    }

    /// Acknowledges what is left when deliveries pause; tells whether it did.
    pub(crate) fn flush_if_idle(&mut self, now: Time, link: &mut Link) -> bool {
        let due = self.unacked > 0 && now.since(self.last_delivery) >= IDLE;
        if due {
            self.flush(link);
        }
        due
    }
}

/// Whether a group of consumers still waits for deliveries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    Yes,
    /// This one, and no more.
    Last,
    No,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_behind_the_header_is_seen_whatever_is_there() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a"), b"first").unwrap();
        std::fs::write(folder.path().join("b"), b"second").unwrap();
        let bodies = Arc::new(Bodies::read(folder.path()).unwrap());
        let tails = Tails {
            groups: vec![(3..5, Arc::clone(&bodies))],
        };
        let judged = |producer: u32, sequence: u64, tail: &[u8]| {
            let mut body = [[0; FULL_LEN].as_slice(), tail].concat();
            payload::write(&mut body, 7, producer, sequence, Time(5), Time(6));
            let header = payload::read(&body, Time(9)).unwrap();
            tails.is_whole(&header, &body)
        };
        assert!(judged(3, 0, b"first") && judged(4, 7, b"second"));
        assert!(!judged(3, 1, b"first"), "another message's body");
        assert!(!judged(3, 0, b"firsT"));
        assert!(judged(2, 0, &[0; 9]), "filler");
        assert!(!judged(5, 0, b"first"), "should be filler");
    }
}
