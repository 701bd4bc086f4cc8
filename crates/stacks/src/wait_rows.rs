//! Times off CPU by why they ended, or by whom.

use std::borrow::Cow;
use std::collections::HashMap;

use super::frames::{Frame, FrameKind};
use super::model::{Profile, StackNode};
use super::waits::{Wait, WaitReason};

/// The module of the frames that say why a time off CPU ended.
const MODULE: &str = "[wait]";

measure::named! {
    /// Splits of times off CPU.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum WaitBy {
        /// Why they ended.
        Reason = "reason",
        /// Who ended them.
        Waker = "waker",
    }
}

impl Profile {
    /// Replaces stacks by why waits ended, or who ended them.
    #[must_use]
    pub fn by_wait(&self, by: WaitBy) -> Self {
        let name_of = |wait: &Wait| match by {
            WaitBy::Reason => wait.reason.name().to_owned(),
            WaitBy::Waker => wait.label(),
        };
        let unknown = name_of(&Wait::default());
        let mut known = HashMap::from([(unknown.clone(), 0)]);
        let mut names = vec![unknown];
        let of_wait = self.waits.iter().map(|wait| {
            let name = name_of(wait);
            *known.entry(name).or_insert_with_key(|name| {
                names.push(name.clone());
                names.len() as u32 - 1
            })
        });
        let of_wait: Vec<u32> = of_wait.collect();
        self.with_leaves(&names, |sample| match sample.wait {
            Some(wait) => of_wait.get(wait as usize).copied(),
            None => Some(0),
        })
    }

    /// The profile with a frame at the leaf of each stack that says why the time off CPU ended: for what shows stacks and
    /// nothing else.
    #[must_use]
    pub fn with_reasons(&self) -> Cow<'_, Self> {
        if self.waits.is_empty() {
            return Cow::Borrowed(self);
        }
        let mut profile = self.clone();
        let mut frames: HashMap<WaitReason, u32> = HashMap::new();
        let mut nodes: HashMap<(u32, u32), u32> = HashMap::new();
        for sample in &mut profile.samples {
            let wait = sample.wait.and_then(|it| self.waits.get(it as usize));
            let reason = wait.map_or(WaitReason::Unknown, |wait| wait.reason);
            let Some(name) = reason.frame() else {
                continue;
            };
            if (sample.stack as usize) >= self.stacks.len() {
                continue;
            }
            let frame = *frames.entry(reason).or_insert_with(|| {
                (profile.frames).push(Frame::new(name, MODULE, FrameKind::Kernel));
                profile.frames.len() as u32 - 1
            });
            sample.stack = *nodes.entry((sample.stack, frame)).or_insert_with(|| {
                let parent = Some(sample.stack);
                profile.stacks.push(StackNode { parent, frame });
                profile.stacks.len() as u32 - 1
            });
        }
        Cow::Owned(profile)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::Time;

    use crate::{Builder, Merge, ProfileHeader, Sample, Unwinding};

    fn profile() -> Profile {
        let mut builder = Builder::default();
        let frame = |name| Frame::new(name, "[kernel]", FrameKind::Kernel);
        let wait = |reason, waker: &str| Wait {
            reason,
            waker: waker.into(),
        };
        for (leaf, of, weight) in [
            ("futex_wait", Some(wait(WaitReason::Timer, "")), 4),
            ("futex_wait", Some(wait(WaitReason::SameProcess, "a")), 3),
            ("ep_poll", Some(wait(WaitReason::Network, "b")), 2),
            ("ep_poll", Some(wait(WaitReason::SameProcess, "b")), 1),
            ("ep_poll", None, 5),
        ] {
            let frame = builder.frame(&frame(leaf));
            let stack = builder.node(None, frame);
            let thread = builder.thread("t");
            let wait = of.map(|wait| builder.wait(&wait));
            builder.sample(Sample {
                t: 0,
                weight,
                stack,
                thread,
                cpu: 0,
                complete: true,
                unwinding: Unwinding::Unknown,
                process: None,
                wait,
            });
        }
        builder.profile
    }

    fn rows(profile: &Profile) -> Vec<(String, u64)> {
        let rows = profile.functions().into_iter();
        rows.map(|it| (it.share.function, it.self_weight)).collect()
    }

    #[test]
    fn times_are_split_by_why_and_by_whom_they_were_ended() {
        let row = |name: &str, weight| (name.to_owned(), weight);
        let profile = profile();
        assert!(profile.is_consistent());
        let wanted = [
            row("unknown", 5),
            row("thread of the same process", 4),
            row("timer", 4),
            row("network", 2),
        ];
        assert_eq!(rows(&profile.by_wait(WaitBy::Reason)), wanted);
        let wanted = [
            row("[unknown]", 5),
            row("[timer]", 4),
            row("a", 3),
            row("b", 3),
        ];
        assert_eq!(rows(&profile.by_wait(WaitBy::Waker)), wanted);
    }

    #[test]
    fn the_reason_is_the_leaf_where_only_stacks_are_shown_and_changes_no_class() {
        let profile = profile();
        let with = profile.with_reasons();
        assert!(with.is_consistent());
        let leaves: Vec<_> = with.samples.iter().map(|it| with.stack(it.stack)).collect();
        let leaves: Vec<Vec<&str>> = leaves
            .iter()
            .map(|stack| stack.iter().map(|it| it.name.as_str()).collect())
            .collect();
        assert_eq!(
            leaves,
            [
                vec!["futex_wait", "[woken by: timer]"],
                vec!["futex_wait", "[woken by: thread of the same process]"],
                vec!["ep_poll", "[woken by: network]"],
                vec!["ep_poll", "[woken by: thread of the same process]"],
                vec!["ep_poll"],
            ]
        );
        assert_eq!(with.class_shares(), profile.class_shares());
        assert_eq!(with.total_weight(), profile.total_weight());
        assert!(matches!(
            Profile::default().with_reasons(),
            Cow::Borrowed(_)
        ));
    }

    #[test]
    fn reasons_are_kept_in_files_and_when_periods_become_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let mut profile = profile();
        profile.header = ProfileHeader::new(Time(0), 0);
        profile.header.event = "off-cpu".into();
        profile.header.unit = "nanoseconds".into();
        profile.write_stacks(&path("off-cpu.stacks")).unwrap();
        std::fs::write(path("off-cpu.pb.gz"), profile.to_pprof().unwrap()).unwrap();
        let reasons = |profile: &Profile| {
            [WaitBy::Reason, WaitBy::Waker].map(|by| rows(&profile.by_wait(by)))
        };
        let wanted = reasons(&profile);
        for name in ["off-cpu.stacks", "off-cpu.pb.gz"] {
            let read = Profile::open(path(name)).unwrap();
            assert!(read.is_consistent());
            assert_eq!(reasons(&read), wanted, "{name}");
        }
        let mut merge = Merge::default();
        merge.add(profile.clone());
        merge.add(profile);
        let twice = reasons(&merge.finish());
        let doubled = wanted.map(|rows| {
            let twice = rows.into_iter().map(|(name, weight)| (name, 2 * weight));
            twice.collect::<Vec<_>>()
        });
        assert_eq!(twice, doubled);
    }
}
