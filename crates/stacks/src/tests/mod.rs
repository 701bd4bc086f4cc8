//! Tests of the model against small profiles written down by hand, and against plain models.

mod classes;
mod forms;
mod known;
mod lines;
mod others;
mod perf_lines;
mod perf_script;
mod stacks_file;
mod tables;
mod tools;

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::frames::{Frame, FrameKind};
use super::model::{Profile, ProfileHeader, Sample};
use super::tree::Builder;
use measure::Time;
use tempfile::TempDir;

/// A profile of stacks written as in folded text, `thread;root;…;leaf`, each with its weight, one millisecond after
/// another. A leaf that ends in `!` makes the stack an incomplete one, which begins with a frame without a name.
pub(super) fn profile(stacks: &[(&str, u64)]) -> Profile {
    let mut builder = Builder::default();
    for (i, (stack, weight)) in (0u64..).zip(stacks) {
        let complete = !stack.ends_with('!');
        let (thread, frames) = stack.trim_end_matches('!').split_once(';').unwrap();
        let thread = builder.thread(thread);
        let mut parent = None;
        if !complete {
            let unknown = builder.frame(&Frame::unknown("beam.smp"));
            parent = Some(builder.node(None, unknown));
        }
        for name in frames.split(';') {
            let (module, kind) = match name.as_bytes().first() {
                Some(b'$') => ("[jit]", FrameKind::Erlang),
                Some(b'_') => ("[kernel]", FrameKind::Kernel),
                _ => ("broker", FrameKind::Native),
            };
            let frame = builder.frame(&Frame::new(name, module, kind));
            parent = Some(builder.node(parent, frame));
        }
        let (t, stack) = (i * 1_000_000, parent.unwrap());
        let sample = Sample { t, weight: *weight, stack, thread, cpu: 1, complete, ..Sample::default() };
        builder.profile.samples.push(sample);
    }
    let mut profile = builder.profile;
    profile.header = ProfileHeader {
        event: "cpu".into(),
        kernel_event: "cpu-clock".into(),
        unit: "samples".into(),
        period_ns: 1_000_000,
        frequency: 1000,
        pid: 4711,
        command: "broker".into(),
        ..ProfileHeader::new(Time(77), 1_795_000_000_000_000_000)
    };
    profile.span = Some((5, 9_000_000));
    profile.own_cpu_ns = 12;
    profile.cpu_share = Some(0.875);
    assert!(profile.is_consistent());
    profile
}

/// A file with this content, in a folder of its own.
pub(super) fn file(name: &str, content: impl AsRef<[u8]>) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    fs::write(&path, content).unwrap();
    (dir, path)
}

/// A profile in both forms that keep all of it, in a folder of its own.
pub(super) fn stored(profile: &Profile) -> (TempDir, [PathBuf; 2]) {
    let dir = tempfile::tempdir().unwrap();
    let paths = ["x.stacks", "x.pb.gz"].map(|name| dir.path().join(name));
    profile.write_stacks(&paths[0]).unwrap();
    fs::write(&paths[1], profile.to_pprof().unwrap()).unwrap();
    (dir, paths)
}

/// Name, self weight and total weight of each function.
pub(super) fn rows(profile: &Profile) -> Vec<(String, u64, u64)> {
    profile.functions().into_iter().map(|it| (it.share.function, it.self_weight, it.total_weight)).collect()
}

pub(super) fn row(name: &str, own: u64, total: u64) -> (String, u64, u64) {
    (name.to_owned(), own, total)
}

pub(super) fn packed(bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(bytes.as_ref()).unwrap();
    gzip.finish().unwrap()
}

/// Shared by other tests: two schedulers, recursion, a cut-off stack.
fn small() -> Profile {
    profile(&[
        ("1_scheduler;main;$loop/1;$route/2", 3),
        ("2_scheduler;main;$loop/1;$route/2", 1),
        ("1_scheduler;main;$loop/1;$fold/3;$fold/3;$route/2", 2),
        ("aux;main", 1),
        ("1_scheduler;$send/2;_tcp_sendmsg!", 3),
    ])
}
