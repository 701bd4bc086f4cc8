//! Runs of one experiment on a terminal: a line for each, the spread of headline figures, outcomes of requirements.

use archive::{Quantity, QuantityUnit, RepeatedFigure, RepeatedRun, Repeats, RequirementOutcome, RunRecord, RunState};

use super::table::{Table, or_dash};
use super::text::{Style, sanitise, width, wrap, wrap_words};
use crate::numbers::{counted, figure, observed, percent};
use crate::text::requirements_tally;

/// Columns of the strip that shows each run as a dot.
const STRIP: usize = 21;

/// One run of several, in a line: number, first figures and problems. `about` is trusted text, such as `run 2 of 5`.
pub fn repeated(about: &str, record: &RunRecord, style: Style) -> String {
    let mut parts = Vec::new();
    if record.state != RunState::Complete {
        parts.push((format!("{}, not counted", record.state.name()), true));
    }
    if let Some(summary) = &record.summary {
        let missed = summary.requirements.iter().any(|it| it.met == Some(false));
        let is_named = |it: &RequirementOutcome| !it.that.is_empty() && about.contains(&it.that);
        if !summary.requirements.iter().any(is_named) {
            parts.extend(requirements_tally(&summary.requirements).map(|tally| (tally, missed)));
        }
        let all = Quantity::headline(summary);
        let first = |suits: fn(&Quantity) -> bool| all.iter().find(|of| suits(of));
        let rate = first(|of| of.unit() == QuantityUnit::PerSecond);
        let p99 = first(|of| of.latency().is_some() && of.name().ends_with(" p99"));
        let cost = first(|of| of.name() == "broker cpu");
        let told = |of: Option<&Quantity>| {
            let of = of?;
            let figure = figure(of.of(summary).ok()?, of.unit());
            Some((format!("{} {figure}", sanitise(&of.name())), false))
        };
        parts.extend(told(rate));
        parts.extend(required_latency(&summary.requirements).map_or_else(|| told(p99), latency));
        parts.extend(told(cost));
    }
    in_lines(&format!("{about}:"), &parts, style)
}

/// The requirement of a latency, of several one that was missed: no other latency stands for the run.
fn required_latency(requirements: &[RequirementOutcome]) -> Option<&RequirementOutcome> {
    let mut all = requirements.iter().filter(|it| it.unit == QuantityUnit::Ns);
    let missed = all.clone().find(|it| it.met == Some(false));
    missed.or_else(|| all.next())
}

/// The figure of a requirement, where it has one, with whether it asks for attention.
fn latency(of: &RequirementOutcome) -> Option<(String, bool)> {
    let name = of.that.strip_prefix("not ").unwrap_or(&of.that);
    let name = name.split(['<', '>', '=', '!']).next().unwrap_or(name);
    let figure = figure(of.observed?, QuantityUnit::Ns);
    let text = format!("{} {figure}", sanitise(name.trim()));
    Some((text, of.met == Some(false)))
}

/// A title and its parts, each with whether it asks for attention, over as many lines as the screen demands.
fn in_lines(about: &str, parts: &[(String, bool)], style: Style) -> String {
    let indent = "  ";
    let about = match width(about) <= style.line_columns() {
        true => about.to_owned(),
        false => wrap(about, style.line_columns().saturating_sub(indent.len())).join("\n  "),
    };
    let mut used = about.lines().last().map_or(0, width);
    let mut text = about;
    for (n, (part, cautions)) in parts.iter().enumerate() {
        let comma = if n + 1 < parts.len() { "," } else { "" };
        let wide = width(part) + comma.len();
        if used + 1 + wide > style.line_columns() {
            text.push('\n');
            text.push_str(indent);
            used = indent.len();
        } else {
            text.push(' ');
            used += 1;
        }
        text.push_str(&if *cautions { style.caution(part) } else { part.clone() });
        text.push_str(comma);
        used += wide;
    }
    text + "\n"
}

/// Figures over all runs, ending in a newline. `report` is the path of the report that shows them.
pub fn repeats(repeats: &Repeats, records: &[RunRecord], report: Option<&str>, style: Style) -> String {
    let mut lines = vec![style.strong(&title(repeats))];
    lines.extend(remarks(repeats).iter().flat_map(|text| style.lines_of(text)));
    if !repeats.figures.is_empty() {
        lines.extend(table(repeats).lines(style.line_columns()));
    }
    if let Some(table) = requirements(records) {
        lines.push(String::new());
        lines.extend(table.lines(style.line_columns()));
    }
    let report = report.map(|path| format!("{} {}", style.strong("report:"), sanitise(path)));
    lines.extend(report.iter().flat_map(|line| wrap_words(line, style.line_columns())));
    lines.join("\n") + "\n"
}

fn complete(repeats: &Repeats) -> usize {
    repeats.runs.iter().filter(|run| run.state == RunState::Complete).count()
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
    let mut table = Table::of("<|mean|sd|min|max|95 % of the mean|runs, min to max<");
    table.drop = &[6, 5];
    for of in &repeats.figures {
        let value = |value: f64| figure(value, of.unit);
        let interval = of.spread.interval.map(|(low, high)| format!("{} to {}", value(low.max(0.0)), value(high)));
        table.row(vec![
            sanitise(&of.name).into_owned(),
            value(of.spread.mean),
            deviation(of),
            value(of.spread.min),
            value(of.spread.max),
            or_dash(interval),
            strip(of),
        ]);
    }
    table
}

/// Requirements, in how many runs each was met, and the worst value; `None` without any.
fn requirements(records: &[RunRecord]) -> Option<Table> {
    let summaries = records.iter().filter_map(|record| record.summary.as_ref());
    let all: Vec<&[RequirementOutcome]> = summaries.map(|it| &it.requirements[..]).collect();
    let first = all.first().filter(|first| !first.is_empty())?;
    let mut table = Table::of("requirement<|runs met|MISSED|unknown|worst");
    for (index, required) in first.iter().enumerate() {
        let outcomes: Vec<_> = all.iter().filter_map(|all| all.get(index)).collect();
        let runs = |met| outcomes.iter().filter(|it| it.met == met).count();
        table.row(vec![
            sanitise(&required.that).into_owned(),
            runs(Some(true)).to_string(),
            runs(Some(false)).to_string(),
            runs(None).to_string(),
            or_dash(worst(&outcomes).map(|value| figure(value, required.unit))),
        ]);
        if let Some(unknown) = outcomes.iter().find(|it| it.observed.is_none()) {
            table.note(sanitise(&observed(unknown)).into_owned());
        }
    }
    Some(table)
}

/// The observed value that missed its bound by most; where none missed it, the one that came nearest.
fn worst(outcomes: &[&RequirementOutcome]) -> Option<f64> {
    let of = |met| {
        let judged = outcomes.iter().filter(move |it| it.met == Some(met));
        judged.filter_map(|it| Some(((it.observed? - it.bound).abs(), it.observed?)))
    };
    let farthest = of(false).max_by(|a, b| a.0.total_cmp(&b.0));
    let nearest = || of(true).min_by(|a, b| a.0.total_cmp(&b.0));
    farthest.or_else(nearest).map(|(_, value)| value)
}

/// The standard deviation as a share of the mean.
fn deviation(of: &RepeatedFigure) -> String {
    let share = of.spread.sd.filter(|_| of.spread.mean > 0.0).map(|sd| sd / of.spread.mean);
    or_dash(share.map(percent))
}

/// Each run as a dot between the smallest and the largest value; several at one place are a heavy one.
fn strip(of: &RepeatedFigure) -> String {
    let room = of.spread.max - of.spread.min;
    let mut runs = [0_usize; STRIP];
    for value in of.values.iter().flatten() {
        let share = if room > 0.0 { (value - of.spread.min) / room } else { 0.5 };
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

/// Remarks to read before the figures.
fn remarks(repeats: &Repeats) -> Vec<String> {
    let mut out = Vec::new();
    let all = counted(repeats.runs.len() as u64, "run");
    let mut of_runs = |is_meant: fn(&RepeatedRun) -> bool, says: &str| {
        let count = repeats.runs.iter().filter(|run| is_meant(run)).count();
        out.extend((count > 0).then(|| format!("in {count} of {all} {says}")));
    };
    let unusable = "a warning says that a figure must not be used: see the reports";
    let off = "cautions say which figures are off, and which way: see `bellows runs show`, or the reports";
    of_runs(|run| run.invalid, unusable);
    of_runs(|run| run.cautious, off);
    for (number, run) in (1..).zip(&repeats.runs) {
        if !run.apart.is_empty() {
            let names = sanitise(&run.apart.join(", ")).into_owned();
            out.push(format!("run {number} is an outlier in {names}: look at its report before you use the mean"));
        }
    }
    if (1..3).contains(&complete(repeats)) {
        out.push("fewer than 3 runs: no interval of the mean; use 5 or more to distinguish changes from noise".into());
    }
    out
}

#[cfg(test)]
mod tests {
    use testkit::{assert_has, assert_lacks};

    use super::*;
    use crate::tests::fixtures::requirement;

    fn outcome(observed: Option<f64>, met: Option<bool>) -> RequirementOutcome {
        let unit = QuantityUnit::PerSecond;
        RequirementOutcome { bound: 100.0, unit, ..requirement("sent rate >= 100", met, observed) }
    }

    #[test]
    fn the_worst_value_missed_by_most_or_came_nearest() {
        let [good, better] = [104.0, 140.0].map(|rate| outcome(Some(rate), Some(true)));
        let [bad, worse] = [90.0, 60.0].map(|rate| outcome(Some(rate), Some(false)));
        let unknown = outcome(None, None);
        assert_eq!(worst(&[&better, &good, &unknown]), Some(104.0));
        assert_eq!(worst(&[&good, &bad, &worse, &better]), Some(60.0));
        assert_eq!(worst(&[&unknown]), None);
    }

    #[test]
    fn the_line_of_a_run_shows_the_latency_that_was_required() {
        let line = |requirements: Vec<RequirementOutcome>| {
            let mut recorder = measure::Recorder::new();
            recorder.record_n(measure::Metric::ACK_RESPONSE, measure::Nanos(488_000), 1_000);
            let mut summary = archive::RunSummary { requirements, ..archive::RunSummary::default() };
            summary.messages_mut().latency = recorder.messages();
            let record = RunRecord { state: RunState::Complete, summary: Some(summary), ..RunRecord::default() };
            repeated("trial 1", &record, Style::PLAIN)
        };
        let required = |that, observed, met| RequirementOutcome {
            unit: QuantityUnit::Ns,
            bound: 100.0,
            ..requirement(that, Some(met), observed)
        };
        let missed = || required("end-to-end p99 < 10ms", Some(48_000_000.0), false);
        let met = || required("ack response p50 < 1s", Some(400_000.0), true);
        let shown = line(vec![met(), missed()]);
        assert_has(&shown, ["end-to-end p99 48.0 ms", "1 of 2 requirements missed"]);
        assert_lacks(shown, ["ack response"]);
        assert_has(line(vec![met()]), ["ack response p50 400 µs"]);
        assert_lacks(line(vec![required("end-to-end p99 < 10ms", None, false)]), ["488"]);
        assert_has(line(Vec::new()), ["ack response p99 488 µs"]);
    }

    #[test]
    fn the_line_of_a_run_fits_every_screen_and_breaks_between_its_parts() {
        let parts = [
            ("1 of 3 requirements missed".to_owned(), true),
            ("sent rate 12,345 msg/s".to_owned(), false),
            ("end-to-end p99 1.5 ms".to_owned(), false),
        ];
        let wide = in_lines("run 1 of 3:", &parts, Style::PLAIN);
        assert_eq!(wide, "run 1 of 3: 1 of 3 requirements missed, sent rate 12,345 msg/s, end-to-end p99 1.5 ms\n");
        let trial = "trial 5, 160,000 msg/s: unclear, the generator or others were the limit:";
        for columns in 40..90 {
            for about in ["run 1 of 3:", trial] {
                let text = in_lines(about, &parts, Style { columns, ..Style::PLAIN });
                assert!(text.lines().all(|it| width(it) <= columns), "{text}");
                assert_eq!(text.replace("\n  ", " "), wide.replacen("run 1 of 3:", about, 1));
            }
        }
    }
}
