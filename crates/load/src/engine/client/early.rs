//! A delivery that came before the load began.

/// A copy of the first delivery of a connection that is set up and waits for the common start.
/// Nothing is read behind it until the load begins: what waits is with the broker, and in the
/// socket's buffers.
#[derive(Debug)]
pub(super) struct EarlyDelivery {
    pub(super) client: usize,
    pub(super) tag: u64,
    redelivered: bool,
    body: Vec<u8>,
    properties: Vec<u8>,
}

impl EarlyDelivery {
    #[cold]
    pub(super) fn new(
        client: usize,
        tag: u64,
        redelivered: bool,
        body: &[u8],
        properties: &[u8],
    ) -> Self {
        Self {
            client,
            tag,
            redelivered,
            body: body.to_vec(),
            properties: properties.to_vec(),
        }
    }

    /// Its body, what came with it, and whether it may have been delivered before.
    pub(super) fn parts(&self) -> (&[u8], &[u8], bool) {
        (&self.body, &self.properties, self.redelivered)
    }
}
