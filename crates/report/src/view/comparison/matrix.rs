//! The view model of a matrix: where a change helps and where it hurts, as data.

use std::path::Path;

use archive::{ComparedCell, ComparedMatrix, Comparison, Hardware, MatrixKey, PairedMatrix, PairedRuns};
use serde::Serialize;

use super::{
    ComparisonOutcome, ComparisonSource, ExperimentDifference, FigureRow, OpenedSide, SideView, SideWarning,
    differences_between, first_created, made_anew, side_warnings, was_decided,
};
use crate::text::comparison as words;
use crate::text::functions;
use crate::text::matrix as matrix_words;

/// Source of a matrix's page.
#[derive(Clone, Copy, Debug)]
pub struct MatrixSource<'a> {
    /// The decisions.
    pub matrix: &'a ComparedMatrix,
    /// The folder with the folders of all cells.
    pub dir: &'a Path,
    /// The folder that the page will stand in: pages below it are linked to.
    pub folder: Option<&'a Path>,
}

/// A matrix as a person sees it.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct MatrixView {
    /// The experiment's name.
    pub name: String,
    /// When its first run began, RFC 3339 in UTC; empty where that is not known.
    pub created: String,
    /// Version of the bellows that wrote the page.
    pub bellows: String,
    /// Outcome of all cells together.
    pub outcome: ComparisonOutcome,
    /// Cells where it helps and where it hurts, in a sentence.
    pub headline: String,
    /// Baseline of all cells.
    pub a: SideView,
    /// Candidate of all cells.
    pub b: SideView,
    /// Keys of the experiment in which the sides differ, in every cell.
    pub differences: Vec<ExperimentDifference>,
    /// The keys that are varied.
    pub keys: Vec<MatrixKey>,
    /// Short names of the keys.
    pub key_names: Vec<String>,
    /// The cells, the last key's value changing first.
    pub cells: Vec<CellView>,
    /// The names of all figures that cells have.
    pub figures: Vec<String>,
    /// Number of leading `figures` that answer a reader's first questions.
    pub main_figures: usize,
    /// Why the sides should not be compared, where that was forced.
    pub forced: Vec<String>,
    /// Recomputed and missing parts.
    pub remarks: Vec<String>,
    /// Warnings of the runs, each once.
    pub warnings: Vec<SideWarning>,
    /// How it is decided, a sentence each.
    pub notes: Vec<String>,
    /// The machine of the first run.
    pub hardware: Hardware,
}

/// A cell as a person sees it.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct CellView {
    /// A value of each key.
    pub values: Vec<String>,
    /// Label: `queue-type=classic, num-destinations=1`.
    pub label: String,
    /// Outcome of its figures; `None` where nothing is decided.
    pub outcome: Option<ComparisonOutcome>,
    /// The outcome in a few words.
    pub decided: String,
    /// Changes in it, in a sentence.
    pub headline: String,
    /// Functions that explain it, in a sentence.
    pub explanation: Option<String>,
    /// Its own page beside this one, as names of folders and file; empty without one.
    pub page: Vec<String>,
    /// Every figure that is decided.
    pub figures: Vec<FigureRow>,
}

impl MatrixView {
    /// Reads the archive of all cells' runs.
    pub fn read(of: &MatrixSource<'_>) -> Self {
        let matrix = of.matrix;
        let mut all = Opened::default();
        for cell in &matrix.cells {
            all.add(of, cell);
        }
        let (figures, main_figures) = matrix.figures();
        let readers = all.a.readers.iter().chain(&all.b.readers).flatten();
        let outcome = match matrix.comparisons().next() {
            Some(first) if first.is_aa => ComparisonOutcome::Noise,
            _ if matrix.is_worse() => ComparisonOutcome::Worse,
            _ if matrix.comparisons().any(Comparison::is_better) => ComparisonOutcome::Better,
            _ if matrix.is_undecided() => ComparisonOutcome::Undecided,
            _ => ComparisonOutcome::Same,
        };
        let [told_a, told_b] = matrix_words::counted_sides(matrix);
        Self {
            name: matrix.name.clone(),
            created: first_created(readers.clone()),
            bellows: env!("CARGO_PKG_VERSION").to_owned(),
            outcome,
            headline: matrix_words::headline(matrix),
            differences: all.differences.unwrap_or_default(),
            keys: matrix.keys.clone(),
            key_names: archive::short_names(&matrix.keys).into_iter().map(str::to_owned).collect(),
            figures: figures.into_iter().map(str::to_owned).collect(),
            main_figures,
            forced: all.forced,
            remarks: all.remarks,
            warnings: side_warnings(&all.a.readers, &all.b.readers),
            notes: matrix_words::notes(matrix, words::ShownColumns::ALL),
            hardware: readers.clone().next().map_or_else(Hardware::default, |run| run.record.hardware.clone()),
            cells: matrix.cells.iter().map(|cell| view(of, cell)).collect(),
            a: SideView { told: told_a, ..all.a.view },
            b: SideView { told: told_b, ..all.b.view },
        }
    }
}

/// The runs of all cells.
#[derive(Default)]
struct Opened {
    a: OpenedSide,
    b: OpenedSide,
    /// `None` until a cell is read.
    differences: Option<Vec<ExperimentDifference>>,
    forced: Vec<String>,
    remarks: Vec<String>,
}

impl Opened {
    fn add(&mut self, of: &MatrixSource<'_>, cell: &ComparedCell) {
        let label = of.matrix.label(cell);
        let about = |text: String| format!("{label}: {text}");
        let dir = of.dir.join(&cell.folder);
        let Ok(pairs) = PairedRuns::read(&dir) else { return };
        let decided = cell.comparison.as_ref().is_some_and(was_decided);
        self.remarks.extend(made_anew(&pairs, decided).into_iter().map(about));
        let between = || differences_between(&pairs.a, &pairs.b);
        self.differences.get_or_insert_with(between);
        let Some(comparison) = &cell.comparison else { return };
        let source = ComparisonSource {
            comparison,
            name: &pairs.name,
            runs: &pairs.folders(&dir),
            logs: None,
            pairs: Some(&pairs),
            folder: of.folder,
        };
        let mut remarks = Vec::new();
        for (side, all) in [(&comparison.a, &mut self.a), (&comparison.b, &mut self.b)] {
            let opened = OpenedSide::open(side, &source, &mut remarks);
            all.readers.extend(opened.readers);
            all.view.runs.extend(opened.view.runs);
            all.view.left_out.extend(opened.view.left_out);
        }
        self.remarks.extend(remarks.into_iter().map(about));
        for text in &comparison.forced {
            if !self.forced.contains(text) {
                self.forced.push(text.clone());
            }
        }
    }
}

fn view(of: &MatrixSource<'_>, cell: &ComparedCell) -> CellView {
    let decided = cell.comparison.as_ref();
    let page = of.folder.and_then(|folder| crate::view::report_below(&of.dir.join(&cell.folder), folder));
    CellView {
        values: cell.values.clone(),
        label: PairedMatrix::label(&of.matrix.keys, &cell.values),
        outcome: decided.map(ComparisonOutcome::from),
        decided: matrix_words::outcome(cell).to_owned(),
        headline: match decided {
            Some(comparison) => words::headline(comparison),
            None => cell.why_not.clone().unwrap_or_default(),
        },
        explanation: decided.and_then(|it| it.functions.as_ref()).and_then(functions::explanation),
        page: page.unwrap_or_default(),
        figures: decided.map_or_else(Vec::new, FigureRow::of),
    }
}
