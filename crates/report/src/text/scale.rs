//! Sentences of throughputs of different numbers of clients, and of the law that they follow.

use std::collections::BTreeMap;

use archive::{LimitedBy, ScaleDoubt, ScaleEstimate, ScaleRuns};
use compare::LEAST_CLIENT_COUNTS;

use crate::numbers::{counted, percent, rate, three_digits};

/// Numbers of clients that were run, the lowest first, with the throughputs of their runs.
pub(crate) fn throughputs(of: &ScaleRuns) -> BTreeMap<u32, Vec<f64>> {
    let mut all: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for run in &of.runs {
        all.entry(run.clients).or_default().push(run.throughput);
    }
    all
}

pub(crate) fn mean(all: &[f64]) -> f64 {
    all.iter().sum::<f64>() / all.len().max(1) as f64
}

pub(crate) fn most(of: &ScaleRuns) -> u32 {
    of.runs.iter().map(|it| it.clients).max().unwrap_or(1)
}

/// The result, in a sentence.
pub(crate) fn scale_headline(of: &ScaleRuns) -> String {
    let noun = of.noun();
    let known: Vec<(u32, f64)> = throughputs(of).into_iter().map(|(clients, of)| (clients, mean(&of))).collect();
    // Of equal ones the fewest clients.
    let best = known.iter().rev().max_by(|a, b| a.1.total_cmp(&b.1));
    let (Some(first), Some(best)) = (known.first(), best) else { return "no run has ended".to_owned() };
    let passes = |clients: u32| if clients == 1 { "passes" } else { "pass" };
    let pass =
        format!("{} {} {} msg/s", counted(best.0.into(), noun.trim_end_matches('s')), passes(best.0), rate(best.1));
    match best.0 == first.0 {
        _ if best.1 <= 0.0 => "no message passed".to_owned(),
        true if known.len() == 1 => format!("{pass}; no other number was tried"),
        true => format!("{pass}; more of them pass no more"),
        false if first.1 <= 0.0 => format!("{pass}, and {} {} none", first.0, passes(first.0)),
        false => format!("{pass}, {} times as much as {} {}", three_digits(best.1 / first.1), first.0, passes(first.0)),
    }
}

/// Explanation by the law, a sentence each.
pub(crate) fn scale_explained(of: &ScaleRuns) -> Vec<String> {
    let noun = of.noun();
    let Some(law) = &of.law else {
        return vec![format!(
            "no law can be fitted: use at least {LEAST_CLIENT_COUNTS} different numbers of {noun} with which messages \
             pass"
        )];
    };
    let most = most(of);
    // Parameters of a curve that lies off the runs mean nothing.
    if law.is_poor() {
        let why = law.no_peak.unwrap_or(ScaleDoubt::PoorFit);
        return vec![doubt(why, noun, most)];
    }
    let [lost, contention, coherence] = law.lost(f64::from(most));
    let mut out = vec![format!(
        "of the ideal throughput of {most} {noun}, {} is lost: {} to contention (waiting for shared resources), {} to \
         coherence (keeping in step with each other)",
        percent(lost),
        percent(contention),
        percent(coherence)
    )];
    out.push(match law.peak {
        None => doubt(law.no_peak.unwrap_or(ScaleDoubt::NeverFalls), noun, most),
        Some(peak) if peak > f64::from(most) => format!(
            "by the fitted law the throughput peaks at {} {noun}, beyond the tried range: an extrapolation",
            three_digits(peak)
        ),
        Some(peak) => {
            format!("by the fitted law the throughput peaks at {} {noun}, and falls beyond", three_digits(peak))
        }
    });
    out
}

/// Why no peak is given, in a sentence.
fn doubt(why: ScaleDoubt, noun: &str, most: u32) -> String {
    match why {
        ScaleDoubt::Generator(from) => format!(
            "no peak of the broker: from {from} {noun} on the generator limited most runs, so the curve is that of \
             bellows and this machine; give it cores of its own"
        ),
        ScaleDoubt::PoorFit => {
            "no peak: the throughputs do not follow the law, so something other than contention and coherence decides"
                .to_owned()
        }
        ScaleDoubt::NeverFalls => format!("by the fitted law more {noun} never pass less: coherence is 0"),
        ScaleDoubt::NotProven => format!(
            "no peak: a decline with more {noun} is not proven (the interval of \u{3ba} includes 0, or is not known); \
             use longer runs, more of each (--confirm) or more than {most} {noun}"
        ),
        ScaleDoubt::FarBeyond => format!("no peak: it would be beyond twice the {most} {noun} tried"),
    }
}

/// How it was found, and limitations of the result.
pub(crate) fn scale_notes(of: &ScaleRuns) -> Vec<String> {
    let each = of.repeats;
    let is_each = throughputs(of).values().all(|it| it.len() == each as usize);
    let turns = match is_each {
        true => format!("{each} of each number in turns"),
        false => format!("in turns; {each} of each number were requested"),
    };
    let runs = counted(of.runs.len() as u64, "run");
    let mut notes = vec![format!("{runs} of {}, unthrottled, {turns}", of.key)];
    if let Some(law) = &of.law {
        let estimate = |it: &ScaleEstimate, shown: fn(f64) -> String| match it.interval {
            Some((low, high)) => format!("{} [{}, {}]", shown(it.value), shown(low.max(0.0)), shown(high)),
            None => shown(it.value),
        };
        notes.push(format!(
            "Universal Scalability Law (Gunther), X(N) = \u{3bb}N / (1 + \u{3c3}(N-1) + \u{3ba}N(N-1)): \u{3bb} {} \
             msg/s, \u{3c3} {}, \u{3ba} {}, R\u{b2} {:.3}; in brackets 95 % intervals",
            estimate(&law.alone, rate),
            estimate(&law.contention, small),
            estimate(&law.coherence, small),
            law.r_squared
        ));
        if law.is_poor() {
            notes.push(format!(
                "the law fits poorly: a mean is {} off the curve, so \u{3c3} and \u{3ba} explain little",
                percent(law.worst_residual)
            ));
        }
    }
    let silent = of.runs.iter().filter(|it| it.throughput <= 0.0).count();
    if silent > 0 {
        notes.push(format!("in {silent} of {runs} no message passed: the fit leaves these out"));
    }
    let limited = of.runs.iter().filter(|it| it.limited_by == LimitedBy::Generator).count();
    if limited > 0 {
        // Where that is why there is no peak, its sentence says what follows.
        let is_told = of.law.as_ref().is_some_and(|law| matches!(law.no_peak, Some(ScaleDoubt::Generator(_))));
        let follows = if is_told { "" } else { ": the curve is also that of bellows and its machine" };
        notes.push(format!("in {limited} of {runs} the generator was the limit{follows}"));
    }
    notes
}

/// A small number: three digits, without a long row of zeros.
fn small(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size >= 0.001 => format!("{value:.4}"),
        _ => format!("{value:.2e}"),
    }
}

#[cfg(test)]
mod tests {
    use archive::{ScaleLaw, ScaleRun};

    use super::*;

    fn runs(points: &[(u32, f64)], law: Option<ScaleLaw>) -> ScaleRuns {
        let run = |&(clients, throughput): &(u32, f64)| ScaleRun { clients, throughput, ..ScaleRun::default() };
        let (values, runs) = (points.iter().map(|it| it.0).collect(), points.iter().map(run).collect());
        ScaleRuns { key: "load.0.producers".to_owned(), values, repeats: 1, runs, law }
    }

    #[test]
    fn the_sentence_is_true_of_every_run() {
        let mut random = testkit::Random::new(3);
        for _ in 0..5_000 {
            let points = (0..random.below(7))
                .map(|_| (random.of(&[1, 2, 4, 8]), random.of(&[0.0, 0.0, 10.0, 10.0, 35.0])))
                .collect::<Vec<_>>();
            let mut of = runs(&points, None);
            // The plan has no part in it.
            (of.values, of.repeats) = (vec![1, 2, 4, 8, 16], 2);
            let told = scale_headline(&of);
            let all = throughputs(&of);
            let best = all.values().map(|it| mean(it)).fold(0.0, f64::max);
            let first = all.values().next().map_or(0.0, |it| mean(it));
            for (said, is_true) in [
                ("no run has ended", all.is_empty()),
                ("no message passed", !all.is_empty() && best <= 0.0),
                ("no other number was tried", all.len() == 1 && best > 0.0),
                ("more of them pass no more", all.len() > 1 && best > 0.0 && first >= best),
                ("none", first <= 0.0 && best > 0.0),
                ("times as much as", first > 0.0 && best > first),
            ] {
                assert_eq!(told.contains(said), is_true, "{said}: {told}: {points:?}");
            }
            let notes = scale_notes(&of);
            let is_even = all.values().all(|it| it.len() == 2);
            assert_eq!(notes[0].ends_with(", 2 of each number in turns"), is_even, "{notes:?}: {points:?}");
        }
    }

    #[test]
    fn sentences_say_what_is_lost_to_what_and_what_is_not_known() {
        let points = [(1, 1_000.0), (2, 1_800.0), (4, 3_000.0), (8, 4_000.0)];
        let law = ScaleLaw {
            alone: ScaleEstimate { value: 1_000.0, interval: Some((950.0, 1_050.0)) },
            contention: ScaleEstimate { value: 0.1, interval: None },
            coherence: ScaleEstimate { value: 0.005, interval: None },
            peak: Some(13.4),
            no_peak: None,
            r_squared: 0.99,
            worst_residual: 0.02,
        };
        let of = runs(&points, Some(law));
        assert_eq!(scale_headline(&of), "8 producers pass 4,000 msg/s, 4.00 times as much as 1 passes");
        let explained = scale_explained(&of);
        // 1 + 0.1 * 7 + 0.005 * 56 = 1.98.
        assert!(explained[0].contains("49 % is lost: 35 % to contention"), "{explained:?}");
        assert!(explained[1].contains("peaks at 13.4 producers, beyond the tried"), "{explained:?}");
        assert_eq!(scale_notes(&of).len(), 2);
        for (why, says) in [
            (None, "never pass less"),
            (Some(ScaleDoubt::NeverFalls), "never pass less"),
            (Some(ScaleDoubt::Generator(4)), "from 4 producers on the generator"),
            (Some(ScaleDoubt::NotProven), "is not proven"),
            (Some(ScaleDoubt::FarBeyond), "twice the 8 producers"),
        ] {
            let explained = scale_explained(&runs(&points, Some(ScaleLaw { peak: None, no_peak: why, ..law })));
            assert!(explained[1].contains(says), "{explained:?}");
            assert!(!explained[1].contains("peaks at"), "{explained:?}");
        }
        let poor = ScaleLaw { r_squared: 0.5, peak: None, no_peak: Some(ScaleDoubt::PoorFit), ..law };
        let mut of = runs(&points, Some(poor));
        of.runs[0].limited_by = LimitedBy::Generator;
        let explained = scale_explained(&of);
        assert!(explained.len() == 1 && explained[0].contains("do not follow the law"), "{explained:?}");
        let notes = scale_notes(&of);
        assert!(notes[2].contains("fits poorly") && notes[3].contains("in 1 of 4 runs"), "{notes:?}");
        // Runs that passed nothing are told.
        of.runs[3].throughput = 0.0;
        let notes = scale_notes(&of);
        assert!(notes[3].starts_with("in 1 of 4 runs no message passed"), "{notes:?}");
        // Whose curve it is was said twice.
        let doubtful = ScaleLaw { peak: None, no_peak: Some(ScaleDoubt::Generator(4)), ..law };
        let notes = scale_notes(&ScaleRuns { law: Some(doubtful), ..of });
        assert!(notes.iter().any(|it| it.ends_with("the generator was the limit")), "{notes:?}");
        assert!(scale_explained(&runs(&points[..2], None))[0].contains("no law"));
        assert!(scale_headline(&runs(&[], None)).contains("no run has ended"));
        let falling = runs(&[(1, 50.0), (2, 40.0)], None);
        assert_eq!(scale_headline(&falling), "1 producer passes 50.0 msg/s; more of them pass no more");
    }
}
