//! Passes the load's reports on to the archive, the observer and the sums.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use archive::{
    BrokerSummary, Event, NodeSummary, ObserverEffect, ProgramSummary, RunRecord, RunSummary, RunWriter, ScenarioPoint,
    ScenarioStart, ScenarioSummary, SeriesName, SeriesPoint, SlicePoint, Warning,
};
use linux::threads::{ThreadTimes, ThreadUse};
use linux::{CombinedCores, ProcessUse};
use load::scenario::Scenario;
use measure::{Clock, Counters, Interval, Metric, Nanos, Phase, Slice, Time};

use super::Texts;
use super::companion::{Collected, Companion, LoadEnd, Second, Unread, fault_of_node};
use super::fleet::FleetRun;
use super::interruptions::{Blocked, Contention, Silences, Telling};
use super::lasting::Lasting;
use super::observer_effect::Blocks;
use super::profiling::{LEAD, Profiling};
use super::scenarios::ScenarioContext;
use super::topology::BrokerState;
use crate::Observer;
use crate::connection_time::ConnectionCounts;
use crate::judge::Planned;
use crate::usage::{NodeUse, Reading, UsageSource, between, sum};
use brokers::{Listener, log::LogFollower, managed::Progress};
use experiment::Requirement;

/// Most events in a record; a broker that blocks and unblocks without end adds nothing.
const MOST_EVENTS: usize = 1_000;
/// Characters of an event that are kept: a broker's or another machine's words may be many.
const LONGEST_EVENT: usize = 2_000;
/// Intervals of which it is kept that others were answered: those of a day.
const MOST_ANSWERED: usize = 86_400;
/// Shorter intervals are the edge of a phase: too short for the rate of a second.
pub(crate) const WHOLE_SECOND: Nanos = Nanos::from_millis(500);
/// Usage that is read so long after the end of an interval is of another time.
const LATEST_READING: Nanos = Nanos::from_millis(1_000);
/// Usage over a shorter time is not typical of the second around it: the millisecond in which a drain ends is ours.
const SHORTEST_USAGE: Nanos = Nanos::from_millis(100);

/// Facts known before the load begins.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunContext {
    /// When the load begins; before that is known, when the run did.
    pub(crate) origin: Time,
    pub(crate) phases: load::Phases,
    /// The first is the one that requested rate, verdict and phases are about; none in a recording.
    pub(crate) scenarios: Vec<ScenarioContext>,
    pub(crate) broker: BrokerSummary,
    pub(crate) shared_machine: bool,
    /// Whether the processes of all brokers that are loaded could be found.
    pub(crate) sees_all_brokers: bool,
    pub(crate) listener: Listener,
    /// Options of sampling the broker, one set per event.
    pub(crate) profile: Vec<profile::Options>,
    /// The broker's certificate is not checked.
    pub(crate) insecure: bool,
    pub(crate) planned: Planned,
    pub(crate) requirements: Vec<Requirement>,
    /// The workers that carry the load, where it is not this process alone.
    pub(crate) fleet: Option<Arc<FleetRun>>,
    pub(crate) texts: Texts,
}

impl RunContext {
    pub(crate) fn loaded(&self) -> bool {
        !self.scenarios.is_empty()
    }

    pub(super) fn starts(&self) -> BTreeMap<String, ScenarioStart> {
        self.scenarios.iter().map(ScenarioContext::start).collect()
    }
}

/// A whole second of the measured phase.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WholeSecond {
    /// When it began, in seconds of the run, and its length.
    pub(crate) t: f64,
    pub(crate) dt: f64,
    /// Units requested of the first scenario, where it has a rate, and how many of those were begun.
    pub(crate) requested: Option<f64>,
    pub(crate) begun: u64,
    /// Messages that were sent, or operations that were completed.
    pub(crate) sent: u64,
    pub(crate) received: u64,
}

pub(crate) struct Recording<'a> {
    pub(crate) context: RunContext,
    pub(crate) record: RunRecord,
    pub(crate) writer: Option<RunWriter>,
    pub(crate) profiling: Profiling,
    pub(crate) observer: &'a mut dyn Observer,
    /// Counts of the measured phase, and the latencies of all that was due in it.
    pub(crate) measured: Interval,
    /// Measured length, gaps excluded.
    pub(crate) measured_length: Nanos,
    pub(crate) totals: Counters,
    pub(super) seen: LoadEvidence,
    pub(super) used: MeasuredUse,
    pub(super) programs: OtherPrograms,
    /// Log of each of the broker's nodes, where readable.
    pub(super) logs: Vec<LogFollower>,
    pub(super) usage: Box<dyn UsageSource>,
    pub(super) readings: Readings,
    pub(crate) started: Option<Time>,
    pub(super) tcp: TcpEvidence,
    pub(super) blocks: Blocks,
    /// Parts of the run beside its load, in the order in which they are called.
    pub(super) companions: Vec<Box<dyn Companion>>,
    /// Their sums and warnings.
    pub(super) summary: RunSummary,
    pub(super) untold: Untold,
}

/// Connections of the load, and of a proxy before the broker, as TCP counts them.
#[derive(Default)]
pub(super) struct TcpEvidence {
    pub(super) connections_before: (Time, ConnectionCounts),
    pub(super) behind_before: ConnectionCounts,
    /// TCP's statistics of our connections in the measured phase.
    pub(super) connections: Option<archive::ConnectionTime>,
    /// Shortest time that connecting took.
    pub(super) round_trip: Option<Nanos>,
    /// Shortest time in which the broker itself answered before the load began.
    pub(super) idle_answer: Option<Nanos>,
    /// The process that passes connections on to the broker: its number and its name.
    pub(super) proxy: Option<(u32, String)>,
    /// TCP's statistics of that process's own connections in the measured phase.
    pub(super) behind_proxy: Option<archive::ConnectionTime>,
    /// Time that bytes stayed in that process.
    pub(super) held_by_proxy: Option<Nanos>,
}

#[derive(Default)]
pub(super) struct MeasuredUse {
    pub(super) between: Option<(Reading, Reading)>,
    /// Largest memory of broker and client in the measured phase, bytes.
    pub(super) peak_rss: (u64, u64),
    pub(super) threads_before: ThreadTimes,
    /// Cores that broker and bellows may use together, where they run on one machine.
    pub(super) combined_cores: Option<CombinedCores>,
    pub(super) broker_threads: Option<ThreadUse>,
    /// Usage of each node of a cluster up to the beginning of the measured phase.
    pub(super) nodes_before: Option<Vec<NodeUse>>,
    /// The largest memory of each node in the measured phase, bytes.
    pub(super) node_peaks: Vec<u64>,
}

/// Observations of the load that the judge weighs.
#[derive(Default)]
pub(super) struct LoadEvidence {
    /// Time over which messages have moved since the measured phase began.
    pub(super) lasting: Lasting,
    /// Loop lag and 99th percentile of the headline latencies of each second, nanoseconds.
    pub(super) lag_and_p99: Vec<(u64, u64)>,
    pub(super) seconds: Vec<WholeSecond>,
    /// Counts of the drain.
    pub(super) drained: Counters,
    pub(super) blocked: Blocked,
    pub(super) lost_at: Vec<Time>,
    pub(super) silences: Silences,
    pub(super) contention: Contention,
    /// Intervals in which operations beside the first scenario were completed.
    pub(super) answered_beside: Vec<(Time, Time)>,
    pub(super) not_permitted: Vec<Warning>,
}

pub(super) struct Readings {
    pub(super) last: Reading,
    /// The broker's usage when it was last there: it stays used.
    pub(super) broker: Option<ProcessUse>,
    /// A reading from which on cores can be told: one before the last where that is only just past.
    pub(super) from: Reading,
}

impl Readings {
    const fn of(last: Reading) -> Self {
        Self { last, broker: last.broker, from: last }
    }
}

/// Other programs that loaded the broker, by the number of their load.
#[derive(Default)]
pub(super) struct OtherPrograms {
    pub(super) summaries: BTreeMap<usize, ProgramSummary>,
    /// When they ended by themselves, of those that did so before the drain.
    pub(super) ended: BTreeMap<usize, Time>,
}

/// Events and failures that wait to be reported.
#[derive(Default)]
pub(super) struct Untold {
    /// Failed readings that were not reported yet: a fault that explains them may be reported a moment later.
    pub(super) unread: Vec<Unread>,
    /// Events of the load's last second, in the order in which they were heard of.
    pub(super) events: Vec<Event>,
    /// The object of a wait while the load runs, and how long it has lasted.
    pub(super) waiting: Option<(String, Duration)>,
}

impl<'a> Recording<'a> {
    pub(crate) fn new(
        context: RunContext,
        record: RunRecord,
        writer: Option<RunWriter>,
        mut profiling: Profiling,
        mut usage: Box<dyn UsageSource>,
        observer: &'a mut dyn Observer,
    ) -> Self {
        if context.phases.warmup == Nanos::ZERO {
            // There is no later moment that is early enough.
            profiling.start();
        }
        let last_usage = usage.read();
        usage.activity();
        Self {
            record,
            writer,
            profiling,
            observer,
            measured: Interval::new(),
            measured_length: Nanos::ZERO,
            totals: Counters::default(),
            seen: LoadEvidence::default(),
            used: MeasuredUse::default(),
            programs: OtherPrograms::default(),
            readings: Readings::of(last_usage),
            usage,
            logs: Vec::new(),
            started: None,
            tcp: TcpEvidence::default(),
            blocks: Blocks::default(),
            companions: Vec::new(),
            summary: RunSummary::default(),
            untold: Untold::default(),
            context,
        }
    }

    /// Leaves nothing behind: the load never began.
    pub(crate) fn discard(self) {
        drop(self.profiling);
        if let Some(writer) = self.writer {
            writer.discard();
        }
    }

    pub(super) fn tell_logged(&mut self) {
        let several = self.logs.len() > 1;
        for (node, log) in self.logs.iter_mut().enumerate() {
            for line in log.lines() {
                let line = if several { format!("node {node}: {line}") } else { line };
                self.observer.progress(Progress::Logged(&line));
            }
        }
    }

    /// Runs the load, and on a thread beside it what companions finish; returns the broker's state that these read.
    pub(super) fn run(
        self,
        scenarios: &[Box<dyn Scenario>],
        control: &load::Control,
        beside: impl FnOnce() -> Option<BrokerState> + Send,
    ) -> (Self, Result<load::Outcome, load::Error>, Option<BrokerState>) {
        control.hold();
        thread::scope(|scope| {
            let beside = scope.spawn(beside);
            // Where the load panics it goes, too, and nobody waits for its companions.
            let mut recording = self;
            let outcome = load::scenario::run(scenarios, control, &mut recording);
            recording.companions.reverse();
            recording.call(|it| it.load_ended());
            recording.companions.reverse();
            // A panic there is a bug, and shows on standard error.
            (recording, outcome, beside.join().ok().flatten())
        })
    }

    pub(super) fn finish_companions(&mut self, outcome: &load::Outcome) {
        let mut companions = std::mem::take(&mut self.companions);
        for companion in &mut companions {
            let collected =
                companion.finish(&mut LoadEnd { outcome, record: &mut self.record, summary: &mut self.summary });
            self.keep(collected);
        }
        self.tell_unread();
        self.tell_events(f64::INFINITY);
    }

    fn call(&mut self, what: impl Fn(&mut dyn Companion) -> Collected) {
        let mut companions = std::mem::take(&mut self.companions);
        for companion in &mut companions {
            self.keep(what(&mut **companion));
        }
        self.companions = companions;
    }

    /// Archives values of a time; levels hold until then, and are followed by a reading within a second.
    fn append(&mut self, since: Time, length: Nanos, values: Vec<(SeriesName, f64)>) {
        let t = self.seconds_since_origin(since);
        if let Some(writer) = &mut self.writer {
            writer.append_values(t, length.as_secs_f64(), values);
        }
    }

    fn keep(&mut self, collected: Collected) {
        for killed in collected.killed {
            let levels = self.usage.killed(&killed);
            self.append(killed.at, Nanos::SECOND, levels);
        }
        for starter in collected.starters {
            let levels = self.usage.follow_starter(&starter);
            self.append(Clock.now(), Nanos::SECOND, levels);
        }
        for node in collected.returned {
            let levels = self.usage.follow_node(node.node, node.pid);
            self.append(Clock.now(), Nanos::SECOND, levels);
            let phases = &self.context.phases;
            let begin = self.context.origin + phases.warmup;
            let end = phases.measure.map(|length| begin + length);
            node.go_on(&mut self.profiling, self.context.origin, end);
        }
        for page in &collected.failed {
            self.observer.page_failed(page);
        }
        for told in &collected.told {
            self.observer.values(told);
        }
        for row in collected.rows {
            self.append(row.since, row.length, row.values);
        }
        if let Some(writer) = &mut self.writer {
            collected.calls.iter().for_each(|it| writer.append_call(it));
        }
        for (at, label) in collected.events {
            self.keep_event(at, label);
        }
        for note in collected.notes {
            self.note(&note);
        }
        self.untold.unread.extend(collected.unread);
        if let Some(faults) = collected.faults {
            self.summary.faults = faults;
        }
        self.untold.waiting = collected.waiting.or(self.untold.waiting.take());
        self.summary.warnings.extend(collected.warnings);
    }

    /// Reports failed readings, each with the run's own fault that explains it, if any.
    fn tell_unread(&mut self) {
        for unread in std::mem::take(&mut self.untold.unread) {
            let [from, until] = [unread.asked, unread.at].map(|it| self.seconds_since_origin(it));
            let faults = &self.summary.faults;
            let fault = (unread.node).and_then(|node| fault_of_node(faults, node, from, until));
            let text = match fault {
                Some(fault) => format!("{}: the run's own {}", unread.what, fault.name),
                None => unread.otherwise,
            };
            self.keep_event(unread.at, text);
        }
    }

    /// Keeps that something of a node of the broker could not be read now that the load has ended.
    pub(super) fn unread_at_end(&mut self, node: usize, what: &str, otherwise: String) {
        let now = Clock.now();
        self.untold.unread.push(Unread { asked: now, at: now, node: Some(node), what: what.to_owned(), otherwise });
        self.tell_unread();
    }

    pub(crate) fn note(&mut self, text: &str) {
        self.keep_event(Clock.now(), text.to_owned());
    }

    pub(crate) fn seconds_since_origin(&self, at: Time) -> f64 {
        at.since(self.context.origin).as_secs_f64()
    }

    /// Begins the run's time with the load. Earlier events are placed at its beginning.
    fn begin_time(&mut self, at: Time) {
        if !self.context.loaded() {
            return;
        }
        self.record.origin_unix_ns += at.since(self.context.origin).0;
        (self.context.origin, self.record.origin) = (at, at);
        let unix_ns = self.record.origin_unix_ns;
        self.profiling.count_from(at, unix_ns);
        if let Some(writer) = &mut self.writer {
            writer.set_origin(at, unix_ns);
            // The series refer to it, also of a run that is killed.
            writer.write_record(&self.record);
        }
    }

    fn keep_loss(&mut self, at: Time, detail: &str) {
        if self.seen.lost_at.len() < MOST_EVENTS {
            self.seen.lost_at.push(at);
        }
        self.keep_event(at, format!("connections reconnect: {detail}"));
    }

    pub(super) fn keep_event(&mut self, at: Time, label: String) {
        let has_begun = self.started.is_some() || !self.context.loaded();
        let t = if has_begun { self.seconds_since_origin(at) } else { 0.0 };
        let label = web::redact::text(&label).chars().take(LONGEST_EVENT).collect();
        self.untold.events.push(Event { t, label });
        if self.started.is_none() {
            self.tell_events(f64::INFINITY);
        }
    }

    /// Tells what happened until then, in seconds of the run, in the order of time: each thread is heard at its own.
    pub(super) fn tell_events(&mut self, until: f64) {
        self.untold.events.sort_by(|one, other| one.t.total_cmp(&other.t));
        let told = self.untold.events.partition_point(|it| it.t <= until);
        for event in self.untold.events.drain(..told) {
            self.observer.event(&event);
            if self.record.events.len() < MOST_EVENTS {
                self.record.events.push(event);
            }
        }
    }

    /// Each thread and each connection is read at both ends of the measured phase only: there may be thousands.
    fn look_closely(&mut self, phase: Phase) {
        match phase {
            Phase::Warmup => {}
            Phase::Measure => {
                self.used.nodes_before = Some(self.usage.nodes());
                self.used.node_peaks.clear();
                // A node may be killed before the first interval ends.
                self.keep_peaks_of_nodes();
                self.used.threads_before = self.usage.threads();
                self.tcp.connections_before = (Clock.now(), self.usage.connections());
                if let Some((proxy, _)) = self.tcp.proxy {
                    self.tcp.behind_before = self.usage.connections_behind(proxy);
                }
                self.used.combined_cores = self.usage.combined_cores(self.record.hardware.cores);
            }
            Phase::Drain => {
                self.sum_up_nodes();
                self.used.broker_threads = self.usage.threads().since(&self.used.threads_before);
                let (since, before) = &self.tcp.connections_before;
                let length = Clock.now().since(*since);
                let connections = self.usage.connections();
                self.tcp.connections = connections.since(before, length);
                if let Some((proxy, _)) = self.tcp.proxy {
                    let behind = self.usage.connections_behind(proxy);
                    let before = &self.tcp.behind_before;
                    self.tcp.behind_proxy = behind.since(before, length);
                    self.tcp.held_by_proxy = connections.held_by_proxy(&behind, before, length);
                }
                self.tcp.round_trip = connections.round_trip().into_iter().chain(self.tcp.round_trip).min();
            }
        }
    }

    fn begin_phase(&mut self, phase: Phase, at: Time) {
        let phases = &self.context.phases;
        let length = match phase {
            Phase::Warmup => Some(phases.warmup),
            Phase::Measure => phases.measure,
            Phase::Drain => Some(phases.drain),
        };
        self.tell_events(self.seconds_since_origin(at));
        self.observer.phase(phase, length);
        self.look_closely(phase);
        if phase == Phase::Drain {
            self.profiling.hold_until(at);
            self.blocks.stop();
        }
        for companion in &mut self.companions {
            companion.phase(phase, at);
        }
    }

    fn start_profile_when_due(&mut self, now: Time) {
        let warmup = self.context.phases.warmup;
        let due = self.started.is_some_and(|at| now + LEAD >= at + warmup);
        if due && self.profiling.is_waiting() {
            self.profiling.start();
        }
    }

    fn add_measured(&mut self, interval: &Interval, before: Reading, point: &SeriesPoint) {
        if self.measured_length == Nanos::ZERO {
            self.measured.reset(interval.start, Phase::Measure);
        }
        self.measured.merge_counts(interval);
        self.measured_length += interval.length();
        // One that comes late, as when a worker was waited for, was read too late: what was used since is not its own.
        if self.readings.last.at.since(interval.end) < LATEST_READING {
            let begin = self.used.between.map_or(before, |(begin, _)| begin);
            let end = Reading { broker: self.readings.broker, ..self.readings.last };
            self.used.between = Some((begin, end));
        }
        let rss = |usage: Option<archive::ProcessUsage>| usage.map_or(0, |usage| usage.rss_bytes);
        self.used.peak_rss.0 = self.used.peak_rss.0.max(rss(point.broker));
        self.used.peak_rss.1 = self.used.peak_rss.1.max(rss(point.client));
        if interval.length() >= WHOLE_SECOND {
            let counters = interval.counters;
            let operations = self.first().and_then(|first| first.operations);
            let completed = operations.map_or(0, |of| interval.counts.get(of.completed));
            self.seen.seconds.push(WholeSecond {
                t: point.t,
                dt: point.dt,
                requested: point.requested_rate.map(|rate| rate * point.dt),
                begun: self.first().map_or(0, |first| first.begun(interval).0),
                sent: counters.sent + completed,
                received: counters.received,
            });
            let headline = operations.map_or([Metric::ACK_RESPONSE, Metric::END_TO_END], |of| [of.latency; 2]);
            let p99 = headline.map(|it| measure::LatencySummary::of(interval.latencies.histogram(it)).p99_ns);
            self.seen.lag_and_p99.push((interval.loop_lag_max.0, p99.into_iter().max().unwrap_or(0)));
        }
    }

    /// The scenario that requested rate, verdict and phases are about.
    pub(crate) fn first(&self) -> Option<&ScenarioContext> {
        self.context.scenarios.first()
    }

    /// Compares achieved work with the requested; returns what was requested of the first scenario.
    fn achieve(&mut self, interval: &Interval) -> Option<f64> {
        let start = self.started.filter(|_| interval.phase != Phase::Drain)?;
        let (from, to) = (interval.start.since(start), interval.end.since(start));
        let origin = self.context.origin;
        let missing = self.missing(from, to);
        let mut all = self.context.scenarios.iter_mut().enumerate().map(|(at, scenario)| {
            let (begun, _) = scenario.begun(interval);
            let requested = scenario.requested.as_ref()?;
            let missing = if at == 0 { missing } else { 0.0 };
            let amount = (requested.messages(from, to) - missing).max(0.0);
            let (deviation, share_due) = (requested.deviation(from, to), requested.share_due(from, to));
            scenario.achieved.add(interval, origin, begun, amount, deviation, share_due);
            scenario.achieved.miss(interval, missing);
            Some(amount)
        });
        let first = all.next().flatten();
        all.for_each(drop);
        first
    }

    /// Messages or operations per second that were requested of the first scenario in a slice.
    fn requested_rate(&self, slice: &Slice) -> Option<f64> {
        let start = self.started.filter(|_| slice.phase != Phase::Drain)?;
        let requested = self.first()?.requested.as_ref()?;
        let (from, to) = (slice.start.since(start), slice.end.since(start));
        let seconds = slice.length().as_secs_f64();
        (seconds > 0.0).then(|| (requested.messages(from, to) - self.missing(from, to)).max(0.0) / seconds)
    }

    /// Messages of the first scenario that were requested of workers that are lost.
    fn missing(&self, from: Nanos, to: Nanos) -> f64 {
        self.context.fleet.as_ref().map_or(0.0, |fleet| fleet.missing(from, to))
    }

    /// Keeps that the broker answered others than the first scenario in this interval.
    fn note_beside(&mut self, interval: &Interval) {
        let mut beside = self.context.scenarios.iter().skip(1).filter_map(|it| it.operations);
        let answered = beside.any(|of| interval.counts.get(of.completed) > 0);
        if answered && self.seen.answered_beside.len() < MOST_ANSWERED {
            self.seen.answered_beside.push((interval.start, interval.end));
        }
    }

    fn point(&mut self, interval: &Interval) -> SeriesPoint {
        let from = Reading { broker: self.readings.from.broker.or(self.readings.broker), ..self.readings.from };
        let usage = between(&from, &self.readings.last);
        self.readings.broker = self.readings.last.broker.or(self.readings.broker);
        let requested = self.achieve(interval);
        let seconds = interval.length().as_secs_f64();
        SeriesPoint {
            t: self.seconds_since_origin(interval.start),
            dt: seconds,
            phase: interval.phase,
            requested_rate: requested.filter(|_| seconds > 0.0).map(|amount| amount / seconds),
            counters: interval.counters,
            latency: interval.latencies.messages(),
            loop_lag_max_ns: interval.loop_lag_max.0,
            broker: usage.broker,
            client: usage.client,
            steal: usage.steal,
            idle: usage.idle,
            waits: interval.waits,
            scenarios: ScenarioPoint::all_of(interval),
        }
    }

    /// A second and the measured phase so far without the latencies that the report is going to refuse; `None` where
    /// there are none such.
    fn known(&self, point: &SeriesPoint) -> Option<(SeriesPoint, Interval)> {
        let fleet = self.context.fleet.as_ref()?;
        known(|of| drop(fleet.judge_latencies(of)), point, &self.measured)
    }

    /// Reads usage: bellows' own is that of the workers of a fleet, too.
    fn read_usage(&mut self) -> Reading {
        let read = self.usage.read();
        let Some(fleet) = &self.context.fleet else { return read };
        Reading { client: read.client.map(|own| sum(own, fleet.used())), ..read }
    }

    fn sum_up_nodes(&mut self) {
        let now = self.usage.nodes();
        let Some(before) = self.used.nodes_before.take() else { return };
        let peaks = self.used.node_peaks.iter().copied().chain(std::iter::repeat(0));
        let nodes = now.iter().zip(&before).zip(peaks).enumerate().map(|(node, ((now, before), peak))| {
            let cpu = now.used.cpu.saturating_sub(before.used.cpu).as_secs_f64();
            let ran = now.ran.saturating_sub(before.ran);
            let was_away = ran < now.watched.saturating_sub(before.watched);
            let ran = ran.as_secs_f64();
            NodeSummary {
                node: u32::try_from(node).unwrap_or(u32::MAX),
                cpu_cores: if ran > 0.0 { cpu / ran } else { 0.0 },
                ran_s: was_away.then_some(ran),
                rss_mb: peak.max(now.used.rss_bytes) as f64 / 1e6,
                ..NodeSummary::default()
            }
        });
        self.summary.nodes = nodes.collect();
    }

    /// CPU time of each node in the measured phase, all its processes together; without a cluster the broker's.
    pub(super) fn cpu_of_nodes(&self) -> Vec<Option<Nanos>> {
        let nodes = &self.summary.nodes;
        if nodes.is_empty() {
            let used = self.used.between.and_then(|(begin, end)| {
                let (begin, end) = (begin.broker?, end.broker?);
                Some(end.cpu.saturating_sub(begin.cpu))
            });
            return vec![used];
        }
        let whole = self.measured_length.as_secs_f64();
        let cpu_s = nodes.iter().map(|it| it.cpu_cores * it.ran_s.unwrap_or(whole));
        cpu_s.map(|it| Some(Nanos((it * 1e9) as u64))).collect()
    }

    fn keep_peaks_of_nodes(&mut self) {
        let nodes = self.usage.nodes();
        self.used.node_peaks.resize(nodes.len(), 0);
        for (peak, node) in self.used.node_peaks.iter_mut().zip(&nodes) {
            *peak = node.used.rss_bytes.max(*peak);
        }
    }

    /// The cost of profiling; `None` where it was not requested, or nothing was sampled.
    pub(super) fn observer_effect(&mut self) -> Option<ObserverEffect> {
        let first = self.first();
        let operations = first.and_then(|first| first.operations);
        let paced = first.is_some_and(|first| first.requested.is_some());
        self.blocks.finish(operations, paced, self.context.origin)
    }
}

/// A second and all so far, without the latencies that `judge` takes out of a summary; `None` where it takes none.
fn known(
    judge: impl FnOnce(&mut ScenarioSummary),
    point: &SeriesPoint,
    measured: &Interval,
) -> Option<(SeriesPoint, Interval)> {
    let so_far = measured.latencies.messages();
    let latency = if so_far.filled().next().is_some() { so_far } else { point.latency.clone() };
    let mut judged = ScenarioSummary { latency: latency.clone(), ..ScenarioSummary::default() };
    judge(&mut judged);
    let refused: Vec<Metric> = latency.filled().map(|(metric, _)| metric).collect();
    let refused: Vec<Metric> = refused.into_iter().filter(|it| judged.latency.get(*it).count == 0).collect();
    if refused.is_empty() {
        return None;
    }
    let (mut point, mut measured) = (point.clone(), measured.clone());
    let shown = point.latency.iter().filter(|(metric, _)| !refused.contains(metric));
    point.latency = shown.map(|(metric, of)| (metric, of.clone())).collect();
    refused.iter().for_each(|it| measured.latencies.histogram_mut(*it).reset());
    Some((point, measured))
}

impl load::Sink for Recording<'_> {
    fn interval(&mut self, interval: &Interval) {
        self.call(|it| it.before(None));
        self.tell_unread();
        self.start_profile_when_due(interval.end);
        let read = self.read_usage();
        let before = std::mem::replace(&mut self.readings.last, read);
        if self.readings.last.at.since(before.at) >= SHORTEST_USAGE {
            self.readings.from = before;
        }
        let point = self.point(interval);
        self.totals.add(&interval.counters);
        self.note_beside(interval);
        match interval.phase {
            Phase::Warmup => {}
            Phase::Measure => {
                self.add_measured(interval, before, &point);
                if self.used.nodes_before.is_some() {
                    self.keep_peaks_of_nodes();
                }
            }
            Phase::Drain => self.seen.drained.add(&interval.counters),
        }
        let added = self.measured.latencies.add_due(Phase::Measure, interval.histograms());
        // Equal shapes always add.
        debug_assert!(added.is_ok());
        if let Some(writer) = &mut self.writer {
            writer.append_point(&point);
            if self.context.loaded() {
                writer.append_histograms(interval);
            }
        }
        if interval.length() >= SHORTEST_USAGE {
            let usage = self.usage.as_mut();
            self.seen.contention.read(interval.length(), point.idle, usage);
            let values = self.usage.activity();
            self.observer.values(&values);
            if let Some(writer) = &mut self.writer {
                let (rates, levels): (Vec<_>, Vec<_>) = (values.into_iter()).partition(|(name, _)| name.unit.is_rate());
                writer.append_values(point.t, point.dt, rates);
                // What is as it is was read at the interval's end.
                writer.append_values(point.t + point.dt, point.dt, levels);
            }
        }
        let second = Second { phase: interval.phase, before, after: self.readings.last };
        self.call(|it| it.second(&second));
        self.tell_events(self.seconds_since_origin(interval.end));
        self.observer.interval(interval);
        match self.known(&point) {
            Some((point, measured)) => self.observer.point(&point, &measured),
            None => self.observer.point(&point, &self.measured),
        }
        self.tell_logged();
        if let Some((text, waited)) = self.untold.waiting.take() {
            self.observer.waiting(&text, waited);
        }
    }

    fn slice(&mut self, slice: &Slice) {
        let operations = self.first().and_then(|first| first.operations);
        self.blocks.add(slice, operations);
        self.seen.lasting.add(slice);
        let requested = self.requested_rate(slice);
        let t = self.seconds_since_origin(slice.start);
        if let Some(writer) = &mut self.writer {
            writer.append_slice(&SlicePoint::of(slice, t, requested));
        }
    }

    fn event(&mut self, event: load::RunEvent) {
        self.call(|it| it.before(Some(&event)));
        match event {
            load::RunEvent::Connected { product, version, round_trip, answer, .. } => {
                self.connected(&product, &version);
                let tcp = &mut self.tcp;
                tcp.idle_answer = Some(tcp.idle_answer.map_or(answer, |a| a.min(answer)));
                tcp.round_trip = Some(tcp.round_trip.map_or(round_trip, |r| r.min(round_trip)));
            }
            load::RunEvent::Connecting { ready, wanted } => {
                self.observer.step(&format!("connecting: {ready} of {}", measure::counted(wanted, "client")));
            }
            load::RunEvent::Waiting { for_what, at_most } => {
                self.observer.step(&format!("waiting for {for_what}, at most {at_most}"));
            }
            load::RunEvent::NotHeard { who, lasted } => {
                self.observer.waiting(&format!("{who} is silent"), lasted.into());
            }
            load::RunEvent::Started { at } => {
                self.started = Some(at);
                self.begin_time(at);
                // What setting up took is no part of the first second.
                self.readings = Readings::of(self.read_usage());
                self.seen.contention.begin(self.usage.as_mut());
                self.usage.activity();
                self.call(|it| it.start(at));
                self.start_profile_when_due(at);
                let phases = &self.context.phases;
                self.blocks.begin(at + phases.warmup, phases.measure, &self.profiling);
            }
            load::RunEvent::PhaseStarted { phase, at } => self.begin_phase(phase, at),
            load::RunEvent::Blocked { at, reason } => {
                let text = format!("the broker blocked a connection: {reason}");
                match self.seen.blocked.note(at, &reason) {
                    Telling::Reason => self.keep_event(at, text),
                    Telling::Last => self.keep_event(at, format!("{text}; further times are only counted")),
                    Telling::Nothing => {}
                }
            }
            load::RunEvent::Unblocked { at } if self.seen.blocked.tells_unblocked() => {
                self.keep_event(at, "the broker unblocked a connection".to_owned());
            }
            load::RunEvent::Unblocked { .. } => {}
            load::RunEvent::Lost { at, detail } => self.keep_loss(at, &detail),
            load::RunEvent::Recovered { at } => self.keep_event(at, "all connections are back".to_owned()),
            // Whoever watches for the broker's return has kept them.
            load::RunEvent::FirstConfirm { .. } | load::RunEvent::BacklogGone { .. } => {}
            load::RunEvent::Silence(silence) => self.seen.silences.keep(silence),
            load::RunEvent::ProgramStarted { pid } => self.usage.generator(pid),
            load::RunEvent::ProgramEnded(program) => self.keep_program(program),
            load::RunEvent::NotPermitted { feature, instead } => self.tell_not_permitted(&feature, &instead),
            load::RunEvent::Note(text) => self.note(&text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The live table showed latencies that the report refused for the clocks of their machines.
    #[test]
    fn latencies_that_will_be_refused_are_not_observed() {
        let mut measured = Interval::new();
        let all = [Metric::ACK_RESPONSE, Metric::END_TO_END];
        let judge = |of: &mut ScenarioSummary| {
            let kept = of.latency.iter().filter(|(metric, _)| *metric != Metric::END_TO_END);
            of.latency = kept.map(|(metric, of)| (metric, of.clone())).collect();
        };
        let mut second = Interval::new();
        all.into_iter().for_each(|it| second.latencies.record(it, Nanos::from_millis(1)));
        let point = SeriesPoint { latency: second.latencies.messages(), ..SeriesPoint::default() };
        // In the warm-up there is only the second, and then what was measured so far.
        for _ in 0..2 {
            let (point, of) = known(judge, &point, &measured).expect("one is refused");
            assert_eq!(point.latency.filled().map(|(metric, _)| metric).collect::<Vec<_>>(), [Metric::ACK_RESPONSE]);
            let so_far = of.latencies.messages();
            assert!(so_far.filled().all(|(metric, _)| metric == Metric::ACK_RESPONSE), "{so_far:?}");
            assert!(known(|_| (), &point, &of).is_none());
            all.into_iter().for_each(|it| measured.latencies.record(it, Nanos::from_millis(1)));
        }
    }
}
