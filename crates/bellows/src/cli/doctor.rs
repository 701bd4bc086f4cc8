//! `doctor`: checks of this machine for measuring, and the generator's capacity on it.

use clap::Args;
use clap::builder::FalseyValueParser;
use measure::{Nanos, counted};
use report::console::{Steps, Style, grid, sanitise, sentence, wrap};
use report::text::three_digits;
use session::calibration::{self, Calibration, Keeping};
use session::doctor::{Check, Status};

use crate::run_options::run_options;
use crate::{Done, Failure, output, signals};

/// Meaning of the sign before a rate.
const LOWER_BOUND: &str = ">= the generator could do more: broker, shared cores or other processes were the limit";

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  bellows doctor
  bellows doctor --json
  bellows doctor --calibrate           under a minute, on an otherwise idle machine
  bellows doctor --calibrate --show    the figures kept for this machine

--calibrate measures how much load this machine can generate, which verdicts of later runs compare with.")]
pub(crate) struct DoctorArgs {
    /// Measure the generator's capacity, for the verdicts of later runs
    #[arg(long)]
    calibrate: bool,
    /// With --calibrate: measure nothing, show what is kept for this machine
    #[arg(long, requires = "calibrate")]
    show: bool,
    /// With --calibrate: show no progress
    #[arg(long, env = "BELLOWS_QUIET", value_parser = FalseyValueParser::new())]
    quiet: bool,
    /// Print the checks as a JSON array, or the capacity as a JSON object
    #[arg(long)]
    json: bool,
}

impl DoctorArgs {
    /// Prints the checks, or the capacity. A check that fails is a finding, and no failure of the command.
    pub(crate) fn execute(self) -> Result<Done, Failure> {
        if self.calibrate {
            return calibrate(self.show, self.quiet, self.json);
        }
        let checks = session::doctor::checks();
        output::print_result(self.json, &checks, |style| shown(&checks, style))
    }
}

/// The checks, each with its value; meaning and fix below those that are not in order.
fn shown(checks: &[Check], style: Style) -> String {
    let names = checks.iter().map(|it| it.name.chars().count()).max().unwrap_or(0);
    let indent = 4 + 2 + names + 2;
    let room = style.columns.min(100).saturating_sub(indent).max(20);
    let mut out = String::new();
    for check in checks {
        let status = match check.status {
            Status::Ok => style.accent("ok  "),
            Status::Warn => style.caution("warn"),
            Status::Bad => style.alarm("bad "),
        };
        let mut lines = wrap(&sanitise(&check.observed), room);
        if check.status != Status::Ok {
            lines.extend(wrap(&sanitise(&check.meaning), room));
            lines.extend(check.fix.iter().flat_map(|fix| wrap(&format!("fix: {}", sanitise(fix)), room)));
        }
        let mut lines = lines.into_iter();
        let (name, first) = (sanitise(&check.name), lines.next().unwrap_or_default());
        out += &format!("{status}  {name:names$}  {first}\n");
        lines.for_each(|line| out += &format!("{:indent$}{line}\n", ""));
    }
    let number = |status| checks.iter().filter(|it| it.status == status).count();
    let (warn, bad) = (number(Status::Warn), number(Status::Bad));
    out + &format!("\n{} checks: {warn} warn, {bad} bad\n", checks.len())
}

/// Measures, keeps and prints the capacity, or prints the one that was kept where `show` asks for it.
fn calibrate(show: bool, quiet: bool, json: bool) -> Result<Done, Failure> {
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

#[cfg(test)]
mod tests {
    use report::console::width;

    use super::*;

    #[test]
    fn only_what_is_not_in_order_is_explained() {
        let check = |status, fix: Option<&str>| Check {
            name: "perf permissions".into(),
            status,
            observed: "kernel.perf_event_paranoid = 4".into(),
            meaning: "no profile of any process can be taken by this user".into(),
            fix: fix.map(str::to_owned),
        };
        let fix = "sysctl kernel.perf_event_paranoid=1";
        let text = shown(&[check(Status::Ok, None), check(Status::Bad, Some(fix))], Style::PLAIN);
        assert_eq!(text.matches("no profile of any process").count(), 1, "{text}");
        assert!(text.contains(&format!("fix: {fix}")), "{text}");
        assert!(text.contains("2 checks: 0 warn, 1 bad"), "{text}");
        assert!(text.lines().count() <= 24 && text.lines().all(|it| width(it) <= 100), "{text}");
    }
}
