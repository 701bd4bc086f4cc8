//! A comparison as JUnit XML: a test for each figure, or for each cell of a matrix.

use archive::{ComparedCell, ComparedMatrix, Comparison, Decision};

use crate::junit::{Case, CaseOutcome, suite};
use crate::text::comparison as words;

pub(super) fn text(name: &str, of: Option<&ComparedMatrix>) -> std::io::Result<String> {
    let cases = match of {
        None => vec![Case {
            name: "the comparison".to_owned(),
            told: "it was not made, or broke off".to_owned(),
            outcome: CaseOutcome::Broken,
        }],
        Some(of) => {
            let cases = match of.alone() {
                Some(one) => cases(one),
                None => cells(of),
            };
            broke_off(of).into_iter().chain(cases).collect()
        }
    };
    suite(name, None, &cases)
}

/// A failed case for missing runs, whatever the others show.
fn broke_off(of: &ComparedMatrix) -> Option<Case> {
    let told = of.comparisons().find_map(|it| it.broke_off.clone())?;
    Some(Case {
        name: "all runs".to_owned(),
        told,
        outcome: CaseOutcome::Broken,
    })
}

/// A test for each cell: one with a figure for the worse fails, whatever became better in it.
fn cells(of: &ComparedMatrix) -> Vec<Case> {
    let cell = |cell: &ComparedCell| {
        let (told, outcome) = match &cell.comparison {
            Some(one) if one.is_worse() => (words::headline(one), CaseOutcome::Failed),
            Some(one) if one.is_undecided() => (undecided(one), CaseOutcome::Skipped),
            Some(one) => (words::headline(one), CaseOutcome::Passed),
            None => {
                let why = cell.why_not.clone().unwrap_or_default();
                (format!("nothing decided: {why}"), CaseOutcome::Broken)
            }
        };
        Case {
            name: of.label(cell),
            told,
            outcome,
        }
    };
    of.cells.iter().map(cell).collect()
}

/// Decisions of a cell, with its undecided figures.
fn undecided(of: &Comparison) -> String {
    let open = of
        .figures
        .iter()
        .filter(|it| it.decision == Decision::Undecided);
    let open: Vec<&str> = open.map(|it| it.name.as_str()).collect();
    format!(
        "cannot tell of {}; {}",
        open.join(", "),
        words::headline(of)
    )
}

fn cases(of: &Comparison) -> Vec<Case> {
    let whole = Case {
        name: "the comparison".to_owned(),
        told: words::headline(of),
        outcome: match of.figures.is_empty() {
            true => CaseOutcome::Skipped,
            false => CaseOutcome::Passed,
        },
    };
    let figures = of.figures.iter().map(|figure| {
        let (a, b) = words::table_values(figure);
        let change = match figure.is_tested() {
            true if words::interval_says(figure) => format!(
                ": {} [{}, {}]",
                words::signed(figure.change),
                words::signed(figure.interval.0),
                words::signed(figure.interval.1)
            ),
            true => format!(": {}", words::signed(figure.change)),
            false => String::new(),
        };
        Case {
            name: figure.name.clone(),
            told: format!("{}: A {a}, B {b}{change}", words::decision(figure)),
            outcome: match figure.decision {
                _ if figure.is_worse() => CaseOutcome::Failed,
                Decision::Undecided => CaseOutcome::Skipped,
                Decision::Changed | Decision::Negligible | Decision::Same => CaseOutcome::Passed,
            },
        }
    });
    std::iter::once(whole).chain(figures).collect()
}
