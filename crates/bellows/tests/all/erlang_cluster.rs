//! `erlang queues` on a cluster: queues that lead on other nodes, and consumers elsewhere.

use crate::common;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use brokers::Fault;
use brokers::managed::Waiting;
use brokers::rabbitmq::{Cluster, Config};
use common::{folder, run};
use erlang::queues::{CountSource, QueueCount, QueueCounts, QueueRequest, QueueSort, read_queues};
use erlang::term::{Term, as_text};
use erlang::{Helper, Node};

/// Messages of each queue, and how many of them its consumer has.
const MESSAGES: u64 = 7;
const HELD: u64 = 2;
const TYPES: [&str; 3] = ["classic", "quorum", "stream"];
/// Nodes on which queues of each type lead; the consumers are connected to the third.
const LEADERS: [usize; 2] = [0, 1];

fn cluster() -> Cluster {
    let config = Config { guard: common::managed::guard(), ..Config::default() };
    let mut waiting = Waiting { progress: &mut |_| {}, cancelled: &|| false };
    Cluster::start(&config, 3, false, &mut waiting).expect("a cluster")
}

fn eval(node: &Node, source: &str) -> Term {
    node.evaluate(common::DEADLINE, source).expect("a value")
}

fn experiment(url: impl Fn(usize) -> String, of_each: &str) -> String {
    let load = |kind: &str, node: usize| {
        let url = url(node);
        format!(
            "[[load]]\ndestination = \"queue://{kind}-{node}\"\nqueue-type = \"{kind}\"\nurl = {url:?}\n{of_each}\n"
        )
    };
    let loads: String = TYPES.iter().flat_map(|kind| LEADERS.map(|node| load(kind, node))).collect();
    format!(
        "phases = {{ warmup = \"0s\", measure = \"5m\" }}\nprofile.events = []\n\
         [broker]\nkind = \"attach\"\nurl = {:?}\n{loads}",
        url(0)
    )
}

/// Publishes to all queues, each of which leads where it is declared.
fn publish(dir: &Path, cluster: &Cluster) {
    let url = |node: usize| cluster.nodes()[node].plain_url();
    let of_each =
        format!("producers = 1\nconsumers = 0\nmax-pending = 1\nmessage-size = 100\nmessage-count = {MESSAGES}");
    fs::write(dir.join("fill.toml"), experiment(url, &of_each)).expect("a file");
    run(dir, &["run", "fill.toml", "--quiet"]).assert_ok();
}

fn consume(dir: &Path, cluster: &Cluster) -> common::Started {
    let url = |_| cluster.nodes()[2].plain_url();
    let of_each = format!(
        "producers = 0\ndeclare = false\nprefetch = {HELD}\nstream-offset = \"first\"\nconsumer-latency = [\"1h@1h\"]"
    );
    fs::write(dir.join("hold.toml"), experiment(url, &of_each)).expect("a file");
    common::start(common::bellows(dir, &["run", "hold.toml", "--quiet"]))
}

fn read(helper: &Helper, fresh: Option<Duration>) -> QueueCounts {
    let request = QueueRequest { vhost: None, sort: QueueSort::Name, limit: 100, fresh };
    read_queues(helper, &request).expect("counts")
}

#[test]
#[ignore = "a cluster of its own: make prove"]
fn queues_are_asked_where_they_lead_and_consumers_are_counted_wherever_they_are() {
    testkit::needs_rabbitmq!();
    let dir = &*folder();
    let mut cluster = cluster();
    let connected = |number: usize| {
        let access = cluster.nodes()[number].erlang().expect("access");
        Node::connect(&access).expect("a connection")
    };
    for number in 0..3 {
        // What leaders of quorum queues write into tables they write at this interval.
        eval(&connected(number), "application:set_env(rabbit, quorum_tick_interval, 3600000).");
    }
    let first = connected(0);
    publish(dir, &cluster);
    queues_lead_on(&first, &cluster);
    let consumers = consume(dir, &cluster);

    let helper = Helper::load(&first).expect("the helper");
    common::wait_for("consumers, and what streams write into the tables", || {
        let held = read(&helper, None);
        let is_there = |row: &QueueCount| row.consumers == 1 && (row.kind != "stream" || row.ready == Some(MESSAGES));
        held.rows.len() == 6 && held.rows.iter().all(is_there)
    });
    what_is_fresh_is_told_from_what_is_held(&helper);
    it_is_shown(dir, first.name().name());
    a_node_that_hangs_is_named(&helper, &mut cluster);

    consumers.signal("KILL");
    consumers.end();
    helper.close().expect("a clean node");
    drop(first);
    cluster.stop().expect("an end");
}

/// The test tests something only where leaders are on two nodes.
fn queues_lead_on(node: &Node, cluster: &Cluster) {
    let homes = eval(
        node,
        "Home = fun (P) when is_pid(P) -> node(P); ({_, N}) -> N end, \
         L = lists:sort([{element(4, amqqueue:get_name(Q)), Home(amqqueue:get_pid(Q))} || Q <- \
         rabbit_amqqueue:list()]), lists:flatten([io_lib:format(\"~s ~s~n\", [Q, N]) || {Q, N} <- L]).",
    );
    let name = |number: usize| cluster.nodes()[number].erlang().expect("access").node;
    let line = |kind: &str, number: usize| format!("{kind}-{number} {}\n", name(number));
    let expected: String = TYPES.iter().flat_map(|kind| LEADERS.map(|number| line(kind, number))).collect();
    assert_eq!(as_text(&homes).expect("a text"), expected);
}

fn what_is_fresh_is_told_from_what_is_held(helper: &Helper) {
    let held = read(helper, None);
    assert_eq!((held.asked, held.never_asked), (0, 0), "{held:#?}");
    let quorum = held.rows.iter().filter(|it| it.kind == "quorum");
    // The tables know nothing of these messages yet.
    assert!(quorum.clone().count() == 2 && quorum.clone().all(|it| it.unacked != Some(HELD)), "{held:#?}");

    let fresh = read(helper, Some(Duration::from_secs(20)));
    let sums = (fresh.asked, fresh.never_asked, fresh.silent, fresh.unknown);
    assert_eq!(sums, (4, 2, 0, 0), "{fresh:#?}");
    assert!(fresh.silent_nodes.is_empty(), "{fresh:#?}");
    for row in &fresh.rows {
        assert_eq!(row.consumers, 1, "{row:#?}");
        if row.kind == "stream" {
            assert_eq!(row.source, CountSource::NeverAsked, "{row:#?}");
            assert!(row.age_limit_ms > Some(0), "{row:#?}");
        } else {
            let counts = (row.source, row.ready, row.unacked, row.age_limit_ms);
            let expected = (CountSource::Asked, Some(MESSAGES - HELD), Some(HELD), Some(0));
            assert_eq!(counts, expected, "{row:#?}");
        }
    }
}

fn it_is_shown(dir: &Path, name: &str) {
    let shown = run(dir, &["erlang", "queues", name, "--fresh", "20s"]).ok();
    let age = |queue: &str| {
        let line = shown.stdout.lines().find(|it| it.starts_with(queue));
        let line = line.unwrap_or_else(|| panic!("no {queue}: {}", shown.stdout));
        line.split("  ").last().unwrap_or_default().trim().to_owned()
    };
    assert_eq!((age("quorum-1"), age("classic-1")), ("asked".into(), "asked".into()));
    assert_eq!(age("stream-1"), "never asked");
    assert!(shown.stdout.contains("2 queues cannot be asked"), "{}", shown.stdout);

    let json = run(dir, &["erlang", "queues", name, "--fresh", "20s", "--json"]).json();
    assert_eq!(json["never_asked"], 2, "{json:#}");
    let rows = json["rows"].as_array().expect("rows");
    let streams = rows.iter().filter(|it| it["type"] == "stream");
    assert!(streams.clone().all(|it| it["source"] == "never_asked"), "{json:#}");
}

fn a_node_that_hangs_is_named(helper: &Helper, cluster: &mut Cluster) {
    let name = cluster.nodes()[1].erlang().expect("access").node.to_string();
    cluster.inject(1, Fault::Pause).expect("it hangs");
    let began = Instant::now();
    let counts = read(helper, Some(Duration::from_millis(500)));
    let took = began.elapsed();
    cluster.inject(1, Fault::Resume).expect("it goes on");
    assert!(took < Duration::from_secs(15), "{took:?}");
    assert_eq!(counts.silent_nodes, [name], "{counts:#?}");
    let source = |queue: &str| {
        let row = counts.rows.iter().find(|it| it.name == queue);
        row.expect("a row").source
    };
    // What its home does not tell is not known from anywhere; a quorum queue may have another leader by then.
    assert_eq!(source("classic-1"), CountSource::Unknown, "{counts:#?}");
    let quorum = source("quorum-1");
    assert!([CountSource::Unknown, CountSource::Asked].contains(&quorum), "{counts:#?}");
    assert_eq!(source("classic-0"), CountSource::Asked, "{counts:#?}");
    assert_eq!(source("quorum-0"), CountSource::Asked, "{counts:#?}");
}
