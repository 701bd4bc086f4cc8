//! How a sample's stack is made whole.
//!
//! Unwinders that look at more than frame pointers (registers and a copy of the stack) ask for what
//! they need in the event's attributes, or give a program that copies it, and give the same list of
//! addresses.

mod choice;
mod compiled;
mod copied;
mod erlang;
mod frame_pointers;
mod go;
mod native;

use std::sync::Arc;

use perf_event_open_sys::bindings::perf_event_attr;
use stacks::Unwinding;

use crate::beam::ProcessId;
use crate::record::{Address, SampleRecord};
use crate::stack_copy::{StackCopier, Transfer};

pub(crate) use choice::{Chosen, by_frame_pointers, choose};
use frame_pointers::FramePointers;
pub(crate) use native::{End, NativeUnwinder};

/// Turns a sample into addresses.
pub(crate) trait Unwinder: Send {
    /// Asks the kernel for what the unwinder needs.
    fn configure(&self, attr: &mut perf_event_attr);

    /// The program that shall run at each sample, and write it.
    fn copier(&self) -> Option<Arc<StackCopier>> {
        None
    }

    /// Whether it uses what the kernel finds by frame pointers also where the stack is copied.
    fn needs_user_chain(&self) -> bool {
        false
    }

    /// Looks for new memory with code in it.
    fn refresh(&mut self) {}

    /// Fills `stack` with the sample's addresses, leaf first.
    fn unwind(&mut self, sample: &SampleRecord<'_>, stack: &mut Stack);
}

/// The addresses of one stack, leaf first: the kernel's, then the user's.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stack {
    pub(crate) addresses: Vec<Address>,
    /// The unwinder had to stop before the stack's end.
    pub(crate) truncated: bool,
    /// The unwinder reached the root of the thread or Erlang process, whatever that is called.
    pub(crate) rooted: bool,
    pub(crate) unwinding: Unwinding,
    /// Bytes of the process's stacks that were copied for it.
    pub(crate) copied: u64,
    /// The Erlang process that the thread was running, where that is known.
    pub(crate) process: Option<ProcessId>,
    /// How many events the sample stands for, or its tracepoint's field, where the program in the kernel has written
    /// that.
    pub(crate) value: Option<u64>,
    /// Memory freed and allocated, where the event tells.
    pub(crate) transfer: Transfer,
}
