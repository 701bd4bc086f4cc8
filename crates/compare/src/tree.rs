//! Questions that stand in a tree, such as what every frame of a flame graph costs: which of many changes are proven,
//! where what lies below a frame is asked about only when something changed there. *Did anything change here or below?*
//! is a group, by Simes over all frames in it, so that changes which cancel out are seen; *did the whole of this frame
//! change?* is a leaf of it. Both are decided from the root down by DAGGER (Ramdas, Chen, Wainwright and Jordan, "A
//! sequential algorithm for false discovery rate control on directed acyclic graphs", Biometrika 106, 2019), which of a
//! tree without depth is the method of Benjamini and Hochberg, and of any tree that of Lynch and Guo (2016). The
//! root is a group of everything: where nothing changed, the chance that anything is called changed is the level.
//!
//! A frame that hands (nearly) all of its cost to one callee asks the same as that callee; such a chain is one
//! question, which its last frame answers.

/// A frame of the tree.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TreeQuestion {
    /// The frame above it, a smaller index; `None` for a root.
    pub parent: Option<usize>,
    /// Its cost on both sides together, with all that is below it.
    pub cost: f64,
    /// Probability of a change as large as its own where there is none.
    pub p: f64,
}

/// The decision on a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TreeAnswer {
    /// Something changed here or below.
    pub asked: bool,
    /// The whole of it changed.
    pub proven: bool,
    /// The level that it was held against: of what is not proven, the one that one more change would have had to reach.
    pub level: f64,
}

/// The share of a frame's cost from which on a callee is asked the same.
const SAME_QUESTION: f64 = 0.9;

/// Decides all frames at a level: of those that are called changed, at most this share is expected to be none.
pub fn decide_tree(questions: &[TreeQuestion], level: f64) -> Vec<TreeAnswer> {
    let chains = Chains::of(questions);
    let groups = Groups::of(&chains);
    let decided = groups.decide(level);
    let proven = decided.of_leaf.iter().filter(|it| it.is_some()).count();
    let one_more = level * (proven + 1).min(chains.p.len()) as f64 / chains.p.len().max(1) as f64;
    let frames = questions.iter().zip(&chains.of_frame);
    frames
        .map(|(question, &chain)| {
            let reached = decided.of_leaf.get(chain).copied().flatten().filter(|it| question.p <= *it);
            TreeAnswer {
                asked: decided.opened.get(chain) == Some(&true),
                proven: reached.is_some(),
                level: reached.unwrap_or(one_more),
            }
        })
        .collect()
}

/// Frames that ask the same, parents first.
#[derive(Debug, Default)]
struct Chains {
    of_frame: Vec<usize>,
    parent: Vec<Option<usize>>,
    /// The probability of the last frame of each.
    p: Vec<f64>,
}

impl Chains {
    fn of(questions: &[TreeQuestion]) -> Self {
        let mut chains = Self::default();
        for question in questions {
            let above = question.parent.filter(|it| *it < chains.of_frame.len());
            let chain = above.and_then(|it| chains.of_frame.get(it).copied());
            let of_parent = above.and_then(|it| questions.get(it));
            let p = if question.p.is_finite() { question.p } else { 1.0 };
            let same = of_parent.is_some_and(|it| question.cost >= it.cost * SAME_QUESTION);
            match chain.filter(|_| same) {
                Some(chain) => {
                    chains.of_frame.push(chain);
                    if let Some(last) = chains.p.get_mut(chain) {
                        *last = p;
                    }
                }
                None => {
                    chains.of_frame.push(chains.p.len());
                    chains.parent.push(chain);
                    chains.p.push(p);
                }
            }
        }
        chains
    }
}

/// Chains with what is below them.
struct Groups<'c> {
    chains: &'c Chains,
    size: Vec<usize>,
    depth: Vec<usize>,
    p: Vec<f64>,
    /// That of all of them.
    whole: f64,
}

#[derive(Debug)]
struct Decided {
    opened: Vec<bool>,
    /// The level that the chain's own question reached; `None` where it did not.
    of_leaf: Vec<Option<f64>>,
}

/// A group, or the leaf of one.
#[derive(Clone, Copy)]
struct Asked {
    chain: usize,
    is_leaf: bool,
    p: f64,
    /// Leaves, and nodes, from it down.
    leaves: usize,
    nodes: usize,
}

impl<'c> Groups<'c> {
    fn of(chains: &'c Chains) -> Self {
        let count = chains.p.len();
        let mut size = vec![1; count];
        let mut below: Vec<Vec<f64>> = chains.p.iter().map(|p| vec![*p]).collect();
        let mut p = vec![1.0; count];
        let mut all = Vec::new();
        for chain in (0..count).rev() {
            let mut own = below.get_mut(chain).map(std::mem::take).unwrap_or_default();
            if let Some(p) = p.get_mut(chain) {
                *p = simes(&mut own);
            }
            let own_size = size.get(chain).copied().unwrap_or(1);
            match chains.parent.get(chain).copied().flatten() {
                Some(parent) => {
                    if let (Some(size), Some(below)) = (size.get_mut(parent), below.get_mut(parent)) {
                        *size += own_size;
                        below.append(&mut own);
                    }
                }
                None => all.append(&mut own),
            }
        }
        let mut depth: Vec<usize> = Vec::with_capacity(count);
        for parent in &chains.parent {
            let above = parent.and_then(|it| depth.get(it));
            depth.push(above.map_or(1, |it| it + 1));
        }
        Self { chains, size, depth, p, whole: simes(&mut all) }
    }

    /// The questions at a depth below open groups: groups of that depth, and leaves of groups of the depth above.
    fn asked_at(&self, depth: usize, opened: &[bool]) -> Vec<Asked> {
        let is_open = |chain: Option<usize>| chain.is_none_or(|chain| opened.get(chain) == Some(&true));
        let each = self.chains.p.iter().zip(&self.chains.parent).enumerate();
        let mut asked = Vec::new();
        for (chain, (own, parent)) in each {
            let size = self.size.get(chain).copied().unwrap_or(1);
            let at = self.depth.get(chain).copied().unwrap_or(1);
            if at == depth && is_open(*parent) {
                let p = self.p.get(chain).copied().unwrap_or(1.0);
                // A group of one chain is that chain's question. Else every chain is a leaf, and at most every one a
                // group.
                let is_leaf = size == 1;
                let nodes = if is_leaf { 1 } else { 2 * size };
                asked.push(Asked { chain, is_leaf, p, leaves: size, nodes });
            }
            if at + 1 == depth && size > 1 && is_open(Some(chain)) {
                asked.push(Asked { chain, is_leaf: true, p: *own, leaves: 1, nodes: 1 });
            }
        }
        asked
    }

    fn decide(&self, level: f64) -> Decided {
        let count = self.chains.p.len();
        let mut decided = Decided { opened: vec![false; count], of_leaf: vec![None; count] };
        if count == 0 || self.whole > level {
            return decided;
        }
        let deepest = self.depth.iter().copied().max().unwrap_or(0);
        // The group of everything is not counted, so that a tree without depth is decided as a list is.
        let mut rejected = 0;
        for depth in 1..=deepest + 1 {
            let asked = self.asked_at(depth, &decided.opened);
            let threshold = |it: &Asked, here: usize| {
                let (leaves, nodes) = (it.leaves as f64, it.nodes as f64);
                let part = leaves / count as f64;
                level * part * (nodes + (here + rejected) as f64 - 1.0) / nodes
            };
            let here = (1..=asked.len())
                .rev()
                .find(|here| asked.iter().filter(|it| it.p <= threshold(it, *here)).count() >= *here);
            let Some(here) = here else { continue };
            for it in asked.iter().filter(|it| it.p <= threshold(it, here)) {
                if let Some(opened) = decided.opened.get_mut(it.chain) {
                    *opened = true;
                }
                if let (true, Some(leaf)) = (it.is_leaf, decided.of_leaf.get_mut(it.chain)) {
                    *leaf = Some(threshold(it, here));
                }
            }
            rejected += here;
        }
        decided
    }
}

/// The probability that nothing of all this changed, by Simes (1986).
fn simes(p: &mut [f64]) -> f64 {
    p.sort_by(f64::total_cmp);
    let n = p.len() as f64;
    let ranked = (1_u32..).zip(p.iter());
    ranked.fold(1.0, |least: f64, (rank, p)| least.min(p * n / f64::from(rank)))
}
