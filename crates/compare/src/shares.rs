//! Whether something has another share of one set of samples than of another.
//!
//! A two-proportion z-test with a pooled share. Samples that weigh differently count by what their weights let vary
//! (Kish, Survey Sampling, 1965, section 11.2): as many equal samples as would vary as much. The test takes samples for
//! independent. Those of one run are not quite, and runs differ by more than their samples do: what it tells is that
//! these samples differ, not that the next two runs will.

/// Standard errors that a difference has to exceed: of 370 shares that do not differ, chance tells one.
const PROVEN: f64 = 3.0;
/// Fewer samples on both sides together tell nothing: the normal distribution is no likeness of so few.
const FEWEST: f64 = 10.0;

/// Samples added up.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Amount {
    /// Sum of their weights.
    pub weight: f64,
    /// Sum of the squares of their weights; that of the weights where each stands for one.
    pub squares: f64,
}

/// A part of a set of samples.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PartOf {
    /// The part.
    pub part: Amount,
    /// The whole set, with the part.
    pub whole: Amount,
}

/// How a share differs between two sets.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ShareDifference {
    /// Share of the first set (0 to 1); 0 of an empty one.
    pub a: f64,
    /// Share of the second.
    pub b: f64,
    /// Whether they differ by more than chance gives: by more than three standard errors, in ten samples or more.
    pub proven: bool,
}

impl ShareDifference {
    /// The second less the first.
    pub fn change(&self) -> f64 {
        self.b - self.a
    }
}

impl Amount {
    /// Samples that all weigh the same.
    pub const fn equal(samples: f64) -> Self {
        Self { weight: samples, squares: samples }
    }

    /// Equal samples that would vary as much.
    pub fn samples(self) -> f64 {
        let samples = self.weight * (self.weight / self.squares);
        if samples.is_finite() { samples } else { 0.0 }
    }
}

impl PartOf {
    fn share(self) -> f64 {
        let share = self.part.weight / self.whole.weight;
        if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 }
    }

    /// In units in which a sample of the whole weighs 1, so that sets in different units can be pooled.
    fn in_samples(self) -> Self {
        let unit = self.whole.squares / self.whole.weight;
        if !unit.is_finite() || unit <= 0.0 {
            return Self::default();
        }
        let scaled = |it: Amount| Amount { weight: it.weight / unit, squares: it.squares / unit / unit };
        Self { part: scaled(self.part), whole: scaled(self.whole) }
    }
}

/// How the share of something differs between two sets.
pub fn share_difference(a: PartOf, b: PartOf) -> ShareDifference {
    let (share_a, share_b) = (a.share(), b.share());
    let error = standard_error(a.in_samples(), b.in_samples());
    let difference = (share_b - share_a).abs();
    ShareDifference { a: share_a, b: share_b, proven: error.is_some_and(|error| difference > PROVEN * error) }
}

/// The standard error of the difference where there is none; `None` where too few samples tell it.
fn standard_error(a: PartOf, b: PartOf) -> Option<f64> {
    let sum = |of: fn(PartOf) -> f64| of(a) + of(b);
    let (part, whole) = (sum(|it| it.part.weight), sum(|it| it.whole.weight));
    let squares = sum(|it| it.part.squares);
    let each = part / squares;
    let one_is_empty = a.whole.weight <= 0.0 || b.whole.weight <= 0.0;
    // No number is not enough either.
    let enough = part * each >= FEWEST;
    if one_is_empty || !whole.is_finite() || !enough {
        return None;
    }
    let share = (part / whole).clamp(0.0, 1.0);
    let mean = |squares: f64, weight: f64| {
        let mean = squares / weight;
        if mean.is_finite() { mean.max(0.0) } else { 0.0 }
    };
    // What a sample weighs, in the part and beside it.
    let inside = mean(squares, part);
    let outside = mean(sum(|it| it.whole.squares) - squares, whole - part);
    let weighs = inside * (1.0 - share) + outside * share;
    let of_each = 1.0 / a.whole.weight + 1.0 / b.whole.weight;
    Some((share * (1.0 - share) * weighs * of_each).sqrt())
}

/// The smallest change of a share (0 to 1) that these samples can tell; `None` where none, or none that large exists.
pub fn smallest_change(share: f64, a: Amount, b: Amount) -> Option<f64> {
    let (a, b) = (a.samples(), b.samples());
    let change = PROVEN * (share * (1.0 - share) * (1.0 / a + 1.0 / b)).sqrt();
    // Fewer samples prove nothing, however far apart their shares are.
    let change = change.max((FEWEST - share * (a + b)) / a.max(b));
    (change <= share.max(1.0 - share)).then_some(change)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(part: f64, whole: f64) -> PartOf {
        PartOf { part: Amount::equal(part), whole: Amount::equal(whole) }
    }

    /// Pearson's chi-squared of a table of four fields, which is the square of z.
    fn chi_squared([a, b, c, d]: [f64; 4]) -> f64 {
        let n = a + b + c + d;
        n * (a * d - b * c).powi(2) / ((a + b) * (c + d) * (a + c) * (b + d))
    }

    #[test]
    fn the_standard_error_is_that_of_pearsons_test() {
        // prop.test(c(50, 30), c(1000, 1000), correct = FALSE) of R says X-squared = 5.2083.
        for (x, n, y, m) in [(50.0, 1000.0, 30.0, 1000.0), (3.0, 100.0, 400.0, 20_000.0), (0.0, 5_000.0, 25.0, 700.0)] {
            let error = standard_error(of(x, n), of(y, m)).unwrap();
            let z = (x / n - y / m) / error;
            let expected = chi_squared([x, n - x, y, m - y]);
            assert!((z * z - expected).abs() < 1e-9, "{z} for {x} of {n}");
        }
        let error = standard_error(of(50.0, 1000.0), of(30.0, 1000.0)).unwrap();
        assert!(((0.02 / error).powi(2) - 5.2083).abs() < 1e-4);
    }

    #[test]
    fn one_per_cent_of_24000_samples_shows_a_quarter_of_a_point_and_no_share_more_than_all_of_it() {
        let samples = Amount::equal(24_000.0);
        let change = smallest_change(0.01, samples, samples).unwrap();
        assert!((change - 0.00272).abs() < 1e-5, "{change}");
        let told = |points: f64| {
            let b = of(240.0 + points * 240.0, 24_000.0);
            share_difference(of(240.0, 24_000.0), b).proven
        };
        assert!(told(0.31) && !told(0.26));
        assert_eq!(smallest_change(0.01, samples, Amount::default()), None);
        for samples in 1..200 {
            let side = Amount::equal(f64::from(samples));
            for share in [0.01, 0.1, 0.5, 0.9] {
                let change = smallest_change(share, side, side);
                assert!(change.is_none_or(|it| it <= 0.99), "{samples} {share}: {change:?}");
            }
        }
        let told = |samples: f64| {
            let side = Amount::equal(samples);
            smallest_change(0.01, side, side)
        };
        assert_eq!(told(5.0), None);
        // Ten samples are the fewest that tell anything.
        let change = told(24.0).unwrap();
        let proven = |change: f64| {
            let b = of(0.24 + change * 24.0, 24.0);
            share_difference(of(0.24, 24.0), b).proven
        };
        assert!(proven(change * 1.01) && !proven(change * 0.99), "{change}");
    }

    #[test]
    fn chance_alone_proves_nothing_but_once_in_370() {
        let mut random = crate::order::Draw::new(7);
        let mut draw = |share: f64, of: u32| (0..of).filter(|_| random.uniform() <= share).count() as f64;
        let trials = 4_000;
        let wrong = (0..trials).filter(|_| {
            let (a, b) = (draw(0.03, 800), draw(0.03, 400));
            share_difference(of(a, 800.0), of(b, 400.0)).proven
        });
        let wrong = wrong.count();
        assert!(wrong < 40, "{wrong} of {trials}, expected 11");
    }

    #[test]
    fn swapped_sides_negate_and_units_make_no_difference() {
        let (a, b) = (of(900.0, 10_000.0), of(100.0, 3_000.0));
        let (there, back) = (share_difference(a, b), share_difference(b, a));
        let in_ns = |it: Amount| Amount { weight: it.weight * 1e6, squares: it.squares * 1e12 };
        let mixed = share_difference(a, PartOf { part: in_ns(b.part), whole: in_ns(b.whole) });
        assert!(there.proven && back.proven && mixed.proven);
        assert!((there.change() + back.change()).abs() < 1e-12);
        assert!((there.change() - mixed.change()).abs() < 1e-12);
        let same = share_difference(a, a);
        assert_eq!((same.change(), same.proven), (0.0, false));
    }

    #[test]
    fn a_few_heavy_samples_and_degenerate_sides_prove_nothing() {
        // 10,000 waits of 1 ms, and five of 400 ms: a sixth of the time, and chance.
        let small = Amount { weight: 10_000e6, squares: 10_000e12 };
        let heavy = Amount { weight: 5.0 * 400e6, squares: 5.0 * 400e6 * 400e6 };
        let with = Amount { weight: small.weight + heavy.weight, squares: small.squares + heavy.squares };
        let a = PartOf { part: Amount::default(), whole: small };
        let b = PartOf { part: heavy, whole: with };
        let found = share_difference(a, b);
        assert!(!found.proven && found.b > 0.16, "{found:?}");
        // A hundred of 20 ms weigh the same, and tell.
        let many = Amount { weight: heavy.weight, squares: 100.0 * 20e6 * 20e6 };
        let b = PartOf { part: many, whole: Amount { weight: with.weight, squares: small.squares + many.squares } };
        assert!(share_difference(a, b).proven);
        let nothing = of(0.0, 0.0);
        for (a, b) in [
            (nothing, nothing),
            (nothing, of(50.0, 100.0)),
            (of(50.0, 100.0), nothing),
            (of(4.0, 10.0), of(0.0, 10_000.0)),
            (of(f64::NAN, 100.0), of(f64::NAN, f64::NAN)),
            (of(f64::MAX, f64::MAX), of(1.0, f64::MAX)),
        ] {
            let found = share_difference(a, b);
            assert!(!found.proven, "{found:?}");
            assert!(found.a.is_finite() && found.b.is_finite(), "{found:?}");
        }
        // All of both: nothing can vary.
        assert!(!share_difference(of(100.0, 100.0), of(50.0, 50.0)).proven);
        assert!(share_difference(of(0.0, 100.0), of(50.0, 50.0)).proven);
    }
}
