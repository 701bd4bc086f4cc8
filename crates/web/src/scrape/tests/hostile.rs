//! Servers that do not behave: each is a problem with cause and remedy, in time.

use std::time::{Duration, Instant};

use measure::{Nanos, Problem};

use super::server::{Answer, Server, compressed};
use super::{ScrapePlan, ScrapeSummary, Told, plan, scrapes};

/// A plan for a page that may take this long.
fn within(server: &Server, ms: u64) -> ScrapePlan {
    ScrapePlan { timeout: Nanos::from_millis(ms), ..plan(server, &["a"]) }
}

/// Summaries of all scrapes of so many milliseconds, or of one each.
fn summaries(plans: &[ScrapePlan], ms: Option<u64>, told: &mut Told) -> Vec<ScrapeSummary> {
    let control = load::Control::new();
    crate::scrape::scrape(plans, ms.map(Nanos::from_millis), &control, told).unwrap()
}

/// The problem with a page that may take half a second.
fn problem(server: &Server) -> Problem {
    let begin = Instant::now();
    let all = scrapes(&[within(server, 500)], 1);
    assert!(begin.elapsed() < Duration::from_secs(8), "{:?}", begin.elapsed());
    let problem = all[0].result.clone().unwrap_err();
    assert!(!problem.help.is_empty(), "{problem:?}");
    problem
}

#[test]
fn pages_without_an_end_and_what_is_none_are_told() {
    const GZIP: &str = "Content-Encoding: gzip\r\n";
    // 4 MiB of wrong lines, a thousand times over: gzip members follow each other.
    let bomb = compressed("-\n".repeat(1 << 21).as_bytes()).repeat(1_000);
    assert!(bomb.len() < 64 << 20);
    let page = compressed("a 1\n".repeat(1_000).as_bytes());
    let half = page[..page.len() / 2].to_vec();
    let html = b"<!doctype html>\n<html>\n</html>\n";
    for (server, told) in [
        (
            Server::start(|_| Answer::endless(b"a", Duration::from_millis(100))),
            &["within the time-out", "too long"][..],
        ),
        (Server::start(|_| Answer::endless(&[b'a'; 65_536], Duration::ZERO)), &["took too long", "has no end"]),
        (Server::start(move |_| Answer::of("text/plain", GZIP, &bomb)), &["too long", "no end", "is incomplete"]),
        (Server::start(|_| Answer::of("text/plain", GZIP, b"a 1\n")), &["is incomplete"]),
        (Server::start(move |_| Answer::of("text/plain", GZIP, &half)), &["is incomplete"]),
        (Server::start(|_| Answer::of("text/plain", "Content-Encoding: br\r\n", b"a 1\n")), &["encoded"]),
        (Server::start(move |_| Answer::of("text/html", "", html)), &["is not a page of metrics"]),
    ] {
        let whole = problem(&server).to_string();
        assert!(told.iter().any(|it| whole.contains(it)), "{told:?}: {whole}");
    }
}

#[test]
fn why_nothing_came_is_told_in_plain_words() {
    let silent = problem(&Server::start(|_| Answer::silence()));
    let cut = Server::start(|_| Answer::of("text/plain", "", b"a 1\n").cut_off());
    let cut = problem(&cut);
    let long = format!("HTTP/1.1 200 OK\r\nX-A: {}\r\n", "a".repeat(8 << 20));
    let endless_head = problem(&Server::start(move |_| Answer::raw(&long, b"")));
    for (problem, said) in
        [(&silent, "within the time-out"), (&cut, "within the time-out"), (&endless_head, "too large")]
    {
        let whole = problem.to_string();
        assert!(whole.contains(said), "{whole}");
        for alien in ["global", "io:", "Peer"] {
            assert!(!whole.contains(alien), "{whole}");
        }
    }
}

#[test]
fn a_server_that_does_not_close_behind_its_page_is_told_from_a_slow_one() {
    let server = Server::start(|_| Answer::open("text/plain; version=0.0.4", b"a 1\n"));
    let problem = problem(&server);
    assert!(problem.cause.ends_with("has no end"), "{problem:?}");
    assert!(problem.value.contains("no Content-Length"), "{problem:?}");
    assert!(problem.help.contains("does not help"), "{problem:?}");
    // OpenMetrics has an end of its own.
    let kind = "application/openmetrics-text; version=1.0.0";
    let whole = Server::start(move |_| Answer::open(kind, b"a 1\n# EOF\n"));
    let begin = Instant::now();
    let all = scrapes(&[within(&whole, 2_000)], 1);
    assert!(all[0].result.is_ok(), "{all:?}");
    assert!(begin.elapsed() < Duration::from_millis(1_500), "{all:?}");
}

#[test]
fn answers_that_are_no_pages_are_told() {
    let refused = Server::start(|_| Answer::status("401 Unauthorized"));
    let told = problem(&refused);
    assert!(told.cause.contains("401") && told.value == "why?", "{told:?}");
    let cut = Server::start(|_| Answer::of("application/openmetrics-text; version=1.0.0", "", b"a 1\n"));
    let all = scrapes(&[within(&cut, 500)], 1);
    // The series that stood behind the cut would be missing in sums.
    let cut_off = all[0].result.clone().unwrap_err();
    assert!(cut_off.cause.contains("is incomplete"), "{cut_off}");
    assert!(all[0].cost.first_wrong.as_ref().is_some_and(|it| it.contains("cut off")), "{all:?}");
}

#[test]
fn nobody_who_listens_is_told() {
    let server = Server::start(|_| Answer::page(""));
    let url = server.url();
    drop(server);
    // The listener is gone once its thread has been woken.
    std::thread::sleep(Duration::from_millis(200));
    let server = Server::start(|_| Answer::page(""));
    let mut plan = plan(&server, &[]);
    plan.url = url.parse().unwrap();
    let all = scrapes(&[plan], 2);
    let problem = all[1].result.clone().unwrap_err();
    assert!(problem.cause.contains("not answered"), "{problem}");
    assert!(problem.help.contains("rabbitmq_prometheus"), "{problem:?}");
}

#[test]
fn what_a_server_repeats_of_a_request_shows_no_secret() {
    let login = "Z3Vlc3Q6czNjcmV0";
    let said = format!("no: Basic {login}, s3cret, ?key=k3y {}Z3Vlc3Q6cz", " ".repeat(100));
    let head = "HTTP/1.1 403 Forbidden\r\n";
    let server = Server::start(move |_| Answer::raw(head, said.as_bytes()));
    let mut plan = plan(&server, &[]);
    plan.url = format!("{}?key=k3y", server.url()).parse().unwrap();
    plan.user = Some("guest".into());
    plan.password = Some(crate::Secret::new("s3cret"));
    let told = format!("{:?}", scrapes(&[plan], 1)[0].result);
    assert!(told.contains("no: Basic ***, ***, ?***"), "{told}");
    for secret in ["Z3Vl", "s3cret", "k3y"] {
        assert!(!told.contains(secret), "{told}");
    }
}

#[test]
fn a_request_that_is_open_at_the_end_is_waited_for_up_to_its_time_out() {
    let pause = Duration::from_millis(50);
    let server = Server::start(move |number| match number {
        0 | 1 => Answer::page("a 1\n"),
        _ => Answer::endless(b"\n", pause),
    });
    let hanging = ScrapePlan { every: Nanos::from_millis(100), ..within(&server, 1_500) };
    let summary = &summaries(&[hanging], Some(1_000), &mut Told::default())[0];
    assert_eq!((summary.completed, summary.failed), (2, 1), "{summary:?}");
    assert_eq!((summary.unanswered, summary.not_sent), (0, 7), "{summary:?}");
    assert_eq!(summary.response.count, 3);
    assert!(summary.response.max_ns >= 1_490_000_000, "{summary:?}");

    // A page that comes late is a page.
    let slow = Server::start(|_| {
        std::thread::sleep(Duration::from_millis(900));
        Answer::page("a 1\n")
    });
    let all = summaries(&[plan(&slow, &["a"])], Some(100), &mut Told::default());
    assert_eq!((all[0].completed, all[0].unanswered), (1, 0), "{all:?}");
}

#[test]
fn a_page_that_never_comes_takes_no_other_with_it() {
    let pause = Duration::from_millis(50);
    let servers = [
        Server::start(|_| Answer::page("a 1\n")),
        Server::start(move |_| Answer::endless(b"\n", pause)),
        Server::start(|_| Answer::status("403 Forbidden")),
    ];
    let all = summaries(&servers.each_ref().map(|it| within(it, 300)), None, &mut Told::default());
    let [came, hung, refused] = all.as_slice() else {
        panic!("{all:?}");
    };
    assert_eq!((came.completed, came.failed), (1, 0));
    assert_eq!((hung.completed, hung.failed), (0, 1));
    let waited = (hung.response.count, hung.response.max_ns >= 290_000_000);
    assert_eq!(waited, (1, true), "with the time that it waited: {hung:?}");
    assert_eq!((refused.completed, refused.failed), (0, 1));
    assert_eq!(refused.response.count, 0, "a refusal is no response");
}

/// As probes do: a broker that starts again is away for a while, and its page is what one wants to see then.
#[test]
fn a_page_that_is_away_is_requested_again_as_long_as_the_time_lasts() {
    let server = Server::start(|number| match number {
        0 | 1 => Answer::status("503 Service Unavailable"),
        _ => Answer::page("a 1\n"),
    });
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut refused = plan(&server, &["a"]);
    refused.url = format!("http://{}/metrics", nobody.local_addr().unwrap()).parse().unwrap();
    drop(nobody);
    let plans = [plan(&server, &["a"]), refused].map(|plan| ScrapePlan { every: Nanos::from_millis(300), ..plan });
    let mut told = Told::default();
    let all = summaries(&plans, Some(1_400), &mut told);
    let counts: Vec<_> = all.iter().map(|it| (it.completed, it.failed)).collect();
    assert_eq!(counts, [(3, 2), (0, 5)], "{all:?}");
    assert_eq!(told.pages.iter().filter(|came| **came).count(), 3);
    assert_eq!(told.pages.len(), 10);
    // After a second, and when all is over.
    let [(first, ..), (last, completed, failed)] = told.seconds[..] else {
        panic!("{:?}", told.seconds);
    };
    assert!((1_000..1_400).contains(&first), "{:?}", told.seconds);
    assert!((1_200..20_000).contains(&last), "{:?}", told.seconds);
    assert_eq!((completed, failed), (3, 7));
}
