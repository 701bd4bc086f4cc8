//! EPMD: which port a node listens on.

use std::io::ErrorKind;
use std::time::Instant;

use erl_dist::epmd::{EpmdClient, EpmdError};
use transport::SocketError;

use super::wire::{Wire, resolve, run};
use crate::error::Error;
use crate::name::NodeName;
use crate::options::ConnectOptions;

/// Asks the EPMD of the node's host for the node's port.
pub(super) fn port(options: &ConnectOptions, deadline: Instant) -> Result<u16, Error> {
    let node = &options.node;
    let address = format!("{}:{}", node.host(), options.epmd_port);
    let addresses =
        resolve(node.host(), options.epmd_port, deadline).map_err(|source| Error::Resolve {
            host: node.host().to_owned(),
            source,
        })?;
    let wire = Wire::connect(&addresses, None, deadline).map_err(|error| Error::Connect {
        what: "EPMD".into(),
        address: address.clone(),
        source: match error {
            SocketError::Io(error) => error,
            SocketError::Tls(error) => std::io::Error::other(error.to_string()),
        },
    })?;
    let answer = run(EpmdClient::new(wire).get_node(node.name())).map_err(EpmdError::Io);
    match answer.and_then(|answer| answer) {
        Ok(Some(entry)) if entry.port != 0 => Ok(entry.port),
        Ok(Some(_)) => Err(strange(address, "it says that the node listens on port 0")),
        Ok(None) => Err(Error::UnknownNode {
            node: node.clone(),
            address,
        }),
        Err(error) => Err(refused(node, address, options, &error)),
    }
}

fn strange(address: String, what: impl ToString) -> Error {
    Error::Epmd {
        address,
        what: what.to_string(),
    }
}

fn refused(node: &NodeName, address: String, options: &ConnectOptions, error: &EpmdError) -> Error {
    match error {
        EpmdError::Io(error) if error.kind() == ErrorKind::TimedOut => Error::Timeout {
            node: node.clone(),
            what: format!("EPMD at {address} says nothing"),
            after: options.timeout,
        },
        EpmdError::Io(error) if error.kind() == ErrorKind::UnexpectedEof => {
            strange(address, "it ended the connection")
        }
        error => strange(address, error),
    }
}
