//! Consumers in turn, those of higher priority first.

use std::collections::VecDeque;

use crate::slots::Key;

/// Consumers that can take a message now. Within a priority each gets one message in turn; lower
/// priorities get something only while no higher one is ready.
#[derive(Debug, Default)]
pub(crate) struct Ring {
    /// By descending priority; no entry is empty.
    levels: Vec<(i32, VecDeque<Key>)>,
}

impl Ring {
    /// Adds a consumer at the end of its priority's line.
    pub(crate) fn push(&mut self, consumer: Key, priority: i32) {
        let at = self.levels.partition_point(|(level, _)| *level > priority);
        match self.levels.get_mut(at) {
            Some((level, line)) if *level == priority => line.push_back(consumer),
            _ => self
                .levels
                .insert(at, (priority, VecDeque::from([consumer]))),
        }
    }

    /// The consumer whose turn it is.
    #[inline]
    pub(crate) fn front(&self) -> Option<Key> {
        self.levels.first()?.1.front().copied()
    }

    /// Sends the consumer whose turn it was to the end of its line.
    #[inline]
    pub(crate) fn rotate(&mut self) {
        if let Some((_, line)) = self.levels.first_mut() {
            line.rotate_left(1);
        }
    }

    /// Takes the consumer whose turn it is out.
    pub(crate) fn pop(&mut self) {
        if let Some((_, line)) = self.levels.first_mut() {
            line.pop_front();
            if line.is_empty() {
                self.levels.remove(0);
            }
        }
    }

    /// Takes a consumer out, wherever it is.
    pub(crate) fn remove(&mut self, consumer: Key) {
        for (_, line) in &mut self.levels {
            line.retain(|c| *c != consumer);
        }
        self.levels.retain(|(_, line)| !line.is_empty());
    }

    /// How many are ready.
    pub(crate) fn len(&self) -> usize {
        self.levels.iter().map(|(_, line)| line.len()).sum()
    }

    /// Whether nobody is ready.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.levels.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slots::Slots;

    #[test]
    fn turns_go_round_within_the_highest_priority() {
        let mut slots = Slots::default();
        let [a, b, low, high] = std::array::from_fn(|_| slots.insert(()));
        let mut ring = Ring::default();
        for (consumer, priority) in [(a, 0), (low, -5), (b, 0), (high, 9)] {
            ring.push(consumer, priority);
        }
        let turns = |ring: &mut Ring, n: usize| {
            (0..n)
                .map(|_| {
                    let c = ring.front();
                    ring.rotate();
                    c
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(turns(&mut ring, 2), [Some(high), Some(high)]);
        ring.pop();
        assert_eq!(turns(&mut ring, 3), [Some(a), Some(b), Some(a)]);
        ring.remove(a);
        ring.remove(b);
        assert_eq!(ring.front(), Some(low));
        ring.pop();
        assert!(ring.is_empty());
    }
}
