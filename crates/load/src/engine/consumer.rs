//! The receiving side of one client: what a delivery says, and when it is acknowledged.

use std::num::NonZeroU32;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use measure::{EarlyDeliveries, Metric, Nanos, Slice, Time};

use super::ledger::{ProducerBitmaps, ThreadLedger};
use super::service::Service;
use crate::protocol::{Connection, Received, Receiver, WireSizes};
use crate::{Ack, Bodies, Error, Refusal, ServiceTime};
use plan::payload::{self, Header, Unreadable};
use plan::{Owed, SenderClock};

/// Deliveries that stay unacknowledged for this long are acknowledged although there are fewer than a full batch.
const IDLE: Nanos = Nanos(20_000_000);

/// The longest after an acknowledgement that a queue may take to send what it releases.
const RELEASE: Nanos = Nanos::SECOND;

/// A consumer's settings, as needed to judge a delivery.
#[derive(Clone, Debug)]
pub(crate) struct ConsumerSpec {
    pub(crate) ack: Ack,
    pub(crate) refuse: Option<Refusal>,
    /// Deliveries of a transaction; 0 without them.
    pub(crate) commit_every: u32,
    pub(crate) prefetch: u16,
    /// Ask for each message this long after the last answer.
    pub(crate) poll: Option<Nanos>,
    pub(crate) service: ServiceTime,
    /// It begins this long after the load.
    pub(crate) delay: Nanos,
    pub(crate) message_size: usize,
    /// Every delivery is answered by its own body, where it says where to.
    pub(crate) responds: bool,
    /// Where to look for a message's header first: in its trace header, or in its body.
    pub(crate) has_trace_header: bool,
    /// Deliveries that its group still waits for.
    pub(crate) budget: Option<Arc<AtomicU64>>,
    pub(crate) ours: Option<Ours>,
    /// Whether messages of other plans have an age that says something: see [`crate::Plan::measures_age`].
    pub(crate) measures_age: bool,
    /// Whether any of this run's producers sends to what it receives from.
    pub(crate) is_sent_to: bool,
    pub(crate) bitmaps: Option<BitmapSpec>,
    /// Position of its queue or topic among the run's recipients.
    pub(crate) recipient: u32,
    /// The queue's count says how many messages there are for it.
    pub(crate) is_counted: bool,
    /// The most deliveries that may be unacknowledged; 0 for no limit.
    pub(crate) most_unacked: u64,
    pub(crate) owed: Owed,
}

/// See [`ProducerBitmaps`].
#[derive(Clone, Debug)]
pub(crate) struct BitmapSpec {
    pub(crate) producers: Arc<[u32]>,
    pub(crate) first: usize,
}

/// How this run's messages are told from others.
#[derive(Clone, Debug)]
pub(crate) struct Ours {
    pub(crate) run_id: u32,
    /// The most messages that a queue was filled with before the load: [`crate::Plan::prefilled`].
    pub(crate) prefilled: u64,
    /// All producers send unthrottled, so that a message without `s_i` has `s_i = t_i`.
    pub(crate) unthrottled: bool,
    /// The bodies of those who send more than filler.
    pub(crate) bodies: Option<Arc<Known>>,
    /// How far their clock may seem to be from this one's, of other workers.
    pub(crate) clocks_apart: Nanos,
    /// Their clock, where it is another one.
    pub(crate) clock: Option<Arc<SenderClock>>,
}

impl Ours {
    /// Those whose producers run in this process.
    #[must_use]
    pub(crate) fn of_this_clock(self) -> Self {
        Self { clocks_apart: Nanos::ZERO, clock: None, ..self }
    }

    /// The latest instant by their clock of what can have come by now.
    #[inline]
    fn latest(&self, now: Time) -> Time {
        self.clock.as_ref().map_or(now, |clock| clock.theirs(now) + clock.bound()) + self.clocks_apart
    }

    /// Whether an instant of theirs, by the own clock, is before the start, however far that can be off.
    #[inline]
    pub(crate) fn is_before(&self, intended: Time, start: Time) -> bool {
        let is_early = intended + self.clocks_apart < start;
        is_early && self.clock.as_ref().is_none_or(|clock| intended + self.clocks_apart + clock.bound() < start)
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
    pub(super) spec: ConsumerSpec,
    /// Acknowledge after this many; 0 for never.
    every: u32,
    /// Earlier messages are an earlier run's.
    start: Time,
    unacked: u32,
    last_tag: u64,
    last_delivery: Time,
    gathered: Gathered,
    /// Intended time of the last of this run's messages.
    latest: Time,
    bitmaps: Option<ProducerBitmaps>,
    /// Where it works on what it takes; `None` while it does.
    pub(crate) service: Option<Service>,
    polling: Option<Polling>,
    /// When it sends its subscription, where it has not yet.
    begin: Option<Time>,
    /// Acknowledgements that wait for their commit.
    uncommitted: u32,
    /// Where the last message's header was: in its trace header, or in its body.
    has_trace_header: bool,
    /// When the last delivery came, or could begin to, …
    came_at: Time,
    /// … and from when on none may have come for the last fence to tell.
    silent_from: Time,
    was_lost: bool,
    /// Deliveries that prove the producers' clock wrong.
    early: EarlyDeliveries,
}

impl Consumer {
    pub(crate) fn new(mut spec: ConsumerSpec) -> Self {
        let (bitmaps, owed) = (spec.bitmaps.take(), spec.owed);
        let bitmaps = bitmaps.map(|it| ProducerBitmaps::new(it.producers, it.first, owed));
        let every = match spec.ack {
            Ack::Auto => 0,
            // The broker stops at the prefetch limit, so waiting for more would be for ever.
            Ack::Every(n) if spec.prefetch > 0 => n.clamp(1, u32::from(spec.prefetch)),
            Ack::Every(n) => n.max(1),
        };
        let every = match spec.commit_every {
            0 => every,
            commit => every.min(commit),
        };
        Self {
            service: Service::new(spec.service.clone()),
            polling: spec.poll.map(|interval| Polling { interval, ..Polling::default() }),
            begin: None,
            uncommitted: 0,
            came_at: Time(0),
            silent_from: Time(0),
            was_lost: false,
            early: EarlyDeliveries::default(),
            has_trace_header: spec.has_trace_header,
            spec,
            every,
            start: Time(0),
            unacked: 0,
            last_tag: 0,
            last_delivery: Time(0),
            gathered: Gathered::default(),
            latest: Time(0),
            bitmaps,
        }
    }

    /// The most acknowledgements that one read can lead to.
    pub(crate) fn output_room<C: Connection>(&self) -> usize {
        let Some(every) = NonZeroU32::new(self.every) else { return 0 };
        let WireSizes { acknowledgement, commit, smallest_delivery, .. } = C::SIZES;
        let deliveries = match self.spec.prefetch {
            0 => C::BUFFER_BYTES / (self.spec.message_size + smallest_delivery),
            prefetch => usize::from(prefetch),
        };
        let commit = if self.spec.commit_every > 0 { commit } else { 0 };
        (deliveries / every.get() as usize + 1) * (acknowledgement + commit)
    }

    /// The largest piece of a delivery that a read may cut off.
    pub(crate) fn input_room<C: Connection>(&self) -> usize {
        (self.spec.message_size + C::SIZES.delivery_head).min(C::SIZES.frame_max)
    }

    pub(crate) fn start(&mut self, start: Time) {
        self.start = start;
        let begin = start + self.spec.delay;
        if let Some(service) = &mut self.service {
            service.start(start);
        }
        match &mut self.polling {
            Some(polling) => polling.due = begin,
            None => self.begin = Some(begin).filter(|_| self.spec.delay > Nanos::ZERO),
        }
    }

    /// Whether it has something to do beside taking what comes.
    pub(crate) const fn is_busy(&self) -> bool {
        self.service.is_some() || self.polling.is_some() || self.begin.is_some()
    }

    /// Its queue begins to deliver.
    pub(crate) const fn subscribed(&mut self, now: Time) {
        self.came_at = now;
    }

    /// An answer has come after which nothing is awaited: where it has subscribed, that is in force.
    pub(crate) fn is_answered(&mut self, ledger: &ThreadLedger) {
        let bitmaps = self.bitmaps.as_mut().filter(|_| self.begin.is_none());
        if let Some(bitmaps) = bitmaps.filter(|_| self.spec.owed == Owed::SinceSubscribed) {
            bitmaps.begin(ledger);
        }
    }

    /// Its bitmaps of which not all is owed, and from when on it is.
    pub(crate) fn owed(&self) -> impl Iterator<Item = (usize, u64)> {
        self.bitmaps.iter().flat_map(ProducerBitmaps::owed)
    }

    /// From now on it matters whether something comes. Where acknowledgements release deliveries, those
    /// before matter too: the channel's answer does not wait for the queue, which may be on another node.
    pub(crate) fn fence(&mut self, now: Time) {
        let is_limited = self.every > 0 && self.spec.most_unacked > 0;
        self.silent_from = now - if is_limited { RELEASE } else { Nanos::ZERO };
        if let Some(polling) = &mut self.polling {
            polling.is_fenced = true;
        }
    }

    pub(crate) const fn early(&self) -> EarlyDeliveries {
        self.early
    }

    /// The most that it may still get beside what its queue was found to hold, once its channel has answered after
    /// [`Self::fence`]; [`u64::MAX`] where nobody knows. `is_asked`: its connection has asked its queue in between.
    pub(crate) fn in_flight(&self, is_asked: bool) -> u64 {
        // Deliveries of a lost connection's polls go back once the broker notices, which no count of consumers tells.
        let gives_back = self.was_lost && self.polling.is_some() && self.every > 0;
        let is_counted = self.spec.is_counted;
        if gives_back && !is_asked || self.begin.is_some() && !(is_asked || is_counted) {
            return u64::MAX;
        }
        let service = self.service.as_ref();
        let untaken = service.map_or(0, Service::untaken);
        if is_counted {
            return untaken;
        }
        let waiting = service.map_or(0, Service::waiting);
        let unanswered = waiting + u64::from(self.unacked + self.uncommitted);
        let is_limited = self.every > 0 && self.spec.most_unacked > 0;
        let room = is_limited.then(|| self.spec.most_unacked.saturating_sub(unanswered));
        let came = self.came_at > self.silent_from;
        if is_asked {
            // While deliveries come, more of them may have left the queue: as many as may be unanswered.
            let is_sent_more = came && self.polling.is_none();
            let coming = if is_sent_more { room.unwrap_or(u64::MAX) } else { 0 };
            return untaken.saturating_add(coming);
        }
        // Who asks for each message learns that there is none.
        let may_ask = self.polling.is_some_and(|it| !it.found_nothing);
        if came || room == Some(0) || may_ask { u64::MAX } else { untaken }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.service.as_ref().is_some_and(Service::is_full)
    }

    /// Keeps a delivery until it is taken, where that is not at once; tells whether it does.
    #[inline]
    pub(crate) fn keeps(&mut self, tag: u64, delivery: Received<'_>, now: Time) -> bool {
        let Some(service) = &mut self.service else { return false };
        service.arrive(tag, delivery, now);
        self.came_at = now;
        true
    }

    /// Does what is due besides its work: begins, asks for a message. Tells when something will be due next.
    pub(crate) fn tend(&mut self, now: Time, receiver: &mut impl Receiver) -> Result<Option<Time>, Error> {
        if let Some(begin) = self.begin {
            if begin > now {
                return Ok(Some(begin));
            }
            self.begin = None;
            self.subscribed(now);
            receiver.subscribe()?;
        }
        let due = self.service.as_ref().and_then(Service::due);
        if let Some(polling) = &mut self.polling
            && !polling.is_asked
            && due.is_none()
        {
            if polling.due > now {
                return Ok(Some(polling.due));
            }
            (polling.is_asked, polling.is_behind_fence) = (true, polling.is_fenced);
            receiver.fetch()?;
        }
        Ok(due)
    }

    /// The answer to its question for a message has come, one way or the other.
    pub(crate) fn answered(&mut self, now: Time, is_empty: bool) {
        if let Some(polling) = &mut self.polling {
            (polling.is_asked, polling.due) = (false, now + polling.interval);
            polling.found_nothing = is_empty && polling.is_behind_fence;
        }
    }

    /// Intended time of the last of this run's messages.
    pub(crate) const fn latest(&self) -> Time {
        self.latest
    }

    /// Properties of the first delivery that came and that it has not taken.
    pub(crate) fn first_untaken(&self) -> Option<&[u8]> {
        self.service.as_ref().and_then(Service::first_untaken)
    }

    /// Its connection is gone, and unacknowledged deliveries go back to the queue. Returns their number.
    pub(crate) fn restart(&mut self, now: Time) -> u64 {
        (self.was_lost, self.unacked, self.uncommitted) = (true, 0, 0);
        let undone = self.service.as_mut().map_or(0, Service::restart);
        if let Some(polling) = &mut self.polling {
            let interval = polling.interval;
            *polling = Polling { interval, due: now + interval, ..Polling::default() };
        }
        // The set-up leaves it to this side to begin, also the next time.
        if self.spec.delay > Nanos::ZERO && self.polling.is_none() {
            self.begin = Some(now.max(self.start + self.spec.delay));
        }
        undone
    }

    /// Whether it may have deliveries to acknowledge when nothing comes for a while.
    pub(crate) const fn gathers_acks(&self) -> bool {
        self.every > 1 || self.spec.commit_every > 1
    }

    /// Takes one delivery; tells whether it is one of this run's messages. Call
    /// [`Self::end_of_batch`] after the last one with the same `now`.
    // A call of its own costs 5 ns.
    #[inline(always)]
    pub(crate) fn take<C: Connection>(
        &mut self,
        delivery: Received<'_>,
        now: Time,
        interval: &mut Slice,
        latency: &mut Nanos,
        ledger: Option<&mut ThreadLedger>,
    ) -> bool {
        let Received { body, properties, redelivered } = delivery;
        self.came_at = now;
        interval.counters.received += 1;
        interval.counters.redelivered += u64::from(redelivered);
        let latest = self.spec.ours.as_ref().map_or(now, |ours| ours.latest(now));
        let read = if self.has_trace_header {
            read_trace_header::<C>(properties, body, latest)
        } else {
            payload::read(body, self.run_id(), latest).ok()
        };
        // Not `or_else`: what the rare function returns would be copied each time, 10 ns.
        let mut header = match read {
            Some(header) => header,
            None => match self.look_elsewhere::<C>(body, properties, latest) {
                Some(header) => header,
                None => {
                    self.refuse::<C>(body, properties, now, false, ledger);
                    return false;
                }
            },
        };
        let mut ledger = ledger;
        if let Some(clock) = self.sender_clock() {
            header.intended = clock.own(header.intended);
            header.sent = header.sent.map(|sent| clock.own(sent));
        }
        let mut sent = header.sent;
        if let Some(ours) = &self.spec.ours {
            let foreign = header.run.is_some_and(|run| run != ours.run_id);
            if foreign || ours.is_before(header.intended, self.start) {
                self.refuse::<C>(body, properties, now, true, ledger);
                return false;
            }
            if ours.unthrottled {
                sent = Some(sent.unwrap_or(header.intended));
            }
        }
        if let (None, Some(_), Some(ledger)) = (&self.bitmaps, &self.spec.ours, &mut ledger) {
            // None of this run's producers sends here: it was dead-lettered, or moved.
            ledger.anomalies.count(Unreadable::Foreign);
        } else if let (Some(bitmaps), Some(ledger)) = (&mut self.bitmaps, &mut ledger) {
            if let Err(cause) = bitmaps.take(&header, redelivered, ledger) {
                let checked = self.has_trace_header || payload::has_check(body.len());
                let cause = bitmaps.misfit(&header, cause, checked, ledger);
                ledger.anomalies.count(cause);
                return false;
            }
            let known = self.spec.ours.as_ref().and_then(|ours| ours.bodies.as_ref());
            let whole = known.map_or_else(|| payload::is_whole(body), |known| known.is_whole(&header, body));
            ledger.anomalies.corrupt += u64::from(!whole);
        }
        self.latest = header.intended;
        let gathered = &mut self.gathered;
        if gathered.count > 0 && (gathered.intended, gathered.sent) == (header.intended, sent) {
            gathered.count += 1;
        } else {
            self.end_of_batch(now, interval, latency);
            self.gathered = Gathered { intended: header.intended, sent, count: 1 };
        }
        true
    }

    #[inline]
    fn sender_clock(&self) -> Option<&SenderClock> {
        self.spec.ours.as_ref()?.clock.as_deref()
    }

    /// A delivery came before it was sent: where no bound explains that, the bound is wrong.
    #[cold]
    fn came_early(&mut self, most: Nanos, count: u64) {
        if self.sender_clock().is_some_and(|clock| most > clock.bound()) {
            self.early.add(EarlyDeliveries { count, most });
        }
    }

    /// Whose producers and sequence numbers short headers tell.
    #[inline]
    fn run_id(&self) -> u32 {
        self.spec.ours.as_ref().map_or(0, |ours| ours.run_id)
    }

    /// The header where the last message had none. A message with a trace header has no other header.
    #[cold]
    fn look_elsewhere<C: Connection>(&mut self, body: &[u8], properties: &[u8], now: Time) -> Option<Header> {
        let header = match (self.has_trace_header, C::trace_header(properties)) {
            (true, None) => payload::read(body, self.run_id(), now).ok(),
            (false, Some(_)) => read_trace_header::<C>(properties, body, now),
            _ => None,
        };
        self.has_trace_header ^= header.is_some();
        header
    }

    /// Counts a delivery that is not one of this run's messages, or not any more; `is_read` if it has a header.
    /// Messages that queues were filled with before the run are not counted.
    #[cold]
    fn refuse<C: Connection>(
        &self,
        body: &[u8],
        properties: &[u8],
        now: Time,
        is_read: bool,
        ledger: Option<&mut ThreadLedger>,
    ) {
        let Some(ledger) = ledger else { return };
        let head = C::trace_header(properties).unwrap_or(body);
        let prefilled = self.spec.ours.as_ref().map_or(0, |ours| ours.prefilled);
        if prefilled > 0 && payload::is_prefilled(head, prefilled) {
            return;
        }
        let right = is_read && payload::has_check(head.len());
        let ours = self.spec.ours.as_ref().filter(|_| !right);
        let ours = ours.is_some_and(|ours| {
            let start = ours.clock.as_ref().map_or(self.start, |clock| clock.theirs(self.start));
            payload::is_ours(head, ours.run_id, start, ours.latest(now), |header| {
                let bitmaps = self.bitmaps.as_ref();
                bitmaps.map_or(0, |bitmaps| bitmaps.known(header, ledger))
            })
        });
        ledger.anomalies.count(if ours { Unreadable::Corrupt } else { Unreadable::Foreign });
    }

    #[inline]
    pub(crate) fn end_of_batch(&mut self, now: Time, interval: &mut Slice, latency: &mut Nanos) {
        let Gathered { intended, sent, count } = std::mem::take(&mut self.gathered);
        if count == 0 || self.spec.ours.is_none() && !self.spec.measures_age {
            return;
        }
        *latency = now.since(intended);
        let latencies = match self.spec.ours {
            Some(_) => interval.due(intended),
            None => match interval.due_elsewhere(intended) {
                Some(latencies) => latencies,
                None => return,
            },
        };
        latencies.record_n(Metric::END_TO_END, *latency, count);
        if let Some(sent) = sent {
            latencies.record_n(Metric::TRANSFER, now.since(sent), count);
        }
        let early = sent.unwrap_or(intended).since(now);
        if early > Nanos::ZERO {
            self.came_early(early, count);
        }
    }

    /// Whether the group still wants a delivery; takes it off the budget. Others go back, uncounted, to their queue.
    #[inline]
    pub(crate) fn wants(&self) -> Wanted {
        let Some(budget) = &self.spec.budget else { return Wanted::Yes };
        let take = |left: u64| left.checked_sub(1);
        match budget.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
            Ok(1) => Wanted::Last,
            Ok(_) => Wanted::Yes,
            Err(_) => Wanted::No,
        }
    }

    /// Notes that a delivery awaits its acknowledgement, and sends that when it is time.
    #[inline(always)]
    pub(crate) fn settle(&mut self, tag: u64, now: Time, receiver: &mut impl Receiver) -> Result<(), Error> {
        if self.every == 0 {
            return Ok(());
        }
        self.unacked += 1;
        self.last_tag = tag;
        self.last_delivery = now;
        if self.unacked >= self.every {
            self.send_acks(receiver);
            if self.spec.commit_every > 0 && self.uncommitted >= self.commit_limit() {
                return self.commit(receiver);
            }
        }
        Ok(())
    }

    /// Uncommitted deliveries count as unacknowledged, so more than those never come.
    fn commit_limit(&self) -> u32 {
        match self.spec.prefetch {
            0 => self.spec.commit_every,
            prefetch => self.spec.commit_every.min(u32::from(prefetch)),
        }
    }

    #[inline]
    fn send_acks(&mut self, receiver: &mut impl Receiver) {
        let multiple = self.unacked > 1;
        match self.spec.refuse {
            None => receiver.acknowledge(self.last_tag, multiple),
            Some(refusal) => receiver.refuse(self.last_tag, multiple, refusal == Refusal::Requeue),
        }
        if self.spec.commit_every > 0 {
            self.uncommitted += self.unacked;
        }
        self.unacked = 0;
    }

    fn commit(&mut self, receiver: &mut impl Receiver) -> Result<(), Error> {
        self.uncommitted = 0;
        receiver.commit()
    }

    pub(crate) fn flush(&mut self, receiver: &mut impl Receiver) -> Result<(), Error> {
        if self.unacked > 0 {
            self.send_acks(receiver);
        }
        if self.uncommitted > 0 { self.commit(receiver) } else { Ok(()) }
    }

    /// Acknowledges what is left when deliveries pause.
    pub(crate) fn flush_if_idle(&mut self, now: Time, receiver: &mut impl Receiver) -> Result<(), Error> {
        if now.since(self.last_delivery) >= IDLE { self.flush(receiver) } else { Ok(()) }
    }
}

/// The bodies that producers send as they are.
#[derive(Debug)]
pub(crate) struct Known {
    /// By the numbers of their producers.
    pub(crate) groups: Vec<(Range<u32>, Arc<Bodies>)>,
}

impl Known {
    fn is_whole(&self, header: &Header, body: &[u8]) -> bool {
        // A trace header is always a full header, which alone has a run.
        let ours = header.run.and_then(|_| {
            let groups = self.groups.iter();
            groups.clone().find(|(ids, _)| ids.contains(&header.producer))
        });
        match ours {
            Some((_, bodies)) => body == bodies.content(header.sequence),
            None => payload::is_whole(body),
        }
    }
}

/// The header of a body that stays as it is.
#[inline]
fn read_trace_header<C: Connection>(properties: &[u8], body: &[u8], now: Time) -> Option<Header> {
    payload::read_trace_header(C::trace_header(properties)?, body.len(), now).ok()
}

/// When to ask for the next message, and what the answers say of the queue.
#[derive(Clone, Copy, Debug, Default)]
struct Polling {
    /// Between an answer and the next question.
    interval: Nanos,
    due: Time,
    is_asked: bool,
    /// A fence was put up on this connection: all that was sent by then is in the queue.
    is_fenced: bool,
    /// The question came after it.
    is_behind_fence: bool,
    /// The last answer to such a question: there was nothing.
    found_nothing: bool,
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
    use plan::payload::FULL_LEN;

    #[test]
    fn damage_behind_the_header_is_seen_whatever_is_there() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a"), b"first").unwrap();
        std::fs::write(folder.path().join("b"), b"second").unwrap();
        let bodies = Arc::new(Bodies::read(&[folder.path()]).unwrap());
        let known = Known { groups: vec![(3..5, Arc::clone(&bodies))] };
        let judged = |producer: u32, sequence: u64, body: &[u8]| {
            let mut trace_header = [0; FULL_LEN];
            let (from, to) = (Time(5), Time(6));
            payload::write_front(&mut trace_header, body.len(), 7, producer, sequence, from, to);
            let header = payload::read_trace_header(&trace_header, body.len(), Time(9)).unwrap();
            known.is_whole(&header, body)
        };
        assert!(judged(3, 0, b"first") && judged(4, 7, b"second"));
        assert!(!judged(3, 1, b"first"), "another message's body");
        assert!(!judged(3, 0, b"firsT"));
        assert!(judged(2, 0, &[0; 40]), "filler behind a header");
        let mut text = [0; 40];
        text[33] = b'x';
        assert!(!judged(5, 0, &text), "should be filler");
    }
}
