//! Turns what any protocol's connection runs into into errors that people understand.

use measure::Nanos;
use transport::tls::TlsError;

use crate::{Endpoint, Error};

/// A message waits for its confirm for longer than anybody does.
pub(crate) fn of_confirm(endpoint: &Endpoint, waited: Nanos) -> Error {
    Error::TimedOut { endpoint: endpoint.to_string(), detail: format!("a message has not been confirmed for {waited}") }
}

/// The connection could not be secured.
pub(crate) fn of_tls(endpoint: &Endpoint, error: &TlsError) -> Error {
    Error::Tls { endpoint: endpoint.to_string(), detail: error.to_string(), help: error.help().into() }
}

/// No connection came about.
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
