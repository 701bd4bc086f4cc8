//! Pages of metrics that are requested while a load runs, on their way into the run.

use archive::{ScrapedPage, SeriesName, Warning};
use measure::{Clock, Nanos, Phase, Time};

use crate::scrape::{Scrape, ScrapePlan, ScrapeSummary, Scraper};

/// What is requested beside the load, and what came of it.
#[derive(Debug, Default)]
pub(super) struct Scraping {
    plans: Vec<ScrapePlan>,
    scraper: Option<Scraper>,
    summaries: Vec<ScrapeSummary>,
    /// What each page cost, once the requests have ended.
    pages: Vec<ScrapedPage>,
    /// When the first request was due.
    begin: Time,
    /// The measured phase, as far as it has begun and ended: what is due in it counts.
    measured: (Option<Time>, Option<Time>),
}

/// What came of scrapes since the last time.
#[derive(Debug, Default)]
pub(super) struct Scraped {
    pub(super) rows: Vec<ScrapedRow>,
    /// Sentences that belong to the moment.
    pub(super) notes: Vec<String>,
    /// What the run lacks of pages, at its end.
    pub(super) warnings: Vec<Warning>,
}

/// Values of series over one time.
#[derive(Debug)]
pub(super) struct ScrapedRow {
    pub(super) since: Time,
    pub(super) length: Nanos,
    pub(super) values: Vec<(SeriesName, f64)>,
}

impl Scraping {
    pub(super) fn of(plans: Vec<ScrapePlan>) -> Self {
        Self {
            summaries: plans.iter().map(ScrapeSummary::new).collect(),
            plans,
            scraper: None,
            pages: Vec::new(),
            begin: Time(0),
            measured: (None, None),
        }
    }

    /// A phase began.
    pub(super) const fn phase(&mut self, phase: Phase, at: Time) {
        match phase {
            Phase::Warmup => {}
            Phase::Measure => self.measured.0 = Some(at),
            Phase::Drain => self.measured.1 = Some(at),
        }
    }

    /// Whether a request is one of the measured phase.
    fn is_measured(&self, due: Time) -> bool {
        let (begin, end) = self.measured;
        begin.is_some_and(|begin| due >= begin) && end.is_none_or(|end| due < end)
    }

    /// The load began: so do the requests.
    pub(super) fn start(&mut self, at: Time) -> Scraped {
        let mut scraped = Scraped::default();
        if self.plans.is_empty() {
            return scraped;
        }
        self.begin = at;
        match Scraper::start(&self.plans, at, None) {
            Ok(scraper) => self.scraper = Some(scraper),
            Err(error) => scraped.notes.push(format!("no page is scraped: {error}")),
        }
        scraped
    }

    /// What has come since the last time.
    pub(super) fn take(&mut self) -> Scraped {
        let scrapes = self.scraper.as_mut().map(Scraper::take);
        self.all_of(scrapes.unwrap_or_default())
    }

    /// Ends the requests, and says what they cost.
    pub(super) fn finish(&mut self) -> Scraped {
        let Some(scraper) = self.scraper.take() else {
            return Scraped::default();
        };
        let (begin, end) = (
            self.measured.0,
            self.measured.1.unwrap_or_else(|| Clock.now()),
        );
        let mut scraped = self.all_of(scraper.stop());
        for mut summary in std::mem::take(&mut self.summaries) {
            summary.finish(self.begin, begin.unwrap_or(end), end);
            scraped.notes.push(summary.sentence());
            scraped.warnings.extend(summary.warnings());
            self.pages.push(summary.page());
        }
        scraped
    }

    /// What each page cost; empty before [`Self::finish`].
    pub(super) fn pages(&self) -> &[ScrapedPage] {
        &self.pages
    }

    fn all_of(&mut self, scrapes: Vec<Scrape>) -> Scraped {
        let mut scraped = Scraped::default();
        for scrape in &scrapes {
            self.add(scrape, &mut scraped);
        }
        scraped
    }

    fn add(&mut self, scrape: &Scrape, scraped: &mut Scraped) {
        let is_measured = self.is_measured(scrape.due);
        let (Some(plan), Some(summary)) = (
            self.plans.get(scrape.plan),
            self.summaries.get_mut(scrape.plan),
        ) else {
            return;
        };
        let mut rows: Vec<ScrapedRow> = Vec::new();
        for series in scrape.series(plan) {
            let (since, length) = (series.since, series.until.since(series.since));
            let value = (series.name, series.value);
            let mut known = rows.iter_mut();
            match known.find(|row| (row.since, row.length) == (since, length)) {
                Some(row) => row.values.push(value),
                None => rows.push(ScrapedRow {
                    since,
                    length,
                    values: vec![value],
                }),
            }
        }
        scraped.rows.append(&mut rows);
        if is_measured {
            summary.add(scrape);
        }
        let failure = scrape.result.as_ref().err();
        let is_first = is_measured && summary.failed == 1;
        if let Some(problem) = failure.filter(|_| is_first && !scrape.is_unanswered) {
            let note = format!("a scrape failed: {}", problem.sentence());
            scraped.notes.push(note);
        }
    }
}
