//! Every threshold of the judge, with its reason.

use measure::Nanos;

/// Seconds. Shorter runs show nothing but their beginning.
pub(super) const SHORTEST: f64 = 0.5;
/// Share of the requested rate below which it was missed: more than the edges of an interval can cut off.
pub const ACHIEVED: f64 = 0.995;
/// Share of messages over 1 ms late from which on lateness reaches the 99th percentile.
pub(super) const LATE: f64 = 0.01;
/// An event loop that is at work for this share of its time has nothing left.
pub(super) const SATURATED: f64 = 0.9;
/// Share of time in the run queue from which on it slows down a thread.
pub(super) const RUN_QUEUE_WAIT: f64 = 0.2;
/// A machine that is idle for less than this share of its time is full.
pub const FULL: f64 = 0.07;
/// Share of the CPU time used by broker and generator from which on the broker fills the machine.
pub(super) const MOST: f64 = 0.75;
/// CPU of other processes that counts, in cores: a desktop's background takes less.
pub const OTHERS: f64 = 0.35;
/// Share of the lost time from which on one cause explains a run.
pub(super) const DOMINANT: f64 = 0.5;
/// Share of the lost time from which on all causes on the broker's side explain it together.
pub(super) const TOGETHER: f64 = 0.65;
/// A run that lost less than this share of its time lost nothing.
pub(super) const LOST: f64 = 0.02;
/// Part of the unsent share that lost time must reach to explain it: a schedule may have most in a part of its time.
pub(super) const EXPLAINS: f64 = 0.1;
/// An event loop that is at work for less than this share of its time holds nothing up by its work.
pub(super) const AT_WORK: f64 = 0.1;
/// Share of its time without a connection from which on a producer's verdict names it.
pub(super) const AWAY: f64 = 0.02;
/// A thread of the broker that uses this share of a core has nothing left.
pub(super) const THREAD_FULL: f64 = 0.9;
/// An answer on the same machine that takes longer was kept waiting there, nanoseconds.
pub(super) const SLOW_ANSWER_NS: u64 = 10_000_000;
/// A round trip that takes longer, nanoseconds, is not within a machine.
pub(super) const LOOPBACK_NS: u64 = 1_000_000;
/// An unloaded broker that takes longer for its simplest answer, nanoseconds, is strange.
pub(super) const SLOW_IDLE_NS: u64 = 5_000_000;
/// A receive window that is full for less than this share of the time is no limit.
pub(super) const NOT_FULL: f64 = 0.2;
/// Round trips, nanoseconds, that stand in a queue; below, the receiver may delay acknowledgements (40 ms on Linux).
pub(super) const FULL_LINK_NS: u64 = 100_000_000;
/// Unsent bytes of a socket from which on it waits for the link although the receiver has room.
pub(super) const UNSENT: u64 = 16 << 10;
/// Share of the expected deliveries below which consumers fall behind.
pub(super) const BEHIND: f64 = 0.95;
/// Findings below these shares are not worth a line.
pub(super) const WORTH: f64 = 0.01;
/// The loop lag explains a second's latency where it is 1 ms or more, and at least this part of its 99th percentile, …
pub(crate) const LAG_NS: u64 = 1_000_000;
/// See [`LAG_NS`].
pub(crate) const LAG_PART: f64 = 0.5;
/// … and the run's where that holds for this share of the seconds.
pub(crate) const LAG_SECONDS: f64 = 0.5;
/// A stall is longer than this, nanoseconds, …
pub(super) const STALL_NS: u64 = 100_000_000;
/// … and than this many median answer times: slow answers are no stall.
pub(super) const STALL_ANSWERS: u64 = 10;
/// A silence in which the generator itself ran for less than this share is the generator's own.
pub(super) const STALL_OWN: f64 = 0.2;
/// Longest time between a stall that ends in lost connections and the time without connections.
pub(super) const UNTIL_LOST: Nanos = Nanos::from_millis(50);
/// Most stalls in a summary: further ones add nothing.
pub(super) const MOST_STALLS: usize = 1_000;
/// Steal below this share is noise.
pub(super) const STEAL: f64 = 0.01;
/// Share of samples with a frame that has no name, from which on shares of functions are too low by much.
pub(super) const NAMELESS: f64 = 0.2;
/// Share of stacks that reach their root, below which total shares of callers are too small by much …
pub(super) const COMPLETE: f64 = 0.9;
/// … and below which it is worth a line.
pub(super) const WHOLE: f64 = 0.97;
/// Share of the broker's CPU time that samples stand for, below which shares are of a part of its work.
pub(super) const COVERED: f64 = 0.9;
/// Above this share of the samples in the kernel's probes, shares of the program's own functions are too low.
pub(super) const PROBED: f64 = 0.05;
/// Fewest samples for a judgement of a profile's quality.
pub(super) const LEAST_SAMPLES: u64 = stacks::ProfileSummary::FEW_SAMPLES;
/// Clock sources that are slow to read (about 1 us) or coarse.
pub(super) const POOR_CLOCKS: [&str; 4] = ["hpet", "acpi_pm", "jiffies", "refined-jiffies"];
