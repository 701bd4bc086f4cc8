//! Output as Artemis itself recorded it: lines, samples and tags.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use regex::Regex;

use super::common::words;
use super::{Bench, number, recorded};

/// Where numbers stand, how wide they are with the blanks before them, and whether they have
/// decimals: what is left must be equal.
fn shape(text: &str) -> String {
    let numbers = Regex::new(r"( *)(\d+)(\.\d\d)?").expect("regex");
    let shaped = |found: &regex::Captures<'_>| {
        let kind = if found.get(3).is_some() { "f" } else { "i" };
        format!("<{kind}{}>", found[0].len())
    };
    let urls = Regex::new(r"(?m)^Connection brokerURL = \S+$").expect("regex");
    let text = urls.replace_all(text, "Connection brokerURL = URL");
    numbers.replace_all(&text, shaped).into_owned()
}

/// The parts between blank lines, each kind once.
fn parts(text: &str) -> BTreeSet<String> {
    let shaped = shape(text);
    shaped.trim_end_matches('\n').split("\n\n").map(str::to_owned).collect()
}

#[test]
fn the_lines_are_artemis_own() {
    let bench = Bench::new();
    let client = words("--show-latency --warmup 1 --duration=1 --rate 500 queue://TEST_QUEUE --max-pending 100");
    let client = bench.perf("client", &client).ok();
    assert_eq!(parts(&client.stdout), parts(&recorded("client.out")));
    let producer = bench.perf("producer", &["queue://P", "--duration", "1"]).ok();
    assert_eq!(parts(&producer.stdout), parts(&recorded("producer.out")));
    let consumer = bench.perf("consumer", &["--message-count", "100", "--show-latency", "queue://P"]).ok();
    // The consumer's second is not over when it has them all, as in Artemis' run; latencies of
    // messages that waited are wider than there.
    let narrow = |text: &str| Regex::new("<f[0-9]+>").expect("regex").replace_all(text, "<f>").into_owned();
    let ours: BTreeSet<String> = parts(&consumer.stdout).iter().map(|p| narrow(p)).collect();
    let theirs = parts(&recorded("consumer.out")).iter().map(|p| narrow(p)).collect();
    assert_eq!(ours, theirs);
}

/// The keys of each line, in their order.
fn keys(text: &str) -> BTreeSet<Vec<String>> {
    let key = Regex::new(r#""([^"]+)":"#).expect("regex");
    let of = |line: &str| key.captures_iter(line).map(|c| c[1].to_owned()).collect();
    text.lines().map(of).filter(|keys: &Vec<String>| !keys.is_empty()).collect()
}

#[test]
fn the_samples_are_artemis_own() {
    let bench = Bench::new();
    for (tool, options) in [("client", &["--rate", "500", "--warmup", "1"][..]), ("producer", &[])] {
        let all = [&["--duration", "1", "--json", "ours.json", "queue://J"], options].concat();
        bench.perf(tool, &all).assert_ok();
        let ours = fs::read_to_string(bench.file("ours.json")).expect("samples");
        let theirs = recorded(&format!("{tool}.json"));
        assert_eq!(keys(&ours), keys(&theirs));
        for text in [ours, theirs] {
            assert!(text.starts_with("[\n{\"sampleType\":\"interval\",\"warmup\":"), "{text}");
            assert!(text.ends_with("}\n]"), "{text}");
            assert!(text.contains("},\n{\"sampleType\":\"summary\",\"time\":17"), "{text}");
        }
    }
}

/// Tags, each once, in order.
fn tags(text: &str) -> Vec<String> {
    let mut tags: Vec<String> = Vec::new();
    for line in text.lines().filter(|line| line.starts_with("Tag=")) {
        let tag = line.split(',').next().unwrap_or_default().to_owned();
        if !tags.contains(&tag) {
            tags.push(tag);
        }
    }
    tags
}

/// HdrHistogram's jar: Debian's `libhdrhistogram-java`, or one that is named.
fn jar() -> Option<String> {
    let named = std::env::var("HDRHISTOGRAM_JAR").ok();
    let usual = ["/usr/share/java/hdrhistogram.jar", "/usr/share/java/HdrHistogram.jar"];
    named.into_iter().chain(usual.map(str::to_owned)).find(|jar| Path::new(jar).exists())
}

fn java_count(jar: &str, log: &Path, tag: &str) -> Option<u64> {
    let out = testkit::java("java")
        .args(["-cp", jar, "org.HdrHistogram.HistogramLogProcessor", "-csv", "-tag", tag, "-i"])
        .arg(log)
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let last = text.lines().rfind(|line| line.starts_with(|c: char| c.is_ascii_digit()))?;
    last.split(',').nth(2)?.parse().ok()
}

#[test]
fn the_histogram_log_has_artemis_tags_and_java_reads_it() {
    let bench = Bench::new();
    let (client, producer) = (bench.file("client.hdr"), bench.file("producer.hdr"));
    let options = format!("--rate 500 --warmup 1 --duration 1 --hdr {}", client.display());
    bench.perf("client", &words(&options)).assert_ok();
    let log = fs::read_to_string(&client).expect("log");
    let recorded = recorded("client.hdr");
    assert_eq!(tags(&log), tags(&recorded));
    let head = |text: &str| text.lines().take(2).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(head(&log), head(&recorded));
    bench.perf("producer", &["--duration", "1", "--hdr", "producer.hdr", "--json", "p.json"]).assert_ok();
    let jar = testkit::or_skip!(jar().ok_or("needs Debian's libhdrhistogram-java, or HDRHISTOGRAM_JAR"));
    let acknowledged = number(&bench.summary("p.json")["totalSendTime"]["count"]);
    assert_eq!(java_count(&jar, &producer, "send"), Some(acknowledged));
    // Java takes the blank in Artemis' tags for the end of a field, in Artemis' files too.
    assert_eq!(java_count(&jar, &client, "transfer"), None);
    let mended = log.replace("Tag=warmup ", "Tag=warmup_").replace("delay send", "delay_send");
    fs::write(&client, mended).expect("write");
    // Of 500 that are due in each phase, on a full machine some are sent after it.
    for tag in ["warmup_delay_send", "delay_send"] {
        let count = java_count(&jar, &client, tag);
        assert!(count.is_some_and(|it| (100..=500).contains(&it)), "{tag}: {count:?}");
    }
}
