//! `doctor --calibrate`: the generator's capacity on this machine.

use measure::{Nanos, counted};
use report::console::{self, LoadRow, Steps, Style, WakeRow, sentence};
use session::calibration::{self, Calibration, Keeping};

use crate::run_options::run_options;
use crate::{Done, Failure, output, signals};

/// Measures, keeps and prints the capacity, or prints the one that was kept where `show` asks for it.
pub(super) fn execute(show: bool, quiet: bool, json: bool) -> Result<Done, Failure> {
    let found = if show {
        calibration::kept().ok_or_else(|| {
            Failure::failed(
                "nothing is kept for this machine and this version of bellows",
                "run `bellows doctor --calibrate`",
            )
        })?
    } else {
        let found = measure(quiet)?;
        match calibration::keep(&found) {
            Ok(Keeping::Kept(_)) => {}
            Ok(Keeping::Quieter) => {
                warn("the one that was kept before stays: the machine had less to do beside it");
            }
            // The figures are right all the same, and are printed.
            Err(source) => warn(&format!("the calibration could not be kept: {source}")),
        }
        found
    };
    if found.is_busy() {
        warn(&format!(
            "other processes used {:.1} of {} meanwhile: the figures are lower bounds; calibrate again when they are \
             gone",
            found.others_cores,
            counted(u64::from(found.cores), "core")
        ));
    }
    output::print_result(json, &found, |style| table(&found, style))
}

fn measure(quiet: bool) -> Result<Calibration, Failure> {
    let (control, at_once) = signals::stop_load()?;
    let options = run_options(None, archive::Labels::default(), Vec::new())?;
    let steps = if quiet { Steps::Quiet } else { Steps::new(output::style_aside()) };
    let found = session::calibrate(&options, &control, |done, of, text| steps.at(done, of, text));
    steps.clear();
    at_once.check()?;
    Ok(found?)
}

fn warn(text: &str) {
    output::aside(&sentence(&format!("warning: {text}"), output::style_aside()));
}

fn table(found: &Calibration, style: Style) -> String {
    let machine = format!(
        "bellows {} on {}, {}, {}, {}",
        found.bellows,
        found.cpu,
        counted(u64::from(found.cores), "core"),
        found.kernel,
        found.created
    );
    let wakes = found
        .lateness
        .iter()
        .map(|late| WakeRow { rate: late.rate, late: [Nanos(late.p50_ns), Nanos(late.p99_ns), Nanos(late.max_ns)] });
    let loads = found.points.iter().map(|point| LoadRow {
        load: point.workload_text(),
        size: point.size,
        connections: point.connections,
        loops: point.threads,
        at_least: point.at_least,
        rate: point.rate,
        client_ns: point.client_ns,
        broker_ns: point.broker_ns,
        lag: Nanos(point.loop_lag_max_ns),
    });
    let (wakes, loads): (Vec<_>, Vec<_>) = (wakes.collect(), loads.collect());
    console::calibration(&machine, &wakes, &loads, style)
}
