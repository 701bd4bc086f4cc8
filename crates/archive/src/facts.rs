//! Facts about a run, from which its verdict and its warnings follow.

use std::collections::BTreeMap;

use measure::ledger::LedgerSummary;
use measure::{Nanos, ScenarioRole, ThreadUsage, Waits};
use serde::{Deserialize, Serialize};

use crate::finding::{Stall, Stalled};

/// A loop that is busy notices what a fault took up to so many seconds after the fault's end, …
const NOTICED_AFTER_S: f64 = 1.0;
/// … and the time that it takes down is that of its last look at the clock, which may lie before the fault.
const CLOCK_AGE_S: f64 = 0.1;
/// The fault that blocks publishers, and takes no connections.
const BLOCK: &str = "block";

/// Observations of the measured phase. Shares are of time (0 to 1), CPU is in cores.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[cfg_attr(feature = "typescript", ts(rename = "Evidence"))]
pub struct Facts {
    /// Length of the measured phase.
    pub seconds: f64,
    /// Requested messages per second; `None` if unthrottled.
    pub requested_rate: Option<f64>,
    /// The load was a number of messages, all of which were sent in the measured phase.
    pub counted: bool,
    /// Standard deviation of the number of requested messages, where arrivals are random.
    pub requested_deviation: f64,
    /// Producers were asked to wait between an answer and their next message.
    pub closed_loop: bool,
    /// Messages sent per second.
    pub sent_rate: f64,
    /// Messages received per second.
    pub received_rate: f64,
    /// Deliveries per second that the messages sent should have led to; `None` without both sides.
    pub expected_rate: Option<f64>,
    /// Consumers were asked to take their time.
    pub slow_consumers: bool,
    /// Share of the messages that were sent over 1 ms late.
    pub late_share: f64,
    /// Use of the producers' time; `None` without producers.
    pub producers: Option<ProducerTime>,
    /// Messages that may be in flight, all producers together; `None` without such a limit.
    pub in_flight_limit: Option<u64>,
    /// Mean time until the broker answers a message, nanoseconds; 0 without answers.
    pub answer_ns: u64,
    /// The event loops.
    pub loops: Vec<LoopUse>,
    /// The event loops spun while they waited: their CPU says nothing.
    pub spun: bool,
    /// The workers of a fleet, which the summary holds; none where one process carried the load.
    #[serde(skip)]
    #[cfg_attr(feature = "typescript", ts(skip))]
    pub workers: Vec<WorkerSummary>,
    /// Median of the seconds' worst loop lag, nanoseconds.
    pub loop_lag_median_ns: u64,
    /// The worst loop lag, nanoseconds.
    pub loop_lag_max_ns: u64,
    /// Share of the seconds whose loop lag was 1 ms or more, and over half of the latencies' 99th percentile.
    pub lag_explains: f64,
    /// Cores that bellows may use.
    pub cores: u32,
    /// Cores of the machine; 0 where that is not known.
    pub machine_cores: u32,
    /// Bellows and the broker may not use the same cores.
    pub apart: bool,
    /// Share of the machine's time that was idle.
    pub idle: Option<f64>,
    /// Share of the machine's time that its hypervisor took.
    pub steal: Option<f64>,
    /// CPU of bellows.
    pub client_cores: Option<f64>,
    /// CPU of the broker's processes, where they are known.
    pub broker: Option<BrokerUse>,
    /// Broker and generator share this machine.
    pub same_machine: bool,
    /// Time that connecting to the broker took: about one round trip, nanoseconds.
    pub round_trip_ns: Option<u64>,
    /// The broker's shortest answer time before the load, nanoseconds: the whole way and back, through any proxy.
    pub idle_answer_ns: Option<u64>,
    /// The process on this machine that passes connections on to the broker: a tunnel, a proxy.
    #[serde(rename = "relay")]
    pub proxy: Option<String>,
    /// Delay of bytes to the broker in that process, nanoseconds: those held at the measured phase's end, at its rate.
    #[serde(rename = "relay_held_ns")]
    pub proxy_held_ns: Option<u64>,
    /// TCP's figures of that process's own connections to the broker.
    #[serde(rename = "behind_relay")]
    pub behind_proxy: Option<ConnectionTime>,
    /// TCP's figures of the connections to the broker.
    pub connections: Option<ConnectionTime>,
    /// Throughput of the generator against the embedded broker (`bellows doctor --calibrate`).
    pub capacity: Option<Capacity>,
    /// Facts that other parts of the summary hold.
    #[serde(skip)]
    #[cfg_attr(feature = "typescript", ts(skip))]
    pub ended: Ended,
}

/// The run's end, and values that warnings name: facts of other parts of the summary.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ended {
    /// Bellows was built without optimisation.
    pub debug_build: bool,
    /// An error ended the load before its time.
    pub broke_off: bool,
    /// Somebody stopped it.
    pub interrupted: bool,
    /// The broker's certificate was not checked.
    pub insecure: bool,
    /// Cores that broker and bellows may use, where they are a part of the machine's only.
    pub own_cores: Option<u32>,
    /// The kernel's clock source.
    pub clock_source: Option<String>,
    /// When the measured phase began, in seconds since the run's origin.
    pub measured_from_s: f64,
    /// Seconds of the measured phase in which the rate was counted.
    pub seconds: u64,
    /// Seconds that messages or operations left late, the delays of all of them added up; 0 where that is not known.
    pub late_s: f64,
    /// The change of the rate in the measured phase, as a part of it, where there is a trend and no schedule.
    pub trend: Option<f64>,
    /// How often the broker blocked publishers, and its words for it.
    pub blocked: Option<(u64, String)>,
    /// When publishers were blocked, in seconds since the run's origin.
    pub blocked_at_s: Vec<f64>,
    /// Connections that were lost.
    pub lost_connections: u64,
    /// When connections were lost, in seconds since the run's origin: the first of those that were lost together.
    pub lost_at_s: Vec<f64>,
    /// Connections that were down when the run ended.
    pub down_connections: u64,
    /// Messages that were sent in the measured phase.
    pub sent: u64,
    /// Messages of the measured phase that the broker refused, in that phase or in the drain.
    pub nacked: u64,
    /// Messages of the measured phase that no queue took, as the broker said in that phase or in the drain.
    pub returned: u64,
    /// Messages of each producer's transaction; 0 without transactions, or where they differ.
    pub transaction: u32,
    /// Messages without an answer: in flight at the end, or when their connection was lost.
    pub unconfirmed: u64,
    /// Messages in flight at the end, which stand in the latencies with the time they had waited.
    pub unanswered: u64,
    /// Messages that were due and never sent, which stand there too.
    pub unsent: u64,
    /// Outcome of every message, where that is known.
    pub ledger: Option<LedgerSummary>,
    /// Deliveries that did not come and that no broker has confirmed, and of how many messages, where that is known.
    pub not_received: Option<(u64, Option<u64>)>,
    /// Length of the drain, seconds.
    pub drained_s: f64,
    /// Seconds from the start of the measured phase until the last message came, of a load that ended by itself, …
    pub received_s: f64,
    /// … and until the last was confirmed; 0 where none was, and of other loads.
    pub completed_s: f64,
    /// Silences and stops, in the order of time.
    pub stalls: Vec<Stall>,
    /// Threads' run-queue waits, second by second, where the machine was full.
    pub run_queue_waits: Vec<RunQueueWait>,
    /// The faults that the run itself made, in the order of time.
    pub faults: Vec<OwnFault>,
    /// The first of them that was to last to the end: `kill of node 1`.
    pub for_good: Option<String>,
    /// Messages or operations of the measured phase that were due and did not begin in their seconds.
    pub behind: Lacking,
    /// Deliveries that were due and did not come in theirs.
    pub deliveries_behind: Lacking,
    /// Latencies with too few samples for a percentile: name, samples, and the first such percentile.
    pub too_few: Vec<(String, u64, String)>,
    /// Outcome of cycles, where there is churn.
    pub churn: Vec<ChurnFacts>,
}

/// How long threads were ready to run and had no core in a part of the run, all of a side added up.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RunQueueWait {
    /// When it began, in seconds since the run's origin.
    pub from_s: f64,
    /// When it ended.
    pub until_s: f64,
    /// Wait of the broker's threads, seconds; `None` where that is not known.
    pub broker_s: Option<f64>,
    /// Wait of our own, seconds.
    pub own_s: Option<f64>,
}

/// A fault of the run itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OwnFault {
    /// `kill of node 1`.
    pub name: String,
    /// When it began, in seconds since the run's origin.
    pub from_s: f64,
    /// When its victim was back and answered again; infinite where it never did.
    pub until_s: f64,
}

/// How much less there was of something than was due, of seconds that had too little of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Lacking {
    /// Items that were due: without a schedule, at the rate of the seconds without a fault.
    pub due: f64,
    /// The part that was lacking; all of it where no schedule says what was due.
    pub all: f64,
    /// The part that was lacking during the run's faults.
    pub in_faults: f64,
}

/// Outcome of the cycles that were due in the measured phase.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChurnFacts {
    /// Whether it ran beside messages, which the verdict is about.
    pub beside: bool,
    /// `connections`, `channels` or `queues`; the URL of a probe.
    pub kind: String,
    /// Name of its operations: `cycles`, `requests`.
    pub unit: String,
    /// System that they load.
    pub role: ScenarioRole,
    /// Cycles that began.
    pub begun: u64,
    /// Cycles that failed.
    pub failed: u64,
    /// Failed cycles that timed out, whose latency is the time they had waited.
    pub timed_out: u64,
    /// Cycles that ended within the measured phase, in order or not.
    pub ended: u64,
    /// Cycles that were due and found no room until the end.
    pub not_begun: u64,
    /// Cycles that may be in flight.
    pub in_flight_limit: u64,
    /// Why the first one failed, and the remedy.
    pub first_failure: Option<String>,
}

impl Facts {
    /// Operations that the verdict is about; `None` where it is about messages.
    fn own(&self) -> Option<&ChurnFacts> {
        self.ended.churn.iter().find(|churn| !churn.beside)
    }

    /// System under load.
    pub fn role(&self) -> ScenarioRole {
        self.own().map_or(ScenarioRole::Broker, |churn| churn.role)
    }

    /// Whether the verdict is about cycles rather than messages.
    pub fn is_churn(&self) -> bool {
        self.own().is_some()
    }

    /// Counted items: `messages`, `cycles`, `requests`.
    pub fn items(&self) -> &str {
        self.own().map_or("messages", |churn| &churn.unit)
    }

    /// Share of the operations begun that failed; 0 of messages.
    pub fn failed_share(&self) -> f64 {
        self.own().map_or(0.0, |of| of.failed as f64 / of.begun.max(1) as f64)
    }

    /// All cores that broker and generator could share.
    pub const fn all_cores(&self) -> u32 {
        if self.machine_cores == 0 { self.cores } else { self.machine_cores }
    }

    /// The stalls that touch the measured phase.
    pub fn stalls(&self) -> impl Iterator<Item = &Stall> {
        self.ended.stalls.iter().filter(|it| self.measured_part(it).is_some())
    }

    /// The seconds of the measured phase that stalls cover together: where several overlap, they count once.
    pub fn stalled_s<'a>(&self, stalls: impl Iterator<Item = &'a Stall>) -> f64 {
        let mut parts: Vec<(f64, f64)> = stalls.filter_map(|it| self.measured_part(it)).collect();
        parts.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (mut sum, mut covered) = (0.0, f64::NEG_INFINITY);
        for (from, until) in parts {
            sum += (until - from.max(covered)).max(0.0);
            covered = covered.max(until);
        }
        sum
    }

    /// The stalls of the measured phase in which this one stood still, and was not without a connection.
    pub fn stood_still(&self, who: Stalled) -> impl Iterator<Item = &Stall> {
        self.stalls().filter(move |stall| stall.who == who && !stall.away)
    }

    /// How long who stood still was ready to run and had no core in the seconds of its stalls, as far as that is known,
    /// and whether it is known for all of those in which the machine was full.
    pub fn waited_in_stalls(&self, who: Stalled) -> (f64, bool) {
        // Our machine's seconds say nothing about a broker elsewhere.
        if who != Stalled::Generator && !self.same_machine {
            return (0.0, true);
        }
        let waits = self.ended.run_queue_waits.iter().filter(|wait| {
            let is_in = |it: &Stall| it.at_s < wait.until_s && wait.from_s < it.at_s + it.for_s;
            self.stood_still(who).any(is_in)
        });
        let waited = waits.map(|wait| match who {
            Stalled::Broker => wait.broker_s,
            Stalled::Generator => wait.own_s,
            // Neither ran.
            Stalled::Machine => Some(wait.own_s?.min(wait.broker_s?)),
        });
        waited.fold((0.0, true), |(sum, is_known), wait| (sum + wait.unwrap_or(0.0), is_known && wait.is_some()))
    }

    /// The run's own fault that was on in a time.
    pub fn fault_within(&self, at_s: f64, for_s: f64) -> Option<&OwnFault> {
        self.ended.faults.iter().find(|it| it.from_s <= at_s + for_s && it.until_s >= at_s)
    }

    /// Names of the run's own faults, blocks or others, in or just after which these instants lie, each once; of
    /// several that were on, the last that had begun. `None` where an instant lies in none, or there is none.
    fn faults_behind(&self, at_s: &[f64], blocks: bool) -> Option<String> {
        let mut names: Vec<&str> = Vec::new();
        for at in at_s {
            let faults = self.ended.faults.iter().filter(|it| {
                let is_on = it.from_s <= at + CLOCK_AGE_S && *at <= it.until_s + NOTICED_AFTER_S;
                is_on && (it.name == BLOCK) == blocks
            });
            let name = faults.max_by(|one, other| one.from_s.total_cmp(&other.from_s))?.name.as_str();
            if !names.contains(&name) {
                names.push(name);
            }
        }
        (!names.is_empty()).then(|| names.join(", "))
    }

    /// The run's own faults in which connections were lost; `None` if some were lost elsewhere, or it is not known.
    pub fn lost_in_faults(&self) -> Option<String> {
        self.faults_behind(&self.ended.lost_at_s, false)
    }

    /// The run's own faults in which publishers were blocked; `None` where some were at another time.
    pub fn blocked_in_faults(&self) -> Option<String> {
        self.faults_behind(&self.ended.blocked_at_s, true)
    }

    /// Whether most of the stalls of this side lie in faults of the run itself.
    pub fn stalled_in_faults(&self, who: Stalled) -> bool {
        let theirs = || self.stalls().filter(|stall| stall.who == who);
        let is_own = |stall: &&Stall| self.fault_within(stall.at_s, stall.for_s).is_some();
        let own_s = self.stalled_s(theirs().filter(is_own));
        own_s > 0.0 && own_s * 2.0 >= self.stalled_s(theirs())
    }

    /// Start and end of the part of a stall within the measured phase.
    fn measured_part(&self, stall: &Stall) -> Option<(f64, f64)> {
        let from = self.ended.measured_from_s;
        let until = (stall.at_s + stall.for_s).min(from + self.seconds);
        let from = stall.at_s.max(from);
        (until > from).then_some((from, until))
    }

    /// The largest share of the measured phase in which something due had not left. At a low rate delays of one after
    /// the other add up to that time; at a high one many are late together, the same share of time as of them.
    pub fn late_time(&self) -> f64 {
        match self.ended.late_s / self.seconds {
            each if each > 0.0 => self.late_share.min(each),
            _ => self.late_share,
        }
    }

    /// The share of its time that the busiest event loop was at work.
    pub fn at_work(&self) -> f64 {
        self.loops.iter().map(|used| used.at_work(self.spun)).fold(0.0, f64::max)
    }

    /// The share of its time that an event loop waited in the run queue: of the one that waited most.
    pub fn run_queue_wait(&self) -> f64 {
        self.loops.iter().map(LoopUse::run_queue_wait).fold(0.0, f64::max)
    }

    /// The seconds that the broker's threads together waited in the run queue in each second.
    pub fn broker_run_queue_wait(&self) -> f64 {
        self.broker.as_ref().and_then(|used| used.run_queue_wait).unwrap_or(0.0)
    }

    /// CPU of processes that are neither broker nor generator, in cores; `None` where the broker may be one of them.
    pub fn other_cores(&self) -> Option<f64> {
        if self.broker.is_none() && (self.same_machine || self.proxy.is_some()) {
            return None;
        }
        let broker = self.broker.as_ref().filter(|_| self.same_machine);
        let ours = self.client_cores? + broker.map_or(0.0, |used| used.cores);
        let used = f64::from(self.all_cores()) * (1.0 - self.idle? - self.steal.unwrap_or(0.0));
        Some((used - ours).max(0.0))
    }

    /// The share of its time that a producer with one message in flight waits for its answer.
    pub fn answers_share(&self) -> f64 {
        let producers = self.in_flight_limit.unwrap_or(1).max(1) as f64;
        self.sent_rate * self.answer_ns as f64 / 1e9 / producers
    }
}

impl LoopUse {
    /// Share of its time at work. Falling asleep and waking up count as idle; while it spins, CPU says nothing.
    pub const fn at_work(&self, spun: bool) -> f64 {
        let cpu = if spun { 0.0 } else { self.cpu };
        (1.0 - self.idle).max(cpu).clamp(0.0, 1.0)
    }

    /// Share of its time ready and without a core; without the kernel's account, all that is neither idle nor CPU.
    pub fn run_queue_wait(&self) -> f64 {
        let rest = (1.0 - self.idle - self.cpu).max(0.0);
        self.run_queue_wait.unwrap_or(rest)
    }
}

/// Use of the producers' time, as shares that add up to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct ProducerTime {
    /// A message was due and could go: the event loop had not come to it.
    pub ready: f64,
    /// No message was due.
    pub schedule: f64,
    /// The in-flight budget was used up: answers were awaited.
    pub budget: f64,
    /// The broker gave no credit (AMQP 1.0).
    pub credit: f64,
    /// The socket took no more bytes.
    pub socket: f64,
    /// The broker had blocked the connection.
    pub blocked: f64,
    /// There was no connection.
    pub away: f64,
}

impl ProducerTime {
    /// The shares that were the broker's.
    pub const fn of_broker(&self) -> [f64; 5] {
        [self.budget, self.credit, self.socket, self.blocked, self.away]
    }
}

impl From<&Waits> for ProducerTime {
    fn from(waits: &Waits) -> Self {
        let all = waits.producing().0.max(1) as f64;
        let share = |part: Nanos| part.0 as f64 / all;
        Self {
            ready: share(waits.ready),
            schedule: share(waits.schedule),
            budget: share(waits.budget),
            credit: share(waits.credit),
            socket: share(waits.socket),
            blocked: share(waits.blocked),
            away: share(waits.away),
        }
    }
}

/// Use of an event loop's time, in shares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct LoopUse {
    /// Running on a core.
    pub cpu: f64,
    /// Idle, the time to wake up included.
    pub idle: f64,
    /// Ready to run and without a core; `None` where the kernel keeps no account of it.
    #[serde(rename = "starved")]
    pub run_queue_wait: Option<f64>,
}

impl From<&ThreadUsage> for LoopUse {
    fn from(thread: &ThreadUsage) -> Self {
        let share = |part: Nanos| part.0 as f64 / thread.measured_time.0.max(1) as f64;
        Self {
            cpu: share(thread.measured),
            idle: share(thread.measured_idle),
            run_queue_wait: thread.measured_run_queue_wait.map(share),
        }
    }
}

/// A worker of a fleet, and its part of the load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkerSummary {
    /// Its name.
    pub name: String,
    /// Name of its machine; absent where that is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub host: String,
    /// Its labels, such as `zone=a`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Its version of bellows.
    pub version: String,
    /// Cores that it may use.
    pub cores: u32,
    /// Its part of the load; absent where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<WorkerShare>,
    /// How late its load started, beyond the wait for a core, in seconds; `None` where it did not start.
    pub late_s: Option<f64>,
    /// Its clock less the coordinator's at the end, in seconds; `None` where that is not known.
    pub clock_offset_s: Option<f64>,
    /// The most that this can be off.
    pub clock_bound_s: Option<f64>,
    /// Messages that it sent.
    pub sent: u64,
    /// Messages that it received.
    pub received: u64,
    /// Messages per second that it sent in its measured phase.
    #[serde(default)]
    pub sent_rate: f64,
    /// Messages per second that it received in its measured phase.
    #[serde(default)]
    pub received_rate: f64,
    /// CPU of its event loops in the measured phase, in cores.
    pub cpu_cores: f64,
    /// The share of its time that its busiest event loop was at work.
    pub at_work: f64,
    /// The share of its time that an event loop waited in the run queue: of the one that waited most.
    #[serde(default)]
    pub run_queue_wait: f64,
    /// The share of its messages that were sent over 1 ms late; absent without a schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_share: Option<f64>,
    /// How it stood still, or was gone.
    #[serde(flatten)]
    pub absence: WorkerAbsence,
    /// Seconds of the run at which it was heard last, where it was lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_s: Option<f64>,
    /// It limited the run: its generator could do no more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub limits: bool,
}

/// A worker's times without a part in the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkerAbsence {
    /// The most that one of its event loops was late in the measured phase, in seconds.
    #[serde(default)]
    pub loop_lag_max_s: f64,
    /// It was lost, and the run went on without it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tolerated: bool,
}

/// A worker's share of a load: how many of each are its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerShare {
    /// Producers that it has.
    pub producers: u64,
    /// Consumers that it has.
    pub consumers: u64,
    /// Destinations that these use.
    pub destinations: u64,
}

/// The broker's use of CPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct BrokerUse {
    /// CPU of its processes.
    pub cores: f64,
    /// Share of a core that its busiest thread used.
    pub busiest_thread: Option<f64>,
    /// The name of that thread.
    pub busiest_thread_name: Option<String>,
    /// Its threads together were ready to run and without a core for this many seconds a second.
    #[serde(rename = "starved")]
    pub run_queue_wait: Option<f64>,
}

/// The kernel's TCP figures of the connections to the broker, all added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct ConnectionTime {
    /// Share of the time with bytes in flight on a connection, on average.
    pub busy: f64,
    /// Share of the time in which the broker's receive window was full: it did not read.
    pub peer_full: f64,
    /// Share of segments that had to be sent again.
    pub resent: f64,
    /// TCP's smoothed round trip under load, at the measured phase's end, mean over the connections, nanoseconds.
    pub round_trip_ns: u64,
    /// Bytes that waited in our sockets then, mean over the connections.
    pub unsent_bytes: u64,
}

/// Throughput of the generator against the embedded broker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Capacity {
    /// Messages per second.
    pub rate: f64,
    /// The load that it was measured with, in words.
    pub shape: String,
    /// A lower bound: the machine was busy meanwhile, or the embedded broker, which shared it, was the limit.
    pub at_least: bool,
}
