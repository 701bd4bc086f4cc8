//! When a loop sleeps, and for how long.

use measure::{Nanos, Time};

use super::spec::{ClientSpec, ParticipantKind, ParticipantSpec};
use crate::{Plan, Spin};

/// A spinning loop sleeps until this long before a message is due: more than an idle machine's wake-up takes.
pub(crate) const SPIN_BEFORE: Nanos = Nanos(50_000);

/// Whether loops may spin: only where somebody requested a rate, and a core is to spare.
pub(crate) fn may_spin(plan: &Plan, threads: usize) -> bool {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    !plan.is_unthrottled()
        && match plan.spin {
            Spin::Auto => cores > threads + 1,
            Spin::Always => true,
            Spin::Never => false,
        }
}

/// How long a loop that sends unthrottled may sleep between two polls, so that the small pieces gather in which brokers
/// confirm. It must not show in what is measured: the pause is at most a 64th of the latency that is being seen, and
/// so short that the clients use up at most a 32nd of what they may have in flight.
#[derive(Debug)]
pub(crate) struct IdleBackoff {
    allowed: bool,
    in_flight: u64,
    window_start: Time,
    window_handled: u64,
    per_second: u64,
}

/// Shorter pauses cost more than they save.
const SHORTEST_BACKOFF: u64 = 20_000;
const LONGEST_BACKOFF: u64 = 1_000_000;
const RATE_WINDOW: Nanos = Nanos(20_000_000);

impl IdleBackoff {
    pub(crate) const fn new(allowed: bool, in_flight: u64) -> Self {
        Self { allowed, in_flight, window_start: Time(0), window_handled: 0, per_second: 0 }
    }

    /// `handled` counts confirms and deliveries since the beginning; `latency` is what they show at present.
    pub(crate) fn length(&mut self, now: Time, handled: u64, latency: Nanos) -> Option<Nanos> {
        if !self.allowed {
            return None;
        }
        let elapsed = now.since(self.window_start);
        if elapsed >= RATE_WINDOW {
            let count = handled - self.window_handled;
            self.per_second = (count as f64 / elapsed.as_secs_f64()) as u64;
            (self.window_start, self.window_handled) = (now, handled);
        }
        if self.per_second == 0 {
            return None;
        }
        let by_window = u128::from(self.in_flight) * 1_000_000_000 / 32 / u128::from(self.per_second);
        let by_window = u64::try_from(by_window).unwrap_or(u64::MAX);
        let length = (latency.0 / 64).min(by_window).min(LONGEST_BACKOFF);
        (length >= SHORTEST_BACKOFF).then_some(Nanos(length))
    }
}

/// Messages that all clients may have in flight, counting as many for each as for the one with fewest.
pub(super) fn in_flight<S>(clients: &[ClientSpec<S>]) -> u64 {
    let limit = |participant: &ParticipantSpec| match &participant.kind {
        ParticipantKind::Producer(p) if p.commit_every > 0 => p.commit_every,
        ParticipantKind::Producer(p) if p.guarantee.has_answers() && p.max_pending > 0 => u64::from(p.max_pending),
        ParticipantKind::Consumer(c) if c.prefetch > 0 => u64::from(c.prefetch),
        _ => u64::from(u32::MAX),
    };
    let lanes = || clients.iter().flat_map(|client| &client.participants);
    lanes().map(limit).min().unwrap_or(0) * lanes().count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn the_pause_is_a_64th_of_the_latency_and_never_starves_a_small_window() {
        for (is_unthrottled, in_flight, latency, pause) in [
            (true, 1 << 30, 32 * MS, Some(MS / 2)),
            // Too short to pay; the most.
            (true, 1 << 30, MS, None),
            (true, 1 << 30, 9_000 * MS, Some(MS)),
            // 50,000 per second with 64 in flight: 2 of them take 40 us.
            (true, 64, 9_000 * MS, Some(40_000)),
            (true, 10, 9_000 * MS, None),
            // At a target rate.
            (false, 1 << 30, 100 * MS, None),
        ] {
            let mut backoff = IdleBackoff::new(is_unthrottled, in_flight);
            assert_eq!(backoff.length(Time(1), 0, Nanos(latency)), None, "no rate is known yet");
            let length = backoff.length(Time(1 + 20 * MS), 1_000, Nanos(latency));
            assert_eq!(length, pause.map(Nanos), "{in_flight} in flight, {latency} ns");
        }
    }
}
