//! Trees of used stacks, finally in depth-first order, which takes least room and is walked fastest; and the lines of
//! source code that stacks stand at: a second tree, whose nodes are lines of functions.

use std::collections::HashMap;

use serde::Serialize;
use stacks::{Profile, StackNode};

use super::put;

/// A node and its content.
pub(super) struct TreeNode<T> {
    pub(super) parent: Option<u32>,
    pub(super) of: T,
}

/// The nodes; parents come before their children.
pub(super) struct StackTree<T> {
    pub(super) nodes: Vec<TreeNode<T>>,
    /// Nodes by root and stack of the profile.
    known: HashMap<(u32, u32), u32>,
    roots: HashMap<u32, u32>,
}

impl<T> StackTree<T> {
    pub(super) fn new() -> Self {
        Self { nodes: Vec::new(), known: HashMap::new(), roots: HashMap::new() }
    }

    /// The node of a stack below root `top`; `of` gives each frame's content, from the leaf on. `None` if out of range.
    pub(super) fn node(
        &mut self,
        profile: &Profile,
        stack: u32,
        root: u32,
        top: T,
        mut of: impl FnMut(u32, &StackNode) -> Option<T>,
    ) -> Option<u32> {
        let mut missing = Vec::new();
        let mut at = Some(stack);
        let mut above = loop {
            let Some(id) = at else { break self.root(root, top) };
            if let Some(&node) = self.known.get(&(root, id)) {
                break node;
            }
            let node = profile.stacks.get(id as usize)?;
            missing.push((id, of(id, node)?));
            // Parents come first in every profile; anything else would be a loop.
            at = node.parent.filter(|&parent| parent < id);
        };
        for (id, of) in missing.into_iter().rev() {
            above = self.push(Some(above), of);
            self.known.insert((root, id), above);
        }
        Some(above)
    }

    fn root(&mut self, number: u32, of: T) -> u32 {
        if let Some(&root) = self.roots.get(&number) {
            return root;
        }
        let root = self.push(None, of);
        self.roots.insert(number, root);
        root
    }

    fn push(&mut self, parent: Option<u32>, of: T) -> u32 {
        self.nodes.push(TreeNode { parent, of });
        self.nodes.len() as u32 - 1
    }

    /// Appends of each node how far its parent stands before it; 0 of a root.
    pub(super) fn put_parents(&self, bytes: &mut Vec<u8>) {
        for (i, node) in self.nodes.iter().enumerate() {
            put(bytes, node.parent.map_or(0, |it| i as u64 - u64::from(it)));
        }
    }

    /// Puts the nodes into depth-first order; the new numbers of the old ones.
    pub(super) fn order_depth_first(&mut self) -> Vec<u32> {
        let nodes = std::mem::take(&mut self.nodes);
        // Children come after their parents: sizes add up from the end.
        let mut sizes = vec![1; nodes.len()];
        for (i, node) in nodes.iter().enumerate().rev() {
            if let Some(parent) = node.parent {
                sizes[parent as usize] += sizes[i];
            }
        }
        // Where the next child of a node begins; the last one is of those without a parent.
        let mut next: Vec<u32> = vec![0; nodes.len() + 1];
        let mut numbers = Vec::with_capacity(nodes.len());
        for (i, node) in nodes.iter().enumerate() {
            let parent = node.parent.map_or(nodes.len(), |it| it as usize);
            let number = next[parent];
            next[parent] += sizes[i];
            next[i] = number + 1;
            numbers.push(number);
        }
        let mut ordered: Vec<(u32, TreeNode<T>)> = numbers.iter().copied().zip(nodes).collect();
        ordered.sort_unstable_by_key(|(number, _)| *number);
        let ordered = ordered
            .into_iter()
            .map(|(_, node)| TreeNode { parent: node.parent.map(|it| numbers[it as usize]), ..node });
        self.nodes = ordered.collect();
        numbers
    }
}

/// The lines of a profile; their tree follows in the columns.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct LinesHead {
    /// Number of nodes of the tree of lines.
    pub nodes: usize,
    /// Bytes of the columns that are read when lines are asked for.
    pub bytes: usize,
    /// Names of files, without their folders.
    pub files: Vec<String>,
    /// Per line: index into `files`; the first is of all that has no line.
    pub file: Vec<u32>,
    /// Per line: its number, 0 where it has none.
    pub number: Vec<u32>,
}

/// Node of the tree of lines.
struct TreeLine {
    /// Index of the line, of those that a head has.
    line: u32,
    /// The node of the function's stack.
    function: u32,
}

/// The tree of lines, restricted to used nodes.
pub(super) struct LineTree<'p> {
    profile: &'p Profile,
    /// Its roots are those of the functions.
    tree: StackTree<TreeLine>,
    /// Per frame of the profile its line.
    of_frame: Vec<u32>,
    head: LinesHead,
}

impl<'p> LineTree<'p> {
    /// Tree of a profile's lines; `None` where it knows none.
    pub(super) fn of(profile: &'p Profile) -> Option<Self> {
        profile.knows_lines().then(|| Self::new(profile))
    }

    fn new(profile: &'p Profile) -> Self {
        let mut head = LinesHead { nodes: 0, bytes: 0, files: vec![String::new()], file: vec![0], number: vec![0] };
        let mut files = HashMap::from([("", 0)]);
        let mut lines = HashMap::from([((0, 0), 0)]);
        let mut of_frame = Vec::with_capacity(profile.frames.len());
        for frame in &profile.frames {
            let line = frame.line.as_ref();
            let (name, number) = line.map_or(("", 0), |line| (line.file_name(), line.number));
            let next = head.files.len() as u32;
            let file = *files.entry(name).or_insert(next);
            if file == next {
                head.files.push(name.to_owned());
            }
            let next = head.number.len() as u32;
            let line = *lines.entry((file, number)).or_insert(next);
            if line == next {
                head.file.push(file);
                head.number.push(number);
            }
            of_frame.push(line);
        }
        Self { profile, tree: StackTree::new(), of_frame, head }
    }

    /// The node of a stack whose functions are the node `of` of the other tree, the `parents` of whose nodes are known.
    pub(super) fn node(&mut self, stack: u32, of: u32, parents: &dyn Fn(u32) -> Option<u32>) -> Option<u32> {
        let root = std::iter::successors(Some(of), |node| parents(*node)).last()?;
        let top = TreeLine { line: 0, function: root };
        let (of_frame, mut function) = (&self.of_frame, of);
        self.tree.node(self.profile, stack, root, top, |_, node| {
            let line = *of_frame.get(node.frame as usize)?;
            let of = TreeLine { line, function };
            function = parents(function)?;
            Some(of)
        })
    }

    /// Puts the nodes into depth-first order; the new numbers of the old ones.
    pub(super) fn order_depth_first(&mut self) -> Vec<u32> {
        self.tree.order_depth_first()
    }

    /// Appends, per node, how far its node of the other tree lies from the previous one's (as [`signed`]), then the
    /// part of a length that the head knows: per node the distance to its parent (0 for a root), and its line.
    pub(super) fn put(mut self, numbers: &[u32], bytes: &mut Vec<u8>) -> LinesHead {
        let mut before = -1;
        for node in &self.tree.nodes {
            let number = numbers.get(node.of.function as usize).map_or(0, |it| i64::from(*it));
            // Mostly the next one.
            put(bytes, signed(number - before - 1));
            before = number;
        }
        let start = bytes.len();
        self.tree.put_parents(bytes);
        for node in &self.tree.nodes {
            put(bytes, u64::from(node.of.line));
        }
        self.head.nodes = self.tree.nodes.len();
        self.head.bytes = bytes.len() - start;
        self.head
    }
}

/// A small number for a small distance, whichever way it goes: 0, -1, 1, -2 are 0 to 3.
const fn signed(value: i64) -> u64 {
    (value.unsigned_abs() << 1) - (value < 0) as u64
}
