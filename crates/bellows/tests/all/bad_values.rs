//! Values that make no sense are refused before anything is started, in the words in which they were typed.

use crate::common;

use std::fs;

use common::{folder, run};

#[test]
fn a_bad_option_is_named_and_nothing_is_started() {
    let dir = &*folder();
    let url = ["--url", "amqp://127.0.0.1:1"];
    for (line, parts) in [
        ("client --rate 1e12", ["--rate: ", "a rate of 1000000000000 messages per second"]),
        ("client --rate -1", ["invalid value '-1' for '--rate", "a number per second above 0"]),
        ("client --rate 5x", ["invalid value '5x' for '--rate", "10/min"]),
        ("client --schedule constant:1e12", ["--schedule: ", "a rate of 1000000000000"]),
        ("client --schedule foo:1", ["invalid value 'foo:1'", "unknown schedule \"foo\""]),
        ("client --schedule steps:1@x", ["invalid value 'steps:1@x'", "\"x\" is not a duration"]),
        ("client --message-size 5", ["--message-size: ", "a message of 5 bytes"]),
        ("client --message-size 600MB", ["--message-size: ", "larger than brokers accept"]),
        ("client --message-size 1.0001KiB", ["invalid value '1.0001KiB'", "is not a message size"]),
        ("client --threads 0", ["invalid value '0' for '--threads", "1 or more"]),
        ("client --threads 100000", ["--threads: ", "100000 threads"]),
        ("client --max-pending abc", ["invalid value 'abc' for '--max-pending", "a whole number"]),
        ("client --max-pending -1", ["invalid value '-1' for '--max-pending", "a whole number"]),
        ("client --max-pending 5000000000", ["'--max-pending", "from 0 to 4294967295"]),
        ("client --max-pending 5 --think-time 1s", ["--max-pending: ", "one answer at a time, not for 5"]),
        ("client --prefetch 100000", ["'--prefetch", "65535"]),
        ("client --prefetch 0 --queue-type stream", ["--prefetch: ", "no prefetch limit"]),
        ("client --auto-ack --queue-type stream", ["--ack-every: ", "acknowledge automatically"]),
        ("client --num-destinations 4000000000", ["--num-destinations = 4000000000", "not between 1"]),
        ("client --queue-args x", ["'--queue-args <KEY=VALUE>'", "KEY=VALUE"]),
        ("client --source-addresses 300.1.1.1", ["'300.1.1.1'", "it must be an IP address"]),
        ("client --pid 0", ["--pid = 0", "is not a process"]),
        ("client --ca x.pem", ["--ca has no effect without TLS", "TLS"]),
        ("client --url foo", ["--url: ", "it has no scheme"]),
        ("client --url amqps://127.0.0.1:1 --ca /nonexistent", ["/nonexistent", "No such file"]),
        ("client ftp://x", ["unknown kind before its ://", "destination"]),
        ("client queu://A", ["DESTINATION: ", "unknown kind before its ://: queu"]),
        ("client queue//A", ["DESTINATION: ", "write queue://A, or queue://queue//A"]),
        ("client topic:/A", ["DESTINATION: ", "write topic://A"]),
        ("churn connections --rate 1e12", ["--rate: ", "a rate of 1000000000000"]),
        ("churn connections --duration 0", ["--duration: ", "would not end"]),
        ("churn connections --message-size 1MB", ["--message-size: ", "1000000 bytes are too large"]),
        ("churn connections --max-open 100000", ["--max-open: ", "100000 cycles"]),
        ("artemis perf client --rate 1e12", ["--rate: ", "a rate of 1000000000000"]),
        ("artemis perf client --max-pending x", ["'--max-pending", "a whole number"]),
        ("perf-test -r 1e12", ["-r/--rate", "1000000000000"]),
    ] {
        let mut args: Vec<&str> = line.split(' ').collect();
        if !line.contains("--url") && args[0] != "perf-test" {
            args.extend(url);
        }
        let ended = run(dir, &args);
        assert_refused(&ended, line, &parts);
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
    for (further, parts) in [
        ("rate = 1e12", ["x.toml:5: rate = 1e12: ", "a rate of 1000000000000"]),
        ("rate = \"2kk\"", ["x.toml:5: rate = \"2kk\": ", "above 0"]),
        ("rate = true", ["x.toml:5: rate = true: ", "it must be a rate such as"]),
        ("schedule = \"constant:1e12\"", ["x.toml:5: schedule = ", "a rate of"]),
        ("message-size = 5", ["x.toml:5: message-size = 5: ", "a message of 5 bytes"]),
        ("max-pending = \"x\"", ["x.toml:5: max-pending = \"x\": ", "a whole number from 0 to 4294967295"]),
        ("prefetch = 70000", ["x.toml:5: prefetch = 70000: ", "from 0 to 65535"]),
        ("persistent = 1", ["x.toml:5: persistent = 1: ", "true or false"]),
        ("headers = 1", ["x.toml:5: headers: ", "a table"]),
        ("queue-type = \"stream\"", ["x.toml:5: load.0.queue-type", "classic queues only"]),
        ("rate = 1\nthink-time = 1", ["x.toml:6: load.0.think-time", "there is a rate too"]),
        ("[churn]\nkind = \"queues\"\nrate = 1e12", ["x.toml:7: rate = 1e12: ", "a rate of"]),
        ("rate = 1e12\n[churn]\nkind = \"queues\"", ["x.toml:5: rate = 1e12: ", "a rate of"]),
        ("[churn]\nrate = 1", ["x.toml:5", "the key \"kind\" is missing"]),
        ("[[fault]]\nat = \"1s\"\nkind = \"drop\"", ["x.toml", "recover"]),
        ("[[fault]]\nkind = \"lose\"\nprobability = \"x\"", ["x.toml:7: probability = \"x\": ", "it must be a number"]),
        ("[churn]\nkind = 5", ["x.toml:6: kind = 5: ", "text in quotes"]),
        (
            "[churn]\nkind = \"queues\"\nmessages = \"x\"",
            ["x.toml:7: messages = \"x\": ", "a whole number from 0 to 4294967295"],
        ),
        (
            "[churn]\nkind = \"queues\"\nrate = 1\nschedule = \"constant:2\"",
            ["x.toml:8: churn.schedule: ", "there is a rate too"],
        ),
        ("[churn]\nkind = \"queues\"\nmax-open = 0", ["x.toml:7: max-open = 0: ", "0 cycles"]),
        ("[[churn]]\nkind = \"queues\"\nrate = \"x\"", ["x.toml:5: [[churn]]: ", "write [churn], once"]),
        ("recover = \"5s-1s\"", ["x.toml:5: recover = \"5s-1s\": ", "write 1s-5s"]),
        (
            "message-size = { mean = 1 }",
            ["x.toml:5: message-size = { mean = 1 }: a message size is not a table", "write a number"],
        ),
        ("[profile]\nfrequency = 0", ["x.toml:6: profile.frequency = 0", "999 is usual"]),
    ] {
        refused(&format!("{load}{further}"), &[], parts);
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
