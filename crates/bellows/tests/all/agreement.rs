//! All outputs of a run have equal latencies: console, JSON, HDR log, and the page's tables, percentile curves (which
//! its CSV and SVG are made of) and heat map. Slow confirms and stalls cross both ends of the measured phase, at
//! random.

use crate::common;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use archive::{RunReader, RunSummary};
use common::{figures, folder, page_parts, run};
use measure::{LatencySummary, Metric, Nanos, Phase, Recorder};
use serde_json::Value;
use testkit::Random;

/// An experiment with a stall at the beginning, at the end, or both, and confirms that take a while.
fn experiment(random: &mut Random, round: u64) -> String {
    let mut between = |from: u64, to: u64| from + random.below(to - from);
    let (warmup, measure) = (between(300, 900), between(800, 1_800));
    let mut text = format!(
        "name = \"agreement\"\n[broker]\nkind = \"embedded\"\n[profile]\nevents = []\n\
         [phases]\nwarmup = \"{warmup}ms\"\nmeasure = \"{measure}ms\"\ndrain = \"10s\"\n\
         [[load]]\ndestination = \"queue://q\"\nrate = {}\nmax-pending = 100000\n\
         [[fault]]\nkind = \"slow-ack\"\ndelay = \"{}ms\"\n",
        between(200, 3_000),
        between(20, 250),
    );
    let mut stall = |at: u64, length: u64| {
        let _ = write!(text, "[[fault]]\nkind = \"stall\"\nat = \"{at}ms\"\nfor = \"{length}ms\"\n");
    };
    if round.is_multiple_of(2) {
        stall(0, between(50, 300));
    }
    if round > 0 {
        // What it holds up is answered in the drain: a fault ends with the measured phase.
        let length = between(50, 700);
        stall(measure - length, length);
    }
    text
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().expect("numbers").iter().filter_map(Value::as_f64).collect()
}

/// The curve's values before and behind a percentile, as the page draws a line between them: they
/// differ where few samples lie, as they do around a stall.
fn values_at(curve: &Value, percentile: f64) -> (f64, f64) {
    let nines = -(1.0 - percentile / 100.0).log10();
    let (places, values) = (numbers(&curve["nines"]), numbers(&curve["ns"]));
    let before = places.iter().rposition(|place| *place <= nines - 1e-3);
    let behind = places.iter().position(|place| *place >= nines + 1e-3);
    (values[before.unwrap_or(0)], values[behind.unwrap_or(values.len() - 1)])
}

/// The counts in the page's latencies by interval and by slice, by metric: of each grid come columns, buckets
/// and counts, all as integers of seven bits a byte.
fn counts_by_time(page: &Value, mut bytes: &[u8]) -> [BTreeMap<String, u64>; 2] {
    let mut next = || {
        let (mut value, mut shift) = (0, 0);
        loop {
            let (byte, rest) = bytes.split_first().expect("a number");
            bytes = rest;
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                return value;
            }
        }
    };
    [&page["grids"], &page["slices"]["grids"]].map(|grids| {
        let mut counts = BTreeMap::new();
        for grid in grids.as_array().expect("grids") {
            let cells = grid["cells"].as_u64().expect("a number");
            for _ in 0..2 * cells {
                next();
            }
            let metric = grid["metric"].as_str().expect("a metric").to_owned();
            counts.insert(metric, (0..cells).map(|_| next()).sum());
        }
        counts
    })
}

fn check_page((page, numbers_behind): &(Value, Vec<u8>), measured: &Recorder, warmup: &Recorder) {
    let [drawn, sliced] = counts_by_time(page, numbers_behind);
    assert_eq!(drawn, sliced, "intervals and slices");
    for metric in Metric::MESSAGES {
        let expected = LatencySummary::of(measured.histogram(metric));
        let shown: LatencySummary =
            serde_json::from_value(page["figures"]["latency"][metric.key()].clone()).expect("a summary");
        assert_eq!(shown, expected, "the table's {}", metric.name());
        let curve = page["curves"].as_array().expect("a list").iter().find(|it| it["metric"] == metric.key());
        let count = curve.map_or(0, |curve| curve["count"].as_u64().expect("a count"));
        assert_eq!(count, expected.count, "the curve of {}", metric.name());
        if let Some(curve) = curve {
            let highest = numbers(&curve["ns"]).into_iter().fold(0.0, f64::max);
            assert!((highest - expected.max_ns as f64).abs() < 0.5, "{}", metric.name());
            let percentiles = LatencySummary::PERCENTILES.into_iter().take(3);
            for ((percentile, name), value) in percentiles.zip(expected.percentile_values()) {
                let (before, behind) = values_at(curve, percentile);
                // Points that nobody could tell apart are left out.
                let drawn = before * 0.97..=behind * 1.03;
                assert!(drawn.contains(&(value as f64)), "{} {name}: {drawn:?} for {value}", metric.name());
            }
        }
        let all = expected.count + warmup.histogram(metric).len();
        let drawn = drawn.get(metric.key()).copied().unwrap_or(0);
        assert_eq!(drawn, all, "the heat map of {}", metric.name());
    }
}

/// Slices add up to the intervals, which end where slices do.
fn check_slices(run: &RunReader) {
    let slices: Vec<_> = run.slices().expect("slices").collect();
    for point in &run.points {
        let inside = |t: f64| t > point.t - 1e-6 && t < point.t + point.dt - 1e-6;
        let parts = slices.iter().filter(|slice| inside(slice.t));
        let end = parts.clone().map(|it| it.t + it.dt).fold(0.0, f64::max);
        assert!((end - point.t - point.dt).abs() < 1e-6, "{point:?}");
        assert!(parts.clone().all(|it| it.phase == point.phase));
        let sums = parts.fold([0; 3], |[sent, completed, received], it| {
            [sent + it.sent, completed + it.completed, received + it.received]
        });
        let counters = &point.counters;
        assert_eq!(sums, [counters.sent, counters.completed, counters.received]);
    }
    assert!(slices.iter().filter(|slice| slice.dt < 0.15).count() > 5, "of {}", slices.len());
}

fn check_console(text: &str, summary: &RunSummary) {
    for metric in Metric::MESSAGES {
        let latency = summary.messages().latency.get(metric);
        let start = format!("{}  ", metric.name());
        let row = text.lines().find(|line| line.starts_with(&start));
        let row = row.unwrap_or_else(|| panic!("no {start} in {text}"));
        let shown: Vec<&str> = row.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
        let percentiles = latency.percentile_values();
        let values = std::iter::once(latency.mean_ns).chain(percentiles).chain([latency.max_ns]);
        let values: Vec<String> = values.map(|ns| Nanos(ns).to_string()).collect();
        // The mark of a percentile with few samples is no part of its value.
        let cells: Vec<&str> = shown[1..].iter().map(|cell| cell.trim_start_matches('~')).collect();
        let (samples, cells) = cells.split_last().expect("cells");
        assert_eq!(cells, values, "{row:?}");
        assert_eq!(samples.replace(',', ""), latency.count.to_string(), "{row:?}");
    }
}

#[test]
fn whatever_shows_a_run_shows_the_same() {
    let mut random = Random::new(1);
    for round in 0..4 {
        let dir = &*folder();
        let text = experiment(&mut random, round);
        eprintln!("{round}: {text}");
        std::fs::write(dir.join("run.toml"), &text).expect("file");
        let ended = run(dir, &["run", "run.toml"]).ok();
        let path = ended.report();
        let folder = dir.join(path.parent().expect("its folder"));
        let run = RunReader::open(&folder).expect("a run");
        let summary = run.record.summary.clone().expect("a summary");
        let (measured, warmup) =
            (run.merged(Phase::Measure).expect("a log"), run.merged(Phase::Warmup).expect("a log"));
        let messages = summary.messages();
        assert_eq!(messages.latency, measured.messages(), "JSON and log");
        // One that is killed knows no more of them.
        for (name, of) in summary.scenarios() {
            assert_eq!(run.record.scenarios[name].kind, of.kind, "{name}");
        }
        check_console(&figures(dir), &summary);
        check_slices(&run);
        check_page(&page_parts(&folder.join("report.html")), &measured, &warmup);

        // Everything that was sent was acknowledged, and is in one of the phases.
        let all = |metric| measured.histogram(metric).len() + warmup.histogram(metric).len();
        assert_eq!(all(Metric::ACK_RESPONSE), summary.flow().completed.total);
        assert_eq!(all(Metric::END_TO_END), summary.flow().received.total);
        // What the schedule had due in the measured phase, to a message at either end.
        let due = summary.requested().expect("a schedule").rate
            * run.record.phases.iter().filter(|p| p.phase == Phase::Measure).map(|p| p.end - p.start).sum::<f64>();
        let counted = measured.histogram(Metric::ACK_RESPONSE).len() as f64;
        assert!((counted - due).abs() <= 2.0, "{counted} of {due}");

        // A run that was cut off before it could write its record shows the same.
        std::fs::remove_file(folder.join(archive::file::RECORD)).expect("removable");
        let again = report::html::write_report(&folder).expect("a report");
        check_page(&page_parts(&again), &measured, &warmup);
    }
}
