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
mod process_tree;
pub mod processes;
pub mod sockets;
pub mod threads;
pub mod tracefs;

use std::path::Path;
use std::{fs, io};

pub use cpus::{CombinedCores, CpuLimits};
pub use process_tree::{ProcessTree, ProcessUse, cpu_time};
pub use processes::{ProcessId, Status};

/// A file of the kernel's; what is not UTF-8 is replaced.
fn read_lossy(path: impl AsRef<Path>) -> io::Result<String> {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// The number behind `key:` in a file of such lines.
fn value(text: &str, key: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = lines.find(|(found, _)| *found == key)?;
    value.split_ascii_whitespace().next()?.parse().ok()
}
