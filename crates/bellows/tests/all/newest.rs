//! The newest RabbitMQ in reach: in the directory that `scripts/setup test` makes, or that `BELLOWS_RABBITMQ_ROOT`
//! names. Assertions hold for the version that is found. `make prove` starts further ones, and clusters.

use crate::common;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::managed::{SharedNode, newest_node, newest_root};
use erlang::term::as_bytes;
use serde_json::Value;

const IGNORED: &str = "no directory with the newest RabbitMQ: scripts/setup test makes one, where debootstrap may";

/// A folder with an experiment; ROOT in it is where the newest RabbitMQ is.
fn experiment(root: &Path, text: &str) -> common::Folder {
    let folder = common::folder();
    let text = text.replace("ROOT", &format!("{:?}", root.display().to_string()));
    fs::write(folder.join("newest.toml"), text).expect("write");
    folder
}

/// A node of its own, with mirrored queues.
const MIRRORED: &str = "[broker]\nkind = \"rabbitmq\"\nroot = ROOT\n[[broker.policy]]\npattern = \"^m\"\n\
    definition = { ha-mode = \"all\" }\n";

const ONE: &str = r#"
phases = { warmup = "500ms", measure = "4s" }
[[load]]
destination = "queue://one"
rate = 2000
message-size = 100
"#;

#[test]
fn it_is_loaded_and_profiled_with_whole_stacks() {
    let node = testkit::or_skip!(newest_node().ok_or(IGNORED));
    let folder = experiment(Path::new(""), &format!("{ONE}{}", node.broker()));
    let ended = common::run(&folder, &["run", "newest.toml", "--json", "--quiet"]);
    testkit::skip_for!(ended.may_not_profile());
    let summary = ended.json();
    assert_eq!(summary["broker"]["version"], node.version(), "{summary:#}");
    assert_eq!(summary["scenarios"]["messages"]["ledger"]["lost"], 0, "{summary:#}");
    let record = common::record(&folder);
    assert_eq!(record["topology"]["queues"][0]["name"], "one", "{record:#}");
    assert_whole(&summary);
    // Functions of Erlang, and of the emulator, whose build may have no names of its own.
    common::run(&folder, &["top", "last", "--raw", "--limit", "300"]).ok().prints(["rabbit_channel:", "beam.smp"]);
}

/// The first profile has whole stacks and names.
fn assert_whole(summary: &Value) {
    let profile = &summary["profiles"][0];
    let complete = profile["complete_share"].as_f64().expect("a share");
    let unknown = profile["unknown_share"].as_f64().expect("a share");
    assert!(complete > 0.97 && unknown < 0.01, "{profile:#}");
}

fn amqp10(node: &SharedNode, load: &str) -> common::Ended {
    let text = format!(
        "phases = {{ warmup = \"0s\", measure = \"0s\", drain = \"20s\" }}\nprofile.events = []\n[[load]]\n\
         protocol = \"amqp10\"\ndestination = \"queue://ten\"\ndelete = true\n{load}\n{}",
        node.broker()
    );
    common::run(&experiment(Path::new(""), &text), &["run", "newest.toml", "--json", "--quiet"])
}

/// The summary of a load over AMQP 1.0, and of its ledger how many messages were sent, confirmed and delivered.
fn over_amqp10(node: &SharedNode, load: &str) -> (Value, [Option<u64>; 3]) {
    let summary = amqp10(node, load).json();
    let messages = &summary["scenarios"]["messages"];
    for fault in ["lost", "duplicated", "reordered", "corrupt", "unconfirmed"] {
        let count = &messages["ledger"][fault];
        assert!(count.is_null() || *count == 0, "{fault}: {load}: {summary:#}");
    }
    let counts = ["sent", "completed", "received"].map(|it| messages[it]["total"].as_u64());
    (summary, counts)
}

#[test]
fn it_is_loaded_over_amqp_1_0() {
    let node = testkit::or_skip!(newest_node().ok_or(IGNORED));
    for load in [
        "message-count = 5000\nmax-pending = 1000\nmessage-size = 100",
        "message-count = 3000\nrate = 1500\nmessage-size = 100\nprefetch = 1",
        // More than the broker's credit and window let be on the way, acknowledged by ranges.
        "message-count = 5000\nmax-pending = 2000\nack = 50\npersistent = true\nqueue-type = \"quorum\"",
        "message-count = 3000\nmax-pending = 100\nqueue-type = \"stream\"\nstream-offset = \"first\"\nack = 50",
        // Several frames each, both ways, with more than one client a connection.
        "message-count = 300\nmax-pending = 20\nmessage-size = 300_000\nproducers = 3\nconsumers = \
         2\nproducer-connections = 1\n\
         consumer-connections = 1",
        "message-count = 3000\nmax-pending = 100\nack = \"auto\"\nmessage-ids = true\ntimestamps = true\n\
         properties = { correlation-id = \"c\" }\nheaders = { k = 1 }",
    ] {
        let count = load[16..].split('\n').next().and_then(|it| it.parse().ok());
        let (summary, counts) = over_amqp10(&node, load);
        assert_eq!(counts, [count; 3], "{load}: {summary:#}");
    }
    // Nobody answers.
    let load = "message-count = 4000\nconfirm = false\nmessage-size = 100";
    let (summary, counts) = over_amqp10(&node, load);
    assert_eq!(counts, [Some(4000), Some(0), Some(4000)], "{summary:#}");
    // Released: there is no queue behind the exchange.
    let load = "message-count = 500\nmax-pending = 10\nexchange = { name = \"amq.direct\" }\nbind = false";
    let (summary, counts) = over_amqp10(&node, load);
    assert_eq!(counts, [Some(500), Some(500), Some(0)], "{summary:#}");
    assert_eq!(summary["scenarios"]["messages"]["ledger"]["returned"], 500, "{summary:#}");
    // What a selector leaves out is not known, and not lost.
    for (colour, received) in [("red", 300), ("blue", 0)] {
        let load = format!(
            "message-count = 300\nmax-pending = 100\nqueue-type = \"stream\"\nstream-offset = \"first\"\nack = 50\n\
             headers = {{ colour = \"red\" }}\nselector = \"a.colour = '{colour}'\""
        );
        let (summary, counts) = over_amqp10(&node, &load);
        assert_eq!(counts, [Some(300), Some(300), Some(received)], "{summary:#}");
        assert!(summary["scenarios"]["messages"]["ledger"].is_null(), "{summary:#}");
    }
    // Rejected: the queue takes ten.
    let load = "message-count = 500\nmax-pending = 1\nconsumers = 0\n\
                arguments = { x-max-length = 10, x-overflow = \"reject-publish\" }";
    let (summary, _) = over_amqp10(&node, load);
    assert_eq!(summary["scenarios"]["messages"]["completed"]["total"], 10, "{summary:#}");
}

/// The built-in experiment `matched`, on nodes of its own.
#[test]
#[ignore = "starts of its own: make prove"]
fn a_matched_run_of_either_protocol_is_complete_and_says_its_limits() {
    let root = testkit::or_skip!(newest_root().ok_or(IGNORED)).display().to_string();
    let folder = common::folder();
    for protocol in ["amqp091", "amqp10"] {
        let protocol_key = format!("load.0.protocol={protocol}");
        let lengths = ["--set", "phases.warmup=1s", "--set", "phases.measure=2s", "--no-profile", "--json", "--quiet"];
        let args = [&["run", "matched", "--broker-root", &root, "--set", &protocol_key][..], &lengths].concat();
        let summary = common::start(common::bellows(&folder, &args)).end_of_long().json();
        assert_eq!(summary["scenarios"]["messages"]["ledger"]["lost"], 0, "{summary:#}");
        let shown = common::run(&folder, &["runs", "show", "-v", "last"]).stdout;
        assert_eq!(shown.contains("max_link_credit"), protocol == "amqp10", "{shown}");
    }
}

#[test]
fn what_amqp_1_0_cannot_reach_is_told() {
    let node = testkit::or_skip!(newest_node().ok_or(IGNORED));
    amqp10(&node, "declare = false").assert_error(1, &["/queues/ten", "amqp:not-found"]).says(["declare the queue"]);
    amqp10(&node, "selector = \"a = 1\"").assert_error(2, &["selectors of queues", "selector"]);
    amqp10(&node, "commit-every = 10").assert_error(2, &["RabbitMQ has none over AMQP 1.0", "commit-every"]);
}

const REFUSED: &str = r#"
phases = { warmup = "0s", measure = "2s" }
profile.events = []
[[load]]
destination = "queue://transient"
durable = false
channel-prefetch = 50
rate = 500
delete = true
"#;

/// Features that RabbitMQ removes step by step: transient queues are refused on this node, as one day by default.
#[test]
fn what_it_no_longer_permits_is_replaced_and_told() {
    let node = testkit::or_skip!(newest_node().ok_or(IGNORED));
    let folder = experiment(Path::new(""), &format!("{REFUSED}{}", node.broker()));
    let summary = common::run(&folder, &["run", "newest.toml", "--json", "--quiet"]).json();
    let messages = &summary["scenarios"]["messages"];
    assert_eq!(messages["ledger"]["lost"], 0, "{summary:#}");
    let counts = ["sent", "received"].map(|it| messages[it]["total"].as_u64());
    assert!(counts[0] > Some(900) && counts[0] == counts[1], "{summary:#}");
    let told = common::named(&summary["warnings"], "code", "not_permitted");
    assert_eq!(told["values"]["feature"], "transient_nonexcl_queues");
    let record = common::record(&folder);
    assert_eq!(record["topology"]["queues"][0]["durable"], true, "{record:#}");

    // As an old command line has them.
    let old = ["perf-test", "--uri", &node.url(), "-z", "1", "-r", "200", "-u", "old"];
    common::run(&folder, &old).ok().prints(["received: "]);
}

const CLUSTER: &str = r#"
name = "newest"
phases = { warmup = "500ms", measure = "12s", drain = "30s" }
profile.events = []
broker = { kind = "rabbitmq", root = ROOT, nodes = 3 }
fault = [{ at = "500ms", kind = "kill", node = 1, for = "500ms" }]
[[load]]
destination = "queue://quorum"
queue-type = "quorum"
persistent = true
producers = 3
consumers = 3
rate = 100
max-pending = 200
message-size = 100
ack = 20
nodes = "all"
recover = "100ms-400ms"
"#;

/// Each node of RabbitMQ 4 starts another one to ask the others by, while it joins them.
#[test]
#[ignore = "a cluster of its own: make prove"]
fn three_nodes_are_one_cluster_and_one_of_them_may_be_killed() {
    let root = testkit::or_skip!(newest_root().ok_or(IGNORED));
    let folder = experiment(&root, CLUSTER);
    let args = ["run", "newest.toml", "--json", "--quiet"];
    let summary = common::start(common::bellows(&folder, &args)).end_of_long().json();
    assert_eq!(summary["scenarios"]["messages"]["ledger"]["lost"], 0, "{summary:#}");
    let nodes = summary["nodes"].as_array().expect("nodes");
    assert_eq!(nodes.len(), 3, "{summary:#}");
    let fault = &summary["faults"][0];
    assert!(fault["node"] == 1 && fault["back_s"].is_number(), "{fault:#}");
}

#[test]
fn mirrored_queues_are_refused_before_anything_is_started() {
    let root = testkit::or_skip!(newest_root().ok_or(IGNORED));
    let folder = experiment(&root, &format!("{ONE}{MIRRORED}"));
    common::run(&folder, &["run", "newest.toml"])
        .assert_error(1, &["no classic mirrored queues", "ha-mode"])
        .says(["quorum"])
        .says_not(["starting"]);
}

const PREPARED: &str = r#"
name = "prepared"
phases = { warmup = "0s", measure = "1s" }
profile.events = []
broker = { kind = "rabbitmq", data = "prepare", data-dir = "kept" }
prepare = [{ destination = "queue://log", queue-type = "stream", fill = 1000 }]
[[load]]
destination = "queue://log"
queue-type = "stream"
producers = 0
stream-offset = "first"
"#;

/// RabbitMQ upgrades in steps: its own reason for refusing a larger one is shown.
#[test]
#[ignore = "starts of its own: make prove"]
fn a_copy_of_data_that_rabbitmq_does_not_upgrade_is_refused_with_its_own_reason() {
    let root = testkit::or_skip!(newest_root().ok_or(IGNORED));
    if !Path::new("/usr/lib/rabbitmq/lib/rabbitmq_server-3.10.8").exists() {
        testkit::skip!("the machine's RabbitMQ is not 3.10.8, of which 4 is no upgrade");
    }
    let folder = experiment(&root, PREPARED);
    let args = ["ab", "newest.toml", "--pairs", "2", "--b", &format!("rabbitmq@{}", root.display())];
    common::start(common::bellows(&folder, &args))
        .end_of_long()
        .assert_error(1, &["RabbitMQ 4.", "does not start on a copy", "RabbitMQ 3.10.8"])
        .says(["feature flag"]);
    // By itself it prepares its own, and begins with that.
    let args = ["run", "newest.toml", "--broker-root", &root.display().to_string(), "--json", "--quiet"];
    let summary = common::start(common::bellows(&folder, &args)).end_of_long().json();
    assert_eq!(summary["scenarios"]["messages"]["received"]["total"], 1000, "{summary:#}");
}

/// A release with trace sessions answers bellows' requests, and keeps nothing of them.
#[test]
fn its_erlang_node_is_asked_and_keeps_nothing() {
    let node = testkit::or_skip!(newest_node().ok_or(IGNORED));
    let dir = &*common::folder();
    let url = node.url();
    let line =
        format!("client queue://asked --rate 300 --max-pending 50 --duration 600 --url {url} --quiet --no-archive");
    let load = common::start(common::bellows(dir, &common::words(&line)));
    let ask = |command: &str, arguments: &[&str]| node.inspect(dir, command, arguments).ok();
    let before = traces(&node);
    let queues = || ask("queues", &["--fresh", "5s", "--json"]).json();
    common::wait_for("the load's consumer", || queues()["rows"][0]["consumers"] == 1);

    let top = ask("top", &["--json", "--count", "1", "--every", "500ms"]).json();
    for role in ["queue", "channel", "connection"] {
        common::named(&top["processes"], "role", role);
    }
    ask("alloc", &["--for", "200ms"]).prints(["eheap_alloc", "resident (RSS)"]);
    let trace = ["rabbit_channel:handle_method/3", "--limit", "3", "--returns", "--durations"];
    ask("trace", &trace).prints(["rabbit_channel:handle_method("]);
    let modules = ["rabbit_channel", "rabbit_amqqueue_process", "--for", "2s"];
    ask("calls", &[&modules[..], &["-o", "calls.svg"]].concat()).prints(["rabbit_channel:handle_method/3"]);
    testkit::assert_has(fs::read_to_string(dir.join("calls.svg")).expect("a picture"), ["rabbit_channel"]);
    ask("memory", &modules).prints(["rabbit_channel:handle_method/3", "words/call"]);

    let info = ask("info", &["--json"]).json();
    assert_eq!(info["rabbitmq"], node.version(), "{info:#}");
    assert_eq!(info["bellows_modules"], Value::Array(Vec::new()), "{info:#}");
    assert_eq!(traces(&node), before);
    load.signal("INT");
    load.end();
}

fn traces(node: &SharedNode) -> String {
    let link = erlang::Node::connect(&node.erlang()).expect("a connection");
    let text = link.evaluate(Duration::from_secs(20), TRACES).expect("an answer");
    String::from_utf8_lossy(as_bytes(&text).expect("text")).into_owned()
}

/// Processes with trace flags, functions with counters, and trace sessions of this node.
const TRACES: &str = r#"
Traced = [Pid || Pid <- processes(), {flags, [_ | _]} <- [erlang:trace_info(Pid, flags)]],
Counted = [M || M <- [rabbit_channel, rabbit_amqqueue_process],
                {F, A} <- M:module_info(functions),
                {all, [_ | _]} <- [erlang:trace_info({M, F, A}, all)]],
_ = code:ensure_loaded(trace),
Sessions = case erlang:function_exported(trace, session_info, 1) of
               true -> trace:session_info(all);
               false -> []
           end,
unicode:characters_to_binary(io_lib:format("~0tp", [Traced ++ Counted ++ Sessions])).
"#;

/// Programs of the newest Erlang that are no RabbitMQ, with its map of names and without: in this directory, started
/// so.
fn assert_profiled(command: &[&str], file: &str, source: &str, function: &str) {
    let root = testkit::or_skip!(newest_root().ok_or(IGNORED));
    if !rustix::process::geteuid().is_root() || !root.join(command[0].trim_start_matches('/')).exists() {
        testkit::skip!("not root, or {} is not in {}", command[0], root.display());
    }
    let folder = common::folder();
    let inside = tempfile::tempdir_in(root.join("tmp")).expect("a folder in the root");
    fs::write(inside.path().join(file), source).expect("a program");
    let name = inside.path().file_name().expect("a name");
    for flags in ["+S 1:1", "+S 1:1 +JPperf map"] {
        let mut program = Command::new("chroot");
        program.arg(&root).args(command);
        program.env("ERL_FLAGS", flags).env("FOLDER", Path::new("/tmp").join(name));
        let mut node = program.stdout(Stdio::piped()).stdin(Stdio::null()).spawn().expect("chroot");
        let mut lines = BufReader::new(node.stdout.take().expect("output")).lines();
        let is_ready = lines.any(|line| line.is_ok_and(|it| it == "@ready"));
        let pid = node.id().to_string();
        let ended = common::run(&folder, &["record", "--pid", &pid, "--duration", "1", "--json", "--quiet"]);
        node.kill().expect("it runs");
        node.wait().expect("its end");
        // The JIT leaves its map there.
        let _ = fs::remove_file(root.join(format!("tmp/perf-{pid}.map")));
        assert!(is_ready, "{command:?}: {ended:#?}");
        testkit::skip_for!(ended.may_not_profile());
        assert_whole(&ended.json());
        let rows = common::run(&folder, &["top", "last", "--sort", "total", "--grep", function, "--json"]).json();
        let share = rows["functions"][0]["total"].as_f64().expect("a share");
        assert!(share > 0.9, "{flags}: {function} {share} in {rows:#}");
    }
}

#[test]
fn a_plain_program_of_its_erlang_is_profiled_with_whole_stacks() {
    let run = "{ok, Module, Beam} = compile:file(os:getenv(\"FOLDER\") ++ \"/busy\", [binary]), \
               {module, Module} = code:load_binary(Module, \"busy\", Beam), Module:run().";
    let erl = ["/usr/bin/erl", "-noshell", "-eval", run];
    let source = include_str!("newest/busy.erl");
    assert_profiled(&erl, "busy.erl", source, r"^\$busy:loop/2$");
}

#[test]
fn a_program_of_elixir_is_profiled_with_whole_stacks() {
    let elixir = ["/usr/bin/elixir", "-e", "Code.eval_file(System.get_env(\"FOLDER\") <> \"/busy.exs\")"];
    let source = include_str!("newest/busy.exs");
    assert_profiled(&elixir, "busy.exs", source, r"^\$'?Elixir\.Busy'?:loop/2$");
}
