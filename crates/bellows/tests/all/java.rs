//! Recordings of Java's flight recorder: read as the JDK's own `jfr` reads them.

use crate::common;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use common::{folder, run};
use serde_json::Value;

/// Records the program; `None` where there is no JDK.
fn recorded(dir: &Path) -> bool {
    fs::write(dir.join("Busy.java"), include_str!("../data/Busy.java")).expect("a source");
    let ran = |program: &str, arguments: &[&str]| {
        let ended = testkit::java(program).args(arguments).current_dir(dir).output();
        ended.is_ok_and(|it| it.status.success())
    };
    ran("javac", &["Busy.java"])
        && ran("java", &["-XX:StartFlightRecording=filename=busy.jfr,settings=profile", "Busy"])
}

/// Stacks as the JDK prints them, root first, and how often each was taken.
fn printed(samples: &[Value]) -> BTreeMap<String, u64> {
    let mut stacks = BTreeMap::new();
    for event in samples {
        let values = &event["values"];
        // A thread that has ended may have none.
        let mut stack = vec![values["sampledThread"]["javaName"].as_str().unwrap_or_default().to_owned()];
        for frame in values["stackTrace"]["frames"].as_array().expect("frames").iter().rev() {
            let method = &frame["method"];
            let class = method["type"]["name"].as_str().expect("a class").replace('/', ".");
            let class = class.find("$$Lambda").map_or(&*class, |at| &class[..at + "$$Lambda".len()]);
            stack.push(format!("{class}.{}", method["name"].as_str().expect("a name")));
        }
        if stack.first().is_some_and(|it| it == "worker <1>") {
            *stacks.entry(stack.join(";")).or_insert(0) += 1;
        }
    }
    stacks
}

/// The lines of the program's own methods, as the JDK prints them, and how often each was running.
fn printed_lines(samples: &[Value]) -> BTreeMap<String, u64> {
    let mut lines = BTreeMap::new();
    for event in samples {
        let leaf = &event["values"]["stackTrace"]["frames"][0];
        let method = &leaf["method"];
        if method["type"]["name"] == "Busy" {
            let name = method["name"].as_str().expect("a name");
            let line = format!("Busy.{name} line {}", leaf["lineNumber"]);
            *lines.entry(line).or_insert(0) += 1;
        }
    }
    lines
}

fn printed_samples(dir: &Path) -> Vec<Value> {
    let arguments = ["print", "--json", "--stack-depth", "64", "--events", "jdk.ExecutionSample", "busy.jfr"];
    let printed = testkit::java("jfr").args(arguments).current_dir(dir).output().expect("jfr");
    let told: Value = serde_json::from_slice(&printed.stdout).expect("JSON");
    let events = told["recording"]["events"].as_array().expect("events");
    events.clone()
}

#[test]
fn a_recording_of_the_flight_recorder_is_read_as_the_jdk_reads_it() {
    let dir = &*folder();
    if !recorded(dir) {
        testkit::skip!("no JDK: apt-get install default-jdk-headless");
    }
    let folded = run(dir, &["flame", "busy.jfr", "--format", "folded", "-o", "-"]).ok();
    // What starts the JVM is not told the same way by both: hidden classes have numbers.
    let ours = folded.stdout.lines().filter(|line| line.starts_with("worker <1>;")).map(|line| {
        let (stack, count) = line.rsplit_once(' ').expect("a count");
        (stack.to_owned(), count.parse().expect("a number"))
    });
    let samples = printed_samples(dir);
    assert_eq!(ours.collect::<BTreeMap<String, u64>>(), printed(&samples));

    let rows = run(dir, &["top", "busy.jfr", "--json", "--limit", "1000"]).printed();
    let total = |name: &str| common::named(&rows["functions"], "function", name)["total"].as_f64().expect("a share");
    let by_line = run(dir, &["top", "busy.jfr", "--by", "line", "--json", "--limit", "100000"]).printed();
    let own = by_line.as_array().expect("rows").iter().filter_map(|row| {
        let name = row["function"].as_str().expect("a name");
        let samples = row["samples"].as_u64().expect("a count");
        (name.starts_with("Busy.") && samples > 0).then(|| (name.to_owned(), samples))
    });
    assert_eq!(own.collect::<BTreeMap<_, _>>(), printed_lines(&samples));
    // Some 150 samples: within four standard errors of three quarters.
    let share = total("Busy.heavy") / (total("Busy.heavy") + total("Busy.light"));
    assert!((0.60..0.90).contains(&share), "{share}");
    // Times begin with the recording.
    run(dir, &["top", "busy.jfr", "--from", "1", "--to", "2"]).assert_ok();
    run(dir, &["diff", "busy.jfr", "busy.jfr"]).assert_ok();

    let whole = fs::read(dir.join("busy.jfr")).expect("a recording");
    fs::write(dir.join("half.jfr"), &whole[..whole.len() / 2]).expect("a file");
    run(dir, &["top", "half.jfr"]).assert_error(1, &["half.jfr", "flight recorder", "cut off"]);
}
