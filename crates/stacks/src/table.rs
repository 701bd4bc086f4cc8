//! Computed from a profile: the function table and the summary.

use super::classes::LanguageFrame;
use super::fold::NodeWeights;
use super::frames::{Frame, FrameKind};
use super::model::{Profile, Sample, Unwinding};
use super::work::WorkBy;
use crate::summary::{FunctionShare, ProfileSummary};

/// Below this share a function is no headline.
const LEAST_SHARE: f64 = 0.05;
/// Above this share a function is the frame of everything rather than a part of it.
const MOST_SHARE: f64 = 0.5;
/// A function that works for less than this part of its samples, and waits for the rest, burns nothing.
const LEAST_WORK: f64 = 0.5;
const MOST_WORK: usize = 5;
/// Where fewer stacks reach their thread's start, a total share says nothing.
const LEAST_COMPLETE: f64 = 0.5;
/// One row of the function table.
#[derive(Clone, Debug, PartialEq)]
pub struct FunctionCount {
    /// Index into [`Profile::frames`].
    pub frame: u32,
    /// Kind of code.
    pub kind: FrameKind,
    /// Weight of the samples that have it at the leaf.
    pub self_weight: u64,
    /// Weight of the samples that have it anywhere; recursion counts once.
    pub total_weight: u64,
    /// Name, module, and the same two as shares of all samples.
    pub share: FunctionShare,
}

impl Profile {
    /// All functions that occur in a sample, largest self weight first, then largest total, then by name.
    pub fn functions(&self) -> Vec<FunctionCount> {
        let weights = self.node_weights();
        let totals = self.frame_totals(&weights);
        let mut selfs = vec![0u64; self.frames.len()];
        for (node, weight) in self.stacks.iter().zip(&weights.own) {
            if let Some(sum) = selfs.get_mut(node.frame as usize) {
                *sum = sum.saturating_add(*weight);
            }
        }
        let all = weights.sum.max(1) as f64;
        let mut rows: Vec<_> = (0u32..)
            .zip(self.frames.iter().zip(selfs.into_iter().zip(totals)))
            .filter(|(_, (_, (_, total)))| *total > 0)
            .map(|(frame, (f, (self_weight, total_weight)))| FunctionCount {
                frame,
                kind: f.kind,
                self_weight,
                total_weight,
                share: FunctionShare {
                    function: f.name.clone(),
                    module: f.module.clone(),
                    self_share: self_weight as f64 / all,
                    total: total_weight as f64 / all,
                },
            })
            .collect();
        rows.sort_by(|a, b| {
            (b.self_weight, b.total_weight)
                .cmp(&(a.self_weight, a.total_weight))
                .then_with(|| a.share.function.cmp(&b.share.function))
                .then_with(|| a.share.module.cmp(&b.share.module))
        });
        rows
    }

    /// Share of samples in functions of a virtual machine that have no symbol, and count for their caller's class.
    pub fn unnamed_machine_share(&self) -> f64 {
        self.functions().iter().map(|it| it.share.of_unnamed_machine()).sum()
    }

    /// The profile at a glance, with the `top` functions of the largest self share.
    pub fn summary(&self, top: usize) -> ProfileSummary {
        let unknown = self.nodes_with(Frame::is_unknown);
        let has = |nodes: &[bool], s: &Sample| nodes.get(s.stack as usize) == Some(&true);
        let sum = |of: &dyn Fn(&Sample) -> bool| {
            self.samples.iter().filter(|sample| of(sample)).fold(0u64, |sum, sample| sum.saturating_add(sample.weight))
        };
        let all = self.total_weight();
        let share = |of: &dyn Fn(&Sample) -> bool| sum(of) as f64 / all.max(1) as f64;
        let unwound = |by| share(&|sample| sample.unwinding == by);
        let rows = if top > 0 { self.functions() } else { Vec::new() };
        let complete_share = share(&|sample| sample.complete);
        ProfileSummary {
            event: self.header.event.clone(),
            node: self.header.node,
            clock: self.header.kernel_event.clone(),
            frequency: self.header.frequency,
            samples: self.sample_count(),
            unit: self.header.unit.clone(),
            weight: all,
            lost: self.lost,
            unknown_share: share(&|sample| has(&unknown, sample)),
            complete_share,
            copied_share: unwound(Unwinding::StackCopy),
            frame_pointer_share: unwound(Unwinding::FramePointers),
            cpu_share: self.cpu_share,
            copied_bytes: self.copied_bytes / (self.samples.len() as u64).max(1),
            classes: if top > 0 { self.class_shares() } else { Vec::new() },
            known_patterns: if top > 0 { self.known_patterns() } else { Vec::new() },
            work: self.work_shares(WorkBy::Process, top.min(MOST_WORK)),
            headline: self.headline(&rows).filter(|_| complete_share >= LEAST_COMPLETE),
            top: rows.into_iter().take(top).map(|f| f.share).collect(),
            language_functions: match top {
                0 => Vec::new(),
                _ => self.language_functions().into_iter().take(top).collect(),
            },
        }
    }

    /// The share of all samples that have at least one such frame in their stack (0 to 1).
    pub fn share_with(&self, is: impl Fn(&Frame) -> bool) -> f64 {
        let nodes = self.nodes_with(is);
        let with = self.samples.iter().filter(|s| nodes.get(s.stack as usize) == Some(&true));
        let weight = with.fold(0u64, |sum, s| sum.saturating_add(s.weight));
        weight as f64 / self.total_weight().max(1) as f64
    }

    /// The function of the process's own code that has the largest total share without being the frame of
    /// everything, and does not wait for most of it. Where there are functions of a language it is one of these.
    fn headline(&self, rows: &[FunctionCount]) -> Option<FunctionShare> {
        let effects = self.language_frames();
        let is_of_language = |row: &FunctionCount| effects.get(row.frame as usize) == Some(&LanguageFrame::Function);
        let has_language = rows.iter().any(is_of_language);
        let is_own = |row: &FunctionCount| match has_language {
            true => is_of_language(row),
            false => row.kind == FrameKind::Native,
        };
        // What stands in brackets, such as `[near NAME]`, is no name of a function.
        let is_named = |name: &str| !name.starts_with('[');
        // What does most of it itself is no frame of everything, however much it is.
        let is_a_part = |it: &FunctionShare| it.total <= MOST_SHARE || it.self_share > it.total * MOST_SHARE;
        let is_framework = |name: &str| name.starts_with('$') && Frame::own_module(name).is_none();
        let mut named: Vec<_> = rows
            .iter()
            .filter(|&row| {
                is_own(row)
                    && is_named(&row.share.function)
                    && row.share.total >= LEAST_SHARE
                    && is_a_part(&row.share)
                    && !is_framework(&row.share.function)
            })
            .collect();
        if named.is_empty() {
            return None;
        }
        let working = self.working_totals();
        named.retain(|row| {
            let works = working.get(row.frame as usize).copied().unwrap_or(0);
            works as f64 >= row.total_weight as f64 * LEAST_WORK
        });
        let most = named.into_iter().max_by(|a, b| a.share.total.total_cmp(&b.share.total));
        most.map(|row| row.share.clone())
    }

    /// Per frame the weight of the stacks that contain it and neither wait nor choose what runs next.
    fn working_totals(&self) -> Vec<u64> {
        let classes = self.classes();
        let is_work = |it: &Sample| classes.get(it.stack as usize).is_none_or(|class| !class.is_of_idling());
        self.frame_totals(&self.node_weights_of(is_work))
    }

    /// Which stacks have at least one such frame.
    fn nodes_with(&self, is: impl Fn(&Frame) -> bool) -> Vec<bool> {
        self.per_stack(|above, node| above.unwrap_or(false) || self.frames.get(node.frame as usize).is_some_and(&is))
    }

    /// Per frame the weight of the stacks that contain it: the subtrees of its outermost
    /// occurrences, so that recursion counts once. One walk over the tree, whatever its depth.
    fn frame_totals(&self, weights: &NodeWeights) -> Vec<u64> {
        let mut totals = vec![0u64; self.frames.len()];
        let mut on_path = vec![0u32; self.frames.len()];
        let children = Children::of(self);
        let mut open = Vec::new();
        for start in children.roots() {
            open.push(Visit::Enter(start));
            while let Some(visit) = open.pop() {
                let (Visit::Enter(i) | Visit::Leave(i)) = visit;
                let Some(frame) = self.stacks.get(i).map(|n| n.frame as usize) else { continue };
                let (Some(total), Some(depth)) = (totals.get_mut(frame), on_path.get_mut(frame)) else { continue };
                if let Visit::Leave(_) = visit {
                    *depth = depth.saturating_sub(1);
                    continue;
                }
                if *depth == 0 {
                    let weight = weights.subtree.get(i).copied().unwrap_or(0);
                    *total = total.saturating_add(weight);
                }
                *depth = depth.saturating_add(1);
                open.push(Visit::Leave(i));
                open.extend(children.of_node(i).map(Visit::Enter));
            }
        }
        totals
    }
}

enum Visit {
    Enter(usize),
    Leave(usize),
}

/// The tree of stacks from the roots down, as linked siblings.
struct Children {
    first: Vec<Option<usize>>,
    next: Vec<Option<usize>>,
    first_root: Option<usize>,
}

impl Children {
    fn of(profile: &Profile) -> Self {
        let len = profile.stacks.len();
        let mut tree = Self { first: vec![None; len], next: vec![None; len], first_root: None };
        for (i, node) in profile.stacks.iter().enumerate().rev() {
            // A parent that does not come first would be a loop; such a node counts as a root.
            let parent = node.parent.map(|p| p as usize).filter(|&p| p < i);
            let head = parent.and_then(|p| tree.first.get_mut(p)).unwrap_or(&mut tree.first_root);
            let sibling = head.replace(i);
            if let Some(next) = tree.next.get_mut(i) {
                *next = sibling;
            }
        }
        tree
    }

    fn roots(&self) -> impl Iterator<Item = usize> {
        self.siblings(self.first_root)
    }

    fn of_node(&self, i: usize) -> impl Iterator<Item = usize> {
        self.siblings(self.first.get(i).copied().flatten())
    }

    fn siblings(&self, first: Option<usize>) -> impl Iterator<Item = usize> {
        std::iter::successors(first, |&i| self.next.get(i).copied().flatten())
    }
}
