//! Current values of all series of a run by name, as they are served and pushed.

use std::collections::{BTreeMap, BTreeSet};

use archive::{ProcessUsage, SeriesName, SeriesPoint, SeriesUnit};
use measure::{Interval, Metric, MetricKind, Phase};

/// Upper bounds of the buckets of latencies, seconds: 1, 2 and 5 of each decade from a microsecond to a minute.
pub(super) const BOUNDS: [f64; 24] = [
    1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1, 0.2, 0.5, 1.0, 2.0,
    5.0, 10.0, 20.0, 60.0,
];
/// Quantiles of the last interval.
const QUANTILES: [(f64, &str); 5] = [(0.5, "0.5"), (0.9, "0.9"), (0.99, "0.99"), (0.999, "0.999"), (1.0, "1")];
/// Prefix of the names of bellows' own series.
const PREFIX: &str = "bellows";
/// Series that are kept; the machine's, the broker's and 10,000 of scraped pages.
const MOST_SERIES: usize = 12_000;

/// Labels of a series, in the order of their names.
pub(super) type Labels = BTreeMap<String, String>;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Gauge(f64),
    /// A total since the beginning of the run.
    Total(u64),
    /// Durations since the beginning of the run.
    Durations(Durations),
}

/// Counts of durations below each of [`BOUNDS`] and not below the previous one; the last counts those above all.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Durations {
    pub(super) counts: [u64; BOUNDS.len() + 1],
    pub(super) sum_s: f64,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Family {
    pub(super) help: String,
    pub(super) unit: SeriesUnit,
    pub(super) members: BTreeMap<Labels, Value>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Snapshot {
    common: Labels,
    families: BTreeMap<String, Family>,
    /// The latest series of each source of named series.
    told: BTreeMap<String, BTreeSet<(String, Labels)>>,
    /// The family of the named series of each source, name and unit.
    named: BTreeMap<(String, String, SeriesUnit), String>,
    series: usize,
}

impl Snapshot {
    pub(super) fn new(experiment: &str) -> Self {
        let common = [("experiment".to_owned(), experiment.to_owned())];
        Self { common: common.into(), ..Self::default() }
    }

    /// The families in the order of their names.
    pub(super) fn families(&self) -> impl Iterator<Item = (&str, &Family)> {
        self.families.iter().map(|(name, family)| (&**name, family))
    }

    fn labels(&self, more: &[(&str, &str)]) -> Labels {
        let mut labels = self.common.clone();
        labels.extend(more.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
        labels
    }

    /// The value of a series, which is made where it is new and there is room.
    fn member(&mut self, name: &str, help: &str, unit: SeriesUnit, labels: Labels, first: Value) -> Option<&mut Value> {
        let family = self.families.entry(name.to_owned());
        let family = family.or_insert_with(|| Family { help: help.to_owned(), unit, members: BTreeMap::new() });
        if !family.members.contains_key(&labels) {
            if self.series >= MOST_SERIES {
                return None;
            }
            self.series += 1;
        }
        Some(family.members.entry(labels).or_insert(first))
    }

    fn gauge(&mut self, name: &str, help: &str, unit: SeriesUnit, labels: Labels, value: f64) {
        if let Some(member) = self.member(name, help, unit, labels, Value::Gauge(value)) {
            *member = Value::Gauge(value);
        }
    }

    fn count(&mut self, name: &str, help: &str, labels: Labels, more: u64) {
        if let Some(Value::Total(total)) = self.member(name, help, SeriesUnit::Count, labels, Value::Total(0)) {
            *total = total.saturating_add(more);
        }
    }

    pub(super) fn add(&mut self, interval: &Interval) {
        let counters = &interval.counters;
        let messages = [
            ("sent", "Messages sent", counters.sent),
            ("completed", "Messages acknowledged", counters.completed),
            ("received", "Deliveries decoded", counters.received),
            ("blocked", "Messages that found the in-flight window full", counters.blocked),
            ("nacked", "Messages refused by the broker", counters.nacked),
            ("returned", "Messages that reached no queue", counters.returned),
            ("redelivered", "Deliveries with the redelivered flag", counters.redelivered),
            ("late", "Messages sent over 1 ms after they were due", counters.late),
            ("resent", "Copies of messages sent again after a reconnect", counters.resent),
        ];
        for (name, help, count) in messages {
            self.count(&format!("{PREFIX}_messages_{name}"), help, self.common.clone(), count);
        }
        for (metric, count) in interval.counts.iter() {
            self.add_count(metric, count);
        }
        let mut seen = BTreeSet::new();
        for due in interval.histograms() {
            self.add_durations(due.metric, due.histogram);
            let is_of_phase = due.due == interval.phase && !due.histogram.is_empty();
            if is_of_phase && seen.insert(due.metric) {
                self.set_quantiles(due.metric, due.histogram);
            }
        }
        self.forget_quantiles_but(&seen);
        for phase in Phase::ALL {
            let labels = self.labels(&[("phase", phase.name())]);
            let is_now = f64::from(u8::from(phase == interval.phase));
            let (name, help) = (format!("{PREFIX}_phase"), "1 for the phase of the run");
            self.gauge(&name, help, SeriesUnit::Count, labels, is_now);
        }
    }

    fn add_count(&mut self, metric: Metric, count: u64) {
        let info = metric.info();
        let name = identifier(&format!("{PREFIX}_{}", info.key));
        let labels = self.common.clone();
        match info.kind {
            MetricKind::Peak => self.gauge(&name, info.meaning, SeriesUnit::Count, labels, count as f64),
            _ => self.count(&name, info.meaning, labels, count),
        }
    }

    fn add_durations(&mut self, metric: Metric, histogram: &hdrhistogram::Histogram<u64>) {
        let labels = self.labels(&[("latency", metric.info().key)]);
        let member = self.member(
            &format!("{PREFIX}_latency"),
            "Latencies of all answers since the beginning of the run",
            SeriesUnit::Seconds,
            labels,
            Value::Durations(Durations::default()),
        );
        if let Some(Value::Durations(durations)) = member {
            durations.add(histogram);
        }
    }

    fn set_quantiles(&mut self, metric: Metric, histogram: &hdrhistogram::Histogram<u64>) {
        for (quantile, text) in QUANTILES {
            let ns = histogram.value_at_quantile(quantile).min(histogram.max());
            let labels = self.labels(&[("latency", metric.info().key), ("quantile", text)]);
            let help = "Quantiles of the latencies of the last interval";
            self.gauge(&quantile_name(), help, SeriesUnit::Seconds, labels, ns as f64 / 1e9);
        }
    }

    /// Forgets quantiles that the last interval lacks: while a broker stalls, old ones would look as if all were well.
    fn forget_quantiles_but(&mut self, seen: &BTreeSet<Metric>) {
        let name = quantile_name();
        let Some(family) = self.families.get(&name) else { return };
        let is_seen = |labels: &Labels| {
            let latency = labels.get("latency").map(String::as_str);
            seen.iter().any(|metric| latency == Some(metric.info().key))
        };
        let stale: Vec<Labels> = family.members.keys().filter(|labels| !is_seen(labels)).cloned().collect();
        for labels in &stale {
            self.forget(&name, labels);
        }
    }

    /// Sets an interval's figures beside counts and latencies.
    pub(super) fn set(&mut self, point: &SeriesPoint) {
        let rate = "Messages or operations per second that the schedule requested";
        if let Some(requested) = point.requested_rate {
            let name = format!("{PREFIX}_requested");
            self.gauge(&name, rate, SeriesUnit::PerSecond, self.common.clone(), requested);
        }
        let lag = point.loop_lag_max_ns as f64 / 1e9;
        let (name, help) = (format!("{PREFIX}_loop_lag_max"), "Largest lag of an event loop of the generator");
        self.gauge(&name, help, SeriesUnit::Seconds, self.common.clone(), lag);
        for (process, usage) in [("broker", point.broker), ("generator", point.client)] {
            if let Some(usage) = usage {
                self.set_process(process, usage);
            }
        }
    }

    fn set_process(&mut self, process: &str, usage: ProcessUsage) {
        let facts = [
            ("cpu", "CPU time divided by elapsed time", SeriesUnit::Cores, usage.cpu_cores),
            ("memory", "Resident memory", SeriesUnit::Bytes, usage.rss_bytes as f64),
            ("threads", "Threads", SeriesUnit::Count, f64::from(usage.threads)),
        ];
        // Of one that is gone there is no more than the CPU.
        let known = if usage.rss_bytes > 0 { facts.len() } else { 1 };
        for (name, help, unit, value) in facts.into_iter().take(known) {
            let labels = self.labels(&[("process", process)]);
            self.gauge(&format!("{PREFIX}_process_{name}"), help, unit, labels, value);
        }
    }

    /// Sets named series. Series that their source no longer has are dropped, as are values that are no numbers, which
    /// some servers refuse. A label that all series have keeps its value, and another of that name becomes
    /// `exported_NAME`, as in Prometheus. Names and labels that collide as identifiers get a number.
    pub(super) fn tell(&mut self, values: &[(SeriesName, f64)]) {
        let mut now: BTreeMap<&str, BTreeSet<(String, Labels)>> = BTreeMap::new();
        for (series, value) in values {
            let told = now.entry(&series.source).or_default();
            if !value.is_finite() {
                continue;
            }
            let Some(name) = self.family_of(series) else { continue };
            let mut labels = self.common.clone();
            for (key, value) in &series.labels {
                let mut key = identifier(key);
                // InfluxDB takes no tag of this name.
                if self.common.contains_key(&key) || key == "time" {
                    key.insert_str(0, "exported_");
                }
                let key = unlike(key, |key| labels.contains_key(key));
                labels.insert(key, value.clone());
            }
            let help = format!("{} of {}", series.name, series.source);
            told.insert((name.clone(), labels.clone()));
            self.gauge(&name, &help, series.unit, labels, *value);
        }
        for (source, now) in now {
            let before = self.told.remove(source).unwrap_or_default();
            for (name, labels) in before.difference(&now) {
                self.forget(name, labels);
            }
            self.told.insert(source.to_owned(), now);
        }
    }

    /// The name of the family of a series, which no other series has; `None` where there are too many.
    fn family_of(&mut self, series: &SeriesName) -> Option<String> {
        let key = (series.source.clone(), series.name.clone(), series.unit);
        if let Some(name) = self.named.get(&key) {
            return Some(name.clone());
        }
        if self.named.len() >= MOST_SERIES {
            return None;
        }
        let name = identifier(&format!("{PREFIX}_{}_{}", series.source, series.name));
        let taken: BTreeSet<&str> = self.named.values().map(String::as_str).collect();
        let name = unlike(name, |name| taken.contains(name) || self.families.contains_key(name));
        self.named.insert(key, name.clone());
        Some(name)
    }

    fn forget(&mut self, name: &str, labels: &Labels) {
        let Some(family) = self.families.get_mut(name) else { return };
        if family.members.remove(labels).is_some() {
            self.series -= 1;
        }
        if family.members.is_empty() {
            self.families.remove(name);
        }
    }
}

impl Durations {
    fn add(&mut self, histogram: &hdrhistogram::Histogram<u64>) {
        for bucket in histogram.iter_recorded() {
            let seconds = bucket.value_iterated_to() as f64 / 1e9;
            let at = BOUNDS.partition_point(|bound| *bound < seconds);
            if let Some(count) = self.counts.get_mut(at) {
                *count += bucket.count_since_last_iteration();
            }
        }
        if !histogram.is_empty() {
            self.sum_s += histogram.mean() * histogram.len() as f64 / 1e9;
        }
    }

    pub(super) fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

fn quantile_name() -> String {
    format!("{PREFIX}_latency_quantile")
}

/// A name, or one with a number behind it where it is taken.
fn unlike(name: String, is_taken: impl Fn(&str) -> bool) -> String {
    if !is_taken(&name) {
        return name;
    }
    let mut numbered = (2..).map(|number: u64| format!("{name}_{number}"));
    numbered.find(|name| !is_taken(name)).unwrap_or(name)
}

/// A name as Prometheus takes it: letters, digits and `_`, no digit first.
fn identifier(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if c.is_ascii_alphanumeric() => out.push(c.to_ascii_lowercase()),
            _ if out.ends_with('_') => {}
            _ => out.push('_'),
        }
    }
    let trimmed = out.trim_end_matches('_');
    match trimmed.chars().next() {
        None => "_".to_owned(),
        Some(c) if c.is_ascii_digit() => format!("_{trimmed}"),
        Some(_) => trimmed.to_owned(),
    }
}

#[cfg(test)]
#[path = "snapshot_tests.rs"]
pub(super) mod tests;
