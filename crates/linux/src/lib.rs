//! Linux processes, their threads, memory, limits and sockets, and the machine: the only crate of the workspace that
//! reads `/proc`, control groups, tracefs and socket diagnostics.
//!
//! Own readers of `/proc` rather than the crate `procfs`: names are any bytes, processes vanish while they are read,
//! and sandboxes leave fields out. `procfs` 0.18 panics on a `stat` line that is cut behind the name, ends a name at
//! its first colon, and gives up a whole `status` or `maps` for one byte that is not UTF-8 or one field that is
//! missing.

pub mod activity;
pub mod cpus;
pub mod machine;
pub mod maps;
#[cfg(test)]
mod names_tests;
mod process_tree;
pub mod processes;
pub mod sockets;
pub mod threads;
pub mod tracefs;

pub use cpus::{CombinedCores, CpuLimits};
pub use process_tree::{ProcessTree, ProcessUse, cpu_time};
pub use processes::{ProcessId, Status};
