//! The limit of a load: the schedule, the generator, the broker, or what lies between them.

use archive::{Awaited, Busy, Cause, Facts, Lacking, Lateness, LimitedBy, Stall, Stalled};

use super::Conclusion;
use super::thresholds::{
    ACHIEVED, AT_WORK, BEHIND, DOMINANT, EXPLAINS, FULL, FULL_LINK_NS, LATE, LOOPBACK_NS, LOST, MOST, NOT_FULL, OTHERS,
    RUN_QUEUE_WAIT, SATURATED, SHORTEST, SLOW_ANSWER_NS, SLOW_IDLE_NS, THREAD_FULL, TOGETHER, UNSENT, WORTH,
};

/// The facts, and figures derived from them.
pub(super) struct Derived<'a> {
    pub(super) e: &'a Facts,
    /// Share of time at work, of the busiest event loop.
    pub(super) at_work: f64,
    /// Share of time in the run queue, of the event loop that waited most.
    pub(super) run_queue_wait: f64,
    /// CPU of processes that are neither, where it is much.
    pub(super) others: Option<f64>,
    pub(super) full: bool,
}

impl<'a> Derived<'a> {
    pub(super) fn new(e: &'a Facts) -> Self {
        Self {
            e,
            at_work: e.at_work(),
            run_queue_wait: e.run_queue_wait(),
            others: e.other_cores().filter(|others| *others >= OTHERS),
            full: e.idle.is_some_and(|idle| idle < FULL),
        }
    }

    pub(super) fn decide(&self) -> Conclusion {
        let e = self.e;
        if e.ended.broke_off && self.all_failed() {
            return Conclusion::undecided(Cause::AllFailed, &[]);
        }
        if e.ended.broke_off {
            return Conclusion::undecided(Cause::BrokeOff, &["loop_busy"]);
        }
        if e.seconds < SHORTEST {
            return Conclusion::undecided(Cause::TooShort, &[]);
        }
        if self.reached_rate() {
            return self.rate_met();
        }
        match e.producers {
            Some(_) if e.closed_loop && self.lacks_cores().is_none() => self.closed_loop(),
            Some(_) => self.producers(),
            None if e.received_rate > 0.0 => self.consumers(),
            None => Conclusion::undecided(Cause::NoLoad, &[]),
        }
    }

    /// Whether no operation of the load succeeded, which is why its run failed; it has not ended early.
    fn all_failed(&self) -> bool {
        let mut own = self.e.ended.churn.iter().filter(|churn| !churn.beside);
        own.any(|churn| churn.begun > 0 && churn.failed >= churn.begun)
    }

    /// Whether all requested were sent, late or not, but for one at the edges; random arrivals lack up to 4 deviations.
    /// A backlog of the warm-up that was sent instead of what was due leaves as much unsent at the end.
    pub(super) fn reached_rate(&self) -> bool {
        let e = self.e;
        e.requested_rate.is_some_and(|requested| {
            let sent = e.sent_rate.min(requested - e.ended.unsent as f64 / e.seconds);
            let missing = (requested - sent) * e.seconds;
            sent >= requested * ACHIEVED || missing < 1.5 + 4.0 * e.requested_deviation
        })
    }

    /// The requested rate was met: did the messages also arrive, and in time, and did the operations succeed?
    fn rate_met(&self) -> Conclusion {
        let e = self.e;
        if self.consumers_behind() && e.slow_consumers {
            return Conclusion::new(LimitedBy::Schedule, Cause::ConsumersSlow, &["consumers_behind", "requested"]);
        }
        if self.consumers_behind() {
            let mut conclusion = self.consumers();
            conclusion.cause = Cause::ConsumersBehind { why: Box::new(conclusion.cause) };
            conclusion.because.insert(0, "consumers_behind");
            return conclusion;
        }
        if e.failed_share() > 1.0 - ACHIEVED {
            return Conclusion::undecided(Cause::SomeFailed, &["requested", "loop_busy"]);
        }
        let late = self.lateness();
        let because: &[&'static str] = match late {
            None => &["requested", "schedule", "loop_busy"],
            Some(Lateness::BrokerStalled | Lateness::GeneratorStalled | Lateness::MachineStalled) => {
                &["requested", "stalls", "loop_busy"]
            }
            Some(Lateness::OwnFault) => &["requested", "own_fault", "stalls"],
            Some(Lateness::Broker) => &["requested", "in_flight_full", "socket_full"],
            Some(Lateness::Cores) => &["requested", "loop_run_queue_wait", "machine_idle"],
            Some(Lateness::Generator) => &["requested", "loop_busy", "machine_idle"],
        };
        Conclusion::new(LimitedBy::Schedule, Cause::RateMet { late }, because)
    }

    /// First finding of a run that met its rate: stalls of a hundredth of it, or a hundredth of its messages late.
    pub(super) fn lateness(&self) -> Option<Lateness> {
        let e = self.e;
        if e.late_share <= LATE {
            // With room for all in flight, messages leave in time whatever the broker does.
            return self.broker_stood_still().then_some(Lateness::BrokerStalled);
        }
        let late = e.late_share * e.sent_rate * e.seconds;
        let is_most = |messages: f64| messages >= late * DOMINANT;
        let delays = |who| is_most(self.stalls(who).2 as f64);
        let time = e.producers.unwrap_or_default();
        let waits = time.of_broker();
        let theirs: f64 = waits.iter().sum();
        // A broker's stall holds up only what waits for it; one that the run made, also on one connection of many.
        let is_own = e.stalled_in_faults(Stalled::Broker);
        if (theirs > time.ready || is_own) && delays(Stalled::Broker) {
            return Some(Lateness::BrokerStalled);
        }
        let behind = e.ended.behind;
        if explain(behind) && behind.in_faults >= e.sent_rate * e.seconds * LATE {
            return Some(Lateness::OwnFault);
        }
        let for_cores = |who| {
            let delayed = e.stood_still(who).map(|it| it.messages_delayed).sum::<u64>();
            self.stalled_for_cores(who) && is_most(delayed as f64)
        };
        let is_brokers = theirs > time.ready && for_cores(Stalled::Broker);
        if is_brokers || for_cores(Stalled::Generator) || for_cores(Stalled::Machine) {
            return Some(Lateness::Cores);
        }
        if delays(Stalled::Generator) {
            return Some(Lateness::GeneratorStalled);
        }
        if delays(Stalled::Machine) {
            return Some(Lateness::MachineStalled);
        }
        // The sentence tells how long the largest of them was.
        let told = waits.into_iter().any(|share| share >= WORTH);
        // A loop that had a core whenever it had something to do is late for another reason, on a full machine, too.
        let waited = self.run_queue_wait;
        let explained = waited > 0.0 && waited >= e.late_time() * DOMINANT;
        Some(if theirs > time.ready && told {
            Lateness::Broker
        } else if waited >= RUN_QUEUE_WAIT || explained {
            Lateness::Cores
        } else {
            Lateness::Generator
        })
    }

    /// Whether the broker stalled long enough for this to be said first.
    pub(super) fn broker_stood_still(&self) -> bool {
        let (for_s, times, _) = self.stalls(Stalled::Broker);
        times > 0 && for_s >= self.e.seconds * WORTH
    }

    /// Whether whoever stalled was ready to run without a core for at least half of that time.
    pub(super) fn waited_for_cores(&self, who: Stalled) -> bool {
        let (waited_s, _) = self.e.waited_in_stalls(who);
        waited_s > 0.0 && waited_s >= self.e.stalled_s(self.e.stood_still(who)) * DOMINANT
    }

    /// Whether other processes had that core, which explains stalls; not so in a fault of the run itself.
    fn stalled_for_cores(&self, who: Stalled) -> bool {
        let is_own = self.e.stalled_in_faults(who);
        self.others.is_some() && !is_own && self.waited_for_cores(who)
    }

    /// Total time of somebody's stalls in the measured phase, their number, and the messages delayed. Time without a
    /// connection to a broker that was there is no stall, and time without a core has another cause.
    fn stalls(&self, who: Stalled) -> (f64, u64, u64) {
        let for_cores = self.stalled_for_cores(who);
        let is_who = |it: &&Stall| match it.away {
            true => it.who == who && who == Stalled::Broker,
            false => it.who == who && !for_cores,
        };
        let all: Vec<&Stall> = self.e.stalls().filter(is_who).collect();
        let delayed = all.iter().map(|stall| stall.messages_delayed).sum();
        let for_s = self.e.stalled_s(all.iter().copied());
        (for_s, all.len() as u64, delayed)
    }

    /// Producers in a closed loop: the broker's part of their time decides.
    fn closed_loop(&self) -> Conclusion {
        if self.e.answers_share() >= DOMINANT {
            return self.window();
        }
        Conclusion::new(LimitedBy::Schedule, Cause::ThinkTime, &["schedule", "loop_busy"])
    }

    pub(super) fn consumers_behind(&self) -> bool {
        let e = self.e;
        e.expected_rate.is_some_and(|expected| e.received_rate < expected * BEHIND)
    }

    /// Unthrottled, or at a rate that was not met.
    fn producers(&self) -> Conclusion {
        let found = (self.stood_still())
            .or_else(|| self.own_fault(self.e.ended.behind, false))
            .or_else(|| self.stalled_without_cores())
            .or_else(|| self.lacks_cores());
        if let Some(conclusion) = found {
            return conclusion;
        }
        if self.at_work >= SATURATED {
            return self.saturated();
        }
        let Some(time) = self.e.producers else { return Conclusion::undecided(Cause::NoLoad, &[]) };
        let theirs: f64 = time.of_broker().iter().sum();
        let lost = theirs + time.ready;
        if lost < LOST || self.nothing_was_due(lost) {
            return Conclusion::new(LimitedBy::Schedule, Cause::NothingDue, &["schedule", "loop_busy"]);
        }
        let waits = [
            (time.budget, Self::window as fn(&Self) -> Conclusion),
            (time.credit, Self::credit),
            (time.socket, Self::back_pressure),
            (time.blocked, |_: &Self| Conclusion::new(LimitedBy::Broker, Cause::Alarm, &["blocked", "broker_cpu"])),
            (time.away, |_: &Self| Conclusion::new(LimitedBy::Broker, Cause::NoConnection, &["away", "broker_cpu"])),
        ];
        let largest = waits.into_iter().max_by(|a, b| a.0.total_cmp(&b.0));
        match largest {
            Some((share, explain)) if share >= WORTH && (share >= lost * DOMINANT || theirs >= lost * TOGETHER) => {
                explain(self)
            }
            // What waits for a loop that does nothing waits for something else.
            _ if time.ready >= lost * DOMINANT && self.at_work >= AT_WORK => {
                Conclusion::new(LimitedBy::Generator, Cause::GeneratorLate, &["ready", "loop_busy"])
            }
            _ => Conclusion::undecided(Cause::Unclear, &["ready", "in_flight_full", "socket_full"]),
        }
    }

    /// Whether nothing was due most of the time, and the time that was `lost` does not explain the missing messages.
    fn nothing_was_due(&self, lost: f64) -> bool {
        let e = self.e;
        let idle = e.producers.is_some_and(|time| time.schedule >= DOMINANT);
        let lacking = e.requested_rate.map(|requested| 1.0 - e.sent_rate / requested);
        idle && lacking.is_none_or(|lacking| lost < lacking * EXPLAINS)
    }

    /// The broker stalled or was away for most of the lost time: others that took CPU meanwhile are not the cause.
    fn stood_still(&self) -> Option<Conclusion> {
        let (for_s, times, _) = self.stalls(Stalled::Broker);
        let because = ["stalls", "in_flight_full", "broker_cpu"];
        let cause = Cause::BrokerStalled { for_s, times };
        self.is_most_of_lost(for_s).then(|| Conclusion::new(LimitedBy::Broker, cause, &because))
    }

    /// A stall while the broker waited for cores that other processes had.
    fn stalled_without_cores(&self) -> Option<Conclusion> {
        let for_s = self.e.stalled_s(self.e.stood_still(Stalled::Broker));
        let explains = self.stalled_for_cores(Stalled::Broker) && self.is_most_of_lost(for_s);
        explains.then(|| Conclusion::undecided(Cause::StalledForCores, &["machine_idle", "stalls", "broker_cpu"]))
    }

    /// Whether so many seconds are most of the time that producers lost, and most of that was the broker's.
    fn is_most_of_lost(&self, for_s: f64) -> bool {
        let Some(time) = self.e.producers else { return false };
        let theirs: f64 = time.of_broker().iter().sum();
        for_s >= self.e.seconds * LOST.max(theirs * DOMINANT) && theirs >= (theirs + time.ready) * DOMINANT
    }

    /// The conclusion where most of the lacking work was due during faults of the run itself.
    fn own_fault(&self, lacking: Lacking, deliveries: bool) -> Option<Conclusion> {
        let because = ["own_fault", "stalls", "broker_cpu"];
        explain(lacking).then(|| Conclusion::new(LimitedBy::Broker, Cause::OwnFault { deliveries }, &because))
    }

    /// Prefix of a verdict of this cause, and the number of reasons before it: the run's own faults, where they cost
    /// enough to mention, or a stall of the broker, unless run-queue wait took more of the time.
    pub(super) fn told_first(&self, cause: &Cause) -> Option<(&'static str, usize)> {
        let e = self.e;
        let is_told = matches!(
            cause,
            Cause::RateMet { .. }
                | Cause::BrokerStalled { .. }
                | Cause::OwnFault { .. }
                | Cause::ConsumersBehind { .. }
                | Cause::ConsumersSlow
        );
        let behind = e.ended.behind;
        if !is_told && behind.in_faults > 0.0 && behind.in_faults >= behind.due * WORTH {
            return Some(("own_fault", 0));
        }
        if !self.broker_stood_still() {
            return None;
        }
        let waited_s = self.run_queue_wait.max(e.broker_run_queue_wait()) * e.seconds;
        let is_less = is_of_cores(cause) && self.stalls(Stalled::Broker).0 < waited_s;
        Some(("stalls", usize::from(is_less)))
    }

    /// Whether operations waited mostly for open ones to end, and longer than the event loop for a core.
    fn waits_for_room(&self) -> bool {
        let time = self.e.producers.unwrap_or_default();
        self.e.is_churn() && time.budget >= DOMINANT.max(self.run_queue_wait)
    }

    /// The event loop, or the broker, was ready to run and had no core.
    fn lacks_cores(&self) -> Option<Conclusion> {
        let e = self.e;
        let because = &["loop_run_queue_wait", "machine_idle", "broker_cpu"];
        let broker = e.broker.as_ref().filter(|_| e.same_machine);
        let broker_waits = broker.is_some() && e.broker_run_queue_wait() >= RUN_QUEUE_WAIT;
        if self.others.is_some() && self.full && broker_waits {
            let because = ["machine_idle", "broker_cpu", "loop_run_queue_wait"];
            return Some(Conclusion::undecided(Cause::OthersFillMachine, &because));
        }
        if self.run_queue_wait < RUN_QUEUE_WAIT || self.waits_for_room() {
            return None;
        }
        let others = self.others;
        let generator = Conclusion::new(LimitedBy::Generator, Cause::GeneratorLacksCores { others }, because);
        if others.is_some() {
            return Some(generator);
        }
        if let Some(used) = broker.filter(|_| self.full && !e.apart) {
            let client = e.client_cores.unwrap_or(0.0);
            // The few that a generator takes are not what a broker lacks.
            let both = used.cores < (used.cores + client) * MOST;
            return both.then(|| Conclusion::undecided(Cause::BothFillMachine, because));
        }
        let may_be_here = e.broker.is_none() && (e.same_machine || e.proxy.is_some());
        if self.full && may_be_here {
            let because = ["loop_run_queue_wait", "machine_idle", "broker_unknown"];
            return Some(Conclusion::undecided(Cause::MachineFull, &because));
        }
        Some(generator)
    }

    fn saturated(&self) -> Conclusion {
        let e = self.e;
        let broker_full = e.broker.as_ref().and_then(|used| used.busiest_thread);
        if e.same_machine && broker_full.is_some_and(|share| share >= THREAD_FULL) {
            return Conclusion::undecided(Cause::BothBusy, &["loop_busy", "broker_cpu"]);
        }
        Conclusion::new(LimitedBy::Generator, Cause::GeneratorBusy, &["loop_busy", "broker_cpu", "ready"])
    }

    /// The in-flight window was full: producers waited for answers.
    fn window(&self) -> Conclusion {
        let e = self.e;
        let wait = Awaited::Answers;
        if let Some(conclusion) = self.between() {
            return conclusion;
        }
        let because = &["in_flight_full", "broker_cpu", "loop_busy"];
        let broker = |cause| Conclusion::new(LimitedBy::Broker, cause, because);
        if let Some(busy) = self.broker_is_busy() {
            return broker(Cause::BrokerBusy { wait, busy });
        }
        if e.broker.is_none() {
            let because = ["in_flight_full", "round_trip", "broker_unknown"];
            return Conclusion::new(LimitedBy::Broker, Cause::BrokerUnknown, &because);
        }
        let slow = e.same_machine && (e.answer_ns >= SLOW_ANSWER_NS || e.answer_ns == 0);
        // Waiting in the run queue is waiting for CPU, and for nothing else.
        let waited = e.broker_run_queue_wait() >= RUN_QUEUE_WAIT;
        broker(if waited && (slow || self.broker_wants_more_cores()) {
            Cause::BrokerLacksCores { wait }
        } else if slow {
            Cause::BrokerSlow { wait }
        } else {
            Cause::InFlightLimit
        })
    }

    /// The broker ran and waited to run for more time than there are cores: more in flight would only wait there.
    fn broker_wants_more_cores(&self) -> bool {
        let e = self.e;
        let used = e.broker.as_ref().filter(|_| e.same_machine);
        used.is_some_and(|used| used.cores + e.broker_run_queue_wait() >= f64::from(e.all_cores()))
    }

    /// A proxy or network between generator and broker that answers waited for, or that hides the broker.
    fn between(&self) -> Option<Conclusion> {
        let e = self.e;
        let wait = Awaited::Answers;
        let network = |cause, code| Some(Conclusion::new(LimitedBy::Network, cause, &["in_flight_full", code]));
        let most = |way: u64| e.answer_ns > 0 && way > 0 && way.saturating_mul(2) >= e.answer_ns;
        let tcp = e.round_trip_ns.unwrap_or(0);
        let idle = e.idle_answer_ns.unwrap_or(0);
        if most(tcp) && (tcp >= LOOPBACK_NS || !e.same_machine && e.proxy.is_none()) {
            return network(Cause::RoundTrip, "round_trip");
        }
        if e.proxy.is_some() && most(idle) && idle >= LOOPBACK_NS {
            return network(Cause::ProxyWay, "round_trip");
        }
        if self.link_is_full() {
            return network(Cause::LinkFull { wait }, "connections");
        }
        if let Some(conclusion) = self.behind_proxy(wait, "in_flight_full") {
            return Some(conclusion);
        }
        if e.proxy.is_some() && e.broker.is_none() {
            let because = ["in_flight_full", "relay"];
            return Some(Conclusion::undecided(Cause::ProxyHides { wait }, &because));
        }
        (!e.same_machine && most(idle) && idle >= SLOW_IDLE_NS)
            .then(|| Conclusion::undecided(Cause::SlowEvenIdle, &["in_flight_full", "round_trip"]))
    }

    /// A proxy here accepts no more, or holds the awaited bytes: by itself, or because the broker does not read.
    fn behind_proxy(&self, wait: Awaited, code: &'static str) -> Option<Conclusion> {
        let e = self.e;
        let (near, far) = e.connections.zip(e.behind_proxy)?;
        let held = e.proxy_held_ns.unwrap_or(0);
        // No message is there for longer than its answer takes: a proxy that compresses only seems to hold.
        let holds =
            held > 0 && held.saturating_mul(2) >= e.answer_ns && held <= e.answer_ns.saturating_add(e.answer_ns / 4);
        if !holds && near.peer_full < DOMINANT {
            return None;
        }
        let because = &[code, "relay", "connections"];
        if far.peer_full >= DOMINANT {
            let cause = Cause::BrokerDoesNotRead;
            return Some(Conclusion::new(LimitedBy::Broker, cause, because));
        }
        (far.peer_full < NOT_FULL).then(|| Conclusion::new(LimitedBy::Network, Cause::ProxyFull { wait }, because))
    }

    /// Bytes wait for the link rather than for the broker to read them.
    fn link_is_full(&self) -> bool {
        let e = self.e;
        let tcp = e.connections.filter(|tcp| tcp.busy >= DOMINANT);
        let Some((tcp, rest)) = tcp.zip(e.round_trip_ns) else { return false };
        // A receiver that does not read acknowledges at once what fits: only a queue on the way takes so long.
        let queued = tcp.round_trip_ns >= FULL_LINK_NS.max(rest.saturating_mul(5));
        // Within a machine bytes also wait for the receiver to get a core.
        let waiting = tcp.peer_full < NOT_FULL
            && tcp.unsent_bytes >= UNSENT
            && (!e.same_machine || tcp.round_trip_ns >= LOOPBACK_NS.saturating_mul(10));
        (queued || waiting) && self.broker_is_busy().is_none()
    }

    /// Evidence that the broker has no CPU left.
    fn broker_is_busy(&self) -> Option<Busy> {
        let e = self.e;
        let used = e.broker.as_ref()?;
        let cores = f64::from(e.all_cores());
        if e.same_machine && self.full && used.cores >= cores * DOMINANT && self.others.is_none() {
            return Some(Busy::Machine);
        }
        if used.busiest_thread.is_some_and(|share| share >= THREAD_FULL) {
            return Some(Busy::Thread);
        }
        (e.same_machine && used.cores >= cores * SATURATED).then_some(Busy::Cores)
    }

    fn back_pressure(&self) -> Conclusion {
        let e = self.e;
        let wait = Awaited::Sockets;
        let because = &["socket_full", "connections", "broker_cpu"];
        let broker = |cause| Conclusion::new(LimitedBy::Broker, cause, because);
        if self.link_is_full() {
            return Conclusion::new(LimitedBy::Network, Cause::LinkFull { wait }, because);
        }
        if let Some(busy) = self.broker_is_busy() {
            return broker(Cause::BrokerBusy { wait, busy });
        }
        if let Some(conclusion) = self.behind_proxy(wait, "socket_full") {
            return conclusion;
        }
        if e.proxy.is_some() {
            return Conclusion::undecided(Cause::ProxyHides { wait }, &["socket_full", "relay"]);
        }
        if e.same_machine && e.broker_run_queue_wait() >= RUN_QUEUE_WAIT {
            return broker(Cause::BrokerLacksCores { wait });
        }
        match e.connections {
            _ if e.same_machine => broker(Cause::BrokerDoesNotRead),
            Some(tcp) if tcp.peer_full >= DOMINANT => broker(Cause::BrokerDoesNotRead),
            Some(_) => Conclusion::new(LimitedBy::Network, Cause::NetworkFull, because),
            None => Conclusion::undecided(Cause::SocketsFull, because),
        }
    }

    fn credit(&self) -> Conclusion {
        let wait = Awaited::Credit;
        let waited = self.e.broker_run_queue_wait() >= RUN_QUEUE_WAIT;
        let cause = match self.broker_is_busy() {
            Some(busy) => Cause::BrokerBusy { wait, busy },
            None if self.e.same_machine && waited => Cause::BrokerLacksCores { wait },
            None => Cause::NoCredit,
        };
        Conclusion::new(LimitedBy::Broker, cause, &["no_credit", "broker_cpu"])
    }

    fn consumers(&self) -> Conclusion {
        let own = self.own_fault(self.e.ended.deliveries_behind, true);
        if let Some(conclusion) = own.or_else(|| self.lacks_cores()) {
            return conclusion;
        }
        if self.e.slow_consumers {
            return Conclusion::new(LimitedBy::Schedule, Cause::ServiceTime, &["loop_busy", "broker_cpu"]);
        }
        if self.at_work >= SATURATED {
            return self.saturated();
        }
        let because = &["loop_busy", "broker_cpu", "machine_idle"];
        if let Some(busy) = self.broker_is_busy() {
            let wait = Awaited::Deliveries;
            return Conclusion::new(LimitedBy::Broker, Cause::BrokerBusy { wait, busy }, because);
        }
        Conclusion::undecided(Cause::ConsumersIdle, because)
    }
}

/// Whether faults of the run itself explain most of the lacking work.
fn explain(lacking: Lacking) -> bool {
    lacking.in_faults > 0.0 && lacking.in_faults >= lacking.all * DOMINANT
}

fn is_of_cores(cause: &Cause) -> bool {
    match cause {
        Cause::ConsumersBehind { why } => is_of_cores(why),
        Cause::RateMet { late } => *late == Some(Lateness::Cores),
        Cause::OthersFillMachine
        | Cause::GeneratorLacksCores { .. }
        | Cause::BothFillMachine
        | Cause::MachineFull
        | Cause::BrokerLacksCores { .. } => true,
        _ => false,
    }
}
