//! Misbehaviour of the other side: one clear line with its remedy, the right exit code, no hang.

use crate::common;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{Broker, bellows, folder, run, seconds_recorded, server_that_says, start, wait_for};
use stacks::Profile;

fn client(dir: &Path, url: &str, more: &[&str]) -> common::Ended {
    let base = ["client", "queue://Q", "--url", url, "--duration", "1", "--quiet"];
    run(dir, &[&base[..], more].concat())
}

fn nothing_is_left(dir: &Path) {
    let runs = fs::read_dir(dir.join("runs"));
    assert_eq!(runs.map_or(0, Iterator::count), 0, "a run folder was left");
}

#[test]
fn with_json_an_error_is_an_object_with_cause_value_and_remedy() {
    let (broker, dir) = &common::broker_in_folder();
    let wrong = format!("amqp://guest:s3cret@{}", broker.address());
    let many = u32::MAX.to_string();
    for (code, cause, url, args) in [
        (1, "cannot log in to", &wrong, ["--json", "--no-archive"].as_slice()),
        (2, "", &broker.url, &["--json", "--rate", "-1"]),
        (2, "", &broker.url, &["--json", "--num-destinations", &many]),
    ] {
        let ended = client(dir, url, args).ends(code);
        let told = ended.printed();
        let field = |name: &str| told["error"][name].as_str().unwrap().to_owned();
        assert!(field("cause").starts_with(cause), "{told}");
        assert!(!field("value").is_empty() && !field("help").is_empty(), "{told}");
        ended.prints_not(["s3cret"]).says(["error: "]);
    }
    nothing_is_left(dir);
}

#[test]
fn a_server_that_is_away_or_refuses_or_misbehaves_is_told() {
    let (broker, dir) = &common::broker_in_folder();
    client(dir, &broker.url, &["--no-declare"]).assert_error(1, &["NOT_FOUND", "404"]);
    client(dir, &broker.url, &["--no-archive"]).assert_ok();
    let says = |greeting: &'static [u8]| format!("amqp://{}", server_that_says(greeting));
    // The header of a method frame on channel 0 that announces 500 bytes, and ten of them.
    let cut_off = says(&[1, 0, 0, 0, 0, 1, 0xf4, 0, 10, 0, 10, 0, 9, 0, 0, 0, 0]);
    let garbage = says(&[0xde, 0xad, 0xbe, 0xef, 0xde, 0xad, 0xbe, 0xef, 0xff, 0xff]);
    let nobody = format!("amqp://127.0.0.1:{}", common::free_port());
    let wrong = format!("amqp://guest:s3cret@{}", broker.address());
    for (url, more, parts) in [
        (nobody, &[][..], &["cannot connect to amqp://guest@127.0.0.1", "refused"][..]),
        ("amqp://no-such-host.invalid".into(), &[], &["cannot connect to amqp://guest@no-such-host.invalid"]),
        (wrong, &[], &["cannot log in to amqp://guest@", "ACCESS_REFUSED", "403"]),
        (format!("{}/nowhere", broker.url), &[], &["/nowhere", "NOT_ALLOWED", "530"]),
        // It said "lost the connection", and to see the broker's log.
        (format!("{}/nowhere", broker.url), &["--protocol", "amqp10"], &["cannot log in", "/nowhere", "vhost nowhere"]),
        (says(b"HTTP/1.1 400 Bad Request\r\n\r\n"), &[], &["HTTP"]),
        (garbage, &[], &["does not speak AMQP 0-9-1", "offset 0", "de ad be ef"]),
        (cut_off, &[], &["no answer from amqp://guest@", "within 10.", "17 bytes"]),
        (broker.url.clone(), &["--queue-args", "x-max-length=5"], &["declare", "\"Q\"", "PRECONDITION_FAILED", "406"]),
    ] {
        client(dir, &url, more).assert_error(1, parts).says_not(["s3cret"]);
        nothing_is_left(dir);
    }
}

#[test]
fn a_load_that_is_refused_has_emptied_no_queue() {
    let (broker, dir) = &common::broker_in_folder();
    let on = |more: &[&str]| run(dir, &[more, &["--url", &broker.url, "--no-archive", "--quiet"]].concat());
    on(&["producer", "queue://kept", "--message-count", "5"]).assert_ok();
    let limited = ["queue://limited", "--queue-args", "x-max-length=5"];
    on(&[&["producer", "--message-count", "1"], &limited[..]].concat()).assert_ok();
    let both = ["queue://kept", "queue://limited", "--purge"];
    on(&[&["client", "--duration", "1"], &both[..]].concat()).assert_error(1, &["PRECONDITION_FAILED", "limited"]);
    let channels = ["--producers", "3000", "--shared-connections", "1"];
    on(&[&["producer", "queue://kept", "--duration", "1", "--purge"], &channels[..]].concat())
        .assert_error(2, &["cannot share a connection", "channels"]);
    let summary = on(&["consumer", "queue://kept", "--duration", "1", "--json"]).json();
    assert_eq!(summary["scenarios"]["messages"]["received"]["total"], 5, "{summary}");
}

#[test]
fn the_broker_is_killed_in_the_middle() {
    let (broker, dir) = &common::broker_in_folder();
    let client = start(bellows(dir, &["client", "--url", &broker.url, "--rate", "500", "--duration", "50", "--quiet"]));
    wait_for("recorded second", || seconds_recorded(dir) >= 2);
    common::signal(broker.child.id(), "KILL");
    let ended = client.end();
    ended.assert_error(1, &["lost the connection to amqp://guest@"]).prints(["client  failed: "]);
    // The end says it, too, where both are one screen.
    ended.prints_not(["lost the connection"]);
    run(dir, &["runs", "show"]).ok().prints(["failed ", "lost the connection to amqp://guest@"]);
    let record = common::record(dir);
    assert_eq!((&record["state"], &record["problem"]), (&"failed".into(), &record["summary"]["error"]));
    let cause = record["problem"]["cause"].as_str().unwrap();
    assert!(cause.starts_with("lost the connection to"), "{cause}");
    assert!(record["error"].as_str().unwrap().starts_with(cause), "{record}");
    assert!(ended.report().is_file(), "what was measured until then has no report: {ended:#?}");
}

/// Nothing is started, and no load applied, for output that could never be written or used.
#[test]
fn what_cannot_work_is_refused_before_the_start() {
    let dir = &*folder();
    for args in [
        &["client", "--hdr", "no/such/folder.hlog"] as &[&str],
        &["client", "--hdr", "."],
        &["run", "rated", "--set", "load.0.source-addresses=[\"192.0.2.1\"]"],
        &["churn", "connections", "--source-addresses", "192.0.2.1"],
    ] {
        let ended = run(dir, args);
        let code = ended.code().unwrap_or_default();
        ended.assert_error(code, &["cannot "]);
        assert!(matches!(code, 1 | 2), "{ended:#?}");
        ended.says_not(["starting", "connecting"]);
    }
    run(dir, &["record", "--pid", "4194304", "--duration", "1"]).assert_error(1, &["4194304"]);
    run(dir, &["record", "--name", "no-such-program", "--duration", "1"]).assert_error(1, &["no-such-program"]);
    nothing_is_left(dir);
}

#[test]
fn the_process_dies_while_it_is_profiled() {
    let dir = &*folder();
    let mut busy = Command::new("sh").args(["-c", "while :; do :; done"]).stdin(Stdio::null()).spawn().unwrap();
    let pid = busy.id().to_string();
    let mut recording = start(bellows(dir, &["record", "--pid", &pid, "--duration", "50"]));
    // However late both get a core; where profiling is not permitted, the command has ended.
    let is_sampled = || {
        let folder = common::folder_with(dir, "cpu.stacks");
        folder.is_some_and(|it| Profile::open(it).is_ok_and(|profile| profile.total_weight() > 0))
    };
    while !is_sampled() && recording.child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(100));
    }
    busy.kill().unwrap();
    busy.wait().unwrap();
    let killed = Instant::now();
    let ended = recording.end();
    assert!(killed.elapsed().as_secs() < 20, "it went on without the process: {ended:#?}");
    ended.says_not(["panicked"]);
    if ended.code() != Some(0) {
        // Where profiling is not permitted, that is what it says.
        ended.assert_error(1, &["profil"]);
        testkit::skip!("this user may not profile: {}", ended.stderr);
    }
    assert!(ended.prints(["% self"]).report().is_file(), "{ended:#?}");
}

#[test]
fn the_disk_is_full() {
    let dir = &*folder();
    let Some(disk) = SmallDisk::mount(&dir.join("disk")) else {
        testkit::skip!("mounting a small disk (tmpfs) takes root");
    };
    let broker = Broker::start(dir);
    let runs = disk.0.join("runs");
    let line = format!("client --url {} --rate 500 --duration 3 --quiet --runs {}", broker.url, runs.display());
    let args = common::words(&line);
    // Room for the first file and nothing more.
    fs::write(disk.0.join("filler"), vec![0; 44 << 10]).unwrap();
    let ended = run(dir, &args);
    ended.says_not(["panicked"]).prints(["\nmessages "]);
    ended.assert_error(1, &["report.html", "No space left on device"]);
    // Nothing half-written: what is there can be read.
    run(dir, &["runs", "--runs", runs.to_str().unwrap()]).assert_ok();
}

/// 64 KiB that can be filled, unmounted when dropped.
struct SmallDisk(std::path::PathBuf);

impl SmallDisk {
    fn mount(at: &Path) -> Option<Self> {
        fs::create_dir_all(at).ok()?;
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"]).arg(at).stderr(Stdio::null());
        mount.status().is_ok_and(|s| s.success()).then(|| Self(at.to_owned()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}
