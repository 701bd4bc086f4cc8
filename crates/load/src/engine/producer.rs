//! The sending side of one client: which message is next, and whether it may go.

mod censored;

use std::sync::Arc;

use measure::ledger::Anomaly;
use measure::{Metric, Nanos, Slice, Time};

use super::ledger::{ThreadLedger, whole_sequence};
use super::unique_properties::{RoutingKeyGenerator, UniqueProperties};
use crate::protocol::{Confirm, Connection, DeliveryOutcome, Sender};
use crate::window::{NeverSent, Resends, Window};
use crate::{Error, Guarantee};
use plan::payload::{self, COPY, FULL_LEN, Header};
use plan::{Contents, DueTimes, Pacer};

/// A message that leaves later than this after its intended time counts as late.
const LATE: Nanos = Nanos(1_000_000);
/// Bytes encoded before they are offered to the socket. Nothing is encoded while the socket
/// refuses bytes, so this bounds what waits in our own memory after its `s_i` was taken.
pub(super) const BATCH_BYTES: usize = 64 << 10;

/// A [`crate::ArrivalProcess`] made ready.
#[derive(Clone, Debug)]
pub(crate) enum ResolvedArrivals {
    Unthrottled,
    Scheduled {
        pacer: Arc<Pacer>,
        /// After its last message there is nothing to wait for.
        ends_run: bool,
    },
    ThinkTime(Nanos),
}

/// A producer's settings, and how it began.
#[derive(Clone, Debug)]
pub(crate) struct ProducerSpec {
    /// Counted over all groups.
    pub(crate) id: u32,
    pub(crate) run_id: u32,
    pub(crate) arrivals: ResolvedArrivals,
    /// Bytes of every body, unless they differ from message to message.
    pub(crate) message_size: usize,
    pub(crate) contents: Option<Contents>,
    /// How much later than the load it begins.
    pub(crate) delay: Nanos,
    /// Which of the group's producers this is, and of how many.
    pub(crate) position: u64,
    pub(crate) producers: u64,
    pub(crate) guarantee: Guarantee,
    /// Messages of a transaction; 0 without them.
    pub(crate) commit_every: u64,
    pub(crate) max_pending: u32,
    pub(crate) confirm_timeout: Option<Nanos>,
    pub(crate) resend: bool,
    /// Another routing key for every message.
    pub(crate) keys: Option<RoutingKeyGenerator>,
    /// An id or a timestamp of its own for every message.
    pub(crate) unique_properties: Option<UniqueProperties>,
    /// This producer's share of the group's message count.
    pub(crate) limit: Option<u64>,
    pub(crate) expected_deliveries: u64,
    /// The bitmap of its confirms in the event loop's ledger, where there is one.
    pub(crate) bitmap: Option<usize>,
}

impl ProducerSpec {
    /// Whether the run may be waiting for its last message.
    pub(crate) fn ends(&self) -> bool {
        self.limit.is_some_and(|limit| limit > 0)
            || matches!(self.arrivals, ResolvedArrivals::Scheduled { ends_run: true, .. })
    }
}

/// When the next message is due.
enum NextSend {
    /// As soon as the producer has begun.
    Unthrottled { from: Time },
    /// At the next of its due times.
    Scheduled(DueTimes),
    /// When it is due, once the last message was answered.
    ThinkTime { due: Time, pause: Nanos },
}

/// Where a producer stands after a turn; of several that stand together the least counts, which comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SendState {
    /// There is more to send as soon as the socket takes it.
    More,
    Until(Time),
    /// The in-flight budget is used up; with a think time, by the one message without an answer.
    Full,
    /// The broker takes no more for now.
    NoCredit,
    /// Its share of the message count is sent, its schedule has ended, or the load has not begun.
    Idle,
}

/// Result of a poll.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) count: u64,
    /// Messages that were sent again, which are not among the others.
    pub(crate) resent: u64,
    pub(crate) send_state: SendState,
    /// The last message of the count or the schedule was sent.
    pub(crate) reached_limit: bool,
}

pub(crate) struct Producer {
    pub(crate) spec: ProducerSpec,
    start: Time,
    /// `None` until the start.
    next_send: Option<NextSend>,
    /// Its end is of no interest, or known.
    end_told: bool,
    window: Option<Window>,
    /// Messages sent so far, which is the next one's sequence number.
    sequence: u64,
    /// The next message was counted as blocked already.
    blocked: bool,
    /// Messages whose answer went down with their connection.
    abandoned: u64,
    /// Sequence number of the message that has delivery tag 1 on the present sender, unless it is one of `resends`.
    first_tag: u64,
    resends: Resends,
    /// Messages of the transaction in progress, and whether it is being committed.
    in_transaction: u64,
    committing: bool,
    /// Nothing that is due later is sent.
    last_due: Time,
}

/// Whether this many messages of different lengths wait that they should be written.
#[inline]
fn has_batch(sender: &impl Sender) -> bool {
    sender.pending() >= BATCH_BYTES
}

impl Producer {
    pub(crate) fn new(spec: ProducerSpec) -> Self {
        let window = match spec.guarantee {
            Guarantee::Unconfirmed => None,
            Guarantee::Confirms | Guarantee::Replies => Some(Window::new(spec.max_pending)),
            Guarantee::Commits(messages) => Some(Window::new(messages)),
        };
        Self {
            end_told: !spec.ends(),
            spec,
            start: Time(0),
            next_send: None,
            window,
            sequence: 0,
            blocked: false,
            abandoned: 0,
            first_tag: 0,
            resends: Resends::default(),
            in_transaction: 0,
            committing: false,
            last_due: Time(u64::MAX),
        }
    }

    pub(crate) const fn has_answers(&self) -> bool {
        self.window.is_some()
    }

    /// Fixes the schedule; nothing is due before.
    pub(crate) fn start(&mut self, start: Time) {
        let spec = &self.spec;
        self.start = start;
        let from = start + spec.delay;
        self.next_send = Some(match &spec.arrivals {
            ResolvedArrivals::Unthrottled => NextSend::Unthrottled { from },
            ResolvedArrivals::Scheduled { pacer, .. } => {
                NextSend::Scheduled(DueTimes::new(pacer, from, spec.position, spec.id))
            }
            ResolvedArrivals::ThinkTime(pause) => {
                let part = u128::from(pause.0) * u128::from(spec.position);
                let offset = part / u128::from(spec.producers.max(1));
                NextSend::ThinkTime { due: from + Nanos(offset as u64), pause: *pause }
            }
        });
    }

    /// The most that may wait to be written: a batch, and the message that goes over its edge.
    pub(crate) fn output_room(&self, sender: &impl Sender) -> usize {
        let (_, message) = sender.message_wire_len();
        let room = self.room();
        let batch = BATCH_BYTES.saturating_add(message);
        usize::try_from(room).map_or(batch, |room| batch.min(room.saturating_mul(message)))
    }

    /// Encodes what may go now, up to a batch.
    #[inline]
    pub(crate) fn send(&mut self, now: Time, sender: &mut impl Sender, interval: &mut Slice) -> Result<Sent, Error> {
        if self.resends.is_pending() {
            return self.resend(now, sender, interval);
        }
        let before = self.sequence;
        let (send_state, ended) = match self.next_send.take() {
            None => (SendState::Idle, false),
            Some(NextSend::Unthrottled { from }) => {
                self.next_send = Some(NextSend::Unthrottled { from });
                let send_state =
                    if now < from { SendState::Until(from) } else { self.send_unthrottled(now, sender, interval) };
                (send_state, false)
            }
            Some(NextSend::Scheduled(mut due_times)) => {
                let send_state = self.send_scheduled(&mut due_times, now, sender, interval);
                let ended = due_times.is_over();
                self.next_send = Some(NextSend::Scheduled(due_times));
                (send_state, ended)
            }
            Some(NextSend::ThinkTime { due, pause }) => {
                self.next_send = Some(NextSend::ThinkTime { due, pause });
                (self.send_after_thinking(due, now, sender, interval), false)
            }
        };
        let count = self.sequence - before;
        interval.counters.sent += count;
        let ended = ended || self.spec.limit == Some(self.sequence);
        if self.spec.commit_every > 0 && (self.in_transaction == self.spec.commit_every || ended) {
            self.commit(sender)?;
        }
        Ok(Sent { count, resent: 0, send_state, reached_limit: ended && !std::mem::replace(&mut self.end_told, ended) })
    }

    /// The load has ended: sends what was due before its `end`, where the budget allows, but nothing unthrottled, and
    /// whatever is to be sent again.
    pub(crate) fn catch_up(
        &mut self,
        end: Time,
        now: Time,
        sender: &mut impl Sender,
        interval: &mut Slice,
    ) -> Result<Sent, Error> {
        let was_due = |next_send: &NextSend| match next_send {
            NextSend::Scheduled(due_times) => due_times.due() < end,
            NextSend::Unthrottled { .. } | NextSend::ThinkTime { .. } => false,
        };
        if !self.resends.is_pending() && !self.next_send.as_ref().is_some_and(was_due) {
            return Ok(Sent { count: 0, resent: 0, send_state: SendState::Idle, reached_limit: false });
        }
        self.last_due = end - Nanos(1);
        let sent = self.send(now, sender, interval);
        self.last_due = Time(u64::MAX);
        sent
    }

    /// Whether there are messages to send again.
    pub(crate) const fn resends(&self) -> bool {
        self.resends.is_pending()
    }

    /// Sends again what may go now, before anything new.
    #[cold]
    fn resend(&mut self, now: Time, sender: &mut impl Sender, interval: &mut Slice) -> Result<Sent, Error> {
        let mut resent = 0;
        let send_state = loop {
            let Some((sequence, intended)) = self.resends.pending().next() else { break SendState::More };
            if self.room() == 0 {
                break SendState::Full;
            }
            if sender.credit() == 0 {
                break SendState::NoCredit;
            }
            if has_batch(sender) {
                break SendState::More;
            }
            self.resends.advance();
            resent += 1;
            self.publish::<true>(sequence, COPY, intended, now, sender);
        };
        interval.counters.resent += resent;
        if self.spec.commit_every > 0 && self.in_transaction == self.spec.commit_every {
            self.commit(sender)?;
        }
        Ok(Sent { count: 0, resent, send_state, reached_limit: false })
    }

    /// Commits the transaction in progress, where there is one.
    pub(crate) fn commit(&mut self, sender: &mut impl Sender) -> Result<(), Error> {
        if self.spec.commit_every == 0 || self.in_transaction == 0 || self.committing {
            return Ok(());
        }
        self.committing = true;
        sender.commit()
    }

    /// How many more messages may be without an answer.
    #[inline]
    fn room(&self) -> u64 {
        match &self.window {
            None => u64::MAX,
            Some(_) if self.committing => 0,
            Some(_) if self.spec.commit_every > 0 => self.spec.commit_every - self.in_transaction,
            Some(window) => window.room(),
        }
    }

    /// How many messages may go, and why not more.
    fn allowance(&mut self, sender: &impl Sender, interval: &mut Slice) -> (u64, SendState) {
        let left = self.spec.limit.map_or(u64::MAX, |limit| limit - self.sequence);
        if left == 0 {
            return (0, SendState::Idle);
        }
        let room = self.room();
        if room == 0 {
            if !self.blocked {
                self.blocked = true;
                interval.counters.blocked += 1;
            }
            return (0, SendState::Full);
        }
        let credit = sender.credit();
        if credit == 0 {
            return (0, SendState::NoCredit);
        }
        let free = BATCH_BYTES.saturating_sub(sender.pending());
        let batch = (free / sender.message_wire_len().0.max(1)).max(1) as u64;
        (left.min(room).min(credit).min(batch), SendState::More)
    }

    /// Unthrottled, `t_i = s_i`.
    fn send_unthrottled(&mut self, now: Time, sender: &mut impl Sender, interval: &mut Slice) -> SendState {
        let (count, send_state) = self.allowance(sender, interval);
        if self.is_varied() {
            for _ in 0..count {
                self.send_one::<true>(now, now, sender);
                if has_batch(sender) {
                    break;
                }
            }
        } else {
            for _ in 0..count {
                self.send_one::<false>(now, now, sender);
            }
        }
        // At once, so that the message which would be next counts as blocked when it is.
        if count == 0 { send_state } else { self.allowance(sender, interval).1 }
    }

    fn send_scheduled(
        &mut self,
        due_times: &mut DueTimes,
        now: Time,
        sender: &mut impl Sender,
        interval: &mut Slice,
    ) -> SendState {
        let until = now.min(self.last_due);
        if due_times.due() > until {
            return self.until(due_times);
        }
        let (count, send_state) = self.allowance(sender, interval);
        if count == 0 {
            return send_state;
        }
        if self.is_varied() {
            self.send_until::<true>(until, now, count, due_times, sender, interval);
        } else {
            self.send_until::<false>(until, now, count, due_times, sender, interval);
        }
        if due_times.due() > until || self.spec.limit == Some(self.sequence) {
            self.until(due_times)
        } else {
            self.allowance(sender, interval).1
        }
    }

    /// Closed loop: one message, when the last one is answered and the pause is over.
    fn send_after_thinking(
        &mut self,
        due: Time,
        now: Time,
        sender: &mut impl Sender,
        interval: &mut Slice,
    ) -> SendState {
        let is_answered = self.window.as_ref().is_none_or(|w| w.open() == 0);
        if is_answered && self.spec.limit != Some(self.sequence) {
            if due > now {
                return SendState::Until(due);
            }
            if sender.credit() == 0 {
                return SendState::NoCredit;
            }
            self.send_due::<true>(due, now, sender, interval);
        }
        if self.spec.limit == Some(self.sequence) { SendState::Idle } else { SendState::Full }
    }

    /// An answer has come, or never will: the next message waits from now on.
    fn think(&mut self, now: Time) {
        if let Some(NextSend::ThinkTime { due, pause }) = &mut self.next_send {
            *due = now + *pause;
        }
    }

    fn until(&self, due_times: &DueTimes) -> SendState {
        if due_times.is_over() || self.spec.limit == Some(self.sequence) {
            SendState::Idle
        } else {
            SendState::Until(due_times.due())
        }
    }

    /// Whether messages differ in more than their headers.
    const fn is_varied(&self) -> bool {
        self.spec.contents.is_some() || self.spec.keys.is_some() || self.spec.unique_properties.is_some()
    }

    /// Sends what is due, up to `count` messages. Whether messages differ is asked once, not for every message.
    #[inline]
    fn send_until<const VARIED: bool>(
        &mut self,
        until: Time,
        now: Time,
        count: u64,
        due_times: &mut DueTimes,
        sender: &mut impl Sender,
        interval: &mut Slice,
    ) {
        for _ in 0..count {
            let due = due_times.due();
            if due > until {
                break;
            }
            due_times.advance();
            self.send_due::<VARIED>(due, now, sender, interval);
            // Messages of the same length were counted before.
            if VARIED && has_batch(sender) {
                break;
            }
        }
    }

    #[inline]
    fn send_due<const VARIED: bool>(&mut self, due: Time, now: Time, sender: &mut impl Sender, interval: &mut Slice) {
        let delay = now.since(due);
        interval.due(due).record(Metric::SEND_DELAY, delay);
        interval.counters.late += u64::from(delay > LATE);
        self.send_one::<VARIED>(due, now, sender);
    }

    /// Without `VARIED` all messages must be alike; with it they may be.
    #[inline]
    fn send_one<const VARIED: bool>(&mut self, intended: Time, now: Time, sender: &mut impl Sender) {
        self.publish::<VARIED>(self.sequence, 0, intended, now, sender);
        self.sequence += 1;
        self.blocked = false;
    }

    /// Publishes a message, the first time with 0 for its `mark`, and then with [`COPY`].
    #[inline(always)]
    fn publish<const VARIED: bool>(
        &mut self,
        sequence: u64,
        mark: u64,
        intended: Time,
        now: Time,
        sender: &mut impl Sender,
    ) {
        let (run, id) = (self.spec.run_id, self.spec.id);
        let fill = |len: usize| {
            move |front: &mut [u8]| {
                payload::write_front(front, len, run, id, sequence | mark, intended, now);
            }
        };
        if VARIED {
            if let Some(keys) = &self.spec.keys {
                sender.set_routing_key(&keys.key(sequence));
            }
            if let Some(unique_properties) = &mut self.spec.unique_properties {
                unique_properties.put(sequence, now, sender);
            }
        }
        match self.spec.contents.as_ref().filter(|_| VARIED) {
            None => sender.publish(fill(self.spec.message_size)),
            Some(contents) => {
                let body = contents.body(sequence, intended.since(self.start));
                if contents.has_trace_header() {
                    let mut trace_header = [0; FULL_LEN];
                    fill(body.len())(&mut trace_header);
                    sender.set_trace_header(&trace_header);
                    sender.publish_body(body, |_| {});
                } else {
                    sender.publish_body(body, fill(body.len()));
                }
            }
        }
        if let Some(window) = &mut self.window {
            window.push(intended, now);
        }
        self.in_transaction += 1;
    }

    /// Whether it is behind its schedule. Unthrottled and with a think time there is none.
    pub(crate) fn is_late(&self, now: Time) -> bool {
        let done = self.spec.limit == Some(self.sequence);
        let late = |next_send: &NextSend| match next_send {
            NextSend::Scheduled(due_times) => now.since(due_times.due()) > LATE,
            NextSend::Unthrottled { .. } | NextSend::ThinkTime { .. } => false,
        };
        !done && self.next_send.as_ref().is_some_and(late)
    }

    pub(crate) const fn sent(&self) -> u64 {
        self.sequence
    }

    pub(crate) fn in_flight(&self) -> u64 {
        self.window.as_ref().map_or(0, Window::open)
    }

    /// Those of them that do not hang, and when the first was sent: [`Window::waiting`].
    pub(crate) fn waiting(&self, before: Time) -> (u64, Option<Time>) {
        let window = self.window.as_ref();
        window.map_or((0, None), |window| window.waiting(before))
    }

    /// When the oldest message was sent that was answered since the last call.
    pub(crate) fn take_oldest_answered(&mut self) -> Option<Time> {
        Some(self.window.as_mut()?.take_oldest_answered())
    }

    /// Messages without an answer, also those that will never have one.
    pub(crate) fn unanswered(&self) -> u64 {
        self.in_flight() + self.resends.pending().len() as u64 + self.abandoned
    }

    /// The tag of a confirm of the message behind this reply; `None` unless it replies to this connection.
    pub(crate) fn replied<C: Connection>(&self, body: &[u8], properties: &[u8], now: Time) -> Option<u64> {
        let header = self.header::<C>(body, properties, now)?;
        let ours = header.run == Some(self.spec.run_id) && header.producer == self.spec.id;
        let sent = self.first_tag + self.resends.count()..self.sequence;
        let new = sent.contains(&header.sequence).then(|| header.sequence - self.first_tag + 1);
        let tag = self.resends.tag(header.sequence).or(new);
        tag.filter(|_| self.spec.guarantee == Guarantee::Replies && ours)
    }

    /// The header of one of its own messages.
    fn header<C: Connection>(&self, body: &[u8], properties: &[u8], now: Time) -> Option<Header> {
        let contents = self.spec.contents.as_ref();
        let header = if contents.is_some_and(Contents::has_trace_header) {
            payload::read_trace_header(C::trace_header(properties)?, body.len(), now)
        } else {
            payload::read(body, self.spec.run_id, now)
        };
        header.ok()
    }

    /// The transaction is committed: that is the answer to all of its messages.
    pub(crate) const fn committed(&mut self) {
        self.committing = false;
        self.in_transaction = 0;
    }

    /// Tells since when a message has waited for its answer for longer than anybody does.
    pub(crate) fn overdue(&self, now: Time) -> Option<Nanos> {
        let oldest = self.window.as_ref()?.oldest()?;
        let waited = now.since(oldest);
        self.spec.confirm_timeout.filter(|longest| waited > *longest)
    }

    /// Takes the broker's answer; returns how many messages it covers.
    #[inline]
    pub(crate) fn answer(
        &mut self,
        confirm: Confirm,
        now: Time,
        interval: &mut Slice,
        latency: &mut Nanos,
        ledger: Option<&mut ThreadLedger>,
    ) -> Result<u64, NeverSent> {
        let Confirm { first, last, outcome } = confirm;
        let window = self.window.as_mut().ok_or(NeverSent)?;
        let mut count = 0;
        let mut shard = ledger.zip(self.spec.bitmap);
        let (resends, first_tag) = (&self.resends, self.first_tag);
        window.settle(first, last, |run| {
            count += run.count;
            if outcome != DeliveryOutcome::Refused {
                if let Some((ledger, bitmap)) = &mut shard {
                    let sequences = (run.first..run.first + run.count).map(|tag| resends.sequence(tag, first_tag));
                    if run.first > resends.count() {
                        ledger.shard.note_range(*bitmap, first_tag + run.first - 1, run.count);
                    } else {
                        // Those between them were answered before.
                        sequences.clone().for_each(|sequence| ledger.shard.note(*bitmap, sequence));
                    }
                    if outcome == DeliveryOutcome::Unroutable {
                        sequences.for_each(|sequence| ledger.shard.note_anomaly(*bitmap, Anomaly::Returned, sequence));
                    }
                }
                let (response, service) = (now.since(run.intended), now.since(run.sent));
                let latencies = interval.due(run.intended);
                latencies.record_n(Metric::ACK_RESPONSE, response, run.count);
                latencies.record_n(Metric::SEND_ACK, service, run.count);
                *latency = service;
            }
        })?;
        match outcome {
            DeliveryOutcome::Accepted => interval.counters.completed += count,
            DeliveryOutcome::Refused => interval.counters.nacked += count,
            DeliveryOutcome::Unroutable => {
                interval.counters.completed += count;
                interval.counters.returned += count;
            }
        }
        self.think(now);
        Ok(count)
    }

    /// The broker gives a message back, for it has no queue for it.
    #[cold]
    pub(crate) fn returned<C: Connection>(&self, body: &[u8], properties: &[u8], now: Time, ledger: &mut ThreadLedger) {
        let header = self.header::<C>(body, properties, now);
        let Some((bitmap, header)) = self.spec.bitmap.zip(header) else { return };
        let id = self.spec.id;
        let own = match header.run {
            Some(run) => (run, header.producer) == (self.spec.run_id, id),
            None => header.producer == u32::from(id as u16),
        };
        if let Some(sequence) = whole_sequence(&header, self.sequence).filter(|_| own) {
            ledger.shard.note_anomaly(bitmap, Anomaly::Returned, sequence);
        }
    }

    /// Its connection is gone; tells how many answers will not come on it.
    pub(crate) fn restart(&mut self, now: Time) -> u64 {
        let open = self.in_flight();
        if let Some(window) = self.window.as_mut().filter(|_| self.spec.resend) {
            self.resends.restart(window, self.first_tag);
        }
        self.first_tag = self.sequence - self.resends.count();
        self.committed();
        if open > 0 {
            self.think(now);
        }
        open
    }

    /// It has a connection again: what was in flight before could not have been answered earlier.
    pub(crate) fn give_up(&mut self, now: Time, interval: &mut Slice) {
        let Some(window) = &mut self.window else { return };
        for (_, intended) in window.unanswered() {
            interval.due(intended).record(Metric::ACK_RESPONSE, now.since(intended));
        }
        self.abandoned += window.restart();
    }
}
