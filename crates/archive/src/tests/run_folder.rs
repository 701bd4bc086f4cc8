//! A run folder is written during a run, survives interruptions, and reads back.

use std::fs;
use std::path::PathBuf;

use super::common;
use super::common::{CREATED, record, write_run};
use crate::{
    Error, Finding, RunReader, RunRecord, RunState, RunSummary, RunWriter, ScenarioStart, Tier, Warning, file,
    list_runs,
};
use measure::{LatencySummary, Metric, Phase};
use tempfile::TempDir;

fn written(state: RunState) -> (TempDir, RunWriter) {
    let runs = tempfile::tempdir().unwrap();
    let mut writer = RunWriter::create(runs.path(), "stream publish!", CREATED).unwrap();
    write_run(&mut writer, state);
    assert_eq!(writer.warnings(), []);
    (runs, writer)
}

#[test]
fn a_whole_run_reads_back_equal_and_its_warm_up_stays_apart() {
    let (_runs, writer) = written(RunState::Complete);
    assert!(writer.id().starts_with("2026-11-21T00-12-33Z-stream-publish-"), "{}", writer.id());
    let run = RunReader::open(writer.dir()).unwrap();
    assert_eq!(run.notes, Vec::<String>::new());
    assert_eq!(run.record, record(writer.id(), RunState::Complete));
    assert_eq!(run.points.len(), 4);
    assert_eq!(run.points[2], common::point(&common::interval(2, Phase::Measure)));
    assert!(run.profile().unwrap().is_none());
    assert_eq!(run.histograms().unwrap().count(), 8);
    let warmup = run.merged(Phase::Warmup).unwrap();
    let counted = run.merged(Phase::Measure).unwrap();
    assert_eq!(warmup.histogram(Metric::SEND_ACK).len(), 1_000);
    assert_eq!(counted.histogram(Metric::SEND_ACK).len(), 3_000);
    assert!(counted.histogram(Metric::TRANSFER).is_empty());
    let expected = [1, 2, 3].into_iter().fold(measure::Recorder::new(), |mut sum, second| {
        sum.merge(&common::interval(second, Phase::Measure).latencies);
        sum
    });
    for (metric, histogram) in counted.filled() {
        assert_eq!(LatencySummary::of(histogram), LatencySummary::of(expected.histogram(metric)), "{metric:?}");
    }
    assert_eq!(expected.histogram(Metric::SEND_ACK).len(), 3_000);
}

/// After `kill -9`, or on a full disk, files end anywhere. Every prefix must read, with its whole parts.
#[test]
fn every_file_may_end_at_any_byte() {
    let (_runs, writer) = written(RunState::Running);
    let dir = writer.dir();
    let notes = RunReader::open(dir).unwrap().notes;
    assert_eq!(notes, ["the run goes on or was cut off: no end is recorded after 4 s"]);
    for name in [file::RECORD, file::SERIES, file::HISTOGRAMS] {
        let path = dir.join(name);
        let whole = fs::read(&path).unwrap();
        // The histogram log is long, and its lines are alike.
        let step = if name == file::HISTOGRAMS { 41 } else { 1 };
        for end in (0..whole.len()).step_by(step) {
            fs::write(&path, &whole[..end]).unwrap();
            let run = RunReader::open(dir).unwrap_or_else(|e| panic!("{name} at {end}: {e}"));
            let lines = whole[..end].iter().filter(|byte| **byte == b'\n').count();
            if name == file::SERIES {
                assert!(run.points.len() >= lines, "{lines} lines at {end}");
                let torn = end > 0 && whole[end - 1] != b'\n' && run.points.len() == lines;
                let noted = run.notes.iter().any(|note| note.contains("cut off or damaged"));
                assert_eq!(noted, torn, "at {end}: {:?}", run.notes);
            }
            if name == file::HISTOGRAMS {
                let mut log = run.histograms().unwrap();
                assert!(log.by_ref().count() >= lines.saturating_sub(5), "{lines} lines at {end}");
            }
        }
        fs::remove_file(&path).unwrap();
        let run = RunReader::open(dir).unwrap();
        assert!(name == file::HISTOGRAMS || run.notes.iter().any(|note| note.contains(name)));
        fs::write(&path, &whole).unwrap();
    }
}

#[test]
fn a_damaged_line_costs_only_itself() {
    let (_runs, writer) = written(RunState::Complete);
    for name in [file::SERIES, file::HISTOGRAMS] {
        let path = writer.dir().join(name);
        let mut lines: Vec<_> = fs::read_to_string(&path).unwrap().lines().map(str::to_owned).collect();
        let middle = lines.len() - 2;
        lines[middle].truncate(20);
        fs::write(&path, lines.join("\n")).unwrap();
    }
    let run = RunReader::open(writer.dir()).unwrap();
    assert_eq!(run.points.len(), 3);
    assert!(run.notes[0].contains("line 3"), "{:?}", run.notes);
    assert_eq!(run.histograms().unwrap().count(), 7);
}

#[test]
fn bytes_that_are_no_text_do_no_harm() {
    let (_runs, writer) = written(RunState::Complete);
    let dir = writer.dir();
    fs::write(dir.join(file::SERIES), [0xff, 0, b'\n', b'{', 0xfe]).unwrap();
    fs::write(dir.join(file::HISTOGRAMS), b"Tag=send_ack,1,1,1,HISTF\xff\xff\nTag=,,,,\n\xff").unwrap();
    let run = RunReader::open(dir).unwrap();
    assert!(run.points.is_empty());
    assert_eq!(run.histograms().unwrap().count(), 0);
}

#[test]
fn other_versions_are_refused_by_name() {
    let (_runs, writer) = written(RunState::Complete);
    let dir = writer.dir();
    let path = dir.join(file::RECORD);
    let json = fs::read_to_string(&path).unwrap();
    for known in ["bellows.run-record/2", "bellows.run/2"] {
        let unknown = known.replace('2', "9");
        fs::write(&path, json.replace(known, &unknown)).unwrap();
        let Err(e @ Error::UnknownSchema { .. }) = RunReader::open(dir) else { panic!("{unknown} was accepted") };
        assert!(e.to_string().contains(&unknown) && e.to_string().contains(known), "{e}");
    }
}

#[test]
fn other_folders_are_no_runs_and_files_no_folders() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(RunReader::open(folder.path()), Err(Error::NotARun { .. })));
    let missing = folder.path().join("missing");
    assert!(matches!(RunReader::open(&missing), Err(Error::Io { .. })));
    assert!(list_runs(&missing).unwrap().is_empty());
    let taken = folder.path().join("file");
    fs::write(&taken, "").unwrap();
    testkit::assert_has(RunWriter::create(&taken, "run", CREATED).unwrap_err().to_string(), ["file"]);
}

#[test]
fn runs_are_listed_newest_first_and_broken_ones_named() {
    let runs = tempfile::tempdir().unwrap();
    let ids: Vec<_> = (0..3u64)
        .map(|day| {
            let created = CREATED + day * 86_400_000_000_000;
            let mut writer = RunWriter::create(runs.path(), "run", created).unwrap();
            if day != 1 {
                write_run(&mut writer, RunState::Complete);
            }
            writer.id().to_owned()
        })
        .collect();
    fs::create_dir(runs.path().join(".trash")).unwrap();
    fs::write(runs.path().join("notes.txt"), "x").unwrap();
    let entries = list_runs(runs.path()).unwrap();
    let listed: Vec<_> = entries.iter().map(|entry| entry.id.as_str()).collect();
    assert_eq!(listed, [&ids[2], &ids[1], &ids[0]]);
    assert!(entries[0].record.is_ok());
    assert_eq!(entries[1].record, Err("run.json is missing".to_owned()));
}

#[test]
fn two_runs_of_one_second_get_two_folders() {
    let runs = tempfile::tempdir().unwrap();
    let folders: std::collections::BTreeSet<_> =
        (0..50).map(|_| RunWriter::create(runs.path(), "run", CREATED).unwrap().id().to_owned()).collect();
    assert_eq!(folders.len(), 50);
}

#[test]
fn what_cannot_be_written_becomes_one_warning_and_the_rest_is_written() {
    for (reason, is_removed) in [("No space left", false), ("No such file", true)] {
        let runs = tempfile::tempdir().unwrap();
        let mut writer = RunWriter::create(runs.path(), "run", CREATED).unwrap();
        match is_removed {
            true => fs::remove_dir(writer.dir()).unwrap(),
            false => std::os::unix::fs::symlink("/dev/full", writer.dir().join(file::SERIES)).unwrap(),
        }
        write_run(&mut writer, RunState::Complete);
        let [warning] = writer.warnings() else { panic!("{:?}", writer.warnings()) };
        let Finding::ArchiveIncomplete { file: name, why, .. } = &warning.finding else { panic!("{warning:?}") };
        assert!(why.contains(reason), "{why}");
        if !is_removed {
            assert_eq!(name, "series.jsonl");
            assert_eq!(list_runs(runs.path()).unwrap()[0].record.as_ref().unwrap().id, writer.id());
        }
    }
}

#[test]
fn run_json_is_replaced_as_a_whole() {
    let (runs, mut writer) = written(RunState::Complete);
    // The folder is elsewhere: the write fails, the old record stays.
    let moved = runs.path().join("moved");
    fs::rename(writer.dir(), &moved).unwrap();
    writer.write_record(&record("other", RunState::Failed));
    assert_eq!(writer.warnings().len(), 1);
    assert_eq!(RunReader::open(&moved).unwrap().record.state, RunState::Complete);
}

/// A latency between machines is in no figure where the clocks are not known well enough: files keep it.
#[test]
fn a_latency_of_clocks_that_are_not_known_is_read_nowhere() {
    let (_runs, mut writer) = written(RunState::Complete);
    let mut slice = common::interval(1, Phase::Measure).to_slice();
    slice.end = slice.start + measure::Nanos::from_millis(100);
    writer.append_slice(&crate::SlicePoint::of(&slice, 1.0, None));
    for (p50_s, refused) in [(Some(1e-3), false), (None, true)] {
        let mut record = record(writer.id(), RunState::Complete);
        let latency = Metric::SEND_ACK.name().to_owned();
        let bound = Finding::ClockBound { latency, p50_s, bound_s: 1e-4 };
        record.summary.as_mut().unwrap().warnings.push(Warning::new(Tier::Note, bound));
        writer.write_record(&record);
        let run = RunReader::open(writer.dir()).unwrap();
        let has = |metric: Metric| {
            let in_points = run.points.iter().any(|it| it.latency.get(metric).count > 0);
            let in_histograms = run.histograms().unwrap().any(|it| it.metric == metric);
            (in_points, in_histograms, run.slices().unwrap().any(|it| it.latency.contains_key(&metric)))
        };
        assert_eq!(has(Metric::SEND_ACK), (!refused, !refused, !refused));
        assert_eq!(has(Metric::ACK_RESPONSE), (true, true, true));
        assert_eq!(run.merged(Phase::Measure).unwrap().histogram(Metric::SEND_ACK).is_empty(), refused);
    }
}

#[test]
fn a_run_knows_whether_it_has_messages_also_where_it_was_cut_off() {
    let cut_off = |name: Option<&str>, sent| {
        let mut record = RunRecord::default();
        let started = name.map(|name| (name.to_owned(), ScenarioStart::default()));
        record.scenarios.extend(started);
        let mut point = common::point(&common::interval(2, Phase::Measure));
        (point.counters.sent, point.counters.received) = (sent, 0);
        RunReader { dir: PathBuf::new(), record, points: vec![point], notes: Vec::new() }
    };
    assert!(cut_off(Some("messages"), 0).has_messages());
    assert!(cut_off(None, 1).has_messages());
    assert!(!cut_off(Some("probe"), 0).has_messages());
    let mut ended = cut_off(None, 1);
    ended.record.summary = Some(RunSummary::default());
    assert!(!ended.has_messages());
}
