//! Who limited a run: a pure function from the evidence to a verdict. It concludes only what the
//! evidence shows, and says "undecided" and why where it shows nothing.
//!
//! The order of the questions matters. Was the schedule kept? Then it was the limit. Did the generator
//! get the CPU that it wanted? Was it at work all the time? Then its producers' waiting says little,
//! for what they wait for may lie unread. Only a generator with time to spare makes it evidence that
//! its producers waited for the broker.

mod evidence;
mod words;

use archive::{Evidence, LimitedBy, LoopUse, Reason, Verdict};

pub(crate) use evidence::Planned;
use words::{duration, percent, rate, text};

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
/// Fewer deliveries than this share of what they should be: consumers fall behind.
const BEHIND: f64 = 0.95;

/// Concludes.
pub(crate) fn verdict(evidence: Evidence) -> Verdict {
    let case = Case::new(&evidence);
    let (limited_by, mut sentence) = case.decide();
    if let Some(could) = case.could_have_made(limited_by) {
        sentence.push_str(&could);
    }
    let reasons = case.reasons();
    Verdict {
        limited_by,
        sentence,
        reasons,
        evidence,
    }
}

type Conclusion = (LimitedBy, String);

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
            return undecided(format!(
                "only {:.2} s were measured, too short to tell",
                e.seconds
            ));
        }
        if self.kept_schedule() {
            return self.scheduled();
        }
        match e.producers {
            Some(_) if e.closed_loop && self.lacks_cores().is_none() => self.closed_loop(),
            Some(_) => self.producers(),
            None if e.received_rate > 0.0 => self.consumers(),
            None => undecided("no message was sent or received"),
        }
    }

    /// Producers that think: what part of their time was the broker's?
    fn closed_loop(&self) -> Conclusion {
        let e = self.e;
        let producers = e.in_flight_limit.unwrap_or(1).max(1) as f64;
        let answers = e.sent_rate * e.answer_ns as f64 / 1e9 / producers;
        if answers >= DOMINANT {
            return self.window();
        }
        (
            LimitedBy::Schedule,
            format!(
                "limited by the think time that was asked for: producers waited {} of their time for the \
                 broker's answers",
                percent(answers)
            ),
        )
    }

    fn kept_schedule(&self) -> bool {
        let e = self.e;
        e.requested_rate.is_some_and(|asked| {
            let missing = (asked - e.sent_rate) * e.seconds;
            (e.sent_rate >= asked * ACHIEVED || missing < 1.5 + 4.0 * e.requested_deviation)
                && e.late_share <= LATE
        })
    }

    /// What was asked for was sent: did it also arrive?
    fn scheduled(&self) -> Conclusion {
        let e = self.e;
        let asked = e.requested_rate.unwrap_or(e.sent_rate);
        if self.consumers_behind() && e.slow_consumers {
            return (
                LimitedBy::Schedule,
                format!(
                    "limited by what consumers were asked for: all {} msg/s were sent, and they took {} \
                     at their own pace",
                    rate(asked),
                    rate(e.received_rate)
                ),
            );
        }
        if self.consumers_behind() {
            let (limited_by, why) = self.consumers();
            let text = format!(
                "all {} msg/s that were asked for were sent, but consumers got {}: {why}",
                rate(asked),
                rate(e.received_rate)
            );
            return (limited_by, text);
        }
        let spare = if self.busiest < SATURATED {
            format!(
                ", and its event loop was at work for {} of the time",
                percent(self.busiest)
            )
        } else {
            String::new()
        };
        (
            LimitedBy::Schedule,
            format!(
                "limited by the schedule: bellows sent the {} msg/s that were asked for on time{spare}",
                rate(asked)
            ),
        )
    }

    fn consumers_behind(&self) -> bool {
        let e = self.e;
        e.expected_rate
            .is_some_and(|expected| e.received_rate < expected * BEHIND)
    }

    /// All-out, or at a rate that was not reached.
    fn producers(&self) -> Conclusion {
        if let Some(conclusion) = self.lacks_cores() {
            return conclusion;
        }
        if self.busiest >= SATURATED {
            return self.saturated();
        }
        let Some(time) = self.e.producers else {
            return undecided("nothing is known of the producers");
        };
        let theirs = time.budget + time.socket + time.blocked + time.away;
        let lost = theirs + time.ready;
        if lost < 0.02 {
            return self.late_only();
        }
        let waits = [
            (time.budget, Self::window as fn(&Self) -> Conclusion),
            (time.socket, Self::back_pressure),
            (time.blocked, Self::alarm),
            (time.away, Self::away),
        ];
        let largest = waits.into_iter().max_by(|a, b| a.0.total_cmp(&b.0));
        match largest {
            Some((share, explain)) if share >= lost * DOMINANT || theirs >= lost * TOGETHER => {
                explain(self)
            }
            _ if time.ready >= lost * DOMINANT => (
                LimitedBy::Generator,
                format!(
                    "limited by the generator: for {} of the time a message was due and could go, and \
                     its event loop was at work for {}: use more --threads",
                    percent(time.ready),
                    percent(self.busiest)
                ),
            ),
            _ => undecided(format!(
                "no cause stands out: messages waited {} of the time for the event loop, {} for the \
                 broker's answers, {} for their sockets",
                percent(time.ready),
                percent(time.budget),
                percent(time.socket)
            )),
        }
    }

    /// The event loop, or the broker, was ready to run and had no core.
    fn lacks_cores(&self) -> Option<Conclusion> {
        let e = self.e;
        let broker = e.broker.as_ref().filter(|_| e.same_machine);
        let broker_starved = broker.and_then(|used| used.starved).unwrap_or(0.0);
        let waited = format!(
            "event loop waited {} of the time for a core",
            percent(self.starved)
        );
        let others = self.others.filter(|others| *others >= OTHERS);
        if let Some(others) = others.filter(|_| self.full && broker_starved >= STARVED) {
            return Some(undecided(format!(
                "other processes took {others:.1} of the {} cores, the broker's threads together waited \
                 {broker_starved:.1} s each second for one, and the generator's {waited}: stop them, \
                 and run again",
                machine_cores(e)
            )));
        }
        if self.starved < STARVED {
            return None;
        }
        if let Some(others) = others {
            return Some((
                LimitedBy::Generator,
                format!(
                    "limited by the generator: its {waited}, while other processes took {others:.1} \
                     cores: stop them, or lift its CPU affinity"
                ),
            ));
        }
        if let Some(used) = broker.filter(|_| self.full) {
            let client = e.client_cores.unwrap_or(0.0);
            // The few that a generator takes are not what a broker lacks.
            return (used.cores < (used.cores + client) * MOST).then(|| {
                undecided(format!(
                    "broker ({:.1}) and generator ({client:.1}) fill the {} cores that they share, and \
                     the generator's {waited}: apart, both would do more, and it would show which does \
                     less",
                    used.cores, machine_cores(e)
                ))
            });
        }
        Some((
            LimitedBy::Generator,
            format!(
                "limited by the generator: its {waited}: give it more, or lift its CPU affinity"
            ),
        ))
    }

    fn saturated(&self) -> Conclusion {
        let e = self.e;
        let busy = percent(self.busiest);
        let broker_full = e.broker.as_ref().and_then(|used| used.busiest_thread);
        if e.same_machine && broker_full.is_some_and(|share| share >= THREAD_FULL) {
            return undecided(format!(
                "the generator's event loop was at work for {busy} of the time and the broker's \
                 busiest thread for {}: neither has anything left; more --threads would show whether \
                 the broker has",
                percent(broker_full.unwrap_or(0.0))
            ));
        }
        let threads = e.loops.len();
        (
            LimitedBy::Generator,
            format!(
                "limited by the generator: its event loop was at work for {busy} of the time: use more \
                 --threads (now {threads})"
            ),
        )
    }

    /// The rate was achieved, only not on time.
    fn late_only(&self) -> Conclusion {
        let others = self.others.filter(|others| *others >= OTHERS);
        let others = others.map_or_else(String::new, |others| {
            format!(", while other processes took {others:.1} cores")
        });
        (
            LimitedBy::Generator,
            format!(
                "limited by the generator: {} of the messages left over 1 ms late although nothing \
                 held them up; its event loop was late by up to {}{others}",
                percent(self.e.late_share),
                duration(self.e.loop_lag_max_ns)
            ),
        )
    }

    /// The in-flight budget was used up: answers were awaited.
    fn window(&self) -> Conclusion {
        let e = self.e;
        let share = if e.closed_loop {
            let producers = e.in_flight_limit.unwrap_or(1).max(1) as f64;
            (e.sent_rate * e.answer_ns as f64 / 1e9 / producers).min(1.0)
        } else {
            e.producers.map_or(0.0, |time| time.budget)
        };
        let answer = duration(e.answer_ns);
        let window = match e.in_flight_limit {
            Some(limit) => format!("{} in flight x {answer} until confirmed", text(limit)),
            None => format!("{answer} until confirmed"),
        };
        let waited = format!(
            "producers waited {} of the time for confirms",
            percent(share)
        );
        let round_trip = e.round_trip_ns.unwrap_or(0);
        if !e.same_machine && round_trip.saturating_mul(2) >= e.answer_ns && round_trip > 0 {
            return (
                LimitedBy::Network,
                format!(
                    "limited by the network: {waited} ({window}), and a round trip takes {}: raise \
                     --max-pending",
                    duration(round_trip)
                ),
            );
        }
        if let Some(busy) = self.broker_is_busy() {
            let text = format!("limited by the broker: {waited} ({window}), and {busy}");
            return (LimitedBy::Broker, text);
        }
        let text = match &e.broker {
            None => format!(
                "limited by the broker's answers: {waited} ({window}); its CPU is not known"
            ),
            Some(used) => {
                let cores = format!("{:.1} of {} cores", used.cores, machine_cores(e));
                if e.same_machine && e.answer_ns >= SLOW_ANSWER_NS {
                    format!(
                        "limited by the broker: {waited} ({window}), though it used only {cores}: it \
                         stalled, or waited for something else than CPU (a disk, a lock, one full \
                         process)"
                    )
                } else {
                    format!(
                        "limited by the broker's answer time and the in-flight budget: {window}; the \
                         broker used {cores}, so try a larger --max-pending"
                    )
                }
            }
        };
        (LimitedBy::Broker, text)
    }

    /// What shows that the broker has no CPU left.
    fn broker_is_busy(&self) -> Option<String> {
        let e = self.e;
        let used = e.broker.as_ref()?;
        let name = used.busiest_thread_name.as_deref().unwrap_or("its busiest");
        let others_fill_it = self.others.is_some_and(|others| others >= OTHERS);
        if e.same_machine && self.full && !others_fill_it {
            return Some(format!(
                "it fills the machine: {:.1} of {} cores",
                used.cores,
                machine_cores(e)
            ));
        }
        if let Some(share) = used.busiest_thread.filter(|share| *share >= THREAD_FULL) {
            return Some(format!(
                "its thread {name} used {} of a core",
                percent(share)
            ));
        }
        (e.same_machine && used.cores >= f64::from(machine_cores(e)) * SATURATED)
            .then(|| format!("it used {:.1} of {} cores", used.cores, machine_cores(e)))
    }

    /// The sockets took no more.
    fn back_pressure(&self) -> Conclusion {
        let e = self.e;
        let share = e.producers.map_or(0.0, |time| time.socket);
        let full = format!("sockets to it were full for {} of the time", percent(share));
        if e.same_machine {
            let busy = self
                .broker_is_busy()
                .map_or_else(String::new, |busy| format!(", and {busy}"));
            let text = format!("limited by the broker: it did not read, {full}{busy}");
            return (LimitedBy::Broker, text);
        }
        match e.connections {
            Some(tcp) if tcp.peer_full >= DOMINANT => (
                LimitedBy::Broker,
                format!(
                    "limited by the broker: it did not read, {full}, and its receive window for {}",
                    percent(tcp.peer_full)
                ),
            ),
            Some(tcp) => (
                LimitedBy::Network,
                format!(
                    "limited by the network: {full}, but the broker's receive window only for {}; {} \
                     of the segments were sent again",
                    percent(tcp.peer_full),
                    percent(tcp.resent)
                ),
            ),
            None => undecided(format!(
                "{full}: either the broker does not read, or the network is full"
            )),
        }
    }

    fn alarm(&self) -> Conclusion {
        let share = self.e.producers.map_or(0.0, |time| time.blocked);
        (
            LimitedBy::Broker,
            format!(
                "limited by the broker: it blocked its publishers for {} of the time (connection.blocked, \
                 a memory or disk alarm)",
                percent(share)
            ),
        )
    }

    fn away(&self) -> Conclusion {
        let share = self.e.producers.map_or(0.0, |time| time.away);
        (
            LimitedBy::Broker,
            format!(
                "limited by the broker: producers had no connection to it for {} of the time",
                percent(share)
            ),
        )
    }

    /// Who limits the deliveries.
    fn consumers(&self) -> Conclusion {
        if let Some(conclusion) = self.lacks_cores() {
            return conclusion;
        }
        if self.e.slow_consumers {
            return (
                LimitedBy::Schedule,
                "limited by what consumers were asked for: they took their time".to_owned(),
            );
        }
        if self.busiest >= SATURATED {
            return self.saturated();
        }
        if let Some(busy) = self.broker_is_busy() {
            return (
                LimitedBy::Broker,
                format!("limited by the broker: consumers had time to spare, and {busy}"),
            );
        }
        undecided(format!(
            "consumers were at work for {} of the time and the broker had CPU to spare: the queue may \
             have been empty, or deliveries waited for acknowledgements (try a larger --prefetch)",
            percent(self.busiest)
        ))
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

/// CPU of processes that are neither broker nor generator, in cores.
pub(crate) fn others(e: &Evidence) -> Option<f64> {
    let broker = e.broker.as_ref().filter(|_| e.same_machine);
    let ours = e.client_cores? + broker.map_or(0.0, |used| used.cores);
    let used = f64::from(machine_cores(e)) * (1.0 - e.idle? - e.steal.unwrap_or(0.0));
    Some((used - ours).max(0.0))
}

fn undecided(why: impl std::fmt::Display) -> Conclusion {
    (LimitedBy::Undecided, format!("undecided who limits: {why}"))
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
    }
}

#[cfg(test)]
mod tests;
