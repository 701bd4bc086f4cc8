//! Sessions and links: who may send how much (specification 2.5 and 2.6), and deliveries in parts.

use super::super::composite::{Begin, Flow};

/// Frames that the peer may send on a session before it hears again.
pub(super) const WINDOW: u32 = 1 << 16;
/// The highest handle of a session.
pub(super) const HANDLE_MAX: u32 = 255;

/// One session, known by the number of its channel.
#[derive(Debug, Default)]
pub(super) struct Session {
    /// Whether the peer has answered the beginning.
    pub(super) is_open: bool,
    pub(super) next_delivery_id: u32,
    next_outgoing_id: u32,
    /// Frames that the peer takes from here.
    pub(super) remote_window: u32,
    next_incoming_id: u32,
    /// Frames that it may still send.
    incoming_left: u32,
    pub(super) links: Vec<Option<Link>>,
    /// By the peer's handles: ours.
    handles: Vec<Option<u32>>,
}

/// One link.
#[derive(Debug, Default)]
pub(super) struct Link {
    pub(super) name: String,
    pub(super) is_receiver: bool,
    /// Whether the peer has answered.
    pub(super) is_attached: bool,
    /// This side has detached it.
    pub(super) is_detaching: bool,
    pub(super) delivery_count: u32,
    /// Of a sender: messages that the peer still takes. Of a receiver: those that it may still get.
    pub(super) credit: u32,
    /// The delivery whose parts are coming.
    pub(super) partial: Option<Partial>,
    pub(super) joined: Vec<u8>,
}

/// A delivery of which not all has come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Partial {
    pub(super) id: u32,
    pub(super) settled: bool,
}

impl Link {
    pub(super) fn new(name: &str, is_receiver: bool) -> Self {
        Self { name: name.to_owned(), is_receiver, ..Self::default() }
    }
}

impl Session {
    pub(super) fn new() -> Self {
        Self { incoming_left: WINDOW, ..Self::default() }
    }

    pub(super) fn begin() -> Begin<'static> {
        Begin { incoming_window: WINDOW, outgoing_window: u32::MAX, handle_max: Some(HANDLE_MAX), ..Begin::default() }
    }

    pub(super) fn begun(&mut self, begin: &Begin<'_>) {
        self.is_open = true;
        self.next_incoming_id = begin.next_outgoing_id;
        self.remote_window = begin.incoming_window;
    }

    pub(super) fn link(&mut self, handle: u32) -> Option<&mut Link> {
        self.links.get_mut(handle as usize)?.as_mut()
    }

    /// Our handle of a link by the peer's.
    pub(super) fn handle_of(&self, remote: u32) -> Option<u32> {
        *self.handles.get(remote as usize)?
    }

    /// Learns the peer's handle of one of our links, found by its name; `None` where there is none.
    pub(super) fn learn(&mut self, remote: u32, name: &str, is_receiver: bool) -> Option<u32> {
        let at = remote as usize;
        if remote > HANDLE_MAX || self.handle_of(remote).is_some() {
            return None;
        }
        let ours = self.links.iter().position(|link| {
            let asked = |it: &Link| it.name == name && it.is_receiver == is_receiver;
            link.as_ref().is_some_and(|it| asked(it) && !it.is_attached)
        })?;
        if self.handles.len() <= at {
            self.handles.resize(at + 1, None);
        }
        self.handles[at] = Some(ours as u32);
        Some(ours as u32)
    }

    /// A link is gone on both sides.
    pub(super) fn forget(&mut self, handle: u32) {
        if let Some(link) = self.links.get_mut(handle as usize) {
            *link = None;
        }
        for known in &mut self.handles {
            known.take_if(|it| *it == handle);
        }
    }

    /// Frames have been sent.
    #[inline]
    const fn sent(&mut self, frames: u32) {
        self.next_outgoing_id = self.next_outgoing_id.wrapping_add(frames);
        self.remote_window = self.remote_window.saturating_sub(frames);
    }

    /// A message has been sent on a link, in so many frames.
    #[inline]
    pub(super) fn sent_message(&mut self, handle: u32, frames: u32) {
        self.next_delivery_id = self.next_delivery_id.wrapping_add(1);
        self.sent(frames);
        if let Some(link) = self.link(handle) {
            link.delivery_count = link.delivery_count.wrapping_add(1);
            link.credit = link.credit.saturating_sub(1);
        }
    }

    /// A transfer has come; `None` where there was no window for it, otherwise whether the peer should hear of more.
    #[inline]
    pub(super) fn received(&mut self) -> Option<bool> {
        self.next_incoming_id = self.next_incoming_id.wrapping_add(1);
        self.incoming_left = self.incoming_left.checked_sub(1)?;
        Some(self.incoming_left < WINDOW / 2)
    }

    /// The peer's flow opens the window for what it has not got yet.
    pub(super) fn take_flow(&mut self, flow: &Flow<'_>) {
        let in_flight = ahead(self.next_outgoing_id, flow.next_incoming_id.unwrap_or(0));
        self.remote_window = flow.incoming_window.saturating_sub(in_flight);
    }

    /// Flow of the session, and of a link where one is named. The whole window is open again.
    pub(super) fn flow(&mut self, handle: Option<u32>) -> Flow<'static> {
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
pub(super) const fn ahead(number: u32, of: u32) -> u32 {
    let distance = number.wrapping_sub(of);
    if distance > u32::MAX / 2 { 0 } else { distance }
}
