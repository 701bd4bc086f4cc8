//! What is read beside the load while a run goes on: pages of metrics that are scraped, and the memory of nodes.

use std::collections::{BTreeMap, VecDeque};

use archive::{ERLANG_MEMORY, SeriesName};

use super::table::{Align, Table};
use super::text::{Style, sanitise, sparkline};
use crate::numbers::{bytes, count, duration};

/// Pages that the sparkline looks back.
const LOOK_BACK: usize = 10;
/// What is told of a second at most.
const MOST_NEWS: usize = 8;
/// Series that each page has, whatever stands on it.
const TIME: &str = "scrape time";
const SIZE: &str = "size of the page";
const SERIES: &str = "series of the page";
/// What is shown of the memory of a node.
const SIDES: [&str; 3] = ["resident", "carriers", "VM total"];

/// Pages and memory, as far as they are known.
#[derive(Debug, Default)]
pub(super) struct LiveBeside {
    pages: BTreeMap<String, LivePage>,
    memory: Vec<(&'static str, f64)>,
    /// What has come since it was asked for last.
    news: Vec<String>,
}

/// A page that is scraped.
#[derive(Debug, Default)]
struct LivePage {
    /// How long each took that came since the phase began, the last ones, in seconds.
    recent: VecDeque<f64>,
    max_s: f64,
    /// Pages since then.
    pages: u64,
    size: f64,
    series: f64,
}

impl LiveBeside {
    /// The measured phase begins: what came before does not count.
    pub(super) fn begin(&mut self) {
        for page in self.pages.values_mut() {
            (page.pages, page.max_s) = (0, 0.0);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// Takes what a source of named series has now.
    pub(super) fn add(&mut self, values: &[(SeriesName, f64)]) {
        let value = |name: &str| {
            let mut values = values.iter();
            values.find(|(it, _)| it.name == name && it.labels.is_empty())
        };
        if let Some((name, seconds)) = value(TIME) {
            let size = value(SIZE).map_or(0.0, |(_, value)| *value);
            let page = self.pages.entry(name.source.clone()).or_default();
            page.size = size;
            page.series = value(SERIES).map_or(0.0, |(_, value)| *value);
            page.pages += 1;
            page.max_s = page.max_s.max(*seconds);
            page.recent.push_back(*seconds);
            if page.recent.len() > LOOK_BACK {
                page.recent.pop_front();
            }
            let (took, size) = (time(*seconds), bytes(size as u64));
            self.news
                .push(format!("page {} {took}, {size}", sanitise(&name.source)));
        }
        let of_side = |side: &'static str| {
            let mut values = values.iter().filter(|(it, _)| it.source == ERLANG_MEMORY);
            // Several nodes have no room beside each other.
            let found = values.find(|(it, _)| {
                it.labels.len() == 1 && it.labels.get("kind").is_some_and(|kind| kind == side)
            });
            found.map(|(_, value)| (side, *value))
        };
        if values.iter().any(|(it, _)| it.source == ERLANG_MEMORY) {
            self.memory = SIDES.into_iter().filter_map(of_side).collect();
            let memory = self.memory();
            self.news.extend(memory);
        }
        // The table on a terminal asks for none.
        let too_many = self.news.len().saturating_sub(MOST_NEWS);
        self.news.drain(..too_many);
    }

    /// What has come since this was asked last.
    pub(super) fn news(&mut self) -> Vec<String> {
        std::mem::take(&mut self.news)
    }

    /// `memory resident 1.99 GB, carriers 1.70 GB, VM total 1.47 GB`.
    pub(super) fn memory(&self) -> Option<String> {
        let sides = self.memory.iter();
        let sides = sides.map(|(side, value)| format!("{side} {}", bytes(*value as u64)));
        let sides = sides.collect::<Vec<_>>().join(", ");
        (!sides.is_empty()).then(|| format!("memory {sides}"))
    }

    /// A table of pages, a row each, and a blank line behind it; no lines where there are none.
    pub(super) fn lines(&self, style: Style) -> Vec<String> {
        use Align::{Left, Right};
        if self.pages.is_empty() {
            return Vec::new();
        }
        let mut table = Table::new(&[
            ("scraped page", Left),
            ("    last", Right),
            ("     max", Right),
            ("page size", Right),
            ("   series", Right),
            ("pages", Right),
            ("last 10", Left),
        ]);
        table.drop_in_order(&[6, 4]);
        for (name, page) in &self.pages {
            let last = page.recent.back().copied().unwrap_or_default();
            table.row(vec![
                sanitise(name).into_owned(),
                time(last),
                match page.pages {
                    0 => "-".to_owned(),
                    _ => time(page.max_s),
                },
                bytes(page.size as u64),
                count(page.series as u64),
                count(page.pages),
                sparkline(page.recent.iter().copied()),
            ]);
        }
        let mut lines = table.lines(style.columns);
        if let Some(heads) = lines.first_mut() {
            *heads = style.faint(heads);
        }
        lines.push(String::new());
        lines
    }
}

fn time(seconds: f64) -> String {
    duration((seconds * 1e9) as u64)
}
