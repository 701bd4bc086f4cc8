//! Verdicts of runs that are limited on purpose, by each limit that there is. Each run has the machine for itself, as
//! far as this file is concerned; what other processes do meanwhile is looked for in the evidence before a verdict is
//! called wrong.

use crate::common;
use crate::common::managed;

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use common::{Broker, bellows, folder, start};
use serde_json::Value;
use testkit::{ChildGuard, Link};

/// Runs that are limited by who gets the cores cannot be beside each other.
static MACHINE: Mutex<()> = Mutex::new(());
/// A machine with other things to do can spoil a run; not every time.
const ATTEMPTS: usize = 3;
const COMMON: &str = "--warmup 300ms --duration 1 --json --quiet --no-archive";

fn machine() -> MutexGuard<'static, ()> {
    MACHINE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn verdict(mut command: Command, dir: &Path) -> Value {
    command.env("XDG_DATA_HOME", dir);
    let object = start(command).end().json();
    object["verdict"].clone()
}

fn produce(dir: &Path, url: &str, more: &str) -> Value {
    verdict(bellows(dir, &common::words(&format!("producer queue://verdict --url {url} {COMMON} {more}"))), dir)
}

/// CPU of processes that are neither broker nor generator, in cores.
fn others(verdict: &Value) -> f64 {
    let e = &verdict["evidence"];
    let number = |value: &Value| value.as_f64().unwrap_or(0.0);
    number(&e["machine_cores"]) * (1.0 - number(&e["idle"]))
        - number(&e["client_cores"])
        - number(&e["broker"]["cores"])
}

/// Runs until the verdict is the one expected, with these words in its sentence. Where it never is,
/// processes that have nothing to do with the test must have taken over half a core, and it must
/// say `undecided` or blame the generator's lack of cores for it.
fn expect(who: &str, words: &[&str], ours: f64, run: impl Fn() -> Value) {
    let mut last = Value::Null;
    for _ in 0..ATTEMPTS {
        last = run();
        let sentence = last["sentence"].as_str().expect("a sentence");
        if last["limited_by"] == who && words.iter().all(|word| sentence.contains(word)) {
            let decided = last["reasons"].as_array().expect("reasons");
            assert!(decided.iter().any(|r| r["decided"] == true), "{last:#}");
            return;
        }
    }
    let disturbed = others(&last) - ours > 0.5;
    let careful = last["limited_by"] == "undecided" || last["limited_by"] == "generator";
    assert!(disturbed && careful, "not {who}, {words:?}: {last:#}");
    eprintln!("not {who} beside other processes: {}", last["sentence"]);
}

/// A process that only uses a core; on request a given one.
fn hog(core: Option<usize>) -> ChildGuard {
    let mut command = core.map_or_else(|| Command::new("sh"), |core| on(core, "sh"));
    ChildGuard(command.args(["-c", "while :; do :; done"]).spawn().expect("a busy process"))
}

fn on(core: usize, program: &str) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", &core.to_string(), program]);
    command
}

fn has_taskset() -> bool {
    Command::new("taskset").arg("-V").output().is_ok_and(|it| it.status.success())
}

#[test]
fn one_message_in_flight_waits_for_its_answer() {
    let _machine = machine();
    let (broker, dir) = &common::broker_in_folder();
    let line = format!(
        "producer queue://verdict --url {} --warmup 300ms --duration 1 --json --max-pending 1 \
         --message-size 64",
        broker.url
    );
    let object = start(bellows(dir, &common::words(&line)).env("XDG_DATA_HOME", dir)).end().json();
    let verdict = &object["verdict"];
    let evidence = &verdict["evidence"];
    assert_eq!((&evidence["in_flight_limit"], &evidence["relay"]), (&1.into(), &Value::Null), "{verdict}");
    assert!(evidence["producers"]["budget"].as_f64() > Some(0.5), "{verdict}");
    assert!(["answer_ns", "idle_answer_ns"].iter().all(|it| evidence[it].as_u64() > Some(0)), "{verdict}");
    assert!(evidence["broker"]["busiest_thread"].is_f64(), "{verdict}");
    // The terminal says the same, and why.
    let figures = common::figures(dir);
    let sentence = verdict["sentence"].as_str().expect("a sentence");
    let because = verdict["reasons"][0]["text"].as_str().expect("a reason");
    assert_eq!(verdict["reasons"][0]["decided"], true, "{verdict}");
    let told = [&*format!("verdict: {sentence}"), &format!(" - {because}")];
    testkit::assert_has(common::words(&figures).join(" "), told);
}

#[test]
fn an_alarm_is_the_brokers() {
    let _machine = machine();
    let dir = &*folder();
    let broker = Broker::with(dir, &["--memory-limit", "1MB"]);
    // Whoever is blocked does not get rid of what it has, however long it is given.
    let text = format!(
        "[broker]\nkind = \"attach\"\nurl = \"{}\"\n[phases]\nwarmup = \"300ms\"\nmeasure = \"1s\"\n\
         drain = \"500ms\"\n[profile]\nevents = []\n[[load]]\ndestination = \"queue://verdict\"\nconsumers = 0\n\
         confirm = false\nmessage-size = 1024\narguments = {{ x-max-length = 1000000 }}\n",
        broker.url
    );
    std::fs::write(dir.join("alarm.toml"), text).expect("an experiment");
    expect("broker", &["connection.blocked"], 0.0, || {
        verdict(bellows(dir, &["run", "alarm.toml", "--json", "--quiet"]), dir)
    });
}

#[test]
fn slow_answers_are_the_brokers() {
    let _machine = machine();
    let dir = &*folder();
    let faults = dir.join("slow.toml");
    std::fs::write(&faults, "[[fault]]\nkind = \"slow-ack\"\ndelay = \"25ms\"\n").expect("a script");
    let faults = faults.to_string_lossy();
    let broker = Broker::with(dir, &["--faults", &faults]);
    let words = ["10 in flight x 2", "waited for something other than CPU"];
    expect("broker", &words, 0.0, || produce(dir, &broker.url, "--max-pending 10 --message-size 64"));
}

#[test]
fn a_real_broker_that_gets_all_it_can_take_is_the_limit() {
    let (dir, node) = &managed::shared!();
    let _machine = machine();
    let broker = node.broker();
    let text = format!(
        "{broker}[phases]\nwarmup = \"1s\"\nmeasure = \"2s\"\n\
         [profile]\nevents = []\n\
         [[load]]\ndestination = \"queue://verdict\"\nqueue-type = \"quorum\"\n\
         max-pending = 500\nmessage-size = 1024\n"
    );
    std::fs::write(dir.join("all-out.toml"), text).expect("an experiment");
    expect("broker", &["confirms"], 0.0, || verdict(bellows(dir, &["run", "all-out.toml", "--json", "--quiet"]), dir));
}

#[test]
fn a_generator_without_a_core_of_its_own_is_the_limit() {
    if cores() < 2 || !has_taskset() {
        testkit::skip!("it takes two cores, and taskset (util-linux)");
    }
    let _machine = machine();
    let (broker, dir) = &common::broker_in_folder();
    let pid = broker.child.id().to_string();
    let mut moved = Command::new("taskset");
    let moved = moved.args(["-acp", "0", &pid]).stdout(Stdio::null());
    assert!(moved.status().is_ok_and(|status| status.success()), "the broker gets a core of its own");
    let _busy = hog(Some(1));
    let words = ["event loop waited", "for a core, while other processes took"];
    expect("generator", &words, 1.0, || {
        let line =
            format!("producer queue://verdict --url {} {COMMON} --max-pending 2000 --message-size 64", broker.url);
        // The least of one core: a few per cent of it.
        let mut command = on(1, "nice");
        command.args(["-n", "15", env!("CARGO_BIN_EXE_bellows")]);
        command.args(line.split_whitespace()).env("BELLOWS_RUNS", common::RUNS).current_dir(dir);
        verdict(command, dir)
    });
}

/// A stopped generator is neither idle nor waiting for a core. Work that became due meanwhile waited for it.
#[test]
fn a_generator_that_is_stopped_for_a_while_is_late_by_itself() {
    let _machine = machine();
    let (broker, dir) = &common::broker_in_folder();
    let words = ["the requested rate was met", "left over 1 ms late, while bellows itself did not run (for "];
    expect("schedule", &words, 0.0, || {
        let line = format!(
            "producer queue://verdict --url {} --warmup 300ms --duration 2 --json --quiet \
             --no-archive --rate 500 --max-pending 1000",
            broker.url
        );
        let started = start(bellows(dir, &common::words(&line)));
        std::thread::sleep(Duration::from_millis(1_200));
        common::stop_for(started.child.id(), Duration::from_millis(400));
        let object = started.end().json();
        let ready = &object["verdict"]["evidence"]["producers"]["ready"];
        assert!(ready.as_f64() > Some(0.1), "{:#}", object["verdict"]);
        object["verdict"].clone()
    });
}

#[test]
fn a_machine_that_others_fill_tells_nothing() {
    let _machine = machine();
    let (broker, dir) = &common::broker_in_folder();
    let hogs = cores() * 2;
    let _busy: Vec<ChildGuard> = (0..hogs).map(|_| hog(None)).collect();
    expect("undecided", &["other processes took"], hogs as f64, || {
        produce(dir, &broker.url, "--max-pending 2000 --message-size 64")
    });
}

fn behind(broker: &Broker, link: Link) -> String {
    format!("amqp://{}", testkit::relay(broker.address().parse().expect("address"), link).expect("relay"))
}

#[test]
fn a_long_way_behind_a_tunnel_is_the_networks() {
    let _machine = machine();
    let (broker, dir) = &common::broker_in_folder();
    let url = behind(broker, Link { delay: Duration::from_millis(15), bandwidth: None });
    let words = ["10 in flight x 3", "back takes 3", "even without load"];
    expect("network", &words, 0.0, || produce(dir, &url, "--max-pending 10 --message-size 64"));
}

#[test]
fn a_tunnel_that_is_full_is_not_taken_for_the_broker() {
    let _machine = machine();
    let (broker, dir) = &common::broker_in_folder();
    let url = behind(broker, Link { delay: Duration::ZERO, bandwidth: Some(1_000_000) });
    let words = ["; bytes stay in", "it passes on no more"];
    expect("network", &words, 0.0, || {
        let found = produce(dir, &url, "--max-pending 500 --message-size 2000");
        assert_eq!(found["evidence"]["broker"], Value::Null, "{found}");
        assert!(found["evidence"]["relay"].is_string(), "{found}");
        found
    });
}

/// A link of 4 Mbit/s: the loopback of a network namespace that is ours alone, slowed down by the kernel (`tc-tbf(8)`).
#[test]
fn a_full_link_is_the_networks() {
    let set_up = "ip link set lo up && tc qdisc add dev lo root tbf rate 4mbit burst 128kb latency 2s";
    let own = |namespaces: &str, script: &str| {
        let mut command = Command::new("unshare");
        command.args([namespaces, "sh", "-c", script]);
        command
    };
    // Root needs no user namespace, which there is none of below a root folder of one's own.
    let works = |namespaces: &&str| {
        let tried = own(namespaces, set_up).stderr(Stdio::null()).status();
        tried.is_ok_and(|status| status.success())
    };
    let Some(namespaces) = ["-n", "-rn"].into_iter().find(works) else {
        testkit::skip!("no network namespace, or no tc (iproute2), for a link of our own");
    };
    let _machine = machine();
    let dir = &*folder();
    let text = "[broker]\nkind = \"embedded\"\n[phases]\nwarmup = \"500ms\"\nmeasure = \"2s\"\n\
                drain = \"1s\"\n[profile]\nevents = []\n\
                [[load]]\ndestination = \"queue://verdict\"\nmax-pending = 500\nmessage-size = 1000\n";
    std::fs::write(dir.join("link.toml"), text).expect("a file");
    expect("network", &["the link is full"], 0.0, || {
        let bellows = env!("CARGO_BIN_EXE_bellows");
        let mut command = own(namespaces, &format!("{set_up} && exec '{bellows}' run link.toml --json --quiet"));
        command.current_dir(dir).env("BELLOWS_RUNS", common::RUNS);
        verdict(command, dir)
    });
}
