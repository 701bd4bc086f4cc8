//! Terminal output for the screens that it is made for.

mod brief;
mod difference;
mod functions;
mod ledger;
mod live;
mod live_beside;
mod runs;
mod scenario;
mod verdict;
mod warnings;

use archive::{
    BrokerSummary, Finding, MessageFlow, PerMessage, PhaseSpan, ProcessUsage, Rss, RunRecord, RunState, RunSummary,
    SeriesName, SeriesPoint, SeriesUnit, Throughput, Tier, Warning,
};
use measure::{Counters, Interval, LatencySummary, Metric, Nanos, Phase, Problem, Recorder, Time};
use stacks::{Frame, FrameKind, FunctionShare, Profile, ProfileSummary, Sample, StackNode};
use testkit::{assert_begins, assert_ends, assert_has, assert_lacks};

use super::{live_table::LiveTable, text::width, *};

const TERMINAL: Style = Style { terminal: true, colour: false, columns: 80, rows: 24 };

fn shape() -> Shape {
    Shape {
        title: "stream-publish".into(),
        producers: true,
        consumers: true,
        paced: true,
        latency: true,
        warmup: Nanos(5_000_000_000),
        measure: Some(Nanos(60_000_000_000)),
        ..Shape::default()
    }
}

pub(super) fn latency(count: u64) -> LatencySummary {
    let (min_ns, mean_ns, p50_ns, p90_ns) = (92_000, 485_420, 301_000, 619_000);
    let (p99_ns, p99_9_ns, p99_99_ns, max_ns) = (3_231_000, 13_759_000, 112_127_000, 250_879_000);
    LatencySummary { count, min_ns, mean_ns, p50_ns, p90_ns, p99_ns, p99_9_ns, p99_99_ns, max_ns }
}

fn point(phase: Phase, t: f64) -> SeriesPoint {
    SeriesPoint {
        t,
        dt: 1.0,
        phase,
        requested_rate: Some(8_000.0),
        counters: Counters { sent: 8_114, completed: 8_114, received: 8_113, blocked: 8_114, ..Counters::default() },
        latency: Metric::MESSAGES.into_iter().map(|m| (m, latency(8_114))).collect(),
        loop_lag_max_ns: 12_000,
        broker: Some(ProcessUsage { cpu_cores: 1.2, rss_bytes: 180_000_000, threads: 40 }),
        client: Some(ProcessUsage { cpu_cores: 0.31, rss_bytes: 22_000_000, threads: 3 }),
        ..SeriesPoint::default()
    }
}

fn run_summary(warnings: usize) -> RunSummary {
    let through = Throughput { total: 3_288_123, rate: 54_802.1 };
    let text = "broker and generator share 2 cores, so that each slows the other down and every latency is too high; \
                use a machine with 4 cores";
    let shared = |i: usize| warned(Tier::Caution, Finding::DebugBuild {}, &format!("{i}: {text}"));
    let mut summary = RunSummary {
        schema: RunSummary::SCHEMA.into(),
        run_dir: "runs/x".into(),
        broker: BrokerSummary { kind: "rabbitmq".into(), version: Some("3.10.8".into()), pid: Some(4711) },
        cpu_cores: PerMessage { broker: Some(1.2), client: Some(0.31) },
        rss_mb: Rss { broker: Some(180.2), client: Some(22.4) },
        profiles: vec![ProfileSummary {
            event: "cpu".into(),
            clock: "cpu-clock".into(),
            frequency: 999,
            samples: 24_012,
            unknown_share: 0.032,
            complete_share: 0.981,
            copied_share: 1.0,
            copied_bytes: 2_068,
            headline: Some(share("$rabbit_channel:handle_method/3".into(), "", 0.0, 0.2412)),
            top: (0..20)
                .map(|i| format!("$rabbit_channel:handle_method_with_a_long_name/{i}").repeat(2))
                .map(|function| share(function, "[jit]", 0.0669, 0.095))
                .collect(),
            ..ProfileSummary::default()
        }],
        warnings: (0..warnings).map(shared).collect(),
        ..RunSummary::default()
    };
    let (sent, completed, received, blocked) = (through, through, through, through);
    *summary.flow_mut() = MessageFlow { sent, completed, received, blocked, ..MessageFlow::default() };
    let messages = summary.messages_mut();
    let all = Metric::MESSAGES.into_iter();
    messages.latency = all.map(|metric| (metric, latency(50_000))).collect();
    messages.cpu_us_each = PerMessage { broker: Some(21.9), client: Some(0.61) };
    summary
}

fn warned(tier: Tier, finding: Finding, text: &str) -> Warning {
    Warning { text: text.to_owned(), ..Warning::new(tier, finding) }
}

/// A caution in its own words.
fn told(finding: Finding) -> Warning {
    let warning = Warning::new(Tier::Caution, finding);
    Warning { text: crate::text::warning(&warning), ..warning }
}

fn share(function: String, module: &str, self_share: f64, total: f64) -> FunctionShare {
    FunctionShare { function, module: module.into(), self_share, total }
}

fn record(state: RunState, summary: Option<RunSummary>) -> RunRecord {
    RunRecord {
        schema: RunRecord::SCHEMA.into(),
        id: "2026-11-21T00-12-33Z-stream-publish-7k2q".into(),
        name: "stream-publish".into(),
        created: "2026-11-21T00:12:33Z".into(),
        command: vec!["bellows".into()],
        seed: 1,
        phases: vec![PhaseSpan { phase: Phase::Measure, start: 5.0, end: 65.0 }],
        state,
        summary,
        ..RunRecord::default()
    }
}

fn assert_fits(text: &str, columns: usize, rows: usize) {
    assert!(text.lines().count() <= rows, "{} lines:\n{text}", text.lines().count());
    for line in text.lines() {
        assert!(width(line) <= columns, "{} columns: {line}", width(line));
    }
}

fn terminal(columns: usize) -> Style {
    Style { columns, ..TERMINAL }
}

/// A text without its layout.
pub(super) fn flowing(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn row(live: &LiveTable, begin: &str) -> String {
    let lines = live.lines();
    let found = lines.iter().find(|line| line.starts_with(begin));
    found.unwrap_or_else(|| panic!("{begin}: {lines:#?}")).clone()
}

#[test]
fn a_pipe_gets_one_line_for_each_interval() {
    let mut point = point(Phase::Warmup, 0.0);
    point.counters.blocked = 0;
    let text = line(&shape(), &point);
    let expected = "    1.0 s  warm-up  sent 8,110 msg/s  received 8,110 msg/s  ack response p50 301 µs p99 3.23 ms \
                    max 251 ms  end-to-end p50 301 µs p99 3.23 ms max 251 ms  send ack p50 301 µs p99 3.23 ms max 251 \
                    ms  transfer p50 301 µs p99 3.23 ms max 251 ms  send delay p50 301 µs p99 3.23 ms max 251 ms  \
                    broker 1.20 cores, 180 MB  bellows 0.31 cores\n";
    assert_eq!(text, expected);
    // Figures that differ, and are not 0, are shown.
    point.counters.completed = 7_000;
    point.counters.blocked = 5;
    assert_has(line(&shape(), &point), ["  completed 7,000 msg/s  ", "  blocked 5.00 msg/s  "]);
    // Rates divide by the measured length.
    for (dt, told) in [(0.5, "  sent 16,200 msg/s"), (0.0, "  sent 0 msg/s")] {
        point.dt = dt;
        assert_has(line(&shape(), &point), [told]);
    }
    let shape = Shape { consumers: false, latency: false, ..shape() };
    (point.phase, point.dt) = (Phase::Measure, 1.0);
    let text = line(&shape, &point);
    assert_begins(&text, "    1.0 s  measure  sent ");
    assert_lacks(text, ["received", "p99"]);
    // A process that is gone has no memory.
    let gone = ProcessUsage { cpu_cores: 0.42, ..ProcessUsage::default() };
    point.broker = Some(gone);
    assert_has(line(&shape, &point), ["  broker 0.42 cores  bellows 0.31 cores"]);
    let kept = serde_json::to_value(gone).unwrap();
    assert_eq!(kept, serde_json::json!({ "cpu_cores": 0.42 }));
    assert_eq!(serde_json::from_value::<ProcessUsage>(kept).unwrap(), gone);
}

/// The line of an interval beside which nothing has come.
fn line(shape: &Shape, point: &SeriesPoint) -> String {
    interval::line(shape, point, &[]).expect("a line")
}

#[test]
fn a_pipe_gets_the_summary_of_a_terminal() {
    let record = record(RunState::Interrupted, None);
    let text = |style| summary(&shape(), &record, &run_summary(3), Some("runs/x"), style);
    let pipe = text(Style::PLAIN);
    assert_eq!(flowing(&pipe), flowing(&text(terminal(200))));
    assert_begins(&pipe, "stream-publish: Stopped after 65 s: 54,800 msg/s ");
    // Nobody takes the number of messages for that of the measured phase.
    assert_has(&pipe, ["  whole run  measured msg/s"]);
    // A line each, so that they can be searched for.
    assert_eq!(pipe.matches("\ncaution: ").count(), 3, "{pipe}");
    assert!(pipe.lines().any(|line| line.starts_with("caution: 2:") && line.ends_with("4 cores")));
    assert_ends(pipe, "\nreport: runs/x\n");
    // Causes and verdicts were one line, however long.
    let words = "a cause of many words, ".repeat(30);
    let mut long = run_summary(1);
    long.warnings[0].text = words.clone();
    long.error = Some(Problem::new(&words, "", ""));
    let text =
        summary(&shape(), &record, &long, None, Style::PLAIN) + &error(&Problem::new(&words, "", &words), Style::PLAIN);
    assert_fits(&text, 200, usize::MAX);
    assert_eq!(flowing(&text).matches(words.trim()).count(), 4, "{text}");
}

#[test]
fn cpu_is_told_in_cores_where_other_load_ran_beside_the_messages() {
    let record = record(RunState::Complete, None);
    let told = PerMessage { broker: Some(0.523), client: Some(0.25) };
    let mut run = run_summary(0);
    run.messages_mut().cpu_us_each = PerMessage::default();
    run.cpu_cores = told;
    let text = summary(&shape(), &record, &run, None, Style::PLAIN);
    assert_has(&text, ["CPU cores", "broker        0.52"]);
    assert_lacks(text, ["µs/msg"]);
}

#[test]
fn the_workers_of_a_fleet_are_rows_below_the_latencies() {
    let worker = |name: &str, limits| archive::WorkerSummary {
        name: name.to_owned(),
        share: Some(archive::WorkerShare { producers: 2, consumers: 3, destinations: 1 }),
        sent_rate: 6_670.0,
        at_work: 0.12,
        limits,
        ..archive::WorkerSummary::default()
    };
    let run = RunSummary { workers: vec![worker("load-1", false), worker("load-2", true)], ..run_summary(0) };
    let record = record(RunState::Complete, None);
    for columns in [80, 200] {
        let text = summary(&shape(), &record, &run, None, terminal(columns));
        assert_fits(&text, columns, usize::MAX);
        assert_has(flowing(&text), ["load-1", "destinations", "6,670", "12 %", "ended; limited the run"]);
    }
    // Labels and hosts of Kubernetes are longer than a screen is wide.
    let mut wide = worker("load-1", false);
    wide.labels = [("topology.kubernetes.io/zone", "europe-west1-b"), ("pool", "load-generators-of-sixteen-cores")]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
    wide.host = format!("bellows-worker-0.{}.svc.cluster.local", "bellows-workers".repeat(3));
    let wide = RunSummary { workers: vec![wide, worker("load-2", false)], ..run_summary(0) };
    for columns in [60, 80] {
        let text = summary(&shape(), &record, &wide, None, terminal(columns));
        assert_fits(&text, columns, usize::MAX);
        assert_has(text, ["pool=load", "europe-west1-b", "cluster.local"]);
    }
    let absence = archive::WorkerAbsence { tolerated: true, ..archive::WorkerAbsence::default() };
    let lost = archive::WorkerSummary { lost_s: Some(2.3), absence, ..worker("load-3", false) };
    let run = RunSummary { workers: vec![lost], ..run };
    let text = summary(&shape(), &record, &run, None, terminal(200));
    assert_has(flowing(&text), ["; worker load-3 was lost after 2.30 s: tolerated"]);
}

#[test]
fn the_summary_is_laid_out_for_every_width_and_nothing_is_cut() {
    for warnings in [0, 1, 2, 12] {
        let run = run_summary(warnings);
        let record = record(RunState::Complete, None);
        let text = |style| summary(&shape(), &record, &run, Some("runs/x/report.html"), style);
        let letters = |text: &str| {
            let mut kept: Vec<char> = text.chars().filter(|c| !c.is_whitespace()).collect();
            kept.sort_unstable();
            kept
        };
        let whole = letters(&text(terminal(200)));
        for columns in 60..=200 {
            let rows = [10, 24, 60][(columns + warnings) % 3];
            let text = text(Style { rows, ..terminal(columns) });
            assert_fits(&text, columns, usize::MAX);
            assert_ends(&text, "report: runs/x/report.html\n");
            assert_lacks(&text, ["…"]);
            // Tables that stand below each other repeat their first column.
            if columns >= 80 {
                assert_eq!(letters(&text), whole, "{columns}: {text}");
            }
            let flowing = flowing(&text);
            assert_has(&flowing, ["stream-publish: 54,800 msg/s through RabbitMQ for 60 s;"]);
            assert_has(&flowing, ["~112 ms", "251 ms", "fewer than ten samples", "CPU µs/msg", "21.9"]);
            let samples = text.lines().position(|line| line.ends_with(" max  samples")).expect("their number");
            // Columns without room stand in a block of their own.
            let is_block = text.lines().nth(samples - 1).is_some_and(str::is_empty);
            assert!(is_block && text.contains("50,000"), "{text}");
            assert_has(&flowing, ["24,012 samples by cpu-clock at 999 Hz, 0 lost"]);
            assert_eq!(flowing.matches("use a machine").count(), warnings, "{text}");
            assert_eq!(flowing.contains("no warnings"), warnings == 0, "{text}");
        }
    }
}

#[test]
fn the_page_and_the_console_say_the_same_sentence() {
    let dir = tempfile::tempdir().expect("a folder");
    for state in [RunState::Complete, RunState::Interrupted] {
        let mut writer = archive::RunWriter::create(dir.path(), "x", 0).expect("a folder");
        let record = record(state, Some(run_summary(0)));
        writer.write_record(&record);
        let run = archive::RunReader::open(writer.dir()).expect("a run");
        let page = crate::view::RunPage::read(&run).expect("a page");
        let said: String = page.run.headline.iter().map(|p| p.text.as_str()).collect();
        assert_has(&said, ["24.1 % total share in rabbit_channel:handle_method/3"]);
        // The first that makes room.
        assert_eq!(said.contains("end-to-end"), state == RunState::Complete, "{said}");
        let text = summary(&shape(), &record, &run_summary(0), None, TERMINAL);
        assert_begins(flowing(&text), format!("stream-publish: {said}"));
    }
}

#[test]
fn limits_of_amqp_1_0_are_told_where_rabbitmq_was_loaded_over_it() {
    let dir = tempfile::tempdir().expect("a folder");
    for (protocol, broker, are_told) in
        [("amqp10", "RabbitMQ 4.0.5", true), ("amqp091", "RabbitMQ 4.0.5", false), ("amqp10", "Artemis 2.40.0", false)]
    {
        let mut record = record(RunState::Complete, Some(run_summary(0)));
        record.versions.broker = Some(broker.into());
        let load = serde_json::json!({"protocol": protocol, "producers": 1, "consumers": 0, "total-consumers": 2,
            "max-pending": 2_000, "prefetch": 200});
        let advanced = "[{rabbit, [{max_link_credit , 400}]}].";
        let broker = serde_json::json!({"kind": "rabbitmq", "advanced": advanced});
        record.experiment = serde_json::json!({"broker": broker, "load": [load]});
        let mut both = record.clone();
        let other = serde_json::json!({"protocol": null, "producers": 1, "max-pending": 7});
        both.experiment["load"].as_array_mut().expect("loads").push(other);
        let of_both = if protocol == "amqp10" { "AMQP 0.9.1 and 1.0" } else { "AMQP 0.9.1" };
        assert_eq!(crate::text::protocol(&both), Some(of_both));
        assert_eq!(crate::text::amqp10_limits(&both), crate::text::amqp10_limits(&record), "of those over it alone");
        let text = flowing(&summary(&shape(), &record, &run_summary(0), None, Style::PLAIN));
        let told = "AMQP 1.0: producers' in-flight window 2,000 (max-pending); consumers' link credit 200 (prefetch); \
                    consumers' session window 65,536 frames; RabbitMQ's link credit 400 (max_link_credit); RabbitMQ's \
                    session window 400, its default (max_incoming_window)";
        assert_eq!(text.contains(told), are_told, "{text}");
        let names = ["AMQP 0.9.1", "AMQP 1.0"].map(|name| text.contains(name));
        assert_eq!(names, [protocol == "amqp091", protocol == "amqp10"], "{text}");
        let mut writer = archive::RunWriter::create(dir.path(), "x", 0).expect("a folder");
        writer.write_record(&record);
        let run = archive::RunReader::open(writer.dir()).expect("a run");
        assert_eq!(crate::view::RunPage::read(&run).expect("a page").run.limits.len(), if are_told { 6 } else { 0 });
        // Of a hidden setting the default was told.
        record.experiment["broker"]["advanced"] = "***".into();
        let limits = crate::text::amqp10_limits(&record);
        assert_eq!(limits.iter().any(|it| it.1.starts_with("not known; 170 by default")), are_told, "{limits:?}");
    }
}

#[test]
fn names_from_the_network_cannot_move_the_cursor() {
    let mut run = run_summary(1);
    run.profiles[0].top[0].function = "evil\u{1b}[2J".into();
    run.warnings[0].text = "alarm \u{1b}]0;title\u{7}".into();
    for style in [TERMINAL, Style::PLAIN] {
        let record = record(RunState::Complete, None);
        assert_lacks(summary(&shape(), &record, &run, Some("x"), style), ["\u{1b}", "\u{7}"]);
    }
    let mut problem = Problem::new("closed", "\u{1b}[31mNOT\r\nFOUND", "look");
    problem.log = "a\tb\nc".into();
    assert_eq!(error(&problem, Style::PLAIN), "error: closed: ␛[31mNOT FOUND\nhelp: look\n  a␉b\n  c\n");
    // Below the end of a run, which has the cause.
    assert_eq!(help(&problem, Style::PLAIN), "help: look\n  a␉b\n  c\n");
    // Text wider than the screen is broken into lines, but for a path.
    let path = format!("/{}/run.json", "long".repeat(20));
    let mut problem = Problem::new(
        format!("cannot read {path} that was given to this command"),
        "no such file",
        "give a folder that holds a run, or the first letters of the name of one: bellows runs",
    );
    problem.log = "2026-11-29 12:00:00 [error] <0.230.0> the node was stopped by somebody".into();
    let text = error(&problem, terminal(60));
    let painted = Style { colour: true, ..terminal(60) };
    let lines = |text: &str| text.lines().count();
    assert_eq!(lines(&error(&problem, painted)), lines(&text));
    assert_eq!(text.lines().filter(|line| width(line) > 60).collect::<Vec<&str>>(), [path.as_str()], "{text}");
    assert!(lines(&text) >= 6, "{text}");
}

#[test]
fn the_live_table_fits_the_terminal_in_every_phase() {
    for (columns, rows) in [(80, 24), (100, 30), (60, 20)] {
        let mut live = LiveTable::new(shape(), Style { rows, ..terminal(columns) });
        assert_fits(&live.lines().join("\n"), columns, rows);
        let mut measured = Interval::new();
        for second in 0..70u32 {
            let phase = match second {
                0..5 => Phase::Warmup,
                5..65 => Phase::Measure,
                _ => Phase::Drain,
            };
            let mut recorder = Recorder::new();
            recorder.record_n(Metric::ACK_RESPONSE, Nanos(4_210_000), 8_114);
            if phase == Phase::Measure {
                measured.latencies.merge(&recorder);
                measured.counters.sent += 8_114;
                measured.start = Time(5_000_000_000);
                measured.end = Time(u64::from(second + 1) * 1_000_000_000);
            }
            live.point(&point(phase, f64::from(second)), &measured);
            assert_fits(&live.lines().join("\n"), columns, rows - 1);
        }
        let text = live.lines().join("\n");
        assert_has(&text, ["8,110", "486,840", "4.21 ms"]);
        let ten = text.contains("██████████");
        assert!(ten || columns < 80, "ten seconds of equal rate: {text}");
    }
}

#[test]
fn latencies_say_which_time_they_are_of() {
    let mut live = LiveTable::new(shape(), TERMINAL);
    let heads = |live: &LiveTable| {
        let lines = live.lines();
        lines.iter().find(|line| line.contains("p99.9")).expect("a table of latencies").trim_start().to_owned()
    };
    let mut warmup = point(Phase::Warmup, 1.0);
    live.point(&warmup, &Interval::new());
    assert_has(heads(&live), ["last 1 s "]);
    // A warm-up may be shorter than an interval.
    warmup.dt = 0.5;
    let mut short = LiveTable::new(shape(), TERMINAL);
    short.point(&warmup, &Interval::new());
    assert_has(heads(&short), ["last 0.5 s "]);
    let lines = short.lines().join("\n");
    assert_has(&lines, ["last 0.5 s, msg/s"]);
    assert_lacks(lines, ["last 0 s"]);
    short.point(&point(Phase::Measure, 1.0), &Interval::new());
    assert_has(short.lines().join("\n"), ["last 1.5 s, msg/s"]);
    let mut measured = Interval::new();
    let mut recorder = Recorder::new();
    recorder.record_n(Metric::ACK_RESPONSE, Nanos(4_210_000), 8_114);
    measured.latencies.merge(&recorder);
    live.point(&point(Phase::Measure, 5.0), &measured);
    assert_has(heads(&live), ["measured "]);
    // All rows are of that time.
    assert_ends(row(&live, "transfer").trim_end(), "-");
}

#[test]
fn a_page_that_is_away_shows_no_values_and_whose_its_series_are() {
    let mut live = LiveTable::new(shape(), Style { rows: 50, ..terminal(120) });
    live.enter(Phase::Measure);
    live.point(&point(Phase::Measure, 5.0), &Interval::new());
    let name = |page, name, unit| SeriesName::new(page, name, unit);
    for page in ["metrics of node 0", "metrics of node 1"] {
        live.beside.add(&[
            (name(page, "scrape time", SeriesUnit::Seconds), 0.0284),
            (name(page, "rabbitmq_connections", SeriesUnit::Count), 2.0),
        ]);
    }
    assert_has(row(&live, "metrics of node 1 "), ["28.4 ms"]);
    live.beside.failed("metrics of node 1");
    live.beside.failed("metrics of node 1");
    let away = row(&live, "metrics of node 1 ");
    let cells: Vec<&str> = away.split_whitespace().skip(4).collect();
    assert_eq!(cells[..7], ["-", "28.4", "ms", "-", "-", "1", "2"], "{away}");
    assert_has(row(&live, "scraped page"), ["failed"]);
    assert_ends(row(&live, "metrics of node 0: rabbitmq_connections").trim_end(), " 2");
    assert_ends(row(&live, "metrics of node 1: rabbitmq_connections").trim_end(), " -");
}

#[test]
fn the_bar_says_where_the_run_is_and_the_last_second_of_a_phase_does_not_end_the_next_one() {
    let mut live = LiveTable::new(shape(), TERMINAL);
    live.enter(Phase::Measure);
    for second in 5..28 {
        live.point(&point(Phase::Measure, f64::from(second)), &Interval::new());
    }
    live.waiting = Some("killed: 3 s".into());
    let lines = live.lines();
    assert_has(&lines[1], ["0:23 / 1:00"]);
    let (done, open) = (lines[1].matches('━').count(), lines[1].matches('─').count());
    assert!(done > 5 && open > done && lines[2] == "killed: 3 s");
    let mut live = LiveTable::new(shape(), TERMINAL);
    live.point(&point(Phase::Measure, 5.0), &Interval::new());
    live.enter(Phase::Drain);
    let drain = live.lines()[1].clone();
    live.point(&point(Phase::Measure, 6.0), &Interval::new());
    assert_eq!(live.phase, Some(Phase::Drain));
    assert_eq!(live.lines()[1], drain);
}

#[test]
fn a_profile_alone_shows_no_messages_and_no_drain() {
    let mut live = LiveTable::new(Shape { measure: Some(Nanos(10_000_000_000)), ..Shape::default() }, TERMINAL);
    live.point(&point(Phase::Measure, 0.0), &Interval::new());
    let text = live.lines().join("\n");
    assert_has(&text, ["measure ", " / 0:10"]);
    assert_lacks(text, ["msg/s", "drain"]);
}
