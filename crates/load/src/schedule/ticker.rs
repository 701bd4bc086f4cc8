//! The due times of one producer, one after the other.

use std::sync::Arc;

use measure::Time;

use super::Arrivals;
use super::constant::Beat;
use super::timetable::{Course, Place, Timetable};
use crate::random::Random;

/// The due times of one producer.
#[derive(Clone, Debug)]
pub(crate) struct Ticker {
    due: Time,
    pace: Steps,
}

#[derive(Clone, Debug)]
enum Steps {
    /// From one instant to the next.
    Beat(Beat),
    /// From one message to the next, and to its instant.
    Places {
        table: Arc<Timetable>,
        start: Time,
        next: Place,
        step: Place,
    },
    /// The same by chance.
    Chance {
        table: Arc<Timetable>,
        start: Time,
        /// Messages so far, and the sum of their gaps.
        count: u64,
        sum: u128,
        random: Random,
    },
}

/// What never comes.
const NEVER: Time = Time(u64::MAX);

impl Ticker {
    /// The part of a schedule that belongs to `producer`: messages `producer`,
    /// `producer + producers`, … Chance differs by `id`, the producer's number over all groups: two
    /// groups of the same seed do not send at the same instants.
    pub(crate) fn new(table: &Arc<Timetable>, start: Time, producer: u64, id: u32) -> Self {
        let producers = table.producers.max(1);
        let mut ticker = match (&table.course, table.arrivals) {
            (_, Arrivals::Poisson { seed }) => Self {
                due: start,
                pace: Steps::Chance {
                    table: Arc::clone(table),
                    start,
                    count: 0,
                    sum: 0,
                    random: Random::new(seed, u64::from(id)),
                },
            },
            (Course::Constant(constant), Arrivals::Even) => {
                let (offset, beat) = constant.beat(producer, producers);
                return Self {
                    due: Time(start.0.saturating_add(offset)),
                    pace: Steps::Beat(beat),
                };
            }
            (course, Arrivals::Even) => {
                let all = matches!(course, Course::Trace { each: true, .. });
                let (first, step) = if all { (0, 1) } else { (producer, producers) };
                Self {
                    due: start,
                    pace: Steps::Places {
                        table: Arc::clone(table),
                        start,
                        next: Place::whole(first),
                        step: Place::whole(step),
                    },
                }
            }
        };
        ticker.advance();
        ticker
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
        match &mut self.pace {
            Steps::Beat(beat) => self.due.0 = beat.after(self.due.0),
            _ => self.advance_by_place(),
        }
    }

    fn advance_by_place(&mut self) {
        let (table, start, place) = match &mut self.pace {
            Steps::Beat(_) => return,
            Steps::Places {
                table,
                start,
                next,
                step,
            } => {
                let place = *next;
                next.0 += step.0;
                (table, *start, place)
            }
            Steps::Chance {
                table,
                start,
                count,
                sum,
                random,
            } => {
                // An exponential number of mean 1, by inversion.
                *sum += Place::of(-random.unit(*count).ln()).0;
                *count += 1;
                let place = Place(sum.saturating_mul(u128::from(table.producers)));
                (table, *start, place)
            }
        };
        let next = table
            .instant(place)
            .and_then(|offset| start.0.checked_add(offset));
        // The last bit of a root may not turn the order around.
        self.due = next.map_or(NEVER, |next| Time(next).max(self.due));
    }
}
