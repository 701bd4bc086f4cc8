//! A load's reports, through to the archive and the summary: no broker, no socket, no clock.

use archive::{
    FailedBy, FaultOutcome, Finding, RunReader, SeriesName, SeriesUnit, Tier, TraceSummary, Warning, WarningCode,
};
use load::scenario::Operations;
use load::{Outcome, PhaseTimes, RunEvent, Sink};
use measure::ledger::LedgerSummary;
use measure::{Metric, MetricKind, Phase, ScenarioRole, ThreadUsage};

use super::companion::{Collected, Companion, LoadEnd, Second, SeriesRow, Unread};
use super::*;
use crate::usage::{Reading, UsageSource};
use brokers::BrokerError;

const SECOND: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

/// Every reading is a second after the one before: half a core of the broker, a tenth of ours.
#[derive(Default)]
struct Metered(u64);

impl UsageSource for Metered {
    fn read(&mut self) -> Reading {
        let used = |share: u64, rss_bytes| linux::ProcessUse {
            cpu: measure::Nanos(self.0 * share * SECOND / 10),
            rss_bytes,
            threads: 3,
        };
        let reading = Reading {
            at: Time(self.0 * SECOND),
            broker: Some(used(5, 200_000_000)),
            client: Some(used(1, 20_000_000)),
            machine: None,
        };
        self.0 += 1;
        reading
    }

    fn activity(&mut self) -> Vec<(SeriesName, f64)> {
        let units = [SeriesUnit::Cores, SeriesUnit::Bytes];
        let name = |unit| SeriesName::new("broker", "of nodes", unit);
        units.map(|unit| (name(unit), 1.0)).into()
    }
}

/// Readings by their number, which counts from this.
struct Each<F>(u64, F);

impl<F: FnMut(u64) -> Reading> UsageSource for Each<F> {
    fn read(&mut self) -> Reading {
        self.0 += 1;
        (self.1)(self.0 - 1)
    }
}

#[derive(Default)]
pub(super) struct Heard {
    phases: Vec<Phase>,
    points: usize,
    broker_cores: Vec<f64>,
    steps: Vec<String>,
    pub(super) events: Vec<String>,
}

impl Observer for Heard {
    fn phase(&mut self, phase: Phase, _: Option<measure::Nanos>) {
        self.phases.push(phase);
    }
    fn point(&mut self, point: &archive::SeriesPoint, _: &Interval) {
        self.points += 1;
        self.broker_cores.extend(point.broker.map(|broker| broker.cpu_cores));
    }
    fn event(&mut self, event: &archive::Event) {
        self.events.push(event.label.clone());
    }
    fn progress(&mut self, progress: Progress<'_>) {
        match progress {
            Progress::Step(text) => self.steps.push(text.to_owned()),
            Progress::Waiting(text, waited) => self.steps.push(format!("{text}: {waited:?}")),
            _ => {}
        }
    }
}

/// One second from `second` on, with `count` messages of this latency.
fn interval(second: u64, phase: Phase, count: u64, latency_ms: u64) -> Interval {
    let mut interval = Interval::new();
    interval.reset(Time(second * SECOND), phase);
    interval.end = Time((second + 1) * SECOND);
    interval.counters.completed = count;
    if phase != Phase::Drain {
        interval.counters.sent = count;
    }
    let latency = measure::Nanos(latency_ms * MS);
    interval.latencies.record_n(Metric::ACK_RESPONSE, latency, count);
    interval
}

fn outcome(error: Option<load::Error>) -> Outcome {
    let span = |phase, start, end| PhaseTimes { phase, start: Time(start * SECOND), end: Time(end * SECOND) };
    let (sent, lost) = (12_000, 2);
    Outcome {
        phases: vec![span(Phase::Warmup, 10, 12), span(Phase::Measure, 12, 22), span(Phase::Drain, 22, 23)],
        totals: measure::Counters { sent, completed: sent, ..measure::Counters::default() },
        error,
        ledger: Some(LedgerSummary { sent, delivered: sent - lost, lost, exact: true, ..LedgerSummary::default() }),
        threads: vec![ThreadUsage::default()],
        ..Outcome::started(Time(10 * SECOND))
    }
}

pub(super) fn options(runs_dir: PathBuf) -> RunOptions {
    RunOptions {
        runs_dir: Some(runs_dir),
        labels: Labels::default(),
        command: vec!["bellows".into(), "--password".into(), "s3cret".into()],
        bellows_exe: PathBuf::from("bellows"),
        scenarios: &[],
        carrier: Carrier::Alone,
        texts: Texts::default(),
    }
}

/// The state of a run that begins, with two seconds of warm-up and ten measured ones.
pub(super) fn begun(dir: &std::path::Path) -> (RunContext, RunRecord, Option<RunWriter>) {
    let start = Start { origin: Time(9 * SECOND), unix_ns: 1_700_000_000 * SECOND, seed: 7 };
    let options = options(dir.to_owned());
    let mut record = start.record("played", &options);
    let writer = start.writer(&options, &mut record).unwrap();
    let messages = ScenarioContext {
        name: "messages",
        subject: "messages".to_owned(),
        operations: None,
        requested: None,
        in_flight_limit: None,
        achieved: Default::default(),
    };
    let context = RunContext {
        origin: start.origin,
        scenarios: vec![messages],
        phases: load::Phases {
            warmup: measure::Nanos(2 * SECOND),
            measure: Some(measure::Nanos(10 * SECOND)),
            ..load::Phases::default()
        },
        sees_all_brokers: true,
        ..RunContext::default()
    };
    (context, record, writer)
}

fn recording(
    (context, record, writer): (RunContext, RunRecord, Option<RunWriter>),
    usage: impl UsageSource + 'static,
    heard: &mut Heard,
) -> Recording<'_> {
    Recording::new(context, record, writer, Profiling::off(), Box::new(usage), heard)
}

fn heard_of(usage: impl UsageSource + 'static, play: impl FnOnce(Recording<'_>)) -> Heard {
    let dir = tempfile::tempdir().unwrap();
    let mut heard = Heard::default();
    let mut recording = recording(begun(dir.path()), usage, &mut heard);
    recording.event(RunEvent::Started { at: Time(10 * SECOND) });
    play(recording);
    heard
}

fn ending(outcome: Outcome) -> Ending {
    Ending { outcome, topology: Topology::default(), processes: Vec::new(), warnings: Vec::new() }
}

/// Warm-up, measured phase and a second of drain, as a load would tell them.
fn play(
    begun: (RunContext, RunRecord, Option<RunWriter>),
    observer: &mut Heard,
    error: Option<load::Error>,
) -> RunOutcome {
    let mut recording = recording(begun, Metered::default(), observer);
    recording.event(RunEvent::Connected {
        endpoint: "amqp://guest@h:1/".into(),
        product: "RabbitMQ".into(),
        version: "9.9".into(),
        round_trip: measure::Nanos(100_000),
        answer: measure::Nanos(200_000),
    });
    recording.event(RunEvent::Started { at: Time(10 * SECOND) });
    let phase = |recording: &mut Recording<'_>, phase, second| {
        recording.event(RunEvent::PhaseStarted { phase, at: Time(second * SECOND) });
    };
    phase(&mut recording, Phase::Warmup, 10);
    recording.interval(&interval(10, Phase::Warmup, 1_000, 900));
    recording.interval(&interval(11, Phase::Warmup, 1_000, 900));
    phase(&mut recording, Phase::Measure, 12);
    for second in 12..22 {
        recording.interval(&interval(second, Phase::Measure, 990, 2));
    }
    recording.event(RunEvent::Blocked { at: Time(21 * SECOND), reason: "low on memory".into() });
    phase(&mut recording, Phase::Drain, 22);
    let mut drained = interval(22, Phase::Drain, 100, 500);
    drained.counters.nacked = 7;
    recording.interval(&drained);
    recording.finish(ending(outcome(error)))
}

/// Another scenario beside messages leaves the CPU of a message unknown, unless it only watches.
#[test]
fn a_trace_beside_messages_leaves_their_cpu_known() {
    let metric = |key| Metric::named(key, MetricKind::Counter).unwrap();
    for (role, known) in [(ScenarioRole::Watcher, true), (ScenarioRole::Broker, false)] {
        let dir = tempfile::tempdir().unwrap();
        let mut begun = begun(dir.path());
        let beside = ScenarioContext {
            name: "beside",
            operations: Some(Operations {
                one: "call",
                many: "calls",
                role,
                begun: metric("beside_begun"),
                completed: metric("beside_completed"),
                failed: None,
                scheduled: None,
                latency: Metric::SEND_DELAY,
            }),
            ..begun.0.scenarios[0].clone()
        };
        begun.0.scenarios.push(beside);
        let ended = play(begun, &mut Heard::default(), None);
        let summary = ended.record.summary.as_ref().unwrap();
        let cost = summary.messages().cpu_us_each.broker;
        assert_eq!(cost.is_some(), known, "{cost:?}");
        assert_eq!(summary.scenarios["beside"].cpu_us_each, archive::PerMessage::default());
    }
}

#[test]
fn what_a_load_reports_reaches_summary_archive_and_observer() {
    let dir = tempfile::tempdir().unwrap();
    let mut heard = Heard::default();
    let ended = play(begun(dir.path()), &mut heard, None);
    let summary = ended.record.summary.as_ref().unwrap();

    // Totals hold the warm-up, rates do not; they divide by the measured length.
    let sent = summary.flow().sent;
    assert_eq!((sent.total, sent.rate), (12_000, 990.0));
    // Messages answered in the drain were sent in the measured phase: 100 of 10,000 took 500 ms.
    let latency = summary.messages().latency.get(Metric::ACK_RESPONSE);
    assert_eq!(latency.count, 10_000);
    assert!(latency.p90_ns.abs_diff(2 * MS) < MS / 100, "{latency:?}");
    assert!(latency.max_ns.abs_diff(500 * MS) < MS, "{latency:?}");
    assert!(latency.max_ns < 600 * MS, "no warm-up sample leaks");
    // Half a core, 990 messages a second.
    let cost = summary.messages().cpu_us_each.broker.unwrap();
    assert!((cost - 0.5e6 / 990.0).abs() < 0.01, "{cost}");
    assert_eq!(summary.rss_mb.client, Some(20.0));
    assert_eq!(summary.broker.version.as_deref(), Some("9.9"));
    let codes: Vec<WarningCode> = summary.warnings.iter().map(Warning::code).collect();
    assert!(codes.contains(&WarningCode::ConnectionBlocked));
    // Those of the drain were sent in the measured phase.
    let is_refused = |it: &Warning| matches!(it.finding, Finding::MessagesNotAccepted { nacked: 7, .. });
    assert!(summary.warnings.iter().any(is_refused), "{codes:?}");
    assert_eq!(summary.flow().ledger.map(|ledger| ledger.lost), Some(2));
    assert!(codes.contains(&WarningCode::MessagesLost));
    // What is as it is was read at the end of the second that rates are of.
    let kept = archive::read_named_series(ended.run_dir.as_deref().unwrap()).unwrap();
    let first = |unit| kept.iter().find(|it| it.name.unit == unit).and_then(|it| it.points.first()).map(|it| it.t);
    assert_eq!((first(SeriesUnit::Cores), first(SeriesUnit::Bytes)), (Some(0.0), Some(1.0)));
    assert_eq!(heard.steps, [""; 0], "no step is announced that does not happen");

    assert_eq!(heard.phases, [Phase::Warmup, Phase::Measure, Phase::Drain]);
    assert_eq!(heard.points, 13);
    assert_eq!(heard.events, ["the broker blocked a connection: low on memory"]);

    let run = ended.run_dir.as_deref().unwrap();
    let read = RunReader::open(run).unwrap();
    let kept = read.record.summary.as_ref().unwrap();
    assert_eq!((&kept.messages().latency, kept.flow()), (&summary.messages().latency, summary.flow()));
    assert_eq!(kept.warnings, summary.warnings);
    assert_eq!(read.points.len(), 13);
    assert_eq!(read.record.phases[1].start, 2.0, "since the load began");
    assert_eq!(read.merged(Phase::Measure).unwrap().histogram(Metric::ACK_RESPONSE).len(), 10_000);
    assert_eq!(read.merged(Phase::Warmup).unwrap().histogram(Metric::ACK_RESPONSE).len(), 2_000);
    let text = std::fs::read_to_string(run.join("run.json")).unwrap();
    assert!(!text.contains("s3cret"), "{text}");
}

#[test]
fn events_are_told_before_the_second_in_which_they_happened_and_kept_in_the_order_of_time() {
    let heard = heard_of(Metered::default(), |mut recording| {
        for (ms, label) in [(10_900, "third"), (10_200, "first"), (11_100, "fourth"), (10_300, "second")] {
            recording.keep_event(Time(ms * MS), label.to_owned());
        }
        recording.interval(&interval(10, Phase::Warmup, 10, 1));
        assert_eq!(recording.record.events.len(), 3);
        recording.event(RunEvent::PhaseStarted { phase: Phase::Measure, at: Time(12 * SECOND) });
        assert_eq!(recording.record.events.len(), 4, "it was before the phase");
        recording.discard();
    });
    assert_eq!(heard.events, ["first", "second", "third", "fourth"]);
    // The companion of faults hears that the broker is back when a later event was told.
    let heard = heard_of(Metered::default(), |mut recording| {
        recording.keep_event(Time(10_900 * MS), "later".to_owned());
        let (who, lasted) = ("worker m3".to_owned(), measure::Nanos(3 * SECOND));
        recording.event(RunEvent::NotHeard { who, lasted });
        recording.interval(&interval(10, Phase::Warmup, 10, 1));
        recording.keep_event(Time(10_500 * MS), "earlier".to_owned());
        let ended = recording.finish(ending(outcome(None)));
        assert_eq!(ended.record.events.iter().map(|it| it.label.as_str()).collect::<Vec<_>>(), ["earlier", "later"]);
    });
    assert_eq!(heard.events, ["later", "earlier"], "late, but told");
    assert!(heard.steps.iter().any(|it| it == "worker m3 is silent: 3s"), "{:?}", heard.steps);
}

#[test]
fn what_a_broker_used_stays_used_while_it_is_away_and_when_it_is_back() {
    // Half a core but in these seconds. Readings are numbered from 0, that at the beginning of the load is 1. Also the
    // second in which it is back has a CPU, and with it a memory.
    for (away, half_seconds, seconds) in [(5..100, 3, 3), (5..8, 4, 3 + 4)] {
        let usage = Each(0, move |second: u64| {
            let cpu = measure::Nanos(second.min(away.start) * SECOND / 2);
            let used = || linux::ProcessUse { cpu, rss_bytes: 7, threads: 1 };
            let broker = (!away.contains(&second)).then(used);
            Reading { at: Time(second * SECOND), broker, ..Reading::default() }
        });
        let heard = heard_of(usage, |mut recording| {
            for second in 10..20 {
                recording.interval(&interval(second, Phase::Measure, 100, 1));
            }
            assert_eq!(recording.cpu_of_nodes(), [Some(measure::Nanos(half_seconds * SECOND / 2))]);
            recording.discard();
        });
        assert_eq!(heard.broker_cores.len(), seconds);
        assert_eq!(heard.broker_cores[..3], [0.5; 3]);
    }
}

/// A fleet tells its last second when the worker is lost that it waited for.
#[test]
fn a_second_that_comes_late_is_not_charged_with_what_was_used_since() {
    let usage = Each(0, |number: u64| {
        let second = [10, 10, 11, 12, 18][number as usize];
        let broker = Some(linux::ProcessUse { cpu: measure::Nanos(second * SECOND / 2), rss_bytes: 7, threads: 1 });
        Reading { at: Time(second * SECOND), broker, ..Reading::default() }
    });
    heard_of(usage, |mut recording| {
        for second in 10..13 {
            recording.interval(&interval(second, Phase::Measure, 100, 1));
        }
        let between = recording.used.between.map(|(begin, end)| (begin.at, end.at));
        assert_eq!(between, Some((Time(10 * SECOND), Time(12 * SECOND))));
        recording.discard();
    });
}

/// The share of CPU time that a profile of several processes stands for is of this.
#[test]
fn all_processes_that_a_broker_was_have_used_what_its_meter_counted() {
    let dir = tempfile::tempdir().unwrap();
    let mut heard = Heard::default();
    let mut recording = recording(begun(dir.path()), Metered::default(), &mut heard);
    assert_eq!(recording.cpu_of_nodes(), [None], "nothing was measured");
    let used = |cpu| Some(linux::ProcessUse { cpu: measure::Nanos(cpu), ..linux::ProcessUse::default() });
    let reading = |broker| Reading { broker, ..Reading::default() };
    recording.used.between = Some((reading(used(5)), reading(used(12))));
    assert_eq!(recording.cpu_of_nodes(), [Some(measure::Nanos(7))]);
    recording.used.between = Some((reading(used(5)), reading(None)));
    assert_eq!(recording.cpu_of_nodes(), [None], "it is away at the end");
    recording.summary.nodes =
        vec![archive::NodeSummary { cpu_cores: 0.5, ran_s: Some(4.0), ..archive::NodeSummary::default() }];
    let two_seconds = Some(measure::Nanos(2 * SECOND));
    assert_eq!(recording.cpu_of_nodes(), [two_seconds]);
    recording.discard();
}

/// Connecting and preparing profiles take seconds, of which no axis shows anything.
#[test]
fn time_counts_from_the_beginning_of_the_load_also_of_a_run_that_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let begun = begun(dir.path());
    let (folder, unix_ns) = (begun.2.as_ref().unwrap().dir().to_owned(), begun.1.origin_unix_ns);
    let mut heard = Heard::default();
    let mut recording = recording(begun, Metered::default(), &mut heard);
    recording.keep_event(Time(9_500 * MS), "before it".to_owned());
    recording.event(RunEvent::Started { at: Time(14 * SECOND) });
    recording.keep_event(Time(14_500 * MS), "in it".to_owned());
    recording.interval(&interval(14, Phase::Warmup, 10, 1));
    assert_eq!(recording.record.events.iter().map(|it| it.t).collect::<Vec<f64>>(), [0.0, 0.5]);
    // Nothing ends it in order.
    drop(recording);
    let read = RunReader::open(&folder).unwrap();
    assert_eq!(read.points[0].t, 0.0);
    assert_eq!((read.record.origin, read.record.origin_unix_ns), (Time(14 * SECOND), unix_ns + 5 * SECOND));
}

#[test]
fn a_load_that_breaks_off_is_kept_as_failed_with_its_cause() {
    let dir = tempfile::tempdir().unwrap();
    let detail = || "a played failure".to_owned();
    let machine = load::Error::Machine { action: "wait for the sockets".into(), detail: detail() };
    let lost = load::Error::Lost { endpoint: "amqp://localhost".into(), detail: detail() };
    for (error, by) in [(machine, FailedBy::Generator), (lost, FailedBy::Side)] {
        let ended = play(begun(dir.path()), &mut Heard::default(), Some(error));
        assert_eq!(ended.record.state, archive::RunState::Failed);
        let read = RunReader::open(ended.run_dir.as_deref().unwrap()).unwrap();
        assert_eq!(read.record.failed_by, Some(by));
        testkit::assert_has(read.record.error.unwrap(), ["a played failure"]);
        assert!(read.record.summary.is_some(), "what was measured is kept");
    }
}

/// Readings two of which follow the phase's end by a millisecond each: those milliseconds are ours alone.
#[test]
fn the_end_of_a_phase_has_the_cores_of_the_second_before() {
    let usage = Each(0, |number: u64| {
        let ms = [0, 0, 1_000, 2_000, 2_001, 2_002][number as usize];
        let used = |ms: u64| Some(linux::ProcessUse { cpu: measure::Nanos(ms * MS), ..Default::default() });
        let (broker, client) = (used(ms.min(2_000) / 2), used(ms.saturating_sub(2_000)));
        Reading { at: Time(ms * MS), broker, client, ..Reading::default() }
    });
    let heard = heard_of(usage, |mut recording| {
        for second in 10..14 {
            recording.interval(&interval(second, Phase::Measure, 10, 1));
        }
    });
    let expected = [0.5, 0.5, 1_000.0 / 1_001.0 / 2.0, 1_000.0 / 1_002.0 / 2.0];
    let near = |(a, b): (&f64, f64)| (a - b).abs() < 2e-3;
    assert_eq!(heard.broker_cores.len(), 4);
    assert!(heard.broker_cores.iter().zip(expected).all(near), "{:?}", heard.broker_cores);
}

/// All connections are down from half a second before the end of sending until after it.
#[test]
fn a_stall_counts_what_was_due_to_be_sent_of_every_group() {
    let dir = tempfile::tempdir().unwrap();
    let mut begun = begun(dir.path());
    let url: load::Endpoint = "amqp://localhost".parse().unwrap();
    let group = |rate: f64| {
        let mut group = load::Group::new(url.clone(), vec![load::Destination::queue("q")]);
        group.producers.per_destination = 1;
        group.producers.arrivals = measure::Rate::per_second(rate).unwrap().into();
        group
    };
    let plan = load::Plan { groups: vec![group(1_000.0), group(10.0)], ..load::Plan::default() };
    begun.0.scenarios[0].requested = plan.requested().unwrap();
    let mut heard = Heard::default();
    let mut recording = recording(begun, Metered::default(), &mut heard);
    recording.event(RunEvent::Started { at: Time(10 * SECOND) });
    recording.event(RunEvent::Silence(load::Silence {
        from: Time(21_500 * MS),
        until: Time(22_900 * MS),
        connections: 2,
        in_flight: 4,
        is_away: true,
        ..load::Silence::default()
    }));
    let mut outcome = outcome(None);
    outcome.threads[0].connections = 2;
    let ended = recording.finish(ending(outcome));
    let stalls = &ended.record.summary.as_ref().unwrap().stalls;
    assert_eq!(stalls.iter().map(|it| it.messages_delayed).collect::<Vec<u64>>(), [4 + 500 + 5], "{stalls:?}");
}

fn noted(note: String) -> Collected {
    Collected { notes: vec![note], ..Collected::default() }
}

/// A companion that counts seconds, under a name.
struct Toy(&'static str, u64);

impl Companion for Toy {
    fn start(&mut self, _: Time) -> Collected {
        noted(format!("{} starts", self.0))
    }

    fn second(&mut self, second: &Second) -> Collected {
        self.1 += 1;
        let value = (SeriesName::new("toy", self.0, SeriesUnit::Count), 7.0);
        Collected {
            told: vec![vec![value.clone()]],
            rows: vec![SeriesRow { since: second.after.at, length: measure::Nanos::SECOND, values: vec![value] }],
            ..Collected::default()
        }
    }

    fn load_ended(&mut self) -> Collected {
        noted(format!("{} ends after {}", self.0, self.1))
    }

    fn finish(&mut self, run: &mut LoadEnd<'_>) -> Collected {
        run.summary.traces.push(TraceSummary { scenario: self.0.to_owned(), ..TraceSummary::default() });
        Collected { warnings: vec![traced()], ..Collected::default() }
    }
}

/// A node that is killed at 11.2 s and back after two, heard of at the second's end, and readings that fail.
#[derive(Default)]
struct Killed(u64);

impl Companion for Killed {
    fn before(&mut self, event: Option<&RunEvent>) -> Collected {
        let faults = vec![FaultOutcome {
            kind: "kill".into(),
            node: Some(1),
            t: 2.2,
            asked_s: Some(1.0),
            back_s: (self.0 > 2).then_some(2.0),
            ..FaultOutcome::default()
        }];
        Collected { faults: (event.is_none() && self.0 > 0).then_some(faults), ..Collected::default() }
    }

    fn second(&mut self, _: &Second) -> Collected {
        self.0 += 1;
        let unread = |node, at: u64| Unread {
            asked: Time(at * MS),
            at: Time((at + 100) * MS),
            node,
            what: format!("{node:?} at {at}"),
            otherwise: format!("{node:?} at {at}: look there"),
        };
        Collected {
            unread: match self.0 {
                // The news of the fault comes a moment later.
                1 => vec![
                    unread(Some(1), 10_900),
                    unread(Some(1), 11_300),
                    unread(Some(0), 11_300),
                    unread(None, 11_300),
                ],
                4 => vec![unread(Some(1), 13_000), unread(Some(1), 13_300)],
                _ => Vec::new(),
            },
            ..Collected::default()
        }
    }
}

#[test]
fn what_a_fault_of_the_run_explains_is_told_with_that() {
    let dir = tempfile::tempdir().unwrap();
    let mut heard = Heard::default();
    let mut recording = recording(begun(dir.path()), Metered::default(), &mut heard);
    recording.companions = vec![Box::new(Killed::default())];
    for second in 10..14 {
        recording.interval(&interval(second, Phase::Measure, 10, 1));
    }
    recording.finish_companions(&outcome(None));
    recording.discard();
    let expected = [
        "Some(1) at 10900: look there",
        "Some(1) at 11300: the run's own kill of node 1",
        "Some(0) at 11300: look there",
        "None at 11300: look there",
        "Some(1) at 13000: the run's own kill of node 1",
        "Some(1) at 13300: look there",
    ];
    assert_eq!(heard.events, expected);
}

fn traced() -> Warning {
    let functions = "lists:map/2".to_owned();
    Warning::new(Tier::Note, Finding::Traced { functions })
}

/// Profiles, companions and nodes report at their ends, in any order.
#[test]
fn warnings_stand_in_one_order_whoever_tells_first() {
    let incomplete = |why: &str| crate::judge::profile_incomplete(why);
    let told = [incomplete("b"), traced(), incomplete("a")];
    let order = |of: [usize; 3]| {
        let dir = tempfile::tempdir().unwrap();
        let mut heard = Heard::default();
        let recording = recording(begun(dir.path()), Metered::default(), &mut heard);
        let warnings = of.map(|it| told[it].clone()).to_vec();
        let ended = recording.finish(Ending { warnings, ..ending(outcome(None)) });
        ended.record.warnings.into_iter().map(|it| it.finding).collect::<Vec<_>>()
    };
    let first = order([0, 1, 2]);
    for other in [[0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        assert_eq!(order(other), first);
    }
}

#[test]
fn what_a_companion_collects_is_kept_in_the_order_of_the_list_and_ends_in_reverse() {
    let dir = tempfile::tempdir().unwrap();
    let mut heard = Heard::default();
    let mut recording = recording(begun(dir.path()), Metered::default(), &mut heard);
    recording.companions = vec![Box::new(Toy("one", 0)), Box::new(Toy("two", 0))];
    recording.event(RunEvent::Started { at: Time(10 * SECOND) });
    recording.interval(&interval(10, Phase::Measure, 10, 1));
    recording.interval(&interval(11, Phase::Measure, 10, 1));
    // A load that does not begin ends all the same.
    let (mut recording, result, _) = recording.run(&[], &load::Control::new(), || None);
    assert!(result.is_err());
    let outcome = outcome(None);
    recording.finish_companions(&outcome);
    let ended = recording.finish(ending(outcome));
    assert_eq!(heard.events, ["one starts", "two starts", "two ends after 2", "one ends after 2"]);
    let summary = ended.record.summary.as_ref().unwrap();
    assert_eq!(summary.traces.iter().map(|it| it.scenario.as_str()).collect::<Vec<_>>(), ["one", "two"]);
    assert_eq!(summary.warnings.iter().map(Warning::code).filter(|it| *it == WarningCode::Traced).count(), 2);
    let kept = archive::read_named_series(ended.run_dir.as_deref().unwrap()).unwrap();
    let kept: Vec<(&str, usize)> =
        (kept.iter()).filter(|it| it.name.name != "of nodes").map(|it| (&*it.name.name, it.points.len())).collect();
    assert_eq!(kept, [("one", 2), ("two", 2)]);
}

#[test]
fn a_broker_that_was_not_ready_is_told_from_one_that_cannot_start() {
    let slow = BrokerError::not_ready("RabbitMQ", std::time::Duration::from_secs(60), String::new());
    let Error::NotReady(problem) = Error::from(slow) else { panic!("another error") };
    assert!(problem.to_string().contains("in time"), "{problem}");
    assert!(matches!(Error::from(BrokerError::exited("RabbitMQ", "exit status: 1", "")), Error::Failed(_)));
}
