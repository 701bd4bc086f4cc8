//! `doctor`: checks of this machine for measuring, and the generator's capacity on it.

use clap::Args;
use report::console::{Style, sanitise, wrap};
use session::doctor::{Check, Status};

use super::calibrate;
use crate::{Done, Failure, output};

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
    #[arg(long, env = "BELLOWS_QUIET")]
    quiet: bool,
    /// Print the checks as a JSON array, or the capacity as a JSON object
    #[arg(long)]
    json: bool,
}

impl DoctorArgs {
    /// Prints the checks, or the capacity. A check that fails is a finding, and no failure of the command.
    pub(crate) fn execute(self) -> Result<Done, Failure> {
        if self.calibrate {
            return calibrate::execute(self.show, self.quiet, self.json);
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
