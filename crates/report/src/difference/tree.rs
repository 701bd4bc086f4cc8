//! The stacks of two profiles as one tree.

use std::collections::HashMap;

use compare::{Amount, PartOf, ShareDifference, share_difference};

/// A stack, as its leaf and the stack that called it.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// The caller, an index that is smaller than this node's own; `None` for a root.
    pub(crate) parent: Option<usize>,
    /// Index into [`DifferenceTree::names`].
    pub(crate) name: usize,
    /// Weight in each profile, with all that it called.
    amounts: [Amount; 2],
}

/// The stacks of two profiles, parents first.
#[derive(Clone, Debug, Default)]
pub(crate) struct DifferenceTree {
    pub(crate) nodes: Vec<Node>,
    pub(crate) names: Vec<String>,
    /// Weight of all samples.
    wholes: [Amount; 2],
    known: HashMap<(Option<usize>, usize), usize>,
    names_known: HashMap<String, usize>,
}

impl DifferenceTree {
    /// Adds a folded stack with its weight in one of the profiles (0 or 1).
    pub(crate) fn add(&mut self, side: usize, line: &str, amount: Amount) {
        add(&mut self.wholes, side, amount);
        let mut parent = None;
        for name in line.split(';') {
            let name = self.name(name);
            let next = self.nodes.len();
            let at = *self.known.entry((parent, name)).or_insert(next);
            if at == next {
                self.nodes.push(Node {
                    parent,
                    name,
                    amounts: [Amount::default(); 2],
                });
            }
            if let Some(node) = self.nodes.get_mut(at) {
                add(&mut node.amounts, side, amount);
            }
            parent = Some(at);
        }
    }

    fn name(&mut self, name: &str) -> usize {
        if let Some(&known) = self.names_known.get(name) {
            return known;
        }
        let next = self.names.len();
        self.names.push(name.to_owned());
        self.names_known.insert(name.to_owned(), next);
        next
    }

    /// Shares of each node in both profiles.
    pub(crate) fn differences(&self) -> Vec<ShareDifference> {
        let [a, b] = self.wholes;
        let nodes = self.nodes.iter();
        nodes
            .map(|node| {
                let [part_a, part_b] = node.amounts;
                let of = |part, whole| PartOf { part, whole };
                share_difference(of(part_a, a), of(part_b, b))
            })
            .collect()
    }
}

fn add(to: &mut [Amount; 2], side: usize, amount: Amount) {
    if let Some(sum) = to.get_mut(side) {
        sum.weight += amount.weight;
        sum.squares += amount.squares;
    }
}
