//! Disposable RabbitMQ nodes. [`RabbitMq::start`] starts one from an installation on this machine, apart from
//! everything that is installed or running here: own name, cookie and data directory, free ports on the loopback
//! interface, no EPMD, none of the machine's configuration. [`RabbitMq::stop`] and `Drop` end it; whatever ends
//! bellows, the node's guardian ([`crate::guardian`]) or, where that was killed too, the next start removes it without
//! trace.

mod broker;
mod checkout;
mod cluster;
pub(crate) mod control;
mod install;
mod loader;
mod members;
mod node;
mod ports;
mod setup;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use super::NodeData;

pub(crate) use broker::REGISTRATION;
pub use broker::described;
pub use cluster::Cluster;
pub(crate) use loader::Loader;
pub use node::RabbitMq;
pub use setup::{node_directory, started_nodes};

const START_TIMEOUT: Duration = Duration::from_secs(60);

/// Configuration of a managed node: by default Debian's RabbitMQ with the guards of the reference experiment.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Where RabbitMQ is: a prefix such as `/opt/rabbitmq_server-3.13.7` (it has `sbin/`), or a root directory (it has
    /// `usr/lib/rabbitmq/`, and perhaps Erlang, with a C library of its own). `None`: the machine's own.
    pub root: Option<PathBuf>,
    /// Normal schedulers of the emulator (`+S N`). `None`: one per core.
    pub schedulers: Option<u32>,
    /// Listen for TLS too, with certificates made for this node, and let clients log in by theirs.
    pub tls: bool,
    /// Plugins enabled from the start. They listen on their own ports, unless [`Config::settings`] say otherwise.
    pub plugins: Vec<String>,
    /// Lines of `rabbitmq.conf`. They override what bellows sets; the listener and the first user cannot be set.
    pub settings: BTreeMap<String, String>,
    /// Further lines that each node of a cluster has for itself, in the order of nodes.
    pub of_nodes: Vec<BTreeMap<String, String>>,
    /// Text of `advanced.config`, Erlang terms. It overrides [`Config::settings`].
    pub advanced: Option<String>,
    /// Further environment of the node. What bellows sets itself wins.
    pub environment: BTreeMap<String, String>,
    /// Further arguments of the emulator, one word each: `+sbwt`, `very_long`.
    pub emulator_arguments: Vec<String>,
    /// A folder of compiled modules that come before the node's own.
    pub patch: Option<PathBuf>,
    /// Data that outlives it: to begin with, or to leave.
    pub data: Option<NodeData>,
    /// Directory of the node's own directory. `None`: `TMPDIR`, else `/var/tmp`, on a disk where `/tmp` may be memory.
    pub parent_directory: Option<PathBuf>,
    /// Time that the node may take until it accepts AMQP connections; 60 s where absent.
    pub start_timeout: Option<Duration>,
    /// Command that runs [`crate::guardian::main`] with further arguments; empty: this executable does.
    pub guard: Vec<OsString>,
}
