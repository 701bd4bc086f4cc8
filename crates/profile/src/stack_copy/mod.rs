//! Copies of stacks, taken by a small program inside the kernel at the instant of each sample.

mod chance;
mod kernel;
mod namespace;
mod record;
mod wake_ups;

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use self::kernel::{KernelMap, KernelPrograms, Settings};
use self::namespace::PidNamespace;
use crate::address_space::SystemCall;
use crate::allocators::Probe;
use crate::beam::ProcessLayout;
use crate::kernel_event::KernelEvent;

pub(crate) use record::{Extent, MemoryCopy, StackCopy, Transfer};
pub(crate) use wake_ups::{Numbering, WakeUps};

/// Threads whose stacks are known. Those beyond are copied by guessing.
const THREADS: u32 = 16 << 10;
/// Blocks of an allocator that are followed at most; of each some 100 bytes are kept in the kernel, and some 200 here.
pub(crate) const MOST_BLOCKS: usize = 1 << 17;
/// Calls of an allocator that are known between their beginning and their return.
const CALLS: u32 = 16 << 10;

/// Thread as the program knows it: the bounds of its stack, and where its scheduler writes down which Erlang process it
/// runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ThreadStack {
    /// First address of the memory that the stack lies in.
    pub(crate) low: u64,
    /// First address behind the frames that matter; 0 where it is not known.
    pub(crate) top: u64,
    /// Address of the scheduler's `current_process`; 0 for a thread that runs none.
    pub(crate) current_process: u64,
}

/// The program, loaded.
#[derive(Debug)]
pub(crate) struct StackCopier {
    /// By thread: its [`ThreadStack`].
    threads: KernelMap<[u64; 3]>,
    /// By processor: the event whose ring takes the records.
    outputs: KernelMap<i32>,
    /// One; for probes and calls one for each.
    programs: Vec<OwnedFd>,
    /// Where threads have the numbers that the program knows them by; `None` for the machine's own.
    namespace: Option<PidNamespace>,
}

impl StackCopier {
    /// Loads the program for process `pid` and an event, on a machine with this many processors; `process` is where
    /// an Erlang process has its fields. Threads whose `wake_ups` are told enter their table first.
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
        let namespace = PidNamespace::of(pid);
        // Its number as programs know it that run in whatever thread comes by.
        let number = namespace.map_or(Some(pid), |_| namespace::number_inside(pid));
        let number = number.ok_or(io::ErrorKind::NotFound)?;
        let mut settings = settings(cpus, event, process);
        settings.number_in(namespace);
        settings.constants.push(("PROCESS", number.into()));
        let load = |settings: &Settings| Self::load_with(settings, cpus, event, namespace);
        settings.constants.push(("FINDS_RETURNS", 1));
        let copier = load(&settings).or_else(|error| match error.raw_os_error() {
            Some(libc::EPERM) => Err(error),
            // A kernel may have reasons not to let its structures be read.
            _ => {
                settings.constants.pop();
                load(&settings)
            }
        })?;
        if let (Some(wake_ups), true) = (wake_ups, event.is_of_thread()) {
            for program in copier.programs() {
                wake_ups.go_on(program)?;
            }
        }
        Ok(copier)
    }

    fn load_with(
        settings: &Settings,
        cpus: u32,
        event: &KernelEvent,
        namespace: Option<PidNamespace>,
    ) -> io::Result<Self> {
        let mut kernel = KernelPrograms::load(settings)?;
        let programs = match event {
            KernelEvent::Software(_) => vec![kernel.program("event")?],
            KernelEvent::Tracepoint(_) => vec![kernel.program("tracepoint")?],
            KernelEvent::Probes(probes) => {
                let places = probes.places.iter().map(Probe::program);
                let exec = probes.exec.map(|_| SystemCall::Exec.program().to_owned());
                let names = places.chain(exec);
                let loaded: io::Result<_> = names.map(|it| kernel.program(&it)).collect();
                loaded?
            }
            KernelEvent::Calls(calls) => {
                let names = calls.iter().map(|(call, _)| call.program());
                let loaded: io::Result<_> = names.map(|it| kernel.program(it)).collect();
                loaded?
            }
        };
        if let KernelEvent::Probes(probes) = event {
            let states = kernel.table("states")?;
            for cpu in 0..cpus {
                states.set(cpu, [chance::first(cpu, probes.one_in), 0])?;
            }
        }
        Ok(Self {
            threads: kernel.table("threads")?,
            outputs: kernel.table("outputs")?,
            programs,
            namespace,
        })
    }

    /// The programs: one, for probes and calls one for each.
    pub(crate) fn programs(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.programs.iter().map(OwnedFd::as_fd)
    }

    /// Makes `event` the output of a processor.
    pub(crate) fn set_output(&self, cpu: u32, event: BorrowedFd<'_>) -> io::Result<()> {
        self.outputs.set_descriptor(cpu, event)
    }

    /// Tells the program what is known of a thread. One that there is no room for, or that has ended, is copied
    /// by guessing.
    pub(crate) fn set_thread(&self, tid: u32, stack: ThreadStack) {
        let number = match self.namespace {
            Some(_) => namespace::number_inside(tid),
            None => Some(tid),
        };
        if let Some(number) = number {
            let words = [stack.low, stack.top, stack.current_process];
            let _ = self.threads.set(number, words);
        }
    }
}

/// Settings of the programs for an event.
fn settings(cpus: u32, event: &KernelEvent, process: Option<&ProcessLayout>) -> Settings {
    let mut of = Settings {
        entries: vec![("scratch", cpus), ("outputs", cpus), ("threads", THREADS)],
        ..Settings::default()
    };
    if let Some(field) = event.field() {
        of.read_field(field);
    }
    if let KernelEvent::Probes(probes) = event {
        of.entries.push(("states", cpus));
        of.draws = Some(chance::draws(probes.one_in));
        let constants = [
            ("BY_BYTES", probes.by_bytes.into()),
            ("ONE_IN", probes.one_in.into()),
        ];
        of.constants.extend(constants);
        if probes.places.iter().any(Probe::is_followed) {
            of.entries
                .extend([("calls", CALLS), ("blocks", MOST_BLOCKS as u32)]);
        }
    }
    if let Some(process) = process {
        let first = process.first();
        let word = |field: i16| u64::from((field - first).unsigned_abs()) / 8;
        of.constants.extend([
            ("IS_ERLANG", 1),
            ("FIRST_FIELD", first.unsigned_abs().into()),
            ("STOP", word(process.stop)),
            ("FRAME_POINTER", word(process.frame_pointer)),
            ("HEAP", word(process.heap)),
            ("HEND", word(process.hend)),
        ]);
    }
    of
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
