//! Whether the shares of two profiles mean the same.

use measure::{Problem, count};

use super::model::{Profile, ProfileHeader, Unwinding};
use crate::summary::ProfileSummary;

/// Part of the frequency by which two may differ: formats round a period.
const SAME_FREQUENCY: f64 = 0.01;
/// Share of stacks that may be complete, or of samples that may have unknown functions, in one profile alone.
const SAME_STACKS: f64 = 0.2;

/// Why two profiles' shares cannot be compared, with remedies; empty where they can, or a format does not say.
pub fn incomparable(a: &Profile, b: &Profile) -> Vec<Problem> {
    let tells_stacks = |profile: &Profile| profile.samples.iter().any(|sample| sample.unwinding != Unwinding::Unknown);
    let has_none = |profile: &Profile| profile.samples.iter().any(|sample| sample.unwinding == Unwinding::Missing);
    let tell_stacks = tells_stacks(a) && tells_stacks(b) || has_none(a) != has_none(b);
    reasons(&a.summary(0), &b.summary(0), tell_stacks)
}

/// Reasons against a comparison of bellows' own profiles, by their summaries.
pub fn incomparable_summaries(a: &ProfileSummary, b: &ProfileSummary) -> Vec<Problem> {
    reasons(a, b, true)
}

fn reasons(a: &ProfileSummary, b: &ProfileSummary, tell_stacks: bool) -> Vec<Problem> {
    let complete = apart(
        a.complete_share,
        b.complete_share,
        "stacks reach their root far more often in one profile than in the other, so that total shares differ by that",
        "complete",
        "take both with call graphs and the same rights (`bellows doctor`), or compare all the same with --force and \
         trust self shares",
    );
    let unknown = apart(
        a.unknown_share,
        b.unknown_share,
        "one profile has far more functions without a name than the other, so that names differ by that",
        "of samples with an unknown function",
        "take both with the same symbols (`bellows help stacks`), or compare all the same with --force",
    );
    let reasons = [event(a, b), unit(a, b), frequency(a, b), complete.filter(|_| tell_stacks), unknown];
    reasons.into_iter().flatten().collect()
}

fn event(a: &ProfileSummary, b: &ProfileSummary) -> Option<Problem> {
    let known = !a.event.is_empty() && !b.event.is_empty();
    (known && a.event != b.event).then(|| {
        Problem::new(
            "the two profiles are of different events, whose shares mean different things",
            format!("{} and {}", a.event, b.event),
            "name an event that both have with --event, or compare all the same with --force",
        )
    })
}

/// Samples of a known frequency stand for time as nanoseconds do.
fn unit(a: &ProfileSummary, b: &ProfileSummary) -> Option<Problem> {
    let of = |it: &ProfileSummary| match it.unit.as_str() {
        "samples" if it.frequency > 0 => "nanoseconds".to_owned(),
        unit => unit.to_owned(),
    };
    let [of_a, of_b] = [a, b].map(of);
    let known = [&of_a, &of_b].map(|it| ProfileHeader::is_known(it)) == [true; 2];
    (known && a.unit != b.unit && of_a != of_b).then(|| {
        Problem::new(
            "the two profiles count in different units, so that their shares may mean different things",
            format!("{of_a} and {of_b}"),
            "compare files of one format, or compare all the same with --force",
        )
    })
}

fn frequency(a: &ProfileSummary, b: &ProfileSummary) -> Option<Problem> {
    let known = a.frequency > 0 && b.frequency > 0;
    let most = f64::from(a.frequency.max(b.frequency)) * SAME_FREQUENCY;
    let differ = f64::from(a.frequency.abs_diff(b.frequency)) > most;
    (known && differ).then(|| {
        let [a, b] = [a, b].map(|it| count(it.frequency.into()));
        Problem::new(
            "the two profiles were sampled at different frequencies, which miss different things",
            format!("{a} Hz and {b} Hz"),
            "sample both with the same --freq, or compare all the same with --force",
        )
    })
}

/// Why two shares lie too far apart, where they do.
fn apart(a: f64, b: f64, cause: &str, of: &str, help: &str) -> Option<Problem> {
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    let value = || format!("{} and {} {of}", percent(a), percent(b));
    ((a - b).abs() > SAME_STACKS).then(|| Problem::new(cause, value(), help))
}

#[cfg(test)]
mod tests {
    use super::super::frames::Frame;
    use super::super::tests::profile as of_stacks;
    use super::*;

    fn profile() -> Profile {
        let mut profile = of_stacks(&[("t;main;f", 10)]);
        profile.header.frequency = 999;
        profile
    }

    fn values(a: &Profile, b: &Profile) -> Vec<String> {
        incomparable(a, b).into_iter().map(|problem| problem.value).collect()
    }

    #[test]
    fn what_is_not_known_is_no_reason() {
        let (known, mut unknown) = (profile(), profile());
        unknown.header.event.clear();
        unknown.header.frequency = 0;
        unknown.samples[0].complete = false;
        assert_eq!(values(&known, &unknown), Vec::<String>::new());
    }

    #[test]
    fn events_and_frequencies_have_to_be_the_same() {
        let (a, mut b) = (profile(), profile());
        b.header.event = "mmap".into();
        b.header.frequency = 4_999;
        assert_eq!(values(&a, &b), ["cpu and mmap", "999 Hz and 4,999 Hz"]);
        b.header.event = "cpu".into();
        // pprof holds a period in whole nanoseconds.
        b.header.frequency = 998;
        assert!(values(&a, &b).is_empty());
    }

    #[test]
    fn units_have_to_be_the_same_unless_both_are_time() {
        let (mut time, mut samples) = (profile(), profile());
        time.header.unit = "nanoseconds".into();
        samples.header.unit = "samples".into();
        assert!(values(&time, &samples).is_empty(), "999 Hz tell the time");
        // Folded text tells neither event nor frequency.
        samples.header.event.clear();
        samples.header.frequency = 0;
        assert_eq!(values(&time, &samples), ["nanoseconds and samples"]);
        for unit in ["", ProfileHeader::WEIGHT, "tenths"] {
            samples.header.unit = unit.into();
            assert!(values(&time, &samples).is_empty());
        }
    }

    #[test]
    fn stacks_have_to_be_as_whole_and_names_as_known() {
        let (mut a, mut b) = (profile(), profile());
        a.samples[0].unwinding = Unwinding::StackCopy;
        b.samples[0].unwinding = Unwinding::FramePointers;
        b.samples[0].complete = false;
        assert_eq!(values(&a, &b), ["100 % and 0 % complete"]);
        // A format that does not say how stacks were found says that there are none.
        b.samples[0].unwinding = Unwinding::Missing;
        a.samples[0].unwinding = Unwinding::Unknown;
        assert_eq!(values(&a, &b), ["100 % and 0 % complete"]);
        let mut unnamed = profile();
        unnamed.frames[1] = Frame::unknown("m");
        assert_eq!(values(&profile(), &unnamed), ["0 % and 100 % of samples with an unknown function"]);
    }
}
