//! Parts of a profile by time.

use measure::Time;

use super::{EventKind, Profile, Sample};

impl Profile {
    /// The part of the profile that was sampled at `from <= t < to` (nanoseconds since the origin); of a time off CPU
    /// what lies between. `lost`, `throttled` and `cpu_share` are the whole profile's, for they carry no time.
    #[must_use]
    pub fn window(&self, from: u64, to: u64) -> Self {
        let mut window = self.clone();
        window.cut(from, to);
        window
    }

    /// Counts its times from another instant; what lies before that is at its beginning. Where one of the two is not known
    /// (0), all stays as it is.
    pub fn count_from(&mut self, origin: Time, unix_ns: u64) {
        let before = self.header.origin;
        if [before, origin].contains(&Time(0)) || before == origin {
            return;
        }
        (self.header.origin, self.header.origin_unix_ns) = (origin, unix_ns);
        let shift = |t: u64| Time(before.0.saturating_add(t)).since(origin).0;
        for sample in &mut self.samples {
            sample.t = shift(sample.t);
        }
        self.span = self.span.map(|(from, to)| (shift(from), shift(to)));
    }

    /// Leaves only what [`Profile::window`] would.
    pub fn cut(&mut self, from: u64, to: u64) {
        let lasts = self.lasts();
        let samples = self.samples.iter();
        let samples = samples
            .filter_map(|it| it.within(from, to, lasts))
            .collect();
        self.take_samples(samples);
        self.span = Some((from, to));
    }

    /// Samples inside one of the windows (`from <= t < to`, nanoseconds since the origin, none of which overlaps
    /// another), and those outside all. `lost` and `throttled` are in both the whole profile's, for they carry no time.
    #[must_use]
    pub fn split(self, windows: &[(u64, u64)]) -> (Self, Self) {
        let lasts = self.lasts();
        let windows = joined(windows);
        let (mut inside, mut outside) = (Vec::new(), Vec::new());
        for sample in &self.samples {
            let within = |(from, to): &(u64, u64)| sample.within(*from, *to, lasts);
            let parts: Vec<Sample> = windows.iter().filter_map(within).collect();
            let weight = parts.iter().map(|part| part.weight).sum();
            let rest = sample.weight.saturating_sub(weight);
            if parts.is_empty() || lasts && rest > 0 {
                outside.push(Sample {
                    weight: rest,
                    ..*sample
                });
            }
            inside.extend(parts);
        }
        let (mut part, mut rest) = (self.clone(), self);
        part.take_samples(inside);
        rest.take_samples(outside);
        (part, rest)
    }

    /// Leaves only these of its samples, each of which has its part of the bytes that were copied for all.
    fn take_samples(&mut self, samples: Vec<Sample>) {
        let (all, left) = (self.samples.len().max(1), samples.len());
        let copied = u128::from(self.copied_bytes) * left as u128 / all as u128;
        self.copied_bytes = u64::try_from(copied).unwrap_or(u64::MAX);
        self.samples = samples;
    }

    /// Whether a sample's weight is a time that begins with it.
    fn lasts(&self) -> bool {
        self.header.kind == EventKind::OffCpu && self.header.unit == "nanoseconds"
    }
}

/// Merges windows that overlap.
fn joined(windows: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut sorted = windows.to_vec();
    sorted.sort_unstable();
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for (from, to) in sorted {
        match joined.last_mut().filter(|(_, end)| from <= *end) {
            Some((_, end)) => *end = to.max(*end),
            None => joined.push((from, to)),
        }
    }
    joined
}

impl Sample {
    /// Part of it that lies in a window; `lasts`: its weight is a time.
    fn within(&self, from: u64, to: u64, lasts: bool) -> Option<Self> {
        if !lasts || self.weight == 0 {
            return (self.t >= from && self.t < to).then_some(*self);
        }
        let begin = self.t.max(from);
        let end = self.t.saturating_add(self.weight).min(to);
        (begin < end).then(|| Self {
            t: begin,
            weight: end - begin,
            ..*self
        })
    }
}
