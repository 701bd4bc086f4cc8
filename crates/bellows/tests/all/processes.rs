//! Which process is the broker, and its cores: several on one port, wrappers of its name, pinned cores.

use crate::common;

use std::path::Path;
use std::process::{Child, Command, Stdio};

use common::{Broker, Ended, bellows, folder, run, start};
use serde_json::Value;

const PRODUCER: &str = "producer queue://q --rate 100 --warmup 200ms --duration 1 --json --quiet";

fn object(command: Command) -> Value {
    start(command).end().json()
}

/// A command line of another program that starts ours.
fn wrapped(dir: &Path, program: &str, line: &str) -> Command {
    let mut command = Command::new(program);
    command.args(line.split(' ')).current_dir(dir).env("BELLOWS_RUNS", common::RUNS).stdin(Stdio::null());
    command
}

/// CPU time that a process has used, by its ticks of 10 ms.
fn cpu_seconds(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("stat");
    let (_, fields) = stat.rsplit_once(')').expect("a name");
    let ticks = fields.split_whitespace().skip(11).take(2);
    ticks.map(|it| it.parse::<f64>().expect("a number")).sum::<f64>() / 100.0
}

/// Groups on brokers of their own: all CPU against all messages. One broker's alone would be a wrong number about it.
#[test]
fn the_cpu_of_all_loaded_brokers_counts() {
    let dir = &*folder();
    let brokers = [Broker::start(dir), Broker::start(dir)];
    let mut text = "[broker]\nkind = \"attach\"\n[phases]\nwarmup = \"0s\"\nmeasure = \"2s\"\ndrain = \"1s\"\n\
                    [profile]\nevents = []\n"
        .to_owned();
    for (broker, rate) in brokers.iter().zip([10, 20_000]) {
        let url = &broker.url;
        text += &format!(
            "[[load]]\ndestination = \"queue://q\"\nproducers = 1\nconsumers = 1\nrate = {rate}\nurl = {url:?}\n"
        );
    }
    std::fs::write(dir.join("two.toml"), text).expect("a file");
    let used = || brokers.iter().map(|broker| cpu_seconds(broker.child.id())).sum::<f64>();
    let before = used();
    let summary = object(bellows(dir, &["run", "two.toml", "--json", "--quiet"]));
    let total = used() - before;
    let of = &summary["scenarios"]["messages"];
    let each = of["cpu_us_each"]["broker"].as_f64().expect("both processes are known");
    let messages = of["sent"]["total"].as_f64().expect("a number");
    let share = each * messages / 1e6 / total;
    assert!((0.6..1.1).contains(&share), "{share} of {total} s: {summary:#}");
}

/// Pinning the generator is good practice, and does not make the machine smaller.
#[test]
fn a_generator_with_a_core_of_its_own_is_no_lack_of_cores() {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let has_taskset = Command::new("taskset").arg("-V").output().is_ok();
    if cores < 2 || !has_taskset {
        testkit::skip!("it takes two cores, and taskset (util-linux)");
    }
    let (broker, dir) = &common::broker_in_folder();
    let line = format!("-c 1 {} {PRODUCER} --url {}", env!("CARGO_BIN_EXE_bellows"), broker.url);
    let summary = object(wrapped(dir, "taskset", &line));
    let record = common::record(dir);
    assert_eq!(record["hardware"]["cores"], cores, "{:#}", record["hardware"]);
    assert_eq!(summary["verdict"]["evidence"]["cores"], 1);
    for warning in summary["warnings"].as_array().expect("warnings") {
        let text = warning["text"].as_str().expect("text");
        assert!(!text.contains("of the 1 "), "{text}");
    }
}

/// Starts a shell that works without end, by a file of this name.
fn busy(dir: &Path, name: &str, arguments: &[&str]) -> Child {
    let program = dir.join(name);
    if !program.exists() {
        std::fs::copy("/bin/sh", &program).expect("a copy");
    }
    let mut command = Command::new(&program);
    command.args(["-c", "while :; do :; done"]).args(arguments);
    let child = command.stdin(Stdio::null()).spawn().expect("sh");
    let shown = format!("/proc/{}/cmdline", child.id());
    common::wait_for("the command line of the new program", || {
        std::fs::read_to_string(&shown).is_ok_and(|line| line.contains("while"))
    });
    child
}

fn end(mut children: Vec<Child>) {
    for child in &mut children {
        child.kill().expect("kill");
        child.wait().expect("wait");
    }
}

/// Whether this process was recorded; where profiling is not permitted, that is what it says.
fn assert_recorded(ended: &Ended, pid: u32) {
    if ended.code() != Some(0) {
        ended.assert_error(1, &["profil"]);
        testkit::skip!("this user may not profile: {}", ended.stderr);
    }
    assert_eq!(ended.printed()["broker"]["pid"], pid, "{ended:#?}");
}

/// `timeout` has our arguments among its own, the name with them.
#[test]
fn a_wrapper_is_not_what_is_recorded() {
    let dir = &*folder();
    let name = format!("a-node-{}@host", std::process::id());
    let broker = busy(dir, "beam.smp", &["beam", "-sname", &name]);
    let pid = broker.id();
    let line = format!("50 {} record --name {name} --duration 1 --json --quiet", env!("CARGO_BIN_EXE_bellows"));
    let ended = start(wrapped(dir, "timeout", &line)).end();
    end(vec![broker]);
    assert_recorded(&ended, pid);
}

#[test]
fn several_processes_of_one_name_are_told_apart() {
    let dir = &*folder();
    let me = std::process::id();
    let program = format!("twin-{me}");
    std::fs::copy(env!("CARGO_BIN_EXE_bellows"), dir.join(&program)).expect("a copy");
    let brokers = [(), ()].map(|()| Broker::of(dir, &dir.join(&program)));
    let ended = run(dir, &["record", "--name", &program, "--json"]);
    ended.assert_error(1, &["2 processes are called", &program]).says(["--pid N"]);
    let lines: Vec<&str> = ended.stderr.lines().collect();
    let heads = lines.iter().position(|line| line.contains("pid  "));
    let heads = heads.unwrap_or_else(|| panic!("no table: {ended:#?}"));
    let user = Command::new("id").arg("-un").output().expect("id");
    let user = String::from_utf8_lossy(&user.stdout).trim().to_owned();
    for broker in &brokers {
        let pid = broker.child.id().to_string();
        let row = lines.iter().find(|line| line.trim_start().starts_with(&pid));
        let row = row.unwrap_or_else(|| panic!("{pid} is not listed: {ended:#?}"));
        let port = broker.url.rsplit(':').next().expect("a port");
        let column = |head: &str| lines[heads].find(head).expect("a head");
        for (head, cell) in [("user", user.as_str()), ("ports", port), ("started", "20")] {
            let cells = row.get(column(head)..).unwrap_or_default();
            assert!(cells.starts_with(cell), "{head} {cell}: {row:?}");
        }
    }
    let log = ended.printed()["error"]["log"].as_str().map(|it| it.lines().count());
    assert_eq!(log, Some(3), "{ended:#?}");

    let nodes = [format!("left-{me}"), format!("right-{me}@there")];
    let busy = nodes.each_ref().map(|node| {
        let flag = if node.contains('@') { "-name" } else { "-sname" };
        busy(dir, "beam.smp", &["beam", flag, node])
    });
    let pids = busy.each_ref().map(Child::id);
    let names = [nodes[0].clone(), nodes[1].clone(), format!("right-{me}")];
    let outcomes = names.map(|name| run(dir, &["record", "--name", &name, "--duration", "1", "--json", "--quiet"]));
    end(busy.into());
    for (ended, pid) in outcomes.iter().zip([pids[0], pids[1], pids[1]]) {
        assert_recorded(ended, pid);
    }
}

/// A node that takes its name later than its start, as RabbitMQ does by default: only EPMD knows it.
#[test]
fn a_node_that_only_epmd_knows_is_found() {
    let has = |program: &str| Command::new("which").arg(program).output();
    let has = |program| has(program).is_ok_and(|found| found.status.success());
    if !has("erl") || !has("epmd") {
        testkit::skip!("erl and epmd are not installed: apt-get install erlang-base");
    }
    let dir = &*folder();
    let port = common::free_port().to_string();
    let mut epmd = Command::new("epmd");
    let epmd = epmd.args(["-port", &port, "-address", "127.0.0.1"]);
    let epmd = epmd.stdin(Stdio::null()).spawn().expect("epmd");
    common::wait_for("EPMD", || std::net::TcpStream::connect(format!("127.0.0.1:{port}")).is_ok());
    let name = format!("late-{}", std::process::id());
    let script = format!(
        "{{ok, _}} = net_kernel:start(['{name}@localhost', shortnames]), \
         F = fun(F) -> F(F) end, F(F)."
    );
    let node = Command::new("erl")
        .args(["-noshell", "-start_epmd", "false", "-eval", &script])
        .env("ERL_EPMD_PORT", &port)
        .env("HOME", dir)
        .stdin(Stdio::null())
        .spawn()
        .expect("erl");
    let pid = node.id();
    let record = || {
        let arguments = ["record", "--name", &name, "--duration", "1", "--json", "--quiet"];
        start(bellows(dir, &arguments).env("ERL_EPMD_PORT", &port)).end()
    };
    // It registers itself when it is ready.
    let ended = again_until(record, |ended| !ended.stderr.contains("no process is called"));
    assert_looked_into_by_its_name(dir, &port);
    end(vec![node, epmd]);
    assert_recorded(&ended, pid);
}

/// A process that `record --name` finds, `erlang` finds, too.
fn assert_looked_into_by_its_name(dir: &Path, epmd: &str) {
    let name = format!("look-{}", std::process::id());
    let node = Command::new("erl")
        .args(["-noinput", "-name", &format!("{name}@127.0.0.1")])
        .args(["-setcookie", "secret", "-start_epmd", "false"])
        .env("ERL_EPMD_PORT", epmd)
        .env("HOME", dir)
        .stdin(Stdio::null())
        .spawn()
        .expect("erl");
    let look = || {
        start(
            bellows(dir, &["erlang", "info", &name, "--json"])
                .env("ERL_EPMD_PORT", epmd)
                .env("BELLOWS_ERLANG_COOKIE", "secret"),
        )
        .end()
    };
    let ended = again_until(look, |ended| ended.code() == Some(0));
    end(vec![node]);
    ended.ok().prints([name.as_str()]);
}

/// Runs a command again and again until it ends as it is to, or for long enough.
fn again_until(run: impl Fn() -> Ended, is_done: impl Fn(&Ended) -> bool) -> Ended {
    let begun = std::time::Instant::now();
    loop {
        let ended = run();
        if is_done(&ended) || begun.elapsed() > common::DEADLINE {
            return ended;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
}

#[test]
fn a_process_without_cpu_time_has_no_profile() {
    let dir = &*folder();
    let mut idle = Command::new("sleep").arg("60").spawn().expect("sleep");
    let pid = idle.id().to_string();
    // It has started once it sleeps.
    std::thread::sleep(std::time::Duration::from_millis(500));
    let ended = run(dir, &["record", "--pid", &pid, "--duration", "1"]);
    let json = run(dir, &["record", "--pid", &pid, "--duration", "1", "--json"]);
    // It ends its child where it is told to end.
    let parent = Command::new("timeout").args(["60", "sh", "-c", "while :; do :; done"]).spawn().expect("timeout");
    let mut parent = testkit::ChildGuard(parent);
    std::thread::sleep(std::time::Duration::from_millis(300));
    let of_parent = run(dir, &["record", "--pid", &parent.id().to_string(), "--duration", "500ms"]);
    testkit::signal(parent.id(), "TERM");
    parent.wait().expect("wait");
    idle.kill().expect("kill");
    idle.wait().expect("wait");
    testkit::skip_for!(ended.may_not_profile());
    ended.assert_error(1, &["no samples", "used no CPU"]).says(["while it works"]);
    // A profile without samples stood beside CPU that others had used.
    of_parent.assert_error(1, &["itself used no CPU, its child processes "]).says(["bellows record --pid "]);
    testkit::assert_has(json.ends(1).printed()["error"]["cause"].to_string(), ["no samples"]);
    run(dir, &["runs"]).prints(["  no samples  "]).prints_not(["complete"]);
    run(dir, &["top", "last"]).assert_error(1, &["has a profile with samples"]);
    run(dir, &["flame", "last", "--from", "1"]).assert_error(1, &["has a profile with samples"]);
}
