//! Pages of metrics that are requested while a load runs, on their way into the run.

use std::collections::BTreeMap;

use archive::{FaultOutcome, Finding, PageCpu, Warning};
use compare::paired;
use linux::processes;
use measure::{Clock, Nanos, Phase, Time};

use super::companion::{Collected, Companion, LoadEnd, Second, SeriesRow, Unread, fault_of_node};
use crate::usage::Reading;
use web::scrape::{Scrape, ScrapePlan, ScrapeSummary, Scraper, pid_of};

/// Longest time after a request's due time until the phase before it is known.
const HEARD_OF: Nanos = Nanos::from_millis(10_000);

#[derive(Debug, Default)]
pub(super) struct Scraping {
    plans: Vec<ScrapePlan>,
    scraper: Option<Scraper>,
    summaries: Vec<ScrapeSummary>,
    begin: Time,
    /// Begin and end of the measured phase so far: requests due in it count.
    measured: (Option<Time>, Option<Time>),
    /// Requests that may be of the measured phase: news of a phase comes later than a page that is due with it.
    undecided: Vec<Scrape>,
    told_failure: Vec<usize>,
    /// Pages of this machine that another process than the broker serves, its number and its name.
    foreign: Vec<(usize, u32, String)>,
    /// When the last request of a page that brought none was sent, and when that was known.
    last_failures: BTreeMap<usize, (Time, Time)>,
    /// Pages that a node of the broker serves, and its number.
    nodes: BTreeMap<usize, usize>,
    /// Number of the only page that the run's broker serves: the costs of several cannot be separated.
    of_broker: Option<usize>,
    /// When its pages were requested and had been read, in the measured phase.
    flights: Vec<Flight>,
    /// CPU time of the broker in that phase.
    used: Vec<UsedCpu>,
}

/// Generations that are looked at above a process.
const GENERATIONS: usize = 64;

/// Whether a process is one of these, or descends from one.
fn descends(pid: u32, from: &[u32]) -> bool {
    let parent = |pid: &u32| processes::stat(*pid).map(|it| it.parent);
    std::iter::successors(Some(pid), parent).take(GENERATIONS).any(|it| from.contains(&it))
}

impl Scraping {
    pub(super) fn of(plans: Vec<ScrapePlan>) -> Self {
        Self { summaries: plans.iter().map(ScrapeSummary::new).collect(), plans, ..Self::default() }
    }

    /// Sets the broker's processes, with descendants; `seed` draws when a page is requested whose cost can be told.
    pub(super) fn served_by(mut self, broker: &[u32], seed: u64) -> Self {
        if broker.is_empty() {
            return self;
        }
        for (number, plan) in self.plans.iter().enumerate() {
            let Some(pid) = pid_of(plan) else { continue };
            if let Some(node) = broker.iter().position(|it| descends(pid, &[*it])) {
                self.nodes.insert(number, node);
                continue;
            }
            let name = processes::stat(pid).map_or_else(String::new, |it| it.command);
            self.foreign.push((number, pid, name));
        }
        self.of_broker = self.nodes.keys().next().copied().filter(|_| self.nodes.len() == 1);
        if let Some(plan) = self.of_broker.and_then(|it| self.plans.get_mut(it)) {
            plan.jitter = Some(seed);
            self.summaries = self.plans.iter().map(ScrapeSummary::new).collect();
        }
        self
    }

    /// Counts the usage between the beginning and end of an interval of the measured phase.
    fn used(&mut self, before: &Reading, after: &Reading) {
        let (Some(_), Some(from), Some(to)) = (self.of_broker, before.broker, after.broker) else { return };
        self.used.push(UsedCpu { from: before.at, to: after.at, cpu: to.cpu.saturating_sub(from.cpu) });
    }

    fn is_measured(&self, due: Time) -> bool {
        let (begin, end) = self.measured;
        begin.is_some_and(|begin| due >= begin) && end.is_none_or(|end| due < end)
    }

    fn all_of(&mut self, scrapes: Vec<Scrape>) -> Collected {
        let mut scraped = Collected::default();
        for scrape in &scrapes {
            self.add_rows(scrape, &mut scraped);
            self.tell_failure(scrape, &mut scraped);
        }
        self.undecided.extend(scrapes);
        scraped
    }

    fn add_rows(&self, scrape: &Scrape, scraped: &mut Collected) {
        let Some(plan) = self.plans.get(scrape.plan) else { return };
        let (mut rows, mut told): (Vec<SeriesRow>, _) = (Vec::new(), Vec::new());
        for series in scrape.series(plan) {
            let (since, length) = (series.since, series.until.since(series.since));
            let value = (series.name, series.value);
            told.push(value.clone());
            match rows.iter_mut().find(|row| (row.since, row.length) == (since, length)) {
                Some(row) => row.values.push(value),
                None => rows.push(SeriesRow { since, length, values: vec![value] }),
            }
        }
        scraped.rows.append(&mut rows);
        scraped.told.push(told);
    }

    /// Reports once per page why a request failed, when that is known.
    fn tell_failure(&mut self, scrape: &Scrape, scraped: &mut Collected) {
        let Some(problem) = scrape.result.as_ref().err().filter(|_| !scrape.is_unanswered) else { return };
        if let Some(plan) = self.plans.get(scrape.plan) {
            scraped.failed.push(plan.name.clone());
        }
        if !self.told_failure.contains(&scrape.plan) {
            self.told_failure.push(scrape.plan);
            scraped.unread.push(Unread {
                asked: scrape.sent,
                at: scrape.done,
                node: self.nodes.get(&scrape.plan).copied(),
                what: "a scrape failed".to_owned(),
                otherwise: format!("a scrape failed: {}", problem.sentence()),
            });
        }
    }

    /// The fault of the run itself that explains the last failure of a page.
    fn own_fault(&self, plan: usize, origin: Time, faults: &[FaultOutcome]) -> Option<String> {
        let (sent, done) = self.last_failures.get(&plan)?;
        let [from, until] = [sent, done].map(|at| at.since(origin).as_secs_f64());
        Some(format!("the run's own {}", fault_of_node(faults, *self.nodes.get(&plan)?, from, until)?.name))
    }

    /// Counts requests that are known to have been due in the measured phase; at the end, all of them.
    fn decide(&mut self, now: Option<Time>) {
        let is_over = self.measured.1.is_some();
        let is_known = |scrape: &Scrape| is_over || now.is_none_or(|now| now.since(scrape.due) >= HEARD_OF);
        let known: Vec<Scrape> = self.undecided.extract_if(.., |scrape| is_known(scrape)).collect();
        for scrape in &known {
            let is_measured = self.is_measured(scrape.due);
            let Some(summary) = self.summaries.get_mut(scrape.plan).filter(|_| is_measured) else { continue };
            summary.add(scrape);
            if scrape.result.is_err() {
                self.last_failures.insert(scrape.plan, (scrape.sent, scrape.done));
            }
            if self.of_broker == Some(scrape.plan) {
                // One that brought no page has cost something as well.
                self.flights.push(Flight { sent: scrape.sent, done: scrape.done });
            }
        }
    }
}

/// The warning, where pages failed for a fault of the run itself with that as the reason.
fn explained(mut warning: Warning, own: Option<&str>) -> Warning {
    if let (Finding::ScrapesFailed { last_failure, .. }, Some(own)) = (&mut warning.finding, own) {
        own.clone_into(last_failure);
    }
    warning
}

impl Companion for Scraping {
    fn start(&mut self, at: Time) -> Collected {
        let foreign = self.foreign.iter().filter_map(|(number, pid, name)| {
            let page = &self.plans.get(*number)?.name;
            Some(format!("page {page} is served by process {pid} ({name}), not by the broker of this run"))
        });
        let mut scraped = Collected { notes: foreign.collect(), ..Collected::default() };
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

    fn phase(&mut self, phase: Phase, at: Time) {
        match phase {
            Phase::Warmup => {}
            Phase::Measure => self.measured.0 = Some(at),
            Phase::Drain => self.measured.1 = Some(at),
        }
    }

    fn second(&mut self, second: &Second) -> Collected {
        if second.phase == Phase::Measure {
            self.used(&second.before, &second.after);
        }
        let scrapes = self.scraper.as_mut().map(Scraper::take);
        let scraped = self.all_of(scrapes.unwrap_or_default());
        self.decide(Some(Clock.now()));
        scraped
    }

    /// Ends the requests, and reports their cost and the run's missing pages.
    fn finish(&mut self, run: &mut LoadEnd<'_>) -> Collected {
        let Some(scraper) = self.scraper.take() else { return Collected::default() };
        let (begin, end) = (self.measured.0, self.measured.1.unwrap_or_else(|| Clock.now()));
        let mut scraped = self.all_of(scraper.stop());
        self.decide(None);
        let (origin, faults) = (run.record.origin, &run.summary.faults);
        let pages = &mut run.summary.scrapes;
        for (plan, mut summary) in std::mem::take(&mut self.summaries).into_iter().enumerate() {
            summary.finish(self.begin, begin.unwrap_or(end), end);
            scraped.notes.push(summary.sentence());
            let own = self.own_fault(plan, origin, faults);
            scraped.warnings.extend(summary.warnings().into_iter().map(|it| explained(it, own.as_deref())));
            pages.push(summary.page());
        }
        for (number, _, name) in std::mem::take(&mut self.foreign) {
            if let Some(page) = pages.get_mut(number) {
                page.foreign_server = Some(name);
            }
        }
        if let Some(page) = self.of_broker.and_then(|plan| pages.get_mut(plan)) {
            page.is_of_broker = true;
            page.broker_cpu = page_cpu(&self.used, &self.flights);
        }
        scraped
    }
}

/// With fewer pages the interval holds the cost less often than stated where the broker has equally regular work of its
/// own: the requests did not come to each part of an interval
/// (`one_of_the_fewest_pages_holds_its_cost_as_often_as_it_says`).
const LEAST_PAGES: usize = 12;
/// Blocks that are left out, one at a time, at most.
const MOST_BLOCKS: usize = 20;
/// Where a page is being made for a larger share of the time, nothing is left to compare it with.
const MOST_BUSY: f64 = 0.9;
/// A share of the pages' variation that lengths do not explain; below it every interval is like the other.
const LEAST_VARIATION: f64 = 1e-3;
const CONFIDENCE: f64 = 0.95;

#[derive(Clone, Copy, Debug)]
struct UsedCpu {
    from: Time,
    to: Time,
    cpu: Nanos,
}

#[derive(Clone, Copy, Debug)]
struct Flight {
    sent: Time,
    done: Time,
}

/// CPU time that a page costs the broker: `b` of `CPU time = a × length + b × pages`, fitted by least squares over all
/// intervals, among which a page is shared out by time. They depend on each other, so that its interval comes from
/// leaving out a block of them at a time (the jackknife). `None` where it is not identifiable: too few pages, one in
/// flight all the time, equally many in each interval, or an estimate below 0. Both slices are in order of time.
fn page_cpu(used: &[UsedCpu], flights: &[Flight]) -> Option<PageCpu> {
    let (rows, busy) = rows(used, flights);
    let pages = flights.len();
    let length: f64 = rows.iter().map(|row| row.seconds).sum();
    if pages < LEAST_PAGES || busy > MOST_BUSY * length {
        return None;
    }
    let blocks = pages.min(MOST_BLOCKS);
    if rows.len() < 2 * blocks {
        return None;
    }
    let all = Sums::of(&rows);
    let whole = all.slope()?;
    let edge = |block: usize| block * rows.len() / blocks;
    let count = blocks as f64;
    let without = (0..blocks).map(|block| {
        let left_out = rows.get(edge(block)..edge(block + 1)).unwrap_or_default();
        let slope = all.less(&Sums::of(left_out)).slope()?;
        Some(count * whole - (count - 1.0) * slope)
    });
    let values = without.collect::<Option<Vec<f64>>>()?;
    let (low, high) = paired(&values)?.interval(CONFIDENCE);
    (high >= 0.0).then_some(PageCpu { seconds: whole, interval: (low, high) })
}

struct Row {
    seconds: f64,
    pages: f64,
    cpu: f64,
}

/// The intervals, and the seconds in which a page was in flight.
fn rows(used: &[UsedCpu], flights: &[Flight]) -> (Vec<Row>, f64) {
    let (mut rest, mut busy) = (flights, 0.0);
    let rows = used.iter().map(|of| {
        while let Some((_, others)) = rest.split_first().filter(|it| it.0.done <= of.from) {
            rest = others;
        }
        let mut pages = 0.0;
        for flight in rest.iter().take_while(|it| it.sent < of.to) {
            let both = flight.done.min(of.to).since(flight.sent.max(of.from));
            let whole = flight.done.since(flight.sent).max(Nanos(1));
            pages += both.as_secs_f64() / whole.as_secs_f64();
            busy += both.as_secs_f64();
        }
        Row { seconds: of.to.since(of.from).as_secs_f64(), pages, cpu: of.cpu.as_secs_f64() }
    });
    (rows.collect(), busy)
}

#[derive(Default)]
struct Sums {
    lengths: f64,
    mixed: f64,
    pages: f64,
    of_lengths: f64,
    of_pages: f64,
}

impl Sums {
    fn of(rows: &[Row]) -> Self {
        let mut sums = Self::default();
        for row in rows {
            sums.lengths += row.seconds * row.seconds;
            sums.mixed += row.seconds * row.pages;
            sums.pages += row.pages * row.pages;
            sums.of_lengths += row.seconds * row.cpu;
            sums.of_pages += row.pages * row.cpu;
        }
        sums
    }

    fn less(&self, other: &Self) -> Self {
        Self {
            lengths: self.lengths - other.lengths,
            mixed: self.mixed - other.mixed,
            pages: self.pages - other.pages,
            of_lengths: self.of_lengths - other.of_lengths,
            of_pages: self.of_pages - other.of_pages,
        }
    }

    fn slope(&self) -> Option<f64> {
        let free = self.lengths * self.pages - self.mixed * self.mixed;
        let is_told = free > LEAST_VARIATION * self.lengths * self.pages;
        is_told.then(|| (self.lengths * self.of_pages - self.mixed * self.of_lengths) / free)
    }
}

#[cfg(test)]
mod tests {
    use archive::{SeriesName, SeriesUnit};
    use web::scrape::{PageCost, SelectedRate, SelectedValue};

    use super::*;

    /// One page every second, from 0 on.
    fn scraping() -> Scraping {
        Scraping::of(vec![ScrapePlan {
            jitter: None,
            name: "page".into(),
            url: "http://127.0.0.1:1/metrics".parse().unwrap(),
            every: Nanos::from_millis(1_000),
            timeout: Nanos::from_millis(1_000),
            select: Vec::new(),
            most_series: 1,
            gzip: false,
            user: None,
            password: None,
            ca: None,
        }])
    }

    #[test]
    fn the_first_failure_of_a_page_is_told_when_it_happens() {
        let mut scraping = scraping();
        let told = scraping.all_of(vec![page(second(0)), failed(1)]).unread;
        let told: Vec<&str> = told.iter().map(|it| it.otherwise.as_str()).collect();
        assert_eq!(told, ["a scrape failed: refused; start it"]);
        let told = scraping.all_of(vec![failed(2)]).unread;
        assert!(told.is_empty(), "{told:?}");
    }

    #[test]
    fn pages_that_failed_for_a_kill_of_the_run_say_so() {
        let mut scraping = scraping();
        scraping.nodes.insert(0, 1);
        scraping.phase(Phase::Measure, second(1));
        scraping.all_of(vec![failed(7)]);
        scraping.decide(None);
        let told = |node, t: f64| {
            let kill =
                FaultOutcome { kind: "kill".into(), node: Some(node), t, for_good: true, ..FaultOutcome::default() };
            let own = scraping.own_fault(0, second(1), &[kill]);
            let found = scraping.summaries[0].warnings().into_iter().map(|it| explained(it, own.as_deref()).finding);
            let reasons = found.filter_map(|it| match it {
                Finding::ScrapesFailed { last_failure, .. } => Some(last_failure),
                _ => None,
            });
            reasons.collect::<Vec<_>>()
        };
        assert_eq!(told(1, 5.0), ["the run's own kill of node 1"]);
        assert_eq!(told(1, 6.1), ["refused; start it"], "before the kill");
        assert_eq!(told(0, 5.0), ["refused; start it"]);
    }

    #[test]
    fn a_child_of_the_broker_serves_the_brokers_page() {
        let child = testkit::ChildGuard::idle();
        let own = std::process::id();
        let (of_us, of_it, of_none) =
            (descends(child.id(), &[u32::MAX, own]), descends(own, &[child.id()]), descends(u32::MAX, &[own]));
        assert!(of_us && descends(own, &[own]));
        assert!(!of_it && !of_none);
    }

    fn second(second: u64) -> Time {
        Time(second * 1_000_000_000)
    }

    fn page(due: Time) -> Scrape {
        let done = due + Nanos::from_millis(2);
        Scrape {
            plan: 0,
            due,
            sent: due,
            answered: Some(done),
            done,
            cost: PageCost::default(),
            result: Ok(Vec::new()),
            is_unanswered: false,
        }
    }

    fn failed(due: u64) -> Scrape {
        Scrape { result: Err(measure::Problem::new("refused", "", "start it")), ..page(second(due)) }
    }

    /// The measured phase lasts from 2 to 5 s; news of it comes before or after the page that was due at that instant.
    #[test]
    fn pages_at_the_boundaries_count_as_they_were_due_whatever_is_heard_of_first() {
        for (measure_after, drain_after) in [(0, 0), (1, 0), (0, 1), (1, 1), (2, 2)] {
            let mut scraping = scraping();
            for due in 0..7 {
                for (phase, at, after) in [(Phase::Measure, 2, measure_after), (Phase::Drain, 5, drain_after)] {
                    if due == at + after {
                        scraping.phase(phase, second(at));
                    }
                }
                assert!(scraping.all_of(vec![page(second(due))]).notes.is_empty());
                let now = second(due) + Nanos::from_millis(3);
                scraping.decide(Some(now));
            }
            for (phase, at) in [(Phase::Measure, 2), (Phase::Drain, 5)] {
                scraping.phase(phase, second(at));
            }
            scraping.decide(None);
            let mut summary = scraping.summaries.remove(0);
            summary.finish(second(0), second(2), second(5));
            assert_eq!((summary.completed, summary.not_sent), (3, 0), "{measure_after} {drain_after}");
        }
    }

    /// A page's gauges and rates are of different times, and so in two rows; a listener takes one alone for all.
    #[test]
    fn gauges_and_rates_of_a_page_are_told_together() {
        let mut page = page(second(3));
        let value = |name: &str, rate| SelectedValue {
            shown: name.to_owned(),
            name: SeriesName::new("page", name, SeriesUnit::Count),
            value: 7.0,
            rate,
            is_counter: rate.is_some(),
        };
        let rate = SelectedRate { since: second(2), per_second: 10.0, unit: SeriesUnit::PerSecond };
        page.result = Ok(vec![value("jobs", Some(rate)), value("depth", None)]);
        let scraped = scraping().all_of(vec![page.clone(), page]);
        assert_eq!((scraped.rows.len(), scraped.told.len()), (4, 2));
        for told in &scraped.told {
            let names: Vec<&str> = told.iter().map(|(series, _)| &*series.name).collect();
            let costs = ["scrape time", "size of the page", "series of the page"];
            assert_eq!(names, [&costs[..], &["jobs", "depth"]].concat());
        }
    }

    #[test]
    fn a_long_run_keeps_few_undecided() {
        let mut scraping = scraping();
        scraping.phase(Phase::Measure, second(0));
        for due in 0..1_000 {
            let _ = scraping.all_of(vec![page(second(due))]);
            scraping.decide(Some(second(due)));
            assert!(scraping.undecided.len() <= 11, "{}", scraping.undecided.len());
        }
    }

    fn at(ms: u64) -> Time {
        Time(ms * 1_000_000)
    }

    /// Pages in flight from `from` to `to`, each by the part of its time that lies there.
    fn in_flight(flights: &[Flight], from: Time, to: Time) -> f64 {
        let shares = flights.iter().map(|it| {
            let both = it.done.min(to).since(it.sent.max(from)).as_secs_f64();
            both / it.done.since(it.sent).as_secs_f64()
        });
        shares.sum()
    }

    /// A page every so often that takes so long and costs so much, in two minutes with 0.8 ± 0.1 other cores.
    fn scene(every: u64, takes: u64, cost: f64) -> (Vec<UsedCpu>, Vec<Flight>) {
        let pages = (1..).map(|page| page * every + 300);
        let flights = pages.map(|sent| Flight { sent: at(sent), done: at(sent + takes) });
        let flights: Vec<_> = flights.take_while(|it| it.done <= at(120_000)).collect();
        let mut state = 7_u64;
        let noise = |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 40) as f64 / (1_u64 << 24) as f64 * 0.2 - 0.1
        };
        (used(120, &flights, cost, noise), flights)
    }

    /// CPU of each second: 0.8 cores, what others do, and what pages cost.
    fn used(seconds: u64, flights: &[Flight], cost: f64, mut others: impl FnMut(u64) -> f64) -> Vec<UsedCpu> {
        let used = (0..seconds).map(|second| {
            let (from, to) = (at(second * 1_000), at((second + 1) * 1_000));
            let cpu = 0.8 + others(second) + cost * in_flight(flights, from, to);
            UsedCpu { from, to, cpu: Nanos((cpu * 1e9) as u64) }
        });
        used.collect()
    }

    #[test]
    fn a_known_cost_is_found_again_and_what_cannot_be_told_is_not() {
        for (takes, cost) in [(1_500, 1.9), (200, 0.3), (1_500, 0.0)] {
            let (used, flights) = scene(5_000, takes, cost);
            let found = page_cpu(&used, &flights).expect("told");
            let (low, high) = found.interval;
            assert!(low < cost && cost < high, "{cost}: {found:?}");
            assert!((low > 0.0) == (cost > 0.0) && high - low < 0.3, "{cost}: {found:?}");
            assert!((found.seconds - cost).abs() < 0.1, "{cost}: {found:?}");
        }
        // One page behind the other.
        let (used, flights) = scene(5_000, 5_000, 1.0);
        assert_eq!(page_cpu(&used, &flights), None);
        // A page in each second.
        let (used, flights) = scene(1_000, 100, 0.1);
        assert_eq!(page_cpu(&used, &flights), None);
        // Few pages.
        let (used, flights) = scene(5_000, 1_500, 1.0);
        assert_eq!(page_cpu(&used, &flights[..11]), None);
        assert_eq!(page_cpu(&used[..9], &flights), None);
        assert_eq!(page_cpu(&[], &[]), None);
    }

    /// Estimate for `pages` pages of 40 ms, while other work of the broker comes every five seconds as they do.
    fn beside_work(pages: u64, cost: f64, due: &dyn Fn(u64) -> u64) -> Option<PageCpu> {
        let flights = (0..pages).map(|number| Flight { sent: at(due(number)), done: at(due(number) + 40) });
        let flights: Vec<_> = flights.collect();
        let others = |second: u64| {
            let work = if second.is_multiple_of(5) { 0.135 } else { 0.0 };
            0.01 * (second * 7 % 5) as f64 + work
        };
        page_cpu(&used(pages * 5 + 1, &flights, cost, others), &flights)
    }

    #[test]
    fn work_with_a_period_of_its_own_is_not_taken_for_the_pages() {
        let regular = beside_work(24, 0.0, &|number| number * 5_000 + 100).expect("told");
        assert!(regular.interval.0 > 0.1, "what jitter is for: {regular:?}");
        for pages in [24, LEAST_PAGES as u64] {
            // In how many of 40 the interval of a page without cost excludes zero, and that of a cost holds it.
            let (mut claimed, mut held) = (0, 0);
            for seed in 0..40 {
                let times = web::scrape::RequestTimes { every: Nanos::from_millis(5_000), jitter: Some(seed) };
                let due = |number| times.due(number).0 / 1_000_000;
                claimed += u32::from(beside_work(pages, 0.0, &due).is_some_and(|it| it.interval.0 > 0.0));
                let (low, high) = beside_work(pages, 0.3, &due).expect("told").interval;
                held += u32::from(low < 0.3 && 0.3 < high);
            }
            assert!(claimed <= 2 && held >= 38, "{pages} pages: {claimed} {held} of 40");
        }
    }
}
