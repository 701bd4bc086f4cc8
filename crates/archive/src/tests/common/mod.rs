//! A small run to write and read.

use std::path::Path;
use std::process::Command;

use crate::{
    BrokerSummary, Event, Hardware, ProcessUsage, RunRecord, RunState, RunSummary, RunWriter, SeriesPoint, Throughput,
    Versions,
};
use measure::{Counters, Interval, Metric, Nanos, Phase, Time};

/// The instant 2026-11-21T00:12:33Z.
pub(crate) const CREATED: u64 = 1_795_219_953_000_000_000;
pub(crate) const ORIGIN: Time = Time(5_000_000_000);

pub(crate) fn record(id: &str, state: RunState) -> RunRecord {
    RunRecord {
        schema: RunRecord::SCHEMA.into(),
        id: id.into(),
        name: "stream-publish".into(),
        created: "2026-11-21T00:12:33Z".into(),
        command: vec!["bellows".into(), "run".into(), "stream-publish".into()],
        experiment: serde_json::json!({"name": "stream-publish"}),
        versions: Versions { bellows: "0.1.0".into(), ..Versions::default() },
        hardware: Hardware { cores: 2, ..Hardware::default() },
        seed: 1,
        origin: ORIGIN,
        origin_unix_ns: CREATED,
        events: vec![Event { t: 1.5, label: "connection blocked: low on memory".into() }],
        state,
        summary: (state != RunState::Running).then(|| summary(id)),
        ..RunRecord::default()
    }
}

fn summary(id: &str) -> RunSummary {
    let mut summary = RunSummary {
        schema: RunSummary::SCHEMA.into(),
        run_dir: id.into(),
        broker: BrokerSummary { kind: "rabbitmq".into(), ..BrokerSummary::default() },
        ..RunSummary::default()
    };
    summary.flow_mut().sent = Throughput { total: 10, rate: 5.0 };
    summary
}

/// Java's HdrHistogram (Debian's `libhdrhistogram-java`) for a program of Java's, or why there is none.
pub(crate) fn java_histograms(program: &str) -> Result<&'static str, String> {
    const JARS: [&str; 2] = ["/usr/share/java/hdrhistogram.jar", "/usr/share/java/HdrHistogram.jar"];
    let jar = JARS.into_iter().find(|jar| Path::new(jar).exists());
    let jar = jar.ok_or_else(|| format!("needs {} (Debian package libhdrhistogram-java)", JARS[0]))?;
    let found = Command::new(program).arg("-version").output();
    found.map(|_| jar).map_err(|_| format!("needs {program} (Debian package default-jdk-headless)"))
}

/// Rows that Java's HistogramLogProcessor prints of a log, of one tag of it where there is a name: values as they are,
/// each with its quantile and how many are up to there.
pub(crate) fn processor_rows(jar: &str, log: &Path, tag: &str) -> Vec<Vec<f64>> {
    let mut command = testkit::java("java");
    command.args(["-cp", jar, "org.HdrHistogram.HistogramLogProcessor", "-csv", "-outputValueUnitRatio", "1"]);
    if !tag.is_empty() {
        command.args(["-tag", tag]);
    }
    let out = command.arg("-i").arg(log).output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{text}{}", String::from_utf8_lossy(&out.stderr));
    let rows = text.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit()));
    let rows: Vec<Vec<f64>> =
        rows.map(|row| row.split(',').map(|it| it.parse().unwrap_or(f64::INFINITY)).collect()).collect();
    assert!(rows.len() > 30, "{tag}: {text}");
    rows
}

/// The second that begins `second` seconds after the origin; its latencies are `1, 2, … 1000 us` times `second + 1`.
pub(crate) fn interval(second: u64, phase: Phase) -> Interval {
    let mut interval = Interval::new();
    interval.reset(ORIGIN + Nanos(second * 1_000_000_000), phase);
    interval.end = interval.start + Nanos::SECOND;
    interval.counters = Counters { sent: 1_000, completed: 1_000, ..Counters::default() };
    for us in 1..=1_000 {
        let value = Nanos::from_micros(us * (second + 1));
        interval.latencies.record(Metric::SEND_ACK, value);
        interval.latencies.record(Metric::ACK_RESPONSE, value + Nanos::from_millis(5));
    }
    interval
}

pub(crate) fn point(interval: &Interval) -> SeriesPoint {
    SeriesPoint {
        t: interval.start.since(ORIGIN).as_secs_f64(),
        dt: interval.length().as_secs_f64(),
        phase: interval.phase,
        requested_rate: Some(1_000.0),
        counters: interval.counters,
        latency: interval.latencies.messages(),
        loop_lag_max_ns: 12_000,
        broker: Some(ProcessUsage { cpu_cores: 0.9, rss_bytes: 100_000_000, threads: 40 }),
        steal: Some(0.0),
        ..SeriesPoint::default()
    }
}

/// One second of warm-up and three of measurement.
pub(crate) fn write_run(writer: &mut RunWriter, state: RunState) {
    writer.set_origin(ORIGIN, CREATED);
    let id = writer.id().to_owned();
    writer.write_record(&record(&id, RunState::Running));
    for second in 0..4 {
        let phase = if second == 0 { Phase::Warmup } else { Phase::Measure };
        let interval = interval(second, phase);
        writer.append_point(&point(&interval));
        writer.append_histograms(&interval);
    }
    writer.write_record(&record(&id, state));
}
