//! Which functions explain a change of the whole: the deepest ones that hold most of it, and none twice.

use std::collections::HashSet;

use archive::{ComparedFrame, ComparedStacks, CostChange, ExplainedChange, FunctionChange};
use stacks::Frame;

const MOST: usize = 3;
/// Share of the broker's CPU from which on a function is the frame of everything.
const MOST_SHARE: f64 = 0.5;
/// Share of the broker's change below which a function explains none of it.
const LEAST_PART: f64 = 0.05;
/// Where the broker's change is not proven: share of its CPU below which a change is not worth the sentence.
const LEAST_SHARE: f64 = 0.005;
/// Share of the largest change that a deeper function has to hold to be named in its place: most of it.
const AS_MUCH: f64 = 0.6;
/// Share of its own change that has to be left beside functions that were named before.
const LEAST_LEFT: f64 = 0.5;
/// Share of a function's stacks from which on they are mostly cut.
const MOSTLY_CUT: f64 = 0.5;
/// Share of a caller's cost below which a function that is called on one side alone is named in its place.
const FAR_LESS: f64 = 0.5;
/// Share of the dearer side's cost below which a call is not made on the other one.
const NOT_CALLED: f64 = 0.002;

/// Share of a one-sided function's cost from which on others, called on the other side alone, made up for it.
const REPLACED: f64 = 0.5;

/// The functions that explain the broker's change, at most three, most of it first: proven, in its direction, and deep
/// ones rather than their callers. Where the broker's change is not proven, those that changed all the same.
pub(super) fn explained(
    functions: &[FunctionChange],
    broker: &CostChange,
    stacks: &ComparedStacks,
) -> Vec<ExplainedChange> {
    let own_changes = own_changes(stacks);
    let candidates = functions.iter().filter_map(|it| Candidate::of(it, broker));
    let mut candidates: Vec<Candidate<'_>> = candidates.collect();
    for candidate in &mut candidates {
        candidate.find_frames(stacks);
        candidate.is_new = !candidate.is_own && candidate.is_called_on_one_side(stacks);
    }
    candidates.retain(|it| !(it.is_new && it.has_replaced_others(stacks)));
    let mut named = vec![false; stacks.frames.len()];
    let mut explained = Vec::new();
    while explained.len() < MOST {
        let left: Vec<(&Candidate<'_>, f64)> = candidates
            .iter()
            .filter_map(|it| Some((it, it.left(&own_changes, &named)?)))
            .filter(|(_, left)| matters(*left, broker))
            .collect();
        let Some((chosen, change)) = deepest(&left) else { break };
        for (named, frame) in named.iter_mut().zip(&chosen.frames) {
            *named |= *frame;
        }
        explained.push(ExplainedChange {
            function: chosen.of.function.clone(),
            module: chosen.of.module.clone(),
            change,
            own: chosen.is_own,
        });
    }
    explained.sort_by(|a, b| b.change.abs().total_cmp(&a.change.abs()));
    explained
}

/// The deepest function that holds most of what the one holds that holds most. What is called on one side alone did not
/// change by itself, its caller did; it is named all the same where all of its callers cost far more.
fn deepest<'c>(left: &[(&'c Candidate<'c>, f64)]) -> Option<(&'c Candidate<'c>, f64)> {
    let most = left.iter().fold(0.0, |most: f64, it| most.max(it.1.abs()));
    let as_much = left.iter().filter(|it| it.1.abs() >= most * AS_MUCH);
    let (new, old): (Vec<_>, Vec<_>) = as_much.copied().partition(|it| it.0.is_new);
    let by_cost = |a: &(&Candidate<'_>, f64), b: &(&Candidate<'_>, f64)| {
        a.0.size().total_cmp(&b.0.size()).then_with(|| a.0.of.function.cmp(&b.0.of.function))
    };
    let old = old.into_iter().min_by(by_cost);
    let new = new.into_iter().max_by(by_cost);
    match (old, new) {
        (Some(old), Some(new)) if new.0.size() < old.0.size() * FAR_LESS => Some(new),
        (Some(old), _) => Some(old),
        (None, new) => new,
    }
}

/// Whether a change is worth a part of the sentence.
fn matters(change: f64, broker: &CostChange) -> bool {
    let whole = broker.change();
    if broker.proven { change / whole >= LEAST_PART } else { change.abs() >= broker.a.max(broker.b) * LEAST_SHARE }
}

struct Candidate<'f> {
    of: &'f FunctionChange,
    /// By its own cost alone: where its stacks are mostly cut, or it has no name, what is below it says nothing of it.
    is_own: bool,
    is_new: bool,
    /// For each frame whether it belongs to the function's cost.
    frames: Vec<bool>,
    /// The frames of the function itself, those with the same function above them left out.
    outermost: Vec<usize>,
}

impl<'f> Candidate<'f> {
    fn of(of: &'f FunctionChange, broker: &CostChange) -> Option<Self> {
        let candidate = Self {
            is_own: of.cut > MOSTLY_CUT || of.function == Frame::without_symbol(&of.module),
            is_new: false,
            of,
            frames: Vec::new(),
            outermost: Vec::new(),
        };
        let cost = candidate.cost();
        let is_part = cost.a < broker.a * MOST_SHARE && (cost.b < broker.b * MOST_SHARE || cost.a < cost.b * 0.1);
        (cost.proven && is_part).then_some(candidate)
    }

    const fn cost(&self) -> &'f CostChange {
        if self.is_own { &self.of.own } else { &self.of.total }
    }

    /// Its cost on the dearer side.
    const fn size(&self) -> f64 {
        self.cost().a.max(self.cost().b)
    }

    fn find_frames(&mut self, stacks: &ComparedStacks) {
        let name = stacks.names.iter().position(|it| it.function == self.of.function && it.module == self.of.module);
        let mut below: Vec<bool> = Vec::with_capacity(stacks.frames.len());
        for (at, frame) in stacks.frames.iter().enumerate() {
            let is_it = Some(frame.name as usize) == name;
            let above = frame.parent.and_then(|it| below.get(it as usize));
            let is_below = above.copied().unwrap_or(false);
            if is_it && !is_below {
                self.outermost.push(at);
            }
            self.frames.push(is_it || (is_below && !self.is_own));
            below.push(is_it || is_below);
        }
    }

    /// Whether most of its change lies where it is called on one side alone: then its callers have changed.
    fn is_called_on_one_side(&self, stacks: &ComparedStacks) -> bool {
        let frames = self.outermost.iter().filter_map(|at| stacks.frames.get(*at));
        let (mut all, mut on_one) = (0.0, 0.0);
        for frame in frames {
            all += frame.change();
            if frame.a.min(frame.b) < frame.a.max(frame.b) * NOT_CALLED {
                on_one += frame.change();
            }
        }
        // Also where no frame of it is dear enough to be in the tree.
        on_one.abs() >= all.abs() * 0.5 && on_one != 0.0
    }

    /// Whether its callers called others in its place on the other side, which cost much of what it does.
    fn has_replaced_others(&self, stacks: &ComparedStacks) -> bool {
        let frames = || (self.outermost.iter()).filter_map(|at| stacks.frames.get(*at));
        let callers: HashSet<u32> = frames().filter_map(|it| it.parent).collect();
        let all: f64 = frames().map(ComparedFrame::change).sum();
        let is_beside = |it: &&ComparedFrame| it.parent.is_some_and(|above| callers.contains(&above));
        let is_other_way = |it: &&ComparedFrame| it.change() * all < 0.0;
        let on_one = |it: &&ComparedFrame| it.a.min(it.b) < it.a.max(it.b) * NOT_CALLED;
        let beside = stacks.frames.iter().filter(is_beside);
        let replaced = beside.filter(is_other_way).filter(on_one).map(ComparedFrame::change);
        replaced.sum::<f64>().abs() >= all.abs() * REPLACED
    }

    /// Its change without that of functions that were named before; `None` where that is little of it.
    fn left(&self, own_changes: &[f64], named: &[bool]) -> Option<f64> {
        let change = self.cost().change();
        let frames = self.frames.iter().zip(own_changes).zip(named);
        let (mut all, mut left) = (0.0, 0.0);
        for ((is_of, change), is_named) in frames {
            if *is_of {
                all += change;
                left += if *is_named { 0.0 } else { *change };
            }
        }
        if all == 0.0 {
            return Some(change).filter(|_| !named.contains(&true));
        }
        let part = (left / all).min(1.0);
        (part >= LEAST_LEFT).then_some(change * part)
    }
}

/// The change of each frame without what frames below it changed by.
fn own_changes(stacks: &ComparedStacks) -> Vec<f64> {
    let mut own: Vec<f64> = stacks.frames.iter().map(|it| it.change()).collect();
    for frame in &stacks.frames {
        if let Some(above) = frame.parent.and_then(|it| own.get_mut(it as usize)) {
            *above -= frame.change();
        }
    }
    own
}

#[cfg(test)]
mod tests {
    use super::*;
    use archive::ComparedName;

    /// A frame below another, by their places, and what it costs on both sides.
    struct MadeUp(Option<u32>, &'static str, f64, f64);

    fn cost(a: f64, b: f64) -> CostChange {
        CostChange { a, b, proven: (b - a).abs() >= 5.0, ..CostChange::default() }
    }

    fn stacks(of: &[MadeUp]) -> ComparedStacks {
        let mut stacks = ComparedStacks::default();
        for MadeUp(parent, name, a, b) in of {
            let known = stacks.names.iter().position(|it| it.function == *name);
            let number = known.unwrap_or_else(|| {
                stacks.names.push(ComparedName { function: (*name).to_owned(), module: String::new() });
                stacks.names.len() - 1
            });
            stacks.frames.push(ComparedFrame {
                parent: *parent,
                name: number as u32,
                a: *a,
                b: *b,
                ..ComparedFrame::default()
            });
        }
        stacks
    }

    /// The functions of such stacks, each of which stands on its stacks once.
    fn functions(of: &ComparedStacks) -> Vec<FunctionChange> {
        let names = of.names.iter().enumerate();
        names
            .map(|(at, name)| {
                let frames = of.frames.iter().filter(|it| it.name as usize == at);
                let (a, b) = frames.fold((0.0, 0.0), |(a, b), it| (a + it.a, b + it.b));
                FunctionChange {
                    function: name.function.clone(),
                    own: cost(0.0, 0.0),
                    total: cost(a, b),
                    ..FunctionChange::default()
                }
            })
            .collect()
    }

    fn named(of: &[ExplainedChange]) -> Vec<(&str, f64)> {
        of.iter().map(|it| (it.function.as_str(), it.change.round())).collect()
    }

    /// Changes that are named of these frames, of which the first is the whole broker.
    fn explained_of(frames: &[MadeUp]) -> Vec<ExplainedChange> {
        let stacks = stacks(frames);
        explained(&functions(&stacks), &cost(frames[0].2, frames[0].3), &stacks)
    }

    #[test]
    fn the_deepest_function_is_named_and_neither_its_callers_nor_what_it_newly_calls() {
        let found = explained_of(&[
            MadeUp(None, "loop", 1_000.0, 1_110.0),
            MadeUp(Some(0), "channel", 400.0, 510.0),
            MadeUp(Some(1), "deliver", 200.0, 305.0),
            MadeUp(Some(2), "route", 40.0, 140.0),
            MadeUp(Some(3), "foldl", 0.0, 95.0),
            MadeUp(Some(0), "foldl", 30.0, 30.0),
        ]);
        assert_eq!(named(&found), [("route", 100.0)]);
        // What is newly called, where its caller does much else.
        let found = explained_of(&[
            MadeUp(None, "loop", 1_000.0, 1_100.0),
            MadeUp(Some(0), "channel", 400.0, 500.0),
            MadeUp(Some(1), "route", 0.0, 95.0),
            MadeUp(Some(2), "foldl", 0.0, 90.0),
        ]);
        assert_eq!(named(&found), [("route", 95.0)]);
        // Not what took the place of another function.
        let found = explained_of(&[
            MadeUp(None, "loop", 1_000.0, 1_040.0),
            MadeUp(Some(0), "each", 450.0, 490.0),
            MadeUp(Some(1), "deliver", 420.0, 0.0),
            MadeUp(Some(1), "deliver0", 0.0, 460.0),
        ]);
        assert_eq!(named(&found), [("each", 40.0)]);
    }

    /// Statistics of a channel that are finer in B: 1.22 of 1.82 us are in what records them, in hundredths of a
    /// microsecond.
    #[test]
    fn the_lowest_function_that_holds_most_of_the_change_is_named() {
        let found = explained_of(&[
            MadeUp(None, "loop", 2_840.0, 3_022.0),
            MadeUp(Some(0), "handle_cast", 900.0, 1_078.0),
            MadeUp(Some(1), "channel_stats", 0.0, 122.0),
            MadeUp(Some(2), "update_counter", 0.0, 60.0),
            MadeUp(Some(1), "deliver", 300.0, 330.0),
        ]);
        assert_eq!(named(&found)[0], ("channel_stats", 122.0));
    }

    #[test]
    fn what_lies_beside_the_first_is_named_too_and_adds_up() {
        let found = explained_of(&[
            MadeUp(None, "loop", 1_000.0, 1_150.0),
            MadeUp(Some(0), "deliver", 300.0, 450.0),
            MadeUp(Some(1), "route", 40.0, 120.0),
            MadeUp(Some(1), "encode", 50.0, 110.0),
            MadeUp(Some(0), "gc", 90.0, 90.0),
        ]);
        // Most of what the caller changed by is in neither alone, so that it is named, and they are not beside it.
        assert_eq!(named(&found), [("deliver", 150.0)]);
        let found = explained_of(&[
            MadeUp(None, "loop", 1_000.0, 1_150.0),
            MadeUp(Some(0), "route", 40.0, 130.0),
            MadeUp(Some(0), "encode", 50.0, 110.0),
        ]);
        assert_eq!(named(&found), [("route", 90.0), ("encode", 60.0)]);
        // Two changes that cancel out, with their signs.
        let found = explained_of(&[
            MadeUp(None, "loop", 1_000.0, 1_000.0),
            MadeUp(Some(0), "route", 100.0, 150.0),
            MadeUp(Some(0), "encode", 150.0, 100.0),
        ]);
        let mut found = named(&found);
        found.sort_by_key(|it| it.0);
        assert_eq!(found, [("encode", -50.0), ("route", 50.0)]);
    }

    #[test]
    fn a_function_whose_stacks_are_mostly_cut_is_named_for_its_own_cost_alone() {
        let stacks = stacks(&[MadeUp(None, "memcpy", 100.0, 180.0)]);
        let mut functions = functions(&stacks);
        functions[0].cut = 0.9;
        let broker = cost(1_000.0, 1_080.0);
        assert!(explained(&functions, &broker, &stacks).is_empty());
        functions[0].own = cost(90.0, 160.0);
        let found = explained(&functions, &broker, &stacks);
        assert_eq!(named(&found), [("memcpy", 70.0)]);
        assert!(found[0].own);
        // Below functions without names is everything.
        functions[0].cut = 0.0;
        functions[0].function = Frame::without_symbol("");
        let found = explained(&functions, &broker, &stacks);
        assert_eq!(named(&found)[0], ("[no symbol in ]", 70.0));
        assert!(found[0].own);
    }
}
