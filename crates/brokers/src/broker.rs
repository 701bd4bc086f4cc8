//! A broker as runs see it, of any kind; how it is started or found, and how it is recognised on a machine.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use archive::{BrokerSummary, Topology};
use erlang::ConnectOptions;
use experiment::{BrokerKind, BrokerSpec, Experiment};
use linux::sockets;
use load::Endpoint;
use stacks::ErlangProcess;
use web::management::ManagementOptions;

use super::log::LogFollower;
use super::managed::Progress;
use super::{BrokerError, Fault, NodeData, PlayedFaults};

/// A broker under load: common to all kinds. A run borrows it, so it may serve several. Dropping it ends it.
pub trait Broker: RabbitMqNodes + std::fmt::Debug + Send {
    /// Its identity, as far as that is known before the first connection.
    fn identity(&self) -> &Identity;

    /// Where clients connect, with TLS and login.
    fn endpoint(&self) -> &Endpoint;

    /// Its processes on this machine.
    fn processes(&self) -> Processes;

    /// Does something to one of its nodes, by its number. Takes as long as that takes: a restart until it is ready
    /// again. Errors: [`BrokerError::Fault`] where this broker cannot be harmed so, and what a restart came to.
    fn inject(&mut self, node: usize, fault: Fault) -> Result<(), BrokerError>;

    /// The ancestor process of all that start a killed node again; `None` where nobody does, or the node runs.
    fn starter(&self, _node: usize) -> Option<u32> {
        None
    }

    /// The outcome of faults that it plays by itself; `None` where it plays none.
    fn played_faults(&mut self) -> Result<Option<PlayedFaults>, BrokerError> {
        Ok(None)
    }

    /// Follows the log of each of its nodes from now on; empty where that is not ours to read.
    fn follow_logs(&self) -> Vec<LogFollower> {
        Vec::new()
    }

    /// The cost of copying prepared data at its start; `None` where it began without any.
    fn copied(&self) -> Option<String> {
        None
    }

    /// Ends it in order, and moves its data to a new folder. Errors: data that cannot be kept, or no end.
    fn keep_data(self: Box<Self>, _to: &Path, _cancelled: &dyn Fn() -> bool) -> Result<(), BrokerError> {
        let product = self.identity().product;
        Err(BrokerError::Fault(format!("the data of {product} cannot be kept")))
    }

    /// The last lines that it logged; empty where its log is not ours to read.
    fn logs(&self, _lines: usize) -> String {
        String::new()
    }

    /// Ends what was started for it.
    fn stop(self: Box<Self>) -> Result<(), BrokerError> {
        Ok(())
    }
}

/// Nodes of RabbitMQ, which can be asked; other kinds implement none of it.
pub trait RabbitMqNodes {
    /// Its management API, and who logs in there; `None` where none is known.
    fn management(&self) -> Option<ManagementOptions> {
        None
    }

    /// The servers of its own pages of metrics, such as `http://127.0.0.1:15692`, one of each node, where it has them.
    fn metrics_servers(&self) -> &[String] {
        &[]
    }

    /// How its Erlang node is reached; `None` where none is known. Errors: what is needed for that cannot be read.
    fn erlang(&self) -> Result<Option<ConnectOptions>, BrokerError> {
        Ok(None)
    }

    /// How each of its Erlang nodes is reached that bellows knows, in the order of nodes.
    fn erlang_nodes(&self) -> Result<Vec<ConnectOptions>, BrokerError> {
        Ok(self.erlang()?.into_iter().collect())
    }

    /// The directory of each node, where inspections by others leave word; empty where bellows did not start it.
    fn directories(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Where each node of a cluster takes clients, in the order of the nodes; empty where bellows started none.
    fn nodes(&self) -> Vec<Endpoint> {
        Vec::new()
    }

    /// The nodes of a cluster, by number, whose process is not there: killed and not back, or ended by itself.
    fn gone_nodes(&self) -> Vec<usize> {
        Vec::new()
    }

    /// Whether it can be asked for its topology.
    fn has_topology(&self) -> bool {
        false
    }

    /// Queues, exchanges and bindings; empty where it cannot be asked. Not in a measured phase: it costs CPU.
    fn topology(&self, _cancelled: &dyn Fn() -> bool) -> Result<Topology, BrokerError> {
        Ok(Topology::default())
    }

    /// The busiest Erlang processes of a node, by its number; empty where it has none, is away, or cannot be asked.
    fn erlang_processes(&self, _node: usize, _cancelled: &dyn Fn() -> bool) -> Result<Vec<ErlangProcess>, BrokerError> {
        Ok(Vec::new())
    }
}

/// Product, version and runtime of a broker; an attached one tells them when it is connected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// `rabbitmq`; empty where it is not known yet.
    pub kind: &'static str,
    /// As it is called: `RabbitMQ`; empty where it is not known yet.
    pub product: &'static str,
    /// Its version, such as `3.10.8`.
    pub version: Option<String>,
    /// Its runtime: `Erlang/OTP 25`.
    pub runtime: Option<String>,
}

impl Identity {
    /// `RabbitMQ 3.10.8`; `None` where it is not known yet.
    pub fn name(&self) -> Option<String> {
        let version = self.version.as_deref().unwrap_or_default();
        let name = format!("{} {version}", self.product);
        Some(name.trim().to_owned()).filter(|name| !name.is_empty())
    }

    /// As a run folder keeps it.
    pub fn summary(&self, pid: Option<u32>) -> BrokerSummary {
        BrokerSummary { kind: self.kind.to_owned(), version: self.version.clone(), pid }
    }
}

/// A broker's processes on this machine.
#[derive(Clone, Debug, Default)]
pub struct Processes {
    /// The broker's process, with its descendants; where it runs here and could be found.
    pub main: Option<u32>,
    /// The processes of further brokers or nodes under load, found by their ports; `None` for one not found.
    pub further: Vec<Option<u32>>,
    /// Whether the broker runs on the machine of its clients.
    pub on_this_machine: bool,
    /// Who listens on its port, where it was not started by bellows.
    pub listener: Listener,
}

impl Processes {
    /// Where the broker's process listens, if found by that alone: there it is found again as another process.
    pub fn returns_at(&self, endpoint: &Endpoint) -> Vec<SocketAddr> {
        let Listener { found, given } = self.listener;
        match found.is_some() && found == self.main && given.is_none() {
            true => sockets::addresses_here(&endpoint.host, endpoint.port),
            false => Vec::new(),
        }
    }

    /// The process of a node, by its number.
    pub fn of_node(&self, node: usize) -> Option<u32> {
        match node.checked_sub(1) {
            None => self.main,
            Some(further) => self.further.get(further).copied().flatten(),
        }
    }

    /// Those of a broker that bellows has started.
    pub fn started(main: Option<u32>) -> Self {
        Self { main, further: Vec::new(), on_this_machine: true, listener: Listener::default() }
    }
}

/// Who listens on the broker's port, and which process is said to be the broker.
#[derive(Clone, Copy, Debug, Default)]
pub struct Listener {
    /// Found by the port.
    pub found: Option<u32>,
    /// Given by the user.
    pub given: Option<u32>,
}

/// A broker that bellows knows.
#[derive(Debug)]
pub struct Registration {
    /// `broker.kind`, and what starts or finds it; `None` where it can only be attached to.
    pub(super) start: Option<(BrokerKind, StartBroker)>,
    /// As it is called, and calls itself in AMQP's `connection.start`.
    pub product: &'static str,
    /// The program that starts it; empty where it is part of bellows, or unknown.
    pub program: &'static str,
    /// Where the program is when it is not on the path.
    pub folders: &'static [&'static str],
    /// How it is installed; empty where bellows cannot start it.
    pub install: &'static str,
    /// Names of its processes (`/proc/PID/stat` keeps 15 bytes).
    pub processes: &'static [&'static str],
    /// The first argument of its processes; empty where they may have any.
    pub(super) subcommand: &'static str,
    /// Whether the installation that it would be started from is there, with what is replaced in it.
    pub(super) installed: fn(&BrokerSpec) -> Result<(), BrokerError>,
    /// The folder with the programs of the installation that it is started from, where they need not be in `PATH`.
    pub(super) programs: fn(&BrokerSpec) -> Option<PathBuf>,
    /// Whether profiles name its functions. `None` where they always do.
    pub names_functions: Option<NamesFunctions>,
}

impl Registration {
    /// A broker of which nothing is known.
    pub(super) const NONE: Self = Self {
        start: None,
        product: "",
        program: "",
        folders: &[],
        install: "",
        processes: &[],
        subcommand: "",
        installed: |_| Ok(()),
        programs: |_| None,
        names_functions: None,
    };

    /// The name of the broker's process, where this is one.
    pub fn recognises(&self, command: &str, arguments: &[String]) -> Option<&'static str> {
        let first = arguments.get(1).map_or("", String::as_str);
        let is_meant = self.subcommand.is_empty() || self.subcommand == first;
        self.processes.iter().copied().find(|name| is_meant && *name == command)
    }

    /// Whether bellows can start it from an installation.
    pub const fn can_be_started(&self) -> bool {
        self.start.is_some() && !self.program.is_empty()
    }
}

/// By a broker's process and its arguments: what makes profiles name its functions, or the remedy.
type NamesFunctions = fn(u32, &[String]) -> Result<String, &'static str>;

type StartBroker = fn(Request<'_>) -> Result<Box<dyn Broker>, BrokerError>;

pub(super) struct Request<'a> {
    pub(super) experiment: &'a Experiment,
    /// Data that outlives it: to begin with, or to leave.
    pub(super) data: Option<&'a NodeData>,
    /// The `bellows` executable, for the guardian and the embedded broker.
    pub(super) bellows_exe: &'a Path,
    pub(super) control: &'a load::Control,
    /// Told how far the start has got.
    pub(super) progress: &'a mut dyn FnMut(Progress<'_>),
}
