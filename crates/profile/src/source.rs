//! Where a sample's stack comes from.
//!
//! The kernel walks frame pointers while it takes the sample, which is right wherever code keeps
//! them. Other sources look at more than that (registers and a copy of the stack, unwound by debug
//! information; the Erlang stack, copied by a program in the kernel); they stand behind the same
//! trait, ask for what they need in the event's attributes, and give the same list of addresses.

use perf_event_open_sys::bindings::perf_event_attr;

use crate::record::{Address, SampleRecord};

/// Turns a sample into addresses.
pub(crate) trait StackSource: Send {
    /// Asks for what this source needs.
    fn configure(&self, attr: &mut perf_event_attr);

    /// Fills `stack` with the sample's addresses, leaf first.
    fn stack(&mut self, sample: &SampleRecord<'_>, stack: &mut Stack);
}

/// The addresses of one stack, leaf first: the kernel's, then the user's.
#[derive(Debug, Default)]
pub(crate) struct Stack {
    pub(crate) addresses: Vec<Address>,
    /// The source had to stop before the stack's end.
    pub(crate) truncated: bool,
}

/// The kernel's own walk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KernelChain {
    /// Longest chain, at most `kernel.perf_event_max_stack`.
    pub(crate) max_stack: u16,
}

impl StackSource for KernelChain {
    fn configure(&self, attr: &mut perf_event_attr) {
        attr.sample_max_stack = self.max_stack;
    }

    fn stack(&mut self, sample: &SampleRecord<'_>, stack: &mut Stack) {
        stack.addresses.clear();
        stack.addresses.extend(sample.chain.addresses());
        stack.truncated = stack.addresses.len() >= usize::from(self.max_stack);
    }
}
