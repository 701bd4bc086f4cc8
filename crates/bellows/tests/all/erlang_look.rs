//! `erlang queues`, `top` and `alloc` of a real RabbitMQ, compared with the node's own answers.

use crate::common;
use crate::common::managed::{self, SharedNode};

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::run;
use erlang::alloc::{microstates, node_memory};
use erlang::queues::{CountSource, QueueCounts, QueueRequest, QueueSort, read_queues};
use erlang::term::{Term, as_atom, as_int, as_list, as_tuple, atom, get};
use erlang::top::{TopRequest, TopSort, top};
use erlang::{Helper, Node};
use serde_json::Value;

/// Queues of the test; the product is made for 10,000.
const QUEUES: u64 = 1_000;

/// The body of an answer to a GET; the head where it is none.
fn get_page(port: u16, path: &str, login: &str) -> Result<String, String> {
    let answer = common::ask_page(port, &format!("GET {path} HTTP/1.0"), login).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let is_there = head.contains(" 200 ");
    is_there.then(|| body.to_owned()).ok_or(head.to_owned())
}

/// The queues according to the management API.
fn management(rabbit: &SharedNode) -> Vec<Value> {
    let path = "/api/queues?columns=name,messages_ready,messages_unacknowledged,consumers";
    serde_json::from_str(&get_page(rabbit.management(), path, common::AS_GUEST).expect("a page")).expect("JSON")
}

/// Something that answers, by name.
fn ask(node: &Node, module: &str, function: &str, arguments: Vec<Term>) -> Term {
    node.call(module, function, arguments).expect("an answer")
}

fn request(sort: QueueSort, limit: u32, fresh: Option<Duration>) -> QueueRequest {
    QueueRequest { vhost: None, sort, limit, fresh }
}

#[test]
fn queues_processes_and_memory_are_those_of_the_node() {
    let (dir, rabbit) = &managed::shared!();
    let url = format!("http://127.0.0.1:{}", rabbit.management());
    run(dir, &["topology", "generate", "--queues", &QUEUES.to_string(), "--output", "d.json"]).assert_ok();
    run(dir, &["topology", "apply", "d.json", "--management", &url]).assert_ok();
    run(dir, &["producer", "queue://held", "--message-count", "7", "--url", &rabbit.url()]).assert_ok();

    let node = Node::connect(&rabbit.erlang()).expect("a connection");
    let helper = Helper::load(&node).expect("the helper");
    queues_are_counted(&helper, rabbit);
    processes_are_shown(&helper);
    memory_adds_up(&helper);
    helper.close().expect("a clean node");
    pages_are_served(rabbit);
    a_started_node_is_found_by_its_name(rabbit, dir);
    one_that_does_not_run_yet_is_told_from_none(&node, dir);
}

fn queues_are_counted(helper: &Helper, rabbit: &SharedNode) {
    let all = request(QueueSort::Ready, 100_000, None);
    common::wait_for("the held queue's numbers", || read_queues(helper, &all).expect("counts").ready == Some(7));
    let counts = read_queues(helper, &all).expect("counts");
    assert_eq!(counts.queues, QUEUES + 1);
    assert_eq!(counts.rows.len() as u64, counts.queues);
    let first = counts.rows.first().expect("a row");
    assert_eq!((first.name.as_str(), first.ready, first.consumers), ("held", Some(7), 0));
    assert_eq!((first.kind.as_str(), first.age_limit_ms), ("classic", Some(5_000)));

    // The management API says the same, when its cache has caught up.
    common::wait_for("the management API's counts", || same(&counts, &management(rabbit)));

    let few = read_queues(helper, &request(QueueSort::Name, 3, None)).expect("counts");
    assert_eq!((few.rows.len(), few.left_out()), (3, QUEUES - 2));
    assert_eq!(few.ready, Some(7), "the sums are those of all queues");
    let each = Some(Duration::from_secs(5));
    let fresh = read_queues(helper, &request(QueueSort::Ready, 2, each)).expect("counts");
    assert_eq!((fresh.asked, fresh.silent), (QUEUES + 1, 0));
    let first = fresh.rows.first().expect("a row");
    assert_eq!((first.source, first.ready), (CountSource::Asked, Some(7)));
    it_is_faster_than_the_management_api(helper, &all, rabbit);
}

fn same(counts: &QueueCounts, management: &[Value]) -> bool {
    let count = |name: &str, key: &str| {
        let queue = management.iter().find(|it| it["name"] == name);
        queue.and_then(|it| it[key].as_u64())
    };
    let both = |name: &str| (count(name, "messages_ready"), count(name, "messages_unacknowledged"));
    management.len() == counts.rows.len() && counts.rows.iter().all(|row| both(&row.name) == (row.ready, row.unacked))
}

/// The best of a few: whatever else the machine does slows both.
fn it_is_faster_than_the_management_api(helper: &Helper, all: &QueueRequest, rabbit: &SharedNode) {
    let best = |look: &dyn Fn() -> usize| {
        let times = (0..5).map(|_| {
            let began = Instant::now();
            look();
            began.elapsed()
        });
        times.min().unwrap_or_default()
    };
    let ours = best(&|| read_queues(helper, all).expect("counts").rows.len());
    let theirs = best(&|| management(rabbit).len());
    // A tenth is the goal with 10,000 queues; a third never fails by accident.
    assert!(ours * 3 < theirs, "{ours:?} against {theirs:?}");
}

fn processes_are_shown(helper: &Helper) {
    let look = |sort, limit| {
        let request = TopRequest { window: Duration::from_millis(300), sort, limit, flow: true };
        top(helper, &request, &|| false).expect("a window")
    };
    let window = look(TopSort::Memory, 2_000);
    let is_sorted = window.processes.is_sorted_by_key(|it| std::cmp::Reverse(it.memory));
    assert!(is_sorted && window.processes.len() >= 1_000, "{}", window.processes.len());
    let queue = window.processes.iter().find(|it| it.role == "queue");
    assert!(queue.is_some_and(|it| !it.name.is_empty()), "queues have names");
    assert!(window.seconds >= 0.3 && window.schedulers.normal.iter().all(|it| (0.0..=1.0).contains(it)));
    let memory = ask(helper.node(), "erlang", "memory", vec![atom("total")]);
    let total = as_int(&memory).expect("a number") as f64;
    let said = window.memory["total"] as f64;
    // A node that collects its garbage in between has a good deal less.
    assert!((0.5..2.0).contains(&(said / total)), "{said} against {total}");
    assert!(window.counts["descriptors"] > 10 && window.counts["processes"] > QUEUES);
    assert!(window.alarms.is_empty() && window.flow_count == 0);
    // Nothing that it turned on is left on.
    let wall = ask(helper.node(), "erlang", "statistics", vec![atom("scheduler_wall_time")]);
    assert_eq!(wall, atom("undefined"));
}

/// Sum over carriers of a kind, by the formulas of `recon_alloc`, from the node's own report.
fn carriers_of(node: &Node, allocator: &str) -> i128 {
    let key = erlang::term::tuple(vec![atom("allocator_sizes"), atom(allocator)]);
    let report = ask(node, "erlang", "system_info", vec![key]);
    let mut sum = 0;
    for instance in as_list(&report).expect("instances").iter() {
        let parts = as_list(&as_tuple(instance).expect("an instance")[2]).expect("its parts").into_owned();
        for part in &parts {
            let [kind, sizes] = as_tuple(part).expect("a part") else { continue };
            if ["mbcs", "sbcs", "mbcs_pool"].contains(&as_atom(kind).unwrap_or_default()) {
                let sizes = as_list(sizes).expect("sizes");
                let sizes = sizes.iter().map(|size| as_tuple(size).expect("a size"));
                let sizes = sizes.filter(|size| size[0] == atom("carriers_size"));
                sum += sizes.map(|size| as_int(&size[1]).expect("bytes")).sum::<i128>();
            }
        }
    }
    sum
}

fn memory_adds_up(helper: &Helper) {
    let near = |a: f64, b: f64, what: &str| assert!((a / b - 1.0).abs() < 0.2, "{what}: {a} against {b}");
    let names = ["ets_alloc", "binary_alloc", "eheap_alloc", "ll_alloc"];
    let theirs = || names.map(|name| carriers_of(helper.node(), name) as f64);
    // Garbage may be collected in between: then once more.
    let still = || {
        let (before, memory, after) = (theirs(), node_memory(helper).expect("memory"), theirs());
        let mut pairs = before.iter().zip(&after);
        let same = pairs.all(|(a, b)| (a / b - 1.0).abs() < 0.1);
        same.then_some((memory, after))
    };
    let found = (0..20).find_map(|_| still());
    let (memory, carriers) = found.expect("a moment in which the node's heaps stay as they are");
    for (name, carriers) in names.into_iter().zip(carriers) {
        let mut ours = memory.allocators.iter();
        let ours = ours.find(|it| it.name == name).expect("the allocator");
        near(ours.all().carrier_bytes as f64, carriers, name);
    }
    assert!((0.2..=1.0).contains(&memory.carriers().utilisation()));
    let resident = memory.machine.resident.expect("the machine's side") as i64;
    let total = memory.vm["total"] as i64;
    let steps: i64 = memory.difference().iter().map(|it| it.bytes).sum();
    assert!((total + steps - resident).abs() < 1 << 20, "{total} {steps} {resident}");

    let states = microstates(helper, Duration::from_millis(300), &|| false).expect("states");
    assert!(!states.was_on);
    let schedulers = states.kinds.iter().find(|it| it.threads == "scheduler").expect("schedulers");
    let whole: f64 = schedulers.shares.values().sum();
    assert!((whole - 1.0).abs() < 1e-6 && schedulers.seconds > 0.2, "{schedulers:?}");
    // The accounting is off again: nothing is counted any more.
    let count = || ask(helper.node(), "erlang", "statistics", vec![atom("microstate_accounting")]);
    let sleep = |term: &Term| {
        let list = as_list(term).expect("threads");
        list.iter().filter_map(|it| as_int(get(get(it, "counters")?, "sleep")?)).sum::<i128>()
    };
    let before = sleep(&count());
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(sleep(&count()), before);
}

/// Neither port nor cookie is given: bellows started it.
fn a_started_node_is_found_by_its_name(rabbit: &SharedNode, dir: &Path) {
    let name = rabbit.erlang().node;
    run(dir, &["erlang", "info", name.name()]).ok().prints([name.as_str()]);
    let info = rabbit.inspect(dir, "info", &["--json"]).json();
    assert_eq!(info["rabbitmq"], rabbit.version(), "{info:#}");
    assert_eq!(info["bellows_modules"], Value::Array(Vec::new()), "{info:#}");
    run(dir, &["erlang", "info", "nobody"]).assert_error(2, &["nobody"]).says(["such as nobody@localhost"]);
    // What bellows knows of its own node is not given twice.
    for option in [["--port", "1"], ["--cookie-file", "none"], ["--epmd-port", "4369"], ["--ca", "none.pem"]] {
        let args = [&["erlang", "info", name.name()], &option[..]].concat();
        run(dir, &args).assert_error(2, &[option[0], "has no effect"]);
    }
    run(dir, &["erlang", "queues", name.name(), "--vhost", "nowhere"])
        .assert_error(1, &["has no such virtual host", "nowhere"]);
    what_is_refused_is_not_announced(name.name(), dir);
}

/// A node answers long before RabbitMQ has started there, and after it was stopped.
fn one_that_does_not_run_yet_is_told_from_none(node: &Node, dir: &Path) {
    let args = ["erlang", "queues", node.name().name(), "--timeout", "5s"];
    ask(node, "rabbit", "stop", vec![]);
    let refused = run(dir, &args);
    // Before anything can fail: other tests need it.
    ask(node, "rabbit", "start", vec![]);
    refused.assert_error(1, &["RabbitMQ"]);
    // A node of a few seconds is about to start it; an older one was stopped.
    let is_said = ["is still starting", "is stopped on"].iter().any(|it| refused.stderr.contains(it));
    assert!(is_said, "{}", refused.stderr);
    run(dir, &["erlang", "queues", node.name().name()]).assert_ok();
}

/// A command announces no count or trace that the node refuses.
fn what_is_refused_is_not_announced(node: &str, dir: &Path) {
    let root = ["--root", "no_such_module:f/1"];
    for (command, arguments) in [("calls", &["no_such_module"][..]), ("calls", &root), ("memory", &["no_such_module"])]
    {
        let args = [&["erlang", command, node][..], arguments].concat();
        run(dir, &args).assert_error(1, &[]).says_not(["counts on", "follows"]);
    }
    let args = ["erlang", "calls", node, "lists", "--for", "300ms"];
    run(dir, &args).ok().says(["counts on"]);
    // Without short traces there are no columns of what they tell.
    let counted = run(dir, &[&args[..], &["--bursts", "0"]].concat()).ok();
    testkit::assert_ends(counted.stdout.lines().next().unwrap_or_default(), "own/call");
    counted.prints_not(["No accumulated time"]);
}

fn pages_are_served(rabbit: &SharedNode) {
    let host = rabbit.erlang().address.expect("an address").0;
    let mut child = Command::new(env!("CARGO_BIN_EXE_bellows"))
        .args(["erlang", "queues", "--listen", "127.0.0.1:0", "--every", "100ms", "--host", &host])
        .args(rabbit.access(None))
        .stderr(Stdio::piped())
        .spawn()
        .expect("a server");
    let mut line = String::new();
    let mut said = BufReader::new(child.stderr.take().expect("its words"));
    said.read_line(&mut line).expect("where it listens");
    let port = line.split_once("http://127.0.0.1:").and_then(|(_, rest)| rest.split_once('/'));
    let port: u16 = port.and_then(|(port, _)| port.parse().ok()).expect("a port");
    let json: Value = serde_json::from_str(&get_page(port, "/queues", "").expect("a page")).expect("JSON");
    assert_eq!(json["queues"], QUEUES + 1);
    assert_eq!(json["rows"].as_array().map_or(0, Vec::len), management(rabbit).len());
    assert!(json["cost"]["reads"] == 1 && json["cost"]["node_us"].as_u64() > Some(0));
    let page = get_page(port, "/metrics", "").expect("a page");
    assert!(page.ends_with("# EOF\n"), "{}", page.len());
    let held = r#"bellows_queue_messages_ready{vhost="/",queue="held",type="classic"} 7"#;
    assert!(page.lines().any(|it| it == held));
    child.kill().expect("an end");
    child.wait().expect("an end");
}
