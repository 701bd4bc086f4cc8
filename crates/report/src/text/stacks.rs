//! How a profile's samples were taken, and their stacks found.

use stacks::{Profile, ProfileSummary};

use crate::numbers::{count, percent, weight};

/// One line: how stacks were unwound, how much was copied for it, and the share with a function that is called after
/// its neighbour. `None` where the profile does not say.
#[must_use]
pub fn stacks(profile: &ProfileSummary) -> Option<String> {
    let copied = (profile.copied_share > 0.0).then(|| {
        let share = percent(profile.copied_share);
        match profile.copied_bytes {
            // A recording that was killed has not written it.
            0 => format!("{share} unwound from copies"),
            bytes => format!(
                "{share} unwound from copies ({} bytes a sample)",
                count(bytes)
            ),
        }
    });
    let frame_pointers = (profile.frame_pointer_share > 0.0)
        .then(|| format!("{} by frame pointers", percent(profile.frame_pointer_share)));
    let near = (profile.near_share > 0.0).then(|| {
        format!(
            "{} with a function without a name of its own ([near …])",
            percent(profile.near_share)
        )
    });
    let parts: Vec<_> = [copied, frame_pointers, near]
        .into_iter()
        .flatten()
        .collect();
    (!parts.is_empty()).then(|| format!("stacks: {}", parts.join(", ")))
}

/// Weight of all samples: `1,234 samples`, `1.20 MB`, `3.40 s`.
#[must_use]
pub fn amount(profile: &Profile) -> String {
    weight(profile.total_weight(), &profile.header.unit)
}

/// The kernel's sampling event and its frequency: `by cpu-clock at 999 Hz`; `None` where neither is known.
#[must_use]
pub fn clock(profile: &ProfileSummary) -> Option<String> {
    let by = (!profile.clock.is_empty()).then(|| format!("by {}", profile.clock));
    let often =
        (profile.frequency > 0).then(|| format!("at {} Hz", count(profile.frequency.into())));
    let parts: Vec<_> = [by, often].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(" "))
}

/// Share of the process's CPU time that the samples cover; `None` where that is not known.
#[must_use]
pub fn covered(profile: &ProfileSummary) -> Option<String> {
    let share = profile.cpu_share?;
    Some(format!("{} of its CPU time sampled", percent(share)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_named_as_far_as_it_is_known() {
        assert_eq!(clock(&ProfileSummary::default()), None);
        let mut profile = ProfileSummary {
            frequency: 999,
            ..ProfileSummary::default()
        };
        assert_eq!(clock(&profile).as_deref(), Some("at 999 Hz"));
        profile.clock = "cpu-clock".into();
        assert_eq!(clock(&profile).as_deref(), Some("by cpu-clock at 999 Hz"));
    }

    #[test]
    fn weights_of_which_nothing_says_what_they_count_are_no_samples() {
        let mut profile = Profile::default();
        profile.header.unit = "weight".into();
        assert_eq!(amount(&profile), "a weight of 0");
    }

    #[test]
    fn every_method_is_named_and_none_is_silent() {
        assert_eq!(stacks(&ProfileSummary::default()), None);
        let plain = ProfileSummary {
            frame_pointer_share: 1.0,
            ..ProfileSummary::default()
        };
        assert_eq!(
            stacks(&plain).as_deref(),
            Some("stacks: 100 % by frame pointers")
        );
        let mixed = ProfileSummary {
            copied_share: 0.75,
            frame_pointer_share: 0.25,
            copied_bytes: 2_068,
            near_share: 0.5,
            ..ProfileSummary::default()
        };
        assert_eq!(
            stacks(&mixed).as_deref(),
            Some(
                "stacks: 75 % unwound from copies (2,068 bytes a sample), 25 % by frame pointers, \
                 50 % with a function without a name of its own ([near …])"
            )
        );
    }
}
