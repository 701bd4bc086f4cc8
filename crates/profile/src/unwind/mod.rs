//! How a sample's stack is made whole.
//!
//! Unwinders that look at more than frame pointers (registers and a copy of the stack, unwound by
//! debug information; the Erlang stack, copied by a program in the kernel) ask for what they need in
//! the event's attributes, and give the same list of addresses.

mod frame_pointers;

use perf_event_open_sys::bindings::perf_event_attr;

use crate::record::{Address, SampleRecord};

pub(crate) use frame_pointers::FramePointers;

/// Turns a sample into addresses.
pub(crate) trait Unwinder: Send {
    /// Asks the kernel for what the unwinder needs.
    fn configure(&self, attr: &mut perf_event_attr);

    /// Fills `stack` with the sample's addresses, leaf first.
    fn unwind(&mut self, sample: &SampleRecord<'_>, stack: &mut Stack);
}

/// The addresses of one stack, leaf first: the kernel's, then the user's.
#[derive(Debug, Default)]
pub(crate) struct Stack {
    pub(crate) addresses: Vec<Address>,
    /// The unwinder had to stop before the stack's end.
    pub(crate) truncated: bool,
}
