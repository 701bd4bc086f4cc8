//! Requirements of a run: a table, and lines in the charts of their figures.

use archive::{RequirementOutcome, RunReader};
use measure::{Metric, MetricKind};
use serde::Serialize;

use crate::numbers::{bound, observed};
use crate::text;

/// One requirement of a run, and its outcome.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct RequirementRow {
    /// The condition as people write it: `end-to-end p99 < 20ms`.
    pub that: String,
    /// Whether it held; `null` where that cannot be told.
    pub met: Option<bool>,
    /// `met` in a word: `met`, `missed` or `unknown`.
    pub outcome: String,
    /// Observed value, or why it cannot be told.
    pub observed: String,
    /// Required value.
    pub limit: String,
    /// Its line in a chart; `null` without one.
    pub line: Option<RequirementLine>,
}

/// A requirement as a line in a chart.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct RequirementLine {
    /// The chart.
    pub chart: RequirementChart,
    /// Its height: nanoseconds, or something per second.
    pub value: f64,
    /// Label at its end.
    pub label: String,
}

/// A chart in which a requirement may be a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum RequirementChart {
    /// The rates of messages.
    Rates,
    /// The rate of another scenario's operations.
    Operations,
    /// The latency of a metric.
    Latency(Metric),
}

/// The requirements of a run in the order in which they were given.
pub(super) fn rows(run: &RunReader) -> Vec<RequirementRow> {
    let summary = run.record.summary.iter();
    let all = summary.flat_map(|summary| &summary.requirements);
    all.map(|it| row(it, &run.record.metrics)).collect()
}

fn row(of: &RequirementOutcome, metrics: &[Metric]) -> RequirementRow {
    let line = chart(&of.that, metrics).map(|(chart, label)| RequirementLine {
        chart,
        value: of.bound,
        label: format!("{label}: {}", text::outcome(of.met)),
    });
    RequirementRow {
        that: of.that.clone(),
        met: of.met,
        outcome: text::outcome(of.met).to_owned(),
        observed: observed(of),
        limit: bound(of),
        line,
    }
}

/// The chart of a requirement's figure, and the part of its text that labels the line there.
fn chart(that: &str, metrics: &[Metric]) -> Option<(RequirementChart, String)> {
    let rates = ["sent rate ", "completed rate ", "received rate "];
    let plain = that.to_lowercase().replace(['-', '_'], " ");
    if rates.iter().any(|name| plain.starts_with(name)) {
        return Some((RequirementChart::Rates, that.replacen(" rate ", " ", 1)));
    }
    let operations = ["cycles rate ", "requests rate "];
    if operations.iter().any(|name| plain.starts_with(name)) || plain.contains(" requests rate ") {
        return Some((RequirementChart::Operations, that.replacen(" rate ", " ", 1)));
    }
    let known = Metric::MESSAGES.iter().chain(metrics);
    let latencies = known.filter(|metric| metric.info().kind == MetricKind::Histogram);
    let named = latencies.filter_map(|metric| {
        let name = metric.name().to_lowercase().replace(['-', '_'], " ");
        let rest = plain.strip_prefix(&name)?.strip_prefix(' ')?;
        // Letters stay as many: the text is cut where the name ends.
        let label = that.get(that.len().checked_sub(rest.len())?..)?;
        Some((name.len(), *metric, label.to_owned()))
    });
    let (_, metric, label) = named.max_by_key(|(length, ..)| *length)?;
    Some((RequirementChart::Latency(metric), label))
}

#[cfg(test)]
mod tests {
    use archive::QuantityUnit;

    use super::*;
    use crate::tests::fixtures::requirement;

    fn outcome(that: &str, met: Option<bool>) -> RequirementOutcome {
        let unit = QuantityUnit::Ns;
        RequirementOutcome { bound: 20e6, unit, ..requirement(that, met, met.map(|_| 31e6)) }
    }

    #[test]
    fn latencies_and_rates_are_lines_in_their_own_charts_and_the_other_figures_are_none() {
        let of_one = row(&outcome("end-to-end p99 < 20ms", Some(false)), &[]);
        assert_eq!([&*of_one.outcome, &*of_one.observed, &*of_one.limit], ["missed", "31.0 ms", "20.0 ms"]);
        let line = of_one.line.expect("a line");
        assert_eq!(line.chart, RequirementChart::Latency(Metric::END_TO_END));
        assert_eq!((line.label.as_str(), line.value), ("p99 < 20ms: missed", 20e6));
        // Of several probes the one that decided is named.
        let decided_by = Some("web-shop".to_owned());
        let of = RequirementOutcome { decided_by, ..outcome("requests rate > 5", Some(false)) };
        assert_eq!(row(&of, &[]).observed, "31.0 ms (probe web-shop)");
        for (that, expected) in [
            ("sent rate >= 20k", Some(RequirementChart::Rates)),
            ("cycles rate > 5", Some(RequirementChart::Operations)),
            ("requests rate > 5", Some(RequirementChart::Operations)),
            ("web-shop requests rate > 5", Some(RequirementChart::Operations)),
            ("send delay p99 < 1ms", Some(RequirementChart::Latency(Metric::SEND_DELAY))),
            ("lost = 0", None),
            ("broker cpu < 20us", None),
            ("ä end-to-end", None),
        ] {
            assert_eq!(row(&outcome(that, None), &[]).line.map(|line| line.chart), expected, "{that}");
        }
    }
}
