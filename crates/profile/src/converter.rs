//! The one way from records of any source to a profile: threads named, stacks unwound and named, samples written.

use std::collections::HashMap;

use measure::{Nanos, Time};
use stacks::{ErlangProcess, Footer, Sample, StacksWriter, Wait};

use crate::beam::ProcessId;
use crate::events::{Event, Weight};
use crate::held::HeldMemory;
use crate::late_names::{LateNames, UnresolvedSample};
use crate::record::{Address, Record, SampleRecord};
use crate::stack_table::StackTable;
use crate::symbols;
use crate::threads::Threads;
use crate::tracepoint::Field;
use crate::unwind::{Stack, Unwinder};
use crate::wakers::Wakers;

/// Erlang processes whose index is kept.
const MOST_PROCESSES: usize = 1 << 16;

/// Events that may lie between the last samples and the end without a word on them.
const MOST_UNTOLD: u64 = 10_000;

/// Samples that must be due before their number tells how many are missing.
const LEAST_EXPECTED: u64 = 200;

/// Samples of the next part for which this one stays open.
const MOST_AHEAD: usize = 10_000;

/// Bytes that the addresses of a process reach at most (x86-64 with five levels of pages).
const LARGEST_SPACE: u64 = 1 << 56;

/// Result of a sampler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Samples kept.
    pub samples: u64,
    /// Samples that came. Those of memory that was given back again are not kept.
    pub taken: u64,
    /// Samples that the kernel dropped because nobody fetched them in time.
    pub lost: u64,
    /// How often the kernel stopped sampling for a while.
    pub throttled: u64,
    /// CPU time that the sampler's thread used while sampling.
    pub own_cpu: Nanos,
    /// Notes for the reader of the profile, which has them, too: missing permissions, a process that died, a full disk.
    pub notes: Vec<String>,
}

/// A part of the sampling that has one file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) from: Time,
    pub(crate) to: Time,
    /// CPU time that the sampler's thread used in it.
    pub(crate) own_cpu: Nanos,
    /// CPU time that the process used in it; 0 where that is not known.
    pub(crate) process_cpu: Nanos,
}

struct Taken {
    at: Time,
    thread: String,
    cpu: u16,
    weight: u64,
    /// Of a time off CPU.
    wait: Option<Wait>,
}

/// Whose samples count, and what they count.
pub(crate) struct Subject {
    pub(crate) pid: u32,
    pub(crate) event: Event,
    /// Field of a sample that is its weight.
    pub(crate) field: Option<Field>,
    /// Event number to the thread that it was opened on.
    pub(crate) owners: HashMap<u64, u32>,
    /// Only threads inherit the events, not child processes.
    pub(crate) threads_only: bool,
    /// CPU time that a weight of 1 stands for; 0 where it stands for none.
    pub(crate) period_ns: u64,
}

pub(crate) struct Converter {
    subject: Subject,
    threads: Threads,
    unwinder: Box<dyn Unwinder>,
    stacks: StackTable,
    wakers: Wakers,
    sink: StacksWriter,
    origin: Time,
    outcome: Outcome,
    weight: u64,
    /// Bytes of stacks that were copied.
    copied: u64,
    stack: Stack,
    /// Erlang processes by their index in the profile.
    processes: HashMap<ProcessId, u32>,
    late: Option<LateNames>,
    /// It was noted why there are none.
    told_why_unnamed: bool,
    /// Samples from this instant on belong to the next part.
    pub(crate) next_part: Option<Time>,
    /// Such samples, with their stacks.
    ahead: Vec<(Stack, Taken)>,
    /// Notes for every part.
    standing: Vec<String>,
    /// Memory that the process holds, where samples weigh by it.
    held: Option<HeldMemory<Unweighed>>,
    /// From then on that changes no more.
    pub(crate) held_until: Time,
}

impl Converter {
    pub(crate) fn new(
        subject: Subject,
        threads: Threads,
        unwinder: Box<dyn Unwinder>,
        stacks: StackTable,
        mut sink: StacksWriter,
    ) -> Self {
        Self {
            wakers: Wakers::of(subject.pid),
            held: HeldMemory::of(&subject.event),
            held_until: Time(u64::MAX),
            subject,
            threads,
            unwinder,
            stacks,
            origin: sink.header_mut().map_or(Time(0), |header| header.origin),
            sink,
            outcome: Outcome::default(),
            weight: 0,
            copied: 0,
            stack: Stack::default(),
            processes: HashMap::new(),
            late: None,
            told_why_unnamed: false,
            next_part: None,
            ahead: Vec::new(),
            standing: Vec::new(),
        }
    }

    /// Keeps the notes so far for every part to come.
    pub(crate) fn begin(&mut self) {
        self.standing.clone_from(&self.outcome.notes);
    }

    /// Counts from another instant, unless the header has been written.
    pub(crate) fn count_from(&mut self, origin: Time, unix_ns: u64) {
        if let Some(header) = self.sink.header_mut() {
            (header.origin, header.origin_unix_ns) = (origin, unix_ns);
            self.origin = origin;
        }
    }

    /// Whether no sample waits for its names, or so many are ahead that none may wait any longer.
    pub(crate) fn is_settled(&self) -> bool {
        let waits = self.late.as_ref().is_some_and(LateNames::holds_any);
        !waits || self.ahead.len() >= MOST_AHEAD
    }

    /// Has samples wait for names that a virtual machine is asked for.
    pub(crate) fn wait_for_names(&mut self, late: LateNames) {
        self.stacks.map_on_request = true;
        self.late = Some(late);
    }

    /// Call it before records are fetched: what the JIT map takes back from now on holds for the samples before.
    pub(crate) fn before_fetch(&mut self) {
        self.stacks.refresh_jit();
        if let Some(mut late) = self.late.take() {
            self.poll_names(&mut late);
            self.late = Some(late);
        }
    }

    fn poll_names(&mut self, late: &mut LateNames) {
        let held = match late.poll() {
            Ok(false) => None,
            Ok(true) => late.read(|| self.stacks.reread_jit()),
            Err(why) => {
                self.note_unnamed(&why);
                Some(late.release())
            }
        };
        if let Some(held) = held {
            late.named(self.write_held(held));
        }
    }

    /// Writes samples that have waited; says whether names have come for any of them.
    fn write_held(&mut self, held: Vec<UnresolvedSample>) -> bool {
        let mut named = false;
        for UnresolvedSample { stack, at, sample } in held {
            let node = self.stacks.node(&stack, at, &mut self.sink);
            named |= !node.unnamed;
            self.sink.sample(&Sample { stack: node.id, complete: node.complete, ..sample });
        }
        named
    }

    pub(crate) fn note_unnamed(&mut self, why: &str) {
        self.told_why_unnamed = true;
        let is_late = self.stacks.symbols.runtime_without_jit_map().is_none();
        let which = if is_late { "Java methods compiled late" } else { "Java methods" };
        self.note(&format!("{which} have no names, because {why}"));
    }

    pub(crate) fn record(&mut self, record: &Record<'_>) {
        match *record {
            Record::Sample(sample) => self.sample(&sample),
            Record::Lost(count) => {
                self.outcome.lost = self.outcome.lost.saturating_add(count);
                self.sink.lost(count);
            }
            Record::Throttle => {
                self.outcome.throttled += 1;
                self.sink.throttled(1);
            }
            Record::Comm { pid, tid, name } if pid == self.subject.pid => {
                self.threads.renamed(tid, name);
            }
            Record::Fork { pid, tid, parent_tid } if pid == self.subject.pid => {
                self.threads.started(tid, parent_tid);
            }
            Record::Exit { tid } => self.threads.exited(tid),
            Record::Mmap { pid } if pid == self.subject.pid => self.refresh_mappings(),
            _ => {}
        }
    }

    fn sample(&mut self, sample: &SampleRecord<'_>) {
        // A thread that is just ending has no numbers any more; its event is ours nevertheless.
        let ours = sample.pid == self.subject.pid || (self.subject.threads_only && sample.pid == u32::MAX);
        let owner = self.subject.owners.get(&sample.id).copied().unwrap_or(sample.tid);
        let tid = if sample.tid == u32::MAX { owner } else { sample.tid };
        if !ours || !self.threads.counts(tid, owner) {
            return;
        }
        self.outcome.taken += 1;
        self.unwinder.unwind(sample, &mut self.stack);
        if self.subject.event.is_system_call() {
            self.stack.addresses.retain(Address::is_user);
        }
        let mut taken = Taken {
            at: Time(sample.time),
            thread: self.threads.name(tid).to_owned(),
            cpu: u16::try_from(sample.cpu).unwrap_or(u16::MAX),
            weight: self.weight(sample),
            wait: None,
        };
        taken.wait = sample.ended.map(|it| self.wakers.wait(it, &self.stacks.symbols));
        let stack = std::mem::take(&mut self.stack);
        if let Some(next) = self.next_part {
            if taken.at >= next {
                self.ahead.push((stack, taken));
                return;
            }
            let before = next.since(taken.at).0;
            if self.subject.event.weight == Weight::Blocked && taken.weight > before {
                let after = Taken {
                    at: next,
                    thread: taken.thread.clone(),
                    weight: taken.weight - before,
                    wait: taken.wait.clone(),
                    ..taken
                };
                taken.weight = before;
                self.ahead.push((stack.clone(), after));
            }
        }
        self.keep(&stack, &taken);
        // Its memory is used again.
        self.stack = stack;
    }

    /// Writes a sample, or keeps it until it is known what is held of what was taken.
    fn keep(&mut self, stack: &Stack, taken: &Taken) {
        if self.held.is_some() {
            self.hold(stack, taken);
        } else {
            let (sample, is_unnamed) = self.named(stack, taken);
            self.write(sample, taken.at, Some(stack).filter(|_| is_unnamed));
            self.copied = self.copied.saturating_add(stack.copied);
        }
    }

    /// Names a stack; the sample, and whether names are missing that may come.
    fn named(&mut self, stack: &Stack, taken: &Taken) -> (Sample, bool) {
        let node = self.stacks.node(stack, taken.at, &mut self.sink);
        let sample = Sample {
            t: taken.at.since(self.origin).0,
            weight: taken.weight,
            stack: node.id,
            thread: self.sink.thread(&taken.thread),
            cpu: taken.cpu,
            complete: node.complete,
            unwinding: stack.unwinding,
            process: stack.process.map(|process| self.process(process)),
            wait: taken.wait.as_ref().map(|wait| self.sink.wait(wait)),
        };
        (sample, node.unnamed)
    }

    /// Writes a sample, or has it wait for names that its stack lacks.
    fn write(&mut self, sample: Sample, at: Time, unnamed: Option<&Stack>) {
        let late = self.late.as_mut().zip(unnamed);
        if !late.is_some_and(|(late, stack)| late.hold(stack, at, sample)) {
            self.sink.sample(&sample);
        }
        self.outcome.samples += 1;
        self.weight = self.weight.saturating_add(sample.weight);
    }

    /// Weight of the sample that was unwound last.
    fn weight(&self, sample: &SampleRecord<'_>) -> u64 {
        let weight = self.told_weight(sample);
        // Nobody has that much memory: the call failed.
        let is_bytes = matches!(self.subject.event.weight, Weight::Field(_));
        if is_bytes && weight > LARGEST_SPACE { 0 } else { weight }
    }

    fn told_weight(&self, sample: &SampleRecord<'_>) -> u64 {
        match (self.subject.event.weight, self.stack.value) {
            (Weight::One, _) => 1,
            (Weight::Blocked, _) | (Weight::Events, None) => sample.period,
            (_, Some(value)) => value,
            (Weight::Held | Weight::Calls | Weight::Requested, None) => 0,
            (Weight::Field(_), None) => self.subject.field.and_then(|it| it.value(sample.rest)).unwrap_or(0),
        }
    }

    fn process(&mut self, process: ProcessId) -> u32 {
        if let Some(&known) = self.processes.get(&process) {
            return known;
        }
        let index = self.sink.process(&ErlangProcess::unnamed(process.to_string()));
        // A node that starts one for each request has any number of them.
        if self.processes.len() < MOST_PROCESSES {
            self.processes.insert(process, index);
        }
        index
    }

    fn refresh_mappings(&mut self) {
        if self.stacks.refresh_mappings() {
            self.unwinder.refresh();
        }
    }

    /// Hands what came so far to the file, and looks for new mappings and threads that have ended.
    pub(crate) fn every_second(&mut self) {
        self.sink.flush();
        if self.stacks.misses_mappings() {
            self.refresh_mappings();
        }
        self.threads.forget();
    }

    /// Adds what was lost and never told: the kernel writes a record of it in front of the next one
    /// that fits, and after the last samples there is none.
    pub(crate) fn lost_in_all(&mut self, count: u64) {
        let untold = count.saturating_sub(self.outcome.lost);
        if untold > 0 {
            self.outcome.lost += untold;
            self.sink.lost(untold);
        }
    }

    /// Notes where samples stand for another number of events than the kernel `counted`. At a frequency it sets the
    /// number of events between two samples by the last moment's pace, and reports what it set: bursts deceive it.
    pub(crate) fn compare_count(&mut self, counted: Option<u64>) {
        // Otherwise it counts those of other processes.
        if self.subject.event.weight != Weight::Events || !self.subject.threads_only {
            return;
        }
        let note = counted.and_then(|counted| wrong_count(self.weight, counted));
        note.iter().for_each(|note| self.note(note));
    }

    pub(crate) fn finish(mut self, part: Part) -> Outcome {
        self.write_held_memory();
        if let Some(mut late) = self.late.take() {
            if let Err(why) = late.end() {
                self.note_unnamed(&why);
            }
            // A map that is being written for somebody else is read as far as it goes.
            self.stacks.reread_jit();
            self.write_held(late.release());
        }
        self.note_lacking_names();
        let footer = self.footer(part);
        self.outcome.own_cpu = part.own_cpu;
        end(self.sink, footer, self.outcome)
    }

    /// Ends the file, and begins another with the samples that belong to it.
    pub(crate) fn turn(&mut self, part: Part, sink: StacksWriter) -> Outcome {
        self.write_held_memory();
        if let Some(mut late) = self.late.take() {
            self.write_held(late.release());
            self.late = Some(late);
        }
        self.note_lacking_names();
        let footer = self.footer(part);
        let ended = std::mem::replace(&mut self.sink, sink);
        let mut outcome = std::mem::take(&mut self.outcome);
        outcome.own_cpu = part.own_cpu;
        self.origin = self.sink.header_mut().map_or(part.to, |it| it.origin);
        (self.weight, self.copied) = (0, 0);
        self.processes.clear();
        self.stacks.begin_anew();
        self.next_part = None;
        for note in self.standing.clone() {
            self.note(&note);
        }
        for (stack, taken) in std::mem::take(&mut self.ahead) {
            self.keep(&stack, &taken);
        }
        end(ended, footer, outcome)
    }

    fn note_lacking_names(&mut self) {
        if let Some(why) = self.stacks.symbols.space.jit.refused().map(str::to_owned) {
            self.note(&why);
        }
        let left_out = self.stacks.symbols.modules.left_out();
        if left_out > 0 {
            self.note(&format!(
                "the process has more than {} files mapped: functions of {left_out} have no names",
                symbols::MOST_FILES
            ));
        }
        let nameless = self.stacks.symbols.runtime_without_jit_map();
        if let Some(kind) = nameless.filter(|_| !self.told_why_unnamed) {
            self.note(symbols::remedy_without_jit_map(kind));
        }
    }

    fn footer(&self, part: Part) -> Footer {
        Footer {
            from: part.from.since(self.origin).0,
            to: part.to.since(self.origin).0,
            own_cpu_ns: part.own_cpu.0,
            copied_bytes: self.copied,
            cpu_share: cpu_share(self.weight, self.subject.period_ns, part.process_cpu),
            builds: self.stacks.symbols.modules.builds(),
        }
    }

    pub(crate) fn since_origin(&self, at: Time) -> Nanos {
        at.since(self.origin)
    }

    /// A note for the profile alone: nothing is wrong with it.
    pub(crate) fn remark(&mut self, text: &str) {
        self.sink.note(text);
    }

    /// A note for the profile and for the outcome, once.
    pub(crate) fn note(&mut self, text: &str) {
        if !self.outcome.notes.iter().any(|note| note == text) {
            self.sink.note(text);
            self.outcome.notes.push(text.to_owned());
        }
    }
}

fn end(sink: StacksWriter, footer: Footer, mut outcome: Outcome) -> Outcome {
    if let Err(error) = sink.finish(footer) {
        outcome.notes.push(format!("the file of stacks is incomplete: {error}; make room on the disk"));
    }
    outcome
}

/// Note where samples of this weight stand for others than the `counted` events, if they differ by a tenth of enough.
fn wrong_count(weight: u64, counted: u64) -> Option<String> {
    let is_wrong = weight.abs_diff(counted) > counted / 10 && weight.max(counted) >= MOST_UNTOLD;
    is_wrong.then(|| {
        format!(
            "the samples cover {weight} events, but the kernel counted {counted}: they come in bursts that the \
             sampling frequency does not follow, so shares are rough; use a higher --freq"
        )
    })
}

/// The share of a process's CPU time that samples stand for; `None` without a period, or where it did too little.
fn cpu_share(weight: u64, period_ns: u64, process_cpu: Nanos) -> Option<f64> {
    let expected = process_cpu.0.checked_div(period_ns)?;
    let share = weight as f64 * period_ns as f64 / process_cpu.0 as f64;
    (expected >= LEAST_EXPECTED).then(|| share.min(1.0))
}

/// A sample whose weight is known at the end, and its stack where that may get names until then.
struct Unweighed {
    sample: Sample,
    at: Time,
    unnamed: Option<Stack>,
    copied: u64,
}

impl Converter {
    /// Looks at what the process has before samples come, where that is needed. Call it just before.
    pub(crate) fn look_at_memory(&mut self) {
        if let Some(held) = &mut self.held {
            held.look_at(self.subject.pid);
        }
    }

    /// Takes what a sample says of memory.
    fn hold(&mut self, stack: &Stack, taken: &Taken) {
        if taken.at >= self.held_until {
            return;
        }
        let Some(mut held) = self.held.take() else { return };
        held.step(&stack.transfer, || {
            let (sample, is_unnamed) = self.named(stack, taken);
            Unweighed { sample, at: taken.at, unnamed: is_unnamed.then(|| stack.clone()), copied: stack.copied }
        });
        self.held = Some(held);
    }

    /// Writes what is held, where a part ends. What was taken in it is not known in the next.
    fn write_held_memory(&mut self) {
        let Some(held) = &mut self.held else { return };
        let left_out = held.left_out();
        let mut samples = held.end();
        samples.sort_by_key(|(it, _)| it.at);
        for (it, weight) in samples {
            let sample = Sample { weight, ..it.sample };
            self.write(sample, it.at, it.unnamed.as_ref());
            self.copied = self.copied.saturating_add(it.copied);
        }
        left_out.iter().for_each(|it| self.note(it));
        if self.outcome.lost > 0 {
            self.note("memory freed in lost samples counts as held");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_that_stand_for_too_many_or_too_few_events_are_told() {
        assert_eq!(wrong_count(96_000, 100_000), None);
        assert_eq!(wrong_count(0, 9_999), None, "too few to tell");
        for weight in [38_176_442, 0, 80_000] {
            let note = wrong_count(weight, 250_379).expect("a note");
            assert!(note.contains(&weight.to_string()) && note.contains("250379"), "{note}");
        }
    }

    #[test]
    fn samples_stand_for_a_share_of_the_cpu_time() {
        let second = Nanos::SECOND;
        assert_eq!(cpu_share(750, 1_000_000, second), Some(0.75));
        assert_eq!(cpu_share(1_010, 1_000_000, second), Some(1.0));
        assert_eq!(cpu_share(0, 1_000_000, second), Some(0.0));
        // Nothing is known of the process, it did next to nothing, or the event counts no time.
        assert_eq!(cpu_share(750, 1_000_000, Nanos(0)), None);
        assert_eq!(cpu_share(9, 1_000_000, Nanos::from_millis(10)), None);
        assert_eq!(cpu_share(750, 0, second), None);
    }
}
