//! Unwinding by frame pointers, which the kernel does while it takes the sample: right wherever code
//! keeps them.

use linux::machine;
use perf_event_open_sys::bindings::perf_event_attr;
use stacks::Unwinding;

use super::{Stack, Unwinder};
use crate::record::SampleRecord;

/// The kernel's longest call chain where nobody changed it.
const DEFAULT_MAX_STACK: i64 = 127;

/// The kernel's own walk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FramePointers {
    /// Longest chain.
    max_stack: u16,
}

impl FramePointers {
    /// With the longest chains that the kernel allows.
    pub(crate) fn new() -> Self {
        let longest = machine::sysctl("kernel.perf_event_max_stack").unwrap_or(DEFAULT_MAX_STACK);
        Self {
            max_stack: u16::try_from(longest).unwrap_or(u16::MAX),
        }
    }
}

impl Unwinder for FramePointers {
    fn configure(&self, attr: &mut perf_event_attr) {
        attr.sample_max_stack = self.max_stack;
    }

    fn unwind(&mut self, sample: &SampleRecord<'_>, stack: &mut Stack) {
        stack.addresses.clear();
        stack.addresses.extend(sample.chain.addresses());
        stack.truncated = stack.addresses.len() >= usize::from(self.max_stack);
        stack.rooted = false;
        stack.unwinding = Unwinding::FramePointers;
        stack.copied = 0;
        stack.process = None;
        stack.value = None;
    }
}
