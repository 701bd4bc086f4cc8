//! The view model of a run: all that a person sees of it, as data. The report's page is made from it, a server can hand
//! out the same, and the page's TypeScript types are made from these (`ui/src/core/view.ts`).

mod comparison;
mod distributions;
mod figures;
mod headline;
mod limit;
mod named;
mod processes;
mod profile;
mod requirements;
mod series;
mod slices;
mod stack_tree;
mod traces;

use std::path::Path;

use archive::{
    BrokerSummary, DeliveryPromise, Event, FaultOutcome, Hardware, ObserverEffect, PhaseSpan, Repeats, RunReader,
    RunRecord, RunState, SeriesPoint, Stalled, Tier, Topology, Verdict, Versions, Warning, WarningCode, file,
};
use measure::{MetricInfo, Phase, Problem};
use serde::{Serialize, Serializer};
use stacks::{EventKind, FORMATS, Profile, sampled_events};

use crate::numbers::seconds_digits;
use crate::text::WorkerColumn;

pub(crate) use comparison::NOT_YET;
pub use comparison::{
    CellView, ComparedCurve, ComparedPanel, ComparisonOutcome, ComparisonSource, ComparisonView, ExperimentDifference,
    FigureRow, MatrixSource, MatrixView, SideRun, SideView, SideWarning,
};
pub use distributions::{Curve, LatencyGrid};
pub use figures::{ClockBoundView, Figures, NamedFigure};
pub use headline::Part;
pub(crate) use headline::{
    early_end, in_drain, measured_s, of_requested, of_requested_operations, place, sentence, sentences, target_of,
    tolerated,
};
pub use limit::{KneeView, LatencyBound, LimitView, ScaleLawView, ScaleRunView, ScaleView, TrialView};
pub use named::{NamedLine, NamedPanel};
pub use processes::ProcessView;
pub use profile::ProfileHead;
pub(crate) use profile::encode;
pub use requirements::{RequirementChart, RequirementLine, RequirementRow};
pub use series::{Percentiles, SeriesColumns, WaitShares};
pub use slices::{SliceColumns, SliceGrid};
pub use traces::{LookBand, TraceView};

/// Samples of events other than time on CPU that a page holds together: such events may happen 100,000 times a second.
const MOST_EVENTS: usize = 150_000;

/// A run as a person sees it.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct RunView {
    /// The run folder's name.
    pub id: String,
    /// The experiment's name.
    pub name: String,
    /// Wall-clock start, RFC 3339 in UTC.
    pub created: String,
    /// Origin of all times by the wall clock, milliseconds since 1970-01-01 UTC.
    pub origin_unix_ms: f64,
    /// How far the run got; one that is still running, as far as its record says, was cut off.
    pub state: RunState,
    /// The error of a failed run.
    pub error: Option<Problem>,
    /// One sentence on the whole run.
    pub headline: Vec<Part>,
    /// The headline with whole names, for redaction.
    #[serde(skip)]
    #[cfg_attr(test, ts(skip))]
    pub(crate) whole_headline: Vec<Part>,
    /// Scenario whose operations the run asks about; `null` where these are its messages.
    pub lead: Option<String>,
    /// Warnings about the numbers.
    #[serde(serialize_with = "shown_warnings")]
    #[cfg_attr(test, ts(as = "Vec<ShownWarning>"))]
    pub warnings: Vec<Warning>,
    /// Missing and unreadable parts.
    pub notes: Vec<String>,
    /// Figures over all runs of the same experiment, whose last it is.
    pub repeats: Option<Repeats>,
    /// Note that people gave the run.
    pub remark: Option<String>,
    /// Words by which people find it.
    pub tags: Vec<String>,
    /// The figures of the measured phase.
    pub figures: Figures,
    /// Who limited the run; `null` where there was no load.
    pub verdict: Option<Verdict>,
    /// The table of the workers that carried the load; empty where one process did.
    pub workers: Vec<WorkerColumn>,
    /// Requirements and their outcomes.
    pub requirements: Vec<RequirementRow>,
    /// Broker under load.
    pub broker: BrokerSummary,
    /// Phases in the order of time.
    pub phases: Vec<PhaseSpan>,
    /// Labelled moments, those of faults first.
    pub events: Vec<Event>,
    /// When faults killed the broker or a node of it, and when that was back, in seconds since the origin.
    pub killed: Vec<f64>,
    /// Faults that took place.
    pub faults: Vec<FaultView>,
    /// Nodes that were back after the end of [`Self::span`]: one of a cluster may take longer than the load.
    pub returns: Vec<Event>,
    /// Stalls of the broker, the generator or the machine.
    pub stalls: Vec<StallBand>,
    /// Inspections of the broker by other commands.
    pub looks: Vec<LookBand>,
    /// Functions that were traced on the broker's node.
    pub traces: Vec<TraceView>,
    /// First and last moment in any chart, in seconds since the origin.
    pub span: (f64, f64),
    /// Metrics in the order in which they are shown.
    pub metrics: Vec<&'static MetricInfo>,
    /// Columns of the charts over time.
    pub series: SeriesColumns,
    /// Named series of the machine, of the broker's processes and of scraped pages.
    pub named: Vec<NamedPanel>,
    /// The series in tenths of a second, where it has been kept; their cells travel behind those of the grids.
    pub slices: Option<SliceColumns>,
    /// Latencies by time for each metric; their cells travel beside this.
    pub grids: Vec<LatencyGrid>,
    /// A percentile curve for each metric.
    pub curves: Vec<Curve>,
    /// The broker's objects.
    pub topology: Topology,
    /// The resolved experiment.
    #[cfg_attr(test, ts(type = "unknown"))]
    pub experiment: serde_json::Value,
    /// Keys of the experiment whose values are not the defaults, as `load.0.rate`; empty where that is not known.
    pub changed_keys: Vec<String>,
    /// Guarantee of the messages, and what acknowledgements mean; `null` without messages.
    pub guarantee: Option<String>,
    /// Flow control of a run over AMQP 1.0 to RabbitMQ: names of limits and their values; empty for other runs.
    pub limits: Vec<(String, String)>,
    /// Versions of all that took part.
    pub versions: Versions,
    /// The machine.
    pub hardware: Hardware,
    /// Seed of everything random in the run, as text: a browser's numbers end at 2^53.
    pub seed: String,
    /// The command that does it again.
    pub command: Vec<String>,
    /// Overhead of profiling, a sentence each; empty where it was not switched on and off in blocks.
    pub cost_of_profiling: Vec<String>,
    /// Blocks in which sampling was off, in the order of time.
    pub sampling_off: Vec<SamplingOff>,
    /// The profiles, one for each event, the usual one first; their columns travel beside this, one behind the other.
    pub profiles: Vec<ProfileHead>,
}

/// A warning as the page shows it, with the observed values in its sentence.
#[derive(Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
struct ShownWarning {
    /// Consequence for the numbers.
    tier: Tier,
    /// Its kind.
    code: WarningCode,
    /// Sentence of the warning.
    text: String,
}

fn shown_warnings<S: Serializer>(all: &[Warning], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(all.iter().map(|it| ShownWarning { tier: it.tier, code: it.code(), text: it.text.clone() }))
}

/// A fault as the first screen shows it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct FaultView {
    /// Its target: `node 1`, or the broker.
    pub target: String,
    /// When it began, in seconds since the origin.
    pub t: f64,
    /// Seconds from then until the target was back; `null` where it was not.
    pub back_s: Option<f64>,
}

/// A time in which sampling was off, in seconds since the origin.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct SamplingOff {
    /// When it began.
    pub start: f64,
    /// When it ended.
    pub end: f64,
}

/// A stall, in seconds since the origin.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct StallBand {
    /// When it began.
    pub start: f64,
    /// When it ended.
    pub end: f64,
    /// The side that stood still.
    pub who: Stalled,
    /// All connections were down.
    pub away: bool,
    /// The stall in a sentence.
    pub text: String,
}

/// A run's view, and data too large for JSON.
#[derive(Clone, Debug)]
pub struct RunPage {
    /// The view without the columns.
    pub run: RunView,
    /// The cells of all grids ([`LatencyGrid`]), then of slices, then the columns of each profile ([`ProfileHead`]).
    pub columns: Vec<u8>,
}

impl RunPage {
    /// Reads a run's archive, even cut off, or without load, profile or broker. Fails where histograms cannot be read.
    pub(crate) fn read(run: &RunReader) -> Result<Self, Problem> {
        match run.profile() {
            Ok(profile) => Self::of(run, profile.as_ref()),
            Err(e) => {
                let mut page = Self::of(run, None)?;
                let note = format!("the profile cannot be read: {e}");
                page.run.notes.push(note);
                Ok(page)
            }
        }
    }

    /// The page of a run whose profile has been read, by line where lines are known.
    fn of(reader: &RunReader, profile: Option<&Profile>) -> Result<Self, Problem> {
        let (mut run, mut columns) = RunView::of(reader, profile)?;
        let further = further_profiles(reader, profile, &mut run.notes);
        let all: Vec<&Profile> = profile.into_iter().chain(&further).collect();
        let is_bounded = |profile: &Profile| profile.header.kind != EventKind::OnCpu;
        let bounded = all.iter().filter(|it| is_bounded(it)).count();
        for profile in all.iter().filter(|it| !it.samples.is_empty()) {
            let most = if is_bounded(profile) { MOST_EVENTS / bounded.max(1) } else { usize::MAX };
            let (head, bytes) = encode(profile, most);
            run.profiles.push(head);
            columns.extend(bytes);
        }
        Ok(Self { run, columns })
    }
}

/// The events of a run, those of faults first: where not all labels have room above the time axis, these have.
fn faults_first(events: &[Event], faults: &[FaultOutcome]) -> Vec<Event> {
    let times = |it: &FaultOutcome| {
        let after = [Some(0.0), it.back_s, it.first_confirm_s, it.backlog_gone_s];
        after.map(|after| after.map(|after| it.t + after))
    };
    let times: Vec<[Option<f64>; 4]> = faults.iter().map(times).collect();
    let rank = |event: &Event| {
        let is_at = |at: Option<f64>| at.is_some_and(|at| (at - event.t).abs() < 0.001);
        (0..4).find(|part: &usize| times.iter().any(|it| is_at(it[*part])))
    };
    let mut all: Vec<(usize, &Event)> = events.iter().map(|event| (rank(event).unwrap_or(4), event)).collect();
    all.sort_by(|(one, a), (other, b)| one.cmp(other).then(a.t.total_cmp(&b.t)));
    all.into_iter().map(|(_, event)| event.clone()).collect()
}

fn fault(of: &FaultOutcome) -> FaultView {
    FaultView { target: target_of(of), t: of.t, back_s: of.back_s }
}

/// When a fault killed something, if it did.
fn killed(fault: &FaultOutcome) -> Option<f64> {
    let has_begun = fault.for_good || fault.asked_s.is_some();
    (fault.kind == "kill" && has_begun).then_some(fault.t)
}

/// When a fault killed a process, and when that was back: its holdings change then.
fn changes(fault: &FaultOutcome) -> Vec<f64> {
    let at = killed(fault);
    let back = at.zip(fault.back_s).map(|(at, back)| at + back);
    at.into_iter().chain(back).collect()
}

/// Returns after the end of the time axis, with the time since the fault.
fn returns(faults: &[FaultOutcome], end: f64) -> Vec<Event> {
    let of = |fault: &FaultOutcome| {
        let after = fault.back_s?;
        let label = format!("{} is back, {} s after the fault began", target_of(fault), seconds_digits(after));
        Some(Event { t: fault.t + after, label })
    };
    let all = faults.iter().filter_map(of);
    all.filter(|event| event.t > end).collect()
}

/// The profiles of a run's other events. One that cannot be read is missing, and a note says so.
fn further_profiles(reader: &RunReader, profile: Option<&Profile>, notes: &mut Vec<String>) -> Vec<Profile> {
    let Some(profile) = profile else { return Vec::new() };
    let mut events = sampled_events(&reader.dir);
    events.retain(|event| *event != profile.header.name());
    let read =
        events.iter().filter_map(|event| match Profile::open_with_lines(&FORMATS, &reader.dir, Some(event.as_str())) {
            Ok(profile) => Some(profile),
            Err(e) => {
                notes.push(format!("the profile of {event} cannot be read: {e}"));
                None
            }
        });
    read.collect()
}

impl RunView {
    /// The view, and the cells of its grids.
    fn of(run: &RunReader, profile: Option<&Profile>) -> Result<(Self, Vec<u8>), Problem> {
        let record = &run.record;
        let phases = phases(run);
        let span = span(run, &phases, profile);
        let mut found = distributions::read(run, span)?;
        let slices = slices::read(run, &mut found.cells)?;
        let mut summary = figures::summary_of(run, &found);
        if let Some(profile) = profile {
            summary.profiles = vec![profile.clone().without_lines().summary(1)];
        }
        let (series, mut notes) = (SeriesColumns::of(&run.points), run.notes.clone());
        let labels = archive::Labels::read(&run.dir).unwrap_or_else(|e| {
            notes.push(format!("the run's note and tags cannot be read: {e}"));
            archive::Labels::default()
        });
        let [headline, whole_headline] = sentences(record, &phases, &summary);
        let repeats = Repeats::read(&run.dir).unwrap_or_else(|e| {
            notes.push(format!("the other runs of the series cannot be shown: {e}"));
            None
        });
        let view = Self {
            id: record.id.clone(),
            name: record.name.clone(),
            created: record.created.clone(),
            origin_unix_ms: record.origin_unix_ns as f64 / 1e6,
            state: record.state,
            error: record.problem.clone(),
            headline,
            whole_headline,
            lead: headline::lead(&summary).map(str::to_owned),
            figures: Figures::of(&summary, &run.points),
            named: named::read(&run.dir, &summary.faults, &mut notes),
            traces: traces::traces(run, &summary, &mut notes),
            faults: headline::faults_of(&summary).map(fault).collect(),
            workers: crate::text::worker_table(&summary.workers),
            warnings: summary.warnings,
            notes,
            repeats,
            remark: labels.note,
            tags: labels.tags.iter().map(ToString::to_string).collect(),
            verdict: summary.verdict,
            requirements: requirements::rows(run),
            broker: summary.broker,
            phases,
            events: faults_first(&record.events, &summary.faults),
            killed: summary.faults.iter().flat_map(changes).collect(),
            returns: returns(&summary.faults, span.1),
            stalls: stalls(record),
            looks: traces::looks(&record.looks),
            span,
            metrics: series.metrics().map(measure::Metric::info).collect(),
            series,
            slices,
            grids: found.grids,
            curves: found.curves,
            topology: record.topology.clone(),
            experiment: record.experiment.clone(),
            changed_keys: record.changed_keys.clone(),
            guarantee: DeliveryPromise::of(&record.experiment).map(|it| it.to_string()),
            limits: crate::text::amqp10_limits(record),
            versions: record.versions.clone(),
            hardware: record.hardware.clone(),
            seed: record.seed.to_string(),
            command: record.command.clone(),
            cost_of_profiling: effect(record).map_or_else(Vec::new, crate::text::observer_effect),
            sampling_off: sampling_off(record),
            profiles: Vec::new(),
        };
        Ok((view, found.cells))
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

fn stalls(record: &RunRecord) -> Vec<StallBand> {
    let summary = record.summary.iter();
    let bands = summary.flat_map(|summary| {
        let (items, role) = (summary.items(), summary.loaded());
        summary.stalls.iter().map(move |stall| StallBand {
            start: stall.at_s,
            end: stall.at_s + stall.for_s,
            who: stall.who,
            away: stall.away,
            text: crate::text::stall(stall, items, role),
        })
    });
    bands.collect()
}

fn effect(record: &RunRecord) -> Option<&ObserverEffect> {
    record.summary.as_ref()?.observer_effect.as_ref()
}

/// The blocks without profiling; those that follow each other are one.
fn sampling_off(record: &RunRecord) -> Vec<SamplingOff> {
    let blocks = effect(record).map_or(&[][..], |effect| &effect.blocks);
    let mut all: Vec<SamplingOff> = Vec::new();
    for block in blocks.iter().filter(|block| !block.on) {
        match all.last_mut().filter(|last| block.start - last.end < 1e-6) {
            Some(last) => last.end = block.end,
            None => all.push(SamplingOff { start: block.start, end: block.end }),
        }
    }
    all
}

/// First and last moment in any chart.
fn span(run: &RunReader, phases: &[PhaseSpan], profile: Option<&Profile>) -> (f64, f64) {
    let ends = run.points.iter().map(|p| (p.t, point_end(p))).chain(phases.iter().map(|p| (p.start, p.end)));
    let (from, to) = ends.fold((f64::INFINITY, f64::NEG_INFINITY), |(from, to), it| (from.min(it.0), to.max(it.1)));
    if !(from.is_finite() && to > from) {
        // Nothing but a profile: its own span.
        let last = profile.and_then(|p| p.samples.iter().map(|s| s.t).max());
        return (0.0, last.map_or(1.0, |ns| (ns as f64 / 1e9).max(0.001)));
    }
    (from, to)
}

/// The way from a page in a folder to the report of a run below it, as names; `None` where it is not there.
fn report_below(run: &Path, folder: &Path) -> Option<Vec<String>> {
    let dir = run.canonicalize().ok()?;
    let folder = folder.canonicalize().ok()?;
    let below = dir.strip_prefix(folder).ok()?;
    if !dir.join(file::REPORT).is_file() {
        return None;
    }
    let names = below.iter().map(|it| it.to_str().map(str::to_owned));
    let mut names = names.collect::<Option<Vec<String>>>()?;
    names.push(file::REPORT.to_owned());
    Some(names)
}

/// Appends an integer of variable length (LEB128), of which the page's columns are made.
fn put(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 128 {
        bytes.push((value & 127) as u8 | 128);
        value >>= 7;
    }
    bytes.push(value as u8);
}

#[cfg(test)]
mod typescript_tests;
#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::fixtures::fault;

    #[test]
    fn events_of_faults_come_before_those_that_take_their_room() {
        let event = |t: f64, label: &str| Event { t, label: label.to_owned() };
        let events = [
            event(9.5, "the broker blocked a connection"),
            event(11.0, "node 1 is back"),
            event(10.0, "node 1 was killed"),
            event(0.2, "a page is served by another process"),
            event(20.0, "node 2 was stopped"),
        ];
        let faults = [FaultOutcome { back_s: Some(1.0), ..fault("", None, 10.0) }, fault("", None, 20.0)];
        let times = |faults: &[FaultOutcome]| -> Vec<f64> {
            faults_first(&events, faults).into_iter().map(|it| it.t).collect()
        };
        assert_eq!(times(&faults), [10.0, 20.0, 11.0, 0.2, 9.5]);
        assert_eq!(times(&[]), [0.2, 9.5, 10.0, 11.0, 20.0]);
    }

    #[test]
    fn what_a_process_holds_changes_with_a_kill_and_with_its_return() {
        for (kind, back_s, expected) in
            [("kill", Some(5.0), &[8.0, 13.0][..]), ("kill", None, &[8.0]), ("stop", Some(5.0), &[])]
        {
            assert_eq!(changes(&FaultOutcome { asked_s: Some(3.0), back_s, ..fault(kind, None, 8.0) }), expected);
        }
    }

    #[test]
    fn a_return_after_the_end_of_the_axis_is_told() {
        let faults =
            [(Some(1), 10.0, Some(5.0)), (Some(2), 12.0, Some(31.5)), (None, 13.0, Some(30.0)), (Some(0), 14.0, None)]
                .map(|(node, t, back_s)| FaultOutcome { back_s, ..fault("", node, t) });
        let told = returns(&faults, 20.0).into_iter().map(|it| format!("{} s: {}", it.t, it.label));
        let broker = "43 s: the broker is back, 30 s after the fault began";
        assert_eq!(told.collect::<Vec<_>>(), ["43.5 s: node 2 is back, 31.5 s after the fault began", broker]);
    }
}
