//! Times in which a load was held up: by a broker that blocked publishers, with its reasons, by silences, of which the
//! longest are kept in bounded memory, and by threads that waited for a core.

use archive::RunQueueWait;
use linux::threads::ThreadTimes;
use load::Silence;
use measure::{Clock, Nanos, Time};

use crate::judge::FULL;
use crate::usage::UsageSource;

/// Most reasons that are kept; a broker that gives a new one each time adds nothing.
const MOST_REASONS: usize = 3;
/// Blocked times that are reported as events; a broker may block and unblock without end.
const MOST_TOLD: u64 = 50;

/// Counts `connection.blocked`, in bounded memory whatever the broker sends.
#[derive(Clone, Debug, Default)]
pub(crate) struct Blocked {
    times: u64,
    /// The first ones, each once.
    reasons: Vec<String>,
    more: bool,
    /// When the first ones were.
    pub(super) at: Vec<Time>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Telling {
    Reason,
    /// There may be further ones, which are only counted.
    Last,
    Nothing,
}

impl Blocked {
    pub(crate) fn note(&mut self, at: Time, reason: &str) -> Telling {
        self.times += 1;
        if self.at.len() < MOST {
            self.at.push(at);
        }
        if !self.reasons.iter().any(|known| known == reason) {
            if self.reasons.len() < MOST_REASONS {
                self.reasons.push(reason.to_owned());
            } else {
                self.more = true;
            }
        }
        match self.times {
            1..MOST_TOLD => Telling::Reason,
            MOST_TOLD => Telling::Last,
            _ => Telling::Nothing,
        }
    }

    /// Whether the end of a block is reported, too.
    pub(crate) const fn tells_unblocked(&self) -> bool {
        self.times < MOST_TOLD
    }

    /// Number of blocked times, and the reasons; `None` without any.
    pub(crate) fn summary(&self) -> Option<(u64, String)> {
        let words = |reason: &String| {
            if reason.is_empty() { "it gave no reason".to_owned() } else { reason.clone() }
        };
        let mut reasons: Vec<String> = self.reasons.iter().map(words).collect();
        if self.more {
            reasons.push("and others".to_owned());
        }
        (self.times > 0).then(|| (self.times, reasons.join("; ")))
    }
}

/// Most silences: a broker that answers slowly is silent without end, and only the longest matter.
const MOST: usize = 1_000;

#[derive(Debug, Default)]
pub(crate) struct Silences {
    pub(super) kept: Vec<Silence>,
}

impl Silences {
    /// Keeps another one, where it is not shorter than all that are kept.
    pub(super) fn keep(&mut self, silence: Silence) {
        self.kept.push(silence);
        if self.kept.len() > MOST {
            let all = self.kept.iter().map(length).enumerate();
            if let Some((shortest, _)) = all.min_by_key(|(_, length)| *length) {
                self.kept.remove(shortest);
            }
        }
    }
}

fn length(silence: &Silence) -> Nanos {
    silence.until.since(silence.from)
}

/// Seconds that are kept: those of a day.
const MOST_SECONDS: usize = 86_400;

/// A machine with less idle time than this may be full in the next second.
const NEARLY_FULL: f64 = 0.5;

/// Run-queue wait by second of the broker's threads and ours, read while the machine is nearly full: there are many.
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
        let waits = self.waits.iter().map(|(from, until, [broker, own])| RunQueueWait {
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
    use crate::usage::Reading;

    #[test]
    fn a_broker_that_blocks_without_end_is_counted_in_bounded_memory() {
        let mut blocked = Blocked::default();
        assert_eq!(blocked.summary(), None);
        let mut told = 0;
        for time in 0..1_000_000u64 {
            let reason = format!("{} {time}", "x".repeat(200));
            told += u64::from(blocked.note(Time(time), &reason) != Telling::Nothing);
        }
        assert_eq!(told, MOST_TOLD);
        assert!(!blocked.tells_unblocked());
        let (times, reasons) = blocked.summary().unwrap();
        assert_eq!((times, blocked.at.len()), (1_000_000, MOST));
        assert!(reasons.len() < 1_000, "{reasons}");
        assert!(reasons.ends_with("; and others"), "{reasons}");
        // Equal reasons are given once.
        let mut blocked = Blocked::default();
        for reason in ["low on memory", "", "low on memory"] {
            assert_eq!(blocked.note(Time(0), reason), Telling::Reason);
        }
        assert_eq!(blocked.summary(), Some((3, "low on memory; it gave no reason".to_owned())));
    }

    const MS: u64 = 1_000_000;

    #[test]
    fn a_long_silence_after_many_short_ones_is_kept() {
        let mut silences = Silences::default();
        let silence =
            |from: u64, ms: u64| Silence { from: Time(from * MS), until: Time((from + ms) * MS), ..Silence::default() };
        for second in 0..1_500 {
            silences.keep(silence(second * 1_000, 100 + second % 7));
        }
        silences.keep(silence(1_500_000, 4_000));
        silences.keep(silence(1_505_000, 100));
        assert_eq!(silences.kept.len(), MOST);
        assert_eq!(silences.kept.last(), Some(&silence(1_500_000, 4_000)));
        assert_eq!(silences.kept.iter().map(length).min(), Some(Nanos(102 * MS)));
    }

    struct Nothing;

    impl UsageSource for Nothing {
        fn read(&mut self) -> Reading {
            Reading::default()
        }
    }

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
