//! The failures of a load, which callers tell apart by kind; each is a [`Problem`].

use std::fmt;

use measure::Problem;

/// Why a load could not run, or ended early. Endpoints are shown without passwords.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The plan or an address makes no sense: wrong usage.
    Invalid(Problem),
    /// No connection came about.
    Connect {
        /// Where to.
        endpoint: String,
        /// The system's or resolver's words.
        detail: String,
        /// Remedy for the user.
        help: String,
    },
    /// The connection could not be secured.
    Tls {
        /// Where to.
        endpoint: String,
        /// The fault, and which side's certificate has it, or the port.
        detail: String,
        /// Remedy for the user.
        help: String,
    },
    /// The broker did not accept the user or the virtual host.
    LogIn {
        /// Where to.
        endpoint: String,
        /// The broker's words and code.
        detail: String,
        /// Remedy for the user.
        help: String,
    },
    /// The broker refused a step of setting up.
    Refused {
        /// The broker's address, without a password.
        endpoint: String,
        /// The step: `declare queue "x"`.
        action: String,
        /// The broker's words and code.
        detail: String,
        /// Remedy for the user.
        help: String,
    },
    /// An answer did not come in time.
    TimedOut {
        /// The broker's address, without a password.
        endpoint: String,
        /// The answer awaited, the time-out, and what came instead.
        detail: String,
    },
    /// A connection that worked has ended before its time.
    Lost {
        /// The broker's address, without a password.
        endpoint: String,
        /// The system's or the broker's words.
        detail: String,
    },
    /// The broker ended what messages went over, and not the connection.
    Detached {
        /// The broker's address, without a password.
        endpoint: String,
        /// The attempt: `send to /queues/x`.
        action: String,
        /// The broker's condition and words.
        detail: String,
        /// Remedy for the user.
        help: String,
    },
    /// The other side does not speak the protocol, or not correctly.
    Protocol {
        /// The broker's address, without a password.
        endpoint: String,
        /// Offset and bytes.
        detail: String,
    },
    /// A limit of this machine is too low for the plan.
    Limit(Problem),
    /// A program of the load, or what runs beside it, failed.
    Program(Problem),
    /// This machine did not give what the engine needs.
    Machine {
        /// The attempt.
        action: String,
        /// The system's words.
        detail: String,
    },
}

impl Error {
    /// An [`Error::Invalid`].
    pub fn invalid(cause: impl Into<String>, help: impl Into<String>) -> Self {
        Self::Invalid(Problem::new(cause, "", help))
    }

    /// This error, unless the plan `is_fine`.
    pub fn unless(self, is_fine: bool) -> Result<(), Self> {
        if is_fine { Ok(()) } else { Err(self) }
    }

    fn map_invalid(self, change: impl FnOnce(Problem) -> Problem) -> Self {
        match self {
            Self::Invalid(problem) => Self::Invalid(change(problem)),
            other => other,
        }
    }

    /// Adds the observed value, which the cause quotes.
    pub fn observed(self, value: impl fmt::Display) -> Self {
        self.map_invalid(|problem| problem.observed(value))
    }

    /// Names the key of the plan whose value is wrong.
    pub fn about(self, key: &str) -> Self {
        self.map_invalid(|problem| problem.about(key))
    }

    /// Names the table of the key, such as `probe.0`.
    pub fn within(self, table: &str) -> Self {
        self.map_invalid(|problem| {
            let key = format!("{table}.{}", problem.about);
            problem.about(key.trim_end_matches('.'))
        })
    }

    /// Names the group, by its position.
    pub fn in_group(self, position: usize) -> Self {
        self.within(&format!("load.{position}"))
    }

    /// An [`Error::Machine`].
    pub fn machine(action: impl Into<String>, source: impl fmt::Display) -> Self {
        Self::Machine { action: action.into(), detail: source.to_string() }
    }

    /// Cause, observed value and remedy.
    pub fn problem(&self) -> Problem {
        match self {
            Self::Invalid(problem) | Self::Limit(problem) | Self::Program(problem) => problem.clone(),
            Self::Connect { endpoint, detail, help } => {
                Problem::new(format!("cannot connect to {endpoint}"), detail, help)
            }
            Self::Tls { endpoint, detail, help } => {
                Problem::new(format!("cannot secure the connection to {endpoint}"), detail, help)
            }
            Self::LogIn { endpoint, detail, help } => {
                Problem::new(format!("cannot log in to {endpoint}"), detail, help)
            }
            Self::Refused { endpoint, action, detail, help } => {
                Problem::new(format!("cannot {action} at {endpoint}"), detail, help)
            }
            Self::TimedOut { endpoint, detail } => {
                let help = "see whether it hangs or is overloaded, and whether host and port are its own";
                Problem::new(format!("no answer from {endpoint}"), detail, help)
            }
            Self::Lost { endpoint, detail } => {
                let help = "the broker's log says why it closed or died";
                Problem::new(format!("lost the connection to {endpoint}"), detail, help)
            }
            Self::Detached { endpoint, action, detail, help } => {
                Problem::new(format!("{endpoint} detached the link: cannot {action} any more"), detail, help)
            }
            Self::Protocol { endpoint, detail } => {
                let help = if endpoint.starts_with("http") {
                    "check the URL's host and port, and whether it is http:// or https:// there; see the server's log"
                } else if detail.contains("it speaks AMQP 0-9-1") {
                    "use AMQP 0.9.1: leave out --protocol (in a [[load]]: protocol), and write amqp:// in place of \
                     amqp10:// or tcp://"
                } else if endpoint.starts_with("mqtt") {
                    "check host and port: 1883 is usual (mqtt://), 8883 with TLS (mqtts://); a broker without MQTT 5 \
                     takes --mqtt-version 3.1.1 (in a [[load]]: mqtt-version); see the broker's log"
                } else if endpoint.starts_with("amqp10") || endpoint.starts_with("amqps10") {
                    "check host and port: 5672 is usual (amqp10://), 5671 with TLS (amqps10://); see the broker's log"
                } else {
                    "check host and port: 5672 is usual for AMQP (amqp://), 5671 with TLS (amqps://), 15672 is \
                     RabbitMQ's HTTP; a broker that speaks AMQP 1.0 alone, as Artemis, takes amqp10:// in place of \
                     amqp:// (artemis perf also --protocol AMQP)"
                };
                Problem::new(format!("cannot talk to {endpoint}"), detail, help)
            }
            Self::Machine { action, detail } => {
                Problem::new(format!("cannot {action}"), detail, "see ulimit -a and the kernel's limits on this user")
            }
        }
    }

    /// Whether the request itself was wrong (exit code 2), rather than its execution (1).
    pub const fn is_usage(&self) -> bool {
        matches!(self, Self::Invalid(_))
    }
}

measure::shown_as_problem!(Error);
