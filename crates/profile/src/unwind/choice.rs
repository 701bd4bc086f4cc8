//! Which unwinder a process gets: the one that makes most stacks whole, of those that the kernel
//! allows.

use std::sync::Arc;

use linux::maps::{self, Mapping};
use linux::{cpus, threads};

use super::copied::CopiedStacks;
use super::go::GoStacks;
use super::{FramePointers, Unwinder};
use crate::access::copies_remedy;
use crate::beam::{self, ProcessLayout, Scheduler, Variables, Vm};
use crate::kernel_event::KernelEvent;
use crate::memory::ProcessMemory;
use crate::options::Stacks;
use crate::stack_copy::{StackCopier, WakeUps};
use crate::symbols;

/// An unwinder, and what the profile's reader should know of it.
pub(crate) struct Chosen {
    pub(crate) unwinder: Box<dyn Unwinder>,
    pub(crate) note: Option<String>,
}

/// The unwinder that needs nothing but the kernel's own walk.
pub(crate) fn by_frame_pointers() -> Box<dyn Unwinder> {
    Box::new(FramePointers::new())
}

/// The unwinder for a process and an event. Threads whose `wake_ups` are told enter their table.
pub(crate) fn choose(
    pid: u32,
    stacks: Stacks,
    event: &KernelEvent,
    wake_ups: Option<&WakeUps>,
) -> Chosen {
    let plain = Chosen {
        unwinder: by_frame_pointers(),
        note: None,
    };
    if stacks != Stacks::Whole {
        return plain;
    }
    let maps = maps::maps(pid).unwrap_or_default();
    match Runtime::of(pid, &maps) {
        Runtime::Go => Chosen {
            unwinder: Box::new(GoStacks::new(pid, event.field().is_some())),
            ..plain
        },
        Runtime::Beam(emulator) => for_beam(pid, event, emulator, wake_ups),
        Runtime::Native => match copier(pid, event, None, wake_ups) {
            Ok(copier) => Chosen {
                unwinder: Box::new(CopiedStacks::new(pid, copier)),
                ..plain
            },
            Err(note) => Chosen {
                note: Some(note),
                ..plain
            },
        },
    }
}

fn for_beam(
    pid: u32,
    event: &KernelEvent,
    emulator: &Mapping,
    wake_ups: Option<&WakeUps>,
) -> Chosen {
    let (vm, unfamiliar) = match look_into(pid, emulator) {
        Ok(vm) => (Some(vm), None),
        Err(why) => (None, Some(why)),
    };
    let process = vm.as_ref().map(|vm| &vm.process);
    let copier = match copier(pid, event, process, wake_ups) {
        Ok(copier) => copier,
        Err(note) => {
            return Chosen {
                unwinder: by_frame_pointers(),
                note: Some(note),
            };
        }
    };
    let schedulers = threads::ids(pid).into_iter().filter_map(|tid| {
        let scheduler = Scheduler::of_thread(&threads::name(pid, tid)?)?;
        Some((tid, *vm.as_ref()?.current_process.get(&scheduler)?))
    });
    let schedulers: Vec<_> = schedulers.collect();
    let unwinder = CopiedStacks::of_beam(pid, copier, vm, schedulers.into_iter());
    Chosen {
        unwinder: Box::new(unwinder),
        note: unfamiliar.map(|why| {
            format!(
                "Erlang functions above native code are missing from stacks, because {why}: \
                 OTP 25 to 29 with the JIT are known"
            )
        }),
    }
}

/// The program that copies stacks; what to say where there is none.
fn copier(
    pid: u32,
    event: &KernelEvent,
    process: Option<&ProcessLayout>,
    wake_ups: Option<&WakeUps>,
) -> Result<Arc<StackCopier>, String> {
    let copier = StackCopier::load(pid, cpus::end(), event, process, wake_ups);
    copier.map(Arc::new).map_err(|error| {
        format!(
            "stacks are unwound by frame pointers alone, because the kernel does not allow \
             copying them ({error}): {}",
            copies_remedy()
        )
    })
}

/// Needs of a process's code for its stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Runtime<'m> {
    /// Erlang functions have stacks of their own; this is where the emulator is.
    Beam(&'m Mapping),
    /// All code but leaves keeps frame pointers, and has no unwind tables; its stacks are those of goroutines, which
    /// threads change for each other.
    Go,
    /// Unwind tables, and frame pointers where there are none.
    Native,
}

impl<'m> Runtime<'m> {
    fn of(pid: u32, maps: &'m [Mapping]) -> Self {
        match beam::emulator(maps) {
            Some(emulator) => Self::Beam(emulator),
            None if symbols::is_go(pid) => Self::Go,
            None => Self::Native,
        }
    }
}

/// Finds the Erlang stacks of a BEAM; says why not where that fails.
fn look_into(pid: u32, emulator: &Mapping) -> Result<Vm, String> {
    let memory = ProcessMemory::open(pid)
        .map_err(|error| format!("the memory of process {pid} cannot be read ({error})"))?;
    let exported = symbols::exported(pid, emulator, &beam::NAMES).unwrap_or_default();
    let variables = Variables::of(pid, emulator, &memory, exported);
    Vm::discover(&memory, &variables).map_err(|why| why.to_string())
}
