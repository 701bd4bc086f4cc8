//! The lines of source code that stacks stand at: a second tree, whose nodes are lines of functions.

use std::collections::HashMap;

use serde::Serialize;
use stacks::Profile;

use super::depth_first::depth_first;
use super::varint::put;

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

/// A node of the tree of lines.
struct LineNode {
    parent: Option<u32>,
    /// Index of the line, of those that a head has.
    line: u32,
    /// The node of the function's stack.
    of: u32,
}

/// The tree of lines, holding only what samples use.
pub(super) struct LineTree<'p> {
    profile: &'p Profile,
    nodes: Vec<LineNode>,
    /// Node of the function's root, and stack of the profile, to node here.
    known: HashMap<(u32, u32), u32>,
    roots: HashMap<u32, u32>,
    /// Per frame of the profile its line.
    of_frame: Vec<u32>,
    head: LinesHead,
}

impl<'p> LineTree<'p> {
    /// Of a profile by line; `None` where it knows none.
    pub(super) fn of(profile: &'p Profile) -> Option<Self> {
        profile.knows_lines().then(|| Self::new(profile))
    }

    fn new(profile: &'p Profile) -> Self {
        let mut head = LinesHead {
            nodes: 0,
            bytes: 0,
            files: vec![String::new()],
            file: vec![0],
            number: vec![0],
        };
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
        Self {
            profile,
            nodes: Vec::new(),
            known: HashMap::new(),
            roots: HashMap::new(),
            of_frame,
            head,
        }
    }

    /// The node of a stack whose functions are the node `of` of the other tree, the `parents` of whose nodes are known.
    pub(super) fn node(
        &mut self,
        stack: u32,
        of: u32,
        parents: &dyn Fn(u32) -> Option<u32>,
    ) -> Option<u32> {
        let root = std::iter::successors(Some(of), |node| parents(*node)).last()?;
        let mut missing = Vec::new();
        let (mut at, mut function) = (Some(stack), of);
        let mut above = loop {
            let Some(id) = at else {
                break self.root(root);
            };
            if let Some(&node) = self.known.get(&(root, id)) {
                break node;
            }
            let node = self.profile.stacks.get(id as usize)?;
            let line = *self.of_frame.get(node.frame as usize)?;
            missing.push((id, line, function));
            function = parents(function)?;
            // Parents come first in every profile; anything else would be a loop.
            at = node.parent.filter(|&parent| parent < id);
        };
        for (id, line, of) in missing.into_iter().rev() {
            let node = self.nodes.len() as u32;
            self.nodes.push(LineNode {
                parent: Some(above),
                line,
                of,
            });
            self.known.insert((root, id), node);
            above = node;
        }
        Some(above)
    }

    fn root(&mut self, of: u32) -> u32 {
        let next = self.nodes.len() as u32;
        let root = *self.roots.entry(of).or_insert(next);
        if root == next {
            let (parent, line) = (None, 0);
            self.nodes.push(LineNode { parent, line, of });
        }
        root
    }

    /// Puts the nodes into depth-first order; the new numbers of the old ones.
    pub(super) fn order_depth_first(&mut self) -> Vec<u32> {
        let (nodes, numbers) =
            depth_first(std::mem::take(&mut self.nodes), |node| &mut node.parent);
        self.nodes = nodes;
        numbers
    }

    /// Appends, per node, how far its node of the other tree, by its number there, lies from that of the node before it
    /// (as [`signed`]), then the part that the head knows the length of: per node the distance to its parent (0 for a
    /// root), and its line.
    pub(super) fn put(mut self, numbers: &[u32], bytes: &mut Vec<u8>) -> LinesHead {
        let mut before = -1;
        for node in &self.nodes {
            let number = numbers.get(node.of as usize).map_or(0, |it| i64::from(*it));
            // Mostly the next one.
            put(bytes, signed(number - before - 1));
            before = number;
        }
        let start = bytes.len();
        for (i, node) in self.nodes.iter().enumerate() {
            put(bytes, node.parent.map_or(0, |it| i as u64 - u64::from(it)));
        }
        for node in &self.nodes {
            put(bytes, u64::from(node.line));
        }
        self.head.nodes = self.nodes.len();
        self.head.bytes = bytes.len() - start;
        self.head
    }
}

/// A small number for a small distance, whichever way it goes: 0, -1, 1, -2 are 0 to 3.
const fn signed(value: i64) -> u64 {
    (value.unsigned_abs() << 1) - (value < 0) as u64
}
