//! The table of events that can be sampled: what the kernel is asked for, and what a sample counts.

use perf_event_open_sys::bindings as b;

use crate::record::SampleRecord;

/// An event that samples are taken at. Nothing else in the crate knows one event from another.
#[derive(Debug)]
pub struct Event {
    /// Short name, which the files of a profile carry: `cpu`.
    pub name: &'static str,
    /// Name that the kernel uses: `cpu-clock`.
    pub kernel_name: &'static str,
    /// What a sample's weight counts: `samples`.
    pub unit: &'static str,
    /// Nanoseconds of CPU time that a weight of 1 stands for at this many samples a second; 0 where it
    /// stands for none.
    pub(crate) period_ns: fn(frequency: u32) -> u64,
    /// The kernel's `perf_event_attr.type`.
    pub(crate) kind: u32,
    /// The kernel's `perf_event_attr.config`.
    pub(crate) config: u64,
    /// The weight of a sample, in [`Event::unit`].
    pub(crate) weight: fn(&SampleRecord<'_>) -> u64,
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Event {}

/// All events, the usual one first.
pub static EVENTS: [&Event; 1] = [&CPU];

impl Event {
    /// The event of this short name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        EVENTS.into_iter().find(|event| event.name == name)
    }
}

/// Time on CPU, by the processor's clock, which every machine has, virtual ones too, so that
/// profiles of different machines compare.
pub static CPU: Event = Event {
    name: "cpu",
    kernel_name: "cpu-clock",
    unit: "samples",
    period_ns: |frequency| {
        1_000_000_000u64
            .checked_div(frequency.into())
            .unwrap_or_default()
    },
    kind: b::PERF_TYPE_SOFTWARE,
    config: b::PERF_COUNT_SW_CPU_CLOCK as u64,
    weight: |_| 1,
};
