//! Who calls whom: stacks of calls with their time.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;

use super::{name, number, rows};
use crate::term::Term;

/// Own cost of a function of the tree in a call of the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeCost {
    /// Index of the function among [`CallTree::nodes`].
    pub node: usize,
    /// Calls of it.
    pub calls: u32,
    /// Nanoseconds on a processor.
    pub running: u64,
    /// Nanoseconds of waiting.
    pub waiting: u64,
}

/// Stacks that came up in short traces, with what each function did on top of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallTree {
    /// Each node has its caller before it.
    pub(super) nodes: Vec<TreeNode>,
}

/// A function below its callers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeNode {
    /// Index of its caller; `None` at the bottom.
    pub caller: Option<usize>,
    /// Its name; of a process that serves its caller's request, what that is, in brackets.
    pub function: String,
    /// Calls that were seen.
    pub calls: u64,
    /// Nanoseconds on a processor, in itself.
    pub running: u64,
    /// Nanoseconds in which its process waited, or waited for a processor, in itself.
    pub waiting: u64,
}

/// Sum of costs of a function, own or with all that it called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accumulated {
    /// Calls that were seen.
    pub calls: u64,
    /// Nanoseconds on a processor.
    pub running: u64,
    /// Nanoseconds of waiting.
    pub waiting: u64,
}

impl CallTree {
    /// The functions, callers before those that they call.
    pub fn nodes(&self) -> &[TreeNode] {
        &self.nodes
    }

    /// The tree with the sums of these costs.
    pub(super) fn with_costs<'a>(&self, costs: impl Iterator<Item = &'a NodeCost>) -> Self {
        let blank = |node: &TreeNode| TreeNode { calls: 0, running: 0, waiting: 0, ..node.clone() };
        let mut nodes: Vec<_> = self.nodes.iter().map(blank).collect();
        for cost in costs {
            let node = &mut nodes[cost.node];
            node.calls += u64::from(cost.calls);
            node.running = node.running.saturating_add(cost.running);
            node.waiting = node.waiting.saturating_add(cost.waiting);
        }
        Self { nodes }
    }

    /// Own cost of each function.
    pub fn own(&self) -> BTreeMap<&str, Accumulated> {
        let mut sums: BTreeMap<&str, Accumulated> = BTreeMap::new();
        for node in &self.nodes {
            let sum = sums.entry(&node.function).or_default();
            sum.calls += node.calls;
            sum.running += node.running;
            sum.waiting += node.waiting;
        }
        sums
    }

    /// Cost of each function with all that it called; recursion counts once.
    pub fn accumulated(&self) -> BTreeMap<&str, Accumulated> {
        let mut sums: BTreeMap<&str, Accumulated> = BTreeMap::new();
        for node in &self.nodes {
            sums.entry(&node.function).or_default().calls += node.calls;
            let mut seen = HashSet::new();
            for above in self.stack(node) {
                if seen.insert(above.function.as_str()) {
                    let sum = sums.entry(&above.function).or_default();
                    sum.running += node.running;
                    sum.waiting += node.waiting;
                }
            }
        }
        sums
    }

    /// Who called a function, and how often, the most frequent first.
    pub fn callers(&self, function: &str) -> Vec<(&str, u64)> {
        let below = self.nodes.iter().filter(|node| node.function == function);
        sorted(below.filter_map(|node| Some((self.caller(node)?.function.as_str(), node.calls))))
    }

    /// Whom a function called, and how often, the most frequent first.
    pub fn callees(&self, function: &str) -> Vec<(&str, u64)> {
        let of = |node: &&TreeNode| self.caller(node).is_some_and(|it| it.function == function);
        let nodes = self.nodes.iter().filter(of);
        sorted(nodes.map(|node| (node.function.as_str(), node.calls)))
    }

    /// Folded stacks: a line each, with microseconds on a processor, and with the waits where asked for.
    pub fn folded(&self, waits: bool) -> String {
        let mut text = String::new();
        for node in &self.nodes {
            let nanos = node.running + if waits { node.waiting } else { 0 };
            if nanos < 1000 {
                continue;
            }
            let mut stack: Vec<_> = self.stack(node).map(|it| it.function.as_str()).collect();
            stack.reverse();
            // Writing into a text cannot fail.
            let _ = writeln!(text, "{} {}", stack.join(";"), nanos / 1000);
        }
        text
    }

    fn caller(&self, node: &TreeNode) -> Option<&TreeNode> {
        self.nodes.get(node.caller?)
    }

    /// The node and its callers, itself first.
    fn stack<'a>(&'a self, node: &'a TreeNode) -> impl Iterator<Item = &'a TreeNode> {
        std::iter::successors(Some(node), |node| self.caller(node))
    }
}

fn sorted<'a>(pairs: impl Iterator<Item = (&'a str, u64)>) -> Vec<(&'a str, u64)> {
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for (name, calls) in pairs {
        *sums.entry(name).or_default() += calls;
    }
    // A call that began before anybody looked took time, and was none.
    let mut sums: Vec<_> = sums.into_iter().filter(|(_, calls)| *calls > 0).collect();
    sums.sort_by_key(|(_, calls)| std::cmp::Reverse(*calls));
    sums
}

/// Reads rows whose callers stand before them.
pub(super) fn read(term: &Term) -> Option<CallTree> {
    let rows = rows(term, |row| match row {
        [id, caller, module, function, arity, calls, running, waiting] => Some((
            number(id)?,
            number(caller)?,
            TreeNode {
                caller: None,
                function: name(module, function, arity)?,
                calls: number(calls)?,
                running: number(running)?,
                waiting: number(waiting)?,
            },
        )),
        _ => None,
    })?;
    linked(rows).map(|nodes| CallTree { nodes })
}

/// Nodes with their callers' numbers, from 1 on; 0 is nobody. Callers come before callees, so there are no circles.
pub(super) fn linked(rows: Vec<(u64, u64, TreeNode)>) -> Option<Vec<TreeNode>> {
    let linked = (1..).zip(rows).map(|(number, (id, caller, node))| {
        let caller = Some(caller).filter(|caller| id == number && *caller < number)?;
        Some(TreeNode { caller: usize::try_from(caller).ok()?.checked_sub(1), ..node })
    });
    linked.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::term::{int, list, text, tuple};

    fn row(id: i64, caller: i64, function: &str, calls: i64, running: i64, waiting: i64) -> Term {
        let names = [text("m"), text(function), int(1)];
        let numbers = [calls, running, waiting].map(int);
        tuple([int(id), int(caller)].into_iter().chain(names).chain(numbers))
    }

    #[test]
    fn trees_know_sums_callers_and_stacks() {
        let tree = read(&list([
            row(1, 0, "a", 2, 1_000_000, 5_000_000),
            row(2, 1, "b", 6, 2_000_000, 0),
            row(3, 2, "a", 1, 4_000_000, 0),
        ]))
        .unwrap();
        let sums = tree.accumulated();
        let a = Accumulated { calls: 3, running: 7_000_000, waiting: 5_000_000 };
        assert_eq!(sums["m:a/1"], a);
        assert_eq!(sums["m:b/1"].running, 6_000_000);
        assert_eq!(tree.callers("m:a/1"), [("m:b/1", 1)]);
        assert_eq!(tree.callees("m:a/1"), [("m:b/1", 6)]);
        assert_eq!(tree.folded(false), "m:a/1 1000\nm:a/1;m:b/1 2000\nm:a/1;m:b/1;m:a/1 4000\n");
        assert!(tree.folded(true).starts_with("m:a/1 6000\n"));
        for wrong in [row(1, 1, "a", 1, 1, 1), row(2, 0, "a", 1, 1, 1)] {
            assert_eq!(read(&list([wrong])), None);
        }
    }
}
