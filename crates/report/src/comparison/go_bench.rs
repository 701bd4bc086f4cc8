//! A comparison as Go's text of benchmarks (<https://go.dev/design/14313-benchmark-format>): a line for each run of
//! each side and cell, `BenchmarkStreamPublish 1 118000 ack-response-p50-ns 54800 received-rate/s`, below a line that
//! names the side, so that `benchstat -col side FILE` compares them.

use std::collections::HashMap;
use std::fmt::Write as _;

use archive::{ComparedCell, ComparedFigure, ComparedMatrix, ComparedSideName, Comparison, QuantityUnit};

use crate::console::sanitise;
use crate::text::matrix as words;

pub(super) fn text(name: &str, of: Option<&ComparedMatrix>) -> String {
    let Some(of) = of else { return String::new() };
    let mut out = String::new();
    out.extend(["A", "B"].iter().zip(words::sides(of)).map(|(side, told)| format!("# {side}: {}\n", sanitise(&told))));
    let units = Units::of(of);
    for (unit, more_is_better) in &units.all {
        let better = if *more_is_better { "higher" } else { "lower" };
        let _ = writeln!(out, "Unit {unit} better={better}");
    }
    let names = cell_names(name, of);
    for side in [ComparedSideName::A, ComparedSideName::B] {
        let _ = writeln!(out, "\nside: {}", side.tag());
        for (cell, name) in of.cells.iter().zip(&names) {
            if let Some(comparison) = &cell.comparison {
                runs(&mut out, name, comparison, side, &units);
            }
        }
    }
    out
}

/// Names of the cells; numbered where letters alone do not distinguish them, as benchstat would take them for one.
fn cell_names(name: &str, of: &ComparedMatrix) -> Vec<String> {
    let name = benchmark(name);
    let plain: Vec<String> = of.cells.iter().map(|cell| parameters(of, cell)).collect();
    let told = (1..).zip(&plain).map(|(number, own)| match plain.iter().filter(|it| *it == own).count() {
        1 => format!("{name}{own}"),
        _ => format!("{name}{own}/cell={number}"),
    });
    told.collect()
}

/// The units of all figures, each of its own: a line in which one stands twice is none.
#[derive(Default)]
struct Units<'f> {
    /// In the order of the figures, with whether more is better.
    all: Vec<(String, bool)>,
    by_figure: HashMap<&'f str, String>,
}

impl<'f> Units<'f> {
    fn of(of: &'f ComparedMatrix) -> Self {
        let mut units = Self::default();
        for figure in of.comparisons().flat_map(|it| &it.figures) {
            if units.by_figure.contains_key(figure.name.as_str()) {
                continue;
            }
            let plain = unit(figure);
            let mut own = plain.clone();
            for number in 2.. {
                if units.all.iter().all(|it| it.0 != own) {
                    break;
                }
                own = format!("{number}-{plain}");
            }
            units.all.push((own.clone(), figure.more_is_better));
            units.by_figure.insert(&figure.name, own);
        }
        units
    }

    fn get(&self, figure: &ComparedFigure) -> &str {
        self.by_figure.get(figure.name.as_str()).map_or("", String::as_str)
    }
}

fn runs(out: &mut String, name: &str, of: &Comparison, side: ComparedSideName, units: &Units<'_>) {
    let is_a = side == ComparedSideName::A;
    let runs = if is_a { &of.a.runs } else { &of.b.runs };
    for run in 0..runs.len() {
        let mut line = format!("{name} 1");
        for figure in &of.figures {
            let values = if is_a { &figure.a } else { &figure.b };
            // A figure that is nothing in a run has no value in it.
            if let Some(value) = values.get(run).filter(|it| **it > 0.0) {
                let _ = write!(line, " {value} {}", units.get(figure));
            }
        }
        // A line without any value is none of the format's.
        if line.len() > name.len() + 2 {
            let _ = writeln!(out, "{line}");
        }
    }
}

/// Suffix of a cell's benchmark name: `/queue-type=classic`. Values lose hyphens, which benchstat has for processors.
fn parameters(of: &ComparedMatrix, cell: &ComparedCell) -> String {
    let plain = |text: &str, also: char| -> String {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == also;
        text.chars().map(|c| if plain(c) { c } else { '_' }).collect()
    };
    let names = archive::short_names(&of.keys);
    let pairs = names.iter().zip(&cell.values);
    pairs.map(|(key, value)| format!("/{}={}", plain(key, '-'), plain(value, '_'))).collect()
}

/// The name of a benchmark: `BenchmarkStreamPublish`. What stands behind a hyphen would be a number of processors.
fn benchmark(name: &str) -> String {
    let words = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
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
    let name: String = of.name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).collect();
    let end = match of.unit {
        QuantityUnit::Ns => "-ns",
        QuantityUnit::PerSecond => "/s",
        QuantityUnit::Bytes => "-B",
        QuantityUnit::Share | QuantityUnit::Count | QuantityUnit::Cores => "",
    };
    name + end
}
