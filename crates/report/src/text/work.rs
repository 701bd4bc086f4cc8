//! Work of Erlang processes in a profile.

use stacks::ProfileSummary;

use crate::numbers::percent;

/// Below this share of all samples the largest processes together say nothing of the node.
const LEAST_SHARE: f64 = 0.1;

/// One line: Erlang processes with the largest shares. `None` where these are tiny together, or none is known.
#[must_use]
pub fn work(profile: &ProfileSummary) -> Option<String> {
    let together: f64 = profile.work.iter().map(|work| work.share).sum();
    let shares = profile.work.iter();
    let shares = shares.map(|work| format!("{} {}", work.of, percent(work.share)));
    let shares: Vec<_> = shares.collect();
    (together >= LEAST_SHARE).then(|| format!("whose work: {}", shares.join(", ")))
}

#[cfg(test)]
mod tests {
    use stacks::WorkShare;

    use super::*;

    #[test]
    fn the_largest_come_in_one_line() {
        assert_eq!(work(&ProfileSummary::default()), None);
        let share = |of: &str, share| WorkShare {
            of: of.into(),
            role: String::new(),
            share,
        };
        let profile = ProfileSummary {
            work: vec![share("queue orders-7", 0.312), share("<0.12.0>", 0.04)],
            ..ProfileSummary::default()
        };
        assert_eq!(
            work(&profile).as_deref(),
            Some("whose work: queue orders-7 31 %, <0.12.0> 4.0 %")
        );
        let small = ProfileSummary {
            work: vec![share("queue orders-7", 0.05), share("<0.12.0>", 0.04)],
            ..ProfileSummary::default()
        };
        assert_eq!(work(&small), None);
    }
}
