//! One run folder of the folders that the workers of a fleet keep, where the coordinator could not keep its own. Counts
//! and histograms are the sums of theirs: all count from the same start, so that their seconds are the same ones.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::path::{Path, PathBuf};

use measure::{Counters, Interval, LatencySummary, Metric, Nanos, Phase, Problem, Recorder, Time};
use stacks::{FORMATS, Profile, ProfileHeader, sampled_events};

use crate::files::is_name;
use crate::{
    Event, FewSamples, Finding, FleetPart, HistogramLog, HistogramRecord, LimitedBy, MESSAGES, MessageFlow,
    NamedSeries, NodeSummary, PerMessage, PhaseSpan, ProcessUsage, RequestedSummary, Rss, RunReader, RunRecord,
    RunState, RunSummary, RunWriter, ScenarioSummary, SeriesName, SeriesPoint, SliceLog, SlicePoint, Throughput, Tier,
    Warning, WorkerSummary, file, read_named_series, series_of_node,
};

/// Latencies from a producer to a consumer.
pub const ACROSS: [Metric; 2] = [Metric::END_TO_END, Metric::TRANSFER];
/// A latency between two clocks is known where its median is as many bounds long.
const LEAST_BOUNDS: u64 = 5;

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
/// Functions of a node's profile in the summary.
const TOP_FUNCTIONS: usize = 20;
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

/// The most by which latencies between two clocks can be off: each with its bound, and taken out where that leaves
/// nothing of it.
pub fn judge_clocks(bound: Nanos, messages: &mut ScenarioSummary) -> Vec<Warning> {
    let is_known = |of: &LatencySummary| of.p50_ns >= bound.0.saturating_mul(LEAST_BOUNDS);
    let warning = |metric: Metric| {
        let of = messages.latency.get(metric);
        let p50_s = is_known(of).then(|| Nanos(of.p50_ns).as_secs_f64());
        let tier = if p50_s.is_some() { Tier::Note } else { Tier::Caution };
        let latency = metric.name().to_owned();
        let told = Finding::ClockBound { latency, p50_s, bound_s: bound.as_secs_f64() };
        (of.count > 0).then(|| Warning::new(tier, told))
    };
    let warnings = ACROSS.into_iter().filter_map(warning).collect();
    let shown = messages.latency.iter().filter(|(metric, of)| !ACROSS.contains(metric) || is_known(of));
    messages.latency = shown.map(|(metric, of)| (metric, of.clone())).collect();
    warnings
}

impl CollectedRun {
    /// Makes the run folder. A folder that is no worker's part of this run, a second one of a worker, and one that
    /// cannot be read are left out, and the run says so. Errors: no other one is left, or it cannot be written.
    pub fn of(dirs: &[PathBuf], options: &CollectOptions<'_>) -> Result<Self, Problem> {
        let found = Found::read(dirs, options.run);
        let first = found.parts.first().ok_or_else(|| found.nothing())?;
        let known = first.reader.record.clone();
        let mut writer = RunWriter::create(options.runs_dir, &known.name, known.origin_unix_ns)?;
        writer.set_origin(known.origin, known.origin_unix_ns);
        let clocks = Clocks::of(&found.parts);
        let sums = match Sums::of(&found.parts, known.origin, clocks, &mut writer) {
            Ok(sums) => sums,
            Err(problem) => {
                writer.discard();
                return Err(problem);
            }
        };
        let mut record = record(&found, &sums, &writer, &known, options);
        found.nodes.into_iter().for_each(|it| it.join(&mut record, &mut writer));
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
        let clean = |text: &str| text.chars().filter(|it| !it.is_control()).take(LONGEST_NAME).collect::<String>();
        (of.name, of.node) = (clean(&of.name), of.node.as_deref().map(clean));
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

    /// Refuses histograms that fit to no others, which would be found when some are written.
    fn check(&self) -> Result<(), Problem> {
        let mut interval = Interval::new();
        self.reader.histograms()?.try_for_each(|it| add(&it, &mut interval))?;
        Ok(self.reader.slices().map(drop)?)
    }

    /// Whether messages of its load go to other workers.
    fn is_spread(&self) -> bool {
        let load = self.reader.record.experiment.get("load").and_then(|it| it.as_array());
        let is_spread = |of: &serde_json::Value| of.get("place").is_some_and(|it| it == "spread");
        self.of.workers > 1 && load.is_some_and(|all| all.iter().any(is_spread))
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

/// A folder that is left out.
#[derive(Debug)]
struct SkippedFolder {
    /// The worker's name, else the folder's.
    name: String,
    /// Its number, where it is known to be the run's.
    worker: Option<u32>,
    why: String,
}

/// The folders of one run.
#[derive(Debug, Default)]
struct Found {
    /// Those of workers with a part of the load, in the order of their numbers.
    parts: Vec<WorkerPart>,
    /// Those of workers that recorded a node, likewise.
    nodes: Vec<CollectedNode>,
    left_out: Vec<SkippedFolder>,
}

impl Found {
    fn read(dirs: &[PathBuf], run: &str) -> Self {
        let mut found = Self::default();
        for dir in dirs {
            let name = || dir.file_name().unwrap_or(dir.as_os_str()).to_string_lossy().into_owned();
            match WorkerPart::read(dir, run) {
                Ok(part) => found.take(part),
                Err(problem) => {
                    found.left_out.push(SkippedFolder { name: name(), worker: None, why: problem.sentence() });
                }
            }
        }
        found.parts.sort_by_key(|it| it.of.worker);
        found.nodes.sort_by_key(|it| it.of.worker);
        let several = found.nodes.len() > 1;
        for (node, it) in (0..).zip(&mut found.nodes) {
            (it.node, it.number) = (node, several.then_some(node));
        }
        found
    }

    /// Takes a folder of the run, if it can be read and is the first one of its worker.
    fn take(&mut self, part: WorkerPart) {
        let (name, number) = (part.of.name.clone(), part.of.worker);
        let parts = self.parts.iter().map(|it| (&it.of, &it.reader));
        let mut others = parts.chain(self.nodes.iter().map(|it| (&it.of, &it.folder.reader)));
        let other = others.find(|(of, _)| of.worker == number).map(|(_, reader)| reader.dir.display().to_string());
        let taken = match other {
            Some(dir) => {
                let why = format!("{} and {dir} are of the same worker", part.reader.dir.display());
                Err(SkippedFolder { name, worker: None, why })
            }
            None if number < part.of.workers => {
                let checked =
                    part.check().map_err(|it| SkippedFolder { name, worker: Some(number), why: it.sentence() });
                checked.map(|()| self.parts.push(part))
            }
            None => CollectedNode::of(part).map(|it| self.nodes.push(it)).map_err(|it| SkippedFolder {
                name,
                worker: None,
                why: it.sentence(),
            }),
        };
        self.left_out.extend(taken.err());
    }

    /// The failure where no folder has a part of the load.
    fn nothing(&self) -> Problem {
        let why = self.left_out.first().map_or("no folder has a part of the load", |it| it.why.as_str());
        Problem::new("there is nothing to collect", why, "name the workers' folders of one run with --from")
    }

    /// CPU in the measured phase: of the broker as workers on its machines saw it, and of all workers.
    fn cores(&self) -> PerMessage {
        let of = |it: &WorkerPart| it.reader.record.summary.as_ref().map(|it| it.cpu_cores).unwrap_or_default();
        let nodes = self.nodes.iter().map(|it| it.folder.summary.cpu_cores.broker).fold(None, sum_of);
        let used = || self.parts.iter().map(of);
        PerMessage { broker: nodes.or(used().find_map(|it| it.broker)), client: used().map(|it| it.client).sum() }
    }

    /// Memory, as [`Self::cores`].
    fn memory(&self) -> Rss {
        let of = |it: &WorkerPart| it.reader.record.summary.as_ref().map(|it| it.rss_mb).unwrap_or_default();
        let nodes = self.nodes.iter().map(|it| it.folder.summary.rss_mb.broker).fold(None, sum_of);
        let used = || self.parts.iter().map(of);
        Rss { broker: nodes.or(used().find_map(|it| it.broker)), client: used().map(|it| it.client).sum() }
    }
}

/// The folder of a worker that recorded a node of the broker.
#[derive(Debug)]
pub struct NodeFolder {
    /// Its seconds and record.
    pub reader: RunReader,
    /// The record's end.
    pub summary: RunSummary,
    /// Its profiles, by line.
    pub profiles: Vec<Profile>,
    series: Vec<NamedSeries>,
}

/// Values of series from an instant on, for a length of time.
type Values = Vec<(SeriesName, f64)>;

impl NodeFolder {
    /// Reads a folder. Errors: it is none, or its recording has no end.
    pub fn read(dir: &Path) -> Result<Self, Problem> {
        Self::of(RunReader::open(dir)?)
    }

    fn of(mut reader: RunReader) -> Result<Self, Problem> {
        let dir = reader.dir.clone();
        let endless = || Problem::new("its recording has no end", dir.display(), "see what that worker printed");
        let summary = reader.record.summary.take().ok_or_else(endless)?;
        let open = |event: &String| {
            let path = dir.join(file::of_event(event, file::STACKS));
            Profile::open_with_lines(&FORMATS, &path, None).ok()
        };
        // Files are called by it.
        let is_plain = |it: &Profile| {
            let is_plain = |it: u8| it.is_ascii_alphanumeric() || b"-_:".contains(&it);
            !it.header.event.is_empty() && it.header.event.bytes().all(is_plain)
        };
        let profiles = sampled_events(&dir).iter().filter_map(open).filter(is_plain).collect();
        Ok(Self { series: read_named_series(&dir)?, reader, summary, profiles })
    }

    /// Its series with the number of the node, by instant and length.
    pub fn rows(&self, node: u32) -> BTreeMap<(Nanos, Nanos), Values> {
        let mut rows: BTreeMap<(Nanos, Nanos), Values> = BTreeMap::new();
        let mut add = |t: f64, dt: f64, name: &SeriesName, value: f64| {
            let key = (Nanos::from_secs_f64(t), Nanos::from_secs_f64(dt));
            rows.entry(key).or_default().push((name.clone(), value));
        };
        let [cpu, memory] = series_of_node(node as usize);
        for point in &self.reader.points {
            if let Some(used) = point.broker {
                add(point.t, point.dt, &cpu, used.cpu_cores);
                add(point.t + point.dt, point.dt, &memory, used.rss_bytes as f64);
            }
        }
        for series in &self.series {
            let name = series.name.clone().with("node", &node.to_string());
            series.points.iter().for_each(|it| add(it.t, it.dt, &name, it.value));
        }
        rows
    }
}

/// A node of the broker, of a run that is collected.
#[derive(Debug)]
struct CollectedNode {
    of: FleetPart,
    folder: NodeFolder,
    /// Its place among the nodes, and its number where there are several.
    node: u32,
    number: Option<u32>,
}

impl CollectedNode {
    fn of(part: WorkerPart) -> Result<Self, Problem> {
        Ok(Self { of: part.of, folder: NodeFolder::of(part.reader)?, node: 0, number: None })
    }

    /// Its Erlang node, else its command; the worker's name where nobody knows.
    fn name(&self) -> String {
        self.of.node.clone().unwrap_or_else(|| self.of.name.clone())
    }

    /// Makes it a part of the run, as where the coordinator has fetched it.
    fn join(self, record: &mut RunRecord, writer: &mut RunWriter) {
        let name = self.name();
        for ((t, length), values) in self.folder.rows(self.node) {
            writer.append_values(t.as_secs_f64(), length.as_secs_f64(), values);
        }
        let Self { folder, node, number, .. } = self;
        let event = |it: &Event| Event { t: it.t, label: format!("{name}: {}", it.label) };
        record.events.extend(folder.reader.record.events.iter().take(MOST_EVENTS).map(event));
        record.events.sort_by(|one, other| one.t.total_cmp(&other.t));
        record.events.truncate(MOST_EVENTS);
        let Some(summary) = &mut record.summary else { return };
        for mut profile in folder.profiles {
            let (origin, origin_unix_ns) = (record.origin, record.origin_unix_ns);
            profile.header = ProfileHeader { node: number, origin, origin_unix_ns, ..profile.header };
            let stacks = file::of_event(&profile.header.name(), file::STACKS);
            if let Err(error) = profile.write_stacks(&writer.dir().join(&stacks)) {
                writer.complain(&stacks, &error.to_string());
            }
            summary.profiles.push(profile.summary(TOP_FUNCTIONS));
        }
        summary.nodes.push(NodeSummary {
            node,
            cpu_cores: folder.summary.cpu_cores.broker.unwrap_or_default(),
            ran_s: None,
            rss_mb: folder.summary.rss_mb.broker.unwrap_or_default(),
            name: Some(name),
            clock_bound_s: None,
        });
    }
}

/// The clocks by which latencies from producers to consumers were taken.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Clocks {
    /// That of one machine.
    One,
    /// Two, which were no further apart.
    Two(Nanos),
    /// Two, and not every folder tells how far these were apart.
    Unbounded,
}

impl Clocks {
    fn of(parts: &[WorkerPart]) -> Self {
        if !parts.iter().any(WorkerPart::is_spread) {
            return Self::One;
        }
        let receiving = parts.iter().filter(|it| it.totals().received > 0);
        match receiving.map(|it| it.of.senders_bound).collect::<Option<Vec<Nanos>>>() {
            None => Self::Unbounded,
            Some(bounds) => match bounds.into_iter().max().unwrap_or_default() {
                Nanos::ZERO => Self::One,
                bound => Self::Two(bound),
            },
        }
    }
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
struct Sums {
    clocks: Clocks,
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
    fn of(parts: &[WorkerPart], origin: Time, clocks: Clocks, writer: &mut RunWriter) -> Result<Self, Problem> {
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
        let mut sums = Self {
            clocks,
            totals: Counters::default(),
            measured: Counters::default(),
            latencies: Recorder::default(),
            phases: Vec::new(),
            requested: 0.0,
            due: 0.0,
        };
        let mut interval = Interval::new();
        for ((phase, _), points) in &seconds {
            let point = sums.second(parts, *phase, points);
            interval.reset(origin + Nanos::from_secs_f64(point.t), *phase);
            interval.end = interval.start + Nanos::from_secs_f64(point.dt);
            interval.counters = point.counters;
            for (worker, second) in points {
                let Some(log) = logs.get_mut(*worker) else { continue };
                while let Some(record) = log.next_of(*second) {
                    if sums.is_kept(record.metric) {
                        add(&record, &mut interval)?;
                    }
                }
            }
            sums.keep(&interval, point, writer)?;
        }
        write_slices(parts, &sums, writer)?;
        Ok(sums)
    }

    /// Whether a latency is one of which somebody knows how far it may be off.
    fn is_kept(&self, metric: Metric) -> bool {
        self.clocks != Clocks::Unbounded || !ACROSS.contains(&metric)
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
    fn messages(&self, found: &Found) -> ScenarioSummary {
        let parts = &found.parts;
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
        let (used, ended) = (found.cores(), self.measured.sent.max(self.measured.received));
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
fn write_slices(parts: &[WorkerPart], sums: &Sums, writer: &mut RunWriter) -> Result<(), Problem> {
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
            slice.t = sums.moved(slice.phase, slice.t);
            slice.latency.retain(|metric, _| sums.is_kept(*metric));
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
    sum.sent = sum.sent.saturating_add(other.sent);
    sum.completed = sum.completed.saturating_add(other.completed);
    sum.received = sum.received.saturating_add(other.received);
    for (metric, count) in &other.counts {
        let all = sum.counts.entry(*metric).or_default();
        *all = all.saturating_add(*count);
    }
    for (metric, latency) in &other.latency {
        sum.latency.entry(*metric).or_default().merge(latency);
    }
    sum
}

/// Workers of the run whose folders are not there, as people number them.
fn missing(found: &Found) -> Vec<String> {
    let workers = found.parts.iter().map(|it| it.of.workers).max().unwrap_or_default();
    let is_told = |worker: u32| found.left_out.iter().any(|it| it.worker == Some(worker));
    let has = |worker: u32| is_told(worker) || found.parts.iter().any(|it| it.of.worker == worker);
    (0..workers.min(MOST_MISSING)).filter(|it| !has(*it)).map(|it| format!("{} of {workers}", it + 1)).collect()
}

/// Doubts about a run without its coordinator, and those that the workers told of their own parts: each kind once.
fn doubts(found: &Found, sums: &Sums, text: fn(&Warning) -> String) -> Vec<Warning> {
    let latencies = &sums.latencies;
    let few = |metric: Metric| {
        let of = LatencySummary::of(latencies.histogram(metric));
        let (_, percentile) = LatencySummary::PERCENTILES.iter().find(|(p, _)| !of.supports(*p))?;
        let (latency, percentile) = (metric.name().to_owned(), (*percentile).to_owned());
        (of.count > 0).then_some(FewSamples { latency, samples: of.count, percentile })
    };
    let few: Vec<FewSamples> = [Metric::ACK_RESPONSE, Metric::END_TO_END].into_iter().filter_map(few).collect();
    let few = (!few.is_empty()).then(|| Warning::new(Tier::Note, Finding::TooFewSamples { latencies: few }));
    let unbounded = ACROSS.into_iter().filter(|it| !sums.is_kept(*it)).map(|it| it.name().to_owned()).collect();
    let collected = Warning::new(Tier::Caution, Finding::Collected { unbounded });
    let mut all: Vec<Warning> = std::iter::once(collected).chain(few).collect();
    all.iter_mut().for_each(|it| it.text = text(it));
    // Of all together there are other samples, and why a part ended is told with its worker.
    let is_own = |it: &&Warning| !matches!(it.finding, Finding::TooFewSamples { .. } | Finding::Interrupted { .. });
    let mut told: Vec<(Warning, &str, usize)> = Vec::new();
    let parts = found.parts.iter().map(|it| (&it.of.name, &it.reader));
    for (name, reader) in parts.chain(found.nodes.iter().map(|it| (&it.of.name, &it.folder.reader))) {
        for warning in reader.record.warnings.iter().filter(is_own) {
            if let Some(known) = told.iter_mut().find(|it| it.0.code() == warning.code()) {
                known.2 += 1;
            } else if told.len() < MOST_TOLD {
                told.push((warning.clone(), name.as_str(), 0));
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
    found: &Found,
    sums: &Sums,
    writer: &RunWriter,
    known: &RunRecord,
    options: &CollectOptions<'_>,
) -> RunRecord {
    let early = found.parts.iter().filter(|it| !it.is_complete());
    let lost = early.map(|it| (it.of.name.clone(), it.end(), it.reason()));
    let left_out = found.left_out.iter();
    let left_out = left_out.map(|it| (it.name.clone(), 0.0, format!("its folder is left out: {}", it.why)));
    let absent = missing(found).into_iter().map(|it| (it, 0.0, "its folder could not be had".to_owned()));
    let lost: Vec<(String, f64, String)> = lost.chain(left_out).chain(absent).collect();
    let warnings = lost.iter().map(|(worker, at_s, why)| {
        let (worker, at_s, why) = (worker.clone(), *at_s, why.clone());
        let mut warning =
            Warning::new(Tier::Invalid, Finding::WorkerLost { worker, at_s, why, producers: None, consumers: None });
        warning.text = (options.text)(&warning);
        warning
    });
    let mut warnings: Vec<Warning> = warnings.chain(doubts(found, sums, options.text)).collect();
    let mut messages = sums.messages(found);
    if let Clocks::Two(bound) = sums.clocks {
        let told = judge_clocks(bound, &mut messages).into_iter();
        warnings.extend(told.map(|it| Warning { text: (options.text)(&it), ..it }));
    }
    let problem = lost.first().map(|(worker, _, why)| {
        let cause = format!("run {} ended early, without its coordinator", options.run);
        Problem::new(cause, format!("worker {worker}: {why}"), "see what ended the coordinator, and run it again")
    });
    let mut events: Vec<Event> = found.parts.iter().flat_map(events_of).collect();
    events.sort_by(|one, other| one.t.total_cmp(&other.t));
    events.truncate(MOST_EVENTS);
    let summary = RunSummary {
        schema: RunSummary::SCHEMA.to_owned(),
        run_dir: writer.dir().display().to_string(),
        broker: known.summary.as_ref().map(|it| it.broker.clone()).unwrap_or_default(),
        workers: found.parts.iter().map(WorkerPart::summary).collect(),
        cpu_cores: found.cores(),
        rss_mb: found.memory(),
        scenarios: BTreeMap::from([(MESSAGES.to_owned(), messages)]),
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
        fleet: known.fleet.clone().map(|it| FleetPart { run: it.run, workers: it.workers, ..FleetPart::default() }),
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
        let name = format!("w{}", worker + 1);
        let of = FleetPart { run: RUN.to_owned(), worker, workers: 3, name, ..FleetPart::default() };
        for &(phase, start, end) in seconds {
            let mut interval = Interval::new();
            interval.reset(origin + Nanos::from_secs_f64(start), phase);
            interval.end = origin + Nanos::from_secs_f64(end);
            (interval.counters.sent, interval.counters.received) = (sent, sent);
            interval.latencies.record_n(Metric::END_TO_END, Nanos::from_millis(2), sent);
            interval.latencies.record_n(Metric::ACK_RESPONSE, Nanos::from_millis(1 + u64::from(worker)), sent);
            let (counters, latency) = (interval.counters, interval.latencies.messages());
            let broker = Some(ProcessUsage { cpu_cores: 0.25, ..ProcessUsage::default() });
            let point =
                SeriesPoint { t: start, dt: end - start, phase, counters, latency, broker, ..SeriesPoint::default() };
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

    /// Changes what a folder says of itself.
    fn amend(dir: &Path, change: impl FnOnce(&mut RunRecord)) {
        let path = dir.join(file::RECORD);
        let mut record: RunRecord = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        change(&mut record);
        std::fs::write(&path, serde_json::to_vec(&record).unwrap()).unwrap();
    }

    /// One of them ended the whole command.
    #[test]
    fn a_folder_that_is_not_the_runs_or_cannot_be_read_is_left_out_and_told() {
        let (theirs, own) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let [good, broken, other] = [0, 1, 2].map(|worker| part(theirs.path(), worker, 1, 2.0, RunState::Complete));
        assert!(collected(&[], own.path()).is_err());
        std::fs::write(broken.join(file::RECORD), "{\"schema\": ").unwrap();
        amend(&other, |it| it.fleet.as_mut().unwrap().run = "load-19".to_owned());
        let none = collected(&[broken.clone(), other.clone()], own.path()).unwrap_err();
        assert_has(none.sentence(), ["nothing to collect", "no worker's part"]);
        assert_eq!(std::fs::read_dir(own.path()).unwrap().count(), 0);
        let away = theirs.path().join("away");
        let run = collected(&[away, broken, good.clone(), other, good], own.path()).unwrap();
        let told = run.record.warnings.iter().filter_map(|it| match &it.finding {
            Finding::WorkerLost { worker, why, .. } => Some(format!("{worker}: {why}")),
            _ => None,
        });
        let told: Vec<String> = told.collect();
        let parts = ["away: ", "no worker's part", "of run load-19", "of the same worker", "2 of 3: ", "3 of 3: "];
        for (told, part) in told.iter().zip(parts) {
            assert!(told.contains(part), "{part}: {told}");
        }
        assert_eq!((told.len(), run.record.state), (parts.len(), RunState::Failed));
        assert_eq!(run.record.summary.unwrap().flow().sent.total, 3);
        for (name, is_one) in
            [("metrics.jsonl", true), ("off-cpu.stacks", true), (".stacks", false), ("a/b.stacks", false)]
        {
            assert_eq!(is_collected(name), is_one, "{name}");
        }
    }

    #[test]
    fn nodes_that_workers_recorded_are_parts_of_the_run() {
        let (theirs, own) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let [load, first, second] = [0, 3, 4].map(|worker| part(theirs.path(), worker, 1, 2.0, RunState::Complete));
        amend(&second, |it| it.fleet.as_mut().unwrap().node = Some("rabbit@b".to_owned()));
        assert!(collected(std::slice::from_ref(&first), own.path()).is_err(), "it carried no load");
        let run = collected(&[second, load, first], own.path()).unwrap();
        let summary = run.record.summary.unwrap();
        let nodes: Vec<_> = summary.nodes.iter().map(|it| (it.node, it.name.as_deref(), it.cpu_cores)).collect();
        assert_eq!(nodes, [(0, Some("w4"), 0.5), (1, Some("rabbit@b"), 0.5)]);
        assert_eq!((summary.cpu_cores.broker, summary.workers.len()), (Some(1.0), 1));
        let series = read_named_series(&run.dir).unwrap();
        let of_nodes = series.iter().filter(|it| it.name.labels.contains_key("node"));
        assert_eq!(of_nodes.map(|it| it.points.len()).collect::<Vec<_>>(), [3; 4]);
    }

    #[test]
    fn latencies_between_two_clocks_have_the_workers_bound_or_are_left_out() {
        let (theirs, own) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let dirs = [0, 1].map(|worker| part(theirs.path(), worker, 30, 2.2, RunState::Complete));
        let bound = |us| Some(Nanos::from_micros(us));
        for (bounds, is_kept, told) in [
            ([bound(0), bound(0)], true, "Collected"),
            ([bound(10), bound(100)], true, "bound_s: 0.0001"),
            ([bound(10), bound(1_000)], false, "p50_s: None"),
            ([bound(10), None], false, "unbounded: [\"end-to-end\", \"transfer\"]"),
        ] {
            for (dir, bound) in dirs.iter().zip(bounds) {
                amend(dir, |it| {
                    it.experiment = serde_json::json!({"load": [{"place": "spread"}]});
                    it.fleet.as_mut().unwrap().senders_bound = bound;
                });
            }
            let run = collected(&dirs, own.path()).unwrap();
            assert_has(format!("{:?}", run.record.warnings), [told]);
            let in_summary = run.record.summary.unwrap().messages().latency.get(Metric::END_TO_END).count;
            let latencies = RunReader::open(&run.dir).unwrap().merged(Phase::Measure).unwrap();
            let counts = [in_summary, latencies.histogram(Metric::END_TO_END).len()];
            assert_eq!(counts.map(|it| it > 0), [is_kept; 2], "{bounds:?}");
        }
    }
}
