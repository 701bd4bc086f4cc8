//! Consumers that take their time: work on deliveries one after the other.

use measure::{Nanos, Time};

use crate::ServiceTime;

/// The tag of a delivery does not follow the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Jump {
    /// The tag before.
    pub(crate) last: u64,
}

/// One consumer's work. Delivery tags of a channel count 1, 2, 3, …, so what waits is a range of
/// them and takes no memory. A tag that does not follow would make deliveries of this range that never
/// came, without end where they take no time.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    times: ServiceTime,
    /// Length of one round through the latencies; 0 where the first one lasts for ever.
    round: Nanos,
    start: Time,
    /// When the delivery in progress will be done.
    busy_until: Time,
    /// Tag of the delivery in progress, and of the last one that came.
    next: u64,
    last: u64,
}

impl Service {
    pub(crate) fn new(times: ServiceTime) -> Option<Self> {
        let endless = times.latency.iter().any(|step| step.length.is_zero());
        let total = times.latency.iter().map(|step| step.length.0.0).sum();
        (!times.is_zero()).then_some(Self {
            times,
            round: Nanos(if endless { 0 } else { total }),
            start: Time(0),
            busy_until: Time(0),
            next: 1,
            last: 0,
        })
    }

    pub(crate) const fn start(&mut self, start: Time) {
        self.start = start;
    }

    /// Forgets what waits: the channel counts from 1 again.
    pub(crate) const fn restart(&mut self) {
        (self.next, self.last) = (1, 0);
    }

    /// Deliveries that are not done.
    pub(crate) const fn waiting(&self) -> u64 {
        self.last.saturating_add(1).saturating_sub(self.next)
    }

    /// A delivery has come.
    pub(crate) fn arrive(&mut self, tag: u64, now: Time) -> Result<(), Jump> {
        if self.waiting() == 0 {
            self.next = tag;
            self.busy_until = now + self.time(now);
        } else if self.last.checked_add(1) != Some(tag) {
            return Err(Jump { last: self.last });
        }
        self.last = tag;
        Ok(())
    }

    /// When the delivery in progress will be done.
    pub(crate) const fn due(&self) -> Option<Time> {
        if self.waiting() == 0 {
            None
        } else {
            Some(self.busy_until)
        }
    }

    /// A delivery that is done by now.
    pub(crate) fn finish(&mut self, now: Time) -> Option<u64> {
        if self.waiting() == 0 || self.busy_until > now {
            return None;
        }
        let done = self.next;
        self.next += 1;
        self.busy_until = self.busy_until + self.time(self.busy_until);
        Some(done)
    }

    /// How long a delivery takes that is begun now.
    fn time(&self, now: Time) -> Nanos {
        let by_rate = self
            .times
            .rate
            .map_or(Nanos::ZERO, |rate| Nanos((1e9 / rate.get()) as u64));
        by_rate.max(self.latency(now))
    }

    fn latency(&self, now: Time) -> Nanos {
        let since = now.since(self.start).0;
        let mut at = since.checked_rem(self.round.0).unwrap_or(since);
        for step in &self.times.latency {
            if step.length.is_zero() || at < step.length.0.0 {
                return step.latency.0;
            }
            at -= step.length.0.0;
        }
        Nanos::ZERO
    }
}

#[cfg(test)]
mod tests {
    use measure::{Length, Rate};

    use super::*;
    use crate::LatencyStep;

    fn service(rate: Option<f64>, latency: &[(u64, u64)]) -> Service {
        let step = |(latency, length): &(u64, u64)| LatencyStep {
            latency: Length(Nanos(*latency)),
            length: Length(Nanos(*length)),
        };
        let latency = latency.iter().map(step).collect();
        let rate = rate.and_then(Rate::per_second);
        Service::new(ServiceTime { rate, latency }).unwrap()
    }

    #[test]
    fn deliveries_are_worked_on_one_after_the_other() {
        let mut service = service(None, &[(100, 0)]);
        service.arrive(1, Time(50)).unwrap();
        service.arrive(2, Time(60)).unwrap();
        assert_eq!(service.due(), Some(Time(150)));
        assert_eq!(service.finish(Time(149)), None);
        assert_eq!(service.finish(Time(260)), Some(1));
        assert_eq!(
            service.finish(Time(260)),
            Some(2),
            "begun when the first was done"
        );
        assert_eq!((service.finish(Time(900)), service.due()), (None, None));
        service.arrive(3, Time(1_000)).unwrap();
        assert_eq!(
            service.due(),
            Some(Time(1_100)),
            "idle time is not saved up"
        );
        service.restart();
        assert_eq!(service.due(), None);
    }

    #[test]
    fn a_tag_that_does_not_follow_is_no_work_without_end() {
        // Latencies that are 0 for a while: whatever waits is done at once.
        for tag in [0, 1, 3, 1 << 60, u64::MAX] {
            let mut service = service(None, &[(10, 10), (0, 1_000_000)]);
            service.arrive(1, Time(0)).unwrap();
            assert_eq!(service.arrive(tag, Time(0)), Err(Jump { last: 1 }));
            assert_eq!(service.waiting(), 1);
        }
        // When nothing waits there is no range that could be wrong.
        let mut service = service(None, &[(10, 10), (0, 1_000_000)]);
        service.arrive(u64::MAX - 1, Time(0)).unwrap();
        assert_eq!(service.finish(Time(500)), Some(u64::MAX - 1));
        assert_eq!(service.finish(Time(500)), None);
    }

    #[test]
    fn a_rate_is_kept_without_drift() {
        let mut service = service(Some(1_000.0), &[]);
        (1..=5_000).for_each(|tag| service.arrive(tag, Time(0)).unwrap());
        let done = std::iter::from_fn(|| service.finish(Time(2_000_000_000))).count();
        assert_eq!(done, 2_000);
    }

    #[test]
    fn latencies_follow_each_other_and_come_again() {
        let mut service = service(None, &[(1, 10), (5, 20)]);
        service.start(Time(100));
        let times = [0, 9, 10, 29, 30, 41].map(|t| service.latency(Time(100 + t)).0);
        assert_eq!(times, [1, 1, 5, 5, 1, 5]);
    }

    #[test]
    fn no_service_time_is_no_service() {
        assert!(Service::new(ServiceTime::default()).is_none());
    }
}
