//! Any content of a run folder is read or refused, without panic, in bounded time, with memory within the file's size.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use super::common;
use crate::{LatencyLog, RunReader, RunState, list_runs};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use measure::Problem;
use stacks::{Profile, unpacked};
use testkit::Random;

/// Bytes that reading may take beside the file itself.
const BASE: u64 = 24 << 20;

fn peak(work: impl FnOnce()) -> u64 {
    allocation_counter::measure(work).bytes_max
}

fn run_with(name: &str, bytes: &[u8]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("no failure");
    let record = common::record("x", RunState::Complete);
    fs::write(dir.path().join("run.json"), serde_json::to_vec(&record).expect("no failure")).expect("no failure");
    fs::write(dir.path().join(name), bytes).expect("no failure");
    dir
}

/// Reads all of it, as the report does.
fn read_all(dir: &Path) -> usize {
    let mut found = 0;
    if let Ok(run) = RunReader::open(dir) {
        found += run.points.len() + run.notes.len();
        found += run.histograms().map_or(0, Iterator::count);
        found += usize::from(run.profile().is_ok());
    }
    found + usize::from(Profile::open(dir).is_ok())
}

/// A V2 histogram as a log's line has it: any header, and a payload of zeros.
fn hlog(digits: u32, lowest: u64, highest: u64, promised: u32) -> Vec<u8> {
    let mut plain = 0x1c84_9313u32.to_be_bytes().to_vec();
    for word in [promised, 0, digits] {
        plain.extend(word.to_be_bytes());
    }
    for long in [lowest, highest, 1f64.to_bits()] {
        plain.extend(long.to_be_bytes());
    }
    plain.extend([0; 4]);
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::best());
    zlib.write_all(&plain).expect("no failure");
    let zlib = zlib.finish().expect("no failure");
    let mut whole = 0x1c84_9314u32.to_be_bytes().to_vec();
    whole.extend((zlib.len() as u32).to_be_bytes());
    whole.extend(zlib);
    format!("Tag=send_ack,0.0,1.0,1.0,{}\n", STANDARD.encode(whole)).into_bytes()
}

#[test]
fn a_histogram_takes_no_more_than_it_holds() {
    // The product's own lines are read, so that the next ones are refused for their difference.
    let dir = run_with("latency.hlog", &hlog(3, 1, 3_600_000_000_000, 4));
    let run = RunReader::open(dir.path()).expect("no failure");
    assert_eq!(run.histograms().expect("no failure").count(), 1);
    for (digits, lowest, highest, promised) in [
        (5, 1, u64::MAX / 2, 4),
        (3, 1, 3_600_000_000_000, u32::MAX),
        (3, 1, u64::MAX, u32::MAX),
        (u32::MAX, 1, 2, 4),
        (3, u64::MAX, u64::MAX, 4),
        (3, 0, 0, 4),
        (0, 1 << 62, 1 << 63, 4),
    ] {
        let dir = run_with("latency.hlog", &hlog(digits, lowest, highest, promised));
        let took = peak(|| assert!(read_all(dir.path()) > 0));
        assert!(took < BASE, "{digits} {lowest} {highest} {promised}: {took} bytes");
    }
}

#[test]
fn lines_without_an_end_and_endless_nonsense_take_little() {
    let long = vec![b'x'; 12 << 20];
    let short = b"x\n".repeat(4 << 20);
    for name in ["series.jsonl", "latency.hlog", "cpu.stacks", "cpu.folded"] {
        for bytes in [&long, &short] {
            let dir = run_with(name, bytes);
            let took = peak(|| assert!(read_all(dir.path()) > 0));
            assert!(took < BASE, "{name}: {took} bytes");
        }
    }
}

/// Fields of the outermost message of a pprof, each with a key and a length.
fn fields(number: u8, body: &[u8], times: usize) -> Vec<u8> {
    let mut one = vec![number << 3 | 2, body.len() as u8];
    one.extend(body);
    one.repeat(times)
}

#[test]
fn a_packed_profile_takes_no_multiple_of_what_it_holds() {
    // Empty samples, samples with a value, strings, locations with many lines, packed numbers.
    let bodies = [
        fields(2, &[], 12 << 20),
        fields(2, &[0x12, 1, 1], 5 << 20),
        fields(6, &[], 12 << 20),
        fields(4, &[8, 1, 0x22, 0, 0x22, 0, 0x22, 0], 2 << 20),
        fields(2, &[0x12, 100].iter().copied().chain([1; 100]).collect::<Vec<_>>(), 200_000),
    ];
    for (index, body) in bodies.iter().enumerate() {
        let packed = packed(body);
        let dir = run_with("profile.pb.gz", &packed);
        let took = peak(|| _ = read_all(dir.path()));
        assert!(took < 64 << 20, "{index}: {} bytes took {took}", packed.len());
        // Unpacked it is as large as it says, and still bounded.
        let dir = tempfile::tempdir().expect("no failure");
        let plain = dir.path().join("x.pb");
        fs::write(&plain, body).expect("no failure");
        let took = peak(|| drop(Profile::open(&plain)));
        assert!(took < 800 << 20, "{index}: {} bytes took {took}", body.len());
    }
}

#[test]
fn long_names_that_are_named_again_and_again_are_refused() {
    // One name of 100 kB with a thousand modules each would be a hundred megabytes, three times.
    let name = "n".repeat(100_000);
    let mut message = Vec::new();
    let mut field = |number: u64, body: &[u8]| {
        prost::encoding::encode_varint(number << 3 | 2, &mut message);
        prost::encoding::encode_varint(body.len() as u64, &mut message);
        message.extend_from_slice(body);
    };
    field(6, b"");
    field(6, name.as_bytes());
    field(5, &[8, 1, 16, 1]);
    for id in 1..5_000u64 {
        field(6, format!("m{id}").as_bytes());
        let varint = |key: u8, value: u64| {
            let mut bytes = vec![key];
            prost::encoding::encode_varint(value, &mut bytes);
            bytes
        };
        field(3, &[varint(8, id), varint(40, id + 1)].concat());
        field(4, &[varint(8, id), varint(16, id), vec![0x22, 2, 8, 1]].concat());
        field(2, &[varint(8, id), vec![16, 1]].concat());
    }
    let dir = tempfile::tempdir().expect("no failure");
    let path = dir.path().join("x.pb");
    fs::write(&path, &message).expect("no failure");
    let took = peak(|| testkit::assert_has(Profile::open(&path).unwrap_err().to_string(), ["MiB"]));
    assert!(took < 700 << 20, "{took} bytes");
}

#[test]
fn pipes_devices_and_folders_are_refused_at_once() {
    for name in ["run.json", "series.jsonl", "latency.hlog", "cpu.stacks", "profile.pb.gz", "cpu.folded"] {
        for kind in ["pipe", "zero", "folder", "tty"] {
            let dir = tempfile::tempdir().expect("no failure");
            let run = dir.path().join("2026-11-21T00-12-33Z-x");
            fs::create_dir(&run).expect("no failure");
            let at = run.join(name);
            match kind {
                "pipe" => {
                    let made = Command::new("mkfifo").arg(&at).status().expect("no failure");
                    assert!(made.success());
                }
                "zero" => symlink("/dev/zero", &at).expect("no failure"),
                "tty" => symlink("/dev/tty", &at).expect("no failure"),
                _ => fs::create_dir(&at).expect("no failure"),
            }
            let listed = list_runs(dir.path()).expect("no failure");
            assert_eq!(listed.len(), 1);
            if name == "run.json" {
                let why = listed[0].record.as_ref().unwrap_err();
                assert!(why.contains("no regular file"), "{kind}: {why}");
            }
            read_all(&run);
            assert!(Profile::open(&at).is_err(), "{kind} {name}");
        }
    }
}

#[test]
fn a_file_that_only_says_it_is_large_is_refused() {
    let dir = run_with("series.jsonl", b"");
    let record = dir.path().join("run.json");
    fs::File::create(&record).expect("no failure").set_len(1 << 40).expect("no failure");
    let took = peak(|| testkit::assert_has(RunReader::open(dir.path()).unwrap_err().to_string(), ["larger than"]));
    assert!(took < BASE, "{took}");
    for name in ["series.jsonl", "latency.hlog", "cpu.stacks", "cpu.folded"] {
        let dir = run_with("x", b"");
        fs::File::create(dir.path().join(name)).expect("no failure").set_len(1 << 40).expect("no failure");
        let took = peak(|| _ = read_all(dir.path()));
        assert!(took < BASE, "{name}: {took}");
    }
}

/// Bytes changed, doubled, cut off and put in.
fn damaged(whole: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = whole.to_vec();
    for _ in 0..=random.below(8) {
        let at = random.below(bytes.len().max(1) as u64) as usize;
        match random.below(5) {
            0 => bytes.truncate(at),
            1 => bytes.splice(at..at, [0xff; 12]).for_each(drop),
            2 => bytes.extend_from_within(at..),
            _ => {
                let byte = random.below(256) as u8;
                if let Some(changed) = bytes.get_mut(at) {
                    *changed = byte;
                }
            }
        }
    }
    bytes
}

#[test]
fn damaged_files_are_read_or_refused_in_bounded_memory() {
    let stacks = b"{\"header\":{\"schema\":\"bellows.stacks/1\",\"event\":\"cpu\",\"kernel_event\":\"\",\
        \"unit\":\"samples\",\"period_ns\":1,\"frequency\":1,\"pid\":1,\"command\":\"\",\"kernel_frames\":true,\
        \"origin\":0,\"origin_unix_ns\":0}}\n{\"thread\":\"1_scheduler\"}\n{\"frame\":[\"main\",\"x\",\"native\"]}\n\
        {\"node\":[null,0]}\n{\"node\":[0,0]}\n{\"sample\":[1,1,0,0,true,1]}\n";
    let folded = b"a;b;c 3\na;b 2\n".as_slice();
    let read = |bytes: &[u8], name: &str| {
        let dir = tempfile::tempdir().expect("no failure");
        let path = dir.path().join(name);
        fs::write(&path, bytes).expect("no failure");
        Profile::open(&path).expect("no failure")
    };
    let pprof = read(folded, "x.folded").to_pprof().expect("no failure");
    let mut unpacked = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&*pprof), &mut unpacked).expect("no failure");
    assert!(!read(stacks, "x.stacks").samples.is_empty());
    assert!(!read(&unpacked, "x.pb").samples.is_empty());
    let record = serde_json::to_vec(&common::record("x", RunState::Complete)).expect("no failure");
    let log = hlog(3, 1, 3_600_000_000_000, 4);
    let files: [(&str, &[u8]); 6] = [
        ("run.json", &record),
        ("latency.hlog", &log),
        ("cpu.stacks", stacks),
        ("cpu.folded", folded),
        ("x.pb", &unpacked),
        ("profile.pb.gz", &pprof),
    ];
    let mut random = Random::new(14);
    for round in 0..300 {
        for (name, whole) in files {
            let dir = run_with(name, &damaged(whole, &mut random));
            let took = peak(|| {
                read_all(dir.path());
                drop(Profile::open(dir.path().join(name)));
            });
            assert!(took < BASE, "round {round}, {name}: {took} bytes");
        }
    }
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(bytes).expect("memory");
    gzip.finish().expect("memory")
}

/// Problems of reading these bytes as profiles and as latency logs, whatever the file's name.
fn said(bytes: &[u8]) -> Vec<Problem> {
    let dir = tempfile::tempdir().expect("a folder");
    let at = |name| {
        let path = dir.path().join(name);
        fs::write(&path, bytes).expect("written");
        path
    };
    let names = ["x.pb.gz", "x.folded.gz", "x.jfr.gz", "x.script.gz"];
    let profiles = names.map(|name| Profile::open(at(name)).expect_err(name).problem());
    let log = LatencyLog::read(&at("x.hlog.gz"), None).expect_err("no log");
    profiles.into_iter().chain([log]).collect()
}

#[test]
fn gzip_within_gzip_is_to_be_unpacked_once() {
    for problem in said(&packed(&packed(b"t;main;a 3\n"))) {
        assert_eq!(problem.value, "it is gzip within gzip");
        assert!(problem.help.starts_with("unpack it once"), "{problem:?}");
    }
}

#[test]
fn gzip_that_is_cut_off_or_damaged_is_to_be_copied_again() {
    let text: String =
        (0..40_000_u32).map(|i| format!("t;main;f{} {}\n", i.wrapping_mul(2_654_435_761), 1 + i % 7)).collect();
    let whole = packed(text.as_bytes());
    let mut damaged = whole.clone();
    let end = damaged.len() - 6;
    damaged[end] ^= 0xff;
    // A log of latencies is refused for its first line.
    for bytes in [&whole[..40], &whole[..4], &damaged] {
        for problem in &said(bytes)[..if bytes.len() > 40 { 2 } else { 5 }] {
            assert!(problem.value.starts_with("its gzip is cut off or damaged"), "{problem:?}");
            assert!(problem.help.starts_with("copy or download it again"), "{problem:?}");
        }
    }
    assert!(unpacked(&whole[..]).is_ok_and(|(_, packed)| packed));
}
