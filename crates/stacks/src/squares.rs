//! How much the weights of a profile's samples let its sums vary.

use std::borrow::Cow;

use super::model::Profile;

/// A profile with the square of each sample's weight in the place of the weight, so that whatever adds weights up adds up
/// squares. Where weights count samples that were added up before, each of them counts 1, and so does its square.
#[derive(Clone, Debug)]
pub struct Squares<'p> {
    /// The profile with squares for weights, in units of `scale`.
    pub profile: Cow<'p, Profile>,
    /// Factor for weights: squares of nanoseconds have no place in an integer.
    pub scale: f64,
}

impl Profile {
    /// The squares of its weights.
    #[must_use]
    pub fn squares(&self) -> Squares<'_> {
        if self.header.counts_samples() {
            return Squares {
                profile: Cow::Borrowed(self),
                scale: 1.0,
            };
        }
        let square = |weight: u64| u128::from(weight) * u128::from(weight);
        let sum = self.samples.iter().fold(0u128, |sum, sample| {
            sum.saturating_add(square(sample.weight))
        });
        let scale = (sum >> 62).max(1);
        let mut profile = self.clone();
        for sample in &mut profile.samples {
            sample.weight = u64::try_from(square(sample.weight) / scale).unwrap_or(u64::MAX);
        }
        Squares {
            profile: Cow::Owned(profile),
            scale: scale as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::profile;

    #[test]
    fn samples_that_were_added_up_are_their_own_squares() {
        let profile = profile(&[("t;f", 7), ("t;g", 3)]);
        let squares = profile.squares();
        assert_eq!((squares.profile.total_weight(), squares.scale), (10, 1.0));
    }

    #[test]
    fn times_and_bytes_are_squared_and_fit() {
        let mut profile = profile(&[("t;f", 3_000_000_000), ("t;g", 4_000_000_000)]);
        profile.header.unit = "nanoseconds".into();
        let squares = profile.squares();
        let sum = squares.profile.total_weight() as f64 * squares.scale;
        assert!((sum / 25e18 - 1.0).abs() < 1e-9, "{sum}");
        profile.samples[0].weight = u64::MAX;
        let squares = profile.squares();
        let sum = squares.profile.total_weight() as f64 * squares.scale;
        assert!(
            (sum / (u64::MAX as f64).powi(2) - 1.0).abs() < 1e-9,
            "{sum}"
        );
    }
}
