//! The system calls and the shared memory of performance events.

#![allow(unsafe_code)]

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};

use perf_event_open_sys::bindings::{PERF_FLAG_FD_CLOEXEC, perf_event_attr, perf_event_mmap_page};
use perf_event_open_sys::{ioctls, perf_event_open};
use rustix::mm::{MapFlags, ProtFlags};

use crate::record::RingBytes;

/// Opens an event on one processor, and on one thread or on all.
pub(crate) fn open(attr: &perf_event_attr, tid: Option<u32>, cpu: u32) -> io::Result<OwnedFd> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidInput);
    let tid = tid.map_or(Ok(-1), i32::try_from).map_err(|_| invalid())?;
    let cpu = i32::try_from(cpu).map_err(|_| invalid())?;
    let mut attr = *attr;
    // SAFETY: `attr` is a whole attribute structure whose `size` field says so, alive during the
    // call; the kernel may write its size field only.
    let fd = unsafe { perf_event_open(&raw mut attr, tid, cpu, -1, PERF_FLAG_FD_CLOEXEC.into()) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor, and nobody else knows of it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The bit of an event's `config` that means the function's return (`retprobe` in sysfs).
const AT_RETURN: u64 = 1;

/// Opens an event where threads of a process come by a place in its code, or where the function there returns.
pub(crate) fn open_probe(path: &CStr, offset: u64, returns: bool, pid: u32, cpu: u32) -> io::Result<OwnedFd> {
    let mut attr = perf_event_attr::default();
    attr.size = size_of::<perf_event_attr>() as u32;
    // The kernel tells the number of its `uprobe` events in sysfs.
    let number = std::fs::read_to_string("/sys/bus/event_source/devices/uprobe/type")?;
    attr.type_ = number.trim().parse::<u32>().map_err(io::Error::other)?;
    attr.config = if returns { AT_RETURN } else { 0 };
    attr.__bindgen_anon_3.config1 = path.as_ptr() as u64;
    attr.__bindgen_anon_4.config2 = offset;
    attr.set_disabled(1);
    // The path outlives the call, which reads it up to its zero byte.
    open(&attr, Some(pid), cpu)
}

/// Switches an event and all that inherited from it on.
pub(crate) fn enable(event: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: ENABLE takes no pointer.
    done(unsafe { ioctls::ENABLE(event.as_raw_fd(), 0) })
}

/// Switches an event and all that inherited from it off.
pub(crate) fn disable(event: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: DISABLE takes no pointer.
    done(unsafe { ioctls::DISABLE(event.as_raw_fd(), 0) })
}

/// Makes `event` write into the ring of `owner`, which must be on the same processor.
pub(crate) fn set_output(event: BorrowedFd<'_>, owner: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: SET_OUTPUT takes a descriptor by value.
    done(unsafe { ioctls::SET_OUTPUT(event.as_raw_fd(), owner.as_raw_fd()) })
}

/// Makes a program run at each sample of an event, and of those that inherit from it later.
pub(crate) fn set_program(event: BorrowedFd<'_>, program: BorrowedFd<'_>) -> io::Result<()> {
    let program = program.as_raw_fd().cast_unsigned();
    // SAFETY: SET_BPF takes a descriptor by value.
    done(unsafe { ioctls::SET_BPF(event.as_raw_fd(), program) })
}

/// The number that samples of this event, and of those that inherited from it, carry.
pub(crate) fn id(event: BorrowedFd<'_>) -> io::Result<u64> {
    let mut id = 0u64;
    // SAFETY: ID writes one u64 through the pointer, which outlives the call.
    done(unsafe { ioctls::ID(event.as_raw_fd(), &raw mut id) })?;
    Ok(id)
}

/// Records of this event and its heirs that did not fit into the ring. It must have `PERF_FORMAT_LOST` alone.
pub(crate) fn lost(event: BorrowedFd<'_>) -> io::Result<u64> {
    let [_value, lost] = counts(event)?;
    Ok(lost.unwrap_or(0))
}

/// How often this event, and those that inherited from it, happened.
pub(crate) fn counted(event: BorrowedFd<'_>) -> io::Result<u64> {
    let [value, _lost] = counts(event)?;
    value.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

/// The event's count, and behind it what else it was opened to tell.
fn counts(event: BorrowedFd<'_>) -> io::Result<[Option<u64>; 2]> {
    let mut answer = [0u8; 16];
    let length = rustix::io::read(event, &mut answer)?;
    Ok([0, 8].map(|at| answer.get(..length)?.get(at..at + 8)?.try_into().ok().map(u64::from_ne_bytes)))
}

fn done(result: i32) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The memory that an event shares with the kernel: a control page, then the ring.
#[derive(Debug)]
pub(crate) struct RingMap {
    base: NonNull<u8>,
    page: usize,
    len: usize,
}

// SAFETY: the mapping belongs to this value alone, and is reached through it only.
unsafe impl Send for RingMap {}

impl RingMap {
    /// Maps `pages` pages of ring, a power of two, behind the control page.
    pub(crate) fn new(event: BorrowedFd<'_>, pages: usize) -> io::Result<Self> {
        let page = rustix::param::page_size();
        let len = pages * page;
        // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
        let base = unsafe {
            rustix::mm::mmap(
                ptr::null_mut(),
                page + len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                event,
                0,
            )
        }?;
        let base = NonNull::new(base.cast::<u8>()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Self { base, page, len })
    }

    fn control(&self) -> *mut perf_event_mmap_page {
        self.base.as_ptr().cast()
    }

    /// Bytes that the kernel has written since the ring exists.
    pub(crate) fn head(&self) -> u64 {
        // SAFETY: the control page is mapped as long as `self`, the field is aligned, and the
        // kernel writes it atomically. Acquire: records below the head are visible after it.
        unsafe { AtomicU64::from_ptr(&raw mut (*self.control()).data_head).load(Ordering::Acquire) }
    }

    /// Bytes that were taken; the kernel may overwrite them from now on.
    pub(crate) fn tail(&self) -> u64 {
        // SAFETY: as above; only this side writes the tail.
        unsafe { AtomicU64::from_ptr(&raw mut (*self.control()).data_tail).load(Ordering::Relaxed) }
    }

    /// Gives the kernel back everything before `tail`.
    pub(crate) fn set_tail(&mut self, tail: u64) {
        // SAFETY: as above. Release: all reads of the records happen before.
        unsafe {
            AtomicU64::from_ptr(&raw mut (*self.control()).data_tail).store(tail, Ordering::Release);
        }
    }
}

impl RingBytes for RingMap {
    fn len(&self) -> usize {
        self.len
    }

    fn copy(&self, at: usize, out: &mut [u8]) {
        assert!(at < self.len && out.len() <= self.len, "a record lies inside the ring");
        let first = out.len().min(self.len - at);
        // SAFETY: both pieces lie inside the mapping by the assertion above, `out` is memory of our
        // own, and the kernel does not write between tail and head, which is all that is read.
        unsafe {
            let data = self.base.as_ptr().add(self.page);
            ptr::copy_nonoverlapping(data.add(at), out.as_mut_ptr(), first);
            ptr::copy_nonoverlapping(data, out.as_mut_ptr().add(first), out.len() - first);
        }
    }
}

impl Drop for RingMap {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new` with this length, and nothing refers to it. Failure would only leak it.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.page + self.len) };
    }
}
