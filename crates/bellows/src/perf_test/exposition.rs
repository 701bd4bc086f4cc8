//! PerfTest's metrics for Prometheus, under its names.

use std::fmt::{self, Write as _};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use measure::{Interval, Metric, Problem};

use super::values::{Values, bad};
use crate::Failure;

#[derive(Debug, PartialEq)]
pub(super) struct Exposition {
    /// Where it is served: `HOST:PORT`.
    address: String,
    path: String,
    page: Page,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Page {
    prefix: String,
    labels: Vec<(String, String)>,
    /// Gauges that do not change.
    fixed: Vec<(String, f64)>,
    command_line: Option<String>,
    /// Count and sum in seconds of consumer and confirm latencies.
    sums: [(u64, f64); 2],
}

impl Exposition {
    /// Reads the options for metrics; `None` where none are to be served.
    pub(super) fn asked(values: &Values) -> Result<Option<Self>, Failure> {
        if !values.has("metrics-prometheus") {
            return Ok(None);
        }
        let port = values.text("metrics-prometheus-port").unwrap_or("8080");
        let (host, number) = port.rsplit_once(':').unwrap_or(("127.0.0.1", port));
        if number.parse::<u16>().is_err() || host.is_empty() {
            return Err(bad("metrics-prometheus-port", port, "a port, or HOST:PORT"));
        }
        let path = values.text("metrics-prometheus-endpoint").unwrap_or("metrics");
        let shown = values.has("metrics-command-line-arguments");
        Ok(Some(Self {
            address: format!("{host}:{number}"),
            path: format!("/{}", path.trim_start_matches('/')),
            page: Page {
                prefix: values.text("metrics-prefix").unwrap_or("perftest_").to_owned(),
                labels: named(values, "metrics-tags", "name=value, several divided by commas")?,
                fixed: named(values, "exposed-metrics", "name=number, several divided by commas")?,
                command_line: shown.then(|| values.command_line()),
                ..Page::default()
            },
        }))
    }

    /// Adds a gauge that does not change, unless the user gave one of this name.
    pub(super) fn expect(&mut self, name: &str, value: f64) {
        let fixed = &mut self.page.fixed;
        if !fixed.iter().any(|(known, _)| known == name) {
            fixed.push((name.to_owned(), value));
        }
    }

    pub(super) fn serve(self) -> Result<Served, Failure> {
        let text = Arc::new(Mutex::new(self.page.text(&Interval::new())));
        let shared = SharedText(text.clone());
        let address = web::page_server::serve_page(&self.address, &self.path, shared).map_err(|e| {
            Failure::Failed(Problem::new(
                format!("cannot serve metrics on {}", self.address),
                e,
                "choose another port with -mpp/--metrics-prometheus-port",
            ))
        })?;
        Ok(Served { url: format!("http://{address}{}", self.path), page: self.page, text })
    }
}

/// The text of the page, as it is after the last interval.
struct SharedText(Arc<Mutex<String>>);

impl web::page_server::Page for SharedText {
    fn content_type(&self) -> &'static str {
        "text/plain; version=0.0.4; charset=utf-8"
    }

    fn write(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let text = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        out.write_str(&text)
    }
}

/// A page that is being served until the process ends.
#[derive(Debug)]
pub(super) struct Served {
    pub(super) url: String,
    page: Page,
    text: Arc<Mutex<String>>,
}

impl Served {
    pub(super) fn update(&mut self, interval: &Interval) {
        let text = self.page.after(interval);
        *self.text.lock().unwrap_or_else(PoisonError::into_inner) = text;
    }
}

/// The values of `name=value,…`, an option's text; `needed` describes it.
fn named<T: FromStr>(values: &Values, long: &str, needed: &str) -> Result<Vec<(String, T)>, Failure> {
    let text = values.text(long).unwrap_or_default();
    let one = |entry: &str| {
        let (name, value) = entry.split_once('=').filter(|(name, _)| is_name(name))?;
        Some((name.to_owned(), value.parse::<T>().ok()?))
    };
    let entries = text.split(',').filter(|_| values.has(long));
    entries.map(|entry| one(entry).ok_or_else(|| bad(long, text, needed))).collect()
}

/// Whether Prometheus takes it for a name.
fn is_name(name: &str) -> bool {
    let letter = |c: char| c.is_ascii_alphabetic() || c == '_';
    name.starts_with(letter) && name.chars().all(|c| letter(c) || c.is_ascii_digit())
}

impl Page {
    fn after(&mut self, interval: &Interval) -> String {
        for (sum, metric) in self.sums.iter_mut().zip(METRICS) {
            let histogram = interval.latencies.histogram(metric);
            sum.0 += histogram.len();
            if !histogram.is_empty() {
                sum.1 += histogram.mean() * histogram.len() as f64 / 1e9;
            }
        }
        self.text(interval)
    }

    fn text(&self, interval: &Interval) -> String {
        let mut text = String::new();
        let seconds = interval.length().as_secs_f64();
        let per_second = |count: u64| {
            if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
        };
        if let Some(line) = &self.command_line {
            self.gauge(&mut text, "args", &[("command_line", line)], 1.0);
        }
        let count = interval.counters;
        for (name, count) in [
            ("published", count.sent),
            ("confirmed", count.completed),
            ("nacked", count.nacked),
            ("returned", count.returned),
            ("consumed", count.received),
        ] {
            self.gauge(&mut text, name, &[], per_second(count));
        }
        for (name, value) in &self.fixed {
            self.gauge(&mut text, name, &[], *value);
        }
        let names = ["latency_seconds", "confirm_latency_seconds"];
        for ((name, metric), (count, sum)) in names.into_iter().zip(METRICS).zip(self.sums) {
            self.latency(&mut text, name, interval, metric, count, sum);
        }
        text
    }

    fn gauge(&self, text: &mut String, name: &str, labels: &[(&str, &str)], value: f64) {
        let name = format!("{}{name}", self.prefix);
        let labels = self.labels(labels);
        let _ = write!(text, "# TYPE {name} gauge\n{name}{labels} {value:?}\n");
    }

    /// Quantiles of the last interval; count and sum of the whole test.
    fn latency(&self, text: &mut String, name: &str, interval: &Interval, metric: Metric, count: u64, sum: f64) {
        let histogram = interval.latencies.histogram(metric);
        let full = format!("{}{name}", self.prefix);
        let max = if histogram.is_empty() { 0 } else { histogram.max() };
        let _ = writeln!(text, "# TYPE {full} summary");
        for quantile in [0.5, 0.75, 0.95, 0.99, 0.999, 0.9999] {
            let ns = histogram.value_at_quantile(quantile).min(max);
            let labels = self.labels(&[("quantile", &quantile.to_string())]);
            let _ = writeln!(text, "{full}{labels} {:?}", ns as f64 / 1e9);
        }
        let labels = self.labels(&[]);
        let _ = write!(text, "{full}_count{labels} {count}\n{full}_sum{labels} {sum:?}\n");
        self.gauge(text, &format!("{name}_max"), &[], max as f64 / 1e9);
    }

    fn labels(&self, more: &[(&str, &str)]) -> String {
        let escaped = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let own = self.labels.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let all = own.chain(more.iter().copied()).map(|(name, value)| format!("{name}=\"{}\"", escaped(value)));
        match all.collect::<Vec<_>>().join(",") {
            none if none.is_empty() => none,
            all => format!("{{{all}}}"),
        }
    }
}

/// Consumer and confirm latency; see `report::perf_test`.
const METRICS: [Metric; 2] = [Metric::END_TO_END, Metric::ACK_RESPONSE];

#[cfg(test)]
mod tests {
    use super::*;
    use measure::{Nanos, Phase, Time};
    use std::collections::BTreeSet;
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;

    /// The page of PerfTest 2.22.1 for `-r 100 -c 5 -mpr -mcla -mt a=b -em expected_foo=5`.
    const RECORDED: &str = include_str!("../../tests/data/perf-test/prometheus.txt");

    fn exposition(line: &str) -> Result<Option<Exposition>, Failure> {
        Exposition::asked(&super::super::values::tests::read(line)?)
    }

    fn series(page: &str) -> BTreeSet<String> {
        let samples = page.lines().filter(|line| !line.starts_with('#'));
        samples.filter_map(|line| line.rsplit_once(' ')).map(|(series, _)| series.to_owned()).collect()
    }

    #[test]
    fn series_are_named_as_perf_test_names_them() {
        let line = "-d one -z 6 -r 100 -c 5 -mpr -mpp 18080 -mcla -mt a=b -em expected_foo=5";
        let mut exposition = exposition(&format!("-h amqp://u:secret@h {line}")).expect("read").expect("asked for");
        exposition.expect("expected_published", 100.0);
        exposition.expect("expected_foo", 1.0);
        let mut interval = Interval::new();
        interval.reset(Time(0), Phase::Measure);
        interval.end = Time(2_000_000_000);
        interval.counters.sent = 10;
        for metric in METRICS {
            interval.latencies.record_n(metric, Nanos::from_millis(2), 10);
        }
        let page = exposition.page.after(&interval);
        let ours = series(&page);
        // How many messages a confirm covers is not counted.
        for recorded in series(RECORDED).iter().filter(|s| !s.contains("confirm_size")) {
            assert!(ours.contains(recorded), "{recorded} is not in\n{page}");
        }
        for value in ["published{a=\"b\"} 5.0", "expected_foo{a=\"b\"} 5.0", "latency_seconds_count{a=\"b\"} 10"] {
            assert!(page.contains(&format!("perftest_{value}\n")), "{page}");
        }
        testkit::assert_lacks(&page, ["secret", "uri"]);
    }

    #[test]
    fn pages_are_served_on_loopback_and_only_where_asked() {
        assert_eq!(exposition("-x 1").expect("read"), None);
        for wrong in ["-mpr -mpp x", "-mpr -mpp :1", "-mpr -mt a", "-mpr -em a=b", "-mpr -mt 1=b"] {
            assert!(exposition(wrong).is_err(), "{wrong}");
        }
        let served = exposition("-mpr -mpp 0 -mpe own").expect("read").expect("asked for");
        let served = served.serve().expect("serve");
        let address = served.url.strip_prefix("http://").and_then(|u| u.strip_suffix("/own"));
        let address = address.expect("url");
        assert!(address.starts_with("127.0.0.1:"), "{address}");
        let mut stream = TcpStream::connect(address).expect("connect");
        write!(stream, "GET /own HTTP/1.0\r\n\r\n").expect("ask");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("answer");
        assert!(answer.contains("\r\n\r\n# TYPE perftest_published gauge"), "{answer}");
    }
}
