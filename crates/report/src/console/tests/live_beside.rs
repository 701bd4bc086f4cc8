//! Pages of metrics and the series that were selected of them, on a screen and in a pipe.

use archive::{ScenarioPoint, SeriesName, SeriesUnit};
use measure::MetricKind;

use super::scenario::{registered, scraped};
use super::*;

#[test]
fn a_page_counts_from_the_measured_phase_on_and_the_memory_of_a_node_is_told() {
    let mut live = LiveTable::new(shape(), terminal(100));
    live.point(&point(Phase::Warmup, 0.0), &Interval::new());
    live.beside.add(&scraped(9.0));
    live.enter(Phase::Measure);
    let of = |kind: &str, value| {
        let name = SeriesName::new(archive::ERLANG_MEMORY, "both sides", SeriesUnit::Bytes);
        (name.with("kind", kind), value)
    };
    let sides = [of("resident", 1.99e9), of("VM total", 1.47e9), of("VM ets", 2e8)];
    live.beside.add(&sides);
    for seconds in [1.0, 3.0, 2.0] {
        live.beside.add(&scraped(seconds));
    }
    live.point(&point(Phase::Measure, 5.0), &Interval::new());
    assert_begins(flowing(&row(&live, "per-object")), "per-object 2.00 s 3.00 s 34.5 MB 230,123 3");
    assert_has(live.lines().join("\n"), ["memory resident 1.99 GB, VM total 1.47 GB"]);
    // In a pipe the same is told of the second in which it came, once.
    let expected = "  page per-object 4 pages, last 2.00 s, max 9.00 s, 34.5 MB  \
                    memory resident 1.99 GB, VM total 1.47 GB\n";
    assert_ends(news(&mut live).expect("a line"), expected);
    assert_eq!(news(&mut live), None, "nothing has come since");
    live.beside.add(&scraped(2.0));
    assert_ends(news(&mut live).expect("a line"), "  page per-object 2.00 s, 34.5 MB\n");
}

fn quiet_second() -> SeriesPoint {
    SeriesPoint { t: 5.0, dt: 1.0, phase: Phase::Measure, ..SeriesPoint::default() }
}

fn news(live: &mut LiveTable) -> Option<String> {
    let news = live.beside.news();
    interval::line(&Shape::default(), &quiet_second(), &news)
}

fn selected(series: usize) -> Vec<(SeriesName, f64)> {
    let mut values = scraped(0.25);
    values.extend((1..=series).map(|number| {
        let name = format!("rabbitmq_queue_messages{{queue=\"orders{number}\"}}");
        let value = number as f64 * 1_000.0;
        (SeriesName::new("per-object", &name, SeriesUnit::Count), value)
    }));
    let published = SeriesName::new("per-object", "published_total", SeriesUnit::PerSecond);
    values.push((published, 812.0));
    values
}

#[test]
fn scrapes_alone_show_requests_and_selected_series() {
    let requests = PageRequests { completed: 41, failed: 7, waiting: Some(Nanos(3_200_000_000)) };
    let shape = Shape {
        title: "scrape".into(),
        about: "http://localhost:15692/metrics/per-object".into(),
        measure: Some(Nanos(1_200_000_000_000)),
        ..Shape::default()
    };
    for (columns, rows) in [(80, 24), (50, 24), (120, 40), (60, 10)] {
        for number in [0, 3, 400] {
            let mut live = LiveTable::new(shape.clone(), Style { rows, ..terminal(columns) });
            live.beside.requested("per-object", requests);
            live.beside.add(&selected(number));
            live.point(&quiet_second(), &Interval::new());
            let text = live.lines().join("\n");
            assert_fits(&text, columns - 1, rows - 1);
            assert_begins(&text, "scrape http://localhost:15692/");
            assert_has(&text, [" / 20:00"]);
            assert_has(flowing(&row(&live, "per-object")), [" 41 7 1: 3 s"]);
            let series = text.lines().filter(|it| it.contains("orders")).count();
            if rows == 10 {
                continue;
            }
            match number {
                400 => assert!(text.contains("\nand 3") && series > 1, "{text}"),
                _ => assert_eq!(series, number, "{columns}: {text}"),
            }
            assert!(number > 3 || text.contains(" 812/s"), "{columns}: {text}");
        }
    }
    // In a pipe: what is most telling first, and no endless line.
    let mut live = LiveTable::new(shape, terminal(80));
    live.beside.requested("per-object", requests);
    live.beside.add(&selected(400));
    let line = news(&mut live).expect("a line");
    let expected = "    6.0 s  measure  page per-object 250 ms, 34.5 MB  page per-object failed 7  \
                    page per-object in flight for 3 s  rabbitmq_queue_messages{queue=\"orders1\"} 1,000  ";
    assert_begins(&line, expected);
    assert!(line.ends_with(" …\n") && width(line.trim_end()) <= 202, "{line}");
    // Values that stay as they are are told once.
    live.beside.add(&selected(400));
    assert_lacks(news(&mut live).expect("a line"), ["rabbitmq_queue"]);
}

#[test]
fn a_page_that_is_away_has_no_last_values() {
    let requests = |completed, failed| PageRequests { completed, failed, waiting: None };
    let shape = Shape { title: "scrape".into(), measure: Some(Nanos(60_000_000_000)), ..Shape::default() };
    let mut live = LiveTable::new(shape, terminal(120));
    live.point(&quiet_second(), &Interval::new());
    live.beside.requested("per-object", requests(1, 0));
    live.beside.add(&selected(1));
    assert_has(row(&live, "per-object"), ["250 ms"]);
    live.beside.requested("per-object", requests(1, 2));
    assert_begins(flowing(&row(&live, "per-object")), "per-object - 250 ms - - 1 2 0");
    assert_ends(row(&live, "rabbitmq_queue_messages"), " -");
    live.beside.requested("per-object", requests(2, 2));
    live.beside.add(&selected(1));
    assert_ends(row(&live, "rabbitmq_queue_messages"), " 1,000");
}

#[test]
fn a_line_in_a_pipe_is_no_longer_than_a_wide_terminal() {
    let mut measured = Interval::new();
    measured.end = Time(1_000_000_000);
    for (of, name) in [("probe_queue_page", "queue-page response"), ("probe_api", "api response")] {
        let failed = u64::from(of == "probe_queue_page");
        for (name, number) in [("begun", 1), ("completed", 1), ("failed", failed), ("late", 1)] {
            measured.counts.add(registered(of, name, MetricKind::Counter), number);
        }
        measured.counts.peak(registered(of, "in flight", MetricKind::Peak), 3);
        let latency = registered(of, name, MetricKind::Histogram);
        measured.latencies.record_n(latency, Nanos(5_000_000), 1);
    }
    let mut of_second = point(Phase::Measure, 5.0);
    of_second.counters.blocked = 0;
    of_second.scenarios = ScenarioPoint::all_of(&measured);
    let mut live = LiveTable::new(shape(), terminal(80));
    live.beside.add(&selected(20));
    let line = interval::line(&shape(), &of_second, &live.beside.news()).expect("a line");
    assert!(width(line.trim_end()) <= 202, "{line}");
    let [sent, of_messages] = ["  sent 8,110 msg/s  ", "  ack response p99 3.23 ms  end-to-end p99 3.23 ms  "];
    let [failed, of_page] = ["  probe queue-page: failed 1.00/s", "  queue-page response 5.00 ms"];
    assert_has(&line, [sent, of_messages, "  api response 5.00 ms  ", failed, of_page]);
}
