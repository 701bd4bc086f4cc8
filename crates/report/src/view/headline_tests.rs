//! First sentences of runs of every kind.

use super::*;
use crate::tests::fixtures::fault;
use archive::{MessageFlow, PerMessage, QueueRecord, RequestedSummary, Throughput, Topology};
use serde_json::json;
use stacks::{FunctionShare, ProfileSummary, WorkShare};
use testkit::{assert_begins, assert_ends, assert_has, assert_lacks};

fn summary() -> RunSummary {
    let mut summary =
        RunSummary { cpu_cores: PerMessage { broker: Some(1.204), client: Some(0.1) }, ..RunSummary::default() };
    summary.flow_mut().sent = Throughput { total: 3_300_000, rate: 54_812.3 };
    let latency = LatencySummary { count: 100_000, p99_ns: 31_000_000, ..LatencySummary::default() };
    summary.messages_mut().latency = [(Metric::ACK_RESPONSE, latency)].into_iter().collect();
    summary
}

fn requested() -> Option<RequestedSummary> {
    Some(RequestedSummary { rate: 60_000.0, ..RequestedSummary::default() })
}

fn record(state: RunState, queues: &[&str]) -> RunRecord {
    let queue = |kind: &&str| QueueRecord { kind: (*kind).to_owned(), ..QueueRecord::default() };
    RunRecord {
        schema: RunRecord::SCHEMA.into(),
        id: "x".into(),
        name: "x".into(),
        hardware: archive::Hardware { cores: 2, ..archive::Hardware::default() },
        seed: 1,
        topology: Topology { queues: queues.iter().map(queue).collect(), ..Topology::default() },
        state,
        ..RunRecord::default()
    }
}

fn joined(parts: &[Part]) -> String {
    parts.iter().map(|part| part.text.as_str()).collect()
}

fn told_of(function: &str) -> Option<FunctionShare> {
    Some(FunctionShare { function: function.into(), total: 0.2412, ..FunctionShare::default() })
}

fn said(record: &RunRecord, summary: &RunSummary, verdict: Option<&Verdict>, profiled: bool) -> String {
    let headline = told_of("$rabbit_channel:handle_method/3");
    let profile = ProfileSummary { headline, ..ProfileSummary::default() };
    let (verdict, profiles) = (verdict.cloned(), profiled.then_some(profile).into_iter().collect());
    joined(&parts(record, &RunSummary { verdict, profiles, ..summary.clone() }))
}

fn parts(record: &RunRecord, summary: &RunSummary) -> Vec<Part> {
    let span = |phase, start, end| PhaseSpan { phase, start, end };
    let phases = match record.state {
        RunState::Complete | RunState::Failed => vec![span(Phase::Measure, 2.0, 62.0), span(Phase::Drain, 62.0, 63.4)],
        _ => vec![span(Phase::Measure, 2.4, 32.4)],
    };
    sentence(record, &phases, summary)
}

/// A run of both sides whose broker works mostly for the queue of this name.
fn working_for(queue: &str) -> RunSummary {
    let work = WorkShare { of: format!("queue {queue}"), role: "queue".into(), share: 0.312 };
    let mut summary = summary();
    let of_ack = summary.messages().latency.get(Metric::ACK_RESPONSE).clone();
    let both = [Metric::ACK_RESPONSE, Metric::END_TO_END];
    summary.messages_mut().latency = both.into_iter().map(|metric| (metric, of_ack.clone())).collect();
    summary.flow_mut().received = summary.flow().sent;
    summary.verdict = Some(Verdict { limited_by: LimitedBy::Broker, ..Verdict::default() });
    let headline = told_of("$rabbit_fifo:apply/3");
    summary.profiles = vec![ProfileSummary { work: vec![work], headline, ..ProfileSummary::default() }];
    summary
}

#[test]
fn the_queue_is_named_before_a_second_latency_and_the_function() {
    let record = record(RunState::Complete, &["quorum"]);
    let text = |summary: &RunSummary| joined(&parts(&record, summary));
    let mut summary = working_for("orders");
    let expected = "54,800 msg/s through a quorum queue for 60 s; ack response p99 31.0 ms; the broker used 1.20 of 2 \
                    cores, 31.2 % for queue orders; limited by the broker.";
    assert_eq!(text(&summary), expected);
    summary.flow_mut().received.rate = 12_345.0;
    summary.messages_mut().requested = requested();
    assert_eq!(
        text(&summary),
        "54,800 msg/s into (of 60,000 requested) and 12,300 msg/s out of a quorum queue for 60 s; ack response p99 \
         31.0 ms; the broker's CPU: 31.2 % for queue orders; limited by the broker."
    );
}

/// A rate is met by messages sent, also where consumers got less. A load that ends with its messages has rates over the
/// times in which they were sent, and received.
#[test]
fn what_went_in_and_what_came_out_have_a_rate_and_a_time_each() {
    let lasted = Some(Lasted { sent_s: 0.01, completed_s: 0.02, received_s: 2.0 });
    let record = record(RunState::Complete, &["quorum"]);
    let met = "60,000 msg/s into (as requested) and 54,400 msg/s out of a quorum queue for 60 s";
    let nearly = "59,900 msg/s into (99.8 % of 60,000 requested) and 54,400 msg/s out of a quorum queue for 60 s";
    let behind = "60,300 msg/s into (behind 60,000 requested) and 54,400 msg/s out of a quorum queue for 60 s";
    let unsent = requested().map(|it| RequestedSummary { achieved: Some(0.58), ..it });
    let moment = "50,000 msg/s for 0.01 s into and 250 msg/s for 2 s out of a quorum queue";
    for (sent, received, requested, lasted, begins) in [
        (60e3, 54_360.0, requested(), None, met),
        (59_880.0, 54_360.0, requested(), None, nearly),
        (60_300.0, 54_360.0, unsent, None, behind),
        (50e3, 250.0, None, lasted, moment),
    ] {
        let mut summary = summary();
        summary.messages_mut().requested = requested;
        (summary.flow_mut().sent.rate, summary.flow_mut().received.rate) = (sent, received);
        summary.flow_mut().lasted = lasted;
        assert_begins(said(&record, &summary, None, true), begins);
    }
}

#[test]
fn long_names_are_shortened_in_the_middle_and_whole_beside() {
    let mut summary = working_for(&format!("orders-{}-eu-1", "x".repeat(240)));
    let named = |record: &RunRecord, summary: &RunSummary| {
        let mut parts = parts(record, summary);
        assert!(letters(&parts) <= MOST_LETTERS, "{parts:?}");
        parts.retain(|part| part.code);
        parts.swap_remove(0)
    };
    let of = named(&record(RunState::Complete, &["quorum"]), &summary);
    let (head, tail) = of.text.split_once('…').expect("a part is left out");
    assert!(head.starts_with("queue orders-xxxxxxx") && tail.ends_with("xxxxxxxxxxxxxx-eu-1"));
    assert!(of.text.chars().count() >= 40, "{}", of.text);
    assert!(of.whole.is_some_and(|whole| whole.len() == 258));
    // Also where there is hardly any room, and where the kind of the queue is long.
    summary.flow_mut().received.rate = 12_345.0;
    summary.messages_mut().requested = requested();
    let kind = "x".repeat(300);
    for record in [record(RunState::Failed, &["quorum"]), record(RunState::Complete, &[&kind])] {
        assert_eq!(named(&record, &summary).text, "queue or…xx-eu-1");
    }
}

#[test]
fn a_name_has_the_room_that_there_is() {
    let record = record(RunState::Complete, &["quorum"]);
    let named = |letters: usize, summary: fn(&str) -> RunSummary| {
        let parts = parts(&record, &summary(&"x".repeat(letters)));
        assert!(super::letters(&parts) <= MOST_LETTERS, "{parts:?}");
        parts.into_iter().find(|part| part.code).expect("a name")
    };
    // Without a queue's length to spare for, all of it is told.
    let alone = |queue: &str| RunSummary { cpu_cores: PerMessage::default(), verdict: None, ..working_for(queue) };
    assert_eq!(named(64, alone).text, format!("queue {}", "x".repeat(64)));
    assert_eq!(named(65, alone).text.chars().count(), 70);
    // No other detail has to go for it.
    let text = named(64, working_for).text;
    assert!((40..70).contains(&text.chars().count()), "{text}");
}

#[test]
fn a_stream_is_published_to_and_a_run_that_was_cut_off_says_so_first() {
    let sentence = "limited by the broker: it fills the machine".into();
    let verdict = Verdict { limited_by: LimitedBy::Broker, sentence, ..Verdict::default() };
    let expected = "54,800 msg/s into a stream for 60 s; ack response p99 31.0 ms; the broker used 1.20 of 2 cores, \
                    24.1 % total share in rabbit_channel:handle_method/3; limited by the broker.";
    assert_eq!(said(&record(RunState::Complete, &["stream"]), &summary(), Some(&verdict), true), expected);
    let text = said(&record(RunState::Running, &["stream"]), &summary(), None, false);
    assert_begins(text, "Cut off after 32 s: 54,800 msg/s");
}

#[test]
fn an_outage_is_said_also_where_the_rate_was_met() {
    let mut verdict = Verdict { limited_by: LimitedBy::Schedule, ..Verdict::default() };
    let stall = |at_s, for_s, away| Stall { at_s, for_s, away, ..Stall::default() };
    let mut summary = summary();
    summary.messages_mut().requested = requested();
    let record = record(RunState::Complete, &["quorum"]);
    // As they are read from a file, in which the verdict's facts have none.
    summary.stalls = vec![stall(-3.0, 20.0, true), stall(12.0, 5.5, true), stall(40.0, 9.0, false)];
    assert_ends(said(&record, &summary, Some(&verdict), false), "; no connection for 15.5 s.");
    verdict.limited_by = LimitedBy::Broker;
    assert_ends(said(&record, &summary, Some(&verdict), false), "; no connection for 15.5 s; limited by the broker.");
    summary.stalls = vec![stall(10.0, 0.5, true)];
    assert_lacks(said(&record, &summary, Some(&verdict), false), ["no connection"]);
}

#[test]
fn a_missed_rate_is_said_and_nothing_is_blamed() {
    let mut summary = summary();
    summary.messages_mut().requested = requested();
    let text = said(&record(RunState::Complete, &["quorum", "quorum"]), &summary, None, false);
    assert_begins(&text, "54,800 msg/s into 2 quorum queues for 60 s, of 60,000 requested;");
    assert_lacks(text, ["limited"]);
}

#[test]
fn a_broker_whose_consumers_got_nothing_is_no_unknown_process() {
    let mut idle = summary();
    *idle.flow_mut() = MessageFlow::default();
    idle.messages_mut().latency = measure::Summaries::default();
    let recorded = RunSummary { scenarios: Default::default(), ..idle.clone() };
    let nothing = RunSummary { cpu_cores: PerMessage::default(), ..idle.clone() };
    let complete = record(RunState::Complete, &[]);
    for (summary, told) in
        [(idle, "he broker used 1.20"), (recorded, "he process used 1.20"), (nothing, "Nothing was measured.")]
    {
        assert_has(said(&complete, &summary, None, false), [told]);
    }
}

#[test]
fn what_two_lines_do_not_hold_is_left_out_from_the_end() {
    let mut summary = summary();
    summary.flow_mut().received.rate = 98_765.0;
    summary.messages_mut().requested = requested();
    let record = record(RunState::Failed, &["quorum", "classic"]);
    let verdict = Verdict { limited_by: LimitedBy::Generator, ..Verdict::default() };
    let expected = "Failed after 63 s: 54,800 msg/s into (of 60,000 requested) and 98,800 msg/s out of 2 queues for 60 \
                    s; ack response p99 31.0 ms; limited by the generator.";
    assert_eq!(said(&record, &summary, Some(&verdict), true), expected);
}

fn requests(p99_ns: u64, failed: u64) -> ScenarioSummary {
    let counter = |name| Metric::named(name, measure::MetricKind::Counter).expect("room");
    let latency = LatencySummary { count: 3_000, p99_ns, ..LatencySummary::default() };
    ScenarioSummary {
        kind: "GET http://localhost:15672/api/queues?columns=name,messages_ready".to_owned(),
        unit: "requests".to_owned(),
        role: ScenarioRole::Server,
        counts: [(counter("begun"), 30), (counter("failed"), failed)].into(),
        headline: Some(Metric::END_TO_END),
        latency: [(Metric::END_TO_END, latency)].into_iter().collect(),
        ..ScenarioSummary::default()
    }
}

/// `25 requests per second … for 4 s` stood beside `200 completed`.
#[test]
fn a_rate_says_how_many_more_were_answered_in_the_drain() {
    let phases = [PhaseSpan { phase: Phase::Measure, start: 0.0, end: 60.0 }];
    let counter = |name| Metric::named(name, measure::MetricKind::Counter).expect("room");
    for (rate, has) in [(1.0, true), (5.0, false)] {
        let counts = [(counter("completed"), 300)].into();
        let of = ScenarioSummary { rate, counts, ..requests(4_000_000, 0) };
        assert_eq!(operations(&of, &phases).contains(", 240 more in the drain"), has, "{rate}");
    }
    // A rate that was met was told as missed where answers came later.
    let asked = |achieved| RequestedSummary { rate: 5.0, achieved: Some(achieved), ..RequestedSummary::default() };
    for (begun, achieved, told) in [
        (300, 1.0, "for 60 s, 5.00 requested and begun, 240 more in the drain"),
        (9, 0.9, "for 60 s, 5.00 requested and begun, 240 more in the drain"),
        (150, 0.5, "for 60 s, of 5.00 requested, 240 more in the drain"),
    ] {
        let counts = [(counter("begun"), begun), (counter("completed"), 300)].into();
        let of = ScenarioSummary { rate: 1.0, counts, requested: Some(asked(achieved)), ..requests(4_000_000, 0) };
        assert_has(operations(&of, &phases), [told]);
    }
}

#[test]
fn of_an_attached_broker_only_the_queues_of_the_load_are_counted() {
    let mut record = record(RunState::Complete, &["quorum", "classic", "classic"]);
    for (queue, name) in record.topology.queues.iter_mut().zip(["mine0", "theirs", "idle"]) {
        name.clone_into(&mut queue.name);
    }
    for (load, into) in [
        (json!({ "destination": "queue://mine", "num-destinations": 200 }), "200 quorum queues"),
        (json!({ "destination": "queue://mine0" }), "a quorum queue"),
        (json!({ "destination": "queue://gone" }), "a queue"),
        (json!({ "destination": "queue://gone", "queue-type": "quorum" }), "a quorum queue"),
        // Who names a topic's queues is the client or the broker.
        (json!({ "destination": "topic://t" }), "3 queues"),
    ] {
        record.experiment = json!({ "load": [load] });
        assert_begins(said(&record, &summary(), None, false), format!("54,800 msg/s into {into} for 60 s;"));
    }
}

#[test]
fn of_probes_beside_messages_the_worst_comes_first_in_two_lines() {
    let mut summary = working_for("orders");
    summary.insert("probe_queues", requests(900_000_000, 0));
    summary.insert("probe_queue_page", requests(4_000_000, 0));
    let record = record(RunState::Complete, &["classic"; 200]);
    let text = |summary: &RunSummary| joined(&parts(&record, summary));
    let told = text(&summary);
    let begin = "Probe queues: end-to-end p99 900 ms, beside 54,800 msg/s through 200 classic queues for 60 s;";
    assert_begins(&told, begin);
    assert!(told.chars().count() <= MOST_LETTERS, "{told}");
    // One that fails matters more than one that is slow.
    summary.insert("probe_queue_page", requests(4_000_000, 30));
    let told = text(&summary);
    assert_begins(&told, "Probe queue-page: 30 of 30 requests failed");
    assert_eq!(lead(&summary), Some("probe_queue_page"));
    assert_lacks(told, ["http"]);
}

/// Probes were loads of requests, and the time of a run that failed stood twice.
#[test]
fn probes_are_called_so_and_a_time_is_said_once() {
    let mut summary = summary();
    summary.scenarios = Default::default();
    summary.insert("probe_queues", requests(900_000_000, 0));
    summary.insert("probe_queue_page", requests(4_000_000, 0));
    let text = |state, summary: &RunSummary, start| {
        let phases = [PhaseSpan { phase: Phase::Measure, start, end: 8.0 }];
        joined(&sentence(&record(state, &[]), &phases, summary))
    };
    assert_begins(text(RunState::Complete, &summary, 0.0), "2 probes for 8 s; probe queues: end-to-end p99");
    assert_begins(text(RunState::Failed, &summary, 0.1), "Failed: 2 probes for 7.9");
    assert_begins(text(RunState::Failed, &summary, 2.0), "Failed after 8 s: 2 probes for 6");
    summary.insert("churn", ScenarioSummary { unit: "cycles".to_owned(), ..ScenarioSummary::default() });
    assert_begins(text(RunState::Complete, &summary, 0.0), "3 loads of ");
}

#[test]
fn a_metric_behind_the_name_of_its_probe_does_not_repeat_it() {
    let (own, other) = (("queue-page response", "probe_queue_page"), ("first byte", "probe_queue_page"));
    let told = [own, other, ("response", "probe")].map(|(metric, owner)| without_owner(metric, owner));
    assert_eq!(told, ["response", "first byte", "response"]);
}

#[test]
fn what_a_scraped_page_took_is_told() {
    let page = |(name, p50_ns): (&str, u64)| {
        let response = LatencySummary { count: 30, p50_ns, ..LatencySummary::default() };
        archive::ScrapedPage { name: name.to_owned(), response, ..archive::ScrapedPage::default() }
    };
    let scrapes = [("added-up", 4_000_000), ("per-object", 93_700_000)].map(page).into();
    let summary = RunSummary { scrapes, ..summary() };
    let record = record(RunState::Complete, &["classic"]);
    assert_has(said(&record, &summary, None, false), ["; scrape per-object: p50 93.7 ms; ack"]);
}

#[test]
fn a_fault_is_told_with_its_time() {
    let fault = |kind: &str, node| fault(kind, node, 20.04);
    for (faults, begin) in [
        (vec![fault("kill", Some(2))], " while node 2 was killed at 20 s"),
        (vec![fault("stop", None)], " while the broker was stopped at 20 s"),
        (vec![FaultOutcome { for_good: true, ..fault("kill", Some(2)) }], " while node 2 was killed for good at 20 s"),
        (vec![FaultOutcome { failed: Some("there is no node 2".into()), ..fault("kill", Some(2)) }], ""),
        (vec![fault("kill", None), fault("stop", None)], " with 2 faults"),
    ] {
        let summary = RunSummary { faults, ..summary() };
        let text = said(&record(RunState::Complete, &["quorum"]), &summary, None, false);
        assert_begins(text, format!("54,800 msg/s into a quorum queue for 60 s{begin}; ack"));
    }
}

#[test]
fn shares_of_few_samples_are_not_told() {
    let told = |samples: u64| {
        let headline = told_of("idle_wait");
        let (unit, event) = ("samples".into(), USUAL_EVENT.into());
        let profile = ProfileSummary { samples, weight: samples, unit, event, headline, ..ProfileSummary::default() };
        let summary = RunSummary { profiles: vec![profile], ..RunSummary::default() };
        joined(&sentence(&record(RunState::Complete, &[]), &[], &summary))
    };
    let few = told(9);
    assert_has(&few, ["9 samples, too few for shares"]);
    assert_lacks(few, ["24.1"]);
    let enough = told(900);
    assert_has(&enough, ["24.1 %"]);
    assert_lacks(enough, ["too few"]);
}

#[test]
fn names_are_those_of_the_plan_and_elsewhere_there_are_none() {
    for [load, names] in testkit::table(include_str!("named-queues.txt")) {
        let load: Value = serde_json::from_str(load).expect("JSON");
        let named = named_queues(&json!({ "load": load }));
        let named = named.map_or("none".to_owned(), |all| all.into_iter().collect::<Vec<_>>().join(" "));
        assert_eq!(named, names, "{load}");
    }
    assert_eq!(named_queues(&Value::Null), None);
}

#[test]
fn a_fault_is_answered_by_loss_wait_and_return() {
    let mut killed = summary();
    killed.faults = vec![FaultOutcome { back_s: Some(7.6), ..fault("kill", Some(1), 10.0) }];
    killed.flow_mut().ledger = Some(measure::ledger::LedgerSummary::default());
    let latency = LatencySummary { max_ns: 400_000_000, ..killed.messages().latency.get(Metric::ACK_RESPONSE).clone() };
    killed.messages_mut().latency = [(Metric::ACK_RESPONSE, latency)].into_iter().collect();
    let record = record(RunState::Complete, &["quorum"]);
    let begin = "0 lost, longest wait 400 ms, node 1 back after 7.60 s; 54,800 msg/s into a quorum queue for 60 s \
                 while node 1 was killed at 10 s; ";
    assert_begins(said(&record, &killed, None, false), begin);
    assert_eq!(lead(&killed), None, "its messages are what it asks about");
}
