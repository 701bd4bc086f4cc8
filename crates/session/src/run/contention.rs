//! Who waited for a core, second by second, while the machine was full. Threads are read then alone: there may be hundreds.

use archive::RunQueueWait;
use linux::threads::ThreadTimes;
use measure::{Clock, Nanos, Time};

use crate::judge::FULL;
use crate::usage::UsageSource;

/// Seconds that are kept: those of a day.
const MOST_SECONDS: usize = 86_400;

/// Readings of the broker's threads and of our own.
#[derive(Debug, Default)]
pub(crate) struct Contention {
    /// The last reading, where the machine was full when it was made.
    last: Option<(Time, [ThreadTimes; 2])>,
    waits: Vec<(Time, Time, [Nanos; 2])>,
}

impl Contention {
    /// Takes the end of an interval in which the machine was idle for this share of its time.
    pub(super) fn read(&mut self, idle: Option<f64>, usage: &mut dyn UsageSource) {
        let is_full = idle.is_some_and(|idle| idle < FULL) && self.waits.len() < MOST_SECONDS;
        let read = || [usage.threads(), ThreadTimes::read([std::process::id()])];
        let now = is_full.then(read).map(|threads| (Clock.now(), threads));
        if let (Some((then, before)), Some((now, after))) = (&self.last, &now) {
            let waited = |side: usize| {
                let (before, after) = (before.get(side)?, after.get(side)?);
                Some(after.since(before)?.run_queue_wait)
            };
            let waits = [0, 1].map(|side| waited(side).unwrap_or_default());
            self.waits.push((*then, *now, waits));
        }
        self.last = now;
    }

    /// How long each waited, by seconds since the run's origin.
    pub(super) fn waits(&self, origin: Time) -> Vec<RunQueueWait> {
        let since = |at: Time| at.since(origin).as_secs_f64();
        let waits = self.waits.iter();
        let waits = waits.map(|(from, until, [broker, own])| RunQueueWait {
            from_s: since(*from),
            until_s: since(*until),
            broker_s: broker.as_secs_f64(),
            own_s: own.as_secs_f64(),
        });
        waits.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usage::{Reading, UsageSource};

    struct Nothing;

    impl UsageSource for Nothing {
        fn read(&mut self) -> Reading {
            Reading::default()
        }
    }

    #[test]
    fn two_ends_of_a_full_second_are_read_and_no_others() {
        let mut contention = Contention::default();
        let mut told = |idle| {
            contention.read(idle, &mut Nothing);
            contention.waits(Time(0)).len()
        };
        let idle = [
            Some(0.0),
            Some(0.01),
            Some(0.5),
            Some(0.0),
            None,
            Some(0.0),
            Some(0.0),
        ];
        assert_eq!(idle.map(&mut told), [0, 1, 1, 1, 1, 1, 2]);
    }
}
