//! Runs of one experiment over months: where a figure changed its level.

use serde::Serialize;

use crate::{LeftOut, QuantityUnit};

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
