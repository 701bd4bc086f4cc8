//! What a run has to reach: `end-to-end p99 < 20ms`, `lost = 0`, `sent rate >= 20k`.

use std::fmt;
use std::str::FromStr;

use archive::{RequiredUnit, RequirementOutcome, RunSummary};
use measure::{
    Bytes, LatencySummary, Length, Metric, MetricKind, Nanos, Problem, Refused, per_second,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// One requirement of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct RequireSpec {
    /// What has to hold.
    pub that: Requirement,
}

/// A quantity of the summary, and what it has to be.
#[derive(Clone, Debug, PartialEq)]
pub struct Requirement {
    quantity: Quantity,
    comparison: Comparison,
    bound: f64,
    /// As it was written, with one blank between words.
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Less,
    LessOrEqual,
    Equal,
    Unequal,
    GreaterOrEqual,
    Greater,
}

/// Longer ones first: the first that is found in a text is meant.
const COMPARISONS: [(&str, Comparison); 7] = [
    ("<=", Comparison::LessOrEqual),
    (">=", Comparison::GreaterOrEqual),
    ("!=", Comparison::Unequal),
    ("==", Comparison::Equal),
    ("<", Comparison::Less),
    (">", Comparison::Greater),
    ("=", Comparison::Equal),
];

impl Comparison {
    fn holds(self, observed: f64, bound: f64) -> bool {
        match self {
            Self::Less => observed < bound,
            Self::LessOrEqual => observed <= bound,
            Self::Equal => observed == bound,
            Self::Unequal => observed != bound,
            Self::GreaterOrEqual => observed >= bound,
            Self::Greater => observed > bound,
        }
    }

    const fn opposite(self) -> Self {
        match self {
            Self::Less => Self::GreaterOrEqual,
            Self::LessOrEqual => Self::Greater,
            Self::Equal => Self::Unequal,
            Self::Unequal => Self::Equal,
            Self::GreaterOrEqual => Self::Less,
            Self::Greater => Self::LessOrEqual,
        }
    }

    const fn sign(self) -> &'static str {
        match self {
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Equal => "=",
            Self::Unequal => "!=",
            Self::GreaterOrEqual => ">=",
            Self::Greater => ">",
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Quantity {
    /// A statistic of a latency, by the metric's name in lower case with blanks for `-` and `_`.
    Latency(String, Statistic),
    /// One of [`FIGURES`], by its index.
    Figure(usize),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Statistic {
    Mean,
    Percentile(f64),
    Max,
}

/// The percentiles that a summary holds are the ones that can be required.
const STATISTICS: [(&str, Statistic); 7] = [
    ("mean", Statistic::Mean),
    ("p50", Statistic::Percentile(50.0)),
    ("p90", Statistic::Percentile(90.0)),
    ("p99", Statistic::Percentile(99.0)),
    ("p99.9", Statistic::Percentile(99.9)),
    ("p99.99", Statistic::Percentile(99.99)),
    ("max", Statistic::Max),
];

/// A value, or why it cannot be told.
type Observed = Result<f64, &'static str>;

/// A figure of the summary other than a latency.
struct Figure {
    name: &'static str,
    unit: RequiredUnit,
    of: fn(&RunSummary) -> Observed,
}

const fn figure(name: &'static str, unit: RequiredUnit, of: fn(&RunSummary) -> Observed) -> Figure {
    Figure { name, unit, of }
}

const NOT_REQUESTED: &str = "no rate was requested";
const NO_CPU: &str = "CPU per message was not measured";
const NO_MEMORY: &str = "the memory was not measured";
const NO_LEDGER: &str = "no ledger was kept";
const NO_MESSAGE: &str = "the ledger followed no message";
const NOT_EXACT: &str = "the ledger's counts are not exact";
const NO_OPERATIONS: &str = "there was no churn";

/// A count of the ledger.
fn ledger(summary: &RunSummary, count: fn(&measure::ledger::LedgerSummary) -> u64) -> Observed {
    match &summary.ledger {
        None => Err(NO_LEDGER),
        Some(ledger) if !ledger.exact => Err(NOT_EXACT),
        Some(ledger) if ledger.sent == 0 => Err(NO_MESSAGE),
        Some(ledger) => Ok(count(ledger) as f64),
    }
}

/// What the first scenario other than messages says.
fn operations(
    summary: &RunSummary,
    of: fn(&archive::ScenarioSummary) -> Option<f64>,
    missing: &'static str,
) -> Observed {
    let (_, scenario) = summary.scenarios().next().ok_or(NO_OPERATIONS)?;
    of(scenario).ok_or(missing)
}

/// Everything but latencies that can be required.
static FIGURES: [Figure; 19] = [
    figure("sent rate", RequiredUnit::PerSecond, |s| Ok(s.sent.rate)),
    figure("completed rate", RequiredUnit::PerSecond, |s| {
        Ok(s.completed.rate)
    }),
    figure("received rate", RequiredUnit::PerSecond, |s| {
        Ok(s.received.rate)
    }),
    figure("achieved", RequiredUnit::Share, |s| {
        let achieved = s.requested.as_ref().and_then(|r| r.achieved);
        achieved.ok_or(NOT_REQUESTED)
    }),
    figure("late share", RequiredUnit::Share, |s| {
        // What was requested and not sent is later than any.
        let requested = s.requested.as_ref().ok_or(NOT_REQUESTED)?;
        let sent = requested.achieved.ok_or(NOT_REQUESTED)?.min(1.0);
        Ok(1.0 - sent * (1.0 - requested.late_share))
    }),
    figure("lost", RequiredUnit::Count, |s| ledger(s, |l| l.lost)),
    figure("outstanding", RequiredUnit::Count, |s| {
        ledger(s, |l| l.outstanding)
    }),
    figure("duplicated", RequiredUnit::Count, |s| {
        ledger(s, |l| l.duplicated)
    }),
    figure("reordered", RequiredUnit::Count, |s| {
        ledger(s, |l| l.reordered)
    }),
    figure("corrupt", RequiredUnit::Count, |s| ledger(s, |l| l.corrupt)),
    figure("returned", RequiredUnit::Count, |s| {
        ledger(s, |l| l.returned)
    }),
    figure("broker cpu", RequiredUnit::Ns, |s| {
        s.cpu_us_per_message.broker.map(|us| us * 1e3).ok_or(NO_CPU)
    }),
    figure("bellows cpu", RequiredUnit::Ns, |s| {
        s.cpu_us_per_message.client.map(|us| us * 1e3).ok_or(NO_CPU)
    }),
    figure("broker memory", RequiredUnit::Bytes, |s| {
        s.rss_mb.broker.map(|mb| mb * 1e6).ok_or(NO_MEMORY)
    }),
    figure("bellows memory", RequiredUnit::Bytes, |s| {
        s.rss_mb.client.map(|mb| mb * 1e6).ok_or(NO_MEMORY)
    }),
    figure("stalls", RequiredUnit::Count, |s| Ok(s.stalls.len() as f64)),
    figure("longest stall", RequiredUnit::Ns, |s| {
        Ok(s.stalls
            .iter()
            .map(|stall| stall.for_s * 1e9)
            .fold(0.0, f64::max))
    }),
    figure("cycles rate", RequiredUnit::PerSecond, |s| {
        operations(s, |of| Some(of.rate), NO_OPERATIONS)
    }),
    figure("cycles achieved", RequiredUnit::Share, |s| {
        operations(s, |of| of.requested.as_ref()?.achieved, NOT_REQUESTED)
    }),
];

impl Requirement {
    /// What has to hold so that this condition does not: the meaning of `--fail-if`.
    ///
    /// # Errors
    /// Where the text is no condition.
    pub fn unless(condition: &str) -> Result<Self, Refused> {
        let read: Self = condition.parse()?;
        let comparison = read.comparison.opposite();
        let sign = format!(" {} ", read.comparison.sign());
        Ok(Self {
            text: read
                .text
                .replacen(&sign, &format!(" {} ", comparison.sign()), 1),
            comparison,
            ..read
        })
    }

    fn unit(&self) -> RequiredUnit {
        match self.quantity {
            Quantity::Latency(..) => RequiredUnit::Ns,
            Quantity::Figure(index) => FIGURES.get(index).map_or_else(Default::default, |f| f.unit),
        }
    }

    /// Refuses a latency that is none of the run's metrics.
    pub(crate) fn check(&self, metrics: &[Metric]) -> Result<(), Problem> {
        let Quantity::Latency(metric, _) = &self.quantity else {
            return Ok(());
        };
        let latencies = metrics
            .iter()
            .filter(|of| of.info().kind == MetricKind::Histogram);
        let names: Vec<&str> = latencies.map(|of| of.name()).collect();
        if names.iter().any(|name| plain(name) == *metric) {
            return Ok(());
        }
        Err(Problem::new(
            format!("the run has no latency called {metric:?}"),
            &self.text,
            format!("require one of: {}", names.join(", ")),
        ))
    }

    /// The outcome where it cannot be told.
    pub(crate) fn unknown(&self, why: &str) -> RequirementOutcome {
        RequirementOutcome {
            that: self.text.clone(),
            observed: None,
            bound: self.bound,
            unit: self.unit(),
            met: None,
            why: Some(why.to_owned()),
        }
    }

    /// Whether the run met it. What a run missed is missed; what it met until it ended `unfinished` cannot
    /// be told.
    pub(crate) fn judge(
        &self,
        summary: &RunSummary,
        unfinished: Option<&'static str>,
    ) -> RequirementOutcome {
        let observed = match &self.quantity {
            Quantity::Latency(metric, statistic) => latency(summary, metric, *statistic),
            Quantity::Figure(index) => FIGURES
                .get(*index)
                .map_or(Err("unknown"), |figure| (figure.of)(summary)),
        };
        let holds = |value| self.comparison.holds(value, self.bound);
        match (observed, unfinished) {
            (Err(why), _) => self.unknown(why),
            (Ok(value), Some(why)) if holds(value) => self.unknown(why),
            (Ok(value), _) => RequirementOutcome {
                observed: Some(value),
                met: Some(holds(value)),
                why: None,
                ..self.unknown("")
            },
        }
    }
}

/// The name of a metric as it is compared: `end-to-end`, `end_to_end` and `End to end` are one.
fn plain(name: &str) -> String {
    let words = name.split(|c: char| c.is_whitespace() || c == '-' || c == '_');
    let words = words.filter(|word| !word.is_empty()).map(str::to_lowercase);
    words.collect::<Vec<_>>().join(" ")
}

fn latency(summary: &RunSummary, metric: &str, statistic: Statistic) -> Observed {
    const NOTHING: &str = "nothing was recorded for it";
    let scenarios = summary.scenarios().flat_map(|(_, of)| of.latency.filled());
    let mut all = summary.latency.filled().chain(scenarios);
    let (_, found) = all
        .find(|(of, _)| plain(of.name()) == metric)
        .ok_or(NOTHING)?;
    let value = match statistic {
        Statistic::Mean => found.mean_ns,
        Statistic::Max => found.max_ns,
        Statistic::Percentile(wanted) => {
            if !found.supports(wanted) {
                return Err("fewer than ten samples lie beyond this percentile");
            }
            let known = LatencySummary::PERCENTILES
                .iter()
                .zip(found.percentile_values());
            let mut known = known.filter(|((percentile, _), _)| *percentile == wanted);
            known.next().map(|(_, value)| value).ok_or(NOTHING)?
        }
    };
    Ok(value as f64)
}

impl FromStr for Requirement {
    type Err = Refused;

    fn from_str(text: &str) -> Result<Self, Refused> {
        const EXAMPLE: &str =
            "write it as \"end-to-end p99 < 20ms\", \"lost = 0\" or \"sent rate >= 20k\"";
        let found = COMPARISONS.iter().filter_map(|(sign, comparison)| {
            Some((
                text.find(sign)?,
                std::cmp::Reverse(sign.len()),
                sign,
                *comparison,
            ))
        });
        let (at, _, sign, comparison) = found
            .min_by_key(|(at, length, ..)| (*at, *length))
            .ok_or_else(|| Refused::new("it compares nothing", EXAMPLE))?;
        let (name, value) = (plain(&text[..at]), text[at + sign.len()..].trim());
        let quantity = quantity(&name)?;
        let mut read = Self {
            quantity,
            comparison,
            bound: 0.0,
            text: String::new(),
        };
        read.bound = bound(read.unit(), value)?;
        let written = text[..at].split_whitespace().collect::<Vec<_>>().join(" ");
        read.text = format!("{written} {} {value}", comparison.sign());
        Ok(read)
    }
}

fn quantity(name: &str) -> Result<Quantity, Refused> {
    if let Some(index) = FIGURES.iter().position(|figure| figure.name == name) {
        return Ok(Quantity::Figure(index));
    }
    let statistics = STATISTICS.map(|(name, _)| name).join(", ");
    let latency = name.rsplit_once(' ').and_then(|(metric, last)| {
        let (_, statistic) = STATISTICS.iter().find(|(name, _)| *name == last)?;
        Some(Quantity::Latency(metric.to_owned(), *statistic))
    });
    latency.ok_or_else(|| {
        let figures: Vec<&str> = FIGURES.iter().map(|figure| figure.name).collect();
        let figures = figures.join(", ");
        Refused::new(
            format!("{name:?} is no quantity"),
            format!("it takes a latency with one of {statistics}, or one of: {figures}"),
        )
    })
}

/// Reads the value that a quantity is compared with.
fn bound(unit: RequiredUnit, text: &str) -> Result<f64, String> {
    let wrong = |expected: &str| format!("{text:?} is no {expected}");
    match unit {
        // A bare number could be seconds or milliseconds.
        RequiredUnit::Ns => Some(text)
            .filter(|text| *text == "0" || text.parse::<f64>().is_err())
            .and_then(|text| text.parse::<Length>().ok())
            .map(|Length(Nanos(ns))| ns as f64)
            .ok_or_else(|| wrong("duration with its unit, such as 20ms or 1.5s")),
        RequiredUnit::PerSecond => {
            per_second(text).ok_or_else(|| wrong("rate, such as 20000, 20k or 90/min"))
        }
        RequiredUnit::Share => text
            .strip_suffix('%')
            .and_then(|number| number.trim().parse::<f64>().ok())
            .filter(|percent| percent.is_finite() && *percent >= 0.0)
            .map(|percent| percent / 100.0)
            .ok_or_else(|| wrong("percentage, such as 99.5%")),
        RequiredUnit::Count => text
            .parse::<u64>()
            .map(|count| count as f64)
            .map_err(|_| wrong("whole number")),
        RequiredUnit::Bytes => Some(text)
            .filter(|text| *text == "0" || text.parse::<f64>().is_err())
            .and_then(|text| text.parse::<Bytes>().ok())
            .map(|bytes| bytes.0 as f64)
            .ok_or_else(|| wrong("size with its unit, such as 500MB or 2GiB")),
    }
}

/// As it was written, which reads back as the same requirement.
impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for Requirement {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Requirement {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(Refused::into_error)
    }
}

#[cfg(test)]
#[path = "requirement_tests.rs"]
mod tests;
