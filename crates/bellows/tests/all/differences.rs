//! `diff`: two profiles, and a part of one beside the rest of its run.

use crate::common;

use std::fs;
use std::path::Path;

use archive::RunReader;
use measure::Phase;
use serde_json::Value;
use stacks::Profile;

use common::{folder, run};

const BEFORE: &str = "\
scheduler;$rabbit_channel:handle_method/3;$rabbit_exchange:route/2 600
scheduler;$rabbit_channel:handle_method/3;$ets:select/2 300
scheduler;$rabbit_misc:old/1 100
";
const AFTER: &str = "\
scheduler;$rabbit_channel:handle_method/3;$rabbit_exchange:route/2 1500
scheduler;$rabbit_channel:handle_method/3;$ets:select/2 310
scheduler;$rabbit_queue:new/1 190
";

fn before_and_after() -> common::Folder {
    let dir = folder();
    fs::write(dir.path().join("a.folded"), BEFORE).expect("write");
    fs::write(dir.path().join("b.folded"), AFTER).expect("write");
    dir
}

fn json(dir: &Path, args: &[&str]) -> Value {
    let args: Vec<&str> = [&["diff"], args, &["--json", "--limit", "100000"]].concat();
    run(dir, &args).json()
}

fn rows(told: &Value) -> &Vec<Value> {
    told["rows"].as_array().expect("rows")
}

fn sum(told: &Value, side: &str) -> f64 {
    let shares = rows(told).iter().map(|row| row[side]["self"].as_f64());
    shares.map(|share| share.expect("a share")).sum()
}

#[test]
fn of_several_profiles_and_of_one_beside_itself_it_is_said() {
    let dir = &*before_and_after();
    run(dir, &["top", "."]).ok().says(["it is a; there, too: b"]);
    fs::copy(dir.join("a.folded"), dir.join("copy.folded")).expect("a copy");
    for (b, is_same) in [("a.folded", true), ("copy.folded", true), ("b.folded", false)] {
        for form in [&[][..], &["--json"], &["-o", "-"]] {
            let ended = run(dir, &[&["diff", "a.folded", b], form].concat()).ok();
            let said = ended.stderr.matches("A and B are the same profile").count();
            assert_eq!(said, usize::from(is_same), "{ended:#?}");
        }
    }
    fs::remove_file(dir.join("b.folded")).expect("removed");
    fs::remove_file(dir.join("copy.folded")).expect("removed");
    run(dir, &["top", "."]).ok().says_not(["there, too"]);
}

#[test]
fn two_files_make_a_table_a_picture_and_text() {
    let dir = &*before_and_after();
    let table = run(dir, &["diff", "a.folded", "b.folded"]).ok();
    let lines: Vec<&str> = table.stdout.lines().collect();
    let ets = "30.00  15.50  -14.50";
    assert!(lines[1].contains("60.00  75.00  +15.00"), "{table:#?}");
    assert!(lines[1..5].iter().any(|line| line.contains(ets)), "{table:#?}");
    table.prints(["A: a.folded, a weight of 1,000", "B: b.folded, a weight of 2,000"]);
    run(dir, &["diff", "a.folded", "b.folded", "--raw"]).prints(["60.00     75.00  +15.00"]);

    let told = json(dir, &["a.folded", "b.folded"]);
    let first = &rows(&told)[0];
    assert_eq!(first["function"], "$rabbit_exchange:route/2");
    assert!((first["self_change"].as_f64().expect("a change") - 0.15).abs() < 1e-9);
    for side in ["a", "b"] {
        assert!((sum(&told, side) - 1.0).abs() < 1e-9, "{told}");
    }
    let some = json(dir, &["a.folded", "b.folded", "--grep", "^\\$ets:", "--sort", "total"]);
    assert_eq!(rows(&some).len(), 1, "{some}");
    let modules = json(dir, &["a.folded", "b.folded", "--by", "module"]);
    common::named(&modules["rows"], "function", "rabbit_queue");

    let drawn = run(dir, &["diff", "a.folded", "b.folded", "-o", "d.svg"]).ok();
    assert_eq!(drawn.stdout, "d.svg\n");
    let parts = [
        "B compared with A",
        "$rabbit_exchange:route/2 (A 60.00 %, B 75.00 %, +15.00 points)",
        "only in A (10.00 % of A",
        "$rabbit_misc:old/1 (A 10.00 %, B 0.00 %, -10.00 points)",
    ];
    common::file_has(dir.join("d.svg"), parts);
    let piped = run(dir, &["diff", "a.folded", "b.folded", "-o", "-", "--widths", "a"]).stdout;
    assert!(piped.contains("only in B (9.50 % of B") && piped.ends_with("</svg>"));

    run(dir, &["diff", "a.folded", "b.folded", "-o", "d.folded"]).assert_ok();
    let text = fs::read_to_string(dir.join("d.folded")).expect("text");
    let expected = "\
scheduler;$rabbit_channel:handle_method/3;$ets:select/2 300 310
scheduler;$rabbit_channel:handle_method/3;$rabbit_exchange:route/2 600 1500
scheduler;$rabbit_misc:old/1 100 0
scheduler;$rabbit_queue:new/1 0 190
";
    assert_eq!(text, expected);
}

#[test]
fn what_cannot_be_compared_is_refused_with_cause_and_remedy() {
    let dir = &*before_and_after();
    // Samples of a second event, by its name, in the text of perf.
    let script = |event: &str| {
        let sample = |i| format!("beam.smp 7/8 [000] 1.{i}: 1 {event}:\n\t10 main+0x1 (/bin/x)\n\n");
        (0..9).map(sample).collect::<String>()
    };
    fs::write(dir.join("cpu.perf"), script("cpu-clock")).expect("write");
    fs::write(dir.join("faults.perf"), script("page-faults")).expect("write");
    let files = ["diff", "cpu.perf", "faults.perf"];
    run(dir, &files).assert_error(1, &["different events", "cpu and page-faults"]);
    run(dir, &[&files[..], &["-o", "d.svg"]].concat()).assert_error(1, &["different events"]);
    assert!(!dir.join("d.svg").exists(), "a refused picture was written");
    run(dir, &[&files[..], &["--force"]].concat()).ok().prints(["forced: ", "(cpu and page-faults)"]);
    run(dir, &[&files[..], &["--force", "-o", "d.svg"]].concat()).assert_ok();
    common::file_has(dir.join("d.svg"), ["forced: cpu and page-faults"]);

    run(dir, &["diff", "a.folded"]).assert_error(2, &["differs from nothing"]);
    run(dir, &["diff", "a.folded", "b.folded", "-o", "d.pdf"]).assert_error(2, &["d.pdf tells no form"]);
    run(dir, &["diff", "a.folded", "none.folded"]).assert_error(1, &["none.folded"]);
    run(dir, &["diff", "a.folded", "--from", "0", "--to", "9"])
        .assert_error(1, &["nothing of a.folded is left to compare with"]);
    run(dir, &["diff", "a.folded", "--from", "3", "--to", "2"])
        .assert_error(2, &["the window from 3 s to 2 s is empty"]);
}

/// A window stands beside the rest of the measured phase: of the last run, which is that of `seconds`.
pub(crate) fn a_window_stands_beside_the_rest(dir: &Path, of: &RunReader, whole: &Profile) {
    let measured = of.record.phases.iter().find(|it| it.phase == Phase::Measure);
    let measured = measured.expect("a measured phase");
    let within = |from: f64, to: f64| {
        let ns = |seconds: f64| (seconds * 1e9) as u64;
        let samples = whole.samples.iter();
        samples.filter(|it| (ns(from)..ns(to)).contains(&it.t)).count() as u64
    };
    // On a busy machine the profile begins late.
    let first = whole.samples.iter().map(|it| it.t).min();
    let from = first.expect("a sample") as f64 / 1e9 + 0.2;
    let (from, to) = (format!("{from:.1}"), format!("{:.1}", from + 1.0));
    let seconds = |text: &str| text.parse().expect("a number");
    let window = within(seconds(&from), seconds(&to));
    let rest = within(measured.start, measured.end) - window;

    let told = json(dir, &["last", "--from", &from, "--to", &to]);
    assert_eq!((&told["b"]["weight"], &told["a"]["weight"]), (&window.into(), &rest.into()));
    assert!((sum(&told, "a") - 1.0).abs() < 1e-9 && (sum(&told, "b") - 1.0).abs() < 1e-9);
    run(dir, &["diff", "last", "--where", "sent rate > 4000", "--by", "class"]).ok().prints([
        ", the rest, ",
        " seconds in which sent rate > 4000, ",
        "class",
    ]);
    run(dir, &["diff", "last", "--where", "sent rate > 4000", "-o", "fast.svg"]).assert_ok();
    common::file_has(dir.join("fast.svg"), ["seconds in which sent rate &gt; 4000"]);
    run(dir, &["diff", "last", "--where", "sent rate > 1M"]).assert_error(1, &["sent rate > 1M held"]);

    // What the run's files say of it is the same, but for what a format leaves out.
    for file in ["profile.pb.gz", "cpu.folded"] {
        let file = of.dir.join(file);
        let told = json(dir, &["last", file.to_str().expect("a path")]);
        let changed = rows(&told).iter().filter(|row| row["self_change"] != 0.0);
        assert_eq!(changed.count(), 0, "{told}");
    }
}
