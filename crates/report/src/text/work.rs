//! Whose work a profile shows.

use archive::ProfileSummary;

use crate::numbers::percent;

/// One line: the Erlang processes with the largest shares. Nothing for a profile that knows of none.
#[must_use]
pub fn work(profile: &ProfileSummary) -> Option<String> {
    let shares = profile.work.iter();
    let shares = shares.map(|work| format!("{} {}", work.of, percent(work.share)));
    let shares: Vec<_> = shares.collect();
    (!shares.is_empty()).then(|| format!("whose work: {}", shares.join(", ")))
}

#[cfg(test)]
mod tests {
    use archive::WorkShare;

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
    }
}
