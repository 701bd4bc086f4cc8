//! Pages read as by Python's `prometheus_client`. `data/openmetrics-expected.py` makes the expectation.

use std::fs;
use std::path::Path;

use wire::openmetrics::PageFormat;

use crate::openmetrics::common::{Told, told};

fn data(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A page as a line per sample: name, sorted labels, value, each escaped by Rust's own rules; sorted, because the
/// independent parser gathers families.
fn lines(page: &str, format: PageFormat) -> Vec<String> {
    let mut lines: Vec<String> = told(format, page.as_bytes())
        .into_iter()
        .filter_map(|event| match event {
            Told::Sample(mut sample) => {
                sample.labels.sort();
                let labels: Vec<String> =
                    sample.labels.iter().map(|(name, value)| format!("{name}={}", hexadecimal(value))).collect();
                let value = f64::from_bits(sample.value);
                let bits = if value.is_nan() { f64::NAN } else { value }.to_bits();
                Some(format!("{} {} {bits:016x}", sample.name, labels.join(",")))
            }
            Told::Error(line, cause) => panic!("line {line}: {cause}"),
            _ => None,
        })
        .collect();
    lines.sort();
    lines
}

fn hexadecimal(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn pages_are_read_alike() {
    for (name, format) in [
        ("openmetrics-rabbitmq", PageFormat::Prometheus),
        ("openmetrics-prometheus", PageFormat::Prometheus),
        ("openmetrics-openmetrics", PageFormat::OpenMetrics),
    ] {
        let expected = data(&format!("{name}.expected"));
        let expected: Vec<&str> = expected.lines().collect();
        assert!(expected.len() > 10, "{name}: an expectation of {} lines", expected.len());
        assert_eq!(lines(&data(&format!("{name}.txt")), format), expected, "{name}");
    }
}
