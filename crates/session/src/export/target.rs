//! Servers that series are sent to, and the form that each takes.

use std::fmt::Write as _;
use std::str::FromStr;

use measure::Refused;
use ureq::http::Uri;

use super::open_metrics::suffix;
use super::otlp;
use super::snapshot::{BOUNDS, Durations, Labels, Snapshot, Value};
use web::push::PushRequest;

/// Help for an address without a protocol.
const EXAMPLES: &str = "end it in /write?db=NAME (InfluxDB 1), /api/v2/write?org=ORG&bucket=NAME (InfluxDB 2) or /v1/metrics (OTLP)";

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
        let uri: Uri = text
            .parse()
            .map_err(|_| Refused::new("it is no address", EXAMPLES))?;
        let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
        let Some(authority) = uri.authority().filter(|_| is_http) else {
            let what = "it does not begin with http:// or https://";
            return Err(Refused::new(what, EXAMPLES));
        };
        let query = uri.query().unwrap_or_default();
        let is_secret = |pair: &str| ["u=", "p=", "token="].iter().any(|it| pair.starts_with(it));
        if authority.as_str().contains('@') || query.split('&').any(is_secret) {
            return Err(Refused::new(
                "it holds a password, which others see in the list of processes",
                "give the user with --metrics-user, and the password or token in BELLOWS_METRICS_TOKEN",
            ));
        }
        let protocol = match uri.path().trim_end_matches('/') {
            "/write" if !query.split('&').any(|pair| pair.starts_with("db=")) => {
                return Err(Refused::new("it names no database", "write /write?db=NAME"));
            }
            "/write" | "/api/v2/write" => Protocol::Influx,
            path if path.ends_with("/v1/metrics") => Protocol::Otlp,
            _ => return Err(Refused::new("its path says no protocol", EXAMPLES)),
        };
        if query.contains("precision=") {
            let what = "it says a precision, and times are sent in nanoseconds";
            return Err(Refused::new(what, "leave out precision="));
        }
        Ok(Self {
            url: text.to_owned(),
            protocol,
        })
    }
}

impl MetricsTarget {
    /// The server's address.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Prefix of a token in the header.
    pub(super) const fn scheme(&self) -> &'static str {
        match self.protocol {
            Protocol::Influx => "Token",
            Protocol::Otlp => "Bearer",
        }
    }

    /// A push of all series at once.
    pub(super) fn request(&self, snapshot: &Snapshot, start_ns: u64, unix_ns: u64) -> PushRequest {
        let (content_type, body) = match self.protocol {
            Protocol::Influx => {
                let body = influx_lines(snapshot, unix_ns);
                ("text/plain; charset=utf-8", body)
            }
            Protocol::Otlp => {
                let body = otlp::request(snapshot, start_ns, unix_ns);
                ("application/json", body)
            }
        };
        PushRequest {
            url: self.url.clone(),
            query: Vec::new(),
            content_type,
            body,
        }
    }
}

/// All series at one time in InfluxDB's line protocol, one `measurement,tag=value field=value nanoseconds` each. Names
/// are those of the OpenMetrics page.
fn influx_lines(snapshot: &Snapshot, unix_ns: u64) -> Vec<u8> {
    let mut out = String::new();
    for (name, family) in snapshot.families() {
        let name = match suffix(family.unit) {
            Some(unit) => format!("{name}_{unit}"),
            None => name.to_owned(),
        };
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

/// Tags need a value; commas, blanks and equals signs are escaped. A line cannot hold a line break, and a backslash at
/// the end of a value would escape the next character.
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

#[cfg(test)]
mod tests {
    use archive::{SeriesName, SeriesUnit};

    use super::*;

    #[test]
    fn the_path_says_the_protocol_and_secrets_are_refused() {
        let of = |text: &str| text.parse::<MetricsTarget>().map(|it| it.protocol).ok();
        assert_eq!(of("http://h:8086/write?db=x"), Some(Protocol::Influx));
        assert_eq!(
            of("https://h/api/v2/write?org=o&bucket=b"),
            Some(Protocol::Influx)
        );
        assert_eq!(of("http://h:4318/v1/metrics"), Some(Protocol::Otlp));
        assert_eq!(of("http://h/otlp/v1/metrics"), Some(Protocol::Otlp));
        for wrong in [
            "",
            "h:8086",
            "http://h:8086",
            "http://h/write",
            "http://h/write?db=x&p=secret",
            "http://u:secret@h/v1/metrics",
            "http://h/write?db=x&precision=s",
            "ftp://h/v1/metrics",
        ] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn names_cannot_end_a_tag_or_a_line() {
        let mut snapshot = Snapshot::new("my run");
        let series = SeriesName::new("page", "ready", SeriesUnit::Count);
        let series = series.with("queue", "a,b=c d\ne\\").with("vhost", "");
        snapshot.tell(&[(series, 2.5)]);
        let text = String::from_utf8(influx_lines(&snapshot, 17)).unwrap();
        let expected =
            "bellows_page_ready,experiment=my\\ run,queue=a\\,b\\=c\\ d_e/ gauge=2.5 17\n";
        assert_eq!(text, expected);
    }
}
