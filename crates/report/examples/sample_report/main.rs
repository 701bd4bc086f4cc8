//! Writes run folders with made-up but lifelike content and their reports: what the page's tests
//! and its authors look at.
//!
//! ```text
//! cargo run -p report --example sample_report -- DIR [STATE …]
//! ```
//!
//! Each state becomes `DIR/STATE/` with its `report.html`: `full` (with three events), `cut-off`, `rate`, `record`
//! (profile without load), `plain` (load without profile or broker data), `hostile` (names that try to be more than
//! text), `faults` (stalls, a hole in the series, cycles beside the messages), `million` (a profile of a million
//! samples), `comparison` (runs of two sides in turns), `limit` (trials of rates; `scale` of numbers of producers
//! beside it), and `matrix` (three matrices of comparisons, `matrix-one` and `matrix-three` beside it). All by default.

mod beside;
mod comparison;
mod faults;
mod limit;
mod load;
mod matrix;
mod named;
mod random;
mod record;
mod stacks;
mod traces;

use std::error::Error;
use std::path::Path;

use archive::{RunState, RunWriter};
use load::Shape;
use measure::Time;

/// Unix time of 2026-11-21T00:12:33Z.
const STARTED_UNIX_NS: u64 = 1_795_219_953_000_000_000;
const ORIGIN: Time = Time(1_000_000_000_000);

/// One of the folders.
struct State {
    name: &'static str,
    /// `None`: no load.
    load: Option<Shape>,
    /// Seconds of the measured phase.
    seconds: u32,
    /// Samples of the profile; 0 for none.
    samples: u32,
    state: RunState,
    hostile: bool,
    faults: bool,
    /// Profiles of further events beside that of CPU time.
    further: bool,
}

/// The folder of runs of two sides.
const COMPARISON: &str = "comparison";
/// The folder of trials of rates.
const LIMIT: &str = "limit";
/// The folders of matrices.
const MATRIX: &str = "matrix";

const STATES: [State; 8] = [
    State { further: true, ..State::new("full", Some(Shape::AllOut), 60, 70_000) },
    State { state: RunState::Running, ..State::new("cut-off", Some(Shape::AllOut), 60, 70_000) },
    State::new("rate", Some(Shape::Rate), 60, 40_000),
    State::new("record", None, 30, 30_000),
    State::new("plain", Some(Shape::Bare), 20, 0),
    State { hostile: true, state: RunState::Failed, ..State::new("hostile", Some(Shape::Rate), 15, 8_000) },
    State { faults: true, ..State::new("faults", Some(Shape::Rate), 40, 4_000) },
    State::new("million", Some(Shape::AllOut), 500, 1_000_000),
];

impl State {
    const fn new(name: &'static str, load: Option<Shape>, seconds: u32, samples: u32) -> Self {
        Self { name, load, seconds, samples, state: RunState::Complete, hostile: false, faults: false, further: false }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let dir = arguments.next().ok_or("usage: sample_report DIR [STATE …]; see the head of the source")?;
    let wanted: Vec<String> = arguments.collect();
    let others = [COMPARISON, LIMIT, MATRIX];
    let known: Vec<&str> = STATES.iter().map(|s| s.name).chain(others).collect();
    if let Some(unknown) = wanted.iter().find(|w| !known.contains(&w.as_str())) {
        return Err(format!("no state is called {unknown:?}; there are {}", known.join(", ")).into());
    }
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|w| w == name);
    if is_wanted(COMPARISON) {
        println!("{}", comparison::write(Path::new(&dir))?.display());
    }
    if is_wanted(LIMIT) {
        println!("{}", limit::write(Path::new(&dir))?.display());
        println!("{}", limit::write_scale(Path::new(&dir))?.display());
    }
    if is_wanted(MATRIX) {
        for path in matrix::write(Path::new(&dir))? {
            println!("{}", path.display());
        }
    }
    for state in &STATES {
        if is_wanted(state.name) {
            let path = write(Path::new(&dir), state)?;
            println!("{}", path.display());
        }
    }
    Ok(())
}

fn write(dir: &Path, state: &State) -> Result<std::path::PathBuf, Box<dyn Error>> {
    let target = write_run(dir, state.name, state)?;
    Ok(report::html::write_report(&target)?)
}

/// An empty folder, in place of what an earlier call wrote there.
fn empty_folder(dir: &Path, name: &str) -> std::io::Result<std::path::PathBuf> {
    let folder = dir.join(name);
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// Writes the folder of a run and returns it.
fn write_run(dir: &Path, name: &str, state: &State) -> Result<std::path::PathBuf, Box<dyn Error>> {
    let target = dir.join(name);
    if target.exists() {
        std::fs::remove_dir_all(&target)?;
    }
    let mut writer = RunWriter::create(dir, state.name, STARTED_UNIX_NS)?;
    writer.set_origin(ORIGIN, STARTED_UNIX_NS);
    let run = load::write(&mut writer, state);
    if state.samples > 0 {
        stacks::write(writer.dir(), state)?;
        if state.further {
            stacks::write_further(writer.dir(), state)?;
        }
    }
    traces::write(&mut writer, state);
    // Constant, so that equal pages are equal files.
    let id = format!("2026-11-21T00-12-33Z-{}-made", state.name);
    writer.write_record(&record::record(&id, state, &run));
    if let Some(warning) = writer.warnings().first() {
        return Err(warning.text.clone().into());
    }
    if state.faults {
        let labels = archive::Labels {
            note: Some("the disk of <b>this</b> machine is slow".into()),
            tags: ["crash".parse()?].into(),
        };
        labels.write(writer.dir())?;
    }
    std::fs::rename(writer.dir(), &target)?;
    Ok(target)
}
