//! Requirements of runs, and comparisons, as JUnit XML, which every CI server shows as tests.

use archive::{ComparedCell, ComparedMatrix, Comparison, Decision, RunRecord, RunState};
use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesText, Event};

use crate::console::sanitise;
use crate::numbers;
use crate::text::{self, comparison as words};

struct Case {
    name: String,
    /// Observed value, or the fault.
    told: String,
    outcome: CaseOutcome,
}

/// How a test ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CaseOutcome {
    /// The tested condition holds.
    Passed,
    /// The tested condition does not hold.
    Failed,
    /// The outcome is unknown, though it should be known.
    Broken,
    /// The measurement cannot tell.
    Skipped,
}

impl CaseOutcome {
    /// Outcome of a requirement; `None` where that cannot be told.
    const fn of(passed: Option<bool>) -> Self {
        match passed {
            Some(true) => Self::Passed,
            Some(false) => Self::Failed,
            None => Self::Broken,
        }
    }
}

/// One test suite: a test for the run itself, and one for each requirement. Without a record it holds the `failure`, or
/// says that the run has not ended; several are numbered.
///
/// # Errors
/// Where no memory is left to write to.
pub fn junit(name: &str, records: &[RunRecord], requested: u32, failure: Option<&str>) -> std::io::Result<String> {
    let created = records.first().map(|record| record.created.as_str());
    suite(name, created, &cases(records, requested, failure))
}

fn suite(name: &str, created: Option<&str>, cases: &[Case]) -> std::io::Result<String> {
    let count = |outcome| cases.iter().filter(|case| case.outcome == outcome).count();
    let mut writer = Writer::new_with_indent(Vec::new(), b' ', 2);
    writer.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    let mut suite = writer
        .create_element("testsuite")
        .with_attribute(("name", &*sanitise(name)))
        .with_attribute(("tests", cases.len().to_string().as_str()));
    for (attribute, outcome) in
        [("failures", CaseOutcome::Failed), ("errors", CaseOutcome::Broken), ("skipped", CaseOutcome::Skipped)]
    {
        suite = suite.with_attribute((attribute, count(outcome).to_string().as_str()));
    }
    if let Some(created) = created {
        suite = suite.with_attribute(("timestamp", &*sanitise(created)));
    }
    suite.write_inner_content(|writer| cases.iter().try_for_each(|case| write_case(writer, name, case)))?;
    Ok(String::from_utf8_lossy(&writer.into_inner()).into_owned() + "\n")
}

fn cases(records: &[RunRecord], requested: u32, failure: Option<&str>) -> Vec<Case> {
    match records {
        [] => cases_of(None, failure),
        [one] if requested <= 1 => cases_of(Some(one), None),
        several => {
            let of = |(number, record): (usize, &RunRecord)| {
                let numbered = move |case: Case| Case { name: format!("run {}: {}", number + 1, case.name), ..case };
                cases_of(Some(record), None).into_iter().map(numbered)
            };
            let missing = (several.len()..requested as usize).map(|run| Case {
                name: format!("run {}: the run", run + 1),
                told: match failure {
                    Some(failure) if run == several.len() => failure.to_owned(),
                    _ => "it was not made, or broke off before it measured".to_owned(),
                },
                outcome: CaseOutcome::Broken,
            });
            several.iter().enumerate().flat_map(of).chain(missing).collect()
        }
    }
}

fn cases_of(record: Option<&RunRecord>, failure: Option<&str>) -> Vec<Case> {
    let summary = record.and_then(|record| record.summary.as_ref());
    let requirements = summary.map_or(&[][..], |summary| &summary.requirements);
    let required = requirements.iter().map(|requirement| Case {
        name: requirement.that.clone(),
        told: format!("{}: {}", text::outcome(requirement.met), numbers::observed(requirement)),
        outcome: CaseOutcome::of(requirement.met),
    });
    std::iter::once(run(record, failure)).chain(required).collect()
}

/// Whether the run itself came to its end.
fn run(record: Option<&RunRecord>, failure: Option<&str>) -> Case {
    let (told, passed) = match record {
        None => (failure.unwrap_or("it has not ended").to_owned(), None),
        Some(record) => match (record.state, &record.error) {
            (RunState::Failed, Some(error)) => (error.clone(), None),
            (RunState::Complete | RunState::Interrupted, _) => (record.state.as_str().to_owned(), Some(true)),
            (state, _) => (state.as_str().to_owned(), None),
        },
    };
    Case { name: "the run".to_owned(), told, outcome: CaseOutcome::of(passed) }
}

fn write_case(writer: &mut Writer<Vec<u8>>, class: &str, case: &Case) -> std::io::Result<()> {
    let told = sanitise(&case.told);
    let test = writer
        .create_element("testcase")
        .with_attribute(("classname", &*sanitise(class)))
        .with_attribute(("name", &*sanitise(&case.name)));
    test.write_inner_content(|writer| {
        let problem = match case.outcome {
            CaseOutcome::Passed => {
                let out = writer.create_element("system-out");
                return out.write_text_content(BytesText::new(&told)).map(|_| ());
            }
            CaseOutcome::Failed => "failure",
            CaseOutcome::Broken => "error",
            CaseOutcome::Skipped => "skipped",
        };
        let problem = writer.create_element(problem).with_attribute(("message", &*told));
        problem.write_empty().map(|_| ())
    })?;
    Ok(())
}

/// A comparison or a matrix as a suite: a test for each figure, or for each cell.
pub(crate) fn comparison_junit(name: &str, of: Option<&ComparedMatrix>) -> std::io::Result<String> {
    let cases = match of {
        None => vec![Case {
            name: "the comparison".to_owned(),
            told: "it was not made, or broke off".to_owned(),
            outcome: CaseOutcome::Broken,
        }],
        Some(of) => {
            let cases = match of.alone() {
                Some(one) => figures(one),
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
    Some(Case { name: "all runs".to_owned(), told, outcome: CaseOutcome::Broken })
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
                (format!("no decision: {why}"), CaseOutcome::Broken)
            }
        };
        Case { name: of.label(cell), told, outcome }
    };
    of.cells.iter().map(cell).collect()
}

/// Decisions of a cell, with its undecided figures.
fn undecided(of: &Comparison) -> String {
    let open = of.figures.iter().filter(|it| it.decision == Decision::Undecided);
    let open: Vec<&str> = open.map(|it| it.name.as_str()).collect();
    format!("inconclusive: {}; {}", open.join(", "), words::headline(of))
}

fn figures(of: &Comparison) -> Vec<Case> {
    let whole = Case {
        name: "the comparison".to_owned(),
        told: words::headline(of),
        outcome: if of.figures.is_empty() { CaseOutcome::Skipped } else { CaseOutcome::Passed },
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
            told: format!("{}: A {a}, B {b}{change}", words::decision(figure, Some(words::units(of)))),
            outcome: match figure.decision {
                _ if figure.is_worse() => CaseOutcome::Failed,
                Decision::Undecided => CaseOutcome::Skipped,
                Decision::Changed | Decision::Negligible | Decision::Same => CaseOutcome::Passed,
            },
        }
    });
    std::iter::once(whole).chain(figures).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A CI server shows why nothing was measured.
    #[test]
    fn a_failure_before_the_run_is_its_error() {
        let of = |requested, failure| junit("demo", &[], requested, failure).expect("text");
        testkit::assert_has(of(1, None), ["<error message=\"it has not ended\"/>"]);
        testkit::assert_has(
            of(3, Some("no RabbitMQ found; name its folder")),
            ["errors=\"1\"", "<error message=\"no RabbitMQ found; name its folder\"/>"],
        );
        let first = RunRecord { state: RunState::Complete, ..RunRecord::default() };
        let text = junit("demo", &[first], 2, Some("refused")).expect("text");
        testkit::assert_has(text, ["name=\"run 2: the run\"", "<error message=\"refused\"/>"]);
    }
}
