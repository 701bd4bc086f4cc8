//! The sampler as its users see it.

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use archive::profile::StacksWriter;
use measure::{Clock, Nanos};
use rustix::event::EventfdFlags;
use rustix::process::{Pid, PidfdFlags};

use crate::drain::{Drain, Shared};
use crate::events::{self, Events};
use crate::procfs::{self, Status};
use crate::source::KernelChain;
use crate::symbols::Symbols;
use crate::{Error, permission, sys};

/// The kernel's longest call chain where nobody changed it.
const DEFAULT_MAX_STACK: i64 = 127;

/// How to sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Samples per second of CPU time and thread; at most `kernel.perf_event_max_sample_rate`.
    pub frequency: u32,
    /// Whether to ask for the kernel's own frames. Where the kernel refuses them the profile is of
    /// user space only, and a note says so.
    pub kernel: bool,
}

impl Default for Options {
    fn default() -> Self {
        // 999 rather than 1,000, so as not to beat with what runs once a millisecond.
        Self {
            frequency: 999,
            kernel: true,
        }
    }
}

/// What a sampler did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Samples kept.
    pub samples: u64,
    /// Samples that the kernel dropped because nobody fetched them in time.
    pub lost: u64,
    /// How often the kernel stopped sampling for a while.
    pub throttled: u64,
    /// CPU time that the sampler's thread used while sampling.
    pub own_cpu: Nanos,
    /// What the reader of the profile should know: missing permissions, a process that died, a
    /// disk that was full. The profile carries the same, as far as it could be written.
    pub notes: Vec<String>,
}

/// Samples one process, all threads of it, those that start later included.
///
/// Dropping it without [`Sampler::stop`] ends sampling and the file in the same way.
#[derive(Debug)]
pub struct Sampler {
    shared: Arc<Shared>,
    state: State,
}

#[derive(Debug)]
enum State {
    Attached(Box<Drain>),
    Running(JoinHandle<Outcome>),
    Done,
}

impl Sampler {
    /// Opens the events on every thread of `pid`, switched off, and reads all symbols, so that
    /// little is left to do while sampling.
    ///
    /// The sink's header is completed with what is known only now: pid, name of the process,
    /// frequency, and whether kernel frames could be had. Its origin must be set.
    ///
    /// # Errors
    /// No such process, no permission, a limit reached: see [`Error`].
    pub fn attach(pid: u32, options: &Options, sink: StacksWriter) -> Result<Self, Error> {
        if options.frequency == 0 {
            return Err(Error::Options(
                "a frequency of 0 samples nothing: give at least 1".into(),
            ));
        }
        let target = Target::find(pid)?;
        let source = KernelChain {
            max_stack: max_stack(),
        };
        let mut events = events::open(pid, options, &source)?;
        let wake = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let wake = wake.map_err(|e| system("make an event descriptor", e))?;
        let fds = std::mem::take(&mut events.fds);
        let symbols = Symbols::new(pid, &target.status, events.kernel);
        let mut sink = sink;
        if let Some(header) = sink.header_mut() {
            header.pid = pid;
            header.command = target.status.name.clone();
            header.frequency = options.frequency;
            header.period_ns = 1_000_000_000 / u64::from(options.frequency);
            header.kernel_frames = events.kernel;
        }
        let notes = first_notes(options, &events, &symbols);
        let mut drain = Drain::new(target, events, symbols, Box::new(source), sink);
        notes.iter().for_each(|note| drain.note(note));
        let shared = Shared {
            events: fds,
            wake,
            stop: AtomicBool::new(false),
            ended: AtomicBool::new(false),
        };
        Ok(Self {
            shared: Arc::new(shared),
            state: State::Attached(Box::new(drain)),
        })
    }

    /// Switches sampling on. A second call does nothing.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn start(&mut self) -> Result<(), Error> {
        let State::Attached(drain) = std::mem::replace(&mut self.state, State::Done) else {
            return Ok(());
        };
        let from = Clock.now();
        for event in &self.shared.events {
            sys::enable(event.as_fd()).map_err(|e| system("switch an event on", e))?;
        }
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::Builder::new().name("profiler".into());
        let thread = thread.spawn(move || drain.run(from, &shared));
        let thread = thread.map_err(|e| system("start the profiler's thread", e))?;
        self.state = State::Running(thread);
        Ok(())
    }

    /// Switches sampling off, writes what is still in the rings, and ends the stacks file.
    ///
    /// # Errors
    /// The sampler's thread failed. A file that could not be written to its end is no error: a note
    /// says so, and what is in the file is readable.
    pub fn stop(mut self) -> Result<Outcome, Error> {
        self.end()
    }

    /// Whether the process has ended, which ends sampling.
    #[must_use]
    pub fn target_ended(&self) -> bool {
        self.shared.ended.load(Ordering::Acquire)
    }

    fn end(&mut self) -> Result<Outcome, Error> {
        for event in &self.shared.events {
            // What cannot be switched off ends with its descriptor.
            let _ = sys::disable(event.as_fd());
        }
        self.shared.stop.store(true, Ordering::Release);
        match std::mem::replace(&mut self.state, State::Done) {
            State::Attached(drain) => Ok(drain.run(Clock.now(), &self.shared)),
            State::Running(thread) => {
                // The thread looks at the flag ten times a second in any case.
                let _ = rustix::io::write(&self.shared.wake, &1u64.to_ne_bytes());
                thread.join().map_err(|_| Error::System {
                    what: "fetch samples".into(),
                    source: std::io::Error::other("the profiler's thread panicked; this is a bug"),
                })
            }
            State::Done => Ok(Outcome::default()),
        }
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        // The outcome is of no interest to somebody who did not ask for it.
        let _ = self.end();
    }
}

/// The process to be sampled, known to exist.
pub(crate) struct Target {
    pub(crate) pid: u32,
    pub(crate) status: Status,
    /// Becomes readable when the process ends; none on kernels before 5.3.
    pub(crate) pidfd: Option<OwnedFd>,
}

impl Target {
    fn find(pid: u32) -> Result<Self, Error> {
        if !Path::new(&format!("/proc/{pid}")).exists() {
            return Err(Error::NoSuchProcess { pid });
        }
        let status = Status::of(pid).map_err(|source| Error::System {
            what: format!("read /proc/{pid}/status"),
            source,
        })?;
        if status.tgid != pid {
            let (tgid, name) = (status.tgid, &status.name);
            return Err(Error::Options(format!(
                "{pid} ({name}) is a thread of process {tgid}: profile that"
            )));
        }
        if matches!(status.state, 'Z' | 'X') {
            return Err(Error::NoSuchProcess { pid });
        }
        if !status.has_memory {
            return Err(Error::KernelThread {
                pid,
                name: status.name,
            });
        }
        let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let open = |number| rustix::process::pidfd_open(number, PidfdFlags::empty()).ok();
        Ok(Self {
            pid,
            status,
            pidfd: number.and_then(open),
        })
    }
}

fn max_stack() -> u16 {
    let longest = procfs::sysctl("kernel.perf_event_max_stack").unwrap_or(DEFAULT_MAX_STACK);
    u16::try_from(longest).unwrap_or(u16::MAX)
}

fn first_notes(options: &Options, events: &Events, symbols: &Symbols) -> Vec<String> {
    let mut notes = Vec::new();
    if options.kernel && !events.kernel {
        notes.push(permission::user_space_only());
    }
    if events.kernel && symbols.kernel_is_hidden() {
        notes.push(permission::kernel_names_hidden());
    }
    notes
}

fn system(what: &str, source: impl Into<std::io::Error>) -> Error {
    Error::System {
        what: what.into(),
        source: source.into(),
    }
}
