//! Faults of a broker under load.

use measure::Time;
use serde::{Deserialize, Serialize};

/// A fault of a broker under load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The measured phase begins: faults that the broker plays by itself count from this moment.
    Begin(Time),
    /// The broker hangs.
    Pause,
    /// It goes on where it was.
    Resume,
    /// It crashes.
    Kill,
    /// It is started again, with the same data.
    Restart,
    /// A node's links to the other nodes of its cluster carry nothing any more.
    CutOff,
    /// They carry again.
    Join,
}

/// Outcomes of the embedded broker's own faults, which it reports as one line of JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlayedFaults {
    /// One per fault, in the order of the script.
    pub faults: Vec<PlayedFault>,
    /// Messages taken from publishers and not refused.
    pub published: u64,
    /// Deliveries with the redelivered flag after the loss of a consumer.
    pub redelivered: u64,
}

/// Outcome of one fault.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlayedFault {
    /// As the script writes it.
    pub kind: String,
    /// Messages, confirms, logins or connections that were hit.
    pub count: u64,
    /// When it began, on the machine's monotonic clock; absent where it did not.
    pub start_ns: Option<u64>,
    /// When it was over; absent while it lasts.
    pub end_ns: Option<u64>,
}
