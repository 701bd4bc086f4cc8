//! The page of a search for the highest rate that holds: the same program as a run's, with other data.

use std::path::{Path, PathBuf};

use archive::LimitOutcome;
use measure::Problem;

use super::page::{Document, escape, head, table, write, write_redacted};
use crate::numbers::{FOOTNOTE, percentile, rate};
use crate::redact::Redaction;
use crate::view::{LimitView, ScaleView};

/// Writes `report.html` into a folder of trials, atomically, and returns its path. Fails without trials, or on writing.
pub fn write_limit(dir: &Path) -> Result<PathBuf, Problem> {
    super::keep(dir, &write(&parts(&LimitView::read(dir, dir)?))?)
}

/// The page of a folder of trials, for a file elsewhere. Errors: where the folder holds none.
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

/// Remark on the charts.
const NEEDS: &str = "The chart needs JavaScript";

/// The document: without scripts the sentence and the trials as plain HTML.
fn parts(view: &LimitView) -> Document<'_, LimitView> {
    let scale = view.scale.as_ref();
    let summary = scale.map_or_else(|| summary_of_rates(view), |scale| summary_of_scale(view, scale));
    Document::new("limit", &view.name, summary, view)
}

/// Summary of runs with different numbers of clients.
fn summary_of_scale(view: &LimitView, scale: &ScaleView) -> String {
    let mut out = head(&view.name, &view.headline);
    out.extend(scale.explained.iter().map(|text| format!("<p>{}</p>", escape(text))));
    let rows = scale.runs.iter().map(|run| vec![run.clients.to_string(), rate(run.throughput)]);
    out + &table(NEEDS, &[scale.noun.as_str(), "msg/s"], rows)
}

fn summary_of_rates(view: &LimitView) -> String {
    let rows = view.trials.iter().map(|trial| {
        let held = match trial.outcome {
            LimitOutcome::Held => "yes".to_owned(),
            LimitOutcome::Missed => trial.why.join("; "),
            LimitOutcome::Unclear => format!("unclear: {}", trial.why.join("; ")),
        };
        let told = |name| trial.latency.as_ref().map_or_else(|| "-".to_owned(), |it| percentile(it, name));
        vec![rate(trial.rate), held, told("p50"), told("p99")]
    });
    let table = table(NEEDS, &["msg/s", "held", &format!("{} p50", view.latency_name), "p99"], rows);
    let mut latencies = view.trials.iter().filter_map(|it| it.latency.as_ref());
    let footnote = latencies.find(|it| !it.supports(99.0)).map_or_else(String::new, |_| format!("<p>{FOOTNOTE}</p>"));
    format!("{}<p>{}</p>{table}{footnote}", head(&view.name, &view.headline), escape(&view.asked))
}
