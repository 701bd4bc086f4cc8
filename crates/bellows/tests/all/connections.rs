//! Ten thousand connections from one process to one embedded broker.

use crate::common;

use std::fs;
use std::time::Duration;

/// Bytes of memory that an idle connection may take on the load's side.
const MOST_BYTES: u64 = 24 << 10;

/// Resident memory of its own: the code that it runs is no connection's.
fn resident_bytes(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("RssAnon:"));
    line.and_then(|l| l.trim().strip_suffix(" kB")?.parse::<u64>().ok()).unwrap_or(0) * 1_024
}

fn open_files(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

#[test]
fn one_process_opens_ten_thousand_connections() {
    let hard = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum;
    if hard.is_some_and(|hard| hard < 10_300) {
        testkit::skip!("ulimit -Hn is {hard:?}; 10,000 connections need 10,300");
    }
    let (broker, dir) = &common::broker_in_folder();
    let line = format!(
        "client queue://many --url {} --producers 5000 --consumers 5000 --rate 1000 --message-size 32 --duration 4 \
         --json --no-archive",
        broker.url
    );
    let load = common::start(common::bellows(dir, &common::words(&line)));
    let pid = load.child.id();
    common::wait_for("connections", || open_files(pid) >= 10_000);
    // Well into the load.
    std::thread::sleep(Duration::from_secs(2));
    let each = resident_bytes(pid) / 10_000;
    let summary = load.end().json();
    let messages = &summary["scenarios"]["messages"];
    assert_eq!(messages["ledger"]["lost"].as_u64(), Some(0), "{summary:#}");
    let sent = messages["sent"]["total"].as_u64().expect("sent");
    // What was due and could not be sent in time where others have the cores is left out.
    assert!((2_000..=4_010).contains(&sent), "{sent} sent of 4,000");
    assert_eq!(messages["received"]["total"].as_u64(), Some(sent));
    eprintln!("{each} bytes of memory for each connection");
    assert!(each < MOST_BYTES, "{each} bytes for each connection");
}
