//! The series as a page of OpenMetrics, written as it is sent.

use std::fmt;
use std::sync::Arc;

use archive::SeriesUnit;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, LabelSetEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use super::snapshot::{BOUNDS, Durations, Labels, Snapshot, Value};

pub(super) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub(super) fn write(snapshot: Arc<Snapshot>, out: &mut dyn fmt::Write) -> fmt::Result {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Page(snapshot)));
    let mut out = out;
    prometheus_client::encoding::text::encode(&mut out, &registry)
}

#[derive(Debug)]
struct Page(Arc<Snapshot>);

impl Collector for Page {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for (name, family) in self.0.families() {
            let unit = unit(family.unit);
            let Some(kind) = family.members.values().next().map(kind) else { continue };
            // The library writes it as it is, and names of series come from pages.
            let help = family.help.replace(char::is_control, " ").replace('\\', "/");
            let mut metric = encoder.encode_descriptor(name, &help, unit.as_ref(), kind)?;
            for (labels, value) in &family.members {
                // A family is of one kind, whoever has told series of its name.
                if self::kind(value).as_str() != kind.as_str() {
                    continue;
                }
                let labels = PageLabels(labels);
                let mut member = metric.encode_family(&labels)?;
                match value {
                    Value::Gauge(value) => member.encode_gauge(value)?,
                    Value::Total(total) => member.encode_counter::<NoLabelSet, u64, f64>(total, None)?,
                    Value::Durations(durations) => {
                        let buckets = buckets(durations);
                        let (sum, count) = (durations.sum_s, durations.count());
                        member.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
                    }
                }
            }
        }
        Ok(())
    }
}

struct PageLabels<'a>(&'a Labels);

impl EncodeLabelSet for PageLabels<'_> {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        use prometheus_client::encoding::EncodeLabel as _;
        for (key, value) in self.0 {
            (key.as_str(), value.as_str()).encode(encoder.encode_label())?;
        }
        Ok(())
    }
}

const fn kind(value: &Value) -> MetricType {
    match value {
        Value::Gauge(_) => MetricType::Gauge,
        Value::Total(_) => MetricType::Counter,
        Value::Durations(_) => MetricType::Histogram,
    }
}

/// The unit, which becomes the end of the name.
fn unit(unit: SeriesUnit) -> Option<Unit> {
    Some(match unit {
        SeriesUnit::Count => return None,
        SeriesUnit::PerSecond => Unit::Other("per_second".into()),
        SeriesUnit::Bytes => Unit::Bytes,
        SeriesUnit::BytesPerSecond => Unit::Other("bytes_per_second".into()),
        SeriesUnit::Cores => Unit::Other("cores".into()),
        SeriesUnit::Share => Unit::Other("ratio".into()),
        SeriesUnit::Seconds => Unit::Seconds,
    })
}

/// The end of the name of a family of this unit.
pub(super) fn suffix(unit: SeriesUnit) -> Option<String> {
    self::unit(unit).map(|unit| unit.as_str().to_owned())
}

fn buckets(durations: &Durations) -> Vec<(f64, u64)> {
    BOUNDS.into_iter().chain([f64::INFINITY]).zip(durations.counts).collect()
}

#[cfg(test)]
mod tests {
    use archive::SeriesName;

    use super::*;
    use crate::export::snapshot::tests::interval;

    #[test]
    fn a_page_has_every_kind_and_names_stay_inside_their_quotes() {
        let mut snapshot = Snapshot::new("a \"b\"\nc");
        snapshot.add(&interval(&[3; 7]));
        let hostile = SeriesName::new("page\n# EOF\n", "x\ny\\z", SeriesUnit::Bytes);
        snapshot.tell(&[(hostile.with("queue", "q\n# EOF\n\"}"), 2.5)]);
        let mut page = String::new();
        write(Arc::new(snapshot), &mut page).unwrap();
        let has = |line: &str| assert!(page.lines().any(|it| it == line), "{line}\n{page}");
        has("bellows_messages_sent_total{experiment=\"a \\\"b\\\"\\nc\"} 7");
        has("# TYPE bellows_latency_seconds histogram");
        let common = "experiment=\"a \\\"b\\\"\\nc\",latency=\"end_to_end\"";
        has(&format!("bellows_latency_seconds_bucket{{le=\"0.002\",{common}}} 0"));
        has(&format!("bellows_latency_seconds_bucket{{le=\"0.005\",{common}}} 7"));
        has(&format!("bellows_latency_seconds_bucket{{le=\"+Inf\",{common}}} 7"));
        assert!(page.contains("bellows_page_eof_x_y_z_bytes{"), "{page}");
        assert_eq!(page.matches("\n# EOF").count(), 1, "{page}");
        assert!(page.ends_with("# EOF\n"));
    }
}
