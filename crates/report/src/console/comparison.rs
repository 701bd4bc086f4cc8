//! Two sides on a terminal: what is decided first, then every figure with its interval.

use archive::{ComparedFigure, ComparedSide, Comparison, Decision};

use super::comparison_functions;
use super::table::{Align, Table};
use super::text::{Style, sanitise, wrap};
use crate::numbers::{counted, figure, three_digits};

/// The comparison, ending in a newline.
#[must_use]
pub fn comparison(of: &Comparison, style: Style) -> String {
    let mut lines: Vec<String> = wrap(&headline(of), style.columns)
        .iter()
        .map(|line| style.strong(line))
        .collect();
    let explanation = of
        .functions
        .as_ref()
        .and_then(comparison_functions::explanation);
    for line in explanation.iter().flat_map(|it| wrap(it, style.columns)) {
        lines.push(style.strong(&line));
    }
    for (name, side) in [("A", &of.a), ("B", &of.b)] {
        lines.extend(wrap(&format!("{name}: {}", told(side)), style.columns));
    }
    for problem in &of.forced {
        let text = format!(
            "caution: compared all the same, although {}",
            sanitise(problem)
        );
        let told = wrap(&text, style.columns);
        lines.extend(told.iter().map(|line| style.caution(line)));
    }
    if !of.figures.is_empty() {
        lines.push(String::new());
        lines.extend(table(of).lines(style.columns));
    }
    if let Some(functions) = &of.functions {
        lines.push(String::new());
        lines.extend(comparison_functions::lines(functions, style));
    }
    lines.push(String::new());
    let notes = notes(of).into_iter();
    lines.extend(notes.flat_map(|note| wrap(&note, style.prose_columns())));
    lines.join("\n") + "\n"
}

/// What changed, in a sentence.
fn headline(of: &Comparison) -> String {
    if of.is_aa {
        return noise(of);
    }
    let changed: Vec<String> = (of.figures.iter())
        .filter(|figure| figure.decision == Decision::Changed)
        .map(|figure| {
            let (low, high) = figure.interval;
            let more = if figure.change > 0.0 { "more" } else { "less" };
            if figure.without != (0, 0) {
                let has = if figure.change > 0.0 { "a" } else { "no" };
                return format!("{has} {}", sanitise(&figure.name));
            }
            format!(
                "{} {more} {} [{}, {}]",
                points(figure.change.abs()),
                sanitise(&figure.name),
                signed(low),
                signed(high)
            )
        })
        .collect();
    let open = (of.figures.iter())
        .filter(|figure| figure.decision == Decision::Undecided)
        .count();
    match (changed.as_slice(), open) {
        _ if of.figures.is_empty() => "cannot tell: the runs have no figure in common".to_owned(),
        ([], 0) => "the same within the margins".to_owned(),
        ([], open) if open == of.figures.len() => "cannot tell whether anything changed".to_owned(),
        ([], open) => format!(
            "nothing changed as far as that can be told; of {} it cannot",
            counted(open as u64, "figure")
        ),
        (changed, _) => format!("changed: B has {}", changed.join(", ")),
    }
}

/// How far the same differs from itself, in a sentence.
fn noise(of: &Comparison) -> String {
    let pairs = counted(of.a.runs.len() as u64, "pair");
    let changed = of
        .figures
        .iter()
        .filter(|it| it.decision == Decision::Changed);
    let changed: Vec<_> = changed.map(|it| sanitise(&it.name)).collect();
    let tested = of.figures.iter().filter(|it| it.without == (0, 0));
    let visible = tested.map(|it| it.visible);
    let (low, high) = visible.fold((f64::INFINITY, 0.0_f64), |(low, high), it| {
        (low.min(it), high.max(it))
    });
    match changed.as_slice() {
        _ if of.figures.is_empty() => {
            "A against itself: the runs have no figure in common".to_owned()
        }
        [] => format!(
            "A against itself, {pairs}: nothing is called changed; what {pairs} show on this machine are changes from {} (the \
             steadiest figure) to {} (the noisiest)",
            points(low),
            points(high)
        ),
        changed => format!(
            "A against itself, {pairs}: called changed, although nothing was: {}",
            changed.join(", ")
        ),
    }
}

fn told(side: &ComparedSide) -> String {
    let what = match side.what.is_empty() {
        true => "an unknown broker".into(),
        false => sanitise(&side.what),
    };
    let mut text = format!("{} of {what}", counted(side.runs.len() as u64, "run"));
    let cautious = side.runs.iter().filter(|run| run.cautious).count();
    if cautious > 0 {
        text += &format!(", {cautious} with cautions");
    }
    let mut reasons: Vec<&str> = side.left_out.iter().map(|run| run.why.as_str()).collect();
    reasons.sort_unstable();
    reasons.dedup();
    for why in reasons {
        let of_it = side.left_out.iter().filter(|run| run.why == why);
        let what = match of_it.clone().count() {
            1 => of_it.map(|run| sanitise(&run.id)).collect::<String>(),
            several => counted(several as u64, "run"),
        };
        text += &format!("; {what} left out: {}", sanitise(why));
    }
    text
}

fn table(of: &Comparison) -> Table {
    let mut table = Table::new(&[
        ("", Align::Left),
        ("A", Align::Right),
        ("B", Align::Right),
        ("change", Align::Right),
        ("95 % interval", Align::Right),
        ("decision", Align::Left),
        ("shows from", Align::Right),
        ("p", Align::Right),
    ]);
    table.drop_in_order(&[7, 6, 4]);
    for row in &of.figures {
        if row.without != (0, 0) {
            let mean = |mean: f64| match mean > 0.0 {
                true => figure(mean, row.unit),
                false => "none".to_owned(),
            };
            let mut cells = vec![String::new(); 8];
            cells.splice(
                ..3,
                [
                    sanitise(&row.name).into_owned(),
                    mean(row.means.0),
                    mean(row.means.1),
                ],
            );
            cells.splice(5..6, [decision(row)]);
            table.row(cells);
            continue;
        }
        table.row(vec![
            sanitise(&row.name).into_owned(),
            figure(row.means.0, row.unit),
            figure(row.means.1, row.unit),
            signed(row.change),
            format!("{} to {}", signed(row.interval.0), signed(row.interval.1)),
            decision(row),
            points(row.visible),
            probability(row.corrected_p),
        ]);
    }
    table
}

/// What is decided, in words.
fn decision(of: &ComparedFigure) -> String {
    if of.without != (0, 0) {
        return without(of);
    }
    match of.decision {
        Decision::Changed if of.is_worse() => "changed, worse".to_owned(),
        Decision::Changed => "changed, better".to_owned(),
        Decision::Negligible => format!("changed by less than {}", points(of.margin)),
        Decision::Same => format!("same within {}", points(of.margin)),
        Decision::Undecided => match of.needed {
            Some(needed) => format!("cannot tell: {needed} would"),
            None => "cannot tell".to_owned(),
        },
    }
}

/// That a figure is nothing in some runs, and what comes of that.
fn without(of: &ComparedFigure) -> String {
    let side = |name: &str, without: usize, runs: usize| {
        (without > 0).then(|| format!("none in {without} of {runs} of {name}"))
    };
    let sides = [
        side("A", of.without.0, of.a.len()),
        side("B", of.without.1, of.b.len()),
    ];
    let sides: Vec<String> = sides.into_iter().flatten().collect();
    let decided = match of.decision {
        Decision::Changed if of.is_worse() => "changed, worse",
        Decision::Changed => "changed, better",
        _ => "cannot tell",
    };
    format!("{decided}: {}", sides.join(", "))
}

fn notes(of: &Comparison) -> Vec<String> {
    let units = if of.paired {
        "pairs"
    } else {
        "runs of each side"
    };
    let mut notes = vec![format!(
        "A and B are geometric means of runs. {} figures are decided together at a level of {}.",
        of.figures.len(),
        points(of.level)
    )];
    notes.push(format!(
        "\"shows from\": the smallest change that so many {units} with this noise show in four of five experiments."
    ));
    if of.figures.iter().any(|it| it.needed.is_some()) {
        notes.push(format!(
            "\"cannot tell: N would\": N {units} would show a change as large as the margin in four of five experiments."
        ));
    }
    if let [earlier @ .., last] = of.looks.as_slice()
        && !earlier.is_empty()
    {
        let earlier: Vec<String> = earlier.iter().map(u32::to_string).collect();
        notes.push(format!(
            "It could have ended at {} or {last} pairs, which was fixed beforehand: hence the stricter level of each look.",
            earlier.join(", ")
        ));
    }
    if let Some(why) = &of.no_functions {
        notes.push(format!("Functions are not compared: {}.", sanitise(why)));
    }
    if !of.paired {
        notes.push(
            "The runs stand in no pairs: what drifted between the two sides, such as the machine's clock or temperature, looks like \
             a change."
                .to_owned(),
        );
    }
    notes
}

fn probability(p: f64) -> String {
    if p < 0.001 {
        "<0.001".to_owned()
    } else {
        format!("{p:.3}")
    }
}

/// A share in per cent.
fn points(share: f64) -> String {
    format!("{} %", three_digits(share * 100.0))
}

/// The same with its sign.
fn signed(share: f64) -> String {
    let sign = if share < 0.0 { "-" } else { "+" };
    format!("{sign}{}", points(share.abs()))
}

#[cfg(test)]
mod tests {
    use archive::{ComparedRun, QuantityUnit};

    use super::*;

    fn row(name: &str, decision: Decision, change: f64) -> ComparedFigure {
        ComparedFigure {
            name: name.into(),
            unit: QuantityUnit::PerSecond,
            more_is_better: true,
            means: (1000.0, 1000.0 * (1.0 + change)),
            change,
            interval: (change - 0.01, change + 0.01),
            corrected_p: 0.004,
            margin: 0.01,
            decision,
            needed: (decision == Decision::Undecided).then_some(23),
            ..ComparedFigure::default()
        }
    }

    fn of(figures: Vec<ComparedFigure>) -> Comparison {
        let side = ComparedSide {
            what: "RabbitMQ 3.10.8".into(),
            runs: vec![ComparedRun::default(); 8],
            left_out: Vec::new(),
        };
        Comparison {
            a: side.clone(),
            b: side,
            level: 0.05,
            figures,
            ..Comparison::default()
        }
    }

    #[test]
    fn what_is_decided_comes_first_and_fits() {
        let text = |of: &Comparison| {
            comparison(
                of,
                Style {
                    columns: 80,
                    ..Style::PLAIN
                },
            )
        };
        let all = of(vec![
            row("sent rate", Decision::Changed, 0.24),
            row("received rate", Decision::Undecided, 0.001),
            row("x", Decision::Same, 0.001),
        ]);
        let shown = text(&all);
        assert!(
            shown.starts_with("changed: B has 24.0 % more sent rate [+23.0 %, +25.0 %]\n"),
            "{shown}"
        );
        for part in [
            "changed, better",
            "cannot tell: 23 would",
            "same within 1.00 %",
        ] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        assert!(
            shown.lines().all(|line| line.chars().count() <= 80),
            "{shown}"
        );
        let noise = Comparison {
            is_aa: true,
            ..of(vec![row("x", Decision::Same, 0.0)])
        };
        assert!(text(&noise).starts_with("A against itself, 8 pairs: nothing"));
        let same = of(vec![row("x", Decision::Same, 0.0)]);
        assert!(text(&same).starts_with("the same within the margins\n"));
        assert!(text(&of(Vec::new())).starts_with("cannot tell"));
        assert!(row("x", Decision::Changed, -0.2).is_worse());
    }
}
