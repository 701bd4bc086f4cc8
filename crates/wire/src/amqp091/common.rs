//! Shared by both sides: the output, the receiver, and the time-outs.
//!
//! Heartbeats (specification 4.2.7): twice per interval each side sends one unless it has written since the last look,
//! so that it is never silent for longer than an interval. Two intervals of silence give the peer up.

use measure::{Nanos, Time};

use super::error::{EncodeError, Error, Snippet};
use super::frame;
use super::properties::Properties;
use super::receive::{ChannelState, Receiver};
use super::spec::{ChannelClose, ChannelCloseOk, ChannelOpen, ConnectionClose, DecodeMethod, EncodeMethod, MethodId};
use super::table::FieldTable;

/// Capabilities that both sides announce in the handshake.
pub(super) fn capabilities() -> Result<FieldTable, EncodeError> {
    let mut capabilities = FieldTable::new();
    for name in [
        "publisher_confirms",
        "exchange_exchange_bindings",
        "basic.nack",
        "consumer_cancel_notify",
        "connection.blocked",
        "authentication_failure_close",
    ] {
        capabilities.insert(name, true)?;
    }
    Ok(capabilities)
}

/// Frames up to this size are read before tuning; a `connection.start` may be large.
const FRAME_MAX_UNTUNED: u32 = 131_072;

pub(super) struct CommonState {
    pub(super) rx: Receiver,
    pub(super) frame_max: u32,
    out: Vec<u8>,
    /// How much of `out` is written.
    head: usize,
    timeout: Nanos,
    /// When the handshake or the close began, while one is in progress.
    pub(super) waiting_since: Option<Time>,
    pub(super) heartbeat_s: u16,
    /// When to look whether a heartbeat is due.
    next_beat: Time,
    /// Whether anything was written since the last look.
    written: bool,
    pub(super) heard_at: Time,
    /// Bytes heard so far, consumed or not.
    heard: u64,
    /// Start of the input that is not consumed, kept while a time-out may have to show it.
    unread: Snippet,
}

/// Without the output, which may hold a password.
impl std::fmt::Debug for CommonState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CommonState")
            .field("offset", &self.rx.offset())
            .field("pending", &self.pending().len())
            .finish_non_exhaustive()
    }
}

impl CommonState {
    pub(super) fn new(max_body: u64, timeout: Nanos, now: Time) -> Self {
        Self {
            rx: Receiver::new(FRAME_MAX_UNTUNED, max_body.min(super::MAX_BODY)),
            frame_max: FRAME_MAX_UNTUNED,
            out: Vec::new(),
            head: 0,
            timeout,
            waiting_since: Some(now),
            heartbeat_s: 0,
            next_beat: now,
            written: false,
            heard_at: now,
            heard: 0,
            unread: Snippet::default(),
        }
    }

    /// Applies what was negotiated; heartbeats start.
    pub(super) fn tune(&mut self, frame_max: u32, heartbeat_s: u16, now: Time) {
        self.frame_max = frame_max;
        self.rx.set_frame_max(frame_max);
        self.heartbeat_s = heartbeat_s;
        self.heard_at = now;
        self.next_beat = now + self.half_beat();
    }

    /// Notes that `input` is there, of which the beginning may have been there before.
    #[inline]
    pub(super) fn hear(&mut self, now: Time, input: &[u8]) {
        let heard = self.rx.offset() + input.len() as u64;
        if heard > self.heard {
            self.heard = heard;
            self.heard_at = now;
        }
    }

    /// Keeps the start of what could not be consumed, for the message of a time-out.
    #[inline]
    pub(super) fn keep_unread(&mut self, input: &[u8]) {
        if self.waiting_since.is_some() {
            self.unread = Snippet::of(input);
        }
    }

    pub(super) fn pending(&self) -> &[u8] {
        self.out.get(self.head..).unwrap_or_default()
    }

    pub(super) fn consume(&mut self, n: usize) {
        self.head = (self.head + n).min(self.out.len());
        self.written |= n > 0;
        if self.head == self.out.len() {
            self.out.clear();
            self.head = 0;
        }
    }

    /// The buffer to append output to.
    #[inline]
    pub(super) fn out(&mut self) -> &mut Vec<u8> {
        // Written bytes are dropped once they are the larger part, so that moving the rest costs less than writing.
        if self.head > self.out.len() / 2 {
            self.out.drain(..self.head);
            self.head = 0;
        }
        &mut self.out
    }

    /// Appends a method frame and follows what it does to its channel.
    pub(super) fn send(&mut self, channel: u16, method: &impl EncodeMethod) -> Result<(), EncodeError> {
        let frame_max = self.frame_max;
        frame::put_method(self.out(), channel, method, frame_max)?;
        let id = method.info().id;
        if id == ChannelOpen::INFO.id {
            self.rx.set_channel_state(channel, ChannelState::Open);
        } else if id == ChannelClose::INFO.id {
            self.rx.set_channel_state(channel, ChannelState::Closing);
        }
        Ok(())
    }

    /// Appends a method with its content; on an error nothing is appended.
    pub(super) fn send_content(
        &mut self,
        channel: u16,
        method: &impl EncodeMethod,
        properties: Properties<'_>,
        body: &[u8],
    ) -> Result<(), EncodeError> {
        let frame_max = self.frame_max;
        let out = self.out();
        let start = out.len();
        frame::put_method(out, channel, method, frame_max)?;
        frame::put_content(out, channel, properties, body, frame_max).inspect_err(|_| out.truncate(start))
    }

    /// As [`Self::send`], for methods that fit into any frame.
    pub(super) fn send_small(&mut self, channel: u16, method: &impl EncodeMethod) {
        let sent = self.send(channel, method);
        debug_assert!(sent.is_ok(), "{sent:?}");
    }

    pub(super) fn send_close(&mut self, code: u16, text: &str, cause: MethodId) {
        let close = ConnectionClose {
            reply_code: code,
            reply_text: frame::short(text),
            class_id: cause.class,
            method_id: cause.method,
        };
        self.send_small(0, &close);
    }

    pub(super) fn channel_close_ok(&mut self, channel: u16) {
        self.send_small(channel, &ChannelCloseOk {});
        if self.rx.channel_state(channel) == ChannelState::Open {
            self.rx.set_channel_state(channel, ChannelState::Closed);
        }
    }

    const fn half_beat(&self) -> Nanos {
        Nanos(self.heartbeat_s as u64 * 500_000_000)
    }

    const fn silence_limit(&self) -> Nanos {
        Nanos(self.heartbeat_s as u64 * 2_000_000_000)
    }

    pub(super) fn next_timeout(&self) -> Option<Time> {
        let waiting = self.waiting_since.map(|since| since + self.timeout);
        let beating = (self.heartbeat_s > 0).then(|| self.next_beat.min(self.heard_at + self.silence_limit()));
        [waiting, beating].into_iter().flatten().min()
    }

    pub(super) fn handle_timeout(&mut self, now: Time, awaited: &'static str) -> Result<(), Error> {
        if let Some(since) = self.waiting_since
            && now.since(since) >= self.timeout
        {
            return Err(Error::TimedOut {
                awaited,
                waited: now.since(since),
                received: self.heard,
                bytes: self.unread,
            });
        }
        if self.heartbeat_s == 0 {
            return Ok(());
        }
        let silent = now.since(self.heard_at);
        if silent >= self.silence_limit() {
            return Err(Error::HeartbeatMissed { silent, heartbeat_s: self.heartbeat_s });
        }
        if now >= self.next_beat {
            // Pending output says as much as a heartbeat, and must not grow behind a stuck peer.
            if !self.written && self.pending().is_empty() {
                frame::put_heartbeat(self.out());
            }
            self.written = false;
            self.next_beat = now + self.half_beat();
        }
        Ok(())
    }

    pub(super) fn disconnected(&self, during: &'static str, rest: &[u8]) -> Error {
        let received = self.rx.offset() + rest.len() as u64;
        Error::Disconnected { during, received, bytes: Snippet::of(rest) }
    }
}
