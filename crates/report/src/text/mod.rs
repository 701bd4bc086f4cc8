//! Sentences for people on verdicts and warnings, which are data. Whoever runs an experiment hands these functions on,
//! so that the archive keeps the sentences beside the data.

pub(crate) mod comparison;
pub(crate) mod functions;
pub(crate) mod limit;
mod looks;
pub(crate) mod matrix;
mod observer_effect;
mod options;
mod profile;
mod reasons;
pub(crate) mod scale;
mod stalls;
mod verdict;
mod warnings;

use std::borrow::Cow;

use archive::{QuantityUnit, RequirementOutcome};

use crate::numbers::{counted, figure};

pub use crate::numbers::{bytes, rate, three_digits};
pub use looks::{look, trace};
pub use observer_effect::observer_effect;
pub(crate) use observer_effect::{change_and_interval, percent as effect_percent};
pub use options::{options, remedy};
pub use profile::{amount, class_meaning, classes, clock, covered, known_pattern, stacks, work};
pub use stalls::stall;
pub use verdict::verdict;
pub use warnings::warning;
pub(crate) use warnings::{SaidWithin, said_within};

/// A scenario's name as people read it, and as its latencies begin: `probe queue-page`.
pub(crate) fn scenario_name(name: &str) -> String {
    name.split_once('_').map_or_else(|| name.to_owned(), |(kind, own)| format!("{kind} {}", own.replace('_', "-")))
}

/// The name in at most so many letters: a longer one is cut in the middle, because related names often begin alike and
/// differ at the end. No blank stands beside the cut, where a line could break.
pub(crate) fn shortened(name: &str, most: usize) -> Cow<'_, str> {
    let letters = name.chars().count();
    if letters <= most {
        return Cow::Borrowed(name);
    }
    let kept = most.saturating_sub(1);
    let tail = kept / 2;
    let head: String = name.chars().take(kept - tail).collect();
    let tail: String = name.chars().skip(letters - tail).collect();
    Cow::Owned(format!("{}…{}", head.trim_end(), tail.trim_start()))
}

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
pub fn range(unit: QuantityUnit, low: f64, high: f64) -> String {
    format!("{} to {}", figure(low, unit), figure(high, unit))
}

#[cfg(test)]
mod of_server_tests;
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tells_names_apart_stays() {
        assert_eq!(shortened("orders", 6), "orders");
        assert_eq!(shortened("orders-of-the-web-shop-eu-1", 16), "orders-o…op-eu-1");
        assert_eq!(shortened("ääääöööö", 4), "ää…ö");
        assert_eq!(shortened("abc", 0), "…");
        assert_eq!(shortened("bellows producer 0", 13), "bellow…ucer 0");
        assert_eq!(shortened("bellows 0 of 12", 13), "bellow…of 12");
        assert_eq!(shortened("one and two", 8), "one…two");
    }
}
