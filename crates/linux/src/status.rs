//! `/proc/PID/status` of a process or thread.

use std::{fs, io};

use rustix::process::Signal;

/// Fields of `/proc/PID/status`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Name of the executable, at most 15 bytes; what is not UTF-8 is replaced.
    pub name: String,
    /// `R`, `S`, …, `Z` for a process that has ended but was not waited for.
    pub state: char,
    /// The thread group: the process that a thread belongs to.
    pub tgid: u32,
    /// Effective user.
    pub uid: u32,
    /// Effective capabilities, a bit each.
    pub capabilities: u64,
    /// The process's number in its own pid namespace.
    pub inner_pid: u32,
    /// Threads of the kernel have no memory of their own.
    pub has_memory: bool,
    /// Signals that it has a handler for, a bit each, that of signal 1 the lowest.
    pub caught: u64,
}

impl Status {
    /// Whether it has a handler for a signal.
    #[must_use]
    pub const fn catches(&self, signal: Signal) -> bool {
        self.caught >> (signal.as_raw() - 1) & 1 == 1
    }

    /// Of a process or thread.
    pub fn of(pid: u32) -> io::Result<Self> {
        let bytes = fs::read(format!("/proc/{pid}/status"))?;
        Ok(Self::parse(&String::from_utf8_lossy(&bytes), pid))
    }

    fn parse(text: &str, pid: u32) -> Self {
        let mut status = Self {
            state: '?',
            tgid: pid,
            inner_pid: pid,
            ..Self::default()
        };
        for line in text.lines() {
            let Some((key, value)) = line.split_once(':') else {
                continue;
            };
            let value = value.trim();
            match key {
                "Name" => status.name = value.to_owned(),
                "State" => status.state = value.chars().next().unwrap_or('?'),
                "Tgid" => status.tgid = value.parse().unwrap_or(pid),
                // real, effective, saved, file system
                "Uid" => status.uid = number(value.split_whitespace().nth(1)).unwrap_or(0),
                "CapEff" => status.capabilities = u64::from_str_radix(value, 16).unwrap_or(0),
                // One per namespace, the innermost last.
                "NSpid" => {
                    status.inner_pid = number(value.split_whitespace().last()).unwrap_or(pid);
                }
                "SigCgt" => status.caught = u64::from_str_radix(value, 16).unwrap_or(0),
                "VmSize" => status.has_memory = true,
                _ => {}
            }
        }
        status
    }
}

fn number(text: Option<&str>) -> Option<u32> {
    text?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_tells_the_inner_pid_and_kernel_threads_apart() {
        let text = "Name:\tbeam.smp\nState:\tS (sleeping)\nTgid:\t40\nPid:\t41\n\
                    Uid:\t1\t102\t3\t4\nNSpid:\t41\t7\nSigCgt:\t0000000000000004\nVmSize:\t   12 kB\n";
        let status = Status::parse(text, 41);
        assert_eq!((status.name.as_str(), status.state), ("beam.smp", 'S'));
        assert_eq!((status.tgid, status.uid, status.inner_pid), (40, 102, 7));
        assert!(status.has_memory);
        assert!(status.catches(Signal::QUIT) && !status.catches(Signal::INT));
        let status = Status::parse("Name:\tkthreadd\nUid:\tx\ngarbage", 2);
        assert_eq!(
            (status.uid, status.inner_pid, status.has_memory),
            (0, 2, false)
        );
    }

    #[test]
    fn this_process_has_a_status() {
        let pid = std::process::id();
        let status = Status::of(pid).expect("status");
        assert!(status.has_memory && status.tgid == pid);
        assert!(Status::of(u32::MAX).is_err());
    }
}
