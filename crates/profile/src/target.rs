//! The process that is sampled.

use std::os::fd::OwnedFd;
use std::path::Path;

use linux::Status;
use measure::Problem;
use rustix::process::{Pid, PidfdFlags};

use crate::Error;

/// A process that was seen to exist and to have a user space.
pub(crate) struct Target {
    pub(crate) pid: u32,
    pub(crate) status: Status,
    /// Becomes readable when the process ends; none on kernels before 5.3.
    pub(crate) pidfd: Option<OwnedFd>,
}

impl Target {
    /// The process `pid`, where it can be sampled.
    pub(crate) fn find(pid: u32) -> Result<Self, Error> {
        if !Path::new(&format!("/proc/{pid}")).exists() {
            return Err(Error::NoSuchProcess { pid });
        }
        let status = Status::of(pid).map_err(|source| Error::System {
            what: format!("read /proc/{pid}/status"),
            source,
        })?;
        if status.tgid != pid {
            let (tgid, name) = (status.tgid, &status.name);
            return Err(Error::Options(Problem::new(
                format!("{pid} is no process of its own"),
                format!("it is the thread {name} of process {tgid}"),
                format!("profile {tgid}"),
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
