//! Stopping a load from outside, and asking it to watch for a broker's return.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use measure::{Nanos, Time};

use crate::Error;

/// The longest that a load that is stopped goes on with cycles, or with a conversation of cleaning up.
pub(crate) const FINISHING: Nanos = Nanos::SECOND;
/// The longest wait for messages in flight when stopped in the drain, and then for its connections' end.
pub(crate) const CLOSING: Nanos = Nanos::from_millis(500);

/// A handle that stops a running load within about 20 ms; clones share state. Safe in a signal handler thread.
#[derive(Clone, Debug, Default)]
pub struct Control {
    request: Arc<AtomicU8>,
    /// When the first end was noticed; 0 before that. Who requests it may have another clock.
    stopped_at: Arc<AtomicU64>,
    /// Since when waits belong to what is finished also by a load that was stopped.
    finishing_since: Option<Time>,
    watch: Arc<AtomicU8>,
    /// When what is confirmed first was sent, at the earliest; where that is asked for, nothing else is watched for.
    watched_since: Arc<AtomicU64>,
    held: Arc<AtomicBool>,
    /// When nothing may be sent any more, if [`Self::send_until`] says no other; 0 for never.
    sends_until: Arc<AtomicU64>,
    /// An event loop came too late for that.
    expired: Arc<AtomicBool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StopRequest {
    Run,
    Stop,
    Abort,
}

/// How far the return of a broker has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watch {
    Off,
    /// For the first confirm.
    Confirm,
    /// For producers to be on schedule, and consumers to have what was sent since.
    Backlog,
}

impl Control {
    /// A handle that has requested nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A handle for a load that is not asked to watch.
    pub(crate) fn without_watch(&self) -> Self {
        Self { watch: Arc::default(), ..self.clone() }
    }

    /// A handle for the end of a stopped load: its waits last [`FINISHING`] at most from then on.
    pub(crate) fn finishing(&self, now: Time) -> Self {
        Self { finishing_since: Some(now), ..self.clone() }
    }

    /// Orderly end: nothing more is sent, what is in flight is drained, queues are handled as planned.
    pub fn stop(&self) {
        self.request.fetch_max(StopRequest::Stop as u8, Ordering::Release);
    }

    /// End at once: no drain, connections are dropped. Queues that were to be deleted stay.
    pub fn abort(&self) {
        self.request.fetch_max(StopRequest::Abort as u8, Ordering::Release);
    }

    /// Whether an end was requested.
    pub fn is_stopping(&self) -> bool {
        self.request() != StopRequest::Run
    }

    /// Sends nothing from this instant on unless a later one is set before: whoever stood still until then sends
    /// nothing of what was due meanwhile, and the load ends.
    pub fn send_until(&self, at: Time) {
        self.sends_until.store(at.0, Ordering::Relaxed);
    }

    /// Whether the load has ended by [`Self::send_until`].
    pub fn is_expired(&self) -> bool {
        self.expired.load(Ordering::Acquire)
    }

    /// When the load expires.
    #[inline]
    pub(crate) fn sends_until(&self) -> Time {
        match self.sends_until.load(Ordering::Relaxed) {
            0 => Time(u64::MAX),
            until => Time(until),
        }
    }

    /// The load ends: nobody has said in time that it goes on.
    pub(crate) fn expire(&self) {
        self.expired.store(true, Ordering::Release);
        self.stop();
    }

    /// From now on watches for the first confirm ([`crate::RunEvent::FirstConfirm`]), and then for the
    /// end of the backlog ([`crate::RunEvent::BacklogGone`]). Call it when a broker that was away is
    /// about to come back.
    pub fn watch_return(&self) {
        self.watch_confirm_since(Time(0));
    }

    /// Watches from now on for the first confirm of what was sent since: where part of a cluster is taken away.
    pub fn watch_confirm_since(&self, since: Time) {
        self.watched_since.store(since.0, Ordering::Relaxed);
        self.watch.store(Watch::Confirm as u8, Ordering::Relaxed);
    }

    /// From now on clients stay connected when everything has been drained, until [`Self::release`], or for
    /// two seconds at most: whoever asks a broker for its consumers finds them.
    pub fn hold(&self) {
        self.held.store(true, Ordering::Relaxed);
    }

    /// Ends [`Self::hold`].
    pub fn release(&self) {
        self.held.store(false, Ordering::Relaxed);
    }

    pub(crate) fn is_held(&self) -> bool {
        self.held.load(Ordering::Relaxed)
    }

    /// How long ago the first end was noticed, `since` at the earliest; `None` where none was.
    fn stopped_for(&self, since: Time, now: Time) -> Option<Nanos> {
        if !self.is_stopping() {
            return None;
        }
        // An earlier look counts.
        let noticed = self.stopped_at.compare_exchange(0, now.0, Ordering::Relaxed, Ordering::Relaxed);
        let at = Time(noticed.err().unwrap_or(now.0));
        Some(now.since(at.max(since)))
    }

    /// Whether the load has to end at once, or has had `time` for its end.
    pub(crate) fn is_overdue(&self, since: Time, time: Nanos, now: Time) -> bool {
        let stopped_for = self.stopped_for(since, now);
        self.request() == StopRequest::Abort || stopped_for.is_some_and(|it| it >= time)
    }

    /// Whether waits for a broker end now without an answer.
    pub(crate) fn ends_waits(&self, now: Time) -> bool {
        match self.finishing_since {
            Some(since) => self.is_overdue(since, FINISHING, now),
            None => self.is_stopping(),
        }
    }

    pub(crate) fn request(&self) -> StopRequest {
        match self.request.load(Ordering::Acquire) {
            0 => StopRequest::Run,
            1 => StopRequest::Stop,
            _ => StopRequest::Abort,
        }
    }

    #[inline]
    pub(crate) fn watch(&self) -> Watch {
        match self.watch.load(Ordering::Relaxed) {
            0 => Watch::Off,
            1 => Watch::Confirm,
            _ => Watch::Backlog,
        }
    }

    /// Whether a confirm of what was sent then is the one that is watched for.
    #[inline]
    pub(crate) fn is_first_confirm(&self, sent: impl FnOnce() -> Time) -> bool {
        if self.watch() != Watch::Confirm {
            return false;
        }
        let since = Time(self.watched_since.load(Ordering::Relaxed));
        let next = if since == Time(0) { Watch::Backlog } else { Watch::Off };
        sent() >= since && self.watch_on(Watch::Confirm, next)
    }

    /// Goes from one state to the next; `false` where somebody else did, or it is another.
    pub(crate) fn watch_on(&self, from: Watch, to: Watch) -> bool {
        self.watch.compare_exchange(from as u8, to as u8, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

/// Why a wait ended without an answer.
#[derive(Debug)]
pub(crate) enum Interruption {
    Failed(Error),
    Stopped,
}

impl Interruption {
    /// Names the server.
    pub(crate) fn at(mut self, place: &str) -> Self {
        if let Self::Failed(Error::Connect { endpoint, .. } | Error::TimedOut { endpoint, .. }) = &mut self {
            place.clone_into(endpoint);
        }
        self
    }

    /// Names the group whose plan the broker cannot serve, by its position.
    pub(crate) fn in_group(self, position: usize) -> Self {
        match self {
            Self::Failed(error) => Self::Failed(error.in_group(position)),
            stopped => stopped,
        }
    }
}

impl From<Error> for Interruption {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_before_a_clusters_node_went_tells_nothing_of_the_rest() {
        let control = Control::new();
        control.watch_confirm_since(Time(50));
        assert!(!control.is_first_confirm(|| Time(49)));
        assert!(control.is_first_confirm(|| Time(50)));
        assert!(!control.is_first_confirm(|| Time(51)), "it was the first");
        assert_eq!(control.watch(), Watch::Off);
        // Of a broker alone nothing is confirmed before it is back, and then its backlog is watched.
        control.watch_return();
        assert!(control.is_first_confirm(|| Time(49)));
        assert_eq!(control.watch(), Watch::Backlog);
    }
}
