//! The calls by which a process takes address space and gives it back, and where the kernel tells that they are done.

use std::sync::Arc;

use crate::Error;
use crate::tracepoint::Tracepoint;

/// A call that changes what a process has mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum SystemCall {
    Mmap = 1,
    Munmap,
    Mremap,
    Brk,
    /// It has another program from now on, and nothing of what it had.
    Exec,
}

const EXEC: &str = "sched:sched_process_exec";

/// All of them, each with where it is done.
static CALLS: [(SystemCall, &str); 5] = [
    (SystemCall::Mmap, "syscalls:sys_exit_mmap"),
    (SystemCall::Munmap, "syscalls:sys_exit_munmap"),
    (SystemCall::Mremap, "syscalls:sys_exit_mremap"),
    (SystemCall::Brk, "syscalls:sys_exit_brk"),
    (SystemCall::Exec, EXEC),
];

impl SystemCall {
    /// Number in a record.
    pub(crate) const fn number(self) -> u8 {
        self as u8
    }

    /// The call of a number.
    pub(crate) fn of(number: u64) -> Option<Self> {
        let mut calls = CALLS.iter().map(|(call, _)| *call);
        calls.find(|call| u64::from(call.number()) == number)
    }

    /// The program at its end (`stack_copy/kernel/programs.c`).
    pub(crate) const fn program(self) -> &'static str {
        match self {
            Self::Mmap => "mmap",
            Self::Munmap => "munmap",
            Self::Mremap => "mremap",
            Self::Brk => "brk",
            Self::Exec => "exec",
        }
    }
}

/// The calls, and where this kernel tells that they are done.
///
/// # Errors
/// As [`Tracepoint::find`].
pub(crate) fn find() -> Result<Arc<[(SystemCall, Tracepoint)]>, Error> {
    let calls = CALLS.iter();
    let found = calls.map(|&(call, name)| Ok((call, Tracepoint::find(name, None)?)));
    found.collect()
}

/// Where this kernel tells that a process has another program.
///
/// # Errors
/// As [`Tracepoint::find`].
pub(crate) fn exec() -> Result<Tracepoint, Error> {
    Tracepoint::find(EXEC, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_has_a_number_of_its_own() {
        for (call, _) in CALLS {
            assert_eq!(SystemCall::of(call.number().into()), Some(call));
        }
        assert_eq!(SystemCall::of(0), None);
        assert_eq!(SystemCall::of(u64::MAX), None);
    }
}
