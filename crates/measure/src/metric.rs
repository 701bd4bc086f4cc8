//! The registry of metrics: what each is called, its unit and kind, and what it means.
//!
//! A scenario registers its metrics before it runs and records by [`Metric`], an index: recording is an array access.
//! Readers of an archive register what its files name, and so show metrics of scenarios that they know nothing of.

use std::sync::{LazyLock, PoisonError, RwLock};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Metrics that files may add to the registry; a damaged archive must not fill the memory.
const MOST_FROM_FILES: usize = 256;
/// Letters of a key at most.
const LONGEST_KEY: usize = 64;
/// Letters of a name, a unit or a meaning at most.
const LONGEST_TEXT: usize = 300;

/// How the values of a metric are kept and summed up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum MetricKind {
    /// Durations in nanoseconds, in an HDR histogram.
    #[default]
    Histogram,
    /// A count; intervals add up.
    Counter,
    /// The largest value of an interval; of several intervals the largest counts.
    Peak,
}

/// Description of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct MetricInfo {
    /// The key in JSON and the tag in the HDR log: lower case, digits and `_`.
    pub key: &'static str,
    /// The name that people read.
    pub name: &'static str,
    /// `ns` for a histogram; what is counted for the others, such as `cycles`.
    pub unit: &'static str,
    /// How values are kept.
    pub kind: MetricKind,
    /// The scenario that it belongs to.
    pub scenario: &'static str,
    /// Whether it is a part of a whole that another histogram of the scenario measures: means of parts add up.
    pub part: bool,
    /// Meaning in one sentence.
    pub meaning: &'static str,
}

impl MetricInfo {
    /// A latency; texts and scenario are to be filled in.
    pub const fn latency() -> Self {
        Self { key: "", name: "", unit: "ns", kind: MetricKind::Histogram, scenario: "", part: false, meaning: "" }
    }

    /// A latency that is one part of a whole.
    pub const fn part() -> Self {
        Self { part: true, ..Self::latency() }
    }

    /// A count of `unit`.
    pub const fn counter(unit: &'static str) -> Self {
        Self { unit, kind: MetricKind::Counter, ..Self::latency() }
    }

    /// The largest number of `unit`.
    pub const fn peak(unit: &'static str) -> Self {
        Self { kind: MetricKind::Peak, ..Self::counter(unit) }
    }

    /// A file named the key and nothing more.
    const fn is_bare(&self) -> bool {
        self.scenario.is_empty()
    }

    const fn of_messages(key: &'static str, name: &'static str, meaning: &'static str) -> Self {
        Self { key, name, scenario: "messages", meaning, ..Self::latency() }
    }
}

/// A scenario's metrics as one table: field, how its values are kept, key, name, meaning; behind it those that are
/// known when all is over. `resolve` registers them for a scenario of this kind ([`Metric::register_for`]), and `all`
/// lists them, in the order of the table; `recorded` are those of intervals.
#[macro_export]
macro_rules! metrics {
    (
        $(#[$doc:meta])*
        $visible:vis struct $Metrics:ident of $scenario:literal {
            $($field:ident: $kind:ident($($unit:literal)?) $key:literal, $name:literal, $meaning:literal;)+
        }
        at the end: $($last:ident),+
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        $visible struct $Metrics {
            $($visible $field: $crate::Metric,)+
        }

        impl $Metrics {
            $visible fn resolve(scenario: &str) -> Self {
                Self {
                    $($field: {
                        static INFO: $crate::MetricInfo = $crate::MetricInfo {
                            key: $key,
                            name: $name,
                            scenario: $scenario,
                            meaning: $meaning,
                            ..$crate::MetricInfo::$kind($($unit)?)
                        };
                        $crate::Metric::register_for(scenario, &INFO)
                    },)+
                }
            }

            $visible fn recorded(self) -> Vec<$crate::Metric> {
                let last = [$(self.$last),+];
                let mut all = self.all();
                all.retain(|metric| !last.contains(metric));
                all
            }

            $visible fn all(self) -> Vec<$crate::Metric> {
                vec![$(self.$field),+]
            }
        }
    };
}

/// The latencies of a message's life, headline first.
static MESSAGES: [MetricInfo; 5] = [
    MetricInfo::of_messages("ack_response", "ack response", "intended send time to the broker's acknowledgement"),
    MetricInfo::of_messages("end_to_end", "end-to-end", "intended send time to delivery"),
    MetricInfo::of_messages("send_ack", "send ack", "actual send time to the broker's acknowledgement"),
    MetricInfo::of_messages("transfer", "transfer", "actual send time to delivery"),
    MetricInfo::of_messages("send_delay", "send delay", "intended to actual send time"),
];

/// A metric, as its index in the registry.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS), ts(type = "string"))]
pub struct Metric(u16);

struct Registry {
    infos: Vec<&'static MetricInfo>,
    from_files: usize,
}

static REGISTRY: LazyLock<RwLock<Registry>> =
    LazyLock::new(|| RwLock::new(Registry { infos: MESSAGES.iter().collect(), from_files: 0 }));

impl Registry {
    fn push(&mut self, info: &'static MetricInfo) -> Metric {
        let index = self.infos.len().min(usize::from(u16::MAX)) as u16;
        self.infos.push(info);
        Metric(index)
    }

    fn find(&self, key: &str) -> Option<Metric> {
        let at = self.infos.iter().position(|info| info.key == key);
        Some(Metric(u16::try_from(at?).ok()?))
    }
}

impl Metric {
    /// Intended send time to the broker's acknowledgement.
    pub const ACK_RESPONSE: Self = Self(0);
    /// Intended send time to delivery.
    pub const END_TO_END: Self = Self(1);
    /// Actual send time to the broker's acknowledgement.
    pub const SEND_ACK: Self = Self(2);
    /// Actual send time to delivery.
    pub const TRANSFER: Self = Self(3);
    /// Intended to actual send time.
    pub const SEND_DELAY: Self = Self(4);

    /// The latencies of messages, headline first. With a target rate the headline latencies are
    /// [`Metric::ACK_RESPONSE`] and [`Metric::END_TO_END`], which count from the intended time; the
    /// other three explain them.
    pub const MESSAGES: [Self; 5] =
        [Self::ACK_RESPONSE, Self::END_TO_END, Self::SEND_ACK, Self::TRANSFER, Self::SEND_DELAY];

    /// The metric of a scenario; registers it where it is new. Scenarios resolve their metrics before they run. A key
    /// names one metric: what another scenario has registered with it is an error of the program.
    pub fn register(info: &'static MetricInfo) -> Self {
        let mut registry = REGISTRY.write().unwrap_or_else(PoisonError::into_inner);
        let Some(metric) = registry.find(info.key) else { return registry.push(info) };
        if let Some(known) = registry.infos.get_mut(metric.index()) {
            let is_same = known.is_bare() || known.scenario == info.scenario;
            debug_assert!(is_same, "two scenarios call a metric {}", info.key);
            if known.is_bare() {
                *known = info;
            }
        }
        metric
    }

    /// The metric of this scenario, whose kind `info` describes. A scenario `KIND_NAME` has metrics of its own: their
    /// keys begin with its name in place of the kind's, and the names of latencies, which share a picture, with `NAME`.
    pub fn register_for(scenario: &str, info: &'static MetricInfo) -> Self {
        let own = scenario.strip_prefix(info.scenario);
        let Some(own) = own.and_then(|it| it.strip_prefix('_')) else { return Self::register(info) };
        let rest = info.key.strip_prefix(info.scenario).unwrap_or(info.key);
        let key = format!("{scenario}{rest}");
        let registry = REGISTRY.read().unwrap_or_else(PoisonError::into_inner);
        let known = registry.find(&key);
        let is_bare = |it: Self| registry.infos.get(it.index()).is_none_or(|it| it.is_bare());
        if let Some(known) = known.filter(|it| !is_bare(*it)) {
            return known;
        }
        drop(registry);
        // Metrics are registered for the life of the program, so their descriptions live as long.
        let keep = |text: String| -> &'static str { Box::leak(text.into_boxed_str()) };
        let name = match info.kind {
            MetricKind::Histogram => keep(format!("{} {}", own.replace('_', "-"), info.name)),
            MetricKind::Counter | MetricKind::Peak => info.name,
        };
        Self::register(Box::leak(Box::new(MetricInfo {
            key: keep(key),
            name,
            scenario: keep(scenario.to_owned()),
            ..*info
        })))
    }

    /// The metric with this key of a file, registered where new. `None` for impossible keys, or too many.
    pub fn named(key: &str, kind: MetricKind) -> Option<Self> {
        let known = REGISTRY.read().unwrap_or_else(PoisonError::into_inner).find(key);
        if known.is_some() {
            return known;
        }
        Self::described(&Described {
            key: key.to_owned(),
            name: key.replace('_', " "),
            unit: match kind {
                MetricKind::Histogram => "ns".to_owned(),
                MetricKind::Counter | MetricKind::Peak => String::new(),
            },
            kind,
            ..Described::default()
        })
    }

    fn described(found: &Described) -> Option<Self> {
        let mut registry = REGISTRY.write().unwrap_or_else(PoisonError::into_inner);
        let known = registry.find(&found.key);
        if let Some(metric) = known
            && (found.scenario.is_empty() || !registry.infos.get(metric.index())?.is_bare())
        {
            return Some(metric);
        }
        let is_letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let is_key = (1..=LONGEST_KEY).contains(&found.key.len()) && found.key.chars().all(is_letter);
        // What replaces a bare name takes memory once more.
        if !is_key || registry.from_files >= 2 * MOST_FROM_FILES {
            return known;
        }
        registry.from_files += 1;
        let kept = |text: &str| -> &'static str {
            let text: String = text.chars().take(LONGEST_TEXT).collect();
            Box::leak(text.into_boxed_str())
        };
        let info = Box::leak(Box::new(MetricInfo {
            key: kept(&found.key),
            name: kept(&found.name),
            unit: kept(&found.unit),
            kind: found.kind,
            scenario: kept(&found.scenario),
            part: found.part,
            meaning: kept(&found.meaning),
        }));
        let Some(metric) = known else { return Some(registry.push(info)) };
        *registry.infos.get_mut(metric.index())? = info;
        Some(metric)
    }

    /// Its position in the registry.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The metric at this position; see [`Metric::index`].
    pub(crate) const fn at(index: usize) -> Self {
        Self(index as u16)
    }

    /// Its description.
    pub fn info(self) -> &'static MetricInfo {
        let registry = REGISTRY.read().unwrap_or_else(PoisonError::into_inner);
        registry.infos.get(self.index()).copied().unwrap_or(&MESSAGES[0])
    }

    /// The name that people read.
    pub fn name(self) -> &'static str {
        self.info().name
    }

    /// The key in JSON, and the tag in the HDR log.
    pub fn key(self) -> &'static str {
        self.info().key
    }
}

impl std::fmt::Debug for Metric {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.key())
    }
}

impl Serialize for Metric {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.key())
    }
}

impl<'de> Deserialize<'de> for Metric {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let key = String::deserialize(deserializer)?;
        let metric = Self::named(&key, MetricKind::Histogram);
        metric.ok_or_else(|| D::Error::custom(format!("{key:?} can be no metric's key")))
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Described {
    key: String,
    name: String,
    unit: String,
    kind: MetricKind,
    scenario: String,
    part: bool,
    meaning: String,
}

/// The metrics of a run with all that is known of them, as its record keeps them.
pub mod described {
    use super::{Described, Deserialize, Deserializer, Metric, Serializer};

    /// Writes what is known of each.
    pub fn serialize<S: Serializer>(metrics: &[Metric], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(metrics.iter().map(|metric| metric.info()))
    }

    /// Registers those that are new, and leaves out those that can be none.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Metric>, D::Error> {
        let all = Vec::<Described>::deserialize(deserializer)?;
        Ok(all.iter().filter_map(Metric::described).collect())
    }
}

/// System that the operations of a scenario load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum ScenarioRole {
    /// A broker.
    #[default]
    Broker,
    /// Any server that answers requests; a broker's pages are such, too.
    Server,
    /// None: it watches what others do.
    Watcher,
}

impl ScenarioRole {
    /// Role of a scenario by its name, which begins with its kind: of a run that was cut off nothing else is known.
    pub fn of(scenario: &str) -> Self {
        match scenario.split('_').next() {
            Some("probe") => Self::Server,
            Some("trace") => Self::Watcher,
            _ => Self::Broker,
        }
    }

    /// Word for the loaded system.
    pub const fn target(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Broker | Self::Watcher => "broker",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static PROBE: MetricInfo = MetricInfo {
        key: "test_probe",
        name: "test probe",
        scenario: "test",
        meaning: "nothing",
        ..MetricInfo::part()
    };

    #[test]
    fn a_metric_is_registered_once_and_found_by_its_key() {
        let bare = Metric::named("test_probe", MetricKind::Histogram).unwrap();
        assert_eq!((bare.name(), bare.info().part), ("test probe", false));
        let metric = Metric::register(&PROBE);
        assert_eq!(metric, bare, "what a file named first is described by the code");
        assert_eq!(metric.info(), &PROBE);
        assert_eq!(Metric::register(&PROBE), metric);
        assert_eq!(serde_json::to_value(metric).unwrap(), "test_probe");
        let read: Metric = serde_json::from_str("\"send_ack\"").unwrap();
        assert_eq!(read, Metric::SEND_ACK);
    }

    crate::metrics! {
        struct ToyMetrics of "toy" {
            whole: latency() "toy_whole", "whole", "all of it";
            wait: part() "toy_wait", "wait", "the first part";
            open: counter("toys") "toy_open", "open", "toys that are left";
            most: peak("toys") "toy_most", "most", "most toys at the same time";
        }
        at the end: open
    }

    #[test]
    fn a_table_describes_the_metrics_of_each_scenario_of_its_kind() {
        let of_kind = ToyMetrics::resolve("toy");
        let own = ToyMetrics::resolve("toy_red_ball");
        let keys = |all: Vec<Metric>| all.into_iter().map(Metric::key).collect::<Vec<_>>();
        assert_eq!(keys(of_kind.recorded()), ["toy_whole", "toy_wait", "toy_most"]);
        assert_eq!(keys(of_kind.all()), ["toy_whole", "toy_wait", "toy_open", "toy_most"]);
        assert_eq!(own.wait.key(), "toy_red_ball_wait");
        assert_eq!((own.wait.name(), own.wait.info().part), ("red-ball wait", true));
        assert_eq!((own.most.name(), own.most.info().scenario), ("most", "toy_red_ball"));
        assert_eq!((own.most.info().kind, own.most.info().unit), (MetricKind::Peak, "toys"));
        assert_eq!(keys(ToyMetrics::resolve("toy_red_ball").all()), keys(own.all()));
        assert_eq!(ToyMetrics::resolve("toy_red_ball").open, own.open, "registered once");
        // A file that was read before knows no more than the key.
        let bare = Metric::named("toy_x_whole", MetricKind::Histogram).unwrap();
        assert_eq!(ToyMetrics::resolve("toy_x").whole, bare);
        assert_eq!((bare.name(), bare.info().meaning), ("x whole", "all of it"));
    }

    #[test]
    fn messages_have_the_first_places_and_their_names_are_their_keys() {
        let keys = MESSAGES.map(|info| info.key);
        assert_eq!(Metric::MESSAGES.map(Metric::key), keys);
        for info in &MESSAGES {
            assert_eq!(info.name.replace([' ', '-'], "_"), info.key);
        }
    }

    #[test]
    fn files_cannot_register_what_is_no_key() {
        for key in ["", "Tag", "a b", "a,b", "\u{1b}[31m", &"a".repeat(65)] {
            assert_eq!(Metric::named(key, MetricKind::Counter), None, "{key:?}");
        }
    }
}
