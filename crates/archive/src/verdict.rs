//! Who limited a run, and from what that was concluded. `session` concludes; it is kept so that a
//! report, or a reader who doubts it, has the same evidence.

use serde::{Deserialize, Serialize};

/// Who or what kept the run from more messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum LimitedBy {
    /// The broker: its CPU, its answers, its alarm.
    Broker,
    /// bellows itself, or the cores that it had.
    Generator,
    /// What lies between them.
    Network,
    /// The rate that was asked for: both could have done more.
    Schedule,
    /// The evidence does not say; the sentence says why not.
    #[default]
    Undecided,
}

impl LimitedBy {
    /// As people read it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Broker => "broker",
            Self::Generator => "generator",
            Self::Network => "network",
            Self::Schedule => "schedule",
            Self::Undecided => "undecided",
        }
    }
}

/// The conclusion.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Verdict {
    /// Who or what.
    pub limited_by: LimitedBy,
    /// One sentence, without a full stop.
    pub sentence: String,
    /// What it rests on, and what it implies, the weightiest first.
    pub reasons: Vec<Reason>,
    /// The figures.
    pub evidence: Evidence,
}

/// One fact, in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Reason {
    /// For machines: `in_flight_full`, `loop_busy`, `broker_cpu`, …
    pub code: String,
    /// For people.
    pub text: String,
    /// The verdict rests on it; others are circumstances.
    #[serde(default)]
    pub decided: bool,
}

/// What was observed in the measured phase. Shares are of time (0 to 1), CPU is in cores.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Evidence {
    /// Length of the measured phase.
    pub seconds: f64,
    /// Messages per second that were asked for; `None` all-out.
    pub requested_rate: Option<f64>,
    /// Standard deviation of the number of messages asked for, where arrivals are random.
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
    /// What the producers' time went into; `None` without producers.
    pub producers: Option<ProducerTime>,
    /// Messages that may be in flight, all producers together; `None` without such a limit.
    pub in_flight_limit: Option<u64>,
    /// Mean time until the broker answers a message, nanoseconds; 0 without answers.
    pub answer_ns: u64,
    /// The event loops.
    pub loops: Vec<LoopUse>,
    /// The event loops spun while they waited: their CPU says nothing.
    pub spun: bool,
    /// Median of the seconds' worst loop lag, nanoseconds.
    pub loop_lag_median_ns: u64,
    /// The worst loop lag, nanoseconds.
    pub loop_lag_max_ns: u64,
    /// Share of the seconds in which the loop lag was 1 ms or more, and over half of the 99th
    /// percentile of the latencies.
    #[serde(default)]
    pub lag_explains: f64,
    /// Cores that bellows may use.
    pub cores: u32,
    /// Cores of the machine; 0 where that is not known.
    pub machine_cores: u32,
    /// Bellows and the broker may not use the same cores.
    #[serde(default)]
    pub apart: bool,
    /// Share of the machine's time that nobody used.
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
    /// The shortest time in which the broker itself answered before the load began, nanoseconds: all
    /// of the way there and back, past whatever passes connections on.
    #[serde(default)]
    pub idle_answer_ns: Option<u64>,
    /// The process on this machine that passes connections on to the broker: a tunnel, a proxy.
    #[serde(default)]
    pub relay: Option<String>,
    /// What the kernel says of the connections to the broker.
    pub connections: Option<ConnectionTime>,
    /// What the generator did against the embedded broker on this machine (`bellows calibrate`).
    pub capacity: Option<Capacity>,
}

/// What the producers' time went into, as shares that add up to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct ProducerTime {
    /// A message was due and could go: the event loop had not come to it.
    pub ready: f64,
    /// Nothing was due.
    pub schedule: f64,
    /// The in-flight budget was used up: answers were awaited.
    pub budget: f64,
    /// The socket took no more bytes.
    pub socket: f64,
    /// The broker had blocked the connection.
    pub blocked: f64,
    /// There was no connection.
    pub away: f64,
}

/// What an event loop did with its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct LoopUse {
    /// On a core.
    pub cpu: f64,
    /// With nothing to do, which includes the time that waking up took.
    pub idle: f64,
    /// Ready to run and without a core; `None` where the kernel keeps no account of it.
    pub starved: Option<f64>,
}

/// What the broker used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct BrokerUse {
    /// CPU of its processes.
    pub cores: f64,
    /// Share of a core that its busiest thread used.
    pub busiest_thread: Option<f64>,
    /// The name of that thread.
    pub busiest_thread_name: Option<String>,
    /// Its threads together were ready to run and without a core for so many seconds a second.
    pub starved: Option<f64>,
}

/// What the kernel's TCP says of the connections to the broker, all added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct ConnectionTime {
    /// Share of the time in which a connection had bytes on the way, on average.
    pub busy: f64,
    /// Share of the time in which the broker's receive window was full: it did not read.
    pub peer_full: f64,
    /// Share of segments that had to be sent again.
    pub resent: f64,
    /// TCP's smoothed round trip at the end of the measured phase, mean over the connections,
    /// nanoseconds: under load, unlike [`Evidence::round_trip_ns`].
    #[serde(default)]
    pub round_trip_ns: u64,
    /// Bytes that waited in our sockets then, mean over the connections.
    #[serde(default)]
    pub unsent_bytes: u64,
}

/// What the generator did against the embedded broker on this machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Capacity {
    /// Messages per second.
    pub rate: f64,
    /// The load that it was measured with, in words.
    pub shape: String,
    /// The generator could do more: the machine was busy meanwhile, or the embedded broker, which
    /// shared it, was the limit.
    #[serde(default)]
    pub at_least: bool,
}
