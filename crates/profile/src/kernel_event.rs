//! An event as this kernel knows it.

use perf_event_open_sys::bindings as b;

use crate::Error;
use crate::events::{Event, EventSource, Weight};
use crate::tracepoint::{Field, Tracepoint};

/// An event as this kernel knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KernelEvent {
    /// One of its own counters: `PERF_COUNT_SW_*`.
    Software(u32),
    /// A place in its code.
    Tracepoint(Tracepoint),
}

impl KernelEvent {
    /// Looks an event up.
    ///
    /// # Errors
    /// As [`Tracepoint::find`].
    pub(crate) fn of(event: &Event) -> Result<Self, Error> {
        let field = match event.weight {
            Weight::Field(name) => Some(name),
            Weight::One | Weight::Events | Weight::Blocked => None,
        };
        match event.source {
            EventSource::Software(number) => Ok(Self::Software(number)),
            EventSource::Tracepoint => {
                Tracepoint::find(&event.kernel_name, field).map(Self::Tracepoint)
            }
        }
    }

    pub(crate) const fn is_tracepoint(self) -> bool {
        matches!(self, Self::Tracepoint(_))
    }

    /// `perf_event_attr.type` and `perf_event_attr.config`.
    pub(crate) fn attribute(self) -> (u32, u64) {
        match self {
            Self::Software(number) => (b::PERF_TYPE_SOFTWARE, number.into()),
            Self::Tracepoint(tracepoint) => (b::PERF_TYPE_TRACEPOINT, tracepoint.number),
        }
    }

    /// The field that its samples weigh by.
    pub(crate) const fn field(self) -> Option<Field> {
        match self {
            Self::Software(_) => None,
            Self::Tracepoint(tracepoint) => tracepoint.field,
        }
    }
}
