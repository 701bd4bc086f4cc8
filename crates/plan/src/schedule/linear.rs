//! Rates that change along straight lines: steps, ramps, bursts.
//! Counts are whole numbers of `1 / UNIT` messages, so that what lies before a segment, whole rounds of a repeated
//! course, and every segment of constant rate are exact; only the inverse inside a slope needs a square root. It is
//! taken from the end at which the rate is lower, where nothing cancels: four roundings of 2^-53, so less than a
//! nanosecond for slopes of up to [`LONGEST_SLOPE`].

/// Rates are in billionths of a message per second, times in nanoseconds, areas doubled: whole numbers.
pub(super) const UNIT: u128 = 2_000_000_000_000_000_000;
/// 10 days.
pub(super) const LONGEST_SLOPE: u64 = 864_000_000_000_000;

/// One part of the course, with what lies before it.
#[derive(Clone, Copy, Debug)]
struct Segment {
    /// Billionths of a message per second.
    from: u64,
    to: u64,
    start: u64,
    length: u64,
    before: u128,
    area: u128,
}

/// Behaviour after the last segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    /// The first one again.
    Repeat,
    /// This rate for ever, in billionths.
    Hold(u64),
}

#[derive(Clone, Debug)]
pub(super) struct Linear {
    segments: Vec<Segment>,
    length: u64,
    total: u128,
    after: After,
}

impl Linear {
    /// Segments as (rate at the start, rate at the end, nanoseconds). A course that repeats must send something.
    pub(super) fn new(parts: &[(u64, u64, u64)], after: After) -> Self {
        let mut course = Self { segments: Vec::with_capacity(parts.len()), length: 0, total: 0, after };
        for &(from, to, length) in parts {
            let area = (u128::from(from) + u128::from(to)) * u128::from(length);
            course.segments.push(Segment { from, to, start: course.length, length, before: course.total, area });
            course.length = course.length.saturating_add(length);
            course.total += area;
        }
        course
    }

    /// When the count passes `units`: the last instant at which it is not above. `None` where it never does.
    pub(super) fn instant(&self, units: u128) -> Option<u64> {
        match self.after {
            After::Repeat => {
                let round = u64::try_from(units.checked_div(self.total)?).ok()?;
                let within = self.within(units % self.total)?;
                round.checked_mul(self.length)?.checked_add(within)
            }
            After::Hold(_) if units < self.total => self.within(units),
            After::Hold(rate) => {
                let rest = (units - self.total).checked_div(2 * u128::from(rate))?;
                self.length.checked_add(u64::try_from(rest).ok()?)
            }
        }
    }

    fn within(&self, units: u128) -> Option<u64> {
        let at = self.segments.partition_point(|segment| segment.before + segment.area <= units);
        let segment = self.segments.get(at)?;
        Some(segment.start + segment.inverse(units - segment.before))
    }

    /// Messages until `t` ns after the start.
    pub(super) fn until(&self, t: u64) -> f64 {
        let (rounds, rest) = match self.after {
            After::Repeat if self.length > 0 => (t / self.length, t % self.length),
            _ => (0, t),
        };
        let at = self.segments.partition_point(|segment| segment.start.saturating_add(segment.length) <= rest);
        let (before, units) = match (self.segments.get(at), self.after) {
            (Some(segment), _) => (segment.before, segment.until(rest - segment.start)),
            (None, After::Hold(rate)) => {
                let held = 2 * u128::from(rate) * u128::from(rest - self.length);
                (self.total + held, 0.0)
            }
            (None, After::Repeat) => (self.total, 0.0),
        };
        let whole = self.total.saturating_mul(u128::from(rounds)).saturating_add(before);
        (whole / UNIT) as f64 + ((whole % UNIT) as f64 + units) / UNIT as f64
    }

    /// Whether it has a last message.
    pub(super) fn ends(&self) -> bool {
        self.after == After::Hold(0)
    }
}

impl Segment {
    /// The instant inside at which `units` have been counted; `units` is below `self.area`.
    fn inverse(&self, units: u128) -> u64 {
        if self.from == self.to {
            let rate = 2 * u128::from(self.from);
            return u64::try_from(units / rate.max(1)).unwrap_or(self.length);
        }
        let (low, high) = (self.from.min(self.to) as f64, self.from.max(self.to) as f64);
        let length = self.length as f64;
        // Time from the lower end until `count` units lie between: the stable root of
        // low t + (high - low) t^2 / (2 length) = count / 2.
        let root = |count: u128| {
            let count = count as f64;
            let speed = low + (low * low + (high - low) * count / length).sqrt();
            if speed > 0.0 { count / speed } else { 0.0 }
        };
        let t = if self.from < self.to { root(units) } else { length - root(self.area - units) };
        // A result on the edge of a nanosecond is taken for the nanosecond.
        ((t + 0.01) as u64).min(self.length)
    }

    /// Units counted until `t` ns inside.
    fn until(&self, t: u64) -> f64 {
        let (from, to, t) = (self.from as f64, self.to as f64, t as f64);
        t * (2.0 * from + (to - from) * t / self.length.max(1) as f64)
    }
}
