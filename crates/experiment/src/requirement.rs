//! Requirements of a run: `end-to-end p99 < 20ms`, `lost = 0`, `sent rate >= 20k`.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use archive::{Quantity, QuantityUnit, RequirementOutcome, RunSummary, SeriesPoint};
use measure::{Bytes, Length, Metric, MetricKind, Nanos, Problem, Recorder, Refused, ScenarioRole, per_second};
use serde::{Deserialize, Serialize};

/// Prefix of a negated condition.
const NOT: &str = "not ";

/// One requirement of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct RequireSpec {
    /// The condition that must hold.
    pub that: Requirement,
}

/// A quantity of the summary, and the condition on it.
#[derive(Clone, Debug, PartialEq)]
pub struct Requirement {
    quantity: Quantity,
    comparison: Comparison,
    bound: f64,
    /// The condition, with one blank between words.
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
        // 99.9 / 100 is not 999 / 1000 in binary. Whole numbers stay apart up to 10^14: nanoseconds for a day.
        let noise = 16.0 * f64::EPSILON * bound.abs().max(1.0);
        let is_equal = (observed - bound).abs() <= noise;
        match self {
            Self::Less => observed < bound && !is_equal,
            Self::LessOrEqual => observed <= bound || is_equal,
            Self::Equal => is_equal,
            Self::Unequal => !is_equal,
            Self::GreaterOrEqual => observed >= bound || is_equal,
            Self::Greater => observed > bound && !is_equal,
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

    /// Its sign, the last one of several.
    fn sign(self) -> &'static str {
        COMPARISONS.iter().rev().find(|(_, it)| *it == self).map_or("=", |it| it.0)
    }
}

impl Requirement {
    /// The requirement that holds exactly when this condition does not: the meaning of `not CONDITION`, and of the
    /// option `--fail-if`, which `--require` replaces. Errors: where the text is no condition.
    pub fn unless(condition: &str) -> Result<Self, Refused> {
        const EXAMPLE: &str = "write it as \"end-to-end p99 > 20ms\", \"lost > 0\" or \"sent rate < 20k\"";
        Self::read(condition, EXAMPLE, |comparison, bound| {
            match comparison.opposite() {
                // No figure is negative.
                Comparison::LessOrEqual if bound == 0.0 => Comparison::Equal,
                opposite => opposite,
            }
        })
    }

    /// The value observed in one second of a run, which may have messages of its own and consumers, and whether the
    /// condition held in it. Errors: why the value is unknown.
    pub fn observed_in(
        &self,
        point: &SeriesPoint,
        recorded: &Recorder,
        has_messages: bool,
        has_consumers: bool,
    ) -> Result<(f64, bool), &'static str> {
        let value = self.quantity.in_second(point, recorded, has_messages, has_consumers)?;
        Ok((value, self.comparison.holds(value, self.bound)))
    }

    /// Whether a latency has to lie above something.
    pub fn wants_latency_above(&self) -> bool {
        let above = matches!(self.comparison, Comparison::Greater | Comparison::GreaterOrEqual);
        above && self.quantity.latency().is_some()
    }

    /// The unit of its quantity.
    pub fn unit(&self) -> QuantityUnit {
        self.quantity.unit()
    }

    /// Refuses a latency that is none of the run's metrics, and a probe that it has not.
    pub fn check(&self, metrics: &[Metric]) -> Result<(), Problem> {
        let Some(metric) = self.quantity.latency() else { return self.check_probe(metrics) };
        let latencies = metrics.iter().filter(|of| of.info().kind == MetricKind::Histogram);
        let names: Vec<&str> = latencies.map(|of| of.name()).collect();
        if names.iter().any(|name| archive::plain_name(name) == metric) {
            return Ok(());
        }
        let help = format!("require one of: {}", names.join(", "));
        Err(Problem::new(format!("the run has no latency called {metric:?}"), &self.text, help))
    }

    /// Refuses rates of a probe that the run has not.
    fn check_probe(&self, metrics: &[Metric]) -> Result<(), Problem> {
        let Some(probe) = self.quantity.probe() else { return Ok(()) };
        let scenarios = metrics.iter().map(|of| of.info().scenario);
        let probes = scenarios.filter(|name| ScenarioRole::of(name) == ScenarioRole::Server);
        let names: BTreeSet<String> = probes.map(archive::probe_name).collect();
        if names.iter().any(|name| archive::plain_name(name) == probe) {
            return Ok(());
        }
        let help = match names.is_empty() {
            true => "give the experiment a [[probe]]".to_owned(),
            false => {
                let names: Vec<String> = names.into_iter().collect();
                format!("require it of one of: {}", names.join(", "))
            }
        };
        Err(Problem::new(format!("the run has no probe called {probe:?}"), &self.text, help))
    }

    /// Whether the requirement is about this latency.
    pub fn is_about(&self, latency: Metric) -> bool {
        let name = self.quantity.latency();
        name.is_some_and(|name| name == archive::plain_name(latency.name()))
    }

    /// The outcome where it cannot be told.
    pub fn unknown(&self, why: &str) -> RequirementOutcome {
        RequirementOutcome {
            that: self.text.clone(),
            observed: None,
            bound: self.bound,
            unit: self.quantity.unit(),
            met: None,
            why: Some(why.to_owned()),
            decided_by: None,
        }
    }

    /// The outcome where the observed time can be off by as much: it cannot be told where that decides it.
    #[must_use]
    pub fn give_or_take(&self, outcome: RequirementOutcome, error: Nanos, why: &str) -> RequirementOutcome {
        let holds = |value| self.comparison.holds(value, self.bound);
        let error = error.0 as f64;
        let is_open = |value: &f64| holds(value - error) != holds(value + error);
        let is_time = outcome.unit == QuantityUnit::Ns;
        if is_time && outcome.observed.as_ref().is_some_and(is_open) { self.unknown(why) } else { outcome }
    }

    /// Judges a run. A miss is final; a condition that held until the run ended `unfinished` is undecided.
    pub fn judge(
        &self,
        summary: &RunSummary,
        recorded: &Recorder,
        unfinished: Option<&'static str>,
    ) -> RequirementOutcome {
        let observed = self.quantity.in_run(summary, recorded);
        let holds = |value| self.comparison.holds(value, self.bound);
        match (observed, unfinished) {
            (Err(why), _) => {
                self.bounded_below(summary, recorded, unfinished.is_some()).unwrap_or_else(|| self.unknown(why))
            }
            (Ok(value), Some(why)) if holds(value) => self.unknown(why),
            (Ok(value), _) => RequirementOutcome {
                observed: Some(value),
                met: Some(holds(value)),
                why: None,
                decided_by: self.quantity.decided_by(summary),
                ..self.unknown("")
            },
        }
    }

    /// The outcome of a percentile with too few samples, which the shortest time or the ten longest decide: it lies
    /// below neither.
    fn bounded_below(
        &self,
        summary: &RunSummary,
        recorded: &Recorder,
        is_unfinished: bool,
    ) -> Option<RequirementOutcome> {
        let is_upper = matches!(self.comparison, Comparison::Less | Comparison::LessOrEqual);
        let is_lower = matches!(self.comparison, Comparison::Greater | Comparison::GreaterOrEqual);
        let (shortest, most) = self.quantity.least(summary, recorded)?;
        let misses = |least| is_upper && !self.comparison.holds(least, self.bound);
        let time = |least: f64| Nanos(least.round() as u64);
        // What is above the bound now might not be of a whole run.
        let meets = || is_lower && !is_unfinished && most > shortest && self.comparison.holds(most, self.bound);
        let why = if misses(shortest) {
            format!("even the shortest took {}", time(shortest))
        } else if misses(most) || meets() {
            format!("ten or more took at least {}", time(most))
        } else {
            return None;
        };
        Some(RequirementOutcome { met: Some(is_lower), ..self.unknown(&why) })
    }
}

impl FromStr for Requirement {
    type Err = Refused;

    fn from_str(text: &str) -> Result<Self, Refused> {
        const EXAMPLE: &str = "write it as \"end-to-end p99 < 20ms\", \"lost = 0\" or \"sent rate >= 20k\"";
        match text.trim_start().strip_prefix(NOT) {
            Some(condition) => Self::unless(condition),
            None => Self::read(text, EXAMPLE, |comparison, _| comparison),
        }
    }
}

impl Requirement {
    /// Reads a comparison; `required` maps its operator and bound to the required ones, `example` is the remedy.
    fn read(text: &str, example: &str, required: impl Fn(Comparison, f64) -> Comparison) -> Result<Self, Refused> {
        let found = COMPARISONS.iter().filter_map(|(sign, comparison)| {
            Some((text.find(sign)?, std::cmp::Reverse(sign.len()), sign, *comparison))
        });
        let (at, _, sign, comparison) = found
            .min_by_key(|(at, length, ..)| (*at, *length))
            .ok_or_else(|| Refused::new("it compares nothing", example))?;
        let value = text[at + sign.len()..].trim();
        if value.is_empty() {
            return Err(Refused::new(format!("the value behind {sign} is missing"), example));
        }
        let quantity: Quantity = text[..at].parse()?;
        let bound = bound(quantity.unit(), value)?;
        let comparison = required(comparison, bound);
        let written = text[..at].split_whitespace().collect::<Vec<_>>().join(" ");
        Ok(Self { quantity, comparison, bound, text: format!("{written} {} {value}", comparison.sign()) })
    }
}

/// Reads the value that a quantity is compared with.
fn bound(unit: QuantityUnit, text: &str) -> Result<f64, String> {
    let wrong = |expected: &str| format!("{text:?} is not a {expected}");
    match unit {
        // A bare number could be seconds or milliseconds.
        QuantityUnit::Ns => Some(text)
            .filter(|text| *text == "0" || text.parse::<f64>().is_err())
            .and_then(|text| text.parse::<Length>().ok())
            .map(|Length(Nanos(ns))| ns as f64)
            .ok_or_else(|| wrong("duration with its unit, such as 20ms or 1.5s")),
        QuantityUnit::PerSecond => per_second(text).ok_or_else(|| wrong("rate, such as 20000, 20k or 90/min")),
        QuantityUnit::Share => text
            .strip_suffix('%')
            .and_then(|number| number.trim().parse::<f64>().ok())
            .filter(|percent| percent.is_finite() && *percent >= 0.0)
            .map(|percent| percent / 100.0)
            .ok_or_else(|| wrong("percentage, such as 99.5%")),
        QuantityUnit::Count => text.parse::<u64>().map(|count| count as f64).map_err(|_| wrong("whole number")),
        QuantityUnit::Cores => text
            .strip_suffix("cores")
            .unwrap_or(text)
            .trim()
            .parse::<f64>()
            .ok()
            .filter(|cores| cores.is_finite() && *cores >= 0.0)
            .ok_or_else(|| wrong("number of cores, such as 0.5")),
        QuantityUnit::Bytes => Some(text)
            .filter(|text| *text == "0" || text.parse::<f64>().is_err())
            .and_then(|text| text.parse::<Bytes>().ok())
            .map(|bytes| bytes.0 as f64)
            .ok_or_else(|| wrong("size with its unit, such as 500MB or 2GiB")),
    }
}

/// Writes the condition so that it parses to an equal requirement.
impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

measure::kept_as_text!(Requirement);

#[cfg(test)]
#[path = "requirement_tests.rs"]
mod tests;
