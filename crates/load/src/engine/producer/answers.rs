//! Answers to a producer: confirms, commits, replies, returned messages; none of them where the connection is gone.

use measure::ledger::Anomaly;
use measure::{Metric, Nanos, Slice, Time};

use super::Producer;
use crate::Guarantee;
use crate::engine::ledger::{ThreadLedger, whole_sequence};
use crate::protocol::{Confirm, Connection};
use crate::window::NeverSent;
use plan::Contents;
use plan::payload::{self, Header};

impl Producer {
    /// The tag that a confirm of the message behind this reply would have; `None` for what is no
    /// reply to a message of this connection.
    pub(crate) fn replied<C: Connection>(
        &self,
        body: &[u8],
        properties: &[u8],
        now: Time,
    ) -> Option<u64> {
        let header = self.header::<C>(body, properties, now)?;
        let ours = header.run == Some(self.spec.run_id) && header.producer == self.spec.id;
        let sent = (self.first_tag..self.sequence).contains(&header.sequence);
        (self.spec.guarantee == Guarantee::Replies && ours && sent)
            .then(|| header.sequence - self.first_tag + 1)
    }

    /// The header of one of its own messages.
    fn header<C: Connection>(&self, body: &[u8], properties: &[u8], now: Time) -> Option<Header> {
        let contents = self.spec.contents.as_ref();
        let header = if contents.is_some_and(Contents::has_trace_header) {
            payload::read_trace_header(C::trace_header(properties)?, body.len(), now)
        } else {
            payload::read(body, self.spec.run_id, now)
        };
        header.ok()
    }

    /// The transaction is committed: that is the answer to all of its messages.
    pub(crate) const fn committed(&mut self) {
        self.committing = false;
        self.in_transaction = 0;
    }

    /// Tells since when a message has waited for its answer for longer than anybody does.
    pub(crate) fn overdue(&self, now: Time) -> Option<Nanos> {
        let oldest = self.window.as_ref()?.oldest()?;
        let waited = now.since(oldest);
        self.spec
            .confirm_timeout
            .filter(|longest| waited > *longest)
    }

    /// Takes the broker's answer; returns how many messages it covers.
    #[inline]
    pub(crate) fn answer(
        &mut self,
        confirm: Confirm,
        now: Time,
        interval: &mut Slice,
        latency: &mut Nanos,
        ledger: Option<&mut ThreadLedger>,
    ) -> Result<u64, NeverSent> {
        let Confirm {
            tag,
            multiple,
            nack,
        } = confirm;
        let window = self.window.as_mut().ok_or(NeverSent)?;
        let mut count = 0;
        let mut shard = ledger.zip(self.spec.bitmap);
        window.settle(tag, multiple, |run| {
            count += run.count;
            if !nack {
                if let Some((ledger, bitmap)) = &mut shard {
                    let first = self.first_tag + run.first - 1;
                    ledger.shard.note_range(*bitmap, first, run.count);
                }
                let (response, service) = (now.since(run.intended), now.since(run.sent));
                let latencies = interval.due(run.intended);
                latencies.record_n(Metric::ACK_RESPONSE, response, run.count);
                latencies.record_n(Metric::SEND_ACK, service, run.count);
                *latency = service;
            }
        })?;
        if nack {
            interval.counters.nacked += count;
        } else {
            interval.counters.completed += count;
        }
        self.think(now);
        Ok(count)
    }

    /// The broker gives a message back, for it has no queue for it.
    #[cold]
    pub(crate) fn returned<C: Connection>(
        &self,
        body: &[u8],
        properties: &[u8],
        now: Time,
        ledger: &mut ThreadLedger,
    ) {
        let header = self.header::<C>(body, properties, now);
        let Some((bitmap, header)) = self.spec.bitmap.zip(header) else {
            return;
        };
        let id = self.spec.id;
        let own = match header.run {
            Some(run) => (run, header.producer) == (self.spec.run_id, id),
            None => header.producer == u32::from(id as u16),
        };
        if let Some(sequence) = whole_sequence(&header, self.sequence).filter(|_| own) {
            ledger
                .shard
                .note_anomaly(bitmap, Anomaly::Returned, sequence);
        }
    }

    /// Its connection is gone; tells how many answers will not come.
    pub(crate) fn restart(&mut self, now: Time) -> u64 {
        let open = self.in_flight();
        self.first_tag = self.sequence;
        self.in_transaction = 0;
        self.committing = false;
        if open > 0 {
            self.think(now);
        }
        open
    }

    /// It has a connection again: what was in flight on the one before could not have been answered earlier, so
    /// it has waited at least so long.
    pub(crate) fn give_up(&mut self, now: Time, interval: &mut Slice) {
        let Some(window) = &mut self.window else {
            return;
        };
        for intended in window.unanswered() {
            let latencies = interval.due(intended);
            latencies.record(Metric::ACK_RESPONSE, now.since(intended));
        }
        self.abandoned += window.restart();
    }
}
