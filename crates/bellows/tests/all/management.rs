//! A RabbitMQ that bellows has not started, asked by its management API; and servers that are none.

use crate::common;
use crate::common::managed::{self, SharedNode};

use std::fs;
use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use archive::Topology;
use common::pages::serve;
use common::{bellows, run, start};
use experiment::{BrokerKind, BrokerSpec, Experiment};
use serde_json::{Value, json};

/// Hostile names: they try to break JSON, HTML, Erlang's syntax, URLs and terminals.
const ODD: &str = "q\" \\ /ä€🙂 <b>&amp;%2F {[}] ~p \u{1b}[31m";

/// A broker with queues of all types, bindings of all kinds, and names and arguments that are hard to write.
fn definitions() -> Value {
    let text = include_str!("../data/definitions.json").replace("\"ODD\"", &json!(ODD).to_string());
    serde_json::from_str(&text).expect("JSON")
}

/// A broker that runs, asked over Erlang's distribution.
fn by_node(node: &SharedNode) -> BrokerSpec {
    let erlang = node.erlang();
    BrokerSpec {
        node: Some(erlang.node.to_string()),
        node_port: erlang.address.map(|(_, port)| port),
        cookie_file: Some(node.cookie_file()),
        management: None,
        ..by_management(node, 0)
    }
}

fn by_management(node: &SharedNode, port: u16) -> BrokerSpec {
    let management = Some(format!("http://localhost:{port}/"));
    BrokerSpec { kind: BrokerKind::Attach, url: Some(node.url()), management, ..BrokerSpec::default() }
}

fn topology(broker: &BrokerSpec) -> Topology {
    let experiment = Experiment { broker: broker.clone(), ..Experiment::default() };
    let control = load::Control::new();
    let broker = brokers::start(&experiment, None, Path::new("bellows"), &control, &mut |_| {});
    let broker = broker.expect("a broker that runs");
    assert!(broker.has_topology());
    broker.topology(&|| false).expect("a topology")
}

fn apply(dir: &Path, port: u16, definitions: &Value) {
    let file = dir.join("definitions.json");
    fs::write(&file, definitions.to_string()).expect("a file");
    let args = ["topology", "apply", "definitions.json", "--management", &format!("http://127.0.0.1:{port}")];
    run(dir, &args).assert_ok();
}

#[test]
fn the_management_api_tells_the_same_topology_as_the_node() {
    let (dir, node) = &managed::shared!();
    let port = node.management();
    let by_node = by_node(node);
    let by_management = by_management(node, port);
    apply(dir, port, &definitions());
    let url = node.url();
    run(dir, &["producer", "queue://held", "--no-declare", "--message-count", "7", "--url", &url]).assert_ok();
    let mut consumer =
        start(bellows(dir, &["consumer", "queue://replicated", "--no-declare", "--duration", "50", "--url", &url]));

    let begun = Instant::now();
    let (asked, told) = loop {
        let (asked, told) = (topology(&by_node), topology(&by_management));
        let mut same = told.clone();
        same.lagging = false;
        // Consumers are those of the statistics, which are renewed every five seconds.
        if same == asked && asked.queues.iter().any(|it| it.consumers == 1) {
            break (asked, told);
        }
        assert!(begun.elapsed() < common::DEADLINE, "{told:#?}\nis not {asked:#?}");
        thread::sleep(Duration::from_millis(500));
    };
    assert!(told.lagging && !asked.lagging);
    let queues: Vec<_> = told.queues.iter().map(|it| (it.vhost.as_str(), it.name.as_str())).collect();
    let others = [("/odd & <vhost>", "held"), ("second", "held")];
    let mine = ["held", "log", ODD, "replicated"].map(|name| ("/", name));
    assert_eq!(queues, [mine.as_slice(), &others].concat());
    let held = &told.queues[0];
    assert_eq!((held.messages, held.kind.as_str()), (7, "classic"));
    // RabbitMQ 4 adds the type.
    let own: Vec<_> = held.arguments.iter().filter(|it| *it != "x-queue-type=classic").collect();
    assert_eq!(own, ["x-max-length=1000", "x-overflow=reject-publish"]);
    assert_eq!(told.exchanges.len(), 5);
    let of_headers: Vec<_> = told.bindings.iter().filter(|it| it.source == "by headers").collect();
    assert_eq!(of_headers.len(), 2);
    let text = format!("text={ODD}");
    let table = "table={\"a\":{\"c\":\"d\"},\"b\":1}";
    let wanted = ["count=3", "list=[1,\"two\",[3]]", "share=1.5", table, &text, "x-match=all", "yes=true"];
    assert!(of_headers.iter().any(|it| it.arguments == wanted), "{of_headers:#?}");
    let between = told.bindings.iter().filter(|it| it.destination_type == "exchange");
    assert_eq!(between.count(), 2);
    consumer.signal("INT");
    let _ = consumer.child.wait();

    many_queues_are_told_in_two_pages(dir, port, &by_node, &by_management);
    a_run_keeps_topology_and_no_password(dir, node, port);
    a_wrong_login_is_refused_before_the_load(dir, node, port);
    a_wrong_cookie_is_refused_before_the_load(dir, node, port);
    probes_of_paths_go_to_the_api(dir, node, port);
}

/// The first thousand objects of each kind are kept.
fn many_queues_are_told_in_two_pages(dir: &Path, port: u16, by_node: &BrokerSpec, by_management: &BrokerSpec) {
    let generate = "topology generate --queues 1500 --prefix many --exchange in --exchange-type topic -o many.json";
    run(dir, &common::words(generate)).assert_ok();
    let api = format!("http://127.0.0.1:{port}");
    run(dir, &["topology", "apply", "many.json", "--management", &api]).assert_ok();
    let names = |topology: &Topology| -> Vec<_> {
        topology.queues.iter().map(|it| (it.vhost.clone(), it.name.clone())).collect()
    };
    let (asked, told) = (topology(by_node), topology(by_management));
    assert_eq!(told.queues.len(), 1_000);
    assert_eq!(names(&told), names(&asked));
    assert_eq!(told.bindings, asked.bindings);
    assert_eq!(told.exchanges, asked.exchanges);
    assert_eq!(told.omitted, asked.omitted);
    // Queues, and for each a binding of its own and one of the default exchange.
    assert_eq!(told.omitted, (1_506 - 1_000) + (3_000 + 6 + 7 - 1_000));
    run(dir, &["topology", "delete", "many.json", "--quiet", "--management", &api]).assert_ok();
}

fn a_run_keeps_topology_and_no_password(dir: &Path, node: &SharedNode, port: u16) {
    let dir = dir.join("kept");
    fs::create_dir(&dir).expect("a folder");
    let watcher = json!({
        "users": [{"name": "watcher", "password": "s3cret:wörd", "tags": "monitoring"}],
        "permissions": [{"user": "watcher", "vhost": "second", "configure": "", "write": "", "read": ""}],
    });
    apply(&dir, port, &watcher);
    let (api, url) = (format!("http://localhost:{port}"), node.url());
    let line = format!(
        "client queue://run --url {url} --management {api} --management-user watcher --duration 1 --rate 100 \
         --max-pending 10 --quiet"
    );
    let mut command = bellows(&dir, &common::words(&line));
    // The broker's own user has another one: the first is for the API alone.
    command.env("BELLOWS_MANAGEMENT_PASSWORD", "s3cret:wörd");
    command.env("BELLOWS_PASSWORD", "guest");
    start(command).end().assert_ok();
    let record = common::record(&dir);
    testkit::assert_lacks(record.to_string(), ["s3cret"]);
    assert_eq!(record["experiment"]["broker"]["management"], api, "{record:#}");
    assert_eq!(record["experiment"]["broker"]["management-user"], "watcher");
    let topology: Topology = serde_json::from_value(record["topology"].clone()).expect("a topology");
    assert!(topology.lagging);
    // It sees the virtual hosts that it may use.
    let seen: Vec<_> = topology.queues.iter().map(|it| it.vhost.as_str()).collect();
    assert_eq!(seen, ["second"], "{topology:#?}");
}

fn a_wrong_login_is_refused_before_the_load(dir: &Path, node: &SharedNode, port: u16) {
    let (api, url) = (format!("http://localhost:{port}"), node.url());
    let client = |more: &str, password: &str| {
        let line = format!("client queue://never --url {url} --duration 1 --no-archive --management {more}");
        start(bellows(dir, &common::words(&line)).env("BELLOWS_MANAGEMENT_PASSWORD", password)).end()
    };
    let nobody = format!("{api} --management-user nobody");
    let refused = client(&nobody, "s3cret");
    refused.assert_error(1, &["cannot log in to the management API", "401"]);
    let help = "set broker.management-user (--management-user), and its password in BELLOWS_MANAGEMENT_PASSWORD; the \
                user needs the tag monitoring";
    refused.says([help]).says_not(["s3cret"]);
    // The user is the broker's, and the password is the API's all the same.
    client(&api, "s3cret").assert_error(1, &["cannot log in to the management API", "401"]).says([help]);
    client(&nobody, "").assert_error(1, &["there is no password", "nobody"]);
    // The port of AMQP is none of HTTP.
    let amqp = node.url().replace("amqp://guest:guest@", "http://");
    let line = format!("client queue://never --url {url} --duration 1 --no-archive --management {amqp}");
    run(dir, &common::words(&line)).assert_error(1, &["cannot log in to the management API"]);
    no_load_began(node, port);
}

fn a_wrong_cookie_is_refused_before_the_load(dir: &Path, node: &SharedNode, port: u16) {
    let options = node.erlang();
    let at = options.address.expect("an address");
    fs::write(dir.join("cookie"), "WRONG").expect("a file");
    let (url, name) = (node.url(), options.node.to_string());
    let client = |node_port: &str| {
        let line = format!(
            "client queue://never --url {url} --node {name} --node-port {node_port} --cookie-file cookie --duration 1 \
             --no-archive"
        );
        run(dir, &common::words(&line))
    };
    let refused = client(&at.1.to_string());
    refused.assert_error(1, &["refuses the cookie"]);
    refused.says(["broker.cookie-file (--cookie-file)", "BELLOWS_ERLANG_COOKIE"]);
    client("1").assert_error(1, &["cannot connect to"]).says(["--node-port"]);
    no_load_began(node, port);
}

fn no_load_began(node: &SharedNode, port: u16) {
    assert!(topology(&by_management(node, port)).queues.iter().all(|it| it.name != "never"));
}

fn probes_of_paths_go_to_the_api(dir: &Path, node: &SharedNode, port: u16) {
    let dir = dir.join("probed");
    fs::create_dir(&dir).expect("a folder");
    let text = format!(
        "name = \"x\"\n[broker]\nkind = \"attach\"\nurl = \"{}\"\nmanagement = \"http://localhost:{port}/\"\n\
         [phases]\nwarmup = \"0s\"\nmeasure = \"1s\"\n[profile]\nevents = []\n\
         [[probe]]\nurl = \"/api/queues?columns=name\"\nevery = \"100ms\"\n",
        node.url()
    );
    fs::write(dir.join("x.toml"), &text).expect("a file");
    let summary = run(&dir, &["run", "x.toml", "--json"]).json();
    let probe = &summary["scenarios"]["probe"];
    assert!(probe["probe_completed"].as_u64() >= Some(5), "{summary:#}");
    assert_eq!(probe["probe_failed"], 0, "{summary:#}");
    fs::write(dir.join("y.toml"), text.replace("management =", "#")).expect("a file");
    run(&dir, &["run", "y.toml"]).assert_error(2, &["probe.0.url", "is a path"]).says(["broker.management"]);
}

/// A server that takes any login and answers each path in its own way.
fn server(answer: impl Fn(&str, &mut TcpStream) + Send + Sync + 'static) -> SocketAddr {
    serve(move |request, stream| answer(request.target(), stream))
}

fn say(stream: &mut TcpStream, body: &str) {
    let _ = stream.write_all(common::pages::answer("200 OK", body).as_bytes());
}

/// Sends text without end until nobody listens any more.
fn say_endlessly(stream: &mut TcpStream, begin: &str, piece: &str) {
    let _ = write!(stream, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{begin}");
    while stream.write_all(piece.as_bytes()).is_ok() {}
}

/// The topology event of a run that asks an API which answers so once it has told who logged in.
fn note(answer: fn(&str, &mut TcpStream)) -> String {
    let (broker, dir) = &common::broker_in_folder();
    let api = server(move |path, stream| match path {
        "/api/whoami" => say(stream, "{\"name\":\"guest\",\"tags\":[\"administrator\"]}"),
        _ => answer(path, stream),
    });
    let line = format!(
        "client queue://q --url {} --management http://{api} --duration 1 --rate 100 --max-pending 10 --quiet",
        broker.url
    );
    run(dir, &common::words(&line)).assert_ok();
    let record = common::record(dir);
    assert_eq!(record["topology"]["queues"], json!([]), "{record:#}");
    let events = record["events"].as_array().expect("events");
    let mut labels = events.iter().filter_map(|it| it["label"].as_str());
    let label = labels.find(|it| it.contains("its queues and bindings"));
    label.unwrap_or_else(|| panic!("no note: {record:#}")).to_owned()
}

#[test]
fn an_api_that_answers_garbage_or_without_an_end_costs_the_topology_alone() {
    // They turn bad after the login, when the load has run.
    testkit::assert_has(
        note(|_, stream| say(stream, "[\u{1b}[31m<html>")),
        ["does not answer like RabbitMQ", "check that this is the port"],
    );
    let endless_page = note(|_, stream| say_endlessly(stream, "{\"items\":[{\"name\":\"", &"x".repeat(1 << 16)));
    testkit::assert_has(endless_page, ["has over 8,388,608 bytes"]);
    let many_items = note(|_, stream| say_endlessly(stream, "{\"items\":[{}", &",{}".repeat(1 << 16)));
    assert!(many_items.contains("bytes") || many_items.contains("up to 500 objects"), "{many_items}");
    let endless_binding = note(|path, stream| {
        if path.starts_with("/api/bindings") {
            say_endlessly(stream, "[{\"source\":\"", &"x".repeat(1 << 16));
        } else {
            say(stream, "{\"items\":[],\"filtered_count\":0}");
        }
    });
    testkit::assert_has(endless_binding, ["its list of bindings is too long"]);
}

#[test]
fn an_api_that_is_none_or_silent_is_known_before_the_load() {
    let (broker, dir) = &common::broker_in_folder();
    let client = |api: &str| {
        let args =
            ["client", "queue://q", "--url", &broker.url, "--management", api, "--duration", "1", "--no-archive"];
        run(dir, &args)
    };
    let page = server(|_, stream| say(stream, "<html>Welcome</html>"));
    client(&format!("http://{page}"))
        .assert_error(1, &["cannot log in to the management API", "does not answer like RabbitMQ"]);
    let silent = server(|_, _| thread::sleep(common::DEADLINE));
    let begun = Instant::now();
    client(&format!("http://{silent}")).assert_error(1, &["no answer within 10 s"]);
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    let drip = server(|_, stream| {
        while stream.write_all(b"H").is_ok() {
            thread::sleep(Duration::from_millis(100));
        }
    });
    client(&format!("http://{drip}")).assert_error(1, &["cannot log in to the management API"]);
    client("http://127.0.0.1:1").assert_error(1, &["cannot log in", "refused"]);
    client("localhost:15672").assert_error(2, &["--management", "does not begin with http://"]);
    client("http://me:s3cret@localhost:15672")
        .assert_error(2, &["--management", "it contains a login"])
        .says(["--management-user"])
        .says_not(["s3cret"]);
}
