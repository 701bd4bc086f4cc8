//! Profiles of running processes, by the kernel's `perf_event_open`.
//!
//! ```text
//! source -> record -> converter { threads, unwind, stack_table { symbols } } -> StacksWriter
//! ```
//!
//! [`Sampler::attach`] opens an event of the table in `events` on every thread, [`Sampler::start`] switches them on, a
//! thread of its own (`worker`) hands the records of a `source` to the `converter`, [`Sampler::stop`] ends it. Stacks
//! of code without frame pointers are copied at the sample by a program in the kernel (`stack_copy`); `beam` tells it
//! where Erlang stacks are, and reads names of Erlang functions; `jvm` has a Java virtual machine write down the names
//! of what it compiled. `perf_data` reads what `perf record` has written. This is the only crate of the workspace with
//! `unsafe` code, all of it in the module `source::perf::sys`.

mod access;
mod allocators;
mod beam;
mod converter;
mod events;
mod held;
mod jvm;
mod late_names;
mod memory;
mod pauses;
mod perf_data;
mod record;
mod sampler;
mod source;
mod stack_copy;
mod stack_table;
mod symbols;
#[cfg(test)]
mod tests;
mod threads;
mod tracepoint;
mod unwind;
mod wakers;
mod worker;

pub use access::{Access, AccessPart};
pub use beam::beam_functions;
pub use converter::Outcome;
pub use events::{EVENTS, Event, Options, Stacks};
pub use perf_data::PERF_DATA;
pub use sampler::{Sampler, SamplingSwitch};
pub use symbols::{go_functions, has_erlang_names};
pub use threads::no_such_process;
pub use worker::PROCESS_ENDED;
