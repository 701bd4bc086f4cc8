//! Values that make no sense are refused before anything is started, in the words in which they were typed.

use crate::common;

use std::fs;

use common::{folder, run};

#[test]
fn a_bad_option_is_named_and_nothing_is_started() {
    let dir = &*folder();
    let url = ["--url", "amqp://127.0.0.1:1"];
    for [line, first, second] in testkit::table(include_str!("../data/bad-options.txt")) {
        let mut args: Vec<&str> = line.split(' ').collect();
        if !line.contains("--url") && args[0] != "perf-test" {
            args.extend(url);
        }
        let ended = run(dir, &args);
        assert_refused(&ended, line, &[first, second]);
    }
    for command in [&["calls"][..], &["calls", "--root", "lists:seq/2"], &["memory"], &["trace", "--max-calls", "1"]] {
        let none = ["a@localhost", "lists", "--duration", "0"];
        let ended = run(dir, &[&["erlang", command[0]], &none[..], &command[1..]].concat());
        ended.assert_error(2, &["--duration 0 measures nothing"]);
    }
    assert!(!dir.join("runs").exists(), "something was started");
    run(dir, &["client", "--url", "amqp://127.0.0.1:1", "--runs", "/proc/x"])
        .assert_error(1, &["cannot keep runs in /proc/x"])
        .says(["--runs DIR"]);
}

#[test]
fn a_bad_key_is_named_with_its_line_and_nothing_is_started() {
    let dir = &*folder();
    let head = "[broker]\nkind = \"embedded\"\n";
    let load = format!("{head}[[load]]\ndestination = \"queue://q\"\n");
    let refused = |text: &str, set: &[&str], parts: [&str; 2]| {
        fs::write(dir.join("x.toml"), text).unwrap();
        let ended = run(dir, &[&["run", "x.toml"], set].concat());
        assert_refused(&ended, &format!("{text}\n{}", set.join(" ")), &parts);
    };
    // Behind these four lines.
    for [further, first, second] in testkit::table(include_str!("../data/bad-keys.txt")) {
        refused(&format!("{load}{further}"), &[], [first, second]);
    }
    for (set, parts) in [
        ("threads=0", ["--set threads=0: ", "0 threads"]),
        ("load.0.rate=1e12", ["--set load.0.rate=1e12: ", "a rate of"]),
        ("load.0.prefetch=x", ["--set load.0.prefetch=x: ", "a whole number from 0 to 65535"]),
        ("load.0.source-addresses=[1]", ["--set load.0.source-addresses", "IP address"]),
        ("load.x.rate=1", ["--set load.x.rate=1: ", "help: write it as in load.0.rate"]),
    ] {
        refused(&load, &["--set", set], parts);
    }
    let further = |urls: &str| format!("[broker]\nkind = \"attach\"\nfurther-urls = {urls}\n[[load]]");
    for (text, parts) in [
        (format!("threads = 0\n{load}"), ["x.toml:1: threads = 0: ", "0 threads"]),
        (format!("{head}[load]\ndestination = \"queue://q\""), ["x.toml:3: [load]: ", "write [[load]]"]),
        (further("[\"foo\"]"), ["x.toml:3: further-urls: ", "it has no scheme"]),
        (further("5"), ["x.toml:3: further-urls: ", "a list in brackets"]),
        (
            format!("{head}further-urls = [\"amqp://h\"]\n[[load]]"),
            ["x.toml:3: broker.further-urls has no effect", "attach"],
        ),
    ] {
        refused(&text, &[], parts);
    }
    assert!(!dir.join("runs").exists(), "something was started");
    let secret = format!("{head}[[load]]\nheaders = 's3cret'\nurl = 's3cret'");
    fs::write(dir.join("x.toml"), secret.replace("headers", "password")).unwrap();
    run(dir, &["run", "x.toml"]).says_not(["s3cret"]);
}

/// Wrong usage, in people's words, before anything is started.
fn assert_refused(ended: &common::Ended, given: &str, parts: &[&str]) {
    assert_eq!(ended.code(), Some(2), "{given}: {ended:#?}");
    for part in parts {
        assert!(ended.stderr.contains(part), "{given}: no {part:?}: {ended:#?}");
    }
    // A table is quoted as it was written; other braces are a key that nobody has named.
    let tables = given.lines().filter_map(|line| line.split_once(" = {"));
    let said =
        tables.fold(ended.stderr.clone(), |said, (_, table)| said.replace(&format!("{{{}", table.trim_end()), ""));
    let strange = "expected f64|invalid type|wanted string|\u{1f}|expected u|invalid digit|experiment \"|untagged|\
                   starting|connecting|preparing|***|panicked|{";
    for strange in strange.split('|') {
        assert!(!said.contains(strange), "{given}: {strange:?}: {ended:#?}");
    }
}
