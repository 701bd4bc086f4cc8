//! Samples that weigh what is held at the end of a part.

use measure::Time;
use stacks::Sample;

use super::{Converter, Taken};
use crate::unwind::Stack;

/// A sample whose weight is known at the end, and its stack where that may get names until then.
pub(super) struct Unweighed {
    sample: Sample,
    at: Time,
    unnamed: Option<Stack>,
    /// Bytes of its stack that were copied.
    copied: u64,
}

impl Converter {
    /// Looks at what the process has before samples come, where that is needed. Call it just before.
    pub(crate) fn look_at_memory(&mut self) {
        if let Some(held) = &mut self.held {
            held.look_at(self.subject.pid);
        }
    }

    /// Ignores events from an instant on.
    pub(crate) const fn hold_until(&mut self, at: Time) {
        self.held_until = at;
    }

    /// Takes what a sample says of memory.
    pub(super) fn hold(&mut self, stack: &Stack, taken: &Taken) {
        if taken.at >= self.held_until {
            return;
        }
        let Some(mut held) = self.held.take() else {
            return;
        };
        held.step(&stack.transfer, || {
            let (sample, is_unnamed) = self.named(stack, taken);
            Unweighed {
                sample,
                at: taken.at,
                unnamed: is_unnamed.then(|| stack.clone()),
                copied: stack.copied,
            }
        });
        self.held = Some(held);
    }

    /// Writes what is held, where a part ends. What was taken in it is not known in the next.
    pub(super) fn write_held_memory(&mut self) {
        let Some(held) = &mut self.held else {
            return;
        };
        let left_out = held.left_out();
        let mut samples = held.end();
        samples.sort_by_key(|(it, _)| it.at);
        for (it, weight) in samples {
            let sample = Sample {
                weight,
                ..it.sample
            };
            self.write(sample, it.at, it.unnamed.as_ref());
            self.copied = self.copied.saturating_add(it.copied);
        }
        if let Some(left_out) = left_out {
            self.note(&left_out);
        }
        if self.outcome.lost > 0 {
            self.note("what the lost samples gave back is shown as held");
        }
    }
}
