//! An event as this kernel knows it.

use std::sync::Arc;

use perf_event_open_sys::bindings as b;

use crate::Error;
use crate::address_space::{self, SystemCall};
use crate::allocators::{self, Probe};
use crate::events::{Event, EventSource, Weight};
use crate::tracepoint::{Field, Tracepoint};

/// An event as this kernel knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KernelEvent {
    /// One of its own counters: `PERF_COUNT_SW_*`.
    Software(u32),
    /// A place in its code.
    Tracepoint(Tracepoint),
    /// Places in the process's code.
    Probes(Probes),
    /// The ends of calls for address space.
    Calls(Arc<[(SystemCall, Tracepoint)]>),
}

/// Places in a process's code, and what is counted there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Probes {
    pub(crate) places: Arc<[Probe]>,
    /// Bytes are counted, rather than calls.
    pub(crate) by_bytes: bool,
    /// Calls or bytes that a sample stands for.
    pub(crate) one_in: u32,
    /// Where the kernel tells that the process has another program, if that matters and the kernel shows it.
    pub(crate) exec: Option<Tracepoint>,
}

impl KernelEvent {
    /// Looks an event up, for a process.
    ///
    /// # Errors
    /// As [`Tracepoint::find`] and [`allocators::find`].
    pub(crate) fn of(event: &Event, pid: u32) -> Result<Self, Error> {
        let field = match event.weight {
            Weight::Field(name) => Some(name),
            _ => None,
        };
        let probes = |places: Result<Arc<[Probe]>, Error>| {
            Ok(Self::Probes(Probes {
                places: places?,
                by_bytes: event.weight == Weight::Requested,
                one_in: event.one_in(),
                exec: match event.weight {
                    Weight::Held => address_space::exec().ok(),
                    _ => None,
                },
            }))
        };
        match event.source {
            EventSource::Software(number) => Ok(Self::Software(number)),
            EventSource::Tracepoint => {
                Tracepoint::find(&event.kernel_name, field).map(Self::Tracepoint)
            }
            EventSource::Allocations => probes(allocators::find(pid, &allocators::ALLOCATE)),
            EventSource::Frees => probes(allocators::find(pid, &allocators::FREE)),
            EventSource::Blocks => probes(allocators::find_followed(pid)),
            EventSource::AddressSpace => address_space::find().map(Self::Calls),
        }
    }

    /// Whether it happens on a thread's own event. Others make the copier's program run for all threads at once.
    pub(crate) const fn is_of_thread(&self) -> bool {
        matches!(self, Self::Software(_))
    }

    /// Whether it is a place in the kernel's code.
    pub(crate) const fn is_tracepoint(&self) -> bool {
        matches!(self, Self::Tracepoint(_))
    }

    /// Whether only the copier's program can take it.
    pub(crate) const fn needs_program(&self) -> bool {
        matches!(self, Self::Probes(_) | Self::Calls(_))
    }

    /// `perf_event_attr.type` and `perf_event_attr.config` of what is opened on each thread.
    pub(crate) const fn attribute(&self) -> (u32, u64) {
        match self {
            Self::Software(number) => (b::PERF_TYPE_SOFTWARE, *number as u64),
            Self::Tracepoint(tracepoint) => (b::PERF_TYPE_TRACEPOINT, tracepoint.number),
            Self::Probes(_) | Self::Calls(_) => {
                (b::PERF_TYPE_SOFTWARE, b::PERF_COUNT_SW_DUMMY as u64)
            }
        }
    }

    /// The field that its samples weigh by.
    pub(crate) const fn field(&self) -> Option<Field> {
        match self {
            Self::Software(_) | Self::Probes(_) | Self::Calls(_) => None,
            Self::Tracepoint(tracepoint) => tracepoint.field,
        }
    }
}
