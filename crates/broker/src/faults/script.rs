//! The script, as its author means it.

use measure::Nanos;
use serde::{Deserialize, Serialize};

/// One fault: what, when, and how much of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// The fault.
    pub kind: FaultKind,
    /// When it begins, after [`Origin`]; `None`: the broker's start.
    pub at: Option<Nanos>,
    /// How long it lasts; `None`: until the broker ends. Without meaning for what happens to connections at one moment.
    pub length: Option<Nanos>,
    /// Which of the messages, confirms or logins it hits.
    pub amount: Amount,
    /// At most this many messages, logins or connections; `None` for all.
    pub count: Option<u64>,
    /// Whose connections it hits, where it hits connections.
    pub who: Who,
}

impl Fault {
    /// A fault that hits everything from the broker's start to its end.
    #[must_use]
    pub const fn new(kind: FaultKind) -> Self {
        Self {
            kind,
            at: None,
            length: None,
            amount: Amount::All,
            count: None,
            who: Who::All,
        }
    }
}

/// Kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The whole broker stands still: it reads, writes and accepts nothing.
    Stall,
    /// Each confirm leaves this long after its message came. Later confirms of the channel never overtake it.
    SlowAck(Nanos),
    /// Connections end: in order, with `connection.close`, or by the end of the transport alone.
    Drop {
        /// Whether a close method says so.
        in_order: bool,
    },
    /// Connections end by a TCP reset; what was on the way is gone.
    Reset,
    /// A delivery is thrown away, and its message forgotten.
    Lose,
    /// A delivery is sent twice.
    Duplicate {
        /// Whether the second one has the redelivered flag.
        redelivered: bool,
    },
    /// A delivery is held back until this many later ones of its consumer have gone, but not for
    /// longer than 20 ms. A consumer has one held back at a time.
    Reorder {
        /// How many later ones go first; at least 1.
        by: u32,
    },
    /// One bit of a delivery's body is turned over, in this byte, or anywhere. Bodies without the byte are left alone.
    Corrupt {
        /// Position in the body.
        byte: Option<usize>,
    },
    /// A message is refused with `basic.nack` and goes into no queue. Only channels that confirm.
    Nack,
    /// Channels are closed, all of a connection's.
    CloseChannel,
    /// Publishers get `connection.blocked` and are read no more until the end, when they get `connection.unblocked`.
    Block,
    /// Connections end in the middle of what is sent to them: this many bytes after the last frame
    /// that was waiting, or somewhere in the next 64.
    Cut {
        /// Bytes that still go out; at least 1.
        after: Option<usize>,
    },
    /// Logins are refused.
    RefuseLogin,
    /// Finding the queues of a message takes more CPU: so many millionths of what a message takes of the broker's.
    SlowRoute {
        /// Millionths, so that kinds can be compared.
        millionths: u32,
    },
}

/// Target of a fault, which decides when it is on and which keys it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The whole broker, for a time.
    Broker,
    /// Connections, at one moment.
    Connections,
    /// Messages, confirms or logins.
    Messages,
}

impl FaultKind {
    /// Every kind, as it is where a script gives no key of its own.
    pub const ALL: [Self; 14] = [
        Self::Stall,
        Self::SlowAck(Nanos::ZERO),
        Self::Drop { in_order: true },
        Self::Reset,
        Self::CloseChannel,
        Self::Cut { after: None },
        Self::Block,
        Self::RefuseLogin,
        Self::Lose,
        Self::Duplicate { redelivered: false },
        Self::Reorder { by: 1 },
        Self::Corrupt { byte: None },
        Self::Nack,
        Self::SlowRoute { millionths: 0 },
    ];

    /// Target of this kind.
    #[must_use]
    pub const fn reach(self) -> Reach {
        match self {
            Self::Stall | Self::Block => Reach::Broker,
            Self::Drop { .. } | Self::Reset | Self::CloseChannel | Self::Cut { .. } => {
                Reach::Connections
            }
            Self::SlowAck(_)
            | Self::Lose
            | Self::Duplicate { .. }
            | Self::Reorder { .. }
            | Self::Corrupt { .. }
            | Self::Nack
            | Self::SlowRoute { .. }
            | Self::RefuseLogin => Reach::Messages,
        }
    }

    /// The key that scripts give to this kind and to few others.
    pub(super) const fn own_key(self) -> Option<&'static str> {
        match self {
            Self::SlowAck(_) => Some("delay"),
            Self::Drop { .. } => Some("close"),
            Self::Duplicate { .. } => Some("redelivered"),
            Self::Reorder { .. } => Some("by"),
            Self::Corrupt { .. } | Self::Cut { .. } => Some("byte"),
            Self::SlowRoute { .. } => Some("share"),
            _ => None,
        }
    }

    /// As scripts write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stall => "stall",
            Self::SlowAck(_) => "slow-ack",
            Self::Drop { .. } => "drop",
            Self::Reset => "reset",
            Self::Lose => "lose",
            Self::Duplicate { .. } => "duplicate",
            Self::Reorder { .. } => "reorder",
            Self::Corrupt { .. } => "corrupt",
            Self::Nack => "nack",
            Self::CloseChannel => "close-channel",
            Self::Block => "block",
            Self::Cut { .. } => "cut",
            Self::RefuseLogin => "refuse-login",
            Self::SlowRoute { .. } => "slow-route",
        }
    }
}

/// Which of the messages that a fault could hit it does hit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Amount {
    /// Every one of them.
    #[default]
    All,
    /// The n-th, the 2 n-th, and so on.
    Every(u64),
    /// Each with this probability (0 to 1); the same seed gives the same choice.
    Chance {
        /// 0 to 1.
        probability: f64,
        /// Any number.
        seed: u64,
    },
}

/// Whose connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Who {
    /// Those of all clients.
    #[default]
    All,
    /// Those that have published.
    Producers,
    /// Those that consume.
    Consumers,
}

/// Origin of a script's times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// The first client's connection.
    #[default]
    FirstConnection,
    /// The time of [`super::FaultLog::begin`].
    Declared,
}
