//! Figures of a summary by the names that people write, for requirements, repeated runs and comparisons.

use std::fmt;
use std::str::FromStr;

use measure::{LatencySummary, Recorder, Refused, ScenarioRole, Summaries};

use crate::{
    Cause, Finding, MessageFlow, ProcessUsage, QuantityUnit, RequirementOutcome, RunSummary, ScenarioSummary,
    SeriesPoint, Throughput, Warning, WarningCode,
};

/// A figure of a summary: a statistic of a latency, or one of a table's.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantity(Which);

#[derive(Clone, Debug, PartialEq)]
enum Which {
    /// A statistic of a latency, by the metric's name as people write it.
    Latency(String, Statistic),
    /// One of [`FIGURES`], by its index.
    Figure(usize),
    /// A figure of the requests of one probe, by its name; those that failed also of a scraped page.
    Requests(String, RequestFigure),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Statistic {
    Mean,
    Percentile(f64),
    Max,
}

measure::named! {
    /// A figure of the requests of a probe; its name stands behind that of a probe or a page.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum RequestFigure {
        Rate = "requests rate",
        Achieved = "requests achieved",
        /// Also of a scraped page.
        Failed = "failed",
    }
}

impl RequestFigure {
    /// Its name where no probe is named: that of one of [`FIGURES`].
    const fn of_all(self) -> &'static str {
        match self {
            Self::Failed => "requests failed",
            other => other.name(),
        }
    }

    const fn unit(self) -> QuantityUnit {
        match self {
            Self::Rate => QuantityUnit::PerSecond,
            Self::Achieved => QuantityUnit::Share,
            Self::Failed => QuantityUnit::Count,
        }
    }

    fn of(self, of: &Requested<'_>) -> Observed {
        match (self, of.probe) {
            (Self::Failed, _) => Ok(of.failed as f64),
            (Self::Rate, Some(probe)) => Ok(probe.rate),
            (Self::Achieved, Some(probe)) => achieved(probe),
            (_, None) => Err(NO_SUCH_REQUESTS),
        }
    }

    /// The worst of all probes, each of which has to do, and that probe's name.
    fn worst(self, summary: &RunSummary) -> Result<(f64, String), &'static str> {
        let probes = requested(summary).into_iter().filter(|it| it.probe.is_some());
        let all = probes.map(|it| self.of(&it).map(|value| (value, it.name)));
        let worst = all.reduce(|one, other| {
            let (one, other) = (one?, other?);
            let is_worse = if self == Self::Failed { other.0 > one.0 } else { other.0 < one.0 };
            Ok(if is_worse { other } else { one })
        });
        worst.unwrap_or(Err("there was no probe"))
    }

    fn of_worst(self, summary: &RunSummary) -> Observed {
        self.worst(summary).map(|(value, _)| value)
    }
}

/// The most digits of a percentile, its point among them: numbers of samples distinguish no more.
const PERCENTILE_DIGITS: usize = 6;

impl Statistic {
    /// Reads `mean`, `max`, `p99` or `p99.9`.
    fn read(name: &str) -> Option<Self> {
        match name {
            "mean" => Some(Self::Mean),
            "max" => Some(Self::Max),
            _ => {
                let digits = name.strip_prefix('p')?;
                let is_plain = digits.len() <= PERCENTILE_DIGITS
                    && digits.starts_with(|c: char| c.is_ascii_digit())
                    && digits.bytes().all(|b| b.is_ascii_digit() || b == b'.');
                let percentile: f64 = digits.parse().ok().filter(|_| is_plain)?;
                (percentile > 0.0 && percentile < 100.0).then_some(Self::Percentile(percentile))
            }
        }
    }
}

impl fmt::Display for Statistic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mean => f.write_str("mean"),
            Self::Max => f.write_str("max"),
            Self::Percentile(percentile) => write!(f, "p{percentile}"),
        }
    }
}

/// A value, or why it cannot be told.
type Observed = Result<f64, &'static str>;

/// A figure of the summary other than a latency.
struct Figure {
    name: &'static str,
    unit: QuantityUnit,
    of: fn(&RunSummary) -> Observed,
    /// Its value in one second of a run, where it has one.
    in_second: Option<fn(&SeriesPoint) -> Observed>,
}

const fn figure(name: &'static str, unit: QuantityUnit, of: fn(&RunSummary) -> Observed) -> Figure {
    Figure { name, unit, of, in_second: None }
}

impl Figure {
    const fn in_second(self, of: fn(&SeriesPoint) -> Observed) -> Self {
        Self { in_second: Some(of), ..self }
    }
}

const NOT_REQUESTED: &str = "no rate was requested";
const NO_CPU: &str = "CPU per message was not measured";
const NO_CORES: &str = "the broker's CPU was not measured";
const NO_MEMORY: &str = "the memory was not measured";
const NO_CONSUMERS: &str = "the run had no consumers";
const NO_FLOW: &str = "bellows itself sent and received no messages";
const NO_OPERATIONS: &str = "there was no churn";
const NO_SUCH_REQUESTS: &str = "there was no probe or page of this name";
const OF_WHOLE_RUN: &str = "it is known for the whole run only";

const BROKER_MEMORY: &str = "broker memory";
/// Names of usage where the loaded server need not be a broker.
const SERVER_CORES: &str = "server cores";
const SERVER_MEMORY: &str = "server memory";

/// Figures of messages that a broker should not have.
const HARM: [&str; 6] = ["lost", "duplicated", "reordered", "corrupt", "returned", "refused"];

/// Rates of messages, which a run without messages of its own has not: its seconds count none.
const RATES: [&str; 3] = ["sent rate", "completed rate", RECEIVED];
const RECEIVED: &str = "received rate";

fn harmed(summary: &RunSummary) -> impl Iterator<Item = Quantity> + '_ {
    let is_harmed = move |it: &Figure| HARM.contains(&it.name) && (it.of)(summary).is_ok_and(|count| count > 0.0);
    (0..).zip(&FIGURES).filter(move |(_, it)| is_harmed(it)).map(|(index, _)| Quantity(Which::Figure(index)))
}

/// Whether less was sent than was requested, or less came out than that.
fn is_rate_missed(summary: &RunSummary) -> bool {
    let cause = summary.verdict.as_ref().and_then(|it| it.cause.as_ref());
    matches!(cause, Some(Cause::ConsumersBehind { .. } | Cause::ConsumersSlow))
        || summary.warnings.iter().any(|it: &Warning| it.code() == WarningCode::RateNotAchieved)
}

fn ledger(summary: &RunSummary, count: fn(&measure::ledger::LedgerSummary) -> u64) -> Observed {
    match &summary.flow().ledger {
        None => Err("no ledger was kept"),
        Some(ledger) if !ledger.exact => Err("the ledger's counts are not exact"),
        Some(ledger) if ledger.sent == 0 => Err("the ledger followed no message"),
        Some(ledger) => Ok(count(ledger) as f64),
    }
}

/// A rate of messages. Of those that programs send nobody knows it.
fn message_rate(summary: &RunSummary, of: fn(&MessageFlow) -> Throughput) -> Observed {
    summary.messages().flow.as_ref().map(|flow| of(flow).rate).ok_or(NO_FLOW)
}

/// The rate of deliveries, which a load without consumers has not.
fn received_rate(summary: &RunSummary) -> Observed {
    match summary.messages().flow {
        Some(flow) if flow.without_consumers => Err(NO_CONSUMERS),
        _ => message_rate(summary, |flow| flow.received),
    }
}

/// A figure of churn, of which a run has one at most.
fn of_churn(summary: &RunSummary, of: fn(&ScenarioSummary) -> Observed) -> Observed {
    summary.others().find(|(_, it)| it.role == ScenarioRole::Broker).map_or(Err(NO_OPERATIONS), |(_, it)| of(it))
}

/// Share of its requested operations that a scenario began.
fn achieved(of: &ScenarioSummary) -> Observed {
    of.requested.as_ref().and_then(|it| it.achieved).ok_or(NOT_REQUESTED)
}

/// Count of a second, divided by its measured length.
fn rate(point: &SeriesPoint, count: u64) -> Observed {
    if point.dt > 0.0 { Ok(count as f64 / point.dt) } else { Err("its second has no length") }
}

fn memory(used: Option<ProcessUsage>) -> Observed {
    used.filter(|used| used.rss_bytes > 0).map(|used| used.rss_bytes as f64).ok_or(NO_MEMORY)
}

fn memory_of_loaded(summary: &RunSummary) -> Observed {
    summary.rss_mb.broker.map(|mb| mb * 1e6).ok_or(NO_MEMORY)
}

fn cores(summary: &RunSummary) -> Observed {
    summary.cpu_cores.broker.ok_or(NO_CORES)
}

fn cores_in_second(point: &SeriesPoint) -> Observed {
    point.broker.map(|it| it.cpu_cores).ok_or(NO_CORES)
}

/// Names of CPU per time and memory, those of what is loaded first and then those of the other kind of system.
const fn usage_names(loaded: ScenarioRole) -> [[&'static str; 2]; 2] {
    let [broker, server] = [[Quantity::CORES, BROKER_MEMORY], [SERVER_CORES, SERVER_MEMORY]];
    match loaded {
        ScenarioRole::Server => [server, broker],
        ScenarioRole::Broker | ScenarioRole::Watcher => [broker, server],
    }
}

/// Everything but latencies that can be required.
static FIGURES: [Figure; 26] = [
    figure("sent rate", QuantityUnit::PerSecond, |s| message_rate(s, |flow| flow.sent))
        .in_second(|p| rate(p, p.counters.sent)),
    figure("completed rate", QuantityUnit::PerSecond, |s| message_rate(s, |flow| flow.completed))
        .in_second(|p| rate(p, p.counters.completed)),
    figure(RECEIVED, QuantityUnit::PerSecond, received_rate).in_second(|p| rate(p, p.counters.received)),
    figure("achieved", QuantityUnit::Share, |s| s.requested().and_then(|r| r.achieved).ok_or(NOT_REQUESTED)),
    figure("late share", QuantityUnit::Share, |s| {
        // Messages requested and not sent are later than any.
        let requested = s.requested().ok_or(NOT_REQUESTED)?;
        let sent = requested.achieved.ok_or(NOT_REQUESTED)?.min(1.0);
        Ok(1.0 - sent * (1.0 - requested.late_share))
    }),
    figure("lost", QuantityUnit::Count, |s| ledger(s, |l| l.lost)),
    figure("outstanding", QuantityUnit::Count, |s| ledger(s, |l| l.outstanding)),
    figure("duplicated", QuantityUnit::Count, |s| ledger(s, |l| l.duplicated)),
    figure("reordered", QuantityUnit::Count, |s| ledger(s, |l| l.reordered)),
    figure("corrupt", QuantityUnit::Count, |s| ledger(s, |l| l.corrupt)),
    figure("returned", QuantityUnit::Count, |s| ledger(s, |l| l.returned)),
    figure("refused", QuantityUnit::Count, |s| {
        let nacked = s.warnings.iter().find_map(|it| match it.finding {
            Finding::MessagesNotAccepted { nacked, .. } => Some(nacked),
            _ => None,
        });
        (s.flow().sent.total > 0).then_some(nacked.unwrap_or(0) as f64).ok_or("no message was sent")
    }),
    figure("broker cpu", QuantityUnit::Ns, |s| s.messages().cpu_us_each.broker.map(|us| us * 1e3).ok_or(NO_CPU))
        .in_second(|p| {
            let messages = p.counters.sent.max(p.counters.received);
            let is_alone = p.scenarios().all(|(name, _)| ScenarioRole::of(name) == ScenarioRole::Watcher);
            let broker = p.broker.filter(|_| messages > 0 && is_alone).ok_or(NO_CPU)?;
            Ok(broker.cpu_cores * p.dt * 1e9 / messages as f64)
        }),
    figure(Quantity::CORES, QuantityUnit::Cores, cores).in_second(cores_in_second),
    figure(SERVER_CORES, QuantityUnit::Cores, cores).in_second(cores_in_second),
    figure("bellows cpu", QuantityUnit::Ns, |s| s.messages().cpu_us_each.client.map(|us| us * 1e3).ok_or(NO_CPU)),
    figure(BROKER_MEMORY, QuantityUnit::Bytes, memory_of_loaded).in_second(|p| memory(p.broker)),
    figure(SERVER_MEMORY, QuantityUnit::Bytes, memory_of_loaded).in_second(|p| memory(p.broker)),
    figure("bellows memory", QuantityUnit::Bytes, |s| s.rss_mb.client.map(|mb| mb * 1e6).ok_or(NO_MEMORY))
        .in_second(|p| memory(p.client)),
    figure("stalls", QuantityUnit::Count, |s| Ok(s.stalls.len() as f64)),
    figure("longest stall", QuantityUnit::Ns, |s| {
        Ok(s.stalls.iter().map(|stall| stall.for_s * 1e9).fold(0.0, f64::max))
    }),
    figure("cycles rate", QuantityUnit::PerSecond, |s| of_churn(s, |of| Ok(of.rate))),
    figure("cycles achieved", QuantityUnit::Share, |s| of_churn(s, achieved)),
    figure("requests rate", QuantityUnit::PerSecond, |s| RequestFigure::Rate.of_worst(s)),
    figure("requests achieved", QuantityUnit::Share, |s| RequestFigure::Achieved.of_worst(s)),
    figure("requests failed", QuantityUnit::Count, |s| RequestFigure::Failed.of_worst(s)),
];

impl Quantity {
    /// The broker's CPU per time, which stands for that per message where messages cannot be counted.
    pub const CORES: &'static str = "broker cores";

    /// Whether a figure of this name is CPU per time of what is loaded.
    pub fn is_cores(name: &str) -> bool {
        [Self::CORES, SERVER_CORES].contains(&name)
    }

    /// Whether a figure of this name counts messages that came to harm: lost, refused and so on.
    pub fn is_harm(name: &str) -> bool {
        HARM.contains(&name)
    }

    /// Every figure that a run has, with its value: those of the table, of each probe, and of each latency.
    pub fn of_run(summary: &RunSummary) -> Vec<(Self, f64)> {
        let [_, others] = usage_names(summary.loaded());
        let figures = (0..).zip(&FIGURES).filter(|(_, it)| !others.contains(&it.name));
        let figures = figures.map(|(index, _)| Self(Which::Figure(index)));
        let probes = requested(summary).into_iter().flat_map(|it| {
            RequestFigure::ALL.into_iter().map(move |which| Self(Which::Requests(it.name.clone(), which)))
        });
        let percentiles = LatencySummary::PERCENTILES.map(|(wanted, _)| Statistic::Percentile(wanted));
        let statistics = [&[Statistic::Mean][..], &percentiles, &[Statistic::Max]].concat();
        let latencies = latencies(summary).into_iter().flat_map(|metric| {
            let of = |statistic: &Statistic| Self(Which::Latency(metric.clone(), *statistic));
            statistics.iter().map(of).collect::<Vec<_>>()
        });
        let all = figures.chain(probes).chain(latencies);
        all.filter_map(|it| it.of(summary).ok().map(|value| (it, value))).collect()
    }

    /// Headline figures of a run, in their order: rates, the middle and the tail of each latency, cost, loss.
    pub fn headline(summary: &RunSummary) -> Vec<Self> {
        let named = |name: &str| Some(Self(Which::Figure(FIGURES.iter().position(|it| it.name == name)?)));
        let with_messages = summary.has_messages();
        let rates = RATES.into_iter().filter(|_| with_messages);
        let operations = summary.others().find_map(|(_, of)| match of.role {
            ScenarioRole::Server => Some("requests rate"),
            ScenarioRole::Broker => Some("cycles rate"),
            ScenarioRole::Watcher => None,
        });
        let latencies = latencies(summary).into_iter().flat_map(|metric| {
            [50.0, 99.0].map(|wanted| Self(Which::Latency(metric.clone(), Statistic::Percentile(wanted))))
        });
        // Of what was not done message by message, or not only so, the time is all that CPU can be told of.
        let is_each = summary.messages().cpu_us_each.broker.is_some();
        let [[cores, memory], _] = usage_names(summary.loaded());
        let broker = if is_each { "broker cpu" } else { cores };
        let cost = [broker, "bellows cpu", memory, "bellows memory"];
        let account = ["lost", "outstanding", "duplicated", "reordered", "stalls"];
        let all = rates.chain(operations).filter_map(named).chain(latencies);
        let all = all.chain(cost.into_iter().chain(account).filter_map(named));
        all.filter(|quantity| quantity.of(summary).is_ok_and(|value| value > 0.0)).collect()
    }

    /// Figures that are decided where two sides are compared: few, because each further question makes all answers
    /// harder. A rate, where none was requested or the requested one is missed; middle and tail of users' latencies,
    /// and of the time of scraped pages; the broker's CPU; failed requests and harm to messages, where there are any.
    pub fn decided(summary: &RunSummary) -> Vec<Self> {
        const NOT_OF_USERS: [&str; 3] = ["send ack", "transfer", "send delay"];
        // Of what a probe is called, these are parts: users wait for its response.
        const PARTS: [&str; 6] = [" from send", " wait", " first byte", " body", " connect", " secure"];
        // Likewise of a probe without a name; other latencies called "connect" are whole ones.
        const OF_ONE: [&str; 4] = ["from send", "wait", "first byte", "body"];
        let mut all = Self::headline(summary);
        let has = |name: &str| all.iter().any(|it| it.name() == name);
        // The rate at which messages come out stands for those before it.
        let messages = RATES.into_iter().rev().find(|name| has(name));
        let is_missed = is_rate_missed(summary);
        let rate = messages.filter(|_| summary.requested().is_none() || is_missed);
        let are_paced = summary.others().any(|(_, of)| of.requested.is_some());
        let is_alone = summary.others().all(|(_, of)| of.role == ScenarioRole::Watcher);
        all.retain(|it| match (it.latency().as_deref(), it.name().as_str()) {
            (Some(of), _) => {
                let is_part = PARTS.iter().any(|it| of.ends_with(it));
                !NOT_OF_USERS.contains(&of) && !is_part && !OF_ONE.contains(&of)
            }
            (None, "broker cpu" | BROKER_MEMORY | SERVER_MEMORY) => true,
            // With operations that nobody paced it says how many there were, which is a figure of its own.
            (None, Self::CORES | SERVER_CORES) => is_alone || are_paced,
            (None, "cycles rate") => !are_paced || is_missed,
            (None, name) => Some(name) == rate,
        });
        for of in requested(summary) {
            all.extend(Self::tail(&of));
            let failed = Which::Requests(of.name, RequestFigure::Failed);
            all.extend((of.failed > 0).then_some(Self(failed)));
        }
        all.extend(harmed(summary));
        all
    }

    /// The longest of requests that are too few for their 99th percentile, as those of pages mostly are.
    fn tail(of: &Requested<'_>) -> Option<Self> {
        of.response.filter(|it| it.count > 0 && !it.supports(99.0))?;
        Some(Self(Which::Latency(of.metric.clone(), Statistic::Max)))
    }

    /// Whether it is compared in place of `other` where each run has one: a latency's maximum for its 99th percentile,
    /// which few samples lack; the broker's CPU per message for its cores, which a run without messages has alone.
    pub fn stands_for(&self, other: &Self) -> bool {
        if other.name() == Self::CORES {
            return self.name() == "broker cpu";
        }
        match (&self.0, &other.0) {
            (Which::Latency(a, Statistic::Max), Which::Latency(b, Statistic::Percentile(_))) => {
                plain_name(a) == plain_name(b) && other.name().ends_with(" p99")
            }
            _ => false,
        }
    }

    /// Whether it is a rate.
    pub fn is_rate(&self) -> bool {
        self.unit() == QuantityUnit::PerSecond
    }

    /// Whether it counts failures: 0 is a value like any other.
    pub fn counts_failures(&self) -> bool {
        match &self.0 {
            Which::Requests(_, which) => *which == RequestFigure::Failed,
            Which::Figure(index) => FIGURES
                .get(*index)
                .is_some_and(|it| Self::is_harm(it.name) || it.name == RequestFigure::Failed.of_all()),
            Which::Latency(..) => false,
        }
    }

    /// Whether more of it is better: of rates it is.
    pub fn more_is_better(&self) -> bool {
        matches!(self.unit(), QuantityUnit::PerSecond)
    }

    /// Its name, which reads back as the same quantity.
    pub fn name(&self) -> String {
        match &self.0 {
            Which::Figure(index) => FIGURES.get(*index).map_or("", |figure| figure.name).to_owned(),
            Which::Latency(metric, statistic) => format!("{metric} {statistic}"),
            Which::Requests(of, which) => format!("{of} {}", which.name()),
        }
    }

    /// Unit of its value.
    pub fn unit(&self) -> QuantityUnit {
        match &self.0 {
            Which::Latency(..) => QuantityUnit::Ns,
            Which::Requests(_, which) => which.unit(),
            Which::Figure(index) => FIGURES.get(*index).map_or_else(Default::default, |f| f.unit),
        }
    }

    /// The latency that it is a statistic of, by [`plain_name`].
    pub fn latency(&self) -> Option<String> {
        match &self.0 {
            Which::Latency(metric, _) => Some(plain_name(metric)),
            Which::Figure(_) | Which::Requests(..) => None,
        }
    }

    /// The probe that it names, by [`plain_name`]; `None` of failures, which scraped pages have, too.
    pub fn probe(&self) -> Option<String> {
        match &self.0 {
            Which::Requests(of, RequestFigure::Rate | RequestFigure::Achieved) => Some(plain_name(of)),
            _ => None,
        }
    }

    /// The probe whose value it has in a run, where there are several and it names none.
    pub fn decided_by(&self, summary: &RunSummary) -> Option<String> {
        let name = self.name();
        let figure = RequestFigure::ALL.into_iter().find(|it| it.of_all() == name)?;
        let (_, probe) = figure.worst(summary).ok()?;
        (requested(summary).iter().filter(|it| it.probe.is_some()).count() > 1).then_some(probe)
    }

    /// Its value in a run; of percentiles, those that a summary holds. An error says why it cannot be told.
    pub fn of(&self, summary: &RunSummary) -> Result<f64, &'static str> {
        self.in_run(summary, &Recorder::new())
    }

    /// Its value in a run; every percentile from the recorded histograms. An error says why it cannot be told.
    pub fn in_run(&self, summary: &RunSummary, recorded: &Recorder) -> Result<f64, &'static str> {
        match &self.0 {
            Which::Latency(metric, statistic) => {
                let wanted = plain_name(metric);
                let mut pages = requested(summary).into_iter().filter(|it| it.probe.is_none());
                let page = pages.find(|it| plain_name(&it.metric) == wanted);
                if let Some(response) = page.and_then(|it| it.response) {
                    return of_page(response, *statistic);
                }
                let all = summary.scenarios().map(|(_, of)| &of.latency);
                latency(all, recorded, &wanted, *statistic)
            }
            Which::Requests(of, which) => {
                let (all, of) = (requested(summary), plain_name(of));
                let called = |name: &str| all.iter().find(|it| plain_name(&it.name) == name);
                let found = called(&of).or_else(|| called(of.strip_suffix(" requests")?));
                found.map_or(Err(NO_SUCH_REQUESTS), |it| which.of(it))
            }
            Which::Figure(index) => FIGURES.get(*index).map_or(Err("unknown"), |figure| (figure.of)(summary)),
        }
    }

    /// The shortest time, and that which the ten longest took at least, nanoseconds, where it is a percentile of a
    /// latency with fewer than ten samples beyond it: it lies below neither. `None` of other quantities, and where no
    /// time was kept; with fewer than ten samples the second is the first.
    pub fn least(&self, summary: &RunSummary, recorded: &Recorder) -> Option<(f64, f64)> {
        let Which::Latency(metric, Statistic::Percentile(wanted)) = &self.0 else { return None };
        let name = plain_name(metric);
        let mut pages = requested(summary).into_iter().filter(|it| it.probe.is_none());
        let page = pages.find(|it| plain_name(&it.metric) == name).and_then(|it| it.response);
        let mut all = summary.scenarios().flat_map(|(_, of)| of.latency.filled());
        let (of, found) = match page {
            Some(page) => (None, page),
            None => all.find(|(of, _)| plain_name(of.name()) == name).map(|(of, it)| (Some(of), it))?,
        };
        let percentiles = LatencySummary::PERCENTILES.iter().zip(found.percentile_values());
        let below = percentiles.filter(|((of, _), _)| of < wanted && found.supports(*of)).map(|(_, value)| value);
        let tenth = of.map(|of| recorded.histogram(of)).filter(|it| it.len() > TAIL && !found.supports(*wanted));
        let tenth = tenth.map(|it| it.value_at_quantile(1.0 - TAIL as f64 / it.len() as f64).min(it.max()));
        let most = below.chain(tenth).fold(found.min_ns, u64::max);
        (found.min_ns > 0).then_some((found.min_ns as f64, most as f64))
    }

    /// Its value in one second of a run, with the second's histograms. Whether the run had messages of its own, and
    /// consumers, tells a rate of 0 from none. An error says why it cannot be told.
    pub fn in_second(
        &self,
        point: &SeriesPoint,
        recorded: &Recorder,
        has_messages: bool,
        has_consumers: bool,
    ) -> Result<f64, &'static str> {
        match &self.0 {
            Which::Latency(metric, statistic) => latency(point.latencies(), recorded, &plain_name(metric), *statistic),
            Which::Requests(..) => Err(OF_WHOLE_RUN),
            Which::Figure(index) => match FIGURES.get(*index) {
                Some(figure) if !has_messages && RATES.contains(&figure.name) => Err(NO_FLOW),
                Some(figure) if !has_consumers && figure.name == RECEIVED => Err(NO_CONSUMERS),
                figure => figure.and_then(|figure| figure.in_second).map_or(Err(OF_WHOLE_RUN), |of| of(point)),
            },
        }
    }
}

impl FromStr for Quantity {
    type Err = Refused;

    fn from_str(text: &str) -> Result<Self, Refused> {
        let name = plain_name(text);
        if let Some(index) = FIGURES.iter().position(|figure| figure.name == name) {
            return Ok(Self(Which::Figure(index)));
        }
        let of_one = RequestFigure::ALL.into_iter().find_map(|which| {
            let of = name.strip_suffix(which.name())?.strip_suffix(' ')?;
            Some(Self(Which::Requests(of.to_owned(), which)))
        });
        let latency = || {
            let (metric, last) = name.rsplit_once(' ')?;
            Some(Self(Which::Latency(metric.to_owned(), Statistic::read(last)?)))
        };
        of_one.or_else(latency).ok_or_else(|| {
            let figures = FIGURES.each_ref().map(|figure| figure.name).join(", ");
            Refused::new(
                format!("{name:?} is not a quantity"),
                format!(
                    "it takes a latency (end-to-end, ack response, response, …) with mean, max or a percentile, as \
                     end-to-end p99 or ack response p99.9, or one of: {figures}"
                ),
            )
        })
    }
}

impl RequirementOutcome {
    /// The latency that it is about, by [`plain_name`]; `None` of other quantities.
    pub fn latency(&self) -> Option<String> {
        let quantity = self.that.split(['<', '>', '=', '!']).next()?;
        quantity.parse::<Quantity>().ok()?.latency()
    }
}

/// Name of a metric for comparisons: `end-to-end`, `end_to_end` and `End to end` are one.
pub fn plain_name(name: &str) -> String {
    let words = name.split(|c: char| c.is_whitespace() || c == '-' || c == '_');
    words.filter(|word| !word.is_empty()).map(str::to_lowercase).collect::<Vec<_>>().join(" ")
}

/// A statistic of the time of a page, of which a summary is all that is kept.
fn of_page(response: &LatencySummary, statistic: Statistic) -> Observed {
    if response.count == 0 {
        return Err("no page came");
    }
    let value = match statistic {
        Statistic::Mean => response.mean_ns,
        Statistic::Max => response.max_ns,
        // The middle of a few pages is a value as good as any: what it is worth, other runs tell.
        Statistic::Percentile(wanted) if wanted > 50.0 && !response.supports(wanted) => {
            return Err(RequirementOutcome::TOO_FEW);
        }
        Statistic::Percentile(wanted) => known(response, wanted).ok_or(NOT_KEPT)?,
    };
    Ok(value as f64)
}

/// Samples beyond a percentile that make it say something.
const TAIL: u64 = 10;

const NOT_KEPT: &str = "the summary has no such percentile";

/// A percentile that a summary holds, nanoseconds.
fn known(of: &LatencySummary, wanted: f64) -> Option<u64> {
    let mut known = LatencySummary::PERCENTILES.iter().zip(of.percentile_values());
    known.find(|((percentile, _), _)| *percentile == wanted).map(|(_, value)| value)
}

fn latency<'a>(
    all: impl Iterator<Item = &'a Summaries>,
    recorded: &Recorder,
    metric: &str,
    statistic: Statistic,
) -> Observed {
    const NOTHING: &str = "nothing was recorded for it";
    let (of, found) = all.flat_map(Summaries::filled).find(|(of, _)| plain_name(of.name()) == metric).ok_or(NOTHING)?;
    let value = match statistic {
        Statistic::Mean => found.mean_ns,
        Statistic::Max => found.max_ns,
        Statistic::Percentile(wanted) if !found.supports(wanted) => return Err(RequirementOutcome::TOO_FEW),
        Statistic::Percentile(wanted) => {
            let histogram = recorded.histogram(of);
            match known(found, wanted) {
                Some(value) => value,
                None if histogram.is_empty() => return Err(NOT_KEPT),
                None => histogram.value_at_percentile(wanted).min(histogram.max()),
            }
        }
    };
    Ok(value as f64)
}

/// The latencies that a run has, by name; those of scraped pages last.
fn latencies(summary: &RunSummary) -> Vec<String> {
    let latencies = summary.scenarios().flat_map(|(_, of)| of.latency.filled());
    let latencies = latencies.map(|(of, _)| of.name().to_owned());
    let pages = requested(summary).into_iter().filter(|it| it.probe.is_none()).map(|it| it.metric);
    latencies.chain(pages).collect()
}

/// Scenario prefix of named probes.
const PROBE: &str = "probe_";
/// Latency of a probe's whole request.
const RESPONSE: &str = "response";

/// A probe's name, by that of its scenario.
pub fn probe_name(scenario: &str) -> String {
    match scenario.strip_prefix(PROBE) {
        Some(own) => own.replace('_', "-"),
        None => scenario.to_owned(),
    }
}

/// Requests of one probe, or for one page.
struct Requested<'a> {
    /// Name in the texts of failures.
    name: String,
    /// Name of its latency.
    metric: String,
    response: Option<&'a LatencySummary>,
    /// Requests that failed, or had no answer at the end.
    failed: u64,
    /// The probe; `None` of requests for a page of metrics.
    probe: Option<&'a ScenarioSummary>,
}

/// All requests of a run: first probes, then pages.
fn requested(summary: &RunSummary) -> Vec<Requested<'_>> {
    let probes = summary.scenarios().filter(|(_, of)| of.role == ScenarioRole::Server);
    let probes = probes.map(|(scenario, of)| {
        let found = of.latency.filled().find(|(metric, _)| {
            let name = metric.name();
            name == RESPONSE || name.rsplit_once(' ').is_some_and(|it| it.1 == RESPONSE)
        });
        Requested {
            name: probe_name(scenario),
            metric: found.map_or_else(String::new, |(metric, _)| metric.name().to_owned()),
            response: found.map(|(_, response)| response),
            failed: of.failures.iter().map(|failure| failure.count).sum(),
            probe: Some(of),
        }
    });
    let pages = summary.scrapes.iter().map(|page| {
        let name = format!("{} page", page.name);
        Requested {
            metric: name.clone(),
            name,
            response: Some(&page.response),
            failed: page.failed + page.unanswered,
            probe: None,
        }
    });
    probes.chain(pages).collect()
}

#[cfg(test)]
#[path = "quantity_tests.rs"]
mod tests;
