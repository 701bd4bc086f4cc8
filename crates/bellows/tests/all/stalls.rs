//! Attribution of a stall: who stood still, for how long, and what it delayed. That the engine finds each silence, at
//! its instants, is tested in virtual time, in `load`.

use crate::common;

use std::path::Path;
use std::time::Duration;

use common::{Broker, bellows, folder, start, stop_for};
use serde_json::Value;

/// A broker that answers after 5 ms: something is always in flight.
const SCRIPT: &str = "[[fault]]\nkind = \"slow-ack\"\ndelay = \"5ms\"\n";
/// A machine with other things to do can spoil a run; not every time.
const ATTEMPTS: usize = 3;

/// Runs 2,000 msg/s for 2 s, and stops the broker meanwhile, for this long.
fn stopped(dir: &Path, broker: &Broker, length: Duration) -> Value {
    let url = &broker.url;
    let line = format!(
        "producer queue://stalls --url {url} --warmup 300ms --duration 2 --rate 2000 --max-pending 100 --purge --json \
         --quiet"
    );
    let started = start(bellows(dir, &common::words(&line)));
    std::thread::sleep(Duration::from_millis(1_000));
    stop_for(broker.child.id(), length);
    started.end().json()
}

fn assert_right(wrong: impl Fn() -> Option<String>) {
    let tried: Vec<String> = (0..ATTEMPTS).map_while(|_| wrong()).collect();
    assert!(tried.len() < ATTEMPTS, "{tried:#?}");
}

/// The fault in what a run reports of a stop.
fn wrong(summary: &Value, length: Duration) -> Option<String> {
    let found = &summary["stalls"][0];
    let off = found["for_s"].as_f64()? - length.as_secs_f64();
    let warned = summary["warnings"].as_array()?.iter().any(|it| it["code"] == "stalled");
    let sentence = summary["verdict"]["sentence"].as_str()?;
    let right = found["who"] == "broker"
        && off.abs() < 0.15
        && found["connections"] == 1
        && warned
        && !sentence.contains("--max-pending")
        && !sentence.contains("--threads");
    (!right).then(|| format!("{found}: {sentence}"))
}

#[test]
fn a_broker_that_stands_still_is_named_with_its_time() {
    let dir = &*folder();
    let faults = dir.join("slow.toml");
    std::fs::write(&faults, SCRIPT).expect("a script");
    let broker = Broker::with(dir, &["--faults", &faults.to_string_lossy()]);
    let length = Duration::from_millis(500);
    assert_right(|| wrong(&stopped(dir, &broker, length), length));
}

#[test]
fn a_stall_under_churn_is_named() {
    let (broker, dir) = &common::broker_in_folder();
    let line = format!("churn connections --url {} --rate 100 --warmup 300ms --duration 3 --json --quiet", broker.url);
    let words = common::words(&line);
    assert_right(|| {
        let started = start(bellows(dir, &words));
        std::thread::sleep(Duration::from_millis(1_500));
        stop_for(broker.child.id(), Duration::from_millis(600));
        let summary = started.end().json();
        let stall = &summary["stalls"][0];
        let for_s = stall["for_s"].as_f64().unwrap_or(0.0);
        let cycles = stall["messages_delayed"].as_u64().unwrap_or(0);
        let sentence = summary["verdict"]["sentence"].as_str().unwrap_or("");
        let right = stall["who"] == "broker"
            && (0.5..0.75).contains(&for_s)
            && (50..80).contains(&cycles)
            && sentence.contains("the broker stopped answering for");
        (!right).then(|| format!("{}: {sentence}", summary["stalls"]))
    });
}

/// A broker that stops at the end and does not come back in time: work due counts with the time it has waited.
#[test]
fn what_has_no_answer_at_the_end_counts_with_the_time_it_has_waited() {
    let dir = &*folder();
    let broker = Broker::start(dir);
    let text = format!(
        "[broker]\nkind = \"attach\"\nurl = \"{}\"\n[phases]\nwarmup = \"0s\"\nmeasure = \"2s\"\ndrain = \"500ms\"\n\
         [profile]\nevents = []\n\
         [[load]]\ndestination = \"queue://stalls\"\nrate = 1000\nmax-pending = 100\n",
        broker.url
    );
    std::fs::write(dir.join("stops.toml"), text).expect("an experiment");
    let started = start(bellows(dir, &["run", "stops.toml", "--json", "--quiet"]));
    std::thread::sleep(Duration::from_millis(1_500));
    stop_for(broker.child.id(), Duration::from_millis(2_500));
    let summary = started.end().printed();
    let messages = &summary["scenarios"]["messages"];
    let count = |value: &Value| value.as_u64().unwrap_or(0);
    let warning = common::named(&summary["warnings"], "code", "messages_unanswered");
    assert_eq!(warning["tier"], "caution");
    let censored = count(&warning["values"]["unanswered"]) + count(&warning["values"]["unsent"]);
    let latency = &messages["latency"]["ack_response"];
    assert_eq!(count(&latency["count"]), count(&messages["completed"]["total"]) + censored, "{latency}");
    // Over a tenth of the messages waited for over 500 ms, and the 99th percentile says so.
    assert!(censored > 200 && count(&latency["p99_ns"]) > 500_000_000, "{censored}: {latency}");
    assert_eq!(summary["stalls"][0]["who"], "broker", "{}", summary["stalls"]);
}
