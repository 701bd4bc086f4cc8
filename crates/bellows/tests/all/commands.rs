//! `[[load]]` with `kind = "command"`: other programs as the load, and Artemis under its own.

use crate::common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use stacks::{FrameKind, Profile};

use common::capture::Capture;
use common::{Ended, Started};

fn start(dir: &Path, experiment: &str) -> Started {
    fs::write(dir.join("it.toml"), experiment).expect("write");
    common::start(common::bellows(dir, &["run", "it.toml"]))
}

fn run(dir: &Path, experiment: &str) -> Ended {
    start(dir, experiment).end()
}

fn record(folder: &Path) -> Value {
    common::read_json(&folder.join("run.json"))
}

fn log(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(name)).expect(name)
}

fn experiment(commands: &[&str]) -> String {
    let head = "name = 'x'\nbroker.kind = 'embedded'\nphases = { warmup = '1s', measure = '2s', drain = '1s' }\n";
    let load = |command: &&str| format!("[[load]]\nkind = 'command'\ncommand = {command}\n");
    head.to_owned() + &commands.iter().map(load).collect::<String>()
}

/// An experiment whose load is a script of `sh`, without double quotes in it.
fn script(text: &str) -> String {
    experiment(&[&format!("['sh', '-c', \"{text}\"]")])
}

fn is_gone(pid: u64) -> bool {
    !Path::new(&format!("/proc/{pid}")).exists()
}

/// Waits for a file with the number of a process.
fn number(file: PathBuf) -> u64 {
    let read = || fs::read_to_string(&file).ok()?.trim().parse().ok();
    common::wait_for("number of a process", || read().is_some());
    read().expect("a number")
}

#[test]
fn programs_run_until_the_measured_phase_ends_and_count_as_the_generator() {
    let dir = &*common::folder();
    // The first ends after the second, and stands before it.
    let busy = "['sh', '-c', 'trap \"times; sleep 0.3; exit 3\" TERM; echo at {host}:{port} of {url}; while :; do :; \
                done']";
    let ended = run(dir, &experiment(&[busy, "['sleep', '600']"])).ok();
    let folder = common::only_run(dir);
    let said = log(&folder, "load-0.log");
    assert!(said.starts_with("at 127.0.0.1:"), "{said}");
    assert!(said.contains("of amqp://guest@127.0.0.1:"), "{said}");
    assert_eq!(log(&folder, "load-1.log"), "");
    let record = record(&folder);
    let programs = &record["summary"]["programs"];
    assert_eq!(programs[0]["status"], "asked to end: exit status 3");
    assert_eq!(programs[1]["status"], "asked to end: signal 15");
    assert_eq!(programs[1]["command"], "sleep 600");
    let measured = common::named(&record["phases"], "phase", "measure");
    let second = |key| measured[key].as_f64().expect(key);
    let length = second("end") - second("start");
    assert!((length - 2.0).abs() < 0.3, "{length}");
    // It got what others left of the cores, and says how much that was.
    let client = record["summary"]["cpu_cores"]["client"].as_f64();
    let used = said.lines().nth(1).and_then(|it| it.split(['m', 's']).nth(1));
    let used: f64 = used.expect("times").parse().expect("seconds");
    let counts = used > 0.0 && client.is_some_and(|cores| cores * length > used / 4.0);
    assert!(counts, "the busy program's time counts: {client:?} of {used} s");
    // What bellows has no figures of is not shown as none.
    ended.prints(["2 programs for 2 s", "load-0.log"]).prints_not(["msg/s"]);
}

#[test]
fn a_program_that_fails_or_does_nothing_fails_the_run() {
    // What it has started says why after its end.
    let fails =
        "{ trap : TERM; sleep 600 & wait; printf 'the \\\\033[31mdisk\\\\007 is on fire'; } & sleep 1.5; exit 7";
    for (load, parts) in [
        (script(fails), ["sh failed", "exit status 7", "is on fire"]),
        (experiment(&["['true']"]), ["before anything was measured", "warm-up", ""]),
        (experiment(&["['no-such-program']"]), ["no-such-program cannot be started", "PATH", ""]),
        (experiment(&["['/etc/passwd']"]), ["/etc/passwd cannot be started", "ermission denied", ""]),
    ] {
        let dir = &*common::folder();
        let ended = run(dir, &load).ends(1);
        let said = ended.stdout.clone() + &ended.stderr;
        testkit::assert_has(&said, parts);
        if parts[1] == "exit status 7" {
            let record = common::record(dir);
            assert_eq!(record["summary"]["programs"][0]["status"], "exit status 7");
            assert_eq!(record["problem"]["log"], "the \u{1b}[31mdisk\u{7} is on fire");
        }
        // Nothing of it reaches the terminal as it is.
        assert!(!said.contains(['\u{1b}', '\u{7}']), "{ended:#?}");
    }
}

#[test]
fn a_program_that_ends_in_order_ends_the_run() {
    let dir = &*common::folder();
    // The first leads a process group, and has a child go on in its place.
    run(dir, &experiment(&["['setsid', 'sleep', '2.3']", "['sleep', '1.2']"])).ok().prints(["exit status 0"]);
    // It is whole, and says that it is short.
    let short = ["note: the load ended by itself after ", "note: the program of load 1 ended by itself after "];
    testkit::assert_has(common::figures(dir), short);
    let record = common::record(dir);
    assert_eq!(record["state"], "complete");
    assert_eq!(record["summary"]["programs"][0]["status"], "exit status 0");
    assert_eq!(record["experiment"]["load"][1]["command"], serde_json::json!(["sleep", "1.2"]));
}

#[test]
fn a_load_that_is_stopped_in_its_drain_is_not_whole() {
    let dir = &*common::folder();
    let started = start(dir, &script("trap 'echo $$ > asked' TERM; while :; do sleep 0.1; done"));
    number(dir.join("asked"));
    started.signal("INT");
    let ended = started.end();
    assert_eq!(common::record(dir)["state"], "interrupted", "{ended:#?}");
}

#[test]
fn a_program_that_floods_and_does_not_want_to_end_is_bounded_and_killed() {
    let dir = &*common::folder();
    let flood = "trap '' TERM; (trap '' TERM; exec sleep 600) & echo $! > child; echo first; while :; do echo \
                 yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy; done";
    // It takes a core for as long as it lasts.
    let short = script(flood).replace("warmup = '1s', measure = '2s'", "warmup = 0, measure = '1s'");
    let ended = run(dir, &short).ok();
    assert!(ended.took < Duration::from_secs(40), "{:?}", ended.took);
    let folder = common::only_run(dir);
    let said = log(&folder, "load-0.log");
    assert!(said.starts_with("first\nyyy"));
    assert!(said.contains("bytes are left out]"));
    assert!(said.len() < 600_000, "{}", said.len());
    assert_eq!(record(&folder)["summary"]["programs"][0]["status"], "killed: it did not end when asked");
    assert!(is_gone(number(dir.join("child"))));
}

/// A shell died of the signal at once, and its children were killed before they could print their summary.
#[test]
fn what_a_shell_has_started_says_its_last_words() {
    let dir = &*common::folder();
    // What ended and is collected by nobody keeps no load waiting.
    let slow = "(sleep 0.01 &); (trap 'sleep 0.5; echo last; exit' TERM; echo first; sleep 600 & wait); true";
    let stubborn = "(trap '' TERM; exec sleep 600) & echo $! > child; true";
    let abandons = "(true &); (true &); sleep 0.5; grep -l ') Z '$PPID' ' /proc/[0-9]*/stat > zombies; true";
    // In a group or a session of its own, or before what passes its words on. A shell names a child that is ended, if
    // it is not behind it.
    let says = "#!/bin/sh\ntrap 'sleep 0.3; echo last; exit' TERM\necho first\nsleep 600 >/dev/null &\nwait\n";
    let file = dir.join("says");
    fs::write(&file, says).expect("write");
    fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).expect("permissions");
    let scripts = [slow, stubborn, abandons, "timeout 600 ./says; true", "setsid ./says; true", "./says | tee copy"];
    let loads = scripts.map(|script| format!("['sh', '-c', \"{script}\"]"));
    run(dir, &experiment(&loads.each_ref().map(String::as_str))).assert_ok();
    let folder = common::only_run(dir);
    for load in [0, 3, 4, 5] {
        assert_eq!(log(&folder, &format!("load-{load}.log")), "first\nlast\n", "load {load}");
    }
    assert_eq!(log(dir, "copy"), "first\nlast\n");
    assert_eq!(log(dir, "zombies"), "");
    let programs = &record(&folder)["summary"]["programs"];
    assert_eq!(programs[0]["status"], "asked to end: signal 15");
    assert_eq!(programs[1]["status"], "exit status 0; its child processes did not end and were killed");
    assert!(is_gone(number(dir.join("child"))));
}

#[test]
fn a_load_does_not_outlive_bellows() {
    for (signal, kept) in [("INT", true), ("KILL", false)] {
        let dir = &*common::folder();
        let load = "setsid sleep 600 & echo $! > far; echo $$ > near; echo here; exec sleep 600";
        let started = start(dir, &script(load));
        let processes = [number(dir.join("far")), number(dir.join("near"))];
        if kept {
            common::wait_for("measured second", || common::seconds_recorded(dir) > 1);
        }
        started.signal(signal);
        let ended = started.end();
        common::wait_for("end of the load", || processes.into_iter().all(is_gone));
        if kept {
            assert_eq!(log(&common::only_run(dir), "load-0.log"), "here\n", "{ended:#?}");
        }
    }
}

/// Where `scripts/setup artemis` puts it.
pub(crate) fn artemis() -> Result<PathBuf, &'static str> {
    let home = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.tools/artemis").canonicalize();
    let home = home.ok().filter(|home| home.join("lib/artemis-boot.jar").exists());
    home.ok_or("no Artemis; scripts/setup artemis")
}

fn run_artemis(dir: &Path, arguments: &[&str]) -> Ended {
    let mut command = common::bellows(dir, arguments);
    // Where its directory is made.
    command.env("TMPDIR", dir);
    if let Ok(home) = artemis() {
        command.env("ARTEMIS_HOME", home);
    }
    common::start(command).end_of_long()
}

/// An experiment that comes with bellows.
fn experiment_file(name: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments").join(format!("{name}.toml"));
    fs::read_to_string(file).expect("an experiment")
}

fn brokers_left(dir: &Path) -> usize {
    let entries = fs::read_dir(dir).expect("read").flatten();
    let names = entries.map(|entry| entry.file_name());
    names.filter(|name| name.to_string_lossy().starts_with("bellows-")).count()
}

#[test]
fn artemis_runs_under_its_own_load_and_its_profile_is_whole() {
    testkit::or_skip!(artemis());
    let dir = &*common::folder();
    // At a rate that leaves the JVM's compilers cores. Code that was replaced stays until it has a name: on a full
    // machine it would be gone before.
    let text =
        experiment_file("artemis-perf").replace("\"--show-latency\",", "\"--show-latency\", \"--rate\", \"3000\",");
    assert!(text.contains("--rate"), "{text}");
    fs::write(dir.join("perf.toml"), text).expect("write");
    let kept = "broker.java-args=['-XX:+IgnoreUnrecognizedVMOptions','-XX:-MethodFlushing']";
    let line = format!("run perf.toml --set phases.warmup=5s --set phases.measure=5s --set {kept}");
    let ended = run_artemis(dir, &common::words(&line)).ok();
    let folder = common::only_run(dir);
    let record = record(&folder);
    testkit::assert_begins(record["versions"]["broker"].as_str().expect("a broker"), "ActiveMQ Artemis 2.");
    testkit::assert_has(log(&folder, "load-0.log"), ["--- received:"]);
    // Nothing of it is left: killed by now, and collected in a moment.
    let pid = record["summary"]["broker"]["pid"].as_u64().expect("a process");
    common::wait_for("end of Artemis", || is_gone(pid));
    assert_eq!(brokers_left(dir), 0);
    let profile = testkit::or_skip!(Profile::open(&folder).map_err(|_| &ended.stderr));
    let summary = profile.summary(20);
    assert!(summary.samples > 300, "{summary:?}");
    assert!(summary.complete_share >= 0.9, "{summary:?}");
    assert!(summary.unknown_share < 0.1, "{summary:?}");
    let of_artemis = profile
        .frames
        .iter()
        .filter(|frame| frame.kind == FrameKind::Java && frame.name.starts_with("org.apache.activemq.artemis."));
    assert!(of_artemis.count() > 20);
}

/// An option of the JVM, which then compiles once and quickly: in a test, better code costs more than it saves.
const QUICK: &str = "'-XX:TieredStopAtLevel=1'";

/// Its messages wait in the journal for a consumer that comes after the kill.
const KEPT: &str = "
[[load]]
destination = 'queue://KEPT'
persistent = true
rate = 250
max-pending = 50
message-count = 3_000
message-size = 1024
consumer-start-delay = '10s'
";

/// Queues by transactions and subscriptions of topics, each to the last message: two experiments' loads at one broker,
/// and one over its death. Wireshark reads all that was sent there.
#[test]
fn artemis_is_loaded_over_amqp_1_0_and_loses_nothing_durable_when_it_is_killed() {
    testkit::or_skip!(artemis());
    let dir = &*common::folder();
    let capture = Capture::start(dir);
    let loads = ["artemis-one-to-one", "artemis-durable-topics"]
        .map(|name| experiment_file(name).split_once("[[load]]").expect("a load").1.to_owned());
    let head = "phases = { warmup = 0, measure = 0, drain = '30s' }\nprofile.events = []\n\
                fault = [{ at = '5s', kind = 'kill', for = '500ms' }]\n";
    let broker = format!("broker = {{ kind = 'artemis', java-args = [{QUICK}] }}\n");
    let text = format!("{broker}{head}[[load]]{}\n[[load]]{}{KEPT}", loads[0], loads[1]);
    fs::write(dir.join("all.toml"), text).expect("write");
    let line = "run all.toml --json --quiet --set load.0.message-count=2000 --set \
                load.1.rate=1500 --set load.1.message-count=3000 --set load.0.commit-every=10 --set \
                load.0.consumer-commit-every=7 --set load.0.persistent=true";
    let recover = (0..3).map(|load| format!("--set load.{load}.recover=100ms-400ms"));
    let line = [line.to_owned()].into_iter().chain(recover).collect::<Vec<_>>().join(" ");
    let summary = run_artemis(dir, &common::words(&line)).json();
    let fault = &summary["faults"][0];
    assert!(fault["back_s"].is_number() && fault["first_confirm_s"].is_number(), "{fault:#}");
    let messages = &summary["scenarios"]["messages"];
    let total = |key: &str| messages[key]["total"].as_u64().expect("a total");
    let count = |key: &str| messages["ledger"][key].as_u64().expect("a count");
    // Each message of a topic goes to both of its subscribers.
    assert_eq!((total("sent"), count("sent")), (8_000, 2_000 + 2 * 3_000 + 3_000), "{messages:#}");
    // Artemis' own counts of its queues say that it holds nothing more. It does not flag what it delivers again.
    for fault in ["lost", "outstanding", "returned", "reordered", "corrupt", "foreign"] {
        assert_eq!(count(fault), 0, "{fault}: {messages:#}");
    }
    assert_eq!(count("sent"), count("delivered") + count("unconfirmed_missing"), "{messages:#}");
    let again = count("duplicated") + count("duplicated_redelivered");
    assert_eq!(total("received"), count("delivered") + again, "{messages:#}");
    // Those in flight at the kill have no answer: windows of a transaction, of 30 producers, and of the last one.
    let unanswered = 8_000 - total("completed");
    assert!(unanswered <= 10 + 30 * 100 + 50 && count("unconfirmed_missing") <= 2 * unanswered, "{messages:#}");
    let sent = testkit::or_skip!(capture).end("dst port");
    // The producer's 200 transactions are declared and committed by transfers, too, and the consumer's.
    assert!(sent.errors.is_empty() && sent.transfers > 8_400, "{sent:#?}");
}

/// Debian's Python, for which `scripts/setup test` installs qpid-proton.
const PYTHON: &str = "/usr/bin/python3";

/// Artemis' configuration of a login by SCRAM.
const LOGIN: &str = "
scram {
  org.apache.activemq.artemis.spi.core.security.jaas.SCRAMPropertiesLoginModule required
    org.apache.activemq.jaas.properties.user='users.properties'
    org.apache.activemq.jaas.properties.role='roles.properties';
};
";
/// A port where Artemis lets in who proves the password.
const ACCEPTOR: &str = "\
acceptorConfigurations.scram.factoryClassName=org.apache.activemq.artemis.core.remoting.impl.netty.NettyAcceptorFactory
acceptorConfigurations.scram.params.host=127.0.0.1
acceptorConfigurations.scram.params.port={port}
acceptorConfigurations.scram.params.protocols=AMQP
acceptorConfigurations.scram.params.saslMechanisms=SCRAM-SHA-256
acceptorConfigurations.scram.params.saslLoginConfigScope=scram
";

/// Has Artemis listen for logins by SCRAM, too: its port, and the option that makes Artemis read the files.
fn scram(dir: &Path) -> (u16, String) {
    let port = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound").port();
    for (name, text) in [
        ("login.config", LOGIN.replace('\'', "\"")),
        ("users.properties", "me = secret\n".to_owned()),
        ("roles.properties", "amq = me\n".to_owned()),
        ("acceptor.properties", ACCEPTOR.replace("{port}", &port.to_string())),
    ] {
        fs::write(dir.join(name), text).expect("write");
    }
    let dir = dir.display();
    let login = format!("-Djava.security.auth.login.config={dir}/login.config");
    (port, format!("broker.java-args=[{QUICK}, '{login}', '-Dbroker.properties={dir}/acceptor.properties']"))
}

/// A command line of `artemis perf`, after messages of several frames have gone through another client, there and back,
/// and others over a login by SCRAM.
#[test]
fn artemis_own_command_lines_load_artemis() {
    testkit::or_skip!(artemis());
    let dir = &*common::folder();
    let (port, java) = scram(dir);
    fs::write(dir.join("relay.py"), include_str!("commands/relay.py")).expect("write");
    let bellows = env!("CARGO_BIN_EXE_bellows");
    let client = format!("{bellows} client --url {{url}} --protocol amqp10 --no-archive --quiet");
    // Artemis would make both for the first link.
    let refused = ["queue", "topic"]
        .map(|kind| format!("! {client} --no-declare --duration 1 {kind}://absent 2>>refused.txt && "))
        .concat();
    // A drain of 10 s ends where deliveries pause: none of these comes.
    let selected = format!("timeout 11 {client} --selector 1=2 --rate 100 --duration 1 queue://selected && ");
    let proving = |password| {
        let url = format!("amqp://me:{password}@127.0.0.1:{port}");
        format!("{} --auth scram-sha-256 --message-count 100 queue://proved", client.replace("{url}", &url))
    };
    let proved = format!("! {} 2>>refused.txt && {} --json >proved.json && ", proving("wrong"), proving("secret"));
    let client = format!("{client} queue://relay");
    let relayed = format!(
        "{client} --consumers 0 --max-pending 10 --message-count 20 --message-size 300000 && {PYTHON} relay.py {{url}} \
         relay 20 300000 && {client} --producers 0 --duration 1 --json >relayed.json &&"
    );
    let imports = std::process::Command::new(PYTHON).args(["-c", "import proton"]).output();
    let has_proton = imports.is_ok_and(|it| it.status.success());
    let command = format!(
        "load.0.command=['sh', '-c', '{refused}{selected}{proved}{} exec {bellows} artemis perf client \
         --url tcp://{{host}}:{{port}} --tx --commit-interval 10 --duration 2 --runs inner queue://TEST_QUEUE']",
        if has_proton { &relayed } else { "" }
    );
    // The program ends before.
    let lengths = ["--set", "phases.warmup=1s", "--set", "phases.measure=60s", "--set", "profile.events=[]"];
    run_artemis(dir, &[&["run", "artemis-perf", "--set", &command, "--set", &java][..], &lengths].concat()).assert_ok();
    let said = log(&common::only_run(dir), "load-0.log");
    testkit::assert_has(said, ["AMQP 1.0 is used instead", "--- received:"]);
    let refused = fs::read_to_string(dir.join("refused.txt")).expect("refusals");
    testkit::assert_has(
        refused,
        ["cannot use queue://absent", "cannot use topic://absent", "it does not exist", "wrong user or password"],
    );
    let proved = common::read_json(&dir.join("proved.json"));
    assert_eq!(proved["scenarios"]["messages"]["received"]["total"].as_u64(), Some(100), "{proved:#}");
    if !has_proton {
        testkit::skip!("no qpid-proton for {PYTHON}; scripts/setup test");
    }
    let relayed = common::read_json(&dir.join("relayed.json"));
    let messages = &relayed["scenarios"]["messages"];
    // Those with the header that fits their length have a latency.
    let counts = [&messages["received"]["total"], &messages["latency"]["end_to_end"]["count"]];
    assert_eq!(counts.map(Value::as_u64), [Some(20); 2], "{messages:#}");
}

#[test]
fn an_artemis_that_does_not_start_says_why_and_leaves_nothing() {
    let dir = &*common::folder();
    run_artemis(dir, &["run", "artemis-perf", "--set", "broker.root=nowhere"])
        .assert_error(1, &["no ActiveMQ Artemis found", "nowhere/lib"]);
    testkit::or_skip!(artemis());
    run_artemis(dir, &["run", "artemis-perf", "--set", "broker.java-args=['-XX:NoSuchOption']"])
        .assert_error(1, &["ActiveMQ Artemis ended while it started"])
        .says(["NoSuchOption"]);
    assert_eq!(brokers_left(dir), 0);
    assert!(!dir.join(common::RUNS).exists(), "no run was made");
}
