//! Sentences on a matrix: where a change helps, where it hurts, and how that is decided.

use archive::{ComparedCell, ComparedFigure, ComparedMatrix, ComparedSide, Comparison, short_names};

use super::comparison::{
    ShownColumns, and_more, broker_of_b, come_or_gone, counted_runs, looks, needed, signed, together, told, too_few,
};
use crate::numbers::counted;

/// Cells that a sentence names, at most.
const MOST_NAMED: usize = 3;

/// Cells where it helps and where it hurts, in a sentence.
pub(crate) fn headline(of: &ComparedMatrix) -> String {
    let cells = counted(of.cells.len() as u64, "cell");
    let is_aa = of.comparisons().any(|it| it.is_aa);
    let worse = named(of, ComparedFigure::is_worse);
    let better = named(of, ComparedFigure::is_better);
    let open = of.cells.iter().filter(|cell| is_open(cell)).count();
    if is_aa {
        let wrong = named(of, |it| it.decision.differs());
        return match wrong.as_slice() {
            [] => format!("A against itself in {cells}: no change found"),
            wrong => format!("A against itself in {cells}: false alarm in {}", listed(wrong)),
        };
    }
    let part = |word: &str, found: &[String]| {
        (!found.is_empty()).then(|| format!("{word} in {} of {cells}: {}", found.len(), listed(found)))
    };
    let parts = [part("worse", &worse), part("better", &better)];
    let mut parts: Vec<String> = parts.into_iter().flatten().collect();
    if let Some(first) = parts.first_mut().filter(|_| of.keys.len() > 1) {
        // Explains `1 / 12`.
        *first = first.replacen(": ", &format!(" ({}): ", keys(of)), 1);
    }
    let few: Vec<String> = of.comparisons().map(too_few).collect();
    // Where some cells have enough, that is not why.
    let few = few.iter().min_by_key(|it| it.len());
    match (parts.is_empty(), open) {
        (true, 0) => return format!("the same within the margins in all {cells}"),
        (true, open) if open == of.cells.len() => {
            let few = few.map_or("", String::as_str);
            return format!("inconclusive in all {cells}{few}");
        }
        (true, open) => return format!("no change found in {cells}; {open} inconclusive for some figures"),
        (false, _) => {}
    }
    let unchanged = of.cells.iter().filter(|cell| is_unchanged(cell)).count();
    let same = unchanged - of.cells.iter().filter(|it| is_unchanged(it) && is_open(it)).count();
    parts.extend((same > 0).then(|| format!("the same in {same}")));
    parts.extend((unchanged > same).then(|| format!("inconclusive in {}", unchanged - same)));
    format!("B is {}", parts.join("; "))
}

/// The keys, in the order in which a cell names its values.
fn keys(of: &ComparedMatrix) -> String {
    short_names(&of.keys).join(" / ")
}

fn is_open(cell: &ComparedCell) -> bool {
    cell.comparison.as_ref().is_none_or(Comparison::is_undecided)
}

fn is_unchanged(cell: &ComparedCell) -> bool {
    let is_changed = |it: &Comparison| it.is_worse() || it.is_better();
    !cell.comparison.as_ref().is_some_and(is_changed)
}

/// The cells of which a figure is so, each with the figure that changed most.
fn named(of: &ComparedMatrix, is_so: fn(&ComparedFigure) -> bool) -> Vec<String> {
    let (names, main) = of.figures();
    let is_main = |figure: &ComparedFigure| names.iter().take(main).any(|it| *it == figure.name);
    let cells = of.cells.iter().filter_map(|cell| {
        let figures = cell.comparison.iter().flat_map(|it| &it.figures);
        let found = figures.filter(|figure| is_so(figure));
        let size = |it: &&ComparedFigure| (is_main(it), it.change.ln_1p().abs());
        let most = found.max_by(|a, b| {
            let ((main_a, a), (main_b, b)) = (size(a), size(b));
            main_a.cmp(&main_b).then(a.total_cmp(&b))
        })?;
        let change = match most.is_tested() {
            true => format!("{} {}", signed(most.change), most.name),
            false => come_or_gone(most),
        };
        Some(format!("{} ({change})", values(cell)))
    });
    cells.collect()
}

fn listed(cells: &[String]) -> String {
    cells.get(..MOST_NAMED).unwrap_or(cells).join(", ") + &and_more(cells.len().saturating_sub(MOST_NAMED))
}

/// Label of a cell beside the named keys: `classic / 100`.
pub(crate) fn values(cell: &ComparedCell) -> String {
    cell.values.join(" / ")
}

/// Outcome of a cell, in a few words.
pub(crate) fn outcome(cell: &ComparedCell) -> &'static str {
    let Some(of) = &cell.comparison else { return "no decision" };
    match (of.is_worse(), of.is_better()) {
        (true, true) => "better and worse",
        (true, false) => "worse",
        (false, true) => "better",
        (false, false) if of.is_undecided() => "inconclusive",
        (false, false) => "the same",
    }
}

/// Both sides with the runs of all cells and why others do not count, a sentence each.
pub(crate) fn sides(of: &ComparedMatrix) -> [String; 2] {
    sides_by(of, told, |it| &it.b.what)
}

/// Both sides with the runs of all cells, for a page that lists what differs and the runs that do not count.
pub(crate) fn counted_sides(of: &ComparedMatrix) -> [String; 2] {
    sides_by(of, counted_runs, broker_of_b)
}

fn sides_by(
    of: &ComparedMatrix,
    told: fn(&ComparedSide) -> String,
    broker_of_b: fn(&Comparison) -> &str,
) -> [String; 2] {
    let side = |choose: fn(&Comparison) -> &ComparedSide, broker: fn(&Comparison) -> &str| {
        let mut all = ComparedSide::default();
        let mut what: Vec<&str> = Vec::new();
        for (side, broker) in of.comparisons().map(|it| (choose(it), broker(it))) {
            if !what.contains(&broker) {
                what.push(broker);
            }
            all.logs |= side.logs;
            all.runs.extend(side.runs.iter().cloned());
            all.left_out.extend(side.left_out.iter().cloned());
        }
        all.what = what.join("; ");
        told(&all)
    };
    [side(|it| &it.a, |it| &it.a.what), side(|it| &it.b, broker_of_b)]
}

/// How it is decided, a sentence each.
pub(crate) fn notes(of: &ComparedMatrix, shown: ShownColumns) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(first) = of.comparisons().next() {
        notes.push(together(first, shown));
        let mut figures = of.comparisons().flat_map(|it| &it.figures);
        notes.extend(figures.any(|it| it.needed.is_some()).then(|| needed(first)));
        notes.extend(looks(first));
    }
    for cell in of.cells.iter().filter(|it| it.comparison.is_none()) {
        notes.push(format!(
            "No decision for {}: {}.",
            of.label(cell),
            cell.why_not.as_deref().unwrap_or("it has no runs").trim_end_matches('.')
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use archive::{Decision, MatrixKey, RunsCounted};
    use testkit::assert_ends;

    use super::*;

    fn matrix(cells: &[(&str, &[(Decision, f64)])]) -> ComparedMatrix {
        let figure = |(decision, change): &(Decision, f64)| {
            let (name, decision, change) = ("broker cpu".into(), *decision, *change);
            ComparedFigure { name, decision, change, ..ComparedFigure::default() }
        };
        let cell = |(value, figures): &(&str, &[(Decision, f64)])| {
            let comparison = Comparison { figures: figures.iter().map(figure).collect(), ..Comparison::default() };
            let (values, comparison) = (vec![(*value).to_owned()], Some(comparison));
            ComparedCell { values, comparison, ..ComparedCell::default() }
        };
        let keys = vec![MatrixKey { key: "load.0.queue-type".into(), ..MatrixKey::default() }];
        ComparedMatrix { keys, cells: cells.iter().map(cell).collect(), ..ComparedMatrix::default() }
    }

    #[test]
    fn the_sentence_says_where_it_helps_and_where_it_hurts() {
        use Decision::{Changed, Same, Undecided};
        let of = matrix(&[
            ("classic", &[(Changed, 0.2)]),
            ("quorum", &[(Changed, -0.1), (Undecided, 0.0)]),
            ("stream", &[(Same, 0.0)]),
            ("x", &[(Undecided, 0.0)]),
        ]);
        let expected = "B is worse in 1 of 4 cells: classic (+20.0 % broker cpu); better in 1 of 4 cells: quorum \
                        (-10.0 % broker cpu); the same in 1; inconclusive in 1";
        assert_eq!(headline(&of), expected);
        let words: Vec<&str> = of.cells.iter().map(outcome).collect();
        assert_eq!(words, ["worse", "better", "the same", "inconclusive"]);
        let same = matrix(&[("a", &[(Same, 0.0)]), ("b", &[(Same, 0.0)])]);
        assert_eq!(headline(&same), "the same within the margins in all 2 cells");
        // Too few runs of one cell do not explain another one.
        let mut open = matrix(&[("a", &[(Undecided, 0.0)]), ("b", &[(Undecided, 0.0)])]);
        let few = "inconclusive in all 2 cells: 0 runs per side cannot prove a change; use at least 5";
        assert_eq!(headline(&open), few);
        let enough = open.cells[1].comparison.as_mut().expect("decided");
        enough.a.runs = vec![archive::ComparedRun::default(); 8];
        enough.b.runs = enough.a.runs.clone();
        assert_eq!(headline(&open), "inconclusive in all 2 cells");
        let mut noise = same;
        for cell in &mut noise.cells {
            cell.comparison.as_mut().expect("decided").is_aa = true;
        }
        assert!(headline(&noise).starts_with("A against itself in 2 cells: no change"));
        let five = ["a", "b", "c", "d", "e"].map(|it| (it, &[(Changed, 0.2)][..]));
        assert!(headline(&matrix(&five)).contains("c (+20.0 % broker cpu) and 2 more"));
    }

    /// The page listed the key below once more.
    #[test]
    fn what_differs_stands_on_the_page_once() {
        let mut of = matrix(&[("x", &[])]);
        let one = of.cells[0].comparison.as_mut().expect("decided");
        (one.a.what, one.b.what) = ("RabbitMQ 4.0".into(), "RabbitMQ 4.0; load.0.rate 1 → 2".into());
        assert_eq!(counted_sides(&of), ["0 runs of RabbitMQ 4.0", "0 runs of RabbitMQ 4.0"]);
        assert_eq!(sides(&of)[1], "0 runs of RabbitMQ 4.0; load.0.rate 1 → 2");
        let one = of.cells[0].comparison.as_mut().expect("decided");
        one.a.runs = vec![archive::ComparedRun { invalid: true, ..Default::default() }; 2];
        assert_eq!(sides(&of)[0], "2 runs of RabbitMQ 4.0, 2 invalid by themselves");
    }

    /// Figures that some runs lack are told as of a comparison alone: fewer are not none.
    #[test]
    fn what_some_runs_have_is_not_told_as_none() {
        let told = |change: f64, without: (usize, usize), of_runs: Option<RunsCounted>| {
            let mut of = matrix(&[("x", &[(Decision::Changed, change)])]);
            let figure = &mut of.cells[0].comparison.as_mut().expect("decided").figures[0];
            (figure.name, figure.without, figure.of_runs) = ("lost".into(), without, of_runs);
            (figure.a, figure.b) = (vec![1.0; 8], vec![1.0; 8]);
            if of_runs.is_some() {
                figure.name = RunsCounted::INVALID.into();
            }
            headline(&of)
        };
        assert_ends(told(-0.9, (0, 4), None), "x (fewer lost messages)");
        assert_ends(told(-1.0, (0, 8), None), "x (no lost messages)");
        let invalid = told(1.0, (8, 2), Some(RunsCounted { a: (0, 8), b: (6, 8) }));
        assert_ends(invalid, "x (more invalid runs (0 of 8 of A, 6 of 8 of B))");
    }
}
