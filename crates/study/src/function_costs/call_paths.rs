//! Call paths of many runs side by side, and which of them cost more or less on one side.

use std::collections::HashMap;

use archive::{ComparedFrame, ComparedName, ComparedStacks, CostChange};
use compare::{TreeQuestion, decide_tree};
use stacks::{ShareName, ShareTree};

use super::renamed::RunCosts;
use super::{Test, Tested, WHOLE};

/// Share of both sides' CPU from which on a frame is asked about and drawn, whatever changed.
const LEAST_SHARE: f64 = 0.001;
/// Frames that are asked about at most, the dearest first: more than anybody reads, and a picture of less than 3 MB.
const MOST_FRAMES: usize = 3_000;

/// Costs of both sides' call paths, and which changes are proven. `None` where there is none.
pub(super) fn compare_stacks(a: &[RunCosts], b: &[RunCosts], broker: CostChange, test: Test) -> Option<ComparedStacks> {
    let mut merged = Merged::default();
    for run in a.iter().chain(b) {
        merged.add(&run.of.stacks, run.broker);
    }
    let brokers: f64 = a.iter().chain(b).map(|run| run.broker).sum();
    merged.keep_dear(brokers * LEAST_SHARE);
    let change = |node: &MergedNode| {
        let mut costs = node.costs.clone();
        costs.resize(a.len() + b.len(), 0.0);
        let (of_a, of_b) = costs.split_at(a.len());
        test.change(of_a, of_b)
    };
    let tested: Option<Vec<Tested>> = merged.nodes.iter().map(change).collect();
    let tested = tested.filter(|it| !it.is_empty())?;
    let question = |(node, tested): (&MergedNode, &Tested)| TreeQuestion {
        parent: node.parent.map(|it| it as usize),
        cost: tested.cost.a + tested.cost.b,
        p: tested.p(),
    };
    let questions: Vec<TreeQuestion> = merged.nodes.iter().zip(&tested).map(question).collect();
    let answers = decide_tree(&questions, test.level);
    let frames = merged.nodes.iter().zip(tested.iter().zip(answers));
    let of_runs: Vec<f64> = a.iter().chain(b).map(|run| run.broker).collect();
    let frames = frames.map(|(node, (tested, answer))| {
        let is_whole = node.is_whole(&of_runs);
        let proven = if is_whole { broker.proven } else { answer.proven };
        let (low, high) = match is_whole {
            true => broker.interval,
            false => tested.difference.decided_interval(answer.level, answer.proven),
        };
        ComparedFrame {
            parent: node.parent,
            name: node.name,
            a: short(tested.cost.a),
            b: short(tested.cost.b),
            interval: (short(low), short(high)),
            asked: answer.asked,
            proven,
            visible: tested.visible(answer.level).map(short),
        }
    });
    let name = |name: ShareName| ComparedName { function: name.function, module: name.module };
    Some(ComparedStacks {
        schema: ComparedStacks::SCHEMA.to_owned(),
        broker,
        frames: frames.collect(),
        names: merged.names.into_iter().map(name).collect(),
        level: test.level,
        least_share: LEAST_SHARE,
    })
}

/// Nanoseconds with as many digits as anybody reads.
fn short(ns: f64) -> f64 {
    (ns * 1_000.0).round() / 1_000.0
}

#[derive(Default)]
struct Merged {
    names: Vec<ShareName>,
    known_names: HashMap<ShareName, u32>,
    nodes: Vec<MergedNode>,
    known: HashMap<(Option<u32>, u32), u32>,
    runs: usize,
}

struct MergedNode {
    parent: Option<u32>,
    name: u32,
    /// Its cost in each run; later runs are not known yet, and one that does not have it counts 0.
    costs: Vec<f64>,
}

impl MergedNode {
    fn sum(&self) -> f64 {
        self.costs.iter().sum()
    }

    /// Whether it is the whole broker in every run.
    fn is_whole(&self, brokers: &[f64]) -> bool {
        let mut costs = self.costs.iter().zip(brokers);
        self.costs.len() == brokers.len() && costs.all(|(cost, of)| *cost >= WHOLE * of)
    }
}

impl Merged {
    /// Adds a run whose broker costs so much.
    fn add(&mut self, tree: &ShareTree, broker: f64) {
        let run = self.runs;
        self.runs += 1;
        let names: Vec<u32> = tree.names.iter().map(|name| self.name(name)).collect();
        let mut numbers: Vec<u32> = Vec::with_capacity(tree.nodes.len());
        for node in &tree.nodes {
            let parent = node.parent.and_then(|it| numbers.get(it as usize).copied());
            let name = names.get(node.name as usize).copied().unwrap_or(u32::MAX);
            let next = self.nodes.len() as u32;
            let number = *self.known.entry((parent, name)).or_insert(next);
            if number == next {
                self.nodes.push(MergedNode { parent, name, costs: Vec::new() });
            }
            if let Some(node_here) = self.nodes.get_mut(number as usize) {
                node_here.costs.resize(run + 1, 0.0);
                if let Some(cost) = node_here.costs.last_mut() {
                    *cost += node.share * broker;
                }
            }
            numbers.push(number);
        }
    }

    fn name(&mut self, name: &ShareName) -> u32 {
        if let Some(&known) = self.known_names.get(name) {
            return known;
        }
        let next = self.names.len() as u32;
        self.names.push(name.clone());
        self.known_names.insert(name.clone(), next);
        next
    }

    /// Leaves the frames that cost so much in all runs together, and can be drawn; callers come before callees.
    fn keep_dear(&mut self, least: f64) {
        let mut dear: Vec<(usize, f64)> =
            (self.nodes.iter().map(MergedNode::sum)).enumerate().filter(|(_, sum)| *sum >= least).collect();
        // No callee costs more than its caller, and a caller stands before it where both cost the same.
        dear.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        dear.truncate(MOST_FRAMES);
        let mut numbers: HashMap<u32, u32> = HashMap::new();
        let mut all: Vec<Option<MergedNode>> = self.nodes.drain(..).map(Some).collect();
        for (at, _) in dear {
            let Some(mut node) = all.get_mut(at).and_then(Option::take) else { continue };
            let above = node.parent;
            node.parent = above.and_then(|it| numbers.get(&it).copied());
            if above.is_some() && node.parent.is_none() {
                // Rounding made it dearer than its caller, which was cut: a frame without callers would be another one.
                continue;
            }
            numbers.insert(at as u32, self.nodes.len() as u32);
            self.nodes.push(node);
        }
        self.keep_used_names();
    }

    /// Leaves the names of the frames that are left.
    fn keep_used_names(&mut self) {
        let mut used = Vec::new();
        let mut numbers: HashMap<u32, u32> = HashMap::new();
        for node in &mut self.nodes {
            let name = node.name;
            node.name = *numbers.entry(name).or_insert_with(|| {
                used.extend(self.names.get(name as usize).cloned());
                used.len().saturating_sub(1) as u32
            });
        }
        self.names = used;
        self.known_names.clear();
        self.known.clear();
    }
}
