//! Who we are, and that both sides know the cookie: the handshake of version 6, by `erl_dist`.

use std::io::ErrorKind;
use std::sync::atomic::Ordering;

use erl_dist::DistributionFlags;
use erl_dist::handshake::{ClientSideHandshake, HandshakeError, HandshakeStatus};
use erl_dist::node::{Creation, LocalNode, NodeName as DistName};
use measure::Problem;

use super::wire::{Dialogue, Wire, run};
use crate::error::Error;
use crate::options::ConnectOptions;

/// The names that we take on a node: each stays in its table of atoms, which must not grow with every connection.
const NAMES: u32 = 1000;
/// Bytes of the node's challenge at least.
const CHALLENGE_BYTES: u64 = 20;
/// Bytes that are kept of what a peer says that lets nobody in.
const MOST_SAID: usize = 300;

/// Ourselves, as the node sees us.
#[derive(Clone, Debug)]
pub(crate) struct Local {
    pub(crate) name: String,
    pub(crate) creation: u32,
}

pub(super) enum Outcome {
    /// We are in.
    Done(Box<Wire>),
    /// Somebody else is connected under our name.
    NameTaken,
}

/// A name out of a thousand, and a creation that tells us from whoever had it before.
pub(super) fn local(options: &ConnectOptions) -> Local {
    // Less than 4 means something else to old nodes.
    let creation = Creation::random().get().max(4);
    Local { name: format!("bellows-{}@{}", Creation::random().get() % NAMES, options.node.host()), creation }
}

/// Our flags: no PUBLISHED, which makes us hidden, no atom cache, no fragments.
fn flags() -> DistributionFlags {
    DistributionFlags::mandatory()
        | DistributionFlags::DIST_MONITOR
        | DistributionFlags::DIST_MONITOR_NAME
        | DistributionFlags::SMALL_ATOM_TAGS
}

/// Introduces us, and proves that both sides know the cookie.
pub(super) fn shake(wire: Wire, local: &Local, options: &ConnectOptions) -> Result<Outcome, Error> {
    let name = local.name.parse::<DistName>().map_err(|error| Error::handshake(&options.node, error))?;
    let mut node = LocalNode::new(name, Creation::new(local.creation));
    node.flags = flags();
    let heard = wire.heard();
    let stream = Dialogue::new(wire, options.tls.is_some());
    let mut handshake = ClientSideHandshake::new(stream, node, options.cookie.expose());
    let failed = |error: HandshakeError, came: u64| failure(options, &error, came);
    let introduced = run(handshake.execute_send_name(erl_dist::HIGHEST_DISTRIBUTION_PROTOCOL_VERSION))
        .map_err(HandshakeError::Io)
        .and_then(|status| status);
    let status = introduced.map_err(|error| failed(error, 0))?;
    match status {
        HandshakeStatus::Alive | HandshakeStatus::Nok => return Ok(Outcome::NameTaken),
        HandshakeStatus::Ok | HandshakeStatus::OkSimultaneous => {}
        HandshakeStatus::NotAllowed => return Err(Error::handshake(&options.node, "it answers `not_allowed`")),
        _ => return Err(Error::handshake(&options.node, "it gives us another name")),
    }
    let before = heard.load(Ordering::Relaxed);
    let rest = run(handshake.execute_rest(true)).map_err(HandshakeError::Io).and_then(|rest| rest);
    let (stream, peer) = rest.map_err(|error| failed(error, heard.load(Ordering::Relaxed).saturating_sub(before)))?;
    let found = peer.name.to_string();
    if found != options.node.as_str() {
        let cause = format!("the node there is not {}", options.node);
        return Err(Error::Other(Problem::new(cause, format_args!("it is {found:?}"), "use its own name")));
    }
    Ok(Outcome::Done(Box::new(stream.wire)))
}

fn failure(options: &ConnectOptions, error: &HandshakeError, came: u64) -> Error {
    let node = &options.node;
    match error {
        HandshakeError::CookieMismatch => Error::handshake(node, "its proof of the cookie is wrong"),
        HandshakeError::Io(error) if error.kind() == ErrorKind::TimedOut => Error::Timeout {
            node: node.clone(),
            what: "the handshake did not end".into(),
            after: options.timeout,
            is_fixed: false,
        },
        HandshakeError::Io(error) if is_end(error.kind()) && came >= CHALLENGE_BYTES => {
            Error::Cookie { node: node.clone(), tried: vec![options.cookie.source().to_owned()] }
        }
        HandshakeError::Io(error) if is_end(error.kind()) => Error::handshake(node, "it ended the connection"),
        error => Error::handshake(node, cut(error.to_string())),
    }
}

/// Without most of what a peer says that says too much.
fn cut(mut what: String) -> String {
    let end = what.floor_char_boundary(MOST_SAID);
    if end < what.len() {
        what.truncate(end);
        what.push('…');
    }
    what
}

const fn is_end(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)
}
