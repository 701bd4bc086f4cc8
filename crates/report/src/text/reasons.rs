//! The findings that a verdict rests on, each in words.

use archive::OwnFault;

use super::stalls::longest_stall;
use super::verdict::{Said, some_of};
use crate::numbers::{at_least, count, counted, duration, percent, rate, seconds};

impl Said<'_> {
    /// How many operations had no end by the end of the measured phase, where that is more than a tenth.
    pub(super) fn still_open(&self) -> String {
        let own = self.e.ended.churn.iter().find(|churn| !churn.beside);
        let begun = (self.e.sent_rate * self.e.seconds).round() as u64;
        let ended = own.map_or(0, |churn| churn.ended);
        match begun.saturating_sub(ended) {
            open if ended > 0 && open > 1 && open > begun / 10 => format!(
                "; only {} of them ended in that time, {} a second, and {} were open at its end",
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
        let (sent, asked) = (rate(e.sent_rate), self.requested());
        let late = match e.sent_rate {
            0.0 => String::new(),
            _ => format!(", {} of them over 1 ms late", percent(e.late_share)),
        };
        format!("{sent} of {asked} {} were {}{late}", self.unit, self.begun)
    }

    pub(super) fn reason(&self, code: &str) -> String {
        let e = self.e;
        let time = e.producers.unwrap_or_default();
        let waited = |share: f64, what: &str| {
            let whose = if e.is_churn() {
                "time"
            } else {
                "producers' time"
            };
            format!("for {} of the {whose} {what}", percent(share))
        };
        match code {
            "requested" => self.requested_and_sent(),
            "in_flight_full" => waited(time.budget, "as many were in flight as may be"),
            "no_credit" => waited(time.credit, "the broker gave no credit"),
            "socket_full" => waited(time.socket, "the sockets took no more bytes"),
            "blocked" => waited(time.blocked, "the broker had blocked the connection"),
            "away" => waited(time.away, "there was no connection"),
            "ready" => waited(time.ready, "one could go and waited for the event loop"),
            "schedule" => waited(time.schedule, "none was due"),
            "consumers_behind" => format!(
                "consumers got {} msg/s of the {} that were sent to them: a backlog grew",
                rate(e.received_rate),
                rate(e.expected_rate.unwrap_or(0.0))
            ),
            "own_fault" => self.faults_made(),
            "stalls" => longest_stall(&e.stalls().collect::<Vec<_>>(), e.items(), e.role()),
            "loop_busy" => self.loop_busy(),
            "loop_run_queue_wait" => format!(
                "{} waited {} of the time in the run queue",
                if e.loops.len() > 1 {
                    "one of the event loops"
                } else {
                    "the event loop"
                },
                percent(e.run_queue_wait())
            ),
            _ => self.surroundings(code),
        }
    }

    /// The faults of the run itself, when they began and how long they had an effect.
    fn faults_made(&self) -> String {
        let fault = |it: &OwnFault| match it.until_s.is_finite() {
            true => format!(
                "{} at {:.1} s for {}",
                it.name,
                it.from_s,
                seconds(it.until_s - it.from_s)
            ),
            false => format!("{} at {:.1} s until the end", it.name, it.from_s),
        };
        let faults: Vec<String> = self.e.ended.faults.iter().map(fault).collect();
        format!("the run itself made faults: {}", some_of(&faults))
    }

    fn loop_busy(&self) -> String {
        let e = self.e;
        let which = match e.loops.len() {
            1 => "the event loop".to_owned(),
            loops => format!("the busiest of {loops} event loops"),
        };
        let late = match e.loop_lag_max_ns {
            // Without a schedule none is measured.
            0 => String::new(),
            worst => format!(
                ", late by {} in the median second and {} at worst",
                duration(e.loop_lag_median_ns),
                duration(worst)
            ),
        };
        format!(
            "{which} was at work for {} of the time{}{late}",
            percent(e.at_work()),
            if e.spun { " (spinning)" } else { "" }
        )
    }

    fn surroundings(&self, code: &str) -> String {
        let e = self.e;
        let all = e.all_cores();
        match code {
            "broker_cpu" => self.broker_cpu(),
            "broker_unknown" => "the broker's process is not known: its CPU is no evidence".to_owned(),
            "affinity" => format!("bellows may use {} of this machine's {all} cores", e.cores),
            "machine_idle" => {
                let others = e.other_cores().filter(|others| *others >= 0.1);
                let others = others.map_or_else(String::new, |others| {
                    format!("; other processes used {others:.2} cores")
                });
                let idle = percent(e.idle.unwrap_or(0.0));
                format!("{idle} of this machine's {all} cores stood idle{others}")
            }
            "shared_cores" => format!(
                "broker and generator share {}: what one uses the other lacks, so that the broker alone would reach \
                 more",
                counted(u64::from(all), "core")
            ),
            "relay" => format!(
                "{} on this machine passes connections on to the broker: what is seen of the connections ends there",
                e.proxy.as_deref().unwrap_or("a process")
            ),
            "round_trip" => {
                let idle = e.idle_answer_ns.map_or_else(String::new, |idle| {
                    format!(", and the broker's simplest answer {} before the load began", duration(idle))
                });
                format!("TCP's round trip took {} at best{idle}", duration(e.round_trip_ns.unwrap_or(0)))
            }
            "connections" => {
                let tcp = e.connections.unwrap_or_default();
                format!(
                    "TCP had bytes in flight for {} of the time; the receive window at the other end was full for \
                     {}, {} of the segments were sent again, and at the end a round trip took {}",
                    percent(tcp.busy),
                    percent(tcp.peer_full),
                    percent(tcp.resent),
                    duration(tcp.round_trip_ns)
                )
            }
            "capacity" => e.capacity.as_ref().map_or_else(String::new, |capacity| {
                format!(
                    "against the embedded broker on this machine the generator made {}{} msg/s ({})",
                    at_least(capacity.at_least),
                    rate(capacity.rate),
                    capacity.shape
                )
            }),
            _ => "what the generator could make on this machine is not known: run `bellows doctor --calibrate`"
                .to_owned(),
        }
    }

    fn broker_cpu(&self) -> String {
        let Some(used) = &self.e.broker else {
            return String::new();
        };
        let mut text = format!("the broker used {:.2} cores", used.cores);
        if let Some(share) = used.busiest_thread {
            let name = used.busiest_thread_name.as_deref().unwrap_or("?");
            text += &format!(", its busiest thread ({name}) {} of one", percent(share));
        }
        if let Some(waited) = used.run_queue_wait.filter(|waited| *waited >= 0.01) {
            text += &format!(
                "; its threads together waited {waited:.2} s each second in the run queue"
            );
        }
        text
    }
}
