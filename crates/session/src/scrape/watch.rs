//! Scrapes on their own, without a load: what each page costs its server.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use linux::{ProcessTree, sockets};
use load::Control;
use measure::{Clock, Nanos, Time};
use ureq::http::Uri;

use super::{Scrape, ScrapePlan, ScrapeSummary, Scraper};
use crate::Error;

/// How often it looks what has come.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// How often it tells where it stands.
const SECOND: Nanos = Nanos::from_millis(1_000);
/// The first requests are due so long after the start, when all threads wait for it.
const LEAD: Nanos = Nanos::from_millis(50);

/// Who is told of scrapes while they go on.
pub trait ScrapeObserver {
    /// A request has ended.
    fn scraped(&mut self, plan: &ScrapePlan, scrape: &Scrape);
    /// A second has passed, or all of it.
    fn second(&mut self, second: &ScrapeSecond<'_>);
}

/// Where scrapes stand.
#[derive(Clone, Copy, Debug)]
pub struct ScrapeSecond<'a> {
    /// How long after the first requests were due.
    pub elapsed: Nanos,
    /// For how long the time has been over, in which requests were due.
    pub over: Nanos,
    /// What came of each page so far; percentiles are told at the end.
    pub pages: &'a [ScrapeSummary],
    /// For how long the request for each has waited that is in flight.
    pub waiting: &'a [Option<Nanos>],
}

/// Scrapes pages for a time, or once, and tells of it. A page that is away is requested again when it is due, as long as the time
/// lasts. Requests that are in flight at its end are waited for, up to their time-out.
///
/// # Errors
/// What [`Scraper::start`] says. A page that never came is told in its summary.
pub fn scrape(
    plans: &[ScrapePlan],
    length: Option<Nanos>,
    control: &Control,
    observer: &mut dyn ScrapeObserver,
) -> Result<Vec<ScrapeSummary>, Error> {
    let mut servers: Vec<Server> = plans.iter().map(Server::of).collect();
    let begin = Clock.now() + LEAD;
    // One request each, where no time is given.
    let end = begin + length.unwrap_or(Nanos(1));
    let mut scraper = Scraper::start(plans, begin, Some(end))?;
    let mut watched = Watched {
        plans,
        summaries: plans.iter().map(ScrapeSummary::new).collect(),
        observer,
        begin,
        end,
    };
    let mut next = begin + SECOND;
    while !control.is_stopping() && !scraper.is_finished() {
        thread::sleep(POLL_INTERVAL);
        // One request alone is sent however late that is.
        if length.is_some() && Clock.now() >= end {
            // Else those that are late by then would be sent as well.
            scraper.send_no_more();
        }
        watched.add(&scraper.take());
        if Clock.now() >= next {
            watched.second(&scraper.waiting());
            // What was missed is not made up for.
            while next <= Clock.now() {
                next = next + SECOND;
            }
        }
    }
    watched.add(&scraper.stop());
    watched.second(&vec![None; plans.len()]);
    let end = end.min(Clock.now()).max(begin);
    let mut summaries = watched.summaries;
    for summary in &mut summaries {
        summary.finish(begin, begin, end);
    }
    share_cpu(&mut summaries, &mut servers);
    Ok(summaries)
}

/// What has come so far.
struct Watched<'a> {
    plans: &'a [ScrapePlan],
    summaries: Vec<ScrapeSummary>,
    observer: &'a mut dyn ScrapeObserver,
    begin: Time,
    end: Time,
}

impl Watched<'_> {
    fn add(&mut self, scrapes: &[Scrape]) {
        for scrape in scrapes {
            let summary = self.summaries.get_mut(scrape.plan);
            if let (Some(summary), Some(plan)) = (summary, self.plans.get(scrape.plan)) {
                summary.add(scrape);
                self.observer.scraped(plan, scrape);
            }
        }
    }

    fn second(&mut self, waiting: &[Option<Nanos>]) {
        let now = Clock.now();
        self.observer.second(&ScrapeSecond {
            elapsed: now.since(self.begin),
            over: now.since(self.end),
            pages: &self.summaries,
            waiting,
        });
    }
}

/// What each server has used, by its requests: pages of one server share it.
fn share_cpu(summaries: &mut [ScrapeSummary], servers: &mut [Server]) {
    let mut requests = BTreeMap::new();
    for (summary, server) in summaries.iter().zip(&*servers) {
        *requests.entry(server.tree.root()).or_insert(0) += summary.requests();
    }
    for (summary, server) in summaries.iter_mut().zip(servers) {
        let of_server = requests
            .get(&server.tree.root())
            .copied()
            .unwrap_or_default();
        summary.server_cpu_ns = server
            .cpu_since()
            .and_then(|cpu| cpu.0.checked_div(of_server));
    }
}

/// The process that serves a page, where it runs here.
struct Server {
    tree: ProcessTree,
    before: Option<Nanos>,
}

impl Server {
    fn of(plan: &ScrapePlan) -> Self {
        let mut tree = ProcessTree::of(pid_of(plan));
        let before = tree.read().map(|used| used.cpu);
        Self { tree, before }
    }

    /// What it has used since.
    fn cpu_since(&mut self) -> Option<Nanos> {
        let used = self.tree.read()?.cpu;
        Some(used.saturating_sub(self.before?))
    }
}

/// The one process of this machine that listens where a page is.
pub(crate) fn pid_of(plan: &ScrapePlan) -> Option<u32> {
    let uri: Uri = plan.url.as_str().parse().ok()?;
    let host = uri.host()?.trim_matches(['[', ']']);
    let port = uri
        .port_u16()
        .unwrap_or(if uri.scheme_str() == Some("https") {
            443
        } else {
            80
        });
    let pids = sockets::listening_on(&sockets::addresses_here(host, port));
    match pids.as_slice() {
        [pid] => Some(*pid),
        _ => None,
    }
}
