//! One run folder of the folders that the workers of a fleet keep, where the coordinator could not keep its own. Counts
//! and histograms are the sums of theirs: all count from the same start, so that their seconds are the same ones.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::path::{Path, PathBuf};

use measure::{Counters, Interval, LatencySummary, Metric, Nanos, Phase, Problem, Recorder, Time};

use crate::files::is_name;
use crate::{
    Event, FewSamples, Finding, FleetPart, HistogramLog, HistogramRecord, LimitedBy, MESSAGES, MessageFlow, PerMessage,
    PhaseSpan, ProcessUsage, RequestedSummary, Rss, RunReader, RunRecord, RunState, RunSummary, RunWriter,
    ScenarioSummary, SeriesPoint, SliceLog, SlicePoint, Throughput, Tier, Warning, WorkerSummary, file,
};

/// Files of a worker's run folder that hold its part of a run, beside the profiles of one that recorded a node.
const COLLECTED_FILES: [&str; 5] = [file::RECORD, file::SERIES, file::SLICES, file::HISTOGRAMS, file::METRICS];
/// Workers whose absence is told one by one.
const MOST_MISSING: u32 = 100;
/// Kinds of the workers' own warnings that are told.
const MOST_TOLD: usize = 20;
/// Characters of a worker's name.
const LONGEST_NAME: usize = 64;
/// Events that are kept.
const MOST_EVENTS: usize = 1_000;
/// A line of the log counts to the second that begins so close to it: its time has six digits.
const SAME_TIME: f64 = 1e-5;

/// Whether a file of a worker's run folder goes to whoever makes one run of all.
pub fn is_collected(name: &str) -> bool {
    let is_profile = || name.strip_suffix(file::STACKS).is_some_and(|it| it.len() > 1 && it.ends_with('.'));
    COLLECTED_FILES.contains(&name) || is_name(name) && is_profile()
}

/// The run of a fleet, as it was made of the workers' folders.
#[derive(Clone, Debug)]
pub struct CollectedRun {
    /// Its folder.
    pub dir: PathBuf,
    /// The content of its `run.json`.
    pub record: RunRecord,
}

/// How a run is collected.
#[derive(Clone, Copy, Debug)]
pub struct CollectOptions<'a> {
    /// Name of the run, as its coordinator printed it.
    pub run: &'a str,
    /// The folder of runs.
    pub runs_dir: &'a Path,
    /// The command, without secrets.
    pub command: &'a [String],
    /// The record that the coordinator left, where it is known: it knows the whole experiment.
    pub coordinator: Option<&'a RunRecord>,
    /// Makes the sentence of a warning.
    pub text: fn(&Warning) -> String,
}

impl CollectedRun {
    /// Makes the run folder. Errors: a folder that is no worker's part of this run, two of one worker, none at all, or
    /// what cannot be read or written.
    pub fn of(dirs: &[PathBuf], options: &CollectOptions<'_>) -> Result<Self, Problem> {
        let parts = read_parts(dirs, options.run)?;
        let none = || Problem::new("there is nothing to collect", "no folder", "name the workers' folders with --from");
        let first = parts.first().ok_or_else(none)?;
        let known = &first.reader.record;
        let mut writer = RunWriter::create(options.runs_dir, &known.name, known.origin_unix_ns)?;
        writer.set_origin(known.origin, known.origin_unix_ns);
        let sums = match Sums::of(&parts, known.origin, &mut writer) {
            Ok(sums) => sums,
            Err(problem) => {
                writer.discard();
                return Err(problem);
            }
        };
        let mut record = record(&parts, &sums, &writer, known, options);
        if let Some(of) = options.coordinator {
            (record.experiment, record.changed_keys) = (of.experiment.clone(), of.changed_keys.clone());
            (record.versions, record.scenarios) = (of.versions.clone(), of.scenarios.clone());
        }
        writer.write_record(&record);
        if let Some(warning) = writer.warnings().first() {
            let help = "free some space, or choose another folder with --runs";
            return Err(Problem::new("the run could not be written", (options.text)(warning), help));
        }
        Ok(Self { dir: writer.dir().to_path_buf(), record })
    }
}

/// The folder of a worker.
#[derive(Debug)]
struct WorkerPart {
    of: FleetPart,
    reader: RunReader,
    /// First instant of each phase that it has, in seconds of the run.
    starts: BTreeMap<Phase, f64>,
}

impl WorkerPart {
    fn read(dir: &Path, run: &str) -> Result<Self, Problem> {
        let reader = RunReader::open(dir)?;
        let mut of = reader.record.fleet.clone().unwrap_or_default();
        of.name = of.name.chars().filter(|it| !it.is_control()).take(LONGEST_NAME).collect();
        let value = match of.is_part() {
            true => format!("it is of run {}", of.run),
            false => "it holds no worker's part of a run".to_owned(),
        };
        let cause = format!("{} is not of run {run}", dir.display());
        let is_its = of.run == run && of.is_part();
        Problem::new(cause, value, "name folders of workers of one run alone, and that run").unless(is_its)?;
        let mut starts = BTreeMap::new();
        for point in &reader.points {
            let start: &mut f64 = starts.entry(point.phase).or_insert(point.t);
            *start = start.min(point.t);
        }
        Ok(Self { of, reader, starts })
    }

    /// Number of the piece of a phase that begins at `t`, where there are so many a second.
    fn place(&self, phase: Phase, t: f64, each_second: f64) -> u64 {
        let start = self.starts.get(&phase).copied().unwrap_or(t);
        ((t - start) * each_second).round().max(0.0) as u64
    }

    fn end(&self) -> f64 {
        self.reader.points.last().map_or(0.0, |it| it.t + it.dt)
    }

    fn is_complete(&self) -> bool {
        self.reader.record.state == RunState::Complete
    }

    fn totals(&self) -> Counters {
        let mut totals = Counters::default();
        self.reader.points.iter().for_each(|it| totals.add(&it.counters));
        totals
    }

    /// Why its part ended early.
    fn reason(&self) -> String {
        let record = &self.reader.record;
        let known = record.problem.as_ref().map(ToString::to_string).or_else(|| record.error.clone());
        known.unwrap_or_else(|| match record.state {
            RunState::Interrupted => "it was stopped".to_owned(),
            _ => "its folder has no end: it was killed, or goes on".to_owned(),
        })
    }

    fn summary(&self) -> WorkerSummary {
        let (record, totals) = (&self.reader.record, self.totals());
        let summary = record.summary.as_ref();
        let used = summary.and_then(|it| it.cpu_cores.client);
        let flow = summary.map(RunSummary::flow).copied().unwrap_or_default();
        let verdict = summary.and_then(|it| it.verdict.as_ref());
        WorkerSummary {
            name: self.of.name.clone(),
            version: record.versions.bellows.clone(),
            cores: record.hardware.cores,
            sent: totals.sent,
            received: totals.received,
            sent_rate: flow.sent.rate,
            received_rate: flow.received.rate,
            cpu_cores: used.unwrap_or_default(),
            at_work: verdict.map_or(0.0, |it| it.facts.at_work()),
            run_queue_wait: verdict.map_or(0.0, |it| it.facts.run_queue_wait()),
            late_share: summary.and_then(|it| it.messages().requested.as_ref()).map(|it| it.late_share),
            limits: verdict.is_some_and(|it| it.limited_by == LimitedBy::Generator),
            lost_s: (!self.is_complete()).then(|| self.end()),
            ..WorkerSummary::default()
        }
    }
}

/// Reads the folders of one run, in the order of the workers' numbers.
fn read_parts(dirs: &[PathBuf], run: &str) -> Result<Vec<WorkerPart>, Problem> {
    let parts: Result<Vec<WorkerPart>, Problem> = dirs.iter().map(|dir| WorkerPart::read(dir, run)).collect();
    let mut parts = parts?;
    // Others have recorded a node, and carried nothing.
    parts.retain(|it| it.of.worker < it.of.workers);
    parts.sort_by_key(|it| it.of.worker);
    for (one, other) in parts.iter().zip(parts.iter().skip(1)) {
        let cause = format!("two folders are of worker {} of run {run}", one.of.name);
        let twice = Problem::new(cause, other.reader.dir.display(), "name each worker's folder once");
        twice.unless(one.of.worker != other.of.worker)?;
    }
    Ok(parts)
}

/// The histograms of a worker, each with the number of the second that it belongs to.
struct PlacedHistograms<'a> {
    points: &'a [SeriesPoint],
    log: Peekable<HistogramLog>,
}

impl PlacedHistograms<'_> {
    /// The next one of the seconds up to this one.
    fn next_of(&mut self, second: usize) -> Option<HistogramRecord> {
        let points = self.points;
        let is_of = |it: &HistogramRecord| points.partition_point(|point| point.t <= it.t + SAME_TIME) <= second + 1;
        self.log.next_if(is_of)
    }
}

/// Sums over all workers.
#[derive(Default)]
struct Sums {
    totals: Counters,
    measured: Counters,
    latencies: Recorder,
    phases: Vec<PhaseSpan>,
    requested: f64,
    /// Of these, those of the measured phase.
    due: f64,
}

/// A second of the run: its phase and place there, and the points of all workers that it is the sum of.
type SecondOfAll = BTreeMap<(Phase, u64), Vec<(usize, usize)>>;

impl Sums {
    /// Adds everything up, and writes the seconds and their tenths.
    fn of(parts: &[WorkerPart], origin: Time, writer: &mut RunWriter) -> Result<Self, Problem> {
        let mut seconds = SecondOfAll::new();
        let mut logs = Vec::new();
        for (worker, part) in parts.iter().enumerate() {
            for (second, point) in part.reader.points.iter().enumerate() {
                let key = (point.phase, part.place(point.phase, point.t, 1.0));
                seconds.entry(key).or_default().push((worker, second));
            }
            let log = part.reader.histograms()?.peekable();
            logs.push(PlacedHistograms { points: &part.reader.points, log });
        }
        let mut sums = Self::default();
        let mut interval = Interval::new();
        for ((phase, _), points) in &seconds {
            let point = sums.second(parts, *phase, points);
            interval.reset(origin + Nanos::from_secs_f64(point.t), *phase);
            interval.end = interval.start + Nanos::from_secs_f64(point.dt);
            interval.counters = point.counters;
            for (worker, second) in points {
                let Some(log) = logs.get_mut(*worker) else { continue };
                while let Some(record) = log.next_of(*second) {
                    add(&record, &mut interval)?;
                }
            }
            sums.keep(&interval, point, writer)?;
        }
        write_slices(parts, &sums.phases, writer)?;
        Ok(sums)
    }

    /// The counts of a second. A drain begins when the last worker's has.
    fn second(&self, parts: &[WorkerPart], phase: Phase, points: &[(usize, usize)]) -> SeriesPoint {
        let of = |(worker, second): &(usize, usize)| parts.get(*worker)?.reader.points.get(*second);
        let all = || points.iter().filter_map(of);
        let start = all().map(|it| it.t).fold(f64::INFINITY, f64::min);
        let end = all().map(|it| it.t + it.dt).fold(start, f64::max);
        let mut sum = SeriesPoint { t: start, dt: end - start, phase, ..SeriesPoint::default() };
        let mut amount = None;
        let mut client = None;
        for point in all() {
            sum.counters.add(&point.counters);
            sum.waits.add(&point.waits);
            sum.loop_lag_max_ns = sum.loop_lag_max_ns.max(point.loop_lag_max_ns);
            // All that run on its machine see the same one.
            sum.broker = sum.broker.or(point.broker);
            amount = sum_of(amount, point.requested_rate.map(|rate| rate * point.dt));
            if let Some(used) = point.client {
                let all: &mut ProcessUsage = client.get_or_insert_default();
                all.cpu_cores += used.cpu_cores;
                all.rss_bytes = all.rss_bytes.saturating_add(used.rss_bytes);
                all.threads = all.threads.saturating_add(used.threads);
            }
        }
        sum.requested_rate = amount.filter(|_| sum.dt > 0.0).map(|amount| amount / sum.dt);
        sum.client = client;
        sum.t = self.moved(phase, sum.t);
        sum
    }

    /// An instant of a phase, not before the phase that it follows has ended for all.
    fn moved(&self, phase: Phase, t: f64) -> f64 {
        let before = self.phases.iter().filter(|it| it.phase < phase).map(|it| it.end);
        before.fold(t, f64::max)
    }

    fn keep(&mut self, interval: &Interval, point: SeriesPoint, writer: &mut RunWriter) -> Result<(), Problem> {
        self.totals.add(&interval.counters);
        if interval.phase == Phase::Measure {
            self.measured.add(&interval.counters);
        }
        let requested = point.requested_rate.unwrap_or_default() * point.dt;
        self.requested += requested;
        self.due += if interval.phase == Phase::Measure { requested } else { 0.0 };
        self.latencies.add_due(Phase::Measure, interval.histograms()).map_err(misshapen)?;
        match self.phases.last_mut().filter(|it| it.phase == point.phase) {
            Some(span) => span.end = span.end.max(point.t + point.dt),
            None => self.phases.push(PhaseSpan { phase: point.phase, start: point.t, end: point.t + point.dt }),
        }
        writer.append_point(&SeriesPoint { latency: interval.latencies.messages(), ..point });
        writer.append_histograms(interval);
        Ok(())
    }

    /// Seconds that were measured. A worker's may be longer than those of the others, and lie over them.
    fn measured_seconds(&self) -> f64 {
        self.phases.iter().filter(|it| it.phase == Phase::Measure).map(|it| it.end - it.start).sum()
    }

    fn throughput(&self, count: fn(&Counters) -> u64) -> Throughput {
        let seconds = self.measured_seconds();
        let rate = if seconds > 0.0 { count(&self.measured) as f64 / seconds } else { 0.0 };
        Throughput { total: count(&self.totals), rate }
    }

    /// Outcome of the messages of all workers.
    fn messages(&self, parts: &[WorkerPart]) -> ScenarioSummary {
        let flows = || parts.iter().map(|it| it.reader.record.summary.as_ref().map(RunSummary::flow));
        let ledgers = flows().map(|flow| flow?.ledger);
        let is_whole = parts.first().is_some_and(|it| it.of.workers as usize == parts.len());
        let ledger = ledgers.reduce(|all, of| {
            let (mut all, of) = (all?, of?);
            all.add(&of);
            Some(all)
        });
        let flow = MessageFlow {
            sent: self.throughput(|it| it.sent),
            completed: self.throughput(|it| it.completed),
            received: self.throughput(|it| it.received),
            blocked: self.throughput(|it| it.blocked),
            resent: Some(self.totals.resent).filter(|it| *it > 0),
            lasted: None,
            closed_loop: flows().flatten().any(|it| it.closed_loop),
            without_consumers: flows().flatten().any(|it| it.without_consumers),
            ledger: ledger.flatten().filter(|_| is_whole),
        };
        let (seconds, sent) = (self.measured_seconds(), self.measured.sent as f64);
        let (used, ended) = (cores(parts), self.measured.sent.max(self.measured.received));
        let us_each = |cores: Option<f64>| Some(cores.filter(|_| ended > 0)? * seconds * 1e6 / ended as f64);
        let requested = (self.due > 0.0 && seconds > 0.0).then(|| RequestedSummary {
            total: self.requested,
            rate: self.due / seconds,
            achieved: Some(sent / self.due),
            late_share: self.measured.late as f64 / sent.max(1.0),
            over_time: Vec::new(),
        });
        ScenarioSummary {
            kind: MESSAGES.to_owned(),
            unit: MESSAGES.to_owned(),
            rate: flow.sent.rate.max(flow.received.rate),
            flow: Some(flow),
            requested,
            latency: self.latencies.messages(),
            cpu_us_each: PerMessage { broker: us_each(used.broker), client: us_each(used.client) },
            ..ScenarioSummary::default()
        }
    }
}

/// CPU in the measured phase: of the broker as a worker on its machine saw it, and of all workers.
fn cores(parts: &[WorkerPart]) -> PerMessage {
    let used = || parts.iter().map(|it| it.reader.record.summary.as_ref().map(|it| it.cpu_cores).unwrap_or_default());
    PerMessage { broker: used().find_map(|it| it.broker), client: used().map(|it| it.client).sum() }
}

/// Memory, as [`cores`].
fn memory(parts: &[WorkerPart]) -> Rss {
    let used = || parts.iter().map(|it| it.reader.record.summary.as_ref().map(|it| it.rss_mb).unwrap_or_default());
    Rss { broker: used().find_map(|it| it.broker), client: used().map(|it| it.client).sum() }
}

/// Adds numbers of which some are not known.
fn sum_of(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one + other),
        (one, other) => one.or(other),
    }
}

/// Adds a worker's histogram to the second of all.
fn add(record: &HistogramRecord, interval: &mut Interval) -> Result<(), Problem> {
    let recorder = match record.due == interval.phase.due() {
        true => &mut interval.latencies,
        false => interval.carried.get_or_insert_default(),
    };
    recorder.add_due(record.due, [record.as_due()]).map_err(misshapen)
}

fn misshapen(error: impl std::fmt::Display) -> Problem {
    Problem::new("histograms of the workers do not fit together", error, "use the same bellows everywhere")
}

/// Writes the sums of the workers' tenths of a second.
fn write_slices(parts: &[WorkerPart], phases: &[PhaseSpan], writer: &mut RunWriter) -> Result<(), Problem> {
    let mut logs: Vec<(&WorkerPart, Peekable<SliceLog>)> = Vec::new();
    for part in parts {
        logs.push((part, part.reader.slices()?.peekable()));
    }
    loop {
        let next = logs.iter_mut().filter_map(|(part, log)| log.peek().map(|it| tenth_of(part, it))).min();
        let Some(next) = next else { return Ok(()) };
        let mut sum: Option<SlicePoint> = None;
        for (part, log) in &mut logs {
            while let Some(slice) = log.next_if(|it| tenth_of(part, it) == next) {
                sum = Some(match sum {
                    Some(all) => joined(all, &slice),
                    None => slice,
                });
            }
        }
        if let Some(mut slice) = sum {
            let before = phases.iter().filter(|it| it.phase < slice.phase).map(|it| it.end);
            slice.t = before.fold(slice.t, f64::max);
            writer.append_slice(&slice);
        }
    }
}

/// The place of a slice: that of the slices of other workers that it is added to.
fn tenth_of(part: &WorkerPart, slice: &SlicePoint) -> (Phase, u64) {
    (slice.phase, part.place(slice.phase, slice.t, 10.0))
}

fn joined(mut sum: SlicePoint, other: &SlicePoint) -> SlicePoint {
    let amount = |it: &SlicePoint| it.requested_rate.map(|rate| rate * it.dt);
    let requested = sum_of(amount(&sum), amount(other));
    let end = (sum.t + sum.dt).max(other.t + other.dt);
    sum.t = sum.t.min(other.t);
    sum.dt = end - sum.t;
    sum.requested_rate = requested.map(|it| it / sum.dt);
    sum.sent += other.sent;
    sum.completed += other.completed;
    sum.received += other.received;
    for (metric, count) in &other.counts {
        *sum.counts.entry(*metric).or_default() += count;
    }
    for (metric, latency) in &other.latency {
        sum.latency.entry(*metric).or_default().merge(latency);
    }
    sum
}

/// Workers of the run whose folders are not there, as people number them.
fn missing(parts: &[WorkerPart]) -> Vec<String> {
    let workers = parts.iter().map(|it| it.of.workers).max().unwrap_or_default();
    let has = |worker: u32| parts.iter().any(|it| it.of.worker == worker);
    (0..workers.min(MOST_MISSING)).filter(|it| !has(*it)).map(|it| format!("{} of {workers}", it + 1)).collect()
}

/// Doubts about a run without its coordinator, and those that the workers told of their own parts: each kind once.
fn doubts(parts: &[WorkerPart], latencies: &Recorder, text: fn(&Warning) -> String) -> Vec<Warning> {
    let few = |metric: Metric| {
        let of = LatencySummary::of(latencies.histogram(metric));
        let (_, percentile) = LatencySummary::PERCENTILES.iter().find(|(p, _)| !of.supports(*p))?;
        let (latency, percentile) = (metric.name().to_owned(), (*percentile).to_owned());
        (of.count > 0).then_some(FewSamples { latency, samples: of.count, percentile })
    };
    let few: Vec<FewSamples> = [Metric::ACK_RESPONSE, Metric::END_TO_END].into_iter().filter_map(few).collect();
    let few = (!few.is_empty()).then(|| Warning::new(Tier::Note, Finding::TooFewSamples { latencies: few }));
    let collected = Warning::new(Tier::Caution, Finding::Collected {});
    let mut all: Vec<Warning> = std::iter::once(collected).chain(few).collect();
    all.iter_mut().for_each(|it| it.text = text(it));
    // Of all together there are other samples, and why a part ended is told with its worker.
    let is_own = |it: &&Warning| !matches!(it.finding, Finding::TooFewSamples { .. } | Finding::Interrupted { .. });
    let mut told: Vec<(Warning, &str, usize)> = Vec::new();
    for part in parts {
        for warning in part.reader.record.warnings.iter().filter(is_own) {
            if let Some(known) = told.iter_mut().find(|it| it.0.code() == warning.code()) {
                known.2 += 1;
            } else if told.len() < MOST_TOLD {
                told.push((warning.clone(), part.of.name.as_str(), 0));
            }
        }
    }
    let of_worker = |(mut warning, name, others): (Warning, &str, usize)| {
        let others = if others > 0 { format!(", and {others} more") } else { String::new() };
        warning.text = format!("worker {name}{others}: {}", warning.text);
        warning
    };
    all.extend(told.into_iter().map(of_worker));
    all
}

/// The record of the whole run.
fn record(
    parts: &[WorkerPart],
    sums: &Sums,
    writer: &RunWriter,
    known: &RunRecord,
    options: &CollectOptions<'_>,
) -> RunRecord {
    let early = parts.iter().filter(|it| !it.is_complete());
    let lost = early.map(|it| (it.of.name.clone(), it.end(), it.reason()));
    let absent = missing(parts).into_iter().map(|it| (it, 0.0, "its folder could not be had".to_owned()));
    let lost: Vec<(String, f64, String)> = lost.chain(absent).collect();
    let warnings = lost.iter().map(|(worker, at_s, why)| {
        let (worker, at_s, why) = (worker.clone(), *at_s, why.clone());
        let mut warning =
            Warning::new(Tier::Invalid, Finding::WorkerLost { worker, at_s, why, producers: None, consumers: None });
        warning.text = (options.text)(&warning);
        warning
    });
    let warnings: Vec<Warning> = warnings.chain(doubts(parts, &sums.latencies, options.text)).collect();
    let problem = lost.first().map(|(worker, _, why)| {
        let cause = format!("run {} ended early, without its coordinator", options.run);
        Problem::new(cause, format!("worker {worker}: {why}"), "see what ended the coordinator, and run it again")
    });
    let mut events: Vec<Event> = parts.iter().flat_map(events_of).collect();
    events.sort_by(|one, other| one.t.total_cmp(&other.t));
    events.truncate(MOST_EVENTS);
    let summary = RunSummary {
        schema: RunSummary::SCHEMA.to_owned(),
        run_dir: writer.dir().display().to_string(),
        broker: known.summary.as_ref().map(|it| it.broker.clone()).unwrap_or_default(),
        workers: parts.iter().map(WorkerPart::summary).collect(),
        cpu_cores: cores(parts),
        rss_mb: memory(parts),
        scenarios: BTreeMap::from([(MESSAGES.to_owned(), sums.messages(parts))]),
        error: problem.clone(),
        warnings: warnings.clone(),
        ..RunSummary::default()
    };
    RunRecord {
        id: writer.id().to_owned(),
        command: options.command.to_vec(),
        phases: sums.phases.clone(),
        events,
        looks: Vec::new(),
        state: if problem.is_some() { RunState::Failed } else { RunState::Complete },
        error: problem.as_ref().map(Problem::sentence),
        problem,
        failed_by: None,
        warnings,
        summary: Some(summary),
        fleet: known.fleet.clone().map(|it| FleetPart { worker: 0, name: String::new(), ..it }),
        ..known.clone()
    }
}

fn events_of(part: &WorkerPart) -> impl Iterator<Item = Event> {
    let of = &part.of.name;
    part.reader.record.events.iter().map(move |it| Event { t: it.t, label: format!("worker {of}: {}", it.label) })
}

#[cfg(test)]
mod tests {
    use measure::Metric;
    use testkit::assert_has;

    use super::*;

    const RUN: &str = "load-18";

    /// A worker's folder: a second of warm-up, two that are measured, of which the last is cut short, with so many
    /// messages each.
    fn part(runs: &Path, worker: u32, sent: u64, end: f64, state: RunState) -> PathBuf {
        let seconds = [(Phase::Warmup, 0.0, 0.5), (Phase::Measure, 0.5, 1.5), (Phase::Measure, 1.5, end)];
        part_of(runs, worker, sent, &seconds, state)
    }

    /// A worker's folder with these seconds.
    fn part_of(runs: &Path, worker: u32, sent: u64, seconds: &[(Phase, f64, f64)], state: RunState) -> PathBuf {
        let mut writer = RunWriter::create(runs, "load", 7).unwrap();
        let origin = Time(5_000_000_000 * (1 + u64::from(worker)));
        writer.set_origin(origin, 7);
        let of = FleetPart { run: RUN.to_owned(), worker, workers: 3, name: format!("w{}", worker + 1) };
        for &(phase, start, end) in seconds {
            let mut interval = Interval::new();
            interval.reset(origin + Nanos::from_secs_f64(start), phase);
            interval.end = origin + Nanos::from_secs_f64(end);
            interval.counters.sent = sent;
            interval.latencies.record_n(Metric::ACK_RESPONSE, Nanos::from_millis(1 + u64::from(worker)), sent);
            let (counters, latency) = (interval.counters, interval.latencies.messages());
            let point = SeriesPoint { t: start, dt: end - start, phase, counters, latency, ..SeriesPoint::default() };
            writer.append_point(&point);
            writer.append_histograms(&interval);
            let mut slice = interval.to_slice();
            slice.end = slice.start + Nanos::from_millis(100);
            writer.append_slice(&SlicePoint::of(&slice, start, None));
        }
        let clock = Finding::ClockNotSteady { clock: "hpet".to_owned() };
        let coarse = Warning { text: "the clock is coarse".to_owned(), ..Warning::new(Tier::Caution, clock) };
        let cpu_cores = PerMessage { broker: Some(0.5), client: Some(0.125) };
        let error = (state == RunState::Failed).then(|| "no coordinator was heard for 5s".to_owned());
        let record = RunRecord {
            schema: RunRecord::SCHEMA.to_owned(),
            name: "load".to_owned(),
            fleet: Some(of),
            origin,
            origin_unix_ns: 7,
            state,
            error,
            warnings: vec![coarse, Warning::new(Tier::Note, Finding::Interrupted { seconds: 1.0 })],
            summary: Some(RunSummary { schema: RunSummary::SCHEMA.to_owned(), cpu_cores, ..RunSummary::default() }),
            ..RunRecord::default()
        };
        writer.write_record(&record);
        writer.dir().to_path_buf()
    }

    fn collected(dirs: &[PathBuf], runs: &Path) -> Result<CollectedRun, Problem> {
        let text = |_: &Warning| String::new();
        CollectedRun::of(dirs, &CollectOptions { run: RUN, runs_dir: runs, command: &[], coordinator: None, text })
    }

    #[test]
    fn folders_of_workers_are_one_run_with_the_exact_sums_and_the_reason_of_its_end() {
        let (theirs, own) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let dirs =
            [part(theirs.path(), 1, 20, 1.9, RunState::Failed), part(theirs.path(), 0, 30, 2.2, RunState::Failed)];
        let run = collected(&dirs, own.path()).unwrap();
        let read = RunReader::open(&run.dir).unwrap();
        assert_eq!((&read.record.id, read.record.state), (&run.record.id, RunState::Failed));
        assert_eq!(read.points.iter().map(|it| it.counters.sent).collect::<Vec<_>>(), [50, 50, 50]);
        let latencies = read.merged(Phase::Measure).unwrap();
        let values = latencies.histogram(Metric::ACK_RESPONSE);
        assert_eq!((values.len(), values.count_between(900_000, 1_100_000)), (100, 60));
        assert_eq!(read.slices().unwrap().map(|it| it.sent).collect::<Vec<_>>(), [50, 50, 50]);
        let summary = run.record.summary.as_ref().unwrap();
        assert_eq!(summary.flow().sent.total, 150);
        assert!((summary.flow().sent.rate - 100.0 / 1.7).abs() < 0.1, "{:?}", summary.flow());
        assert_eq!(summary.workers.iter().map(|it| it.sent).collect::<Vec<_>>(), [90, 60]);
        let tiers: Vec<Tier> = run.record.warnings.iter().map(|it| it.tier).collect();
        // It claimed that all validity checks had passed.
        let expected = [Tier::Invalid, Tier::Invalid, Tier::Invalid, Tier::Caution, Tier::Note, Tier::Caution];
        assert_eq!((run.record.state, tiers.as_slice()), (RunState::Failed, &expected[..]));
        assert_has(&run.record.warnings[5].text, ["worker w1, and 1 more: the clock is coarse"]);
        assert_eq!(summary.cpu_cores, PerMessage { broker: Some(0.5), client: Some(0.25) });
        assert!(run.record.fleet.as_ref().is_some_and(|it| it.run == RUN && !it.is_part()));
        assert_has(run.record.error.unwrap(), ["ended early", "worker w1: no coordinator was heard"]);
        assert_has(format!("{:?}", run.record.warnings), ["\"3 of 3\"", "could not be had"]);
    }

    #[test]
    fn a_worker_that_paused_makes_no_second_count_twice() {
        let (theirs, own) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let seconds = [(Phase::Measure, 0.0, 1.0), (Phase::Measure, 1.0, 2.0), (Phase::Measure, 2.0, 3.0)];
        let steady = part_of(theirs.path(), 0, 30, &seconds, RunState::Failed);
        let paused = part_of(theirs.path(), 1, 30, &[(Phase::Measure, 0.0, 3.0)], RunState::Failed);
        let run = collected(&[steady, paused], own.path()).unwrap();
        let sent = run.record.summary.as_ref().unwrap().flow().sent;
        assert!(sent.total == 120 && (sent.rate - 40.0).abs() < 0.1, "{sent:?}");
    }

    #[test]
    fn folders_of_other_runs_and_two_of_one_worker_are_refused_and_nothing_is_left() {
        let (theirs, own) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let dir = part(theirs.path(), 0, 1, 2.0, RunState::Complete);
        assert_has(collected(&[dir.clone(), dir.clone()], own.path()).unwrap_err().cause, ["two folders"]);
        let options = CollectOptions {
            run: "load-19",
            runs_dir: own.path(),
            command: &[],
            coordinator: None,
            text: |_| String::new(),
        };
        let refused = CollectedRun::of(&[dir], &options).unwrap_err();
        assert_has(refused.sentence(), ["not of run load-19", "of run load-18"]);
        assert!(collected(&[], own.path()).is_err());
        let of_node = part(theirs.path(), 3, 1, 2.0, RunState::Complete);
        assert!(collected(&[of_node], own.path()).is_err(), "it carried no load");
        for (name, is_one) in
            [("metrics.jsonl", true), ("off-cpu.stacks", true), (".stacks", false), ("a/b.stacks", false)]
        {
            assert_eq!(is_collected(name), is_one, "{name}");
        }
        assert_eq!(std::fs::read_dir(own.path()).unwrap().count(), 0);
    }
}
