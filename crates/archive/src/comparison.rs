//! Comparison of runs of two sides: every figure with its decision, and costs of functions and call paths.

use std::io::ErrorKind;
use std::path::Path;

use compare::Decision;
use serde::{Deserialize, Serialize};

use crate::files::{read_json, read_json_if_present, replace_json};
use crate::{Error, PairedRuns, QuantityUnit, file};

/// Bytes of a `comparison.json` that are read.
const LARGEST: u64 = 64 << 20;
/// Figures that are decided together at most.
const MOST_FIGURES: usize = 1_000;
/// Looks at the pairs of a comparison.
const MOST_LOOKS: usize = 10;
/// Bytes of a `comparison-stacks.json` that are read.
const LARGEST_STACKS: u64 = 16 << 20;
/// Frames of call paths that are read.
const MOST_FRAMES: usize = 20_000;

/// Runs of two sides, and the decisions on them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Always [`Comparison::SCHEMA`].
    pub schema: String,
    /// Baseline of the comparison.
    pub a: ComparedSide,
    /// Candidate of the comparison.
    pub b: ComparedSide,
    /// Whether runs of the two sides stand in pairs, in the order in which they are listed.
    pub paired: bool,
    /// Whether both sides are the same on purpose, to measure noise.
    pub is_aa: bool,
    /// Chance of a false change among all decided figures.
    pub level: f64,
    /// Pre-planned numbers of pairs at which the experiment could have ended, if any; `level` is that of each look.
    pub looks: Vec<u32>,
    /// The matrix whose figures are decided together with these; `None` where they stand alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub family: Option<ComparedFamily>,
    /// Figures with their decisions.
    pub figures: Vec<ComparedFigure>,
    /// Why the sides should not be compared, where that was forced.
    pub forced: Vec<String>,
    /// Why the experiment ended before all runs were made, in a sentence; `None` where it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broke_off: Option<String>,
    /// Parts of histogram logs that were left out, and the unit that was assumed, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
    /// Functions whose costs changed; `None` where that cannot be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub functions: Option<ComparedFunctions>,
    /// Costs of call paths, in a file of their own; `None` where they are not known.
    #[serde(skip)]
    pub stacks: Option<ComparedStacks>,
    /// Why changed functions are not known, in one sentence; `None` where they are, or nothing was sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_functions: Option<String>,
}

/// Number of decisions that share one `level`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComparedFamily {
    /// Cells of the matrix.
    pub cells: u32,
    /// Figures of all cells.
    pub figures: u32,
}

/// Costs of the broker's functions per message on both sides, in nanoseconds of CPU time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct ComparedFunctions {
    /// Cost of the whole broker.
    pub broker: CostChange,
    /// Costs of functions that are dear enough to test: proven changes first, then by the change of the own cost.
    pub functions: Vec<FunctionChange>,
    /// Sum of the changes of all other functions' own costs; with those of `functions` it makes the broker's change.
    pub others: f64,
    /// At most three functions that explain the broker's change, most of it first; no part of it stands in two.
    pub explained: Vec<ExplainedChange>,
    /// Files of which both sides ran other builds; their functions without names are one row for each file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "typescript", ts(as = "Option<Vec<String>>", optional))]
    pub other_builds: Vec<String>,
    /// Functions with another name on A, each one row and one frame under its name on B; the dearest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "typescript", ts(as = "Option<Vec<RenamedFunction>>", optional))]
    pub renamed: Vec<RenamedFunction>,
}

/// A function that takes another number of arguments in another version, so that it has another name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct RenamedFunction {
    /// Its name on A.
    pub a: String,
    /// Its name on B.
    pub b: String,
}

/// A function that explains a part of a change.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct ExplainedChange {
    /// Its name.
    pub function: String,
    /// The library, program, or `[jit]` and `[kernel]`, that it is of.
    pub module: String,
    /// Change of its cost with its calls, negative for less, without the part that earlier functions explain.
    pub change: f64,
    /// Whether `change` is of its own cost alone, as its stacks are mostly cut and its calls are not known.
    pub own: bool,
}

/// Cost of a function.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct FunctionChange {
    /// Its name.
    pub function: String,
    /// The library, program, or `[jit]` and `[kernel]`, that it is of.
    pub module: String,
    /// Cost with it at the leaf of the stack.
    pub own: CostChange,
    /// Cost with it anywhere on the stack.
    pub total: CostChange,
    /// Share of its cost, on both sides together, whose stacks end before their thread's start (0 to 1).
    pub cut: f64,
}

/// The runs of a side.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ComparedSide {
    /// Title, such as the broker's name and version.
    pub what: String,
    /// Its runs that count.
    pub runs: Vec<ComparedRun>,
    /// Its runs that do not count, and why.
    pub left_out: Vec<LeftOut>,
    /// Whether its runs are histogram logs, one each, of which nothing else is known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub logs: bool,
    /// Blocks of its only run, for intervals within it; `None` where it has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_one_run: Option<RunBlocks>,
}

/// How the only run of a side is cut for intervals within it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct RunBlocks {
    /// Seconds that were measured.
    pub seconds: f64,
    /// Mean length of the blocks that are drawn, in seconds.
    pub block_s: f64,
    /// Why it gives no interval; `None` where it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_not: Option<String>,
}

/// How well runs that stand alone know a quantile: 95 % intervals by the stationary bootstrap over blocks of seconds.
/// They say nothing of how far runs differ, so that nothing is decided by them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct WithinOneRun {
    /// Interval of the only run of A; `None` where A has several, or the figure is no quantile.
    pub a: Option<(f64, f64)>,
    /// Interval of the only run of B.
    pub b: Option<(f64, f64)>,
}

/// A run that counts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ComparedRun {
    /// The run folder's name.
    pub id: String,
    /// A warning makes it invalid by itself, such as a debug build of bellows, which both sides have.
    pub invalid: bool,
    /// A caution says that some of its numbers are off, and nothing more than that.
    pub cautious: bool,
}

/// A run that does not count.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct LeftOut {
    /// The run folder's name.
    pub id: String,
    /// Why, in a few words.
    pub why: String,
}

/// A figure on both sides.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct ComparedFigure {
    /// Its name, as requirements write it.
    pub name: String,
    /// Unit of its values.
    pub unit: QuantityUnit,
    /// Whether more of it is better.
    pub more_is_better: bool,
    /// Its value in each run of A; 0 where it has none.
    pub a: Vec<f64>,
    /// Its value in each run of B.
    pub b: Vec<f64>,
    /// Runs of A and of B in which it is nothing at all. Where there are any, no test applies.
    pub without: (usize, usize),
    /// Geometric means of both, of the runs that have it.
    pub means: (f64, f64),
    /// Relative change from A to B; negative where B is smaller.
    pub change: f64,
    /// Interval of the change, as strict as the decision; where no test applies, the change twice.
    pub interval: (f64, f64),
    /// Two-sided probability of such a change, or a larger one, by chance; `None` where no test applies.
    pub p: Option<f64>,
    /// `p` corrected for the other figures; of pairs, that of the exact test if it is what prevents a decision. Changed
    /// if `level` at most; `None` also where so few runs can show none.
    pub corrected_p: Option<f64>,
    /// Changes within this share do not matter.
    pub margin: f64,
    /// Smallest relative change that so many runs show in four of five experiments; at most 1e9, as for too few runs.
    pub visible: f64,
    /// Decision at `level`.
    pub decision: Decision,
    /// Pairs, or runs of each side, that would show a change as large as the margin; for undecided figures, if known.
    pub needed: Option<u32>,
    /// How well the only run of a side knows the figure, where no test applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_one_run: Option<WithinOneRun>,
    /// Counted runs of a figure about excluded runs, such as [`RunsCounted::INVALID`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "typescript", ts(skip))]
    pub of_runs: Option<RunsCounted>,
}

/// Runs of each side: those that a figure counts, and all that were made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunsCounted {
    /// Runs of A.
    pub a: (usize, usize),
    /// Runs of B.
    pub b: (usize, usize),
}

impl RunsCounted {
    /// The figure that counts runs which their own side spoiled.
    pub const INVALID: &'static str = "invalid runs";
    /// The figure that counts runs in which the generator had nothing left.
    pub const GENERATOR: &'static str = "generator-limited runs";
}

impl Comparison {
    /// Name and version of the format.
    pub const SCHEMA: &'static str = "bellows.comparison/1";

    /// Reads the file of a folder of runs in pairs.
    pub fn read(dir: &Path) -> Result<Self, Error> {
        let path = dir.join(file::COMPARISON);
        let mut read: Self = read_json(&path, LARGEST)?;
        let runs = (read.a.runs.len(), read.b.runs.len());
        let are_looks = read.looks.len() <= MOST_LOOKS && read.looks.iter().all(|it| *it <= PairedRuns::MOST_PAIRS);
        let are_whole = read.figures.iter().all(|figure| (figure.a.len(), figure.b.len()) == runs);
        let is_plausible = read.figures.len() <= MOST_FIGURES && are_whole && are_looks;
        if read.schema != Self::SCHEMA || !is_plausible {
            let cause = format!("it is not a {} with a value for each run", Self::SCHEMA);
            return Err(Error::Damaged { path, cause });
        }
        read.stacks = ComparedStacks::read(dir)?;
        Ok(read)
    }

    /// Writes the file, and that of the stacks, into a folder of runs in pairs, at once or not at all.
    pub fn write(&self, dir: &Path) -> Result<(), Error> {
        ComparedStacks::write(self.stacks.as_ref(), dir)?;
        replace_json(dir.join(file::COMPARISON), self)
    }

    /// Whether a figure changed for the worse.
    pub fn is_worse(&self) -> bool {
        self.figures.iter().any(ComparedFigure::is_worse)
    }

    /// Whether a figure changed for the better.
    pub fn is_better(&self) -> bool {
        self.figures.iter().any(ComparedFigure::is_better)
    }

    /// Whether a figure is undecided.
    pub fn is_undecided(&self) -> bool {
        let mut decisions = self.figures.iter().map(|figure| figure.decision);
        self.figures.is_empty() || decisions.any(|it| it == Decision::Undecided)
    }
}

impl ComparedFigure {
    /// Largest relative change that is given; larger ones show in no number of runs.
    pub const MOST_CHANGE: f64 = 1e9;

    /// Whether a test applies: every run has a value, and neither side has one run alone, or none.
    pub fn is_tested(&self) -> bool {
        let is_one_sided = self.a.is_empty() != self.b.is_empty();
        !is_one_sided && self.without == (0, 0) && self.within_one_run.is_none() && self.of_runs.is_none()
    }

    /// Whether it changed for the worse.
    pub fn is_worse(&self) -> bool {
        self.decision == Decision::Changed && (self.change > 0.0) != self.more_is_better
    }

    /// Whether it changed for the better.
    pub fn is_better(&self) -> bool {
        self.decision == Decision::Changed && !self.is_worse()
    }
}

/// Call paths of two sides as one tree, in nanoseconds of CPU time per message.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct ComparedStacks {
    /// Always [`ComparedStacks::SCHEMA`].
    pub schema: String,
    /// The whole broker.
    pub broker: CostChange,
    /// Functions and groups of threads, each once.
    pub names: Vec<ComparedName>,
    /// Frames, callers first.
    pub frames: Vec<ComparedFrame>,
    /// The level at which all frames together were decided.
    pub level: f64,
    /// Frames below this share of both sides' CPU were left out; their callers keep what they cost.
    pub least_share: f64,
}

/// Name of a frame.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct ComparedName {
    /// The function, or the group of threads.
    pub function: String,
    /// The library, program, or `[jit]` and `[kernel]`, that it is of; empty of a group of threads.
    pub module: String,
}

/// A frame below its callers, with its cost and that of its calls.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct ComparedFrame {
    /// The caller, an index that is smaller than its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "typescript", ts(optional))]
    pub parent: Option<u32>,
    /// Index into [`ComparedStacks::names`].
    pub name: u32,
    /// Mean of A's runs.
    pub a: f64,
    /// Mean of B's runs.
    pub b: f64,
    /// Interval of B less A, as strict as the decision.
    pub interval: (f64, f64),
    /// Whether something changed in it or below. Only then its calls were tested.
    pub asked: bool,
    /// Whether the change of the whole of it is none of chance.
    pub proven: bool,
    /// Smallest change that so many runs show in four of five experiments; `None` where they are too few.
    pub visible: Option<f64>,
}

impl ComparedFrame {
    /// B less A.
    pub fn change(&self) -> f64 {
        self.b - self.a
    }
}

impl ComparedStacks {
    /// Name and version of the format.
    pub const SCHEMA: &'static str = "bellows.compared-stacks/1";

    /// The name of a frame.
    pub fn name(&self, frame: &ComparedFrame) -> Option<&ComparedName> {
        self.names.get(frame.name as usize)
    }

    /// Reads those of a folder of runs in pairs; `None` where it has none.
    pub(crate) fn read(dir: &Path) -> Result<Option<Self>, Error> {
        let path = dir.join(file::COMPARED_STACKS);
        let Some(read) = read_json_if_present::<Self>(&path, LARGEST_STACKS)? else { return Ok(None) };
        if read.schema != Self::SCHEMA || !read.is_consistent() {
            let cause = format!("it is not a {} with callers before callees", Self::SCHEMA);
            return Err(Error::Damaged { path, cause });
        }
        Ok(Some(read))
    }

    /// Writes them into a folder of runs in pairs; none takes those away that were there.
    pub(crate) fn write(of: Option<&Self>, dir: &Path) -> Result<(), Error> {
        let path = dir.join(file::COMPARED_STACKS);
        if let Some(stacks) = of {
            return replace_json(path, stacks);
        }
        match std::fs::remove_file(&path) {
            Err(source) if source.kind() != ErrorKind::NotFound => Err(Error::Io { action: "remove", path, source }),
            _ => Ok(()),
        }
    }

    fn is_consistent(&self) -> bool {
        let is_right = |(at, frame): (usize, &ComparedFrame)| {
            (frame.name as usize) < self.names.len() && frame.parent.is_none_or(|parent| (parent as usize) < at)
        };
        self.frames.len() <= MOST_FRAMES && self.frames.iter().enumerate().all(is_right)
    }
}

/// A cost per message on both sides, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct CostChange {
    /// Mean of A's runs.
    pub a: f64,
    /// Mean of B's runs.
    pub b: f64,
    /// Interval of B less A, as strict as the decision.
    pub interval: (f64, f64),
    /// Two-sided probability of such a change, or a larger one, by chance, corrected for the other functions.
    pub p: f64,
    /// Whether the change is significant.
    pub proven: bool,
    /// Smallest change that so many runs show in four of five experiments; `None` where they are too few.
    pub visible: Option<f64>,
}

impl CostChange {
    /// B less A.
    pub fn change(&self) -> f64 {
        self.b - self.a
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stacks of one frame, with this caller.
    fn stacks(parent: Option<u32>) -> Option<ComparedStacks> {
        Some(ComparedStacks {
            schema: ComparedStacks::SCHEMA.to_owned(),
            names: vec![ComparedName::default()],
            frames: vec![ComparedFrame { parent, ..ComparedFrame::default() }],
            ..ComparedStacks::default()
        })
    }

    #[test]
    fn what_is_written_is_read_and_a_value_for_each_run_is_expected() {
        let dir = tempfile::tempdir().unwrap();
        assert!(Comparison::read(dir.path()).is_err());
        let side = ComparedSide { runs: vec![ComparedRun::default(); 2], ..ComparedSide::default() };
        let mut of = Comparison {
            schema: Comparison::SCHEMA.to_owned(),
            a: side.clone(),
            b: side,
            figures: vec![ComparedFigure {
                name: "sent rate".into(),
                a: vec![1.0, 2.0],
                b: vec![1.5, 2.5],
                ..ComparedFigure::default()
            }],
            stacks: stacks(None),
            ..Comparison::default()
        };
        of.write(dir.path()).unwrap();
        assert_eq!(Comparison::read(dir.path()).unwrap(), of);
        // Those of a comparison before are none of one that has none.
        of.stacks = None;
        of.write(dir.path()).unwrap();
        assert_eq!(Comparison::read(dir.path()).unwrap(), of);
        // A frame that stands before its caller is none.
        of.stacks = stacks(Some(0));
        of.write(dir.path()).unwrap();
        let told = Comparison::read(dir.path()).expect_err("a frame that calls itself");
        assert!(told.to_string().contains("callers before"), "{told}");
        of.stacks = None;
        // The level of looks is found by playing as many pairs.
        of.looks = vec![u32::MAX];
        of.write(dir.path()).unwrap();
        assert!(Comparison::read(dir.path()).is_err());
        of.looks = vec![6, 8];
        of.figures[0].b.push(3.0);
        of.write(dir.path()).unwrap();
        let told = Comparison::read(dir.path()).expect_err("three values of two runs");
        assert!(told.to_string().contains("each run"), "{told}");
    }
}
