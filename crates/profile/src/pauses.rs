//! Times in which a sampler takes no samples, though it is attached.

use std::io;
use std::sync::{Mutex, PoisonError};

use measure::{Clock, Nanos, Time};

use crate::source::perf::PerfEvents;

/// Whether samples are taken, and what the process did while none were. All that switches events on or off does it
/// here, so that a pause which comes while sampling begins or ends leaves nothing switched on.
#[derive(Debug, Default)]
pub(crate) struct Pauses(Mutex<PauseState>);

#[derive(Debug, Default)]
struct PauseState {
    course: SamplingCourse,
    /// CPU time of the process when the present pause began; nothing inside where that is not known.
    paused: Option<Option<Nanos>>,
    /// CPU time in pauses that have ended.
    cpu: Nanos,
    /// When pauses began of which the sampler's thread has not heard.
    untold: Vec<Time>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum SamplingCourse {
    #[default]
    Before,
    Sampling,
    Ended,
}

impl Pauses {
    fn lock(&self) -> std::sync::MutexGuard<'_, PauseState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins sampling: at once, or where it is paused, when that ends.
    pub(crate) fn begin(&self, events: &PerfEvents) -> io::Result<()> {
        let mut state = self.lock();
        state.course = SamplingCourse::Sampling;
        if state.paused.is_some() { Ok(()) } else { events.enable() }
    }

    pub(crate) fn end(&self, events: &PerfEvents, process_cpu: Option<Nanos>) {
        let mut state = self.lock();
        state.course = SamplingCourse::Ended;
        events.disable();
        state.go_on(process_cpu);
    }

    /// Switches sampling off. The process has used so much.
    pub(crate) fn pause(&self, events: &PerfEvents, process_cpu: Option<Nanos>) {
        let mut state = self.lock();
        if state.paused.is_some() || state.course == SamplingCourse::Ended {
            return;
        }
        let at = Clock.now();
        events.disable();
        state.paused = Some(process_cpu);
        state.untold.push(at);
    }

    pub(crate) fn resume(&self, events: &PerfEvents, process_cpu: Option<Nanos>) -> io::Result<()> {
        let mut state = self.lock();
        let is_paused = state.paused.is_some();
        state.go_on(process_cpu);
        match state.course {
            SamplingCourse::Sampling if is_paused => events.enable(),
            _ => Ok(()),
        }
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.lock().paused.is_some()
    }

    pub(crate) fn cpu(&self) -> Nanos {
        self.lock().cpu
    }

    /// When pauses began since the last time that somebody asked.
    pub(crate) fn take_begun(&self) -> Vec<Time> {
        std::mem::take(&mut self.lock().untold)
    }
}

impl PauseState {
    fn go_on(&mut self, process_cpu: Option<Nanos>) {
        let before = self.paused.take().flatten();
        if let Some((before, now)) = before.zip(process_cpu) {
            self.cpu += now.saturating_sub(before);
        }
    }
}
