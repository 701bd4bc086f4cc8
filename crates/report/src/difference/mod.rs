//! How two profiles differ: the shares of functions and stacks in each, and whether chance gives as much.

mod rows;
mod tree;

pub use rows::{DifferenceRow, differences, smallest_change};
pub(crate) use tree::DifferenceTree;

use compare::Amount;
use stacks::Profile;

/// One of two profiles.
#[derive(Clone, Copy, Debug)]
pub struct DifferenceSide<'a> {
    /// The profile, or the part of it that is compared.
    pub profile: &'a Profile,
    /// Name for people: the run and its window.
    pub name: &'a str,
}

/// The weight of all samples.
fn amount(profile: &Profile) -> Amount {
    let squares = profile.squares();
    Amount {
        weight: profile.total_weight() as f64,
        squares: squares.profile.total_weight() as f64 * squares.scale,
    }
}

/// A profile of folded stacks, `thread;root;…;leaf`, each with its weight.
#[cfg(test)]
pub(crate) fn of_stacks(stacks: &[(&str, u64)]) -> Profile {
    use stacks::{Builder, Frame, FrameKind, Sample, Unwinding};

    let mut builder = Builder::default();
    for (line, weight) in stacks {
        let (thread, frames) = line.split_once(';').expect("a thread");
        let thread = builder.thread(thread);
        let mut stack = None;
        for name in frames.split(';') {
            let frame = builder.frame(&Frame::new(name, "m", FrameKind::Native));
            stack = Some(builder.node(stack, frame));
        }
        builder.sample(Sample {
            t: 0,
            weight: *weight,
            stack: stack.expect("a frame"),
            thread,
            cpu: 0,
            complete: true,
            unwinding: Unwinding::Unknown,
            process: None,
            wait: None,
        });
    }
    builder.profile.header.unit = "samples".into();
    builder.profile.header.event = "cpu".into();
    builder.profile
}
