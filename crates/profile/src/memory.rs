//! Reading the memory of another process.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

/// Memory that words can be read from.
pub(crate) trait Memory {
    /// Fills `bytes` from `address` on; whether all of it could be read.
    fn read(&self, address: u64, bytes: &mut [u8]) -> bool;

    /// The words from `address` on; as many as are asked for, or none.
    fn words(&self, address: u64, count: usize) -> Vec<u64> {
        let mut bytes = vec![0; count * 8];
        if !self.read(address, &mut bytes) {
            return Vec::new();
        }
        let (words, _) = bytes.as_chunks();
        words.iter().copied().map(u64::from_ne_bytes).collect()
    }

    /// The word at an address.
    fn word(&self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.read(address, &mut bytes)
            .then(|| u64::from_ne_bytes(bytes))
    }
}

/// The memory of a process.
#[derive(Debug)]
pub(crate) struct ProcessMemory(File);

impl ProcessMemory {
    /// Of the process `pid`.
    ///
    /// # Errors
    /// It has ended, or may not be looked into.
    pub(crate) fn open(pid: u32) -> io::Result<Self> {
        File::open(format!("/proc/{pid}/mem")).map(Self)
    }
}

impl Memory for ProcessMemory {
    fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        self.0.read_exact_at(bytes, address).is_ok()
    }
}
