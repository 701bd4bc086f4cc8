//! Turns what any protocol's connection runs into into errors that people understand.

use measure::Nanos;
use transport::tls::TlsError;

use crate::{Endpoint, Error};

/// How far a conversation has got; decides what a failure means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Until the broker has accepted user and virtual host.
    LogIn,
    /// The step in progress, as in "cannot ...".
    SetUp(String),
    Running,
    Closing,
}

impl Stage {
    /// The step in progress, as in "could not ...".
    pub(crate) fn action(&self) -> &str {
        match self {
            Self::LogIn => "log in",
            Self::SetUp(action) => action,
            Self::Running => "send and receive",
            Self::Closing => "close the connection",
        }
    }

    /// The connection is gone; `help` is for one that never served.
    pub(crate) fn lost(&self, endpoint: String, detail: String, help: &str) -> Error {
        match self {
            Self::Running | Self::Closing => Error::Lost { endpoint, detail },
            Self::LogIn | Self::SetUp(_) => {
                Error::Connect { detail: format!("could not {}: {detail}", self.action()), endpoint, help: help.into() }
            }
        }
    }

    pub(crate) fn timed_out(&self, endpoint: &Endpoint, timeout: Nanos) -> Error {
        let detail = format!("could not {} within {timeout}", self.action());
        Error::TimedOut { endpoint: endpoint.to_string(), detail }
    }
}

/// A message waits for its confirm for longer than anybody does.
pub(crate) fn of_confirm(endpoint: &Endpoint, waited: Nanos) -> Error {
    Error::TimedOut { endpoint: endpoint.to_string(), detail: format!("a message has not been confirmed for {waited}") }
}

pub(crate) fn of_tls(endpoint: &Endpoint, error: &TlsError) -> Error {
    of_handshake(endpoint.to_string(), error)
}

/// The connection to this URL is not secured; where the port probably has no TLS, the help is the URL without it.
pub(crate) fn of_handshake(endpoint: String, error: &TlsError) -> Error {
    let help = match endpoint.split_once("://").filter(|_| error.is_without_tls()) {
        Some((scheme, rest)) => format!(
            "the port probably has no TLS: use {}://{rest}, or check the port (RabbitMQ has TLS on 5671 and 15671)",
            scheme.replacen('s', "", 1)
        ),
        None => error.help().to_owned(),
    };
    Error::Tls { endpoint, detail: error.to_string(), help }
}

pub(crate) fn of_connect(endpoint: &Endpoint, error: &std::io::Error) -> Error {
    let help = match error.kind() {
        std::io::ErrorKind::ConnectionRefused => "nothing listens there: start the broker, or check host and port",
        std::io::ErrorKind::AddrNotAvailable => {
            "source addresses must be this machine's own (ip addr); if they are, all of their \
             some 28,000 ports are in use: give more of them (--source-addresses)"
        }
        std::io::ErrorKind::TimedOut => "check host, port and firewalls",
        _ => "check host, port and the network",
    };
    Error::Connect { endpoint: endpoint.to_string(), detail: one_line(&error.to_string()), help: help.into() }
}

/// Brokers' texts go to terminals: no line break and no control character may reach them.
pub(crate) fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
