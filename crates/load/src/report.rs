//! Events of a running load, and its outcome.

use std::collections::BTreeMap;

use measure::ledger::{LedgerPart, LedgerSummary};
use measure::{Clock, Counters, Counts, Interval, Metric, Nanos, Phase, Slice, ThreadUsage, Time};
use serde::{Deserialize, Serialize};

use crate::Error;
use plan::DueTimes;

/// Takes what the load reports, on the thread that called [`crate::run`]. A sink that is slow
/// never slows the load down: intervals grow longer instead (but never across phases).
pub trait Sink {
    /// All threads' interval, merged: one a second, and one up to each phase's end. Valid during the call only.
    fn interval(&mut self, merged: &Interval);

    /// A tenth of a second of it, told before the interval that it is a part of.
    fn slice(&mut self, _slice: &Slice) {}

    /// Something happened.
    fn event(&mut self, event: RunEvent);
}

/// Takes what one scenario reports, on the thread that runs it.
pub trait SliceSink {
    /// The next slice of its threads, merged. The reference is valid during the call only.
    fn slice(&mut self, slice: &Slice);

    /// Something happened.
    fn event(&mut self, event: RunEvent);
}

/// End of a program that loaded the broker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramEnd {
    /// Which of the experiment's loads it was, from 0.
    pub load: usize,
    /// Its command line, without secrets.
    pub command: String,
    /// How it ended: `exit status 0`.
    pub status: String,
    /// When it ended by itself, where that was before the drain.
    pub ended_at: Option<Time>,
    /// The file of the run folder for what it printed.
    pub log: String,
    /// Its output, as far as it is kept, without secrets.
    pub output: String,
}

/// Something that happened during a load.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RunEvent {
    /// The broker answered the first connection to an endpoint.
    Connected {
        /// The endpoint without its password.
        endpoint: String,
        /// The broker's product name, such as `RabbitMQ`; empty where it does not say.
        product: String,
        /// Its version; empty where it does not say.
        version: String,
        /// How long connecting took: one round trip of the network, between kernels, and a little.
        round_trip: Nanos,
        /// The shortest time in which the broker itself answered while nothing was under load: all of
        /// the way there and back, past whatever passes connections on, and a little.
        answer: Nanos,
    },
    /// Setting up takes longer than half a second: how far it is.
    Connecting {
        /// Clients that are connected and set up.
        ready: u64,
        /// Clients in all.
        wanted: u64,
    },
    /// All clients are connected and set up; the schedule starts at this instant.
    Started {
        /// `t_0` of every schedule.
        at: Time,
    },
    /// A phase has begun.
    PhaseStarted {
        /// The phase that begins.
        phase: Phase,
        /// The instant that divides it from the one before.
        at: Time,
    },
    /// The broker asked a connection to stop publishing (`connection.blocked`), or has given it no credit for a second.
    Blocked {
        /// When it asked.
        at: Time,
        /// The broker's words.
        reason: String,
    },
    /// The broker lifted [`RunEvent::Blocked`].
    Unblocked {
        /// When it did.
        at: Time,
    },
    /// The first of an event loop's connections was lost; the load goes on, as [`crate::ReconnectPolicy`] asks.
    Lost {
        /// When it was lost.
        at: Time,
        /// The system's or the broker's words.
        detail: String,
    },
    /// All of an event loop's connections are back.
    Recovered {
        /// When the last one was.
        at: Time,
    },
    /// The first confirm since [`crate::Control::watch_return`].
    FirstConfirm {
        /// When it was decoded.
        at: Time,
    },
    /// After that every producer is on schedule, and every consumer had a message due since: the backlog is gone.
    BacklogGone {
        /// When that was seen, within 25 ms.
        at: Time,
    },
    /// The load is about to end and waits, after a stop or because it takes long.
    Waiting {
        /// Reason, as in "waiting for ...".
        for_what: String,
        /// The longest that it does.
        at_most: Nanos,
    },
    /// Nothing comes from somebody who carries a part of the load; told each second.
    NotHeard {
        /// Who is silent.
        who: String,
        /// For how long.
        lasted: Nanos,
    },
    /// A client heard nothing for a while, or its event loop did not run.
    Silence(Silence),
    /// A program runs as this process, and loads the broker, too.
    ProgramStarted {
        /// Its number.
        pid: u32,
    },
    /// A program that loaded the broker has ended.
    ProgramEnded(ProgramEnd),
    /// The broker no longer permits a feature that was asked for.
    NotPermitted {
        /// The broker's name for it.
        feature: String,
        /// The substitute, as a sentence without its end.
        instead: String,
    },
    /// Anything else worth a line.
    Note(String),
}

/// How a load went.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// `t_0` of every schedule.
    pub start: Time,
    /// The phases that took place, in the order of time.
    pub phases: Vec<PhaseTimes>,
    /// Counts of the whole run, warm-up and drain included.
    pub totals: Counters,
    /// Counts of the measured phase.
    pub measured: Counters,
    /// Messages sent with confirms that had no answer when the drain ended.
    pub unconfirmed: u64,
    /// Messages due in the run and not answered when it ended; `None` where all were.
    pub censored: Option<Box<Censored>>,
    /// Stopped through [`crate::Control`] before the load had ended; one that is stopped in its drain is whole.
    pub interrupted: bool,
    /// Stopped in the drain of a load that had ended by itself, while something was still awaited.
    pub drain_cut: bool,
    /// Error that ended the run before its time. The counts above are those until then.
    pub error: Option<Error>,
    /// A share whose carrier was lost, of a load that goes on without it: the counts above are those until then.
    pub is_gap: bool,
    /// Fate of every message; `None` without producers and consumers, where a count ends these, or unless wanted.
    pub ledger: Option<LedgerSummary>,
    /// In place of it, of a share whose messages go to other workers: what this one knows.
    pub ledger_part: Option<LedgerPart>,
    /// CPU time of each event loop.
    pub threads: Vec<ThreadUsage>,
    /// Whether the loops spun before messages were due: their CPU time then says nothing about the cost of a message.
    pub spun: bool,
    /// Operations of each scenario that has such, by its name.
    pub tallies: BTreeMap<&'static str, OperationTally>,
}

impl Outcome {
    /// Whether somebody stopped it before it was whole, its drain included.
    pub const fn was_stopped(&self) -> bool {
        self.interrupted || self.drain_cut
    }

    /// That of a load which was stopped before it started.
    pub fn never_started() -> Self {
        Self::never_started_at(Clock.now())
    }

    /// The outcome of a load that never started, at an instant of the load's own clock.
    pub(crate) fn never_started_at(now: Time) -> Self {
        Self { interrupted: true, ..Self::started(now) }
    }

    /// That of a load which started then, and of which nothing more is known.
    pub fn started(start: Time) -> Self {
        Self { start, ..Self::default() }
    }
}

/// Operations of a scenario that were due in the measured phase.
#[derive(Clone, Debug, Default)]
pub struct OperationTally {
    /// Counts by the time at which an operation was due.
    pub counts: Counts,
    /// Why operations failed, and how many for that reason; where there are more reasons than
    /// [`OperationTally::MOST_REASONS`], the last ones are counted together.
    pub failures: BTreeMap<String, u64>,
    /// Why the first one failed.
    pub first_failure: Option<Error>,
    /// Failures that were time-outs: latencies hold how long those waited.
    pub timed_out: u64,
}

impl OperationTally {
    /// Reasons that are told apart.
    pub const MOST_REASONS: usize = 16;
    /// Name of the remaining ones together.
    pub const OTHERS: &'static str = "other reasons";

    /// Counts a failure; its reason where that is new.
    pub fn fail(&mut self, error: Error) -> Option<String> {
        let reason = error.to_string();
        self.timed_out += u64::from(matches!(error, Error::TimedOut { .. }));
        self.first_failure.get_or_insert(error);
        if let Some(count) = self.failures.get_mut(&reason) {
            *count += 1;
            return None;
        }
        if self.failures.len() >= Self::MOST_REASONS {
            *self.failures.entry(Self::OTHERS.to_owned()).or_default() += 1;
            return None;
        }
        self.failures.insert(reason.clone(), 1);
        Some(reason)
    }
}

/// A time of at least 100 ms in which clients had messages in flight and heard nothing of their broker, in which
/// all clients of an event loop had no connection, or in which the loop did not run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Silence {
    /// When the last answer had come, the first message that waits was sent, or the last connection was lost.
    pub from: Time,
    /// When an answer came, the connection was lost, the first one was back, or the run ended.
    pub until: Time,
    /// Connections that were silent or lost.
    pub connections: u64,
    /// Messages without an answer when it ended, or when their connections were lost.
    pub in_flight: u64,
    /// Messages that became due meanwhile, before sending ended, and were unsent; not if connections were lost.
    pub unsent: u64,
    /// Operations among those in flight that failed or were given up: latencies do not hold all of their waits.
    pub failed: u64,
    /// All connections of the event loop were down meanwhile.
    pub is_away: bool,
    /// The event loop itself did not run meanwhile.
    pub is_own: bool,
    /// When it ran again, half of the answers in flight were waiting in the sockets: the peer had run meanwhile.
    pub was_answered: bool,
}

/// Messages and operations that were due and had no answer when the run ended, with the latencies that they had reached
/// by then: their latencies are at least that long (right-censored); leaving them out is coordinated omission.
#[derive(Clone, Debug)]
pub struct Censored {
    /// Their latencies, as a part of the drain.
    pub interval: Interval,
    /// Messages that were sent and not answered.
    pub unanswered: u64,
    /// Messages that were due and never sent.
    pub unsent: u64,
    measure_at: Time,
}

impl Censored {
    /// None yet of a run whose measured phase began at `measure_at` and which ends at `end`.
    pub(crate) fn new(measure_at: Time, end: Time) -> Self {
        let mut interval = Interval::new();
        interval.reset(end, Phase::Drain);
        interval.set_due(measure_at, Time(u64::MAX));
        Self { interval, unanswered: 0, unsent: 0, measure_at }
    }

    /// Those of a load elsewhere, whose latencies came as a slice.
    pub fn of(latencies: &Slice, unanswered: u64, unsent: u64) -> Self {
        let mut censored = Self::new(Time(0), latencies.start);
        censored.interval.add_slice(latencies);
        Self { unanswered, unsent, ..censored }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.interval.is_empty() && self.unanswered == 0 && self.unsent == 0
    }

    pub(crate) fn unanswered(&mut self, intended: Time, end: Time) {
        self.unanswered += 1;
        let waited = end.since(intended);
        self.interval.due(intended).record(Metric::ACK_RESPONSE, waited);
    }

    /// The instant before which all due counts as that at `due`: for the same phase, with the same latency at `end`.
    pub(crate) fn alike_until(&self, due: Time, end: Time) -> Time {
        let shortest = measure::lowest_equivalent(end.since(due));
        let same_latency = match shortest {
            Nanos::ZERO => Time(u64::MAX),
            Nanos(shortest) => Time(end.0 - shortest + 1),
        };
        if due < self.measure_at { same_latency.min(self.measure_at) } else { same_latency }
    }

    /// Takes an operation that was begun and had no answer.
    pub(crate) fn unanswered_operation(&mut self, due: Time, end: Time, metrics: &[Metric]) {
        let latencies = self.interval.due(due);
        for metric in metrics {
            latencies.record(*metric, end.since(due));
        }
    }

    /// Takes the operations that were due before `last` and never began. They are counted by latency, not one by one.
    pub(crate) fn never_begun(&mut self, due_times: &mut DueTimes, last: Time, end: Time, metrics: &[Metric]) {
        while due_times.due() < last {
            let due = due_times.due();
            let alike = self.alike_until(due, end);
            let count = due_times.pass(alike.min(last), u64::MAX);
            let latencies = self.interval.due(due);
            for metric in metrics {
                latencies.record_n(*metric, end.since(due), count);
            }
        }
    }

    /// Takes `count` that should have been answered, where there are answers, and each delivered so many times.
    pub(crate) fn unsent(&mut self, due: Time, end: Time, count: u64, is_answered: bool, deliveries: u64) {
        self.unsent += count;
        let waited = end.since(due);
        let latencies = self.interval.due(due);
        latencies.record_n(Metric::SEND_DELAY, waited, count);
        if is_answered {
            latencies.record_n(Metric::ACK_RESPONSE, waited, count);
        }
        if deliveries > 0 {
            // A count of 0 would still move the maximum.
            let count = count.saturating_mul(deliveries);
            latencies.record_n(Metric::END_TO_END, waited, count);
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.interval.merge(&other.interval);
        self.unanswered += other.unanswered;
        self.unsent += other.unsent;
    }
}

/// A phase that took place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhaseTimes {
    /// The phase that took place.
    pub phase: Phase,
    /// First instant.
    pub start: Time,
    /// First instant after it.
    pub end: Time,
}
