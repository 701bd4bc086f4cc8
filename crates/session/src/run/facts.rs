//! Conversion of a run's observations into the facts to judge.

use archive::{BrokerUse, ChurnFacts, Ended, Facts, Lacking, LoopUse, OwnFault, ProducerTime};
use load::Silence;
use measure::{LatencySummary, Metric, Nanos, Phase, Time};

use super::companion::{named, own_fault};
use super::lasting::per_second;
use super::recording::{Recording, WholeSecond};
use crate::judge::{LAG_NS, LAG_PART, Planned, stalls, trend};
use crate::usage::Usage;

impl Recording<'_> {
    pub(crate) fn facts(&self, outcome: &load::Outcome, usage: &Usage) -> Facts {
        let seconds = self.measured_length.as_secs_f64();
        if !self.context.loaded() {
            // Without a load nothing is slowed down, by whatever build of bellows.
            return Facts {
                seconds,
                ended: Ended { interrupted: outcome.was_stopped(), ..Ended::default() },
                ..Facts::default()
            };
        }
        let rate = |count: u64| per_second(count, self.measured_length);
        let counters = &self.measured.counters;
        let first = self.first();
        let asked = first.filter(|first| first.requested.is_some()).map(|first| first.achieved.measured());
        let (begun, late) = first.map_or((0, 0), |first| first.begun_of_due(outcome, &self.measured));
        let producers = outcome.totals.sent > 0 || self.measured.waits.producing() > Nanos::ZERO;
        let service = self.measured.latencies.histogram(Metric::SEND_ACK);
        let lags: Vec<u64> = self.seen.lag_and_p99.iter().map(|(lag, _)| *lag).collect();
        let mut facts = Facts {
            seconds,
            requested_rate: asked.map(|(messages, _)| messages / seconds.max(1e-9)),
            counted: (self.context.planned.messages).is_some_and(|all| counters.sent >= all),
            requested_deviation: asked.map_or(0.0, |(_, deviation)| deviation),
            closed_loop: self.context.planned.closed_loop,
            slow_consumers: self.context.planned.slow_consumers,
            sent_rate: rate(begun),
            received_rate: rate(counters.received),
            expected_rate: self.context.planned.deliveries_each.map(|each| each * rate(counters.sent)),
            late_share: late as f64 / begun.max(1) as f64,
            producers: producers.then(|| ProducerTime::from(&self.measured.waits)),
            in_flight_limit: self.context.planned.in_flight_limit,
            answer_ns: match first.and_then(|first| first.operation_took(outcome, &self.measured)) {
                Some(took) => took,
                None if service.is_empty() => 0,
                None => service.mean() as u64,
            },
            loops: outcome.threads.iter().map(LoopUse::from).collect(),
            spun: outcome.spun,
            loop_lag_median_ns: median(lags),
            loop_lag_max_ns: self.measured.loop_lag_max.0,
            lag_explains: self.lag_explains(),
            cores: linux::cpus::usable(),
            machine_cores: usage.cores,
            apart: self.used.combined_cores.is_some_and(|cores| cores.disjoint),
            idle: usage.idle,
            steal: usage.steal,
            client_cores: usage.client.map(|used| used.cpu_cores),
            broker: usage.broker.map(|used| self.broker_use(used.cpu_cores)),
            same_machine: self.context.shared_machine,
            round_trip_ns: self.tcp.round_trip.map(|took| took.0),
            idle_answer_ns: self.tcp.idle_answer.map(|took| took.0),
            proxy: self.tcp.proxy.as_ref().map(|(_, name)| name.clone()),
            proxy_held_ns: self.tcp.held_by_proxy.map(|held| held.0),
            behind_proxy: self.tcp.behind_proxy,
            connections: self.tcp.connections,
            capacity: self.context.planned.capacity.clone(),
            workers: self.summary.workers.clone(),
            ended: self.ended(outcome),
        };
        if let Some(fleet) = &self.context.fleet {
            fleet.amend(&mut facts);
        }
        facts
    }

    /// The end of the load, and what the warnings name.
    fn ended(&self, outcome: &load::Outcome) -> Ended {
        let threads = || outcome.threads.iter();
        let censored = outcome.censored.as_deref();
        let of_phase = |phase| outcome.phases.iter().find(|span| span.phase == phase);
        let (measured_from, drain) = (of_phase(Phase::Measure), of_phase(Phase::Drain));
        let (counters, drained) = (&self.measured.counters, &self.seen.drained);
        let faults: Vec<OwnFault> = self.summary.faults.iter().filter_map(own_fault).collect();
        let for_good = self.summary.faults.iter().find(|it| it.for_good);
        let deliveries_each = self.context.planned.deliveries_each;
        Ended {
            debug_build: cfg!(debug_assertions),
            broke_off: outcome.error.is_some(),
            interrupted: outcome.was_stopped(),
            insecure: self.context.insecure,
            own_cores: self.used.combined_cores.filter(|it| !it.whole_machine).map(|it| it.cores),
            clock_source: self.record.hardware.clock_source.clone(),
            measured_from_s: measured_from.map_or(0.0, |span| self.seconds_since_origin(span.start)),
            seconds: self.seen.seconds.len() as u64,
            late_s: self.late_s(),
            trend: self.trend(),
            blocked: self.seen.blocked.summary(),
            blocked_at_s: (self.seen.blocked.at.iter()).map(|at| self.seconds_since_origin(*at)).collect(),
            lost_connections: threads().map(|thread| thread.lost_connections).sum(),
            lost_at_s: (self.seen.lost_at.iter()).map(|at| self.seconds_since_origin(*at)).collect(),
            down_connections: threads().map(|thread| thread.down_connections).sum(),
            sent: counters.sent,
            nacked: counters.nacked + drained.nacked,
            returned: counters.returned + drained.returned,
            transaction: self.context.planned.transaction,
            unconfirmed: outcome.unconfirmed,
            unanswered: censored.map_or(0, |censored| censored.unanswered),
            unsent: censored.map_or(0, |censored| censored.unsent),
            ledger: outcome.ledger,
            not_received: not_received(outcome, &self.context.planned),
            drained_s: drain.map_or(Nanos::ZERO, |span| span.end.since(span.start)).as_secs_f64(),
            received_s: 0.0,
            completed_s: 0.0,
            stalls: self.stalls(outcome),
            run_queue_waits: self.seen.contention.waits(self.context.origin),
            behind: lacking(&self.seen.seconds, &faults, |of| of.requested, |of| of.begun),
            deliveries_behind: lacking(
                &self.seen.seconds,
                &faults,
                |of| Some(deliveries_each? * of.sent as f64),
                |of| of.received,
            ),
            faults,
            for_good: for_good.map(named),
            too_few: self.too_few(),
            churn: self.churn_facts(outcome),
        }
    }

    /// The delays of all that was due in the measured phase, seconds in all.
    fn late_s(&self) -> f64 {
        let operations = self.first().and_then(|first| first.operations);
        let delay = operations.map_or(Some(Metric::SEND_DELAY), |of| of.scheduled.map(|it| it.wait));
        delay.map(|it| self.measured.latencies.histogram(it)).map_or(0.0, |it| it.mean() * it.len() as f64 / 1e9)
    }

    fn lag_explains(&self) -> f64 {
        let explains = |&&(lag, p99): &&(u64, u64)| lag >= LAG_NS && p99 > 0 && lag as f64 >= p99 as f64 * LAG_PART;
        let seconds = self.seen.lag_and_p99.iter().filter(explains).count();
        seconds as f64 / self.seen.lag_and_p99.len().max(1) as f64
    }

    /// The trend of the rate; `None` with a schedule, whose trend is intended.
    fn trend(&self) -> Option<f64> {
        let first = self.first();
        let operates = first.is_some_and(|first| first.operations.is_some());
        let publishes = self.measured.counters.sent > 0 || operates;
        let rate = |of: &WholeSecond| (if publishes { of.sent } else { of.received }) as f64 / of.dt;
        let rates: Vec<f64> = self.seen.seconds.iter().map(rate).collect();
        trend(&rates).filter(|_| first.is_none_or(|first| first.requested.is_none()))
    }

    fn stalls(&self, outcome: &load::Outcome) -> Vec<archive::Stall> {
        let connections = outcome.threads.iter().map(|thread| thread.connections).sum();
        let sending = outcome.phases.iter().filter(|span| span.phase != Phase::Drain);
        let end_of_sending = sending.map(|span| span.end).max().unwrap_or_default();
        let first = self.first();
        let requested = first.and_then(|first| first.requested.as_ref());
        let silences = &self.seen.silences.kept;
        let is_measured = |it: &&Silence| {
            let mut spans = outcome.phases.iter().filter(|span| span.phase == Phase::Measure);
            spans.any(|span| it.from < span.end && span.start < it.until)
        };
        let typical = first
            .map_or(Nanos::ZERO, |first| first.typical_answer(&self.measured, silences.iter().filter(is_measured)));
        let due = |from: Time, until: Time| {
            let (Some(requested), Some(start)) = (requested, self.started) else { return 0 };
            let since_start = |at: Time| at.min(end_of_sending).since(start);
            requested.messages(since_start(from), since_start(until)).round() as u64
        };
        // A whole interval: what came in a part of one may have come before or after.
        let answered = |silence: &Silence| {
            let mut beside = self.seen.answered_beside.iter();
            beside.any(|(from, until)| silence.from <= *from && *until <= silence.until)
        };
        stalls(silences, self.context.origin, typical, connections, due, answered)
    }

    /// The headline latencies that have too few samples for a percentile.
    fn too_few(&self) -> Vec<(String, u64, String)> {
        let operations = self.context.scenarios.iter().filter_map(|it| it.operations);
        let too_few = |metric: Metric| {
            let summary = LatencySummary::of(self.measured.latencies.histogram(metric));
            let (_, first) = LatencySummary::PERCENTILES.iter().find(|(p, _)| !summary.supports(*p))?;
            (summary.count > 0).then(|| (metric.name().to_owned(), summary.count, (*first).to_owned()))
        };
        let headline = [Metric::ACK_RESPONSE, Metric::END_TO_END].into_iter();
        headline.chain(operations.map(|of| of.latency)).filter_map(too_few).collect()
    }

    fn churn_facts(&self, outcome: &load::Outcome) -> Vec<ChurnFacts> {
        let facts = self.context.scenarios.iter().enumerate().filter_map(|(index, scenario)| {
            let operations = scenario.operations.as_ref()?;
            let tally = outcome.tallies.get(scenario.name)?;
            let count = |metric: Option<Metric>| metric.map_or(0, |it| tally.counts.get(it));
            let measured = |metric: Option<Metric>| metric.map_or(0, |it| self.measured.counts.get(it));
            let not_begun = count(operations.scheduled.map(|it| it.not_begun));
            let first_failure = tally.first_failure.as_ref();
            Some(ChurnFacts {
                beside: index > 0,
                kind: scenario.subject.clone(),
                unit: operations.many.to_owned(),
                role: operations.role,
                begun: tally.counts.get(operations.begun),
                failed: count(operations.failed),
                timed_out: tally.timed_out,
                ended: measured(Some(operations.completed)) + measured(operations.failed),
                not_begun: scenario.requested.as_ref().map_or(0, |_| not_begun),
                in_flight_limit: scenario.in_flight_limit.unwrap_or(0),
                first_failure: first_failure.map(|error| error.problem().sentence()),
            })
        });
        facts.collect()
    }

    fn broker_use(&self, cores: f64) -> BrokerUse {
        let seconds = self.measured_length.as_secs_f64().max(1e-9);
        let share = |time: Nanos| time.as_secs_f64() / seconds;
        let threads = self.used.broker_threads.as_ref();
        BrokerUse {
            cores,
            busiest_thread: threads.map(|used| share(used.busiest)),
            busiest_thread_name: threads.and_then(|used| used.name.clone()),
            run_queue_wait: threads.map(|used| share(used.run_queue_wait)),
        }
    }
}

/// Deliveries that are missing without another report, and of how many messages if a ledger knows that. Without one it
/// is their minimum, from those due for each message; messages that stood in queues before came first. Messages with
/// confirms are reported as lost, outstanding, refused or not confirmed.
fn not_received(outcome: &load::Outcome, planned: &Planned) -> Option<(u64, Option<u64>)> {
    let totals = &outcome.totals;
    let missing = match &outcome.ledger {
        Some(ledger) => {
            // The ledger counts a message once for each of its receivers.
            let receivers = ledger.sent.div_ceil(totals.sent.max(1));
            let told = (totals.nacked + outcome.unconfirmed).saturating_mul(receivers);
            let missing = ledger.unconfirmed_missing.saturating_sub(told);
            (missing, Some(ledger.sent))
        }
        None => {
            let refused = totals.nacked + totals.returned + outcome.unconfirmed;
            let sent = totals.sent.saturating_sub(refused);
            let expected = (planned.deliveries_due? * sent as f64).round() as u64;
            let received = totals.received.saturating_sub(planned.filled);
            (expected.saturating_sub(received), None)
        }
    };
    Some(missing).filter(|it| it.0 > 0 && outcome.error.is_none())
}

/// The part of the due work that was not done; without a schedule, seconds without a fault set the amount due.
fn lacking(
    seconds: &[WholeSecond],
    faults: &[OwnFault],
    due: impl Fn(&WholeSecond) -> Option<f64>,
    done: impl Fn(&WholeSecond) -> u64,
) -> Lacking {
    let in_fault =
        |of: &WholeSecond, fault: &OwnFault| (fault.until_s.min(of.t + of.dt) - fault.from_s.max(of.t)).max(0.0);
    let share = |of: &WholeSecond| {
        let length: f64 = faults.iter().map(|fault| in_fault(of, fault)).sum();
        (length / of.dt).min(1.0)
    };
    let (mut usual, mut length) = (0.0, 0.0);
    for of in seconds.iter().filter(|of| share(of) <= 0.0) {
        usual += done(of) as f64;
        length += of.dt;
    }
    let mut all = Lacking::default();
    for of in seconds.iter().filter(|_| !faults.is_empty()) {
        let scheduled = due(of);
        let due = scheduled.unwrap_or(usual / f64::max(length, 1e-9) * of.dt);
        let lacking = (due - done(of) as f64).max(0.0);
        all.due += due;
        all.all += if scheduled.is_some() { lacking } else { due };
        all.in_faults += lacking.min(due * share(of));
    }
    all
}

fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deliveries_that_nothing_else_tells_of_are_told() {
        let mut outcome = load::Outcome::started(Time(5));
        outcome.totals.sent = 500;
        outcome.totals.received = 200;
        let of = |deliveries_due, filled| Planned { deliveries_due, filled, ..Planned::default() };
        let (unknown, twice) = (of(None, 0), of(Some(2.0), 0));
        // Without a ledger they are the fewest that can be, where that is known.
        assert_eq!(not_received(&outcome, &unknown), None);
        assert_eq!(not_received(&outcome, &twice), Some((800, None)));
        // What stood in queues before is none of them.
        assert_eq!(not_received(&outcome, &of(Some(2.0), 1_000)), Some((1_000, None)));
        outcome.totals.returned = 400;
        assert_eq!(not_received(&outcome, &twice), None);
        outcome.ledger =
            Some(measure::ledger::LedgerSummary { sent: 500, unconfirmed_missing: 300, ..Default::default() });
        assert_eq!(not_received(&outcome, &unknown), Some((300, Some(500))));
        // Another group's confirms say nothing of them; what was refused or not confirmed is told as that.
        outcome.totals.completed = 1;
        assert_eq!(not_received(&outcome, &unknown), Some((300, Some(500))));
        (outcome.totals.nacked, outcome.unconfirmed) = (100, 50);
        assert_eq!(not_received(&outcome, &unknown), Some((150, Some(500))));
        outcome.unconfirmed = 200;
        assert_eq!(not_received(&outcome, &unknown), None);
        (outcome.totals.nacked, outcome.unconfirmed) = (0, 0);
        outcome.error = Some(load::Error::Limit(measure::Problem::new("", "", "")));
        assert_eq!(not_received(&outcome, &unknown), None);
    }

    #[test]
    fn what_fell_behind_while_a_fault_lasted_is_its_own() {
        let seconds: Vec<WholeSecond> = (0..10u32)
            .map(|second| WholeSecond {
                t: second.into(),
                dt: 1.0,
                requested: Some(100.0),
                // Away from 3.5 s to 6 s, then it catches up; at 9 s something else takes half of it.
                begun: [100, 100, 100, 50, 0, 0, 350, 100, 100, 50][second as usize],
                ..WholeSecond::default()
            })
            .collect();
        let fault = |from_s, until_s| OwnFault { name: "kill".to_owned(), from_s, until_s };
        let of = |faults: &[OwnFault], due: fn(&WholeSecond) -> Option<f64>| {
            let of = lacking(&seconds, faults, due, |of| of.begun);
            (of.due, of.all, of.in_faults)
        };
        let scheduled: fn(&WholeSecond) -> Option<f64> = |of| of.requested;
        assert_eq!(of(&[fault(3.5, 6.0)], scheduled), (1_000.0, 300.0, 250.0));
        assert_eq!(of(&[fault(3.5, f64::INFINITY)], scheduled).2, 300.0);
        assert_eq!(of(&[fault(1.0, 1.0)], scheduled).2, 0.0);
        assert_eq!(of(&[], scheduled), (0.0, 0.0, 0.0));
        // Without a schedule the other seconds say what was due.
        let usual = (300.0 + 350.0 + 200.0 + 50.0) / 7.0 * 10.0;
        let (due, all, in_faults) = of(&[fault(3.5, 6.0)], |_| None);
        assert!((due - usual).abs() < 1e-9 && all == due, "{due} {all}");
        assert!((in_faults - usual * 0.25).abs() < 30.0, "{in_faults}");
    }
}
