//! Switching a sampler off for a while, from any thread.

use std::sync::Arc;

use crate::Error;
use crate::source::perf::PerfEvents;
use crate::worker::Signals;

/// Switches a sampler off and on again, so that what it costs can be seen. While it is off, nothing of it is in the process's
/// way but its switched off events, which the kernel passes over when threads take turns; [`crate::Sampler::stays_in_the_way`] says
/// where more stays. It outlives its sampler, and then does nothing.
#[derive(Clone, Debug)]
pub struct SamplingSwitch {
    pub(crate) events: Arc<PerfEvents>,
    pub(crate) signals: Arc<Signals>,
    pub(crate) pid: u32,
}

impl SamplingSwitch {
    /// Takes no samples from now on. What memory does meanwhile is not seen: do not pause what tells how much is held.
    pub fn pause(&self) {
        let pauses = &self.signals.pauses;
        pauses.pause(&self.events, linux::cpu_time(self.pid));
        // What was sampled until now is fetched at once, so that this costs nothing later.
        let _ = rustix::io::write(&self.signals.wake, &1u64.to_ne_bytes());
    }

    /// Takes samples again.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn resume(&self) -> Result<(), Error> {
        let pauses = &self.signals.pauses;
        let resumed = pauses.resume(&self.events, linux::cpu_time(self.pid));
        resumed.map_err(|source| Error::System {
            what: "switch an event on".into(),
            source,
        })
    }
}
