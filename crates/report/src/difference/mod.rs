//! Differences of two profiles: shares of functions, modules, threads or classes, of their stacks, and chance.

use std::collections::{BTreeMap, HashMap};

use compare::{Amount, PartOf, ShareDifference, share_difference};
use stacks::{FunctionCount, Profile};

/// One of two profiles.
#[derive(Clone, Copy, Debug)]
pub struct DifferenceSide<'a> {
    /// The profile, or the part of it that is compared.
    pub profile: &'a Profile,
    /// Name for people: the run and its window.
    pub name: &'a str,
}

fn amount(profile: &Profile) -> Amount {
    let squares = profile.squares();
    Amount { weight: profile.total_weight() as f64, squares: squares.profile.total_weight() as f64 * squares.scale }
}

/// Shares of a function in two profiles.
#[derive(Clone, Debug, PartialEq)]
pub struct DifferenceRow {
    /// Its name.
    pub function: String,
    /// Its module; empty where that is not known.
    pub module: String,
    /// Shares with it at the leaf.
    pub own: ShareDifference,
    /// Shares with it anywhere.
    pub total: ShareDifference,
    /// Weight in each with it at the leaf.
    pub weights: [u64; 2],
}

/// Name and module.
type Key = (String, String);
/// Weights of a function, and their squares: at the leaf, and anywhere.
type Counted = ([u64; 2], [Amount; 2]);

/// All functions of two profiles, by name and module, largest own share first: those of the second, then the others.
pub fn differences(a: &Profile, b: &Profile) -> Vec<DifferenceRow> {
    let (wholes, [mut of_a, of_b]) = ([a, b].map(amount), [a, b].map(counted));
    let mut in_a: BTreeMap<Key, Counted> = of_a.drain(..).collect();
    let row = |(function, module): Key, a: Counted, b: Counted| {
        let of = |at: fn(&[Amount; 2]) -> Amount| {
            let part = |side: &Counted, whole| PartOf { part: at(&side.1), whole };
            share_difference(part(&a, wholes[0]), part(&b, wholes[1]))
        };
        DifferenceRow {
            function,
            module,
            own: of(|[own, _]| *own),
            total: of(|[_, total]| *total),
            weights: [a.0[0], b.0[0]],
        }
    };
    let mut rows = Vec::new();
    for (key, counted) in of_b {
        let other = in_a.remove(&key).unwrap_or_default();
        rows.push(row(key, other, counted));
    }
    let mut alone: Vec<(Key, Counted)> = in_a.into_iter().collect();
    alone.sort_by_key(|(_, (weights, _))| std::cmp::Reverse(*weights));
    rows.extend(alone.into_iter().map(|(key, counted)| row(key, counted, Counted::default())));
    rows
}

/// The functions of a profile in the order of their own weight.
fn counted(profile: &Profile) -> Vec<(Key, Counted)> {
    let squares = profile.squares();
    let scale = squares.scale;
    let squared = squares.profile.functions().into_iter();
    let squared: BTreeMap<u32, FunctionCount> = squared.map(|it| (it.frame, it)).collect();
    let of = |it: FunctionCount| {
        let (own, total) = squared.get(&it.frame).map_or((0, 0), |it| (it.self_weight, it.total_weight));
        let amount = |weight: u64, square: u64| Amount { weight: weight as f64, squares: square as f64 * scale };
        let weights = [it.self_weight, it.total_weight];
        let amounts = [amount(it.self_weight, own), amount(it.total_weight, total)];
        ((it.share.function, it.share.module), (weights, amounts))
    };
    profile.functions().into_iter().map(of).collect()
}

/// The smallest change of a share (0 to 1) that two profiles can show; `None` where they can show none.
pub fn smallest_change(share: f64, a: &Profile, b: &Profile) -> Option<f64> {
    compare::smallest_change(share, amount(a), amount(b))
}

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
                self.nodes.push(Node { parent, name, amounts: [Amount::default(); 2] });
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
        let of = |part, whole| PartOf { part, whole };
        self.nodes.iter().map(|node| share_difference(of(node.amounts[0], a), of(node.amounts[1], b))).collect()
    }
}

fn add(to: &mut [Amount; 2], side: usize, amount: Amount) {
    if let Some(sum) = to.get_mut(side) {
        sum.weight += amount.weight;
        sum.squares += amount.squares;
    }
}

/// A profile of folded stacks, `thread;root;…;leaf`, each with its weight.
#[cfg(test)]
pub(crate) fn of_stacks(stacks: &[(&str, u64)]) -> Profile {
    use stacks::{Builder, Frame, FrameKind, Sample};

    let mut builder = Builder::default();
    for (line, weight) in stacks {
        let (thread, frames) = line.split_once(';').expect("a thread");
        let thread = builder.thread(thread);
        let mut stack = None;
        for name in frames.split(';') {
            let frame = builder.frame(&Frame::new(name, "m", FrameKind::Native));
            stack = Some(builder.node(stack, frame));
        }
        let stack = stack.expect("a frame");
        builder.sample(Sample { weight: *weight, stack, thread, complete: true, ..Sample::default() });
    }
    builder.profile.header.unit = "samples".into();
    builder.profile.header.event = "cpu".into();
    builder.profile
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row<'r>(rows: &'r [DifferenceRow], name: &str) -> &'r DifferenceRow {
        let found = rows.iter().find(|row| row.function == name);
        found.unwrap_or_else(|| panic!("no {name}"))
    }

    #[test]
    fn shares_are_of_each_sides_own_samples() {
        let a = of_stacks(&[("t;main;f", 600), ("t;main;g", 400)]);
        let b = of_stacks(&[("t;main;f", 3_000), ("t;main;h", 7_000)]);
        let rows = differences(&a, &b);
        assert_eq!(rows.iter().map(|row| row.function.as_str()).collect::<Vec<&str>>(), ["h", "f", "main", "g"]);
        let f = row(&rows, "f");
        assert_eq!((f.own.a, f.own.b, f.weights), (0.6, 0.3, [600, 3_000]));
        assert!(f.own.proven && (f.own.change() + 0.3).abs() < 1e-9);
        assert_eq!((row(&rows, "h").own.a, row(&rows, "g").own.b), (0.0, 0.0));
        let main = row(&rows, "main");
        assert_eq!((main.own.change(), main.total.change(), main.total.b), (0.0, 0.0, 1.0));
        let changes: f64 = rows.iter().map(|row| row.own.change()).sum();
        assert!(changes.abs() < 1e-9, "{changes}");
    }

    #[test]
    fn a_single_long_wait_is_no_proof_and_many_are() {
        let waits = |f: &[u64]| {
            let g = std::iter::repeat_n(("t;g", 1_000_000), 1_000);
            let mut profile = of_stacks(&g.chain(f.iter().map(|&ns| ("t;f", ns))).collect::<Vec<_>>());
            profile.header.unit = "nanoseconds".into();
            profile
        };
        let of = |waited: &[u64]| row(&differences(&waits(&[]), &waits(waited)), "f").own;
        let one = of(&[300_000_000]);
        assert!(one.b > 0.2 && !one.proven, "{one:?}");
        assert!(of(&[2_000_000; 150]).proven);
    }
}
