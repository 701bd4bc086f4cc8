//! Histogram logs of any origin: their values, and refusals with reasons.

use std::io::Write as _;

use crate::{LatencyLog, LogUnit, UnitSource, encode_histogram};
use measure::{Metric, Problem};

fn parse(text: impl AsRef<[u8]>) -> Result<LatencyLog, Problem> {
    LatencyLog::parse("a.hlog", &mut text.as_ref(), None)
}

/// A histogram of the values 1 to `count`.
fn encoded(count: u64) -> String {
    let mut histogram = measure::new_histogram();
    for value in 1..=count {
        histogram.saturating_record(value);
    }
    encode_histogram(&histogram).expect("a histogram that fits")
}

/// A line; `tag` is empty or `Tag=x,`.
fn line(tag: &str, start: f64, count: u64) -> String {
    format!("{tag}{start:.3},1.000,0.001,{}\n", encoded(count))
}

fn refused(text: impl AsRef<[u8]>, parts: &[&str]) {
    let problem = parse(text).expect_err("a refusal");
    let told = format!("{} / {} / {}", problem.cause, problem.value, problem.help);
    for part in parts {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(!problem.help.is_empty() && !problem.value.is_empty(), "{told}");
}

#[test]
fn tags_are_metrics_and_what_was_warm_up_does_not_count() {
    let mut text = "#[StartTime: 1.0 (seconds since epoch)]\n\"StartTimestamp\",\"x\"\n\n".to_owned();
    for tag in ["send_ack", "warmup_send_ack", "Warmup end-to-end", "end-to-end", "warmupless"] {
        text += &line(&format!("Tag={tag},"), 3.0, 100);
        text += &line(&format!("Tag={tag},"), 4.0, 50);
    }
    let log = parse(&text).unwrap();
    let found: Vec<(&str, u64)> = log.tags.iter().map(|it| (it.metric.name(), it.count)).collect();
    assert_eq!(found, [("send ack", 150), ("end-to-end", 150), ("warmupless", 150)]);
    assert_eq!((log.seconds, log.notes.len()), (2.0, 0));
    let of = &log.tags[0];
    assert_eq!((of.metric, of.max(), of.percentiles[0]), (Metric::SEND_ACK, 100, 38));
    assert!(of.supports(90.0) && !of.supports(99.0));
}

#[test]
fn units_are_stated_given_or_assumed() {
    let told = |head: &str, given| {
        let text = head.to_owned() + &line("", 0.0, 100);
        let log = LatencyLog::parse("x", &mut text.as_bytes(), given).unwrap();
        (log.unit, log.unit_source, log.tags[0].max())
    };
    let ours = "#[Latencies in nanoseconds, largest values in milliseconds, written by bellows 0.1.0]\n";
    let us = Some(LogUnit::Microseconds);
    assert_eq!(told(ours, us), (LogUnit::Nanoseconds, UnitSource::Stated, 100));
    assert_eq!(told("", us), (LogUnit::Microseconds, UnitSource::Given, 100_000));
    assert_eq!(told("", None), (LogUnit::Nanoseconds, UnitSource::Assumed, 100));
    let ms = told("#recorded in Milliseconds\n", None);
    assert_eq!(ms, (LogUnit::Milliseconds, UnitSource::Stated, 100_000_000));
    // Artemis perf writes no start of the log; with one it is another tool that has such a tag.
    let tagged = line("Tag=send,", 0.0, 100) + &line("Tag=warmup transfer,", 0.0, 100);
    let artemis = parse(&tagged).unwrap();
    assert_eq!(artemis.unit_source, UnitSource::Artemis);
    assert_eq!(artemis.tags[0].metric, Metric::SEND_ACK);
    let other = parse("#[StartTime: 1 (seconds since epoch)]\n".to_owned() + &tagged).unwrap();
    assert_eq!((other.unit_source, other.tags[0].metric.name()), (UnitSource::Assumed, "send"));
}

#[test]
fn a_log_is_read_up_to_where_it_is_cut_off() {
    let whole = line("", 0.0, 100) + &line("", 1.0, 100);
    // The end of the last line alone may be missing.
    assert_eq!(parse(whole.trim_end()).unwrap().notes, Vec::<String>::new());
    let cut = parse(&whole[..whole.len() - 9]).unwrap();
    assert_eq!(cut.tags[0].count, 100);
    assert_eq!(cut.notes, ["its last line, 2, is cut off: read up to there, 1 s"]);
    let damaged = line("", 0.0, 100) + "0.5,rubbish\n" + &line("", 1.0, 100);
    let damaged = parse(&damaged).unwrap();
    assert_eq!(damaged.tags[0].count, 200);
    assert!(damaged.notes[0].starts_with("line 2 is passed over: it has 2 fields"), "{:?}", damaged.notes);

    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.hlog.gz");
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    for second in 0..200 {
        let text = line("", f64::from(second), 100 + u64::from(second as u32));
        packed.write_all(text.as_bytes()).unwrap();
    }
    let packed = packed.finish().unwrap();
    std::fs::write(&path, &packed).unwrap();
    assert_eq!(LatencyLog::read(&path, None).unwrap().seconds, 200.0);
    std::fs::write(&path, &packed[..packed.len() / 2]).unwrap();
    let half = LatencyLog::read(&path, None).unwrap();
    assert!((20.0..180.0).contains(&half.seconds), "{}", half.seconds);
    assert!(half.notes[0].contains("compressed data is cut off"), "{:?}", half.notes);
}

#[test]
fn what_is_no_log_says_why() {
    refused("", &["holds no interval", "0 comment lines"]);
    refused("#[Histogram log format version 1.3]\n", &["holds no interval", "1 comment line"]);
    refused("{\"a\": 1}\n", &["a.hlog is not an HDR histogram log (line 1", "{\"a\": 1}", "HistogramLogWriter"]);
    refused("       Value     Percentile TotalCount 1/(1-Percentile)\n\n", &["is not an HDR histogram log"]);
    refused(line("Tag=warmup send,", 0.0, 5), &["nothing but warm-up", "1 interval"]);
    refused(line("", 0.0, 0), &["holds no value", "1 empty interval"]);
    let alike = line("Tag=a b,", 0.0, 5) + &line("Tag=a_b,", 0.0, 5);
    refused(alike, &["read alike", "\"a b\" and \"a_b\""]);
    // A histogram of floating-point numbers.
    refused("0.0,1.0,1.0,DHISTA==\n", &["line 1"]);
    refused("0.0,1.0,1.0,DHISTgAAAA==\n", &["floating-point"]);
    refused(vec![b'x'; 5 << 20], &["has no end"]);
    let missing = LatencyLog::read(std::path::Path::new("/nowhere/a.hlog"), None);
    assert!(missing.unwrap_err().cause.contains("/nowhere/a.hlog"));
}

#[test]
fn a_hostile_log_takes_no_more_than_others() {
    let mut text = String::new();
    for tag in 0..40 {
        text += &line(&format!("Tag=t{tag},"), 0.0, 10);
    }
    let log = parse(&text).unwrap();
    assert_eq!(log.tags.len(), 16);
    assert!(log.notes[0].contains("more than 16 tags"), "{:?}", log.notes);
    assert!(log.notes.iter().any(|it| it == "21 more lines passed over, too"), "{:?}", log.notes);
    for start in ["nan", "inf", "1e999", "-1e300", "1e300"] {
        let text = line("", 1.0, 10) + &format!("{start},1,1,{}\n", encoded(10));
        assert!(parse(&text).is_ok(), "{start}");
    }
}

#[test]
fn recordings_on_top_of_each_other_and_long_pauses_are_told() {
    let recording = |from: f64| -> String { (0..20).map(|second| line("", from + f64::from(second), 10)).collect() };
    let once = parse(recording(0.0)).unwrap();
    assert!(!once.overlaps && once.notes.is_empty(), "{:?}", once.notes);
    // Equal times twice: twice as many values a second were never recorded.
    let twice = parse(recording(0.0) + &recording(0.0)).unwrap();
    assert!(twice.overlaps && twice.seconds == 20.0);
    assert!(twice.notes[0].starts_with("its intervals overlap, 40 s of them in 20 s"), "{:?}", twice.notes);
    let paused = parse(recording(0.0) + &recording(980.0)).unwrap();
    assert!(!paused.overlaps);
    assert_eq!(paused.notes, ["its intervals are 40 s of 1000 s: rates are of the whole time"]);
    let huge = parse(line("", 1.0, 10) + &format!("1e300,1,1,{}\n", encoded(10))).unwrap();
    assert_eq!(huge.notes, ["line 2 is passed over: an interval of 1.0 s from 1e300 is invalid"]);
}

#[test]
fn a_tag_whose_intervals_are_empty_is_there_without_values() {
    let log = parse(line("Tag=sent,", 0.0, 100) + &line("Tag=received,", 0.0, 0)).unwrap();
    let found: Vec<(&str, u64)> = (log.tags.iter()).map(|it| (it.metric.name(), it.count)).collect();
    assert_eq!(found, [("sent", 100), ("received", 0)]);
    assert_eq!((log.tags[1].max(), log.tags[1].percentiles), (0, [0; 4]));
}

/// The corpus of the fuzz target of the same name.
#[test]
fn every_seed_is_a_log_or_a_refusal() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/latency_log");
    let (mut logs, mut refusals) = (0, 0);
    for seed in std::fs::read_dir(folder).unwrap() {
        let seed = std::fs::read(seed.unwrap().path()).unwrap();
        match parse(seed) {
            Ok(log) => {
                logs += 1;
                for tag in &log.tags {
                    assert_eq!(tag.values.iter().map(|it| it.1).sum::<u64>(), tag.count);
                }
            }
            Err(_) => refusals += 1,
        }
    }
    assert!(logs >= 4 && refusals >= 2, "{logs} {refusals}");
}

/// HdrHistogramJS fills the field of histograms of floating-point numbers with anything.
#[test]
fn a_log_of_javascripts_library_is_read() {
    const LOG: &str = "#[StartTime: 1000.000 (seconds since epoch)]\n\
        \"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n\
        1000.000,1.000,100.000,HISTFAAAAFl4nJNpmSzMwMBwk4GBgZGBgYGZAQIYIeT//zD+eX6ms/xMUzmYnrIzLWRh+sgMRcuZmL4zYkErGZmqmSrx4GwmayZrJlswSR6tyyTNJMski0SSwwcAZzMmuw==\n";
    let log = parse(LOG).expect("a log");
    // 1,000, 2,000, 3,000 and so on.
    let values: Vec<u64> = log.tags[0].values.iter().map(|it| it.0).collect();
    let wanted = (1..=100).map(|thousands| thousands * 1_000);
    let near = |(value, wanted): (&u64, u64)| value.abs_diff(wanted) * 1_000 <= wanted;
    assert_eq!(values.len(), 100);
    assert!(values.iter().zip(wanted).all(near), "{values:?}");
}

#[test]
fn ends_in_place_of_lengths_are_told() {
    let head = "\"StartTimestamp\",\"EndTimestamp\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n";
    let listed = |times: &[&str]| times.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
    let epoch = 1_700_000_000..1_700_000_010;
    for (times, tags, seconds, are_ends) in [
        (epoch.clone().map(|at| format!("{at}.0,{}.0", at + 1)).collect::<Vec<_>>(), &[""][..], 10.0, true),
        // Since the machine's start, as C's `hdr_gettime` tells the time.
        ((34_567..34_577).map(|at| format!("{at}.2,{}.2", at + 1)).collect(), &[""], 10.0, true),
        // Some write lengths below that head, whatever they count from.
        (epoch.map(|at| format!("{at}.0,1.0")).collect(), &[""], 10.0, false),
        (listed(&["0.127,1.007", "1.134,0.999"]), &[""], 2.006, false),
        // The first line may be like the end of one that began long ago, or begin with the log.
        (listed(&["1.000,1.005", "2.005,1.000", "3.005,1.001"]), &["", "Tag=B,"], 3.006, false),
        (listed(&["0.0,1.0", "1.0,2.0", "2.0,3.0", "3.0,4.0"]), &["", "Tag=B,"], 4.0, true),
        (listed(&["0.0,1.0", "1.0,1.0", "2.0,1.0"]), &["", "Tag=B,"], 3.0, false),
    ] {
        let of_time = |times: &String| -> String {
            tags.iter().map(|tag| format!("{tag}{times},0.1,{}\n", encoded(10))).collect()
        };
        let lines: String = times.iter().map(of_time).collect();
        let log = parse(format!("{head}{lines}")).expect("a log");
        assert!((log.seconds - seconds).abs() < 1e-6, "{times:?}: {}", log.seconds);
        let note = log.notes.iter().any(|it| it.contains("hdr_log_write"));
        assert_eq!((note, log.overlaps), (are_ends, false), "{times:?}");
        assert!(are_ends || tags.len() > 1 || log.notes.is_empty(), "{:?}", log.notes);
    }
}
