//! All series of a run as they are now, by name: what is served and sent while it goes on.

use std::collections::{BTreeMap, BTreeSet};

use archive::{ProcessUsage, SeriesName, SeriesPoint, SeriesUnit};
use measure::{Interval, Metric, MetricKind, Phase};

/// Upper bounds of the buckets of latencies, seconds: 1, 2 and 5 of each decade from a microsecond to a minute.
pub(super) const BOUNDS: [f64; 24] = [
    1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1,
    0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 60.0,
];
/// Quantiles of the last interval.
const QUANTILES: [(f64, &str); 5] = [
    (0.5, "0.5"),
    (0.9, "0.9"),
    (0.99, "0.99"),
    (0.999, "0.999"),
    (1.0, "1"),
];
/// What stands before the names of all series that bellows itself tells.
const PREFIX: &str = "bellows";
/// Series that are kept; the machine's, the broker's and 10,000 of scraped pages.
const MOST_SERIES: usize = 12_000;

/// Labels of a series, in the order of their names.
pub(super) type Labels = BTreeMap<String, String>;

/// What a series is now.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    /// As it is.
    Gauge(f64),
    /// Everything since the beginning of the run.
    Total(u64),
    /// Durations since the beginning of the run.
    Durations(Durations),
}

/// How many durations fell below each of [`BOUNDS`] and above the one before it, those above all of them last.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Durations {
    pub(super) counts: [u64; BOUNDS.len() + 1],
    pub(super) sum_s: f64,
}

/// Series of one name.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Family {
    pub(super) help: String,
    pub(super) unit: SeriesUnit,
    pub(super) members: BTreeMap<Labels, Value>,
}

/// All series of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Snapshot {
    /// Labels that all series have.
    common: Labels,
    families: BTreeMap<String, Family>,
    /// What each source of named series told last.
    told: BTreeMap<String, BTreeSet<(String, Labels)>>,
    /// The family of the named series of each source, name and unit.
    named: BTreeMap<(String, String, SeriesUnit), String>,
    series: usize,
}

impl Snapshot {
    pub(super) fn new(experiment: &str) -> Self {
        let common = [("experiment".to_owned(), experiment.to_owned())];
        Self {
            common: common.into(),
            ..Self::default()
        }
    }

    /// The families in the order of their names.
    pub(super) fn families(&self) -> impl Iterator<Item = (&str, &Family)> {
        self.families.iter().map(|(name, family)| (&**name, family))
    }

    fn labels(&self, more: &[(&str, &str)]) -> Labels {
        let mut labels = self.common.clone();
        for (key, value) in more {
            labels.insert((*key).to_owned(), (*value).to_owned());
        }
        labels
    }

    /// The value of a series, which is made where it is new and there is room.
    fn member(
        &mut self,
        name: &str,
        help: &str,
        unit: SeriesUnit,
        labels: Labels,
        first: Value,
    ) -> Option<&mut Value> {
        let family = self.families.entry(name.to_owned());
        let family = family.or_insert_with(|| Family {
            help: help.to_owned(),
            unit,
            members: BTreeMap::new(),
        });
        if !family.members.contains_key(&labels) {
            if self.series >= MOST_SERIES {
                return None;
            }
            self.series += 1;
        }
        Some(family.members.entry(labels).or_insert(first))
    }

    fn gauge(&mut self, name: &str, help: &str, unit: SeriesUnit, labels: Labels, value: f64) {
        let member = self.member(name, help, unit, labels, Value::Gauge(value));
        if let Some(member) = member {
            *member = Value::Gauge(value);
        }
    }

    fn count(&mut self, name: &str, help: &str, labels: Labels, more: u64) {
        let member = self.member(name, help, SeriesUnit::Count, labels, Value::Total(0));
        if let Some(Value::Total(total)) = member {
            *total = total.saturating_add(more);
        }
    }

    /// Adds an interval of the load that has ended.
    pub(super) fn add(&mut self, interval: &Interval) {
        let counters = &interval.counters;
        let messages = [
            ("sent", "Messages sent", counters.sent),
            ("completed", "Messages acknowledged", counters.completed),
            ("received", "Deliveries decoded", counters.received),
            (
                "blocked",
                "Messages that found the in-flight window full",
                counters.blocked,
            ),
            ("nacked", "Messages refused by the broker", counters.nacked),
            (
                "returned",
                "Messages that reached no queue",
                counters.returned,
            ),
            (
                "redelivered",
                "Deliveries with the redelivered flag",
                counters.redelivered,
            ),
            (
                "late",
                "Messages sent over 1 ms after they were due",
                counters.late,
            ),
        ];
        for (name, help, count) in messages {
            let labels = self.labels(&[]);
            self.count(&format!("{PREFIX}_messages_{name}"), help, labels, count);
        }
        for (metric, count) in interval.counts.iter() {
            self.add_count(metric, count);
        }
        let mut seen = BTreeSet::new();
        for due in interval.histograms() {
            self.add_durations(due.metric, due.histogram);
            if due.due == interval.phase && seen.insert(due.metric) {
                self.set_quantiles(due.metric, due.histogram);
            }
        }
        for phase in [Phase::Warmup, Phase::Measure, Phase::Drain] {
            let labels = self.labels(&[("phase", phase_name(phase))]);
            let is_now = f64::from(u8::from(phase == interval.phase));
            let (name, help) = (format!("{PREFIX}_phase"), "1 for the phase of the run");
            self.gauge(&name, help, SeriesUnit::Count, labels, is_now);
        }
    }

    fn add_count(&mut self, metric: Metric, count: u64) {
        let info = metric.info();
        let name = identifier(&format!("{PREFIX}_{}", info.key));
        let labels = self.labels(&[]);
        match info.kind {
            MetricKind::Peak => {
                self.gauge(&name, info.meaning, SeriesUnit::Count, labels, count as f64);
            }
            _ => self.count(&name, info.meaning, labels, count),
        }
    }

    fn add_durations(&mut self, metric: Metric, histogram: &hdrhistogram::Histogram<u64>) {
        let labels = self.labels(&[("latency", metric.info().key)]);
        let member = self.member(
            &format!("{PREFIX}_latency"),
            "Latencies of all that was answered since the beginning of the run",
            SeriesUnit::Seconds,
            labels,
            Value::Durations(Durations::default()),
        );
        if let Some(Value::Durations(durations)) = member {
            durations.add(histogram);
        }
    }

    fn set_quantiles(&mut self, metric: Metric, histogram: &hdrhistogram::Histogram<u64>) {
        if histogram.is_empty() {
            return;
        }
        for (quantile, text) in QUANTILES {
            let ns = histogram.value_at_quantile(quantile).min(histogram.max());
            let labels = self.labels(&[("latency", metric.info().key), ("quantile", text)]);
            let name = format!("{PREFIX}_latency_quantile");
            let help = "Quantiles of the latencies of the last interval";
            self.gauge(&name, help, SeriesUnit::Seconds, labels, ns as f64 / 1e9);
        }
    }

    /// Sets what is known of an interval beside counts and latencies.
    pub(super) fn set(&mut self, point: &SeriesPoint) {
        let rate = "Messages or operations per second that the schedule requested";
        if let Some(requested) = point.requested_rate {
            let labels = self.labels(&[]);
            let name = format!("{PREFIX}_requested");
            self.gauge(&name, rate, SeriesUnit::PerSecond, labels, requested);
        }
        let lag = point.loop_lag_max_ns as f64 / 1e9;
        let help = "Largest lag of an event loop of the generator";
        let (name, labels) = (format!("{PREFIX}_loop_lag_max"), self.labels(&[]));
        self.gauge(&name, help, SeriesUnit::Seconds, labels, lag);
        for (process, usage) in [("broker", point.broker), ("generator", point.client)] {
            if let Some(usage) = usage {
                self.set_process(process, usage);
            }
        }
    }

    fn set_process(&mut self, process: &str, usage: ProcessUsage) {
        let facts = [
            (
                "cpu",
                "CPU time divided by elapsed time",
                SeriesUnit::Cores,
                usage.cpu_cores,
            ),
            (
                "memory",
                "Resident memory",
                SeriesUnit::Bytes,
                usage.rss_bytes as f64,
            ),
            (
                "threads",
                "Threads",
                SeriesUnit::Count,
                f64::from(usage.threads),
            ),
        ];
        for (name, help, unit, value) in facts {
            let labels = self.labels(&[("process", process)]);
            self.gauge(
                &format!("{PREFIX}_process_{name}"),
                help,
                unit,
                labels,
                value,
            );
        }
    }

    /// Sets named series; what their sources told before and do not now is gone, and so is what is no number now, which
    /// not all of those who are sent it take. A label that all series have keeps its value, and one of the same name
    /// is `exported_NAME`, as in Prometheus.
    /// Names that are the same as identifiers have a number behind them, and so have such labels.
    pub(super) fn tell(&mut self, values: &[(SeriesName, f64)]) {
        let mut now: BTreeMap<&str, BTreeSet<(String, Labels)>> = BTreeMap::new();
        for (series, value) in values {
            let told = now.entry(&series.source).or_default();
            if !value.is_finite() {
                continue;
            }
            let Some(name) = self.family_of(series) else {
                continue;
            };
            let mut labels = self.common.clone();
            for (key, value) in &series.labels {
                let key = identifier(key);
                let key = match self.common.contains_key(&key) {
                    true => format!("exported_{key}"),
                    false => key,
                };
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
        let name = unlike(name, |name| {
            taken.contains(name) || self.families.contains_key(name)
        });
        self.named.insert(key, name.clone());
        Some(name)
    }

    fn forget(&mut self, name: &str, labels: &Labels) {
        let Some(family) = self.families.get_mut(name) else {
            return;
        };
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

    /// All of them.
    pub(super) fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

const fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Warmup => "warmup",
        Phase::Measure => "measure",
        Phase::Drain => "drain",
    }
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
mod tests {
    use measure::{Nanos, Time};

    use super::*;

    fn interval(ms: &[u64]) -> Interval {
        let mut interval = Interval::new();
        interval.reset(Time(0), Phase::Measure);
        interval.end = Time(1_000_000_000);
        interval.counters.sent = ms.len() as u64;
        for ms in ms {
            let latency = Nanos::from_millis(*ms);
            interval
                .latencies
                .record_n(Metric::ACK_RESPONSE, latency, 1);
        }
        interval
    }

    fn only(snapshot: &Snapshot, name: &str) -> Value {
        let (_, family) = snapshot.families().find(|(it, _)| *it == name).unwrap();
        assert_eq!(family.members.len(), 1, "{family:?}");
        family.members.values().next().unwrap().clone()
    }

    #[test]
    fn totals_add_up_and_quantiles_are_the_last_intervals() {
        let mut snapshot = Snapshot::new("x");
        snapshot.add(&interval(&[1, 3, 3]));
        snapshot.add(&interval(&[40]));
        assert_eq!(only(&snapshot, "bellows_messages_sent"), Value::Total(4));
        let Value::Durations(durations) = only(&snapshot, "bellows_latency") else {
            panic!("{snapshot:?}");
        };
        assert_eq!(durations.count(), 4);
        // A duration of 1 ms is kept as up to 1.0005 ms, and so lies above the bound of 1 ms.
        let at = |bound: f64| BOUNDS.iter().position(|it| *it == bound).unwrap();
        let below = |bound: f64| durations.counts[..=at(bound)].iter().sum::<u64>();
        assert_eq!((below(2e-3), below(5e-3), below(5e-2)), (1, 3, 4));
        assert!(
            (durations.sum_s - 0.047).abs() < 1e-4,
            "{}",
            durations.sum_s
        );
        let (_, quantiles) = snapshot
            .families()
            .find(|(name, _)| *name == "bellows_latency_quantile")
            .unwrap();
        assert_eq!(quantiles.members.len(), QUANTILES.len());
        for value in quantiles.members.values() {
            assert!(
                matches!(value, Value::Gauge(s) if (*s - 0.04).abs() < 1e-4),
                "{value:?}"
            );
        }
    }

    #[test]
    fn a_source_has_what_it_told_last() {
        let mut snapshot = Snapshot::new("x");
        let queue = |name: &str| {
            SeriesName::new("page 1", "ready", SeriesUnit::Count).with("queue-name", name)
        };
        let other = SeriesName::new("machine", "load", SeriesUnit::Count);
        snapshot.tell(&[(queue("a"), 1.0), (queue("b"), 2.0), (other, 3.0)]);
        snapshot.tell(&[(queue("b"), 4.0)]);
        let Value::Gauge(value) = only(&snapshot, "bellows_page_1_ready") else {
            panic!("{snapshot:?}");
        };
        assert_eq!(value, 4.0);
        assert_eq!(only(&snapshot, "bellows_machine_load"), Value::Gauge(3.0));
        assert_eq!(snapshot.series, 2);
    }

    #[test]
    fn what_is_no_number_is_gone_and_no_page_says_which_run_it_is_of() {
        let mut snapshot = Snapshot::new("mine");
        let ready = || SeriesName::new("page", "ready", SeriesUnit::Count);
        snapshot.tell(&[(ready().with("experiment", "theirs"), 1.0)]);
        let (_, family) = snapshot.families().next().unwrap();
        let labels = family.members.keys().next().unwrap();
        assert_eq!(labels["experiment"], "mine");
        assert_eq!(labels["exported_experiment"], "theirs");
        for odd in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            snapshot.tell(&[(ready(), 1.0)]);
            assert_eq!(only(&snapshot, "bellows_page_ready"), Value::Gauge(1.0));
            snapshot.tell(&[(ready(), odd)]);
            assert_eq!(
                (snapshot.series, snapshot.families().count()),
                (0, 0),
                "{odd}"
            );
        }
    }

    #[test]
    fn names_and_labels_that_are_alike_as_identifiers_stay_apart() {
        let mut snapshot = Snapshot::new("x");
        let series = |name: &str, unit| SeriesName::new("page", name, unit);
        let all = [
            (series("sum(ready)", SeriesUnit::Count), 1.0),
            (series("sum_ready", SeriesUnit::Count), 2.0),
            (series("Sum Ready", SeriesUnit::Bytes), 3.0),
            (
                series("ready", SeriesUnit::Count)
                    .with("Queue", "a")
                    .with("queue", "b"),
                4.0,
            ),
        ];
        let values = |snapshot: &Snapshot| -> Vec<(String, Value)> {
            let families = snapshot.families();
            families
                .flat_map(|(name, family)| {
                    family
                        .members
                        .values()
                        .map(|it| (name.to_owned(), it.clone()))
                })
                .collect()
        };
        snapshot.tell(&all);
        let expected = [
            ("bellows_page_ready", 4.0),
            ("bellows_page_sum_ready", 1.0),
            ("bellows_page_sum_ready_2", 2.0),
            ("bellows_page_sum_ready_3", 3.0),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), Value::Gauge(value)));
        assert_eq!(values(&snapshot), expected);
        let ready = snapshot
            .families
            .get("bellows_page_ready")
            .expect("a family");
        let labels = ready.members.keys().next().expect("a series");
        assert_eq!((&*labels["queue"], &*labels["queue_2"]), ("a", "b"));
        // In another order, and after some were away, each keeps its name.
        snapshot.tell(&all[2..3]);
        let again: Vec<_> = all.iter().rev().cloned().collect();
        snapshot.tell(&again);
        assert_eq!(values(&snapshot), expected);
    }

    #[test]
    fn names_are_identifiers_and_their_number_is_bounded() {
        for (name, expected) in [
            ("idle, waiting for a disk", "idle_waiting_for_a_disk"),
            ("1x", "_1x"),
            ("<b>é</b>", "_b_b"),
            ("", "_"),
            ("CPU%", "cpu"),
        ] {
            assert_eq!(identifier(name), expected);
        }
        let mut snapshot = Snapshot::new("x");
        let many = (0..MOST_SERIES + 5).map(|i| {
            let name = SeriesName::new("page", "ready", SeriesUnit::Count);
            (name.with("queue", &i.to_string()), 1.0)
        });
        snapshot.tell(&many.collect::<Vec<_>>());
        assert_eq!(snapshot.series, MOST_SERIES);
        snapshot.tell(&[(SeriesName::new("page", "ready", SeriesUnit::Count), 1.0)]);
        assert!(snapshot.series <= 1, "{}", snapshot.series);
    }
}
