//! Work for nothing: a function that takes a share of the broker's CPU more than it needs.

use measure::Nanos;
use rustix::time::{ClockId, clock_gettime};

/// Messages between two looks at how much CPU they take.
const BETWEEN_LOOKS: u32 = 1_000;
/// Turns of the loop that are timed before the first message.
const TIMED_TURNS: u32 = 20_000;
/// How often they are timed; the least counts, since nobody was in between.
const TIMED: u32 = 5;
/// Millionths of one.
const MILLION: f64 = 1e6;

/// A loop that takes a share of what the thread's messages take. It looks at the thread's CPU time now and then, so that
/// the share is what was asked for on any machine and at any rate.
#[derive(Debug)]
pub(super) struct Slowdown {
    /// Nanoseconds of CPU that a turn of the loop takes.
    turn_ns: f64,
    /// Turns for each message.
    turns: u32,
    /// Turns since the last look.
    turned: u64,
    messages: u32,
    /// The thread's CPU time at the last look.
    since: Nanos,
}

impl Slowdown {
    pub(super) fn new() -> Self {
        let once = || {
            let before = thread_cpu();
            burn(TIMED_TURNS);
            thread_cpu().saturating_sub(before).0 as f64 / f64::from(TIMED_TURNS)
        };
        let least = (0..TIMED).map(|_| once()).fold(f64::INFINITY, f64::min);
        Self {
            turn_ns: least.max(0.01),
            turns: 0,
            turned: 0,
            messages: 0,
            since: thread_cpu(),
        }
    }

    /// Makes a message dearer by so many millionths of what one takes.
    pub(super) fn slow(&mut self, millionths: u32) {
        burn(self.turns);
        self.turned += u64::from(self.turns);
        self.messages += 1;
        if self.messages >= BETWEEN_LOOKS {
            self.look(millionths, thread_cpu());
        }
    }

    fn look(&mut self, millionths: u32, now: Nanos) {
        let spent = now.saturating_sub(self.since).0 as f64;
        let own = spent - self.turned as f64 * self.turn_ns;
        let each = own.max(0.0) / f64::from(self.messages);
        let turns = each * f64::from(millionths) / MILLION / self.turn_ns;
        // Half of what it was, so that a busy moment does not change much.
        self.turns = match self.turns {
            0 => turns.round() as u32,
            before => f64::midpoint(f64::from(before), turns).round() as u32,
        };
        (self.turned, self.messages, self.since) = (0, 0, now);
    }
}

/// A frame of its own in profiles.
#[inline(never)]
fn burn(turns: u32) {
    for turn in 0..turns {
        std::hint::black_box(turn);
    }
}

/// CPU time of this thread.
fn thread_cpu() -> Nanos {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Nanos(time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_gets_dearer_by_its_share_of_what_one_takes() {
        let mut slow = Slowdown {
            turn_ns: 2.0,
            turns: 0,
            turned: 0,
            messages: 0,
            since: Nanos(0),
        };
        // A thousand messages of 10 us each, of which a fiftieth is 200 ns.
        slow.messages = BETWEEN_LOOKS;
        slow.look(20_000, Nanos(10_000_000));
        assert_eq!(slow.turns, 100);
        // What the loop itself takes is none of it.
        slow.messages = BETWEEN_LOOKS;
        slow.turned = 100 * u64::from(BETWEEN_LOOKS);
        slow.look(20_000, Nanos(20_200_000));
        assert_eq!(slow.turns, 100);
        assert_eq!((slow.turned, slow.messages), (0, 0));
    }

    #[test]
    fn it_takes_the_time_that_it_means_to_take() {
        const TURNS: u32 = 200_000;
        let slow = Slowdown::new();
        let meant = f64::from(TURNS) * slow.turn_ns;
        let took = || {
            let before = thread_cpu();
            burn(TURNS);
            thread_cpu().saturating_sub(before).0 as f64
        };
        // Other programs may have the processor's caches, or half of its core.
        let took: Vec<f64> = (0..10).map(|_| took()).collect();
        let is_meant = |took: &f64| *took > meant * 0.7 && *took < meant * 3.0;
        assert!(took.iter().any(is_meant), "{took:?} for {meant}");
    }
}
