//! Whose work the samples of a node are.

use std::collections::HashMap;

use super::model::Profile;
use super::processes::ErlangProcess;
use crate::summary::WorkShare;

/// What the work of a node is split by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WorkBy {
    /// Process by process, by their names: `queue orders-7`.
    #[default]
    Process,
    /// Kinds of processes: all queues, all channels.
    Role,
    /// Connections, with all processes that work for one.
    Connection,
    /// Virtual hosts.
    VirtualHost,
}

impl WorkBy {
    /// All ways to split.
    pub const ALL: [Self; 4] = [
        Self::Process,
        Self::Role,
        Self::Connection,
        Self::VirtualHost,
    ];

    /// What a process counts for.
    #[must_use]
    pub fn of(self, process: &ErlangProcess) -> String {
        let or = |text: &str, otherwise: &str| match text {
            "" => otherwise.to_owned(),
            text => text.to_owned(),
        };
        match self {
            Self::Process => process.label(),
            Self::Role => or(&process.role, "other processes"),
            Self::Connection => or(&process.connection, "no connection"),
            Self::VirtualHost => or(&process.vhost, "no virtual host"),
        }
    }

    /// What the samples count for that were taken in no process.
    pub const NOBODY: &str = "no Erlang process";
}

/// Weight of what was split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    /// Whose it is; [`WorkBy::NOBODY`] for what no process did.
    pub of: String,
    /// Processes that it is made of.
    pub processes: usize,
    /// The one process that it is, where it is one.
    pub process: Option<u32>,
    /// Sum of the samples' weights.
    pub weight: u64,
}

impl Profile {
    /// Whose work the samples are, the largest weight first, then by name; empty for a profile without
    /// Erlang processes.
    #[must_use]
    pub fn work(&self, by: WorkBy) -> Vec<Work> {
        if self.processes.is_empty() {
            return Vec::new();
        }
        let mut all: HashMap<String, Work> = HashMap::new();
        for (process, weight) in self.sums(|sample| sample.process) {
            let known = process.and_then(|it| self.processes.get(it as usize));
            let of = known.map_or_else(|| WorkBy::NOBODY.to_owned(), |it| by.of(it));
            let work = all.entry(of).or_insert_with_key(|of| Work {
                of: of.clone(),
                processes: 0,
                process,
                weight: 0,
            });
            work.weight = work.weight.saturating_add(weight);
            work.processes += usize::from(known.is_some());
            if work.processes > 1 {
                work.process = None;
            }
        }
        let mut all: Vec<Work> = all.into_values().collect();
        all.sort_by(|a, b| b.weight.cmp(&a.weight).then_with(|| a.of.cmp(&b.of)));
        all
    }

    /// Gives the profile's processes the names that the node has said.
    pub fn name_processes(&mut self, named: &[ErlangProcess]) {
        let named: HashMap<&str, &ErlangProcess> = named
            .iter()
            .map(|process| (process.id.as_str(), process))
            .collect();
        for process in &mut self.processes {
            if let Some(&known) = named.get(process.id.as_str()) {
                process.clone_from(known);
            }
        }
    }

    /// The largest shares of what processes did, at most `top`.
    #[must_use]
    pub fn work_shares(&self, by: WorkBy, top: usize) -> Vec<WorkShare> {
        let all = self.total_weight().max(1) as f64;
        let work = self.work(by).into_iter();
        let work = work.filter(|work| work.of != WorkBy::NOBODY);
        let shares = work.take(top).map(|work| {
            let process = work.process.and_then(|it| self.processes.get(it as usize));
            WorkShare {
                role: process.map_or_else(String::new, |it| it.role.clone()),
                of: work.of,
                share: work.weight as f64 / all,
            }
        });
        shares.collect()
    }
}
