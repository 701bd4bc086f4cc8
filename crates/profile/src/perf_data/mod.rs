//! `perf.data`, what `perf record` writes: its header, and the records of the kernel behind each other. The layout is
//! that of `tools/perf/Documentation/perf.data-file-format.txt` in the kernel's source.
//!
//! ```text
//! header -> records, in the order of time -> processes { symbols, unwinder } -> Profile
//! ```

mod header;
mod processes;
mod read;
mod records;
#[cfg(test)]
mod tests;

use stacks::{Format, Reader};

/// How a file begins.
const MAGIC: &[u8] = b"PERFILE2";
/// How one begins that a machine of the other byte order has written.
const SWAPPED: &[u8] = b"2ELIFREP";

/// The format, for the table of formats.
pub const PERF_DATA: Format = Format {
    name: "perf-data",
    ends: &[".data"],
    what: "what `perf record` writes",
    lines: false,
    read: Some(Reader {
        recognises: |it| it.bytes.starts_with(MAGIC) || it.bytes.starts_with(SWAPPED),
        read: read::read,
    }),
    write: None,
};
