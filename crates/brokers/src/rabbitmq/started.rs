//! The Erlang nodes that bellows has started for this user and that still run: how each is reached.

use std::fs;
use std::path::{Path, PathBuf};

use erlang::{ConnectOptions, Cookie};
use serde::{Deserialize, Serialize};

use crate::guardian::guarded_directories;

/// Erlang's file with the node's cookie, in its home directory.
pub(super) const COOKIE: &str = ".erlang.cookie";
/// The file in a node's directory that says how it is reached.
pub(super) const FILE: &str = "erlang-node.json";

/// How a node is reached; its cookie stands beside it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StartedNode {
    /// Its Erlang name.
    pub(super) name: String,
    pub(super) host: String,
    /// The port of its distribution.
    pub(super) port: u16,
    /// The network that this address is of, as [`network`] tells it.
    #[serde(default)]
    pub(super) network: String,
}

/// The network namespace of this process; empty where the system does not tell.
pub(super) fn network() -> String {
    fs::read_link("/proc/self/ns/net")
        .map(|link| link.to_string_lossy().into_owned())
        .unwrap_or_default()
}

/// Every node that a bellows of this user has started and that has not ended, by name.
#[must_use]
pub fn started_nodes() -> Vec<ConnectOptions> {
    let directories = guarded_directories();
    let mut nodes: Vec<ConnectOptions> = directories.iter().filter_map(|it| read(it)).collect();
    nodes.sort_by(|a, b| a.node.cmp(&b.node));
    nodes
}

/// The directory of a node that a bellows of this user has started and that has not ended, by its name.
#[must_use]
pub fn node_directory(node: &str) -> Option<PathBuf> {
    let mut directories = guarded_directories().into_iter();
    directories.find(|it| read(it).is_some_and(|options| options.node.as_str() == node))
}

/// Reads a directory's node; `None` for other brokers, for one that just begins or ends, and for one in another network
/// namespace, where nobody here reaches it.
fn read(directory: &Path) -> Option<ConnectOptions> {
    let text = fs::read(directory.join(FILE)).ok()?;
    let node: StartedNode = serde_json::from_slice(&text).ok()?;
    if node.network != network() {
        return None;
    }
    let cookie = Cookie::read(&directory.join(COOKIE)).ok()?;
    let mut options = ConnectOptions::new(node.name.parse().ok()?, cookie);
    options.address = Some((node.host, node.port));
    Some(options)
}
