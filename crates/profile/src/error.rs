//! Failures of profiling that several modules meet.

use std::fmt::Display;

use measure::Problem;

/// Nothing runs under this number.
pub fn no_such_process(pid: u32) -> Problem {
    let help = "`bellows doctor` lists the brokers that run here";
    Problem::new(format!("no process {pid}"), "it does not exist or has ended", help)
}

/// An operation that the system refuses.
pub(crate) fn system(what: impl Display, source: impl Display) -> Problem {
    let help = "check ulimit -a and the kernel's settings (sysctl kernel.perf_event_paranoid)";
    Problem::new(format!("cannot {what}"), source, help)
}
