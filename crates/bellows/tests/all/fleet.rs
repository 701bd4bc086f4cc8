//! A fleet on this machine: a real NATS server, workers as processes of their own, and the embedded broker.

use crate::common;

use std::fs;
use std::io::{BufRead, BufReader, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use common::schema::assert_valid;
use common::{bellows, read_json, run, start, wait_for};
use serde_json::Value;
use testkit::{ChildGuard, only};

const SERVER: &str = "nats-server";
/// Of the workers, below the test's folder.
const THEIR_RUNS: &str = "of-workers";

fn children_of(pid: u32) -> Vec<u32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    children.split_whitespace().filter_map(|it| it.parse().ok()).collect()
}

/// `bellows fleet start`, gone when dropped.
struct Fleet {
    started: ChildGuard,
    url: String,
    /// File of user and password.
    login: String,
    /// Lines that it and its workers print.
    lines: Receiver<String>,
}

impl Fleet {
    fn start(dir: &Path, workers: &str) -> Self {
        let mut command = bellows(dir, &["fleet", "start", "--workers", workers, "--runs", THEIR_RUNS]);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("start a fleet");
        let (tell, lines) = channel();
        let printed = BufReader::new(child.stdout.take().expect("piped"));
        thread::spawn(move || printed.lines().map_while(Result::ok).try_for_each(|line| tell.send(line)));
        let mut fleet = Self { started: ChildGuard(child), url: String::new(), login: String::new(), lines };
        let ready = fleet.line("ready ");
        fleet.url = ready.split([' ', ',']).nth(1).expect("an address").to_owned();
        fleet.login = ready.split(' ').next_back().expect("a file").to_owned();
        fleet
    }

    /// Options of a command that uses it.
    fn used(&self) -> [&str; 4] {
        ["--fleet", &self.url, "--fleet-credentials", &self.login]
    }

    fn status(&self, dir: &Path) -> Value {
        run(dir, &[&["fleet", "status", "--json"], &self.used()[..]].concat()).json()
    }

    /// The status once both workers are free and their clocks known: one without a core is not heard each time.
    fn wait_until_free(&self, dir: &Path) -> Value {
        let is_free = |it: &&Value| it["state"] == "free" && it["clock_bound_s"].is_number();
        let until = Instant::now() + common::DEADLINE;
        loop {
            let status = self.status(dir);
            if status["workers"].as_array().is_some_and(|all| all.iter().filter(is_free).count() == 2) {
                return status;
            }
            assert!(Instant::now() < until, "no free workers: {status:#}");
        }
    }

    fn command_lines(&self) -> Vec<String> {
        let words = |pid: &u32| fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        self.children().iter().map(words).collect()
    }

    fn children(&self) -> Vec<u32> {
        children_of(self.started.0.id())
    }

    /// The next line that begins so.
    fn line(&self, begin: &str) -> String {
        let until = Instant::now() + common::DEADLINE;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left).unwrap_or_else(|why| panic!("no line {begin:?}: {why}"));
            if line.starts_with(begin) {
                return line;
            }
        }
    }

    /// The process of the worker with this name, or of the server.
    fn worker(&self, name: &str) -> u32 {
        let is_it = |pid: &u32| {
            let words = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let is_server = name == SERVER && words.split('\0').next().is_some_and(|word| word.ends_with(SERVER));
            is_server || words.contains("\0worker\0") && words.split('\0').any(|word| word == name)
        };
        // The server's parent is a guard.
        let all = self.children();
        let theirs: Vec<u32> = all.iter().flat_map(|pid| children_of(*pid)).collect();
        all.into_iter().chain(theirs).find(is_it).expect("a worker")
    }

    fn end(mut self) {
        common::signal(self.started.0.id(), "INT");
        let until = Instant::now() + common::DEADLINE;
        while self.started.0.try_wait().expect("wait").is_none() {
            assert!(Instant::now() < until, "it does not end");
            thread::sleep(Duration::from_millis(20));
        }
    }
}

fn experiment(dir: &Path, broker: &str, measure: &str) {
    fs::create_dir_all(dir.join("bodies")).expect("a folder");
    fs::write(dir.join("bodies/one"), "a body").expect("write");
    fs::write(dir.join("bodies/two"), vec![b'x'; 1_000]).expect("write");
    let text = format!(
        "[broker]\n{broker}\n[profile]\nevents = []\n[phases]\nwarmup = \"500ms\"\nmeasure = \"{measure}\"\n\
         [[load]]\ndestination = \"queue://of-fleet\"\nnum-destinations = 4\nrate = 400\nproducers = 2\nconsumers = 1\n\
         message-size = \"files:bodies\"\n"
    );
    fs::write(dir.join("load.toml"), text).expect("write");
}

const EMBEDDED: &str = "kind = \"embedded\"";

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}"))
}

/// A number of the messages' outcome.
fn flow(summary: &Value, name: &str) -> u64 {
    number(&summary["scenarios"]["messages"][name]["total"])
}

/// Cores that bellows used.
fn cores(summary: &Value) -> f64 {
    summary["cpu_cores"]["client"].as_f64().expect("cores")
}

fn answers(summary: &Value) -> u64 {
    number(&summary["scenarios"]["messages"]["latency"]["ack_response"]["count"])
}

fn records_of_workers(dir: &Path) -> Vec<PathBuf> {
    let folders = fs::read_dir(dir.join(THEIR_RUNS)).expect("runs of workers").flatten();
    folders.map(|it| it.path().join("run.json")).filter(|it| it.is_file()).collect()
}

/// Summaries of the workers' own runs.
fn of_workers(dir: &Path) -> Vec<Value> {
    let records = records_of_workers(dir).into_iter();
    let summary = |path: PathBuf| Some(read_json(&path)["summary"].clone()).filter(Value::is_object);
    records.filter_map(summary).collect()
}

#[test]
fn two_workers_are_one_load_with_one_ledger_and_a_lost_one_makes_the_run_invalid() {
    let dir = &common::folder();
    let fleet = Fleet::start(dir, "2");
    let login = fs::read_to_string(&fleet.login).expect("a login");
    let (_, password) = login.trim().split_once(':').expect("a password");
    let lines = fleet.command_lines();
    assert!(lines.len() >= 3 && lines.iter().all(|it| !it.contains(password)), "{lines:#?}");
    assert_eq!(fs::metadata(&fleet.login).expect("a file").permissions().mode() & 0o777, 0o600);
    run(dir, &["fleet", "status", "--fleet", &fleet.url]).assert_error(1, &["cannot use the NATS server"]);
    let status = fleet.wait_until_free(dir);
    assert_eq!(status["workers"].as_array().map(Vec::len), Some(2), "{status:#}");
    let second: [&str; 7] = ["worker", "--join", &fleet.url, "--fleet-credentials", &fleet.login, "--name", "w1"];
    run(dir, &second).assert_error(1, &["another worker has this name: w1"]).says(["with --name"]);

    experiment(dir, EMBEDDED, "2s");
    let args = [&["run", "load.toml", "--workers", "2", "--json", "--quiet"], &fleet.used()[..]].concat();
    // One that is refused when it has its workers gives them back at once.
    fs::write(dir.join("bodies/large"), vec![b'x'; 17 << 20]).expect("write");
    run(dir, &args).assert_error(2, &["more than 16 MiB"]);
    let status = fleet.status(dir);
    assert!(status["workers"].as_array().is_some_and(|all| all.iter().all(|it| it["run"] == "")), "{status:#}");
    fs::remove_file(dir.join("bodies/large")).expect("remove");
    let summary = run(dir, &args).json();
    assert_valid(&summary);
    let rows = summary["workers"].as_array().expect("a row of each worker");
    assert_eq!(rows.iter().map(|it| it["name"].as_str()).collect::<Vec<_>>(), [Some("w1"), Some("w2")]);
    assert!(rows.iter().all(|it| it["late_s"].is_number() && it["clock_bound_s"].is_number()), "{rows:#?}");
    let has_share = |it: &Value| number(&it["share"]["producers"]) > 0 && number(&it["share"]["destinations"]) > 0;
    assert!(rows.iter().all(|it| has_share(it) && it["sent_rate"].as_f64() > Some(50.0)), "{rows:#?}");
    // It was the coordinator's alone.
    let [of_loops, own] = [rows.iter().filter_map(|it| it["cpu_cores"].as_f64()).sum(), cores(&summary)];
    assert!(own > 0.7 * of_loops && own > 0.01, "{own} cores, {of_loops} in event loops");
    // What was sent came once. A loop that lost its core at the end leaves a few that were due.
    let sent = flow(&summary, "sent");
    assert!((800..=1_001).contains(&sent), "{sent} of 1,000");
    assert_eq!((flow(&summary, "completed"), flow(&summary, "received")), (sent, sent));
    let ledger = &summary["scenarios"]["messages"]["ledger"];
    assert_eq!((number(&ledger["sent"]), number(&ledger["delivered"])), (sent, sent), "{ledger:#}");
    assert!(ledger["exact"] == true && ledger["lost"] == 0, "{ledger:#}");
    // The sums are those of the workers' own runs.
    wait_for("the workers' own runs", || of_workers(dir).len() == 2);
    let own = of_workers(dir);
    for record in records_of_workers(dir) {
        // Bodies came with the plan, and are gone with it.
        let text = fs::read_to_string(record).expect("a record");
        let (_, rest) = text.split_once("\"files:").expect("bodies");
        let bodies = Path::new(rest.split('"').next().expect("a path"));
        assert!(bodies.ends_with("load-0-bodies"), "{}", bodies.display());
        wait_for("a removed folder", || !bodies.exists());
    }
    let sum = |of: &dyn Fn(&Value) -> u64| own.iter().map(of).sum::<u64>();
    assert_eq!(sum(&|it| flow(it, "sent")), sent);
    assert_eq!(sum(&answers), answers(&summary));
    let each: Vec<u64> = rows.iter().map(|it| number(&it["sent"])).collect();
    assert!(each.iter().sum::<u64>() == sent && each.iter().all(|it| it.abs_diff(500) <= 200), "{each:?}");
    let run_dir = dir.join(summary["run_dir"].as_str().expect("a folder"));
    assert!(run_dir.join("report.html").is_file());
    fleet.wait_until_free(dir);

    // Each sends to the other one's consumers: four destinations are as many parts.
    let apart = ["--set", "load.0.place=spread", "--set", "phases.measure=1s"];
    let summary = run(dir, &[&args[..], &apart].concat()).json();
    let (sent, ledger) = (flow(&summary, "sent"), &summary["scenarios"]["messages"]["ledger"]);
    assert!(sent > 300 && ledger["exact"] == true, "{summary:#}");
    assert_eq!((number(&ledger["sent"]), number(&ledger["delivered"])), (sent, sent), "{ledger:#}");
    let rows = summary["workers"].as_array().expect("a row of each worker");
    assert!(rows.iter().all(|it| number(&it["sent"]) > 0 && number(&it["received"]) > 0), "{rows:#?}");
    fleet.wait_until_free(dir);

    fs::remove_dir_all(dir.join(common::RUNS)).expect("remove");
    experiment(dir, EMBEDDED, "60s");
    let running = start(bellows(dir, &args));
    wait_for("a recorded second", || common::seconds_recorded(dir) >= 2);
    common::signal(fleet.worker("w1"), "KILL");
    let killed = running.end().ends(1);
    killed.says(["worker w1 was lost"]);
    let record = common::record(dir);
    assert_eq!(record["state"], "failed");
    let warnings = record["warnings"].as_array().expect("warnings");
    let lost: Vec<&Value> = warnings.iter().filter(|it| it["code"] == "worker_lost").collect();
    let lost = only(&lost);
    assert!(lost["tier"] == "invalid" && lost["values"]["worker"] == "w1", "{lost:#}");
    let rows = record["summary"]["workers"].as_array().expect("a row of each worker");
    assert!(rows[0]["lost_s"].is_number() && rows[1]["lost_s"].is_null(), "{rows:#?}");
    let told = run(dir, &["runs", "show", "-v", "last"]).ok();
    told.prints(["clock offset", "lost at "]);
    assert!(number(&rows[0]["sent"]) > 0 && number(&rows[1]["sent"]) > number(&rows[0]["sent"]), "{rows:#?}");
    fleet.end();
}

#[test]
fn a_run_whose_coordinator_was_killed_is_collected_from_its_workers() {
    let (broker, dir) = common::broker_in_folder();
    let dir: &Path = &dir;
    let fleet = Fleet::start(dir, "2");
    experiment(dir, &format!("kind = \"attach\"\nurl = \"{}\"", broker.url), "60s");
    let args = [&["run", "load.toml", "--workers", "2", "--quiet"], &fleet.used()[..]].concat();
    let running = start(bellows(dir, &args));
    let name = fleet.line("worker w1 takes part 1 of 2 of ");
    let name = name.split(' ').next_back().expect("a name");
    wait_for("a recorded second", || common::seconds_recorded(dir) >= 2);
    running.signal("KILL");
    let _ = running.end();
    wait_for("the workers' own ends", || of_workers(dir).len() == 2);
    let own = of_workers(dir);
    assert!(
        own.iter().all(|it| it["error"]["cause"].as_str().is_some_and(|it| it.contains("ended early"))),
        "{own:#?}"
    );
    fleet.wait_until_free(dir);

    let collected = |more: &[&str], to: &str| {
        let ended = run(dir, &[&["fleet", "collect", name, "--runs", to], more].concat()).ok();
        let folder = only(&fs::read_dir(dir.join(to)).expect("runs").flatten().collect::<Vec<_>>()).path();
        assert!(folder.join("report.html").is_file());
        (ended, read_json(&folder.join("run.json")))
    };
    let (ended, record) = collected(&fleet.used(), "fetched");
    ended.prints(["of 2 workers, failed: "]).says(["no coordinator was heard for 5"]);
    assert_eq!(record["state"], "failed");
    let warnings = record["warnings"].as_array().expect("warnings");
    let codes: Vec<&str> = warnings.iter().filter_map(|it| it["code"].as_str()).collect();
    assert!(codes.iter().filter(|it| **it == "worker_lost").count() == 2 && codes.contains(&"collected"), "{codes:?}");
    let summary = &record["summary"];
    assert_valid(summary);
    let sum = |of: &dyn Fn(&Value) -> u64| own.iter().map(of).sum::<u64>();
    assert_eq!(flow(summary, "sent"), sum(&|it| flow(it, "sent")));
    assert_eq!(answers(summary), sum(&answers));
    assert_eq!(summary["workers"][1]["name"], "w2");
    let theirs: Vec<String> =
        records_of_workers(dir).iter().map(|it| it.parent().expect("a folder").display().to_string()).collect();
    let (ended, record) = collected(&["--from", &theirs[0]], "copied");
    ended.says(["its folder could not be had"]);
    assert!(flow(&record["summary"], "sent") < sum(&|it| flow(it, "sent")));
    let other = run(dir, &["fleet", "collect", "other-1", "--from", &theirs[0]]);
    other.assert_error(1, &["is not of run other-1"]);
    let none = run(dir, &[&["fleet", "collect", "other-1"], &fleet.used()[..]].concat());
    none.assert_error(1, &["nothing to collect of run \"other-1\""]).says([name]);
    // By the folder that the coordinator left.
    let last = run(dir, &[&["fleet", "collect", "last"], &fleet.used()[..]].concat()).ok();
    last.prints(["of 2 workers, failed: "]).says(["the coordinator's own folder is left"]);
    fleet.end();
}

#[test]
fn nodes_that_workers_record_are_parts_of_the_run_and_one_that_cannot_be_is_no_error() {
    let (broker, dir) = common::broker_in_folder();
    let dir: &Path = &dir;
    let fleet = Fleet::start(dir, "1");
    let (pid, [_, url, credentials, login]) = (broker.child.0.id().to_string(), fleet.used());
    let recorder = |name: &str, process: &str| {
        let who = ["worker", "--join", url, credentials, login, "--name", name, "--runs", THEIR_RUNS];
        let mut command = bellows(dir, &[&who[..], &["--records", process]].concat());
        ChildGuard(command.stdout(Stdio::null()).spawn().expect("start a worker"))
    };
    let _recorders = [recorder("n1", &pid), recorder("n2", &pid), recorder("n3", "no-such-process")];
    let all = || fleet.status(dir)["workers"].as_array().cloned().unwrap_or_default();
    wait_for("workers that record", || all().len() == 4);
    let records: Vec<Value> = all().iter().map(|it| it["records"].clone()).collect();
    assert!(records[0]["name"] == "bellows-broker" && records[3].is_null(), "{records:#?}");
    let why = records[2]["problem"].as_str().expect("a reason");
    assert!(why.contains("no process is called") && why.contains("--records NAME"), "{why}");

    experiment(dir, &format!("kind = \"attach\"\nurl = \"{}\"", broker.url), "2s");
    let profiled = ["run", "load.toml", "--workers", "1", "--json", "--quiet", "--set", "profile.events=[\"cpu\"]"];
    let summary = run(dir, &[&profiled[..], &fleet.used()].concat()).json();
    assert_valid(&summary);
    assert_eq!(summary["workers"].as_array().map(Vec::len), Some(1), "{summary:#}");
    let nodes = summary["nodes"].as_array().expect("nodes");
    let is_whole = |it: &Value| it["name"] == "bellows-broker" && it["clock_bound_s"].is_number();
    let has_used = |it: &Value| it["cpu_cores"].as_f64() > Some(0.0) && it["rss_mb"].as_f64() > Some(0.0);
    assert!(nodes.len() == 2 && nodes.iter().all(|it| is_whole(it) && has_used(it)), "{nodes:#?}");
    assert!(summary["cpu_cores"]["broker"].is_null(), "a part of the broker is missing: {summary:#}");
    let warnings = summary["warnings"].as_array().expect("warnings").iter();
    let lacking = "node no-such-process, recorded by worker n3: no process is called";
    let told = warnings.filter(|it| it["text"].as_str().is_some_and(|it| it.contains(lacking))).count();
    assert_eq!(told, 1, "{:#}", summary["warnings"]);
    let run_dir = dir.join(summary["run_dir"].as_str().expect("a folder"));
    let series = fs::read_to_string(run_dir.join("metrics.jsonl")).expect("series");
    let of_nodes = [0, 1].map(|node| format!("\"name\":\"CPU of nodes\",\"labels\":{{\"node\":\"{node}\"}}"));
    assert!(of_nodes.iter().all(|it| series.contains(it)), "{series}");
    let profiles = summary["profiles"].as_array().expect("profiles");
    let nodes: Vec<Option<u64>> = profiles.iter().map(|it| it["node"].as_u64()).collect();
    if records[0]["problem"].is_null() {
        assert_eq!(nodes, [Some(0), Some(1)], "{:#}", summary["warnings"]);
        assert!(run_dir.join("cpu.stacks").is_file() && run_dir.join("cpu@1.stacks").is_file());
    }
    fleet.end();
}

#[test]
fn a_short_absence_changes_nothing_and_a_tolerated_loss_is_a_gap() {
    let dir = &common::folder();
    let fleet = Fleet::start(dir, "2");
    experiment(dir, EMBEDDED, "9s");
    let args = [&["run", "load.toml", "--workers", "2"], &fleet.used()[..], &["--tolerate"]].concat();
    let all = [&args[..], &["2"]].concat();
    run(dir, &all).assert_error(1, &["2 workers, and all of them may be lost"]);
    let running = start(bellows(dir, &[&args[..], &["1", "--json", "--quiet"]].concat()));
    wait_for("a recorded second", || common::seconds_recorded(dir) >= 1);
    for name in [SERVER, "w2"] {
        let pid = fleet.worker(name);
        common::signal(pid, "STOP");
        thread::sleep(Duration::from_millis(600));
        common::signal(pid, "CONT");
    }
    // Worker 0, whose phases were those of the run. It is the run's user who stops that.
    common::signal(fleet.worker("w1"), "TERM");
    running.end();
    let record = common::record(dir);
    assert!(record["state"] == "complete" && record["error"].is_null(), "{record:#}");
    let warnings = record["warnings"].as_array().expect("warnings");
    let lost: Vec<&Value> = warnings.iter().filter(|it| it["code"] == "worker_lost").collect();
    let lost = only(&lost);
    assert!(lost["tier"] == "caution" && lost["values"]["worker"] == "w1", "{lost:#}");
    assert_eq!(lost["values"]["why"], "it was stopped", "{lost:#}");
    assert!(lost["values"]["producers"] == 0.5 && lost["values"]["consumers"] == 0.5, "{lost:#}");
    // 400 a second were requested, of which 200 were sent after it.
    let requested = &record["summary"]["scenarios"]["messages"]["requested"];
    let [rate, achieved] = ["rate", "achieved"].map(|it| requested[it].as_f64().expect("a number"));
    assert!((395.0..405.0).contains(&rate) && (0.5..0.95).contains(&achieved), "{rate} {achieved}");
    run(dir, &["runs", "show", "last"]).ok().prints(["of 400 requested", "worker w1 was lost after", "tolerated"]);
    fleet.end();
}

#[test]
fn manifests_and_the_unit_start_what_there_is() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let help = |command: &str| run(&common::folder(), &[command, "--help"]).ok().stdout;
    for (file, command) in [
        ("kubernetes/workers.yaml", "worker"),
        ("kubernetes/profilers.yaml", "record"),
        ("systemd/bellows-worker.service", "worker"),
    ] {
        let (text, help) = (fs::read_to_string(docs.join(file)).expect("a file"), help(command));
        let lines = text.lines().map(str::trim).filter(|it| !it.starts_with('#'));
        let words: Vec<&str> = lines.flat_map(|it| it.split([' ', '='])).collect();
        assert!(words.contains(&command), "{file}");
        let is_named = |it: &&&str| it.starts_with("--") || it.starts_with("BELLOWS_");
        let named: Vec<&&str> = words.iter().filter(is_named).collect();
        assert!(named.len() >= 2, "{file}: {named:?}");
        named.iter().for_each(|it| assert!(help.contains(**it), "{file}: {it} is no option of {command}"));
    }
}

/// A NATS server of this version, which says no more.
fn server_of(version: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("nats://{}", listener.local_addr().expect("an address"));
    let hello = format!("INFO {{\"version\":\"{version}\",\"max_payload\":1048576}}\r\nPONG\r\n");
    thread::spawn(move || {
        let mut kept = Vec::new();
        for mut client in listener.incoming().flatten() {
            let _ = client.write_all(hello.as_bytes());
            kept.push(client);
        }
    });
    url
}

#[test]
fn what_a_fleet_cannot_do_is_refused_before_anything_is_started() {
    let dir = &common::folder();
    experiment(dir, EMBEDDED, "1s");
    let old = run(dir, &["fleet", "status", "--fleet", &server_of("2.8.4")]);
    old.assert_error(1, &["its version is 2.8.4"]).says(["nats-server 2.9 or newer is needed"]);
    fs::write(dir.join("seen.login"), "me:s3cret").expect("write");
    let seen = run(dir, &["fleet", "start", "--workers", "1", "--login", "seen.login"]);
    seen.assert_error(1, &["others may read seen.login"]).says_not(["s3cret"]);
    let port = common::free_port();
    let nowhere = &format!("nats://127.0.0.1:{port}");
    let carried = |more: &[&str]| run(dir, &[&["run", "load.toml", "--fleet", nowhere], more].concat());
    carried(&[]).assert_error(1, &["cannot use the NATS server at nats://127.0.0.1"]);
    let alone = run(dir, &["run", "load.toml", "--set", "load.0.place=spread"]);
    alone.assert_error(2, &["one process has no workers to spread"]);
    carried(&["--set", "broker.tls=true"]).assert_error(2, &["a fleet does not carry TLS"]);
    let churn = "[broker]\nkind = \"embedded\"\n[churn]\nkind = \"queues\"\n[[load]]\n";
    fs::write(dir.join("churn.toml"), churn).expect("write");
    run(dir, &["run", "churn.toml", "--fleet", nowhere]).assert_error(2, &["a fleet does not carry churn"]);
    fs::write(dir.join("churn.toml"), churn.replace("[[load]]\n", "")).expect("write");
    run(dir, &["run", "churn.toml", "--fleet", nowhere]).assert_error(2, &["a fleet does not carry churn"]);
    let with_variable = |args: &[&str], url: &str| {
        let mut command = bellows(dir, args);
        command.env("BELLOWS_FLEET", url);
        start(command).end()
    };
    with_variable(&["worker"], "").assert_error(1, &["the address of the NATS server is empty"]);
    let short = ["demo", "--no-profile", "--set", "phases.measure=100ms", "--set", "phases.warmup=0s"];
    with_variable(&short, nowhere).ok().says(["BELLOWS_FLEET is for `run` and `client`"]);
    let with_password = format!("nats://me:s3cret@127.0.0.1:{port}");
    let seen = run(dir, &["worker", "--join", &with_password]);
    seen.assert_error(1, &["a password on the command line"]).says_not(["s3cret"]);
    run(dir, &["worker", "--join", nowhere, "--label", "zone"]).ends(2).says(["expected KEY=VALUE"]);
}
