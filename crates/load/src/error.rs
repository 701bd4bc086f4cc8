//! What can go wrong, each as one line with cause and observed value, and a remedy apart.

/// Why a load could not run, or ended early. `Display` is one line without line breaks; what to
/// do about it is [`Error::help`]. Endpoints are shown without passwords.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The plan or an address makes no sense: wrong usage.
    #[error("{what}")]
    Invalid {
        /// What is wrong, with the observed value.
        what: String,
        /// What would do.
        help: String,
    },
    /// No connection came about.
    #[error("cannot connect to {endpoint}: {detail}")]
    Connect {
        /// Where to.
        endpoint: String,
        /// The system's or resolver's words.
        detail: String,
        /// What would do.
        help: String,
    },
    /// The connection could not be secured.
    #[error("cannot secure the connection to {endpoint}: {detail}")]
    Tls {
        /// Where to.
        endpoint: String,
        /// What is wrong with which side's certificate, or with the port.
        detail: String,
        /// What would do.
        help: String,
    },
    /// The broker did not accept the user or the virtual host.
    #[error("cannot log in to {endpoint}: {detail}")]
    LogIn {
        /// Where to.
        endpoint: String,
        /// The broker's words and code.
        detail: String,
        /// What would do.
        help: String,
    },
    /// The broker refused a step of setting up.
    #[error("cannot {action} at {endpoint}: {detail}")]
    Refused {
        /// Where.
        endpoint: String,
        /// The step: `declare queue "x"`.
        action: String,
        /// The broker's words and code.
        detail: String,
        /// What would do.
        help: String,
    },
    /// An answer did not come in time.
    #[error("no answer from {endpoint}: {detail}")]
    TimedOut {
        /// Where.
        endpoint: String,
        /// What was awaited, for how long, and what came instead.
        detail: String,
    },
    /// A connection that worked has ended before its time.
    #[error("lost the connection to {endpoint}: {detail}")]
    Lost {
        /// Where.
        endpoint: String,
        /// The system's or the broker's words.
        detail: String,
    },
    /// The other side does not speak the protocol, or not correctly.
    #[error("cannot talk to {endpoint}: {detail}")]
    Protocol {
        /// Where.
        endpoint: String,
        /// Offset and bytes.
        detail: String,
    },
    /// A limit of this machine is too low for the plan.
    #[error("{what}")]
    Limit {
        /// What is needed, and what is allowed.
        what: String,
        /// Where to raise it.
        help: String,
    },
    /// This machine did not give what the engine needs.
    #[error("cannot {action}: {detail}")]
    Machine {
        /// What was attempted.
        action: String,
        /// The system's words.
        detail: String,
    },
}

impl Error {
    pub(crate) fn invalid(what: impl Into<String>, help: impl Into<String>) -> Self {
        Self::Invalid {
            what: what.into(),
            help: help.into(),
        }
    }

    pub(crate) fn machine(action: impl Into<String>, source: impl std::fmt::Display) -> Self {
        Self::Machine {
            action: action.into(),
            detail: source.to_string(),
        }
    }

    /// What to do about it.
    #[must_use]
    pub fn help(&self) -> &str {
        match self {
            Self::Invalid { help, .. }
            | Self::Connect { help, .. }
            | Self::Limit { help, .. }
            | Self::Tls { help, .. }
            | Self::LogIn { help, .. }
            | Self::Refused { help, .. } => help,
            Self::TimedOut { .. } => {
                "see whether the broker hangs or is overloaded, and whether host and port are its own"
            }
            Self::Lost { .. } => "the broker's log says why it closed or died",
            Self::Protocol { .. } => {
                "check host and port: 5672 is usual for AMQP 0.9.1 (amqp://), 5671 with TLS \
                 (amqps://), 15672 is RabbitMQ's HTTP"
            }
            Self::Machine { .. } => "see ulimit -a and the kernel's limits on this user",
        }
    }

    /// Whether the request itself was wrong (exit code 2), rather than its execution (1).
    #[must_use]
    pub const fn is_usage(&self) -> bool {
        matches!(self, Self::Invalid { .. })
    }
}
