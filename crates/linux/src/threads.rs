//! CPU time and run-queue wait of each thread of a process: one that fills a core limits a broker.

use std::collections::BTreeMap;
use std::{fs, process};

use measure::Nanos;

use crate::{processes, read_lossy};

/// The numbers of a process's threads, in ascending order; empty where it has ended.
pub fn ids(pid: u32) -> Vec<u32> {
    let mut tids = processes::numbers_in(&format!("/proc/{pid}/task"));
    tids.sort_unstable();
    tids
}

/// A thread's name.
pub fn name(pid: u32, tid: u32) -> Option<String> {
    Some(read_lossy(format!("/proc/{pid}/task/{tid}/comm")).ok()?.trim_end().to_owned())
}

/// An address on the stack of a thread: where it ends, for one that waits in the kernel; where it begins, for the first
/// thread of a process. `None` for another that runs, one that has ended, and where the process may not be looked into.
pub fn stack_address(pid: u32, tid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/syscall")).ok()?;
    stack_pointer_in(&text).or_else(|| (pid == tid).then(|| processes::stack_start(pid))?)
}

/// `CALL ARGUMENT… SP PC`, `-1 SP PC` outside of a call, or `running`.
fn stack_pointer_in(text: &str) -> Option<u64> {
    u64::from_str_radix(text.split_ascii_whitespace().rev().nth(1)?.strip_prefix("0x")?, 16).ok()
}

/// Times of the threads of some processes up to an instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadTimes(BTreeMap<u32, Times>);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Times {
    process: u32,
    cpu: Nanos,
    run_queue_wait: Nanos,
}

/// Use between two instants.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ThreadUse {
    /// CPU time of the busiest thread.
    pub busiest: Nanos,
    /// Its name, as long as it lives.
    pub name: Option<String>,
    /// Time that the threads together waited for a core.
    pub run_queue_wait: Nanos,
}

/// How long the calling thread has waited in the run queue so far; `None` where the kernel keeps no account of it.
pub fn own_run_queue_wait() -> Option<Nanos> {
    let text = read_lossy("/proc/thread-self/schedstat").ok()?;
    parse(process::id(), &text).map(|it| it.run_queue_wait)
}

impl ThreadTimes {
    /// Reads all threads of these processes.
    pub fn read(processes: impl IntoIterator<Item = u32>) -> Self {
        let mut all = BTreeMap::new();
        for process in processes {
            for id in ids(process) {
                let text = read_lossy(format!("/proc/{process}/task/{id}/schedstat"));
                if let Some(times) = text.ok().and_then(|text| parse(process, &text)) {
                    all.insert(id, times);
                }
            }
        }
        Self(all)
    }

    /// Use since `before`; `None` where nothing is known.
    pub fn since(&self, before: &Self) -> Option<ThreadUse> {
        let mut used = ThreadUse::default();
        let mut busiest = None;
        for (id, after) in &self.0 {
            let then = before.0.get(id).copied().unwrap_or_default();
            used.run_queue_wait += after.run_queue_wait.saturating_sub(then.run_queue_wait);
            let cpu = after.cpu.saturating_sub(then.cpu);
            if busiest.is_none() || cpu > used.busiest {
                used.busiest = cpu;
                busiest = Some((after.process, *id));
            }
        }
        let (process, thread) = busiest?;
        used.name = name(process, thread);
        Some(used)
    }
}

/// `CPU-nanoseconds nanoseconds-in-the-run-queue slices`; zeros where the kernel keeps no account.
fn parse(process: u32, text: &str) -> Option<Times> {
    let mut numbers = text.split_ascii_whitespace().map(str::parse::<u64>);
    let (cpu, run_queue_wait) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    Some(Times { process, cpu: Nanos(cpu), run_queue_wait: Nanos(run_queue_wait) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maps;

    #[test]
    fn the_busiest_thread_is_found() {
        let me = process::id();
        let before = ThreadTimes::read([me]);
        let busy = std::thread::Builder::new()
            .name("busy one".into())
            .spawn(move || {
                // Its share of a full machine may come late.
                let used = || ThreadTimes::read([me]).since(&before).map(|it| it.busiest);
                let mut x = 1u64;
                while used() < Some(Nanos::from_millis(5)) {
                    (0..1_000_000).for_each(|_| x = std::hint::black_box(x.wrapping_mul(3)));
                }
                (ThreadTimes::read([me]), before)
            })
            .unwrap();
        let (after, before) = busy.join().unwrap();
        let used = after.since(&before).unwrap();
        // Other tests may be busier than ours.
        assert!(used.busiest >= Nanos::from_millis(5), "{used:?}");
    }

    #[test]
    fn every_waiting_thread_shows_its_stack() {
        let me = process::id();
        let (tells, told) = std::sync::mpsc::channel();
        let (ends, end) = std::sync::mpsc::channel::<()>();
        let waiting = std::thread::spawn(move || {
            let here = 0u8;
            tells.send(std::ptr::from_ref(&here) as u64).expect("told");
            let _ = end.recv();
        });
        let local = told.recv().expect("an address");
        let ranges = maps::ranges(me);
        let is_shown = || {
            let addresses = ids(me).into_iter().filter_map(|tid| stack_address(me, tid));
            let mut shown = addresses.filter_map(|it| maps::range_around(&ranges, it));
            shown.any(|range| range.contains(&local))
        };
        // It waits once it has had a core to do so.
        let limit = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while !is_shown() {
            assert!(std::time::Instant::now() < limit, "{local:x} is not shown");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        drop(ends);
        waiting.join().expect("an end");
        let first = stack_address(me, me).and_then(|address| maps::range_around(&ranges, address));
        let stack = processes::stack_start(me).expect("the first thread's stack");
        assert!(first.is_some_and(|range| range.contains(&stack)));
    }

    #[test]
    fn lines_of_the_kernel_are_read() {
        let waits = "35 0x7ffd 0x0 0x0 0x0 0x0 0x0 0x7ffd91e0a9d8 0x7f1c2a4e5a7a\n";
        assert_eq!(stack_pointer_in(waits), Some(0x7ffd_91e0_a9d8));
        assert_eq!(stack_pointer_in("-1 0x7ffd91e0a9d8 0x7f1c2a4e5a7a\n"), Some(0x7ffd_91e0_a9d8));
        for other in ["running\n", "", "0x", "a b c", "1 0xzz 0x1"] {
            assert_eq!(stack_pointer_in(other), None, "{other}");
        }
        assert_eq!(stack_address(u32::MAX, u32::MAX), None);
        assert_eq!(ThreadTimes::read([u32::MAX]).since(&ThreadTimes::default()), None);
        assert_eq!(parse(1, ""), None);
        assert_eq!(parse(1, "5 x 1"), None);
        assert_eq!(parse(1, "5 7 1").map(|t| t.run_queue_wait), Some(Nanos(7)));
    }
}
