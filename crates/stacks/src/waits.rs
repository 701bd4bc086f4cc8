//! Waits of threads: why each time off CPU ended.

use serde::{Deserialize, Serialize};

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
    #[must_use]
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
    /// The name of the thread that woke it, for one of another process with that process's name; empty where an
    /// interrupt did, or nobody.
    pub waker: String,
}

impl Wait {
    /// Who woke it, as people call it: where that was no thread, the reason in brackets; a thread whose name could be
    /// taken for that has quotes.
    pub(super) fn label(&self) -> String {
        match self.waker.as_str() {
            "" => format!("[{}]", self.reason.name()),
            waker if waker.starts_with(['[', '\'']) => format!("'{waker}'"),
            waker => waker.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_thread_is_called_as_a_reason_is() {
        let label = |waker: &str| {
            let (reason, waker) = (WaitReason::Timer, waker.to_owned());
            Wait { reason, waker }.label()
        };
        let labels = ["", "[timer]", "'[timer]'", "timer"].map(label);
        assert_eq!(labels, ["[timer]", "'[timer]'", "''[timer]''", "timer"]);
    }

    #[test]
    fn reasons_have_names_of_their_own() {
        for reason in WaitReason::ALL {
            assert_eq!(WaitReason::named(reason.name()), Some(reason));
        }
        assert_eq!(WaitReason::named("no reason"), None);
    }
}
