//! Pages of metrics that are requested while a load runs, on their way into the run.

use archive::SeriesName;
use measure::{Clock, Nanos, Time};

use super::recording::Recording;
use crate::scrape::{Scrape, ScrapePlan, ScrapeSummary, Scraper};

/// What is requested beside the load, and what came of it.
#[derive(Debug, Default)]
pub(super) struct Scraping {
    plans: Vec<ScrapePlan>,
    scraper: Option<Scraper>,
    summaries: Vec<ScrapeSummary>,
    begin: Time,
}

impl Scraping {
    pub(super) fn of(plans: Vec<ScrapePlan>) -> Self {
        Self {
            summaries: plans.iter().map(ScrapeSummary::new).collect(),
            plans,
            scraper: None,
            begin: Time(0),
        }
    }
}

impl Recording<'_> {
    /// The load began: so do the requests.
    pub(super) fn start_scraping(&mut self, at: Time) {
        if self.scraping.plans.is_empty() {
            return;
        }
        self.scraping.begin = at;
        match Scraper::start(&self.scraping.plans, at, None) {
            Ok(scraper) => self.scraping.scraper = Some(scraper),
            Err(error) => self.note(&format!("no page is scraped: {error}")),
        }
    }

    /// Keeps what has come since the last time.
    pub(super) fn keep_scrapes(&mut self) {
        let scrapes = self.scraping.scraper.as_mut().map(Scraper::take);
        for scrape in scrapes.unwrap_or_default() {
            self.keep_scrape(&scrape);
        }
    }

    /// Ends the requests, and says what they cost.
    pub(super) fn finish_scraping(&mut self) {
        let Some(scraper) = self.scraping.scraper.take() else {
            return;
        };
        let end = Clock.now();
        for scrape in scraper.stop() {
            self.keep_scrape(&scrape);
        }
        for mut summary in std::mem::take(&mut self.scraping.summaries) {
            summary.finish(self.scraping.begin, end);
            self.note(&summary.sentence());
        }
    }

    fn keep_scrape(&mut self, scrape: &Scrape) {
        let Some(plan) = self.scraping.plans.get(scrape.plan) else {
            return;
        };
        let mut rows: Vec<(Time, Nanos, Vec<(SeriesName, f64)>)> = Vec::new();
        for series in scrape.series(plan) {
            let length = series.until.since(series.since);
            let value = (series.name, series.value);
            match rows
                .iter_mut()
                .find(|(since, dt, _)| (*since, *dt) == (series.since, length))
            {
                Some((_, _, values)) => values.push(value),
                None => rows.push((series.since, length, vec![value])),
            }
        }
        for (since, length, values) in rows {
            let t = self.seconds_since_origin(since);
            self.keep_values(t, length.as_secs_f64(), values);
        }
        let is_first_failure = match self.scraping.summaries.get_mut(scrape.plan) {
            Some(summary) => {
                summary.add(scrape);
                summary.failed == 1
            }
            None => false,
        };
        if let Some(problem) = scrape.result.as_ref().err().filter(|_| is_first_failure) {
            self.note(&format!("a scrape failed: {}", problem.sentence()));
        }
    }
}
