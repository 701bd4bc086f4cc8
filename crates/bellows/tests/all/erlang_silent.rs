//! `bellows erlang …` on a node that hangs, and on Ctrl-C: messages, their time, and exit codes.

use crate::common;

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use common::{Ended, Started, bellows, folder, start};
use serde_json::Value;

/// Far longer than any command may take here.
const WINDOW: &str = "60s";
/// Delay of a busy machine beyond the time-out.
const BESIDE: Duration = Duration::from_secs(10);

/// Shortest wait for a node's clean-up.
const UNDO: Duration = Duration::from_secs(60);
const WORK: &str = "spawn(fun F() -> lists:sort([3, 1, 2]), timer:sleep(5), F() end).";
/// A file of this name suspends the processes that clean up for bellows: no test can make a node that busy.
const BUSY: &str = "busy";
const KEEPS_FROM_RUNNING: &str = "spawn(fun W() -> timer:sleep(20), case filelib:is_file(\"busy\") of false -> W(); \
     true -> [erlang:suspend_process(P) || P <- processes(), {dictionary, D} <- [process_info(P, dictionary)], \
     {'$initial_call', {_, owner, 0}} <- D], (fun B() -> timer:sleep(20), case filelib:is_file(\"busy\") of true -> \
     B(); false -> ok end end)() end end).";

/// A node that calls `lists:sort/1` again and again.
struct ErlangNode {
    started: Started,
    name: String,
    port: String,
}

impl ErlangNode {
    fn start(dir: &Path) -> Self {
        let port = common::free_port().to_string();
        let name = format!("silent{}x{port}@127.0.0.1", std::process::id());
        let mut command = std::process::Command::new("erl");
        command
            .current_dir(dir)
            .env("HOME", dir)
            .args(["-noinput", "-name", &name, "-setcookie", "secret"])
            .args(["-start_epmd", "false", "-erl_epmd_port", &port])
            .args(["-kernel", "inet_dist_use_interface", "{127,0,0,1}"])
            // It sleeps again and again, and would spin each time.
            .args(["+sbwt", "none", "+sbwtdcpu", "none", "+sbwtdio", "none"])
            .args(["-eval", WORK, "-eval", KEEPS_FROM_RUNNING]);
        let node = Self { started: start(command), name, port };
        common::wait_for("the node", || node.command(dir, "info", &[]).end().code() == Some(0));
        node
    }

    fn command(&self, dir: &Path, what: &str, more: &[&str]) -> Started {
        let all = [&["erlang", what, &self.name, "--port", &self.port, "--timeout", "2s"], more].concat();
        start(bellows(dir, &all).env("BELLOWS_ERLANG_COOKIE", "secret"))
    }

    fn signal(&self, name: &str) {
        self.started.signal(name);
    }

    /// The modules of bellows that are still on the node, once they have had time to go.
    fn left(&self, dir: &Path) -> Vec<Value> {
        let until = Instant::now() + Duration::from_secs(30);
        loop {
            let info = self.command(dir, "info", &["--json"]).end().json();
            let left = info["bellows_modules"].as_array().expect("modules").clone();
            if left.is_empty() || Instant::now() >= until {
                return left;
            }
            thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for ErlangNode {
    fn drop(&mut self) {
        self.signal("KILL");
        let _ = self.started.child.wait();
    }
}

/// Each command that lasts, with a window that no test waits for.
const COMMANDS: [(&str, &[&str]); 6] = [
    ("top", &["--json", "--every", WINDOW]),
    ("alloc", &["--json", "--for", WINDOW]),
    ("trace", &["lists:sort/1", "--json", "--limit", "100000", "--for", WINDOW]),
    ("calls", &["lists", "--json", "--for", "8s"]),
    ("calls", &["--root", "lists:sort/1", "--json", "--for", WINDOW]),
    ("time", &["timer:sleep(5)", "--json", "--times", "1000000", "--traced", "0", "--for", WINDOW]),
];

/// Whether a command's output contains its measurements.
fn has_measured(what: &str, printed: &Value) -> bool {
    let some = |pointer: &str| match printed.pointer(pointer) {
        Some(Value::Array(it)) => !it.is_empty(),
        Some(Value::Null) | None => false,
        Some(_) => true,
    };
    match what {
        "top" => some("/processes") && printed["seconds"].as_f64() < Some(30.0),
        "alloc" => some("/threads/kinds") && some("/allocators"),
        "trace" => some("/calls"),
        "calls" if printed.get("root").is_some() => some("/untraced"),
        "calls" => some("/functions"),
        _ => some("/times"),
    }
}

#[test]
fn ctrl_c_ends_a_window_and_shows_what_was_measured() {
    let dir = &*folder();
    let node = ErlangNode::start(dir);
    for (what, options) in COMMANDS {
        let started = node.command(dir, what, options);
        thread::sleep(Duration::from_secs(3));
        let begun = Instant::now();
        started.signal("INT");
        let ended = started.end();
        assert!(begun.elapsed() < BESIDE, "{what}: {:?}", begun.elapsed());
        let printed = ended.json();
        assert!(has_measured(what, &printed), "{what}: {printed:#}");
        assert_eq!(node.left(dir), Vec::<Value>::new(), "{what}");
    }
}

/// All of it was lost, however long it had been measured.
#[test]
fn what_was_measured_until_the_node_went_away_is_shown() {
    let dir = &*folder();
    let started = COMMANDS[3..].iter().map(|(what, options)| {
        let node = ErlangNode::start(dir);
        // Parts of it are told by then.
        let options: Vec<&str> = options.iter().map(|it| if *it == WINDOW { "8s" } else { *it }).collect();
        (node.command(dir, what, &options), node, *what)
    });
    let started: Vec<_> = started.collect();
    thread::sleep(Duration::from_secs(5));
    for (command, node, what) in started {
        node.signal("KILL");
        let ended = command.end();
        ended.assert_error(1, &["was lost"]);
        let printed = ended.printed();
        assert!(has_measured(what, &printed), "{what}: {printed:#}");
        assert!(printed["ended"].as_str().is_some_and(|it| it.contains("went away")), "{what}: {printed:#}");
    }
}

fn told(ended: &Ended) {
    ended.assert_error(1, &["no longer answers", "no answer for 2s"]).says(["--timeout"]);
}

#[test]
fn ctrl_c_on_a_node_that_hangs_waits_for_the_time_out_and_a_second_one_for_nothing() {
    let dir = &*folder();
    let node = ErlangNode::start(dir);
    for (what, options) in [COMMANDS[0], COMMANDS[3]] {
        for signals in [1, 2] {
            let started = node.command(dir, what, options);
            thread::sleep(Duration::from_secs(2));
            node.signal("STOP");
            let begun = Instant::now();
            for _ in 0..signals {
                started.signal("INT");
                thread::sleep(Duration::from_millis(200));
            }
            let ended = started.end();
            let took = begun.elapsed();
            let most = if signals == 1 {
                told(&ended);
                BESIDE
            } else {
                assert_eq!(ended.code(), Some(130), "{ended:#?}");
                Duration::from_millis(1_800)
            };
            assert!(took < most, "{what}: {took:?}");
            node.signal("CONT");
            assert_eq!(node.left(dir), Vec::<Value>::new(), "{what}");
        }
    }
}

/// The objects that a text holds, one after the other.
fn objects(text: &str) -> Vec<Value> {
    let objects = serde_json::Deserializer::from_str(text).into_iter();
    objects.collect::<Result<_, _>>().expect("JSON")
}

#[test]
fn top_tells_of_a_node_that_hangs_between_its_windows() {
    let dir = &*folder();
    let node = ErlangNode::start(dir);
    let repeated = node.command(dir, "top", &["--json", "--every", "300ms", "--count", "1000"]);
    let ended = hangs(&node, repeated);
    told(&ended);
    assert!(objects(&ended.stdout).len() > 1, "it had shown whole windows by then: {ended:#?}");
    assert_eq!(node.left(dir), Vec::<Value>::new());

    if !Path::new("/usr/bin/script").exists() {
        testkit::skip!("there is no script, which makes a terminal: apt-get install bsdutils");
    }
    let (program, name, port) = (env!("CARGO_BIN_EXE_bellows"), &node.name, &node.port);
    let line = format!("stty rows 40 cols 120 && {program} erlang top {name} --port {port} --timeout 2s --every 300ms");
    let mut shell = std::process::Command::new("/usr/bin/script");
    shell
        .args(["-qec", &line, "/dev/null"])
        .current_dir(dir)
        .env("TERM", "xterm")
        .env("BELLOWS_ERLANG_COOKIE", "secret")
        .stdin(std::process::Stdio::piped());
    let ended = hangs(&node, start(shell)).ends(1);
    // The terminal is as it was before: the usual screen, with a cursor.
    let (screen, after) = ended.stdout.rsplit_once("\u{1b}[?1049l").expect("a screen of its own");
    assert!(screen.contains("lists:sort") || screen.contains("reductions"), "{screen}");
    assert!(after.contains("no longer answers: no answer for 2s"), "{after}");
    assert!(ended.stdout.contains("\u{1b}[?25h"), "{ended:#?}");
    assert_eq!(node.left(dir), Vec::<Value>::new());
}

/// A node hangs two seconds after a command has begun, until that has ended.
fn hangs(node: &ErlangNode, started: Started) -> Ended {
    thread::sleep(Duration::from_secs(2));
    node.signal("STOP");
    let begun = Instant::now();
    let ended = started.end();
    node.signal("CONT");
    assert!(begun.elapsed() < BESIDE, "{:?}", begun.elapsed());
    ended
}

#[test]
fn what_was_measured_is_shown_where_the_node_undoes_it_too_late() {
    let dir = &*folder();
    let node = ErlangNode::start(dir);
    let started = node.command(dir, "trace", &["lists:sort/1", "--json", "--limit", "100000", "--for", "4s"]);
    // All is set up by then, and nothing undone yet.
    thread::sleep(Duration::from_secs(2));
    std::fs::write(dir.join(BUSY), "").expect("a file");
    let begun = Instant::now();
    let ended = started.end_within(UNDO + BESIDE + Duration::from_secs(10));
    assert!(begun.elapsed() > UNDO, "{:?}", begun.elapsed());
    // What was measured, and then what went wrong.
    let printed = objects(&ended.stdout).remove(0);
    assert!(has_measured("trace", &printed), "{printed:#}");
    let said = format!("{} has not confirmed the clean-up", node.name);
    let remedy = format!("`bellows erlang info {}` shows what is left", node.name);
    ended.ends(1).says([&said, "no answer in 60s: it is busy", &remedy]);
    // It does so by itself when it can.
    std::fs::remove_file(dir.join(BUSY)).expect("the file");
    assert_eq!(node.left(dir), Vec::<Value>::new());
}
