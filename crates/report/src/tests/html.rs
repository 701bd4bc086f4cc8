//! The report of run folders in every state.

use std::fs;
use std::path::{Path, PathBuf};

use crate::html;
use archive::{RunReader, RunWriter, SeriesPoint};
use measure::{Counters, Interval, Metric, Nanos, Phase, Time};
use stacks::{Frame, FrameKind, ProfileHeader, Sample, StacksWriter};

const ORIGIN: Time = Time(1_000);

/// A folder as a run leaves it that was killed: no `run.json`, half a last line.
fn cut_off(dir: &Path) -> PathBuf {
    let mut writer = RunWriter::create(dir, "x", 0).expect("a folder");
    writer.set_origin(ORIGIN, 0);
    for second in 0..3u64 {
        let mut interval = Interval::new();
        interval.reset(ORIGIN + Nanos(second * 1_000_000_000), Phase::Measure);
        interval.end = interval.start + Nanos::SECOND;
        for us in 1..=100 {
            let value = Nanos::from_micros(us);
            interval.latencies.record(Metric::ACK_RESPONSE, value);
        }
        writer.append_histograms(&interval);
        let (counters, phase) = (Counters { sent: 2_000, ..Counters::default() }, Phase::Measure);
        writer.append_point(&SeriesPoint { t: second as f64, dt: 1.0, phase, counters, ..SeriesPoint::default() });
    }
    let series = writer.dir().join(archive::file::SERIES);
    let mut text = fs::read_to_string(&series).expect("readable");
    text.push_str("{\"t\":3.0,\"dt\":");
    fs::write(&series, text).expect("writable");
    writer.dir().to_path_buf()
}

#[test]
fn a_run_that_was_killed_has_a_report_with_its_figures() {
    let dir = tempfile::tempdir().expect("a folder");
    let run = cut_off(dir.path());
    let path = html::write_report(&run).expect("a report");
    let text = fs::read_to_string(&path).expect("readable");
    assert!(text.contains("Cut off: 2,000 msg/s into the broker for 3 s; ack response p90"), "the headline");
    assert!(text.contains("<td>99.0 µs</td>"), "p99 from the histograms");
    // Nothing but the report was added.
    let mut names = fs::read_dir(&run).expect("readable").filter_map(|e| e.ok()?.file_name().into_string().ok());
    assert_eq!(names.find(|name| name.contains("tmp")), None);
}

#[test]
fn a_profile_alone_has_a_report_and_its_names_are_nowhere_markup() {
    let dir = tempfile::tempdir().expect("a folder");
    let run = RunWriter::create(dir.path(), "x", 0).expect("a folder");
    fs::write(run.dir().join(archive::file::SERIES), "").expect("writable");
    let header = ProfileHeader { event: "cpu".into(), unit: "samples".into(), ..ProfileHeader::new(ORIGIN, 0) };
    let stacks = run.dir().join("cpu.stacks");
    let mut out = StacksWriter::create(&stacks, header).expect("a file");
    let name = "</script><script>alert(1)</script>";
    let frame = out.frame(&Frame::new(name, "a.out", FrameKind::Native));
    let stack = out.node(None, frame);
    let thread = out.thread("main");
    for t in [5_000_000_000, 6_000_000_000] {
        out.sample(&Sample { t, weight: 1, stack, thread, complete: true, ..Sample::default() });
    }
    out.flush();
    drop(out);
    let text = html::render(&RunReader::open(run.dir()).expect("a run")).expect("a report");
    assert!(text.contains("2 samples"), "the headline counts them");
    assert!(!text.contains("<script>alert"));
    // The program is the only script element; the data stands in a comment, which Base64 cannot end.
    assert_eq!(text.matches("<script").count(), 1);
    assert!(text.contains("<div id=\"data\" data-page=\"run\" hidden><!--"));
    assert!(text.contains("default-src 'none'; script-src 'sha256-"));
}

#[test]
fn a_folder_that_is_no_run_and_a_report_that_cannot_be_written_are_told_and_leave_nothing() {
    let dir = tempfile::tempdir().expect("a folder");
    let error = html::write_report(dir.path()).expect_err("no run");
    assert!(error.to_string().contains("is not a run"), "{error}");
    assert!(!dir.path().join(archive::file::REPORT).exists());
    let run = cut_off(dir.path());
    // A folder in its place cannot be replaced by a file, whoever runs this.
    fs::create_dir(run.join(archive::file::REPORT)).expect("a folder");
    let before = fs::read_dir(&run).expect("readable").count();
    let error = html::write_report(&run).expect_err("not writable");
    assert!(error.to_string().starts_with("cannot write "), "{error}");
    assert_eq!(fs::read_dir(&run).expect("readable").count(), before);
}
