//! Plays experiments on trees of frames whose costs depend on each other, as those of real profiles do.

use crate::order::Draw;
use crate::{TreeAnswer, TreeQuestion, decide_tree, paired, sign_flip};

/// Pairs of an experiment, and samples of a run.
const PAIRS: usize = 8;
const SAMPLES: f64 = 20_000.0;

struct Played {
    parent: Option<usize>,
    own: f64,
}

/// A tree like a broker's: a few threads, chains of single callees, and many small leaves. The shares add up to 1.
fn tree(draw: &mut Draw) -> Vec<Played> {
    let mut tree: Vec<Played> = Vec::new();
    for _ in 0..4 {
        tree.push(Played { parent: None, own: 0.0 });
    }
    while tree.len() < 240 {
        // Mostly below what came last, so that it gets deep.
        let back = match draw.next() % 3 {
            0 => draw.next() as usize % tree.len(),
            _ => draw.next() as usize % tree.len().min(4),
        };
        let own = 0.001 + 0.02 * (draw.normal() / 2.0).exp() / 4.0;
        tree.push(Played {
            parent: Some(tree.len() - 1 - back),
            own: if draw.next().is_multiple_of(4) { 0.0 } else { own },
        });
    }
    let sum: f64 = tree.iter().map(|it| it.own).sum();
    for frame in &mut tree {
        frame.own /= sum;
    }
    tree
}

/// Costs of frames in a run of a broker at 1 or so, with noise that all, neighbours, and samples have.
fn run(draw: &mut Draw, tree: &[Played], change: &[f64]) -> Vec<f64> {
    let machine = 1.0 + 0.03 * draw.normal();
    let mut neighbours = 0.0;
    let mut costs: Vec<f64> = Vec::with_capacity(tree.len());
    for (at, frame) in tree.iter().enumerate() {
        if at % 12 == 0 {
            neighbours = 0.02 * draw.normal();
        }
        let own = frame.own + change[at];
        let sampling = (own / SAMPLES).sqrt() * draw.normal();
        costs.push(own * machine * (1.0 + neighbours) + sampling);
    }
    totals(tree, costs)
}

/// With all that is below each frame.
fn totals(tree: &[Played], mut costs: Vec<f64>) -> Vec<f64> {
    for at in (0..tree.len()).rev() {
        if let Some(parent) = tree[at].parent {
            costs[parent] += costs[at];
        }
    }
    costs
}

fn decide(draw: &mut Draw, tree: &[Played], change: &[f64]) -> Vec<TreeAnswer> {
    let none = vec![0.0; tree.len()];
    let pairs: Vec<[Vec<f64>; 2]> = (0..PAIRS).map(|_| [run(draw, tree, &none), run(draw, tree, change)]).collect();
    let questions: Vec<TreeQuestion> = (0..tree.len())
        .map(|at| {
            let differences: Vec<f64> = pairs.iter().map(|[a, b]| b[at] - a[at]).collect();
            let cost = pairs.iter().map(|[a, b]| a[at] + b[at]).sum();
            let guard = sign_flip(&differences).unwrap();
            let p = paired(&differences).unwrap().p;
            TreeQuestion { parent: tree[at].parent, cost, p: if guard <= 0.1 { p } else { 1.0 } }
        })
        .collect();
    decide_tree(&questions, 0.05)
}

fn leaf(tree: &[Played], share: f64) -> usize {
    let is_leaf = |at: &usize| tree.iter().all(|it| it.parent != Some(*at));
    let leaves = (0..tree.len()).filter(is_leaf);
    let apart = |at: &usize| (tree[*at].own - share).abs();
    leaves.min_by(|a, b| apart(a).total_cmp(&apart(b))).expect("a leaf")
}

#[test]
fn where_nothing_changed_a_frame_is_coloured_as_rarely_as_the_level_says() {
    let mut draw = Draw::new(11);
    let experiments = 400;
    let any = (0..experiments).filter(|_| {
        let tree = tree(&mut draw);
        let none = vec![0.0; tree.len()];
        decide(&mut draw, &tree, &none).iter().any(|it| it.proven)
    });
    let any = any.count() as f64 / f64::from(experiments);
    assert!(any <= 0.07, "{any}");
}

#[test]
fn a_change_of_one_leaf_is_found_and_little_else_is_coloured() {
    let mut draw = Draw::new(12);
    let experiments = 200;
    let (mut found, mut wrong) = (0, 0.0);
    for _ in 0..experiments {
        let tree = tree(&mut draw);
        // A twentieth of all CPU goes on top of a leaf of one per cent.
        let changed = leaf(&tree, 0.01);
        let mut change = vec![0.0; tree.len()];
        change[changed] = 0.05;
        let truth = totals(&tree, change.clone());
        let answers = decide(&mut draw, &tree, &change);
        found += u32::from(answers[changed].proven);
        let proven = answers.iter().zip(&truth).filter(|(it, _)| it.proven);
        let (all, false_ones) =
            proven.fold((0, 0), |(all, wrong), (_, truth)| (all + 1, wrong + u32::from(*truth == 0.0)));
        wrong += f64::from(false_ones) / f64::from(all.max(1));
    }
    let (found, wrong) = (f64::from(found) / f64::from(experiments), wrong / f64::from(experiments));
    assert!(found >= 0.95, "{found}");
    assert!(wrong <= 0.07, "{wrong}");
}

#[test]
fn two_changes_that_cancel_out_are_both_found() {
    let mut draw = Draw::new(13);
    let experiments = 100;
    let (mut both, mut roots) = (0, 0);
    for _ in 0..experiments {
        let tree = tree(&mut draw);
        let dearer = leaf(&tree, 0.01);
        let cheaper = leaf(&tree, 0.03);
        let mut change = vec![0.0; tree.len()];
        change[dearer] = tree[cheaper].own * 0.9;
        change[cheaper] = -tree[cheaper].own * 0.9;
        let answers = decide(&mut draw, &tree, &change);
        both += u32::from(answers[dearer].proven && answers[cheaper].proven);
        roots += u32::from(answers.iter().take(4).any(|it| it.asked));
    }
    let both = f64::from(both) / f64::from(experiments);
    assert!(both >= 0.8, "{both}");
    assert!(roots >= 95, "what opens them is no change of theirs: {roots}");
}

fn question(parent: Option<usize>, cost: f64, p: f64) -> TreeQuestion {
    TreeQuestion { parent, cost, p }
}

#[test]
fn a_chain_is_one_question_and_nothing_is_decided_below_a_group_in_which_nothing_changed() {
    // The second root has one frame that would pass alone, beside many that did not change.
    let mut questions = vec![question(None, 100.0, 1e-9), question(None, 100.0, 0.5)];
    questions.extend((0..40).map(|_| question(Some(1), 2.0, 0.6)));
    questions[2].p = 0.01;
    let answers = decide_tree(&questions, 0.05);
    assert!(answers[0].proven);
    assert!(!answers[1].asked && !answers[2].asked && !answers[2].proven);
    let questions = [question(None, 100.0, 0.9), question(Some(0), 99.0, 1e-8), question(Some(1), 98.0, 1e-9)];
    let answers = decide_tree(&questions, 0.05);
    assert_eq!(answers.iter().map(|it| it.proven).collect::<Vec<bool>>(), [false, true, true]);
    assert!(answers.iter().all(|it| it.asked && it.level == 0.05));
}

#[test]
fn a_tree_without_depth_is_decided_by_benjamini_and_hochberg_and_nothing_is_no_change() {
    let p = [0.001, 0.012, 0.014, 0.2, 0.9];
    let questions: Vec<TreeQuestion> = p.iter().map(|p| question(None, 1.0, *p)).collect();
    let proven: Vec<bool> = decide_tree(&questions, 0.05).iter().map(|it| it.proven).collect();
    let flat: Vec<bool> = crate::benjamini_hochberg(&p).iter().map(|p| *p <= 0.05).collect();
    assert_eq!(proven, flat);
    assert!(decide_tree(&[], 0.05).is_empty());
    let answers = decide_tree(&[question(None, 0.0, f64::NAN)], 0.05);
    assert!(!answers[0].proven && !answers[0].asked);
    // A parent that does not come first is none.
    assert!(decide_tree(&[question(Some(7), 1.0, 1e-9), question(Some(0), 0.1, 0.5)], 0.05)[0].proven);
}
