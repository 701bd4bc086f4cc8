//! Copies of stacks, taken by a small program inside the kernel at the instant of each sample.

mod kernel;
mod record;
mod wake_ups;

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::{array, fs, io};

use linux::Status;
use rustix::fs::{major, minor};

use self::kernel::{KernelMap, KernelPrograms, Settings};
use crate::allocators::Probe;
use crate::beam::ProcessLayout;
use crate::events::{KernelEvent, SystemCall};

pub(crate) use record::{Extent, MemoryCopy, StackCopy, Transfer};
pub(crate) use wake_ups::{Numbering, WakeUps};

/// Threads whose stacks are known. Those beyond are copied by guessing.
const THREADS: u32 = 16 << 10;
/// Blocks of an allocator that are followed at most; of each some 100 bytes are kept in the kernel, and some 200 here.
pub(crate) const MOST_BLOCKS: usize = 1 << 17;
/// Calls of an allocator that are known between their beginning and their return.
const CALLS: u32 = 16 << 10;

/// Thread as the program knows it: the bounds of its stack, and where its scheduler notes the Erlang process it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ThreadStack {
    /// First address of the memory that the stack lies in.
    pub(crate) low: u64,
    /// First address behind the frames that matter; 0 where it is not known.
    pub(crate) top: u64,
    /// Address of the scheduler's `current_process`; 0 for a thread that runs none.
    pub(crate) current_process: u64,
}

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
    /// Loads the program for process `pid` and an event, on so many processors; `process` has the fields of an Erlang
    /// process. Threads with told `wake_ups` enter their table first. Needs permission, and Linux 5.15.
    pub(crate) fn load(
        pid: u32,
        cpus: u32,
        event: &KernelEvent,
        process: Option<&ProcessLayout>,
        wake_ups: Option<&WakeUps>,
    ) -> io::Result<Self> {
        let namespace = PidNamespace::of(pid);
        // Its number as programs know it that run in whatever thread comes by.
        let number = namespace.map_or(Some(pid), |_| number_inside(pid));
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
                let exec = probes.exec.map(|_| SystemCall::Exec.name().to_owned());
                places.chain(exec).map(|it| kernel.program(&it)).collect::<io::Result<_>>()?
            }
            KernelEvent::Calls(calls) => {
                calls.iter().map(|(call, _)| kernel.program(call.name())).collect::<io::Result<_>>()?
            }
        };
        if let KernelEvent::Probes(probes) = event {
            let states = kernel.table("states")?;
            for cpu in 0..cpus {
                // They begin apart.
                let first = cpu.wrapping_mul(389).wrapping_add(DRAWS / 2) % DRAWS;
                states.set(cpu, [draw(first, probes.one_in), 0])?;
            }
        }
        Ok(Self { threads: kernel.table("threads")?, outputs: kernel.table("outputs")?, programs, namespace })
    }

    /// The programs: one, for probes and calls one for each.
    pub(crate) fn programs(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.programs.iter().map(OwnedFd::as_fd)
    }

    /// Makes `event` the output of a processor.
    pub(crate) fn set_output(&self, cpu: u32, event: BorrowedFd<'_>) -> io::Result<()> {
        self.outputs.set_descriptor(cpu, event)
    }

    /// Tells the program of a thread. One that there is no room for, or that has ended, is copied by guessing.
    pub(crate) fn set_thread(&self, tid: u32, stack: ThreadStack) {
        if let Some(number) = self.namespace.map_or(Some(tid), |_| number_inside(tid)) {
            let _ = self.threads.set(number, [stack.low, stack.top, stack.current_process]);
        }
    }
}

fn settings(cpus: u32, event: &KernelEvent, process: Option<&ProcessLayout>) -> Settings {
    let mut of =
        Settings { entries: vec![("scratch", cpus), ("outputs", cpus), ("threads", THREADS)], ..Settings::default() };
    if let Some(field) = event.field() {
        of.read_field(field);
    }
    if let KernelEvent::Probes(probes) = event {
        of.entries.push(("states", cpus));
        of.draws = Some(draws(probes.one_in));
        let constants = [("BY_BYTES", probes.by_bytes.into()), ("ONE_IN", probes.one_in.into())];
        of.constants.extend(constants);
        if probes.places.iter().any(Probe::is_followed) {
            of.entries.extend([("calls", CALLS), ("blocks", MOST_BLOCKS as u32)]);
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

/// Numbers that are drawn from, a power of two.
const DRAWS: u32 = 1 << 10;

/// The numbers, as `kernel/memory.h` has them.
type Draws = [u64; DRAWS as usize];

/// Numbers of calls or bytes that pass on a processor before the next sample, drawn from an exponential distribution
/// with this mean: then each has the same chance, whatever came before, and no rhythm of the program's decides. A call
/// during which the number runs out stands for the mean, and for what it asked beyond.
fn draws(mean: u32) -> Box<Draws> {
    Box::new(array::from_fn(|it| draw(it as u32, mean)))
}

/// One of [`DRAWS`] numbers that are exponentially distributed with this mean; 0 where each call is a sample.
fn draw(number: u32, mean: u32) -> u64 {
    let chance = (f64::from(number) + 0.5) / f64::from(DRAWS);
    let drawn = -chance.ln() * f64::from(mean);
    if mean <= 1 { 0 } else { drawn.round() as u64 }
}

/// The pid namespace of a process for `bpf_get_ns_current_pid_tgid`. A program in the kernel knows thread numbers of
/// the machine and of the sampled thread's namespace; this process, in a container, the latter alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PidNamespace {
    /// Device of the file that stands for it, as the kernel has it: 12 bits of class, 20 of number.
    device: u64,
    inode: u64,
}

/// The inode of the namespace that the machine begins with (`PROC_PID_INIT_INO`).
const FIRST_NAMESPACE: u64 = 0xefff_fffc;

impl PidNamespace {
    /// That of a process; `None` where it is not ours to see.
    fn of(pid: u32) -> Option<Self> {
        let file = fs::metadata(format!("/proc/{pid}/ns/pid")).ok()?;
        let device = file.dev();
        Some(Self { device: u64::from(major(device)) << 20 | u64::from(minor(device)), inode: file.ino() })
    }

    /// Whether the machine begins with it, so that all threads have a number in it.
    const fn is_first(self) -> bool {
        self.inode == FIRST_NAMESPACE
    }
}

/// The number that a thread has in its own namespace; `None` where it has ended.
fn number_inside(tid: u32) -> Option<u32> {
    Some(Status::of(tid).ok()?.inner_pid)
}

#[cfg(test)]
mod tests {
    use crate::allocators;
    use crate::events::{Event, Probes};
    use crate::tracepoint::{Field, Tracepoint};

    use super::*;

    #[test]
    fn the_kernel_accepts_the_program() {
        let layout = ProcessLayout { stop: 88, frame_pointer: 96, heap: 128, hend: 136 };
        let tracepoint = |field| KernelEvent::Tracepoint(Tracepoint { number: 1, field });
        let [short, long] = [4, 8].map(|size| tracepoint(Some(Field { offset: 24, size })));
        let probes = |by_bytes| {
            let places = allocators::find(std::process::id(), &allocators::ALLOCATE);
            KernelEvent::Probes(Probes { places: places.unwrap(), by_bytes, one_in: 100, exec: None })
        };
        let software = KernelEvent::Software(0);
        let (calls, bytes) = (probes(false), probes(true));
        let number = |call| (SystemCall::of(call).unwrap(), Tracepoint { number: 1, field: None });
        let space = KernelEvent::Calls((1..=5).map(number).collect());
        let held = KernelEvent::of(&Event::named("malloc-held").unwrap(), std::process::id());
        let held = held.unwrap();
        let events = [software, tracepoint(None), short, long, calls, bytes, space, held];
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

    #[test]
    fn draws_have_the_mean_and_the_spread_of_an_exponential_distribution() {
        for mean in [256, 128 << 10] {
            let all = (0..DRAWS).map(|it| draw(it, mean) as f64);
            let count = f64::from(DRAWS);
            let (sum, squares) = all.fold((0.0, 0.0), |(s, q), it| (s + it, q + it * it));
            let (average, variance) = (sum / count, squares / count - (sum / count).powi(2));
            let mean = f64::from(mean);
            assert!((average / mean - 1.0).abs() < 0.01, "{average} of {mean}");
            assert!((variance.sqrt() / mean - 1.0).abs() < 0.01, "{variance}");
        }
        assert!((0..DRAWS).all(|it| draw(it, 1) == 0));
    }

    #[test]
    fn processes_that_share_a_namespace_see_the_same_numbers() {
        let own = std::process::id();
        let namespace = PidNamespace::of(own).unwrap();
        let parent = rustix::process::getppid().unwrap().as_raw_pid();
        assert_eq!(PidNamespace::of(parent.cast_unsigned()), Some(namespace));
        assert_eq!(number_inside(own), Some(own));
        assert_eq!(PidNamespace::of(u32::MAX), None);
        assert_eq!(number_inside(u32::MAX), None);
    }
}
