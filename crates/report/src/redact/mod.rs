//! Pages for others: names of queues, exchanges, routing keys, virtual hosts, hosts, users, nodes, addresses and paths
//! are blotted out, each by a word of its own, the same everywhere, so that a page stays readable.
//!
//! Names are collected from a page's fields ([`collect`]), and by their form from text ([`text`]). Every text of the
//! page's data passes [`shown`]. Collected names are searched in the finished page; if one remains, there is no page.

mod collect;
mod experiment;
mod names;
mod shown;
mod text;
mod words;

use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::Path;

use measure::Problem;
use names::{DISTINCTIVE, Names, folded};
use serde::Serialize;
use serde_json::Value;
use shown::Shown;

use crate::text::{SaidWithin, said_within};
use crate::view::{ComparisonView, LimitView, MatrixView, RunView};

/// Takes names out of one page.
#[derive(Debug)]
pub(crate) struct Redaction {
    names: Names,
    /// Texts of code and of bellows itself, which stay.
    left: HashSet<String>,
    /// Texts of the finished page.
    finished: String,
}

impl Redaction {
    /// For a page on which the names of these built-in experiments are public.
    pub(crate) fn new(built_in: &[Value]) -> Self {
        Self { names: Names::beside(built_in), left: HashSet::new(), finished: String::new() }
    }

    /// Notes a text that is left unchanged.
    fn left(&mut self, text: &str) {
        if !self.left.contains(text) {
            self.left.insert(text.to_owned());
        }
    }

    /// Notes the names of a run's page, and takes those out that stand between code.
    pub(crate) fn note_run(&mut self, view: &mut RunView, dir: &Path) {
        collect::note_run(&mut self.names, view, dir);
        // Of a part of a name nobody can tell whose it is.
        view.headline.clone_from(&view.whole_headline);
        if let Some(problem) = &mut view.error {
            problem.value = text::outside(&mut self.names, &problem.value);
            problem.log = text::outside(&mut self.names, &problem.log);
        }
        for warning in &mut view.warnings {
            let within = said_within(warning);
            self.hide_said(within.as_ref(), &mut warning.text);
        }
        for call in view.traces.iter_mut().flat_map(|it| &mut it.slowest) {
            // Terms of the broker hold any names.
            call.name.clear();
            call.arguments.clear();
        }
        for profile in &mut view.profiles {
            profile.retitle_threads(|name| text::redacted(&mut self.names, name));
            profile.modules.iter_mut().for_each(|it| *it = file_name(it));
            profile.lines.iter_mut().flat_map(|it| &mut it.files).for_each(|it| *it = file_name(it));
        }
    }

    /// Hides others' words within a sentence.
    fn hide_said(&mut self, said: Option<&SaidWithin>, sentence: &mut String) {
        if let Some(said) = said {
            let has_cause = said.has_cause && said.text.contains(": ");
            let shown = if has_cause { text::said } else { text::outside };
            *sentence = sentence.replace(&said.text, &shown(&mut self.names, &said.text));
        }
    }

    pub(crate) fn note_comparison(&mut self, view: &mut ComparisonView, dir: &Path) {
        collect::note_comparison(&mut self.names, view, dir);
        // Other pages are not redacted.
        view.a.runs.iter_mut().chain(&mut view.b.runs).for_each(|run| run.report.clear());
        view.warnings.iter_mut().for_each(|it| self.hide_said(it.said.as_ref(), &mut it.text));
        let functions = view.functions.iter_mut().flat_map(|it| &mut it.functions);
        functions.for_each(|it| it.module = file_name(&it.module));
    }

    pub(crate) fn note_matrix(&mut self, view: &mut MatrixView, dir: &Path) {
        collect::note_matrix(&mut self.names, view, dir);
        view.cells.iter_mut().for_each(|it| it.page.clear());
        view.warnings.iter_mut().for_each(|it| self.hide_said(it.said.as_ref(), &mut it.text));
    }

    pub(crate) fn note_limit(&mut self, view: &mut LimitView, dir: &Path) {
        collect::note_limit(&mut self.names, view, dir);
        view.trials.iter_mut().for_each(|it| it.report.clear());
        view.scale.iter_mut().flat_map(|it| &mut it.runs).for_each(|it| it.report.clear());
    }

    /// The data of a page without names; fails where it cannot be written as JSON.
    pub(crate) fn data(&mut self, view: &impl Serialize) -> Result<Shown, Problem> {
        let failed = |e: serde_json::Error| Problem::new("cannot redact the report", e, "run it without --redact");
        // The first time names are found that only texts tell of, and may have been passed before.
        shown::shown(view, self).map_err(failed)?;
        let data = shown::shown(view, self).map_err(failed)?;
        let mut texts = Vec::new();
        gather(&data, &self.left, &mut texts);
        self.check(&texts)?;
        Ok(data)
    }

    pub(crate) fn text(&mut self, text: &str) -> String {
        text::redacted(&mut self.names, text)
    }

    /// HTML of elements and texts without names; fails where a name remains.
    pub(crate) fn html(&mut self, html: &str) -> Result<String, Problem> {
        let mut out = String::with_capacity(html.len());
        let mut told = Vec::new();
        let mut rest = html;
        while let Some(start) = rest.find('<') {
            let (text, element) = rest.split_at(start);
            told.push(self.html_text(text));
            out.push_str(told.last().map_or("", String::as_str));
            let end = element.find('>').map_or(element.len(), |it| it + 1);
            let (element, behind) = element.split_at(end);
            out.push_str(element);
            // Elements and their classes are bellows' own words.
            told.extend(titles(element).map(str::to_owned));
            rest = behind;
        }
        told.push(self.html_text(rest));
        out.push_str(told.last().map_or("", String::as_str));
        let told: Vec<String> = told.iter().map(|it| unescaped(it)).collect();
        self.check(&told)?;
        Ok(out)
    }

    fn html_text(&mut self, text: &str) -> String {
        let shown = text::redacted(&mut self.names, &unescaped(text));
        let escaped = shown.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        escaped.replace('"', "&quot;").replace('\'', "&#39;")
    }

    /// Names that are words of every report, blotted as names alone. Each has its kind: `vm (host)`.
    pub(crate) fn ordinary(&self) -> Vec<String> {
        let ordinary = self.names.all().filter(|it| it.is_ordinary);
        let stands = ordinary.filter(|it| remains(&self.finished, &folded(&it.text)));
        stands.map(|it| format!("{} ({})", it.text, it.kind.name())).collect()
    }

    /// Names that stay readable, since built-in experiments are called so.
    pub(crate) fn kept(&self) -> Vec<String> {
        self.names.kept().cloned().collect()
    }

    /// Searches every name, in another way than it was replaced; fails where one remains.
    fn check(&mut self, texts: &[String]) -> Result<(), Problem> {
        let all = self.names.without_phrases(&folded(&texts.join("\n")));
        self.finished.push_str(&all);
        for (spelled, name) in self.names.spellings() {
            if remains(&all, spelled) {
                return Err(Problem::new(
                    "the redacted report would still hold a name",
                    &name.text,
                    "nothing was written; please report it, and without --redact show it to nobody",
                ));
            }
        }
        Ok(())
    }
}

/// The values of an element's attributes that are texts.
fn titles(element: &str) -> impl Iterator<Item = &str> {
    let mut parts = element.split('"');
    let mut attribute = parts.next().unwrap_or_default();
    std::iter::from_fn(move || {
        let value = parts.next()?;
        let of = std::mem::replace(&mut attribute, parts.next().unwrap_or_default());
        let is_own = [" class=", " id=", " scope=", " style="].iter().any(|it| of.ends_with(it));
        Some(if is_own { "" } else { value })
    })
}

/// Whether a name stands in a text as a word, or anywhere if it is long enough to be distinctive.
fn remains(all: &str, key: &str) -> bool {
    let word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    all.match_indices(key).any(|(at, _)| {
        let left = all.get(..at).and_then(|it| it.chars().next_back());
        let right = all.get(at + key.len()..).and_then(|it| it.chars().next());
        key.chars().count() >= DISTINCTIVE || !word(left) && !word(right)
    })
}

/// Every text and key of the data, but those that are code.
fn gather(data: &Shown, left: &HashSet<String>, texts: &mut Vec<String>) {
    let told = |text: &String| (!left.contains(text)).then(|| text.clone());
    match data {
        Shown::Plain(Value::String(text)) => texts.extend(told(text)),
        Shown::Plain(_) => {}
        Shown::List(items) => items.iter().for_each(|it| gather(it, left, texts)),
        Shown::Table(fields) => {
            for (key, value) in fields {
                texts.extend(told(key));
                gather(value, left, texts);
            }
        }
    }
}

/// The last part of a path; other texts stay.
fn file_name(path: &str) -> String {
    path.rsplit('/').next().unwrap_or(path).to_owned()
}

/// The text that HTML stands for, as pages of bellows escape it.
fn unescaped(html: &str) -> String {
    let plain = html.replace("&lt;", "<").replace("&gt;", ">");
    plain.replace("&quot;", "\"").replace("&#39;", "'").replace("&amp;", "&")
}

/// Adds a character as a page shows it: control characters as symbols, hiding or reordering ones as numbers.
pub(crate) fn push_visible(out: &mut String, c: char) {
    match c {
        '\0'..='\u{1f}' => out.extend(char::from_u32(0x2400 + u32::from(c))),
        '\u{7f}' => out.push('\u{2421}'),
        '\u{80}'..='\u{9f}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{2069}'
        | '\u{feff}' => {
            let _ = write!(out, "\u{27e8}U+{:04X}\u{27e9}", u32::from(c));
        }
        other => out.push(other),
    }
}

/// A text as a page shows it.
fn visible(text: &str) -> String {
    text.chars().fold(String::new(), |mut out, c| {
        push_visible(&mut out, c);
        out
    })
}

#[cfg(test)]
mod tests;
