//! Which runs may be compared, and what is decided of them.

use archive::{ComparedFigure, Finding, Throughput, Versions};

use super::*;
use crate::example_warnings::{refused, warn};
use archive::Decision;
use measure::ledger::LedgerSummary;
use testkit::{assert_begins, assert_ends, assert_has, assert_lacks, only};

pub(super) const ALIKE: [f64; 5] = [1.0, 1.001, 0.999, 1.000_5, 0.999_5];

pub(super) fn run(id: &str, version: &str, schedulers: u32, rate: f64) -> RunRecord {
    let mut summary = RunSummary::default();
    summary.flow_mut().sent = Throughput { total: 1, rate };
    RunRecord {
        id: id.into(),
        state: RunState::Complete,
        experiment: json!({
            "broker": {"kind": "rabbitmq", "schedulers": schedulers},
            "load": [{"message-size": 100}],
        }),
        versions: Versions { broker: Some(version.into()), ..Versions::default() },
        summary: Some(summary),
        ..RunRecord::default()
    }
}

pub(super) fn compared(a: &[RunRecord], b: &[RunRecord]) -> Comparison {
    comparison(a, b, ComparisonOptions::default()).expect("comparable")
}

fn alike(change: impl Fn(&mut RunRecord)) -> [RunRecord; 3] {
    [1.0, 1.001, 0.999].map(|it| {
        let mut run = run("x", "3.10", 2, 1_000.0 * it);
        change(&mut run);
        run
    })
}

/// Runs at about 1,000 messages a second, with a change of each summary.
pub(super) fn numbered(count: u32, change: impl Fn(u32, &mut RunSummary)) -> Vec<RunRecord> {
    let of = |at: u32| {
        let mut run = run(&format!("run-{at}"), "4.0", 1, 1_000.0 + f64::from(at % 3));
        change(at, run.summary.as_mut().expect("a summary"));
        run
    };
    (0..count).map(of).collect()
}

fn named<'c>(of: &'c Comparison, name: &str) -> Option<&'c ComparedFigure> {
    of.figures.iter().find(|it| it.name == name)
}

fn ledger(sent: u64, lost: u64, reordered: u64) -> Option<LedgerSummary> {
    Some(LedgerSummary { exact: true, sent, lost, reordered, ..LedgerSummary::default() })
}

fn refuse(summary: &mut RunSummary, nacked: u64) {
    summary.warnings.extend((nacked > 0).then(|| refused(nacked)));
}

#[test]
fn sides_differ_in_the_broker_and_are_of_one_each() {
    let options = ComparisonOptions::default();
    let side = |version: &str, schedulers, rate: f64| ALIKE.map(|it| run("x", version, schedulers, rate * it));
    let (old, new) = (side("3.10", 2, 1_000.0), side("4.0", 1, 1_200.0));
    let found = comparison(&old, &new, options).expect("comparable");
    let sent = only(&found.figures);
    assert_eq!((sent.name.as_str(), sent.decision), ("sent rate", Decision::Changed));
    assert!((sent.change - 0.2).abs() < 1e-6 && !found.is_worse());
    let mixed = [&old[..2], &new[..1]].concat();
    let told = comparison(&mixed, &new, options).expect_err("two brokers").sentence();
    assert_has(&told, ["side A", "3.10"]);
    assert_ends(told, "with --force");
    let other = [&old[..2], &side("3.10", 1, 1_000.0)[..1]].concat();
    assert_has(comparison(&other, &new, options).expect_err("two brokers").sentence(), ["broker.schedulers"]);
    let forced = ComparisonOptions { force: true, ..options };
    let forced = comparison(&mixed, &new, forced).expect("forced");
    assert_eq!(forced.forced.len(), 1, "{:?}", forced.forced);
    assert!(!forced.forced[0].contains("--force"), "{:?}", forced.forced);
}

#[test]
fn acknowledgements_that_mean_different_things_are_compared_by_force_alone() {
    let side = |load: Value| alike(|run| run.experiment["load"] = json!([load]));
    let (kept, lost) = (side(json!({"persistent": true})), side(json!({"confirm": false})));
    let options = ComparisonOptions::default();
    let told = comparison(&kept, &lost, options).expect_err("unlike").sentence();
    assert_has(&told, ["at-least-once-durable: a confirm says", "at-most-once: producers get no acknowledgement"]);
    let forced = ComparisonOptions { force: true, ..options };
    let forced = comparison(&kept, &lost, forced).expect("forced");
    assert!(forced.forced[0].contains("acknowledgements mean different things"), "{:?}", forced.forced);
    // Those of `ab` were asked before the first run, and a majority is compared on purpose.
    let planned = ComparisonOptions { planned: true, ..options };
    let quorum = side(json!({"persistent": true, "queue-type": "quorum"}));
    let found = comparison(&kept, &quorum, planned).expect("comparable");
    let remarks = found.remarks.join(" ");
    assert!(remarks.contains("on disk on one node") && remarks.contains("on a majority"), "{remarks}");
    assert!(found.forced.is_empty(), "{:?}", found.forced);
    let windows = |protocol: &str, advanced: &str| {
        alike(|run| {
            run.experiment["load"] = json!([{"protocol": protocol, "max-pending": 200, "consumers": 0}]);
            run.experiment["broker"]["advanced"] = json!(advanced);
        })
    };
    for (advanced, cautions) in [("", 1), ("[{rabbit, [{max_link_credit, 400}]}].", 0)] {
        let [old, new] = ["amqp091", "amqp10"].map(|protocol| windows(protocol, advanced));
        let unlike = comparison(&old, &new, planned).expect("comparable").forced;
        assert_eq!(unlike.iter().filter(|it| it.contains("the experiment matched")).count(), cautions, "{unlike:?}");
    }
    // Both sides have the same broker: nothing told what differs.
    assert!(!found.a.what.contains("→") && found.b.what.contains(" → "), "{} {}", found.a.what, found.b.what);
}

#[test]
fn runs_that_were_profiled_in_blocks_are_compared_with_such_alone() {
    let side = |blocks: Option<&str>| {
        alike(|run| {
            if let Some(length) = blocks {
                run.experiment["profile"] = json!({"blocks": length});
            }
        })
    };
    for planned in [false, true] {
        let options = ComparisonOptions { planned, ..ComparisonOptions::default() };
        let refused = comparison(&side(None), &side(Some("1s")), options);
        assert_has(refused.expect_err("other blocks").sentence(), ["no blocks and blocks of 1s"]);
        assert!(comparison(&side(Some("1s")), &side(Some("2s")), options).is_err());
        comparison(&side(Some("1s")), &side(Some("1s")), options).expect("alike");
    }
}

#[test]
fn latencies_of_two_clocks_are_compared_with_their_widest_bound() {
    let side = |bound_s| {
        alike(|run| {
            let bound = |latency: &str, p50_s| Finding::ClockBound { latency: latency.to_owned(), p50_s, bound_s };
            let all = [bound("end-to-end", Some(1e-3)), bound("transfer", None)];
            let warnings = all.map(|it| archive::Warning::new(Tier::Note, it));
            run.summary.as_mut().expect("a summary").warnings.extend(warnings);
        })
    };
    let remarks = compared(&side(8e-5), &side(9e-5)).remarks;
    assert_begins(only(&remarks), "end-to-end ± 90.0 µs: taken by the clocks of two machines");
}

#[test]
fn hidden_words_of_a_command_are_told_as_not_compared() {
    let side = |word: &str| alike(|run| run.experiment["load"] = json!([{"command": ["x", word]}]));
    let remarks = |runs: &[RunRecord]| compared(runs, runs).remarks.len();
    for (word, told) in [("fast", 0), ("--token=***", 1)] {
        assert_eq!(remarks(&side(word)), told, "{word}");
    }
    for (key, value, told) in
        [("advanced", "***", 1), ("advanced", "[{a,***}].", 1), ("advanced", "[{a,1}].", 0), ("password", "***", 0)]
    {
        let mut runs = side("fast");
        for run in &mut runs {
            run.experiment["broker"] = json!({"kind": "rabbitmq", key: value});
        }
        assert_eq!(remarks(&runs), told, "{key}");
    }
}

/// Somebody else's load tool, or a broker that is only watched: nobody counted its messages.
#[test]
fn runs_without_messages_are_compared_by_the_brokers_cpu_per_time() {
    let side = |cores: f64, of_message: Option<f64>| {
        ALIKE.map(|it| {
            let mut run = run("x", "3.10", 2, 1_000.0);
            let summary = run.summary.as_mut().expect("a summary");
            let sent = &mut summary.flow_mut().sent;
            sent.total = u64::from(of_message.is_some());
            sent.rate *= sent.total as f64;
            summary.cpu_cores.broker = Some(cores * it);
            summary.messages_mut().cpu_us_each.broker = of_message.map(|us| us * it);
            summary.rss_mb.broker = Some(100.0 * it);
            run
        })
    };
    let found = |a: &[RunRecord], b: &[RunRecord]| {
        let found = compared(a, b);
        let figures: Vec<_> = found.figures.iter().map(|it| (it.name.clone(), it.decision)).collect();
        (figures, found.remarks.join("\n"))
    };
    let (figures, told) = found(&side(0.5, None), &side(0.6, None));
    let figure = |name: &str, decision| (name.to_owned(), decision);
    let cores = figure("broker cores", Decision::Changed);
    let memory = figure("broker memory", Decision::Same);
    assert_eq!(figures, [cores, memory]);
    let said = "no messages were counted: the broker's CPU is compared per time (broker cores), not per message";
    assert_begins(told, said);
    // Of runs that count messages the CPU is per message, also where some of the other side have none.
    for other in [Some(20.0), None] {
        let (figures, told) = found(&side(0.5, Some(20.0)), &side(0.6, other));
        let names: Vec<&str> = figures.iter().map(|it| it.0.as_str()).collect();
        assert_eq!(names, ["sent rate", "broker cpu", "broker memory"]);
        assert_eq!(told, "");
    }
}

#[test]
fn a_side_that_delivers_nothing_or_receives_nothing_of_a_requested_rate_is_worse() {
    let side = |rates: [f64; 3]| rates.map(|rate| run("x", "3.10", 2, rate));
    let some = side([1_000.0, 1_001.0, 999.0]);
    let none = side([0.0; 3]);
    let found = compared(&some, &none);
    assert!(found.is_worse(), "{found:#?}");
    assert!(!compared(&none, &some).is_worse());
    let once = compared(&some, &side([1_000.0, 0.0, 1_000.0]));
    let sent = only(&once.figures);
    assert_eq!((sent.decision, sent.without), (Decision::Undecided, (0, 1)));
    assert!(once.is_undecided());
    let receiving = |rate: f64| {
        numbered(3, |_, summary| {
            summary.flow_mut().sent.rate = 1_000.0;
            summary.messages_mut().requested = Some(archive::RequestedSummary::default());
            // What came in the warm-up is no message of the measured phase.
            summary.flow_mut().received = Throughput { total: 600, rate };
        })
    };
    let (well, nothing) = (receiving(1_000.0), receiving(0.0));
    let found = compared(&well, &nothing);
    let rate = &found.figures[0];
    assert!(rate.name == "received rate" && rate.is_worse(), "{found:#?}");
    assert!(named(&compared(&well, &well), "received rate").is_none());
}

#[test]
fn a_run_that_does_not_count_takes_its_partner_with_it() {
    // Every run is 3 % slower than the one before; within a pair nothing differs.
    let paired = ComparisonOptions { paired: true, ..ComparisonOptions::default() };
    let side = |broken: usize| -> Vec<RunRecord> {
        let rates = (0..8).map(|n| (n, 1_000.0 * 0.97_f64.powi(n as i32)));
        let noise = |n: usize| 1.0 + (n * (broken + 3) % 5) as f64 * 1e-4;
        let runs = rates.map(|(n, rate)| RunRecord {
            state: if n == broken { RunState::Failed } else { RunState::Complete },
            ..run(&format!("{broken}-{n}"), "3.10", 2, rate * noise(n))
        });
        runs.collect()
    };
    let found = comparison(&side(0), &side(7), paired).expect("comparable");
    assert!(!found.is_worse(), "{found:#?}");
    assert_eq!((found.a.runs.len(), found.b.runs.len()), (6, 6));
    let why: Vec<&str> = found.b.left_out.iter().map(|it| it.why.as_str()).collect();
    assert_eq!(why, ["the other run of its pair does not count", "failed"]);
}

#[test]
fn several_bellows_are_refused_and_reasons_are_named_once() {
    let options = ComparisonOptions::default();
    let side = |bellows: &str| alike(|run| run.versions.bellows = bellows.into());
    assert_has(comparison(&side("0.1"), &side("0.2"), options).expect_err("two bellows").sentence(), ["0.1"]);
    let forced = ComparisonOptions { force: true, ..options };
    let forced = comparison(&side("0.1"), &side("0.2"), forced).expect("forced");
    assert_eq!(forced.forced.len(), 1, "{:?}", forced.forced);
}

/// Runs that scraped a page, which took so long, as many times, with so many failures.
pub(super) fn scraping(ms: impl IntoIterator<Item = u64>, pages: u64, failed: u64) -> Vec<RunRecord> {
    let response = |ms: u64| measure::LatencySummary {
        count: pages,
        p50_ns: ms * 1_000_000,
        p99_ns: ms * 2_000_000,
        max_ns: ms * 3_000_000,
        ..Default::default()
    };
    let runs = ms.into_iter().map(|ms| {
        let mut run = run("x", "3.10", 2, 0.0);
        let summary = run.summary.get_or_insert_default();
        summary.scrapes = vec![archive::ScrapedPage {
            name: "per-object".into(),
            completed: pages,
            failed,
            response: response(ms),
            ..Default::default()
        }];
        run
    });
    runs.collect()
}

#[test]
fn the_time_of_pages_is_compared_by_their_names() {
    let decided = |a: &[RunRecord], b: &[RunRecord]| {
        compared(a, b).figures.into_iter().map(|it| (it.is_worse(), it.name, it.decision)).collect::<Vec<_>>()
    };
    let named = |name: &str, is_worse| (is_worse, name.to_owned(), Decision::Changed);
    let slow = [2_000, 2_010, 1_990, 2_005, 1_995];
    let fast = [1_000, 1_005, 995, 1_002, 998];
    assert_eq!(
        decided(&scraping(fast, 12, 0), &scraping(slow, 12, 0)),
        [named("per-object page p50", true), named("per-object page max", true)]
    );
    assert_eq!(
        decided(&scraping(slow, 2_000, 0), &scraping(fast, 2_000, 0)),
        [named("per-object page p50", false), named("per-object page p99", false)]
    );
    // A percentile that some runs lack is compared in none.
    assert_eq!(
        decided(&scraping(fast, 2_000, 0), &scraping(slow, 900, 0)),
        [named("per-object page p50", true), named("per-object page max", true)]
    );
}

/// Latencies of a side that keeps up, and of one that does not, are no fair comparison without this.
#[test]
fn a_requested_rate_that_one_side_misses_is_a_figure_and_the_first() {
    let side = |rate: f64, missed: bool| {
        ALIKE.map(|it| {
            let mut run = run("x", "3.10", 2, rate * it);
            let summary = run.summary.as_mut().expect("a summary");
            summary.messages_mut().requested =
                Some(archive::RequestedSummary { rate: 1_000.0, ..archive::RequestedSummary::default() });
            summary.messages_mut().cpu_us_each.broker = Some(20.0);
            if missed {
                warn(summary, WarningCode::RateNotAchieved, Tier::Caution);
            }
            run
        })
    };
    let names = |b_missed: bool, b: f64| -> Vec<(String, Decision)> {
        let figures = compared(&side(1_000.0, false), &side(b, b_missed)).figures.into_iter();
        figures.map(|it| (it.name, it.decision)).collect()
    };
    let kept = names(false, 1_000.0);
    assert!(kept.iter().all(|(name, _)| name != "sent rate"), "{kept:?}");
    let missed = names(true, 600.0);
    assert_eq!(missed[0], ("sent rate".to_owned(), Decision::Changed));
    // What consumers leave by a pace of their own is missing, too.
    let received = |rate: f64, cause: Option<archive::Cause>| {
        side(1_000.0, false).map(|mut run| {
            let summary = run.summary.as_mut().expect("a summary");
            summary.flow_mut().received.rate = rate;
            summary.verdict = Some(archive::Verdict { cause: cause.clone(), ..archive::Verdict::default() });
            run
        })
    };
    let (kept, slow) = (received(1_000.0, None), received(100.0, Some(archive::Cause::ConsumersSlow)));
    let found = compared(&kept, &slow);
    let first = &found.figures[0];
    assert_eq!((first.name.as_str(), first.decision), ("received rate", Decision::Changed));
}

#[test]
fn failures_that_one_side_alone_has_are_a_change() {
    let times = [1_000, 1_005, 995];
    let (well, failing) = (scraping(times, 12, 0), scraping(times, 12, 3));
    let failed = |of: &Comparison| of.figures.iter().find(|it| it.name.ends_with("failed")).cloned();
    let of_three = compared(&well, &failing);
    let figure = failed(&of_three).expect("failures");
    // Of six runs three fail, whichever side they are of: by chance all of one side in one of ten.
    assert_eq!((figure.decision, figure.needed), (Decision::Undecided, Some(5)));
    assert!(figure.p.is_some_and(|it| (it - 0.1).abs() < 1e-9) && of_three.is_undecided(), "{figure:?}");
    let twice = |runs: Vec<RunRecord>| [runs.clone(), runs].concat();
    let (well, failing) = (twice(well), twice(failing));
    for (a, b, is_worse) in [(&well, &failing, true), (&failing, &well, false)] {
        let figure = failed(&compared(a, b)).expect("failures");
        assert_eq!((figure.decision, figure.is_worse()), (Decision::Changed, is_worse));
        assert_eq!(figure.name, "per-object page failed");
    }
    assert!(failed(&compared(&well, &well)).is_none());
    let name = "per-object page failed";
    let read: Quantity = name.parse().expect("a name reads back");
    let summary = failing[0].summary.as_ref().expect("a summary");
    assert_eq!((read.name(), read.of(summary)), (archive::plain_name(name), Ok(3.0)));
}

#[test]
fn a_side_that_loses_messages_in_every_run_is_worse() {
    let losing = |lost: u64, exact: bool| {
        numbered(6, |_, summary| {
            summary.flow_mut().ledger = ledger(1_000, lost, 0).map(|it| LedgerSummary { exact, ..it });
            if lost > 0 {
                warn(summary, WarningCode::MessagesLost, Tier::Invalid);
            }
        })
    };
    let (well, worse) = (losing(0, true), losing(3, true));
    let found = compared(&well, &worse);
    let lost = named(&found, "lost").expect("a figure");
    assert_eq!((lost.decision, lost.without), (Decision::Changed, (6, 0)));
    assert!(lost.is_worse() && found.b.runs.iter().all(|it| it.invalid));
    let better = compared(&worse, &well);
    assert!(!better.is_worse(), "{better:#?}");
    // Where nobody knows how many, such runs do not count, which is told of the side.
    let found = compared(&well, &losing(3, false));
    assert!(named(&found, "lost").is_none());
    assert!(found.figures[0].name == "invalid runs" && found.is_worse());
}

/// A load that is refused some by design is the same on both sides, and a few more are no change for the worse; lost
/// messages are.
#[test]
fn counts_of_what_is_by_design_have_a_margin() {
    let side = |refused: [u64; 8], lost: u64, reordered: u64| {
        numbered(8, |at, summary| {
            summary.flow_mut().sent.total = 100_000;
            summary.flow_mut().ledger = ledger(100_000, lost, reordered);
            refuse(summary, refused[at as usize]);
        })
    };
    let refused = |by: f64| {
        let counts = [4_010.0, 3_940.0, 4_055.0, 3_980.0, 4_090.0, 3_900.0, 4_020.0, 4_005.0];
        side(counts.map(|it: f64| (it * by) as u64), 0, 0)
    };
    let decided = |a: &[RunRecord], b: &[RunRecord], name: &str| {
        let found = compared(a, b);
        let figure = named(&found, name).expect("a figure");
        (figure.decision, figure.is_worse())
    };
    let of = |by| decided(&refused(1.0), &refused(by), "refused");
    let decisions = [(Decision::Same, false), (Decision::Negligible, false), (Decision::Changed, true)];
    assert_eq!([1.0, 1.04, 1.5].map(of), decisions);
    // Of 100,000 messages a few are none by design, also where the other side has none.
    let none = side([0; 8], 0, 0);
    assert_eq!(decided(&none, &side([3, 5, 2, 4, 3, 6, 2, 4], 0, 0), "refused"), (Decision::Negligible, false));
    assert_eq!(decided(&none, &refused(1.0), "refused"), (Decision::Changed, true));
    assert_eq!(decided(&none, &side([0; 8], 4, 0), "lost"), (Decision::Changed, true));
    assert_eq!(decided(&none, &side([0; 8], 0, 2_500), "reordered"), (Decision::Changed, true));
    assert!(compared(&none, &none).figures.iter().all(|it| !Quantity::is_harm(&it.name)));
}

#[test]
fn what_keeps_runs_apart_is_told_as_what_it_is() {
    let told = |key: &str, value: Value| {
        let side = [0, 1].map(|_| run("x", "4.0", 1, 1_000.0));
        let mut other = side.clone();
        for run in &mut other {
            run.experiment[key] = value.clone();
        }
        comparison(&side, &other, ComparisonOptions::default()).expect_err("another experiment").sentence()
    };
    let longer = told("phases", json!({"measure": "30s"}));
    assert_has(&longer, ["have different lengths"]);
    assert_lacks(longer, ["load"]);
    assert_has(told("profile", json!({"frequency": 99})), ["profiled differently"]);
    assert_has(told("load", json!([])), ["different loads"]);
}

/// The reasons against comparing runs with these two loads.
fn refused_loads(a: &Value, b: &Value) -> String {
    let side = |load: &Value| {
        [0, 1].map(|_| {
            let mut run = run("x", "4.0", 1, 1_000.0);
            run.experiment["load"] = json!([load]);
            run
        })
    };
    comparison(&side(a), &side(b), ComparisonOptions::default()).expect_err("two loads").sentence()
}

/// Of two commands the first letters were shown, which both have, and neither had its end.
#[test]
fn a_refusal_shows_where_two_commands_differ() {
    let told = |a: &[&str], b: &[&str]| refused_loads(&json!({"command": a}), &json!({"command": b}));
    assert_has(told(&["x", "-a"], &["x", "-a", "-b"]), ["load.0.command.2 differs", "null and \"-b\""]);
    let script = |rate: &str| format!("{}--rate {rate}{}", "x ".repeat(90), " y".repeat(90));
    let (a, b) = (script("5"), script("70"));
    let within = told(&["sh", "-c", &a], &["sh", "-c", &b]);
    assert_has(&within, ["--rate 5 y", "--rate 70 y"]);
    assert_eq!(within.matches("\"…").count(), 2, "{within}");
    let protocols = refused_loads(&json!({"protocol": "amqp10"}), &json!({"protocol": null}));
    assert_has(protocols, ["load.0.protocol differs", "\"amqp10\" and \"amqp091\""]);
    assert_eq!(within.matches("…\"").count(), 2, "{within}");
    assert!(within.len() < 500, "{within}");
}

/// Two runs that agree in every digit are no measure of how far runs differ.
#[test]
fn few_runs_decide_nothing_however_alike_they_are() {
    for is_paired in [false, true] {
        let options = ComparisonOptions { paired: is_paired, ..ComparisonOptions::default() };
        for runs in 2..5 {
            let of = |ms: u64, failed: u64| scraping(vec![ms; runs], 12, failed);
            let found = comparison(&of(1_000, 2), &of(2_000, 4), options).expect("comparable");
            for figure in &found.figures {
                assert_eq!((figure.decision, figure.needed), (Decision::Undecided, None));
                assert!(figure.interval.0 <= 0.0 && 0.0 <= figure.interval.1, "{figure:#?}");
                // So that no change shows, however large.
                let is_shown = figure.is_tested() && figure.visible < 1e9;
                assert!(!is_shown, "{figure:#?}");
            }
            assert!(!found.is_worse() && found.figures.len() == 3);
        }
    }
}
