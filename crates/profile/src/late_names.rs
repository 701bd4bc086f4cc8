//! Samples that wait for names: a virtual machine writes down what it compiled only when it is told to.

use std::sync::Arc;
use std::thread::JoinHandle;

use measure::{Clock, Nanos, Time};
use stacks::Sample;

use crate::jvm::Jvm;
use crate::unwind::Stack;

/// Names are asked for this often where they are missing, and less often where that brings none.
const SHORTEST_PAUSE: Nanos = Nanos::SECOND;
const LONGEST_PAUSE: Nanos = Nanos::from_millis(16_000);
/// Writing the map takes at most this part of the JVM's time: one in so many.
const PART: u64 = 100;
/// Addresses of stacks that wait at most; later ones go without names. 32 MB.
const MOST_ADDRESSES: usize = 2 << 20;

/// A sample whose stack holds an address without a name.
#[derive(Debug)]
pub(crate) struct UnresolvedSample {
    pub(crate) stack: Stack,
    pub(crate) at: Time,
    /// Without its stack.
    pub(crate) sample: Sample,
}

/// The samples that wait, and the JVM that is asked for their names.
#[derive(Debug)]
pub(crate) struct LateNames {
    jvm: Arc<Jvm>,
    held: Vec<UnresolvedSample>,
    /// Addresses in their stacks.
    addresses: usize,
    request: Option<JoinHandle<Result<Nanos, String>>>,
    /// The map was written and not read yet.
    written: bool,
    pause: Nanos,
    next: Time,
}

impl LateNames {
    pub(crate) fn new(jvm: Arc<Jvm>) -> Self {
        Self {
            jvm,
            held: Vec::new(),
            addresses: 0,
            request: None,
            written: false,
            pause: SHORTEST_PAUSE,
            next: Clock.now() + SHORTEST_PAUSE,
        }
    }

    /// Keeps a sample until names have come; `false` where too many wait already.
    pub(crate) fn hold(&mut self, stack: &Stack, at: Time, sample: Sample) -> bool {
        if self.addresses >= MOST_ADDRESSES {
            return false;
        }
        self.addresses += stack.addresses.len();
        self.held.push(UnresolvedSample { stack: stack.clone(), at, sample });
        true
    }

    /// Asks for names where some are missing. `Ok(true)`: the map can be read now, by [`LateNames::read`].
    pub(crate) fn poll(&mut self) -> Result<bool, String> {
        if self.request.as_ref().is_some_and(JoinHandle::is_finished) {
            self.join()?;
        }
        let now = Clock.now();
        if !self.held.is_empty() && self.request.is_none() && !self.written && now >= self.next {
            let jvm = Arc::clone(&self.jvm);
            let thread = std::thread::Builder::new().name("jvm names".into());
            self.request = thread.spawn(move || jvm.write_map()).ok();
        }
        Ok(self.written)
    }

    fn join(&mut self) -> Result<(), String> {
        let Some(request) = self.request.take() else { return Ok(()) };
        let answer = request.join();
        let answer = answer.unwrap_or_else(|_| Err("the request failed".to_owned()));
        let now = Clock.now();
        match answer {
            Ok(cost) => {
                self.written = true;
                self.next = now + self.pause.max(Nanos(cost.0.saturating_mul(PART)));
                Ok(())
            }
            Err(why) => {
                self.pause = LONGEST_PAUSE;
                self.next = now + LONGEST_PAUSE;
                Err(why)
            }
        }
    }

    /// Has `read` read the map; the samples that waited for it. `None` while it is being written for somebody else.
    pub(crate) fn read(&mut self, read: impl FnOnce()) -> Option<Vec<UnresolvedSample>> {
        let jvm = Arc::clone(&self.jvm);
        let _still = jvm.still_map()?;
        read();
        self.written = false;
        Some(self.release())
    }

    pub(crate) const fn holds_any(&self) -> bool {
        !self.held.is_empty()
    }

    /// The samples that wait, whatever became of their names.
    pub(crate) fn release(&mut self) -> Vec<UnresolvedSample> {
        self.addresses = 0;
        std::mem::take(&mut self.held)
    }

    /// Hears whether the map has named any of the samples that waited.
    pub(crate) fn named(&mut self, any: bool) {
        self.pause = if any { SHORTEST_PAUSE } else { Nanos(self.pause.0.saturating_mul(2)).min(LONGEST_PAUSE) };
    }

    /// Waits for names that are still missing at the end.
    pub(crate) fn end(&mut self) -> Result<(), String> {
        self.join()?;
        if self.held.is_empty() || !self.jvm.is_alive() { Ok(()) } else { self.jvm.write_map().map(|_| ()) }
    }
}
