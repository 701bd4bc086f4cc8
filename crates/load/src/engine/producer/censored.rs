//! A producer's messages that have no answer when the run ends, sent or only due.

use measure::Time;

use super::{NextSend, Producer};
use crate::report::Censored;

impl Producer {
    /// Messages that became due between two instants and were not sent.
    pub(crate) fn unsent(&self, from: Time, until: Time) -> u64 {
        let Some(NextSend::Scheduled(due_times)) = &self.next_send else { return 0 };
        let mut due_times = due_times.clone();
        let left = self.spec.limit.unwrap_or(u64::MAX).saturating_sub(self.sequence);
        let before = due_times.pass(from, left);
        due_times.pass(until, left - before)
    }

    /// Takes what was due before `drain_at` and has no answer at `end`: it has waited at least this long. What was
    /// never sent waited for the broker until the connection was `free` and everything else was answered. It is counted
    /// by latency, not by message: a broker that stalls may leave billions.
    pub(crate) fn censor(&mut self, drain_at: Time, free: Time, end: Time, censored: &mut Censored) {
        let is_answered = self.window.as_ref().is_none_or(|window| window.open() == 0) && !self.resends.is_pending();
        let waited_until = if is_answered { drain_at.max(free) } else { end };
        if let Some(window) = &self.window {
            let open = window.unanswered().chain(self.resends.pending());
            open.for_each(|(_, intended)| censored.unanswered(intended, end));
        }
        let Some(NextSend::Scheduled(due_times)) = &mut self.next_send else { return };
        let mut left = self.spec.limit.unwrap_or(u64::MAX).saturating_sub(self.sequence);
        while left > 0 && due_times.due() < drain_at {
            let due = due_times.due();
            let alike = censored.alike_until(due, waited_until);
            let count = due_times.pass(alike.min(drain_at), left);
            let deliveries = self.spec.expected_deliveries;
            censored.unsent(due, waited_until, count, self.window.is_some(), deliveries);
            left -= count;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use measure::{Metric, Nanos, Phase, Rate};
    use testkit::Random;

    use super::*;
    use crate::engine::producer::{ProducerSpec, ResolvedArrivals};
    use crate::{ArrivalSchedule, Guarantee, RateProfile, Spacing, Step, Trace};
    use plan::Pacer;

    /// One of several producers that was due to send from `start` on, and has sent nothing.
    fn producer(pacer: Arc<Pacer>, position: u64, limit: Option<u64>, start: Time) -> Producer {
        let mut producer = Producer::new(ProducerSpec {
            id: position as u32,
            run_id: 1,
            producers: pacer.producers,
            arrivals: ResolvedArrivals::Scheduled { pacer, ends_run: false },
            message_size: 32,
            contents: None,
            delay: Nanos::ZERO,
            position,
            guarantee: Guarantee::Confirms,
            commit_every: 0,
            max_pending: 100,
            confirm_timeout: None,
            resend: false,
            keys: None,
            unique_properties: None,
            limit,
            expected_deliveries: 2,
            bitmap: None,
        });
        producer.start(start);
        producer
    }

    /// Expectation of [`Producer::censor`], one message after the other.
    fn one_by_one(mut producer: Producer, drain_at: Time, free: Time, all: &mut Censored) {
        let Some(NextSend::Scheduled(due_times)) = &mut producer.next_send else { return };
        let mut left = producer.spec.limit.unwrap_or(u64::MAX);
        while left > 0 && due_times.due() < drain_at {
            all.unsent(due_times.due(), drain_at.max(free), 1, true, 2);
            due_times.advance();
            left -= 1;
        }
    }

    fn profile(random: &mut Random) -> RateProfile {
        let rate = |random: &mut Random| {
            let most = random.of(&[1, 1_000, 1_000_000, 1_000_000_000]);
            (1 + random.below(most * 1_000)) as f64 / 1e3
        };
        let length = |random: &mut Random| {
            let most = random.of(&[10, 100_000, 2_000_000_000]);
            Nanos(1 + random.below(most))
        };
        let step = |random: &mut Random| {
            let (from, to) = (rate(random), rate(random));
            let length = length(random);
            random.of(&[Step { from, to, length }, Step::level(from, length)])
        };
        match random.below(4) {
            0 => RateProfile::Constant(Rate::per_second(rate(random)).unwrap()),
            1 => RateProfile::Steps {
                steps: (0..1 + random.below(3)).map(|_| step(random)).collect(),
                repeat: random.one_in(2),
            },
            2 => {
                let mean = rate(random);
                RateProfile::Sine { mean, amplitude: random.of(&[mean, 0.0]), period: length(random) }
            }
            _ => {
                let mut times: Vec<u64> = (0..1 + random.below(50)).map(|_| random.below(1 << 31)).collect();
                times.sort_unstable();
                let lines: Vec<String> =
                    times.iter().map(|at| format!("{}.{:09}", at / 1_000_000_000, at % 1_000_000_000)).collect();
                let trace = Trace::parse(lines.join("\n").as_bytes(), "trace").unwrap();
                let every = Nanos((1 << 31) + random.below(1 << 31));
                RateProfile::Trace { trace: Arc::new(trace), every: random.one_in(2).then_some(every) }
            }
        }
    }

    #[test]
    fn what_was_never_sent_counts_as_if_it_were_counted_one_by_one() {
        let mut counted = 0;
        for seed in testkit::seeds(400) {
            let random = &mut Random::new(seed);
            let profile = profile(random);
            let is_trace = matches!(profile, RateProfile::Trace { .. });
            let spacing = if random.one_in(3) && !is_trace { Spacing::Poisson { seed } } else { Spacing::Even };
            let producers = 1 + random.below(3);
            let schedule = ArrivalSchedule::new(profile, spacing, random.one_in(4));
            let Ok(pacer) = schedule.pacer(producers) else { continue };
            let start = Time(random.below(1 << 31));
            // At most some ten thousand messages.
            let mut length = random.below(1 << 31);
            while pacer.until(Nanos(length)) > 2e4 {
                length /= 2;
            }
            let drain_at = start + Nanos(length);
            let free = Time(random.below(1 << 31));
            let measure_at = start + Nanos(random.below(1 << 31) % length.max(1));
            let limit = random.one_in(3).then(|| random.below(5_000));
            let end = drain_at.max(free) + Nanos(7);
            let mut all = Censored::new(measure_at, end);
            let mut expected = all.clone();
            for position in 0..producers {
                let producer = || producer(Arc::clone(&pacer), position, limit, start);
                producer().censor(drain_at, free, end, &mut all);
                one_by_one(producer(), drain_at, free, &mut expected);
            }
            let told = format!("{schedule:?}, seed {seed}");
            assert_eq!(all.unsent, expected.unsent, "{told}");
            for metric in [Metric::SEND_DELAY, Metric::ACK_RESPONSE, Metric::END_TO_END] {
                let of = |censored: &Censored, phase| {
                    let mut sum = measure::Recorder::new();
                    sum.add_due(phase, censored.interval.histograms()).unwrap();
                    sum.histogram(metric).clone()
                };
                for phase in [Phase::Warmup, Phase::Measure] {
                    assert_eq!(of(&all, phase), of(&expected, phase), "{told}");
                }
            }
            counted += all.unsent;
        }
        assert!(counted > 0, "nothing was due");
    }

    /// As after a minute of a billion messages per second at a broker that stood still.
    #[test]
    fn billions_that_were_never_sent_take_no_time_each() {
        let minute = Nanos::from_millis(60_000);
        let rate = Rate::per_second(1e9).unwrap();
        let (start, drain_at) = (Time(5), Time(5) + minute);
        let shapes = [
            RateProfile::Constant(rate),
            RateProfile::ramp(0.0, 1e9, Nanos(minute.0 / 3)),
            RateProfile::Sine { mean: 5e8, amplitude: 5e8, period: Nanos(minute.0 / 3) },
        ];
        for profile in shapes {
            for spacing in [Spacing::Even, Spacing::Poisson { seed: 7 }] {
                let schedule = ArrivalSchedule::new(profile.clone(), spacing, false);
                let mut censored = Censored::new(start, drain_at);
                let pacer = schedule.pacer(3).unwrap();
                for position in 0..3 {
                    let mut producer = producer(Arc::clone(&pacer), position, None, start);
                    producer.censor(drain_at, Time(0), drain_at, &mut censored);
                }
                let expected = pacer.until(minute);
                let off = (censored.unsent as f64 - expected).abs();
                let allowed = match spacing {
                    Spacing::Even => 1.0,
                    Spacing::Poisson { .. } => expected / 100.0,
                };
                assert!(off <= allowed, "{} for {expected}", censored.unsent);
                let histogram = censored.interval.latencies.histogram(Metric::ACK_RESPONSE);
                assert_eq!(histogram.len(), censored.unsent);
                assert!(histogram.max() > minute.0 / 100 * 99);
            }
        }
    }
}
