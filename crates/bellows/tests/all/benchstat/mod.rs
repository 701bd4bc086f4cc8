//! `benchstat`, Go's own tool, reads the output of `--go-bench`, and its verdict agrees with ours.
//!
//! `runs.txt` is this program's output for made-up runs, and `verdicts.csv` a real benchstat's for that; `remake` makes
//! both again. Where benchstat is installed, it is run again.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::{env, fs};

use archive::{ComparedFigure, ComparedMatrix, Comparison, Decision, RunRecord, RunState, RunSummary, Throughput};
use report::ComparisonFormat;
use study::{ComparisonOptions, comparison};

/// Set to write `runs.txt` in place of comparing it.
const RENEW: &str = "BELLOWS_RENEW_BENCHSTAT";
/// Runs of each side: benchstat decides nothing from fewer than four, and asks for ten.
const RUNS: u32 = 12;

fn path(name: &str) -> PathBuf {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all/benchstat");
    PathBuf::from(dir).join(name)
}

/// A number between -1 and 1, the same in every run of this test.
fn noise(state: &mut u64) -> f64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
}

/// Runs of a side, whose figures are these but for a noise of 1 %.
fn side(name: &str, rate: f64, p99_ns: f64, cpu_us: f64, memory_mb: f64) -> Vec<RunRecord> {
    let mut state = u64::from(name.bytes().next().unwrap_or_default());
    let mut noisy = move |value: f64| value * (1.0 + 0.01 * noise(&mut state));
    let runs = (0..RUNS).map(|run| {
        let rate = noisy(rate).round();
        let mut summary = RunSummary::default();
        summary.flow_mut().sent = Throughput { total: 1, rate };
        let latency = measure::LatencySummary {
            count: 1_000_000,
            p50_ns: noisy(1e6) as u64,
            p99_ns: noisy(p99_ns) as u64,
            ..measure::LatencySummary::default()
        };
        summary.messages_mut().latency = [(measure::Metric::ACK_RESPONSE, latency)].into_iter().collect();
        summary.messages_mut().cpu_us_each.broker = Some((noisy(cpu_us) * 1e3).round() / 1e3);
        summary.rss_mb.broker = Some((noisy(memory_mb) * 1e3).round() / 1e3);
        let id = format!("{name}-{run}");
        RunRecord { id, state: RunState::Complete, summary: Some(summary), ..RunRecord::default() }
    });
    runs.collect()
}

/// A rate that fell by 8 %, a p99 that fell by 20 %, CPU that stayed, memory that grew by 15 %.
fn compared() -> Comparison {
    let a = side("a", 54_800.0, 31e6, 21.4, 130.0);
    let b = side("b", 50_400.0, 24.8e6, 21.4, 149.5);
    comparison(&a, &b, ComparisonOptions::default()).expect("comparable")
}

fn written(of: &Comparison) -> String {
    let of = ComparedMatrix::of_one("stream-publish", of.clone());
    let text = ComparisonFormat::GoBench.write("stream-publish", Some(&of));
    text.expect("memory")
}

/// benchstat's result for a unit.
#[derive(Debug, PartialEq)]
struct Said {
    /// B's median less A's, as a share; `None` where it is called the same (`~`).
    change: Option<f64>,
    medians: (f64, f64),
    p: f64,
}

/// Reads benchstat's CSV: a table for each unit, headed by a line with it.
fn said(csv: &str) -> BTreeMap<String, Said> {
    let mut found = BTreeMap::new();
    let mut unit = String::new();
    for line in csv.lines() {
        let cells: Vec<&str> = line.split(',').collect();
        match cells.as_slice() {
            ["", of, "CI", again, "CI", "vs base", "P"] => {
                assert_eq!(of, again, "{line}");
                unit = (*of).to_owned();
            }
            ["StreamPublish", a, _, b, _, change, p] => {
                let number = |text: &str| text.parse::<f64>().expect("a number");
                let change = change.strip_suffix('%').map(|it| number(it) / 100.0);
                // `p=0.000 n=12`
                let p = p.strip_prefix("p=").and_then(|it| it.split(' ').next());
                let said = Said { change, medians: (number(a), number(b)), p: number(p.expect("a probability")) };
                found.insert(unit.clone(), said);
            }
            _ => {}
        }
    }
    found
}

/// The figure in benchstat's words: it makes seconds of nanoseconds.
fn unit(figure: &ComparedFigure) -> &'static str {
    match figure.name.as_str() {
        "sent rate" => "sent-rate/s",
        "ack response p50" => "ack-response-p50-sec",
        "ack response p99" => "ack-response-p99-sec",
        "broker cpu" => "broker-cpu-sec",
        "broker memory" => "broker-memory-B",
        other => panic!("{other} is no figure of this test"),
    }
}

fn agrees(of: &Comparison, csv: &str) {
    let said = said(csv);
    let mut seen = Vec::new();
    for figure in &of.figures {
        let theirs = said.get(unit(figure));
        let theirs = theirs.unwrap_or_else(|| panic!("nothing of {}: {csv}", figure.name));
        let medians = theirs.medians.1 / theirs.medians.0 - 1.0;
        let (low, high) = figure.interval;
        assert!((low..=high).contains(&medians), "{}: their {medians} lies in our {:?}", figure.name, figure.interval);
        let ours = matches!(figure.decision, Decision::Changed | Decision::Negligible);
        assert_eq!(ours, theirs.change.is_some(), "{}: {figure:#?} {theirs:?}", figure.name);
        assert_eq!(ours, theirs.p < 0.05, "{}", figure.name);
        if let Some(change) = theirs.change {
            assert_eq!(change > 0.0, figure.change > 0.0, "{}", figure.name);
            assert!((change - medians).abs() < 1e-4, "{change} {medians}");
        }
        seen.push((figure.name.as_str(), ours));
    }
    let differ = seen.iter().filter(|(_, differs)| *differs).map(|(name, _)| *name);
    assert_eq!(differ.collect::<Vec<_>>(), ["sent rate", "ack response p99", "broker memory"]);
    assert_eq!(seen.len(), 5, "{seen:?}");
}

#[test]
fn the_verdict_of_a_real_benchstat_agrees_with_ours() {
    let of = compared();
    let text = written(&of);
    if env::var_os(RENEW).is_some() {
        fs::write(path("runs.txt"), &text).expect("writable");
        return;
    }
    let kept = fs::read_to_string(path("runs.txt")).expect("runs.txt");
    assert_eq!(text, kept, "run crates/bellows/tests/all/benchstat/remake");
    agrees(&of, &fs::read_to_string(path("verdicts.csv")).expect("verdicts.csv"));
}

#[test]
fn an_installed_benchstat_agrees_with_ours() {
    let of = compared();
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("runs.txt");
    fs::write(&file, written(&of)).expect("writable");
    let asked = Command::new("benchstat").args(["-col", "side", "-format", "csv"]).arg(&file).output();
    let Ok(asked) = asked else {
        eprintln!("no benchstat here: verdicts.csv has what it says");
        return;
    };
    assert!(asked.status.success(), "{}", String::from_utf8_lossy(&asked.stderr));
    agrees(&of, &String::from_utf8_lossy(&asked.stdout));
}
