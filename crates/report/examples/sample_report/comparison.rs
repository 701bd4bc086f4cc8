//! Runs of two sides in turns, and their comparison: seven pairs, one of them repeated.

use std::error::Error;
use std::path::{Path, PathBuf};

use archive::{
    ComparedFigure, ComparedFrame, ComparedFunctions, ComparedName, ComparedRun, ComparedSide, ComparedSideName,
    ComparedStacks, Comparison, CostChange, Decision, ExplainedChange, FunctionChange, LeftOut, PairedRun, PairedRuns,
    QuantityUnit,
};
use serde_json::json;

use super::load::Shape;
use super::{State, empty_folder, write_run};

/// Hostile characters that a name from a broker may hold.
pub(crate) const HOSTILE: &str = "<script>alert(1)</script>\u{1b}[31m";
/// Pairs that count.
const PAIRS: u32 = 6;

/// Writes the folder `DIR/comparison` with its page.
pub(crate) fn write(dir: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let folder = empty_folder(dir, "comparison")?;
    let mut runs = Vec::new();
    for pair in 0..=PAIRS {
        for side in [ComparedSideName::A, ComparedSideName::B] {
            let is_spoiled = pair == 2 && side == ComparedSideName::A;
            runs.push(PairedRun {
                pair,
                side,
                id: format!("run-{}-{pair}", side.tag()),
                spoiled: is_spoiled.then(|| "invalid".to_owned()),
                own: false,
                disturbed: false,
            });
        }
    }
    // All runs are alike: what differs are the figures, which are decided elsewhere.
    let state = State { hostile: true, ..State::new("run", Some(Shape::Rate), 8, 0) };
    for run in &runs {
        write_run(&folder, &run.id, &state)?;
        report::html::write_report(&folder.join(&run.id))?;
    }
    let pairs = PairedRuns {
        schema: PairedRuns::SCHEMA.to_owned(),
        name: HOSTILE.to_owned(),
        seed: 7,
        pairs: PAIRS,
        a: json!({"broker": {"kind": "rabbitmq", "schedulers": 2}}),
        b: json!({"broker": {"kind": "rabbitmq", "schedulers": 1, "note": HOSTILE}}),
        hidden: false,
        runs,
    };
    pairs.write(&folder)?;
    decided(&pairs).write(&folder)?;
    Ok(report::html::write_comparison(&folder)?)
}

fn decided(pairs: &PairedRuns) -> Comparison {
    let side = |name: ComparedSideName| {
        let of_side = pairs.runs.iter().filter(|run| run.side == name);
        let (left, counted): (Vec<_>, Vec<_>) = of_side.partition(|run| run.pair == 2);
        ComparedSide {
            what: format!("RabbitMQ 3.10.8 {HOSTILE}"),
            runs: counted
                .iter()
                .map(|run| ComparedRun { id: run.id.clone(), invalid: false, cautious: run.pair == 4 })
                .collect(),
            left_out: left.iter().map(|run| LeftOut { id: run.id.clone(), why: "invalid".to_owned() }).collect(),
            ..ComparedSide::default()
        }
    };
    Comparison {
        schema: Comparison::SCHEMA.to_owned(),
        a: side(ComparedSideName::A),
        b: side(ComparedSideName::B),
        paired: true,
        level: 0.05,
        figures: vec![
            figure(("received rate", QuantityUnit::PerSecond, 54_800.0), 0.24, 0.03, Decision::Changed),
            figure(("ack response p50", QuantityUnit::Ns, 1.2e6), -0.002, 0.004, Decision::Same),
            figure(("ack response p99", QuantityUnit::Ns, 31e6), 11.0, 9.0, Decision::Changed),
            figure(("broker cpu", QuantityUnit::Ns, 21_400.0), -0.004, 0.002, Decision::Negligible),
            figure(("broker memory", QuantityUnit::Bytes, 1.3e8), 0.02, 0.06, Decision::Undecided),
        ],
        functions: Some(functions()),
        stacks: Some(stacks()),
        ..Comparison::default()
    }
}

/// A figure of A with a change and the half of its interval.
pub(crate) fn figure(
    (name, unit, value): (&str, QuantityUnit, f64),
    change: f64,
    half: f64,
    decision: Decision,
) -> ComparedFigure {
    let runs = |mean: f64| -> Vec<f64> {
        let apart = (0..PAIRS).map(|run| f64::from(run * 5 % PAIRS) / f64::from(PAIRS) - 0.4);
        apart.map(|apart| mean * (1.0 + half * apart / 4.0)).collect()
    };
    let b = value * (1.0 + change);
    ComparedFigure {
        name: name.to_owned(),
        unit,
        more_is_better: unit == QuantityUnit::PerSecond,
        a: runs(value),
        b: runs(b),
        means: (value, b),
        change,
        interval: (change - half, change + half),
        p: Some(0.01),
        corrected_p: Some(0.02),
        margin: 0.01,
        visible: half,
        decision,
        needed: (decision == Decision::Undecided).then_some(41),
        ..ComparedFigure::default()
    }
}

fn functions() -> ComparedFunctions {
    let cost = |a: f64, b: f64, proven: bool| CostChange {
        a,
        b,
        interval: (b - a - 40.0, b - a + 40.0),
        p: if proven { 0.001 } else { 0.4 },
        proven,
        visible: Some(50.0),
    };
    let named = |function: &str, own: CostChange, total: CostChange| FunctionChange {
        function: function.to_owned(),
        module: "[jit]".to_owned(),
        own,
        total,
        cut: 0.0,
    };
    let mut functions = vec![
        named(&format!("{HOSTILE}:route/2"), cost(900.0, 300.0, true), cost(1_900.0, 1_200.0, true)),
        named("rabbit_channel:handle_method/3", cost(410.0, 600.0, true), cost(700.0, 900.0, true)),
    ];
    for number in 0..40 {
        let change = if number % 2 == 0 { 12.0 } else { -9.0 };
        let own = cost(300.0, 300.0 + change, false);
        functions.push(named(&format!("rabbit_module_{number}:call/1"), own, own));
    }
    ComparedFunctions {
        broker: cost(21_400.0, 20_900.0, true),
        functions,
        others: 12.0,
        explained: vec![ExplainedChange {
            function: format!("{HOSTILE}:route/2"),
            module: "[jit]".to_owned(),
            change: -600.0,
            own: false,
        }],
        ..ComparedFunctions::default()
    }
}

/// Call paths: one got cheaper, one dearer, and many are as they were.
fn stacks() -> ComparedStacks {
    let name = |function: String, module: &str| ComparedName { function, module: module.to_owned() };
    let mut names = vec![
        name("1_scheduler".to_owned(), ""),
        name("$rabbit_channel:handle_method/3".to_owned(), "[jit]"),
        name(format!("{HOSTILE}:route/2"), "[jit]"),
        name("lists:foldl/3".to_owned(), "[jit]"),
    ];
    let frame = |parent, name, a: f64, b: f64, proven| ComparedFrame {
        parent,
        name,
        a,
        b,
        interval: (b - a - 40.0, b - a + 40.0),
        asked: true,
        proven,
        visible: Some(50.0),
    };
    let mut frames = vec![
        frame(None, 0, 21_000.0, 20_500.0, true),
        frame(Some(0), 1, 9_000.0, 8_500.0, true),
        frame(Some(1), 2, 1_900.0, 1_300.0, true),
        frame(Some(1), 3, 400.0, 500.0, true),
    ];
    for number in 0..60_u32 {
        names.push(name(format!("rabbit_module_{number}:call/1"), "[jit]"));
        let parent = if number % 5 == 0 { 0 } else { frames.len() as u32 - 1 };
        let cost = 900.0 / f64::from(1 + number % 5);
        let mut of = frame(Some(parent), 4 + number, cost, cost + 7.0, false);
        of.asked = number < 5;
        frames.push(of);
    }
    ComparedStacks {
        schema: ComparedStacks::SCHEMA.to_owned(),
        broker: functions().broker,
        names,
        frames,
        level: 0.05,
        least_share: 0.001,
    }
}
