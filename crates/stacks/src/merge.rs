//! Several profiles as one: the periods of a recording; and parts of a profile by time.

use std::collections::{BTreeSet, HashMap};

use measure::Time;

use super::model::{ErlangProcess, EventKind, MOST_PROCESSES, Profile, Sample};
use super::tree::Builder;

/// Samples of which each keeps its time; of further profiles equal ones are added up, each period's to its beginning.
const MOST_TIMED: usize = 4 << 20;
const MOST_NOTES: usize = 20;

/// Adds profiles up, in the order of time.
#[derive(Debug, Default)]
pub struct Merge {
    merged: Builder,
    /// By operating-system process and identifier: a node that was started anew gives the same ones.
    processes: HashMap<(u32, String), u32>,
    commands: BTreeSet<String>,
    pids: BTreeSet<u32>,
    /// CPU time that the samples stand for, and that the processes used, nanoseconds, in the profiles that tell it.
    sampled_ns: f64,
    cpu_ns: f64,
    parts: usize,
    left_out: usize,
}

/// Indices of a profile in the merged one.
struct Indices {
    stacks: Vec<u32>,
    threads: Vec<u32>,
    processes: Vec<Option<u32>>,
    waits: Vec<u32>,
}

impl Merge {
    /// Adds a profile; the first one's origin holds for all. Another rate or event is left out, with a note.
    pub fn add(&mut self, part: Profile) {
        let header = &part.header;
        let ours = &self.merged.profile.header;
        if self.parts == 0 {
            self.merged.profile.header = header.clone();
        } else if (header.period_ns, &header.event, &header.unit) != (ours.period_ns, &ours.event, &ours.unit) {
            self.left_out += 1;
            return;
        }
        self.parts += 1;
        self.commands.insert(header.command.clone());
        self.pids.insert(header.pid);
        let later = header.origin_unix_ns.saturating_sub(self.merged.profile.header.origin_unix_ns);
        if let Some(share) = part.cpu_share.filter(|share| *share > 0.0) {
            let sampled = part.total_weight() as f64 * header.period_ns as f64;
            self.sampled_ns += sampled;
            self.cpu_ns += sampled / share;
        }
        let indices = self.indices(&part);
        self.samples(&part, &indices, later);
        self.sums(part, later);
    }

    /// How many were added.
    pub const fn parts(&self) -> usize {
        self.parts
    }

    /// All of them.
    pub fn finish(mut self) -> Profile {
        let profile = &mut self.merged.profile;
        profile.header.command = Vec::from_iter(self.commands).join(", ");
        if self.pids.len() > 1 {
            profile.header.pid = 0;
        }
        profile.cpu_share = (self.cpu_ns > 0.0).then(|| self.sampled_ns / self.cpu_ns);
        if self.left_out > 0 {
            profile.notes.push(format!(
                "{} of {} periods were sampled in another way and are left out",
                self.left_out,
                self.parts + self.left_out
            ));
        }
        self.merged.profile
    }

    fn indices(&mut self, part: &Profile) -> Indices {
        let to = &mut self.merged;
        let frames: Vec<u32> = part.frames.iter().map(|frame| to.frame(frame)).collect();
        let stacks = part.per_stack(|parent, node| {
            let frame = frames.get(node.frame as usize).copied().unwrap_or(0);
            to.node(parent, frame)
        });
        let threads = part.threads.iter().map(|thread| to.thread(thread)).collect();
        let waits = part.waits.iter().map(|wait| to.wait(wait)).collect();
        let pid = part.header.pid;
        let processes = part.processes.iter().map(|it| self.process(pid, it)).collect();
        Indices { stacks, threads, processes, waits }
    }

    /// The index of an Erlang process; none where there are too many.
    fn process(&mut self, pid: u32, process: &ErlangProcess) -> Option<u32> {
        let key = (pid, process.id.clone());
        if let Some(known) = self.processes.get(&key) {
            return Some(*known);
        }
        let processes = &mut self.merged.profile.processes;
        let index = u32::try_from(processes.len()).ok().filter(|_| processes.len() < MOST_PROCESSES)?;
        processes.push(process.clone());
        self.processes.insert(key, index);
        Some(index)
    }

    /// Adds samples that begin `later` than the first profile.
    fn samples(&mut self, part: &Profile, indices: &Indices, later: u64) {
        let samples = part.samples.iter().filter_map(|sample| {
            let process = sample.process.and_then(|it| *indices.processes.get(it as usize)?);
            Some(Sample {
                t: sample.t.saturating_add(later),
                stack: *indices.stacks.get(sample.stack as usize)?,
                thread: *indices.threads.get(sample.thread as usize)?,
                process,
                wait: (sample.wait).and_then(|it| indices.waits.get(it as usize).copied()),
                ..*sample
            })
        });
        let merged = &mut self.merged.profile.samples;
        if merged.len() < MOST_TIMED {
            merged.extend(samples);
            return;
        }
        let mut sums: HashMap<_, Sample> = HashMap::new();
        for sample in samples {
            let key = ((sample.stack, sample.thread, sample.process, sample.wait), (sample.complete, sample.unwinding));
            let sum = sums.entry(key).or_insert(Sample { weight: 0, ..sample });
            sum.t = sum.t.min(sample.t);
            sum.weight = sum.weight.saturating_add(sample.weight);
        }
        merged.extend(sums.into_values());
    }

    /// Adds what is not in samples.
    fn sums(&mut self, part: Profile, later: u64) {
        let profile = &mut self.merged.profile;
        profile.lost = profile.lost.saturating_add(part.lost);
        profile.throttled = profile.throttled.saturating_add(part.throttled);
        profile.own_cpu_ns = profile.own_cpu_ns.saturating_add(part.own_cpu_ns);
        profile.copied_bytes = profile.copied_bytes.saturating_add(part.copied_bytes);
        profile.builds.add_all(&part.builds);
        let (from, to) = part.span.unwrap_or_default();
        let (from, to) = (from.saturating_add(later), to.saturating_add(later));
        let span = profile.span.unwrap_or((from, to));
        profile.span = Some((span.0.min(from), span.1.max(to)));
        for note in part.notes {
            if profile.notes.len() < MOST_NOTES && !profile.notes.contains(&note) {
                profile.notes.push(note);
            }
        }
    }
}

impl Profile {
    /// The part of the profile that was sampled at `from <= t < to` (nanoseconds since the origin); of a time off CPU
    /// what lies between. `lost`, `throttled` and `cpu_share` are the whole profile's, for they carry no time.
    pub fn window(&self, from: u64, to: u64) -> Self {
        let mut window = self.clone();
        window.cut(from, to);
        window
    }

    /// Counts its times from another instant, where earlier ones are put. An unknown one (0) changes nothing.
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
        let samples = self.samples.iter().filter_map(|it| it.within(from, to, lasts)).collect();
        self.take_samples(samples);
        self.span = Some((from, to));
    }

    /// Samples inside one of the windows (`from <= t < to`, nanoseconds since the origin, none of which overlaps
    /// another), and those outside all. `lost` and `throttled` are in both the whole profile's, for they carry no time.
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
                outside.push(Sample { weight: rest, ..*sample });
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
        (begin < end).then(|| Self { t: begin, weight: end - begin, ..*self })
    }
}

#[cfg(test)]
mod tests {
    use super::super::frames::{Frame, FrameKind};
    use super::*;

    /// A period that began at a second and has a sample of each function, at its first moment.
    fn period(second: u64, pid: u32, functions: &[&str]) -> Profile {
        let mut builder = Builder::default();
        for name in functions {
            let frame = builder.frame(&Frame::new(*name, "m", FrameKind::Native));
            let stack = builder.node(None, frame);
            let thread = builder.thread("t");
            let process = Some(builder.process("<0.1.0>"));
            builder.sample(Sample { t: 5, weight: 1, stack, thread, complete: true, process, ..Sample::default() });
        }
        let mut profile = builder.profile;
        profile.header.origin_unix_ns = second * 1_000_000_000;
        profile.header.event = "cpu".into();
        profile.header.period_ns = 10;
        profile.header.pid = pid;
        profile.header.command = "beam.smp".into();
        profile.span = Some((0, 1_000_000_000));
        profile.cpu_share = Some(0.5);
        profile
    }

    #[test]
    fn periods_become_one_profile_on_one_time_axis() {
        let mut merge = Merge::default();
        merge.add(period(100, 1, &["a", "b"]));
        merge.add(period(160, 2, &["b", "c"]));
        let mut other = period(220, 1, &["d"]);
        other.header.period_ns = 99;
        merge.add(other);
        assert_eq!(merge.parts(), 2);
        let merged = merge.finish();
        assert!(merged.is_consistent());
        let functions: Vec<_> = merged.functions().into_iter().collect();
        let count = |name: &str| functions.iter().find(|it| it.share.function == name).map_or(0, |it| it.self_weight);
        assert_eq!(["a", "b", "c", "d"].map(count), [1, 2, 1, 0]);
        let times: Vec<u64> = merged.samples.iter().map(|it| it.t).collect();
        assert_eq!(times, [5, 5, 60_000_000_005, 60_000_000_005]);
        assert_eq!(merged.span, Some((0, 61_000_000_000)));
        assert_eq!(merged.cpu_share, Some(0.5));
        assert_eq!(merged.header.pid, 0);
        assert_eq!(merged.processes.len(), 2, "of two nodes");
        assert!(merged.notes[0].contains("1 of 3 periods"), "{:?}", merged.notes);
    }
}
