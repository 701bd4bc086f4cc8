//! Linux processes, their threads, memory, limits and sockets, and the machine: the only crate of the workspace that
//! reads `/proc`, control groups, tracefs and socket diagnostics. Names are any bytes, processes vanish while they are
//! read, and sandboxes leave fields out: the crate `procfs` panics at a cut `stat` line or gives up a whole file.

pub mod activity;
pub mod cpus;
pub mod machine;
pub mod maps;
mod process_tree;
pub mod processes;
pub mod sockets;
pub mod threads;
pub mod tracefs;

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

pub use cpus::{CombinedCores, CpuLimits};
pub use process_tree::{ProcessTree, ProcessUse, cpu_time};
pub use processes::{ProcessId, Status};

/// A file of the kernel's, which says that it is empty: with room for all of it two reads do, without it four.
fn read_bytes(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(8 << 10);
    File::open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A file of the kernel's; what is not UTF-8 is replaced.
fn read_lossy(path: impl AsRef<Path>) -> io::Result<String> {
    let text = String::from_utf8(read_bytes(path)?);
    Ok(text.unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

/// The number behind `key:` in a file of such lines.
fn value(text: &str, key: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = lines.find(|(found, _)| *found == key)?;
    value.split_ascii_whitespace().next()?.parse().ok()
}
