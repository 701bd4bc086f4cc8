//! What each function costs per message on two sides, and which of the changes are proven.

use std::collections::HashMap;
use std::path::Path;

use archive::profile::{FORMATS, Profile, USUAL_EVENT, incomparable_summaries, sampled_events};
use archive::{
    ComparedFunctions, Comparison, CostChange, FunctionChange, ProfileSummary, Quantity, RunRecord,
};
use compare::{Difference, benjamini_hochberg, paired, sign_flip, unpaired};

/// Share of the CPU of either side from which on a function is a question of its own: what is less is lost in the sampling.
const LEAST_SHARE: f64 = 0.002;
/// Functions that are asked about at most, the dearest first.
const MOST_FUNCTIONS: usize = 300;
/// The level of the exact test that guards what pairs prove.
const GUARD: f64 = 0.10;

/// CPU per message of a run's functions.
#[derive(Clone, Debug, Default)]
pub struct FunctionCosts {
    /// Of the whole broker, nanoseconds per message.
    broker: f64,
    /// By name and module.
    functions: HashMap<Function, Costs>,
    summary: ProfileSummary,
}

/// Name and module.
type Function = (String, String);

/// Nanoseconds per message with a function at the leaf of the stack, and anywhere on it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Costs {
    own: f64,
    total: f64,
}

impl FunctionCosts {
    /// Those of a run with its CPU profile; `None` where its broker's CPU per message is not known, or nothing was sampled.
    #[must_use]
    pub fn of(record: &RunRecord, profile: &Profile) -> Option<Self> {
        let summary = record.summary.as_ref()?;
        let cpu: Quantity = "broker cpu".parse().ok()?;
        let broker = cpu.of(summary).ok();
        let broker = broker.filter(|it| it.is_finite() && *it > 0.0)?;
        if profile.samples.is_empty() || profile.header.event != USUAL_EVENT {
            return None;
        }
        let alike = profile.by_function(true);
        let mut functions: HashMap<Function, Costs> = HashMap::new();
        for row in alike.functions() {
            let costs = functions
                .entry((row.share.function, row.share.module))
                .or_default();
            costs.own += row.share.self_share * broker;
            costs.total += row.share.total * broker;
        }
        Some(Self {
            broker,
            functions,
            summary: profile.summary(0),
        })
    }

    /// Those of a run folder. A run with the profiles of several nodes has none.
    #[must_use]
    pub fn read(record: &RunRecord, dir: &Path) -> Option<Self> {
        let events = sampled_events(dir);
        let of_cpu = events
            .iter()
            .filter(|it| it.split('@').next() == Some(USUAL_EVENT));
        if of_cpu.count() != 1 {
            return None;
        }
        let profile = Profile::open_as(&FORMATS, dir, Some(USUAL_EVENT)).ok()?;
        Self::of(record, &profile)
    }

    /// Those of a run with the profiles of all its events.
    #[must_use]
    pub fn of_profiles(record: &RunRecord, profiles: &[Profile]) -> Option<Self> {
        let mut of_cpu = profiles.iter().filter(|it| it.header.event == USUAL_EVENT);
        match (of_cpu.next(), of_cpu.next()) {
            (Some(profile), None) => Self::of(record, profile),
            _ => None,
        }
    }

    fn costs(&self, function: &Function) -> Costs {
        self.functions.get(function).copied().unwrap_or_default()
    }
}

/// Adds to a comparison which functions' costs changed. The costs are of its runs, in their order; `None` stands for a run that has
/// none, and then nothing is told.
pub fn compare_functions(
    comparison: &mut Comparison,
    a: &[Option<FunctionCosts>],
    b: &[Option<FunctionCosts>],
) {
    let whole = |side: &[Option<FunctionCosts>]| side.iter().cloned().collect::<Option<Vec<_>>>();
    let (Some(a), Some(b)) = (whole(a), whole(b)) else {
        let none = a.iter().chain(b).all(Option::is_none);
        comparison.no_functions =
            (!none).then(|| "not every run has a CPU profile of one process".to_owned());
        return;
    };
    let Some((first, others)) = a.split_first() else {
        return;
    };
    let problem = others.iter().chain(&b).find_map(|other| {
        incomparable_summaries(&first.summary, &other.summary)
            .into_iter()
            .next()
    });
    if let Some(problem) = problem {
        comparison.no_functions = Some(problem.sentence());
        return;
    }
    let test = Test {
        paired: comparison.paired,
        // Beside other cells each has a part of the level that all of them share.
        level: comparison.level / f64::from(comparison.family.map_or(1, |it| it.cells)),
    };
    comparison.functions = functions(&a, &b, test);
}

fn functions(a: &[FunctionCosts], b: &[FunctionCosts], test: Test) -> Option<ComparedFunctions> {
    let costs = |of: &dyn Fn(&FunctionCosts) -> f64| {
        let values = |side: &[FunctionCosts]| side.iter().map(of).collect::<Vec<f64>>();
        test.change(&values(a), &values(b))
    };
    let mut broker = costs(&|run| run.broker)?;
    test.decide(&mut [&mut broker]);
    let mut found: Vec<(FunctionChange, [Tested; 2])> = asked_about(a, b)
        .into_iter()
        .filter_map(|function| {
            let own = costs(&|run| run.costs(function).own)?;
            let total = costs(&|run| run.costs(function).total)?;
            let (name, module) = function.clone();
            let change = FunctionChange {
                function: name,
                module,
                ..FunctionChange::default()
            };
            Some((change, [own, total]))
        })
        .collect();
    for which in 0..2 {
        let mut all: Vec<&mut Tested> = found
            .iter_mut()
            .filter_map(|(_, tested)| tested.get_mut(which))
            .collect();
        test.decide(&mut all);
    }
    let mut functions: Vec<FunctionChange> = found
        .into_iter()
        .map(|(change, [own, total])| FunctionChange {
            own: own.cost,
            total: total.cost,
            ..change
        })
        .collect();
    let told: f64 = functions.iter().map(|it| it.own.change()).sum();
    functions.sort_by(|a, b| {
        let key = |it: &FunctionChange| (it.own.proven, it.own.change().abs());
        let ((proven_a, change_a), (proven_b, change_b)) = (key(a), key(b));
        (proven_b.cmp(&proven_a)).then(change_b.total_cmp(&change_a))
    });
    Some(ComparedFunctions {
        broker: broker.cost,
        others: broker.cost.change() - told,
        functions,
    })
}

/// The functions that are dear enough on either side, the dearest first. What is asked does not depend on what changed.
fn asked_about<'c>(a: &'c [FunctionCosts], b: &'c [FunctionCosts]) -> Vec<&'c Function> {
    let runs = || a.iter().chain(b);
    let all: f64 = runs().map(|run| run.broker).sum();
    let mut sums: HashMap<&Function, f64> = HashMap::new();
    for run in runs() {
        for (function, costs) in &run.functions {
            *sums.entry(function).or_default() += costs.total;
        }
    }
    let dear = sums
        .into_iter()
        .filter(|(_, sum)| *sum >= all * LEAST_SHARE);
    let mut dear: Vec<(&Function, f64)> = dear.collect();
    dear.sort_by(|(name_a, a), (name_b, b)| b.total_cmp(a).then_with(|| name_a.cmp(name_b)));
    dear.truncate(MOST_FUNCTIONS);
    dear.into_iter().map(|(function, _)| function).collect()
}

/// How costs are compared.
#[derive(Clone, Copy, Debug)]
struct Test {
    paired: bool,
    level: f64,
}

/// A cost whose change is not decided yet.
#[derive(Clone, Copy, Debug)]
struct Tested {
    cost: CostChange,
    difference: Difference,
    guard: Option<f64>,
}

impl Test {
    fn change(self, a: &[f64], b: &[f64]) -> Option<Tested> {
        let (difference, guard) = match self.paired {
            true => {
                let differences: Vec<f64> = a.iter().zip(b).map(|(a, b)| b - a).collect();
                (paired(&differences)?, sign_flip(&differences))
            }
            false => (unpaired(a, b)?, None),
        };
        let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
        Some(Tested {
            cost: CostChange {
                a: mean(a),
                b: mean(b),
                interval: difference.interval(0.95),
                p: difference.p,
                proven: false,
                visible: difference.visible(self.level),
            },
            difference,
            guard,
        })
    }

    /// Decides questions that are asked together.
    fn decide(self, all: &mut [&mut Tested]) {
        let p: Vec<f64> = all.iter().map(|it| it.difference.p).collect();
        for (tested, p) in all.iter_mut().zip(benjamini_hochberg(&p)) {
            tested.cost.p = p;
            tested.cost.proven = p <= self.level && tested.guard.is_none_or(|it| it <= GUARD);
        }
    }
}

#[cfg(test)]
mod tests {
    use archive::RunSummary;

    use super::*;

    /// A run that needs so much CPU a message, of which functions have these shares, `root` below all of them.
    fn run(broker: f64, shares: &[(&str, f64)]) -> FunctionCosts {
        let mut functions: HashMap<Function, Costs> = shares
            .iter()
            .map(|(name, share)| {
                let own = share * broker;
                let costs = Costs { own, total: own };
                (((*name).to_owned(), String::new()), costs)
            })
            .collect();
        let root = Costs {
            own: 0.0,
            total: broker,
        };
        functions.insert(("root".to_owned(), String::new()), root);
        FunctionCosts {
            broker,
            functions,
            summary: ProfileSummary::default(),
        }
    }

    /// Six runs with noise of half a per cent, `turned` the other way round.
    fn side(cost: f64, shares: &[(&str, f64)], turned: bool) -> Vec<Option<FunctionCosts>> {
        let mut noise = [0.995, 1.004, 1.001, 0.998, 1.005, 0.997];
        if turned {
            noise.reverse();
        }
        noise.map(|by| Some(run(cost * by, shares))).to_vec()
    }

    fn compared(
        a: &[Option<FunctionCosts>],
        b: &[Option<FunctionCosts>],
        paired: bool,
    ) -> Comparison {
        let mut comparison = Comparison {
            paired,
            level: 0.05,
            ..Comparison::default()
        };
        compare_functions(&mut comparison, a, b);
        comparison
    }

    #[test]
    fn a_function_that_got_dearer_is_named_and_those_whose_share_fell_are_not() {
        // The one costs 300 ns more; the other's share falls from 90 to 69 %, and its cost stays.
        let a = side(1000.0, &[("one", 0.1), ("other", 0.9)], false);
        let of_b = [("one", 400.0 / 1300.0), ("other", 900.0 / 1300.0)];
        let b = side(1300.0, &of_b, true);
        for paired in [true, false] {
            let found = compared(&a, &b, paired);
            let found = found.functions.expect("functions");
            let proven = found.functions.iter().filter(|it| it.own.proven);
            let proven: Vec<&str> = proven.map(|it| it.function.as_str()).collect();
            assert_eq!(proven, ["one"], "{found:#?}");
            let named = found.headline().into_iter();
            let named: Vec<&str> = named.map(|it| it.function.as_str()).collect();
            assert_eq!(named, ["one"], "the root explains nothing");
            let told: f64 = found.functions.iter().map(|it| it.own.change()).sum();
            let all = told + found.others;
            assert!((all - found.broker.change()).abs() < 1e-9);
            assert!((found.broker.change() - 300.0).abs() < 1.0);
        }
    }

    #[test]
    fn one_run_without_a_profile_is_told_and_none_at_all_is_not() {
        let a = side(1000.0, &[("one", 1.0)], false);
        let mut b = a.clone();
        if let Some(run) = b.get_mut(2) {
            *run = None;
        }
        let found = compared(&a, &b, true);
        assert!(found.functions.is_none() && found.no_functions.is_some());
        let nothing = compared(&[None, None], &[None, None], true);
        assert_eq!((nothing.functions, nothing.no_functions), (None, None));
    }

    #[test]
    fn profiles_of_other_frequencies_are_not_compared() {
        let mut a = side(1000.0, &[("one", 1.0)], false);
        let mut b = a.clone();
        for run in a.iter_mut().flatten() {
            run.summary.frequency = 4_999;
        }
        for run in b.iter_mut().flatten() {
            run.summary.frequency = 999;
        }
        let found = compared(&a, &b, true);
        let why = found.no_functions.expect("a reason");
        assert!(why.contains("4,999 Hz and 999 Hz"), "{why}");
    }

    #[test]
    fn a_run_without_cpu_a_message_has_no_costs() {
        let record = RunRecord {
            summary: Some(RunSummary::default()),
            ..RunRecord::default()
        };
        assert!(FunctionCosts::of(&record, &Profile::default()).is_none());
    }
}
