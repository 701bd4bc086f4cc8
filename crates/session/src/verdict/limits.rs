//! Who limited a load that was not what a schedule asked for: the generator, the broker, or what lies
//! between them.

use archive::LimitedBy;

use super::words::{duration, percent, text};
use super::{
    Case, Conclusion, DOMINANT, FULL_LINK_NS, LOOPBACK_NS, MOST, NOT_FULL, OTHERS, SATURATED,
    SLOW_ANSWER_NS, SLOW_IDLE_NS, STARVED, THREAD_FULL, TOGETHER, UNSENT, machine_cores, undecided,
};

impl Case<'_> {
    /// All-out, or at a rate that was not reached.
    pub(super) fn producers(&self) -> Conclusion {
        if let Some(conclusion) = self.lacks_cores() {
            return conclusion;
        }
        if self.busiest >= SATURATED {
            return self.saturated();
        }
        let Some(time) = self.e.producers else {
            return undecided("nothing is known of the producers", &[]);
        };
        let theirs = time.budget + time.socket + time.blocked + time.away;
        let lost = theirs + time.ready;
        let only_late = self.reached_rate() && time.ready >= lost * DOMINANT;
        if lost < 0.02 || only_late {
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
            _ if time.ready >= lost * DOMINANT => Conclusion::new(
                LimitedBy::Generator,
                format!(
                    "limited by the generator: for {} of the time a message was due and could go, and \
                     its event loop was at work for {}: use more --threads",
                    percent(time.ready),
                    percent(self.busiest)
                ),
                &["ready", "loop_busy"],
            ),
            _ => undecided(
                format!(
                    "no cause stands out: messages waited {} of the time for the event loop, {} for \
                     the broker's answers, {} for their sockets",
                    percent(time.ready),
                    percent(time.budget),
                    percent(time.socket)
                ),
                &["ready", "in_flight_full", "socket_full"],
            ),
        }
    }

    /// The event loop, or the broker, was ready to run and had no core.
    pub(super) fn lacks_cores(&self) -> Option<Conclusion> {
        let e = self.e;
        let because: &[&'static str] = &["loop_starved", "machine_idle", "broker_cpu"];
        let broker = e.broker.as_ref().filter(|_| e.same_machine);
        let broker_starved = broker.and_then(|used| used.starved).unwrap_or(0.0);
        let waited = format!(
            "event loop waited {} of the time for a core",
            percent(self.starved)
        );
        let others = self.others.filter(|others| *others >= OTHERS);
        if let Some(others) = others.filter(|_| self.full && broker_starved >= STARVED) {
            let text = format!(
                "other processes took {others:.1} of the {} cores, the broker's threads together waited \
                 {broker_starved:.1} s each second for one, and the generator's {waited}: stop them, \
                 and run again",
                machine_cores(e)
            );
            return Some(undecided(
                text,
                &["machine_idle", "broker_cpu", "loop_starved"],
            ));
        }
        if self.starved < STARVED {
            return None;
        }
        let generator = |text| Some(Conclusion::new(LimitedBy::Generator, text, because));
        if let Some(others) = others {
            return generator(format!(
                "limited by the generator: its {waited}, while other processes took {others:.1} \
                 cores: stop them, or lift its CPU affinity"
            ));
        }
        if let Some(used) = broker.filter(|_| self.full && !e.apart) {
            let client = e.client_cores.unwrap_or(0.0);
            // The few that a generator takes are not what a broker lacks.
            return (used.cores < (used.cores + client) * MOST).then(|| {
                let text = format!(
                    "broker ({:.1}) and generator ({client:.1}) fill the {} cores that they share, and \
                     the generator's {waited}: apart, both would do more, and it would show which does \
                     less",
                    used.cores,
                    machine_cores(e)
                );
                undecided(text, because)
            });
        }
        if self.full && self.broker_may_be_here() {
            return Some(undecided(
                format!(
                    "the machine is full and the generator's {waited}, but the broker's process is not \
                     known, so nobody can say whether it is what takes the cores: name it (--pid)"
                ),
                &["loop_starved", "machine_idle", "broker_unknown"],
            ));
        }
        generator(format!(
            "limited by the generator: its {waited}: give it more, or lift its CPU affinity"
        ))
    }

    pub(super) fn saturated(&self) -> Conclusion {
        let e = self.e;
        let busy = percent(self.busiest);
        let broker_full = e.broker.as_ref().and_then(|used| used.busiest_thread);
        if e.same_machine && broker_full.is_some_and(|share| share >= THREAD_FULL) {
            let text = format!(
                "the generator's event loop was at work for {busy} of the time and the broker's \
                 busiest thread for {}: neither has anything left; more --threads would show whether \
                 the broker has",
                percent(broker_full.unwrap_or(0.0))
            );
            return undecided(text, &["loop_busy", "broker_cpu"]);
        }
        let threads = e.loops.len();
        Conclusion::new(
            LimitedBy::Generator,
            format!(
                "limited by the generator: its event loop was at work for {busy} of the time: use more \
                 --threads (now {threads})"
            ),
            &["loop_busy", "broker_cpu", "ready"],
        )
    }

    /// The rate was achieved, only not on time.
    fn late_only(&self) -> Conclusion {
        let others = self.others.filter(|others| *others >= OTHERS);
        let others = others.map_or_else(String::new, |others| {
            format!(", while other processes took {others:.1} cores")
        });
        Conclusion::new(
            LimitedBy::Generator,
            format!(
                "limited by the generator: {} of the messages left over 1 ms late although nothing \
                 held them up; its event loop was late by up to {}{others}",
                percent(self.e.late_share),
                duration(self.e.loop_lag_max_ns)
            ),
            &["requested", "loop_busy", "machine_idle"],
        )
    }

    /// The in-flight budget was used up: answers were awaited.
    pub(super) fn window(&self) -> Conclusion {
        let e = self.e;
        let share = if e.closed_loop {
            self.answers_share().min(1.0)
        } else {
            e.producers.map_or(0.0, |time| time.budget)
        };
        let answer = if e.answer_ns > 0 {
            format!("{} until confirmed", duration(e.answer_ns))
        } else {
            "and none was confirmed".to_owned()
        };
        let window = match e.in_flight_limit {
            Some(limit) if e.answer_ns > 0 => format!("{} in flight x {answer}", text(limit)),
            Some(limit) => format!("{} in flight, {answer}", text(limit)),
            None => answer,
        };
        let waited = format!(
            "producers waited {} of the time for confirms ({window})",
            percent(share)
        );
        if let Some(conclusion) = self.between(&waited) {
            return conclusion;
        }
        let because: &[&'static str] = &["in_flight_full", "broker_cpu", "loop_busy"];
        let broker = |text| Conclusion::new(LimitedBy::Broker, text, because);
        if let Some(busy) = self.broker_is_busy() {
            return broker(format!("limited by the broker: {waited}, and {busy}"));
        }
        let Some(used) = &e.broker else {
            return Conclusion::new(
                LimitedBy::Broker,
                format!("limited by the broker's answers: {waited}; its CPU is not known"),
                &["in_flight_full", "round_trip", "broker_unknown"],
            );
        };
        let cores = format!("{:.1} of {} cores", used.cores, machine_cores(e));
        if e.same_machine && (e.answer_ns >= SLOW_ANSWER_NS || e.answer_ns == 0) {
            broker(format!(
                "limited by the broker: {waited}, though it used only {cores}: it stalled, or waited for \
                 something else than CPU (a disk, a lock, one full process)"
            ))
        } else {
            broker(format!(
                "limited by the broker's answer time and the in-flight budget: {window}; the broker \
                 used {cores}, so try a larger --max-pending"
            ))
        }
    }

    /// What lies between generator and broker, where that is what answers waited for, or where it
    /// hides the broker.
    fn between(&self, waited: &str) -> Option<Conclusion> {
        let e = self.e;
        let network = |text: String, code| {
            let text = format!("limited by the network: {waited}, and {text}");
            Conclusion::new(LimitedBy::Network, text, &["in_flight_full", code])
        };
        let answered = e.answer_ns > 0;
        let most = |way: u64| answered && way > 0 && way.saturating_mul(2) >= e.answer_ns;
        let tcp = e.round_trip_ns.unwrap_or(0);
        let idle = e.idle_answer_ns.unwrap_or(0);
        if most(tcp) && (tcp >= LOOPBACK_NS || !e.same_machine && e.relay.is_none()) {
            let took = duration(tcp);
            return Some(network(
                format!("a round trip takes {took}: raise --max-pending"),
                "round_trip",
            ));
        }
        if let Some(relay) = e
            .relay
            .as_ref()
            .filter(|_| most(idle) && idle >= LOOPBACK_NS)
        {
            let took = duration(idle);
            return Some(network(
                format!(
                    "all the way through {relay} and back takes {took} even without load: raise \
                     --max-pending, or connect to the broker itself"
                ),
                "round_trip",
            ));
        }
        if let Some(full) = self.link_is_full() {
            return Some(network(full, "connections"));
        }
        if let Some(relay) = e.relay.as_ref().filter(|_| e.broker.is_none()) {
            return Some(undecided(
                self.hidden(relay, waited),
                &["in_flight_full", "relay"],
            ));
        }
        (!e.same_machine && most(idle) && idle >= SLOW_IDLE_NS).then(|| {
            let text = format!(
                "{waited}, and even without load its simplest answer took {}, of which TCP's round trip \
                 is {}: a proxy on the way, or the broker itself",
                duration(idle),
                duration(tcp)
            );
            undecided(text, &["in_flight_full", "round_trip"])
        })
    }

    fn hidden(&self, relay: &str, waited: &str) -> String {
        format!(
            "{waited}, but {relay} passes connections on to the broker, and which of the two is slow \
             cannot be seen from here: connect to the broker itself, or name its process (--pid)"
        )
    }

    /// Bytes wait for the link rather than for the broker to read them.
    fn link_is_full(&self) -> Option<String> {
        let e = self.e;
        let tcp = e.connections.filter(|tcp| tcp.busy >= DOMINANT)?;
        let rest = e.round_trip_ns?;
        // A receiver that does not read acknowledges at once what it has room for: only a queue on the
        // way takes so long.
        let queued = tcp.round_trip_ns >= FULL_LINK_NS.max(rest.saturating_mul(5));
        // Within a machine bytes also wait for the receiver to get a core.
        let waiting = tcp.peer_full < NOT_FULL
            && tcp.unsent_bytes >= UNSENT
            && (!e.same_machine || tcp.round_trip_ns >= LOOPBACK_NS.saturating_mul(10));
        if !queued && !waiting || self.broker_is_busy().is_some() {
            return None;
        }
        Some(format!(
            "the link is full: a round trip took {} under load and {} at best, and {} kB \
             waited in each socket",
            duration(tcp.round_trip_ns),
            duration(rest),
            tcp.unsent_bytes / 1_000
        ))
    }

    /// What shows that the broker has no CPU left.
    pub(super) fn broker_is_busy(&self) -> Option<String> {
        let e = self.e;
        let used = e.broker.as_ref()?;
        let name = used.busiest_thread_name.as_deref().unwrap_or("its busiest");
        let others_fill_it = self.others.is_some_and(|others| others >= OTHERS);
        let much = used.cores >= f64::from(machine_cores(e)) * DOMINANT;
        if e.same_machine && self.full && much && !others_fill_it {
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
        let because: &[&'static str] = &["socket_full", "connections", "broker_cpu"];
        let broker = |text| Conclusion::new(LimitedBy::Broker, text, because);
        if let Some(link) = self.link_is_full() {
            let text = format!("limited by the network: {full}, and {link}");
            return Conclusion::new(LimitedBy::Network, text, because);
        }
        if let Some(relay) = &e.relay {
            if let Some(busy) = self.broker_is_busy() {
                return broker(format!("limited by the broker: {full}, and {busy}"));
            }
            return undecided(self.hidden(relay, &full), &["socket_full", "relay"]);
        }
        if e.same_machine {
            let busy = self
                .broker_is_busy()
                .map_or_else(String::new, |busy| format!(", and {busy}"));
            return broker(format!(
                "limited by the broker: it did not read, {full}{busy}"
            ));
        }
        match e.connections {
            Some(tcp) if tcp.peer_full >= DOMINANT => broker(format!(
                "limited by the broker: it did not read, {full}, and its receive window for {}",
                percent(tcp.peer_full)
            )),
            Some(tcp) => Conclusion::new(
                LimitedBy::Network,
                format!(
                    "limited by the network: {full}, but the broker's receive window only for {}; {} \
                     of the segments were sent again",
                    percent(tcp.peer_full),
                    percent(tcp.resent)
                ),
                because,
            ),
            None => undecided(
                format!("{full}: either the broker does not read, or the network is full"),
                because,
            ),
        }
    }

    fn alarm(&self) -> Conclusion {
        let share = self.e.producers.map_or(0.0, |time| time.blocked);
        Conclusion::new(
            LimitedBy::Broker,
            format!(
                "limited by the broker: it blocked its publishers for {} of the time (connection.blocked, \
                 a memory or disk alarm)",
                percent(share)
            ),
            &["blocked", "broker_cpu"],
        )
    }

    fn away(&self) -> Conclusion {
        let share = self.e.producers.map_or(0.0, |time| time.away);
        Conclusion::new(
            LimitedBy::Broker,
            format!(
                "limited by the broker: producers had no connection to it for {} of the time",
                percent(share)
            ),
            &["away", "broker_cpu"],
        )
    }

    /// Who limits the deliveries.
    pub(super) fn consumers(&self) -> Conclusion {
        if let Some(conclusion) = self.lacks_cores() {
            return conclusion;
        }
        if self.e.slow_consumers {
            return Conclusion::new(
                LimitedBy::Schedule,
                "limited by what consumers were asked for: they took their time",
                &["loop_busy", "broker_cpu"],
            );
        }
        if self.busiest >= SATURATED {
            return self.saturated();
        }
        let because: &[&'static str] = &["loop_busy", "broker_cpu", "machine_idle"];
        if let Some(busy) = self.broker_is_busy() {
            let text = format!("limited by the broker: consumers had time to spare, and {busy}");
            return Conclusion::new(LimitedBy::Broker, text, because);
        }
        undecided(
            format!(
                "consumers were at work for {} of the time and the broker had CPU to spare: the queue \
                 may have been empty, or deliveries waited for acknowledgements (try a larger \
                 --prefetch)",
                percent(self.busiest)
            ),
            because,
        )
    }
}
