//! How to sample, as users of the crate say it.

use measure::Nanos;

use crate::events::Event;

/// How to sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The event that samples are taken at.
    pub event: Event,
    /// Samples per second and thread, where not each event is one; at most `kernel.perf_event_max_sample_rate`.
    pub frequency: u32,
    /// Whether to ask for the kernel's own frames. Where the kernel refuses them the profile is of
    /// user space only, and a note says so.
    pub kernel: bool,
    /// How stacks are unwound.
    pub stacks: Stacks,
    /// Blocked times of a thread that are shorter are left out of its time off CPU.
    pub min_block: Nanos,
}

/// How stacks are unwound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stacks {
    /// By what makes most of them whole, of what the kernel allows; the profile says what that was.
    #[default]
    Whole,
    /// By frame pointers alone, as the kernel does.
    FramePointers,
}

impl Stacks {
    /// All ways, by the names that users give.
    pub const ALL: [(&'static str, Self); 2] = [
        ("whole", Self::Whole),
        ("frame-pointers", Self::FramePointers),
    ];

    /// The way of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let found = Self::ALL.into_iter().find(|(known, _)| *known == name);
        found.map(|(_, stacks)| stacks)
    }
}

impl Default for Options {
    fn default() -> Self {
        // 999 rather than 1,000, so as not to beat with what runs once a millisecond.
        Self {
            event: Event::usual(),
            frequency: 999,
            kernel: true,
            stacks: Stacks::Whole,
            min_block: Nanos::from_millis(1),
        }
    }
}
