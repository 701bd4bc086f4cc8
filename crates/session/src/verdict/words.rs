//! The facts in words: what the verdict rests on, and what it implies.

use archive::{LimitedBy, Reason};
use measure::Nanos;

use super::{Case, machine_cores, reason};

/// Facts below these shares are not worth a line.
const WORTH: f64 = 0.01;

impl Case<'_> {
    /// `; the generator made 3.1 M msg/s of this size here`, where that was measured and is more.
    pub(super) fn could_have_made(&self, limited_by: LimitedBy) -> Option<String> {
        let capacity = self.e.capacity.as_ref()?;
        let made = self.e.sent_rate.max(self.e.received_rate);
        let counts = matches!(limited_by, LimitedBy::Broker | LimitedBy::Schedule);
        (counts && made > 0.0 && capacity.rate > made * 1.2).then(|| {
            format!(
                "; the generator could have made {}{} msg/s of this size here",
                at_least(capacity.at_least),
                rate(capacity.rate)
            )
        })
    }

    pub(super) fn reasons(&self) -> Vec<Reason> {
        let mut all = Vec::new();
        self.producers_in_words(&mut all);
        self.loops_in_words(&mut all);
        self.machine_in_words(&mut all);
        self.surroundings_in_words(&mut all);
        all
    }

    fn producers_in_words(&self, all: &mut Vec<Reason>) {
        let e = self.e;
        if let Some(asked) = e.requested_rate {
            all.push(reason(
                "requested",
                format!(
                    "{} of {} msg/s were sent, {} of them over 1 ms late",
                    rate(e.sent_rate),
                    rate(asked),
                    percent(e.late_share)
                ),
            ));
        }
        let Some(time) = e.producers else {
            return;
        };
        let waits = [
            (
                time.budget,
                "in_flight_full",
                "the in-flight budget was used up",
            ),
            (time.socket, "socket_full", "the sockets took no more bytes"),
            (
                time.blocked,
                "blocked",
                "the broker had blocked the connection",
            ),
            (time.away, "away", "there was no connection"),
            (
                time.ready,
                "ready",
                "a message could go and waited for the event loop",
            ),
            (time.schedule, "schedule", "no message was due"),
        ];
        let mut waits: Vec<_> = waits.into_iter().filter(|w| w.0 >= WORTH).collect();
        waits.sort_by(|a, b| b.0.total_cmp(&a.0));
        for (share, code, what) in waits {
            let text = format!("for {} of the producers' time {what}", percent(share));
            all.push(reason(code, text));
        }
        if self.consumers_behind() {
            all.push(reason(
                "consumers_behind",
                format!(
                    "consumers got {} msg/s of the {} that were sent to them: a backlog grew",
                    rate(e.received_rate),
                    rate(e.expected_rate.unwrap_or(0.0))
                ),
            ));
        }
    }

    fn loops_in_words(&self, all: &mut Vec<Reason>) {
        let e = self.e;
        let cpu = e.loops.iter().map(|used| used.cpu).fold(0.0, f64::max);
        let cpu = if e.spun {
            "spinning".to_owned()
        } else {
            format!("{} of a core", percent(cpu))
        };
        all.push(reason(
            "loop_busy",
            format!(
                "{} was at work for {} of the time ({cpu}), late by {} in the median second and {} at \
                 worst",
                match e.loops.len() {
                    1 => "the event loop".to_owned(),
                    loops => format!("the busiest of {loops} event loops"),
                },
                percent(self.busiest),
                duration(e.loop_lag_median_ns),
                duration(e.loop_lag_max_ns)
            ),
        ));
        if self.starved >= WORTH {
            all.push(reason(
                "loop_starved",
                format!(
                    "{} waited {} of the time for a core",
                    if e.loops.len() > 1 {
                        "one of the event loops"
                    } else {
                        "the event loop"
                    },
                    percent(self.starved)
                ),
            ));
        }
    }

    fn machine_in_words(&self, all: &mut Vec<Reason>) {
        let e = self.e;
        match &e.broker {
            Some(used) => {
                let mut text = format!("the broker used {:.2} cores", used.cores);
                if let Some(share) = used.busiest_thread {
                    let name = used.busiest_thread_name.as_deref().unwrap_or("?");
                    text += &format!(", its busiest thread ({name}) {} of one", percent(share));
                }
                if let Some(starved) = used.starved.filter(|starved| *starved >= WORTH) {
                    text += &format!(
                        "; its threads together waited {starved:.2} s each second for a core"
                    );
                }
                all.push(reason("broker_cpu", text));
            }
            None => all.push(reason(
                "broker_unknown",
                "the broker's process is not known: its CPU is no evidence".to_owned(),
            )),
        }
        if e.cores < machine_cores(e) {
            let text = format!(
                "bellows may use {} of this machine's {} cores",
                e.cores,
                machine_cores(e)
            );
            all.push(reason("affinity", text));
        }
        if let Some(idle) = e.idle {
            let others = self.others.filter(|others| *others >= 0.1);
            let others = others.map_or_else(String::new, |others| {
                format!("; other processes used {others:.2} cores")
            });
            all.push(reason(
                "machine_idle",
                format!(
                    "{} of this machine's {} cores stood idle{others}",
                    percent(idle),
                    machine_cores(e)
                ),
            ));
        }
        if e.same_machine && !e.apart && (self.full || machine_cores(e) <= 2) && e.broker.is_some()
        {
            all.push(reason(
                "shared_cores",
                format!(
                    "broker and generator share {} cores: what one uses the other lacks, so that the \
                     broker alone on them would reach more",
                    machine_cores(e)
                ),
            ));
        }
    }

    fn surroundings_in_words(&self, all: &mut Vec<Reason>) {
        let e = self.e;
        if let Some(relay) = &e.relay {
            let text = format!(
                "{relay} on this machine passes connections on to the broker: what is seen of the \
                 connections ends there"
            );
            all.push(reason("relay", text));
        }
        if let Some(took) = e.round_trip_ns {
            let mut text = format!("TCP's round trip took {} at best", duration(took));
            if let Some(idle) = e.idle_answer_ns {
                text += &format!(
                    ", and the broker's simplest answer {} before the load began",
                    duration(idle)
                );
            }
            all.push(reason("round_trip", text));
        }
        if let Some(tcp) = e.connections {
            all.push(reason(
                "connections",
                format!(
                    "TCP had bytes on the way for {} of the time; the receive window at the other end \
                     was full for {}, {} of the segments were sent again, and at the end a round trip \
                     took {}",
                    percent(tcp.busy),
                    percent(tcp.peer_full),
                    percent(tcp.resent),
                    duration(tcp.round_trip_ns)
                ),
            ));
        }
        all.push(match &e.capacity {
            Some(capacity) => reason(
                "capacity",
                format!(
                    "against the embedded broker on this machine the generator made {}{} msg/s ({})",
                    at_least(capacity.at_least),
                    rate(capacity.rate),
                    capacity.shape
                ),
            ),
            None => reason(
                "not_calibrated",
                "what the generator could make on this machine is not known: run `bellows calibrate`"
                    .to_owned(),
            ),
        });
    }
}

/// What to put before a lower bound.
const fn at_least(lower_bound: bool) -> &'static str {
    if lower_bound { "at least " } else { "" }
}

/// Three significant digits, grouped: `3.11 M`, `54,800`, `12.5`.
pub(super) fn rate(value: f64) -> String {
    if !value.is_finite() || value <= 0.0 {
        return "0".to_owned();
    }
    let magnitude = value.log10().floor() as i32;
    if magnitude >= 6 {
        return format!("{} M", plain(value / 1e6, magnitude - 6));
    }
    if magnitude < 3 {
        return plain(value, magnitude);
    }
    let unit = 10f64.powi(magnitude - 2);
    text(((value / unit).round() * unit) as u64)
}

fn plain(value: f64, magnitude: i32) -> String {
    let decimals = usize::try_from(2 - magnitude).unwrap_or(0);
    format!("{value:.decimals$}")
}

/// A whole number, grouped by thousands.
pub(super) fn text(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

pub(super) fn percent(share: f64) -> String {
    let value = share * 100.0;
    if value > 0.0 && value < 0.05 {
        "under 0.1 %".to_owned()
    } else if value > 0.0 && value < 9.95 {
        format!("{value:.1} %")
    } else {
        format!("{value:.0} %")
    }
}

pub(super) fn duration(ns: u64) -> String {
    Nanos(ns).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(rate(3_114_000.0), "3.11 M");
        assert_eq!(rate(54_812.0), "54,800");
        assert_eq!(rate(999.6), "1000");
        assert_eq!(rate(12.49), "12.5");
        assert_eq!(rate(0.0), "0");
        assert_eq!(rate(f64::NAN), "0");
        assert_eq!(percent(0.051), "5.1 %");
        assert_eq!(percent(1.0), "100 %");
        assert_eq!(text(1_234_567), "1,234,567");
    }
}
