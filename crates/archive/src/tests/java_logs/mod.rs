//! Logs of Java's HistogramLogWriter, and those in encodings before V2, have the percentiles that Java finds.

use std::path::Path;

use super::common;
use crate::{LatencyLog, LogUnit, UnitSource};
use measure::Metric;

fn ran(dir: &Path, program: &str, arguments: &[&str]) -> String {
    let out = testkit::java(program).args(arguments).current_dir(dir).output().expect(program);
    let errors = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{program} {arguments:?}: {errors}");
    String::from_utf8_lossy(&out.stdout).into_owned()
}

#[test]
fn percentiles_are_those_that_java_finds() {
    let jar = testkit::or_skip!(common::java_histograms("javac"));
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    std::fs::write(dir.join("Logs.java"), include_str!("Logs.java")).unwrap();
    ran(dir, "javac", &["-cp", jar, "-d", ".", "Logs.java"]);
    let class_path = format!("{jar}:.");
    let logs = |arguments: &[&str]| ran(dir, "java", &[&["-cp", &class_path, "Logs"], arguments].concat());
    logs(&["write", ".", "1", "1"]);

    let send = Metric::SEND_DELAY;
    let read = |file: &str, unit| LatencyLog::read(&dir.join(file), unit).unwrap();
    let cases = [
        ("untagged.hlog", "", "latency"),
        ("v1.hlog", "", "latency"),
        ("v0.hlog", "", "latency"),
        ("tagged.hlog", "send", "send"),
        ("tagged.hlog", "delay_send", "delay_send"),
        ("tagged.hlog", "transfer", "transfer"),
    ];
    let asked = cases.iter().flat_map(|(file, tag, _)| [*file, *tag]);
    let told = logs(&["read"].into_iter().chain(asked).collect::<Vec<_>>());
    let java: Vec<u64> = told.lines().map(|it| it.parse().unwrap()).collect();
    for ((file, tag, key), java) in cases.into_iter().zip(java.chunks(6)) {
        let log = read(file, None);
        assert_eq!(log.unit_source, UnitSource::Assumed, "{file}");
        let found = log.tags.iter().find(|it| it.metric.key() == key).unwrap();
        let ours = [&found.percentiles[..], &[found.max(), found.count]].concat();
        assert_eq!(ours, java, "{file} {tag}");
        let measured = if tag.is_empty() { 60.0 } else { 55.0 };
        assert!((log.seconds - measured).abs() < 0.01, "{file}: {}", log.seconds);
        assert_eq!((log.notes.len(), found.slices.width()), (0, 1.0));
        assert_eq!(found.slices.slices().len(), measured as usize, "{file}");

        if !matches!(key, "latency" | "transfer") || file == "untagged.hlog" {
            continue;
        }
        // Every line of HistogramLogProcessor's distribution.
        for fields in common::processor_rows(jar, &dir.join(file), tag) {
            let below = found.values.iter().filter(|it| it.0 as f64 <= fields[0]);
            assert_eq!(below.map(|it| it.1).sum::<u64>() as f64, fields[2], "{fields:?}");
        }
    }

    // Java refuses Artemis' own tags for their blanks; without the warm-up they hold the same values, of two digits.
    let artemis = read("artemis.hlog", None);
    assert_eq!((artemis.unit, artemis.unit_source), (LogUnit::Microseconds, UnitSource::Artemis));
    let names: Vec<Metric> = artemis.tags.iter().map(|it| it.metric).collect();
    assert_eq!(names, [send, Metric::SEND_ACK, Metric::TRANSFER]);
    let same = read("tagged.hlog", Some(LogUnit::Microseconds));
    assert_eq!(same.unit_source, UnitSource::Given);
    for (coarse, fine) in artemis.tags.iter().zip(&same.tags) {
        assert_eq!(coarse.count, fine.count);
        for (coarse, fine) in coarse.percentiles.iter().zip(fine.percentiles) {
            let off = coarse.abs_diff(fine) as f64 / fine as f64;
            assert!(off < 0.02, "{coarse} {fine}");
        }
    }
}
