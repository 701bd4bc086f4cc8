//! Runs of one experiment on a terminal: a line for each, and the spread of every headline figure.

use archive::{Quantity, QuantityUnit, RepeatedFigure, RepeatedRun, Repeats, RunRecord, RunState};

use super::table::{Align, Table};
use super::text::{Style, sanitise, wrap};
use crate::numbers::{counted, figure, percent};

/// Columns of the strip that shows each run as a dot.
const STRIP: usize = 21;

/// One run of several, in a line: which, its first figures, what is wrong with it.
#[must_use]
pub fn repeated(number: usize, requested: u32, record: &RunRecord, style: Style) -> String {
    let mut parts = Vec::new();
    if record.state != RunState::Complete {
        parts.push(style.caution(&format!("{}, not counted", record.state.as_str())));
    }
    if let Some(summary) = &record.summary {
        let all = Quantity::headline(summary);
        let first = |suits: fn(&Quantity) -> bool| all.iter().find(|of| suits(of));
        let rate = first(|of| of.unit() == QuantityUnit::PerSecond);
        let p99 = first(|of| of.latency().is_some() && of.name().ends_with(" p99"));
        let cost = first(|of| of.name() == "broker cpu");
        for of in [rate, p99, cost].into_iter().flatten() {
            if let Ok(value) = of.of(summary) {
                parts.push(format!(
                    "{} {}",
                    sanitise(&of.name()),
                    figure(value, of.unit())
                ));
            }
        }
    }
    format!("run {number} of {requested}: {}\n", parts.join(", "))
}

/// What the runs say together, ending in a newline. `report` is the path of the report that shows them.
#[must_use]
pub fn repeats(repeats: &Repeats, report: Option<&str>, style: Style) -> String {
    let mut lines = vec![style.strong(&title(repeats))];
    lines.extend(
        remarks(repeats)
            .iter()
            .flat_map(|text| wrap(text, style.columns)),
    );
    lines.extend(table(repeats).lines(style.columns));
    if let Some(path) = report {
        lines.push(format!("{} {}", style.strong("report:"), sanitise(path)));
    }
    lines.join("\n") + "\n"
}

fn complete(repeats: &Repeats) -> usize {
    let complete = |run: &&RepeatedRun| run.state == RunState::Complete;
    repeats.runs.iter().filter(complete).count()
}

fn title(repeats: &Repeats) -> String {
    let complete = complete(repeats) as u64;
    let name = sanitise(&repeats.name);
    if complete == u64::from(repeats.requested) {
        format!("{} of {name}", counted(complete, "run"))
    } else {
        let requested = counted(repeats.requested.into(), "run");
        format!("{complete} of {requested} of {name} ended as planned")
    }
}

fn table(repeats: &Repeats) -> Table {
    let mut table = Table::new(&[
        ("", Align::Left),
        ("mean", Align::Right),
        ("sd", Align::Right),
        ("min", Align::Right),
        ("max", Align::Right),
        ("95 % of the mean", Align::Right),
        ("runs, min to max", Align::Left),
    ]);
    table.drop_in_order(&[6, 5]);
    for of in &repeats.figures {
        let value = |value: f64| figure(value, of.unit);
        let interval = of
            .interval
            .map(|(low, high)| format!("{} to {}", value(low.max(0.0)), value(high)));
        table.row(vec![
            sanitise(&of.name).into_owned(),
            value(of.mean),
            deviation(of),
            value(of.min),
            value(of.max),
            interval.unwrap_or_else(|| "-".into()),
            strip(of),
        ]);
    }
    table
}

/// The standard deviation as a share of the mean.
fn deviation(of: &RepeatedFigure) -> String {
    let share = of.sd.filter(|_| of.mean > 0.0).map(|sd| sd / of.mean);
    share.map_or_else(|| "-".into(), percent)
}

/// Each run as a dot between the smallest and the largest value; several at one place are a heavy one.
fn strip(of: &RepeatedFigure) -> String {
    let room = of.max - of.min;
    let mut runs = [0_usize; STRIP];
    for value in of.values.iter().flatten() {
        let share = if room > 0.0 {
            (value - of.min) / room
        } else {
            0.5
        };
        let place = (share.clamp(0.0, 1.0) * (STRIP - 1) as f64).round() as usize;
        if let Some(count) = runs.get_mut(place) {
            *count += 1;
        }
    }
    let dots = runs.iter().map(|count| match count {
        0 => ' ',
        1 => '•',
        _ => '⬤',
    });
    dots.collect::<String>().trim_end().to_owned()
}

/// What must be known before the figures are used.
fn remarks(repeats: &Repeats) -> Vec<String> {
    let mut out = Vec::new();
    let invalid = repeats.runs.iter().filter(|run| run.invalid).count();
    if invalid > 0 {
        let of = counted(repeats.runs.len() as u64, "run");
        out.push(format!(
            "in {invalid} of {of} a warning says that a number must not be used: see the reports"
        ));
    }
    let cautious = repeats.runs.iter().filter(|run| run.cautious).count();
    if cautious > 0 {
        let of = counted(repeats.runs.len() as u64, "run");
        out.push(format!(
            "in {cautious} of {of} cautions say which numbers are off, and which way: `bellows runs show`, or the reports"
        ));
    }
    for (number, run) in (1..).zip(&repeats.runs) {
        if !run.apart.is_empty() {
            let names = sanitise(&run.apart.join(", ")).into_owned();
            out.push(format!(
                "run {number} lies far from the others in {names}: look at its report before you use the mean"
            ));
        }
    }
    if (1..3).contains(&complete(repeats)) {
        out.push(
            "fewer than 3 runs: no interval of the mean; 5 or more tell noise from change".into(),
        );
    }
    out
}
