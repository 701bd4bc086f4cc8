//! An Erlang node of our own, on loopback, with its own EPMD-free port.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use erlang::calls::{self, Calls, CallsOptions, Counter, Counting, Following, RootOptions, RootProgress};
use erlang::term::{Term, as_text};
use erlang::trace::{Trace, TraceEvent, TraceOptions};
use erlang::{Budget, ConnectOptions, Cookie, Error, Helper, Node, NodeName, ProcessFilter};
use tempfile::TempDir;

pub(crate) const COOKIE: &str = "cookie-of-the-tests";

/// Longest until the node is clean again, on a busy machine.
const CLEAN_WITHIN: Duration = Duration::from_secs(30);
/// Several hundred processes that call and are traced.
pub(crate) const WORKERS: &str = "Workers = [spawn(fun Loop() -> lists:sort([3, 1, 2]), lists:keyfind(N, 1, [{N, x}]), \
     timer:sleep(20), Loop() end) || N <- lists:seq(1, 400)], \
     persistent_term:put(workers, Workers).";
static NODES: AtomicU32 = AtomicU32::new(0);

pub(crate) struct Beam {
    child: Child,
    /// Stays open: a node that cannot print any more ends.
    _printed: BufReader<ChildStdout>,
    pub(crate) name: NodeName,
    pub(crate) port: u16,
}

impl Beam {
    pub(crate) fn start(home: &Path, more: &[&str]) -> Self {
        // Somebody else may take the port in between; the node fails then, and says so.
        let port = {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
            listener.local_addr().expect("its address").port()
        };
        let number = NODES.fetch_add(1, Ordering::Relaxed);
        let name = format!("t{}x{number}@127.0.0.1", std::process::id());
        let mut child = Command::new("erl")
            .args(["-noshell", "-name", &name, "-setcookie", COOKIE])
            .args(["-start_epmd", "false", "-erl_epmd_port", &port.to_string()])
            .args(["-kernel", "inet_dist_use_interface", "{127,0,0,1}"])
            // Tests beside it need the cores on which it would spin.
            .args(["+sbwt", "none", "+sbwtdcpu", "none", "+sbwtdio", "none"])
            .args(more)
            .args(["-eval", "io:put_chars(\"up\\n\"), io:get_line(''), halt()."])
            .env("HOME", home)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("erl");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("its output");
        let mut lines = BufReader::new(stdout);
        while !line.starts_with("up") {
            line.clear();
            let read = lines.read_line(&mut line).expect("its output");
            assert!(read > 0, "the node did not come up");
        }
        Self { child, _printed: lines, name: name.parse().expect("a name"), port }
    }

    pub(crate) fn options(&self) -> ConnectOptions {
        ConnectOptions { timeout: Duration::from_secs(20), ..options_at(self.name.clone(), self.port) }
    }

    pub(crate) fn connect(&self) -> Node {
        Node::connect(&self.options()).expect("connected")
    }

    pub(crate) fn signal(&self, name: &str) {
        testkit::signal(self.child.id(), name);
    }

    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Beam {
    fn drop(&mut self) {
        self.kill();
    }
}

pub(crate) fn options_at(name: NodeName, port: u16) -> ConnectOptions {
    let mut options = ConnectOptions::new(name, Cookie::new(COOKIE).expect("a cookie"));
    options.address = Some(("127.0.0.1".into(), port));
    options
}

/// This program once more, which runs one test with a variable that tells it what to do.
pub(crate) fn client(test: &str, variable: &str, value: String, when_loaded: bool) -> Child {
    let program = std::env::current_exe().expect("this program");
    let mut client = Command::new(program)
        .args(["--exact", test, "--nocapture"])
        .env(variable, value)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("a client");
    if when_loaded {
        let stdout = client.stdout.take().expect("its output");
        let mut lines = BufReader::new(stdout).lines().map_while(Result::ok);
        lines.find(|line| line.ends_with("loaded"));
    }
    client
}

pub(crate) fn kill(mut client: Child) {
    client.kill().expect("killed");
    client.wait().expect("waited for");
}

/// A node in a folder of its own, with a connection to it.
pub(crate) fn started() -> (TempDir, Beam, Node) {
    let home = tempfile::tempdir().expect("a folder");
    let beam = Beam::start(home.path(), &[]);
    let node = beam.connect();
    (home, beam, node)
}

/// As [`started`], with the helper.
pub(crate) fn loaded() -> (TempDir, Beam, Node, Helper) {
    let (home, beam, node) = started();
    let helper = Helper::load(&node).expect("loaded");
    (home, beam, node, helper)
}

/// Counts the times of these functions, in one block.
pub(crate) fn calls_options(functions: &str, duration: Duration) -> CallsOptions {
    CallsOptions {
        counter: Counter::Time,
        functions: vec![functions.parse().expect("a pattern")],
        processes: ProcessFilter::All,
        duration,
        blocks: 1,
        bursts: 0,
        budget: Budget::lasting(Duration::from_secs(20)),
    }
}

/// Traces these functions, with returns and arguments.
pub(crate) fn trace_options(functions: &str, time: Duration) -> TraceOptions {
    TraceOptions {
        functions: vec![functions.parse().expect("a pattern")],
        arguments: None,
        processes: ProcessFilter::All,
        limit: 100_000,
        rate: 100_000,
        returns: true,
        argument_bytes: 100,
        budget: Budget::lasting(time),
    }
}

pub(crate) fn count(helper: &Helper, options: &CallsOptions, stop: &dyn Fn() -> bool) -> Result<Calls, Error> {
    let counting = Counting::begin(helper, options)?;
    let calls = counting.wait(stop, &mut None)?;
    counting.end()?;
    Ok(calls)
}

pub(crate) fn follow(
    helper: &Helper,
    options: &RootOptions,
    look: impl FnMut(RootProgress) -> bool,
) -> Result<calls::Path, Error> {
    let following = Following::begin(helper, options)?;
    let path = following.wait(look, &mut None);
    following.end()?;
    path
}

pub(crate) fn all_events(trace: &mut Trace<'_>) -> Vec<TraceEvent> {
    let mut events = Vec::new();
    while trace.ended().is_none() {
        events.extend(trace.next(Duration::from_secs(10)).expect("events"));
    }
    events
}

/// Compiles a module, loads it, and keeps its code under its name.
pub(crate) fn load(home: &Path, node: &Node, module: &str, source: &str) {
    let file = home.join(format!("{module}.erl"));
    std::fs::write(&file, source).expect("a source");
    let load = format!(
        "{{ok, {module}, Code}} = compile:file(\"{}\", [binary]), \
         {{module, {module}}} = code:load_binary({module}, \"{module}.erl\", Code), \
         persistent_term:put({module}, Code).",
        file.display()
    );
    eval(node, &load);
}

pub(crate) fn eval(node: &Node, source: &str) -> Term {
    node.evaluate(Duration::from_secs(60), source).expect("evaluated")
}

/// Waits until nothing of bellows is on the node; what still is, after the time.
pub(crate) fn left_behind(node: &Node) -> Option<String> {
    let until = Instant::now() + CLEAN_WITHIN;
    let question = testkit::left_on_node(&["lists", "gen", "gen_server", "timer"]);
    loop {
        let left = as_text(&eval(node, &question)).expect("a text");
        match left.as_str() {
            testkit::NOTHING_LEFT => return None,
            _ if Instant::now() >= until => return Some(left),
            _ => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}
