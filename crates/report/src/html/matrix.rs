//! The page of a matrix: the same program as a run's, with other data.

use std::fmt::Write as _;

use measure::Problem;

use super::page::{Document, cautions, escape, head, write, write_redacted};
use crate::redact::Redaction;
use crate::text::comparison::change_and_interval;
use crate::view::{CellView, MatrixSource, MatrixView};

/// The page of a matrix as one HTML document.
///
/// # Errors
/// Where its data cannot be packed.
pub fn render_matrix(of: &MatrixSource<'_>) -> Result<String, Problem> {
    write(&parts(&MatrixView::read(of)))
}

/// The page of a matrix, without names.
pub(super) fn redacted(
    of: &MatrixSource<'_>,
    redaction: &mut Redaction,
) -> Result<String, Problem> {
    let mut view = MatrixView::read(of);
    redaction.note_matrix(&mut view, of.dir);
    write_redacted(&parts(&view), redaction)
}

fn parts(view: &MatrixView) -> Document<'_, MatrixView> {
    Document::new("matrix", &view.name, static_summary(view), view)
}

/// The sentence, the cautions and the effects as plain HTML.
fn static_summary(view: &MatrixView) -> String {
    let mut out = head(&view.name, &view.headline);
    out += &cautions(view.forced.iter().chain(&view.remarks));
    out.push_str(
        "<noscript><p>Charts need JavaScript; nothing is loaded from anywhere.</p></noscript><table><thead><tr><th></th>",
    );
    for name in &view.figures {
        let _ = write!(out, "<th>{}</th>", escape(name));
    }
    out.push_str("<th>decision</th></tr></thead><tbody>");
    for cell in &view.cells {
        let _ = write!(out, "<tr><th>{}</th>", escape(&cell.label));
        for name in &view.figures {
            let _ = write!(out, "<td>{}</td>", escape(&effect(cell, name)));
        }
        let _ = write!(out, "<td>{}</td></tr>", escape(&cell.decided));
    }
    out.push_str("</tbody></table>");
    out
}

fn effect(cell: &CellView, name: &str) -> String {
    let row = cell.figures.iter().find(|row| row.figure.name == name);
    row.map_or_else(String::new, |row| match change_and_interval(&row.figure) {
        (change, _) if change.is_empty() => row.decided.clone(),
        (change, interval) => format!("{change} ({interval}), {}", row.decided),
    })
}
