//! The view models of a search for the highest rate that holds, and of throughputs of different numbers of clients.

use std::path::Path;

use archive::{
    FoundLimit, LimitOutcome, LimitTrial, LimitTrials, LimitedBy, QuantityUnit, RunReader, ScaleEstimate, ScaleRun,
    ScaleRuns, SuggestedRate, plain_name,
};
use measure::{LatencySummary, Problem};
use serde::Serialize;

pub use crate::text::limit::KneeView;
use crate::text::{limit as words, scale as scale_words};

/// Points of the fitted curve.
const CURVE: u32 = 120;

/// A search as a person sees it.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct LimitView {
    /// The experiment's name.
    pub name: String,
    /// When the first trial began, RFC 3339 in UTC; empty where that is not known.
    pub created: String,
    /// Version of the bellows that wrote the page.
    pub bellows: String,
    /// The result, in a sentence.
    pub headline: String,
    /// Conditions for a rate, in a sentence.
    pub asked: String,
    /// The ends.
    pub found: FoundLimit,
    /// How certain they are, in a tag.
    pub certainty: &'static str,
    /// Name of the trials' latency; empty where none was measured.
    pub latency_name: String,
    /// Latencies that must not be exceeded.
    pub bounds: Vec<LatencyBound>,
    /// Every trial, in the order of time.
    pub trials: Vec<TrialView>,
    /// Rates that people want next.
    pub suggested: Vec<SuggestedRate>,
    /// How it was searched, and limitations of the result.
    pub notes: Vec<String>,
    /// The knee, at which latency begins to rise faster than the rate.
    pub knee: Option<KneeView>,
    /// The knee, or why it is not known; empty where no latency was measured.
    pub knee_text: String,
    /// Throughput against the number of clients, where that was varied.
    pub scale: Option<ScaleView>,
}

/// A latency that must not be exceeded.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct LatencyBound {
    /// The objective as people write it: `end-to-end p99 < 10ms`.
    pub that: String,
    /// The latency that must not be exceeded, in nanoseconds.
    pub ns: f64,
}

/// A trial as a person sees it. Latencies are in nanoseconds.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct TrialView {
    /// The run's id.
    pub id: String,
    /// Requested messages per second.
    pub rate: f64,
    /// Outcome of the trial.
    pub outcome: LimitOutcome,
    /// Why the rate did not hold, and first why that is unclear, where it is.
    pub why: Vec<String>,
    /// Messages per second that were sent, and received.
    pub sent: f64,
    /// See `sent`.
    pub received: f64,
    /// Latency of the measured phase; `None` where none was measured.
    pub latency: Option<LatencySummary>,
    /// CPU of the broker in cores.
    pub broker_cores: Option<f64>,
    /// Parts of the path from this page to the run's own; empty without one.
    pub report: Vec<String>,
}

impl LimitView {
    /// Reads a folder of trials, for a page that will stand in `beside`. Fails where the folder holds none.
    pub(crate) fn read(dir: &Path, beside: &Path) -> Result<Self, Problem> {
        let of = LimitTrials::read(dir).map_err(|error| error.problem())?;
        let scaled = of.scale.iter().flat_map(|it| &it.runs).map(|it| &it.id);
        let mut ids = of.trials.iter().map(|it| &it.id).chain(scaled);
        let first = ids.next().map(|id| dir.join(id));
        let created = first.and_then(|run| RunReader::open(&run).ok());
        let trials = of.trials.iter().map(|it| trial(it, dir, beside)).collect();
        let named = of.trials.last().map(|it| it.latency_name.clone());
        let latency_name = named.unwrap_or_default();
        let mut bounds: Vec<LatencyBound> = Vec::new();
        for slo in of.trials.iter().flat_map(|it| &it.slos) {
            let is_new = bounds.iter().all(|it| it.that != slo.that);
            let is_drawn = plain_name(&slo.that).starts_with(&plain_name(&latency_name));
            if slo.unit == QuantityUnit::Ns && slo.bound > 0.0 && is_new && is_drawn {
                bounds.push(LatencyBound { that: slo.that.clone(), ns: slo.bound });
            }
        }
        Ok(Self {
            name: of.name.clone(),
            created: created.map_or_else(String::new, |run| run.record.created),
            bellows: env!("CARGO_PKG_VERSION").to_owned(),
            headline: words::headline(&of),
            asked: words::asked(&of),
            found: of.found.unwrap_or_default(),
            certainty: words::certainty(&of),
            latency_name,
            bounds,
            trials,
            notes: words::notes(&of),
            knee: words::knee_of(&of),
            knee_text: words::knee_text(&of).unwrap_or_default(),
            scale: of.scale.as_ref().map(|it| scale(it, dir, beside)),
            suggested: of.suggested,
        })
    }
}

fn trial(of: &LimitTrial, dir: &Path, beside: &Path) -> TrialView {
    TrialView {
        id: of.id.clone(),
        rate: of.rate,
        outcome: of.outcome,
        why: of.unclear.iter().chain(&of.why).cloned().collect(),
        sent: of.sent,
        received: of.received,
        latency: of.latency.clone(),
        broker_cores: of.broker_cores,
        report: super::report_below(&dir.join(&of.id), beside).unwrap_or_default(),
    }
}

/// Runs with different numbers of clients, as a person sees them.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct ScaleView {
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
    /// The number of clients with the highest throughput.
    pub peak: Option<f64>,
    /// Numbers of clients at which the curve is drawn.
    pub clients: Vec<f64>,
    /// The throughput there.
    pub throughput: Vec<f64>,
}

fn scale(of: &ScaleRuns, dir: &Path, beside: &Path) -> ScaleView {
    let most = scale_words::most(of);
    let law = of.law.as_ref().map(|law| {
        let step = |i: u32| 1.0 + f64::from(most - 1) * f64::from(i) / f64::from(CURVE);
        let clients: Vec<f64> = (0..=CURVE).map(step).collect();
        ScaleLawView {
            alone: law.alone,
            peak: law.peak,
            throughput: clients.iter().map(|it| law.throughput(*it)).collect(),
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
        noun: of.noun().to_owned(),
        runs: of.runs.iter().map(run).collect(),
        law,
        explained: scale_words::scale_explained(of),
    }
}
