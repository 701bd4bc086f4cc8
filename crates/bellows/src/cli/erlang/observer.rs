//! Slowdown of followed calls against those between them of which only the entry is traced.

use erlang::calls::{ObserverEffect, Path};
use measure::{Nanos, counted};
use serde::Serialize;

use super::paths::nanos;

/// With fewer calls of either kind the ratio of medians is rough.
const FEW: usize = 10;

/// The observer effect as data.
#[derive(Debug, Serialize)]
pub(super) struct ObserverRow {
    followed_calls: usize,
    followed_p50_ns: u64,
    beside_calls: usize,
    beside_p50_ns: u64,
    ratio: f64,
}

impl ObserverRow {
    /// The row of a measured effect.
    pub(super) fn of(effect: &ObserverEffect) -> Self {
        Self {
            followed_calls: effect.followed,
            followed_p50_ns: nanos(effect.followed_median),
            beside_calls: effect.beside,
            beside_p50_ns: nanos(effect.beside_median),
            ratio: effect.ratio(),
        }
    }
}

/// A line for the terminal, empty where no call was followed.
pub(super) fn line(path: &Path) -> String {
    match path.observer_effect() {
        Some(effect) => told(&effect),
        None if path.calls.is_empty() => String::new(),
        None => "\nObserver effect: not known, as no call came between the followed ones; --for gives more time.\n"
            .to_owned(),
    }
}

fn told(effect: &ObserverEffect) -> String {
    let rough = match effect.followed.min(effect.beside) < FEW {
        true => " Of so few calls this is rough.",
        false => "",
    };
    format!(
        "\nObserver effect: {} took {} (median), {} between them, of which only this function was traced, {}: {:.2} times as long.{rough}\n",
        counted(effect.followed as u64, "followed call"),
        Nanos(nanos(effect.followed_median)),
        counted(effect.beside as u64, "call"),
        Nanos(nanos(effect.beside_median)),
        effect.ratio(),
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn both_medians_their_numbers_and_the_ratio_are_told() {
        let mut effect = ObserverEffect {
            followed: 15,
            followed_median: Duration::from_millis(600),
            beside: 5,
            beside_median: Duration::from_millis(400),
        };
        assert_eq!(
            told(&effect),
            "\nObserver effect: 15 followed calls took 600 ms (median), 5 calls between them, of which only this function was traced, 400 ms: 1.50 times as long. Of so few calls this is rough.\n"
        );
        effect.beside = 10;
        assert!(told(&effect).ends_with("1.50 times as long.\n"));
    }
}
