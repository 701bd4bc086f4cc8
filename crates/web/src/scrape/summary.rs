//! Summaries of a page's scrapes.

use std::collections::BTreeMap;
use std::fmt;

use archive::{Finding, ScrapedPage, SeriesUnit, Tier, Warning};
use hdrhistogram::Histogram;
use measure::{LatencySummary, Nanos, Problem, Time, count, counted, new_histogram};
use serde::Serialize;

use super::{RequestTimes, Scrape, ScrapePlan};

/// All scrapes of one page.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ScrapeSummary {
    /// The page's name.
    pub name: String,
    /// Where it is.
    pub url: String,
    /// Requests that brought a page.
    pub completed: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Requests that were sent, and had no page at the end.
    pub unanswered: u64,
    /// Requests that were due and not sent, because the ones before took longer than the time between two.
    pub not_sent: u64,
    /// From due until a page had been read; one without a page counts with its wait, up to its time-out or to the end.
    pub response: LatencySummary,
    /// From when it was sent until its page had been read.
    pub service: LatencySummary,
    /// From when it was sent until the head of the answer had arrived.
    pub first_byte: LatencySummary,
    /// Bytes that arrived for a page, compressed where the server compresses: the median.
    pub bytes: u64,
    /// Bytes that arrived, of all requests.
    pub received_bytes: u64,
    /// Bytes of a page, not compressed: the median.
    pub page_bytes: u64,
    /// Those of the largest.
    pub page_bytes_max: u64,
    /// Series of a page: the median.
    pub series: u64,
    /// Those of the page with the most.
    pub series_max: u64,
    /// Lines of all pages that were skipped because they are wrong.
    pub wrong_lines: u64,
    /// The first of them, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_wrong: Option<String>,
    /// Selected series of all pages that stood twice on theirs.
    pub duplicates: u64,
    /// Time of parsing, of all pages that came.
    pub parse_ns: u64,
    /// Bytes that were parsed in it.
    pub parsed_bytes: u64,
    /// CPU time of the server per request, where its process runs here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_cpu_ns: Option<u64>,
    /// Selectors that have found nothing, and related names of the page, in words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unmatched: Vec<String>,
    /// Why the last request that failed did so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<Problem>,
    /// The selected series with their last values.
    pub selected: Vec<SeriesSummary>,
    #[serde(skip)]
    histograms: Histograms,
    #[serde(skip)]
    sizes: PageSizes,
    #[serde(skip)]
    times: RequestTimes,
    #[serde(skip)]
    timeout: Nanos,
}

/// The last value of a selected series.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SeriesSummary {
    /// How people read it: a sum as it was written, with the labels of its group.
    #[serde(rename = "series")]
    pub shown: String,
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// The last value.
    pub value: f64,
    /// Its unit.
    pub unit: SeriesUnit,
    /// Growth of a counter per second over the last interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
}

/// As it stands on a page, but for escapes of values that need none in a text.
impl fmt::Display for SeriesSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

#[derive(Clone, Debug)]
struct Histograms([Histogram<u64>; 3]);

impl Default for Histograms {
    fn default() -> Self {
        Self([new_histogram(), new_histogram(), new_histogram()])
    }
}

/// How large the pages were that came.
#[derive(Clone, Debug, Default)]
struct PageSizes {
    arrived: Sizes,
    bytes: Sizes,
    series: Sizes,
}

impl ScrapeSummary {
    /// Nothing has been requested so far.
    pub fn new(plan: &ScrapePlan) -> Self {
        Self {
            name: plan.name.clone(),
            url: plan.url.to_string(),
            times: plan.times(),
            timeout: plan.timeout,
            ..Self::default()
        }
    }

    /// Adds a request.
    pub fn add(&mut self, scrape: &Scrape) {
        let cost = &scrape.cost;
        self.wrong_lines += cost.wrong_lines;
        self.received_bytes += cost.bytes;
        self.duplicates += cost.duplicates;
        if self.first_wrong.is_none() {
            self.first_wrong.clone_from(&cost.first_wrong);
        }
        match &scrape.result {
            Err(problem) => {
                let count = if scrape.is_unanswered { &mut self.unanswered } else { &mut self.failed };
                *count += 1;
                self.problem = Some(problem.clone());
                let waited = scrape.done.since(scrape.sent);
                if scrape.is_unanswered || waited >= self.timeout {
                    self.record([scrape.response(), waited]);
                }
            }
            Ok(values) => {
                self.completed += 1;
                self.parse_ns += cost.parse.0;
                self.parsed_bytes += cost.page_bytes;
                self.sizes.arrived.add(cost.bytes);
                self.sizes.bytes.add(cost.page_bytes);
                self.sizes.series.add(cost.series);
                self.unmatched.clone_from(&cost.unmatched);
                let first_byte = scrape.answered.map_or(Nanos::ZERO, |at| at.since(scrape.sent));
                self.record([scrape.response(), scrape.done.since(scrape.sent), first_byte]);
                self.selected = values
                    .iter()
                    .map(|selected| SeriesSummary {
                        shown: selected.shown.clone(),
                        name: selected.name.name.clone(),
                        labels: selected.name.labels.clone(),
                        value: selected.value,
                        unit: selected.name.unit,
                        rate: selected.rate.map(|rate| rate.per_second),
                    })
                    .collect();
            }
        }
    }

    /// Records the first of: response, service, first byte.
    fn record<const N: usize>(&mut self, latencies: [Nanos; N]) {
        for (histogram, latency) in self.histograms.0.iter_mut().zip(latencies) {
            histogram.saturating_record(latency.0.max(1));
        }
    }

    /// Requests that were sent.
    pub(super) fn requests(&self) -> u64 {
        self.completed + self.failed + self.unanswered
    }

    /// The page as a run keeps it.
    pub fn page(&self) -> ScrapedPage {
        ScrapedPage {
            name: self.name.clone(),
            url: crate::redact::url(&self.url),
            completed: self.completed,
            failed: self.failed,
            unanswered: self.unanswered,
            not_sent: self.not_sent,
            response: self.response.clone(),
            received_bytes: self.received_bytes,
            arrived_bytes: self.bytes,
            page_bytes: self.page_bytes,
            page_bytes_max: self.page_bytes_max,
            series: self.series,
            series_max: self.series_max,
            ..ScrapedPage::default()
        }
    }

    /// Gaps of the page's figures and series.
    pub fn warnings(&self) -> Vec<Warning> {
        let mut all = Vec::new();
        if self.failed > 0 {
            let why = self.problem.as_ref().map(Problem::sentence);
            let failed = Finding::ScrapesFailed {
                page: self.name.clone(),
                failed: self.failed,
                requests: self.requests(),
                last_failure: crate::redact::text(&why.unwrap_or_default()),
            };
            all.push(Warning::new(Tier::Caution, failed));
        }
        all.extend(self.unmatched.iter().map(|what| {
            let nothing = Finding::NothingSelected { page: self.name.clone(), what: what.clone() };
            Warning::new(Tier::Caution, nothing)
        }));
        all
    }

    /// The scrapes in a sentence.
    pub fn sentence(&self) -> String {
        let mut text = format!("{}: {} scraped", self.name, counted(self.completed, "page"));
        if self.completed > 0 {
            let [p50, p99, max] = [self.response.p50_ns, self.response.p99_ns, self.response.max_ns].map(Nanos);
            text += &format!(
                ", p50 {p50}, p99 {p99}, max {max} from the due times; {} series in {} bytes",
                count(self.series),
                count(self.page_bytes)
            );
            if self.page_bytes_max > self.page_bytes {
                text += &format!(" (the median; at most {} in {})", count(self.series_max), count(self.page_bytes_max));
            }
        }
        let parts = [
            (self.failed, "failed"),
            (self.unanswered, "without an answer at the end"),
            (self.not_sent, "due and not sent"),
            (self.wrong_lines, "wrong lines skipped"),
        ];
        for (number, what) in parts.into_iter().filter(|(number, _)| *number > 0) {
            text += &format!("; {} {what}", count(number));
        }
        text
    }

    /// Closes the sums and counts unsent requests due from `begin` on, before `end`; the first was due at `first`.
    pub fn finish(&mut self, first: Time, begin: Time, end: Time) {
        let [response, service, first_byte] = &self.histograms.0;
        self.response = LatencySummary::of(response);
        self.service = LatencySummary::of(service);
        self.first_byte = LatencySummary::of(first_byte);
        let sizes = &self.sizes;
        self.bytes = sizes.arrived.median();
        (self.page_bytes, self.page_bytes_max) = (sizes.bytes.median(), sizes.bytes.most);
        (self.series, self.series_max) = (sizes.series.median(), sizes.series.most);
        let due_before = |at: Time| self.times.before(at.since(first));
        let due = due_before(end).saturating_sub(due_before(begin));
        self.not_sent = due.saturating_sub(self.requests());
    }
}

/// A number that each page has: where it grows, its middle and its largest value.
#[derive(Clone, Debug)]
struct Sizes {
    all: Histogram<u64>,
    least: u64,
    most: u64,
}

impl Default for Sizes {
    fn default() -> Self {
        Self { all: new_histogram(), least: u64::MAX, most: 0 }
    }
}

impl Sizes {
    fn add(&mut self, size: u64) {
        self.all.saturating_record(size);
        self.least = self.least.min(size);
        self.most = self.most.max(size);
    }

    /// The middle one, within a thousandth; as it is where all are the same.
    fn median(&self) -> u64 {
        self.all.value_at_quantile(0.5).max(self.least).min(self.most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_that_are_the_same_are_told_exactly_and_others_by_their_middle() {
        let sizes = |of: &[u64]| {
            let mut sizes = Sizes::default();
            of.iter().for_each(|size| sizes.add(*size));
            (sizes.median(), sizes.most)
        };
        assert_eq!(sizes(&[]), (0, 0));
        assert_eq!(sizes(&[0]), (0, 0));
        assert_eq!(sizes(&[3_360_123; 5]), (3_360_123, 3_360_123));
        let (median, max) = sizes(&[7_150_000, 7_150_000, 7_150_001, 3_360_000]);
        assert!(median.abs_diff(7_150_000) < 7_150, "{median}");
        assert_eq!(max, 7_150_001);
    }
}
