//! Files for other tools against the shape that they read, and those tools' own files.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::io::Read as _;
use std::process::Command;

use serde_json::Value;

use super::forms::open;
use super::{profile, small};
use crate::{FORMATS, FrameKind, Heading, Profile, format_of_name};

fn heading() -> Heading {
    Heading { title: "a title".into(), subtitle: None }
}

/// A profile written in a format.
fn written(profile: &Profile, name: &str) -> Vec<u8> {
    let format = FORMATS.iter().find(|it| it.name == name).expect(name);
    let write = format.write.expect(name);
    write(profile, &heading()).expect(name)
}

fn numbers(value: &Value) -> Vec<u64> {
    value.as_array().expect("an array").iter().map(|it| it.as_u64().expect("a number")).collect()
}

/// Checks what <https://www.speedscope.app/file-format-schema.json> requires: which keys there are, and their types.
fn assert_speedscope(file: &Value) {
    let object = file.as_object().expect("an object");
    assert_eq!(object["$schema"], "https://www.speedscope.app/file-format-schema.json");
    let known = ["$schema", "activeProfileIndex", "exporter", "name", "profiles", "shared"];
    assert!(object.keys().all(|key| known.contains(&key.as_str())), "{object:?}");
    let frames = file["shared"]["frames"].as_array().expect("frames");
    for frame in frames {
        assert!(frame["name"].is_string());
        let keys = frame.as_object().expect("an object").keys();
        assert!(keys.into_iter().all(|key| ["name", "file", "line", "col"].contains(&key.as_str())));
    }
    let units = ["none", "nanoseconds", "microseconds", "milliseconds", "seconds", "bytes"];
    for profile in file["profiles"].as_array().expect("profiles") {
        assert_eq!(profile["type"], "sampled");
        assert!(profile["name"].is_string());
        assert!(units.contains(&profile["unit"].as_str().expect("a unit")));
        let (start, end) = (&profile["startValue"], &profile["endValue"]);
        let weights = numbers(&profile["weights"]);
        assert_eq!(end.as_u64().unwrap() - start.as_u64().unwrap(), weights.iter().sum::<u64>());
        let samples = profile["samples"].as_array().expect("samples");
        assert_eq!(samples.len(), weights.len());
        let inside = |&index: &u64| (index as usize) < frames.len();
        assert!(samples.iter().all(|stack| numbers(stack).iter().all(inside)));
    }
    let active = file["activeProfileIndex"].as_u64().expect("an index");
    assert!((active as usize) < file["profiles"].as_array().unwrap().len().max(1));
}

/// The Go developers' own reader, of what is written for it: the functions' own samples, and those below them.
#[test]
#[ignore = "needs Go: make prove"]
fn go_finds_the_same_in_what_is_written_for_pprof() {
    let random = &mut testkit::Random::new(1);
    let (mut text, mut own, mut all) = (String::new(), BTreeMap::new(), BTreeMap::new());
    for _ in 0..200 {
        let weight = 1 + random.below(1_000);
        let stack: Vec<String> = (0..1 + random.below(6)).map(|_| format!("f{}", random.below(40))).collect();
        let _ = writeln!(text, "main;{} {weight}", stack.join(";"));
        *own.entry(stack.last().expect("a frame").clone()).or_insert(0) += weight;
        for name in stack.into_iter().collect::<BTreeSet<_>>() {
            *all.entry(name).or_insert(0) += weight;
        }
    }
    let dir = tempfile::tempdir().expect("a folder");
    let profile = open("x.folded", text.as_bytes()).expect("folded text");
    let packed = dir.path().join("x.pb.gz");
    fs::write(&packed, written(&profile, "pprof")).expect("written");
    let told =
        Command::new("go").args(["tool", "pprof", "-top", "-nodecount=0", "-nodefraction=0"]).arg(&packed).output();
    let Ok(told) = told else {
        testkit::skip!("no go on the path");
    };
    let mut functions = 0;
    for line in String::from_utf8_lossy(&told.stdout).lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [flat, _, _, below, _, name @ ..] = &fields[..] else { continue };
        // Behind what is not 0 stands the unit.
        let number = |field: &str| field.trim_end_matches("weight").parse::<u64>();
        let (Ok(flat), Ok(below)) = (number(flat), number(below)) else { continue };
        if name != ["main"] {
            let name = name.join(" ");
            assert_eq!(flat, own.get(&name).copied().unwrap_or(0), "{line}");
            assert_eq!(below, all[&name], "{line}");
            functions += 1;
        }
    }
    assert_eq!(functions, all.len(), "{told:?}");
}

#[test]
fn speedscope_gets_every_sample_in_the_order_of_time() {
    let file: Value = serde_json::from_slice(&written(&small(), "speedscope")).unwrap();
    assert_speedscope(&file);
    assert_eq!(file["name"], "a title");
    let schedulers = &file["profiles"][0];
    assert_eq!((schedulers["name"].as_str(), schedulers["unit"].as_str()), (Some("scheduler"), Some("nanoseconds")));
    // 3 and 1 are of the same stack, one after the other, and a sample stands for a millisecond.
    assert_eq!(numbers(&schedulers["weights"]), [4_000_000, 2_000_000, 3_000_000]);
    let frames = &file["shared"]["frames"];
    let names = |stack: &Value| -> Vec<String> {
        let name = |at: u64| frames[at as usize]["name"].as_str().unwrap().to_owned();
        numbers(stack).into_iter().map(name).collect()
    };
    assert_eq!(names(&schedulers["samples"][0]), ["main", "$loop/1", "$route/2"]);
    let mut bytes = profile(&[("t;a", 4096)]);
    bytes.header.unit = "bytes".into();
    let file: Value = serde_json::from_slice(&written(&bytes, "speedscope")).unwrap();
    assert_speedscope(&file);
    assert_eq!(file["profiles"][0]["unit"], "bytes");
    assert_speedscope(&serde_json::from_slice(&written(&Profile::default(), "speedscope")).unwrap());
}

fn unpacked(bytes: &[u8]) -> Value {
    let mut text = Vec::new();
    flate2::read::GzDecoder::new(bytes).read_to_end(&mut text).unwrap();
    serde_json::from_slice(&text).unwrap()
}

/// Checks that every column of a table has its length.
fn assert_table(table: &Value) {
    let length = table["length"].as_u64().expect("a length") as usize;
    for (name, column) in table.as_object().expect("a table") {
        if let Some(column) = column.as_array() {
            assert_eq!(column.len(), length, "{name}");
        }
    }
}

#[test]
fn the_firefox_profiler_gets_tables_that_fit_together() {
    let original = small();
    let file = unpacked(&written(&original, "firefox"));
    let shared = &file["shared"];
    for table in ["stackTable", "frameTable", "funcTable", "resourceTable", "nativeSymbols", "sources"] {
        assert_table(&shared[table]);
    }
    let texts = shared["stringArray"].as_array().unwrap();
    let names = numbers(&shared["funcTable"]["name"]);
    assert!(names.iter().all(|&at| (at as usize) < texts.len()));
    let categories = file["meta"]["categories"].as_array().unwrap().len();
    let category = numbers(&shared["frameTable"]["category"]);
    assert!(category.iter().all(|&at| (at as usize) < categories));
    let libraries = file["libs"].as_array().unwrap().len();
    let resources = numbers(&shared["resourceTable"]["lib"]);
    assert!(resources.iter().all(|&at| (at as usize) < libraries));
    // A stack comes after the one that called it.
    let prefixes = shared["stackTable"]["prefix"].as_array().unwrap();
    for (at, prefix) in prefixes.iter().enumerate() {
        assert!(prefix.as_u64().is_none_or(|prefix| (prefix as usize) < at));
    }
    let threads = file["threads"].as_array().unwrap();
    let sampled: Vec<_> = threads.iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(sampled, ["1_scheduler", "2_scheduler", "aux"]);
    let mut weight = 0;
    for thread in threads {
        let samples = &thread["samples"];
        assert_table(samples);
        assert_table(&thread["markers"]);
        assert_eq!(samples["weightType"], "samples");
        assert!(numbers(&samples["stack"]).iter().all(|&at| (at as usize) < prefixes.len()));
        weight += numbers(&samples["weight"]).iter().sum::<u64>();
    }
    assert_eq!(weight, original.total_weight());
    let times: Vec<f64> =
        threads[0]["samples"]["timeDeltas"].as_array().unwrap().iter().map(|it| it.as_f64().unwrap()).collect();
    assert_eq!(times, [0.0, 2.0, 2.0], "milliseconds from one to the next");
    assert_eq!(file["meta"]["interval"], 1.0);
    // Without times the samples stand one behind the other.
    let folded = open("x.folded", b"t;a 3\nt;b 2\n").unwrap();
    let file = unpacked(&written(&folded, "firefox"));
    assert_eq!(file["threads"][0]["samples"]["timeDeltas"][1], 3.0);
    assert_eq!(file["threads"][0]["unregisterTime"], 5.0);
}

#[test]
fn what_is_written_and_read_again_has_the_same_stacks() {
    let folded = small().folded();
    for format in FORMATS {
        let (Some(write), Some(_)) = (format.write, format.read) else { continue };
        let bytes = write(&small(), &heading()).unwrap();
        let name = format!("x{}", format.ends[0]);
        let read = open(&name, &bytes).unwrap();
        let mut wanted: Vec<_> = folded.lines().collect();
        let text = read.folded();
        let mut found: Vec<_> = text.lines().collect();
        wanted.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, wanted, "{}", format.name);
    }
}

#[test]
fn a_files_name_tells_its_format() {
    for [name, format] in testkit::table(include_str!("formats.txt")) {
        assert_eq!(format_of_name(&FORMATS, name).map_or("", |it| it.name), format, "{name}");
    }
    let mut names: Vec<_> = FORMATS.iter().map(|it| it.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), FORMATS.len(), "no name stands twice");
}

/// Names and kinds of all frames, in their order.
fn kinds(profile: &Profile) -> Vec<(&str, FrameKind)> {
    profile.frames.iter().map(|f| (f.name.as_str(), f.kind)).collect()
}

#[test]
fn async_profilers_marks_tell_the_kind_and_join_one_function() {
    let text = b"[tid=1];java/lang/Thread.run_[j];Main.work_[i];Main.work_[0];itable stub;do_syscall_64_[k] 2\n\
        [tid=1];java/lang/Thread.run_[0] 3\n";
    let read = open("x.collapsed", text).unwrap();
    assert_eq!(
        kinds(&read),
        [
            ("java/lang/Thread.run", FrameKind::Java),
            ("Main.work", FrameKind::Java),
            ("itable stub", FrameKind::Native),
            ("do_syscall_64_[k]", FrameKind::Kernel),
        ]
    );
    // Marks of FlameGraph on code of others.
    let read = open("x.folded", b"t-1;$a:b/1_[j];std::f_[i];main 1\n").unwrap();
    assert_eq!(
        kinds(&read),
        [("$a:b/1", FrameKind::Erlang), ("std::f", FrameKind::Native), ("main", FrameKind::Native),]
    );
}
