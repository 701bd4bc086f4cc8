//! Functions that two versions call otherwise: with another number of arguments, or as another copy that the compiler
//! made. Told apart by their names they would have vanished on one side and appeared on the other, and with them all
//! that they call. Functions without a name of their own are called alike only where both sides ran the same builds.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use archive::RenamedFunction;
use stacks::{Frame, NearSamples, other_builds as other_builds_of, without_copies};

use super::{Costed, Function, FunctionCosts};

/// Signs before a number in the name of an Erlang function: its arity, and the place of a closure in its function.
const BEFORE_NUMBERS: [char; 3] = ['/', '-', '^'];

/// Share of the cost of functions that share a name from which on one of them is nearly all of it: closures are
/// numbered anew where a function has got another one, and most of them cost next to nothing.
const NEARLY_ALL: f64 = 0.8;

/// Functions whose names on A are others than on B.
#[derive(Default)]
pub(super) struct Renamed {
    to: HashMap<Function, Function>,
    /// All of them, the dearest first.
    pub(super) told: Vec<RenamedFunction>,
}

/// Functions that share a name but for its numbers: those of A and of B alone, and whether both have some.
#[derive(Default)]
struct Alike<'c> {
    a: Vec<Alone<'c>>,
    b: Vec<Alone<'c>>,
    common: bool,
}

#[derive(Clone, Copy)]
struct Alone<'c> {
    function: &'c Function,
    /// In the mean of the side's runs.
    cost: f64,
    /// Whether each of them has it.
    in_all: bool,
}

impl Renamed {
    /// Those of runs of A and B: one function of each name that every run of A has and none of B, and one that every
    /// run of B has and none of A. Where there are more of nearly the same cost, which of them is which is not known.
    pub(super) fn of(a: &[&Costed], b: &[&Costed]) -> Self {
        let (in_a, in_b) = (met(a), met(b));
        let mut alike: HashMap<(String, &str), Alike<'_>> = HashMap::new();
        for (function, met) in &in_a {
            let alike = alike.entry((base(&function.0), &function.1)).or_default();
            if in_b.contains_key(function) { alike.common = true } else { alike.a.push(met.alone(function, a.len())) }
        }
        for (function, met) in in_b.iter().filter(|(it, _)| !in_a.contains_key(*it)) {
            alike.entry((base(&function.0), &function.1)).or_default().b.push(met.alone(function, b.len()));
        }
        let mut found: Vec<(&Function, &Function, f64)> = alike.values().filter_map(Alike::one).collect();
        found.sort_by(|one, other| other.2.total_cmp(&one.2).then_with(|| one.1.cmp(other.1)));
        let told = found.iter().map(|(a, b, _)| RenamedFunction { a: a.0.clone(), b: b.0.clone() });
        Self { told: told.collect(), to: found.iter().map(|&(a, b, _)| (a.clone(), b.clone())).collect() }
    }

    pub(super) fn renamed<'c>(&self, of: &'c Costed) -> Cow<'c, Costed> {
        if self.to.is_empty() {
            return Cow::Borrowed(of);
        }
        let mut renamed = of.clone();
        let functions = of.functions.iter();
        let functions = functions.map(|(function, costs)| (self.to.get(function).unwrap_or(function).clone(), *costs));
        renamed.functions = functions.collect();
        for name in &mut renamed.stacks.names {
            let key = (name.function.clone(), name.module.clone());
            if let Some((function, _)) = self.to.get(&key) {
                name.function.clone_from(function);
            }
        }
        Cow::Owned(renamed)
    }
}

impl<'c> Alike<'c> {
    /// The function's name on A and on B, and what it costs, where each side has one that the other one does not have.
    fn one(&self) -> Option<(&'c Function, &'c Function, f64)> {
        let (a, b) = (dearest(&self.a)?, dearest(&self.b)?);
        (!self.common).then_some((a.function, b.function, a.cost + b.cost))
    }
}

/// The only function of these, or the one that holds nearly all of their cost; every run of the side has it.
fn dearest<'c>(alone: &[Alone<'c>]) -> Option<Alone<'c>> {
    let all: f64 = alone.iter().map(|it| it.cost).sum();
    let mut most = alone.iter().filter(|it| it.cost >= all * NEARLY_ALL);
    most.next().filter(|it| it.in_all && it.cost > 0.0).copied()
}

/// In how many runs a function was met, and what it cost in all of them.
#[derive(Default)]
struct Met {
    runs: usize,
    cost: f64,
}

impl Met {
    fn alone<'c>(&self, function: &'c Function, runs: usize) -> Alone<'c> {
        Alone { function, cost: self.cost / runs.max(1) as f64, in_all: self.runs == runs }
    }
}

fn met<'c>(side: &[&'c Costed]) -> HashMap<&'c Function, Met> {
    let mut found: HashMap<&Function, Met> = HashMap::new();
    for (function, costs) in side.iter().flat_map(|run| &run.functions) {
        let met = found.entry(function).or_default();
        met.runs += 1;
        met.cost += costs.total;
    }
    found
}

/// A function's name without the numbers that another version may give it.
fn base(name: &str) -> String {
    let is_digit = |it: char| it.is_ascii_digit();
    let of_erlang = name.contains(':')
        && (name.rsplit_once('/')).is_some_and(|(_, arity)| !arity.is_empty() && arity.chars().all(is_digit));
    if of_erlang {
        let mut base = String::with_capacity(name.len());
        for next in name.chars() {
            let follows = base.ends_with(|it| BEFORE_NUMBERS.contains(&it));
            if !(follows && is_digit(next)) {
                base.push(next);
            }
        }
        return base;
    }
    without_copies(name).to_owned()
}

pub(super) struct Names {
    /// Files that have functions without a name of their own and are another build on the other side.
    pub(super) other_builds: Vec<String>,
    /// Functions whose names on A are others than on B.
    pub(super) renamed: Renamed,
}

/// A run's costs by the names that both sides have.
pub(super) struct RunCosts<'c> {
    pub(super) broker: f64,
    pub(super) of: Cow<'c, Costed>,
}

impl Names {
    pub(super) fn of(a: &[&FunctionCosts], b: &[&FunctionCosts]) -> Self {
        let mut names = Self { other_builds: other_builds(a, b), renamed: Renamed::default() };
        names.renamed = Renamed::of(&names.costed(a), &names.costed(b));
        names
    }

    /// The costs of a side's runs, by names that tell functions of these builds apart.
    fn costed<'c>(&self, side: &[&'c FunctionCosts]) -> Vec<&'c Costed> {
        let of = |run: &&'c FunctionCosts| if self.other_builds.is_empty() { &run.of_build } else { &run.of_names };
        side.iter().map(of).collect()
    }

    /// The costs of a side's runs, which are those of A or of B, by the names of B.
    pub(super) fn runs<'c>(&self, side: &[&'c FunctionCosts], is_a: bool) -> Vec<RunCosts<'c>> {
        let of = |(run, of): (&&FunctionCosts, &'c Costed)| RunCosts {
            broker: run.broker,
            of: if is_a { self.renamed.renamed(of) } else { Cow::Borrowed(of) },
        };
        side.iter().zip(self.costed(side)).map(of).collect()
    }
}

fn other_builds(a: &[&FunctionCosts], b: &[&FunctionCosts]) -> Vec<String> {
    // A file that one side alone runs is no other build of anything.
    let (on_a, on_b) = (files(a), files(b));
    let mut found = other_builds_of(&near(a), &near(b));
    found.retain(|file| on_a.contains(file.as_str()) && on_b.contains(file.as_str()));
    found
}

fn files<'c>(side: &[&'c FunctionCosts]) -> HashSet<&'c str> {
    side.iter().flat_map(|run| run.of_build.functions.keys()).map(|it| it.1.as_str()).collect()
}

/// Samples of the functions without a name of their own in all runs, by name and file.
fn near<'c>(side: &[&'c FunctionCosts]) -> NearSamples<'c> {
    let mut near = NearSamples::default();
    // Of a run without a sample nothing is known.
    for run in side.iter().filter(|run| run.broker > 0.0) {
        near.builds.add_all(&run.builds);
        let samples = run.summary.samples as f64;
        near.all += samples;
        let functions = run.of_build.functions.iter();
        for ((name, file), costs) in functions.filter(|(it, _)| Frame::is_name_near(&it.0)) {
            let of_function = costs.own / run.broker * samples;
            *near.of.entry((name.as_str(), file.as_str())).or_default() += of_function;
        }
    }
    near
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_without_what_versions_change() {
        for (one, other) in [
            ("$m:f/2", "$m:f/13"),
            ("$m:'-deliver0/3-fun-3-'/4", "$m:'-deliver0/4-fun-15-'/5"),
            ("$m:'-f/1-lc$^0/1-0-'/1", "$m:'-f/2-lc$^1/1-0-'/1"),
            ("schedule.isra.0", "schedule"),
            ("f.constprop.0.isra.1", "f.part.3"),
        ] {
            assert_eq!(base(one), base(other), "{one} {other}");
        }
        for (one, other) in
            [("$m:f1/2", "$m:f2/2"), ("$m:f/2", "$n:f/2"), ("net/http1", "net/http2"), ("main.func1", "main.func2")]
        {
            assert_ne!(base(one), base(other), "{one} {other}");
        }
    }
}
