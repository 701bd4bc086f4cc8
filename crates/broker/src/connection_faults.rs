//! Faults that hit connections, and what faults leave to be done later.

use measure::{Nanos, Time};
use wire::amqp091::{MethodId, reply};

use crate::delivery::{Exits, touch};
use crate::faults::{ConnectionFault, FaultKind, Who};
use crate::node::Node;
use crate::session::Session;
use crate::slots::Key;
use crate::vhost::VirtualHost;

const DROPPED: &str = "CONNECTION_FORCED - a fault of the embedded broker";
const CHANNEL_CLOSED: &str = "PRECONDITION_FAILED - a fault of the embedded broker";

impl Node {
    /// Lets faults begin and end, and sends confirms whose time has come. Call it first in every
    /// turn of the event loop.
    pub(crate) fn advance(&mut self, now: Time) {
        let Some(faults) = &mut self.vhost.faults else { return };
        faults.advance(now);
        while let Some(fault) = self.vhost.faults.as_mut().and_then(|f| f.next_connection_fault()) {
            self.hit_connections(fault, now);
        }
        while let Some((key, channel)) = self.vhost.faults.as_mut().and_then(|f| f.next_late()) {
            if let Some(Session { server, peer }) = self.sessions.get_mut(key) {
                peer.due_confirm(channel);
                peer.flush_confirms(server, now);
                touch(peer, &mut self.touched);
            }
        }
    }

    /// Until when the broker is to stand still; report it with [`Self::stalled`].
    pub(crate) fn take_stall(&mut self) -> Option<(usize, Time)> {
        self.vhost.faults.as_mut()?.take_stall()
    }

    /// It stood still, and read nothing meanwhile: no client was silent.
    pub(crate) fn stalled(&mut self, rule: usize, start: Time, end: Time) {
        for (_, session) in self.sessions.iter_mut() {
            session.server.excuse_silence(end);
        }
        if let Some(faults) = &mut self.vhost.faults {
            faults.stalled(rule, start, end);
        }
    }

    /// How long until a fault has something to do.
    pub(crate) fn next_fault(&self) -> Option<Time> {
        self.vhost.faults.as_ref()?.next_due()
    }

    /// The next connection whose transport is to be reset.
    pub(crate) fn next_reset(&mut self) -> Option<Key> {
        self.resets.pop()
    }

    /// The last word on what was done.
    pub(crate) fn tell_faults(&mut self) {
        if let Some(faults) = &mut self.vhost.faults {
            faults.tell();
        }
    }

    pub(crate) fn release_held(&mut self) {
        let unsent_limit_bytes = self.unsent_limit();
        let mut exits = Exits { sessions: &mut self.sessions, touched: &mut self.touched, unsent_limit_bytes };
        self.vhost.release_held(&mut exits);
    }

    fn hit_connections(&mut self, fault: ConnectionFault, now: Time) {
        let Self { sessions, vhost, touched, resets, .. } = self;
        let is_meant = |session: &Session| {
            session.server.is_open()
                && !session.peer.is_finished
                && match fault.who {
                    Who::All => true,
                    Who::Producers => session.peer.is_publisher,
                    Who::Consumers => session.peer.is_consumer(),
                }
        };
        let mut hit = 0;
        for (key, session) in sessions.iter_mut() {
            if hit >= fault.most {
                break;
            }
            if !is_meant(session) {
                continue;
            }
            hit += 1;
            match fault.kind {
                FaultKind::Reset => resets.push(key),
                FaultKind::Drop { in_order } => session.drop_by_fault(in_order, now, vhost),
                FaultKind::CloseChannel => session.close_channels_by_fault(vhost),
                FaultKind::Cut { after } => session.cut_by_fault(after, fault.rule, vhost),
                _ => {}
            }
            touch(&mut session.peer, touched);
        }
        // A cut counts when it has happened.
        if !matches!(fault.kind, FaultKind::Cut { .. })
            && let Some(faults) = &mut vhost.faults
        {
            faults.count(fault.rule, hit);
        }
    }
}

impl Session {
    fn drop_by_fault(&mut self, in_order: bool, now: Time, vhost: &mut VirtualHost) {
        if in_order {
            self.peer.answer_all(&mut self.server);
            self.server.close(now, reply::CONNECTION_FORCED, DROPPED, MethodId::default());
        } else {
            self.peer.is_finished = true;
        }
        self.peer.close_all(vhost);
    }

    fn close_channels_by_fault(&mut self, vhost: &mut VirtualHost) {
        self.peer.answer_all(&mut self.server);
        for channel in self.peer.open_channels() {
            let cause = MethodId::default();
            self.server.close_channel(channel, reply::PRECONDITION_FAILED, CHANNEL_CLOSED, cause);
            self.peer.close_channel(channel, vhost);
        }
    }

    /// Output that waits now ends with a whole frame: the cut falls into the next one.
    fn cut_by_fault(&mut self, after: Option<usize>, rule: usize, vhost: &mut VirtualHost) {
        let Some(faults) = &mut vhost.faults else { return };
        let more = faults.cut_after(after);
        let waiting = self.server.pending_output().len();
        self.peer.cut = Some((waiting + more, rule));
    }
}

/// How long a stall sleeps before it looks whether the broker is to end.
pub(crate) const STALL_LOOK: Nanos = Nanos::from_millis(20);
