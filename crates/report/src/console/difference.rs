//! The table of two profiles' functions.

use std::collections::BTreeSet;

use compare::ShareDifference;
use measure::Problem;
use serde::Serialize;
use stacks::Class;

use super::functions::{FunctionRowOf, change, notes, shown_of};
use super::table::Table;
use super::text::{Style, sanitise};
use crate::difference::{DifferenceRow, DifferenceSide, differences, smallest_change};
use crate::numbers::{percent_digits, weight};
use crate::text::functions::{estimated_changes, other_builds};

/// Shares whose smallest visible change is given.
const EXAMPLES: [f64; 2] = [0.01, 0.1];

measure::named! {
    /// Order of the rows.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum DifferenceSort {
        /// How far the shares with the function at the leaf differ; what chance gives comes last.
        #[default]
        Change = "change",
        /// How far the shares with the function anywhere differ; what chance gives comes last.
        TotalChange = "total-change",
        /// The larger share with the function at the leaf.
        SelfShare = "self",
        /// The larger share with the function anywhere.
        Total = "total",
    }
}

/// Two profiles, and options of their table.
pub struct DifferenceTable<'a> {
    /// Kind of the rows.
    pub of: FunctionRowOf,
    /// At most this many rows.
    pub limit: usize,
    /// Their order, largest first.
    pub sort: DifferenceSort,
    /// Only functions of which this says yes, by their name.
    pub only: &'a dyn Fn(&str) -> bool,
    /// Baseline of the comparison.
    pub a: DifferenceSide<'a>,
    /// Candidate of the comparison.
    pub b: DifferenceSide<'a>,
    /// Why they should not be compared, where that was forced.
    pub forced: &'a [Problem],
    /// Files that are another build on either side, whose functions without a name are one row.
    pub other_builds: &'a [String],
    /// Virtual machines whose functions without a symbol count for other classes on either side.
    pub machines_without_symbols: &'a [String],
}

struct Rows {
    shown: Vec<DifferenceRow>,
    /// Whether some matching row has a significant change.
    differ: bool,
    matching: usize,
    all: usize,
}

impl DifferenceSort {
    fn key(self, row: &DifferenceRow) -> f64 {
        let told = |it: &ShareDifference| match it.proven {
            true => it.change().abs(),
            // Those come last, the larger ones first.
            false => it.change().abs() - 1.0,
        };
        match self {
            Self::Change => told(&row.own),
            Self::TotalChange => told(&row.total),
            Self::SelfShare => row.own.a.max(row.own.b),
            Self::Total => row.total.a.max(row.total.b),
        }
    }
}

impl DifferenceTable<'_> {
    fn rows(&self) -> Rows {
        let [a, b] = [self.a.profile, self.b.profile].map(|profile| self.of.grouped(profile));
        let mut rows = if self.of == FunctionRowOf::Function {
            let known = a.knows_modules() && b.knows_modules();
            differences(&a.by_function(known), &b.by_function(known))
        } else {
            differences(&a, &b)
        };
        let estimated = self.estimated_rows();
        for row in rows.iter_mut().filter(|row| estimated.contains(&row.function)) {
            (row.own.proven, row.total.proven) = (false, false);
        }
        rows.sort_by(|x, y| self.sort.key(y).total_cmp(&self.sort.key(x)));
        let all = rows.len();
        rows.retain(|row| (self.only)(&row.function));
        let matching = rows.len();
        let differ = rows.iter().any(|row| row.own.proven || row.total.proven);
        rows.truncate(self.limit);
        Rows { shown: rows, differ, matching, all }
    }

    /// Names of the rows that need symbols which one side lacks.
    fn estimated_rows(&self) -> BTreeSet<String> {
        let profiles = [self.a.profile, self.b.profile];
        let name = |class: Class| match self.of {
            FunctionRowOf::Class => vec![class.name().to_owned()],
            FunctionRowOf::Language => profiles.map(|it| it.class_label(class)).into(),
            _ => Vec::new(),
        };
        let needs = |class: &Class| class.needs_symbols() && !self.machines_without_symbols.is_empty();
        Class::ALL.into_iter().filter(needs).flat_map(name).collect()
    }

    /// Notes on files whose functions have other names on either side.
    fn notes_on_names(&self) -> Option<String> {
        match self.of {
            FunctionRowOf::Function => other_builds(self.other_builds),
            FunctionRowOf::Class | FunctionRowOf::Language => estimated_changes(self.machines_without_symbols),
            _ => None,
        }
    }

    /// A function stands in one place of a stack, and may call others; a class, or whose work it is, is of all of it.
    const fn has_totals(&self) -> bool {
        use FunctionRowOf::{Function, Line, Module};
        matches!(self.of, Function | Line | Module)
    }
}

/// Functions of two profiles, and notes on the whole, ending in a newline.
pub fn difference(table: &DifferenceTable<'_>, style: Style) -> String {
    let rows = table.rows();
    let (heads, figures_of) = match table.has_totals() {
        true => ("self A %|self B %|change|total A %|total B %|change", 6),
        false => ("A %|B %|change", 3),
    };
    let mut figures_table = Table::of(&format!("{heads}|{}<", table.of.name()));
    figures_table.named_by(figures_of);
    for row in &rows.shown {
        let mut cells = figures(&row.own).to_vec();
        if table.has_totals() {
            cells.extend(figures(&row.total));
        }
        cells.push(sanitise(&row.function).into_owned());
        figures_table.row(cells);
    }
    let mut lines = Vec::new();
    if !rows.differ && !rows.shown.is_empty() {
        lines.extend(style.strong_lines("no significant difference"));
    }
    lines.extend(figures_table.strong_lines(style));
    lines.push(String::new());
    lines.extend(footer(table, &rows, style));
    lines.join("\n") + "\n"
}

fn figures(of: &ShareDifference) -> [String; 3] {
    [percent_digits(of.a), percent_digits(of.b), change(of.change(), !of.proven && of.change() != 0.0)]
}

fn footer(table: &DifferenceTable<'_>, rows: &Rows, style: Style) -> Vec<String> {
    let side = |letter, side: &DifferenceSide<'_>| {
        let header = &side.profile.header;
        let samples = weight(side.profile.total_weight(), &sanitise(&header.unit));
        format!("{letter}: {}, {samples}", sanitise(side.name))
    };
    let marked = table.forced.iter().map(|problem| {
        let of = sanitise(&problem.value).into_owned();
        style.caution(&format!("forced: {} ({of})", problem.cause))
    });
    let sides = [side("A", &table.a), side("B", &table.b)];
    let shown = shown_of([rows.shown.len(), rows.matching, rows.all], table.of.name());
    let shown = format!(
        "{shown}; change: share in B minus share in A, in points; ~ not significant (within three standard errors of \
         independent samples, or fewer than ten samples)"
    );
    let notes = [table.a.profile, table.b.profile].into_iter().flat_map(|it| notes(it).collect::<Vec<_>>());
    let is_language = table.of == FunctionRowOf::Language;
    let language = is_language.then(|| {
        "each function with the native code below it; native functions by name: `bellows diff --raw`".to_owned()
    });
    let faint = sides
        .into_iter()
        .chain([shown, smallest(table)])
        .chain(language)
        .chain(table.notes_on_names().map(|it| sanitise(&it).into_owned()))
        .chain(notes);
    let faint = faint.flat_map(|line| style.faint_prose(&line));
    marked.flat_map(|line| style.prose_lines(&line)).chain(faint).collect()
}

fn smallest(table: &DifferenceTable<'_>) -> String {
    let changes = smallest_changes(table).into_iter();
    let told = changes.map(|it| format!("{:.2} points at a share of {:.0} %", it.change * 100.0, it.share * 100.0));
    let told: Vec<String> = told.collect();
    let sides = [&table.a, &table.b].map(|it| it.profile.total_weight());
    match told.as_slice() {
        [] if sides.contains(&0) => "One side is empty: nothing to compare".to_owned(),
        [] => "Too few samples to detect a change of a share of 1 % or 10 %".to_owned(),
        told => format!(
            "The smallest change that these samples can show: {}; `bellows run --repeat` shows how much runs differ",
            told.join(", ")
        ),
    }
}

/// The smallest change of a share that these samples can show.
#[derive(Serialize)]
struct SmallestChange {
    share: f64,
    change: f64,
}

fn smallest_changes(table: &DifferenceTable<'_>) -> Vec<SmallestChange> {
    let told =
        |share| Some(SmallestChange { share, change: smallest_change(share, table.a.profile, table.b.profile)? });
    EXAMPLES.into_iter().filter_map(told).collect()
}

/// A side of [`DifferenceJson`].
#[derive(Serialize)]
struct SideJson<'a> {
    name: &'a str,
    event: &'a str,
    unit: &'a str,
    weight: u64,
}

/// Shares of a row on one side.
#[derive(Serialize)]
struct SharesJson {
    #[serde(rename = "self")]
    own: f64,
    total: f64,
    samples: u64,
}

/// A row of [`DifferenceJson`].
#[derive(Serialize)]
struct RowJson {
    #[serde(rename = "function")]
    name: String,
    module: String,
    a: SharesJson,
    b: SharesJson,
    self_change: f64,
    self_by_chance: bool,
    total_change: f64,
    total_by_chance: bool,
}

/// The table for programs.
#[derive(Serialize)]
struct DifferenceJson<'a> {
    a: SideJson<'a>,
    b: SideJson<'a>,
    by: &'static str,
    forced: Vec<String>,
    other_builds: &'a [String],
    machines_without_symbols: &'a [String],
    smallest_changes: Vec<SmallestChange>,
    rows: Vec<RowJson>,
}

/// The table as JSON.
pub fn difference_as_json(table: &DifferenceTable<'_>) -> impl Serialize {
    fn side<'s>(side: &DifferenceSide<'s>) -> SideJson<'s> {
        SideJson {
            name: side.name,
            event: &side.profile.header.event,
            unit: &side.profile.header.unit,
            weight: side.profile.total_weight(),
        }
    }
    let row = |row: DifferenceRow| RowJson {
        a: SharesJson { own: row.own.a, total: row.total.a, samples: row.weights[0] },
        b: SharesJson { own: row.own.b, total: row.total.b, samples: row.weights[1] },
        self_change: row.own.change(),
        self_by_chance: !row.own.proven,
        total_change: row.total.change(),
        total_by_chance: !row.total.proven,
        name: row.function,
        module: row.module,
    };
    DifferenceJson {
        a: side(&table.a),
        b: side(&table.b),
        by: table.of.name(),
        forced: table.forced.iter().map(ToString::to_string).collect(),
        other_builds: table.other_builds,
        machines_without_symbols: table.machines_without_symbols,
        smallest_changes: smallest_changes(table),
        rows: table.rows().shown.into_iter().map(row).collect(),
    }
}
