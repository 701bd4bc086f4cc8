//! The series of a page that are wanted: picked while the page is parsed, added up, and made rates.

use std::cmp::Ordering;
use std::collections::hash_map::{Entry, RandomState};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::BuildHasher;

use archive::{SeriesName, SeriesUnit};
use measure::{Problem, Time};
use wire::openmetrics::{Label, Sample};

use super::Selector;

/// Series of a page that may go into the selected ones: those of ten metrics of 100,000 queues.
const MOST_PARTS: usize = 1_000_000;
/// Letters in which a name differs from one that was meant, at most: more are no slip of the pen.
const MOST_SLIPS: usize = 3;
/// Names with the same beginning that are told.
const MOST_RELATED: usize = 4;

/// A selected series: its value, and its rate where it is a counter that was seen before.
#[derive(Clone, Debug, PartialEq)]
pub struct SelectedValue {
    /// Its name; the unit is that of the value.
    pub name: SeriesName,
    /// How people read it: a sum as it was written, with the labels of its group.
    pub shown: String,
    /// The value, or the sum of values.
    pub value: f64,
    /// Growth of a counter, and since when.
    pub rate: Option<SelectedRate>,
    /// Whether the series only grows, so that its rate says more than its value.
    pub is_counter: bool,
}

/// How fast a counter grew.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SelectedRate {
    /// When the page before was due.
    pub since: Time,
    /// Growth per second.
    pub per_second: f64,
    /// The unit of the growth.
    pub unit: SeriesUnit,
}

/// Selected series of this page and of the one before.
#[derive(Debug, Default)]
pub(super) struct Selection {
    source: String,
    selectors: Vec<Selector>,
    most: usize,
    hasher: RandomState,
    /// Selected series by selector, name and labels that stay.
    numbers: HashMap<String, Option<usize>>,
    series: Vec<Series>,
    /// The names of all of them: what two selectors find under one name is one series.
    names: HashSet<SeriesName>,
    /// Series of the page that were selected, by the hash of selector, name and labels.
    parts: HashMap<u64, Part>,
    page: u32,
    /// When the last good page was due, and when it was requested.
    last: Option<(Time, Time)>,
    /// The name of the last sample, and which selectors want it.
    name: String,
    wanted: Vec<usize>,
    key: String,
    duplicates: u64,
    too_many: Option<Problem>,
    /// Of each selector, what it has come to.
    finds: Vec<Found>,
}

/// Findings of a selector.
#[derive(Clone, Debug, Default)]
struct Found {
    /// A name that it wants.
    has_name: bool,
    has_series: bool,
    /// The likest of the names that it does not want, and in how many letters it differs, of the first page.
    nearest: Option<(usize, String)>,
    /// Names of the first page that begin as it does, and how much of them is the same.
    related: (usize, BTreeSet<String>),
}

impl Found {
    /// Keeps a name of the page, where it is like the one that is wanted.
    fn compare(&mut self, wanted: &str, name: &str) {
        let most = MOST_SLIPS.min(wanted.len() / 4);
        let slips = match wanted.len().abs_diff(name.len()) <= most {
            true => strsim::damerau_levenshtein(wanted, name),
            false => usize::MAX,
        };
        let before = self.nearest.as_ref().map_or(most + 1, |(slips, _)| *slips);
        if slips < before {
            self.nearest = Some((slips, name.to_owned()));
        }
        let same = wanted.bytes().zip(name.bytes()).take_while(|(a, b)| a == b).count();
        // Part of a word says nothing.
        let same = wanted.get(..same).and_then(|same| same.rfind('_')).map_or(0, |end| end + 1);
        if same > self.related.0 {
            self.related = (same, BTreeSet::new());
        }
        if same > 0 && same == self.related.0 {
            self.related.1.insert(name.to_owned());
            if self.related.1.len() > MOST_RELATED {
                self.related.1.pop_last();
            }
        }
    }

    /// The names that begin alike, in words.
    fn relatives(&self) -> String {
        let names: Vec<&str> = self.related.1.iter().map(String::as_str).collect();
        match names.first().and_then(|name| name.get(..self.related.0)) {
            None => "no name on the page is like it".to_owned(),
            Some(beginning) => {
                format!("no name on the page is like it; it has {beginning}…, such as {}", names.join(", "))
            }
        }
    }
}

#[derive(Debug)]
struct Series {
    /// Which selector found it first.
    selector: usize,
    name: SeriesName,
    shown: String,
    rate_unit: SeriesUnit,
    is_counter: bool,
    page: u32,
    value: f64,
    /// How much its counters have grown; none where no part of it was seen before.
    growth: Option<f64>,
}

#[derive(Debug)]
struct Part {
    page: u32,
    value: f64,
    before: Option<f64>,
}

impl Selection {
    pub(super) fn new(source: &str, selectors: &[Selector], most: usize) -> Self {
        Self {
            source: source.to_owned(),
            selectors: selectors.to_vec(),
            most,
            finds: vec![Found::default(); selectors.len()],
            ..Self::default()
        }
    }

    /// A page begins.
    pub(super) fn begin(&mut self) {
        self.page = self.page.wrapping_add(1);
        self.duplicates = 0;
        self.too_many = None;
        self.name.clear();
        self.wanted.clear();
    }

    /// Takes a sample, where it is wanted.
    #[inline]
    pub(super) fn add(&mut self, sample: &Sample<'_>) {
        if self.selectors.is_empty() {
            return;
        }
        if sample.name != self.name {
            self.name.clear();
            self.name.push_str(sample.name);
            let all = self.selectors.iter().enumerate();
            self.wanted.clear();
            self.wanted.extend(all.filter(|(_, selector)| selector.has_name(sample.name)).map(|(index, _)| index));
            self.look(sample.name);
        }
        let mut next = 0;
        while let Some(&index) = self.wanted.get(next).filter(|_| self.too_many.is_none()) {
            self.take(index, sample);
            next += 1;
        }
    }

    /// Keeps which selectors have found a name, and which name of the first page is the likest for the others.
    fn look(&mut self, name: &str) {
        let is_first = self.last.is_none();
        for (index, (found, selector)) in self.finds.iter_mut().zip(&self.selectors).enumerate() {
            if self.wanted.contains(&index) {
                found.has_name = true;
            } else if is_first && !found.has_name {
                found.compare(selector.pattern(), name);
            }
        }
    }

    /// The selectors that have found nothing so far, each in a sentence with the nearest name.
    pub(super) fn unmatched(&self) -> Vec<String> {
        let none = self.selectors.iter().zip(&self.finds).filter(|(_, found)| !found.has_series);
        let sentence = |(selector, found): (&Selector, &Found)| {
            let why = match &found.nearest {
                _ if found.has_name => "no series of that name has such labels".to_owned(),
                Some((_, name)) => format!("the nearest name on the page is {name}"),
                None => found.relatives(),
            };
            format!("{selector} selects nothing: {why}")
        };
        none.map(sentence).collect()
    }

    /// Takes a sample for the selector that wants its name.
    fn take(&mut self, index: usize, sample: &Sample<'_>) {
        let Some(selector) = self.selectors.get(index) else { return };
        if !selector.has_labels(&sample.labels) {
            return;
        }
        if let Some(found) = self.finds.get_mut(index) {
            found.has_series = true;
        }
        let is_counter = sample.role.is_cumulative();
        let identity = self.identity(index, sample);
        let most_parts = self.parts.len() >= MOST_PARTS;
        let growth = match self.parts.entry(identity) {
            Entry::Occupied(mut found) => {
                let part = found.get_mut();
                if part.page == self.page {
                    self.duplicates += 1;
                    return;
                }
                part.page = self.page;
                part.value = sample.value;
                part.before.and_then(|before| grown(before, sample.value))
            }
            Entry::Vacant(_) if most_parts => {
                self.too_many = Some(too_many(MOST_PARTS, &selector.to_string()));
                return;
            }
            Entry::Vacant(new) => {
                new.insert(Part { page: self.page, value: sample.value, before: None });
                None
            }
        };
        let Some(number) = self.number(index, sample, is_counter) else { return };
        if let Some(series) = self.series.get_mut(number) {
            if series.page != self.page {
                series.page = self.page;
                series.value = 0.0;
                series.growth = None;
            }
            series.value += sample.value;
            if let Some(growth) = growth.filter(|_| is_counter) {
                *series.growth.get_or_insert(0.0) += growth;
            }
        }
    }

    /// A hash that tells a sample from others of a page, in whatever order its labels stand.
    fn identity(&self, index: usize, sample: &Sample<'_>) -> u64 {
        let labels = sample.labels.iter();
        let sum = labels.fold(0, |sum: u64, label| sum.wrapping_add(self.hasher.hash_one((label.name, label.raw))));
        self.hasher.hash_one((index, sample.name, sum))
    }

    /// The number of a sample's selected series; `None` where there are too many, or another selector has it.
    fn number(&mut self, index: usize, sample: &Sample<'_>, is_counter: bool) -> Option<usize> {
        let selector = self.selectors.get(index)?;
        self.key.clear();
        self.key.push_str(sample.name);
        let mut labels: Vec<Label<'_>> = Vec::new();
        match selector.sum_by() {
            None => labels.extend(sample.labels.iter()),
            Some(by) => labels.extend(by.iter().filter_map(|name| sample.labels.get(name))),
        }
        labels.sort_unstable_by_key(|label| label.name);
        for label in &labels {
            for part in ["\u{1}", label.name, "\u{2}", label.raw] {
                self.key.push_str(part);
            }
        }
        self.key.push('\u{3}');
        self.key.push_str(&index.to_string());
        if let Some(number) = self.numbers.get(&self.key) {
            return *number;
        }
        let (unit, rate_unit) = units(sample.name);
        // A sum without labels is not the series of that name that has none.
        let called = match selector.sum_by() {
            None => sample.name.to_owned(),
            Some(_) => format!("sum({})", sample.name),
        };
        let mut name = SeriesName::new(&self.source, &called, unit);
        for (label, value) in selector.fixed() {
            let value = match name.labels.get(label) {
                Some(other) => format!("{other},{value}"),
                None => value,
            };
            name = name.with(label, &value);
        }
        let mut group = BTreeMap::new();
        for label in &labels {
            let value = label.value();
            name = name.with(label.name, &value);
            group.insert(label.name.to_owned(), value.into_owned());
        }
        if self.series.len() >= self.most && !self.names.contains(&name) {
            self.too_many = Some(too_many(self.most, &selector.to_string()));
            return None;
        }
        let number = self.names.insert(name.clone()).then(|| {
            let shown = selector.written(sample.name) + &with_braces(&group);
            self.series.push(Series {
                selector: index,
                name,
                shown,
                rate_unit,
                is_counter,
                page: 0,
                value: 0.0,
                growth: None,
            });
            self.series.len() - 1
        });
        self.numbers.insert(self.key.clone(), number);
        number
    }

    /// A page that was due and was requested at these times has ended, and was whole: what was selected of it.
    pub(super) fn finish(&mut self, due: Time, sent: Time) -> Result<Vec<SelectedValue>, Problem> {
        if let Some(problem) = self.too_many.take() {
            self.abandon();
            return Err(problem);
        }
        let page = self.page;
        self.parts.retain(|_, part| {
            part.before = Some(part.value).filter(|value| value.is_finite());
            part.page == page
        });
        let last = self.last.replace((due, sent));
        let mut here: Vec<&Series> = self.series.iter().filter(|series| series.page == page).collect();
        here.sort_by(|a, b| a.selector.cmp(&b.selector).then_with(|| natural_order(&a.shown, &b.shown)));
        let value = |series: &Series| SelectedValue {
            name: series.name.clone(),
            shown: series.shown.clone(),
            value: series.value,
            rate: last.zip(series.growth).and_then(|((since, before), growth)| {
                let seconds = sent.since(before).as_secs_f64();
                (seconds > 0.0).then(|| SelectedRate { since, per_second: growth / seconds, unit: series.rate_unit })
            }),
            is_counter: series.is_counter,
        };
        Ok(here.into_iter().map(value).collect())
    }

    /// A page broke off: the next one is compared with the last that was whole.
    pub(super) fn abandon(&mut self) {
        let page = self.page;
        self.parts.retain(|_, part| {
            if part.page == page {
                part.value = part.before.unwrap_or_default();
                part.page = page.wrapping_sub(1);
            }
            part.before.is_some()
        });
    }

    /// Series that stood twice on the page, of which the first counts.
    pub(super) fn duplicates(&self) -> u64 {
        self.duplicates
    }
}

/// Labels as they stand on a page.
fn with_braces(labels: &BTreeMap<String, String>) -> String {
    if labels.is_empty() {
        return String::new();
    }
    let labels: Vec<String> = labels.iter().map(|(label, value)| format!("{label}={value:?}")).collect();
    format!("{{{}}}", labels.join(","))
}

/// The order in which people count: `orders2` before `orders10`.
fn natural_order(a: &str, b: &str) -> Ordering {
    let (mut left, mut right) = (a, b);
    while let (Some(first), Some(second)) = (left.chars().next(), right.chars().next()) {
        let order = if first.is_ascii_digit() && second.is_ascii_digit() {
            let (one, two) = (number(&mut left), number(&mut right));
            one.len().cmp(&two.len()).then_with(|| one.cmp(two))
        } else {
            left = left.get(first.len_utf8()..).unwrap_or_default();
            right = right.get(second.len_utf8()..).unwrap_or_default();
            first.cmp(&second)
        };
        if order.is_ne() {
            return order;
        }
    }
    // What has no other difference than zeros in front of a number.
    left.len().cmp(&right.len()).then_with(|| a.cmp(b))
}

/// Takes the digits at the beginning; answers them without zeros in front.
fn number<'a>(text: &mut &'a str) -> &'a str {
    let end = text.find(|c: char| !c.is_ascii_digit());
    let (digits, rest) = text.split_at(end.unwrap_or(text.len()));
    *text = rest;
    digits.trim_start_matches('0')
}

/// Growth of a counter: all that it shows where it began anew. `None` without a number.
fn grown(before: f64, now: f64) -> Option<f64> {
    let grown = if now >= before { now - before } else { now };
    Some(grown).filter(|grown| grown.is_finite())
}

/// Units of a series and of its rate, by the ending that the formats recommend.
fn units(name: &str) -> (SeriesUnit, SeriesUnit) {
    let name = name.strip_suffix("_total").unwrap_or(name);
    if name.ends_with("_bytes") {
        (SeriesUnit::Bytes, SeriesUnit::BytesPerSecond)
    } else if name.ends_with("cpu_seconds") {
        (SeriesUnit::Seconds, SeriesUnit::Cores)
    } else if name.ends_with("_seconds") {
        (SeriesUnit::Seconds, SeriesUnit::PerSecond)
    } else {
        (SeriesUnit::Count, SeriesUnit::PerSecond)
    }
}

fn too_many(most: usize, selector: &str) -> Problem {
    Problem::new(
        format!("more than {} series are selected", measure::count(most as u64)),
        selector,
        "select fewer by their labels, add them up with sum by (vhost) (NAME), or allow more with --max-series (in \
         an experiment, max-series of the scrape)",
    )
}
