//! Copies of stacks, taken by a small program inside the kernel at the instant of each sample.
//!
//! Bare `bpf(2)` with bytecode put together here rather than `aya` or `libbpf-rs`: the program has no
//! loop and a hundred instructions, so that a compiler for it (clang, or `bpf-linker` and a nightly
//! Rust), `libelf`, or a committed object file would be the larger part. Nothing is pinned: maps and
//! program hang on descriptors of this process and on its events, so that they go when it goes,
//! however it goes.

mod bytecode;
mod chance;
mod following;
mod namespace;
mod program;
mod record;
mod sys;
mod threads;
mod wake_ups;

use std::io;
use std::os::fd::BorrowedFd;

use self::chance::Chance;
use self::following::Following;
use self::namespace::PidNamespace;
use self::program::{Followed, Trigger};
use self::sys::{Map, MapKind, Program};
use crate::address_space::SystemCall;
use crate::allocators::{Probe, Role};
use crate::beam::ProcessLayout;
use crate::kernel_event::KernelEvent;
use crate::kernel_types::ReplacedReturns;

pub(crate) use following::MOST_BLOCKS;
pub(crate) use record::{Extent, MemoryCopy, StackCopy, Transfer};
pub(crate) use wake_ups::{Numbering, WakeUps};

/// What `bpftool prog` shows.
const NAME: &str = "bellows_stacks";
/// Threads whose stacks are known. Those beyond are copied by guessing.
const THREADS: u32 = 16 << 10;

/// What the program is told of a thread: the bounds of its stack, and where its scheduler writes down
/// which Erlang process it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ThreadStack {
    /// First address of the memory that the stack lies in.
    pub(crate) low: u64,
    /// First address behind the frames that matter; 0 where it is not known.
    pub(crate) top: u64,
    /// Address of the scheduler's `current_process`; 0 for a thread that runs none.
    pub(crate) current_process: u64,
}

/// Where the fields of a [`ThreadStack`] are in the map.
mod thread {
    pub(super) const LOW: i16 = 0;
    pub(super) const TOP: i16 = 8;
    pub(super) const CURRENT_PROCESS: i16 = 16;
    pub(super) const SIZE: usize = 24;
}

/// The program's memory.
#[derive(Debug)]
struct Maps {
    /// By processor: where a record is put together.
    scratch: Map,
    /// By thread.
    threads: Map,
    /// By processor: the event whose ring takes the records.
    output: Map,
    /// What decides which calls become samples, where not each event is one.
    chance: Option<Chance>,
    /// What is known of an allocator's blocks, where they are followed.
    following: Option<Following>,
    /// How to find return addresses that the kernel has replaced.
    returns: Option<ReplacedReturns>,
}

/// The program, loaded.
#[derive(Debug)]
pub(crate) struct StackCopier {
    maps: Maps,
    /// One; for probes one for each.
    programs: Vec<Program>,
    /// Where threads have the numbers that the program knows them by; `None` for the machine's own.
    namespace: Option<PidNamespace>,
}

impl StackCopier {
    /// Loads the program for process `pid` and an event, on a machine with this many processors; `process` is where
    /// an Erlang process has its fields. Threads whose `wake_ups` are told enter their table.
    ///
    /// # Errors
    /// The kernel does not allow it, or is older than 5.15.
    pub(crate) fn load(
        pid: u32,
        cpus: u32,
        event: &KernelEvent,
        process: Option<&ProcessLayout>,
        wake_ups: Option<&WakeUps>,
    ) -> io::Result<Self> {
        let load = |returns| Self::load_with(returns, pid, cpus, event, process, wake_ups);
        let returns = ReplacedReturns::of_kernel();
        // A kernel may have reasons not to let its structures be read.
        load(returns).or_else(|error| returns.map_or(Err(error), |_| load(None)))
    }

    fn load_with(
        returns: Option<ReplacedReturns>,
        pid: u32,
        cpus: u32,
        event: &KernelEvent,
        process: Option<&ProcessLayout>,
        wake_ups: Option<&WakeUps>,
    ) -> io::Result<Self> {
        if !cfg!(target_arch = "x86_64") {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let probes = match event {
            KernelEvent::Probes(probes) => Some(probes),
            KernelEvent::Software(_) | KernelEvent::Tracepoint(_) | KernelEvent::Calls(_) => None,
        };
        let chance = probes.map(|it| Chance::new(it.one_in, cpus));
        let followed = probes.filter(|it| it.places.iter().any(Probe::is_followed));
        let maps = Maps {
            chance: chance.transpose()?,
            following: followed.map(|_| Following::new()).transpose()?,
            returns,
            scratch: Map::new(MapKind::Array, record::LARGEST, cpus)?,
            threads: Map::new(MapKind::Hash, thread::SIZE, THREADS)?,
            output: Map::new(MapKind::PerfEventArray, size_of::<u32>(), cpus)?,
        };
        let namespace = PidNamespace::of(pid);
        // Its number as programs know it that run in whatever thread comes by.
        let number = || {
            let number = namespace.map_or(Some(pid), |_| namespace::number_inside(pid));
            number.ok_or(io::ErrorKind::NotFound)
        };
        let triggers = match event {
            KernelEvent::Software(_) => vec![Trigger::Event],
            KernelEvent::Tracepoint(tracepoint) => {
                let process = number()?;
                let field = tracepoint.field;
                let trigger = Trigger::Tracepoint { process, field };
                vec![trigger]
            }
            KernelEvent::Probes(probes) => {
                let by_bytes = probes.by_bytes;
                let function = |it: &Probe| match it.role {
                    Role::Counted => Trigger::Function {
                        size: it.size,
                        by_bytes,
                    },
                    Role::Begins => Trigger::Followed(Followed::Begins {
                        size: it.size,
                        answer: it.answer,
                    }),
                    Role::Returns => Trigger::Followed(Followed::Returns),
                    Role::Frees => Trigger::Followed(Followed::Frees),
                };
                let triggers = probes.places.iter().map(function);
                let call = SystemCall::Exec;
                let exec = probes.exec.map(|_| {
                    let process = number()?;
                    Ok::<_, io::Error>(Trigger::Call { process, call })
                });
                triggers.chain(exec.transpose()?).collect()
            }
            KernelEvent::Calls(calls) => {
                let process = number()?;
                let trigger = |&(call, _): &_| Trigger::Call { process, call };
                calls.iter().map(trigger).collect()
            }
        };
        let programs = triggers.into_iter().map(|trigger| {
            let threads = wake_ups.map(WakeUps::threads);
            let kind = trigger.kind();
            let code = program::program(&maps, trigger, threads, process, namespace);
            let code = code.ok_or(io::ErrorKind::InvalidData)?;
            Program::load(kind, &code, NAME)
        });
        let programs = programs.collect::<io::Result<_>>()?;
        Ok(Self {
            maps,
            programs,
            namespace,
        })
    }

    /// The programs: one, for probes one for each.
    pub(crate) fn programs(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.programs.iter().map(Program::as_fd)
    }

    /// Makes `event` the output of a processor.
    pub(crate) fn set_output(&self, cpu: u32, event: BorrowedFd<'_>) -> io::Result<()> {
        self.maps.output.set_event(cpu, event)
    }

    /// Tells the program what is known of a thread. One that there is no room for, or that has ended, is copied
    /// by guessing.
    pub(crate) fn set_thread(&self, tid: u32, stack: ThreadStack) {
        let number = match self.namespace {
            Some(_) => namespace::number_inside(tid),
            None => Some(tid),
        };
        let words = [stack.low, stack.top, stack.current_process];
        let value = words.map(u64::to_ne_bytes);
        if let Some(number) = number {
            let _ = self.maps.threads.set(number, value.as_flattened());
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::allocators;
    use crate::events::Event;
    use crate::kernel_event::Probes;
    use crate::tracepoint::{Field, Tracepoint};

    use super::*;

    #[test]
    fn the_kernel_accepts_the_program() {
        let layout = ProcessLayout {
            stop: 88,
            frame_pointer: 96,
            heap: 128,
            hend: 136,
        };
        let tracepoint = |field| KernelEvent::Tracepoint(Tracepoint { number: 1, field });
        let [short, long] = [4, 8].map(|size| tracepoint(Some(Field { offset: 24, size })));
        let probes = |by_bytes| {
            let places = allocators::find(std::process::id(), &allocators::ALLOCATE);
            KernelEvent::Probes(Probes {
                places: places.unwrap(),
                by_bytes,
                one_in: 100,
                exec: None,
            })
        };
        let software = KernelEvent::Software(0);
        let (calls, bytes) = (probes(false), probes(true));
        let number = |call| {
            (
                SystemCall::of(call).unwrap(),
                Tracepoint {
                    number: 1,
                    field: None,
                },
            )
        };
        let space = KernelEvent::Calls((1..=5).map(number).collect());
        let held = KernelEvent::of(&Event::named("malloc-held").unwrap(), std::process::id());
        let held = held.unwrap();
        let events = [
            software,
            tracepoint(None),
            short,
            long,
            calls,
            bytes,
            space,
            held,
        ];
        let with = |process| events.iter().map(move |event| (process, event));
        let wake_ups = WakeUps::load(std::process::id()).ok();
        for (process, event) in with(None).chain(with(Some(&layout))) {
            let wake_ups = wake_ups.as_ref();
            match StackCopier::load(std::process::id(), 4, event, process, wake_ups) {
                Ok(copier) => copier.set_thread(std::process::id(), ThreadStack::default()),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    testkit::skip!("the kernel does not allow eBPF programs: {error}");
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
}
