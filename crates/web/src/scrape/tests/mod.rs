//! Selected series and their rates; servers that behave, and servers that do not.

mod hostile;
mod selection;
mod server;

use std::time::{Duration, Instant};

use measure::{Clock, Nanos};

use self::server::{Answer, Server};
use super::{RequestTimes, Scrape, ScrapeObserver, ScrapePlan, ScrapeSecond, ScrapeSummary, Scraper};

/// A plan for a page that is requested every 20 ms.
fn plan(server: &Server, select: &[&str]) -> ScrapePlan {
    ScrapePlan {
        jitter: None,
        name: "page".into(),
        url: server.url().parse().unwrap(),
        every: Nanos::from_millis(20),
        timeout: Nanos::from_millis(10_000),
        select: select.iter().map(|text| text.parse().unwrap()).collect(),
        most_series: 1_000,
        gzip: true,
        user: None,
        password: None,
        ca: None,
    }
}

/// Notes what it is told.
#[derive(Default)]
struct Told {
    /// Whether each request brought a page.
    pages: Vec<bool>,
    /// Seconds, in whole milliseconds since the first request was due, with the pages and failures until then.
    seconds: Vec<(u64, u64, u64)>,
}

impl ScrapeObserver for Told {
    fn scraped(&mut self, _: &ScrapePlan, scrape: &Scrape) {
        self.pages.push(scrape.result.is_ok());
    }

    fn second(&mut self, second: &ScrapeSecond<'_>) {
        let sum = |of: fn(&ScrapeSummary) -> u64| second.pages.iter().map(of).sum();
        let elapsed = second.elapsed.0 / 1_000_000;
        self.seconds.push((elapsed, sum(|it| it.completed), sum(|it| it.failed)));
    }
}

/// The first scrapes of these plans.
fn scrapes(plans: &[ScrapePlan], number: usize) -> Vec<Scrape> {
    let mut scraper = Scraper::start(plans, Clock.now() + Nanos::from_millis(30), None).unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    let mut all = Vec::new();
    while all.len() < number && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
        all.extend(scraper.take());
    }
    all.extend(scraper.stop());
    assert!(all.len() >= number, "{} of {number}", all.len());
    all
}

#[test]
fn a_counter_becomes_a_rate_and_keeps_its_connection() {
    let server = Server::start(|number| {
        Answer::page(&format!("# TYPE a_bytes counter\na_bytes_total {}\n# TYPE g gauge\ng 7\n", number * 1_000))
    });
    let all = scrapes(&[plan(&server, &["a_bytes_total", "g"])], 3);
    let first = all[0].result.as_ref().unwrap();
    assert_eq!(first.len(), 2);
    assert_eq!(first[0].rate, None, "nothing to compare with");
    let series = all[0].series(&plan(&server, &[]));
    assert!(series.iter().all(|it| it.name.name != "a_bytes_total"), "{series:?}");
    let third = all[2].result.as_ref().unwrap();
    let rate = third[0].rate.unwrap();
    let seconds = all[2].sent.since(all[1].sent).as_secs_f64();
    assert!((rate.per_second - 1_000.0 / seconds).abs() < 1e-6, "{rate:?}");
    assert_eq!(rate.unit, archive::SeriesUnit::BytesPerSecond);
    assert_eq!((third[1].value, third[1].rate), (7.0, None));
    let due = all[2].due.since(all[1].due);
    assert_eq!(due, Nanos::from_millis(20), "by the schedule, whatever came of the one before");
    assert_eq!(server.connections(), 1, "kept alive");
}

#[test]
fn several_servers_are_requested_in_the_same_instant() {
    let answer = |_| Answer::page("a 1\n");
    let servers = [Server::start(answer), Server::start(answer)];
    let plans: Vec<ScrapePlan> = servers.iter().map(|server| plan(server, &[])).collect();
    let all = scrapes(&plans, 40);
    let mut apart: Vec<Nanos> = Vec::new();
    for one in all.iter().filter(|scrape| scrape.plan == 0) {
        if let Some(other) = all.iter().find(|other| other.plan == 1 && other.due == one.due) {
            apart.push(one.sent.since(other.sent).max(other.sent.since(one.sent)));
        }
    }
    apart.sort();
    assert!(apart.len() >= 10);
    let median = apart[apart.len() / 2];
    assert!(median < Nanos::from_millis(5), "{apart:?}");
}

#[test]
fn a_late_request_counts_from_when_it_was_due_and_none_is_skipped() {
    let server = Server::start(|number| {
        if number == 1 {
            std::thread::sleep(Duration::from_millis(200));
        }
        Answer::page("a 1\n")
    });
    let all = scrapes(&[plan(&server, &[])], 6);
    let late = &all[2];
    assert!(late.sent.since(late.due) > Nanos::from_millis(100), "{late:?}");
    assert!(late.response() > late.done.since(late.sent) + Nanos::from_millis(100));
    for pair in all.windows(2) {
        assert_eq!(pair[1].due.since(pair[0].due), Nanos::from_millis(20));
    }
}

#[test]
fn a_compressed_page_is_the_same_page() {
    let text: String = (0..5_000).map(|i| format!("queue{{name=\"q-{i}\"}} {i}\n")).collect();
    let page = text.clone();
    let server = Server::start(move |_| Answer::gzip(page.as_bytes()));
    let all = scrapes(&[plan(&server, &["sum (queue)"])], 1);
    let values = all[0].result.as_ref().unwrap();
    assert_eq!(values[0].value, 12_497_500.0);
    assert_eq!(all[0].cost.page_bytes, text.len() as u64);
    assert!(all[0].cost.bytes < all[0].cost.page_bytes / 3, "{:?}", all[0].cost);
    assert_eq!(all[0].cost.series, 5_000);
}

#[test]
fn a_password_goes_to_the_server_and_nowhere_else() {
    let server = Server::start(|_| Answer::page("a 1\n"));
    let mut plan = plan(&server, &[]);
    plan.user = Some("guest".into());
    plan.password = Some(crate::Secret::new("s3cret"));
    assert!(!format!("{plan:?}").contains("s3cret"));
    scrapes(&[plan], 1);
    // guest:s3cret
    assert!(server.heard().contains("Basic Z3Vlc3Q6czNjcmV0"), "{}", server.heard());
}

#[test]
fn an_address_with_a_password_is_refused() {
    for (text, why) in [
        ("http://guest:guest@localhost/metrics", "password"),
        ("localhost:15692/metrics", "URL"),
        ("amqp://localhost", "http://"),
        ("http://", "URL"),
    ] {
        let refused = text.parse::<super::ScrapeUrl>().unwrap_err();
        assert!(refused.what.contains(why), "{text}: {refused:?}");
        assert!(!refused.what.contains("guest"));
    }
}

#[test]
fn a_size_is_the_median_of_all_pages_and_not_the_last_ones() {
    let server = Server::start(|number| match number {
        0..=3 => Answer::page("a 1\nb 2\nc 3\n"),
        _ => Answer::page("a 1\n"),
    });
    let plan = plan(&server, &[]);
    let mut summary = ScrapeSummary::new(&plan);
    let all = scrapes(std::slice::from_ref(&plan), 5);
    all.iter().take(5).for_each(|scrape| summary.add(scrape));
    summary.finish(all[0].due, all[0].due, all[4].due);
    assert_eq!((summary.page_bytes, summary.page_bytes_max), (12, 12));
    assert_eq!((summary.series, summary.series_max), (3, 3));
    assert_eq!((summary.bytes, summary.received_bytes), (12, 4 * 12 + 4));
}

#[test]
fn one_request_is_due_in_each_interval() {
    let every = Nanos::from_millis(5_000);
    for jitter in [None, Some(1), Some(u64::MAX)] {
        let times = RequestTimes { every, jitter };
        for number in 0..1_000 {
            let due = times.due(number);
            assert_eq!(due.0 / every.0, number, "{jitter:?}");
            assert_eq!(times.before(due), number);
            assert_eq!(times.before(due + Nanos(1)), number + 1);
        }
    }
    // Each part of the interval has its share, no request comes early, and another seed has other moments.
    let times = |seed| RequestTimes { every, jitter: Some(seed) };
    let early = (0..1_000).filter(|it| times(7).due(*it).0 % every.0 < every.0 / 4);
    assert!((200..300).contains(&early.count()));
    for number in 0..1_000 {
        let gap = times(7).due(number + 1).0 - times(7).due(number).0;
        let percent = gap * 100 / every.0;
        assert!((84..=115).contains(&percent), "{number}: {gap}");
    }
    assert_ne!(times(7).due(3), times(8).due(3));
}
