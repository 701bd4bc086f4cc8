//! Whether the peer still lives (specification 2.4.5). Each side is closed by the other where it says nothing for the
//! time-out that the other has set. This side looks twice per time-out whether it has written anything, and sends an
//! empty frame if not; it gives the peer up after twice the time-out that it has asked for.

use measure::{Nanos, Time};

use super::Amqp10Error;

/// Time-outs of a connection.
#[derive(Debug)]
pub(crate) struct Liveness {
    /// How long the handshake and the close may take.
    timeout: Nanos,
    /// When the handshake or the close began, while one is in progress.
    pub(crate) waiting_since: Option<Time>,
    /// The longest silence of the peer; zero for any.
    silence_max: Nanos,
    pub(crate) heard_at: Time,
    /// Bytes heard so far, consumed or not.
    heard: u64,
    /// Half of what the peer asks for; zero where it does not.
    beat: Nanos,
    next_beat: Time,
    /// Whether anything was written since the last look.
    pub(crate) written: bool,
}

impl Liveness {
    pub(crate) const fn new(timeout: Nanos, heartbeat_s: u16, now: Time) -> Self {
        Self {
            timeout,
            waiting_since: Some(now),
            silence_max: Nanos(heartbeat_s as u64 * 2_000_000_000),
            heard_at: now,
            heard: 0,
            beat: Nanos::ZERO,
            next_beat: now,
            written: false,
        }
    }

    /// The peer wants to hear something every `idle_time_out_ms`.
    pub(crate) fn beat(&mut self, idle_time_out_ms: u32, now: Time) {
        self.beat = Nanos(u64::from(idle_time_out_ms) * 500_000);
        self.next_beat = now + self.beat;
    }

    /// So many bytes have come by now.
    #[inline]
    pub(crate) const fn hear(&mut self, now: Time, bytes: u64) {
        if bytes > self.heard {
            self.heard = bytes;
            self.heard_at = now;
        }
    }

    pub(crate) fn next_timeout(&self) -> Option<Time> {
        let some = |length: Nanos, time: Time| (length > Nanos::ZERO).then_some(time);
        let waiting = self.waiting_since.map(|since| since + self.timeout);
        let silent = some(self.silence_max, self.heard_at + self.silence_max);
        let beat = some(self.beat, self.next_beat);
        [waiting, silent, beat].into_iter().flatten().min()
    }

    /// Tells whether a heartbeat is due.
    pub(crate) fn check(&mut self, now: Time, awaited: &'static str) -> Result<bool, Amqp10Error> {
        if let Some(since) = self.waiting_since
            && now.since(since) >= self.timeout
        {
            return Err(Amqp10Error::TimedOut { awaited, waited: now.since(since), received: self.heard });
        }
        let silent = now.since(self.heard_at);
        if self.silence_max > Nanos::ZERO && silent >= self.silence_max {
            return Err(Amqp10Error::Silent { silent });
        }
        if self.beat == Nanos::ZERO || now < self.next_beat {
            return Ok(false);
        }
        self.next_beat = now + self.beat;
        Ok(!std::mem::take(&mut self.written))
    }
}
