//! How far a worker's clock is from the coordinator's.
//!
//! A probe cannot arrive before it was sent, nor its echo: so the offset lies between `replied - returned` and
//! `received - sent`, whatever the two paths are like; the interval is as wide as the round trip. Intervals of other
//! probes are moved along the drift, and widened by its error times their age; the offset lies in all of them. The
//! drift is that of the lines that pass through all intervals. Where it jumps, as while NTP corrects a clock, no line
//! does once it has moved the offset by about a round trip; from then on the largest possible drift widens them.

use std::collections::VecDeque;

use measure::{Nanos, Time};
use serde::{Deserialize, Serialize};

/// Reading a clock, and rounding.
const GRANULARITY: i64 = 1_000;
/// A part of a probe's length, by which drift may move the offset meanwhile: 100 ppm.
const WHILE_PROBED: i64 = 10_000;
/// Clocks of machines differ by no more, also while NTP corrects one.
const MOST_DRIFT: f64 = 500e-6;
/// A drift is steady while it changes by no more, as with temperature.
const WANDER: f64 = 1e-6;
/// Newest probes, all of which are kept.
const MOST_RECENT: usize = 32;
/// Spans of time of which the narrowest probe is kept; where they do not suffice, spans are twice as long.
const MOST_SPANS: usize = 64;
const SHORTEST_SPAN: i64 = 1_000_000_000;
/// Probes after which the drift is computed again.
const REFRESH: u32 = 8;
/// Instants from here on are no monotonic clock's; sums of earlier ones do not overflow.
const FARTHEST: u64 = 1 << 60;

/// Instants of a probe and its echo.
#[derive(Clone, Copy, Debug)]
pub struct ProbeTimes {
    /// When the probe was sent, by the coordinator's clock.
    pub sent: Time,
    /// When it came, by the worker's clock.
    pub received: Time,
    /// When the echo was sent, by the worker's clock.
    pub replied: Time,
    /// When that came, by the coordinator's clock.
    pub returned: Time,
}

/// Nanoseconds between which the offset lay, the worker's clock less the coordinator's.
#[derive(Clone, Copy, Debug)]
struct OffsetRange {
    /// By the coordinator's clock.
    at: i64,
    lower: i64,
    upper: i64,
}

impl OffsetRange {
    fn of(times: ProbeTimes) -> Option<Self> {
        let of = |time: Time| (time.0 < FARTHEST).then_some(time.0 as i64);
        let (sent, received) = (of(times.sent)?, of(times.received)?);
        let (replied, returned) = (of(times.replied)?, of(times.returned)?);
        let margin = GRANULARITY + (returned - sent) / WHILE_PROBED;
        let it = Self {
            at: i64::midpoint(sent, returned),
            lower: replied - returned - margin,
            upper: received - sent + margin,
        };
        (sent <= returned && received <= replied && it.lower <= it.upper).then_some(it)
    }

    const fn width(&self) -> i64 {
        self.upper - self.lower
    }

    const fn span(&self, length: i64) -> i64 {
        self.at.div_euclid(length)
    }

    /// The interval at another instant.
    fn moved(&self, at: i64, drift: f64, error: f64) -> Self {
        let age = (at - self.at) as f64;
        let (moved, error) = (drift * age, error * age.abs());
        Self { at, lower: self.lower + (moved - error) as i64, upper: self.upper + (moved + error).ceil() as i64 }
    }

    /// The middle, and the most that it can be off.
    const fn middle(&self) -> (i64, Nanos) {
        let middle = i64::midpoint(self.lower, self.upper);
        (middle, Nanos(self.upper.abs_diff(middle) + 1))
    }
}

/// How far one worker's clock is ahead of another's, about an instant of the latter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClockLine {
    at: Time,
    ahead: i64,
    bound: Nanos,
    drift: f64,
    drift_error: f64,
}

impl ClockLine {
    /// Nanoseconds that it is ahead at another instant, and the most that this can be off.
    pub fn at(&self, now: Time) -> (i64, Nanos) {
        let age = now.since(self.at).0 as f64 - self.at.since(now).0 as f64;
        let error = (self.drift_error * age.abs()).ceil() as u64;
        (self.ahead.saturating_add((self.drift * age) as i64), Nanos(self.bound.0.saturating_add(error)))
    }

    /// The most that it can be off for so long.
    pub fn bound_for(&self, length: Nanos) -> Nanos {
        self.at(self.at + length).1
    }
}

/// Estimates the offset of a worker's clock from probes throughout a run.
#[derive(Clone, Debug)]
pub struct ClockEstimator {
    recent: VecDeque<OffsetRange>,
    /// The narrowest interval of each earlier span, in the order of time.
    spans: Vec<OffsetRange>,
    span: i64,
    /// Probes until the drift is computed again.
    until_refresh: u32,
    drift: f64,
    drift_error: f64,
    is_steady: bool,
    has_moved: bool,
    round_trip: Option<Nanos>,
}

impl Default for ClockEstimator {
    fn default() -> Self {
        Self {
            recent: VecDeque::new(),
            spans: Vec::new(),
            span: SHORTEST_SPAN,
            until_refresh: 0,
            drift: 0.0,
            drift_error: MOST_DRIFT,
            is_steady: true,
            has_moved: false,
            round_trip: None,
        }
    }
}

impl ClockEstimator {
    /// Takes a probe; whether its instants can be such.
    pub fn probe(&mut self, times: ProbeTimes) -> bool {
        let Some(interval) = OffsetRange::of(times) else { return false };
        let away = times.replied.since(times.received);
        let trip = times.returned.since(times.sent).saturating_sub(away);
        self.round_trip = Some(self.round_trip.map_or(trip, |least| least.min(trip)));
        self.add(interval);
        true
    }

    /// Takes what others know at an instant of the coordinator's clock, such as chrony: the worker's clock less the
    /// coordinator's in nanoseconds, and the most that this can be off.
    pub fn told(&mut self, at: Time, offset: i64, bound: Nanos) {
        let bound = i64::try_from(bound.0).unwrap_or(i64::MAX);
        let limit = FARTHEST as i64;
        if at.0 < FARTHEST && bound < limit && (-limit..limit).contains(&offset) {
            self.add(OffsetRange { at: at.0 as i64, lower: offset - bound, upper: offset + bound });
        }
    }

    fn add(&mut self, interval: OffsetRange) {
        self.recent.push_back(interval);
        if self.recent.len() > MOST_RECENT
            && let Some(oldest) = self.recent.pop_front()
        {
            self.keep(oldest);
        }
        self.until_refresh = self.until_refresh.saturating_sub(1);
        if self.until_refresh == 0 {
            self.until_refresh = REFRESH;
            self.refresh();
        }
    }

    fn keep(&mut self, interval: OffsetRange) {
        keep_narrowest(&mut self.spans, interval, self.span);
        while self.spans.len() > MOST_SPANS {
            self.span = self.span.saturating_mul(2);
            for interval in std::mem::take(&mut self.spans) {
                keep_narrowest(&mut self.spans, interval, self.span);
            }
        }
    }

    fn intervals(&self) -> impl Iterator<Item = &OffsetRange> {
        self.spans.iter().chain(&self.recent)
    }

    /// Finds the slopes of the lines that pass through all intervals: each two of them bound it.
    fn refresh(&mut self) {
        let mut all: Vec<OffsetRange> = self.intervals().copied().collect();
        all.sort_unstable_by_key(|it| it.at);
        let (mut least, mut most) = (-MOST_DRIFT, MOST_DRIFT);
        for (index, earlier) in all.iter().enumerate() {
            for later in all.iter().skip(index + 1) {
                let time = (later.at - earlier.at) as f64;
                let (low, high) = ((later.lower - earlier.upper) as f64, (later.upper - earlier.lower) as f64);
                self.has_moved |= low > MOST_DRIFT * time || high < -MOST_DRIFT * time;
                if time > 0.0 {
                    least = least.max(low / time - WANDER);
                    most = most.min(high / time + WANDER);
                }
            }
        }
        self.is_steady = least <= most;
        (self.drift, self.drift_error) = match self.is_steady {
            true => (f64::midpoint(least, most), (most - least) / 2.0 + WANDER),
            false => (0.0, MOST_DRIFT),
        };
    }

    /// The offset at an instant of the coordinator's clock, and the most that it can be off.
    fn offset(&self, at: i64) -> Option<(i64, Nanos)> {
        let moved = |it: &OffsetRange| it.moved(at, self.drift, self.drift_error);
        let all = self.intervals().map(moved).reduce(|a, b| OffsetRange {
            at,
            lower: a.lower.max(b.lower),
            upper: a.upper.min(b.upper),
        })?;
        if all.lower <= all.upper {
            return Some(all.middle());
        }
        // The clock moved: what is nearest counts.
        let nearest = self.intervals().min_by_key(|it| it.at.abs_diff(at))?;
        Some(moved(nearest).middle())
    }

    /// An instant of the worker's clock by the coordinator's, and the most that this can be off; `None` before a probe.
    pub fn to_coordinator(&self, time: Time) -> Option<(Time, Nanos)> {
        let time = time.0.min(FARTHEST) as i64;
        let newest = self.recent.back()?;
        let mut at = time - newest.middle().0;
        let mut bound = Nanos::ZERO;
        // The offset is asked for at an instant that depends on it.
        for _ in 0..2 {
            let (offset, off) = self.offset(at)?;
            (at, bound) = (time - offset, off);
        }
        Some((Time(u64::try_from(at).unwrap_or(0)), bound))
    }

    /// An instant of the coordinator's clock by the worker's, and the most that this can be off; `None` before a probe.
    pub fn to_worker(&self, time: Time) -> Option<(Time, Nanos)> {
        let time = time.0.min(FARTHEST) as i64;
        let (offset, bound) = self.offset(time)?;
        Some((Time(u64::try_from(time + offset).unwrap_or(0)), bound))
    }

    /// How far another worker's clock is ahead of this one's, about an instant of the coordinator's clock; `None`
    /// before a probe of each.
    pub fn line_to(&self, other: &Self, now: Time) -> Option<ClockLine> {
        let ((at, off), (theirs, theirs_off)) = (self.to_worker(now)?, other.to_worker(now)?);
        let ahead = i64::try_from(i128::from(theirs.0) - i128::from(at.0)).ok()?;
        Some(ClockLine {
            at,
            ahead,
            bound: Nanos(off.0.saturating_add(theirs_off.0)),
            drift: other.drift - self.drift,
            drift_error: other.drift_error + self.drift_error,
        })
    }

    /// The least round trip, without the worker's time between probe and echo.
    pub const fn round_trip(&self) -> Option<Nanos> {
        self.round_trip
    }

    /// Whether the drift has not changed by more than 1 ppm: else bounds are wider.
    pub const fn is_steady(&self) -> bool {
        self.is_steady
    }

    /// Whether no drift explains all probes: one of the clocks was set, or a machine slept.
    pub const fn has_moved(&self) -> bool {
        self.has_moved
    }
}

fn keep_narrowest(spans: &mut Vec<OffsetRange>, interval: OffsetRange, length: i64) {
    match spans.last_mut() {
        Some(last) if last.span(length) == interval.span(length) => {
            if interval.width() < last.width() {
                *last = interval;
            }
        }
        _ => spans.push(interval),
    }
}
