//! What is wrong with an experiment.

use std::fmt;

use measure::Problem;

use super::origin::{line_of, shown, value_at};

/// What is wrong with an experiment, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExperimentError(Problem);

/// The remedy of what the TOML reader itself complains about.
const CORRECT_IT: &str = "docs/experiments.md says what each key takes";

/// Two keys this alike are taken for a slip of the pen (Jaro-Winkler similarity, 0 to 1).
const ALIKE: f64 = 0.75;

impl ExperimentError {
    pub(crate) const fn new(problem: Problem) -> Self {
        Self(problem)
    }

    /// From the TOML reader, about `source`.
    pub(super) fn from_toml(origin: &str, source: &str, e: &toml::de::Error) -> Self {
        let what = explained(e.message());
        let Some(span) = e.span() else {
            return Self::told(origin.to_owned(), &what);
        };
        let place = format!("{origin}:{}", line_of(source, span.start));
        let Some((path, value)) = value_at(source, span.start) else {
            return Self::told(place, &what);
        };
        let key = path.rsplit('.').next().unwrap_or(&path);
        let value = source.get(value).and_then(|value| shown(&path, value));
        Self::told(
            match value {
                _ if what.contains(&format!("{key} =")) => place,
                Some(value) => format!("{place}: {key} = {value}"),
                None => format!("{place}: {key}"),
            },
            &what,
        )
    }

    /// From an edit of one value.
    pub(super) fn from_edit(assignment: &str, message: &str) -> Self {
        Self::told(format!("--set {assignment}"), &explained(message))
    }

    /// Complaints of the types of an experiment come through the TOML reader, which carries one text: cause and
    /// remedy, with a semicolon between them.
    pub(super) fn told(place: String, text: &str) -> Self {
        let (what, help) = text.rsplit_once("; ").unwrap_or((text, CORRECT_IT));
        Self(Problem::new(place, what, help))
    }

    /// Where it is, what is wrong there, and the remedy.
    #[must_use]
    pub fn problem(&self) -> Problem {
        self.0.clone()
    }
}

impl fmt::Display for ExperimentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.sentence())
    }
}

impl std::error::Error for ExperimentError {}

/// Turns serde's words for an unknown key or choice into ours, with the nearest known one.
fn explained(message: &str) -> String {
    let first_line = message.lines().next().unwrap_or_default();
    for (kind, name) in [("unknown field ", "key"), ("unknown variant ", "value")] {
        if let Some(rest) = first_line.strip_prefix(kind) {
            let mut words = rest.split('`').skip(1).step_by(2);
            let unknown = words.next().unwrap_or_default();
            let known: Vec<&str> = words.collect();
            return unknown_name(name, unknown, &known);
        }
    }
    if let Some(field) = first_line.strip_prefix("missing field ") {
        return format!("the key {} is missing", field.replace('`', "\""));
    }
    if first_line.starts_with("data did not match any variant") {
        return "a value of this type cannot stand here".to_owned();
    }
    // What stands there instead may be a secret: `password = 12345`.
    let is_of_type = |kind| first_line.starts_with(kind);
    if ["invalid type: ", "invalid value: "]
        .into_iter()
        .any(is_of_type)
        && let Some((_, expected)) = first_line.rsplit_once(", expected ")
    {
        return format!("it must be {}", in_words(expected));
    }
    message.trim_end().replace('\n', "; ")
}

/// What serde calls a type, as people know it.
fn in_words(expected: &str) -> String {
    let up_to = |most: u64| format!("a whole number from 0 to {most}");
    match expected {
        "u8" => up_to(u8::MAX.into()),
        "u16" => up_to(u16::MAX.into()),
        "u32" => up_to(u32::MAX.into()),
        "u64" | "usize" => "a whole number from 0 on".to_owned(),
        "i64" => "a whole number".to_owned(),
        "f64" => "a number".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a string" => "text in quotes".to_owned(),
        "a sequence" => "a list in brackets".to_owned(),
        "a map" => "a table".to_owned(),
        other if other.starts_with("struct ") => "a table".to_owned(),
        other => other.to_owned(),
    }
}

/// `unknown key "raet"; did you mean "rate"?`
pub(crate) fn unknown_name(what: &str, unknown: &str, known: &[&str]) -> String {
    match nearest(unknown, known) {
        Some(nearest) => format!("unknown {what} {unknown:?}; did you mean {nearest:?}?"),
        None => format!(
            "unknown {what} {unknown:?}; there are: {}",
            known.join(", ")
        ),
    }
}

fn nearest<'a>(unknown: &str, known: &[&'a str]) -> Option<&'a str> {
    let plain = |name: &str| name.to_lowercase().replace('_', "-");
    let scored = known
        .iter()
        .map(|k| (strsim::jaro_winkler(&plain(unknown), &plain(k)), *k));
    let (score, name) = scored.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (score >= ALIKE).then_some(name)
}
