//! CPU profiles of running processes, by the kernel's `perf_event_open`.
//!
//! ```text
//! source -> record -> converter { threads, unwind, stack_table { symbols } } -> StacksWriter
//! ```
//!
//! [`Sampler::attach`] opens the events of the table in `events`, [`Sampler::start`] switches them
//! on, a thread of its own (`worker`) hands the records of a `source` to the `converter`,
//! [`Sampler::stop`] ends it. Stacks of code without frame pointers are copied at the sample by a
//! program in the kernel (`stack_copy`); `beam` tells it where Erlang stacks are. This is the only crate
//! of the workspace with `unsafe` code, all of it in the modules `source::perf::sys` and
//! `stack_copy::sys`.

mod beam;
mod converter;
mod error;
mod events;
mod options;
mod record;
mod roots;
mod sampler;
mod source;
mod stack_copy;
mod stack_table;
mod symbols;
mod target;
mod threads;
mod unwind;
mod worker;

pub use converter::Outcome;
pub use error::Error;
pub use events::{CPU, EVENTS, Event};
pub use options::{Options, Stacks};
pub use sampler::Sampler;
