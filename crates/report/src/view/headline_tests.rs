//! What the first sentence says of runs of every kind.

use super::*;
use archive::{PerMessage, QueueRecord, Rss, Throughput};
use std::collections::BTreeMap;

fn figures() -> Figures {
    let none = Throughput {
        total: 0,
        rate: 0.0,
    };
    Figures {
        sent: Throughput {
            total: 3_300_000,
            rate: 54_812.3,
        },
        completed: none,
        received: none,
        blocked: Throughput {
            total: 3_000_000,
            rate: 50_000.0,
        },
        requested_rate: None,
        closed_loop: false,
        refused: 0,
        returned: 0,
        redelivered: 0,
        ledger: None,
        late_share: None,
        measured_s: 60.0,
        latency: [(
            Metric::ACK_RESPONSE,
            LatencySummary {
                count: 100_000,
                p99_ns: 31_000_000,
                ..LatencySummary::default()
            },
        )]
        .into_iter()
        .collect(),
        cpu_us_per_message: PerMessage::default(),
        cpu_cores: PerMessage {
            broker: Some(1.204),
            client: Some(0.1),
        },
        rss_mb: Rss::default(),
        scenarios: BTreeMap::new(),
    }
}

fn record(state: RunState, queues: &[&str]) -> RunRecord {
    let queue = |kind: &&str| QueueRecord {
        kind: (*kind).to_owned(),
        ..QueueRecord::default()
    };
    RunRecord {
        schema: RunRecord::SCHEMA.into(),
        id: "x".into(),
        name: "x".into(),
        created: String::new(),
        command: Vec::new(),
        experiment: serde_json::Value::Null,
        versions: archive::Versions::default(),
        hardware: archive::Hardware {
            cores: 2,
            ..archive::Hardware::default()
        },
        seed: 1,
        origin: measure::Time(0),
        origin_unix_ns: 0,
        metrics: Vec::new(),
        phases: Vec::new(),
        events: Vec::new(),
        topology: Topology {
            queues: queues.iter().map(queue).collect(),
            ..Topology::default()
        },
        state,
        error: None,
        problem: None,
        warnings: Vec::new(),
        summary: None,
    }
}

fn said(record: &RunRecord, figures: &Figures, verdict: Option<&Verdict>, burning: bool) -> String {
    let parts = sentence(&Facts {
        record,
        figures,
        verdict,
        broker: &BrokerSummary::default(),
        end: 32.4,
        burning: burning.then(|| ("rabbit_channel:handle_method/3".into(), 0.2412)),
        samples: 0,
    });
    parts.iter().map(|p| p.text.as_str()).collect()
}

#[test]
fn a_stream_is_published_to() {
    let record = record(RunState::Complete, &["stream"]);
    let verdict = Verdict {
        limited_by: LimitedBy::Broker,
        sentence: "limited by the broker: it fills the machine".into(),
        ..Verdict::default()
    };
    assert_eq!(
        said(&record, &figures(), Some(&verdict), true),
        "54,800 msg/s into a stream for 60 s; ack response p99 31.0 ms; the broker used 1.20 of \
         2 cores, 24.1 % of it below rabbit_channel:handle_method/3; limited by the broker."
    );
}

#[test]
fn an_outage_is_said_also_where_the_rate_was_met() {
    let mut verdict = Verdict {
        limited_by: LimitedBy::Schedule,
        ..Verdict::default()
    };
    let stall = |for_s, away| archive::Stall {
        for_s,
        away,
        ..archive::Stall::default()
    };
    let mut figures = figures();
    figures.requested_rate = Some(54_800.0);
    let record = record(RunState::Complete, &["quorum"]);
    verdict.facts.ended.stalls = vec![stall(15.5, true), stall(9.0, false)];
    let text = said(&record, &figures, Some(&verdict), false);
    assert!(text.ends_with("; no connection for 15.5 s."), "{text}");
    verdict.limited_by = LimitedBy::Broker;
    let text = said(&record, &figures, Some(&verdict), false);
    assert!(
        text.ends_with("; no connection for 15.5 s; limited by the broker."),
        "{text}"
    );
    verdict.facts.ended.stalls = vec![stall(0.5, true)];
    let text = said(&record, &figures, Some(&verdict), false);
    assert!(!text.contains("no connection"), "{text}");
}

#[test]
fn a_missed_rate_is_said_and_nothing_is_blamed() {
    let mut figures = figures();
    figures.requested_rate = Some(60_000.0);
    let text = said(
        &record(RunState::Complete, &["quorum", "quorum"]),
        &figures,
        None,
        false,
    );
    assert!(text.starts_with("54,800 msg/s into 2 quorum queues for 60 s, of 60,000 requested;"));
    assert!(!text.contains("limited"), "{text}");
}

#[test]
fn a_run_that_was_cut_off_says_so_first() {
    let text = said(
        &record(RunState::Running, &["stream"]),
        &figures(),
        None,
        false,
    );
    assert!(
        text.starts_with("Cut off after 32 s: 54,800 msg/s"),
        "{text}"
    );
}

#[test]
fn without_anything_measured_it_says_that() {
    let mut figures = figures();
    figures.sent.rate = 0.0;
    figures.latency = measure::Summaries::default();
    figures.cpu_cores = PerMessage::default();
    assert_eq!(
        said(&record(RunState::Complete, &[]), &figures, None, false),
        "Nothing was measured."
    );
}

#[test]
fn what_two_lines_do_not_hold_is_left_out_from_the_end() {
    let mut figures = figures();
    figures.received.rate = 98_765.0;
    figures.requested_rate = Some(60_000.0);
    let record = record(RunState::Failed, &["quorum", "classic"]);
    let verdict = Verdict {
        limited_by: LimitedBy::Generator,
        ..Verdict::default()
    };
    assert_eq!(
        said(&record, &figures, Some(&verdict), true),
        "Failed after 32 s: 54,800 msg/s into and 98,800 msg/s out of 2 queues for 60 s, of 60,000 requested; \
         ack response p99 31.0 ms; limited by the generator."
    );
}

#[test]
fn no_function_is_named_from_stacks_that_are_mostly_cut() {
    use archive::profile::{Frame, Sample, StackNode, Unwinding};
    let profile = |complete: usize| Profile {
        frames: vec![
            Frame::new("$a:b/1", "[jit]", FrameKind::Erlang),
            Frame::new("$c:d/1", "[jit]", FrameKind::Erlang),
        ],
        stacks: (0..2)
            .map(|frame| StackNode {
                parent: None,
                frame,
            })
            .collect(),
        threads: vec!["1_scheduler".into()],
        samples: (0..10)
            .map(|i| Sample {
                t: 0,
                weight: 1,
                stack: u32::from(i < 6),
                thread: 0,
                cpu: 0,
                complete: (i as usize) < complete,
                unwinding: Unwinding::Unknown,
            })
            .collect(),
        ..Profile::default()
    };
    let named = burning(&profile(5), None).expect("a function");
    assert_eq!(named.0, "a:b/1");
    assert_eq!(burning(&profile(4), None), None);
}
