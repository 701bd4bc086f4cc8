//! The page of a search for the highest rate that holds: the same program as a run's, with other data.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use archive::LimitOutcome;
use measure::{LatencySummary, Problem};

use super::page::{Document, escape, head, write, write_redacted};
use crate::numbers::{FOOTNOTE, marked, rate};
use crate::redact::Redaction;
use crate::view::{LimitView, ScaleView};

/// Writes `report.html` into a folder of trials, at once or not at all, and returns its path.
///
/// # Errors
/// Where the folder holds none, or it cannot be written to.
pub fn write_limit(dir: &Path) -> Result<PathBuf, Problem> {
    super::keep(dir, &write(&parts(&LimitView::read(dir, dir)?))?)
}

/// The page of a folder of trials, for a file elsewhere.
///
/// # Errors
/// Where the folder holds none.
pub fn render_limit(dir: &Path, file: &Path) -> Result<String, Problem> {
    let beside = file.parent().filter(|it| !it.as_os_str().is_empty());
    write(&parts(&LimitView::read(dir, beside.unwrap_or(Path::new(".")))?))
}

/// The page of a folder of trials, without names.
pub(super) fn redacted(dir: &Path, redaction: &mut Redaction) -> Result<String, Problem> {
    let mut view = LimitView::read(dir, dir)?;
    redaction.note_limit(&mut view, dir);
    write_redacted(&parts(&view), redaction)
}

/// The document: without scripts the sentence and the trials as plain HTML.
fn parts(view: &LimitView) -> Document<'_, LimitView> {
    let summary = match &view.scale {
        Some(scale) => summary_of_scale(view, scale),
        None => summary_of_rates(view),
    };
    Document::new("limit", &view.name, summary, view)
}

/// Summary of runs with different numbers of clients.
fn summary_of_scale(view: &LimitView, scale: &ScaleView) -> String {
    let mut out = head(&view.name, &view.headline);
    for text in &scale.explained {
        let _ = write!(out, "<p>{}</p>", escape(text));
    }
    let _ = write!(
        out,
        "<noscript><p>The chart needs JavaScript; nothing is loaded from \
         anywhere.</p></noscript><table><thead><tr><th>{}</th><th>msg/s</th></tr></thead><tbody>",
        escape(&scale.noun)
    );
    for run in &scale.runs {
        let throughput = rate(run.throughput);
        let _ = write!(out, "<tr><th>{}</th><td>{throughput}</td></tr>", run.clients);
    }
    out.push_str("</tbody></table>");
    out
}

fn summary_of_rates(view: &LimitView) -> String {
    let mut out = format!(
        "<h1>{}</h1><p class=\"headline\">{}</p><p>{}</p><noscript><p>The chart needs JavaScript; nothing is loaded \
         from anywhere.</p></noscript><table><thead><tr><th>msg/s</th><th>held</th><th>{} \
         p50</th><th>p99</th></tr></thead><tbody>",
        escape(&view.name),
        escape(&view.headline),
        escape(&view.asked),
        escape(&view.latency_name),
    );
    let mut is_weak = false;
    for trial in &view.trials {
        let held = match trial.outcome {
            LimitOutcome::Held => "yes".to_owned(),
            LimitOutcome::Missed => escape(&trial.why.join("; ")),
            LimitOutcome::Unclear => format!("unclear: {}", escape(&trial.why.join("; "))),
        };
        let latency = trial.latency.as_ref();
        let told = |percentile, which: fn(&LatencySummary) -> u64| {
            let told = |it: &LatencySummary| marked(which(it), it.supports(percentile));
            latency.map_or_else(|| "-".to_owned(), told)
        };
        is_weak |= latency.is_some_and(|it| !it.supports(99.0));
        let (p50, p99) = (told(50.0, |it| it.p50_ns), told(99.0, |it| it.p99_ns));
        let _ = write!(out, "<tr><th>{}</th><td>{held}</td><td>{p50}</td><td>{p99}</td></tr>", rate(trial.rate));
    }
    out.push_str("</tbody></table>");
    if is_weak {
        let _ = write!(out, "<p>{FOOTNOTE}</p>");
    }
    out
}
