//! Warnings: doubts about a number, a kind each with its values. They are data; `report` makes their sentences.

use serde::{Deserialize, Serialize};

/// Declares the kinds and their values, so that no sentence asks for a value that its kind lacks.
macro_rules! findings {
    ($($(#[$doc:meta])* $kind:ident { $($(#[$of:meta])* $field:ident: $type:ty,)* },)+) => {
        /// The kinds of warning, for machines.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
        #[serde(rename_all = "snake_case")]
        pub enum WarningCode { $($(#[$doc])* $kind,)+ }

        /// Observed values of a warning, by kind.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "code", content = "values", rename_all = "snake_case")]
        pub enum Finding { $($(#[$doc])* $kind { $($(#[$of])* $field: $type,)* },)+ }

        impl Finding {
            /// Its kind.
            pub const fn code(&self) -> WarningCode {
                match self { $(Self::$kind { .. } => WarningCode::$kind,)+ }
            }
        }
    };
}

/// Why a worker is lost that its user stops.
pub const WORKER_STOPPED: &str = "it was stopped";

findings! {
    /// The generator's own loop lag or CPU explains the latency.
    GeneratorSaturated {
        /// Share of the time in which the busiest event loop was at work.
        at_work: f64,
        /// Threads of the generator.
        threads: u64,
        /// Counted items: `messages`, `cycles`, `requests`.
        unit: String,
    },
    /// Less was sent than the schedule requested.
    RateNotAchieved {
        /// Counted items: `messages`, `cycles`, `requests`.
        unit: String,
        /// Sent and requested rates; `None` for operations beside another load.
        rates: Option<SentOf>,
        /// Operations that were due and did not begin.
        not_begun: u64,
        /// How many may be open at a time; 0 without a limit.
        in_flight_limit: u64,
    },
    /// Broker and generator share too few cores.
    TooFewCores {
        /// Cores and their users.
        #[serde(flatten)]
        used: CoresUsed,
    },
    /// This is a debug build of bellows.
    DebugBuild {},
    /// A printed percentile has fewer than ten samples beyond it.
    TooFewSamples {
        /// The latencies, with their samples.
        latencies: Vec<FewSamples>,
    },
    /// The profiler lost samples.
    LostSamples {
        /// Samples that were lost.
        lost: u64,
        /// Samples that were taken.
        samples: u64,
        /// Whether each event is a sample, so that no frequency makes them fewer.
        each: bool,
    },
    /// The kernel throttled the profiler.
    ProfilerThrottled {
        /// How often.
        times: u64,
    },
    /// Part of the profile is missing or could not be had.
    ProfileIncomplete {
        /// Missing part of the profile.
        #[serde(flatten)]
        gap: ProfileGap,
    },
    /// The clock is not steady.
    ClockNotSteady {
        /// The kernel's clock source.
        clock: String,
    },
    /// The hypervisor took CPU time.
    CpuSteal {
        /// Share of the machine's time.
        steal: f64,
    },
    /// A trend inside the measured phase.
    NotSteadyState {
        /// Relative change of the rate.
        change: f64,
        /// Length of the measured phase, whole seconds.
        seconds: u64,
    },
    /// The broker blocked publishers (memory or disk alarm).
    ConnectionBlocked {
        /// How often.
        times: u64,
        /// The broker's words.
        reasons: String,
        /// The run's own fault in which it did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fault: Option<String>,
    },
    /// The broker's certificate was not checked (`--insecure`).
    CertificateNotChecked {},
    /// Connections were lost; the run went on and tried to reconnect.
    ConnectionsLost {
        /// Connections that were lost.
        connections: u64,
        /// When none was left.
        away: Option<Stood>,
        /// The run's own fault in which they were lost: `kill of node 1`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fault: Option<String>,
    },
    /// Messages were lost, repeated without need, or damaged.
    MessagesLost {
        /// Messages that were sent.
        sent: u64,
        /// Confirmed and never delivered.
        lost: u64,
        /// Delivered again without the redelivered flag.
        duplicated: u64,
        /// Messages that came damaged.
        corrupt: u64,
        /// Messages of other programs.
        foreign: u64,
    },
    /// Messages were confirmed and not delivered by the end of the drain; the broker may hold them.
    MessagesOutstanding {
        /// Messages that were sent.
        sent: u64,
        /// Not delivered.
        outstanding: u64,
    },
    /// Messages that the broker never confirmed had not come by the end of the drain, or fewer came than must.
    MessagesNotReceived {
        /// Deliveries that did not come; without a ledger the fewest that can be.
        missing: u64,
        /// Messages that were sent, where a ledger knows each of them.
        sent: Option<u64>,
        /// Length of the drain, seconds.
        drained_s: f64,
    },
    /// Messages were refused, returned or not acknowledged.
    MessagesNotAccepted {
        /// Messages that were sent.
        sent: u64,
        /// Messages that were refused.
        nacked: u64,
        /// Returned, as no queue is bound where they were sent.
        returned: u64,
        /// Not confirmed, as their connections were lost.
        not_confirmed: u64,
        /// The run's own fault in which these were lost: `kill of node 1`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fault: Option<String>,
    },
    /// Connections, channels or queues could not be opened or closed in order.
    CyclesFailed {
        /// Kind of the cycles, or the page that is requested.
        kind: String,
        /// Counted items: `cycles`, `requests`.
        unit: String,
        /// Operations that failed.
        failed: u64,
        /// Failed operations that timed out.
        timed_out: u64,
        /// Operations that began.
        begun: u64,
        /// Why the first one failed; empty where only the events say so.
        first_failure: String,
    },
    /// The run ended before its time.
    Interrupted {
        /// Measured seconds.
        seconds: f64,
    },
    /// Programs that were the load, or one of them, ended by themselves before the measured phase was over.
    LoadEnded {
        /// Measured seconds until then; 0 in the warm-up.
        seconds: f64,
        /// Seconds that were to be measured.
        planned_s: f64,
        /// The number of the load, where others went on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        load: Option<u64>,
    },
    /// Part of the archive could not be written.
    ArchiveIncomplete {
        /// The file.
        file: String,
        /// Its folder.
        folder: String,
        /// The system's words.
        why: String,
    },
    /// Messages left late although nothing but the generator held them up.
    GeneratorLate {
        /// Share of the messages that left over 1 ms late.
        late_share: f64,
        /// Share of the seconds in which loop lag was half of the 99th percentile or more.
        lag_seconds_share: f64,
        /// The longest turn of an event loop, nanoseconds.
        lag_max_ns: u64,
        /// Whether messages had a time at which they were due.
        scheduled: bool,
        /// Counted items: `messages`, `cycles`, `requests`.
        unit: String,
    },
    /// Connections were down when the run ended: the broker never came back.
    BrokerGone {
        /// Connections that were down.
        connections: u64,
        /// When none was left.
        away: Option<Stood>,
        /// The run's own fault that was for good.
        fault: Option<String>,
    },
    /// The broker, the generator or the machine stood still for a while.
    Stalled {
        /// The side that stood still.
        who: Stalled,
        /// The longest time, and the sums of all.
        #[serde(flatten)]
        stood: Stood,
        /// Waiting for a core meanwhile.
        wait: StallWait,
        /// The worker of a fleet that stood still; `None` where it was none, or several.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        worker: Option<String>,
        /// The fault of the run itself that was on at that time.
        fault: Option<String>,
        /// Delayed items: `messages`, `cycles`, `requests`.
        unit: String,
    },
    /// Messages were due and had no answer when the run ended.
    MessagesUnanswered {
        /// Sent and not answered.
        unanswered: u64,
        /// Due and never sent.
        unsent: u64,
        /// Whether the broker was gone.
        gone: bool,
        /// Whether the run itself took it away for good.
        for_good: bool,
    },
    /// Pages of metrics that were due did not come.
    ScrapesFailed {
        /// The page.
        page: String,
        /// Scrapes that failed.
        failed: u64,
        /// All scrapes.
        requests: u64,
        /// Why the last of them failed.
        last_failure: String,
    },
    /// A filter for a page's series selected none.
    NothingSelected {
        /// The page.
        page: String,
        /// Filter without a match.
        what: String,
    },
    /// Faults of the experiment did not take place, or not at their time.
    FaultsMissed {
        /// Faults that were missed or late.
        #[serde(flatten)]
        faults: MissedFaults,
    },
    /// A node of the cluster was not there any more when the run ended.
    NodeGone {
        /// Their numbers.
        nodes: Vec<usize>,
    },
    /// A trace of the broker's node ended before the load did, or did not begin.
    TraceEnded {
        /// The functions.
        functions: String,
        /// Why it ended.
        why: String,
        /// The limit that tripped; empty without one.
        limit: String,
        /// When, seconds since the run's origin.
        at_s: f64,
    },
    /// Functions were traced on the broker's node during the load, which changes the measurement.
    Traced {
        /// The functions.
        functions: String,
    },
    /// The broker was inspected by another command during the load.
    LookedInto {
        /// How often.
        looks: u64,
        /// The commands.
        commands: String,
        /// How long in all, seconds.
        seconds: f64,
    },
    /// The broker no longer permits a feature that was asked for; another one stood in for it.
    NotPermitted {
        /// The feature.
        feature: String,
        /// Replacement of the feature.
        instead: String,
    },
    /// A worker of the fleet was lost: its part of the load ended early.
    WorkerLost {
        /// Its name.
        worker: String,
        /// When it was heard last, in seconds since the run's origin.
        at_s: f64,
        /// Reason, as a sentence.
        why: String,
        /// Its share of producers, where the run went on without it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        producers: Option<f64>,
        /// Its share of consumers, where the run went on without it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        consumers: Option<f64>,
    },
    /// A worker of the fleet started its load late, and did not wait for a core.
    WorkerLate {
        /// Its name.
        worker: String,
        /// By how much, seconds.
        late_s: f64,
    },
    /// A worker's clock moved against the coordinator's.
    WorkerClock {
        /// Its name.
        worker: String,
    },
    /// A latency that was taken by two machines' clocks.
    ClockBound {
        /// Its name.
        latency: String,
        /// Its median, seconds; `None` where that is shorter than five bounds, and the latency is left out.
        p50_s: Option<f64>,
        /// The most by which the clocks may be apart, seconds.
        bound_s: f64,
    },
    /// Messages came before they were sent, by more than the bound of the clocks: that is wrong.
    ClockBoundBroken {
        /// The worker to which they came.
        worker: String,
        /// How many.
        deliveries: u64,
        /// By how much at most, seconds.
        by_s: f64,
    },
    /// Workers of the fleet had no part of the load.
    WorkersIdle {
        /// How many of them.
        idle: u64,
        /// Workers of the run.
        workers: u64,
    },
    /// The run was made of the workers' folders, without its coordinator.
    Collected {
        /// Latencies between two clocks that are left out, as no folder tells how far these may be apart.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        unbounded: Vec<String>,
    },
}

/// Cores that broker and generator share, and who used them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CoresUsed {
    /// Cores that both may use.
    pub cores: u32,
    /// Cores that the broker used.
    pub broker_cores: f64,
    /// Cores that bellows used.
    pub client_cores: f64,
    /// Cores that other processes took; 0 where they did not matter.
    pub other_cores: f64,
    /// Share of the time that an event loop waited for a core.
    pub run_queue_wait: f64,
    /// Seconds that the broker's threads waited for a core, each second.
    pub broker_run_queue_wait: f64,
    /// Whether the requested rate was met all the same.
    pub rate_met: bool,
}

/// Faults of an experiment that did not take place as planned.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MissedFaults {
    /// Faults of the experiment.
    pub planned: u64,
    /// Faults that failed.
    pub failed: u64,
    /// Why the first of them failed; empty where none did.
    pub first_failure: String,
    /// Faults that had not begun when the run ended.
    pub not_begun: u64,
    /// Faults that began late.
    pub late: u64,
    /// The longest delay, seconds.
    pub latest_s: f64,
}

/// Sent and requested rates, items per second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SentOf {
    /// Sent per second.
    pub sent: f64,
    /// Requested per second.
    pub requested: f64,
}

/// A latency with too few samples for a percentile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FewSamples {
    /// The latency.
    pub latency: String,
    /// Its samples.
    pub samples: u64,
    /// The lowest percentile that has too few: `p99.99`.
    pub percentile: String,
}

/// Missing part of a profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ProfileGap {
    /// Names of functions.
    Names {
        /// Share of the samples that hold a frame without one.
        unknown_share: f64,
    },
    /// Callers of functions.
    Callers {
        /// Share of the stacks that reach the root.
        complete_share: f64,
        /// Share of the stacks that were copied.
        copied_share: f64,
        /// Runtime of the program: `erlang`, `java`, `native`.
        runtime: String,
    },
    /// Samples of threads that run for short times.
    Samples {
        /// Share of the CPU time that the samples stand for.
        cpu_share: f64,
    },
    /// Code that the kernel's probes interrupted.
    Probed {
        /// Share of the samples that are in the probes.
        probes_share: f64,
    },
    /// Something else.
    Other {
        /// The profiler's words.
        why: String,
    },
}

/// Stalls, or times without a connection: the longest of them, and sums of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stood {
    /// How often.
    pub times: u64,
    /// When the longest began, seconds since the run's origin.
    pub at_s: f64,
    /// How long it took, seconds.
    pub for_s: f64,
    /// Connections that it met.
    pub connections: u64,
    /// Messages or operations that all of them delayed.
    pub messages_delayed: u64,
    /// Delayed operations that failed.
    pub failed: u64,
}

/// Waiting for a core during a stall.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StallWait {
    /// There was none.
    #[default]
    None,
    /// The machine was full, and waits are not known.
    Unknown,
    /// Its threads waited while other processes ran.
    ForCores {
        /// How long its threads waited, seconds.
        seconds: f64,
        /// Cores that others took.
        other_cores: f64,
    },
}

/// How much a warning takes from the numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// The number must not be used. `--strict` heeds only these.
    Invalid,
    /// A number is off: the text says which one, and which way.
    #[default]
    Caution,
    /// Worth knowing; the numbers are right.
    Note,
}

/// Remedy for a debug build of bellows, as the pages say it.
pub const RELEASE_BUILD: &str = "build with `make build`, or install with `make install`";

/// One warning.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Warning {
    /// The observed values, by kind.
    #[serde(flatten)]
    pub finding: Finding,
    /// Consequence for the numbers.
    pub tier: Tier,
    /// The event of the profile that it is about, where that is not the usual one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// Whether a server was loaded that need not be a broker.
    pub of_server: bool,
    /// Whether the run was interrupted in its drain, after a whole load.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub drain_cut: bool,
    /// The observed value, which number it puts in doubt, and the remedy.
    pub text: String,
}

impl Warning {
    /// A warning whose sentence is not made yet.
    pub const fn new(tier: Tier, finding: Finding) -> Self {
        Self { finding, tier, event: None, of_server: false, drain_cut: false, text: String::new() }
    }

    /// Its kind.
    pub const fn code(&self) -> WarningCode {
        self.finding.code()
    }
}

measure::named! {
    /// The side that stood still.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
    #[serde(rename_all = "snake_case")]
    pub enum Stalled {
        /// The broker: messages were in flight, and it answered none.
        #[default]
        Broker = "broker",
        /// bellows did not run, and the broker did.
        Generator = "generator",
        /// Neither ran.
        Machine = "machine",
    }
}

/// A time in which nothing was answered although something was in flight, or in which nothing could be sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stall {
    /// When it began, in seconds since the run's origin.
    pub at_s: f64,
    /// How long it took, seconds.
    pub for_s: f64,
    /// The side that stood still.
    pub who: Stalled,
    /// All connections were down, for the whole of it or from some moment on.
    pub away: bool,
    /// Connections that were silent or down.
    pub connections: u64,
    /// Messages that were in flight or became due meanwhile, before the end of sending.
    pub messages_delayed: u64,
    /// Operations among them that failed or were given up: latencies do not hold all of their waits.
    pub failed: u64,
}
