//! Where the values of an experiment were written, so that an error can name the place.

use std::fmt::Write;
use std::ops::Range;

use measure::{Problem, Secret};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use web::redact;

/// Where an experiment's values were written: in a file, or as options. It takes no part in comparisons.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    /// The file's name and text; `None` for options.
    file: Option<(String, Secret)>,
    /// Keys that were changed afterwards.
    changes: Vec<Change>,
    options: OptionNames,
}

/// A key that was changed by an option, and the change as it may be shown.
#[derive(Clone, Debug)]
struct Change {
    path: String,
    option: String,
    shown: String,
}

/// The place of a value as errors name it: `--rate`, `--set load.0.rate=1`, `x.toml:3: rate = 1`.
struct Location {
    text: String,
    /// The value as it was written; `None` where there is none, it is long, or it may be secret.
    value: Option<String>,
}

/// Options that are not called like the key that they set, each behind its key, perhaps with its tables.
pub type OptionNames = &'static [(&'static str, &'static str)];

impl PartialEq for Origin {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Origin {
    /// Options of a command.
    pub fn options(options: OptionNames) -> Self {
        Self { options, ..Self::default() }
    }

    /// A file, or a text that is called something else.
    pub(super) fn file(name: &str, text: &str) -> Self {
        Self { file: Some((name.to_owned(), Secret::new(text))), ..Self::default() }
    }

    /// Notes that an option changed one value.
    pub(super) fn changed(mut self, path: &str, option: &str, shown: String) -> Self {
        self.changes.push(Change { path: path.to_owned(), option: option.to_owned(), shown });
        self
    }

    /// Whether a file or a later change says something of a table; where there is no file, its command does.
    pub(super) fn tells_of(&self, table: &str) -> bool {
        let Some((_, text)) = &self.file else { return true };
        let root = DeTable::parse(text.expose()).ok();
        let mut keys = root.iter().flat_map(|root| root.get_ref().iter());
        let is_in_file = keys.any(|(key, _)| key.get_ref().as_ref() == table);
        is_in_file || self.changes.iter().any(|it| is_below(&it.path, table))
    }

    /// Adds the place to a problem, in the user's names. Its value is the observed one, else as written, or the option.
    pub(super) fn explain(&self, mut problem: Problem) -> Problem {
        if self.file.is_none() && is_entry(&problem.about) {
            problem.about = Box::default();
        }
        let (what, help) = (self.named(&problem.to_string()), self.named(&problem.help));
        let observed = |other: String| match problem.value.as_str() {
            "" => other,
            value => value.to_owned(),
        };
        match self.place(&problem.about, &what) {
            Some(Location { text, value }) => {
                Problem::new(format!("{text}: {what}"), observed(value.unwrap_or(text)), help)
            }
            // The cause names the option already.
            None if !problem.about.is_empty() => Problem::new(what, observed(self.option(&problem.about)), help),
            None => Problem::new(self.named(&problem.cause), problem.value, help),
        }
    }

    /// Where the value of a key was written.
    fn place(&self, key: &str, what: &str) -> Option<Location> {
        let changes = &mut self.changes.iter().rev();
        if let Some(change) = changes.find(|it| is_below(key, &it.path)) {
            let value = change.shown.split_once('=').map(|(_, value)| value.to_owned());
            let text = format!("{} {}", change.option, change.shown);
            return Some(Location { text, value });
        }
        let Some((name, text)) = &self.file else {
            let option = (!key.is_empty()).then(|| self.option(key))?;
            return (!what.contains(&option)).then_some(Location { text: option, value: None });
        };
        let mut place = Location { text: name.clone(), value: None };
        let text = text.expose();
        let root = DeTable::parse(text).ok();
        let found = root.as_ref().map(|root| locate(root.get_ref(), key));
        if let Some(found) = found.filter(|_| !key.is_empty()) {
            let _ = write!(place.text, ":{}", line_of(text, found.at));
            let value = found.value.and_then(|span| text.get(span));
            place.value = value.and_then(|value| shown(key, value));
            let last = key.rsplit('.').next().unwrap_or(key);
            match &place.value {
                _ if key.contains('.') && what.contains(key) => {}
                Some(value) => {
                    let _ = write!(place.text, ": {last} = {value}");
                }
                None => {
                    let _ = write!(place.text, ": {last}");
                }
            }
        }
        Some(place)
    }

    fn option(&self, key: &str) -> String {
        let known = self.options.iter().find(|(known, _)| is_end(key, known));
        match known {
            Some((_, option)) => (*option).to_owned(),
            None => format!("--{}", key.rsplit('.').next().unwrap_or(key)),
        }
    }

    /// A text in which keys stand as `{ledger}` or `{ledger = false}`.
    fn named(&self, text: &str) -> String {
        let mut named = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, key, after)) = placeholder(rest) {
            named.push_str(before);
            match &self.file {
                Some(_) => named.push_str(key),
                None => named.push_str(&self.option(key.split(" = ").next().unwrap_or(key))),
            }
            rest = after;
        }
        named + rest
    }
}

/// Splits a text at its first `{key}`. Other braces, such as those of an object, stay what they are.
fn placeholder(text: &str) -> Option<(&str, &str, &str)> {
    let is_key = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-. =".contains(c);
    text.match_indices('{').find_map(|(at, _)| {
        let (before, inner) = (text.get(..at)?, text.get(at + 1..)?);
        let (key, after) = inner.split_once('}')?;
        let begins = key.starts_with(|c: char| c.is_ascii_lowercase());
        (begins && key.chars().all(is_key)).then_some((before, key, after))
    })
}

/// Whether a key is a whole entry of a list, such as `load.0`, which no option sets.
fn is_entry(key: &str) -> bool {
    key.rsplit_once('.').is_some_and(|(_, last)| last.parse::<usize>().is_ok())
}

fn is_below(key: &str, path: &str) -> bool {
    key.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Whether a key ends in whole parts as another does.
fn is_end(key: &str, end: &str) -> bool {
    key.strip_suffix(end).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// Where something is in a text.
struct Located {
    at: usize,
    /// The value, where the whole path is there and leads to no table.
    value: Option<Range<usize>>,
}

/// Finds a key, or the deepest table on the way to it.
fn locate(root: &DeTable<'_>, path: &str) -> Located {
    let mut found = Located { at: 0, value: None };
    let mut table = Some(root);
    let mut parts = path.split('.').peekable();
    while let (Some(of), Some(part)) = (table.take(), parts.next()) {
        let Some((key, value)) = of.iter().find(|(key, _)| key.get_ref().as_ref() == part) else { break };
        found.at = key.span().start;
        let mut value = value;
        if let DeValue::Array(items) = value.get_ref()
            && let Some(item) = parts.peek().and_then(|part| part.parse::<usize>().ok())
            && let Some(item) = items.get(item)
        {
            parts.next();
            found.at = item.span().start;
            value = item;
        }
        match value.get_ref() {
            DeValue::Table(below) => table = Some(below),
            _ if parts.peek().is_none() => found.value = Some(value.span()),
            _ => {}
        }
    }
    found
}

/// The path of the value, and the value, that a place in a text belongs to; `None` between values.
pub(super) fn value_at(text: &str, at: usize) -> Option<(String, Range<usize>)> {
    fn below(value: &Spanned<DeValue<'_>>, path: String, text: &str, at: usize) -> Option<(String, Range<usize>)> {
        // A table that has a line of its own is no value.
        let written = text.get(value.span()).unwrap_or_default();
        let is_line = match value.get_ref() {
            DeValue::Table(_) => !written.starts_with('{'),
            _ => written.starts_with("[["),
        };
        let found = match value.get_ref() {
            DeValue::Table(table) => inside(table, &path, text, at),
            DeValue::Array(items) if is_line => {
                items.iter().enumerate().find_map(|(i, item)| below(item, format!("{path}.{i}"), text, at))
            }
            _ => None,
        };
        let is_here = !is_line && value.span().contains(&at);
        found.or_else(|| is_here.then(|| (path, value.span())))
    }
    fn inside(table: &DeTable<'_>, path: &str, text: &str, at: usize) -> Option<(String, Range<usize>)> {
        table.iter().find_map(|(key, value)| {
            let key = key.get_ref();
            let path = if path.is_empty() { key.to_string() } else { format!("{path}.{key}") };
            below(value, path, text, at)
        })
    }
    inside(DeTable::parse(text).ok()?.get_ref(), "", text, at)
}

/// The number of the line, counted from 1.
pub(super) fn line_of(text: &str, at: usize) -> usize {
    text.get(..at).unwrap_or(text).matches('\n').count() + 1
}

/// The longest value that an error repeats.
const LONGEST_SHOWN: usize = 60;

/// A value as a file has it, unless it is long or may be a secret.
pub(super) fn shown(path: &str, value: &str) -> Option<String> {
    let given = format!("{path}={value}");
    let is_short = value.len() <= LONGEST_SHOWN && !value.contains('\n');
    (is_short && redact::assignment(&given) == given).then(|| value.to_owned())
}
