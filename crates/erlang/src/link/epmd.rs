//! EPMD: which port a node listens on.

use std::fmt::Display;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use erl_dist::epmd::{EpmdClient, EpmdError};
use measure::Problem;

use super::wire::{Dialogue, Wire, as_io, resolve, run};
use crate::error::Error;
use crate::options::ConnectOptions;

/// Longest wait for the names that EPMD knows: they only help who mistyped one.
const NAMES_WAIT: Duration = Duration::from_secs(1);
/// Bytes that a list of registered nodes may have.
const NAMES_BYTES: usize = 64 << 10;
/// Characters of a name that is told; EPMD's own limit is 255 bytes.
const NAME_CHARS: usize = 64;
const TOLD: usize = 8;

/// Asks the EPMD of the node's host for the node's port.
pub(super) fn port(options: &ConnectOptions, deadline: Instant) -> Result<u16, Error> {
    let node = &options.node;
    let address = format!("{}:{}", node.host(), options.epmd_port);
    let addresses =
        resolve(node.host(), options.epmd_port, deadline).map_err(|source| Error::resolve(node.host(), &source))?;
    let wire = Wire::connect(&addresses, None, deadline);
    let wire = wire.map_err(|error| Error::unreachable("EPMD", &address, &as_io(error)))?;
    let answer = run(EpmdClient::new(Dialogue::new(wire, false)).get_node(node.name())).map_err(EpmdError::Io);
    match answer.and_then(|answer| answer) {
        Ok(Some(entry)) if entry.port != 0 => Ok(entry.port),
        Ok(Some(_)) => Err(strange(&address, "it says that the node listens on port 0")),
        Ok(None) => Err(Error::Unreachable(Problem::new(
            format!("EPMD at {address} knows no node {:?}", node.name()),
            addresses.iter().find_map(names).unwrap_or_default(),
            "check the name, wait if the node was just started, or give its own port with --port",
        ))),
        Err(error) => Err(refused(&address, options, &error)),
    }
}

/// The nodes that an EPMD knows (`NAMES_REQ` of erl_dist_protocol(3)), and their ports; `None` after the time-out.
pub fn registered_nodes(address: &SocketAddr, timeout: Duration) -> Option<Vec<(String, u16)>> {
    let until = Instant::now() + timeout;
    let mut stream = TcpStream::connect_timeout(address, timeout).ok()?;
    stream.write_all(&[0, 1, b'n']).ok()?;
    let mut answer = Vec::new();
    let mut part = [0; 1024];
    while answer.len() < NAMES_BYTES {
        let left = until.checked_duration_since(Instant::now())?;
        stream.set_read_timeout(Some(left)).ok()?;
        match stream.read(&mut part).ok()? {
            0 => break,
            read => answer.extend_from_slice(part.get(..read)?),
        }
    }
    // EPMD's own port comes first.
    Some(parse(&String::from_utf8_lossy(answer.get(4..)?)))
}

/// The nodes of lines such as `name rabbit at port 25672`.
fn parse(text: &str) -> Vec<(String, u16)> {
    let node = |line: &str| {
        let (name, port) = line.strip_prefix("name ")?.split_once(" at port ")?;
        Some((name.to_owned(), port.trim().parse().ok()?))
    };
    text.lines().filter_map(node).collect()
}

/// The nodes that this EPMD knows, for people.
fn names(address: &SocketAddr) -> Option<String> {
    let nodes = registered_nodes(address, NAMES_WAIT)?;
    let mut names: Vec<String> = nodes.iter().map(|(name, _)| name.chars().take(NAME_CHARS).collect()).collect();
    names.sort();
    if names.len() > TOLD {
        names.truncate(TOLD);
        names.push("…".to_owned());
    }
    Some(match names.as_slice() {
        [] => "it knows none".to_owned(),
        names => format!("it knows {}", names.join(", ")),
    })
}

fn strange(address: &str, what: impl Display) -> Error {
    let help = "give EPMD's port with --epmd-port, or the node's own with --port";
    Error::Unreachable(Problem::new(format!("the listener at {address} is not EPMD"), what, help))
}

fn refused(address: &str, options: &ConnectOptions, error: &EpmdError) -> Error {
    match error {
        EpmdError::Io(error) if error.kind() == ErrorKind::TimedOut => Error::Timeout {
            node: options.node.clone(),
            what: format!("EPMD at {address} says nothing"),
            after: options.timeout,
            is_fixed: false,
        },
        EpmdError::Io(error) if error.kind() == ErrorKind::UnexpectedEof => strange(address, "it ended the connection"),
        error => strange(address, error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_of_epmd_is_read_whatever_it_holds() {
        let answer = "name rabbit at port 25672\nname odd name at port 1\nname x at port 99999\n\nrubbish";
        let expected = [("rabbit".to_owned(), 25_672), ("odd name".to_owned(), 1)];
        assert_eq!(parse(answer), expected);
    }
}
