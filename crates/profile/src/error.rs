//! Why a process cannot be profiled.

use std::io;

use thiserror::Error;

/// Why a process cannot be profiled. Each message names the cause, what was observed and the
/// remedy.
#[derive(Debug, Error)]
pub enum Error {
    /// Nothing runs under that number.
    #[error("no process {pid}: it does not exist or has ended")]
    NoSuchProcess {
        /// The number.
        pid: u32,
    },
    /// A thread of the kernel has no user space.
    #[error(
        "process {pid} ({name}) is a thread of the kernel; only user processes can be profiled"
    )]
    KernelThread {
        /// The number.
        pid: u32,
        /// Its name.
        name: String,
    },
    /// The kernel refuses.
    #[error("the kernel does not allow profiling process {pid}: {reason}; {remedy}")]
    NotPermitted {
        /// The number.
        pid: u32,
        /// What was observed: owner, `kernel.perf_event_paranoid`.
        reason: String,
        /// What to do.
        remedy: String,
    },
    /// Out of file descriptors.
    #[error(
        "out of file descriptors after {opened} of {needed} events (limit {limit}): \
         raise it with `ulimit -n {wanted}`",
        wanted = needed.saturating_add(256)
    )]
    TooManyFiles {
        /// Events that could be opened.
        opened: u64,
        /// Events that are needed: threads times processors.
        needed: u64,
        /// Soft limit of file descriptors.
        limit: u64,
    },
    /// The kernel or processor has no such event.
    #[error(
        "this kernel has no performance events ({reason}); it must be built with CONFIG_PERF_EVENTS"
    )]
    NotSupported {
        /// What the kernel said.
        reason: String,
    },
    /// An option that cannot be.
    #[error("{0}")]
    Options(String),
    /// Anything else that the system refuses.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: String,
        /// What the system said.
        source: io::Error,
    },
}
