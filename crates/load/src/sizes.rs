//! How large messages are, and what is in them behind the header.

use std::path::Path;
use std::sync::Arc;

use crate::Error;
use crate::payload::{COMPACT_LEN, FILLER};
use crate::random::Random;
use crate::schedule::Trace;

/// The largest message, 512 MiB: RabbitMQ's own limit (`max_message_size`).
const LARGEST_MESSAGE: usize = 512 << 20;
/// Bodies from files are kept in memory.
const MOST_BODY_BYTES: u64 = 1 << 30;
const MOST_BODIES: usize = 100_000;
/// Values of a list or a weighted distribution.
const MOST_VALUES: usize = 100_000;

/// Body lengths in bytes. Every producer goes through a list, and draws its random sizes, by
/// itself; the same seed gives it the same ones.
#[derive(Clone, Debug, PartialEq)]
pub enum Sizes {
    /// All the same.
    Fixed(usize),
    /// One after the other, again and again.
    List(Vec<usize>),
    /// Drawn at random.
    Random {
        /// From what.
        distribution: Distribution,
        /// Any number.
        seed: u64,
    },
    /// The bodies of files, one after the other. The header takes the place of each one's first 32
    /// bytes (16 of a body below 32 bytes).
    Bodies(Arc<Bodies>),
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

/// What random sizes are drawn from.
#[derive(Clone, Debug, PartialEq)]
pub enum Distribution {
    /// Every size from the first to the last equally often.
    Uniform {
        /// The smallest.
        min: usize,
        /// The largest.
        max: usize,
    },
    /// A normal distribution; what falls outside the bounds is moved onto them.
    Normal {
        /// Its mean.
        mean: f64,
        /// Its standard deviation.
        deviation: f64,
        /// The smallest.
        min: usize,
        /// The largest.
        max: usize,
    },
    /// Sizes with weights: (12, 9.0) and (2000, 1.0) gives nine small messages for each large one.
    Weighted(Vec<(usize, f64)>),
}

/// Message bodies that were read from files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bodies {
    bodies: Vec<Box<[u8]>>,
}

impl Bodies {
    /// Reads a file, or all files of a folder in the order of their names.
    ///
    /// # Errors
    /// [`Error::Invalid`] with the path, where something cannot be read, is no file, or is too
    /// large to be kept in memory (1 GiB in all).
    pub fn read(path: &Path) -> Result<Self, Error> {
        let failed = |path: &Path, cause: &dyn std::fmt::Display| {
            Error::invalid(
                format!(
                    "cannot read message bodies from {}: {cause}",
                    path.display()
                ),
                "name a file, or a folder of files, that may be read",
            )
        };
        let mut files = Vec::new();
        if path.is_dir() {
            for entry in std::fs::read_dir(path).map_err(|e| failed(path, &e))? {
                let file = entry.map_err(|e| failed(path, &e))?.path();
                if file.is_file() {
                    files.push(file);
                }
            }
            files.sort();
        } else {
            files.push(path.to_owned());
        }
        if files.is_empty() || files.len() > MOST_BODIES {
            let cause = format!("there are {} files", files.len());
            return Err(Error::invalid(
                format!(
                    "cannot take message bodies from {}: {cause}",
                    path.display()
                ),
                format!("give a folder of 1 to {MOST_BODIES} files"),
            ));
        }
        let mut left = MOST_BODY_BYTES;
        let mut bodies = Vec::with_capacity(files.len());
        for file in &files {
            // Asked for before it is read, so that a device without an end is not.
            let length = std::fs::metadata(file).map_err(|e| failed(file, &e))?.len();
            left = left.checked_sub(length).ok_or_else(|| {
                Error::invalid(
                    format!(
                        "the message bodies in {} have more than {MOST_BODY_BYTES} bytes",
                        path.display()
                    ),
                    "take fewer or smaller files: they are kept in memory",
                )
            })?;
            let regular = file.is_file();
            let body = if regular {
                std::fs::read(file).map_err(|e| failed(file, &e))?
            } else {
                return Err(failed(file, &"it is no regular file"));
            };
            if body.len() < COMPACT_LEN {
                return Err(Error::invalid(
                    format!(
                        "the message body {} has {} bytes: there is no room for producer, \
                         sequence and time",
                        file.display(),
                        body.len()
                    ),
                    format!("take files of at least {COMPACT_LEN} bytes"),
                ));
            }
            bodies.push(body.into_boxed_slice());
        }
        Ok(Self { bodies })
    }
}

impl Sizes {
    /// The smallest and the largest size that can occur.
    pub(crate) fn range(&self) -> (usize, usize) {
        let ends = |sizes: &mut dyn Iterator<Item = usize>| {
            sizes.fold(None, |ends: Option<(usize, usize)>, size| {
                let (least, most) = ends.unwrap_or((size, size));
                Some((least.min(size), most.max(size)))
            })
        };
        match self {
            Self::Fixed(size) => Some((*size, *size)),
            Self::List(sizes) => ends(&mut sizes.iter().copied()),
            Self::Random { distribution, .. } => match distribution {
                Distribution::Uniform { min, max } | Distribution::Normal { min, max, .. } => {
                    Some((*min, *max))
                }
                Distribution::Weighted(values) => ends(&mut values.iter().map(|(size, _)| *size)),
            },
            Self::Bodies(bodies) => ends(&mut bodies.bodies.iter().map(|body| body.len())),
        }
        .unwrap_or((0, 0))
    }

    /// Whether everything behind the header is filler.
    pub(crate) const fn is_plain(&self) -> bool {
        !matches!(self, Self::Bodies(_))
    }

    /// # Errors
    /// [`Error::Invalid`] for sizes that cannot be sent.
    pub(crate) fn validate(&self, ledger: bool) -> Result<(), Error> {
        let bad = |what: String, help: &str| Err(Error::invalid(what, help));
        match self {
            Self::List(sizes) if sizes.is_empty() || sizes.len() > MOST_VALUES => {
                return bad(
                    format!("a list of {} message sizes cannot be used", sizes.len()),
                    "give 1 to 100000 sizes",
                );
            }
            Self::Random { distribution, .. } => distribution.validate()?,
            _ => {}
        }
        let (least, most) = self.range();
        check_range(least, most, ledger)
    }
}

/// Whether bodies from `least` to `most` bytes can be sent.
pub(crate) fn check_range(least: usize, most: usize, ledger: bool) -> Result<(), Error> {
    if least < COMPACT_LEN && ledger {
        return Err(Error::invalid(
            format!("a message of {least} bytes has no room for producer, sequence and time"),
            format!(
                "ask for at least {COMPACT_LEN} bytes, or for no ledger (--no-ledger), which \
                 gives up end-to-end latency too"
            ),
        ));
    }
    if most > LARGEST_MESSAGE {
        return Err(Error::invalid(
            format!("a message of {most} bytes is larger than brokers accept"),
            format!("ask for at most {LARGEST_MESSAGE} bytes"),
        ));
    }
    Ok(())
}

impl Distribution {
    fn validate(&self) -> Result<(), Error> {
        let (what, help) = match self {
            Self::Uniform { min, max } | Self::Normal { min, max, .. } if min > max => (
                format!("message sizes from {min} to {max} are none"),
                "give the smaller size first",
            ),
            Self::Normal {
                mean, deviation, ..
            } if !mean.is_finite() || !deviation.is_finite() || *mean < 0.0 || *deviation < 0.0 => {
                (
                    format!("message sizes cannot have mean {mean} and deviation {deviation}"),
                    "give two numbers of bytes, 0 or more",
                )
            }
            Self::Weighted(values) if values.is_empty() || values.len() > MOST_VALUES => (
                format!("{} weighted message sizes cannot be used", values.len()),
                "give 1 to 100000 sizes with their weights",
            ),
            Self::Weighted(values)
                if values.iter().any(|(_, w)| !w.is_finite() || *w < 0.0)
                    || !(values.iter().map(|(_, w)| w).sum::<f64>() > 0.0) =>
            {
                (
                    "the weights of the message sizes make no sense".to_owned(),
                    "give each a weight of 0 or more, and at least one a weight above 0",
                )
            }
            _ => return Ok(()),
        };
        Err(Error::invalid(what, help))
    }
}

/// What one producer sends, message by message.
#[derive(Clone, Debug)]
pub(crate) struct Contents {
    choice: Choice,
    /// As much filler as the largest message needs; all producers of a group share it.
    filler: Arc<[u8]>,
}

#[derive(Clone, Debug)]
enum Choice {
    List(Arc<[usize]>),
    Uniform {
        random: Random,
        min: u64,
        count: u64,
    },
    Normal {
        random: Random,
        mean: f64,
        deviation: f64,
        min: f64,
        max: f64,
    },
    /// Sizes with the sum of all weights up to each.
    Weighted {
        random: Random,
        sums: Arc<[(f64, usize)]>,
    },
    Bodies(Arc<Bodies>),
    /// Message `first + n * step` of a trace is this producer's `n`-th.
    Trace {
        trace: Arc<Trace>,
        first: u64,
        step: u64,
    },
}

/// A group's sizes that differ, made ready for its producers.
#[derive(Clone, Debug)]
pub(crate) struct Stock {
    sizes: Sizes,
    trace: Option<(Arc<Trace>, bool)>,
    filler: Arc<[u8]>,
}

impl Stock {
    /// `None` where all messages are alike, which has a faster way. A trace that says how large
    /// messages are outdoes `sizes`; the flag tells whether every producer sends all of it.
    pub(crate) fn new(sizes: &Sizes, trace: Option<(Arc<Trace>, bool)>) -> Option<Self> {
        let trace = trace.filter(|(trace, _)| trace.has_sizes());
        let most = match (&trace, sizes) {
            (Some((trace, _)), _) => trace.size_range().map_or(0, |(_, most)| most),
            (None, Sizes::Fixed(_)) => return None,
            (None, Sizes::Bodies(_)) => 0,
            (None, sizes) => sizes.range().1,
        };
        Some(Self {
            sizes: sizes.clone(),
            trace,
            filler: vec![FILLER; most].into(),
        })
    }

    /// What producer `position` of `producers` sends.
    pub(crate) fn contents(&self, position: u64, producers: u64) -> Option<Contents> {
        let choice = match (&self.trace, &self.sizes) {
            (Some((trace, each)), _) => {
                let (first, step) = if *each { (0, 1) } else { (position, producers) };
                Choice::Trace {
                    trace: Arc::clone(trace),
                    first,
                    step,
                }
            }
            (None, Sizes::Fixed(_)) => return None,
            (None, Sizes::List(sizes)) => Choice::List(sizes.as_slice().into()),
            (None, Sizes::Random { distribution, seed }) => {
                // Apart from the same seed's arrivals.
                let random = Random::new(!seed, position);
                random_choice(distribution, random)
            }
            (None, Sizes::Bodies(bodies)) => Choice::Bodies(Arc::clone(bodies)),
        };
        Some(Contents {
            choice,
            filler: Arc::clone(&self.filler),
        })
    }
}

fn random_choice(distribution: &Distribution, random: Random) -> Choice {
    match distribution {
        Distribution::Uniform { min, max } => Choice::Uniform {
            random,
            min: *min as u64,
            count: (max - min) as u64 + 1,
        },
        Distribution::Normal {
            mean,
            deviation,
            min,
            max,
        } => Choice::Normal {
            random,
            mean: *mean,
            deviation: *deviation,
            min: *min as f64,
            max: *max as f64,
        },
        Distribution::Weighted(values) => {
            let mut sum = 0.0;
            let sums = values
                .iter()
                .filter(|(_, weight)| *weight > 0.0)
                .map(|(size, weight)| {
                    sum += weight;
                    (sum, *size)
                });
            Choice::Weighted {
                random,
                sums: sums.collect(),
            }
        }
    }
}

impl Contents {
    /// The body of the producer's `sequence`-th message, before the header is written into it.
    #[inline]
    pub(crate) fn body(&self, sequence: u64) -> &[u8] {
        let size = match &self.choice {
            Choice::Bodies(bodies) => {
                let at = sequence % bodies.bodies.len().max(1) as u64;
                return bodies.bodies.get(at as usize).map_or(&[], |body| body);
            }
            Choice::List(sizes) => {
                let at = sequence % sizes.len().max(1) as u64;
                sizes.get(at as usize).copied().unwrap_or(0)
            }
            Choice::Uniform { random, min, count } => {
                // The high half of a product: even to 2^-64 of the count.
                let drawn = u128::from(random.word(sequence)) * u128::from(*count) >> 64;
                (min + drawn as u64) as usize
            }
            Choice::Normal {
                random,
                mean,
                deviation,
                min,
                max,
            } => {
                // Box and Muller's way from two even numbers to a normal one.
                let (a, b) = (random.unit(2 * sequence), random.unit(2 * sequence + 1));
                let normal = (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos();
                (mean + deviation * normal).round().clamp(*min, *max) as usize
            }
            Choice::Weighted { random, sums } => {
                let all = sums.last().map_or(0.0, |(sum, _)| *sum);
                let drawn = random.unit(sequence) * all;
                let at = sums.partition_point(|(sum, _)| *sum < drawn);
                sums.get(at).map_or(0, |(_, size)| *size)
            }
            Choice::Trace { trace, first, step } => {
                trace.size(first.wrapping_add(sequence.wrapping_mul(*step)))
            }
        };
        self.filler.get(..size).unwrap_or(&self.filler)
    }
}

#[cfg(test)]
mod tests;
