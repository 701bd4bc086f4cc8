//! `probe` and `scrape` alone: requests without a load of messages, and pages that are away for a while.

use crate::common;

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use common::{folder, run};
use serde_json::Value;

/// Answers one request with a page whose counter is the number of requests.
fn answer(stream: &TcpStream, number: u64) {
    let heads = BufReader::new(stream).lines().map_while(Result::ok);
    if heads.take_while(|line| !line.is_empty()).count() == 0 {
        return;
    }
    let page = format!("jobs_total {number}\ndepth{{queue=\"orders\"}} 7\n");
    let answer = common::pages::answer("200 OK\r\nContent-Type: text/plain; version=0.0.4", &page);
    let _ = (&mut &*stream).write_all(answer.as_bytes());
}

/// A server of a page that listens on its address, but not from `away.0` to `away.1` after its start. It serves until
/// the test ends.
fn server(away: (Duration, Duration)) -> SocketAddr {
    let (listener, address) = common::listener();
    let mut listener = Some(listener);
    thread::spawn(move || {
        let begin = Instant::now();
        let mut number = 0;
        loop {
            let is_away = (away.0..away.1).contains(&begin.elapsed());
            if is_away {
                listener = None;
            } else if listener.is_none() {
                listener = TcpListener::bind(address).ok();
            }
            if let Some(listener) = &listener {
                listener.set_nonblocking(true).expect("a listener");
                while let Ok((stream, _)) = listener.accept() {
                    stream.set_nonblocking(false).expect("a stream");
                    number += 10;
                    answer(&stream, number);
                }
            }
            thread::sleep(Duration::from_millis(5));
        }
    });
    address
}

fn always() -> SocketAddr {
    server((Duration::MAX, Duration::MAX))
}

#[test]
fn a_probe_says_nothing_of_messages() {
    let dir = &*folder();
    let url = format!("http://user:secret@{}/metrics", always());
    let probe = |url: &str| run(dir, &["probe", url, "--every", "50ms", "--duration", "1", "--json", "--quiet"]).json();
    let objects = [probe(&url), probe(&url)];
    for object in &objects {
        common::schema::assert_valid(object);
        let scenarios = object["scenarios"].as_object().expect("scenarios");
        assert!(scenarios.keys().eq(["probe"]), "{object:#}");
        assert!(object["broker"].get("kind").is_none(), "{object:#}");
        let begun = object["scenarios"]["probe"]["probe_begun"].as_u64();
        assert!(begun >= Some(10), "{object:#}");
        let record = dir.join(object["run_dir"].as_str().expect("a path")).join("run.json");
        let record = common::read_json(&record);
        assert_eq!(record["experiment"]["broker"].get("url"), None);
        // As docs/probe.md has both paths.
        let p99 = "scenarios/probe/latency/probe_response/p99_ns";
        assert!(object.pointer(&format!("/{p99}")).is_some_and(Value::is_u64), "{object:#}");
        assert_eq!(record.pointer(&format!("/summary/{p99}")), object.pointer(&format!("/{p99}")));
    }
    let id =
        |object: &Value| object["run_dir"].as_str().and_then(|it| it.rsplit('/').next()).expect("a path").to_owned();
    let ids = objects.each_ref().map(id);
    let listed = run(dir, &["runs"]).ok().stdout;
    assert_eq!(listed.matches(" complete ").count(), 2, "{listed}");
    let history = run(dir, &["runs", "history", "probe"]).ok();
    history.prints_not(["broker cores", "broker memory", "the broker's CPU"]);
    let compared = run(dir, &["ab", &ids[0], "--with", &ids[1], "--verbose"]);
    assert!(matches!(compared.prints(["response p50"]).code(), Some(0 | 3 | 4)), "{compared:?}");
    for id in &ids {
        run(dir, &["runs", "report", id]).assert_ok();
    }
}

/// A page is worth scraping while its broker starts again.
#[test]
fn a_page_that_is_away_for_a_while_is_scraped_on() {
    let dir = &*folder();
    let address = server((Duration::from_millis(1_200), Duration::from_millis(2_700)));
    let url = format!("http://{address}/metrics");
    let args = ["scrape", &url, "--every", "250ms", "--for", "5", "--select", "jobs_total", "--select", "depth"];
    let ran = run(dir, &args).ok();
    let lines: Vec<&str> = ran.stdout.lines().filter(|it| it.contains(" s  measure  ")).collect();
    assert!((4..=6).contains(&lines.len()), "{ran:?}");
    // The time of the measurement, the page and its series, a rate where it is a counter; no line goes on for ever.
    assert!(lines[0].starts_with("    1.") && lines[0].contains(" s  measure  page 127.0.0.1:"), "{ran:?}");
    assert!(lines[0].contains("  depth{queue=\"orders\"} 7"), "{ran:?}");
    // Over a page that came late it is another one.
    let is_told = |line: &&str| line.contains("  jobs_total 40.") || line.contains("  jobs_total 39.");
    assert!(lines.iter().any(is_told), "{ran:?}");
    assert!(lines.iter().all(|line| line.chars().count() <= 202), "{ran:?}");
    assert!(lines.iter().any(|line| line.contains(" failed ")), "{ran:?}");
    let told = |part: &str| ran.stderr.lines().filter(|line| line.contains(part)).count();
    // Once, and not for each request.
    assert_eq!((told("was not answered"), told("a page again, after ")), (1, 1), "{ran:?}");
    let object = run(dir, &["scrape", &url, "--json", "--quiet", "--select", "depth"]).json();
    assert_eq!(object["scrapes"][0]["selected"][0]["series"], "depth{queue=\"orders\"}", "{object:#}");
}

/// A refusal costs the server little: that is no cost of an answer.
#[test]
fn refusals_are_no_measure_of_what_an_answer_costs() {
    let dir = folder();
    let address = common::pages::serve(|_, stream| {
        let _ = stream.write_all(common::pages::answer("401 Unauthorized", "no").as_bytes());
    });
    let url = format!("http://{address}/");
    let probed = run(dir.path(), &["probe", &url, "--every", "50ms", "--duration", "1", "--json"]);
    let object = probed.printed();
    let probe = &object["scenarios"]["probe"];
    assert!(probe["probe_status_4xx"].as_u64() >= Some(10), "{object:#}");
    assert_eq!(probe["cpu_us_each"]["broker"], Value::Null, "{object:#}");
    probed.says_not(["CPU per request"]);
    let scraped = run(dir.path(), &["scrape", &url, "--every", "100ms", "--for", "1"]);
    scraped.assert_error(1, &["401"]).prints_not(["/request", "B/s"]);
}

/// A server that answers at once for a second, and then not before two and a half have passed since its first request.
fn server_that_stops() -> SocketAddr {
    let (listener, address) = common::listener();
    thread::spawn(move || {
        let mut first = None;
        for stream in listener.incoming().flatten() {
            let heads = BufReader::new(&stream).lines().map_while(Result::ok);
            for _ in heads.filter(String::is_empty) {
                let since = first.get_or_insert_with(Instant::now).elapsed();
                if since > Duration::from_secs(1) {
                    thread::sleep(Duration::from_millis(2_500).saturating_sub(since));
                }
                let _ = (&stream).write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
            }
        }
    });
    address
}

/// Most of those that were begun were answered at once; the others are half of all.
#[test]
fn requests_that_were_never_begun_count_in_what_is_required_of_a_probe() {
    let dir = &*folder();
    let url = format!("http://{}/", server_that_stops());
    let begin = Instant::now();
    let required = ["--require", "response p90 < 100ms", "--require", "from send p50 <= 400ms"];
    let line = format!("probe {url} --every 10ms --max-open 1 --duration 2 --json");
    let probed = run(dir, &[&common::words(&line)[..], &required].concat()).ends(3);
    let object = probed.printed();
    let probe = &object["scenarios"]["probe"];
    let count = |name: &str| probe[name].as_u64().expect("a count");
    assert_eq!(count("probe_begun") + count("probe_not_begun"), 200, "{object:#}");
    assert!(count("probe_not_begun") >= 80, "{object:#}");
    // They wait for up to 1.5 s each, until the run ends; a tenth of all waits for over 1.3 s.
    let [response, from_send] = [0, 1].map(|at| &object["requirements"][at]);
    assert_eq!(response["that"], "response p90 < 100ms");
    assert_eq!(response["met"], false, "{object:#}");
    let observed = Duration::from_nanos(response["observed"].as_f64().expect("a number") as u64);
    assert!(observed > Duration::from_millis(1_100) && observed < begin.elapsed(), "{object:#}");
    assert_eq!(from_send["met"], true, "{object:#}");
    let line = probed.stderr.lines().find(|it| it.starts_with("MISSED "));
    let told = line.and_then(|line| Some(line.split_once("response p90 < 100ms: ")?.1));
    let seconds = told.and_then(|it| it.trim().strip_suffix(" s")?.parse::<f64>().ok());
    let off = seconds.expect("seconds") - observed.as_secs_f64();
    assert!(off.abs() < 0.01, "{probed:?}");
}
