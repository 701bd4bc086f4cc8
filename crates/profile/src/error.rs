//! Why a process cannot be profiled.

use std::{fmt, io};

use measure::Problem;

/// Why a process cannot be profiled.
#[derive(Debug)]
pub enum Error {
    /// Nothing runs under that number.
    NoSuchProcess {
        /// The number.
        pid: u32,
    },
    /// A thread of the kernel has no user space.
    KernelThread {
        /// The number.
        pid: u32,
        /// Its name.
        name: String,
    },
    /// The kernel refuses.
    NotPermitted {
        /// The number.
        pid: u32,
        /// Observed value: owner, `kernel.perf_event_paranoid`.
        reason: String,
        /// A remedy.
        remedy: String,
    },
    /// Out of file descriptors.
    TooManyFiles {
        /// Events that could be opened.
        opened: u64,
        /// Events that are needed: threads times processors.
        needed: u64,
        /// Soft limit of file descriptors.
        limit: u64,
    },
    /// The kernel or processor has no such event.
    NotSupported {
        /// The kernel's reason.
        reason: String,
    },
    /// An option that cannot be.
    Options(Problem),
    /// Anything else that the system refuses.
    System {
        /// Failed operation.
        what: String,
        /// The system's error.
        source: io::Error,
    },
}

impl Error {
    /// Cause, observed value and remedy.
    pub fn problem(&self) -> Problem {
        match self {
            Self::NoSuchProcess { pid } => Problem::new(
                format!("no process {pid}"),
                "it does not exist or has ended",
                "`bellows doctor` lists the brokers that run here",
            ),
            Self::KernelThread { pid, name } => Problem::new(
                format!("process {pid} cannot be profiled"),
                format!("{name} is a thread of the kernel"),
                "choose a user process",
            ),
            Self::NotPermitted { pid, reason, remedy } => {
                Problem::new(format!("the kernel does not allow profiling process {pid}"), reason, remedy)
            }
            Self::TooManyFiles { opened, needed, limit } => Problem::new(
                "out of file descriptors",
                format!("{opened} of {needed} events are open, and the limit is {limit}"),
                format!("raise it with `ulimit -n {}`", needed.saturating_add(256)),
            ),
            Self::NotSupported { reason } => Problem::new(
                "this kernel has no performance events",
                reason,
                "boot a kernel that was built with CONFIG_PERF_EVENTS",
            ),
            Self::Options(problem) => problem.clone(),
            Self::System { what, source } => Problem::new(
                format!("cannot {what}"),
                source,
                "check ulimit -a and the kernel's settings (sysctl kernel.perf_event_paranoid)",
            ),
        }
    }
}

/// Cause and observed value in one line.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.problem().fmt(f)
    }
}

impl std::error::Error for Error {}
