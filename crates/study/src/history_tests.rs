use archive::{Hardware, RunState, RunSummary, Throughput, Versions};
use serde_json::json;
use testkit::only;

use super::*;
use crate::example_warnings::warn;

fn record(day: u32, rate: f64) -> RunRecord {
    let received = Throughput { total: 100, rate };
    let mut summary = RunSummary::default();
    let flow = summary.flow_mut();
    (flow.sent, flow.received) = (received, received);
    RunRecord {
        id: format!("run-{day:03}"),
        name: "x".to_owned(),
        created: format!("2026-01-01T00:{day:03}"),
        state: RunState::Complete,
        experiment: json!({"load": [{"rate": 5}]}),
        versions: Versions { broker: Some("4.0".to_owned()), ..Versions::default() },
        hardware: Hardware { cpu: "a CPU".to_owned(), cores: 2, ..Hardware::default() },
        summary: Some(summary),
        ..RunRecord::default()
    }
}

fn at_rates(count: u32, rate: impl Fn(u32) -> f64) -> Vec<RunRecord> {
    (0..count).map(|day| record(day, rate(day))).collect()
}

/// Rates around a level, the same in every run of the test.
fn around(level: f64, number: u32) -> f64 {
    level * (1.0 + 0.01 * f64::from(number * 7 % 5))
}

fn steady(count: u32) -> Vec<RunRecord> {
    at_rates(count, |day| around(1e3, day))
}

fn losing(run: &mut RunRecord, lost: u64) {
    let ledger = measure::ledger::LedgerSummary { exact: true, sent: 1_000, lost, ..Default::default() };
    run.summary.as_mut().unwrap().flow_mut().ledger = Some(ledger);
}

fn named<'a>(found: &'a History, name: &str) -> &'a HistoryFigure {
    found.figures.iter().find(|it| it.name == name).expect("a figure")
}

#[test]
fn a_change_is_found_between_its_runs_and_its_size_is_that_of_the_means() {
    let rate = |day| around(if day < 9 { 1_000.0 } else { 800.0 }, day);
    let mut runs = at_rates(20, rate);
    // Whatever order they are read in.
    runs.reverse();
    let found = history("x", &runs, 0.05);
    assert_eq!((found.runs.len(), found.left_out.len()), (20, 0));
    let figure = only(&found.figures);
    assert_eq!(figure.name, "received rate");
    let change = only(&figure.changes);
    assert_eq!((change.run, change.worse), (9, true));
    assert_eq!(change.between, ("run-008".to_owned(), "run-009".to_owned()));
    assert!((change.change + 0.2).abs() < 0.01, "{change:?}");
    assert_eq!(figure.levels.iter().map(|it| (it.from, it.to)).collect::<Vec<_>>(), [(0, 9), (9, 20)]);
    let rate = |day| around(if day < 20 { 1_000.0 } else { 500.0 }, day);
    for level in [0.05, 0.001, 0.000_1] {
        let found = history("x", &at_rates(40, rate), level);
        let change = found.figures[0].changes.first();
        let change = change.unwrap_or_else(|| panic!("half of the rate is gone, at a level of {level}"));
        assert!(change.run == 20 && change.p <= level, "{level}: {change:?}");
    }
}

/// Three runs in the middle of twelve are too few for a change that went back; no line may look as if all were alike.
#[test]
fn runs_that_lie_apart_are_told_with_how_many_would_show_a_change() {
    let found = |runs: u32, of_apart: u32| {
        let apart = 4..4 + of_apart;
        let rate = |day| around(if apart.contains(&day) { 600.0 } else { 1_000.0 }, day);
        history("x", &at_rates(runs, rate), 0.01).figures.remove(0)
    };
    let few = found(12, 3);
    assert_eq!((few.changes.len(), &few.apart[..]), (0, &[4, 5, 6][..]));
    let needed = few.runs_for_apart.expect("a number");
    assert!(needed > 12);
    let enough = found(needed as u32, 3);
    assert_eq!((enough.changes.len(), enough.apart.len()), (2, 0));
    // One is no level, however many runs are made.
    let one = found(12, 1);
    assert_eq!((one.apart, one.runs_for_apart), (vec![4], None));
    assert!(found(12, 0).apart.is_empty());
}

/// Rates that are equal but for one run, and then twice as high; and rates that differ in the seventh digit.
#[test]
fn equal_runs_change_beside_one_that_lies_apart_and_not_by_less_than_is_measured() {
    let changes = |rate: &dyn Fn(u32) -> f64| {
        let mut found = history("x", &at_rates(20, rate), 0.05);
        std::mem::take(&mut found.figures[0].changes)
    };
    let found = changes(&|day| match day {
        4 => 1e6,
        ..10 => 1e3,
        _ => 2e3,
    });
    let change = only(&found);
    assert_eq!((change.run, change.worse), (10, false), "{change:?}");
    assert!((change.change - 1.0).abs() < 1e-9, "{change:?}");
    assert_eq!(changes(&|day| if day < 10 { 1e3 } else { 1e3 + 1e-3 }), []);
}

#[test]
fn runs_of_another_machine_or_load_do_not_count_and_those_of_another_broker_do() {
    let mut runs = steady(12);
    runs[3].versions.broker = Some("3.13".to_owned());
    runs[4].hardware.cores = 64;
    runs[5].experiment = json!({"load": [{"rate": 6}]});
    runs[6].state = RunState::Interrupted;
    runs[7].summary = None;
    let found = history("x", &runs, 0.05);
    let out: Vec<&str> = found.left_out.iter().map(|it| it.id.as_str()).collect();
    assert_eq!(out, ["run-004", "run-005", "run-006", "run-007"]);
    assert_eq!(found.runs[3].broker, "3.13");
    assert!(found.figures[0].changes.is_empty());
}

#[test]
fn few_runs_and_none_have_a_history_without_changes() {
    assert_eq!(history("x", &[], 0.05).figures.len(), 0);
    for count in 1..6 {
        let runs = at_rates(count, |day| f64::from(day + 1));
        let found = history("x", &runs, 0.05);
        assert_eq!(found.runs.len(), count as usize);
        assert!(found.figures.iter().all(|it| it.changes.is_empty() && it.levels.len() == 1));
    }
}

/// Runs at a steady rate, with these costs of a message.
fn costing(cpu: impl Fn(u32) -> Option<f64>, count: u32) -> History {
    let mut runs = steady(count);
    for (day, run) in (0..).zip(&mut runs) {
        run.summary.as_mut().unwrap().messages_mut().cpu_us_each.broker = cpu(day);
    }
    history("x", &runs, 0.05)
}

#[test]
fn a_run_without_a_value_stands_in_no_level_and_shifts_none() {
    let cost = |day| around(if day < 8 { 1_000.0 } else { 700.0 }, day);
    let found = costing(|day| (![2, 8].contains(&day)).then(|| cost(day)), 16);
    let figure = named(&found, "broker cpu");
    assert_eq!(figure.values[8], None);
    let change = &figure.changes[0];
    assert_eq!(change.between, ("run-007".to_owned(), "run-009".to_owned()));
    assert_eq!(figure.levels[0].to, 9);
    // A figure that runs lack by chance is no change, and costs those that have it none.
    let found = costing(|day| (day % 3 != 0).then(|| around(1e3, day)), 20);
    let names: Vec<&str> = found.figures.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["received rate", "broker cpu"]);
    assert!(found.figures.iter().all(|it| it.changes.is_empty()), "{found:#?}");
}

#[test]
fn losses_that_begin_end_or_fall_are_a_change_also_where_some_run_has_none() {
    for begin in [true, false] {
        let mut runs = steady(16);
        for (day, run) in (0..).zip(&mut runs) {
            losing(run, if (day < 8) == begin { 0 } else { 16 });
        }
        let found = history("x", &runs, 0.05);
        let lost = named(&found, "lost");
        let change = only(&lost.changes);
        assert_eq!((change.run, change.worse), (8, begin));
        let levels = lost.levels.iter().map(|it| it.mean.round());
        assert_eq!(levels.collect::<Vec<_>>(), if begin { [0.0, 16.0] } else { [16.0, 0.0] });
        assert!(change.change.is_finite());
    }
    // Levels are compared by means of one kind: losses that fell from 286 a run to 30 did not fall from 72.
    let mut runs = steady(28);
    for (day, run) in (0_u64..).zip(&mut runs) {
        let lost = match day {
            ..14 if day % 4 == 0 => 1,
            ..14 => 400,
            20 => 0,
            _ => 30,
        };
        losing(run, lost);
    }
    let found = history("x", &runs, 0.05);
    let lost = named(&found, "lost");
    let change = only(&lost.changes);
    assert_eq!(lost.levels.iter().map(|it| it.mean.round()).collect::<Vec<f64>>(), [286.0, 30.0], "{lost:#?}");
    assert!(change.change < -0.8 && !change.worse, "{change:#?}");
}

/// A broker that goes in every run from the seventh on leaves no figure of them, and is what has changed; so is one
/// without which the run cannot end. A generator that fails tells nothing of the broker.
#[test]
fn runs_that_their_own_broker_spoils_are_a_change() {
    let mut spoiled = steady(14);
    let mut failed = steady(14);
    for (spoiled, failed) in spoiled.iter_mut().zip(&mut failed).skip(7) {
        warn(spoiled.summary.as_mut().unwrap(), WarningCode::BrokerGone, archive::Tier::Invalid);
        (failed.state, failed.failed_by) = (RunState::Failed, Some(archive::FailedBy::Side));
    }
    (failed[3].state, failed[3].failed_by) = (RunState::Failed, Some(archive::FailedBy::Generator));
    for (runs, left_out) in [(spoiled, &[][..]), (failed, &["failed through the generator or its machine"][..])] {
        let found = history("x", &runs, 0.05);
        let out: Vec<&str> = found.left_out.iter().map(|it| it.why.as_str()).collect();
        assert_eq!((found.runs.len(), &out[..]), (14 - left_out.len(), left_out));
        let invalid = &found.figures[0];
        assert_eq!(invalid.name, "invalid runs");
        let change = &invalid.changes[0];
        assert_eq!((found.runs[change.run].id.as_str(), change.worse), ("run-007", true), "{invalid:#?}");
        assert_eq!(found.figures[1].values[9], None);
    }
}

/// Names of pages come from files: each run may have others.
#[test]
fn many_names_cost_no_more_than_some() {
    let mut runs = steady(20);
    for (day, run) in runs.iter_mut().enumerate() {
        let page = |at: usize| archive::ScrapedPage {
            name: format!("page-{day}-{at}"),
            completed: 12,
            response: measure::LatencySummary { count: 12, p50_ns: 1_000_000, max_ns: 3_000_000, ..Default::default() },
            ..Default::default()
        };
        run.summary.as_mut().unwrap().scrapes = (0..60).map(page).collect();
    }
    let found = history("x", &runs, 0.05);
    assert_eq!(found.figures.len(), 100);
    assert_eq!(found.figures[0].name, "received rate");
    assert_eq!(found.figures[1].name, "page-19-0 page p50");
    assert!(found.figures_left_out > 2_000, "{}", found.figures_left_out);
}

/// `bellows client` calls all of its runs `client`, whatever they load.
#[test]
fn runs_by_hand_are_no_experiment() {
    let mut runs = steady(12);
    for (day, run) in (0..).zip(&mut runs) {
        run.name = "client".to_owned();
        run.command = ["bellows", "client"].map(str::to_owned).to_vec();
        run.experiment["broker"] = json!({"url": if day < 5 { "amqp://one" } else { "amqp://two" }});
    }
    runs[9].experiment["load"] = json!([{"rate": 6}]);
    let found = history("client", &runs, 0.05);
    assert_eq!((found.runs.len(), found.loads, found.ad_hoc), (6, 2, true));
    assert!(found.left_out[0].why.contains("amqp://one"), "{found:#?}");
    // Of an experiment with a name, brokers are what changes.
    for run in &mut runs {
        run.command[1] = "run".to_owned();
    }
    let found = history("client", &runs, 0.05);
    assert_eq!((found.runs.len(), found.ad_hoc), (11, false));
}

/// A run at a requested rate, that received so much of it, with a latency only where something came.
fn delivered(day: u32, rate: f64, p50_ns: u64) -> RunRecord {
    let mut run = record(day, rate);
    let summary = run.summary.as_mut().expect("a summary");
    summary.messages_mut().requested = Some(archive::RequestedSummary::default());
    summary.flow_mut().sent.rate = around(1e3, day);
    if rate > 0.0 {
        let latency = measure::LatencySummary {
            count: 1_000,
            p50_ns: p50_ns + u64::from(day * 7 % 5),
            p99_ns: 2_000 + u64::from(day * 7 % 5),
            ..Default::default()
        };
        summary.messages_mut().latency = [(measure::Metric::END_TO_END, latency)].into_iter().collect();
    }
    run
}

/// Runs that received nothing have no latency; where a rate was requested, the rate that was received is no figure of
/// those that did.
#[test]
fn deliveries_that_stop_or_begin_are_a_change_of_rate_and_figures() {
    for stops in [true, false] {
        let rate = |day| {
            if (day < 8) == stops { around(1e3, day) } else { 0.0 }
        };
        let runs: Vec<RunRecord> = (0..16).map(|day| delivered(day, rate(day), 1_000)).collect();
        let found = history("x", &runs, 0.05);
        let changed: Vec<&HistoryFigure> = found.figures.iter().filter(|it| !it.changes.is_empty()).collect();
        let [lacking, received] = &changed[..] else { panic!("{found:#?}") };
        assert_eq!(received.name, "received rate");
        assert_eq!(received.values[if stops { 8 } else { 7 }], Some(0.0));
        let change = &received.changes[0];
        assert_eq!((change.run, change.worse), (8, stops));
        assert_eq!(lacking.name, "runs without end-to-end p50, end-to-end p99");
        assert!(lacking.of_runs && !lacking.why.is_empty(), "{lacking:#?}");
        let change = &lacking.changes[0];
        assert_eq!((change.run, change.worse), (8, stops));
        assert_eq!(change.between, ("run-007".to_owned(), "run-008".to_owned()));
    }
}

/// The middle four of 12 runs are 1,000 times slower, and so few can show no change that lasted four.
#[test]
fn what_so_few_runs_cannot_show_of_a_change_that_went_back_is_computed() {
    let found = |runs: u32, slow: std::ops::Range<u32>| {
        let p50 = |day| {
            if slow.contains(&day) { 1_000_000 } else { 1_000 }
        };
        let runs: Vec<RunRecord> = (0..runs).map(|day| delivered(day, around(1e3, day), p50(day))).collect();
        history("x", &runs, 0.01)
    };
    let changes = |of: &History| -> usize { of.figures.iter().map(|it| it.changes.len()).sum() };
    let four = found(12, 4..8);
    assert!(four.least_runs <= 12 && changes(&four) == 0, "{four:#?}");
    assert!(four.runs_until_return.is_none_or(|it| it.0 > 4), "{four:#?}");
    assert_eq!(found(11, 0..0).runs_until_return, None);
    // 20 runs show one that is a little longer than the shortest that they can show.
    let shortest = found(20, 0..0).runs_until_return.expect("a length").0 as u32;
    let enough = found(20, 6..7 + shortest);
    let rose_and_fell = named(&enough, "end-to-end p50").changes.iter().map(|it| (it.run, it.worse));
    assert_eq!(rose_and_fell.collect::<Vec<_>>(), [(6, true), (7 + shortest as usize, false)], "{enough:#?}");
    assert_eq!(changes(&enough), 2, "{enough:#?}");
}

/// Those of a debug build are compared with each other, and never with others.
#[test]
fn runs_of_a_debug_build_count_and_are_told() {
    let mut runs = steady(12);
    assert!(!history("x", &runs, 0.05).debug_build);
    for run in runs.iter_mut().skip(2) {
        warn(run.summary.as_mut().unwrap(), WarningCode::DebugBuild, archive::Tier::Invalid);
    }
    let found = history("x", &runs, 0.05);
    assert_eq!((found.runs.len(), found.left_out.len()), (10, 2));
    assert!(found.debug_build, "{found:#?}");
}

/// Of programs that load the broker themselves nobody counts messages, and its CPU may change all the same.
#[test]
fn a_change_of_cpu_is_found_in_runs_without_messages_and_told_as_per_time() {
    let found = |counted: u32| {
        let runs = (0..20).map(|day| {
            let mut run = record(day, 0.0);
            let summary = run.summary.as_mut().expect("a summary");
            let cores = around(if day < 10 { 0.5 } else { 0.7 }, day);
            summary.cpu_cores.broker = Some(cores);
            summary.messages_mut().cpu_us_each.broker = (day < counted).then_some(cores);
            *summary.flow_mut() = Default::default();
            run
        });
        history("x", &runs.collect::<Vec<_>>(), 0.05)
    };
    let without = found(0);
    let cores = only(&without.figures);
    assert_eq!((cores.name.as_str(), cores.changes.len()), ("broker cores", 1));
    testkit::assert_begins(without.remarks.join(""), "no messages were counted: ");
    let some = found(20);
    assert_eq!((some.figures[0].name.as_str(), some.remarks.len()), ("broker cpu", 0));
}

/// Runs whose loads differ in hidden words alone are one series, and that is said.
#[test]
fn hidden_words_are_told_as_not_compared() {
    let remarks = |word: &str| {
        let mut runs = at_rates(9, |_| 1_000.0);
        runs[3].experiment = json!({"load": [{"command": ["x", word]}]});
        runs[8].experiment = runs[3].experiment.clone();
        history("x", &runs, 0.05).remarks.len()
    };
    assert_eq!((remarks("fast"), remarks("***")), (0, 1));
}
