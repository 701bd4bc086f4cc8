//! Everything that the page shows, in the form it is embedded: `ui/src/core/data.ts` is its other
//! side.

use archive::profile::Profile;
use archive::{
    BrokerSummary, Event, Hardware, PhaseSpan, RunReader, RunState, SeriesPoint, Topology, Verdict,
    Versions, Warning,
};
use measure::{Phase, Problem};
use serde::Serialize;

use super::columns::Columns;
use super::distributions::{self, Curve, HeatMap};
use super::figures::Figures;
use super::headline::{self, Part};
use super::stacks;

/// The page's data but for the profile's columns.
#[derive(Debug, Serialize)]
pub(super) struct Contents {
    format: u32,
    pub(super) id: String,
    pub(super) name: String,
    pub(super) created: String,
    state: &'static str,
    error: Option<String>,
    pub(super) headline: Vec<Part>,
    pub(super) warnings: Vec<Warning>,
    pub(super) notes: Vec<String>,
    pub(super) figures: Figures,
    verdict: Option<Verdict>,
    broker: BrokerSummary,
    phases: Vec<PhaseSpan>,
    events: Vec<Event>,
    span: (f64, f64),
    series: Columns,
    heat: Vec<HeatMap>,
    curves: Vec<Curve>,
    topology: Topology,
    experiment: serde_json::Value,
    versions: Versions,
    hardware: Hardware,
    seed: String,
    command: Vec<String>,
    /// Filled when the profile is encoded.
    pub(super) profile: Option<stacks::Head>,
}

impl Contents {
    /// Reads what the archive holds of a run.
    pub(super) fn gather(run: &RunReader, profile: Option<&Profile>) -> Result<Self, Problem> {
        let record = &run.record;
        let phases = phases(run);
        let span = span(run, &phases, profile);
        let measured = phases
            .iter()
            .find(|p| p.phase == Phase::Measure)
            .map(|p| (p.start, p.end));
        let found = distributions::read(run, span)?;
        let figures = Figures::of(run, &found);
        let warnings = match &record.summary {
            Some(summary) => summary.warnings.clone(),
            None => record.warnings.clone(),
        };
        let broker = match &record.summary {
            Some(summary) => summary.broker.clone(),
            None => broker_of_experiment(&record.experiment),
        };
        let verdict = record.summary.as_ref().and_then(|s| s.verdict.clone());
        let headline = headline::sentence(&headline::Facts {
            record,
            figures: &figures,
            verdict: verdict.as_ref(),
            broker: &broker,
            end: span.1,
            burning: profile.and_then(|p| headline::burning(p, measured)),
            samples: profile.map_or(0, Profile::total_weight),
        });
        Ok(Self {
            format: 1,
            id: record.id.clone(),
            name: record.name.clone(),
            created: record.created.clone(),
            state: state_name(record.state),
            error: record.error.clone(),
            headline,
            warnings,
            notes: run.notes.clone(),
            figures,
            verdict,
            broker,
            phases,
            events: record.events.clone(),
            span,
            series: Columns::of(&run.points),
            heat: found.heat,
            curves: found.curves,
            topology: record.topology.clone(),
            experiment: record.experiment.clone(),
            versions: record.versions.clone(),
            hardware: record.hardware.clone(),
            // As text: a browser's numbers end at 2^53.
            seed: record.seed.to_string(),
            command: record.command.clone(),
            profile: None,
        })
    }
}

const fn state_name(state: RunState) -> &'static str {
    match state {
        RunState::Running => "cut_off",
        RunState::Complete => "complete",
        RunState::Interrupted => "interrupted",
        RunState::Failed => "failed",
    }
}

/// The phases as recorded, and those that had not ended when the run was cut off, from its seconds.
fn phases(run: &RunReader) -> Vec<PhaseSpan> {
    let mut phases = run.record.phases.clone();
    for phase in [Phase::Warmup, Phase::Measure, Phase::Drain] {
        let of_phase = || run.points.iter().filter(|p| p.phase == phase);
        if phases.iter().any(|p| p.phase == phase) {
            continue;
        }
        let start = of_phase().map(|p| p.t).reduce(f64::min);
        let end = of_phase().map(point_end).reduce(f64::max);
        if let (Some(start), Some(end)) = (start, end) {
            phases.push(PhaseSpan { phase, start, end });
        }
    }
    phases.retain(|p| p.end > p.start);
    phases.sort_by(|a, b| a.start.total_cmp(&b.start));
    phases
}

fn point_end(point: &SeriesPoint) -> f64 {
    point.t + point.dt
}

/// First and last moment of anything that is drawn.
fn span(run: &RunReader, phases: &[PhaseSpan], profile: Option<&Profile>) -> (f64, f64) {
    let mut from = f64::INFINITY;
    let mut to = f64::NEG_INFINITY;
    let ends = run.points.iter().map(|p| (p.t, point_end(p)));
    for (start, end) in ends.chain(phases.iter().map(|p| (p.start, p.end))) {
        from = from.min(start);
        to = to.max(end);
    }
    if !(from.is_finite() && to > from) {
        // Nothing but a profile: its own span.
        let last = profile.and_then(|p| p.samples.iter().map(|s| s.t).max());
        return (0.0, last.map_or(1.0, |ns| (ns as f64 / 1e9).max(0.001)));
    }
    (from, to)
}

/// What the resolved experiment calls the broker, for runs that wrote no summary.
fn broker_of_experiment(experiment: &serde_json::Value) -> BrokerSummary {
    let kind = experiment
        .pointer("/broker/kind")
        .and_then(serde_json::Value::as_str);
    BrokerSummary {
        kind: kind.unwrap_or_default().to_owned(),
        ..BrokerSummary::default()
    }
}
