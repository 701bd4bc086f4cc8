//! Runs of one experiment. `repeats.json` has the figures of consecutive runs and stands in the folder of the last of
//! them; a history is of months, and tells where a figure changed its level.

use std::path::Path;

use compare::Spread;
use serde::{Deserialize, Serialize};

use crate::files::{read_json_if_present, replace_json};
use crate::{Error, LeftOut, QuantityUnit, RunState, RunSummary, file};

/// Bytes of a `repeats.json` that are read: those of [`Repeats::MOST_RUNS`].
const LARGEST: u64 = 4 << 20;
/// Figures that runs are compared by; a run has about thirty.
const MOST_FIGURES: usize = 200;

/// Runs of one experiment, one after the other.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Repeats {
    /// Always [`Repeats::SCHEMA`].
    pub schema: String,
    /// The experiment's name.
    pub name: String,
    /// Runs that were requested.
    pub requested: u32,
    /// The runs that were made, in the order of time.
    pub runs: Vec<RepeatedRun>,
    /// The headline figures, in the order in which they are shown.
    pub figures: Vec<RepeatedFigure>,
}

/// One of the runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct RepeatedRun {
    /// The run folder's name; empty where none was kept.
    pub id: String,
    /// How far it got. Only complete runs count.
    pub state: RunState,
    /// A warning says that one of its numbers must not be used.
    pub invalid: bool,
    /// Has warnings of tier caution: they say which of its numbers are off, and which way.
    pub cautious: bool,
    /// Names of figures in which it is an outlier.
    pub apart: Vec<String>,
}

/// One figure in all runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct RepeatedFigure {
    /// Its name, as requirements write it.
    pub name: String,
    /// Unit of its values.
    pub unit: QuantityUnit,
    /// A value for each run; `None` where it cannot be told or the run is not complete.
    pub values: Vec<Option<f64>>,
    /// How they spread.
    #[serde(flatten)]
    pub spread: Spread,
}

/// JSON of repeated runs, as `--json` prints it.
#[derive(Clone, Debug, Serialize)]
pub struct RepeatsSummary<'a> {
    /// Figures over all runs.
    #[serde(flatten)]
    pub repeats: &'a Repeats,
    /// The summary of each run.
    pub summaries: Vec<&'a RunSummary>,
}

impl Repeats {
    /// Name and version of the format.
    pub const SCHEMA: &'static str = "bellows.repeats/1";
    /// Runs of one command line; their account is kept in memory.
    pub const MOST_RUNS: u32 = 1_000;
    /// Bytes of a name in it, such as the experiment's.
    pub const LONGEST_NAME: usize = 1_000;

    /// Reads a run folder's file; `None` where it has none.
    pub fn read(dir: &Path) -> Result<Option<Self>, Error> {
        let path = dir.join(file::REPEATS);
        let Some(read) = read_json_if_present::<Self>(&path, LARGEST)? else { return Ok(None) };
        if !read.is_plausible() {
            return Err(Error::Damaged { path, cause: "it has too many runs or figures".to_owned() });
        }
        let whole = |figure: &RepeatedFigure| figure.values.len() == read.runs.len();
        if read.schema != Self::SCHEMA || !read.figures.iter().all(whole) {
            let cause = format!("it is not a {} with a value for each run", Self::SCHEMA);
            return Err(Error::Damaged { path, cause });
        }
        Ok(Some(read))
    }

    /// Whether it holds no more than runs can have led to: reports draw all of it.
    fn is_plausible(&self) -> bool {
        let figures = self.figures.iter().map(|figure| &figure.name);
        let names = self.runs.iter().flat_map(|run| std::iter::once(&run.id).chain(&run.apart));
        let mut names = names.chain(figures).chain([&self.name]);
        self.runs.len() <= Self::MOST_RUNS as usize
            && self.figures.len() <= MOST_FIGURES
            && self.runs.iter().all(|run| run.apart.len() <= MOST_FIGURES)
            && names.all(|name| name.len() <= Self::LONGEST_NAME)
    }

    /// Writes the file into a run folder, at once or not at all.
    pub fn write(&self, dir: &Path) -> Result<(), Error> {
        replace_json(dir.join(file::REPEATS), self)
    }
}

/// The runs of an experiment in the order of time, and where its figures changed.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct History {
    /// Always [`History::SCHEMA`].
    pub schema: String,
    /// The experiment's name.
    pub name: String,
    /// Different loads of the runs of this name, whether they count or not.
    pub loads: usize,
    /// Whether runs are called so after their command, such as `client`, and not by an experiment.
    pub ad_hoc: bool,
    /// Chance of a false change in runs without any, over all figures.
    pub level: f64,
    /// Fewest runs that can show a change which lasts until the end, at this level in so many figures.
    pub least_runs: usize,
    /// Fewer runs can show no change that went back.
    pub least_runs_for_return: usize,
    /// Fewest and most runs of a change that went back, for it to show in these runs; `None` where none can.
    pub runs_until_return: Option<(usize, usize)>,
    /// Whether the runs that count are those of a debug build of bellows, which makes each of them invalid by itself.
    pub debug_build: bool,
    /// The runs that count, the oldest first.
    pub runs: Vec<HistoryRun>,
    /// The other runs, and why they do not count.
    pub left_out: Vec<LeftOut>,
    /// Every figure, as far as there are not too many.
    pub figures: Vec<HistoryFigure>,
    /// Further figures, which were not tested.
    pub figures_left_out: usize,
    /// Parts of these runs that were not compared, a sentence each.
    pub remarks: Vec<String>,
}

impl History {
    /// Name and version of the format.
    pub const SCHEMA: &'static str = "bellows.history/1";
}

/// A run that counts.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct HistoryRun {
    /// The run folder's name.
    pub id: String,
    /// When it began, RFC 3339 in UTC.
    pub created: String,
    /// The broker's name and version.
    pub broker: String,
}

/// A figure over the runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct HistoryFigure {
    /// Its name.
    pub name: String,
    /// Unit of its values.
    pub unit: QuantityUnit,
    /// Whether more of it is better.
    pub more_is_better: bool,
    /// Whether its values are 1 for runs of some kind and 0 for others: invalid ones, or those that lack a figure.
    pub of_runs: bool,
    /// Why the last run that lacks a figure does; empty for figures of another kind.
    pub why: String,
    /// One for each run; `None` where the run has none.
    pub values: Vec<Option<f64>>,
    /// Between changes the figure has a level; one more than changes.
    pub levels: Vec<HistoryLevel>,
    /// Changes, the earliest first.
    pub changes: Vec<HistoryChange>,
    /// Outliers of a figure without a change, by their numbers from 0 on.
    pub apart: Vec<usize>,
    /// If the outliers are neighbours and as many as a level has: fewest runs in which they show as such a change.
    pub runs_for_apart: Option<usize>,
}

/// The runs between two changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct HistoryLevel {
    /// The first run, by its number from 0 on.
    pub from: usize,
    /// The run behind the last one.
    pub to: usize,
    /// The geometric mean of their values; the arithmetic one where the figure is 0 in any run of the history.
    pub mean: f64,
}

/// A place at which a figure changed.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct HistoryChange {
    /// The first run of the new level, by its number from 0 on.
    pub run: usize,
    /// The last run of the old level, and the first of the new one.
    pub between: (String, String),
    /// Relative change of the mean; 1e9 at most, also from 0.
    pub change: f64,
    /// The chance of such a change where nothing changed.
    pub p: f64,
    /// Whether it is a change for the worse.
    pub worse: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(id: &str, apart: Vec<String>) -> RepeatedRun {
        RepeatedRun { id: id.into(), state: RunState::Complete, invalid: false, cautious: true, apart }
    }

    #[test]
    fn repeats_are_written_and_read_and_nothing_half_or_oversized_is_believed() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Repeats::read(dir.path()).unwrap(), None);
        let mut repeats = Repeats {
            schema: Repeats::SCHEMA.to_owned(),
            name: "<b>".into(),
            requested: 2,
            runs: vec![run("a", vec!["sent rate".into()])],
            figures: vec![RepeatedFigure {
                name: "sent rate".into(),
                values: vec![Some(2.5)],
                ..RepeatedFigure::default()
            }],
        };
        repeats.write(dir.path()).unwrap();
        assert_eq!(Repeats::read(dir.path()).unwrap(), Some(repeats.clone()));
        repeats.figures[0].values.push(None);
        repeats.write(dir.path()).unwrap();
        assert!(Repeats::read(dir.path()).is_err());
        std::fs::write(dir.path().join(file::REPEATS), "{").unwrap();
        assert!(Repeats::read(dir.path()).is_err());
        // Reports draw all of a file, so that an oversized one is refused.
        let dir = tempfile::tempdir().unwrap();
        let of = |runs: usize, figures: usize, name: usize| Repeats {
            schema: Repeats::SCHEMA.into(),
            name: "n".repeat(name),
            requested: 3,
            runs: vec![run("x", Vec::new()); runs],
            figures: (0..figures)
                .map(|_| RepeatedFigure { values: vec![Some(1.0); runs], ..RepeatedFigure::default() })
                .collect(),
        };
        for (repeats, is_believed) in
            [(of(1_000, 20, 10), true), (of(1_001, 0, 10), false), (of(3, 201, 10), false), (of(3, 2, 1_001), false)]
        {
            repeats.write(dir.path()).unwrap();
            let read = Repeats::read(dir.path());
            assert_eq!(read.is_ok(), is_believed, "{:?}", read.err());
        }
    }
}
