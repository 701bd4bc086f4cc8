//! The table of runs: text to type stays whole at every width.

use archive::{Labels, RunEntry};

use super::*;
use crate::tests::fixtures::requirement;

fn entry(record: Result<RunRecord, String>) -> RunEntry {
    RunEntry {
        dir: "runs/x".into(),
        id: "2026-11-21T00-12-33Z-stream-publish-7k2q".into(),
        record,
        labels: Ok(Labels::default()),
        bytes: 1_204_000,
        active: false,
    }
}

fn entries() -> [RunEntry; 4] {
    let tags = ["base", "nightly"].map(|tag| tag.parse().unwrap()).into();
    let labels = Ok(Labels { note: Some("before the patch\u{1b}[31m".into()), tags });
    [
        RunEntry { labels, ..entry(Ok(record(RunState::Complete, Some(run_summary(2))))) },
        entry(Ok(record(RunState::Running, None))),
        RunEntry { active: true, ..entry(Ok(record(RunState::Running, None))) },
        entry(Err("run.json is damaged".into())),
    ]
}

#[test]
fn the_runs_table_holds_readable_and_damaged_runs() {
    let text = runs(&entries(), terminal(110));
    assert_fits(&text, 110, 6);
    let lines: Vec<_> = text.lines().collect();
    let parts = ["2026-11-21 00:12", "stream-publish-7k2q", "54,800 msg/s", "3.23 ms", "1.20 MB", "complete"];
    assert_has(lines[1], parts);
    assert_eq!(lines[2], "  #base #nightly; note: before the patch␛[31m");
    assert_has(lines[3], ["unfinished"]);
    assert_has(lines[4], ["running"]);
    assert_has(lines[0], [" end-to-end p99  "]);
    assert_begins(lines[5], "unreadable: ");
}

/// Workers' folders looked like runs of their own.
#[test]
fn parts_of_a_fleets_run_are_marked_and_one_that_was_cut_off_has_its_name() {
    let of = |state, name: &str| {
        let fleet = archive::FleetPart { run: "demo-18ed".into(), name: name.into(), ..Default::default() };
        runs(&[entry(Ok(RunRecord { fleet: Some(fleet), ..record(state, None) }))], Style::PLAIN)
    };
    assert_has(of(RunState::Complete, "w1"), ["worker w1's part of demo-18ed"]);
    assert_has(of(RunState::Running, ""), ["of a fleet, demo-18ed"]);
    assert_lacks(of(RunState::Complete, ""), ["demo-18ed"]);
}

#[test]
fn a_run_that_missed_a_requirement_says_so_as_its_state() {
    let mut missed = run_summary(0);
    missed.requirements =
        [Some(true), Some(false)].map(|met| archive::RequirementOutcome { met, ..Default::default() }).into();
    let text = |state| {
        let run = entry(Ok(record(state, Some(missed.clone()))));
        runs(&[run], Style::PLAIN)
    };
    let complete = text(RunState::Complete);
    assert_has(&complete, ["  missed  "]);
    assert_lacks(complete, ["complete"]);
    assert_has(text(RunState::Interrupted), ["  interrupted, missed  "]);
}

/// Marks at figures stood for latencies that a line below the table named. A run's latency is the one that was judged,
/// or that of what it loaded; a recording has neither rate nor latency.
#[test]
fn what_a_run_did_not_measure_is_not_shown_as_another_figure() {
    let mut churned = run_summary(0);
    churned.scenarios.remove(archive::MESSAGES);
    let whole = Metric::named("whole_cycle", measure::MetricKind::Histogram).expect("a metric");
    let latency = std::iter::once((whole, latency(500))).collect();
    let (unit, rate) = ("cycles".to_owned(), 20.0);
    let churn = archive::ScenarioSummary { latency, unit, rate, ..archive::ScenarioSummary::default() };
    churned.insert("churn", churn.clone());
    let mut both = run_summary(0);
    both.insert("churn", churn);
    let recorded = RunSummary { scenarios: Default::default(), ..run_summary(0) };
    let mut empty = recorded.clone();
    empty.profiles[0].samples = 0;
    let of = |run: RunSummary| entry(Ok(record(RunState::Complete, Some(run))));
    let requirements = vec![requirement("ack response p99 < 1us", Some(false), None)];
    let missed = RunSummary { requirements, ..run_summary(0) };
    let text = runs(&[run_summary(0), churned.clone(), missed].map(of), Style::PLAIN);
    assert_has(&text, [" p99  of ", " 3.23 ms  end-to-end  ", " ~3.23 ms  whole cycle  ", " 3.23 ms  ack response  "]);
    // An API beside a load is what its run is about.
    assert_has(runs(&[of(both)], Style::PLAIN), ["  whole cycle p99  "]);
    let mut embedded = record(RunState::Complete, Some(run_summary(0)));
    embedded.versions.broker = Some("bellows broker 0.1.0".into());
    assert_has(runs(&[entry(Ok(embedded))], Style::PLAIN), ["  embedded broker 0.1.0  "]);
    let text = runs(&[churned, recorded, empty].map(of), Style::PLAIN);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].contains("  whole cycle p99  ") && lines[1].contains(" ~3.23 ms "), "{text}");
    assert_has(lines[1], [" 20.0 cycles/s "]);
    let cells: Vec<&str> = lines[2].split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
    assert_eq!((cells[3], cells[4], lines.len()), ("-", "-", 4), "{text}");
    // One that found nothing, and whose command failed, was complete.
    assert_eq!((cells[2], lines[3].contains("  no samples  ")), ("complete", true), "{text}");
}

#[test]
fn what_one_must_type_is_never_cut() {
    for columns in [10, 40, 60, 80, 100, 200] {
        let text = runs(&entries(), Style { columns, ..Style::PLAIN });
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(text.matches("stream-publish-7k2q").count(), 3 + 1, "{text}");
        if columns >= 60 {
            assert_has(lines[1], ["complete", "54,800 msg/s"]);
        }
        if columns >= 80 {
            assert_has(lines[1], ["3.23 ms"]);
            assert_ends(lines[0], "  warn");
            assert_ends(lines[1], "  2");
        }
        if columns == 200 {
            assert_has(lines[1], ["RabbitMQ 3.10.8"]);
        }
        assert!(lines[..5].iter().all(|line| width(line) <= columns.max(19)), "{text}");
    }
}

#[test]
fn a_long_name_is_shortened_before_a_column_goes() {
    let mut of = record(RunState::Interrupted, Some(run_summary(2)));
    of.id = "2026-11-21T00-12-33Z-quorum-queues-under-random-faults-for-an-hour-7k2q".into();
    let entries = [entry(Ok(of))];
    for columns in [80, 100, 120] {
        let text = runs(&entries, Style { columns, ..Style::PLAIN });
        assert_fits(&text, columns, 2);
        let lines: [&str; 2] = text.lines().collect::<Vec<_>>().try_into().unwrap();
        let run = lines[1].split("  ").next().expect("a run");
        assert_begins(run, "quorum-queues-");
        assert_ends(run, "… 7k2q");
        assert_has(lines[1], ["interrupted", "65.0 s"]);
        assert_has(lines[0], ["state", "end-to-end p99", "took"]);
        assert!(columns < 100 || lines[1].contains("1.20 MB"), "{text}");
        // As much of it stays as there is room for.
        assert!(columns < 120 || width(lines[1]) + 20 > columns, "{text}");
    }
    assert_has(runs(&entries, Style::PLAIN), ["quorum-queues-under-random-faults-for-an-hour-7k2q"]);
}

#[test]
fn a_recording_shows_its_profile_and_no_empty_tables() {
    let recorded = RunSummary { scenarios: Default::default(), ..run_summary(0) };
    let of = record(RunState::Complete, None);
    let text = summary(&shape(), &of, &recorded, None, terminal(100));
    assert_has(&text, ["cpu profile: 24,012 samples", "180 MB at most"]);
    assert_lacks(text, ["msg/s", "no latency"]);
}
