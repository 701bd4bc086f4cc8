//! The system call `bpf(2)`: maps and programs.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};

const MAP_CREATE: libc::c_long = 0;
const MAP_UPDATE: libc::c_long = 2;
const PROG_LOAD: libc::c_long = 5;
/// The helpers that read memory are for programs under the GPL or a licence beside it.
const LICENCE: &std::ffi::CStr = c"Dual MIT/GPL";

/// What a map is.
#[derive(Clone, Copy, Debug)]
#[repr(u32)]
pub(super) enum MapKind {
    Hash = 1,
    Array = 2,
    PerfEventArray = 4,
    /// What was not used for longest makes room.
    RecentlyUsedHash = 9,
}

/// What a program runs at.
#[derive(Clone, Copy, Debug)]
#[repr(u32)]
pub(super) enum ProgramKind {
    /// At places in code, a process's own too.
    Probe = 2,
    Tracepoint = 5,
    PerfEvent = 7,
}

/// The first fields of `union bpf_attr` for `BPF_MAP_CREATE`.
#[repr(C)]
struct MapCreate {
    kind: u32,
    key_size: u32,
    value_size: u32,
    entries: u32,
}

/// For `BPF_MAP_UPDATE_ELEM`.
#[repr(C)]
struct MapUpdate {
    map: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// For `BPF_PROG_LOAD`, up to the name.
#[repr(C)]
struct ProgLoad {
    kind: u32,
    count: u32,
    instructions: u64,
    licence: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
}

/// A map, with keys of 32 bits if nothing else is said.
#[derive(Debug)]
pub(super) struct Map {
    fd: OwnedFd,
    key_size: usize,
    value_size: usize,
}

impl Map {
    pub(super) fn new(kind: MapKind, value_size: usize, entries: u32) -> io::Result<Self> {
        Self::with_keys(kind, size_of::<u32>(), value_size, entries)
    }

    /// A map that programs alone use, with keys of any length.
    pub(super) fn with_keys(
        kind: MapKind,
        key_size: usize,
        value_size: usize,
        entries: u32,
    ) -> io::Result<Self> {
        let attributes = MapCreate {
            kind: kind as u32,
            key_size: u32::try_from(key_size).map_err(io::Error::other)?,
            value_size: u32::try_from(value_size).map_err(io::Error::other)?,
            entries,
        };
        Ok(Self {
            // SAFETY: the attributes hold no pointer.
            fd: unsafe { descriptor(MAP_CREATE, &attributes) }?,
            key_size,
            value_size,
        })
    }

    /// The descriptor as a program names it.
    pub(super) fn raw(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Sets the value of a key.
    pub(super) fn set(&self, key: u32, value: &[u8]) -> io::Result<()> {
        // The kernel reads as many bytes as keys and values have.
        if self.key_size != size_of::<u32>() || value.len() != self.value_size {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let attributes = MapUpdate {
            map: self.fd.as_raw_fd().cast_unsigned(),
            padding: 0,
            key: (&raw const key) as u64,
            value: value.as_ptr() as u64,
            flags: 0,
        };
        // SAFETY: key and value have the lengths that the map was made with, and outlive the call,
        // which only reads them.
        unsafe { bpf(MAP_UPDATE, &attributes) }.map(drop)
    }

    /// Makes a performance event the output of a processor.
    pub(super) fn set_event(&self, cpu: u32, event: BorrowedFd<'_>) -> io::Result<()> {
        self.set(cpu, &event.as_raw_fd().to_ne_bytes())
    }
}

/// A program that the kernel has checked. It lives as long as this, or an event that runs it.
#[derive(Debug)]
pub(crate) struct Program(OwnedFd);

impl Program {
    /// Loads a program; `name` is what `bpftool` shows.
    pub(super) fn load(kind: ProgramKind, instructions: &[u64], name: &str) -> io::Result<Self> {
        let mut attributes = ProgLoad {
            kind: kind as u32,
            count: u32::try_from(instructions.len()).map_err(io::Error::other)?,
            instructions: instructions.as_ptr() as u64,
            licence: LICENCE.as_ptr() as u64,
            log_level: 0,
            log_size: 0,
            log: 0,
            kernel_version: 0,
            flags: 0,
            name: [0; 16],
        };
        // The last byte stays 0, as the kernel demands.
        for (to, from) in attributes.name.iter_mut().take(15).zip(name.bytes()) {
            *to = from;
        }
        // SAFETY: instructions and licence outlive the call, which only reads them, as many as is
        // said and up to the zero byte; there is no log to write.
        unsafe { descriptor(PROG_LOAD, &attributes) }.map(Self)
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Calls `bpf(2)`.
///
/// # Safety
/// `attributes` is what the command's part of `union bpf_attr` begins with (the kernel takes the rest
/// for zero), and every pointer in it is good for what the command does with it.
unsafe fn bpf<A>(command: libc::c_long, attributes: &A) -> io::Result<i32> {
    // SAFETY: by the caller's promise; the kernel reads no more than the size that it is told.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            std::ptr::from_ref(attributes),
            size_of::<A>(),
        )
    };
    if answer < 0 {
        return Err(io::Error::last_os_error());
    }
    i32::try_from(answer).map_err(io::Error::other)
}

/// Calls `bpf(2)` for a command that answers with a descriptor.
///
/// # Safety
/// As [`bpf`], and the command makes a descriptor.
unsafe fn descriptor<A>(command: libc::c_long, attributes: &A) -> io::Result<OwnedFd> {
    // SAFETY: by the caller's promise, the kernel has just made the descriptor (closed on exec, as
    // all of bpf's are), and nobody else knows of it.
    unsafe { bpf(command, attributes).map(|fd| OwnedFd::from_raw_fd(fd)) }
}
