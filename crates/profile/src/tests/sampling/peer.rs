//! Peer `perf record`, on one process at one time: the largest functions must have equal shares within sampling error.

use std::collections::{BTreeSet, HashMap};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::Stacks;
use crate::tests::sampling::child::Process;
use crate::tests::sampling::{FREQUENCY, profile_by, refused};
use stacks::Profile;

/// Samples in all, and per function those at the leaf and those anywhere in the stack.
#[derive(Default)]
struct Counts {
    samples: u64,
    functions: HashMap<String, (u64, u64)>,
}

impl Counts {
    /// Adds a stack, leaf first.
    fn add<'n>(&mut self, stack: impl Iterator<Item = &'n str>) {
        let mut seen = BTreeSet::new();
        for (i, name) in stack.map(last_part).enumerate() {
            let function = self.functions.entry(name.to_owned()).or_default();
            function.0 += u64::from(i == 0);
            function.1 += u64::from(seen.insert(name));
        }
        self.samples += 1;
    }
}

/// The two demangle differently (hash, generic arguments); the last part is the same.
fn last_part(name: &str) -> &str {
    let mut parts = name.rsplit("::");
    let last = parts.next().unwrap_or(name);
    let is_hash = last.len() == 17 && last.starts_with('h');
    if is_hash { parts.next().unwrap_or(last) } else { last }
}

/// Some releases of perf print Rust's names as the compiler writes them.
fn demangled(name: &str) -> String {
    rustc_demangle::try_demangle(name).map_or_else(|_| name.to_owned(), |readable| format!("{readable:#}"))
}

fn ours(profile: &Profile) -> Counts {
    let mut counts = Counts::default();
    for sample in &profile.samples {
        counts.add(profile.stack(sample.stack).iter().rev().map(|frame| frame.name.as_str()));
    }
    counts
}

/// `perf script` prints a line per sample, its stack below with the leaf first, an empty line.
fn theirs(script: &str) -> Counts {
    let mut counts = Counts::default();
    for sample in script.split("\n\n").filter(|sample| !sample.trim().is_empty()) {
        let frames = sample.lines().filter(|line| line.starts_with([' ', '\t']));
        let names = frames.filter_map(|line| line.trim().split_once(' ').map(|(_, name)| name));
        let names: Vec<String> = names.map(demangled).collect();
        counts.add(names.iter().map(String::as_str));
    }
    counts
}

#[test]
fn the_ten_largest_functions_have_the_shares_that_perf_finds() {
    testkit::skip_for!(refused());
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("perf.data");
    let child = Process::start("parts");
    let perf = Command::new("perf")
        .args(["record", "-q", "-F", &FREQUENCY.to_string(), "-g", "-e", "cpu-clock", "-o"])
        .arg(&data)
        .args(["-p", &child.pid().to_string()])
        .stdout(Stdio::null())
        .spawn();
    let Ok(mut perf) = perf else {
        testkit::skip!("perf is not installed");
    };
    // As perf unwinds them.
    let (profile, outcome) = profile_by(child.pid(), Duration::from_secs(3), Stacks::FramePointers);
    testkit::signal(perf.id(), "INT");
    perf.wait().unwrap();
    let script = Command::new("perf")
        .args(["script", "-F", "tid,ip,sym", "-i"])
        .arg(&data)
        .stderr(Stdio::null())
        .output()
        .unwrap();
    let (ours, theirs) = (ours(&profile), theirs(&String::from_utf8_lossy(&script.stdout)));
    assert_eq!((ours.samples, outcome.lost), (outcome.samples, 0));
    assert!(theirs.samples > 1000, "perf found {} samples", theirs.samples);
    for at_leaf in [true, false] {
        compare(&ours, &theirs, at_leaf);
    }
}

/// The difference of two shares of `n` and `m` independent samples has this standard deviation;
/// four of them, and a quarter of a per cent for samples at the edges of either window.
fn compare(ours: &Counts, theirs: &Counts, at_leaf: bool) {
    let count = |counts: &Counts, name: &str| {
        let (leaf, total) = counts.functions.get(name).copied().unwrap_or_default();
        let samples = if at_leaf { leaf } else { total };
        samples as f64 / counts.samples as f64
    };
    let mut names: Vec<_> = theirs.functions.keys().collect();
    names.sort_by(|a, b| count(theirs, b).total_cmp(&count(theirs, a)));
    let ten = names.into_iter().filter(|name| *name != "[unknown]").take(10);
    let mut compared = 0;
    for name in ten {
        let (a, b) = (count(ours, name), count(theirs, name));
        let p = f64::midpoint(a, b);
        let per_sample = 1.0 / ours.samples as f64 + 1.0 / theirs.samples as f64;
        let error = 4.0 * (p * (1.0 - p) * per_sample).sqrt() + 0.0025;
        let place = if at_leaf { "self" } else { "total" };
        assert!((a - b).abs() <= error, "{place} share of {name}: {a} here, {b} by perf, +-{error}");
        compared += 1;
    }
    assert_eq!(compared, 10);
}
