//! Clusters: how many nodes start, the policies of their queues, and which nodes loads connect to and faults hit.

use std::collections::BTreeMap;

use load::{Endpoint, Error};
use measure::Problem;
use serde::{Deserialize, Serialize};

use super::error::{ensure, wrong};
use super::{BrokerKind, BrokerSpec, Experiment, LoadSpec, RunFault};

/// Nodes of a cluster on one machine, at most.
pub const MOST_NODES: u32 = 9;

/// A policy of a managed RabbitMQ: what its queues are like that are called so.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PolicySpec {
    /// A regular expression: names of queues or exchanges.
    pub pattern: String,
    /// `queues`, `classic_queues`, `quorum_queues`, `streams`, `exchanges` or `all`. `queues` where absent.
    pub apply_to: Option<String>,
    /// The policy of several that counts: the largest. 0 where absent.
    pub priority: Option<i64>,
    /// The policy's definition as RabbitMQ takes it, such as `{ ha-mode = "all" }` or `{ max-length = 1000 }`.
    pub definition: BTreeMap<String, toml::Value>,
}

impl BrokerSpec {
    /// The nodes that are started.
    pub fn node_count(&self) -> u32 {
        self.nodes.unwrap_or(1)
    }

    pub(super) fn check_cluster(&self) -> Result<(), Problem> {
        let count = self.node_count();
        let why = format!(" = {count} is not between 1 and {MOST_NODES}");
        ensure((1..=MOST_NODES).contains(&count), "broker.nodes", why, "3 is usual")?;
        let why = " has no effect on a cluster: each node would have certificates of its own";
        ensure(count == 1 || !self.tls, "broker.tls", why, "leave it out, or set broker.nodes = 1")?;
        let Some(file) = &self.definitions else { return Ok(()) };
        let why = format!(": there is no file {}", file.display());
        ensure(file.is_file(), "broker.definitions", why, "make one with `bellows topology generate`")
    }
}

impl Experiment {
    /// Adds the nodes that were started for the run.
    pub fn with_nodes(mut self, nodes: Vec<Endpoint>) -> Self {
        self.cluster = nodes;
        self
    }

    /// Whether a fault cuts a node off from the others.
    pub fn cuts_nodes_off(&self) -> bool {
        self.fault.iter().any(|fault| fault.kind == RunFault::Partition)
    }

    /// The nodes that there are: those of a managed cluster, or of one that is attached to.
    fn all_nodes(&self) -> usize {
        match self.broker.kind {
            BrokerKind::Attach => 1 + self.broker.further_urls.len(),
            _ => self.broker.node_count() as usize,
        }
    }

    /// The nodes beside the first that groups connect to.
    pub(super) fn further_nodes(&self, first: &Endpoint) -> Result<Vec<Endpoint>, Error> {
        if self.broker.kind == BrokerKind::Attach {
            return self.further_endpoints();
        }
        let started = self.cluster.iter().skip(1).cloned();
        // Before they are started, only their number counts.
        let missing = self.all_nodes().saturating_sub(self.cluster.len().max(1));
        Ok(started.chain(vec![first.clone(); missing]).collect())
    }

    pub(super) fn check_nodes_of_loads(&self) -> Result<(), Problem> {
        let all = self.all_nodes();
        for (i, spec) in self.load.iter().enumerate() {
            let key = || format!("load.{i}.nodes");
            let numbers = spec.nodes.numbers();
            if let Some(missing) = numbers.iter().find(|node| **node as usize >= all) {
                let why = format!(" names node {missing}, and there are {all}, from 0 on");
                return Err(wrong(key(), why, "name one that there is, or set broker.nodes"));
            }
            let why = " has no effect on a load with a url of its own";
            ensure(numbers.is_empty() || spec.url.is_none(), key(), why, "leave out one of the two")?;
        }
        Ok(())
    }
}

/// The positions of the nodes that a group's connections begin on; empty: all.
pub(super) fn begins_on(spec: &LoadSpec) -> Vec<usize> {
    spec.nodes.numbers().iter().map(|node| *node as usize).collect()
}

#[cfg(test)]
mod tests {
    use crate::spec_tests::refused;

    #[test]
    fn clusters_that_cannot_be_are_refused_with_the_remedy() {
        let three = "[broker]\nnodes = 3\n[[load]]\n";
        let fault = |kind: &str, node: u32| {
            format!("{three}recover = \"1s\"\n[[fault]]\nat = \"1s\"\nfor = \"1s\"\nkind = \"{kind}\"\nnode = {node}")
        };
        for fine in [
            three.to_owned(),
            format!("{three}nodes = [0, 2]"),
            format!("{three}nodes = \"all\""),
            fault("kill", 2),
            fault("partition", 1),
        ] {
            assert_eq!(refused(&fine), "", "{fine}");
        }
        for [wrong, part] in testkit::table(include_str!("../tests/data/no-clusters.txt")) {
            testkit::assert_has(refused(wrong), [part]);
        }
    }
}
