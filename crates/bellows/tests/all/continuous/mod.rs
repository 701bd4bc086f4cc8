//! Continuous recordings: periods of real processes, their retention, and servers that get them.

use crate::common;
mod push;

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use archive::{RunRecord, RunState};
use serde_json::Value;
use stacks::Profile;
use testkit::ChildGuard;

use common::{Ended, RUNS, Started, wait_for};

/// A program that uses a third of a core, under a name of its own.
struct Busy(ChildGuard);

impl Busy {
    fn start(dir: &Path, name: &str) -> Self {
        let program = dir.join(name);
        if !program.exists() {
            fs::copy("/bin/bash", &program).expect("copy");
        }
        let mut command = Command::new(program);
        command.args(["-c", "while :; do for ((i = 0; i < 1000; i++)); do :; done; read -rt 0.01; done"]);
        // Nothing is ever to be read there, so that it waits.
        command.stdin(Stdio::piped());
        loop {
            match command.spawn() {
                Ok(child) => return Self(ChildGuard(child)),
                // A child of another test still has the copy open for writing, until it runs its own program.
                Err(e) if e.kind() == ErrorKind::ExecutableFileBusy => {
                    thread::sleep(Duration::from_millis(10));
                }
                Err(e) => panic!("{e}"),
            }
        }
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }

    fn kill(&mut self) {
        self.0.kill().expect("kill");
        self.0.wait().expect("wait");
    }
}

/// Names that no other process of this machine has.
fn unique(what: &str) -> String {
    format!("{what}-{}", std::process::id())
}

fn record(dir: &Path, args: &[&str]) -> Started {
    let args = [&["record", "--freq", "499"], args].concat();
    common::start(common::bellows(dir, &args))
}

/// Whether processes may be profiled here; else why not.
fn refused(dir: &Path) -> Option<String> {
    let busy = Busy::start(dir, "probe");
    let pid = busy.pid().to_string();
    let ended = record(dir, &["--pid", &pid, "--duration", "100ms", "--runs", "probe-runs"]).end();
    // A process that got no core in that time has no samples.
    let may = ended.code() == Some(0) || ended.stderr.contains("has no samples");
    (!may).then(|| format!("this user may not profile: {}", ended.stderr))
}

/// The run folders of a recording, in the order of time.
fn periods(dir: &Path) -> Vec<(PathBuf, RunRecord)> {
    let folders = fs::read_dir(dir.join(RUNS)).into_iter().flatten().flatten();
    let read = |path: PathBuf| {
        let text = fs::read(path.join("run.json")).ok()?;
        Some((path, serde_json::from_slice(&text).expect("a record")))
    };
    let mut all: Vec<(PathBuf, RunRecord)> = folders.filter_map(|it| read(it.path())).collect();
    all.sort_by_key(|(_, record)| record.origin_unix_ns);
    all
}

fn ended_periods(dir: &Path) -> usize {
    let all = periods(dir);
    all.iter().filter(|(_, it)| it.state != RunState::Running).count()
}

fn stop(started: Started) -> Ended {
    started.signal("TERM");
    started.end().ok()
}

#[test]
fn periods_follow_each_other_without_a_gap() {
    let dir = &*common::folder();
    testkit::skip_for!(refused(dir));
    let name = unique("gapless");
    let busy = Busy::start(dir, &name);
    let started = record(dir, &["--name", &name, "--every", "2s", "--label", "env=test"]);
    wait_for("four periods", || ended_periods(dir) >= 4);
    let ended = stop(started);

    let all = periods(dir);
    let mut before: Option<u64> = None;
    let mut samples = 0;
    let mut cpu = (0.0, 0.0);
    for (folder, record) in &all {
        assert_eq!(record.state, RunState::Complete, "{folder:?}");
        let period = record.period.as_ref().expect("a period");
        assert_eq!((&period.recording, period.pid), (&name, busy.pid()));
        assert_eq!(period.labels["env"], "test");
        let length = (record.phases[0].end * 1e9).round() as u64;
        if let Some(end) = before {
            assert_eq!(record.origin_unix_ns % 2_000_000_000, 0, "aligned to the wall clock");
            assert!(record.origin_unix_ns.abs_diff(end) < 2_000_000, "a gap before {folder:?}");
        }
        before = Some(record.origin_unix_ns + length);
        let profile = Profile::open(folder).expect("a profile");
        assert!(profile.is_consistent());
        assert_eq!(profile.header.pid, busy.pid());
        let last = profile.samples.iter().map(|it| it.t).max();
        assert!(last.is_none_or(|last| last < length), "{last:?} of {length} in {folder:?}");
        samples += profile.samples.len();
        if let Some(share) = profile.cpu_share {
            let sampled = profile.total_weight() as f64 * profile.header.period_ns as f64;
            cpu = (cpu.0 + sampled, cpu.1 + sampled / share);
        }
    }
    assert!(all.len() >= 4, "{all:?}");
    assert!(cpu.0 >= 0.95 * cpu.1, "{cpu:?}");
    let told = ended.stdout.lines().filter(|line| line.contains("samples")).count();
    assert_eq!(told, all.len(), "{}", ended.stdout);

    // All periods as one profile; then one of them by its time.
    let sum = |window: &str| {
        let rows = top(dir, &[&format!("{name}@{window}"), "--json", "--limit", "100000"]);
        rows.iter().filter_map(|row| row["samples"].as_u64()).sum::<u64>() as usize
    };
    assert_eq!(sum("-1h.."), samples);
    let (folder, record) = &all[2];
    let from = jiff::Timestamp::from_nanosecond(i128::from(record.origin_unix_ns)).expect("a time");
    let to = from + jiff::SignedDuration::from_secs(2);
    assert_eq!(sum(&format!("{from}..{to}")), Profile::open(folder).expect("a profile").samples.len());
    let listed = common::run(dir, &["runs", "--filter", "label=env=test", "--json"]).printed();
    assert_eq!(listed.as_array().map(Vec::len), Some(all.len()));
    common::run(dir, &["top", "nobody@-1h.."]).assert_error(1, &["holds no period"]);
    common::run(dir, &["top", "x@9..8x"]).assert_error(2, &["is not a time"]);
}

fn top(dir: &Path, args: &[&str]) -> Vec<Value> {
    let args = [&["top"], args].concat();
    let printed = common::run(dir, &args).json();
    let rows = printed.get("functions").unwrap_or(&printed).as_array();
    rows.expect("rows").clone()
}

#[test]
fn old_periods_go_and_only_those() {
    let dir = &*common::folder();
    testkit::skip_for!(refused(dir));
    let name = unique("kept");
    let _busy = Busy::start(dir, &name);
    let foreign = dir.join(RUNS).join("2020-01-01T00-00-00Z-other-abcd");
    fs::create_dir_all(&foreign).expect("make");
    fs::write(foreign.join("series.jsonl"), "").expect("write");
    let started = record(dir, &["--name", &name, "--every", "1s", "--keep", "3s"]);
    let begun = Instant::now();
    let mut most = 0;
    while begun.elapsed() < Duration::from_secs(8) {
        most = most.max(ended_periods(dir));
        thread::sleep(Duration::from_millis(100));
    }
    stop(started);
    let left = ended_periods(dir);
    assert!((3..=5).contains(&left) && most <= 6, "{left}, at most {most}");
    assert!(foreign.join("series.jsonl").exists());
}

#[test]
fn processes_that_end_are_found_again_and_several_are_followed() {
    let dir = &*common::folder();
    testkit::skip_for!(refused(dir));
    let (one, two) = (unique("one"), unique("two"));
    let started = record(dir, &["--name", &one, "--name", &two, "--every", "1s", "--recording", "both"]);
    // It waits for them.
    thread::sleep(Duration::from_millis(1_500));
    let mut first = Busy::start(dir, &one);
    let second = Busy::start(dir, &two);
    let of = |pid: u32| {
        let all = periods(dir);
        let ours = all.iter().filter(|(_, it)| it.period.as_ref().is_some_and(|it| it.pid == pid));
        ours.filter(|(_, it)| it.state != RunState::Running).count()
    };
    wait_for("period of each", || of(first.pid()) > 0 && of(second.pid()) > 0);
    let ended = first.pid();
    first.kill();
    let again = Busy::start(dir, &one);
    wait_for("period of the new one", || of(again.pid()) > 1);
    let told = stop(started);
    told.says([
        &*format!("no process is called {one}, {two}"),
        &format!("{one} ({ended}) has ended"),
        &format!("recording {one} ({})", again.pid()),
        &format!("recording {two} ({})", second.pid()),
    ]);
    // The sum says how many processes there were; each has periods of its own.
    let rows = top(dir, &["both@-1h..", "--by", "module", "--json"]);
    let modules: Vec<&str> = rows.iter().filter_map(|row| row["function"].as_str()).collect();
    assert!([&one, &two].iter().all(|name| modules.contains(&name.as_str())), "{modules:?}");
}

fn run_time(pid: u32) -> Duration {
    let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).expect("a process");
    let nanoseconds = text.split(' ').next().and_then(|it| it.parse().ok());
    Duration::from_nanos(nanoseconds.expect("nanoseconds"))
}

#[test]
fn a_recording_of_one_process_ends_with_it() {
    let dir = &*common::folder();
    testkit::skip_for!(refused(dir));
    let mut busy = Busy::start(dir, "single");
    let pid = busy.pid().to_string();
    let started = record(dir, &["--pid", &pid, "--every", "1h"]);
    wait_for("folder", || !periods(dir).is_empty());
    // Time that it ran, however busy the machine is: 99 samples a second.
    let before = run_time(busy.pid());
    wait_for("time to run", || run_time(busy.pid()) > before + Duration::from_millis(700));
    busy.kill();
    started.end().ok().says(["has ended"]);
    let all = periods(dir);
    let (folder, _) = testkit::only(&all);
    assert!(Profile::open(folder).expect("a profile").total_weight() > 50);
    record(dir, &["--pid", &pid, "--every", "60s"]).end().assert_error(1, &["no process"]);
}

#[test]
fn a_recording_that_is_killed_leaves_what_it_had() {
    let dir = &*common::folder();
    testkit::skip_for!(refused(dir));
    let name = unique("killed");
    let busy = Busy::start(dir, &name);
    let started = record(dir, &["--name", &name, "--every", "3s"]);
    wait_for("period", || ended_periods(dir) >= 1);
    let before = run_time(busy.pid());
    wait_for("time to run", || run_time(busy.pid()) > before + Duration::from_millis(700));
    // What was sampled is written once a second.
    thread::sleep(Duration::from_millis(1_500));
    started.signal("KILL");
    started.end();
    let all = periods(dir);
    let with_samples = all.iter().filter(|(folder, _)| Profile::open(folder).is_ok_and(|it| it.samples.len() > 20));
    assert!(with_samples.count() >= 2, "{all:?}");
    let running = all.iter().filter(|(_, it)| it.state == RunState::Running);
    assert!((1..=2).contains(&running.count()));
    // The next recording of this name takes care of them.
    record(dir, &["--name", &name, "--every", "1s", "--keep", "1s", "--duration", "4s"]).end().assert_ok();
    let left = periods(dir);
    let is_old = |folder: &Path| all.iter().any(|(old, _)| old == folder);
    assert!(!left.iter().any(|(folder, _)| is_old(folder)), "{left:?}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let dir = &*common::folder();
    let pid = std::process::id().to_string();
    for [args, part] in testkit::table(include_str!("../../data/no-recordings.txt")) {
        record(dir, &common::words(&format!("--pid {pid} {args}"))).end().ends(2).says([part]);
    }
    record(dir, &["--name", "a", "--name", "b"]).end().assert_error(2, &["several processes"]);
}
