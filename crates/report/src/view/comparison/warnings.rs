//! Warnings of many runs, each kind once.

use std::collections::BTreeMap;

use archive::{RunReader, Tier, WarningCode};
use serde::Serialize;

use crate::text::{SaidWithin, said_within};

/// A warning that runs of a comparison have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct SideWarning {
    /// Consequence for the numbers.
    pub tier: Tier,
    /// Its kind.
    pub code: WarningCode,
    /// Runs of A that have it.
    pub a: usize,
    /// Runs of B that have it.
    pub b: usize,
    /// Sentence of the first of them.
    pub text: String,
    /// Words of others within it, for redaction.
    #[serde(skip)]
    #[cfg_attr(test, ts(skip))]
    pub(crate) said: Option<SaidWithin>,
}

/// The warnings of both sides' runs, the graver first. Notes are the runs' own matter.
pub(super) fn of(a: &[Option<RunReader>], b: &[Option<RunReader>]) -> Vec<SideWarning> {
    let mut found: BTreeMap<(Tier, WarningCode), SideWarning> = BTreeMap::new();
    for (side, is_a) in [(a, true), (b, false)] {
        for run in side.iter().flatten() {
            let mut seen = Vec::new();
            for warning in run.record.summary.iter().flat_map(|it| &it.warnings) {
                // Sides that both are of a debug build can be compared.
                let tier = match warning.code() {
                    WarningCode::DebugBuild => Tier::Caution,
                    _ => warning.tier,
                };
                let key = (tier, warning.code());
                if warning.tier == Tier::Note || seen.contains(&key) {
                    continue;
                }
                seen.push(key);
                let entry = found.entry(key).or_insert_with(|| SideWarning {
                    tier,
                    code: warning.code(),
                    a: 0,
                    b: 0,
                    text: warning.text.clone(),
                    said: said_within(warning),
                });
                match is_a {
                    true => entry.a += 1,
                    false => entry.b += 1,
                }
            }
        }
    }
    found.into_values().collect()
}
