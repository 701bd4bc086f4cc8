//! `doctor --calibrate`: the generator's capacity on this machine.

use measure::{Nanos, counted};
use report::console::{Steps, Style, grid, sanitise, sentence};
use report::text::three_digits;
use session::calibration::{self, Calibration, Keeping};

use crate::run_options::run_options;
use crate::{Done, Failure, output, signals};

/// Meaning of the sign before a rate.
const LOWER_BOUND: &str = ">= the generator could do more: broker, shared cores or other processes were the limit";

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
    let loads = found.points.iter().map(|it| {
        let sign = if it.at_least { ">= " } else { "" };
        vec![
            it.workload_text(),
            it.size.to_string(),
            it.connections.to_string(),
            it.threads.to_string(),
            format!("{sign}{}", three_digits(it.rate)),
            three_digits(it.client_ns),
            three_digits(it.broker_ns),
            Nanos(it.loop_lag_max_ns).to_string(),
        ]
    });
    let heads = "unthrottled<|bytes|producers|loops|msg/s|CPU ns/msg|broker ns/msg|max lag";
    let mut out = style.strong(&sanitise(&machine)) + "\n\n" + &grid(heads, None, loads, style);
    if found.points.iter().any(|it| it.at_least) {
        out += &sentence(LOWER_BOUND, style);
    }
    out.push('\n');
    for late in &found.lateness {
        let [p50, p99, max] = [late.p50_ns, late.p99_ns, late.max_ns].map(Nanos);
        let rate = three_digits(late.rate);
        let text = format!("at {rate} msg/s its messages left {p50} late (p50), {p99} (p99), {max} (max)");
        out += &sentence(&text, style);
    }
    out
}
