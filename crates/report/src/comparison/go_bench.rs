//! A comparison as Go's text of benchmarks: a line for each run of each side, below a line that names the side, so that
//! `benchstat -col side FILE` compares them. <https://go.dev/design/14313-benchmark-format>
//!
//! ```text
//! Unit ack-response-p50-ns better=lower
//! side: a
//! BenchmarkStreamPublish 1 118000 ack-response-p50-ns 54800 received-rate/s
//! ```

use std::fmt::Write as _;

use archive::{ComparedFigure, Comparison, QuantityUnit};

use crate::console::sanitise;

pub(super) fn text(name: &str, of: Option<&Comparison>) -> String {
    let Some(of) = of else {
        return String::new();
    };
    let mut out = String::new();
    let _ = writeln!(out, "# A: {}", sanitise(&of.a.what));
    let _ = writeln!(out, "# B: {}", sanitise(&of.b.what));
    for figure in &of.figures {
        let better = match figure.more_is_better {
            true => "higher",
            false => "lower",
        };
        let _ = writeln!(out, "Unit {} better={better}", unit(figure));
    }
    let name = benchmark(name);
    for (side, runs) in [("a", of.a.runs.len()), ("b", of.b.runs.len())] {
        let _ = writeln!(out, "\nside: {side}");
        for run in 0..runs {
            let mut line = format!("{name} 1");
            for figure in &of.figures {
                let values = if side == "a" { &figure.a } else { &figure.b };
                // A figure that is nothing in a run has no value in it.
                if let Some(value) = values.get(run).filter(|it| **it > 0.0) {
                    let _ = write!(line, " {value} {}", unit(figure));
                }
            }
            // A line without any value is none of the format's.
            if line.len() > name.len() + 2 {
                let _ = writeln!(out, "{line}");
            }
        }
    }
    out
}

/// The name of a benchmark: `BenchmarkStreamPublish`. What stands behind a hyphen would be a number of processors.
fn benchmark(name: &str) -> String {
    let words = name
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty());
    let mut out = "Benchmark".to_owned();
    for word in words {
        let (first, rest) = word.split_at(1);
        out.push_str(&first.to_ascii_uppercase());
        out.push_str(rest);
    }
    if out == "Benchmark" {
        out.push_str("Comparison");
    }
    out
}

/// A figure's unit, which is its name, too: `ack-response-p50-ns`. benchstat makes seconds of `ns`.
fn unit(of: &ComparedFigure) -> String {
    let name: String = of
        .name
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || c == '.' {
                c
            } else {
                '-'
            }
        })
        .collect();
    let end = match of.unit {
        QuantityUnit::Ns => "-ns",
        QuantityUnit::PerSecond => "/s",
        QuantityUnit::Bytes => "-B",
        QuantityUnit::Share | QuantityUnit::Count => "",
    };
    name + end
}
