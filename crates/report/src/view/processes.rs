//! The Erlang processes of a profile as the page shows them: the largest by themselves, the many small ones
//! together.

use std::collections::HashMap;

use archive::profile::{ErlangProcess, Profile};
use serde::Serialize;

/// Processes that are shown by themselves.
const MOST_SHOWN: usize = 200;
/// Lines that the others are added up in, one for each role.
const MOST_TOGETHER: usize = 50;

/// An Erlang process, or several of one role.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct ProcessView {
    /// What it is called: `queue orders-7`.
    pub label: String,
    /// Its identifier, `<0.123.0>`; empty where several are one.
    pub id: String,
    /// What it is: `queue`, `channel`; empty where not known.
    pub role: String,
    /// The connection that it works for; empty where it works for none.
    pub connection: String,
    /// The virtual host that it works for; empty where it works for none.
    pub vhost: String,
}

/// The processes of a profile, and which of them each of the profile's own counts for.
pub(super) struct Processes {
    pub(super) views: Vec<ProcessView>,
    /// By index in the profile: index of the view.
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
        let mut order: Vec<(usize, &ErlangProcess)> =
            profile.processes.iter().enumerate().collect();
        order.retain(|(at, _)| weights.get(*at).is_some_and(|&weight| weight > 0));
        order.sort_by_key(|(at, _)| std::cmp::Reverse(weights.get(*at)));
        let mut processes = Self {
            views: Vec::new(),
            shown: vec![None; profile.processes.len()],
        };
        let mut together: HashMap<String, usize> = HashMap::new();
        for (place, (at, process)) in order.into_iter().enumerate() {
            let view = if place < MOST_SHOWN {
                processes.add(alone(process))
            } else {
                let full = together.len() >= MOST_TOGETHER && !together.contains_key(&process.role);
                let role = if full { "" } else { &process.role };
                let known = together.get(role).copied();
                known.unwrap_or_else(|| {
                    let view = processes.add(others(role));
                    together.insert(role.to_owned(), view);
                    view
                })
            };
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
        connection: process.connection.clone(),
        vhost: process.vhost.clone(),
    }
}

fn others(role: &str) -> ProcessView {
    let of = if role.is_empty() { "processes" } else { role };
    ProcessView {
        label: format!("other: {of}"),
        role: role.to_owned(),
        ..ProcessView::default()
    }
}

#[cfg(test)]
mod tests {
    use archive::profile::{Sample, Unwinding};

    use super::*;

    #[test]
    fn the_largest_stand_alone_and_the_others_by_their_role() {
        let process = |i: usize| ErlangProcess {
            id: format!("<0.{i}.0>"),
            role: if i.is_multiple_of(2) {
                "queue"
            } else {
                "channel"
            }
            .into(),
            ..ErlangProcess::default()
        };
        let sample = |process, weight| Sample {
            t: 0,
            weight,
            stack: 0,
            thread: 0,
            cpu: 0,
            complete: true,
            unwinding: Unwinding::Unknown,
            process,
        };
        let all = MOST_SHOWN + 10;
        // The later, the larger; the last has no sample.
        let samples = (0..all).map(|i| sample(Some(i as u32), i as u64 + 1));
        let profile = Profile {
            processes: (0..=all).map(process).collect(),
            samples: samples.chain([sample(None, 5)]).collect(),
            ..Profile::default()
        };
        let processes = Processes::of(&profile);
        assert_eq!(processes.views.len(), MOST_SHOWN + 2);
        assert_eq!(processes.views[0].id, format!("<0.{}.0>", all - 1));
        assert_eq!(processes.number(Some(all as u32 - 1)), 1);
        let labels = |i: u32| {
            let number = processes.number(Some(i)) as usize;
            processes.views[number - 1].label.as_str()
        };
        assert_eq!((labels(0), labels(1)), ("other: queue", "other: channel"));
        assert_eq!(processes.number(None), 0);
        assert_eq!(processes.number(Some(all as u32)), 0);
        assert_eq!(processes.number(Some(u32::MAX)), 0);
    }

    #[test]
    fn roles_are_no_more_than_fit() {
        let process = |i: usize| ErlangProcess {
            role: format!("role {i}"),
            ..ErlangProcess::unnamed(format!("<0.{i}.0>"))
        };
        let sample = |i: u32| Sample {
            t: 0,
            weight: 1,
            stack: 0,
            thread: 0,
            cpu: 0,
            complete: true,
            unwinding: Unwinding::Unknown,
            process: Some(i),
        };
        let profile = Profile {
            processes: (0..1000).map(process).collect(),
            samples: (0..1000).map(sample).collect(),
            ..Profile::default()
        };
        let views = Processes::of(&profile).views;
        assert_eq!(views.len(), MOST_SHOWN + MOST_TOGETHER + 1);
    }
}
