//! Who ended a time off CPU, and why: from the kernel stack of the waker, its process and its name.

use std::collections::HashMap;

use linux::Status;
use stacks::{Wait, WaitReason, WaitRules, WakeClue};

use crate::record::{Address, Ended, WakeUp};
use crate::symbols::Symbols;

/// Names of other processes that are kept.
const MOST_NAMES: usize = 1 << 12;

#[derive(Debug)]
pub(crate) struct Wakers {
    /// The process whose threads are woken.
    pid: u32,
    /// By address what a function of the kernel tells.
    clues: HashMap<u64, Option<WakeClue>>,
    /// By process and thread's name what a waker of another process is called.
    names: HashMap<(u32, Box<[u8]>), String>,
}

impl Wakers {
    pub(crate) fn of(pid: u32) -> Self {
        Self { pid, clues: HashMap::new(), names: HashMap::new() }
    }

    pub(crate) fn wait(&mut self, ended: Ended<'_>, symbols: &Symbols) -> Wait {
        let reason = match ended {
            // Without names of the kernel's functions interrupts cannot be told from whom they interrupt.
            Ended::Woken(_) if symbols.kernel.is_empty() => WaitReason::Unknown,
            Ended::Woken(by) => {
                let clues = self.clues(&by, symbols);
                return self.woken(&by, &clues);
            }
            Ended::GotProcessor => WaitReason::Processor,
            Ended::WasPreempted => WaitReason::Preempted,
            Ended::NotYet => WaitReason::NotOver,
            Ended::Unseen => WaitReason::Unknown,
        };
        Wait { reason, waker: String::new() }
    }

    /// Clues of the waker's kernel stack, from its leaf on.
    fn clues(&mut self, by: &WakeUp<'_>, symbols: &Symbols) -> Vec<WakeClue> {
        let addresses = by.chain.addresses().filter_map(|address| match address {
            Address::Kernel(ip) => Some(ip),
            Address::User(_) => None,
        });
        let rules = WaitRules::built_in();
        // All are return addresses: the instruction after the call.
        let clues = addresses.filter_map(|ip| {
            *self.clues.entry(ip).or_insert_with(|| rules.of(&symbols.kernel.frame(ip.saturating_sub(1))))
        });
        clues.collect()
    }

    fn woken(&mut self, by: &WakeUp<'_>, clues: &[WakeClue]) -> Wait {
        let entry = clues.iter().position(|it| *it == WakeClue::Interrupt);
        let interrupt = entry.is_some();
        let clues = entry.map_or(clues, |entry| clues.split_at(entry).0);
        let told = clues.iter().find_map(|clue| match clue {
            WakeClue::Reason(reason) => Some(*reason),
            WakeClue::Interrupt | WakeClue::KernelThread => None,
        });
        let of_kernel = interrupt || clues.contains(&WakeClue::KernelThread);
        let reason = told.unwrap_or(match by.pid {
            _ if of_kernel => WaitReason::Kernel,
            pid if pid == self.pid => WaitReason::SameProcess,
            _ => WaitReason::OtherProcess,
        });
        let waker = if interrupt { String::new() } else { self.name(by) };
        Wait { reason, waker }
    }

    /// Name of a waker: a thread of this process by its name, one of another also by that process's.
    fn name(&mut self, by: &WakeUp<'_>) -> String {
        let thread = || String::from_utf8_lossy(by.waker).into_owned();
        if by.pid == self.pid {
            return thread();
        }
        let key = (by.pid, by.waker.into());
        if let Some(known) = self.names.get(&key) {
            return known.clone();
        }
        let thread = thread();
        let name = match Status::of(by.pid).map(|status| status.name) {
            Ok(process) if process != thread => format!("{process}: {thread}"),
            // The same, or a process that has ended or lies outside of this container.
            _ => thread,
        };
        if self.names.len() < MOST_NAMES {
            self.names.insert(key, name.clone());
        }
        name
    }
}

#[cfg(test)]
mod tests {
    use crate::record::Chain;

    use super::*;

    fn wait(pid: u32, clues: &[WakeClue]) -> (WaitReason, String) {
        let by = WakeUp { pid, waker: b"1_scheduler", chain: Chain::default() };
        let wait = Wakers::of(7).woken(&by, clues);
        (wait.reason, wait.waker)
    }

    #[test]
    fn the_innermost_reason_counts_and_an_interrupt_has_no_waker() {
        use WakeClue::{Interrupt, KernelThread, Reason};
        let (timer, disk) = (Reason(WaitReason::Timer), Reason(WaitReason::Disk));
        let thread = || "1_scheduler".to_owned();
        let none = String::new;
        for (pid, clues, wanted) in [
            (7, &[][..], (WaitReason::SameProcess, thread())),
            (u32::MAX, &[], (WaitReason::OtherProcess, thread())),
            (7, &[timer, Interrupt, disk], (WaitReason::Timer, none())),
            (7, &[disk, Interrupt], (WaitReason::Disk, none())),
            (7, &[Interrupt, disk], (WaitReason::Kernel, none())),
            (0, &[disk, KernelThread], (WaitReason::Disk, thread())),
            (0, &[KernelThread], (WaitReason::Kernel, thread())),
        ] {
            assert_eq!(wait(pid, clues), wanted, "{pid} {clues:?}");
        }
    }

    #[test]
    fn a_thread_of_another_process_has_both_names() {
        let mut wakers = Wakers::of(u32::MAX - 1);
        let own = std::process::id();
        let by = WakeUp { pid: own, waker: b"sender", chain: Chain::default() };
        let process = Status::of(own).unwrap().name;
        for _ in 0..2 {
            assert_eq!(wakers.woken(&by, &[]).waker, format!("{process}: sender"));
        }
    }
}
