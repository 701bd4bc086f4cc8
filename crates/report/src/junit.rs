//! Requirements of runs, and comparisons, as JUnit XML, which every CI server shows as tests.

use archive::{ComparedCell, ComparedMatrix, Comparison, Decision, Quantity, QuantityUnit, RunRecord, RunState, Tier};
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

/// Requested runs, and how they are judged.
#[derive(Clone, Copy, Debug, Default)]
pub struct JunitRuns<'a> {
    /// Number of requested runs.
    pub requested: u32,
    /// Whether a warning that a number must not be used fails a test (`--strict`).
    pub strict: bool,
    /// Cause and remedy of the failure that left no record of a run, in a sentence.
    pub failure: Option<&'a str>,
}

/// One test suite: a test for the run, one for each requirement, and if strict one for its warnings. Without a record
/// it says why; several are numbered. The figures of a single run are properties. Errors: where no memory is left.
pub fn junit(name: &str, records: &[RunRecord], of: JunitRuns<'_>) -> std::io::Result<String> {
    let created = records.first().map(|record| record.created.as_str());
    suite(name, created, &cases(records, of), &properties(records))
}

/// The figures of the only run, as numbers behind names with their units: `end-to-end p99 ns`.
fn properties(records: &[RunRecord]) -> Vec<(String, f64)> {
    let [RunRecord { summary: Some(summary), .. }] = records else { return Vec::new() };
    let named = |(of, value): (Quantity, f64)| {
        let unit = match of.unit() {
            QuantityUnit::Ns => " ns",
            QuantityUnit::PerSecond => " per second",
            QuantityUnit::Bytes => " bytes",
            QuantityUnit::Share | QuantityUnit::Count | QuantityUnit::Cores => "",
        };
        (of.name() + unit, rounded(value, of.unit()))
    };
    Quantity::of_run(summary).into_iter().map(named).collect()
}

/// A figure with the digits that it has elsewhere: three, and all of a whole count.
fn rounded(value: f64, unit: QuantityUnit) -> f64 {
    match unit {
        QuantityUnit::Count if value.fract() == 0.0 => value,
        _ => format!("{value:.2e}").parse().unwrap_or(value),
    }
}

fn suite(name: &str, created: Option<&str>, cases: &[Case], properties: &[(String, f64)]) -> std::io::Result<String> {
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
    suite.write_inner_content(|writer| {
        if !properties.is_empty() {
            writer.create_element("properties").write_inner_content(|writer| {
                properties.iter().try_for_each(|(name, value)| {
                    let property = writer.create_element("property").with_attribute(("name", &*sanitise(name)));
                    property.with_attribute(("value", value.to_string().as_str())).write_empty().map(|_| ())
                })
            })?;
        }
        cases.iter().try_for_each(|case| write_case(writer, name, case))
    })?;
    Ok(String::from_utf8_lossy(&writer.into_inner()).into_owned() + "\n")
}

fn cases(records: &[RunRecord], of: JunitRuns<'_>) -> Vec<Case> {
    match records {
        [] => {
            let told = of.failure.unwrap_or("it has not ended").to_owned();
            vec![Case { name: "the run".to_owned(), told, outcome: CaseOutcome::Broken }]
        }
        [one] if of.requested <= 1 => cases_of(one, of.strict),
        several => {
            let numbered_cases = |(number, record): (usize, &RunRecord)| {
                let numbered = move |case: Case| Case { name: format!("run {}: {}", number + 1, case.name), ..case };
                cases_of(record, of.strict).into_iter().map(numbered)
            };
            let missing = (several.len()..of.requested as usize).map(|run| Case {
                name: format!("run {}: the run", run + 1),
                told: match of.failure.filter(|_| run == several.len()) {
                    Some(failure) => failure.to_owned(),
                    None => "it was not made, or broke off before it measured".to_owned(),
                },
                outcome: CaseOutcome::Broken,
            });
            several.iter().enumerate().flat_map(numbered_cases).chain(missing).collect()
        }
    }
}

fn cases_of(record: &RunRecord, is_strict: bool) -> Vec<Case> {
    let requirements = record.summary.as_ref().map_or(&[][..], |summary| &summary.requirements);
    let required = requirements.iter().map(|requirement| Case {
        name: requirement.that.clone(),
        told: format!("{}: {}", text::outcome(requirement.met), numbers::observed(requirement)),
        outcome: match requirement.met {
            Some(true) => CaseOutcome::Passed,
            Some(false) => CaseOutcome::Failed,
            None => CaseOutcome::Broken,
        },
    });
    std::iter::once(run(record)).chain(is_strict.then(|| valid(record))).chain(required).collect()
}

/// Whether the run itself came to its end.
fn run(record: &RunRecord) -> Case {
    let (told, outcome) = match (record.state, &record.error) {
        (RunState::Failed, Some(error)) => (error.as_str(), CaseOutcome::Broken),
        (state @ (RunState::Complete | RunState::Interrupted), _) => (state.name(), CaseOutcome::Passed),
        (state, _) => (state.name(), CaseOutcome::Broken),
    };
    Case { name: "the run".to_owned(), told: told.to_owned(), outcome }
}

/// Whether no warning says that a number must not be used; with the texts of those that do.
fn valid(record: &RunRecord) -> Case {
    let warnings = record.summary.iter().flat_map(|summary| &summary.warnings);
    let invalid: Vec<&str> = warnings.filter(|it| it.tier == Tier::Invalid).map(|it| it.text.as_str()).collect();
    let (told, outcome) = match invalid.as_slice() {
        [] => ("none".to_owned(), CaseOutcome::Passed),
        texts => (format!("invalid: {}", texts.join("; ")), CaseOutcome::Failed),
    };
    Case { name: "no invalid warning (--strict)".to_owned(), told, outcome }
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
            let cases = of.alone().map_or_else(|| cells(of), figures);
            broke_off(of).into_iter().chain(cases).collect()
        }
    };
    suite(name, None, &cases, &[])
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
            told: format!(
                "{}: A {a}, B {b}{change}",
                words::decision(figure, words::DecisionText::Full(words::units(of)))
            ),
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
    use archive::{Finding, RunSummary, Warning};
    use testkit::{assert_has, assert_lacks};

    use super::*;

    /// A CI server showed "it has not ended", and the cause and the remedy were on standard error only.
    #[test]
    fn a_run_without_a_record_has_the_cause() {
        let of = JunitRuns { requested: 1, failure: Some("no RabbitMQ found; install it"), ..JunitRuns::default() };
        assert_has(junit("x", &[], of).unwrap(), ["<error message=\"no RabbitMQ found; install it\"/>"]);
        assert_has(junit("x", &[], JunitRuns::default()).unwrap(), ["<error message=\"it has not ended\"/>"]);
        let complete = RunRecord { state: RunState::Complete, ..RunRecord::default() };
        assert_lacks(junit("x", std::slice::from_ref(&complete), of).unwrap(), ["<propert"]);
        let repeated = junit("x", &[complete], JunitRuns { requested: 3, ..of }).unwrap();
        assert_has(&repeated, ["errors=\"2\"", "<error message=\"it was not made"]);
        assert_eq!(repeated.matches("no RabbitMQ found").count(), 1, "{repeated}");
    }

    /// A rate of `54802.133333333331` stood beside 54,800/s.
    #[test]
    fn a_figure_has_the_digits_that_the_console_has() {
        let all =
            [(54_802.133, QuantityUnit::PerSecond), (566_271.0, QuantityUnit::Ns), (0.082_345, QuantityUnit::Share)];
        assert_eq!(all.map(|(value, unit)| rounded(value, unit).to_string()), ["54800", "566000", "0.0823"]);
        assert_eq!(rounded(230_123.0, QuantityUnit::Count).to_string(), "230123");
    }

    /// A job was red by its exit code, and its file had no failure.
    #[test]
    fn an_invalid_run_fails_a_test_only_if_strict() {
        let mut warning = Warning::new(Tier::Invalid, Finding::DebugBuild {});
        warning.text = "a debug build".to_owned();
        let summary = RunSummary { warnings: vec![warning], ..RunSummary::default() };
        let record = RunRecord { state: RunState::Complete, summary: Some(summary), ..RunRecord::default() };
        let told = |strict, record: &RunRecord| {
            junit("x", std::slice::from_ref(record), JunitRuns { strict, ..JunitRuns::default() }).unwrap()
        };
        let strict = [
            "tests=\"2\" failures=\"1\"",
            "<failure message=\"invalid: a debug build\"/>",
            "<property name=\"stalls\" value=\"0\"/>",
        ];
        assert_has(told(true, &record), strict);
        assert_lacks(told(false, &record), ["debug build", "<failure"]);
        assert_has(told(true, &RunRecord { summary: None, ..record }), ["failures=\"0\""]);
    }
}
