//! The requirements of a run as JUnit XML, which every CI server shows as tests.

use archive::{RunRecord, RunState};
use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesText, Event};

use crate::console::sanitise;
use crate::{numbers, text};

/// One test of the suite.
struct Case {
    name: String,
    /// What was observed, or what is wrong.
    told: String,
    /// Whether it passed; `None` where that cannot be told.
    passed: Option<bool>,
}

/// One test suite: a test for the run itself, and one for each requirement. Without a record it says that
/// the run has not ended; several are told apart by their number.
///
/// # Errors
/// Where no memory is left to write to.
pub fn junit(name: &str, records: &[RunRecord], requested: u32) -> std::io::Result<String> {
    let cases = cases(records, requested);
    let count = |passed| cases.iter().filter(|case| case.passed == passed).count();
    let mut writer = Writer::new_with_indent(Vec::new(), b' ', 2);
    writer.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    let mut suite = writer
        .create_element("testsuite")
        .with_attribute(("name", &*sanitise(name)))
        .with_attribute(("tests", cases.len().to_string().as_str()))
        .with_attribute(("failures", count(Some(false)).to_string().as_str()))
        .with_attribute(("errors", count(None).to_string().as_str()));
    if let Some(record) = records.first() {
        suite = suite.with_attribute(("timestamp", &*sanitise(&record.created)));
    }
    suite.write_inner_content(|writer| {
        cases
            .iter()
            .try_for_each(|case| write_case(writer, name, case))
    })?;
    let mut text = String::from_utf8_lossy(&writer.into_inner()).into_owned();
    text.push('\n');
    Ok(text)
}

fn cases(records: &[RunRecord], requested: u32) -> Vec<Case> {
    match records {
        [] => cases_of(None),
        [one] if requested <= 1 => cases_of(Some(one)),
        several => {
            let of = |(number, record): (usize, &RunRecord)| {
                let numbered = move |case: Case| Case {
                    name: format!("run {}: {}", number + 1, case.name),
                    ..case
                };
                cases_of(Some(record)).into_iter().map(numbered)
            };
            let missing = (several.len()..requested as usize).map(|run| Case {
                name: format!("run {}: the run", run + 1),
                told: "it was not made, or broke off before it measured".to_owned(),
                passed: None,
            });
            let made = several.iter().enumerate().flat_map(of);
            made.chain(missing).collect()
        }
    }
}

fn cases_of(record: Option<&RunRecord>) -> Vec<Case> {
    let summary = record.and_then(|record| record.summary.as_ref());
    let requirements = summary.map_or(&[][..], |summary| &summary.requirements);
    let required = requirements.iter().map(|requirement| Case {
        name: requirement.that.clone(),
        told: format!(
            "{}: {}",
            text::outcome(requirement.met),
            numbers::observed(requirement)
        ),
        passed: requirement.met,
    });
    std::iter::once(run(record)).chain(required).collect()
}

/// Whether the run itself came to its end.
fn run(record: Option<&RunRecord>) -> Case {
    let (told, passed) = match record {
        None => ("it has not ended".to_owned(), None),
        Some(record) => match (record.state, &record.error) {
            (RunState::Failed, Some(error)) => (error.clone(), None),
            (RunState::Complete | RunState::Interrupted, _) => {
                (record.state.as_str().to_owned(), Some(true))
            }
            (state, _) => (state.as_str().to_owned(), None),
        },
    };
    Case {
        name: "the run".to_owned(),
        told,
        passed,
    }
}

fn write_case(writer: &mut Writer<Vec<u8>>, class: &str, case: &Case) -> std::io::Result<()> {
    let told = sanitise(&case.told);
    let test = writer
        .create_element("testcase")
        .with_attribute(("classname", &*sanitise(class)))
        .with_attribute(("name", &*sanitise(&case.name)));
    test.write_inner_content(|writer| {
        let problem = match case.passed {
            Some(true) => {
                let out = writer.create_element("system-out");
                return out.write_text_content(BytesText::new(&told)).map(|_| ());
            }
            Some(false) => "failure",
            None => "error",
        };
        let problem = writer.create_element(problem);
        let problem = problem.with_attribute(("message", &*told));
        problem.write_empty().map(|_| ())
    })?;
    Ok(())
}
