//! The end of a run of each kind, on the screens that there are: goldens in the folder `brief` beside this file, and
//! rules that every end keeps.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use archive::{
    Cause, CoresUsed, FaultOutcome, LimitedBy, NodeSummary, ProgramSummary, QuantityUnit, RequestedSummary,
    RequirementOutcome, ScenarioSummary, ScrapedPage, TraceSummary, Verdict,
};
use measure::MetricKind;
use measure::ledger::LedgerSummary;
use stacks::{Class, ClassShare, WorkShare};
use testkit::Random;

use super::scenario::{registered, registered_in};
use super::*;
use crate::numbers::{count, observed};
use crate::tests::fixtures::{failed_requests, fault, generator_late, requirement};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/console/tests/brief");
/// Set to write the goldens in place of comparing them.
const RENEW: &str = "BELLOWS_RENEW_ENDS";
/// The usual width, of which goldens have the whole screen, and others, each with the one that it is held against.
const USUAL: usize = 80;
const OTHERS: [[usize; 2]; 3] = [[60, USUAL], [120, USUAL], [200, 120]];
const REPORT: &str = "runs/2026-11-21T00-12-33Z-stream-publish-7k2q/report.html";

type Kind = (&'static str, RunRecord, RunSummary);

fn profile() -> ProfileSummary {
    ProfileSummary {
        classes: [(Class::KernelNetwork, 0.62), (Class::Waiting, 0.27), (Class::ErlangCode, 0.08), (Class::Ets, 0.01)]
            .map(|(class, share)| ClassShare { class, share, weight: 100 })
            .into(),
        work: vec![WorkShare { of: "queue orders".into(), role: "queue".into(), share: 0.31 }],
        top: vec![share("$rabbit_channel:handle_method/3".into(), "[jit]", 0.0669, 0.24)],
        samples: 24_012,
        unit: "samples".into(),
        event: "cpu".into(),
        complete_share: 1.0,
        ..ProfileSummary::default()
    }
}

fn verdict(limited_by: LimitedBy, cause: Cause, sentence: &str) -> Option<Verdict> {
    Some(Verdict { limited_by, cause: Some(cause), sentence: sentence.into(), ..Verdict::default() })
}

fn ledger() -> LedgerSummary {
    LedgerSummary { sent: 3_288_123, delivered: 3_288_123, exact: true, ..LedgerSummary::default() }
}

fn messages() -> RunSummary {
    let mut summary = run_summary(0);
    summary.profiles = vec![profile()];
    summary.flow_mut().ledger = Some(ledger());
    summary.messages_mut().requested =
        Some(RequestedSummary { rate: 54_800.0, achieved: Some(1.0), ..RequestedSummary::default() });
    let sentence = "the requested rate was met: 54,800 msg/s, 0 % of them over 1 ms late";
    summary.verdict = verdict(LimitedBy::Schedule, Cause::RateMet { late: None }, sentence);
    summary
}

fn named(name: &str, summary: &RunSummary) -> RunRecord {
    let mut record = record(RunState::Complete, Some(summary.clone()));
    record.name = name.into();
    record.hardware.cores = 2;
    record.versions.broker = Some("RabbitMQ 4.0.5".into());
    record.experiment = serde_json::json!({"load": [{"destination": "queue://orders", "queue-type": "quorum"}]});
    record
}

fn kind(name: &'static str, summary: RunSummary) -> Kind {
    (name, named(name, &summary), summary)
}

fn operations(scenario: &'static str, unit: &str, latencies: &[(&'static str, u64)]) -> ScenarioSummary {
    let metric = |name| registered(scenario, name, MetricKind::Histogram);
    ScenarioSummary {
        kind: "connections".into(),
        unit: unit.into(),
        rate: 200.0,
        counts: [(registered(scenario, "completed", MetricKind::Counter), 12_000)].into(),
        requested: Some(RequestedSummary { rate: 200.0, ..RequestedSummary::default() }),
        latency: latencies.iter().map(|(name, count)| (metric(*name), latency(*count))).collect(),
        ..ScenarioSummary::default()
    }
}

fn kills() -> RunSummary {
    let mut summary = messages();
    summary.faults = vec![FaultOutcome { back_s: Some(7.6), ..fault("kill", Some(1), 15.4) }];
    let node = |node| NodeSummary { node, cpu_cores: 0.4, rss_mb: 140.0, ..NodeSummary::default() };
    summary.nodes = [0, 1, 2].map(node).into();
    let incomplete = || Finding::LostSamples { lost: 9, samples: 100, each: false };
    let of_node = |node: u32| Warning {
        event: (node > 0).then(|| format!("cpu@{node}")),
        text: format!("cpu@{node}: 9 of 100 samples were lost; take fewer"),
        ..Warning::new(Tier::Caution, incomplete())
    };
    summary.warnings = [0, 1, 2].map(of_node).into();
    summary
}

fn crash() -> RunSummary {
    let mut summary = messages();
    summary.faults = vec![fault("stop", None, 5.0), fault("kill", None, 20.0)];
    for it in &mut summary.faults {
        (it.back_s, it.first_confirm_s, it.backlog_gone_s) = (Some(1.2), Some(1.3), Some(2.5));
    }
    let delivered = ledger().sent - 12;
    let copied = LedgerSummary { delivered, lost: 12, duplicated_redelivered: 40, foreign: 2, ..ledger() };
    (summary.flow_mut().received.total, summary.flow_mut().ledger) = (delivered + 40, Some(copied));
    summary
}

fn missed() -> RunSummary {
    let mut summary = messages();
    summary.requirements = vec![
        requirement("end-to-end p50 < 1ms", Some(true), Some(301_000.0)),
        requirement("end-to-end p99 < 2ms", Some(false), Some(3_231_000.0)),
    ];
    let text = "the generator was late by up to 3.00 ms, 9.6 % of the messages by over 1 ms: ack response and \
                end-to-end are too high by that; leave it a free core, or lower the load";
    let debug = "this is a debug build of bellows, several times slower than a release build: rates and CPU of the \
                 client say nothing; build with `make build`, or install with `make install`";
    summary.warnings = vec![
        warned(Tier::Caution, Finding::CpuSteal { steal: 0.1 }, text),
        warned(Tier::Caution, Finding::CpuSteal { steal: 0.2 }, "somebody else ran; do not"),
        warned(Tier::Invalid, Finding::DebugBuild {}, debug),
    ];
    summary
}

fn unthrottled(sends: bool, receives: bool) -> RunSummary {
    let mut summary = messages();
    let messages = summary.messages_mut();
    messages.requested = None;
    let felt = messages.latency.filled().map(|(metric, of)| (metric, of.clone()));
    messages.latency =
        felt.filter(|(metric, _)| if *metric == Metric::END_TO_END { receives } else { sends }).collect();
    let flow = summary.flow_mut();
    if !sends {
        (flow.sent, flow.completed) = (Throughput::default(), Throughput::default());
    }
    if !receives {
        (flow.received, flow.ledger) = (Throughput::default(), None);
    }
    let sentence = "limited by the broker: for 93 % of the producers' time as many were in flight as may be, and the \
                    broker used 1.9 of 2 cores; the generator could have made 1.20 M msg/s of this size here";
    let cause = Cause::BrokerSlow { wait: archive::Awaited::Answers };
    summary.verdict = verdict(LimitedBy::Broker, cause, sentence);
    summary
}

fn programs() -> RunSummary {
    let mut summary = messages();
    summary.scenarios.clear();
    summary.verdict = None;
    summary.programs = vec![ProgramSummary {
        command: "artemis perf client --url tcp://127.0.0.1:61616 queue://TEST_QUEUE".into(),
        status: "exit status 0".into(),
        log: "load-0.log".into(),
    }];
    summary
}

fn recording() -> RunSummary {
    let mut summary = programs();
    summary.programs.clear();
    summary.broker = BrokerSummary::default();
    summary.profiles[0].frequency = 999;
    summary.profiles[0].unknown_share = 0.032;
    summary
}

fn storm() -> RunSummary {
    let mut summary = messages();
    let page = ScrapedPage { name: "per-object".into(), page_bytes: 34_500_000, series: 230_123, ..Default::default() };
    summary.scrapes = vec![ScrapedPage { completed: 30, response: latency(30), ..page }];
    summary
}

fn api() -> RunSummary {
    let mut summary = messages();
    summary.insert("probe_brief", operations("probe_brief", "requests", &[("queues response", 30)]));
    summary.insert("probe_brief2", operations("probe_brief2", "requests", &[("queue-page response", 9)]));
    summary
}

/// Four probes beside messages, of which the last one failed, missed what was required, and got an answer of few bytes.
fn refused() -> RunSummary {
    let mut summary = api();
    for name in ["probe_brief3", "probe_brief9"] {
        summary.insert(name, operations(name, "requests", &[("response", 30)]));
    }
    let failed = summary.scenarios.get_mut("probe_brief9").expect("a probe");
    let counter = |name| registered("probe_brief9", name, MetricKind::Counter);
    let bytes = || registered_in("bytes", "probe_brief9", "bytes", MetricKind::Counter);
    failed.counts = [(counter("completed"), 42), (counter("failed"), 38), (bytes(), 22_600)].into();
    let missed = requirement("brief9 failed = 0", Some(false), Some(38.0));
    let why = Some("no probe has this name: queues, queue-page, brief3, brief9".into());
    let unknown = RequirementOutcome { why, ..requirement("nope failed = 0", None, None) };
    summary.requirements = vec![RequirementOutcome { unit: QuantityUnit::Count, ..missed }, unknown];
    summary
}

fn outstanding() -> RunSummary {
    let mut summary = messages();
    let flow = summary.flow_mut();
    (flow.sent.total, flow.received.total) = (16_000, 3_681);
    flow.ledger = Some(LedgerSummary { sent: 16_000, delivered: 3_681, outstanding: 12_319, ..ledger() });
    summary
}

fn churn() -> RunSummary {
    let mut summary = messages();
    summary.scenarios.clear();
    let steps = [("cycle", 12_000), ("connect", 12_000), ("log in", 12_000), ("close", 12_000)];
    summary.insert("churn_brief", operations("churn_brief", "cycles", &steps));
    summary
}

/// A probe of which most requests never began: none of its connections was free.
fn probe() -> RunSummary {
    let mut summary = messages();
    summary.scenarios.clear();
    let steps = [("response", 100), ("from send", 13), ("wait", 100), ("first byte", 100)];
    let mut of = operations("probe_brief4", "requests", &steps);
    let counts = [("begun", 13), ("completed", 12), ("late", 13), ("failed", 1), ("timed out", 1), ("not begun", 87)];
    let counter = |name| registered("probe_brief4", name, MetricKind::Counter);
    of.counts = counts.map(|(name, number)| (counter(name), number)).into();
    summary.insert("probe_brief4", of);
    let failed = failed_requests(1, 1, 13, "timed out");
    let late = generator_late(1.0, 0.1, true, "requests");
    let rate = Finding::RateNotAchieved { unit: "requests".into(), rates: None, not_begun: 87, in_flight_limit: 1 };
    let steal = Finding::CpuSteal { steal: 0.1 };
    summary.warnings = [steal, failed, late, rate].map(told).into();
    summary
}

fn traced() -> RunSummary {
    let mut summary = messages();
    let (function, node) = ("rabbit_mgmt_wm_queues:to_json/2".into(), "rabbit@host".into());
    summary.traces = vec![TraceSummary { function, node, kept: 1_200, ..TraceSummary::default() }];
    let looked = Finding::LookedInto { looks: 2, commands: "bellows erlang top".into(), seconds: 3.2 };
    summary.warnings = vec![Warning::new(Tier::Note, looked)];
    summary
}

/// A cause and a verdict that are wider than any screen.
fn long() -> Kind {
    let mut long = kind("long-cause", unthrottled(true, true));
    long.1.state = RunState::Failed;
    let cause = "lost the connection to amqp://guest@127.0.0.1:5672 after 3,288,123 messages, and none of the 60 \
                 attempts to connect again within the 30 s that the experiment gives a broker to come back was \
                 accepted";
    long.2.error = Some(Problem::new(cause, "Connection refused (os error 111)", "look into the broker's log"));
    let sentence = "limited by the broker: for 93 % of the producers' time as many were in flight as may be, and the \
                    broker used 1.9 of 2 cores, its busiest thread (2_scheduler) 97 % of one; its threads together \
                    waited 0.41 s per second in the run queue; the generator could have made 1.20 M msg/s of this \
                    size here";
    let cause = Cause::BrokerSlow { wait: archive::Awaited::Answers };
    long.2.verdict = verdict(LimitedBy::Broker, cause, sentence);
    long
}

/// A run of each kind of built-in experiment, and those that end in another way.
fn kinds() -> Vec<Kind> {
    let mut failed = kind("failed", messages());
    failed.1.state = RunState::Failed;
    failed.2.error = Some(Problem::new(
        "lost the connection to amqp://guest@127.0.0.1:5672",
        "Connection reset by peer (os error 104)",
        "look into the broker's log",
    ));
    let mut beside = messages();
    beside.insert("churn_brief", operations("churn_brief", "cycles", &[("cycle", 12_000)]));
    let mut demo = kind("demo", messages());
    demo.1.versions.broker = Some("bellows embedded broker 0.1.0".into());
    demo.1.experiment = serde_json::json!({"load": [{"destination": "queue://demo", "queue-type": "classic"}]});
    vec![
        demo,
        kind("refused", refused()),
        kind("outstanding", outstanding()),
        kind("rated", messages()),
        kind("stream-publish", unthrottled(true, false)),
        kind("stream-consume", unthrottled(false, true)),
        kind("classic-in-out", unthrottled(true, true)),
        kind("missed", missed()),
        kind("cluster-kill", kills()),
        kind("crash", crash()),
        kind("connection-churn", churn()),
        kind("probe", probe()),
        kind("churn-beside", beside),
        kind("mgmt-api", api()),
        kind("scrape-storm", storm()),
        kind("artemis-perf", programs()),
        kind("record", recording()),
        kind("traced", traced()),
        failed,
        long(),
    ]
}

fn end(of: &Kind, columns: usize) -> String {
    brief(&of.1, &of.2, Some(REPORT), None, true, terminal(columns))
}

/// Labels of rows that are left out where there is no room.
const LEFT_OUT: [&str; 5] = ["CPU  ", "CPU went to  ", "whose work  ", "profiles  ", "met  "];

/// Facts that every end has as a whole, whatever has no room.
fn facts(record: &RunRecord, summary: &RunSummary) -> Vec<String> {
    let broker = record.versions.broker.as_deref().unwrap_or_default();
    let mut facts = vec![broker.trim_start_matches("bellows ").to_owned()];
    let of = |met: Option<bool>| summary.requirements.iter().filter(move |it| it.met == met);
    let unmet = of(Some(false)).chain(of(None)).take(2);
    facts.extend(unmet.map(|it| format!("{}: {}", it.that, observed(it))));
    if let [only] = summary.faults.as_slice() {
        facts.extend(only.failed.iter().map(|why| format!("it failed: {why}")));
    }
    if let Some(ledger) = summary.flow().ledger.filter(|_| summary.has_messages()) {
        let all = [
            (ledger.lost, "lost"),
            (ledger.unconfirmed_missing, "unconfirmed and missing"),
            (ledger.outstanding, "outstanding"),
            (ledger.duplicated, "duplicated"),
            (ledger.foreign, "foreign"),
        ];
        let all = all.into_iter().filter(|(number, _)| *number > 0);
        facts.extend(all.map(|(number, what)| format!("{} {what}", count(number))));
    }
    let failures = summary.others().flat_map(|(_, of)| &of.counts);
    let failures = failures.filter(|(metric, number)| metric.name() == "failed" && **number > 0);
    facts.extend(failures.map(|(_, number)| format!("{} failed", count(*number))));
    facts
}

/// Sentences that are cut, as they were before.
fn sources(summary: &RunSummary) -> String {
    let warnings = summary.warnings.iter().map(|it| it.text.clone());
    let verdict = summary.verdict.iter().map(|it| it.sentence.clone());
    let error = summary.error.iter().map(ToString::to_string);
    warnings.chain(verdict).chain(error).collect::<Vec<_>>().join(" ")
}

/// Words without the mark of a clause, which goes with what is cut behind it.
fn words_of(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split_whitespace();
    words.map(|word| word.trim_end_matches([',', ';', ':']))
}

/// Rules of every end: facts, lines, columns, whole words, and nothing said twice.
fn faults(record: &RunRecord, summary: &RunSummary) -> Option<String> {
    let shown = |style| brief(record, summary, Some(REPORT), None, true, style);
    let pipe = shown(Style::PLAIN);
    let whole = flowing(&pipe);
    let mut facts = facts(record, summary).into_iter();
    if let Some(fact) = facts.find(|it| !whole.contains(&flowing(it))) {
        return Some(format!("missing: {fact}\n{pipe}"));
    }
    let sources = sources(summary);
    // Where no row takes two lines and there is no warning, no row is left out.
    let calm = RunSummary { warnings: Vec::new(), ..summary.clone() };
    let roomy = brief(record, &calm, Some(REPORT), None, true, terminal(100_000));
    let said = [&pipe, &roomy, &sources].into_iter().flat_map(|text| words_of(text));
    let words: BTreeSet<&str> = said.chain(["next", "…", "[…]"]).collect();
    let mut sentences: Vec<&str> = pipe.lines().filter(|line| line.len() > 30).collect();
    sentences.sort_unstable();
    if let Some(twice) = sentences.windows(2).find(|two| two[0] == two[1]) {
        return Some(format!("said twice: {}\n{pipe}", twice[0]));
    }
    for columns in [60, 72, 80, 99, 120, 160, 200] {
        let text = shown(terminal(columns));
        let could_be_shorter = text.lines().any(|line| LEFT_OUT.iter().any(|label| line.starts_with(label)));
        if columns >= 80 && text.lines().count() > 15 && could_be_shorter {
            return Some(format!("{columns}: {} lines\n{text}", text.lines().count()));
        }
        let is_wide = |line: &&str| width(line) > columns && !line.contains(REPORT);
        if let Some(line) = text.lines().find(is_wide) {
            return Some(format!("{columns}: too wide: {line}\n{text}"));
        }
        // How many warnings are not shown differs.
        let (rows, _) = text.rsplit_once("runs show -v").unwrap_or((&text, ""));
        // So does how many faults are not.
        let rows = rows.lines().filter(|line| !line.contains(" more fault"));
        let mut own = rows.flat_map(words_of);
        if let Some(word) = own.find(|word| !words.contains(word)) {
            return Some(format!("{columns}: broken: {word}\n{text}\n{pipe}"));
        }
    }
    let is_wide = |line: &str| width(line) > 200;
    pipe.lines().find(|line| is_wide(line)).map(str::to_owned)
}

/// A screen with `= 4 to 10` in place of lines that another screen has as its lines 4 to 10.
fn beside(screen: &str, other: &str) -> String {
    let other: Vec<&str> = other.lines().collect();
    let mut lines = screen.lines().peekable();
    let mut shown = String::new();
    while let Some(line) = lines.next() {
        let Some(first) = other.iter().position(|it| *it == line) else {
            shown += &format!("{line}\n");
            continue;
        };
        let mut last = first;
        while lines.next_if(|next| other.get(last + 1) == Some(next)).is_some() {
            last += 1;
        }
        shown += &format!("= {} to {}\n", first + 1, last + 1);
    }
    shown
}

#[test]
fn the_end_of_each_kind_is_as_its_golden() {
    let mut stale = Vec::new();
    for of in kinds() {
        assert_eq!(faults(&of.1, &of.2), None, "{}", of.0);
        let others = OTHERS.map(|[columns, other]| {
            let screen = beside(&end(&of, columns), &end(&of, other));
            format!("\n{columns} columns, beside those of {other}:\n{screen}")
        });
        let text = format!("{USUAL} columns:\n{}{}", end(&of, USUAL), others.concat());
        let path = Path::new(FOLDER).join(format!("{}.txt", of.0));
        if std::env::var_os(RENEW).is_some() {
            fs::create_dir_all(FOLDER).unwrap();
            fs::write(&path, &text).unwrap();
        }
        if fs::read_to_string(&path).unwrap_or_default() != text {
            stale.push(format!("{}:\n{text}", of.0));
        }
    }
    assert!(stale.is_empty(), "stale: run `make ends` and look at them\n{}", stale.concat());
}

/// The end of a demonstration on a broker, whose profile has this class beside those of the kernel.
fn demo(broker: &str, queue_type: &str, class: Class, work: Option<&str>) -> String {
    let mut summary = messages();
    let shares = [(Class::KernelNetwork, 0.62), (Class::Waiting, 0.27), (class, 0.08)];
    let profile = &mut summary.profiles[0];
    profile.classes = shares.map(|(class, share)| ClassShare { class, share, weight: 100 }).into();
    let of_queue = |of: &str| WorkShare { of: of.into(), role: "queue".into(), share: 0.31 };
    profile.work = work.map(of_queue).into_iter().collect();
    let flow = summary.flow_mut();
    let through = Throughput { total: 230_000, rate: 10_000.0 };
    (flow.sent, flow.completed, flow.received) = (through, through, through);
    let messages = summary.messages_mut();
    messages.requested = Some(RequestedSummary { rate: 10_000.0, achieved: Some(1.0), ..RequestedSummary::default() });
    messages.cpu_us_each = PerMessage { broker: Some(37.9), client: Some(45.0) };
    let (p99_9_ns, max_ns) = (2_800_000, 5_100_000);
    let of = |p50_ns, p90_ns, p99_ns| {
        let rest = latency(200_000);
        LatencySummary { p50_ns, p90_ns, p99_ns, p99_9_ns, max_ns, ..rest }
    };
    let (ack, end_to_end) = (of(91_000, 156_000, 566_000), of(89_000, 152_000, 552_000));
    messages.latency = [(Metric::ACK_RESPONSE, ack), (Metric::END_TO_END, end_to_end)].into_iter().collect();
    summary.cpu_cores = PerMessage { broker: Some(0.38), client: Some(0.45) };
    let mut record = named("demo", &summary);
    let span = |phase, start, end| PhaseSpan { phase, start, end };
    record.phases = vec![span(Phase::Warmup, 0.0, 3.0), span(Phase::Measure, 3.0, 23.0)];
    record.versions.broker = Some(broker.into());
    record.experiment = serde_json::json!({"load": [{"destination": "queue://demo", "queue-type": queue_type}]});
    brief(&record, &summary, Some("runs/2026-11-21T00-12-33Z-demo-2fyf/report.html"), None, true, terminal(USUAL))
}

/// Those in the docs had another form, and a line that contradicted their percentiles.
#[test]
fn the_docs_show_an_end_as_it_is_printed() {
    let of_rabbitmq = demo("RabbitMQ 4.0.5", "stream", Class::ErlangCode, Some("queue demo"));
    let embedded = demo("bellows embedded broker 0.1.0", "classic", Class::OwnCode, None);
    for (page, end) in [("README.md", of_rabbitmq), ("docs/getting-started.md", embedded)] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page);
        assert_has(fs::read_to_string(path).unwrap(), [end.as_str()]);
    }
}

/// Its row went, with lines to spare, or was none of those that are shown.
#[test]
fn a_latency_that_missed_its_requirement_stays() {
    let mut summary = missed();
    summary.warnings.push(warned(Tier::Note, Finding::CpuSteal { steal: 0.3 }, "a note; read it"));
    // A wide screen has room for all warnings, and for the row of the CPU.
    let text = end(&kind("missed", summary.clone()), 200);
    assert_has(text, ["CPU went to", "! somebody else ran", "(1 more note)"]);
    summary.requirements[1].that = "transfer p99 < 1us".into();
    let text = end(&kind("missed", summary), 80);
    assert!(text.lines().any(|line| line.starts_with("transfer  ")), "{text}");
    assert_has(text, ["(1 more warning, 1 note)"]);
    // One that two clocks took has their bound.
    let mut summary = messages();
    let bound = Finding::ClockBound { latency: "end-to-end".to_owned(), p50_s: Some(1e-3), bound_s: 8e-5 };
    summary.warnings = vec![warned(Tier::Note, bound, "told in its row")];
    let text = end(&kind("spread", summary), 80);
    assert!(text.lines().any(|line| line.starts_with("end-to-end ± 80.0 µs  ")), "{text}");
    assert_lacks(text, ["told in its row"]);
}

/// Probes were loads, "as requested" stood behind what was received, and a run that failed said its time twice.
#[test]
fn the_first_line_says_probes_what_was_as_requested_and_its_time_once() {
    let mut summary = messages();
    summary.flow_mut().received.rate = 50_000.0;
    for (scenario, page) in [("probe_brief", "queues response"), ("probe_brief2", "queue-page response")] {
        let mut of = operations(scenario, "requests", &[(page, 30)]);
        of.role = measure::ScenarioRole::Server;
        summary.insert(scenario, of);
    }
    let first = |record: &RunRecord| {
        let text = brief(record, &summary, None, None, true, Style::PLAIN);
        text.lines().next().unwrap_or_default().to_owned()
    };
    let mut record = named("two", &summary);
    assert_has(first(&record), ["2 probes beside 54,800 msg/s sent (as requested), 50,000 received for"]);
    record.state = RunState::Failed;
    record.phases = vec![PhaseSpan { phase: Phase::Measure, start: 0.1, end: 2.0 }];
    assert_lacks(first(&record), ["failed after"]);
    // Beside the error, the end of a run says all but the cause.
    let (_, record, summary) = long();
    let whole = brief(&record, &summary, None, None, true, Style::PLAIN);
    let rest = brief(&record, &summary, None, None, false, Style::PLAIN);
    assert_eq!(whole.lines().skip(2).collect::<Vec<_>>(), rest.lines().collect::<Vec<_>>());
}

/// 10,000 msg/s for 3 s stood above 60,000 messages, without the reason. A kill that was planned at 2 s was at 3 s,
/// since the warm-up took one.
#[test]
fn totals_with_a_warm_up_say_so_and_times_of_faults_when_measuring_began() {
    let began = ("measuring began", "; measuring began at 5 s");
    let after = ("measuring began", "; 10.4 s after measuring began at 5 s");
    let totals = ("warm-up", "sent and received (with warm-up); 0 lost");
    for (summary, (word, told)) in [(messages(), totals), (kills(), after), (crash(), began)] {
        let mut record = named("demo", &summary);
        let shown = |record: &RunRecord| flowing(&brief(record, &summary, None, None, true, Style::PLAIN));
        assert_lacks(shown(&record), [word]);
        record.phases.insert(0, PhaseSpan { phase: Phase::Warmup, start: 0.0, end: 5.0 });
        assert_has(shown(&record), [told]);
    }
}

/// The golden has them in the first warning, where they are the most.
#[test]
fn where_more_were_late_than_never_began_these_are_not_first() {
    let mut few = probe();
    for warning in &mut few.warnings {
        if let Finding::RateNotAchieved { not_begun, .. } = &mut warning.finding {
            *not_begun = 2;
        }
    }
    let text = end(&kind("probe", few), 80);
    assert_has(&text, ["! the hypervisor took"]);
    assert_lacks(text, ["! 87 requests"]);
}

#[test]
fn what_became_of_unconfirmed_messages_is_in_their_row_beside_a_fault() {
    let mut summary = kills();
    let flow = summary.flow_mut();
    (flow.sent.total, flow.completed.total) = (5_000, 4_975);
    (flow.received.total, flow.resent) = (5_002, Some(25));
    flow.ledger = Some(LedgerSummary {
        sent: 5_000,
        delivered: 4_986,
        unconfirmed_missing: 14,
        unconfirmed_delivered: 11,
        duplicated_redelivered: 10,
        duplicated_resent: 6,
        ..ledger()
    });
    // With those that are missing, the messages are all that were sent.
    let messages = "messages 5,000 sent, 5,002 deliveries of 4,986 messages, 4,975 confirmed, 25 sent again; 0 \
                    duplicated, 10 redelivered, 6 duplicated by resend, 11 unconfirmed but delivered";
    let kill = "kill at 15.4 s 0 lost, 14 unconfirmed and missing, longest wait 251 ms, node 1 back after 7.60 s";
    assert_has(flowing(&end(&kind("cluster-kill", summary), 80)), [messages, kill]);
}

/// On a screen the faults were left out, and the CPU stayed.
#[test]
fn faults_stay_where_cpu_and_verdict_have_no_room_and_the_rest_is_counted() {
    let mut summary = crash();
    let first = summary.faults[0].clone();
    summary.faults.extend([31.0, 42.0, 50.0, 55.0].map(|t| FaultOutcome { kind: "cut".into(), t, ..first.clone() }));
    summary.warnings = missed().warnings;
    for (columns, shown) in [(80, 2), (120, 4)] {
        let text = end(&kind("crash", summary.clone()), columns);
        assert_fits(&text, columns, 15);
        let rows = ["stop at 5.0 s", "kill at 20.0 s", "cut at 31.0 s", "cut at 42.0 s", "cut at 50.0 s"];
        assert_eq!(rows.map(|row| text.contains(row)), [0, 1, 2, 3, 4].map(|at| at < shown), "{text}");
        assert_has(&text, ["faults         6 faults: 12 lost", &format!("{} more faults", 6 - shown)]);
        assert!(columns > 80 || !text.contains("CPU  "), "{text}");
    }
}

/// 12,400 msg/s of 10,000 requested were "as requested".
#[test]
fn a_backlog_of_the_warm_up_is_in_the_first_line() {
    let mut summary = messages();
    let window = archive::RequestedWindow { t: 5.0, dt: 3.0, requested: 10_000.0, sent: 12_400.0 };
    let (achieved, over_time) = (Some(1.24), vec![window]);
    let requested = RequestedSummary { rate: 10_000.0, achieved, over_time, ..RequestedSummary::default() };
    summary.messages_mut().requested = Some(requested);
    let text = flowing(&brief(&named("rated", &summary), &summary, None, None, true, Style::PLAIN));
    assert_has(&text, [", 10,000 requested and the warm-up's backlog"]);
    assert_lacks(text, ["as requested"]);
}

/// Two warnings and several loads filled the screen, and nothing said who limited the run.
#[test]
fn every_run_says_who_limited_it() {
    let mut summary = api();
    let used = CoresUsed {
        cores: 2,
        broker_cores: 0.7,
        client_cores: 0.4,
        other_cores: 0.6,
        run_queue_wait: 0.2,
        broker_run_queue_wait: 1.0,
        rate_met: false,
    };
    summary.warnings.extend([Finding::TooFewCores { used }, Finding::CpuSteal { steal: 0.1 }].map(told));
    let sentence = "undecided: other processes took 0.6 of the 2 cores, the broker's threads together waited 1.0 s per \
                    second in the run queue: stop the others, and run again";
    summary.verdict = verdict(LimitedBy::Undecided, Cause::OthersFillMachine, sentence);
    let told = "limited by undecided: other processes took the cores ";
    for columns in [60, 80, 120, 200] {
        assert_has(flowing(&end(&kind("mgmt-api", summary.clone()), columns)), [told]);
    }
    summary.warnings.clear();
    let text = flowing(&end(&kind("mgmt-api", summary.clone()), 80));
    assert_has(text, ["limited by undecided: other processes took 0.6 of the 2 cores"]);
    summary.verdict = verdict(LimitedBy::Undecided, Cause::AllFailed, "every request failed, 38 in all");
    assert_has(flowing(&end(&kind("probe", summary), 80)), ["limited by undecided: none of them succeeded"]);
}

/// `connect` and `secure` stood among them, and requests in flight behind the bytes, where they were cut.
#[test]
fn a_probe_shows_its_steps_by_weight_and_what_was_in_flight_among_the_outcomes() {
    let mut summary = messages();
    summary.scenarios.clear();
    let steps = ["response", "from send", "wait", "first byte", "body", "connect"].map(|name| (name, 30));
    let mut of = operations("probe_brief5", "requests", &steps);
    of.role = measure::ScenarioRole::Server;
    let counter = |name| registered("probe_brief5", name, MetricKind::Counter);
    let counts = [("begun", 13), ("completed", 10), ("late", 13), ("in flight at the end", 3)];
    of.counts = counts.map(|(name, number)| (counter(name), number)).into();
    summary.insert("probe_brief5", of);
    let text = end(&kind("probe", summary.clone()), 80);
    let names = ["response ", "wait ", "from send ", "first byte ", "body ", "connect "];
    let rows = text.lines().filter_map(|line| names.iter().position(|name| line.starts_with(name)));
    assert_eq!(rows.collect::<Vec<_>>(), [0, 1, 2, 3], "{text}");
    assert_has(flowing(&text), ["requests 10 completed, 3 in flight at the end, 13 late"]);
    // `0.05 requests/s for 60 s` stood above `10 completed`.
    of = summary.scenarios["probe_brief5"].clone();
    of.rate = 0.05;
    summary.insert("probe_brief5", of);
    assert_has(flowing(&end(&kind("probe", summary.clone()), 80)), ["requests 10 completed (7 in the drain), 3 in"]);
    // A response of few samples stood in words below the table of its steps.
    let mut of = operations("probe_brief5", "requests", &[("response", 9), ("wait", 30)]);
    of.role = measure::ScenarioRole::Server;
    summary.insert("probe_brief5", of);
    let text = flowing(&end(&kind("probe", summary), 80));
    assert_has(text, ["response 9 samples: min ", " wait 30 samples: min "]);
}

/// Over half of it was in functions without a symbol, and nothing said so.
#[test]
fn classes_of_an_emulator_without_symbols_are_estimates() {
    let mut summary = messages();
    let profile = &mut summary.profiles[0];
    profile.classes = vec![ClassShare { class: Class::BuiltInFunctions, share: 0.42, weight: 100 }];
    profile.top = vec![share("[near ets_select_2+0x40]".into(), "beam.smp", 0.55, 0.55)];
    let text = flowing(&end(&kind("stripped", summary), 80));
    let told = "CPU went to built-in functions ~42 % ~ estimated: at least 55 % in unnamed functions; install debug \
                symbols";
    assert_has(text, [told]);
}

fn words(random: &mut Random, least: u64, more: u64) -> String {
    const WORDS: [&str; 10] =
        ["the", "broker's", "queue,", "message;", "latency:", "p99", "(late)", "1.20 ms", "/var/lib/x", "generator"];
    let number_of_words = least + random.below(more);
    let number = random.below(1_000_000);
    let words = (0..number_of_words).map(|_| random.of(&WORDS));
    format!("{number} {}", words.collect::<Vec<_>>().join(" "))
}

fn random_kind(random: &mut Random) -> (RunRecord, RunSummary) {
    let all = kinds();
    let at = random.below(all.len() as u64) as usize;
    let (_, mut record, mut summary) = all[at].clone();
    let (sentence, phrase) = (|random: &mut Random| words(random, 3, 60), |random: &mut Random| words(random, 1, 8));
    for _ in 0..random.below(5) {
        let tier = random.of(&[Tier::Invalid, Tier::Caution, Tier::Note]);
        summary.warnings.push(warned(tier, Finding::CpuSteal { steal: 0.1 }, &sentence(random)));
    }
    for _ in 0..random.below(6) {
        let (that, met) = (phrase(random), random.of(&[Some(true), Some(false), None]));
        let observed = (!random.one_in(3)).then_some(random.below(1_000_000) as f64);
        let why = random.one_in(2).then(|| phrase(random));
        summary.requirements.push(RequirementOutcome { why, ..requirement(&that, met, observed) });
    }
    for number in 0..random.below(6) {
        let kind = random.of(&["kill", "stop", "stall"]);
        let t = number as f64 * 10.0 + random.below(9_000) as f64 / 1e3;
        let failed = random.one_in(3).then(|| phrase(random));
        let back_s = random.one_in(2).then_some(7.6);
        summary.faults.push(FaultOutcome { failed, back_s, ..fault(kind, None, t) });
    }
    if random.one_in(3) {
        summary.error = Some(Problem::new(sentence(random), sentence(random), "look"));
        record.state = RunState::Failed;
    }
    if random.one_in(3) {
        let sentence = format!("limited by the broker: {}", sentence(random));
        summary.verdict = verdict(LimitedBy::Broker, Cause::Unclear, &sentence);
    }
    let brokers = [
        "RabbitMQ 4.0.5",
        "bellows embedded broker 0.1.0",
        "Apache ActiveMQ Artemis 2.40.0 (nightly build of 2026-11-21)",
    ];
    record.versions.broker = Some(random.of(&brokers).into());
    if random.one_in(3) {
        let counter = |name| registered("probe_brief9", name, MetricKind::Counter);
        let mut failed = operations("probe_brief9", "requests", &[("response", 30)]);
        failed.counts = ["completed", "failed", "late", "timed out", "status 5xx"]
            .map(|name| (counter(name), random.below(100_000)))
            .into();
        summary.insert("probe_brief9", failed);
    }
    let of = latency(random.of(&[1, 9, 30, 1_000, 1_000_000]));
    if summary.has_messages() {
        summary.messages_mut().latency = std::iter::once((Metric::ACK_RESPONSE, of)).collect();
        let mut number = || random.of(&[0, 0, 7, 12_319, 3_000_000]);
        summary.flow_mut().ledger = Some(LedgerSummary {
            lost: number(),
            outstanding: number(),
            unconfirmed_missing: number(),
            duplicated: number(),
            foreign: number(),
            exact: number() > 0,
            ..LedgerSummary::default()
        });
    }
    (record, summary)
}

#[test]
fn every_end_fits_and_says_nothing_twice() {
    for seed in testkit::seeds(5) {
        let mut random = Random::new(seed);
        let (record, summary) = random_kind(&mut random);
        assert_eq!(faults(&record, &summary), None, "seed {seed}");
    }
}
