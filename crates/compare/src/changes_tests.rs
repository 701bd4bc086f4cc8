use super::*;

/// Values around levels of so many values each, with noise of this deviation.
fn series(levels: &[(f64, usize)], noise: f64, seed: u64) -> Vec<f64> {
    let mut draw = Draw::new(seed);
    let mut normal = || (0..12).map(|_| draw.uniform()).sum::<f64>() - 6.0;
    let each = levels
        .iter()
        .flat_map(|(level, count)| vec![*level; *count]);
    each.map(|level| level + noise * normal()).collect()
}

fn places(values: &[f64], seed: u64) -> Vec<usize> {
    let search = ChangeSearch {
        seed,
        orders: 199,
        ..ChangeSearch::default()
    };
    change_points(values, search)
        .iter()
        .map(|it| it.at)
        .collect()
}

#[test]
fn a_series_without_a_change_has_one_in_a_twentieth_of_all_cases() {
    let wrong = (0..200).filter(|seed| {
        let values = series(&[(100.0, 24)], 2.0, *seed);
        !places(&values, seed + 1_000).is_empty()
    });
    let wrong = wrong.count();
    assert!((2..=20).contains(&wrong), "{wrong} of 200");
}

#[test]
fn every_change_is_found_where_it_is() {
    for seed in 0..40 {
        let values = series(&[(100.0, 12), (112.0, 10), (106.0, 14)], 1.0, seed);
        let found = places(&values, seed);
        assert!(found.contains(&12), "{seed}: {found:?}");
        assert!(
            found.iter().any(|it| (21..=23).contains(it)),
            "{seed}: {found:?}"
        );
        assert!(found.len() <= 4, "{seed}: {found:?}");
    }
}

#[test]
fn a_change_of_two_deviations_is_found_in_most_series_of_twenty() {
    let found = (0..100).filter(|seed| {
        let values = series(&[(100.0, 10), (104.0, 10)], 2.0, *seed);
        places(&values, *seed)
            .iter()
            .any(|it| (8..=12).contains(it))
    });
    let found = found.count();
    assert!(found >= 80, "{found} of 100");
}

#[test]
fn series_that_are_short_equal_or_odd_have_no_change() {
    for values in [
        &[][..],
        &[1.0],
        &[1.0, 9.0],
        &[1.0, 1.0, 1.0, 9.0],
        &[7.0; 50],
    ] {
        assert_eq!(places(values, 1), Vec::<usize>::new(), "{values:?}");
    }
    let odd = [
        f64::NAN,
        f64::INFINITY,
        1.0,
        2.0,
        3.0,
        f64::NEG_INFINITY,
        0.0,
    ];
    let _ = places(&odd, 1);
    // One run that lies apart is no new level.
    let mut one = vec![100.0; 20];
    one[10] = 300.0;
    assert_eq!(places(&one, 1), Vec::<usize>::new());
}

#[test]
fn of_a_long_series_the_end_is_looked_at() {
    let values = series(&[(1.0, 100), (2.0, MOST_VALUES - 50), (3.0, 50)], 0.01, 3);
    let search = ChangeSearch {
        orders: 19,
        ..ChangeSearch::default()
    };
    let found = change_points(&values, search);
    assert_eq!(
        found.iter().map(|it| it.at).collect::<Vec<_>>(),
        [MOST_VALUES + 50]
    );
}
