//! The servers that profiles are sent to, and what each wants to hear.

use std::collections::BTreeMap;
use std::str::FromStr;

use measure::Refused;
use serde_json::{Value, json};
use ureq::http::Uri;

use super::{Push, PushRequest};

/// Where Pyroscope takes profiles by its first protocol, in which one is a body and the rest a query.
const INGEST: &str = "/ingest";
/// Where Pyroscope and those that pass on to it take them by its second one, which here is JSON.
const PUSHER: &str = "/push.v1.PusherService/Push";
/// Where Parca takes them, as JSON.
const WRITE_RAW: &str = "/profiles/writeraw";

/// A server that takes profiles; the end of its address says by which protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushTarget {
    url: String,
    protocol: Protocol,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Ingest,
    Pusher,
    Parca,
}

impl FromStr for PushTarget {
    type Err = Refused;

    fn from_str(text: &str) -> Result<Self, Refused> {
        const EXAMPLE: &str = "write it as http://127.0.0.1:4040";
        let uri: Uri = text
            .trim()
            .parse()
            .map_err(|_| Refused::new("it is no address", EXAMPLE))?;
        let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
        let Some(authority) = uri.authority().filter(|_| is_http) else {
            return Err(Refused::new(
                "it does not begin with http:// or https://",
                EXAMPLE,
            ));
        };
        if authority.as_str().contains('@') {
            return Err(Refused::new(
                "it holds a password, which others see in the list of processes",
                "give the user with --push-user, and the password in BELLOWS_PUSH_TOKEN or --push-token-file",
            ));
        }
        if uri.query().is_some() {
            return Err(Refused::new("it has a query", EXAMPLE));
        }
        let url = text.trim().trim_end_matches('/').to_owned();
        let (url, protocol) = if url.ends_with(PUSHER) {
            (url, Protocol::Pusher)
        } else if url.ends_with(WRITE_RAW) {
            (url, Protocol::Parca)
        } else if url.ends_with(INGEST) {
            (url, Protocol::Ingest)
        } else {
            (url + INGEST, Protocol::Ingest)
        };
        Ok(Self { url, protocol })
    }
}

impl PushTarget {
    /// Its address.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The request that hands over a profile.
    pub fn request(&self, push: &Push) -> PushRequest {
        let (query, content_type, body) = match self.protocol {
            Protocol::Ingest => (query(push), "application/octet-stream", push.pprof.clone()),
            Protocol::Pusher => {
                let labels = pairs(&series(push));
                (Vec::new(), "application/json", series_of(push, &labels))
            }
            Protocol::Parca => {
                let labels = json!({ "labels": pairs(&series(push)) });
                (Vec::new(), "application/json", series_of(push, &labels))
            }
        };
        PushRequest {
            url: self.url.clone(),
            query,
            content_type,
            body,
        }
    }
}

/// The query of `/ingest`: https://grafana.com/docs/pyroscope/latest/reference-server-api
fn query(push: &Push) -> Vec<(&'static str, String)> {
    let labels = push.labels.iter();
    let labels: Vec<String> = labels
        .map(|(name, value)| format!("{}={}", label_name(name), label_value(value)))
        .collect();
    let seconds = |ns: u64| (ns / 1_000_000_000).to_string();
    vec![
        ("name", format!("{}{{{}}}", service(push), labels.join(","))),
        ("from", seconds(push.from_unix_ns)),
        ("until", seconds(push.until_unix_ns)),
        ("sampleRate", push.frequency.to_string()),
        ("spyName", "bellows".to_owned()),
        ("format", "pprof".to_owned()),
    ]
}

/// The labels of a series, as Prometheus has them.
fn series(push: &Push) -> BTreeMap<String, String> {
    let labels = push.labels.iter();
    let mut series: BTreeMap<String, String> = labels
        .map(|(name, value)| (label_name(name), value.clone()))
        .collect();
    let kind = match push.event.as_str() {
        "cpu" => "process_cpu".to_owned(),
        event => label_name(event),
    };
    series.insert("__name__".into(), kind);
    series.insert("service_name".into(), service(push));
    series
}

fn pairs(labels: &BTreeMap<String, String>) -> Value {
    let pairs = labels.iter();
    pairs
        .map(|(name, value)| json!({"name": name, "value": value}))
        .collect()
}

/// The one series of a request in JSON, whose bytes are in base64.
fn series_of(push: &Push, labels: &Value) -> Vec<u8> {
    use base64::Engine as _;
    let raw = base64::engine::general_purpose::STANDARD.encode(&push.pprof);
    let request = json!({"series": [{"labels": labels, "samples": [{"rawProfile": raw}]}]});
    request.to_string().into_bytes()
}

/// The process's name as names of services may be.
fn service(push: &Push) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
    replaced(&push.process, fits)
}

fn label_name(name: &str) -> String {
    replaced(name, |c| c.is_ascii_alphanumeric() || c == '_')
}

/// A value, without what ends one in the `name` of `/ingest`.
fn label_value(value: &str) -> String {
    replaced(value, |c| {
        !c.is_control() && !matches!(c, ',' | '{' | '}' | '=' | '"')
    })
}

fn replaced(text: &str, fits: impl Fn(char) -> bool) -> String {
    let text: String = text
        .chars()
        .map(|c| if fits(c) { c } else { '_' })
        .collect();
    match text.is_empty() {
        true => "_".to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push() -> Push {
        Push {
            process: "rabbit@host".into(),
            event: "cpu".into(),
            labels: [("env".to_owned(), "a,b}".to_owned())].into(),
            from_unix_ns: 60_500_000_000,
            until_unix_ns: 120_000_000_000,
            frequency: 49,
            pprof: vec![0x1f, 0x8b, 1],
        }
    }

    #[test]
    fn the_address_says_the_protocol() {
        let of = |text: &str| text.parse::<PushTarget>().map(|it| (it.url, it.protocol));
        let ingest = |url: &str| Ok((url.to_owned(), Protocol::Ingest));
        assert_eq!(of("http://h:4040"), ingest("http://h:4040/ingest"));
        assert_eq!(of("https://h/pyro/"), ingest("https://h/pyro/ingest"));
        assert_eq!(of("http://h/ingest"), ingest("http://h/ingest"));
        let pusher = "http://h:4040/push.v1.PusherService/Push";
        assert_eq!(of(pusher), Ok((pusher.to_owned(), Protocol::Pusher)));
        let parca = "http://h:7070/profiles/writeraw";
        assert_eq!(of(parca), Ok((parca.to_owned(), Protocol::Parca)));
        for wrong in [
            "",
            "h:4040",
            "ftp://h",
            "http://",
            "http://u:p@h",
            "http://h?x=1",
            "\n",
        ] {
            assert!(of(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn names_and_labels_fit_the_protocols() {
        let target: PushTarget = "http://h".parse().unwrap();
        let request = target.request(&push());
        let query: BTreeMap<_, _> = request.query.into_iter().collect();
        assert_eq!(query["name"], "rabbit_host{env=a_b_}");
        assert_eq!((&*query["from"], &*query["until"]), ("60", "120"));
        assert_eq!((&*query["format"], &*query["sampleRate"]), ("pprof", "49"));
        assert_eq!(request.body, push().pprof);

        let target: PushTarget = format!("http://h{PUSHER}").parse().unwrap();
        let body: Value = serde_json::from_slice(&target.request(&push()).body).unwrap();
        let series = &body["series"][0];
        assert_eq!(series["samples"][0]["rawProfile"], "H4sB");
        let labels = series["labels"].as_array().unwrap();
        assert!(labels.contains(&json!({"name": "__name__", "value": "process_cpu"})));
        assert!(labels.contains(&json!({"name": "env", "value": "a,b}"})));
        let target: PushTarget = format!("http://h{WRITE_RAW}").parse().unwrap();
        let body: Value = serde_json::from_slice(&target.request(&push()).body).unwrap();
        assert!(body["series"][0]["labels"]["labels"].is_array());
    }
}
