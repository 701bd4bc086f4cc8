//! Sentences on a profile: its sampling and stacks, its classes of code, known patterns, and work of Erlang processes.

use stacks::{Class, ClassShare, PatternShare, Profile, ProfileSummary};

use crate::numbers::{count, percent, weight};

/// Classes below this share of all samples are named together.
const LEAST_CLASS: f64 = 0.02;
/// Share of samples in unnamed functions of a virtual machine from which on its classes are estimates.
const LEAST_ESTIMATED: f64 = 0.01;
/// Functions with this share of all samples together are all of a profile's.
const ALL_SAMPLES: f64 = 0.999;
/// Below this share of all samples the largest processes together say nothing of the node.
const LEAST_WORK: f64 = 0.1;

/// One line: how stacks were unwound, and how much was copied for it. `None` where the profile does not say.
pub fn stacks(profile: &ProfileSummary) -> Option<String> {
    let copied = (profile.copied_share > 0.0).then(|| {
        let share = percent(profile.copied_share);
        match profile.copied_bytes {
            // A recording that was killed has not written it.
            0 => format!("{share} unwound from copies"),
            bytes => format!("{share} unwound from copies ({} bytes per sample)", count(bytes)),
        }
    });
    let frame_pointers = (profile.frame_pointer_share > 0.0)
        .then(|| format!("{} by frame pointers", percent(profile.frame_pointer_share)));
    let parts: Vec<_> = [copied, frame_pointers].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| format!("stacks: {}", parts.join(", ")))
}

/// Weight of all samples: `1,234 samples`, `1.20 MB`, `3.40 s`.
pub fn amount(profile: &Profile) -> String {
    weight(profile.total_weight(), &profile.header.unit)
}

/// The kernel's sampling event and its frequency: `by cpu-clock at 999 Hz`; `None` where neither is known.
pub fn clock(profile: &ProfileSummary) -> Option<String> {
    let by = (!profile.clock.is_empty()).then(|| format!("by {}", profile.clock));
    let often = (profile.frequency > 0).then(|| format!("at {} Hz", count(profile.frequency.into())));
    let parts: Vec<_> = [by, often].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(" "))
}

/// Share of the process's CPU time that the samples cover; `None` where that is not known.
pub fn covered(profile: &ProfileSummary) -> Option<String> {
    let share = profile.cpu_share?;
    Some(format!("{} of its CPU time sampled", percent(share)))
}

/// One line: the classes with the largest shares, as text that is not sanitised. Nothing for a profile without samples.
pub fn classes(profile: &ProfileSummary) -> Option<String> {
    let (large, small): (Vec<&ClassShare>, Vec<_>) = profile.classes.iter().partition(|it| it.share >= LEAST_CLASS);
    let rest: f64 = small.iter().map(|it| it.share).sum();
    let rest = (rest > 0.0).then(|| format!("others {}", percent(rest)));
    let unnamed = profile.unnamed_machine_share();
    let part = |it: &&ClassShare| format!("{} {}", it.class, class_share(it, unnamed, percent));
    let parts: Vec<_> = large.iter().map(part).chain(rest).collect();
    let what = match profile.unit.as_str() {
        "samples" | "nanoseconds" | "" => "time",
        unit => unit,
    };
    (!parts.is_empty()).then(|| format!("{what} in: {}", parts.join(", ")))
}

/// Share of a class, behind the mark of an estimate; `unnamed` is the share of a virtual machine's unnamed functions.
pub(crate) fn class_share(of: &ClassShare, unnamed: f64, shown: fn(f64) -> String) -> String {
    let mark = if is_estimated(of.class, unnamed) { "~" } else { "" };
    format!("{mark}{}", shown(of.share))
}

/// Whether the share of a class is an estimate, beside such a share of unnamed functions of a virtual machine.
pub(crate) const fn is_estimated(class: Class, unnamed: f64) -> bool {
    unnamed >= LEAST_ESTIMATED && class.needs_symbols()
}

/// Why classes are estimates, and the remedy; `None` where they are none.
pub(crate) fn estimated_classes(unnamed: f64) -> Option<String> {
    let share = percent(unnamed);
    (unnamed >= LEAST_ESTIMATED)
        .then(|| format!("estimated: {share} in unnamed functions; install debug symbols (Debian: -dbgsym packages)"))
}

/// Likewise of a summary, whose share is that of its largest functions alone where it has not all of them.
pub(crate) fn estimated_summary(profile: &ProfileSummary) -> Option<String> {
    let told = estimated_classes(profile.unnamed_machine_share())?;
    let all: f64 = profile.top.iter().map(|it| it.self_share).sum();
    Some(if all < ALL_SAMPLES { told.replacen(": ", ": at least ", 1) } else { told })
}

/// One sentence on a pattern: share of the samples, their work, place, and cure elsewhere, with the source.
pub fn known_pattern(of: &PatternShare) -> String {
    let below = of.function.as_deref().map_or_else(String::new, |function| {
        let name = function.strip_prefix('$').unwrap_or(function);
        format!(" ({} below {name})", percent(of.function_share))
    });
    format!("{} of CPU {}{below}; {}", percent(of.share), of.says, of.cure)
}

/// One line: Erlang processes with the largest shares. `None` where these are tiny together, or none is known.
pub fn work(profile: &ProfileSummary) -> Option<String> {
    let together: f64 = profile.work.iter().map(|work| work.share).sum();
    let shares: Vec<_> = profile.work.iter().map(|work| format!("{} {}", work.of, percent(work.share))).collect();
    (together >= LEAST_WORK).then(|| format!("whose work: {}", shares.join(", ")))
}

#[cfg(test)]
mod tests {
    use stacks::{Class, FunctionShare, WorkShare};

    use super::*;

    #[test]
    fn the_clock_is_named_as_far_as_it_is_known_and_so_is_every_method() {
        assert_eq!(clock(&ProfileSummary::default()), None);
        let mut profile = ProfileSummary { frequency: 999, ..ProfileSummary::default() };
        assert_eq!(clock(&profile).as_deref(), Some("at 999 Hz"));
        profile.clock = "cpu-clock".into();
        assert_eq!(clock(&profile).as_deref(), Some("by cpu-clock at 999 Hz"));
        // Weights of which nothing says what they count are no samples.
        let mut profile = Profile::default();
        profile.header.unit = "weight".into();
        assert_eq!(amount(&profile), "a weight of 0");
        assert_eq!(stacks(&ProfileSummary::default()), None);
        for (frame_pointer_share, copied_share, told) in [
            (1.0, 0.0, "stacks: 100 % by frame pointers"),
            (0.25, 0.75, "stacks: 75 % unwound from copies (2,068 bytes per sample), 25 % by frame pointers"),
        ] {
            let shares = ProfileSummary { frame_pointer_share, copied_share, ..ProfileSummary::default() };
            assert_eq!(stacks(&ProfileSummary { copied_bytes: 2_068, ..shares }).as_deref(), Some(told));
        }
    }

    #[test]
    fn small_classes_come_together_and_the_largest_work_in_one_line() {
        assert_eq!(classes(&ProfileSummary::default()), None);
        use Class::{ErlangCode, Ets, GarbageCollection, Waiting};
        let shares = [(ErlangCode, 0.6), (GarbageCollection, 0.37), (Ets, 0.015), (Waiting, 0.015)];
        let shares = shares.map(|(class, share)| ClassShare { class, share, weight: 1 }).into();
        let profile = ProfileSummary { classes: shares, ..ProfileSummary::default() };
        let told = "time in: Erlang code 60 %, garbage collection 37 %, others 3.0 %";
        assert_eq!(classes(&profile).as_deref(), Some(told));
        assert_eq!(estimated_classes(profile.unnamed_machine_share()), None);
        let function = |function: &str, module: &str| FunctionShare {
            function: function.into(),
            module: module.into(),
            self_share: 0.3,
            ..FunctionShare::default()
        };
        let near = "[near ets_select_2+0x40]";
        let top = vec![function(near, "beam.smp"), function(near, "libz.so.1"), function("eq", "beam.smp")];
        let stripped = ProfileSummary { top, ..profile };
        let told = "time in: Erlang code 60 %, garbage collection ~37 %, others 3.0 %";
        assert_eq!(classes(&stripped).as_deref(), Some(told));
        let told = "estimated: 30 % in unnamed functions; install debug symbols (Debian: -dbgsym packages)";
        assert_eq!(estimated_classes(stripped.unnamed_machine_share()).as_deref(), Some(told));
        // The page had 31 % of all functions beside 19 % of the largest twenty.
        let told = told.replace(": 30", ": at least 30");
        assert_eq!(estimated_summary(&stripped).as_deref(), Some(&*told));
        assert_eq!(work(&ProfileSummary::default()), None);
        let share = |of: &str, share| WorkShare { of: of.into(), role: String::new(), share };
        for (largest, told) in [(0.312, Some("whose work: queue orders-7 31 %, <0.12.0> 4.0 %")), (0.05, None)] {
            let shares = vec![share("queue orders-7", largest), share("<0.12.0>", 0.04)];
            assert_eq!(work(&ProfileSummary { work: shares, ..ProfileSummary::default() }).as_deref(), told);
        }
    }

    #[test]
    fn one_sentence_names_share_function_and_cure() {
        let mut of = PatternShare {
            pattern: "match specifications compiled at each call".into(),
            share: 0.0353,
            function: Some("$rabbit_router:find_routes/2".into()),
            function_share: 0.029,
            says: "compiles a match specification".into(),
            cure: "RabbitMQ looks routes up by key".into(),
            source: "https://github.com/rabbitmq/rabbitmq-server/pull/4606".into(),
        };
        let told = "3.5 % of CPU compiles a match specification; RabbitMQ looks routes up by key";
        assert_eq!(known_pattern(&of), told.replace(';', " (2.9 % below rabbit_router:find_routes/2);"));
        of.function = None;
        assert_eq!(known_pattern(&of), told);
    }
}
