//! The verdict of a run, in one sentence, and its reasons.

use archive::{Awaited, Busy, Cause, Facts, Lacking, Lateness, LimitedBy, Stall, Stalled, Verdict, WorkerSummary};

use super::{ItemWords, words_of};
use crate::numbers::{at_least, count, counted, duration, percent, rate, seconds, three_digits};

/// Makes the sentences of a verdict.
pub fn verdict(verdict: &mut Verdict) {
    let text = VerdictText::new(&verdict.facts);
    if let Some(cause) = &verdict.cause {
        let sentence = text.sentence(cause, verdict.limited_by);
        let first = verdict.reasons.first().filter(|reason| reason.decided).map_or("", |reason| reason.code.as_str());
        verdict.sentence = text.beginning(cause, first) + &sentence;
    }
    verdict.reasons.iter_mut().for_each(|reason| reason.text = text.reason(&reason.code));
}

/// The facts, and the words for what they count.
pub(super) struct VerdictText<'a> {
    pub(super) e: &'a Facts,
    /// Noun for the loaded system.
    pub(super) target: &'static str,
    pub(super) words: &'static ItemWords,
    /// The option that limits how many are in flight.
    limit: &'static str,
    /// Name of the answers that the limit waits for.
    answers: String,
}

impl<'a> VerdictText<'a> {
    fn new(e: &'a Facts) -> Self {
        let words = words_of(e.items());
        let (limit, answers) = match e.ended.transaction {
            0 => (words.limit, words.answers.to_owned()),
            each => ("--commit-interval", format!("transactions of {}", counted(each.into(), "message"))),
        };
        Self { e, target: e.role().target(), words, limit, answers }
    }

    /// Beginning of a verdict about something else: a fault of the run itself, or a stall of the broker.
    fn beginning(&self, cause: &Cause, first: &str) -> String {
        use Lateness::{BrokerStalled, GeneratorStalled, MachineStalled};
        let says_it = matches!(
            cause,
            Cause::BrokerStalled { .. }
                | Cause::OwnFault { .. }
                | Cause::RateMet { late: Some(BrokerStalled | GeneratorStalled | MachineStalled) }
        );
        let is_brokers = self.e.stalls().any(|it| it.who == Stalled::Broker);
        match first {
            "own_fault" if !says_it => format!("{}; ", self.own_fault(false)),
            "stalls" if !says_it && is_brokers => format!("{}; ", self.stood_still(&format!("the {}", self.target))),
            _ => String::new(),
        }
    }

    fn sentence(&self, cause: &Cause, who: LimitedBy) -> String {
        let sentence = match cause {
            Cause::RateMet { late } => self.rate_met(*late) + &self.failed() + &self.still_open(),
            Cause::ConsumersBehind { why } => format!(
                "{}, but consumers received {} {}: {}",
                self.met(),
                rate(self.e.received_rate),
                self.words.unit,
                self.limited_by(why, who)
            ),
            Cause::ConsumersSlow | Cause::AllFailed | Cause::SomeFailed => self.cause(cause),
            _ => self.limited_by(cause, who) + &self.failed(),
        };
        sentence + &self.could_have_made(who).unwrap_or_default()
    }

    /// The limiting side, and why.
    fn limited_by(&self, cause: &Cause, who: LimitedBy) -> String {
        let why = self.cause(cause);
        match who {
            LimitedBy::Undecided => format!("undecided: {why}"),
            LimitedBy::Schedule => format!("limited by {why}"),
            LimitedBy::Broker => format!("limited by the {}: {why}", self.target),
            LimitedBy::Generator | LimitedBy::Network => format!("limited by the {}: {why}", who.name()),
        }
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
                "all was sent in {:.2} s, too short to judge; the last was {ended} after {until:.2} s",
                e.seconds
            ),
            false => format!("only {:.2} s were measured, too short to judge", e.seconds),
        }
    }

    fn failed(&self) -> String {
        let own = self.e.ended.churn.iter().filter(|churn| !churn.beside);
        match own.map(|churn| churn.failed).sum() {
            0 => String::new(),
            failed => format!("; {} failed", counted(failed, self.item())),
        }
    }

    /// Share of operations that failed, and the rate of the others.
    fn some_failed(&self) -> String {
        let (share, sent) = (self.e.failed_share(), self.e.sent_rate);
        format!(
            "{} of the {} failed: {} of {} {} were completed, though all were {}",
            percent(share),
            self.words.items,
            rate(sent * (1.0 - share)),
            self.requested(),
            self.words.unit,
            self.words.begun
        )
    }

    /// One of the counted items: `message`.
    pub(super) fn item(&self) -> &'static str {
        self.words.items.trim_end_matches('s')
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
                self.words.unit
            )
        })
    }

    /// The workers of a fleet that could do no more, what shows it, and the remedy; `None` where there are none.
    fn limiting_workers(&self, cause: &Cause) -> Option<String> {
        let remedy = match cause {
            Cause::GeneratorBusy | Cause::GeneratorLate => "use more --threads, or more workers",
            Cause::GeneratorLacksCores { .. } => "use more workers, or leave them more CPU time",
            _ => return None,
        };
        let worker = |it: &WorkerSummary| {
            let late = it.late_share.map(|share| format!(", {} sent over 1 ms late", percent(share)));
            format!(
                "worker {} (event loop busy {} of the time, waited {} for a core; {} of {}{})",
                it.name,
                percent(it.at_work),
                percent(it.run_queue_wait),
                three_digits(it.cpu_cores),
                counted(it.cores.into(), "core"),
                late.unwrap_or_default()
            )
        };
        let all: Vec<String> = self.e.workers.iter().filter(|it| it.limits).map(worker).collect();
        (!all.is_empty()).then(|| format!("{}: {remedy}", some_of(&all)))
    }

    /// The worker of a fleet with most of something.
    pub(super) fn worker_with_most(&self, share: fn(&WorkerSummary) -> f64) -> Option<&WorkerSummary> {
        self.e.workers.iter().max_by(|one, other| share(one).total_cmp(&share(other)))
    }

    /// The event loop with most of something; of a fleet by its worker.
    fn event_loop(&self, share: fn(&WorkerSummary) -> f64) -> String {
        let of = self.worker_with_most(share);
        of.map_or_else(|| "the generator's event loop".to_owned(), |it| format!("the event loop of worker {}", it.name))
    }

    fn cause(&self, cause: &Cause) -> String {
        let e = self.e;
        if let Some(workers) = self.limiting_workers(cause) {
            return workers;
        }
        match cause {
            Cause::BrokeOff => "the run failed before its end".to_owned(),
            Cause::AllFailed => {
                let failed = e.ended.churn.iter().find(|churn| !churn.beside).map_or(0, |churn| churn.failed);
                format!("every {} failed, {} in all", self.item(), count(failed))
            }
            Cause::SomeFailed => self.some_failed(),
            Cause::TooShort => self.too_short(),
            Cause::NoLoad => "bellows sent and received no message".to_owned(),
            Cause::ConsumersSlow => format!(
                "{}; consumers received {} {}, at their requested pace",
                self.met(),
                rate(e.received_rate),
                self.words.unit
            ),
            Cause::ThinkTime => format!(
                "the requested think time: producers waited {} of the time for the {}'s answers",
                percent(e.answers_share()),
                self.target
            ),
            Cause::ServiceTime => "the consumers' requested service time".to_owned(),
            Cause::OwnFault { deliveries } => self.own_fault(*deliveries),
            Cause::StalledForCores => format!(
                "{}; it stopped answering for {} of the {}: stop the other processes, and run again",
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
                "the generator's event loop was busy {} of the time, and the {}'s busiest thread {}: both are at \
                 their limit; {} would show whether the {} can do more",
                percent(e.at_work()),
                self.target,
                percent(e.broker.as_ref().and_then(|used| used.busiest_thread).unwrap_or(0.0)),
                if e.is_churn() { "several at once" } else { "more --threads" },
                self.target
            ),
            Cause::GeneratorBusy => {
                let remedy = if e.is_churn() {
                    "run several at once".to_owned()
                } else {
                    format!("use more --threads (now {})", e.loops.len())
                };
                format!("its event loop was busy {} of the time: {remedy}", percent(e.at_work()))
            }
            Cause::GeneratorLate => format!(
                "{} waited {} of the time for its event loop, which was busy {} of the time{}{}",
                self.words.items,
                percent(time.ready),
                percent(e.at_work()),
                match e.loop_lag_max_ns {
                    // Without a schedule none is measured.
                    0 => String::new(),
                    worst => format!("; it was late by up to {}", duration(worst)),
                },
                self.others()
            ),
            Cause::NothingDue => {
                format!("the requested load: producers had nothing due {} of the time", percent(time.schedule))
            }
            Cause::Unclear => format!(
                "no cause stands out: {} waited {} of the time for the event loop, {} for the {}'s answers, {} for \
                 their sockets",
                self.words.items,
                percent(time.ready),
                percent(time.budget),
                self.target,
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
                format!("{}; {} due meanwhile had to wait", self.stood_still("it"), self.words.items)
            }
            Cause::NoCredit => format!(
                "it gave its publishers no credit for {} of the time (flow control of AMQP 1.0)",
                percent(time.credit)
            ),
            Cause::Alarm => format!(
                "it blocked its publishers for {} of the time (connection.blocked, a memory or disk alarm)",
                percent(time.blocked)
            ),
            Cause::NoConnection => format!("producers had no connection to it for {} of the time", percent(time.away)),
            Cause::ConsumersIdle => format!(
                "consumers were busy only {} of the time, and the {} had CPU to spare: the queue may have been empty, \
                 or deliveries waited for acknowledgements (try a larger --prefetch)",
                percent(e.at_work()),
                self.target
            ),
            Cause::BrokerBusy { wait, busy } => format!("{}, and {}", self.wait(*wait), self.busy(*busy)),
            Cause::BrokerLacksCores { wait } => format!(
                "{}; it used {cores}, and its threads together waited {:.2} s per second in the run queue: it had too \
                 little CPU",
                self.wait(*wait),
                e.broker_run_queue_wait()
            ),
            Cause::BrokerSlow { wait } => format!(
                "{}, though it used only {cores} and hardly waited in the run queue: it waited for something other \
                 than CPU (a disk, a lock, one busy process)",
                self.wait(*wait)
            ),
            Cause::InFlightLimit => format!(
                "its answer time and the in-flight limit ({}); the {} used {cores}: try a larger {}",
                self.window(),
                self.target,
                self.limit
            ),
            Cause::BrokerUnknown => format!("{}; its CPU is not known", self.wait(Awaited::Answers)),
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
            return format!("all requested messages were sent: {all}, {rate} {} on average", self.words.unit);
        }
        let (requested, sent) = (self.requested(), rate(e.sent_rate));
        let has_backlog = self.has_backlog();
        let is_plain = sent == requested || e.requested_deviation > 0.0;
        let of = if is_plain && !has_backlog { String::new() } else { format!("{sent} of ") };
        let backlog = if has_backlog { ", with the warm-up's backlog" } else { "" };
        let is_less = e.workers.iter().any(|it| it.absence.tolerated);
        let what = if is_less { "what was requested of the workers that remained" } else { "the requested rate" };
        format!("{what} was met: {of}{requested} {}{backlog}", self.words.unit)
    }

    /// Whether over 5 % more was sent than was due, and more than random arrivals deviate: it was due in the warm-up.
    fn has_backlog(&self) -> bool {
        let e = self.e;
        e.requested_rate.is_some_and(|requested| {
            let excess = (e.sent_rate - requested) * e.seconds;
            e.sent_rate > requested * 1.05 && excess > 1.5 + 4.0 * e.requested_deviation
        })
    }

    /// The requested rate was met; lateness is a sentence of its own.
    fn rate_met(&self, late: Option<Lateness>) -> String {
        let e = self.e;
        let met = self.met();
        let late_share = percent(e.late_share);
        let Some(late) = late else {
            let busiest = self.worker_with_most(|it| it.at_work);
            let other = self.latest_worker().filter(|name| busiest.is_some_and(|it| it.name != *name));
            let whose = other.map_or_else(String::new, |name| format!(" that of worker {name} was"));
            let lag = if e.loop_lag_max_ns < 1_000_000 {
                String::new()
            } else {
                format!(",{whose} late by up to {}", duration(e.loop_lag_max_ns))
            };
            return format!(
                "{met}, {late_share} of them over 1 ms late; {} was busy {} of the time{lag}",
                self.event_loop(|it| it.at_work),
                percent(e.at_work())
            );
        };
        let why = match late {
            Lateness::BrokerStalled => {
                format!("because {}", self.stood_still(&format!("the {}", self.target)))
            }
            Lateness::GeneratorStalled => {
                let who = self.latest_worker().map_or_else(|| "bellows itself".to_owned(), |it| format!("worker {it}"));
                format!("while {who} did not run (for {})", self.stalled(Stalled::Generator))
            }
            Lateness::MachineStalled => {
                format!("while the machine stood still (for {})", self.stalled(Stalled::Machine))
            }
            Lateness::OwnFault => format!("because of {}", self.own_fault(false)),
            Lateness::Broker => self.broker_lateness(),
            Lateness::Cores => format!("for lack of CPU: {}", self.waited_for_core()),
            Lateness::Generator if e.loop_lag_max_ns < 1_000_000 => "and no cause stands out".to_owned(),
            Lateness::Generator => {
                let event_loop = self.event_loop(|it| it.absence.loop_lag_max_s);
                format!("because {event_loop} was late by up to {}", duration(e.loop_lag_max_ns))
            }
        };
        let latest = self.worker_with_most(|it| it.late_share.unwrap_or(0.0));
        let latest = latest.filter(|_| matches!(late, Lateness::Cores | Lateness::Generator));
        let latest = latest.and_then(|it| Some(format!("; {} of worker {}'s", percent(it.late_share?), it.name)));
        let why = why + &latest.unwrap_or_default();
        format!("{met}; {late_share} of the {} {} over 1 ms late, {why}", self.words.items, self.words.left)
    }

    /// How long the event loop waited for a core, beside late time of a low rate; or who waited longer in a stall.
    fn waited_for_core(&self) -> String {
        let e = self.e;
        let waited = e.run_queue_wait();
        let all = [Stalled::Broker, Stalled::Generator, Stalled::Machine];
        let longest = all.map(|who| (e.waited_in_stalls(who).0, who)).into_iter().max_by(|a, b| a.0.total_cmp(&b.0));
        match longest {
            Some((longest, who)) if longest > waited * e.seconds => self.stalled_for_cores(who),
            _ if waited >= e.late_share * 0.5 => format!(
                "{} waited {} of the time in the run queue{}",
                self.event_loop(|it| it.run_queue_wait),
                percent(waited),
                self.others()
            ),
            _ => format!(
                "{} waited {} in the run queue, and {} were late for {}{}",
                self.event_loop(|it| it.run_queue_wait),
                seconds(waited * e.seconds),
                self.words.items,
                seconds(e.late_time() * e.seconds),
                self.others()
            ),
        }
    }

    /// How long who stood still waited for a core meanwhile, and who had it.
    fn stalled_for_cores(&self, who: Stalled) -> String {
        let e = self.e;
        let whose = match who {
            Stalled::Broker => format!("the {}'s", self.target),
            Stalled::Generator => "bellows'".to_owned(),
            Stalled::Machine => format!("the {}'s and bellows'", self.target),
        };
        format!(
            "{whose} threads waited {} in the run queue in the seconds of its stalls, while other processes took \
             {:.1} of the {}",
            seconds(e.waited_in_stalls(who).0),
            e.other_cores().unwrap_or(0.0),
            counted(e.all_cores().into(), "core")
        )
    }

    /// Cost of the run's own faults, in deliveries or in messages to send.
    pub(super) fn own_fault(&self, deliveries: bool) -> String {
        let e = self.e;
        let (of, items, scheduled) = match deliveries {
            true => (e.ended.deliveries_behind, "deliveries", e.expected_rate.is_some()),
            false => (e.ended.behind, self.words.items, e.requested_rate.is_some()),
        };
        let Lacking { all, in_faults, .. } = of;
        let (faults, share) = (self.own_faults(), percent(in_faults / all));
        match scheduled {
            true => format!("{faults}: {share} of the late {items} were due then"),
            false => format!("{faults}: {share} of the drop in {items} against other seconds came then"),
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
            (time.socket, format!("waiting for the {} to read", self.target)),
            (time.blocked, format!("while the {} blocked its publishers", self.target)),
            (time.away, "without a connection".to_owned()),
        ];
        let most = waits.into_iter().max_by(|a, b| a.0.total_cmp(&b.0));
        most.map_or_else(String::new, |(share, what)| format!("{what} ({} of the time)", percent(share)))
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
            let often = if times > 1 { format!(" ({times} times)") } else { String::new() };
            (times > 0).then(|| format!("{}{often}", seconds(sum)))
        };
        let all = seconds(self.e.seconds);
        let text = match (of(false), of(true)) {
            (silent, None) => format!("{broker} stopped answering for {} of the {all}", silent.unwrap_or_default()),
            (None, Some(away)) => format!("{broker} was away (no connection) for {away} of the {all}"),
            (Some(silent), Some(away)) => {
                format!("{broker} was away (no connection) for {away} of the {all}, and stopped answering for {silent}")
            }
        };
        if self.e.stalled_in_faults(Stalled::Broker) { format!("{text}, during {}", self.own_faults()) } else { text }
    }

    fn others(&self) -> String {
        let others = self.e.other_cores().filter(|others| *others >= 0.1);
        others.map_or_else(String::new, |others| format!(", while other processes took {others:.1} cores"))
    }

    /// Somebody had no core.
    fn cores(&self, cause: &Cause) -> String {
        let e = self.e;
        let all = e.all_cores();
        let waited =
            format!("event loop waited {} of the time in the run queue for a core", percent(e.run_queue_wait()));
        // It can only be lifted where there is one.
        let pinned = e.cores < all;
        match cause {
            Cause::OthersFillMachine => format!(
                "other processes took {:.1} of the {}, for which the {}'s threads and the generator waited: stop the \
                 others, and run again",
                e.other_cores().unwrap_or(0.0),
                counted(all.into(), "core"),
                self.target
            ),
            Cause::GeneratorLacksCores { others: Some(others) } => format!(
                "its {waited}, while other processes took {others:.1} cores: stop them{}",
                if pinned { ", or lift its CPU affinity" } else { "" }
            ),
            Cause::BothFillMachine => format!(
                "{} ({:.1}) and generator ({:.1}) fill the {} that they share, and the generator's {waited}: separate \
                 machines would show which is slower",
                self.target,
                e.broker.as_ref().map_or(0.0, |used| used.cores),
                e.client_cores.unwrap_or(0.0),
                counted(all.into(), "core")
            ),
            Cause::MachineFull => format!(
                "the machine is full, and the generator's {waited}; the {}'s process, and so its CPU, is not known: \
                 name it (--pid)",
                self.target
            ),
            _ if pinned => format!("its {waited}: lift its CPU affinity, it may use {} of {all} cores", e.cores),
            _ => format!("its {waited}: give it more CPU time"),
        }
    }

    /// Sentence on a wait that the way to the broker may have caused.
    fn way(&self, cause: &Cause) -> String {
        let e = self.e;
        let target = self.target;
        let answers = self.wait(Awaited::Answers);
        let proxy = e.proxy.as_deref().unwrap_or("a proxy");
        match cause {
            Cause::RoundTrip => format!(
                "{answers}, and a round trip takes {}: raise {}",
                duration(e.round_trip_ns.unwrap_or(0)),
                self.limit
            ),
            Cause::ProxyWay => format!(
                "{answers}, and the way through {proxy} and back takes {} even without load: raise {}, or connect to \
                 the {target} directly",
                duration(e.idle_answer_ns.unwrap_or(0)),
                self.limit
            ),
            Cause::LinkFull { wait } => format!("{}, and {}", self.wait(*wait), self.link()),
            Cause::NetworkFull => {
                let tcp = e.connections.unwrap_or_default();
                format!(
                    "{}, but the {target}'s receive window only for {}; {} of the segments were retransmitted",
                    self.wait(Awaited::Sockets),
                    percent(tcp.peer_full),
                    percent(tcp.resent)
                )
            }
            Cause::ProxyFull { wait } => match e.proxy_held_ns {
                Some(held) if held.saturating_mul(2) >= e.answer_ns => format!(
                    "{}; bytes stay in {proxy} for {} of that: it passes on no more; connect to the {target} directly",
                    self.wait(*wait),
                    duration(held)
                ),
                _ => format!(
                    "{}: {proxy} takes no more, though the {target} reads all that it gets; connect to the {target} \
                     directly",
                    self.wait(*wait)
                ),
            },
            Cause::ProxyHides { wait } => format!(
                "{}, but {proxy} passes connections on to the {target}, which hides who is slow: connect to the \
                 {target} directly, or name its process (--pid)",
                self.wait(*wait)
            ),
            Cause::SlowEvenIdle => format!(
                "{answers}; even without load the simplest answer took {}, TCP's round trip {} of it: either a proxy \
                 or the {target} itself is slow",
                duration(e.idle_answer_ns.unwrap_or(0)),
                duration(e.round_trip_ns.unwrap_or(0))
            ),
            Cause::BrokerDoesNotRead => {
                let window =
                    e.behind_proxy.or(e.connections).filter(|_| !e.same_machine).map_or_else(String::new, |tcp| {
                        format!(", and its receive window for {}", percent(tcp.peer_full))
                    });
                format!("it did not read: {}{window}", self.wait(Awaited::Sockets))
            }
            _ => format!("{}: either the {target} does not read, or the network is full", self.wait(Awaited::Sockets)),
        }
    }

    fn wait(&self, wait: Awaited) -> String {
        let time = self.e.producers.unwrap_or_default();
        match wait {
            Awaited::Answers => {
                let share = if self.e.closed_loop { self.e.answers_share().min(1.0) } else { time.budget };
                let who = if self.e.is_churn() { format!("due {}", self.words.items) } else { "producers".to_owned() };
                format!("{who} waited {} of the time for {} ({})", percent(share), self.answers, self.window())
            }
            Awaited::Credit => format!("producers waited {} of the time for credit", percent(time.credit)),
            Awaited::Sockets => {
                format!("sockets to the {} were full for {} of the time", self.target, percent(time.socket))
            }
            Awaited::Deliveries => "consumers had time to spare".to_owned(),
        }
    }

    /// The in-flight limit, and how long each took.
    fn window(&self) -> String {
        let e = self.e;
        let (each, done) = match e.ended.transaction {
            _ if e.is_churn() => ("each", "completed"),
            0 => ("until confirmed", "confirmed"),
            _ => ("until committed", "committed"),
        };
        let answer = format!("{} {each}", duration(e.answer_ns));
        match e.in_flight_limit {
            Some(limit) if e.answer_ns > 0 => format!("{} in flight x {answer}", count(limit)),
            Some(limit) => format!("{} in flight, none {done}", count(limit)),
            None if e.answer_ns > 0 => answer,
            None => format!("none {done}"),
        }
    }

    fn busy(&self, busy: Busy) -> String {
        let all = counted(self.e.all_cores().into(), "core");
        let Some(used) = &self.e.broker else { return String::new() };
        match busy {
            Busy::Machine => format!("it fills the machine: {:.1} of {all}", used.cores),
            Busy::Thread => {
                let name = used.busiest_thread_name.as_deref();
                let thread = name.map_or_else(|| "busiest thread".to_owned(), |it| format!("thread {it}"));
                let share = percent(used.busiest_thread.unwrap_or(0.0));
                format!("its {thread} used {share} of a core")
            }
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
