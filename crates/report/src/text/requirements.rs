//! Requirements in words: how many were missed, and what a figure was.

use archive::{QuantityUnit, RequirementOutcome};

use crate::numbers::{counted, figure};

/// The gravest outcome of a run's requirements, and how many have it: `1 of 2 requirements missed`; `None` where
/// nothing was required.
pub(crate) fn requirements_tally(all: &[RequirementOutcome]) -> Option<String> {
    let outcomes = [
        (Some(false), "missed"),
        (None, "unknown"),
        (Some(true), "met"),
    ];
    outcomes.into_iter().find_map(|(met, word)| {
        let number = all.iter().filter(|it| it.met == met).count();
        let of = counted(all.len() as u64, "requirement");
        (number > 0).then(|| format!("{number} of {of} {word}"))
    })
}

/// What a figure was at least and at most: `4.2 ms to 18 ms`.
#[must_use]
pub fn range(unit: QuantityUnit, low: f64, high: f64) -> String {
    format!("{} to {}", figure(low, unit), figure(high, unit))
}
