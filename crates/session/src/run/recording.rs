//! What the load reports, on its way into the archive, to the observer and into the sums.

use archive::{BrokerSummary, CyclePoint, Event, FaultOutcome, RunRecord, RunWriter, SeriesPoint};
use linux::CombinedCores;
use linux::threads::{ThreadTimes, ThreadUse};
use measure::{Clock, Counters, Interval, Nanos, Phase, Step, Time};

use super::Texts;
use super::blocked::{Blocked, Telling};
use super::profiling::{LEAD, Profiling};
use super::requested::Against;
use super::work::Churning;
use crate::Observer;
use crate::brokers::Listener;
use crate::connection_time::ConnectionCounts;
use crate::judge::Planned;
use crate::usage::{Reading, UsageSource, between};

/// Events that a record keeps; a broker that blocks and unblocks without end says nothing new.
const MOST_EVENTS: usize = 1_000;
/// Shorter intervals are the edge of a phase: too short for the rate of a second.
pub(crate) const WHOLE_SECOND: Nanos = Nanos::from_millis(500);

/// What is known before the load begins.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) origin: Time,
    /// What the schedules ask for; `None` where somebody sends all-out or waits for answers.
    pub(crate) requested: Option<load::Requested>,
    /// Somebody waits for answers before going on.
    pub(crate) closed_loop: bool,
    pub(crate) phases: load::Phases,
    /// Cycles are what is counted.
    pub(crate) churn: Option<Churning>,
    pub(crate) broker: BrokerSummary,
    pub(crate) shared_machine: bool,
    pub(crate) listener: Listener,
    /// How the broker is sampled, where a profile is wanted.
    pub(crate) profile: Option<profile::Options>,
    /// Whether there is a load, so that its numbers are judged.
    pub(crate) loaded: bool,
    /// The broker's certificate is not checked.
    pub(crate) insecure: bool,
    pub(crate) planned: Planned,
    pub(crate) texts: Texts,
}

/// The sink of a load.
pub(crate) struct Recording<'a> {
    pub(crate) setting: Setting,
    pub(crate) record: RunRecord,
    pub(crate) writer: Option<RunWriter>,
    pub(crate) profiling: Profiling,
    pub(crate) observer: &'a mut dyn Observer,
    /// Counts of the measured phase, and the latencies of all that was due in it.
    pub(crate) measured: Interval,
    /// Measured length, gaps excluded.
    pub(crate) measured_length: Nanos,
    pub(crate) totals: Counters,
    /// Usage at the beginning and the end of the measured phase.
    pub(crate) measured_usage: Option<(Reading, Reading)>,
    /// Largest memory of broker and client in the measured phase, bytes.
    pub(crate) peak_rss: (u64, u64),
    /// Of each second, the loop lag and the 99th percentile of the headline latencies, nanoseconds.
    pub(crate) lag_and_p99: Vec<(u64, u64)>,
    /// Messages sent, received and the length in seconds of each whole second.
    pub(crate) seconds: Vec<(u64, u64, f64)>,
    pub(crate) blocked: Blocked,
    /// Times in which event loops heard nothing or did not run.
    pub(crate) silences: Vec<load::Silence>,
    /// What was done to the broker so far.
    pub(crate) faults: Vec<FaultOutcome>,
    pub(super) usage: Box<dyn UsageSource>,
    last_usage: Reading,
    /// When the load began.
    pub(crate) started: Option<Time>,
    /// What was asked for so far.
    pub(crate) against: Against,
    threads_before: ThreadTimes,
    connections_before: (Time, ConnectionCounts),
    behind_before: ConnectionCounts,
    /// What broker and bellows may use, where they run on one machine.
    pub(crate) combined_cores: Option<CombinedCores>,
    /// What TCP says of our connections in the measured phase.
    pub(crate) connections: Option<archive::ConnectionTime>,
    /// What the broker's threads used in the measured phase.
    pub(crate) broker_threads: Option<ThreadUse>,
    /// Shortest time that connecting took.
    pub(crate) round_trip: Option<Nanos>,
    /// Shortest time in which the broker itself answered before the load began.
    pub(crate) idle_answer: Option<Nanos>,
    /// The process that passes connections on to the broker: its number and its name.
    pub(crate) proxy: Option<(u32, String)>,
    /// What TCP says of that process's own connections in the measured phase.
    pub(crate) behind_proxy: Option<archive::ConnectionTime>,
    /// How long bytes stayed in that process.
    pub(crate) held_by_proxy: Option<Nanos>,
}

impl<'a> Recording<'a> {
    pub(crate) fn new(
        setting: Setting,
        record: RunRecord,
        writer: Option<RunWriter>,
        mut profiling: Profiling,
        mut usage: Box<dyn UsageSource>,
        observer: &'a mut dyn Observer,
    ) -> Self {
        if setting.phases.warmup == Nanos::ZERO {
            // There is no later moment that is early enough.
            profiling.start();
        }
        Self {
            record,
            writer,
            profiling,
            observer,
            measured: Interval::new(),
            measured_length: Nanos::ZERO,
            totals: Counters::default(),
            measured_usage: None,
            peak_rss: (0, 0),
            lag_and_p99: Vec::new(),
            seconds: Vec::new(),
            blocked: Blocked::default(),
            silences: Vec::new(),
            faults: Vec::new(),
            last_usage: usage.read(),
            usage,
            started: None,
            against: Against::default(),
            threads_before: ThreadTimes::default(),
            connections_before: (Time(0), ConnectionCounts::default()),
            behind_before: ConnectionCounts::default(),
            combined_cores: None,
            connections: None,
            broker_threads: None,
            round_trip: None,
            idle_answer: None,
            proxy: None,
            behind_proxy: None,
            held_by_proxy: None,
            setting,
        }
    }

    /// Leaves nothing behind: the load never began.
    pub(crate) fn discard(self) {
        drop(self.profiling);
        if let Some(writer) = self.writer {
            writer.discard();
        }
    }

    /// Keeps a sentence that belongs to this moment.
    pub(crate) fn note(&mut self, text: &str) {
        self.keep_event(Clock.now(), text.to_owned());
    }

    pub(crate) fn seconds_since_origin(&self, at: Time) -> f64 {
        at.since(self.setting.origin).as_secs_f64()
    }

    pub(super) fn keep_event(&mut self, at: Time, label: String) {
        let label = crate::redact::text(&label);
        let event = Event {
            t: self.seconds_since_origin(at),
            label,
        };
        self.observer.event(&event);
        if self.record.events.len() < MOST_EVENTS {
            self.record.events.push(event);
        }
    }

    /// Each thread and each connection is read at both ends of the measured phase only: there may be
    /// thousands.
    fn look_closely(&mut self, phase: Phase) {
        match phase {
            Phase::Warmup => {}
            Phase::Measure => {
                self.threads_before = self.usage.threads();
                self.connections_before = (Clock.now(), self.usage.connections());
                if let Some((proxy, _)) = self.proxy {
                    self.behind_before = self.usage.connections_behind(proxy);
                }
                self.combined_cores = self.usage.combined_cores(self.record.hardware.cores);
            }
            Phase::Drain => {
                self.broker_threads = self.usage.threads().since(&self.threads_before);
                let (since, before) = &self.connections_before;
                let length = Clock.now().since(*since);
                let connections = self.usage.connections();
                self.connections = connections.since(before, length);
                if let Some((proxy, _)) = self.proxy {
                    let behind = self.usage.connections_behind(proxy);
                    let before = &self.behind_before;
                    self.behind_proxy = behind.since(before, length);
                    self.held_by_proxy = connections.held_by_proxy(&behind, before, length);
                }
                let shortest = connections.round_trip().into_iter().chain(self.round_trip);
                self.round_trip = shortest.min();
            }
        }
    }

    fn start_profile_when_due(&mut self, now: Time) {
        let warmup = self.setting.phases.warmup;
        let due = self.started.is_some_and(|at| now + LEAD >= at + warmup);
        if due && self.profiling.is_waiting() {
            self.profiling.start();
        }
    }

    fn connected(&mut self, product: &str, version: &str) {
        self.look_who_serves();
        if let Some((pid, name)) = self.setting.listener.proxy(product) {
            self.behind(pid, name, product);
        }
        let broker = &mut self.setting.broker;
        if broker.kind.is_empty() && !product.is_empty() {
            broker.kind = product.to_lowercase();
            broker.version = Some(version.to_owned()).filter(|version| !version.is_empty());
            self.record.versions.broker =
                Some(format!("{product} {version}").trim_end().to_owned());
        }
    }

    /// What listens on the port is not the broker: it is not watched in the broker's place.
    fn behind(&mut self, pid: u32, proxy: String, product: &str) {
        if self.proxy.is_some() {
            return;
        }
        let mut text = format!("{proxy} passes connections on to {product}");
        if self.setting.listener.given.is_none() {
            text += "; name the broker's own process (--pid, broker.pid) if it runs here";
            self.usage.leave();
            self.give_up_profile();
            self.setting.broker.pid = None;
            self.setting.shared_machine = false;
        }
        self.note(&text);
        self.proxy = Some((pid, proxy));
    }

    /// Adds a measured interval to the sums.
    fn add_measured(&mut self, interval: &Interval, before: Reading, point: &SeriesPoint) {
        if self.measured_length == Nanos::ZERO {
            self.measured.reset(interval.start, Phase::Measure);
        }
        self.measured.merge_counts(interval);
        self.measured_length += interval.length();
        let begin = self.measured_usage.map_or(before, |(begin, _)| begin);
        self.measured_usage = Some((begin, self.last_usage));
        let rss = |usage: Option<archive::ProcessUsage>| usage.map_or(0, |usage| usage.rss_bytes);
        self.peak_rss.0 = self.peak_rss.0.max(rss(point.broker));
        self.peak_rss.1 = self.peak_rss.1.max(rss(point.client));
        if interval.length() >= WHOLE_SECOND {
            let counters = interval.counters;
            let cycles = interval.cycles.map_or(0, |counts| counts.completed);
            self.seconds
                .push((counters.sent + cycles, counters.received, point.dt));
            let cycle = point
                .cycles
                .as_ref()
                .and_then(|c| c.steps.get(&Step::Cycle));
            let p99 = point
                .latency
                .ack_response
                .p99_ns
                .max(point.latency.end_to_end.p99_ns)
                .max(cycle.map_or(0, |latency| latency.p99_ns));
            self.lag_and_p99.push((interval.loop_lag_max.0, p99));
        }
    }

    /// Messages asked for in an interval, and their standard deviation where that is by chance.
    fn requested(&self, interval: &Interval) -> Option<(f64, f64)> {
        let requested = self.setting.requested.as_ref()?;
        let start = self.started.filter(|_| interval.phase != Phase::Drain)?;
        let (from, to) = (interval.start.since(start), interval.end.since(start));
        Some((requested.messages(from, to), requested.deviation(from, to)))
    }

    fn point(&mut self, interval: &Interval, before: &Reading) -> SeriesPoint {
        let usage = between(before, &self.last_usage);
        let requested = self.requested(interval);
        if let Some((messages, deviation)) = requested {
            self.against
                .add(interval, self.setting.origin, messages, deviation);
        }
        let seconds = interval.length().as_secs_f64();
        SeriesPoint {
            t: self.seconds_since_origin(interval.start),
            dt: interval.length().as_secs_f64(),
            phase: interval.phase,
            requested_rate: requested
                .filter(|_| seconds > 0.0)
                .map(|(messages, _)| messages / seconds),
            counters: interval.counters,
            latency: interval.latencies.summaries(),
            loop_lag_max_ns: interval.loop_lag_max.0,
            broker: usage.broker,
            client: usage.client,
            steal: usage.steal,
            idle: usage.idle,
            waits: interval.waits,
            cycles: CyclePoint::of(interval),
        }
    }
}

impl load::Sink for Recording<'_> {
    fn interval(&mut self, interval: &Interval) {
        self.start_profile_when_due(interval.end);
        let before = std::mem::replace(&mut self.last_usage, self.usage.read());
        let point = self.point(interval, &before);
        self.totals.add(&interval.counters);
        if interval.phase == Phase::Measure {
            self.add_measured(interval, before, &point);
        }
        let due = interval.histograms();
        let added = self.measured.latencies.add_due(Phase::Measure, due);
        // Equal shapes always add.
        debug_assert!(added.is_ok());
        if let Some(writer) = &mut self.writer {
            writer.append_point(&point);
            if self.setting.loaded {
                writer.append_histograms(interval);
            }
        }
        self.observer.interval(interval);
        self.observer.point(&point, &self.measured);
    }

    fn event(&mut self, event: load::RunEvent) {
        match event {
            load::RunEvent::Connected {
                product,
                version,
                round_trip,
                answer,
                ..
            } => {
                self.connected(&product, &version);
                self.idle_answer = Some(self.idle_answer.map_or(answer, |a| a.min(answer)));
                self.round_trip = Some(self.round_trip.map_or(round_trip, |r| r.min(round_trip)));
            }
            load::RunEvent::Connecting { ready, wanted } => {
                self.observer
                    .step(&format!("connecting: {ready} of {wanted} clients"));
            }
            load::RunEvent::Started { at } => {
                self.started = Some(at);
                // What setting up took is no part of the first second.
                self.last_usage = self.usage.read();
                self.start_profile_when_due(at);
            }
            load::RunEvent::PhaseStarted { phase, .. } => {
                let phases = &self.setting.phases;
                let length = match phase {
                    Phase::Warmup => Some(phases.warmup),
                    Phase::Measure => phases.measure,
                    Phase::Drain => Some(phases.drain),
                };
                self.observer.phase(phase, length);
                self.look_closely(phase);
            }
            load::RunEvent::Blocked { at, reason } => {
                let text = format!("the broker blocked a connection: {reason}");
                match self.blocked.note(&reason) {
                    Telling::Reason => self.keep_event(at, text),
                    Telling::Last => {
                        self.keep_event(at, format!("{text}; further times are only counted"));
                    }
                    Telling::Nothing => {}
                }
            }
            load::RunEvent::Unblocked { at } if self.blocked.tells_unblocked() => {
                self.keep_event(at, "the broker unblocked a connection".to_owned());
            }
            load::RunEvent::Unblocked { .. } => {}
            load::RunEvent::Lost { at, detail } => {
                self.keep_event(at, format!("connections are being made anew: {detail}"));
            }
            load::RunEvent::Recovered { at } => {
                self.keep_event(at, "all connections are back".to_owned());
            }
            load::RunEvent::FirstConfirm { at } => {
                let what = match self.setting.churn {
                    None => "first confirm",
                    Some(_) => "first cycle that ended in order",
                };
                self.since_fault(at, what, |fault| &mut fault.first_confirm_s);
            }
            load::RunEvent::BacklogGone { at } => {
                self.since_fault(at, "backlog gone", |fault| &mut fault.backlog_gone_s);
            }
            load::RunEvent::Silence(silence) => {
                if self.silences.len() < MOST_EVENTS {
                    self.silences.push(silence);
                }
            }
            load::RunEvent::Note(text) => self.note(&text),
        }
    }
}
