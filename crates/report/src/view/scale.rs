//! The view model of throughputs of different numbers of clients.

use std::path::Path;

use archive::{LimitedBy, ScaleEstimate, ScaleRun, ScaleRuns};
use serde::Serialize;

use crate::text::scale as words;

/// Points of the fitted curve.
const CURVE: u32 = 120;

/// Runs with different numbers of clients, as a person sees them.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct ScaleView {
    /// The key that is varied.
    pub key: String,
    /// Name of the varied clients: `producers`.
    pub noun: String,
    /// Every run, in the order of time.
    pub runs: Vec<ScaleRunView>,
    /// The fitted law; `None` where there are too few numbers of clients.
    pub law: Option<ScaleLawView>,
    /// Explanation by the law, a sentence each.
    pub explained: Vec<String>,
}

/// A run as a person sees it.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct ScaleRunView {
    /// The run's id.
    pub id: String,
    /// The number of clients.
    pub clients: u32,
    /// Messages per second.
    pub throughput: f64,
    /// CPU of the broker in cores.
    pub broker_cores: Option<f64>,
    /// Whether the generator limited the run.
    pub by_generator: bool,
    /// Parts of the path from this page to the run's own; empty without one.
    pub report: Vec<String>,
}

/// The fitted law as a person sees it.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct ScaleLawView {
    /// Messages per second of one client alone.
    pub alone: ScaleEstimate,
    /// Share of the work that waits for shared resources.
    pub contention: ScaleEstimate,
    /// Coordination cost of each pair of clients.
    pub coherence: ScaleEstimate,
    /// The number of clients with the highest throughput.
    pub peak: Option<f64>,
    /// Numbers of clients at which the curve is drawn.
    pub clients: Vec<f64>,
    /// The throughput there.
    pub throughput: Vec<f64>,
}

pub(super) fn scale(of: &ScaleRuns, dir: &Path, beside: &Path) -> ScaleView {
    let most = words::most(of);
    let law = of.law.as_ref().map(|law| {
        let computed = words::computed(law);
        let step = |i: u32| 1.0 + f64::from(most - 1) * f64::from(i) / f64::from(CURVE);
        let clients: Vec<f64> = (0..=CURVE).map(step).collect();
        ScaleLawView {
            alone: law.alone,
            contention: law.contention,
            coherence: law.coherence,
            peak: law.peak,
            throughput: clients.iter().map(|it| computed.throughput(*it)).collect(),
            clients,
        }
    });
    let run = |it: &ScaleRun| ScaleRunView {
        id: it.id.clone(),
        clients: it.clients,
        throughput: it.throughput,
        broker_cores: it.broker_cores,
        by_generator: it.limited_by == LimitedBy::Generator,
        report: super::report_below(&dir.join(&it.id), beside).unwrap_or_default(),
    };
    ScaleView {
        key: of.key.clone(),
        noun: of.noun().to_owned(),
        runs: of.runs.iter().map(run).collect(),
        law,
        explained: words::scale_explained(of),
    }
}
