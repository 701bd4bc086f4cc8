//! Stacks of a profile as a tree of shares, small enough to keep those of many runs side by side.

use std::collections::HashMap;

use super::fold::NO_THREAD;
use super::frames::{Frame, FrameKind};
use super::model::Profile;

/// Frames that may follow themselves as a group and are one: a function that calls itself, also by way of others.
const LONGEST_GROUP: usize = 4;
/// Rows of a tree: what lies deeper belongs to the last of them.
const MOST_ROWS: u32 = 250;

/// Stacks with their shares of a profile's samples. Groups of threads are the first row where threads have names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ShareTree {
    /// Functions and groups of threads, each once.
    pub names: Vec<ShareName>,
    /// Parents first, and dearer ones before cheaper ones.
    pub nodes: Vec<ShareNode>,
}

/// Name of a row of shares.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ShareName {
    /// The function, or the group of threads.
    pub function: String,
    /// The file that it is of; empty of a group of threads.
    pub module: String,
    /// Kind of code; `None` of a group of threads.
    pub kind: Option<FrameKind>,
}

/// A frame below its callers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShareNode {
    /// The caller, an index that is smaller than its own.
    pub parent: Option<u32>,
    /// Index into [`ShareTree::names`].
    pub name: u32,
    /// Share of the samples (0 to 1), with all that it called.
    pub share: f64,
}

/// How much of a profile a tree keeps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShareDetail {
    /// Nodes below this share are left out; their callers keep what they cost.
    pub least: f64,
    /// Nodes at most, the dearest of all.
    pub most: usize,
}

impl Profile {
    /// The stacks as shares. Frames that follow themselves, alone or as a group, stand once.
    pub fn share_tree(&self, detail: ShareDetail) -> ShareTree {
        let mut growing = Growing::of(self);
        let sums = self.sums(|sample| (sample.thread, sample.stack));
        let mut all = 0.0;
        for ((thread, stack), weight) in sums {
            let weight = weight as f64;
            all += weight;
            if let Some(id) = growing.node(thread, stack)
                && let Some(node) = growing.nodes.get_mut(id as usize)
            {
                node.weight += weight;
            }
        }
        growing.finish(all, detail)
    }

    /// Keeps samples whose stacks end before their thread's start.
    pub fn of_cut_stacks(&self) -> Self {
        let mut cut = self.clone();
        cut.samples.retain(|sample| !sample.complete);
        cut
    }
}

/// A tree that takes up stacks.
struct Growing<'p> {
    profile: &'p Profile,
    /// For each thread the name of its group; `None` where no thread has a name.
    groups: Option<Vec<u32>>,
    names: Vec<ShareName>,
    nodes: Vec<GrowingNode>,
    below: HashMap<(Option<u32>, u32), u32>,
    /// The node of a stack in a group of threads.
    known: HashMap<(Option<u32>, u32), u32>,
}

#[derive(Clone, Copy)]
struct GrowingNode {
    parent: Option<u32>,
    name: u32,
    depth: u32,
    /// Of the node by itself.
    weight: f64,
}

impl<'p> Growing<'p> {
    fn of(profile: &'p Profile) -> Self {
        let name = |frame: &Frame| ShareName {
            function: frame.name.clone(),
            module: frame.module.clone(),
            kind: Some(frame.kind),
        };
        let mut names: Vec<ShareName> = profile.frames.iter().map(name).collect();
        let groups = profile.has_threads().then(|| {
            let first = names.len() as u32;
            let groups = profile.thread_groups();
            names.extend(groups.names.into_iter().map(|group| ShareName {
                function: if group.is_empty() { NO_THREAD.to_owned() } else { group },
                module: String::new(),
                kind: None,
            }));
            groups.of_thread.iter().map(|group| first + group).collect()
        });
        Self { profile, groups, names, nodes: Vec::new(), below: HashMap::new(), known: HashMap::new() }
    }

    /// The node of a stack; `None` where an index is out of range.
    fn node(&mut self, thread: u32, stack: u32) -> Option<u32> {
        let group = match &self.groups {
            Some(groups) => Some(*groups.get(thread as usize)?),
            None => None,
        };
        let mut missing = Vec::new();
        let mut at = Some(stack);
        let mut above = loop {
            let Some(id) = at else { break group.map(|name| self.child(None, name)) };
            if let Some(&node) = self.known.get(&(group, id)) {
                break Some(node);
            }
            let node = self.profile.stacks.get(id as usize)?;
            missing.push((id, node.frame));
            // Parents come first in every profile; anything else would be a loop.
            at = node.parent.filter(|&parent| parent < id);
        };
        for (id, frame) in missing.into_iter().rev() {
            let node = self.callee(above, frame);
            self.known.insert((group, id), node);
            above = Some(node);
        }
        above
    }

    /// Where a frame stands below its callers: where it ends a group that stood there already, at that group's end.
    fn callee(&mut self, above: Option<u32>, name: u32) -> u32 {
        if let Some(caller) = above
            && let Some(again) = self.repeated(caller, name)
        {
            return again;
        }
        match above.and_then(|it| self.nodes.get(it as usize)) {
            Some(caller) if caller.depth >= MOST_ROWS => above.unwrap_or(0),
            _ => self.child(above, name),
        }
    }

    /// The node at which a group of frames ends that this frame would repeat.
    fn repeated(&self, caller: u32, name: u32) -> Option<u32> {
        let mut path = [(u32::MAX, name); 2 * LONGEST_GROUP];
        let mut length = 1;
        let mut next = Some(caller);
        while let (Some(at), Some(place)) = (next, path.get_mut(length)) {
            let node = self.nodes.get(at as usize)?;
            *place = (at, node.name);
            length += 1;
            next = node.parent;
        }
        let name_at = |at: usize| path.get(at).map(|it| it.1);
        let repeats = (1..=LONGEST_GROUP)
            .find(|group| 2 * group <= length && (0..*group).all(|at| name_at(at) == name_at(at + group)));
        path.get(repeats?).map(|it| it.0)
    }

    fn child(&mut self, parent: Option<u32>, name: u32) -> u32 {
        let next = self.nodes.len() as u32;
        let node = *self.below.entry((parent, name)).or_insert(next);
        if node == next {
            let depth = parent.and_then(|it| self.nodes.get(it as usize)).map_or(1, |it| it.depth + 1);
            self.nodes.push(GrowingNode { parent, name, depth, weight: 0.0 });
        }
        node
    }

    fn finish(mut self, all: f64, detail: ShareDetail) -> ShareTree {
        for at in (0..self.nodes.len()).rev() {
            if let Some(&GrowingNode { parent: Some(parent), weight, .. }) = self.nodes.get(at)
                && let Some(above) = self.nodes.get_mut(parent as usize)
            {
                above.weight += weight;
            }
        }
        let least = detail.least * all;
        let weight = |at: usize| self.nodes.get(at).map_or(0.0, |it| it.weight);
        let mut kept: Vec<usize> =
            (0..self.nodes.len()).filter(|at| weight(*at) > 0.0 && weight(*at) >= least).collect();
        // A caller is no cheaper than what it calls, and stands before it where both cost the same.
        kept.sort_by(|a, b| weight(*b).total_cmp(&weight(*a)).then(a.cmp(b)));
        kept.truncate(detail.most);
        let mut numbers: HashMap<u32, u32> = HashMap::new();
        let (mut names, mut used): (Vec<ShareName>, HashMap<u32, u32>) = Default::default();
        let mut nodes = Vec::with_capacity(kept.len());
        for at in kept {
            let Some(node) = self.nodes.get(at) else { continue };
            numbers.insert(at as u32, nodes.len() as u32);
            let next = names.len() as u32;
            let name = *used.entry(node.name).or_insert_with(|| {
                names.extend(self.names.get(node.name as usize).cloned());
                next
            });
            nodes.push(ShareNode {
                parent: node.parent.and_then(|it| numbers.get(&it).copied()),
                name,
                share: node.weight / all.max(f64::MIN_POSITIVE),
            });
        }
        ShareTree { names, nodes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Builder;

    fn profile(stacks: &[(&str, u64)]) -> Profile {
        let folded: String = stacks.iter().map(|(stack, weight)| format!("{stack} {weight}\n")).collect();
        let (_dir, path) = crate::tests::file("x.folded", folded);
        Profile::open(path).unwrap()
    }

    /// Each node as its path and its share in per cent.
    fn paths(tree: &ShareTree) -> Vec<(String, f64)> {
        let name = |node: &ShareNode| tree.names[node.name as usize].function.clone();
        let mut paths: Vec<(String, f64)> = Vec::new();
        for node in &tree.nodes {
            let path = match node.parent {
                Some(parent) => format!("{};{}", paths[parent as usize].0, name(node)),
                None => name(node),
            };
            paths.push((path, (node.share * 1_000.0).round() / 10.0));
        }
        paths
    }

    const ALL: ShareDetail = ShareDetail { least: 0.0, most: usize::MAX };

    #[test]
    fn dearer_ones_come_first_and_what_is_too_cheap_is_its_callers() {
        let profile = profile(&[("a;b", 60), ("a;c;d", 30), ("e", 9), ("a;c;f", 1)]);
        let all = paths(&profile.share_tree(ALL));
        let path = |name: &str, share| (name.to_owned(), share);
        assert_eq!(all[0], path("a", 91.0));
        assert!(all.contains(&path("a;c", 31.0)) && all.contains(&path("a;c;f", 1.0)));
        let detail = ShareDetail { least: 0.05, most: 4 };
        let kept = paths(&profile.share_tree(detail));
        let expected = [("a", 91.0), ("a;b", 60.0), ("a;c", 31.0), ("a;c;d", 30.0)];
        assert_eq!(kept, expected.map(|(name, share)| path(name, share)));
    }

    #[test]
    fn frames_that_follow_themselves_stand_once() {
        // The first field of folded text is the thread.
        let stacks = [("t;a;a;a;b", 1), ("t;x;y;x;y;z", 1), ("t;a;b;a;b", 2)];
        let profile = profile(&stacks);
        let found = paths(&profile.share_tree(ALL));
        let names: Vec<&str> = found.iter().map(|it| it.0.as_str()).collect();
        assert_eq!(names.len(), 6, "{names:?}");
        for name in ["t", "t;a", "t;a;b", "t;x", "t;x;y", "t;x;y;z"] {
            assert!(names.contains(&name), "{name} in {names:?}");
        }
    }

    #[test]
    fn threads_are_the_first_row_and_cut_stacks_can_be_had_alone() {
        let mut builder = Builder::default();
        let frame = builder.frame(&Frame::new("f", "m", FrameKind::Native));
        let stack = builder.node(None, frame);
        for (thread, complete) in [("1_scheduler", true), ("2_scheduler", false)] {
            let thread = builder.thread(thread);
            builder.sample(crate::Sample { weight: 1, stack, thread, complete, ..crate::Sample::default() });
        }
        let profile = builder.profile;
        let tree = profile.share_tree(ALL);
        assert_eq!(tree.nodes.len(), 2, "{tree:?}");
        assert_eq!(tree.names[0].kind, None);
        assert_eq!(tree.nodes[1].share, 1.0);
        assert_eq!(profile.of_cut_stacks().samples.len(), 1);
        assert!(Profile::default().share_tree(ALL).nodes.is_empty());
    }
}
