//! The live table of scenarios other than messages: counts and latencies, as far as there is room.

use std::collections::{BTreeMap, VecDeque};

use archive::{ScenarioPoint, SeriesPoint};
use measure::{LatencySummary, Metric, MetricKind, Nanos, Summaries};

use super::scenario::{
    BYTES, called, counts_of, latencies, latency_table, rate_with_unit, with_own_unit,
};
use super::table::{FOOTNOTE, Table, or_dash};
use super::text::{Style, sanitise, sparkline};
use crate::numbers::{count, marked, per_second, three_digits};

/// Counters of a scenario that are shown where there is no room for all: begun, completed and failed.
const FIRST_COUNTERS: usize = 3;

/// The last seconds, and the measured phase so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct LiveScenarios<'a> {
    pub(super) recent: &'a VecDeque<SeriesPoint>,
    pub(super) measured: &'a BTreeMap<String, ScenarioPoint>,
    /// Length of the measured phase so far.
    pub(super) seconds: f64,
    pub(super) style: Style,
}

/// A scenario in the last second, and in the measured phase so far, where that has begun.
#[derive(Clone, Copy)]
struct LiveScenario<'a> {
    name: &'a str,
    now: &'a ScenarioPoint,
    whole: Option<&'a ScenarioPoint>,
}

impl<'a> LiveScenario<'a> {
    /// The interval or sum of which latencies are shown.
    fn shown(&self) -> &'a ScenarioPoint {
        self.whole.unwrap_or(self.now)
    }

    /// Metrics for spare room, each with its rank: counts of events, latencies, bytes, and last the counts that are 0.
    fn further(&self) -> Vec<(u8, Metric)> {
        let counters = counts_of(&self.now.counts, MetricKind::Counter).skip(FIRST_COUNTERS);
        let counters = counters.map(|(metric, _)| {
            let number = self.shown().counts.get(&metric).copied().unwrap_or(0);
            match (number, metric.info().unit) {
                (0, _) => (3, metric),
                (_, BYTES) => (2, metric),
                _ => (0, metric),
            }
        });
        let first = first_latency(&self.shown().latency).map(|(metric, _)| metric);
        let latencies = self.shown().latency.filled().map(|(metric, _)| metric);
        let latencies = latencies.filter(|metric| Some(*metric) != first);
        counters
            .chain(latencies.map(|metric| (1, metric)))
            .collect()
    }
}

impl<'a> LiveScenarios<'a> {
    fn all(&self) -> impl Iterator<Item = LiveScenario<'a>> {
        let (measured, seconds) = (self.measured, self.seconds);
        let last = self
            .recent
            .back()
            .into_iter()
            .flat_map(SeriesPoint::scenarios);
        last.map(move |(name, now)| LiveScenario {
            name,
            now,
            whole: measured.get(name).filter(|_| seconds > 0.0),
        })
    }

    /// The rates and latencies of all scenarios; before the measured phase, those of the last second.
    pub(super) fn whole(&self) -> Vec<String> {
        let mut out = Vec::new();
        for of in self.all() {
            out.extend(self.rates(of, |_| true));
            out.push(String::new());
            let span = span(of.whole.is_some());
            out.extend(latencies(&of.shown().latency, span, self.style));
            out.push(String::new());
        }
        out
    }

    /// Each scenario's first counts, one table of first latencies, and `more` rows of the next most important figures.
    pub(super) fn brief(&self, more: usize) -> Vec<String> {
        let further = self.most_telling(more, |_| true);
        let (mut out, mut shown, mut is_measured) = (Vec::new(), Vec::new(), false);
        for of in self.all() {
            let first = counts_of(&of.now.counts, MetricKind::Counter).take(FIRST_COUNTERS);
            let first: Vec<Metric> = first.map(|(metric, _)| metric).collect();
            let rates = self.rates(of, |metric| {
                first.contains(&metric) || further.contains(&metric)
            });
            out.extend(rates);
            out.push(String::new());
            is_measured = of.whole.is_some();
            let first = first_latency(&of.shown().latency).map(|(metric, _)| metric);
            let filled = of.shown().latency.filled();
            shown.extend(filled.filter(|(it, _)| Some(*it) == first || further.contains(it)));
        }
        if !out.is_empty() {
            out.extend(latency_table(
                shown.into_iter(),
                span(is_measured),
                self.style,
            ));
            out.push(String::new());
        }
        out
    }

    /// One table of all scenarios, a row each: its first latency, how many of its operations failed, and the most that
    /// were in flight in the last second; and `more` rows of further latencies.
    pub(super) fn rows(&self, more: usize) -> Vec<String> {
        let Some(first) = self.all().next() else {
            return Vec::new();
        };
        let further = self.most_telling(more, |metric| metric.info().kind == MetricKind::Histogram);
        let span = span(first.whole.is_some());
        let mut table = Table::of(&format!(
            "{span}<|     p50|     p99|     max|  count|failed|in flight"
        ));
        table.drop_in_order(&[4, 1]);
        let mut weak = false;
        for of in self.all() {
            let latencies = &of.shown().latency;
            let first = first_latency(latencies);
            let mut row = match first {
                Some((metric, latency)) => latency_cells(metric, latency, &mut weak),
                None => std::iter::once(called(of.name))
                    .chain(std::iter::repeat_n("-".to_owned(), 4))
                    .collect(),
            };
            row.extend([of.failed(), of.in_flight()]);
            table.row(row);
            let first = first.map(|(metric, _)| metric);
            let others = latencies
                .filled()
                .filter(|(it, _)| Some(*it) != first && further.contains(it));
            for (metric, latency) in others {
                table.row(latency_cells(metric, latency, &mut weak));
            }
        }
        let mut out = table.faint_lines(self.style);
        if weak {
            out.push(self.style.faint(FOOTNOTE));
        }
        out.push(String::new());
        out
    }

    /// The first of the figures for spare room, one scenario after the other.
    fn most_telling(&self, number: usize, is_wanted: impl Fn(Metric) -> bool) -> Vec<Metric> {
        let mut all: Vec<(u8, usize, Metric)> = Vec::new();
        for of in self.all() {
            let wanted = of.further().into_iter().filter(|(_, it)| is_wanted(*it));
            all.extend(
                wanted
                    .enumerate()
                    .map(|(place, (rank, it))| (rank, place, it)),
            );
        }
        all.sort_by_key(|(rank, place, _)| (*rank, *place));
        all.into_iter()
            .map(|(_, _, metric)| metric)
            .take(number)
            .collect()
    }

    /// The counters of a scenario that are wanted, and its largest values, which stand below them.
    fn rates(&self, of: LiveScenario<'_>, is_wanted: impl Fn(Metric) -> bool) -> Vec<String> {
        let LiveScenario { name, now, whole } = of;
        let first = counts_of(&now.counts, MetricKind::Counter).next();
        let unit = first.map_or("", |(metric, _)| metric.info().unit);
        // Numbers that grow must not move the columns.
        let now_of = format!("{}/s now", sanitise(unit));
        let heads = format!("<|{now_of:>11}|   measured|      count|last seconds<");
        let mut table = Table::of(&heads).titled(&format!("{:12}", called(name)));
        table.drop_in_order(&[4]);
        let value = |point: &SeriesPoint, metric: Metric| {
            let counted = point
                .scenarios
                .get(name)
                .and_then(|it| it.counts.get(&metric));
            counted.copied().unwrap_or(0)
        };
        let of_measured = |metric: Metric| {
            let counted = whole.map(|measured| measured.counts.get(&metric));
            counted.map(|counted| counted.copied().unwrap_or(0))
        };
        let counters = counts_of(&now.counts, MetricKind::Counter);
        for (metric, _) in counters.filter(|(metric, _)| is_wanted(*metric)) {
            let unit = metric.info().unit;
            let rate = |point: &SeriesPoint| per_second(value(point, metric), point.dt);
            let shown = |rate: f64| match unit {
                BYTES => rate_with_unit(rate, unit),
                _ => three_digits(rate),
            };
            let number = of_measured(metric);
            table.row(vec![
                sanitise(metric.name()).into_owned(),
                shown(self.recent.back().map_or(0.0, rate)),
                or_dash(number.map(|number| shown(per_second(number, self.seconds)))),
                or_dash(number.map(|number| with_own_unit(number, unit))),
                sparkline(self.recent.iter().map(rate)),
            ]);
        }
        // A largest value is no rate: that of the last second, and that of all.
        for (metric, _) in counts_of(&now.counts, MetricKind::Peak) {
            let unit = metric.info().unit;
            let last = self.recent.back().map_or(0, |point| value(point, metric));
            let most = of_measured(metric);
            table.row(vec![
                format!("{}, most", sanitise(metric.name())),
                with_own_unit(last, unit),
                String::new(),
                or_dash(most.map(|most| with_own_unit(most, unit))),
                sparkline(self.recent.iter().map(|point| value(point, metric) as f64)),
            ]);
        }
        table.faint_lines(self.style)
    }
}

impl LiveScenario<'_> {
    fn failed(&self) -> String {
        let mut counters = counts_of(&self.shown().counts, MetricKind::Counter);
        let failed = counters.find(|(metric, _)| metric.name() == "failed");
        or_dash(failed.map(|(_, number)| count(number)))
    }

    /// The most of the last second.
    fn in_flight(&self) -> String {
        let most = counts_of(&self.now.counts, MetricKind::Peak).next();
        or_dash(most.map(|(metric, most)| with_own_unit(most, metric.info().unit)))
    }
}

/// A latency in a row: its name, percentiles, maximum and count.
fn latency_cells(metric: Metric, latency: &LatencySummary, weak: &mut bool) -> Vec<String> {
    let mut cell = |ns: u64, percentile: f64| {
        *weak |= !latency.supports(percentile);
        marked(ns, latency.supports(percentile))
    };
    let indent = if metric.info().part { "  " } else { "" };
    vec![
        format!("{indent}{}", sanitise(metric.name())),
        cell(latency.p50_ns, 50.0),
        cell(latency.p99_ns, 99.0),
        Nanos(latency.max_ns).to_string(),
        count(latency.count),
    ]
}

/// The latency that a scenario is about: the first that is a whole.
fn first_latency(all: &Summaries) -> Option<(Metric, &LatencySummary)> {
    all.filled().find(|(metric, _)| !metric.info().part)
}

/// The time that latencies of the live table are of: the measured phase so far, or the last second before it.
pub(super) const fn span(is_measured: bool) -> &'static str {
    if is_measured { "measured" } else { "last 1 s" }
}
