//! Who limited a run: a pure function from the evidence to a verdict. It concludes only what the
//! evidence shows, and says "undecided" and why where it shows nothing.
//!
//! The order of the questions matters. Was the schedule kept? Then it was the limit. Did the generator
//! get the CPU that it wanted? Was it at work all the time? Then its producers' waiting says little,
//! for what they wait for may lie unread. Only a generator with time to spare makes it evidence that
//! its producers waited for the broker.

mod churn;
mod evidence;
mod limits;
mod words;

use crate::warnings::LAG_SECONDS;
use archive::{Evidence, LimitedBy, LoopUse, Reason, Verdict};

pub(crate) use churn::churn_verdict;
pub(crate) use evidence::Planned;
use words::{duration, percent, rate};

/// Shorter runs show nothing but their beginning, in seconds.
const SHORTEST: f64 = 0.5;
/// Below this share of the requested rate it was not achieved, as for the warning.
const ACHIEVED: f64 = 0.995;
/// More messages than this share over 1 ms late, and it was not kept either.
const LATE: f64 = 0.01;
/// An event loop that is at work for this share of its time has nothing left.
const SATURATED: f64 = 0.9;
/// An event loop that waits for a core for this share of its time is slowed down by that.
const STARVED: f64 = 0.2;
/// A machine that is idle for less than this share of its time is full.
const FULL: f64 = 0.07;
/// A broker that has this share of what it and the generator use is what fills the machine.
const MOST: f64 = 0.75;
/// CPU of other processes that counts, in cores.
const OTHERS: f64 = 0.35;
/// One cause explains a run where it has this share of the time that was lost.
const DOMINANT: f64 = 0.5;
/// All causes that lie with the broker together do where they have this share.
const TOGETHER: f64 = 0.65;
/// A thread of the broker that uses this share of a core has nothing left.
const THREAD_FULL: f64 = 0.9;
/// An answer on the same machine that takes longer was kept waiting there, nanoseconds.
const SLOW_ANSWER_NS: u64 = 10_000_000;
/// A round trip that takes longer, nanoseconds, is not within a machine.
const LOOPBACK_NS: u64 = 1_000_000;
/// An unloaded broker that takes longer for its simplest answer, nanoseconds, is strange.
const SLOW_IDLE_NS: u64 = 5_000_000;
/// A receive window that is full for less than this share of the time is not what is waited for.
const NOT_FULL: f64 = 0.2;
/// Round trips that take so long under load, nanoseconds, stand in a queue; below, the receiver may
/// have delayed its acknowledgement (40 ms on Linux).
const FULL_LINK_NS: u64 = 100_000_000;
/// So many bytes in a socket, although the receiver has room, wait for the link.
const UNSENT: u64 = 16 << 10;
/// A loop lag below this is what an operating system does, nanoseconds.
const LAG_NS: u64 = 1_000_000;
/// Fewer deliveries than this share of what they should be: consumers fall behind.
const BEHIND: f64 = 0.95;

/// Concludes.
pub(crate) fn verdict(evidence: Evidence) -> Verdict {
    let case = Case::new(&evidence);
    let Conclusion {
        limited_by,
        mut sentence,
        because,
    } = case.decide();
    if let Some(could) = case.could_have_made(limited_by) {
        sentence.push_str(&could);
    }
    let reasons = ordered(case.reasons(), &because);
    Verdict {
        limited_by,
        sentence,
        reasons,
        evidence,
    }
}

/// What was decided, in words, and the codes of the reasons that it rests on.
struct Conclusion {
    limited_by: LimitedBy,
    sentence: String,
    because: Vec<&'static str>,
}

impl Conclusion {
    fn new(limited_by: LimitedBy, sentence: impl Into<String>, because: &[&'static str]) -> Self {
        Self {
            limited_by,
            sentence: sentence.into(),
            because: because.to_vec(),
        }
    }
}

/// The reasons that decided first, in the order of their weight.
fn ordered(mut reasons: Vec<Reason>, because: &[&str]) -> Vec<Reason> {
    let place = |reason: &Reason| because.iter().position(|code| *code == reason.code);
    for reason in &mut reasons {
        reason.decided = place(reason).is_some();
    }
    reasons.sort_by_key(|reason| place(reason).unwrap_or(usize::MAX));
    reasons
}

/// The evidence, and what follows from it at once.
struct Case<'a> {
    e: &'a Evidence,
    /// Of the loop that was at work for most of its time.
    busiest: f64,
    /// Of the loop that waited most for a core.
    starved: f64,
    /// CPU of processes that are neither.
    others: Option<f64>,
    full: bool,
}

impl<'a> Case<'a> {
    fn new(e: &'a Evidence) -> Self {
        Self {
            e,
            busiest: e
                .loops
                .iter()
                .map(|l| at_work(l, e.spun))
                .fold(0.0, f64::max),
            starved: e.loops.iter().map(starved).fold(0.0, f64::max),
            others: others(e),
            full: e.idle.is_some_and(|idle| idle < FULL),
        }
    }

    fn decide(&self) -> Conclusion {
        let e = self.e;
        if e.seconds < SHORTEST {
            let text = format!("only {:.2} s were measured, too short to tell", e.seconds);
            return undecided(text, &[]);
        }
        if self.kept_schedule() {
            return self.scheduled();
        }
        match e.producers {
            Some(_) if e.closed_loop && self.lacks_cores().is_none() => self.closed_loop(),
            Some(_) => self.producers(),
            None if e.received_rate > 0.0 => self.consumers(),
            None => undecided("no message was sent or received", &[]),
        }
    }

    /// Producers that think: what part of their time was the broker's?
    fn closed_loop(&self) -> Conclusion {
        let answers = self.answers_share();
        if answers >= DOMINANT {
            return self.window();
        }
        Conclusion::new(
            LimitedBy::Schedule,
            format!(
                "limited by the think time that was asked for: producers waited {} of their time for the \
                 broker's answers",
                percent(answers)
            ),
            &["schedule", "loop_busy"],
        )
    }

    /// The share of its time that a producer with one message in flight waits for its answer.
    fn answers_share(&self) -> f64 {
        let producers = self.e.in_flight_limit.unwrap_or(1).max(1) as f64;
        self.e.sent_rate * self.e.answer_ns as f64 / 1e9 / producers
    }

    fn kept_schedule(&self) -> bool {
        let e = self.e;
        self.reached_rate() && e.late_share <= LATE
    }

    /// As many messages were sent as were asked for, whenever.
    fn reached_rate(&self) -> bool {
        let e = self.e;
        e.requested_rate.is_some_and(|asked| {
            let missing = (asked - e.sent_rate) * e.seconds;
            e.sent_rate >= asked * ACHIEVED || missing < 1.5 + 4.0 * e.requested_deviation
        })
    }

    /// What was asked for was sent: did it also arrive?
    fn scheduled(&self) -> Conclusion {
        let e = self.e;
        let asked = rate(e.requested_rate.unwrap_or(e.sent_rate));
        let got = rate(e.received_rate);
        if self.consumers_behind() && e.slow_consumers {
            return Conclusion::new(
                LimitedBy::Schedule,
                format!(
                    "limited by what consumers were asked for: all {asked} msg/s were sent, and they \
                     took {got} at their own pace"
                ),
                &["consumers_behind", "requested"],
            );
        }
        if self.consumers_behind() {
            let mut conclusion = self.consumers();
            conclusion.sentence = format!(
                "all {asked} msg/s that were asked for were sent, but consumers got {got}: {}",
                conclusion.sentence
            );
            conclusion.because.insert(0, "consumers_behind");
            return conclusion;
        }
        let at_work = if self.busiest < SATURATED {
            format!("at work for {} of the time", percent(self.busiest))
        } else {
            "at work all the time".to_owned()
        };
        let sent =
            format!("limited by the schedule: bellows sent the {asked} msg/s that were asked for");
        let text = if e.loop_lag_max_ns < LAG_NS {
            format!("{sent} on time, and its event loop was {at_work}")
        } else {
            // Both are true: the rate was kept, and single messages were not on time.
            let warned = if e.lag_explains >= LAG_SECONDS {
                " (see the warning)"
            } else {
                ""
            };
            format!(
                "{sent}, on time on average ({} left over 1 ms late), but up to {} late at worst{warned}; \
                 its event loop was {at_work}",
                percent(e.late_share),
                duration(e.loop_lag_max_ns)
            )
        };
        Conclusion::new(
            LimitedBy::Schedule,
            text,
            &["requested", "schedule", "loop_busy"],
        )
    }

    fn consumers_behind(&self) -> bool {
        let e = self.e;
        e.expected_rate
            .is_some_and(|expected| e.received_rate < expected * BEHIND)
    }

    /// The broker may be one of the other processes of this machine.
    fn broker_may_be_here(&self) -> bool {
        let e = self.e;
        e.broker.is_none() && (e.same_machine || e.relay.is_some())
    }
}

/// All cores that broker and generator could share.
fn machine_cores(e: &Evidence) -> u32 {
    if e.machine_cores == 0 {
        e.cores
    } else {
        e.machine_cores
    }
}

/// CPU of processes that are neither broker nor generator, in cores; `None` where the broker may be
/// one of them.
pub(crate) fn others(e: &Evidence) -> Option<f64> {
    if e.broker.is_none() && (e.same_machine || e.relay.is_some()) {
        return None;
    }
    let broker = e.broker.as_ref().filter(|_| e.same_machine);
    let ours = e.client_cores? + broker.map_or(0.0, |used| used.cores);
    let used = f64::from(machine_cores(e)) * (1.0 - e.idle? - e.steal.unwrap_or(0.0));
    Some((used - ours).max(0.0))
}

fn undecided(why: impl std::fmt::Display, because: &[&'static str]) -> Conclusion {
    let text = format!("undecided who limits: {why}");
    Conclusion::new(LimitedBy::Undecided, text, because)
}

/// The share of its time that an event loop was at work. Falling asleep and waking up cost CPU while it
/// counts as idle; while it spins, CPU says nothing.
fn at_work(used: &LoopUse, spun: bool) -> f64 {
    let cpu = if spun { 0.0 } else { used.cpu };
    (1.0 - used.idle).max(cpu).clamp(0.0, 1.0)
}

/// The share of its time that an event loop had something to do and no core. Where the kernel keeps no
/// account, it is what is neither idle nor CPU, which leaves out late wake-ups.
fn starved(used: &LoopUse) -> f64 {
    used.starved
        .unwrap_or_else(|| (1.0 - used.idle - used.cpu).max(0.0))
}

fn reason(code: &str, text: String) -> Reason {
    Reason {
        code: code.to_owned(),
        text,
        decided: false,
    }
}

#[cfg(test)]
mod tests;
