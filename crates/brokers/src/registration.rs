//! How a broker is started or found, and how it is recognised on a machine.

use std::path::{Path, PathBuf};

use super::{Broker, BrokerError, NodeData, managed::Progress};
use experiment::{BrokerKind, BrokerSpec, Experiment};

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
    #[must_use]
    pub fn recognises(&self, command: &str, arguments: &[String]) -> Option<&'static str> {
        let first = arguments.get(1).map_or("", String::as_str);
        let is_meant = self.subcommand.is_empty() || self.subcommand == first;
        let mut names = self.processes.iter().copied();
        names.find(|name| is_meant && *name == command)
    }

    /// Whether bellows can start it from an installation.
    #[must_use]
    pub const fn can_be_started(&self) -> bool {
        self.start.is_some() && !self.program.is_empty()
    }
}

/// By a broker's process and its arguments: what makes profiles name its functions, or the remedy.
type NamesFunctions = fn(u32, &[String]) -> Result<String, &'static str>;

/// Starts a broker, or finds it.
pub(super) type StartBroker = fn(Request<'_>) -> Result<Box<dyn Broker>, BrokerError>;

/// Arguments of a start.
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
