//! `bellows perf-test`: PerfTest's lines, meaning and errors. What PerfTest 2.22.1 printed on a RabbitMQ lies in
//! tests/data/perf-test; since 2.24 its latencies end with their maximum.

use crate::common;
use crate::common::managed;

use std::fs;
use std::path::Path;

use common::{Broker, Ended, folder, run};
use regex::Regex;

/// Every line that PerfTest prints; the part in `more` is ours alone.
const INTERVAL: &str = r"^id: (?<id>\S+), time (?<time>\d+\.\d{3}) s(?<sent>, sent: RATE)?(?<returned>, returned: RATE)?(?<confirmed>, confirmed: RATE, nacked: RATE)?(?<received>, received: RATE)?(?<latency>, min/median/75th/95th/99th/max (consumer latency: SIX)?(, )?(confirm latency: SIX)?)?(?<more>, 99\.9th/99\.99th (consumer latency: TWO)?(, )?(confirm latency: TWO)?)?$";
const COMPACT: &str = r"^\d+\.\d{3}s(?<rates>( +RATE)+)(?<latency>( +SIX)*)(?<more>( +TWO)*)$";
const HEADING: &str = r"^time {6}(?<rates>( +(sent|returned|confirmed|nacked|received))+)(?<latency>( +(consumer|confirm) latency)*)(?<more>( +(consumer|confirm) 99\.9\+)*)$";
const STARTING: &str = r"^id: \S+, starting (consumer|producer) #\d+(, channel #\d+)?$";
const STOPPED: &str = r"^test stopped( \((Reached time limit|((Producer|Consumer) reached message limit|Consumer is idle for more than 1 second|Consumer queue\(s\) empty)( \[\d+\])?|, )+\))?$";
const AVERAGE: &str = r"^(id: \S+, )?(sending|receiving) rate avg: RATE$";
const SUMMARY: &str = r"^(id: \S+, )?(consumer|confirm) latency min/median/75th/95th/99th/max SIX$";
const MORE: &str = r"^(id: \S+, )?(consumer|confirm) latency 99\.9th/99\.99th TWO$";

fn pattern(text: &str) -> Regex {
    let six = r"(\d+/){5}\d+ (µs|ms)";
    let two = r"\d+/\d+ (µs|ms)";
    let rate = r"(\d+|0\.\d\d|\d\.\d) msg/s";
    let whole = text.replace("SIX", six).replace("TWO", two).replace("RATE", rate);
    Regex::new(&whole).expect("pattern")
}

/// The shape of an output: the kinds of its lines, and the parts that those have.
pub(crate) fn shape(output: &str) -> Vec<String> {
    let kinds = [
        ("interval", INTERVAL),
        ("compact", COMPACT),
        ("heading", HEADING),
        ("starting", STARTING),
        ("stopped", STOPPED),
        ("average", AVERAGE),
        ("summary", SUMMARY),
    ];
    let mut shape: Vec<String> = Vec::new();
    for line in output.lines().filter(|line| !pattern(MORE).is_match(line)) {
        let found = kinds.iter().find_map(|(kind, text)| {
            let pattern = pattern(text);
            let captures = pattern.captures(line)?;
            let parts = ["sent", "returned", "confirmed", "received", "rates", "latency"];
            let part = |name: &&&str| {
                let part = captures.name(name)?.as_str();
                let digits = |c: char| c.is_ascii_digit() || matches!(c, '.' | ' ');
                let text: String = part.chars().filter(|c| !digits(*c)).collect();
                // Numbers differ; what they are of does not.
                (!text.is_empty()).then_some(text)
            };
            let parts: Vec<_> = parts.iter().filter_map(|name| part(&name)).collect();
            Some(format!("{kind} {}", parts.join(" ")))
        });
        let found = found.unwrap_or_else(|| panic!("PerfTest has no such line: {line:?}"));
        // How many intervals there are is a matter of time.
        if shape.last() != Some(&found) || found.starts_with("starting") {
            shape.push(found);
        }
    }
    shape
}

/// PerfTest's recorded output, as the present version would print it.
fn recorded(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/perf-test");
    as_now(&fs::read_to_string(path.join(name)).expect("recorded"))
}

/// Lines of PerfTest 2.22, with the maximum that they have since 2.24.
pub(crate) fn as_now(text: &str) -> String {
    let five = Regex::new(r"(?P<before>[ :])(?P<five>(\d+/){4}\d+) (?P<unit>µs|ms)").expect("a pattern");
    let text = five.replace_all(text, "$before$five/9999999 $unit");
    text.replace("/95th/99th ", "/95th/99th/max ")
}

pub(crate) fn perf_test(dir: &Path, url: &str, line: &str) -> Ended {
    run(dir, &[&["perf-test", "-h", url], &common::words(line)[..]].concat())
}

#[test]
fn lines_are_those_of_perf_test() {
    let (broker, dir) = &common::broker_in_folder();
    for (file, line, csv) in [
        ("default.txt", "-d one -r 500 -z 2", None),
        ("compact.txt", "-d one -r 500 -z 2 -c 50 -f mandatory -mf compact -o out.csv", Some("confirms.csv")),
        ("slow.txt", "-d one -z 2 -r 0.5 -y 1 -c 5", None),
        ("producer.txt", "-d one -y 0 -z 2 -r 5 -u q1 -o out.csv", Some("producer.csv")),
    ] {
        let ended = perf_test(dir, &broker.url, line).ok();
        assert_eq!(shape(&ended.stdout), shape(&recorded(file)), "{line}");
        let report = ended.stderr.lines().last().and_then(|l| l.strip_prefix("report: "));
        let report = report.unwrap_or_else(|| panic!("no report: {ended:#?}"));
        assert!(dir.join(report).exists(), "{report}");
        if let Some(file) = csv {
            assert_columns(&fs::read_to_string(dir.join("out.csv")).expect("csv"), &recorded(file));
        }
    }
    // An interval in which nothing moves has one, too.
    let ended = perf_test(dir, &broker.url, "-d idle -x 0 -u empty -z 2").ok();
    assert_eq!(ended.stdout.matches("received: 0 msg/s").count(), 2, "{}", ended.stdout);
}

/// A CSV file is PerfTest's, with columns at the end.
fn assert_columns(csv: &str, recorded: &str) {
    let theirs = recorded.lines().next().expect("a header");
    let header = csv.lines().next().and_then(|ours| ours.strip_prefix(theirs)).expect("PerfTest's header");
    testkit::assert_begins(header, ",99.9th p. consumer latency (µs),");
    testkit::assert_ends(header, ",max confirm latency (µs)");
    let empty = |line: &str| -> Vec<bool> { line.split(',').map(str::is_empty).collect() };
    let expected = empty(recorded.lines().nth(1).expect("a line"));
    let lines: Vec<_> = csv.lines().skip(1).collect();
    assert_eq!(lines.len(), 2, "{csv}");
    for line in lines {
        let cells = empty(line);
        assert_eq!(cells.get(..expected.len()), Some(expected.as_slice()), "{line}");
        assert_eq!(cells.len(), expected.len() + 6, "{line}");
    }
}

/// PerfTest 2.24 on a RabbitMQ: 200 msg/s for each of them, and a latency that rises with the backlog to over 1.2 s
/// after 2 s. Its prefetch has no limit, so that the messages wait in the client.
#[test]
fn a_slow_consumer_receives_what_perf_tests_does() {
    let (broker, dir) = &common::broker_in_folder();
    for slow in ["-R 200", "-R 200 -a", "-L 5000", "-L 5000 -a"] {
        let line = format!("-x 1 -y 1 -r 1000 {slow} -z 2 -st 0 -ad true -u slow-{}", slow.len());
        let ended = perf_test(dir, &broker.url, &line).ok();
        let number = |text: &str| -> u64 {
            let pattern = Regex::new(text).expect("a pattern");
            let found = pattern.captures(&ended.stdout);
            let found = found.unwrap_or_else(|| panic!("{slow}: {ended:#?}"));
            found[1].parse().expect("a number")
        };
        let rate = number(r"receiving rate avg: (\d+) msg/s");
        assert!((180..=202).contains(&rate), "{slow}: {rate} msg/s");
        let longest = number(r"consumer latency min/median/75th/95th/99th/max .*/(\d+) µs");
        assert!(longest > 1_200_000, "{slow}: {longest} µs");
    }
}

/// Messages are sent at once, and received in 2 s of simulated work: PerfTest's averages are of that time.
#[test]
fn averages_of_counted_messages_last_until_they_were_worked_on() {
    let (broker, dir) = &common::broker_in_folder();
    let ended = perf_test(dir, &broker.url, "-x 1 -y 1 -C 500 -L 4000 -ad true -u counted").ok();
    for what in ["sending", "receiving"] {
        let rest = ended.stdout.split(&format!("{what} rate avg: ")).nth(1);
        let rate = rest.and_then(|rest| rest.split(' ').next()?.parse::<f64>().ok());
        // A busy machine takes longer, and nothing is faster than the work.
        assert!(rate.is_some_and(|rate| rate > 0.0 && rate <= 251.0), "{what}: {ended:#?}");
    }
    // The report's are each over its own time, which the console's averages have in common.
    let json = common::record(dir);
    let summary = &json["summary"]["scenarios"]["messages"];
    let seconds = |name: &str| summary["lasted"][name].as_f64().expect(name);
    let rate = |name: &str| summary[name]["rate"].as_f64().expect(name);
    assert!(seconds("received_s") >= 1.9, "{summary:#}");
    assert!(seconds("sent_s") < seconds("received_s"), "{summary:#}");
    let all = seconds("received_s") * rate("received");
    assert!((all - 500.0).abs() < 0.01, "{all}: {summary:#}");
    assert!(rate("sent") > rate("received"), "{summary:#}");
}

/// Consumers work for 5 s on what is sent at once: the end does not wait for them and says so, and those that count
/// have all.
#[test]
fn what_consumers_do_not_have_at_the_end_is_told() {
    let broker_dir = folder();
    let broker = Broker::start(broker_dir.path());
    let (received, outstanding) = ("messages_not_received", "messages_outstanding");
    for (line, told, code) in [
        ("-u one -C 50", " of 50 messages in the ", received),
        ("-u two -C 50 -c 100", " of 50 messages in the ", outstanding),
        ("-u a,b -C 50", "not received: at least ", received),
        ("-u three -C 50 -D 50", "", ""),
    ] {
        let dir = &*folder();
        let ended = perf_test(dir, &broker.url, &format!("-x 1 -y 1 -L 100000 -ad true -st 0 {line}")).ok();
        assert!(!told.is_empty() || totals(dir) == (50, 50), "{ended:#?}");
        let is_told = ended.says([told]).stderr.contains("not received: ");
        assert_eq!(is_told, !told.is_empty(), "{ended:#?}");
        // The record and the report say it, too, and the terminal once.
        let json = common::record(dir);
        let warnings = json["summary"]["warnings"].as_array().expect("a list");
        let mut codes = warnings.iter().filter_map(|it| it["code"].as_str());
        let is_code = |it: &str| it == received || it == outstanding;
        assert_eq!(codes.find(|it| is_code(it)).unwrap_or_default(), code, "{json:#}");
        ended.says_not(["not received by the end"]);
    }
}

#[test]
fn counts_and_sequences_are_each_clients() {
    let (broker, dir) = &common::broker_in_folder();
    let ended = perf_test(dir, &broker.url, "-d n -C 100 -D 50 -c 10 -x 3 -y 6 -qp q-%02d -qpf 1 -qpt 3 -ms").ok();
    ended.prints(["test stopped (Producer reached message limit [3], Consumer reached message limit [6])"]);
    assert_eq!(ended.stdout.lines().filter(|l| l.contains(" starting ")).count(), 2 * (3 + 6));
    assert_eq!(totals(dir), (300, 300));
    let load = &common::record(dir)["experiment"]["load"][0];
    assert_eq!((&load["destinations"][2], &load["total-consumers"]), (&"queue://q-03".into(), &6.into()));
}

fn totals(dir: &Path) -> (u64, u64) {
    let json = common::record(dir);
    let total = |name: &str| json["summary"]["scenarios"]["messages"][name]["total"].as_u64().expect("total");
    (total("sent"), total("received"))
}

#[test]
fn workloads_do_what_they_do_in_perf_test() {
    let broker_dir = folder();
    let broker = Broker::start(broker_dir.path());
    for [line, counts @ ..] in testkit::table::<3>(include_str!("../data/perf-test/workloads.txt")) {
        let [sent, received] = counts.map(|it| it.parse::<u64>().expect("a count"));
        let dir = &*folder();
        let ended = perf_test(dir, &broker.url, &format!("-d w {line}")).ok();
        shape(&ended.stdout);
        assert_eq!(totals(dir), (sent, received), "{line}: {ended:#?}");
    }
    // Its own names alone: PerfTest has neither --subscription nor --protocol.
    let over_1_0 = broker.url.replace("amqp://", "amqp10://");
    let refused = perf_test(&folder(), &over_1_0, "-z 1 -r 100");
    refused.assert_error(2, &["topics without -u/--queue"]).says(["help: give -u/--queue"]);
    refused.says_not(["--subscription", "--protocol"]);
}

#[test]
fn ctrl_c_ends_a_test_in_order() {
    let (broker, dir) = &common::broker_in_folder();
    let started = common::start(common::bellows(dir, &["perf-test", "-h", &broker.url, "-r", "100"]));
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    started.signal("INT");
    let ended = started.end().ok();
    ended.prints(["\ntest stopped\nid: test-"]);
    let rate = ended.stdout.split("sending rate avg: ").nth(1);
    let rate = rate.and_then(|rest| rest.split(' ').next()?.parse::<u32>().ok());
    // Whole messages over the time until the signal.
    assert!(rate.is_some_and(|rate| (95..=105).contains(&rate)), "{ended:#?}");
}

#[test]
fn errors_are_never_ignored() {
    let dir = &*folder();
    let nobody = "amqp://127.0.0.1:1";
    for [line, code, parts] in testkit::table(include_str!("../data/perf-test/errors.txt")) {
        let parts: Vec<&str> = parts.split(" & ").collect();
        perf_test(dir, nobody, line).assert_error(code.parse().expect("a code"), &parts);
    }
    for (line, word, fitting) in [
        ("--autoak", "--autoak", "-a/--autoack"),
        ("--duration 5", "--duration", "-z/--time"),
        ("-rte 100", "\"-rte\"", "-r/--rate"),
        ("-rte", "\"-rte\"", "-r/--rate"),
        ("-x --ratee 5", "\"--ratee\"", "-r/--rate"),
        ("-x 1 rate 5", "\"rate\"", "-r/--rate"),
        ("-x 1 5", "\"5\"", "-x/--producers before it"),
    ] {
        perf_test(dir, nobody, line).assert_error(2, &[word]).says([fitting]);
    }
    assert_eq!(fs::read_dir(dir.join("runs")).map_or(0, Iterator::count), 0, "a run folder is left");
}

#[test]
fn help_and_versions_are_printed() {
    let dir = &*folder();
    for (flag, part) in [
        ("--help", " -x,--producers <arg>"),
        ("-?", " -x,--producers <arg>"),
        ("-mh", " -mpr,--metrics-prometheus"),
        ("-env", "  PRODUCERS "),
        ("-v", "bellows 0."),
    ] {
        run(dir, &["perf-test", flag]).ok().prints([part]);
    }
}

/// The two loads of RabbitMQ's "Profiling with flame graphs" (2022), but for their length. The
/// environment names the broker, as PerfTest lets it.
#[test]
fn the_command_lines_of_the_flame_graph_article_and_workloads_run_on_rabbitmq() {
    let (dir, node) = &managed::shared!();
    let publish = "--queue my-stream --queue-args x-queue-type=stream --auto-delete false \
                   --flag persistent --producers 1 --confirm 2000 --consumers 0 --time 1";
    let consume = "--queue my-stream --queue-args x-queue-type=stream --auto-delete false \
                   --flag persistent --producers 0 --consumers 4 --qos 10000 \
                   --multi-ack-every 1000 -consumer-args x-stream-offset=first --time 2";
    let mut counts = Vec::new();
    for (line, total) in [(publish, "sent"), (consume, "received")] {
        let mut command = common::bellows(dir, &common::words(&format!("perf-test {line}")));
        let ended = common::start(command.env("URI", node.url()).env("BELLOWS_RUNS", dir.join(total))).end().ok();
        ended.says(["from the environment: URI"]);
        let run = fs::read_dir(dir.join(total)).expect("runs").flatten().next();
        let json = common::read_json(&run.expect("a run").path().join("run.json"));
        counts.push(json["summary"]["scenarios"]["messages"][total]["total"].as_u64().unwrap_or_default());
        shape(&ended.stdout);
    }
    let [sent, received] = counts[..] else { panic!("two counts: {counts:?}") };
    assert!(sent > 1_000, "{sent} sent");
    // Each of four consumers of a stream gets every message.
    assert!(received > sent.min(100_000), "{received} of 4 x {sent} received");
    for (line, sent, received) in [
        ("-C 100 -y 3 -r 200", 100, 300),
        ("-C 100 -y 2 -qq -c 10", 100, 200),
        ("-C 100 -u a,b -y 2 -X 2 -f persistent -ad false", 200, 400),
        ("-C 100 -u tx -t topic -k some.key -m 10 -n 5 -A 5", 100, 100),
        ("-C 20 -u polled -po -pi 1", 20, 20),
        ("-C 50 -u p -mp priority=5,tenant=blue -qa x-max-priority=9 -ew empty", 50, 50),
    ] {
        let dir = &*folder();
        let ended = perf_test(dir, &node.url(), line).ok();
        shape(&ended.stdout);
        assert_eq!(totals(dir), (sent, received), "{line}: {ended:#?}");
    }
}

/// Median of the values that interval lines have for a pattern.
pub(crate) fn middle(output: &str, pattern: &str) -> Option<f64> {
    let pattern = Regex::new(pattern).expect("a pattern");
    let lines = output.lines().filter(|line| line.contains(", time "));
    let values = lines.filter_map(|line| pattern.captures(line)?[1].parse().ok());
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}
