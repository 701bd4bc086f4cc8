//! The verdict of a run, in one sentence, and its reasons.

use archive::{Awaited, Busy, Cause, Facts, Lacking, Lateness, LimitedBy, Stall, Stalled, Verdict};
use measure::ScenarioRole;

use super::of_server;
use crate::numbers::{at_least, count, counted, duration, percent, rate, seconds};

/// Makes the sentences of a verdict.
pub fn verdict(verdict: &mut Verdict) {
    let said = Said::new(&verdict.facts);
    if let Some(cause) = &verdict.cause {
        let said = said.sentence(cause, verdict.limited_by);
        let first = verdict.reasons.first().filter(|reason| reason.decided);
        let first = first.map_or("", |reason| reason.code.as_str());
        let sentence = said_first(&verdict.facts, cause, first) + &said;
        verdict.sentence = for_role(sentence, verdict.facts.role());
    }
    for reason in &mut verdict.reasons {
        reason.text = for_role(said.reason(&reason.code), verdict.facts.role());
    }
}

/// A sentence on the loaded system.
fn for_role(sentence: String, role: ScenarioRole) -> String {
    match role {
        ScenarioRole::Server => of_server(&sentence),
        ScenarioRole::Broker | ScenarioRole::Watcher => sentence,
    }
}

/// Beginning of a verdict about something else: a fault of the run itself, or a stall of the broker.
fn said_first(facts: &Facts, cause: &Cause, first: &str) -> String {
    use Lateness::{BrokerStalled, GeneratorStalled, MachineStalled};
    let says_it = matches!(
        cause,
        Cause::BrokerStalled { .. }
            | Cause::OwnFault { .. }
            | Cause::RateMet {
                late: Some(BrokerStalled | GeneratorStalled | MachineStalled)
            }
    );
    let is_brokers = facts.stalls().any(|it| it.who == Stalled::Broker);
    let said = Said::new(facts);
    match first {
        "own_fault" if !says_it => format!("{}; ", said.own_fault(false)),
        "stalls" if !says_it && is_brokers => format!("{}; ", said.stood_still("the broker")),
        _ => String::new(),
    }
}

/// The facts, and the words for the counted items.
pub(super) struct Said<'a> {
    pub(super) e: &'a Facts,
    /// The unit of rates, such as `msg/s`.
    pub(super) unit: &'static str,
    /// Counted items, such as `messages`.
    items: &'static str,
    /// Verb of a late one: `left`.
    left: &'static str,
    /// Participle of those that left: `sent`.
    pub(super) begun: &'static str,
    /// The option that limits how many are in flight.
    limit: &'static str,
    /// Name of the answers that the limit waits for.
    answers: &'static str,
}

impl<'a> Said<'a> {
    fn new(e: &'a Facts) -> Self {
        if e.role() == ScenarioRole::Server {
            Self {
                e,
                unit: "requests/s",
                items: "requests",
                left: "left",
                begun: "sent",
                limit: "--max-open",
                answers: "open requests to be answered",
            }
        } else if e.is_churn() {
            Self {
                e,
                unit: "cycles/s",
                items: "cycles",
                left: "began",
                begun: "begun",
                limit: "--max-open",
                answers: "open cycles to end",
            }
        } else {
            Self {
                e,
                unit: "msg/s",
                items: "messages",
                left: "left",
                begun: "sent",
                limit: "--max-pending",
                answers: "confirms",
            }
        }
    }

    fn sentence(&self, cause: &Cause, who: LimitedBy) -> String {
        let said = self.cause(cause);
        let said = match cause {
            Cause::RateMet { .. } => said + &self.failed() + &self.still_open(),
            Cause::ConsumersBehind { .. } | Cause::ConsumersSlow => said,
            Cause::AllFailed => said,
            Cause::BrokeOff => format!("undecided: {said}"),
            _ => match who {
                LimitedBy::Undecided => format!("undecided who limits: {said}"),
                LimitedBy::Schedule => format!("limited by {said}"),
                who => format!("limited by the {}: {said}", who.name()),
            },
        };
        said + &self.could_have_made(who).unwrap_or_default()
    }

    /// The part that was too short; of a load that ended by itself the sending, whatever was received later.
    fn too_short(&self) -> String {
        let e = self.e;
        let (ended, until) = match e.ended.received_s > 0.0 {
            true => ("received", e.ended.received_s),
            false => ("confirmed", e.ended.completed_s),
        };
        match until > e.seconds {
            true => format!(
                "all was sent in {:.2} s, too short to tell, and the last of it {ended} after {until:.2} s",
                e.seconds
            ),
            false => format!("only {:.2} s were measured, too short to tell", e.seconds),
        }
    }

    /// Number of failed operations, although as many were begun as were requested.
    fn failed(&self) -> String {
        let own = self.e.ended.churn.iter().filter(|churn| !churn.beside);
        match own.map(|churn| churn.failed).sum() {
            0 => String::new(),
            failed => format!(
                "; {} failed",
                counted(failed, self.items.trim_end_matches('s'))
            ),
        }
    }

    /// Rate that the generator could have made, if measured and higher.
    fn could_have_made(&self, who: LimitedBy) -> Option<String> {
        let capacity = self.e.capacity.as_ref()?;
        let made = self.e.sent_rate.max(self.e.received_rate);
        let counts = matches!(who, LimitedBy::Broker | LimitedBy::Schedule);
        (counts && made > 0.0 && capacity.rate > made * 1.2).then(|| {
            format!(
                "; the generator could have made {}{} {} of this size here",
                at_least(capacity.at_least),
                rate(capacity.rate),
                self.unit
            )
        })
    }

    fn cause(&self, cause: &Cause) -> String {
        let e = self.e;
        match cause {
            Cause::BrokeOff => "the run broke off before its end".to_owned(),
            Cause::AllFailed => {
                let mut own = e.ended.churn.iter().filter(|churn| !churn.beside);
                let failed = own.next().map_or(0, |churn| churn.failed);
                format!(
                    "all of {} failed",
                    counted(failed, self.items.trim_end_matches('s'))
                )
            }
            Cause::TooShort => self.too_short(),
            Cause::NoLoad => "bellows sent and received no message".to_owned(),
            Cause::RateMet { late } => self.rate_met(*late),
            Cause::ConsumersSlow => format!(
                "the requested rate was met: all {} {} were sent, and consumers took {} at their own pace, as \
                 requested",
                self.requested(),
                self.unit,
                rate(e.received_rate)
            ),
            Cause::ConsumersBehind { why } => format!(
                "the requested rate was met, all {} {} were sent, but consumers got {}: {}",
                self.requested(),
                self.unit,
                rate(e.received_rate),
                self.cause(why)
            ),
            Cause::ThinkTime => format!(
                "the requested think time: producers waited {} of their time for the broker's answers",
                percent(e.answers_share())
            ),
            Cause::ServiceTime => "the requested service time of the consumers".to_owned(),
            Cause::OwnFault { deliveries } => self.own_fault(*deliveries),
            Cause::StalledForCores => format!(
                "{}, while it stopped answering for {} of the {}: stop them, and run again",
                self.stalled_for_cores(Stalled::Broker),
                self.stalled(Stalled::Broker),
                seconds(e.seconds)
            ),
            Cause::OthersFillMachine
            | Cause::GeneratorLacksCores { .. }
            | Cause::BothFillMachine
            | Cause::MachineFull => self.cores(cause),
            _ => self.generator(cause),
        }
    }

    /// Sentence on a generator that was busy, late or had nothing to do.
    fn generator(&self, cause: &Cause) -> String {
        let e = self.e;
        let time = e.producers.unwrap_or_default();
        match cause {
            Cause::BothBusy => format!(
                "the generator's event loop was at work for {} of the time and the broker's busiest thread for \
                 {}: neither has anything left; {} would show whether the broker has",
                percent(e.at_work()),
                percent(
                    e.broker
                        .as_ref()
                        .and_then(|used| used.busiest_thread)
                        .unwrap_or(0.0)
                ),
                if e.is_churn() {
                    "several at once"
                } else {
                    "more --threads"
                }
            ),
            Cause::GeneratorBusy => {
                let remedy = if e.is_churn() {
                    "run several at once".to_owned()
                } else {
                    format!("use more --threads (now {})", e.loops.len())
                };
                format!(
                    "its event loop was at work for {} of the time: {remedy}",
                    percent(e.at_work())
                )
            }
            Cause::GeneratorLate => format!(
                "for {} of the time {} were due and could go, and its event loop was at work for {}{}{}",
                percent(time.ready),
                self.items,
                percent(e.at_work()),
                match e.loop_lag_max_ns {
                    // Without a schedule none is measured.
                    0 => String::new(),
                    worst => format!("; it was late by up to {}", duration(worst)),
                },
                self.others()
            ),
            Cause::NothingDue => format!(
                "what was requested: for {} of the producers' time nothing was due",
                percent(time.schedule)
            ),
            Cause::Unclear => format!(
                "no cause stands out: {} waited {} of the time for the event loop, {} for the broker's answers, \
                 {} for their sockets",
                self.items,
                percent(time.ready),
                percent(time.budget),
                percent(time.socket)
            ),
            _ => self.broker(cause),
        }
    }

    /// Sentence on the broker, as far as its own state says it.
    fn broker(&self, cause: &Cause) -> String {
        let e = self.e;
        let time = e.producers.unwrap_or_default();
        let cores = format!(
            "{:.1} of {}",
            e.broker.as_ref().map_or(0.0, |used| used.cores),
            counted(e.all_cores().into(), "core")
        );
        match cause {
            Cause::BrokerStalled { .. } => {
                format!(
                    "{}, and what was due meanwhile waited",
                    self.stood_still("it")
                )
            }
            Cause::NoCredit => format!(
                "it gave its publishers no credit for {} of the time: over AMQP 1.0 a broker says how many messages \
                 it takes",
                percent(time.credit)
            ),
            Cause::Alarm => format!(
                "it blocked its publishers for {} of the time (connection.blocked, a memory or disk alarm)",
                percent(time.blocked)
            ),
            Cause::NoConnection => {
                format!(
                    "producers had no connection to it for {} of the time",
                    percent(time.away)
                )
            }
            Cause::ConsumersIdle => format!(
                "consumers were at work for {} of the time and the broker had CPU to spare: the queue may have been \
                 empty, or deliveries waited for acknowledgements (try a larger --prefetch)",
                percent(e.at_work())
            ),
            Cause::BrokerBusy { wait, busy } => {
                format!("{}, and {}", self.wait(*wait), self.busy(*busy))
            }
            Cause::BrokerLacksCores { wait } => format!(
                "{}; it used {cores}, and its threads together waited {:.2} s each second in the run queue: it had \
                 too little CPU",
                self.wait(*wait),
                e.broker_run_queue_wait()
            ),
            Cause::BrokerSlow { wait } => format!(
                "{}, though it used only {cores} and hardly waited for one: it waited for something else than CPU \
                 (a disk, a lock, one full process)",
                self.wait(*wait)
            ),
            Cause::InFlightLimit => format!(
                "its answer time and the in-flight limit: {}; the broker used {cores}, so try a larger {}",
                self.window(),
                self.limit
            ),
            Cause::BrokerUnknown => {
                let answers = self.wait(Awaited::Answers);
                format!("its answers: {answers}; its CPU is not known")
            }
            _ => self.way(cause),
        }
    }

    pub(super) fn requested(&self) -> String {
        rate(self.e.requested_rate.unwrap_or(self.e.sent_rate))
    }

    /// Requested and sent rates. A load that ends with its messages has no other rate than theirs.
    fn met(&self) -> String {
        let e = self.e;
        if e.counted {
            let (all, rate) = (counted(e.ended.sent, "message"), rate(e.sent_rate));
            return format!(
                "all that was requested was sent: {all}, {rate} {} on average",
                self.unit
            );
        }
        let (requested, sent) = (self.requested(), rate(e.sent_rate));
        let of = match sent == requested || e.requested_deviation > 0.0 {
            true => String::new(),
            false => format!("{sent} of "),
        };
        format!("the requested rate was met: {of}{requested} {}", self.unit)
    }

    /// The requested rate was met; lateness is a sentence of its own.
    fn rate_met(&self, late: Option<Lateness>) -> String {
        let e = self.e;
        let met = self.met();
        let at_work = format!(
            "its event loop was at work for {} of the time",
            percent(e.at_work())
        );
        let Some(late) = late else {
            let lag = if e.loop_lag_max_ns < 1_000_000 {
                String::new()
            } else {
                format!(", late by {} at worst", duration(e.loop_lag_max_ns))
            };
            return format!(
                "{met}, {} of them over 1 ms late; {at_work}{lag}",
                percent(e.late_share)
            );
        };
        if late == Lateness::BrokerStalled {
            return format!(
                "{}; {met} all the same, {} of them over 1 ms late",
                self.stood_still("the broker"),
                percent(e.late_share)
            );
        }
        let why = match late {
            Lateness::BrokerStalled => String::new(),
            Lateness::GeneratorStalled => {
                format!(
                    "while bellows itself did not run (for {})",
                    self.stalled(Stalled::Generator)
                )
            }
            Lateness::MachineStalled => {
                format!(
                    "while the machine stood still (for {})",
                    self.stalled(Stalled::Machine)
                )
            }
            Lateness::OwnFault => format!("through {}", self.own_fault(false)),
            Lateness::Broker => self.broker_lateness(),
            Lateness::Cores => format!("for want of CPU: {}", self.waited_for_core()),
            Lateness::Generator if e.loop_lag_max_ns < 1_000_000 => {
                "and no cause stands out".to_owned()
            }
            Lateness::Generator => format!(
                "although nothing held them up: its event loop was late by up to {}",
                duration(e.loop_lag_max_ns)
            ),
        };
        format!(
            "{met}; {} of the {} {} over 1 ms late, {why}",
            percent(e.late_share),
            self.items,
            self.left
        )
    }

    /// How long the event loop waited for a core; of a low rate, beside how long something was late. Who waited while
    /// it stood still, where that was for longer.
    fn waited_for_core(&self) -> String {
        let e = self.e;
        let waited = e.run_queue_wait();
        let all = [Stalled::Broker, Stalled::Generator, Stalled::Machine];
        let in_stalls = all.map(|who| (e.waited_in_stalls(who).0, who));
        let longest = in_stalls.into_iter().max_by(|a, b| a.0.total_cmp(&b.0));
        match longest {
            Some((longest, who)) if longest > waited * e.seconds => self.stalled_for_cores(who),
            _ if waited >= e.late_share * 0.5 => format!(
                "its event loop waited {} of the time in the run queue{}",
                percent(waited),
                self.others()
            ),
            _ => format!(
                "its event loop waited {} in the run queue, and {} were late for {}{}",
                seconds(waited * e.seconds),
                self.items,
                seconds(e.late_time() * e.seconds),
                self.others()
            ),
        }
    }

    /// How long who stood still waited for a core meanwhile, and who had it.
    fn stalled_for_cores(&self, who: Stalled) -> String {
        let e = self.e;
        let whose = match who {
            Stalled::Broker => "the broker's threads",
            Stalled::Generator => "bellows' threads",
            Stalled::Machine => "the broker's and bellows' threads",
        };
        format!(
            "{whose} waited {} in the run queue in the seconds of its stalls, and other processes took {:.1} of the {}",
            seconds(e.waited_in_stalls(who).0),
            e.other_cores().unwrap_or(0.0),
            counted(e.all_cores().into(), "core")
        )
    }

    /// Cost of the run's own faults, in deliveries or in messages to send.
    pub(super) fn own_fault(&self, deliveries: bool) -> String {
        let e = self.e;
        let (of, items, scheduled) = match deliveries {
            true => (
                e.ended.deliveries_behind,
                "deliveries",
                e.expected_rate.is_some(),
            ),
            false => (e.ended.behind, self.items, e.requested_rate.is_some()),
        };
        let Lacking { all, in_faults, .. } = of;
        let (faults, share) = (self.own_faults(), percent(in_faults / all));
        match scheduled {
            true => format!("{faults}: {share} of the {items} that fell behind were due then"),
            false => format!(
                "{faults}: {share} of the {items} that the rate of its other seconds makes were lacking then"
            ),
        }
    }

    /// `this run's own kill of node 1`.
    fn own_faults(&self) -> String {
        match self.e.ended.faults.as_slice() {
            [one] => format!("this run's own {}", one.name),
            all => {
                let names: Vec<&str> = all.iter().map(|it| it.name.as_str()).collect();
                format!("this run's own faults ({})", some_of(&names))
            }
        }
    }

    fn broker_lateness(&self) -> String {
        let time = self.e.producers.unwrap_or_default();
        let waits = [
            (time.budget, format!("waiting for {}", self.answers)),
            (time.credit, "waiting for credit".to_owned()),
            (time.socket, "waiting for the broker to read".to_owned()),
            (
                time.blocked,
                "while the broker blocked its publishers".to_owned(),
            ),
            (time.away, "without a connection".to_owned()),
        ];
        let most = waits.into_iter().max_by(|a, b| a.0.total_cmp(&b.0));
        most.map_or_else(String::new, |(share, what)| {
            format!("{what} ({} of the time)", percent(share))
        })
    }

    /// Duration of a side's stalls.
    fn stalled(&self, who: Stalled) -> String {
        let theirs = self.e.stalls().filter(|it| it.who == who);
        seconds(self.e.stalled_s(theirs))
    }

    /// How long the broker stood still: `it stopped answering for 2 s of the 40 s`.
    fn stood_still(&self, broker: &str) -> String {
        let of = |away: bool| {
            let is_so = |it: &&Stall| it.who == Stalled::Broker && it.away == away;
            let all = || self.e.stalls().filter(is_so);
            let (sum, times) = (self.e.stalled_s(all()), all().count());
            let often = if times > 1 {
                format!(" ({times} times)")
            } else {
                String::new()
            };
            (times > 0).then(|| format!("{}{often}", seconds(sum)))
        };
        let all = seconds(self.e.seconds);
        let told = match (of(false), of(true)) {
            (silent, None) => format!(
                "{broker} stopped answering for {} of the {all}",
                silent.unwrap_or_default()
            ),
            (None, Some(away)) => {
                format!("{broker} was away, with no connection for {away} of the {all}")
            }
            (Some(silent), Some(away)) => format!(
                "{broker} was away, with no connection for {away} of the {all}, and stopped answering for {silent}"
            ),
        };
        match self.e.stalled_in_faults(Stalled::Broker) {
            true => format!("{told}, during {}", self.own_faults()),
            false => told,
        }
    }

    fn others(&self) -> String {
        let others = self.e.other_cores().filter(|others| *others >= 0.1);
        others.map_or_else(String::new, |others| {
            format!(", while other processes took {others:.1} cores")
        })
    }

    /// Somebody had no core.
    fn cores(&self, cause: &Cause) -> String {
        let e = self.e;
        let all = e.all_cores();
        let waited = format!(
            "event loop waited {} of the time in the run queue for a core",
            percent(e.run_queue_wait())
        );
        // It can only be lifted where there is one.
        let pinned = e.cores < all;
        match cause {
            Cause::OthersFillMachine => format!(
                "other processes took {:.1} of the {}, the broker's threads together waited {:.1} s each \
                 second for one, and the generator's {waited}: stop them, and run again",
                e.other_cores().unwrap_or(0.0),
                counted(all.into(), "core"),
                e.broker_run_queue_wait()
            ),
            Cause::GeneratorLacksCores {
                others: Some(others),
            } => format!(
                "its {waited}, while other processes took {others:.1} cores: stop them{}",
                if pinned {
                    ", or lift its CPU affinity"
                } else {
                    ""
                }
            ),
            Cause::BothFillMachine => format!(
                "broker ({:.1}) and generator ({:.1}) fill the {} that they share, and the generator's \
                 {waited}: apart, both would do more, and it would show which does less",
                e.broker.as_ref().map_or(0.0, |used| used.cores),
                e.client_cores.unwrap_or(0.0),
                counted(all.into(), "core")
            ),
            Cause::MachineFull => format!(
                "the machine is full and the generator's {waited}, but the broker's process is not known, so \
                 nobody can say whether it is what takes the cores: name it (--pid)"
            ),
            _ if pinned => format!(
                "its {waited}: lift its CPU affinity, it may use {} of {all} cores",
                e.cores
            ),
            _ => format!("its {waited}: give it more CPU time"),
        }
    }

    /// Sentence on a wait that the way to the broker may have caused.
    fn way(&self, cause: &Cause) -> String {
        let e = self.e;
        let answers = self.wait(Awaited::Answers);
        let proxy = e.proxy.as_deref().unwrap_or("a proxy");
        match cause {
            Cause::RoundTrip => format!(
                "{answers}, and a round trip takes {}: raise {}",
                duration(e.round_trip_ns.unwrap_or(0)),
                self.limit
            ),
            Cause::ProxyWay => format!(
                "{answers}, and all the way through {proxy} and back takes {} even without load: raise {}, or \
                 connect to the broker itself",
                duration(e.idle_answer_ns.unwrap_or(0)),
                self.limit
            ),
            Cause::LinkFull { wait } => format!("{}, and {}", self.wait(*wait), self.link()),
            Cause::NetworkFull => {
                let tcp = e.connections.unwrap_or_default();
                format!(
                    "{}, but the broker's receive window only for {}; {} of the segments were sent again",
                    self.wait(Awaited::Sockets),
                    percent(tcp.peer_full),
                    percent(tcp.resent)
                )
            }
            Cause::ProxyFull { wait } => match e.proxy_held_ns {
                Some(held) if held.saturating_mul(2) >= e.answer_ns => format!(
                    "{}, of which bytes stay in {proxy} for {}: it passes on no more; connect to the broker itself",
                    self.wait(*wait),
                    duration(held)
                ),
                _ => format!(
                    "{}: {proxy} takes no more, though the broker reads what it passes on; connect to the broker \
                     itself",
                    self.wait(*wait)
                ),
            },
            Cause::ProxyHides { wait } => format!(
                "{}, but {proxy} passes connections on to the broker, and which of the two is slow cannot be seen \
                 from here: connect to the broker itself, or name its process (--pid)",
                self.wait(*wait)
            ),
            Cause::SlowEvenIdle => format!(
                "{answers}, and even without load its simplest answer took {}, of which TCP's round trip is {}: a \
                 proxy on the way, or the broker itself",
                duration(e.idle_answer_ns.unwrap_or(0)),
                duration(e.round_trip_ns.unwrap_or(0))
            ),
            Cause::BrokerDoesNotRead => {
                let window = e
                    .behind_proxy
                    .or(e.connections)
                    .filter(|_| !e.same_machine)
                    .map_or_else(String::new, |tcp| {
                        format!(", and its receive window for {}", percent(tcp.peer_full))
                    });
                format!("it did not read, {}{window}", self.wait(Awaited::Sockets))
            }
            _ => format!(
                "{}: either the broker does not read, or the network is full",
                self.wait(Awaited::Sockets)
            ),
        }
    }

    fn wait(&self, wait: Awaited) -> String {
        let time = self.e.producers.unwrap_or_default();
        match wait {
            Awaited::Answers => {
                let share = if self.e.closed_loop {
                    self.e.answers_share().min(1.0)
                } else {
                    time.budget
                };
                let who = if self.e.is_churn() {
                    format!("{} that were due", self.items)
                } else {
                    "producers".to_owned()
                };
                format!(
                    "{who} waited {} of the time for {} ({})",
                    percent(share),
                    self.answers,
                    self.window()
                )
            }
            Awaited::Credit => format!(
                "producers waited {} of the time for credit",
                percent(time.credit)
            ),
            Awaited::Sockets => format!(
                "sockets to it were full for {} of the time",
                percent(time.socket)
            ),
            Awaited::Deliveries => "consumers had time to spare".to_owned(),
        }
    }

    /// The in-flight limit, and how long each took.
    fn window(&self) -> String {
        let e = self.e;
        let answer = if e.is_churn() {
            format!("{} each", duration(e.answer_ns))
        } else {
            format!("{} until confirmed", duration(e.answer_ns))
        };
        match e.in_flight_limit {
            Some(limit) if e.answer_ns > 0 => format!("{} in flight x {answer}", count(limit)),
            Some(limit) => format!("{} in flight, and none was confirmed", count(limit)),
            None if e.answer_ns > 0 => answer,
            None => "and none was confirmed".to_owned(),
        }
    }

    fn busy(&self, busy: Busy) -> String {
        let all = counted(self.e.all_cores().into(), "core");
        let Some(used) = &self.e.broker else {
            return String::new();
        };
        match busy {
            Busy::Machine => format!("it fills the machine: {:.1} of {all}", used.cores),
            Busy::Thread => format!(
                "its thread {} used {} of a core",
                used.busiest_thread_name.as_deref().unwrap_or("its busiest"),
                percent(used.busiest_thread.unwrap_or(0.0))
            ),
            Busy::Cores => format!("it used {:.1} of {all}", used.cores),
        }
    }

    fn link(&self) -> String {
        let tcp = self.e.connections.unwrap_or_default();
        format!(
            "the link is full: a round trip took {} under load and {} at best, and {} kB waited in each socket",
            duration(tcp.round_trip_ns),
            duration(self.e.round_trip_ns.unwrap_or(0)),
            tcp.unsent_bytes / 1_000
        )
    }
}

/// Names of faults that a sentence holds.
const MOST_FAULTS: usize = 3;

/// The first of some, and how many more there are.
pub(super) fn some_of<T: AsRef<str>>(all: &[T]) -> String {
    let mut told: Vec<&str> = all.iter().take(MOST_FAULTS).map(AsRef::as_ref).collect();
    let more = format!("{} more", all.len().saturating_sub(MOST_FAULTS));
    told.extend((all.len() > MOST_FAULTS).then_some(more.as_str()));
    told.join(", ")
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
