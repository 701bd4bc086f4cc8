//! Waits of threads: why time off CPU ended, by the waker's kernel stack. Rules are data (`wait-rules.txt`).

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use super::frames::Frame;
use super::pattern::{FramePattern, rules, symbol};

/// Wakers that a profile tells apart.
pub(super) const MOST_WAITS: usize = 1 << 12;
/// Placeholder for wakers beyond [`MOST_WAITS`].
pub(super) const OTHER_WAKERS: &str = "other wakers";

measure::named! {
    /// Why a thread did not run.
    #[derive(
        Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
    )]
    #[serde(rename_all = "snake_case")]
    pub enum WaitReason {
        /// It slept until a timer woke it: a time-out was over.
        Timer = "timer",
        /// Another thread of its process woke it.
        SameProcess = "thread of the same process",
        /// A thread of another process woke it.
        OtherProcess = "another process",
        /// A socket woke it: data came, or there was room again.
        Network = "network",
        /// A file system or block device woke it.
        Disk = "disk",
        /// It waited to change or to touch the memory of its process.
        Memory = "memory",
        /// A signal woke it.
        Signal = "signal",
        /// The kernel woke it, for none of these reasons.
        Kernel = "kernel",
        /// It was awake and waited until a processor was free for it.
        Processor = "waiting for a processor",
        /// It would have run on, and another thread got its processor.
        Preempted = "preempted",
        /// It still waited when sampling, or a part of it, ended.
        NotOver = "not over yet",
        /// Nobody saw what woke it.
        #[default]
        Unknown = "unknown",
    }
}

impl WaitReason {
    /// The reason of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }

    /// The frame that stands above the function in which a thread waited; none where nothing is known.
    pub(super) fn frame(self) -> Option<String> {
        match self {
            Self::Unknown => None,
            Self::Processor | Self::Preempted | Self::NotOver => Some(format!("[{}]", self.name())),
            woken => Some(format!("[woken by: {}]", woken.name())),
        }
    }
}

/// Why a thread did not run, and which thread ended that.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Wait {
    /// Why it ended.
    pub reason: WaitReason,
    /// The name of the waking thread, or of its process if another; empty where an interrupt did, or nobody.
    pub waker: String,
}

impl Wait {
    /// Who woke it, for people: in brackets the reason if no thread did; an ambiguous thread name is quoted.
    pub(super) fn label(&self) -> String {
        match self.waker.as_str() {
            "" => format!("[{}]", self.reason.name()),
            waker if waker.starts_with(['[', '\'']) => format!("'{waker}'"),
            waker => waker.to_owned(),
        }
    }
}

const BUILT_IN: &str = include_str!("wait-rules.txt");

/// Clue of a function in a waker's stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakeClue {
    /// Why it woke the thread.
    Reason(WaitReason),
    /// An interrupt did: the thread below it has nothing to do with that.
    Interrupt,
    /// The waker is a thread of the kernel.
    KernelThread,
}

/// A table of rules.
#[derive(Clone, Debug, Default)]
pub struct WaitRules(Vec<(FramePattern, WakeClue)>);

impl WaitRules {
    /// The rules that profiles are taken by.
    pub fn built_in() -> &'static Self {
        // A test parses the built-in text, so the fallback is never taken.
        static RULES: LazyLock<WaitRules> = LazyLock::new(|| WaitRules::parse(BUILT_IN).unwrap_or_default());
        &RULES
    }

    /// Clue of a function, if any.
    pub fn of(&self, frame: &Frame) -> Option<WakeClue> {
        let name = symbol(frame);
        self.0.iter().find(|(it, _)| it.matches(frame, name)).map(|(_, clue)| *clue)
    }

    fn parse(text: &str) -> Result<Self, String> {
        rules(text, rule).map(Self)
    }
}

fn rule(text: &str) -> Option<(FramePattern, WakeClue)> {
    let (frame, clue) = text.rsplit_once("->")?;
    let clue = match clue.trim() {
        "interrupt" => WakeClue::Interrupt,
        "kernel thread" => WakeClue::KernelThread,
        reason => WakeClue::Reason(WaitReason::named(reason)?),
    };
    Some((FramePattern::new(frame)?, clue))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FrameKind;

    #[test]
    fn reasons_have_names_of_their_own_which_no_thread_has() {
        let label = |waker: &str| {
            let (reason, waker) = (WaitReason::Timer, waker.to_owned());
            Wait { reason, waker }.label()
        };
        let labels = ["", "[timer]", "'[timer]'", "timer"].map(label);
        assert_eq!(labels, ["[timer]", "'[timer]'", "''[timer]''", "timer"]);
        for reason in WaitReason::ALL {
            assert_eq!(WaitReason::named(reason.name()), Some(reason));
        }
        assert_eq!(WaitReason::named("no reason"), None);
    }

    #[test]
    fn built_in_rules_are_well_formed_and_know_the_kernels_functions() {
        let rules = WaitRules::parse(BUILT_IN).expect("built-in rules");
        let clue = |name| rules.of(&Frame::new(name, "[kernel]", FrameKind::Kernel));
        let reason = |reason| Some(WakeClue::Reason(reason));
        for (name, wanted) in [
            ("hrtimer_wakeup", reason(WaitReason::Timer)),
            ("sock_def_readable", reason(WaitReason::Network)),
            ("tcp_data_ready.isra.0", reason(WaitReason::Network)),
            ("jbd2_journal_commit_transaction", reason(WaitReason::Disk)),
            ("asm_sysvec_apic_timer_interrupt", Some(WakeClue::Interrupt)),
            ("kthread", Some(WakeClue::KernelThread)),
            ("try_to_wake_up", None),
            ("futex_wake", None),
            ("kthread_stop", None),
        ] {
            assert_eq!(clue(name), wanted, "{name}");
        }
        let own = Frame::new("tcp_accept", "broker", FrameKind::Native);
        assert_eq!(rules.of(&own), None, "not the kernel's");
        assert!(WaitRules::parse("kernel f -> nothing").is_err());
    }
}
