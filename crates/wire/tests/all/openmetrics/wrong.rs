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
    for (line, expected) in [
        ("1abc 1", LineCause::MetricName),
        ("{a=\"b\"} 1", LineCause::MetricName),
        ("a-b 1", LineCause::MetricName),
        ("abc", LineCause::Value),
        ("abc ", LineCause::Value),
        ("abc{a=\"b\"}", LineCause::Value),
        ("abc{a=\"b\"} x", LineCause::Value),
        ("abc 1 x", LineCause::Timestamp),
        ("abc 1 2 3", LineCause::Trailing),
        ("abc{a=b} 1", LineCause::Unquoted),
        ("abc{a:b=\"c\"} 1", LineCause::LabelName),
        ("abc{=\"c\"} 1", LineCause::LabelName),
        ("abc{a=\"b\",,} 1", LineCause::LabelName),
        ("abc{a=\"b} 1", LineCause::Unterminated),
        ("abc{a=\"b\\", LineCause::Unterminated),
        ("abc{a=\"b\"", LineCause::Separator),
        ("abc{a=\"b\" c=\"d\"} 1", LineCause::Separator),
        ("abc{a=\"b\",a=\"c\"} 1", LineCause::DuplicateLabel),
        ("abc 1 # nothing", LineCause::Exemplar),
        ("abc 1 # {a=\"b\"}", LineCause::Exemplar),
        ("abc 1 # {a=\"b\"} 1 2 3", LineCause::Exemplar),
        ("# TYPE abc nothing", LineCause::Metadata),
        ("# TYPE", LineCause::Metadata),
        ("# HELP 1 text", LineCause::Metadata),
        ("\rabc 1", LineCause::MetricName),
    ] {
        assert_eq!(cause(line), expected, "{line}");
    }
    let many: Vec<String> = (0..200).map(|i| format!("l{i}=\"\"")).collect();
    assert_eq!(cause(&format!("abc{{{}}} 1", many.join(","))), LineCause::TooManyLabels);
}

#[test]
fn a_line_is_read_alike_whatever_stands_before_it() {
    for (before, line) in [
        ("foo 1", "foo {a=\"b\"} 1"),
        ("foo 1", "foo  {a=\"b\"} 1"),
        ("foo {a=\"b\"} 1", "foo 1"),
        ("foo{a=\"b\"} 1", "foo{} 1"),
        ("foo{} 1", "foo{a=\"b\"} 1"),
        ("foo{a=\"b\",} 1", "foo{a=\"b\"} 1"),
        ("foo{a=\"b\"} 1", "foo{a=\"b\",c=\"d\"} 1"),
        ("foo{a=\"b\",c=\"d\"} 1", "foo{a=\"b\"} 1"),
        ("foo{a=\"b\\\"\"} 1", "foo{a=\"b\\\\\"} 1"),
        ("foo{a=\"bc\"} 1", "foo{a=\"bc\\\"\"} 1"),
        ("foo{a=\"1\",b=\"2\"} 1", "foo{a=\"12\",a=\"2\"} 1"),
        ("foo{ab=\"1\"} 1", "foo{abc=\"1\"} 1"),
        ("foo{a=\"1\"} 1", "foo{a =\"1\"} 1"),
        ("{\"foo\",a=\"1\"} 1", "{\"foo\",a=\"2\"} 1"),
        ("{\"foo\"} 1", "{\"foo.x\"} 1"),
        ("foo{\"a\"=\"1\"} 1", "foo{\"a\"=\"2\",\"b c\"=\"3\"} 1"),
        ("foo{\"a\"=\"1\"} 1", "foo{a=\"1\"} 1"),
        ("foo{a=\"1\"} 1", "{\"foo\",a=\"1\"} 1"),
    ] {
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
    let page = "\
# TYPE c counter
c_total 1
c_created 1
# TYPE old_total counter
old_total 1
# TYPE h histogram
h_bucket{le=\"1\"} 1
h_count 1
h_sum 1
h_created 1
# TYPE s summary
s{quantile=\"0.5\"} 1
s_count 1
# TYPE g gauge
g 1
g_count 1
lonely_total 1
# TYPE u untyped
u 1
u_total 1
";
    let roles: Vec<SeriesRole> = told(PageFormat::Prometheus, page.as_bytes())
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
