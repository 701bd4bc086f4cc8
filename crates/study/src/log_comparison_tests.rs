//! Which logs may be compared, and what is said of their units.

use archive::Decision;

use super::*;

/// A log of so many intervals of a length in seconds, with these values of each tag.
fn written(name: &str, head: &str, (count, length): (u32, u32), tags: &[(String, Vec<u64>)]) -> LatencyLog {
    let mut text = head.to_owned();
    for at in 0..count {
        for (tag, values) in tags {
            let mut histogram = measure::new_histogram();
            values.iter().for_each(|value| histogram.saturating_record(*value));
            let encoded = archive::encode_histogram(&histogram).expect("a histogram");
            text += &format!("{tag}{}.0,{length}.0,1.0,{encoded}\n", at * length);
        }
    }
    LatencyLog::parse(name, &mut text.as_bytes(), None).expect("a log")
}

fn log(name: &str, head: &str, tag: &str, level: u64) -> LatencyLog {
    let values = (0..1_000).map(|value| level + level * value / 1_000);
    written(name, head, (3, 1), &[(tag.to_owned(), values.collect())])
}

const OURS: &str = "#[Latencies in nanoseconds, largest values in milliseconds]\n";

fn compared(a: &[LatencyLog], b: &[LatencyLog]) -> Comparison {
    compare_logs(a, b, ComparisonOptions::default()).expect("comparable")
}

#[test]
fn logs_of_artemis_perf_lie_beside_ours() {
    let artemis = [100, 101, 102].map(|us| log("x", "", "Tag=send,", us));
    let ours = [100_000, 101_000, 102_000].map(|ns| log("y", OURS, "Tag=send_ack,", ns));
    let found = compared(&artemis, &ours);
    let names: Vec<&str> = found.figures.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names[..3], ["send ack rate", "send ack p50", "send ack p90"]);
    assert!(found.figures.iter().all(|it| it.decision != Decision::Changed), "{found:#?}");
    let told = found.remarks.join("\n");
    assert!(told.contains("3 logs read as microseconds: the tags"), "{told}");
    assert!(told.contains("3 logs read as nanoseconds: from a comment"), "{told}");
    assert!(!told.contains("caution"), "{told}");
    assert_eq!((found.a.logs, found.a.runs.len(), found.functions), (true, 3, None));
}

#[test]
fn a_thousand_between_guessed_units_has_a_caution() {
    let guessed = [1_000, 1_010].map(|value| log("x", "", "", value));
    let off = [1_100_000, 1_110_000].map(|value| log("y", "", "", value));
    let cautions = "caution: the medians of latency";
    let caution = |a: &[LatencyLog], b: &[LatencyLog]| compared(a, b).remarks.iter().any(|it| it.starts_with(cautions));
    assert!(caution(&guessed, &off) && caution(&off, &guessed));
    assert!(!caution(&guessed, &guessed));
    // Milliseconds beside nanoseconds.
    let far = [1_100_000_000, 1_110_000_000].map(|value| log("y", "", "", value));
    assert!(caution(&guessed, &far) && caution(&far, &guessed));
    let stated = |of: &[LatencyLog; 2]| of.clone().map(|log| LatencyLog { unit_source: UnitSource::Given, ..log });
    assert!(!caution(&stated(&guessed), &stated(&off)));
}

#[test]
fn logs_of_pairs_have_partners() {
    let two = [1_000, 1_010].map(|value| log("x", "", "", value));
    let paired = ComparisonOptions { paired: true, ..ComparisonOptions::default() };
    for (a, b) in [(&two[..], &two[..1]), (&two[..1], &two[1..])] {
        testkit::assert_has(compare_logs(a, b, paired).expect_err("no partner").sentence(), ["1 of"]);
    }
    compare_logs(&two, &two, paired).expect("pairs");
}

#[test]
fn logs_without_times_or_whose_intervals_overlap_have_no_rates() {
    let still = |name: &str| LatencyLog { seconds: 0.0, ..log(name, "", "", 1_000) };
    let (a, b) = ([still("a"), still("b")], [still("c"), still("d")]);
    let found = compared(&a, &b);
    let first = found.figures.first().expect("a figure");
    assert_eq!((first.name.as_str(), &first.a[..]), ("latency count", &[3_000.0, 3_000.0][..]));
    let a = [1_000, 1_001].map(|value| log("x", OURS, "", value));
    let b = a.clone().map(|log| LatencyLog { overlaps: true, ..log });
    let found = compared(&a, &b);
    assert!(found.figures.iter().all(|it| it.name != "latency rate"));
    testkit::assert_has(found.remarks.join("\n"), ["latency rate is left out: a log's intervals overlap"]);
}

fn same_values(name: &str, head: &str, tags: &[(&str, &[u64])]) -> LatencyLog {
    let tags = tags.iter().map(|(tag, values)| {
        let values: Vec<u64> = values.iter().flat_map(|value| [*value; 100]).collect();
        (format!("Tag={tag},"), values)
    });
    written(name, head, (20, 1), &tags.collect::<Vec<_>>())
}

#[test]
fn a_tag_that_has_no_values_on_one_side_any_more_is_worse() {
    let of =
        |received: &[u64]| ["x", "y", "z"].map(|it| same_values(it, OURS, &[("sent", &[5]), ("received", received)]));
    let (well, nothing) = (of(&[1_000, 2_000]), of(&[]));
    let found = compared(&well, &nothing);
    assert!(found.is_worse(), "{found:#?}");
    let rate = found.figures.iter().find(|it| it.name == "received rate");
    assert_eq!(rate.map(|it| (it.change, it.without)), Some((-1.0, (0, 3))));
    // What no log has values of is no question.
    let found = compared(&nothing, &nothing);
    assert!(found.figures.iter().all(|it| it.name.starts_with("sent")));
    assert!(found.remarks.iter().all(|it| !it.contains("alone")));
}

#[test]
fn values_below_the_unit_of_a_log_can_become_worse() {
    let names = ["v", "w", "x", "y", "z"];
    let of = |value: u64| names.map(|it| same_values(it, "#[recorded in milliseconds]\n", &[("ping", &[value])]));
    let found = compared(&of(0), &of(40));
    let p50 = found.figures.iter().find(|it| it.name == "ping p50").expect("a figure");
    assert_eq!((p50.without, p50.a[0]), ((0, 0), 500_000.0));
    assert!(p50.is_worse(), "{p50:#?}");
    testkit::assert_has(found.remarks.join("\n"), ["values of 0 are below its unit"]);
    let still = compared(&of(0), &of(0));
    assert!(!still.is_undecided(), "{still:#?}");
}

#[test]
fn blocks_are_no_shorter_than_the_intervals_of_a_log() {
    let of = |intervals: u32| written("x", OURS, (intervals, 30), &[(String::new(), vec![1_000; 1_000])]);
    let found = compared(&[of(5)], &[of(10)]);
    let (a, b) = (found.a.within_one_run, found.b.within_one_run);
    let why = a.and_then(|it| it.why_not).expect("too short");
    assert!(why.contains("150 s were measured, and an interval takes at least 8 blocks of 30 s"), "{why}");
    assert_eq!(b.map(|it| (it.block_s, it.why_not)), Some((30.0, None)));
}

#[test]
fn logs_take_no_more_memory_than_others() {
    assert!(fits(MOST_VALUES).is_ok());
    testkit::assert_has(fits(MOST_VALUES + 1).expect_err("too many").sentence(), ["name fewer logs"]);
}
