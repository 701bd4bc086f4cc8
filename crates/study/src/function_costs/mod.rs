//! Costs of functions per message on two sides, and which of the changes are proven.

mod call_paths;
mod explained;
mod renamed;

use std::collections::HashMap;
use std::path::Path;

use archive::{ComparedFunctions, ComparedStacks, Comparison, CostChange, FunctionChange, Quantity, RunRecord};
use compare::{
    Difference, Moderation, SampledDifference, benjamini_hochberg, can_differ, guard, is_guarded, paired, unpaired,
};
use stacks::{
    Builds, FORMATS, Profile, ProfileSummary, ShareDetail, ShareTree, USUAL_EVENT, incomparable_summaries,
    sampled_events,
};

use super::figures::MOST_CHANGE;
use renamed::{Names, RunCosts};

/// Share of the CPU from which on a function is a question of its own: less is lost in the sampling.
const LEAST_SHARE: f64 = 0.002;
/// Share of the cost in every run from which on something is the whole broker, whose change is decided once.
const WHOLE: f64 = 0.99;
const MOST_FUNCTIONS: usize = 300;

/// Adds to a comparison which functions' costs changed, by its runs in their order; none if one (`None`) has none.
pub fn compare_functions(comparison: &mut Comparison, a: &[Option<FunctionCosts>], b: &[Option<FunctionCosts>]) {
    let (Some(a), Some(b)) = (whole(a), whole(b)) else {
        let none = a.iter().chain(b).all(Option::is_none);
        comparison.no_functions = (!none).then(|| "not every run has a CPU profile of one process".to_owned());
        return;
    };
    let Some((&first, others)) = a.split_first() else { return };
    let mut others = others.iter().chain(&b);
    if let Some(problem) =
        others.find_map(|other| incomparable_summaries(&first.summary, &other.summary).into_iter().next())
    {
        comparison.no_functions = Some(problem.sentence());
        return;
    }
    let mut test = Test {
        paired: comparison.paired,
        sampling: [sampling(&a), sampling(&b)],
        // Beside other cells each has a part of the level that all of them share.
        level: comparison.level / f64::from(comparison.family.map_or(1, |it| it.cells)),
        moderation: None,
    };
    let names = Names::of(&a, &b);
    let (a, b) = (names.runs(&a, true), names.runs(&b, false));
    test.moderation = moderation(&a, &b, test);
    let Some(mut functions) = functions(&a, &b, decided(comparison), test) else { return };
    functions.other_builds = names.other_builds;
    functions.renamed = names.renamed.told;
    let stacks = call_paths::compare_stacks(&a, &b, functions.broker, test);
    functions.explained = explained::explained(
        &functions.functions,
        &functions.broker,
        stacks.as_ref().unwrap_or(&ComparedStacks::default()),
    );
    comparison.functions = Some(functions);
    comparison.stacks = stacks;
}

fn sampling(side: &[&FunctionCosts]) -> SampledSide {
    let runs = side.len().max(1) as f64;
    let broker: f64 = side.iter().map(|run| run.broker).sum();
    let samples: u64 = side.iter().map(|run| run.summary.samples).sum();
    SampledSide { broker: broker / runs, samples: samples as f64 / runs }
}

/// How far runs differ beyond sampling, by functions' own costs, which have no sample in common.
fn moderation(a: &[RunCosts], b: &[RunCosts], test: Test) -> Option<Moderation> {
    let own = asked_about(a, b).into_iter().filter_map(|function| {
        let own = |run: &RunCosts| run.of.costs(function).own;
        let own = |side: &[RunCosts]| side.iter().map(own).collect::<Vec<f64>>();
        test.sampled(&own(a), &own(b))
    });
    Moderation::of(&own.collect::<Vec<_>>())
}

/// The costs of a side, where every run of it has some.
fn whole(side: &[Option<FunctionCosts>]) -> Option<Vec<&FunctionCosts>> {
    side.iter().map(Option::as_ref).collect()
}

/// The broker's CPU per message as it was decided with the other figures; `None` where it is none of them.
fn decided(comparison: &Comparison) -> Option<CostChange> {
    let figure = comparison.figures.iter().find(|it| it.name == "broker cpu" && it.is_tested())?;
    let ((a, b), (low, high)) = (figure.means, figure.interval);
    Some(CostChange {
        a,
        b,
        interval: (a * low, a * high),
        p: figure.corrected_p.unwrap_or(1.0),
        proven: figure.decision.differs(),
        visible: (figure.visible < MOST_CHANGE).then_some(a * figure.visible),
    })
}

/// Costs of functions and which changes are proven; the whole broker's was decided before, where it is a figure.
fn functions(a: &[RunCosts], b: &[RunCosts], decided: Option<CostChange>, test: Test) -> Option<ComparedFunctions> {
    let costs = |of: &dyn Fn(&RunCosts) -> f64| {
        let values = |side: &[RunCosts]| side.iter().map(of).collect::<Vec<f64>>();
        test.change(&values(a), &values(b))
    };
    let mut broker = costs(&|run| run.broker)?;
    test.decide(&mut [&mut broker]);
    let broker = decided.unwrap_or(broker.cost);
    let found = asked_about(a, b).into_iter().filter_map(|function| {
        let own = costs(&|run| run.of.costs(function).own)?;
        let total = costs(&|run| run.of.costs(function).total)?;
        let (name, module) = function.clone();
        let change = FunctionChange { function: name, module, cut: cut(a, b, function), ..FunctionChange::default() };
        let is_whole = a.iter().chain(b).all(|run| run.of.costs(function).total >= WHOLE * run.broker);
        Some((change, is_whole, [own, total]))
    });
    let mut found: Vec<(FunctionChange, bool, [Tested; 2])> = found.collect();
    // What functions cost by themselves and with what they call is one family.
    let mut all: Vec<&mut Tested> = found.iter_mut().flat_map(|it| &mut it.2).collect();
    test.decide(&mut all);
    let functions = found.into_iter().map(|(change, is_whole, [own, total])| {
        // A function that is the whole broker shares the broker's decision.
        let CostChange { a, b, .. } = total.cost;
        let total = if is_whole { CostChange { a, b, ..broker } } else { total.cost };
        FunctionChange { own: own.cost, total, ..change }
    });
    let mut functions: Vec<FunctionChange> = functions.collect();
    let told: f64 = functions.iter().map(|it| it.own.change()).sum();
    functions.sort_by(|a, b| {
        let key = |it: &FunctionChange| (it.own.proven, it.own.change().abs());
        let ((proven_a, change_a), (proven_b, change_b)) = (key(a), key(b));
        (proven_b.cmp(&proven_a)).then(change_b.total_cmp(&change_a))
    });
    Some(ComparedFunctions { broker, others: broker.change() - told, functions, ..ComparedFunctions::default() })
}

/// Share of a function's cost whose stacks are cut, on both sides together.
fn cut(a: &[RunCosts], b: &[RunCosts], function: &Function) -> f64 {
    let costs = a.iter().chain(b).map(|run| run.of.costs(function));
    let (cut, total) = costs.fold((0.0, 0.0), |(cut, total), it| (cut + it.cut, total + it.total));
    if total > 0.0 { cut / total } else { 0.0 }
}

/// The functions that are dear enough on either side, the dearest first. What is asked does not depend on what changed.
fn asked_about<'c>(a: &'c [RunCosts], b: &'c [RunCosts]) -> Vec<&'c Function> {
    let runs = || a.iter().chain(b);
    let all: f64 = runs().map(|run| run.broker).sum();
    let mut sums: HashMap<&Function, f64> = HashMap::new();
    for run in runs() {
        for (function, costs) in &run.of.functions {
            *sums.entry(function).or_default() += costs.total;
        }
    }
    let dear = sums.into_iter().filter(|(_, sum)| *sum >= all * LEAST_SHARE);
    let mut dear: Vec<(&Function, f64)> = dear.collect();
    dear.sort_by(|(name_a, a), (name_b, b)| b.total_cmp(a).then_with(|| name_a.cmp(name_b)));
    dear.truncate(MOST_FUNCTIONS);
    dear.into_iter().map(|(function, _)| function).collect()
}

/// Limits of a run's call paths, far below those asked about: a frame that is dear in other runs is rarely missing.
const DETAIL: ShareDetail = ShareDetail { least: 0.000_2, most: 10_000 };

/// CPU per message of a run's functions.
#[derive(Clone, Debug, Default)]
pub struct FunctionCosts {
    /// Of the whole broker, nanoseconds per message.
    broker: f64,
    /// With functions without a name called after their neighbours, which are the same in all runs of one build.
    of_build: Costed,
    /// With such functions of a file as one, for builds that differ.
    of_names: Costed,
    summary: ProfileSummary,
    /// Which builds its files are of, by what they are called in all their versions.
    builds: Builds,
}

#[derive(Clone, Debug, Default)]
struct Costed {
    /// By name and module.
    functions: HashMap<Function, Costs>,
    /// Call paths, by their shares of the broker's.
    stacks: ShareTree,
}

impl Costed {
    /// That of a profile, of which all samples together cost so much.
    fn of(profile: &Profile, broker: f64) -> Self {
        Self { functions: costs_of_functions(profile, broker), stacks: profile.share_tree(DETAIL) }
    }

    fn costs(&self, function: &Function) -> Costs {
        self.functions.get(function).copied().unwrap_or_default()
    }
}

type Function = (String, String);

/// Nanoseconds per message with a function at the leaf of the stack, anywhere on it, and on stacks that are cut.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Costs {
    own: f64,
    total: f64,
    cut: f64,
}

impl FunctionCosts {
    /// Costs of a run with its CPU profile; `None` where CPU per message is not known, or nothing was sampled.
    pub fn of(record: &RunRecord, profile: &Profile) -> Option<Self> {
        let summary = record.summary.as_ref()?;
        let cpu: Quantity = "broker cpu".parse().ok()?;
        let broker = cpu.of(summary).ok().filter(|it| it.is_finite() && *it > 0.0)?;
        if profile.samples.is_empty() || profile.header.event != USUAL_EVENT {
            return None;
        }
        Some(Self {
            broker,
            of_build: Costed::of(&profile.by_function(true), broker),
            of_names: Costed::of(&profile.by_named_function(), broker),
            summary: profile.summary(0),
            builds: profile.builds.without_versions(),
        })
    }

    /// Those of a run folder. A run with the profiles of several nodes has none.
    pub fn read(record: &RunRecord, dir: &Path) -> Option<Self> {
        let events = sampled_events(dir);
        let of_cpu = events.iter().filter(|it| it.split('@').next() == Some(USUAL_EVENT));
        if of_cpu.count() != 1 {
            return None;
        }
        let profile = Profile::open_as(&FORMATS, dir, Some(USUAL_EVENT)).ok()?;
        Self::of(record, &profile)
    }

    /// Those of a run with the profiles of all its events.
    pub fn of_profiles(record: &RunRecord, profiles: &[Profile]) -> Option<Self> {
        let mut of_cpu = profiles.iter().filter(|it| it.header.event == USUAL_EVENT);
        match (of_cpu.next(), of_cpu.next()) {
            (Some(profile), None) => Self::of(record, profile),
            _ => None,
        }
    }
}

/// The costs of all functions of a profile, of which all samples together cost so much.
fn costs_of_functions(profile: &Profile, broker: f64) -> HashMap<Function, Costs> {
    let mut functions: HashMap<Function, Costs> = HashMap::new();
    for row in profile.functions() {
        let costs = functions.entry((row.share.function, row.share.module)).or_default();
        costs.own += row.share.self_share * broker;
        costs.total += row.share.total * broker;
    }
    let all = profile.total_weight().max(1) as f64;
    for row in profile.of_cut_stacks().functions() {
        if let Some(costs) = functions.get_mut(&(row.share.function, row.share.module)) {
            costs.cut += row.total_weight as f64 / all * broker;
        }
    }
    functions
}

/// Samples of a function, below which nothing is said of it: one more or less would change the answer.
const LEAST_SAMPLES: f64 = 10.0;

#[derive(Clone, Copy, Debug)]
struct Test {
    paired: bool,
    level: f64,
    sampling: [SampledSide; 2],
    /// How far runs differ beyond sampling, as all functions tell it; `None` where they are too few.
    moderation: Option<Moderation>,
}

/// How the runs of a side were sampled, on average: costs are counts of samples.
#[derive(Clone, Copy, Debug, Default)]
struct SampledSide {
    /// Cost of the whole broker, nanoseconds per message.
    broker: f64,
    /// Samples of a run; 0 where that is not known.
    samples: f64,
}

impl SampledSide {
    /// Nanoseconds per message of a sample; `None` where that is not known.
    fn each(self) -> Option<f64> {
        let each = self.broker / self.samples;
        each.is_finite().then_some(each)
    }

    /// The variance of a run's cost of something that costs so much on average, by the chance of sampling alone.
    fn variance(self, cost: f64) -> f64 {
        // What is on all stacks is sampled as often as there are samples.
        let others = (1.0 - cost / self.broker).clamp(0.0, 1.0);
        self.each().map_or(0.0, |each| cost * each * others)
    }
}

#[derive(Clone, Copy, Debug)]
struct Tested {
    cost: CostChange,
    difference: Difference,
    is_guarded: bool,
}

impl Tested {
    /// Its probability where it is asked alone; what the guard does not let through is none of chance never.
    fn p(&self) -> f64 {
        if self.is_guarded { self.difference.p } else { 1.0 }
    }

    /// The smallest change that so many runs show in four of five experiments, at a level; `None` where they show none.
    fn visible(&self, level: f64) -> Option<f64> {
        can_differ(self.difference.count).then(|| self.difference.visible(level))
    }
}

impl Test {
    /// The difference that two sides' runs show by themselves, beside the error of sampling alone. Where nothing
    /// changed, both sides' runs vary as those of their common mean do, whatever few samples show.
    fn sampled(self, a: &[f64], b: &[f64]) -> Option<SampledDifference> {
        let cost = (mean(a) + mean(b)) / 2.0;
        let [of_a, of_b] = self.sampling.map(|it| it.variance(cost));
        let difference = if self.paired { paired(&differences(a, b))? } else { unpaired(a, b)? };
        Some(SampledDifference { difference, sampling: (of_a / a.len() as f64 + of_b / b.len() as f64).sqrt(), cost })
    }

    /// The change of a cost, by the runs of two sides and by how far all functions say that runs differ.
    fn change(self, a: &[f64], b: &[f64]) -> Option<Tested> {
        let sampled = self.sampled(a, b)?;
        let difference = self.moderation.map_or_else(|| sampled.floored(), |it| it.moderated(&sampled));
        let pairs = self.paired.then(|| differences(a, b));
        let guard = guard(&difference, pairs.as_deref());
        let samples = self.samples(a, b);
        Some(Tested {
            cost: CostChange { a: mean(a), b: mean(b), p: difference.p, ..CostChange::default() },
            difference,
            is_guarded: is_guarded(guard, self.level) && samples.is_none_or(|it| it >= LEAST_SAMPLES),
        })
    }

    /// How many samples costs were counted from; `None` where that is not known.
    fn samples(self, a: &[f64], b: &[f64]) -> Option<f64> {
        let [of_a, of_b] = self.sampling;
        let count = |costs: &[f64], of: SampledSide| Some(costs.iter().sum::<f64>() / of.each()?);
        Some(count(a, of_a)? + count(b, of_b)?)
    }

    /// Decides questions together; visible is what one more change would have had to be.
    fn decide(self, all: &mut [&mut Tested]) {
        let p: Vec<f64> = all.iter().map(|it| it.p()).collect();
        for (tested, p) in all.iter_mut().zip(benjamini_hochberg(&p)) {
            tested.cost.p = p;
            tested.cost.proven = p <= self.level;
        }
        let proven = all.iter().filter(|it| it.cost.proven).count();
        let questions = all.len().max(1);
        let level_of = |changes: usize| self.level * changes.min(questions) as f64 / questions as f64;
        for tested in all.iter_mut() {
            let level = level_of(proven + usize::from(!tested.cost.proven));
            tested.cost.interval = tested.difference.decided_interval(level, tested.cost.proven);
            tested.cost.visible = tested.visible(level_of(proven + 1));
        }
    }
}

fn mean(of: &[f64]) -> f64 {
    of.iter().sum::<f64>() / of.len() as f64
}

fn differences(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| b - a).collect()
}

#[cfg(test)]
mod level_tests;

#[cfg(test)]
mod tests;
