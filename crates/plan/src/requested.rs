//! Requested rates over time, to be compared with achieved ones.

use std::sync::Arc;

use measure::Nanos;

use crate::schedule::Pacer;
use crate::{ArrivalSchedule, Error};

/// Requested messages of all groups together, over time.
#[derive(Clone, Debug, Default)]
pub struct Requested {
    groups: Vec<Asked>,
}

/// Schedule of one group.
#[derive(Clone, Debug)]
struct Asked {
    pacer: Arc<Pacer>,
    message_count: Option<u64>,
    /// How much later than the load each producer begins; empty where none does.
    delays: Vec<Nanos>,
}

impl Requested {
    /// All that a schedule asks for.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a schedule that cannot be kept.
    pub fn of(schedule: &ArrivalSchedule) -> Result<Self, Error> {
        let mut requested = Self::default();
        requested.add(schedule.pacer(1)?, None, Vec::new());
        Ok(requested)
    }

    pub(crate) fn add(
        &mut self,
        pacer: Arc<Pacer>,
        message_count: Option<u64>,
        delays: Vec<Nanos>,
    ) {
        self.groups.push(Asked {
            pacer,
            message_count,
            delays,
        });
    }

    /// Messages requested between two instants after the start: the integral of the rate, up to
    /// the message count. Random arrivals deviate from it: see [`Self::deviation`].
    #[must_use]
    pub fn messages(&self, from: Nanos, to: Nanos) -> f64 {
        let groups = self.groups.iter();
        groups.map(|group| group.between(from, to)).sum()
    }

    /// The standard deviation of the number of messages due between two instants: 0 unless arrivals
    /// are random, and then the root of the messages expected.
    #[must_use]
    pub fn deviation(&self, from: Nanos, to: Nanos) -> f64 {
        let random = self.groups.iter().filter(|group| group.pacer.is_random());
        random
            .map(|group| group.between(from, to))
            .sum::<f64>()
            .sqrt()
    }
}

impl Asked {
    fn between(&self, from: Nanos, to: Nanos) -> f64 {
        (self.until(to) - self.until(from)).max(0.0)
    }

    fn until(&self, t: Nanos) -> f64 {
        let most = self
            .message_count
            .map_or(f64::INFINITY, |count| count as f64);
        let all = if self.delays.is_empty() {
            self.pacer.until(t)
        } else {
            // Each producer has its share of the group's schedule, later.
            let begun = self
                .delays
                .iter()
                .filter_map(|delay| t.0.checked_sub(delay.0));
            let all: f64 = begun.map(|t| self.pacer.until(Nanos(t))).sum();
            all / self.delays.len() as f64
        };
        all.min(most)
    }
}
