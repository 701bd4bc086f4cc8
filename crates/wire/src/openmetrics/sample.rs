//! A sample in the place where it arrived, and its metric family.

use std::borrow::Cow;
use std::fmt;

use super::line::Span;

/// One line with a value.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// The name of the series, with its suffix.
    pub name: &'a str,
    /// Its labels, as they stand on the line.
    pub labels: Labels<'a>,
    /// Its value.
    pub value: f64,
    /// Its time stamp in seconds since 1970, where it has one.
    pub timestamp: Option<f64>,
    /// An example of what was counted, where the line has one.
    pub exemplar: Option<Exemplar<'a>>,
    /// Role of the series within its family.
    pub role: SeriesRole,
}

/// An example of what a bucket or counter counted: usually a trace.
#[derive(Clone, Copy, Debug)]
pub struct Exemplar<'a> {
    /// The labels that lead to it.
    pub labels: Labels<'a>,
    /// The value that was observed.
    pub value: f64,
    /// When it was observed, in seconds since 1970.
    pub timestamp: Option<f64>,
}

/// Labels where they stand on their line.
#[derive(Clone, Copy)]
pub struct Labels<'a> {
    pub(super) line: &'a str,
    pub(super) spans: &'a [Span],
}

impl<'a> Labels<'a> {
    /// All labels in the order of the line.
    pub fn iter(&self) -> impl Iterator<Item = Label<'a>> + use<'a> {
        let line = self.line;
        self.spans.iter().map(move |span| Label::of(line, span))
    }

    /// The label of this name.
    pub fn get(&self, name: &str) -> Option<Label<'a>> {
        self.iter().find(|label| label.name == name)
    }
}

impl fmt::Debug for Labels<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter().map(|label| (label.name, label.raw))).finish()
    }
}

/// A label with its value as it was written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Label<'a> {
    /// The name of the label.
    pub name: &'a str,
    /// Its value with escapes.
    pub raw: &'a str,
    /// Whether the value has escapes.
    pub escaped: bool,
}

impl<'a> Label<'a> {
    fn of(line: &'a str, span: &Span) -> Self {
        Self {
            name: line.get(span.name..span.name_end).unwrap_or_default(),
            raw: line.get(span.value..span.value_end).unwrap_or_default(),
            escaped: span.escaped,
        }
    }

    /// The value that is meant, without escapes.
    pub fn value(&self) -> Cow<'a, str> {
        if self.escaped { unescape(self.raw) } else { Cow::Borrowed(self.raw) }
    }
}

/// The text that `\\`, `\"` and `\n` stand for in label values or help. Other backslashes stay, as in Prometheus.
pub fn unescape(raw: &str) -> Cow<'_, str> {
    if !raw.contains('\\') {
        return Cow::Borrowed(raw);
    }
    let mut text = String::with_capacity(raw.len());
    let mut characters = raw.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            text.push(character);
            continue;
        }
        match characters.next() {
            Some('n') => text.push('\n'),
            Some(plain @ ('\\' | '"')) => text.push(plain),
            Some(other) => {
                text.push('\\');
                text.push(other);
            }
            None => text.push('\\'),
        }
    }
    Cow::Owned(text)
}

/// The type of a metric family, as a `TYPE` line tells it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum FamilyKind {
    /// A value that only grows, until its process restarts.
    Counter,
    /// A value that goes up and down.
    Gauge,
    /// Cumulative buckets with a sum and a count.
    Histogram,
    /// A histogram whose buckets go up and down.
    GaugeHistogram,
    /// Quantiles with a sum and a count.
    Summary,
    /// Labels that describe something; the value is 1.
    Info,
    /// One series per state, 1 where it holds.
    StateSet,
    /// A family of which the page does not say what it is.
    #[default]
    Unknown,
}

impl FamilyKind {
    /// The type of this name in a `TYPE` line; `None` where there is none of it.
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "counter" => Self::Counter,
            "gauge" => Self::Gauge,
            "histogram" => Self::Histogram,
            "gaugehistogram" => Self::GaugeHistogram,
            "summary" => Self::Summary,
            "info" => Self::Info,
            "stateset" => Self::StateSet,
            "unknown" | "untyped" => Self::Unknown,
            _ => return None,
        })
    }
}

/// Role of a series within its family, by the suffix of its name.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum SeriesRole {
    /// A counter's total.
    Total,
    /// A cumulative bucket of a histogram.
    Bucket,
    /// The sum of a histogram's or summary's observations.
    Sum,
    /// The number of a histogram's or summary's observations.
    Count,
    /// When a counter began, in seconds since 1970.
    Created,
    /// A value that goes up and down, or of which nothing is known.
    #[default]
    Value,
}

impl SeriesRole {
    /// Whether the series only grows until its process restarts, so that its rate says more than its value.
    pub fn is_cumulative(self) -> bool {
        matches!(self, Self::Total | Self::Bucket | Self::Sum | Self::Count)
    }

    /// Role of the series `name` in the family that the last `TYPE` line named. A series of no family counts as a
    /// counter where its name ends in `_total`, which nothing but counters may.
    pub(super) fn of(name: &str, family: &str, kind: FamilyKind) -> Self {
        let by_name = if name.ends_with("_total") { Self::Total } else { Self::Value };
        let Some(suffix) = name.strip_prefix(family).filter(|_| !family.is_empty()) else { return by_name };
        match (kind, suffix) {
            (FamilyKind::Counter, "" | "_total") => Self::Total,
            (FamilyKind::Histogram, "_bucket") => Self::Bucket,
            (FamilyKind::Histogram | FamilyKind::Summary, "_sum") => Self::Sum,
            (FamilyKind::Histogram | FamilyKind::Summary, "_count") => Self::Count,
            (FamilyKind::Counter | FamilyKind::Histogram | FamilyKind::Summary, "_created") => Self::Created,
            (FamilyKind::Unknown, _) => by_name,
            (_, "") => Self::Value,
            _ => by_name,
        }
    }
}
