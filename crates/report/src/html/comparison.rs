//! The pages of a comparison and of a matrix: the same program as a run's, with other data.

use std::path::{Path, PathBuf};

use archive::{ComparedMatrix, PairedMatrix};
use measure::Problem;

use super::page::{Document, cautions, escape, head, table, write, write_redacted};
use crate::redact::Redaction;
use crate::text::comparison::{change_and_interval, table_values};
use crate::view::{CellView, ComparisonSource, ComparisonView, MatrixSource, MatrixView, NOT_YET};

/// The page of a comparison as one HTML document. Errors: where its data cannot be packed.
pub fn render_comparison(of: &ComparisonSource<'_>) -> Result<String, Problem> {
    document(&ComparisonView::read(of))
}

/// Writes `report.html` into a folder of runs in pairs, atomically, and returns its path; of a matrix also into the
/// folder of each decided cell. Errors: where the folder holds none, nothing was decided yet, or it cannot be written.
pub fn write_comparison(dir: &Path) -> Result<PathBuf, Problem> {
    if !PairedMatrix::is_in(dir) {
        return super::keep(dir, &alone(dir, dir)?);
    }
    let matrix = decided(dir)?;
    for cell in matrix.cells.iter().filter(|it| it.comparison.is_some()) {
        let dir = dir.join(&cell.folder);
        super::keep(&dir, &alone(&dir, &dir)?)?;
    }
    super::keep(dir, &of_matrix(&matrix, dir, dir)?)
}

/// The page of a folder of runs in pairs. Errors: where the folder holds none, or nothing was decided yet.
pub fn render_pairs(dir: &Path, file: &Path) -> Result<String, Problem> {
    let beside = file.parent().filter(|it| !it.as_os_str().is_empty());
    let folder = beside.unwrap_or(Path::new("."));
    if PairedMatrix::is_in(dir) { of_matrix(&decided(dir)?, dir, folder) } else { alone(dir, folder) }
}

/// The page of a folder of runs in pairs, or of all cells of a matrix, without names.
pub(super) fn redacted(dir: &Path, redaction: &mut Redaction) -> Result<String, Problem> {
    if PairedMatrix::is_in(dir) {
        let matrix = decided(dir)?;
        let source = MatrixSource { matrix: &matrix, dir, folder: None };
        let mut view = MatrixView::read(&source);
        redaction.note_matrix(&mut view, dir);
        return write_redacted(&matrix_parts(&view), redaction);
    }
    let mut view = ComparisonView::of_pairs(dir, dir)?;
    redaction.note_comparison(&mut view, dir);
    write_redacted(&parts(&view), redaction)
}

/// The page of runs in pairs that stand alone.
fn alone(dir: &Path, folder: &Path) -> Result<String, Problem> {
    document(&ComparisonView::of_pairs(dir, folder)?)
}

fn of_matrix(matrix: &ComparedMatrix, dir: &Path, folder: &Path) -> Result<String, Problem> {
    render_matrix(&MatrixSource { matrix, dir, folder: Some(folder) })
}

fn decided(dir: &Path) -> Result<ComparedMatrix, Problem> {
    ComparedMatrix::read(dir).map_err(|error| Problem { help: NOT_YET.to_owned(), ..error.problem() })
}

fn document(view: &ComparisonView) -> Result<String, Problem> {
    write(&parts(view))
}

fn parts(view: &ComparisonView) -> Document<'_, ComparisonView> {
    Document::new("comparison", &view.name, static_summary(view), view)
}

/// The sentence, the cautions and the figures as plain HTML.
fn static_summary(view: &ComparisonView) -> String {
    let mut out = head(&view.name, &view.headline);
    out.extend(view.explanation.iter().map(|text| format!("<p>{}</p>", escape(text))));
    out += &cautions(view.forced.iter().chain(&view.remarks));
    let rows = view.figures.iter().map(|row| {
        let (a, b) = table_values(&row.figure);
        let (change, interval) = change_and_interval(&row.figure);
        vec![row.figure.name.clone(), a, b, change, interval, row.decided.clone()]
    });
    out + &table("Charts need JavaScript", &["", "A", "B", "change", "interval", "decision"], rows)
}

/// The page of a matrix as one HTML document. Errors: where its data cannot be packed.
pub fn render_matrix(of: &MatrixSource<'_>) -> Result<String, Problem> {
    write(&matrix_parts(&MatrixView::read(of)))
}

fn matrix_parts(view: &MatrixView) -> Document<'_, MatrixView> {
    Document::new("matrix", &view.name, matrix_summary(view), view)
}

/// The sentence, the cautions and the effects as plain HTML.
fn matrix_summary(view: &MatrixView) -> String {
    let out = head(&view.name, &view.headline) + &cautions(view.forced.iter().chain(&view.remarks));
    let figures = view.figures.iter().map(String::as_str);
    let heads: Vec<&str> = [""].into_iter().chain(figures).chain(["decision"]).collect();
    let rows = view.cells.iter().map(|cell| {
        let effects = view.figures.iter().map(|name| effect(cell, name));
        [cell.label.clone()].into_iter().chain(effects).chain([cell.decided.clone()]).collect()
    });
    out + &table("Charts need JavaScript", &heads, rows)
}

fn effect(cell: &CellView, name: &str) -> String {
    let row = cell.figures.iter().find(|row| row.figure.name == name);
    row.map_or_else(String::new, |row| match change_and_interval(&row.figure) {
        (change, _) if change.is_empty() => row.decided.clone(),
        (change, interval) => format!("{change} ({interval}), {}", row.decided),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use archive::{ComparedFigure, ComparedRun, ComparedSide, Comparison, Decision};

    use super::*;

    #[test]
    fn a_side_without_runs_has_no_change() {
        let side = |runs| ComparedSide { runs: vec![ComparedRun::default(); runs], ..ComparedSide::default() };
        let (name, means) = ("sent rate".into(), (5.0, 0.0));
        let figures = vec![ComparedFigure { name, a: vec![5.0], means, ..ComparedFigure::default() }];
        let mut comparison = Comparison { a: side(1), b: side(0), figures, ..Comparison::default() };
        let html = |comparison: &Comparison| {
            let (name, runs) = ("x", &HashMap::new());
            let source = ComparisonSource { comparison, name, runs, logs: None, pairs: None, folder: None };
            static_summary(&ComparisonView::read(&source))
        };
        let text = html(&comparison);
        assert!(text.contains("<td>none</td><td></td><td></td><td>inconclusive: no run of B counts</td>"), "{text}");
        comparison.b = side(1);
        let figure = &mut comparison.figures[0];
        (figure.b, figure.decision) = (vec![0.001], Decision::Changed);
        (figure.change, figure.interval) = (-0.9998, (-0.9999, -0.9997));
        testkit::assert_has(html(&comparison), ["<td>&lt; -99.9 %</td>"]);
    }
}
