//! Runs of an experiment over time on a terminal: each figure as a line of bars, with its changes below.

use archive::{History, HistoryChange, HistoryFigure, LeftOut};

use super::text::{Style, sanitise, wrap};
use crate::numbers::{counted, figure};
use crate::text::comparison::{and_more, probability, signed};

/// A run that has no value.
const NONE: char = '·';
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const INDENT: usize = 2;
const LEAST_OF_LEVEL: usize = 3;
/// Outliers and runs left out that are named; further ones are counted.
const MOST_NAMED: usize = 3;

/// The history, ending in a newline.
pub fn history(of: &History, style: Style) -> String {
    let mut lines = style.strong_lines(&headline(of));
    if of.debug_build {
        let text = "caution: these are runs of a debug build of bellows: a release build has other values";
        lines.extend(style.caution_lines(text));
    }
    for figure in of.figures.iter().filter(|it| !it.changes.is_empty()) {
        lines.push(String::new());
        lines.extend(drawn(of, figure, style));
    }
    let is_level = |it: &&HistoryFigure| it.changes.is_empty() && it.values.iter().any(Option::is_some);
    // Also of many runs few may have a figure.
    let is_few = |it: &&HistoryFigure| it.values.iter().flatten().count() < of.least_runs;
    let (few, level): (Vec<_>, Vec<_>) = of.figures.iter().filter(is_level).partition(is_few);
    let none = format!("no change found{}:", unseen(of));
    let too_few = "too few values to find a change:".to_owned();
    for (text, figures) in [(none, level), (too_few, few)] {
        if !figures.is_empty() {
            lines.push(String::new());
            lines.extend(style.lines_of(&text));
            lines.extend(figures.iter().flat_map(|it| drawn(of, it, style)));
        }
    }
    let mut further = Vec::new();
    if !of.left_out.is_empty() {
        further.push(left_out(&of.left_out));
    }
    if of.figures_left_out > 0 {
        further.push(format!(
            "{} not examined: at most {} are, those of the newest runs",
            counted(of.figures_left_out as u64, "further figure"),
            of.figures.len()
        ));
    }
    for text in further.iter().chain(&of.remarks) {
        lines.push(String::new());
        lines.extend(style.lines_of(&sanitise(text)));
    }
    lines.join("\n") + "\n"
}

/// Changes that went back and cannot show in so many runs; empty where all can.
fn unseen(of: &History) -> String {
    let runs = of.runs.len();
    let lasted = match of.runs_until_return {
        Some((LEAST_OF_LEVEL, _)) => return " in".to_owned(),
        None => {
            let least = of.least_runs_for_return;
            return format!(" in these; a temporary one needs {least} runs");
        }
        Some((least, most)) if least == most => least.to_string(),
        Some((least, most)) => format!("{least} to {most}"),
    };
    format!(" in these; in {runs} runs a temporary one shows only if it lasted {lasted} of them")
}

fn headline(of: &History) -> String {
    let runs = counted(of.runs.len() as u64, "run");
    let changes: usize = of.figures.iter().map(|it| it.changes.len()).sum();
    let days = of.runs.first().zip(of.runs.last()).map(|(first, last)| (day(&first.created), day(&last.created)));
    let when = match days {
        Some((first, last)) if first == last => format!(" on {first}"),
        Some((first, last)) => format!(" from {first} to {last}"),
        None => String::new(),
    };
    let found = match of.runs.len() < of.least_runs {
        true => format!("at least {} runs are needed to find a change in these figures", of.least_runs),
        false => counted(changes as u64, "change"),
    };
    let name = &of.name;
    let what = match (of.ad_hoc, of.loads) {
        (true, loads) => format!(
            "{runs} of `bellows {name}` with the options of the newest valid run (of {} in all)",
            counted(loads as u64, "load")
        ),
        (false, ..2) => format!("{runs} of {name}"),
        (false, loads) => format!("{runs} of {name} with the load of the newest valid run (of {loads} loads)"),
    };
    format!("{what}{when}: {found}")
}

/// The lowest and the highest value, once if they look the same.
fn range(low: String, high: &str) -> String {
    if low == high { low } else { format!("{low} to {high}") }
}

fn day(created: &str) -> &str {
    created.split('T').next().unwrap_or(created)
}

fn drawn(of: &History, figure_of: &HistoryFigure, style: Style) -> Vec<String> {
    let indent = " ".repeat(INDENT);
    let room = style.line_columns().saturating_sub(INDENT).max(10);
    let each = figure_of.values.len().div_ceil(room).max(1);
    let known: Vec<f64> = figure_of.values.iter().flatten().copied().collect();
    let low = known.iter().copied().fold(f64::INFINITY, f64::min);
    let high = known.iter().copied().fold(0.0, f64::max);
    let mut lines =
        vec![format!("{}: {}", style.strong(&sanitise(&figure_of.name)), heading(figure_of, &known, low, high))];
    let groups: Vec<&[Option<f64>]> = figure_of.values.chunks(each).collect();
    // A single value differs from none.
    if known.len() != 1 {
        let bars = groups.iter().map(|group| bar(group, low, high));
        lines.push(indent.clone() + &bars.collect::<String>());
    }
    if !figure_of.changes.is_empty() {
        let places: Vec<usize> = figure_of.changes.iter().map(|it| it.run / each).collect();
        let marks = (0..groups.len()).map(|at| if places.contains(&at) { '^' } else { ' ' });
        lines.push(indent.clone() + marks.collect::<String>().trim_end());
    }
    let changes = figure_of.changes.iter().enumerate().map(|(number, change)| told(of, figure_of, number, change));
    let texts = changes.chain(apart(of, figure_of)).flat_map(|text| wrap(&sanitise(&text), room));
    lines.extend(texts.map(|line| format!("{indent}{line}")));
    lines
}

/// From where to where a figure reaches, and how many runs have none; of how many runs one of runs is true.
fn heading(figure_of: &HistoryFigure, known: &[f64], low: f64, high: f64) -> String {
    if figure_of.of_runs {
        return share_of(known);
    }
    if known.is_empty() {
        return "no values".to_owned();
    }
    let range = range(figure(low, figure_of.unit), &figure(high, figure_of.unit));
    match figure_of.values.len() - known.len() {
        0 => range,
        none => format!("{range}; no value in {none} of {}", counted(figure_of.values.len() as u64, "run")),
    }
}

/// Number of runs of which a figure of runs is true.
fn share_of(values: &[f64]) -> String {
    let some = values.iter().filter(|it| **it > 0.0).count();
    format!("{some} of {}", counted(values.len() as u64, "run"))
}

/// The mean of some runs as a bar.
fn bar(group: &[Option<f64>], low: f64, high: f64) -> char {
    let known: Vec<f64> = group.iter().flatten().copied().collect();
    if known.is_empty() {
        return NONE;
    }
    let mean = known.iter().sum::<f64>() / known.len() as f64;
    let share = if high > low { (mean - low) / (high - low) } else { 0.5 };
    let place = (share.clamp(0.0, 1.0) * (BARS.len() - 1) as f64).round() as usize;
    BARS.get(place).copied().unwrap_or(' ')
}

/// Mentions outliers that are not proven to be a change.
fn apart(of: &History, figure_of: &HistoryFigure) -> Option<String> {
    let (first, last) = (figure_of.apart.first()?, figure_of.apart.last()?);
    let (far, near): (Vec<_>, Vec<_>) = (figure_of.values.iter().enumerate())
        .filter_map(|(run, value)| Some((run, (*value)?)))
        .partition(|(run, _)| figure_of.apart.contains(run));
    let reach = |of: Vec<(usize, f64)>| {
        let values = of.into_iter().map(|it| it.1);
        let (low, high) = values.fold((f64::INFINITY, 0.0_f64), |(low, high), it| (low.min(it), high.max(it)));
        range(figure(low, figure_of.unit), &figure(high, figure_of.unit))
    };
    // Runs above the others and below them are no range.
    let least = near.iter().map(|it| it.1).fold(f64::INFINITY, f64::min);
    let (below, above): (Vec<_>, Vec<_>) = far.into_iter().partition(|it| it.1 < least);
    let far: Vec<String> = [below, above].into_iter().filter(|it| !it.is_empty()).map(reach).collect();
    let id = |run: &usize| of.runs.get(*run).map_or("", |it| it.id.as_str());
    let count = figure_of.apart.len();
    let place = match count > MOST_NAMED && last - first + 1 == count {
        true => format!("from {} to {}", id(first), id(last)),
        false => {
            let named: Vec<&str> = figure_of.apart.iter().take(MOST_NAMED).map(id).collect();
            named.join(", ") + &and_more(count.saturating_sub(MOST_NAMED))
        }
    };
    let runs = counted(count as u64, "run");
    let verb = if first == last { "is an outlier" } else { "are outliers" };
    let more = figure_of
        .runs_for_apart
        .map(|needed| format!("; at least {needed} runs are needed to show a temporary change"));
    Some(format!(
        "{runs}, {place}, {verb}: {}, the others {}{}",
        far.join(" and "),
        reach(near),
        more.unwrap_or_default()
    ))
}

fn told(of: &History, figure_of: &HistoryFigure, number: usize, change: &HistoryChange) -> String {
    let level = |at: usize| {
        let level = figure_of.levels.get(at);
        let values = level.and_then(|it| figure_of.values.get(it.from..it.to));
        match level {
            Some(_) if figure_of.of_runs => {
                let known: Vec<f64> = values.into_iter().flatten().flatten().copied().collect();
                share_of(&known)
            }
            Some(level) => figure(level.mean, figure_of.unit),
            None => "-".to_owned(),
        }
    };
    let run = |id: &str| {
        let found = of.runs.iter().find(|it| it.id == id).filter(|it| !it.broker.is_empty());
        found.map_or_else(|| id.to_owned(), |run| format!("{id} ({})", run.broker))
    };
    let judged = if change.worse { "worse" } else { "better" };
    let judged = if figure_of.of_runs { judged.to_owned() } else { format!("{} ({judged})", signed(change.change)) };
    let why = if change.worse && !figure_of.why.is_empty() { format!(": {}", figure_of.why) } else { String::new() };
    format!(
        "{judged}, from {} to {}{why}; between {} and {}; p {}",
        level(number),
        level(number + 1),
        run(&change.between.0),
        run(&change.between.1),
        probability(change.p),
    )
}

/// Runs that do not count: each reason once, with the newest run that it holds for.
fn left_out(all: &[LeftOut]) -> String {
    let mut reasons: Vec<&str> = Vec::new();
    for run in all.iter().rev() {
        if !reasons.contains(&run.why.as_str()) {
            reasons.push(&run.why);
        }
    }
    let named = reasons.iter().take(MOST_NAMED).filter_map(|why| {
        let mut of_it = all.iter().rev().filter(|run| run.why == **why);
        let newest = &of_it.next()?.id;
        Some(match of_it.count() {
            0 => format!("{newest} ({why})"),
            others => format!("{} such as {newest} ({why})", others + 1),
        })
    });
    let named: Vec<String> = named.collect();
    let more = if reasons.len() > MOST_NAMED { ", …" } else { "" };
    let runs = counted(all.len() as u64, "run");
    match (all, reasons.as_slice()) {
        // One reason for all of them: their number stands in front already.
        ([_, .., newest], [why]) => format!("{runs} left out, such as {} ({why})", newest.id),
        _ => format!("{runs} left out: {}{more}", named.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use archive::{HistoryLevel, HistoryRun, QuantityUnit};
    use testkit::{assert_begins, assert_ends, assert_has, assert_lacks};

    use super::*;
    use crate::console::tests::flowing;
    use crate::console::width;

    fn of(runs: usize) -> History {
        let id = |number: usize| format!("2026-11-21T00-12-33Z-x-{number:04}");
        let (created, broker) = ("2026-11-21T00:12:33Z", "RabbitMQ 4.0");
        let run = |number| HistoryRun { id: id(number), created: created.to_owned(), broker: broker.to_owned() };
        let at = runs / 2;
        let level = |from, to, mean| HistoryLevel { from, to, mean };
        let between = (id(at - 1), id(at));
        let rate = HistoryFigure {
            name: "received rate".to_owned(),
            unit: QuantityUnit::PerSecond,
            more_is_better: true,
            values: (0..runs).map(|run| Some(if run < at { 1_000.0 } else { 800.0 })).collect(),
            levels: vec![level(0, at, 1_000.0), level(at, runs, 800.0)],
            changes: vec![HistoryChange { run: at, between, change: -0.2, p: 0.001, worse: true }],
            ..HistoryFigure::default()
        };
        let (name, values) = ("broker cpu".to_owned(), vec![Some(5.0); runs]);
        History {
            name: "x\u{1b}[31m".to_owned(),
            runs: (0..runs).map(run).collect(),
            left_out: vec![LeftOut { id: id(9_999), why: "invalid".to_owned() }],
            figures: vec![rate, HistoryFigure { name, values, ..HistoryFigure::default() }],
            least_runs: 8,
            ..History::default()
        }
    }

    #[test]
    fn what_is_the_same_is_not_told_as_a_range_and_a_reason_of_several_runs_once() {
        let mut of = of(8);
        (of.ad_hoc, of.loads, of.name) = (true, 7, "probe".to_owned());
        let told = "8 runs of `bellows probe` with the options of the newest valid run (of 7 loads in all) on \
                    2026-11-21: 1 change\n";
        assert_begins(history(&of, Style::PLAIN), told);
        assert_eq!(range("927 ms".to_owned(), "927 ms"), "927 ms");
        assert_eq!(range("1 ms".to_owned(), "927 ms"), "1 ms to 927 ms");
        of.runs[0].created = "2026-11-20T00:12:33Z".to_owned();
        assert_has(flowing(&history(&of, Style::PLAIN)), [" from 2026-11-20 to 2026-11-21: 1 change"]);
        for figure in &mut of.figures {
            figure.values.truncate(1);
            figure.changes.clear();
        }
        let single = history(&of, Style::PLAIN);
        assert!(!single.contains(BARS), "{single}");
        let run = |id: &str, why: &str| LeftOut { id: id.to_owned(), why: why.to_owned() };
        let all = [run("a", "invalid"), run("b", "another load"), run("c", "invalid")];
        assert_eq!(left_out(&all), "3 runs left out: 2 such as c (invalid), b (another load)");
        assert_eq!(left_out(&[all[0].clone(), all[2].clone()]), "2 runs left out, such as c (invalid)");
        assert_eq!(left_out(&all[1..2]), "1 run left out: b (another load)");
    }

    #[test]
    fn figures_that_runs_lack_are_told_with_the_reason() {
        let mut of = of(8);
        let lacks = |run| Some(f64::from(u8::from(run >= 4)));
        let changed = HistoryFigure {
            name: "runs without end-to-end p50".to_owned(),
            of_runs: true,
            why: "nothing was recorded for it".to_owned(),
            more_is_better: false,
            values: (0..8).map(lacks).collect(),
            ..of.figures[0].clone()
        };
        of.figures.push(changed);
        of.figures[1].values[4..].fill(None);
        let text = history(&of, Style::PLAIN);
        let lacks = "runs without end-to-end p50: 4 of 8 runs ▁▁▁▁████ ^ worse, from 0 of 4 runs to 4 of 4 runs: \
                     nothing was recorded for it; between";
        assert_has(flowing(&text), [lacks, "broker cpu: 5 ns; no value in 4 of 8 runs ▅▅▅▅····"]);
        // Four of eight runs were said to show that nothing changed.
        assert_has(&text, ["too few values to find a change:\nbroker cpu"]);
        assert_lacks(text, ["no change found"]);
        of.remarks.push("words were not compared".to_owned());
        assert_ends(history(&of, Style::PLAIN), "\n\nwords were not compared\n");
        of.least_runs = 9;
        assert_has(history(&of, Style::PLAIN), ["at least 9 runs are needed"]);
    }

    #[test]
    fn a_change_that_went_back_and_could_not_show_is_told() {
        let mut of = of(12);
        let wide = Style { columns: 200, ..Style::PLAIN };
        let first = |of: &History, start: &str| {
            let text = history(of, wide);
            text.lines().find(|it| it.starts_with(start)).map(str::to_owned)
        };
        of.least_runs_for_return = 13;
        for (until_return, told) in [
            (None, " these; a temporary one needs 13 runs"),
            (Some((5, 6)), " these; in 12 runs a temporary one shows only if it lasted 5 to 6 of them"),
            (Some((3, 34)), ""),
        ] {
            of.runs_until_return = until_return;
            let found = first(&of, "no change found").expect("a figure without");
            assert_eq!(found, format!("no change found in{told}:"));
        }
        // Each of them is invalid by itself.
        assert_eq!(first(&of, "caution"), None);
        of.debug_build = true;
        assert_has(first(&of, "caution").expect("a caution"), ["runs of a debug build of bellows"]);
    }

    #[test]
    fn runs_that_lie_apart_without_a_change_are_told() {
        let mut of = of(12);
        let figure = &mut of.figures[1];
        figure.values[4..8].fill(Some(9.0));
        (figure.apart, figure.runs_for_apart) = (vec![4, 5, 6, 7], Some(13));
        let text = |of: &History| flowing(&history(of, Style::PLAIN));
        let told = "4 runs, from 2026-11-21T00-12-33Z-x-0004 to 2026-11-21T00-12-33Z-x-0007, are outliers: 9 ns, \
                    the others 5 ns; at least 13 runs are needed to show a temporary change";
        assert_has(text(&of), [told]);
        // Some that are no neighbours, and many of those.
        for (apart, told) in [
            (&[3, 9][..], "2 runs, x-03, x-09, are outliers: "),
            (&[3, 4, 5], "3 runs, x-03, x-04, x-05, are outliers: "),
            (&[1, 3, 5, 9, 11], "5 runs, x-01, x-03, x-05 and 2 more, are outliers: "),
        ] {
            of.figures[1].apart = apart.to_vec();
            assert_has(text(&of).replace("2026-11-21T00-12-33Z-x-00", "x-"), [told]);
        }
        let figure = &mut of.figures[1];
        (figure.apart, figure.runs_for_apart) = (vec![4], None);
        assert_has(text(&of), ["1 run, 2026-11-21T00-12-33Z-x-0004, is an outlier: 9 ns, the others"]);
        // On both sides of the others: these lay within the range.
        let figure = &mut of.figures[1];
        figure.values.fill(Some(5.0));
        (figure.values[4], figure.values[5]) = (Some(9.0), Some(1.0));
        figure.apart = vec![4, 5];
        assert_has(text(&of), ["are outliers: 1 ns and 9 ns, the others 5 ns"]);
    }

    #[test]
    fn a_change_is_marked_below_its_run_and_every_line_fits() {
        for (runs, columns) in [(8, 80), (8, 40), (70, 60), (600, 80), (600, 41)] {
            let text = history(&of(runs), Style { columns, ..Style::PLAIN });
            assert!(text.lines().all(|it| width(it) <= columns), "{columns}\n{text}");
            assert_lacks(&text, ["\u{1b}"]);
            assert_has(flowing(&text), ["-20.0 % (worse), from 1,000/s to 800/s"]);
            let lines: Vec<&str> = text.lines().collect();
            let mark = lines.iter().position(|it| it.trim() == "^").unwrap();
            let place = lines[mark].find('^').unwrap();
            let bars: Vec<char> = lines[mark - 1].chars().collect();
            assert_eq!((bars[place - 1], bars[place + 1]), ('█', '▁'), "{text}");
        }
    }
}
