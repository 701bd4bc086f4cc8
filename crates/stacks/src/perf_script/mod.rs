//! The text that `perf script` prints: for each sample a line with thread, time, period and event,
//! a line for every frame from the leaf up, and an empty line.
//!
//! ```text
//! beam.smp 4711/4719 [001] 25607.109216:    1001001 cpu-clock:
//!         7f3c5a12 process_main+0x1c (/usr/lib/erlang/bin/beam.smp)
//!         7f3c0b07 [unknown] (/usr/lib/x86_64-linux-gnu/libc.so.6)
//!
//! ```
//!
//! [`Collapse`] folds it byte for byte as `stackcollapse-perf.pl` does; [`read`] makes a profile of it.

mod collapse;
mod line;
mod read;

pub use collapse::{Collapse, CollapseOptions, Inlined};
pub(super) use line::looks_like;
pub(super) use read::read;

const LONGEST_LINE: u64 = 1 << 20;
