//! Patterns in stacks with known costs and cures. They are data (`known.txt`), each with its source.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::frames::{Frame, FrameKind};
use super::model::{Profile, USUAL_EVENT};
use super::pattern::{FramePattern, symbol};
use crate::summary::PatternShare;

const BUILT_IN: &str = include_str!("known.txt");
/// Below this number of samples a pattern is chance.
const FEWEST: u64 = 10;
/// Below this part of a pattern a function is not the one to look at.
const LEAST_PART: f64 = 0.25;

/// Erlang modules that do what they are called for: who calls them is the one to look at.
const LIBRARY: &str = "application application_controller binary ets file io_lib io_lib_format maps orddict prim_file \
                       re string unicode";

/// A pattern, and what is known of it.
#[derive(Clone, Debug, Default)]
pub struct KnownPattern {
    /// Its name.
    pub name: String,
    /// As they are written, the alternatives by which it is known.
    pub stacks: Vec<String>,
    /// The share of all samples from which on it is told (0 to 1).
    pub above: f64,
    /// Activity of its samples.
    pub says: String,
    /// Cure found elsewhere.
    pub cure: String,
    /// The address where that is written.
    pub source: String,
    /// Frames from the root to the leaf, each anywhere below the one before; one such chain for each alternative.
    chains: Vec<Vec<FramePattern>>,
}

impl KnownPattern {
    /// The patterns that all outputs use.
    pub fn built_in() -> &'static [Self] {
        // A test parses the built-in text, so the fallback is never taken.
        static PATTERNS: LazyLock<Vec<KnownPattern>> =
            LazyLock::new(|| KnownPattern::parse(BUILT_IN).unwrap_or_default());
        &PATTERNS
    }

    /// Patterns from text; lines that begin with `//` are skipped. An error names the first line that belongs to none.
    pub(super) fn parse(text: &str) -> Result<Vec<Self>, String> {
        let mut all: Vec<Self> = Vec::new();
        let lines = (1..).zip(text.lines()).filter(|(_, it)| !it.starts_with("//"));
        for (line, text) in lines.filter(|(_, it)| !it.trim().is_empty()) {
            let wrong = |why: &str| format!("line {line} of the known patterns, `{text}`: {why}");
            let (keyword, value) = text.split_once(' ').unwrap_or((text, ""));
            let value = value.trim();
            if keyword == "pattern" {
                all.push(Self { name: value.to_owned(), ..Self::default() });
                continue;
            }
            let last = all.last_mut().ok_or_else(|| wrong("it stands before any pattern"))?;
            last.add(keyword, value).map_err(wrong)?;
        }
        Ok(all)
    }

    fn add(&mut self, keyword: &str, value: &str) -> Result<(), &'static str> {
        match keyword {
            "stack" => {
                let chain = value.split(" > ").map(FramePattern::new).collect::<Option<Vec<_>>>();
                self.chains.push(chain.ok_or("a frame is written KIND FUNCTION [in MODULE]")?);
                self.stacks.push(value.to_owned());
            }
            "above" => {
                let share = value.strip_suffix('%').and_then(|it| it.trim().parse::<f64>().ok());
                let share = share.filter(|it| (0.0..=100.0).contains(it));
                self.above = share.ok_or("a share is written as 2.5 %")? / 100.0;
            }
            "says" => value.clone_into(&mut self.says),
            "cure" => value.clone_into(&mut self.cure),
            "source" => value.clone_into(&mut self.source),
            // It goes on with the sentence before.
            "" if !self.cure.is_empty() && self.source.is_empty() => {
                self.cure.push(' ');
                self.cure.push_str(value);
            }
            _ => return Err("a line begins with stack, above, says, cure or source"),
        }
        Ok(())
    }
}

/// How far a path follows a chain of frames.
#[derive(Clone, Copy, Default)]
struct Followed {
    /// Frames of the chain that lie on it, in their order.
    frames: usize,
    /// The nearest function of somebody's own above the chain's last frame.
    caller: Option<u32>,
}

impl Profile {
    /// The known patterns with their share of CPU samples, the largest first; none of samples of other events.
    pub fn known_patterns(&self) -> Vec<PatternShare> {
        if !matches!(self.header.event.as_str(), USUAL_EVENT | "") {
            return Vec::new();
        }
        let leaves = self.leaves();
        let own: Vec<bool> = self.frames.iter().map(is_own).collect();
        let all = KnownPattern::built_in().iter();
        let mut found: Vec<_> = all.filter_map(|pattern| self.share_of(pattern, &leaves, &own)).collect();
        found.sort_by(|a, b| b.share.total_cmp(&a.share));
        found
    }

    /// Of each stack, the weight of the samples that it is the leaf of, and how many they are.
    fn leaves(&self) -> Vec<(u64, u64)> {
        let mut leaves = vec![(0_u64, 0_u64); self.stacks.len()];
        for sample in &self.samples {
            if let Some((weight, count)) = leaves.get_mut(sample.stack as usize) {
                *weight = weight.saturating_add(sample.weight);
                *count = count.saturating_add(self.header.count(sample));
            }
        }
        leaves
    }

    /// Share of a pattern in the samples, where it is large enough; `own` says of each frame whether it is looked at.
    fn share_of(&self, pattern: &KnownPattern, leaves: &[(u64, u64)], own: &[bool]) -> Option<PatternShare> {
        let mut callers: Vec<Option<Option<u32>>> = vec![None; self.stacks.len()];
        for chain in &pattern.chains {
            let followed = self.follow(chain, own);
            for (caller, followed) in callers.iter_mut().zip(followed) {
                let ends = followed.frames == chain.len();
                *caller = caller.or_else(|| ends.then_some(followed.caller));
            }
        }
        let mut below: BTreeMap<Option<u32>, u64> = BTreeMap::new();
        let mut count = 0_u64;
        for (caller, (weight, samples)) in callers.iter().zip(leaves) {
            if let (Some(caller), 1..) = (caller, *samples) {
                let sum = below.entry(*caller).or_default();
                *sum = sum.saturating_add(*weight);
                count = count.saturating_add(*samples);
            }
        }
        let sum = below.values().fold(0_u64, |sum, it| sum.saturating_add(*it));
        let all = self.total_weight().max(1) as f64;
        let share = sum as f64 / all;
        if count < FEWEST || share < pattern.above {
            return None;
        }
        let known = below.iter().filter_map(|(caller, weight)| Some(((*caller)?, *weight)));
        let most = known.max_by_key(|(_, weight)| *weight);
        let most = most.filter(|(_, weight)| *weight as f64 >= sum as f64 * LEAST_PART);
        let name = |frame: u32| self.frames.get(frame as usize).map(|it| it.name.clone());
        let (function, function_share) =
            most.map_or((None, 0.0), |(caller, weight)| (name(caller), weight as f64 / all));
        Some(PatternShare {
            pattern: pattern.name.clone(),
            share,
            function,
            function_share,
            says: pattern.says.clone(),
            cure: pattern.cure.clone(),
            source: pattern.source.clone(),
        })
    }

    /// How far the path to each node follows a chain. Each frame is looked at once for each frame of the chain.
    fn follow(&self, chain: &[FramePattern], own: &[bool]) -> Vec<Followed> {
        let matching =
            |pattern: &FramePattern| self.frames.iter().map(|frame| pattern.matches(frame, symbol(frame))).collect();
        let matching: Vec<Vec<bool>> = chain.iter().map(matching).collect();
        self.per_stack(|above: Option<Followed>, node| {
            let mut path = above.unwrap_or_default();
            let is_next = matching.get(path.frames).and_then(|it| it.get(node.frame as usize)) == Some(&true);
            path.frames += usize::from(is_next);
            let is_whole = path.frames == chain.len();
            if !is_whole && own.get(node.frame as usize) == Some(&true) {
                path.caller = Some(node.frame);
            }
            path
        })
    }
}

/// Whether a function is worth a look: Erlang of no framework or library, Java, or the program itself.
fn is_own(frame: &Frame) -> bool {
    match frame.kind {
        FrameKind::Erlang => {
            let is_library = |module: &str| LIBRARY.split_whitespace().any(|it| it == module);
            Frame::own_module(&frame.name).is_some_and(|module| !is_library(module))
        }
        FrameKind::Java | FrameKind::Native => true,
        _ => false,
    }
}
