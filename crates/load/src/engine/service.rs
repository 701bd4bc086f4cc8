//! Consumers with a service time: deliveries wait in a queue of each, which works on one after the other.

use std::collections::VecDeque;

use measure::{Nanos, Time};

use crate::ServiceTime;
use crate::protocol::Received;

/// A connection is not read while this many deliveries wait for one of its consumers, as with RabbitMQ's Java client, …
const MOST_WAITING: usize = 1_000;
/// … or this many bytes of them.
const MOST_BYTES: usize = 1 << 20;

/// One consumer's work, and what waits for it.
#[derive(Debug)]
pub(crate) struct Service {
    times: ServiceTime,
    /// Length of one round through the latencies; 0 where the first one lasts for ever.
    round: Nanos,
    start: Time,
    /// The oldest delivery is being worked on, …
    is_at_work: bool,
    /// … or the one before it was, until then.
    busy_until: Time,
    /// Deliveries that came and are not done, oldest first.
    deliveries: VecDeque<Waiting>,
    /// Copies of their bodies and properties, one behind the other, from `first` on: the connection reads on.
    bytes: Vec<u8>,
    first: usize,
}

/// Next step of a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServiceStep {
    /// It takes the oldest delivery: call [`Service::begin`], or [`Service::discard`] where it is not wanted.
    Take,
    /// It is done with the one that it took last: call [`Service::discard`].
    Settle,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    tag: u64,
    redelivered: bool,
    came_at: Time,
    body: usize,
    properties: usize,
}

impl Service {
    pub(crate) fn new(times: ServiceTime) -> Option<Self> {
        let endless = times.latency.iter().any(|step| step.length.is_zero());
        let total = times.latency.iter().map(|step| step.length.0.0).sum();
        (!times.is_zero()).then_some(Self {
            times,
            round: Nanos(if endless { 0 } else { total }),
            start: Time(0),
            is_at_work: false,
            busy_until: Time(0),
            deliveries: VecDeque::new(),
            bytes: Vec::new(),
            first: 0,
        })
    }

    pub(crate) const fn start(&mut self, start: Time) {
        self.start = start;
    }

    /// Forgets what waits, which goes back to its queue; tells how many deliveries that were.
    pub(crate) fn restart(&mut self) -> u64 {
        let waiting = self.waiting();
        self.deliveries.clear();
        self.bytes.clear();
        (self.is_at_work, self.first) = (false, 0);
        waiting
    }

    /// Deliveries that are not done.
    pub(crate) fn waiting(&self) -> u64 {
        self.deliveries.len() as u64
    }

    /// Deliveries that came and that it has not taken.
    pub(crate) fn untaken(&self) -> u64 {
        self.waiting() - u64::from(self.is_at_work)
    }

    pub(crate) fn is_full(&self) -> bool {
        self.deliveries.len() >= MOST_WAITING || self.bytes.len() - self.first >= MOST_BYTES
    }

    pub(crate) fn arrive(&mut self, tag: u64, delivery: Received<'_>, now: Time) {
        if self.first > self.bytes.len() / 2 {
            self.bytes.drain(..self.first);
            self.first = 0;
        }
        self.bytes.extend_from_slice(delivery.body);
        self.bytes.extend_from_slice(delivery.properties);
        self.deliveries.push_back(Waiting {
            tag,
            redelivered: delivery.redelivered,
            came_at: now,
            body: delivery.body.len(),
            properties: delivery.properties.len(),
        });
    }

    pub(crate) fn step(&self, now: Time) -> Option<ServiceStep> {
        if self.is_at_work {
            (self.busy_until <= now).then_some(ServiceStep::Settle)
        } else {
            (self.waiting() > 0).then_some(ServiceStep::Take)
        }
    }

    /// The oldest delivery that is not done, with its tag.
    pub(crate) fn oldest(&self) -> Option<(u64, Received<'_>)> {
        let waiting = self.deliveries.front()?;
        let (body, rest) = self.bytes.get(self.first..)?.split_at_checked(waiting.body)?;
        let delivery = Received { body, properties: rest.get(..waiting.properties)?, redelivered: waiting.redelivered };
        Some((waiting.tag, delivery))
    }

    /// Properties of the oldest delivery that it has not taken.
    pub(crate) fn first_untaken(&self) -> Option<&[u8]> {
        let skipped = self.deliveries.front().filter(|_| self.is_at_work).map_or(0, |it| it.body + it.properties);
        let untaken = self.deliveries.get(usize::from(self.is_at_work))?;
        let from = self.first + skipped + untaken.body;
        self.bytes.get(from..from + untaken.properties)
    }

    /// Begins to work on the oldest delivery: when it came, or when the one before was done, however late the loop is.
    pub(crate) fn begin(&mut self) {
        if let Some(oldest) = self.deliveries.front() {
            let begin = self.busy_until.max(oldest.came_at);
            self.busy_until = begin + self.time(begin);
            self.is_at_work = true;
        }
    }

    pub(crate) fn discard(&mut self) {
        if let Some(done) = self.deliveries.pop_front() {
            self.first += done.body + done.properties;
        }
        self.is_at_work = false;
    }

    /// When the delivery in progress will be done.
    pub(crate) fn due(&self) -> Option<Time> {
        self.is_at_work.then_some(self.busy_until)
    }

    /// How long a delivery takes that is begun now.
    fn time(&self, now: Time) -> Nanos {
        self.times.rate.map_or(Nanos::ZERO, |rate| Nanos((1e9 / rate.get()) as u64)).max(self.latency(now))
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

    /// Delivery number `tag`, of a body that begins with its tag.
    fn arrive(service: &mut Service, tag: u8, now: u64) {
        let delivery = Received { body: &[tag, 1, 2], properties: &[tag, 9], redelivered: false };
        service.arrive(u64::from(tag), delivery, Time(now));
    }

    /// Does all that is due; tells the tags that it took and settled.
    fn work(service: &mut Service, now: u64) -> (Vec<u64>, Vec<u64>) {
        let (mut taken, mut settled) = (Vec::new(), Vec::new());
        while let Some(step) = service.step(Time(now)) {
            let (tag, delivery) = service.oldest().unwrap();
            assert_eq!(delivery.body, [tag as u8, 1, 2]);
            if step == ServiceStep::Take {
                taken.push(tag);
                service.begin();
            } else {
                settled.push(tag);
                service.discard();
            }
        }
        (taken, settled)
    }

    #[test]
    fn deliveries_are_worked_on_one_after_the_other() {
        let mut service = service(None, &[(100, 0)]);
        arrive(&mut service, 1, 50);
        arrive(&mut service, 2, 60);
        assert_eq!(work(&mut service, 60), (vec![1], vec![]));
        assert_eq!(service.due(), Some(Time(150)));
        assert_eq!((service.waiting(), service.untaken()), (2, 1));
        assert_eq!(service.first_untaken(), Some(&[2, 9][..]));
        assert_eq!(work(&mut service, 149), (vec![], vec![]));
        assert_eq!(work(&mut service, 160), (vec![2], vec![1]));
        assert_eq!(service.due(), Some(Time(250)), "begun when the first was done");
        assert_eq!(work(&mut service, 260), (vec![], vec![2]));
        assert_eq!((service.due(), service.first_untaken()), (None, None));
        arrive(&mut service, 3, 1_000);
        work(&mut service, 1_000);
        assert_eq!(service.due(), Some(Time(1_100)), "idle time is not saved up");
        arrive(&mut service, 4, 1_001);
        assert_eq!(service.restart(), 2);
        assert!(service.due().is_none() && service.oldest().is_none());
        arrive(&mut service, 1, 1_050);
        work(&mut service, 1_050);
        assert_eq!(service.due(), Some(Time(1_200)), "its work goes on without a connection");
    }

    #[test]
    fn what_waits_is_bounded_by_number_and_by_bytes() {
        let mut service = service(Some(1.0), &[]);
        (0..MOST_WAITING - 1).for_each(|_| arrive(&mut service, 1, 0));
        assert!(!service.is_full());
        arrive(&mut service, 1, 0);
        assert!(service.is_full());
        service.restart();
        let body = vec![0; MOST_BYTES / 4];
        let delivery = Received { body: &body, properties: &[], redelivered: false };
        for round in 0..1_000 {
            (0..4).for_each(|_| service.arrive(round, delivery, Time(0)));
            assert!(service.is_full());
            (0..4).for_each(|_| service.discard());
            assert!(!service.is_full());
        }
        assert!(service.bytes.capacity() <= 4 * MOST_BYTES);
    }

    #[test]
    fn a_rate_is_kept_without_drift() {
        let mut service = service(Some(1_000.0), &[]);
        let mut done = 0;
        for now in (0..=2_000_000_000).step_by(1_234_567) {
            while !service.is_full() {
                arrive(&mut service, 7, 0);
            }
            done += work(&mut service, now).1.len();
        }
        assert_eq!(done, 1_999, "the last step is at 1.9999 s");
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
