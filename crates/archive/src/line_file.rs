//! A file that grows by whole lines, also after a failed write.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;

/// A file that grows by whole lines, opened when the first arrives.
#[derive(Debug)]
pub(crate) struct LineFile {
    path: PathBuf,
    file: Option<File>,
    /// The last write broke off, perhaps in the middle of a line.
    torn: bool,
}

impl LineFile {
    pub(crate) const fn new(path: PathBuf) -> Self {
        Self {
            path,
            file: None,
            torn: false,
        }
    }

    pub(crate) fn append(&mut self, line: &[u8]) -> io::Result<()> {
        if self.file.is_none() {
            self.file = Some(
                OpenOptions::new()
                    .create(true)
                    .append(true)
                    .open(&self.path)?,
            );
        }
        let Some(file) = &mut self.file else {
            return Ok(());
        };
        let mut bytes = Vec::with_capacity(line.len() + 2);
        if self.torn {
            bytes.push(b'\n');
        }
        bytes.extend_from_slice(line);
        bytes.push(b'\n');
        let written = file.write_all(&bytes);
        self.torn = written.is_err();
        written
    }
}
