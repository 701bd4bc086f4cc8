//! Whose work a RabbitMQ does.

use crate::common;
use crate::common::managed;

use std::fs;
use std::path::Path;
use std::time::Duration;

use common::Ended;
use serde_json::Value;
use stacks::{ErlangProcess, Profile};

/// Samples by which what uses a hundredth of the broker's time is seen.
const ENOUGH: usize = 1_000;

/// Runs an experiment whose measured phase is long, and stops it when it has enough samples: on a full machine a broker
/// needs long for as much CPU time.
fn run_until_sampled(dir: &Path, file: &str) -> Ended {
    let started = common::start(common::bellows(dir, &["run", file]));
    let is_enough = || {
        std::thread::sleep(Duration::from_millis(200));
        let folder = common::folder_with(dir, "cpu.stacks");
        let sampled = folder.and_then(|it| Profile::open(it).ok()).map_or(0, |it| it.samples.len());
        let seconds = common::seconds_recorded(dir);
        // The first is the warm-up.
        seconds >= 3 && (sampled >= ENOUGH || seconds >= 40)
    };
    common::wait_for("samples", is_enough);
    started.signal("INT");
    started.end().ok()
}

#[test]
fn the_work_of_two_queues_is_told_apart() {
    let (dir, node) = &managed::shared!();
    let broker = node.broker();
    let load = |queue: &str, rate: u32| {
        format!("[[load]]\ndestination = \"queue://{queue}\"\nrate = {rate}\nmax-pending = 1000\n")
    };
    let (busy, idle) = (load("busy", 1500), load("idle", 300));
    let experiment =
        format!("name = \"work\"\n{broker}[phases]\nwarmup = \"1s\"\nmeasure = \"60s\"\n{busy}{busy}{idle}");
    fs::write(dir.join("work.toml"), experiment).expect("write");
    let ended = run_until_sampled(dir, "work.toml");
    let record = common::record(dir);
    let profile = testkit::or_skip!(record["summary"]["profiles"].get(0).ok_or(&ended.stderr));
    if profile["copied_share"].as_f64().unwrap_or(0.0) < 0.5 {
        testkit::skip!("this user may not copy stacks: {}", ended.stderr);
    }
    testkit::assert_has(common::figures(dir), ["whose work: "]);
    let all = |by: &str| common::run(dir, &["top", "last", "--by", by, "--json", "--limit", "1000"]).json();
    let rows = |by: &str| {
        let rows = all(by);
        move |of: &str| {
            let row = rows.as_array().expect("rows").iter().find(|row| row["of"] == of);
            row.and_then(|row| row["share"].as_f64()).unwrap_or(0.0)
        }
    };
    let share = rows("process");
    let (busy, idle) = (share("queue busy"), share("queue idle"));
    assert!(busy > 0.02 && idle > 0.005, "{busy} and {idle}");
    // A queue handles what comes together for less, so that ten times the rate is less than ten times the work; where
    // others have the cores much comes together.
    assert!((1.2..15.0).contains(&(busy / idle)), "{busy} and {idle}");
    let role = rows("role");
    assert!((role("queue") - busy - idle).abs() < 0.01, "{}", role("queue"));
    assert!(role("channel") > 0.05, "{}", role("channel"));
    // The consumers of both loads of the busy queue call their connections the same, and are told apart.
    for (by, prefix) in [("connection", ""), ("process", "connection ")] {
        let rows = all(by);
        let number = |begin: &str| {
            let begin = format!("{prefix}bellows {begin}");
            let begins = |row: &&Value| row["of"].as_str().is_some_and(|of| of.starts_with(&begin));
            rows.as_array().expect("rows").iter().filter(begins).count()
        };
        assert_eq!(number("consumer 0 of queue://busy 127.0.0.1:"), 2, "{by}: {rows:#}");
        assert_eq!(
            (number("producer 0 of queue://busy"), number("producer 1 of queue://busy")),
            (1, 1),
            "{by}: {rows:#}"
        );
    }
    assert!(rows("vhost")("/") > 0.3);

    // What the time went into: every sample is of one class, and what a node always does is among them.
    let ended = common::run(dir, &["top", "last", "--by", "class", "--json"]);
    assert_eq!(profile["classes"], ended.json());
    let classes = profile["classes"].as_array().expect("rows");
    let share = |class: &str| {
        let row = classes.iter().find(|row| row["class"] == class);
        row.and_then(|row| row["share"].as_f64()).unwrap_or(0.0)
    };
    let known = "garbage_collection scheduling waiting erlang_code built_in_functions allocators kernel_network";
    for class in common::words(known) {
        assert!(share(class) > 0.0, "{class}: {}", ended.stdout);
    }
    let exports = !exports_few_functions();
    let unnamed = if exports { 0.02 } else { 0.1 };
    assert!(share("messages") > 0.0 || !exports, "{}", ended.stdout);
    assert!(share("unnamed") < unnamed, "{}", ended.stdout);
    let shares = classes.iter().filter_map(|row| row["share"].as_f64());
    assert!((shares.sum::<f64>() - 1.0).abs() < 1e-9, "{}", ended.stdout);
    let samples = classes.iter().filter_map(|row| row["samples"].as_u64());
    assert_eq!(Some(samples.sum::<u64>()), profile["samples"].as_u64());
    let covered = profile["cpu_share"].as_f64().unwrap_or(0.0);
    assert!((0.3..=1.0).contains(&covered), "{profile}");
}

/// Whether the emulator exports few of its functions, as from OTP 29 on.
fn exports_few_functions() -> bool {
    let root = std::env::var("BELLOWS_RABBITMQ_ROOT").unwrap_or_else(|_| "/".to_owned());
    let folders = fs::read_dir(Path::new(&root).join("usr/lib/erlang"));
    let names = folders.into_iter().flatten().flatten();
    let names = names.filter_map(|it| it.file_name().into_string().ok());
    let versions = names.filter_map(|it| it.strip_prefix("erts-")?.split('.').next()?.parse().ok());
    versions.max().is_some_and(|it: u32| it >= 17)
}

#[test]
fn rows_say_no_more_than_the_file_does() {
    let dir = &*common::folder();
    let at = |name: &str| dir.join(name);
    fs::write(at("x.folded"), "main-1;a 3\nmain-1;b 1\n").expect("write");
    let mut profile = Profile::open(at("x.folded")).expect("folded");
    profile.processes =
        vec![ErlangProcess { role: "queue".into(), name: "orders".into(), ..ErlangProcess::unnamed("<0.7.0>") }];
    profile.samples[0].process = Some(0);
    profile.notes = vec!["the emulator is a strange one".into()];
    profile.write_stacks(&at("cpu.stacks")).expect("stacks");
    fs::write(at("profile.pb.gz"), profile.to_pprof().expect("pprof")).expect("write");

    let top = |args: &[&str]| common::run(dir, &[&["top"], args].concat());
    let rows = top(&["cpu.stacks", "--by", "role", "--json"]).json();
    let expected = serde_json::json!([
        {"of": "queue", "kind": "processes", "role": "queue", "share": 0.75, "samples": 3, "processes": 1},
        {"of": "no Erlang process", "kind": "no_process", "share": 0.25, "samples": 1, "processes": 0},
    ]);
    assert_eq!(rows, expected);
    let rows = top(&["cpu.stacks", "--by", "class", "--json"]).json();
    assert_eq!(rows, serde_json::json!([{"class": "own_code", "share": 1.0, "samples": 4}]));
    top(&["x.folded", "--by", "class"]).prints(["own code"]);
    top(&["cpu.stacks", "--by", "role"]).prints(["note: the emulator is a strange one"]);

    top(&["x.folded", "--by", "module"]).prints(["total %"]);
    let rows = top(&["x.folded", "--by", "thread", "--grep", "mai", "--json"]).printed();
    assert_eq!((&rows[0]["function"], &rows[0]["self"]), (&"main".into(), &1.0.into()));
    top(&["x.folded", "--by", "class", "--sort", "total"]).assert_error(2, &["--sort has no effect"]);

    for by in ["role", "connection", "vhost"] {
        let refused = top(&["profile.pb.gz", "--by", by]);
        let remedy = "\nhelp: give a run whose load has ended, when its node is asked, or its *.stacks file; they say \
                      it where bellows has started the node; `--by process` works with this one\n";
        testkit::assert_ends(&refused.assert_error(1, &["profile.pb.gz has identifiers"]).stderr, remedy);
    }
    // Of another program than a node.
    let other = Profile::open(at("x.folded")).expect("folded");
    fs::write(at("other.pb.gz"), other.to_pprof().expect("pprof")).expect("write");
    for by in ["process", "role", "connection", "vhost"] {
        let said = "no Erlang process is known in this profile: it is of another program, or was recorded without \
                    stack copies; profile a RabbitMQ node as root (`bellows help stacks`)\n";
        testkit::assert_begins(top(&["other.pb.gz", "--by", by]).ok().stdout, said);
        assert_eq!(top(&["other.pb.gz", "--by", by, "--json"]).stdout, "[]\n");
    }
    top(&["profile.pb.gz", "--by", "process"]).assert_ok();

    // Its second line is damaged.
    let stacks = fs::read_to_string(at("cpu.stacks")).expect("text");
    let header = stacks.lines().next().expect("a header");
    fs::write(at("damaged.stacks"), format!("{header}\n[1,2\n")).expect("write");
    top(&["damaged.stacks"])
        .assert_error(1, &["no samples that can be read", "line 2 of the stacks file"])
        .says_not(["used no CPU"]);
}

/// Publishing through an exchange: RabbitMQ 3.10 compiles a match specification for each message, later releases do
/// not. Of the run that has ended so, in this folder of `dir`.
pub(crate) fn what_is_known_of_stacks_is_told(dir: &Path, ended: &Ended, folder: &Path, record: &Value) {
    let summary = testkit::or_skip!(record["summary"]["profiles"].get(0).ok_or(&ended.stderr));
    let profile = Profile::open(folder).expect("a profile");
    let known = profile.known_patterns();
    let told = summary["known_patterns"].as_array();
    assert_eq!(told.map_or(0, Vec::len), known.len());
    for (told, known) in told.into_iter().flatten().zip(&known) {
        assert_eq!(told["pattern"], known.pattern.as_str());
        let share = told["share"].as_f64().expect("a share");
        assert!((share - known.share).abs() < 1e-9, "{share}: {known:?}");
    }
    for (pattern, functions, least) in [
        ("match specifications compiled at each call", ["db_match_compile", "erts_db_match_prog_destructor"], 0.01),
        ("files synchronised", ["do_fsync", "vfs_fsync"], 0.05),
    ] {
        let share = profile.share_with(|frame| functions.contains(&frame.name.as_str()));
        let found = known.iter().find(|it| it.pattern == pattern);
        assert_eq!(found.is_some(), share >= least, "{pattern}: {share}");
    }
    let top = common::run(dir, &["top", "last"]).ok();
    let figures = common::figures(dir);
    for pattern in &known {
        for text in [&figures, &top.stdout] {
            assert!(text.contains(&pattern.source), "{pattern:?}: {text}");
        }
    }
}
