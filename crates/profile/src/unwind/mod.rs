//! How a sample's stack is made whole.
//!
//! Unwinders that look at more than frame pointers (registers and a copy of the stack) ask for what they need in the
//! event's attributes, or give a program that copies it, and give the same list of addresses.

mod compiled;
mod copied;
mod erlang;
mod go;
mod native;

use std::sync::Arc;

use linux::maps::{self, Mapping};
use linux::{cpus, machine, threads};
use perf_event_open_sys::bindings::perf_event_attr;
use stacks::Unwinding;

use self::copied::CopiedStacks;
use self::go::GoStacks;
use crate::access::copies_remedy;
use crate::beam::{self, ProcessId, ProcessLayout, Scheduler, Variables, Vm};
use crate::events::{KernelEvent, Stacks};
use crate::memory::ProcessMemory;
use crate::record::{Address, SampleRecord};
use crate::stack_copy::{StackCopier, Transfer, WakeUps};
use crate::symbols;

pub(crate) use native::{End, NativeUnwinder};

/// Turns a sample into addresses.
pub(crate) trait Unwinder: Send {
    /// Asks the kernel for what the unwinder needs.
    fn configure(&self, attr: &mut perf_event_attr);

    fn copier(&self) -> Option<Arc<StackCopier>> {
        None
    }

    /// Whether it uses what the kernel finds by frame pointers also where the stack is copied.
    fn needs_user_chain(&self) -> bool {
        false
    }

    /// Looks for new memory with code in it.
    fn refresh(&mut self) {}

    /// Fills `stack` with the sample's addresses, leaf first.
    fn unwind(&mut self, sample: &SampleRecord<'_>, stack: &mut Stack);
}

/// The addresses of one stack, leaf first: the kernel's, then the user's.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stack {
    pub(crate) addresses: Vec<Address>,
    /// The unwinder had to stop before the stack's end.
    pub(crate) truncated: bool,
    /// The unwinder reached the root of the thread or Erlang process, whatever that is called.
    pub(crate) rooted: bool,
    pub(crate) unwinding: Unwinding,
    /// Bytes of the process's stacks that were copied for it.
    pub(crate) copied: u64,
    /// The Erlang process that the thread was running, where that is known.
    pub(crate) process: Option<ProcessId>,
    /// How many events the sample stands for, or its tracepoint's field, where the program in the kernel wrote that.
    pub(crate) value: Option<u64>,
    pub(crate) transfer: Transfer,
}

/// The kernel's longest call chain where nobody changed it.
const DEFAULT_MAX_STACK: i64 = 127;

/// The kernel's own walk by frame pointers, while it takes the sample: right wherever code keeps them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FramePointers {
    max_stack: u16,
}

impl FramePointers {
    /// With the longest chains that the kernel allows.
    pub(crate) fn new() -> Self {
        let longest = machine::sysctl("kernel.perf_event_max_stack").unwrap_or(DEFAULT_MAX_STACK);
        Self { max_stack: u16::try_from(longest).unwrap_or(u16::MAX) }
    }
}

impl Unwinder for FramePointers {
    fn configure(&self, attr: &mut perf_event_attr) {
        attr.sample_max_stack = self.max_stack;
    }

    fn unwind(&mut self, sample: &SampleRecord<'_>, stack: &mut Stack) {
        let mut addresses = std::mem::take(&mut stack.addresses);
        addresses.clear();
        addresses.extend(sample.chain.addresses());
        let truncated = addresses.len() >= usize::from(self.max_stack);
        *stack = Stack { addresses, truncated, unwinding: Unwinding::FramePointers, ..Stack::default() };
    }
}

/// An unwinder, and what the profile's reader should know of it.
pub(crate) type Chosen = (Box<dyn Unwinder>, Option<String>);

/// The unwinder that needs nothing but the kernel's own walk.
pub(crate) fn by_frame_pointers() -> Box<dyn Unwinder> {
    Box::new(FramePointers::new())
}

/// The unwinder for a process and an event that makes most stacks whole, of those that the kernel allows.
pub(crate) fn choose(pid: u32, stacks: Stacks, event: &KernelEvent, wake_ups: Option<&WakeUps>) -> Chosen {
    if stacks != Stacks::Whole {
        return (by_frame_pointers(), None);
    }
    let maps = maps::maps(pid).unwrap_or_default();
    if let Some(emulator) = beam::emulator(&maps) {
        return for_beam(pid, event, emulator, wake_ups);
    }
    // Go's code but leaves keeps frame pointers, without unwind tables; threads change its stacks, goroutines.
    if symbols::is_go(pid) {
        return (Box::new(GoStacks::new(pid, event.field().is_some())), None);
    }
    match copier(pid, event, None, wake_ups) {
        Ok(copier) => (Box::new(CopiedStacks::new(pid, copier)), None),
        Err(note) => (by_frame_pointers(), Some(note)),
    }
}

fn for_beam(pid: u32, event: &KernelEvent, emulator: &Mapping, wake_ups: Option<&WakeUps>) -> Chosen {
    let (vm, unfamiliar) = match look_into(pid, emulator) {
        Ok(vm) => (Some(vm), None),
        Err(why) => (None, Some(why)),
    };
    let process = vm.as_ref().map(|vm| &vm.process);
    let copier = match copier(pid, event, process, wake_ups) {
        Ok(copier) => copier,
        Err(note) => return (by_frame_pointers(), Some(note)),
    };
    let schedulers = threads::ids(pid).into_iter().filter_map(|tid| {
        Some((tid, *vm.as_ref()?.current_process.get(&Scheduler::of_thread(&threads::name(pid, tid)?)?)?))
    });
    let schedulers: Vec<_> = schedulers.collect();
    let unwinder = CopiedStacks::of_beam(pid, copier, vm, schedulers.into_iter());
    let note = unfamiliar.map(|why| {
        format!(
            "Erlang functions above native code are missing from stacks, because {why}: \
             OTP 25 to 29 with the JIT are known"
        )
    });
    (Box::new(unwinder), note)
}

/// The program that copies stacks; what to say where there is none.
fn copier(
    pid: u32,
    event: &KernelEvent,
    process: Option<&ProcessLayout>,
    wake_ups: Option<&WakeUps>,
) -> Result<Arc<StackCopier>, String> {
    StackCopier::load(pid, cpus::end(), event, process, wake_ups).map(Arc::new).map_err(|error| {
        format!(
            "stacks are unwound by frame pointers alone, because the kernel does not allow \
             copying them ({error}): {}",
            copies_remedy()
        )
    })
}

/// Finds the Erlang stacks of a BEAM; says why not where that fails.
fn look_into(pid: u32, emulator: &Mapping) -> Result<Vm, String> {
    let memory =
        ProcessMemory::open(pid).map_err(|error| format!("the memory of process {pid} cannot be read ({error})"))?;
    let exported = symbols::exported(pid, emulator, &beam::NAMES).unwrap_or_default();
    let variables = Variables::of(pid, emulator, &memory, exported);
    Vm::discover(&memory, &variables).map_err(str::to_owned)
}
