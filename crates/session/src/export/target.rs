//! Servers that series are sent to, and the form that each takes.

use std::fmt::Write as _;
use std::str::FromStr;

use archive::SeriesUnit;
use measure::Refused;
use serde_json::{Value as Json, json};
use ureq::http::Uri;

use super::open_metrics::suffix;
use super::snapshot::{BOUNDS, Durations, Labels, Snapshot, Value};
use web::push::PushRequest;

/// Help for an address without a protocol.
const EXAMPLES: &str = "end it in /write?db=NAME (InfluxDB 1), /api/v2/write?org=ORG&bucket=NAME (InfluxDB 2) or \
                        /v1/metrics (OTLP)";

/// A server that takes series; the path of its address says by which protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricsTarget {
    url: String,
    protocol: Protocol,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    /// InfluxDB's line protocol, by either version's path.
    Influx,
    /// OTLP over HTTP, in JSON.
    Otlp,
}

impl FromStr for MetricsTarget {
    type Err = Refused;

    fn from_str(text: &str) -> Result<Self, Refused> {
        let text = text.trim();
        let uri: Uri = text.parse().map_err(|_| Refused::new("it is not an address", EXAMPLES))?;
        let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
        let Some(authority) = uri.authority().filter(|_| is_http) else {
            return Err(Refused::new("it does not begin with http:// or https://", EXAMPLES));
        };
        let query = uri.query().unwrap_or_default();
        let is_secret = |pair: &str| ["u=", "p=", "token="].iter().any(|it| pair.starts_with(it));
        if authority.as_str().contains('@') || query.split('&').any(is_secret) {
            return Err(Refused::new(
                "it contains a password, which other users see in the list of processes",
                "give the user with --metrics-user, and the password or token in BELLOWS_METRICS_TOKEN",
            ));
        }
        let protocol = match uri.path().trim_end_matches('/') {
            "/write" if !query.split('&').any(|pair| pair.starts_with("db=")) => {
                return Err(Refused::new("it names no database", "write /write?db=NAME"));
            }
            "/write" | "/api/v2/write" => Protocol::Influx,
            path if path.ends_with("/v1/metrics") => Protocol::Otlp,
            _ => return Err(Refused::new("its path names no protocol", EXAMPLES)),
        };
        if query.contains("precision=") {
            let what = "it has a precision, but times are sent in nanoseconds";
            return Err(Refused::new(what, "leave out precision="));
        }
        Ok(Self { url: text.to_owned(), protocol })
    }
}

impl MetricsTarget {
    /// The server's address.
    pub fn url(&self) -> &str {
        &self.url
    }

    pub(super) const fn scheme(&self) -> &'static str {
        match self.protocol {
            Protocol::Influx => "Token",
            Protocol::Otlp => "Bearer",
        }
    }

    pub(super) fn request(&self, snapshot: &Snapshot, start_ns: u64, unix_ns: u64) -> PushRequest {
        let (content_type, body) = match self.protocol {
            Protocol::Influx => ("text/plain; charset=utf-8", influx_lines(snapshot, unix_ns)),
            Protocol::Otlp => ("application/json", otlp_request(snapshot, start_ns, unix_ns)),
        };
        PushRequest { url: self.url.clone(), query: Vec::new(), content_type, body }
    }
}

/// InfluxDB's line protocol, `measurement,tag=value field=value nanoseconds`; names are those of the OpenMetrics page.
fn influx_lines(snapshot: &Snapshot, unix_ns: u64) -> Vec<u8> {
    let mut out = String::new();
    for (name, family) in snapshot.families() {
        let name = suffix(family.unit).map_or_else(|| name.to_owned(), |unit| format!("{name}_{unit}"));
        for (labels, value) in &family.members {
            // A name is letters, digits and `_`.
            out.push_str(&name);
            influx_tags(labels, &mut out);
            out.push(' ');
            influx_fields(value, &mut out);
            // Writing to a string cannot fail.
            let _ = writeln!(out, " {unix_ns}");
        }
    }
    out.into_bytes()
}

/// Tags need a value; no line break can stand in a line, and a backslash at the end would escape the next character.
fn influx_tags(labels: &Labels, out: &mut String) {
    for (key, value) in labels.iter().filter(|(_, value)| !value.is_empty()) {
        let _ = write!(out, ",{key}=");
        for c in value.chars() {
            match c {
                ',' | ' ' | '=' => out.extend(['\\', c]),
                '\\' => out.push('/'),
                c if c.is_control() => out.push('_'),
                c => out.push(c),
            }
        }
    }
}

fn influx_fields(value: &Value, out: &mut String) {
    let _ = match value {
        Value::Gauge(value) => write!(out, "gauge={value}"),
        Value::Total(total) => write!(out, "counter={total}"),
        Value::Durations(durations) => influx_durations(durations, out),
    };
}

/// Count, sum, and how many were no longer than each bound, as Telegraf writes them.
fn influx_durations(durations: &Durations, out: &mut String) -> std::fmt::Result {
    write!(out, "count={},sum={}", durations.count(), durations.sum_s)?;
    let mut below = 0;
    for (bound, count) in BOUNDS.iter().zip(durations.counts) {
        below += count;
        write!(out, ",{bound}={below}")?;
    }
    Ok(())
}

/// Sums since the beginning of the run.
const CUMULATIVE: u8 = 2;

/// A request with all series at a time, in the JSON form of OTLP.
fn otlp_request(snapshot: &Snapshot, start_unix_ns: u64, unix_ns: u64) -> Vec<u8> {
    // Numbers of 64 bits are text in the protocol's JSON.
    let (start, now) = (start_unix_ns.to_string(), unix_ns.to_string());
    let metrics: Vec<Json> = snapshot
        .families()
        .filter_map(|(name, family)| {
            let first = family.members.values().next()?;
            let alike = |value: &Value| std::mem::discriminant(value) == std::mem::discriminant(first);
            let points = family.members.iter().filter(|(_, value)| alike(value));
            let points: Vec<Json> = points.map(|(labels, value)| otlp_point(labels, value, &start, &now)).collect();
            let data = match first {
                Value::Gauge(_) => ("gauge", json!({ "dataPoints": points })),
                Value::Total(_) => {
                    ("sum", json!({"dataPoints": points, "aggregationTemporality": CUMULATIVE, "isMonotonic": true}))
                }
                Value::Durations(_) => {
                    ("histogram", json!({"dataPoints": points, "aggregationTemporality": CUMULATIVE}))
                }
            };
            Some(json!({
                "name": name.replacen('_', ".", 1),
                "description": family.help,
                "unit": otlp_unit(family.unit),
                data.0: data.1,
            }))
        })
        .collect();
    let scope = json!({"name": "bellows", "version": env!("CARGO_PKG_VERSION")});
    let resource = json!({"attributes": [otlp_attribute("service.name", "bellows")]});
    let body = json!({"resourceMetrics": [{
        "resource": resource,
        "scopeMetrics": [{"scope": scope, "metrics": metrics}],
    }]});
    body.to_string().into_bytes()
}

fn otlp_point(labels: &Labels, value: &Value, start: &str, now: &str) -> Json {
    let attributes: Vec<Json> = labels.iter().map(|(k, v)| otlp_attribute(k, v)).collect();
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

fn otlp_attribute(key: &str, value: &str) -> Json {
    json!({"key": key, "value": {"stringValue": value}})
}

/// The unit's UCUM code.
const fn otlp_unit(unit: SeriesUnit) -> &'static str {
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
    use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
    use opentelemetry_proto::tonic::metrics::v1::metric::Data;
    use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;

    use super::*;
    use crate::export::snapshot::tests::interval;

    #[test]
    fn the_path_says_the_protocol_and_secrets_are_refused() {
        let of = |text: &str| text.parse::<MetricsTarget>().map(|it| it.protocol).ok();
        assert_eq!(of("http://h:8086/write?db=x"), Some(Protocol::Influx));
        assert_eq!(of("https://h/api/v2/write?org=o&bucket=b"), Some(Protocol::Influx));
        assert_eq!(of("http://h:4318/v1/metrics"), Some(Protocol::Otlp));
        assert_eq!(of("http://h/otlp/v1/metrics"), Some(Protocol::Otlp));
        let wrong = "|h:8086|http://h:8086|http://h/write|http://h/write?db=x&p=secret|http://u:secret@h/v1/metrics|\
            http://h/write?db=x&precision=s|ftp://h/v1/metrics";
        for wrong in wrong.split('|') {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn names_cannot_end_a_tag_or_a_line() {
        let mut snapshot = Snapshot::new("my run");
        let series = SeriesName::new("page", "ready", SeriesUnit::Count);
        snapshot.tell(&[(series.with("queue", "a,b=c d\ne\\").with("vhost", ""), 2.5)]);
        let text = String::from_utf8(influx_lines(&snapshot, 17)).unwrap();
        assert_eq!(text, "bellows_page_ready,experiment=my\\ run,queue=a\\,b\\=c\\ d_e/ gauge=2.5 17\n");
    }

    #[test]
    fn every_kind_has_its_form() {
        let mut snapshot = Snapshot::new("x");
        snapshot.add(&interval(&[3; 7]));
        snapshot.tell(&[(SeriesName::new("machine", "memory", SeriesUnit::Bytes), 5.0)]);
        let body = otlp_request(&snapshot, 1, 2);
        // The project's own types read it.
        let read: ExportMetricsServiceRequest = serde_json::from_slice(&body).unwrap();
        let metrics = &read.resource_metrics[0].scope_metrics[0].metrics;
        let find = |name: &str| metrics.iter().find(|it| it.name == name).unwrap();
        let Some(Data::Sum(sent)) = &find("bellows.messages_sent").data else { panic!("{metrics:?}") };
        assert!(sent.is_monotonic);
        assert_eq!(sent.aggregation_temporality, i32::from(CUMULATIVE));
        let point = &sent.data_points[0];
        assert_eq!(point.value, Some(Number::AsInt(7)));
        assert_eq!((point.start_time_unix_nano, point.time_unix_nano), (1, 2));
        let memory = find("bellows.machine_memory");
        let Some(Data::Gauge(gauge)) = &memory.data else { panic!("{memory:?}") };
        assert_eq!((&*memory.unit, gauge.data_points[0].value), ("By", Some(Number::AsDouble(5.0))));
        let Some(Data::Histogram(latency)) = &find("bellows.latency").data else { panic!("{metrics:?}") };
        let point = &latency.data_points[0];
        assert_eq!(point.bucket_counts.len(), point.explicit_bounds.len() + 1);
        let at = point.bucket_counts.iter().position(|count| *count > 0).unwrap();
        assert_eq!((point.explicit_bounds[at], point.bucket_counts[at], point.count), (5e-3, 7, 7));
        assert_eq!(point.attributes.len(), 2, "{point:?}");
    }
}
