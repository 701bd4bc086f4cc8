//! The Erlang processes of a profile as the page shows them: the largest by themselves, the many small ones together.

use std::collections::{HashMap, HashSet};

use serde::Serialize;
use stacks::{ErlangProcess, Profile};

/// Processes that are shown by themselves.
const MOST_SHOWN: usize = 200;
/// Roles, and virtual hosts, that distinguish the other processes.
const MOST_TOLD_APART: usize = 50;

/// An Erlang process, or several of one role, connection and virtual host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct ProcessView {
    /// Label: `queue orders-7`.
    pub label: String,
    /// Its identifier, `<0.123.0>`; empty where it stands for several.
    pub id: String,
    /// Role: `queue`, `channel`; empty where not known.
    pub role: String,
    /// The connection that it works for; empty where it works for none, null where it stands for processes of several.
    pub connection: Option<String>,
    /// The virtual host that it works for; empty for none, null where it stands for processes of several.
    pub vhost: Option<String>,
    /// Processes that it stands for.
    pub processes: u32,
}

/// The processes of a profile, and which of them each of the profile's own counts for.
pub(super) struct Processes {
    pub(super) views: Vec<ProcessView>,
    /// Index of the view, by index in the profile.
    shown: Vec<Option<usize>>,
}

impl Processes {
    pub(super) fn of(profile: &Profile) -> Self {
        let mut weights = vec![0u64; profile.processes.len()];
        for sample in &profile.samples {
            let process = sample.process.and_then(|it| weights.get_mut(it as usize));
            if let Some(weight) = process {
                *weight = weight.saturating_add(sample.weight);
            }
        }
        let mut order: Vec<(usize, &ErlangProcess)> = profile.processes.iter().enumerate().collect();
        order.retain(|(at, _)| weights.get(*at).is_some_and(|&weight| weight > 0));
        order.sort_by_key(|(at, _)| std::cmp::Reverse(weights.get(*at)));
        let mut processes = Self { views: Vec::new(), shown: vec![None; profile.processes.len()] };
        let mut together: HashMap<ProcessView, usize> = HashMap::new();
        let mut told_apart = ToldApart::default();
        let told = profile.has_named_processes();
        let mut alone_so_far = 0;
        for (at, process) in order {
            let view = if told && process.is_unnamed() {
                *together.entry(unnamed(process)).or_insert_with_key(|view| processes.add(view.clone()))
            } else if alone_so_far < MOST_SHOWN {
                alone_so_far += 1;
                told_apart.connections.insert(&process.connection);
                processes.add(alone(process))
            } else {
                let key = told_apart.others(process);
                *together.entry(key).or_insert_with_key(|view| processes.add(view.clone()))
            };
            if let Some(view) = processes.views.get_mut(view) {
                view.processes += 1;
            }
            if let Some(shown) = processes.shown.get_mut(at) {
                *shown = Some(view);
            }
        }
        processes
    }

    fn add(&mut self, view: ProcessView) -> usize {
        self.views.push(view);
        self.views.len() - 1
    }

    /// The number of a sample's process in the columns: 0 for none, else its index and 1.
    pub(super) fn number(&self, process: Option<u32>) -> u64 {
        let shown = process.and_then(|it| self.shown.get(it as usize).copied().flatten());
        shown.map_or(0, |view| view as u64 + 1)
    }
}

fn alone(process: &ErlangProcess) -> ProcessView {
    ProcessView {
        label: process.label(),
        id: process.id.clone(),
        role: process.role.clone(),
        connection: Some(process.connection.clone()),
        vhost: Some(process.vhost.clone()),
        ..ProcessView::default()
    }
}

/// All processes of a role without a name, among named ones. Their connection and virtual host are not known.
fn unnamed(process: &ErlangProcess) -> ProcessView {
    ProcessView {
        label: process.unnamed_label(),
        role: process.role.clone(),
        connection: Some(String::new()),
        vhost: Some(String::new()),
        ..ProcessView::default()
    }
}

/// Attributes that group processes not shown alone: connections of those shown, and as many roles and hosts as fit.
#[derive(Default)]
struct ToldApart<'a> {
    connections: HashSet<&'a str>,
    roles: HashSet<&'a str>,
    vhosts: HashSet<&'a str>,
}

impl<'a> ToldApart<'a> {
    /// View that stands for such a process and others.
    fn others(&mut self, process: &'a ErlangProcess) -> ProcessView {
        let ErlangProcess { role, vhost, connection, .. } = process;
        let role = fitting(&mut self.roles, role).unwrap_or_default();
        let vhost = fitting(&mut self.vhosts, vhost);
        let known = connection.is_empty() || self.connections.contains(connection.as_str());
        let of = if role.is_empty() { "processes" } else { role };
        ProcessView {
            label: format!("other: {of}"),
            role: role.to_owned(),
            connection: known.then(|| connection.clone()),
            vhost: vhost.map(str::to_owned),
            ..ProcessView::default()
        }
    }
}

/// The name, where it is empty, known or still fits.
fn fitting<'a>(known: &mut HashSet<&'a str>, name: &'a str) -> Option<&'a str> {
    let fits = name.is_empty() || known.contains(name) || known.len() < MOST_TOLD_APART;
    fits.then(|| {
        if !name.is_empty() {
            known.insert(name);
        }
        name
    })
}

#[cfg(test)]
mod tests {
    use stacks::{Sample, WorkBy};

    use super::*;

    fn sample(process: usize, weight: u64) -> Sample {
        Sample { weight, complete: true, process: Some(process as u32), ..Sample::default() }
    }

    #[test]
    fn the_largest_stand_alone_and_the_others_by_their_role() {
        let process = |i: usize| {
            let (id, role) = (format!("<0.{i}.0>"), ["queue", "channel"][i % 2].into());
            ErlangProcess { id, role, ..ErlangProcess::default() }
        };
        let all = MOST_SHOWN + 10;
        // The later, the larger; the last has no sample.
        let samples = (0..all).map(|i| sample(i, i as u64 + 1));
        let profile = Profile {
            processes: (0..=all).map(process).collect(),
            samples: samples.chain([Sample { process: None, ..sample(0, 5) }]).collect(),
            ..Profile::default()
        };
        let processes = Processes::of(&profile);
        assert_eq!(processes.views.len(), MOST_SHOWN + 2);
        assert_eq!(processes.views[0].id, format!("<0.{}.0>", all - 1));
        let all = all as u32;
        let numbers = [Some(all - 1), None, Some(all), Some(u32::MAX)].map(|it| processes.number(it));
        assert_eq!(numbers, [1, 0, 0, 0]);
        let labels = [0, 1].map(|i| &*processes.views[processes.number(Some(i)) as usize - 1].label);
        assert_eq!(labels, ["other: queue", "other: channel"]);
    }

    #[test]
    fn those_that_the_node_did_not_name_stand_together_however_large_they_are() {
        let process = |i: usize| ErlangProcess {
            role: "cowboy_http".into(),
            from_stacks: i > 0,
            ..ErlangProcess::unnamed(format!("<0.{i}.0>"))
        };
        let mut profile = Profile {
            processes: (0..300).map(process).collect(),
            samples: (0..300).map(|i| sample(i, 1 + i as u64)).collect(),
            ..Profile::default()
        };
        let views = Processes::of(&profile).views;
        let told: Vec<_> = views.iter().map(|it| (&*it.label, it.processes)).collect();
        assert_eq!(told, [("unnamed: cowboy_http", 299), ("cowboy_http <0.0.0>", 1)]);
        let rows = profile.work(WorkBy::Process);
        assert_eq!(rows.iter().map(|it| (&*it.of, it.processes as u32)).collect::<Vec<_>>(), told);
        // Nobody is named: each stands for itself.
        profile.processes[0].from_stacks = true;
        assert_eq!(Processes::of(&profile).views.len(), MOST_SHOWN + 1);
    }

    #[test]
    fn roles_are_no_more_than_fit() {
        let process =
            |i: usize| ErlangProcess { role: format!("role {i}"), ..ErlangProcess::unnamed(format!("<0.{i}.0>")) };
        let profile = Profile {
            processes: (0..1000).map(process).collect(),
            samples: (0..1000).map(|i| sample(i, 1)).collect(),
            ..Profile::default()
        };
        let views = Processes::of(&profile).views;
        assert_eq!(views.len(), MOST_SHOWN + MOST_TOLD_APART + 1);
        let shown: u32 = views.iter().map(|view| view.processes).sum();
        assert_eq!(shown, 1000);
    }

    /// Weight by the page's split; the rest, which is not distinguished further, counts for null.
    fn split(profile: &Profile, key: impl Fn(&ProcessView) -> Option<String>) -> HashMap<Option<String>, u64> {
        let processes = Processes::of(profile);
        let mut sums = HashMap::new();
        for sample in &profile.samples {
            let view = &processes.views[processes.number(sample.process) as usize - 1];
            *sums.entry(key(view)).or_default() += sample.weight;
        }
        sums
    }

    #[test]
    fn shares_of_connections_and_virtual_hosts_are_those_of_the_table() {
        // Queues of no connection are large, so that most of what connections have is not shown by itself.
        let process = |i: usize| ErlangProcess {
            id: format!("<0.{i}.0>"),
            role: ["queue", "channel", "reader"][i % 3].into(),
            name: format!("p{i}"),
            vhost: format!("v{}", i % 60),
            connection: if i.is_multiple_of(3) { String::new() } else { format!("c{}", i / 3 % 150) },
            from_stacks: false,
        };
        let profile = Profile {
            processes: (0..845).map(process).collect(),
            samples: (0..845).map(|i| sample(i, [3, 2, 3][i % 3])).collect(),
            ..Profile::default()
        };
        for (by, none, sums) in [
            (WorkBy::Connection, "no connection", split(&profile, |view| view.connection.clone())),
            (WorkBy::VirtualHost, "no virtual host", split(&profile, |view| view.vhost.clone())),
        ] {
            let mut others = 0;
            for row in profile.work(by) {
                let name = if row.of == none { "" } else { &row.of };
                match sums.get(&Some(name.to_owned())) {
                    // A virtual host that has no room for its small processes has them among the others.
                    Some(&weight) if weight < row.weight => others += row.weight - weight,
                    Some(&weight) => assert_eq!(weight, row.weight, "{name}"),
                    None => others += row.weight,
                }
            }
            assert!(others > 0 && sums.get(&None) == Some(&others), "{by:?}: {others} in {sums:?}");
        }
    }
}
