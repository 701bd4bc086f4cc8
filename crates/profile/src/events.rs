//! The table of events that can be sampled: what the kernel is asked for, and what a sample counts; each event as this
//! kernel knows it; and how to sample, as users of the crate say it.

use std::borrow::Cow;
use std::sync::Arc;

use measure::{Nanos, Problem};
use perf_event_open_sys::bindings as b;
use stacks::{EventKind, USUAL_EVENT};

use crate::allocators::{self, Probe};
use crate::tracepoint::{Field, Tracepoint};

/// Letters that each half of a tracepoint's name may have.
const LONGEST_NAME: usize = 64;

/// An event that samples are taken at. Nothing else in the crate knows one event from another.
#[derive(Clone, Debug)]
pub struct Event {
    /// Short name, which the files of a profile carry: `cpu`.
    pub name: Cow<'static, str>,
    /// Name that the kernel uses: `cpu-clock`.
    pub kernel_name: Cow<'static, str>,
    /// Unit of a sample's weight: `samples`.
    pub unit: &'static str,
    /// Kind of event.
    pub kind: EventKind,
    pub(crate) source: EventSource,
    pace: Pace,
    pub(crate) weight: Weight,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventSource {
    /// One of its own counters: `PERF_COUNT_SW_*`.
    Software(u32),
    /// The tracepoint that [`Event::kernel_name`] names.
    Tracepoint,
    /// The beginnings of functions that allocate.
    Allocations,
    /// The beginnings of functions that give memory back.
    Frees,
    /// Both, and the ends of functions that allocate.
    Blocks,
    /// The calls by which the process takes address space, and gives it back.
    AddressSpace,
}

/// How many of the events become samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    /// So many a second and thread that the frequency is not exceeded; those between are counted.
    Frequency,
    Each,
    /// One in about so many calls or bytes, by chance; each stands for as many.
    OneIn(u32),
}

/// The weight of a sample, in [`Event::unit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weight {
    /// Each counts 1.
    One,
    /// The events since the sample before.
    Events,
    /// Value of this field of the tracepoint.
    Field(&'static str),
    /// The calls that it stands for.
    Calls,
    /// The bytes that it stands for, of those that are asked for.
    Requested,
    /// Nanoseconds until the thread ran again.
    Blocked,
    /// Bytes of what was taken that are held at the end.
    Held,
}

impl Event {
    /// Whether it tells what memory is held at the end, of which a process that has ended holds none.
    pub fn is_held(&self) -> bool {
        self.weight == Weight::Held
    }
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Event {}

/// Calls between two samples of an allocator's, and bytes requested. A sample costs a few times what a count costs.
const ONE_IN_CALLS: u32 = 256;
const ONE_IN_BYTES: u32 = 128 << 10;

macro_rules! events {
    ($($name:expr, $kernel:literal, $unit:literal, $kind:ident, $source:ident$(($of:expr))?,
        $pace:ident$(($one_in:expr))?, $weight:ident$(($field:literal))?;)*) => {
        [$(Event {
            name: Cow::Borrowed($name),
            kernel_name: Cow::Borrowed($kernel),
            unit: $unit,
            kind: EventKind::$kind,
            source: EventSource::$source$(($of))?,
            pace: Pace::$pace$(($one_in))?,
            weight: Weight::$weight$(($field))?,
        }),*]
    };
}

/// All events that have a name of their own; any tracepoint is one more. The usual one comes first: time on CPU, by the
/// processor's clock, which every machine has, virtual ones too, so that profiles of different machines compare.
pub static EVENTS: [Event; 16] = events! {
    USUAL_EVENT, "cpu-clock", "samples", OnCpu, Software(b::PERF_COUNT_SW_CPU_CLOCK), Frequency, One;
    "off-cpu", "context-switches", "nanoseconds", OffCpu, Software(b::PERF_COUNT_SW_CONTEXT_SWITCHES), Each, Blocked;
    "context-switches", "context-switches", "switches", OffCpu,
        Software(b::PERF_COUNT_SW_CONTEXT_SWITCHES), Frequency, Events;
    "page-faults", "page-faults", "faults", Memory, Software(b::PERF_COUNT_SW_PAGE_FAULTS), Frequency, Events;
    "minor-faults", "minor-faults", "faults", Memory, Software(b::PERF_COUNT_SW_PAGE_FAULTS_MIN), Frequency, Events;
    "major-faults", "major-faults", "faults", Memory, Software(b::PERF_COUNT_SW_PAGE_FAULTS_MAJ), Frequency, Events;
    "mmap", "syscalls:sys_enter_mmap", "calls", Memory, Tracepoint, Each, One;
    "mmap-bytes", "syscalls:sys_enter_mmap", "bytes", Memory, Tracepoint, Each, Field("len");
    "mmap-held", "syscalls:sys_exit_mmap", "bytes", Memory, AddressSpace, Each, Held;
    "munmap", "syscalls:sys_enter_munmap", "calls", Memory, Tracepoint, Each, One;
    "munmap-bytes", "syscalls:sys_enter_munmap", "bytes", Memory, Tracepoint, Each, Field("len");
    "brk", "syscalls:sys_enter_brk", "calls", Memory, Tracepoint, Each, One;
    "malloc", "uprobe:malloc", "calls", Memory, Allocations, OneIn(ONE_IN_CALLS), Calls;
    "malloc-bytes", "uprobe:malloc", "bytes", Memory, Allocations, OneIn(ONE_IN_BYTES), Requested;
    "malloc-held", "uprobe:malloc", "bytes", Memory, Blocks, OneIn(ONE_IN_BYTES), Held;
    "free", "uprobe:free", "calls", Memory, Frees, OneIn(ONE_IN_CALLS), Calls;
};

impl Event {
    /// The event that is sampled where nobody asks for another: [`USUAL_EVENT`].
    pub fn usual() -> Self {
        EVENTS[0].clone()
    }

    /// The event of this short name, or the tracepoint (`category:name`), whether or not the kernel has it.
    pub fn named(name: &str) -> Option<Self> {
        EVENTS.iter().find(|event| event.name == name).cloned().or_else(|| Self::tracepoint(name))
    }

    fn tracepoint(name: &str) -> Option<Self> {
        let is_word = |text: &str| {
            let is_letter = |it: u8| it.is_ascii_alphanumeric() || it == b'_' || it == b'-';
            (1..=LONGEST_NAME).contains(&text.len()) && text.bytes().all(is_letter)
        };
        let (category, event) = name.split_once(':')?;
        (is_word(category) && is_word(event)).then(|| Self {
            name: Cow::Owned(name.to_owned()),
            kernel_name: Cow::Owned(name.to_owned()),
            unit: "events",
            kind: EventKind::Other,
            source: EventSource::Tracepoint,
            pace: Pace::Each,
            weight: Weight::One,
        })
    }

    /// Names of events that can be sampled.
    pub fn known() -> String {
        let names: Vec<&str> = EVENTS.iter().map(|event| event.name.as_ref()).collect();
        format!("{}, or a tracepoint such as sched:sched_process_fork", names.join(", "))
    }

    /// Whether a frequency says how many of them become samples.
    pub fn has_frequency(&self) -> bool {
        self.pace == Pace::Frequency
    }

    /// Samples per second and thread that are wanted at most; 0 where each event is one.
    pub(crate) fn frequency(&self, wanted: u32) -> u32 {
        if self.has_frequency() { wanted } else { 0 }
    }

    /// Calls or bytes between two samples where that is given; 1 elsewhere.
    pub(crate) fn one_in(&self) -> u32 {
        if let Pace::OneIn(units) = self.pace { units } else { 1 }
    }

    /// Nanoseconds of CPU time that a weight of 1 stands for at this many samples a second; 0 where it stands for none.
    pub(crate) fn period_ns(&self, frequency: u32) -> u64 {
        let period = 1_000_000_000u64.checked_div(frequency.into());
        period.filter(|_| self.kind == EventKind::OnCpu).unwrap_or_default()
    }

    /// Whether it is a system call, where the kernel's functions are those that take the sample.
    pub(crate) fn is_system_call(&self) -> bool {
        self.kernel_name.starts_with("syscalls:")
    }

    /// Whether it happens inside the kernel, whatever the stack below it.
    pub(crate) fn is_of_kernel(&self) -> bool {
        !matches!(self.source, EventSource::Software(_)) || self.kind == EventKind::OffCpu
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KernelEvent {
    Software(u32),
    /// A place in its code.
    Tracepoint(Tracepoint),
    /// Places in the process's code.
    Probes(Probes),
    /// The ends of calls for address space.
    Calls(Arc<[(SystemCall, Tracepoint)]>),
}

/// Places in a process's code, and what is counted there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Probes {
    pub(crate) places: Arc<[Probe]>,
    /// Bytes are counted, rather than calls.
    pub(crate) by_bytes: bool,
    /// Calls or bytes that a sample stands for.
    pub(crate) one_in: u32,
    /// Where the kernel tells that the process has another program, if that matters and the kernel shows it.
    pub(crate) exec: Option<Tracepoint>,
}

impl KernelEvent {
    pub(crate) fn of(event: &Event, pid: u32) -> Result<Self, Problem> {
        let field = if let Weight::Field(name) = event.weight { Some(name) } else { None };
        let probes = |places: Result<Arc<[Probe]>, Problem>| {
            Ok(Self::Probes(Probes {
                places: places?,
                by_bytes: event.weight == Weight::Requested,
                one_in: event.one_in(),
                exec: event.is_held().then(|| Tracepoint::find(EXEC, None).ok()).flatten(),
            }))
        };
        match event.source {
            EventSource::Software(number) => Ok(Self::Software(number)),
            EventSource::Tracepoint => Tracepoint::find(&event.kernel_name, field).map(Self::Tracepoint),
            EventSource::Allocations => probes(allocators::find(pid, &allocators::ALLOCATE)),
            EventSource::Frees => probes(allocators::find(pid, &allocators::FREE)),
            EventSource::Blocks => probes(allocators::find_followed(pid)),
            EventSource::AddressSpace => {
                let calls = SystemCall::ALL.into_iter().map(|call| Ok((call, call.done()?)));
                calls.collect::<Result<_, _>>().map(Self::Calls)
            }
        }
    }

    /// Whether it happens on a thread's own event. Others make the copier's program run for all threads at once.
    pub(crate) const fn is_of_thread(&self) -> bool {
        matches!(self, Self::Software(_))
    }

    pub(crate) const fn needs_program(&self) -> bool {
        matches!(self, Self::Probes(_) | Self::Calls(_))
    }

    /// `perf_event_attr.type` and `perf_event_attr.config` of what is opened on each thread.
    pub(crate) const fn attribute(&self) -> (u32, u64) {
        match self {
            Self::Software(number) => (b::PERF_TYPE_SOFTWARE, *number as u64),
            Self::Tracepoint(tracepoint) => (b::PERF_TYPE_TRACEPOINT, tracepoint.number),
            Self::Probes(_) | Self::Calls(_) => (b::PERF_TYPE_SOFTWARE, b::PERF_COUNT_SW_DUMMY as u64),
        }
    }

    pub(crate) const fn field(&self) -> Option<Field> {
        if let Self::Tracepoint(tracepoint) = self { tracepoint.field } else { None }
    }
}

/// How to sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The event that samples are taken at.
    pub event: Event,
    /// Samples per second and thread, where not each event is one; at most `kernel.perf_event_max_sample_rate`.
    pub frequency: u32,
    /// Whether to ask for the kernel's own frames. Where it refuses, the profile is of user space, and a note says so.
    pub kernel: bool,
    /// How stacks are unwound.
    pub stacks: Stacks,
    /// Blocked times of a thread that are shorter are left out of its time off CPU.
    pub min_block: Nanos,
}

/// How stacks are unwound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stacks {
    /// By what makes most of them whole, of what the kernel allows; the profile says what that was.
    #[default]
    Whole,
    /// By frame pointers alone, as the kernel does.
    FramePointers,
}

impl Stacks {
    /// All ways, by the names that users give.
    pub const ALL: [(&'static str, Self); 2] = [("whole", Self::Whole), ("frame-pointers", Self::FramePointers)];

    /// The way of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(known, _)| *known == name).map(|(_, stacks)| stacks)
    }
}

impl Default for Options {
    fn default() -> Self {
        // 999 rather than 1,000, so as not to beat with what runs once a millisecond.
        Self {
            event: Event::usual(),
            frequency: 999,
            kernel: true,
            stacks: Stacks::Whole,
            min_block: Nanos::from_millis(1),
        }
    }
}

measure::named! {
    /// A call that changes what a process has mapped, by the program at its end (`stack_copy/kernel/programs.c`).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum SystemCall {
        Mmap = "mmap",
        Munmap = "munmap",
        Mremap = "mremap",
        Brk = "brk",
        /// It has another program from now on, and nothing of what it had.
        Exec = "exec",
    }
}

const EXEC: &str = "sched:sched_process_exec";

impl SystemCall {
    /// As the programs have it; 0 is none.
    pub(crate) const fn number(self) -> u8 {
        self as u8 + 1
    }

    pub(crate) fn of(number: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|call| u64::from(call.number()) == number)
    }

    /// Where this kernel tells that it is done.
    fn done(self) -> Result<Tracepoint, Problem> {
        let place = if self == Self::Exec { EXEC.to_owned() } else { format!("syscalls:sys_exit_{}", self.name()) };
        Tracepoint::find(&place, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_have_names_of_their_own_and_tracepoints_are_events() {
        for event in &EVENTS {
            assert_eq!(Event::named(&event.name).as_ref(), Some(event));
            let same = EVENTS.iter().filter(|it| it.name == event.name);
            assert_eq!(same.count(), 1, "{}", event.name);
            // Time on CPU alone has a period.
            let on_cpu = event.kind == EventKind::OnCpu;
            assert_eq!(event.period_ns(1_000), if on_cpu { 1_000_000 } else { 0 });
        }
        assert_eq!(Event::usual(), EVENTS[0]);
        assert_eq!(Event::usual().period_ns(0), 0);
        let fork = Event::named("sched:sched_process_fork").unwrap();
        assert_eq!((fork.kernel_name.as_ref(), fork.unit), ("sched:sched_process_fork", "events"));
        for none in ["", "nmap", ":", "a:", ":b", "a:b:c", "../x:y", "a:b/c", "a b:c"] {
            assert_eq!(Event::named(none), None, "{none}");
        }
    }

    #[test]
    fn each_call_has_a_number_of_its_own() {
        for call in SystemCall::ALL {
            assert_eq!(SystemCall::of(call.number().into()), Some(call));
        }
        assert_eq!(SystemCall::of(0), None);
        assert_eq!(SystemCall::of(u64::MAX), None);
    }
}
