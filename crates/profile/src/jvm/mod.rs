//! Names of the code that a HotSpot virtual machine has compiled. It writes them down when it is told to
//! (`jcmd PID Compiler.perfmap`, since JDK 17), all of them again each time, into `/tmp/perf-PID.map`.

mod attach;

use std::fs;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};

use linux::{ProcessId, Status, maps};
use measure::{Clock, Nanos};
use rustix::fs::{AtFlags, Mode, OFlags};

use self::attach::AttachError;
use crate::symbols;

/// Exported by HotSpot alone: other virtual machines have a `libjvm.so`, too, and take the signal for something else.
const HOTSPOT: &str = "gHotSpotVMStructs";
/// The option that keeps frame pointers in compiled code.
const FRAME_POINTERS: &str = "PreserveFramePointer";

/// Those that are profiled now: several profiles of one JVM share a map.
static PROFILED: Mutex<Vec<Weak<Jvm>>> = Mutex::new(Vec::new());

/// A HotSpot virtual machine that writes maps for us. The last to drop it removes the map, if none was there before.
#[derive(Debug)]
pub(crate) struct Jvm {
    process: ProcessId,
    /// Its `/tmp`, which can be reached also when it has ended; `None` where it may not be seen.
    tmp: Option<OwnedFd>,
    map: String,
    /// There was a map before, which stays.
    was_there: bool,
    /// One order at a time.
    orders: Mutex<()>,
}

impl Jvm {
    /// The virtual machine in a process; `None` where there is none, or not a HotSpot one.
    pub(crate) fn of(pid: u32, status: &Status) -> Option<Arc<Self>> {
        let maps = maps::maps(pid)?;
        let library = maps.iter().find(|it| maps::is_file(it) && it.path.ends_with("/libjvm.so"))?;
        symbols::exported(pid, library, &[HOTSPOT]).filter(|found| !found.is_empty())?;
        let process = ProcessId::of(pid)?;
        let mut profiled = locked(&PROFILED);
        profiled.retain(|it| it.strong_count() > 0);
        let mut known = profiled.iter().filter_map(Weak::upgrade);
        if let Some(known) = known.find(|it| it.process == process) {
            return Some(known);
        }
        let map = format!("perf-{}.map", status.inner_pid);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let tmp = rustix::fs::open(attach::in_tmp(process, ""), flags, Mode::empty()).ok();
        let jvm = Arc::new(Self {
            process,
            was_there: fs::symlink_metadata(attach::in_tmp(process, &map)).is_ok(),
            tmp,
            map,
            orders: Mutex::new(()),
        });
        profiled.push(Arc::downgrade(&jvm));
        Some(jvm)
    }

    /// Has the map written, and waits for it; how long that took, or why it could not be.
    pub(crate) fn write_map(&self) -> Result<Nanos, String> {
        let _one = locked(&self.orders);
        let begin = Clock.now();
        match attach::order(self.process, ["jcmd", "Compiler.perfmap"]) {
            Ok(_) => Ok(Clock.now().since(begin)),
            Err(AttachError::Refused(why)) => Err(format!("the JVM writes no perf map ({why}): use JDK 17 or later")),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Keeps the map from being written for another profile while this lasts; `None` while it is.
    pub(crate) fn still_map(&self) -> Option<MutexGuard<'_, ()>> {
        match self.orders.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.process.is_alive()
    }

    /// Whether compiled code keeps frame pointers; `None` where that cannot be found out.
    pub(crate) fn keeps_frame_pointers(&self) -> Option<bool> {
        let _one = locked(&self.orders);
        let answer = attach::order(self.process, ["printflag", FRAME_POINTERS]).ok()?;
        match answer.strip_prefix("-XX:")?.strip_suffix(FRAME_POINTERS)? {
            "+" => Some(true),
            "-" => Some(false),
            _ => None,
        }
    }
}

impl Drop for Jvm {
    fn drop(&mut self) {
        if let Some(tmp) = self.tmp.as_ref().filter(|_| !self.was_there) {
            let _ = rustix::fs::unlinkat(tmp, &self.map, AtFlags::empty());
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
