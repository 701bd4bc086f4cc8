use super::*;
use crate::order::Draw;

const SEARCH: LimitPlan =
    LimitPlan { first: 10_000.0, least: 10.0, most: 10_000_000.0, precision: 0.05, confirmations: 3, most_trials: 60 };

fn search(search: &LimitPlan, mut broker: impl FnMut(f64, usize) -> Option<bool>) -> (FoundLimit, Vec<Trial>) {
    let mut trials = Vec::new();
    loop {
        match limit_step(search, &trials) {
            LimitStep::Found(interval) => return (interval, trials),
            LimitStep::Try(rate) => {
                assert!(rate >= search.least && rate <= search.most, "{rate}");
                assert!(trials.len() < search.most_trials as usize, "it ends: {trials:?}");
                trials.push((rate, broker(rate, trials.len())));
            }
        }
    }
}

#[test]
fn a_broker_with_a_limit_is_held_between_two_rates_wherever_the_limit_lies() {
    let mut draws = Draw::new(1);
    for _ in 0..500 {
        let limit = 10.0 * 10_f64.powf(draws.uniform() * 5.9) * 1.01;
        let (found, trials) = search(&SEARCH, |rate, _| Some(rate <= limit));
        let (low, high) = (found.low.unwrap(), found.high.unwrap());
        assert!(low <= limit && limit < high, "{low} {limit} {high}");
        assert!(high <= low * 1.0501, "{low} {high}");
        assert!(found.confirmed);
        assert!(trials.len() <= 30, "{limit}: {} trials", trials.len());
    }
}

#[test]
fn near_a_limit_that_wavers_the_interval_covers_what_is_unsure() {
    let mut covered = 0;
    for seed in 0..200 {
        let mut draws = Draw::new(seed);
        let limit = 10_000.0 * (1.0 + 9.0 * draws.uniform());
        // Each trial's own limit lies 3 % around.
        let (found, trials) = search(&SEARCH, |rate, _| {
            let sum: f64 = (0..12).map(|_| draws.uniform()).sum();
            Some(rate <= limit * (1.0 + 0.03 * (sum - 6.0)))
        });
        let (low, high) = (found.low.unwrap(), found.high.unwrap_or(f64::INFINITY));
        assert!(low < high, "{trials:?}");
        assert!(found.confirmed || trials.len() == SEARCH.most_trials as usize);
        covered += usize::from(low <= limit && limit <= high);
        // Half of the trials hold at the limit; three of three do so far below.
        assert!(low > limit * 0.8, "{low} {limit}: {trials:?}");
    }
    assert!(covered >= 185, "{covered} of 200 intervals cover the limit");
}

#[test]
fn a_generator_that_is_the_limit_leaves_the_upper_end_open() {
    let (found, trials) = search(&SEARCH, |rate, _| (rate <= 50_000.0).then_some(true));
    assert_eq!(found.high, None);
    let (low, unclear) = (found.low.unwrap(), found.unclear.unwrap());
    assert!(low <= 50_000.0 && 50_000.0 < unclear && unclear <= low * 1.0501);
    assert!(trials.len() < 30, "{}", trials.len());
    // All that can be told is: the lower end held as often as was asked for.
    assert!(found.ended && !found.confirmed, "{found:?}");
    assert_eq!(trials.iter().filter(|it| **it == (low, Some(true))).count(), SEARCH.confirmations as usize);
}

#[test]
fn one_bad_trial_far_below_the_limit_is_made_anew() {
    for bad in 0..12 {
        for outcome in [Some(false), None] {
            let (found, _) = search(&SEARCH, |rate, number| match number == bad {
                true => outcome,
                false => Some(rate <= 64_000.0),
            });
            let (low, high) = (found.low.unwrap(), found.high.unwrap());
            assert!(low <= 64_000.0 && 64_000.0 < high, "{bad} {outcome:?}: {found:?}");
        }
    }
}

#[test]
fn rates_have_three_digits() {
    for (rate, expected) in [(12_345.0, 12_300.0), (0.012_345, 0.0123), (999.6, 1_000.0), (7.0, 7.0)] {
        assert_eq!(round_rate(rate), expected);
    }
}

#[test]
fn whatever_trials_say_the_search_ends_with_an_interval_that_is_none_the_wrong_way_round() {
    for seed in 0..2_000 {
        let mut draws = Draw::new(seed);
        let (found, trials) = search(&SEARCH, |_, _| match draws.uniform() {
            ..0.4 => Some(true),
            ..0.8 => Some(false),
            _ => None,
        });
        if let (Some(low), Some(high)) = (found.low, found.high) {
            assert!(low < high, "{seed}: {found:?}");
        }
        let agree = |rate: f64, outcome| trials.iter().filter(|it| **it == (rate, outcome)).count();
        let low = found.low.map(|it| agree(it, Some(true)));
        let high = found.high.filter(|_| low.is_some()).map(|it| agree(it, Some(false)));
        let mut ends = low.into_iter().chain(high);
        let is_confirmed = ends.all(|it| it >= SEARCH.confirmations as usize);
        assert!(is_confirmed || !found.ended, "{seed}: {found:?}");
    }
}

#[test]
fn rates_with_more_digits_at_the_ends_of_what_may_be_tried_are_tried_themselves_and_not_for_ever() {
    for seed in 0..2_000 {
        let mut draws = Draw::new(seed);
        let least = 1.0 + 2_000.0 * draws.uniform();
        let most = least * (1.0 + 40.0 * draws.uniform());
        let search_here = LimitPlan { first: least + (most - least) * draws.uniform(), least, most, ..SEARCH };
        // Beyond both ends, too.
        let limit = least / 2.0 + (most * 1.5 - least / 2.0) * draws.uniform();
        let (found, trials) = search(&search_here, |rate, _| Some(rate <= limit));
        assert!(trials.len() <= 30, "{seed}: {trials:?}");
        match (found.low, found.high) {
            (Some(low), Some(high)) => assert!(low <= limit && limit < high, "{seed}: {found:?}"),
            (Some(low), None) => assert_eq!(low, most, "{seed}: all that may be tried holds"),
            (None, high) => assert_eq!(high, Some(least), "{seed}: nothing does"),
        }
    }
}

#[test]
fn where_trials_agree_no_more_are_made_than_were_announced() {
    let mut draws = Draw::new(7);
    for _ in 0..20 {
        // Some limits lie above all that is tried.
        let limit = 10.0 * 10_f64.powf(draws.uniform() * 6.2);
        let mut trials = Vec::new();
        let mut left = most_trials_left(&SEARCH, &trials);
        assert!(left <= 30, "{left}");
        while let LimitStep::Try(rate) = limit_step(&SEARCH, &trials) {
            trials.push((rate, Some(rate <= limit)));
            let after = most_trials_left(&SEARCH, &trials);
            assert!(after < left, "{limit}: {after} after {left}: {trials:?}");
            left = after;
        }
        assert_eq!(left, 0, "{limit}: {trials:?}");
    }
    // A search is never longer than it may be.
    let short = LimitPlan { most_trials: 5, ..SEARCH };
    assert_eq!(most_trials_left(&short, &[]), 5);
    assert_eq!(most_trials_left(&short, &[(10_000.0, Some(true))]), 4);
}
