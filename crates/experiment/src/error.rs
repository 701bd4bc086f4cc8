//! Errors of an experiment.

use std::fmt::{self, Display};
use std::ops::Range;

use measure::{Problem, Refused};
use toml::de::{DeTable, DeValue};

use super::origin::{line_of, shown, value_at};

/// An error of an experiment and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExperimentError(Problem);

/// A key whose value makes no sense; `why` follows the key as the user knows it.
pub(super) fn wrong(key: impl Into<Box<str>>, why: impl Display, help: impl Into<String>) -> Problem {
    let key = key.into();
    Problem::new(format!("{{{key}}}{why}"), "", help).about(key)
}

/// Refuses a key, as [`wrong`] does, unless its value `is_fine`.
pub(super) fn ensure(
    is_fine: bool,
    key: impl Into<Box<str>>,
    why: impl Display,
    help: impl Into<String>,
) -> Result<(), Problem> {
    wrong(key, why, help).unless(is_fine)
}

/// Remedy for errors of the TOML reader itself.
const CORRECT_IT: &str = "`bellows help keys` says what each key takes";

/// Two keys this alike are taken for a slip of the pen (Jaro-Winkler similarity, 0 to 1).
const ALIKE: f64 = 0.75;

impl ExperimentError {
    /// Wraps a problem whose value names the place.
    pub const fn new(problem: Problem) -> Self {
        Self(problem)
    }

    /// An error of the TOML reader about `source`.
    pub(super) fn from_toml(origin: &str, source: &str, e: &toml::de::Error) -> Self {
        if let Some(problem) = wrong_brackets(origin, source) {
            return Self(problem);
        }
        let Refused { what, help } = explained(e.message());
        let Some(span) = e.span() else {
            return Self(Problem::new(format!("{origin}: {what}"), origin, help));
        };
        let place = format!("{origin}:{}", line_of(source, span.start));
        let Some((path, value)) = value_at(source, span.start) else {
            return Self(beside_values(&place, source, span, &what, &help));
        };
        let key = path.rsplit('.').next().unwrap_or(&path);
        let value = source.get(value).and_then(|value| shown(&path, value));
        let place = match &value {
            _ if what.contains(&format!("{key} =")) => place,
            Some(value) => format!("{place}: {key} = {value}"),
            None => format!("{place}: {key}"),
        };
        let observed = value.unwrap_or_else(|| key.to_owned());
        Self(Problem::new(format!("{place}: {what}"), observed, help))
    }

    /// About an edit of one value, which this option was given.
    pub(super) fn of_edit(option: &str, assignment: &str, refused: Refused) -> Self {
        let cause = format!("{option} {assignment}: {}", refused.what);
        let value = assignment.split_once('=').map(|(_, value)| value.trim());
        let value = value.filter(|value| !value.is_empty());
        Self(Problem::new(cause, value.unwrap_or(assignment), refused.help))
    }

    /// The place, the error there, and the remedy.
    pub fn problem(&self) -> Problem {
        self.0.clone()
    }
}

impl Display for ExperimentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.sentence())
    }
}

impl std::error::Error for ExperimentError {}

/// A problem of a key, a table or the text itself, where no value is at fault.
fn beside_values(place: &str, source: &str, span: Range<usize>, what: &str, help: &str) -> Problem {
    let (key, table) = written_at(source, span.start);
    // An unknown key is quoted; anything else may hold a secret.
    let quoted = source.get(span).filter(|text| what.contains(*text));
    let help = match (help.strip_prefix("there are: "), table) {
        (Some(known), Some(table)) => format!("{table} takes {known}"),
        _ => help.to_owned(),
    };
    match (quoted.filter(|text| !text.is_empty()), key) {
        (Some(quoted), _) => Problem::new(format!("{place}: {what}"), quoted, help),
        (None, Some(key)) => Problem::new(format!("{place}: {key}: {what}"), key, help),
        (None, None) => Problem::new(format!("{place}: {what}"), place, help),
    }
}

/// The key or table that begins a place's line, and the table around that line.
fn written_at(source: &str, at: usize) -> (Option<&str>, Option<&str>) {
    let before = source.get(..at).unwrap_or(source);
    let begin = before.rfind('\n').map_or(0, |end| end + 1);
    let line = |from: usize| source.get(from..).and_then(|rest| rest.lines().next());
    let is_key = |text: &&str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.\"'[]".contains(c);
        !text.is_empty() && text.chars().all(plain)
    };
    let key = line(begin).map(|line| line.split('=').next().unwrap_or_default().trim());
    let above = source.get(..begin).unwrap_or_default().lines();
    let table = above.map(str::trim).rfind(|line| line.starts_with('['));
    (key.filter(is_key), table.filter(is_key))
}

/// A table that the file writes as a list, or the other way round: `[[churn]]`, `[load]`; or as a value: `load = 3`.
fn wrong_brackets(origin: &str, source: &str) -> Option<Problem> {
    const ONCE: [&str; 4] = ["broker", "phases", "profile", "churn"];
    const SEVERAL: [&str; 4] = ["load", "fault", "require", "probe"];
    DeTable::parse(source).ok()?.get_ref().iter().find_map(|(key, value)| {
        let name = key.get_ref().as_ref();
        let (written, what, help) = match value.get_ref() {
            DeValue::Array(_) if ONCE.contains(&name) => {
                (format!("[[{name}]]"), "an experiment has this table only once", format!("write [{name}], once"))
            }
            DeValue::Table(_) if SEVERAL.contains(&name) => {
                (format!("[{name}]"), "an experiment has a list of these tables", format!("write [[{name}]]"))
            }
            DeValue::Array(_) | DeValue::Table(_) => return None,
            _ => {
                let table = match (ONCE.contains(&name), SEVERAL.contains(&name)) {
                    (true, _) => format!("[{name}]"),
                    (_, true) => format!("[[{name}]]"),
                    _ => return None,
                };
                let value = source.get(value.span());
                let value = value.and_then(|value| shown(name, value));
                let written = value.map_or_else(|| name.to_owned(), |it| format!("{name} = {it}"));
                (written, "it must be a table", format!("write {table}, and its keys below it"))
            }
        };
        let line = line_of(source, key.span().start);
        Some(Problem::new(format!("{origin}:{line}: {written}: {what}"), written, help))
    })
}

/// An error of our own types, or serde's message reworded: an unknown key comes with the nearest known one.
pub(super) fn explained(message: &str) -> Refused {
    let refused = Refused::from_message(message).unwrap_or_else(|| in_our_words(message));
    match refused.help.as_str() {
        "" => Refused::new(refused.what, CORRECT_IT),
        _ => refused,
    }
}

fn in_our_words(message: &str) -> Refused {
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
        return format!("the key {} is missing", field.replace('`', "\"")).into();
    }
    if first_line.starts_with("wanted string or table") {
        return "it must be text in quotes".to_owned().into();
    }
    if first_line == "duplicate key" {
        return Refused::new("it is written twice", "keep one of them");
    }
    if first_line.starts_with("data did not match any variant") {
        return "a value of this type cannot stand here".to_owned().into();
    }
    // What stands there instead may be a secret: `password = 12345`.
    let is_of_type = |kind| first_line.starts_with(kind);
    if ["invalid type: ", "invalid value: "].into_iter().any(is_of_type)
        && let Some((_, expected)) = first_line.rsplit_once(", expected ")
    {
        return format!("it must be {}", in_words(expected)).into();
    }
    message.trim_end().replace('\n', ": ").into()
}

/// A plain name for a type that serde expects.
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
pub(super) fn unknown_name(what: &str, unknown: &str, known: &[&str]) -> Refused {
    let help = match nearest(unknown, known) {
        Some(nearest) => format!("did you mean {nearest:?}?"),
        None => format!("there are: {}", known.join(", ")),
    };
    Refused::new(format!("unknown {what} {unknown:?}"), help)
}

fn nearest<'a>(unknown: &str, known: &[&'a str]) -> Option<&'a str> {
    let plain = |name: &str| name.to_lowercase().replace('_', "-");
    let scored = known.iter().map(|k| (strsim::jaro_winkler(&plain(unknown), &plain(k)), *k));
    let (score, name) = scored.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (score >= ALIKE).then_some(name)
}
