//! Sentences of a search for the highest rate that holds.

use std::collections::{BTreeMap, BTreeSet};

use archive::{
    FoundLimit, LimitOutcome, LimitTrial, LimitTrials, LimitedBy, RequirementOutcome, Tier, Warning, WarningCode,
};
use compare::{knee, leap, rises};
use serde::Serialize;

use super::scale::{scale_headline, scale_notes};
use crate::numbers::{counted, duration, percent, rate};

/// Neighbours that lie farther apart leave open where between them latency begins to rise.
const FAR: f64 = 1.25;

/// The knee, at which latency begins to rise faster than the rate.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct KneeView {
    /// Messages per second.
    pub rate: f64,
    /// The 99th percentile there, nanoseconds.
    pub p99_ns: u64,
}

/// The knee of the 99th percentile over the rates that were tried, by their medians; `None` where it has none.
pub(crate) fn knee_of(of: &LimitTrials) -> Option<KneeView> {
    let points = points(of);
    let (rate, p99) = points.get(knee(&points)?)?;
    Some(KneeView { rate: *rate, p99_ns: *p99 as u64 })
}

/// Rates with a known latency, and their medians of the 99th percentile.
fn points(of: &LimitTrials) -> Vec<(f64, f64)> {
    rates(of).into_iter().filter_map(|rate| Some((rate, median_p99(of, rate)? as f64))).collect()
}

/// The median of the 99th percentiles of a rate's trials that are not unclear.
fn median_p99(of: &LimitTrials, rate: f64) -> Option<u64> {
    let trials = of.trials.iter().filter(|it| it.rate == rate && it.tells());
    let mut values: Vec<u64> = trials.filter_map(|it| Some(it.latency.as_ref()?.p99_ns)).collect();
    values.sort_unstable();
    let upper = values.get(values.len() / 2)?;
    let lower = values.get((values.len() - 1) / 2)?;
    Some(u64::midpoint(*lower, *upper))
}

/// The trial that stands for a rate, and its number: of those that are not unclear, where any is, the one with the
/// median 99th percentile, of an even number the higher of the two in the middle; where none measured a latency, the
/// last one.
pub(crate) fn typical_trial(of: &LimitTrials, rate: f64) -> Option<(usize, &LimitTrial)> {
    let all = (1..).zip(&of.trials).filter(|(_, it)| it.rate == rate);
    let tells = all.clone().any(|(_, it)| it.tells());
    let all = all.filter(|(_, it)| it.tells() || !tells);
    let p99 = |it: &LimitTrial| it.latency.as_ref().map(|it| it.p99_ns);
    let mut measured: Vec<_> = all.clone().filter(|(_, it)| p99(it).is_some()).collect();
    measured.sort_by_key(|(_, it)| p99(it));
    measured.get(measured.len() / 2).copied().or_else(|| all.last())
}

/// The knee, or why there is none; `None` where no latency was measured.
pub(crate) fn knee_text(of: &LimitTrials) -> Option<String> {
    let name = of.trials.iter().rfind(|it| it.latency.is_some())?;
    let points = points(of);
    let name = &name.latency_name;
    if points.len() < compare::LEAST_RATES {
        let least = compare::LEAST_RATES;
        return Some(format!("no knee: fewer than {least} rates have a latency of clear trials"));
    }
    let at = |place: usize| points.get(place).copied().unwrap_or_default();
    let leap = leap(&points).map(|(from, to)| (at(from), at(to)));
    Some(match (knee_of(of), leap) {
        (Some(knee), _) => format!(
            "the knee is at {} msg/s, {name} p99 {}: beyond it latency rises faster than the rate (Kneedle){}{}",
            rate(knee.rate),
            duration(knee.p99_ns),
            untried_beyond(of, knee),
            higher_before(of, knee)
        ),
        (None, Some((low, high))) => format!(
            "the knee is somewhere between {} and {} msg/s: the {name} p99 jumps there from {} to {}, and {}",
            rate(low.0),
            rate(high.0),
            duration(low.1 as u64),
            duration(high.1 as u64),
            untried(of, "them", low.0, high.0),
        ),
        (None, None) if rises(&points) => {
            format!("no knee in the tried range: the {name} p99 never begins to rise much faster than the rate")
        }
        (None, None) => {
            format!("no knee in the tried range: the {name} p99 does not double from the lowest rate to the highest")
        }
    })
}

/// Remark that the knee may lie higher, as the next rate is far beyond it; empty where it is not.
fn untried_beyond(of: &LimitTrials, knee: KneeView) -> String {
    let next = points(of).into_iter().find(|it| it.0 > knee.rate).filter(|it| it.0 > knee.rate * FAR);
    next.map_or_else(String::new, |(next, _)| {
        let that = format!("that and {} msg/s", rate(next));
        let since = untried(of, &that, knee.rate, next);
        format!("; it may be higher, since {since}")
    })
}

/// Why nothing is known between two rates, `them`.
fn untried(of: &LimitTrials, them: &str, low: f64, high: f64) -> String {
    let between: Vec<_> = of.trials.iter().filter(|it| it.rate > low && it.rate < high).collect();
    match between.iter().any(|it| it.tells()) {
        _ if between.is_empty() => format!("no rate between {them} was tried"),
        true => format!("no trial between {them} measured a latency"),
        false => format!("all trials between {them} are unclear"),
    }
}

/// Remark on a rate below the knee with a higher latency, which is noise; empty without one.
fn higher_before(of: &LimitTrials, knee: KneeView) -> String {
    let before = rates(of).into_iter().filter(|it| *it < knee.rate);
    let highest = before
        .filter_map(|rate| Some((median_p99(of, rate)?, rate)))
        .max_by_key(|it| it.0)
        .filter(|it| it.0 > knee.p99_ns);
    highest.map_or_else(String::new, |(p99_ns, slower)| {
        format!("; this is rough, since {} msg/s had {}: use longer trials", rate(slower), duration(p99_ns))
    })
}

/// The result, in a sentence.
pub(crate) fn headline(of: &LimitTrials) -> String {
    if let Some(scale) = &of.scale {
        return scale_headline(scale);
    }
    let found = of.found.unwrap_or_default();
    let trials = counted(of.trials.len() as u64, "trial");
    let lowest = rates(of).first().copied().unwrap_or_default();
    let open = found.low.and_then(|low| not_held(of, low));
    match found {
        _ if of.trials.is_empty() => "no trial has ended".to_owned(),
        FoundLimit { low: None, .. } if of.untold().is_some() => untold(of, lowest),
        FoundLimit { low: Some(low), high: Some(high), confirmed, .. } => {
            let rest = if confirmed { String::new() } else { format!(" after {trials}; not confirmed") };
            format!("the highest rate that holds is between {} and {} msg/s{rest}", rate(low), rate(high))
        }
        FoundLimit { low: Some(low), unclear: Some(unclear), .. } => format!(
            "{} msg/s hold; {} msg/s are unclear: the generator or other programs were the limit there",
            rate(low),
            rate(unclear)
        ),
        FoundLimit { low: Some(low), .. } if open.is_some() => format!(
            "{} msg/s hold; {} msg/s are inconclusive after {trials}",
            rate(low),
            rate(open.unwrap_or_default())
        ),
        FoundLimit { low: Some(low), .. } if (f64::MIN_POSITIVE..=low).contains(&of.plan.most) => {
            format!("{} msg/s hold, the highest rate allowed: raise --most", rate(low))
        }
        FoundLimit { low: Some(low), ended, .. } => {
            let (low, rest) = (rate(low), if ended { "" } else { "; not confirmed" });
            format!("{low} msg/s hold, and no higher rate failed{rest}")
        }
        FoundLimit { .. } if of.trials.iter().all(LimitTrial::is_missed) => {
            format!("no rate held, down to {} msg/s", rate(lowest))
        }
        FoundLimit { .. } => format!("inconclusive after {trials}: no rate is known to hold{}", also_missed(of, 0.0)),
    }
}

/// How certain the answer is, in a tag.
pub(crate) fn certainty(of: &LimitTrials) -> &'static str {
    match of.found.unwrap_or_default() {
        FoundLimit { confirmed: true, .. } => "confirmed",
        FoundLimit { ended: true, low: Some(_), .. } => "confirmed, open above",
        FoundLimit { ended: true, high: Some(_), .. } => "open below",
        FoundLimit { .. } => "not confirmed",
    }
}

/// The lowest rate above another one at which a trial did not hold.
fn not_held(of: &LimitTrials, above: f64) -> Option<f64> {
    let not = of.trials.iter().filter(|it| it.rate > above && it.outcome != LimitOutcome::Held);
    not.map(|it| it.rate).min_by(f64::total_cmp)
}

/// Objective that trials of the lowest rate cannot tell, and the rate from which on none hold.
fn untold(of: &LimitTrials, lowest: f64) -> String {
    let what = of.untold().map(|it| match &it.why {
        Some(why) => format!("{}: {why}", it.that),
        None => it.that.clone(),
    });
    format!("inconclusive at {} msg/s{}: {}", rate(lowest), also_missed(of, lowest), what.unwrap_or_default())
}

/// A rate above another one that does not hold; empty where none surely does not.
fn also_missed(of: &LimitTrials, above: f64) -> String {
    missed(of, above).map_or_else(String::new, |at| format!("; {} msg/s do not", rate(at)))
}

/// The lowest rate above another one that surely fails: all its trials say so, and no higher rate denies it.
fn missed(of: &LimitTrials, above: f64) -> Option<f64> {
    let is_missed = |at: &f64| {
        let mut trials = of.trials.iter().filter(|it| it.rate >= *at);
        let agrees = |it: &LimitTrial| if it.rate > *at { it.outcome != LimitOutcome::Held } else { it.is_missed() };
        *at > above && trials.all(agrees)
    };
    rates(of).into_iter().find(is_missed)
}

/// Why no lower rate was tried, and a remedy: no rate that a trial has shown not to hold.
fn advice(of: &LimitTrials, untold: &RequirementOutcome, lowest: f64) -> String {
    if !untold.lacks_samples() {
        return "the search stopped: lower rates have the same problem, so fix it first".to_owned();
    }
    let begin = match missed(of, lowest) {
        Some(failed) => format!(", or start between that and {} msg/s, which did not hold (--from)", rate(failed)),
        None if lowest < of.plan.most => ", or start at a higher rate (--from)".to_owned(),
        None => String::new(),
    };
    format!(
        "the search stopped, since lower rates give even fewer samples: use longer trials (--set \
         phases.measure=…){begin}"
    )
}

/// Conditions for a rate, in a line.
pub(crate) fn asked(of: &LimitTrials) -> String {
    let kept = "at least 99.5 % sent and received";
    match of.slos.is_empty() {
        true => format!("to hold, a rate needs {kept}"),
        false => format!("to hold, a rate needs {}, and {kept}", of.slos.join(", ")),
    }
}

/// How it was searched, and limitations of the result.
pub(crate) fn notes(of: &LimitTrials) -> Vec<String> {
    if let Some(scale) = &of.scale {
        let cautions = cautions(of, "run");
        return scale_notes(scale).into_iter().chain(cautions).collect();
    }
    let plan = &of.plan;
    let mut notes = vec![format!(
        "{}, a run each; requested: ends at most {} apart (--precision), and {} at each (--confirm)",
        counted(of.trials.len() as u64, "trial"),
        percent(plan.precision),
        match plan.confirmations {
            1 => "1 trial".to_owned(),
            several => format!("{} that agree", counted(several.into(), "trial")),
        },
    )];
    if is_out_of_trials(of) {
        notes.push(format!(
            "at most {} are allowed (--trials); add trials with --resume and a larger --trials",
            counted(plan.most_trials.into(), "trial")
        ));
    }
    if let (Some(untold), Some(lowest)) = (of.untold(), rates(of).first()) {
        notes.push(advice(of, untold, *lowest));
    }
    let between = mixed(of);
    if !between.is_empty() {
        let rates: Vec<String> = between.iter().map(|it| rate(*it)).collect();
        notes.push(format!(
            "a rate held in one trial and not in another at {} msg/s: the limit varies that much",
            rates.join(", ")
        ));
    }
    let missed = of.trials.iter().filter(|it| it.outcome == LimitOutcome::Missed);
    let undecided = missed.filter(|it| it.limited_by == LimitedBy::Undecided).count();
    if undecided > 0 {
        notes.push(format!(
            "{} that did not hold: undecided whether broker or generator was the limit; see the reports",
            counted(undecided as u64, "trial"),
        ));
    }
    notes.extend(cautions(of, "trial"));
    notes
}

/// Whether it ended for want of trials that it may make.
fn is_out_of_trials(of: &LimitTrials) -> bool {
    let found = of.found.unwrap_or_default();
    let most = of.plan.most_trials as usize;
    let is_answered = found.ended || found.confirmed || of.untold().is_some();
    (1..=of.trials.len()).contains(&most) && !is_answered
}

/// Explains the trial of a row, where some rate was tried more than once.
pub(crate) fn row_note(of: &LimitTrials) -> Option<&'static str> {
    (rates(of).len() < of.trials.len()).then_some(
        "a row shows the trial of its rate with the median p99, of two the higher; \"why not\" may be of another trial",
    )
}

/// Doubts about trials or runs (`noun`), each kind once in the first one's words, with its number if others differ.
fn cautions(of: &LimitTrials, noun: &str) -> Vec<String> {
    let mut kinds: BTreeMap<WarningCode, Vec<(usize, &Warning)>> = BTreeMap::new();
    for (number, warnings) in (1..).zip(of.cautions()) {
        let mut seen = BTreeSet::new();
        for warning in warnings.iter().filter(|it| seen.insert(it.code())) {
            kinds.entry(warning.code()).or_default().push((number, warning));
        }
    }
    let all = counted(of.cautions().count() as u64, noun);
    let told = kinds.into_values().filter_map(|trials| {
        let (number, first) = trials.first()?;
        let word = if first.tier == Tier::Invalid { "invalid" } else { "caution" };
        let whose = match trials.iter().all(|(_, it)| it.text == first.text) {
            true => String::new(),
            false => format!(", of {noun} {number}"),
        };
        Some(format!("{word} in {} of {all}{whose}: {}", trials.len(), first.text))
    });
    told.collect()
}

/// Rates at which some trials held, and others did not.
fn mixed(of: &LimitTrials) -> Vec<f64> {
    let with = |rate: f64, outcome: LimitOutcome| {
        let that = |it: &LimitTrial| it.rate == rate && it.outcome == outcome;
        of.trials.iter().any(that)
    };
    rates(of).into_iter().filter(|rate| with(*rate, LimitOutcome::Held) && with(*rate, LimitOutcome::Missed)).collect()
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
    use archive::{Finding, ScaleRun, ScaleRuns};
    use testkit::{assert_ends, assert_has, assert_lacks};

    use super::*;
    use crate::tests::fixtures::requirement;

    const TOO_FEW: &str = RequirementOutcome::TOO_FEW;

    fn trial(rate: f64, outcome: LimitOutcome) -> LimitTrial {
        LimitTrial { rate, outcome, ..LimitTrial::default() }
    }

    fn found(low: Option<f64>, high: Option<f64>, unclear: Option<f64>) -> String {
        let outcome = match (low, high) {
            (Some(_), _) => LimitOutcome::Held,
            (None, Some(_)) => LimitOutcome::Missed,
            (None, None) => LimitOutcome::Unclear,
        };
        headline(&LimitTrials {
            trials: vec![trial(low.or(high).unwrap_or(1.0), outcome)],
            found: Some(FoundLimit { low, high, unclear, ended: true, confirmed: low.is_some() && high.is_some() }),
            ..LimitTrials::default()
        })
    }

    #[test]
    fn one_trial_of_a_rate_has_none_to_agree_with() {
        let mut of = tried(&[(1.0, 1)]);
        for (confirmations, told) in [(1, "and 1 trial at each"), (3, "and 3 trials that agree at each")] {
            of.plan.confirmations = confirmations;
            assert_has(notes(&of).join("\n"), [told]);
        }
    }

    #[test]
    fn a_search_that_ended_since_nothing_can_be_told_says_what_would_help() {
        let missed = |rate, why: &str| LimitTrial { why: vec![why.to_owned()], ..trial(rate, LimitOutcome::Missed) };
        let why = Some(TOO_FEW.to_owned());
        let slo = RequirementOutcome { why, ..requirement("end-to-end p99.99 < 10ms", None, None) };
        let mut of = LimitTrials {
            trials: vec![LimitTrial { slos: vec![slo], ..missed(10_000.0, "it cannot be told") }],
            found: Some(FoundLimit { high: Some(10_000.0), ..FoundLimit::default() }),
            ..LimitTrials::default()
        };
        of.plan.most = 10e6;
        let untold = format!("end-to-end p99.99 < 10ms: {TOO_FEW}");
        assert_eq!(headline(&of), format!("inconclusive at 10,000 msg/s: {untold}"));
        let longer = "use longer trials (--set phases.measure=…), or start";
        assert_has(notes(&of).join("\n"), [&*format!("{longer} at a higher rate (--from)")]);
        // A higher one was tried.
        of.trials.insert(0, missed(20_000.0, "the backlog grew"));
        assert_eq!(headline(&of), format!("inconclusive at 10,000 msg/s; 20,000 msg/s do not: {untold}"));
        let between = "between that and 20,000 msg/s, which did not hold (--from)";
        assert_has(notes(&of).join("\n"), [&*format!("{longer} {between}")]);
        // More messages do not help.
        of.trials[1].slos[0].why = Some("no ledger was kept".to_owned());
        assert_lacks(notes(&of).join("\n"), ["use longer trials"]);
    }

    fn step(search: &archive::LimitPlan, trials: &[LimitTrial]) -> Result<FoundLimit, f64> {
        let held = |it: &LimitTrial| (it.outcome != LimitOutcome::Unclear).then_some(it.outcome == LimitOutcome::Held);
        let outcome = |it: &LimitTrial| (it.rate, held(it));
        match compare::limit_step(search, &trials.iter().map(outcome).collect::<Vec<_>>()) {
            compare::LimitStep::Try(rate) => Err(rate),
            compare::LimitStep::Found(found) => Ok(found),
        }
    }

    fn any_search(random: &mut testkit::Random) -> LimitTrials {
        let slo = |lacks: bool| RequirementOutcome {
            why: lacks.then(|| TOO_FEW.to_owned()),
            ..requirement("end-to-end p99.99 < 10ms", (!lacks).then_some(false), None)
        };
        let trials = (0..1 + random.below(6)).map(|_| {
            use LimitOutcome::{Held, Missed, Unclear};
            let outcome = random.of(&[Held, Held, Missed, Missed, Unclear]);
            let is_bad = outcome != Held;
            let trial = trial(random.of(&[1_000.0, 2_000.0, 4_000.0, 8_000.0]), outcome);
            let why = is_bad.then(|| "missed".to_owned()).into_iter().collect();
            let slos = is_bad.then(|| slo(outcome == Missed && random.one_in(2))).into_iter().collect();
            LimitTrial { why, slos, ..trial }
        });
        let trials: Vec<LimitTrial> = trials.collect();
        let most = random.of(&[4_000.0, 8_000.0, 16_000.0]);
        let search = archive::LimitPlan { most_trials: 0, precision: 0.05, ..search(1.0, most) };
        let found = step(&search, &trials).expect("no more trials");
        let mut of = LimitTrials { trials, found: Some(found), ..LimitTrials::default() };
        of.plan.most = most;
        of
    }

    fn search(least: f64, most: f64) -> archive::LimitPlan {
        archive::LimitPlan { first: 4_000.0, least, most, precision: 0.5, confirmations: 3, most_trials: 60 }
    }

    /// A search for a limit that lies within the allowed rates or not, and may be cut short.
    fn whole_search(random: &mut testkit::Random) -> LimitTrials {
        let search = archive::LimitPlan { most_trials: random.of(&[4, 60]), ..search(1_000.0, 16_000.0) };
        let limit = random.of(&[500.0, 3_000.0, 9_000.0, 99_000.0]);
        let beyond = random.of(&[LimitOutcome::Missed, LimitOutcome::Unclear]);
        let mut trials = Vec::new();
        let found = loop {
            match step(&search, &trials) {
                Ok(found) => break Some(found),
                Err(rate) => {
                    let outcome = if rate > limit || random.one_in(9) { beyond } else { LimitOutcome::Held };
                    trials.push(LimitTrial { why: vec!["missed".to_owned()], ..trial(rate, outcome) });
                }
            }
        };
        LimitTrials { trials, found, ..LimitTrials::default() }
    }

    /// A lower end that was confirmed was called not confirmed where none can be found above.
    #[test]
    fn the_tag_says_which_end_is_open() {
        let mut random = testkit::Random::new(6);
        let mut said = BTreeSet::new();
        for _ in 0..1_000 {
            let of = whole_search(&mut random);
            let (tag, found) = (certainty(&of), of.found.unwrap());
            said.insert(tag);
            let agree = |rate: Option<f64>, outcome| {
                let that = |it: &&LimitTrial| Some(it.rate) == rate && it.outcome == outcome;
                of.trials.iter().filter(that).count() >= 3
            };
            let low = agree(found.low, LimitOutcome::Held);
            let high = agree(found.high, LimitOutcome::Missed);
            let is_true = match tag {
                "confirmed" => low && high,
                "confirmed, open above" => low && found.high.is_none(),
                "open below" => found.low.is_none() && found.high.is_some(),
                _ => !found.ended || found.low.or(found.high).is_none(),
            };
            assert!(is_true, "{tag}: {of:#?}");
            let has_both = found.low.is_some() && found.high.is_some();
            let is_told = headline(&of).contains("trials; not confirmed");
            assert_eq!(is_told, has_both && tag == "not confirmed", "{of:#?}");
        }
        assert_eq!(said.len(), 4, "{said:?}");
    }

    #[test]
    fn no_advice_contradicts_a_trial() {
        let mut random = testkit::Random::new(5);
        for _ in 0..20_000 {
            let of = any_search(&mut random);
            let (head, notes) = (headline(&of), notes(&of).join("\n"));
            let lowest = rates(&of)[0];
            let failed = |above: f64| {
                let trials = of.trials.iter().filter(|it| it.rate > above);
                trials.filter(|it| it.outcome != LimitOutcome::Held).map(|it| it.rate).reduce(f64::min)
            };
            let low = of.found.and_then(|it| it.low);
            let has_failed = low.and_then(failed).is_some();
            let surely_missed = |at: f64| {
                let mut trials = of.trials.iter().filter(|it| it.rate >= at);
                trials.all(|it| it.outcome != LimitOutcome::Held)
                    && (of.trials.iter().filter(|it| it.rate == at)).all(LimitTrial::is_missed)
            };
            let missed = rates(&of).into_iter().find(|at| *at > lowest && surely_missed(*at));
            let mut outcomes = of.trials.iter().map(|it| it.outcome);
            let has_not_missed = outcomes.any(|it| it != LimitOutcome::Missed);
            for (said, is_false) in
                [("no higher rate failed", has_failed), ("raise --most", has_failed), ("no rate held", has_not_missed)]
            {
                assert!(!head.contains(said) || !is_false, "{head}: {of:#?}");
            }
            if notes.contains("at a higher rate") {
                assert!(missed.is_none() && lowest < of.plan.most, "{notes}: {of:#?}");
            }
            if notes.contains("between that and ") {
                let missed = missed.expect("one that surely does not hold");
                let told = format!("between that and {} msg/s, which did", rate(missed));
                assert!(notes.contains(&told), "{notes}: {of:#?}");
            }
            for at in rates(&of) {
                let trials = || of.trials.iter().filter(|it| it.rate == at);
                let held = trials().filter(|it| it.outcome == LimitOutcome::Held).count();
                let says = |what: &str| head.contains(&what.replace('N', &rate(at)));
                let mut from = of.trials.iter().filter(|it| it.rate >= at);
                let holds = from.any(|it| it.outcome == LimitOutcome::Held);
                let is_missed = trials().all(LimitTrial::is_missed) && !holds;
                assert!(!says("; N msg/s do not") || is_missed, "{head}: {of:#?}");
                assert!(!says("inconclusive at N msg/s") || held == 0, "{head}: {of:#?}");
                let holds = head.starts_with(&format!("{} msg/s hold", rate(at)));
                assert!(!holds || held > 0, "{head}: {of:#?}");
            }
        }
    }

    fn tried(p99s: &[(f64, u64)]) -> LimitTrials {
        let trial = |(rate, p99_ns): &(f64, u64)| LimitTrial {
            latency_name: "end-to-end".to_owned(),
            latency: Some(measure::LatencySummary { count: 1_000, p99_ns: *p99_ns, ..Default::default() }),
            ..trial(*rate, LimitOutcome::Missed)
        };
        LimitTrials { trials: p99s.iter().map(trial).collect(), ..LimitTrials::default() }
    }

    #[test]
    fn the_knee_is_told_and_so_is_that_it_is_rough_or_that_there_is_none() {
        let mut of = tried(&[(10e3, 400_000), (20e3, 500_000), (40e3, 1_900_000), (48e3, 5_000_000)]);
        of.trials.extend(tried(&[(52e3, 33_000_000), (80e3, 900_000_000), (48e3, 6_000_000)]).trials);
        let knee = knee_of(&of).unwrap();
        assert_eq!((knee.rate, knee.p99_ns), (52e3, 33_000_000));
        assert_has(knee_text(&of).unwrap(), ["52,000 msg/s, end-to-end p99 33.0 ms"]);
        let flat: Vec<(f64, u64)> = (1..9).map(|it| (f64::from(it), 1_000)).collect();
        let none = |of: &[(f64, u64)]| {
            let text = knee_text(&tried(of)).unwrap();
            text.strip_prefix("no knee in the tried range: ").map(str::to_owned)
        };
        let double = "the end-to-end p99 does not double from the lowest rate to the highest";
        assert_eq!(none(&flat).as_deref(), Some(double));
        // A last step that is steep was said to be none.
        let mut late = flat.clone();
        late[7].1 = 1_900;
        assert_eq!(none(&late).as_deref(), Some(double));
        let even = [1, 2, 3, 4, 5, 6, 7, 8_u32].map(|it| (f64::from(it), 1_000 * u64::from(it)));
        assert_eq!(none(&even).as_deref(), Some("the end-to-end p99 never begins to rise much faster than the rate"));
        assert!(knee_text(&tried(&flat[..3])).unwrap().contains("fewer than 5 rates"));
        assert_eq!(knee_text(&LimitTrials::default()), None);
        let mut of = tried(&[(1_500.0, 10_100_000), (3_000.0, 206_000_000), (12_000.0, 124_000_000)]);
        let beyond = [(24e3, 347_000_000), (28_500.0, 88_100_000), (33_900.0, 1_780_000_000), (48e3, 1_950_000_000)];
        of.trials.extend(tried(&beyond).trials);
        let rough = "(Kneedle); this is rough, since 24,000 msg/s had 347 ms: use longer trials";
        assert_ends(knee_text(&of).unwrap(), rough);
    }

    /// The knee was denied beside a wall between two rates, and unclear trials made one.
    #[test]
    fn a_knee_between_rates_that_were_not_tried_is_not_denied() {
        let wall = [(5e3, 1_000_000), (10e3, 1_100_000), (20e3, 800_000_000), (40e3, 900_000_000), (80e3, 950_000_000)];
        let mut of = tried(&wall);
        let expected = "the knee is somewhere between 10,000 and 20,000 msg/s: the end-to-end p99 jumps there from \
                        1.10 ms to 800 ms, and no rate between them was tried";
        assert_eq!(knee_text(&of).unwrap(), expected);
        of.trials.extend(tried(&[(15e3, 1_000_000)]).trials);
        of.trials[5].outcome = LimitOutcome::Unclear;
        assert_ends(knee_text(&of).unwrap(), "and all trials between them are unclear");
        of.trials.pop();
        let other = |it: &mut LimitTrial| it.outcome = LimitOutcome::Unclear;
        of.trials[2..].iter_mut().for_each(other);
        assert!(knee_of(&of).is_none());
        assert_has(knee_text(&of).unwrap(), ["fewer than 5 rates have a"]);
        // One that tells stands for its rate.
        of.trials.extend(tried(&[(20e3, 2_000_000)]).trials);
        of.trials[5].outcome = LimitOutcome::Held;
        assert_eq!(typical_trial(&of, 20e3).unwrap().0, 6);
        assert_eq!(typical_trial(&of, 40e3).unwrap().0, 4);
        // Far beyond a knee that is told.
        let late =
            tried(&[(1e3, 1_000_000), (2e3, 1_000_000), (4e3, 1_000_000), (8e3, 1_000_000), (16e3, 900_000_000)]);
        let text = knee_text(&late).unwrap();
        assert_has(&text, ["is at 8,000 msg/s"]);
        assert_ends(text, "(Kneedle); it may be higher, since no rate between that and 16,000 msg/s was tried");
    }

    #[test]
    fn a_caution_of_several_trials_says_whose_numbers_it_has() {
        let with = |unsent: &str| {
            let warning =
                |finding, text: &str| Warning { text: text.to_owned(), ..Warning::new(Tier::Caution, finding) };
            let unanswered = Finding::MessagesUnanswered { unanswered: 0, unsent: 1, gone: false, for_good: false };
            let cautions = vec![warning(Finding::DebugBuild {}, "a debug build"), warning(unanswered, unsent)];
            LimitTrial { cautions, ..LimitTrial::default() }
        };
        let trials = vec![LimitTrial::default(), with("93,595 never sent"), with("41,116 never sent")];
        let of = LimitTrials { trials, ..LimitTrials::default() };
        let told = notes(&of);
        for caution in [": a debug build", ", of trial 2: 93,595 never sent"] {
            assert!(told.contains(&format!("caution in 2 of 3 trials{caution}")), "{told:?}");
        }
        // So says a search over numbers of clients, which said nothing of it.
        let run = |it: &LimitTrial| ScaleRun { cautions: it.cautions.clone(), ..ScaleRun::default() };
        let (key, runs) = ("load.0.producers".to_owned(), of.trials.iter().map(run).collect());
        let scale = Some(ScaleRuns { key, runs, ..ScaleRuns::default() });
        let scaled = notes(&LimitTrials { scale, ..LimitTrials::default() });
        let cautions = |told: Vec<String>| told.into_iter().filter(|it| it.starts_with("caution")).collect::<Vec<_>>();
        let told: Vec<String> = cautions(told).iter().map(|it| it.replace("trial", "run")).collect();
        assert_eq!((told.len(), cautions(scaled)), (2, told));
    }

    #[test]
    fn the_sentence_says_what_is_known_and_what_is_not() {
        let both = found(Some(38_400.0), Some(40_300.0), None);
        assert_eq!(both, "the highest rate that holds is between 38,400 and 40,300 msg/s");
        assert_has(found(Some(5.0), None, Some(10.0)), ["the generator or other programs"]);
        assert_ends(found(Some(5.0), None, None), "no higher rate failed");
        let (trials, found_low) = (vec![LimitTrial::default()], FoundLimit { low: Some(5.0), ..FoundLimit::default() });
        let mut at_most = LimitTrials { trials, found: Some(found_low), ..LimitTrials::default() };
        assert_ends(headline(&at_most), "rate failed; not confirmed");
        at_most.plan.most = 5.0;
        assert_has(headline(&at_most), ["raise --most"]);
        let is_ended_by_trials = |of: &LimitTrials| notes(of).join("\n").contains("--resume");
        assert!(!is_ended_by_trials(&at_most));
        at_most.plan.most_trials = 1;
        assert!(is_ended_by_trials(&at_most));
        at_most.found = at_most.found.map(|it| FoundLimit { ended: true, ..it });
        assert!(!is_ended_by_trials(&at_most), "more trials tell no more");
        assert!(found(None, Some(1.0), None).contains("down to 1.00 msg/s"));
        assert_eq!(found(None, None, None), "inconclusive after 1 trial: no rate is known to hold");
        assert!(headline(&LimitTrials::default()).contains("no trial has ended"));
    }
}
