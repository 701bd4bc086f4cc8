//! The script, as its author means it, and as files write it.

use measure::{Length, Nanos, Problem};
use serde::{Deserialize, Serialize};

/// One fault: what, when, and how much of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// Kind of the fault.
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
    pub const fn new(kind: FaultKind) -> Self {
        Self { kind, at: None, length: None, amount: Amount::All, count: None, who: Who::All }
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
    pub const fn reach(self) -> Reach {
        match self {
            Self::Stall | Self::Block => Reach::Broker,
            Self::Drop { .. } | Self::Reset | Self::CloseChannel | Self::Cut { .. } => Reach::Connections,
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

/// One `[[fault]]` of a script or of an experiment; `K` is what its `kind` may be there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct FaultSpec<K> {
    /// When, from the beginning of the measured phase on; for `bellows broker`, from the first
    /// client's connection on. Absent: as long as there is a broker.
    pub at: Option<Length>,
    /// Kind of the fault.
    pub kind: K,
    /// How long; a killed broker is started again then. Absent: to the end, for which a killed broker or node stays
    /// away; `stop`, `partition`, `stall` and `block` need it.
    #[serde(rename = "for")]
    pub length: Option<Length>,
    /// Hit every n-th message (delivery, confirm, login).
    pub every: Option<u64>,
    /// Hit each with this probability, 0 to 1.
    pub probability: Option<f64>,
    /// Seed of the probability; the same seed hits the same ones. 1 where absent.
    pub seed: Option<u64>,
    /// Hit at most N messages or connections.
    pub count: Option<u64>,
    /// `slow-ack`: how long after its message a confirm leaves.
    pub delay: Option<Length>,
    /// `slow-route`: how much more CPU a message takes, as a share of what one takes: 0.02 is 2 %.
    pub share: Option<f64>,
    /// `duplicate`: whether the second delivery has the redelivered flag. No where absent.
    pub redelivered: Option<bool>,
    /// `reorder`: how many later deliveries go first. 1 where absent.
    pub by: Option<u32>,
    /// `corrupt`: which byte of the body. Any where absent. `cut`: how many bytes of what follows
    /// still go out, 1 or more. A random number up to 64 where absent.
    pub byte: Option<usize>,
    /// `drop`: whether `connection.close` comes first. Yes where absent.
    pub close: Option<bool>,
    /// `stop`, `kill`, `partition`: the node of a cluster, from 0 on. 0 where absent.
    pub node: Option<u32>,
    /// `drop`, `reset`, `close-channel`, `cut`: whose connections. All where absent.
    pub who: Option<Who>,
}

impl<K> FaultSpec<K> {
    /// The fault that the keys describe. `kind` decides which keys there are, and `name` is what the file calls
    /// it; `place` is how the file calls the whole entry.
    /// Errors: the first key that is missing, has no effect, or has a value that makes no sense.
    pub fn fault(&self, place: &str, name: &str, kind: FaultKind) -> Result<Fault, Problem> {
        let problem = self
            .misplaced(place, name, kind)
            .or_else(|| self.missing(place, name, kind))
            .or_else(|| self.wrong_number(place, kind))
            .or_else(|| self.wrong_chance(place))
            .or_else(|| self.wrong_share(place));
        if let Some(problem) = problem {
            return Err(problem);
        }
        Ok(Fault {
            kind: self.kind_with_keys(kind),
            at: self.at.map(|at| at.0),
            length: self.length.map(|length| length.0),
            amount: match (self.every, self.probability) {
                (Some(n), _) => Amount::Every(n),
                (None, Some(probability)) => Amount::Chance { probability, seed: self.seed.unwrap_or(1) },
                (None, None) => Amount::All,
            },
            count: self.count,
            who: self.who.unwrap_or_default(),
        })
    }

    /// The kind with the values of its own keys in place of its defaults.
    fn kind_with_keys(&self, kind: FaultKind) -> FaultKind {
        match kind {
            FaultKind::SlowAck(delay) => FaultKind::SlowAck(self.delay.map_or(delay, |it| it.0)),
            FaultKind::Drop { in_order } => FaultKind::Drop { in_order: self.close.unwrap_or(in_order) },
            FaultKind::Duplicate { redelivered } => {
                FaultKind::Duplicate { redelivered: self.redelivered.unwrap_or(redelivered) }
            }
            FaultKind::Reorder { by } => FaultKind::Reorder { by: self.by.unwrap_or(by) },
            FaultKind::Corrupt { .. } => FaultKind::Corrupt { byte: self.byte },
            FaultKind::Cut { .. } => FaultKind::Cut { after: self.byte },
            FaultKind::SlowRoute { .. } => {
                FaultKind::SlowRoute { millionths: (self.share.unwrap_or(0.0) * 1e6).round() as u32 }
            }
            other => other,
        }
    }

    /// A key that means nothing to this kind of fault.
    fn misplaced(&self, place: &str, name: &str, kind: FaultKind) -> Option<Problem> {
        let reach = kind.reach();
        let of_messages = reach == Reach::Messages;
        let own = |key| kind.own_key() == Some(key);
        let keys = [
            ("for", self.length.is_some(), reach != Reach::Connections),
            ("every", self.every.is_some(), of_messages),
            ("probability", self.probability.is_some(), of_messages),
            ("seed", self.seed.is_some(), of_messages),
            ("count", self.count.is_some(), reach != Reach::Broker),
            ("delay", self.delay.is_some(), own("delay")),
            ("share", self.share.is_some(), own("share")),
            ("redelivered", self.redelivered.is_some(), own("redelivered")),
            ("by", self.by.is_some(), own("by")),
            ("byte", self.byte.is_some(), own("byte")),
            ("close", self.close.is_some(), own("close")),
            ("who", self.who.is_some(), reach == Reach::Connections),
        ];
        let (key, ..) = keys.into_iter().find(|(_, set, fits)| *set && !fits)?;
        let cause = format!("{place}.{key} has no effect on kind = {name:?}");
        Some(Problem::new(cause, "", "leave it out").about(format!("{place}.{key}")))
    }

    /// A key without which this kind of fault is undefined.
    fn missing(&self, place: &str, name: &str, kind: FaultKind) -> Option<Problem> {
        let reach = kind.reach();
        let own = |key| kind.own_key() == Some(key);
        let needed = [
            ("at", "\"5s\"", self.at.is_some(), reach != Reach::Messages),
            ("for", "\"2s\"", self.length.is_some(), reach == Reach::Broker),
            ("delay", "\"1ms\"", self.delay.is_some(), own("delay")),
            ("share", "0.02", self.share.is_some(), own("share")),
        ];
        let is_missing = |(.., given, needed): &(_, _, bool, bool)| !given && *needed;
        let (key, example, ..) = needed.into_iter().find(is_missing)?;
        let cause = format!("{place}.{key} is missing, and kind = {name:?} needs it");
        Some(Problem::new(cause, "", format!("write {key} = {example}")).about(format!("{place}.{key}")))
    }

    fn wrong_number(&self, place: &str, kind: FaultKind) -> Option<Problem> {
        if self.length.is_some_and(Length::is_zero) {
            let key = format!("{place}.for");
            return Some(Problem::new(format!("{key} is 0s"), "", "write for = \"2s\"").about(key));
        }
        let is_cut = matches!(kind, FaultKind::Cut { .. });
        let zero = [
            ("every", self.every == Some(0)),
            ("count", self.count == Some(0)),
            ("by", self.by == Some(0)),
            ("byte", self.byte == Some(0) && is_cut),
        ];
        let (key, _) = zero.into_iter().find(|(_, is_zero)| *is_zero)?;
        let key = format!("{place}.{key}");
        Some(Problem::new(format!("{key} = 0 hits nothing"), "", "take 1 or more").about(key))
    }

    fn wrong_share(&self, place: &str) -> Option<Problem> {
        let share = self.share.filter(|it| !(0.000_001..=100.0).contains(it))?;
        let key = format!("{place}.share");
        let cause = format!("{key} = {share} is no share of a message's CPU");
        Some(Problem::new(cause, "", "0.02 makes a message 2 % dearer").about(key))
    }

    fn wrong_chance(&self, place: &str) -> Option<Problem> {
        let (key, cause, help) = match (self.every, self.probability, self.seed) {
            (Some(_), Some(_), _) => {
                ("every", format!("{place} has both every and probability"), "leave one of them out")
            }
            (_, None, Some(_)) => {
                ("seed", format!("{place}.seed has no effect without a probability"), "add probability = 0.01")
            }
            (_, Some(chance), _) if !(chance > 0.0 && chance <= 1.0) => (
                "probability",
                format!("{place}.probability = {chance} is not above 0 and at most 1"),
                "0.01 hits every hundredth on average",
            ),
            _ => return None,
        };
        Some(Problem::new(cause, "", help).about(format!("{place}.{key}")))
    }
}
