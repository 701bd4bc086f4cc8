//! Reasons of wake-ups, from the waker's kernel stack. Rules are data (`wait-rules.txt`), not code.

use std::sync::OnceLock;

use super::frame_pattern::{FramePattern, symbol};
use super::frames::Frame;
use super::waits::WaitReason;

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
        static RULES: OnceLock<WaitRules> = OnceLock::new();
        // A test parses the built-in text, so the fallback is never taken.
        RULES.get_or_init(|| Self::parse(BUILT_IN).unwrap_or_default())
    }

    /// Clue of a function, if any.
    #[must_use]
    pub fn of(&self, frame: &Frame) -> Option<WakeClue> {
        let name = symbol(frame);
        let rule = self.0.iter().find(|(it, _)| it.matches(frame, name));
        rule.map(|(_, clue)| *clue)
    }

    /// Rules from text; `None` where a line is none.
    fn parse(text: &str) -> Option<Self> {
        let lines = text.lines().map(str::trim);
        let rules = lines.filter(|line| !line.is_empty() && !line.starts_with("//"));
        rules.map(rule).collect::<Option<_>>().map(Self)
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
        assert!(WaitRules::parse("kernel f -> nothing").is_none());
    }
}
