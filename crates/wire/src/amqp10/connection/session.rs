//! Sessions and links: who may send how much (specification 2.5 and 2.6), and deliveries in parts.

use super::super::composite::{Begin, Flow};
use super::super::frame;

/// Frames that the peer may send on a session before it hears again.
pub(crate) const WINDOW: u32 = 1 << 16;
/// Messages that a server takes on a link before it grants more.
pub(crate) const LINK_CREDIT: u32 = 1 << 12;
/// The highest handle of a session.
pub(crate) const HANDLE_MAX: u32 = 255;

/// One session, known by the number of its channel.
#[derive(Debug, Default)]
pub(crate) struct Session {
    /// Whether the peer has answered the beginning.
    pub(crate) is_open: bool,
    pub(crate) next_delivery_id: u32,
    next_outgoing_id: u32,
    /// Frames that the peer takes from here.
    pub(crate) remote_window: u32,
    next_incoming_id: u32,
    /// Frames that it may still send.
    incoming_left: u32,
    /// Number of the next delivery that comes; `None` before the first.
    next_incoming_delivery: Option<u32>,
    /// Frames that wait for the peer's window.
    pub(crate) waiting: Vec<u8>,
    /// How much of it has gone.
    waiting_at: usize,
    /// This side has ended it.
    pub(crate) is_ending: bool,
    pub(crate) links: Vec<Option<Link>>,
    /// By the peer's handles: ours.
    handles: Vec<Option<u32>>,
}

/// One link.
#[derive(Debug, Default)]
pub(crate) struct Link {
    pub(crate) name: String,
    /// Where it leads, as the peer asked a server.
    pub(crate) address: String,
    /// It leads to a node that was made for it.
    pub(crate) is_dynamic: bool,
    /// It leads to the coordinator of transactions.
    pub(crate) is_coordinator: bool,
    /// The filter that a server confirms, encoded.
    pub(crate) filter: Vec<u8>,
    /// A server's messages on it are settled when they are sent.
    pub(crate) is_settled: bool,
    pub(crate) is_receiver: bool,
    /// Whether the peer has answered.
    pub(crate) is_attached: bool,
    /// This side has detached it.
    pub(crate) is_detaching: bool,
    /// The peer wants its credit used up, or to hear that nothing is left to send.
    pub(crate) is_draining: bool,
    pub(crate) delivery_count: u32,
    /// Of a sender: messages that the peer still takes. Of a receiver: those that it may still get.
    pub(crate) credit: u32,
    /// The delivery whose parts are coming.
    pub(crate) partial: Option<Partial>,
    pub(crate) joined: Vec<u8>,
    /// The id of the transaction that this delivery belongs to; empty for none.
    pub(crate) transaction: Vec<u8>,
}

/// A delivery of which not all has come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Partial {
    pub(crate) id: u32,
    pub(crate) settled: bool,
}

impl Link {
    pub(crate) fn new(name: &str, is_receiver: bool) -> Self {
        Self { name: name.to_owned(), is_receiver, ..Self::default() }
    }
}

impl Session {
    pub(crate) fn new() -> Self {
        Self { incoming_left: WINDOW, ..Self::default() }
    }

    pub(crate) fn begin() -> Begin<'static> {
        Begin { incoming_window: WINDOW, outgoing_window: u32::MAX, handle_max: Some(HANDLE_MAX), ..Begin::default() }
    }

    pub(crate) fn begun(&mut self, begin: &Begin<'_>) {
        self.is_open = true;
        self.next_incoming_id = begin.next_outgoing_id;
        self.remote_window = begin.incoming_window;
    }

    /// Puts a link at a handle, which is free; `false` where none can be.
    pub(crate) fn place(&mut self, handle: u32, link: Link) -> bool {
        let at = handle as usize;
        if handle > HANDLE_MAX || self.links.get(at).is_some_and(Option::is_some) {
            return false;
        }
        if self.links.len() <= at {
            self.links.resize_with(at + 1, || None);
        }
        self.links[at] = Some(link);
        true
    }

    pub(crate) fn link(&mut self, handle: u32) -> Option<&mut Link> {
        self.links.get_mut(handle as usize)?.as_mut()
    }

    /// Our handle of a link by the peer's.
    pub(crate) fn handle_of(&self, remote: u32) -> Option<u32> {
        *self.handles.get(remote as usize)?
    }

    /// Learns the peer's handle of one of our links, found by its name; `None` where there is none.
    pub(crate) fn learn(&mut self, remote: u32, name: &str, is_receiver: bool) -> Option<u32> {
        if remote > HANDLE_MAX || self.handle_of(remote).is_some() {
            return None;
        }
        let ours = self.links.iter().position(|link| {
            let asked = |it: &Link| it.name == name && it.is_receiver == is_receiver;
            link.as_ref().is_some_and(|it| asked(it) && !it.is_attached)
        })?;
        self.know(remote, ours as u32);
        Some(ours as u32)
    }

    /// Notes which of our links a handle of the peer's means; it is one that a session may have.
    pub(crate) fn know(&mut self, remote: u32, ours: u32) {
        let at = remote as usize;
        if self.handles.len() <= at {
            self.handles.resize(at + 1, None);
        }
        self.handles[at] = Some(ours);
    }

    /// Whether a server takes what comes on a link: the rest of a delivery; or the beginning of one, where its number
    /// is the session's next and the link has credit.
    #[inline]
    pub(crate) fn admits(&mut self, handle: u32, id: Option<u32>) -> bool {
        let link = self.links.get(handle as usize).and_then(Option::as_ref);
        let (Some(id), Some(Link { partial: None, credit, .. })) = (id, link) else { return true };
        let is_next = self.next_incoming_delivery.is_none_or(|it| it == id);
        self.next_incoming_delivery = Some(id.wrapping_add(1));
        is_next && *credit > 0
    }

    /// A link is gone on both sides.
    pub(crate) fn forget(&mut self, handle: u32) {
        if let Some(link) = self.links.get_mut(handle as usize) {
            *link = None;
        }
        for known in &mut self.handles {
            known.take_if(|it| *it == handle);
        }
    }

    /// Frames have been sent.
    #[inline]
    pub(crate) const fn sent(&mut self, frames: u32) {
        self.next_outgoing_id = self.next_outgoing_id.wrapping_add(frames);
        self.remote_window = self.remote_window.saturating_sub(frames);
    }

    /// A message has been sent on a link, in so many frames.
    #[inline]
    pub(crate) fn sent_message(&mut self, handle: u32, frames: u32) {
        self.next_delivery_id = self.next_delivery_id.wrapping_add(1);
        self.sent(frames);
        if let Some(link) = self.link(handle) {
            link.delivery_count = link.delivery_count.wrapping_add(1);
            link.credit = link.credit.saturating_sub(1);
        }
    }

    /// A transfer has come; `None` where there was no window for it, otherwise whether the peer should hear of more.
    #[inline]
    pub(crate) fn received(&mut self) -> Option<bool> {
        self.next_incoming_id = self.next_incoming_id.wrapping_add(1);
        self.incoming_left = self.incoming_left.checked_sub(1)?;
        Some(self.incoming_left < WINDOW / 2)
    }

    /// Counts a delivery that has come whole. `None`, and nothing is done, where it is not to come, where it ends what
    /// has come in parts, or where the peer should hear of more afterwards.
    #[inline]
    pub(crate) fn take_whole(&mut self, handle: u32, id: u32, by_server: bool) -> Option<()> {
        let is_next = !by_server || self.next_incoming_delivery.is_none_or(|it| it == id);
        let link = self.links.get_mut(handle as usize)?.as_mut()?;
        let has_credit = !by_server || link.credit > LINK_CREDIT / 2 + 1;
        let is_usual = link.is_receiver && link.partial.is_none() && self.incoming_left > WINDOW / 2;
        if !(is_next && has_credit && is_usual) {
            return None;
        }
        if by_server {
            self.next_incoming_delivery = Some(id.wrapping_add(1));
        }
        self.next_incoming_id = self.next_incoming_id.wrapping_add(1);
        self.incoming_left -= 1;
        link.delivery_count = link.delivery_count.wrapping_add(1);
        link.credit = link.credit.saturating_sub(1);
        Some(())
    }

    /// The peer's flow opens the window for what it has not got yet.
    pub(crate) fn take_flow(&mut self, flow: &Flow<'_>) {
        let in_flight = ahead(self.next_outgoing_id, flow.next_incoming_id.unwrap_or(0));
        self.remote_window = flow.incoming_window.saturating_sub(in_flight);
    }

    /// Sends what waits, as far as the peer's window goes; tells how many bytes.
    pub(crate) fn release(&mut self, out: &mut Vec<u8>) -> usize {
        let before = self.waiting_at;
        while self.remote_window > 0
            && let Some(rest) = self.waiting.get(self.waiting_at..).filter(|it| !it.is_empty())
        {
            let size = frame::size(rest).clamp(1, rest.len());
            out.extend_from_slice(rest.get(..size).unwrap_or_default());
            self.waiting_at += size;
            self.sent(1);
        }
        let released = self.waiting_at - before;
        if self.waiting_at == self.waiting.len() {
            (self.waiting, self.waiting_at) = (Vec::new(), 0);
        }
        released
    }

    /// Bytes that wait for the peer's window.
    pub(crate) const fn waits(&self) -> usize {
        self.waiting.len() - self.waiting_at
    }

    /// Flow of the session, and of a link where one is named. The whole window is open again.
    pub(crate) fn flow(&mut self, handle: Option<u32>) -> Flow<'static> {
        self.incoming_left = WINDOW;
        let next_incoming_id = Some(self.next_incoming_id).filter(|_| self.is_open);
        let next_outgoing_id = self.next_outgoing_id;
        let link = handle.and_then(|handle| self.link(handle));
        let counts = link.map(|link| (link.delivery_count, link.credit));
        Flow {
            next_incoming_id,
            incoming_window: WINDOW,
            next_outgoing_id,
            outgoing_window: u32::MAX,
            handle,
            delivery_count: counts.map(|(count, _)| count),
            link_credit: counts.map(|(_, credit)| credit),
            ..Flow::default()
        }
    }
}

/// How far a serial number (RFC 1982) is ahead of another; 0 where it is behind.
pub(crate) const fn ahead(number: u32, of: u32) -> u32 {
    let distance = number.wrapping_sub(of);
    if distance > u32::MAX / 2 { 0 } else { distance }
}
