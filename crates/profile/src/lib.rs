//! CPU profiles of running processes, by the kernel's `perf_event_open`.
//!
//! ```text
//! rings (one per CPU) -> records -> addresses -> frames and stack nodes -> archive::profile
//!        sys, ring       record      source       symbols                  StacksWriter
//! ```
//!
//! [`Sampler::attach`] opens the events, [`Sampler::start`] switches them on, a thread of its own
//! fetches, names and writes the samples, [`Sampler::stop`] ends it. This is the only crate of the
//! workspace with `unsafe` code, which is confined to the modules `sys` and `cpu_time`.

mod cpu_time;
mod error;
mod sampler;

pub use cpu_time::cpu_time;
pub use error::Error;
pub use sampler::{Options, Outcome, Sampler};
