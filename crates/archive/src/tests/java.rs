//! Java's HdrHistogram reads our log and finds the same percentiles.

use std::process::Command;

use super::common;
use crate::{RunReader, RunState, RunWriter, file};
use measure::{Metric, Phase};

#[test]
fn javas_histogram_log_processor_finds_the_same_percentiles() {
    let jar = testkit::or_skip!(common::java_histograms("java"));
    let runs = tempfile::tempdir().unwrap();
    let mut writer = RunWriter::create(runs.path(), "run", common::CREATED).unwrap();
    common::write_run(&mut writer, RunState::Complete);
    let run = RunReader::open(writer.dir()).unwrap();
    for (tag, phase, metric) in [
        ("send_ack", Phase::Measure, Metric::SEND_ACK),
        ("ack_response", Phase::Measure, Metric::ACK_RESPONSE),
        ("warmup_send_ack", Phase::Warmup, Metric::SEND_ACK),
    ] {
        let out = Command::new("java")
            .args(["-cp", jar, "org.HdrHistogram.HistogramLogProcessor", "-csv"])
            // Values as they are, in nanoseconds.
            .args(["-outputValueUnitRatio", "1", "-tag", tag, "-i"])
            .arg(writer.dir().join(file::HISTOGRAMS))
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        let errors = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(out.status.success() && errors.is_empty(), "{text}{errors}");
        let ours = run.merged(phase).unwrap().histogram(metric).clone();
        // "Value","Percentile","TotalCount","1/(1-Percentile)"
        let rows: Vec<Vec<f64>> = text
            .lines()
            .filter(|line| line.starts_with(|c: char| c.is_ascii_digit()))
            .map(|line| line.split(',').map(|n| n.parse().unwrap_or(f64::INFINITY)).collect())
            .collect();
        assert!(rows.len() > 50, "{tag}: {text}");
        // At quantile 0 Java names the upper edge of the first bucket, Rust the lower.
        for row in rows.iter().filter(|row| row[1] > 0.0) {
            let (java, quantile, below) = (row[0] as u64, row[1], row[2] as u64);
            assert_eq!(below, ours.count_between(0, java), "{tag} up to {java} ns");
            assert_eq!(java, ours.value_at_quantile(quantile), "{tag} at {quantile}");
        }
        assert_eq!(rows.last().map(|row| row[2] as u64), Some(ours.len()), "{tag}");
    }
}
