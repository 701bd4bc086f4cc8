//! Where a curve of latency against rate begins to rise faster than the rate: its knee, by Kneedle.
//!
//! V. Satopää, J. Albrecht, D. Irwin, B. Raghavan, "Finding a 'Kneedle' in a Haystack: Detecting Knee Points in System
//! Behavior" (ICDCS Workshops 2011). Both axes are stretched to 0 to 1; the knee is where the curve lies farthest below
//! the diagonal, if it comes back by more than the mean distance of two rates (the paper's sensitivity, 1). Noise is
//! smoothed by the closest curve that nowhere falls. Stretched axes hide how far a curve grows: beyond a knee it has to
//! grow by the rate's factor at least.

/// Rates below which a curve has no shape.
pub const LEAST_RATES: usize = 5;
/// The latency has to grow by this factor over all rates: what is stretched to 0 to 1 has a knee of noise otherwise.
const LEAST_RISE: f64 = 2.0;
/// The latency has to grow by this many times what the rate does where it leaps.
const LEAST_LEAP: f64 = 1.5;
/// That many times where no rise is asked for.
const SURE_LEAP: f64 = 5.0;
/// The paper's sensitivity: how many mean distances of two rates the curve has to come back.
const SENSITIVITY: f64 = 1.0;

/// The place of the knee among points (rate, latency) in the order of their rates; `None` where there is none.
pub fn knee(points: &[(f64, f64)]) -> Option<usize> {
    let is_finite = points.iter().all(|it| it.0.is_finite() && it.1.is_finite() && it.1 >= 0.0);
    let is_rising = points.windows(2).all(|it| matches!(it, [a, b] if a.0 < b.0));
    if points.len() < LEAST_RATES || !is_finite || !is_rising {
        return None;
    }
    let rates = points.iter().map(|it| it.0);
    let smooth = never_falling(&points.iter().map(|it| it.1).collect::<Vec<_>>());
    let (&low, &high) = (smooth.first()?, smooth.last()?);
    if !is_rise(low, high) {
        return None;
    }
    let (first, last) = (points.first()?.0, points.last()?.0);
    let below: Vec<f64> = rates
        .zip(&smooth)
        .map(|(rate, latency)| (rate - first) / (last - first) - (latency - low) / (high - low))
        .collect();
    let (at, most) = below.iter().copied().enumerate().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let mean_step = 1.0 / (points.len() - 1) as f64;
    let (rate, latency) = (points.get(at)?.0, smooth.get(at)?);
    let runs_away = high * rate >= latency * last;
    // It always comes back to the diagonal at the end.
    (most > SENSITIVITY * mean_step && at > 0 && runs_away).then_some(at)
}

/// Whether a curve rises from its lowest rate to its highest by more than noise may.
pub fn rises(points: &[(f64, f64)]) -> bool {
    let smooth = never_falling(&points.iter().map(|it| it.1).collect::<Vec<_>>());
    smooth.first().zip(smooth.last()).is_some_and(|(low, high)| is_rise(*low, *high))
}

fn is_rise(low: f64, high: f64) -> bool {
    high >= low * LEAST_RISE && high > low
}

/// The places of the first two neighbours between which a curve without a knee leaps: it grows there by many times what
/// the rate does, or by clearly more and a tenth of all its rise. `None` where it nowhere does, or has no rise.
pub fn leap(points: &[(f64, f64)]) -> Option<(usize, usize)> {
    let smooth = never_falling(&points.iter().map(|it| it.1).collect::<Vec<_>>());
    let (low, high) = (smooth.first()?, smooth.last()?);
    let rise = high - low;
    if !is_rise(*low, *high) {
        return None;
    }
    let steps = points.windows(2).zip(smooth.windows(2));
    let is_leap = |step: (&[(f64, f64)], &[f64])| match step {
        ([from, to], [low, high]) => {
            let grows = |least: f64| high > low && high * from.0 >= least * low * to.0;
            grows(SURE_LEAP) || grows(LEAST_LEAP) && high - low >= rise / 10.0
        }
        _ => false,
    };
    steps.map(is_leap).position(|it| it).map(|at| (at, at + 1))
}

/// The values that lie closest to these and nowhere fall (pool adjacent violators).
fn never_falling(values: &[f64]) -> Vec<f64> {
    let mut pools: Vec<(f64, usize)> = Vec::new();
    for &value in values {
        let mut pool = (value, 1);
        while let Some(&(mean, count)) = pools.last().filter(|it| it.0 > pool.0) {
            pools.pop();
            let all = count + pool.1;
            pool = ((mean * count as f64 + pool.0 * pool.1 as f64) / all as f64, all);
        }
        pools.push(pool);
    }
    pools.iter().flat_map(|&(mean, count)| std::iter::repeat_n(mean, count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::Draw;

    #[test]
    fn the_knee_of_a_queue_lies_where_its_latency_runs_away_and_the_papers_own_example_has_its() {
        // M/M/1 with a capacity of 100: the latency is 1 / (100 - rate).
        let points: Vec<(f64, f64)> =
            (1..20).map(|it| f64::from(it) * 5.0).map(|rate| (rate, 1.0 / (100.0 - rate))).collect();
        let (rate, _) = points[knee(&points).unwrap()];
        assert!((75.0..=85.0).contains(&rate), "{rate}");
        // Figure 2 of the paper: y = -1/x + 5 for x in 0 to 1 has its knee at 0.22; turned over it is a convex curve.
        let points: Vec<(f64, f64)> =
            (1..=10).map(|it| f64::from(it) / 10.0).map(|x| (-x, 1.0 / x)).rev().map(|(x, y)| (x + 2.0, y)).collect();
        let (rate, _) = points[knee(&points).unwrap()];
        assert!((2.0 - rate - 0.3).abs() < 0.11, "{rate}");
    }

    #[test]
    fn straight_flat_and_short_curves_have_none_and_falling_ones_are_pooled() {
        let line: Vec<(f64, f64)> = (1..20).map(|it| (f64::from(it), f64::from(it))).collect();
        assert_eq!(knee(&line), None);
        let flat: Vec<(f64, f64)> = (1..20).map(|it| (f64::from(it), 1.0 + f64::from(it % 3) * 0.1)).collect();
        assert_eq!(knee(&flat), None);
        assert_eq!(knee(&[(1.0, 1.0), (2.0, 1.0), (3.0, 1.0), (4.0, 50.0)]), None);
        assert_eq!(knee(&[]), None);
        let senseless: Vec<(f64, f64)> = (1..9).map(|it| (f64::from(it), f64::NAN)).collect();
        assert_eq!(knee(&senseless), None);
        assert_eq!(never_falling(&[1.0, 3.0, 2.0, 4.0]), [1.0, 2.5, 2.5, 4.0]);
        assert_eq!(never_falling(&[3.0, 2.0, 1.0]), [2.0, 2.0, 2.0]);
        // One high trial in the middle of calm ones is no knee of its own.
        let mut noisy: Vec<(f64, f64)> =
            (1..=20).map(|it| f64::from(it) * 4.9).map(|rate| (rate, 1.0 / (100.0 - rate))).collect();
        noisy[8].1 *= 1.5;
        assert!(noisy[knee(&noisy).unwrap()].0 > 70.0);
    }

    /// A wall low in the range, with no rate in it, bends the curve the other way: Kneedle finds nothing.
    #[test]
    fn a_curve_that_leaps_between_two_rates_has_no_knee_but_a_leap() {
        let wall: Vec<(f64, f64)> =
            [5e3, 10e3, 20e3, 40e3, 80e3].map(|rate| (rate, if rate < 15e3 { 1.0 } else { 900.0 })).into();
        assert_eq!((knee(&wall), leap(&wall)), (None, Some((1, 2))));
        // As much latency as the rate grows by is none, however far the rates lie apart.
        for power in [0.0, 0.5, 1.0] {
            let even: Vec<(f64, f64)> = wall.iter().map(|it| (it.0, it.0.powf(power))).collect();
            assert_eq!(leap(&even), None, "{power}");
        }
        // The first step that is steep, however far it goes on behind it.
        for (latencies, step) in [
            ([1.0, 1.0, 300.0, 600.0, 900.0], (1, 2)),
            ([1.0, 1.0, 3.9, 4.0, 4.1], (1, 2)),
            ([1.0, 1.0, 30.0, 900.0, 950.0], (1, 2)),
            ([1.0, 1.1, 1.2, 1.1, 1.6], (0, 0)),
        ] {
            let points: Vec<_> = wall.iter().map(|it| it.0).zip(latencies).collect();
            assert_eq!(leap(&points), Some(step).filter(|it| it.1 > 0));
        }
        assert_eq!((leap(&[]), leap(&wall[..1])), (None, None));
    }

    /// Rates of a thousand to one leave no room for a latency that doubles: it is stretched as far.
    #[test]
    fn beyond_a_knee_latency_grows_by_the_rates_factor_at_least() {
        let latencies = [1.0, 1.01, 1.02, 1.03, 1.04, 1.05, 1.2, 1.4, 1.6, 1.8, 2.0];
        let rates = (0..11).map(|it| 10.0 + 99.0 * f64::from(it));
        let doubles: Vec<(f64, f64)> = rates.zip(latencies).collect();
        assert_eq!((knee(&doubles), rises(&doubles)), (None, true));
        let mut draw = Draw::new(11);
        let mut of = |all: &[f64]| all[(draw.uniform() * all.len() as f64) as usize];
        let (mut told, mut leaps) = (0, 0);
        for _ in 0..20_000 {
            let (mut rate, mut latency) = (1_000.0, 1.0);
            let points: Vec<(f64, f64)> = (0..9)
                .map(|_| {
                    rate *= of(&[1.05, 1.2, 2.0, 4.0]);
                    latency *= of(&[0.8, 1.0, 1.0, 1.1, 1.4, 2.5, 30.0]);
                    (rate, latency)
                })
                .collect();
            let last = points.len() - 1;
            let smooth = never_falling(&points.iter().map(|it| it.1).collect::<Vec<_>>());
            if let Some(at) = knee(&points) {
                told += 1;
                let (of_rate, of_latency) = (points[last].0 / points[at].0, smooth[last] / smooth[at]);
                assert!(rises(&points) && of_latency >= of_rate * 0.999, "{points:?}");
            }
            if let Some((from, to)) = leap(&points) {
                leaps += 1;
                // What is told are the values themselves, which leap by no less than the smooth ones.
                let (of_rate, of_latency) = (points[to].0 / points[from].0, points[to].1 / points[from].1);
                assert!(rises(&points) && of_latency >= LEAST_LEAP * of_rate * 0.999, "{points:?}");
            }
        }
        assert!(told > 500 && leaps > 500, "{told} {leaps}");
    }

    #[test]
    fn the_docs_say_how_steep_a_leap_is() {
        let docs = include_str!("../../../docs/limit.md");
        let docs = docs.split_whitespace().collect::<Vec<_>>().join(" ");
        let said = format!(
            "by at least {SURE_LEAP} times the rate's factor, {} times where the rate doubles",
            2.0 * SURE_LEAP
        );
        assert!(docs.contains(&said), "{said}");
    }
}
