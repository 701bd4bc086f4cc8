//! Who limited a churn. The same questions as for messages, in the same order; what is in flight are
//! cycles, and what they wait for is room for one more.

use archive::{Evidence, LimitedBy, Reason, Verdict};

use super::words::{duration, percent, rate, text};
use super::{
    ACHIEVED, Conclusion, DOMINANT, FULL, LATE, OTHERS, SATURATED, SHORTEST, STARVED, at_work,
    machine_cores, ordered, others, reason, starved, undecided,
};

/// Concludes; rates and answers of the evidence are those of cycles.
pub(crate) fn churn_verdict(evidence: Evidence) -> Verdict {
    let Conclusion {
        limited_by,
        sentence,
        because,
    } = decide(&evidence);
    Verdict {
        limited_by,
        sentence,
        reasons: ordered(reasons(&evidence), &because),
        evidence,
    }
}

fn busiest(e: &Evidence) -> f64 {
    let loops = e.loops.iter().map(|used| at_work(used, e.spun));
    loops.fold(0.0, f64::max)
}

fn decide(e: &Evidence) -> Conclusion {
    if e.seconds < SHORTEST {
        let why = format!("only {:.2} s were measured, too short to tell", e.seconds);
        return undecided(why, &[]);
    }
    let busy = busiest(e);
    let kept = |asked: f64| {
        let missing = (asked - e.sent_rate) * e.seconds;
        e.sent_rate >= asked * ACHIEVED || missing < 1.5 + 4.0 * e.requested_deviation
    };
    if let Some(asked) = e.requested_rate.filter(|asked| kept(*asked))
        && e.late_share <= LATE
    {
        return Conclusion::new(
            LimitedBy::Schedule,
            format!(
                "limited by the schedule: bellows began the {} cycles/s that were asked for on time, \
                 and its event loop was at work for {} of the time",
                rate(asked),
                percent(busy)
            ),
            &["requested"],
        );
    }
    let waited = e.loops.iter().map(starved).fold(0.0, f64::max);
    let full = e.idle.is_some_and(|idle| idle < FULL);
    if waited >= STARVED && !full {
        return Conclusion::new(
            LimitedBy::Generator,
            format!(
                "limited by the generator: its event loop waited {} of the time for a core: give it \
                 more, or lift its CPU affinity",
                percent(waited)
            ),
            &["loop_starved"],
        );
    }
    if busy >= SATURATED {
        return Conclusion::new(
            LimitedBy::Generator,
            format!(
                "limited by the generator: its event loop was at work for {} of the time: run several \
                 at once",
                percent(busy)
            ),
            &["loop_busy"],
        );
    }
    let Some(time) = e.producers else {
        return undecided("no cycle began", &[]);
    };
    let lost = time.budget + time.ready;
    if time.budget >= lost * DOMINANT && lost > 0.0 {
        let places = e.in_flight_limit.unwrap_or(0);
        return Conclusion::new(
            LimitedBy::Broker,
            format!(
                "limited by the broker: for {} of the time all {} places (--max-open) were taken, by \
                 cycles that took {} on average once they had begun",
                percent(time.budget),
                text(places),
                duration(e.answer_ns)
            ),
            &["in_flight_full"],
        );
    }
    let others = others(e).filter(|others| *others >= OTHERS);
    let others = others.map_or_else(String::new, |others| {
        format!(", while other processes took {others:.1} cores")
    });
    Conclusion::new(
        LimitedBy::Generator,
        format!(
            "limited by the generator: {} of the cycles began over 1 ms late although there was room; \
             its event loop was late by up to {}{others}",
            percent(e.late_share),
            duration(e.loop_lag_max_ns)
        ),
        &["loop_busy"],
    )
}

fn reasons(e: &Evidence) -> Vec<Reason> {
    let mut all = Vec::new();
    if let Some(asked) = e.requested_rate {
        let text = format!(
            "{} of {} cycles/s began, {} of them over 1 ms late",
            rate(e.sent_rate),
            rate(asked),
            percent(e.late_share)
        );
        all.push(reason("requested", text));
    }
    if let Some(time) = e.producers.filter(|time| time.budget >= 0.01) {
        let text = format!(
            "for {} of the time all {} places were taken",
            percent(time.budget),
            text(e.in_flight_limit.unwrap_or(0))
        );
        all.push(reason("in_flight_full", text));
    }
    let text = format!(
        "the event loop was at work for {} of the time, late by {} in the median second and {} at worst",
        percent(busiest(e)),
        duration(e.loop_lag_median_ns),
        duration(e.loop_lag_max_ns)
    );
    all.push(reason("loop_busy", text));
    let waited = e.loops.iter().map(starved).fold(0.0, f64::max);
    if waited >= 0.01 {
        let text = format!("it waited {} of the time for a core", percent(waited));
        all.push(reason("loop_starved", text));
    }
    if let Some(used) = &e.broker {
        let text = format!("the broker used {:.2} cores", used.cores);
        all.push(reason("broker_cpu", text));
    }
    if let Some(idle) = e.idle {
        let text = format!(
            "{} of this machine's {} cores stood idle",
            percent(idle),
            machine_cores(e)
        );
        all.push(reason("machine_idle", text));
    }
    all
}

#[cfg(test)]
mod tests {
    use archive::{LoopUse, ProducerTime};

    use super::*;

    fn evidence(asked: Option<f64>, began: f64, budget: f64, idle: f64) -> Evidence {
        Evidence {
            seconds: 10.0,
            requested_rate: asked,
            sent_rate: began,
            late_share: if asked.is_some_and(|a| began >= a) {
                0.0
            } else {
                0.9
            },
            producers: Some(ProducerTime {
                budget,
                ready: (1.0 - budget) / 2.0,
                ..ProducerTime::default()
            }),
            in_flight_limit: Some(1_000),
            answer_ns: 4_000_000,
            loops: vec![LoopUse {
                cpu: 1.0 - idle,
                idle,
                starved: Some(0.0),
            }],
            ..Evidence::default()
        }
    }

    #[test]
    fn each_limit_is_found() {
        let cases = [
            (evidence(Some(100.0), 100.0, 0.0, 0.9), LimitedBy::Schedule),
            (evidence(Some(100.0), 50.0, 0.9, 0.6), LimitedBy::Broker),
            (evidence(None, 50.0, 0.9, 0.6), LimitedBy::Broker),
            (evidence(None, 50.0, 0.9, 0.02), LimitedBy::Generator),
            (evidence(Some(100.0), 99.0, 0.1, 0.6), LimitedBy::Generator),
        ];
        for (evidence, expected) in cases {
            let verdict = churn_verdict(evidence);
            assert_eq!(verdict.limited_by, expected, "{}", verdict.sentence);
            assert!(!verdict.sentence.contains("msg/s"));
        }
        let short = Evidence {
            seconds: 0.1,
            ..Evidence::default()
        };
        assert_eq!(churn_verdict(short).limited_by, LimitedBy::Undecided);
    }
}
