//! The parts of a played command line that are compared, by the words of the table.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;

use super::Played;
use super::tap::{Seen, Told};
use crate::perf_test::{middle, shape};

#[derive(Debug, PartialEq)]
pub(super) enum Compared {
    Same(Vec<String>),
    /// Numbers that differ by a share of PerfTest's and something more at most.
    Near(Vec<f64>, f64, f64),
    /// Of the same order, or short.
    Order(Option<f64>),
}

pub(super) fn agree(ours: &Compared, theirs: &Compared) -> bool {
    match (ours, theirs) {
        (Compared::Near(ours, ..), Compared::Near(theirs, share, more)) => {
            // What is cut off by the end of one test says nothing.
            let both = ours.iter().zip(theirs);
            ours.is_empty() == theirs.is_empty()
                && both.into_iter().all(|(ours, theirs)| (ours - theirs).abs() <= theirs * share + more)
        }
        (Compared::Order(Some(ours)), Compared::Order(Some(theirs))) => {
            let is_short = ours.max(*theirs) < 50_000.0;
            is_short || (ours / theirs).max(theirs / ours) < 3.0
        }
        _ => ours == theirs,
    }
}

/// The value of a word of the table.
pub(super) fn compared(word: &str, play: &Played) -> Compared {
    let found = printed(word, play).or_else(|| told(word, &play.seen));
    found.unwrap_or_else(|| panic!("no word {word:?}"))
}

/// A value from a program's output and files.
fn printed(word: &str, play: &Played) -> Option<Compared> {
    let all = |pattern| matches(&play.stdout, pattern).into_iter();
    Some(match word {
        "exit" => Compared::Same(vec![format!("{:?}", play.code)]),
        "lines" => Compared::Same(shape(&play.stdout)),
        "stopped" => Compared::Same(all(r"(?m)^test stopped.*$").collect()),
        "ids" => Compared::Same(all(r"(?m)^id: [^,]+, (?:starting|time)").collect()),
        "times" => Compared::Near(all(r"time \d+\.\d{3}").map(number).collect(), 0.0, 0.5),
        "units" => {
            Compared::Same(unique(all(r"/\d+ (?:µs|ms)").map(|it| it.replace(|c: char| c.is_ascii_digit(), ""))))
        }
        "sent" | "received" | "confirmed" | "returned" => {
            let rate = middle(&play.stdout, &format!(r"{word}: (\d+) msg/s"));
            Compared::Near(rate.into_iter().collect(), 0.1, 3.0)
        }
        "latency" => Compared::Order(middle(&play.stdout, r"latency: \d+/(\d+)/")),
        "buffers" => Compared::Same(unique(play.buffers.iter().cloned())),
        "reconnects" => Compared::Near(reconnects(play), 0.0, 0.7),
        "csv" => Compared::Same(columns(&play.csv)),
        "page" => Compared::Same(metrics(&play.page)),
        "options" => Compared::Same(options(&play.stdout)),
        "variables" => Compared::Same(variables(&play.stdout)),
        _ => return None,
    })
}

/// A value from the methods that the broker received.
fn told(word: &str, seen: &Seen) -> Option<Compared> {
    let near = |count: usize| Compared::Near(vec![count as f64], 0.1, 4.0);
    let same = |names: &[&str]| Compared::Same(named(&seen.texts(names)));
    let publish = "basic.publish";
    Some(match word {
        "tune" => same(&["connection.tune-ok"]),
        "clients" => Compared::Same(clients(seen)),
        "exchanges" => same(&["exchange.declare"]),
        "queues" => same(&["queue.declare"]),
        "bindings" => same(&["queue.bind"]),
        "consumers" => same(&["basic.consume", "basic.get"]),
        // Limits of unacknowledged messages; 0 is none.
        "qos" => Compared::Same(seen.texts(&["basic.qos"]).into_iter().filter(|limit| limit != "0").collect()),
        "refused" => same(&["basic.nack", "basic.reject"]),
        "messages" => same(&[publish]),
        "properties" => each(seen, |told| told.properties.clone()),
        "sizes" => each(seen, |told| told.body.len().to_string()),
        "bodies" => each(seen, |told| String::from_utf8_lossy(&told.body).into_owned()),
        "json" => each(seen, |told| is_json(&told.body).to_string()),
        "different-bodies" => {
            let bodies: BTreeSet<_> = seen.of(publish).map(|told| &told.body).collect();
            Compared::Near(vec![bodies.len() as f64], 0.0, 0.0)
        }
        "keys" => Compared::Near(vec![seen.texts(&[publish]).len() as f64], 0.0, 0.0),
        "published" => near(seen.of(publish).count()),
        "delivered" => near(answers(seen, &["basic.deliver", "basic.get-ok"])),
        "acked" => near(seen.of("basic.ack").count()),
        "slowest-second" => pace(by_second(seen, publish), f64::min),
        "fastest-second" => pace(by_second(seen, publish), f64::max),
        "slowest-acks" => pace(by_second(seen, "basic.ack"), f64::min),
        "starts" => Compared::Near(starts(seen), 0.0, 1.1),
        _ => return None,
    })
}

fn matches(text: &str, pattern: &str) -> Vec<String> {
    let pattern = Regex::new(pattern).expect("a pattern");
    let found = pattern.find_iter(text).map(|found| found.as_str().to_owned());
    unique(found)
}

/// In order, each once.
fn unique(texts: impl Iterator<Item = String>) -> Vec<String> {
    let mut each = Vec::new();
    for text in texts.filter(|text| !text.is_empty()) {
        if !each.contains(&text) {
            each.push(text);
        }
    }
    each
}

fn number(text: String) -> f64 {
    text.split_once(' ').and_then(|(_, number)| number.parse().ok()).expect("a number")
}

/// Names and keys that a program makes stand for themselves only.
fn named(texts: &[String]) -> Vec<String> {
    let made = Regex::new(r#""(amq\.gen-[^"]*|[0-9a-f-]{36}|)""#).expect("a pattern");
    let texts = texts.iter().map(|text| made.replace_all(text, "MADE").into_owned());
    texts.collect::<BTreeSet<_>>().into_iter().collect()
}

/// A property of the messages, each value once.
fn each(seen: &Seen, of: impl Fn(&Told) -> String) -> Compared {
    let all: BTreeSet<_> = seen.of("basic.publish").map(of).collect();
    Compared::Same(all.into_iter().collect())
}

fn is_json(body: &[u8]) -> bool {
    serde_json::from_slice::<serde_json::Value>(body).is_ok_and(|json| json.is_object())
}

fn answers(seen: &Seen, names: &[&str]) -> usize {
    names.iter().filter_map(|name| seen.answers.get(name)).sum()
}

/// On how many connections and channels each kind of work was done.
fn clients(seen: &Seen) -> Vec<String> {
    let kinds = [("producers", &["basic.publish"] as &[&str]), ("consumers", &["basic.consume", "basic.get"])];
    let of = |(kind, names): (&str, &[&str])| {
        let told = names.iter().flat_map(|name| seen.of(name));
        let channels: BTreeSet<_> = told.map(|told| (told.connection, told.channel)).collect();
        let connections: BTreeSet<_> = channels.iter().map(|(connection, _)| connection).collect();
        format!("{kind} {} {}", connections.len(), channels.len())
    };
    kinds.into_iter().map(of).collect()
}

/// Counts in each second since the first, without the last.
fn by_second(seen: &Seen, name: &str) -> Vec<f64> {
    let Some(first) = seen.of(name).next() else { return Vec::new() };
    let mut seconds: BTreeMap<u64, u32> = BTreeMap::new();
    for told in seen.of(name) {
        let second = (told.at - first.at).as_secs();
        *seconds.entry(second).or_default() += 1;
    }
    seconds.pop_last();
    let last = seconds.keys().last().map_or(0, |last| last + 1);
    let of = |second| seconds.get(&second).copied().unwrap_or_default().into();
    (0..last).map(of).collect()
}

/// The second with the least or the most.
fn pace(seconds: Vec<f64>, of: fn(f64, f64) -> f64) -> Compared {
    Compared::Near(seconds.into_iter().reduce(of).into_iter().collect(), 0.25, 6.0)
}

/// When consumers began, since the first message or the first consumer.
fn starts(seen: &Seen) -> Vec<f64> {
    let consumed = || seen.of("basic.consume").map(|told| told.at.as_secs_f64());
    let sent = seen.of("basic.publish").map(|told| told.at.as_secs_f64());
    let first = consumed().chain(sent.take(1)).fold(f64::MAX, f64::min);
    consumed().map(|at| at - first).collect()
}

/// Time from the cut to the last new connection.
fn reconnects(play: &Played) -> Vec<f64> {
    let Some(cut) = play.cut else { return Vec::new() };
    let after = play.seen.connected.iter().filter(|at| **at > cut);
    after.map(|at| (*at - cut).as_secs_f64()).take(1).collect()
}

/// The columns, without those that are ours.
fn columns(csv: &str) -> Vec<String> {
    let columns = csv.lines().next().unwrap_or_default().split(',').map(str::trim);
    let columns = columns.filter(|column| !column.contains("99.9") && !column.starts_with("max "));
    columns.map(str::to_owned).collect()
}

/// Names and labels, without those that the docs call ours or PerfTest's alone.
fn metrics(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let names = lines.filter_map(|line| Some(line.rsplit_once(' ')?.0));
    let alone = ["confirm_size", "0.999\"", "0.9999\""];
    let both = names.filter(|name| !alone.iter().any(|alone| name.contains(alone)));
    let sorted = |name: &str| {
        let (name, labels) = name.split_once('{').unwrap_or((name, "}"));
        let mut labels: Vec<_> = labels.trim_end_matches('}').split(',').collect();
        labels.sort_unstable();
        format!("{name} {}", labels.join(","))
    };
    both.map(sorted).collect::<BTreeSet<_>>().into_iter().collect()
}

/// Options that PerfTest 2.22.1 does not have: ours, and those of 2.24.
const LATER: &str = "--tls-ca|--tls-cert|--tls-insecure|--tls-key|-cal --connection-allocation|-nty --netty|\
                     -ntyep --netty-epoll|-ntykq --netty-kqueue|-ntyt --netty-threads";

/// Options by their names, and whether they take something.
fn options(help: &str) -> Vec<String> {
    let pattern = r"(?m)^ {0,6}(?:(-[?\w-]+),)?(--[\w-]+)( <arg>| \[<arg>\])?";
    let pattern = Regex::new(pattern).expect("a pattern");
    let all = pattern.captures_iter(help).filter_map(|found| {
        let short = found.get(1).map_or(String::new(), |it| format!("{} ", it.as_str()));
        let name = format!("{short}{}", &found[2]);
        let takes = if found.get(3).is_some() { " takes one" } else { "" };
        (!LATER.split('|').any(|it| it == name)).then(|| format!("{name}{takes}"))
    });
    all.collect::<BTreeSet<_>>().into_iter().collect()
}

/// Variables that are read, except those of metrics, of which PerfTest prints one, and of a refused option.
fn variables(text: &str) -> Vec<String> {
    let pattern = Regex::new(r"(?m)^ {1,2}([A-Z][A-Z0-9_]+)\b").expect("a pattern");
    let names = pattern.captures_iter(text).map(|found| found[1].to_owned());
    let of_both = |name: &String| {
        let option = format!("--{}", name.to_lowercase().replace('_', "-"));
        let is_later = LATER.split('|').any(|later| later.ends_with(&option));
        let is_refused = name.starts_with("VERBOSE");
        !is_later && !is_refused && (name == "METRICS_FORMAT" || !name.starts_with("METRICS_"))
    };
    let names: BTreeSet<_> = names.filter(of_both).collect();
    names.into_iter().collect()
}
