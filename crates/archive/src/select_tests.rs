//! Filters, order, pruning and periods of runs.

use std::path::Path;

use super::*;
use crate::{Labels, RequirementOutcome, RunReader, RunRecord, RunState, RunSummary, file};

/// A run whose `run.json` was lost, with a record that says when it began.
fn run(id: &str, created: &str, tags: &[&str]) -> RunEntry {
    let dir = tempfile::tempdir().expect("folder");
    std::fs::write(dir.path().join(file::SERIES), "").expect("series");
    let record = RunReader::open(dir.path()).expect("a run").record;
    RunEntry {
        dir: Path::new(id).into(),
        id: id.into(),
        record: Ok(RunRecord {
            name: id.trim_end_matches(char::is_numeric).into(),
            created: created.into(),
            state: RunState::Complete,
            ..record
        }),
        labels: Ok(Labels {
            note: Some(format!("the note of {id}")),
            tags: tags.iter().map(|tag| tag.parse().expect("tag")).collect(),
        }),
        bytes: id.len() as u64,
        active: false,
    }
}

fn runs() -> Vec<RunEntry> {
    let mut runs = vec![
        run("stream5", "2026-11-22T00:00:00Z", &[]),
        run("classic4", "2026-11-21T00:00:00Z", &["base"]),
        run("stream3", "2026-11-02T00:00:00Z", &[]),
        run("stream2", "2026-11-01T00:00:00Z", &[]),
        run("classic1", "2026-10-01T00:00:00Z", &[]),
        run("classic0", "never", &[]),
    ];
    runs[3].active = true;
    runs
}

fn ids<'a>(runs: impl IntoIterator<Item = &'a RunEntry>) -> Vec<&'a str> {
    runs.into_iter().map(|run| run.id.as_str()).collect()
}

#[test]
fn filters_match_all_of_their_terms() {
    let runs = runs();
    for (filter, found) in [
        ("name=stream*", &["stream5", "stream3", "stream2"][..]),
        ("tag=base", &["classic4"]),
        ("name=classic tag=b*", &["classic4"]),
        ("id=*5 note=*NOTE*", &["stream5"]),
        ("state=complete", &["stream5", "classic4", "stream3", "stream2", "classic1", "classic0"]),
        ("broker=4.*", &[]),
    ] {
        let filter: RunFilter = filter.parse().expect("a filter");
        assert_eq!(ids(runs.iter().filter(|run| filter.matches(run))), found);
    }
    for wrong in ["", "stream", "colour=red", "name=[", "name=a b"] {
        assert!(wrong.parse::<RunFilter>().is_err(), "{wrong:?}");
    }
}

#[test]
fn runs_are_found_by_what_came_of_their_requirements() {
    let judged = |outcomes: &[Option<bool>]| {
        let mut run = run("run1", "2026-11-22T00:00:00Z", &[]);
        let outcome = |met: &Option<bool>| RequirementOutcome { met: *met, ..RequirementOutcome::default() };
        run.record.as_mut().expect("a record").summary =
            Some(RunSummary { requirements: outcomes.iter().map(outcome).collect(), ..RunSummary::default() });
        run
    };
    let missed: RunFilter = "requirements=missed".parse().expect("a filter");
    for (outcomes, expected) in [
        (&[][..], None),
        (&[Some(true), Some(true)], Some("met")),
        (&[Some(true), None], Some("unknown")),
        (&[None, Some(false), Some(true)], Some("missed")),
    ] {
        let run = judged(outcomes);
        assert_eq!(run.requirements(), expected);
        assert_eq!(missed.matches(&run), expected == Some("missed"));
    }
}

#[test]
fn runs_are_sorted_and_those_without_the_value_come_last() {
    let mut runs = runs();
    sort_runs(&mut runs, RunOrder::Size);
    assert_eq!(ids(&runs)[..2], ["classic4", "classic1"]);
    sort_runs(&mut runs, RunOrder::Name);
    assert_eq!(ids(&runs)[0], "classic4");
    runs[0].record = Err("lost".into());
    sort_runs(&mut runs, RunOrder::Name);
    assert_eq!(ids(&runs).last(), Some(&"classic4"));
    sort_runs(&mut runs, RunOrder::P99);
    sort_runs(&mut runs, RunOrder::Rate);
    sort_runs(&mut runs, RunOrder::Time);
    assert_eq!(ids(&runs)[0], "stream5");
}

#[test]
fn pruning_spares_what_is_tagged_goes_on_or_has_no_date() {
    let now: Timestamp = "2026-11-22T12:00:00Z".parse().expect("time");
    let days = |days: u64| Some(Duration::from_secs(days * 86_400));
    let runs = runs();
    let left = |keep, older_than| ids(prunable(&runs, Retention { keep, older_than }, now));
    assert_eq!(left(0, days(10)), ["stream3", "classic1"]);
    assert_eq!(left(0, days(30)), ["classic1"]);
    assert_eq!(left(1, None), ["stream3", "classic1", "classic0"]);
    assert_eq!(left(3, days(1)), ["classic1"]);
    assert_eq!(left(9, None), [""; 0]);
    let mut damaged = runs.clone();
    damaged[2].labels = Err("labels.json is damaged".into());
    damaged[4].record = Err("run.json is missing".into());
    assert!(prunable(&damaged, Retention { keep: 0, older_than: days(10) }, now).is_empty());
    // A folder that is no run does not count among those that stay.
    damaged[0].record = Err("run.json is missing".into());
    let retention = Retention { keep: 1, older_than: None };
    assert_eq!(ids(prunable(&damaged, retention, now)), ["classic0"]);
    // A folder of several runs stays whole, and has no part in the number of those that stay.
    let folder = tempfile::tempdir().expect("folder");
    std::fs::write(folder.path().join(file::PAIRS), "{}").expect("pairs");
    let mut inside = runs;
    for at in [0, 4] {
        inside[at].dir = folder.path().join(&inside[at].id);
    }
    assert_eq!(ids(prunable(&inside, retention, now)), ["stream3", "classic0"]);
}

#[test]
fn ranges_are_read_as_people_write_them() {
    let ns = |text: &str| unix_ns(text.parse().unwrap()).unwrap();
    let now = ns("2026-11-22T12:30:00Z");
    for [text, name, from, to] in testkit::table(include_str!("../tests/data/ranges.txt")) {
        let expected = PeriodRange { name: name.into(), from: ns(from), to: ns(to) };
        assert_eq!(PeriodRange::parse(text, now), Some(Ok(expected)), "{text}");
    }
    for wrong in ["a@x..y", "a@11:00..2026-11-20", "a@-1h..-2h", "a@99:00..", "a@-..-1h"] {
        assert!(matches!(PeriodRange::parse(wrong, now), Some(Err(_))), "{wrong}");
    }
    for other in ["last", "rabbit@host", "../x", "a..b@c"] {
        assert_eq!(PeriodRange::parse(other, now), None, "{other}");
    }
}
