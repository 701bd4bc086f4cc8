//! Run-queue wait by second while the machine was full. Threads are read only while it is nearly so: there may be
//! hundreds.

use archive::RunQueueWait;
use linux::threads::ThreadTimes;
use measure::{Clock, Nanos, Time};

use crate::judge::FULL;
use crate::usage::UsageSource;

/// Seconds that are kept: those of a day.
const MOST_SECONDS: usize = 86_400;

/// A machine with less idle time than this may be full in the next second.
const NEARLY_FULL: f64 = 0.5;

/// Readings of the broker's threads and of our own.
#[derive(Debug, Default)]
pub(crate) struct Contention {
    /// The reading at the end of the last interval, where one was made.
    last: Option<(Time, [ThreadTimes; 2])>,
    /// Begin, end, and run-queue wait of broker and bellows, where known.
    waits: Vec<(Time, Time, [Option<Nanos>; 2])>,
}

impl Contention {
    /// Begins with the run: its first interval may be full.
    pub(super) fn begin(&mut self, usage: &mut dyn UsageSource) {
        self.last = Some(reading(usage));
    }

    /// Takes the end of an interval of this length in which the machine was idle for this share of its time.
    pub(super) fn read(&mut self, length: Nanos, idle: Option<f64>, usage: &mut dyn UsageSource) {
        let is_below = |limit| idle.is_some_and(|idle| idle < limit);
        let before = self.last.take();
        if !is_below(NEARLY_FULL) || self.waits.len() >= MOST_SECONDS {
            return;
        }
        let (now, after) = reading(usage);
        if is_below(FULL) {
            let then = before.as_ref().map(|(then, _)| *then);
            let waits = [0, 1].map(|side| {
                let (_, before) = before.as_ref()?;
                let (before, after) = (before.get(side)?, after.get(side)?);
                Some(after.since(before)?.run_queue_wait)
            });
            let begin = Time(now.0.saturating_sub(length.0));
            self.waits.push((then.unwrap_or(begin), now, waits));
        }
        self.last = Some((now, after));
    }

    /// Run-queue wait of each, by seconds since the run's origin.
    pub(super) fn waits(&self, origin: Time) -> Vec<RunQueueWait> {
        let since = |at: Time| at.since(origin).as_secs_f64();
        let waits = self.waits.iter();
        let waits = waits.map(|(from, until, [broker, own])| RunQueueWait {
            from_s: since(*from),
            until_s: since(*until),
            broker_s: broker.map(Nanos::as_secs_f64),
            own_s: own.map(Nanos::as_secs_f64),
        });
        waits.collect()
    }
}

fn reading(usage: &mut dyn UsageSource) -> (Time, [ThreadTimes; 2]) {
    let threads = [usage.threads(), ThreadTimes::read([std::process::id()])];
    (Clock.now(), threads)
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

    /// Whether our own wait is known, for each full second of those that are idle for these shares.
    fn known(begins: bool, idle: &[Option<f64>]) -> Vec<bool> {
        let mut contention = Contention::default();
        if begins {
            contention.begin(&mut Nothing);
        }
        for idle in idle {
            contention.read(Nanos::from_millis(1), *idle, &mut Nothing);
        }
        let waits = contention.waits(Time(0));
        assert!(waits.iter().all(|it| it.broker_s.is_none()), "{waits:?}");
        waits.iter().map(|it| it.own_s.is_some()).collect()
    }

    #[test]
    fn each_full_second_is_told_also_where_nobody_read_before_it() {
        let (full, nearly, idle) = (Some(0.0), Some(0.3), Some(0.9));
        assert_eq!(known(true, &[full, full]), [true, true]);
        assert_eq!(known(false, &[full, full]), [false, true]);
        assert_eq!(known(true, &[idle, nearly, full]), [true]);
        assert_eq!(known(true, &[idle, full, None, full]), [false, false]);
    }
}
