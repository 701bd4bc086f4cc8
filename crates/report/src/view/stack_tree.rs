//! A tree of used stacks, finally in depth-first order, which takes least room and is walked fastest.

use std::collections::HashMap;

use stacks::{Profile, StackNode};

use super::varint::put;

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
        Self {
            nodes: Vec::new(),
            known: HashMap::new(),
            roots: HashMap::new(),
        }
    }

    /// The node of a stack below the root of this number, whose content is `top`; `of` gives each frame's content, from
    /// the leaf on. `None` where an index is out of range.
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
            let Some(id) = at else {
                break self.root(root, top);
            };
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
        let ordered = ordered.into_iter().map(|(_, node)| TreeNode {
            parent: node.parent.map(|it| numbers[it as usize]),
            ..node
        });
        self.nodes = ordered.collect();
        numbers
    }
}
