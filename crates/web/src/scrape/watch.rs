//! Scrapes on their own, without a load: what each page costs its server.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use linux::{ProcessTree, sockets};
use load::Control;
use measure::{Clock, Nanos, Problem, Time};
use ureq::http::Uri;

use super::{Scrape, ScrapePlan, ScrapeSummary, Scraper};

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
    /// Summaries so far, by page; percentiles are told at the end.
    pub pages: &'a [ScrapeSummary],
    /// For how long the request for each has waited that is in flight.
    pub waiting: &'a [Option<Nanos>],
}

/// Scrapes pages for a time, or once, and tells of it. A page that is away is requested again when it is due, as long
/// as the time lasts. Requests that are in flight at its end are waited for, up to their time-out.
/// Errors: what [`Scraper::start`] says. A page that never came is told in its summary.
pub fn scrape(
    plans: &[ScrapePlan],
    length: Option<Nanos>,
    control: &Control,
    observer: &mut dyn ScrapeObserver,
) -> Result<Vec<ScrapeSummary>, Problem> {
    let servers: Vec<Server> = plans.iter().map(Server::of).collect();
    let begin = Clock.now() + LEAD;
    // One request each, where no time is given.
    let end = begin + length.unwrap_or(Nanos(1));
    let mut scraper = Scraper::start(plans, begin, Some(end))?;
    let mut watched =
        Watched { plans, summaries: plans.iter().map(ScrapeSummary::new).collect(), servers, observer, begin, end };
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
    let Watched { mut summaries, servers, .. } = watched;
    for summary in &mut summaries {
        summary.finish(begin, begin, end);
    }
    share_cpu(&mut summaries, &servers);
    Ok(summaries)
}

/// Summaries so far.
struct Watched<'a> {
    plans: &'a [ScrapePlan],
    summaries: Vec<ScrapeSummary>,
    servers: Vec<Server>,
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
        self.servers.iter_mut().for_each(Server::look);
        let now = Clock.now();
        self.observer.second(&ScrapeSecond {
            elapsed: now.since(self.begin),
            over: now.since(self.end),
            pages: &self.summaries,
            waiting,
        });
    }
}

/// Shares out each server's CPU, by its requests: pages of one server share it.
fn share_cpu(summaries: &mut [ScrapeSummary], servers: &[Server]) {
    let mut requests = BTreeMap::new();
    for (summary, server) in summaries.iter().zip(servers) {
        *requests.entry(server.tree.root()).or_insert(0) += summary.requests();
    }
    for (summary, server) in summaries.iter_mut().zip(servers) {
        let of_server = requests.get(&server.tree.root()).copied().unwrap_or_default();
        summary.server_cpu_ns = server.used().and_then(|cpu| cpu.0.checked_div(of_server));
    }
}

/// The process that serves a page, where it runs here; once it has gone, the one that listens in its place.
struct Server {
    /// Where it listens on this machine; none where it is another machine's.
    addresses: Vec<SocketAddr>,
    tree: ProcessTree,
    /// CPU time at the first look, and at the last.
    looks: Option<(Nanos, Nanos)>,
}

impl Server {
    fn of(plan: &ScrapePlan) -> Self {
        let addresses = addresses(plan);
        let mut server = Self { tree: ProcessTree::of(listener(&addresses)), addresses, looks: None };
        server.read();
        server
    }

    /// Looks at it once more. What a process used between the last look and its end is not seen.
    fn look(&mut self) {
        if !self.read()
            && let Some(pid) = listener(&self.addresses)
        {
            self.tree.follow(pid);
            self.read();
        }
    }

    /// Whether there is such a process.
    fn read(&mut self) -> bool {
        let Some(used) = self.tree.read() else { return false };
        let (first, _) = self.looks.unwrap_or((used.cpu, used.cpu));
        self.looks = Some((first, used.cpu));
        true
    }

    /// CPU between the looks; unknown where there never was such a process here.
    fn used(&self) -> Option<Nanos> {
        let (first, last) = self.looks?;
        Some(last.saturating_sub(first))
    }
}

/// The one process of this machine that listens where a page is.
pub fn pid_of(plan: &ScrapePlan) -> Option<u32> {
    listener(&addresses(plan))
}

/// Where a page is, on this machine.
fn addresses(plan: &ScrapePlan) -> Vec<SocketAddr> {
    let uri = plan.url.as_str().parse::<Uri>().ok();
    let at = |uri: &Uri| {
        let host = uri.host()?.trim_matches(['[', ']']);
        let usual = if uri.scheme_str() == Some("https") { 443 } else { 80 };
        Some(sockets::addresses_here(host, uri.port_u16().unwrap_or(usual)))
    };
    uri.as_ref().and_then(at).unwrap_or_default()
}

fn listener(addresses: &[SocketAddr]) -> Option<u32> {
    if addresses.is_empty() {
        return None;
    }
    match sockets::listening_on(addresses).as_slice() {
        [pid] => Some(*pid),
        _ => None,
    }
}
