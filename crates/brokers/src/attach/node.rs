//! The Erlang node of a broker that runs already: how it is reached, and whether it lets us in.

use std::time::Duration;

use erlang::{ConnectOptions, Cookie, Error as NodeError, Node, NodeName};
use measure::{Problem, Refused};

use crate::BrokerError;
use crate::answer::{NoAnswer, wait_for};
use crate::rabbitmq::control;
use experiment::BrokerSpec;

/// Holds the cookie of the broker's Erlang node.
const COOKIE_VARIABLE: &str = "BELLOWS_ERLANG_COOKIE";
/// The longest that the node may take to let us in.
const CHECK_TIMEOUT: Duration = Duration::from_secs(10);

/// How the broker's Erlang node is reached, where one is named.
///
/// # Errors
/// There is no cookie, or none that can be read.
pub(super) fn options(spec: &BrokerSpec) -> Result<Option<ConnectOptions>, BrokerError> {
    let Some(name) = &spec.node else {
        return Ok(None);
    };
    let refused = |refused: Refused| Problem::new(refused.what, "", refused.help);
    let name: NodeName = name.parse().map_err(refused)?;
    let set = std::env::var(COOKIE_VARIABLE).ok();
    let (cookie, others) = match (&spec.cookie_file, set.filter(|it| !it.is_empty())) {
        (Some(path), _) => (Cookie::read(path)?, Vec::new()),
        (None, Some(text)) => {
            let cookie = Cookie::new(&text).map_err(refused)?;
            (cookie.found_in(COOKIE_VARIABLE), Vec::new())
        }
        (None, None) => Cookie::find().map_err(|missing| Problem {
            help: COOKIE_HELP.to_owned(),
            ..missing
        })?,
    };
    let host = name.host().to_owned();
    let mut options = ConnectOptions::new(name, cookie);
    options.other_cookies = others;
    options.address = spec.node_port.map(|port| (host, port));
    options.timeout = control::TIMEOUT;
    Ok(Some(options))
}

const COOKIE_HELP: &str = "name the file with the node's cookie by broker.cookie-file (--cookie-file), or set \
                           BELLOWS_ERLANG_COOKIE";

/// Connects once, so that a wrong cookie or name is known before the load and not after it.
///
/// # Errors
/// Why the node is of no use, with the remedy.
pub(super) fn check(options: &ConnectOptions, control: &load::Control) -> Result<(), BrokerError> {
    let name = options.node.clone();
    let mut options = options.clone();
    options.timeout = CHECK_TIMEOUT;
    let cancelled = || control.is_stopping();
    // Finding it, connecting and the first call have a time-out each.
    let longest = CHECK_TIMEOUT * 3;
    match wait_for(longest, &cancelled, move || {
        Node::connect(&options).map(drop)
    }) {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(problem(&error).into()),
        Err(NoAnswer::Cancelled) => Err(BrokerError::Cancelled),
        Err(NoAnswer::TimedOut) => {
            let why = format!("no answer within {} s", longest.as_secs());
            Err(Problem::new(format!("cannot connect to {name}"), why, SILENT_HELP).into())
        }
        Err(NoAnswer::Failed(why)) => {
            Err(Problem::new(format!("cannot connect to {name}"), why, SILENT_HELP).into())
        }
    }
}

const SILENT_HELP: &str =
    "look whether the node is overloaded or hangs; or leave out broker.node (--node)";

/// The problem with the remedy by keys and options of a run.
fn problem(error: &NodeError) -> Problem {
    let help = match error {
        NodeError::Cookie { .. } => COOKIE_HELP,
        NodeError::Connect { .. } | NodeError::UnknownNode { .. } | NodeError::Epmd { .. } => {
            "check that the node runs, and its name (broker.node, --node); give its distribution port by \
             broker.node-port (--node-port) where EPMD does not know it"
        }
        NodeError::Resolve { .. } => {
            "check the part after the @ of broker.node (--node), or give it an address in /etc/hosts"
        }
        NodeError::Handshake { .. } => {
            "check that broker.node-port (--node-port) is the node's distribution port; nodes that ask for TLS there \
             are not asked in runs: leave out broker.node (--node), and name broker.management"
        }
        NodeError::Timeout { .. } | NodeError::Unsettled { .. } | NodeError::Silent { .. } => {
            SILENT_HELP
        }
        _ => return error.problem(),
    };
    Problem {
        help: help.to_owned(),
        ..error.problem()
    }
}
