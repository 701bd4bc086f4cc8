//! A client's silence: messages are in flight, and nothing is heard.

use std::sync::mpsc::SyncSender;

use measure::Time;

use super::{Client, ConnectionState};
use crate::engine::context::Tally;
use crate::engine::producer::Producer;
use crate::engine::report::Report;
use crate::engine::shared::Shared;
use crate::engine::silence::SHORTEST;
use crate::protocol::Connection;
use crate::report::Censored;

/// At the end of the run, tells of the silences that last, and of what has no answer and never will.
pub(crate) fn end_silences<C: Connection>(
    clients: &mut [Client<C>],
    shared: &Shared,
    reports: &SyncSender<Report>,
    tally: &mut Tally,
) {
    let boundaries = shared.boundaries();
    let mut censored = Censored::new(boundaries.measure_at, boundaries.end_at);
    let all = clients.len();
    tally.silences.note_away(false, tally.last_now, all);
    for client in clients {
        client.end_silence(tally);
        let end = boundaries.end_at;
        // Who could send, and did not any more, had waited for the broker until then.
        let free = match client.state {
            ConnectionState::Running if !client.withheld => client.resumed.unwrap_or_default(),
            _ => end,
        };
        client.producers_mut().for_each(|producer| {
            producer.censor(boundaries.drain_at, free, end, &mut censored);
        });
    }
    tally.tell_silences(true, reports);
    if !censored.is_empty() {
        let _ = reports.send(Report::Censored(Box::new(censored)));
    }
}

impl<C: Connection> Client<C> {
    /// Since when this client has heard nothing although messages were in flight, and how many are, where
    /// that is worth telling.
    #[inline]
    pub(super) fn silence(&self, now: Time) -> Option<(Time, u64)> {
        if now.since(self.heard) < SHORTEST {
            return None;
        }
        self.long_silence(now)
    }

    #[cold]
    fn long_silence(&self, now: Time) -> Option<(Time, u64)> {
        if self.state != ConnectionState::Running {
            return None;
        }
        let producers = || self.producers();
        let oldest = producers().filter_map(Producer::oldest).min()?;
        let from = self.heard.max(oldest);
        let in_flight = producers().map(Producer::in_flight).sum();
        (now.since(from) >= SHORTEST).then_some((from, in_flight))
    }

    /// Its silence ends because its connection does, or the run.
    pub(crate) fn end_silence(&self, tally: &mut Tally) {
        let now = tally.last_now;
        if let Some((from, in_flight)) = self.silence(now) {
            tally.silences.end(from, now, in_flight);
        }
    }
}
