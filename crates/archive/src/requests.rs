//! Requests beside a run's messages, by name: those of probes, and for pages of metrics.

use measure::{LatencySummary, ScenarioRole};

use crate::RunSummary;

/// Scenario prefix of named probes.
const PROBE: &str = "probe_";
/// Latency of a probe's whole request.
const RESPONSE: &str = "response";

/// Requests of one probe, or for one page.
pub(crate) struct Requested<'a> {
    /// Name in the texts of failures.
    pub(crate) name: String,
    /// Name of its latency.
    pub(crate) metric: String,
    /// The latency.
    pub(crate) response: Option<&'a LatencySummary>,
    /// Requests that failed, or had no answer at the end.
    pub(crate) failed: u64,
    /// Requests for a page of metrics.
    pub(crate) is_page: bool,
}

/// All requests of a run: first probes, then pages.
pub(crate) fn requested(summary: &RunSummary) -> Vec<Requested<'_>> {
    let probes = summary
        .scenarios()
        .filter(|(_, of)| of.role == ScenarioRole::Server);
    let probes = probes.map(|(scenario, of)| {
        let found = of.latency.filled().find(|(metric, _)| {
            let name = metric.name();
            name == RESPONSE || name.rsplit_once(' ').is_some_and(|it| it.1 == RESPONSE)
        });
        Requested {
            name: match scenario.strip_prefix(PROBE) {
                Some(own) => own.replace('_', "-"),
                None => scenario.to_owned(),
            },
            metric: found.map_or_else(String::new, |(metric, _)| metric.name().to_owned()),
            response: found.map(|(_, response)| response),
            failed: of.failures.iter().map(|failure| failure.count).sum(),
            is_page: false,
        }
    });
    let pages = summary.scrapes.iter().map(|page| {
        let name = format!("{} page", page.name);
        Requested {
            metric: name.clone(),
            name,
            response: Some(&page.response),
            failed: page.failed + page.unanswered,
            is_page: true,
        }
    });
    probes.chain(pages).collect()
}
