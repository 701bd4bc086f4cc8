//! What is wrong with an experiment.

use std::fmt;

use measure::Problem;

/// What is wrong with an experiment, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExperimentError {
    origin: String,
    line: Option<usize>,
    text: String,
}

/// The remedy of what the TOML reader itself complains about.
const CORRECT_IT: &str = "correct it as docs/experiments.md says";

/// Two keys this alike are taken for a slip of the pen (Jaro-Winkler similarity, 0 to 1).
const ALIKE: f64 = 0.75;

impl ExperimentError {
    pub(crate) fn new(origin: &str, line: Option<usize>, text: impl Into<String>) -> Self {
        Self {
            origin: origin.to_owned(),
            line,
            text: text.into(),
        }
    }

    /// From the TOML reader, about `source`.
    pub(super) fn from_toml(origin: &str, source: &str, e: &toml::de::Error) -> Self {
        let Some(span) = e.span() else {
            return Self::new(origin, None, explained(e.message()));
        };
        let before = source.get(..span.start).unwrap_or(source);
        let line = before.matches('\n').count() + 1;
        let key = source
            .lines()
            .nth(line - 1)
            .and_then(|text| text.split_once('='));
        let text = explained(e.message());
        let text = match key.map(|(key, _)| key.trim()) {
            // Where the key itself is wrong, or the message names it, it stands there already.
            // A line in the middle of a text may hold anything before its `=`.
            Some(key) if is_key(key) && !text.contains(key) => format!("{key}: {text}"),
            _ => text,
        };
        Self::new(origin, Some(line), text)
    }

    /// Where it is, what is wrong there, and the remedy. Complaints of the types of an experiment
    /// come through the TOML reader, which carries one text: cause and remedy, with a semicolon
    /// between them.
    #[must_use]
    pub fn problem(&self) -> Problem {
        let place = match self.line {
            Some(line) => format!("{}:{line}", self.origin),
            None => self.origin.clone(),
        };
        let (what, help) = self
            .text
            .rsplit_once("; ")
            .unwrap_or((&self.text, CORRECT_IT));
        Problem::new(place, what, help)
    }

    /// From an edit of one value.
    pub(super) fn from_edit(assignment: &str, message: &str) -> Self {
        Self::new(&format!("--set {assignment}"), None, explained(message))
    }
}

impl fmt::Display for ExperimentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.origin, self.text),
            None => write!(f, "{}: {}", self.origin, self.text),
        }
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
    // What stands there instead may be a secret: `password = 12345`.
    let value = first_line
        .strip_prefix("invalid type: ")
        .and_then(|rest| rest.rsplit_once(", expected "));
    if let Some((found, expected)) = value {
        let kind = found.split(['`', '"']).next().unwrap_or_default();
        return format!("invalid type: {}, expected {expected}", kind.trim_end());
    }
    message.trim_end().replace('\n', "; ")
}

/// Whether the text can be a key of TOML, with dots.
fn is_key(text: &str) -> bool {
    let is_of_key = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !text.is_empty() && text.chars().all(is_of_key)
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
