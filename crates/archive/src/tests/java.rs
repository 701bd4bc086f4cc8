//! Java's HdrHistogram reads our log and finds the same percentiles.

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
        let ours = run.merged(phase).unwrap().histogram(metric).clone();
        let rows = common::processor_rows(jar, &writer.dir().join(file::HISTOGRAMS), tag);
        assert!(rows.len() > 50, "{tag}");
        // At quantile 0 Java names the upper edge of the first bucket, Rust the lower.
        for row in rows.iter().filter(|row| row[1] > 0.0) {
            let (java, quantile, below) = (row[0] as u64, row[1], row[2] as u64);
            assert_eq!(below, ours.count_between(0, java), "{tag} up to {java} ns");
            assert_eq!(java, ours.value_at_quantile(quantile), "{tag} at {quantile}");
        }
        assert_eq!(rows.last().map(|row| row[2] as u64), Some(ours.len()), "{tag}");
    }
}
