//! The due times of one producer, one after the other.

use std::sync::Arc;

use measure::Time;

use super::Spacing;
use super::constant::EvenSteps;
use super::pacer::{Curve, Pacer, Position};
use crate::random::Random;

/// The due times of one producer.
#[derive(Clone, Debug)]
pub struct DueTimes {
    due: Time,
    steps: Steps,
}

#[derive(Clone, Debug)]
enum Steps {
    /// From one instant to the next.
    Even(EvenSteps),
    /// From one message to the next, and to its instant.
    Positions { pacer: Arc<Pacer>, start: Time, next: Position, step: Position },
    /// Random arrivals.
    Random {
        pacer: Arc<Pacer>,
        start: Time,
        /// Messages so far, and the sum of their gaps.
        count: u64,
        sum: u128,
        random: Random,
        /// How many more are passed over by their own gaps; later ones have the mean gap.
        to_draw: u64,
    },
}

/// Random arrivals of a group that are passed over one by one.
const MOST_DRAWN: u64 = 1 << 20;

/// Due time that never comes.
const NEVER: Time = Time(u64::MAX);

impl DueTimes {
    /// The part of a schedule that belongs to `producer`: messages `producer`,
    /// `producer + producers`, … Random differs by `id`, the producer's number over all groups: two
    /// groups of the same seed do not send at the same instants.
    pub fn new(pacer: &Arc<Pacer>, start: Time, producer: u64, id: u32) -> Self {
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
                    to_draw: MOST_DRAWN / producers,
                },
            },
            (Curve::Constant(constant), Spacing::Even) => {
                let (offset, even_steps) = constant.even_steps(producer, producers);
                return Self { due: Time(start.0.saturating_add(offset)), steps: Steps::Even(even_steps) };
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
    pub const fn due(&self) -> Time {
        self.due
    }

    /// Whether there is no next message.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.due == NEVER
    }

    /// Goes on to the message after it.
    #[inline]
    pub fn advance(&mut self) {
        match &mut self.steps {
            Steps::Even(even_steps) => self.due.0 = even_steps.after(self.due.0),
            _ => self.advance_by_position(),
        }
    }

    fn advance_by_position(&mut self) {
        let (pacer, start, position) = match &mut self.steps {
            Steps::Even(_) => return,
            Steps::Positions { pacer, start, next, step } => {
                let position = *next;
                next.0 += step.0;
                (pacer, *start, position)
            }
            Steps::Random { pacer, start, count, sum, random, .. } => {
                // An exponential number of mean 1, by inversion.
                *sum += Position::of(-random.unit(*count).ln()).0;
                *count += 1;
                let position = Position(sum.saturating_mul(u128::from(pacer.producers)));
                (pacer, *start, position)
            }
        };
        // The last bit of a root may not turn the order around.
        self.due = instant(pacer, start, position).max(self.due);
    }

    /// Passes over what is due before `end`, at most so many; their number. Takes time by its logarithm.
    pub fn pass(&mut self, end: Time, most: u64) -> u64 {
        if self.due >= end || most == 0 {
            return 0;
        }
        match &mut self.steps {
            Steps::Even(even_steps) => {
                let (count, due) = even_steps.pass(self.due.0, end.0, most);
                self.due = Time(due);
                count
            }
            Steps::Positions { .. } => self.pass_positions(end, most),
            Steps::Random { .. } => self.pass_random(end, most),
        }
    }

    /// Passes random arrivals. Gaps of unsent messages are unseen: of very many, the last have the mean gap.
    fn pass_random(&mut self, end: Time, most: u64) -> u64 {
        let mut count = 0;
        while count < most && self.due < end {
            let Steps::Random { pacer, start, sum, to_draw, .. } = &mut self.steps else {
                return count + self.pass_positions(end, most - count);
            };
            if let Some(left) = to_draw.checked_sub(1) {
                *to_draw = left;
                self.advance_by_position();
                count += 1;
            } else {
                let producers = u128::from(pacer.producers);
                let next = sum.saturating_add(Position::whole(1).0);
                self.steps = Steps::Positions {
                    next: Position(next.saturating_mul(producers)),
                    step: Position::whole(pacer.producers),
                    pacer: Arc::clone(pacer),
                    start: *start,
                };
            }
        }
        count
    }

    fn pass_positions(&mut self, end: Time, most: u64) -> u64 {
        let Steps::Positions { pacer, start, next, step } = &mut self.steps else { return 0 };
        let ahead = |count: u64| Position(next.0.saturating_add(u128::from(count) * step.0));
        // Whether the `count`-th after this one is due before.
        let is_before = |count: u64| instant(pacer, *start, ahead(count - 1)) < end;
        let (mut low, mut high) = (0, 1);
        while high < most && is_before(high) {
            (low, high) = (high, high.saturating_mul(2).min(most));
        }
        while high - low > 1 {
            let middle = low.midpoint(high);
            if is_before(middle) {
                low = middle;
            } else {
                high = middle;
            }
        }
        // The last bit of a root may turn the order around.
        let first = (high.saturating_sub(3).max(1)..high).find(|count| !is_before(*count));
        let count = first.unwrap_or(high);
        *next = ahead(count - 1);
        self.advance_by_position();
        count
    }
}

fn instant(pacer: &Pacer, start: Time, position: Position) -> Time {
    let offset = pacer.instant(position);
    offset.and_then(|offset| start.0.checked_add(offset)).map_or(NEVER, Time)
}
