//! Folding: the one place where weights of samples are added up, by stack, or by thread group and stack.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::LazyLock;

use super::frames::UNKNOWN;
use super::model::{Profile, Sample};
use super::pattern::{Pattern, rules};
use super::tree::numbered;

/// Placeholder for a thread without a name.
pub const NO_THREAD: &str = "[thread]";

/// The threads of a profile by the built-in rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadGroups {
    /// Each group's name, in the order of its first thread.
    pub names: Vec<String>,
    /// For every thread the index of its group.
    pub of_thread: Vec<u32>,
}

/// How much of a profile folding keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detail {
    /// Stacks with less weight in and below them count for their callers.
    pub least_weight: u64,
    /// Frames of a stack; what lies deeper becomes one frame.
    pub most_frames: u32,
}

impl Detail {
    /// Every stack, whole.
    pub const ALL: Self = Self { least_weight: 0, most_frames: u32::MAX };
}

/// The names that folded lines are made of.
#[derive(Clone, Debug, Default)]
pub struct FoldedNames {
    /// Of [`Profile::frames`], in their order.
    pub frames: Vec<String>,
    /// Of [`ThreadGroups::names`], in their order; `None` where lines begin with the root frame.
    pub groups: Option<Vec<String>>,
    /// Of the frame that stands for all that lie deeper than [`Detail::most_frames`].
    pub deeper: &'static str,
}

/// Stack as far as folding keeps it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Kept {
    /// The last node that is kept; `None` where only the thread is.
    leaf: Option<u32>,
    /// Deeper frames were left out.
    cut: bool,
}

impl Profile {
    /// The threads by the groups that they belong to.
    pub fn thread_groups(&self) -> ThreadGroups {
        let rules = ThreadRules::built_in();
        let (names, of_thread) = numbered(self.threads.iter().map(|thread| rules.group(thread)));
        ThreadGroups { names, of_thread }
    }

    /// The profile as lines of folded text, `group;root;…;leaf`, each with its weight, in the order
    /// of groups and stacks, which depends on nothing but the profile.
    pub fn folded_lines(
        &self,
        groups: &ThreadGroups,
        detail: Detail,
        names: &FoldedNames,
    ) -> impl Iterator<Item = (String, u64)> {
        let kept = self.kept(detail);
        let sums = self.sums(|sample| {
            let group = groups.of_thread.get(sample.thread as usize).copied();
            let kept = kept.get(sample.stack as usize).copied();
            (group.unwrap_or(u32::MAX), kept.unwrap_or_default())
        });
        let mut path = Vec::new();
        sums.into_iter().map(move |((group, kept), weight)| {
            let mut line = String::new();
            let mut push = |field: &str| {
                line.push_str(if line.is_empty() { "" } else { ";" });
                line.push_str(field);
            };
            if let Some(groups) = &names.groups {
                push(groups.get(group as usize).map_or(NO_THREAD, String::as_str));
            }
            path.clear();
            if let Some(leaf) = kept.leaf {
                self.path_into(leaf, &mut path);
            }
            for &frame in path.iter().rev() {
                let name = names.frames.get(frame as usize);
                push(name.map_or(UNKNOWN, String::as_str));
            }
            if kept.cut {
                push(names.deeper);
            }
            (line, weight)
        })
    }

    /// For every stack the remaining node, or the nearest above it with weight enough and not too deep.
    fn kept(&self, detail: Detail) -> Vec<Kept> {
        let weights = self.node_weights();
        // With each its depth, counted from 1.
        let mut all: Vec<(Kept, u32)> = Vec::with_capacity(self.stacks.len());
        for ((index, node), weight) in (0u32..).zip(&self.stacks).zip(weights.subtree) {
            let parent = node.parent.and_then(|p| all.get(p as usize).copied());
            let (above, depth) = parent.unwrap_or_default();
            let depth = depth.saturating_add(1);
            let kept = if weight < detail.least_weight {
                above
            } else if depth > detail.most_frames {
                Kept { cut: true, ..above }
            } else {
                Kept { leaf: Some(index), cut: false }
            };
            all.push((kept, depth));
        }
        all.into_iter().map(|(kept, _)| kept).collect()
    }

    /// The weights of samples added up by a key, in its order.
    pub(super) fn sums<K: Copy + Hash + Ord>(&self, key: impl Fn(&Sample) -> K) -> Vec<(K, u64)> {
        let mut sums: HashMap<K, u64> = HashMap::new();
        for sample in &self.samples {
            let sum = sums.entry(key(sample)).or_insert(0);
            *sum = sum.saturating_add(sample.weight);
        }
        let mut sums: Vec<_> = sums.into_iter().collect();
        sums.sort_unstable_by_key(|(key, _)| *key);
        sums
    }

    /// Weight per stack: as leaf, and with all that it called.
    pub(super) fn node_weights(&self) -> NodeWeights {
        self.node_weights_of(|_| true)
    }

    pub(super) fn node_weights_of(&self, is_wanted: impl Fn(&Sample) -> bool) -> NodeWeights {
        let mut own = vec![0u64; self.stacks.len()];
        let mut sum = 0u64;
        for sample in self.samples.iter().filter(|it| is_wanted(it)) {
            if let Some(weight) = own.get_mut(sample.stack as usize) {
                *weight = weight.saturating_add(sample.weight);
            }
            sum = sum.saturating_add(sample.weight);
        }
        let mut subtree = own.clone();
        for (i, node) in self.stacks.iter().enumerate().rev() {
            let weight = subtree.get(i).copied().unwrap_or(0);
            let parent = node.parent.map(|p| p as usize).filter(|&p| p < i);
            if let Some(parent) = parent.and_then(|p| subtree.get_mut(p)) {
                *parent = parent.saturating_add(weight);
            }
        }
        NodeWeights { own, subtree, sum }
    }
}

pub(super) struct NodeWeights {
    pub(super) own: Vec<u64>,
    pub(super) subtree: Vec<u64>,
    pub(super) sum: u64,
}

const BUILT_IN: &str = include_str!("thread-rules.txt");

/// Which threads count as one: rules are data (`thread-rules.txt`), not code.
///
/// A rule is one line, `PATTERN -> GROUP`. In a pattern `<n>` stands for one or more digits, `<*>` for anything (as
/// little as will do), and every other character for itself; `<*>` in the group stands for the match of the pattern's
/// first `<*>`. The first rule that matches the whole name decides; names that no rule matches are their own group.
#[derive(Debug, Default)]
pub(super) struct ThreadRules(Vec<(Pattern, String)>);

impl ThreadRules {
    /// The rules that all outputs use.
    pub(super) fn built_in() -> &'static Self {
        // A test parses the built-in text, so the fallback is never taken.
        static RULES: LazyLock<ThreadRules> = LazyLock::new(|| ThreadRules::parse(BUILT_IN).unwrap_or_default());
        &RULES
    }

    fn parse(text: &str) -> Result<Self, String> {
        let rule = |line: &str| {
            let (pattern, group) = line.split_once("->")?;
            let pattern = Some(pattern.trim()).filter(|pattern| !pattern.is_empty())?;
            Some((Pattern::new(pattern), group.trim().to_owned()))
        };
        rules(text, rule).map(Self)
    }

    fn group(&self, name: &str) -> String {
        let group = self.0.iter().find_map(|(pattern, group)| Some(group.replace("<*>", pattern.captured(name)?)));
        group.unwrap_or_else(|| name.to_owned())
    }

    /// Whether a rule matches this name, or makes it of others.
    pub(super) fn know(&self, name: &str) -> bool {
        let knows = |(pattern, group): &(Pattern, String)| group == name || pattern.captured(name).is_some();
        self.0.iter().any(knows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_rules_are_well_formed_and_merge_what_belongs_together() {
        ThreadRules::parse(BUILT_IN).expect("built-in rules");
        for [names, group] in testkit::table(include_str!("tests/groups.txt")) {
            for name in names.split('|') {
                assert_eq!(ThreadRules::built_in().group(name), group, "{name}");
            }
        }
        for own in ["erts_smsg_disp", "tokio-runtime-w", "beam.smp", ""] {
            assert_eq!(ThreadRules::built_in().group(own), own);
        }
    }

    #[test]
    fn a_line_that_is_no_rule_is_named() {
        assert_eq!(ThreadRules::parse("a -> b\nnonsense").unwrap_err(), "nonsense");
    }
}
