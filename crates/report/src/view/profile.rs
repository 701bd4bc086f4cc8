//! The profile as columns, small enough to embed and quick to add up for any window of time.

use std::collections::HashMap;

use measure::Named;
use serde::Serialize;
use stacks::{Class, EventKind, LanguageFrame, PatternShare, Profile, Sample};

use super::processes::{ProcessView, Processes};
use super::put;
use super::stack_tree::{LineTree, LinesHead, StackTree};
use crate::text;

/// The kind of the frames that stand for a group of threads, after the variants of [`stacks::FrameKind`].
const THREAD: u8 = 7;
/// Sample times are multiples of this: fine enough for any window that a hand can choose.
const TICK_NS: u64 = 100_000;
/// How often the length of a tick is doubled at most: to nearly two minutes.
const MOST_DOUBLINGS: u32 = 20;

/// The part of a profile that travels as JSON; the columns follow it in the binary part.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct ProfileHead {
    /// Sampled event: `cpu`.
    pub event: String,
    /// The kernel's name of it.
    pub kernel_event: String,
    /// Kind of the event.
    pub event_kind: EventKind,
    /// Unit of a sample's weight.
    pub unit: String,
    /// Whether weights are, or may be, sums of samples, each of which counts in tests against chance.
    pub counts_samples: bool,
    /// Nanoseconds of CPU time that a weight of 1 stands for; 0 where it stands for none.
    pub period_ns: u64,
    /// Samples per second of CPU time.
    pub frequency: u32,
    /// Samples that the kernel dropped.
    pub lost: u64,
    /// Share of the frames without a name.
    pub unknown_share: f64,
    /// Share of the stacks that reach their thread's start.
    pub complete_share: f64,
    /// Share of the process's CPU time that the samples cover, in words; empty where that is not known.
    pub covered: String,
    /// How the stacks were unwound, in one line; empty where that is not known.
    pub stacks: String,
    /// Known patterns in the stacks of the whole run, largest share first.
    pub known: Vec<KnownView>,
    /// Notes for its reader.
    pub notes: Vec<String>,
    /// Whether samples carry a time; without, every window holds all of them.
    pub timed: bool,
    /// Sample times are multiples of this many nanoseconds.
    pub tick_ns: u64,
    /// Names of modules.
    pub modules: Vec<String>,
    /// Names of functions and of groups of threads.
    pub names: Vec<String>,
    /// Per name: index into `modules`.
    pub module: Vec<u32>,
    /// Per name: its kind, as the place of its variant in [`stacks::FrameKind`].
    pub kind: Vec<u8>,
    /// Per function, in the order of `names`: 1 for one of Erlang, Java or Go, 2 for the loop of a scheduler, which
    /// nothing above called, else 0; empty where no function is of such a language.
    pub language: Vec<u8>,
    /// Lines of source code; `None` where none is known.
    pub lines: Option<LinesHead>,
    /// The classes that nodes are of, from the broker's own code down to the kernel.
    pub classes: Vec<ClassView>,
    /// The Erlang processes of the node, largest share first; empty where none is known.
    pub processes: Vec<ProcessView>,
    /// Names of threads; empty where samples carry no time.
    pub threads: Vec<String>,
    /// Bytes of the columns.
    pub bytes: usize,
    /// Number of nodes of the tree.
    pub nodes: usize,
    /// Number of samples.
    pub samples: usize,
    /// Whether the columns hold weights; without, each sample weighs 1.
    pub weighted: bool,
}

impl ProfileHead {
    /// Gives the groups of threads other names; they stand among those of functions.
    pub(crate) fn retitle_threads(&mut self, mut title: impl FnMut(&str) -> String) {
        for (name, &kind) in self.names.iter_mut().zip(&self.kind) {
            if kind == THREAD {
                *name = title(name);
            }
        }
    }
}

/// A known pattern.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct KnownView {
    /// Its share, its samples' work and its cure elsewhere, in a sentence.
    pub text: String,
    /// The address where that is written.
    pub source: String,
}

/// A class that samples fall into.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct ClassView {
    /// The class.
    pub class: Class,
    /// Name of the class.
    pub name: &'static str,
    /// Meaning of the class.
    pub meaning: &'static str,
    /// Name of its samples that are in no function of Erlang, Java or Go.
    pub outside: String,
    /// Whether its share is an estimate, for want of symbols.
    pub estimated: bool,
}

/// Encodes a profile: its head, and the columns as variable-length integers (LEB128): per node, in depth-first order,
/// the distance to its parent (0 for a root), per node its frame, per node its class (0 for a root), the tree of lines
/// where they are known ([`LinesHead`]): per node its function's node, the distance to its parent, and its line. Then
/// per sample the ticks since the one before, its leaf (a node of lines where there are any), its weight where not all
/// weigh 1, its process where any is known (0 for none, else the index and 1), and its thread where samples carry a
/// time. The first frame of every stack is its group of threads. Frames at the leaves say why times off CPU ended.
/// Where there are more than `most` samples, those of one stack and thread that lie close together become one.
pub(crate) fn encode(by_line: &Profile, most: usize) -> (ProfileHead, Vec<u8>) {
    let by_line = &*by_line.with_reasons();
    let profile = &by_line.clone().without_lines();
    let mut tables = Tables::new(profile);
    let mut lines = LineTree::of(by_line);
    let processes = Processes::of(profile);
    // Both have the same samples, in the same order.
    let node = |index: u32, sample: &Sample| {
        let function = tables.node(sample.thread, sample.stack)?;
        let Some(lines) = &mut lines else { return Some(function) };
        let stack = by_line.samples.get(index as usize)?.stack;
        let parents = |node: u32| tables.tree.nodes.get(node as usize)?.parent;
        lines.node(stack, function, &parents)
    };
    let mut samples = SampleColumns::of(profile, &processes, node, most);
    let numbers = tables.tree.order_depth_first();
    let of_lines = lines.as_mut().map(LineTree::order_depth_first);
    samples.renumber(of_lines.as_ref().unwrap_or(&numbers));
    let mut bytes = Vec::with_capacity(samples.len() * 4 + tables.tree.nodes.len() * 4);
    tables.put_nodes(&mut bytes);
    let classes = tables.put_classes(&mut bytes);
    let lines = lines.map(|lines| lines.put(&numbers, &mut bytes));
    let timed = profile.samples.iter().any(|s| s.t > 0);
    let has_processes = !processes.views.is_empty();
    let weighted = samples.put(&mut bytes, has_processes, timed);
    let summary = profile.summary(0);
    let estimated = text::estimated_classes(profile.unnamed_machine_share()).map(|it| format!("classes are {it}"));
    let notes = profile.notes.iter().cloned().chain(samples.note(profile.header.counts_samples())).chain(estimated);
    let head = ProfileHead {
        event: profile.header.name(),
        kernel_event: profile.header.kernel_event.clone(),
        event_kind: profile.header.kind,
        unit: profile.header.unit.clone(),
        counts_samples: profile.header.counts_samples(),
        period_ns: profile.header.period_ns,
        frequency: profile.header.frequency,
        lost: profile.lost,
        unknown_share: summary.unknown_share,
        complete_share: summary.complete_share,
        covered: text::covered(&summary).unwrap_or_default(),
        stacks: text::stacks(&summary).unwrap_or_default(),
        known: profile.known_patterns().into_iter().map(known).collect(),
        notes: notes.collect(),
        timed,
        tick_ns: samples.tick_ns,
        classes,
        lines,
        processes: processes.views,
        threads: if timed { profile.threads.clone() } else { Vec::new() },
        bytes: bytes.len(),
        nodes: tables.tree.nodes.len(),
        samples: samples.len(),
        weighted,
        ..tables.head
    };
    (head, bytes)
}

fn known(of: PatternShare) -> KnownView {
    KnownView { text: text::known_pattern(&of), source: of.source }
}

/// Node of the tree.
struct TreeFrame {
    frame: u32,
    /// `None` for a thread.
    class: Option<Class>,
}

/// The tree with threads as its first row, restricted to used nodes.
struct Tables<'a> {
    profile: &'a Profile,
    /// Per thread the frame of its group.
    groups: Vec<u32>,
    /// Its roots are the groups.
    tree: StackTree<TreeFrame>,
    /// Per stack of the profile.
    classes: Vec<Class>,
    head: ProfileHead,
}

impl<'a> Tables<'a> {
    fn new(profile: &'a Profile) -> Self {
        let mut head = ProfileHead::default();
        let mut modules: HashMap<&str, u32> = HashMap::new();
        for frame in &profile.frames {
            let next = modules.len() as u32;
            let module = *modules.entry(&frame.module).or_insert(next);
            if module == next {
                head.modules.push(frame.module.clone());
            }
            head.names.push(frame.name.clone());
            head.module.push(module);
            head.kind.push(frame.kind as u8);
        }
        let effects = profile.language_frames();
        if effects.contains(&LanguageFrame::Function) {
            head.language = effects.into_iter().map(|effect| effect as u8).collect();
        }
        let none = head.modules.len() as u32;
        head.modules.push(String::new());
        let first_group = head.names.len() as u32;
        let groups = profile.thread_groups();
        for name in groups.names {
            head.names.push(name);
            head.module.push(none);
            head.kind.push(THREAD);
        }
        let groups = groups.of_thread.iter().map(|group| first_group + group);
        Self { profile, groups: groups.collect(), tree: StackTree::new(), classes: profile.classes(), head }
    }

    /// The node of a stack below its thread's group; `None` where an index is out of range.
    fn node(&mut self, thread: u32, stack: u32) -> Option<u32> {
        let frame = *self.groups.get(thread as usize)?;
        let group = TreeFrame { frame, class: None };
        let classes = &self.classes;
        self.tree.node(self.profile, stack, frame, group, |id, node| {
            Some(TreeFrame { frame: node.frame, class: classes.get(id as usize).copied() })
        })
    }

    /// Appends the parents of all nodes, and their frames.
    fn put_nodes(&self, bytes: &mut Vec<u8>) {
        self.tree.put_parents(bytes);
        for node in &self.tree.nodes {
            put(bytes, u64::from(node.of.frame));
        }
    }

    /// Appends the class of every node; the classes that there are.
    fn put_classes(&self, bytes: &mut Vec<u8>) -> Vec<ClassView> {
        let mut classes = Class::ALL.to_vec();
        let nodes = &self.tree.nodes;
        classes.retain(|class| nodes.iter().any(|node| node.of.class == Some(*class)));
        for node in nodes {
            let index = classes.iter().position(|class| node.of.class == Some(*class));
            put(bytes, index.unwrap_or(0) as u64);
        }
        let unnamed = self.profile.unnamed_machine_share();
        let views = classes.into_iter().map(|class| ClassView {
            class,
            name: class.name(),
            meaning: class.meaning(),
            outside: self.profile.class_label(class),
            estimated: text::is_estimated(class, unnamed),
        });
        views.collect()
    }
}

/// A sample; the order of its fields is that of the columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct PageSample {
    tick: u64,
    leaf: u32,
    process: u64,
    thread: u32,
    weight: u64,
}

impl PageSample {
    /// Whether stack, thread, process and tick are the same.
    fn joins(&self, other: &Self) -> bool {
        let key = |it: &Self| (it.tick, it.leaf, it.process, it.thread);
        key(self) == key(other)
    }
}

/// The samples in the order of time.
struct SampleColumns {
    samples: Vec<PageSample>,
    /// Sample times are multiples of this many nanoseconds.
    tick_ns: u64,
}

impl SampleColumns {
    /// The samples of a profile whose leaf `node` knows, by the sample's index and itself. Beyond `most`, ticks get
    /// longer, and samples that differ only in weight are joined; sums stay the same.
    fn of(
        profile: &Profile,
        processes: &Processes,
        mut node: impl FnMut(u32, &Sample) -> Option<u32>,
        most: usize,
    ) -> Self {
        let mut order: Vec<u32> = (0..profile.samples.len() as u32).collect();
        order.sort_by_key(|&i| profile.samples.get(i as usize).map(|s| s.t));
        let in_order = order.iter().filter_map(|&i| Some((i, profile.samples.get(i as usize)?)));
        let known = in_order.filter_map(|(i, s)| {
            Some(PageSample {
                tick: s.t / TICK_NS,
                leaf: node(i, s)?,
                process: processes.number(s.process),
                thread: s.thread,
                weight: s.weight,
            })
        });
        let mut columns = Self { samples: known.collect(), tick_ns: TICK_NS };
        let mut doublings = 0;
        while columns.samples.len() > most && doublings < MOST_DOUBLINGS {
            columns.double_ticks();
            doublings += 1;
        }
        columns
    }

    /// Makes ticks twice as long and joins samples that become equal.
    fn double_ticks(&mut self) {
        self.tick_ns *= 2;
        for sample in &mut self.samples {
            sample.tick /= 2;
        }
        self.samples.sort_unstable();
        self.samples.dedup_by(|next, kept| {
            let same = next.joins(kept);
            if same {
                kept.weight = kept.weight.saturating_add(next.weight);
            }
            same
        });
    }

    /// Gives leaves the numbers that stand at their old ones.
    fn renumber(&mut self, numbers: &[u32]) {
        for sample in &mut self.samples {
            let known = numbers.get(sample.leaf as usize);
            sample.leaf = known.copied().unwrap_or(sample.leaf);
        }
    }

    fn len(&self) -> usize {
        self.samples.len()
    }

    /// Note on the times for a reader. Joined samples of a step, where weights count no samples, make chance larger.
    fn note(&self, counts_samples: bool) -> Option<String> {
        let step = measure::Nanos(self.tick_ns);
        let joined = match counts_samples {
            true => "",
            false => "; samples of a step are joined, so that fewer differences to the rest are called proven",
        };
        (self.tick_ns > TICK_NS)
            .then(|| format!("times of this event are shown in steps of {step}, which keeps the page small{joined}"))
    }

    /// Appends the columns; whether that of the weights is among them.
    fn put(&self, bytes: &mut Vec<u8>, processes: bool, threads: bool) -> bool {
        let mut before = 0;
        for sample in &self.samples {
            put(bytes, sample.tick - before);
            before = sample.tick;
        }
        let weighted = self.samples.iter().any(|s| s.weight != 1);
        let column = |bytes: &mut Vec<u8>, value: fn(&PageSample) -> u64| {
            for sample in &self.samples {
                put(bytes, value(sample));
            }
        };
        column(bytes, |s| u64::from(s.leaf));
        if weighted {
            column(bytes, |s| s.weight);
        }
        if processes {
            column(bytes, |s| s.process);
        }
        if threads {
            column(bytes, |s| u64::from(s.thread));
        }
        weighted
    }
}

#[cfg(test)]
mod tests {
    use stacks::{Frame, FrameKind, SourceLine, StackNode};

    use super::*;

    #[test]
    fn threads_of_a_group_share_a_root_and_samples_are_sorted_by_time() {
        let sample = |t, stack, thread| Sample { t, weight: 1, stack, thread, complete: true, ..Sample::default() };
        let profile = Profile {
            frames: vec![
                Frame::new("$a:b/1", "[jit]", FrameKind::Erlang),
                Frame::new("memcpy", "libc.so.6", FrameKind::Libc),
            ],
            stacks: vec![StackNode { parent: None, frame: 0 }, StackNode { parent: Some(0), frame: 1 }],
            threads: vec!["1_scheduler".into(), "2_scheduler".into(), "1_aux".into()],
            samples: vec![sample(900_000, 1, 0), sample(200_000, 0, 1), sample(300_000, 9, 0)],
            ..Profile::default()
        };
        let (head, bytes) = encode(&profile, usize::MAX);
        // The group's root, the first stack below it, its child; the broken sample is left out.
        assert_eq!((head.nodes, head.samples), (3, 2));
        let distances_and_frames = [0, 1, 1, 2, 0, 1];
        let classes = [0, 0, 1];
        let (ticks, leaves, threads) = ([2, 7], [1, 2], [1, 0]);
        assert_eq!(bytes, [&distances_and_frames[..], &classes, &ticks, &leaves, &threads].concat());
        assert_eq!((head.bytes, head.threads.len()), (bytes.len(), 3));
        assert_eq!(head.classes.iter().map(|it| it.name).collect::<Vec<_>>(), ["Erlang code", "built-in functions"]);
        assert!(head.classes.iter().all(|it| !it.estimated));
        assert_eq!(head.kind.get(2), Some(&THREAD));
        assert_eq!(head.language, [1, 0]);
        assert!(head.timed);
    }

    #[test]
    fn nodes_stand_depth_first_and_leaves_follow_them() {
        let frame = |name: &str| Frame::new(name, "m", FrameKind::Native);
        let node = |parent, frame| StackNode { parent, frame };
        let sample = |t, stack| Sample { t, weight: 1, stack, complete: true, ..Sample::default() };
        // a;b, then a;c, then a;b;d: the last one's node stands before that of c.
        let profile = Profile {
            frames: ["a", "b", "c", "d"].map(frame).to_vec(),
            stacks: vec![node(None, 0), node(Some(0), 1), node(Some(0), 2), node(Some(1), 3)],
            threads: vec!["t".into()],
            samples: vec![sample(0, 1), sample(1_000_000, 2), sample(2_000_000, 3)],
            ..Profile::default()
        };
        let (head, bytes) = encode(&profile, usize::MAX);
        assert_eq!((head.nodes, head.samples), (5, 3));
        let (distances, frames, leaves) = (&bytes[..5], &bytes[5..10], &bytes[18..21]);
        assert_eq!(distances, [0, 1, 1, 1, 3]);
        assert_eq!(frames, [4, 0, 1, 3, 2]);
        assert_eq!(leaves, [2, 4, 3]);
    }

    #[test]
    fn lines_are_a_tree_beside_that_of_functions() {
        let line = |number| {
            let file = "src/a.erl".to_owned();
            let frame = Frame::new("$a:f/0", "[jit]", FrameKind::Erlang);
            frame.at_line(Some(SourceLine { file, number }))
        };
        let node = |parent, frame| StackNode { parent, frame };
        let sample = |t, stack, thread| Sample { t, weight: 1, stack, thread, complete: true, ..Sample::default() };
        // f at line 7 and f at line 9, each with the same leaf, and one of them in another thread.
        let profile = Profile {
            frames: vec![line(7), line(9), Frame::new("eq", "b", FrameKind::Runtime)],
            stacks: vec![node(None, 0), node(Some(0), 2), node(None, 1), node(Some(2), 2)],
            threads: vec!["t".into(), "u".into()],
            samples: vec![sample(0, 1, 0), sample(1_000_000, 3, 0), sample(2_000_000, 3, 1)],
            ..Profile::default()
        };
        let (head, bytes) = encode(&profile, usize::MAX);
        // A group's root, f and eq; twice.
        assert_eq!(head.nodes, 6);
        let lines = head.lines.unwrap();
        assert_eq!((lines.files, lines.nodes), (vec![String::new(), "a.erl".into()], 8));
        assert_eq!((lines.file, lines.number), (vec![0, 1, 1], vec![0, 7, 9]));
        let (tree, columns) = (&bytes[3 * 6..][..3 * 8], &bytes[3 * 6 + 3 * 8..]);
        // The nodes 0, 1, 2, 1, 2, 3, 4, 5 of the functions' tree.
        assert_eq!(tree[..8], [0, 0, 0, 3, 0, 0, 0, 0]);
        assert_eq!((&tree[8..16], lines.bytes), (&[0, 1, 1, 3, 1, 0, 1, 1][..], 16));
        assert_eq!(tree[16..], [0, 1, 0, 2, 0, 0, 2, 0]);
        assert_eq!(columns[3..6], [2, 4, 7], "leaves");
    }

    #[test]
    fn too_many_samples_share_longer_ticks_and_keep_their_sum() {
        let sample = |t, stack, thread| Sample { t, weight: 10, stack, thread, complete: true, ..Sample::default() };
        // Two stacks in turn, one of them by two threads, every 100 us.
        let samples = (0..800u32).map(|i| sample(u64::from(i) * TICK_NS, i % 2, i % 4));
        let profile = Profile { samples: samples.collect(), ..Profile::default() };
        let none = Processes::of(&profile);
        let columns = |most| SampleColumns::of(&profile, &none, |_, sample| Some(sample.stack), most);
        let all = columns(800);
        assert_eq!((all.len(), all.tick_ns, all.note(true)), (800, TICK_NS, None));
        let some = columns(100);
        assert_eq!((some.len(), some.tick_ns), (100, 32 * TICK_NS));
        assert!(some.note(true).is_some_and(|note| note.ends_with("3.20 ms, which keeps the page small")));
        let sum: u64 = some.samples.iter().map(|s| s.weight).sum();
        assert_eq!(sum, 8_000);
        assert!(some.samples.is_sorted_by_key(|s| s.tick));
        // Four threads are four samples in every tick, however long it is.
        assert_eq!(columns(1).len(), 4);
    }
}
