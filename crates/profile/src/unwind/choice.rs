//! Which unwinder a process gets: the one that makes most stacks whole, of those that the kernel
//! allows.

use std::collections::HashMap;
use std::sync::Arc;

use linux::maps::{self, Mapping};
use linux::{cpus, threads};

use super::copied::CopiedStacks;
use super::{FramePointers, Unwinder};
use crate::beam::{self, Scheduler, Vm};
use crate::kernel_event::KernelEvent;
use crate::memory::ProcessMemory;
use crate::options::Stacks;
use crate::stack_copy::StackCopier;
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

/// The unwinder for a process and an event.
pub(crate) fn choose(pid: u32, stacks: Stacks, event: KernelEvent) -> Chosen {
    let plain = |note| Chosen {
        unwinder: by_frame_pointers(),
        note,
    };
    let maps = maps::maps(pid).unwrap_or_default();
    let runtime = maps.iter().find_map(|it| Some((runtime_of(it)?, it)));
    let Some((runtime, library)) = runtime.filter(|_| stacks == Stacks::Whole) else {
        return plain(None);
    };
    let (vm, unfamiliar) = match runtime {
        Runtime::Jvm => (None, None),
        Runtime::Beam => match look_into(pid, library) {
            Ok(vm) => (Some(vm), None),
            Err(why) => (None, Some(why)),
        },
    };
    let last = cpus::online().into_iter().max().unwrap_or(0);
    let process = vm.as_ref().map(|vm| &vm.process);
    let copier = StackCopier::load(pid, last.saturating_add(1), event, process);
    let copier = match copier {
        Ok(copier) => Arc::new(copier),
        Err(error) => {
            return plain(Some(format!(
                "stacks are unwound by frame pointers alone, because the kernel does not allow \
                 copying them ({error}): run as root, or give bellows the capabilities BPF and \
                 PERFMON, on Linux 5.15 or later"
            )));
        }
    };
    if runtime == Runtime::Jvm {
        return Chosen {
            unwinder: Box::new(CopiedStacks::of_java(pid, copier)),
            note: None,
        };
    }
    let schedulers = threads::ids(pid).into_iter().filter_map(|tid| {
        let scheduler = Scheduler::of_thread(&threads::name(pid, tid)?)?;
        Some((tid, *vm.as_ref()?.current_process.get(&scheduler)?))
    });
    let schedulers: Vec<_> = schedulers.collect();
    let unwinder = CopiedStacks::new(pid, copier, vm, schedulers.into_iter());
    Chosen {
        unwinder: Box::new(unwinder),
        note: unfamiliar.map(|why| {
            format!(
                "Erlang functions above native code are missing from stacks, because {why}: \
                 OTP 25 to 27 with the JIT are known"
            )
        }),
    }
}

/// A virtual machine whose own code has stacks of its own making.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Runtime {
    Beam,
    Jvm,
}

/// The virtual machine whose code is mapped here.
fn runtime_of(mapping: &Mapping) -> Option<Runtime> {
    let name = mapping.path.rsplit('/').next().unwrap_or_default();
    match name {
        _ if !maps::is_file(mapping) => None,
        "libjvm.so" => Some(Runtime::Jvm),
        _ if name.starts_with("beam.") => Some(Runtime::Beam),
        _ => None,
    }
}

/// Finds the Erlang stacks of a BEAM; says why not where that fails.
fn look_into(pid: u32, emulator: &Mapping) -> Result<Vm, String> {
    let exported = symbols::exported(pid, emulator, &beam::SYMBOLS).unwrap_or_default();
    let exported: HashMap<_, _> = exported.into_iter().collect();
    let memory = ProcessMemory::open(pid)
        .map_err(|error| format!("the memory of process {pid} cannot be read ({error})"))?;
    Vm::discover(&memory, &exported).map_err(|why| why.to_string())
}
