//! Recordings of Java's flight recorder, as `jcmd PID JFR.start` and async-profiler write them.
//!
//! A recording is a row of chunks, each of which describes the types of its events itself ([`values`]).

mod chunk;
mod stacks;
#[cfg(test)]
mod tests;
mod values;

use chunk::Chunk;
use stacks::Stacks;
use values::{JfrType, Value, value};

use super::model::{EventKind, Profile, ProfileHeader, Sample};
use super::tree::Builder;

struct Sampled {
    /// The recorder's name of it.
    name: &'static str,
    /// The name that it has here.
    event: &'static str,
    kind: EventKind,
    unit: &'static str,
    weight: Weight,
}

/// How much a sample counts.
#[derive(Clone, Copy)]
enum Weight {
    One,
    /// A field.
    Field(&'static str),
    /// A field that is a time in the recorder's ticks.
    Ticks(&'static str),
}

macro_rules! sampled {
    ($($name:literal $event:literal $kind:ident $unit:literal $weight:expr;)*) => {
        [$(Sampled { name: $name, event: $event, kind: EventKind::$kind, unit: $unit, weight: $weight }),*]
    };
}

/// The events that are read: of those that a recording has, the first here.
const SAMPLED: [Sampled; 10] = sampled! {
    "jdk.ExecutionSample" "cpu" OnCpu "samples" Weight::One;
    "jdk.CPUTimeSample" "cpu" OnCpu "samples" Weight::One;
    "profiler.WallClockSample" "wall" Other "samples" Weight::Field("samples");
    "jdk.ObjectAllocationSample" "allocations" Memory "bytes" Weight::Field("weight");
    "jdk.ObjectAllocationInNewTLAB" "allocations" Memory "bytes" Weight::Field("tlabSize");
    "jdk.ObjectAllocationOutsideTLAB" "allocations" Memory "bytes" Weight::Field("allocationSize");
    "profiler.Malloc" "malloc" Memory "bytes" Weight::Field("size");
    "jdk.JavaMonitorEnter" "locks" OffCpu "nanoseconds" Weight::Ticks("duration");
    "jdk.ThreadPark" "parks" OffCpu "nanoseconds" Weight::Ticks("duration");
    "jdk.NativeMethodSample" "native" Other "samples" Weight::One;
};

/// Whether bytes are the beginning of a recording.
pub(super) fn looks_like(bytes: &[u8]) -> bool {
    bytes.starts_with(chunk::MAGIC)
}

/// Reads a recording. The error says what is wrong with it.
pub(super) fn read(recording: &[u8]) -> Result<Profile, String> {
    let chunks = chunk::split(recording)?;
    let (counts, origin_ns) = count(&chunks)?;
    let Some(row) = counts.iter().position(|&count| count > 0) else {
        return Err("it has no samples: record with the settings `profile`".to_owned());
    };
    let mut reader = JfrReader {
        sampled: &SAMPLED[row],
        builder: Builder::default(),
        states: Vec::new(),
        left_out: LeftOut::default(),
        origin_ns,
    };
    for bytes in &chunks {
        reader.chunk(&Chunk::read(bytes)?)?;
        reader.leave_out_what_took_no_cpu();
    }
    let left_out = reader.left_out.notes(reader.sampled.name, &reader.builder.profile)?;
    let mut profile = reader.profile();
    profile.notes.extend(left_out);
    let others = counts.iter().zip(&SAMPLED).enumerate();
    let others: Vec<String> = others
        .filter(|(other, (count, _))| *other != row && **count > 0)
        .map(|(_, (count, sampled))| format!("{count} of {}", sampled.name))
        .collect();
    if !others.is_empty() {
        profile.notes.push(format!("only the samples of {} were read, not {}", SAMPLED[row].name, others.join(", ")));
    }
    Ok(profile)
}

/// How many samples there are of each event, and when the first chunk began.
fn count(chunks: &[&[u8]]) -> Result<([u64; SAMPLED.len()], u64), String> {
    let mut counts = [0; SAMPLED.len()];
    let mut origin_ns = u64::MAX;
    for bytes in chunks {
        let chunk = Chunk::read(bytes)?;
        origin_ns = origin_ns.min(chunk.start_ns);
        let ids = SAMPLED.map(|it| chunk.classes.id(it.name));
        for event in chunk.events() {
            let (class, _) = event?;
            let rows = counts.iter_mut().zip(&ids);
            for (count, _) in rows.filter(|(_, id)| **id == Some(class)) {
                *count += 1;
            }
        }
    }
    Ok((counts, origin_ns))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ThreadState {
    /// It was sampled by its CPU time: async-profiler's `STATE_DEFAULT`, or no state is told.
    OnCpu,
    /// It could run.
    Runnable,
    /// It slept, waited, or was blocked.
    Asleep,
}

impl ThreadState {
    fn of(name: Option<&str>) -> Self {
        match name {
            None | Some("STATE_DEFAULT") => Self::OnCpu,
            Some("STATE_RUNNABLE" | "") => Self::Runnable,
            Some(_) => Self::Asleep,
        }
    }
}

/// Samples of CPU time that are none.
#[derive(Clone, Copy, Debug, Default)]
struct LeftOut {
    by_wall_clock: usize,
    asleep: usize,
}

impl LeftOut {
    /// Notes of them; an error where nothing is left.
    fn notes(self, event: &str, profile: &Profile) -> Result<Vec<String>, String> {
        let out = self.by_wall_clock + self.asleep;
        let all = profile.samples.len() + out;
        let whats = [
            (self.by_wall_clock, "were taken by the wall clock, and not by CPU time"),
            (self.asleep, "are of threads that slept or waited"),
        ];
        let some = whats.into_iter().filter(|(out, _)| *out > 0);
        if out > 0 && out == all {
            let whats: Vec<&str> = some.map(|(_, what)| what).collect();
            return Err(format!("all of its {all} samples {}", whats.join(", or ")));
        }
        let note = |(out, what)| format!("{out} of {all} samples of {event} {what}: they were left out");
        Ok(some.map(note).collect())
    }
}

struct JfrReader {
    sampled: &'static Sampled,
    builder: Builder,
    /// State of the thread of each sample of the last chunk.
    states: Vec<ThreadState>,
    left_out: LeftOut,
    /// When the first chunk began.
    origin_ns: u64,
}

impl JfrReader {
    fn chunk(&mut self, chunk: &Chunk<'_>) -> Result<(), String> {
        let Some(wanted) = chunk.classes.id(self.sampled.name) else { return Ok(()) };
        let class = chunk.classes.get(wanted).ok_or("an event of an unknown type")?;
        let mut stacks = Stacks::new(chunk);
        for event in chunk.events() {
            let (id, mut bytes) = event?;
            if id == wanted {
                let fields = value(&mut bytes, &chunk.classes, wanted, true)?;
                self.sample(&fields, class, chunk, &mut stacks)?;
            }
        }
        Ok(())
    }

    fn sample(
        &mut self,
        fields: &Value,
        class: &JfrType,
        chunk: &Chunk<'_>,
        stacks: &mut Stacks<'_>,
    ) -> Result<(), String> {
        let builder = &mut self.builder;
        let number = |name: &str| fields.field(class, name).number();
        let weight = match self.sampled.weight {
            Weight::One => 1,
            Weight::Field(name) => number(name),
            Weight::Ticks(name) => chunk.length_ns(number(name)),
        };
        // What began before the recording is as long as it was in it.
        let t = chunk.since(self.origin_ns, number("startTime"));
        let before = u64::try_from(-t).unwrap_or(0);
        let weight = match self.sampled.weight {
            Weight::Ticks(_) => weight.saturating_sub(before),
            _ => weight,
        };
        let t = u64::try_from(t).unwrap_or(0);
        let (stack, complete) = stacks.stack(class, number("stackTrace"), builder)?;
        // The recorder's samplers say whom they sampled, other events where they happened.
        let threads = ["sampledThread", "eventThread"];
        let field = threads.into_iter().find(|name| class.place(name).is_some());
        let thread = field.and_then(|name| stacks.thread(class, name, number(name)));
        let thread = builder.thread(&thread.unwrap_or_default());
        let state = class.place("state").map(|_| stacks.state(class, number("state")));
        self.states.push(ThreadState::of(state));
        builder.sample(Sample { t, complete, ..Sample::new(stack, thread, weight) });
        builder.room()
    }

    /// Leaves out samples of the last chunk that async-profiler took by the wall clock, which are among those of CPU
    /// time (`event=cpu,wall=…`): where it tells those of CPU time apart, all others; else those of threads that did
    /// not run. Chunks of one file may be of several recorders.
    fn leave_out_what_took_no_cpu(&mut self) {
        let states = std::mem::take(&mut self.states);
        if self.sampled.kind != EventKind::OnCpu {
            return;
        }
        let samples = &mut self.builder.profile.samples;
        let told_apart = states.contains(&ThreadState::OnCpu);
        let kept = |state: &ThreadState| match told_apart {
            true => *state == ThreadState::OnCpu,
            false => *state == ThreadState::Runnable,
        };
        let of_chunk = samples.split_off(samples.len().saturating_sub(states.len()));
        let all = of_chunk.len();
        let of_chunk = of_chunk.into_iter().zip(&states).filter(|(_, state)| kept(state));
        let before = samples.len();
        samples.extend(of_chunk.map(|(sample, _)| sample));
        let out = all - (samples.len() - before);
        if told_apart { self.left_out.by_wall_clock += out } else { self.left_out.asleep += out }
    }

    fn profile(self) -> Profile {
        let mut profile = self.builder.profile;
        profile.samples.sort_by_key(|sample| sample.t);
        profile.header = ProfileHeader {
            event: self.sampled.event.to_owned(),
            kernel_event: self.sampled.name.to_owned(),
            unit: self.sampled.unit.to_owned(),
            kind: self.sampled.kind,
            ..ProfileHeader::new(measure::Time(0), self.origin_ns)
        };
        let times = profile.samples.first().zip(profile.samples.last());
        profile.span = times.map(|(first, last)| (first.t, last.t));
        profile
    }
}
