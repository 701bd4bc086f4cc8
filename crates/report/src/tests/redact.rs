//! Reports without names: no name remains, whatever it is.

mod folders;

use std::fs;
use std::path::Path;

use crate::html;
use archive::{
    BindingRecord, ComparedRun, ComparedSide, ComparedSideName, Comparison, Event, ExchangeRecord, Finding, Labels,
    MatrixKey, PairedMatrix, PairedRun, PairedRuns, QueueRecord, RunRecord, RunState, RunSummary, RunWriter,
    ScrapedPage, Tag, Tier, Topology, Warning,
};
use measure::{LatencySummary, Problem};
use serde_json::json;
use stacks::{ProfileSummary, WorkShare};
use testkit::{Random, assert_has, assert_lacks};

fn said(page: &str) -> (String, String) {
    let json = super::examples::data(page).expect("data");
    let start = page.find("<!--").expect("data") + 4;
    let title = page.find("<title>").expect("a title");
    let style = page.find("<style>").expect("a style");
    let app = page.find("<div id=\"app\">").expect("a summary");
    let summary = format!("{}{}", &page[title..style], &page[app..start]);
    (json, summary)
}

/// Names and seed of a run that has these names everywhere.
struct Named {
    queue: String,
    exchange: String,
    key: String,
    vhost: String,
    host: String,
    user: String,
    /// Each of which stands in one place.
    own: [String; OWN],
    seed: u64,
}

/// Messages of a system, a library or a broker, with names found nowhere else, each in a form that marks it as a name.
fn foreign(own: &[String], seed: u64) -> String {
    let mut random = Random::new(seed);
    let said = own.iter().map(|name| {
        let (folder, mark) = (name, random.of(&[",", ";", "(", "|", "'", ")", "{", "["]));
        match random.below(11) {
            0 => format!("DnsName({name:?})"),
            1 => format!("the name \"{name}.corp\", of '{name}'"),
            2 => format!("{mark}/srv/{folder}/x"),
            3 => format!("/srv/x{mark}{folder}/y{mark}"),
            4 => format!("http://{name}.corp/x{mark}{folder}"),
            5 => format!("unknown field `{name}`"),
            6 => format!("is \u{201c}{name}\u{201d}{mark}"),
            7 => format!("\"/srv/a {folder}\""),
            8 => format!("NOT_ALLOWED - closed by {name}"),
            9 => format!("{{error,{{{name},<<\"{name}\">>}}}}"),
            _ => format!("from{mark}amqp://{name}:5672{mark}amqp://{name}{mark}"),
        }
    });
    let said: Vec<String> = said.collect();
    said.join(random.of(&[", ", "; ", " ", " | "]))
}

/// Places that hold words of somebody's own.
const OWN: usize = 31;

impl Named {
    fn new(random: &mut Random, seed: u64, own: impl Fn(&mut Random, usize) -> String) -> Self {
        let [queue, exchange, key, vhost] = std::array::from_fn(|_| name(random));
        let (host, user) = (host(random), name(random));
        let own = std::array::from_fn(|place| own(random, place));
        Self { queue, exchange, key, vhost, host, user, own, seed }
    }

    fn all(&self) -> Vec<&str> {
        let named = [&self.queue, &self.exchange, &self.key, &self.vhost, &self.host, &self.user];
        let all = named.into_iter().chain(&self.own);
        all.map(String::as_str).collect()
    }

    fn record(&self) -> RunRecord {
        let Self { queue, exchange, key, vhost, host, user, own, seed } = self;
        let sentence = format!("{queue} of {exchange} by {key} in {vhost}, {user} on rabbit@{host}");
        let url = format!("amqp://{user}@{host}:5672/");
        let command = ["bellows", "run", "mine.toml", "--set"].map(str::to_owned).into_iter();
        let (kind, unit) = ("connections".to_owned(), "cycles".to_owned());
        let refused = format!("cannot connect: {}", foreign(&own[19..23], *seed + 1));
        let failed = format!("cannot connect: the certificate is not for {}", own[24]);
        let blocked = format!("{}: low on memory", own[25]);
        RunRecord {
            // As folders of runs are called.
            id: format!("2026-11-21T00-12-33Z-{}-7k2q", archive::sanitised(queue)),
            name: queue.clone(),
            command: command.chain([format!("load.0.routing-key={key}"), url.clone()]).collect(),
            experiment: json!({
                "name": queue,
                "broker": {"kind": "attach", "url": url, "user": user, "node": format!("rabbit@{host}"),
                           "env": {"method": own[29]}},
                "load": [{"destination": format!("queue://{queue}"), "routing-key": key, "exchange": {"name": exchange},
                          "headers": {queue.as_str(): key, "kind": format!("application/{}", own[0]), "from": own[1]},
                          "arguments": {own[26].as_str(): 5, "x-max-length": 7, "event": own[30]},
                          "consumer-arguments": {format!("x-{}", own[27]): {"x-priority": true}},
                          "properties": {"content-type": format!("text/{}", own[2]), "type": own[3]}}],
                "probe": [{"url": format!("http://{host}:15672/api/queues/{vhost}"), "name": "queues"}],
                "trace": [{"match": format!("{{resource, $\", <<\"{}\">>, queue, {}, 'a\\'{}', \
                                             _}}", bare(vhost), own[4], own[5])}],
                "command": [format!("{{host}}:{}", bare(key)), format!("{{\"tenant\":{{\"x\":{:?}}}}}", own[6]),
                            format!("-P{}", own[7].to_uppercase()), format!("curl http://localhost/ -d {}", own[8])],
            }),
            events: vec![
                Event { t: 1.0, label: format!("no queue '{queue}' in vhost '{vhost}'; {sentence}") },
                Event { t: 2.0, label: format!("connections reconnect: {}", foreign(&own[12..19], *seed)) },
            ],
            topology: self.topology(),
            state: RunState::Failed,
            problem: Some(Problem::new("cannot connect", format!("{sentence} for {}", own[23]), &sentence)),
            summary: Some(RunSummary {
                warnings: vec![
                    Warning { text: sentence, ..Warning::new(Tier::Note, Finding::DebugBuild {}) },
                    warned(
                        format!("2 cycles failed: {refused}"),
                        Finding::CyclesFailed { kind, unit, failed: 2, timed_out: 0, begun: 2, first_failure: refused },
                    ),
                    warned(
                        format!("1 of 2 scrapes failed; the last: {failed}"),
                        Finding::ScrapesFailed { page: "page 1".into(), failed: 1, requests: 2, last_failure: failed },
                    ),
                    warned(
                        format!("the broker blocked publishers once ({blocked}): rates are low"),
                        Finding::ConnectionBlocked { times: 1, reasons: blocked, fault: None },
                    ),
                ],
                ..summary(&format!("{queue} of node 2"), queue)
            }),
            ..complete_record()
        }
    }

    fn topology(&self) -> Topology {
        let Self { queue, exchange, key, vhost, host, own, .. } = self;
        let dead_letters = format!("x-dead-letter-exchange={exchange}");
        let its_exchange = ExchangeRecord { name: exchange.clone(), vhost: vhost.clone(), ..ExchangeRecord::default() };
        Topology {
            queues: vec![QueueRecord {
                name: queue.clone(),
                vhost: vhost.clone(),
                leader: format!("rabbit@{host}"),
                members: vec![format!("other-{host}@{host}"), format!("rabbit@{host}")],
                arguments: [dead_letters, format!("event={}", own[11]), format!("x-{}=1", own[28])].into(),
                ..QueueRecord::default()
            }],
            exchanges: vec![its_exchange],
            bindings: vec![BindingRecord {
                source: exchange.clone(),
                destination: queue.clone(),
                routing_key: key.clone(),
                vhost: vhost.clone(),
                arguments: [format!("match={}", own[9]), format!("type={}", own[10])].into(),
                ..BindingRecord::default()
            }],
            ..Topology::default()
        }
    }

    fn write(&self, dir: &Path) -> std::path::PathBuf {
        let run = RunWriter::create(dir, "x", 0).expect("a folder");
        write_record(run.dir(), &self.record());
        run.dir().to_path_buf()
    }
}

fn complete_record() -> RunRecord {
    RunRecord {
        schema: RunRecord::SCHEMA.to_owned(),
        created: "2026-11-21T00:12:33Z".to_owned(),
        state: RunState::Complete,
        ..RunRecord::default()
    }
}

fn summary(page: &str, queue: &str) -> RunSummary {
    let response = LatencySummary { count: 1, p50_ns: 1_000, ..LatencySummary::default() };
    let work = WorkShare { of: format!("queue {queue}"), role: "queue".to_owned(), share: 0.5 };
    let (event, samples, work) = ("cpu".to_owned(), 10_000, vec![work]);
    RunSummary {
        schema: RunSummary::SCHEMA.to_owned(),
        scrapes: vec![ScrapedPage { name: page.to_owned(), response, ..ScrapedPage::default() }],
        profiles: vec![ProfileSummary { event, samples, work, ..ProfileSummary::default() }],
        ..RunSummary::default()
    }
}

fn queue_alone(queue: &str) -> Topology {
    let queue = QueueRecord { name: queue.to_owned(), vhost: "/".to_owned(), ..QueueRecord::default() };
    Topology { queues: vec![queue], ..Topology::default() }
}

/// Makes a folder that of a run with this record, and no series.
fn write_record(run: &Path, record: &RunRecord) {
    fs::write(run.join(archive::file::SERIES), "").expect("writable");
    let record = serde_json::to_vec(record).expect("JSON");
    fs::write(run.join(archive::file::RECORD), record).expect("writable");
}

fn warned(text: String, finding: Finding) -> Warning {
    Warning { text, ..Warning::new(Tier::Caution, finding) }
}

/// A name without characters that end a text of Erlang or a template.
fn bare(name: &str) -> String {
    name.replace(['"', '\'', '{', '}', '\\'], "")
}

fn name(random: &mut Random) -> String {
    // The invisible ones are shown by pages as symbols and numbers.
    let special: Vec<char> = "-._ /%&<\"'\\#äЖ中\u{1f407}*(+$\t\u{7}\u{7f}\u{200b}\u{202e}".chars().collect();
    let length = 3 + random.below(60);
    let mut name = "q7".to_owned();
    for _ in 0..length {
        name.push(match random.below(3) {
            0 => random.of(&special),
            1 => char::from(b'a' + random.below(26) as u8),
            _ => char::from(b'0' + random.below(10) as u8),
        });
    }
    name.push('z');
    name
}

/// Invisible characters as pages show them.
fn shown_by_pages(name: &str) -> String {
    let shown = |c: char| match c {
        '\0'..='\u{1f}' => char::from_u32(0x2400 + u32::from(c)).map_or_else(String::new, String::from),
        '\u{7f}' => "\u{2421}".to_owned(),
        '\u{200b}' | '\u{202e}' => format!("\u{27e8}U+{:04X}\u{27e9}", u32::from(c)),
        other => other.to_string(),
    };
    name.chars().map(shown).collect()
}

fn letters(random: &mut Random) -> String {
    let letters = (0..6).map(|_| char::from(b'a' + random.below(26) as u8));
    letters.collect()
}

fn host(random: &mut Random) -> String {
    format!("zq{}.corp", letters(random))
}

/// A word that is an atom, too.
fn own(random: &mut Random) -> String {
    format!("zq{}", letters(random))
}

/// A word of somebody's own, or a host's name of ordinary words.
fn outside(random: &mut Random) -> String {
    let words = ["rabbitmq", "internal", "local", "node", "queue", "server"];
    if random.below(2) == 0 { own(random) } else { [(); 4].map(|()| random.of(&words)).join(".") }
}

#[test]
fn whatever_names_a_run_has_none_remains() {
    let dir = tempfile::tempdir().expect("a folder");
    for seed in testkit::seeds(10) {
        let mut random = Random::new(seed);
        let named = Named::new(&mut random, seed, |random, place| match place {
            12..23 => outside(random),
            _ => own(random),
        });
        let run = named.write(dir.path());
        let page = html::render_redacted(&run, &[]).unwrap_or_else(|e| panic!("seed {seed}: {e:?}"));
        let (json, summary) = said(&page.html);
        let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        let mut texts = vec![summary];
        texts_of(&json, &mut texts);
        let all = named.all().into_iter();
        let spelled: Vec<_> = all.map(|it| [it.to_owned(), shown_by_pages(it)]).collect();
        let in_ids = [named.queue.clone(), archive::sanitised(&named.queue)];
        for name in spelled.iter().flatten().chain(&in_ids) {
            for text in &texts {
                let text = text.to_lowercase();
                assert!(!text.contains(&name.to_lowercase()), "seed {seed}: {name:?} in {text:?}");
            }
        }
        // Nor does a part of one that was shortened.
        let ends = |name: &String| {
            let letters: Vec<char> = name.chars().collect();
            [&letters[..7], &letters[letters.len() - 7..]].map(|it| it.iter().collect::<String>())
        };
        let is_long = |name: &&String| name.chars().count() > 16;
        let long = [&named.queue, &named.vhost, &named.key].into_iter();
        for part in long.filter(is_long).flat_map(ends) {
            for text in &texts {
                assert!(!text.contains(&part), "seed {seed}: {part:?} in {text:?}");
            }
        }
        // Keys that RabbitMQ knows stay.
        let load = &json["experiment"]["load"][0];
        assert_eq!(load["arguments"]["x-max-length"], 7, "{load}");
        // Joins stay right.
        let topology = &json["topology"];
        let queue = topology["queues"][0]["name"].as_str().expect("a name");
        assert!(queue.starts_with("queue-"), "{queue}");
        assert_eq!(topology["bindings"][0]["destination"], queue);
        assert_eq!(topology["bindings"][0]["source"], topology["exchanges"][0]["name"]);
        assert_eq!(json["experiment"]["load"][0]["destination"], format!("queue://{queue}"));
        fs::remove_dir_all(&run).expect("removed");
    }
}

fn texts_of(value: &serde_json::Value, texts: &mut Vec<String>) {
    match value {
        serde_json::Value::String(text) => texts.push(text.clone()),
        serde_json::Value::Array(items) => items.iter().for_each(|it| texts_of(it, texts)),
        serde_json::Value::Object(fields) => {
            for (key, value) in fields {
                texts.push(key.clone());
                texts_of(value, texts);
            }
        }
        _ => {}
    }
}

#[test]
fn notes_and_tags_are_blotted_and_ordinary_names_are_told() {
    let dir = tempfile::tempdir().expect("a folder");
    let own = std::array::from_fn(|_| "1".to_owned());
    let names = ["test", "amq.direct", "payroll-eu", "/", "localhost", "guest"];
    let [queue, exchange, key, vhost, host, user] = names.map(str::to_owned);
    let run = Named { queue, exchange, key, vhost, host, user, own, seed: 0 }.write(dir.path());
    let mut labels = Labels { note: Some("for the merger with Initech".to_owned()), ..Labels::default() };
    labels.tags.insert("initech".parse::<Tag>().expect("a tag"));
    labels.write(&run).expect("written");
    let page = html::render_redacted(&run, &[]).expect("a page");
    let ordinary: Vec<&str> = (page.ordinary.iter()).filter_map(|it| Some(it.split_once(" (")?.0)).collect();
    assert_eq!(ordinary, ["test", "queues"]);
    let (json, summary) = said(&page.html);
    assert_lacks(format!("{json}{summary}").to_lowercase(), ["initech", "payroll", "merger"]);
    // Names that every broker has stay.
    assert_has(json, ["amq.direct", "guest", "localhost"]);
}

const LONG_NAME: &str = "orders-of-the-web-shop-in-europe-and-of-all-its-subsidiaries";

/// A run of an experiment with a probe, which the first sentence names beside parts that find no room.
fn run_of_probe(dir: &Path, experiment: &str, probe: &str) -> std::path::PathBuf {
    let run = RunWriter::create(dir, "x", 0).expect("a folder");
    let latency = LatencySummary { count: 100_000, p99_ns: 31_000_000, ..LatencySummary::default() };
    let metrics = [measure::Metric::ACK_RESPONSE, measure::Metric::END_TO_END];
    let mut summary = summary("/metrics", LONG_NAME);
    summary.scrapes[0].response = latency.clone();
    summary.flow_mut().sent = archive::Throughput { total: 3_300_000, rate: 54_812.3 };
    summary.messages_mut().latency = metrics.map(|it| (it, latency.clone())).into_iter().collect();
    let label = format!("probe {probe} and {probe} response p99 31.0 ms, GET /api/queues");
    let probes = json!([{"url": "/api/queues", "name": probe}]);
    let record = RunRecord {
        id: "2026-11-21T00-12-33Z-x-7k2q".to_owned(),
        name: experiment.to_owned(),
        experiment: json!({"name": experiment, "probe": probes, "scrape": [{"url": "/metrics"}]}),
        events: vec![Event { t: 1.0, label }],
        summary: Some(summary),
        topology: queue_alone(LONG_NAME),
        ..complete_record()
    };
    write_record(run.dir(), &record);
    run.dir().to_path_buf()
}

fn headline(page: &str) -> (String, serde_json::Value) {
    let json: serde_json::Value = serde_json::from_str(&said(page).0).expect("JSON");
    let parts = json["headline"].as_array().expect("a sentence").iter();
    let parts = parts.map(|it| it["text"].as_str().unwrap_or_default());
    (parts.collect(), json)
}

#[test]
fn the_first_sentence_says_the_same_without_names() {
    let dir = tempfile::tempdir().expect("a folder");
    let run = run_of_probe(dir.path(), "mine", "queues");
    let whole = html::render(&archive::RunReader::open(&run).expect("a run")).expect("a page");
    let (whole, _) = headline(&whole);
    let page = html::render_redacted(&run, &[]).expect("a page");
    let (shown, _) = headline(&page.html);
    let words = |text: &str| {
        let name = |word: &str| word.starts_with("orders-") || word.starts_with("queue-1");
        let words = text.split([' ', ',', ';']).filter(|word| !name(word));
        words.map(str::to_owned).collect::<Vec<_>>()
    };
    assert!(whole.contains("orders-") && !whole.contains("end-to-end"), "{whole}");
    assert!(shown.contains("queue-1"), "{shown}");
    assert_eq!(words(&shown), words(&whole));
}

#[test]
fn what_a_person_calls_a_probe_is_a_name_whatever_word_it_is() {
    let dir = tempfile::tempdir().expect("a folder");
    let built_in = json!({"name": "mgmt-api", "probe": [{"name": "queues"}]});
    for probe in ["queues", "overview", "stream", "nodes/stats"] {
        let run = run_of_probe(dir.path(), "mine", probe);
        let page = html::render_redacted(&run, std::slice::from_ref(&built_in)).expect("a page");
        let (_, json) = headline(&page.html);
        assert_eq!(json["experiment"]["probe"][0]["name"], "label-1", "{probe}");
        assert_eq!(json["experiment"]["probe"][0]["url"], "/api/queues");
        let said = "probe label-1 and label-1 response p99 31.0 ms, GET /api/queues";
        assert_eq!(json["events"][0]["label"], said);
        // A page that nobody gave a name is called after its path.
        assert_eq!(json["figures"]["scrapes"][0]["name"], "/metrics");
        fs::remove_dir_all(&run).expect("removed");
    }
    // In a built-in experiment, bellows has.
    let run = run_of_probe(dir.path(), "mgmt-api", "queues");
    let page = html::render_redacted(&run, &[built_in]).expect("a page");
    let (_, json) = headline(&page.html);
    assert_eq!(json["experiment"]["probe"][0]["name"], "queues");
}

/// A run of which a caution names a queue that is its own.
fn run_of_matrix(cell: &Path, queue: &str) -> String {
    let run = RunWriter::create(cell, "x", 0).expect("a folder");
    let id = run.dir().file_name().expect("a name").to_string_lossy().into_owned();
    let warnings = vec![warned(format!("most of it waits in {queue}, and that is slow"), Finding::DebugBuild {})];
    let summary = RunSummary { schema: RunSummary::SCHEMA.to_owned(), warnings, ..RunSummary::default() };
    let (id_of_run, topology) = (id.clone(), queue_alone(queue));
    let record = RunRecord { id: id_of_run, topology, summary: Some(summary), ..complete_record() };
    write_record(run.dir(), &record);
    id
}

#[test]
fn names_that_only_side_b_of_a_matrix_has_are_blotted() {
    let dir = tempfile::tempdir().expect("a folder");
    let keys = vec![MatrixKey { key: "load.0.rate".to_owned(), values: vec!["1".to_owned(), "2".to_owned()] }];
    let matrix = PairedMatrix::new("x", 7, 2, keys);
    for cell in matrix.folders(dir.path()) {
        fs::create_dir_all(&cell).expect("a folder");
        let sides = [ComparedSideName::A, ComparedSideName::B];
        let ids = ["plain-old-queue", "brand-new-queue"].map(|queue| run_of_matrix(&cell, queue));
        let run = |(side, id): (ComparedSideName, &String)| {
            let id = id.clone();
            PairedRun { pair: 0, side, id, spoiled: None, own: false, disturbed: false }
        };
        let (schema, name) = (PairedRuns::SCHEMA.to_owned(), "x".to_owned());
        let runs = sides.into_iter().zip(&ids).map(run).collect();
        let pairs = PairedRuns { schema, name, pairs: 2, runs, ..PairedRuns::default() };
        pairs.write(&cell).expect("written");
        let side = |id: &String| {
            let runs = vec![ComparedRun { id: id.clone(), invalid: false, cautious: true }];
            ComparedSide { runs, ..ComparedSide::default() }
        };
        let (schema, [a, b]) = (Comparison::SCHEMA.to_owned(), [side(&ids[0]), side(&ids[1])]);
        Comparison { schema, a, b, ..Comparison::default() }.write(&cell).expect("written");
    }
    matrix.write(dir.path()).expect("written");
    let page = html::render_redacted(dir.path(), &[]).expect("a page");
    let (json, summary) = said(&page.html);
    assert_has(&json, ["most of it waits in queue-"]);
    assert_lacks(json + &summary, ["plain-old-queue", "brand-new-queue"]);
}
