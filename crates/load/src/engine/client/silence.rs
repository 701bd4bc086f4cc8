//! A client's silence: messages are in flight, and nothing is heard.

use std::sync::mpsc::SyncSender;

use measure::Time;

use super::{Client, ConnectionState};
use crate::Environment;
use crate::engine::context::{Context, Tally};
use crate::engine::producer::Producer;
use crate::engine::report::Report;
use crate::engine::shared::Shared;
use crate::engine::silence::SHORTEST;
use crate::protocol::Connection;
use crate::report::{Censored, Silence};

/// At the end of the run, tells of the silences that last, and of what has no answer and never will.
pub(crate) fn end_silences<C: Connection, E: Environment>(
    clients: &mut [Client<C, E>],
    shared: &Shared,
    reports: &SyncSender<Report>,
    tally: &mut Tally,
) {
    let boundaries = shared.boundaries();
    let mut censored = Censored::new(boundaries.measure_at, boundaries.end_at);
    let all = clients.len();
    tally.silences.note_away(false, tally.last_now, all);
    for client in clients {
        client.end_silence(boundaries.drain_at, tally);
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

impl<C: Connection, E: Environment> Client<C, E> {
    /// The time until now in which this client has heard nothing although messages were in flight, where that is
    /// worth telling.
    #[inline]
    pub(super) fn silence(&self, now: Time) -> Option<Silence> {
        if now.since(self.heard) < SHORTEST {
            return None;
        }
        self.long_silence(now)
    }

    #[cold]
    fn long_silence(&self, now: Time) -> Option<Silence> {
        if self.state != ConnectionState::Running {
            return None;
        }
        let before = Time(self.heard.0.saturating_sub(SHORTEST.0));
        let waiting = || self.producers().map(|it| it.waiting(before));
        let oldest = waiting().filter_map(|(_, oldest)| oldest).min()?;
        let from = self.heard.max(oldest);
        (now.since(from) >= SHORTEST).then(|| Silence {
            from,
            until: now,
            connections: 1,
            in_flight: waiting().map(|(count, _)| count).sum(),
            ..Silence::default()
        })
    }

    /// When the oldest message was sent that was answered since the last call.
    pub(super) fn take_oldest_answered(&mut self) -> Option<Time> {
        let producers = self.producers_mut();
        producers.filter_map(Producer::take_oldest_answered).min()
    }

    /// Its silence ends: since the first of those was sent that are answered. The others may hang.
    #[cold]
    pub(super) fn answered_after(&mut self, silence: Silence, context: &mut Context<'_, E>) {
        let until = self.heard;
        let oldest = self.take_oldest_answered().filter(|it| *it <= until);
        let from = oldest.map_or(silence.from, |oldest| silence.from.max(oldest));
        if until.since(from) >= SHORTEST {
            let drain_at = context.shared.boundaries().drain_at;
            let silence = Silence {
                from,
                until,
                ..silence
            };
            self.tell_silence(silence, drain_at, context.tally);
        }
    }

    /// Its silence ends because its connection does, or the run.
    pub(crate) fn end_silence(&self, drain_at: Time, tally: &mut Tally) {
        let in_flight: u64 = self.producers().map(Producer::in_flight).sum();
        // One alone that has no answer hangs where others do.
        let is_shown = |it: &Silence| it.in_flight > 1 || in_flight == it.in_flight;
        if let Some(silence) = self.silence(tally.last_now).filter(is_shown) {
            self.tell_silence(silence, drain_at, tally);
        }
    }

    /// Its silence is over.
    #[cold]
    pub(super) fn tell_silence(&self, silence: Silence, drain_at: Time, tally: &mut Tally) {
        let unsent = self.unsent(silence.from, silence.until.min(drain_at));
        let others = tally.others_answered(&silence);
        let silence = Silence { unsent, ..silence };
        tally.silences.end_beside(silence, others);
    }

    /// Messages that became due between two instants and were not sent.
    pub(crate) fn unsent(&self, from: Time, until: Time) -> u64 {
        let producers = self.producers();
        producers.map(|producer| producer.unsent(from, until)).sum()
    }
}
