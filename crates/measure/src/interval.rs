//! Counts and latencies between two instants, of one thread or all.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::{
    DueHistogram, Latencies, Metric, MetricInfo, MetricKind, Nanos, Phase, Recorder, SliceHistogram, SliceRecorder,
    Time,
};

/// Message counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Messages whose actual send time lies in the interval.
    pub sent: u64,
    /// Messages that the broker acknowledged positively.
    pub completed: u64,
    /// Deliveries decoded.
    pub received: u64,
    /// Messages that found the in-flight budget used up; at most one count per message.
    pub blocked: u64,
    /// Messages that the broker refused (negative acknowledgement).
    pub nacked: u64,
    /// Messages that the broker returned as unroutable.
    pub returned: u64,
    /// Deliveries whose redelivered flag was set.
    pub redelivered: u64,
    /// Messages sent later than 1 ms after their intended time.
    pub late: u64,
    /// Copies of messages that were sent again after a reconnect; none of them is in `sent`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub resent: u64,
}

const fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Counters {
    /// Adds another interval's counts, which may be what somebody wrote.
    pub const fn add(&mut self, other: &Self) {
        self.sent = self.sent.saturating_add(other.sent);
        self.completed = self.completed.saturating_add(other.completed);
        self.received = self.received.saturating_add(other.received);
        self.blocked = self.blocked.saturating_add(other.blocked);
        self.nacked = self.nacked.saturating_add(other.nacked);
        self.returned = self.returned.saturating_add(other.returned);
        self.redelivered = self.redelivered.saturating_add(other.redelivered);
        self.late = self.late.saturating_add(other.late);
        self.resent = self.resent.saturating_add(other.resent);
    }
}

/// An interval of about a tenth of a second: what event loops fill, and charts of short stalls show.
pub type Slice = Interval<SliceHistogram>;

/// One interval of measurement.
#[derive(Clone, Debug)]
pub struct Interval<H = Histogram<u64>> {
    /// First instant covered.
    pub start: Time,
    /// First instant no longer covered.
    pub end: Time,
    /// The phase that all of it belongs to.
    pub phase: Phase,
    /// Its end is that of its phase.
    pub ends_phase: bool,
    /// Counts inside the interval.
    pub counters: Counters,
    /// Latencies of answers in this interval to what was due in its phase, or in the measured phase if a drain.
    pub latencies: Recorder<H>,
    /// After the warm-up: latencies of what was answered here and was due in the warm-up.
    pub carried: Option<Recorder<H>>,
    /// Messages due earlier belong to the warm-up.
    due_from: Time,
    /// Of other programs' messages, what was due from here on belongs to no phase of this run.
    due_until: Time,
    /// The longest time between two turns of the event loop in which work was due: how late the generator itself was.
    pub loop_lag_max: Nanos,
    /// Time that clients and event loops spent waiting.
    pub waits: Waits,
    /// Counters of the scenarios that have such.
    pub counts: Counts,
}

impl Interval {
    /// An empty interval; its histograms come with what is recorded.
    pub fn new() -> Self {
        Self::with(&[])
    }

    /// Its counts and latencies as a slice.
    pub fn to_slice(&self) -> Slice {
        let mut slice = Slice::default();
        slice.reset(self.start, self.phase);
        slice.merge_counts(self);
        let add = |from: &Recorder, to: &mut SliceRecorder| {
            for (metric, histogram) in from.filled() {
                for value in histogram.iter_recorded() {
                    let latency = Nanos(value.value_iterated_to());
                    to.record_n(metric, latency, value.count_at_value());
                }
            }
        };
        add(&self.latencies, &mut slice.latencies);
        if let Some(carried) = &self.carried {
            add(carried, slice.carried.get_or_insert_default());
        }
        slice
    }

    /// Adds a slice, as [`Self::merge`] does.
    pub fn add_slice(&mut self, slice: &Slice) {
        self.merge_counts(slice);
        slice.latencies.add_to(&mut self.latencies);
        if let Some(carried) = slice.carried.as_ref().filter(|it| !it.is_empty()) {
            carried.add_to(self.carried.get_or_insert_default());
        }
    }
}

impl<H: Latencies> Interval<H> {
    /// All histograms that hold something, with the phase that each belongs to.
    pub fn histograms(&self) -> impl Iterator<Item = DueHistogram<'_, H>> {
        let carried = self.carried.iter();
        let carried = carried.flat_map(|carried| carried.due_in(Phase::Warmup));
        self.latencies.due_in(self.phase).chain(carried)
    }

    /// Adds another thread's interval of the same time, or one that follows: bounds become the hull of both.
    pub fn merge(&mut self, other: &Self) {
        self.merge_counts(other);
        self.latencies.merge(&other.latencies);
        if let Some(theirs) = other.carried.as_ref().filter(|it| !it.is_empty()) {
            self.carried.get_or_insert_default().merge(theirs);
        }
    }

    /// Merges all but the latencies, which may belong to another phase.
    pub fn merge_counts<S>(&mut self, other: &Interval<S>) {
        self.start = self.start.min(other.start);
        self.end = self.end.max(other.end);
        self.ends_phase |= other.ends_phase;
        self.counters.add(&other.counters);
        self.loop_lag_max = self.loop_lag_max.max(other.loop_lag_max);
        self.waits.add(&other.waits);
        self.counts.merge(&other.counts);
    }

    /// Whether nothing was counted or recorded in it.
    pub fn is_empty(&self) -> bool {
        self.counters == Counters::default()
            && self.latencies.is_empty()
            && self.carried.as_ref().is_none_or(Recorder::is_empty)
    }

    /// An empty interval that has all that recording these will ever need.
    pub fn with(metrics: &[Metric]) -> Self {
        Self {
            start: Time(0),
            end: Time(0),
            phase: Phase::Warmup,
            ends_phase: false,
            counters: Counters::default(),
            latencies: Recorder::with(metrics),
            carried: None,
            due_from: Time(0),
            due_until: Time(u64::MAX),
            loop_lag_max: Nanos::ZERO,
            waits: Waits::default(),
            counts: Counts::with(metrics),
        }
    }

    /// Measured length; rates divide by this, never by the nominal one.
    pub const fn length(&self) -> Nanos {
        self.end.since(self.start)
    }

    /// Tells what belongs to it: what was due before `from` is the warm-up's, from `until` on nobody's.
    pub fn set_due(&mut self, from: Time, until: Time) {
        (self.due_from, self.due_until) = (from, until);
    }

    /// Where latencies due at this time belong. Does not allocate where `carried` has what is recorded.
    #[inline]
    pub fn due(&mut self, due: Time) -> &mut Recorder<H> {
        if due >= self.due_from { &mut self.latencies } else { self.carried.get_or_insert_default() }
    }

    /// [`Self::due`] for another program's message; `None` where it is due after this run's last one.
    #[inline]
    pub fn due_elsewhere(&mut self, due: Time) -> Option<&mut Recorder<H>> {
        (due < self.due_until).then(|| self.due(due))
    }

    /// Leaves the warm-up's recorder to the following interval where it is empty; else that gets a spare one.
    pub fn hand_on_carried(&mut self, next: &mut Self, spare: &mut Vec<Recorder<H>>) {
        if next.due_from > Time(0) {
            let empty = self.carried.take_if(|carried| carried.is_empty());
            next.carried = empty.or_else(|| spare.pop());
        }
    }

    /// Empties the interval for reuse, keeping its memory.
    pub fn reset(&mut self, start: Time, phase: Phase) {
        self.latencies.reset();
        self.carried.iter_mut().for_each(Recorder::reset);
        self.counts.reset();
        let (latencies, counts) = (std::mem::take(&mut self.latencies), std::mem::take(&mut self.counts));
        let carried = self.carried.take();
        *self = Self { start, end: start, phase, latencies, carried, counts, ..Self::default() };
    }
}

impl<H: Latencies> Default for Interval<H> {
    fn default() -> Self {
        Self::with(&[])
    }
}

/// One number for each counter that a scenario has declared; none for messages, whose counts are [`crate::Counters`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// By index in the registry.
    values: Vec<Option<u64>>,
}

impl Counts {
    /// Zeros for the counters among these metrics; counting them later does not allocate.
    pub fn with(metrics: &[Metric]) -> Self {
        let mut counts = Self::default();
        for metric in metrics {
            if metric.info().kind != MetricKind::Histogram {
                counts.value(*metric);
            }
        }
        counts
    }

    #[inline]
    fn value(&mut self, metric: Metric) -> &mut u64 {
        let index = metric.index();
        if index >= self.values.len() {
            self.values.resize(index + 1, None);
        }
        self.values[index].get_or_insert(0)
    }

    /// Adds this many.
    #[inline]
    pub fn add(&mut self, metric: Metric, more: u64) {
        *self.value(metric) += more;
    }

    /// Keeps the largest value.
    #[inline]
    pub fn peak(&mut self, metric: Metric, value: u64) {
        let largest = self.value(metric);
        *largest = value.max(*largest);
    }

    /// Count of a metric; 0 where it was not declared.
    pub fn get(&self, metric: Metric) -> u64 {
        self.values.get(metric.index()).copied().flatten().unwrap_or(0)
    }

    /// All that was declared, in the order of the registry.
    pub fn iter(&self) -> impl Iterator<Item = (Metric, u64)> {
        self.values.iter().enumerate().filter_map(|(index, value)| Some((Metric::at(index), (*value)?)))
    }

    /// Adds what another interval counted.
    pub fn merge(&mut self, other: &Self) {
        for (metric, value) in other.iter() {
            match metric.info() {
                MetricInfo { kind: MetricKind::Peak, .. } => self.peak(metric, value),
                _ => self.add(metric, value),
            }
        }
    }

    /// Zeros for all that was declared.
    pub fn reset(&mut self) {
        for value in self.values.iter_mut().flatten() {
            *value = 0;
        }
    }
}

impl FromIterator<(Metric, u64)> for Counts {
    fn from_iter<T: IntoIterator<Item = (Metric, u64)>>(counts: T) -> Self {
        let mut all = Self::default();
        counts.into_iter().for_each(|(metric, value)| all.add(metric, value));
        all
    }
}

/// Reason why a producer waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wait {
    /// For nothing but its event loop: a message is due, and may go.
    #[default]
    Ready,
    /// For the time of its next message, or it has sent its share.
    Schedule,
    /// For the broker's answers: its in-flight budget is used up.
    Budget,
    /// For the broker to say that it takes more messages: credit, as in AMQP 1.0.
    Credit,
    /// For its socket, which takes no more bytes.
    Socket,
    /// For the broker to lift `connection.blocked`.
    Blocked,
    /// For a connection.
    Away,
}

/// Where time went: that of all producers added up, and that of the event loops. Nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waits {
    /// See [`Wait::Ready`].
    pub ready: Nanos,
    /// See [`Wait::Schedule`].
    pub schedule: Nanos,
    /// See [`Wait::Budget`].
    pub budget: Nanos,
    /// See [`Wait::Credit`].
    pub credit: Nanos,
    /// See [`Wait::Socket`].
    pub socket: Nanos,
    /// See [`Wait::Blocked`].
    pub blocked: Nanos,
    /// See [`Wait::Away`].
    pub away: Nanos,
    /// Of the event loops' time, what they had nothing to do in.
    pub loop_idle: Nanos,
    /// The event loops' time.
    pub loop_time: Nanos,
}

impl Waits {
    /// Adds a producer's time.
    #[inline]
    pub fn note(&mut self, wait: Wait, length: Nanos) {
        *match wait {
            Wait::Ready => &mut self.ready,
            Wait::Schedule => &mut self.schedule,
            Wait::Budget => &mut self.budget,
            Wait::Credit => &mut self.credit,
            Wait::Socket => &mut self.socket,
            Wait::Blocked => &mut self.blocked,
            Wait::Away => &mut self.away,
        } += length;
    }

    /// Adds another interval's.
    pub fn add(&mut self, other: &Self) {
        self.ready += other.ready;
        self.schedule += other.schedule;
        self.budget += other.budget;
        self.credit += other.credit;
        self.socket += other.socket;
        self.blocked += other.blocked;
        self.away += other.away;
        self.loop_idle += other.loop_idle;
        self.loop_time += other.loop_time;
    }

    /// All producers' time.
    pub fn producing(&self) -> Nanos {
        let theirs = self.budget + self.credit + self.socket + self.blocked + self.away;
        self.ready + self.schedule + theirs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_has_its_own_sum() {
        let causes = [Wait::Ready, Wait::Schedule, Wait::Budget, Wait::Credit, Wait::Socket, Wait::Blocked, Wait::Away];
        let mut waits = Waits::default();
        for (i, wait) in causes.into_iter().enumerate() {
            waits.note(wait, Nanos(1 << i));
        }
        assert_eq!((waits.ready, waits.away), (Nanos(1), Nanos(64)));
        assert_eq!(waits.producing(), Nanos(127));
        let mut twice = waits;
        twice.add(&waits);
        assert_eq!(twice.producing(), Nanos(254));
    }
}
