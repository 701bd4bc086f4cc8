//! The findings that a verdict rests on, each in words.

use archive::{OwnFault, WorkerSummary};

use super::stalls::longest_stall;
use super::verdict::{VerdictText, some_of};
use crate::numbers::{at_least, count, counted, duration, percent, rate, seconds};

impl VerdictText<'_> {
    /// How many operations had no end by the end of the measured phase, where that is more than a tenth.
    pub(super) fn still_open(&self) -> String {
        let own = self.e.ended.churn.iter().find(|churn| !churn.beside);
        let begun = (self.e.sent_rate * self.e.seconds).round() as u64;
        let ended = own.map_or(0, |churn| churn.ended);
        match begun.saturating_sub(ended) {
            open if ended > 0 && open > 1 && open > begun / 10 => format!(
                "; only {} of them ended in that time, {} per second, and {} were open at its end",
                count(ended),
                rate(ended as f64 / self.e.seconds),
                count(open)
            ),
            _ => String::new(),
        }
    }

    /// Sent and requested rates, and the share sent late, unless nothing was sent.
    fn requested_and_sent(&self) -> String {
        let e = self.e;
        let (sent, requested) = (rate(e.sent_rate), self.requested());
        let late = match e.sent_rate {
            0.0 => String::new(),
            _ => format!(", {} of them over 1 ms late", percent(e.late_share)),
        };
        // More than requested, because a backlog of the warm-up went in the place of these.
        let is_behind = e.ended.unsent > 1 && e.requested_rate.is_some_and(|requested| e.sent_rate >= requested);
        let unsent = counted(e.ended.unsent, self.item());
        let never = if is_behind { format!("; {unsent} never left though due") } else { String::new() };
        format!("{sent} of {requested} {} were {}{late}{never}", self.words.unit, self.words.begun)
    }

    /// A state of the producers, and its share of their time.
    fn producers_were(&self, state: &str, share: f64) -> String {
        let who = if self.e.is_churn() { "the generator was" } else { "producers were" };
        match percent(share).as_str() {
            "100 %" => format!("{who} always {state}"),
            share => format!("{who} {state} {share} of the time"),
        }
    }

    pub(super) fn reason(&self, code: &str) -> String {
        let e = self.e;
        let time = e.producers.unwrap_or_default();
        match code {
            "requested" => self.requested_and_sent(),
            "in_flight_full" => self.producers_were("at the in-flight limit", time.budget),
            "no_credit" => self.producers_were("without credit", time.credit),
            "socket_full" => self.producers_were("held up by full sockets", time.socket),
            "blocked" => self.producers_were(&format!("blocked by the {}", self.target), time.blocked),
            "away" => self.producers_were("without a connection", time.away),
            "ready" => self.producers_were("held up by the event loop", time.ready),
            "schedule" => self.producers_were("idle", time.schedule) + "; nothing was due",
            "consumers_behind" => format!(
                "consumers received {} of {} msg/s sent to them: the backlog grew",
                rate(e.received_rate),
                rate(e.expected_rate.unwrap_or(0.0))
            ),
            "own_fault" => self.faults_made(),
            "stalls" => longest_stall(&e.stalls().collect::<Vec<_>>(), e.items(), e.role()),
            "loop_busy" => self.loop_busy(),
            "loop_run_queue_wait" => format!(
                "{}{} waited {} of the time in the run queue",
                if e.loops.len() > 1 { "one of the event loops" } else { "the event loop" },
                self.of_worker(|it| it.run_queue_wait),
                percent(e.run_queue_wait())
            ),
            _ => self.surroundings(code),
        }
    }

    /// The faults of the run itself, when they began and how long they had an effect.
    fn faults_made(&self) -> String {
        let fault = |it: &OwnFault| match it.until_s.is_finite() {
            true => format!("{} at {:.1} s for {}", it.name, it.from_s, seconds(it.until_s - it.from_s)),
            false => format!("{} at {:.1} s until the end", it.name, it.from_s),
        };
        let faults: Vec<String> = self.e.ended.faults.iter().map(fault).collect();
        format!("the run's own faults: {}", some_of(&faults))
    }

    /// `, of worker b,`: the one with most of something; empty without workers.
    fn of_worker(&self, share: fn(&WorkerSummary) -> f64) -> String {
        self.worker_with_most(share).map_or_else(String::new, |it| format!(", of worker {},", it.name))
    }

    /// The worker of a fleet whose event loop was late by most.
    pub(super) fn latest_worker(&self) -> Option<&str> {
        let latest = self.worker_with_most(|it| it.absence.loop_lag_max_s)?;
        (latest.absence.loop_lag_max_s > 0.0).then_some(latest.name.as_str())
    }

    fn loop_busy(&self) -> String {
        let e = self.e;
        let which = match e.loops.len() {
            1 => "the event loop".to_owned(),
            loops => format!("the busiest of {loops} event loops"),
        };
        let of_worker = self.of_worker(|it| it.at_work);
        let late = match e.loop_lag_max_ns {
            // Without a schedule none is measured.
            0 => String::new(),
            worst => format!(
                ", late by {} in the median second and by up to {}{}",
                duration(e.loop_lag_median_ns),
                duration(worst),
                self.latest_worker().map_or_else(String::new, |name| format!(" (worker {name})"))
            ),
        };
        format!(
            "{which}{of_worker} was busy {} of the time{}{late}",
            percent(e.at_work()),
            if e.spun { " (spinning)" } else { "" }
        )
    }

    fn surroundings(&self, code: &str) -> String {
        let e = self.e;
        let (target, all) = (self.target, e.all_cores());
        match code {
            "broker_cpu" => self.broker_cpu(),
            "broker_unknown" => format!("the {target}'s process, and so its CPU, is not known"),
            "affinity" => format!("bellows may use {} of this machine's {all} cores", e.cores),
            "machine_idle" => {
                let others = e.other_cores().filter(|others| *others >= 0.1);
                let others =
                    others.map_or_else(String::new, |others| format!("; other processes used {others:.2} cores"));
                let idle = percent(e.idle.unwrap_or(0.0));
                format!("{idle} of this machine's {all} cores were idle{others}")
            }
            "shared_cores" => format!(
                "{target} and generator share {}: alone, the {target} would reach more",
                counted(u64::from(all), "core")
            ),
            "relay" => format!(
                "{} on this machine passes connections on to the {target}: TCP figures cover the way to it alone",
                e.proxy.as_deref().unwrap_or("a process")
            ),
            "round_trip" => {
                let idle = e.idle_answer_ns.map_or_else(String::new, |idle| {
                    format!(", and the {target}'s simplest answer {} before the load began", duration(idle))
                });
                let best = duration(e.round_trip_ns.unwrap_or(0));
                format!("TCP's round trip took at least {best}{idle}")
            }
            "connections" => {
                let tcp = e.connections.unwrap_or_default();
                format!(
                    "TCP had bytes in flight {} of the time; the peer's receive window was full {}, {} of the segments \
                     were retransmitted, and at the end a round trip took {}",
                    percent(tcp.busy),
                    percent(tcp.peer_full),
                    percent(tcp.resent),
                    duration(tcp.round_trip_ns)
                )
            }
            "capacity" => e.capacity.as_ref().map_or_else(String::new, |capacity| {
                format!(
                    "with the embedded broker on this machine the generator made {}{} msg/s ({})",
                    at_least(capacity.at_least),
                    rate(capacity.rate),
                    capacity.shape
                )
            }),
            _ => "the generator's capacity on this machine is not known: run `bellows doctor --calibrate`".to_owned(),
        }
    }

    fn broker_cpu(&self) -> String {
        let Some(used) = &self.e.broker else { return String::new() };
        let mut text = format!("the {} used {:.2} cores", self.target, used.cores);
        if let Some(share) = used.busiest_thread {
            let name = used.busiest_thread_name.as_deref().unwrap_or("?");
            text += &format!(", its busiest thread ({name}) {} of one", percent(share));
        }
        if let Some(waited) = used.run_queue_wait.filter(|waited| *waited >= 0.01) {
            text += &format!("; its threads together waited {waited:.2} s per second in the run queue");
        }
        text
    }
}
