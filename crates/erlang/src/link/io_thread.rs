//! The thread that owns a node's socket: writes what waits, reads what comes, and ticks.

use std::sync::Arc;
use std::time::{Duration, Instant};

use erl_dist::message::Message;
use erl_dist::term::Term;
use transport::{Output, Received, SocketError};

use super::frame::{Checked, Frame, Frames};
use super::shared::{LinkShared, Loss};
use super::wire::{Wire, as_io};
use crate::term::{atom, tuple};

/// A tick is sent when nothing else was for so long. Nodes hang up after 60 s of silence by default, rarely 8 s.
const TICK_AFTER: Duration = Duration::from_secs(2);
/// How long what waits may take to be sent once the connection is to end.
const FLUSH_WITHIN: Duration = Duration::from_secs(1);
/// Reads in a row before what waits is written.
const READS: usize = 64;
/// With more than this before it, what waits is left where its size is bounded.
const MOST_PENDING: usize = 1 << 20;
const TICK: [u8; 4] = [0; 4];

/// Serves the connection until it is lost, the node is silent for `silence`, or nobody wants it any more.
pub(super) fn serve(mut wire: Wire, shared: &Arc<LinkShared>, silence: Duration) {
    let loss = match run(&mut wire, shared, silence) {
        Ok(()) => Loss::Ended("it was closed".to_owned()),
        Err(loss) => loss,
    };
    wire.socket.hang_up();
    shared.lose(loss);
}

fn run(wire: &mut Wire, shared: &Arc<LinkShared>, silence: Duration) -> Result<(), Loss> {
    let mut frames = Frames::default();
    let mut pulse = Pulse::new(silence, TICK_AFTER, Instant::now());
    let ping = shared.ping();
    let mut queued = Vec::new();
    let mut sent = Instant::now();
    let mut until = None;
    // What came with the end of the handshake.
    take(wire, &mut frames, shared)?;
    loop {
        if wire.outgoing.pending().len() < MOST_PENDING {
            shared.take_outgoing(&mut queued);
            wire.outgoing.append(&mut queued);
        }
        if pulse.is_ping_due(Instant::now()) {
            wire.outgoing.push(&ping);
        } else if wire.outgoing.pending().is_empty() && sent.elapsed() >= TICK_AFTER {
            wire.outgoing.push(&TICK);
        }
        let waiting = wire.outgoing.pending().len();
        wire.socket.flush(&mut wire.outgoing).map_err(lost)?;
        let left = wire.outgoing.pending().len();
        if left < waiting {
            sent = Instant::now();
            if left > 0 {
                pulse.took_some(sent);
            }
        }
        if shared.is_closing() {
            let until = *until.get_or_insert_with(|| Instant::now() + FLUSH_WITHIN);
            let done = wire.outgoing.pending().is_empty() && wire.socket.unsent() == 0;
            if done || Instant::now() >= until {
                return Ok(end(wire)?);
            }
        }
        let (heard, more) = read(wire, &mut frames, shared)?;
        let now = Instant::now();
        if heard {
            pulse.heard(now);
        } else if pulse.is_silent(now) {
            return Err(Loss::Silent(silence));
        }
        let wait = match (more, until) {
            (true, _) => Duration::ZERO,
            (false, Some(until)) => until.saturating_duration_since(now),
            (false, None) => TICK_AFTER.saturating_sub(sent.elapsed()).min(pulse.next(now)),
        };
        wire.poll_once(Some(wait.max(Duration::from_millis(u64::from(!more))))).map_err(|error| error.to_string())?;
    }
}

/// Ends our side in order.
fn end(wire: &mut Wire) -> Result<(), String> {
    wire.socket.say_end();
    wire.socket.flush(&mut wire.outgoing).map_err(lost)?;
    wire.socket.shut_down();
    Ok(())
}

/// Reads for a while; whether anything came, and whether more may be there.
fn read(wire: &mut Wire, frames: &mut Frames, shared: &Arc<LinkShared>) -> Result<(bool, bool), String> {
    let mut heard = false;
    for _ in 0..READS {
        if !wire.socket.is_readable() {
            return Ok((heard, false));
        }
        match wire.fill().map_err(lost)? {
            Received::Bytes(_) => {
                heard = true;
                take(wire, frames, shared)?;
            }
            Received::Nothing => {}
            Received::End => return Err("the node ended it".into()),
        }
    }
    Ok((heard, true))
}

fn take(wire: &mut Wire, frames: &mut Frames, shared: &Arc<LinkShared>) -> Result<(), String> {
    frames.receive(wire.unused(), |bytes| {
        let wrong = |error| format!("a message is wrong: {error}");
        let checked = Checked::new(bytes).map_err(wrong)?;
        let memory = checked.memory();
        if !shared.has_room(memory)
            && let Some(to) = checked.addressee()
        {
            shared.drop_one(to);
            return Ok(());
        }
        deliver(checked.decode().map_err(wrong)?, memory, shared);
        Ok(())
    })?;
    wire.use_all();
    Ok(())
}

fn deliver(frame: Frame, memory: u64, shared: &Arc<LinkShared>) {
    let message = match frame {
        Frame::Message(message) => *message,
        Frame::Refused { to, error } => return shared.arrive(to, Err(error), 0),
        Frame::Tick | Frame::Other => return,
    };
    let (to, message) = match message {
        Message::Send(it) => (it.to_pid, it.message),
        Message::SendSender(it) => (it.to_pid, it.message),
        Message::SendTt(it) => (it.to_pid, it.message),
        Message::MonitorPExit(it) => (it.to_pid, down(it.reason)),
        Message::PayloadMonitorPExit(it) => (it.to_pid, down(it.reason)),
        Message::MonitorP(it) => return shared.watch(it.to_proc, it.from_pid, it.reference),
        Message::DemonitorP(it) => return shared.unwatch(&it.to_proc, &it.reference),
        // We link to nobody, have no names, and let nobody start anything here.
        _ => return,
    };
    if shared.is_ours(&to) {
        shared.arrive(to.id, Ok(message), memory);
    }
}

/// Message to a process of ours when a monitored one has ended.
fn down(reason: Term) -> Term {
    tuple([atom("DOWN"), reason])
}

fn lost(error: SocketError) -> String {
    as_io(error).to_string()
}

/// Whether the node still answers: where nothing comes from it, it is pinged, and a node that answers no ping for the
/// whole time-out is silent. It has been stopped, it hangs, or its machine has gone.
#[derive(Debug)]
struct Pulse {
    /// A node without a sign of life for this long is silent.
    silence: Duration,
    /// A ping is due after this time without a sign of life.
    every: Duration,
    heard: Instant,
    pinged: Option<Instant>,
}

impl Pulse {
    /// The pulse of a node that has just been heard of, and is pinged every `longest` or more often.
    fn new(silence: Duration, longest: Duration, now: Instant) -> Self {
        Self { silence, every: longest.min(silence / 4), heard: now, pinged: None }
    }

    /// Something came.
    const fn heard(&mut self, now: Instant) {
        self.heard = now;
        self.pinged = None;
    }

    /// The node has taken a part of what waits to be sent: the ping behind it is still to come there.
    fn took_some(&mut self, now: Instant) {
        if let Some(pinged) = &mut self.pinged {
            *pinged = now;
        }
    }

    /// Whether the node is to be pinged now, which it then counts as.
    fn is_ping_due(&mut self, now: Instant) -> bool {
        let due = self.pinged.is_none() && now.duration_since(self.heard) >= self.every;
        if due {
            self.pinged = Some(now);
        }
        due
    }

    /// Whether the node has been silent for too long. A recent ping does not count: we may have been stopped ourselves.
    fn is_silent(&self, now: Instant) -> bool {
        let unanswered = |pinged: Instant| now.duration_since(pinged) >= self.silence / 2;
        self.pinged.is_some_and(unanswered) && now.duration_since(self.heard) >= self.silence
    }

    /// Time until one of the questions above may have another answer.
    fn next(&self, now: Instant) -> Duration {
        let at = match self.pinged {
            None => self.heard + self.every,
            Some(pinged) => (self.heard + self.silence).max(pinged + self.silence / 2),
        };
        at.saturating_duration_since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SILENCE: Duration = Duration::from_secs(10);

    fn pulse() -> (Pulse, impl Fn(u64) -> Instant) {
        let begun = Instant::now();
        let pulse = Pulse::new(SILENCE, Duration::from_secs(2), begun);
        (pulse, move |ms| begun + Duration::from_millis(ms))
    }

    #[test]
    fn a_node_that_answers_no_ping_is_silent_after_the_time_out() {
        let (mut pulse, at) = pulse();
        assert!(!pulse.is_ping_due(at(1_999)));
        assert_eq!(pulse.next(at(1_500)), Duration::from_millis(500));
        assert!(pulse.is_ping_due(at(2_000)));
        assert!(!pulse.is_ping_due(at(5_000)), "one ping is enough");
        assert!(!pulse.is_silent(at(9_999)));
        assert_eq!(pulse.next(at(9_000)), Duration::from_secs(1));
        assert!(pulse.is_silent(at(10_000)));
    }

    #[test]
    fn an_answer_begins_it_anew() {
        let (mut pulse, at) = pulse();
        assert!(pulse.is_ping_due(at(2_000)));
        pulse.heard(at(9_999));
        assert!(!pulse.is_silent(at(19_000)), "nothing was asked since");
        assert!(pulse.is_ping_due(at(19_000)));
    }

    #[test]
    fn who_was_stopped_itself_asks_first() {
        let (mut pulse, at) = pulse();
        assert!(!pulse.is_silent(at(60_000)));
        assert!(pulse.is_ping_due(at(60_000)));
        assert!(!pulse.is_silent(at(64_999)));
        assert!(pulse.is_silent(at(65_000)));
    }

    #[test]
    fn a_node_that_takes_what_is_sent_is_not_silent() {
        let (mut pulse, at) = pulse();
        assert!(pulse.is_ping_due(at(2_000)));
        pulse.took_some(at(9_000));
        assert!(!pulse.is_silent(at(13_999)));
        assert!(pulse.is_silent(at(14_000)));
    }
}
