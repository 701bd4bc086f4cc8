//! A profile with modules, groups of threads, classes, owners of work or reasons of waits in place of functions.

use std::borrow::Cow;
use std::collections::HashMap;

use super::frames::{Frame, FrameKind, UNKNOWN};
use super::model::{Profile, Sample, StackNode, without_version};
use super::tree::{Builder, numbered};
use super::waits::{Wait, WaitReason};
use super::work::WorkBy;
use crate::summary::Class;

impl Profile {
    /// Groups samples by function: all lines of one are one frame.
    pub fn without_lines(mut self) -> Self {
        if self.frames.iter().all(|frame| frame.line.is_none()) {
            return self;
        }
        let mut built = Builder::default();
        let lines = std::mem::take(&mut self.frames).into_iter();
        let of_line: Vec<u32> = lines.map(|line| built.frame(&line.at_line(None))).collect();
        let of_node = self.per_stack(|parent, node| {
            let frame = of_line.get(node.frame as usize).copied().unwrap_or(u32::MAX);
            built.node(parent, frame)
        });
        for sample in &mut self.samples {
            sample.stack = of_node.get(sample.stack as usize).copied().unwrap_or(u32::MAX);
        }
        let Self { frames, stacks, .. } = built.profile;
        Self { frames, stacks, ..self }
    }

    /// Groups samples by line in place of function, as far as lines are known.
    pub fn by_line(&self) -> Self {
        self.with_frames(|frame| (frame.name_with_line(), &frame.module))
    }

    /// Whether the line of any frame is known.
    pub fn knows_lines(&self) -> bool {
        self.frames.iter().any(|frame| frame.line.is_some())
    }

    /// Groups samples by module: an Erlang module, a Java class, a library, a program, the kernel; each counts once.
    pub fn by_module(&self) -> Self {
        self.with_frames(|frame| (module(frame).into(), ""))
    }

    /// Groups samples by functions that can be told apart in another build, too: by their names and modules, libraries
    /// without their versions (`libcrypto.so.3` is `libcrypto.so`); by their names alone where modules are not `known`.
    pub fn by_function(&self, known: bool) -> Self {
        self.with_frames(|frame| {
            let module = if known { frame.module.as_str() } else { "" };
            (frame.name.as_str().into(), without_version(module))
        })
    }

    /// Groups as [`Self::by_function`] with modules, with one function in place of all those of a module that have no
    /// name of their own: a name after a neighbour differs in each build.
    pub fn by_named_function(&self) -> Self {
        let mut grouped = self.by_function(true);
        for frame in grouped.frames.iter_mut().filter(|frame| frame.is_near()) {
            frame.name = Frame::without_symbol(&frame.module);
        }
        grouped.with_frames(|frame| (frame.name.as_str().into(), &frame.module))
    }

    /// Whether the module of any function is known: folded text has none.
    pub fn knows_modules(&self) -> bool {
        self.frames.iter().any(|frame| !frame.module.is_empty())
    }

    /// Groups samples by their thread's group in place of their stack.
    pub fn by_thread_group(&self) -> Self {
        let groups = self.thread_groups();
        self.with_leaves(&groups.names, |sample| groups.of_thread.get(sample.thread as usize).copied())
    }

    /// Groups samples by their class in place of their stack.
    pub fn by_class(&self) -> Self {
        let classes = self.classes();
        let names = Class::ALL.map(|class| class.name().to_owned());
        self.with_leaves(&names, |sample| classes.get(sample.stack as usize).map(|class| *class as u32))
    }

    /// Groups samples by the innermost function of Erlang, Java or Go in their stacks, and by class where there is
    /// none, as [`Self::language_functions`] does; `None` where no sample has such a function.
    pub fn by_language_function(&self) -> Option<Self> {
        let (functions, classes) = (self.innermost_functions(), self.classes());
        let function = |sample: &Sample| functions.get(sample.stack as usize).copied().flatten();
        if self.samples.iter().all(|sample| function(sample).is_none()) {
            return None;
        }
        let labels = Class::ALL.iter().map(|class| self.class_label(*class));
        let names: Vec<String> = self.frames.iter().map(|frame| frame.name.clone()).chain(labels).collect();
        let first_label = self.frames.len() as u32;
        let grouped = self.with_leaves(&names, |sample| {
            let label = || Some(first_label + *classes.get(sample.stack as usize)? as u32);
            function(sample).or_else(label)
        });
        // Functions of one name are one row.
        Some(grouped.by_function(false))
    }

    /// Groups samples by whose work they are in place of their stack.
    pub fn by_work(&self, by: WorkBy) -> Self {
        let (names, of_process) = self.work_names(by);
        self.with_leaves(&names, |sample| match sample.process {
            Some(process) => of_process.get(process as usize).copied(),
            None => Some(0),
        })
    }

    /// Stacks of other frames: those of this name and module.
    pub(super) fn with_frames<'p>(&'p self, named: impl Fn(&'p Frame) -> (Cow<'p, str>, &'p str)) -> Self {
        let mut known: HashMap<(Cow<'p, str>, &'p str), u32> = HashMap::new();
        let mut frames: Vec<Frame> = Vec::new();
        let of_frame = self.frames.iter().map(|frame| {
            *known.entry(named(frame)).or_insert_with_key(|(name, module)| {
                frames.push(Frame::new(name.as_ref(), *module, frame.kind));
                frames.len() as u32 - 1
            })
        });
        let of_frame: Vec<u32> = of_frame.collect();
        let mut grouped = Self { frames, ..self.clone() };
        for node in &mut grouped.stacks {
            // An index out of range stays one.
            node.frame = of_frame.get(node.frame as usize).copied().unwrap_or(u32::MAX);
        }
        grouped
    }

    /// Replaces stacks by one of these names, by its index.
    fn with_leaves(&self, names: &[String], of: impl Fn(&Sample) -> Option<u32>) -> Self {
        let frames = names.iter().map(|name| Frame::new(name, "", FrameKind::Native));
        let nodes = 0..u32::try_from(names.len()).unwrap_or(u32::MAX);
        let stacks = nodes.map(|frame| StackNode { parent: None, frame });
        let mut grouped = self.clone();
        grouped.frames = frames.collect();
        grouped.stacks = stacks.collect();
        for sample in &mut grouped.samples {
            sample.stack = of(sample).unwrap_or(u32::MAX);
        }
        grouped
    }
}

/// Code of the emulator that is of no Erlang module, though its names look like it: OTP has a module `global`.
const JIT_CODE: &str = "the emulator's JIT code";

fn module(frame: &Frame) -> &str {
    let of_name = match frame.kind {
        FrameKind::Erlang if Frame::is_of_jit(&frame.name) => Some(JIT_CODE),
        FrameKind::Erlang => (frame.name.trim_start_matches('$').split_once(':')).map(|it| it.0),
        FrameKind::Java => frame.name.rsplit_once('.').map(|it| it.0),
        _ => None,
    };
    let of_file = Some(frame.module.as_str()).filter(|module| !module.is_empty());
    of_name.or(of_file).unwrap_or(UNKNOWN)
}

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
    pub fn by_wait(&self, by: WaitBy) -> Self {
        let name_of = |wait: &Wait| match by {
            WaitBy::Reason => wait.reason.name().to_owned(),
            WaitBy::Waker => wait.label(),
        };
        let unknown = name_of(&Wait::default());
        let (names, of_wait) = numbered(std::iter::once(unknown).chain(self.waits.iter().map(name_of)));
        self.with_leaves(&names, |sample| of_wait.get(sample.wait.map_or(0, |it| it as usize + 1)).copied())
    }

    /// The profile with a frame at each leaf that says why the time off CPU ended: for views of stacks alone.
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
            let Some(name) = reason.frame().filter(|_| (sample.stack as usize) < self.stacks.len()) else { continue };
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
    use measure::Time;

    use super::*;
    use crate::tests::{row, rows, stored};
    use crate::{Builder, ErlangProcess, Merge, ProfileHeader, Sample};

    fn profile() -> Profile {
        let mut builder = Builder::default();
        let frames = [
            Frame::new("$gen_server2:handle_msg/2", "[jit]", FrameKind::Erlang),
            Frame::new("$rabbit_channel:handle_cast/2", "[jit]", FrameKind::Erlang),
            Frame::new("$gen_server2:loop/8", "[jit]", FrameKind::Erlang),
            Frame::new("memcpy", "libc.so.6", FrameKind::Libc),
            Frame::new("a.b.C.m", "[jit]", FrameKind::Java),
            Frame::new("[unknown]", "", FrameKind::Unknown),
            Frame::new("$erts_beamasm:normal_exit/0", "[jit]", FrameKind::Erlang),
            Frame::new("$global::call_light_bif_shared", "[jit]", FrameKind::Erlang),
        ]
        .map(|frame| builder.frame(&frame));
        for (thread, path, weight) in [
            // One module twice in a stack, with another between.
            ("1_scheduler", &[6, 0, 1, 2][..], 4),
            ("2_scheduler", &[6, 0, 1, 7, 3], 3),
            ("1_aux", &[4], 2),
            ("1_aux", &[5], 1),
        ] {
            let thread = builder.thread(thread);
            let node = |parent, at: &usize| Some(builder.node(parent, frames[*at]));
            let stack = path.iter().fold(None, node).unwrap();
            builder.sample(Sample { weight, stack, thread, complete: true, ..Sample::default() });
        }
        builder.profile
    }

    #[test]
    fn modules_count_once_in_a_stack_and_threads_of_a_group_are_one() {
        assert_eq!(rows(&profile().by_thread_group()), [row("scheduler", 7, 7), row("aux", 3, 3)]);
        assert_eq!(
            rows(&profile().by_module()),
            [
                row("gen_server2", 4, 7),
                row("libc.so.6", 3, 3),
                row("a.b.C", 2, 2),
                row("[unknown]", 1, 1),
                row("rabbit_channel", 0, 7),
                // `$global::…` were functions of OTP's module of that name.
                row("the emulator's JIT code", 0, 7),
            ]
        );
    }

    #[test]
    fn functions_are_the_same_in_another_version_of_their_library() {
        let mut profile = profile();
        let known = profile.knows_modules();
        assert!(known);
        assert_eq!(profile.by_function(known).frames[3].module, "libc.so");
        profile.frames[5].name = "memcpy".into();
        let counted = |known| profile.by_function(known).functions().len();
        assert_eq!((counted(true), counted(false)), (8, 7));
    }

    #[test]
    fn classes_and_functions_of_the_language_are_rows_with_the_shares_of_their_tables() {
        let profile = profile();
        let classes = profile.class_shares().into_iter().map(|it| row(it.class.name(), it.weight, it.weight));
        let functions = profile.language_functions().into_iter().map(|it| row(&it.function, it.weight, it.weight));
        for (grouped, mut wanted) in [
            (profile.by_class(), classes.collect::<Vec<_>>()),
            (profile.by_language_function().unwrap(), functions.collect()),
        ] {
            let mut found = rows(&grouped);
            found.sort();
            wanted.sort();
            assert_eq!(found, wanted);
        }
        assert_eq!(Profile::default().by_language_function(), None);
    }

    #[test]
    fn work_is_a_row_for_each_name() {
        let mut profile = profile();
        let queue =
            |id: &str| ErlangProcess { role: "queue".into(), name: "orders".into(), ..ErlangProcess::unnamed(id) };
        // The same queue twice, as after a restart.
        profile.processes = vec![queue("<0.1.0>"), queue("<0.2.0>")];
        for (sample, process) in profile.samples.iter_mut().zip([Some(0), Some(1), None]) {
            sample.process = process;
        }
        assert_eq!(
            rows(&profile.by_work(WorkBy::Process)),
            [row("queue orders", 7, 7), row("no Erlang process", 3, 3)]
        );
    }

    fn waiting() -> Profile {
        let mut builder = Builder::default();
        let frame = |name| Frame::new(name, "[kernel]", FrameKind::Kernel);
        let wait = |reason, waker: &str| Wait { reason, waker: waker.into() };
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
            builder.sample(Sample { weight, stack, thread, complete: true, wait, ..Sample::default() });
        }
        builder.profile
    }

    #[test]
    fn times_are_split_by_why_and_by_whom_they_were_ended() {
        let row = |name: &str, weight| row(name, weight, weight);
        let profile = waiting();
        assert!(profile.is_consistent());
        let wanted = [row("unknown", 5), row("thread of the same process", 4), row("timer", 4), row("network", 2)];
        assert_eq!(rows(&profile.by_wait(WaitBy::Reason)), wanted);
        let wanted = [row("[unknown]", 5), row("[timer]", 4), row("a", 3), row("b", 3)];
        assert_eq!(rows(&profile.by_wait(WaitBy::Waker)), wanted);
    }

    #[test]
    fn the_reason_is_the_leaf_where_only_stacks_are_shown_and_changes_no_class() {
        let profile = waiting();
        let with = profile.with_reasons();
        assert!(with.is_consistent());
        let leaves: Vec<_> = with.samples.iter().map(|it| with.stack(it.stack)).collect();
        let leaves: Vec<Vec<&str>> =
            leaves.iter().map(|stack| stack.iter().map(|it| it.name.as_str()).collect()).collect();
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
        assert!(matches!(Profile::default().with_reasons(), Cow::Borrowed(_)));
    }

    #[test]
    fn reasons_are_kept_in_files_and_when_periods_become_one() {
        let mut profile = waiting();
        profile.header = ProfileHeader::new(Time(0), 0);
        profile.header.event = "off-cpu".into();
        profile.header.unit = "nanoseconds".into();
        let reasons = |profile: &Profile| [WaitBy::Reason, WaitBy::Waker].map(|by| rows(&profile.by_wait(by)));
        let wanted = reasons(&profile);
        let (_dir, paths) = stored(&profile);
        for path in paths {
            let read = Profile::open(&path).unwrap();
            assert!(read.is_consistent());
            assert_eq!(reasons(&read), wanted, "{path:?}");
        }
        let mut merge = Merge::default();
        merge.add(profile.clone());
        merge.add(profile);
        let twice = |(name, own, total): (String, u64, u64)| (name, 2 * own, 2 * total);
        let doubled = wanted.map(|rows| rows.into_iter().map(twice).collect::<Vec<_>>());
        assert_eq!(reasons(&merge.finish()), doubled);
    }
}
