//! Failures between us and a node.

use std::fmt;
use std::io;
use std::time::Duration;

use measure::Problem;

use crate::options::NodeName;
use crate::term::TermError;

/// Why a node could not be asked, or what it answered instead.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// Wrong options, such as a certificate's file that cannot be read.
    Options(Problem),
    /// The host has no address.
    Resolve {
        /// The host.
        host: String,
        /// The system's words.
        source: io::Error,
    },
    /// Nobody listens there.
    Connect {
        /// Expected there: `EPMD` or the node's name.
        what: String,
        /// Host and port.
        address: String,
        /// The system's words.
        source: io::Error,
    },
    /// EPMD's port answers as something else.
    Epmd {
        /// Host and port.
        address: String,
        /// Its answer.
        what: String,
    },
    /// EPMD knows no node of this name.
    UnknownNode {
        /// The node.
        node: NodeName,
        /// EPMD's host and port.
        address: String,
        /// The names that it knows, where it tells.
        known: Option<Vec<String>>,
    },
    /// The node knows another cookie.
    Cookie {
        /// The node.
        node: NodeName,
        /// Where those that were tried come from; empty for one that was given by itself.
        tried: Vec<String>,
    },
    /// The node does not want us, or does not behave as a node.
    Handshake {
        /// The node.
        node: NodeName,
        /// Its answer.
        what: String,
    },
    /// Another node than the one that was asked for listens there.
    OtherNode {
        /// The node.
        node: NodeName,
        /// Its own name.
        found: String,
    },
    /// The connection could not be secured.
    Tls {
        /// The node.
        node: NodeName,
        /// The fault.
        what: String,
        /// Remedy for the user.
        help: &'static str,
    },
    /// No answer within the time-out.
    Timeout {
        /// The node.
        node: NodeName,
        /// The request in progress.
        what: String,
        /// The time-out.
        after: Duration,
    },
    /// No answer, or nothing that was waited for, within a time that no option changes.
    Unsettled {
        /// The node.
        node: NodeName,
        /// The request in progress: `to remove the module bellows_1a2b3c4d`.
        what: String,
        /// How long it was waited for.
        after: Duration,
    },
    /// The node has not said that what was done there is undone.
    Undoing {
        /// The node.
        node: NodeName,
        /// How long it was waited for.
        after: Duration,
    },
    /// The function that was called has failed.
    Exception {
        /// The node.
        node: NodeName,
        /// Module, function and number of arguments.
        call: String,
        /// The reason, cut.
        reason: String,
    },
    /// The connection is no more.
    Lost {
        /// The node.
        node: NodeName,
        /// Its cause.
        what: String,
    },
    /// The node sends nothing any more, not even an answer to a ping on the connection.
    Silent {
        /// The node.
        node: NodeName,
        /// Time since it was last heard of.
        after: Duration,
    },
    /// An answer of the node cannot be decoded.
    Term {
        /// The node.
        node: NodeName,
        /// The request.
        what: String,
        /// The fault.
        source: TermError,
    },
    /// The node does not take what is sent to it.
    Full {
        /// The node.
        node: NodeName,
        /// Bytes that wait.
        bytes: usize,
    },
}

impl Error {
    /// Marks a time-out as one of undoing something.
    pub(crate) fn undoing(self) -> Self {
        match self {
            Self::Timeout { node, after, .. } | Self::Unsettled { node, after, .. } => Self::Undoing { node, after },
            other => other,
        }
    }

    /// The failure as a user meets it.
    pub fn problem(&self) -> Problem {
        match self {
            Self::Options(problem) => problem.clone(),
            Self::Resolve { host, source } => Problem::new(
                format!("host {host:?} has no address"),
                source,
                "check the part after the @ of the node's name, or give the address with --host",
            ),
            Self::Connect { what, address, source } => Problem::new(
                format!("cannot connect to {what} at {address}"),
                source,
                "check that the node runs (it needs some seconds to start), its name, and --port or \
                 --epmd-port",
            ),
            Self::Epmd { address, what } => Problem::new(
                format!("the listener at {address} is not EPMD"),
                what,
                "give EPMD's port with --epmd-port, or the node's own with --port",
            ),
            Self::UnknownNode { node, address, known } => Problem::new(
                format!("EPMD at {address} knows no node {:?}", node.name()),
                known.as_deref().map_or_else(String::new, known_nodes),
                "check the name, wait if the node was just started, or give its own port with --port",
            ),
            Self::Cookie { node, tried } => Problem::new(
                format!("{node} refuses the cookie"),
                other_cookie(tried),
                "give the node's with --cookie-file FILE, or set BELLOWS_ERLANG_COOKIE; it is in .erlang.cookie in \
                 the home of the user who runs the node",
            ),
            Self::Handshake { node, what } => Problem::new(
                format!("{node} refuses the connection"),
                what,
                "check that the port is the node's distribution port, and whether it asks for TLS \
                 (--tls); its log says more",
            ),
            Self::OtherNode { node, found } => Problem::new(
                format!("the node there is not {node}"),
                format_args!("it is {found:?}"),
                "use its own name",
            ),
            Self::Tls { node, what, help } => {
                Problem::new(format!("the connection to {node} cannot be secured"), what, *help)
            }
            Self::Timeout { node, what, after } => Problem::new(
                format!("{node} did not answer in time: {what}"),
                format_args!("{after:?}"),
                "use a longer --timeout, or check whether the node is overloaded",
            ),
            Self::Unsettled { node, what, after } => Problem::new(
                format!("{node} did not answer in time: {what}"),
                format_args!("{after:?}, a fixed limit"),
                "check whether the node is overloaded, and run it again",
            ),
            Self::Undoing { node, after } => Problem::new(
                format!("{node} has not confirmed the clean-up"),
                format_args!("no answer in {after:?}: it is busy"),
                format!(
                    "it cleans up by itself; `bellows erlang info {node}` shows what \
                     is left"
                ),
            ),
            Self::Exception { node, call, reason } => {
                Problem::new(format!("{call} failed on {node}"), reason, "check that the node has a supported release")
            }
            Self::Lost { node, what } => {
                Problem::new(format!("the connection to {node} was lost"), what, "check that the node still runs")
            }
            Self::Silent { node, after } => Problem::new(
                format!("{node} no longer answers"),
                format_args!("no answer for {after:?}"),
                "check whether its process was stopped or hangs (STAT in `ps -C beam.smp`) and whether its machine is \
                 overloaded; allow more with --timeout",
            ),
            Self::Term { node, what, source } => {
                Problem::new(format!("cannot decode a message of {node}: {what}"), source, "request less at once")
            }
            Self::Full { node, bytes } => Problem::new(
                format!("{node} does not read"),
                format_args!("{bytes} bytes wait"),
                "check whether the node is overloaded",
            ),
        }
    }
}

/// The nodes that EPMD does know.
fn known_nodes(names: &[String]) -> String {
    match names {
        [] => "it knows none".to_owned(),
        names => format!("it knows {}", names.join(", ")),
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

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.problem())
    }
}

impl std::error::Error for Error {}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        error.problem()
    }
}
