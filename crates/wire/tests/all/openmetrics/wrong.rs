//! Wrong lines, limits, and what suffixes mean.

use wire::openmetrics::{LineCause, MAX_LINE, PageEvent, PageFormat, Parser, SeriesRole, fuzzing};

use crate::openmetrics::common::{Told, told};

/// The cause of a page's only wrong line, between two right ones.
fn cause(line: &str) -> LineCause {
    let page = format!("before 1\n{line}\nafter 2\n");
    let events = told(PageFormat::Prometheus, page.as_bytes());
    match events.as_slice() {
        [Told::Sample(before), Told::Error(2, cause), Told::Sample(after)] => {
            assert_eq!((before.name.as_str(), after.name.as_str()), ("before", "after"));
            *cause
        }
        other => panic!("{line:?}: {other:?}"),
    }
}

#[test]
fn a_wrong_line_is_told_and_skipped() {
    for row in include_str!("../../data/openmetrics/wrong.txt").lines() {
        let (line, expected) = row.split_once(" ⇒ ").expect("two cells");
        assert_eq!(format!("{:?}", cause(line)), expected, "{line}");
    }
    assert_eq!(cause("\rabc 1"), LineCause::MetricName);
    let many: Vec<String> = (0..200).map(|i| format!("l{i}=\"\"")).collect();
    assert_eq!(cause(&format!("abc{{{}}} 1", many.join(","))), LineCause::TooManyLabels);
}

#[test]
fn a_line_is_read_alike_whatever_stands_before_it() {
    for row in include_str!("../../data/openmetrics/behind.txt").lines() {
        let (before, line) = row.split_once(" ⇒ ").expect("two cells");
        let alone = told(PageFormat::Prometheus, format!("\n{line}\n").as_bytes());
        let behind = told(PageFormat::Prometheus, format!("{before}\n{line}\n").as_bytes());
        assert_eq!(behind.get(1..), Some(alone.as_slice()), "{line} behind {before}");
    }
}

#[test]
fn wrong_bytes_spoil_their_line_alone() {
    let page = b"a 1\nb{x=\"\xff\"} 2\n# HELP c \xc3\nc 3\n\xf0\x9f 4";
    let events = told(PageFormat::Prometheus, page);
    let names: Vec<String> = events
        .iter()
        .map(|event| match event {
            Told::Sample(sample) => sample.name.clone(),
            Told::Error(line, cause) => format!("{line} {cause:?}"),
            other => format!("{other:?}"),
        })
        .collect();
    assert_eq!(names, ["a", "2 NotUtf8", "3 NotUtf8", "c", "5 NotUtf8"]);
}

#[test]
fn a_line_that_does_not_end_is_not_kept() {
    let piece = vec![b'a'; 64 << 10];
    let mut parser = Parser::new(PageFormat::Prometheus);
    let mut errors = Vec::new();
    let information = allocation_counter::measure(|| {
        // A gigabyte of one line.
        for _ in 0..16_384 {
            parser.feed(&piece, |event| {
                if let PageEvent::Error(error) = event {
                    errors.push(error);
                }
            });
        }
    });
    assert!(information.bytes_max < 3 * MAX_LINE as u64, "{} bytes", information.bytes_max);
    let mut names = Vec::new();
    parser.feed(b" 1\nnext 2\n", |event| {
        if let PageEvent::Sample(sample) = event {
            names.push(sample.name.to_owned());
        }
    });
    assert_eq!(errors.len(), 1);
    assert_eq!((errors[0].line, errors[0].cause), (1, LineCause::TooLong));
    assert_eq!(names, ["next"]);
}

#[test]
fn the_limit_of_a_line_does_not_depend_on_pieces() {
    for (length, is_error) in [(MAX_LINE - 1, false), (MAX_LINE, false), (MAX_LINE + 1, true)] {
        let frame = "a{b=\"\"} 1";
        let line = format!("a{{b=\"{}\"}} 1\nc 2\n", "x".repeat(length - frame.len()));
        let whole = told(PageFormat::Prometheus, line.as_bytes());
        assert_eq!(matches!(whole[0], Told::Error(1, LineCause::TooLong)), is_error, "{length}");
        assert_eq!(whole.len(), 2);
        fuzzing::page(&[b"\0\xff", line.as_bytes()].concat());
    }
}

#[test]
fn openmetrics_pages_end_with_eof() {
    let read = |page: &str| told(PageFormat::OpenMetrics, page.as_bytes());
    assert!(matches!(read("a 1 1.5\n# EOF\n").as_slice(), [Told::Sample(sample), Told::Eof]
        if sample.timestamp == Some(1.5_f64.to_bits())));
    assert!(matches!(read("# EOF").as_slice(), [Told::Eof]));
    assert!(matches!(read("a 1\n").as_slice(), [Told::Sample(_), Told::Error(2, LineCause::NoEof)]));
    assert!(matches!(read("").as_slice(), [Told::Error(1, LineCause::NoEof)]));
    assert!(matches!(read("# EOF\na 1\n").as_slice(), [Told::Eof, Told::Error(2, LineCause::AfterEof)]));
    assert!(told(PageFormat::Prometheus, b"# EOF\na 1\n").len() == 1);
    let openmetrics = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert_eq!(PageFormat::of_content_type(openmetrics), PageFormat::OpenMetrics);
    assert_eq!(PageFormat::of_content_type("text/plain; version=0.0.4"), PageFormat::Prometheus);
}

#[test]
fn suffixes_say_what_a_series_is() {
    let roles: Vec<SeriesRole> = told(PageFormat::Prometheus, include_bytes!("../../data/openmetrics/suffixes.txt"))
        .into_iter()
        .filter_map(|event| match event {
            Told::Sample(sample) => Some(sample.role),
            _ => None,
        })
        .collect();
    use SeriesRole::{Bucket, Count, Created, Sum, Total, Value};
    assert_eq!(
        roles,
        [Total, Created, Total, Bucket, Count, Sum, Created, Value, Count, Value, Value, Total, Value, Total]
    );
}
