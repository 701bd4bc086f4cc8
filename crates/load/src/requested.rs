//! What a plan asks for over time, to be set against what was achieved.

use measure::Nanos;

use crate::schedule::Timetable;

/// What all groups together are asked to send, over time.
#[derive(Clone, Debug, Default)]
pub struct Requested {
    /// Each group's schedule, and its message count.
    groups: Vec<(Timetable, Option<u64>)>,
}

impl Requested {
    pub(crate) fn add(&mut self, table: Timetable, message_count: Option<u64>) {
        self.groups.push((table, message_count));
    }

    /// Messages asked for between two instants after the start: the integral of the rate, up to
    /// the message count. Random arrivals differ from it by chance: see [`Self::deviation`].
    #[must_use]
    pub fn messages(&self, from: Nanos, to: Nanos) -> f64 {
        self.groups
            .iter()
            .map(|group| between(group, from, to))
            .sum()
    }

    /// The standard deviation of the number of messages due between two instants: 0 unless arrivals
    /// are random, and then the root of the messages expected.
    #[must_use]
    pub fn deviation(&self, from: Nanos, to: Nanos) -> f64 {
        let random = self.groups.iter().filter(|(table, _)| table.is_random());
        random
            .map(|group| between(group, from, to))
            .sum::<f64>()
            .sqrt()
    }
}

fn between((table, message_count): &(Timetable, Option<u64>), from: Nanos, to: Nanos) -> f64 {
    let most = message_count.map_or(f64::INFINITY, |count| count as f64);
    (table.until(to).min(most) - table.until(from).min(most)).max(0.0)
}
