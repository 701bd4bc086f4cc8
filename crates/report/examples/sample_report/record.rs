//! `run.json` of a made-up run.

use archive::{
    BindingRecord, BrokerSummary, BrokerUse, CoresUsed, Event, ExchangeRecord, Facts, FewSamples, Finding, Hardware,
    LimitedBy, LoopUse, MessageFlow, PerMessage, PhaseSpan, ProducerTime, QuantityUnit, QueueRecord, Reason,
    RequirementOutcome, Rss, RunRecord, RunState, RunSummary, SeriesPoint, Throughput, Tier, Topology, Verdict,
    Versions, Warning, WorkerAbsence, WorkerShare, WorkerSummary,
};
use measure::ledger::LedgerSummary;
use measure::{Counters, Metric, Phase, Problem};
use serde_json::json;

use crate::load::{Run, Shape};
use crate::{ORIGIN, STARTED_UNIX_NS, State};

pub(crate) fn record(id: &str, state: &State, run: &Run) -> RunRecord {
    let ended = state.state != RunState::Running;
    RunRecord {
        schema: RunRecord::SCHEMA.into(),
        id: id.into(),
        name: name(state).into(),
        created: "2026-11-21T00:12:33Z".into(),
        command: ["bellows", "run", "stream-publish", "--set", "phases.measure=60s"].map(String::from).into(),
        experiment: experiment(state),
        versions: Versions {
            bellows: "0.1.0".into(),
            broker: (state.load != Some(Shape::Bare)).then(|| "RabbitMQ 3.10.8".into()),
            runtime: (state.load != Some(Shape::Bare)).then(|| "Erlang/OTP 25".into()),
        },
        hardware: hardware(),
        seed: u64::MAX - 41,
        origin: ORIGIN,
        origin_unix_ns: STARTED_UNIX_NS,
        phases: if ended { phases(run) } else { Vec::new() },
        events: events(state),
        looks: crate::traces::looks(state),
        topology: topology(state),
        state: state.state,
        error: problem(state).as_ref().map(Problem::sentence),
        problem: problem(state),
        warnings: warnings(state),
        summary: ended.then(|| {
            let mut summary = summary(state, run);
            summary.traces = crate::traces::summaries(state);
            if state.faults {
                crate::faults::summarise(&mut summary, &run.measured);
            }
            summary
        }),
        ..RunRecord::default()
    }
}

fn problem(state: &State) -> Option<Problem> {
    (state.state == RunState::Failed).then(|| {
        Problem::new(
            "lost the connection to amqp://guest@127.0.0.1:5672/",
            "CONNECTION_FORCED (320), broker forced connection closure with reason 'shutdown'",
            "the broker's log says why it closed or died",
        )
    })
}

const fn name(state: &State) -> &'static str {
    match (state.hostile, state.load) {
        (true, _) => "<script>alert(1)</script>\u{1b}[31m",
        (_, Some(Shape::AllOut)) => "stream-publish",
        (_, Some(Shape::Rate)) => "quorum-20k",
        (_, Some(Shape::Bare)) => "client-test-queue",
        (_, None) => "record-rabbit",
    }
}

fn experiment(state: &State) -> serde_json::Value {
    let load = match state.load {
        None => json!([]),
        Some(Shape::AllOut) => json!([{"destination": "queue://my-stream", "queue_type": "stream",
            "producers": 1, "consumers": 0, "max_pending": 2000, "message_size": 12, "persistent": true}]),
        Some(_) => {
            json!([{"destination": "queue://orders", "destinations": 3, "queue_type": "quorum",
            "producers": 2, "consumers": 2, "rate": 20000, "message_size": 1024, "prefetch": 200}])
        }
    };
    json!({
        "name": name(state), "broker": {"kind": "rabbitmq", "root": "/"},
        "phases": {"warmup": "5s", "measure": format!("{}s", state.seconds), "drain": "10s"},
        "load": load, "profile": {"events": ["cpu"], "frequency": 999},
    })
}

fn hardware() -> Hardware {
    let setting = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    Hardware {
        cpu: "AMD EPYC 7B13".into(),
        cores: 2,
        memory_bytes: 8_320_000_000,
        kernel: "Linux 6.1.0-27-amd64".into(),
        os: "Debian GNU/Linux 12 (bookworm)".into(),
        clock_source: Some("kvm-clock".into()),
        virtualised: true,
        settings: vec![
            setting("kernel.perf_event_paranoid", "-1"),
            setting("kernel.kptr_restrict", "0"),
            setting("scaling governor", "unknown"),
            setting("transparent huge pages", "madvise"),
        ],
    }
}

fn phases(run: &Run) -> Vec<PhaseSpan> {
    [Phase::Warmup, Phase::Measure, Phase::Drain]
        .into_iter()
        .filter_map(|phase| {
            let mut of = run.points.iter().filter(|p| p.phase == phase);
            let first = of.next()?;
            let last = of.next_back().unwrap_or(first);
            Some(PhaseSpan { phase, start: first.t, end: last.t + last.dt })
        })
        .collect()
}

fn events(state: &State) -> Vec<Event> {
    if state.load.is_none() {
        return Vec::new();
    }
    if state.faults {
        return crate::faults::events();
    }
    let stall = 5.0 + f64::from(state.seconds) * 0.45;
    let label = if state.hostile { "<b>stopped</b> \u{202e}for 500 ms" } else { "broker stopped for 500 ms (SIGSTOP)" };
    vec![
        Event { t: stall, label: label.into() },
        Event { t: stall + f64::from(state.seconds) * 0.2, label: "connection.blocked: low on disk".into() },
    ]
}

fn topology(state: &State) -> Topology {
    let queue = |name: &str, kind: &str, messages, consumers, arguments: &[&str]| QueueRecord {
        name: name.into(),
        vhost: "/".into(),
        kind: kind.into(),
        durable: true,
        messages,
        consumers,
        arguments: arguments.iter().map(|a| (*a).to_owned()).collect(),
        ..QueueRecord::default()
    };
    let queues = match state.load {
        None | Some(Shape::Bare) => return Topology::default(),
        Some(Shape::AllOut) => {
            vec![queue("my-stream", "stream", 3_531_204, 0, &["x-queue-type=stream", "x-max-length-bytes=20000000000"])]
        }
        Some(Shape::Rate) => (0..3)
            .map(|i| {
                let name = if state.hostile && i == 0 {
                    "orders<script>alert(1)</script>\u{7}".to_owned()
                } else {
                    format!("orders{i}")
                };
                queue(&name, "quorum", 12, 2, &["x-queue-type=quorum"])
            })
            .collect(),
    };
    let binding = |q: &QueueRecord| BindingRecord {
        vhost: "/".into(),
        destination: q.name.clone(),
        destination_type: "queue".into(),
        routing_key: q.name.clone(),
        ..BindingRecord::default()
    };
    Topology {
        bindings: queues.iter().map(binding).collect(),
        exchanges: vec![ExchangeRecord { name: "amq.topic".into(), vhost: "/".into(), kind: "topic".into() }],
        queues,
        ..Topology::default()
    }
}

/// The workers that carried the load of the state `rate` alone.
fn workers(state: &State) -> Vec<WorkerSummary> {
    let worker = |number: u32, zone: &str| WorkerSummary {
        name: format!("load-{number}"),
        host: format!("host-{number}"),
        labels: [("zone".to_owned(), zone.to_owned())].into(),
        version: "0.1.0".into(),
        cores: 2,
        share: Some(WorkerShare { producers: 2, consumers: 2, destinations: 1 }),
        late_s: Some(21e-6),
        clock_offset_s: Some(1.24e-3 * f64::from(number)),
        clock_bound_s: Some(31e-6),
        sent: 400_000,
        received: 400_000,
        sent_rate: 6_670.0,
        received_rate: 6_670.0,
        cpu_cores: 0.11,
        at_work: 0.12,
        run_queue_wait: 0.004,
        late_share: Some(0.001),
        ..WorkerSummary::default()
    };
    let absence = WorkerAbsence { tolerated: true, ..WorkerAbsence::default() };
    let lost = WorkerSummary { lost_s: Some(31.4), absence, cpu_cores: 0.0, ..worker(3, "b") };
    if state.name == "rate" { vec![worker(1, "a"), worker(2, "a"), lost] } else { Vec::new() }
}

/// Latencies that two clocks took: well enough in the state `rate`, and not so in `plain`.
fn clock_bounds(state: &State) -> Vec<Warning> {
    let (p50_s, bound_s, tier) = match state.name {
        "rate" => (Some(1.1e-3), 80e-6, Tier::Note),
        "plain" => (None, 10e-3, Tier::Caution),
        _ => return Vec::new(),
    };
    let told = [Metric::END_TO_END, Metric::TRANSFER].map(|metric| {
        let latency = metric.name().to_owned();
        let mut warning = Warning::new(tier, Finding::ClockBound { latency, p50_s, bound_s });
        warning.text = report::text::warning(&warning);
        warning
    });
    told.into()
}

fn warnings(state: &State) -> Vec<Warning> {
    if state.load != Some(Shape::Rate) {
        return clock_bounds(state);
    }
    let mut all = vec![
        Warning::new(
            Tier::Caution,
            Finding::TooFewCores {
                used: CoresUsed {
                    cores: 2,
                    broker_cores: 1.2,
                    client_cores: 0.2,
                    run_queue_wait: 0.21,
                    ..CoresUsed::default()
                },
            },
        ),
        Warning::new(
            Tier::Note,
            Finding::TooFewSamples {
                latencies: vec![FewSamples {
                    latency: "end-to-end".to_owned(),
                    samples: 60_000,
                    percentile: "p99.99".to_owned(),
                }],
            },
        ),
    ];
    for warning in &mut all {
        warning.text = report::text::warning(warning);
    }
    all.extend(clock_bounds(state));
    if state.hostile {
        let trend = Finding::NotSteadyState { change: 0.2, seconds: 60 };
        let missed =
            Finding::RateNotAchieved { unit: "messages".to_owned(), rates: None, not_begun: 1, in_flight_limit: 1 };
        let more = [(trend, Tier::Caution), (Finding::CpuSteal { steal: 0.1 }, Tier::Note), (missed, Tier::Invalid)];
        all.extend(more.map(|(finding, tier)| {
            let mut warning = Warning::new(tier, finding);
            warning.text = "observed <u>so much</u>; measure again".into();
            warning
        }));
    }
    all
}

/// Requirements and their outcomes, of the state `rate` alone.
fn requirements(state: &State, run: &Run) -> Vec<RequirementOutcome> {
    if state.load != Some(Shape::Rate) || state.hostile || state.faults {
        return Vec::new();
    }
    let latencies = run.measured.latencies.messages();
    let p99 = latencies.get(Metric::END_TO_END).p99_ns as f64;
    let required = |that: &str, observed: f64, bound: f64, unit, met| RequirementOutcome {
        that: that.to_owned(),
        observed: Some(observed),
        bound,
        unit,
        met: Some(met),
        ..RequirementOutcome::default()
    };
    vec![
        required("end-to-end p99 < 2ms", p99, 2e6, QuantityUnit::Ns, p99 < 2e6),
        required("sent rate >= 19k", 20e3, 19e3, QuantityUnit::PerSecond, true),
        required("lost = 0", 0.0, 0.0, QuantityUnit::Count, true),
    ]
}

fn summary(state: &State, run: &Run) -> RunSummary {
    let m = &run.measured;
    let seconds = m.length().as_secs_f64().max(1.0);
    let mut all = Counters::default();
    for point in &run.points {
        all.add(&point.counters);
    }
    let throughput = |total: u64, count: u64| Throughput { total, rate: count as f64 / seconds };
    let cpu = |get: fn(&SeriesPoint) -> Option<f64>| {
        let used: f64 = run.points.iter().filter_map(get).sum();
        (m.counters.sent > 0 && used > 0.0).then(|| used * 1e6 / m.counters.sent as f64)
    };
    let cores = |get: fn(&SeriesPoint) -> Option<f64>| {
        let measured = || run.points.iter().filter(|p| p.phase == Phase::Measure);
        let used: f64 = measured().filter_map(get).sum();
        (used > 0.0).then(|| used / measured().count() as f64)
    };
    let known = state.load != Some(Shape::Bare);
    let mut summary = RunSummary {
        nodes: if state.faults { crate::beside::nodes() } else { Vec::new() },
        workers: workers(state),
        schema: RunSummary::SCHEMA.into(),
        run_dir: "runs/sample".into(),
        broker: BrokerSummary { kind: "rabbitmq".into(), version: Some("3.10.8".into()), pid: Some(4711) },
        verdict: verdict(state),
        error: problem(state),
        scrapes: if state.faults { crate::beside::scrapes() } else { Vec::new() },
        requirements: requirements(state, run),
        cpu_cores: PerMessage {
            broker: cores(|p| p.broker.map(|u| u.cpu_cores)),
            client: cores(|p| p.client.map(|u| u.cpu_cores)),
        },
        rss_mb: Rss { broker: known.then_some(224.6), client: Some(21.4) },
        warnings: warnings(state),
        ..RunSummary::default()
    };
    *summary.flow_mut() = MessageFlow {
        sent: throughput(all.sent, m.counters.sent),
        completed: throughput(all.completed, m.counters.completed),
        received: throughput(all.received, m.counters.received),
        blocked: throughput(all.blocked, m.counters.blocked),
        ledger: Some(ledger()),
        ..MessageFlow::default()
    };
    let latencies = m.latencies.messages();
    let is_refused = |metric: Metric| summary.clock_bound(metric).is_some_and(|it| it.is_refused);
    let known: Vec<Metric> = latencies.iter().map(|it| it.0).filter(|it| !is_refused(*it)).collect();
    let messages = summary.messages_mut();
    messages.latency = known.into_iter().map(|metric| (metric, latencies.get(metric).clone())).collect();
    messages.cpu_us_each =
        PerMessage { broker: cpu(|p| p.broker.map(|u| u.cpu_cores)), client: cpu(|p| p.client.map(|u| u.cpu_cores)) };
    summary
}

/// Verdict of a broker whose answers were awaited; of runs at a rate, of a met schedule.
fn verdict(state: &State) -> Option<Verdict> {
    let (limited_by, sentence) = match state.load? {
        Shape::AllOut => (
            LimitedBy::Broker,
            "limited by the broker: producers waited 93 % of the time for confirms (2,000 in flight x \
             36.5 ms until confirmed), and its thread 2_scheduler used 97 % of a core",
        ),
        Shape::Rate => (
            LimitedBy::Schedule,
            "the requested rate was met: 20,000 msg/s, 0.1 % of them over 1 ms late; the generator's \
             event loop was busy 11 % of the time, late by up to 2.70 ms",
        ),
        Shape::Bare => return None,
    };
    let reason = |code: &str, text: &str, decided| Reason { code: code.into(), text: text.into(), decided };
    let name = if state.hostile { "<i>evil</i>\u{7}" } else { "2_scheduler" };
    Some(Verdict {
        limited_by,
        sentence: sentence.into(),
        reasons: vec![
            reason("in_flight_full", "producers were at the in-flight limit 93 % of the time", true),
            reason("broker_cpu", "the broker used 1.22 cores, its busiest thread (2_scheduler) 97 % of one", true),
            reason("machine_idle", "31 % of this machine's 2 cores were idle", false),
        ],
        cause: None,
        facts: Facts {
            seconds: f64::from(state.seconds),
            sent_rate: 54_800.0,
            producers: Some(ProducerTime { budget: 0.93, ready: 0.07, ..ProducerTime::default() }),
            in_flight_limit: Some(2_000),
            answer_ns: 36_500_000,
            loops: vec![LoopUse { cpu: 0.11, idle: 0.89, run_queue_wait: Some(0.02) }],
            loop_lag_median_ns: 90_000,
            loop_lag_max_ns: 900_000,
            cores: 2,
            machine_cores: 2,
            idle: Some(0.31),
            client_cores: Some(0.12),
            broker: Some(BrokerUse {
                cores: 1.22,
                busiest_thread: Some(0.97),
                busiest_thread_name: Some(name.into()),
                run_queue_wait: Some(0.05),
            }),
            same_machine: true,
            round_trip_ns: Some(48_000),
            idle_answer_ns: Some(410_000),
            ..Facts::default()
        },
    })
}

/// Two messages of a million lost, as after a crash of the broker.
fn ledger() -> LedgerSummary {
    LedgerSummary {
        sent: 1_000_000,
        delivered: 999_995,
        lost: 2,
        unconfirmed_missing: 3,
        unconfirmed_delivered: 1,
        duplicated_redelivered: 17,
        exact: true,
        ..LedgerSummary::default()
    }
}
