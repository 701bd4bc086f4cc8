//! Scrapes: pages of metrics that are requested on a schedule, parsed as they arrive, and become series of the run.
//! Each page has a thread and a connection of its own, and all begin by the same clock. Request *i* is due at `begin +
//! i * every`, or, where it is jittered, at a moment between then and the next; a late one is sent as soon as it can
//! be, and its time counts from when it was due. Nothing is skipped.

mod client;
mod selection;
mod selector;
mod summary;
mod watch;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use archive::{SeriesName, SeriesUnit};
use measure::{Clock, Nanos, Problem, Refused, Time, scatter};
use ureq::http::Uri;

use super::Secret;
use client::Client;
use selection::Selection;

pub use selection::{SelectedRate, SelectedValue};
pub use selector::Selector;
pub use summary::{ScrapeSummary, SeriesSummary};
pub use watch::{ScrapeObserver, ScrapeSecond, pid_of, scrape};

/// Series that are selected of a page where nothing else is said.
pub const MOST_SELECTED: usize = 1_000;
/// Pages that wait to be taken; a thread with more waits.
const MOST_WAITING: usize = 256;
/// How often a thread that waits looks whether it is to stop.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// How long the end waits for a page that is still arriving.
const GRACE: Duration = Duration::from_millis(500);

/// A page that is requested again and again.
#[derive(Clone, Debug)]
pub struct ScrapePlan {
    /// The first part of its series' names.
    pub name: String,
    /// Where it is.
    pub url: ScrapeUrl,
    /// Time between two requests.
    pub every: Nanos,
    /// Moves each request within its interval, by a sequence that begins at this seed: its cost shows, and the server's
    /// own periodic work does not coincide with it. At the beginning of the interval where absent.
    pub jitter: Option<u64>,
    /// The longest that a request may take, its page included.
    pub timeout: Nanos,
    /// Which series are kept.
    pub select: Vec<Selector>,
    /// How many of them at most.
    pub most_series: usize,
    /// Whether the server may compress the page.
    pub gzip: bool,
    /// The user, where the server asks for one; the password is then one, and else a token.
    pub user: Option<String>,
    /// A password or token.
    pub password: Option<Secret>,
    /// Authorities to trust in place of the machine's, a PEM file.
    pub ca: Option<PathBuf>,
}

impl ScrapePlan {
    const fn times(&self) -> RequestTimes {
        RequestTimes { every: self.every, jitter: self.jitter }
    }
}

/// Cost of a page.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PageCost {
    /// Bytes that arrived, compressed where the server compresses.
    pub bytes: u64,
    /// Bytes of the page.
    pub page_bytes: u64,
    /// Series on it.
    pub series: u64,
    /// Lines that were skipped because they are wrong.
    pub wrong_lines: u64,
    /// The first of them, in words.
    pub first_wrong: Option<String>,
    /// Selected series that stood twice, of which the first counts.
    pub duplicates: u64,
    /// CPU time of parsing and selecting, about.
    pub parse: Nanos,
    /// Selectors that have found nothing so far, and related names of the page, in words.
    pub unmatched: Vec<String>,
}

/// One request and what came of it.
#[derive(Clone, Debug)]
pub struct Scrape {
    /// Which plan it is of.
    pub plan: usize,
    /// When it was due.
    pub due: Time,
    /// When it was sent.
    pub sent: Time,
    /// When the head of the answer had arrived.
    pub answered: Option<Time>,
    /// When its page had been read, or it had failed.
    pub done: Time,
    /// The page's cost.
    pub cost: PageCost,
    /// The selected values.
    pub result: Result<Vec<SelectedValue>, Problem>,
    /// It ended because the scrapes did: its page had not been read by then.
    pub is_unanswered: bool,
}

impl Scrape {
    /// From when it was due until the page had been read.
    pub fn response(&self) -> Nanos {
        self.done.since(self.due)
    }

    /// The series that a run keeps of one that brought a page: its cost, and each selected one, as its rate where it is
    /// a counter. Times are those at which pages were due, so that several pages have the same.
    pub fn series(&self, plan: &ScrapePlan) -> Vec<ScrapedSeries> {
        let Ok(values) = &self.result else { return Vec::new() };
        let mut kept = self.cost_series(plan);
        for selected in values {
            let mut name = selected.name.clone();
            match &selected.rate {
                Some(rate) => {
                    name.unit = rate.unit;
                    kept.push(ScrapedSeries { name, since: rate.since, until: self.due, value: rate.per_second });
                }
                // What a counter has counted since its process began says nothing of the run.
                None if selected.is_counter => {}
                None => kept.push(self.since_then(plan, name, selected.value)),
            }
        }
        kept
    }

    /// The page's cost, as series.
    pub fn cost_series(&self, plan: &ScrapePlan) -> Vec<ScrapedSeries> {
        let time = self.response().as_secs_f64();
        let (bytes, series) = (self.cost.page_bytes as f64, self.cost.series as f64);
        let costs = [
            ("scrape time", SeriesUnit::Seconds, time),
            ("size of the page", SeriesUnit::Bytes, bytes),
            ("series of the page", SeriesUnit::Count, series),
        ];
        let named = |(name, unit, value)| self.since_then(plan, SeriesName::new(&plan.name, name, unit), value);
        costs.map(named).into()
    }

    /// A value that holds until the next page.
    fn since_then(&self, plan: &ScrapePlan, name: SeriesName, value: f64) -> ScrapedSeries {
        ScrapedSeries { name, since: self.due, until: self.due + plan.every, value }
    }
}

/// A value of a series, and the time that it is of.
#[derive(Clone, Debug)]
pub struct ScrapedSeries {
    /// Its name.
    pub name: SeriesName,
    /// Where that time begins.
    pub since: Time,
    /// Where it ends.
    pub until: Time,
    /// The value.
    pub value: f64,
}

/// Threads that request pages until they are told to stop.
#[derive(Debug)]
pub struct Scraper {
    plans: Vec<ScrapePlan>,
    scrapes: Receiver<Scrape>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    in_flight: Vec<InFlight>,
}

/// When the request that a thread waits for was due and was sent. Who takes it tells what came of it.
type InFlight = Arc<Mutex<Option<(Time, Time)>>>;

fn take(in_flight: &InFlight) -> Option<(Time, Time)> {
    in_flight.lock().unwrap_or_else(PoisonError::into_inner).take()
}

impl Scraper {
    /// Starts them: requests are due from `begin` on, before `end`. Errors: unreadable certificates; no more threads.
    pub fn start(plans: &[ScrapePlan], begin: Time, end: Option<Time>) -> Result<Self, Problem> {
        let (tell, scrapes) = sync_channel(MOST_WAITING);
        let mut scraper = Self {
            plans: plans.to_vec(),
            scrapes,
            stop: Arc::default(),
            threads: Vec::new(),
            in_flight: plans.iter().map(|_| InFlight::default()).collect(),
        };
        for (number, plan) in plans.iter().enumerate() {
            let task = Task {
                number,
                client: Client::new(plan)?,
                selection: Selection::new(&plan.name, &plan.select, plan.most_series),
                times: plan.times(),
                stop: Arc::clone(&scraper.stop),
                tell: tell.clone(),
                in_flight: scraper.in_flight.get(number).cloned().unwrap_or_default(),
            };
            let thread = thread::Builder::new().name(format!("scrape-{number}"));
            let thread = thread.spawn(move || task.run(begin, end)).map_err(|error| {
                scraper.stop.store(true, Ordering::Relaxed);
                Problem::new("cannot start a thread", error, "see ulimit -u")
            })?;
            scraper.threads.push(thread);
        }
        Ok(scraper)
    }

    /// Scrapes that have ended since the last call.
    pub fn take(&mut self) -> Vec<Scrape> {
        self.scrapes.try_iter().collect()
    }

    /// Whether all have made their last request.
    pub fn is_finished(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    /// For how long the request of each plan has waited that is in flight.
    pub fn waiting(&self) -> Vec<Option<Nanos>> {
        let waited = |in_flight: &InFlight| {
            in_flight.lock().unwrap_or_else(PoisonError::into_inner).map(|(_, sent)| Clock.now().since(sent))
        };
        self.in_flight.iter().map(waited).collect()
    }

    /// Makes no more requests; those that are in flight go on.
    pub fn send_no_more(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Makes no more requests, waits a moment for those in flight, and tells the outcome; hanging ones are unanswered.
    pub fn stop(mut self) -> Vec<Scrape> {
        self.send_no_more();
        let deadline = Instant::now() + GRACE;
        let mut last = self.take();
        while !self.is_finished() && Instant::now() < deadline {
            thread::sleep(POLL_INTERVAL / 4);
            last.extend(self.take());
        }
        let unanswered: Vec<Scrape> = self.unanswered().collect();
        last.extend(self.take());
        last.extend(unanswered);
        last
    }

    /// The requests that are in flight, which nobody else tells of then.
    fn unanswered(&self) -> impl Iterator<Item = Scrape> {
        self.in_flight.iter().zip(&self.plans).enumerate().filter_map(|(number, (in_flight, plan))| {
            let (due, sent) = take(in_flight)?;
            let done = Clock.now();
            let waited = done.since(sent);
            Some(Scrape {
                plan: number,
                due,
                sent,
                answered: None,
                done,
                cost: PageCost::default(),
                result: Err(Problem::new(
                    format!("{} had not answered at the end", plan.url),
                    format!("sent {waited} before"),
                    "see the server's log; scrape longer if the server is only slow",
                )),
                is_unanswered: true,
            })
        })
    }
}

impl Drop for Scraper {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Work of a thread.
struct Task {
    number: usize,
    client: Client,
    selection: Selection,
    times: RequestTimes,
    stop: Arc<AtomicBool>,
    tell: SyncSender<Scrape>,
    in_flight: InFlight,
}

impl Task {
    fn run(mut self, begin: Time, end: Option<Time>) {
        for number in 0.. {
            let due = begin + self.times.due(number);
            if end.is_some_and(|end| due >= end) || !self.wait(due) {
                return;
            }
            let sent = Clock.now();
            *self.in_flight.lock().unwrap_or_else(PoisonError::into_inner) = Some((due, sent));
            let scrape = self.scrape(due, sent);
            // Where somebody has taken it, it was told as unanswered.
            if take(&self.in_flight).is_none() || self.tell.send(scrape).is_err() {
                return;
            }
        }
    }

    /// Waits for a time; answers whether to go on then.
    fn wait(&self, due: Time) -> bool {
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return false;
            }
            let rest = due.since(Clock.now());
            if rest == Nanos::ZERO {
                return true;
            }
            thread::sleep(Duration::from_nanos(rest.0).min(POLL_INTERVAL));
        }
    }

    fn scrape(&mut self, due: Time, sent: Time) -> Scrape {
        self.selection.begin();
        let mut fetched = self.client.fetch(&mut self.selection);
        let done = Clock.now();
        let result = match fetched.result {
            Ok(()) => {
                fetched.cost.unmatched = self.selection.unmatched();
                self.selection.finish(due, sent)
            }
            Err(problem) => {
                self.selection.abandon();
                Err(problem)
            }
        };
        Scrape {
            plan: self.number,
            due,
            sent,
            answered: fetched.answered,
            done,
            cost: fetched.cost,
            result,
            is_unanswered: false,
        }
    }
}

/// How far in its interval a jittered request moves from the one before. No gap is shorter than the rest of an
/// interval, so quick pages never wait for each other; seven requests cover each part of the interval.
const STEP_PERCENT: u64 = 15;

/// When the requests of a page are due, after the first may be: one in each interval.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestTimes {
    /// From one to the next.
    pub every: Nanos,
    /// At a moving moment of its interval, beginning where this determines; at the interval's beginning where absent.
    pub jitter: Option<u64>,
}

impl RequestTimes {
    /// When a request is due, by its number from 0 on.
    pub fn due(self, number: u64) -> Nanos {
        let every = self.every.0.max(1);
        let begin = Nanos(every.saturating_mul(number));
        let Some(seed) = self.jitter else { return begin };
        let there_and_back = u128::from(every) * 2;
        let moved = u128::from(scatter(seed)) + u128::from(number) * u128::from(every * STEP_PERCENT / 100);
        let moved = moved % there_and_back;
        begin + Nanos(u64::try_from(moved.min(there_and_back - 1 - moved)).unwrap_or(0))
    }

    /// How many are due before a time.
    pub fn before(self, time: Nanos) -> u64 {
        let whole = time.0 / self.every.0.max(1);
        whole + u64::from(self.due(whole) < time)
    }
}

const EXAMPLE: &str = "write it as http://localhost:15692/metrics/per-object";

/// The address of a page, without a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScrapeUrl(String);

impl ScrapeUrl {
    /// The address as a request has it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Host, port and path: what tells it from other pages.
    pub fn short(&self) -> &str {
        let text = self.0.split_once("://").map_or(self.0.as_str(), |(_, rest)| rest);
        text.split(['?', '#']).next().unwrap_or_default()
    }
}

impl fmt::Display for ScrapeUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&crate::redact::url(&self.0))
    }
}

impl FromStr for ScrapeUrl {
    type Err = Refused;

    fn from_str(text: &str) -> Result<Self, Refused> {
        let text = text.trim();
        let uri: Uri = text.parse().map_err(|_| Refused::new("the page's address is not a URL", EXAMPLE))?;
        let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
        let Some(authority) = uri.authority().filter(|_| is_http) else {
            return Err(Refused::new("the page's address does not begin with http:// or https://", EXAMPLE));
        };
        if authority.as_str().contains('@') {
            let what = "the page's address contains a password, which other users see in the list of processes";
            let help = "give the user with --user and the password in BELLOWS_SCRAPE_PASSWORD or --password-file \
             (in a file: user and password)";
            return Err(Refused::new(what, help));
        }
        Ok(Self(text.to_owned()))
    }
}

#[cfg(test)]
mod tests;
