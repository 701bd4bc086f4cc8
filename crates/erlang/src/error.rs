//! Failures between us and a node.

use std::fmt::Display;
use std::io;
use std::time::Duration;

use measure::Problem;

use crate::options::NodeName;
use crate::term::TermError;

/// Why a node could not be asked, or what it answered instead: the kinds that callers tell apart.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The host has no address.
    Resolve(Problem),
    /// Neither EPMD nor the node answers at its address, or EPMD knows no such node.
    Unreachable(Problem),
    /// The node knows another cookie.
    Cookie {
        /// The node.
        node: NodeName,
        /// Where those that were tried come from; empty for one that was given by itself.
        tried: Vec<String>,
    },
    /// The node does not want us, or does not behave as a node.
    Handshake(Problem),
    /// No answer in time, or nothing that was waited for.
    Timeout {
        /// The node.
        node: NodeName,
        /// The request in progress: `to remove the module bellows_1a2b3c4d`.
        what: String,
        /// How long it was waited for.
        after: Duration,
        /// No option changes that time.
        is_fixed: bool,
    },
    /// The node has not said that what was done there is undone.
    Undoing(Problem),
    /// The function that was called has failed.
    Exception {
        /// The node.
        node: NodeName,
        /// Module, function and number of arguments.
        call: String,
        /// The reason, cut.
        reason: String,
    },
    /// The node sends nothing any more, not even an answer to a ping on the connection.
    Silent(Problem),
    /// Another failure: wrong options, a lost or insecure connection, an answer that cannot be decoded.
    Other(Problem),
}

impl Error {
    pub(crate) fn resolve(host: &str, source: &io::Error) -> Self {
        let help = "check the part after the @ of the node's name, or give the address with --host";
        Self::Resolve(Problem::new(format!("host {host:?} has no address"), source, help))
    }

    /// Nobody listens at the address where EPMD or the node was expected.
    pub(crate) fn unreachable(what: impl Display, address: &str, source: &io::Error) -> Self {
        let help = "check that the node runs (it needs some seconds to start), its name, and --port or --epmd-port";
        Self::Unreachable(Problem::new(format!("cannot connect to {what} at {address}"), source, help))
    }

    pub(crate) fn handshake(node: &NodeName, what: impl Display) -> Self {
        let help = "check that the port is the node's distribution port, and whether it asks for TLS (--tls); its log \
                    says more";
        Self::Handshake(Problem::new(format!("{node} refuses the connection"), what, help))
    }

    pub(crate) fn lost(node: &NodeName, what: impl Display) -> Self {
        let cause = format!("the connection to {node} was lost");
        Self::Other(Problem::new(cause, what, "check that the node still runs"))
    }

    pub(crate) fn undecoded(node: &NodeName, what: impl Display, source: &TermError) -> Self {
        let cause = format!("cannot decode a message of {node}: {what}");
        Self::Other(Problem::new(cause, source, "request less at once"))
    }

    /// Marks a time-out as one of undoing something.
    pub(crate) fn undoing(self) -> Self {
        match self {
            Self::Timeout { node, after, .. } => Self::Undoing(Problem::new(
                format!("{node} has not confirmed the clean-up"),
                format_args!("no answer in {after:?}: it is busy"),
                format!("it cleans up by itself; `bellows erlang info {node}` shows what is left"),
            )),
            other => other,
        }
    }

    /// The failure as a user meets it.
    pub fn problem(&self) -> Problem {
        match self {
            Self::Resolve(problem)
            | Self::Unreachable(problem)
            | Self::Handshake(problem)
            | Self::Undoing(problem)
            | Self::Silent(problem)
            | Self::Other(problem) => problem.clone(),
            Self::Cookie { node, tried } => Problem::new(
                format!("{node} refuses the cookie"),
                other_cookie(tried),
                "give the node's with --cookie-file FILE, or set BELLOWS_ERLANG_COOKIE; it is in .erlang.cookie in \
                 the home of the user who runs the node",
            ),
            Self::Timeout { node, what, after, is_fixed } => {
                let (limit, help) = match is_fixed {
                    true => (", a fixed limit", "check whether the node is overloaded, and run it again"),
                    false => ("", "use a longer --timeout, or check whether the node is overloaded"),
                };
                let cause = format!("{node} did not answer in time: {what}");
                Problem::new(cause, format_args!("{after:?}{limit}"), help)
            }
            Self::Exception { node, call, reason } => {
                Problem::new(format!("{call} failed on {node}"), reason, "check that the node has a supported release")
            }
        }
    }
}

/// Which cookies are not the node's.
fn other_cookie(tried: &[String]) -> String {
    match tried {
        [source] if !source.is_empty() => format!("its own is not that of {source}"),
        [] | [_] => "its own differs".to_owned(),
        sources => format!("its own is none of those of {}", sources.join(", ")),
    }
}

measure::shown_as_problem!(Error);

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        error.problem()
    }
}
