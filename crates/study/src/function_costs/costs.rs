//! Costs of functions and call paths of a run's broker, per message.

use std::collections::HashMap;
use std::path::Path;

use archive::{Quantity, RunRecord};
use stacks::{
    Builds, FORMATS, Profile, ProfileSummary, ShareDetail, ShareTree, USUAL_EVENT, sampled_events,
};

/// Limits of the call paths that are kept of a run: far below those asked about, so that a frame which is dear in other
/// runs is rarely missing.
const DETAIL: ShareDetail = ShareDetail {
    least: 0.000_2,
    most: 10_000,
};

/// CPU per message of a run's functions.
#[derive(Clone, Debug, Default)]
pub struct FunctionCosts {
    /// Of the whole broker, nanoseconds per message.
    pub(super) broker: f64,
    /// With functions that have no name of their own called after their neighbours, which are the same in all runs of
    /// one build.
    pub(super) of_build: Costed,
    /// With such functions of a file as one, for builds that differ.
    pub(super) of_names: Costed,
    pub(super) summary: ProfileSummary,
    /// Which builds its files are of, by what they are called in all their versions.
    pub(super) builds: Builds,
}

/// Costs to be set against other runs.
#[derive(Clone, Debug, Default)]
pub(super) struct Costed {
    /// By name and module.
    pub(super) functions: HashMap<Function, Costs>,
    /// Call paths, by their shares of the broker's.
    pub(super) stacks: ShareTree,
}

impl Costed {
    /// That of a profile, of which all samples together cost so much.
    fn of(profile: &Profile, broker: f64) -> Self {
        Self {
            functions: functions(profile, broker),
            stacks: profile.share_tree(DETAIL),
        }
    }

    pub(super) fn costs(&self, function: &Function) -> Costs {
        self.functions.get(function).copied().unwrap_or_default()
    }
}

/// Name and module.
pub(super) type Function = (String, String);

/// Nanoseconds per message with a function at the leaf of the stack, anywhere on it, and anywhere on stacks that are
/// cut.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Costs {
    pub(super) own: f64,
    pub(super) total: f64,
    pub(super) cut: f64,
}

impl FunctionCosts {
    /// Those of a run with its CPU profile; `None` where its broker's CPU per message is not known, or nothing was
    /// sampled.
    #[must_use]
    pub fn of(record: &RunRecord, profile: &Profile) -> Option<Self> {
        let summary = record.summary.as_ref()?;
        let cpu: Quantity = "broker cpu".parse().ok()?;
        let broker = cpu.of(summary).ok();
        let broker = broker.filter(|it| it.is_finite() && *it > 0.0)?;
        if profile.samples.is_empty() || profile.header.event != USUAL_EVENT {
            return None;
        }
        Some(Self {
            broker,
            of_build: Costed::of(&profile.by_function(true), broker),
            of_names: Costed::of(&profile.by_named_function(), broker),
            summary: profile.summary(0),
            builds: profile.builds.without_versions(),
        })
    }

    /// Those of a run folder. A run with the profiles of several nodes has none.
    #[must_use]
    pub fn read(record: &RunRecord, dir: &Path) -> Option<Self> {
        let events = sampled_events(dir);
        let of_cpu = events
            .iter()
            .filter(|it| it.split('@').next() == Some(USUAL_EVENT));
        if of_cpu.count() != 1 {
            return None;
        }
        let profile = Profile::open_as(&FORMATS, dir, Some(USUAL_EVENT)).ok()?;
        Self::of(record, &profile)
    }

    /// Those of a run with the profiles of all its events.
    #[must_use]
    pub fn of_profiles(record: &RunRecord, profiles: &[Profile]) -> Option<Self> {
        let mut of_cpu = profiles.iter().filter(|it| it.header.event == USUAL_EVENT);
        match (of_cpu.next(), of_cpu.next()) {
            (Some(profile), None) => Self::of(record, profile),
            _ => None,
        }
    }
}

/// The costs of all functions of a profile, of which all samples together cost so much.
fn functions(profile: &Profile, broker: f64) -> HashMap<Function, Costs> {
    let mut functions: HashMap<Function, Costs> = HashMap::new();
    for row in profile.functions() {
        let costs = functions
            .entry((row.share.function, row.share.module))
            .or_default();
        costs.own += row.share.self_share * broker;
        costs.total += row.share.total * broker;
    }
    let all = profile.total_weight().max(1) as f64;
    for row in profile.of_cut_stacks().functions() {
        if let Some(costs) = functions.get_mut(&(row.share.function, row.share.module)) {
            costs.cut += row.total_weight as f64 / all * broker;
        }
    }
    functions
}
