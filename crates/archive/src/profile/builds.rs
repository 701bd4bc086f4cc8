//! Whether two profiles are of the same builds of files, so that functions without a name of their own are called alike.

use std::collections::{HashMap, HashSet};

use super::frames::Frame;
use super::model::Profile;

/// Share of what a file's unnamed functions cost that both sides have names for in common, from which on it is the same build: of
/// one build all do, but for those that were sampled once.
const SAME_BUILD: f64 = 0.5;
/// A file whose unnamed functions cost less than this share of all is not worth a word.
const LEAST_SHARE: f64 = 0.002;

/// What functions cost that are called after their neighbours, by name and file.
pub type NearCosts<'n> = HashMap<(&'n str, &'n str), f64>;

/// Files that are other builds on the other side; `whole` is what everything costs on both sides together.
#[must_use]
pub fn other_builds(a: &NearCosts<'_>, b: &NearCosts<'_>, whole: f64) -> Vec<String> {
    let known: HashSet<_> = a.keys().filter(|it| b.contains_key(*it)).collect();
    let mut files: HashMap<&str, Costs> = HashMap::new();
    for (name, cost) in a.iter().chain(b) {
        let file = files.entry(name.1).or_default();
        file.all += cost;
        file.common += if known.contains(name) { *cost } else { 0.0 };
    }
    let other = files
        .iter()
        .filter(|(_, it)| it.common < it.all * SAME_BUILD && it.all >= whole * LEAST_SHARE);
    let mut other_builds: Vec<String> = other.map(|(file, _)| (*file).to_owned()).collect();
    other_builds.sort();
    other_builds
}

/// What a file's unnamed functions cost, all of them and those that both sides have.
#[derive(Default)]
struct Costs {
    all: f64,
    common: f64,
}

impl Profile {
    /// Files that are another build in the other profile, and whose functions without a name of their own are called otherwise
    /// there.
    #[must_use]
    pub fn other_builds(&self, other: &Self) -> Vec<String> {
        let whole = self.total_weight().saturating_add(other.total_weight()) as f64;
        let mut found = other_builds(&self.near_costs(), &other.near_costs(), whole);
        // A file that one side alone runs is no other build of anything.
        found.retain(|file| self.has_module(file) && other.has_module(file));
        found
    }

    /// The weight at the leaf of functions that are called after their neighbours.
    fn near_costs(&self) -> NearCosts<'_> {
        let weights = self.node_weights();
        let mut costs = NearCosts::new();
        for (node, weight) in self.stacks.iter().zip(&weights.own) {
            let frame = self.frames.get(node.frame as usize);
            let Some(frame) = frame.filter(|it| it.is_near() && *weight > 0) else {
                continue;
            };
            *costs.entry((&frame.name, &frame.module)).or_default() += *weight as f64;
        }
        costs
    }

    fn has_module(&self, file: &str) -> bool {
        self.frames.iter().any(|frame| frame.module == file)
    }

    /// The same samples with one function in place of all those of these files that have no name of their own.
    #[must_use]
    pub fn with_one_unnamed(&self, files: &[String]) -> Self {
        let of_files = |frame: &Frame| frame.is_near() && files.contains(&frame.module);
        self.with_frames(|frame| match of_files(frame) {
            true => (Frame::without_symbol(&frame.module).into(), &frame.module),
            false => (frame.name.as_str().into(), &frame.module),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::profile;

    #[test]
    fn places_of_another_build_are_one_function() {
        let [a, b] = [1, 2].map(|build| {
            profile(&[
                (&format!("t;start;[near f-0x{build}0]"), 10),
                (&format!("t;start;[near g+0x{build}]"), 5),
                ("t;start;named", 85),
            ])
        });
        let file = "broker".to_owned();
        assert_eq!(a.other_builds(&b), [file.clone()]);
        assert_eq!(a.other_builds(&a), [String::new(); 0]);
        let one = a.with_one_unnamed(std::slice::from_ref(&file));
        let rows = one.functions().into_iter();
        let rows: Vec<_> = rows.map(|it| (it.share.function, it.self_weight)).collect();
        let unnamed = format!("[no symbol in {file}]");
        let expected = [("named", 85), (unnamed.as_str(), 15), ("start", 0)];
        assert_eq!(rows, expected.map(|(name, own)| (name.to_owned(), own)));
        // What is hardly sampled tells no build.
        let rare = profile(&[("t;[near h+0x9]", 1), ("t;named", 999)]);
        assert_eq!(
            rare.other_builds(&profile(&[("t;named", 999)])),
            [String::new(); 0]
        );
    }
}
