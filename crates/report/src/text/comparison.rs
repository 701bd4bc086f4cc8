//! Texts on two sides, alike in terminal, page and CI files. Names are as they came: who shows them sanitises.

use archive::{ComparedFigure, ComparedSide, Comparison, Decision, Quantity, QuantityUnit, RunsCounted};
use compare::LEAST_PAIRS;

use super::functions::{other_builds, renamed};
use crate::numbers::{TOO_FEW_RUNS, count, counted, figure, three_digits};

/// From so many times on, percentages are hard to read.
const MANY_TIMES: f64 = 10.0;

/// Figures that a sentence names, and logs of a side; the table has them all.
const MOST_NAMED: usize = 3;

/// Changes, in a sentence.
pub(crate) fn headline(of: &Comparison) -> String {
    if of.is_aa {
        return noise(of);
    }
    let mut changed: Vec<&ComparedFigure> =
        (of.figures.iter()).filter(|figure| figure.decision == Decision::Changed).collect();
    // Changes for the worse come first.
    changed.sort_by_key(|figure| !figure.is_worse());
    let worse = changed.iter().filter(|figure| figure.is_worse()).count();
    let is_mixed = worse > 0 && worse < changed.len();
    let more = changed.len().saturating_sub(MOST_NAMED);
    let changed: Vec<String> = changed
        .into_iter()
        .take(MOST_NAMED)
        .map(|figure| match (is_mixed, figure.is_worse()) {
            (false, _) => change(figure),
            (true, true) => change(figure) + " (worse)",
            (true, false) => change(figure) + " (better)",
        })
        .collect();
    let open = (of.figures.iter()).filter(|figure| figure.decision == Decision::Undecided).count();
    let begins = match (worse, is_mixed) {
        (_, true) => "changed",
        (0, _) => "changed for the better",
        _ => "changed for the worse",
    };
    match (changed.as_slice(), open) {
        _ if of.figures.is_empty() => "nothing to compare: the runs have no figure in common".to_owned(),
        ([], 0) => "the same within the margins".to_owned(),
        ([], _) if !of.figures.iter().any(ComparedFigure::is_tested) && is_alone(of) => {
            "inconclusive: a side of one run does not show how much runs differ".to_owned()
        }
        ([], open) if open == of.figures.len() => format!("inconclusive{}{}", why_open(of), invalid_runs(of)),
        ([], open) => format!(
            "no change found beyond the margins; {} inconclusive{}",
            match open {
                1 => "1 figure is".to_owned(),
                open => format!("{open} figures are"),
            },
            invalid_runs(of)
        ),
        (changed, _) => format!("{begins}: B has {}{}{}", changed.join(", "), and_more(more), invalid_runs(of)),
    }
}

/// Number of further items that are not named; empty for 0.
pub(crate) fn and_more(more: usize) -> String {
    match more {
        0 => String::new(),
        more => format!(" and {more} more"),
    }
}

/// Change of a figure: `a 24.0 % higher completed rate [+21.0 %, +27.0 %]`, `24.0 % more lost messages […]`.
fn change(of: &ComparedFigure) -> String {
    if of.without != (0, 0) || of.of_runs.is_some() {
        return come_or_gone(of);
    }
    let (low, high) = of.interval;
    if of.change >= MANY_TIMES - 1.0 {
        let times = |change: f64| three_digits(change + 1.0);
        return format!("{} times the {} [{}, {}]", times(of.change), noun(of), times(low), times(high));
    }
    let is_more = of.change > 0.0;
    let share = points(of.change.abs());
    let share = match (of.unit == QuantityUnit::Count, is_more) {
        (true, true) => share + " more",
        (true, false) => share + " fewer",
        (false, true) => with_article(&share) + " higher",
        (false, false) => with_article(&share) + " lower",
    };
    format!("{share} {} [{}, {}]", noun(of), signed(low), signed(high))
}

/// A number with its article, as it is spoken: `a 12.0 %`, `an 8.72 %`.
fn with_article(number: &str) -> String {
    let whole = number.split('.').next().unwrap_or_default();
    let is_vowel = whole.starts_with('8') || matches!(whole, "11" | "18");
    format!("{} {number}", if is_vowel { "an" } else { "a" })
}

/// Noun of a figure: `lost messages`, `received rate`, `use of broker cores`.
fn noun(of: &ComparedFigure) -> String {
    match of.name.as_str() {
        name if Quantity::is_cores(name) => format!("use of {name}"),
        name if Quantity::is_harm(name) => format!("{name} messages"),
        name => name.to_owned(),
    }
}

/// A figure that only one side has: a rate, failed requests, lost messages.
pub(crate) fn come_or_gone(of: &ComparedFigure) -> String {
    let is_more = of.change > 0.0;
    if let Some(runs) = of.of_runs {
        return format!("{} {} ({})", if is_more { "more" } else { "fewer" }, of.name, of_runs(runs));
    }
    let (name, without) = (noun(of), of.without);
    let both = without.0 < of.a.len() && without.1 < of.b.len();
    match is_more {
        true if both => format!("more {name}"),
        false if both => format!("fewer {name}"),
        true if Quantity::is_harm(&of.name) => name,
        true => format!("a {name}"),
        false => format!("no {name}"),
    }
}

/// How many runs of each side: `0 of 8 of A, 4 of 12 of B`.
fn of_runs(of: RunsCounted) -> String {
    format!("{} of {} of A, {} of {} of B", of.a.0, of.a.1, of.b.0, of.b.1)
}

/// Runs that do not count, unless the machine or its hypervisor is to blame; empty without any.
fn invalid_runs(of: &Comparison) -> String {
    let counted = of.figures.iter().filter_map(|it| Some((it, it.of_runs?)));
    let told = counted.filter(|it| it.0.decision == Decision::Undecided);
    told.map(|(figure, runs)| format!("; {}: {}", figure.name, of_runs(runs))).collect()
}

/// Why no figure is decided, and the remedy: too few pairs, or runs that differ too much.
fn why_open(of: &Comparison) -> String {
    let few = too_few(of);
    if !few.is_empty() {
        return few;
    }
    let units = units(of);
    let mut needed: Vec<_> = of.figures.iter().filter_map(|it| Some((it.needed?, it))).collect();
    needed.sort_by_key(|it| it.0);
    let would = match needed.as_slice() {
        [] => String::new(),
        [(pairs, _)] if of.figures.len() == 1 => format!("; about {} {units} are needed", count((*pairs).into())),
        [(least, steadiest), rest @ ..] => {
            let all = rest
                .last()
                .map(|(most, noisiest)| format!(", {} for {}, the noisiest", count((*most).into()), noun(noisiest)));
            format!(
                "; about {} {units} are needed for {}, the steadiest figure{}",
                count((*least).into()),
                noun(steadiest),
                all.unwrap_or_default()
            )
        }
    };
    let longer = if needed.is_empty() { "" } else { "; longer and quieter runs may help" };
    format!(": runs of one side differ too much{would}{longer}")
}

/// Remark that pairs, or runs, are too few to prove a change; empty where they are not.
pub(crate) fn too_few(of: &Comparison) -> String {
    let runs = of.a.runs.len().min(of.b.runs.len());
    if runs >= LEAST_PAIRS {
        return String::new();
    }
    let runs = if of.paired { counted(runs as u64, "pair") } else { counted(runs as u64, "run") + " per side" };
    format!(": {runs} cannot prove a change; use at least {LEAST_PAIRS}")
}

/// Remark of pairs, or runs, too few for a proof.
fn few(of: &Comparison, shown: ShownColumns) -> Option<String> {
    let holds = if shown.interval { "each interval includes 0, and " } else { "" };
    (!too_few(of).is_empty()).then(|| {
        format!(
            "Fewer than {LEAST_PAIRS} {} cannot prove that nothing changed, either: {holds}no p is shown.",
            units(of)
        )
    })
}

/// Why an interval ends at 0; `None` where none does that could have left it out.
fn drawn_out(of: &Comparison) -> Option<String> {
    let is_drawn_out = |it: &ComparedFigure| {
        let (low, high) = it.interval;
        it.is_tested() && it.corrected_p.is_some() && low < high && (low == 0.0 || high == 0.0)
    };
    of.figures.iter().any(is_drawn_out).then(|| {
        "An interval that ends at 0 % was extended to it: an exact test, which assumes no distribution, does not \
         prove the change; the p is of that test."
            .to_owned()
    })
}

fn is_alone(of: &Comparison) -> bool {
    of.figures.iter().any(|it| it.within_one_run.is_some())
}

/// How far the same differs from itself, in a sentence.
fn noise(of: &Comparison) -> String {
    let pairs = counted(of.a.runs.len() as u64, "pair");
    let changed: Vec<_> = of.figures.iter().filter(|it| it.decision.differs()).map(|it| it.name.as_str()).collect();
    let visible = of.figures.iter().filter(|it| it.is_tested()).map(shows_from);
    let (low, high) = visible.fold((f64::INFINITY, 0.0_f64), |(low, high), it| (low.min(it), high.max(it)));
    match changed.as_slice() {
        _ if of.figures.is_empty() => "A against itself: the runs have no figure in common".to_owned(),
        [] if !of.figures.iter().any(ComparedFigure::is_tested) => {
            format!("A against itself, {pairs}: no figure has a value in every run, so none can be tested")
        }
        [] if !too_few(of).is_empty() => format!(
            "A against itself, {pairs}: no change found, but {pairs} cannot prove one; use at least {LEAST_PAIRS}"
        ),
        [] => format!(
            "A against itself, {pairs}: no change found; on this machine {pairs} detect changes from \
             {} (the steadiest figure) to {} (the noisiest)",
            seen(low),
            seen(high)
        ),
        changed => format!("A against itself, {pairs}: false alarm for {}", changed.join(", ")),
    }
}

/// The logs of a side, the first by their names.
fn counted_logs(side: &ComparedSide) -> String {
    let named: Vec<&str> = (side.runs.iter().take(MOST_NAMED)).map(|run| run.id.as_str()).collect();
    let more = and_more(side.runs.len().saturating_sub(MOST_NAMED));
    let logs = counted(side.runs.len() as u64, "log");
    format!("{logs}: {}{more}", named.join(", "))
}

pub(crate) fn counted_runs(side: &ComparedSide) -> String {
    if side.logs {
        return counted_logs(side);
    }
    let what = if side.what.is_empty() { "an unknown broker" } else { &side.what };
    let mut text = format!("{} of {what}", counted(side.runs.len() as u64, "run"));
    let invalid = side.runs.iter().filter(|run| run.invalid).count();
    if invalid > 0 {
        // Where both sides have the cause, as with a debug build, runs can be compared.
        text += &format!(", {invalid} invalid by {}", if invalid == 1 { "itself" } else { "themselves" });
    }
    let cautious = side.runs.iter().filter(|run| run.cautious).count();
    if cautious > 0 {
        text += &format!(", {cautious} with cautions");
    }
    text
}

/// The broker of B, without the first key that differs where A has the same one.
pub(crate) fn broker_of_b(of: &Comparison) -> &str {
    let rest = of.b.what.strip_prefix(&of.a.what);
    if rest.is_some_and(|rest| rest.starts_with("; ")) { &of.a.what } else { &of.b.what }
}

/// The runs of a side, and how many others do not count.
pub(crate) fn without_reasons(side: &ComparedSide) -> String {
    match side.left_out.len() {
        0 => counted_runs(side),
        out => format!("{}; {} left out", counted_runs(side), counted(out as u64, "run")),
    }
}

/// The runs of a side, and why others do not count.
pub(crate) fn told(side: &ComparedSide) -> String {
    let mut text = counted_runs(side);

    let mut reasons: Vec<&str> = side.left_out.iter().map(|run| run.why.as_str()).collect();
    reasons.sort_unstable();
    reasons.dedup();
    for why in reasons {
        let of_it = side.left_out.iter().filter(|run| run.why == why);
        let what = match of_it.clone().count() {
            1 => of_it.map(|run| run.id.as_str()).collect::<String>(),
            several => counted(several as u64, "run"),
        };
        text += &format!("; {what} left out: {why}");
    }
    text
}

/// A figure's means on both sides, in its unit.
pub(crate) fn table_values(of: &ComparedFigure) -> (String, String) {
    let mean = |mean: f64| if mean > 0.0 { figure(mean, of.unit) } else { "none".to_owned() };
    (mean(of.means.0), mean(of.means.1))
}

/// A figure's change and interval, each empty where there is none: from 0, or with a side without runs.
pub(crate) fn change_and_interval(of: &ComparedFigure) -> (String, String) {
    let (low, high) = of.interval;
    match of.is_tested() {
        true if !interval_says(of) => (signed(of.change), TOO_FEW_RUNS.to_owned()),
        true => (signed(of.change), format!("{} to {}", signed(low), signed(high))),
        false if of.within_one_run.is_some() => (signed(of.change), String::new()),
        false => (String::new(), String::new()),
    }
}

/// Whether a figure's interval says anything: from nothing to a thousand times as much, runs are too few.
pub(crate) fn interval_says(of: &ComparedFigure) -> bool {
    let (low, high) = of.interval;
    of.is_tested() && (low >= TOLD[0] || high <= TOLD[1])
}

/// Length of a decision's text, with the name of the repeated measurements.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DecisionText<'a> {
    /// A sentence, with [`units`].
    Full(&'a str),
    /// As short as a terminal needs it, with [`short_units`].
    Short(&'a str),
}

/// Decision in words.
pub(crate) fn decision(of: &ComparedFigure, length: DecisionText<'_>) -> String {
    if of.without != (0, 0) || of.of_runs.is_some() {
        return without(of, length);
    }
    if of.within_one_run.is_some() {
        let side = |name: &str, runs: usize| (runs == 1).then(|| name.to_owned());
        let alone: Vec<String> = [side("A", of.a.len()), side("B", of.b.len())].into_iter().flatten().collect();
        return format!("inconclusive: one run of {}", alone.join(" and of "));
    }
    match (of.a.is_empty(), of.b.is_empty()) {
        (true, false) => return "inconclusive: no run of A counts".to_owned(),
        (false, true) => return "inconclusive: no run of B counts".to_owned(),
        _ => {}
    }
    match of.decision {
        Decision::Changed if of.is_worse() => "changed, worse".to_owned(),
        Decision::Changed => "changed, better".to_owned(),
        Decision::Negligible | Decision::Same => within_margin(of),
        Decision::Undecided => match of.needed {
            Some(needed) => {
                let (needed, margin) = (count(needed.into()), level(of.margin));
                match length {
                    DecisionText::Full(units) => format!("inconclusive (about {needed} {units} to detect {margin})"),
                    DecisionText::Short(units) => format!("inconclusive ({needed} {units} for {margin})"),
                }
            }
            None if of.is_tested() && of.a.len().min(of.b.len()) < LEAST_PAIRS => {
                format!("inconclusive: under {LEAST_PAIRS} runs")
            }
            None => "inconclusive".to_owned(),
        },
    }
}

/// A figure that is the same, or whose change is smaller than the margin.
fn within_margin(of: &ComparedFigure) -> String {
    let is_same = of.decision == Decision::Same;
    // Of counts a few are allowed, which may be many times as many.
    let is_share = of.unit != QuantityUnit::Count || of.margin < 1.0;
    match (is_share, is_same) {
        (true, true) => format!("same within {}", level(of.margin)),
        (true, false) => format!("changed by less than {}", level(of.margin)),
        (false, true) => "same within the margin".to_owned(),
        (false, false) => "changed by less than the margin".to_owned(),
    }
}

/// A figure that is absent in some runs, and the consequence.
fn without(of: &ComparedFigure, length: DecisionText<'_>) -> String {
    let side = |name: &str, without: usize, runs: usize| {
        (without > 0).then(|| format!("none in {without} of {runs} of {name}"))
    };
    let sides = [side("A", of.without.0, of.a.len()), side("B", of.without.1, of.b.len())];
    let sides: Vec<String> = sides.into_iter().flatten().collect();
    let sides = of.of_runs.map_or_else(|| sides.join(", "), of_runs);
    match (of.decision, of.needed) {
        (Decision::Changed, _) if of.is_worse() => format!("changed, worse: {sides}"),
        (Decision::Changed, _) => format!("changed, better: {sides}"),
        (Decision::Same | Decision::Negligible, _) => format!("{}: {sides}", within_margin(of)),
        (_, Some(needed)) => {
            let (DecisionText::Full(units) | DecisionText::Short(units)) = length;
            format!("inconclusive (about {needed} {units} needed): {sides}")
        }
        (_, None) => format!("inconclusive: {sides}"),
    }
}

/// Columns of a table that fit: others are not explained.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShownColumns {
    /// Means of A and B.
    pub(crate) means: bool,
    pub(crate) interval: bool,
    pub(crate) shows_from: bool,
}

impl ShownColumns {
    pub(crate) const ALL: Self = Self { means: true, interval: true, shows_from: true };
}

/// How it is decided, a sentence each.
pub(crate) fn notes(of: &Comparison, shown: ShownColumns) -> Vec<String> {
    let units = units(of);
    let mut notes = Vec::new();
    if of.figures.iter().any(ComparedFigure::is_tested) {
        notes.push(together(of, shown));
        notes.extend(shown.shows_from.then(|| {
            format!(
                "\"shows from\": the smallest change that this number of {units} shows in four of five experiments."
            )
        }));
        notes.extend(few(of, shown));
        notes.extend(drawn_out(of).filter(|_| shown.interval));
    }
    notes.extend(of.figures.iter().any(|it| it.decision == Decision::Same).then(|| same(of)));
    notes.extend(alone(of));
    notes.extend(of.figures.iter().any(|it| it.needed.is_some()).then(|| needed(of)));
    notes.extend(looks(of));
    let functions = of.functions.as_ref();
    notes.extend(functions.and_then(|it| other_builds(&it.other_builds)));
    notes.extend(of.functions.as_ref().and_then(renamed));
    notes.extend(of.no_functions.iter().map(|why| format!("Functions are not compared: {why}.")));
    let has_both = !of.a.runs.is_empty() && !of.b.runs.is_empty();
    if !of.paired && has_both {
        let drift = "a drift between the two sides, such as of the machine's clock or temperature, looks like a change";
        notes.push(format!("The runs are not paired: {drift}."));
    }
    notes
}

/// Remark on a side's only run, and the worth of its intervals.
fn alone(of: &Comparison) -> Vec<String> {
    let alone = [("A", &of.a), ("B", &of.b)].into_iter().filter_map(|(name, side)| {
        let blocks = side.within_one_run.as_ref()?;
        Some(match &blocks.why_not {
            Some(why) => format!("{name} is one run, without an interval within it: {why}."),
            None => format!(
                "{name} is one run of {:.0} s. Its 95 % intervals are by the stationary bootstrap over blocks of {} s: \
                 they say how exactly that run knows its own quantiles.",
                blocks.seconds,
                three_digits(blocks.block_s)
            ),
        })
    });
    let mut told: Vec<String> = alone.collect();
    if !told.is_empty() {
        told.push("Of one run nothing counts as changed; use at least 5 runs per side.".to_owned());
    }
    told
}

pub(crate) const WITHIN: [&str; 5] = ["within one run", "A", "A, 95 % interval", "B", "B, 95 % interval"];

/// The rows of the table of intervals within one run: the figures that have one.
pub(crate) fn within_rows(of: &Comparison) -> Vec<[String; 5]> {
    let rows = of.figures.iter().filter_map(|row| {
        let within = row.within_one_run.as_ref()?;
        within.a.or(within.b)?;
        let (a, b) = table_values(row);
        let interval = |of: Option<(f64, f64)>| match of {
            Some((low, high)) => format!("{} to {}", figure(low, row.unit), figure(high, row.unit)),
            None => String::new(),
        };
        Some([row.name.clone(), a, interval(within.a), b, interval(within.b)])
    });
    rows.collect()
}

/// Name of the repeated measurements.
pub(crate) const fn units(of: &Comparison) -> &'static str {
    if of.paired { "pairs" } else { "runs per side" }
}

/// Name of the repeated measurements where there is little room.
pub(crate) const fn short_units(of: &Comparison) -> &'static str {
    if of.paired { "pairs" } else { "runs" }
}

/// Number of figures decided together, and their level.
pub(crate) fn together(of: &Comparison, shown: ShownColumns) -> String {
    let figures = match of.family {
        Some(family) => {
            format!("The {} of all {}", counted(family.figures.into(), "figure"), counted(family.cells.into(), "cell"))
        }
        None => counted(of.figures.len() as u64, "figure"),
    };
    let is_one = of.family.map_or(of.figures.len(), |it| it.figures as usize) == 1;
    let decided = if is_one { "is decided" } else { "are decided together" };
    let means = if shown.means { "A and B are geometric means of runs, of counts plain ones. " } else { "" };
    let interval = match shown.interval {
        true => format!("; each interval has the confidence of its decision, {} or more", level(1.0 - of.level)),
        false => String::new(),
    };
    format!("{means}{figures} {decided} at a level of {}{interval}.", level(of.level))
}

/// A level or a margin as it was chosen: `5 %`, not `5.00 %`.
fn level(share: f64) -> String {
    let percent = share * 100.0;
    // Three digits, and none that say nothing: 1 %, 3.28 %.
    let scale = 10.0_f64.powi(2 - percent.abs().max(1e-9).log10().floor() as i32);
    format!("{} %", (percent * scale).round() / scale)
}

/// Meaning of "same within 1 %", which is decided for each figure alone, whatever changed.
pub(crate) fn same(of: &Comparison) -> String {
    format!(
        "\"same within M %\": the interval of {} of that figure alone lies within M %, the margin.",
        level(1.0 - 2.0 * of.level)
    )
}

/// Meaning of the number of pairs, or runs, of an inconclusive figure.
pub(crate) fn needed(of: &Comparison) -> String {
    let units = units(of);
    format!(
        "An inconclusive figure names the number of {units} that would show a change as large as its margin in four \
         of five experiments, beside the other figures."
    )
}

/// Numbers of pairs at which the experiment could have ended.
pub(crate) fn looks(of: &Comparison) -> Option<String> {
    let (last, earlier) = of.looks.split_last()?;
    let earlier: Vec<String> = earlier.iter().map(u32::to_string).collect();
    (!earlier.is_empty()).then(|| {
        format!(
            "The experiment could end at {} or {last} pairs, fixed beforehand, so each look has a stricter level.",
            earlier.join(", ")
        )
    })
}

pub(crate) fn probability(p: f64) -> String {
    if p < 0.001 { "<0.001".to_owned() } else { format!("{p:.3}") }
}

pub(crate) fn points(share: f64) -> String {
    format!("{} %", three_digits(share * 100.0))
}

/// Bounds of changes that are given: an interval of two runs soon reaches from a millionth to a million times as much.
const TOLD: [f64; 2] = [-0.9995, 1_000.0];

/// Smallest change that so many runs show of a figure; of one that fell, as a fall: nine times is one of 89 %.
pub(crate) fn shows_from(of: &ComparedFigure) -> f64 {
    let [_, highest] = TOLD;
    let is_ratio = of.unit != QuantityUnit::Count && of.visible <= highest;
    if is_ratio && of.change < 0.0 { of.visible / (1.0 + of.visible) } else { of.visible }
}

/// Smallest change that so many runs show, in words.
pub(crate) fn seen(share: f64) -> String {
    let [_, highest] = TOLD;
    match share {
        _ if share >= ComparedFigure::MOST_CHANGE => TOO_FEW_RUNS.to_owned(),
        _ if share > highest => "> 100,000 %".to_owned(),
        _ => points(share),
    }
}

/// A share with its sign; beyond a thousandth and a thousand times as much, that bound.
pub(crate) fn signed(share: f64) -> String {
    let [lowest, highest] = TOLD;
    match share {
        share if share < lowest => "< -99.9 %".to_owned(),
        share if share > highest => "> +100,000 %".to_owned(),
        // Intervals of what is not proven may end there; a change that is rounded is none of it.
        0.0 => "0 %".to_owned(),
        share if share < 0.0 => format!("-{}", points(-share)),
        share => format!("+{}", points(share)),
    }
}
