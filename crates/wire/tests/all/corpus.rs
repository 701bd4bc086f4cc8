//! Replays the committed corpora of the fuzz targets through the targets' own entry functions.

use std::fs;
use std::path::Path;

use wire::amqp091::fuzzing;

/// Runs a target on every file of its corpus.
fn replay(target: &str, entry: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut seeds = 0;
    for file in fs::read_dir(&folder).expect("the corpus is committed") {
        let path = file.expect("a directory entry").path();
        let data = fs::read(&path).expect("a readable file");
        seeds += usize::from(path.to_string_lossy().contains("seed-"));
        // Printed by the test harness only when the entry panics.
        println!("{}", path.display());
        entry(&data);
    }
    assert!(seeds > 0, "no seed in {}", folder.display());
}

#[test]
fn each_corpus_is_replayed() {
    type Entry = fn(&[u8]);
    let targets: [(&str, Entry); 10] = [
        ("client_input", fuzzing::client_input),
        ("server_input", fuzzing::server_input),
        ("table", fuzzing::table),
        ("properties", fuzzing::properties),
        ("method", fuzzing::method),
        ("amqp10_client_input", wire::amqp10::fuzzing::client_input),
        ("amqp10_server_input", wire::amqp10::fuzzing::server_input),
        ("amqp10_value", wire::amqp10::fuzzing::value),
        ("metrics_page", wire::openmetrics::fuzzing::page),
        ("http_response", wire::http1::fuzzing::response),
    ];
    for (target, entry) in targets {
        replay(target, entry);
    }
}

/// A target without a replay, or the other way round, is an oversight. `profile/src/tests/corpus.rs` replays those of
/// profiles, `archive/src/tests/latency_log.rs` that of logs, `session/tests/all/workers` those of a fleet, and the
/// tests of `erlang` its own.
#[test]
fn every_target_is_replayed() {
    let targets = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/fuzz_targets");
    let mut names: Vec<String> = fs::read_dir(targets)
        .expect("fuzz targets")
        .map(|file| file.expect("a directory entry").path())
        .filter_map(|path| Some(path.file_stem()?.to_string_lossy().into_owned()))
        .collect();
    names.sort();
    assert_eq!(
        names.join(" "),
        "amqp10_client_input amqp10_server_input amqp10_value beam_functions client_input erlang_frame fleet_message \
         fleet_piece fold folded go_functions http_response jfr latency_log ledger_part method metrics_page perf_data \
         perf_script pprof properties server_input stacks table"
    );
}
