//! The requirements of a run as JUnit XML, which every CI server shows as tests.

use archive::{RequirementOutcome, RunRecord};
use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesText, Event};

use crate::console::sanitise;
use crate::numbers;

/// One test suite with a test for each requirement.
///
/// # Errors
/// Where no memory is left to write to.
pub fn junit(record: &RunRecord) -> std::io::Result<String> {
    let requirements = record.summary.as_ref().map_or(&[][..], |s| &s.requirements);
    let missed = requirements
        .iter()
        .filter(|it| it.met == Some(false))
        .count();
    let unknown = requirements.iter().filter(|it| it.met.is_none()).count();
    let mut writer = Writer::new_with_indent(Vec::new(), b' ', 2);
    writer.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    writer
        .create_element("testsuite")
        .with_attribute(("name", &*sanitise(&record.name)))
        .with_attribute(("timestamp", record.created.as_str()))
        .with_attribute(("tests", requirements.len().to_string().as_str()))
        .with_attribute(("failures", missed.to_string().as_str()))
        .with_attribute(("errors", unknown.to_string().as_str()))
        .write_inner_content(|writer| {
            for requirement in requirements {
                case(writer, &record.name, requirement)?;
            }
            Ok(())
        })?;
    let mut text = String::from_utf8_lossy(&writer.into_inner()).into_owned();
    text.push('\n');
    Ok(text)
}

fn case(
    writer: &mut Writer<Vec<u8>>,
    name: &str,
    requirement: &RequirementOutcome,
) -> std::io::Result<()> {
    let told = sanitise(&numbers::observed(requirement)).into_owned();
    let test = writer
        .create_element("testcase")
        .with_attribute(("classname", &*sanitise(name)))
        .with_attribute(("name", &*sanitise(&requirement.that)));
    let result = match requirement.met {
        Some(true) => {
            test.write_inner_content(|writer| {
                let out = writer.create_element("system-out");
                out.write_text_content(BytesText::new(&told)).map(|_| ())
            })?;
            return Ok(());
        }
        Some(false) => "failure",
        None => "error",
    };
    test.write_inner_content(|writer| {
        let problem = writer
            .create_element(result)
            .with_attribute(("message", told.as_str()));
        problem.write_empty().map(|_| ())
    })?;
    Ok(())
}
