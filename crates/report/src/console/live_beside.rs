//! Readings beside the load during a run: scraped pages with their selected series, and the memory of nodes.

use std::collections::{BTreeMap, VecDeque};

use archive::{ERLANG_MEMORY, SeriesName};
use measure::Nanos;

use super::interval::{LinePart, Rank};
use super::live_charts::{MOST_VALUES, Trend, add_trends, room_for_trends};
use super::table::Table;
use super::text::{Style, fit_end, fit_middle, sanitise};
use crate::numbers::{bytes, count, counted, seconds, series_value};

/// Series whose values are kept; a scrape has its own limit.
const MOST_SERIES: usize = 1_000;
/// Columns that a page's name keeps where the table is wide.
const LEAST_NAME: usize = 12;
/// Requests that take longer are shown meanwhile.
const LONG: Nanos = Nanos::from_millis(1_000);
/// Series that every page has.
const TIME: &str = "scrape time";
const SIZE: &str = "size of the page";
const SERIES: &str = "series of the page";
/// Figures of a node's memory that are shown.
const SIDES: [&str; 3] = ["resident", "carriers", "VM total"];

/// Requests for a page so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageRequests {
    /// Requests that brought a page.
    pub completed: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Time that the request in flight has waited.
    pub waiting: Option<Nanos>,
}

#[derive(Debug, Default)]
pub(super) struct LiveBeside {
    pages: BTreeMap<String, LivePage>,
    memory: Vec<(&'static str, f64)>,
    is_memory_new: bool,
}

#[derive(Debug, Default)]
struct LivePage {
    /// How long each took that came since the phase began, the last ones, in seconds.
    recent: VecDeque<f64>,
    max_s: f64,
    /// Pages since then.
    pages: u64,
    size: f64,
    series: f64,
    /// Counts of all requests, where they are reported.
    requests: Option<PageRequests>,
    /// Failed requests, where each of them is reported.
    failures: u64,
    /// The last request brought no page: values are of an earlier one.
    is_away: bool,
    /// Selected series of the last page: names with labels, and values with their units.
    selected: Vec<(String, String)>,
    /// Durations not yet shown, and failures already shown.
    news: Vec<f64>,
    failures_told: u64,
    /// Values already shown, as long as they stay.
    values_told: BTreeMap<String, String>,
}

impl LiveBeside {
    /// Begins the measured phase: earlier values do not count.
    pub(super) fn begin(&mut self) {
        self.pages.values_mut().for_each(|page| (page.pages, page.max_s) = (0, 0.0));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    pub(super) fn requested(&mut self, page: &str, requests: PageRequests) {
        let page = self.pages.entry(page.to_owned()).or_default();
        let Some(before) = page.requests.replace(requests) else { return };
        let failed = requests.failed.saturating_sub(before.failed);
        (0..failed.min(MOST_VALUES as u64)).for_each(|_| page.look_back(f64::NAN));
        page.is_away = (failed > 0 || page.is_away) && requests.completed == before.completed;
    }

    pub(super) fn failed(&mut self, page: &str) {
        let page = self.pages.entry(page.to_owned()).or_default();
        page.failures += 1;
        page.is_away = true;
        page.look_back(f64::NAN);
    }

    pub(super) fn add(&mut self, values: &[(SeriesName, f64)]) {
        let value = |name: &str| values.iter().find(|(it, _)| it.name == name && it.labels.is_empty());
        if let Some((name, seconds)) = value(TIME) {
            let page = self.pages.entry(name.source.clone()).or_default();
            page.size = value(SIZE).map_or(0.0, |(_, value)| *value);
            page.series = value(SERIES).map_or(0.0, |(_, value)| *value);
            page.pages += 1;
            page.max_s = page.max_s.max(*seconds);
            page.look_back(*seconds);
            page.is_away = false;
            // The table on a terminal tells no news.
            if page.news.len() < MOST_SERIES {
                page.news.push(*seconds);
            }
            let selected = values
                .iter()
                .filter(|(it, _)| it.source == name.source && ![TIME, SIZE, SERIES].contains(&it.name.as_str()));
            let shown = |(name, value): &(SeriesName, f64)| (series_name(name), series_value(*value, name.unit));
            page.selected = selected.take(MOST_SERIES).map(shown).collect();
        }
        let memory = || values.iter().filter(|(it, _)| it.source == ERLANG_MEMORY);
        let of_side = |side: &'static str| {
            // Several nodes have no room beside each other.
            let is_it =
                |it: &SeriesName| it.labels.len() == 1 && it.labels.get("kind").is_some_and(|kind| kind == side);
            memory().find(|(it, _)| is_it(it)).map(|(_, value)| (side, *value))
        };
        if memory().next().is_some() {
            self.memory = SIDES.into_iter().filter_map(of_side).collect();
            self.is_memory_new = true;
        }
    }

    pub(super) fn news(&mut self) -> Vec<LinePart> {
        let mut news = Vec::new();
        for (name, page) in &mut self.pages {
            let name = sanitise(name);
            let texts = [page.came(), page.failed(), page.waits()].into_iter().flatten();
            news.extend(texts.map(|text| LinePart::new(Rank::Beside, format!("page {name} {text}"))));
            if !page.news.is_empty() {
                let told = &page.values_told;
                let changed = page.selected.iter().filter(|(series, value)| told.get(series) != Some(value));
                news.extend(changed.map(|(series, value)| LinePart::new(Rank::More, format!("{series} {value}"))));
                page.values_told = page.selected.iter().cloned().collect();
            }
            page.news.clear();
        }
        if std::mem::take(&mut self.is_memory_new) {
            news.extend(self.memory().map(|text| LinePart::new(Rank::More, text)));
        }
        news
    }

    /// `memory resident 1.99 GB, carriers 1.70 GB, VM total 1.47 GB`.
    pub(super) fn memory(&self) -> Option<String> {
        let sides = self.memory.iter().map(|(side, value)| format!("{side} {}", bytes(*value as u64)));
        let sides = sides.collect::<Vec<_>>().join(", ");
        (!sides.is_empty()).then(|| format!("memory {sides}"))
    }

    /// A table of pages, a row each, and a blank line behind it; no lines where there are none.
    pub(super) fn lines(&self, style: Style) -> Vec<String> {
        if self.pages.is_empty() {
            return Vec::new();
        }
        let has_requests = self.pages.values().any(|page| page.requests.is_some());
        let has_failures = self.pages.values().any(|page| page.failures > 0);
        let (failed, drop): (_, &'static [usize]) = match (has_requests, has_failures) {
            (true, _) => ("|failed|in flight", &[4, 3, 2]),
            (false, true) => ("|failed", &[4, 3]),
            (false, false) => ("", &[4]),
        };
        let mut table = Table::of(&format!("scraped page<|    last|     max|page size|   series|pages{failed}"));
        table.drop = drop;
        self.pages.iter().for_each(|(name, page)| table.row(page.cells(name, has_failures)));
        let trends = self.pages.values().map(|page| Trend::new(page.recent.iter().copied(), seconds));
        let trends: Vec<Trend> = trends.collect();
        let room = room_for_trends(&table, style.columns, LEAST_NAME);
        add_trends(&mut table, &trends, room, |last| format!("last {last}"), " scrapes");
        table.shorten_first(style.columns, LEAST_NAME, fit_end);
        let mut lines = table.faint_lines(style);
        lines.push(String::new());
        lines
    }

    /// Selected series of the pages with their last values, in so many rows: heads, series, number of others, a blank
    /// line.
    pub(super) fn selected(&self, rows: usize, style: Style) -> Vec<String> {
        let are_several = self.pages.values().filter(|it| !it.selected.is_empty()).count() > 1;
        let all = self.pages.iter().flat_map(|(name, page)| {
            let row = move |(series, value): &(String, String)| {
                // Each node of a cluster has the same series.
                let series = if are_several { format!("{}: {series}", sanitise(name)) } else { series.clone() };
                (series, if page.is_away { "-".to_owned() } else { value.clone() })
            };
            page.selected.iter().map(row)
        });
        let number = all.clone().count();
        let room = rows.saturating_sub(2);
        if number == 0 || room == 0 {
            return Vec::new();
        }
        let shown = if number <= room { number } else { room - 1 };
        let mut table = Table::of("selected series<|        last");
        all.take(shown).for_each(|(series, value)| table.row(vec![series, value]));
        table.shorten_first(style.columns, LEAST_NAME, fit_middle);
        let mut lines = table.faint_lines(style);
        if shown < number {
            let more = count((number - shown) as u64);
            lines.push(style.faint(&format!("and {more} more")));
        }
        lines.push(String::new());
        lines
    }
}

impl LivePage {
    /// Keeps how long a page took, not a number where none came.
    fn look_back(&mut self, seconds: f64) {
        self.recent.push_back(seconds);
        if self.recent.len() > MOST_VALUES {
            self.recent.pop_front();
        }
    }

    fn cells(&self, name: &str, has_failures: bool) -> Vec<String> {
        let known = |text: String| if self.recent.is_empty() || self.is_away { "-".to_owned() } else { text };
        let last = self.recent.back().copied().unwrap_or_default();
        let max = if self.pages == 0 { "-".to_owned() } else { seconds(self.max_s) };
        let mut cells = vec![
            sanitise(name).into_owned(),
            known(seconds(last)),
            max,
            known(bytes(self.size as u64)),
            known(count(self.series as u64)),
        ];
        match self.requests {
            Some(requests) => cells.extend([
                count(requests.completed),
                count(requests.failed),
                match requests.waiting {
                    None => "0".to_owned(),
                    Some(waited) if waited < LONG => "1".to_owned(),
                    Some(waited) => format!("1: {} s", waited.0 / 1_000_000_000),
                },
            ]),
            None => {
                cells.push(count(self.pages));
                cells.extend(has_failures.then(|| count(self.failures)));
            }
        }
        cells
    }

    /// `2.00 s, 34.5 MB`, or `5 pages, last 2.00 s, max 3.00 s, 34.5 MB`.
    fn came(&self) -> Option<String> {
        let last = self.news.last()?;
        let size = bytes(self.size as u64);
        Some(match self.news.len() {
            1 => format!("{}, {size}", seconds(*last)),
            several => {
                let max = self.news.iter().copied().fold(0.0, f64::max);
                let pages = counted(several as u64, "page");
                format!("{pages}, last {}, max {}, {size}", seconds(*last), seconds(max))
            }
        })
    }

    fn failed(&mut self) -> Option<String> {
        let failed = self.requests?.failed;
        let new = failed.saturating_sub(std::mem::replace(&mut self.failures_told, failed));
        (new > 0).then(|| format!("failed {}", count(new)))
    }

    fn waits(&self) -> Option<String> {
        let waited = self.requests?.waiting.filter(|waited| *waited >= LONG)?;
        Some(format!("in flight for {} s", waited.0 / 1_000_000_000))
    }
}

/// A series as it stands on a page.
fn series_name(series: &SeriesName) -> String {
    let labels = series.labels.iter().map(|(label, value)| format!("{label}={value:?}")).collect::<Vec<_>>().join(",");
    let name = match labels.as_str() {
        "" => series.name.clone(),
        labels => format!("{}{{{labels}}}", series.name),
    };
    sanitise(&name).into_owned()
}
