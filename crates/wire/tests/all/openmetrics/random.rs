//! Random pages: written, cut anywhere, read back.

use std::fmt::Write as _;

use wire::openmetrics::{FamilyKind, PageFormat, SeriesRole, fuzzing};

use crate::amqp091::common::Random;
use crate::openmetrics::common::{Told, ToldSample, told};

/// A page, and what it says.
struct Page {
    text: String,
    events: Vec<Told>,
}

const NAMES: &[&str] = &["a", "queue_messages", "http:requests", "_x", "rabbitmq_queue_messages_ready"];
const LABELS: &[&str] = &["queue", "vhost", "le", "q", "_", "queue_name"];

fn value_part(random: &mut Random) -> &'static str {
    const PARTS: &str = "q-1|q-12|a|\\|\"|\n|é|}|{|,|=|# |a long name of a queue that is longer than most|";
    random.pick(&PARTS.split('|').collect::<Vec<_>>())
}

fn label_text(random: &mut Random) -> String {
    (0..random.below(4)).map(|_| value_part(random)).collect()
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn labels(random: &mut Random) -> Vec<(String, String)> {
    let mut labels: Vec<(String, String)> = Vec::new();
    for _ in 0..random.below(5) {
        let name = random.pick(LABELS);
        if labels.iter().all(|(other, _)| other != name) {
            labels.push((name.to_owned(), label_text(random)));
        }
    }
    labels
}

/// Name and labels; names in quotes stand among these.
fn write_name(random: &mut Random, text: &mut String, name: &str, labels: &[(String, String)]) {
    if random.below(6) > 0 {
        text.push_str(name);
        return write_labels(random, text, labels);
    }
    let blank = if random.below(4) == 0 { " " } else { "" };
    let _ = write!(text, "{{{blank}\"{name}\"{blank}");
    for (label, value) in labels {
        let quote = if random.below(2) == 0 { "\"" } else { "" };
        let _ = write!(text, ",{quote}{label}{quote}=\"{}\"", escaped(value));
    }
    text.push('}');
}

fn write_labels(random: &mut Random, text: &mut String, labels: &[(String, String)]) {
    if labels.is_empty() && random.below(4) > 0 {
        return;
    }
    let blank = if random.below(10) == 0 { " " } else { "" };
    let written: Vec<String> = labels
        .iter()
        .map(|(name, value)| format!("{blank}{name}{blank}={blank}\"{}\"{blank}", escaped(value)))
        .collect();
    let comma = if labels.is_empty() || random.below(8) > 0 { "" } else { "," };
    let _ = write!(text, "{blank}{{{}{comma}}}", written.join(","));
}

fn number(random: &mut Random) -> String {
    let some = random.below(1_000_000);
    match random.below(8) {
        0 => "NaN".into(),
        1 => random.pick(&["+Inf", "-Inf", "Inf"]).into(),
        2 => format!("{some}.{}", random.below(100_000)),
        3 => format!("-{some}"),
        4 => format!("{some}e{}", random.below(20)),
        5 => format!("{}", random.below(usize::MAX >> 12)),
        _ => format!("{}", random.below(20)),
    }
}

/// Every tenth page has lines that begin like the ones before them and differ somewhere else.
fn page(random: &mut Random) -> Page {
    let mut page = Page { text: String::new(), events: Vec::new() };
    let mut last = Vec::new();
    let mut name = NAMES[0];
    for _ in 0..random.below(40) {
        match random.below(12) {
            0 => {
                let help = label_text(random);
                let _ = writeln!(page.text, "# HELP a {}", escaped(&help).replace("\\\"", "\""));
                let help = help.trim_start_matches([' ', '\t']).to_owned();
                page.events.push(Told::Help("a".into(), help));
            }
            1 => page.text.push_str(random.pick(&["\n", "# a comment\n", "  \n", "\r\n", "#\n"])),
            2 => {
                page.text.push_str("# TYPE other gauge\n");
                page.events.push(Told::Type("other".into(), FamilyKind::Gauge));
            }
            _ => {
                if random.below(3) == 0 {
                    name = random.pick(NAMES);
                }
                if random.below(3) > 0 {
                    last = labels(random);
                } else if let Some((_, value)) = last.last_mut() {
                    value.push_str(value_part(random));
                }
                sample(random, &mut page, name, &last);
            }
        }
    }
    if random.below(4) == 0 && page.text.ends_with('\n') {
        page.text.pop();
    }
    page
}

fn sample(random: &mut Random, page: &mut Page, name: &str, labels: &[(String, String)]) {
    let value = number(random);
    write_name(random, &mut page.text, name, labels);
    let _ = write!(page.text, " {value}");
    let mut timestamp = None;
    if random.below(6) == 0 {
        let stamp = random.below(1 << 40);
        let _ = write!(page.text, " {stamp}");
        timestamp = Some((stamp as f64 / 1_000.0).to_bits());
    }
    let mut exemplar = None;
    if random.below(10) == 0 {
        page.text.push_str(" # {trace=\"a#b\"} 0.5 2");
        let labels = vec![("trace".to_owned(), "a#b".to_owned())];
        exemplar = Some((labels, 0.5_f64.to_bits(), Some(2.0_f64.to_bits())));
    }
    page.text.push_str(random.pick(&["\n", "\n", "\n", "\r\n", " \n"]));
    let (value, role) = (value.parse::<f64>().expect("a number").to_bits(), SeriesRole::Value);
    let sample = ToldSample { name: name.into(), labels: labels.to_vec(), value, timestamp, exemplar, role };
    page.events.push(Told::Sample(sample));
}

#[test]
fn what_was_written_is_read() {
    for seed in 0..5_000 {
        let page = page(&mut Random::new(seed));
        let read = told(PageFormat::Prometheus, page.text.as_bytes());
        assert_eq!(read, page.events, "seed {seed}:\n{}", page.text);
    }
}

#[test]
fn pieces_of_any_size_say_the_same() {
    for seed in 0..1_000 {
        let mut random = Random::new(seed);
        let mut bytes = page(&mut random).text.into_bytes();
        // Damage makes wrong lines, whose numbers and causes must not depend on the pieces either.
        for _ in 0..random.below(6) {
            if !bytes.is_empty() {
                let at = random.below(bytes.len());
                bytes[at] = random.pick(b"\n\"{}=\\, #\xff0a\r");
            }
        }
        let format = random.below(2) as u8;
        for length in [1, 2, 7, 64, random.below(256) as u8] {
            fuzzing::page(&[&[format, length], bytes.as_slice()].concat());
        }
    }
}
