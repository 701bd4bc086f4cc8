//! Servers that series are sent to, and the form that each takes.

use std::str::FromStr;

use measure::Refused;
use ureq::http::Uri;

use super::snapshot::Snapshot;
use super::{influx, otlp};
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
                let body = influx::lines(snapshot, unix_ns);
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

#[cfg(test)]
mod tests {
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
}
