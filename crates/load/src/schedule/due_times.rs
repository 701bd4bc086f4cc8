//! The due times of one producer, one after the other.

use std::sync::Arc;

use measure::Time;

use super::Spacing;
use super::constant::EvenSteps;
use super::pacer::{Curve, Pacer, Position};
use crate::random::Random;

/// The due times of one producer.
#[derive(Clone, Debug)]
pub(crate) struct DueTimes {
    due: Time,
    steps: Steps,
}

#[derive(Clone, Debug)]
enum Steps {
    /// From one instant to the next.
    Even(EvenSteps),
    /// From one message to the next, and to its instant.
    Positions {
        pacer: Arc<Pacer>,
        start: Time,
        next: Position,
        step: Position,
    },
    /// Random arrivals.
    Random {
        pacer: Arc<Pacer>,
        start: Time,
        /// Messages so far, and the sum of their gaps.
        count: u64,
        sum: u128,
        random: Random,
    },
}

/// What never comes.
const NEVER: Time = Time(u64::MAX);

impl DueTimes {
    /// The part of a schedule that belongs to `producer`: messages `producer`,
    /// `producer + producers`, … Random differs by `id`, the producer's number over all groups: two
    /// groups of the same seed do not send at the same instants.
    pub(crate) fn new(pacer: &Arc<Pacer>, start: Time, producer: u64, id: u32) -> Self {
        let producers = pacer.producers.max(1);
        let mut due_times = match (&pacer.curve, pacer.spacing) {
            (_, Spacing::Poisson { seed }) => Self {
                due: start,
                steps: Steps::Random {
                    pacer: Arc::clone(pacer),
                    start,
                    count: 0,
                    sum: 0,
                    random: Random::new(seed, u64::from(id)),
                },
            },
            (Curve::Constant(constant), Spacing::Even) => {
                let (offset, even_steps) = constant.even_steps(producer, producers);
                return Self {
                    due: Time(start.0.saturating_add(offset)),
                    steps: Steps::Even(even_steps),
                };
            }
            (course, Spacing::Even) => {
                let all = matches!(course, Curve::Trace { each: true, .. });
                let (first, step) = if all { (0, 1) } else { (producer, producers) };
                Self {
                    due: start,
                    steps: Steps::Positions {
                        pacer: Arc::clone(pacer),
                        start,
                        next: Position::whole(first),
                        step: Position::whole(step),
                    },
                }
            }
        };
        due_times.advance();
        due_times
    }

    /// When the next message is due.
    #[inline]
    pub(crate) const fn due(&self) -> Time {
        self.due
    }

    /// Whether there is no next message.
    pub(crate) fn is_over(&self) -> bool {
        self.due == NEVER
    }

    /// Goes on to the message after it.
    #[inline]
    pub(crate) fn advance(&mut self) {
        match &mut self.steps {
            Steps::Even(even_steps) => self.due.0 = even_steps.after(self.due.0),
            _ => self.advance_by_position(),
        }
    }

    fn advance_by_position(&mut self) {
        let (pacer, start, position) = match &mut self.steps {
            Steps::Even(_) => return,
            Steps::Positions {
                pacer,
                start,
                next,
                step,
            } => {
                let position = *next;
                next.0 += step.0;
                (pacer, *start, position)
            }
            Steps::Random {
                pacer,
                start,
                count,
                sum,
                random,
            } => {
                // An exponential number of mean 1, by inversion.
                *sum += Position::of(-random.unit(*count).ln()).0;
                *count += 1;
                let position = Position(sum.saturating_mul(u128::from(pacer.producers)));
                (pacer, *start, position)
            }
        };
        let next = pacer
            .instant(position)
            .and_then(|offset| start.0.checked_add(offset));
        // The last bit of a root may not turn the order around.
        self.due = next.map_or(NEVER, |next| Time(next).max(self.due));
    }
}
