//! The series as OTLP metrics, in the JSON form of the protocol.

use serde_json::{Value as Json, json};

use super::snapshot::{BOUNDS, Labels, Snapshot, Value};
use archive::SeriesUnit;

/// Sums since the beginning of the run.
const CUMULATIVE: u8 = 2;

/// A request with all series at a time.
pub(super) fn request(snapshot: &Snapshot, start_unix_ns: u64, unix_ns: u64) -> Vec<u8> {
    // Numbers of 64 bits are text in the protocol's JSON.
    let (start, now) = (start_unix_ns.to_string(), unix_ns.to_string());
    let metrics: Vec<Json> = snapshot
        .families()
        .filter_map(|(name, family)| {
            let first = family.members.values().next()?;
            let alike = |value: &Value| std::mem::discriminant(value) == std::mem::discriminant(first);
            let points = family.members.iter().filter(|(_, value)| alike(value));
            let points: Vec<Json> = points
                .map(|(labels, value)| point(labels, value, &start, &now))
                .collect();
            let data = match first {
                Value::Gauge(_) => ("gauge", json!({ "dataPoints": points })),
                Value::Total(_) => (
                    "sum",
                    json!({"dataPoints": points, "aggregationTemporality": CUMULATIVE, "isMonotonic": true}),
                ),
                Value::Durations(_) => (
                    "histogram",
                    json!({"dataPoints": points, "aggregationTemporality": CUMULATIVE}),
                ),
            };
            Some(json!({
                "name": name.replacen('_', ".", 1),
                "description": family.help,
                "unit": unit(family.unit),
                data.0: data.1,
            }))
        })
        .collect();
    let scope = json!({"name": "bellows", "version": env!("CARGO_PKG_VERSION")});
    let resource = json!({"attributes": [attribute("service.name", "bellows")]});
    let body = json!({"resourceMetrics": [{
        "resource": resource,
        "scopeMetrics": [{"scope": scope, "metrics": metrics}],
    }]});
    body.to_string().into_bytes()
}

fn point(labels: &Labels, value: &Value, start: &str, now: &str) -> Json {
    let attributes: Vec<Json> = labels.iter().map(|(k, v)| attribute(k, v)).collect();
    let mut point = match value {
        Value::Gauge(value) => json!({ "asDouble": value }),
        Value::Total(total) => json!({"asInt": total.to_string(), "startTimeUnixNano": start}),
        Value::Durations(durations) => {
            let counts: Vec<String> = durations.counts.iter().map(ToString::to_string).collect();
            json!({
                "startTimeUnixNano": start,
                "count": durations.count().to_string(),
                "sum": durations.sum_s,
                "bucketCounts": counts,
                "explicitBounds": BOUNDS,
            })
        }
    };
    if let Some(fields) = point.as_object_mut() {
        fields.insert("attributes".to_owned(), Json::from(attributes));
        fields.insert("timeUnixNano".to_owned(), Json::from(now));
    }
    point
}

fn attribute(key: &str, value: &str) -> Json {
    json!({"key": key, "value": {"stringValue": value}})
}

/// The unit's UCUM code.
const fn unit(unit: SeriesUnit) -> &'static str {
    match unit {
        SeriesUnit::Count | SeriesUnit::Share => "1",
        SeriesUnit::PerSecond => "1/s",
        SeriesUnit::Bytes => "By",
        SeriesUnit::BytesPerSecond => "By/s",
        SeriesUnit::Cores => "{core}",
        SeriesUnit::Seconds => "s",
    }
}

#[cfg(test)]
mod tests {
    use archive::SeriesName;
    use measure::{Interval, Metric, Nanos, Phase, Time};
    use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
    use opentelemetry_proto::tonic::metrics::v1::metric::Data;
    use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;

    use super::*;

    #[test]
    fn every_kind_has_its_form() {
        let mut snapshot = Snapshot::new("x");
        let mut interval = Interval::new();
        interval.reset(Time(0), Phase::Measure);
        interval.end = Time(1_000_000_000);
        interval.counters.sent = 7;
        let latency = Nanos::from_millis(3);
        interval.latencies.record_n(Metric::END_TO_END, latency, 7);
        snapshot.add(&interval);
        snapshot.tell(&[(SeriesName::new("machine", "memory", SeriesUnit::Bytes), 5.0)]);
        let body = request(&snapshot, 1, 2);
        // The project's own types read it.
        let read: ExportMetricsServiceRequest = serde_json::from_slice(&body).unwrap();
        let metrics = &read.resource_metrics[0].scope_metrics[0].metrics;
        let find = |name: &str| metrics.iter().find(|it| it.name == name).unwrap();
        let Some(Data::Sum(sent)) = &find("bellows.messages_sent").data else {
            panic!("{metrics:?}");
        };
        assert!(sent.is_monotonic);
        assert_eq!(sent.aggregation_temporality, i32::from(CUMULATIVE));
        let point = &sent.data_points[0];
        assert_eq!(point.value, Some(Number::AsInt(7)));
        assert_eq!((point.start_time_unix_nano, point.time_unix_nano), (1, 2));
        let memory = find("bellows.machine_memory");
        let Some(Data::Gauge(gauge)) = &memory.data else {
            panic!("{memory:?}");
        };
        assert_eq!(
            (&*memory.unit, gauge.data_points[0].value),
            ("By", Some(Number::AsDouble(5.0)))
        );
        let Some(Data::Histogram(latency)) = &find("bellows.latency").data else {
            panic!("{metrics:?}");
        };
        let point = &latency.data_points[0];
        assert_eq!(point.bucket_counts.len(), point.explicit_bounds.len() + 1);
        let at = point
            .bucket_counts
            .iter()
            .position(|count| *count > 0)
            .unwrap();
        assert_eq!(
            (
                point.explicit_bounds[at],
                point.bucket_counts[at],
                point.count
            ),
            (5e-3, 7, 7)
        );
        assert_eq!(point.attributes.len(), 2, "{point:?}");
    }
}
