//! Events that make a program run, whatever thread they happen in.
//!
//! A tracepoint or a probe costs whoever passes it as long as it is open: the kernel calls the program whether or not the event is
//! switched on. So one that shall cost nothing for a while is closed, and opened again.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Mutex;

use perf_event_open_sys::bindings as b;

use super::sys;
use crate::kernel_event::KernelEvent;
use crate::tracepoint::Tracepoint;

/// Where a program runs.
#[derive(Clone, Debug)]
pub(super) enum TriggerPlace {
    /// A place in the kernel, in every thread of the machine.
    Tracepoint(Tracepoint),
    /// A place in a file, in every thread of a process.
    Probe {
        path: CString,
        offset: u64,
        /// Where the function returns, not where it begins.
        returns: bool,
        pid: u32,
    },
}

impl TriggerPlace {
    fn open(&self, cpu: u32) -> io::Result<OwnedFd> {
        match self {
            Self::Tracepoint(tracepoint) => {
                let mut attr = b::perf_event_attr::default();
                attr.size = size_of::<b::perf_event_attr>() as u32;
                (attr.type_, attr.config) = KernelEvent::Tracepoint(*tracepoint).attribute();
                attr.set_disabled(1);
                sys::open(&attr, None, cpu)
            }
            Self::Probe {
                path,
                offset,
                returns,
                pid,
            } => sys::open_probe(path, *offset, *returns, *pid, cpu),
        }
    }
}

/// An event that makes a program run.
#[derive(Debug)]
pub(super) struct OpenTrigger {
    place: TriggerPlace,
    cpu: u32,
    program: OwnedFd,
    /// The event, while it is open.
    event: Mutex<Option<OwnedFd>>,
}

impl OpenTrigger {
    /// Opens the event. The program runs when it is enabled.
    pub(super) fn open(place: TriggerPlace, cpu: u32, program: OwnedFd) -> io::Result<Self> {
        let event = place.open(cpu)?;
        Ok(Self {
            place,
            cpu,
            program,
            event: Mutex::new(Some(event)),
        })
    }

    /// From now on the program runs.
    pub(super) fn enable(&self) -> io::Result<()> {
        let Ok(mut event) = self.event.lock() else {
            return Ok(());
        };
        let event = match &mut *event {
            Some(event) => event,
            closed => closed.insert(self.place.open(self.cpu)?),
        };
        sys::set_program(event.as_fd(), self.program.as_fd())
    }

    /// From now on nothing of it is in anybody's way.
    pub(super) fn close(&self) {
        if let Ok(mut event) = self.event.lock() {
            *event = None;
        }
    }
}
