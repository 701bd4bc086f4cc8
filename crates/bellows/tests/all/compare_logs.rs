//! `bellows ab` of histogram logs: those of several runs, a single log, refusals. Java's are read in `archive`.

use crate::common;

use std::path::Path;

use common::{figure, folder, run};

/// A log of this many seconds, with values of `us` microseconds and twice as many around a level that differs by second
/// and a little by log. Nothing in it names a unit.
fn log(dir: &Path, name: &str, seconds: u32, us: f64, tags: &[&str]) {
    let apart = name.bytes().map(u32::from).sum::<u32>() % 7;
    let mut text = "#[Histogram log format version 1.3]\n".to_owned();
    for second in 0..seconds {
        // Levels that stay for some seconds.
        let level = 1.0 + 0.02 * f64::from((second / 3 * 7 + apart) % 11) + 0.001 * f64::from(apart);
        let mut histogram = measure::new_histogram();
        for value in 0..2_000u32 {
            let spread = 1.0 + f64::from(value) / 2_000.0;
            histogram.saturating_record((us * 1e3 * level * spread) as u64);
        }
        let encoded = archive::encode_histogram(&histogram).expect("a histogram");
        for tag in tags {
            text += &format!("{tag}{}.000,1.000,1.0,{encoded}\n", 1_700_000_000 + second);
        }
    }
    std::fs::write(dir.join(name), text).expect("a log");
}

#[test]
fn logs_of_both_sides_are_compared_as_runs_are() {
    let dir = &*folder();
    for n in 1..=5 {
        log(dir, &format!("a{n}.hlog"), 20, 100.0, &["Tag=warmup ping,", "Tag=ping,"]);
        log(dir, &format!("b{n}.hlog"), 20, 150.0, &["Tag=ping,", "Tag=other,"]);
    }
    let line = "ab a1.hlog a2.hlog a3.hlog a4.hlog a5.hlog --with b1.hlog b2.hlog b3.hlog b4.hlog b5.hlog --unit ns \
                --json -o page.html --junit x.xml";
    let found = run(dir, &common::words(line)).ends(3).printed();
    let names: Vec<&str> =
        (found["figures"].as_array().expect("figures").iter()).filter_map(|it| it["name"].as_str()).collect();
    assert_eq!(names, ["ping rate", "ping p50", "ping p90", "ping p99", "ping p99.9", "ping max"]);
    for name in &names[1..] {
        assert_eq!(figure(&found, name)["decision"], "changed", "{name}");
    }
    let rate = figure(&found, "ping rate");
    assert_eq!((&rate["decision"], &rate["a"][0]), (&"same".into(), &2000.0.into()));
    let change = figure(&found, "ping p50")["change"].as_f64().expect("a change");
    assert!((0.45..0.55).contains(&change), "{change}");
    let remarks = ["10 logs read as nanoseconds: from --unit", "B alone has other: left out"];
    testkit::assert_has(found["remarks"].to_string(), remarks);
    common::file_has(dir.join("page.html"), ["data-page=\"comparison\""]);
    common::file_has(dir.join("x.xml"), ["ping p99"]);

    let same = run(dir, &["ab", "a1.hlog", "a2.hlog", "--with", "a3.hlog", "a4.hlog", "--level", "0.1%"]);
    assert!(matches!(same.code(), Some(0 | 4)), "{}", same.stdout);
    same.prints_not(["changed, "]).prints(["A: 2 logs: a1.hlog, a2.hlog", "4 logs read as nanoseconds: an assumption"]);
}

#[test]
fn a_log_alone_knows_its_own_quantiles_and_decides_nothing() {
    let dir = &*folder();
    log(dir, "a.hlog", 60, 100.0, &[""]);
    log(dir, "b.hlog", 60, 300.0, &[""]);
    log(dir, "short.hlog", 20, 100.0, &[""]);
    let found = run(dir, &["ab", "a.hlog", "--with", "b.hlog", "--json"]).ends(4);
    let json = found.printed();
    for of in json["figures"].as_array().expect("figures") {
        assert_eq!(of["decision"], "undecided", "{of:#}");
    }
    for (side, at) in [("a", 0), ("b", 1)] {
        for name in ["latency p50", "latency p99"] {
            let of = figure(&json, name);
            let ends = of["within_one_run"][side].as_array().expect("an interval");
            let (low, high) = (ends[0].as_f64().unwrap(), ends[1].as_f64().unwrap());
            let value = of["means"][at].as_f64().unwrap();
            assert!(low < value * 1.001 && value < high * 1.001, "{of:#}");
            assert!(low > 0.8 * value && high < 1.2 * value && low < high, "{of:#}");
        }
        assert_eq!(json[side]["within_one_run"]["block_s"], 5.0);
        assert_eq!(json[side]["within_one_run"]["seconds"], 60.0);
    }
    assert!(figure(&json, "latency rate")["within_one_run"]["a"].is_null());
    // The same run draws the same.
    assert_eq!(run(dir, &["ab", "a.hlog", "--with", "b.hlog", "--json"]).stdout, found.stdout);

    let with = |others: &[&str]| run(dir, &[&["ab", "a.hlog", "--verbose", "--with"], others].concat());
    with(&["b.hlog"]).prints([
        "inconclusive: a side of one run does not show",
        "inconclusive: one run of A and of B",
        "within one run",
        "A is one run of 60 s",
        "stationary bootstrap",
        "an assumption",
    ]);
    with(&["short.hlog"]).prints(["B is one run, without an interval within it: it is too short: 20 s"]);
    with(&["b.hlog", "short.hlog"]).prints(["inconclusive: one run of A"]).prints_not(["B is one run"]);
}

#[test]
fn what_is_refused_says_why() {
    let dir = &*folder();
    log(dir, "a.hlog", 3, 100.0, &["Tag=x,"]);
    log(dir, "b.hlog", 3, 100.0, &[""]);
    std::fs::write(dir.join("c.hlog"), "{}\n").expect("a file");
    let refused = |args: &[&str], code, parts: &[&str]| {
        run(dir, &[&["ab"], args].concat()).assert_error(code, parts);
    };
    refused(&["a.hlog", "--with", "b.hlog"], 1, &["no tag in common", "A has x, B has latency"]);
    let foreign = ["c.hlog is not an HDR histogram log", "start, length, largest value"];
    refused(&["a.hlog", "--with", "c.hlog"], 1, &foreign);
    refused(&["a.hlog", "--with", "d.hlog"], 1, &["d.hlog"]);
    refused(&["a.hlog", "--with", "./a.hlog"], 2, &["named twice"]);
    refused(&["a.hlog"], 2, &["nothing to compare with"]);
    let of_runs = "a.hlog --with b.hlog --rate 5 --duration 3s --min-block 5ms --a-set threads=2";
    let why = "--a-set, --rate, --duration, --min-block are for runs to be made";
    refused(&common::words(of_runs), 2, &[why]);
    refused(&["a.hlog", "--with", "last"], 2, &["mixed with runs", "last is none"]);
    refused(&["a.hlog", "--with", "b.hlog", "--flame", "x.svg"], 2, &["--flame"]);
    refused(&["x", "--with", "y", "--unit", "us"], 2, &["--unit is for histogram logs"]);
    run(dir, &["ab", "a.hlog", "--with", "b.hlog", "--unit", "h"]).ends(2).says(["ns, us, ms"]);
    assert!(!dir.join("x.svg").exists());
}
