//! Deliveries that a group of consumers with a message count still waits for.

/// Whether a group of consumers still waits for deliveries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    Yes,
    /// This one, and no more.
    Last,
    No,
}
