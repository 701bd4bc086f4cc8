//! CPU profiles of running processes, by the kernel's `perf_event_open`.
//!
//! ```text
//! rings (one per CPU) -> records -> addresses -> frames, stack nodes -> archive::profile
//! events, sys, ring      record     source       symbols, stacker       StacksWriter
//! ```
//!
//! [`Sampler::attach`] opens the events, [`Sampler::start`] switches them on, a thread of its own
//! (`drain`) fetches, names and writes the samples, [`Sampler::stop`] ends it. This is the only
//! crate of the workspace with `unsafe` code, all of it in the modules `sys` and `cpu_time`.

mod cpu_time;
mod drain;
mod error;
mod events;
mod permission;
mod procfs;
mod record;
mod ring;
mod roots;
mod sampler;
mod source;
mod stacker;
mod symbols;
mod sys;
mod threads;

pub use cpu_time::cpu_time;
pub use error::Error;
pub use sampler::{Options, Outcome, Sampler};
