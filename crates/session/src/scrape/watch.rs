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
/// The first requests are due so long after the start, when all threads wait for it.
const LEAD: Nanos = Nanos::from_millis(50);

/// Scrapes pages for a time, or once, and tells each scrape. It ends early where the first scrape of a page fails: then
/// there is nothing to measure.
///
/// # Errors
/// Why the first scrape of a page failed; what [`Scraper::start`] says.
pub fn scrape(
    plans: &[ScrapePlan],
    length: Option<Nanos>,
    control: &Control,
    mut tell: impl FnMut(&ScrapePlan, &Scrape),
) -> Result<Vec<ScrapeSummary>, Error> {
    let mut summaries: Vec<ScrapeSummary> = plans.iter().map(ScrapeSummary::new).collect();
    let mut servers: Vec<Server> = plans.iter().map(Server::of).collect();
    let begin = Clock.now() + LEAD;
    // One request each, where no time is given.
    let end = begin + length.unwrap_or(Nanos(1));
    let mut scraper = Scraper::start(plans, begin, Some(end))?;
    let mut add = |scrapes: Vec<Scrape>| {
        for scrape in &scrapes {
            let (Some(summary), Some(plan)) =
                (summaries.get_mut(scrape.plan), plans.get(scrape.plan))
            else {
                continue;
            };
            tell(plan, scrape);
            summary.add(scrape);
            if let Some(problem) = summary.problem.clone().filter(|_| summary.completed == 0) {
                return Err(Error::Failed(problem));
            }
        }
        Ok(())
    };
    let is_over = |now: Time| length.is_some() && now >= end;
    while !control.is_stopping() && !scraper.is_finished() && !is_over(Clock.now()) {
        thread::sleep(POLL_INTERVAL);
        add(scraper.take())?;
    }
    add(scraper.stop())?;
    let end = end.min(Clock.now()).max(begin);
    for summary in &mut summaries {
        summary.finish(begin, begin, end);
    }
    share_cpu(&mut summaries, &mut servers);
    Ok(summaries)
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
fn pid_of(plan: &ScrapePlan) -> Option<u32> {
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
