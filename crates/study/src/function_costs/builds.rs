//! Whether both sides ran the same builds, so that functions without a name of their own are called alike; and
//! functions that have another name on the other side.

use std::borrow::Cow;
use std::collections::HashSet;

use stacks::{Frame, NearSamples, other_builds as other_builds_of};

use super::costs::{Costed, FunctionCosts};
use super::renamed::Renamed;

/// By which names functions are told apart.
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
        let mut names = Self {
            other_builds: other_builds(a, b),
            renamed: Renamed::default(),
        };
        names.renamed = Renamed::of(&names.costed(a), &names.costed(b));
        names
    }

    /// The costs of a side's runs, by names that tell functions of these builds apart.
    fn costed<'c>(&self, side: &[&'c FunctionCosts]) -> Vec<&'c Costed> {
        let of = |run: &&'c FunctionCosts| match self.other_builds.is_empty() {
            true => &run.of_build,
            false => &run.of_names,
        };
        side.iter().map(of).collect()
    }

    /// The costs of the runs of A.
    pub(super) fn runs_of_a<'c>(&self, side: &[&'c FunctionCosts]) -> Vec<RunCosts<'c>> {
        let of = |(run, of): (&&FunctionCosts, &'c Costed)| RunCosts {
            broker: run.broker,
            of: self.renamed.renamed(of),
        };
        side.iter().zip(self.costed(side)).map(of).collect()
    }

    /// The costs of the runs of B.
    pub(super) fn runs_of_b<'c>(&self, side: &[&'c FunctionCosts]) -> Vec<RunCosts<'c>> {
        let of = |(run, of): (&&FunctionCosts, &'c Costed)| RunCosts {
            broker: run.broker,
            of: Cow::Borrowed(of),
        };
        side.iter().zip(self.costed(side)).map(of).collect()
    }
}

/// Files that are other builds on the other side.
fn other_builds(a: &[&FunctionCosts], b: &[&FunctionCosts]) -> Vec<String> {
    // A file that one side alone runs is no other build of anything.
    let (on_a, on_b) = (files(a), files(b));
    let mut found = other_builds_of(&near(a), &near(b));
    found.retain(|file| on_a.contains(file.as_str()) && on_b.contains(file.as_str()));
    found
}

/// The files of which a side runs any function.
fn files<'c>(side: &[&'c FunctionCosts]) -> HashSet<&'c str> {
    let functions = side.iter().flat_map(|run| run.of_build.functions.keys());
    functions.map(|it| it.1.as_str()).collect()
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
