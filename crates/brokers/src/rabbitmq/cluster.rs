//! Disposable nodes that are one cluster.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::super::{
    BrokerError, Fault,
    managed::{Progress, TELL_INTERVAL, Waiting, Workspace},
};
use super::install::{Installation, PRODUCT};
use super::members::{Network, Relay};
use super::node::{Prepared, RabbitMq};
use super::setup::NEEDED_SPACE;
use super::{Config, START_TIMEOUT, ports};
use experiment::MOST_NODES;

/// Time in which nodes that all take clients see each other.
const JOIN_TIMEOUT: Duration = Duration::from_secs(60);

/// Nodes that are one cluster, or one node alone. Dropping it stops them.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<RabbitMq>,
    /// Between them, where one may be cut off.
    relay: Option<Relay>,
}

impl Cluster {
    /// Starts nodes at once, and waits until each takes clients and sees the others; `is_relayed` ones can be cut off.
    pub fn start(config: &Config, size: u32, is_relayed: bool, waiting: &mut Waiting<'_>) -> Result<Self, BrokerError> {
        if size <= 1 {
            let node = RabbitMq::start(config, waiting.progress, waiting.cancelled)?;
            return Ok(Self { nodes: vec![node], relay: None });
        }
        if size > MOST_NODES {
            let cause = format!("a cluster on one machine has at most {MOST_NODES} nodes");
            return Err(BrokerError::config(cause, size, "use fewer"));
        }
        ports::start_on_free(config, waiting, |waiting| Self::try_start(config, size, is_relayed, waiting))
    }

    fn try_start(config: &Config, size: u32, is_relayed: bool, waiting: &mut Waiting<'_>) -> Result<Self, BrokerError> {
        let installation = Installation::find(config.root.as_deref())?;
        ports::check_shared(config, size)?;
        RabbitMq::check(config, &installation)?;
        let network = Network::find(size, is_relayed)?;
        let relay = match is_relayed {
            true => Some(
                Relay::start(&network.relayed(size))
                    .map_err(BrokerError::io("relay between nodes on", "127.0.0.0/8"))?,
            ),
            false => None,
        };
        let parent = config.parent_directory.as_deref();
        let needed = NEEDED_SPACE * u64::from(size);
        let workspaces = (0..size).map(|_| Workspace::new(PRODUCT, parent, needed));
        let workspaces: Vec<Workspace> = workspaces.collect::<Result<_, _>>()?;
        let names: Vec<&str> = workspaces.iter().map(Workspace::name).collect();
        let members = network.members(&names);
        // Each of them has less of the machine than one alone.
        let start_timeout = Some(config.start_timeout.unwrap_or(START_TIMEOUT) * size);
        let config = Config { start_timeout, ..config.clone() };
        let runtime = installation.erlang.release;
        let what = format!("starting {size} nodes of {PRODUCT} {} on Erlang/OTP {runtime}", installation.version);
        let mut prepared = Vec::new();
        for (workspace, member) in workspaces.into_iter().zip(members) {
            let installation = Installation::find(config.root.as_deref())?;
            let config = of_node(&config, prepared.len());
            prepared.push(RabbitMq::prepare(&config, installation, workspace, Some(member))?);
        }
        waiting.step(&what);
        let nodes = start_all(prepared, &what, waiting)?;
        let cluster = Self { nodes, relay };
        cluster.wait_until_joined(waiting)?;
        Ok(cluster)
    }

    /// The nodes, in their order; at least one.
    pub fn nodes(&self) -> &[RabbitMq] {
        &self.nodes
    }

    /// Whether each node says that all run.
    fn wait_until_joined(&self, waiting: &mut Waiting<'_>) -> Result<(), BrokerError> {
        let mut seen: Vec<usize> = Vec::new();
        let joined = waiting.poll("waiting until the nodes see each other", JOIN_TIMEOUT, |cancelled| {
            let running = self.nodes.iter().map(|node| node.running(cancelled));
            seen = running.map(|running| running.map_or(0, |it| it.len())).collect();
            Ok(seen.iter().all(|count| *count == self.nodes.len()))
        })?;
        match joined {
            true => Ok(()),
            false => Err(BrokerError::config(
                "the nodes did not become one cluster",
                format!("after {} s they see {seen:?} nodes", JOIN_TIMEOUT.as_secs()),
                "check whether the machine is too busy; broker.nodes = 1 needs no cluster",
            )),
        }
    }

    /// Pauses, resumes, kills or restarts a node, cuts it off from the others, or joins it again.
    /// Errors: [`BrokerError::Fault`] where there is no such node or it is gone, and those of a restart.
    pub fn inject(&mut self, node: usize, fault: Fault) -> Result<(), BrokerError> {
        let is_cut = match fault {
            Fault::CutOff => true,
            Fault::Join => false,
            _ => {
                let missing = || BrokerError::Fault(format!("there is no node {node}"));
                return self.nodes.get_mut(node).ok_or_else(missing)?.inject(fault);
            }
        };
        let missing = || BrokerError::Fault("the nodes' links do not pass through bellows".into());
        self.relay.as_ref().ok_or_else(missing)?.cut_off(node, is_cut);
        Ok(())
    }

    /// The node, where there is one alone. Errors: there are several, and their data is bound to all of their names.
    pub(super) fn into_only(self) -> Result<RabbitMq, BrokerError> {
        let mut nodes = self.nodes;
        let several = || BrokerError::Fault("data can be kept of one node, not of a cluster".into());
        match nodes.pop() {
            Some(node) if nodes.is_empty() => Ok(node),
            _ => Err(several()),
        }
    }

    /// Stops all nodes at once and removes all of them.
    pub fn stop(self) -> Result<(), BrokerError> {
        self.nodes.into_iter().map(RabbitMq::stop).fold(Ok(()), Result::and)
    }
}

/// Only the first node has the management API: it answers for all, and a port can be listened on once.
pub(super) fn of_node(config: &Config, number: usize) -> Config {
    let mut config = config.clone();
    let own = config.of_nodes.get(number).cloned();
    config.settings.extend(own.unwrap_or_default());
    if number > 0 {
        config.settings.retain(|key, _| !key.starts_with("management."));
        for plugin in &mut config.plugins {
            if plugin == "rabbitmq_management" {
                "rabbitmq_management_agent".clone_into(plugin);
            }
        }
        config.plugins.dedup();
    }
    config
}

/// Starts them side by side; where one fails, the others end, too.
fn start_all(prepared: Vec<Prepared>, what: &str, waiting: &mut Waiting<'_>) -> Result<Vec<RabbitMq>, BrokerError> {
    let is_over = AtomicBool::new(false);
    let (tell, lines) = channel();
    thread::scope(|scope| {
        let starting: Vec<_> = prepared
            .into_iter()
            .enumerate()
            .map(|(number, node)| {
                let (tell, is_over) = (tell.clone(), &is_over);
                scope.spawn(move || {
                    let started = start_one(node, number, &tell, is_over);
                    if started.is_err() {
                        is_over.store(true, SeqCst);
                    }
                    started
                })
            })
            .collect();
        drop(tell);
        let began = Instant::now();
        let mut told = TELL_INTERVAL;
        while starting.iter().any(|thread| !thread.is_finished()) {
            if (waiting.cancelled)() {
                is_over.store(true, SeqCst);
            }
            if began.elapsed() >= told {
                (waiting.progress)(Progress::Waiting(what, told));
                told += TELL_INTERVAL;
            }
            if let Ok(line) = lines.recv_timeout(Duration::from_millis(50)) {
                (waiting.progress)(Progress::Logged(&line));
            } else {
                thread::sleep(Duration::from_millis(5));
            }
        }
        lines.try_iter().for_each(|line| (waiting.progress)(Progress::Logged(&line)));
        let (mut nodes, mut failure) = (Vec::new(), None);
        for thread in starting {
            match thread.join() {
                Ok(Ok(node)) => nodes.push(node),
                // Those that end because of another's failure say less.
                Ok(Err(BrokerError::Cancelled)) if failure.is_some() => {}
                Ok(Err(error)) if matches!(failure, None | Some(BrokerError::Cancelled)) => {
                    failure = Some(error);
                }
                Ok(Err(_)) => {}
                Err(_) => failure = Some(BrokerError::Cancelled),
            }
        }
        failure.map_or(Ok(nodes), Err)
    })
}

fn start_one(
    node: Prepared,
    number: usize,
    tell: &Sender<String>,
    is_over: &AtomicBool,
) -> Result<RabbitMq, BrokerError> {
    let mut progress = |progress: Progress<'_>| {
        if let Progress::Logged(line) = progress {
            // Nobody listens where the start has failed.
            let _ = tell.send(format!("node {number}: {line}"));
        }
    };
    node.start(&mut Waiting { progress: &mut progress, cancelled: &|| is_over.load(SeqCst) })
}
