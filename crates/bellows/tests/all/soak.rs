//! `make soak`: 1,000 connections for 30 minutes (`SOAK_MINUTES`), then a judgement: does memory grow,
//! does a descriptor stay open? Too long for `make test`, so it is ignored there.
//!
//! The broker's memory holds what is in its queues, so the load is one that it can keep up with, and
//! `SOAK_RATE` lowers it for a machine that cannot.

use crate::common;

use std::process::Child;
use std::time::{Duration, Instant};

use common::{bellows, start};

/// Half of them send, half receive; ten queues.
const CONNECTIONS: usize = 1_000;
const QUEUES: usize = 10;
/// The first part of the run in which memory may still grow: connections, pools, first histograms.
const SETTLING: f64 = 0.2;
/// Growth over the judged part that is no leak: pages that the allocator keeps, and the series' 40 bytes a second.
const GROWTH_MB: f64 = 2.0;

#[derive(Clone, Copy, Debug)]
struct Sample {
    seconds: f64,
    rss_mb: f64,
    descriptors: usize,
}

fn sample(pid: u32, since: Instant) -> Option<Sample> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let kb = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix("kB"))?;
    let kb = kb.trim().parse::<f64>().ok()?;
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count();
    Some(Sample { seconds: since.elapsed().as_secs_f64(), rss_mb: kb * 1024.0 / 1e6, descriptors })
}

/// Megabytes per hour by least squares.
fn slope(samples: &[Sample]) -> f64 {
    let n = samples.len() as f64;
    let mean = |of: fn(&Sample) -> f64| samples.iter().map(of).sum::<f64>() / n;
    let (t, m) = (mean(|s| s.seconds), mean(|s| s.rss_mb));
    let covariance: f64 = samples.iter().map(|s| (s.seconds - t) * (s.rss_mb - m)).sum();
    let variance: f64 = samples.iter().map(|s| (s.seconds - t).powi(2)).sum();
    covariance / variance * 3_600.0
}

/// Prints a process's resources, and returns their faults.
fn judge(name: &str, all: &[Sample]) -> Vec<String> {
    let settled = (all.len() as f64 * SETTLING) as usize;
    let judged = &all[settled..];
    let (first, last) = (judged[0], judged[judged.len() - 1]);
    let per_hour = slope(judged);
    let growth = per_hour * (last.seconds - first.seconds) / 3_600.0;
    let peak = all.iter().map(|s| s.rss_mb).fold(0.0, f64::max);
    let (fewest, most) =
        judged.iter().fold((usize::MAX, 0), |(low, high), s| (low.min(s.descriptors), high.max(s.descriptors)));
    println!(
        "soak: {name:8} memory {:.1} MB at {:.0} s, {:.1} MB at {:.0} s, peak {peak:.1} MB; slope \
         {per_hour:+.2} MB/h ({growth:+.2} MB here); descriptors {fewest} to {most}; {} samples",
        first.rss_mb,
        first.seconds,
        last.rss_mb,
        last.seconds,
        judged.len()
    );
    let mut wrong = Vec::new();
    if growth > GROWTH_MB {
        wrong.push(format!("{name}: memory grew by {growth:.1} MB, more than {GROWTH_MB} MB"));
    }
    if fewest != most {
        wrong.push(format!("{name}: between {fewest} and {most} descriptors were open"));
    }
    wrong
}

fn setting(name: &str, default: f64) -> f64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

/// Samples of client and broker while the client runs.
fn watch(client: &mut Child, broker: u32, since: Instant, every: Duration) -> [Vec<Sample>; 2] {
    let mut taken = [Vec::new(), Vec::new()];
    let mut next = since + every;
    while client.try_wait().expect("wait").is_none() {
        std::thread::sleep(Duration::from_millis(100));
        if Instant::now() >= next {
            next += every;
            for (pid, samples) in [client.id(), broker].into_iter().zip(&mut taken) {
                samples.extend(sample(pid, since));
            }
        }
    }
    taken
}

#[test]
#[ignore = "30 minutes: make soak"]
fn a_thousand_connections_for_half_an_hour_leave_memory_flat_and_no_descriptor_open() {
    let seconds = setting("SOAK_MINUTES", 30.0) * 60.0;
    let rate = setting("SOAK_RATE", 5_000.0);
    let (broker, dir) = &common::broker_in_folder();
    let (serving, url) = (broker.child.id(), &broker.url);
    let before = sample(serving, Instant::now()).expect("the broker's process");
    let each = CONNECTIONS / 2 / QUEUES;
    let line = format!(
        "client queue://soak --num-destinations {QUEUES} --producers {each} --consumers {each} \
         --rate {rate} --max-pending 10 --message-size 64 --warmup 5 --duration {seconds} \
         --url {url} --quiet --json"
    );
    println!("soak: bellows {line}");
    let since = Instant::now();
    let mut client = start(bellows(dir, &common::words(&line)));
    // Nothing is judged before all connections are there, nor while they go.
    let every = Duration::from_secs_f64((seconds / 180.0).clamp(0.5, 10.0));
    let [mut own, mut theirs] = watch(&mut client.child, serving, since, every);
    let ended = client.end_of_long();
    for samples in [&mut own, &mut theirs] {
        samples.retain(|s| s.seconds > 8.0 && s.seconds < seconds + 4.0);
        assert!(samples.len() >= 10, "too short to judge: {samples:?}");
    }
    let summary = ended.json();
    let messages = &summary["scenarios"]["messages"];
    println!(
        "soak: {} sent, {} received in {:.1} minutes; ledger {}",
        messages["sent"]["total"],
        messages["received"]["total"],
        since.elapsed().as_secs_f64() / 60.0,
        messages["ledger"]
    );
    let mut wrong = judge("client", &own);
    wrong.extend(judge("broker", &theirs));
    let after = sample(serving, since).expect("the broker's process");
    println!("soak: the broker holds {} descriptors afterwards, {} before", after.descriptors, before.descriptors);
    if after.descriptors != before.descriptors {
        wrong.push("the broker kept descriptors of closed connections".to_owned());
    }
    let lost = &messages["ledger"]["lost"];
    if *lost != 0 {
        wrong.push(format!("{lost} messages were lost"));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    println!("soak: memory flat, no descriptor left open");
}

#[test]
fn a_leak_is_told_from_noise() {
    let samples = |per_hour: f64| -> Vec<Sample> {
        let at = |i: u32| Sample {
            seconds: f64::from(i) * 10.0,
            rss_mb: 30.0 + f64::from(i) * 10.0 / 3_600.0 * per_hour + f64::from(i % 3) * 0.1,
            descriptors: 1_010,
        };
        (0..180).map(at).collect()
    };
    assert!((slope(&samples(12.0)) - 12.0).abs() < 0.5);
    assert!(judge("flat", &samples(0.0)).is_empty());
    assert_eq!(judge("leak", &samples(12.0)).len(), 1);
    let mut left_open = samples(0.0);
    left_open[170].descriptors += 1;
    assert_eq!(judge("left open", &left_open).len(), 1);
}
