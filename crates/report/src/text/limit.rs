//! Sentences of a search for the highest rate that holds.

use archive::{FoundLimit, LimitOutcome, LimitTrial, LimitTrials, LimitedBy};

use crate::numbers::{counted, percent, rate};

/// What was found, in a sentence.
pub(crate) fn headline(of: &LimitTrials) -> String {
    let found = of.found.unwrap_or_default();
    let trials = counted(of.trials.len() as u64, "trial");
    match found {
        _ if of.trials.is_empty() => "no trial has ended, so that nothing is known".to_owned(),
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

/// What a rate has to meet, in a line.
pub(crate) fn asked(of: &LimitTrials) -> String {
    let kept = "at least 99.5 % sent and received";
    match of.slos.is_empty() {
        true => format!("a rate holds with {kept}"),
        false => format!("a rate holds with {}, and {kept}", of.slos.join(", ")),
    }
}

/// How it was searched, and what limits what it says.
pub(crate) fn notes(of: &LimitTrials) -> Vec<String> {
    let plan = &of.plan;
    let mut notes = vec![format!(
        "{}, a run each; the ends lie at most {} apart, and {} agree at each",
        counted(of.trials.len() as u64, "trial"),
        percent(plan.precision),
        counted(plan.confirmations.into(), "trial"),
    )];
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
    notes
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
    fn the_sentence_says_what_is_known_and_what_is_not() {
        let both = found(Some(38_400.0), Some(40_300.0), None);
        assert_eq!(
            both,
            "the highest rate that holds lies between 38,400 and 40,300 msg/s"
        );
        assert!(found(Some(5.0), None, Some(10.0)).contains("the generator or others"));
        assert!(found(Some(5.0), None, None).contains("no rate was found that does not"));
        assert!(found(None, Some(1.0), None).contains("down to 1.00 msg/s"));
        assert!(found(None, None, None).contains("none tells"));
        assert!(headline(&LimitTrials::default()).contains("nothing is known"));
    }
}
