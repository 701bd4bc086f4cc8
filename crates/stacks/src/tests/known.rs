//! Known patterns are told where they have their share, and not just below it, nor where something is only like them.

use super::classes::profile;
use crate::KnownPattern;
use crate::PatternShare;

/// Frame of no pattern.
const OTHER: &str = "e:$rabbit_channel:handle_cast/2";

/// The name of each pattern, a stack that has it, and one that is like it.
fn cases() -> Vec<[&'static str; 3]> {
    testkit::table(include_str!("known.txt"))
}

/// Share of a pattern where some of a thousand samples have a stack.
fn told(pattern: &str, stack: &str, samples: usize) -> Option<PatternShare> {
    let stacks = [vec![stack; samples], vec![OTHER; 1_000 - samples]].concat();
    profile(&stacks).known_patterns().into_iter().rfind(|it| it.pattern == pattern)
}

/// Who has written down what the patterns cost.
const SOURCES: [&str; 6] = [
    "https://github.com/rabbitmq/",
    "https://github.com/prometheus-erl/prometheus.erl/",
    "https://www.rabbitmq.com/docs/",
    "https://www.erlang.org/doc/",
    "https://www.erlang-solutions.com/blog/",
    "https://docs.kernel.org/",
];

#[test]
fn the_built_in_patterns_are_well_formed_have_their_source_and_stand_in_the_documents() {
    let docs = include_str!("../../../../docs/stacks.md");
    let all = KnownPattern::parse(include_str!("../known.txt")).expect("built-in patterns");
    for it in &all {
        assert!([&it.name, &it.says, &it.cure, &it.source].iter().all(|text| !text.is_empty()), "{it:?}");
        assert!(it.above > 0.0 && !it.stacks.is_empty());
        let is_known = SOURCES.iter().any(|known| it.source.starts_with(known));
        assert!(is_known && !it.source.contains(char::is_whitespace), "{}", it.source);
        let row = format!("| {} | {} % | {} | {} | {} |", it.name, it.above * 100.0, it.says, it.cure, it.source);
        assert!(docs.lines().any(|line| line == row), "docs/stacks.md lacks\n{row}");
    }
    assert_eq!(all.len(), cases().len());
}

#[test]
fn each_pattern_is_told_at_its_share_and_not_below() {
    for [name, stack, other] in cases() {
        let pattern = KnownPattern::built_in().iter().find(|it| it.name == name);
        let enough = (pattern.expect(name).above * 1_000.0).round() as usize;
        let found = told(name, stack, enough).expect(name);
        assert!((found.share * 1_000.0 - enough as f64).abs() < 1e-9, "{found:?}");
        assert_eq!(told(name, stack, enough - 1), None, "{name}");
        assert_eq!(told(name, other, 1_000), None, "{name}");
    }
}

#[test]
fn few_samples_are_chance_however_much_each_weighs() {
    let [name, stack, _] = cases()[0];
    for (unit, weight, stacks, told) in [
        ("", 1, 9, false),
        ("", 1, 10, true),
        ("nanoseconds", 1_001_001, 9, false),
        ("nanoseconds", 1_001_001, 10, true),
        ("page-faults", 4_096, 9, false),
        // Folded text and pprof sum up.
        ("samples", 9, 1, false),
        ("samples", 10, 1, true),
    ] {
        let mut profile = profile(&vec![stack; stacks]);
        profile.header.unit = unit.to_owned();
        for sample in &mut profile.samples {
            sample.weight = weight;
        }
        let found = profile.known_patterns();
        let found = found.iter().any(|it| it.pattern == name);
        assert_eq!(found, told, "{stacks} of {weight} {unit}");
    }
}

#[test]
fn what_is_known_of_cpu_time_is_not_told_of_other_events() {
    let [_, stack, _] = cases()[0];
    let mut profile = profile(&[stack; 1_000]);
    for (event, told) in [("", true), ("cpu", true), ("off-cpu", false), ("calls", false)] {
        profile.header.event = event.to_owned();
        assert_eq!(!profile.known_patterns().is_empty(), told, "{event}");
    }
}

#[test]
fn the_function_to_look_at_is_the_nearest_of_ones_own() {
    let own = |stack: &str| told(cases()[0][0], stack, 500).expect("a pattern").function;
    let bif = "r:ets_select_2 > r:db_match_compile";
    for (above, function) in [
        ("e:$rabbit_exchange:route/2 > e:$rabbit_router:find_routes/2 >", Some("$rabbit_router:find_routes/2")),
        (
            "e:$rabbit_exchange:route/2 > e:$lists:map/2 > e:$global::call_light_bif_shared >",
            Some("$rabbit_exchange:route/2"),
        ),
        ("e:$rabbit_router:match_routing_key/2 > e:$ets:select/2 >", Some("$rabbit_router:match_routing_key/2")),
        ("r:erts_schedule >", None),
    ] {
        assert_eq!(own(&format!("{above} {bif}")).as_deref(), function);
    }
    // Where many functions share it, none is the one to look at.
    let many = ["a", "b", "c", "d", "e"].map(|of| format!("e:${of}:f/1 > r:db_match_compile"));
    let found = profile(&many.each_ref().map(String::as_str).repeat(100)).known_patterns();
    assert_eq!((found[0].function.as_deref(), found[0].function_share), (None, 0.0));
    // What is below the pattern does not count, and of several functions the one with most of it is named.
    let below = "e:$a:few/1 > r:db_match_compile > e:$b:below/1";
    let often = "e:$a:often/1 > r:db_match_compile";
    let found = profile(&[vec![below; 20], vec![often; 80]].concat()).known_patterns();
    assert_eq!(found[0].function.as_deref(), Some("$a:often/1"));
    assert!((found[0].share - 1.0).abs() < 1e-9 && (found[0].function_share - 0.8).abs() < 1e-9);
}

#[test]
fn the_largest_share_comes_first() {
    let [[specs, a, _], .., [copies, b, _]] = cases()[..] else { panic!("two of them") };
    let names = |stacks: &[&str]| -> Vec<String> {
        profile(stacks).known_patterns().into_iter().map(|it| it.pattern).collect()
    };
    assert_eq!(names(&[vec![a; 40], vec![b; 60]].concat()), [copies, specs]);
    assert_eq!(names(&[vec![a; 60], vec![b; 40]].concat()), [specs, copies]);
}

#[test]
fn what_is_no_pattern_says_why() {
    for (text, line, part) in [
        ("stack erlang a", 1, "before any pattern"),
        ("pattern a\nstack beam b", 2, "KIND FUNCTION"),
        ("// a\n\npattern a\nabove much", 4, "2.5 %"),
        ("pattern a\nabove 101 %", 2, "2.5 %"),
        ("pattern a\nhow b", 2, "begins with"),
        ("pattern a\n  b", 2, "begins with"),
    ] {
        let why = KnownPattern::parse(text).expect_err(text);
        assert!(why.starts_with(&format!("line {line} ")) && why.contains(part), "{why}");
    }
}
