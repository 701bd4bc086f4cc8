//! Sentences of a search for the highest rate that holds.

use std::collections::{BTreeMap, BTreeSet};

use archive::{
    FoundLimit, LimitOutcome, LimitTrial, LimitTrials, LimitedBy, Tier, Warning, WarningCode,
};
use compare::knee;

use super::scale::{scale_headline, scale_notes};
use crate::numbers::{counted, duration, percent, rate};

/// Where latency begins to rise faster than the rate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Knee {
    /// Messages per second.
    pub(crate) rate: f64,
    /// The 99th percentile there, nanoseconds.
    pub(crate) p99_ns: u64,
}

/// The knee of the 99th percentile over the rates that were tried, by their medians; `None` where it has none.
pub(crate) fn knee_of(of: &LimitTrials) -> Option<Knee> {
    let points: Vec<(f64, f64)> = rates(of)
        .into_iter()
        .filter_map(|rate| Some((rate, median_p99(of, rate)? as f64)))
        .collect();
    let (rate, p99) = points.get(knee(&points)?)?;
    Some(Knee {
        rate: *rate,
        p99_ns: *p99 as u64,
    })
}

/// The median of the 99th percentiles of a rate's trials.
fn median_p99(of: &LimitTrials, rate: f64) -> Option<u64> {
    let trials = of.trials.iter().filter(|it| it.rate == rate);
    let mut values: Vec<u64> = trials
        .filter_map(|it| Some(it.latency.as_ref()?.p99_ns))
        .collect();
    values.sort_unstable();
    let upper = values.get(values.len() / 2)?;
    let lower = values.get((values.len() - 1) / 2)?;
    Some(u64::midpoint(*lower, *upper))
}

/// The trial that stands for a rate, and its number: the one with the median 99th percentile, of an even number the higher of the two in the
/// middle; where none measured a latency, the last one.
pub(crate) fn typical_trial(of: &LimitTrials, rate: f64) -> Option<(usize, &LimitTrial)> {
    let all = (1..).zip(&of.trials).filter(|(_, it)| it.rate == rate);
    let p99 = |it: &LimitTrial| it.latency.as_ref().map(|it| it.p99_ns);
    let mut measured: Vec<_> = all.clone().filter(|(_, it)| p99(it).is_some()).collect();
    measured.sort_by_key(|(_, it)| p99(it));
    measured
        .get(measured.len() / 2)
        .copied()
        .or_else(|| all.last())
}

/// Where the knee lies, or why there is none; `None` where no latency was measured.
pub(crate) fn knee_text(of: &LimitTrials) -> Option<String> {
    let name = of.trials.iter().rfind(|it| it.latency.is_some())?;
    let measured = rates(of)
        .into_iter()
        .filter(|rate| median_p99(of, *rate).is_some())
        .count();
    let name = &name.latency_name;
    Some(match knee_of(of) {
        Some(knee) => format!(
            "the knee lies at {} msg/s, {name} p99 {}: beyond it latency rises faster than the rate (Kneedle){}",
            rate(knee.rate),
            duration(knee.p99_ns),
            higher_before(of, knee)
        ),
        None if measured < compare::LEAST_RATES => format!(
            "no knee is told from fewer than {} rates with a latency",
            compare::LEAST_RATES
        ),
        None => format!(
            "no knee in the tried range: nowhere does the {name} p99 begin to rise faster than the rate"
        ),
    })
}

/// That a rate below the knee had a higher latency than the knee's, which is noise; empty where none had.
fn higher_before(of: &LimitTrials, knee: Knee) -> String {
    let before = rates(of).into_iter().filter(|it| *it < knee.rate);
    let highest = before
        .filter_map(|rate| Some((median_p99(of, rate)?, rate)))
        .max_by_key(|it| it.0)
        .filter(|it| it.0 > knee.p99_ns);
    highest.map_or_else(String::new, |(p99_ns, slower)| {
        format!(
            "; that is rough, since {} msg/s had {}: longer trials tell more",
            rate(slower),
            duration(p99_ns)
        )
    })
}

/// What was found, in a sentence.
pub(crate) fn headline(of: &LimitTrials) -> String {
    if let Some(scale) = &of.scale {
        return scale_headline(scale);
    }
    let found = of.found.unwrap_or_default();
    let trials = counted(of.trials.len() as u64, "trial");
    match found {
        _ if of.trials.is_empty() => "no trial has ended, so that nothing is known".to_owned(),
        FoundLimit { low: None, .. } if of.untold().is_some() => untold(of),
        FoundLimit {
            low: Some(low),
            high: Some(high),
            confirmed,
            ..
        } => {
            let rest = match confirmed {
                true => String::new(),
                false => format!(", as far as {trials} tell: that is not confirmed"),
            };
            format!(
                "the highest rate that holds lies between {} and {} msg/s{rest}",
                rate(low),
                rate(high)
            )
        }
        FoundLimit {
            low: Some(low),
            unclear: Some(unclear),
            ..
        } => format!(
            "{} msg/s hold; at {} msg/s the generator or others on its machine are the limit, so that the broker's own is not known",
            rate(low),
            rate(unclear)
        ),
        FoundLimit { low: Some(low), .. } if (f64::MIN_POSITIVE..=low).contains(&of.plan.most) => {
            format!(
                "{} msg/s hold, the highest rate that may be tried: --most allows more",
                rate(low)
            )
        }
        FoundLimit { low: Some(low), .. } => {
            format!(
                "{} msg/s hold, and no rate was found that does not",
                rate(low)
            )
        }
        FoundLimit {
            high: Some(high), ..
        } => format!("no rate holds that was tried, down to {} msg/s", rate(high)),
        FoundLimit { .. } => {
            format!("{trials} were made, and none tells whether its rate holds")
        }
    }
}

/// That trials are too short for what is asked for, or something else keeps it from being told.
fn untold(of: &LimitTrials) -> String {
    let lowest = rates(of).first().copied().unwrap_or_default();
    let what = of.untold().map(|it| match &it.why {
        Some(why) => format!("{}: {why}", it.that),
        None => it.that.clone(),
    });
    format!(
        "cannot tell whether {} msg/s hold: {}",
        rate(lowest),
        what.unwrap_or_default()
    )
}

/// What a rate has to meet, in a line.
pub(crate) fn asked(of: &LimitTrials) -> String {
    let kept = "at least 99.5 % sent and received";
    match of.slos.is_empty() {
        true => format!("to hold, a rate needs {kept}"),
        false => format!("to hold, a rate needs {}, and {kept}", of.slos.join(", ")),
    }
}

/// How it was searched, and what limits what it says.
pub(crate) fn notes(of: &LimitTrials) -> Vec<String> {
    if let Some(scale) = &of.scale {
        return scale_notes(scale);
    }
    let plan = &of.plan;
    let mut notes = vec![format!(
        "{}, a run each; asked for were ends at most {} apart (--precision), and {} at each (--confirm)",
        counted(of.trials.len() as u64, "trial"),
        percent(plan.precision),
        match plan.confirmations {
            1 => "1 trial".to_owned(),
            several => format!("{} that agree", counted(several.into(), "trial")),
        },
    )];
    if of.untold().is_some() {
        notes.push(
            "fewer messages tell even less, so that no lower rate was tried: make trials longer (--set phases.measure=…), or begin at a higher \
             rate (--from)"
                .to_owned(),
        );
    }
    let between = mixed(of);
    if !between.is_empty() {
        let rates: Vec<String> = between.iter().map(|it| rate(*it)).collect();
        notes.push(format!(
            "a rate held in one trial and not in another at {} msg/s: the limit wavers that much",
            rates.join(", ")
        ));
    }
    let missed = of
        .trials
        .iter()
        .filter(|it| it.outcome == LimitOutcome::Missed);
    let undecided = missed
        .filter(|it| it.limited_by == LimitedBy::Undecided)
        .count();
    if undecided > 0 {
        notes.push(format!(
            "in {} that did not hold it is not clear who was the limit, broker or generator: their reports say why",
            counted(undecided as u64, "trial"),
        ));
    }
    notes.extend(cautions(of));
    notes
}

/// What the row of a rate shows, where some rate was tried more than once.
pub(crate) fn row_note(of: &LimitTrials) -> Option<&'static str> {
    (rates(of).len() < of.trials.len()).then_some(
        "a row shows one trial of its rate, the one with the median p99, of two the higher; of a rate that held in some trials only, \"why not\" is of another \
         one where it names it",
    )
}

/// What puts trials in doubt, each kind once with what was said of the first trial, whose number stands there unless all said the same.
fn cautions(of: &LimitTrials) -> Vec<String> {
    let mut kinds: BTreeMap<WarningCode, Vec<(usize, &Warning)>> = BTreeMap::new();
    for (number, trial) in (1..).zip(&of.trials) {
        let mut seen = BTreeSet::new();
        for warning in trial.cautions.iter().filter(|it| seen.insert(it.code)) {
            kinds
                .entry(warning.code)
                .or_default()
                .push((number, warning));
        }
    }
    let all = counted(of.trials.len() as u64, "trial");
    let told = kinds.into_values().filter_map(|trials| {
        let (number, first) = trials.first()?;
        let word = match first.tier {
            Tier::Invalid => "invalid",
            _ => "caution",
        };
        let whose = match trials.iter().all(|(_, it)| it.text == first.text) {
            true => String::new(),
            false => format!(", of trial {number}"),
        };
        Some(format!(
            "{word} in {} of {all}{whose}: {}",
            trials.len(),
            first.text
        ))
    });
    told.collect()
}

/// Rates at which some trials held, and others did not.
fn mixed(of: &LimitTrials) -> Vec<f64> {
    let with = |rate: f64, outcome: LimitOutcome| {
        let that = |it: &LimitTrial| it.rate == rate && it.outcome == outcome;
        of.trials.iter().any(that)
    };
    rates(of)
        .into_iter()
        .filter(|rate| with(*rate, LimitOutcome::Held) && with(*rate, LimitOutcome::Missed))
        .collect()
}

/// The rates that were tried, each once, the lowest first.
pub(crate) fn rates(of: &LimitTrials) -> Vec<f64> {
    let mut rates: Vec<f64> = of.trials.iter().map(|it| it.rate).collect();
    rates.sort_by(f64::total_cmp);
    rates.dedup();
    rates
}

#[cfg(test)]
mod tests {
    use archive::RequirementOutcome;

    use super::*;

    fn found(low: Option<f64>, high: Option<f64>, unclear: Option<f64>) -> String {
        headline(&LimitTrials {
            trials: vec![LimitTrial::default()],
            found: Some(FoundLimit {
                low,
                high,
                unclear,
                confirmed: true,
            }),
            ..LimitTrials::default()
        })
    }

    #[test]
    fn one_trial_of_a_rate_has_none_to_agree_with() {
        let mut of = tried(&[(1.0, 1)]);
        for (confirmations, told) in [
            (1, "and 1 trial at each"),
            (3, "and 3 trials that agree at each"),
        ] {
            of.plan.confirmations = confirmations;
            let notes = notes(&of).join("\n");
            assert!(notes.contains(told), "{notes}");
        }
    }

    #[test]
    fn a_search_that_ended_since_nothing_can_be_told_says_what_would_help() {
        let slo = RequirementOutcome {
            that: "end-to-end p99.99 < 10ms".to_owned(),
            why: Some("too few values".to_owned()),
            ..RequirementOutcome::default()
        };
        let of = LimitTrials {
            trials: vec![LimitTrial {
                rate: 10_000.0,
                outcome: LimitOutcome::Missed,
                why: vec!["it cannot be told".to_owned()],
                slos: vec![slo],
                ..LimitTrial::default()
            }],
            found: Some(FoundLimit {
                high: Some(10_000.0),
                ..FoundLimit::default()
            }),
            ..LimitTrials::default()
        };
        assert_eq!(
            headline(&of),
            "cannot tell whether 10,000 msg/s hold: end-to-end p99.99 < 10ms: too few values"
        );
        let notes = notes(&of).join("\n");
        assert!(notes.contains("make trials longer"), "{notes}");
    }

    fn tried(p99s: &[(f64, u64)]) -> LimitTrials {
        let trial = |(rate, p99_ns): &(f64, u64)| LimitTrial {
            rate: *rate,
            latency_name: "end-to-end".to_owned(),
            latency: Some(measure::LatencySummary {
                count: 1_000,
                p99_ns: *p99_ns,
                ..measure::LatencySummary::default()
            }),
            ..LimitTrial::default()
        };
        LimitTrials {
            trials: p99s.iter().map(trial).collect(),
            ..LimitTrials::default()
        }
    }

    #[test]
    fn the_knee_is_told_and_so_is_that_there_is_none() {
        let of = tried(&[
            (10e3, 400_000),
            (20e3, 500_000),
            (40e3, 1_900_000),
            (48e3, 5_000_000),
            (52e3, 33_000_000),
            (80e3, 900_000_000),
            (48e3, 6_000_000),
        ]);
        let knee = knee_of(&of).unwrap();
        assert_eq!((knee.rate, knee.p99_ns), (52e3, 33_000_000));
        let text = knee_text(&of).unwrap();
        assert!(
            text.contains("52,000 msg/s, end-to-end p99 33.0 ms"),
            "{text}"
        );
        let flat: Vec<(f64, u64)> = (1..9).map(|it| (f64::from(it), 1_000)).collect();
        assert!(
            knee_text(&tried(&flat))
                .unwrap()
                .contains("no knee in the tried range")
        );
        assert!(
            knee_text(&tried(&flat[..3]))
                .unwrap()
                .contains("fewer than 5 rates")
        );
        assert_eq!(knee_text(&LimitTrials::default()), None);
    }

    #[test]
    fn a_knee_below_which_latency_was_higher_is_called_rough() {
        let of = tried(&[
            (1_500.0, 10_100_000),
            (3_000.0, 206_000_000),
            (12_000.0, 124_000_000),
            (24_000.0, 347_000_000),
            (28_500.0, 88_100_000),
            (33_900.0, 1_780_000_000),
            (48_000.0, 1_950_000_000),
        ]);
        let text = knee_text(&of).unwrap();
        assert!(
            text.ends_with(
                "(Kneedle); that is rough, since 24,000 msg/s had 347 ms: longer trials tell more"
            ),
            "{text}"
        );
    }

    #[test]
    fn a_caution_of_several_trials_says_whose_numbers_it_has() {
        let with = |unsent: &str| {
            let warning = |code, text: &str| Warning {
                text: text.to_owned(),
                ..Warning::new(code, Tier::Caution)
            };
            LimitTrial {
                cautions: vec![
                    warning(WarningCode::DebugBuild, "a debug build"),
                    warning(WarningCode::MessagesUnanswered, unsent),
                ],
                ..LimitTrial::default()
            }
        };
        let of = LimitTrials {
            trials: vec![
                LimitTrial::default(),
                with("93,595 never sent"),
                with("41,116 never sent"),
            ],
            ..LimitTrials::default()
        };
        let told = cautions(&of);
        assert!(
            told.contains(&"caution in 2 of 3 trials: a debug build".to_owned()),
            "{told:?}"
        );
        let unsent = "caution in 2 of 3 trials, of trial 2: 93,595 never sent";
        assert!(told.contains(&unsent.to_owned()), "{told:?}");
    }

    #[test]
    fn the_sentence_says_what_is_known_and_what_is_not() {
        let both = found(Some(38_400.0), Some(40_300.0), None);
        assert_eq!(
            both,
            "the highest rate that holds lies between 38,400 and 40,300 msg/s"
        );
        assert!(found(Some(5.0), None, Some(10.0)).contains("the generator or others"));
        assert!(found(Some(5.0), None, None).contains("no rate was found that does not"));
        let mut at_most = LimitTrials {
            trials: vec![LimitTrial::default()],
            found: Some(FoundLimit {
                low: Some(5.0),
                ..FoundLimit::default()
            }),
            ..LimitTrials::default()
        };
        at_most.plan.most = 5.0;
        assert!(headline(&at_most).contains("--most allows more"));
        assert!(found(None, Some(1.0), None).contains("down to 1.00 msg/s"));
        assert!(found(None, None, None).contains("none tells"));
        assert!(headline(&LimitTrials::default()).contains("nothing is known"));
    }
}
