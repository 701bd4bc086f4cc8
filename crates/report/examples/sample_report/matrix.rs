//! A matrix of runs in turns: a change that helps in some cells, hurts in one, and of one cell nothing is decided.

use std::error::Error;
use std::path::{Path, PathBuf};

use archive::{
    ComparedFamily, ComparedRun, ComparedSide, ComparedSideName, Comparison, Decision, MatrixKey, PairedMatrix,
    PairedRun, PairedRuns, QuantityUnit,
};
use serde_json::json;

use super::comparison::{HOSTILE, figure};
use super::load::Shape;
use super::{State, empty_folder, write_run};

/// Pairs of each cell: the runs are alike, and only a few are drawn.
const PAIRS: u32 = 2;

/// Writes the folders `DIR/matrix` (two keys), `DIR/matrix-one` and `DIR/matrix-three` (as many keys) with their pages.
pub(crate) fn write(dir: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let key = |key: &str, values: &[&str]| MatrixKey {
        key: key.to_owned(),
        values: values.iter().map(|it| (*it).to_owned()).collect(),
    };
    let types = key("load.0.queue-type", &["classic", "quorum", HOSTILE]);
    let destinations = key("load.0.num-destinations", &["1", "100"]);
    let sizes = key("load.0.message-size", &["12", "uniform:1000-200000"]);
    [
        ("matrix", vec![types.clone(), destinations.clone()]),
        ("matrix-one", vec![types.clone()]),
        ("matrix-three", vec![types, destinations, sizes]),
    ]
    .into_iter()
    .map(|(name, keys)| write_one(&empty_folder(dir, name)?, keys))
    .collect()
}

fn write_one(folder: &Path, keys: Vec<MatrixKey>) -> Result<PathBuf, Box<dyn Error>> {
    let matrix = PairedMatrix::new("stream-publish", 7, PAIRS, keys);
    matrix.write(folder)?;
    for (number, cell) in matrix.folders(folder).iter().enumerate() {
        std::fs::create_dir_all(cell)?;
        let runs = runs(cell)?;
        let pairs = PairedRuns {
            schema: PairedRuns::SCHEMA.to_owned(),
            name: format!("stream-publish, {}", PairedMatrix::label(&matrix.keys, &matrix.cells[number].values)),
            seed: 7,
            pairs: PAIRS,
            a: json!({"broker": {"kind": "rabbitmq"}}),
            b: json!({"broker": {"kind": "rabbitmq", "patch": "ebin"}}),
            hidden: false,
            runs,
        };
        pairs.write(cell)?;
        if number != 3 {
            decided(&pairs, number, matrix.cells.len()).write(cell)?;
        }
    }
    Ok(report::html::write_comparison(folder)?)
}

fn runs(cell: &Path) -> Result<Vec<PairedRun>, Box<dyn Error>> {
    let state = State::new("run", Some(Shape::Rate), 3, 0);
    let mut runs = Vec::new();
    for pair in 0..PAIRS {
        for side in [ComparedSideName::A, ComparedSideName::B] {
            let id = format!("run-{}-{pair}", side.tag());
            write_run(cell, &id, &state)?;
            runs.push(PairedRun { pair, side, id, spoiled: None, own: false, disturbed: false });
        }
    }
    Ok(runs)
}

fn decided(pairs: &PairedRuns, number: usize, cells: usize) -> Comparison {
    let side = |name: ComparedSideName| {
        let of_side = pairs.runs.iter().filter(|run| run.side == name);
        ComparedSide {
            what: "RabbitMQ 3.10.8".to_owned(),
            runs: of_side.map(|run| ComparedRun { id: run.id.clone(), invalid: false, cautious: false }).collect(),
            ..ComparedSide::default()
        }
    };
    let (rate, decision) = match number {
        0 => (0.124, Decision::Changed),
        1 => (0.031, Decision::Changed),
        2 => (-0.082, Decision::Changed),
        4 => (0.004, Decision::Same),
        _ => (0.012, Decision::Undecided),
    };
    let of = |name, unit, value, change, half, decision| {
        let mut figure = figure((name, unit, value), change, half, decision);
        figure.a.truncate(PAIRS as usize);
        figure.b.truncate(PAIRS as usize);
        figure
    };
    let (rated, timed, counted) = (QuantityUnit::PerSecond, QuantityUnit::Ns, QuantityUnit::Bytes);
    Comparison {
        schema: Comparison::SCHEMA.to_owned(),
        a: side(ComparedSideName::A),
        b: side(ComparedSideName::B),
        paired: true,
        level: 0.05,
        family: Some(ComparedFamily { cells: cells as u32 - 1, figures: 4 * (cells as u32 - 1) }),
        figures: vec![
            of("received rate", rated, 54_800.0, rate, 0.02, decision),
            of("ack response p99", timed, 31e6, -2.0 * rate, 0.09, decision),
            of("broker cpu", timed, 21_400.0, -rate, 0.01, decision),
            of("broker memory", counted, 1.3e8, 0.02, 0.06, Decision::Undecided),
        ],
        ..Comparison::default()
    }
}
