//! How large messages are, and what is in them behind the header.

mod bodies;
mod distribution;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use measure::{Nanos, counted};

use crate::Error;
use crate::payload::{COMPACT_LEN, FILLER};
use crate::random::Random;
use crate::schedule::Trace;
pub use bodies::{Bodies, Json};
pub use distribution::Distribution;
use distribution::Draw;

/// The largest message, 512 MiB: RabbitMQ's own limit (`max_message_size`).
const LARGEST_MESSAGE: usize = 512 << 20;
/// Values of a list, of steps or of a weighted distribution.
const MOST_VALUES: usize = 100_000;

/// Body lengths in bytes. Every producer goes through a list, and draws its random sizes, by
/// itself; the same seed gives it the same ones.
#[derive(Clone, Debug, PartialEq)]
pub enum Sizes {
    /// All the same.
    Fixed(usize),
    /// One after the other, again and again.
    List(Vec<usize>),
    /// By the message's intended time (`t_i`) since the start of the load.
    Steps {
        /// At least one.
        steps: Vec<SizeStep>,
        /// Start over after the last; otherwise its size is kept.
        repeat: bool,
    },
    /// Drawn at random.
    Random {
        /// From what.
        distribution: Distribution,
        /// Any number.
        seed: u64,
    },
    /// Bodies that are sent as they are, one after the other: what tells messages apart is in a
    /// message header ([`crate::payload::TRACE_HEADER`]).
    Bodies(Arc<Bodies>),
}

/// A part of [`Sizes::Steps`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeStep {
    /// Bytes of a message.
    pub size: usize,
    /// How long messages are as large; above 0.
    pub length: Nanos,
}

impl Default for Sizes {
    fn default() -> Self {
        Self::Fixed(1_024)
    }
}

impl From<usize> for Sizes {
    fn from(size: usize) -> Self {
        Self::Fixed(size)
    }
}

impl Sizes {
    /// The smallest and the largest size that can occur.
    pub(crate) fn range(&self) -> (usize, usize) {
        match self {
            Self::Fixed(size) => Some((*size, *size)),
            Self::List(sizes) => ends(sizes.iter().copied()),
            Self::Steps { steps, .. } => ends(steps.iter().map(|step| step.size)),
            Self::Random { distribution, .. } => distribution.range(),
            Self::Bodies(bodies) => ends(bodies.lengths()),
        }
        .unwrap_or((0, 0))
    }

    /// Bodies that stay as they are, in messages with a trace header.
    pub const fn bodies(&self) -> Option<&Arc<Bodies>> {
        match self {
            Self::Bodies(bodies) => Some(bodies),
            _ => None,
        }
    }

    /// Errors: [`Error::Invalid`] for sizes that cannot be sent.
    pub(crate) fn validate(&self, ledger: bool) -> Result<(), Error> {
        let count = match self {
            Self::List(sizes) => sizes.len(),
            Self::Steps { steps, .. } => steps.len(),
            _ => 1,
        };
        let help = format!("give 1 to {MOST_VALUES} sizes");
        let refused = Error::invalid(format!("a list of {count} message sizes cannot be used"), help).observed(count);
        refused.unless((1..=MOST_VALUES).contains(&count))?;
        match self {
            Self::Random { distribution, .. } => distribution.validate()?,
            Self::Steps { steps, .. } if steps.iter().any(|step| step.length == Nanos::ZERO) => {
                let help = "give each size a length above 0: steps:1000@30s,2000@30s";
                return Err(Error::invalid("a message size cannot last for no time", help));
            }
            _ => {}
        }
        let (least, most) = self.range();
        check_range(least, most, ledger && self.bodies().is_none())
    }
}

/// The smallest and the largest.
fn ends(sizes: impl Iterator<Item = usize>) -> Option<(usize, usize)> {
    sizes.fold(None, |ends: Option<(usize, usize)>, size| {
        let (least, most) = ends.unwrap_or((size, size));
        Some((least.min(size), most.max(size)))
    })
}

/// Whether bodies from `least` to `most` bytes can be sent, and hold a header where they must.
pub(crate) fn check_range(least: usize, most: usize, headed: bool) -> Result<(), Error> {
    let bytes = counted(least as u64, "byte");
    let cause = format!("a message of {bytes} has no room for producer, sequence and time");
    let help = format!(
        "ask for at least {COMPACT_LEN} bytes, or for no ledger ({{ledger = false}}), \
         which gives up end-to-end latency too"
    );
    Error::invalid(cause, help).observed(least).unless(least >= COMPACT_LEN || !headed)?;
    let cause = format!("a message of {most} bytes is larger than brokers accept");
    let refused = Error::invalid(cause, format!("ask for at most {LARGEST_MESSAGE} bytes")).observed(most);
    refused.unless(most <= LARGEST_MESSAGE)
}

/// One producer's bodies, message by message.
#[derive(Clone, Debug)]
pub struct Contents {
    choice: Choice,
    /// Filler for the largest message; all producers of a group share it.
    filler: Arc<[u8]>,
}

#[derive(Clone, Debug)]
enum Choice {
    List(Arc<[usize]>),
    Steps(Arc<Steps>),
    Random(Draw),
    Bodies(Arc<Bodies>),
    /// Message `first + n * step` of a trace is this producer's `n`-th.
    Trace {
        trace: Arc<Trace>,
        first: u64,
        step: u64,
    },
}

/// [`Sizes::Steps`] with the end of each.
#[derive(Debug)]
struct Steps {
    /// Nanoseconds since the start, and bytes until then.
    ends: Vec<(u64, usize)>,
    repeat: bool,
}

impl Steps {
    fn new(steps: &[SizeStep], repeat: bool) -> Self {
        let mut end = 0u64;
        let ends = steps.iter().map(|step| {
            end = end.saturating_add(step.length.0);
            (end, step.size)
        });
        Self { ends: ends.collect(), repeat }
    }

    #[inline]
    fn size(&self, at: Nanos) -> usize {
        let (end, last) = self.ends.last().copied().unwrap_or((1, 0));
        let at = if self.repeat { at.0 % end.max(1) } else { at.0 };
        let step = self.ends.partition_point(|(end, _)| *end <= at);
        self.ends.get(step).map_or(last, |(_, size)| *size)
    }
}

/// A group's sizes that differ, made ready for its producers.
#[derive(Clone, Debug)]
pub struct Stock {
    choice: Stocked,
    filler: Arc<[u8]>,
}

#[derive(Clone, Debug)]
enum Stocked {
    /// One choice for all producers.
    Shared(Choice),
    Random(Distribution, u64),
    /// The flag: every producer sends all of it.
    Trace(Arc<Trace>, bool),
}

impl Stock {
    /// `None` where all messages are alike, which has a faster way. A trace that says how large
    /// messages are outdoes `sizes`; its flag tells whether every producer sends all of it.
    pub fn new(sizes: &Sizes, trace: Option<(Arc<Trace>, bool)>) -> Option<Self> {
        let trace = trace.filter(|(trace, _)| trace.has_sizes());
        let most = match (&trace, sizes) {
            (Some((trace, _)), _) => trace.size_range().map_or(0, |(_, most)| most),
            (None, Sizes::Bodies(_)) => 0,
            (None, sizes) => sizes.range().1,
        };
        let choice = match (trace, sizes) {
            (Some((trace, each)), _) => Stocked::Trace(trace, each),
            (None, Sizes::Fixed(_)) => return None,
            (None, Sizes::List(sizes)) => Stocked::Shared(Choice::List(sizes.as_slice().into())),
            (None, Sizes::Steps { steps, repeat }) => {
                Stocked::Shared(Choice::Steps(Arc::new(Steps::new(steps, *repeat))))
            }
            (None, Sizes::Random { distribution, seed }) => Stocked::Random(distribution.clone(), *seed),
            (None, Sizes::Bodies(bodies)) => Stocked::Shared(Choice::Bodies(Arc::clone(bodies))),
        };
        Some(Self { choice, filler: vec![FILLER; most].into() })
    }

    /// Bodies of producer `position` of the group's `producers`; `id` is its number over all groups.
    pub fn contents(&self, id: u32, position: u64, producers: u64) -> Contents {
        let choice = match &self.choice {
            Stocked::Shared(choice) => choice.clone(),
            Stocked::Random(distribution, seed) => {
                // Apart from the same seed's arrivals.
                Choice::Random(Draw::new(distribution, Random::new(!seed, u64::from(id))))
            }
            Stocked::Trace(trace, each) => {
                let (first, step) = if *each { (0, 1) } else { (position, producers) };
                Choice::Trace { trace: Arc::clone(trace), first, step }
            }
        };
        Contents { choice, filler: Arc::clone(&self.filler) }
    }
}

impl Contents {
    /// The body of the producer's `sequence`-th message, due this long after the start of the load,
    /// before the header is written into it.
    #[inline]
    pub fn body(&self, sequence: u64, at: Nanos) -> &[u8] {
        let size = match &self.choice {
            Choice::Bodies(bodies) => return bodies.content(sequence),
            Choice::List(sizes) => {
                let at = sequence % sizes.len().max(1) as u64;
                sizes.get(at as usize).copied().unwrap_or(0)
            }
            Choice::Steps(steps) => steps.size(at),
            Choice::Random(draw) => draw.size(sequence),
            Choice::Trace { trace, first, step } => trace.size(first.wrapping_add(sequence.wrapping_mul(*step))),
        };
        self.filler.get(..size).unwrap_or(&self.filler)
    }

    /// Whether bodies are sent as they are, in messages with a trace header.
    #[inline]
    pub const fn has_trace_header(&self) -> bool {
        matches!(self.choice, Choice::Bodies(_))
    }
}
