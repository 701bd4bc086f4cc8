//! Probes against servers that answer, stall, and misbehave.

use crate::common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use common::{Heard, Tally, metric};
use load::scenario::Scenario as _;
use load::scenario::probe::{HttpUrl, ProbePlan};
use load::{ArrivalSchedule, ClientTls, Control, Outcome, RunEvent, SliceSink, StartBarrier};
use measure::{Interval, Nanos, Phase, Rate, Slice, Waits};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

fn plan(port: u16, rate: f64, measure_ms: u64) -> ProbePlan {
    let url = format!("http://127.0.0.1:{port}/path?x=y");
    ProbePlan {
        name: String::new(),
        url: HttpUrl::parse(&url).expect("a URL"),
        label: url,
        method: "GET".into(),
        headers: vec![("Accept".into(), "*/*".into())],
        tls: ClientTls::default(),
        schedule: ArrivalSchedule::constant(Rate::per_second(rate).expect("a rate")),
        warmup: Nanos::ZERO,
        measure: Nanos::from_millis(measure_ms),
        most_open: 200,
        timeout: Nanos::from_millis(3_000),
    }
}

fn slow(heard: &Heard, step: &str) -> u64 {
    let histogram = heard.steps.histogram(metric(step));
    histogram.len() - histogram.count_between(0, 100_000_000)
}

fn probed(plan: &ProbePlan) -> (Heard, Tally, Outcome) {
    let mut heard = Heard::default();
    let control = Control::new();
    let mut outcome = plan.run(&StartBarrier::alone(), &control, &mut heard).expect("it starts");
    let tally = outcome.tallies.remove(plan.name()).expect("a tally");
    (heard, Tally(tally), outcome)
}

fn counts<const N: usize>(tally: &Tally, keys: [&str; N]) -> [u64; N] {
    keys.map(|key| tally.count(&format!("probe_{key}")))
}

/// Serves connections, each on a thread, until the test ends.
fn serve(work: impl Fn(TcpStream) + Send + Sync + 'static) -> u16 {
    let work = Arc::new(work);
    let address = common::serve(move |_, stream| {
        let work = Arc::clone(&work);
        thread::spawn(move || work(stream));
    });
    address.port()
}

/// Answers each request of a connection after `wait`.
fn answer(mut stream: TcpStream, answer: &[u8], wait: impl Fn()) {
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = stream.read(&mut buffer) {
        request.extend_from_slice(&buffer[..read]);
        while let Some(at) = request.windows(4).position(|it| it == b"\r\n\r\n") {
            request.drain(..at + 4);
            wait();
            if stream.write_all(answer).is_err() {
                return;
            }
        }
    }
}

/// Reads a request, or a part of it, and says this.
fn say(mut stream: TcpStream, text: &[u8]) {
    let _ = stream.read(&mut [0; 4096]);
    let _ = stream.write_all(text);
}

#[test]
fn requests_keep_their_times_and_share_connections() {
    let port = serve(|stream| answer(stream, OK, || {}));
    let (heard, tally, outcome) = probed(&ProbePlan { warmup: Nanos::from_millis(200), ..plan(port, 100.0, 1_000) });
    assert_eq!(outcome.error, None);
    let counts = counts(&tally, ["begun", "completed", "failed", "not_begun", "bytes"]);
    assert_eq!(counts, [100, 100, 0, 0, 100 * OK.len() as u64], "{tally:?}");
    assert_eq!(heard.step("probe_response").count, 100);
    assert!(heard.step("probe_connect").count < 50, "connections are kept");
}

#[test]
fn no_request_that_was_due_in_a_stall_is_forgotten() {
    for most_open in [200, 1] {
        let first = std::sync::OnceLock::new();
        let port = serve(move |stream| {
            answer(stream, OK, || {
                let began: &Instant = first.get_or_init(Instant::now);
                let since = began.elapsed();
                let (from, until) = (Duration::from_millis(500), Duration::from_millis(1_500));
                if since >= from {
                    thread::sleep(until.saturating_sub(since));
                }
            });
        });
        let (heard, tally, outcome) = probed(&ProbePlan { most_open, ..plan(port, 100.0, 2_000) });
        assert_eq!(outcome.error, None);
        assert_eq!(tally.count("probe_completed"), 200, "{tally:?}");
        // Due from 0.5 s to 1.4 s.
        let slow_responses = slow(&heard, "probe_response");
        assert!((80..=130).contains(&slow_responses), "{slow_responses} of some 90");
        assert!(heard.step("probe_response").max_ns >= 900_000_000);
        if most_open == 1 {
            let slow = slow(&heard, "probe_from_send");
            assert!(slow < 10, "{slow}: from the send it looks fine");
        }
    }
}

/// The verdict takes from this whom requests waited for.
#[test]
fn a_known_delay_is_measured_and_the_time_without_room_told_from_that_without_work() {
    let slow = || serve(|stream| answer(stream, OK, || thread::sleep(Duration::from_millis(50))));
    let mut narrow = plan(slow(), 50.0, 1_000);
    narrow.most_open = 1;
    let (heard, ..) = probed(&narrow);
    let Waits { budget, schedule, .. } = heard.waits;
    assert!(budget > Nanos::from_millis(700), "{:?}", heard.waits);
    assert!(schedule < Nanos::from_millis(300), "{:?}", heard.waits);
    let (heard, ..) = probed(&plan(slow(), 50.0, 1_000));
    assert_eq!(heard.waits.budget, Nanos::ZERO);
    let schedule = heard.waits.schedule;
    assert!(schedule > Nanos::from_millis(700), "{:?}", heard.waits);
    for step in ["probe_response", "probe_from_send", "probe_first_byte"] {
        let p50 = heard.step(step).p50_ns;
        assert!((50_000_000..75_000_000).contains(&p50), "{step} {p50}");
    }
}

#[test]
fn servers_that_misbehave_are_named_and_cost_bounded_time() {
    type Server = fn(TcpStream);
    const LONG: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabcdef\r\n";
    fn hold(stream: TcpStream, ms: u64) {
        thread::sleep(Duration::from_millis(ms));
        drop(stream);
    }
    fn deny(stream: TcpStream, status: &str) {
        let text = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
        answer(stream, text.as_bytes(), || {});
    }
    fn slowly(mut stream: TcpStream, bytes: &[u8], pause_ms: u64) {
        for byte in bytes.iter().cycle() {
            if stream.write_all(&[*byte]).is_err() {
                return;
            }
            thread::sleep(Duration::from_millis(pause_ms));
        }
    }
    let endless: Server = |mut stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n");
        while stream.write_all(b"x: yyyyyyyyyyyyyyyyyyyyyyyyyy\r\n").is_ok() {}
    };
    let huge: Server = |mut stream| {
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000000\r\n\r\n";
        say(stream.try_clone().expect("a handle"), head);
        let _ = stream.write_all(&[0; 1_000]);
        hold(stream, 9_000);
    };
    let cases: [(Server, &str, &str); 9] = [
        (|stream| slowly(stream, OK, 1_000), "no complete response within", "timed_out"),
        (|stream| hold(stream, 9_000), "waiting for the response", "timed_out"),
        (endless, "head has over 65536 bytes", "failed"),
        (huge, "no complete response within", "timed_out"),
        (|stream| say(stream, LONG), "longer than its size", "failed"),
        // What was not read resets the connection.
        (|stream| hold(stream, 30), "127.0.0.1", "failed"),
        (|stream| say(stream, b"AMQP\x00\x00\x09\x01"), "does not speak HTTP/1", "failed"),
        (|stream| deny(stream, "503 No"), "status 503", "status_5xx"),
        (|stream| deny(stream, "404 No"), "status 404", "status_4xx"),
    ];
    for (server, reason, counted) in cases {
        let port = serve(server);
        let began = Instant::now();
        let (heard, tally, outcome) = probed(&ProbePlan { timeout: Nanos::from_millis(400), ..plan(port, 20.0, 500) });
        assert!(began.elapsed() < Duration::from_secs(3), "{reason}");
        assert_eq!(counts(&tally, ["begun", "failed", counted]), [10; 3], "{reason}: {tally:?}");
        let reasons: Vec<&String> = tally.0.failures.keys().collect();
        assert!(reasons.iter().any(|it| it.contains(reason)), "{reason}: {reasons:?}");
        let once = |it: &&String| it.matches("127.0.0.1").count() <= 1;
        assert!(reasons.iter().all(once), "the address once: {reasons:?}");
        assert!(outcome.error.is_some(), "{reason}: nothing was answered");
        // What was given up counts with the time that it waited.
        if counted == "timed_out" {
            let response = heard.step("probe_response");
            assert_eq!(response.count, 10);
            assert!(response.p50_ns >= 400_000_000, "{response:?}");
        }
    }
}

#[test]
fn requests_without_an_answer_show_while_they_are_in_flight() {
    #[derive(Default)]
    struct InFlight(Vec<u64>);
    impl SliceSink for InFlight {
        fn slice(&mut self, slice: &Slice) {
            if slice.phase == Phase::Measure {
                self.0.push(slice.counts.get(metric("probe_in_flight")));
            }
        }
        fn event(&mut self, _event: RunEvent) {}
    }

    let port = serve(|stream| answer(stream, OK, || thread::sleep(Duration::from_secs(2))));
    let plan = ProbePlan { most_open: 15, ..plan(port, 20.0, 1_000) };
    let mut heard = InFlight::default();
    let mut outcome = plan.run(&StartBarrier::alone(), &Control::new(), &mut heard).expect("it starts");
    let tally = Tally(outcome.tallies.remove(plan.name()).expect("a tally"));
    // 15 of 20 had room; they are answered in the drain, and none is left then.
    let counts = counts(&tally, ["begun", "in_flight", "completed", "in_flight_at_end", "not_begun"]);
    assert_eq!(counts, [15, 15, 15, 0, 5], "{tally:?}");
    let InFlight(slices) = heard;
    assert!(slices.is_sorted(), "{slices:?}");
    // Also where none begins any more.
    assert_eq!(slices.last(), Some(&15), "{slices:?}");
}

#[test]
fn a_refused_connection_is_a_failure_of_each_request() {
    let port = common::listener().1.port();
    let (_, tally, outcome) = probed(&plan(port, 20.0, 500));
    assert_eq!(tally.count("probe_failed"), 10);
    testkit::assert_has(outcome.error.expect("nothing was answered").to_string(), ["refused"]);
}

#[test]
fn a_kept_connection_that_is_closed_is_replaced() {
    let port = serve(|stream| say(stream, OK));
    let (heard, tally, _) = probed(&plan(port, 50.0, 1_000));
    assert_eq!(tally.count("probe_completed"), 50, "{tally:?}");
    assert_eq!(heard.step("probe_connect").count, 50);
}

#[test]
fn waits_that_overlap_delay_no_request_twice() {
    for (most_open, wait_ms) in [(100, 400), (2, 700)] {
        let port = serve(move |mut stream| {
            let mut buffer = [0; 4096];
            let _ = stream.read(&mut buffer);
            thread::sleep(Duration::from_millis(wait_ms));
        });
        let (heard, tally, _) = probed(&ProbePlan { most_open, ..plan(port, 20.0, 500) });
        let due = tally.count("probe_failed") + tally.count("probe_not_begun");
        assert_eq!(due, 10, "{tally:?}");
        let delayed: u64 = heard.silences.iter().map(|it| it.in_flight + it.unsent).sum();
        assert!((5..=due).contains(&delayed), "{:?}", heard.silences);
    }
}

#[test]
fn what_was_due_and_has_no_answer_counts_with_its_wait() {
    let port = serve(|mut stream| {
        let _ = stream.read(&mut [0; 4096]);
        thread::sleep(Duration::from_secs(60));
    });
    let (mut heard, tally, outcome) =
        probed(&ProbePlan { most_open: 2, timeout: Nanos::from_millis(150), ..plan(port, 100.0, 400) });
    assert!(tally.count("probe_not_begun") > 20, "{tally:?}");
    let censored = outcome.censored.expect("what has no answer");
    heard.steps.add_due(Phase::Measure, censored.interval.histograms()).expect("one shape");
    for step in ["probe_response", "probe_wait"] {
        assert_eq!(heard.step(step).count, 40, "{step}: {tally:?}");
    }
    let response = heard.steps.histogram(metric("probe_response"));
    // Due from 0 to 390 ms, and nothing ended before 400.
    assert!(response.value_at_quantile(0.5) >= 190_000_000, "{response:?}");
    let slice = censored.interval.to_slice();
    let of_slice = |it: Interval| it.latencies.histogram(metric("probe_response")).len();
    let mut again = Interval::new();
    again.add_slice(&slice);
    assert_eq!(of_slice(again), of_slice(censored.interval));
}

#[test]
fn a_request_that_is_sent_again_is_told() {
    let port = serve(|mut stream| {
        let mut buffer = [0; 4096];
        let _ = stream.read(&mut buffer);
        let _ = stream.write_all(OK);
        // The connection is kept, and closed when the next request has come.
        let _ = stream.read(&mut buffer);
    });
    let (heard, tally, _) = probed(&plan(port, 20.0, 500));
    assert_eq!(tally.count("probe_completed"), 10, "{tally:?}");
    assert_eq!(heard.notes.iter().filter(|it| it.contains("sent twice")).count(), 1, "{:?}", heard.notes);
}

#[test]
fn redirects_are_completed_and_told_once() {
    const MOVED: &[u8] = b"HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n";
    let port = serve(|stream| answer(stream, MOVED, || {}));
    let (heard, tally, _) = probed(&plan(port, 50.0, 500));
    assert_eq!(tally.count("probe_completed"), 25);
    assert_eq!(heard.notes.len(), 1, "{:?}", heard.notes);
}
