//! The lines of source code that stacks stand at: a second tree, whose nodes are lines of functions.

use std::collections::HashMap;

use serde::Serialize;
use stacks::Profile;

use super::stack_tree::StackTree;
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
            tree: StackTree::new(),
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
        let top = TreeLine {
            line: 0,
            function: root,
        };
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

    /// Appends, per node, how far its node of the other tree, by its number there, lies from that of the node before it
    /// (as [`signed`]), then the part that the head knows the length of: per node the distance to its parent (0 for a
    /// root), and its line.
    pub(super) fn put(mut self, numbers: &[u32], bytes: &mut Vec<u8>) -> LinesHead {
        let mut before = -1;
        for node in &self.tree.nodes {
            let number = numbers
                .get(node.of.function as usize)
                .map_or(0, |it| i64::from(*it));
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
