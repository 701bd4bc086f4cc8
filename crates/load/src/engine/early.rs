//! A delivery that came before the load began.

use crate::protocol::amqp091::Extras;

/// A copy of the first delivery of a connection that is set up and waits for the common start.
/// Nothing is read behind it until the load begins: what waits is with the broker, and in the
/// socket's buffers.
#[derive(Debug)]
pub(super) struct EarlyDelivery {
    pub(super) lane: usize,
    pub(super) tag: u64,
    redelivered: bool,
    body: Vec<u8>,
    extras: Vec<u8>,
}

impl EarlyDelivery {
    #[cold]
    pub(super) fn new(
        lane: usize,
        tag: u64,
        redelivered: bool,
        body: &[u8],
        extras: Extras<'_>,
    ) -> Self {
        Self {
            lane,
            tag,
            redelivered,
            body: body.to_vec(),
            extras: extras.as_bytes().to_vec(),
        }
    }

    /// Its body, what came with it, and whether it may have been delivered before.
    pub(super) fn parts(&self) -> (&[u8], Extras<'_>, bool) {
        let extras = Extras::from_bytes(&self.extras);
        (&self.body, extras, self.redelivered)
    }
}
