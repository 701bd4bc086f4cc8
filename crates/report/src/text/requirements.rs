//! Requirements in words: the number missed, and ranges of figures.

use archive::{QuantityUnit, RequirementOutcome};

use crate::numbers::{counted, figure};

/// Whether a requirement held, in a word.
pub(crate) const fn outcome(met: Option<bool>) -> &'static str {
    match met {
        Some(true) => "met",
        Some(false) => "missed",
        None => "unknown",
    }
}

/// Gravest outcome of a run's requirements, and its count: `1 of 2 requirements missed`; `None` without any.
pub(crate) fn requirements_tally(all: &[RequirementOutcome]) -> Option<String> {
    [Some(false), None, Some(true)].into_iter().find_map(|met| {
        let number = all.iter().filter(|it| it.met == met).count();
        let of = counted(all.len() as u64, "requirement");
        (number > 0).then(|| format!("{number} of {of} {}", outcome(met)))
    })
}

/// Range of a figure: `4.2 ms to 18 ms`.
#[must_use]
pub fn range(unit: QuantityUnit, low: f64, high: f64) -> String {
    format!("{} to {}", figure(low, unit), figure(high, unit))
}
